/* Transport: a worker of base R's. Its connection, on which it is told to end, is the caller's
 * (src/r/session/psock.c); only its state and its process are kept here. */
#include "core/node/started-node.h"
#include "core/node/transports.h"

static void psock_stop(clu_node *nd, uint32_t grace_ms) {
  clu_started_node_end_within(
      nd, clu_node_is_starting(nd) ? 0 : grace_ms); /* while it starts it hears nothing */
  clu_node_close(nd);                               /* the caller has told it */
}

static const clu_transport transport = {
    .stop = psock_stop,
    .closed = clu_started_node_closed,
    .end_known = clu_started_node_end_known,
    .free = clu_started_node_free,
    .ended = clu_started_node_ended,
    .start = clu_started_node_start,
    .say = clu_started_node_say,
    .own_pid = clu_started_node_own_pid,
    .clock_is_ours = clu_started_node_clock_is_ours,
    .describe = clu_started_node_describe,
};

int clu_node_new_psock(clu_session *s, clu_node **out, clu_err *e) {
  return clu_started_node_new(s, &transport, out, e);
}

void clu_node_psock_ready(clu_node *nd, clu_pid pid) { clu_node_set_ready(nd, pid); }
