/* Processes that the session has started itself and is the parent of, from their start until they
 * are reaped; and the memory that it shares with them, through which a node learns what it is to
 * give up and says what it has started.
 *
 *   running --clu_child_end_by()--> ending --reaped--> ended
 *      `-----------it ends by itself, and is reaped------^
 *
 * Nothing tells of the end of a process: clu_child_reap() asks the system. Of those that are ending
 * a timer of the event loop asks every 2 ms; it kills those whose time is up, and removes the
 * folders of those that have ended: a large one in the background, under another name. Until a
 * process is reaped its pid cannot be anybody else's, so a signal reaches it or nobody.
 *
 * A clu_child is the caller's until clu_child_release(), and is freed when it has ended, too. A
 * slot of the shared memory is free again when its process has ended and the holder has given it up
 * (clu_child_detach()): until then the process may write to it, and the holder may read. The memory
 * goes with the last slot. Nothing here blocks.
 */
#ifndef CLUTCH_CHILD_PROCESS_H
#define CLUTCH_CHILD_PROCESS_H

#include "core/loop/event-loop.h"
#include "core/shm/node-memory.h"

typedef struct clu_child clu_child;

typedef struct clu_children {
  clu_loop *loop;
  clu_timer poll; /* armed while some are ending */
  clu_child *first;
  int ending;
  clu_shared *shared;  /* with the children; NULL: no slot is taken */
  clu_fd shared_fd;    /* open while there is `shared` */
  uint32_t n_shared;   /* how many of these memories there have been */
  unsigned char *used; /* of its slots */
  int n_used;
} clu_children;

void clu_children_init(clu_children *set, clu_loop *loop);
/* Forgets all; kills nobody. Accepts zeroed memory. */
void clu_children_fini(clu_children *set);

/* Takes a slot of the shared memory for a child to come. `*fd`: the memory's descriptor, which
 * stays the set's. CLU_OK, CLU_LIMIT (all are taken), CLU_NOMEM, CLU_SYS. */
int clu_child_slot(clu_children *set, int *slot, clu_fd *fd, clu_err *e);
void clu_child_slot_free(clu_children *set, int slot);
/* Which memory that is, for who reads it in another process: see clu_view_memory. */
uint64_t clu_child_memory(const clu_children *set);
/* Starts `spec`. Takes over `slot` (-1: none) and spec->hold also on failure. `folder` (may be
 * NULL) is removed when the process has ended, and on failure, too. Codes as those of
 * clu_os_spawn(). */
int clu_child_start(clu_children *set, const clu_spawn *spec, int slot, const char *folder,
                    clu_child **out, clu_err *e);

clu_pid clu_child_pid(const clu_child *c);
/* Tells whether it has ended, as far as is known already. */
int clu_child_has_ended(const clu_child *c);
/* Does the same after asking the system. One that has ended is reaped, after its process group was
 * killed, unless it was started with `leaves`. */
int clu_child_reap(clu_child *c);
/* 1, and `*how` it ended; 0: it runs, or somebody else has reaped it. */
int clu_child_how(const clu_child *c, clu_exit *how);

/* Where it reads what it is to give up; NULL: nowhere. */
volatile uint64_t *clu_child_cancel(const clu_child *c);
/* Which tasks it may start, and where it leaves small results; NULL: there is none. */
clu_claim *clu_child_claim(const clu_child *c);
clu_ring *clu_child_ring(const clu_child *c);
/* All that, and its slot; NULL: there is none. */
clu_shared *clu_child_shared(const clu_child *c, int *slot);

/* Writes to the standard input that is kept open for it (clu_spawn.hold), if there is one. Does not
 * block; what there is no room for is lost. */
void clu_child_say(clu_child *c, const char *text, size_t n);

/* It is to have ended by `at` (clu_os_now()), else it is killed with its process group; 0: now.
 * An earlier time that was set stays. */
void clu_child_end_by(clu_child *c, uint64_t at);
/* The caller does not read its slot any more. */
void clu_child_detach(clu_child *c);
/* The caller needs it no more. Not before clu_child_end_by(). */
void clu_child_release(clu_child *c);

#endif
