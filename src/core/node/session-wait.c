/* Waiting for what comes in the event loop of a session. */
#include "core/node/node-private.h"

#define AWAIT_END 1000000000 /* ns */

/* The time is up, but this process may have been stopped meanwhile, and what it waits for may be
 * here: all that has come is read. */
int clu_session_drain(clu_session *s, int (*done)(void *), void *data) {
  for (int k = 0; k < 1000 && !done(data); k++)
    if (clu_loop_pump(&s->loop, 0, NULL) != CLU_OK || clu_loop_events(&s->loop) == 0) break;
  return done(data);
}

int clu_session_pump_for(clu_session *s, int (*done)(void *), void *data, uint64_t deadline) {
  while (!done(data)) {
    uint64_t now = clu_os_now();
    if (now >= deadline) return clu_session_drain(s, done, data);
    if (clu_loop_pump(&s->loop, (int64_t)(deadline - now), NULL) != CLU_OK) return 0;
  }
  return 1;
}

static int how_known(void *data) {
  const clu_node *nd = data;
  return clu_node_refusal(nd) || clu_node_end_known(nd);
}

void clu_node_await_end(clu_node *nd) {
  clu_session_pump_for(nd->session, how_known, nd, clu_os_now() + AWAIT_END);
}
