/* Transport: a node that the fork server of another host has made. It is interrupted, limited and
 * killed as one of this host, by messages to its server. It shares no memory with the session: what
 * was sent to it cannot be taken back, and its small results are sent by the relay there. Its
 * channel passes descriptors, for it ends in the link process of this host (core/link). */
#include "core/node/fork-private.h"
#include "core/node/transports.h"

static int host_is_cut(const clu_node *nd) { return ((const clu_fork_node *)nd)->server->cut; }

static const clu_transport transport = {
    .stop = clu_fork_node_stop,
    .closed = clu_fork_node_closed,
    .end_known = clu_fork_node_end_known,
    .free = clu_fork_node_free,
    .interrupt = clu_fork_node_interrupt,
    .limit_memory = clu_fork_node_limit_memory,
    .takes_segments = 1,
    .is_cut = host_is_cut,
    .is_relayed = 1,
    .describe = clu_fork_node_describe,
};

int clu_node_new_host(clu_server *s, int kind, clu_node **out, clu_err *e) {
  return clu_fork_node_new(s, &transport, kind, out, e);
}
