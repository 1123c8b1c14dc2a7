/* This file makes what an observer has seen of a cluster, as R's values. */
#include "r/node/observed.h"

#include <string.h>

#include "core/actor/actor.h"

static SEXP text_of(const char *text, size_t room) {
  size_t n = 0;
  while (n < room && text[n]) n++;
  return Rf_mkCharLenCE(text, (int)n, CE_UTF8);
}

/* A list with so many columns of `n` rows: by its letter numbers (n), texts (t) or logicals (l). */
static SEXP columns(const char *const *names, const char *kinds, R_xlen_t n) {
  SEXP out = PROTECT(Rf_mkNamed(VECSXP, (const char **)names));
  for (int k = 0; kinds[k]; k++)
    SET_VECTOR_ELT(out, k,
                   Rf_allocVector(kinds[k] == 't'   ? STRSXP
                                  : kinds[k] == 'l' ? LGLSXP
                                                    : REALSXP,
                                  n));
  UNPROTECT(1);
  return out;
}

/* Columns of nodes. */
enum {
  PID,
  STATE,
  HOST,
  JOB,
  ELEMENT,
  SINCE,
  DONE,
  FAILED,
  DEATHS,
  SENT,
  RECEIVED,
  CPU,
  MEMORY,
  CALL,
  GIVEN
};

static double seconds(uint64_t ns) { return ns ? 1e-9 * (double)ns : NA_REAL; }

static double number(const clu_word *w) { return (double)clu_view_get(w); }

static void set(SEXP x, int column, R_xlen_t row, double value) {
  REAL(VECTOR_ELT(x, column))[row] = value;
}

/* ---- parts ---- */

/* `ended`, `told`: how many tasks and events there have been, with those that are read now. */
static SEXP read_about(const clu_view_memory *m, uint64_t ended, uint64_t told) {
  static const char *names[] = {"number", "pid",      "created", "nodes", "r",     "user",
                                "host",   "strategy", "stopped", "limit", "given", "done",
                                "failed", "now",      "ended",   "told",  ""};
  const clu_view_about *a = &m->about;
  SEXP out = PROTECT(columns(names, "nnnnttttnnnnnnnn", 1));
  const char *const texts[] = {a->r, a->user, a->host, a->strategy};
  set(out, 0, 0, (double)a->number);
  set(out, 1, 0, (double)a->pid);
  set(out, 2, 0, seconds(a->created));
  set(out, 3, 0, (double)a->nodes);
  for (int i = 0; i < 4; i++)
    SET_STRING_ELT(VECTOR_ELT(out, 4 + i), 0, text_of(texts[i], CLU_VIEW_TEXT));
  set(out, 8, 0, seconds(clu_view_get(&m->stopped)));
  set(out, 9, 0, number(&m->limit));
  set(out, 10, 0, number(&m->given));
  set(out, 11, 0, number(&m->done));
  set(out, 12, 0, number(&m->failed));
  set(out, 13, 0, seconds(clu_os_now()));
  set(out, 14, 0, (double)ended);
  set(out, 15, 0, (double)told);
  UNPROTECT(1);
  return out;
}

enum { STARTING, IDLE, BUSY, HELD, CUT, DEAD, STOPPED, ABSENT, STATES };

/* Texts that many rows have are made once. */
static SEXP state_texts(void) {
  static const char *texts[] = {"starting", "idle", "busy",    "held",
                                "cut",      "dead", "stopped", "absent"};
  SEXP out = PROTECT(Rf_allocVector(STRSXP, STATES));
  for (int k = 0; k < STATES; k++) SET_STRING_ELT(out, k, Rf_mkChar(texts[k]));
  UNPROTECT(1);
  return out;
}

static int state_of(uint64_t state, int busy) {
  switch (state) {
  case CLU_VIEW_STARTING: return STARTING;
  case CLU_VIEW_READY: return busy ? BUSY : IDLE;
  case CLU_VIEW_HELD: return HELD;
  case CLU_VIEW_LOST: return DEAD;
  case CLU_VIEW_STOPPED: return STOPPED;
  default: return ABSENT;
  }
}

/* The innermost call of those that it has told last, if that was in this task; see ask_call(). */
static SEXP read_call(const clu_observed_work *w) {
  clu_stack told;
  const char *from;
  size_t end;
  if (clu_os_now() < w->since + CLU_OBSERVED_CALL_AFTER) return R_BlankString;
  if (!clu_observed_stack_of(w, &told) || !told.size) return R_BlankString;
  end = told.size;
  while (end > 0 && told.text[end - 1] == '\n') end--;
  from = told.text + end;
  while (from > told.text && from[-1] != '\n') from--;
  return text_of(from, (size_t)(told.text + end - from));
}

/* ---- other hosts ---- */

static int is_cut(const clu_view *v, R_xlen_t i) {
  const clu_view_far *h = clu_view_far_of(v, (int)i);
  return h && clu_view_get(&h->state) == CLU_VIEW_HOST_CUT;
}

/* A number and 1; 0: not known. */
static double known(const clu_word *w, double unit) {
  uint64_t x = clu_view_get(w);
  return x ? (double)(x - 1) / unit : NA_REAL;
}

/* Reads what it is at, and since when; since when it is at nothing is known of few. Tells
 * whether it is busy.
 */
static int read_work(SEXP out, R_xlen_t i, const clu_observed *s) {
  uint64_t job, task;
  clu_observed_work w;
  clu_observed_work_of(s, i, &w);
  set(out, JOB, i, NA_REAL);
  set(out, ELEMENT, i, NA_REAL);
  if (w.seq) SET_STRING_ELT(VECTOR_ELT(out, CALL), i, read_call(&w));
  if (w.seq && clu_view_task_of(s->view, (int)i, w.seq, &job, &task)) {
    char given[CLU_VIEW_TEXT];
    set(out, JOB, i, (double)job);
    set(out, ELEMENT, i, (double)task + 1);
    if (clu_view_given_to(s->view, (int)i, job, task, given))
      SET_STRING_ELT(VECTOR_ELT(out, GIVEN), i, text_of(given, sizeof given));
  }
  set(out, SINCE, i, seconds(w.since));
  return w.is_busy;
}

/* The text of the row above, where that has the same host. */
static void read_host(SEXP out, R_xlen_t i, const clu_view_memory *m) {
  SEXP hosts = VECTOR_ELT(out, HOST);
  uint64_t host = clu_view_get(&m->node[i].host);
  if (host >= CLU_VIEW_HOSTS) host = 0;
  if (i > 0 && clu_view_get(&m->node[i - 1].host) == host)
    SET_STRING_ELT(hosts, i, STRING_ELT(hosts, i - 1));
  else
    SET_STRING_ELT(hosts, i, text_of(m->host[host], CLU_VIEW_TEXT));
}

/* Processor and memory. */
static void read_use(SEXP out, R_xlen_t i, const clu_observed *s) {
  const clu_process_use *x = &s->nodes[i];
  const clu_view_node *nd = &s->view->memory->node[i];
  if (!clu_view_far_of(s->view, (int)i)) {
    set(out, CPU, i, x->cpu < 0 ? NA_REAL : x->cpu);
    set(out, MEMORY, i, x->own < 0 ? NA_REAL : (double)x->own);
  } else {
    int is_told = clu_observed_told_by(s->view, i) && clu_view_get(&nd->state) == CLU_VIEW_READY;
    set(out, CPU, i, is_told ? known(&nd->cpu, 1000) : NA_REAL);
    set(out, MEMORY, i, is_told ? known(&nd->memory, 1) : NA_REAL);
  }
}

static void read_node(SEXP out, R_xlen_t i, const clu_observed *s, SEXP states) {
  const clu_view_memory *m = s->view->memory;
  const clu_view_node *nd = &m->node[i];
  int busy = read_work(out, i, s), state;
  set(out, PID, i, number(&nd->pid));
  state = state_of(clu_view_get(&nd->state), busy);
  if ((state == IDLE || state == BUSY) && is_cut(s->view, i)) state = CUT;
  SET_STRING_ELT(VECTOR_ELT(out, STATE), i, STRING_ELT(states, state));
  read_host(out, i, m);
  set(out, DONE, i, number(&nd->done));
  set(out, FAILED, i, number(&nd->failed));
  set(out, DEATHS, i, number(&nd->deaths));
  set(out, SENT, i, number(&nd->sent));
  set(out, RECEIVED, i, number(&nd->received));
  read_use(out, i, s);
}

static SEXP read_nodes(const clu_observed *s) {
  static const char *names[] = {"pid",    "state",  "host",   "job",  "element",  "since",
                                "done",   "failed", "deaths", "sent", "received", "cpu",
                                "memory", "call",   "given",  ""};
  SEXP states = PROTECT(state_texts());
  SEXP out = PROTECT(columns(names, "nttnnnnnnnnnntt", s->n));
  for (R_xlen_t i = 0; i < s->n; i++) read_node(out, i, s, states);
  UNPROTECT(2);
  return out;
}

/* A job of one task that is not known to have ended. */
static int is_open(const clu_view_job *j) {
  return clu_view_get(&j->total) == 1 && !clu_view_get(&j->ended);
}

/* The session reads results when it has reason to. Of jobs of one task those are found that their
 * node has done and the session has not read of: `is_over`. */
static void find_over(const clu_observed *s, const clu_view_job *jobs, R_xlen_t n, int *is_over) {
  uint64_t first = UINT64_MAX, last = 0;
  for (R_xlen_t i = 0; i < n; i++) {
    uint64_t number = clu_view_get(&jobs[i].number);
    if (!is_open(&jobs[i])) continue;
    if (number < first) first = number;
    if (number > last) last = number;
  }
  if (last == 0) return;
  for (R_xlen_t k = 0; k < s->n; k++) {
    const clu_view_node *nd = &s->view->memory->node[k];
    clu_observed_work w;
    clu_observed_work_of(s, k, &w);
    if (!w.is_here) continue;
    for (int b = 0; b < CLU_VIEW_BATCHES; b++) {
      uint64_t job = clu_view_get(&nd->batch[b].job), seq = clu_view_get(&nd->batch[b].seq);
      if (job < first || job > last || (w.seq && seq >= w.seq)) continue;
      for (R_xlen_t i = 0; i < n; i++)
        if (clu_view_get(&jobs[i].number) == job && is_open(&jobs[i])) is_over[i] = 1;
    }
  }
}

static SEXP read_jobs(const clu_observed *s) {
  static const char *names[] = {"job",   "total",   "done", "failed", "retries", "began",
                                "ended", "waiting", "over", "label",  ""};
  const clu_view_memory *m = s->view->memory;
  int here[CLU_VIEW_JOBS], is_over[CLU_VIEW_JOBS] = {0};
  clu_view_job *jobs;
  R_xlen_t some = 0, n = 0;
  SEXP out;
  for (int k = 0; k < CLU_VIEW_JOBS; k++)
    if (clu_view_get(&m->job[k].number)) here[some++] = k;
  jobs = (clu_view_job *)R_alloc((size_t)some, sizeof *jobs);
  for (R_xlen_t k = 0; k < some; k++)
    if (clu_view_read_job(s->view, here[k], &jobs[n])) n++;
  find_over(s, jobs, n, is_over);
  out = PROTECT(columns(names, "nnnnnnnnlt", n));
  for (R_xlen_t i = 0; i < n; i++) {
    const clu_view_job *j = &jobs[i];
    set(out, 0, i, number(&j->number));
    set(out, 1, i, number(&j->total));
    set(out, 2, i, number(&j->done));
    set(out, 3, i, number(&j->failed));
    set(out, 4, i, number(&j->retries));
    set(out, 5, i, seconds(clu_view_get(&j->began)));
    set(out, 6, i, seconds(clu_view_get(&j->ended)));
    set(out, 7, i, number(&j->waiting));
    LOGICAL(VECTOR_ELT(out, 8))[i] = is_over[i];
    SET_STRING_ELT(VECTOR_ELT(out, 9), i, text_of(j->label, sizeof j->label));
  }
  UNPROTECT(1);
  return out;
}

/* Reads, of the first `end` tasks, those after `from`, the oldest first, but for those that are
 * overwritten meanwhile. */
static SEXP read_tasks(const clu_view *v, uint64_t from, uint64_t end) {
  static const char *names[] = {"job", "element", "began", "ended", "node", "ok", ""};
  const clu_view_memory *m = v->memory;
  uint64_t now;
  R_xlen_t n = (R_xlen_t)(end - from), skip;
  SEXP out = PROTECT(columns(names, "nnnnnl", n));
  for (R_xlen_t i = 0; i < n; i++) {
    const clu_view_task *t = &m->task[(from + (uint64_t)i) % CLU_VIEW_TASKS];
    uint64_t began = clu_view_get(&t->began);
    set(out, 0, i, number(&t->job));
    set(out, 1, i, number(&t->task) + 1);
    set(out, 2, i, seconds(began));
    set(out, 3, i, seconds(began + clu_view_get(&t->took)));
    set(out, 4, i, number(&t->node));
    LOGICAL(VECTOR_ELT(out, 5))[i] = clu_view_get(&t->ok) != 0;
  }
  atomic_thread_fence(memory_order_acquire);
  now = clu_view_get(&m->ntasks);
  skip = now + 1 > from + CLU_VIEW_TASKS ? (R_xlen_t)(now + 1 - from - CLU_VIEW_TASKS) : 0;
  if (skip > n) skip = n;
  for (R_xlen_t i = 0; i < skip; i++) set(out, 0, i, NA_REAL);
  UNPROTECT(1);
  return out;
}

static double or_na(const clu_word *w, double unit) {
  uint64_t x = clu_view_get(w);
  return x == UINT64_MAX ? NA_REAL : (double)x / unit;
}

static void read_far(SEXP out, R_xlen_t row, const clu_view_memory *m, const clu_view_far *h) {
  static const char *const states[] = {"waiting", "up", "cut", "ended"};
  uint64_t host = clu_view_get(&h->host);
  int is_told = clu_observed_tells(h);
  if (host >= CLU_VIEW_HOSTS) host = 0;
  SET_STRING_ELT(VECTOR_ELT(out, 0), row, text_of(m->host[host], CLU_VIEW_TEXT));
  SET_STRING_ELT(VECTOR_ELT(out, 1), row, Rf_mkChar(states[clu_view_get(&h->state) & 3]));
  set(out, 2, row, is_told ? or_na(&h->load, 1000) : NA_REAL);
  set(out, 3, row, is_told ? or_na(&h->memory, 1) : NA_REAL);
  set(out, 4, row, is_told ? or_na(&h->memory_free, 1) : NA_REAL);
  set(out, 5, row, is_told ? 1e-9 * number(&h->trip) : NA_REAL);
  set(out, 6, row, number(&h->sent));
  set(out, 7, row, number(&h->received));
}

/* Other hosts that the link process knows. */
static SEXP read_hosts(const clu_view_memory *m) {
  static const char *names[] = {"host", "state", "load",     "memory", "memory_free",
                                "trip", "sent",  "received", ""};
  R_xlen_t n = 0, row = 0;
  SEXP out;
  for (int k = 0; k < CLU_VIEW_HOSTS; k++) n += clu_view_get(&m->far[k].number) > 0;
  out = PROTECT(columns(names, "ttnnnnnn", n));
  for (int k = 0; k < CLU_VIEW_HOSTS && row < n; k++)
    if (clu_view_get(&m->far[k].number)) read_far(out, row++, m, &m->far[k]);
  UNPROTECT(1);
  return out;
}

static SEXP read_events(const clu_view *v, uint64_t from, uint64_t end) {
  static const char *names[] = {"time", "node", "kind", "text", ""};
  clu_view_event *events = (clu_view_event *)R_alloc((size_t)(end - from), sizeof *events);
  R_xlen_t n = 0;
  SEXP out;
  for (uint64_t k = from; k < end; k++)
    if (clu_view_read_event(v, (int)(k % CLU_VIEW_EVENTS), &events[n])) n++;
  out = PROTECT(columns(names, "nntt", n));
  for (R_xlen_t i = 0; i < n; i++) {
    set(out, 0, i, seconds(clu_view_get(&events[i].at)));
    set(out, 1, i, number(&events[i].node));
    SET_STRING_ELT(VECTOR_ELT(out, 2), i, text_of(events[i].kind, sizeof events[i].kind));
    SET_STRING_ELT(VECTOR_ELT(out, 3), i, text_of(events[i].text, sizeof events[i].text));
  }
  UNPROTECT(1);
  return out;
}

static void set_text(SEXP x, int column, R_xlen_t row, const char *text, size_t room) {
  SET_STRING_ELT(VECTOR_ELT(x, column), row, text_of(text, room));
}

/* Looks at the actor of this name. 0: it is gone, or nobody can have it any more: it was stopped,
 * and had not died before. */
static int look_at_actor(const char *name, clu_actor_info *out) {
  clu_actor *a;
  clu_err e;
  if (clu_actor_open(name, &a, &e) != CLU_OK) return 0;
  clu_actor_look(a, out);
  clu_actor_free(a);
  return out->state != CLU_ACTOR_ENDED || out->died || out->generation > 1;
}

static SEXP read_actors(const clu_view *v) {
  static const char *names[] = {"number", "name", "label", "pid",      "state", "queue",
                                "method", "done", "busy",  "restarts", "waits", ""};
  static const char *const states[] = {"begins", "begins", "up", "down", "ended"};
  clu_view_actor *at = (clu_view_actor *)R_alloc(CLU_VIEW_ACTORS, sizeof *at);
  clu_actor_info *is = (clu_actor_info *)R_alloc(CLU_VIEW_ACTORS, sizeof *is);
  R_xlen_t n = 0;
  SEXP out;
  for (int k = 0; k < CLU_VIEW_ACTORS; k++)
    if (clu_view_get(&v->memory->actor[k].number) && clu_view_read_actor(v, k, &at[n]) &&
        look_at_actor(at[n].name, &is[n]))
      n++;
  out = PROTECT(columns(names, "nttntntnnnt", n));
  for (R_xlen_t i = 0; i < n; i++) {
    set(out, 0, i, number(&at[i].number));
    set_text(out, 1, i, at[i].name, sizeof at[i].name);
    set_text(out, 2, i, at[i].label, sizeof at[i].label);
    set(out, 3, i, is[i].pid ? (double)is[i].pid : NA_REAL);
    set_text(out, 4, i, states[is[i].state < 0 || is[i].state > 4 ? 4 : is[i].state], 16);
    set(out, 5, i, (double)(is[i].asked - is[i].begun));
    set_text(out, 6, i, is[i].method, sizeof is[i].method);
    set(out, 7, i, (double)is[i].done);
    set(out, 8, i, 1e-9 * (double)is[i].busy);
    set(out, 9, i, is[i].generation > 1 ? (double)is[i].generation - 1 : 0);
    set_text(out, 10, i, is[i].waits, sizeof is[i].waits);
  }
  UNPROTECT(1);
  return out;
}

/* After which one is read: of `end`, at most the last `most`, and those after number `since`. A
 * number that has not come yet is of something else. */
static uint64_t first_wished(uint64_t end, uint64_t most, uint64_t since) {
  uint64_t from = end > most ? end - most : 0;
  return since > from && since <= end ? since : from;
}

SEXP clu_observed_values(const clu_observed *s, const clu_observed_wish *wish) {
  static const char *names[] = {"about", "nodes", "jobs", "tasks", "events", "hosts", "actors", ""};
  const clu_view_memory *m = s->view->memory;
  uint64_t ended = atomic_load_explicit(&m->ntasks, memory_order_acquire);
  uint64_t told = atomic_load_explicit(&m->nevents, memory_order_acquire);
  uint64_t most = CLU_VIEW_TASKS - 64; /* some may be written meanwhile */
  SEXP out = PROTECT(Rf_mkNamed(VECSXP, names));
  if ((uint64_t)wish->tasks < most) most = (uint64_t)wish->tasks;
  SET_VECTOR_ELT(out, 1, read_nodes(s));
  SET_VECTOR_ELT(out, 2, read_jobs(s));
  SET_VECTOR_ELT(out, 3, read_tasks(s->view, first_wished(ended, most, wish->ended), ended));
  SET_VECTOR_ELT(out, 4,
                 read_events(s->view, first_wished(told, CLU_VIEW_EVENTS, wish->told), told));
  SET_VECTOR_ELT(out, 5, read_hosts(m));
  SET_VECTOR_ELT(out, 6, read_actors(s->view));
  /* the last, since it has the time: nothing that is seen is later */
  SET_VECTOR_ELT(out, 0, read_about(m, ended, told));
  UNPROTECT(1);
  return out;
}
