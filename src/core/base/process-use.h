/* What a process uses of the processor and of memory, as far as that is known from looking at it
 * now and then. Who has many of them looks at some each time.
 *
 * To read the processor time of a process takes 10 us, its own memory 100 us more, and meanwhile
 * the process cannot get any. So memory is asked for only where it may have changed.
 *
 * The struct is the caller's, and holds nothing. Nothing here fails; reading blocks only as long as
 * the system takes to answer.
 */
#ifndef CLUTCH_PROCESS_USE_H
#define CLUTCH_PROCESS_USE_H

#include "core/base/os.h"

enum { CLU_USE_FEW = 32 };             /* so many are looked at each time */
#define CLU_USE_ALL_WITHIN 8000000000u /* ns in which each has its turn */

typedef struct clu_process_use {
  clu_pid pid;
  double cpu;       /* share of a core between the last two looks; -1: not known */
  int64_t own;      /* bytes of memory of its own; -1: not known */
  uint64_t at;      /* when it was looked at last (clu_os_now()); 0: never */
  uint64_t ended;   /* what the caller has counted until then */
  int64_t total;    /* ms of processor time, then */
  uint64_t weighed; /* when its own memory was asked for */
  int64_t resident; /* bytes, then */
} clu_process_use;

/* Another process, of which nothing is known. */
void clu_process_use_begin(clu_process_use *x, clu_pid pid);
/* `ended`: a number that changes when the process has done something; UINT64_MAX: there is none. */
void clu_process_use_look(clu_process_use *x, uint64_t ended, uint64_t now);
/* How many of `n` processes to look at, so that all have their turn in time. `looked`: when that
 * was done last; 0: never. */
int clu_process_use_turn(int n, uint64_t looked, uint64_t now);

#endif
