/* Sessions of one user that share memory: how many are at work, and whose turn it is.
 *
 * While they are at work each takes no more than its part of what is left. Where much is left
 * nobody asks.
 *
 * Where memory is short only one has the turn: the right that its oldest task goes on whatever is
 * left. The others hold theirs, too, where it does not fit. So two sessions do not each keep what
 * the other one needs.
 *
 * A turn, and to be one of those at work, is a lock of a file. The system gives it back when its
 * holder ends, whatever ends it. Nothing here waits. A process that is forked has not its parent's
 * turn. Who has the turn at the session's loop uses this.
 */
#ifndef CLUTCH_MEMORY_TURN_H
#define CLUTCH_MEMORY_TURN_H

#include <stdint.h>

enum { CLU_MEMORY_NUMBERS = 251, CLU_MEMORY_SHARERS = 8 };

/* Numbers of what is shared are below CLU_MEMORY_NUMBERS. `under` is a folder. */

/* This session is at work from now on. Returns how many are, at the most CLU_MEMORY_SHARERS; 1
 * where there are no such locks. 30 us. */
int clu_memory_share(const char *under, int i);
void clu_memory_share_no_more(void);

/* Takes the turn, if this process has none yet. 0: another process has it. 1: this one has, or
 * there are no such locks here. */
int clu_memory_turn_take(const char *under, int i);
void clu_memory_turn_give(void);
int clu_memory_turn_is_taken(void);

#endif
