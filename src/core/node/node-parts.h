/* What node.c and fork-server.c need of each other. */
#ifndef CLUTCH_NODE_PARTS_H
#define CLUTCH_NODE_PARTS_H

#include "core/node/node.h"

/* ---- node.c ---- */

/* The node is over; its answers that have arrived remain. */
void clu_pool_node_over(clu_node *nd);
/* At most `fills` reads, so that one node cannot keep the others waiting; < 0: all there is. */
void clu_pool_node_read(clu_node *nd, int fills);
/* Why it could not be started; `text` may be NULL. */
void clu_pool_refused(clu_node *nd, const clu_blob *text);

/* ---- fork-server.c ---- */

/* A slot of its shared memory for a node; -1: there is none. It is free again when the server has said that the process is
 * no more: until then that may write to it. */
int clu_pool_take_slot(clu_server *s, uint64_t id);
void clu_pool_give_slot_back(clu_server *s, uint64_t id);

#endif
