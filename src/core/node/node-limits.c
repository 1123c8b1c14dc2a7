/* The fork server of a node limits what that may have, has its process stand still for a while, and
 * writes to its sockets. The session writes to the standard input of a process that it has started.
 */
#include "core/node/node-private.h"

#include <string.h>

int clu_node_limits_memory(const clu_node *nd) { return nd->transport->limit_memory != NULL; }

void clu_node_limit(clu_node *nd, uint64_t bytes) {
  if (clu_node_is_open(nd) && nd->transport->limit_memory) nd->transport->limit_memory(nd, bytes);
}

int clu_node_can_hold(const clu_node *nd) {
  return clu_node_is_ready(nd) && nd->transport->hold != NULL;
}

void clu_node_hold(clu_node *nd, int held) {
  if (!clu_node_is_open(nd) || !nd->transport->hold) return;
  nd->held = held;
  nd->transport->hold(nd, held);
  clu_node_show_state(nd);
}

void clu_node_say(clu_node *nd, const char *text, size_t n) {
  if (clu_node_is_open(nd) && nd->transport->say) nd->transport->say(nd, text, n);
}

int clu_node_deliver(clu_node *nd, const char *path, const void *p, size_t n) {
  unsigned char len[4];
  size_t size = strlen(path);
  clu_blob *b;
  int rc;
  if (!clu_node_is_open(nd)) return CLU_DEAD;
  if (!nd->transport->deliver) return CLU_UNSUPPORTED;
  if (!(b = clu_blob_new(sizeof len + size + n))) return CLU_NOMEM;
  clu_put32(len, (uint32_t)size);
  clu_blob_append(b, len, sizeof len); /* there is room */
  clu_blob_append(b, path, size);
  clu_blob_append(b, p, n);
  rc = nd->transport->deliver(nd, b);
  clu_blob_unref(b);
  return rc;
}
