/* The owner of simulated engines: the model that says what of each task has come, and what has to
 * hold of it. What it does, see simulated-owner.h. */
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
  int e, bare, memory, slow, quiet, large;
  uint64_t n, number, timeout;
  uint32_t retries, excused; /* starts that do not count */
  uint64_t ever;             /* tasks that have left, whatever became of that */
  int cancelled, released, awaited, hearing, lost_nodes;
  clu_need needs[2]; /* of its tasks, in turn */
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
  int cores; /* of the host of each engine, which has units, too; 0: nobody asks for any */
  uint64_t room, foreign; /* bytes that all may have, 0: nobody tells; that others have */
  void (*steps_within)(int e);
} W;

static struct {
  long values, deaths, over, cuts, idle, given_up, held, yields, never, given, ends[4];
} totals;

static void come(int e, int i);

/* ---- nodes ---- */

static int is_attached(const sim_node *s) {
  const clu_task_node *at = s->node.data;
  return at && at->node == &s->node && at->id == s->node.id && clu_node_is_open(&s->node);
}

static const clu_need *need_of(const piece *p) { return &W.works[p->work].needs[p->task % 2]; }

static int units_of(const piece *p, int kind) {
  int n = 0;
  for (int u = 0; u < SIM_UNITS; u++) n += p->units[kind] >> u & 1;
  return n;
}

/* It has what it has asked for, and what nodes have together is there: no unit is given twice, and
 * of cores those that ask for some have no more than there are. A cancelled task has its part until
 * it has ended. */
static void check_given(int e, const piece *p) {
  const clu_need *need = need_of(p);
  uint32_t cores = 0, parts[SIM_KINDS][SIM_UNITS] = {{0}};
  HOLDS(p->cores >= need->cores);
  for (int k = 0; k < SIM_KINDS; k++) {
    uint32_t whole = need->parts[k] / CLU_WHOLE;
    HOLDS(units_of(p, k) == (int)(whole ? whole : need->parts[k] > 0));
  }
  for (int i = 0; i < W.n; i++) {
    const sim_node *o = W.nodes[e][i];
    if (!o || !o->busy || !is_attached(o)) continue;
    cores += need_of(&o->now)->cores ? o->now.cores : 0;
    for (int k = 0; k < SIM_KINDS; k++)
      for (int u = 0; u < SIM_UNITS; u++) {
        uint32_t has = need_of(&o->now)->parts[k];
        if (o->now.units[k] >> u & 1) parts[k][u] += has > CLU_WHOLE ? CLU_WHOLE : has;
        HOLDS(parts[k][u] <= CLU_WHOLE);
      }
  }
  HOLDS(cores <= (uint32_t)W.cores);
  totals.given += p->cores > 0;
}

static void work_begins(const sim_node *s, const piece *p) {
  work *w = &W.works[p->work];
  if (W.cores && is_attached(s))
    for (int e = 0; e < W.n_engines; e++)
      for (int i = 0; i < W.n; i++)
        if (W.nodes[e][i] == s) check_given(e, p);
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
  *takes = w->large ? dice(300000000) : dice(w->slow ? 8000000 : 60000);
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

static uint64_t work_fills(const piece *p) { return W.works[p->work].large ? dice(300) << 20 : 0; }

static void excuse(int e, int i);
static void work_is_killed(const sim_node *s) {
  const clu_task_node *at = s->node.data;
  if (!at || at->id != s->node.id) return;
  for (int e = 0; e < W.n_engines; e++)
    if (at->killed == CLU_KILL_YIELD && W.nodes[e][at->index] == s) excuse(e, at->index);
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

/* ---- memory ---- */

int64_t __wrap_clu_os_process_anonymous(int64_t pid);
int64_t __wrap_clu_os_process_anonymous(int64_t pid) {
  for (int e = 0; e < W.n_engines; e++)
    for (int i = 0; i < W.n; i++)
      if (W.nodes[e][i] && 1000 + W.nodes[e][i]->serial == (int)pid)
        return 50000000 + (int64_t)node_has(W.nodes[e][i]);
  return 50000000; /* it is just coming */
}

int __wrap_clu_os_memory_bounds(const char *root, clu_memory_bounds *out);
int __wrap_clu_os_memory_bounds(const char *root, clu_memory_bounds *out) {
  (void)root, (void)out;
  return W.room ? CLU_OK : CLU_UNSUPPORTED;
}

int __wrap_clu_os_memory_left(const char *root, const clu_memory_bounds *b, clu_memory_left *out);
int __wrap_clu_os_memory_left(const char *root, const clu_memory_bounds *b, clu_memory_left *out) {
  uint64_t used = W.foreign;
  (void)root, (void)b;
  if (!W.room) return CLU_UNSUPPORTED;
  for (int e = 0; e < W.n_engines; e++)
    for (int i = 0; i < W.n; i++)
      if (W.nodes[e][i]) used += node_has(W.nodes[e][i]);
  out->limit = (int64_t)W.room;
  out->left = used < W.room ? (int64_t)(W.room - used) : 0;
  return CLU_OK;
}

/* Right after the session has looked: it knows whom it holds, somebody goes on, and nobody is held
 * who was cancelled. One that it has just ended is held until it is gone. */
static void check_held(void) {
  int held = 0, goes = 0;
  for (int e = 0; e < W.n_engines; e++) {
    for (int i = 0; i < W.n; i++) {
      const sim_node *s = W.nodes[e][i];
      const clu_sched_node *nd = i < W.t[e]->sched->n ? W.t[e]->sched->nodes[i] : NULL;
      if (!s || !is_attached(s)) continue;
      HOLDS(!s->held == !W.t[e]->nodes[i].room.held || s->told_end);
      HOLDS(!nd || !nd->up || !nd->held == !W.t[e]->nodes[i].room.held);
      held += s->held && s->busy && !W.t[e]->nodes[i].killed;
      /* what the oldest had not begun may just have been taken back */
      goes += !s->held && nd && (nd->batches.len > 0 || W.t[e]->nodes[i].room.head);
    }
  }
  HOLDS(!held || goes);
  totals.held += held;
}

void __real_clu_engines_look_at_room(clu_engines *all, uint64_t now);
void __wrap_clu_engines_look_at_room(clu_engines *all, uint64_t now);
void __wrap_clu_engines_look_at_room(clu_engines *all, uint64_t now) {
  __real_clu_engines_look_at_room(all, now);
  HOLDS(!all->room.due || all->room.due > now);
  check_held();
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

/* The first job that waits and asks for something; NULL: there is none. `anywhere`: it would fit at
 * a node that has nothing. */
static const clu_job *first_asking(const clu_sched *s, int *fits) {
  const clu_job *first = NULL;
  *fits = 0;
  for (clu_link *at = clu_list_first(&s->jobs); at; at = clu_list_next(&s->jobs, at)) {
    const clu_job *j = CLU_LIST_MEMBER(at, clu_job, all);
    if (j->group->asks == CLU_ASKS_NOTHING || !j->pending.waiting) continue;
    if (s->away && j->group->needs_caller) continue;
    if (!first || j->id < first->id) first = j;
  }
  if (!first || (s->most && s->busy >= s->most)) return first;
  for (clu_link *at = clu_list_first(&s->idle); at; at = clu_list_next(&s->idle, at)) {
    const clu_sched_node *nd = CLU_LIST_MEMBER(at, clu_sched_node, ready);
    uint64_t task = clu_pending_first(&first->pending, clu_policy_avoid(s, first, nd->index));
    if (nd->sending || !waits_for(s, first, nd->index) || task == UINT64_MAX) continue;
    *fits |= clu_ledger_fits(s->ledger, 0, clu_job_need(first, task), 0);
  }
  return first;
}

/* Both ask for units of the same kind, whatever their tasks do. */
static int ask_alike(const clu_job *a, const clu_job *b) {
  const clu_need *x = &a->group->need, *y = &b->group->need;
  if (a->group->asks != CLU_ASKS_ALIKE || b->group->asks != CLU_ASKS_ALIKE) return 0;
  for (int k = 0; k < SIM_KINDS; k++)
    if (x->parts[k] && y->parts[k]) return 1;
  return 0;
}

/* A node is there, and can be reached, that may do it. */
static int has_node(const clu_sched *s, const clu_job *j) {
  for (int i = 0; i < s->n; i++)
    if (s->nodes[i] && s->nodes[i]->up && !s->nodes[i]->cut && clu_policy_may_do(j, i)) return 1;
  return 0;
}

/* Jobs before this one that wait: what they wait for is not given to it. */
static void check_order(const clu_sched *s, const clu_action *a) {
  for (clu_link *at = clu_list_first(&s->jobs); at; at = clu_list_next(&s->jobs, at)) {
    const clu_job *j = CLU_LIST_MEMBER(at, clu_job, all);
    if (j->id >= a->job->id || j->cancelled || !j->pending.waiting) continue;
    if (j->group->asks == CLU_ASKS_NOTHING)
      HOLDS(!waits_for(s, j, a->node));
    else if (!(s->away && j->group->needs_caller) && has_node(s, j))
      HOLDS(!ask_alike(j, a->job));
  }
}

void __real_clu_sched_next(clu_sched *s, uint64_t now, clu_action *a);
void __wrap_clu_sched_next(clu_sched *s, uint64_t now, clu_action *a);
void __wrap_clu_sched_next(clu_sched *s, uint64_t now, clu_action *a) {
  work *w;
  int fits;
  const clu_job *asking = first_asking(s, &fits);
  __real_clu_sched_next(s, now, a);
  if (a->what != CLU_ACT_SEND) return;
  w = clu_task_job_caller(a->user);
  HOLDS(!w->cancelled && !w->released);
  HOLDS(!W.is_away || w->bare);
  HOLDS(!s->nodes[a->node]->cut && !s->nodes[a->node]->asked && !s->nodes[a->node]->held);
  HOLDS(!s->is_tight || s->busy == s->busy_apart || s->nodes[a->node]->apart);
  HOLDS(clu_policy_may_do(a->job, a->node));
  if (a->attempt == 1) { /* never a gap: the first that has not left yet is the next that does */
    HOLDS(a->first <= w->ever && a->first + a->n <= w->n);
    if (a->first + a->n > w->ever) w->ever = a->first + a->n;
  }
  HOLDS(!asking || !fits || W.room || a->job->id <= asking->id);
  HOLDS((a->grant != NULL) == (a->job->group->asks != CLU_ASKS_NOTHING));
  HOLDS(!a->grant || (s->nodes[a->node]->tasks == 0 && s->nodes[a->node]->sending == 1));
  check_order(s, a);
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
  HOLDS(f->why != CLU_END_DIED || f->attempt > w->retries || w->lost_nodes || W.has_limits ||
        (W.room && w->large));
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

#endif
