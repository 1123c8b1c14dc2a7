/* The memory that whoever starts nodes shares with them: a slot each, which the master gives. Who has made it is its
 * owner, the others map it; each unmaps its own by clu_os_shared_free(s, sizeof *s).
 */
#ifndef CLUTCH_SHARED_H
#define CLUTCH_SHARED_H

#include "core/shm/claim.h"
#include "core/base/os.h"
#include "core/shm/result-ring.h"

#define CLU_SLOTS 65536 /* nodes of one owner that are alive at a time */
#define CLU_RINGS 512   /* of these have a ring */

typedef struct clu_shared {
  volatile uint64_t cancel[CLU_SLOTS]; /* the request that the node is to give up */
  clu_claim claim[CLU_SLOTS];
  volatile uint64_t has_rings;         /* else the memory ends here */
  clu_ring ring[CLU_RINGS];
} clu_shared;

/* CLU_OK; an error, and then there is nothing. Without rings where a file may not be so large (RLIMIT_FSIZE). */
int clu_shared_new(clu_shared **s, clu_fd *fd, clu_err *e);
/* That of the descriptor, which stays the caller's. */
int clu_shared_map(clu_shared **s, clu_fd fd, clu_err *e);
/* For a node to come. */
void clu_shared_reset(clu_shared *s, int slot);
/* NULL: this slot has none. */
clu_ring *clu_shared_ring(clu_shared *s, int slot);

#endif
