/* The pool's insides, for pool.c (loop, requests, nodes) and server.c only. */
#ifndef CLUTCH_POOL_PARTS_H
#define CLUTCH_POOL_PARTS_H

#include "core/node/node.h"

/* ---- pool.c ---- */

/* Flushes and asks for exactly the readiness that is of use. An error shows when it is read. */
void clu_pool_push(clu_loop *l, clu_chan *c, unsigned *interest, void *what);
void clu_pool_close(clu_loop *l, clu_chan *c, unsigned *interest);
/* The node is over; its answers that have arrived remain. */
void clu_pool_node_over(clu_node *nd);
/* At most `fills` reads, so that one node cannot keep the others waiting; < 0: all there is. */
void clu_pool_node_read(clu_node *nd, int fills);
/* Why it could not be started; `text` may be NULL. */
void clu_pool_refused(clu_node *nd, const clu_blob *text);

/* ---- server.c ---- */

/* A slot of its shared memory for a node; -1: there is none. It is free again when the server has said that the process is
 * no more: until then that may write to it. */
int clu_pool_take_slot(clu_server *s, uint64_t id);
void clu_pool_give_slot_back(clu_server *s, uint64_t id);

#endif
