/* A node gets its part in the work of an engine, or loses it as nobody needs it. */
#include "core/tasks/engine-private.h"
#include "core/tasks/kept.h"

/* Where memory is short: ns without work, and bytes, that a node may have. */
static const uint64_t RENEW_AFTER = 200000000;
static const int64_t KEPT = 12 << 20;

/* Another node has come: what was known of the one before is of no use. */
static void replace_node(clu_task_node *at, clu_node *nd) {
  at->id = clu_node_id(nd);
  at->node = nd;
  at->closed = 0;
  at->over_memory = 0;
  at->killed = CLU_NOT_KILLED;
  at->excuse = CLU_EXCUSE_UNKNOWN;
  at->idle = 0;
  at->gives_way = at->is_kept = 0;
  at->memory = 0;
  at->early = at->asked = 0;
  clu_engine_room_attach(at, nd);
}

int clu_engine_attach(clu_engine *t, int i, clu_node *nd) {
  clu_task_node *at = &t->nodes[i];
  if (!clu_node_takes_work(nd)) {
    int is_dead = clu_node_is_lost(nd) || at->killed || at->idle;
    return is_dead ? CLU_ATTACH_DEAD : CLU_ATTACH_STOPPED;
  }
  if (at->id == clu_node_id(nd)) return CLU_ATTACHED;
  if (at->id) {
    if (at->excuse == CLU_EXCUSE_UNKNOWN) at->excuse = CLU_NOT_EXCUSED;
    clu_engine_see_deaths(t, 1); /* the one before has ended unseen */
    clu_engine_take_endings(t);
  }
  clu_node_drop_data(nd);
  replace_node(at, nd);
  t->idle.is_idle = 0;
  clu_node_set_data(nd, at);
  if (clu_node_ring(nd))
    t->rings.any = 1;
  else
    t->rings.not_all = 1;
  clu_engine_limit_node(t, nd);
  if (t->all->polite.ever) clu_task_node_give_way(at, t->all->polite.cores > 0);
  if (clu_sched_node_up(t->sched, i, clu_node_claim(nd)) != CLU_OK) {
    clu_node_drop_data(nd);
    at->id = 0; /* or the next time it would seem to have its part */
    return CLU_ATTACH_NO_MEMORY;
  }
  if (clu_node_is_proxied(nd)) clu_sched_node_elsewhere(t->sched, i);
  if (!clu_node_clock_is_ours(nd)) clu_sched_node_apart(t->sched, i);
  if (clu_node_is_proxied(nd) || !clu_node_clock_is_ours(nd)) t->cores.is_elsewhere = 1;
  at->cut = clu_node_is_cut(nd);
  clu_sched_node_cut(t->sched, i, at->cut != CLU_IS_REACHED, clu_os_now());
  return CLU_ATTACHED;
}

void clu_engine_keep_node(clu_engine *t, int i, clu_pid pid, int keeps) {
  clu_task_node *at = &t->nodes[i];
  if (!at->id || !at->node || clu_node_pid(at->node) != pid) return;
  at->is_kept += keeps ? 1 : -1;
  if (keeps) clu_task_node_go_on(at);
}

int clu_engine_is_busy(const clu_engine *t, int i) {
  const clu_task_node *at = &t->nodes[i];
  if (!at->id || !at->node || clu_node_busy(at->node)) return 1;
  return clu_sched_node_idle_since(t->sched, i) == UINT64_MAX;
}

int clu_engine_end_node(clu_engine *t, clu_task_node *at) {
  if (!at->node || at->is_kept || !clu_node_takes_work(at->node)) return 0;
  clu_node_stop(at->node, CLU_IDLE_GRACE_MS);
  clu_node_drop_data(at->node);
  clu_sched_node_lost(t->sched, at->index, 0, CLU_RETRY_NONE);
  at->id = 0;
  return 1;
}

/* A node that has collected has its own copy of what it inherited from the fork server, as the mark
 * of each object was written. Its successor has not. One that the user has called stays: he may
 * want what he has left there. */
static int is_to_be_renewed(const clu_engine *t, clu_task_node *at, uint64_t now) {
  uint64_t since;
  if (!at->id || at->room.is_asked || at->killed || at->index >= clu_engine_first(t)) return 0;
  since = clu_sched_node_idle_since(t->sched, at->index);
  if (since > now || now - since < RENEW_AFTER) return 0;
  if (!clu_node_can_hold(at->node) || clu_node_was_called(at->node)) return 0;
  at->room.is_asked = 1; /* it takes a while */
  return !clu_node_busy(at->node) && clu_os_process_memory(clu_node_pid(at->node), KEPT) > KEPT;
}

void clu_engine_renew_idle(clu_engine *t) {
  const struct clu_engines_room *r = &t->all->room;
  uint64_t now = r->is.is_short && r->is_shared ? clu_os_now() : 0;
  for (int i = 0; now && i < t->n; i++) {
    clu_task_node *at = &t->nodes[i];
    if (!is_to_be_renewed(t, at, now) || !clu_engine_end_node(t, at)) continue;
    at->idle = 1;
    clu_engine_note(t, CLU_NOTE_RENEW, i, NULL, 0, 0);
  }
}

int clu_engine_first(const clu_engine *t) { return t->grow.is.server ? t->grow.is.first : t->n; }
