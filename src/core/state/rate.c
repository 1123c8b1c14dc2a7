#include "core/state/state-layout.h"

void clu_rate_begin(clu_state *s, uint64_t each, uint64_t burst) {
  s->head->each = each;
  s->head->burst = burst;
}

/* `next` is when the next one would go if there were no burst; a burst may go ahead of it. */
int clu_rate_reserve(clu_state *s, uint64_t n, uint64_t deadline, uint64_t *at) {
  state_head *h = s->head;
  const uint64_t most = UINT64_MAX / 4; /* ns: 146 years */
  uint64_t next = atomic_load(&h->next), after, now, ahead = (h->burst - 1) * h->each;
  do {
    now = clu_os_now();
    if (h->each == 0 || next > most || ahead > most || n > most / h->each) return CLU_TIMEOUT;
    after = (next > now ? next : now) + n * h->each;
    *at = after - h->each;
    *at = *at > now + ahead ? *at - ahead : now;
    if (*at > now && *at > deadline) return CLU_TIMEOUT;
  } while (!atomic_compare_exchange_weak(&h->next, &next, after));
  return CLU_OK;
}
