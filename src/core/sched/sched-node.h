/* A node changes here: where it stands in the lists, what it has, when something has to be
 * done about it.
 *
 * Calls of scheduler.h do their part by these; whatever changes what a node has ends with
 * clu_sched_node_enlist(). What is asked for each task is inline: calls are most of what a task
 * costs here (bench/scheduler.c).
 */
#ifndef CLUTCH_SCHED_NODE_H
#define CLUTCH_SCHED_NODE_H

#include "core/sched/sched-state.h"

/* Its tasks are expected to have so many bytes. */
static inline void clu_sched_node_set_takes(clu_sched *s, clu_sched_node *nd, int64_t bytes) {
  s->taken += bytes - nd->takes;
  nd->takes = bytes;
}
/* All that it was granted is free again, if that is anything. */
void clu_sched_node_release(clu_sched *s, clu_sched_node *nd);
/* In the ledger it counts with a core while it has tasks that ask for none. */
void clu_sched_node_count_core(clu_sched *s, clu_sched_node *nd, int has);
/* It may have something since now, or nothing any more. */
static inline void clu_sched_node_count(clu_sched *s, clu_sched_node *nd) {
  int has = nd->batches.len > 0;
  if (s->ledger && has != nd->counted) clu_sched_node_count_core(s, nd, has);
  s->busy += has - nd->counted;
  if (nd->apart) s->busy_apart += has - nd->counted;
  nd->counted = has;
  if (!has && nd->takes) clu_sched_node_set_takes(s, nd, 0);
}
/* Its place on the ready list, or none there: as clu_policy_readiness() says. */
void clu_sched_node_enlist(clu_sched *s, clu_sched_node *nd);
static inline void clu_sched_node_set_stealable(clu_sched *s, clu_sched_node *nd, int yes) {
  if (clu_list_has(&nd->stealable) == yes) return;
  if (yes)
    clu_list_push_front(&s->stealable, &nd->stealable);
  else
    clu_list_remove(&nd->stealable);
}

/* The scheduler has to be asked again at this time. */
static inline void clu_sched_wake_at(clu_sched *s, uint64_t at) {
  if (at < s->deadline) s->deadline = at;
}

/* Something has to be done about it at this time; 0: never. */
static inline void clu_sched_node_set_deadline(clu_sched *s, clu_sched_node *nd, uint64_t at) {
  s->timed += (at != 0) - (nd->deadline != 0);
  nd->deadline = at;
  if (at) clu_sched_wake_at(s, at);
}

/* The first of its tasks is another one than before, or there is none. */
static inline void clu_sched_node_new_head(clu_sched *s, clu_sched_node *nd, uint64_t now) {
  const clu_batch *b = nd->batches.len ? clu_sched_first_batch(nd) : NULL;
  nd->since = now;
  nd->stood = 0;
  nd->interrupt = CLU_INTERRUPT_NONE;
  clu_sched_node_set_deadline(
      s, nd, b && !b->cancelled && b->job->spec.timeout_ns ? now + b->job->spec.timeout_ns : 0);
}

/* Tells whether what it has not begun can be taken back. */
static inline int clu_sched_node_gives_back(const clu_sched_node *nd) {
  return nd->claim || nd->elsewhere;
}
/* Takes back what it has not begun, by its claim word: whether it had any of that. Of a node
 * elsewhere it is asked for. */
int clu_sched_node_take_back(clu_sched *s, clu_sched_node *nd);
/* Asks for it as soon as that makes sense: the node has been at one task for long. */
void clu_sched_node_ask_later(clu_sched *s, clu_sched_node *nd, uint64_t now);
/* Forgets that its host is asked, or to be asked. */
void clu_sched_node_unask(clu_sched_node *nd);
/* Tells whether a host is to be asked now; then that is in `a`. */
int clu_sched_next_ask(clu_sched *s, clu_action *a);
/* Its first task, if that is cancelled, is to be interrupted. */
void clu_sched_node_interrupt_cancelled(clu_sched *s, clu_sched_node *nd, uint64_t now);
/* Cancels what it has of this job. */
void clu_sched_node_cancel(clu_sched *s, clu_sched_node *nd, const clu_job *j, uint64_t now);
/* Gives what it is at all its time from now on, or all the grace after an interrupt. */
void clu_sched_node_renew_time(clu_sched *s, clu_sched_node *nd, uint64_t now);
/* Returns the time that is left to its first task; 0: it is up. */
uint64_t clu_sched_node_time_left(clu_sched_node *nd, uint64_t now);

#endif
