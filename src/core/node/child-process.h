/* Processes that the master has started itself and is the parent of, from start to reaping; and the memory that it
 * shares with them, through which a node learns which request it is to give up.
 *
 * One that is told to end, or that nobody asks for any more, is seen to in the pumps of the event loop that follow: it is
 * killed when its time is up, reaped, and its folder removed. Until it is reaped its pid cannot be anybody else's, so
 * that a signal reaches it or nobody.
 */
#ifndef CLUTCH_CHILD_H
#define CLUTCH_CHILD_H

#include "core/loop/event-loop.h"
#include "core/shm/node-memory.h"

typedef struct clu_child clu_child;

typedef struct clu_children {
  clu_loop *loop;
  clu_timer poll;      /* armed while some are dying: nothing tells of the end of a process, it is asked for */
  clu_child *first;
  int dying;           /* told to end and not reaped yet */
  clu_shared *shared;  /* with the children */
  unsigned char *used;
  int live;
  clu_fd slots_fd;     /* open while there are children */
} clu_children;

struct clu_child {
  clu_child *prev, *next;
  clu_children *set;
  clu_pid pid;
  int slot;            /* -1: none */
  int detached;        /* nobody looks at the slot any more */
  int ended, how_known;
  clu_exit how;
  int dying, released;
  uint64_t kill_at;
  char *folder;        /* removed after its end; may be NULL */
};

void clu_children_init(clu_children *set, clu_loop *loop);
void clu_children_fini(clu_children *set); /* forgets all; kills nobody */

/* A slot of the shared memory for a child to come, and the memory's descriptor, the set's. */
int clu_child_slot(clu_children *set, int *slot, clu_fd *fd, clu_err *e);
void clu_child_slot_free(clu_children *set, int slot);
/* Starts `spec`. Takes over `slot` (-1: none) also on failure; `folder` (may be NULL) is removed at its end, and
 * on failure, too. */
int clu_child_start(clu_children *set, const clu_spawn *spec, int slot, const char *folder, clu_child **out, clu_err *e);
/* Where it reads what it is to give up; NULL: nowhere. */
volatile uint64_t *clu_child_cancel(const clu_child *c);
/* And which tasks it may start. */
clu_claim *clu_child_claim(const clu_child *c);
/* And where it leaves small results. */
clu_ring *clu_child_ring(const clu_child *c);
/* Whether it has ended; reaps it, after its process group was killed. */
int clu_child_ended(clu_child *c);
/* It is to have ended by `at` (clu_os_now()), else it is killed with its process group; 0: now. An earlier time
 * that was set stays. */
void clu_child_end_by(clu_child *c, uint64_t at);
/* The owner does not look at its slot any more, which is free when the process has ended, too. */
void clu_child_detach(clu_child *c);
/* The owner needs it no more: it is freed when it has ended. Not before clu_child_end_by(). */
void clu_child_release(clu_child *c);
#endif
