#include "core/node/session.h"

#include <string.h>

#include "core/node/node.h"

int clu_session_init(clu_session *s, clu_err *e) {
  int rc;
  memset(s, 0, sizeof *s);
  rc = clu_loop_init(&s->loop, e);
  clu_children_init(&s->children, &s->loop);
  return rc;
}

void clu_session_fini(clu_session *s) {
  clu_children_fini(&s->children);
  clu_loop_fini(&s->loop);
}

void clu_session_close_in_child(clu_session *s) {
  clu_loop_close_in_child(&s->loop);
  for (clu_node *nd = s->nodes; nd; nd = nd->next) nd->chan.fd = CLU_NO_FD;
  for (clu_server *sv = s->servers; sv; sv = sv->next) sv->chan.fd = CLU_NO_FD;
}
