/* State that the processes of one machine share: locks, counters, rates and tables, each in memory
 * of its own, which the one that makes it owns.
 *
 * Files, each of which uses only those before it: state (memory, who has it mapped), lock, counter,
 * rate, table.
 *
 * A process has each object once, however often it is opened. What is in the memory is consistent
 * at every instruction: a process may be killed at any of them. Other processes run users' code and
 * may write anything to it: what is read is checked, and CLU_PROTO is the answer to what cannot be.
 * One thread a process. A forked child may go on using what its parent has open; it does not have
 * the locks that its parent holds.
 */
#ifndef CLUTCH_STATE_H
#define CLUTCH_STATE_H

#include "core/base/os.h"

enum clu_state_kind {
  CLU_STATE_LOCK = 1,
  CLU_STATE_COUNTER,
  CLU_STATE_RATE,
  CLU_STATE_TABLE,
  CLU_STATE_OTHER /* a lock with memory, for other folders */
};

typedef struct clu_state clu_state;

/* ---- state.c ---- */

#define CLU_STATE_NAME 512 /* bytes of a name, with the 0 at its end */

/* A new one, all 0. `folder`: where its file is on systems that need one. CLU_OK, CLU_NOMEM,
 * CLU_LIMIT, CLU_SYS, CLU_UNSUPPORTED. */
int clu_state_new(int kind, const char *folder, clu_state **out, clu_err *e);
/* By this name others open it. The state's. */
const char *clu_state_name(const clu_state *s);
/* That of this name. CLU_SYS: it is gone; CLU_PROTO: it is another one. */
int clu_state_open(const char *name, int kind, clu_state **out, clu_err *e);
/* The one of this name that this process has; NULL: none. No reference is added. */
clu_state *clu_state_find(const char *name, int kind);
/* The memory of a CLU_STATE_OTHER: CLU_STATE_ROOM bytes, 0 at first. */
#define CLU_STATE_ROOM 32768
void *clu_state_room(clu_state *s);
/* To be called as often as it was made and opened. A lock that this process has stays until it is
 * given. Where this process has made it, nobody can open it afterwards. Accepts NULL. */
void clu_state_free(clu_state *s);

/* ---- lock.c ---- */

/* How often this process has taken it, and not given it. */
int clu_lock_depth(clu_state *s);
/* Takes it; once more, where this process has it. Waits `ns` at most. CLU_OK; CLU_DEAD: it has it,
 * and the holder before, process `*before`, has ended with it; CLU_TIMEOUT; CLU_SYS. Blocks;
 * signals do not end that. */
int clu_lock_take(clu_state *s, uint64_t ns, clu_pid *before);
/* Gives it as often as it was taken; it is free the last time. Then `s` is gone where
 * clu_state_free() was called before. */
void clu_lock_give(clu_state *s);

typedef struct clu_lock_info {
  clu_pid holder;       /* 0: none */
  uint64_t taken, died; /* how often it was taken, and that from one that had ended with it */
} clu_lock_info;
void clu_lock_look(clu_state *s, clu_lock_info *out);

/* ---- counter.c ---- */

#define CLU_COUNT_MOST (INT64_C(1) << 53)
/* Adds; `*after`: what it is then. CLU_OK; CLU_LIMIT: it would be beyond CLU_COUNT_MOST. */
int clu_counter_add(clu_state *s, int64_t by, int64_t *after);
int64_t clu_counter_set(clu_state *s, int64_t value); /* returns what it was */

/* ---- rate.c ---- */

/* For the one that has made it. `each`: ns from one to the next; `burst`: how many may go at once
 * after a time without any. */
void clu_rate_begin(clu_state *s, uint64_t each, uint64_t burst);
/* The caller may go on at `*at` (clu_os_now()), which is reserved for it. CLU_OK; CLU_TIMEOUT: it
 * would have to wait until after `deadline`, and nothing is reserved. */
int clu_rate_reserve(clu_state *s, uint64_t n, uint64_t deadline, uint64_t *at);

/* ---- table.c ---- */

enum clu_row_state { CLU_ROW_OPEN = 1, CLU_ROW_TAKEN, CLU_ROW_DONE };

typedef struct clu_row {
  uint64_t id; /* counted from 1 */
  int state;
  clu_pid taker; /* 0: none */
  uint64_t changed;
  const unsigned char *bytes[2]; /* as appended; as set, NULL: not. Valid until the next call */
  size_t n[2];
} clu_row;

/* All that change it wait for each other for as long as a few bytes are copied, CLU_SLICE at most:
 * then they return CLU_TIMEOUT, and are to be called again. Else CLU_OK; CLU_LIMIT: it is full, or
 * these are too many bytes; CLU_NOMEM; CLU_SYS; CLU_PROTO. */
int clu_table_append(clu_state *s, const void *bytes, size_t n, uint64_t *id);
/* Takes the oldest open row: no other process gets it. CLU_AGAIN: there is none. */
int clu_table_pop(clu_state *s, clu_row *out);
/* Adds bytes to a row, or replaces those that were added; it is done then. CLU_DEAD: there is no
 * such row. */
int clu_table_set(clu_state *s, uint64_t id, const void *bytes, size_t n);
/* The row that was taken by this process is open again. */
int clu_table_give_back(clu_state *s, uint64_t id);
/* Rows that processes have taken for which `is_gone` are open again; `*n`: how many. */
int clu_table_reopen(clu_state *s, int (*is_gone)(clu_pid), uint64_t *n);
uint64_t clu_table_count(clu_state *s);
/* Rows are numbered by their changes: what this is now. */
uint64_t clu_table_changes(clu_state *s);
int clu_table_row(clu_state *s, uint64_t id, clu_row *out);
/* An event count that is another after each append; see clu_os_word_wait(). */
uint32_t clu_table_events(clu_state *s);
void clu_table_wait(clu_state *s, uint32_t events, uint64_t ns);

#endif
