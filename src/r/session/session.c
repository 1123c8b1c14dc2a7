/* The session of this R process, and the handles by which R has what belongs to it. */
#include "r/session/session.h"

#include "r/share/share.h"

#include <stdlib.h>

#include "core/journal/journal.h"
#include "core/base/slab.h"

clu_session *clu_the_session;
static clu_pid session_pid;
static int handles; /* external pointers with something behind them */
static clu_handle_kind *kinds;
/* Sessions that processes have had of which this one is a forked child. Their handles are still
 * there, and are told from those of this process by an attribute. */
static int before;

/* ---- the session ---- */

static void before_fork(void) { clu_turns_before_fork(&clu_turn); }
static void after_fork(void) { clu_turns_after_fork(&clu_turn); }

/* A fork of this session (mclapply) must not keep the nodes' sockets open: nobody would see the
 * session end. It cannot use them either: two processes would take each other's answers. */
static void in_child(int by_r) {
  clu_turns_in_child(&clu_turn, by_r);
  if (session_pid) clu_session_close_in_child(clu_the_session);
}

static void raise_forked(void) {
  clu_raise("forked", "a cluster cannot be used in a forked child of the session that made it");
}

static void new_session(void) {
  clu_err e = {0, 0, ""};
  clu_session *s = clu_session_new(&e);
  if (!s) clu_raise_err(&e);
  clu_the_session = s;
  clu_segments_keep_fds();
  session_pid = clu_os_getpid();
}

void clu_need_session(void) {
  if (session_pid) {
    if (session_pid != clu_os_getpid()) raise_forked();
    return;
  }
  new_session();
  clu_os_around_fork(before_fork, after_fork, in_child);
}

int clu_session_is_parents(void) { return session_pid && session_pid != clu_os_getpid(); }

void clu_session_begin_in_child(void) {
  if (!clu_session_is_parents()) return;
  new_session(); /* the other one stays: the parent's handles point to what it has */
  before++;
}

int clu_pump(int64_t wait_ns, clu_err *e) {
  return clu_loop_pump(clu_session_loop(clu_the_session), wait_ns, e);
}

int clu_pump_events(void) { return clu_loop_events(clu_session_loop(clu_the_session)); }

static int is_of_this(SEXP x) {
  return before == 0 || Rf_asInteger(Rf_getAttrib(x, Rf_install("session"))) == before;
}

SEXP ffi_handle_end(SEXP x) {
  clu_handle_end(x);
  return R_NilValue;
}

int clu_handle_is_ours(SEXP x) {
  return session_pid && session_pid == clu_os_getpid() && is_of_this(x);
}

void clu_need_session_of(SEXP x) {
  clu_need_session();
  if (!is_of_this(x)) raise_forked();
}

/* A thread is not to be at work while the process ends: what it uses may be gone already. */
static void at_exit(void) { clu_turns_end(&clu_turn, 0); }

int clu_session_set_work(const clu_turns_work *work) {
  static int registered;
  if (!registered) registered = atexit(at_exit) == 0;
  clu_slab_leave();
  return clu_turns_begin(&clu_turn, work);
}

/* ---- handles ---- */

/* R looks a symbol up by its name, and a node's is asked for three times in each call: it is kept.
 */
static SEXP tag_of(clu_handle_kind *kind) {
  if (kind->tag) return kind->tag;
  kind->tag = Rf_install(kind->name);
  kind->next = kinds;
  kinds = kind;
  return kind->tag;
}

int clu_handle_is(SEXP x, clu_handle_kind *kind) {
  return TYPEOF(x) == EXTPTRSXP && R_ExternalPtrTag(x) == tag_of(kind);
}

void *clu_handle_get(SEXP x, clu_handle_kind *kind) {
  void *p;
  if (!clu_handle_is(x, kind)) clu_raise("argument", "this is no handle of a clutch cluster");
  p = R_ExternalPtrAddr(x);
  if (!p) clu_raise_foreign("cluster");
  clu_need_session_of(x);
  return p;
}

void clu_handle_end(SEXP x) {
  void *p = R_ExternalPtrAddr(x);
  const clu_handle_kind *kind = kinds;
  R_ClearExternalPtr(x);
  if (!p) return;
  handles--;
  while (kind->tag != R_ExternalPtrTag(x)) kind = kind->next;
  if (clu_handle_is_ours(x)) {
    int mine = clu_turn_enter(CLU_FRAME);
    kind->free(p);
    clu_turn_leave(mine);
  } else if (kind->forget) {
    kind->forget(p);
  }
}

SEXP clu_handle_new(clu_handle_kind *kind, SEXP prot) {
  SEXP x;
  PROTECT(prot);
  x = PROTECT(R_MakeExternalPtr(NULL, tag_of(kind), prot));
  R_RegisterCFinalizerEx(x, clu_handle_end, FALSE);
  if (before) Rf_setAttrib(x, Rf_install("session"), Rf_ScalarInteger(before));
  UNPROTECT(2);
  return x;
}

void clu_handle_set(SEXP x, void *p) {
  R_SetExternalPtrAddr(x, p);
  handles++;
}

/* The library is about to be unloaded. R_unload_clutch() is not called by all versions of R for a
 * library whose symbols are not looked up by name (R_useDynamicSymbols()). */
SEXP ffi_end_thread(void) {
  clu_turn_end();
  clu_journals_settle(1);
  return R_NilValue;
}

SEXP ffi_live_handles(void) { return Rf_ScalarInteger(handles + (int)clu_shared_alive()); }
