/* The label of a job, for people: the text of the call that has made it, as "cluster_map(f)" or
 * "cluster_submit(mean(x))". It is made when the job is, in about 0.3 us: deparse() would take
 * longer than a submitted task takes altogether. So code is written as far as there is room, and
 * never more of it is looked at.
 *
 * The text is in UTF-8, of one line, without control characters. Nothing here evaluates, allocates
 * or jumps.
 */
#ifndef CLUTCH_JOB_LABEL_H
#define CLUTCH_JOB_LABEL_H

#include "r/base/r-api.h"

#define CLU_LABEL_MOST 80 /* bytes, without the 0 at the end */

/* Writes `name`(`code`) to `to`, which has room for CLU_LABEL_MOST + 1 bytes. `name`: a symbol,
 * pkg::symbol, or a string; of anything else a call is called "cluster_map". */
void clu_label_of_call(char *to, SEXP name, SEXP code);
/* Does the same of a text, NULL: "". */
void clu_label_of_text(char *to, const char *text);

#endif
