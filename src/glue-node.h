/* A node's own side. */
#ifndef CLUTCH_GLUE_NODE_H
#define CLUTCH_GLUE_NODE_H

#include "core/supervisor.h"

/* Called in the child right after the fork, before it goes back to R: remembers who it is. */
void clu_node_born(const clu_birth *b);

/* A node that has connected over TCP: takes over the channel. `idle_ns` of silence end it; < 0: none do. */
void clu_node_joined(const clu_birth *b, clu_chan *c, int64_t idle_ns);

#endif
