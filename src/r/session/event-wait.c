/* Waiting for what comes in the event loop, with R's interrupts and a deadline. */
#include "r/session/session.h"

static clu_spins spins;

static int wait_for(int (*done)(void *), void *data, uint64_t deadline, void (*fn)(void *),
                    uint64_t spin_end) {
  uint64_t checked = 0;
  if (done(data)) return 1;
  clu_turn_work_here(0); /* where one short wait follows the other nobody else has a turn */
  while (!done(data)) {
    clu_err e = {0, 0, ""};
    uint64_t now;
    int64_t wait = CLU_SLICE;
    if (deadline != UINT64_MAX) {
      now = clu_os_now();
      if (now >= deadline) return clu_session_drain(clu_the_session, done, data);
      if ((uint64_t)wait > deadline - now) wait = (int64_t)(deadline - now);
    }
    if (spin_end) { /* the answer to a small call is here before a sleeper would be awake */
      if (clu_os_now() < spin_end) {
        clu_pump(0, &e);
        if (clu_pump_events() == 0)
          clu_spin_yield(&spins);
        else
          clu_spin_ended(&spins, 1);
        continue;
      }
      spin_end = 0;
      clu_spin_ended(&spins, 0);
    }
    wait = clu_turn_work_here(wait);
    if (done(data)) break;
    if (clu_pump(wait, &e) != CLU_OK) {
      if (fn) fn(data);
      clu_raise_err(&e);
    }
    /* a signal ends a wait without an event; while events come, interrupts are checked now and
     * then */
    if (clu_pump_events() == 0 || (now = clu_os_now()) - checked > (uint64_t)CLU_SLICE / 4) {
      if (done(data)) break;
      clu_check_interrupt_now(fn, data);
      checked = clu_os_now();
    }
  }
  return 1;
}

static uint64_t spin_end(void) {
  return clu_may_spin() && clu_spin_pays(&spins) ? clu_os_now() + CLU_SPIN : 0;
}

int clu_wait_for(int (*done)(void *), void *data, uint64_t deadline, void (*fn)(void *)) {
  return wait_for(done, data, deadline, fn, spin_end());
}

/* An answer from another host takes about as long as this side would wait awake, and more with TLS:
 * so it was in vain now and then, and each time a call took twice as long. Where the proxies and
 * the node have the same processors as the session, being awake even took them away. */
int clu_wait_for_answer(int (*done)(void *), void *data, void (*fn)(void *), const clu_node *nd) {
  return wait_for(done, data, UINT64_MAX, fn, clu_node_is_proxied(nd) ? 0 : spin_end());
}

int clu_pump_for(int (*done)(void *), void *data, uint64_t deadline) {
  return clu_session_pump_for(clu_the_session, done, data, deadline);
}
