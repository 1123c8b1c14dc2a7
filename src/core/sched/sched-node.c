#include "core/sched/sched-node.h"

#include "core/sched/sched-job.h"
#include "core/sched/sched-policy.h"

void clu_sched_node_enlist(clu_sched *s, clu_sched_node *nd) {
  int readiness;
  clu_sched_node_count(s, nd); /* it may have given back what it was granted */
  readiness = clu_policy_readiness(s, nd);
  if (readiness == nd->readiness) return;
  nd->readiness = readiness;
  clu_list_remove(&nd->ready);
  if (readiness == CLU_IDLE && nd->has_begun) /* awake still, and what it needs is in memory */
    clu_list_push_front(&s->idle, &nd->ready);
  else if (readiness == CLU_IDLE)
    clu_list_push_back(&s->idle, &nd->ready);
  else if (readiness == CLU_HAS_ROOM)
    clu_list_push_back(&s->room, &nd->ready);
}

/* ---- what it has of its host ---- */

void clu_sched_node_release(clu_sched *s, clu_sched_node *nd) {
  if (!nd->granted) return;
  clu_ledger_return(s->ledger, clu_sched_host_of(s, nd), nd->grant);
  nd->granted = 0;
}

void clu_sched_node_count_core(clu_sched *s, clu_sched_node *nd, int has) {
  int core = has && !nd->granted;
  if (!has) clu_sched_node_release(s, nd);
  if (core == nd->core) return;
  nd->core = core;
  clu_ledger_count(s->ledger, clu_sched_host_of(s, nd), core ? 1 : -1);
}

const clu_grant *clu_sched_node_grant(const clu_sched *s, int i) {
  const clu_sched_node *nd = clu_sched_find_node(s, i);
  return nd && nd->granted ? nd->grant : NULL;
}

/* ---- what it has not begun ---- */

/* All that it has from `from` on waits again. */
static void take_from(clu_sched *s, clu_sched_node *nd, uint64_t from) {
  while (nd->batches.len) {
    clu_batch *b = clu_batches_at(&nd->batches, nd->batches.len - 1);
    uint32_t kept = b->seq >= from ? 0 : b->seq + b->n <= from ? b->n : (uint32_t)(from - b->seq);
    uint32_t taken = b->n - kept;
    clu_job *j = b->job;
    if (taken == 0) break;
    nd->tasks -= taken;
    if (b->cancelled)
      nd->cancelled -= taken;
    else if (b->attempt > 1) /* a retry, one task */
      clu_sched_retry(s, j, b->first, b->last, b->attempt - 1, 0);
    else
      clu_sched_wait_again(s, j, b->first + kept, taken);
    b->n = kept;
    if (kept) break;
    clu_batches_pop_last(&nd->batches);
    clu_sched_job_release(j);
  }
  if (nd->batches.len == 0) clu_sched_node_new_head(s, nd, 0);
  clu_sched_node_set_stealable(s, nd, 0);
  clu_sched_node_enlist(s, nd);
}

static void ask(clu_sched *s, clu_sched_node *nd) {
  if (nd->asked || nd->tasks < 2 || clu_list_has(&nd->asking)) return;
  clu_list_push_back(&s->asking, &nd->asking);
  clu_sched_node_set_stealable(s, nd, 0);
}

int clu_sched_node_take_back(clu_sched *s, clu_sched_node *nd) {
  uint32_t before = nd->tasks;
  if (nd->elsewhere) ask(s, nd);
  if (!nd->claim || nd->batches.len == 0) return 0;
  take_from(s, nd, clu_claim_take_back(nd->claim, nd->end));
  return nd->tasks < before;
}

/* ---- of nodes of other hosts ---- */

void clu_sched_node_apart(clu_sched *s, int i) {
  clu_sched_node *nd = clu_sched_find_node(s, i);
  if (!nd || nd->apart) return;
  nd->apart = 1;
  s->busy_apart += nd->counted;
}

void clu_sched_node_elsewhere(clu_sched *s, int i) {
  clu_sched_node *nd = clu_sched_find_node(s, i);
  if (!nd || nd->claim) return;
  nd->elsewhere = 1;
  clu_sched_node_enlist(s, nd);
}

/* Sooner it may just be about to answer. */
void clu_sched_node_ask_later(clu_sched *s, clu_sched_node *nd, uint64_t now) {
  if (nd->cut) return;
  if (now < nd->since + CLU_ASK_AFTER)
    clu_sched_wake_at(s, nd->since + CLU_ASK_AFTER);
  else
    ask(s, nd);
}

void clu_sched_node_unask(clu_sched_node *nd) {
  nd->asked = nd->sending = 0;
  clu_list_remove(&nd->asking);
}

int clu_sched_next_ask(clu_sched *s, clu_action *a) {
  for (clu_link *at = clu_list_first(&s->asking); at; at = clu_list_next(&s->asking, at)) {
    clu_sched_node *nd = CLU_LIST_MEMBER(at, clu_sched_node, asking);
    if (nd->sending) continue;
    clu_list_remove(&nd->asking);
    nd->asked = 1;
    clu_sched_node_enlist(s, nd);
    a->what = CLU_ACT_TAKE_BACK;
    a->node = nd->index;
    a->seq = nd->end;
    return 1;
  }
  return 0;
}

void clu_sched_node_taken(clu_sched *s, int i, uint64_t from) {
  clu_sched_node *nd = clu_sched_find_node(s, i);
  if (!nd || !nd->asked) return;
  nd->asked = 0;
  take_from(s, nd, from);
}

void clu_sched_node_begun(clu_sched *s, int i, uint64_t first) {
  clu_sched_node *nd = clu_sched_find_node(s, i);
  if (!nd || nd->claim || nd->closed) return;
  nd->told = 1;
  nd->begun = first;
}

void clu_sched_node_interrupt_cancelled(clu_sched *s, clu_sched_node *nd, uint64_t now) {
  if (nd->batches.len == 0 || !clu_sched_first_batch(nd)->cancelled) return;
  if (nd->interrupt != CLU_INTERRUPT_NONE) return;
  nd->interrupt = CLU_INTERRUPT_DUE;
  nd->why = CLU_END_CANCELLED;
  clu_sched_node_set_deadline(s, nd, now ? now : 1); /* 0 is: never */
}

void clu_sched_node_cancel(clu_sched *s, clu_sched_node *nd, const clu_job *j, uint64_t now) {
  int any = 0;
  for (uint32_t k = 0; k < nd->batches.len; k++) {
    clu_batch *b = clu_batches_at(&nd->batches, k);
    if (b->job != j || b->cancelled) continue;
    b->cancelled = any = 1;
    nd->cancelled += b->n;
  }
  if (!any) return;
  clu_sched_node_take_back(s, nd);
  clu_sched_node_interrupt_cancelled(s, nd, now);
  clu_sched_node_enlist(s, nd);
}

void clu_sched_node_renew_time(clu_sched *s, clu_sched_node *nd, uint64_t now) {
  uint64_t limit = s->grace;
  if (!nd->deadline || nd->interrupt == CLU_INTERRUPT_DUE) return;
  if (nd->interrupt == CLU_INTERRUPT_NONE) limit = clu_sched_first_batch(nd)->job->spec.timeout_ns;
  nd->since = now;
  clu_sched_node_set_deadline(s, nd, now + limit);
}

/* A task that is not begun has all its time: a node may be busy with a call, and nobody tells when
 * it begins, so its claim word is polled. */
uint64_t clu_sched_node_time_left(clu_sched_node *nd, uint64_t now) {
  const clu_batch *b = clu_sched_first_batch(nd);
  uint64_t limit = b->job->spec.timeout_ns, end;
  if (nd->claim && clu_claim_first(nd->claim) <= b->seq) {
    nd->since = now;
    nd->stood = 0;
    return limit / 10 + 1;
  }
  end = nd->since + nd->stood + limit;
  return end > now ? end - now : 0;
}

uint64_t clu_sched_node_since(const clu_sched *s, int i) {
  const clu_sched_node *nd = clu_sched_find_node(s, i);
  return nd && nd->batches.len ? nd->since : 0;
}

uint64_t clu_sched_node_idle_since(const clu_sched *s, int i) {
  const clu_sched_node *nd = clu_sched_find_node(s, i);
  return !nd || nd->batches.len || nd->sending ? UINT64_MAX : nd->since;
}

void clu_sched_node_drain(clu_sched *s, int i, int draining) {
  clu_sched_node *nd = clu_sched_find_node(s, i);
  if (!nd) return;
  nd->draining = draining;
  clu_sched_node_enlist(s, nd);
}

void clu_sched_node_cut(clu_sched *s, int i, int cut, uint64_t now) {
  clu_sched_node *nd = clu_sched_find_node(s, i);
  if (!nd || nd->cut == cut) return;
  nd->cut = cut;
  s->cut += cut ? 1 : -1;
  if (!cut) clu_sched_node_renew_time(s, nd, now);
  clu_sched_node_enlist(s, nd);
}

/* ---- of nodes whose process is stopped ---- */

void clu_sched_node_hold(clu_sched *s, int i, int held, uint64_t now) {
  clu_sched_node *nd = clu_sched_find_node(s, i);
  uint64_t stood;
  if (!nd || held == (nd->held != 0)) return;
  if (held) {
    nd->held = now ? now : 1;
    clu_sched_node_take_back(s, nd); /* others need not wait for it */
  } else {
    stood = now > nd->held ? now - nd->held : 0;
    nd->held = 0;
    nd->stood += stood;
    if (nd->deadline && nd->interrupt != CLU_INTERRUPT_DUE)
      clu_sched_node_set_deadline(s, nd, nd->deadline + stood);
  }
  s->held += held ? 1 : -1;
  clu_sched_node_enlist(s, nd);
}

int clu_sched_node_is_held(const clu_sched *s, int i) {
  const clu_sched_node *nd = clu_sched_find_node(s, i);
  return nd && nd->held;
}

int64_t clu_sched_taken(const clu_sched *s) { return s->taken; }
int clu_sched_held(const clu_sched *s) { return s->held; }

void clu_sched_node_takes(clu_sched *s, int i, int64_t bytes) {
  clu_sched_node *nd = clu_sched_find_node(s, i);
  if (nd && nd->batches.len && !nd->apart) clu_sched_node_set_takes(s, nd, bytes);
}

void clu_sched_room(clu_sched *s, int64_t capacity, int is_tight) {
  int begins = is_tight && !s->is_tight;
  s->capacity = capacity;
  s->is_tight = is_tight;
  for (int i = 0; i < s->n && begins; i++) {
    clu_sched_node *nd = clu_sched_find_node(s, i);
    if (nd && !nd->apart) clu_sched_node_take_back(s, nd);
  }
}

uint64_t clu_sched_grace(const clu_sched *s) { return s->grace; }

void clu_sched_unkilled(clu_sched *s, const clu_action *a) {
  s->nodes[a->node]->interrupt = CLU_INTERRUPT_SENT;
}

void clu_sched_interrupt_arrived(clu_sched *s, int i, uint64_t now) {
  clu_sched_node *nd = clu_sched_find_node(s, i);
  if (nd && nd->interrupt == CLU_INTERRUPT_SENT) clu_sched_node_set_deadline(s, nd, now + s->grace);
}
