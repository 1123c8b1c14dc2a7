/* Names to addresses on Windows: as posix/resolve.c. Look-ups are shared by all that want the same name at the time,
 * go on when nobody wants them any more, and wait when MOST threads are asking. */
#include "win/win.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MOST 16 /* threads */
enum { NONE, RUNS, ENDED };

typedef struct lookup {
  struct lookup *next;
  char *host;
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

/* The lock guards the list and what is in it. */
static struct {
  SRWLOCK lock;
  CONDITION_VARIABLE done;
  lookup *first; /* in the order in which they came */
  struct {
    int state; /* NONE, RUNS, ENDED */
    HANDLE handle;
  } thread[MOST];
} all = {SRWLOCK_INIT, CONDITION_VARIABLE_INIT, NULL, {{0, NULL}}};

static void enter(void) { AcquireSRWLockExclusive(&all.lock); }
static void leave(void) { ReleaseSRWLockExclusive(&all.lock); }

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
      WaitForSingleObject(all.thread[i].handle, INFINITE);
      CloseHandle(all.thread[i].handle);
      all.thread[i].state = NONE;
    }
}

/* GetAddrInfoW() into `addr`; returns its status */
static int ask(const char *host, int flags, clu_addr *addr, int *n) {
  ADDRINFOW hints, *found = NULL;
  wchar_t *name = clu_win_wide(host);
  int status;
  *n = 0;
  if (!name) return WSA_NOT_ENOUGH_MEMORY;
  memset(&hints, 0, sizeof hints);
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = flags;
  status = GetAddrInfoW(name, NULL, &hints, &found);
  free(name);
  if (status) return status;
  for (ADDRINFOW *a = found; a && *n < CLU_MAX_ADDRS; a = a->ai_next)
    if (a->ai_family == AF_INET || a->ai_family == AF_INET6) clu_win_put(&addr[(*n)++], a->ai_addr, a->ai_addrlen);
  FreeAddrInfoW(found);
  return *n ? 0 : WSAHOST_NOT_FOUND;
}

static DWORD WINAPI asker(void *data) {
  int *state = data;
  clu_addr addr[CLU_MAX_ADDRS];
  enter();
  for (;;) {
    lookup *l = all.first;
    int n, status;
    while (l && l->state != WAITS) l = l->next;
    if (!l) break;
    l->state = ASKS;
    leave();
    status = ask(l->host, AI_ADDRCONFIG, addr, &n);
    enter();
    memcpy(l->addr, addr, sizeof addr[0] * (size_t)n);
    l->n = n;
    l->status = status;
    l->state = DONE;
    unlist(l);
    if (!l->users) drop(l);
    WakeAllConditionVariable(&all.done);
  }
  *state = ENDED;
  leave();
  return 0;
}

/* One more thread, where there may be one. The system's number of a failure if there is none at all, otherwise 0. */
static int start_thread(void) {
  int free_one = -1, running = 0;
  join_ended();
  for (int i = 0; i < MOST; i++) {
    if (all.thread[i].state == RUNS)
      running++;
    else
      free_one = i;
  }
  if (free_one < 0) return 0;
  /* not by the C library's own: the thread uses nothing of it that needs more */
  all.thread[free_one].state = RUNS;
  all.thread[free_one].handle = CreateThread(NULL, 0, asker, &all.thread[free_one].state, 0, NULL);
  if (all.thread[free_one].handle) return 0;
  all.thread[free_one].state = NONE;
  return running ? 0 : (int)GetLastError();
}

static void numeric(clu_resolve *r, const char *host) {
  int n;
  if (ask(host, AI_NUMERICHOST, &r->addr[r->n], &n) == 0) r->n += n;
}

/* The look-up of that name: one that is under way, or a new one. */
static lookup *look_up(const char *host, clu_err *e) {
  lookup *l, **end;
  char text[CLU_WIN_TEXT];
  int failed = 0;
  enter();
  for (end = &all.first; *end && strcmp((*end)->host, host) != 0; end = &(*end)->next) continue;
  l = *end;
  if (!l) {
    l = calloc(1, sizeof *l);
    if (l && (l->host = malloc(strlen(host) + 1))) strcpy(l->host, host);
    if (!l || !l->host) {
      free(l);
      leave();
      clu_fail(e, CLU_NOMEM, 0, "not enough memory");
      return NULL;
    }
    *end = l;
    failed = start_thread();
  }
  if (failed) {
    unlist(l);
    drop(l);
    l = NULL;
    clu_fail(e, CLU_LIMIT, failed, "no thread can be started: %s", clu_win_text(failed, text));
  } else {
    l->users++;
  }
  leave();
  return l;
}

clu_resolve *clu_os_resolve_start(const char *host, int port, clu_err *e) {
  clu_resolve *r;
  if (clu_win_start(e) != CLU_OK) return NULL;
  r = calloc(1, sizeof *r);
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
    char text[CLU_WIN_TEXT];
    int rc = CLU_OK;
    enter();
    while (l->state != DONE) {
      uint64_t now = clu_os_now();
      if (wait_ns >= 0 && now >= end) break;
      SleepConditionVariableSRW(&all.done, &all.lock,
                                wait_ns < 0 ? INFINITE : (DWORD)clu_os_wait_ms((int64_t)(end - now)), 0);
    }
    if (l->state != DONE)
      rc = CLU_AGAIN;
    else if (l->status)
      rc = clu_fail(e, CLU_DNS, l->status, "%s: this name has no address: %s", l->host,
                    clu_win_text(l->status, text));
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
  if (r->look) {
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
