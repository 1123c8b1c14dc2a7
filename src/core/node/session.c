#include "core/node/session.h"

#include <stdlib.h>

#include "core/node/fork-private.h"
#include "core/node/node-private.h"

clu_session *clu_session_new(clu_err *e) {
  clu_session *s = calloc(1, sizeof *s);
  if (!s) {
    clu_fail(e, CLU_NOMEM, 0, "not enough memory");
    return NULL;
  }
  if (clu_loop_init(&s->loop, e) != CLU_OK) {
    free(s);
    return NULL;
  }
  clu_children_init(&s->children, &s->loop);
  return s;
}

void clu_session_free(clu_session *s) {
  if (!s) return;
  clu_children_fini(&s->children);
  clu_loop_fini(&s->loop);
  free(s);
}

void clu_session_close_in_child(clu_session *s) {
  clu_loop_close_in_child(&s->loop);
  for (clu_node *nd = s->nodes; nd; nd = nd->next) nd->chan.fd = CLU_NO_FD;
  for (clu_server *sv = s->servers; sv; sv = sv->next) sv->chan.fd = CLU_NO_FD;
}

clu_loop *clu_session_loop(clu_session *s) { return &s->loop; }
clu_children *clu_session_children(clu_session *s) { return &s->children; }
clu_node *clu_session_nodes(const clu_session *s) { return s->nodes; }
clu_node *clu_node_next(const clu_node *nd) { return nd->next; }
int clu_session_is_empty(const clu_session *s) { return !s->nodes && !s->servers; }
uint64_t clu_session_deaths(const clu_session *s) { return s->deaths; }
uint64_t clu_session_cuts(const clu_session *s) { return s->cuts; }
uint64_t clu_session_received(const clu_session *s) { return s->received; }
uint64_t clu_session_new_id(clu_session *s) { return ++s->last_id; }
void clu_session_set_host_hook(clu_session *s, void (*on_host)(clu_node *nd, const clu_msg *m)) {
  s->on_host = on_host;
}
void clu_session_set_mesh_hook(clu_session *s, void (*on_mesh)(clu_node *nd, const clu_msg *m)) {
  s->on_mesh = on_mesh;
}
void clu_session_set_forward_hook(clu_session *s,
                                  void (*on_forward)(clu_node *nd, const clu_msg *m)) {
  s->on_forward = on_forward;
}
void clu_session_add_forwards(clu_session *s, int more) { s->forwards += more; }
void clu_session_set_may_forward(clu_session *s, int may) { s->may_forward = may; }
int clu_session_forwards(const clu_session *s) { return s->forwards; }
int clu_session_may_forward(const clu_session *s) { return s->may_forward; }
void clu_session_forget_received(clu_session *s, uint64_t n) { s->received -= n; }
void clu_session_set_task_hooks(clu_session *s, const clu_task_hooks *hooks) { s->hooks = hooks; }
