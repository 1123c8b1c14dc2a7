/* Names to addresses. The system's resolver blocks and cannot be interrupted, so it runs in a thread of its
 * own, which is left behind when nobody wants the answer any more. Numbers and "localhost" need none. */
#if defined(__linux__)
#define _GNU_SOURCE
#elif defined(__APPLE__)
#define _DARWIN_C_SOURCE
#endif

#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "net.h"

struct clu_resolve {
  pthread_mutex_t lock;
  int users; /* the asker and the thread */
  clu_fd done[2]; /* the thread writes a byte to [1] */
  char *host;
  int port, finished, status, n;
  clu_addr addr[CLU_MAX_ADDRS];
};

static void unuse(clu_resolve *r, int locked) {
  int left;
  if (!locked) pthread_mutex_lock(&r->lock);
  left = --r->users;
  pthread_mutex_unlock(&r->lock);
  if (left) return;
  for (int i = 0; i < 2; i++)
    if (r->done[i] != CLU_NO_FD) clu_os_close(r->done[i]);
  pthread_mutex_destroy(&r->lock);
  free(r->host);
  free(r);
}

/* getaddrinfo() into `addr`; returns its status */
static int ask(const char *host, int port, int flags, clu_addr *addr, int *n) {
  struct addrinfo hints, *all = NULL;
  char service[16];
  int status;
  memset(&hints, 0, sizeof hints);
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = flags;
  snprintf(service, sizeof service, "%d", port);
  status = getaddrinfo(host, service, &hints, &all);
  *n = 0;
  if (status) return status;
  for (struct addrinfo *a = all; a && *n < CLU_MAX_ADDRS; a = a->ai_next)
    if (a->ai_family == AF_INET || a->ai_family == AF_INET6) clu_net_put(&addr[(*n)++], a->ai_addr, a->ai_addrlen);
  freeaddrinfo(all);
  return *n ? 0 : EAI_NONAME;
}

static void *asker(void *data) {
  clu_resolve *r = data;
  clu_addr addr[CLU_MAX_ADDRS];
  clu_iov v = {(char[]){'x'}, 1};
  size_t put;
  int n, status = ask(r->host, r->port, AI_ADDRCONFIG, addr, &n);
  pthread_mutex_lock(&r->lock);
  memcpy(r->addr, addr, sizeof addr[0] * (size_t)n);
  r->n = n;
  r->status = status;
  r->finished = 1;
  clu_os_writev(r->done[1], &v, 1, CLU_NO_FD, &put);
  unuse(r, 1); /* before the asker can see that it is finished: nothing of it is left then */
  return NULL;
}

static void numeric(clu_resolve *r, const char *host) {
  int n;
  if (ask(host, r->port, AI_NUMERICHOST | AI_NUMERICSERV, &r->addr[r->n], &n) == 0) r->n += n;
}

clu_resolve *clu_os_resolve_start(const char *host, int port, clu_err *e) {
  clu_resolve *r = calloc(1, sizeof *r);
  pthread_attr_t attr;
  pthread_t thread;
  sigset_t all, old;
  int failed;
  if (!r) {
    clu_fail(e, CLU_NOMEM, 0, "not enough memory");
    return NULL;
  }
  pthread_mutex_init(&r->lock, NULL);
  r->users = 1;
  r->done[0] = r->done[1] = CLU_NO_FD;
  r->port = port;
  if (!host) {
    clu_os_addr_any(CLU_INET6, port, &r->addr[0]);
    clu_os_addr_any(CLU_INET, port, &r->addr[1]);
    r->n = 2;
  } else if (strcmp(host, "localhost") == 0) { /* IPv4 first, which is all that base R knows */
    numeric(r, "127.0.0.1");
    numeric(r, "::1");
  } else {
    numeric(r, host);
  }
  r->finished = r->n > 0;
  if (r->finished) return r;
  r->host = strdup(host);
  if (!r->host || clu_os_pair(r->done, e) != CLU_OK) {
    if (!r->host) clu_fail(e, CLU_NOMEM, 0, "not enough memory");
    clu_os_resolve_free(r);
    return NULL;
  }
  r->users = 2;
  pthread_attr_init(&attr);
  pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
  sigfillset(&all); /* signals are for the caller's thread */
  pthread_sigmask(SIG_BLOCK, &all, &old);
  failed = pthread_create(&thread, &attr, asker, r);
  pthread_sigmask(SIG_SETMASK, &old, NULL);
  pthread_attr_destroy(&attr);
  if (failed) {
    clu_fail(e, CLU_LIMIT, failed, "no thread can be started: %s", strerror(failed));
    r->users = 1;
    clu_os_resolve_free(r);
    return NULL;
  }
  return r;
}

int clu_os_resolve_wait(clu_resolve *r, int64_t wait_ns, clu_addr out[CLU_MAX_ADDRS], int *n, clu_err *e) {
  int finished;
  *n = 0;
  if (r->done[0] != CLU_NO_FD) clu_os_wait_readable(r->done[0], wait_ns);
  pthread_mutex_lock(&r->lock);
  finished = r->finished;
  pthread_mutex_unlock(&r->lock);
  if (!finished) return CLU_AGAIN;
  if (r->status)
    return clu_fail(e, CLU_DNS, r->status, "%s: this name has no address: %s", r->host, gai_strerror(r->status));
  memcpy(out, r->addr, sizeof out[0] * (size_t)r->n);
  *n = r->n;
  return CLU_OK;
}

void clu_os_resolve_free(clu_resolve *r) {
  if (r) unuse(r, 0);
}
