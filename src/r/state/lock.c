#include "r/base/turn.h"
#include "r/base/wait.h"
#include "r/state/state.h"

/* ---- locks ---- */

/* NULL: it is on another host. */
static clu_state *take(SEXP x, double seconds, clu_pid *before) {
  clu_state *s = clu_state_or_elsewhere(x, CLU_STATE_LOCK);
  uint64_t deadline = 0;
  int rc;
  if (!s) return NULL;
  rc = clu_lock_take(s, 0, before);
  while (rc == CLU_TIMEOUT) {
    if (deadline == 0) deadline = clu_deadline(seconds);
    if (clu_os_now() >= deadline) break;
    clu_check_interrupt_now(NULL, NULL);
    clu_turn_pass();
    s = clu_state_of(x, CLU_STATE_LOCK);
    rc = clu_lock_take(s, (uint64_t)clu_slice(deadline), before);
  }
  if (rc == CLU_TIMEOUT) clu_raise("timeout", "the lock was not free within %g seconds", seconds);
  if (rc == CLU_SYS) clu_raise("system", "the system refuses the lock");
  if (rc == CLU_OK) *before = 0;
  return s;
}

typedef struct locked {
  clu_state *state; /* it stays as long as the lock is had */
  clu_pid before;
  SEXP env;
} locked;

static SEXP evaluate(void *data) {
  static SEXP call, told;
  const locked *l = data;
  if (!call) {
    call = Rf_lang2(Rf_install("withVisible"), Rf_install("expr"));
    R_PreserveObject(call);
    told = Rf_install("tell_of_holder");
  }
  if (l->before) {
    Rf_eval(PROTECT(Rf_lang2(told, PROTECT(Rf_ScalarInteger((int)l->before)))), clu_namespace());
    UNPROTECT(2);
  }
  return Rf_eval(call, l->env);
}

static void give(void *data, Rboolean jump) {
  (void)jump;
  clu_lock_give(((locked *)data)->state);
}

/* Evaluates `expr` of `env` while this process has the lock: list(value, visible). However that is
 * left, the lock is given back: on.exit() can be interrupted before it begins. */
SEXP ffi_lock_with(SEXP x, SEXP timeout, SEXP env) {
  locked l = {.env = env};
  l.state = take(x, Rf_asReal(timeout), &l.before);
  if (!l.state) return R_NilValue;
  return R_UnwindProtect(evaluate, &l, give, &l, NULL);
}

/* Takes it until ffi_state_give_back(): the process that has ended with it before, or 0. */
SEXP ffi_lock_take(SEXP x, SEXP timeout) {
  clu_pid before = 0;
  if (!take(x, Rf_asReal(timeout), &before)) return R_NilValue;
  return Rf_ScalarInteger((int)before);
}

SEXP ffi_lock_info(SEXP x) {
  static const char *names[] = {"pid", "taken", "died", ""};
  clu_lock_info is;
  clu_state *s = clu_state_or_elsewhere(x, CLU_STATE_LOCK);
  SEXP out;
  if (!s) return R_NilValue;
  clu_lock_look(s, &is);
  out = PROTECT(Rf_mkNamed(VECSXP, names));
  SET_VECTOR_ELT(out, 0, Rf_ScalarInteger(is.holder ? (int)is.holder : NA_INTEGER));
  SET_VECTOR_ELT(out, 1, Rf_ScalarReal((double)is.taken));
  SET_VECTOR_ELT(out, 2, Rf_ScalarReal((double)is.died));
  UNPROTECT(1);
  return out;
}

/* ---- counters ---- */

/* Whole numbers, at most 2^53. */
SEXP ffi_counter_add(SEXP x, SEXP by) {
  clu_state *s = clu_state_or_elsewhere(x, CLU_STATE_COUNTER);
  int64_t after;
  if (!s) return R_NilValue;
  if (clu_counter_add(s, (int64_t)Rf_asReal(by), &after) != CLU_OK)
    clu_raise("argument", "a counter does not go beyond 2^53");
  return Rf_ScalarReal((double)after);
}

SEXP ffi_counter_set(SEXP x, SEXP value) {
  clu_state *s = clu_state_or_elsewhere(x, CLU_STATE_COUNTER);
  return s ? Rf_ScalarReal((double)clu_counter_set(s, (int64_t)Rf_asReal(value))) : R_NilValue;
}

/* ---- rates ---- */

/* `each`: seconds from one to the next. */
SEXP ffi_rate_begin(SEXP x, SEXP each, SEXP burst) {
  clu_rate_begin(clu_state_of(x, CLU_STATE_RATE), (uint64_t)(Rf_asReal(each) * 1e9),
                 (uint64_t)Rf_asReal(burst));
  return R_NilValue;
}

/* Seconds that it has waited; -1: it would have been more than `timeout`. */
SEXP ffi_rate_wait(SEXP x, SEXP n, SEXP timeout) {
  uint64_t began = clu_os_now(), at, deadline = clu_deadline(Rf_asReal(timeout));
  clu_state *s = clu_state_or_elsewhere(x, CLU_STATE_RATE);
  if (!s) return R_NilValue;
  if (clu_rate_reserve(s, (uint64_t)Rf_asReal(n), deadline, &at) != CLU_OK)
    return Rf_ScalarReal(-1);
  while (clu_os_now() < at) {
    clu_os_pause((uint64_t)clu_slice(at));
    clu_check_interrupt_now(NULL, NULL);
    clu_turn_pass();
  }
  return Rf_ScalarReal((double)(clu_os_now() - began) / 1e9);
}
