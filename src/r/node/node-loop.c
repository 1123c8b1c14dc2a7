/* A node receives calls, evaluates them and answers.
 *
 * ffi_node_loop() runs within R's tryCatch(), which is set up once and not for each call: an error
 * in a call jumps out of the loop to the handler, which answers through ffi_node_failed() and
 * enters the loop again.
 */
#include "r/node/node.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/os.h"
#include "core/wire/channel.h"
#include "r/base/wait.h"

/* After so long, in ns, the other nodes of its cluster are there, too. */
static const uint64_t READY_AFTER = 100000000;

/* ---- answers ---- */

static void put_times(unsigned char *p) {
  double now[5];
  clu_os_times(now);
  for (int i = 0; i < 5; i++) now[i] -= clu_me.started[i];
  memcpy(p, now, sizeof now);
}

static void answer_object(uint8_t kind, SEXP x) {
  static const double room[5];
  clu_blob *b = clu_blob_new(512);
  if (!b) clu_raise("memory", "not enough memory");
  clu_blob_append(b, room, sizeof room);
  b = clu_node_serialize(b, x);
  put_times(b->data);
  clu_node_answer(kind, b);
  clu_blob_unref(b);
}

/* ---- reading of a call ---- */

/* fun(): the same object as last time, unless somebody keeps that, as a condition does. */
static SEXP call_of_none(SEXP fun) {
  static SEXP last;
  if (!last || MAYBE_SHARED(last)) {
    if (last) R_ReleaseObject(last);
    R_PreserveObject(last = Rf_lang1(fun));
  }
  SETCAR(last, fun);
  return last;
}

/* fun(quote(a), quote(b), ...), as do.call(quote = TRUE) builds it */
static SEXP call_of(SEXP fun, SEXP args) {
  SEXP names, call, at, quote = Rf_install("quote");
  R_xlen_t n = Rf_xlength(args);
  if (TYPEOF(args) != VECSXP) clu_raise("argument", "second argument must be a list");
  if (TYPEOF(fun) == STRSXP && Rf_length(fun) == 1)
    fun = Rf_installTrChar(STRING_ELT(fun, 0));
  else if (!Rf_isFunction(fun))
    clu_raise("argument", "'what' must be a function or character string");
  if (n == 0) return call_of_none(fun);
  names = Rf_getAttrib(args, R_NamesSymbol);
  call = PROTECT(Rf_allocVector(LANGSXP, n + 1));
  SETCAR(call, fun);
  at = CDR(call);
  for (R_xlen_t i = 0; i < n; i++, at = CDR(at)) {
    SETCAR(at, Rf_lang2(quote, VECTOR_ELT(args, i)));
    if (names != R_NilValue && CHAR(STRING_ELT(names, i))[0])
      SET_TAG(at, Rf_installTrChar(STRING_ELT(names, i)));
  }
  UNPROTECT(1);
  return call;
}

/* The arguments. Most calls have none: then it is the same list each time, which nobody but
 * call_of() sees. */
static SEXP read_arguments(void) {
  static unsigned char none[64];
  static size_t size; /* of `none`, the bytes of that list; 0: it is not known */
  static SEXP empty;
  unsigned char now[sizeof none];
  uint64_t n = clu_me.chan.cur.total - clu_me.chan.read;
  SEXP args;
  if (n > sizeof now || clu_me.chan.segments.n > 0) return clu_node_read_object(n);
  clu_node_read(now, (size_t)n);
  if (n == size && memcmp(now, none, size) == 0) return empty;
  args = PROTECT(clu_unserialize_bytes(now, (size_t)n));
  if (!size && TYPEOF(args) == VECSXP && Rf_xlength(args) == 0 && !clu_has_attributes(args)) {
    R_PreserveObject(empty = args);
    size = (size_t)n;
    memcpy(none, now, size);
  }
  UNPROTECT(1);
  return args;
}

/* The call that has begun to arrive. */
static SEXP read_call(void) {
  unsigned char len[4];
  SEXP fun, args, msg, call;
  uint32_t n;
  clu_node_read(len, sizeof len);
  n = clu_get32(len);
  if (n > 0) {
    fun = PROTECT(clu_node_read_function(n));
    args = PROTECT(read_arguments());
    clu_compiled_use(args, -1, 0);
  } else {
    msg = PROTECT(clu_node_read_object(clu_me.chan.cur.total - clu_me.chan.read));
    clu_compiled_use(msg, -1, 0);
    if (TYPEOF(msg) != VECSXP || Rf_length(msg) != 2)
      clu_raise("protocol", "a call arrived damaged");
    fun = VECTOR_ELT(msg, 0);
    args = PROTECT(VECTOR_ELT(msg, 1));
  }
  call = call_of(fun, args);
  UNPROTECT(2);
  return call;
}

/* ---- the loop ---- */

/* Waits until something has come, or what there is besides requests is to be done. */
static void sleep_beside(int64_t most) {
  const clu_besides *b = clu_besides_requests;
  clu_watch w[2] = {{clu_me.boot.fd, CLU_READ, 0}, {b->fd, CLU_READ, 0}};
  int n;
  if (b->sleep(1, &most)) clu_os_poll(w, 2, most, &n, NULL);
  b->sleep(0, &most);
}

/* Does what there is besides requests, while none comes. As clu_os_wait_readable(). */
static int wait_beside(int64_t ns) {
  uint64_t deadline = clu_deadline_ns(ns);
  while (clu_besides_requests) {
    int rc;
    clu_besides_requests->serve(); /* there may be nothing besides afterwards */
    rc = clu_os_wait_readable(clu_me.boot.fd, 0);
    if (rc == CLU_OK || clu_os_now() >= deadline) return rc;
    if (clu_besides_requests)
      sleep_beside(ns < 0 ? -1 : (int64_t)clu_deadline_left(deadline, clu_os_now(), ns));
  }
  if (deadline == CLU_NEVER) return clu_os_wait_readable(clu_me.boot.fd, -1);
  return clu_os_wait_readable(clu_me.boot.fd, clu_deadline_left(deadline, clu_os_now(), ns));
}

static int wait_readable(int64_t ns) {
  return clu_besides_requests ? wait_beside(ns) : clu_os_wait_readable(clu_me.boot.fd, ns);
}

/* A node that has been idle for some time gets ready for what will come, but not while others are
 * started: 1,000 forked ones start in two thirds of the time so, and new Rs have the processors.
 * When that fails, what comes next is told why. */
static void get_ready_in_time(void) {
  static int tried;
  uint64_t wait = READY_AFTER;
  if (clu_me.ready || tried) return;
  for (;; wait *= 2) {
    if (wait_readable((int64_t)wait) != CLU_TIMEOUT) return;
    if (!clu_me.boot.started || clu_os_now() - atomic_load(clu_me.boot.started) >= READY_AFTER)
      break;
  }
  tried = 1;
  clu_node_get_ready(1);
}

/* Memory that was freed stays for the next value, and a connection for the next request, but not
 * with a node that is idle. */
static void give_back_in_time(void) {
  static const uint64_t idle = 1000000000;
  if (!clu_give_back_is_due() && !clu_me.has_link) return;
  if (wait_readable(idle) != CLU_TIMEOUT) return;
  if (clu_me.has_link) clu_node_r("leave_forwarder", R_NilValue);
  if (clu_give_back_is_due()) clu_give_back();
}

/* Tells whether nothing has come for so long that the node ends: not as long as there is something
 * besides requests. */
static int is_silent(void) {
  while (wait_readable(clu_me.idle_ns) == CLU_TIMEOUT)
    if (!clu_besides_requests) return 1;
  return 0;
}

/* The session's option clutch.wait_awake, in this environment variable. */
static int may_spin(void) {
  static int may = -1;
  if (may < 0) {
    const char *said = getenv("CLUTCH_WAIT_AWAKE");
    may = !said || strcmp(said, "0") != 0;
  }
  return may;
}

/* Waits until something has come: awake for some time where that pays (`awake`: a request was
 * served, the next may follow at once), then asleep. 0: nothing more will come. */
static int wait_for_more(int awake) {
  static clu_spins spins;
  static uint64_t woke; /* when something came; 0: nothing did yet */
  int rc;
  if (woke) clu_give_back_worked(clu_os_now() - woke);
  clu_work_tell();
  clu_work_rest();
  clu_frozen_reap();
  get_ready_in_time();
  if (awake && may_spin() && clu_spin_pays(&spins)) {
    uint64_t gave;
    int came = clu_os_spin_readable(clu_me.boot.fd, CLU_SPIN, &gave);
    spins.crowded = gave >= CLU_CROWDED;
    clu_spin_ended(&spins, came);
  }
  give_back_in_time();
  if (clu_me.idle_ns && is_silent()) return 0;
  if (clu_besides_requests && !clu_me.idle_ns) wait_beside(-1);
  rc = clu_chan_fill(&clu_me.chan);
  woke = clu_os_now();
  if (rc == CLU_SYS) clu_me.fd_closed = 1;
  return rc == CLU_OK || rc == CLU_AGAIN;
}

/* Reads, evaluates and answers the call that has begun to arrive. 0: the channel has failed. */
static int serve_call(uint64_t seq, SEXP env) {
  SEXP call, value;
  clu_me.seq = seq; /* from here on an error is its answer */
  clu_activity_begin(clu_me.boot.activity, seq, clu_os_now());
  clu_node_get_ready(0);
  clu_job_leave(); /* a call finds the workspace as it is without tasks */
  call = PROTECT(read_call());
  if (clu_chan_skip(&clu_me.chan) != CLU_OK) {
    UNPROTECT(1);
    return 0;
  }
  clu_os_times(clu_me.started);
  clu_me.running = 1;
  if (*clu_me.boot.cancel == seq) { /* it was cancelled before it began */
    clu_me.cancel_seen = seq;
    clu_node_stop_running();
    clu_node_answer(CLU_K_CANCELLED, NULL);
    UNPROTECT(1);
    return 1;
  }
  value = PROTECT(Rf_eval(call, env));
  clu_node_stop_running();
  clu_compiled_end(0);
  answer_object(CLU_K_VALUE, value);
  UNPROTECT(2);
  return 1;
}

/* Does the same for one whose answer nobody wants. 0: the channel has failed. */
static int serve_tell(SEXP env) {
  SEXP call;
  clu_me.seq = 0;
  clu_node_get_ready(0);
  clu_job_leave();
  call = PROTECT(read_call());
  if (clu_chan_skip(&clu_me.chan) != CLU_OK) {
    UNPROTECT(1);
    return 0;
  }
  Rf_eval(call, env);
  clu_compiled_end(0);
  UNPROTECT(1);
  return 1;
}

static void end_now(void) {
  fflush(NULL);
  clu_os_end_self();
}

/* The session has said that this node is to end. Code of R would write to two hundred pages, each
 * of which is copied for it: it runs only where there is something to close or to remove. A node
 * that has joined leaves by R's exit, which removes its temporary folder. */
static void be_done(void) {
  clu_me.asked_to_end = 1;
  if (!clu_me.joined && clu_state_is_bare()) end_now();
}

/* Serves until there is no more to do (TRUE), evaluating in `env`. Errors of calls jump out. */
SEXP ffi_node_loop(SEXP env) {
  int served = 0;
  while (!clu_me.closed) {
    clu_msg m;
    int r;
    served |=
        clu_work_go_on(); /* tasks that have come together, one of which may have jumped out */
    if (clu_me.closed) break;
    clu_work_besides();
    r = clu_chan_begin(&clu_me.chan, &m);
    if (r < 0) break;
    if (r == 0) {
      if (!wait_for_more(served)) break;
      continue;
    }
    if (m.kind != CLU_K_TASKS) clu_work_tell();
    if (m.kind == CLU_K_CALL) {
      if (!serve_call(m.seq, env)) break;
      served = 1;
      continue;
    }
    if (m.kind == CLU_K_TELL) {
      if (!serve_tell(env)) break;
      continue;
    }
    if (m.kind == CLU_K_DONE) {
      be_done();
      break;
    }
    if (m.kind == CLU_K_JOB || m.kind == CLU_K_GIVEN || m.kind == CLU_K_TASKS ||
        m.kind == CLU_K_JOB_END)
      clu_work_take(&m);
    if (m.kind == CLU_K_COLLECT) clu_give_back_now();
    if (clu_chan_skip(&clu_me.chan) != CLU_OK) break;
  }
  return Rf_ScalarLogical(TRUE);
}

/* ---- after a jump out of the loop ---- */

/* Reads to the end of the message that was perhaps being read. */
static void recover(void) {
  clu_node_stop_running();
  clu_console_end_task();
  clu_compiled_end(0);
  if (clu_me.read_error == CLU_CANCELLED)
    clu_me.seq = 0; /* the session has withdrawn it: no answer */
  clu_me.read_error = CLU_OK;
  if (clu_chan_skip(&clu_me.chan) != CLU_OK) clu_me.closed = 1;
}

static void answer_failed(SEXP value) {
  if (clu_me.task)
    clu_work_failed(value);
  else
    answer_object(CLU_K_FAILED, value);
}

/* The answer to the request at hand is an error. FALSE: enter the loop again. */
SEXP ffi_node_failed(SEXP value) {
  recover();
  if (clu_me.seq && !clu_me.closed) answer_failed(value);
  return Rf_ScalarLogical(clu_me.closed);
}

/* Answers as the session wished. The calls in which a task was go with that: a line each. */
static void answer_cancelled(SEXP value) {
  SEXP calls = R_NilValue;
  clu_blob *b = NULL;
  if (clu_me.task && TYPEOF(value) == VECSXP && Rf_xlength(value) > 1) calls = VECTOR_ELT(value, 1);
  if (TYPEOF(calls) == STRSXP && Rf_xlength(calls) > 0) b = clu_blob_new(512);
  for (R_xlen_t i = 0; b && i < Rf_xlength(calls); i++) {
    const char *line = CHAR(STRING_ELT(calls, i));
    clu_blob_append(b, line, strlen(line));
    clu_blob_append(b, "\n", 1);
  }
  clu_node_answer(CLU_K_CANCELLED, b);
  clu_blob_unref(b);
}

/* The request at hand was interrupted: by the session's wish, or else `value` is the error. */
SEXP ffi_node_interrupted(SEXP value) {
  recover();
  if (!clu_me.seq || clu_me.closed) return Rf_ScalarLogical(FALSE);
  if (*clu_me.boot.cancel == clu_me.seq)
    answer_cancelled(value);
  else
    answer_failed(value);
  return Rf_ScalarLogical(FALSE);
}

/* Tells whether a task is being done: NULL, or TRUE where its output and conditions are to be
 * collected.
 */
SEXP ffi_node_at_task(void) {
  return clu_me.task ? Rf_ScalarLogical(clu_me.task == CLU_TASK_RELAYED) : R_NilValue;
}

/* Tells whether user's code has closed the descriptor of the channel. Not so where none has run: R
 * would remove the fork server's folder at its exit. */
SEXP ffi_node_closed(void) {
  return Rf_ScalarLogical(clu_me.fd_closed && (clu_me.ready || clu_me.new_r));
}

/* Tells whether this node ends because the session has said so. */
SEXP ffi_node_was_told(void) { return Rf_ScalarLogical(clu_me.asked_to_end); }

/* Ends this process without R's exit: finalizers and exit handlers in it are the fork server's. */
SEXP ffi_node_end(void) {
  fflush(NULL);
  if (!clu_me.asked_to_end) clu_boot_await_end(&clu_me.boot);
  end_now();
  return R_NilValue;
}
