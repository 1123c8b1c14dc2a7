/* All waits of the R interface have these in common: deadlines, slices, R's interrupts, spinning.
 *
 * A wait ends at a deadline (core/base/deadline.h). It is cut into slices of CLU_SLICE at most;
 * between two slices R's interrupts and time limits are checked. No R API function is called within
 * a slice.
 */
#ifndef CLUTCH_R_WAIT_H
#define CLUTCH_R_WAIT_H

#include "core/base/deadline.h"
#include "core/base/os.h"
#include "core/base/spins.h"
#include "r/base/r-api.h"

/* Deadlines from now on. `seconds` that are NaN, negative or over 1e9: CLU_NEVER. */
uint64_t clu_deadline(double seconds);
/* Does the same in ns; < 0: CLU_NEVER. */
uint64_t clu_deadline_ns(int64_t ns);
uint64_t clu_in_ms(uint64_t ms);
/* Converts what is left of a time, a number in R: negative is 0, over 1e9 is CLU_NEVER. */
uint64_t clu_in_seconds(SEXP s);
/* A span of time in ns, at most 1e18: it can be added to a time. */
uint64_t clu_span_ns(double seconds);
/* In ns; -1: for ever. As clu_deadline() takes it. */
int64_t clu_ns(double seconds);
/* Returns what is left until then, at most CLU_SLICE. */
int64_t clu_slice(uint64_t deadline);

/* Checks R's interrupts and time limits, which may jump; `undo(data)` (may be NULL) runs before the
 * jump and must not use R's API. The turn at the session (r/base/turn.h) is given back meanwhile.
 */
void clu_check_interrupt_now(void (*undo)(void *), void *data);
/* Does the same, unless they were checked less than 10 ms ago: for loops that do not wait each
 * time. */
void clu_check_interrupt(void (*undo)(void *), void *data);

/* Where it is not NULL, it is called whenever R's interrupts are checked: what else this process
 * has to do while it waits. May run R code, and jump. */
extern void (*clu_meanwhile)(void);
/* Where it is not NULL, a handler of signals asks it whether an interrupt is for what is at work.
 * `of_request`: it is that of the request at hand, and is put off where it is not; else another
 * process than the session has sent it, and it is ignored. */
extern int (*clu_interrupt_is_meant)(int of_request);

/* A node may have this to do besides its requests, whenever it has none: actors. */
typedef struct clu_besides {
  clu_fd fd; /* is readable when something has come for who sleeps */
  int (*has_come)(void);
  /* Does what has come, which may run R code and jump; returns whether there was something. */
  int (*serve)(void);
  /* The node sleeps from now on; 0: something has come meanwhile. Or it sleeps no more. `*most` ns
   * (< 0: for ever) is made less where it has to be looked again before. */
  int (*sleep)(int sleeps, int64_t *most);
} clu_besides;
/* NULL: nothing. */
extern const clu_besides *clu_besides_requests;

/* Tells whether the session may wait awake at all: option clutch.wait_awake. Calls R, does not
 * jump. */
int clu_may_spin(void);

#endif
