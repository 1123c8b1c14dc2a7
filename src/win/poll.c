/* Readiness by WSAPoll(). Before Windows 10 version 2004 it says nothing of a connection that
 * failed, and a wait for one would last to its end. select() tells of those, as an exception: so
 * while a wait is for writing, too, it is cut into slices, and select() is asked between them. */
#include "win/win.h"

#include <stdlib.h>
#include <string.h>

#include "core/base/grow.h"

#define SLICE 20000000 /* ns */

/* select()'s set, of any size: the system reads the count and as many sockets. */
typedef struct large_set {
  u_int count;
  SOCKET socket[1];
} large_set;

/* Marks those that could not connect. How many. */
static int failed_connects(WSAPOLLFD *set, int n) {
  struct timeval no_time = {0, 0};
  large_set *s = malloc(sizeof *s + (size_t)n * sizeof(SOCKET));
  int found = 0;
  if (!s) return 0;
  s->count = 0;
  for (int i = 0; i < n; i++)
    if ((set[i].events & POLLWRNORM) && !set[i].revents) s->socket[s->count++] = set[i].fd;
  if (s->count && select(0, NULL, NULL, (fd_set *)(void *)s, &no_time) > 0) {
    /* the set holds, in their old order, those that failed */
    u_int k = 0;
    for (int i = 0; i < n && k < s->count; i++) {
      if (set[i].fd != s->socket[k] || set[i].revents) continue;
      set[i].revents = POLLERR | POLLHUP;
      k++;
      found++;
    }
  }
  free(s);
  return found;
}

int clu_win_poll(WSAPOLLFD *set, int n, int64_t wait_ns) {
  uint64_t begun = clu_os_now();
  int writing = 0;
  if (n == 0) { /* which WSAPoll() refuses */
    if (wait_ns) Sleep(wait_ns < 0 ? INFINITE : (DWORD)clu_os_wait_ms(wait_ns));
    return 0;
  }
  for (int i = 0; i < n; i++) writing |= set[i].events & POLLWRNORM;
  for (;;) {
    int64_t left = wait_ns;
    int k;
    if (wait_ns > 0) {
      uint64_t gone = clu_os_now() - begun;
      left = gone < (uint64_t)wait_ns ? wait_ns - (int64_t)gone : 0;
    }
    k = WSAPoll(set, (ULONG)n,
                clu_os_wait_ms(writing && (left < 0 || left > SLICE) ? SLICE : left));
    if (k != 0) return k < 0 ? -1 : k;
    if (writing && (k = failed_connects(set, n)) > 0) return k;
    if (left >= 0 && (!writing || left <= SLICE)) return 0;
  }
}

static short events_of(unsigned interest) {
  return (short)((interest & CLU_READ ? POLLRDNORM : 0) | (interest & CLU_WRITE ? POLLWRNORM : 0));
}

static unsigned ready_of(short r) {
  if (r & (POLLERR | POLLHUP | POLLNVAL)) return CLU_READ | CLU_WRITE;
  return (r & POLLRDNORM ? CLU_READ : 0u) | (r & POLLWRNORM ? CLU_WRITE : 0u);
}

static int wait_failed(clu_err *e) {
  char text[CLU_WIN_TEXT];
  int err = WSAGetLastError();
  return clu_fail(e, CLU_SYS, err, "waiting failed: %s", clu_win_text(err, text));
}

/* ---- registered interest ---- */

struct clu_poller {
  WSAPOLLFD *fds;
  uint64_t *id;
  int n, from; /* from: where the next report begins, so that nobody starves */
  size_t cap;
};

clu_poller *clu_poller_new(clu_err *e) {
  clu_poller *p;
  if (clu_win_start(e) != CLU_OK) return NULL;
  p = calloc(1, sizeof *p);
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
  while (i < p->n && p->fds[i].fd != (SOCKET)fd) i++;
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
    WSAPOLLFD *f = clu_grow(p->fds, &cap, need, sizeof *f);
    uint64_t *w = clu_grow(p->id, &same, need, sizeof *w);
    if (f) p->fds = f;
    if (w) p->id = w;
    if (!f || !w) return clu_fail(e, CLU_NOMEM, 0, "not enough memory");
    p->cap = cap;
    p->n++;
  }
  p->fds[i].fd = (SOCKET)fd;
  p->fds[i].events = events_of(interest);
  p->fds[i].revents = 0;
  p->id[i] = id;
  return CLU_OK;
}

int clu_poller_wait(clu_poller *p, clu_event *events, int max, int *n, int64_t wait_ns,
                    clu_err *e) {
  int k;
  *n = 0;
  k = clu_win_poll(p->fds, p->n, wait_ns);
  if (k < 0) return wait_failed(e);
  for (int j = 0; j < p->n && *n < max && *n < k; j++) {
    int i = (p->from + j) % p->n;
    unsigned ready = ready_of(p->fds[i].revents);
    if (!ready) continue;
    events[*n].id = p->id[i];
    events[(*n)++].ready = ready;
  }
  if (p->n) p->from = (p->from + 1) % p->n;
  return CLU_OK;
}

/* ---- a set for one time ---- */

int clu_os_poll(clu_watch *set, int count, int64_t wait_ns, int *n, clu_err *e) {
  WSAPOLLFD few[32], *p = few;
  int used = 0, k;
  *n = 0;
  if (clu_win_start(e) != CLU_OK) return CLU_SYS;
  if (count > 32 && !(p = malloc((size_t)count * sizeof *p)))
    return clu_fail(e, CLU_NOMEM, 0, "not enough memory");
  for (int i = 0; i < count; i++) {
    set[i].ready = 0;
    if (set[i].fd == CLU_NO_FD) continue;
    p[used].fd = (SOCKET)set[i].fd;
    p[used].events = events_of(set[i].want);
    p[used++].revents = 0;
  }
  k = clu_win_poll(p, used, wait_ns);
  if (k < 0) wait_failed(e);
  for (int i = 0, j = 0; i < count && k > 0; i++) {
    if (set[i].fd == CLU_NO_FD) continue;
    set[i].ready = ready_of(p[j++].revents) & set[i].want;
    if (set[i].ready) ++*n;
  }
  if (p != few) free(p);
  return k < 0 ? CLU_SYS : CLU_OK;
}

/* The table of descriptors is not to be read while another thread changes it. */
int clu_poller_await(const clu_poller *p, int64_t wait_ns) {
  (void)p;
  (void)wait_ns;
  return CLU_UNSUPPORTED;
}
