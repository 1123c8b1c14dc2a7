/* The ledger: what hosts have to hand out to tasks that ask for it, and what of it is in use.
 *
 * Words. Host: it has cores, and units of up to CLU_KINDS kinds (GPUs, licences). Cores are a
 * number. Units are handed out by number, whole or in parts: a task gets several whole ones of a
 * kind, or a part of one. Need: what a task asks for. Grant: what it was given.
 *
 * What it promises: no part of a unit is given twice. Of those that ask for cores no more than the
 * host has are given. A task that asks for none takes one, and waits for none. A part is taken from
 * the unit that has the least left where it fits, so that whole ones stay whole; else the first
 * come first.
 *
 * Order: jobs have numbers, by the order in which they came. For one that does not get what it
 * needs, all units of the kinds that it asks for are kept, and cores where it has too few: what
 * came later gets none of these (clu_ledger_keep_for()), until all is decided anew.
 *
 * Ownership: a ledger owns its memory, freed by clu_ledger_free(). Grants are the caller's, and are
 * plain memory. Nothing here blocks; only clu_ledger_new() may want memory.
 */
#ifndef CLUTCH_SCHED_LEDGER_H
#define CLUTCH_SCHED_LEDGER_H

#include <stddef.h>
#include <stdint.h>

#define CLU_KINDS 8     /* of units, in a cluster */
#define CLU_UNITS 256   /* of one kind at a host, at most */
#define CLU_WHOLE 10000 /* parts that a unit has */

typedef struct clu_need {
  int64_t memory;            /* bytes that the task has at its peak; 0: it has not said */
  uint32_t cores;            /* 0: it has not said */
  uint32_t exact;            /* it gets no more cores than these, whatever is free */
  uint32_t parts[CLU_KINDS]; /* of units: less than CLU_WHOLE, or a multiple of it */
} clu_need;

/* Tells whether it asks for anything that is in a ledger. Memory is not. */
int clu_need_asks(const clu_need *need);
/* Tells whether both ask for the same of it. */
int clu_need_is_same(const clu_need *a, const clu_need *b);

typedef struct clu_grant {
  uint32_t cores;
  uint32_t parts[CLU_KINDS]; /* of each of its units */
  uint64_t units[CLU_KINDS][CLU_UNITS / 64];
} clu_grant;

static inline int clu_grant_has(const clu_grant *g, int kind, int unit) {
  return g->units[kind][unit / 64] >> unit % 64 & 1;
}

typedef struct clu_host_has {
  uint32_t cores;
  uint32_t units[CLU_KINDS]; /* how many, CLU_UNITS at most */
} clu_host_has;

typedef struct clu_ledger clu_ledger;

/* For `n` hosts, of which all is free. NULL without memory. */
clu_ledger *clu_ledger_new(const clu_host_has *hosts, int n);
void clu_ledger_free(clu_ledger *l); /* accepts NULL */

/* Tells whether the host has as much, were all of it free. */
int clu_ledger_could(const clu_ledger *l, int host, const clu_need *need);
/* Tells whether that is free now for job number `job`, and not kept for one before it. */
int clu_ledger_fits(const clu_ledger *l, int host, const clu_need *need, uint64_t job);
/* Gives what fits, with so many cores: at least as many as it asks for, and one. */
void clu_ledger_give(clu_ledger *l, int host, const clu_need *need, uint32_t cores, clu_grant *out);
/* The task has this already, given by a ledger before, of hosts that had the same units. */
void clu_ledger_take(clu_ledger *l, int host, const clu_grant *g);
/* The task has ended, however it did. */
void clu_ledger_return(clu_ledger *l, int host, const clu_grant *g);
/* Tasks that ask for nothing have so many cores more, or less, there. */
void clu_ledger_count(clu_ledger *l, int host, int cores);
uint32_t clu_ledger_cores(const clu_ledger *l, int host); /* that it has in all */
/* Cores that nobody has; negative where tasks that ask for none have more than there are. */
int64_t clu_ledger_free_cores(const clu_ledger *l, int host);
/* Parts of a unit that nobody has. */
uint32_t clu_ledger_left(const clu_ledger *l, int host, int kind, int unit);

/* All that it needs and does not get is kept for this job, which is the first that waits for it. */
void clu_ledger_keep_for(clu_ledger *l, int host, const clu_need *need, uint64_t job);
/* Nothing is kept any more. */
void clu_ledger_keep_none(clu_ledger *l);
/* Tells whether cores are kept for a job before this one. */
int clu_ledger_keeps_cores(const clu_ledger *l, int host, uint64_t job);

#endif
