/* A node knows this of itself when it begins: it is given by the supervisor that has forked it, or
 * put together by the node when it was started by exec or has joined over TCP. Plain data, copied;
 * it owns the descriptor only. */
#ifndef CLUTCH_BOOT_H
#define CLUTCH_BOOT_H

#include "core/base/os.h"
#include "core/shm/node-memory.h"

/* After the path of a node's folder: what an earlier node has left of a folder with this name. */
#define CLU_GONE "-gone"

typedef struct clu_boot {
  uint64_t id;
  clu_fd fd;                 /* its end of the data socket, owned */
  volatile uint64_t *cancel; /* number of the request that it has to cancel */
  clu_claim *claim;          /* the tasks that it may start */
  clu_activity *activity;    /* what it is at; NULL: nobody sees that */
  clu_ring *ring;            /* for its small results; NULL: none */
  clu_stack *stack;          /* for its calls; NULL: nobody can ask for them */
  clu_stack_word *asked;     /* whether somebody does */
  _Atomic uint64_t *started; /* when the last node was started */
  clu_pid parent;
  int is_link;    /* it is no node but the link process, see core/link/near.h */
  int program;    /* it runs a program and does not serve */
  uint32_t again; /* how often that was started before */
  char tmp[1024]; /* its temporary folder is made in this one, which may have to be made first */
} clu_boot;

/* Its slot of `s` is what it shares with the session. */
static inline void clu_boot_slot(clu_boot *b, clu_shared *s, int slot) {
  b->cancel = &s->cancel[slot];
  b->claim = &s->claim[slot];
  b->activity = clu_shared_activity(s, slot);
  b->ring = clu_shared_ring(s, slot);
  b->stack = clu_shared_stack(s, slot);
  b->asked = clu_shared_stack_word(s, slot);
  b->started = &s->started;
}

/* In a node that runs a program: that has ended by itself, so it is not started again. Safe in a
 * signal handler. */
static inline void clu_boot_set_done(const clu_boot *b) { *b->cancel = CLU_NODE_DONE; }

/* For a node whose channel has ended without a word of the session: the session or the fork server
 * is at its end. Blocks until the fork server kills this process, or CLU_SIG_TERM does because the
 * fork server has ended. Returns when neither comes within 5 s, and has removed the node's folder
 * then, if nobody else is there to do it. */
void clu_boot_await_end(const clu_boot *b);

#endif
