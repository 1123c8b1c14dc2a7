/* The fork server's side: it forks nodes from itself, reaps them, tells the master how each ended,
 * delivers cancels, and ends all of them when the master's end of the control channel closes.
 *
 * One process, one thread, one supervisor. serve() returns to its caller for what the core cannot do
 * itself: settings to apply (R code), and the child's own way after a fork.
 */
#ifndef CLUTCH_SUPERVISOR_H
#define CLUTCH_SUPERVISOR_H

#include "core/wire/channel.h"
#include "core/base/os.h"
#include "core/shm/node-memory.h"

struct clu_sv_node;

typedef struct clu_supervisor {
  clu_chan chan;
  clu_poller *poller;
  clu_fd signals;      /* readable when a child ended or CLU_SIG_TERM came */
  clu_pid master;
  struct clu_sv_node *nodes;
  int n, cap;
  clu_shared *shared;  /* with the nodes; the master gets its descriptor with READY */
  clu_fd slots_fd;
  clu_fd output, errors; /* become 1 and 2 of the nodes that follow; CLU_NO_FD: as this process's */
  char *tmp;           /* own temporary folder: that of a node is made in it */
  char *const *exec;   /* program and arguments of a node started by exec, NULL-terminated */
  uint64_t idle_ns, idle_since;
  uint64_t looked_at_memory; /* when it was asked how much the nodes have */
  uint64_t family;     /* of its nodes' marks, see orphans.h */
  int left;            /* a process has ended, which may have left others */
  uint64_t looked_for_orphans;
  uint64_t quiet_ns;   /* CLU_SV_QUIET comes once, after so long without nodes; 0: never. The caller's to set */
  unsigned interest;
} clu_supervisor;

enum clu_sv_what {
  CLU_SV_SETTINGS, /* ev.msg: apply it, then clu_supervisor_applied() */
  CLU_SV_SETUP,    /* the same for the first message */
  CLU_SV_CHILD,    /* this process is a node now: ev.node */
  CLU_SV_QUIET,    /* nothing to do for a while: time for what may wait */
  CLU_SV_END       /* the master is gone or has said so: nodes are gone, end this process */
};

/* What a node knows of itself. */
typedef struct clu_boot {
  uint64_t id;
  clu_fd fd;                 /* its end of the data socket, owned */
  volatile uint64_t *cancel; /* the request it is to give up */
  clu_claim *claim;          /* the tasks that it may start */
  clu_ring *ring;            /* for its small results; NULL: none */
  clu_pid parent;
  char tmp[1024];
} clu_boot;

/* What it shares with the master: its slot of `s`. */
static inline void clu_boot_slot(clu_boot *b, clu_shared *s, int slot) {
  b->cancel = &s->cancel[slot];
  b->claim = &s->claim[slot];
  b->ring = clu_shared_ring(s, slot);
}

typedef struct clu_sv_event {
  int what;
  clu_msg msg; /* the body is the caller's */
  clu_boot node;
} clu_sv_event;

/* Takes over the control descriptor. `tmp` and `exec` are kept as pointers. */
int clu_supervisor_init(clu_supervisor *sv, clu_fd control, clu_pid master, const char *tmp,
                        char *const *exec, uint64_t idle_ns, clu_err *e);
/* Blocks until there is something for the caller to do. */
int clu_supervisor_serve(clu_supervisor *sv, clu_sv_event *ev, clu_err *e);
/* Queues an answer, flushed by the next serve(). */
int clu_supervisor_answer(clu_supervisor *sv, uint8_t kind, uint64_t seq, const void *p, size_t n);
/* For a node whose channel has ended without a word of the master: the master or the fork server is at its
 * end. Blocks until the fork server kills this process, or CLU_SIG_TERM does it because the fork server is
 * gone; returns when neither comes, and then its folder is removed if nobody else is there to do it. */
void clu_node_await_end(const clu_boot *b);
/* Closes what belongs to the supervisor; in the master's absence also after CLU_SV_END. */
void clu_supervisor_fini(clu_supervisor *sv);

#endif
