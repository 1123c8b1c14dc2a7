#include "r/tasks/memory-limit.h"

static const uint64_t CHECK_EVERY = 20000000; /* ns */

void clu_tasks_limit_node(const tasks *t, clu_node *nd) {
  clu_node_limit(nd, (uint64_t)t->limits.bytes);
}

int clu_tasks_can_limit(const clu_node *nd) {
  return clu_node_limits_memory(nd) || clu_node_own_pid(nd);
}

static double least_limit(const tasks *t) {
  double least = 0;
  if (t->limits.njobs == 0) return 0; /* it is asked in each turn, and there may be many jobs */
  for (const task_job *j = t->jobs.first; j; j = j->next)
    if (j->max_memory > 0 && clu_job_left(j->job) && (least == 0 || j->max_memory < least))
      least = j->max_memory;
  return least;
}

/* Of a node whose transport does not see to it, and which is at something. */
static void check_node(tasks *t, int i) {
  task_node *at = &t->nodes[i];
  clu_node *nd = clu_tasks_known_node(t, i);
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
  clu_tasks_kill(nd, at, TASK_KILL_NO_REACTION);
}

void clu_tasks_limit_memory(tasks *t) {
  uint64_t now = clu_os_now();
  double least = least_limit(t);
  if (least != t->limits.bytes) {
    t->limits.bytes = least;
    if (t->view) clu_view_set(&t->view->memory->limit, (uint64_t)least);
    for (int i = 0; i < t->n; i++) {
      clu_node *nd = clu_tasks_known_node(t, i);
      if (nd) clu_tasks_limit_node(t, nd);
    }
  }
  if (least == 0 || now - t->limits.checked < CHECK_EVERY) return;
  t->limits.checked = now;
  for (int i = 0; i < t->n; i++) check_node(t, i);
}
