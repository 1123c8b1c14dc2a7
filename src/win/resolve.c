/* Names to addresses on Windows. The system's resolver blocks and cannot be interrupted, so it runs in a
 * thread of its own, which is left behind when nobody wants the answer any more. Numbers and "localhost"
 * need none. */
#include "win.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct clu_resolve {
  SRWLOCK lock;
  int users;   /* the asker and the thread */
  HANDLE done; /* an event */
  char *host;
  int port, finished, status, n;
  clu_addr addr[CLU_MAX_ADDRS];
};

static void unuse(clu_resolve *r, int locked) {
  int left;
  if (!locked) AcquireSRWLockExclusive(&r->lock);
  left = --r->users;
  ReleaseSRWLockExclusive(&r->lock);
  if (left) return;
  if (r->done) CloseHandle(r->done);
  free(r->host);
  free(r);
}

/* GetAddrInfoW() into `addr`; returns its status */
static int ask(const char *host, int port, int flags, clu_addr *addr, int *n) {
  ADDRINFOW hints, *all = NULL;
  wchar_t service[16], *name = clu_win_wide(host);
  int status;
  *n = 0;
  if (!name) return WSA_NOT_ENOUGH_MEMORY;
  memset(&hints, 0, sizeof hints);
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = flags;
  _snwprintf(service, 16, L"%d", port);
  status = GetAddrInfoW(name, service, &hints, &all);
  free(name);
  if (status) return status;
  for (ADDRINFOW *a = all; a && *n < CLU_MAX_ADDRS; a = a->ai_next)
    if (a->ai_family == AF_INET || a->ai_family == AF_INET6) clu_win_put(&addr[(*n)++], a->ai_addr, a->ai_addrlen);
  FreeAddrInfoW(all);
  return *n ? 0 : WSAHOST_NOT_FOUND;
}

static DWORD WINAPI asker(void *data) {
  clu_resolve *r = data;
  clu_addr addr[CLU_MAX_ADDRS];
  int n, status = ask(r->host, r->port, AI_ADDRCONFIG, addr, &n);
  AcquireSRWLockExclusive(&r->lock);
  memcpy(r->addr, addr, sizeof addr[0] * (size_t)n);
  r->n = n;
  r->status = status;
  r->finished = 1;
  SetEvent(r->done);
  unuse(r, 1);
  return 0;
}

static void numeric(clu_resolve *r, const char *host) {
  int n;
  if (ask(host, r->port, AI_NUMERICHOST, &r->addr[r->n], &n) == 0) r->n += n;
}

clu_resolve *clu_os_resolve_start(const char *host, int port, clu_err *e) {
  clu_resolve *r;
  HANDLE thread;
  if (clu_win_start(e) != CLU_OK) return NULL;
  r = calloc(1, sizeof *r);
  if (!r) {
    clu_fail(e, CLU_NOMEM, 0, "not enough memory");
    return NULL;
  }
  InitializeSRWLock(&r->lock);
  r->users = 1;
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
  r->host = malloc(strlen(host) + 1);
  if (r->host) strcpy(r->host, host);
  r->done = CreateEventW(NULL, TRUE, FALSE, NULL);
  if (!r->host || !r->done) {
    clu_fail(e, CLU_NOMEM, 0, "not enough memory");
    clu_os_resolve_free(r);
    return NULL;
  }
  r->users = 2;
  /* not by the C library's own: the thread uses nothing of it that needs more */
  thread = CreateThread(NULL, 0, asker, r, 0, NULL);
  if (!thread) {
    char text[CLU_WIN_TEXT];
    int err = (int)GetLastError();
    clu_fail(e, CLU_LIMIT, err, "no thread can be started: %s", clu_win_text(err, text));
    r->users = 1;
    clu_os_resolve_free(r);
    return NULL;
  }
  CloseHandle(thread);
  return r;
}

int clu_os_resolve_wait(clu_resolve *r, int64_t wait_ns, clu_addr out[CLU_MAX_ADDRS], int *n, clu_err *e) {
  int finished;
  *n = 0;
  if (r->done) WaitForSingleObject(r->done, wait_ns < 0 ? INFINITE : (DWORD)clu_os_wait_ms(wait_ns));
  AcquireSRWLockExclusive(&r->lock);
  finished = r->finished;
  ReleaseSRWLockExclusive(&r->lock);
  if (!finished) return CLU_AGAIN;
  if (r->status) {
    char text[CLU_WIN_TEXT];
    return clu_fail(e, CLU_DNS, r->status, "%s: this name has no address: %s", r->host, clu_win_text(r->status, text));
  }
  memcpy(out, r->addr, sizeof out[0] * (size_t)r->n);
  *n = r->n;
  return CLU_OK;
}

void clu_os_resolve_free(clu_resolve *r) {
  if (r) unuse(r, 0);
}
