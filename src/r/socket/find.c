/* From an R object to its socket: a handle, a connection of this package, or one of base R's. */
#include "r/socket/connection.h"

#include <string.h>

SEXP clu_socket_tag(void) {
  static SEXP tag;
  if (!tag) tag = Rf_install("clutch_socket");
  return tag;
}
SEXP clu_connection_tag(void) {
  static SEXP tag;
  if (!tag) tag = Rf_install("clutch_connection");
  return tag;
}
SEXP clu_handle_of(SEXP x) {
  static SEXP conn_id;
  SEXP id, handle;
  if (!conn_id) conn_id = Rf_install("conn_id");
  id = Rf_getAttrib(x, conn_id);
  if (TYPEOF(id) != EXTPTRSXP) return R_NilValue;
  handle = R_ExternalPtrProtected(id);
  return TYPEOF(handle) == EXTPTRSXP && R_ExternalPtrTag(handle) == clu_connection_tag() ? handle
                                                                                         : id;
}

SEXP clu_socket_pointer(SEXP x) {
  if (TYPEOF(x) == VECSXP && Rf_inherits(x, "clutch_light") && XLENGTH(x) > 0) x = VECTOR_ELT(x, 0);
  return TYPEOF(x) == EXTPTRSXP && R_ExternalPtrTag(x) == clu_socket_tag() ? x : R_NilValue;
}

/* base R's own; the same from R 4.0 to 4.6 */
struct base_socket {
  int port, server, fd, timeout;
  char *host;
  char inbuf[4096], *from, *to;
};
struct base_listener {
  int fd, port;
};

clu_sock *clu_connection_socket(SEXP x, clu_fd *base_fd, int *pending, int *listens) {
  SEXP handle = clu_handle_of(x);
  Rconnection con;
  clu_sock_status st;
  if (handle == R_NilValue) return NULL;
  if (R_ExternalPtrTag(handle) == clu_connection_tag()) {
    conn *c = R_ExternalPtrAddr(handle);
    if (c && c->s && pending && c->d.at < c->d.n) *pending = 1;
    return c ? c->s : NULL;
  }
  if (!base_fd || Rf_inherits(x, "clutch_socket") || Rf_inherits(x, "clutch_listener")) return NULL;
  con = R_GetConnection(x);
  if (!con->isopen || !con->private) return NULL;
  if (strcmp(con->class, "sockconn") == 0) {
    struct base_socket *b = con->private;
    *base_fd = b->fd;
    *pending = b->from < b->to;
  } else if (strcmp(con->class, "servsockconn") == 0) {
    *base_fd = ((struct base_listener *)con->private)->fd;
    *listens = 1;
  }
  /* R may change its structures: what is no socket is not taken for one */
  if (*base_fd != CLU_NO_FD && clu_os_sock_status(*base_fd, &st) != CLU_OK) *base_fd = CLU_NO_FD;
  return NULL;
}

clu_sock *clu_socket_release(SEXP x) {
  clu_sock *s;
  x = clu_socket_pointer(x);
  if (x == R_NilValue) return NULL;
  s = R_ExternalPtrAddr(x);
  R_ClearExternalPtr(x);
  return s;
}

/* A socket that was serialized has lost its pointers; one that was closed here has them. The
 * terminal's three have none. */
static void raise_if_foreign(SEXP x) {
  SEXP p = clu_socket_pointer(x);
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
  SEXP p = clu_socket_pointer(x);
  clu_sock *s = NULL;
  if (p != R_NilValue) {
    s = R_ExternalPtrAddr(p);
  } else if (Rf_inherits(x, "clutch_socket") || Rf_inherits(x, "clutch_listener")) {
    s = clu_connection_socket(x, NULL, NULL, NULL);
  } else {
    clu_raise("argument", "not a socket of this package");
  }
  if (!s) raise_if_foreign(x);
  if (!s || (open && s->fd == CLU_NO_FD)) clu_raise_closed(s);
  return s;
}

clu_fd clu_socket_fd(SEXP x, clu_sock **out, int *pending, int *listens) {
  SEXP p = clu_socket_pointer(x);
  clu_fd fd = CLU_NO_FD;
  clu_sock *s = NULL;
  *pending = *listens = 0;
  if (p != R_NilValue) {
    s = R_ExternalPtrAddr(p);
    if (!s) raise_if_foreign(x);
    if (!s || s->fd == CLU_NO_FD) clu_raise_closed(s);
  } else if (Rf_inherits(x, "connection")) {
    s = clu_connection_socket(x, &fd, pending, listens);
    if (!s && fd == CLU_NO_FD) {
      raise_if_foreign(x);
      if (Rf_inherits(x, "clutch_socket") || Rf_inherits(x, "clutch_listener"))
        clu_raise_closed(NULL);
      clu_raise("argument", "not a socket connection");
    }
  } else {
    clu_raise("argument", "not a socket connection");
  }
  if (s) {
    fd = s->fd;
    if (s->pos < s->end) *pending = 1;
    *listens = s->listening;
  }
  *out = s;
  return fd;
}
