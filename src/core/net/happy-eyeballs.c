#include "core/net/happy-eyeballs.h"

#include <stdlib.h>
#include <string.h>

#define HEAD_START 250000000u /* ns that an address has before the next one is tried, too */
#define RETRY 10000000u       /* ns before a full queue is asked again; no readiness tells of it */

struct clu_connector {
  int n, begun; /* addresses; how many have been tried */
  int send_buffer, receive_buffer;
  uint64_t next_at; /* when the next address begins */
  clu_fd fd[CLU_MAX_ADDRS];
  uint64_t retry_at[CLU_MAX_ADDRS]; /* 0: not to be asked again */
  clu_addr to[CLU_MAX_ADDRS];
  clu_err first, limit; /* failures: the first one, the last for want of descriptors */
};

clu_connector *clu_connector_new(const clu_addr *to, int n, int send_buffer, int receive_buffer,
                                 clu_err *e) {
  clu_connector *c = calloc(1, sizeof *c);
  if (!c) {
    clu_fail(e, CLU_NOMEM, 0, "not enough memory");
    return NULL;
  }
  c->n = n;
  c->send_buffer = send_buffer;
  c->receive_buffer = receive_buffer;
  memcpy(c->to, to, sizeof *to * (size_t)n);
  for (int i = 0; i < CLU_MAX_ADDRS; i++) c->fd[i] = CLU_NO_FD;
  return c;
}

void clu_connector_free(clu_connector *c) {
  if (!c) return;
  for (int i = 0; i < c->begun; i++)
    if (c->fd[i] != CLU_NO_FD) clu_os_close(c->fd[i]);
  free(c);
}

static int take(clu_connector *c, int i, clu_fd *fd, clu_addr *to) {
  *fd = c->fd[i];
  c->fd[i] = CLU_NO_FD;
  if (to) *to = c->to[i];
  return CLU_OK;
}

/* One attempt's outcome; 1: connected. */
static int outcome(clu_connector *c, int i, int rc, const clu_err *why) {
  if (rc == CLU_OK || rc == CLU_AGAIN) return rc == CLU_OK;
  if (c->fd[i] != CLU_NO_FD) clu_os_close(c->fd[i]);
  c->fd[i] = CLU_NO_FD;
  c->retry_at[i] = rc == CLU_BUSY ? clu_os_now() + RETRY : 0;
  if (!c->first.code) c->first = *why;
  return 0;
}

/* CLU_OK: connected. CLU_LIMIT: no descriptor is free, nothing has begun. Otherwise CLU_AGAIN. */
static int begin(clu_connector *c, int i) {
  clu_err why = {0, 0, ""};
  int rc = clu_os_connect_start(&c->to[i], c->send_buffer, c->receive_buffer, &c->fd[i], &why);
  /* on this machine the answer is there by now, although the call said that it is under way */
  if (rc == CLU_AGAIN) rc = clu_os_connect_finish(c->fd[i], &c->to[i], &why);
  if (rc == CLU_LIMIT) {
    c->limit = why;
    return rc;
  }
  return outcome(c, i, rc, &why) ? CLU_OK : CLU_AGAIN;
}

int clu_connector_step(clu_connector *c, int64_t wait_ns, clu_fd *fd, clu_addr *to, clu_err *e) {
  clu_watch w[CLU_MAX_ADDRS];
  int n = 0, later = 0;
  *fd = CLU_NO_FD;
  for (;;) {
    uint64_t now = clu_os_now(), soonest = UINT64_MAX;
    int under_way = 0;
    for (int i = 0; i < c->begun; i++) {
      clu_err why = {0, 0, ""};
      if (c->fd[i] != CLU_NO_FD) {
        if (outcome(c, i, clu_os_connect_finish(c->fd[i], &c->to[i], &why), &why))
          return take(c, i, fd, to);
      } else if (c->retry_at[i] && c->retry_at[i] <= now && begin(c, i) == CLU_OK) {
        return take(c, i, fd, to);
      }
      under_way += c->fd[i] != CLU_NO_FD;
      if (c->retry_at[i] && c->retry_at[i] < soonest) soonest = c->retry_at[i];
    }
    while (c->begun < c->n && (!under_way || now >= c->next_at)) {
      int i = c->begun, rc = begin(c, i);
      if (rc == CLU_LIMIT && !under_way) {
        if (e) *e = c->limit;
        return rc;
      }
      if (rc == CLU_LIMIT) { /* those under way go on, and may free one */
        c->next_at = now + RETRY;
        break;
      }
      c->begun++;
      if (rc == CLU_OK) return take(c, i, fd, to);
      under_way += c->fd[i] != CLU_NO_FD;
      if (c->retry_at[i] && c->retry_at[i] < soonest) soonest = c->retry_at[i];
      c->next_at = now + HEAD_START;
    }
    if (!under_way && soonest == UINT64_MAX) {
      if (e) *e = c->first;
      return c->first.code;
    }
    if (later || wait_ns <= 0) {
      if (e) *e = c->first;
      return CLU_AGAIN;
    }
    if (c->begun < c->n && c->next_at < soonest) soonest = c->next_at;
    now = clu_os_now();
    if (soonest != UINT64_MAX) {
      int64_t until = soonest > now ? (int64_t)(soonest - now) : 0;
      if (until < wait_ns) wait_ns = until;
    }
    for (int i = 0; i < c->begun; i++) {
      w[i].fd = c->fd[i];
      w[i].want = CLU_WRITE;
    }
    clu_os_poll(w, c->begun, wait_ns, &n, NULL);
    later = 1;
  }
}
