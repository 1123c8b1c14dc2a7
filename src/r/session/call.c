/* Calls and answers, seen from R: to which call scope a request belongs, and what comes back.
 *
 * Interrupts. If a node computes a request that was cancelled, CANCEL goes to the fork server,
 * which writes `seq` into the node's cancel word and sends SIGINT. The node's handler compares
 * that number with its request, so a late signal cannot hit the next one. A message that is cut
 * short ends with an empty frame flagged CLU_ABORT, so the reader stays in step. The next call
 * waits until the node is in step. After clutch.cancel_grace seconds the node is replaced
 * (R/cluster-respawn.R).
 */
#include "r/session/session.h"

#include <stdlib.h>
#include <string.h>

#include "core/base/grow.h"

/* ---- call scopes ----
 * parallel's clusterCall(), clusterApply() and clusterApplyLB() send requests and take the answers
 * before they return. Such a call is a scope, and each of its requests carries the scope's number
 * (0: the request belongs to no scope). A scope is recognized by the frame (environment) of the
 * call's evaluation. When the frame is gone and requests of the scope are not, the call was
 * abandoned: it was interrupted, or has failed. Then its requests are cancelled, so that no answer
 * to one of them is taken for the answer to a later call. The frames are held by weak references,
 * which keep nothing alive. */

typedef struct {
  uint64_t number;
  SEXP frame; /* weak reference, preserved */
} call_scope;
static call_scope *scopes; /* of calls within calls, the innermost last */
static int n_scopes;
static size_t scopes_cap;
static uint64_t scope_numbers; /* so many scopes so far */
static struct {                /* a clusterCall(), see clu_call_bytes() */
  uint64_t scope;              /* 0: there is none */
  int nodes;
} same_to_all;

static uint64_t scope_of(SEXP frame) {
  if (TYPEOF(frame) != ENVSXP) return 0;
  for (int i = n_scopes - 1; i >= 0; i--)
    if (R_WeakRefKey(scopes[i].frame) == frame) return scopes[i].number;
  return 0;
}

static void cancel_scope(uint64_t scope) {
  for (clu_node *nd = clu_session_nodes(clu_the_session); nd; nd = clu_node_next(nd))
    clu_node_cancel(nd, scope);
}

/* The call of this frame fails: what it has asked of nodes is withdrawn. */
SEXP ffi_call_cancel(SEXP frame) {
  uint64_t scope = scope_of(frame);
  if (scope) cancel_scope(scope);
  return R_NilValue;
}

static int all_in_step(void *unused) {
  (void)unused;
  for (clu_node *nd = clu_session_nodes(clu_the_session); nd; nd = clu_node_next(nd))
    if (!clu_node_in_step(nd)) return 0;
  return 1;
}

/* A call was interrupted. The nodes are waited for only shortly: the user is to have control back
 * at once. */
static void abandon(uint64_t scope) {
  if (!scope) return;
  cancel_scope(scope);
  clu_pump_for(all_in_step, NULL, clu_in_ms(80));
}

static int is_among(SEXP frame, SEXP frames) {
  for (; TYPEOF(frames) == LISTSXP; frames = CDR(frames))
    if (CAR(frames) == frame) return 1;
  return 0;
}

/* Cancels the scopes whose frames are not among `frames`. */
static void end_old_scopes(SEXP frames) {
  int kept = 0;
  for (int i = 0; i < n_scopes; i++) {
    SEXP frame = R_WeakRefKey(scopes[i].frame);
    if (frame != R_NilValue && is_among(frame, frames)) {
      scopes[kept++] = scopes[i];
    } else {
      cancel_scope(scopes[i].number);
      R_ReleaseObject(scopes[i].frame);
    }
  }
  n_scopes = kept;
}

/* A call begins. `frames`: those of all calls that are being evaluated (sys.frames()); other scopes
 * have ended. `same`: the frame of a clusterCall(), which sends the same to all nodes of its
 * variable `cl`; NULL: to each something else. (In R, length() of a cluster looks for a method,
 * which takes a twentieth of a small call.) */
SEXP ffi_call_scope_begin(SEXP frame, SEXP same, SEXP frames) {
  static SEXP cl;
  SEXP ref, to = R_NilValue;
  call_scope *more;
  clu_need_session();
  more = clu_grow(scopes, &scopes_cap, (size_t)n_scopes + 1, sizeof *more);
  if (!more) clu_raise("memory", "not enough memory");
  scopes = more;
  if (!cl) cl = Rf_install("cl");
  if (TYPEOF(same) == ENVSXP) to = Rf_eval(cl, same);
  clu_call_forget_sent();
  end_old_scopes(frames);
  ref = PROTECT(R_MakeWeakRef(frame, R_NilValue, R_NilValue, FALSE));
  R_PreserveObject(ref);
  scopes[n_scopes].number = ++scope_numbers;
  scopes[n_scopes++].frame = ref;
  same_to_all.nodes = TYPEOF(to) == VECSXP ? Rf_length(to) : 0;
  same_to_all.scope = same_to_all.nodes > 0 ? scope_numbers : 0;
  UNPROTECT(1);
  return R_NilValue;
}

/* ---- send and receive ---- */

typedef struct {
  SEXP handle;
  clu_node *nd;
  uint64_t id; /* of that */
  uint64_t scope, seq;
  uint64_t deaths; /* of nodes, when it was last checked whether they concern this call */
  clu_node *dead;  /* another node of the same call that has died */
} one_wait;

/* Another node may be put behind the handle by what this process does while it waits. One without a
 * call that is waited for may be gone then. */
static clu_node *still_there(const one_wait *w) {
  clu_node *nd = R_ExternalPtrAddr(w->handle);
  return nd && clu_node_id(nd) == w->id ? nd : NULL;
}

static int in_step(void *data) {
  clu_node *nd = still_there(data);
  return !nd || clu_node_in_step(nd);
}

static int flushed(void *data) {
  clu_node *nd = still_there(data);
  return !nd || !clu_node_is_open(nd) || clu_node_all_sent(nd);
}

static void abandon_wait(void *data) { abandon(((one_wait *)data)->scope); }

/* The sending of a request without scope was interrupted: that request is cancelled, and no other.
 */
static void abandon_last(void *data) {
  one_wait *w = data;
  if (still_there(w)) clu_node_cancel_one(w->nd, w->seq);
}

/* The node whose answer comes next: that of the handle, or one that was behind it before. Of these
 * the oldest is meant that was asked in the innermost call scope: what is called of a new node to
 * set it up does not take an answer that others wait for. */
static clu_node *asked_node(SEXP handle) {
  uint64_t innermost = n_scopes ? scopes[n_scopes - 1].number : 0;
  clu_node *found = NULL, *own = NULL, *last = R_ExternalPtrAddr(handle);
  for (SEXP x = handle; x != R_NilValue; x = clu_node_handle_before(x)) {
    clu_node *nd = R_ExternalPtrAddr(x);
    const clu_req *r = nd ? clu_node_first(nd) : NULL;
    if (!r) continue;
    found = nd;
    if (r->scope && r->scope == innermost) own = nd;
  }
  return own ? own : found ? found : last;
}

typedef struct {
  uint64_t scope;
  const void *turn;
} call_at_work;

static void abandon_at_jump(void *data, Rboolean jump) {
  call_at_work *c = data;
  if (!jump) return;
  clu_turn_resume(c->turn);
  abandon(c->scope);
  clu_turn_pause();
}

/* Returns fn(data). A jump out of that, by an interrupt say, is the end of the whole call: what
 * other nodes were sent of it is withdrawn. */
static SEXP within_call(uint64_t scope, SEXP (*fn)(void *), void *data) {
  static SEXP token;
  call_at_work c = {scope, clu_turn.held && !clu_turn.nested ? clu_turn.frame : NULL};
  SEXP out;
  if (!scope) return fn(data);
  if (!token) {
    token = R_MakeUnwindCont();
    R_PreserveObject(token);
  }
  out = R_UnwindProtect(fn, data, abandon_at_jump, &c, token);
  SETCAR(token, R_NilValue); /* R keeps the value there, which may be large */
  return out;
}

typedef struct {
  SEXP fun, args;
  int receivers, shares;
  clu_blob *bytes;
} making;

static SEXP make(void *data) {
  making *m = data;
  m->bytes = clu_call_bytes(m->fun, m->args, m->receivers, m->shares);
  return R_NilValue;
}

enum { DEAD, STUCK, NO_SCOPE, N_FAILURES };

/* Until when a node has to have dropped what was cancelled. The grace counts from the cancel, so
 * that several nodes are not waited for one after the other. */
static uint64_t in_step_by(const clu_node *nd) {
  SEXP x = PROTECT(Rf_GetOption1(Rf_install("clutch.cancel_grace")));
  uint64_t end, since = clu_node_cancelled_since(nd), spent = since ? clu_os_now() - since : 0;
  if (x != R_NilValue && (!Rf_isNumeric(x) || Rf_xlength(x) != 1 || !(Rf_asReal(x) >= 0)))
    clu_raise("argument", "option 'clutch.cancel_grace' has to be a number, 0 or more");
  end = x == R_NilValue ? clu_in_ms(5000) : clu_in_seconds(x);
  UNPROTECT(1);
  return end == UINT64_MAX ? end : end > spent ? end - spent : 0;
}

/* Says what came of the sending of a call; constants, for this is on the way of each call. NULL: it
 * was sent. */
static SEXP failed_because(int which) {
  static const char *const names[N_FAILURES] = {"dead", "stuck", "no_scope"};
  static SEXP values[N_FAILURES];
  if (!values[which]) {
    R_PreserveObject(values[which] = Rf_mkString(names[which]));
    MARK_NOT_MUTABLE(values[which]);
  }
  return values[which];
}

/* Sends a call: `data` is parallel's list(fun, args, return, tag). NULL, or why it was not sent:
 * "dead": the node has died or was stopped, and the call's other requests stay until
 * ffi_call_cancel(); "stuck": it does not end a cancelled request within
 * getOption("clutch.cancel_grace") seconds; "no_scope": ffi_call_scope_begin() has to be called for
 * this frame before. `outer`: the frame that encloses it. */
SEXP ffi_node_send(SEXP handle, SEXP data, SEXP frame, SEXP outer) {
  clu_node *nd = clu_get_node(handle);
  clu_err e = {0, 0, ""};
  uint64_t scope = scope_of(frame);
  making m = {.fun = clu_element(data, "fun"), .args = clu_element(data, "args")};
  one_wait w;
  int tag, rc;
  if (!scope) scope = scope_of(outer);
  if (!scope && TYPEOF(frame) == ENVSXP) return failed_because(NO_SCOPE);
  w = (one_wait){.handle = handle, .nd = nd, .id = clu_node_id(nd), .scope = scope};
  if (clu_node_is_open(nd) && !clu_node_in_step(nd) &&
      !clu_wait_for(in_step, &w, in_step_by(nd), abandon_wait))
    return failed_because(STUCK);
  nd = w.nd = clu_get_node(handle);
  w.id = clu_node_id(nd);
  if (!clu_node_is_open(nd)) return failed_because(DEAD);
  /* where nothing is under way, no tag is needed: those of withdrawn requests go */
  if (clu_node_requests(nd) == 0 && asked_node(handle) == nd) clu_node_clear_tags(handle);
  m.receivers = scope && scope == same_to_all.scope ? same_to_all.nodes : 1;
  m.shares = clu_node_takes_segments(nd);
  within_call(scope, make, &m);
  tag = clu_node_keep_tag(handle, clu_element(data, "tag"));
  rc = clu_node_call(nd, m.bytes, scope, tag, &e);
  clu_blob_unref(m.bytes);
  if (rc == CLU_DEAD) return failed_because(DEAD);
  if (rc != CLU_OK) {
    if (scope) cancel_scope(scope);
    clu_raise_err(&e);
  }
  if (!scope) { /* nobody may come to pump the rest: everything leaves now */
    w.seq = clu_node_last_call(nd);
    clu_wait_for(flushed, &w, UINT64_MAX, abandon_last);
  }
  return R_NilValue;
}

/* Tells whether it was called since it started, or since ffi_node_forget_calls(). */
SEXP ffi_node_was_called(SEXP handle) {
  return Rf_ScalarLogical(clu_node_was_called(clu_get_node(handle)));
}

SEXP ffi_node_forget_calls(SEXP handle) {
  clu_node_set_called(clu_get_node(handle), 0);
  return R_NilValue;
}

/* Has a node call fun(args...) when it has done what it is at, and asks for no answer: nothing is
 * waited for, and an error there is nobody's. FALSE: the node has ended, or is about to. */
SEXP ffi_node_tell(SEXP handle, SEXP fun, SEXP args) {
  clu_node *nd = clu_get_node(handle);
  clu_blob *b;
  uint64_t seq = 0;
  int rc;
  if (!clu_node_takes_work(nd)) return Rf_ScalarLogical(FALSE);
  clu_call_forget_sent();
  b = clu_call_bytes(fun, args, 1, 0);
  rc = clu_node_tasks(nd, CLU_K_TELL, b, 0, &seq);
  clu_blob_unref(b);
  if (rc == CLU_NOMEM) clu_raise("memory", "not enough memory");
  if (rc == CLU_OK) clu_node_push(nd);
  return Rf_ScalarLogical(rc == CLU_OK);
}

/* Gives `blob` back. */
static SEXP read_value(void *blob) { return clu_unserialize(blob, 5 * sizeof(double)); }

static SEXP answer_list(SEXP handle, clu_node *nd, const clu_req *r) {
  static const char *names[] = {"type", "value", "success", "time", "tag", ""};
  static const char *const times[] = {"user.self", "sys.self", "elapsed", "user.child",
                                      "sys.child"};
  static SEXP type, time_names, time_class;
  int ok = r->kind == CLU_K_VALUE, tag = r->tag;
  uint64_t scope = r->scope;
  clu_blob *b;
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
  Rf_setAttrib(time, R_NamesSymbol, time_names);
  Rf_setAttrib(time, R_ClassSymbol, time_class);
  SET_VECTOR_ELT(out, 0, type);
  SET_VECTOR_ELT(out, 2, Rf_ScalarLogical(ok));
  SET_VECTOR_ELT(out, 3, time);
  SET_VECTOR_ELT(out, 4, clu_node_take_tag(handle, tag));
  b = clu_node_take_first(
      nd); /* nothing jumps between here and read_value(), which gives it back */
  if (b && b->size >= 5 * sizeof(double))
    memcpy(REAL(time), b->data, 5 * sizeof(double));
  else
    memset(REAL(time), 0, 5 * sizeof(double));
  SET_VECTOR_ELT(out, 1, within_call(scope, read_value, b));
  UNPROTECT(2);
  return out;
}

/* The node ended with a request: the call as a whole has failed. What R is told of that node. */
static SEXP died(clu_node *nd, uint64_t scope) {
  if (scope) cancel_scope(scope);
  clu_node_await_end(nd);
  clu_node_drop_requests(nd);
  return clu_node_info(nd);
}

/* A node that can no more answer to this call. */
static clu_node *dead_of(uint64_t scope) {
  for (clu_node *nd = clu_session_nodes(clu_the_session); nd; nd = clu_node_next(nd)) {
    if (clu_node_is_open(nd)) continue;
    if (clu_node_awaits(nd, scope)) return nd;
  }
  return NULL;
}

static int one_answered(void *data) {
  one_wait *w = data;
  const clu_req *r;
  if (!clu_node_is_open(w->nd)) return 1;
  r = clu_node_first(w->nd);
  if (r && r->arrival) return 1;
  if (!w->scope || w->deaths == clu_session_deaths(clu_the_session)) return 0;
  w->deaths = clu_session_deaths(clu_the_session);
  return (w->dead = dead_of(w->scope)) != NULL;
}

static SEXP list_of(SEXP x) {
  SEXP out = PROTECT(x);
  out = PROTECT(Rf_allocVector(VECSXP, 1));
  SET_VECTOR_ELT(out, 0, x);
  UNPROTECT(2);
  return out;
}

/* The answer to the oldest call of this node; NULL: it has died before; list(info): it has died, or
 * another node of the same call, whose answer would be asked for later: the call as a whole has
 * failed now. */
SEXP ffi_node_recv(SEXP handle) {
  clu_node *nd;
  const clu_req *r;
  one_wait w;
  clu_get_node(handle); /* an R error where it is none */
  nd = asked_node(handle);
  r = clu_node_first(nd);
  if (!r) {
    if (!clu_node_is_open(nd)) return R_NilValue;
    clu_raise("no_call", "nothing was sent to this node that it could answer");
  }
  clu_call_forget_sent();
  w = (one_wait){.nd = nd, .scope = r->scope};
  w.deaths = UINT64_MAX;                                   /* check once at the beginning */
  clu_wait_for_answer(one_answered, &w, abandon_wait, nd); /* the handle keeps the node */
  if (w.dead) return list_of(died(w.dead, w.scope));
  r = clu_node_first(nd);
  if (!r || !r->arrival) return list_of(died(nd, w.scope));
  return answer_list(handle, nd, r);
}

/* Tells whether ffi_node_recv() would return at once; NA: nothing was sent to this node. */
SEXP ffi_node_ready(SEXP handle) {
  clu_node *nd;
  const clu_req *r;
  clu_get_node(handle);
  nd = asked_node(handle);
  if (!clu_node_first(nd)) return Rf_ScalarLogical(NA_LOGICAL);
  for (int k = 0; k < 1000; k++) /* a large answer comes in pieces */
    if (clu_pump(0, NULL) != CLU_OK || clu_pump_events() == 0) break;
  r = clu_node_first(nd);
  return Rf_ScalarLogical(!clu_node_is_open(nd) || !r || r->arrival);
}

typedef struct {
  SEXP nodes; /* list of node objects, whose first element is the handle */
  uint64_t scope;
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
    clu_node *nd = asked_node(VECTOR_ELT(VECTOR_ELT(w->nodes, i), 0));
    const clu_req *r = clu_node_first(nd);
    if (!r) continue;
    w->asked = 1;
    w->scope = r->scope;
    if (r->arrival) {
      if (r->arrival < first) {
        first = r->arrival;
        w->found = i;
        w->lost = 0;
      }
    } else if (!clu_node_is_open(nd) && w->found < 0) {
      w->found = i;
      w->lost = 1;
    }
  }
  return w->found >= 0 || !w->asked;
}

static void abandon_any(void *data) { abandon(((any_wait *)data)->scope); }

/* list(node, value): the answer that came first. list(node, value, info) with value NULL: that node
 * has died. */
SEXP ffi_any_recv(SEXP nodes) {
  static const char *names[] = {"node", "value", ""};
  static const char *names_of_lost[] = {"node", "value", "info", ""};
  any_wait w;
  clu_node *nd;
  SEXP out, handle;
  memset(&w, 0, sizeof w);
  w.nodes = nodes;
  for (R_xlen_t i = 0; i < Rf_xlength(nodes); i++)
    clu_get_node(VECTOR_ELT(VECTOR_ELT(nodes, i), 0));
  clu_call_forget_sent();
  clu_wait_for(any_answered, &w, UINT64_MAX, abandon_any);
  if (w.found < 0) clu_raise("no_call", "nothing was sent to these nodes that they could answer");
  handle = VECTOR_ELT(VECTOR_ELT(nodes, w.found), 0);
  nd = asked_node(handle);
  out = PROTECT(Rf_mkNamed(VECSXP, w.lost ? names_of_lost : names));
  SET_VECTOR_ELT(out, 0, Rf_ScalarInteger((int)w.found + 1));
  if (w.lost)
    SET_VECTOR_ELT(out, 2, died(nd, w.scope));
  else
    SET_VECTOR_ELT(out, 1, answer_list(handle, nd, clu_node_first(nd)));
  UNPROTECT(1);
  return out;
}
