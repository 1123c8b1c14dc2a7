/* Readiness by epoll: interest is registered once and kept in the kernel. */
#include "posix/features.h"
#if defined(CLU_HAVE_EPOLL)
#define _GNU_SOURCE

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "core/base/os.h"

struct clu_poller {
  int ep;
};

clu_poller *clu_poller_new(clu_err *e) {
  clu_poller *p = malloc(sizeof *p);
  clu_fd fd;
  if (!p) {
    clu_fail(e, CLU_NOMEM, 0, "not enough memory");
    return NULL;
  }
  p->ep = epoll_create1(EPOLL_CLOEXEC);
  if (p->ep < 0) {
    clu_fail(e, errno == EMFILE || errno == ENFILE ? CLU_LIMIT : CLU_SYS, errno,
             "readiness cannot be watched: %s", strerror(errno));
    free(p);
    return NULL;
  }
  fd = p->ep;
  clu_os_move_high(&fd, 1024);
  p->ep = (int)fd;
  return p;
}

void clu_poller_free(clu_poller *p) {
  if (!p) return;
  close(p->ep);
  free(p);
}

void clu_poller_close_in_child(const clu_poller *p) { close(p->ep); }

int clu_poller_set(clu_poller *p, clu_fd fd, int known, unsigned interest, uint64_t id,
                   clu_err *e) {
  struct epoll_event ev;
  int op = !interest ? EPOLL_CTL_DEL : known ? EPOLL_CTL_MOD : EPOLL_CTL_ADD;
  memset(&ev, 0, sizeof ev);
  ev.data.u64 = id;
  if (interest & CLU_READ) ev.events |= EPOLLIN;
  if (interest & CLU_WRITE) ev.events |= EPOLLOUT;
  if (epoll_ctl(p->ep, op, (int)fd, &ev) != 0)
    return clu_fail(e, errno == ENOSPC ? CLU_LIMIT : CLU_SYS, errno,
                    "a descriptor cannot be watched: %s", strerror(errno));
  return CLU_OK;
}

int clu_poller_wait(clu_poller *p, clu_event *events, int max, int *n, int64_t wait_ns,
                    clu_err *e) {
  struct epoll_event got[64];
  int ms = clu_os_wait_ms(wait_ns), k;
  if (max > 64) max = 64;
  *n = 0;
  k = epoll_wait(p->ep, got, max, ms);
  if (k < 0) {
    if (errno == EINTR) return CLU_OK;
    return clu_fail(e, CLU_SYS, errno, "waiting failed: %s", strerror(errno));
  }
  for (int i = 0; i < k; i++) {
    events[i].id = got[i].data.u64;
    events[i].ready = 0;
    if (got[i].events & EPOLLIN) events[i].ready |= CLU_READ;
    if (got[i].events & EPOLLOUT) events[i].ready |= CLU_WRITE;
    if (got[i].events & (EPOLLERR | EPOLLHUP)) events[i].ready |= CLU_READ | CLU_WRITE;
  }
  *n = k;
  return CLU_OK;
}

/* An epoll instance is itself readable while it has something to report. */
int clu_poller_await(const clu_poller *p, int64_t wait_ns) {
  struct pollfd one = {.fd = p->ep, .events = POLLIN};
  poll(&one, 1, clu_os_wait_ms(wait_ns));
  return CLU_OK;
}
clu_fd clu_poller_descriptor(const clu_poller *p) { return p->ep; }

#else
typedef int clu_poll_epoll_is_not_used_here;
#endif
