#include "core/node/started-node.h"

#include <stdlib.h>

static clu_started_node *started(clu_node *nd) { return (clu_started_node *)nd; }
static const clu_started_node *const_started(const clu_node *nd) {
  return (const clu_started_node *)nd;
}

static void leave_time_is_up(void *self) { clu_node_close(self); }

int clu_started_node_new(clu_session *s, const clu_transport *transport, clu_node **out,
                         clu_err *e) {
  clu_started_node *n = calloc(1, sizeof *n);
  if (!n) return clu_fail(e, CLU_NOMEM, 0, "not enough memory");
  clu_timer_init(&n->leave, leave_time_is_up, &n->node);
  clu_node_init(&n->node, transport, s);
  *out = &n->node;
  return CLU_OK;
}

int clu_started_node_start(clu_node *nd, const clu_spawn *spec, int slot, const char *folder,
                           clu_err *e) {
  return clu_child_start(&nd->session->children, spec, slot, folder, &started(nd)->child, e);
}

int clu_started_node_ended(clu_node *nd) {
  clu_child *c = started(nd)->child;
  if (!c || !clu_child_reap(c)) return 0;
  if (clu_child_how(c, &nd->how)) nd->how_known = 1;
  return 1;
}

int clu_started_node_end_known(const clu_node *nd) {
  const clu_child *c = const_started(nd)->child;
  return !c || clu_child_has_ended(c);
}

void clu_started_node_closed(clu_node *nd) {
  clu_started_node *n = started(nd);
  clu_timer_cancel(&n->leave);
  if (!n->child) return;
  clu_child_end_by(n->child, nd->closed + CLU_LAST_GRACE);
  clu_child_detach(n->child);
}

void clu_started_node_free(clu_node *nd) {
  clu_started_node *n = started(nd);
  if (n->child) clu_child_release(n->child);
  free(n);
}

clu_pid clu_started_node_own_pid(const clu_node *nd) {
  const clu_child *c = const_started(nd)->child;
  return c && !clu_child_has_ended(c) && clu_child_pid(c) == nd->pid
             ? nd->pid
             : 0; /* else it is ssh's, or a number of another host */
}

int clu_started_node_clock_is_ours(const clu_node *nd) { return const_started(nd)->child != NULL; }

void clu_started_node_describe(const clu_node *nd, clu_node_status *out) {
  const clu_child *c = const_started(nd)->child;
  out->started = c ? clu_child_pid(c) : 0;
}

void clu_started_node_say(clu_node *nd, const char *text, size_t n) {
  clu_child *c = started(nd)->child;
  if (c) clu_child_say(c, text, n);
}

void clu_started_node_end_within(clu_node *nd, uint32_t grace_ms) {
  clu_started_node *n = started(nd);
  uint64_t by = grace_ms ? clu_os_now() + grace_ms * 1000000ull : 0;
  if (n->child) clu_child_end_by(n->child, by);
  if (!by)
    clu_node_close(nd);
  else if (!clu_timer_is_armed(&n->leave))
    clu_timer_arm(&nd->session->loop, &n->leave, by);
}
