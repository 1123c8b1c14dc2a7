/* Entry points that make sockets: listen, connect, accept; their options; who listens at a port.
 *
 * A socket's external pointer exists before the socket does, and R closes it (on.exit) when an
 * entry point is left by a jump. So no function here has anything to undo but what the comment at a
 * wait says.
 */
#include "r/socket/socket.h"

#include "core/net/port-probe.h"

static void finalize(SEXP x) {
  clu_sock *s = R_ExternalPtrAddr(x);
  R_ClearExternalPtr(x);
  clu_sock_free(s); /* waits for nobody */
}

SEXP ffi_socket_new(SEXP blocking, SEXP timeout) {
  SEXP x = PROTECT(R_MakeExternalPtr(NULL, clu_socket_tag(), R_NilValue));
  clu_sock *s;
  R_RegisterCFinalizerEx(x, finalize, TRUE);
  s = clu_sock_new();
  if (!s) clu_raise("memory", "not enough memory");
  R_SetExternalPtrAddr(x, s);
  s->blocking = Rf_asLogical(blocking) == TRUE;
  s->timeout_ns = clu_ns(Rf_asReal(timeout));
  UNPROTECT(1);
  return x;
}

static const char *text_or_null(SEXP x) {
  return TYPEOF(x) == STRSXP && XLENGTH(x) == 1 && STRING_ELT(x, 0) != NA_STRING
             ? Rf_translateChar(STRING_ELT(x, 0))
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
      static const char *const names[] = {"no_delay",      "keepalive",      "keep_idle",
                                          "keep_interval", "keep_count",     "user_timeout",
                                          "send_buffer",   "receive_buffer", "linger"};
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
static int addresses(clu_sock *s, const char *host, int port, uint64_t deadline, clu_addr *to,
                     int *n, clu_err *e) {
  int rc;
  s->resolve = clu_resolve_start(host, port, e);
  if (!s->resolve) return e->code;
  while ((rc = clu_resolve_wait(s->resolve, clu_slice(deadline), to, n, e)) == CLU_AGAIN) {
    if (!clu_slice(deadline)) {
      rc = clu_fail(e, CLU_TIMEOUT, 0, "%s: timeout: the name's address is not known", host);
      break;
    }
    clu_check_interrupt(NULL, NULL);
  }
  clu_resolve_free(s->resolve);
  s->resolve = NULL;
  return rc;
}

SEXP ffi_socket_listen(SEXP x, SEXP host, SEXP port, SEXP path, SEXP backlog, SEXP keep,
                       SEXP options) {
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
        clu_fail(&e, CLU_TIMEOUT, 0, "timeout: no connection within %g seconds%s%s",
                 Rf_asReal(timeout), why.code ? "; " : "", why.text);
        clu_raise_socket(s, &e, -1);
      }
      clu_check_interrupt(NULL, NULL);
    }
  } while (rc == CLU_LIMIT && !collected++ &&
           (R_gc(), 1)); /* forgotten sockets may free descriptors */
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
    if (l->fd == CLU_NO_FD) clu_raise_closed(l);
  }
  set_options(s, options);
  return Rf_ScalarLogical(1);
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
  SEXP handle = PROTECT(R_MakeExternalPtr(NULL, R_NilValue, R_NilValue)), out;
  R_RegisterCFinalizerEx(handle, probe_finalize, FALSE);
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
  R_SetExternalPtrAddr(handle, p);
  while ((rc = clu_probe_step(p, clu_slice(deadline), &e)) == CLU_AGAIN && clu_slice(deadline))
    clu_check_interrupt(NULL, NULL);
  for (int i = 0; i < n; i++) {
    LOGICAL(out)[i] = 0;
    for (int j = 0; j < k; j++)
      if (clu_probe_answer(p, i * k + j) == 1) LOGICAL(out)[i] = 1;
  }
  probe_finalize(handle);
  if (rc != CLU_OK && rc != CLU_AGAIN) clu_raise_socket(NULL, &e, -1);
  UNPROTECT(2);
  return out;
}
