/* Readiness by poll(), where there is no epoll. */
#include "posix/features.h"
#if !defined(CLU_HAVE_EPOLL)
#if defined(__APPLE__)
#define _DARWIN_C_SOURCE
#endif

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/grow.h"
#include "core/base/os.h"

struct clu_poller {
  struct pollfd *fds;
  uint64_t *id;
  int n, from; /* from: where the next report begins, so that nobody starves */
  size_t cap;
};

clu_poller *clu_poller_new(clu_err *e) {
  clu_poller *p = calloc(1, sizeof *p);
  if (!p) clu_fail(e, CLU_NOMEM, 0, "not enough memory");
  return p;
}

void clu_poller_free(clu_poller *p) {
  if (!p) return;
  free(p->fds);
  free(p->id);
  free(p);
}

void clu_poller_close_in_child(const clu_poller *p) { (void)p; }

clu_fd clu_poller_descriptor(const clu_poller *p) {
  (void)p;
  return CLU_NO_FD;
}

int clu_poller_set(clu_poller *p, clu_fd fd, int known, unsigned interest, uint64_t id,
                   clu_err *e) {
  int i = 0;
  (void)known;
  while (i < p->n && p->fds[i].fd != (int)fd) i++;
  if (!interest) {
    if (i < p->n) {
      p->n--;
      p->fds[i] = p->fds[p->n];
      p->id[i] = p->id[p->n];
    }
    return CLU_OK;
  }
  if (i == p->n) {
    size_t cap = p->cap, same = p->cap, need = (size_t)p->n + 1;
    struct pollfd *f = clu_grow(p->fds, &cap, need, sizeof *f);
    uint64_t *w = clu_grow(p->id, &same, need, sizeof *w);
    if (f) p->fds = f;
    if (w) p->id = w;
    if (!f || !w) return clu_fail(e, CLU_NOMEM, 0, "not enough memory");
    p->cap = cap;
    p->n++;
  }
  p->fds[i].fd = (int)fd;
  p->fds[i].events =
      (short)((interest & CLU_READ ? POLLIN : 0) | (interest & CLU_WRITE ? POLLOUT : 0));
  p->fds[i].revents = 0;
  p->id[i] = id;
  return CLU_OK;
}

int clu_poller_wait(clu_poller *p, clu_event *events, int max, int *n, int64_t wait_ns,
                    clu_err *e) {
  int ms = clu_os_wait_ms(wait_ns), k;
  *n = 0;
  k = poll(p->fds, (nfds_t)p->n, ms);
  if (k < 0) {
    if (errno == EINTR) return CLU_OK;
    return clu_fail(e, CLU_SYS, errno, "waiting failed: %s", strerror(errno));
  }
  for (int j = 0; j < p->n && *n < max && *n < k; j++) {
    int i = (p->from + j) % p->n;
    short r = p->fds[i].revents;
    if (!r) continue;
    events[*n].id = p->id[i];
    events[*n].ready = (r & POLLIN ? CLU_READ : 0) | (r & POLLOUT ? CLU_WRITE : 0);
    if (r & (POLLERR | POLLHUP | POLLNVAL)) events[*n].ready |= CLU_READ | CLU_WRITE;
    ++*n;
  }
  if (p->n) p->from = (p->from + 1) % p->n;
  return CLU_OK;
}

/* The table of descriptors is not to be read while another thread changes it. */
int clu_poller_await(const clu_poller *p, int64_t wait_ns) {
  (void)p;
  (void)wait_ns;
  return CLU_UNSUPPORTED;
}

#else
typedef int clu_poll_poll_is_not_used_here;
#endif
