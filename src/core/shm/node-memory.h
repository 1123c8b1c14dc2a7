/* The memory that the process which starts nodes (fork server or session) shares with them and with
 * the session: a slot for each node, which the session gives. A slot has the cancel word, the claim
 * word, what the node is at, the word of its stack, and for the first slots a result ring
 * (CLU_RINGS) and a stack (CLU_STACKS).
 *
 * Each process that has it mapped unmaps its own view, by clu_os_shared_free(s, sizeof *s). It has
 * no name in a file system and is freed with the last view and descriptor. Nothing here blocks.
 */
#ifndef CLUTCH_NODE_MEMORY_H
#define CLUTCH_NODE_MEMORY_H

#include "core/shm/activity.h"
#include "core/shm/claim.h"
#include "core/base/os.h"
#include "core/shm/result-ring.h"
#include "core/shm/stacks.h"

#define CLU_SLOTS 65536 /* nodes of one owner that are alive at a time */
#define CLU_RINGS 512   /* of these have a ring */
#define CLU_STACKS 1024 /* and so many a stack */

#define CLU_NODE_DONE                                                         \
  UINT64_MAX /* a cancel word by which a node says that its program has ended \
              */

typedef struct clu_shared {
  volatile uint64_t cancel[CLU_SLOTS]; /* number of the request that the node has to cancel */
  clu_claim claim[CLU_SLOTS];
  _Atomic uint64_t started;    /* when the last node was started (clu_os_now()) */
  volatile uint64_t has_rings; /* else the memory ends here */
  clu_ring ring[CLU_RINGS];
  clu_activity activity[CLU_SLOTS];
  clu_stack_word stack_word[CLU_SLOTS];
  clu_stack stack[CLU_STACKS];
} clu_shared;

/* CLU_OK, CLU_LIMIT, CLU_SYS, CLU_NOMEM. Where a file may not be so large (RLIMIT_FSIZE): without
 * rings, and nobody sees what nodes are at. */
int clu_shared_new(clu_shared **s, clu_fd *fd, clu_err *e);
/* Maps that of the descriptor, which stays the caller's. */
int clu_shared_map(clu_shared **s, clu_fd fd, clu_err *e);
/* Makes the slot ready for a new node. */
void clu_shared_reset(clu_shared *s, int slot);
/* NULL: this slot has none. */
clu_ring *clu_shared_ring(clu_shared *s, int slot);
clu_activity *clu_shared_activity(clu_shared *s, int slot);
clu_stack_word *clu_shared_stack_word(clu_shared *s, int slot);
clu_stack *clu_shared_stack(clu_shared *s, int slot);

#endif
