#include "core/view/observed.h"

#include <stdlib.h>
#include <string.h>

clu_observed *clu_observed_new(clu_view *view, const clu_observed_memory *server) {
  uint64_t n = view->memory->about.nodes;
  clu_observed *s = calloc(1, sizeof *s);
  if (s) s->n = (int)(n < CLU_VIEW_NODES ? n : CLU_VIEW_NODES);
  if (s) s->nodes = calloc((size_t)s->n + 1, sizeof *s->nodes);
  if (!s || !s->nodes) {
    free(s);
    return NULL;
  }
  s->view = view;
  if (server) s->of_server = *server;
  for (int i = 0; i < s->n; i++) clu_process_use_begin(&s->nodes[i], 0);
  return s;
}

static void forget_memory(clu_observed *s) {
  if (s->of_session.shared) clu_os_shared_free(s->of_session.shared, sizeof *s->of_session.shared);
  s->of_session.shared = NULL;
}

void clu_observed_free(clu_observed *s) {
  if (!s) return;
  forget_memory(s);
  clu_view_unref(s->view);
  free(s->nodes);
  free(s);
}

static int is_here(const clu_view_memory *m, const clu_view_node *nd) {
  uint64_t host = clu_view_get(&nd->host), state = clu_view_get(&nd->state);
  return host < CLU_VIEW_HOSTS && strcmp(m->host[host], "localhost") == 0 &&
         (state == CLU_VIEW_READY || state == CLU_VIEW_STARTING || state == CLU_VIEW_HELD);
}

/* The session makes it with its first such node, and drops it with the last one. */
static void find_memory(clu_observed *s) {
  uint64_t which = clu_view_get(&s->view->memory->memory);
  void *p;
  if (which == s->memory) return;
  forget_memory(s);
  s->memory = which;
  s->of_session.pid = (clu_pid)s->view->memory->about.pid;
  if (which && clu_os_shared_of(s->of_session.pid, (clu_fd)(uint32_t)which - 1,
                                sizeof *s->of_session.shared, &p) == CLU_OK)
    s->of_session.shared = p;
}

/* It tells what it is in, see read_call(), the next time. One that has not been at its task for
 * long is not disturbed. */
static void ask_call(const clu_observed *s, int i, uint64_t now) {
  clu_observed_work w;
  clu_observed_work_of(s, i, &w);
  if (w.word && w.seq && now > w.since + CLU_OBSERVED_CALL_AFTER) clu_observed_ask(s, i, &w);
}

static void weigh_some(clu_observed *s) {
  while (clu_weighing_may(&s->weighing, clu_os_now())) {
    clu_process_use *first = NULL;
    for (int i = 0; i < s->n; i++) first = clu_process_use_first(first, &s->nodes[i]);
    if (!first) return;
    clu_process_use_weigh(first, clu_os_now());
    clu_weighing_spend(&s->weighing, first->took);
  }
}

void clu_observed_look(clu_observed *s) {
  clu_view_memory *m = s->view->memory;
  uint64_t now = clu_os_now();
  clu_view_set(&m->watched, now);
  find_memory(s);
  for (int left = clu_process_use_turn(s->n, s->looked, now); left > 0; left--) {
    const clu_view_node *nd = &m->node[s->next];
    clu_process_use *x = &s->nodes[s->next];
    clu_pid pid = (clu_pid)clu_view_get(&nd->pid);
    if (pid != x->pid) clu_process_use_begin(x, pid);
    if (pid > 0 && is_here(m, nd)) clu_process_use_look(x, now);
    ask_call(s, s->next, now);
    s->next = (s->next + 1) % s->n;
  }
  weigh_some(s);
  s->looked = now;
}
