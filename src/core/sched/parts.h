/* The scheduler's insides, for scheduler.c and scheduler-wait.c only. */
#ifndef CLUTCH_SCHED_PARTS_H
#define CLUTCH_SCHED_PARTS_H

#include "core/sched/scheduler.h"

/* Elements first ... first + n - 1 of a job, with a node as tasks seq, seq + 1, ... */
typedef struct unit {
  clu_job *job;
  uint64_t first, seq, sent;
  uint32_t n, attempt;
  int last;             /* of a retry: the node it must not meet again */
  int unwanted;
} unit;

typedef struct node {
  int up, resting;
  clu_claim *claim;
  int over;             /* it says nothing any more; what it said: */
  uint64_t begun;
  unit *q;              /* a ring, in the order of their numbers */
  uint32_t head, len, cap;
  uint32_t at;          /* elements in it */
  uint32_t unwanted;    /* of these */
  uint64_t end;         /* number after the last task */
  uint64_t since;       /* when the first of them could begin */
  uint64_t deadline;    /* when something has to be done about it; 0: never */
  int urged;            /* that one was interrupted: */
  int why;              /* CLU_END_TIMEOUT or CANCELLED */
  int killed;
  int prev, next;       /* in the list of hungry nodes; -1 ends it */
  int hungry;           /* 2: it has nothing at all */
  int lprev, lnext;     /* in the list of those that have something which may be taken back */
  int loaded;
  int began;            /* it has started something since it came up */
} node;

/* Jobs that may be done by the same nodes. */
typedef struct group {
  struct group *next;
  unsigned char *only;  /* as in clu_job_spec; NULL: all */
  int nonly;
  clu_job *waiting, *waiting_last; /* those with waiting elements, in the order they came */
} group;

typedef struct range {
  uint64_t first, n;
} range;

typedef struct again {
  uint64_t element;
  int last; /* the node it must not meet again */
} again;

struct clu_job {
  clu_job_spec spec;
  clu_job *prev, *next;   /* all */
  clu_job *wprev, *wnext; /* those of its group with waiting elements, in the order they came */
  group *group;
  int listed, freed, cancelled, lost;
  uint64_t left, waiting, cursor;
  uint64_t id;
  uint32_t units;         /* that are with nodes, or on their way there */
  range *back;            /* taken back, the last first */
  size_t nback, capback;
  again *retry;           /* a queue */
  size_t rhead, nretry, capretry;
  uint8_t *attempts;      /* starts that ended with a node's death; NULL: none did */
  uint64_t time, bytes;   /* of one element, as measured */
};

struct clu_sched {
  node *nodes;
  int n, up;
  int hungry, hungry_last, idle_last; /* those that have nothing at all come before those that have room, the longest waiting first */
  int loaded;
  clu_job *jobs;
  group *groups;
  size_t waiting;         /* jobs with waiting elements */
  uint64_t next_id, grace, deadline;
  clu_ended *ended;       /* a queue */
  size_t ehead, nended, capended;
};

/* ---- scheduler-wait.c ---- */

/* Room for one more in an array of things of `size`; 0 without memory. */
int clu_sched__room(void *array, size_t *cap, size_t n, size_t size);
/* The k-th unit that a node has. */
static inline unit *nth(const node *nd, uint32_t k) { return &nd->q[(nd->head + k) & (nd->cap - 1)]; }
/* Whether it is in the list of those that are to get something, and where. */
void clu_sched__set_hungry(clu_sched *e, int i, int yes);
void clu_sched__set_loaded(clu_sched *e, int i, int yes);
void clu_sched__list_job(clu_sched *e, clu_job *j);
void clu_sched__unlist_job(clu_sched *e, clu_job *j);
void clu_sched__drop_job(clu_sched *e, clu_job *j);
/* The group for these flags, which belong to it then; NULL without memory. */
group *clu_sched__group(clu_sched *e, unsigned char *only, int nonly);
/* One unit less is with nodes. */
void clu_sched__job_let_go(clu_sched *e, clu_job *j);
void clu_sched__fill_ended(clu_ended *x, int why, clu_job *j, uint64_t element, int i, uint32_t attempt, int cause, uint64_t sent);
/* An element ends without an answer. */
void clu_sched__end_without(clu_sched *e, int why, clu_job *j, uint64_t element, int i, uint32_t attempt, int cause);
/* Elements wait again; a retry does, which must not meet node `last`. */
void clu_sched__wait_again(clu_sched *e, clu_job *j, uint64_t first, uint64_t n);
void clu_sched__retry_later(clu_sched *e, clu_job *j, uint64_t element, int last, uint32_t attempt, int cause);
/* How often it was started. */
uint32_t clu_sched__starts(const clu_job *j, uint64_t element);
/* Elements that may be with a node. */
uint32_t clu_sched__most_at(const clu_sched *e, const clu_job *j, const node *nd);
int clu_sched__may_do(const clu_job *j, int i);
/* Whether another node than `i` could do it. */
int clu_sched__others_may(const clu_sched *e, const clu_job *j, int i);
/* Whether something waits that may go to node `i`. */
int clu_sched__has_for(const clu_sched *e, const clu_job *j, int i);
/* Takes something that waits, for node `i`: 1, and it is in `a`. */
int clu_sched__pick(clu_sched *e, clu_job *j, int i, clu_action *a);

#endif
