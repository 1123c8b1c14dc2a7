/* Names to addresses. The system's resolver blocks and cannot be interrupted, so it runs in threads of its
 * own. Whoever asks waits for a look-up, which is shared by all that want the same name at the time. One that
 * nobody wants any more goes on until the resolver has answered, for a thread cannot be ended, but there are never
 * more than MOST threads: further names wait for one of them. A look-up uses no descriptor. Numbers and
 * "localhost" need none of this.
 *
 * The lock guards the list and what is in it. Threads end when no name waits, and are joined by whoever comes next, so
 * that none is in code of this library when clu_os_resolvers() says 0. In a forked child nothing of it is in use.
 */
#if defined(__linux__)
#define _GNU_SOURCE
#elif defined(__APPLE__)
#define _DARWIN_C_SOURCE
#endif

#include <netdb.h>
#include <netinet/in.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "posix/net.h"

#define MOST 16 /* threads */
enum { NONE, RUNS, ENDED };

typedef struct lookup {
  struct lookup *next;
  char *host;
  pid_t owner;
  int users; /* handles */
  enum { WAITS, ASKS, DONE } state;
  int status, n; /* when it is done: it is not on the list any more */
  clu_addr addr[CLU_MAX_ADDRS];
} lookup;

struct clu_resolve {
  lookup *look; /* NULL: known at once */
  int port, n;
  clu_addr addr[CLU_MAX_ADDRS];
};

static struct {
  pthread_mutex_t lock;
  pthread_cond_t done;
  pid_t owner;
  lookup *first; /* in the order in which they came */
  struct {
    int state; /* NONE, RUNS, ENDED */
    pthread_t id;
  } thread[MOST];
} all;

/* Takes the lock. In a forked child it may be held by a thread that is not there: everything begins anew. */
static void enter(void) {
  if (all.owner != getpid()) {
    memset(&all, 0, sizeof all);
    pthread_mutex_init(&all.lock, NULL);
#if defined(__APPLE__)
    pthread_cond_init(&all.done, NULL);
#else
    pthread_condattr_t attr;
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&all.done, &attr);
    pthread_condattr_destroy(&attr);
#endif
    all.owner = getpid();
  }
  pthread_mutex_lock(&all.lock);
}

static void leave(void) { pthread_mutex_unlock(&all.lock); }

/* Waits for `done` with the lock held; wakes early now and then. */
static void wait_done(int64_t ns) {
  struct timespec t;
#if defined(__APPLE__)
  t.tv_sec = (time_t)(ns / 1000000000);
  t.tv_nsec = (long)(ns % 1000000000);
  pthread_cond_timedwait_relative_np(&all.done, &all.lock, &t);
#else
  clock_gettime(CLOCK_MONOTONIC, &t);
  t.tv_sec += (time_t)(ns / 1000000000);
  t.tv_nsec += (long)(ns % 1000000000);
  if (t.tv_nsec >= 1000000000) {
    t.tv_sec++;
    t.tv_nsec -= 1000000000;
  }
  pthread_cond_timedwait(&all.done, &all.lock, &t);
#endif
}

static void unlist(lookup *l) {
  lookup **at = &all.first;
  while (*at && *at != l) at = &(*at)->next;
  if (*at) *at = l->next;
}

static void drop(lookup *l) {
  free(l->host);
  free(l);
}

/* With the lock held. Those that have ended do not need it any more. */
static void join_ended(void) {
  for (int i = 0; i < MOST; i++)
    if (all.thread[i].state == ENDED) {
      pthread_join(all.thread[i].id, NULL);
      all.thread[i].state = NONE;
    }
}

/* getaddrinfo() into `addr`; returns its status */
static int ask(const char *host, int flags, clu_addr *addr, int *n) {
  struct addrinfo hints, *found = NULL;
  int status;
  memset(&hints, 0, sizeof hints);
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = flags;
  status = getaddrinfo(host, NULL, &hints, &found);
  *n = 0;
  if (status) return status;
  for (struct addrinfo *a = found; a && *n < CLU_MAX_ADDRS; a = a->ai_next)
    if (a->ai_family == AF_INET || a->ai_family == AF_INET6) clu_net_put(&addr[(*n)++], a->ai_addr, a->ai_addrlen);
  freeaddrinfo(found);
  return *n ? 0 : EAI_NONAME;
}

static void *asker(void *data) {
  int *state = data;
  clu_addr addr[CLU_MAX_ADDRS];
  pthread_mutex_lock(&all.lock);
  for (;;) {
    lookup *l = all.first;
    int n, status;
    while (l && l->state != WAITS) l = l->next;
    if (!l) break;
    l->state = ASKS;
    pthread_mutex_unlock(&all.lock);
    status = ask(l->host, 0, addr, &n);
    pthread_mutex_lock(&all.lock);
    memcpy(l->addr, addr, sizeof addr[0] * (size_t)n);
    l->n = n;
    l->status = status;
    l->state = DONE;
    unlist(l);
    if (!l->users) drop(l);
    pthread_cond_broadcast(&all.done);
  }
  *state = ENDED;
  pthread_mutex_unlock(&all.lock);
  return NULL;
}

/* One more thread, where there may be one. An errno if there is none at all, otherwise 0. */
static int start_thread(void) {
  sigset_t every, old;
  int free_one = -1, running = 0, failed;
  join_ended();
  for (int i = 0; i < MOST; i++) {
    if (all.thread[i].state == RUNS)
      running++;
    else
      free_one = i;
  }
  if (free_one < 0) return 0;
  sigfillset(&every); /* signals are for the caller's thread */
  pthread_sigmask(SIG_BLOCK, &every, &old);
  all.thread[free_one].state = RUNS;
  failed = pthread_create(&all.thread[free_one].id, NULL, asker, &all.thread[free_one].state);
  if (failed) all.thread[free_one].state = NONE;
  pthread_sigmask(SIG_SETMASK, &old, NULL);
  return failed && !running ? failed : 0;
}

static void numeric(clu_resolve *r, const char *host) {
  int n;
  if (ask(host, AI_NUMERICHOST, &r->addr[r->n], &n) == 0) r->n += n;
}

/* The look-up of that name: one that is under way, or a new one. */
static lookup *look_up(const char *host, clu_err *e) {
  lookup *l, **end;
  int failed = 0;
  enter();
  for (end = &all.first; *end && strcmp((*end)->host, host) != 0; end = &(*end)->next) continue;
  l = *end;
  if (!l) {
    l = calloc(1, sizeof *l);
    if (!l || !(l->host = strdup(host))) {
      free(l);
      leave();
      clu_fail(e, CLU_NOMEM, 0, "not enough memory");
      return NULL;
    }
    l->owner = all.owner;
    *end = l;
    failed = start_thread();
  }
  if (failed) {
    unlist(l);
    drop(l);
    l = NULL;
    clu_fail(e, CLU_LIMIT, failed, "no thread can be started: %s", strerror(failed));
  } else {
    l->users++;
  }
  leave();
  return l;
}

clu_resolve *clu_os_resolve_start(const char *host, int port, clu_err *e) {
  clu_resolve *r = calloc(1, sizeof *r);
  if (!r) {
    clu_fail(e, CLU_NOMEM, 0, "not enough memory");
    return NULL;
  }
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
  if (r->n > 0) return r;
  if (!(r->look = look_up(host, e))) {
    free(r);
    return NULL;
  }
  return r;
}

int clu_os_resolve_wait(clu_resolve *r, int64_t wait_ns, clu_addr out[CLU_MAX_ADDRS], int *n, clu_err *e) {
  lookup *l = r->look;
  uint64_t end = clu_os_now() + (uint64_t)(wait_ns < 0 ? 0 : wait_ns);
  *n = 0;
  if (l) {
    int rc = CLU_OK;
    if (l->owner != getpid()) return clu_fail(e, CLU_CLOSED, 0, "a name was asked for by the parent of this process");
    enter();
    while (l->state != DONE) {
      uint64_t now = clu_os_now();
      if (wait_ns >= 0 && now >= end) break;
      wait_done(wait_ns < 0 ? 1000000000 : (int64_t)(end - now));
    }
    if (l->state != DONE)
      rc = CLU_AGAIN;
    else if (l->status)
      rc = clu_fail(e, CLU_DNS, l->status, "%s: this name has no address: %s", l->host, gai_strerror(l->status));
    else
      memcpy(r->addr, l->addr, sizeof l->addr[0] * (size_t)(r->n = l->n));
    leave();
    if (rc != CLU_OK) return rc;
  }
  memcpy(out, r->addr, sizeof out[0] * (size_t)r->n);
  for (int i = 0; i < r->n; i++) clu_os_addr_set_port(&out[i], r->port);
  *n = r->n;
  return CLU_OK;
}

void clu_os_resolve_free(clu_resolve *r) {
  if (!r) return;
  if (r->look && r->look->owner == getpid()) {
    lookup *l = r->look;
    enter();
    if (!--l->users && l->state != ASKS) { /* otherwise the thread does it */
      if (l->state == WAITS) unlist(l);
      drop(l);
    }
    join_ended();
    leave();
  }
  free(r);
}

int clu_os_resolvers(void) {
  int n = 0;
  enter();
  join_ended();
  for (int i = 0; i < MOST; i++) n += all.thread[i].state == RUNS;
  leave();
  return n;
}
