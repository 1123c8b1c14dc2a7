/* The insides of an engine, for the files of this folder and for tests only.
 *
 * Each file writes the part of clu_engine that has its name; others read it. Files, each knows only
 * those before it: wake, memory-history, trace, needs <- notes <- record, order, given <- jobs <-
 * room <- results, limits, cores, send <- deaths <- attach <- grow <- idle, turn <- engine,
 * job-life <- away.
 */
#ifndef CLUTCH_ENGINE_PRIVATE_H
#define CLUTCH_ENGINE_PRIVATE_H

#include "core/tasks/engine-state.h"

/* ---- nodes ---- */

/* The node that the scheduler knows of; NULL: there is none (any more). */
static inline clu_node *clu_engine_node(const clu_engine *t, int i) { return t->nodes[i].node; }
/* Ends a node that is of no more use; `why`: enum clu_kill. jobs.c */
void clu_task_node_kill(clu_node *nd, clu_task_node *at, int why);

/* ---- needs.c ---- */

/* Copies what the tasks of a new job ask for. CLU_OK or CLU_NOMEM. */
int clu_task_job_copy_needs(clu_task_job *j, const clu_task_spec *spec);
/* The scheduler has copied it. */
void clu_task_job_drop_needs(clu_task_job *j);
/* Appends to a message what a task was given at node `i`, see core/wire/task-message.h. CLU_OK or
 * CLU_NOMEM. */
int clu_engine_write_grant(const clu_engine *t, clu_blob *to, int i, const clu_need *need,
                           const clu_grant *grant);
void clu_engine_resources_free(clu_engine *t);

/* ---- notes.c ---- */

/* The caller is told in its next turn: the thread may have found it out. Where too much is noted,
 * or there is no memory, the rest is not told. `node`: -1: all; `j`: NULL: none. */
void clu_engine_note(clu_engine *t, int what, int node, const clu_task_job *j, uint64_t task,
                     uint32_t attempt);
/* An awaited job has news, if it has ended. Any of them may have. */
void clu_task_job_tell(clu_task_job *j);
void clu_engine_tell_all(clu_engine *t);
/* The job is closed: nobody awaits it. */
void clu_task_job_tell_closed(clu_task_job *j);
void clu_engine_notes_free(clu_engine *t);

/* ---- jobs.c ---- */

/* Tells whether any of its jobs has tasks that have not ended. */
int clu_engine_has_open(const clu_engine *t);
/* CLU_OK or CLU_NOMEM. The queue has its own reference to the body (may be NULL). */
int clu_queue_push(clu_queue *q, uint64_t task, uint32_t flags, clu_blob *body);
/* The oldest: 1, and the body is the caller's. */
int clu_queue_take(clu_queue *q, clu_queued *out);
/* queued.c: it is under way, if it is one task without an element. */
void clu_task_job_count(clu_task_job *j);
/* Its task has ended, or is wanted no more: its message is freed. */
void clu_task_job_uncount(clu_task_job *j);
/* A task has ended at that time of this machine's clock. */
void clu_task_job_finish(clu_task_job *j, uint64_t at);
/* There will be no value of it: tasks that need that end. */
void clu_task_job_fail_takers(clu_task_job *from);
/* A task has failed. */
void clu_task_job_fail(clu_task_job *j, const clu_ended *x);
/* How a task has ended: enum clu_task_end. `is_error`: its value is an error. */
int clu_task_end_of(const clu_ended *x, int is_error);
/* Shows what was done, and remembers it for cluster_trace(). `r` has what `x` does not say. */
void clu_engine_remember(clu_engine *t, const clu_task_job *j, const clu_ended *x,
                         const clu_task_record *r);
/* Tasks that ended without an answer become failures of their jobs. */
void clu_engine_take_endings(clu_engine *t);
/* Takes it out of scheduler and engine. */
void clu_task_job_detach(clu_task_job *j);
void clu_task_job_unpin(clu_task_job *j);

/* ---- given.c ---- */

/* It was begun: it waits, if a value is missing. */
void clu_task_job_hold(clu_task_job *j);
/* A task has ended well: those that take its value get it. `body`: as a RESULT message has it; or
 * `n` bytes of the value, without the head. CLU_OK or CLU_NOMEM: then they have not got it. */
int clu_task_job_hand_on(clu_task_job *from, clu_blob *body);
int clu_task_job_hand_on_bytes(clu_task_job *from, uint32_t flags, const unsigned char *p,
                               size_t n);
/* One of those that take its value, and will never get it; NULL: there is none any more. */
clu_task_job *clu_task_job_next_taker(clu_task_job *from);
/* It does not need any value any more. */
void clu_task_job_take_nothing(clu_task_job *j);
void clu_task_job_given_free(clu_task_job *j);

/* ---- order.c ---- */

/* A result of so many bytes has come. */
void clu_task_job_order_came(clu_task_job *j, uint64_t task, size_t bytes);
/* Tells whether much waits although it could be let go. */
int clu_task_job_has_much(const clu_task_job *j);
void clu_task_job_order_free(clu_task_job *j);

/* ---- results.c ---- */

/* From now on what nodes say of tasks is heard. */
void clu_engines_listen(clu_engines *all);
/* From now on clu_engine_take_rings() is called all the time, and no node tells; no more: then it
 * is called once more. */
void clu_engine_look(const clu_engine *t, int looking);

/* ---- record.c ---- */

/* What a node has answered goes to the journal of the job: `n` bytes, an R object. `flags`:
 * CLU_RESULT_... */
void clu_task_job_record_result(clu_task_job *j, const clu_ended *x, uint32_t flags, uint64_t took,
                                const unsigned char *p, size_t n);
/* And that a task has ended without an answer. */
void clu_task_job_record_end(clu_task_job *j, const clu_ended *x);
/* What has waited for long enough is flushed. How long to wait, `wait` at most, until more has. */
int64_t clu_engine_flush_journals(clu_engine *t, int64_t wait);
/* What the caller is about to get is flushed. */
void clu_task_job_flush_journal(clu_task_job *j);
void clu_recording_free(clu_recording *r);

/* ---- limits.c ---- */

/* Puts the limit into force for a node that is new. */
void clu_engine_limit_node(const clu_engine *t, clu_node *nd);
/* Looks at the memory of a node when it is time to. */
void clu_engine_look_at_memory(clu_engine *t, uint64_t now);

/* ---- room.c ---- */

/* Another node has come. */
void clu_engine_room_attach(clu_task_node *at, clu_node *nd);
/* Something was handed out. */
static inline void clu_engines_room_begin(clu_engines *all, uint64_t now) {
  if (!all->room.due) all->room.due = now + CLU_ROOM_FIRST;
}
/* When it is time to: looks at the memory of nodes at work and at what is left, and has nodes stop,
 * go on or end. */
void clu_engines_look_at_room(clu_engines *all, uint64_t now);
static inline void clu_engines_see_room(clu_engines *all, uint64_t now) {
  if (all->room.due && now >= all->room.due) clu_engines_look_at_room(all, now);
}
/* How long to wait, `wait` at most, until it is. */
static inline int64_t clu_engines_room_wait(const clu_engines *all, uint64_t now, int64_t wait) {
  int64_t left = (int64_t)(all->room.due - now);
  if (!all->room.due || left >= wait) return wait;
  return left > 0 ? left : 0;
}
/* The task at which this node was has ended. */
void clu_task_node_room_ended(clu_task_node *at, clu_task_job *j);
/* Bytes that one of its tasks is expected to have at its peak; 0: not known. */
int64_t clu_task_job_expected(clu_engine *t, clu_task_job *j);
/* The most bytes that a task at work was seen to have, of all jobs. */
int64_t clu_engine_room_seen(const clu_engine *t);
/* A node that is stopped goes on: something is wanted of it. */
void clu_task_node_go_on(clu_task_node *at);
void clu_engine_room_free(clu_engine *t);

/* ---- cores.c ---- */

/* Before it is decided who gets what: takes tokens, or gives some back, and tells the scheduler how
 * many nodes may have something. */
void clu_engine_fit(clu_engine *t);
/* How long to wait, `wait` at most: tokens may come, or are to be given back. */
int64_t clu_engine_fit_wait(const clu_engine *t, int64_t wait);
/* When that has to be done although nobody is here; 0: never. */
uint64_t clu_engine_fit_due(const clu_engine *t);

/* How many of `n` more nodes could compute, as far as is known: there may be fewer tokens. */
int clu_engine_cores_for(clu_engine *t, int n);
/* A node of this machine gives way to other processes, as those of a polite session; 0: it has the
 * priority again that it had before, if the system lets it. */
void clu_task_node_give_way(clu_task_node *at, int gives_way);
/* How many nodes of a session that is polite may compute from now on, of which so many do: of that
 * share of the last time (-1: not known) some process had to wait for a core, and the load is
 * `load` (-1: not known). */
int clu_polite_most(int before, int cores, int busy, double stalled, double load);

/* ---- send.c ---- */

/* Sends the batch `a` and tells the scheduler whether it was. The messages leave with
 * clu_engine_flush(). CLU_OK, or what the caller's `elements` has returned: then the batch waits
 * again. */
int clu_engine_send(clu_engine *t, const clu_action *a);
/* What was queued for this node (-1: none) leaves. */
void clu_engine_flush(clu_engine *t, int node);
/* Nodes that know of the job are told that nothing more will come of it. `t` works at it. */
void clu_task_job_send_end(clu_engine *t, clu_task_job *j);

/* ---- attach.c ---- */

#define CLU_IDLE_GRACE_MS 2000 /* that an idle node has to end */
/* It has nothing, and gets nothing more: for the scheduler it is not there from now on, although it
 * may take a while to end. That is no death. Returns whether it was told to end. */
int clu_engine_end_node(clu_engine *t, clu_task_node *at);
/* Where memory is short: ends those that have nothing to do and keep much, has noted that others
 * are wanted. Only for who can start these at once. */
void clu_engine_renew_idle(clu_engine *t);

/* ---- grow.c ---- */

/* Makes nodes where tasks wait and there is room for more, has those that are ready take part, and
 * ends those that were idle for long. */
void clu_engine_look_at_growth(clu_engine *t, uint64_t now);
/* Does that when it is time to. */
static inline void clu_engine_see_growth(clu_engine *t, uint64_t now) {
  const struct clu_engine_grow *g = &t->grow;
  if (!g->is.server) return;
  if (now >= g->due || g->nstarting || (g->idle_due && now >= g->idle_due))
    clu_engine_look_at_growth(t, now);
}
/* How long to wait, `wait` at most, until it is. */
static inline int64_t clu_engine_growth_wait(const clu_engine *t, uint64_t now, int64_t wait) {
  int64_t left = (int64_t)(t->grow.due - now);
  if (!t->grow.is.server || (!t->grow.waits && !t->grow.nstarting) || left >= wait) return wait;
  return left > 0 ? left : 0;
}
/* When that has to be done although nobody is here; 0: never. */
uint64_t clu_engine_growth_due(const clu_engine *t);
/* Those that start are ended. */
void clu_engine_end_starting(clu_engine *t);
void clu_engine_growth_free(clu_engine *t);

/* ---- idle.c ---- */

/* When nodes of one of these have been idle for as long as they may; 0: never. */
uint64_t clu_engines_idle_due(clu_engines *all);
/* Ends them then. */
void clu_engines_end_idle(clu_engines *all);
/* When a host of it has been, if nothing happens until then; 0: none will. */
uint64_t clu_engine_hosts_due(clu_engine *t);
void clu_engine_hosts_free(clu_engine *t);

/* ---- deaths.c ---- */

/* Nodes that have ended unseen are lost to the scheduler, and the caller is to hear of them. Why a
 * node has ended, where that matters, is waited for a second, if `may_wait`; else such a node is
 * left for later. */
void clu_engine_see_deaths(clu_engine *t, int may_wait);
/* Whether the caller is to be asked about a node. */
int clu_engine_asks(const clu_engine *t);

/* ---- turn.c ---- */

/* Carries out what the scheduler decides, until there is nothing to do or much was done. CLU_OK, or
 * what clu_engine_send() returns; always CLU_OK if not `may_send`. */
int clu_engine_act(clu_engine *t, int may_send);

#endif
