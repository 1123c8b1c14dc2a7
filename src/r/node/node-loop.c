/* A node: receives calls, evaluates them, answers.
 *
 * ffi_node_loop() runs within R's tryCatch(), which is set up once and not for each call: an error in
 * a call jumps out of the loop to the handler, which answers through ffi_node_failed() and comes back.
 * So all state is here in one static struct, and none is on the C stack.
 *
 * An interrupt reaches R only while a call is evaluated, and only if it is meant: the fork server
 * writes the number of the request to be given up into shared memory before it sends the signal.
 */
#include "r/node/node.h"
#include "r/r-api.h"

#include <Rembedded.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/wire/channel.h"
#include "core/base/os.h"

#define SPIN 50000 /* ns; two wake-ups of a sleeping process take about as long */

clu_this_node clu_me;
int clu_is_node;
#define node clu_me /* short, for it is everywhere */

void clu_node_born(const clu_boot *b) { node.birth = *b; }

/* A pointer that was serialized: in a node, it came from the session. */
void clu_raise_foreign(const char *what) {
  const char *class = strcmp(what, "task") == 0 ? "argument" : "stopped";
  if (clu_is_node)
    clu_raise(class, "this is the session's %s, which cannot be used in a node: make one there", what);
  clu_raise(class, "this %s belongs to another R session: it was saved and loaded again", what);
}

/* In the handler of CLU_SIG_INT, and of the nudge that follows it. 1: R is to see it. */
static int on_interrupt(int nudge) {
  uint64_t c = *node.birth.cancel;
  int fresh = c != 0 && c != node.seen;
  if (nudge && (node.interrupted || c != node.seq)) return 0; /* it has been seen, or was for another */
  if (fresh) node.seen = c;
  if (!node.running) return 0;
  if (fresh && c != node.seq) return 0; /* for one that is over already */
  node.interrupted = 1;
  return 1;
}

/* A temporary folder of its own within `under`. R keeps two pointers to its own, one of them private, by
 * which quit() removes it: so R itself has to make the new one, which it does when the old one is
 * found missing. */
static void set_temp_dir(const char *under) {
  const char *old = getenv("TMPDIR");
  char *kept = old ? strdup(old) : NULL;
  SEXP call;
  R_TempDir = ""; /* not the parent's folder: that one stays */
  clu_os_setenv("TMPDIR", under);
  call = PROTECT(Rf_lang2(Rf_install("tempdir"), Rf_ScalarLogical(TRUE)));
  Rf_eval(call, R_BaseEnv);
  UNPROTECT(1);
  clu_os_setenv("TMPDIR", kept);
  free(kept);
}

/* While an answer is serialized. */
static void look_up(void) {
  if (node.seq && *node.birth.cancel == node.seq) Rf_error("given up");
}

/* A fork of the node must not take its calls, nor answer in its place. */
static void after_fork(void) {
  node.forked = 1;
  if (node.birth.fd != CLU_NO_FD) clu_os_close(node.birth.fd);
  node.birth.fd = node.chan.fd = CLU_NO_FD; /* in a fork of the fork, and later here, it may be another file's number */
}

static SEXP say_hello(void) {
  unsigned char pid[8];
  clu_is_node = 1;
  clu_os_after_fork(after_fork);
  clu_os_end_first(); /* not the session, which has the results */
  clu_os_set_blocking(node.birth.fd, 1);
  clu_os_on_int(on_interrupt);
  clu_serialize_look_up(look_up);
  clu_put64(pid, (uint64_t)clu_os_getpid());
  clu_chan_send_bytes(&node.chan, CLU_K_HELLO, 0, pid, sizeof pid, CLU_NO_FD);
  node.over = clu_chan_flush(&node.chan) != CLU_OK;
  return R_NilValue;
}

/* User's code that closes all descriptors it can think of begins with the low ones. */
void clu_node_move_fd(clu_fd *fd) {
  clu_os_move_high(fd, 200);
  if (*fd < 60) clu_os_move_high(fd, 60); /* the limit may be low */
}

static SEXP begin(void) {
  clu_node_move_fd(&node.birth.fd);
  if (clu_chan_init(&node.chan, node.birth.fd, INT64_MAX, 0) != CLU_OK) Rf_error("not enough memory");
  return say_hello();
}

void clu_node_joined(const clu_boot *b, clu_chan *c, int64_t idle_ns) {
  node.birth = *b;
  node.birth.fd = c->fd;
  node.chan = *c;
  node.idle_ns = idle_ns > 0 ? idle_ns : 0;
}

/* A node that has joined and is set up; or, with a text, is not, and ends. */
SEXP ffi_node_begin_joined(SEXP problem) {
  const char *text;
  if (problem == R_NilValue) return say_hello();
  text = CHAR(STRING_ELT(problem, 0));
  clu_os_set_blocking(node.birth.fd, 1);
  clu_chan_send_bytes(&node.chan, CLU_K_REFUSED, 0, text, strlen(text), CLU_NO_FD);
  while (clu_chan_flush(&node.chan) == CLU_AGAIN) continue;
  return R_NilValue;
}

/* A forked node. */
SEXP ffi_node_begin(void) {
  set_temp_dir(node.birth.tmp);
  return begin();
}

/* A node started by exec: descriptor 3 is its socket, 4 the shared memory. */
SEXP ffi_node_begin_exec(SEXP slot, SEXP tmp) {
  clu_shared *p;
  clu_err e = {0, 0, ""};
  clu_boot b;
  char *above;
  memset(&b, 0, sizeof b);
  b.fd = 3;
  b.parent = clu_os_getppid();
  if (clu_shared_map(&p, 4, &e) != CLU_OK) clu_raise_err(&e);
  clu_os_close(4);
  clu_os_set_cloexec(3);
  clu_boot_slot(&b, p, Rf_asInteger(slot));
  snprintf(b.tmp, sizeof b.tmp, "%s", CHAR(STRING_ELT(tmp, 0)));
  clu_node_born(&b);
  if ((above = strrchr(b.tmp, '/'))) *above = 0; /* the fork server's folder, as for a forked node */
  clu_os_on_term(b.parent, b.tmp);
  if (clu_os_follow_parent(b.parent, 1) == CLU_DEAD) clu_os_kill(clu_os_getpid(), CLU_SIG_TERM, 0);
  return begin();
}

/* Writes the answer; gives it up when it is cancelled half-way. */
void clu_node_answer(uint8_t kind, clu_blob *body) {
  uint64_t seq = node.seq;
  int rc, tries = 0;
  if (*node.birth.cancel == seq) {
    kind = CLU_K_CANCELLED;
    body = NULL;
  }
  if (clu_chan_send(&node.chan, kind, seq, body, CLU_NO_FD) != CLU_OK) {
    node.over = 1;
    return;
  }
  node.sending = 1;
  while ((rc = clu_chan_flush(&node.chan)) == CLU_AGAIN) { /* a signal */
    if (kind != CLU_K_CANCELLED && *node.birth.cancel == seq && !tries++ &&
        clu_chan_withdraw(&node.chan, kind, seq))
      clu_chan_send(&node.chan, CLU_K_CANCELLED, seq, NULL, CLU_NO_FD);
  }
  node.sending = 0;
  node.seq = 0;
  node.task = 0;
  if (rc != CLU_OK) node.over = 1;
  if (rc == CLU_SYS) node.closed = 1;
}

static void check(void *unused) {
  (void)unused;
  R_CheckUserInterrupt();
}

/* Ends the evaluation: an interrupt that R has been told of and has not acted upon is not for the next. */
void clu_node_stop_running(void) {
  if (node.forked) clu_os_end_self(); /* it came back from its call */
  node.running = 0;
  if (node.interrupted) {
    node.interrupted = 0;
    R_ToplevelExec(check, NULL);
  }
}

static void put_times(unsigned char *p) {
  double t2[5];
  clu_os_times(t2);
  for (int i = 0; i < 5; i++) t2[i] -= node.t1[i];
  memcpy(p, t2, sizeof t2);
}

static void answer_object(uint8_t kind, SEXP x) {
  static const double room[5];
  clu_blob *b = clu_blob_new(512);
  if (!b) Rf_error("not enough memory");
  clu_blob_append(b, room, sizeof room);
  b = clu_serialize(b, x);
  put_times(b->data);
  clu_node_answer(kind, b);
  clu_blob_unref(b);
}

/* fun(quote(a), quote(b), ...), as do.call(quote = TRUE) builds it */
static SEXP call_of(SEXP fun, SEXP args) {
  SEXP names, call, at, quote = Rf_install("quote");
  R_xlen_t n = Rf_xlength(args);
  if (TYPEOF(args) != VECSXP) Rf_error("second argument must be a list");
  if (TYPEOF(fun) == STRSXP && Rf_length(fun) == 1)
    fun = Rf_installTrChar(STRING_ELT(fun, 0));
  else if (!Rf_isFunction(fun))
    Rf_error("'what' must be a function or character string");
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

static int read_call(void *unused, void *p, size_t n) {
  (void)unused;
  return node.broken = clu_chan_read(&node.chan, p, n);
}

void clu_node_read(void *p, size_t n) {
  if (read_call(NULL, p, n) != CLU_OK) Rf_error("a call arrived incomplete");
}

/* The object that the next `n` bytes are. */
SEXP clu_node_read_object(uint64_t n) {
  unsigned char few[CLU_MOST_FUN];
  if (n > sizeof few) return clu_unserialize_from(read_call, NULL);
  clu_node_read(few, (size_t)n);
  return clu_unserialize_bytes(few, (size_t)n);
}

/* The function of a call. The same bytes as before are the same function: they name no environment but the
 * workspace and base R's. */
static SEXP read_function(uint32_t n) {
  static unsigned char bytes[CLU_MOST_FUN];
  static uint32_t size;
  static SEXP cell; /* preserved, holds it */
  unsigned char now[CLU_MOST_FUN];
  SEXP fun;
  if (n > sizeof now) Rf_error("a call arrived that is none");
  clu_node_read(now, n);
  if (size == n && memcmp(now, bytes, n) == 0) return CAR(cell);
  if (!cell) {
    cell = Rf_cons(R_NilValue, R_NilValue);
    R_PreserveObject(cell);
  }
  size = 0;
  fun = clu_unserialize_bytes(now, n);
  SETCAR(cell, fun);
  memcpy(bytes, now, n);
  size = n;
  return fun;
}

/* The call that has begun to arrive. */
static SEXP read_call_object(void) {
  unsigned char len[4];
  SEXP fun, args, msg, call;
  uint32_t n;
  clu_node_read(len, sizeof len);
  n = clu_get32(len);
  if (n > 0) {
    fun = PROTECT(read_function(n));
    args = PROTECT(clu_node_read_object(node.chan.cur.total - node.chan.read));
  } else {
    msg = PROTECT(clu_node_read_object(node.chan.cur.total - node.chan.read));
    if (TYPEOF(msg) != VECSXP || Rf_length(msg) != 2) Rf_error("a call arrived that is none");
    fun = VECTOR_ELT(msg, 0);
    args = PROTECT(VECTOR_ELT(msg, 1));
  }
  call = call_of(fun, args);
  UNPROTECT(2);
  return call;
}

/* Serves until there is no more to do (TRUE), evaluating in `env`. Errors of calls jump out. */
SEXP ffi_node_loop(SEXP env) {
  static clu_spins spins;
  int served = 0;
  while (!node.over) {
    clu_msg m;
    int r;
    SEXP call, value;
    served |= clu_work_go_on(); /* tasks that have come together, one of which jumped out */
    if (node.over) break;
    r = clu_chan_begin(&node.chan, &m);
    if (r < 0) break;
    if (r == 0) {
      int rc;
      clu_work_tell();
      if (served && clu_spin_pays(&spins)) /* the next call may follow at once */
        clu_spin_ended(&spins, clu_os_spin_readable(node.birth.fd, SPIN));
      if (node.idle_ns && clu_os_wait_readable(node.birth.fd, node.idle_ns) == CLU_TIMEOUT) break;
      rc = clu_chan_fill(&node.chan);
      if (rc == CLU_SYS) node.closed = 1;
      if (rc != CLU_OK && rc != CLU_AGAIN) break;
      continue;
    }
    if (m.kind != CLU_K_TASKS) clu_work_tell();
    if (m.kind == CLU_K_DONE) {
      node.asked = 1;
      break;
    }
    if (m.kind == CLU_K_JOB || m.kind == CLU_K_TASKS || m.kind == CLU_K_JOB_END) {
      clu_work_take(&m);
      if (clu_chan_skip(&node.chan) != CLU_OK) break;
      continue;
    }
    if (m.kind == CLU_K_CALL) {
      node.seq = m.seq; /* from here on an error is its answer */
      clu_work_leave(); /* a call finds the workspace as it is without tasks */
    }
    call = PROTECT(m.kind == CLU_K_CALL ? read_call_object() : R_NilValue);
    if (clu_chan_skip(&node.chan) != CLU_OK) break;
    if (m.kind != CLU_K_CALL) {
      UNPROTECT(1);
      continue;
    }
    clu_os_times(node.t1);
    node.running = 1;
    if (*node.birth.cancel == node.seq) { /* it came before the call began */
      node.seen = node.seq;
      clu_node_stop_running();
      clu_node_answer(CLU_K_CANCELLED, NULL);
      UNPROTECT(1);
      continue;
    }
    value = PROTECT(Rf_eval(call, env));
    clu_node_stop_running();
    answer_object(CLU_K_VALUE, value);
    served = 1;
    UNPROTECT(2);
  }
  return Rf_ScalarLogical(TRUE);
}

/* After a jump out of the loop: to the end of the message that it was perhaps reading. */
static void recover(void) {
  clu_node_stop_running();
  if (node.broken == CLU_CANCELLED) node.seq = 0; /* the master has withdrawn it: no answer */
  node.broken = CLU_OK;
  if (clu_chan_skip(&node.chan) != CLU_OK) node.over = 1;
}

/* The answer to the request at hand is an error. FALSE: go on. */
SEXP ffi_node_failed(SEXP value) {
  recover();
  if (node.seq && !node.over) {
    if (node.task)
      clu_work_failed(value);
    else
      answer_object(CLU_K_FAILED, value);
  }
  return Rf_ScalarLogical(node.over);
}

/* Whether it is a task that is being done: NULL, or TRUE where its output and conditions are to be collected. */
SEXP ffi_node_at_task(void) {
  return node.task ? Rf_ScalarLogical(node.task == CLU_TASK_RELAYED) : R_NilValue;
}

/* The request at hand was interrupted: by the master's wish, or else `value` is the error. */
SEXP ffi_node_interrupted(SEXP value) {
  recover();
  if (!node.seq || node.over) return Rf_ScalarLogical(FALSE);
  if (*node.birth.cancel == node.seq)
    clu_node_answer(CLU_K_CANCELLED, NULL);
  else if (node.task)
    clu_work_failed(value);
  else
    answer_object(CLU_K_FAILED, value);
  return Rf_ScalarLogical(FALSE);
}

/* Whether user's code has closed the descriptor of the channel. */
SEXP ffi_node_closed(void) { return Rf_ScalarLogical(node.closed); }

/* Ends this process without R's exit: finalizers and exit handlers in it are the fork server's. */
SEXP ffi_node_end(void) {
  fflush(NULL);
  if (!node.asked) clu_node_await_end(&node.birth);
  clu_os_end_self();
  return R_NilValue;
}
