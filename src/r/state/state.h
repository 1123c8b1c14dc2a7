/* State that processes share (core/state/state.h), as R has it. In R it is an environment with the
 * name of the memory, which the process opens when it needs it for the first time
 * (R/state-handles.R). Usable in session, nodes and their children alike: it belongs to no cluster.
 *
 * Files, each of which uses only those before it: handle, lock (and counters, rates), table.
 */
#ifndef CLUTCH_R_STATE_H
#define CLUTCH_R_STATE_H

#include "core/state/state.h"
#include "r/base/r-api.h"

/* Returns the state that an object of R stands for; an R error where it is none of that kind. May
 * run R code. It is valid until R code or R's collector runs: another object with the same name may
 * be the one that keeps it. */
clu_state *clu_state_of(SEXP x, int kind);
/* Does the same; NULL: it is on another host, and R/forward-ask.R asks there. Entry points then
 * return NULL. */
clu_state *clu_state_or_elsewhere(SEXP x, int kind);
/* Returns the same where this process has it open, else NULL; runs no R code. */
clu_state *clu_state_here(SEXP x, int kind);

#endif
