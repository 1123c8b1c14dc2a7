/* The limits of the nodes' memory, in the master. */
#include "r/tasks/tasks.h"

static const uint64_t MEMORY_EVERY = 20000000; /* ns between looks at the nodes' memory */

void clu_tasks_limit_node(tasks *t, clu_node *nd, tnode *at) {
  if (nd && clu_node_id(nd) == at->id) clu_node_limit(nd, (uint64_t)t->limit);
}

/* The limit of the nodes' memory is the least of those of the jobs under way. Their fork server sees to it, also while the
 * session does other things; of nodes without one this does. */
void clu_tasks_limit_memory(tasks *t, SEXP handles) {
  uint64_t now = clu_os_now();
  double least = 0;
  for (tjob *j = t->jobs; j; j = j->next)
    if (j->max_memory > 0 && clu_job_left(j->job) && (least == 0 || j->max_memory < least)) least = j->max_memory;
  if (least != t->limit) {
    t->limit = least;
    for (int i = 0; i < t->n; i++)
      if (t->nodes[i].id) clu_tasks_limit_node(t, clu_tasks_node(handles, i), &t->nodes[i]);
  }
  if (least == 0 || now - t->looked_at_memory < MEMORY_EVERY) return;
  t->looked_at_memory = now;
  for (int i = 0; i < t->n; i++) {
    tnode *at = &t->nodes[i];
    clu_node *nd = at->id ? clu_tasks_node(handles, i) : NULL;
    clu_pid pid;
    int64_t has;
    if (!nd || clu_node_id(nd) != at->id || clu_node_limits_memory(nd) || at->over_memory || clu_sched_node_tasks(t->e, i, NULL) == 0) continue;
    if (!(pid = clu_node_own_pid(nd)) || (has = clu_os_process_memory(pid, (int64_t)least)) <= (int64_t)least) continue;
    at->over_memory = 1;
    at->memory = has;
    clu_tasks_kill(nd, at, CLU_NO_REACTION);
  }
}

/* Numbers of the nodes whose memory cannot be limited: nobody here is told how much they have. */
SEXP ffi_tasks_unlimited(SEXP x) {
  tasks *t = clu_get_tasks(x);
  SEXP handles = R_ExternalPtrProtected(x), out = PROTECT(Rf_allocVector(INTSXP, t->n));
  int told = clu_os_process_memory(clu_os_getpid(), -1) >= 0, n = 0;
  for (int i = 0; i < t->n; i++) {
    clu_node *nd = t->nodes[i].id ? clu_tasks_node(handles, i) : NULL;
    if (nd && !(told && (clu_node_limits_memory(nd) || clu_node_own_pid(nd)))) INTEGER(out)[n++] = i + 1;
  }
  out = Rf_lengthgets(out, n);
  UNPROTECT(1);
  return out;
}
