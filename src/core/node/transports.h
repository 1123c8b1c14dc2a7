/* How nodes are made, one constructor for each transport. `*out` is the caller's, with rank 0;
 * from then on node.h is all that is needed. Nothing here blocks. */
#ifndef CLUTCH_TRANSPORTS_H
#define CLUTCH_TRANSPORTS_H

#include "core/node/fork-server.h"
#include "core/node/node.h"

/* Asks a fork server for a node, which is started as `kind`, of enum clu_start_kind, says.
 * CLU_DEAD: the server has ended. */
int clu_node_new_fork(clu_server *s, int kind, clu_node **out, clu_err *e);

/* Does the same of the fork server of another host (clu_server_connect()). */
int clu_node_new_host(clu_server *s, int kind, clu_node **out, clu_err *e);

/* A node that connects over TCP. It is starting until it has connected (clu_node_connect(), as
 * the acceptor does), was told its settings, and has said HELLO. Its process, or the one that
 * starts it elsewhere, may be started by clu_node_start(). */
int clu_node_new_tcp(clu_session *s, clu_node **out, clu_err *e);

/* A worker of base R's, whose connection is the caller's business and not this module's. Its
 * process may be started by clu_node_start(). */
int clu_node_new_psock(clu_session *s, clu_node **out, clu_err *e);
/* It has answered: it is process `pid`. */
void clu_node_psock_ready(clu_node *nd, clu_pid pid);

#endif
