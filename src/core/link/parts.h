/* The files of a proxy share these. Each uses only those before it: link, segments, rings, streams,
 * arrivals, use, stacks, proxy. */
#ifndef CLUTCH_LINK_PARTS_H
#define CLUTCH_LINK_PARTS_H

#include <stdio.h>

#include "core/view/process-use.h"
#include "core/base/segment.h"
#include "core/link/proxy.h"
#include "core/shm/node-memory.h"
#include "core/wire/channel.h"

/* ---- segments.c: what of this host's segments the other side has, and the reverse ---- */

typedef struct clu_sent_segment {
  struct clu_sent_segment *next;
  uint64_t number, id[2];
  clu_fd fd;         /* the system does not give its id to another while it is open */
  uint64_t size, at; /* `at` bytes were sent */
  uint64_t used;     /* when it was used last */
  int is_brought;    /* a message brings it */
  int is_used_again; /* another message brings it, too */
  int is_lost;       /* it cannot be read: messages that bring it cannot pass */
} clu_sent_segment;

typedef struct clu_got_segment {
  struct clu_got_segment *next;
  uint64_t number, size, at;
  uint64_t counts_for;  /* the stream that it was announced for */
  int is_counted;       /* the next message of that stream has not brought it yet */
  clu_segment *segment; /* NULL: it could not be made, and what comes of it is dropped */
} clu_got_segment;

typedef struct clu_link_stream clu_link_stream;

/* Finds or makes the segment that `fd` is, which is taken over; it is to be sent for `s` if it is
 * new. NULL: `*rc` is why. */
clu_sent_segment *clu_link_stream_segment(clu_link_stream *s, clu_fd fd, int *rc);
/* Sends the next piece of what is under way. 1: something was sent. */
int clu_proxy_send_piece(clu_proxy *r);
/* Forgets the segments that are there as a whole, that no message waits for, and that were last
 * used at `unused_since` (clu_os_now()) or before. */
void clu_proxy_forget_segments(clu_proxy *r, uint64_t unused_since);
/* A stream has ended: forgets the segments for which only its messages have waited, unless others
 * may bring them. */
void clu_proxy_forget_unawaited(clu_proxy *r);
/* Takes a record about segments. CLU_OK, CLU_PROTO, CLU_NOMEM. */
int clu_proxy_take_segment(clu_proxy *r, const clu_link_record *rec);
clu_got_segment *clu_proxy_got(clu_proxy *r, uint64_t number);
void clu_proxy_drop_segments(clu_proxy *r);

/* ---- a numbered stream and its local descriptor ---- */

/* A chunk is bytes that are to be written to a local descriptor. */
typedef struct clu_link_stream_chunk {
  struct clu_link_stream_chunk *next;
  uint64_t after;               /* another stream, of which all is written before; 0: none */
  clu_fd pass[CLU_MAX_FDS];     /* these travel with the first byte; owned */
  clu_segment *of[CLU_MAX_FDS]; /* or this has it, which is owned */
  int npass;
  uint64_t segments; /* bytes of those that count for this stream, not told yet */
  size_t n, at;
  unsigned char bytes[];
} clu_link_stream_chunk;

/* A question of the other side for the R calls of a node. */
typedef struct clu_stack_wait {
  uint32_t question; /* the node's number of it; 0: none is open */
  uint32_t of;       /* the other side's */
  uint64_t asked;    /* when */
  int is_old_told;   /* the other side knows what the node has told before */
} clu_stack_wait;

struct clu_link_stream {
  struct clu_link_stream *next;
  clu_proxy *proxy;
  uint64_t id;
  int kind; /* enum clu_link_stream_kind */
  clu_fd fd;
  clu_watch_id watch;
  clu_timer again;      /* output: it could not be written */
  int is_polled;        /* the system cannot tell when it is writable */
  int slot;             /* far, of a node: in its fork server's memory; -1: none */
  int has_said;         /* HELLO: what is in that slot's ring is this node's, and no other's */
  clu_process_use use;  /* far, of a node */
  uint64_t told_hand;   /* the task of which the other side was told that it is at it */
  clu_stack_wait calls; /* far, of a node */
  /* from here to there */
  int readable;                      /* there may be something to read */
  int is_dry;                        /* the last read had room for more than there was */
  uint64_t may_send;                 /* bytes that the other side has room for */
  uint64_t segments_there;           /* bytes announced for it, and not passed on there yet */
  uint64_t frame_left, message_left; /* of what is being forwarded */
  int head_done;                     /* all that the next header brings is on its way */
  int brings;                        /* segments that it brings */
  clu_sent_segment *bring[CLU_MAX_FDS];
  clu_fd fds[4 * CLU_MAX_FDS]; /* received, in their order; CLU_NO_FD: a message's were lost */
  int nfds;
  unsigned char *in;
  size_t in_at, in_n;
  int ended; /* no more comes from the local side */
  /* from there to here */
  clu_link_stream_chunk *first, *last, *coming; /* coming: descriptors of the next bytes */
  uint64_t may_take;                            /* bytes that the other side may still send */
  uint64_t written;                             /* bytes, not told by CREDIT yet */
  uint64_t segments_here;                       /* bytes announced for it, and not passed on yet */
  int announced;                                /* segments that its next message will bring */
  int wants_write;
  int closing; /* the other side has closed it: it goes when all is written */
};

/* ---- rings.c: small results of nodes on this host ---- */

/* The memory that this host's fork server and its nodes share; takes over `fd`. CLU_OK, or why it
 * cannot be mapped. */
int clu_proxy_map(clu_proxy *r, clu_fd fd);
/* The ring of this node, of which this proxy is the reader; NULL: there is none. */
clu_ring *clu_link_stream_ring(const clu_link_stream *s);
/* Between two messages: sends what is in the ring, as far as the numbers are below `number` and
 * what was written up to the position `upto`. 1: all of that; 0: it has to wait for room or credit;
 * < 0: a negative code. */
int clu_link_stream_send_results(clu_link_stream *s, uint64_t number, uint64_t upto);
/* Does the same after the socket was read until it had nothing more: for all numbers. 1 also where
 * the node is within a message, or part of a header is here: the rest of that comes first. */
int clu_link_stream_forward_ring(clu_link_stream *s, uint64_t upto);
/* Tells whether this message says that there is something in the ring. It stays here. */
int clu_link_stream_tells_of_ring(const clu_link_stream *s, const clu_header *h);
/* This node is at work: its ring may have something of which it does not tell. */
void clu_link_stream_look_soon(clu_link_stream *s);
/* The callback of the proxy's timer `look`. */
void clu_proxy_on_look_time(void *proxy);

/* ---- streams.c ---- */

/* Takes over `fd`, also on failure. NULL: no memory, or the loop cannot watch it. */
clu_link_stream *clu_link_stream_new(clu_proxy *r, uint64_t id, int kind, clu_fd fd);
/* Closes its descriptor and frees it. */
void clu_link_stream_free(clu_link_stream *s);
/* Forwards what has come on the local descriptor. 1: all that was seen there, or it has ended; 0:
 * it has to wait for room, credit or a segment. */
int clu_link_stream_forward(clu_link_stream *s);
/* It is of no use any more: closed here, and the other side is told. It is freed at the end of the
 * turn. */
void clu_link_stream_end(clu_link_stream *s);
/* Does the same, and does not tell the other side: it knows. */
void clu_link_stream_close(clu_link_stream *s);
/* Frees the first chunk, with what it would pass on. */
void clu_link_stream_pop_chunk(clu_link_stream *s);
/* Does the same of all, and of what would travel with the next. */
void clu_link_stream_drop_chunks(clu_link_stream *s);

/* ---- arrivals.c ---- */

/* A record for this stream. CLU_OK, CLU_PROTO, CLU_NOMEM. */
int clu_link_stream_take(clu_link_stream *s, const clu_link_record *rec);
/* Writes what the system takes. */
void clu_link_stream_write(clu_link_stream *s);

/* ---- use.c ---- */

/* Far: answers a question that was asked then. CLU_OK or CLU_NOMEM. */
int clu_proxy_tell_use(clu_proxy *r, uint64_t asked);
/* Near: the answer. CLU_OK or CLU_PROTO. */
int clu_proxy_take_use(clu_proxy *r, const clu_link_record *rec);

/* ---- stacks.c ---- */

/* Far: asks the node. CLU_OK, CLU_PROTO, CLU_NOMEM. */
int clu_proxy_tell_stack(clu_proxy *r, const clu_link_record *rec);
/* The callback of the proxy's timer `stacks`: passes answers on. */
void clu_proxy_on_stacks_time(void *proxy);
/* Near: the answer. CLU_OK or CLU_PROTO. */
int clu_proxy_take_stack(clu_proxy *r, const clu_link_record *rec);

struct clu_proxy {
  clu_loop *loop;
  clu_link link;
  clu_proxy_options how;
  clu_conn *conn;
  clu_watch_id watch;
  clu_timer tick;
  clu_shared *shared; /* far: see rings.c; NULL: not known yet */
  clu_timer look;     /* at the rings */
  uint64_t look_until;
  clu_timer stacks;  /* far: armed while some were asked for their R calls */
  uint64_t use_told; /* far: when it was asked last what it uses */
  clu_weighing weighing;
  clu_link_stream *streams; /* the control channel first */
  clu_sent_segment *sent;
  clu_got_segment *got;
  uint64_t swept;   /* when segments were forgotten that had not been used for long */
  uint64_t numbers; /* of segments and output streams that this side has opened */
  int fatal;        /* a code: nothing can be resumed */
  int is_dirty;     /* a turn has something to do */
  char why[256];
};

/* Far: it is a node, whose slot of the shared memory can be read, and its stream goes on. */
static inline int clu_link_stream_is_node(const clu_link_stream *s) {
  return s->kind == CLU_STREAM_DATA && s->fd != CLU_NO_FD && s->has_said && s->slot >= 0 &&
         s->proxy->shared;
}

/* The stream of this number; NULL: there is none, or none any more. */
static inline clu_link_stream *clu_link_stream_find(const clu_proxy *r, uint64_t id) {
  clu_link_stream *s = r->streams;
  while (s && s->id != id) s = s->next;
  return s;
}

/* A turn has something to do. */
static inline void clu_proxy_touch(clu_proxy *r) {
  if (!r->is_dirty && r->how.on_due) r->how.on_due(r->how.data);
  r->is_dirty = 1;
}

/* The link is of no more use, because of `why`: clu_proxy_turn() says so. The first reason counts.
 */
static inline void clu_proxy_give_up(clu_proxy *r, int code, const char *why) {
  if (r->fatal) return;
  r->fatal = code;
  snprintf(r->why, sizeof r->why, "%s", why);
}

#endif
