/* The limits of the nodes' memory, in the session. The limit in force is the least of those of the
 * jobs under way. The nodes' fork server sees to it, also while the session does other things; of
 * nodes without one the session does. And how much memory nodes have, over time. */
#include "core/tasks/engine-private.h"

static const uint64_t CHECK_EVERY = 20000000; /* ns */

void clu_engine_limit_node(const clu_engine *t, clu_node *nd) {
  clu_node_limit(nd, (uint64_t)t->limits.bytes);
}

int clu_engine_can_limit(const clu_engine *t, int i) {
  const clu_node *nd = clu_engine_node(t, i);
  return !nd || clu_node_limits_memory(nd) || clu_node_own_pid(nd);
}

static double least_limit(const clu_engine *t) {
  double least = 0;
  if (t->limits.njobs == 0) return 0; /* it is asked in each turn, and there may be many jobs */
  for (const clu_task_job *j = t->jobs.first; j; j = j->next)
    if (j->max_memory > 0 && clu_job_left(j->job) && (least == 0 || j->max_memory < least))
      least = j->max_memory;
  return least;
}

/* Checks a node that is at something, and whose transport does not see to the limit. */
static void check_node(clu_engine *t, int i) {
  clu_task_node *at = &t->nodes[i];
  clu_node *nd = clu_engine_node(t, i);
  int64_t limit = (int64_t)t->limits.bytes, has;
  clu_pid pid;
  if (!nd || clu_node_limits_memory(nd) || at->over_memory ||
      clu_sched_node_tasks(t->sched, i, NULL) == 0)
    return;
  pid = clu_node_own_pid(nd);
  if (!pid) return;
  has = clu_os_process_memory(pid, limit);
  if (has <= limit) return;
  at->over_memory = 1;
  at->memory = has;
  clu_task_node_kill(nd, at, CLU_KILL_NO_REACTION);
}

void clu_engine_limit_memory(clu_engine *t) {
  uint64_t now = clu_os_now();
  double least = least_limit(t);
  if (least != t->limits.bytes) {
    t->limits.bytes = least;
    if (t->view) clu_view_set(&t->view->memory->limit, (uint64_t)least);
    for (int i = 0; i < t->n; i++) {
      clu_node *nd = clu_engine_node(t, i);
      if (nd) clu_engine_limit_node(t, nd);
    }
  }
  if (least == 0 || now - t->limits.checked < CHECK_EVERY) return;
  t->limits.checked = now;
  for (int i = 0; i < t->n; i++) check_node(t, i);
}

/* ---- memory over time ---- */

/* Nodes of other hosts have another clock, and other processes. */
static clu_pid pid_here(const void *of, int i) {
  const clu_node *nd = clu_engine_node(of, i);
  return nd && clu_node_is_ready(nd) && clu_node_clock_is_ours(nd) ? clu_node_pid(nd) : 0;
}

void clu_engine_look_at_memory(clu_engine *t, uint64_t now) {
  if (now >= t->memory.due && t->trace.most > 0)
    clu_memory_history_next(&t->memory, t->n, pid_here, t);
}

const clu_memory_history *clu_engine_memory(clu_engine *t) {
  if (t->trace.most > 0) clu_memory_history_all(&t->memory, t->n, pid_here, t);
  return &t->memory;
}
