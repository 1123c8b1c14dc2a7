#include "core/sched/scheduler.h"

#include <stdlib.h>
#include <string.h>

#include "core/base/err.h"
#include "core/base/grow.h"
#include "core/sched/sched-give.h"
#include "core/sched/sched-job.h"
#include "core/sched/sched-node.h"
#include "core/sched/sched-policy.h"

#define MOST_RETRIES 254 /* starts are counted in a byte */

/* ---- life ---- */

clu_sched *clu_sched_new(uint64_t interrupt_grace_ns) {
  clu_sched *s = calloc(1, sizeof *s);
  if (!s) return NULL;
  s->grace = interrupt_grace_ns;
  s->capacity = INT64_MAX;
  s->deadline = UINT64_MAX;
  clu_list_init(&s->idle);
  clu_list_init(&s->room);
  clu_list_init(&s->stealable);
  clu_list_init(&s->asking);
  clu_list_init(&s->jobs);
  return s;
}

void clu_sched_free(clu_sched *s) {
  if (!s) return;
  while (!clu_list_is_empty(&s->jobs))
    clu_sched_job_drop(CLU_LIST_MEMBER(clu_list_first(&s->jobs), clu_job, all));
  for (clu_group *g; (g = s->groups);) {
    s->groups = g->next;
    free(g->only);
    free(g);
  }
  for (int i = 0; i < s->n; i++) {
    if (s->nodes[i]) clu_batches_fini(&s->nodes[i]->batches);
    if (s->nodes[i]) free(s->nodes[i]->grant);
    free(s->nodes[i]);
  }
  free(s->nodes);
  clu_fifo_fini(&s->ended);
  clu_ledger_free(s->ledger);
  free(s->host_of);
  free(s);
}

/* ---- jobs ---- */

/* Takes back what waits at nodes and has a lower priority: it waits for any node again. */
static void make_way(clu_sched *s, const clu_job *j) {
  clu_link *next;
  s->has_priorities |= j->spec.priority != 0;
  if (!s->has_priorities) return;
  for (clu_link *at = clu_list_first(&s->stealable); at; at = next) {
    clu_sched_node *nd = CLU_LIST_MEMBER(at, clu_sched_node, stealable);
    next = clu_list_next(&s->stealable, at);
    if (clu_batches_at(&nd->batches, nd->batches.len - 1)->job->spec.priority < j->spec.priority)
      clu_sched_node_take_back(s, nd);
  }
}

/* Which of its tasks wait. CLU_OK or CLU_NOMEM. */
static int fill_pending(clu_pending *q, const clu_job_spec *spec) {
  if (spec->done) return clu_pending_init_without(q, spec->n, spec->done);
  clu_pending_init(q, spec->n);
  return CLU_OK;
}

clu_job *clu_job_new(clu_sched *s, const clu_job_spec *spec) {
  clu_job *j = calloc(1, sizeof *j);
  int rc;
  if (!j) return NULL;
  rc = clu_sched_job_copy_needs(j, spec);
  if (rc == CLU_OK) rc = fill_pending(&j->pending, spec);
  /* the last that can fail: the group has the flags then */
  j->group = rc == CLU_OK ? clu_sched_group(s, spec) : NULL;
  if (!j->group) {
    clu_sched_job_drop(j);
    return NULL;
  }
  j->spec = *spec;
  j->spec.only = NULL; /* the group has it */
  j->spec.needs = NULL;
  j->spec.need_of = NULL;
  j->spec.done = NULL;
  if (j->spec.retries > MOST_RETRIES) j->spec.retries = MOST_RETRIES;
  j->id = (uint64_t)(CLU_PRIORITY_MOST - spec->priority) << 48 | ++s->next_id;
  j->left = j->pending.waiting;
  clu_list_push_front(&s->jobs, &j->all);
  clu_sched_job_enlist(s, j);
  make_way(s, j);
  return j;
}

uint64_t clu_job_left(const clu_job *j) { return j->left; }
uint64_t clu_job_waiting(const clu_job *j) { return j->pending.waiting; }
int clu_job_out_of_memory(const clu_job *j) { return j->out_of_memory; }
uint64_t clu_job_time(const clu_job *j) { return j->time; }
const clu_need *clu_job_need(const clu_job *j, uint64_t task) { return clu_sched_need(j, task); }

void clu_job_expect(clu_job *j, int64_t bytes) { j->expects = bytes; }
int clu_job_waits_for_room(const clu_job *j) { return j->denied && j->pending.waiting > 0; }
int clu_job_has_node(const clu_sched *s, const clu_job *j) {
  return clu_policy_others_may(s, j, -1);
}

void clu_job_cancel(clu_sched *s, clu_job *j, uint64_t now) {
  if (j->cancelled) return;
  j->cancelled = 1;
  clu_sched_clear_pending(s, j, NULL);
  for (int i = 0; i < s->n && j->batches > 0; i++)
    if (s->nodes[i]) clu_sched_node_cancel(s, s->nodes[i], j, now);
  j->left = 0;
}

void clu_job_fail_pending(clu_sched *s, clu_job *j, int cause) {
  clu_sched_clear_pending(s, j, &cause);
}

void clu_job_until(clu_sched *s, clu_job *j, uint64_t until) {
  if (j->pending.until == until) return;
  j->pending.until = until;
  clu_sched_job_enlist(s, j);
}

void clu_job_free(clu_sched *s, clu_job *j, uint64_t now) {
  clu_job_cancel(s, j, now);
  for (size_t k = 0; k < clu_fifo_length(&s->ended); k++) {
    clu_ended *x = clu_fifo_at(&s->ended, k, sizeof *x);
    if (x->job == j) x->job = NULL;
  }
  j->freed = 1;
  if (j->batches == 0) clu_sched_job_drop(j);
}

int clu_sched_ended(clu_sched *s, clu_ended *out) {
  while (clu_fifo_length(&s->ended)) {
    *out = *(clu_ended *)clu_fifo_at(&s->ended, 0, sizeof *out);
    clu_fifo_pop(&s->ended);
    if (out->job) return 1; /* not of one that was freed meanwhile */
  }
  return 0;
}

/* ---- what hosts have ---- */

int clu_sched_set_ledger(clu_sched *s, clu_ledger *ledger, const int *host_of, int n) {
  int *hosts = malloc((size_t)(n + 1) * sizeof *hosts);
  if (!hosts) {
    clu_ledger_free(ledger);
    return CLU_NOMEM;
  }
  memcpy(hosts, host_of, (size_t)n * sizeof *hosts);
  clu_ledger_free(s->ledger);
  free(s->host_of);
  s->ledger = ledger;
  s->host_of = hosts;
  s->nhost_of = n;
  for (int i = 0; i < s->n; i++) {
    clu_sched_node *nd = s->nodes[i];
    if (!nd) continue;
    nd->core = 0;
    if (nd->granted) clu_ledger_take(ledger, clu_sched_host_of(s, nd), nd->grant);
    clu_sched_node_count_core(s, nd, nd->counted);
  }
  return CLU_OK;
}

/* ---- nodes ---- */

/* The node of this number, made when it was never there; NULL without memory. */
static clu_sched_node *make_node(clu_sched *s, int i) {
  if (i >= s->n) {
    size_t n = (size_t)s->n;
    clu_sched_node **more = clu_grow(s->nodes, &n, (size_t)i + 1, sizeof *more);
    if (!more) return NULL;
    memset(more + s->n, 0, (n - (size_t)s->n) * sizeof *more);
    s->nodes = more;
    s->n = (int)n;
  }
  if (!s->nodes[i]) {
    s->nodes[i] = calloc(1, sizeof *s->nodes[i]);
    if (s->nodes[i]) s->nodes[i]->index = i;
  }
  return s->nodes[i];
}

int clu_sched_node_up(clu_sched *s, int i, clu_claim *claim) {
  clu_sched_node *nd = make_node(s, i);
  if (!nd) return CLU_NOMEM;
  if (nd->up) return CLU_OK;
  nd->up = 1;
  nd->claim = claim;
  nd->draining = nd->closed = nd->has_begun = nd->told = nd->elsewhere = nd->apart = 0;
  nd->end = nd->held = 0;
  s->up++;
  clu_sched_node_new_head(s, nd, 0);
  clu_sched_node_enlist(s, nd);
  return CLU_OK;
}

void clu_sched_node_closed(clu_sched *s, int i) {
  clu_sched_node *nd = clu_sched_find_node(s, i);
  if (!nd || !nd->claim) return;
  nd->begun =
      clu_claim_take_back(nd->claim, nd->end); /* it may still be running: it starts nothing more */
  nd->closed = nd->draining = 1;
  nd->claim = NULL;
  clu_sched_node_set_stealable(s, nd, 0);
  clu_sched_node_enlist(s, nd);
}

/* Tells whether a task whose start number `attempt` has ended with the death of its node may be
 * started once more. A start number has to fit into clu_pending.starts. */
static int may_start_again(clu_job *j, uint64_t task, uint32_t attempt, int rule) {
  if (rule == CLU_RETRY_NONE || j->spec.retries == 0 || attempt >= UINT8_MAX) return 0;
  if (rule == CLU_RETRY_FREE && clu_pending_excuse(&j->pending, task) == CLU_OK) return 1;
  return attempt - clu_pending_excused(&j->pending, task) <= j->spec.retries;
}

/* Decides what becomes of a batch whose node is lost. `begun` tasks of it had been begun; the first
 * of them was interrupted, if `interrupted`. */
static void lose_batch(clu_sched *s, clu_sched_node *nd, const clu_batch *b, uint32_t begun,
                       int interrupted, int cause, int rule) {
  clu_job *j = b->job;
  if (b->cancelled) return;
  if (begun < b->n && b->attempt == 1)
    clu_sched_wait_again(s, j, b->first + begun, b->n - begun);
  else if (begun < b->n)
    clu_sched_retry(s, j, b->first, b->last, b->attempt - 1, cause);
  for (uint32_t k = 0; k < begun; k++) {
    if (interrupted && k == 0)
      clu_sched_end_without(s, nd->why, j, b->first, nd->index, b->attempt, cause);
    else if (may_start_again(j, b->first + k, b->attempt, rule))
      clu_sched_retry(s, j, b->first + k, nd->index, b->attempt, cause);
    else
      clu_sched_end_without(s, CLU_END_DIED, j, b->first + k, nd->index, b->attempt, cause);
  }
}

int clu_sched_node_lost(clu_sched *s, int i, int cause, int rule) {
  clu_sched_node *nd = clu_sched_find_node(s, i);
  uint64_t end;
  if (!nd) return 0;
  clu_sched_node_closed(s, i);
  nd->up = 0;
  s->up--;
  s->cut -= nd->cut;
  nd->cut = 0;
  s->held -= nd->held != 0;
  nd->held = 0;
  clu_sched_node_set_stealable(s, nd, 0);
  clu_sched_node_enlist(s, nd);
  /* numbers below have been started; where nobody knows, the batch that is with it may have been */
  end = nd->closed || nd->told ? nd->begun : UINT64_MAX;
  for (uint32_t k = nd->batches.len;
       k-- > 0;) { /* the last first, so that what waits again is in order */
    clu_batch b = *clu_batches_at(&nd->batches, k);
    uint32_t begun = b.seq >= end ? 0 : b.seq + b.n <= end ? b.n : (uint32_t)(end - b.seq);
    nd->has_begun |= begun > 0;
    lose_batch(s, nd, &b, begun, k == 0 && nd->interrupt != CLU_INTERRUPT_NONE, cause, rule);
    clu_batches_pop_last(&nd->batches);
    clu_sched_job_release(b.job);
  }
  nd->tasks = nd->cancelled = 0;
  clu_sched_node_unask(nd);
  clu_sched_node_count(s, nd);
  clu_sched_node_release(s, nd);
  nd->claim = NULL;
  nd->interrupt = CLU_INTERRUPT_NONE;
  clu_sched_node_set_deadline(s, nd, 0);
  return nd->has_begun;
}

int clu_sched_node_is_up(const clu_sched *s, int i) { return clu_sched_find_node(s, i) != NULL; }
int clu_sched_nodes_up(const clu_sched *s) { return s->up; }

uint32_t clu_sched_node_tasks(const clu_sched *s, int i, uint32_t *cancelled) {
  const clu_sched_node *nd = clu_sched_find_node(s, i);
  if (cancelled) *cancelled = nd ? nd->cancelled : 0;
  return nd ? nd->tasks : 0;
}

uint64_t clu_sched_node_head(const clu_sched *s, int i) {
  const clu_sched_node *nd = clu_sched_find_node(s, i);
  return nd && nd->batches.len ? clu_sched_first_batch(nd)->seq : 0;
}

int clu_sched_node_has(const clu_sched *s, int i, uint64_t seq) {
  uint64_t head = clu_sched_node_head(s, i);
  return head && seq >= head && seq < s->nodes[i]->end;
}

int clu_sched_node_current(const clu_sched *s, int i, uint64_t seq, void **user, uint64_t *task) {
  const clu_batch *b;
  if (seq == 0 || clu_sched_node_head(s, i) != seq) return 0;
  b = clu_sched_first_batch(s->nodes[i]);
  if (b->cancelled) return 0;
  *user = b->job->spec.user;
  *task = b->first;
  return 1;
}

/* ---- what to do next ---- */

/* The time limit of a task, or its cancellation, in force: an interrupt for its node; when that was
 * in vain, its end. */
static void interrupt_or_kill(clu_sched *s, clu_sched_node *nd, uint64_t now, clu_action *a) {
  a->node = nd->index;
  if (nd->interrupt == CLU_INTERRUPT_SENT) {
    nd->interrupt = CLU_INTERRUPT_KILLED;
    clu_sched_node_set_deadline(s, nd, 0);
    a->what = CLU_ACT_KILL;
    return;
  }
  clu_sched_node_take_back(s, nd); /* others need not wait for what becomes of it */
  if (nd->interrupt == CLU_INTERRUPT_NONE) nd->why = CLU_END_TIMEOUT;
  nd->interrupt = CLU_INTERRUPT_SENT;
  clu_sched_node_set_deadline(s, nd, now + s->grace);
  a->what = CLU_ACT_INTERRUPT;
  a->seq = clu_sched_first_batch(nd)->seq;
  clu_sched_node_enlist(s, nd);
}

/* Tells whether there is a node about which something has to be done now; then that is in `a`. */
static int next_overdue(clu_sched *s, uint64_t now, clu_action *a) {
  uint64_t next = UINT64_MAX, left;
  if (now < s->deadline) return 0;
  for (int i = 0; i < s->n; i++) {
    clu_sched_node *nd = clu_sched_find_node(s, i);
    if (!nd || !nd->deadline) continue;
    /* where it cannot be reached that one waits on the way */
    if ((nd->cut || nd->held) && nd->interrupt != CLU_INTERRUPT_DUE) continue;
    if (nd->deadline <= now && nd->interrupt == CLU_INTERRUPT_NONE &&
        (left = clu_sched_node_time_left(nd, now)) > 0)
      clu_sched_node_set_deadline(s, nd, now + left);
    if (nd->deadline <= now) {
      interrupt_or_kill(s, nd, now, a);
      return 1; /* s->deadline stays: there may be more */
    }
    if (nd->deadline < next) next = nd->deadline;
  }
  s->deadline = next;
  return 0;
}

void clu_sched_next(clu_sched *s, uint64_t now, clu_action *a) {
  memset(a, 0, sizeof *a);
  if (next_overdue(s, now, a)) return;
  if (!clu_sched_give(s, now, a)) clu_sched_next_ask(s, a);
}

void clu_sched_limit(clu_sched *s, int most) { s->most = most; }
int clu_sched_busy(const clu_sched *s) { return s->busy; }

void clu_sched_away(clu_sched *s, int away) { s->away = away; }

int clu_sched_is_urgent(const clu_sched *s) {
  return s->up > 0 && (s->waiting_alone || s->timed || !clu_list_is_empty(&s->stealable));
}

uint64_t clu_sched_deadline(const clu_sched *s) {
  return clu_list_is_empty(&s->asking) ? s->deadline : 0;
}

uint64_t clu_sched_limit_due(const clu_sched *s) { return s->timed ? s->deadline : 0; }

uint64_t clu_sched_wait(const clu_sched *s, uint64_t now, uint64_t most) {
  uint64_t at = clu_sched_deadline(s), left = at > now ? at - now : 0;
  return left < most ? left : most;
}

/* ---- what was done ---- */

/* A task took so long: the measured time follows in eighths. */
static void follow(uint64_t *time, uint64_t took) {
  if (took < 1) took = 1;
  *time = *time ? *time - *time / 8 + took / 8 : took;
  if (*time < 1) *time = 1;
}

static void measure(clu_job *j, uint64_t took) {
  follow(&j->time, took);
  if (j->spec.n == 1) follow(&j->group->time, took);
}

static int add_batch(clu_sched *s, clu_sched_node *nd, const clu_action *a, uint64_t seq,
                     uint64_t now) {
  clu_batch *b;
  if (clu_batches_push(&nd->batches, &b) != CLU_OK) return CLU_NOMEM;
  b->job = a->job;
  b->first = a->first;
  b->seq = seq;
  b->n = a->n;
  b->attempt = a->attempt;
  b->last = a->last;
  b->sent = now;
  b->cancelled = 0;
  if (nd->batches.len == 1) clu_sched_node_new_head(s, nd, now);
  return CLU_OK;
}

int clu_sched_sent(clu_sched *s, const clu_action *a, uint64_t seq, uint64_t bytes, uint64_t now) {
  clu_sched_node *nd = s->nodes[a->node];
  clu_job *j = a->job;
  int64_t expects;
  if (clu_policy_extends(nd, a, seq, now)) {
    clu_batches_at(&nd->batches, nd->batches.len - 1)->n += a->n;
    j->batches--;
  } else if (add_batch(s, nd, a, seq, now) != CLU_OK) {
    clu_sched_unsent(s, a);
    return CLU_NOMEM;
  }
  if (nd->sending) nd->sending--;
  if (a->n > 1) bytes /= a->n;
  j->bytes = j->bytes ? j->bytes + bytes / 4 - j->bytes / 4 : bytes;
  if (j->spec.n == 1) follow(&j->group->bytes, bytes);
  nd->tasks += a->n;
  nd->end = seq + a->n;
  if (s->ledger) clu_sched_node_count(s, nd); /* it may be taken back at once */
  expects = a->need && a->need->memory > j->expects ? a->need->memory : j->expects;
  if (expects > nd->takes && !nd->apart) clu_sched_node_set_takes(s, nd, expects);
  if (nd->tasks > 1 && !nd->granted && clu_sched_node_gives_back(nd))
    clu_sched_node_set_stealable(s, nd, 1);
  if (j->cancelled) /* while it was on its way */
    clu_sched_node_cancel(s, nd, j, now);
  else
    clu_sched_node_enlist(s, nd);
  return CLU_OK;
}

void clu_sched_unsent(clu_sched *s, const clu_action *a) {
  clu_sched_node *nd = s->nodes[a->node];
  if (nd->sending) nd->sending--;
  if (a->granted && nd->granted == a->granted && nd->batches.len == 0) {
    clu_sched_node_release(s, nd);
    clu_sched_node_enlist(s, nd);
  }
  if (a->attempt > 1)
    clu_sched_retry(s, a->job, a->first, a->last, a->attempt - 1, 0);
  else
    clu_sched_wait_again(s, a->job, a->first, a->n);
  clu_sched_job_release(a->job);
}

int clu_sched_answer(clu_sched *s, int i, uint64_t seq, int given_up, uint64_t took, uint64_t now,
                     clu_ended *out) {
  clu_sched_node *nd = clu_sched_find_node(s, i);
  clu_batch *b;
  clu_job *j;
  int wanted;
  if (!nd || nd->batches.len == 0) return -1;
  b = clu_sched_first_batch(nd);
  if (b->seq != seq) return -1;
  j = b->job;
  wanted = !b->cancelled;
  clu_sched_fill_ended(out, given_up && nd->interrupt ? nd->why : CLU_END_ANSWER, j, b->first, i,
                       b->attempt);
  out->sent = b->sent;
  if (!given_up) measure(j, took);
  b->first++;
  b->seq++;
  nd->tasks--;
  nd->has_begun = 1;
  if (wanted)
    j->left--;
  else
    nd->cancelled--;
  if (--b->n == 0) {
    clu_batches_pop_first(&nd->batches);
    clu_sched_job_release(j);
  }
  clu_sched_node_new_head(s, nd, now);
  if (nd->cancelled) clu_sched_node_interrupt_cancelled(s, nd, now);
  if (nd->tasks < 2) clu_sched_node_set_stealable(s, nd, 0);
  if (nd->tasks < 8 || nd->tasks % 8 == 0)
    clu_sched_node_enlist(s, nd); /* divides: not each time where there is much */
  return wanted;
}
