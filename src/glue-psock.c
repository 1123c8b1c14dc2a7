/* Base R's own workers as nodes: their protocol is one R object after the other, without frames, over a socket.
 * What is read is read until the object is complete, so an interrupt is looked at only between two objects. */
#include "glue-master.h"

#include <string.h>

#include "core/sock.h"

static SEXP tag_psock(void) { return Rf_install("clutch_psock"); }

static void psock_finalize(SEXP x) {
  clu_sock *s = R_ExternalPtrAddr(x);
  R_ClearExternalPtr(x);
  if (!s) return;
  clu_count_handle(-1);
  clu_sock_free(s);
}

static clu_sock *get_psock(SEXP x) {
  if (TYPEOF(x) != EXTPTRSXP || R_ExternalPtrTag(x) != tag_psock()) clu_raise("argument", "this is no worker's socket");
  clu_need_loop();
  return R_ExternalPtrAddr(x);
}

/* The socket exists, but is not open. */
static SEXP new_psock(void) {
  SEXP x = PROTECT(clu_shell(tag_psock(), R_NilValue, psock_finalize));
  clu_sock *s = clu_sock_new();
  if (!s) clu_raise("memory", "not enough memory");
  R_SetExternalPtrAddr(x, s);
  clu_count_handle(1);
  UNPROTECT(1);
  return x;
}

/* list(handle, port), or a string: why not. As ffi_muster_open(). */
SEXP ffi_psock_listen(SEXP host, SEXP ports, SEXP backlog) {
  static const char *names[] = {"handle", "port", ""};
  const char *h = CHAR(STRING_ELT(host, 0));
  clu_err e = {0, 0, ""};
  clu_addr at[CLU_MAX_ADDRS];
  clu_listen how = {-1, 0, 0};
  char text[CLU_ADDR_TEXT];
  int n = 0, rc = CLU_DNS;
  SEXP out, x;
  clu_sock *s;
  clu_need_loop();
  x = PROTECT(new_psock());
  out = PROTECT(Rf_mkNamed(VECSXP, names));
  s = R_ExternalPtrAddr(x);
  if (Rf_asInteger(backlog) != NA_INTEGER) how.backlog = Rf_asInteger(backlog);
  if (*h) {
    clu_resolve *r = clu_os_resolve_start(h, 0, &e);
    if (r) rc = clu_os_resolve_wait(r, 5000000000, at, &n, &e);
    clu_os_resolve_free(r);
    if (rc != CLU_OK) clu_raise_err(&e);
  } else {
    clu_os_addr_any(CLU_INET, 0, &at[0]);
  }
  for (R_xlen_t i = 0; i < Rf_xlength(ports); i++) {
    clu_os_addr_set_port(&at[0], INTEGER(ports)[i]);
    if ((rc = clu_sock_listen(s, at, 1, NULL, &how, &e)) != CLU_IN_USE) break;
  }
  if (rc != CLU_OK) {
    UNPROTECT(2);
    return Rf_mkString(e.text);
  }
  SET_VECTOR_ELT(out, 0, x);
  SET_VECTOR_ELT(out, 1, Rf_ScalarInteger(clu_os_addr_host(&s->local, text, sizeof text)));
  UNPROTECT(2);
  return out;
}

/* The next connection, or NULL: there is none now. */
SEXP ffi_psock_accept(SEXP listener) {
  clu_sock *l = get_psock(listener);
  SEXP x = PROTECT(new_psock());
  clu_sock *s = R_ExternalPtrAddr(x);
  int rc = clu_sock_accept(l, s, NULL);
  if (rc == CLU_OK) {
    clu_os_move_high(&s->fd, 1024);
    clu_os_sockopt_set(s->fd, CLU_OPT_NODELAY, 1);
    clu_os_sockopt_set(s->fd, CLU_OPT_KEEPALIVE, 1);
  }
  UNPROTECT(1);
  return rc == CLU_OK ? x : R_NilValue;
}

/* Numbers of those that can be read, after at most `seconds`; an interrupt ends it. */
SEXP ffi_psock_ready(SEXP list, SEXP seconds) {
  R_xlen_t n = Rf_xlength(list), k = 0;
  uint64_t deadline = clu_in_seconds(seconds);
  clu_watch *w = (clu_watch *)R_alloc((size_t)n + 1, sizeof *w);
  SEXP out;
  int ready = 0;
  for (R_xlen_t i = 0; i < n; i++) {
    clu_sock *s = get_psock(VECTOR_ELT(list, i));
    w[i].fd = s ? s->fd : CLU_NO_FD;
    w[i].want = CLU_READ;
    if (s && s->end > s->pos) ready++;
  }
  while (!ready) {
    uint64_t now = clu_os_now();
    int64_t wait = now >= deadline ? 0 : deadline - now < 100000000 ? (int64_t)(deadline - now) : 100000000;
    clu_os_poll(w, (int)n, wait, &ready, NULL);
    if (ready || now >= deadline) break;
    R_CheckUserInterrupt();
  }
  out = PROTECT(Rf_allocVector(INTSXP, n));
  for (R_xlen_t i = 0; i < n; i++) {
    clu_sock *s = get_psock(VECTOR_ELT(list, i));
    if ((w[i].ready & CLU_READ) || (s && s->end > s->pos)) INTEGER(out)[k++] = (int)i + 1;
  }
  UNPROTECT(1);
  return Rf_lengthgets(out, k);
}

/* Whether all of the object has been given to the system. */
SEXP ffi_psock_send(SEXP x, SEXP object) {
  clu_sock *s = get_psock(x);
  clu_blob *b;
  size_t done = 0;
  int rc = CLU_OK;
  if (!s) return Rf_ScalarLogical(FALSE);
  b = clu_serialize(NULL, object);
  while (done < b->size && (rc == CLU_OK || rc == CLU_AGAIN)) {
    size_t put = 0;
    rc = clu_sock_put(s, b->data + done, b->size - done, &put, NULL);
    done += put;
    if (rc == CLU_AGAIN) clu_sock_wait(s, CLU_WRITE, 100000000);
  }
  rc = done == b->size;
  clu_blob_unref(b);
  return Rf_ScalarLogical(rc);
}

typedef struct {
  clu_sock *s;
  uint64_t deadline;
  size_t left;
} limited;

static int read_limited(void *data, void *p, size_t n) {
  limited *l = data;
  if (n > l->left) return CLU_PROTO;
  l->left -= n;
  while (n > 0) {
    size_t got = clu_sock_take(l->s, p, n);
    int rc;
    clu_sock_keep(l->s);
    p = (char *)p + got;
    n -= got;
    if (n == 0) break;
    rc = clu_sock_fill(l->s, NULL);
    if (rc == CLU_AGAIN) {
      if (clu_os_now() >= l->deadline) return CLU_TIMEOUT;
      clu_sock_wait(l->s, CLU_READ, 100000000);
    } else if (rc != CLU_OK) {
      return rc == CLU_EOF ? CLU_RESET : rc;
    }
  }
  return CLU_OK;
}

/* The next object; an R error when it is not complete within `seconds`, or longer than `bytes`: the socket is of
 * no more use then. `node`: the handle whose answer is counted, or NULL. */
SEXP ffi_psock_recv(SEXP x, SEXP seconds, SEXP bytes, SEXP node) {
  clu_sock *s = get_psock(x);
  limited l;
  SEXP out;
  double most = Rf_asReal(bytes);
  if (!s || s->fd == CLU_NO_FD) Rf_error("the connection is closed");
  l.s = s;
  l.deadline = clu_in_seconds(seconds);
  l.left = most < 1e15 ? (size_t)most : SIZE_MAX;
  out = clu_unserialize_from(read_limited, &l);
  if (node != R_NilValue) clu_get_node(node)->done++;
  return out;
}

SEXP ffi_psock_close(SEXP x) {
  clu_sock *s = get_psock(x);
  if (s) clu_sock_drop(s);
  return R_NilValue;
}

/* A worker has answered: it is process `pid`. */
SEXP ffi_psock_is_ready(SEXP handle, SEXP pid) {
  clu_node *nd = clu_get_node(handle);
  nd->pid = Rf_asInteger(pid);
  if (nd->state == CLU_NODE_SPAWNING) nd->state = CLU_NODE_READY;
  return R_NilValue;
}

/* The pid of the process that was started for it, NULL: none was. */
SEXP ffi_node_child_pid(SEXP handle) {
  clu_node *nd = clu_get_node(handle);
  return nd->child ? Rf_ScalarInteger((int)nd->child->pid) : R_NilValue;
}

/* The caller has seen that it is no more. */
SEXP ffi_node_lost(SEXP handle) {
  clu_node_lose(clu_get_node(handle));
  return R_NilValue;
}
