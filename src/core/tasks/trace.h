/* The trace remembers tasks that have ended, for cluster_trace(): a ring of the last ones, and
 * what they have in common, their job. That is remembered as long as one of its tasks is, or the
 * job itself.
 *
 * A task costs some stores, a job an allocation. Without memory a task is not remembered.
 * Nothing blocks.
 */
#ifndef CLUTCH_TRACE_H
#define CLUTCH_TRACE_H

#include <stddef.h>
#include <stdint.h>

/* This is remembered of a job. */
typedef struct clu_job_facts {
  size_t refs;
  uint64_t number, n;
  uint64_t begun;     /* when its tasks could be handed out first; 0: they could not yet */
  uint64_t bytes_out; /* of all that was sent for it */
  char label[];       /* for people; "": none */
} clu_job_facts;

/* How a task has ended. */
enum clu_task_end {
  CLU_TASK_OK,
  CLU_TASK_ERROR,
  CLU_TASK_DIED,
  CLU_TASK_TIMED_OUT,
  CLU_TASK_CANCELLED
};

/* This is remembered of a task. Times are in ns by this machine's clock. */
typedef struct clu_task_record {
  clu_job_facts *job;
  uint64_t task, sent, began, took, received;
  uint32_t attempt, bytes;
  int node, end; /* enum clu_task_end */
} clu_task_record;

typedef struct clu_trace {
  clu_task_record *records; /* a ring once it has `most` */
  size_t n, cap, most;      /* n: of all that there ever were */
  size_t at; /* where the next one goes; `cap`: at the beginning, or there is no room */
} clu_trace;

/* NULL without memory. The caller has a reference. */
clu_job_facts *clu_facts_new(uint64_t number, uint64_t n, const char *label);
void clu_facts_unref(clu_job_facts *f); /* accepts NULL */

/* Whether there is room for one more, when the place for the next is past the end. */
int clu_trace_grow(clu_trace *t);

/* The place of one more, with a reference of its own to the job; all else is the caller's to write.
 * NULL: there is none. On the way of each task: nothing is called as a rule. */
static inline clu_task_record *clu_trace_next(clu_trace *t, clu_job_facts *job) {
  clu_task_record *to;
  if (t->at == t->cap && !clu_trace_grow(t)) return NULL;
  to = &t->records[t->at++];
  if (t->n++ < t->cap) {
    job->refs++;
  } else if (to->job != job) {
    clu_facts_unref(to->job);
    job->refs++;
  }
  to->job = job;
  return to;
}
/* How many are remembered; the k-th of them, the oldest first. */
size_t clu_trace_size(const clu_trace *t);
const clu_task_record *clu_trace_at(const clu_trace *t, size_t k);
void clu_trace_free(clu_trace *t); /* accepts zeroed memory */

#endif
