/* The session of this R process, and the handles by which R has what belongs to it. */
#include "r/session/session.h"

clu_session *clu_the_session;
static clu_pid session_pid;
static int handles; /* external pointers with something behind them */

/* ---- the session ---- */

/* A fork of this session (mclapply) must not keep the nodes' sockets open: nobody would see the
 * session end. It cannot use them either: two processes would take each other's answers. */
static void after_fork(void) {
  if (session_pid) clu_session_close_in_child(clu_the_session);
}

void clu_need_session(void) {
  clu_err e = {0, 0, ""};
  if (session_pid) {
    if (session_pid != clu_os_getpid())
      clu_raise("forked", "a cluster cannot be used in a forked child of the session that made it");
    return;
  }
  if (!(clu_the_session = clu_session_new(&e))) clu_raise_err(&e);
  session_pid = clu_os_getpid();
  clu_os_after_fork(after_fork);
}

int clu_pump(int64_t wait_ns, clu_err *e) {
  return clu_loop_pump(clu_session_loop(clu_the_session), wait_ns, e);
}

int clu_pump_events(void) { return clu_loop_events(clu_session_loop(clu_the_session)); }

int clu_session_is_ours(void) { return session_pid && session_pid == clu_os_getpid(); }

/* ---- handles ---- */

void *clu_handle_get(SEXP x, SEXP tag) {
  void *p;
  if (TYPEOF(x) != EXTPTRSXP || R_ExternalPtrTag(x) != tag)
    clu_raise("argument", "this is no handle of a clutch cluster");
  p = R_ExternalPtrAddr(x);
  if (!p) clu_raise_foreign("cluster");
  clu_need_session();
  return p;
}

SEXP clu_handle_new(SEXP tag, SEXP prot, R_CFinalizer_t fin) {
  SEXP x;
  PROTECT(prot);
  x = PROTECT(R_MakeExternalPtr(NULL, tag, prot));
  R_RegisterCFinalizerEx(x, fin, FALSE);
  UNPROTECT(2);
  return x;
}

void clu_handle_set(SEXP x, void *p) {
  R_SetExternalPtrAddr(x, p);
  handles++;
}

void clu_count_handle(int by) { handles += by; }

SEXP ffi_live_handles(void) { return Rf_ScalarInteger(handles); }
