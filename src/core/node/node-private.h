/* The insides of sessions and nodes, for the files of this folder and for tests only. */
#ifndef CLUTCH_NODE_PRIVATE_H
#define CLUTCH_NODE_PRIVATE_H

#include "core/loop/channel-watch.h"
#include "core/node/node.h"
#include "core/node/transport.h"

struct clu_session {
  clu_loop loop;
  clu_children children;
  clu_node *nodes;
  clu_server *servers;
  uint64_t arrivals; /* answers so far: orders them */
  uint64_t last_id;
  uint64_t deaths, cuts;
  uint64_t received; /* bytes, from nodes */
  void (*on_host)(clu_node *nd, const clu_msg *m);
  void (*on_mesh)(clu_node *nd, const clu_msg *m);
  void (*on_forward)(clu_node *nd, const clu_msg *m);
  int forwards, may_forward;
  const clu_task_hooks *hooks; /* not NULL while a node has data */
};

enum clu_node_state { CLU_NODE_STARTING, CLU_NODE_READY, CLU_NODE_LOST, CLU_NODE_STOPPED };

/* The first member of what a transport has of a node. */
struct clu_node {
  const clu_transport *transport;
  clu_session *session;
  clu_node *prev, *next;
  uint64_t id;
  int rank;   /* the caller's */
  void *data; /* the caller's */
  int state;
  int stopping; /* it was told to stop */
  int held;     /* its process is stopped for a while */
  clu_chan chan;
  clu_watch_id watch;
  clu_pid pid;
  clu_exit how;
  int how_known;
  int over_limit;         /* it had more memory than it may, and was killed: */
  uint64_t memory;        /* what it had */
  char *last_copy;        /* where a copy of it listens that was made before; NULL: none was */
  uint64_t use_of;        /* number of the question that was answered by: */
  double cpu, own_memory; /* see clu_server_node_use() */
  int may_be_oom;         /* its supervisor says so, see enum clu_end_of_memory */
  char *refusal;          /* why it could not be started */
  uint64_t created, closed;
  clu_requests requests;
  uint64_t seq; /* of the last request or task */
  int called;   /* see clu_node_was_called() */
  uint64_t cancelled_since;
  uint64_t done;
  int interrupts; /* sent and not confirmed yet */
  clu_view *view; /* where it is shown; NULL: nowhere */
  int view_at;
};

/* ---- for transports ---- */

/* `nd` is zeroed memory. From now on it is in the session's list: clu_node_free(), or
 * clu_node_unlist() and free(). */
void clu_node_init(clu_node *nd, const clu_transport *transport, clu_session *s);
void clu_node_unlist(clu_node *nd);
/* At most `fills` reads, so that one node cannot keep the others waiting; < 0: all there is. May
 * close the node. */
void clu_node_receive(clu_node *nd, int fills);
/* Why it could not be started; `text` may be NULL. */
void clu_node_set_refusal(clu_node *nd, const clu_blob *text);
/* It is ready, unless it is closed. */
void clu_node_set_ready(clu_node *nd, clu_pid pid);
/* Its pid or state has changed: others see that. */
void clu_node_show_state(const clu_node *nd);
/* Queues the message that asks it to end by itself. */
void clu_node_say_done(clu_node *nd);

#endif
