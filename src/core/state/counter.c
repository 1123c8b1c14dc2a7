#include "core/state/state-layout.h"

static int is_too_far(int64_t x) { return x > CLU_COUNT_MOST || x < -CLU_COUNT_MOST; }

int clu_counter_add(clu_state *s, int64_t by, int64_t *after) {
  int64_t now = atomic_load(&s->head->count);
  do {
    if (is_too_far(now) || is_too_far(by) || is_too_far(now + by)) return CLU_LIMIT;
  } while (!atomic_compare_exchange_weak(&s->head->count, &now, now + by));
  *after = now + by;
  return CLU_OK;
}

int64_t clu_counter_set(clu_state *s, int64_t value) {
  return atomic_exchange(&s->head->count, value);
}
