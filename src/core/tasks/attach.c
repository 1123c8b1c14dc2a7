/* A node gets its part in the work of an engine, or loses it as nobody needs it. */
#include "core/tasks/engine-private.h"

/* Another node has come: what was known of the one before is of no use. */
static void replace_node(clu_task_node *at, clu_node *nd) {
  at->id = clu_node_id(nd);
  at->node = nd;
  at->closed = 0;
  at->over_memory = 0;
  at->killed = CLU_NOT_KILLED;
  at->excuse = CLU_EXCUSE_UNKNOWN;
  at->idle = 0;
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
  if (clu_sched_node_up(t->sched, i, clu_node_claim(nd)) != CLU_OK) return CLU_ATTACH_NO_MEMORY;
  if (clu_node_is_proxied(nd)) clu_sched_node_elsewhere(t->sched, i);
  if (!clu_node_clock_is_ours(nd)) clu_sched_node_apart(t->sched, i);
  if (clu_node_is_proxied(nd) || !clu_node_clock_is_ours(nd)) t->cores.is_elsewhere = 1;
  at->cut = clu_node_is_cut(nd);
  clu_sched_node_cut(t->sched, i, at->cut != CLU_IS_REACHED, clu_os_now());
  return CLU_ATTACHED;
}

int clu_engine_end_node(clu_engine *t, clu_task_node *at) {
  if (!at->node || !clu_node_takes_work(at->node)) return 0;
  clu_node_stop(at->node, CLU_IDLE_GRACE_MS);
  clu_node_drop_data(at->node);
  clu_sched_node_lost(t->sched, at->index, 0, CLU_RETRY_NONE);
  at->id = 0;
  return 1;
}

int clu_engine_first(const clu_engine *t) { return t->grow.is.server ? t->grow.is.first : t->n; }
