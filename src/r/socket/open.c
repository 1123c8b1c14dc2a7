/* Entry points that make sockets: listen, connect, accept; their options; who listens at a port.
 *
 * One call does all of it, from the check of the arguments to the connection or light handle. Until
 * that owns the socket, the call does: whatever jump leaves it, an error or an interrupt, the
 * socket is freed at once and not when garbage is collected.
 */
#include "r/socket/connection.h"

#include <stdio.h>
#include <string.h>

#include "core/base/addr.h"
#include "core/net/port-probe.h"

static void finalize(SEXP x) {
  clu_sock *s = R_ExternalPtrAddr(x);
  R_ClearExternalPtr(x);
  clu_sock_free(s); /* waits for nobody */
}

/* An external pointer that owns `s`, or nothing yet. */
static SEXP handle_of(clu_sock *s) {
  SEXP x = PROTECT(R_MakeExternalPtr(NULL, clu_socket_tag(), R_NilValue));
  R_RegisterCFinalizerEx(x, finalize, TRUE);
  R_SetExternalPtrAddr(x, s);
  UNPROTECT(1);
  return x;
}

static clu_sock *socket_new(int blocking, double timeout) {
  clu_sock *s = clu_sock_new();
  if (!s) clu_raise("memory", "not enough memory");
  s->blocking = blocking;
  s->timeout_ns = clu_ns(timeout);
  return s;
}

SEXP ffi_socket_new(SEXP blocking, SEXP timeout) {
  SEXP x = PROTECT(handle_of(NULL));
  R_SetExternalPtrAddr(x, socket_new(Rf_asLogical(blocking) == TRUE, Rf_asReal(timeout)));
  UNPROTECT(1);
  return x;
}

/* ---- options ---- */

static int option(const int *options, clu_sockopt which) {
  return options[which] == NA_INTEGER ? 0 : options[which];
}

static int set_options(clu_sock *s, const int *options, clu_err *e) {
  for (int i = 0; i < CLU_N_OPTS; i++) {
    int v = options[i], rc;
    if (v == NA_INTEGER) continue;
    rc = clu_os_sockopt_set(s->fd, (clu_sockopt)i, v);
    if (i == CLU_OPT_LINGER && v == 0) s->abort_at_close = 1;
    if (rc == CLU_RESET) s->broken = 1; /* the first read or write says so */
    if (rc == CLU_SYS || (rc == CLU_UNSUPPORTED && s->local.family != CLU_UNIX)) {
      static const char *const names[] = {"no_delay",      "keepalive",      "keep_idle",
                                          "keep_interval", "keep_count",     "user_timeout",
                                          "send_buffer",   "receive_buffer", "linger"};
      return clu_fail(e, rc, 0, "the option %s cannot be set to %d", names[i], v);
    }
  }
  return CLU_OK;
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

/* ---- what all that open have in common ---- */

#define WHERE 1200 /* "host:port", or a path */

typedef struct {
  clu_sock *s; /* NULL: somebody else owns it now */
  clu_stream_args a;
  int with_slot, port;
  clu_sock *listener;          /* to accept at */
  int wait;                    /* accept: until somebody comes */
  const char *host, *path;     /* NULL: every address of this machine; the other one is meant */
  int backlog, keep_address;   /* listen */
  char where[WHERE];           /* in messages */
  char description[WHERE + 2]; /* of the connection */
} opening;

static void free_if_left(void *data, Rboolean jump) {
  opening *o = data;
  if (jump) clu_sock_free(o->s);
}

/* `at`: the socket that the failure is about. */
static void fail_opening(opening *o, const clu_sock *at, const clu_err *e, const char *prefix,
                         const char *warn) {
  clu_sock_drop(o->s); /* before R's warning, which may run code */
  clu_raise_opening(at, e, prefix, warn);
}

/* Runs `open` with a new socket. */
static SEXP open_with(opening *o, SEXP (*open)(void *)) {
  o->s = socket_new(o->a.blocking, o->a.timeout);
  return R_UnwindProtect(open, o, free_if_left, o, NULL);
}

/* The socket goes to an external pointer. */
static SEXP hand_over(opening *o) {
  SEXP handle = handle_of(o->s);
  o->s = NULL;
  return handle;
}

static SEXP light(opening *o, const char *class) {
  SEXP out = PROTECT(Rf_allocVector(VECSXP, 1)), classes = PROTECT(Rf_allocVector(STRSXP, 2));
  SET_STRING_ELT(classes, 0, Rf_mkChar(class));
  SET_STRING_ELT(classes, 1, Rf_mkChar("clutch_light"));
  Rf_setAttrib(out, R_ClassSymbol, classes);
  SET_VECTOR_ELT(out, 0, hand_over(o));
  UNPROTECT(2);
  return out;
}

/* Tells whether R's table of connections has room. Before R 4.4 it has 128 places, later at least
 * so many. */
static int has_place(void) {
  SEXP call = PROTECT(Rf_lang1(Rf_install("getAllConnections")));
  SEXP all = Rf_eval(call, R_BaseNamespace);
  UNPROTECT(1);
  return XLENGTH(all) < 128;
}

/* The connection, or light handle, of the socket that is open now. */
static SEXP made(opening *o, const char *class) {
  clu_connection_args a = {o->description, class, o->a.open, o->a.encoding, o->a.blocking};
  SEXP ns, call, next;
  if (!o->with_slot) return light(o, class);
  if (has_place()) {
    next = clu_connection_new(o->s, &a, R_NilValue);
    o->s = NULL;
    return next;
  }
  /* there is a condition of ours for the error that may come now, and R code takes longer */
  ns = PROTECT(R_FindNamespace(PROTECT(Rf_mkString("clutch"))));
  call = PROTECT(Rf_allocVector(LANGSXP, 8));
  SETCAR(call, Rf_install("new_connection"));
  next = CDR(call);
  SETCAR(next, hand_over(o));
  next = CDR(next);
  SETCAR(next, Rf_mkString(a.description));
  next = CDR(next);
  SETCAR(next, Rf_mkString(class));
  next = CDR(next);
  SETCAR(next, Rf_mkString(a.open));
  next = CDR(next);
  SETCAR(next, Rf_ScalarLogical(a.blocking));
  next = CDR(next);
  SETCAR(next, Rf_mkString(a.encoding));
  next = Rf_eval(call, ns);
  UNPROTECT(3);
  return next;
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

/* ---- listen ---- */

static SEXP do_listen(void *data) {
  opening *o = data;
  clu_addr at[CLU_MAX_ADDRS];
  clu_listen how;
  clu_err e = {0, 0, ""};
  char prefix[WHERE + 80];
  int n = 1, rc;
  how.backlog = o->backlog;
  how.keep_address = o->keep_address;
  how.receive_buffer = option(o->a.options, CLU_OPT_RECEIVE_BUFFER);
  if (o->path)
    rc = clu_os_addr_path(o->path, &at[0], &e);
  else
    rc = addresses(o->s, o->host, o->port, clu_deadline(60), at, &n, &e);
  if (rc == CLU_OK) rc = clu_sock_listen(o->s, at, n, o->path, &how, &e);
  if (rc != CLU_OK) {
    snprintf(prefix, sizeof prefix, "creation of server socket failed: %s cannot be opened",
             o->where);
    fail_opening(o, NULL, &e, prefix, NULL);
  }
  clu_addr_text(&o->s->local, o->description, sizeof o->description);
  return made(o, "clutch_listener");
}

SEXP ffi_socket_listen(SEXP host, SEXP port, SEXP path, SEXP backlog, SEXP keep, SEXP options,
                       SEXP slot) {
  opening o;
  memset(&o, 0, sizeof o);
  if (path == R_NilValue) {
    o.port = clu_port_arg(port, 0);
    o.host = host == R_NilValue ? NULL : clu_text_arg(host, "host");
    snprintf(o.where, sizeof o.where, "port %d", o.port);
  } else {
    o.path = R_ExpandFileName(clu_text_arg(path, "path"));
    snprintf(o.where, sizeof o.where, "%s", o.path);
  }
  o.backlog = Rf_asInteger(backlog) == NA_INTEGER ? -1 : Rf_asInteger(backlog);
  o.keep_address = Rf_asLogical(keep) == TRUE;
  o.with_slot = Rf_asLogical(slot) == TRUE;
  clu_options_arg(options, o.a.options);
  o.a.blocking = 1;
  o.a.timeout = R_PosInf;
  o.a.open = "a+";
  o.a.encoding = "native.enc";
  return open_with(&o, do_listen);
}

/* ---- connect ---- */

static int connected(opening *o, clu_err *e) {
  uint64_t deadline = clu_deadline(o->a.opening);
  clu_err why = {0, 0, ""};
  int rc =
      clu_sock_connect(o->s, o->host, o->port, o->path, option(o->a.options, CLU_OPT_SEND_BUFFER),
                       option(o->a.options, CLU_OPT_RECEIVE_BUFFER), e);
  if (rc != CLU_OK) return rc;
  while ((rc = clu_sock_connect_step(o->s, clu_slice(deadline), e)) == CLU_AGAIN) {
    if (e->code) why = *e;
    if (!clu_slice(deadline))
      return clu_fail(e, CLU_TIMEOUT, 0, "timeout: no connection within %g seconds%s%s",
                      o->a.opening, why.code ? "; " : "", why.text);
    clu_check_interrupt(NULL, NULL);
  }
  return rc;
}

static SEXP do_connect(void *data) {
  opening *o = data;
  clu_err e = {0, 0, ""};
  int rc = connected(o, &e);
  if (rc == CLU_LIMIT) { /* forgotten sockets may free descriptors */
    R_gc();
    rc = connected(o, &e);
  }
  if (rc == CLU_OK) rc = set_options(o->s, o->a.options, &e);
  if (rc != CLU_OK) {
    char prefix[WHERE + 40], warn[WHERE + 40];
    snprintf(prefix, sizeof prefix, "cannot open the connection to %s", o->where);
    snprintf(warn, sizeof warn, "%s cannot be opened", o->where);
    fail_opening(o, o->s, &e, prefix, warn);
  }
  snprintf(o->description, sizeof o->description, "->%s", o->where);
  return made(o, "clutch_socket");
}

/* NULL: it is not to be opened now (open = ""), or this is the serving end. Then the arguments are
 * checked, and that is all. */
SEXP ffi_socket_connect(SEXP host, SEXP port, SEXP path, SEXP server, SEXP blocking, SEXP open,
                        SEXP encoding, SEXP timeout, SEXP options, SEXP slot) {
  opening o;
  int serves;
  memset(&o, 0, sizeof o);
  clu_stream_args_of(&o.a, blocking, open, encoding, timeout, options);
  serves = clu_flag_arg(server, "server");
  if (path == R_NilValue) {
    o.host = clu_text_arg(host, "host");
    if (!o.host[0]) clu_invalid("host");
    o.port = clu_port_arg(port, serves ? 0 : 1);
    snprintf(o.where, sizeof o.where, "%s:%d", o.host, o.port);
  } else {
    o.path = clu_text_arg(path, "path");
    snprintf(o.where, sizeof o.where, "%s", o.path);
    o.path = R_ExpandFileName(o.path);
  }
  o.with_slot = Rf_asLogical(slot) == TRUE;
  if (serves || !o.a.open[0]) return R_NilValue;
  return open_with(&o, do_connect);
}

/* ---- accept ---- */

/* 1: somebody has come. 0: nobody is there, and it was not to wait. */
static int accepted(opening *o) {
  clu_sock *l = o->listener;
  static const char *const prefix = "cannot open the connection";
  static const char *const warn = "problem in accepting connections on this socket";
  uint64_t deadline = clu_deadline(o->a.opening);
  int collected = 0, gone = 0, rc;
  clu_err e = {0, 0, ""};
  while ((rc = clu_sock_accept(l, o->s, &e)) != CLU_OK) {
    if (rc == CLU_LIMIT && !collected) { /* as R does when its connections are used up */
      collected = 1;
      R_gc();
      continue;
    }
    if (rc != CLU_AGAIN) fail_opening(o, l, &e, prefix, warn);
    if (!o->wait) { /* one that was gone again may have stood before others */
      if (clu_sock_wait(l, CLU_READ, 0) == CLU_OK && gone++ < 1000) continue;
      return 0;
    }
    if (!clu_socket_ready(l, CLU_READ, deadline, NULL, NULL)) {
      clu_timed_out(l, "nobody has connected", o->a.opening, -1, &e);
      fail_opening(o, l, &e, prefix, warn);
    }
    clu_check_interrupt(NULL, NULL); /* also when readiness lies again and again */
    if (l->fd == CLU_NO_FD) clu_raise_closed(l);
  }
  if (set_options(o->s, o->a.options, &e) != CLU_OK) fail_opening(o, o->s, &e, prefix, warn);
  return 1;
}

static SEXP do_accept(void *data) {
  opening *o = data;
  char host[CLU_ADDR_TEXT], here[CLU_ADDR_TEXT];
  int port;
  if (!accepted(o)) {
    clu_sock_free(o->s);
    return R_NilValue;
  }
  port = clu_os_addr_host(&o->s->local, here, sizeof here);
  clu_os_addr_host(&o->s->peer, host, sizeof host);
  if (o->s->local.family == CLU_UNIX)
    snprintf(o->description, sizeof o->description, "<-%s", here);
  else
    snprintf(o->description, sizeof o->description, "<-%s:%d", host, port);
  return made(o, "clutch_socket");
}

/* NULL: nobody waits, or it is not to be opened now (open = ""). */
SEXP ffi_socket_accept(SEXP listener, SEXP blocking, SEXP open, SEXP encoding, SEXP timeout,
                       SEXP options, SEXP slot, SEXP wait) {
  opening o;
  memset(&o, 0, sizeof o);
  clu_stream_args_of(&o.a, blocking, open, encoding, timeout, options);
  if (!Rf_inherits(listener, "clutch_listener")) clu_invalid("socket");
  o.wait = clu_flag_arg(wait, "wait");
  if (!o.wait && !o.a.open[0]) clu_invalid("wait");
  o.listener = clu_socket_of(listener, 1);
  if (!o.listener->listening) clu_raise("argument", "not a listening socket");
  o.with_slot = Rf_asLogical(slot) == TRUE;
  if (!o.a.open[0]) return R_NilValue;
  return open_with(&o, do_accept);
}

/* A light handle around a connection that this process was given as descriptor `fd`. */
static SEXP do_adopt(void *data) { return light(data, "clutch_socket"); }

SEXP ffi_socket_adopt(SEXP fd, SEXP timeout) {
  opening o;
  memset(&o, 0, sizeof o);
  o.a.timeout = Rf_asReal(timeout);
  o.s = socket_new(1, o.a.timeout);
  clu_sock_adopt(o.s, (clu_fd)Rf_asInteger(fd));
  return R_UnwindProtect(do_adopt, &o, free_if_left, &o, NULL);
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
  const char *name = clu_text_arg(host, "host");
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
