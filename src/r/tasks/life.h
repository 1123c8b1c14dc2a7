/* How a job begins: what entry points share. See core/tasks/engine.h for its life. */
#ifndef CLUTCH_TASK_LIFE_H
#define CLUTCH_TASK_LIFE_H

#include "r/tasks/tasks.h"

/* The external pointer of a job, with nothing behind it: `x` is that of the tasks. */
SEXP clu_job_handle_for(SEXP x, SEXP elements);
/* To how many nodes the JOB message may go. `elements`, `only`: see ffi_job_new(). */
int clu_job_receivers(const clu_engine *t, SEXP elements, SEXP only);
/* The JOB message, see core/wire/task-message.h. `parts`: its list; where the function travels
 * apart its place in that is emptied. `receivers`: see clu_job_receivers(). May jump. */
clu_blob *clu_job_message(const clu_engine *t, SEXP parts, int receivers);
/* The job itself; `message` is its own from now on. `numbers`: its `spec`, `only`, `needs`: see
 * ffi_job_new(). `seed`: six numbers or NULL. Without memory a jump. */
clu_task_job *clu_job_fill(clu_engine *t, SEXP handle, clu_blob *message, const double *numbers,
                           const int *seed, SEXP only, SEXP needs);
/* Gives it a name, see job-label.h. It has not begun. Jumps without memory. */
void clu_job_label_call(clu_task_job *j, SEXP name, SEXP code);
/* The scheduler has it from now on. Without memory a jump. */
void clu_job_begin(clu_engine *t, clu_task_job *j);

#endif
