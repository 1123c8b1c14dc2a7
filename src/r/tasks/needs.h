/* Tasks ask for something, and hosts have it, as R says it: see R/task-needs.R. */
#ifndef CLUTCH_TASK_NEEDS_H
#define CLUTCH_TASK_NEEDS_H

#include "r/tasks/tasks.h"

/* Fills in what the tasks of a job ask for. `needs`: list(table, of, exact): a matrix of numbers
 * with a column for each that differs, whose rows are memory in bytes, cores, and parts of units of
 * each kind; by task the number of its column, from 0, or NULL: the first; whether they get no more
 * cores than these. */
void clu_needs_of(clu_task_spec *spec, SEXP needs);

#endif
