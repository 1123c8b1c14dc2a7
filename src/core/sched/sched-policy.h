/* The scheduler's decisions: who gets what, and how much of it. They are asked and change nothing.
 *
 * How many tasks leave together: as many as take half of CLU_AHEAD by the times measured so far,
 * and no more than CLU_BATCH_BYTES; near the end of a job so few that all nodes get their part.
 * Jobs of one task are measured together: of these as many wait at a node as take half of
 * CLU_AHEAD.
 *
 * Nodes with nothing come before nodes that have room for more, and of these the one that has
 * worked last: it is awake.
 */
#ifndef CLUTCH_SCHED_POLICY_H
#define CLUTCH_SCHED_POLICY_H

#include "core/sched/sched-state.h"

/* Tasks of a job that leave together for this node: as the measured times say, or the user. */
uint32_t clu_policy_measured_size(const clu_sched *s, const clu_job *j, const clu_sched_node *nd);
static inline uint32_t clu_policy_batch_size(const clu_sched *s, const clu_job *j,
                                             const clu_sched_node *nd) {
  return j->spec.chunk ? j->spec.chunk : clu_policy_measured_size(s, j, nd);
}
/* Tasks of a job that may be with it. */
uint32_t clu_policy_most_at(const clu_sched *s, const clu_job *j, const clu_sched_node *nd);
/* enum clu_readiness: on which part of the ready list it belongs. */
int clu_policy_readiness(const clu_sched *s, const clu_sched_node *nd);
int clu_policy_may_do(const clu_job *j, int node);
/* Bytes that the next task of a job is expected to have, of those that node `node` may get. */
int64_t clu_policy_expects(const clu_sched *s, const clu_job *j, int node);
/* Tells whether its host has what the next task of a job asks for, were all of it free. */
int clu_policy_host_could(const clu_sched *s, const clu_job *j, const clu_sched_node *nd);
/* Tells whether there is room for a task of a job at a node. There is for the first in any case. */
int clu_policy_fits(const clu_sched *s, const clu_job *j, const clu_sched_node *nd);
/* Tells whether another node than `node` is there and can be reached that may do it; -1: whether
 * any is there. */
int clu_policy_others_may(const clu_sched *s, const clu_job *j, int node);
/* Tells whether a retry must not come back to `node`, or to what has taken its place: another node
 * may do it. A new process on this machine is as good as another node: where it has nothing to do,
 * and no other has, either, the retry does not wait behind what others are at. */
int clu_policy_bars(const clu_sched *s, const clu_job *j, int node);
/* Says what clu_pending_take() is to leave alone for `node`: `node` itself when retries must not
 * come back to it; -1: nothing. */
static inline int clu_policy_avoid(const clu_sched *s, const clu_job *j, int node) {
  return clu_pending_first_avoids(&j->pending) == node && clu_policy_bars(s, j, node) ? node : -1;
}
/* Tells whether it has a task that waits and that `node`, which may do it, may get. */
int clu_policy_has_for(const clu_sched *s, const clu_job *j, int node);
/* The job whose turn it is at `node`: the first that came and has something for it; NULL: none. */
clu_job *clu_policy_job_for(const clu_sched *s, int node);
/* Tells whether `from` has tasks for node `to` that it need not have begun. */
int clu_policy_may_steal(const clu_sched *s, const clu_sched_node *from, int to);
/* Tells whether what is sent only makes the node's last batch longer: a thousand tasks sent one by
 * one are not to be a thousand batches. */
int clu_policy_extends(const clu_sched_node *nd, const clu_action *a, uint64_t seq, uint64_t now);

#endif
