#include "r/node/seen.h"

#include <stdlib.h>
#include <string.h>

clu_seen *clu_seen_new(clu_view *view) {
  uint64_t n = view->memory->about.nodes;
  clu_seen *s = calloc(1, sizeof *s);
  if (s) s->n = (int)(n < CLU_VIEW_NODES ? n : CLU_VIEW_NODES);
  if (s) s->nodes = calloc((size_t)s->n + 1, sizeof *s->nodes);
  if (!s || !s->nodes) {
    free(s);
    return NULL;
  }
  s->view = view;
  for (int i = 0; i < s->n; i++) clu_process_use_begin(&s->nodes[i], 0);
  return s;
}

void clu_seen_free(clu_seen *s) {
  if (!s) return;
  clu_view_unref(s->view);
  free(s->nodes);
  free(s);
}

static int is_here(const clu_view_memory *m, const clu_view_node *nd) {
  uint64_t host = clu_view_get(&nd->host), state = clu_view_get(&nd->state);
  return host < CLU_VIEW_HOSTS && strcmp(m->host[host], "localhost") == 0 &&
         (state == CLU_VIEW_READY || state == CLU_VIEW_STARTING);
}

static uint64_t ended_at(const clu_view_node *nd, const clu_seen_server *of) {
  uint64_t slot = clu_view_get(&nd->slot);
  const clu_activity *a = NULL;
  if (of->shared && slot > 0 && slot <= CLU_SLOTS && clu_view_get(&nd->server) == (uint64_t)of->pid)
    a = clu_shared_activity(of->shared, (int)slot - 1);
  return a ? atomic_load_explicit(&a->ended, memory_order_relaxed) : UINT64_MAX;
}

void clu_seen_look(clu_seen *s, const clu_seen_server *of) {
  clu_view_memory *m = s->view->memory;
  uint64_t now = clu_os_now();
  clu_view_set(&m->watched, now);
  for (int left = clu_process_use_turn(s->n, s->looked, now); left > 0; left--) {
    const clu_view_node *nd = &m->node[s->next];
    clu_process_use *x = &s->nodes[s->next];
    clu_pid pid = (clu_pid)clu_view_get(&nd->pid);
    if (pid != x->pid) clu_process_use_begin(x, pid);
    if (pid > 0 && is_here(m, nd)) clu_process_use_look(x, ended_at(nd, of), now);
    s->next = (s->next + 1) % s->n;
  }
  s->looked = now;
}
