/* Fork servers, seen from R: a handle, its start, its settings, its end. */
#include "r/session/session.h"

#include <string.h>

static void free_server(void *p) { clu_server_unref(p); }
static clu_handle_kind servers = {.name = "clutch_server", .free = free_server};

clu_server *clu_get_server(SEXP x) { return clu_handle_get(x, &servers); }
SEXP clu_server_handle_new(SEXP keeps) { return clu_handle_new(&servers, keeps); }

SEXP ffi_server_start(SEXP file, SEXP argv, SEXP envp, SEXP log) {
  clu_err e = {0, 0, ""};
  clu_spawn s;
  clu_server *server = NULL;
  clu_fd out = CLU_NO_FD;
  R_xlen_t na = Rf_xlength(argv), ne = Rf_xlength(envp);
  const char **a = (const char **)R_alloc((size_t)na + 1, sizeof *a);
  const char **v = (const char **)R_alloc((size_t)ne + 1, sizeof *v);
  SEXP x;
  int rc;
  clu_need_session();
  x = PROTECT(clu_server_handle_new(R_NilValue));
  for (R_xlen_t i = 0; i < na; i++) a[i] = CHAR(STRING_ELT(argv, i));
  for (R_xlen_t i = 0; i < ne; i++) v[i] = CHAR(STRING_ELT(envp, i));
  a[na] = v[ne] = NULL;
  if (clu_os_open_append(CHAR(STRING_ELT(log, 0)), &out, &e) != CLU_OK) clu_raise_err(&e);
  memset(&s, 0, sizeof s);
  s.file = CHAR(STRING_ELT(file, 0));
  s.argv = (char *const *)a;
  s.envp = (char *const *)v;
  s.in = CLU_NO_FD;
  s.out = s.err = out;
  s.new_session = s.follow = 1;
  rc = clu_server_start(clu_the_session, &s, &server, &e);
  clu_os_close(out);
  if (rc != CLU_OK) clu_raise_err(&e);
  clu_handle_set(x, server);
  UNPROTECT(1);
  return x;
}

static uint8_t kind_of(SEXP kind) {
  return strcmp(CHAR(STRING_ELT(kind, 0)), "setup") == 0 ? CLU_K_SETUP : CLU_K_QUIT;
}

SEXP ffi_server_send(SEXP server, SEXP kind, SEXP object) {
  clu_server *s = clu_get_server(server);
  clu_blob *b = clu_serialize_for(NULL, object, clu_server_is_remote(s) ? 0 : 1);
  int rc = clu_server_send_blob(s, kind_of(kind), 0, b);
  clu_blob_unref(b);
  return Rf_ScalarLogical(rc == CLU_OK);
}

static int server_started(void *s) { return !clu_server_is_starting(s); }

/* Returns what the server reported when it was ready; NULL: not in time, or it ended. */
SEXP ffi_server_wait(SEXP server, SEXP seconds) {
  clu_server *s = clu_get_server(server);
  clu_wait_for(server_started, s, clu_in_seconds(seconds), NULL);
  if (!clu_server_is_ready(s) || !clu_server_report(s)) return R_NilValue;
  return clu_unserialize(clu_blob_ref(clu_server_report(s)), 0);
}

typedef struct {
  clu_server *s;
  uint64_t seq;
  const clu_blob *refusal;
} settings_wait;

static int settings_answered(void *data) {
  settings_wait *w = data;
  return clu_server_answered(w->s, &w->refusal) >= w->seq || clu_server_has_ended(w->s);
}

/* A file that nobody reads does not cross to this host. */
static int send_file(clu_server *s, uint8_t kind, const char *path, clu_err *e) {
  clu_fd fd = CLU_NO_FD;
  int rc;
  if (clu_server_is_remote(s) && strcmp(path, "/dev/null") == 0)
    return clu_server_send(s, kind, 0, path, strlen(path), CLU_NO_FD);
  rc = clu_os_open_append(R_ExpandFileName(path), &fd, e);
  return rc == CLU_OK ? clu_server_send(s, kind, 0, NULL, 0, fd) : rc;
}

static const char NO_ANSWER[] = "the fork server does not answer";

/* Sends settings for the nodes that follow. `output`: a path, or one for output and one for errors;
 * "" for this process's own. The number of the settings, for ffi_server_applied(); or the text of
 * the error. */
SEXP ffi_server_settings(SEXP server, SEXP object, SEXP output) {
  clu_server *s = clu_get_server(server);
  clu_err e = {0, 0, ""};
  uint64_t seq;
  clu_blob *b;
  clu_fd out = CLU_NO_FD;
  const char *path = CHAR(STRING_ELT(output, 0));
  int rc = CLU_OK;
  b = clu_serialize(NULL, object);
  seq = clu_session_new_id(clu_the_session);
  if (*path) {
    rc = send_file(s, CLU_K_OUTPUT, path, &e);
    if (rc == CLU_OK && Rf_length(output) > 1)
      rc = send_file(s, CLU_K_ERRORS, CHAR(STRING_ELT(output, 1)), &e);
  } else { /* stdout, then stderr, as base R's workers inherit them */
    rc = clu_os_dup(1, &out);
    if (rc == CLU_OK) rc = clu_server_send(s, CLU_K_OUTPUT, 0, NULL, 0, out);
    if (rc == CLU_OK && clu_os_dup(2, &out) == CLU_OK)
      rc = clu_server_send(s, CLU_K_ERRORS, 0, NULL, 0, out);
  }
  if (rc == CLU_OK) rc = clu_server_send(s, CLU_K_SETTINGS, seq, b->data, b->size, CLU_NO_FD);
  clu_blob_unref(b);
  if (rc == CLU_SYS && e.text[0]) return Rf_mkString(e.text);
  return rc == CLU_OK ? Rf_ScalarReal((double)seq) : Rf_mkString(NO_ANSWER);
}

/* Waits until it has answered to the settings with this number: the number; or the text of the
 * error. */
SEXP ffi_server_applied(SEXP server, SEXP seq, SEXP seconds) {
  clu_server *s = clu_get_server(server);
  settings_wait w = {s, (uint64_t)Rf_asReal(seq), NULL};
  if (!clu_wait_for(settings_answered, &w, clu_in_seconds(seconds), NULL) ||
      clu_server_answered(s, &w.refusal) < w.seq)
    return Rf_mkString(NO_ANSWER);
  if (w.refusal)
    return Rf_ScalarString(
        Rf_mkCharLenCE((char *)w.refusal->data, (int)w.refusal->size, CE_NATIVE));
  return Rf_ScalarReal((double)w.seq);
}

SEXP ffi_server_info(SEXP server) {
  static const char *names[] = {"pid",  "state",   "bye",  "asked",  "by_signal",
                                "code", "applied", "live", "remote", ""};
  clu_server *s = clu_get_server(server);
  clu_server_status st;
  SEXP out = PROTECT(Rf_mkNamed(VECSXP, names));
  clu_pump(0, NULL); /* what it may have said meanwhile */
  clu_server_status_of(s, &st);
  if (clu_server_has_ended(s) && !clu_server_reap(s) && !st.idle && !st.asked)
    for (int k = 0; k < 200 && !clu_server_reap(s); k++)
      clu_os_pause(1000000); /* killed: just now */
  clu_server_status_of(s, &st);
  SET_VECTOR_ELT(out, 0, Rf_ScalarInteger((int)st.pid));
  SET_VECTOR_ELT(out, 1, Rf_mkString(st.state));
  SET_VECTOR_ELT(out, 2, Rf_ScalarLogical(st.idle));
  SET_VECTOR_ELT(out, 3, Rf_ScalarLogical(st.asked));
  SET_VECTOR_ELT(out, 4, Rf_ScalarLogical(st.reaped ? st.how.by_signal : NA_LOGICAL));
  SET_VECTOR_ELT(out, 5,
                 Rf_ScalarInteger(st.reaped && st.how.code >= 0 ? st.how.code : NA_INTEGER));
  SET_VECTOR_ELT(out, 6, Rf_ScalarReal((double)st.applied));
  SET_VECTOR_ELT(out, 7, Rf_ScalarInteger(st.live));
  SET_VECTOR_ELT(out, 8, Rf_ScalarLogical(clu_server_is_remote(s)));
  UNPROTECT(1);
  return out;
}

static int machines_told(void *list) {
  for (R_xlen_t i = 0; i < Rf_xlength(list); i++) {
    clu_server *s = R_ExternalPtrAddr(VECTOR_ELT(list, i));
    clu_server_machine_status m;
    if (!clu_server_has_ended(s) && !clu_server_machine(s, &m)) return 0;
  }
  return 1;
}

static void put_number(SEXP list, int k, R_xlen_t i, double x) {
  REAL(VECTOR_ELT(list, k))[i] = x < 0 ? NA_REAL : x;
}

/* Asks the fork servers of this list about their machines: list(load, memory, memory_free, trip),
 * in bytes and seconds. NA: not known, or no answer within `seconds`. `of_nodes`: TRUE: then
 * ffi_node_use() knows what their nodes have used. */
SEXP ffi_servers_machine(SEXP list, SEXP of_nodes, SEXP seconds) {
  static const char *names[] = {"load", "memory", "memory_free", "trip", ""};
  SEXP out = PROTECT(Rf_mkNamed(VECSXP, names));
  R_xlen_t n = Rf_xlength(list);
  for (int k = 0; k < 4; k++) SET_VECTOR_ELT(out, k, Rf_allocVector(REALSXP, n));
  for (R_xlen_t i = 0; i < n; i++)
    clu_server_ask_machine(clu_get_server(VECTOR_ELT(list, i)), Rf_asLogical(of_nodes) == TRUE);
  clu_wait_for(machines_told, list, clu_in_seconds(seconds), NULL);
  for (R_xlen_t i = 0; i < n; i++) {
    clu_server_machine_status m;
    int told = clu_server_machine(clu_get_server(VECTOR_ELT(list, i)), &m);
    put_number(out, 0, i, told ? m.load : -1);
    put_number(out, 1, i, told ? m.memory : -1);
    put_number(out, 2, i, told ? m.memory_free : -1);
    put_number(out, 3, i, told ? 1e-9 * (double)m.trip : -1);
  }
  UNPROTECT(1);
  return out;
}

/* Closes its channel and waits until it is reaped; TRUE when it is. Never jumps out before. One
 * that is still starting may run code of the user's: what that has started is killed with it. */
SEXP ffi_server_close(SEXP server, SEXP seconds) {
  clu_server *s = clu_get_server(server);
  uint64_t deadline = clu_in_seconds(seconds);
  int starting = clu_server_is_starting(s);
  int reaped;
  clu_server_close(s);
  while (!(reaped = clu_server_reap(s)) && clu_os_now() < deadline) clu_os_pause(1000000);
  if (!reaped) {
    clu_server_status st;
    clu_server_status_of(s, &st);
    if (starting) clu_os_kill(st.pid, CLU_SIG_KILL, 1);
    clu_os_kill(st.pid, CLU_SIG_KILL, 0);
    deadline = clu_in_ms(1000);
    while (!(reaped = clu_server_reap(s)) && clu_os_now() < deadline) clu_os_pause(1000000);
  }
  return Rf_ScalarLogical(reaped);
}
