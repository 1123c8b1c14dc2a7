/* Where the tasks of a cluster and its jobs begin and end, as R sees it. */
#include "r/tasks/task-life.h"

#include <stdlib.h>
#include <string.h>

#include "core/base/budget.h"
#include "core/wire/task-message.h"
#include "r/tasks/job-label.h"
#include "r/tasks/memory-limit.h"
#include "r/tasks/task-away.h"
#include "r/tasks/task-drive.h"
#include "r/tasks/task-hosts.h"
#include "r/tasks/task-results.h"
#include "r/tasks/task-send.h"
#include "r/tasks/wake.h"

/* ---- the tasks of a cluster ---- */

static void tasks_finalize(SEXP x) {
  tasks *t = R_ExternalPtrAddr(x);
  int mine;
  R_ClearExternalPtr(x);
  if (!t) return;
  clu_count_handle(-1);
  /* in a forked child its jobs may be gone already, without having been taken out of its list */
  if (!clu_handle_is_ours(x)) return;
  mine = clu_turn_enter(CLU_FRAME);
  for (int i = 0; i < t->n; i++)
    if (t->nodes[i].node) clu_node_drop_data(t->nodes[i].node);
  clu_tasks_drive_no_more(t);
  clu_budget_give(t->cores.held);
  clu_hosts_free(t->hosts.first);
  clu_tasks_free(t);
  clu_turn_leave(mine);
}

/* Whether this is a forked child of a session, without one of its own: then it has one now. */
SEXP ffi_session_in_child(void) {
  if (!clu_session_is_parents()) return Rf_ScalarLogical(0);
  clu_session_begin_in_child();
  clu_tasks_drive_none();
  clu_wake_forget();
  return Rf_ScalarLogical(1);
}

/* NULL without memory. */
static tasks *tasks_alloc(int n, uint64_t grace_ns) {
  tasks *t = calloc(1, sizeof *t);
  if (!t) return NULL;
  t->n = n;
  t->sched = clu_sched_new(grace_ns);
  t->deaths.cap = (size_t)n + 1;
  t->deaths.list = calloc(t->deaths.cap, sizeof *t->deaths.list);
  t->nodes = calloc((size_t)n + 1, sizeof *t->nodes);
  if (!t->sched || !t->nodes || !t->deaths.list) {
    clu_tasks_free(t);
    return NULL;
  }
  for (int i = 0; i < n; i++) {
    t->nodes[i].tasks = t;
    t->nodes[i].index = i;
  }
  return t;
}

/* For a cluster with these nodes. `grace`: seconds that an interrupted task has to end. `most`:
 * tasks remembered. */
SEXP ffi_tasks_new(SEXP handles, SEXP grace, SEXP most) {
  tasks *t;
  SEXP x;
  clu_need_session();
  x = PROTECT(clu_tasks_handle(handles, tasks_finalize));
  t = tasks_alloc(Rf_length(handles), (uint64_t)(1e9 * Rf_asReal(grace)));
  if (!t) clu_raise("memory", "not enough memory");
  t->trace.most = (size_t)Rf_asReal(most);
  clu_tasks_listen();
  R_SetExternalPtrAddr(x, t);
  clu_count_handle(1);
  if (clu_tasks_drive_always(t) != CLU_OK) clu_raise("memory", "not enough memory");
  UNPROTECT(1);
  return x;
}

/* What is done is shown in this view from now on. */
SEXP ffi_tasks_show(SEXP x, SEXP view) {
  tasks *t = clu_tasks_get(x);
  clu_view_unref(t->view);
  t->view = clu_view_ref(clu_get_view(view));
  return R_NilValue;
}

/* From now on its nodes end when they were not in use for so many seconds; 0: they stay. */
SEXP ffi_tasks_idle(SEXP x, SEXP seconds) {
  tasks *t = clu_tasks_get(x);
  t->idle.after = (uint64_t)(1e9 * Rf_asReal(seconds));
  t->idle.used = clu_os_now();
  return R_NilValue;
}

/* They are in use now. Whether all are there. */
SEXP ffi_tasks_use(SEXP x) {
  tasks *t = clu_tasks_get(x);
  t->idle.used = clu_os_now();
  clu_pump(0, NULL);
  for (int i = 0; i < t->n; i++)
    if (!t->nodes[i].node || !clu_node_takes_work(t->nodes[i].node)) return Rf_ScalarLogical(0);
  return Rf_ScalarLogical(1);
}

/* Numbers of the nodes that have ended since nobody needed them. */
SEXP ffi_tasks_idle_nodes(SEXP x) {
  tasks *t = clu_tasks_get(x);
  SEXP out = PROTECT(Rf_allocVector(INTSXP, t->n));
  int n = 0;
  for (int i = 0; i < t->n; i++)
    if (t->nodes[i].idle) INTEGER(out)[n++] = i + 1;
  out = Rf_lengthgets(out, n);
  UNPROTECT(1);
  return out;
}

/* From now on node `index` (from 1) has its part in the work: "attached". "dead": it has to be
 * replaced, as it has died or has ended since nobody needed it; "stopped": it was told to end. */
SEXP ffi_tasks_attach(SEXP x, SEXP index) {
  tasks *t = clu_tasks_get(x);
  int i = Rf_asInteger(index) - 1;
  clu_node *nd = i >= 0 && i < t->n ? clu_tasks_node(R_ExternalPtrProtected(x), i) : NULL;
  task_node *at;
  if (!nd) clu_raise("argument", "there is no node %d", i + 1);
  at = &t->nodes[i];
  if (!clu_node_takes_work(nd)) {
    int is_dead = clu_node_is_lost(nd) || at->killed || at->idle;
    return Rf_mkString(is_dead ? "dead" : "stopped");
  }
  if (at->id == clu_node_id(nd)) return Rf_mkString("attached");
  if (at->id) {
    if (at->word == TASK_NO_WORD) at->word = TASK_COUNTS;
    clu_tasks_see_deaths(t, 1); /* the one before has ended unseen */
  }
  clu_node_drop_data(nd);
  at->id = clu_node_id(nd);
  at->node = nd;
  at->closed = 0;
  at->over_memory = 0;
  at->killed = TASK_NOT_KILLED;
  at->word = TASK_NO_WORD;
  at->idle = t->idle.is_idle = 0;
  at->memory = 0;
  at->early = at->asked = 0;
  clu_node_set_data(nd, at);
  if (clu_node_ring(nd))
    t->rings.any = 1;
  else
    t->rings.not_all = 1;
  clu_tasks_limit_node(t, nd);
  if (clu_sched_node_up(t->sched, i, clu_node_claim(nd)) != CLU_OK)
    clu_raise("memory", "not enough memory");
  if (clu_node_is_relayed(nd)) clu_sched_node_elsewhere(t->sched, i);
  at->cut = clu_node_is_cut(nd);
  clu_sched_node_cut(t->sched, i, at->cut != CLU_IS_REACHED, clu_os_now());
  return Rf_mkString("attached");
}

static SEXP element_named(SEXP list, const char *name) {
  SEXP names = Rf_getAttrib(list, R_NamesSymbol);
  for (R_xlen_t i = 0; i < Rf_xlength(names); i++)
    if (strcmp(CHAR(STRING_ELT(names, i)), name) == 0) return VECTOR_ELT(list, i);
  return R_NilValue;
}

/* The ranks of these nodes of the cluster, all of which have their part in the work; NULL: of one
 * ffi_tasks_attach() has to be asked. */
SEXP ffi_tasks_attach_all(SEXP x, SEXP nodes) {
  tasks *t = clu_tasks_get(x);
  SEXP handles = R_ExternalPtrProtected(x);
  R_xlen_t n = Rf_xlength(nodes);
  SEXP ranks = PROTECT(Rf_allocVector(INTSXP, n));
  for (R_xlen_t k = 0; k < n; k++) {
    int i = Rf_asInteger(element_named(VECTOR_ELT(nodes, k), "rank")) - 1;
    clu_node *nd = i >= 0 && i < t->n ? clu_tasks_node(handles, i) : NULL;
    if (!nd || !clu_node_takes_work(nd) || t->nodes[i].id != clu_node_id(nd)) {
      UNPROTECT(1);
      return R_NilValue;
    }
    INTEGER(ranks)[k] = i + 1;
  }
  UNPROTECT(1);
  return ranks;
}

/* ---- jobs ---- */

static void job_finalize(SEXP x) {
  task_job *j = R_ExternalPtrAddr(x);
  R_ClearExternalPtr(x);
  if (!j) return;
  clu_count_handle(-1);
  if (clu_handle_is_ours(x)) {
    int mine = clu_turn_enter(CLU_FRAME);
    tasks *t = j->tasks;
    if (t) {
      clu_job_detach(j);
      clu_tasks_act(t, 0); /* who is at it is interrupted */
      clu_job_send_end(t, j);
    }
    clu_job_release(j);
    clu_turn_leave(mine);
  } else {
    clu_job_release(j);
  }
}

/* Zeroed, for `n` tasks and this many nodes; NULL without memory. */
static task_job *job_alloc(uint64_t n, int nodes) {
  task_job *j = calloc(1, sizeof *j);
  if (!j) return NULL;
  j->n = n;
  j->nsent_to = nodes;
  j->sent_to = calloc((size_t)nodes + 1, sizeof *j->sent_to);
  j->ended = calloc((size_t)n + 1, 1);
  if (!j->sent_to || !j->ended) {
    clu_job_release(j);
    return NULL;
  }
  return j;
}

/* What the scheduler is to be told of it. `numbers`: retries, chunk, timeout in seconds. CLU_OK or
 * CLU_NOMEM. */
static int fill_spec(task_job *j, const double *numbers, SEXP only) {
  clu_job_spec *s = &j->spec;
  s->n = j->n;
  s->retries = (uint32_t)numbers[0];
  s->chunk = (uint32_t)numbers[1];
  s->timeout_ns = (uint64_t)(1e9 * numbers[2]);
  s->user = j;
  s->needs_caller = !j->bare; /* its elements are R's */
  if (only == R_NilValue) return CLU_OK;
  s->nonly = j->nsent_to;
  s->only = calloc((size_t)s->nonly, 1);
  if (!s->only) return CLU_NOMEM;
  for (R_xlen_t i = 0; i < Rf_xlength(only); i++) {
    int node = INTEGER(only)[i];
    if (node >= 1 && node <= s->nonly) s->only[node - 1] = 1;
  }
  return CLU_OK;
}

/* A limit of more than the machine has is none. */
static double usable_limit(double bytes) {
  double total;
  if (bytes <= 0) return 0;
  total = (double)clu_os_total_memory();
  return bytes > (total > 0 ? total : 9e18) ? 0 : bytes;
}

int clu_job_receivers(const tasks *t, SEXP elements, SEXP only) {
  R_xlen_t nodes = only == R_NilValue ? t->n : Rf_xlength(only);
  R_xlen_t n = elements == R_NilValue ? 1 : Rf_xlength(elements);
  return (int)(n < nodes ? n : nodes);
}

clu_blob *clu_job_message(const tasks *t, SEXP parts, int receivers) {
  unsigned char len[4];
  clu_blob *fun = clu_call_function(VECTOR_ELT(parts, CLU_JOB_FUN)), *b;
  b = clu_blob_new(fun ? fun->size + 512 : 1024);
  if (!b) clu_raise("memory", "not enough memory");
  clu_put32(len, fun ? (uint32_t)fun->size : 0);
  clu_blob_append(b, len, sizeof len); /* there is room */
  if (fun) {
    clu_blob_append(b, fun->data, fun->size);
    SET_VECTOR_ELT(parts, CLU_JOB_FUN, R_NilValue);
  }
  return clu_serialize_for(b, parts, clu_tasks_share(t) ? receivers : 0);
}

SEXP clu_job_handle_for(SEXP x, SEXP elements) {
  SEXP prot = PROTECT(Rf_allocVector(VECSXP, 5)), out = PROTECT(clu_job_handle(prot, job_finalize));
  R_xlen_t n = elements == R_NilValue ? 1 : Rf_xlength(elements);
  SET_VECTOR_ELT(prot, 0, R_ExternalPtrProtected(x));
  SET_VECTOR_ELT(prot, 1, elements);
  SET_VECTOR_ELT(prot, 2, Rf_allocVector(VECSXP, n));
  UNPROTECT(2);
  return out;
}

task_job *clu_job_fill(tasks *t, SEXP handle, clu_blob *message, const double *spec,
                       const int *seed, SEXP only) {
  SEXP prot = R_ExternalPtrProtected(handle);
  task_job *j = job_alloc((uint64_t)Rf_xlength(VECTOR_ELT(prot, 2)), t->n);
  if (j) j->bare = VECTOR_ELT(prot, 1) == R_NilValue;
  if (!j || fill_spec(j, spec, only) != CLU_OK) {
    if (j) clu_job_release(j);
    clu_blob_unref(message);
    clu_raise("memory", "not enough memory");
  }
  j->message = message;
  j->max_memory = usable_limit(spec[3]);
  j->seeded = seed != NULL;
  for (int i = 0; i < 6 && seed; i++) j->seed[i] = (uint32_t)seed[i];
  j->number = ++t->jobs.numbers;
  R_SetExternalPtrAddr(handle, j);
  j->self = handle;
  clu_count_handle(1);
  return j;
}

/* A job, of which nothing is done before ffi_job_start(): `parts` go to each node once,
 * `elements` is a list or a plain vector, or NULL: one task without an element. `spec`: retries,
 * chunk, timeout in seconds, max_memory in bytes. `seed`: six integers or NULL. `only`: numbers of
 * the nodes that may do it, or NULL. */
SEXP ffi_job_new(SEXP x, SEXP parts, SEXP elements, SEXP spec, SEXP seed, SEXP only) {
  tasks *t = clu_tasks_get(x);
  SEXP out = PROTECT(clu_job_handle_for(x, elements));
  clu_blob *b = clu_job_message(t, parts, clu_job_receivers(t, elements, only));
  clu_job_fill(t, out, b, REAL(spec), seed == R_NilValue ? NULL : INTEGER(seed), only);
  UNPROTECT(1);
  return out;
}

void clu_job_label_call(task_job *j, SEXP name, SEXP code) {
  char label[CLU_LABEL_MOST + 1];
  clu_label_of_call(label, name, code);
  if (clu_job_name(j, label) != CLU_OK) clu_raise("memory", "not enough memory");
}

/* What a job that has not begun is called: the call of `name` with `code`, see job-label.h; where
 * `name` is NULL the text `code`. */
SEXP ffi_job_name(SEXP job, SEXP name, SEXP code) {
  task_job *j = clu_job_get(job);
  char label[CLU_LABEL_MOST + 1];
  if (name != R_NilValue) {
    clu_job_label_call(j, name, code);
    return R_NilValue;
  }
  clu_label_of_text(label, Rf_translateCharUTF8(Rf_asChar(code)));
  if (clu_job_name(j, label) != CLU_OK) clu_raise("memory", "not enough memory");
  return R_NilValue;
}

void clu_job_begin(tasks *t, task_job *j) {
  if (!j->facts && clu_job_name(j, "") != CLU_OK) clu_raise("memory", "not enough memory");
  j->job = clu_job_new(t->sched, &j->spec);
  if (!j->job) clu_raise("memory", "not enough memory");
  j->spec.only = NULL; /* the scheduler has it */
  j->tasks = t;
  j->next = t->jobs.first;
  if (j->next) j->next->prev = j;
  t->jobs.first = j;
  t->jobs.n++;
  t->jobs.nmaps += !j->bare;
  t->limits.njobs += j->max_memory > 0;
  clu_job_count(j);
  j->facts->begun = clu_os_now();
  j->shown = clu_view_job_begins(t->view, j->number, j->n, j->facts->begun);
  clu_view_job_label(t->view, j->shown, j->number, clu_job_label(j));
}

/* From now on it is worked at. The caller has seen to it that it is ended, whatever happens: see
 * ffi_job_end(). */
SEXP ffi_job_start(SEXP x, SEXP job) {
  tasks *t = clu_tasks_get(x);
  task_job *j = clu_job_get(job);
  if (j->tasks) return R_NilValue;
  clu_job_begin(t, j);
  clu_tasks_limit_memory(t);
  clu_tasks_back_at_once(); /* to send it: or each start of a task would wake the thread */
  return R_NilValue;
}

static int all_in_step(void *handles) {
  for (R_xlen_t i = 0; i < Rf_xlength(handles); i++) {
    clu_node *nd = clu_tasks_node(handles, (int)i);
    if (nd && !clu_node_in_step(nd)) return 0;
  }
  return 1;
}

/* Gives the job up, and waits until the nodes have, `wait` seconds at the most. */
static void end_job(task_job *j, SEXP handles, double wait) {
  tasks *t = j->tasks;
  int busy;
  if (!t) return;
  busy = clu_job_left(j->job) > 0;
  clu_job_cancel(t->sched, j->job, clu_os_now());
  clu_tasks_act(t, 0);
  if (busy && wait > 0) clu_pump_for(all_in_step, handles, clu_os_now() + (uint64_t)(1e9 * wait));
  clu_job_send_end(t, j);
  clu_job_detach(j);
  clu_tasks_limit_memory(t);
}

/* Gives the job up. `wait`: seconds to wait until the nodes have, at most. No interrupt ends it: it
 * is bounded. */
SEXP ffi_job_end(SEXP job, SEXP wait) {
  end_job(clu_job_get(job), VECTOR_ELT(R_ExternalPtrProtected(job), 0), Rf_asReal(wait));
  return R_NilValue;
}

/* What has come of a job with one task: NULL: it has not ended; list(value): it has ended well and
 * has said nothing; NA: R has to ask for the rest. In the last two cases nothing more will come. */
SEXP ffi_job_outcome(SEXP job) {
  task_job *j = clu_job_get(job);
  SEXP prot = R_ExternalPtrProtected(job), out;
  if (j->job && clu_job_left(j->job) > 0) return R_NilValue;
  clu_job_take_results(j, prot);
  if (j->nfailures > 0 || !j->ended[0] || VECTOR_ELT(prot, 3) != R_NilValue ||
      clu_job_is_incomplete(j))
    return Rf_ScalarLogical(NA_LOGICAL);
  out = PROTECT(Rf_allocVector(VECSXP, 1));
  SET_VECTOR_ELT(out, 0, VECTOR_ELT(VECTOR_ELT(prot, 2), 0));
  end_job(j, VECTOR_ELT(prot, 0), 0);
  UNPROTECT(1);
  return out;
}

/* The value of a job with one task is somebody else's from now on: R keeps what an object with a
 * finalizer refers to for one more collection, and mostly until a full one. */
SEXP ffi_job_drop_value(SEXP job) {
  SET_VECTOR_ELT(VECTOR_ELT(R_ExternalPtrProtected(job), 2), 0, R_NilValue);
  return R_NilValue;
}

/* No node is left and none can be had: tasks that wait fail with this cause. */
SEXP ffi_job_fail_pending(SEXP job, SEXP cause) {
  task_job *j = clu_job_get(job);
  if (!j->tasks) return R_NilValue;
  clu_job_fail_pending(j->tasks->sched, j->job, Rf_asInteger(cause));
  clu_tasks_take_endings(j->tasks);
  return R_NilValue;
}
