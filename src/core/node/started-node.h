/* A node whose process this session may have started itself (core/node/child-process.h): what
 * the transports that have one share. */
#ifndef CLUTCH_STARTED_NODE_H
#define CLUTCH_STARTED_NODE_H

#include "core/node/node-private.h"

typedef struct clu_started_node {
  clu_node node;
  clu_child *child; /* its process, or the one that starts it elsewhere (ssh); NULL: others have
                       started it */
  clu_timer leave; /* armed: it was told to stop and may not be ours to kill; it is given up then */
} clu_started_node;

int clu_started_node_new(clu_session *s, const clu_transport *transport, clu_node **out,
                         clu_err *e);

/* Functions of a clu_transport, by their names there. */
int clu_started_node_start(clu_node *nd, const clu_spawn *spec, int slot, const char *folder,
                           clu_err *e);
int clu_started_node_ended(clu_node *nd);
int clu_started_node_end_known(const clu_node *nd);
void clu_started_node_closed(clu_node *nd);
void clu_started_node_free(clu_node *nd);
clu_pid clu_started_node_own_pid(const clu_node *nd);
int clu_started_node_clock_is_ours(const clu_node *nd);
void clu_started_node_describe(const clu_node *nd, clu_node_status *out);
void clu_started_node_say(clu_node *nd, const char *text, size_t n);
/* Has its process end within `grace_ms` (0: kills it). The node is closed by then, or with 0 at
 * once. */
void clu_started_node_end_within(clu_node *nd, uint32_t grace_ms);

#endif
