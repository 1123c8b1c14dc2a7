/* Other hosts, seen from R: the link process of this session, and the fork servers of hosts behind
 * it. */
#include "r/session/session.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/grow.h"
#include "core/link/relay.h"
#include "core/net/resolve.h"
#include "core/net/tls.h"
#include "core/node/transports.h"
#include "core/wire/handshake.h"
#include "r/private-text.h"

typedef struct host_state {
  int rank;
  int state; /* enum clu_relay_state */
  double counts[3];
  uint64_t since; /* it has this state: clu_os_now() */
  char why[256];
  int answered;     /* since it was asked */
  uint64_t command; /* the node that is the command which has started it; 0: not known */
  int carries;      /* that one carries the connection, too */
} host_state;

typedef struct link_process {
  struct link_process *next;
  clu_node *nd;
  int port;
  unsigned char secret[CLU_SECRET];
  char *own, *certificate; /* of the hosts' side: its texts, and the session's certificate */
  host_state *hosts;
  int n;
  size_t cap;
  clu_timer inspect; /* armed while a host is cut off: has its command ended? */
  uint64_t pause;
} link_process;

/* ns between two looks at commands */
#define FIRST_PAUSE 20000000
#define LONGEST_PAUSE 1000000000

static link_process *links;

static void free_text(char *p) {
  if (p) clu_os_wipe(p, strlen(p));
  free(p);
}

static void free_link(void *p) {
  link_process *k = p;
  for (link_process **at = &links; *at; at = &(*at)->next) {
    if (*at != k) continue;
    *at = k->next;
    break;
  }
  clu_timer_cancel(&k->inspect);
  if (k->nd) clu_node_free(k->nd);
  free_text(k->own);
  free(k->certificate);
  free(k->hosts);
  clu_os_wipe(k, sizeof *k);
  free(k);
}

static clu_handle_kind link_processes = {.name = "clutch_link", .free = free_link};

static link_process *get_link(SEXP x) { return clu_handle_get(x, &link_processes); }

static host_state *find_host(link_process *k, int rank) {
  for (int i = 0; i < k->n; i++)
    if (k->hosts[i].rank == rank) return &k->hosts[i];
  return NULL;
}

/* ---- hosts of which nothing is left ---- */

static clu_node *find_node(uint64_t id) {
  clu_node *nd = clu_session_nodes(clu_the_session);
  while (nd && clu_node_id(nd) != id) nd = clu_node_next(nd);
  return nd;
}

/* What ssh and srun end with says how the program there has ended, but for 255: they may have lost
 * their own connection. 1: `text` says so; 0: it is not known; -1: it has not ended. */
static int is_gone(const host_state *h, char *text, size_t size) {
  clu_node *nd = h->command ? find_node(h->command) : NULL;
  clu_node_status st;
  if (!nd) return 0;
  clu_node_status_of(nd, &st);
  if (clu_node_is_open(nd)) return -1;
  if (!st.how_known || ((st.how.by_signal || st.how.code == 255) && !h->carries)) return 0;
  snprintf(text, size, "the command that had started it has ended, %s %d",
           st.how.by_signal ? "killed by signal" : "with exit status", st.how.code);
  return 1;
}

/* Within the event loop. */
static void inspect_commands(void *self) {
  link_process *k = self;
  int some = 0;
  for (int i = 0; i < k->n; i++) {
    host_state *h = &k->hosts[i];
    char text[100];
    int gone = h->state == CLU_RELAY_CUT ? is_gone(h, text, sizeof text) : 0;
    if (gone == 1)
      clu_node_pass(k->nd, CLU_K_HOST_STATE, (uint64_t)h->rank, text, strlen(text), CLU_NO_FD);
    some |= gone < 0;
  }
  k->pause = 2 * k->pause < LONGEST_PAUSE ? 2 * k->pause : LONGEST_PAUSE;
  if (some) clu_timer_arm(clu_session_loop(clu_the_session), &k->inspect, clu_os_now() + k->pause);
}

/* A host is cut off. If nothing is left there, its command ends in a moment. */
static void inspect_soon(link_process *k) {
  k->pause = FIRST_PAUSE;
  clu_timer_arm(clu_session_loop(clu_the_session), &k->inspect, clu_os_now() + k->pause);
}

/* Within the event loop. */
static void host_says(clu_node *nd, const clu_msg *m) {
  link_process *k = links;
  host_state *h;
  size_t n;
  while (k && k->nd != nd) k = k->next;
  h = k ? find_host(k, (int)m->seq) : NULL;
  if (!h || !m->body || m->body->size < 33) return;
  if (m->body->data[0] == CLU_RELAY_CUT && h->state != CLU_RELAY_CUT) inspect_soon(k);
  h->state = m->body->data[0];
  clu_session_host_cut(clu_the_session, clu_node_id(nd), m->seq,
                       h->state == CLU_RELAY_CUT     ? CLU_IS_CUT
                       : h->state == CLU_RELAY_ENDED ? CLU_HAS_SAID_BYE
                                                     : CLU_IS_REACHED);
  for (int i = 0; i < 3; i++) h->counts[i] = (double)clu_get64(m->body->data + 1 + 8 * i);
  h->since = clu_get64(m->body->data + 25);
  n = m->body->size - 33;
  if (n >= sizeof h->why) n = sizeof h->why - 1;
  memcpy(h->why, m->body->data + 33, n);
  h->why[n] = 0;
  h->answered = 1;
}

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
  if ((rc = clu_os_local_addr(*fd, &at)) == CLU_OK)
    *port = clu_os_addr_host(&at, text, sizeof text);
  return rc;
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
  clu_timer_init(&k->inspect, inspect_commands, k);
  clu_handle_set(x, k);
  k->next = links;
  links = k;
  clu_session_set_host_hook(clu_the_session, host_says);
  rc = listen_at(CHAR(STRING_ELT(host, 0)), ports, &fd, &k->port, &e);
  if (rc == CLU_OK && (rc = clu_node_new_fork(s, CLU_START_LINK, &k->nd, &e)) != CLU_OK)
    clu_os_close(fd);
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
  to += sprintf(to, "%s \"", name);
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

/* What only its hosts know, as lines: the secret as 64 digits, and where connections are encrypted
 * also own and certificate. See r/private-text.h. */
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

static host_state *new_host(link_process *k, int rank) {
  host_state *more = clu_grow(k->hosts, &k->cap, (size_t)k->n + 1, sizeof *more);
  if (!more) return NULL;
  k->hosts = more;
  memset(&k->hosts[k->n], 0, sizeof *k->hosts);
  k->hosts[k->n].rank = rank;
  k->hosts[k->n].since = clu_os_now();
  return &k->hosts[k->n++];
}

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
  if (find_host(k, number)) clu_raise("argument", "there was a host number %d", number);
  if (clu_os_pair(pair, &e) != CLU_OK) clu_raise_err(&e);
  rc = clu_server_connect(clu_the_session, pair[0], &s, &e);
  if (rc != CLU_OK) {
    clu_os_close(pair[1]);
    clu_raise_err(&e);
  }
  clu_handle_set(x, s);
  clu_server_set_host(s, clu_node_id(k->nd), (uint64_t)number);
  if (!new_host(k, number)) {
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
  host_state *h = find_host(get_link(link), Rf_asInteger(rank));
  if (!h) clu_raise("argument", "there is no host number %d", Rf_asInteger(rank));
  h->command = clu_node_id(clu_get_node(node));
  h->carries = Rf_asLogical(carries) == TRUE;
  return R_NilValue;
}

/* What that process knows of the nodes of cluster `number` on its hosts is shown in this view from
 * now on; with `view` NULL it is not any more. Whether that could be sent. */
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

static int all_answered(void *data) {
  const link_process *k = data;
  for (int i = 0; i < k->n; i++)
    if (!k->hosts[i].answered && k->hosts[i].state != 3) return 0;
  return 1;
}

/* list(rank, state, bytes_in, bytes_out, cuts, why, age), by host; of those that have ended what
 * was known then. `age`: for how many seconds it has been in this state. */
SEXP ffi_link_hosts(SEXP link) {
  static const char *names[] = {"rank", "state", "bytes_in", "bytes_out", "cuts", "why", "age", ""};
  static const char *const states[] = {"waiting", "up", "cut", "ended"};
  link_process *k = get_link(link);
  SEXP out = PROTECT(Rf_mkNamed(VECSXP, names));
  int n = k->n, up = clu_node_is_ready(k->nd);
  SET_VECTOR_ELT(out, 0, Rf_allocVector(INTSXP, n));
  SET_VECTOR_ELT(out, 1, Rf_allocVector(STRSXP, n));
  for (int c = 0; c < 3; c++) SET_VECTOR_ELT(out, 2 + c, Rf_allocVector(REALSXP, n));
  SET_VECTOR_ELT(out, 5, Rf_allocVector(STRSXP, n));
  SET_VECTOR_ELT(out, 6, Rf_allocVector(REALSXP, n));
  for (int i = 0; i < n && up; i++) {
    k->hosts[i].answered = 0;
    clu_node_pass(k->nd, CLU_K_HOST_STATE, (uint64_t)k->hosts[i].rank, NULL, 0, CLU_NO_FD);
  }
  if (up) clu_pump_for(all_answered, k, clu_in_ms(500));
  for (int i = 0; i < n; i++) {
    const host_state *h = &k->hosts[i];
    INTEGER(VECTOR_ELT(out, 0))[i] = h->rank;
    SET_STRING_ELT(VECTOR_ELT(out, 1), i, Rf_mkChar(states[up ? h->state & 3 : 3]));
    for (int c = 0; c < 3; c++) REAL(VECTOR_ELT(out, 2 + c))[i] = h->counts[c];
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
