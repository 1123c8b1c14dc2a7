/* The link: what two proxies, one on the session's host and one on another, say to each other over
 * one connection at a time. It carries many streams of bytes and survives cuts of the connection.
 *
 * A state machine over bytes: it knows no descriptor and no clock, and never blocks. The caller
 * makes connections, hands over what was read, and writes what there is to write.
 *
 * Records. All that travels is in records. A record has a header of 24 bytes, little-endian, and at
 * most CLU_LINK_MOST bytes behind it:
 *
 *   offset size
 *   0      u8   type, enum clu_link_type
 *   1      u8   3 times 0
 *   4      u32  bytes that follow the header
 *   8      u64  the stream, or what is said at the type
 *   16     u64  number of the record, 1 for the first; 0: the type is not numbered
 *
 * Numbers. Each side counts the numbered records that it queues. It keeps them until the other side
 * has acknowledged them (ACK, RESUME). The receiver accepts only the number that follows the last
 * one. After a cut both sides say in RESUME what they have received last, and each sends what comes
 * behind that: nothing is lost, and nothing is received twice. Part of a record that has come
 * before a cut is dropped.
 *
 *   CUT --clu_link_connected()--> RESUMING --RESUME has come--> UP --BYE has come--> ENDED
 *    ^                               |                          |
 *    '-----------------------------clu_link_cut()---------------'
 *
 * Epoch. The number of this link, which the session's side chooses. The other side takes it from
 * the first RESUME. So a proxy that was started anew cannot be taken for the one before.
 *
 * Bounds. What is kept: `window` bytes and one record. clu_link_room() says how many more bytes may
 * be queued; callers that read from others stop to read when it is 0. Received bytes: one buffer of
 * CLU_LINK_IN bytes. How much of one stream may be on its way is the callers' business (CREDIT,
 * SEGMENT_CREDIT).
 *
 * Silence. Who has nothing to say for a third of `beat` ns says ACK: two of them may be late. After
 * `beat` ns without a byte the connection counts as cut: clu_link_tick() is CLU_TIMEOUT.
 *
 * Ownership: the struct is the caller's and is not moved while it is in use. Payloads that
 * clu_link_next() hands out are the link's, until more is read.
 */
#ifndef CLUTCH_LINK_H
#define CLUTCH_LINK_H

#include <stddef.h>
#include <stdint.h>

#define CLU_LINK_VERSION 4
#define CLU_LINK_HEADER 24
#define CLU_LINK_MOST (64u << 10)
#define CLU_LINK_IN (256u << 10)

enum clu_link_type {
  /* numbered */
  CLU_L_OPEN = 1, /* stream: a new one. u64 stream with whose next byte its descriptor travels, u8
                     enum clu_link_stream_kind, u32 slot of a node in its fork server's memory */
  CLU_L_BYTES,    /* stream. What was written to it */
  CLU_L_CLOSE,    /* stream. No more bytes come from this side */
  CLU_L_CREDIT,   /* stream. u32: so many bytes more may be sent on it */
  CLU_L_SEGMENT,  /* stream: number of a segment, of which pieces follow. u64 its size, u64 the
                     stream whose next message needs it */
  CLU_L_PIECE,    /* stream: number of the segment. Its next bytes */
  CLU_L_BRING,    /* stream. u64 number of a segment whose descriptor travels with its next byte */
  CLU_L_FORGET,   /* stream: number of a segment that is not brought any more */
  CLU_L_AFTER,    /* stream. u64 another one: its next byte is written when all that came for that
                     one has been */
  CLU_L_ASK,      /* of the session's side: what do you and your nodes use? stream: when it asks, by
                     its own clock */
  CLU_L_USE,      /* the answer, see use.c. stream: that of the question */
  CLU_L_SEGMENT_CREDIT, /* stream. u64: so many bytes of the segments that were announced for it
                           were passed on */
  CLU_L_ASK_STACK, /* of the session's side: which R calls is this node in? stream: its number. u32
                      number of the question */
  CLU_L_STACK,     /* stream. The answer, see stacks.c */
  CLU_L_AFTER_NUMBERED,
  /* not numbered */
  CLU_L_RESUME = 32, /* stream: number of the last record received. u32 version, u64 epoch (0: none
                        yet) */
  CLU_L_ACK,         /* stream: number of the last record received */
  CLU_L_BYE,         /* the other side ends. A text that says why */
  CLU_L_AFTER_LAST
};

enum clu_link_state { CLU_LINK_CUT, CLU_LINK_RESUMING, CLU_LINK_UP, CLU_LINK_ENDED };

typedef struct clu_link_record {
  int type;
  uint64_t stream;
  const unsigned char *bytes;
  uint32_t n;
} clu_link_record;

typedef struct clu_link {
  int state;
  int leads; /* it has chosen the epoch */
  uint32_t other_version;
  uint64_t epoch;
  size_t window;
  uint64_t beat;
  /* sending: `out` has the records that are kept. Bytes before `next` were written to this
   * connection; `at` is the beginning of the record in which `next` is, or `next` itself */
  unsigned char *out;
  size_t head, at, next, tail, cap;
  uint64_t queued, acked;  /* numbers */
  unsigned char side[320]; /* a record without a number, on its way */
  size_t side_at, side_n;
  int say_resume, say_ack, say_bye;
  char bye[256];
  int out_of_memory; /* a record could not be queued: what follows it is of no use */
  /* receiving */
  unsigned char *in;
  size_t in_at, in_n;
  uint64_t received;     /* number */
  size_t to_acknowledge; /* bytes */
  /* time, and what is counted over all connections */
  uint64_t heard, said;
  uint64_t bytes_in, bytes_out, cuts;
} clu_link;

/* `epoch`: not 0 where this side chooses it. CLU_OK or CLU_NOMEM. */
int clu_link_init(clu_link *l, uint64_t epoch, size_t window, uint64_t beat);
void clu_link_fini(clu_link *l); /* accepts zeroed memory */

/* ---- what is sent ---- */

/* How many bytes may be queued; 0: wait until some are acknowledged. */
size_t clu_link_room(const clu_link *l);
/* Counts the bytes that are queued and were not written to the connection. */
size_t clu_link_unwritten(const clu_link *l);
/* Queues a numbered record, also where there is no room or no connection. `n` <= CLU_LINK_MOST.
 * CLU_OK or CLU_NOMEM. */
int clu_link_send(clu_link *l, int type, uint64_t stream, const void *p, size_t n);
/* Behind the record under way comes BYE, and then nothing more. */
void clu_link_say_bye(clu_link *l, const char *why);

/* ---- the connection ---- */

/* There is a new connection, over which nothing was sent yet. The one before is forgotten. */
void clu_link_connected(clu_link *l, uint64_t now);
/* It is gone. */
void clu_link_cut(clu_link *l);
/* Returns what is to be written next: `*n` bytes, 0: nothing. They are there until the next call.
 */
const unsigned char *clu_link_out(clu_link *l, size_t *n);
void clu_link_written(clu_link *l, size_t n, uint64_t now);
/* Where bytes that come are to be put, `*n` at most; 0: take records first. */
unsigned char *clu_link_in(clu_link *l, size_t *n);
void clu_link_read(clu_link *l, size_t n, uint64_t now);
/* 1: `r` is the next numbered record, or BYE; 0: there is none; -CLU_PROTO: what has come is no
 * record of this link, cut the connection; or the other side speaks `other_version` of this
 * protocol, if that is not 0; -CLU_DEAD: the other side is another proxy than before, and nothing
 * can be resumed. */
int clu_link_next(clu_link *l, clu_link_record *r);

/* ---- time ---- */

/* CLU_OK, or CLU_TIMEOUT: the other side is silent, cut the connection. */
int clu_link_tick(clu_link *l, uint64_t now);
/* When clu_link_tick() has something to do; UINT64_MAX: never. */
uint64_t clu_link_due(const clu_link *l);

#endif
