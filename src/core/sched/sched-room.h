/* This decides who may go on where memory is short: which of the nodes at work are stopped, which
 * go on, and whose task has to give way. It is a function of numbers.
 *
 * A task that is at work needs as much as it is expected to have at its peak, without what its node
 * has already. What is expected: what tasks of its job have had so far, their mean and one standard
 * deviation; of one that has more than that already, and still grows, the largest of them or a
 * quarter more than it has. Of a job of which none has ended yet: six times of what the node has
 * while that grows, and no less than the largest of those at work.
 *
 * Nodes are served by the age of their tasks, the oldest first. That one always goes on, and as
 * much is kept for it as the largest task of its job has had: so there is always one that can end.
 * Each of the others goes on where what it needs is left by those before it; else it is stopped as
 * soon as it grows, and goes on when it fits. So what is stopped holds little, and loses nothing.
 *
 * Where next to nothing is left although all are stopped that can be, the oldest is stopped, too,
 * as long as others may free memory (`may_wait`: tasks of another session end, idle nodes collect).
 * Then the youngest task that holds something and may be started again gives way to the oldest: its
 * node is to be ended. Where there is none, one has to fail: the one that holds most. That is also
 * the oldest where it is alone.
 */
#ifndef CLUTCH_SCHED_ROOM_H
#define CLUTCH_SCHED_ROOM_H

#include <stddef.h>
#include <stdint.h>

/* Peaks of the tasks of a job, as far as they were seen; the last ones count most. Zeroed memory is
 * one that knows none. */
typedef struct clu_peaks {
  uint64_t n;
  double mean, square; /* of the squares of what peaks differ by from the mean: their mean */
  int64_t most;
} clu_peaks;
void clu_peaks_add(clu_peaks *p, int64_t bytes);
/* Returns what one task is expected to have; 0: none was seen. */
int64_t clu_peaks_expected(const clu_peaks *p);

/* A node that has a task. */
typedef struct clu_room_node {
  int index;        /* the caller's */
  uint64_t began;   /* when its task could begin */
  int64_t has;      /* bytes that its tasks have added to it */
  int64_t expected; /* as clu_peaks_expected() says of its job */
  int64_t most;     /* the largest of the peaks of its job, or of what those at work have */
  int again;        /* its task is put back when it is ended */
  int grows;        /* it does, or did when it was stopped */
  int held;         /* it is stopped */
  int stays;        /* it must not be stopped or ended: nobody can, or its task is cancelled */
  /* told: */
  int64_t takes; /* bytes that it will have, as far as is known */
  int to;        /* enum clu_room_to */
} clu_room_node;

enum clu_room_to {
  CLU_ROOM_GO,    /* it goes on */
  CLU_ROOM_HOLD,  /* it is stopped */
  CLU_ROOM_YIELD, /* it is ended for others */
  CLU_ROOM_NEVER  /* it is ended, as it does not fit */
};

typedef struct clu_room {
  int64_t limit, left; /* bytes: that may be used, and that are not */
  int may_end;         /* what was ended before is gone */
  int sharers;         /* so many sessions are at work, this one included: each has its part of what
                          is left. 0 is 1 */
  int must_wait;       /* another session has the turn: the oldest goes on only where it fits */
  int may_wait;        /* others have part in the memory, and may free some: the oldest is stopped
                          for a while before a task has to give way */
  /* told: */
  int waits;       /* it is, so */
  int64_t reserve; /* bytes that are kept free */
  int64_t spare; /* bytes that are left when all that goes on has what it takes; may be negative */
  int is_short;  /* less than a third is free, or not all fit: all nodes are looked at */
  int held;      /* so many are to be stopped */
  int growing;   /* so many grow, and go on */
} clu_room;

/* Decides, and puts them in order: the one with the oldest task is the first then. */
void clu_room_plan(clu_room *r, clu_room_node *nodes, size_t n);
/* After how many ns to look again, where so many cores fill memory. */
uint64_t clu_room_pause(const clu_room *r, int cores);

#endif
