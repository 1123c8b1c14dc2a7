/* Actors (core/actor/actor.h), as R has them. In R an actor is an environment with the name of its
 * memory, which each process opens when it needs it for the first time. What a process has open is
 * in a list here, and survives an R error. A process serves one actor at most.
 *
 * Files, each of which uses only those before it: actor (what a process has open), serve, call.
 */
#ifndef CLUTCH_R_ACTOR_H
#define CLUTCH_R_ACTOR_H

#include "core/actor/actor.h"
#include "r/base/r-api.h"

typedef struct clu_open_actor {
  struct clu_open_actor *next;
  clu_actor *actor;
  int users; /* calls under way, and 1 in the process that has made it or serves it */
} clu_open_actor;

/* The actor that an object of R stands for; an R error where it is none, or is gone. It stays while
 * `users` says so, or until the next call of this. */
clu_open_actor *clu_open_actor_of(SEXP x);
/* The one that this process serves; NULL: none. */
extern clu_open_actor *clu_served;
/* serve.c. Tells whether it is this one, and this process is no child of the one that serves. */
int clu_is_served(const clu_open_actor *a);

#endif
