/* The master's tasks, for r/tasks/drive.c (driving the scheduler), r/tasks/results.c (what nodes say) and r/tasks/query.c
 * (what R asks of a job). */
#ifndef CLUTCH_GLUE_JOBS_H
#define CLUTCH_GLUE_JOBS_H

#include "r/session/session.h"

#include "core/sched/scheduler.h"

typedef struct tasks tasks;

typedef struct tnode {
  tasks *of;
  int index;
  uint64_t id;         /* of the clu_node that the scheduler knows of; 0: none */
  int over_memory, killed; /* ended by us, and why: see clu_tasks_kill() */
  int64_t memory;      /* what it had then, where we have looked */
  uint64_t odd, odd_since; /* a record in its ring whose turn has not come, and since when; 0: none */
} tnode;

/* Queued until R asks for it. */
typedef struct note {
  struct note *next;
  uint64_t element;
  uint32_t flags;
  clu_blob *body;
} note;
typedef struct notes {
  note *first, *last;
} notes;

typedef struct failure {
  uint64_t element;
  int why, cause, node;
  uint32_t attempt;
} failure;

typedef struct tjob {
  struct tjob *next;
  SEXP self;           /* the external pointer, whose finalizer frees this */
  tasks *of;           /* NULL: it has not been started, or was given up; and then `job`, too */
  clu_job *job;
  clu_job_spec spec;   /* until it is started */
  int pins, finalized; /* while somebody is at it that R code may interrupt, it is not freed */
  uint64_t number;
  clu_blob *about;     /* the JOB message */
  uint64_t *told;      /* ids of the nodes that have it */
  int ntold;
  int seeded, bare;
  uint32_t seed[6];    /* the stream of element 0 */
  double max_memory;   /* bytes; 0: no limit */
  notes results, relays;
  clu_blob *small;     /* results that came by way of rings: u64 element, u32 flags, u32 size, and the bytes, each */
  size_t small_at;     /* so much of that is done */
  failure *failures;
  size_t nfailures, capfailures;
  uint64_t answered, bytes_in, bytes_out;
  unsigned char *ended; /* a flag an element */
  int lost;            /* there was no memory for a result, or a failure */
  uint64_t n, ready;   /* elements; those at the beginning that have all ended */
} tjob;

typedef struct record {
  uint64_t job, element, began, took, sent;
  uint32_t attempt, bytes;
  int node, ok;
} record;

typedef struct death {
  int index, cause, over_memory, killed, began; /* began: something, since it was there */
  double memory;       /* what it had too much of, in bytes; 0: not known */
} death;

struct tasks {
  clu_sched *e;
  tnode *nodes;
  int n;
  tjob *jobs;
  uint64_t numbers, looked_at_memory;
  double limit;        /* bytes that a node may have; 0: no limit */
  int causes;
  death *deaths;       /* not told to R yet */
  size_t ndeaths, capdeaths;
  record *trace;       /* a ring once it is full */
  size_t ntrace, captrace, most;
};

/* What is behind the external pointers; an R error when that is nothing. */
tasks *clu_get_tasks(SEXP x);
tjob *clu_get_job(SEXP x);
clu_node *clu_tasks_node(SEXP handles, int i);
/* Ends a node that is of no more use. `why`: it did not react; it sent what makes no sense; there was no memory for
 * what it was to be sent. */
enum { CLU_NO_REACTION = 1, CLU_NO_SENSE, CLU_NO_ROOM };
void clu_tasks_kill(clu_node *nd, tnode *at, int why);

/* ---- r/tasks/results.c ---- */

/* From now on what nodes say of tasks is heard. */
void clu_tasks_listen(void);
/* Takes what is in the nodes' rings, told of or not. */
void clu_tasks_take_rings(tasks *t, SEXP handles);
/* Whether some result or failure of it is lost for want of memory. */
int clu_tasks_lost(const tjob *j);
/* The oldest of the queue: 1, and the body is the caller's. */
int clu_take_note(notes *q, note *out);
void clu_drop_notes(notes *q);
/* An element has failed; what was done is remembered for cluster_trace(). */
void clu_job_fail(tjob *j, const clu_ended *x);
void clu_tasks_trace(tasks *t, const tjob *j, const clu_ended *x, uint64_t began, uint64_t took, size_t bytes, int ok);
/* Results that have come become values. */
void clu_take_results(tjob *j, SEXP prot);

/* ---- r/tasks/memory-limit.c ---- */

/* Puts the limit into force for a node that is new, or for all where it has changed; ends those that nobody else can. */
void clu_tasks_limit_node(tasks *t, clu_node *nd, tnode *at);
void clu_tasks_limit_memory(tasks *t, SEXP handles);

/* ---- r/tasks/drive.c ---- */

/* Does what the scheduler wants. Only where it may send, it may jump. */
void clu_tasks_act(tasks *t, SEXP handles, int may_send);
void clu_tasks_look_at_endings(tasks *t);
/* Nodes are told that nothing more will come of it; it is taken out of the scheduler. */
void clu_job_tell_end(tasks *t, SEXP handles, tjob *j);
void clu_job_forget(tjob *j);

#endif
