#include "core/sched/sched-give.h"

#include <stdlib.h>

#include "core/sched/sched-job.h"
#include "core/sched/sched-node.h"
#include "core/sched/sched-policy.h"

#define POLL_CLAIM 1000000 /* ns until a node that had not begun its first task is asked again */
#define STEAL_TRIES 16     /* nodes that are asked for what an idle one may do, at most */
/* A task that takes less does not wait for cores. */
#define LONG_ENOUGH 20000000 /* ns */

/* Tells whether a node that has nothing may get something. */
static int may_begin(const clu_sched *s) { return s->most == 0 || s->busy < s->most; }

/* The next tasks of the job, at most `most`, for this node. 1, or 0: there are none for it. */
static int take(clu_sched *s, clu_sched_node *nd, clu_job *j, uint32_t most, clu_action *a) {
  clu_taken x;
  if (!clu_pending_take(&j->pending, most, clu_policy_avoid(s, j, nd->index), &x)) return 0;
  clu_sched_job_enlist(s, j);
  a->what = CLU_ACT_SEND;
  a->node = nd->index;
  a->job = j;
  a->user = j->spec.user;
  a->first = x.first;
  a->n = x.n;
  a->attempt = x.attempt;
  a->last = x.last;
  a->need = clu_sched_need(j, x.first);
  j->batches++;
  nd->sending++;
  return 1;
}

static uint32_t size_of(const clu_sched *s, const clu_job *j, const clu_sched_node *nd) {
  return j->need_of ? 1 : clu_policy_batch_size(s, j, nd);
}

/* ---- node after node ---- */

/* Tasks that wait, for this node: of the job that came first. */
static int give(clu_sched *s, clu_sched_node *nd, clu_action *a) {
  clu_job *j = clu_policy_job_for(s, nd->index);
  if (!j) return 0;
  if ((j->denied = !clu_policy_fits(s, j, nd))) return 0;
  return take(s, nd, j, size_of(s, j, nd), a);
}

static int give_one_of(clu_sched *s, const clu_list *ready, clu_action *a) {
  for (clu_link *at = clu_list_first(ready); at; at = clu_list_next(ready, at))
    if (give(s, CLU_LIST_MEMBER(at, clu_sched_node, ready), a)) return 1;
  return 0;
}

/* ---- cores for the last tasks ---- */

static uint32_t share_of(int64_t cores, uint64_t tasks, uint32_t least) {
  uint64_t share = cores > 0 ? (uint64_t)cores / tasks : 0;
  return share > least ? (uint32_t)share : least;
}

/* Cores of nodes of a host that are about to end with a task of this job, and when the last of
 * them will. */
static int64_t soon_free(const clu_sched *s, const clu_job *j, int host, uint64_t now,
                         int64_t *in) {
  int64_t time = (int64_t)j->time, cores = 0;
  *in = 0;
  for (int i = 0; i < s->n; i++) {
    const clu_sched_node *nd = clu_sched_find_node(s, i);
    int64_t left;
    if (!nd || !nd->granted || nd->batches.len == 0 || clu_sched_host_of(s, nd) != host) continue;
    if (clu_sched_first_batch(nd)->job != j || nd->tasks > 1) continue;
    left = time - (int64_t)(now - nd->since);
    if (left > time / 4 || left < -time / 4) continue;
    cores += nd->grant->cores;
    if (left > *in) *in = left;
  }
  return cores;
}

/* How many cores the next task of the job gets there, which asks for some; 0: it waits for more. */
static uint32_t cores_for(clu_sched *s, const clu_job *j, int host, const clu_need *need,
                          uint64_t now) {
  uint64_t waiting = j->pending.waiting;
  int64_t there = clu_ledger_free_cores(s->ledger, host), more, in;
  uint32_t mine = share_of(there, waiting, need->cores), then;
  double takes;
  if (need->cores == 0 || need->exact || s->waiting > 1) return need->cores;
  if (j->need_of && waiting > 1) return need->cores; /* the others may ask for more */
  if (j->time < LONG_ENOUGH) return mine;
  if (waiting * need->cores >= clu_ledger_cores(s->ledger, host)) return mine;
  more = soon_free(s, j, host, now, &in);
  if (more == 0) return mine;
  then = share_of(there + more, waiting, need->cores);
  takes = (double)j->time * need->cores;
  if ((double)in + takes / then >= 0.9 * takes / mine) return mine;
  clu_sched_wake_at(s, now + j->time / 16);
  return 0;
}

/* ---- job after job ---- */

enum tried { GIVEN, NEXT_GROUP, NEXT_JOB, NO_MEMORY };

/* Memory for the grants of a node, which stays. */
static int has_place(clu_sched_node *nd) {
  if (!nd->grant) nd->grant = calloc(1, sizeof *nd->grant);
  return nd->grant != NULL;
}

static void grant(clu_sched *s, clu_sched_node *nd, uint32_t cores, clu_action *a) {
  clu_ledger_give(s->ledger, clu_sched_host_of(s, nd), a->need, cores, nd->grant);
  nd->granted = a->granted = ++s->grants;
  a->grant = nd->grant;
  clu_sched_node_enlist(s, nd);
}

/* The next task that the node may have asks for this. */
static const clu_need *need_for(const clu_sched *s, const clu_job *j, int node) {
  uint64_t task = j->need_of ? clu_pending_first(&j->pending, clu_policy_avoid(s, j, node)) : 0;
  return clu_sched_need(j, task == UINT64_MAX ? 0 : task);
}

/* Keeps it for the job at the hosts of all nodes that may do it. Tells whether it would fit at one
 * of them. */
static int keep_for(clu_sched *s, const clu_job *j) {
  int fits = 0;
  for (int i = 0; i < s->n; i++) {
    const clu_sched_node *nd = clu_sched_find_node(s, i);
    const clu_need *need;
    int host;
    if (!nd || nd->cut || !clu_policy_may_do(j, i)) continue;
    host = clu_sched_host_of(s, nd);
    need = need_for(s, j, i);
    if (!clu_ledger_could(s->ledger, host, need)) continue;
    fits |= clu_ledger_fits(s->ledger, host, need, j->id);
    clu_ledger_keep_for(s->ledger, host, need, j->id);
  }
  return fits;
}

/* A job that asks for something, and whose turn it is. */
static int try_asking(clu_sched *s, clu_job *j, uint64_t now, clu_action *a) {
  int had_node = 0, avoids = 0, denied = 0, waits = 0;
  for (clu_link *at = clu_list_first(&s->idle); at && may_begin(s);
       at = clu_list_next(&s->idle, at)) {
    clu_sched_node *nd = CLU_LIST_MEMBER(at, clu_sched_node, ready);
    int host = clu_sched_host_of(s, nd);
    const clu_need *need;
    uint32_t cores;
    if (nd->sending || !clu_policy_may_do(j, nd->index)) continue;
    if (!clu_policy_has_for(s, j, nd->index)) {
      avoids = 1;
      continue;
    }
    had_node = 1;
    need = need_for(s, j, nd->index);
    if (!clu_ledger_fits(s->ledger, host, need, j->id) || !has_place(nd)) continue;
    if (!clu_policy_fits(s, j, nd)) {
      denied = 1;
      continue;
    }
    cores = cores_for(s, j, host, need, now);
    if (need->cores && cores == 0) {
      waits = 1;
      continue;
    }
    j->denied = 0;
    if (!take(s, nd, j, size_of(s, j, nd), a)) continue;
    grant(s, nd, cores, a);
    return GIVEN;
  }
  j->denied = denied;
  if (denied) return NO_MEMORY;
  if (keep_for(s, j) && !had_node && !waits) j->group->awaits_node = 1;
  return avoids && !had_node ? NEXT_JOB : NEXT_GROUP;
}

/* Tells whether a job waits for this node that came before, and asks for something. */
static int is_awaited(const clu_sched *s, const clu_sched_node *nd, const clu_job *j) {
  for (const clu_group *g = s->groups; g; g = g->next) {
    const clu_job *first;
    if (!g->awaits_node) continue;
    first = CLU_LIST_MEMBER(clu_list_first(&g->waiting), clu_job, waiting);
    if (first->id < j->id && clu_policy_may_do(first, nd->index) &&
        clu_policy_host_could(s, first, nd))
      return 1;
  }
  return 0;
}

/* A job that asks for nothing, at nodes of this list. */
static int try_at(clu_sched *s, clu_job *j, const clu_list *ready, clu_action *a) {
  int avoids = 0, denied = 0;
  for (clu_link *at = clu_list_first(ready); at; at = clu_list_next(ready, at)) {
    clu_sched_node *nd = CLU_LIST_MEMBER(at, clu_sched_node, ready);
    if (!clu_policy_may_do(j, nd->index)) continue;
    if (!clu_policy_has_for(s, j, nd->index)) {
      avoids = 1;
      continue;
    }
    if (clu_ledger_keeps_cores(s->ledger, clu_sched_host_of(s, nd), j->id)) continue;
    if (ready == &s->room && is_awaited(s, nd, j)) continue;
    if (!clu_policy_fits(s, j, nd)) {
      denied = 1;
      continue;
    }
    j->denied = 0;
    if (take(s, nd, j, size_of(s, j, nd), a)) return GIVEN;
  }
  if (denied) j->denied = 1;
  return denied ? NO_MEMORY : avoids ? NEXT_JOB : NEXT_GROUP;
}

static int try_plain(clu_sched *s, clu_job *j, clu_action *a) {
  int at_idle = may_begin(s) ? try_at(s, j, &s->idle, a) : NEXT_GROUP, at_room;
  if (at_idle == GIVEN || at_idle == NO_MEMORY) return at_idle;
  at_room = try_at(s, j, &s->room, a);
  return at_room == NEXT_GROUP ? at_idle : at_room;
}

/* The group whose job came first, of those that have not had their turn. */
static clu_group *next_group(const clu_sched *s) {
  clu_group *next = NULL;
  uint64_t first = UINT64_MAX;
  for (clu_group *g = s->groups; g; g = g->next) {
    const clu_job *j = g->at ? CLU_LIST_MEMBER(g->at, clu_job, waiting) : NULL;
    if (!j || j->id > first) continue;
    first = j->id;
    next = g;
  }
  return next;
}

static int give_in_order(clu_sched *s, uint64_t now, clu_action *a) {
  clu_group *g;
  clu_ledger_keep_none(s->ledger);
  for (g = s->groups; g; g = g->next) {
    g->at = s->away && g->needs_caller ? NULL : clu_list_first(&g->waiting);
    g->awaits_node = 0;
  }
  while ((g = next_group(s))) {
    clu_job *j = CLU_LIST_MEMBER(g->at, clu_job, waiting);
    int tried = g->asks == CLU_ASKS_NOTHING ? try_plain(s, j, a) : try_asking(s, j, now, a);
    if (tried == GIVEN) return 1;
    if (tried == NO_MEMORY) return 0;
    g->at = tried == NEXT_JOB ? clu_list_next(&g->waiting, g->at) : NULL;
  }
  return 0;
}

/* ---- what waits at nodes ---- */

/* Steals for node `to`: whether its tasks wait now. `barred`: some of what is elsewhere this node
 * may not do. Only from nodes that have begun with their first: who has just been sent something
 * would else lose it before it is awake, and so in turn. */
static int steal_for(clu_sched *s, const clu_sched_node *to, uint64_t now, int *barred) {
  clu_link *next;
  int tries = 0;
  for (clu_link *at = clu_list_first(&s->stealable); at && tries < STEAL_TRIES; at = next) {
    clu_sched_node *from = CLU_LIST_MEMBER(at, clu_sched_node, stealable);
    next = clu_list_next(&s->stealable, at);
    if (!clu_policy_may_steal(s, from, to->index)) {
      *barred = 1;
      continue;
    }
    tries++;
    if (from->elsewhere) {
      clu_sched_node_ask_later(s, from, now);
      continue;
    }
    if (clu_claim_first(from->claim) <= clu_sched_first_batch(from)->seq) {
      clu_sched_wake_at(s, now + POLL_CLAIM); /* nobody tells when it begins */
      continue;
    }
    if (clu_sched_node_take_back(s, from)) return 1;
  }
  return 0;
}

/* Nothing waits for a node that is idle, while tasks wait at others. The node for which some were
 * taken from there; NULL: none were. */
static clu_sched_node *steal(clu_sched *s, uint64_t now) {
  for (clu_link *at = clu_list_first(&s->idle); at; at = clu_list_next(&s->idle, at)) {
    clu_sched_node *to = CLU_LIST_MEMBER(at, clu_sched_node, ready);
    int barred = 0;
    if (steal_for(s, to, now, &barred)) return to;
    if (!barred) return NULL; /* the next one would find the same */
  }
  return NULL;
}

int clu_sched_give(clu_sched *s, uint64_t now, clu_action *a) {
  clu_sched_node *nd;
  int in_order = s->waiting_asks > 0;
  if (in_order && give_in_order(s, now, a)) return 1;
  if (!in_order && s->waiting && may_begin(s) && give_one_of(s, &s->idle, a)) return 1;
  if (!in_order && s->waiting && give_one_of(s, &s->room, a)) return 1;
  nd = may_begin(s) ? steal(s, now) : NULL;
  if (!nd) return 0;
  return s->waiting_asks ? give_in_order(s, now, a) : give(s, nd, a);
}
