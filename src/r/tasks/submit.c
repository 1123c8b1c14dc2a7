/* One task, or a map: how it is begun, and what it comes to, where nothing is out of the ordinary.
 * Nearly always it is so, and then R code would take most of the time. All else is seen to by
 * R/map-submit.R and R/map-run.R, which answer in the same way, but later.
 *
 * What a task is for R: see submit() in R/map-submit.R. */
#include <string.h>

#include "core/wire/task-message.h"
#include "r/tasks/life.h"
#include "r/tasks/options.h"

#define MOST_SIZE 500e6 /* bytes of a description of which nobody is warned */

/* Tells whether a field of the cluster's tasks is there, and empty. One that is not there was given
 * another name in R, and may have something in it: the long way sees to it. */
static int is_empty(SEXP symbol, SEXP env) {
  return R_existsVarInFrame(env, symbol) && Rf_length(clu_variable(symbol, env)) == 0;
}

/* ---- the cluster ---- */

/* The environment of the cluster's tasks (R/task-jobs.R); NULL: there is none yet, or the cluster
 * is not all of its nodes. */
static SEXP whole_tasks(SEXP cl) {
  SEXP info, t;
  const clu_engine *all;
  if (TYPEOF(cl) != VECSXP || Rf_xlength(cl) == 0 || !Rf_inherits(cl, "clutch_cluster"))
    return R_NilValue;
  info = clu_element(VECTOR_ELT(cl, 0), "info");
  if (TYPEOF(info) != ENVSXP) return R_NilValue;
  t = clu_variable(Rf_install("tasks"), info);
  if (TYPEOF(t) != ENVSXP) return R_NilValue;
  all = clu_tasks_get(clu_variable(Rf_install("ptr"), t));
  if (clu_engine_first(all) != (int)Rf_xlength(cl)) return R_NilValue;
  return clu_engine_growth_is_blocked(all) ? R_NilValue : t;
}

/* Tells whether R has nothing to see to: deaths, replacements, forwarders, packages that others
 * have attached. */
static int is_plain(SEXP t) {
  static const char *const fields[] = {"deaths",   "deaths_in_a_row", "unheard", "replacements",
                                       "half_way", "forward",         NULL};
  for (int i = 0; fields[i]; i++)
    if (!is_empty(Rf_install(fields[i]), t)) return 0;
  return Rf_asLogical(clu_variable(Rf_install("has_attached"), t)) == FALSE;
}

/* ---- the job ---- */

/* The value of options(warn =), if tasks can have the same: see warn_on_nodes() in R/task-jobs.R.
 * */
static SEXP plain_warn(void) {
  SEXP warn = Rf_GetOption1(Rf_install("warn"));
  if ((TYPEOF(warn) != INTSXP && TYPEOF(warn) != REALSXP) || Rf_xlength(warn) != 1)
    return R_NilValue;
  return Rf_asReal(warn) < 2 ? warn : R_NilValue;
}

/* See R/task-jobs.R. */
static SEXP wishes(SEXP fun, SEXP globals) {
  SEXP call = PROTECT(Rf_lang3(Rf_install("wishes_by_default"), fun, globals));
  SEXP x = Rf_eval(call, clu_namespace());
  UNPROTECT(1);
  return x;
}

/* base::interactive() */
static int is_interactive(void) {
  SEXP call = PROTECT(Rf_lang1(Rf_install("interactive")));
  int is = Rf_asLogical(Rf_eval(call, R_BaseEnv)) == TRUE;
  UNPROTECT(1);
  return is;
}

/* `apart`: whether the function travels apart. */
static clu_blob *message_of(const clu_engine *t, SEXP fun, SEXP globals, SEXP warn, int receivers,
                            int *apart) {
  SEXP parts = PROTECT(Rf_allocVector(VECSXP, CLU_JOB_PARTS));
  clu_blob *b;
  SET_VECTOR_ELT(parts, CLU_JOB_FUN, fun);
  SET_VECTOR_ELT(parts, CLU_JOB_GLOBALS, globals);
  SET_VECTOR_ELT(parts, CLU_JOB_RELAY, Rf_ScalarLogical(1));
  SET_VECTOR_ELT(parts, CLU_JOB_LIVE, Rf_ScalarLogical(0));
  SET_VECTOR_ELT(parts, CLU_JOB_WARN, warn);
  if (is_interactive()) SET_VECTOR_ELT(parts, CLU_JOB_WISHES, wishes(fun, globals));
  b = clu_job_message(t, parts, receivers);
  *apart = VECTOR_ELT(parts, CLU_JOB_FUN) == R_NilValue;
  UNPROTECT(1);
  return b;
}

/* A function that is sent again and again travels apart, since its bytes are always the same. So is
 * the message then. */
static clu_blob *known_message_of(const clu_engine *t, SEXP fun, SEXP warn, int receivers) {
  static SEXP last; /* a preserved pair: function, warn */
  static clu_blob *message;
  clu_blob *b;
  int apart;
  if (!last) {
    SEXP cell = PROTECT(Rf_cons(R_NilValue, R_NilValue));
    R_PreserveObject(cell);
    last = cell;
    UNPROTECT(1);
  }
  if (message && CAR(last) == fun && CDR(last) == warn) return clu_blob_ref(message);
  b = message_of(t, fun, R_NilValue, warn, receivers, &apart);
  if (!apart) return b;
  clu_blob_unref(message);
  message = clu_blob_ref(b);
  SETCAR(last, fun);
  SETCDR(last, warn);
  return b;
}

/* ---- a task ---- */

static SEXP class_of_task(SEXP also) {
  SEXP class = PROTECT(Rf_allocVector(STRSXP, 1 + Rf_xlength(also)));
  SET_STRING_ELT(class, 0, Rf_mkChar("clutch_task"));
  for (R_xlen_t i = 0; i < Rf_xlength(also); i++) SET_STRING_ELT(class, i + 1, STRING_ELT(also, i));
  UNPROTECT(1);
  return class;
}

/* All tasks have the same one: each object that a task consists of is one more for R's collector.
 */
static SEXP plain_class(void) {
  static SEXP class;
  if (!class) {
    SEXP made = PROTECT(class_of_task(R_NilValue));
    R_PreserveObject(made);
    MARK_NOT_MUTABLE(made);
    class = made;
    UNPROTECT(1);
  }
  return class;
}

static SEXP new_task(SEXP t, SEXP job, SEXP code, SEXP also) {
  static SEXP scheduler_symbol, code_symbol, job_symbol;
  SEXP task = PROTECT(R_NewEnv(R_EmptyEnv, FALSE, 0)), class;
  if (!job_symbol) {
    scheduler_symbol = Rf_install("scheduler");
    code_symbol = Rf_install("code");
    job_symbol = Rf_install("job");
  }
  Rf_defineVar(scheduler_symbol, t, task);
  Rf_defineVar(code_symbol, code, task);
  Rf_defineVar(job_symbol, job, task);
  class = PROTECT(also == R_NilValue ? plain_class() : class_of_task(also));
  Rf_setAttrib(task, R_ClassSymbol, class);
  UNPROTECT(2);
  return task;
}

/* A job of these elements (NULL: one task without any) for the tasks of environment `t`, not begun;
 * NULL: something is out of the ordinary. `globals`: a named list, or NULL. */
static SEXP plain_job(SEXP t, SEXP fun, SEXP globals, SEXP elements) {
  const double spec[5] = {0};
  SEXP ptr, warn, job;
  clu_engine *all;
  clu_blob *b;
  int apart, receivers;
  if (t == R_NilValue || !is_plain(t) || clu_options_any()) return R_NilValue;
  if (clu_engines_memory(clu_tasks_all()) != 0) return R_NilValue;
  clu_engines_set_polite(clu_tasks_all(), 0); /* it would be an option */
  warn = plain_warn();
  ptr = clu_variable(Rf_install("ptr"), t);
  if (warn == R_NilValue) return R_NilValue;
  all = clu_tasks_get(ptr);
  if (!clu_engine_is_whole(all)) return R_NilValue;
  PROTECT(warn);
  job = PROTECT(clu_job_handle_for(ptr, elements));
  receivers = clu_job_receivers(all, elements, R_NilValue);
  b = globals == R_NilValue ? known_message_of(all, fun, warn, receivers)
                            : message_of(all, fun, globals, warn, receivers, &apart);
  if ((double)b->size > MOST_SIZE) {
    clu_blob_unref(b);
    job = R_NilValue;
  } else {
    clu_job_fill(all, job, b, spec, NULL, R_NilValue, R_NilValue);
  }
  UNPROTECT(2);
  return job;
}

/* From now on it is worked at. A jump out of this, by an interrupt while an element becomes bytes,
 * ends it: nobody else has it. */
static void begin(SEXP job, SEXP t) {
  clu_engine *all = clu_tasks_get(clu_variable(Rf_install("ptr"), t));
  clu_task_job *j = clu_job_get(job);
  int seed[6], rc;
  uint32_t stream[6];
  clu_stream_of_session(seed); /* the last that may fail: a number is drawn */
  for (int i = 0; i < 6; i++) stream[i] = (uint32_t)seed[i];
  clu_task_job_seed(j, stream);
  clu_job_begin(all, j);
  rc = clu_engine_pass(all);
  if (rc != CLU_OK) {
    clu_task_job_cancel(j);
    clu_task_job_close(j);
  }
  clu_tasks_check(rc);
}

/* A task for this function, or list(function, globals), as from ffi_code_alone(), with all options
 * as they are by default; or NULL: something is out of the ordinary. `also`: what it is besides, or
 * NULL. */
SEXP ffi_submit(SEXP cl, SEXP fun, SEXP code, SEXP also) {
  SEXP t = whole_tasks(cl), globals = R_NilValue, given = fun, job, task;
  if (TYPEOF(fun) == VECSXP) {
    globals = VECTOR_ELT(fun, 1);
    fun = VECTOR_ELT(fun, 0);
  }
  job = PROTECT(plain_job(t, fun, globals, R_NilValue));
  if (job == R_NilValue) {
    UNPROTECT(1);
    return R_NilValue;
  }
  task = PROTECT(new_task(t, job, code, also));
  SET_VECTOR_ELT(R_ExternalPtrProtected(job), 5, given);
  clu_job_label_call(clu_job_get(job), Rf_install("cluster_submit"), code);
  begin(job, t);
  UNPROTECT(2);
  return task;
}

/* ---- its value ---- */

/* Works until all tasks of a job have ended: 1; 0: R has something to see to before. */
static int is_done(clu_task_job *j) {
  while (clu_task_job_engine(j)) {
    int event = clu_tasks_work(clu_task_job_engine(j), j, UINT64_MAX, 0);
    if (event == CLU_EVENT_DONE) return 1;
    if (event != CLU_EVENT_TIME_UP) return 0;
  }
  return 0;
}

/* list(value): what a task has come to, once it has; or NULL: R has something to see to before that
 * is known. */
SEXP ffi_task_value(SEXP task) {
  static const char *names[] = {"value", ""};
  SEXP outcome = Rf_install("outcome"), job, out, value;
  clu_task_job *j;
  if (TYPEOF(task) != ENVSXP || clu_variable(outcome, task) != R_NilValue) return R_NilValue;
  if (clu_variable(Rf_install("span"), task) != R_NilValue) return R_NilValue;  /* it is to end */
  if (clu_variable(Rf_install("after"), task) != R_NilValue) return R_NilValue; /* to be let go */
  job = clu_variable(Rf_install("scheduler"), task);
  if (!is_empty(Rf_install("replacements"), job) || !is_empty(Rf_install("resize"), job))
    return R_NilValue;
  job = clu_variable(Rf_install("job"), task);
  j = clu_job_get(job);
  if (!clu_task_job_engine(j)) return R_NilValue;
  if (!is_done(j)) return R_NilValue;
  if (!clu_task_job_engine(j) || clu_engine_deaths(clu_task_job_engine(j))) return R_NilValue;
  value = ffi_job_outcome(job);
  if (TYPEOF(value) != VECSXP) return R_NilValue;
  PROTECT(value);
  out = PROTECT(Rf_mkNamed(VECSXP, names));
  SET_VECTOR_ELT(out, 0, VECTOR_ELT(value, 0));
  Rf_defineVar(outcome, out, task);
  ffi_job_drop_value(job);
  UNPROTECT(2);
  return out;
}

/* ---- a map ---- */

static int is_plain_vector(SEXP x) {
  switch (TYPEOF(x)) {
  case LGLSXP:
  case INTSXP:
  case REALSXP:
  case STRSXP:
  case VECSXP: return Rf_xlength(x) > 0 && !clu_has_attributes(x);
  default: return 0;
  }
}

/* The job of a map with all options as they are by default, begun; or NULL: something is out of the
 * ordinary. `globals`: what it needs of the workspace, as from ffi_objects_alone(). `code`: what
 * the caller has written for the function. */
SEXP ffi_map_begin(SEXP cl, SEXP elements, SEXP fun, SEXP globals, SEXP code) {
  SEXP t, job;
  if (!is_plain_vector(elements) || !Rf_isFunction(fun) || Rf_isObject(fun)) return R_NilValue;
  t = whole_tasks(cl);
  job = PROTECT(plain_job(t, fun, Rf_length(globals) ? globals : R_NilValue, elements));
  if (job != R_NilValue) {
    clu_job_label_call(clu_job_get(job), Rf_install("cluster_map"), code);
    begin(job, t);
  }
  UNPROTECT(1);
  return job;
}

/* The values of a map, once all elements have ended; or NULL: R has something to see to before. */
SEXP ffi_map_values(SEXP job) {
  clu_task_job *j = clu_job_get(job);
  if (clu_task_job_engine(j) && !is_done(j) && clu_task_job_engine(j)) return R_NilValue;
  return ffi_job_plain_values(job);
}
