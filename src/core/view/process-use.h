/* The use of processor and memory by a process, as far as that is known from looking at it
 * now and then. Who has many of them looks at some each time.
 *
 * To read the processor time of a process takes 10 us. To ask the system for its own memory
 * ("to weigh it") takes 0.1 to several ms, since the system goes through all its pages, and
 * meanwhile the process cannot get any. So it is done for a thousandth of the time at most
 * (clu_weighing), and only where an estimate may be wrong by much.
 *
 * An estimate needs numbers that are read as fast as the processor time: what the process has more
 * or less without a file behind it, and the pages that it was given beyond that. These took the
 * place of pages that it shared until it wrote to them; or of such that it has freed, and then the
 * estimate is too high, by what it shared at the most. The pages that a process was given in its
 * life are the first estimate: of a forked R that is a tenth too high, by pages of files.
 *
 * The structs are the caller's, and hold nothing. Nothing here fails; reading blocks only as long
 * as the system takes to answer.
 */
#ifndef CLUTCH_PROCESS_USE_H
#define CLUTCH_PROCESS_USE_H

#include "core/base/os-machine.h"
#include "core/base/os.h"

enum { CLU_USE_FEW = 32 };             /* so many are looked at each time */
#define CLU_USE_ALL_WITHIN 9000000000u /* ns in which each has its turn */

typedef struct clu_process_use {
  clu_pid pid;
  double cpu;              /* share of a core between the last two looks; -1: not known */
  int64_t own;             /* bytes of memory of its own; -1: not known */
  uint64_t at;             /* when it was looked at last (clu_os_now()); 0: never */
  int64_t total;           /* ms of processor time, then */
  clu_process_pages pages; /* then */
  int64_t anonymous;       /* bytes without a file behind them, then; -1: not known */
  int64_t doubt;           /* bytes, by which `own` may be wrong */
  uint64_t weighed;        /* when it was; 0: never */
  uint64_t took;           /* ns that this has taken */
  struct {
    int64_t own, anonymous, given, doubt;
  } then;     /* when it was weighed or, until then, first looked at */
  int is_due; /* it is to be weighed again */
} clu_process_use;

/* Another process, of which nothing is known. */
void clu_process_use_begin(clu_process_use *x, clu_pid pid);
void clu_process_use_look(clu_process_use *x, uint64_t now);
/* After some were looked at. Which of two is to be weighed first, the one in more doubt: `x`, `y`
 * or, where neither is due, NULL. Both may be NULL. */
clu_process_use *clu_process_use_first(clu_process_use *x, clu_process_use *y);
void clu_process_use_weigh(clu_process_use *x, uint64_t now);
/* How many of `n` processes to look at, so that all have their turn in time. `looked`: when that
 * was done last; 0: never. */
int clu_process_use_turn(int n, uint64_t looked, uint64_t now);

/* Time that may be spent on weighing. Zeroed memory is a new one, which has some: the nodes of a
 * small cluster are weighed at once. */
typedef struct clu_weighing {
  uint64_t at;  /* when `left` was counted */
  int64_t left; /* ns */
} clu_weighing;

/* Tells whether there is time left for one more. */
int clu_weighing_may(clu_weighing *w, uint64_t now);
void clu_weighing_spend(clu_weighing *w, uint64_t ns);

#endif
