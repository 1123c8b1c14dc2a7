/* Transport: a node that connects over TCP. Its process is a child of this one, or was started
 * elsewhere; of the latter nothing is known but what its connection says. A child may share
 * memory with this process (CLU_SLOT): then it is interrupted by a signal, and its tasks can be
 * taken back. */
#include "core/node/started-node.h"
#include "core/node/transports.h"

static clu_child *child(const clu_node *nd) { return ((const clu_started_node *)nd)->child; }

static void tcp_interrupt(clu_node *nd, uint64_t seq) {
  volatile uint64_t *cancel = child(nd) ? clu_child_cancel(child(nd)) : NULL;
  /* only its own process, which is not reaped: the signal reaches nobody else */
  if (!cancel || !clu_started_node_own_pid(nd) || *cancel == seq) return;
  *cancel = seq;
  clu_os_interrupt(nd->pid); /* it leads a group: what it waits for in system() hears it, too */
}

static clu_claim *tcp_claim(const clu_node *nd) {
  return child(nd) ? clu_child_claim(child(nd)) : NULL;
}
static clu_ring *tcp_ring(const clu_node *nd) {
  return child(nd) ? clu_child_ring(child(nd)) : NULL;
}

static clu_shared *tcp_shared(const clu_node *nd, int *slot) {
  return child(nd) ? clu_child_shared(child(nd), slot) : NULL;
}

static void tcp_stop(clu_node *nd, uint32_t grace_ms) {
  if (!clu_node_is_connected(nd)) grace_ms = 0; /* it would not hear of it */
  if (grace_ms) clu_node_say_done(nd);
  clu_started_node_end_within(nd, grace_ms);
}

static const clu_transport transport = {
    .reconnects = 1,
    .stop = tcp_stop,
    .closed = clu_started_node_closed,
    .end_known = clu_started_node_end_known,
    .free = clu_started_node_free,
    .ended = clu_started_node_ended,
    .start = clu_started_node_start,
    .interrupt = tcp_interrupt,
    .claim = tcp_claim,
    .ring = tcp_ring,
    .shared = tcp_shared,
    .own_pid = clu_started_node_own_pid,
    .clock_is_ours = clu_started_node_clock_is_ours,
    .describe = clu_started_node_describe,
};

int clu_node_new_tcp(clu_session *s, clu_node **out, clu_err *e) {
  return clu_started_node_new(s, &transport, out, e);
}
