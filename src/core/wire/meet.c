#include "core/wire/meet.h"

#include "core/base/deadline.h"

static const int64_t SLICE = 100000000;

/* CLU_OK: go on; else CLU_CANCELLED. */
static int wait_for(const clu_hs *h, clu_fd fd, unsigned want, clu_fd stop) {
  clu_watch set[2] = {{fd, want, 0}, {stop, CLU_READ, 0}};
  int n = 0;
  clu_os_poll(set, 2, clu_deadline_left(h->deadline, clu_os_now(), SLICE), &n, NULL);
  return n > 0 && set[1].ready ? CLU_CANCELLED : CLU_OK;
}

/* One read or write. CLU_OK, CLU_AGAIN: wait; else the connection has ended. */
static int step(clu_hs *h, clu_fd fd) {
  unsigned char bytes[CLU_HS_RESPONSE];
  int writing = h->out_left > 0, rc;
  size_t done = 0;
  clu_iov iov;
  iov.base = writing ? (void *)(uintptr_t)h->out : bytes;
  iov.len = writing ? h->out_left : clu_hs_want(h);
  rc = writing ? clu_os_writev(fd, &iov, 1, NULL, 0, &done)
               : clu_os_readv(fd, &iov, 1, &done, NULL, NULL);
  if (rc != CLU_OK) return rc;
  if (writing)
    clu_hs_written(h, done);
  else if (clu_hs_feed(h, bytes, done) == CLU_HS_PROVEN)
    clu_hs_admit(h, CLU_HS_ADMITTED);
  return CLU_OK;
}

static int is_over(const clu_hs *h) {
  return h->state == CLU_HS_FAILED || (h->state == CLU_HS_DONE && h->out_left == 0);
}

/* One whose last message has not left is not done. */
static void fail(clu_hs *h, int end(clu_hs *)) {
  if (h->state == CLU_HS_DONE) h->state = CLU_HS_UNDER_WAY;
  end(h);
}

static int time_is_up(clu_hs *h) { return clu_hs_time(h, clu_os_now()); }

int clu_hs_meet(clu_hs *h, clu_fd fd, clu_fd stop) {
  while (!is_over(h)) {
    int rc = step(h, fd);
    if (rc == CLU_OK) continue;
    if (rc != CLU_AGAIN)
      fail(h, clu_hs_closed);
    else if (clu_os_now() >= h->deadline) /* what came while this process was stopped was read */
      fail(h, time_is_up);
    else if (wait_for(h, fd, h->out_left > 0 ? CLU_WRITE : CLU_READ, stop) != CLU_OK)
      return CLU_CANCELLED;
  }
  return h->state == CLU_HS_DONE ? CLU_OK : CLU_PROTO;
}
