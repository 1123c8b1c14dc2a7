/* Kinds of nodes differ in how one is interrupted, stopped, and known to have ended. A
 * table of functions, one file a kind: transport-fork.c (forked by a fork server on this machine),
 * transport-host.c (by one on another host), transport-tcp.c (connects over TCP), transport-psock.c
 * (base R's worker).
 *
 * To add a transport:
 *   1. A file transport-<kind>.c with a struct that begins with clu_node, the functions below that
 *      it needs, and a static const clu_transport.
 *   2. Its constructor in transports.h: memory by calloc(), clu_node_init() with the table, and
 *      clu_node_connect() once there is a channel. The message HELLO on that makes the node ready.
 *   3. When the end of the process is learnt: set nd->how and nd->how_known, call
 *      clu_node_receive(nd, -1), then clu_node_close().
 *   4. A test in tests/c/test-node.c.
 * No other file changes: callers use node.h, which asks the table.
 *
 * All functions are called with an open node unless it says otherwise. None may block, and none may
 * free a node but `free`.
 */
#ifndef CLUTCH_TRANSPORT_H
#define CLUTCH_TRANSPORT_H

#include "core/node/node.h"
#include "core/shm/node-memory.h"
#include "core/wire/frame.h"

struct clu_transport {
  /* While the node is starting a connection that ends may be followed by another: it is not the
   * end of the node. */
  int reconnects;
  /* Tells whether its connection passes descriptors: messages to and from it may bring segments. */
  int takes_segments;
  /* Tells whether it is behind a proxy, on another host: that reads its ring, and what it had begun
   * is told when it has ended. */
  int is_proxied;

  /* Required. `stop`: tells it to end, and has it killed after `grace_ms` (0: now). It may close
   * the node. */
  void (*stop)(clu_node *nd, uint32_t grace_ms);
  /* The node has just been closed, for whatever reason. */
  void (*closed)(clu_node *nd);
  /* Called with a closed node: whether no more will be known of how it ended. */
  int (*end_known)(const clu_node *nd);
  /* Called with a closed node, which is in no list any more: gives back all, also its memory. */
  void (*free)(clu_node *nd);

  /* May be NULL. Also of a closed node: polls whether its process has ended; sets nd->how if
   * that is known. */
  int (*ended)(clu_node *nd);
  /* NULL: nobody there can. Has its fork server write: the body of DELIVER (core/wire/frame.h). */
  int (*deliver)(clu_node *nd, clu_blob *body);
  /* NULL: its process is started otherwise. */
  int (*start)(clu_node *nd, const clu_spawn *spec, int slot, const char *folder, clu_err *e);
  /* NULL: it cannot be interrupted. Where the interrupt is confirmed later, nd->interrupts
   * counts those under way. */
  void (*interrupt)(clu_node *nd, uint64_t seq);
  /* NULL: 0. See clu_node_ask_signalled(). What is asked counts in nd->interrupts. */
  int (*ask_signalled)(clu_node *nd);
  /* NULL: what has not begun cannot be asked for. */
  void (*take_back)(clu_node *nd, uint64_t end);
  /* NULL: nobody sees to a limit of its memory. */
  void (*limit_memory)(clu_node *nd, uint64_t bytes);
  /* NULL: it cannot be stopped, and go on later. */
  void (*hold)(clu_node *nd, int held);
  /* NULL: nothing. See clu_node_say(). */
  void (*say)(clu_node *nd, const char *text, size_t n);
  /* NULL, or no shared memory: NULL. */
  clu_claim *(*claim)(const clu_node *nd);
  clu_ring *(*ring)(const clu_node *nd);
  /* NULL, or NULL: there is none. `*slot`: the node's. See clu_node_ask_stack(). */
  clu_shared *(*shared)(const clu_node *nd, int *slot);
  /* For those that are reached by messages only. `stack`: as if it were shared; NULL: no memory.
   * `ask_stack`: asks the node for that; `seq`: for a copy of that request or task. */
  clu_stack_word *(*stack)(clu_node *nd, clu_stack **stack);
  void (*ask_stack)(clu_node *nd, enum clu_stack_wish what, uint64_t seq);
  /* NULL: nothing. What the fork server has answered to that. */
  void (*told)(clu_node *nd, const clu_blob *answer);
  /* NULL: 0. See clu_node_own_pid(). */
  clu_pid (*own_pid)(const clu_node *nd);
  /* NULL: no. See clu_node_clock_is_ours(). */
  int (*clock_is_ours)(const clu_node *nd);
  /* NULL: it never is. See clu_node_is_cut(). */
  int (*is_cut)(const clu_node *nd);
  /* NULL: nothing. Also of a closed node: fills `started`, `server`, `server_ended`. */
  void (*describe)(const clu_node *nd, clu_node_status *out);
};

#endif
