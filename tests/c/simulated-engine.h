/* The owner of simulated engines: the model that says what of each task has come, and what has to
 * hold of it and of what the engine counts. */
#ifndef SIMULATED_ENGINE_H
#define SIMULATED_ENGINE_H

#include "simulated-nodes.h"

#include "core/base/budget.h"
#include "core/sched/sched-policy.h"
#include "core/tasks/wake.h"

enum { NODES = 8, ENGINES = 2, MOST_WORKS = 2000 };

typedef struct task {
  unsigned starts, values, failures, whys; /* whys: enum clu_end of its failure */
  unsigned said_in, said;                  /* by its last attempt that has said anything */
  unsigned left, over;                     /* its result is in a ring; it had too much memory */
} task;

/* A job, as its owner knows it. */
typedef struct work {
  clu_task_job *job;
  int e, bare, memory, slow, quiet;
  uint64_t n, number, timeout;
  uint32_t retries, excused; /* starts that do not count */
  uint64_t ever;             /* tasks that have left, whatever became of that */
  int cancelled, released, awaited, hearing, lost_nodes;
  size_t known;
  task *tasks;
} work;

static struct {
  clu_turns turns;
  clu_turns_work away;
  clu_session *session;
  clu_engines *all;
  clu_engine *t[ENGINES];
  sim_node *nodes[ENGINES][NODES];
  work works[MOST_WORKS];
  int n_engines, n, n_works, serials, depth, is_away, calm, has_limits, budget, tokens;
  void (*steps_within)(int e);
} W;

static struct { long values, deaths, over, cuts, idle, given_up, ends[4]; } totals;

static void come(int e, int i);

/* ---- nodes ---- */

static int is_attached(const sim_node *s) {
  const clu_task_node *at = s->node.data;
  return at && at->node == &s->node && at->id == s->node.id && clu_node_is_open(&s->node);
}

static void work_begins(const sim_node *s, const piece *p) {
  work *w = &W.works[p->work];
  HOLDS(p->work < W.n_works && p->task < w->n);
  HOLDS(w->number == p->job);
  if (w->cancelled || w->released || !is_attached(s)) return;
  HOLDS(++w->tasks[p->task].starts <= 1 + w->retries + w->excused);
  HOLDS(p->attempt <= 1 + w->retries + w->excused);
  HOLDS(!w->tasks[p->task].values && !w->tasks[p->task].failures);
  HOLDS(!w->tasks[p->task].left && !w->tasks[p->task].over);
  for (int i = 0; i < W.n; i++) {
    const sim_node *o = W.nodes[w->e][i];
    HOLDS(!o || o == s || !o->busy || !is_attached(o) || o->now.work != p->work ||
          o->now.task != p->task);
  }
}

/* All that is in a ring is read, whatever becomes of the node. */
static void work_answered(const sim_node *s, const piece *p) {
  work *w = &W.works[p->work];
  if (is_attached(s) && !w->cancelled && !w->released) w->tasks[p->task].left = 1;
}

/* It is not tried again, as long as its limit is in force. */
static void work_was_over(const sim_node *s, const piece *p) {
  work *w = &W.works[p->work];
  const clu_task_node *at = s->node.data;
  if (at && at->id == s->node.id && w->memory && !w->cancelled && !w->released)
    w->tasks[p->task].over = 1;
}

static int work_deed(const sim_node *s, const piece *p, uint64_t *takes) {
  const work *w = &W.works[p->work];
  uint64_t what = dice(1000);
  (void)s;
  *takes = dice(w->slow ? 8000000 : 60000);
  if (W.calm) return WELL;
  if (what < 10 && w->timeout) return DEAF;
  if (what < 30 && w->timeout) *takes = 2 * w->timeout;
  if (w->quiet) return what < 900 ? WELL : BIG;
  if (what >= 30 && what < 40) return DIES;
  if (what >= 40 && what < 80) return WRONG;
  if (what >= 80 && what < 180) return BIG;
  if (what >= 180 && what < 190 && W.has_limits) {
    *takes = 60000000;
    return HOGS;
  }
  return WELL;
}

static void happens_meanwhile(int waits) {
  for (int e = 0; e < W.n_engines; e++) {
    for (int i = 0; i < W.n; i++) {
      sim_node *s = W.nodes[e][i];
      if (!s) continue;
      if (waits || once_in(4)) node_acts(s);
    }
  }
}

static void hosts_act(void) {
  for (int e = 0; e < W.n_engines; e++)
    for (int i = 0; i < W.n; i++)
      if (W.nodes[e][i]) host_acts(W.nodes[e][i]);
}

int64_t __wrap_clu_os_process_memory(clu_pid pid, int64_t enough);
int64_t __wrap_clu_os_process_memory(clu_pid pid, int64_t enough) {
  (void)enough;
  for (int e = 0; e < W.n_engines; e++)
    for (int i = 0; i < W.n; i++)
      if (W.nodes[e][i] && 1000 + W.nodes[e][i]->serial == (int)pid)
        return (int64_t)W.nodes[e][i]->memory;
  return -1;
}

/* ---- the budget of cores ---- */

int __wrap_clu_budget_take(int n, int of, const char *under);
int __wrap_clu_budget_take(int n, int of, const char *under) {
  int got = n > 0 ? (int)dice((uint64_t)n + 1) : 0;
  (void)of, (void)under;
  W.tokens += got;
  return got;
}
void __wrap_clu_budget_give(int n);
void __wrap_clu_budget_give(int n) {
  HOLDS(n >= 0 && n <= W.tokens);
  W.tokens -= n;
}

/* ---- the order in which tasks leave ---- */

/* Tells whether a task of this job waits that the node may have, as sched-policy.h says. */
static int waits_for(const clu_sched *s, const clu_job *j, int node) {
  if (j->cancelled || !j->pending.waiting || !clu_policy_may_do(j, node)) return 0;
  if (s->away && j->group->needs_caller) return 0;
  if (j->pending.nreturned || j->pending.next < j->pending.total) return 1;
  for (size_t k = 0; k < clu_fifo_length(&j->pending.retries); k++) {
    const clu_retry *r = clu_fifo_at(&j->pending.retries, k, sizeof *r);
    if (r->last != node || !clu_policy_others_may(s, j, node)) return 1;
  }
  return 0;
}

void __real_clu_sched_next(clu_sched *s, uint64_t now, clu_action *a);
void __wrap_clu_sched_next(clu_sched *s, uint64_t now, clu_action *a);
void __wrap_clu_sched_next(clu_sched *s, uint64_t now, clu_action *a) {
  work *w;
  __real_clu_sched_next(s, now, a);
  if (a->what != CLU_ACT_SEND) return;
  w = clu_task_job_caller(a->user);
  HOLDS(!w->cancelled && !w->released);
  HOLDS(!W.is_away || w->bare);
  HOLDS(!s->nodes[a->node]->cut && !s->nodes[a->node]->asked);
  HOLDS(clu_policy_may_do(a->job, a->node));
  if (a->attempt == 1) { /* never a gap: the first that has not left yet is the next that does */
    HOLDS(a->first <= w->ever && a->first + a->n <= w->n);
    if (a->first + a->n > w->ever) w->ever = a->first + a->n;
  }
  for (clu_link *at = clu_list_first(&s->jobs); at; at = clu_list_next(&s->jobs, at)) {
    const clu_job *j = CLU_LIST_MEMBER(at, clu_job, all);
    HOLDS(j->id >= a->job->id || !waits_for(s, j, a->node));
  }
}

int __real_clu_sched_sent(clu_sched *s, const clu_action *a, uint64_t seq, uint64_t bytes,
                          uint64_t now);
int __wrap_clu_sched_sent(clu_sched *s, const clu_action *a, uint64_t seq, uint64_t bytes,
                          uint64_t now);
int __wrap_clu_sched_sent(clu_sched *s, const clu_action *a, uint64_t seq, uint64_t bytes,
                          uint64_t now) {
  HOLDS(clu_task_job_engine(a->user)); /* it was not closed meanwhile */
  HOLDS(s->nodes[a->node]->up);
  return __real_clu_sched_sent(s, a, seq, bytes, now);
}

/* ---- what has come ---- */

static void take_value(work *w, const clu_task_result *r, const unsigned char *p) {
  task *k = &w->tasks[r->task];
  uint64_t value = clu_get64(p);
  HOLDS(r->task < w->n);
  HOLDS(!w->cancelled);
  HOLDS(++k->values == 1 && (!k->failures || k->whys == CLU_END_ANSWER));
  HOLDS(value >> 44 == (uint64_t)(w - W.works) && (value >> 16 & 0xfffffff) == r->task);
  /* all that this attempt has said is here */
  HOLDS((value & 15) == (k->said_in == (value >> 4 & 0xfff) ? k->said : 0));
  clu_task_job_has_value(w->job, r->task);
  totals.values++;
}

static void take_failure(work *w, const clu_task_failure *f) {
  task *k = &w->tasks[f->task];
  totals.given_up += f->stack != NULL;
  HOLDS(f->task < w->n); /* it may have ended just before its job was cancelled */
  HOLDS(++k->failures == 1);
  HOLDS(f->why == CLU_END_ANSWER || (k->values == 0 && !k->left));
  HOLDS(f->why != CLU_END_TIMEOUT || w->timeout);
  HOLDS(f->why != CLU_END_CANCELLED);
  HOLDS(f->why != CLU_END_DIED || f->attempt > w->retries || w->lost_nodes || W.has_limits);
  k->whys = (unsigned)f->why;
  totals.ends[f->why]++;
}

static void take(work *w) {
  unsigned char small[CLU_RING_MOST];
  const clu_task_failure *f;
  clu_task_result r;
  clu_blob *body;
  uint64_t k;
  size_t n;
  if (clu_task_job_engine(w->job)) clu_engine_take_endings(W.t[w->e]); /* as a turn does */
  while (clu_task_job_next_relay(w->job, &k, &body)) {
    task *of = &w->tasks[k];
    unsigned attempt;
    HOLDS(k < w->n && body && body->size == 13 && clu_get64(body->data + 1) == k);
    attempt = clu_get32(body->data + 9);
    of->said = of->said_in == attempt ? of->said + 1 : 1;
    of->said_in = attempt;
    clu_blob_unref(body);
  }
  while (clu_task_job_next_result(w->job, small, &r)) {
    HOLDS(r.body ? r.body->size >= CLU_RESULT_HEAD + 8 : r.size == 8);
    take_value(w, &r, r.body ? r.body->data + CLU_RESULT_HEAD : small);
    clu_blob_unref(r.body);
  }
  for (f = clu_task_job_failures(w->job, &n); w->known < n; w->known++)
    take_failure(w, &f[w->known]);
  HOLDS(!clu_task_job_is_incomplete(w->job));
}

static int is_over(const work *w) {
  return !clu_task_job_engine(w->job) || clu_task_job_counts(w->job).left == 0;
}

static void check_ended(work *w) {
  for (uint64_t k = 0; k < w->n; k++) {
    const task *x = &w->tasks[k];
    HOLDS(x->failures ? (x->values == (x->whys == CLU_END_ANSWER)) : x->values == 1);
  }
  HOLDS(clu_task_job_ready(w->job) == w->n);
}

static void hear_news(int e) {
  int all, k = 0;
  size_t n;
  const uint64_t *ended;
  clu_engine_take_endings(W.t[e]);
  ended = clu_engine_news(W.t[e], &n, &all);
  for (; k < W.n_works; k++) {
    work *w = &W.works[k];
    size_t told = 0;
    if (w->e != e) continue;
    for (size_t i = 0; i < n; i++) told += ended[i] == w->number;
    HOLDS(told == 0 || (told == 1 && w->awaited));
    if (told) w->awaited = 0;
    if (told) HOLDS(w->released || w->cancelled || is_over(w));
    HOLDS(!w->awaited || w->cancelled || !is_over(w));
  }
  clu_engine_news_told(W.t[e]);
}

/* ---- what the owner does about events ---- */

static void hear_deaths(int e) {
  while (clu_engine_deaths(W.t[e])) {
    clu_death d = clu_engine_death(W.t[e], 0);
    clu_engine_deaths_told(W.t[e], 1);
    totals.deaths++;
    totals.over += d.over_memory;
    HOLDS(d.index >= 0 && d.index < W.n && d.cause > 0);
    HOLDS(!d.over_memory || W.has_limits);
    HOLDS(d.killed == CLU_NOT_KILLED || d.killed == CLU_KILL_NO_REACTION); /* no node has lied */
    if (!clu_engine_has_any(W.t[e], d.index) && !once_in(3)) come(e, d.index);
  }
}

/* Starts at a node whose end is somebody else's doing do not count. */
static void excuse(int e, int i) {
  const sim_node *s = W.nodes[e][i];
  for (int k = 0; k < W.n_works; k++)
    if (s && W.works[k].e == e && !W.works[k].released) W.works[k].excused++;
}

static void tell_ends(int e) {
  clu_engine_ask(W.t[e], clu_os_now() + 5000000);
  for (int i = 0; i < W.n; i++) {
    int counts = once_in(2);
    if (!clu_engine_is_unclear(W.t[e], i, 0)) continue;
    if (!counts) excuse(e, i);
    clu_engine_tell_end(W.t[e], i, counts);
  }
}

static void replace_absent(int e, uint64_t unless) {
  for (int i = 0; i < W.n; i++) {
    sim_node *s = W.nodes[e][i];
    if ((!s || !clu_engine_has_any(W.t[e], i)) && (!unless || once_in(unless))) come(e, i);
  }
}

static void handle(int e, int event, work *w) {
  size_t n;
  switch (event) {
  case CLU_EVENT_UNCLEAR: tell_ends(e); break;
  case CLU_EVENT_DEATHS: hear_deaths(e); break;
  case CLU_EVENT_NOTES:
    for (const clu_note *x = clu_engine_notes(W.t[e], &n); n > 0; n--, x++) {
      totals.cuts += x->what == CLU_NOTE_CUT;
      totals.idle += x->what == CLU_NOTE_IDLE;
    }
    clu_engine_notes_told(W.t[e]);
    break;
  case CLU_EVENT_RELAY:
    for (clu_task_job *j = clu_engine_next_unheard(W.t[e], NULL); j;
         j = clu_engine_next_unheard(W.t[e], j))
      take(clu_task_job_caller(j));
    break;
  case CLU_EVENT_NO_NODE:
    if (!once_in(3)) {
      replace_absent(e, 0);
    } else {
      w->lost_nodes = 1;
      clu_task_job_fail_pending(w->job, 1);
    }
    break;
  }
}

/* ---- begin and end ---- */

static int elements(void *job, uint64_t first, uint32_t n, int shares, clu_blob **body) {
  const work *w = job;
  unsigned char bytes[8];
  HOLDS(!W.is_away && !shares && first + n <= w->n && !w->bare);
  W.depth++;
  if (!W.calm && once_in(20)) W.steps_within(w->e);
  W.depth--;
  if (!W.calm && once_in(100)) {
    clu_blob_unref(*body);
    *body = NULL;
    return CLU_CANCELLED;
  }
  for (uint32_t k = 0; k < n; k++) {
    clu_put64(bytes, first + k);
    HOLDS(clu_blob_append(*body, bytes, 8) == 0);
  }
  return CLU_OK;
}

/* Node `i` is there, in place of the one that was, if any. */
static void come(int e, int i) {
  sim_node *old = W.nodes[e][i];
  int before = once_in(2) || (old && clu_node_is_open(&old->node));
  int kind = old ? old->kind : (int)dice(3);
  sim_node *s;
  if (old && before) {
    W.nodes[e][i] = NULL;
    clu_node_read_all(&old->node); /* else what it has answered is lost with it */
    clu_node_free(&old->node);
  }
  s = W.nodes[e][i] = sim_node_new(W.session, kind, ++W.serials);
  HOLDS(clu_engine_attach(W.t[e], i, &s->node) == CLU_ATTACHED);
  HOLDS(clu_engine_has(W.t[e], i, &s->node));
  if (old && !before) clu_node_free(&old->node);
}

/* Nobody stands still, or is cut off, from now on. */
static void calm_down(int e) {
  for (int i = 0; i < W.n; i++) {
    sim_node *s = W.nodes[e][i];
    if (!s) continue;
    s->frozen = 0;
    if (s->cut == CLU_IS_CUT) {
      s->cut = CLU_IS_REACHED;
      W.session->cuts++;
    }
  }
}

static void on_signal(int sig) {
  say_seed();
  signal(sig, SIG_DFL);
  raise(sig);
}

static void begin(uint64_t seed) {
  static const clu_engine_caller caller = {elements};
  memset(&W, 0, sizeof W);
  sim_seed = seed;
  sim_now = 1000000000;
  dice_state = 2 * seed + 1;
  for (int k = 0; k < 10; k++) dice(2);
  signal(SIGABRT, on_signal);
  signal(SIGSEGV, on_signal);
  signal(SIGALRM, on_signal);
  alarm(TEST_SECONDS - 3);
  clu_slab_leave();
  HOLDS(W.session = clu_session_new(NULL));
  HOLDS(W.all = clu_engines_new(W.session, &W.turns, &caller));
  W.away = clu_engines_work(W.all);
  W.n_engines = 1 + once_in(3);
  W.n = 1 + (int)dice(NODES);
  W.has_limits = once_in(2);
  for (int e = 0; e < W.n_engines; e++) {
    HOLDS(W.t[e] = clu_engine_new(W.all, W.n, 5000000, 100));
    clu_engine_drive_always(W.t[e]);
    if (once_in(2)) clu_engine_ask(W.t[e], 0);
    for (int i = 0; i < W.n; i++) come(e, i);
  }
}

static void end(void) {
  int first = once_in(2);
  for (int round = 0; round < 2; round++) {
    for (int e = 0; e < W.n_engines && round != first; e++) clu_engine_free(W.t[e]);
    for (int k = 0; k < W.n_works && round == first; k++)
      if (!W.works[k].released) clu_task_job_release(W.works[k].job);
  }
  HOLDS(W.tokens == 0);
  for (int e = 0; e < W.n_engines; e++)
    for (int i = 0; i < W.n; i++)
      if (W.nodes[e][i]) clu_node_free(&W.nodes[e][i]->node);
  for (int k = 0; k < W.n_works; k++) free(W.works[k].tasks);
  clu_engines_free(W.all);
  HOLDS(clu_session_is_empty(W.session));
  clu_session_free(W.session);
  alarm(0);
}

#endif
