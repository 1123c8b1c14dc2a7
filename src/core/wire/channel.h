/* A channel: messages (core/wire/frame.h) over one stream socket, written and read in pieces.
 *
 * Writing: clu_chan_send() puts a message into a queue, clu_chan_flush() writes what the system
 * takes. Reading: clu_chan_fill() reads what has come into a buffer, clu_chan_next() hands out a
 * complete message. Or, for who reads on a blocking descriptor: clu_chan_begin(), clu_chan_read()
 * and clu_chan_skip() hand out a message in pieces while it comes. A channel is read in one of the
 * two ways.
 *
 * Ownership. The channel owns its descriptor, its buffers, queued messages, and descriptors that
 * were received and not yet taken. The struct is the caller's and may be moved by assignment.
 *
 * What blocks. Nothing on a non-blocking descriptor. On a blocking one (a node's, which has nothing
 * else to wait for) all that write or read. A signal interrupts them: CLU_AGAIN.
 *
 * Failure. After any code but CLU_OK, CLU_AGAIN, CLU_CANCELLED and CLU_NOMEM of the two that send,
 * the channel is of no more use.
 */
#ifndef CLUTCH_CHAN_H
#define CLUTCH_CHAN_H

#include "core/base/blob.h"
#include "core/base/err.h"
#include "core/wire/frame.h"
#include "core/base/os.h"

typedef struct clu_msg {
  uint8_t kind;
  uint64_t seq;
  clu_blob *body; /* NULL when empty; whoever took the message owns it */
} clu_msg;

struct clu_out;

/* Tells whether descriptors may be passed, in both directions. */
enum clu_takes_fds {
  CLU_TAKES_NONE,
  CLU_TAKES_FDS,     /* single ones, see clu_chan_take_fd() */
  CLU_TAKES_SEGMENTS /* those that messages bring; a peer that passes others is no peer of ours */
};

typedef struct clu_chan {
  clu_fd fd;
  uint64_t limit; /* longest message accepted */
  int takes_fds;  /* enum clu_takes_fds */
  /* reading */
  unsigned char *in; /* NULL: there is nothing in it */
  int in_lent;       /* see clu_chan_lend() */
  size_t in_pos, in_len;
  int in_msg;     /* within a message: */
  clu_header cur; /* cur.len counts down within a frame */
  clu_blob *body;
  int stream;            /* the body is read by clu_chan_read(): */
  uint64_t read;         /* so much of it has been */
  clu_segments segments; /* those that a message read so brings, until its end */
  clu_fd fds[32];        /* received, not yet taken; CLU_NO_FD: a message's were lost */
  int nfds;
  /* writing */
  struct clu_out *head, *tail;
  /* counts for cluster_status() */
  uint64_t bytes_in, bytes_out;
} clu_chan;

/* Takes over `fd`. */
int clu_chan_init(clu_chan *c, clu_fd fd, uint64_t limit, int takes_fds);
/* The bytes at `p`, CLU_CHAN_IN of them, are its buffer from now on. They stay the caller's. Before
 * anything was read. */
#define CLU_CHAN_IN (16u << 10)
void clu_chan_lend(clu_chan *c, unsigned char *p);
/* Frees all and closes the descriptor; accepts zeroed memory whose fd is CLU_NO_FD. */
void clu_chan_fini(clu_chan *c);

/* Queues a message; takes its own reference to `body` (may be NULL), and takes over `pass` (or
 * CLU_NO_FD), which is closed once sent. The segments that `body` brings travel with its first
 * frame. CLU_OK; CLU_NOMEM, or CLU_UNSUPPORTED for segments where descriptors cannot be passed
 * (then `pass` is closed, too). */
int clu_chan_send(clu_chan *c, uint8_t kind, uint64_t seq, clu_blob *body, clu_fd pass);
/* Does the same with a few bytes that are copied. */
int clu_chan_send_bytes(clu_chan *c, uint8_t kind, uint64_t seq, const void *p, size_t n,
                        clu_fd pass);
/* CLU_OK: all is written; CLU_AGAIN: some is left, flush again when the descriptor is writable;
 * CLU_RESET, CLU_SYS. */
int clu_chan_flush(clu_chan *c);
int clu_chan_pending(const clu_chan *c); /* whether there is something to flush */
/* Cancels the queued message `kind`/`seq`. 1: the other side will never see it as a message; 0: it
 * was sent, or is in its last frame. A flush has to follow. */
int clu_chan_withdraw(clu_chan *c, uint8_t kind, uint64_t seq);

/* Reads once. CLU_OK, CLU_AGAIN, CLU_EOF, CLU_RESET, CLU_NOMEM, CLU_SYS. */
int clu_chan_fill(clu_chan *c);
/* 1: `m` is a message, its body the caller's; 0: none is complete; < 0: -CLU_PROTO or -CLU_NOMEM.
 */
int clu_chan_next(clu_chan *c, clu_msg *m);
/* Does the same for a channel whose descriptor blocks, and without the body: 1 when a message has
 * begun. Its body is read by clu_chan_read() and its end reached by clu_chan_skip() before the next
 * one.
 */
int clu_chan_begin(clu_chan *c, clu_msg *m);
/* The next `n` bytes of its body. Blocks. CLU_OK; CLU_CANCELLED when the sender has cancelled the
 * message; CLU_PROTO also when there are not so many. */
int clu_chan_read(clu_chan *c, void *p, size_t n);
/* Reads and drops what is left of the body. Blocks. CLU_OK, also when the sender cancels the
 * message. */
int clu_chan_skip(clu_chan *c);
/* The oldest descriptor received, the caller's to close, or CLU_NO_FD. */
clu_fd clu_chan_take_fd(clu_chan *c);

#endif
