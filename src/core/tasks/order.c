/* Results that are wanted in the order of the tasks, one after the other: those that have come and
 * whose turn has not may take so many bytes. Where they have more, only the task whose result is
 * next is handed out, until it has come and others were let go. What nodes have by then still
 * comes. */
#include <stdlib.h>

#include "core/tasks/engine-private.h"

#define UNIT 64u /* bytes in which sizes of results are remembered */

int clu_task_job_in_order(clu_task_job *j, uint64_t most) {
  j->order.sizes = calloc((size_t)j->n + 1, sizeof *j->order.sizes);
  if (!j->order.sizes) return CLU_NOMEM;
  j->order.most = most > 0 ? most : 1;
  return CLU_OK;
}

static void set_until(clu_task_job *j) {
  int is_full = j->order.bytes > j->order.most;
  if (j->job) clu_job_until(j->engine->sched, j->job, is_full ? j->order.gone + 1 : UINT64_MAX);
}

void clu_task_job_order_came(clu_task_job *j, uint64_t task, size_t bytes) {
  uint64_t units = bytes / UNIT + 1;
  if (!j->order.sizes || j->order.sizes[task]) return;
  j->order.sizes[task] = units > UINT32_MAX ? UINT32_MAX : (uint32_t)units;
  j->order.bytes += (uint64_t)j->order.sizes[task] * UNIT;
  if (j->order.bytes > j->order.most) set_until(j);
}

uint64_t clu_task_job_gone(const clu_task_job *j) { return j->order.gone; }

void clu_task_job_let_go(clu_task_job *j, uint64_t n) {
  if (!j->order.sizes) return;
  for (; j->order.gone < n; j->order.gone++)
    j->order.bytes -= (uint64_t)j->order.sizes[j->order.gone] * UNIT;
  set_until(j);
}

int clu_task_job_has_much(const clu_task_job *j) {
  return j->order.sizes && j->order.gone < j->n && j->ended[j->order.gone] &&
         j->order.bytes > j->order.most / 2;
}

void clu_task_job_order_free(clu_task_job *j) {
  free(j->order.sizes);
  j->order.sizes = NULL;
}
