/* The master's tasks: drives the scheduler with the bytes, clocks and signals that it does not know of.
 *
 * A `tasks` belongs to a cluster, as external pointer; its protected value is the list of the nodes' handles. A
 * `tjob` is one job, an external pointer too: its protected value is a list of its elements, values and logs. What
 * comes from a node within clu_pump() is only queued, as bytes: no R function is called there.
 */
#include "r/tasks/tasks.h"
#include "core/wire/task-message.h"

#include <stdlib.h>
#include <string.h>

#include "core/base/rng-stream.h"

static const int64_t SLICE = 100000000;  /* ns without a look at interrupts, at most */

#define SPIN 50000 /* ns; see r/node/node-loop.c */
static const int64_t QUICK_SLICE = 10000000; /* while such tasks are done, or may be; longer each time nothing happens */

/* ---- pieces ---- */

static SEXP tag_tasks(void) { return Rf_install("clutch_tasks"); }
static SEXP tag_job(void) { return Rf_install("clutch_job"); }

clu_node *clu_tasks_node(SEXP handles, int i) { return R_ExternalPtrAddr(VECTOR_ELT(handles, i)); }

void clu_tasks_kill(clu_node *nd, tnode *at, int why) {
  if (at->killed) return;
  at->killed = why;
  clu_node_stop(nd, 0);
}

/* ---- life ---- */

void clu_job_forget(tjob *j) {
  tasks *t = j->of;
  if (t) {
    tjob **at = &t->jobs;
    while (*at && *at != j) at = &(*at)->next;
    if (*at) *at = j->next;
    clu_job_free(t->e, j->job, clu_os_now());
  }
  j->of = NULL;
  j->job = NULL;
}

void clu_job_tell_end(tasks *t, SEXP handles, tjob *j) {
  for (int i = 0; i < j->ntold; i++) {
    clu_node *nd = i < t->n ? clu_tasks_node(handles, i) : NULL;
    uint64_t seq = j->number;
    if (!nd || !j->told[i] || clu_node_id(nd) != j->told[i]) continue;
    if (clu_node_tasks(nd, CLU_K_JOB_END, NULL, 0, &seq) == CLU_OK) clu_node_push(nd);
    j->told[i] = 0;
  }
}

static void job_free(tjob *j) {
  clu_drop_notes(&j->results);
  clu_drop_notes(&j->relays);
  clu_blob_unref(j->small);
  clu_blob_unref(j->about);
  free(j->spec.only);
  free(j->told);
  free(j->ended);
  free(j->failures);
  free(j);
}

static void job_unpin(tjob *j) {
  if (--j->pins == 0 && j->finalized) job_free(j);
}

static void job_finalize(SEXP x) {
  tjob *j = R_ExternalPtrAddr(x);
  R_ClearExternalPtr(x);
  if (!j) return;
  clu_count_handle(-1);
  if (j->of && clu_session_is_ours()) {
    tasks *t = j->of;
    SEXP handles = VECTOR_ELT(R_ExternalPtrProtected(x), 0);
    clu_job_forget(j);
    clu_tasks_act(t, handles, 0); /* who is at it is interrupted */
    clu_job_tell_end(t, handles, j);
  }
  j->of = NULL;
  j->job = NULL;
  j->finalized = 1;
  if (j->pins == 0) job_free(j);
}

static void tasks_finalize(SEXP x) {
  tasks *t = R_ExternalPtrAddr(x);
  SEXP handles = R_ExternalPtrProtected(x);
  R_ClearExternalPtr(x);
  if (!t) return;
  clu_count_handle(-1);
  for (tjob *j = t->jobs; j; j = j->next) {
    j->of = NULL;
    j->job = NULL;
  }
  for (int i = 0; i < t->n && clu_session_is_ours(); i++) {
    clu_node *nd = clu_tasks_node(handles, i); /* NULL: its finalizer came first */
    if (nd && clu_node_data(nd) == &t->nodes[i]) clu_node_set_data(nd, NULL);
  }
  clu_sched_free(t->e);
  free(t->nodes);
  free(t->deaths);
  free(t->trace);
  free(t);
}

tasks *clu_get_tasks(SEXP x) {
  if (TYPEOF(x) != EXTPTRSXP || R_ExternalPtrTag(x) != tag_tasks() || !R_ExternalPtrAddr(x))
    clu_raise_foreign("cluster");
  clu_need_session();
  return R_ExternalPtrAddr(x);
}

tjob *clu_get_job(SEXP x) {
  if (TYPEOF(x) != EXTPTRSXP || R_ExternalPtrTag(x) != tag_job() || !R_ExternalPtrAddr(x))
    clu_raise_foreign("task");
  clu_need_session();
  return R_ExternalPtrAddr(x);
}

/* For a cluster with these nodes. `grace`: seconds that an interrupted task has to end. `most`: tasks remembered. */
SEXP ffi_tasks_new(SEXP handles, SEXP grace, SEXP most) {
  int n = Rf_length(handles);
  tasks *t;
  SEXP x;
  clu_need_session();
  x = PROTECT(clu_handle_new(tag_tasks(), handles, tasks_finalize));
  t = calloc(1, sizeof *t);
  if (t) t->e = clu_sched_new((uint64_t)(1e9 * Rf_asReal(grace)));
  if (t) t->nodes = calloc((size_t)n + 1, sizeof *t->nodes);
  if (t) t->deaths = calloc((size_t)n + 1, sizeof *t->deaths);
  if (!t || !t->e || !t->nodes || !t->deaths) {
    if (t) clu_sched_free(t->e);
    if (t) free(t->nodes);
    if (t) free(t->deaths);
    free(t);
    clu_raise("memory", "not enough memory");
  }
  t->n = n;
  t->capdeaths = (size_t)n + 1;
  t->most = (size_t)Rf_asReal(most);
  for (int i = 0; i < n; i++) {
    t->nodes[i].of = t;
    t->nodes[i].index = i;
  }
  clu_tasks_listen();
  R_SetExternalPtrAddr(x, t);
  clu_count_handle(1);
  UNPROTECT(1);
  return x;
}

static void look_at_nodes(tasks *t, SEXP handles);

/* From now on node `index` (from 1) has its part in the work. NA: it is dead and has to be replaced; FALSE: stopped. */
SEXP ffi_tasks_attach(SEXP x, SEXP index) {
  tasks *t = clu_get_tasks(x);
  int i = Rf_asInteger(index) - 1;
  clu_node *nd = i >= 0 && i < t->n ? clu_tasks_node(R_ExternalPtrProtected(x), i) : NULL;
  if (!nd) clu_raise("argument", "there is no node %d", i + 1);
  if (!clu_node_is_ready(nd)) return Rf_ScalarLogical(clu_node_is_lost(nd) || t->nodes[i].killed ? NA_LOGICAL : FALSE);
  if (t->nodes[i].id == clu_node_id(nd)) return Rf_ScalarLogical(TRUE);
  if (t->nodes[i].id) look_at_nodes(t, R_ExternalPtrProtected(x)); /* the one before has ended unseen */
  t->nodes[i].id = clu_node_id(nd);
  t->nodes[i].over_memory = t->nodes[i].killed = 0;
  t->nodes[i].memory = 0;
  t->nodes[i].odd = 0;
  clu_node_set_data(nd, &t->nodes[i]);
  clu_tasks_limit_node(t, nd, &t->nodes[i]);
  if (clu_sched_node_up(t->e, i, clu_node_claim(nd)) != CLU_OK) clu_raise("memory", "not enough memory");
  return Rf_ScalarLogical(TRUE);
}

/* A job, of which nothing is done before ffi_job_start(): `about` goes to each node once, `elements` is a list or a plain
 * vector, or NULL: one task without an element. `spec`: retries, chunk, timeout in seconds, max_memory in bytes. `seed`: six
 * integers or NULL. `only`: numbers of the nodes that may do it, or NULL. */
SEXP ffi_job_new(SEXP x, SEXP about, SEXP elements, SEXP spec, SEXP seed, SEXP only) {
  tasks *t = clu_get_tasks(x);
  SEXP prot = PROTECT(Rf_allocVector(VECSXP, 4)), out = PROTECT(clu_handle_new(tag_job(), prot, job_finalize));
  R_xlen_t n = elements == R_NilValue ? 1 : Rf_xlength(elements);
  clu_job_spec s;
  clu_blob *b;
  tjob *j;
  double total = (double)clu_os_total_memory();
  SET_VECTOR_ELT(prot, 0, R_ExternalPtrProtected(x));
  SET_VECTOR_ELT(prot, 1, elements);
  SET_VECTOR_ELT(prot, 2, Rf_allocVector(VECSXP, n));
  b = clu_serialize(NULL, about);
  j = calloc(1, sizeof *j);
  if (j) j->told = calloc((size_t)t->n + 1, sizeof *j->told);
  if (j) j->ended = calloc((size_t)n + 1, 1);
  memset(&s, 0, sizeof s);
  s.nonly = only == R_NilValue ? 0 : t->n;
  if (s.nonly) s.only = calloc((size_t)t->n, 1);
  for (R_xlen_t i = 0; s.only && i < Rf_xlength(only); i++)
    if (INTEGER(only)[i] >= 1 && INTEGER(only)[i] <= t->n) s.only[INTEGER(only)[i] - 1] = 1;
  s.n = (uint64_t)n;
  s.retries = (uint32_t)REAL(spec)[0];
  s.chunk = (uint32_t)REAL(spec)[1];
  s.timeout_ns = (uint64_t)(1e9 * REAL(spec)[2]);
  s.user = j;
  if (!j || !j->told || !j->ended || (s.nonly && !s.only)) {
    if (j) free(j->told);
    if (j) free(j->ended);
    free(j);
    free(s.only);
    clu_blob_unref(b);
    clu_raise("memory", "not enough memory");
  }
  j->about = b;
  j->ntold = t->n;
  j->spec = s;
  j->max_memory = REAL(spec)[3];
  if (j->max_memory > (total > 0 ? total : 9e18)) j->max_memory = 0; /* more than there is: no limit */
  j->bare = elements == R_NilValue;
  j->seeded = seed != R_NilValue;
  for (int i = 0; i < 6 && j->seeded; i++) j->seed[i] = (uint32_t)INTEGER(seed)[i];
  j->number = ++t->numbers;
  j->n = (uint64_t)n;
  R_SetExternalPtrAddr(out, j);
  j->self = out;
  clu_count_handle(1);
  UNPROTECT(2);
  return out;
}

/* From now on it is worked at. The caller has seen to it that it is ended, whatever happens: see ffi_job_end(). */
SEXP ffi_job_start(SEXP x, SEXP job) {
  tasks *t = clu_get_tasks(x);
  tjob *j = clu_get_job(job);
  if (j->of) return R_NilValue;
  j->job = clu_job_new(t->e, &j->spec);
  if (!j->job) clu_raise("memory", "not enough memory");
  j->spec.only = NULL; /* the scheduler has it */
  j->of = t;
  j->next = t->jobs;
  t->jobs = j;
  clu_tasks_limit_memory(t, R_ExternalPtrProtected(x));
  return R_NilValue;
}

/* ---- work ---- */

/* Nodes that are over. */
static void look_at_nodes(tasks *t, SEXP handles) {
  for (int i = 0; i < t->n; i++) {
    tnode *at = &t->nodes[i];
    clu_node *nd;
    uint64_t id;
    int cause;
    if (!at->id) continue;
    nd = clu_tasks_node(handles, i);
    if (nd && clu_node_id(nd) == at->id && clu_node_is_open(nd)) continue;
    if (t->ndeaths == t->capdeaths) {
      size_t cap = 2 * t->capdeaths;
      death *more = realloc(t->deaths, cap * sizeof *more);
      if (!more) return; /* next time: R has to hear of it */
      t->deaths = more;
      t->capdeaths = cap;
    }
    id = at->id;
    at->id = 0;
    cause = ++t->causes;
    if (nd && clu_node_id(nd) == id && t->limit > 0) {
      clu_await_reason(nd); /* one that had too much is not tried again */
      uint64_t memory;
      if (clu_node_over_limit(nd, &memory)) {
        at->over_memory = 1;
        at->memory = (int64_t)memory;
      }
    }
    if (nd && clu_node_data(nd) == at) clu_node_set_data(nd, NULL);
    t->deaths[t->ndeaths].began = clu_sched_node_lost(t->e, i, cause, !at->over_memory);
    t->deaths[t->ndeaths].index = i;
    t->deaths[t->ndeaths].memory = (double)at->memory;
    t->deaths[t->ndeaths].cause = cause;
    t->deaths[t->ndeaths].over_memory = at->over_memory;
    t->deaths[t->ndeaths++].killed = at->killed;
  }
}

void clu_tasks_look_at_endings(tasks *t) {
  clu_ended x;
  while (clu_sched_ended(t->e, &x)) {
    clu_job_fail(x.user, &x);
    clu_tasks_trace(t, x.user, &x, clu_os_now(), 0, 0, 0);
  }
}

typedef struct {
  tasks *t;
  SEXP handles;
  tjob *j;
  clu_node *nd;
  clu_action a;
  int last; /* the node that has messages which were not pushed yet; -1: none */
  clu_blob *body;
} sending;

static SEXP slice(SEXP x, R_xlen_t from, R_xlen_t n) {
  SEXP out = PROTECT(Rf_allocVector(TYPEOF(x), n));
  switch (TYPEOF(x)) {
  case INTSXP: memcpy(INTEGER(out), INTEGER_RO(x) + from, (size_t)n * sizeof(int)); break;
  case LGLSXP: memcpy(LOGICAL(out), LOGICAL_RO(x) + from, (size_t)n * sizeof(int)); break;
  case REALSXP: memcpy(REAL(out), REAL_RO(x) + from, (size_t)n * sizeof(double)); break;
  case STRSXP:
    for (R_xlen_t i = 0; i < n; i++) SET_STRING_ELT(out, i, STRING_ELT(x, from + i));
    break;
  default:
    for (R_xlen_t i = 0; i < n; i++) SET_VECTOR_ELT(out, i, VECTOR_ELT(x, from + i));
  }
  UNPROTECT(1);
  return out;
}

static SEXP tasks_bytes(void *data) {
  sending *s = data;
  unsigned char head[CLU_TASKS_HEAD];
  uint32_t flags = (s->j->seeded ? CLU_TASKS_SEEDED : 0) | (s->j->bare ? CLU_TASKS_BARE : 0) |
                   (clu_node_ring(s->nd) ? 0 : CLU_TASKS_NO_RING), seed[6];
  SEXP part = R_NilValue;
  clu_blob *b;
  memcpy(seed, s->j->seed, sizeof seed);
  if (s->j->seeded) clu_stream_jump(seed, s->a.first);
  clu_put64(head, s->j->number);
  clu_put32(head + 8, s->a.n);
  clu_put32(head + 12, s->a.attempt);
  clu_put32(head + 16, flags);
  clu_put32(head + 20, s->t->limit > 0 && s->t->limit < 4e15 ? (uint32_t)(s->t->limit / 1048576) + 1 : 0);
  for (int i = 0; i < 6; i++) clu_put32(head + 24 + 4 * i, seed[i]);
  if (!s->j->bare)
    part = slice(VECTOR_ELT(R_ExternalPtrProtected(s->j->self), 1), (R_xlen_t)s->a.first, (R_xlen_t)s->a.n);
  PROTECT(part);
  b = clu_blob_new(sizeof head + 64);
  if (!b) Rf_error("not enough memory");
  clu_blob_append(b, head, sizeof head);
  if (!s->j->bare) b = clu_serialize(b, part);
  UNPROTECT(1);
  s->body = b;
  return R_NilValue;
}

static void push(SEXP handles, int node) {
  clu_node *nd = node >= 0 ? clu_tasks_node(handles, node) : NULL;
  if (nd) clu_node_push(nd);
}

/* An interrupt, or an element that cannot be serialized: it waits again, its job will be freed. */
static void unsent(void *data, Rboolean jump) {
  sending *s = data;
  if (!jump) return;
  clu_sched_unsent(s->t->e, &s->a);
  job_unpin(s->j);
  push(s->handles, s->last);
}

/* R code may run while elements are serialized: of ALTREP objects, of a window system's events. It may give up this job and
 * others, work at them, and replace nodes. So the job is held, by the scheduler and here, and all is looked at again. */
static void send(tasks *t, SEXP handles, const clu_action *a, int last) {
  static SEXP token;
  tjob *j = a->user;
  clu_node *nd = clu_tasks_node(handles, a->node);
  uint64_t seq = j->number, id = clu_node_id(nd);
  sending s;
  int rc = CLU_OK, there;
  if (t->nodes[a->node].id != id) { /* it has just been replaced: seen to soon */
    clu_sched_unsent(t->e, a);
    return;
  }
  if (!token) {
    token = R_MakeUnwindCont();
    R_PreserveObject(token);
  }
  s.t = t;
  s.handles = handles;
  s.j = j;
  s.nd = nd;
  s.a = *a;
  s.last = last;
  s.body = NULL;
  j->pins++;
  PROTECT(j->self);
  R_UnwindProtect(tasks_bytes, &s, unsent, &s, token);
  UNPROTECT(1);
  nd = clu_tasks_node(handles, a->node);
  there = j->of && nd && clu_node_id(nd) == id && t->nodes[a->node].id == id;
  job_unpin(j);
  if (!there) {
    clu_sched_unsent(t->e, a);
    clu_blob_unref(s.body);
    return;
  }
  if (j->told[a->node] != clu_node_id(nd)) {
    rc = clu_node_tasks(nd, CLU_K_JOB, j->about, 0, &seq);
    if (rc == CLU_OK) {
      j->told[a->node] = clu_node_id(nd);
      j->bytes_out += j->about->size;
    }
  }
  if (rc == CLU_OK) rc = clu_node_tasks(nd, CLU_K_TASKS, s.body, a->n, &seq);
  if (rc == CLU_OK) {
    j->bytes_out += s.body->size;
    if (clu_sched_sent(t->e, a, seq, s.body->size, clu_os_now()) != CLU_OK)
      clu_tasks_kill(nd, &t->nodes[a->node], CLU_NO_ROOM);
  } else {
    clu_sched_unsent(t->e, a);
    clu_tasks_kill(nd, &t->nodes[a->node], CLU_NO_ROOM);
  }
  clu_blob_unref(s.body);
}

/* Does what the scheduler wants. Only where it may send, it may jump. */
void clu_tasks_act(tasks *t, SEXP handles, int may_send) {
  clu_action a;
  int last = -1;
  if (clu_sched_deadline(t->e) <= clu_os_now()) clu_tasks_take_rings(t, handles); /* who has answered is not late */
  for (int k = 0; k < 256; k++) {
    clu_node *nd;
    clu_sched_next(t->e, clu_os_now(), &a);
    if (a.what == CLU_ACT_NONE) break;
    nd = clu_tasks_node(handles, a.node); /* NULL: all is being collected, and its finalizer came first */
    if (a.what == CLU_ACT_SEND && (!may_send || !nd)) {
      clu_sched_unsent(t->e, &a);
      break;
    }
    if (a.what == CLU_ACT_SEND) {
      if (last != a.node) push(handles, last);
      last = a.node;
      send(t, handles, &a, last);
    } else if (!nd) {
      continue;
    } else if (a.what == CLU_ACT_INTERRUPT) {
      clu_node_interrupt(nd, a.seq);
    } else {
      clu_tasks_kill(nd, &t->nodes[a.node], CLU_NO_REACTION);
    }
  }
  push(handles, last);
}

/* Whether so little is with the nodes that an answer to it is worth to be waited for awake. */
static int few_out(const tasks *t, const tjob *j) {
  return !j || !j->job || clu_job_left(j->job) - clu_job_waiting(j->job) <= 2 * (uint64_t)clu_sched_nodes_up(t->e);
}

enum { TIME_UP = 0, DONE, DEATHS, RELAY, FAILED, NO_NODE };

/* Works for at most `seconds`, or until there is something to be done about `job` (may be NULL), of whose failures
 * `seen` are known. */
SEXP ffi_tasks_step(SEXP x, SEXP job, SEXP seconds, SEXP seen) {
  tasks *t = clu_get_tasks(x);
  SEXP handles = R_ExternalPtrProtected(x);
  tjob *j = job == R_NilValue ? NULL : clu_get_job(job);
  uint64_t deadline = clu_in_seconds(seconds), looked = clu_os_now(), spin_end = looked + SPIN;
  size_t known = (size_t)Rf_asReal(seen);
  int64_t quick = QUICK_SLICE;
  clu_pump(0, NULL); /* also with no time at all, what has come is seen */
  clu_tasks_take_rings(t, handles);
  for (;;) {
    clu_err e = {0, 0, ""};
    uint64_t now;
    int64_t wait = SLICE;
    look_at_nodes(t, handles);
    clu_tasks_limit_memory(t, handles);
    clu_tasks_act(t, handles, 1);
    clu_tasks_look_at_endings(t);
    if (j) clu_take_results(j, R_ExternalPtrProtected(job));
    if (j && clu_tasks_lost(j)) clu_raise("memory", "not enough memory for the results");
    if (t->ndeaths) return Rf_ScalarInteger(DEATHS);
    if (j && j->relays.first) return Rf_ScalarInteger(RELAY);
    if (j && j->nfailures > known) return Rf_ScalarInteger(FAILED);
    if (j && (!j->job || clu_job_left(j->job) == 0)) return Rf_ScalarInteger(DONE);
    if (j && !clu_job_has_node(t->e, j->job)) return Rf_ScalarInteger(NO_NODE);
    now = clu_os_now();
    if (now >= deadline) return Rf_ScalarInteger(TIME_UP);
    if (now < spin_end && few_out(t, j)) { /* an answer that comes soon is here before a sleeper would be awake */
      wait = 0;
    } else {
      if (j && clu_job_time(j->job) < CLU_QUICK) {
        wait = quick;
        quick = 2 * quick < SLICE ? 2 * quick : SLICE;
      }
      wait = (int64_t)clu_sched_wait(t->e, now, (uint64_t)wait); /* it may have passed since it was looked at: then 0 */
      if ((uint64_t)wait > deadline - now) wait = (int64_t)(deadline - now);
    }
    if (clu_pump(wait, &e) != CLU_OK) clu_raise_err(&e);
    if (clu_pump_events() == 0 && wait == 0) clu_os_yield();
    if (clu_pump_events() == 0 && wait > 0) clu_tasks_take_rings(t, handles);
    if (clu_pump_events() > 0) {
      spin_end = clu_os_now() + SPIN;
      quick = QUICK_SLICE;
    }
    if ((clu_pump_events() == 0 && wait) || now - looked > (uint64_t)SLICE / 4) {
      R_CheckUserInterrupt(); /* may jump: nothing is held here */
      looked = clu_os_now();
    }
  }
}
