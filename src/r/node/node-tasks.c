/* A node's tasks: elements of a job that arrive together, are claimed one by one, evaluated and answered one by one.
 *
 * An error in a task jumps out of the loop in r/node/node-loop.c, as that of a call does; so all state is here in one static
 * struct, and clu_work_go_on() goes on behind the element that jumped.
 */
#include "r/node/node.h"
#include "core/wire/task-message.h"

#include <Rversion.h>
#include <string.h>

#include "core/base/os.h"
#include "core/base/rng-stream.h"

#define TELL 2400000 /* ns */
#define SLOW 100000  /* ns: what takes less does not fill much memory */
#define MOST_SMALL (CLU_RING_MOST - CLU_SMALL_HEAD)

/* What R's collector has to see, in a preserved list. */
enum { ENV, CALL, ELEMENTS, NAMESPACE, SINKS, N_KEPT };

static struct {
  SEXP kept;
  uint64_t job;        /* whose workspace is in force; 0: none */
  int relay;           /* it wants output and conditions */
  int sinks, n_globals, n_env; /* as node_enter() has left them, see in_order() */
  uint64_t reading;    /* a job whose description is being read */
  uint64_t of, seq;    /* the tasks at hand: of which job, number of the first */
  uint32_t n, pos, attempt, flags;
  int have;            /* their elements could be read */
  uint32_t stream[6];  /* of the task `stream_at` */
  uint32_t stream_at;
  int claimed;         /* the one that node.seq is */
  uint64_t began;      /* the one at hand; 0: it begins now */
  uint64_t mean;       /* of what a task takes, in ns, lately */
  int64_t may_have;    /* bytes of memory of this process; 0: no limit */
  int64_t needs;       /* bytes of it that are no garbage */
  int64_t seen;        /* what it had at most when that was found out */
  int slow;            /* the last task took long enough to leave much garbage */
  uint64_t looked;     /* at the clock, by its coarse hand */
  uint32_t unlooked;   /* tasks that have ended since */
  uint64_t untold;     /* since when there are results in the ring of which the master was not told; 0: none */
  uint64_t unread;     /* bytes of them */
} work;

static SEXP keep(int which, SEXP x) {
  if (!work.kept) {
    work.kept = Rf_allocVector(VECSXP, N_KEPT);
    R_PreserveObject(work.kept);
  }
  return SET_VECTOR_ELT(work.kept, which, x);
}

static SEXP kept(int which) { return work.kept ? VECTOR_ELT(work.kept, which) : R_NilValue; }

/* The namespace is that of the first call: a task may unload the package, and what is found by its name then is a copy
 * that knows nothing of this node. */
static SEXP call_r(const char *fun, SEXP a, SEXP b) {
  SEXP call = PROTECT(Rf_lang3(Rf_install(fun), a, b)), out;
  if (kept(NAMESPACE) == R_NilValue) keep(NAMESPACE, R_FindNamespace(PROTECT(Rf_mkString("clutch")))), UNPROTECT(1);
  out = Rf_eval(call, kept(NAMESPACE));
  UNPROTECT(1);
  return out;
}

/* How many sinks output goes through; with FALSE the connection that messages go to. sink.number() takes 4 us, most of
 * them to match its argument, and this is asked before each task. */
SEXP ffi_work_sinks(SEXP output) {
  SEXP call = kept(SINKS);
  if (call == R_NilValue) {
    call = PROTECT(Rf_lang2(Rf_install("sink.number"), R_NilValue));
    call = keep(SINKS, Rf_lang2(Rf_install(".Internal"), call));
    UNPROTECT(1);
  }
  SETCADR(CADR(call), output);
  return Rf_eval(call, R_BaseEnv);
}

static int sinks(void) {
  static SEXP yes;
  if (!yes) R_PreserveObject(yes = Rf_ScalarLogical(TRUE));
  return Rf_asInteger(ffi_work_sinks(yes));
}

/* ---- messages ---- */

static void take_job(const clu_msg *m) {
  SEXP id = PROTECT(Rf_ScalarReal((double)m->seq)), x;
  work.reading = m->seq;
  x = PROTECT(clu_node_read_object(clu_me.chan.cur.total));
  call_r("node_job", id, x);
  work.reading = 0;
  UNPROTECT(2);
}

static void take_tasks(const clu_msg *m) {
  unsigned char head[CLU_TASKS_HEAD];
  uint64_t left;
  clu_node_read(head, sizeof head);
  work.of = clu_get64(head);
  work.n = clu_get32(head + 8);
  work.attempt = clu_get32(head + 12);
  work.flags = clu_get32(head + 16);
  work.may_have = (int64_t)clu_get32(head + 20) * 1048576;
  for (int i = 0; i < 6; i++) work.stream[i] = clu_get32(head + 24 + 4 * i);
  work.stream_at = work.pos = 0;
  work.seq = m->seq;
  work.have = 0;
  left = clu_me.chan.cur.total - clu_me.chan.read;
  if (work.flags & CLU_TASKS_BARE) {
    keep(ELEMENTS, R_NilValue);
  } else {
    SEXP x;
    clu_me.task = CLU_TASK_QUIET;
    clu_me.seq = m->seq; /* an error is the answer to the first, and then to each */
    work.claimed = 0;
    work.pos = 1;
    x = clu_node_read_object(left);
    keep(ELEMENTS, x);
    if ((uint64_t)Rf_xlength(x) < work.n) Rf_error("tasks arrived incomplete");
    work.pos = 0;
    clu_me.seq = 0;
    clu_me.task = 0;
  }
  work.have = 1;
}

void clu_work_take(const clu_msg *m) {
  if (!work.kept) keep(ENV, R_NilValue);
  if (m->kind == CLU_K_TASKS) {
    take_tasks(m);
  } else if (m->kind == CLU_K_JOB) {
    take_job(m);
  } else {
    SEXP id;
    if (work.job == m->seq) clu_work_leave();
    id = PROTECT(Rf_ScalarReal((double)m->seq));
    call_r("node_job_end", id, R_NilValue);
    UNPROTECT(1);
  }
}

void clu_work_leave(void) {
  SEXP id;
  if (!work.job) return;
  id = PROTECT(Rf_ScalarReal((double)work.job));
  work.job = 0;
  keep(ENV, R_NilValue);
  keep(CALL, R_NilValue);
  call_r("node_leave", id, R_NilValue);
  UNPROTECT(1);
}

/* R itself changes this variable, and fails where an element has locked it. */
static SEXP seed_symbol(void) {
  static SEXP symbol;
  if (!symbol) symbol = Rf_install(".Random.seed");
  if (R_existsVarInFrame(R_GlobalEnv, symbol) && R_BindingIsLocked(symbol, R_GlobalEnv)) R_unLockBinding(symbol, R_GlobalEnv);
  return symbol;
}

/* Whether all is there that node_enter() has prepared: the task before may have removed it, or left a sink behind. */
static int in_order(void) {
  if (sinks() != work.sinks || Rf_length(kept(ENV)) < work.n_env) return 0;
  return work.n_globals > 1000 || Rf_length(R_GlobalEnv) >= work.n_globals; /* which counts them */
}

/* From here on the workspace is as the job wants it. */
static void enter(uint64_t job) {
  SEXP id, how;
  if (work.job == job && in_order()) return;
  clu_work_leave();
  seed_symbol();
  id = PROTECT(Rf_ScalarReal((double)job));
  how = PROTECT(call_r("node_enter", id, R_NilValue)); /* list(env, call, relay, live) */
  keep(ENV, VECTOR_ELT(how, 0));
  keep(CALL, VECTOR_ELT(how, 1));
  work.relay = Rf_asLogical(VECTOR_ELT(how, 2)) == TRUE;
  clu_me.live = Rf_asLogical(VECTOR_ELT(how, 3)) == TRUE;
  work.job = job;
  work.sinks = sinks();
  work.n_globals = Rf_length(R_GlobalEnv);
  work.n_env = Rf_length(kept(ENV));
  UNPROTECT(2);
}

static int same_environment(SEXP old, char **env) {
  R_xlen_t i = 0;
  for (; env[i]; i++)
    if (i >= Rf_xlength(old) || strcmp(env[i], CHAR(STRING_ELT(old, i))) != 0) return 0;
  return i == Rf_xlength(old);
}

/* The environment variables, each as "name=value"; NULL: they are as in `old`. Sys.getenv() takes 50 us. */
SEXP ffi_work_environment(SEXP old) {
  static char *none[1];
  char **env = clu_os_environ();
  R_xlen_t n = 0;
  SEXP now;
  if (!env) env = none; /* clearenv() */
  if (old != R_NilValue && same_environment(old, env)) return R_NilValue;
  while (env[n]) n++;
  now = PROTECT(Rf_allocVector(STRSXP, n));
  for (R_xlen_t i = 0; i < n; i++) SET_STRING_ELT(now, i, Rf_mkCharCE(env[i], CE_NATIVE));
  UNPROTECT(1);
  return now;
}

/* ---- tasks ---- */

static SEXP element(SEXP x, uint32_t i) {
  switch (TYPEOF(x)) {
  case VECSXP: return VECTOR_ELT(x, i);
  case INTSXP: return Rf_ScalarInteger(INTEGER(x)[i]);
  case REALSXP: return Rf_ScalarReal(REAL(x)[i]);
  case LGLSXP: return Rf_ScalarLogical(LOGICAL(x)[i]);
  case STRSXP: return Rf_ScalarString(STRING_ELT(x, i));
  default: return R_NilValue;
  }
}

/* What is the variable's value and nobody else's is written to in place. */
static void set_stream(uint32_t i) {
  SEXP seed, symbol = seed_symbol();
  clu_stream_jump(work.stream, i - work.stream_at);
  work.stream_at = i;
#if R_VERSION >= R_Version(4, 5, 0)
  seed = R_getVarEx(symbol, R_GlobalEnv, FALSE, R_NilValue);
#else
  seed = Rf_findVarInFrame(R_GlobalEnv, symbol);
#endif
  if (TYPEOF(seed) != INTSXP || Rf_xlength(seed) != 7 || MAYBE_SHARED(seed) || ALTREP(seed) || clu_has_attributes(seed)) {
    seed = PROTECT(Rf_allocVector(INTSXP, 7));
    Rf_defineVar(symbol, seed, R_GlobalEnv);
    UNPROTECT(1);
  }
  INTEGER(seed)[0] = 10407; /* L'Ecuyer-CMRG, Inversion, Rejection: see ?RNGkind */
  memcpy(INTEGER(seed) + 1, work.stream, sizeof work.stream);
}

/* ---- results ---- */

void clu_work_tell(void) {
  if (!work.untold) return;
  work.untold = work.unread = 0;
  if (clu_chan_send(&clu_me.chan, CLU_K_RESULTS_READY, 0, NULL, CLU_NO_FD) == CLU_OK)
    while (clu_chan_flush(&clu_me.chan) == CLU_AGAIN) continue;
}

/* A task begins. */
static void look_at_clock(void) {
  work.began = clu_os_now();
  work.looked = clu_os_now_coarse();
  work.unlooked = 0;
}

/* It ends: when that is, about. To look at the clock costs a tenth of what the quickest tasks take, so of those only each
 * eighth does, or who sees that the coarse hand has moved; the others take what they take on average. */
static uint64_t end_of_task(void) {
  uint64_t now;
  if (work.mean < 2000 && work.mean && work.unlooked < 7 && clu_os_now_coarse() == work.looked) {
    work.unlooked++;
    return work.began + work.mean;
  }
  now = clu_os_now();
  if (now < work.began) now = work.began;
  work.looked = clu_os_now_coarse();
  work.unlooked = 0;
  return now;
}

/* Where a result can be left in the ring; NULL: it has to go by the socket. One that is full is about to be read
 * from, by a master that may only be waiting for this processor. */
static unsigned char *room(uint64_t now, uint64_t took) {
  clu_ring *r = clu_me.birth.ring;
  unsigned char *p;
  if (!r || (work.flags & CLU_TASKS_NO_RING) || clu_me.spoke || took > UINT32_MAX || *clu_me.birth.cancel == clu_me.seq) return NULL;
  if ((p = clu_ring_room(r, CLU_RING_MOST))) return p;
  clu_work_tell();
  while (!(p = clu_ring_room(r, CLU_RING_MOST)) && clu_os_now() - now < TELL / 8) clu_os_yield();
  return p;
}

/* Its value of `n` bytes is in the room `p`. The master is told at once, but of tasks so quick that it would have no time
 * for anything else: then now and then, and when there is nothing else to do. */
static void leave(unsigned char *p, uint32_t flags, size_t n, uint64_t now, uint64_t took) {
  clu_put32(p, flags);
  clu_put32(p + 4, (uint32_t)took);
  clu_put64(p + 8, clu_me.seq);
  clu_put64(p + 16, work.began);
  clu_ring_publish(clu_me.birth.ring, CLU_SMALL_HEAD + n);
  clu_me.seq = 0;
  clu_me.task = 0;
  work.mean = work.mean ? work.mean - work.mean / 8 + took / 8 : took + 1;
  if (!work.untold) work.untold = now;
  work.unread += CLU_SMALL_HEAD + 8 + n;
  if (work.mean > CLU_QUICK || now - work.untold > TELL || work.unread > CLU_RING_BYTES / 4 * 3) clu_work_tell();
}

static void send_bytes(uint32_t flags, SEXP value, uint64_t now, uint64_t took) {
  unsigned char head[CLU_RESULT_HEAD], *p;
  clu_blob *b = clu_blob_new(sizeof head + 64);
  if (!b) Rf_error("not enough memory");
  clu_put32(head, flags);
  clu_put32(head + 4, 0);
  clu_put64(head + 8, work.began);
  clu_put64(head + 16, took);
  clu_blob_append(b, head, sizeof head);
  b = clu_serialize(b, value);
  if (b->size - sizeof head <= MOST_SMALL && (p = room(now, took))) {
    memcpy(p + CLU_SMALL_HEAD, b->data + sizeof head, b->size - sizeof head);
    leave(p, flags, b->size - sizeof head, now, took);
  } else {
    work.untold = work.unread = 0; /* this message says so, too */
    clu_node_answer(CLU_K_RESULT, b);
  }
  clu_blob_unref(b);
}

static void send_result(uint32_t flags, SEXP value) {
  uint64_t now = end_of_task(), took = now - work.began;
  SEXP log = work.relay ? PROTECT(clu_relay_take()) : PROTECT(R_NilValue);
  unsigned char *p;
  size_t n;
  if (log != R_NilValue) {
    SEXP both = PROTECT(Rf_allocVector(VECSXP, 2));
    SET_VECTOR_ELT(both, 0, value);
    SET_VECTOR_ELT(both, 1, log);
    UNPROTECT(1);
    value = both;
    flags |= CLU_RESULT_LOG;
  }
  work.slow = took > SLOW;
  PROTECT(value);
  if ((p = room(now, took)) && (n = clu_plain_bare(p + CLU_SMALL_HEAD, MOST_SMALL, value)) > 0)
    leave(p, flags | CLU_RESULT_BARE, n, now, took);
  else
    send_bytes(flags, value, now, took);
  work.began = now; /* the next one follows at once */
  UNPROTECT(2);
}

/* Where memory is limited, what is garbage when a task begins was left by others, and this one would die of it. */
static void collect_garbage(void) {
  int64_t has, most;
  if (!work.may_have || !work.slow) return;
  most = clu_os_process_memory(clu_os_getpid(), INT64_MAX);
  if (most < work.seen) work.seen = most;
  if (most < work.may_have / 2 || most < work.seen + work.may_have / 8) return;
  has = clu_os_process_memory(clu_os_getpid(), -1); /* takes long: not before each task */
  work.seen = most;
  if (has < work.needs) work.needs = has;
  if (has < work.may_have / 2 || has < work.needs + work.may_have / 8) return;
  clu_work_tell(); /* it takes its time */
  R_gc();
  clu_os_release_memory();
  work.needs = clu_os_process_memory(clu_os_getpid(), -1);
  work.seen = clu_os_process_memory(clu_os_getpid(), INT64_MAX);
  work.began = 0;
}

static void one(void) {
  static SEXP x_symbol;
  uint32_t i = work.pos++;
  SEXP value;
  collect_garbage();
  if (!clu_claim_start(clu_me.birth.claim, work.seq + i)) return; /* taken back */
  clu_me.seq = work.seq + i;
  work.claimed = 1;
  clu_me.spoke = 0;
  clu_me.task = CLU_TASK_QUIET;
  clu_relay_drop(); /* of one that was interrupted */
  if (!work.began) look_at_clock();
  if (!work.have) Rf_error("the elements of these tasks could not be read");
  enter(work.of);
  if (work.relay) clu_me.task = CLU_TASK_RELAYED;
  if (work.flags & CLU_TASKS_SEEDED) set_stream(i);
  if (!x_symbol) x_symbol = Rf_install(".x");
  if (!(work.flags & CLU_TASKS_BARE)) {
    value = PROTECT(element(kept(ELEMENTS), i));
    Rf_defineVar(x_symbol, value, kept(ENV));
    UNPROTECT(1);
  }
  clu_me.running = 1;
  if (*clu_me.birth.cancel == clu_me.seq) { /* it came before the task began */
    clu_me.seen = clu_me.seq;
    clu_node_stop_running();
    clu_node_answer(CLU_K_CANCELLED, NULL);
    return;
  }
  value = PROTECT(R_forceAndCall(kept(CALL), work.flags & CLU_TASKS_BARE ? 0 : 1, kept(ENV)));
  clu_node_stop_running();
  send_result(0, value);
  UNPROTECT(1);
}

/* Nothing unlocks the workspace again: another process goes on with the next task. */
static void end_if_locked(void) {
  if (clu_me.seq || !R_EnvironmentIsLocked(R_GlobalEnv)) return;
  clu_work_tell();
  clu_me.over = clu_me.asked = 1;
}

int clu_work_go_on(void) {
  if (work.pos >= work.n) return 0;
  work.began = 0;
  work.slow = 1; /* nobody knows what calls did before */
  while (work.pos < work.n && !clu_me.over) {
    one();
    end_if_locked();
  }
  work.n = work.pos = 0;
  keep(ELEMENTS, R_NilValue);
  return 1;
}

void clu_work_failed(SEXP failure) {
  if (!work.began) look_at_clock();
  if (!work.claimed && !clu_claim_start(clu_me.birth.claim, clu_me.seq)) {
    clu_me.seq = 0;
    clu_me.task = 0;
    return;
  }
  work.claimed = 1;
  send_result(CLU_RESULT_ERROR, failure);
  end_if_locked();
}

/* What was being read when `failure` happened, outside of any task: the job, all of whose tasks will fail. */
SEXP ffi_work_unreadable(SEXP failure) {
  SEXP id;
  if (!work.reading) return R_NilValue;
  id = PROTECT(Rf_ScalarReal((double)work.reading));
  work.reading = 0;
  call_r("node_job", id, failure);
  UNPROTECT(1);
  return R_NilValue;
}

/* How often the task at hand was started, this time included; NA outside of tasks. */
SEXP ffi_task_attempt(void) {
  return Rf_ScalarInteger(clu_me.task ? (int)work.attempt : NA_INTEGER);
}
