/* The tasks of a cluster, as R sees them: what the files of this folder share. They convert, and
 * core/tasks/engine.h does the work.
 *
 * Ownership. An engine belongs to a cluster, as external pointer, whose protected value is the list
 * of the nodes' handles. A job is an external pointer too; its protected value is a list of six:
 * the nodes' handles, the elements, the values, the logs (NULL: none has come yet), what hears its
 * conditions (R/task-relay.R; NULL: nobody), and what it works with (R/task-failed.R).
 *
 * Files, each knows only those before it: elements <- handle <- values <- drive <- job-label <-
 * growth <- life, query, news, stacks, budget, hosts; options, life <- submit. Only drive.c and
 * stacks.c wait.
 */
#ifndef CLUTCH_R_TASKS_H
#define CLUTCH_R_TASKS_H

#include "r/session/session.h"
#include "core/tasks/engine.h"

/* ---- elements.c ---- */

extern const clu_engine_caller clu_elements;
/* Checks what a function of an engine has returned that may have asked for elements. Code of R that
 * has jumped out of that goes on with its jump: no function of the core is on the stack any more.
 */
void clu_tasks_check(int rc);

/* ---- handle.c ---- */

/* The engines of this session, made when they are first asked for. May jump. */
clu_engines *clu_tasks_all(void);
/* In a forked child: those that there are belong to the parent. */
void clu_tasks_forget(void);

/* External pointers with nothing behind them yet; and what is behind them, an R error when that is
 * nothing. */
SEXP clu_tasks_handle(SEXP handles);
SEXP clu_job_handle(SEXP prot);
clu_engine *clu_tasks_get(SEXP x);
clu_task_job *clu_job_get(SEXP x);
/* The protected value of a job's. */
SEXP clu_job_prot(const clu_task_job *j);

/* The node behind the i-th handle; NULL: there is none (any more). */
clu_node *clu_tasks_node(SEXP handles, int i);

/* A number of the core, where 0 is none. */
static inline double clu_number_or_na(uint64_t x) { return x ? (double)x : NA_REAL; }

/* ---- values.c ---- */

/* Results that have come become values. May jump: the rest stays for later. */
void clu_job_take_results(clu_task_job *j);
/* The value of a task is this; with CLU_RESULT_LOG in `flags` list(value, log). `prot`:
 * clu_job_prot(). */
void clu_job_set_value(clu_task_job *j, SEXP prot, uint64_t task, uint32_t flags, SEXP v);

/* ---- growth.c ---- */

/* Nodes that have come with the work are behind their handles from now on. `x`: of the engine. */
void clu_tasks_take_grown(SEXP x, clu_engine *t);

/* ---- drive.c ---- */

/* Works until `deadline`, or until there is something to be done about the job (may be NULL), of
 * whose failures `known` are known to R: enum clu_engine_event, and never CLU_EVENT_NONE. Looks at
 * interrupts. May jump. */
int clu_tasks_work(clu_engine *t, clu_task_job *j, uint64_t deadline, size_t known);

#endif
