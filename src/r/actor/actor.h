/* Actors (core/actor/actor.h), as R has them. In R an actor is an environment with the name of its
 * memory, which each process opens when it needs it for the first time. What a process has open is
 * in a list here, and survives an R error.
 *
 * A process serves one actor, as long as both live. Or it has taken up several, which it serves
 * while it has nothing else to do, between two tasks, and while it waits: settled.c. A turn at an
 * actor may begin within that at another one: of what is under way in a process there is a stack,
 * in serve.c. An actor that is in it is at work, and gets no second turn.
 *
 * Files, each of which uses only those before it: actor (what a process has open), serve, settled,
 * call.
 */
#ifndef CLUTCH_R_ACTOR_H
#define CLUTCH_R_ACTOR_H

#include "core/actor/actor.h"
#include "r/base/r-api.h"

/* ---- actor.c ---- */

typedef struct clu_open_actor {
  struct clu_open_actor *next;
  clu_actor *actor;
  int users; /* calls under way, and 1 in the process that has made it or serves it */
} clu_open_actor;

/* The actor that an object of R stands for; an R error where it is none, or is gone. It stays while
 * `users` says so, or until the next call of this. */
clu_open_actor *clu_open_actor_of(SEXP x);
/* Closes it, unless somebody still uses it. */
void clu_open_actor_close(clu_open_actor *a);
/* Has this called while the process waits in code of this package; NULL: no more. It may run R
 * code, and jump. */
void clu_actors_meanwhile(void (*see_to_settled)(void));

/* ---- serve.c ---- */

/* A turn at an actor begins or ends. `is_of_request`: an interrupt of the request that this process
 * does is meant for what is done in this turn, too. */
void clu_actor_turn_begin(clu_open_actor *a, int is_of_request);
void clu_actor_turn_end(void);
/* Tells whether the turn under way is at this one, and this process is no child of the one that
 * serves it. NULL: at any. */
int clu_is_served(const clu_open_actor *a);
/* Does the same of all turns in the stack. */
int clu_is_at_work(const clu_open_actor *a);
/* When the call began that is at work in the turn under way; 0: none is. */
uint64_t clu_actor_turn_since(void);

/* ---- settled.c ---- */

/* Serves those for which something has come, and which are not at work. May run R code, and jump.
 * 0: there was none. */
int clu_settled_serve(void);
/* Does the same for this one. */
int clu_settled_serve_one(const clu_open_actor *a);
/* Tells whether the process of which this one is a forked child has taken up this one. */
int clu_settled_in_parent(const clu_open_actor *a);
/* Tells whether this process has taken up actors. */
int clu_settled_any(void);

#endif
