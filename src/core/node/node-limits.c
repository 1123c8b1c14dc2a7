/* This limits what a node may have, and has its process stand still for a while. */
#include "core/node/node-private.h"

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
