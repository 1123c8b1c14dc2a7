/* Other hosts, seen from R: the link process of this session, and the fork servers of hosts behind
 * it. */
#include "r/session/session.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/link/hosts.h"
#include "core/net/resolve.h"
#include "core/net/tls.h"
#include "core/node/transports.h"
#include "core/wire/handshake.h"
#include "r/base/private-text.h"

typedef struct link_process {
  clu_node *nd;
  clu_link_hosts *hosts;
  int port;
  unsigned char secret[CLU_SECRET];
  char *own, *certificate; /* of the hosts' side: its texts, and the session's certificate */
} link_process;

static void free_text(char *p) {
  if (p) clu_os_wipe(p, strlen(p));
  free(p);
}

static void free_link(void *p) {
  link_process *k = p;
  clu_link_hosts_free(k->hosts);
  if (k->nd) clu_node_free(k->nd);
  free_text(k->own);
  free(k->certificate);
  clu_os_wipe(k, sizeof *k);
  free(k);
}

static clu_handle_kind link_processes = {.name = "clutch_link", .free = free_link};

static link_process *get_link(SEXP x) { return clu_handle_get(x, &link_processes); }

/* ---- start ---- */

static int listen_at(const char *host, SEXP ports, clu_fd *fd, int *port, clu_err *e) {
  clu_addr at;
  clu_listen how = {-1, 0, 0};
  char text[CLU_ADDR_TEXT];
  int granted, rc = clu_resolve_listener(host, &at, e);
  if (rc != CLU_OK) return rc;
  for (R_xlen_t i = 0; i < Rf_xlength(ports); i++) {
    clu_os_addr_set_port(&at, INTEGER(ports)[i]);
    rc = clu_os_listen(&at, &how, fd, &granted, e);
    if (rc != CLU_IN_USE) break;
  }
  if (rc != CLU_OK) return rc;
  if ((rc = clu_os_local_addr(*fd, &at)) != CLU_OK) {
    clu_os_close(*fd);
    return clu_fail(e, rc, 0, "the system does not tell the port of a listener");
  }
  *port = clu_os_addr_host(&at, text, sizeof text);
  return CLU_OK;
}

/* Key pairs of both sides. What the session's side has goes into `body`. */
static int make_keys(link_process *k, clu_blob *body, clu_err *e) {
  char own[CLU_TLS_TEXT], certificate[CLU_TLS_TEXT];
  char there_own[CLU_TLS_TEXT], there[CLU_TLS_TEXT];
  int rc = clu_tls_make_identity(own, certificate, e);
  if (rc == CLU_OK) rc = clu_tls_make_identity(there_own, there, e);
  if (rc == CLU_OK) {
    k->own = strdup(there_own);
    k->certificate = strdup(certificate);
    if (!k->own || !k->certificate || clu_blob_append(body, own, strlen(own) + 1) != 0 ||
        clu_blob_append(body, there, strlen(there) + 1) != 0)
      rc = clu_fail(e, CLU_NOMEM, 0, "not enough memory");
  }
  clu_os_wipe(own, sizeof own);
  clu_os_wipe(there_own, sizeof there_own);
  return rc;
}

static int say_listen(link_process *k, clu_fd fd, const double *times, int tls, clu_err *e) {
  unsigned char numbers[CLU_SECRET + 24];
  clu_blob *body = clu_blob_new(2 * CLU_TLS_TEXT + sizeof numbers);
  uint64_t cluster = 0;
  int rc = body ? clu_os_secret_bytes(k->secret, sizeof k->secret) : CLU_NOMEM;
  if (rc == CLU_OK) rc = clu_os_random(&cluster, sizeof cluster);
  memcpy(numbers, k->secret, CLU_SECRET);
  clu_put64(numbers + CLU_SECRET, cluster);
  clu_put64(numbers + CLU_SECRET + 8, (uint64_t)(1e9 * times[0]));
  clu_put64(numbers + CLU_SECRET + 16, (uint64_t)(1e9 * times[1]));
  if (rc != CLU_OK)
    clu_fail(e, rc, 0, "the system gives no random bytes");
  else if (clu_blob_append(body, numbers, sizeof numbers) != 0)
    rc = clu_fail(e, CLU_NOMEM, 0, "not enough memory");
  if (rc == CLU_OK && tls) rc = make_keys(k, body, e);
  if (rc == CLU_OK) {
    rc = clu_node_pass(k->nd, CLU_K_LISTEN, 0, body->data, body->size, fd);
    if (rc != CLU_OK) clu_fail(e, rc, 0, "the link process has ended");
  } else {
    clu_os_close(fd);
  }
  clu_os_wipe(numbers, sizeof numbers);
  if (body) clu_os_wipe(body->data, body->size);
  clu_blob_unref(body);
  return rc;
}

static int link_started(void *data) { return !clu_node_is_starting(((link_process *)data)->nd); }

/* Has the link process forked from `server`, when that is ready, see ffi_link_await(). What it is
 * told waits until then. It listens at `host` (as ffi_acceptor_open()), from now on, at the first
 * of `ports` that is free. `times`: heartbeat, and how long a host may be cut off, in seconds.
 * `tls`: TRUE or FALSE. */
SEXP ffi_link_start(SEXP server, SEXP host, SEXP ports, SEXP times, SEXP tls) {
  clu_server *s = clu_get_server(server);
  clu_err e = {0, 0, ""};
  clu_fd fd = CLU_NO_FD;
  /* the fork server is kept as long as there is the link process */
  SEXP x = PROTECT(clu_handle_new(&link_processes, server));
  link_process *k = calloc(1, sizeof *k);
  int rc;
  if (!k) clu_raise("memory", "not enough memory");
  clu_handle_set(x, k);
  if (!(k->hosts = clu_link_hosts_new(clu_the_session))) clu_raise("memory", "not enough memory");
  rc = listen_at(CHAR(STRING_ELT(host, 0)), ports, &fd, &k->port, &e);
  if (rc == CLU_OK && (rc = clu_node_new_fork(s, CLU_START_LINK, &k->nd, &e)) != CLU_OK)
    clu_os_close(fd);
  clu_link_hosts_set_process(k->hosts, k->nd);
  if (rc == CLU_OK) rc = say_listen(k, fd, REAL(times), Rf_asLogical(tls) == TRUE, &e);
  if (rc != CLU_OK) clu_raise_err(&e);
  UNPROTECT(1);
  return x;
}

/* Its fork server is ready: waits until it is there. */
SEXP ffi_link_await(SEXP link) {
  link_process *k = get_link(link);
  clu_wait_for(link_started, k, clu_in_ms(10000), NULL);
  if (!clu_node_is_ready(k->nd))
    clu_raise("start", "the link process to other hosts does not start%s%s",
              clu_node_refusal(k->nd) ? ": " : "",
              clu_node_refusal(k->nd) ? clu_node_refusal(k->nd) : "");
  return R_NilValue;
}

/* list(port, pid, is_up) */
SEXP ffi_link_info(SEXP link) {
  static const char *names[] = {"port", "pid", "is_up", ""};
  link_process *k = get_link(link);
  SEXP out = PROTECT(Rf_mkNamed(VECSXP, names));
  clu_pump(0, NULL);
  SET_VECTOR_ELT(out, 0, Rf_ScalarInteger(k->port));
  SET_VECTOR_ELT(out, 1, Rf_ScalarInteger((int)clu_node_pid(k->nd)));
  SET_VECTOR_ELT(out, 2, Rf_ScalarLogical(clu_node_is_ready(k->nd)));
  UNPROTECT(1);
  return out;
}

/* A line as R code, with \n for the ends of lines in `text`; `to` has room. Returns its end. */
static char *put_setting(char *to, const char *name, const char *text) {
  size_t n = strlen(name);
  memcpy(to, name, n);
  to += n;
  *to++ = ' ';
  *to++ = '"';
  for (; *text; text++) {
    if (*text == '\n') {
      *to++ = '\\';
      *to++ = 'n';
    } else {
      *to++ = *text;
    }
  }
  *to++ = '"';
  *to++ = '\n';
  return to;
}

/* Returns what only its hosts know, as lines: the secret as 64 digits, and where connections are
 * encrypted also own and certificate. See r/base/private-text.h. */
SEXP ffi_link_secrets(SEXP link) {
  const link_process *k = get_link(link);
  char hex[2 * CLU_SECRET + 1], text[sizeof hex + 4 * CLU_TLS_TEXT + 64], *to = text;
  SEXP out;
  clu_secret_to_hex(k->secret, hex);
  to = put_setting(to, "secret", hex);
  if (k->own) to = put_setting(to, "own", k->own);
  if (k->certificate) to = put_setting(to, "certificate", k->certificate);
  out = clu_private_new(text, (size_t)(to - text));
  clu_os_wipe(hex, sizeof hex);
  clu_os_wipe(text, sizeof text);
  return out;
}

/* ---- hosts ---- */

/* The fork server of a new host with this number, which no other has had. What is sent to it waits
 * until that host has connected. A host that is closed (ffi_server_close()) ends. */
SEXP ffi_link_host(SEXP link, SEXP rank) {
  link_process *k = get_link(link);
  int number = Rf_asInteger(rank);
  clu_err e = {0, 0, ""};
  clu_server *s = NULL;
  clu_fd pair[2];
  SEXP x = PROTECT(clu_server_handle_new(link));
  int rc;
  if (clu_link_hosts_find(k->hosts, number))
    clu_raise("argument", "there was a host number %d", number);
  if (clu_os_pair(pair, &e) != CLU_OK) clu_raise_err(&e);
  rc = clu_server_connect(clu_the_session, pair[0], &s, &e);
  if (rc != CLU_OK) {
    clu_os_close(pair[1]);
    clu_raise_err(&e);
  }
  clu_handle_set(x, s);
  clu_server_set_host(s, clu_node_id(k->nd), (uint64_t)number);
  if (!clu_link_hosts_add(k->hosts, number)) {
    clu_os_close(pair[1]);
    clu_raise("memory", "not enough memory");
  }
  if (clu_node_pass(k->nd, CLU_K_HOST, (uint64_t)number, NULL, 0, pair[1]) != CLU_OK)
    clu_raise("start", "the link process to other hosts has ended");
  UNPROTECT(1);
  return x;
}

/* Command `node` (a handle) has started that host, and may have others. `carries`: it also carries
 * the connection, so that nothing is left there when it ends. */
SEXP ffi_link_command(SEXP link, SEXP rank, SEXP node, SEXP carries) {
  clu_link_host *h = clu_link_hosts_find(get_link(link)->hosts, Rf_asInteger(rank));
  if (!h) clu_raise("argument", "there is no host number %d", Rf_asInteger(rank));
  clu_link_host_set_command(h, clu_node_id(clu_get_node(node)), Rf_asLogical(carries) == TRUE);
  return R_NilValue;
}

/* All that this process knows of the nodes of cluster `number` on its hosts is shown in this view
 * from now on; with `view` NULL it is not any more. Tells whether that was sent. */
SEXP ffi_link_view(SEXP link, SEXP number, SEXP view) {
  link_process *k = get_link(link);
  const clu_view *v = clu_get_view(view);
  unsigned char size[8];
  clu_fd fd = CLU_NO_FD;
  clu_put64(size, sizeof *v->memory);
  if (v && clu_os_dup(v->fd, &fd) != CLU_OK) return Rf_ScalarLogical(0);
  return Rf_ScalarLogical(clu_node_pass(k->nd, CLU_K_VIEW, (uint64_t)Rf_asReal(number), size,
                                        v ? sizeof size : 0, fd) == CLU_OK);
}

static int are_answered(void *data) { return clu_link_hosts_are_answered(data); }

/* list(rank, state, bytes_in, bytes_out, cuts, why, age), by host; of those that have ended what
 * was known then. `age`: for how many seconds it has been in this state. */
SEXP ffi_link_hosts(SEXP link) {
  static const char *names[] = {"rank", "state", "bytes_in", "bytes_out", "cuts", "why", "age", ""};
  static const char *const states[] = {"waiting", "up", "cut", "ended"};
  link_process *k = get_link(link);
  SEXP out = PROTECT(Rf_mkNamed(VECSXP, names));
  int n = clu_link_hosts_count(k->hosts), up = clu_node_is_ready(k->nd);
  SET_VECTOR_ELT(out, 0, Rf_allocVector(INTSXP, n));
  SET_VECTOR_ELT(out, 1, Rf_allocVector(STRSXP, n));
  for (int c = 0; c < 3; c++) SET_VECTOR_ELT(out, 2 + c, Rf_allocVector(REALSXP, n));
  SET_VECTOR_ELT(out, 5, Rf_allocVector(STRSXP, n));
  SET_VECTOR_ELT(out, 6, Rf_allocVector(REALSXP, n));
  if (up) {
    clu_link_hosts_ask(k->hosts);
    clu_pump_for(are_answered, k->hosts, clu_in_ms(500));
  }
  for (int i = 0; i < n; i++) {
    const clu_link_host *h = clu_link_hosts_at(k->hosts, i);
    INTEGER(VECTOR_ELT(out, 0))[i] = h->rank;
    SET_STRING_ELT(VECTOR_ELT(out, 1), i, Rf_mkChar(states[up ? h->state & 3 : 3]));
    for (int c = 0; c < 3; c++) REAL(VECTOR_ELT(out, 2 + c))[i] = (double)h->counts[c];
    SET_STRING_ELT(VECTOR_ELT(out, 5), i, Rf_mkChar(h->why));
    REAL(VECTOR_ELT(out, 6))[i] = 1e-9 * (double)(clu_os_now() - h->since);
  }
  UNPROTECT(1);
  return out;
}

static int link_ended(void *data) { return clu_node_end_known(((link_process *)data)->nd); }

/* Ends it, and so all that is on its hosts. TRUE: it has ended within `seconds`. */
SEXP ffi_link_close(SEXP link, SEXP seconds) {
  link_process *k = get_link(link);
  if (clu_node_is_open(k->nd)) clu_node_stop(k->nd, 2000);
  return Rf_ScalarLogical(clu_pump_for(link_ended, k, clu_in_seconds(seconds)));
}
