/* The master's side, seen from R: fork servers and nodes as external pointers, and waiting. */
#include "r/session/session.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const int64_t SLICE = 100000000; /* at most this long without a look at interrupts */

#define SPIN 50000 /* ns; see r/node/node-loop.c */

clu_session clu_the_session;
static clu_pid session_pid;
static int handles; /* external pointers with something behind them */

uint64_t clu_in_ms(uint64_t ms) { return clu_os_now() + ms * 1000000u; }

uint64_t clu_in_seconds(SEXP s) {
  double x = Rf_asReal(s);
  if (!(x > 0)) x = 0;
  return x > 1e9 ? UINT64_MAX : clu_os_now() + (uint64_t)(x * 1e9);
}

/* A fork of this session (mclapply) must not keep the nodes' sockets open: nobody would see the
 * session end. It cannot use them either: two processes would take each other's answers. */
static void after_fork(void) {
  if (session_pid) clu_session_close_in_child(&clu_the_session);
}

void clu_need_session(void) {
  clu_err e = {0, 0, ""};
  if (session_pid) {
    if (session_pid != clu_os_getpid())
      clu_raise("forked", "a cluster cannot be used in a forked child of the session that made it");
    return;
  }
  if (clu_session_init(&clu_the_session, &e) != CLU_OK) clu_raise_err(&e);
  session_pid = clu_os_getpid();
  clu_os_after_fork(after_fork);
}

int clu_pump(int64_t wait_ns, clu_err *e) { return clu_loop_pump(&clu_the_session.loop, wait_ns, e); }

int clu_pump_events(void) { return clu_loop_events(&clu_the_session.loop); }

/* ---- handles ---- */

static SEXP tag_server(void) { return Rf_install("clutch_server"); }
static SEXP tag_node(void) { return Rf_install("clutch_node"); }

static void server_finalize(SEXP x) {
  clu_server *s = R_ExternalPtrAddr(x);
  R_ClearExternalPtr(x);
  if (!s) return;
  handles--;
  if (session_pid == clu_os_getpid()) clu_server_unref(s);
}

static void node_finalize(SEXP x) {
  clu_node *nd = R_ExternalPtrAddr(x);
  R_ClearExternalPtr(x);
  if (!nd) return;
  handles--;
  if (session_pid == clu_os_getpid()) clu_node_free(nd);
}

static void *get(SEXP x, SEXP tag) {
  void *p;
  if (TYPEOF(x) != EXTPTRSXP || R_ExternalPtrTag(x) != tag)
    clu_raise("argument", "this is no handle of a clutch cluster");
  p = R_ExternalPtrAddr(x);
  if (!p) clu_raise_foreign("cluster");
  clu_need_session();
  return p;
}

clu_server *clu_get_server(SEXP x) { return get(x, tag_server()); }
clu_node *clu_get_node(SEXP x) { return get(x, tag_node()); }

SEXP clu_handle_new(SEXP tag, SEXP prot, R_CFinalizer_t fin) {
  SEXP x = PROTECT(R_MakeExternalPtr(NULL, tag, prot));
  R_RegisterCFinalizerEx(x, fin, FALSE);
  UNPROTECT(1);
  return x;
}

SEXP clu_node_handle_new(void) { return clu_handle_new(tag_node(), Rf_allocVector(VECSXP, 0), node_finalize); }

void clu_node_handle_set(SEXP x, clu_node *nd) {
  R_SetExternalPtrAddr(x, nd);
  handles++;
}

void clu_count_handle(int by) { handles += by; }
int clu_session_is_ours(void) { return session_pid && session_pid == clu_os_getpid(); }

SEXP ffi_live_handles(void) { return Rf_ScalarInteger(handles); }

/* ---- waiting ---- */

static SEXP look(void *unused) {
  (void)unused;
  R_CheckUserInterrupt();
  return R_NilValue;
}

typedef struct {
  void (*fn)(void *);
  void *data;
} on_jump;

static void jumped(void *data, Rboolean jump) {
  on_jump *j = data;
  if (jump && j->fn) j->fn(j->data);
}

/* The time is up, but this process may have been stopped, and what it waits for be here for long. */
static int look_again(int (*done)(void *), void *data) {
  for (int k = 0; k < 1000 && !done(data); k++)
    if (clu_pump(0, NULL) != CLU_OK || clu_pump_events() == 0) break;
  return done(data);
}

int clu_wait_for(int (*done)(void *), void *data, uint64_t deadline, void (*fn)(void *)) {
  static clu_spins spins;
  uint64_t looked = 0, spin_end = clu_spin_pays(&spins) ? clu_os_now() + SPIN : 0;
  on_jump j;
  j.fn = fn;
  j.data = data;
  while (!done(data)) {
    clu_err e = {0, 0, ""};
    uint64_t now;
    int64_t wait = SLICE;
    if (deadline != UINT64_MAX) {
      now = clu_os_now();
      if (now >= deadline) return look_again(done, data);
      if ((uint64_t)wait > deadline - now) wait = (int64_t)(deadline - now);
    }
    if (spin_end) { /* the answer to a small call is here before a sleeper would be awake */
      if (clu_os_now() < spin_end) {
        clu_pump(0, &e);
        if (clu_pump_events() == 0) clu_os_yield();
        else clu_spin_ended(&spins, 1);
        continue;
      }
      spin_end = 0;
      clu_spin_ended(&spins, 0);
    }
    if (clu_pump(wait, &e) != CLU_OK) {
      if (fn) fn(data);
      clu_raise_err(&e);
    }
    /* a signal ends a wait without an event; while events come, look now and then */
    if (clu_pump_events() == 0 || (now = clu_os_now()) - looked > (uint64_t)SLICE / 4) {
      if (done(data)) break;
      R_UnwindProtect(look, NULL, jumped, &j, NULL);
      looked = clu_os_now();
    }
  }
  return 1;
}

int clu_pump_for(int (*done)(void *), void *data, uint64_t deadline) {
  while (!done(data)) {
    uint64_t now = clu_os_now();
    if (now >= deadline) return look_again(done, data);
    if (clu_pump((int64_t)(deadline - now), NULL) != CLU_OK) return 0;
  }
  return 1;
}

/* ---- fork servers ---- */

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
  x = PROTECT(clu_handle_new(tag_server(), R_NilValue, server_finalize));
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
  rc = clu_server_start(&clu_the_session, &s, &server, &e);
  clu_os_close(out);
  if (rc != CLU_OK) clu_raise_err(&e);
  R_SetExternalPtrAddr(x, server);
  handles++;
  UNPROTECT(1);
  return x;
}

static uint8_t kind_of(SEXP kind) {
  return strcmp(CHAR(STRING_ELT(kind, 0)), "setup") == 0 ? CLU_K_SETUP : CLU_K_QUIT;
}

SEXP ffi_server_send(SEXP server, SEXP kind, SEXP object) {
  clu_server *s = clu_get_server(server);
  clu_blob *b = clu_serialize(NULL, object);
  int rc = clu_server_send(s, kind_of(kind), 0, b->data, b->size, CLU_NO_FD);
  clu_blob_unref(b);
  return Rf_ScalarLogical(rc == CLU_OK);
}

static int server_started(void *s) { return ((clu_server *)s)->state != CLU_SERVER_STARTING; }

/* What the server reported when it was ready; NULL: not in time, or it ended. */
SEXP ffi_server_wait(SEXP server, SEXP seconds) {
  clu_server *s = clu_get_server(server);
  clu_wait_for(server_started, s, clu_in_seconds(seconds), NULL);
  if (s->state != CLU_SERVER_READY || !s->ready) return R_NilValue;
  return clu_unserialize(clu_blob_ref(s->ready), 0);
}

typedef struct {
  clu_server *s;
  uint64_t seq;
} settings_wait;

static int settings_answered(void *data) {
  settings_wait *w = data;
  return w->s->answered >= w->seq || w->s->state == CLU_SERVER_ENDED;
}

/* Settings for the nodes that follow. `output`: a path, "" for this process's own output. The number of
 * the settings; or the text of the error. */
SEXP ffi_server_settings(SEXP server, SEXP object, SEXP output, SEXP seconds) {
  clu_server *s = clu_get_server(server);
  clu_err e = {0, 0, ""};
  settings_wait w;
  clu_blob *b;
  clu_fd out = CLU_NO_FD;
  const char *path = CHAR(STRING_ELT(output, 0));
  int rc = CLU_OK;
  b = clu_serialize(NULL, object);
  w.s = s;
  w.seq = ++clu_the_session.next_id;
  if (*path) {
    rc = clu_os_open_append(R_ExpandFileName(path), &out, &e);
    if (rc == CLU_OK) rc = clu_server_send(s, CLU_K_OUTPUT, 0, NULL, 0, out);
  } else { /* stdout, then stderr, as base R's workers inherit them */
    rc = clu_os_dup(1, &out);
    if (rc == CLU_OK) rc = clu_server_send(s, CLU_K_OUTPUT, 0, NULL, 0, out);
    if (rc == CLU_OK && clu_os_dup(2, &out) == CLU_OK)
      rc = clu_server_send(s, CLU_K_ERRORS, 0, NULL, 0, out);
  }
  if (rc == CLU_OK) rc = clu_server_send(s, CLU_K_SETTINGS, w.seq, b->data, b->size, CLU_NO_FD);
  clu_blob_unref(b);
  if (rc == CLU_SYS && e.text[0]) return Rf_mkString(e.text);
  if (rc != CLU_OK || !clu_wait_for(settings_answered, &w, clu_in_seconds(seconds), NULL) ||
      s->answered < w.seq)
    return Rf_mkString("the fork server does not answer");
  if (s->refusal)
    return Rf_ScalarString(Rf_mkCharLenCE((char *)s->refusal->data, (int)s->refusal->size, CE_NATIVE));
  return Rf_ScalarReal((double)w.seq);
}

SEXP ffi_server_info(SEXP server) {
  static const char *names[] = {"pid", "state", "bye", "asked", "by_signal", "code",
                                      "applied", "live", ""};
  static const char *const states[] = {"starting", "ready", "ended"};
  clu_server *s = clu_get_server(server);
  SEXP out = PROTECT(Rf_mkNamed(VECSXP, names));
  clu_pump(0, NULL); /* what it may have said meanwhile */
  if (s->state == CLU_SERVER_ENDED && !clu_server_reap(s) && !s->bye && !s->asked)
    for (int k = 0; k < 200 && !clu_server_reap(s); k++) clu_os_pause(1000000); /* killed: just now */
  SET_VECTOR_ELT(out, 0, Rf_ScalarInteger((int)s->pid));
  SET_VECTOR_ELT(out, 1, Rf_mkString(states[s->state]));
  SET_VECTOR_ELT(out, 2, Rf_ScalarLogical(s->bye));
  SET_VECTOR_ELT(out, 3, Rf_ScalarLogical(s->asked));
  SET_VECTOR_ELT(out, 4, Rf_ScalarLogical(s->reaped ? s->how.by_signal : NA_LOGICAL));
  SET_VECTOR_ELT(out, 5, Rf_ScalarInteger(s->reaped && s->how.code >= 0 ? s->how.code : NA_INTEGER));
  SET_VECTOR_ELT(out, 6, Rf_ScalarReal((double)s->applied));
  SET_VECTOR_ELT(out, 7, Rf_ScalarInteger(s->live));
  UNPROTECT(1);
  return out;
}

/* Closes its channel and waits until it is gone; TRUE when it is. Never jumps out before. */
SEXP ffi_server_close(SEXP server, SEXP seconds) {
  clu_server *s = clu_get_server(server);
  uint64_t deadline = clu_in_seconds(seconds);
  int gone;
  clu_server_close(s);
  while (!(gone = clu_server_reap(s)) && clu_os_now() < deadline) clu_os_pause(1000000);
  if (!gone) {
    clu_os_kill(s->pid, CLU_SIG_KILL, 0);
    deadline = clu_in_ms(1000);
    while (!(gone = clu_server_reap(s)) && clu_os_now() < deadline) clu_os_pause(1000000);
  }
  return Rf_ScalarLogical(gone);
}

/* ---- nodes: birth and end ---- */

/* Those that there are of a start that failed half-way. */
static int some_gone(void *list) {
  for (R_xlen_t i = 0; i < Rf_xlength(list); i++) {
    clu_node *nd = R_ExternalPtrAddr(VECTOR_ELT(list, i));
    if (nd && !clu_node_gone(nd)) return 0;
  }
  return 1;
}

/* A node for each of `ranks`, which are the numbers that they have in their cluster. */
SEXP ffi_nodes_spawn(SEXP server, SEXP ranks, SEXP by_exec) {
  clu_server *s = clu_get_server(server);
  clu_err e = {0, 0, ""};
  int k = Rf_length(ranks), exec = Rf_asLogical(by_exec);
  SEXP out = PROTECT(Rf_allocVector(VECSXP, k));
  for (int i = 0; i < k; i++)
    SET_VECTOR_ELT(out, i, clu_node_handle_new());
  for (int i = 0; i < k; i++) {
    clu_node *nd = NULL;
    if (clu_node_spawn(s, exec, &nd, &e) != CLU_OK) {
      for (int j = 0; j < i; j++) clu_node_stop(R_ExternalPtrAddr(VECTOR_ELT(out, j)), 0);
      clu_pump_for(some_gone, out, clu_in_ms(2000));
      clu_raise_err(&e);
    }
    nd->rank = INTEGER(ranks)[i];
    clu_node_handle_set(VECTOR_ELT(out, i), nd);
    if (i % 8 == 7) clu_pump(0, NULL); /* descriptors in flight are limited */
  }
  UNPROTECT(1);
  return out;
}

typedef struct {
  SEXP list; /* of handles */
  R_xlen_t from;
  int state;
} nodes_wait;

static clu_node *nth(SEXP list, R_xlen_t i) { return R_ExternalPtrAddr(VECTOR_ELT(list, i)); }

static int nodes_ready(void *data) {
  nodes_wait *w = data;
  for (; w->from < Rf_xlength(w->list); w->from++) {
    clu_node *nd = nth(w->list, w->from);
    if (nd->state == CLU_NODE_SPAWNING) return 0;
    if (nd->state != CLU_NODE_READY) return 1;
  }
  return 1;
}

static int how_known(void *data) {
  clu_node *nd = data;
  return nd->refusal || clu_node_gone(nd);
}

void clu_await_reason(clu_node *nd) { clu_pump_for(how_known, nd, clu_in_ms(1000)); }

/* 0 when all are ready, else the number of one that is not. */
SEXP ffi_nodes_wait(SEXP list, SEXP seconds) {
  nodes_wait w;
  w.list = list;
  w.from = 0;
  for (R_xlen_t i = 0; i < Rf_xlength(list); i++) clu_get_node(VECTOR_ELT(list, i));
  clu_wait_for(nodes_ready, &w, clu_in_seconds(seconds), NULL);
  if (w.from < Rf_xlength(list) && nth(list, w.from)->state > CLU_NODE_READY)
    clu_await_reason(nth(list, w.from));
  return Rf_ScalarInteger(w.from < Rf_xlength(list) ? (int)w.from + 1 : 0);
}

static int nodes_over(void *data) {
  nodes_wait *w = data;
  for (; w->from < Rf_xlength(w->list); w->from++) {
    clu_node *nd = nth(w->list, w->from);
    if (!clu_node_gone(nd)) return 0;
  }
  return 1;
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
  return Rf_ScalarLogical(clu_pump_for(nodes_over, &w, clu_in_seconds(seconds)));
}

SEXP clu_node_info(clu_node *nd) {
  static const char *names[] = {"rank", "pid", "state", "by_signal", "code", "refusal", "age",
                                      "done", "waiting", "server_pid", "server_ended", ""};
  static const char *const states[] = {"starting", "idle", "dead", "stopped"};
  SEXP out = PROTECT(Rf_mkNamed(VECSXP, names));
  const char *state;
  int waiting = nd->tasks ? (int)clu_the_session.tasks_at(nd, NULL) : 0;
  if (!nd->server) clu_node_look(nd);
  state = states[nd->state];
  for (int i = 0; i < nd->nreqs; i++) waiting += !nd->reqs[i].arrival;
  if (nd->state == CLU_NODE_READY && waiting) state = clu_node_in_step(nd) ? "busy" : "cancelling";
  SET_VECTOR_ELT(out, 0, Rf_ScalarInteger(nd->rank));
  SET_VECTOR_ELT(out, 1, Rf_ScalarInteger(nd->pid ? (int)nd->pid : NA_INTEGER));
  SET_VECTOR_ELT(out, 2, Rf_mkString(state));
  SET_VECTOR_ELT(out, 3, Rf_ScalarLogical(nd->how_known ? nd->how.by_signal : NA_LOGICAL));
  SET_VECTOR_ELT(out, 4, Rf_ScalarInteger(nd->how_known ? nd->how.code : NA_INTEGER));
  if (nd->refusal) SET_VECTOR_ELT(out, 5, Rf_mkString(nd->refusal));
  SET_VECTOR_ELT(out, 6, Rf_ScalarReal(1e-9 * (double)(clu_os_now() - nd->born)));
  SET_VECTOR_ELT(out, 7, Rf_ScalarReal((double)nd->done));
  SET_VECTOR_ELT(out, 8, Rf_ScalarInteger(waiting));
  SET_VECTOR_ELT(out, 9, Rf_ScalarInteger(nd->server ? (int)nd->server->pid : NA_INTEGER));
  SET_VECTOR_ELT(out, 10, Rf_ScalarLogical(nd->server && nd->server->state == CLU_SERVER_ENDED));
  UNPROTECT(1);
  return out;
}

SEXP ffi_node_info(SEXP handle) {
  clu_node *nd = clu_get_node(handle);
  clu_pump(0, NULL);
  return clu_node_info(nd);
}

/* The node behind `handle` is from now on the one behind `fresh`, for every copy of the handle. */
SEXP ffi_node_swap(SEXP handle, SEXP fresh) {
  clu_node *a = clu_get_node(handle), *b = clu_get_node(fresh);
  R_SetExternalPtrAddr(handle, b);
  R_SetExternalPtrAddr(fresh, a);
  R_SetExternalPtrProtected(handle, Rf_allocVector(VECSXP, 0));
  return R_NilValue;
}
