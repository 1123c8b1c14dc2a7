#include "r/base/wait.h"
#include "r/state/state.h"

/* ---- locks ---- */

/* 0: this process has it; else it has it, and the process of this number had it before and has
 * ended. */
SEXP ffi_lock_take(SEXP x, SEXP timeout) {
  clu_state *s = clu_state_of(x, CLU_STATE_LOCK);
  double seconds = Rf_asReal(timeout);
  clu_pid before = 0;
  int rc = clu_lock_take(s, 0, &before);
  if (rc == CLU_TIMEOUT) {
    uint64_t deadline = clu_deadline(seconds);
    while (rc == CLU_TIMEOUT && clu_os_now() < deadline) {
      clu_check_interrupt_now(NULL, NULL);
      rc = clu_lock_take(s, (uint64_t)clu_slice(deadline), &before);
    }
  }
  if (rc == CLU_TIMEOUT) clu_raise("timeout", "the lock was not free within %g seconds", seconds);
  if (rc == CLU_SYS) clu_raise("system", "the system refuses the lock");
  return Rf_ScalarInteger(rc == CLU_DEAD ? (int)before : 0);
}

SEXP ffi_lock_give(SEXP x) {
  clu_lock_give(clu_state_of(x, CLU_STATE_LOCK));
  return R_NilValue;
}

SEXP ffi_lock_info(SEXP x) {
  static const char *names[] = {"pid", "taken", "died", ""};
  clu_lock_info is;
  SEXP out = PROTECT(Rf_mkNamed(VECSXP, names));
  clu_lock_look(clu_state_of(x, CLU_STATE_LOCK), &is);
  SET_VECTOR_ELT(out, 0, Rf_ScalarInteger(is.holder ? (int)is.holder : NA_INTEGER));
  SET_VECTOR_ELT(out, 1, Rf_ScalarReal((double)is.taken));
  SET_VECTOR_ELT(out, 2, Rf_ScalarReal((double)is.died));
  UNPROTECT(1);
  return out;
}

/* ---- counters ---- */

/* Whole numbers, at most 2^53. */
SEXP ffi_counter_add(SEXP x, SEXP by) {
  int64_t after;
  if (clu_counter_add(clu_state_of(x, CLU_STATE_COUNTER), (int64_t)Rf_asReal(by), &after) != CLU_OK)
    clu_raise("argument", "a counter does not go beyond 2^53");
  return Rf_ScalarReal((double)after);
}

SEXP ffi_counter_set(SEXP x, SEXP value) {
  return Rf_ScalarReal(
      (double)clu_counter_set(clu_state_of(x, CLU_STATE_COUNTER), (int64_t)Rf_asReal(value)));
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
  if (clu_rate_reserve(clu_state_of(x, CLU_STATE_RATE), (uint64_t)Rf_asReal(n), deadline, &at) !=
      CLU_OK)
    return Rf_ScalarReal(-1);
  while (clu_os_now() < at) {
    clu_os_pause((uint64_t)clu_slice(at));
    clu_check_interrupt_now(NULL, NULL);
  }
  return Rf_ScalarReal((double)(clu_os_now() - began) / 1e9);
}
