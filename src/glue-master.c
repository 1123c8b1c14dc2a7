/* The master's side, seen from R: fork servers and nodes as external pointers, calls and answers. */
#include "glue.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/pool.h"

static const int64_t SLICE = 100000000; /* at most this long without a look at interrupts */

#define SPIN 50000 /* ns; see glue-node.c */

static clu_loop loop;
static clu_pid loop_pid;
static int handles; /* external pointers with something behind them */

static uint64_t in_ms(uint64_t ms) { return clu_os_now() + ms * 1000000u; }

static uint64_t in_seconds(SEXP s) {
  double x = Rf_asReal(s);
  if (!(x > 0)) x = 0;
  return x > 1e9 ? UINT64_MAX : clu_os_now() + (uint64_t)(x * 1e9);
}

/* A fork of this session (mclapply) must not keep the nodes' sockets open: nobody would see the
 * session end. It cannot use them either: two processes would take each other's answers. */
static void after_fork(void) {
  if (loop_pid) clu_loop_close_all(&loop);
}

static void need_loop(void) {
  clu_err e = {0, 0, ""};
  if (loop_pid) {
    if (loop_pid != clu_os_getpid())
      clu_raise("forked", "a cluster cannot be used in a forked child of the session that made it");
    return;
  }
  if (clu_loop_init(&loop, &e) != CLU_OK) clu_raise_err(&e);
  loop_pid = clu_os_getpid();
  clu_os_after_fork(after_fork);
}

/* ---- handles ---- */

static SEXP tag_server(void) { return Rf_install("clutch_server"); }
static SEXP tag_node(void) { return Rf_install("clutch_node"); }

static void server_finalize(SEXP x) {
  clu_server *s = R_ExternalPtrAddr(x);
  R_ClearExternalPtr(x);
  if (!s) return;
  handles--;
  if (loop_pid == clu_os_getpid()) clu_server_unref(s);
}

static void node_finalize(SEXP x) {
  clu_node *nd = R_ExternalPtrAddr(x);
  R_ClearExternalPtr(x);
  if (!nd) return;
  handles--;
  if (loop_pid == clu_os_getpid()) clu_node_free(nd);
}

static void *get(SEXP x, SEXP tag) {
  void *p;
  if (TYPEOF(x) != EXTPTRSXP || R_ExternalPtrTag(x) != tag)
    clu_raise("argument", "this is no handle of a clutch cluster");
  p = R_ExternalPtrAddr(x);
  if (!p)
    clu_raise("stopped", "this cluster belongs to another R session: it was saved and loaded again");
  need_loop();
  return p;
}

static clu_server *get_server(SEXP x) { return get(x, tag_server()); }
static clu_node *get_node(SEXP x) { return get(x, tag_node()); }

static SEXP shell(SEXP tag, SEXP prot, R_CFinalizer_t fin) {
  SEXP x = PROTECT(R_MakeExternalPtr(NULL, tag, prot));
  R_RegisterCFinalizerEx(x, fin, FALSE);
  UNPROTECT(1);
  return x;
}

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
    if (clu_loop_pump(&loop, 0, NULL) != CLU_OK || loop.events == 0) break;
  return done(data);
}

/* Pumps until `done` says so (1) or the time is up (0). An interrupt or a time limit of R's jumps out,
 * after `fn` has run. */
static int wait_for(int (*done)(void *), void *data, uint64_t deadline, void (*fn)(void *)) {
  uint64_t looked = 0, spin_end = clu_os_now() + SPIN;
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
        clu_loop_pump(&loop, 0, &e);
        if (loop.events == 0) clu_os_yield();
        continue;
      }
      spin_end = 0;
    }
    if (clu_loop_pump(&loop, wait, &e) != CLU_OK) {
      if (fn) fn(data);
      clu_raise_err(&e);
    }
    /* a signal ends a wait without an event; while events come, look now and then */
    if (loop.events == 0 || (now = clu_os_now()) - looked > (uint64_t)SLICE / 4) {
      if (done(data)) break;
      R_UnwindProtect(look, NULL, jumped, &j, NULL);
      looked = clu_os_now();
    }
  }
  return 1;
}

/* The same without a look at interrupts, for clean-ups: no R API in here. */
static int pump_for(int (*done)(void *), void *data, uint64_t deadline) {
  while (!done(data)) {
    uint64_t now = clu_os_now();
    if (now >= deadline) return look_again(done, data);
    if (clu_loop_pump(&loop, (int64_t)(deadline - now), NULL) != CLU_OK) return 0;
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
  need_loop();
  x = PROTECT(shell(tag_server(), R_NilValue, server_finalize));
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
  s.new_session = 1;
  rc = clu_server_start(&loop, &s, &server, &e);
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
  clu_server *s = get_server(server);
  clu_blob *b = clu_serialize(object, 0);
  int rc = clu_server_send(s, kind_of(kind), 0, b->data, b->size, CLU_NO_FD);
  clu_blob_unref(b);
  return Rf_ScalarLogical(rc == CLU_OK);
}

static int server_started(void *s) { return ((clu_server *)s)->state != CLU_SERVER_STARTING; }

/* What the server reported when it was ready; NULL: not in time, or it ended. */
SEXP ffi_server_wait(SEXP server, SEXP seconds) {
  clu_server *s = get_server(server);
  wait_for(server_started, s, in_seconds(seconds), NULL);
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
  clu_server *s = get_server(server);
  clu_err e = {0, 0, ""};
  settings_wait w;
  clu_blob *b;
  clu_fd out = CLU_NO_FD;
  const char *path = CHAR(STRING_ELT(output, 0));
  int rc = CLU_OK;
  b = clu_serialize(object, 0);
  w.s = s;
  w.seq = ++loop.next_id;
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
  if (rc != CLU_OK || !wait_for(settings_answered, &w, in_seconds(seconds), NULL) ||
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
  clu_server *s = get_server(server);
  SEXP out = PROTECT(Rf_mkNamed(VECSXP, names));
  clu_loop_pump(&loop, 0, NULL); /* what it may have said meanwhile */
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
  clu_server *s = get_server(server);
  uint64_t deadline = in_seconds(seconds);
  int gone;
  clu_server_close(s);
  while (!(gone = clu_server_reap(s)) && clu_os_now() < deadline) clu_os_pause(1000000);
  if (!gone) {
    clu_os_kill(s->pid, CLU_SIG_KILL, 0);
    deadline = in_ms(1000);
    while (!(gone = clu_server_reap(s)) && clu_os_now() < deadline) clu_os_pause(1000000);
  }
  return Rf_ScalarLogical(gone);
}

/* ---- nodes: birth and end ---- */

static int server_heard(void *s) { return !clu_chan_pending(&((clu_server *)s)->chan); }

SEXP ffi_nodes_spawn(SEXP server, SEXP n, SEXP by_exec) {
  clu_server *s = get_server(server);
  clu_err e = {0, 0, ""};
  int k = Rf_asInteger(n), exec = Rf_asLogical(by_exec);
  SEXP out = PROTECT(Rf_allocVector(VECSXP, k));
  for (int i = 0; i < k; i++)
    SET_VECTOR_ELT(out, i, shell(tag_node(), Rf_allocVector(VECSXP, 0), node_finalize));
  for (int i = 0; i < k; i++) {
    clu_node *nd = NULL;
    if (clu_node_spawn(s, exec, &nd, &e) != CLU_OK) {
      for (int j = 0; j < i; j++) clu_node_stop(R_ExternalPtrAddr(VECTOR_ELT(out, j)), 0);
      pump_for(server_heard, s, in_ms(2000));
      clu_raise_err(&e);
    }
    R_SetExternalPtrAddr(VECTOR_ELT(out, i), nd);
    handles++;
    if (i % 8 == 7) clu_loop_pump(&loop, 0, NULL); /* descriptors in flight are limited */
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
  return nd->how_known || nd->refusal || nd->server->state == CLU_SERVER_ENDED;
}

/* 0 when all are ready, else the number of one that is not. */
SEXP ffi_nodes_wait(SEXP list, SEXP seconds) {
  nodes_wait w;
  w.list = list;
  w.from = 0;
  for (R_xlen_t i = 0; i < Rf_xlength(list); i++) get_node(VECTOR_ELT(list, i));
  wait_for(nodes_ready, &w, in_seconds(seconds), NULL);
  if (w.from < Rf_xlength(list) && nth(list, w.from)->state > CLU_NODE_READY)
    pump_for(how_known, nth(list, w.from), in_ms(1000)); /* its end may be seen before its server says why */
  return Rf_ScalarInteger(w.from < Rf_xlength(list) ? (int)w.from + 1 : 0);
}

static int nodes_over(void *data) {
  nodes_wait *w = data;
  for (; w->from < Rf_xlength(w->list); w->from++) {
    clu_node *nd = nth(w->list, w->from);
    if (nd->state <= CLU_NODE_READY) return 0;
    if (!nd->how_known && !nd->refusal && nd->server->state != CLU_SERVER_ENDED) return 0;
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
  for (R_xlen_t i = 0; i < Rf_xlength(list); i++) get_node(VECTOR_ELT(list, i));
  for (R_xlen_t i = 0; i < Rf_xlength(list); i++) {
    clu_node *nd = nth(list, i);
    int busy = 0;
    for (int k = 0; k < nd->nreqs; k++) busy |= !nd->reqs[k].arrival;
    clu_node_stop(nd, busy ? 0 : grace);
  }
  return Rf_ScalarLogical(pump_for(nodes_over, &w, in_seconds(seconds)));
}

SEXP ffi_node_info(SEXP handle) {
  static const char *names[] = {"id", "pid", "state", "by_signal", "code", "refusal", "age",
                                      "done", "waiting", "server_pid", "server_ended", ""};
  static const char *const states[] = {"starting", "idle", "dead", "stopped"};
  clu_node *nd = get_node(handle);
  SEXP out = PROTECT(Rf_mkNamed(VECSXP, names));
  const char *state;
  int waiting = 0;
  clu_loop_pump(&loop, 0, NULL);
  state = states[nd->state];
  for (int i = 0; i < nd->nreqs; i++) waiting += !nd->reqs[i].arrival;
  if (nd->state == CLU_NODE_READY && waiting) state = clu_node_in_step(nd) ? "busy" : "cancelling";
  SET_VECTOR_ELT(out, 0, Rf_ScalarReal((double)nd->id));
  SET_VECTOR_ELT(out, 1, Rf_ScalarInteger(nd->pid ? (int)nd->pid : NA_INTEGER));
  SET_VECTOR_ELT(out, 2, Rf_mkString(state));
  SET_VECTOR_ELT(out, 3, Rf_ScalarLogical(nd->how_known ? nd->how.by_signal : NA_LOGICAL));
  SET_VECTOR_ELT(out, 4, Rf_ScalarInteger(nd->how_known ? nd->how.code : NA_INTEGER));
  if (nd->refusal) SET_VECTOR_ELT(out, 5, Rf_mkString(nd->refusal));
  SET_VECTOR_ELT(out, 6, Rf_ScalarReal(1e-9 * (double)(clu_os_now() - nd->born)));
  SET_VECTOR_ELT(out, 7, Rf_ScalarReal((double)nd->done));
  SET_VECTOR_ELT(out, 8, Rf_ScalarInteger(waiting));
  SET_VECTOR_ELT(out, 9, Rf_ScalarInteger((int)nd->server->pid));
  SET_VECTOR_ELT(out, 10, Rf_ScalarLogical(nd->server->state == CLU_SERVER_ENDED));
  UNPROTECT(1);
  return out;
}

/* The node behind `handle` is from now on the one behind `fresh`, for every copy of the handle. */
SEXP ffi_node_swap(SEXP handle, SEXP fresh) {
  clu_node *a = get_node(handle), *b = get_node(fresh);
  R_SetExternalPtrAddr(handle, b);
  R_SetExternalPtrAddr(fresh, a);
  R_SetExternalPtrProtected(handle, Rf_allocVector(VECSXP, 0));
  return R_NilValue;
}

/* ---- owners ----
 * A request belongs to the call of parallel's that sent it, known by the frame of that call. When the
 * frame is gone and its requests are not, the call was abandoned. The frames are held weakly: they
 * keep nothing alive. */

typedef struct {
  uint64_t number;
  SEXP ref; /* weak reference, preserved */
} caller;
static caller *owners; /* of calls within calls, the innermost last */
static int n_owners, owners_cap;
static uint64_t owner_numbers, burst_owner;

static uint64_t owner_of(SEXP frame) {
  if (TYPEOF(frame) != ENVSXP) return 0;
  for (int i = n_owners - 1; i >= 0; i--)
    if (R_WeakRefKey(owners[i].ref) == frame) return owners[i].number;
  return 0;
}

static void cancel_owner(uint64_t owner) {
  for (clu_node *nd = loop.nodes; nd; nd = nd->next) clu_node_cancel(nd, owner);
}

static int all_in_step(void *unused) {
  (void)unused;
  for (clu_node *nd = loop.nodes; nd; nd = nd->next)
    if (!clu_node_in_step(nd)) return 0;
  return 1;
}

/* What is done when a call is interrupted: short enough for control to be back at once. */
static void abandon(uint64_t owner) {
  if (!owner) return;
  cancel_owner(owner);
  pump_for(all_in_step, NULL, in_ms(80));
}

static void forget_sent(void);

/* A call begins. Those whose frames are not among `frames` (sys.frames()) are over. */
SEXP ffi_owner_begin(SEXP frame, SEXP burst, SEXP frames) {
  int kept = 0;
  SEXP ref;
  need_loop();
  if (n_owners == owners_cap) {
    int cap = owners_cap ? 2 * owners_cap : 16;
    caller *more = realloc(owners, (size_t)cap * sizeof *more);
    if (!more) clu_raise("memory", "not enough memory");
    owners = more;
    owners_cap = cap;
  }
  forget_sent();
  for (int i = 0; i < n_owners; i++) {
    SEXP key = R_WeakRefKey(owners[i].ref);
    int alive = 0;
    if (key != R_NilValue)
      for (SEXP f = frames; TYPEOF(f) == LISTSXP && !alive; f = CDR(f)) alive = CAR(f) == key;
    if (alive) {
      owners[kept++] = owners[i];
    } else {
      cancel_owner(owners[i].number);
      R_ReleaseObject(owners[i].ref);
    }
  }
  n_owners = kept;
  ref = PROTECT(R_MakeWeakRef(frame, R_NilValue, R_NilValue, FALSE));
  R_PreserveObject(ref);
  owners[n_owners].number = ++owner_numbers;
  owners[n_owners++].ref = ref;
  burst_owner = Rf_asLogical(burst) == 1 ? owner_numbers : 0;
  UNPROTECT(1);
  return R_NilValue;
}

/* ---- send and receive ---- */

/* What clusterCall() sent last: it sends the same to each node, without any other code in between, so
 * that it is serialized once. Kept until the first answer is asked for. */
static struct {
  clu_blob *blob;
  SEXP cell; /* a preserved cons cell that holds function and arguments */
} sent;

static void forget_sent(void) {
  clu_blob_unref(sent.blob);
  sent.blob = NULL;
  if (sent.cell) SETCAR(sent.cell, R_NilValue);
}

static int same_list(SEXP a, SEXP b) {
  SEXP na = Rf_getAttrib(a, R_NamesSymbol), nb = Rf_getAttrib(b, R_NamesSymbol);
  R_xlen_t n = Rf_xlength(a);
  if (TYPEOF(b) != VECSXP || Rf_xlength(b) != n || Rf_isNull(na) != Rf_isNull(nb)) return 0;
  for (R_xlen_t i = 0; i < n; i++)
    if (VECTOR_ELT(a, i) != VECTOR_ELT(b, i) ||
        (!Rf_isNull(na) && STRING_ELT(na, i) != STRING_ELT(nb, i)))
      return 0;
  return 1;
}

static clu_blob *call_bytes(SEXP fun, SEXP args, uint64_t owner) {
  clu_blob *b;
  SEXP msg;
  int burst = owner != 0 && owner == burst_owner;
  if (burst && sent.blob && VECTOR_ELT(CAR(sent.cell), 0) == fun &&
      same_list(VECTOR_ELT(CAR(sent.cell), 1), args))
    return clu_blob_ref(sent.blob);
  msg = PROTECT(Rf_allocVector(VECSXP, 2));
  SET_VECTOR_ELT(msg, 0, fun);
  SET_VECTOR_ELT(msg, 1, args);
  b = clu_serialize(msg, 0);
  if (burst) {
    forget_sent();
    if (!sent.cell) {
      sent.cell = Rf_cons(R_NilValue, R_NilValue);
      R_PreserveObject(sent.cell);
    }
    SETCAR(sent.cell, msg);
    sent.blob = clu_blob_ref(b);
  }
  UNPROTECT(1);
  return b;
}

static SEXP element(SEXP list, const char *name) {
  SEXP names = Rf_getAttrib(list, R_NamesSymbol);
  for (R_xlen_t i = 0; i < Rf_xlength(names); i++)
    if (strcmp(CHAR(STRING_ELT(names, i)), name) == 0) return VECTOR_ELT(list, i);
  return R_NilValue;
}

typedef struct {
  clu_node *nd;
  uint64_t owner, seq;
} one_wait;

static int in_step(void *data) { return clu_node_in_step(((one_wait *)data)->nd); }
static int flushed(void *data) {
  clu_node *nd = ((one_wait *)data)->nd;
  return nd->state > CLU_NODE_READY || !clu_chan_pending(&nd->chan);
}

static void abandon_wait(void *data) { abandon(((one_wait *)data)->owner); }

/* The bytes of a call whose sender belongs to nobody, cut short: that request is given up, and only that. */
static void abandon_last(void *data) {
  one_wait *w = data;
  for (int i = 0; i < w->nd->nreqs; i++)
    if (w->nd->reqs[i].seq == w->seq) {
      w->nd->reqs[i].owner = UINT64_MAX;
      clu_node_cancel(w->nd, UINT64_MAX);
      return;
    }
}

/* The tags of a node's requests are kept in the handle's protected list. */
static int keep_tag(SEXP handle, SEXP tag) {
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

static SEXP take_tag(SEXP handle, int i) {
  SEXP list = R_ExternalPtrProtected(handle), tag;
  if (i < 0 || i >= Rf_xlength(list)) return R_NilValue;
  tag = VECTOR_ELT(list, i);
  SET_VECTOR_ELT(list, i, R_NilValue);
  return tag;
}

/* Where nothing is under way, no tag is needed: those of withdrawn requests go. */
static void clear_tags(SEXP handle, clu_node *nd) {
  SEXP list = R_ExternalPtrProtected(handle);
  if (nd->nreqs == 0)
    for (R_xlen_t i = 0; i < Rf_xlength(list) && VECTOR_ELT(list, i) != R_NilValue; i++)
      SET_VECTOR_ELT(list, i, R_NilValue);
}

enum { SENT = 0, GONE = 1, STUCK = 2, NEW = 3 };

static SEXP cancel_grace(void) {
  SEXP x = Rf_GetOption1(Rf_install("clutch.cancel_grace"));
  return x == R_NilValue ? Rf_ScalarReal(5) : x;
}

/* Sends a call: `data` is parallel's list(fun, args, return, tag). SENT, GONE: the node is no more,
 * STUCK: it does not give up what it was told to within getOption("clutch.cancel_grace") seconds, NEW:
 * nothing was sent, ffi_owner_begin() has to be called for this frame before. */
SEXP ffi_node_send(SEXP handle, SEXP data, SEXP frame, SEXP outer) {
  clu_node *nd = get_node(handle);
  clu_err e = {0, 0, ""};
  uint64_t owner = owner_of(frame);
  SEXP fun = element(data, "fun"), args = element(data, "args");
  clu_blob *b;
  one_wait w;
  int tag, rc;
  if (!owner) owner = owner_of(outer);
  if (!owner && TYPEOF(frame) == ENVSXP) return Rf_ScalarInteger(NEW);
  w.nd = nd;
  w.owner = owner;
  if (nd->state <= CLU_NODE_READY && !clu_node_in_step(nd) &&
      !wait_for(in_step, &w, in_seconds(cancel_grace()), abandon_wait))
    return Rf_ScalarInteger(STUCK);
  if (nd->state > CLU_NODE_READY) {
    if (owner) cancel_owner(owner);
    return Rf_ScalarInteger(GONE);
  }
  clear_tags(handle, nd);
  b = call_bytes(fun, args, owner);
  tag = keep_tag(handle, element(data, "tag"));
  rc = clu_node_call(nd, b, owner, tag, &e);
  clu_blob_unref(b);
  if (rc != CLU_OK) {
    if (owner) cancel_owner(owner);
    if (rc == CLU_DEAD) return Rf_ScalarInteger(GONE);
    clu_raise_err(&e);
  }
  if (!owner) { /* who knows when the caller comes back: everything leaves now */
    w.seq = nd->seq;
    wait_for(flushed, &w, UINT64_MAX, abandon_last);
  }
  return Rf_ScalarInteger(SENT);
}

static SEXP answer_list(SEXP handle, clu_node *nd, clu_req *r) {
  static const char *names[] = {"type", "value", "success", "time", "tag", ""};
  static const char *const times[] = {"user.self", "sys.self", "elapsed", "user.child", "sys.child"};
  static SEXP type, time_names, time_class;
  int ok = r->kind == CLU_K_VALUE, tag = r->tag;
  clu_blob *b = clu_node_take(nd, r);
  SEXP out, time;
  if (!type) {
    SEXP t = PROTECT(Rf_mkString("VALUE")), n = PROTECT(Rf_allocVector(STRSXP, 5)),
         c = PROTECT(Rf_mkString("proc_time"));
    for (int i = 0; i < 5; i++) SET_STRING_ELT(n, i, Rf_mkChar(times[i]));
    R_PreserveObject(t);
    R_PreserveObject(n);
    R_PreserveObject(c);
    type = t;
    time_names = n;
    time_class = c;
    MARK_NOT_MUTABLE(type);
    MARK_NOT_MUTABLE(time_names);
    MARK_NOT_MUTABLE(time_class);
    UNPROTECT(3);
  }
  out = PROTECT(Rf_mkNamed(VECSXP, names));
  time = PROTECT(Rf_allocVector(REALSXP, 5));
  if (b && b->size >= 5 * sizeof(double))
    memcpy(REAL(time), b->data, 5 * sizeof(double));
  else
    memset(REAL(time), 0, 5 * sizeof(double));
  Rf_setAttrib(time, R_NamesSymbol, time_names);
  Rf_setAttrib(time, R_ClassSymbol, time_class);
  SET_VECTOR_ELT(out, 0, type);
  SET_VECTOR_ELT(out, 2, Rf_ScalarLogical(ok));
  SET_VECTOR_ELT(out, 3, time);
  SET_VECTOR_ELT(out, 4, take_tag(handle, tag));
  SET_VECTOR_ELT(out, 1, clu_unserialize(b, 5 * sizeof(double)));
  UNPROTECT(2);
  return out;
}

/* The node ended with a request: the call as a whole has failed. */
static SEXP died(clu_node *nd, uint64_t owner) {
  if (owner) cancel_owner(owner);
  pump_for(how_known, nd, in_ms(1000));
  while (nd->nreqs) clu_blob_unref(clu_node_take(nd, &nd->reqs[0]));
  return R_NilValue;
}

static int one_answered(void *data) {
  one_wait *w = data;
  clu_req *r;
  if (w->nd->state > CLU_NODE_READY) return 1;
  r = clu_node_first(w->nd);
  return r && r->arrival;
}

/* The answer to the oldest call of this node; NULL: it has died. */
SEXP ffi_node_recv(SEXP handle) {
  clu_node *nd = get_node(handle);
  clu_req *r = clu_node_first(nd);
  one_wait w;
  if (!r) {
    if (nd->state > CLU_NODE_READY) return R_NilValue;
    clu_raise("no_call", "nothing was sent to this node that it could answer");
  }
  forget_sent();
  w.nd = nd;
  w.owner = r->owner;
  wait_for(one_answered, &w, UINT64_MAX, abandon_wait);
  r = clu_node_first(nd);
  if (!r || !r->arrival) return died(nd, w.owner);
  return answer_list(handle, nd, r);
}

typedef struct {
  SEXP nodes; /* list of node objects, whose first element is the handle */
  uint64_t owner;
  R_xlen_t found;
  int lost, asked;
} any_wait;

static int any_answered(void *data) {
  any_wait *w = data;
  uint64_t first = UINT64_MAX;
  w->found = -1;
  w->lost = 0;
  w->asked = 0;
  for (R_xlen_t i = 0; i < Rf_xlength(w->nodes); i++) {
    clu_node *nd = nth(VECTOR_ELT(w->nodes, i), 0);
    clu_req *r = clu_node_first(nd);
    if (!r) continue;
    w->asked = 1;
    w->owner = r->owner;
    if (r->arrival) {
      if (r->arrival < first) {
        first = r->arrival;
        w->found = i;
        w->lost = 0;
      }
    } else if (nd->state > CLU_NODE_READY && w->found < 0) {
      w->found = i;
      w->lost = 1;
    }
  }
  return w->found >= 0 || !w->asked;
}

static void abandon_any(void *data) { abandon(((any_wait *)data)->owner); }

/* list(node, value): the answer that came first; value NULL: that node has died. */
SEXP ffi_any_recv(SEXP nodes) {
  static const char *names[] = {"node", "value", ""};
  any_wait w;
  clu_node *nd;
  SEXP out, handle;
  memset(&w, 0, sizeof w);
  w.nodes = nodes;
  for (R_xlen_t i = 0; i < Rf_xlength(nodes); i++) get_node(VECTOR_ELT(VECTOR_ELT(nodes, i), 0));
  forget_sent();
  wait_for(any_answered, &w, UINT64_MAX, abandon_any);
  if (w.found < 0) clu_raise("no_call", "nothing was sent to these nodes that they could answer");
  handle = VECTOR_ELT(VECTOR_ELT(nodes, w.found), 0);
  nd = R_ExternalPtrAddr(handle);
  out = PROTECT(Rf_mkNamed(VECSXP, names));
  SET_VECTOR_ELT(out, 0, Rf_ScalarInteger((int)w.found + 1));
  if (w.lost)
    died(nd, w.owner);
  else
    SET_VECTOR_ELT(out, 1, answer_list(handle, nd, clu_node_first(nd)));
  UNPROTECT(1);
  return out;
}
