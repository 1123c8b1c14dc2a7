/* The messages between the bridges and the hub of a run on several hosts (bridge.h, hub.h): bodies
 * of CLU_K_MESH. The first byte is the kind, numbers are little-endian, a rank is 4 bytes.
 *
 * What is read comes from a process in which no user's code runs, over a connection that is
 * trusted; but what it forwards was in memory that user's code may write to. So all is checked.
 * Nothing here blocks.
 */
#ifndef CLUTCH_BRIDGE_MESSAGE_H
#define CLUTCH_BRIDGE_MESSAGE_H

#include "core/base/bytes.h"
#include "core/mesh/mesh.h"

enum clu_bridge_kind {
  /* bridge to hub */
  CLU_BRIDGE_OPEN = 1, /* its mesh is there. The path */
  CLU_BRIDGE_FAILED,   /* it cannot be there. Why */
  CLU_BRIDGE_MEET,     /* all its ranks are at a meeting. u32 one of them, its meeting; of a second
                          meeting also what its ranks have together, to be reduced */
  CLU_BRIDGE_QUIET,    /* all its ranks wait for ever. u64 messages of the hub that it has taken;
                          then of each u32 rank, what it waits for */
  /* hub to bridge */
  CLU_BRIDGE_MET, /* all ranks have met. u8 whether an integer had no room, then the result */
  CLU_BRIDGE_END, /* the run is over */
  /* both ways: the hub hands them on */
  CLU_BRIDGE_SEND,    /* a message. u32 from, u32 n, n ranks, u8 bytes of the tag, the tag, u8
                         segments, u64 bytes of each, u64 bytes of the body, the body, the segments */
  CLU_BRIDGE_TAKEN,   /* u32 to, u32 from, u64 bytes of their messages that `to` has looked at since
                       */
  CLU_BRIDGE_STATE,   /* u32 rank, u8 its state, u8 by_signal, u32 code, u64 pid */
  CLU_BRIDGE_VERDICT, /* u8 verdict, u32 and u32 of whom; then of each u32 rank, what it waits for
                       */
  CLU_BRIDGE_AFTER_LAST
};

/* ---- writing ---- */

typedef struct clu_bridge_text {
  clu_blob *b; /* NULL: there was no memory */
} clu_bridge_text;

void clu_bridge_begin(clu_bridge_text *t, int kind);
void clu_bridge_number(clu_bridge_text *t, uint64_t x, int bytes);
void clu_bridge_bytes(clu_bridge_text *t, const void *p, size_t n);
void clu_bridge_meeting(clu_bridge_text *t, const clu_meeting *m);
/* Writes what that rank waits for. */
void clu_bridge_wait(clu_bridge_text *t, int rank, const clu_rank_info *r);

/* ---- reading ---- */

typedef struct clu_bridge_reader {
  const unsigned char *p;
  size_t n;   /* bytes that are left */
  int is_bad; /* there were fewer than were asked for */
} clu_bridge_reader;

/* Returns the kind; 0: there is none. */
int clu_bridge_read(clu_bridge_reader *r, const clu_blob *b);
uint64_t clu_bridge_take(clu_bridge_reader *r, int bytes);
/* The next `n` bytes; NULL: there are fewer. */
const unsigned char *clu_bridge_take_bytes(clu_bridge_reader *r, uint64_t n);
/* A rank, or -1 where there is none of that number. */
int clu_bridge_take_rank(clu_bridge_reader *r, int count);
void clu_bridge_take_meeting(clu_bridge_reader *r, clu_meeting *m);
/* The rank; only what it waits for is set. -1 where it cannot be. */
int clu_bridge_take_wait(clu_bridge_reader *r, int count, clu_rank_info *out);

#endif
