/* The scheduler: which node does which task of which job, and what becomes of a task when its node
 * dies, when its time is up, when nobody wants it any more.
 *
 * A state machine without R, without descriptors and without a clock: nodes are numbers, tasks are
 * numbers within their job, the time is passed in. It is told what happened (a node came, answered,
 * was lost) and asked what to do next (clu_sched_next()). Whoever drives it sends bytes and
 * signals, and keeps the results.
 *
 * Words. Job: tasks 0 ... n - 1 that have the same limits. Batch: tasks of one job, one behind the
 * other, that were sent together. A task that is with a node also has a number there, `seq`, by
 * which the node answers it. The tasks of a node are numbered in the order in which they were sent.
 *
 * A task. What it ended as (enum clu_end) is in capitals:
 *
 *                  taken back, or its node was lost
 *                 .--------------------------------.
 *                 v                                |
 *   new job --> waiting ---------- SEND -------> at a node ----- the node starts it -----> begun
 *                 ^ |                              |                                       | |
 *                 | |-- clu_job_fail_pending: DIED '-- clu_job_cancel: CANCELLED           | |
 *                 | '-- clu_job_cancel: CANCELLED                                          | |
 *                 '------- its node was lost, and attempts are left -----------------------' |
 *                                                                                            |
 *      answered: ANSWER, interrupted for its time: TIMEOUT, its node was lost: DIED, <-------'
 *      cancelled: CANCELLED
 *
 * A node:
 *
 *   absent -- clu_sched_node_up --> idle <--> busy (stealable: with a claim word, and more than
 *     ^                                        |    the task that it is at)
 *     |                                        |
 *     |                                        | that task is cancelled, or its time is up
 *     |                                        v
 *     |                                  interrupt due -- INTERRUPT --> interrupted
 *     |                                        |                         |   | after the grace
 *     |             busy or idle <-- it answers -------------------------'   '-- KILL --> killed
 *     |
 *     '--- clu_sched_node_lost, from each of these states; before that clu_sched_node_closed,
 *          where the claim word goes earlier
 *
 * On the ready list are nodes that are idle, or busy with room for more; not those with an
 * interrupt due, draining ones, closed ones and those that are cut off (clu_sched_node_cut()).
 *
 * What it promises. Every task of a job ends exactly once: with an answer, or with a clu_ended that
 * says why there is none. It is started at most 1 + `retries` times, by another node each time
 * where there is one. Tasks leave in order and one after the other; more of them wait at a node
 * only so that it has no pause, about CLU_AHEAD of work by the times measured so far, and are taken
 * back (claim.h) when another node has nothing to do (stealing). Without a claim word nothing can
 * be taken back: no more than one batch is with such a node. Nodes of another host have theirs
 * there: what they have not begun is asked for when they have been at one task for CLU_ASK_AFTER,
 * and is there for others when that host has answered. When the host is lost, all that they have
 * counts as begun: so only of quick tasks two batches are with such a node.
 *
 * Jobs with a higher priority are served first, those with the same in the order in which they
 * came. When one comes, what waits at nodes and has less is taken back from there. A job that waits
 * for nodes which have no time does not keep the others from what waits for them, nor from work
 * that was sent to others.
 *
 * Cost: each call is O(1) in jobs, tasks and nodes, but for cancelling a job and for deadlines that
 * have passed (O(nodes)), and for jobs that only some of the nodes may do (O(sets of such nodes)).
 * Ownership: the scheduler owns jobs; claim words and `user` are the caller's. Nothing blocks.
 * Functions that may want memory return CLU_NOMEM or NULL; an ending for which there is none is
 * told by clu_job_out_of_memory().
 *
 * Tasks that ask for cores or units of their host (ledger.h) go to a node that has nothing, alone
 * or with others of their job that ask for the same, and nothing is sent behind them. What such a
 * job waits for is kept for it: see sched-give.h.
 *
 * Files: ledger.h; sched-list.h <- sched-queue.h <- sched-state.h <- sched-policy.h <- sched-job.h
 * <- sched-node.h <- sched-give.h <- scheduler.c; each knows only those before it.
 */
#ifndef CLUTCH_SCHED_H
#define CLUTCH_SCHED_H

#include <stddef.h>
#include <stdint.h>

#include "core/sched/ledger.h"
#include "core/shm/claim.h"

#define CLU_AHEAD 8000000u     /* ns of work that may wait at a node */
#define CLU_ASK_AFTER 4000000u /* ns at one task before what waits behind it is asked for */
#define CLU_SMALL_TASK 4194304 /* bytes: what takes no more always fits */
#define CLU_PRIORITY_MOST 1000 /* priorities are at most this, and at least minus this */
#define CLU_BATCH_MOST 8192u   /* tasks that leave together, at most */
/* More bytes than that leave together only if one task has as many. */
#define CLU_BATCH_BYTES 262144u

typedef struct clu_sched clu_sched;
typedef struct clu_job clu_job;

typedef struct clu_job_spec {
  uint64_t n; /* tasks */
  uint32_t retries;
  uint32_t chunk;      /* tasks that leave together; 0: as measured */
  uint64_t timeout_ns; /* of one task; 0: none */
  int priority;        /* of two jobs the one with more is served first */
  void *user;          /* comes back in actions and endings */
  unsigned char *only; /* `nonly` flags by node: who may do it; the scheduler's from then on, by
                          malloc(). NULL: all may */
  int nonly;
  const unsigned char *done; /* flags by task: which have ended before, elsewhere; read by
                                clu_job_new() only. NULL: none */
  int needs_caller; /* its batches cannot be made while the caller is away: see clu_sched_away() */
  const clu_need *needs; /* `nneeds` of what its tasks ask for; copied. NULL: for nothing */
  uint32_t nneeds;
  const uint32_t *need_of; /* by task: which of these; copied. NULL: the first */
} clu_job_spec;

enum clu_act { CLU_ACT_NONE, CLU_ACT_SEND, CLU_ACT_INTERRUPT, CLU_ACT_KILL, CLU_ACT_TAKE_BACK };
typedef struct clu_action {
  int what; /* enum clu_act */
  int node;
  clu_job *job; /* SEND: tasks first ... first + n - 1 */
  void *user;
  uint64_t first;
  uint32_t n;
  uint32_t attempt;       /* 1 for the first */
  int last;               /* the scheduler's */
  uint64_t granted;       /* the scheduler's */
  const clu_need *need;   /* SEND: what they ask for, and */
  const clu_grant *grant; /* what they were given until they have ended; NULL: nothing. Both are the
                             scheduler's, until that is told what was done */
  uint64_t seq;           /* INTERRUPT: the task. TAKE_BACK: the number after its last one */
} clu_action;

enum clu_end { CLU_END_ANSWER, CLU_END_DIED, CLU_END_TIMEOUT, CLU_END_CANCELLED };
typedef struct clu_ended {
  int why;    /* enum clu_end */
  void *user; /* of the job */
  clu_job *job;
  uint64_t task;
  int node;         /* the last one it was with; -1: none */
  uint32_t attempt; /* that this was; 0: it was never started */
  int cause;        /* DIED: as the caller has said */
  uint64_t sent;    /* when it left for that node */
} clu_ended;

clu_sched *clu_sched_new(uint64_t interrupt_grace_ns); /* NULL without memory */
void clu_sched_free(clu_sched *s);                     /* with all jobs; accepts NULL */

/* ---- jobs ---- */

/* A job; NULL without memory: then `only` is the caller's still. It ends by clu_job_free() only. */
clu_job *clu_job_new(clu_sched *s, const clu_job_spec *spec);
/* Tasks without an end end as cancelled, without a clu_ended; answers that still come are of
 * nobody. Those that run are interrupted, and their node killed when it does not answer within the
 * grace. */
void clu_job_cancel(clu_sched *s, clu_job *j, uint64_t now);
/* Tasks that wait end as CLU_END_DIED with `cause`: there is no node any more. */
void clu_job_fail_pending(clu_sched *s, clu_job *j, int cause);
/* Tasks from number `until` on wait until this is called with more; UINT64_MAX: none has to.
 * Retries do not. */
void clu_job_until(clu_sched *s, clu_job *j, uint64_t until);
/* Cancels what is left, and forgets it. */
void clu_job_free(clu_sched *s, clu_job *j, uint64_t now);
uint64_t clu_job_left(const clu_job *j);    /* tasks that have not ended */
uint64_t clu_job_waiting(const clu_job *j); /* tasks that are with no node */
/* Tells whether a task has ended for which there is no clu_ended, for want of memory. */
int clu_job_out_of_memory(const clu_job *j);
/* Tells whether a node is there that may do it; one that is cut off may come back. */
int clu_job_has_node(const clu_sched *s, const clu_job *j);
/* Measured nanoseconds of one task; 0: not known yet. */
uint64_t clu_job_time(const clu_job *j);

/* Tells what a task of it asks for; NULL: nothing. As long as the job. */
const clu_need *clu_job_need(const clu_job *j, uint64_t task);

/* ---- what hosts have ---- */

/* From now on tasks get what they ask for of this ledger, which is the scheduler's from then on.
 * `host_of`: by node, `n` of them, the number of its host; read only now. To be called before the
 * first job that asks for anything. A second ledger may have kinds behind those of the first, and
 * else the same hosts and units: what was given by the first is not free there. CLU_OK or
 * CLU_NOMEM: nothing has changed then. */
int clu_sched_set_ledger(clu_sched *s, clu_ledger *ledger, const int *host_of, int n);
/* Tells what node `i` has of it; NULL: nothing. */
const clu_grant *clu_sched_node_grant(const clu_sched *s, int i);

/* ---- nodes ---- */

/* Node `i` (0, 1, ...) is there. `claim` may be NULL. CLU_OK or CLU_NOMEM. */
int clu_sched_node_up(clu_sched *s, int i, clu_claim *claim);
/* Its host has its claim word, and takes back what it is asked for (CLU_ACT_TAKE_BACK): after
 * clu_sched_node_up() without one. */
void clu_sched_node_elsewhere(clu_sched *s, int i);
/* Its memory is that of another machine, and counts for nothing here: after clu_sched_node_up(). */
void clu_sched_node_apart(clu_sched *s, int i);
/* The answer: nothing from `from` on was begun, and none of that will be. One that nobody has asked
 * for is ignored. */
void clu_sched_node_taken(clu_sched *s, int i, uint64_t from);
/* Its channel is closed and its claim word may go: what the word says is remembered until
 * clu_sched_node_lost(). */
void clu_sched_node_closed(clu_sched *s, int i);
/* It has ended, and its host says that it has begun no task from `first` on: for nodes whose claim
 * word cannot be read here. */
void clu_sched_node_begun(clu_sched *s, int i, uint64_t first);
/* This becomes of tasks that a node was at when it was lost. */
enum clu_retry_rule {
  CLU_RETRY_NONE,    /* they end */
  CLU_RETRY_COUNTED, /* they are tried again as often as their job says */
  CLU_RETRY_FREE     /* this start is not one of those, if their job has any */
};
/* It is not there any more. `rule`: enum clu_retry_rule. Whether it had begun anything. */
int clu_sched_node_lost(clu_sched *s, int i, int cause, int rule);
/* It gets nothing new until this is called with 0. */
void clu_sched_node_drain(clu_sched *s, int i, int draining);
/* It cannot be reached (`cut`), or can be again. What it has stays there; it gets nothing new, is
 * not killed, and no time limit runs: when it is back, what it is at has all its time again. */
void clu_sched_node_cut(clu_sched *s, int i, int cut, uint64_t now);
/* Its process is stopped (`held`), or goes on. It gets nothing new, what it has not begun is taken
 * back, and no time limit runs; an interrupt that is due comes, and who sends it has the process go
 * on before. */
void clu_sched_node_hold(clu_sched *s, int i, int held, uint64_t now);
int clu_sched_node_is_held(const clu_sched *s, int i);
int clu_sched_held(const clu_sched *s); /* how many are */
int clu_sched_node_is_up(const clu_sched *s, int i);
int clu_sched_nodes_up(const clu_sched *s);
/* Nodes that have something; nodes that have nothing and could get something, were it allowed. */
int clu_sched_busy(const clu_sched *s);
int clu_sched_wanted(const clu_sched *s);
/* How many nodes there would have to be so that each has work for `target` ns, as far as the times
 * of tasks are known: those that were measured, or how long nodes have been at one, if that is
 * longer. No more than there are tasks. Tasks that only some of the nodes may do do not count.
 * O(jobs + nodes). */
double clu_sched_desired(clu_sched *s, uint64_t now, uint64_t target);
/* Tells whether some task waits: for a node, or at one that is at another. */
int clu_sched_some_wait(const clu_sched *s);
/* For how many of `n` more nodes there is memory for what tasks take, as far as is known, and
 * `least` bytes at least. */
int clu_sched_room_for(const clu_sched *s, int n, int64_t least);
/* So many nodes may have something, at most; 0: all. Who has something keeps it. */
void clu_sched_limit(clu_sched *s, int most);
/* Memory. Tasks that nodes are at may have `capacity` bytes together, INT64_MAX: any number; each
 * as many as its job expects. What does not fit waits, and what comes behind it in the same group
 * of nodes, too. Where nobody has anything one may always begin. `is_tight`: nothing more is handed
 * out, and what was not begun is taken back. */
void clu_sched_room(clu_sched *s, int64_t capacity, int is_tight);
/* A task of it has so many bytes at its peak, as far as is known; 0: not known, or next to nothing.
 * Where a task asks for more, that counts. */
void clu_job_expect(clu_job *j, int64_t bytes);
/* Tells whether it has a task that waits only for that. */
int clu_job_waits_for_room(const clu_job *j);
int64_t clu_sched_taken(const clu_sched *s); /* bytes that they are expected to have now */
/* The tasks of node `i` take so many in truth. */
void clu_sched_node_takes(clu_sched *s, int i, int64_t bytes);
/* Tasks that are with it, and how many of them are cancelled (may be NULL). */
uint32_t clu_sched_node_tasks(const clu_sched *s, int i, uint32_t *cancelled);
/* The task that node `i` has to answer next; 0: none. */
uint64_t clu_sched_node_head(const clu_sched *s, int i);
/* When that could begin; 0: there is none. */
uint64_t clu_sched_node_since(const clu_sched *s, int i);
/* Since when it has nothing; 0: since it came. UINT64_MAX: it has something, or is not there. */
uint64_t clu_sched_node_idle_since(const clu_sched *s, int i);
/* Tells whether `seq` is one of the tasks that node `i` still has to answer. */
int clu_sched_node_has(const clu_sched *s, int i, uint64_t seq);
/* Whose task `seq` of node `i` is, if that is what it is at and somebody wants it: 1. */
int clu_sched_node_current(const clu_sched *s, int i, uint64_t seq, void **user, uint64_t *task);

/* ---- work ---- */

/* Decides what to do next. CLU_ACT_NONE: nothing before something happens, or clu_sched_deadline().
 * A SEND holds its job, so that it may be given up meanwhile, until clu_sched_sent() or
 * clu_sched_unsent(): one of them has to follow. */
void clu_sched_next(clu_sched *s, uint64_t now, clu_action *a);
/* A SEND was done: its tasks have the numbers seq, seq + 1, ... of the node, more than all before,
 * and are `bytes` long. CLU_OK or CLU_NOMEM (then the node has to be given up). */
int clu_sched_sent(clu_sched *s, const clu_action *a, uint64_t seq, uint64_t bytes, uint64_t now);
/* While the caller is away somebody else may have turns: jobs that need the caller are left alone,
 * and so is what nodes have of them. */
void clu_sched_away(clu_sched *s, int away);
/* Tells whether there is something, or may soon be, that can be done while the caller is away:
 * tasks wait for a node, wait at one that may be busy for long, or something is due. */
int clu_sched_is_urgent(const clu_sched *s);
/* It could not be done; the tasks wait again. */
void clu_sched_unsent(clu_sched *s, const clu_action *a);
/* A KILL was not done: the interrupt may still be on its way to the node, or the answer on its way
 * from there. It comes again, the grace after clu_sched_interrupt_arrived(). */
void clu_sched_unkilled(clu_sched *s, const clu_action *a);
/* ns that an interrupted task has to end. */
uint64_t clu_sched_grace(const clu_sched *s);
/* The interrupt has reached node `i`, which has all the grace from now on. */
void clu_sched_interrupt_arrived(clu_sched *s, int i, uint64_t now);
/* When it has to be asked again even if nothing happens; UINT64_MAX: never. */
uint64_t clu_sched_deadline(const clu_sched *s);
/* How long to wait until then, `most` at most. */
uint64_t clu_sched_wait(const clu_sched *s, uint64_t now, uint64_t most);
/* When a node may have reached a time limit; 0: none has any. */
uint64_t clu_sched_limit_due(const clu_sched *s);
/* Node `i` has answered task `seq`, which took `took` ns; `given_up`: without a result, as it was
 * interrupted. 1: `out` is what has ended (CLU_END_ANSWER, or TIMEOUT or CANCELLED after an
 * interrupt of the scheduler's); 0: nobody wants it; -1: it was never asked that, the node is out
 * of step and has to be given up. */
int clu_sched_answer(clu_sched *s, int i, uint64_t seq, int given_up, uint64_t took, uint64_t now,
                     clu_ended *out);
/* Tasks that ended without an answer: 1 and the next of them, or 0. */
int clu_sched_ended(clu_sched *s, clu_ended *out);

#endif
