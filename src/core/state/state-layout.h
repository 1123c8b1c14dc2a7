/* Shared state from within: what lies where, for the files of this folder. */
#ifndef CLUTCH_STATE_LAYOUT_H
#define CLUTCH_STATE_LAYOUT_H

#include "core/base/os-mutex.h"
#include "core/base/os-words.h"
#include "core/base/spins.h"
#include "core/state/state.h"

#define STATE_MAGIC UINT64_C(0x636c757463736131)
#define HEAD_BYTES CLU_COMMON_ALIGN
#define ROWS_MOST (UINT64_C(1) << 24)
#define ROWS_AT ((uint64_t)HEAD_BYTES)
#define DATA_AT (ROWS_AT + ROWS_MOST * sizeof(table_row))
#define DATA_MOST (UINT64_C(1) << 36)
#define TABLE_WAIT CLU_SLICE

typedef struct state_head {
  uint64_t magic, kind, id[2];
  clu_os_mutex mutex; /* the lock itself; of a table, for those who change it */
  _Atomic uint64_t taken, died;
  _Atomic int64_t count;
  uint64_t each, burst;
  _Atomic uint64_t next; /* of a rate: when the next one would go on without a burst */
  /* of a table */
  _Atomic uint64_t rows, data, changes;
  _Atomic uint64_t first_open; /* no row before it is open: the index */
  _Atomic uint32_t events, asleep;
} state_head;

_Static_assert(sizeof(state_head) <= HEAD_BYTES - CLU_STATE_ROOM,
               "the head is where the rows and the room are not");

/* Where bytes are: 36 bits of a place in the data, 28 of their number. 0: nowhere. */
#define PLACE_BITS 28
#define PLACE_MOST ((UINT64_C(1) << PLACE_BITS) - 1)

typedef struct table_row {
  _Atomic uint64_t state, taker, changed;
  _Atomic uint64_t place[2]; /* as appended; as set */
  uint64_t unused[3];
} table_row;

/* A part of the file that is mapped as far as it is needed. */
typedef struct state_window {
  unsigned char *p;
  uint64_t at, bytes, most;
} state_window;

struct clu_state {
  clu_state *next; /* of this process's */
  int refs, kind;
  clu_fd fd;
  clu_pid maker, holder; /* `holder`: whose `depth` it is */
  int depth;
  state_head *head;
  state_window rows, data; /* of a table */
  uint64_t id[2];
  char name[CLU_STATE_NAME];
};
/* Looks which process this is: a forked child has none of its parent's locks. */
void state_look_who(clu_state *s);
/* Ends it, unless somebody has a reference to it, or this process has the lock. */
void state_end_unused(clu_state *s);

#endif
