/* A turn at memory that is short: of all sessions of a user that share it only one has the right
 * that its oldest task goes on whatever is left. The others hold theirs, too, where it does not
 * fit. So two sessions do not each keep what the other one needs.
 *
 * A turn is a lock of a file. The system gives it back when its holder ends, whatever ends it.
 * Nothing here waits. A process that is forked has not its parent's turn. Who has the turn at the
 * session's loop uses this.
 */
#ifndef CLUTCH_MEMORY_TURN_H
#define CLUTCH_MEMORY_TURN_H

#include <stdint.h>

/* Takes the turn number `i` in a folder of the user's under `under`, if this process has none yet:
 * 0: another process has it. 1: this one has, or there are no such locks here. */
int clu_memory_turn_take(const char *under, int i);
void clu_memory_turn_give(void);
int clu_memory_turn_is_taken(void);

#endif
