/* This file has what sockets tell of themselves: one, or all of this process. */
#include "r/socket/socket.h"

#include <stdlib.h>
#include <string.h>

#include "core/base/addr.h"

static const char *const states[CLU_N_TCP] = {"",           "ESTABLISHED", "SYN_SENT",  "SYN_RECV",
                                              "FIN_WAIT1",  "FIN_WAIT2",   "TIME_WAIT", "CLOSED",
                                              "CLOSE_WAIT", "LAST_ACK",    "LISTEN",    "CLOSING"};

/* Columns of both, in this order */
enum {
  FD,
  SLOT,
  OURS,
  KIND,
  FAMILY,
  STATE,
  LOCAL,
  LOCAL_PORT,
  PEER,
  PEER_PORT,
  QUEUED_IN,
  QUEUED_OUT,
  RETRANSMITS,
  RTT,
  AGE,
  IN,
  OUT,
  BACKLOG_ASKED,
  BACKLOG_GRANTED,
  BACKLOG_USED,
  ACCEPTED,
  TIMEOUT,
  ERROR,
  PATH,
  COLUMNS
};
static const char *const names[COLUMNS] = {"fd",
                                           "connection",
                                           "ours",
                                           "kind",
                                           "family",
                                           "state",
                                           "local_host",
                                           "local_port",
                                           "peer_host",
                                           "peer_port",
                                           "queued_in",
                                           "queued_out",
                                           "retransmits",
                                           "rtt",
                                           "age",
                                           "bytes_in",
                                           "bytes_out",
                                           "backlog_asked",
                                           "backlog_granted",
                                           "backlog_used",
                                           "accepted",
                                           "timeout",
                                           "last_error",
                                           "path"};
static const SEXPTYPE types[COLUMNS] = {INTSXP,  INTSXP,  LGLSXP,  STRSXP,  STRSXP,  STRSXP,
                                        STRSXP,  INTSXP,  STRSXP,  INTSXP,  REALSXP, REALSXP,
                                        REALSXP, REALSXP, REALSXP, REALSXP, REALSXP, INTSXP,
                                        INTSXP,  INTSXP,  REALSXP, REALSXP, STRSXP,  STRSXP};

static void put(SEXP out, int column, int row, double v) {
  SEXP x = VECTOR_ELT(out, column);
  int none = ISNAN(v);
  if (TYPEOF(x) == REALSXP)
    REAL(x)[row] = none ? NA_REAL : v;
  else
    INTEGER(x)[row] = none ? (TYPEOF(x) == LGLSXP ? NA_LOGICAL : NA_INTEGER) : (int)v;
}

static double known(double v) { return v < 0 ? NA_REAL : v; }

static void text(SEXP out, int column, int row, const char *v) {
  SET_STRING_ELT(VECTOR_ELT(out, column), row, v ? Rf_mkChar(v) : NA_STRING);
}

static void address(SEXP out, int host_column, int row, const clu_addr *a) {
  char host[CLU_ADDR_TEXT];
  int port = clu_os_addr_host(a, host, sizeof host);
  text(out, host_column, row, a->family ? host : NULL);
  put(out, host_column + 1, row, known(port));
}

static void describe(SEXP out, int row, clu_fd fd, const clu_sock *s) {
  static const char *const kinds[] = {"other", "stream", "datagram"};
  static const char *const families[] = {"other", "IPv4", "IPv6", "unix"};
  clu_sock_status st;
  clu_addr local, peer;
  int rc = fd == CLU_NO_FD ? CLU_SYS : clu_os_sock_status(fd, &st);
  memset(&local, 0, sizeof local);
  memset(&peer, 0, sizeof peer);
  if (rc != CLU_OK) { /* connecting, or closed */
    memset(&st, 0, sizeof st);
    st.queued_in = st.queued_out = st.retransmits = st.rtt_us = st.backlog_used = st.backlog_max =
        -1;
    st.kind = CLU_KIND_STREAM;
  } else {
    if (s && s->listening) st.listening = 1; /* not every system tells */
    clu_os_local_addr(fd, &local);
    if (!st.listening) clu_os_peer_addr(fd, &peer);
  }
  if (s && !local.family) local = s->local;
  if (s && !peer.family) peer = s->peer; /* the system forgets it when the connection is over */
  put(out, FD, row, fd == CLU_NO_FD ? NA_REAL : (double)fd);
  put(out, SLOT, row, s && s->slot >= 0 ? s->slot : NA_REAL);
  put(out, OURS, row, s != NULL);
  text(out, KIND, row, st.listening ? "listener" : kinds[st.kind]);
  text(out, FAMILY, row, families[clu_addr_is_mapped(&local) ? CLU_INET : local.family]);
  text(out, STATE, row,
       rc != CLU_OK                              ? "CLOSED"
       : st.tcp                                  ? states[st.tcp]
       : st.listening                            ? "LISTEN"
       : local.family == CLU_UNIX && peer.family ? "CONNECTED"
                                                 : NULL);
  address(out, LOCAL, row, &local);
  address(out, PEER, row, &peer);
  put(out, QUEUED_IN, row, known((double)st.queued_in));
  put(out, QUEUED_OUT, row, known((double)st.queued_out));
  put(out, RETRANSMITS, row, known((double)st.retransmits));
  put(out, RTT, row, st.rtt_us < 0 ? NA_REAL : (double)st.rtt_us / 1e6);
  put(out, BACKLOG_USED, row, known((double)st.backlog_used));
  put(out, BACKLOG_GRANTED, row,
      st.backlog_max >= 0 ? (double)st.backlog_max
      : s && s->listening ? known(s->backlog_granted)
                          : NA_REAL);
  put(out, BACKLOG_ASKED, row, s && s->listening ? known(s->backlog_asked) : NA_REAL);
  put(out, AGE, row, s ? (double)(clu_os_now() - s->born) / 1e9 : NA_REAL);
  put(out, IN, row, s && !s->listening ? (double)s->bytes_in : NA_REAL);
  put(out, OUT, row, s && !s->listening ? (double)s->bytes_out : NA_REAL);
  put(out, ACCEPTED, row, s && s->listening ? (double)s->accepted : NA_REAL);
  put(out, TIMEOUT, row, !s ? NA_REAL : s->timeout_ns < 0 ? R_PosInf : (double)s->timeout_ns / 1e9);
  text(out, ERROR, row, s && s->last.code ? s->last.text : NULL);
  text(out, PATH, row, s ? s->path : NULL);
}

static SEXP columns(int rows) {
  SEXP out = PROTECT(Rf_allocVector(VECSXP, COLUMNS)),
       nm = PROTECT(Rf_allocVector(STRSXP, COLUMNS));
  for (int i = 0; i < COLUMNS; i++) {
    SET_VECTOR_ELT(out, i, Rf_allocVector(types[i], rows));
    SET_STRING_ELT(nm, i, Rf_mkChar(names[i]));
  }
  Rf_setAttrib(out, R_NamesSymbol, nm);
  UNPROTECT(2);
  return out;
}

SEXP ffi_socket_info(SEXP x) {
  clu_sock *s;
  int pending, listens;
  clu_fd fd = clu_socket_fd(x, &s, &pending, &listens);
  SEXP out = PROTECT(columns(1));
  describe(out, 0, fd, s);
  if (s && s->end > s->pos)
    put(out, QUEUED_IN, 0, REAL(VECTOR_ELT(out, QUEUED_IN))[0] + (double)(s->end - s->pos));
  UNPROTECT(1);
  return out;
}

static int by_fd(const void *a, const void *b) {
  clu_fd x = (*(const clu_sock *const *)a)->fd, y = (*(const clu_sock *const *)b)->fd;
  return (x > y) - (x < y);
}

static int fd_to_socket(const void *fd, const void *b) {
  clu_fd x = *(const clu_fd *)fd, y = (*(const clu_sock *const *)b)->fd;
  return (x > y) - (x < y);
}

/* The open ones of this package, sorted by descriptor. */
static const clu_sock **ours_by_fd(int *n) {
  const clu_sock **all = (const clu_sock **)R_alloc((size_t)*n + 1, sizeof *all);
  int k = 0;
  for (clu_sock *s = clu_sock_next(NULL); s && k < *n; s = clu_sock_next(s))
    if (s->fd != CLU_NO_FD) all[k++] = s;
  qsort(all, (size_t)k, sizeof *all, by_fd);
  *n = k;
  return all;
}

/* Every socket of this process. Where the system gives no list, those of the package. */
SEXP ffi_socket_table(void) {
  int n = 0, max = 64, own = 0, rc;
  clu_fd *fds = NULL;
  const clu_sock **ours;
  SEXP out;
  for (clu_sock *s = clu_sock_next(NULL); s; s = clu_sock_next(s)) own += s->fd != CLU_NO_FD;
  for (;;) {
    fds = (clu_fd *)R_alloc((size_t)max, sizeof *fds);
    rc = clu_os_sockets(fds, max, &n);
    if (rc != CLU_OK || n <= max) break;
    max = n + 16;
  }
  if (rc != CLU_OK) {
    fds = (clu_fd *)R_alloc((size_t)own + 1, sizeof *fds);
    n = 0;
    for (clu_sock *s = clu_sock_next(NULL); s; s = clu_sock_next(s))
      if (s->fd != CLU_NO_FD) fds[n++] = s->fd;
  }
  ours = ours_by_fd(&own);
  out = PROTECT(columns(n));
  for (int i = 0; i < n; i++) {
    const clu_sock *const *s = bsearch(&fds[i], ours, (size_t)own, sizeof *ours, fd_to_socket);
    describe(out, i, fds[i], s ? *s : NULL);
  }
  UNPROTECT(1);
  return out;
}

/* Number and descriptor of a connection of base R; NA: none */
SEXP ffi_connection_fd(SEXP x) {
  clu_fd fd = CLU_NO_FD;
  int pending = 0, listens = 0;
  clu_connection_socket(x, &fd, &pending, &listens);
  return Rf_ScalarInteger(fd == CLU_NO_FD ? NA_INTEGER : (int)fd);
}

/* How many there are: c(open, all), and threads that look up names */
SEXP ffi_socket_count(void) {
  SEXP out = Rf_allocVector(INTSXP, 3);
  INTEGER(out)[0] = INTEGER(out)[1] = 0;
  INTEGER(out)[2] = clu_resolve_threads();
  for (clu_sock *s = clu_sock_next(NULL); s; s = clu_sock_next(s)) {
    INTEGER(out)[0] += s->fd != CLU_NO_FD;
    INTEGER(out)[1]++;
  }
  return out;
}
