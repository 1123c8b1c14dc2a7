/* It is decided here which of the tasks that wait goes to which node.
 *
 * Where no job waits that asks for something of its hosts (ledger.h) nodes are served one after the
 * other, each with the first job that has something for it. Else the jobs are, in the order in
 * which they came:
 *
 *   a job that asks for something -- fits, and a node has nothing --> is given it
 *         |            |
 *         |            '-- no node of a host where it fits has nothing: to the nodes that may do it
 *         |                nothing more is sent ahead of those that come later
 *         '-- does not fit: that is kept for it; jobs behind it that ask for something else go on
 *   a job that asks for nothing ---> is sent to a node with room, unless cores are kept there, or
 *                                    that node
 *
 * The last tasks of jobs that ask for cores get those that nobody else waits for: so many of them
 * share what is free. Such a task waits a little when others of its job are about to end by the
 * measured time, and it will be done sooner with their cores: where these take T each, it waits for
 * those that are due within T / 4.
 *
 * With jobs that ask for something a decision costs O(groups of jobs, nodes that have nothing).
 */
#ifndef CLUTCH_SCHED_GIVE_H
#define CLUTCH_SCHED_GIVE_H

#include "core/sched/sched-state.h"

/* Tells whether there is something to send; then that is in `a`. What waits at nodes is taken back
 * for one that has nothing to do. */
int clu_sched_give(clu_sched *s, uint64_t now, clu_action *a);

#endif
