/* Engines and their nodes: how they begin and end. */
#include "core/tasks/engine.h"

#include <stdlib.h>

#include "core/base/budget.h"
#include "core/tasks/engine-private.h"

/* ---- all of a session ---- */

clu_engines *clu_engines_new(clu_session *session, clu_turns *turns,
                             const clu_engine_caller *caller) {
  clu_engines *all = calloc(1, sizeof *all);
  if (!all) return NULL;
  all->session = session;
  all->turns = turns;
  all->caller = caller;
  clu_engines_listen(all);
  return all;
}

void clu_engines_free(clu_engines *all) {
  if (!all) return;
  free(all->room.nodes);
  free(all->room.of);
  free(all);
}

/* ---- an engine ---- */

clu_engine *clu_engine_new(clu_engines *all, int n, uint64_t grace_ns, size_t most) {
  clu_engine *t = calloc(1, sizeof *t);
  if (!t) return NULL;
  t->all = all;
  t->n = n;
  t->sched = clu_sched_new(grace_ns);
  t->deaths.cap = (size_t)n + 1;
  t->deaths.list = calloc(t->deaths.cap, sizeof *t->deaths.list);
  t->nodes = calloc((size_t)n + 1, sizeof *t->nodes);
  t->trace.most = most;
  t->jobs.names = (uint64_t)all->made++ << 32;
  if (!t->sched || !t->nodes || !t->deaths.list) {
    clu_engine_free(t);
    return NULL;
  }
  for (int i = 0; i < n; i++) {
    t->nodes[i].engine = t;
    t->nodes[i].index = i;
  }
  return t;
}

void clu_engine_drive_always(clu_engine *t) {
  t->next = t->all->first;
  t->all->first = t;
}

static void drive_no_more(clu_engine *t) {
  clu_engine **at = &t->all->first;
  while (*at && *at != t) at = &(*at)->next;
  if (*at) *at = t->next;
}

void clu_engine_free(clu_engine *t) {
  if (!t) return;
  clu_engine_room_free(t);
  for (int i = 0; t->nodes && i < t->n; i++)
    if (t->nodes[i].node) clu_node_drop_data(t->nodes[i].node);
  drive_no_more(t);
  clu_budget_give(t->cores.held);
  clu_engine_hosts_free(t);
  clu_engine_growth_free(t);
  for (clu_task_job *j = t->jobs.first; j; j = j->next) {
    j->engine = NULL;
    j->job = NULL;
  }
  clu_sched_free(t->sched);
  clu_engine_resources_free(t);
  free(t->nodes);
  free(t->deaths.list);
  clu_engine_notes_free(t);
  clu_trace_free(&t->trace);
  clu_memory_history_free(&t->memory);
  clu_view_unref(t->view);
  free(t);
}

void clu_engine_show(clu_engine *t, clu_view *view) {
  clu_view_unref(t->view);
  t->view = clu_view_ref(view);
}

double clu_engine_desired(clu_engine *t, uint64_t target_ns) {
  return clu_sched_desired(t->sched, clu_os_now(), target_ns);
}

const clu_trace *clu_engine_trace(const clu_engine *t) { return &t->trace; }

/* ---- its nodes ---- */

int clu_engine_has(const clu_engine *t, int i, const clu_node *nd) {
  return clu_node_takes_work(nd) && t->nodes[i].id == clu_node_id(nd);
}

int clu_engine_has_any(const clu_engine *t, int i) { return t->nodes[i].id != 0; }
int clu_engine_size(const clu_engine *t) { return t->n; }

int clu_engine_is_whole(const clu_engine *t) {
  if (t->deaths.n) return 0;
  for (int i = 0; i < clu_engine_first(t); i++) {
    const clu_node *nd = clu_engine_node(t, i);
    if (!nd || !clu_engine_has(t, i, nd)) return 0;
  }
  return 1;
}

int clu_engine_shares(const clu_engine *t) {
  int any = 0;
  for (int i = 0; i < t->n; i++) {
    const clu_node *nd = clu_engine_node(t, i);
    if (nd && !clu_node_takes_segments(nd)) return 0;
    any |= nd != NULL;
  }
  return any;
}

int clu_engine_shares_some(const clu_engine *t) {
  for (int i = 0; i < t->n; i++)
    if (t->nodes[i].node && clu_node_takes_segments(t->nodes[i].node)) return 1;
  return 0;
}
