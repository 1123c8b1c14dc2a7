/* A node's tasks. They arrive in batches, and are claimed, evaluated and answered one by one.
 *
 * An error in a task jumps out of the loop in node-loop.c, as that of a call does. So all state is
 * here in one static struct, and clu_work_go_on() continues with the task after the one that
 * jumped.
 */
#include "r/node/node.h"

#include <Rversion.h>
#include <string.h>

#include "core/base/os.h"
#include "core/base/rng-stream.h"
#include "core/wire/task-message.h"
#include "r/serialize/travel.h"

#define TELL_AFTER 2400000 /* ns that a result may lie in the ring before the session is told */
#define SLOW 100000        /* ns: what takes less does not fill much memory */
#define SEED_KIND 10407    /* L'Ecuyer-CMRG, Inversion, Rejection: see ?RNGkind */
#define MOST_IN_RING (CLU_RING_MOST - CLU_RING_RESULT_HEAD)

static struct {
  SEXP cell;        /* preserved, holds the elements of the batch at hand */
  uint64_t reading; /* a job whose description is being read */
  uint64_t over;    /* a job of which no more tasks will come; 0: none */
  /* the batch at hand */
  uint64_t job, first; /* of which job, number of its first task */
  uint32_t n, next, attempt, flags;
  int readable;       /* the elements could be read */
  uint32_t stream[6]; /* random stream of the task `stream_at` */
  uint32_t stream_at;
  int claimed; /* the task that clu_me.seq is */
  /* the clock */
  uint64_t began;     /* the task at hand; 0: it begins now */
  uint64_t late;      /* ns that the answer before it took, where that went by the socket */
  uint64_t mean;      /* of what a task takes, in ns, lately */
  uint64_t coarse;    /* the coarse clock when the fine one was read last */
  uint32_t estimated; /* tasks since then */
  /* memory */
  int64_t may_have; /* bytes of memory of this process; 0: no limit */
  int64_t needs;    /* bytes of it that were no garbage, when that was found out */
  int64_t peak;     /* and its upper estimate then */
  int slow;         /* the last task took long enough to leave much garbage */
  /* the ring */
  uint64_t untold; /* since when there are results in the ring that the session was not told of; 0:
                      none */
  uint64_t unread; /* bytes of them */
} work;

static void keep_elements(SEXP x) {
  if (!work.cell) {
    PROTECT(x);
    R_PreserveObject(work.cell = Rf_cons(R_NilValue, R_NilValue));
    UNPROTECT(1);
  }
  SETCAR(work.cell, x);
}

/* ---- messages ---- */

/* The function apart, if it travels so, then the rest, see core/wire/task-message.h. */
static SEXP read_description(void) {
  unsigned char len[4];
  SEXP fun = R_NilValue, x;
  uint32_t n;
  clu_node_read(len, sizeof len);
  n = clu_get32(len);
  if (n > 0) fun = clu_node_read_function(n);
  PROTECT(fun);
  x = PROTECT(clu_node_read_object(clu_me.chan.cur.total - clu_me.chan.read));
  if (TYPEOF(x) != VECSXP || Rf_xlength(x) != CLU_JOB_PARTS)
    clu_raise("protocol", "the description of a job arrived damaged");
  if (n > 0) SET_VECTOR_ELT(x, CLU_JOB_FUN, fun);
  UNPROTECT(2);
  return x;
}

static void take_job(const clu_msg *m) {
  work.reading = m->seq;
  clu_node_get_ready(0);
  clu_job_put(m->seq, read_description());
  work.reading = 0;
}

static void take_given(const clu_msg *m) {
  work.reading = m->seq;
  clu_node_get_ready(0);
  clu_job_read_given(m->seq);
  work.reading = 0;
}

static void take_tasks(const clu_msg *m) {
  unsigned char head[CLU_TASKS_HEAD];
  uint64_t left;
  clu_node_read(head, sizeof head);
  work.job = clu_get64(head);
  work.n = clu_get32(head + 8);
  work.attempt = clu_get32(head + 12);
  work.flags = clu_get32(head + 16);
  work.may_have = (int64_t)clu_get32(head + 20) * 1048576;
  for (int i = 0; i < 6; i++) work.stream[i] = clu_get32(head + 24 + 4 * i);
  work.stream_at = work.next = 0;
  work.first = m->seq;
  work.readable = 0;
  if (work.flags & CLU_TASKS_GRANT)
    clu_grant_read();
  else
    clu_grant_none();
  left = clu_me.chan.cur.total - clu_me.chan.read;
  if (work.flags & CLU_TASKS_BARE) {
    keep_elements(R_NilValue);
  } else {
    SEXP x;
    clu_me.task = CLU_TASK_QUIET;
    clu_me.seq = m->seq; /* an error is the answer to the first, and then to each */
    work.claimed = 0;
    work.next = 1;
    x = clu_node_read_object(left);
    keep_elements(x);
    if ((uint64_t)Rf_xlength(x) < work.n) clu_raise("protocol", "tasks arrived incomplete");
    work.next = 0;
    clu_me.seq = 0;
    clu_me.task = CLU_TASK_NONE;
  }
  work.readable = 1;
}

void clu_work_take(const clu_msg *m) {
  if (m->kind == CLU_K_TASKS) {
    take_tasks(m);
  } else if (m->kind == CLU_K_JOB) {
    take_job(m);
  } else if (m->kind == CLU_K_GIVEN) {
    take_given(m);
  } else {
    if (clu_job_is_entered(m->seq)) clu_job_leave();
    clu_job_forget(m->seq);
  }
}

void clu_work_rest(void) {
  uint64_t job = work.over;
  if (!job) return;
  work.over = 0;
  clu_job_forget(job);
  if (clu_job_is_entered(job)) clu_job_leave();
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

/* Puts the stream of task `i` into .Random.seed: in place where nothing else refers to that vector.
 */
static void set_stream(uint32_t i) {
  SEXP seed, symbol = clu_job_seed_symbol();
  clu_stream_jump(work.stream, i - work.stream_at);
  work.stream_at = i;
  seed = clu_variable(symbol, R_GlobalEnv);
  if (TYPEOF(seed) != INTSXP || Rf_xlength(seed) != 7 || MAYBE_SHARED(seed) || ALTREP(seed) ||
      clu_has_attributes(seed)) {
    seed = PROTECT(Rf_allocVector(INTSXP, 7));
    Rf_defineVar(symbol, seed, R_GlobalEnv);
    UNPROTECT(1);
  }
  INTEGER(seed)[0] = SEED_KIND;
  memcpy(INTEGER(seed) + 1, work.stream, sizeof work.stream);
}

/* ---- results ---- */

void clu_work_tell(void) {
  if (!work.untold) return;
  work.untold = work.unread = 0;
  if (!clu_ring_must_tell(clu_me.boot.ring)) return;
  if (clu_chan_send(&clu_me.chan, CLU_K_RESULTS_READY, 0, NULL, CLU_NO_FD) != CLU_OK)
    clu_ring_heard(clu_me.boot.ring); /* the next one tells */
  else
    while (clu_chan_flush(&clu_me.chan) == CLU_AGAIN) continue;
}

/* A task begins. */
static void read_clock(void) {
  work.began = clu_os_now();
  work.coarse = clu_os_now_coarse();
  work.estimated = 0;
}

/* A task ends: the time, estimated for quick tasks. To read the clock costs a tenth of what the
 * quickest tasks take. So of these only each eighth reads it, or the one that finds that the coarse
 * clock has changed; the others count with the mean. */
static uint64_t time_of_end(void) {
  uint64_t now;
  if (work.mean < 2000 && work.mean && work.estimated < 7 && clu_os_now_coarse() == work.coarse) {
    work.estimated++;
    return work.began + work.mean;
  }
  now = clu_os_now();
  if (now < work.began) now = work.began;
  work.coarse = clu_os_now_coarse();
  work.estimated = 0;
  return now;
}

/* Where a result can be written in the ring; NULL: it has to go by the socket. A full ring is
 * waited for a little: the session is about to read it, and may only be waiting for this processor.
 */
static unsigned char *ring_room(uint64_t now, uint64_t took) {
  clu_ring *r = clu_me.boot.ring;
  unsigned char *p;
  if (!r || (work.flags & CLU_TASKS_NO_RING) || clu_me.has_relayed) return NULL;
  if (took > UINT32_MAX || *clu_me.boot.cancel == clu_me.seq) return NULL;
  if ((p = clu_ring_room(r, CLU_RING_MOST))) return p;
  clu_work_tell();
  while (!(p = clu_ring_room(r, CLU_RING_MOST)) && clu_os_now() - now < TELL_AFTER / 8)
    clu_os_yield();
  return p;
}

/* Tells whether the session is to be told now of what is in the ring. To wake it takes 50 us of
 * both processors together: of 10,000 tasks of 0.4 ms on two nodes a tenth. So of a map's tasks
 * that are quick it is told now and then, and when there is nothing else to do. At once it is told
 * of an error, of a task that came alone, to see how long these take, and of submitted tasks: the
 * next may take long, and the session may sleep until it is told. */
static int has_to_tell(uint32_t flags, uint64_t now) {
  if ((work.flags & CLU_TASKS_BARE) || (flags & CLU_RESULT_ERROR)) return 1;
  if (work.mean > (work.n == 1 ? CLU_QUICK : TELL_AFTER / 2)) return 1;
  return now - work.untold > TELL_AFTER || work.unread > CLU_RING_BYTES / 4 * 3;
}

/* Completes the result in the ring whose value, `n` bytes, is behind the head at `p`. */
static void put_in_ring(unsigned char *p, uint32_t flags, size_t n, uint64_t now, uint64_t took) {
  clu_put32(p, flags);
  clu_put32(p + 4, (uint32_t)took);
  clu_put64(p + 8, clu_me.seq);
  clu_put64(p + 16, work.began);
  clu_ring_publish(clu_me.boot.ring, CLU_RING_RESULT_HEAD + n);
  clu_activity_end(clu_me.boot.activity);
  work.late = 0;
  clu_me.seq = 0;
  clu_me.task = CLU_TASK_NONE;
  work.mean = work.mean ? work.mean - work.mean / 8 + took / 8 : took + 1;
  if (!work.untold) work.untold = now;
  work.unread += CLU_RING_RESULT_HEAD + 8 + n;
  if (has_to_tell(flags, now)) clu_work_tell();
}

static SEXP with_log(SEXP value, SEXP log) {
  SEXP both = Rf_allocVector(VECSXP, 2);
  SET_VECTOR_ELT(both, 0, value);
  SET_VECTOR_ELT(both, 1, log);
  return both;
}

/* The log apart is no format of R's: what is recorded has none. */
static size_t bare(unsigned char *p, size_t n, SEXP value, SEXP log) {
  if (log == R_NilValue) return clu_plain_bare(p, n, value);
  return work.flags & CLU_TASKS_RECORDED ? 0 : clu_log_bare(p, n, value, log);
}

/* The state of the generator, which R makes anew whenever it has drawn: held until the task has
 * ended, or another object could have its place. */
static SEXP state_before(void) {
  static SEXP cell;
  if (!cell) R_PreserveObject(cell = Rf_cons(R_NilValue, R_NilValue));
  return cell;
}

/* Tells whether the task has used random numbers, or set others: the state is not what it got. */
static int has_drawn(void) {
  SEXP seed = clu_variable(clu_job_seed_symbol(), R_GlobalEnv);
  if (!(work.flags & CLU_TASKS_SEEDED)) return seed != CAR(state_before());
  if (TYPEOF(seed) != INTSXP || Rf_xlength(seed) != 7 || INTEGER(seed)[0] != SEED_KIND) return 1;
  return memcmp(INTEGER(seed) + 1, work.stream, sizeof work.stream) != 0;
}

/* Room for the head, then the value with its log. */
static clu_blob *bytes_of(SEXP value, SEXP log) {
  static const unsigned char head[CLU_RESULT_HEAD];
  SEXP x = PROTECT(log == R_NilValue ? value : with_log(value, log));
  clu_blob *b = clu_blob_new(sizeof head + 64);
  if (!b) clu_raise("memory", "not enough memory");
  clu_blob_append(b, head, sizeof head); /* there is room */
  clu_serialized_pointer();
  b = work.flags & CLU_TASKS_RECORDED ? clu_serialize(b, x) : clu_node_serialize(b, x);
  UNPROTECT(1);
  return b;
}

/* The bytes for a value that has a pointer, or may have what a recipe takes: `b`, which it was
 * written to, or others. */
static clu_blob *checked_bytes(clu_blob *b, SEXP value, SEXP log, uint32_t *flags) {
  SEXP other = PROTECT(clu_travel_in_place(value, b)), more;
  more = PROTECT(clu_job_relays() ? clu_relay_take() : R_NilValue);
  if (other == R_NilValue && more == R_NilValue) {
    UNPROTECT(2);
    return b;
  }
  clu_blob_unref(b);
  log = PROTECT(clu_travel_logs(log, more));
  if (log != R_NilValue) *flags |= CLU_RESULT_LOG;
  if (Rf_isObject(other)) {
    *flags |= CLU_RESULT_ERROR;
    value = other;
  } else if (other != R_NilValue) {
    value = VECTOR_ELT(other, 0);
  }
  b = bytes_of(value, log);
  UNPROTECT(3);
  return b;
}

/* Tells whether the next task begins when this one has ended: else the answer has taken time, which
 * is not that task's. */
static int send_bytes(uint32_t flags, SEXP value, SEXP log, uint64_t now, uint64_t took) {
  clu_blob *b = bytes_of(value, log);
  unsigned char *p;
  size_t n;
  if ((clu_serialized_pointer() || clu_travel_has_recipes()) && !(flags & CLU_RESULT_ERROR))
    b = checked_bytes(b, value, log, &flags);
  clu_put32(b->data, flags);
  clu_put32(b->data + 4, (uint32_t)(work.late / 1000));
  clu_put64(b->data + 8, work.began);
  clu_put64(b->data + 16, took);
  n = b->size - CLU_RESULT_HEAD;
  if (!b->segments && n <= MOST_IN_RING && (p = ring_room(now, took))) {
    memcpy(p + CLU_RING_RESULT_HEAD, b->data + CLU_RESULT_HEAD, n);
    put_in_ring(p, flags, n, now, took);
    clu_blob_unref(b);
    return 1;
  }
  work.untold = work.unread =
      0; /* the session looks into the ring when it gets this message, too */
  clu_node_answer(CLU_K_RESULT, b);
  clu_blob_unref(b);
  work.late = clu_os_now() - now;
  if (work.late / 1000 > UINT32_MAX) work.late = 0;
  return 0;
}

static void send_result(uint32_t flags, SEXP value) {
  uint64_t now = time_of_end(), took = now - work.began, next = now; /* it follows at once */
  SEXP log = clu_job_relays() ? PROTECT(clu_relay_take()) : PROTECT(R_NilValue);
  unsigned char *p = ring_room(now, took);
  size_t n = 0;
  if (clu_stack_is_ending()) clu_os_end_self(); /* an interrupt has changed what the task did */
  if (log != R_NilValue) flags |= CLU_RESULT_LOG;
  if ((work.flags & CLU_TASKS_RECORDED) && has_drawn()) flags |= CLU_RESULT_DREW;
  work.slow = took > SLOW;
  if (work.flags & CLU_TASKS_ONLY) work.over = work.job;
  if (p) n = bare(p + CLU_RING_RESULT_HEAD, MOST_IN_RING, value, log);
  if (n > 0)
    put_in_ring(p, flags | CLU_RESULT_BARE, n, now, took);
  else if (!send_bytes(flags, value, log, now, took))
    next = 0;
  work.began = next;
  UNPROTECT(1);
}

/* Where memory is limited: what is garbage when a task begins was left by others, and would be
 * counted against this one. */
static void collect_garbage(void) {
  int64_t has, most;
  if (!work.may_have || !work.slow) return;
  most = clu_os_process_memory(clu_os_getpid(), INT64_MAX);
  if (most < work.peak) work.peak = most;
  if (most < work.may_have / 2 || most < work.peak + work.may_have / 8) return;
  has = clu_os_process_memory(clu_os_getpid(), -1); /* takes long: not before each task */
  work.peak = most;
  if (has < work.needs) work.needs = has;
  if (has < work.may_have / 2 || has < work.needs + work.may_have / 8) return;
  clu_work_tell();              /* the collection takes long */
  for (int k = 0; k < 2; k++) { /* see give-back.c */
    R_gc();
    clu_os_release_memory();
    work.needs = clu_os_process_memory(clu_os_getpid(), -1);
    if (work.needs < work.may_have / 2) break;
  }
  work.peak = clu_os_process_memory(clu_os_getpid(), INT64_MAX);
  work.began = 0;
}

/* Where each task has a fresh workspace, what this one has changed is put back. */
static void end_task(void) {
  if (R_EnvironmentIsLocked(R_GlobalEnv)) return; /* see end_if_locked() */
  if (clu_job_end_task()) work.began = 0;         /* the time for that is not the next one's */
}

static void do_task(void) {
  static SEXP x_symbol;
  uint32_t i = work.next++;
  SEXP value;
  collect_garbage();
  if (!clu_claim_start(clu_me.boot.claim, work.first + i)) return; /* taken back */
  clu_me.seq = work.first + i;
  work.claimed = 1;
  clu_me.has_relayed = 0;
  clu_me.task = CLU_TASK_QUIET;
  clu_relay_drop(); /* what a task left that was interrupted */
  if (!work.began) read_clock();
  clu_activity_begin(clu_me.boot.activity, clu_me.seq, work.began);
  if (!work.readable) clu_raise("protocol", "the elements of these tasks could not be read");
  clu_job_enter(work.job, (work.flags & CLU_TASKS_SEEDED) != 0, (work.flags & CLU_TASKS_BARE) != 0);
  clu_stack_keep_last(work.may_have > 0 && clu_job_frozen()[0] > 0);
  if (clu_job_relays()) clu_me.task = CLU_TASK_RELAYED;
  if (work.flags & CLU_TASKS_SEEDED)
    set_stream(i);
  else if (work.flags & CLU_TASKS_RECORDED)
    SETCAR(state_before(), clu_variable(clu_job_seed_symbol(), R_GlobalEnv));
  if (!x_symbol) x_symbol = Rf_install(".x");
  if (!(work.flags & CLU_TASKS_BARE)) {
    value = element(CAR(work.cell), i);
    if (clu_is_packed(value)) value = clu_unpack("unpack", value);
    PROTECT(value);
    Rf_defineVar(x_symbol, value, clu_job_env());
    UNPROTECT(1);
  }
  clu_me.running = 1;
  if (*clu_me.boot.cancel == clu_me.seq) { /* cancelled before it began */
    clu_me.cancel_seen = clu_me.seq;
    clu_node_stop_running();
    clu_node_answer(CLU_K_CANCELLED, NULL);
    return;
  }
  value =
      PROTECT(R_forceAndCall(clu_job_call(), work.flags & CLU_TASKS_BARE ? 0 : 1, clu_job_env()));
  clu_node_stop_running();
  clu_console_end_task();
  clu_frozen_drop();
  send_result(0, value);
  UNPROTECT(1);
  end_task();
}

/* Nothing unlocks a workspace that a task has locked. This process ends, and another one does the
 * next task. */
static void end_if_locked(void) {
  if (clu_me.seq || !R_EnvironmentIsLocked(R_GlobalEnv)) return;
  clu_work_tell();
  clu_me.closed = clu_me.asked_to_end = 1;
}

int clu_work_go_on(void) {
  if (work.next >= work.n) return 0;
  if (work.next == 0) clu_work_rest();
  work.began = work.late = 0;
  work.slow = 1; /* it is not known what calls did before */
  while (work.next < work.n && !clu_me.closed) {
    if (clu_work_besides()) work.began = 0;
    do_task();
    end_if_locked();
  }
  work.n = work.next = 0;
  keep_elements(R_NilValue);
  return 1;
}

void clu_work_failed(SEXP failure) {
  if (!work.began) read_clock();
  if (!work.claimed && !clu_claim_start(clu_me.boot.claim, clu_me.seq)) {
    clu_me.seq = 0;
    clu_me.task = CLU_TASK_NONE;
    return;
  }
  work.claimed = 1;
  send_result(CLU_RESULT_ERROR, failure);
  end_if_locked();
  end_task();
}

/* An error outside of any task, while the description of a job was read: all tasks of that job fail
 * with it. */
SEXP ffi_work_unreadable(SEXP failure) {
  uint64_t job = work.reading;
  if (!job) return R_NilValue;
  work.reading = 0;
  clu_job_put(job, failure);
  return R_NilValue;
}

/* How often the task at hand was started, this time included; NA outside of tasks. */
SEXP ffi_task_attempt(void) {
  return Rf_ScalarInteger(clu_me.task ? (int)work.attempt : NA_INTEGER);
}

/* The state of the random numbers is now that of the task at hand: what was done to it before does
 * not count as use. */
SEXP ffi_task_state_begins(void) {
  SETCAR(state_before(), clu_variable(clu_job_seed_symbol(), R_GlobalEnv));
  return R_NilValue;
}
