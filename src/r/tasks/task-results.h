/* What nodes say of their tasks, from bytes to the values of a job.
 *
 * What comes within clu_pump(), by the socket or by way of a ring, is only queued, as bytes: no R
 * function is called there. clu_job_take_results() makes values of it. Results of a node come in
 * the order of its tasks, whichever way each of them takes: a record in the ring whose turn has not
 * come waits for one that comes by the socket.
 */
#ifndef CLUTCH_TASK_RESULTS_H
#define CLUTCH_TASK_RESULTS_H

#include "r/tasks/task-state.h"

/* From now on what nodes say of tasks is heard. */
void clu_tasks_listen(void);
/* Takes what is in the nodes' rings, whether they have told of it or not. Whether anything was. */
int clu_tasks_take_rings(tasks *t);
/* From now on that is called all the time, and no node tells; no more: then it is called once more.
 */
void clu_tasks_look(const tasks *t, int looking);
/* Bytes of results that have come by way of rings so far. */
uint64_t clu_tasks_ring_bytes(void);
/* Results that have come become values. May jump: the rest stays for later. */
void clu_job_take_results(task_job *j, SEXP prot);

#endif
