#include "core/net/resolve.h"

#include <stdlib.h>
#include <string.h>

#include "core/base/addr.h"

#define MOST 16             /* threads */
#define ONE_WAIT 1000000000 /* ns: a wait without an end is repeated that often */
enum { NONE, RUNS, ENDED };

typedef struct lookup {
  struct lookup *next;
  char *host;
  clu_pid owner;
  int users; /* clu_resolve's that want it */
  enum { WAITS, ASKS, DONE } state;
  int status, n; /* when it is done: it is not on the list any more */
  clu_addr addr[CLU_MAX_ADDRS];
} lookup;

struct clu_resolve {
  lookup *lookup; /* NULL: known at once */
  int port, n;
  clu_addr addr[CLU_MAX_ADDRS];
};

/* clu_os_lock() guards all of it. */
static struct {
  lookup *first; /* in the order in which they came */
  struct {
    int state; /* NONE, RUNS, ENDED */
    clu_thread thread;
  } slot[MOST];
} all;

/* In a forked child the threads are not there: everything begins anew. */
static void lock(void) {
  if (clu_os_lock()) memset(&all, 0, sizeof all);
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

/* With the lock held, which threads that have ended do not need any more. */
static void join_ended(void) {
  for (int i = 0; i < MOST; i++)
    if (all.slot[i].state == ENDED) {
      clu_os_thread_join(all.slot[i].thread);
      all.slot[i].state = NONE;
    }
}

/* A thread: takes one look-up after the other until none waits. */
static void ask_all(void *data) {
  int *state = data;
  clu_addr addr[CLU_MAX_ADDRS];
  clu_os_lock();
  for (;;) {
    lookup *l = all.first;
    int n, status;
    while (l && l->state != WAITS) l = l->next;
    if (!l) break;
    l->state = ASKS;
    clu_os_unlock();
    status = clu_os_ask_name(l->host, 0, addr, &n);
    clu_os_lock();
    memcpy(l->addr, addr, sizeof addr[0] * (size_t)n);
    l->n = n;
    l->status = status;
    l->state = DONE;
    unlist(l);
    if (!l->users) drop(l);
    clu_os_lock_wake();
  }
  *state = ENDED;
  clu_os_unlock();
}

/* One more thread, where there may be one. CLU_OK also when there are others. */
static int start_thread(clu_err *e) {
  int unused = -1, running = 0;
  join_ended();
  for (int i = 0; i < MOST; i++) {
    if (all.slot[i].state == RUNS)
      running++;
    else
      unused = i;
  }
  if (unused < 0) return CLU_OK;
  all.slot[unused].state = RUNS;
  if (clu_os_thread_start(ask_all, &all.slot[unused].state, &all.slot[unused].thread,
                          running ? NULL : e) == CLU_OK)
    return CLU_OK;
  all.slot[unused].state = NONE;
  return running ? CLU_OK : CLU_LIMIT;
}

static void numeric(clu_resolve *r, const char *host) {
  int n;
  if (clu_os_ask_name(host, 1, &r->addr[r->n], &n) == 0) r->n += n;
}

static lookup *lookup_new(const char *host, clu_err *e) {
  lookup *l = calloc(1, sizeof *l);
  if (l && (l->host = malloc(strlen(host) + 1))) {
    strcpy(l->host, host);
    l->owner = clu_os_getpid();
    return l;
  }
  free(l);
  clu_fail(e, CLU_NOMEM, 0, "not enough memory");
  return NULL;
}

/* The look-up of that name: one that is under way, or a new one. */
static lookup *lookup_of(const char *host, clu_err *e) {
  lookup *l, **end;
  lock();
  for (end = &all.first; *end && strcmp((*end)->host, host) != 0; end = &(*end)->next) continue;
  l = *end;
  if (!l && (l = lookup_new(host, e))) {
    *end = l;
    if (start_thread(e) != CLU_OK) {
      unlist(l);
      drop(l);
      l = NULL;
    }
  }
  if (l) l->users++;
  clu_os_unlock();
  return l;
}

clu_resolve *clu_resolve_start(const char *host, int port, clu_err *e) {
  clu_resolve *r = calloc(1, sizeof *r);
  if (!r) {
    clu_fail(e, CLU_NOMEM, 0, "not enough memory");
    return NULL;
  }
  r->port = port;
  if (!host) {
    clu_addr_any(CLU_INET6, port, &r->addr[0]);
    clu_addr_any(CLU_INET, port, &r->addr[1]);
    r->n = 2;
  } else if (strcmp(host, "localhost") == 0) { /* IPv4 first, which is all that base R knows */
    numeric(r, "127.0.0.1");
    numeric(r, "::1");
  } else {
    numeric(r, host);
  }
  if (r->n > 0) return r;
  if (!(r->lookup = lookup_of(host, e))) {
    free(r);
    return NULL;
  }
  return r;
}

/* Until the look-up has its answer, for `wait_ns` at most. */
static int await(clu_resolve *r, int64_t wait_ns, clu_err *e) {
  lookup *l = r->lookup;
  uint64_t end = clu_os_now() + (uint64_t)(wait_ns < 0 ? 0 : wait_ns);
  char text[CLU_NAME_TEXT];
  int rc = CLU_OK;
  if (l->owner != clu_os_getpid())
    return clu_fail(e, CLU_CLOSED, 0, "a name was asked for by the parent of this process");
  lock();
  while (l->state != DONE) {
    uint64_t now = clu_os_now();
    if (wait_ns >= 0 && now >= end) break;
    clu_os_lock_wait(wait_ns < 0 ? ONE_WAIT : (int64_t)(end - now));
  }
  if (l->state != DONE)
    rc = CLU_AGAIN;
  else if (l->status)
    rc = clu_fail(e, CLU_DNS, l->status, "%s: this name has no address: %s", l->host,
                  clu_os_ask_name_text(l->status, text));
  else
    memcpy(r->addr, l->addr, sizeof l->addr[0] * (size_t)(r->n = l->n));
  clu_os_unlock();
  return rc;
}

int clu_resolve_wait(clu_resolve *r, int64_t wait_ns, clu_addr out[CLU_MAX_ADDRS], int *n,
                     clu_err *e) {
  int rc = r->lookup ? await(r, wait_ns, e) : CLU_OK;
  *n = 0;
  if (rc != CLU_OK) return rc;
  memcpy(out, r->addr, sizeof out[0] * (size_t)r->n);
  for (int i = 0; i < r->n; i++) clu_os_addr_set_port(&out[i], r->port);
  *n = r->n;
  return CLU_OK;
}

void clu_resolve_free(clu_resolve *r) {
  if (!r) return;
  if (r->lookup && r->lookup->owner == clu_os_getpid()) {
    lookup *l = r->lookup;
    lock();
    if (!--l->users && l->state != ASKS) { /* else its thread frees it */
      if (l->state == WAITS) unlist(l);
      drop(l);
    }
    join_ended();
    clu_os_unlock();
  }
  free(r);
}

int clu_resolve_threads(void) {
  int n = 0;
  lock();
  join_ended();
  for (int i = 0; i < MOST; i++) n += all.slot[i].state == RUNS;
  clu_os_unlock();
  return n;
}

int clu_resolve_now(const char *host, int port, int64_t wait_ns, clu_addr out[CLU_MAX_ADDRS],
                    int *n, clu_err *e) {
  clu_resolve *r = clu_resolve_start(host, port, e);
  int rc;
  if (!r) return e ? e->code : CLU_NOMEM;
  rc = clu_resolve_wait(r, wait_ns, out, n, e);
  clu_resolve_free(r);
  return rc == CLU_AGAIN
             ? clu_fail(e, CLU_TIMEOUT, 0, "%s: timeout: the name's address is not known", host)
             : rc;
}

void clu_resolve_any(clu_addr *out) {
  clu_listen how = {0, 0, 0};
  clu_fd fd;
  clu_addr_any(CLU_INET6, 0, out);
  if (clu_os_listen(out, &how, &fd, NULL, NULL) == CLU_OK)
    clu_os_close(fd);
  else
    clu_addr_any(CLU_INET, 0, out);
}

int clu_resolve_listener(const char *host, clu_addr *out, clu_err *e) {
  clu_addr all[CLU_MAX_ADDRS];
  int n = 0, rc = CLU_OK;
  if (!*host)
    clu_resolve_any(out);
  else if ((rc = clu_resolve_now(host, 0, 5000000000, all, &n, e)) == CLU_OK)
    *out = all[0];
  return rc;
}
