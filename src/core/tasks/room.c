/* Memory as a budget: who is handed something, and who goes on. What is decided is said at
 * core/sched/sched-room.h, and by clu_sched_room(); here it is measured and carried out, for all
 * engines of a session together.
 *
 *   something is handed out --20 ms--> looked at --after clu_room_pause()--> looked at ...
 *                                          '-- nobody is at work: no more, until then
 *
 * A look asks the system what is left, and each node whose task takes long what it has: 4 us each.
 * Where memory is short all are asked, every 4 to 20 ms, and at once when a task has ended. Nodes
 * of other hosts are let alone. Where the system does not tell what is left nothing is done.
 *
 * What tasks have at their peak is the most that was seen of each, so of quick ones nothing is
 * known and nothing expected. Of a job of which nothing is known yet, what its nodes have copied
 * counts, too: pages that they had in common with their fork server, and have written to. The first
 * collection of a node copies most of R's heap. A node that is stopped is stopped by its fork
 * server, with all that it has started; that kills it, when the session ends.
 */
#include <stdlib.h>

#include "core/base/grow.h"
#include "core/base/memory-turn.h"
#include "core/base/os-machine.h"
#include "core/tasks/engine-private.h"

#define MB ((int64_t)1 << 20)
static const uint64_t LONG_TASK = 20000000;    /* ns; of others nobody asks what they have */
static const uint64_t FIND_EVERY = 1000000000; /* ns between two looks for limits */
static const uint64_t COUNT_EVERY = 100000000; /* ns between two counts of the sessions at work */
static const uint64_t GONE_AFTER = 50000000; /* ns until the memory of one that was ended is free */
static const uint64_t PATIENCE = 1000000000; /* ns that the oldest task waits for other sessions, */
static const uint64_t COLLECT_PATIENCE = 2000000000; /* and for idle nodes that collect garbage */
static const uint64_t GROWS_FOR =
    500000000;                          /* ns after it had more that a node counts as growing */
static const int64_t GROWN = MB;        /* who has so much more grows */
static const int64_t GARBAGE = 32 * MB; /* so much of an idle node's is worth to be collected */
static const int64_t MOST_COPIED = 64 * MB;

static int64_t min(int64_t a, int64_t b) { return a < b ? a : b; }
static int64_t max(int64_t a, int64_t b) { return a > b ? a : b; }

/* ---- what nodes have ---- */

static clu_pid pid_of(const clu_node *nd) {
  return nd && clu_node_is_ready(nd) && clu_node_clock_is_ours(nd) ? clu_node_pid(nd) : 0;
}

void clu_engine_room_attach(clu_task_node *at, clu_node *nd) {
  clu_pid pid = pid_of(nd);
  clu_process_pages pages = {0, 0};
  clu_node_room none = {.base = pid ? clu_os_process_anonymous(pid) : -1};
  none.most_copied = clu_node_limits_memory(nd) ? min(none.base, MOST_COPIED) : 0;
  if (none.most_copied > 0) clu_os_process_cpu(pid, &pages);
  none.given = pages.given;
  at->room = none;
}

/* Sees how much it has copied: pages that it was given, and that are not new to it. Memory that it
 * frees and takes again counts as copied, too, up to all that it can have copied. */
static void see_copied(clu_node_room *r, clu_pid pid) {
  clu_process_pages pages;
  if (r->copied >= r->most_copied || clu_os_process_cpu(pid, &pages) < 0) return;
  r->copied = min(max(pages.given - r->given - r->has, r->copied), r->most_copied);
}

/* A node counts as growing for some time after it had more: other processes may have had its
 * processor, or it computes between two steps. */
static void see_growth(clu_node_room *r, uint64_t now) {
  int64_t has = r->has + r->copied;
  if (has > r->mark + GROWN || has < r->mark) {
    if (has > r->mark) r->grew = now;
    r->mark = has;
  }
  if (!r->held) r->grows = r->grew && now - r->grew < GROWS_FOR;
}

static void measure(clu_task_node *at, clu_pid pid, uint64_t now) {
  clu_node_room *r = &at->room;
  int64_t has = clu_os_process_anonymous(pid);
  if (has < 0 || r->base < 0) return;
  r->has = has > r->base ? has - r->base : 0;
  see_copied(r, pid);
  see_growth(r, now);
  if (r->head && r->has > r->peak) r->peak = r->has;
}

static clu_job_room *room_of(clu_engine *t, clu_task_job *j) {
  return j->n > 1 ? &j->room : &t->room;
}

int64_t clu_task_job_expected(clu_engine *t, clu_task_job *j) {
  return clu_peaks_expected(&room_of(t, j)->peaks);
}

int64_t clu_engine_room_seen(const clu_engine *t) {
  int64_t most = 0;
  for (int i = 0; i < t->n; i++)
    if (t->nodes[i].id && t->nodes[i].room.head && t->nodes[i].room.peak > most)
      most = t->nodes[i].room.peak;
  return most;
}

/* A task of it has had so many bytes. */
static void note_most(clu_engine *t, clu_task_job *j, int64_t bytes) {
  if (bytes > j->room.top) j->room.top = bytes;
  if (bytes > t->room.top) t->room.top = bytes;
}

void clu_task_node_room_ended(clu_task_node *at, clu_task_job *j) {
  clu_engines *all = at->engine->all;
  clu_node_room *r = &at->room;
  /* one that was seen at work is not a quick one; it has not freed anything yet */
  if (all->room.is.is_short || r->head) {
    clu_pid pid = pid_of(at->node);
    uint64_t now = clu_os_now();
    if (all->room.is.is_short) all->room.due = now;
    if (pid) measure(at, pid, now);
  }
  clu_peaks_add(&room_of(at->engine, j)->peaks, r->peak);
  note_most(at->engine, j, r->peak);
  r->peak = 0;
  r->head = 0;
}

/* ---- who is at work ---- */

static int reserve(struct clu_engines_room *r) {
  size_t cap = r->cap;
  clu_room_node *nodes = clu_grow(r->nodes, &cap, r->n + 1, sizeof *nodes);
  clu_task_node **of;
  if (!nodes) return 0;
  r->nodes = nodes;
  of = realloc(r->of, cap * sizeof *of);
  if (!of) return 0;
  r->of = of;
  r->cap = cap;
  return 1;
}

/* Returns the job of which it has a task that somebody wants; NULL: there is none. */
static clu_task_job *job_at(const clu_task_node *at, uint64_t head) {
  void *user;
  uint64_t task;
  return clu_sched_node_current(at->engine->sched, at->index, head, &user, &task) ? user : NULL;
}

static void add(clu_engines *all, clu_task_node *at, uint64_t head, clu_pid pid, uint64_t now) {
  struct clu_engines_room *r = &all->room;
  uint64_t began = clu_sched_node_since(at->engine->sched, at->index);
  clu_task_job *j = job_at(at, head);
  clu_room_node *x;
  if (at->room.head != head) {
    at->room.head = head;
    at->room.peak = 0;
    at->room.grew = 0;
  }
  at->room.collects = at->room.is_asked = 0;
  if (r->is.is_short || now - began >= LONG_TASK) measure(at, pid, now);
  if (!reserve(r)) return;
  x = &r->nodes[r->n];
  x->index = (int)r->n;
  x->began = began;
  x->has = at->room.has;
  x->grows = at->room.grows;
  x->held = at->room.held;
  x->stays = !j || at->killed || at->is_kept || !clu_node_can_hold(at->node);
  x->again = j && j->spec.retries > 0;
  x->expected = x->most = 0;
  r->of[r->n++] = at;
  if (j) {
    clu_job_room *of = room_of(at->engine, j);
    if (of->round != r->round) of->seen = 0;
    of->round = r->round;
    if (at->room.has > of->seen) of->seen = at->room.has;
  }
}

/* It has nothing to do: what it has not freed others may need. Where it has answered before it was
 * stopped, nobody else would have it go on as long as others are at work. */
static void see_idle(clu_engines *all, clu_task_node *at, clu_pid pid, uint64_t now) {
  clu_task_node_go_on(at);
  at->room.head = 0;
  at->room.peak = 0;
  if (!all->room.is.is_short) return;
  measure(at, pid, now);
  if (at->room.has < GARBAGE || at->killed) return;
  all->room.collects++;
  if (at->room.collects) return;
  at->room.collects = 1;
  clu_node_send(at->node, CLU_K_COLLECT, NULL);
}

static void see_nodes(clu_engines *all, uint64_t now) {
  all->room.n = 0;
  all->room.ends = all->room.collects = 0;
  all->room.round++;
  for (clu_engine *t = all->first; t; t = t->next) {
    for (int i = 0; i < t->n; i++) {
      clu_task_node *at = &t->nodes[i];
      clu_pid pid = at->id ? pid_of(at->node) : 0;
      uint64_t head = pid ? clu_sched_node_head(t->sched, i) : 0;
      if (at->id && (at->killed == CLU_KILL_YIELD || at->killed == CLU_KILL_NO_ROOM))
        all->room.ends = 1;
      if (head)
        add(all, at, head, pid, now);
      else if (pid)
        see_idle(all, at, pid, now);
    }
  }
}

/* Bytes that the task at which it is has said that it needs; 0: it has not. */
static int64_t said_of(const clu_task_node *at) {
  void *user;
  uint64_t task;
  const clu_need *need;
  if (!clu_sched_node_current(at->engine->sched, at->index, at->room.head, &user, &task)) return 0;
  need = clu_job_need(((const clu_task_job *)user)->job, task);
  return need ? need->memory : 0;
}

/* Tells the plan what is known of their jobs, once all were seen. */
static void see_jobs(clu_engines *all) {
  for (size_t k = 0; k < all->room.n; k++) {
    clu_room_node *x = &all->room.nodes[k];
    clu_task_node *at = all->room.of[k];
    clu_task_job *j = job_at(at, at->room.head);
    const clu_job_room *of = j ? room_of(at->engine, j) : NULL;
    if (!of) continue;
    x->expected = clu_peaks_expected(&of->peaks);
    if (x->expected == 0) x->has += at->room.copied;
    x->most = of->seen > of->peaks.most ? of->seen : of->peaks.most;
    if (said_of(at) > x->expected) x->expected = said_of(at);
  }
}

/* ---- what is left ---- */

/* The user's bound holds for what tasks have now, all together. */
static void bound_by_user(clu_engines *all) {
  struct clu_engines_room *r = &all->room;
  int64_t has = 0;
  if (r->most <= 0) return;
  for (clu_engine *t = all->first; t; t = t->next)
    for (int i = 0; i < t->n; i++)
      if (t->nodes[i].id && pid_of(t->nodes[i].node)) has += t->nodes[i].room.has;
  if (r->is.limit && r->is.left <= r->most - has) return;
  r->is.limit = r->most;
  r->is.left = r->most > has ? r->most - has : 0;
}

/* Asks what is left: 1 if anybody tells. */
static int see_left(clu_engines *all, uint64_t now) {
  struct clu_engines_room *r = &all->room;
  clu_memory_left x;
  if (r->most < 0) return 0;
  if (!r->cores) r->cores = clu_os_cores();
  if (!r->found || now - r->found > FIND_EVERY) {
    clu_os_memory_bounds("", &r->bounds);
    r->found = now;
  }
  r->is.limit = r->is.left = 0;
  if (clu_os_memory_left("", &r->bounds, &x) == CLU_OK) {
    r->is.limit = x.limit;
    r->is.left = x.left;
    r->bound = x.at;
  }
  bound_by_user(all);
  return r->is.limit > 0;
}

/* ---- whose turn it is ---- */

/* Sessions that share a bound share its number. */
static int number_of(const clu_memory_bound *b) {
  uint32_t hash = 2166136261u;
  for (const char *at = b->folder; *at; at++) hash = (hash ^ (unsigned char)*at) * 16777619u;
  return (int)(hash % CLU_MEMORY_NUMBERS);
}

/* Finds out whether others have part in what is left: it is not the user's bound that is the least;
 * and how many sessions are at work there, where less than two thirds are left. */
static void see_shared(struct clu_engines_room *r, uint64_t now) {
  r->is_shared = r->bounds.n > 0 && r->is.limit == r->bounds.at[r->bound].limit;
  if (!r->is_shared || r->n == 0 || r->is.left > r->is.limit / 3 * 2) {
    clu_memory_share_no_more();
    r->is.sharers = 1;
    r->counted = 0;
  } else if (!r->counted || now - r->counted > COUNT_EVERY) {
    r->is.sharers = clu_memory_share("/tmp", number_of(&r->bounds.at[r->bound]));
    r->counted = now;
  }
}

/* Where memory is short that others have part in: takes the turn, if nobody has it. It is given
 * back when the oldest task has ended, so that others can have it. */
static void take_turn(struct clu_engines_room *r, uint64_t oldest) {
  r->is.must_wait = 0;
  if (clu_memory_turn_is_taken() && (!r->is.is_short || oldest != r->turn_of)) {
    clu_memory_turn_give();
    r->turn_of = 0;
    return;
  }
  if (!r->is_shared || !r->is.is_short) return;
  r->is.must_wait = !clu_memory_turn_take("/tmp", number_of(&r->bounds.at[r->bound]));
  if (!r->is.must_wait) r->turn_of = oldest;
}

/* When the task that is the oldest could begin; 0: nobody is at work. */
static uint64_t oldest_of(const struct clu_engines_room *r) {
  uint64_t first = 0;
  for (size_t k = 0; k < r->n; k++)
    if (!first || r->nodes[k].began < first) first = r->nodes[k].began;
  return first;
}

/* ---- what is done ---- */

void clu_task_node_go_on(clu_task_node *at) {
  if (!at->room.held) return;
  at->room.held = 0;
  at->room.grew = clu_os_now();
  if (at->node) clu_node_hold(at->node, 0);
  clu_sched_node_hold(at->engine->sched, at->index, 0, clu_os_now());
}

/* One that goes on by somebody else's signal is stopped again. */
static void hold(clu_task_node *at, const clu_room_node *x, uint64_t now) {
  if (at->room.held && x->has <= at->room.held_with + GROWN) return;
  at->room.held = 1;
  at->room.held_with = x->has;
  clu_node_hold(at->node, 1);
  clu_sched_node_hold(at->engine->sched, at->index, 1, now);
}

static void end(clu_engines *all, clu_task_node *at, const clu_room_node *x, uint64_t now) {
  clu_task_job *j = job_at(at, at->room.head);
  if (j) note_most(at->engine, j, at->room.has);
  at->memory = at->room.has;
  at->excuse = x->to == CLU_ROOM_YIELD ? CLU_EXCUSED : CLU_NOT_EXCUSED;
  all->room.ended = now;
  clu_task_node_kill(at->node, at, x->to == CLU_ROOM_YIELD ? CLU_KILL_YIELD : CLU_KILL_NO_ROOM);
}

/* Counts how many go on and how many are held, of each job and each engine. */
static void count_going(clu_engines *all) {
  struct clu_engines_room *r = &all->room;
  for (clu_engine *t = all->first; t; t = t->next) {
    t->room.going = t->room.held = 0;
    for (clu_task_job *j = t->jobs.first; j; j = j->next) j->room.going = j->room.held = 0;
  }
  for (size_t k = 0; k < r->n; k++) {
    const clu_room_node *x = &r->nodes[k];
    clu_task_node *at = r->of[x->index];
    clu_task_job *j = job_at(at, at->room.head);
    if (!j) continue;
    j->room.going += x->to == CLU_ROOM_GO;
    j->room.held += x->to == CLU_ROOM_HOLD;
    at->engine->room.going += x->to == CLU_ROOM_GO;
    at->engine->room.held += x->to == CLU_ROOM_HOLD;
  }
}

static void carry_out(clu_engines *all, uint64_t now) {
  struct clu_engines_room *r = &all->room;
  for (size_t k = 0; k < r->n; k++) {
    const clu_room_node *x = &r->nodes[k];
    clu_task_node *at = r->of[x->index];
    if (x->to == CLU_ROOM_HOLD)
      hold(at, x, now);
    else if (x->to == CLU_ROOM_GO)
      clu_task_node_go_on(at);
    else
      end(all, at, x, now);
    clu_sched_node_takes(at->engine->sched, at->index, x->takes);
  }
}

/* Counts for how long tasks were held or had to wait, and how many went on meanwhile. */
static void count_shortage(const clu_engines *all, clu_job_room *of, int waits, uint64_t took) {
  of->limit = all->room.is.limit;
  if (of->held == 0 && !waits) return;
  of->short_ns += took;
  of->went += (double)took * of->going;
  if (of->going + of->held > of->width) of->width = of->going + of->held;
}

static void tell_jobs(clu_engine *t, uint64_t took) {
  int any = 0;
  for (clu_task_job *j = t->jobs.first; j; j = j->next) {
    const clu_job_room *of = room_of(t, j);
    int64_t expected = clu_peaks_expected(&of->peaks);
    int waits = clu_job_waits_for_room(j->job);
    if (expected == 0 && t->all->room.is.is_short) expected = of->seen;
    clu_job_expect(j->job, expected);
    count_shortage(t->all, &j->room, waits, took);
    any |= waits;
  }
  count_shortage(t->all, &t->room, any, took);
}

static void tell_schedulers(clu_engines *all, uint64_t took) {
  const clu_room *is = &all->room.is;
  int is_tight = is->held > 0 || (is->is_short && is->spare < 0);
  for (clu_engine *t = all->first; t; t = t->next) {
    tell_jobs(t, took);
    clu_sched_room(t->sched, is->spare + clu_sched_taken(t->sched), is_tight);
  }
}

static void all_go_on(clu_engines *all) {
  for (clu_engine *t = all->first; t; t = t->next)
    for (int i = 0; i < t->n; i++) clu_task_node_go_on(&t->nodes[i]);
}

static void let_go(clu_engines *all) {
  all_go_on(all);
  for (clu_engine *t = all->first; t; t = t->next) clu_sched_room(t->sched, INT64_MAX, 0);
}

/* Other sessions are to know. */
static void nobody_is_at_work(struct clu_engines_room *r) {
  clu_memory_turn_give();
  clu_memory_share_no_more();
  r->is.is_short = 0;
  r->due = r->looked = r->counted = 0;
}

/* Tells whether a job has said how much memory it needs: what is left is to be known before. */
static int is_said(const clu_engines *all) {
  for (const clu_engine *t = all->first; t; t = t->next)
    if (t->jobs.nsaid > 0 && clu_engine_has_open(t)) return 1;
  return 0;
}

/* Tells whether others may free memory soon: idle nodes, or another session. */
static int may_wait(const struct clu_engines_room *r, uint64_t now) {
  uint64_t patience = r->collects > 0 ? COLLECT_PATIENCE : r->is_shared ? PATIENCE : 0;
  return patience > 0 && (!r->waits || now - r->waits < patience);
}

void clu_engines_look_at_room(clu_engines *all, uint64_t now) {
  struct clu_engines_room *r = &all->room;
  see_nodes(all, now);
  if ((r->n == 0 && !is_said(all)) || !see_left(all, now)) {
    let_go(all);
    nobody_is_at_work(r);
    return;
  }
  if (r->n == 0) all_go_on(all);
  see_jobs(all);
  r->is.may_end = !r->ends && (!r->ended || now - r->ended > GONE_AFTER);
  see_shared(r, now);
  take_turn(r, oldest_of(r));
  r->is.may_wait = may_wait(r, now);
  clu_room_plan(&r->is, r->nodes, r->n);
  if (!r->is.waits)
    r->waits = 0;
  else if (!r->waits)
    r->waits = now;
  count_going(all);
  carry_out(all, now);
  tell_schedulers(all, r->looked ? now - r->looked : 0);
  r->looked = now;
  r->due = now + clu_room_pause(&r->is, r->cores);
}

void clu_engine_room_free(clu_engine *t) {
  struct clu_engines_room *r = &t->all->room;
  for (int i = 0; t->nodes && i < t->n; i++)
    if (t->nodes[i].room.held && t->nodes[i].node) clu_node_hold(t->nodes[i].node, 0);
  for (const clu_engine *other = t->all->first; other; other = other->next)
    if (other != t) return;
  nobody_is_at_work(r);
}

void clu_engines_set_memory(clu_engines *all, int64_t bytes) { all->room.most = bytes; }
int64_t clu_engines_memory(const clu_engines *all) { return all->room.most; }

static clu_room_use use_of(const clu_job_room *of) {
  clu_room_use x = {.limit = of->limit, .peak = of->top, .width = of->width};
  x.expected = clu_peaks_expected(&of->peaks);
  x.short_ns = of->short_ns;
  x.went = of->short_ns ? of->went / (double)of->short_ns : 0;
  return x;
}

clu_room_use clu_task_job_room_use(const clu_task_job *j) { return use_of(&j->room); }
clu_room_use clu_engine_room_use(const clu_engine *t) { return use_of(&t->room); }

int clu_engine_is_held(const clu_engine *t, int i) { return t->nodes[i].room.held; }
