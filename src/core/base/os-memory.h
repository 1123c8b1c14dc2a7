/* These tell how much memory this process and its children may still have. A part of the port; see
 * os.h.
 *
 * What bounds them: the limits of the control group that this process is in and of each group
 * around it, of either version, and what the machine has left. Swap counts for nothing: who swaps
 * is not killed, but stands still. Of a group's memory the pages of files that nobody has used for
 * long count as free, and half of the others, as the system takes these first.
 *
 * Only on Linux, elsewhere CLU_UNSUPPORTED.
 */
#ifndef CLUTCH_OS_MEMORY_H
#define CLUTCH_OS_MEMORY_H

#include <stdint.h>

#define CLU_MOST_BOUNDS 16 /* groups around each other, the machine included */

typedef struct clu_memory_bound {
  int64_t limit; /* bytes */
  int version;   /* of the control groups, 1 or 2; 0: it is the machine */
  char folder[256];
} clu_memory_bound;

/* Zeroed memory knows of none. Nothing is to be freed. */
typedef struct clu_memory_bounds {
  int n;
  clu_memory_bound at[CLU_MOST_BOUNDS];
} clu_memory_bounds;

/* Finds what bounds this process now: a process may be moved, and limits may change. `root`: the
 * files of the system are below that folder; "" but for tests. Takes 0.1 ms. CLU_OK,
 * CLU_UNSUPPORTED. */
int clu_os_memory_bounds(const char *root, clu_memory_bounds *out);

/* The bound that leaves least. */
typedef struct clu_memory_left {
  int64_t limit, left; /* bytes */
  int at;              /* which one that is */
} clu_memory_left;
/* Takes 10 us, and 50 for a group that has used two thirds of what it may. CLU_OK; CLU_UNSUPPORTED:
 * no bound could be read. */
int clu_os_memory_left(const char *root, const clu_memory_bounds *b, clu_memory_left *out);

#endif
