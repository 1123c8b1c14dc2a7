/* Deadlines: points in time on the clock of clu_os_now(), in ns. Nothing here asks the clock. */
#ifndef CLUTCH_DEADLINE_H
#define CLUTCH_DEADLINE_H

#include <stdint.h>

#define CLU_NEVER UINT64_MAX /* later than all others */

/* `ns` after `now`; CLU_NEVER where that is beyond the clock, or `ns` is negative. */
static inline uint64_t clu_deadline_after(uint64_t now, int64_t ns) {
  if (ns < 0 || (uint64_t)ns >= CLU_NEVER - now) return CLU_NEVER;
  return now + (uint64_t)ns;
}

/* Returns how much is left of it at `now`, at most `most`; 0: it has passed. */
static inline int64_t clu_deadline_left(uint64_t deadline, uint64_t now, int64_t most) {
  if (deadline == CLU_NEVER) return most;
  if (now >= deadline) return 0;
  return deadline - now < (uint64_t)most ? (int64_t)(deadline - now) : most;
}

#endif
