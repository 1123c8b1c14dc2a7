/* Waiting: slices, and whether to wait awake. */
#ifndef CLUTCH_SPINS_H
#define CLUTCH_SPINS_H

#include "core/base/os.h"

#define CLU_SLICE 100000000 /* ns that Ctrl-C may go unnoticed */
/* ns to wait awake for an answer. The other side may be asleep: a wake-up takes 60 us, and if this
 * process slept meanwhile, it would need as long again, and then the other would be asleep once
 * more. */
#define CLU_SPIN 100000

/* Tells whether to wait awake: not where that was in vain some times in a row; tried again now and
 * then. It is in vain, too, where others took the processor for CLU_CROWDED and more while this
 * process gave way: there are more of them than processors, and a sleeper leaves his to them. */
typedef struct clu_spins {
  unsigned misses, waits;
  int crowded;
} clu_spins;
#define CLU_CROWDED \
  25000 /* ns. With one busy process on two processors a call took 90 us, now 55 */
static inline int clu_spin_pays(clu_spins *s) { return s->misses < 4 || ++s->waits % 16 == 0; }
static inline void clu_spin_yield(clu_spins *s) {
  uint64_t began = clu_os_now();
  clu_os_yield();
  if (clu_os_now() - began >= CLU_CROWDED) s->crowded = 1;
}
static inline void clu_spin_ended(clu_spins *s, int paid) {
  s->misses = s->crowded ? 4 : paid ? 0 : s->misses + 1;
  s->crowded = 0;
}

#endif
