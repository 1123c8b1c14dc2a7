/* This file finds what nodes are at, and which R calls they are in: those of this host say it in
 * memory that they share with their fork server or with the session, those of others in the view,
 * by the link process. */
#include "core/view/observed.h"

static const uint64_t TOLD_WITHIN = 15000000000u; /* what a host told before counts no more */
static const uint64_t BEGINS_WITHIN = 100000000;  /* a task that was sent to another host */

/* ---- of this host ---- */

/* Where node `i` says it: `*slot` of that memory; NULL: nowhere that can be read. */
static clu_shared *memory_of(const clu_observed *s, int i, int *slot) {
  const clu_view_node *nd = &s->view->memory->node[i];
  const clu_observed_memory *const from[] = {&s->of_server, &s->of_session};
  uint64_t number = clu_view_get(&nd->slot), pid = clu_view_get(&nd->server);
  if (number == 0 || number > CLU_SLOTS) return NULL;
  *slot = (int)number - 1;
  for (int k = 0; k < 2; k++)
    if (from[k]->shared && (uint64_t)from[k]->pid == pid)
      return clu_shared_activity(from[k]->shared, *slot) ? from[k]->shared : NULL;
  return NULL;
}

static void read_here(clu_shared *from, int slot, clu_observed_work *out) {
  out->seq = clu_activity_look(clu_shared_activity(from, slot), &out->since);
  out->is_busy = out->seq > 0;
  out->word = clu_shared_stack_word(from, slot);
  out->stack = clu_shared_stack(from, slot);
}

/* ---- of other hosts ---- */

int clu_observed_tells(const clu_view_far *h) {
  uint64_t asked = clu_view_get(&h->asked);
  return clu_view_get(&h->state) == CLU_VIEW_HOST_UP && asked && clu_os_now() < asked + TOLD_WITHIN;
}

const clu_view_far *clu_observed_told_by(const clu_view *v, int i) {
  const clu_view_far *h = clu_view_far_of(v, i);
  return h && clu_observed_tells(h) ? h : NULL;
}

/* The session knows of what the node was sent a moment ago, and not yet of what has ended. */
static void read_far(const clu_view *v, int i, clu_observed_work *out) {
  const clu_view_node *nd = &v->memory->node[i];
  const clu_view_far *h = clu_observed_told_by(v, i);
  if (!h) return;
  out->seq = clu_view_get(&nd->at_hand);
  if (out->seq) out->since = clu_view_get(&nd->since);
  if (out->seq || clu_view_get(&h->asked) > clu_view_get(&nd->changed) + BEGINS_WITHIN)
    out->is_busy = out->seq > 0;
  if (i >= CLU_VIEW_STACKS) return;
  out->word = &v->memory->stack_word[i];
  out->stack = &v->memory->stack[i];
}

/* ---- of both ---- */

void clu_observed_work_of(const clu_observed *s, int i, clu_observed_work *out) {
  const clu_view_node *nd = &s->view->memory->node[i];
  int slot;
  clu_shared *from = memory_of(s, i, &slot);
  out->seq = 0;
  out->since = clu_view_get(&nd->changed);
  out->is_busy = clu_view_get(&nd->waiting) > 0;
  out->is_here = from != NULL;
  out->word = NULL;
  out->stack = NULL;
  if (from)
    read_here(from, slot, out);
  else
    read_far(s->view, i, out);
}

uint32_t clu_observed_ask(const clu_observed *s, int i, const clu_observed_work *w) {
  return w->is_here ? clu_stack_ask(w->word) : clu_view_ask_stack(s->view, i);
}

/* The place of a node in the view is its successor's, too, which counts its tasks from 1 again. */
int clu_observed_stack_of(const clu_observed_work *w, clu_stack *told) {
  return w->word && clu_stack_read(w->word, w->stack, told) && told->seq == w->seq &&
         told->size <= CLU_STACK_TEXT && told->taken + BEGINS_WITHIN > w->since;
}
