/* Makes values of R of what an observer has seen of a cluster (core/view/observed.h). */
#ifndef CLUTCH_R_OBSERVED_H
#define CLUTCH_R_OBSERVED_H

#include "r/base/r-api.h"

#include "core/view/observed.h"

/* The caller wishes these of the last tasks and events: those after so many, and of tasks not more
 * than `tasks`. */
typedef struct clu_observed_wish {
  R_xlen_t tasks;
  uint64_t ended, told;
} clu_observed_wish;

/* list(about, nodes, jobs, tasks, events, hosts): lists of columns, times in seconds of
 * clu_os_now(), NA where not known. */
SEXP clu_observed_values(const clu_observed *s, const clu_observed_wish *wish);

/* Asks those of these nodes (a flag for each) for their stacks that are busy: the numbers of the
 * questions, 0 where none was asked. */
SEXP clu_observed_ask_stacks(const clu_observed *s, const char *is_asked);
/* list(text, current, age, known, job, element, since, open): what they have told; `open`: one that
 * was asked has not told yet. Of nodes that are at nothing all is NA. */
SEXP clu_observed_stacks(const clu_observed *s, SEXP questions);

#endif
