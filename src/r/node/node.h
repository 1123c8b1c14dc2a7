/* A node's own side. */
#ifndef CLUTCH_GLUE_NODE_H
#define CLUTCH_GLUE_NODE_H

#include "r/r-api.h"

#include "core/wire/channel.h"
#include "core/supervisor/supervisor.h"

/* Everything that a node remembers from one request to the next. */
typedef struct clu_this_node {
  clu_chan chan;
  clu_boot birth;
  volatile uint64_t seq;      /* the request or task at hand, 0: none */
  volatile int running;       /* it is being evaluated */
  volatile int sending;       /* its answer is being written */
  volatile int interrupted;   /* R was told of a signal */
  int task;                   /* it is a task: CLU_TASK_* */
  int live;                   /* what it prints and signals is wanted at once */
  int spoke;                  /* it has sent something by the socket: its result comes behind that */
  uint64_t seen;              /* the last cancel that was looked at */
  int broken;                 /* why a message could not be read to its end */
  double t1[5];
  int over;                   /* the channel is of no more use */
  int closed;                 /* its descriptor is not what it was */
  int asked;                  /* to end: the master has said DONE, or this process is of no more use */
  volatile int forked;        /* this is a child of the node (mclapply() in a call), not the node */
  int64_t idle_ns;            /* so much silence ends it; 0: no matter how much */
} clu_this_node;
extern clu_this_node clu_me;

enum { CLU_TASK_NONE = 0, CLU_TASK_QUIET, CLU_TASK_RELAYED };

/* Writes the answer to the request at hand; gives it up when it is cancelled half-way. */
void clu_node_answer(uint8_t kind, clu_blob *body);
/* Ends the evaluation: an interrupt that R has been told of and has not acted upon is not for the next. */
void clu_node_stop_running(void);
/* From the message that has begun; an R error when it ends too soon. */
void clu_node_read(void *p, size_t n);
SEXP clu_node_read_object(uint64_t n);

/* r/node/node-tasks.c: takes a message about tasks; does what is to be done of the tasks taken (1: there was something);
 * puts the workspace back as it is without them; answers that the task at hand has failed. */
void clu_work_take(const clu_msg *m);
int clu_work_go_on(void);
void clu_work_leave(void);
void clu_work_failed(SEXP failure);
/* Tells the master of results in the ring of which it was not told. */
void clu_work_tell(void);

/* r/node/relay.c: what the task at hand has printed and signalled since this was asked last, in order: a list, or NULL. */
SEXP clu_relay_take(void);
/* Forgets it: what it was of has been given up. */
void clu_relay_drop(void);

/* Called in the child right after the fork, before it goes back to R: remembers who it is. */
void clu_node_born(const clu_boot *b);

/* Moves the channel's descriptor out of the way of user's code. */
void clu_node_move_fd(clu_fd *fd);

/* A node that has connected over TCP: takes over the channel. `idle_ns` of silence end it; < 0: none do. */
void clu_node_joined(const clu_boot *b, clu_chan *c, int64_t idle_ns);

#endif
