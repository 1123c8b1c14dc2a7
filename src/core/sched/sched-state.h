/* The scheduler's memory, for the files of this folder and their tests only.
 *
 * Ownership: clu_sched owns nodes, groups and jobs. None of them moves in memory: they are members
 * of lists.
 */
#ifndef CLUTCH_SCHED_STATE_H
#define CLUTCH_SCHED_STATE_H

#include "core/sched/sched-list.h"
#include "core/sched/sched-queue.h"
#include "core/sched/scheduler.h"

/* How far the interrupt of the task is that a node is at. DUE: the interrupt has been decided on,
 * the action is still to be taken. */
enum clu_interrupt {
  CLU_INTERRUPT_NONE,
  CLU_INTERRUPT_DUE,
  CLU_INTERRUPT_SENT,
  CLU_INTERRUPT_KILLED
};

/* How much a node can take: nothing; it has something and room for more; it has nothing at all. */
enum clu_readiness { CLU_NOT_READY, CLU_HAS_ROOM, CLU_IDLE };

typedef struct clu_sched_node {
  int index;
  int up, draining;
  int cut;          /* it cannot be reached */
  uint64_t held;    /* since when its process is stopped; 0: it is not */
  uint64_t stood;   /* ns that the first of its tasks was stopped before that */
  int64_t takes;    /* bytes that its tasks are expected to have, in `taken` */
  int closed;       /* its channel is, and its claim word was read for the last time: */
  uint64_t begun;   /* the first number that it has not begun; */
  int told;         /* it has ended, and its host has told that number */
  int elsewhere;    /* its claim word is on another host */
  int apart;        /* its memory is that of another machine */
  int asked;        /* that host is asked for what it has not begun: it gets nothing new */
  int sending;      /* something is on its way to it: nothing is asked for meanwhile */
  clu_claim *claim; /* NULL: it has none, or not any more */
  clu_batches batches;
  uint32_t tasks;     /* in them */
  uint32_t cancelled; /* of these */
  uint64_t end;       /* number after its last task */
  uint64_t since;     /* when the first of its tasks could begin */
  uint64_t deadline;  /* when something has to be done about it; 0: never */
  int interrupt;      /* enum clu_interrupt */
  int why;            /* of the interrupt: CLU_END_TIMEOUT or CLU_END_CANCELLED */
  int readiness;      /* enum clu_readiness: which part of the ready list it is in */
  int has_begun;      /* something, since it came up */
  int counted;        /* in `busy` */
  clu_grant *grant;   /* what it has of its host; memory that stays. Only if */
  uint64_t granted;   /* this is not 0: the number of the grant */
  int core;           /* in the ledger it counts with one core, as it has tasks that ask for none */
  clu_link ready, stealable, asking;
} clu_sched_node;

/* Tells whether the tasks of a job ask for something of their hosts, and all for the same. */
enum clu_asks { CLU_ASKS_NOTHING, CLU_ASKS_ALIKE, CLU_ASKS_VARIOUS };

/* Jobs that may be done by the same nodes, at the same times, and with the same of their hosts. */
typedef struct clu_group {
  struct clu_group *next;
  unsigned char *only; /* as in clu_job_spec; NULL: all */
  int nonly;
  int needs_caller;     /* as in clu_job_spec */
  int asks;             /* enum clu_asks: of its jobs */
  clu_need need;        /* CLU_ASKS_ALIKE: for that */
  uint64_t time, bytes; /* of the tasks of jobs that have only one, as measured */
  uint64_t longest;     /* of these, how long a node has been at one: of clu_sched_desired() */
  clu_list waiting;     /* its jobs with tasks that wait, in the order in which they are served */
  clu_link *at;         /* sched-give.c: the one whose turn it is; NULL: none */
  int awaits_node;      /* sched-give.c: the first of them, which asks for something, has no node */
} clu_group;

struct clu_job {
  clu_job_spec spec;
  clu_link all, waiting; /* of the scheduler's jobs; of its group's */
  clu_group *group;
  clu_pending pending;
  int freed, cancelled, out_of_memory;
  uint64_t id;          /* by the order in which they are served: by priority, then as they came */
  uint64_t left;        /* tasks that have not ended */
  uint32_t batches;     /* that are with nodes, or on their way there */
  uint64_t time, bytes; /* of one task, as measured */
  uint64_t longest;     /* how long a node has been at one: of clu_sched_desired() */
  int denied;           /* the last time there was no room for a task of it */
  int64_t expects;      /* bytes that one task is expected to have at its peak; 0: not known */
  clu_need *needs;      /* as in clu_job_spec; NULL: none */
  uint32_t *need_of;
};

struct clu_sched {
  clu_sched_node **nodes;  /* by number; NULL: it was never up */
  int n, up, cut;          /* so many are up; of these, so many cannot be reached */
  int held;                /* so many are stopped */
  int busy, most;          /* nodes that have something; at most so many may, 0: all */
  int busy_apart;          /* of these, on other machines */
  int64_t capacity, taken; /* bytes that tasks may have together; that nodes with something take of
                              it */
  int is_tight;            /* nothing more is handed out but by clu_sched_room() */
  clu_list idle, room; /* the ready list: who has nothing at all comes before who has room. Idle:
                          who has worked last comes first, who has not yet comes last. Room: the
                          longest ready first */
  clu_list asking;     /* nodes whose hosts are to be asked for what these have not begun */
  clu_list stealable;  /* nodes that have tasks which may be taken back; the latest first */
  clu_list jobs;
  clu_group *groups;
  size_t waiting;       /* jobs with tasks that wait */
  size_t waiting_alone; /* of these, those that do not need the caller */
  size_t waiting_asks;  /* of these, those that ask for something of hosts */
  clu_ledger *ledger;   /* NULL: nobody does */
  int *host_of;         /* by node, `nhost_of` of them */
  int nhost_of;
  uint64_t grants;    /* so far */
  int away;           /* the caller is */
  int has_priorities; /* some job had another priority than 0 */
  uint64_t next_id, grace, deadline;
  int timed; /* nodes with a deadline of their own; `deadline` may be of one that has none any more
              */
  clu_fifo ended; /* of clu_ended */
};

static inline clu_sched_node *clu_sched_find_node(const clu_sched *s, int i) {
  return i >= 0 && i < s->n && s->nodes[i] && s->nodes[i]->up ? s->nodes[i] : NULL;
}
/* The batch that it is at; it has one. */
static inline clu_batch *clu_sched_first_batch(const clu_sched_node *nd) {
  return clu_batches_at(&nd->batches, 0);
}
/* Tells what a task asks for, as clu_job_need(). */
static inline const clu_need *clu_sched_need(const clu_job *j, uint64_t task) {
  return j->needs ? &j->needs[j->need_of ? j->need_of[task] : 0] : NULL;
}
/* Its host, in the ledger. */
static inline int clu_sched_host_of(const clu_sched *s, const clu_sched_node *nd) {
  return nd->index < s->nhost_of ? s->host_of[nd->index] : 0;
}

#endif
