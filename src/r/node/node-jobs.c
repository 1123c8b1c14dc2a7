/* Jobs, as a node knows them: their descriptions, and the workspace of the one whose tasks are
 * done.
 *
 * This puts what a job needs into the node's workspace and takes it away. R/node-tasks.R attaches
 * packages, and sets variables where others of these names are there already. A task with a fresh
 * workspace (fresh.c) that has changed something makes the node leave the job: all is put back,
 * and the job is entered again for the next task.
 */
#include "r/node/node.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/wire/task-message.h"
#include "r/serialize/travel.h"

/* Preserved: descriptions; what the job at hand needs. */
enum { DESCRIPTIONS, ENV, CALL, BEFORE, SEED, TRAVEL, N_KEPT };

#define MOST_LOOKED_UP 8  /* variables of a job that are looked up before each of its tasks */
#define MOST_COUNTED 1000 /* variables of the workspace that are counted before each task */

static struct {
  SEXP kept;
  /* descriptions, in the order in which they came: the number of each; 0: it was forgotten */
  uint64_t *numbers;
  int first, n, cap;
  /* the job whose workspace is in force */
  uint64_t entered; /* 0: none */
  int relay;
  int fresh;     /* each of its tasks has a fresh workspace */
  int at_task;   /* one of these is being done, or was interrupted */
  int has_fresh; /* clu_workspace_remember() was called */
  int has_state; /* clu_state_remember() was called */
  int has_seed;  /* SEED is to be put back */
  int frozen[2]; /* see clu_job_frozen() */
  int browses;   /* see clu_console_browse() */
  int debugs;    /* functions of the job are debugged */
  int collects;  /* its output goes through a sink of ours */
  int sinks, n_env;
  SEXP variables[MOST_LOOKED_UP]; /* symbols, which R never frees, of its variables */
  R_xlen_t n_variables;
  int n_globals; /* so many variables are in the workspace, where it has more than these */
} jobs;

static SEXP keep(int which, SEXP x) { return clu_keep_in(&jobs.kept, N_KEPT, which, x); }

static SEXP kept(int which) { return clu_kept_in(jobs.kept, which); }

SEXP clu_job_env(void) { return kept(ENV); }
SEXP clu_job_call(void) { return kept(CALL); }
int clu_job_relays(void) { return jobs.relay; }
SEXP clu_job_travel(void) { return kept(TRAVEL); }
const int *clu_job_frozen(void) { return jobs.frozen; }
uint64_t clu_job_number(void) { return jobs.entered; }

/* ---- descriptions ---- */

/* Tasks are done in the order in which their jobs came: the first is nearly always the one. */
static int find(uint64_t number) {
  for (int i = jobs.first; i < jobs.n; i++)
    if (jobs.numbers[i] == number) return i;
  return -1;
}

/* Makes room for one more: those that were forgotten go, or the arrays grow. */
static void make_room(void) {
  int live = 0, cap;
  SEXP old = kept(DESCRIPTIONS), list;
  uint64_t *numbers;
  if (jobs.n < jobs.cap) return;
  for (int i = jobs.first; i < jobs.n; i++) live += jobs.numbers[i] != 0;
  cap = live < 8 ? 16 : 2 * live;
  list = PROTECT(Rf_allocVector(VECSXP, cap));
  numbers = malloc((size_t)cap * sizeof *numbers);
  if (!numbers) clu_raise("memory", "not enough memory");
  live = 0;
  for (int i = jobs.first; i < jobs.n; i++) {
    if (!jobs.numbers[i]) continue;
    SET_VECTOR_ELT(list, live, VECTOR_ELT(old, i));
    numbers[live++] = jobs.numbers[i];
  }
  free(jobs.numbers);
  jobs.numbers = numbers;
  jobs.first = 0;
  jobs.n = live;
  jobs.cap = cap;
  keep(DESCRIPTIONS, list);
  UNPROTECT(1);
}

void clu_job_put(uint64_t number, SEXP description) {
  int known = find(number);
  if (known >= 0) {
    SET_VECTOR_ELT(kept(DESCRIPTIONS), known, description);
    return;
  }
  PROTECT(description);
  make_room();
  SET_VECTOR_ELT(kept(DESCRIPTIONS), jobs.n, description);
  jobs.numbers[jobs.n++] = number;
  UNPROTECT(1);
}

void clu_job_forget(uint64_t number) {
  int i = find(number);
  if (i < 0) return;
  clu_compiled_end(number);
  SET_VECTOR_ELT(kept(DESCRIPTIONS), i, R_NilValue);
  jobs.numbers[i] = 0;
  while (jobs.first < jobs.n && !jobs.numbers[jobs.first]) jobs.first++;
  if (jobs.first == jobs.n) jobs.first = jobs.n = 0;
}

/* ---- the call of a task ---- */

/* Tells whether the variable has another meaning already: the function's, the element's, or that of
 * an argument with the same name. */
static int is_taken(SEXP name, SEXP env) {
  return strcmp(CHAR(PRINTNAME(name)), ".x") == 0 || R_existsVarInFrame(env, name);
}

/* FUN(.x, a = a, ...): arguments are variables of `env`, so that calls that are shown in errors do
 * not have their values in them. */
static SEXP task_call(SEXP fun, SEXP more, int bare, SEXP env) {
  R_xlen_t n = Rf_xlength(more);
  SEXP names = PROTECT(Rf_getAttrib(more, R_NamesSymbol)), call, at;
  call = PROTECT(Rf_allocVector(LANGSXP, n + (bare ? 1 : 2)));
  SETCAR(call, Rf_install("FUN"));
  Rf_defineVar(Rf_install("FUN"), fun, env);
  at = CDR(call);
  if (!bare) {
    SETCAR(at, Rf_install(".x"));
    at = CDR(at);
  }
  for (R_xlen_t i = 0; i < n; i++, at = CDR(at)) {
    SEXP name = names == R_NilValue ? R_BlankString : STRING_ELT(names, i), variable;
    char numbered[40];
    snprintf(numbered, sizeof numbered, "..arg%d", (int)i + 1);
    if (CHAR(name)[0]) SET_TAG(at, Rf_installTrChar(name));
    variable = CHAR(name)[0] && !is_taken(TAG(at), env) ? TAG(at) : Rf_install(numbered);
    Rf_defineVar(variable, VECTOR_ELT(more, i), env);
    SETCAR(at, variable);
  }
  UNPROTECT(2);
  return call;
}

/* stop(problem): the tasks of a job that cannot be entered fail with this. */
static SEXP failing_call(SEXP problem, SEXP env) {
  SEXP symbol = Rf_install("problem");
  Rf_defineVar(symbol, problem, env);
  return Rf_lang2(Rf_install("stop"), symbol);
}

/* ---- the workspace ---- */

/* Only the number of many variables is looked at, which R has to count. */
static int has_variables(void) {
  if (jobs.n_variables > MOST_LOOKED_UP)
    return jobs.n_globals > MOST_COUNTED || Rf_length(R_GlobalEnv) >= jobs.n_globals;
  for (R_xlen_t i = 0; i < jobs.n_variables; i++)
    if (!R_existsVarInFrame(R_GlobalEnv, jobs.variables[i])) return 0;
  return 1;
}

/* Tells whether all is there that enter() has prepared: the task before may have removed it, or
 * left a sink behind. This is done for each task, and most of them are short. */
static int in_order(void) {
  if (jobs.collects ? !clu_relay_try_to_reach() : clu_state_sinks() != jobs.sinks) return 0;
  return Rf_length(kept(ENV)) >= jobs.n_env && has_variables();
}

static void remember_variables(SEXP names) {
  jobs.n_variables = Rf_xlength(names);
  jobs.n_globals = 0;
  if (jobs.n_variables > MOST_LOOKED_UP) {
    jobs.n_globals = Rf_length(R_GlobalEnv);
    return;
  }
  for (R_xlen_t i = 0; i < jobs.n_variables; i++)
    jobs.variables[i] = Rf_installTrChar(STRING_ELT(names, i));
}

static SEXP part(SEXP description, int which) { return VECTOR_ELT(description, which); }

static int is_description(SEXP x) {
  return TYPEOF(x) == VECSXP && !Rf_isObject(x) && Rf_xlength(x) == CLU_JOB_PARTS;
}

static int needs_packages(SEXP x) {
  static const int parts[] = {CLU_JOB_ATTACH, CLU_JOB_LOAD, CLU_JOB_ORDER, CLU_JOB_PACKAGES};
  for (size_t k = 0; k < sizeof parts / sizeof *parts; k++)
    if (part(x, parts[k]) != R_NilValue) return 1;
  return 0;
}

/* Tells whether there are packages or variables to see to, or the description is none. */
static int needs_anything(SEXP x) {
  return !is_description(x) || part(x, CLU_JOB_GLOBALS) != R_NilValue || needs_packages(x);
}

/* The names of its variables, if they are all that it needs, and none of them is in the workspace,
 * which can take them, or has S4 methods; else NULL. */
static SEXP new_variables(SEXP x) {
  SEXP names;
  if (!is_description(x) || needs_packages(x)) return R_NilValue;
  if (R_EnvironmentIsLocked(R_GlobalEnv)) return R_NilValue;
  names = Rf_getAttrib(part(x, CLU_JOB_GLOBALS), R_NamesSymbol);
  if (TYPEOF(names) != STRSXP) return R_NilValue;
  for (R_xlen_t i = 0; i < Rf_xlength(names); i++) {
    SEXP name = STRING_ELT(names, i);
    if (strncmp(CHAR(name), ".__T__", 6) == 0) return R_NilValue;
    if (R_existsVarInFrame(R_GlobalEnv, Rf_installTrChar(name))) return R_NilValue;
  }
  return names;
}

/* Does as node_restore() in R/node-tasks.R, for variables that were not there. */
static void remove_variables(SEXP names) {
  for (R_xlen_t i = 0; i < Rf_xlength(names); i++) {
    SEXP symbol = Rf_installTrChar(STRING_ELT(names, i));
    if (R_existsVarInFrame(R_GlobalEnv, symbol)) R_removeVarFromFrame(symbol, R_GlobalEnv);
  }
}

/* Returns what prevents that its tasks are done: a condition, or NULL. */
static SEXP prepare(SEXP x) {
  SEXP how, names, values;
  if (!needs_anything(x)) return R_NilValue;
  names = PROTECT(new_variables(x));
  if (names != R_NilValue) {
    keep(BEFORE, names);
    values = part(x, CLU_JOB_GLOBALS);
    for (R_xlen_t i = 0; i < Rf_xlength(names); i++)
      Rf_defineVar(Rf_installTrChar(STRING_ELT(names, i)), VECTOR_ELT(values, i), R_GlobalEnv);
    UNPROTECT(1);
    return R_NilValue;
  }
  UNPROTECT(1);
  how = PROTECT(clu_node_r("node_prepare", x)); /* list(problem, before) */
  keep(BEFORE, VECTOR_ELT(how, 1));
  UNPROTECT(1);
  return VECTOR_ELT(how, 0);
}

static void set_up(SEXP x, int seeded) {
  SEXP symbol = clu_job_seed_symbol();
  jobs.has_seed = seeded;
  if (seeded || jobs.fresh) keep(SEED, clu_variable(symbol, R_GlobalEnv));
  clu_state_remember(seeded, jobs.fresh);
  jobs.has_state = 1;
  clu_state_set_warn(part(x, CLU_JOB_WARN));
  jobs.collects = jobs.relay && Rf_asLogical(part(x, CLU_JOB_LIVE)) != NA_LOGICAL;
  if (jobs.collects) clu_state_sink(ffi_work_output());
  if (!jobs.fresh) return;
  clu_state_entered();
  clu_workspace_remember(); /* with the packages and globals of the job */
  jobs.has_fresh = 1;
}

static int is_packed(SEXP x) {
  SEXP travel = is_description(x) ? part(x, CLU_JOB_TRAVEL) : R_NilValue;
  return travel != R_NilValue && clu_element(travel, "packed") != R_NilValue;
}

/* The description of the job. What of it was packed is unpacked for its first task here: an error
 * is that task's. */
static SEXP description_of(uint64_t number) {
  int i = find(number);
  SEXP x = i < 0 ? R_NilValue : VECTOR_ELT(kept(DESCRIPTIONS), i);
  if (!is_packed(x)) return x;
  x = PROTECT(clu_node_r("node_unpack_job", x));
  SET_VECTOR_ELT(kept(DESCRIPTIONS), find(number), x);
  UNPROTECT(1);
  return x;
}

static void read_wishes(SEXP x) {
  SEXP wishes = is_description(x) ? part(x, CLU_JOB_WISHES) : R_NilValue;
  int is_said = TYPEOF(wishes) == INTSXP && Rf_xlength(wishes) == 3;
  for (int k = 0; k < 2; k++) jobs.frozen[k] = is_said ? INTEGER(wishes)[k] : 0;
  jobs.browses = is_said && INTEGER(wishes)[2] == 1;
  if (jobs.browses) jobs.browses = Rf_asLogical(clu_node_r("can_ask_session", wishes)) == TRUE;
  jobs.browses = clu_console_browse(jobs.browses);
}

/* Its place among the constant arguments: one number, or two for one in a list. */
static void put_given(SEXP more, SEXP place, SEXP value) {
  const int *at = INTEGER(place);
  if (Rf_xlength(place) == 2) more = VECTOR_ELT(more, at[0] - 1);
  SET_VECTOR_ELT(more, at[Rf_xlength(place) - 1] - 1, value);
}

static void give(uint64_t number, SEXP value) {
  SEXP x, places;
  PROTECT(value);
  x = PROTECT(description_of(number));
  places = is_description(x) ? part(x, CLU_JOB_GIVEN) : R_NilValue;
  for (R_xlen_t k = 0; k < Rf_xlength(places); k++) {
    if (VECTOR_ELT(places, k) == R_NilValue) continue; /* it has its value */
    put_given(part(x, CLU_JOB_MORE), VECTOR_ELT(places, k), value);
    SET_VECTOR_ELT(places, k, R_NilValue);
    break;
  }
  UNPROTECT(2);
}

void clu_job_read_given(uint64_t number) {
  unsigned char head[CLU_RESULT_HEAD], small[CLU_RING_MOST];
  uint32_t flags;
  size_t left;
  SEXP value;
  clu_node_read(head, sizeof head);
  flags = clu_get32(head);
  left = (size_t)(clu_me.chan.cur.total - clu_me.chan.read);
  if (!(flags & CLU_RESULT_BARE)) {
    value = clu_node_read_object(left);
  } else {
    if (left > sizeof small) clu_raise("protocol", "the value of a task arrived damaged");
    clu_node_read(small, left);
    value =
        flags & CLU_RESULT_LOG ? clu_log_bare_get(small, left) : clu_plain_bare_get(small, left);
  }
  PROTECT(value);
  if (flags & CLU_RESULT_LOG) value = VECTOR_ELT(value, 0);
  if (clu_is_packed(value)) value = clu_unpack("unpack", value);
  give(number, value);
  UNPROTECT(1);
}

/* Functions that the session debugs; `ready`: they are there. */
static void debug_if_wished(SEXP x, int ready) {
  SEXP debugged = R_NilValue;
  if (jobs.browses && ready)
    debugged = Rf_getAttrib(part(x, CLU_JOB_WISHES), Rf_install("debugged"));
  if (debugged == R_NilValue) return;
  jobs.debugs = 1;
  clu_node_r("debug_as_wished", x);
}

void clu_job_enter(uint64_t number, int seeded, int bare) {
  SEXP x, env, problem;
  clu_job_end_task(); /* of one that was interrupted */
  if (jobs.entered == number && in_order()) {
    clu_grant_apply();
    jobs.at_task = jobs.fresh;
    return;
  }
  clu_job_leave();
  clu_grant_apply(); /* before any code of the user's */
  x = PROTECT(description_of(number));
  env = PROTECT(R_NewEnv(R_GlobalEnv, FALSE, 0)); /* few variables, one of them set for each task */
  jobs.relay = is_description(x) && Rf_asLogical(part(x, CLU_JOB_RELAY)) == TRUE;
  clu_me.relay_at_once = is_description(x) && Rf_asLogical(part(x, CLU_JOB_LIVE)) != FALSE;
  jobs.fresh = is_description(x) && Rf_asLogical(part(x, CLU_JOB_FRESH)) == TRUE;
  read_wishes(x);
  problem = PROTECT(prepare(x));
  keep(ENV, env);
  jobs.collects = 0;
  if (problem == R_NilValue) {
    clu_compiled_use(x, CLU_JOB_GLOBALS, number);
    set_up(x, seeded);
    keep(TRAVEL, part(x, CLU_JOB_TRAVEL));
    keep(CALL, task_call(part(x, CLU_JOB_FUN), part(x, CLU_JOB_MORE), bare, env));
    remember_variables(Rf_getAttrib(part(x, CLU_JOB_GLOBALS), R_NamesSymbol));
  } else {
    keep(CALL, failing_call(problem, env));
    remember_variables(R_NilValue);
  }
  debug_if_wished(x, problem == R_NilValue);
  jobs.sinks = clu_state_sinks();
  jobs.n_env = Rf_length(env);
  jobs.entered = number; /* not before: any of it may jump out */
  jobs.at_task = jobs.fresh;
  UNPROTECT(3);
}

/* Where a task has locked the variable, or has made it active, R sees to it. */
static void put_seed_back(SEXP seed) {
  SEXP symbol = clu_job_seed_symbol();
  if (seed == R_NilValue ||
      (R_existsVarInFrame(R_GlobalEnv, symbol) && R_BindingIsActive(symbol, R_GlobalEnv)))
    clu_node_r("seed_restore", seed);
  else
    Rf_defineVar(symbol, seed, R_GlobalEnv);
}

/* Without streams of their own tasks go on with the node's random numbers, but for what a task has
 * set. */
static void renew_seed(SEXP seed) {
  if (clu_variable(clu_job_seed_symbol(), R_GlobalEnv) != seed) clu_node_r("seed_renew", seed);
}

void clu_job_leave(void) {
  SEXP before, seed;
  int has_state = jobs.has_state, has_seed = jobs.has_seed, has_fresh = jobs.has_fresh;
  if (!jobs.entered && !has_state && !has_seed && !has_fresh && kept(BEFORE) == R_NilValue) {
    clu_grant_put_back();
    return;
  }
  clu_compiled_note(jobs.entered);
  before = PROTECT(kept(BEFORE));
  seed = PROTECT(kept(SEED));
  jobs.entered = 0;
  jobs.at_task = 0;
  jobs.has_state = jobs.has_seed = jobs.has_fresh = 0;
  if (jobs.debugs) {
    jobs.debugs = 0;
    clu_node_r("debug_no_more", R_NilValue);
  }
  for (int k = ENV; k < N_KEPT; k++) keep(k, R_NilValue);
  clu_state_end_time_limit();
  if (has_fresh) clu_workspace_put_back();
  if (TYPEOF(before) == STRSXP)
    remove_variables(before);
  else if (before != R_NilValue)
    clu_node_r("node_restore", before);
  if (has_seed)
    put_seed_back(seed);
  else if (has_fresh && has_state)
    renew_seed(seed);
  if (has_state) clu_state_put_back();
  clu_grant_put_back();
  UNPROTECT(2);
}

int clu_job_is_entered(uint64_t number) { return jobs.entered == number; }

/* Tells whether the task has changed nothing. Other random numbers are no reason to leave the
 * job. */
static int is_clean(void) {
  if (!jobs.has_fresh) return 0;
  clu_state_end_time_limit();
  if (clu_state_sinks() != jobs.sinks || !clu_state_is_same() || !clu_workspace_is_same()) return 0;
  if (jobs.has_seed) return 1;
  renew_seed(kept(SEED));
  keep(SEED, clu_variable(clu_job_seed_symbol(), R_GlobalEnv));
  return 1;
}

int clu_job_end_task(void) {
  if (!jobs.at_task) return 0;
  jobs.at_task = 0;
  if (is_clean()) return 0;
  clu_job_leave();
  return 1;
}
