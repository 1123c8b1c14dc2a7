/* Simulated engines count what is there: of jobs, tasks, nodes, news and tokens. */
#ifndef SIMULATED_COUNTS_H
#define SIMULATED_COUNTS_H

#include "simulated-engine.h"

static void check_job(clu_engine *t, clu_task_job *j, uint64_t *with_nodes) {
  const work *w = clu_task_job_caller(j);
  clu_task_counts c = clu_task_job_counts(j);
  uint64_t failed = 0;
  for (size_t k = 0; k < j->nfailures; k++) failed += j->failures[k].why != CLU_END_ANSWER;
  for (size_t k = 0; k < clu_fifo_length(&t->sched->ended); k++)
    failed +=
        ((const clu_ended *)clu_fifo_at(&t->sched->ended, k, sizeof(clu_ended)))->job == j->job;
  HOLDS(c.waiting <= c.left && c.left <= w->n);
  HOLDS(w->cancelled ? c.left == 0 : c.left + c.answered + failed == w->n);
  HOLDS(j->counted == (j->bare && !j->answered && !j->nfailures));
  *with_nodes = 0;
  for (int i = 0; i < t->sched->n; i++) {
    const clu_sched_node *nd = t->sched->nodes[i];
    for (uint32_t k = 0; nd && k < nd->batches.len; k++) {
      const clu_batch *b = clu_batches_at(&nd->batches, k);
      if (b->job == j->job && !b->cancelled) *with_nodes += b->n;
    }
  }
  if (!W.depth) HOLDS(*with_nodes + c.waiting == c.left);
}

static void check_jobs(int e) {
  clu_engine *t = W.t[e];
  uint64_t open = 0, with_nodes;
  size_t n = 0, maps = 0, limits = 0, unheard = 0, awaited = 0;
  int bare = 0, retried = 0;
  for (clu_task_job *j = t->jobs.first; j; j = j->next) {
    HOLDS(j->engine == t);
    n++;
    maps += !j->bare;
    bare += j->counted;
    retried += j->counted && j->spec.retries > 0;
    limits += j->max_memory > 0;
    unheard += j->is_hearing ? 0 : j->unheard;
    awaited += (size_t)j->awaited;
    open += clu_job_left(j->job);
    check_job(t, j, &with_nodes);
  }
  HOLDS(n == clu_engine_jobs(t) && maps == t->jobs.nmaps && bare == t->jobs.nbare);
  HOLDS(retried == t->jobs.nrestartable && unheard == t->jobs.unheard);
  HOLDS(limits == t->limits.njobs && awaited == t->news.nawaited);
  HOLDS(open == clu_engine_open(t));
}

/* Once the engine has looked. */
static void check_cut(const clu_engine *t, int i) {
  const clu_node *nd = t->nodes[i].node;
  if (!nd || !t->nodes[i].id || t->deaths.cuts != clu_session_cuts(W.session)) return;
  HOLDS(!t->sched->nodes[i]->cut == !clu_node_is_cut(nd));
  HOLDS(t->nodes[i].cut == clu_node_is_cut(nd));
}

/* All that the ledger has given is what nodes have. */
static void check_ledger(const clu_sched *s) {
  int64_t cores = 0;
  uint32_t used[SIM_KINDS][SIM_UNITS] = {{0}};
  if (!s->ledger) return;
  for (int i = 0; i < s->n; i++) {
    const clu_sched_node *nd = s->nodes[i];
    if (!nd) continue;
    HOLDS(!nd->granted || nd->up);
    HOLDS(!nd->granted || nd->batches.len || nd->sending || W.depth);
    HOLDS(nd->core == (nd->counted && !nd->granted));
    cores += nd->granted ? (int64_t)nd->grant->cores : nd->core;
    for (int k = 0; k < SIM_KINDS && nd->granted; k++)
      for (int u = 0; u < SIM_UNITS; u++)
        used[k][u] += clu_grant_has(nd->grant, k, u) ? nd->grant->parts[k] : 0;
  }
  HOLDS(clu_ledger_free_cores(s->ledger, 0) == W.cores - cores);
  for (int u = 0; u < SIM_UNITS; u++)
    HOLDS(clu_ledger_left(s->ledger, 0, 0, u) + used[0][u] == CLU_WHOLE);
  HOLDS(clu_ledger_left(s->ledger, 0, 1, 0) + used[1][0] == CLU_WHOLE);
}

static void check_counts(int e) {
  clu_sched *s = W.t[e]->sched;
  int up = 0, busy = 0, apart = 0, cut = 0, held = 0, timed = 0, tokens = 0;
  int64_t taken = 0;
  size_t waiting = 0, alone = 0;
  check_jobs(e);
  check_ledger(s);
  for (int i = 0; i < s->n; i++) {
    const clu_sched_node *nd = s->nodes[i];
    uint32_t tasks = 0, cancelled = 0;
    if (!nd) continue;
    for (uint32_t k = 0; k < nd->batches.len; k++) {
      const clu_batch *b = clu_batches_at(&nd->batches, k);
      tasks += b->n;
      cancelled += b->cancelled ? b->n : 0;
    }
    HOLDS(tasks == nd->tasks && cancelled == nd->cancelled && (nd->up || !tasks));
    HOLDS(!nd->up == !W.t[e]->nodes[i].id);
    check_cut(W.t[e], i);
    up += nd->up;
    busy += tasks > 0;
    apart += tasks > 0 && nd->apart;
    held += nd->up && nd->held;
    taken += nd->takes;
    HOLDS(nd->takes == 0 || (tasks > 0 && !nd->apart));
    cut += nd->up && nd->cut;
    timed += nd->deadline != 0;
  }
  for (clu_link *at = clu_list_first(&s->jobs); at; at = clu_list_next(&s->jobs, at)) {
    const clu_job *j = CLU_LIST_MEMBER(at, clu_job, all);
    waiting += j->pending.waiting > 0;
    alone += j->pending.waiting > 0 && !j->group->needs_caller;
  }
  HOLDS(up == s->up && busy == s->busy && cut == s->cut && timed == s->timed);
  HOLDS(apart == s->busy_apart && held == s->held && taken == s->taken);
  HOLDS(waiting == s->waiting && alone == s->waiting_alone);
  for (int k = 0; k < W.n_engines; k++) tokens += W.t[k]->cores.held;
  HOLDS(tokens == W.tokens);
}

#endif
