/* The fork server, seen from R. fork_server_main() in R calls ffi_fork_server_serve() again and
 * again. A fork happens in that call, which in the child goes on as the loop of a node. */
#include "r/base/r-api.h"

#include <Rembedded.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/deadline.h"
#include "core/base/os-folders.h"
#include "core/base/os-forks.h"
#include "core/base/os-heap.h"
#include "core/link/near.h"
#include "core/supervisor/stay.h"
#include "core/supervisor/supervisor.h"
#include "r/base/entry-points.h"
#include "r/node/node.h"

static clu_supervisor sv;
static clu_pid session;
static char **exec_argv;
static int is_child; /* this process is a node by now */
static clu_fd control = 3;
static int begins_in_r; /* nodes call forked_node_begin() */
static clu_sv_options options;
static int stays; /* it may outlive its session */
static clu_stay waiting = {.listener = CLU_NO_FD};

void clu_fork_server_control(clu_fd fd) { control = fd; }

/* A new temporary folder, in the one that TMPDIR names now. R forgets the old one, which stays. */
static void make_temp_dir(void) {
  SEXP call;
  R_TempDir = "";
  call = PROTECT(Rf_lang2(Rf_install("tempdir"), Rf_ScalarLogical(TRUE)));
  Rf_eval(call, R_BaseEnv);
  UNPROTECT(1);
}

SEXP ffi_fork_server_temp(void) {
  make_temp_dir();
  return R_NilValue;
}

/* R keeps two pointers to its temporary folder, one of them private, by which quit() removes it: in
 * a node it would remove this one. So R makes another one within it, which goes at once, and the
 * private pointer leads there. What is to be removed at the end is removed by fork_server_main().
 */
static char *own_temp_dir(void) {
  const char *old = getenv("TMPDIR");
  char *kept = old ? strdup(old) : NULL, *own = strdup(R_TempDir);
  if (!own || (old && !kept)) clu_raise("memory", "not enough memory");
  clu_os_setenv("TMPDIR", own);
  make_temp_dir();
  clu_os_setenv("TMPDIR", kept);
  free(kept);
  clu_os_remove_tree(R_TempDir);
  R_TempDir = own;
  clu_os_setenv("R_SESSION_TMPDIR", own);
  return own;
}

/* Takes over descriptor 3, or that of a host, the control channel. From here on this process ends
 * when the session does. */
SEXP ffi_fork_server_begin(SEXP exec, SEXP idle) {
  clu_err e = {0, 0, ""};
  R_xlen_t n = Rf_xlength(exec);
  clu_node_choose_seeds();
  session = clu_os_getppid();
  exec_argv = calloc((size_t)n + 1, sizeof *exec_argv);
  if (!exec_argv) clu_raise("memory", "not enough memory");
  for (R_xlen_t i = 0; i < n; i++) exec_argv[i] = strdup(CHAR(STRING_ELT(exec, i)));
  if (clu_os_follow_parent(session, 0) == CLU_DEAD) clu_os_end_self();
  options.control = control;
  options.tmp = own_temp_dir();
  options.exec = exec_argv;
  options.idle_ns = (uint64_t)(1e9 * Rf_asReal(idle));
  if (clu_supervisor_init(&sv, &options, &e) != CLU_OK) clu_raise_err(&e);
  clu_node_r("is.null", R_NilValue); /* it finds the namespace once, and not in each node */
  clu_stack_hook();
  return R_NilValue;
}

static void check_interrupts(void *unused) {
  (void)unused;
  R_CheckUserInterrupt();
}

/* A program begins at once; else R has something to do only where the settings say so. */
static void begin_node(void *program) {
  if (begins_in_r) clu_node_r("forked_node_begin", R_NilValue);
  if (*(int *)program) clu_node_get_ready(0);
  clu_node_begin_forked();
}

/* In the child. A node that cannot begin ends: R has printed why. */
static SEXP become_node(const clu_boot *b, SEXP env) {
  int program = b->program;
  is_child = 1;
  clu_os_heap_begin();
  clu_node_set_boot(b);
  R_ToplevelExec(check_interrupts, NULL); /* a pending one was the server's, not the node's */
  if (!R_ToplevelExec(begin_node, &program)) {
    fflush(NULL);
    clu_os_end_self();
  }
  return b->program ? R_NilValue : ffi_node_loop(env);
}

static SEXP todo(const char *what, uint64_t seq, SEXP object) {
  static const char *names[] = {"what", "seq", "object", ""};
  SEXP out;
  PROTECT(object);
  out = PROTECT(Rf_mkNamed(VECSXP, names));
  SET_VECTOR_ELT(out, 0, Rf_mkString(what));
  SET_VECTOR_ELT(out, 1, Rf_ScalarReal((double)seq));
  SET_VECTOR_ELT(out, 2, object);
  UNPROTECT(2);
  return out;
}

/* list(what, seq, object): "setup" and "settings" want an answer, "failed": object is why, "end":
 * seq 1: it may stay for another session.
 * In a child, which is a node: what ffi_node_loop() returns, or "program": it has to run that, seq
 * is its number, and object how often it was started before; or "observer". */
SEXP ffi_fork_server_serve(SEXP env) {
  clu_sv_event ev;
  clu_err e = {0, 0, ""};
  if (is_child) return ffi_node_loop(env);
  memset(&ev, 0, sizeof ev);
  fflush(NULL);                      /* each node would print what is buffered now */
  clu_os_follow_parent_meanwhile(0); /* no thread when nodes are forked */
  clu_os_on_term(0, NULL);
  clu_os_watch_term();
  if (clu_supervisor_serve(&sv, &ev, &e) != CLU_OK) return todo("failed", 0, Rf_mkString(e.text));
  switch (ev.what) {
  case CLU_SV_SETUP:
  case CLU_SV_SETTINGS:
    /* R code runs now, which may take long: the session's end must not wait for it */
    clu_os_on_term(stays ? -1 : session, R_TempDir);
    /* without: it ends when the code is done */
    if (!stays) clu_os_follow_parent_meanwhile(session);
    return todo(ev.what == CLU_SV_SETUP ? "setup" : "settings", ev.msg.seq,
                clu_unserialize(ev.msg.body, 0));
  case CLU_SV_CHILD:
    if (ev.node.is_link) { /* C only: nothing of R's may run in it */
      is_child = 1;
      clu_os_set_title("clutch: link to other hosts");
      clu_near_serve(ev.node.fd, &e);
      clu_os_end_self();
    }
    if (!ev.node.program) return become_node(&ev.node, env);
    become_node(&ev.node, env);
    clu_me.running = 1; /* so that SIGINT interrupts it, as it does any R */
    return todo("program", ev.node.id, Rf_ScalarReal(ev.node.again));
  case CLU_SV_OBSERVER:
    is_child = 1;
    clu_observer_begin(&sv, &ev.node);
    return todo("observer", 0, R_NilValue);
  default: return todo("end", ev.why == CLU_SV_LEFT, R_NilValue);
  }
}

SEXP ffi_fork_server_session(void) { return Rf_ScalarInteger((int)session); }

/* From now on who connects to this path gets an observer. `owns_folder`: its folder is removed when
 * it is empty at the end. Whether that is so. */
SEXP ffi_fork_server_listen(SEXP path, SEXP owns_folder) {
  clu_err e;
  const char *at = R_ExpandFileName(CHAR(STRING_ELT(path, 0)));
  return Rf_ScalarLogical(clu_supervisor_listen(&sv, at, Rf_asLogical(owns_folder) == 1, &e) ==
                          CLU_OK);
}

/* Tells whether the nodes that follow call forked_node_begin(). */
SEXP ffi_fork_server_begins(SEXP in_r) {
  begins_in_r = Rf_asLogical(in_r) == TRUE;
  return R_NilValue;
}

/* How many nodes follow. */
SEXP ffi_fork_server_expect(SEXP n) {
  clu_supervisor_expect(&sv, (uint64_t)Rf_asReal(n));
  return R_NilValue;
}

/* Tells whether one of the nodes with these numbers may be started again. */
SEXP ffi_fork_server_keeps(SEXP from, SEXP to) {
  uint64_t first = (uint64_t)Rf_asReal(from), last = (uint64_t)Rf_asReal(to);
  return Rf_ScalarLogical(clu_supervisor_keeps(&sv, first, last));
}

/* `file`: see clu_supervisor_count_oom(). */
SEXP ffi_fork_server_count_oom(SEXP file) {
  if (clu_supervisor_count_oom(&sv, CHAR(STRING_ELT(file, 0))) != CLU_OK)
    clu_raise("memory", "not enough memory");
  return R_NilValue;
}

/* `object`: NULL for an empty answer, a string for its text, a raw vector for its bytes. */
SEXP ffi_fork_server_answer(SEXP kind, SEXP seq, SEXP object) {
  const void *p = NULL;
  size_t n = 0;
  int k = strcmp(CHAR(STRING_ELT(kind, 0)), "ready") == 0 ? CLU_K_READY : CLU_K_APPLIED;
  if (TYPEOF(object) == STRSXP) {
    p = CHAR(STRING_ELT(object, 0));
    n = strlen(p);
  } else if (TYPEOF(object) == RAWSXP) {
    p = RAW(object);
    n = (size_t)Rf_xlength(object);
  }
  clu_supervisor_answer(&sv, (uint8_t)k, (uint64_t)Rf_asReal(seq), p, n);
  return R_NilValue;
}

/* ---- another session ---- */

/* From now on it may outlive its session. */
SEXP ffi_fork_server_stays(void) {
  stays = 1;
  clu_os_follow_nobody();
  return R_NilValue;
}

/* From now on another session can connect to this path, and its own is still there. NULL; or why
 * that cannot be, a text. */
SEXP ffi_fork_server_offer(SEXP path) {
  clu_err e = {0, 0, ""};
  if (waiting.listener != CLU_NO_FD) return R_NilValue;
  if (clu_stay_offer(&waiting, CHAR(STRING_ELT(path, 0)), &e) == CLU_OK) return R_NilValue;
  return Rf_mkString(e.text);
}

static clu_fd signals = CLU_NO_FD;

/* Lets its session go. Signals are watched all the time: CLU_SIG_TERM would leave the offer. */
SEXP ffi_fork_server_leave(void) {
  clu_err e = {0, 0, ""};
  if (clu_os_watch_start(&signals, &e) != CLU_OK) clu_raise_err(&e);
  clu_supervisor_fini(&sv);
  return R_NilValue;
}

/* When nobody has come at once, the forks to come are made cheaper meanwhile: with large packages
 * that takes some tenths of a second, and a fork a sixth of the time then. */
static int await_session(uint64_t until) {
  uint64_t soon = clu_deadline_after(clu_os_now(), 300000000);
  int rc = CLU_TIMEOUT;
  if (soon < until) {
    rc = clu_stay_await(&waiting, signals, soon, &options.control, &session);
    if (rc == CLU_TIMEOUT) clu_os_expect_forks();
  }
  if (rc != CLU_TIMEOUT) return rc;
  return clu_stay_await(&waiting, signals, until, &options.control, &session);
}

/* Waits for another session, and serves it from now on: TRUE. FALSE: the time is up, or a signal
 * came. `seconds` are below 0 where the time was up before the wait began. */
SEXP ffi_fork_server_await(SEXP seconds) {
  clu_err e = {0, 0, ""};
  double left = Rf_asReal(seconds) > 0 ? Rf_asReal(seconds) : 0;
  int comes = await_session(clu_deadline_after(clu_os_now(), (int64_t)(1e9 * left))) == CLU_OK;
  int rc = CLU_OK;
  if (comes) {
    clu_node_choose_seeds(); /* else its nodes had the random numbers of those before */
    rc = clu_supervisor_init(&sv, &options, &e);
  }
  clu_os_watch_end();
  if (rc != CLU_OK) clu_raise_err(&e);
  return Rf_ScalarLogical(comes);
}

/* Nobody else can have it. */
SEXP ffi_fork_server_taken(void) {
  clu_stay_end(&waiting);
  return R_NilValue;
}
