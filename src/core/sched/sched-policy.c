#include "core/sched/sched-policy.h"

#define SAME_TIME 100000       /* ns within which what is sent counts as sent together */
#define MOST_AT_NODE 512u      /* tasks of chunk 1 that wait at a node, at most */
#define MOST_SINGLES 256u      /* tasks of jobs of one task that wait at a node, at most */
#define SINGLE_COSTS 10000     /* ns that each of these takes besides its own time */
#define MOST_WITHOUT_CLAIM 64u /* tasks in a batch that cannot be taken back */
#define MOST_ELSEWHERE 1024u   /* tasks in a batch that counts as begun with the loss of a host */

static uint64_t nodes_up(const clu_sched *s) { return s->up > 0 ? (uint64_t)s->up : 1; }

uint32_t clu_policy_measured_size(const clu_sched *s, const clu_job *j, const clu_sched_node *nd) {
  uint64_t n, share;
  if (j->time == 0) return 1;
  n = CLU_AHEAD / 2 / j->time;
  if (j->bytes && n > CLU_BATCH_BYTES / j->bytes) n = CLU_BATCH_BYTES / j->bytes;
  share = j->pending.waiting / (2 * nodes_up(s));
  if (n > share) n = share;
  if (n > CLU_BATCH_MOST) n = CLU_BATCH_MOST;
  if (nd->elsewhere && n > MOST_ELSEWHERE) n = MOST_ELSEWHERE;
  if (!nd->claim && !nd->elsewhere && n > MOST_WITHOUT_CLAIM) n = MOST_WITHOUT_CLAIM;
  return n < 1 ? 1 : (uint32_t)n;
}

/* Tasks of jobs that have only one: each is a batch of its own. By the times of those before. */
static uint32_t most_singles(const clu_sched *s, const clu_group *g) {
  uint64_t n, share = s->waiting / nodes_up(s); /* near the end, so much that all get their part */
  if (g->time == 0) return 2;
  n = CLU_AHEAD / 2 / (g->time + SINGLE_COSTS);
  if (g->bytes && n > 2 * CLU_BATCH_BYTES / g->bytes) n = 2 * CLU_BATCH_BYTES / g->bytes;
  if (n > share) n = share;
  if (n > MOST_SINGLES) n = MOST_SINGLES;
  return n < 2 ? 2 : (uint32_t)n;
}

/* Tells whether so many tasks of a job take so short that a second batch is to be with a node
 * elsewhere: while it waits for one it would do nothing. */
static int are_quick(const clu_job *j, uint32_t n) {
  uint64_t time = j->spec.n == 1 ? j->group->time : j->time;
  return time > 0 && n * time <= CLU_AHEAD / 2;
}

uint32_t clu_policy_most_at(const clu_sched *s, const clu_job *j, const clu_sched_node *nd) {
  uint32_t n = clu_policy_batch_size(s, j, nd), k;
  uint64_t ahead, share;
  if (!nd->claim && (!nd->elsewhere || !are_quick(j, n))) return n;
  if (j->spec.n == 1) return most_singles(s, j->group);
  if (j->spec.chunk == 0 || j->time == 0) return 2 * n;
  /* one by one: still as many as keep the node busy, in batches of their own */
  ahead = CLU_AHEAD / j->time;
  if (j->bytes && ahead > 2 * CLU_BATCH_BYTES / j->bytes) ahead = 2 * CLU_BATCH_BYTES / j->bytes;
  share = j->pending.waiting / nodes_up(s); /* near the end, so much that all get their part */
  if (ahead > share) ahead = share;
  k = ahead > MOST_AT_NODE ? MOST_AT_NODE : (uint32_t)ahead;
  return k > 2 * n ? k : 2 * n;
}

int clu_policy_readiness(const clu_sched *s, const clu_sched_node *nd) {
  const clu_job *j;
  uint32_t most;
  if (!nd->up || nd->draining || nd->cut || nd->held || nd->asked) return CLU_NOT_READY;
  if (nd->interrupt != CLU_INTERRUPT_NONE || nd->granted) return CLU_NOT_READY;
  if (nd->tasks == 0) return CLU_IDLE;
  if (!nd->claim && !nd->elsewhere) return CLU_NOT_READY;
  if (nd->tasks == 1 && nd->claim)
    return CLU_HAS_ROOM; /* two may always be there: without divisions */
  j = clu_batches_at(&nd->batches, nd->batches.len - 1)->job;
  most = clu_policy_most_at(s, j, nd);
  /* of small batches many leave together: it is filled up once half of it is done */
  if (j->spec.n == 1 && nd->readiness == CLU_HAS_ROOM)
    return nd->tasks < most ? CLU_HAS_ROOM : CLU_NOT_READY;
  return 2 * nd->tasks <= most ? CLU_HAS_ROOM : CLU_NOT_READY;
}

int clu_policy_may_do(const clu_job *j, int node) {
  const clu_group *g = j->group;
  return !g->only || (node < g->nonly && g->only[node]);
}

int64_t clu_policy_expects(const clu_sched *s, const clu_job *j, int node) {
  const clu_need *need;
  uint64_t task;
  if (!j->needs) return j->expects;
  task = j->need_of ? clu_pending_first(&j->pending, clu_policy_avoid(s, j, node)) : 0;
  need = task == UINT64_MAX ? NULL : clu_sched_need(j, task);
  return need && need->memory > j->expects ? need->memory : j->expects;
}

int clu_policy_fits(const clu_sched *s, const clu_job *j, const clu_sched_node *nd) {
  int64_t more;
  if (s->capacity == INT64_MAX || nd->apart || s->busy == s->busy_apart) return 1;
  if (s->is_tight) return 0;
  more = clu_policy_expects(s, j, nd->index) - nd->takes;
  return more <= CLU_SMALL_TASK || s->taken + more <= s->capacity;
}

int clu_policy_host_could(const clu_sched *s, const clu_job *j, const clu_sched_node *nd) {
  uint64_t task = clu_pending_first(&j->pending, -1);
  if (j->group->asks == CLU_ASKS_NOTHING) return 1;
  return clu_ledger_could(s->ledger, clu_sched_host_of(s, nd),
                          clu_sched_need(j, task == UINT64_MAX ? 0 : task));
}

/* For a job that asks for something: its node has to be of a host that has as much. */
static int others_could(const clu_sched *s, const clu_job *j, int node) {
  for (int k = 0; k < s->n; k++) {
    const clu_sched_node *other = clu_sched_find_node(s, k);
    if (!other || k == node || (node >= 0 && other->cut)) continue;
    if (clu_policy_may_do(j, k) && clu_policy_host_could(s, j, other)) return 1;
  }
  return 0;
}

int clu_policy_others_may(const clu_sched *s, const clu_job *j, int node) {
  const clu_sched_node *nd = clu_sched_find_node(s, node);
  if (j->group->asks != CLU_ASKS_NOTHING) return others_could(s, j, node);
  if (!j->group->only) return node < 0 ? s->up > 0 : s->up - s->cut > (nd && !nd->cut);
  for (int k = 0; k < j->group->nonly; k++) {
    const clu_sched_node *other = j->group->only[k] ? clu_sched_find_node(s, k) : NULL;
    if (other && k != node && (node < 0 || !other->cut)) return 1;
  }
  return 0;
}

static int is_free_for(const clu_sched *s, const clu_job *j, const clu_sched_node *nd) {
  return !nd->cut && clu_policy_may_do(j, nd->index) && clu_policy_host_could(s, j, nd);
}

int clu_policy_bars(const clu_sched *s, const clu_job *j, int node) {
  const clu_sched_node *nd = clu_sched_find_node(s, node);
  if (!nd || nd->apart || nd->readiness != CLU_IDLE) return clu_policy_others_may(s, j, node);
  for (clu_link *at = clu_list_first(&s->idle); at; at = clu_list_next(&s->idle, at)) {
    const clu_sched_node *other = CLU_LIST_MEMBER(at, clu_sched_node, ready);
    if (other != nd && is_free_for(s, j, other)) return 1;
  }
  return 0;
}

int clu_policy_has_for(const clu_sched *s, const clu_job *j, int node) {
  return clu_pending_has_plain(&j->pending) ||
         clu_pending_has(&j->pending, clu_policy_avoid(s, j, node));
}

clu_job *clu_policy_job_for(const clu_sched *s, int node) {
  clu_job *first = NULL;
  for (const clu_group *g = s->groups; g; g = g->next) {
    const clu_link *at = clu_list_first(&g->waiting);
    if (s->away && g->needs_caller) continue;
    if (!at || !clu_policy_may_do(CLU_LIST_MEMBER(at, clu_job, waiting), node)) continue;
    for (; at; at = clu_list_next(&g->waiting, at)) {
      clu_job *j = CLU_LIST_MEMBER(at, clu_job, waiting);
      if (first && j->id >= first->id) break;
      if (!clu_policy_has_for(s, j, node)) continue;
      first = j;
      break;
    }
  }
  return first;
}

/* All that a node has not begun is taken back together: not what nobody could send again. */
static int needs_caller(const clu_sched_node *from) {
  for (uint32_t k = 0; k < from->batches.len; k++) {
    const clu_batch *b = clu_batches_at(&from->batches, k);
    if (b->job->group->needs_caller && (k > 0 || b->n > 1)) return 1;
  }
  return 0;
}

int clu_policy_may_steal(const clu_sched *s, const clu_sched_node *from, int to) {
  const clu_sched_node *nd = clu_sched_find_node(s, to);
  if (s->away && needs_caller(from)) return 0;
  for (uint32_t k = from->batches.len; k-- > 0;) {
    const clu_batch *b = clu_batches_at(&from->batches, k);
    if (b->cancelled || (k == 0 && b->n < 2) || !clu_policy_may_do(b->job, to)) continue;
    if (nd && !clu_policy_fits(s, b->job, nd)) continue;
    if (nd && s->waiting_asks &&
        clu_ledger_keeps_cores(s->ledger, clu_sched_host_of(s, nd), b->job->id))
      continue;
    if (b->attempt == 1 || b->last != to || !clu_policy_bars(s, b->job, to)) return 1;
  }
  return 0;
}

int clu_policy_extends(const clu_sched_node *nd, const clu_action *a, uint64_t seq, uint64_t now) {
  const clu_batch *b;
  /* where there is no claim word the batch says what may have begun */
  if (nd->batches.len == 0 || a->attempt > 1 || (!nd->claim && !nd->elsewhere)) return 0;
  b = clu_batches_at(&nd->batches, nd->batches.len - 1);
  return b->job == a->job && !b->cancelled && b->attempt == 1 && b->first + b->n == a->first &&
         b->seq + b->n == seq && now - b->sent < SAME_TIME && b->n < CLU_BATCH_MOST;
}

/* ---- how many nodes there should be ---- */

static uint64_t *longest_of(clu_job *j) {
  return j->spec.n == 1 ? &j->group->longest : &j->longest;
}

static void find_longest(clu_sched *s, uint64_t now) {
  for (clu_group *g = s->groups; g; g = g->next) g->longest = 0;
  for (clu_link *at = clu_list_first(&s->jobs); at; at = clu_list_next(&s->jobs, at))
    CLU_LIST_MEMBER(at, clu_job, all)->longest = 0;
  for (int i = 0; i < s->n; i++) {
    const clu_sched_node *nd = clu_sched_find_node(s, i);
    uint64_t *longest;
    if (!nd || nd->cut || nd->batches.len == 0 || now < nd->since) continue;
    longest = longest_of(clu_sched_first_batch(nd)->job);
    if (now - nd->since > *longest) *longest = now - nd->since;
  }
}

/* Its tasks that have not ended, but for those that wait for something else than nodes. */
static uint64_t may_leave(const clu_job *j) {
  return clu_pending_offers(&j->pending) ? j->left : j->left - j->pending.waiting;
}

double clu_sched_desired(clu_sched *s, uint64_t now, uint64_t target) {
  double nodes = 0;
  find_longest(s, now);
  for (clu_link *at = clu_list_first(&s->jobs); at; at = clu_list_next(&s->jobs, at)) {
    clu_job *j = CLU_LIST_MEMBER(at, clu_job, all);
    uint64_t time = j->spec.n == 1 ? j->group->time : j->time, longest = *longest_of(j);
    if (j->group->only) continue;
    if (longest > time) time = longest;
    nodes += (double)may_leave(j) * (time < target ? (double)time / (double)target : 1);
  }
  return nodes;
}

int clu_sched_some_wait(const clu_sched *s) {
  return s->waiting > 0 || !clu_list_is_empty(&s->stealable);
}

/* By the job whose tasks take most. */
int clu_sched_room_for(const clu_sched *s, int n, int64_t least) {
  int64_t expects = least > CLU_SMALL_TASK ? least : CLU_SMALL_TASK, left = s->capacity - s->taken;
  if (s->capacity == INT64_MAX) return n;
  if (s->is_tight) return 0;
  for (const clu_link *at = clu_list_first(&s->jobs); at; at = clu_list_next(&s->jobs, at)) {
    const clu_job *j = CLU_LIST_MEMBER(at, clu_job, all);
    if (j->left > 0 && j->expects > expects) expects = j->expects;
  }
  if (left < 0) return 0;
  return left / expects < n ? (int)(left / expects) : n;
}

/* Tells whether something that waits at a node may be taken back: by who is here now. */
static int some_stealable(const clu_sched *s) {
  for (const clu_link *at = clu_list_first(&s->stealable); at;
       at = clu_list_next(&s->stealable, at))
    if (!s->away || !needs_caller(CLU_LIST_MEMBER(at, clu_sched_node, stealable))) return 1;
  return 0;
}

int clu_sched_wanted(const clu_sched *s) {
  uint64_t n = 0, idle = s->up > s->busy ? (uint64_t)(s->up - s->busy) : 0;
  for (const clu_group *g = s->groups; g; g = g->next) {
    if (s->away && g->needs_caller) continue;
    for (clu_link *at = clu_list_first(&g->waiting); at && n < idle;
         at = clu_list_next(&g->waiting, at))
      n += CLU_LIST_MEMBER(at, clu_job, waiting)->pending.waiting;
  }
  n += some_stealable(s); /* what waits at another node */
  return (int)(n < idle ? n : idle);
}
