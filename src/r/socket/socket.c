/* The doors of sockets: making, waiting, bytes, the end. Connections are in r/socket/connection.c, what a
 * socket tells of itself in r/socket/info.c.
 *
 * A socket's external pointer exists before the socket does, and R closes it (on.exit) when a door is
 * left by a jump, so no function here has anything to undo but what the comment at a wait says.
 */
#include "r/socket/socket.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/net/port-probe.h"

static const int64_t SLICE = 100000000; /* at most this long without a look at interrupts */

/* ---- waiting ---- */

uint64_t clu_deadline_ns(int64_t ns) { return ns < 0 ? UINT64_MAX : clu_os_now() + (uint64_t)ns; }

static int64_t in_ns(double seconds) {
  return ISNAN(seconds) || seconds < 0 || seconds > 1e9 ? -1 : (int64_t)(seconds * 1e9);
}

uint64_t clu_deadline(double seconds) { return clu_deadline_ns(in_ns(seconds)); }

int64_t clu_slice(uint64_t deadline) {
  uint64_t now;
  if (deadline == UINT64_MAX) return SLICE;
  now = clu_os_now();
  if (now >= deadline) return 0;
  return deadline - now < (uint64_t)SLICE ? (int64_t)(deadline - now) : SLICE;
}

static SEXP look(void *unused) {
  (void)unused;
  R_CheckUserInterrupt();
  return R_NilValue;
}

typedef struct {
  void (*fn)(void *);
  void *data;
} on_jump;

static void jumped(void *data, Rboolean jump) {
  on_jump *j = data;
  if (jump && j->fn) j->fn(j->data);
}

void clu_check_interrupt(void (*undo)(void *), void *data) {
  static uint64_t looked;
  uint64_t now = clu_os_now();
  on_jump j = {undo, data};
  if (now - looked < 10000000) return;
  if (undo)
    R_UnwindProtect(look, NULL, jumped, &j, NULL);
  else
    R_CheckUserInterrupt();
  looked = clu_os_now();
}

int clu_socket_ready(clu_sock *s, unsigned want, uint64_t deadline, void (*undo)(void *), void *data) {
  int64_t wait = clu_slice(deadline);
  if (clu_sock_wait(s, want, wait) != CLU_OK) clu_check_interrupt(undo, data);
  return clu_slice(deadline) > 0 || clu_sock_wait(s, want, 0) == CLU_OK;
}

/* ---- failures ---- */

static const char *what_of(int code) {
  switch (code) {
  case CLU_TIMEOUT: return "socket_timeout";
  case CLU_REFUSED: return "socket_refused";
  case CLU_RESET: return "socket_reset";
  case CLU_CLOSED: return "socket_closed";
  case CLU_BROKEN: return "socket_broken";
  case CLU_DNS: return "socket_dns";
  case CLU_LIMIT: return "socket_limit";
  case CLU_UNREACHABLE: return "socket_unreachable";
  case CLU_IN_USE: return "socket_in_use";
  case CLU_BUSY: return "socket_refused";
  case CLU_NOMEM: return "memory";
  case CLU_UNSUPPORTED: return "unsupported";
  default: return "socket_system";
  }
}

void clu_raise_socket(const clu_sock *s, const clu_err *e, double written) {
  char at[2 * CLU_ADDR_TEXT + 8] = "", text[512];
  SEXP ns, call, a;
  if (s) clu_sock_text(s, at, sizeof at);
  snprintf(text, sizeof text, "%s", e->text[0] ? e->text : clu_code_text(e->code));
  ns = PROTECT(R_FindNamespace(PROTECT(Rf_mkString("clutch"))));
  call = PROTECT(Rf_allocVector(LANGSXP, 5));
  a = call;
  SETCAR(a, Rf_install("throw_socket"));
  a = CDR(a);
  SETCAR(a, Rf_mkString(what_of(e->code)));
  a = CDR(a);
  SETCAR(a, Rf_mkString(text));
  a = CDR(a);
  SETCAR(a, Rf_mkString(at));
  a = CDR(a);
  SETCAR(a, Rf_ScalarReal(written < 0 ? NA_REAL : written));
  Rf_eval(call, ns);
  Rf_error("%s", text); /* not reached */
}

void clu_raise_timeout(const clu_sock *s, const char *what, double seconds, double written) {
  char at[2 * CLU_ADDR_TEXT + 8] = "";
  clu_err e;
  if (s) clu_sock_text(s, at, sizeof at);
  if (written > 0)
    clu_fail(&e, CLU_TIMEOUT, 0, "%s: timeout: %s for %g seconds, %.0f bytes of the call have gone", at, what, seconds,
             written);
  else
    clu_fail(&e, CLU_TIMEOUT, 0, "%s%stimeout: %s for %g seconds", at, at[0] ? ": " : "", what, seconds);
  if (s) ((clu_sock *)s)->last = e;
  clu_raise_socket(s, &e, written);
}

/* ---- handles ---- */

static SEXP tag(void) { return Rf_install("clutch_socket"); }

static void finalize(SEXP x) {
  clu_sock *s = R_ExternalPtrAddr(x);
  R_ClearExternalPtr(x);
  clu_sock_free(s); /* waits for nobody */
}

SEXP ffi_socket_new(SEXP blocking, SEXP timeout) {
  SEXP x = PROTECT(R_MakeExternalPtr(NULL, tag(), R_NilValue));
  clu_sock *s;
  R_RegisterCFinalizerEx(x, finalize, TRUE);
  s = clu_sock_new();
  if (!s) Rf_error("not enough memory");
  R_SetExternalPtrAddr(x, s);
  s->blocking = Rf_asLogical(blocking) == TRUE;
  s->timeout_ns = in_ns(Rf_asReal(timeout));
  UNPROTECT(1);
  return x;
}

static SEXP pointer_of(SEXP x) {
  if (TYPEOF(x) == VECSXP && Rf_inherits(x, "clutch_light") && XLENGTH(x) > 0) x = VECTOR_ELT(x, 0);
  return TYPEOF(x) == EXTPTRSXP && R_ExternalPtrTag(x) == tag() ? x : R_NilValue;
}

clu_sock *clu_socket_release(SEXP x) {
  clu_sock *s;
  x = pointer_of(x);
  if (x == R_NilValue) return NULL;
  s = R_ExternalPtrAddr(x);
  R_ClearExternalPtr(x);
  return s;
}

static void raise_closed(const clu_sock *s) {
  clu_err e;
  char at[2 * CLU_ADDR_TEXT + 8] = "";
  if (s) clu_sock_text(s, at, sizeof at);
  clu_fail(&e, CLU_CLOSED, 0, "%s%sthis socket is closed", at, at[0] ? ": " : "");
  clu_raise_socket(s, &e, -1);
}

/* What was serialized has lost its pointers; what was closed here has them. The terminal's three have none. */
static void raise_if_foreign(SEXP x) {
  SEXP p = pointer_of(x);
  clu_err e;
  if (p == R_NilValue && Rf_asInteger(x) > 2) p = Rf_getAttrib(x, Rf_install("conn_id"));
  if (TYPEOF(p) != EXTPTRSXP || R_ExternalPtrAddr(p)) return;
  clu_fail(&e, CLU_CLOSED, 0, "this connection is another process's: connections cannot be %s",
           clu_is_node ? "sent to a node; open it there" : "saved and loaded again");
  clu_raise_socket(NULL, &e, -1);
}

SEXP ffi_socket_here(SEXP x) {
  raise_if_foreign(x);
  return R_NilValue;
}

clu_sock *clu_socket_of(SEXP x, int open) {
  SEXP p = pointer_of(x);
  clu_sock *s = NULL;
  if (p != R_NilValue) {
    s = R_ExternalPtrAddr(p);
  } else if (Rf_inherits(x, "clutch_socket") || Rf_inherits(x, "clutch_listener")) {
    s = clu_connection_socket(x, NULL, NULL, NULL);
  } else {
    clu_raise("argument", "not a socket of this package");
  }
  if (!s) raise_if_foreign(x);
  if (!s || (open && s->fd == CLU_NO_FD)) raise_closed(s);
  return s;
}

clu_fd clu_socket_fd(SEXP x, clu_sock **out, int *pending, int *listens) {
  SEXP p = pointer_of(x);
  clu_fd fd = CLU_NO_FD;
  clu_sock *s = NULL;
  *pending = *listens = 0;
  if (p != R_NilValue) {
    s = R_ExternalPtrAddr(p);
    if (!s) raise_if_foreign(x);
    if (!s || s->fd == CLU_NO_FD) raise_closed(s);
  } else if (Rf_inherits(x, "connection")) {
    s = clu_connection_socket(x, &fd, pending, listens);
    if (!s && fd == CLU_NO_FD) {
      raise_if_foreign(x);
      if (Rf_inherits(x, "clutch_socket") || Rf_inherits(x, "clutch_listener")) raise_closed(NULL);
      Rf_error("not a socket connection");
    }
  } else {
    Rf_error("not a socket connection");
  }
  if (s) {
    fd = s->fd;
    if (s->pos < s->end) *pending = 1;
    *listens = s->listening;
  }
  *out = s;
  return fd;
}

/* ---- opening ---- */

static const char *text_or_null(SEXP x) {
  return TYPEOF(x) == STRSXP && XLENGTH(x) == 1 && STRING_ELT(x, 0) != NA_STRING ? Rf_translateChar(STRING_ELT(x, 0))
                                                                                : NULL;
}

/* `options`: one integer for each of clu_sockopt, NA: leave as it is */
static int option(SEXP options, clu_sockopt which) {
  int v = INTEGER(options)[which];
  return v == NA_INTEGER ? 0 : v;
}

static void set_options(clu_sock *s, SEXP options) {
  for (int i = 0; i < CLU_N_OPTS; i++) {
    int v = INTEGER(options)[i], rc;
    if (v == NA_INTEGER) continue;
    rc = clu_os_sockopt_set(s->fd, (clu_sockopt)i, v);
    if (i == CLU_OPT_LINGER && v == 0) s->abort_at_close = 1;
    if (rc == CLU_RESET) s->broken = 1; /* the first read or write says so */
    if (rc == CLU_SYS || (rc == CLU_UNSUPPORTED && s->local.family != CLU_UNIX)) {
      static const char *const names[] = {"no_delay",     "keepalive",   "keep_idle",      "keep_interval", "keep_count",
                                          "user_timeout", "send_buffer", "receive_buffer", "linger"};
      clu_err e;
      clu_fail(&e, rc, 0, "the option %s cannot be set to %d", names[i], v);
      clu_raise_socket(s, &e, -1);
    }
  }
}

SEXP ffi_socket_options(SEXP x, SEXP options) {
  set_options(clu_socket_of(x, 1), options);
  return R_NilValue;
}

SEXP ffi_socket_get_options(SEXP x) {
  clu_sock *s = clu_socket_of(x, 1);
  SEXP out = PROTECT(Rf_allocVector(INTSXP, CLU_N_OPTS));
  for (int i = 0; i < CLU_N_OPTS; i++) {
    int v;
    INTEGER(out)[i] = clu_os_sockopt_get(s->fd, (clu_sockopt)i, &v) == CLU_OK ? v : NA_INTEGER;
  }
  UNPROTECT(1);
  return out;
}

/* The addresses of a name. The resolver belongs to the socket, so a jump leaves nothing behind. */
static int addresses(clu_sock *s, const char *host, int port, uint64_t deadline, clu_addr *to, int *n, clu_err *e) {
  int rc;
  s->resolve = clu_os_resolve_start(host, port, e);
  if (!s->resolve) return e->code;
  while ((rc = clu_os_resolve_wait(s->resolve, clu_slice(deadline), to, n, e)) == CLU_AGAIN) {
    if (!clu_slice(deadline)) {
      rc = clu_fail(e, CLU_TIMEOUT, 0, "%s: timeout: the name's address is not known", host);
      break;
    }
    clu_check_interrupt(NULL, NULL);
  }
  clu_os_resolve_free(s->resolve);
  s->resolve = NULL;
  return rc;
}

SEXP ffi_socket_listen(SEXP x, SEXP host, SEXP port, SEXP path, SEXP backlog, SEXP keep, SEXP options) {
  clu_sock *s = clu_socket_of(x, 0);
  clu_addr at[CLU_MAX_ADDRS];
  clu_listen how;
  clu_err e = {0, 0, ""};
  const char *file = text_or_null(path);
  int n = 1, rc;
  how.backlog = Rf_asInteger(backlog) == NA_INTEGER ? -1 : Rf_asInteger(backlog);
  how.keep_address = Rf_asLogical(keep) == TRUE;
  how.receive_buffer = option(options, CLU_OPT_RECEIVE_BUFFER);
  if (file)
    rc = clu_os_addr_path(file = R_ExpandFileName(file), &at[0], &e);
  else
    rc = addresses(s, text_or_null(host), Rf_asInteger(port), clu_deadline(60), at, &n, &e);
  if (rc == CLU_OK) rc = clu_sock_listen(s, at, n, file, &how, &e);
  if (rc != CLU_OK) clu_raise_socket(NULL, &e, -1);
  return R_NilValue;
}

SEXP ffi_socket_connect(SEXP x, SEXP host, SEXP port, SEXP path, SEXP timeout, SEXP options) {
  clu_sock *s = clu_socket_of(x, 0);
  uint64_t deadline = clu_deadline(Rf_asReal(timeout));
  const char *file = text_or_null(path), *name = text_or_null(host);
  clu_err e = {0, 0, ""}, why = {0, 0, ""};
  int rc, collected = 0;
  if (file) file = R_ExpandFileName(file);
  do {
    rc = clu_sock_connect(s, name, Rf_asInteger(port), file, option(options, CLU_OPT_SEND_BUFFER),
                          option(options, CLU_OPT_RECEIVE_BUFFER), &e);
    if (rc != CLU_OK) break;
    while ((rc = clu_sock_connect_step(s, clu_slice(deadline), &e)) == CLU_AGAIN) {
      if (e.code) why = e;
      if (!clu_slice(deadline)) {
        clu_fail(&e, CLU_TIMEOUT, 0, "timeout: no connection within %g seconds%s%s", Rf_asReal(timeout),
                 why.code ? "; " : "", why.text);
        clu_raise_socket(s, &e, -1);
      }
      clu_check_interrupt(NULL, NULL);
    }
  } while (rc == CLU_LIMIT && !collected++ && (R_gc(), 1)); /* forgotten sockets may free descriptors */
  if (rc != CLU_OK) clu_raise_socket(s, &e, -1);
  set_options(s, options);
  return R_NilValue;
}

/* FALSE: nobody is there, with a timeout of 0; otherwise that is an error. */
SEXP ffi_socket_accept(SEXP listener, SEXP x, SEXP timeout, SEXP options) {
  clu_sock *l = clu_socket_of(listener, 1), *s = clu_socket_of(x, 0);
  uint64_t deadline = clu_deadline(Rf_asReal(timeout));
  int collected = 0, gone = 0;
  if (!l->listening) clu_raise("argument", "not a listening socket");
  for (;;) {
    clu_err e = {0, 0, ""};
    int rc = clu_sock_accept(l, s, &e);
    if (rc == CLU_OK) break;
    if (rc == CLU_LIMIT && !collected) { /* as R does when its connections are used up */
      collected = 1;
      R_gc();
      continue;
    }
    if (rc != CLU_AGAIN) clu_raise_socket(l, &e, -1);
    if (Rf_asReal(timeout) == 0) { /* one that was gone again may have stood before others */
      if (clu_sock_wait(l, CLU_READ, 0) == CLU_OK && gone++ < 1000) continue;
      return Rf_ScalarLogical(0);
    }
    if (!clu_socket_ready(l, CLU_READ, deadline, NULL, NULL))
      clu_raise_timeout(l, "nobody has connected", Rf_asReal(timeout), -1);
    clu_check_interrupt(NULL, NULL); /* also when readiness lies again and again */
    if (l->fd == CLU_NO_FD) raise_closed(l);
  }
  set_options(s, options);
  return Rf_ScalarLogical(1);
}

/* ---- timeouts, shutdown, the end ---- */

SEXP ffi_socket_timeout(SEXP x, SEXP seconds) {
  clu_sock *s = clu_socket_of(x, 0);
  double old = s->timeout_ns < 0 ? R_PosInf : (double)s->timeout_ns / 1e9, t = Rf_asReal(seconds);
  if (t >= 0) s->timeout_ns = in_ns(t);
  return Rf_ScalarReal(old);
}

SEXP ffi_socket_shutdown(SEXP x, SEXP how) {
  clu_sock *s = clu_socket_of(x, 1);
  clu_err e = {0, 0, ""};
  if (clu_sock_shutdown(s, (unsigned)Rf_asInteger(how), &e) != CLU_OK) clu_raise_socket(s, &e, -1);
  return R_NilValue;
}

static void drop(void *s) { clu_sock_drop(s); }

/* The orderly end, within `seconds`; an interrupt ends it at once. Is never an error. */
SEXP ffi_socket_end(SEXP x, SEXP seconds) {
  SEXP p = pointer_of(x);
  clu_sock *s = p != R_NilValue ? R_ExternalPtrAddr(p) : clu_connection_socket(x, NULL, NULL, NULL);
  uint64_t deadline = clu_deadline(Rf_asReal(seconds));
  if (!s) return R_NilValue;
  while (clu_sock_end(s, clu_slice(deadline)) == CLU_AGAIN) {
    if (!clu_slice(deadline)) {
      clu_sock_drop(s);
      break;
    }
    clu_check_interrupt(drop, s);
  }
  return R_NilValue;
}

/* Without any wait: after an error. */
SEXP ffi_socket_drop(SEXP x) {
  SEXP p = pointer_of(x);
  if (p != R_NilValue && R_ExternalPtrAddr(p)) clu_sock_drop(R_ExternalPtrAddr(p));
  return R_NilValue;
}

/* ---- bytes, for socket_read() and socket_write() ---- */

typedef struct {
  clu_sock *s;
  SEXP to;
  size_t got;
} reading;

static void undo(void *data) {
  reading *r = data;
  if (r->got) clu_sock_unread(r->s, RAW(r->to), r->got);
}

/* Up to `n` bytes; with `exact` fewer only at the end. NULL: the peer has finished. */
SEXP ffi_socket_read(SEXP x, SEXP n, SEXP exact) {
  clu_sock *s = clu_socket_of(x, 1);
  double want = Rf_asReal(n);
  int all = Rf_asLogical(exact) == TRUE;
  size_t most = want > 0 ? (size_t)want : 0, got = 0;
  uint64_t deadline = clu_deadline_ns(s->timeout_ns);
  SEXP out, rest;
  PROTECT_INDEX i;
  int ended = 0;
  /* the answer is made as large as what is there: `n` may be a generous bound */
  PROTECT_WITH_INDEX(out = Rf_allocVector(RAWSXP, 0), &i);
  while (got < most) {
    clu_err e = {0, 0, ""};
    int rc = CLU_OK;
    size_t there = s->end - s->pos;
    if (there) {
      size_t take = there < most - got ? there : most - got;
      if (got + take > (size_t)XLENGTH(out)) {
        size_t room = got + take;
        if (all && room < most) room = room * 2 < most ? room * 2 : most;
        rest = Rf_allocVector(RAWSXP, (R_xlen_t)room); /* may jump: nothing of this round is taken yet */
        if (got) memcpy(RAW(rest), RAW(out), got);
        REPROTECT(out = rest, i);
      }
      got += clu_sock_take(s, RAW(out) + got, take);
      clu_sock_keep(s);
      if (!all) break;
      deadline = clu_deadline_ns(s->timeout_ns);
      continue;
    }
    rc = clu_sock_fill(s, &e);
    if (rc == CLU_OK) continue;
    if (rc == CLU_EOF) {
      ended = 1;
      break;
    }
    if (rc == CLU_AGAIN) {
      reading r = {s, out, got};
      if (!s->blocking && !all) break;
      if (clu_socket_ready(s, CLU_READ, deadline, undo, &r)) continue;
      undo(&r);
      clu_raise_timeout(s, "nothing has come", (double)s->timeout_ns / 1e9, -1);
    }
    if (got) clu_sock_unread(s, RAW(out), got);
    clu_raise_socket(s, &e, -1);
  }
  if (!got && ended) {
    UNPROTECT(1);
    return R_NilValue;
  }
  if ((size_t)XLENGTH(out) > got) {
    rest = Rf_allocVector(RAWSXP, (R_xlen_t)got);
    if (got) memcpy(RAW(rest), RAW(out), got);
    REPROTECT(out = rest, i);
  }
  UNPROTECT(1);
  return out;
}

/* Returns how many have gone: all, but for a non-blocking handle. */
SEXP ffi_socket_write(SEXP x, SEXP data) {
  clu_sock *s = clu_socket_of(x, 1);
  size_t n = (size_t)XLENGTH(data), put = 0, k;
  uint64_t deadline = clu_deadline_ns(s->timeout_ns);
  while (put < n) {
    clu_err e = {0, 0, ""};
    int rc = clu_sock_put(s, RAW(data) + put, n - put, &k, &e);
    if (rc == CLU_OK) {
      put += k;
      deadline = clu_deadline_ns(s->timeout_ns);
      continue;
    }
    if (rc != CLU_AGAIN) clu_raise_socket(s, &e, (double)put);
    if (!s->blocking) break;
    if (!clu_socket_ready(s, CLU_WRITE, deadline, NULL, NULL))
      clu_raise_timeout(s, "the peer takes nothing", (double)s->timeout_ns / 1e9, (double)put);
  }
  return Rf_ScalarReal((double)put);
}

/* ---- readiness of a set ---- */

SEXP ffi_socket_select(SEXP list, SEXP write, SEXP timeout) {
  int n = (int)XLENGTH(list), some = 0, ready = 0;
  clu_watch *w = (clu_watch *)R_alloc((size_t)n, sizeof *w);
  SEXP out = PROTECT(Rf_allocVector(LGLSXP, n));
  uint64_t deadline = clu_deadline(Rf_asReal(timeout));
  for (int i = 0; i < n; i++) {
    clu_sock *s;
    int pending, listens, to_write = LOGICAL(write)[i] == TRUE;
    w[i].fd = clu_socket_fd(VECTOR_ELT(list, i), &s, &pending, &listens);
    w[i].want = to_write ? CLU_WRITE : CLU_READ;
    LOGICAL(out)[i] = 0;
    if (to_write && listens) {
      Rf_warning("a server socket connection cannot be writeable");
      w[i].fd = CLU_NO_FD;
    } else if (!to_write && pending) {
      LOGICAL(out)[i] = 1;
      some = 1; /* no wait, but a look at the others */
    }
  }
  for (;;) {
    clu_err e = {0, 0, ""};
    if (clu_os_poll(w, n, some ? 0 : clu_slice(deadline), &ready, &e) != CLU_OK) clu_raise_socket(NULL, &e, -1);
    if (ready || some || !clu_slice(deadline)) break;
    clu_check_interrupt(NULL, NULL);
  }
  if (ready)
    for (int i = 0; i < n; i++)
      if (w[i].ready) LOGICAL(out)[i] = 1;
  UNPROTECT(1);
  return out;
}

/* ---- who listens ---- */

static void probe_finalize(SEXP x) {
  clu_probe_free(R_ExternalPtrAddr(x));
  R_ClearExternalPtr(x);
}

SEXP ffi_service_probe(SEXP x, SEXP host, SEXP ports, SEXP timeout) {
  clu_sock *s = clu_socket_of(x, 0); /* holds the resolver */
  uint64_t deadline = clu_deadline(Rf_asReal(timeout));
  int n = (int)XLENGTH(ports), k = 0, rc;
  clu_addr base[CLU_MAX_ADDRS], *to;
  clu_err e = {0, 0, ""};
  clu_probe *p;
  const char *name = text_or_null(host);
  SEXP shell = PROTECT(R_MakeExternalPtr(NULL, R_NilValue, R_NilValue)), out;
  R_RegisterCFinalizerEx(shell, probe_finalize, FALSE);
  rc = addresses(s, name, 0, deadline, base, &k, &e);
  if (rc != CLU_OK) clu_raise_socket(NULL, &e, -1);
  out = PROTECT(Rf_allocVector(LGLSXP, n));
  to = (clu_addr *)R_alloc((size_t)n * (size_t)k, sizeof *to);
  for (int i = 0; i < n; i++)
    for (int j = 0; j < k; j++) {
      to[i * k + j] = base[j];
      clu_os_addr_set_port(&to[i * k + j], INTEGER(ports)[i]);
    }
  p = clu_probe_new(to, n * k, &e);
  if (!p) clu_raise_socket(NULL, &e, -1);
  R_SetExternalPtrAddr(shell, p);
  while ((rc = clu_probe_step(p, clu_slice(deadline), &e)) == CLU_AGAIN && clu_slice(deadline)) clu_check_interrupt(NULL, NULL);
  for (int i = 0; i < n; i++) {
    LOGICAL(out)[i] = 0;
    for (int j = 0; j < k; j++)
      if (clu_probe_answer(p, i * k + j) == 1) LOGICAL(out)[i] = 1;
  }
  probe_finalize(shell);
  if (rc != CLU_OK && rc != CLU_AGAIN) clu_raise_socket(NULL, &e, -1);
  UNPROTECT(2);
  return out;
}
