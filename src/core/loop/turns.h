/* Whose turn it is at an event loop and at all that hangs on it: its owner's (the thread of R), or
 * that of a thread which does what is urgent while the owner is elsewhere.
 *
 * The owner takes the turn by clu_turns_enter() wherever it touches the loop and what belongs to
 * it, and gives it back by clu_turns_leave(). It waits for the thread only while that has the turn,
 * which is for one piece of work and never for a wait. When the owner leaves and there is something
 * urgent, the thread is started, or woken. It first waits until the owner was elsewhere for a whole
 * tick: who is in and out all the time does the work itself, and is not to be disturbed. Then it
 * has turns, with waits for the loop's descriptors in between, until the owner comes back or
 * nothing is urgent any more. A thread with nothing to do sleeps, until something
 * is due if that is known before.
 *
 *   parked -- the owner leaves, something is urgent --> ticking -- it was away for a tick -->
 * working ^  ^                                               |   ^ |  | |  '---------- the owner is
 * here ------------------'   '------- the owner was here ------'  |
 *     '---------------------------- nothing is urgent --------------------------------------------'
 *
 * An owner that is here and waits keeps the thread away. It does the thread's work itself
 * meanwhile: clu_turns_work_here().
 *
 * Jumps. An owner that calls R may leave a function by a jump, past its clu_turns_leave(). Then the
 * turn stays the owner's, and nothing is done by the thread, until the owner's next call. Such a
 * call is told from one within the first by its place on the stack (`frame`): what is called by a
 * function that is still there lies deeper. So a jump may never let both in, and heals by itself.
 * Where a jump is likely, or takes long, the owner pauses: clu_turns_pause(), clu_turns_resume().
 *
 * Cost for the owner where nothing is urgent: two atomic operations a call.
 * One clu_turns has one owner and one thread. What blocks: clu_turns_enter() and clu_turns_resume()
 * for one piece of the thread's work, clu_turns_end() also for its wait, MOST_WAIT of turns.c.
 */
#ifndef CLUTCH_TURNS_H
#define CLUTCH_TURNS_H

#include <stdatomic.h>

#include "core/loop/event-loop.h"

typedef struct clu_turns_work {
  /* Tells whether there is something that cannot wait for the owner. Asked at each leave, with the
   * turn: to be answered at once. */
  int (*is_urgent)(void *self);
  /* When there is something to do although nothing is urgent, as clu_os_now() counts; 0: never.
   * Asked at each leave, and behind each piece of work, with the turn. May be NULL. */
  uint64_t (*due)(void *self);
  /* A piece of work, by the thread, with the turn. How long it may wait then, unless a descriptor
   * becomes ready, in ns; < 0: there is nothing more to do. */
  int64_t (*work)(void *self);
  const clu_loop *loop;
  void *self;
} clu_turns_work;

/* Zeroed memory is one without work: then the owner has the turn whenever it wants. */
typedef struct clu_turns {
  clu_turns_work does;
  clu_gate *gate;
  clu_thread thread;
  int has_thread, no_thread; /* it could not be started, or must not */
  /* the owner's */
  int held, nested;  /* it has the turn; so many calls within that call */
  const void *frame; /* of the call that has taken it */
  /* both threads' */
  _Atomic int turn;         /* whose it is */
  _Atomic uint64_t entries; /* so often the owner came */
  _Atomic uint64_t due;
  _Atomic int urgent, parked, ending;
  int owner_waits; /* with the gate's lock */
} clu_turns;

/* Sets what is to be done from now on. The turn is the caller's. CLU_OK, CLU_NOMEM. */
int clu_turns_begin(clu_turns *t, const clu_turns_work *work);
/* The thread does nothing more. `join`: it has ended, too. */
void clu_turns_end(clu_turns *t, int join);

/* The turn is the owner's. 1: this call has to give it back; 0: it is within one that has. `frame`:
 * an address in the caller's part of the stack. */
int clu_turns_enter(clu_turns *t, const void *frame);
/* `mine`: what clu_turns_enter() returned. */
void clu_turns_leave(clu_turns *t, int mine);
/* Within a call that has the turn: gives it back for a while. NULL: it stays, as there is another
 * call around this one which does not know of it, or nobody has it. The next call, also by a jump
 * to somewhere else, is as any other. */
const void *clu_turns_pause(clu_turns *t);
/* Takes it again, with what clu_turns_pause() returned. */
void clu_turns_resume(clu_turns *t, const void *frame);
/* With the turn, by an owner that waits for something at the loop: a piece of the thread's work, if
 * some is urgent or due, and no call is around this one that does not know of it. It pumps the
 * loop: what the owner waits for may have come. How long the owner may wait then, in ns: `wait` at
 * most. */
int64_t clu_turns_work_here(clu_turns *t, int64_t wait);
/* How often the owner came so far. */
uint64_t clu_turns_entries(const clu_turns *t);

/* Around a fork by the owner, so that the child finds nothing half-done, and in the child, which
 * has no thread, whoever has forked. */
void clu_turns_before_fork(clu_turns *t);
void clu_turns_after_fork(clu_turns *t);
void clu_turns_in_child(clu_turns *t, int by_owner);

#endif
