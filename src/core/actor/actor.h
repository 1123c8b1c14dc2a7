/* Actors: state that lives in one process, which other processes of this host call.
 *
 * What is known of an actor is in shared memory (core/state), made by the session, which hands out
 * its name. Each process that serves it makes an open mesh (core/mesh): it is rank 0, callers come
 * and go. When it ends, another may take its place, with a mesh of its own: a new generation. While
 * a process serves, it has the lock of the shared memory, which the system hands on when it ends:
 * so any caller notices its death, whatever the session does.
 *
 * A call is a message to rank 0 that begins with `clu_actor_call`; its tag is CLU_ACTOR_CALL,
 * CLU_ACTOR_CAST (no answer) or CLU_ACTOR_STOP. The answer has the tag of the call's number. Before
 * rank 0 begins a call, it notes its number at the caller's rank: so a caller knows after a death
 * whether its call had begun. What had not is sent again to the next generation; a call is begun
 * once at most. Casts that were not begun are lost with the process.
 *
 * A process may serve several actors, and do other things besides. Then it makes a pipe
 * (core/base/os-pipes.h), by which it is woken where it sleeps. It may call those actors itself,
 * and serves them while it waits: its rank is 0, and what it sends waits behind what has come
 * before.
 *
 * Interrupts: a caller that gives up a call marks it as such, if it is at work, and sends
 * CLU_SIG_INT, or clu_os_interrupt_deferred() does where the process does other things, too. The
 * process that serves asks clu_actor_is_given_up() in its handler: a signal that comes too late
 * finds the call over, and does nothing.
 *
 * Other processes run user's code and may write anything to this memory. One thread a process.
 * Nothing blocks but clu_actor_sleep(), clu_actor_wait(), for CLU_SLICE at most.
 *
 * Files: actor (what all need), serve, call: each of the last two uses only the first.
 */
#ifndef CLUTCH_ACTOR_H
#define CLUTCH_ACTOR_H

#include "core/mesh/mesh.h"
#include "core/state/state.h"

#define CLU_ACTOR_CALL "c"
#define CLU_ACTOR_CAST "t"
#define CLU_ACTOR_STOP "s"
#define CLU_ACTOR_CALLERS 1024 /* at a time, less one */
#define CLU_ACTOR_METHOD 64
#define CLU_ACTOR_WHY 256

typedef struct clu_actor clu_actor;

enum clu_actor_state {
  CLU_ACTOR_NEW,
  CLU_ACTOR_BEGINS, /* a process makes its state */
  CLU_ACTOR_UP,
  CLU_ACTOR_DOWN, /* its process has ended; another may come */
  CLU_ACTOR_ENDED /* nobody comes any more: it was stopped, or has died */
};

typedef struct clu_actor_info {
  int state;
  uint32_t generation;
  clu_pid pid;                   /* 0: there was none */
  int died;                      /* its last process has ended unasked */
  char why[CLU_ACTOR_WHY];       /* what the session says of that; "": nothing yet */
  uint64_t asked, begun, done;   /* calls and casts of this generation */
  uint64_t busy;                 /* ns, with what is at work now */
  char method[CLU_ACTOR_METHOD]; /* at work now; "": nothing is */
  char waits[CLU_STATE_NAME];    /* the actor for whose answer it waits; "": none */
  clu_pid pid_before;            /* of the generation before: the same of its process, 0: none */
  char why_before[CLU_ACTOR_WHY];
} clu_actor_info;

/* ---- actor.c ---- */

/* In the session: CLU_OK, CLU_NOMEM, CLU_LIMIT, CLU_SYS, CLU_UNSUPPORTED. */
int clu_actor_new(const char *folder, clu_actor **out, clu_err *e);
/* Another process may come when one has died: else it has ended then. */
void clu_actor_may_restart(clu_actor *a);
/* Elsewhere. CLU_SYS, CLU_PROTO: it is gone, or none. */
int clu_actor_open(const char *name, clu_actor **out, clu_err *e);
const char *clu_actor_name(const clu_actor *a);
/* Tells whether the process that serves still has to take something of this process's. */
int clu_actor_is_needed(clu_actor *a);
/* Gives all back that this process has of it; accepts NULL. */
void clu_actor_free(clu_actor *a);
void clu_actor_look(clu_actor *a, clu_actor_info *out);
/* The state becomes this one, unless it is CLU_ACTOR_ENDED; who waits wakes. `why`: how its process
 * has ended unasked; NULL: it has not. */
void clu_actor_set(clu_actor *a, int state, const char *why);
/* An event count of the state; sleeps until it is another than `events`, `ns` at most. */
uint32_t clu_actor_changes(const clu_actor *a);
void clu_actor_wait(clu_actor *a, uint32_t events, uint64_t ns);

/* ---- serve.c: in the process that serves ---- */

/* This process serves from now on. CLU_OK; CLU_AGAIN: another one does; CLU_CANCELLED: the actor
 * has ended. */
int clu_actor_begin(clu_actor *a, const char *folder, clu_err *e);
/* The oldest message, which is the caller's then. CLU_OK; CLU_AGAIN: none; CLU_CANCELLED: the actor
 * has ended; CLU_PROTO, CLU_NOMEM. */
int clu_actor_next(clu_actor *a, clu_message **out);
/* Sleeps until there may be one, CLU_SLICE at most. In between sees to callers that have gone. */
void clu_actor_sleep(clu_actor *a, uint32_t events);
uint32_t clu_actor_events(const clu_actor *a);
/* Call `number` of that rank (-1: of nobody who waits) is at work from now on. 0: it is not, since
 * its caller has given it up. */
int clu_actor_begin_call(clu_actor *a, int rank, uint64_t number, const char *method);
/* It is over. 1: its caller has given it up meanwhile. */
int clu_actor_end_call(clu_actor *a);
/* For a handler of signals: an interrupt is meant for the call at work. */
int clu_actor_is_given_up(const clu_actor *a);
/* Sends the answer; as clu_mesh_send(). */
int clu_actor_answer(clu_actor *a, int rank, uint64_t number, clu_blob *body, clu_sending *s);
/* While this process waits for the answer of another actor, its name; NULL: it does not. */
void clu_actor_waits_for(clu_actor *a, const char *name);

/* A process that sends something writes to this pipe while that which serves sleeps, see
 * clu_os_waker_new(). */
void clu_actor_set_waker(clu_actor *a, const char *path);
/* The process sleeps from now on, or does not. It asks clu_actor_has_more() in between. */
void clu_actor_sleeps(clu_actor *a, int sleeps);
/* Tells whether clu_actor_next() has something to do. */
int clu_actor_has_more(const clu_actor *a);
/* Gives back what is kept for callers that have gone. */
void clu_actor_recycle(clu_actor *a);

/* ---- call.c: in the others ---- */

/* One of this process's: begin with {0}. Its number is another in each process. */
typedef struct clu_actor_call {
  uint64_t number;
  uint32_t generation; /* that it was sent to; 0: to none */
  int is_awaited, is_sent;
  uint64_t lost_at; /* see clu_actor_lost() */
  clu_sending sending;
} clu_actor_call;
/* Sends a message, again where that is needed; the first 8 bytes of `body` are for its number. That
 * of a process that serves the actor is answered by itself. CLU_OK, it is sent. CLU_AGAIN:
 * it cannot be now, wait. CLU_CANCELLED: the actor has ended. CLU_DEAD: it had begun the call and
 * its process has ended. CLU_LIMIT: as clu_mesh_send(). CLU_SYS: too many files. CLU_NOMEM. `body`
 * stays the caller's, who keeps it until there is an answer. */
int clu_actor_send(clu_actor *a, clu_actor_call *c, const char *tag, clu_blob *body);
/* The answer, which is the caller's then: CLU_OK. CLU_AGAIN: wait. Else as clu_actor_send(), to
 * which it is to be given again where `c->generation` is 0. */
int clu_actor_receive(clu_actor *a, clu_actor_call *c, clu_message **out);
/* The answer is `lost`, as memory is with the process that keeps it. CLU_DEAD: that has ended.
 * CLU_AGAIN: it does, wait. CLU_OK: it has not. */
int clu_actor_lost(clu_actor *a, clu_actor_call *c);
/* Sleeps until there may be something new of a call, `ns` and CLU_SLICE at most. Looks whether the
 * process that serves has ended. */
void clu_actor_rest(clu_actor *a, uint32_t events, uint64_t ns);
/* The event count to ask before one looks. */
uint32_t clu_actor_caller_events(clu_actor *a);
/* Nobody wants the answer any more: it is not begun, where this is the only call that this process
 * waits for, or is interrupted. Accepts one that was never sent, or has its answer. */
void clu_actor_give_up(clu_actor *a, clu_actor_call *c);

#endif
