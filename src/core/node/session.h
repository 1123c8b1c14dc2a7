/* What one session (or master) has: its event loop, its fork servers, its nodes, the processes that it started itself.
 *
 * The session owns the loop and the record of processes. Servers and nodes are the caller's: they are listed here from
 * their creation until they are freed, and all are freed before clu_session_fini(). Nothing here blocks but
 * clu_loop_pump(&s->loop), in which all that comes is read and acted on.
 */
#ifndef CLUTCH_SESSION_H
#define CLUTCH_SESSION_H

#include "core/loop/event-loop.h"
#include "core/node/child-process.h"
#include "core/wire/channel.h"

struct clu_node;
struct clu_server;

typedef struct clu_session {
  clu_loop loop;
  clu_children children;
  struct clu_node *nodes;
  struct clu_server *servers;
  uint64_t arrivals; /* answers so far: orders them */
  uint64_t next_id;  /* of nodes and settings */
  uint64_t deaths;   /* of nodes that nobody had stopped */
  /* The caller's, for nodes with `tasks`: what has come of them, the body is the callee's to take (set it to
   * NULL); and how many are with it, also cancelled ones. Called within clu_loop_pump(). */
  void (*on_task)(struct clu_node *nd, clu_msg *m);
  uint32_t (*tasks_at)(const struct clu_node *nd, uint32_t *cancelled);
  /* It has ended; the memory that it shared may go. Also called by clu_node_stop() and clu_node_free(). */
  void (*on_over)(struct clu_node *nd);
} clu_session;

int clu_session_init(clu_session *s, clu_err *e);
/* Accepts zeroed memory. */
void clu_session_fini(clu_session *s);
/* In a forked child: closes every descriptor and forgets it. Async-signal-safe. */
void clu_session_close_in_child(clu_session *s);

#endif
