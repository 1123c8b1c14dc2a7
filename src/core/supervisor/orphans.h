/* Processes that nodes have started and left behind in sessions of their own, where a signal to a
 * node's process group does not reach them.
 *
 * The fork server adopts what its descendants leave (clu_os_adopt_orphans()). Each node carries a
 * mark in its environment, which all that it starts inherits: that of a node that has ended is
 * ended, too, that of a live one goes on. What has lost its mark goes on: it was given another
 * environment. The last copy of a node (clu_mark_copy()) goes on until the fork server ends. Where
 * a system has no such adoption nothing is done.
 */
#ifndef CLUTCH_ORPHANS_H
#define CLUTCH_ORPHANS_H

#include "core/base/os.h"

#define CLU_MARK \
  "CLUTCH_MARK" /* 32 digits: fork server and node; all 0 in the fork server itself */
#define CLU_MARK_DIGITS 32

typedef struct clu_orphans {
  uint64_t family;                            /* number of this fork server */
  int (*is_node)(void *data, clu_pid pid);    /* whether this child is no orphan */
  int (*is_alive)(void *data, uint64_t node); /* whether there is a node with this number */
  void *data;
  int at_end; /* the fork server is at its end */
} clu_orphans;

/* In a node: from now on it has this mark. */
void clu_mark_self(uint64_t family, uint64_t node);
/* In a node that is about to fork its last copy, and to end: that has a mark of its own. */
void clu_mark_copy(void);
void clu_mark_text(char out[CLU_MARK_DIGITS + 1], uint64_t family, uint64_t node);
/* Kills orphans whose node is no more, with `all` also those of others. How many: when they
 * are reaped, what they have left is found by the next call. */
int clu_orphans_end(const clu_orphans *o, int all);

#endif
