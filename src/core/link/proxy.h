/* A proxy: one end of a link (core/link/link.h) and what hangs on it. On the session's host it
 * stands for another host, with that host's fork server and nodes as local descriptors; on the
 * other host it stands for the session.
 *
 *   session ==control, data channels== near proxy --connection-- far proxy ==the same== fork server
 *                                                                                        and nodes
 *
 * Streams. A channel (core/wire/channel.h) is a numbered stream: the control channel is number 0, a
 * node's data channel has the number of the node. The proxy follows the headers of frames and
 * leaves their bodies alone. So it knows which message brings descriptors, and a message of any
 * length needs no memory for all of it.
 *   SPAWN brings the node's end of the data channel: it becomes a stream (OPEN). The far proxy
 * makes a pair of sockets, passes one on with the SPAWN, and has the other. OUTPUT, ERRORS: a
 * stream as well, whose bytes the near proxy writes to that descriptor. READY brings shared memory,
 * which stays there: the far proxy reads the rings in it (rings.c). Segments of any message: their
 * bytes cross once, see below. EXITED is passed on when all has been passed on that the node has
 * said before, on both sides.
 *
 * Segments. The near proxy remembers those that it has sent, by the system's number of the file.
 * The far one has made segments of its own of them, and passes their descriptors to every node that
 * gets one. They are forgotten 10 s after the last message that brought them, or when there are
 * more than 64; those that only one message has brought also when they are more than
 * CLU_SEGMENTS_KEPT bytes: most likely they are elements, which no other message brings. What nodes
 * send is not sent a second time, and so is forgotten at once.
 *
 * Bounds. Of a stream CLU_STREAM_CREDIT bytes are on their way at most, since the other side says
 * when it has written some; so one that is not read stops no other. Segments are counted apart:
 * a message that brings some which the other side does not have is begun while less than
 * CLU_SEGMENT_WINDOW bytes of those before it, of the same stream, wait there to be passed on. So
 * of a stream less than that and one message are there, and a message of any size can pass. A side
 * that sends more than it was granted, or grants more than it was sent, ends the link. All streams
 * together: the link's window. What is not taken waits in the local sockets.
 *
 * One thread. A proxy runs on the caller's event loop; after each clu_loop_pump() the caller calls
 * clu_proxy_turn(); who has many calls it for those that have said so (on_due). Nothing here
 * blocks. The connection is made by the caller (near.h, far.h).
 */
#ifndef CLUTCH_PROXY_H
#define CLUTCH_PROXY_H

#include "core/link/link.h"
#include "core/loop/event-loop.h"
#include "core/net/conn.h"

#define CLU_STREAM_CREDIT (1u << 20)
#define CLU_LINK_WINDOW (8u << 20)
/* More than what is on its way at 1 Gbit/s and 100 ms, or at 10 Gbit/s and 20 ms. */
#define CLU_SEGMENT_WINDOW (32u << 20)
#define CLU_SEGMENTS_KEPT (128u << 20)

typedef struct clu_proxy clu_proxy;

enum clu_link_stream_kind { CLU_STREAM_CONTROL, CLU_STREAM_DATA, CLU_STREAM_OUTPUT };

enum clu_proxy_state {
  CLU_PROXY_WAITING, /* there was no connection yet */
  CLU_PROXY_UP,
  CLU_PROXY_CUT,
  CLU_PROXY_ENDED /* the control channel is closed, the other side has said that it ends, or nothing
                     can be resumed */
};

/* This has another host told of itself and of some of its nodes: see use.c. */
typedef struct clu_proxy_use {
  uint64_t asked; /* when the question left; clu_os_now() here */
  uint64_t took;  /* ns that the answer took there */
  uint64_t load, memory, memory_free;
  int n;
  const unsigned char *nodes;
} clu_proxy_use;

typedef struct clu_proxy_node_use {
  uint64_t id, cpu, memory, at_hand, age;
} clu_proxy_node_use;

/* Which R calls a node there is in, see stacks.c. */
typedef struct clu_proxy_stack {
  uint64_t id;                /* of the node */
  uint64_t seq, age;          /* the task in which it was told, and how many ns ago */
  uint64_t at_hand, hand_age; /* the one that it is at now, 0: none, and for how many ns */
  uint32_t question;          /* that was answered, or has had no answer yet: */
  int is_answer;              /* then it is what was told before that */
  const char *text;
  size_t n; /* <= CLU_STACK_TEXT */
} clu_proxy_stack;

typedef struct clu_proxy_options {
  int near;       /* the session's side */
  uint64_t epoch; /* near: not 0 */
  uint64_t beat;
  size_t window;           /* 0: CLU_LINK_WINDOW */
  uint64_t segment_window; /* 0: CLU_SEGMENT_WINDOW; the same on both sides */
  uint64_t segments_kept;  /* 0: CLU_SEGMENTS_KEPT */
  /* Called when clu_proxy_turn() has something to do. NULL: it is called after each pump. */
  void (*on_due)(void *data);
  /* Near: the other side has told what it uses. May be NULL. It must not free the proxy. */
  void (*on_use)(void *data, const clu_proxy_use *u);
  /* Tells the same of the R calls of a node. */
  void (*on_stack)(void *data, const clu_proxy_stack *x);
  void *data;
} clu_proxy_options;

typedef struct clu_proxy_status {
  int state;
  int connected;
  int has_said_bye; /* clu_proxy_say_bye(), and all of it has left */
  uint64_t bytes_in, bytes_out, cuts;
  const char *why; /* of the last cut or the end; the proxy's */
} clu_proxy_status;

/* A process of proxies needs a descriptor for each node: as many as the system lets it have. */
void clu_proxy_raise_fds(void);
/* NULL: no memory. */
clu_proxy *clu_proxy_new(clu_loop *l, const clu_proxy_options *how);
/* Closes all that it has. Accepts NULL. */
void clu_proxy_free(clu_proxy *r);
/* Stream 0. Takes over `fd`, also on failure. CLU_OK or CLU_NOMEM. */
int clu_proxy_control(clu_proxy *r, clu_fd fd);
/* A new connection, whose handshake is done. Takes over `conn`; the one before is closed. CLU_OK or
 * CLU_SYS. */
int clu_proxy_connect(clu_proxy *r, clu_conn *conn);
/* Tells whether clu_proxy_turn() has something to do. */
int clu_proxy_is_due(const clu_proxy *r);
/* Does what there is to do. CLU_OK; CLU_DEAD: nothing can be resumed, see `why`. */
int clu_proxy_turn(clu_proxy *r);
/* The other side is to know that this one ends. Then clu_proxy_turn() until all has left. */
void clu_proxy_say_bye(clu_proxy *r, const char *why);
/* Tells whether something waits to be written or acknowledged. 0 where the other side has ended. */
int clu_proxy_is_behind(const clu_proxy *r);
/* Near: asks the other side what it uses; the answer goes to on_use. CLU_OK; CLU_AGAIN: it is cut
 * off, or there is no room; CLU_NOMEM. */
int clu_proxy_ask_use(clu_proxy *r, uint64_t now);
/* Near: asks which R calls node `id` is in; answers, which may be several or none, go to on_stack.
 * As the one before. */
int clu_proxy_ask_stack(clu_proxy *r, uint64_t id, uint32_t question);
/* Tells what an answer about use says of node `i`. */
void clu_proxy_use_of(const clu_proxy_use *u, int i, clu_proxy_node_use *out);
void clu_proxy_status_of(const clu_proxy *r, clu_proxy_status *out);

#endif
