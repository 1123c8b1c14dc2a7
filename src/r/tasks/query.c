/* This file has what R asks of a job, and of the work of a cluster as a whole. */
#include <string.h>

#include "core/base/rng-stream.h"
#include "r/tasks/tasks.h"
#include "core/tasks/queued.h"

#define MOST_STACK 100000 /* bytes of text of what a task was in; a node sends less */

/* ---- a job ---- */

/* A list of numbers. Tasks: `left` (not ended), `waiting` (with no node), `answered`; `time`:
 * seconds of one, as measured; bytes of batches and results: `bytes_out`, `bytes_in`;
 * `message_bytes`: of what each node gets once; `failures`; `number`: the job's. */
SEXP ffi_job_state(SEXP job) {
  static const char *names[] = {"left",     "waiting",       "answered", "time",   "bytes_out",
                                "bytes_in", "message_bytes", "failures", "number", ""};
  const clu_task_job *j = clu_job_get(job);
  clu_task_counts c = clu_task_job_counts(j);
  SEXP out = PROTECT(Rf_mkNamed(VECSXP, names));
  double v[9] = {(double)c.left,
                 (double)c.waiting,
                 (double)c.answered,
                 1e-9 * (double)c.time_ns,
                 (double)c.bytes_out,
                 (double)c.bytes_in,
                 (double)clu_task_job_message_weight(j),
                 (double)c.failures,
                 (double)clu_task_job_number(j)};
  for (int i = 0; i < 9; i++) SET_VECTOR_ELT(out, i, Rf_ScalarReal(v[i]));
  UNPROTECT(1);
  return out;
}

/* When the last of its tasks ended, in seconds: of two jobs the one that ended first has less,
 * whenever the session has read of it. */
SEXP ffi_job_finished(SEXP job) {
  return Rf_ScalarReal(1e-9 * (double)clu_task_job_finished(clu_job_get(job)));
}

/* How many elements at the beginning have all ended. */
SEXP ffi_job_ready(SEXP job) {
  clu_task_job *j = clu_job_get(job);
  clu_job_take_results(j);
  return Rf_ScalarReal((double)clu_task_job_ready(j));
}

/* list(values, logs) as they are now; logs is NULL while no task has said anything. */
SEXP ffi_job_values(SEXP job) {
  static const char *names[] = {"values", "logs", ""};
  clu_task_job *j = clu_job_get(job);
  SEXP prot = R_ExternalPtrProtected(job), out;
  clu_job_take_results(j);
  if (clu_task_job_is_incomplete(j)) clu_raise("memory", "not enough memory for the results");
  out = PROTECT(Rf_mkNamed(VECSXP, names));
  SET_VECTOR_ELT(out, 0, VECTOR_ELT(prot, 2));
  SET_VECTOR_ELT(out, 1, VECTOR_ELT(prot, 3));
  UNPROTECT(1);
  return out;
}

/* The values, if all tasks have ended, none has failed, and nothing was said; else NULL. */
SEXP ffi_job_plain_values(SEXP job) {
  clu_task_job *j = clu_job_get(job);
  SEXP prot = R_ExternalPtrProtected(job);
  clu_job_take_results(j);
  if (clu_task_job_ready(j) < clu_task_job_size(j) || clu_task_job_counts(j).failures > 0 ||
      clu_task_job_has_relay(j) || clu_task_job_is_incomplete(j) ||
      VECTOR_ELT(prot, 3) != R_NilValue)
    return R_NilValue;
  return VECTOR_ELT(prot, 2);
}

/* The values of a job that has not begun are taken by ffi_job_let_go(), in order. So many bytes of
 * them may wait for others that are before them. */
SEXP ffi_job_in_order(SEXP job, SEXP bytes) {
  if (clu_task_job_in_order(clu_job_get(job), (uint64_t)Rf_asReal(bytes)) != CLU_OK)
    clu_raise("memory", "not enough memory");
  return R_NilValue;
}

/* The values that follow those which were taken before, as far as all before them have ended, and
 * without those of elements that have failed: a list, which is the only one to have them. NULL:
 * there are none. */
SEXP ffi_job_let_go(SEXP job) {
  clu_task_job *j = clu_job_get(job);
  SEXP prot = R_ExternalPtrProtected(job), out, values;
  uint64_t from = clu_task_job_gone(j), to;
  R_xlen_t n = 0;
  clu_job_take_results(j);
  if (clu_task_job_is_incomplete(j)) clu_raise("memory", "not enough memory for the results");
  to = clu_task_job_ready(j);
  if (to <= from) return R_NilValue;
  values = VECTOR_ELT(prot, 2);
  out = PROTECT(Rf_allocVector(VECSXP, (R_xlen_t)(to - from)));
  for (uint64_t i = from; i < to; i++) {
    if (clu_task_job_has_failed(j, i)) continue;
    SET_VECTOR_ELT(out, n++, VECTOR_ELT(values, (R_xlen_t)i));
    SET_VECTOR_ELT(values, (R_xlen_t)i, R_NilValue);
  }
  if (n < Rf_xlength(out)) out = Rf_xlengthgets(out, n);
  clu_task_job_let_go(j, to);
  UNPROTECT(1);
  return out;
}

/* Bytes of what each node gets once. */
SEXP ffi_job_size(SEXP job) {
  return Rf_ScalarReal((double)clu_task_job_message_size(clu_job_get(job)));
}

/* Bytes of that, and of what travels with it by shared memory. */
SEXP ffi_job_weight(SEXP job) {
  return Rf_ScalarReal((double)clu_task_job_message_weight(clu_job_get(job)));
}

/* Bytes that submitted tasks take in this session until they have ended. */
SEXP ffi_tasks_queued(SEXP x) {
  return Rf_ScalarReal((double)clu_engine_queued_bytes(clu_tasks_get(x)));
}

/* The job of the one that was submitted before all others; NULL: there is none. */
SEXP ffi_tasks_oldest(SEXP x) {
  clu_task_job *j = clu_engine_oldest_task(clu_tasks_get(x));
  return j ? (SEXP)clu_task_job_caller(j) : R_NilValue;
}

static const char *why_name(int why) {
  switch (why) {
  case CLU_END_DIED: return "died";
  case CLU_END_TIMEOUT: return "timeout";
  case CLU_END_CANCELLED: return "cancelled";
  default: return "error"; /* it was answered: the value is the error */
  }
}

static SEXP stack_of(const clu_task_failure *f) {
  const clu_blob *b = f->stack;
  if (!b || b->size > MOST_STACK || memchr(b->data, 0, b->size)) return NA_STRING;
  return Rf_mkCharLenCE((const char *)b->data, (int)b->size, CE_UTF8);
}

/* Failures from number `from` (0, 1, ...) on: a list of vectors. `why`: "error" (its value says
 * more), "died" (of the death with number `cause`), "timeout", "cancelled". `stack`: the calls in
 * which it was interrupted, a line each; NA: not known. */
SEXP ffi_job_failures(SEXP job, SEXP from) {
  static const char *names[] = {"element", "why", "cause", "node", "attempt", "stack", ""};
  clu_task_job *j = clu_job_get(job);
  size_t k = (size_t)Rf_asReal(from), known;
  const clu_task_failure *all = clu_task_job_failures(j, &known);
  int n = known > k ? (int)(known - k) : 0;
  SEXP out = PROTECT(Rf_mkNamed(VECSXP, names));
  SET_VECTOR_ELT(out, 0, Rf_allocVector(REALSXP, n));
  SET_VECTOR_ELT(out, 1, Rf_allocVector(STRSXP, n));
  for (int c = 2; c < 5; c++) SET_VECTOR_ELT(out, c, Rf_allocVector(INTSXP, n));
  SET_VECTOR_ELT(out, 5, Rf_allocVector(STRSXP, n));
  for (int i = 0; i < n; i++) {
    const clu_task_failure *f = &all[k + (size_t)i];
    REAL(VECTOR_ELT(out, 0))[i] = (double)f->task + 1;
    SET_STRING_ELT(VECTOR_ELT(out, 1), i, Rf_mkChar(why_name(f->why)));
    INTEGER(VECTOR_ELT(out, 2))[i] = f->cause;
    INTEGER(VECTOR_ELT(out, 3))[i] = f->node + 1;
    INTEGER(VECTOR_ELT(out, 4))[i] = (int)f->attempt;
    SET_STRING_ELT(VECTOR_ELT(out, 5), i, stack_of(f));
  }
  UNPROTECT(1);
  return out;
}

/* Returns the stream of its first task, six integers; NULL: tasks have none of their own. */
SEXP ffi_job_stream(SEXP job) {
  const uint32_t *stream = clu_task_job_stream(clu_job_get(job));
  SEXP out;
  if (!stream) return R_NilValue;
  out = Rf_allocVector(INTSXP, 6);
  memcpy(INTEGER(out), stream, 6 * sizeof *stream);
  return out;
}

/* A job keeps what it works with, for R/task-failed.R, until it is given up. */
SEXP ffi_job_keep(SEXP job, SEXP work) {
  clu_job_get(job);
  SET_VECTOR_ELT(R_ExternalPtrProtected(job), 5, work);
  return R_NilValue;
}
SEXP ffi_job_kept(SEXP job) {
  clu_job_get(job);
  return VECTOR_ELT(R_ExternalPtrProtected(job), 5);
}

/* From now on its conditions go to `handler`, an environment: see R/task-relay.R. */
SEXP ffi_job_hear(SEXP job, SEXP handler) {
  clu_task_job *j = clu_job_get(job);
  SET_VECTOR_ELT(R_ExternalPtrProtected(job), 4, handler);
  clu_task_job_hear(j);
  return R_NilValue;
}

SEXP ffi_job_handler(SEXP job) {
  clu_job_get(job);
  return VECTOR_ELT(R_ExternalPtrProtected(job), 4);
}

/* The jobs of which something has come for their handler. */
SEXP ffi_tasks_unheard(SEXP x) {
  clu_engine *t = clu_tasks_get(x);
  clu_task_job *j = NULL;
  SEXP out;
  R_xlen_t n = 0;
  while ((j = clu_engine_next_unheard(t, j))) n++;
  out = PROTECT(Rf_allocVector(VECSXP, n));
  for (R_xlen_t i = 0; i < n && (j = clu_engine_next_unheard(t, j)); i++)
    SET_VECTOR_ELT(out, i, (SEXP)clu_task_job_caller(j));
  UNPROTECT(1);
  return out;
}

/* Its handler is at work from now on, or not any more. It may wait for other tasks, or for this
 * one: what it cannot be handed now is no news for who waits there. */
SEXP ffi_job_hearing(SEXP job, SEXP now) {
  clu_task_job_hearing(clu_job_get(job), Rf_asLogical(now) == TRUE);
  return R_NilValue;
}

/* The next piece of live output or condition: list(element, piece), where `piece` is text or a
 * condition; or NULL. */
SEXP ffi_job_relay(SEXP job) {
  static const char *names[] = {"element", "piece", ""};
  clu_task_job *j = clu_job_get(job);
  clu_blob *body;
  uint64_t task;
  SEXP out, piece;
  if (!clu_task_job_next_relay(j, &task, &body)) return R_NilValue;
  out = PROTECT(Rf_mkNamed(VECSXP, names));
  if (!body || body->size < 1) {
    clu_blob_unref(body);
    UNPROTECT(1);
    return out;
  }
  if (body->data[0] == 1) {
    piece = clu_unserialize(body, 1); /* gives the body back */
  } else {
    piece =
        Rf_ScalarString(Rf_mkCharLenCE((char *)body->data + 1, (int)(body->size - 1), CE_NATIVE));
    clu_blob_unref(body);
  }
  SET_VECTOR_ELT(out, 1, piece);
  SET_VECTOR_ELT(out, 0, Rf_ScalarReal((double)task + 1));
  UNPROTECT(1);
  return out;
}

/* ---- all of them ---- */

/* Elements of all jobs that have not ended. */
SEXP ffi_tasks_open(SEXP x) {
  clu_engine *t = clu_tasks_get(x);
  return Rf_ScalarReal((double)clu_engine_open(t));
}

/* Jobs that were not given up: theirs are the causes of deaths that may still be asked for. */
SEXP ffi_tasks_jobs(SEXP x) { return Rf_ScalarReal((double)clu_engine_jobs(clu_tasks_get(x))); }

static const char *kill_name(int killed) {
  switch (killed) {
  case CLU_KILL_NO_REACTION: return "no_reaction";
  case CLU_KILL_CORRUPT: return "corrupt";
  case CLU_KILL_NO_MEMORY: return "no_memory";
  case CLU_KILL_YIELD: return "yields";
  case CLU_KILL_NO_ROOM: return "no_room";
  default: return NULL;
  }
}

static SEXP death_list(SEXP handles, const clu_death *d) {
  static const char *names[] = {"index",  "cause", "over_memory", "killed",  "info", "has_begun",
                                "memory", "at",    "job",         "element", "room", "copy",
                                ""};
  SEXP out = PROTECT(Rf_mkNamed(VECSXP, names));
  clu_node *nd = clu_tasks_node(handles, d->index);
  const char *killed = kill_name(d->killed);
  SET_VECTOR_ELT(out, 0, Rf_ScalarInteger(d->index + 1));
  SET_VECTOR_ELT(out, 1, Rf_ScalarInteger(d->cause));
  SET_VECTOR_ELT(out, 2, Rf_ScalarLogical(d->over_memory));
  if (killed) SET_VECTOR_ELT(out, 3, Rf_mkString(killed));
  SET_VECTOR_ELT(out, 5, Rf_ScalarLogical(d->has_begun));
  SET_VECTOR_ELT(out, 6, Rf_ScalarReal((double)d->memory));
  SET_VECTOR_ELT(out, 7, Rf_ScalarReal(1e-9 * (double)d->at));
  SET_VECTOR_ELT(out, 8, Rf_ScalarReal(clu_number_or_na(d->job)));
  SET_VECTOR_ELT(out, 9, Rf_ScalarReal(clu_number_or_na(d->element)));
  SET_VECTOR_ELT(out, 10, Rf_ScalarReal((double)d->room));
  if (d->copy[0]) SET_VECTOR_ELT(out, 11, Rf_mkString(d->copy));
  if (nd && !clu_node_is_open(nd)) { /* else a call has put another in its place */
    clu_node_await_end(nd);
    SET_VECTOR_ELT(out, 4, clu_node_info(nd));
  }
  UNPROTECT(1);
  return out;
}

/* From now on R is asked of what nodes have ended that may be somebody else's doing: of who manages
 * their hosts. It answers by ffi_tasks_word(). Until then such a death is none, and what the node
 * had stays with it. About hosts that are cut off it is not asked again for so many seconds. */
SEXP ffi_tasks_ask(SEXP x, SEXP seconds) {
  clu_engine_ask(clu_tasks_get(x), clu_in_seconds(seconds));
  return R_NilValue;
}

/* list(ended, cut): numbers of the nodes about which R is asked. */
SEXP ffi_tasks_unclear(SEXP x) {
  static const char *names[] = {"ended", "cut", ""};
  clu_engine *t = clu_tasks_get(x);
  SEXP out = PROTECT(Rf_mkNamed(VECSXP, names)), part;
  for (int k = 0; k < 2; k++) {
    int n = 0;
    SET_VECTOR_ELT(out, k, part = Rf_allocVector(INTSXP, clu_engine_size(t)));
    for (int i = 0; i < clu_engine_size(t); i++)
      if (clu_engine_is_unclear(t, i, k)) INTEGER(part)[n++] = i + 1;
    SET_VECTOR_ELT(out, k, Rf_lengthgets(part, n));
  }
  UNPROTECT(1);
  return out;
}

/* R tells how node `index` has ended: whether the starts of its tasks count as tries. */
SEXP ffi_tasks_word(SEXP x, SEXP index, SEXP counts) {
  clu_engine *t = clu_tasks_get(x);
  int i = Rf_asInteger(index) - 1;
  if (i < 0 || i >= clu_engine_size(t)) clu_raise("argument", "there is no node %d", i + 1);
  clu_engine_tell_end(t, i, Rf_asLogical(counts) != FALSE);
  return R_NilValue;
}

/* Deaths since the last time, each a list: the node's `index`; `cause`: the number of the death;
 * `over_memory`: it had more than it may, `memory` bytes (0: not known); `killed`: by the session,
 * and why ("no_reaction", "corrupt", "no_memory", "yields", "no_room": with `memory` bytes, of
 * `room` that all may have), or NULL; `info`: of the node that has died, NULL
 * when another is in its place; `has_begun`: any task, since it came up; `at`: when that was found
 * out, by this machine's clock; `job`, `element`: what it was at; `copy`: where its last copy
 * listens, or NULL. */
SEXP ffi_tasks_deaths(SEXP x) {
  clu_engine *t = clu_tasks_get(x);
  int n = (int)clu_engine_deaths(t);
  SEXP out = PROTECT(Rf_allocVector(VECSXP, n));
  clu_tasks_take_grown(x, t); /* what is known of one is asked of its handle */
  for (int i = 0; i < n; i++) {
    clu_death d = clu_engine_death(t, (size_t)i); /* more may be added meanwhile */
    SET_VECTOR_ELT(out, i, death_list(R_ExternalPtrProtected(x), &d));
  }
  clu_engine_deaths_told(t, (size_t)n);
  UNPROTECT(1);
  return out;
}

/* Numbers of the nodes whose memory cannot be limited: nobody here is told how much they have. */
SEXP ffi_tasks_unlimited(SEXP x) {
  clu_engine *t = clu_tasks_get(x);
  SEXP out = PROTECT(Rf_allocVector(INTSXP, clu_engine_size(t)));
  int system_tells = clu_os_process_memory(clu_os_getpid(), -1) >= 0, n = 0;
  for (int i = 0; i < clu_engine_size(t); i++)
    if (clu_engine_has_any(t, i) && !(system_tells && clu_engine_can_limit(t, i)))
      INTEGER(out)[n++] = i + 1;
  out = Rf_lengthgets(out, n);
  UNPROTECT(1);
  return out;
}

static const char *end_name(int end) {
  static const char *const names[] = {"ok", "error", "died", "timeout", "cancelled"};
  return names[end];
}

static void put_record(SEXP out, R_xlen_t i, const clu_task_record *r, SEXP label) {
  const clu_job_facts *f = r->job;
  double v[12] = {(double)f->number,
                  (double)f->n,
                  (double)f->bytes_out,
                  (double)r->task + 1,
                  r->node + 1.0,
                  r->attempt,
                  1e-9 * (double)f->begun,
                  1e-9 * (double)r->sent,
                  1e-9 * (double)r->began,
                  1e-9 * (double)(r->began + r->took),
                  1e-9 * (double)r->received,
                  r->bytes};
  SET_STRING_ELT(VECTOR_ELT(out, 12), i, label); /* the first: nobody else protects it */
  SET_STRING_ELT(VECTOR_ELT(out, 13), i, Rf_mkChar(end_name(r->end)));
  LOGICAL(VECTOR_ELT(out, 14))[i] = r->end == CLU_TASK_OK;
  for (int c = 0; c < 12; c++) REAL(VECTOR_ELT(out, c))[i] = v[c];
}

/* From record `from` on, `n` of this job; 0: of all. */
static SEXP trace_list(const clu_trace *t, size_t from, size_t n, uint64_t job) {
  static const char *names[] = {"job",    "of",   "bytes_out", "element", "node",     "attempt",
                                "queued", "sent", "began",     "ended",   "received", "bytes",
                                "label",  "end",  "ok",        ""};
  const clu_job_facts *last = NULL;
  SEXP out = PROTECT(Rf_mkNamed(VECSXP, names)), label = R_BlankString;
  for (int c = 0; c < 15; c++)
    SET_VECTOR_ELT(out, c,
                   Rf_allocVector(c < 12   ? REALSXP
                                  : c < 14 ? STRSXP
                                           : LGLSXP,
                                  (R_xlen_t)n));
  for (size_t k = from, i = 0; i < n; k++) {
    const clu_task_record *r = clu_trace_at(t, k);
    if (job && r->job->number != job) continue;
    if (r->job != last) label = Rf_mkCharCE(r->job->label, CE_UTF8);
    last = r->job;
    put_record(out, (R_xlen_t)i++, r, label);
  }
  UNPROTECT(1);
  return out;
}

/* Says what was done when: a list of vectors, times in seconds by this machine's clock. Of the job
 * are: `of` (its tasks), `bytes_out`, `queued`, `label`. */
SEXP ffi_tasks_trace(SEXP x) {
  clu_engine *t = clu_tasks_get(x);
  const clu_trace *trace = clu_engine_trace(t);
  return trace_list(trace, 0, clu_trace_size(trace), 0);
}

/* Memory of nodes over time, up to now: list(time, node, memory), in seconds by this machine's
 * clock and bytes. */
SEXP ffi_tasks_memory(SEXP x) {
  static const char *names[] = {"time", "node", "memory", ""};
  clu_engine *t = clu_tasks_get(x);
  SEXP out = PROTECT(Rf_mkNamed(VECSXP, names));
  const clu_memory_history *h = clu_engine_memory(t);
  R_xlen_t n = (R_xlen_t)h->n;
  for (int c = 0; c < 3; c++) SET_VECTOR_ELT(out, c, Rf_allocVector(REALSXP, n));
  for (R_xlen_t k = 0; k < n; k++) {
    const clu_memory_sample *s = &h->samples[k];
    REAL(VECTOR_ELT(out, 0))[k] = 1e-9 * (double)s->at;
    REAL(VECTOR_ELT(out, 1))[k] = s->node + 1.0;
    REAL(VECTOR_ELT(out, 2))[k] = (double)s->own;
  }
  UNPROTECT(1);
  return out;
}

/* Returns what ffi_tasks_trace() has of this job, the last `most` of it. It may have ended. */
SEXP ffi_job_trace(SEXP x, SEXP job, SEXP most) {
  clu_engine *t = clu_tasks_get(x);
  clu_task_job *j = clu_job_get(job);
  const clu_trace *trace = clu_engine_trace(t);
  uint64_t size = clu_task_job_size(j), number = clu_task_job_number(j);
  size_t from = clu_trace_size(trace), n = 0, wanted = (size_t)Rf_asReal(most);
  if (wanted > size) wanted = (size_t)size;
  while (from > 0 && n < wanted) n += clu_trace_at(trace, --from)->job->number == number;
  return trace_list(trace, from, n, number);
}

/* When the first of the jobs was begun that have not ended; Inf: there is none. */
SEXP ffi_tasks_open_since(SEXP x) {
  uint64_t since = clu_engine_open_since(clu_tasks_get(x));
  return Rf_ScalarReal(since ? 1e-9 * (double)since : R_PosInf);
}

/* Its number: maps and submitted tasks of a cluster are numbered in turn. */
SEXP ffi_job_number(SEXP job) {
  return Rf_ScalarReal((double)clu_task_job_number(clu_job_get(job)));
}

/* Says what it was called; "": nobody has said. */
SEXP ffi_job_label(SEXP job) {
  SEXP label = PROTECT(Rf_mkCharCE(clu_task_job_label(clu_job_get(job)), CE_UTF8));
  SEXP out = Rf_ScalarString(label);
  UNPROTECT(1);
  return out;
}

/* `n` streams of random numbers after `state`. */
SEXP ffi_stream_jump(SEXP state, SEXP n) {
  uint32_t s[6];
  SEXP out = PROTECT(Rf_allocVector(INTSXP, 6));
  for (int i = 0; i < 6; i++) s[i] = (uint32_t)INTEGER(state)[i];
  clu_stream_jump(s, (uint64_t)Rf_asReal(n));
  for (int i = 0; i < 6; i++) INTEGER(out)[i] = (int)s[i];
  UNPROTECT(1);
  return out;
}
