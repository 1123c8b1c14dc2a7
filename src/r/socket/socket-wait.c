#include "r/socket/socket.h"

int clu_socket_ready(clu_sock *s, unsigned want, uint64_t deadline, void (*undo)(void *),
                     void *data) {
  int64_t wait = clu_slice(deadline);
  if (clu_sock_wait(s, want, wait) != CLU_OK) clu_check_interrupt(undo, data);
  return clu_slice(deadline) > 0 || clu_sock_wait(s, want, 0) == CLU_OK;
}

static const uint64_t GRACE = 2000000000; /* ns that Ctrl-C waits for the rest of a message */

static void cut_short(void *s) {
  /* the peer sees an end, not half a message and then another */
  clu_sock_shutdown(s, CLU_WRITE, NULL);
}

void clu_socket_put_all(clu_sock *s, const void *from, size_t n) {
  size_t put = 0, k;
  uint64_t deadline = 0, grace = 0;
  while (put < n) {
    clu_err e = {0, 0, ""};
    int rc = clu_sock_put(s, (const char *)from + put, n - put, &k, &e);
    if (rc == CLU_OK) {
      put += k;
      deadline = 0;
      continue;
    }
    if (rc != CLU_AGAIN) clu_raise_socket(s, &e, (double)put);
    if (!deadline) deadline = clu_deadline_ns(s->timeout_ns);
    if (put && !grace) grace = clu_os_now() + GRACE;
    if (put && clu_os_now() < grace) {
      clu_sock_wait(s, CLU_WRITE, clu_slice(deadline));
      if (clu_slice(deadline) || clu_sock_wait(s, CLU_WRITE, 0) == CLU_OK) continue;
    } else if (clu_socket_ready(s, CLU_WRITE, deadline, put ? cut_short : NULL, s)) {
      continue;
    }
    clu_raise_timeout(s, "the peer takes nothing", (double)s->timeout_ns / 1e9, (double)put);
  }
}
