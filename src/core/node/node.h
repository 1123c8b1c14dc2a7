/* The master's side: fork servers, nodes and the requests that are with them.
 *
 * A state machine over channels: nothing here waits. A request is sent with
 * the number of its owner (the call it belongs to; 0: none, it stays until it is asked for). When
 * an owner gives up, its requests are withdrawn where they have not left, and made stale where they
 * have: the node is told to give them up and their answers are thrown away when they come. So an
 * answer is never taken for that of another request.
 *
 * Owned by the caller: servers and nodes, freed by their free functions in any order (a node keeps its server). Neither
 * is freed inside of clu_loop_pump().
 */
#ifndef CLUTCH_POOL_H
#define CLUTCH_POOL_H

#include "core/loop/channel-watch.h"
#include "core/node/session.h"
#include "core/base/os.h"

typedef struct clu_server clu_server;
typedef struct clu_node clu_node;

enum clu_server_state { CLU_SERVER_STARTING, CLU_SERVER_READY, CLU_SERVER_ENDED };

struct clu_server {
  clu_session *session;
  clu_server *prev, *next;
  long refs; /* the caller's and one for each node */
  clu_chan chan;
  clu_watch_id watch;
  int state;
  int bye;        /* it ended because it was idle */
  int asked;      /* it was asked to end */
  clu_pid pid;
  clu_exit how;   /* once ended and reaped: */
  int reaped;
  clu_blob *ready;         /* what it reported when it was ready */
  uint64_t applied;        /* number of the settings in force */
  uint64_t answered;       /* number of the settings last answered, refused ones too */
  clu_blob *refusal;       /* why they were refused */
  clu_shared *shared;      /* with it and its nodes; NULL: not known yet, or not to be had */
  int live;                /* nodes of it that are not over */
  uint64_t *slots;         /* ids of those whose process has, or may have, a slot of `shared`; 0: free */
  int nslots;
};

enum clu_node_state { CLU_NODE_SPAWNING, CLU_NODE_READY, CLU_NODE_DEAD, CLU_NODE_STOPPED };

typedef struct clu_req {
  uint64_t seq, owner;
  uint64_t arrival; /* 0: not answered yet */
  int stale;
  uint8_t kind;     /* of the answer */
  clu_blob *body;
  int tag;          /* the caller's */
} clu_req;

struct clu_node {
  clu_session *session;
  clu_node *prev, *next;
  clu_server *server; /* NULL: it connects over TCP; then: */
  clu_child *child;   /* its process, or the one that starts it elsewhere; NULL: started by others */
  clu_timer leave;    /* armed: told to stop and nobody can kill it, so that it is given up then */
  uint64_t id;
  clu_chan chan;
  clu_watch_id watch;
  int state;
  clu_pid pid;
  clu_exit how;
  int how_known;
  uint64_t limit;     /* bytes that it may have; 0: no limit */
  int over_limit;     /* it had more and was killed: */
  uint64_t memory;    /* what it had */
  int stopping;       /* it was told to stop */
  char *refusal;      /* why it could not be started */
  uint64_t born, over;
  clu_req *reqs;      /* in the order they were sent */
  int nreqs, cap;
  uint64_t seq;
  uint64_t stale_since; /* since when it has requests to give up, if it has */
  uint64_t done;      /* answered, stale ones not counted */
  int signals;        /* cancels sent and not yet confirmed */
  int rank;           /* the caller's: its number in the cluster */
  int slot;           /* of the server's shared memory, -1: none */
  void *tasks;        /* the caller's: who gives it tasks, if anybody */
};

/* Starts the program `s` with the control channel as descriptor 3. */
int clu_server_start(clu_session *session, clu_spawn *s, clu_server **out, clu_err *e);
/* Queues and sends what can be sent now. */
int clu_server_send(clu_server *s, uint8_t kind, uint64_t seq, const void *p, size_t n, clu_fd pass);
/* Closes the control channel: server and nodes end. */
void clu_server_close(clu_server *s);
/* Whether it has ended; reaps it. */
int clu_server_reap(clu_server *s);
void clu_server_unref(clu_server *s);

/* Asks the server for a node. */
int clu_node_spawn(clu_server *s, int by_exec, clu_node **out, clu_err *e);
/* A node without a server: it is CLU_NODE_SPAWNING until it has connected, has been told its settings, and has
 * said hello. */
int clu_node_new(clu_session *session, clu_node **out, clu_err *e);
/* Starts its process: see clu_child_start(). */
int clu_node_start(clu_node *nd, const clu_spawn *spec, int slot, const char *folder, clu_err *e);
/* It has connected, as process `pid`. Takes over `fd` also on failure. A connection that it had before is
 * closed. */
int clu_node_join(clu_node *nd, clu_fd fd, clu_pid pid, clu_err *e);
/* Sends it a message that is no request. */
void clu_node_tell(clu_node *nd, uint8_t kind, clu_blob *body);
/* Whether it has connected and its process runs, as far as can be known. Reads what an ended one still said. */
int clu_node_look(clu_node *nd);
/* Reads all that has come of it. */
void clu_node_read_all(clu_node *nd);
/* The caller has seen that it is no more. */
void clu_node_lose(clu_node *nd);
/* Whether it is over, and no more will be known of how. */
int clu_node_gone(const clu_node *nd);
/* Queues a request and sends what can be sent now. CLU_DEAD when the node is over. */
int clu_node_call(clu_node *nd, clu_blob *body, uint64_t owner, int tag, clu_err *e);
/* Queues a message about `n` tasks (or none), the first of which has the number `*seq`, the others the following.
 * Leaves with clu_node_push(). CLU_OK, CLU_DEAD, CLU_NOMEM. */
int clu_node_tasks(clu_node *nd, uint8_t kind, clu_blob *body, uint32_t n, uint64_t *seq);
/* Sends what can be sent now. */
void clu_node_push(clu_node *nd);
/* Has it give up task `seq`, if that is what it is at. */
void clu_node_interrupt(clu_node *nd, uint64_t seq);
/* The word that says which tasks it may start, and where it leaves small results; NULL: there is none. Both are there
 * until it is over. */
clu_claim *clu_node_claim(const clu_node *nd);
clu_ring *clu_node_ring(const clu_node *nd);
/* The oldest request that is not stale, or NULL. Valid until the next call of this module. */
clu_req *clu_node_first(clu_node *nd);
/* Removes `r`; its body is the caller's. */
clu_blob *clu_node_take(clu_node *nd, clu_req *r);
/* Gives up the requests of `owner`; with 0, all. */
void clu_node_cancel(clu_node *nd, uint64_t owner);
/* From now on its server ends it when it has more than so many bytes; 0: no limit. Of one without a server nobody does. */
void clu_node_limit(clu_node *nd, uint64_t bytes);
/* Whether no stale request is left and no cancel is under way. */
int clu_node_in_step(const clu_node *nd);
/* Whether it has something to answer. */
int clu_node_busy(const clu_node *nd);
/* Tells it to end; after `grace_ms` its server kills it (0: at once). */
void clu_node_stop(clu_node *nd, uint32_t grace_ms);
/* Stops it if need be and frees it. */
void clu_node_free(clu_node *nd);

#endif
