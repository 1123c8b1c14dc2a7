/* This file has what R asks the operating system, by way of the port. */
#include "r/base/r-api.h"

#include <stdio.h>

#include "core/base/budget.h"
#include "core/base/os-files.h"
#include "core/base/os-lock.h"
#include "core/base/os-output.h"
#include "core/base/os-samples.h"
#include "core/base/os-signals.h"
#include "core/base/os.h"
#include "core/base/remove-folder.h"

SEXP ffi_affinity_count(void) {
  int n = clu_os_affinity_count();
  return Rf_ScalarInteger(n < 1 ? NA_INTEGER : n);
}

/* See core/base/budget.h. */
SEXP ffi_budget_take(SEXP n, SEXP of, SEXP under) {
  return Rf_ScalarInteger(
      clu_budget_take(Rf_asInteger(n), Rf_asInteger(of), CHAR(STRING_ELT(under, 0))));
}

SEXP ffi_budget_give(SEXP n) {
  clu_budget_give(Rf_asInteger(n));
  return R_NilValue;
}

SEXP ffi_budget_held(void) { return Rf_ScalarInteger(clu_budget_held()); }

SEXP ffi_thread_count(void) {
  int n = clu_os_thread_count();
  return Rf_ScalarInteger(n < 0 ? NA_INTEGER : n);
}

/* Tells whether this process is sampled, by Rprof() that is. */
SEXP ffi_is_sampled(SEXP by_thread) {
  return Rf_ScalarLogical(clu_os_is_sampled(Rf_asLogical(by_thread) == TRUE));
}

/* Bytes of memory that are its own; NA: not known. */
SEXP ffi_process_memory(SEXP pid) {
  int64_t n = pid == R_NilValue || Rf_asInteger(pid) == NA_INTEGER
                  ? -1
                  : clu_os_process_memory(Rf_asInteger(pid), -1);
  return Rf_ScalarReal(n < 0 ? NA_REAL : (double)n);
}

/* Tells of each whether it is there, and this user may send it signals. */
SEXP ffi_processes_are_there(SEXP pids) {
  R_xlen_t n = Rf_xlength(pids);
  SEXP out = PROTECT(Rf_allocVector(LGLSXP, n));
  for (R_xlen_t i = 0; i < n; i++) {
    int pid = INTEGER(pids)[i];
    LOGICAL(out)[i] = pid > 0 && clu_os_kill(pid, 0, 0) == 0;
  }
  UNPROTECT(1);
  return out;
}

static const char **strings(SEXP x) {
  R_xlen_t n = Rf_xlength(x);
  const char **out = (const char **)R_alloc((size_t)n + 1, sizeof *out);
  for (R_xlen_t i = 0; i < n; i++) out[i] = CHAR(STRING_ELT(x, i));
  out[n] = NULL;
  return out;
}

/* How a program is started whose output is appended to `log`. */
static clu_spawn spawn_for(SEXP argv, SEXP envp, SEXP log) {
  clu_err e = {0, 0, ""};
  const char **a = strings(argv), **v = strings(envp);
  clu_spawn s = {.file = a[0], .argv = (char *const *)a, .envp = (char *const *)v};
  clu_fd out = CLU_NO_FD;
  if (clu_os_open_append(CHAR(STRING_ELT(log, 0)), &out, &e) != CLU_OK) clu_raise_err(&e);
  s.in = CLU_NO_FD;
  s.out = s.err = out;
  s.new_session = 1;
  return s;
}

/* Starts a program that is no child of this process. */
SEXP ffi_start_detached(SEXP argv, SEXP envp, SEXP log) {
  clu_spawn s = spawn_for(argv, envp, log);
  clu_err e = {0, 0, ""};
  int rc = clu_os_spawn_detached(&s, &e);
  clu_os_close(s.out);
  if (rc != CLU_OK) clu_raise_err(&e);
  return R_NilValue;
}

/* Runs a program, and waits for its end: its exit status; NA: a signal has ended it, or it was
 * killed, with what it has started, after so many seconds. */
SEXP ffi_run_program(SEXP argv, SEXP envp, SEXP log, SEXP seconds) {
  clu_spawn s = spawn_for(argv, envp, log);
  clu_err e = {0, 0, ""};
  clu_exit how = {0, 0};
  uint64_t end = clu_os_now() + (uint64_t)(1e9 * Rf_asReal(seconds));
  clu_pid pid;
  int rc = clu_os_spawn(&s, &pid, &e), n;
  clu_os_close(s.out);
  if (rc != CLU_OK) clu_raise_err(&e);
  while ((rc = clu_os_reap(pid, 0, &how)) == CLU_AGAIN) {
    clu_watch none = {CLU_NO_FD, CLU_READ, 0};
    clu_os_poll(&none, 1, 1000000, &n, NULL);
    if (clu_os_now() > end) clu_os_kill(pid, CLU_SIG_KILL, 1);
  }
  return Rf_ScalarInteger(rc == CLU_OK && !how.by_signal ? how.code : NA_INTEGER);
}

/* For each file or folder: device, number, size, times of its last changes; NA: there is none.
 * Equal texts mean that it has not changed. */
SEXP ffi_file_stamps(SEXP paths) {
  R_xlen_t n = Rf_xlength(paths);
  SEXP out = PROTECT(Rf_allocVector(STRSXP, n));
  for (R_xlen_t i = 0; i < n; i++) {
    clu_file_stamp s;
    char text[120];
    if (clu_os_file_stamp(R_ExpandFileName(CHAR(STRING_ELT(paths, i))), &s) != CLU_OK) {
      SET_STRING_ELT(out, i, NA_STRING);
      continue;
    }
    snprintf(text, sizeof text, "%llu %llu %llu %lld %lld", (unsigned long long)s.device,
             (unsigned long long)s.number, (unsigned long long)s.size, (long long)s.modified,
             (long long)s.changed);
    SET_STRING_ELT(out, i, Rf_mkChar(text));
  }
  UNPROTECT(1);
  return out;
}

/* Kills it; FALSE: it is not there, or not this user's. */
SEXP ffi_process_kill(SEXP pid) {
  int p = Rf_asInteger(pid);
  return Rf_ScalarLogical(p != NA_INTEGER && p > 1 && clu_os_kill(p, CLU_SIG_KILL, 0) == CLU_OK);
}

/* c(fds_soft, fds_hard, fds_open, procs); NA: no limit, or not known */
SEXP ffi_limits(void) {
  clu_limits l;
  SEXP out = PROTECT(Rf_allocVector(REALSXP, 4));
  int64_t v[4];
  clu_os_limits(&l);
  v[0] = l.fds_soft;
  v[1] = l.fds_hard;
  v[2] = l.fds_open;
  v[3] = l.procs;
  for (int i = 0; i < 4; i++) REAL(out)[i] = v[i] < 0 ? NA_REAL : (double)v[i];
  UNPROTECT(1);
  return out;
}

SEXP ffi_raise_fds(SEXP n) {
  return Rf_ScalarLogical(clu_os_raise_fds((int64_t)Rf_asReal(n)) == CLU_OK);
}

/* c(proc =, ...): what the system can do and not every one can */
SEXP ffi_system_can(void) {
  static const struct {
    unsigned bit;
    const char *name;
  } all[] = {{CLU_CAN_PROC, "proc"},
             {CLU_CAN_FOLLOW_PARENT, "follow_parent"},
             {CLU_CAN_FOLLOW_PEER, "follow_peer"},
             {CLU_CAN_TCP_INFO, "tcp_info"},
             {CLU_CAN_USER_TIMEOUT, "user_timeout"},
             {CLU_CAN_MEMORY, "memory"},
             {CLU_CAN_THREADS, "threads"},
             {CLU_CAN_MEMFD, "memfd"},
             {CLU_CAN_RELEASE, "release"},
             {CLU_CAN_FORK, "fork"}};
  const int n = sizeof all / sizeof *all;
  unsigned can = clu_os_can();
  SEXP out = PROTECT(Rf_allocVector(LGLSXP, n)), names = PROTECT(Rf_allocVector(STRSXP, n));
  for (int i = 0; i < n; i++) {
    LOGICAL(out)[i] = (can & all[i].bit) != 0;
    SET_STRING_ELT(names, i, Rf_mkChar(all[i].name));
  }
  Rf_setAttrib(out, R_NamesSymbol, names);
  UNPROTECT(2);
  return out;
}

/* "SIGKILL", or NULL: none has this number. */
SEXP ffi_signal_name(SEXP sig) {
  const char *name = clu_os_signal_name(Rf_asInteger(sig));
  return name ? Rf_mkString(name) : R_NilValue;
}

SEXP ffi_clock(void) { return Rf_ScalarReal(1e-9 * (double)clu_os_now()); }

/* A reference to an environment that does not keep it alive; and the environment, or NULL when it
 * has gone. R copies what a weak reference is made for, large vectors included: not so what a
 * pointer protects. */
SEXP ffi_weak_new(SEXP env, SEXP value) {
  SEXP held = PROTECT(R_MakeExternalPtr(NULL, R_NilValue, value));
  SEXP out = R_MakeWeakRef(env, held, R_NilValue, FALSE);
  UNPROTECT(1);
  return out;
}
SEXP ffi_weak_get(SEXP ref) { return R_WeakRefKey(ref); }
/* Returns what it keeps as long as the environment lives; such a value is not serialized with
 * it. */
SEXP ffi_weak_value(SEXP ref) {
  SEXP held = R_WeakRefValue(ref);
  return TYPEOF(held) == EXTPTRSXP ? R_ExternalPtrProtected(held) : R_NilValue;
}

SEXP ffi_remove_folder(SEXP path) {
  clu_remove_folder(R_ExpandFileName(CHAR(STRING_ELT(path, 0))));
  return R_NilValue;
}

/* TRUE: this folder is marked as in use as long as this process or one that it forks is there. */
SEXP ffi_mark_folder(SEXP path) {
  clu_fd fd; /* stays open */
  return Rf_ScalarLogical(clu_os_mark_folder(CHAR(STRING_ELT(path, 0)), &fd) == CLU_OK);
}

/* Removes this folder if it was marked so, and is not in use any more. TRUE: it is gone. */
SEXP ffi_remove_unused(SEXP path) {
  const char *folder = CHAR(STRING_ELT(path, 0));
  clu_fd fd;
  if (clu_os_claim_folder(folder, &fd) != CLU_OK) return Rf_ScalarLogical(FALSE);
  clu_remove_folder(folder);
  clu_os_close(fd);
  return Rf_ScalarLogical(TRUE);
}

/* `n` distinct integers, none of them NA: a random start, and the multiples of an odd number
 * (modulo 2^32) from there on. R's own seed, made of clock and pid, differs in 16 bits only: among
 * 1,000 nodes several would share a stream. */
SEXP ffi_random_seeds(SEXP n) {
  uint32_t x = 0;
  int k = Rf_asInteger(n);
  SEXP out = PROTECT(Rf_allocVector(INTSXP, k));
  if (clu_os_random(&x, sizeof x) != CLU_OK)
    clu_raise("system", "the system gives no random bytes");
  for (int i = 0; i < k; i++) {
    x += 0x9E3779B1u;
    if (x == 0x80000000u) x += 0x9E3779B1u;
    INTEGER(out)[i] = (int)x;
  }
  UNPROTECT(1);
  return out;
}

/* For what others must not guess: see clu_os_secret_bytes(). */
SEXP ffi_secret_bytes(SEXP n) {
  SEXP out = PROTECT(Rf_allocVector(RAWSXP, Rf_asInteger(n)));
  if (clu_os_secret_bytes(RAW(out), (size_t)XLENGTH(out)) != CLU_OK)
    clu_raise("system", "the system gives no random bytes");
  UNPROTECT(1);
  return out;
}

/* Tells whether two strings are the same. How long that takes tells nothing of how alike they
 * are. */
SEXP ffi_same_secret(SEXP a, SEXP b) {
  SEXP x = STRING_ELT(a, 0), y = STRING_ELT(b, 0);
  if (LENGTH(x) != LENGTH(y)) return Rf_ScalarLogical(FALSE);
  return Rf_ScalarLogical(clu_os_same_secret(CHAR(x), CHAR(y), (size_t)LENGTH(x)));
}

/* Appends the bytes of `text` to a file: NULL, or why that cannot be done. */
SEXP ffi_output_append(SEXP path, SEXP text) {
  clu_err e = {0, 0, ""};
  SEXP bytes = STRING_ELT(text, 0);
  int rc = clu_os_output_append(R_ExpandFileName(Rf_translateChar(STRING_ELT(path, 0))),
                                CHAR(bytes), (size_t)LENGTH(bytes), &e);
  return rc == CLU_OK ? R_NilValue : Rf_mkString(e.text);
}

/* See without_signals(). */
SEXP ffi_signals_hold(void) {
  clu_os_signals_hold();
  return R_NilValue;
}

SEXP ffi_signals_release(void) {
  clu_os_signals_release();
  return R_NilValue;
}
