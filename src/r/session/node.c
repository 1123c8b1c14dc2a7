/* Nodes, seen from R: a handle, their start and end, what is known of them. */
#include "r/session/session.h"

#include <string.h>

#include "core/node/transports.h"
#include "core/wire/frame.h"

static void free_node(void *p) { clu_node_free(p); }
static clu_handle_kind nodes_of_r = {.name = "clutch_node", .free = free_node};

clu_node *clu_get_node(SEXP x) { return clu_handle_get(x, &nodes_of_r); }
/* It keeps the tags of calls (call.c). */
SEXP clu_node_handle_new(void) { return clu_handle_new(&nodes_of_r, Rf_allocVector(VECSXP, 0)); }

void clu_node_handle_set(SEXP x, clu_node *nd) { clu_handle_set(x, nd); }

/* Tells whether all that there are have ended, of a start that failed half-way. */
static int all_ended(void *list) {
  for (R_xlen_t i = 0; i < Rf_xlength(list); i++) {
    clu_node *nd = R_ExternalPtrAddr(VECTOR_ELT(list, i));
    if (nd && !clu_node_end_known(nd)) return 0;
  }
  return 1;
}

int clu_start_kind_named(const char *name) {
  static const char *const names[] = {"fork", "exec",         "program",
                                      "kept", "exec_program", "exec_kept"};
  int k = (int)(sizeof names / sizeof *names) - 1;
  while (k > 0 && strcmp(names[k], name) != 0) k--;
  return k;
}

/* A node for each of `ranks`, which are the numbers that they have in their cluster. `kind`:
 * as clu_start_kind_named() knows it, see enum clu_start_kind. */
SEXP ffi_nodes_spawn(SEXP server, SEXP ranks, SEXP kind) {
  clu_server *s = clu_get_server(server);
  clu_err e = {0, 0, ""};
  int k = Rf_length(ranks), how = clu_start_kind_named(CHAR(STRING_ELT(kind, 0)));
  SEXP out = PROTECT(Rf_allocVector(VECSXP, k));
  for (int i = 0; i < k; i++) SET_VECTOR_ELT(out, i, clu_node_handle_new());
  for (int i = 0; i < k; i++) {
    clu_node *nd = NULL;
    int rc = clu_server_is_remote(s) ? clu_node_new_host(s, how, &nd, &e)
                                     : clu_node_new_fork(s, how, &nd, &e);
    if (rc != CLU_OK) {
      for (int j = 0; j < i; j++) clu_node_stop(R_ExternalPtrAddr(VECTOR_ELT(out, j)), 0);
      clu_pump_for(all_ended, out, clu_in_ms(2000));
      clu_raise_err(&e);
    }
    clu_node_set_rank(nd, INTEGER(ranks)[i]);
    clu_node_handle_set(VECTOR_ELT(out, i), nd);
    if (i % 8 == 7) clu_pump(0, NULL); /* descriptors in flight are limited */
  }
  UNPROTECT(1);
  return out;
}

typedef struct {
  SEXP list; /* of handles */
  R_xlen_t from;
} nodes_wait;

static clu_node *nth(SEXP list, R_xlen_t i) { return R_ExternalPtrAddr(VECTOR_ELT(list, i)); }

static int nodes_ready(void *data) {
  nodes_wait *w = data;
  for (; w->from < Rf_xlength(w->list); w->from++) {
    clu_node *nd = nth(w->list, w->from);
    if (clu_node_is_starting(nd)) return 0;
    if (!clu_node_is_ready(nd)) return 1;
  }
  return 1;
}

/* 0 when all are ready, else the number of one that is not. */
SEXP ffi_nodes_wait(SEXP list, SEXP seconds) {
  nodes_wait w;
  w.list = list;
  w.from = 0;
  for (R_xlen_t i = 0; i < Rf_xlength(list); i++) clu_get_node(VECTOR_ELT(list, i));
  clu_wait_for(nodes_ready, &w, clu_in_seconds(seconds), NULL);
  if (w.from < Rf_xlength(list) && !clu_node_is_open(nth(list, w.from)))
    clu_node_await_end(nth(list, w.from));
  return Rf_ScalarInteger(w.from < Rf_xlength(list) ? (int)w.from + 1 : 0);
}

static int nodes_ended(void *data) {
  nodes_wait *w = data;
  for (; w->from < Rf_xlength(w->list); w->from++) {
    clu_node *nd = nth(w->list, w->from);
    if (!clu_node_end_known(nd)) return 0;
  }
  return 1;
}

static int one_ended(void *data) {
  nodes_wait *w = data;
  for (w->from = 0; w->from < Rf_xlength(w->list); w->from++)
    if (clu_node_end_known(nth(w->list, w->from))) return 1;
  return 0;
}

/* The number of the first of these nodes whose end is known, waited for; 0 when the time is up. */
SEXP ffi_nodes_await_end(SEXP list, SEXP seconds) {
  nodes_wait w = {.list = list, .from = 0};
  for (R_xlen_t i = 0; i < Rf_xlength(list); i++) clu_get_node(VECTOR_ELT(list, i));
  int found = clu_wait_for(one_ended, &w, clu_in_seconds(seconds), NULL);
  return Rf_ScalarInteger(found ? (int)w.from + 1 : 0);
}

/* Stops nodes: the idle ones are asked to, and killed after `grace_ms`; the busy ones are killed at
 * once. TRUE when all are gone within `seconds`. No interrupt ends it early: it is bounded. */
SEXP ffi_nodes_stop(SEXP list, SEXP grace_ms, SEXP seconds) {
  nodes_wait w;
  uint32_t grace = (uint32_t)Rf_asReal(grace_ms);
  w.list = list;
  w.from = 0;
  for (R_xlen_t i = 0; i < Rf_xlength(list); i++) clu_get_node(VECTOR_ELT(list, i));
  for (R_xlen_t i = 0; i < Rf_xlength(list); i++) {
    clu_node *nd = nth(list, i);
    clu_node_stop(nd, clu_node_busy(nd) ? 0 : grace);
  }
  return Rf_ScalarLogical(clu_pump_for(nodes_ended, &w, clu_in_seconds(seconds)));
}

SEXP clu_node_info(clu_node *nd) {
  static const char *names[] = {"rank",         "pid",     "state", "by_signal", "code",
                                "refusal",      "age",     "done",  "waiting",   "server_pid",
                                "server_ended", "started", "oom",   "gave_back", ""};
  SEXP out = PROTECT(Rf_mkNamed(VECSXP, names));
  clu_node_status st;
  int64_t gave_back;
  clu_node_status_of(nd, &st);
  SET_VECTOR_ELT(out, 0, Rf_ScalarInteger(clu_node_rank(nd)));
  SET_VECTOR_ELT(out, 1, Rf_ScalarInteger(clu_node_pid(nd) ? (int)clu_node_pid(nd) : NA_INTEGER));
  SET_VECTOR_ELT(out, 2, Rf_mkString(st.state));
  SET_VECTOR_ELT(out, 3, Rf_ScalarLogical(st.how_known ? st.how.by_signal : NA_LOGICAL));
  SET_VECTOR_ELT(out, 4, Rf_ScalarInteger(st.how_known ? st.how.code : NA_INTEGER));
  if (clu_node_refusal(nd)) SET_VECTOR_ELT(out, 5, Rf_mkString(clu_node_refusal(nd)));
  SET_VECTOR_ELT(out, 6, Rf_ScalarReal(1e-9 * (double)st.age));
  SET_VECTOR_ELT(out, 7, Rf_ScalarReal((double)st.done));
  SET_VECTOR_ELT(out, 8, Rf_ScalarInteger(st.waiting));
  SET_VECTOR_ELT(out, 9, Rf_ScalarInteger(st.server ? (int)st.server : NA_INTEGER));
  SET_VECTOR_ELT(out, 10, Rf_ScalarLogical(st.server_ended));
  SET_VECTOR_ELT(out, 11, Rf_ScalarInteger(st.started ? (int)st.started : NA_INTEGER));
  SET_VECTOR_ELT(out, 12, Rf_ScalarLogical(st.may_be_oom));
  gave_back = clu_node_gave_back(nd);
  SET_VECTOR_ELT(out, 13, Rf_ScalarReal(gave_back < 0 ? NA_REAL : (double)gave_back));
  UNPROTECT(1);
  return out;
}

SEXP ffi_node_info(SEXP handle) {
  clu_node *nd = clu_get_node(handle);
  clu_pump(0, NULL);
  return clu_node_info(nd);
}

int clu_node_keep_tag(SEXP handle, SEXP tag) {
  SEXP list = R_ExternalPtrProtected(handle), more;
  R_xlen_t n = Rf_xlength(list), i = 0;
  if (tag == R_NilValue) return -1;
  while (i < n && VECTOR_ELT(list, i) != R_NilValue) i++;
  if (i == n) {
    more = PROTECT(Rf_allocVector(VECSXP, n ? 2 * n : 4));
    for (R_xlen_t k = 0; k < n; k++) SET_VECTOR_ELT(more, k, VECTOR_ELT(list, k));
    R_SetExternalPtrProtected(handle, more);
    UNPROTECT(1);
    list = more;
  }
  SET_VECTOR_ELT(list, i, tag);
  return (int)i;
}

SEXP clu_node_take_tag(SEXP handle, int i) {
  SEXP list = R_ExternalPtrProtected(handle), tag;
  if (i < 0 || i >= Rf_xlength(list)) return R_NilValue;
  tag = VECTOR_ELT(list, i);
  SET_VECTOR_ELT(list, i, R_NilValue);
  return tag;
}

void clu_node_clear_tags(SEXP handle) {
  SEXP list = R_ExternalPtrProtected(handle);
  for (R_xlen_t i = 0; i < Rf_xlength(list) && VECTOR_ELT(list, i) != R_NilValue; i++)
    SET_VECTOR_ELT(list, i, R_NilValue);
}

static SEXP symbol_before(void) {
  static SEXP symbol;
  if (!symbol) symbol = Rf_install("before");
  return symbol;
}

SEXP clu_node_handle_before(SEXP handle) { return Rf_getAttrib(handle, symbol_before()); }

static int has_calls(SEXP handle) {
  const clu_node *nd = R_ExternalPtrAddr(handle);
  return nd && clu_node_first(nd);
}

/* The node before is kept for those who wait for its answers; what had come of it still counts. */
static void keep_before(SEXP handle, SEXP fresh) {
  SEXP before = PROTECT(clu_node_handle_before(handle));
  int is_asked = has_calls(fresh);
  if (before != R_NilValue && has_calls(before)) {
    Rf_setAttrib(fresh, symbol_before(), before);
    is_asked = 1;
  }
  Rf_setAttrib(handle, symbol_before(), is_asked ? fresh : R_NilValue);
  if (!is_asked) R_SetExternalPtrProtected(handle, Rf_allocVector(VECSXP, 0)); /* the tags */
  UNPROTECT(1);
}

void clu_node_handle_swap(SEXP handle, SEXP fresh) {
  clu_node *a = clu_get_node(handle), *b = clu_get_node(fresh);
  clu_node_drop_data(a);
  clu_node_show_instead(b, a);
  R_SetExternalPtrAddr(handle, b);
  R_SetExternalPtrAddr(fresh, a);
  keep_before(handle, fresh);
}

SEXP ffi_node_swap(SEXP handle, SEXP fresh) {
  clu_node_handle_swap(handle, fresh);
  return R_NilValue;
}

/* The pid of the process that this session has started for it; NULL: none. */
SEXP ffi_node_child_pid(SEXP handle) {
  clu_node_status st;
  clu_node_status_of(clu_get_node(handle), &st);
  return st.started ? Rf_ScalarInteger((int)st.started) : R_NilValue;
}

/* The caller has seen that it has ended. */
SEXP ffi_node_lost(SEXP handle) {
  clu_node_close(clu_get_node(handle));
  return R_NilValue;
}

/* Has its fork server write these bytes to the socket at this path there. TRUE: that was asked for;
 * FALSE: it has none, or has ended. */
SEXP ffi_node_deliver(SEXP handle, SEXP path, SEXP bytes) {
  const char *at = CHAR(STRING_ELT(path, 0));
  clu_node *nd = clu_get_node(handle);
  int rc = clu_node_deliver(nd, at, RAW(bytes), (size_t)Rf_xlength(bytes));
  if (rc == CLU_NOMEM) clu_raise("memory", "not enough memory");
  return Rf_ScalarLogical(rc == CLU_OK);
}

/* Seconds of processor time and bytes of memory of a node of a fork server's, as the last answer to
 * ffi_servers_machine() had them; NA: it had not. */
SEXP ffi_node_use(SEXP handle) {
  double cpu, memory;
  int told = clu_server_node_use(clu_get_node(handle), &cpu, &memory);
  SEXP out = PROTECT(Rf_allocVector(REALSXP, 2));
  REAL(out)[0] = told && cpu >= 0 ? cpu : NA_REAL;
  REAL(out)[1] = told && memory >= 0 ? memory : NA_REAL;
  UNPROTECT(1);
  return out;
}
