/* Actors from within: what lies where, for the files of this folder. */
#ifndef CLUTCH_ACTOR_LAYOUT_H
#define CLUTCH_ACTOR_LAYOUT_H

#include <string.h>

#include "core/actor/actor.h"
#include "core/base/process.h"
#include "core/base/spins.h"

#define GIVEN_UP (UINT64_C(1) << 63) /* of a call's number: its caller wants no answer */
#define RECYCLE_EVERY UINT64_C(1000000000)
/* ns until a caller looks whether the process that serves has ended */
#define LOOK_EVERY 20000000

/* In shared memory. */
typedef struct actor_record {
  _Atomic uint32_t state, generation, changes, asleep;
  _Atomic uint32_t died, crowded, may_restart;
  _Atomic uint64_t pid, maker; /* maker: the process that starts others */
  _Atomic uint64_t asked, begun, done, busy;
  _Atomic uint64_t running, since; /* the number of the call at work, 0: none; since when */
  char method[CLU_ACTOR_METHOD], why[CLU_ACTOR_WHY], waits[CLU_STATE_NAME];
  char path[CLU_MESH_PATH]; /* of the mesh of this generation, while its state is not NEW */
  /* where the process that serves does other things, too: */
  _Atomic uint32_t sleeps;   /* it does, and has to be woken by this pipe; 2: it is being woken */
  char waker[CLU_MESH_PATH]; /* "": there is none */
  /* of the generation before: */
  _Atomic uint64_t pid_before;
  char why_before[CLU_ACTOR_WHY];
} actor_record;

_Static_assert(sizeof(actor_record) <= CLU_STATE_ROOM, "an actor is in the room of its state");

struct clu_actor {
  clu_state *state;
  actor_record *r;
  clu_mesh *mesh;      /* this process is a rank of it, 0 where it serves; NULL: of none */
  uint32_t generation; /* of `mesh` */
  /* in the process that serves */
  clu_mesh *made;
  uint64_t recycled; /* when ranks were made free for the last time */
  /* in a caller */
  uint32_t old_generation; /* the one before, and the last of this rank's calls that it had begun */
  uint64_t old_begun;
  clu_pid caller; /* this process; a forked child has asked nothing yet */
  int open;       /* calls that wait for their answer */
};

/* Tells whether this process is the one that serves, and not a child of it. */
static inline int actor_is_served_here(const clu_actor *a) {
  return a->made && clu_mesh_is_ours(a->made);
}

/* The process that serves has ended, as far as a caller sees: nothing, where the state is another
 * than `seen` meanwhile. */
void actor_lost(clu_actor *a, uint32_t seen);

/* actor.c. The file of a mesh whose process was killed, where the system needs one: nobody else
 * removes it before the folder goes. To be called when the next process begins, or none does. */
void actor_remove_mesh(const clu_actor *a);

/* actor.c. The process that serves has something to look at. */
void actor_wake(clu_actor *a);

/* Writes a text; what has no room is cut off, and no part of a character of UTF-8 is left. */
static inline void actor_put_text(char *to, size_t room, const char *text) {
  size_t n = 0, whole = 0;
  for (; text[n] && n < room; n++)
    if (((unsigned char)text[n] & 0xc0) != 0x80) whole = n; /* a character begins */
  if (n == room) n = whole;
  memcpy(to, text, n);
  memset(to + n, 0, room - n);
}

/* The tag of a call's answer: its number, in letters. `is_own`: the process that serves has called
 * itself, and must not take that for a call. */
#define CLU_ACTOR_TAG 24
static inline void actor_tag(uint64_t number, int is_own, char tag[CLU_ACTOR_TAG]) {
  int n = 0;
  if (is_own) tag[n++] = CLU_TAG_HIDDEN;
  do {
    tag[n++] = (char)('A' + (number & 15));
    number >>= 4;
  } while (number);
  tag[n] = 0;
}

#endif
