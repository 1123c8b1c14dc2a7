/* The start over TCP, seen from R: an acceptor, the nodes that are expected at it, their processes.
 *
 * An acceptor's handle protects the handles of its nodes, so that no node is freed before it. */
#include "r/session/session.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/net/resolve.h"
#include "core/node/acceptor.h"
#include "core/node/transports.h"

static void free_acceptor(void *p) { clu_acceptor_free(p); }
static clu_handle_kind acceptors = {.name = "clutch_acceptor", .free = free_acceptor};

static clu_acceptor *get_acceptor(SEXP x) {
  clu_acceptor *m;
  if (!clu_handle_is(x, &acceptors)) clu_raise("argument", "this is no acceptor's handle");
  m = R_ExternalPtrAddr(x);
  if (!m) clu_raise("stopped", "this acceptor is closed");
  clu_need_session_of(x);
  return m;
}

/* list(handle, port, backlog): listens at `host` (as clu_resolve_listener()) at
 * the first of `ports` that is free; or, when none is, a string. `backlog` NA: the most the
 * system allows. `secret`: digits, or NULL for a random one. */
SEXP ffi_acceptor_open(SEXP host, SEXP ports, SEXP backlog, SEXP secret) {
  static const char *names[] = {"handle", "port", "backlog", ""};
  const char *h = CHAR(STRING_ELT(host, 0));
  clu_err e = {0, 0, ""};
  clu_acceptor *m = NULL;
  clu_addr at;
  int granted = -1, port = 0, rc = CLU_DNS, most = Rf_asInteger(backlog);
  unsigned char given[CLU_SECRET];
  SEXP out, x;
  clu_need_session();
  if (secret != R_NilValue && (strlen(CHAR(STRING_ELT(secret, 0))) != 2 * CLU_SECRET ||
                               !clu_secret_from_hex(CHAR(STRING_ELT(secret, 0)), given)))
    clu_raise("argument", "`secret` has to be %d hexadecimal digits", 2 * CLU_SECRET);
  x = PROTECT(clu_handle_new(&acceptors, R_NilValue));
  out = PROTECT(Rf_mkNamed(VECSXP, names));
  if (clu_resolve_listener(h, &at, &e) != CLU_OK) clu_raise_err(&e);
  for (R_xlen_t i = 0; i < Rf_xlength(ports); i++) {
    clu_os_addr_set_port(&at, INTEGER(ports)[i]);
    rc = clu_acceptor_open(clu_the_session, &at, most == NA_INTEGER ? -1 : most,
                           secret == R_NilValue ? NULL : given, &m, &granted, &port, &e);
    if (rc != CLU_IN_USE) break;
  }
  clu_os_wipe(given, sizeof given);
  if (rc != CLU_OK) {
    UNPROTECT(2);
    return Rf_mkString(e.text);
  }
  clu_handle_set(x, m);
  SET_VECTOR_ELT(out, 0, x);
  SET_VECTOR_ELT(out, 1, Rf_ScalarInteger(port));
  SET_VECTOR_ELT(out, 2, Rf_ScalarInteger(granted < 0 ? NA_INTEGER : granted));
  UNPROTECT(2);
  return out;
}

/* Tells whether this machine has this address, which is a number. */
SEXP ffi_can_listen(SEXP host) {
  clu_listen how = {0, 0, 0};
  clu_addr at[CLU_MAX_ADDRS];
  clu_fd fd;
  int n = 0;
  if (clu_os_ask_name(CHAR(STRING_ELT(host, 0)), 1, at, &n) != 0 ||
      clu_os_listen(&at[0], &how, &fd, NULL, NULL) != CLU_OK)
    return Rf_ScalarLogical(FALSE);
  clu_os_close(fd);
  return Rf_ScalarLogical(TRUE);
}

#define HEX (2 * CLU_SECRET + 1)

static void secret_hex(const clu_acceptor *m, char out[HEX]) {
  clu_secret_to_hex(clu_acceptor_secret(m), out);
}

/* Returns it as hexadecimal digits, for the command that a person is asked to run. */
SEXP ffi_acceptor_secret(SEXP acceptor) {
  char hex[HEX];
  SEXP out;
  secret_hex(get_acceptor(acceptor), hex);
  out = Rf_mkString(hex);
  clu_os_wipe(hex, sizeof hex);
  return out;
}

/* A handle of the node number `rank`, which has not arrived. */
SEXP ffi_acceptor_node(SEXP acceptor, SEXP rank, SEXP settings) {
  clu_acceptor *m = get_acceptor(acceptor);
  clu_err e = {0, 0, ""};
  clu_node *nd = NULL;
  SEXP x = PROTECT(clu_node_handle_new()), kept;
  clu_blob *b;
  int rc;
  /* a node is not freed before its acceptor */
  kept = PROTECT(Rf_cons(x, R_ExternalPtrProtected(acceptor)));
  R_SetExternalPtrProtected(acceptor, kept);
  UNPROTECT(1);
  b = clu_serialize(NULL, settings);
  rc = clu_node_new_tcp(clu_the_session, &nd, &e);
  if (rc == CLU_OK) {
    clu_node_set_rank(nd, Rf_asInteger(rank));
    clu_node_handle_set(x, nd);
    if ((rc = clu_acceptor_expect(m, nd, clu_node_rank(nd), b)) != CLU_OK)
      clu_fail(&e, rc, 0, "not enough memory");
  }
  clu_blob_unref(b);
  if (rc != CLU_OK) clu_raise_err(&e);
  UNPROTECT(1);
  return x;
}

/* Starts the process of an expected node, which gets the secret: see clu_process_start(). */
SEXP ffi_acceptor_spawn(SEXP acceptor, SEXP handle, SEXP argv, SEXP envp, SEXP how) {
  char hex[HEX];
  clu_err e = {0, 0, ""};
  clu_acceptor *m = get_acceptor(acceptor);
  clu_node *nd = clu_get_node(handle);
  clu_process process;
  int rc;
  clu_process_init(&process, argv, envp, how);
  secret_hex(m, hex);
  rc = clu_process_start(&process, nd, hex, &e);
  clu_os_wipe(hex, sizeof hex);
  if (rc != CLU_OK) clu_raise_err(&e);
  clu_pump(0, NULL); /* nodes that have connected already need not wait for the last one */
  return R_NilValue;
}

typedef struct {
  SEXP nodes; /* pairlist of handles */
  int want;
} arrival_wait;

static int some_failed(const arrival_wait *w) {
  for (SEXP x = w->nodes; x != R_NilValue; x = CDR(x)) {
    const clu_node *nd = R_ExternalPtrAddr(CAR(x));
    if (!clu_node_is_open(nd) || clu_node_refusal(nd)) return 1;
  }
  return 0;
}

static int enough_ready(const arrival_wait *w) {
  int ready = 0;
  for (SEXP x = w->nodes; x != R_NilValue; x = CDR(x))
    ready += clu_node_is_ready(R_ExternalPtrAddr(CAR(x)));
  return ready >= w->want;
}

static int arrived_or_failed(void *data) { return enough_ready(data) || some_failed(data); }

/* Tells whether `n` of the expected nodes are ready: FALSE when the time is up or one has
 * failed. */
SEXP ffi_acceptor_wait(SEXP acceptor, SEXP n, SEXP seconds) {
  arrival_wait w;
  int is_there;
  get_acceptor(acceptor);
  w.want = Rf_asInteger(n);
  /* what this process does while it waits may close the acceptor, which has the list */
  w.nodes = PROTECT(R_ExternalPtrProtected(acceptor));
  clu_wait_for(arrived_or_failed, &w, clu_in_seconds(seconds), NULL);
  is_there = enough_ready(&w) && !some_failed(&w);
  UNPROTECT(1);
  return Rf_ScalarLogical(is_there);
}

/* Returns what came to the listener: named counts. */
SEXP ffi_acceptor_report(SEXP acceptor) {
  static const char *names[] = {"accepted", "pending", "crowded", "pauses",   "silent",
                                "closed",   "garbage", "version", "no_proof", ""};
  static const int whys[] = {CLU_HS_SILENT, CLU_HS_CLOSED, CLU_HS_GARBAGE, CLU_HS_VERSION_DIFFERS,
                             CLU_HS_NO_PROOF};
  clu_acceptor_report r;
  SEXP out = PROTECT(Rf_mkNamed(INTSXP, names));
  clu_acceptor_report_to(get_acceptor(acceptor), &r);
  INTEGER(out)[0] = r.accepted;
  INTEGER(out)[1] = r.pending;
  INTEGER(out)[2] = r.crowded;
  INTEGER(out)[3] = r.pauses;
  for (int i = 0; i < 5; i++) INTEGER(out)[4 + i] = r.failed[whys[i]];
  UNPROTECT(1);
  return out;
}

/* Nobody can arrive any more. */
SEXP ffi_acceptor_close(SEXP acceptor) {
  if (clu_handle_is(acceptor, &acceptors)) {
    clu_handle_end(acceptor);
    R_SetExternalPtrProtected(acceptor, R_NilValue);
  }
  return R_NilValue;
}
