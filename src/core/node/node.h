/* A node as its session sees it: a process that runs calls and tasks, and the channel to it.
 *
 *   starting --HELLO--> ready --asked to end----> stopped
 *      |                  `-----ended unasked---> lost
 *      `-- it could not be started, or ended ---> lost (or stopped, if asked)
 *
 * "Open" is starting or ready, "closed" the rest. A closed node stays closed; its answers that have
 * come are still there. How its process ended may be known only later (clu_node_end_known()). How a
 * node is started, interrupted and ended depends on its transport (transport.h); who has one asks
 * here and needs not know which it is. See transports.h for how one is made.
 *
 * Calls are requests (request.h). A cancelled request that has not left is withdrawn; of one that
 * has, the node is told to give it up, when it is at it and not before: a signal must not hit
 * another's work. A node is in step when no cancelled request is left and all interrupts are
 * confirmed.
 *
 * A node is the caller's, and is freed by clu_node_free(), never within clu_loop_pump(). Nothing
 * here blocks; what comes is read in clu_loop_pump(). Results are CLU_OK or a code of
 * core/base/err.h.
 */
#ifndef CLUTCH_NODE_H
#define CLUTCH_NODE_H

#include "core/node/request.h"
#include "core/node/session.h"
#include "core/view/view.h"

/* ---- what it is ---- */

/* Unique in its session. */
uint64_t clu_node_id(const clu_node *nd);
/* Its number in the cluster, the caller's to set. */
int clu_node_rank(const clu_node *nd);
void clu_node_set_rank(clu_node *nd, int rank);
/* 0: not known yet. It may be one of another machine. */
clu_pid clu_node_pid(const clu_node *nd);
/* Returns the same if it is a process of this machine, a child of this one, and not reaped; else
 * 0. */
clu_pid clu_node_own_pid(const clu_node *nd);
/* Tells whether its process reads the same clock as this one (clu_os_now()). */
int clu_node_clock_is_ours(const clu_node *nd);
/* Tells whether messages to it may bring segments. */
int clu_node_takes_segments(const clu_node *nd);
/* Sets who gives it tasks, NULL: nobody. What comes of these goes to the hooks of the session. */
void clu_node_set_data(clu_node *nd, void *data);
/* From now on nobody does: who did is told (on_gone). */
void clu_node_drop_data(clu_node *nd);
void *clu_node_data(const clu_node *nd);

/* ---- what others see of it ---- */

/* From now on it is shown as number `at` (from 0) of that view, of which it has a reference until
 * it is freed. `view` may be NULL: then it is shown nowhere. */
void clu_node_show(clu_node *nd, clu_view *view, int at, const char *host);
/* Another one takes its place there. */
void clu_node_show_instead(clu_node *nd, clu_node *of);

/* ---- its state ---- */

int clu_node_is_starting(const clu_node *nd);
int clu_node_is_ready(const clu_node *nd);
int clu_node_is_open(const clu_node *nd);
int clu_node_is_lost(const clu_node *nd);
/* Tells whether it is ready and was not told to end. Else it may be gone at any moment, and is
 * given nothing more to do. */
int clu_node_takes_work(const clu_node *nd);
/* Tells whether it cannot be reached now, and may be again: it is on another host, to which the
 * connection is cut; or that host has said that it ends. enum clu_reach. */
int clu_node_is_cut(const clu_node *nd);
/* Tells whether it has a connection. */
int clu_node_is_connected(const clu_node *nd);
/* Why it could not be started, or NULL. The node's. */
const char *clu_node_refusal(const clu_node *nd);
/* Tells whether it is closed, and no more will be known of how. */
int clu_node_end_known(const clu_node *nd);
/* Tells whether it had more memory than it may and was killed for it: `*bytes` is what it had. */
int clu_node_over_limit(const clu_node *nd, uint64_t *bytes);
/* Returns where the copy listens that it has made before it was killed so, in its own words; NULL:
 * it has made none. The node's. */
const char *clu_node_last_copy(const clu_node *nd);

typedef struct clu_node_status {
  const char *state; /* "starting", "idle", "busy", "cancelling", "dead", "stopped" */
  int how_known;
  clu_exit how;
  int may_be_oom;  /* its supervisor holds the system's out-of-memory killer for the cause */
  uint64_t age;    /* ns */
  uint64_t done;   /* requests and tasks answered, cancelled ones not counted */
  int waiting;     /* requests and tasks without an answer */
  clu_pid started; /* the process that this one started for it (it may be ssh, and not the node); 0:
                      none */
  clu_pid server;  /* its fork server; 0: it has none */
  int server_ended;
} clu_node_status;
/* Polls its process, too. */
void clu_node_status_of(clu_node *nd, clu_node_status *out);

/* ---- its life ---- */

/* Starts its process: see clu_child_start(). CLU_UNSUPPORTED: this kind is started otherwise. */
int clu_node_start(clu_node *nd, const clu_spawn *spec, int slot, const char *folder, clu_err *e);
/* It has connected, as process `pid` (0: not known). Takes over `fd` also on failure. A
 * connection that it had before is closed. */
int clu_node_connect(clu_node *nd, clu_fd fd, clu_pid pid, clu_err *e);
/* Polls whether its process has ended, where that can be told, and reads what it still said.
 * Whether it is connected and its process runs, as far as is known. */
int clu_node_check(clu_node *nd);
/* Reads all that has come of it. */
void clu_node_read_all(clu_node *nd);
/* It has ended, or is given up: it is stopped if that was asked for, else lost. Answers that have
 * arrived remain. */
void clu_node_close(clu_node *nd);
/* Tells it to end; it is killed after `grace_ms` (0: at once). */
void clu_node_stop(clu_node *nd, uint32_t grace_ms);
/* Stops it if need be, at once when it is busy, and frees it. */
void clu_node_free(clu_node *nd);

/* ---- requests ---- */

/* Queues a request and sends what can be sent now. CLU_DEAD when the node is closed or was told to
 * end, CLU_NOMEM. */
int clu_node_call(clu_node *nd, clu_blob *body, uint64_t scope, int tag, clu_err *e);
/* Tells whether a request was queued since it started, or since that was set back: what it has left
 * there may be wanted. */
int clu_node_was_called(const clu_node *nd);
void clu_node_set_called(clu_node *nd, int called);
/* The number of the request that was queued last. */
uint64_t clu_node_last_call(const clu_node *nd);
/* The oldest request that is not cancelled, or NULL. Valid until the next call of this module,
 * and to be read only. */
const clu_req *clu_node_first(const clu_node *nd);
/* Removes that one; the body of its answer is the caller's. */
clu_blob *clu_node_take_first(clu_node *nd);
/* How many there are, answered and cancelled ones included. */
int clu_node_requests(const clu_node *nd);
/* Tells whether one of `scope` has no answer. */
int clu_node_awaits(const clu_node *nd, uint64_t scope);
/* Cancels those of `scope`; with 0, all. */
void clu_node_cancel(clu_node *nd, uint64_t scope);
/* Cancels one. */
void clu_node_cancel_one(clu_node *nd, uint64_t seq);
/* Since when it has cancelled requests, as clu_os_now() counts; 0: it has none. */
uint64_t clu_node_cancelled_since(const clu_node *nd);
/* Removes all, answered or not. */
void clu_node_drop_requests(clu_node *nd);
/* Tells whether no cancelled request or task is left and no interrupt is under way. A closed node
 * is. */
int clu_node_in_step(const clu_node *nd);
/* Tells whether it has something to answer. */
int clu_node_busy(const clu_node *nd);

/* The number of the request that it has to answer next; 0: none. */
uint64_t clu_node_request_at_hand(const clu_node *nd);

/* ---- what it tells while it is busy, see core/shm/activity.h and stacks.h ---- */

/* When it has begun this request or task, if that is what it is at; 0: not known. */
uint64_t clu_node_began(const clu_node *nd, uint64_t seq);

/* When it has ended something else, for which an interrupt has waited; UINT64_MAX: it is still at
 * that; 0: none has waited. */
uint64_t clu_node_put_off_until(const clu_node *nd);

/* Bytes of memory that it has given back to the system while it was idle; -1: it cannot tell. */
int64_t clu_node_gave_back(const clu_node *nd);

/* Asks which calls it is in. The number of the question; 0: nobody can ask it. */
uint32_t clu_node_ask_stack(clu_node *nd);
/* Tells whether it has answered that. A closed node does not. */
int clu_node_has_told_stack(clu_node *nd, uint32_t question);
/* Asks for a copy of it that keeps its frames, while it is at this request or task. The number of
 * the copy; 0: nobody can ask it. */
uint32_t clu_node_ask_copy(clu_node *nd, uint64_t seq);
/* It is not wanted any more. A node on another host may make it all the same. */
void clu_node_give_up_copy(clu_node *nd);
/* Tells whether that was made, or could not be: clu_node_stack() has where it listens. */
int clu_node_has_told_copy(clu_node *nd, uint32_t copy);
/* Reads what it has told last: 1, or 0: nothing. */
int clu_node_stack(clu_node *nd, clu_stack *out);

/* ---- messages and tasks ---- */

/* Sends it a message that is no request. CLU_OK; CLU_DEAD: it is not connected; CLU_NOMEM. */
int clu_node_send(clu_node *nd, uint8_t kind, clu_blob *body);
/* Does the same with a number, a few bytes, and a descriptor (or CLU_NO_FD), which it takes over.
 * CLU_OK, CLU_DEAD, CLU_NOMEM. */
int clu_node_pass(clu_node *nd, uint8_t kind, uint64_t seq, const void *p, size_t n, clu_fd fd);
/* Queues a message about `n` tasks (or none), the first of which has the number `*seq`, the
 * others the following. Leaves with clu_node_push(). CLU_OK, CLU_DEAD (also: it was told to end),
 * CLU_NOMEM. */
int clu_node_tasks(clu_node *nd, uint8_t kind, clu_blob *body, uint32_t n, uint64_t *seq);
/* Has its fork server write `n` bytes to the socket at `path` there, to which nobody else of this
 * session may have a way. CLU_OK: that was asked for; CLU_UNSUPPORTED: it has no fork server;
 * CLU_DEAD, CLU_NOMEM. */
int clu_node_deliver(clu_node *nd, const char *path, const void *p, size_t n);
/* A task of it was answered. */
void clu_node_count_done(clu_node *nd);
/* Sends what can be sent now. */
void clu_node_push(clu_node *nd);
/* Tells whether everything has been sent. */
int clu_node_all_sent(const clu_node *nd);
/* Has it give up request or task `seq`, if that is what it is at. */
void clu_node_interrupt(clu_node *nd, uint64_t seq);
/* Tells whether an interrupt is under way: when it is delivered, CLU_K_SIGNALLED comes. */
int clu_node_is_interrupted(const clu_node *nd);
/* Asks its host for another CLU_K_SIGNALLED, behind all that the host has sent: whether one will
 * come. 0: the node is reached without a connection that may be slow. */
int clu_node_ask_signalled(clu_node *nd);
/* Asks its host for what it has not begun of tasks below `end`: CLU_K_TAKEN is the answer. */
void clu_node_take_back(clu_node *nd, uint64_t end);
/* The word that says which tasks it may start, and where it leaves small results; NULL: there is
 * none. Both are there until it is closed. */
clu_claim *clu_node_claim(const clu_node *nd);
clu_ring *clu_node_ring(const clu_node *nd);
/* Tells whether it is behind a proxy, on another host. That reads its ring, and its fork server
 * tells what it had begun when it ends. */
int clu_node_is_proxied(const clu_node *nd);
/* Tells whether its transport sees to a limit of its memory. If not, the caller may, by
 * clu_node_own_pid(). */
int clu_node_limits_memory(const clu_node *nd);
/* From now on it is ended when it has more than so many bytes; 0: no limit. */
void clu_node_limit(clu_node *nd, uint64_t bytes);
/* Tells whether its process can be stopped for a while, with all that it has started. */
int clu_node_can_hold(const clu_node *nd);
/* Stops it (`held`), or has it go on. It has to go on before anything is wanted of it. */
void clu_node_hold(clu_node *nd, int held);
/* Writes to its standard input, where its process was started with one that is kept open
 * (clu_spawn.hold). Does not block; what there is no room for is lost. */
void clu_node_say(clu_node *nd, const char *text, size_t n);

#endif
