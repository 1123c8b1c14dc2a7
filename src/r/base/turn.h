/* The turn at the session: R's thread has it in every entry point that touches the session
 * (src/init.c takes it and gives it back) and in finalizers, and gives it back for as long as code
 * of R runs that may jump or take long. See core/loop/turns.h.
 */
#ifndef CLUTCH_R_TURN_H
#define CLUTCH_R_TURN_H

#include "core/loop/turns.h"

/* The one of this process. */
extern clu_turns clu_turn;

/* The place on the stack of the function that calls. Not the address of a variable, which a
 * sanitizer may move elsewhere. */
#define CLU_FRAME __builtin_frame_address(0)

/* These do what clu_turns_...() do. */
int clu_turn_enter(const void *frame);
void clu_turn_leave(int mine);
const void *clu_turn_pause(void);
void clu_turn_resume(const void *frame);
int64_t clu_turn_work_here(int64_t wait);
/* The owner comes and leaves again, in a wait that has nothing to do with the session: the thread
 * does what is urgent, as after any of its calls. */
void clu_turn_pass(void);
/* The thread, if there is one, has ended. */
void clu_turn_end(void);

#endif
