/* A session has an event loop, fork servers, nodes, and the processes that it started itself.
 *
 * The session owns the loop and the record of processes. Servers and nodes are the caller's: they
 * are listed here from their creation until they are freed, and all are freed before the session.
 * Nothing here blocks but clu_loop_pump(clu_session_loop(s)), in which all that comes is read and
 * acted on, and the functions that call it: clu_session_pump_for(), clu_node_await_end().
 */
#ifndef CLUTCH_SESSION_H
#define CLUTCH_SESSION_H

#include "core/loop/event-loop.h"
#include "core/node/child-process.h"
#include "core/wire/channel.h"

typedef struct clu_session clu_session;
typedef struct clu_server clu_server;
typedef struct clu_node clu_node;
typedef struct clu_transport clu_transport;

/* The hooks of who hands out tasks (the scheduler's caller). They are called within
 * clu_loop_pump(), and only for nodes with clu_node_set_data(). No function of theirs may free a
 * node. */
typedef struct clu_task_hooks {
  /* A message about tasks has come; or the fork server's CLU_K_EXITED or CLU_K_TAKEN, which
   * say what was begun.
   * Its body is the callee's if it takes it (sets it to NULL). */
  void (*on_message)(clu_node *nd, clu_msg *m);
  /* How many tasks are with the node, cancelled ones included; of these `*cancelled` (may be
   * NULL). */
  uint32_t (*tasks_at)(const clu_node *nd, uint32_t *cancelled);
  /* The node is closed; the memory that it shared may go. Also called by clu_node_stop() and
   * clu_node_free(). */
  void (*on_closed)(clu_node *nd);
  /* It gets no tasks any more: it is about to be freed, or another has its place. */
  void (*on_gone)(clu_node *nd);
} clu_task_hooks;

/* NULL: no memory, or no descriptor is free. */
clu_session *clu_session_new(clu_err *e);
/* Kills nobody. Accepts NULL. */
void clu_session_free(clu_session *s);
/* In a forked child: closes every descriptor and forgets it. Async-signal-safe. Nothing else may
 * follow. */
void clu_session_close_in_child(clu_session *s);

clu_loop *clu_session_loop(clu_session *s);
clu_children *clu_session_children(clu_session *s);
/* All nodes, the youngest first; NULL: there is none (more). */
clu_node *clu_session_nodes(const clu_session *s);
clu_node *clu_node_next(const clu_node *nd);
/* Tells whether there is no node and no server. */
int clu_session_is_empty(const clu_session *s);
/* Nodes that were lost so far: who waits for several nodes looks at each only when this number
 * has changed. */
uint64_t clu_session_deaths(const clu_session *s);
/* Tells whether a node can be reached: its host is there; the connection is cut; the host has said
 * that it ends, and its nodes with it, of which the end is known a moment later. */
enum clu_reach { CLU_IS_REACHED, CLU_IS_CUT, CLU_HAS_SAID_BYE };
/* How often nodes were cut off, or came back: clu_node_is_cut() says another thing than before only
 * when this number has changed. */
uint64_t clu_session_cuts(const clu_session *s);
/* Pumps the loop until `done` says so (1), or the deadline has passed, all that has come is read,
 * and it still does not (0). Blocks. */
int clu_session_pump_for(clu_session *s, int (*done)(void *), void *data, uint64_t deadline);
/* Reads what has come, without a wait, until `done` says so. Whether it does. */
int clu_session_drain(clu_session *s, int (*done)(void *), void *data);
/* For a node that is closed: pumps the loop, a second at most, until it is known how it ended. */
void clu_node_await_end(clu_node *nd);
/* Bytes that have come from nodes so far, for this process. */
uint64_t clu_session_received(const clu_session *s);
/* A number that was not given before, to a node or to settings. */
uint64_t clu_session_new_id(clu_session *s);
/* `hooks` is kept as pointer. Before the first clu_node_set_data(). */
void clu_session_set_task_hooks(clu_session *s, const clu_task_hooks *hooks);
/* Called within clu_loop_pump() for what the link process `nd` says of a host: CLU_K_HOST_STATE. */
void clu_session_set_host_hook(clu_session *s, void (*on_host)(clu_node *nd, const clu_msg *m));
/* Does the same for what a node says that is the bridge of a run: CLU_K_MESH. */
void clu_session_set_mesh_hook(clu_session *s, void (*on_mesh)(clu_node *nd, const clu_msg *m));
/* Does the same for what a forwarder says: CLU_K_FORWARD; and for any node that is closed from now
 * on, with `m` NULL. */
void clu_session_set_forward_hook(clu_session *s,
                                  void (*on_forward)(clu_node *nd, const clu_msg *m));
/* Messages may have to be handed on: for so many hosts more (or fewer) that is so at any time; for
 * others while there is work on nodes. */
void clu_session_add_forwards(clu_session *s, int more);
void clu_session_set_may_forward(clu_session *s, int may);
int clu_session_forwards(const clu_session *s);
int clu_session_may_forward(const clu_session *s);
/* So many of the bytes that have come are not for this process. */
void clu_session_forget_received(clu_session *s, uint64_t n);

#endif
