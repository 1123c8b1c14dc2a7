#include "core/net/port-probe.h"

#include <stdlib.h>
#include <string.h>

#define AT_A_TIME 128

struct clu_probe {
  int n, begun, left, under_way;
  clu_addr *to;
  signed char *answer;
  int who[AT_A_TIME]; /* which address each watch belongs to */
  clu_watch watch[AT_A_TIME];
};

clu_probe *clu_probe_new(const clu_addr *to, int n, clu_err *e) {
  clu_probe *p = calloc(1, sizeof *p);
  size_t k = n > 0 ? (size_t)n : 1;
  if (p) {
    p->to = malloc(k * sizeof *to);
    p->answer = malloc(k);
  }
  if (!p || !p->to || !p->answer) {
    clu_probe_free(p);
    clu_fail(e, CLU_NOMEM, 0, "not enough memory");
    return NULL;
  }
  if (n > 0) memcpy(p->to, to, (size_t)n * sizeof *to);
  memset(p->answer, -1, k);
  p->n = p->left = n;
  return p;
}

void clu_probe_free(clu_probe *p) {
  if (!p) return;
  for (int i = 0; i < p->under_way; i++) clu_os_close(p->watch[i].fd);
  free(p->to);
  free(p->answer);
  free(p);
}

int clu_probe_answer(const clu_probe *p, int i) { return p->answer[i]; }

static void answered(clu_probe *p, int i, int yes) {
  p->answer[i] = (signed char)yes;
  p->left--;
}

/* Begins further ones while there is room. */
static int begin(clu_probe *p, clu_err *e) {
  while (p->begun < p->n && p->under_way < AT_A_TIME) {
    clu_fd fd;
    int i = p->begun, rc = clu_os_connect_start(&p->to[i], 0, 0, &fd, e);
    if (rc == CLU_LIMIT) return p->under_way ? CLU_OK : rc; /* later, when one is free again */
    p->begun++;
    /* dead ports of this machine have answered by now, whatever the call said */
    if (rc == CLU_AGAIN) rc = clu_os_connect_finish(fd, &p->to[i], NULL);
    if (rc == CLU_AGAIN) {
      p->who[p->under_way] = i;
      p->watch[p->under_way].fd = fd;
      p->watch[p->under_way++].want = CLU_WRITE;
      continue;
    }
    if (fd != CLU_NO_FD) clu_os_close(fd);
    answered(p, i, rc == CLU_OK || rc == CLU_BUSY); /* a full queue is somebody's */
  }
  return CLU_OK;
}

int clu_probe_step(clu_probe *p, int64_t wait_ns, clu_err *e) {
  for (;;) {
    int rc = begin(p, e), ready = 0, before = p->left;
    if (rc != CLU_OK) return rc;
    if (!p->left) return CLU_OK;
    rc = clu_os_poll(p->watch, p->under_way, wait_ns, &ready, e);
    if (rc != CLU_OK) return rc;
    for (int i = p->under_way - 1; i >= 0 && ready; i--) {
      if (!p->watch[i].ready) continue;
      ready--;
      rc = clu_os_connect_finish(p->watch[i].fd, &p->to[p->who[i]], NULL);
      if (rc == CLU_AGAIN) continue;
      clu_os_close(p->watch[i].fd);
      answered(p, p->who[i], rc == CLU_OK);
      p->under_way--;
      p->watch[i] = p->watch[p->under_way];
      p->who[i] = p->who[p->under_way];
    }
    if (p->left == before) return CLU_AGAIN;
    wait_ns = 0;
  }
}
