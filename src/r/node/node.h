/* A node's side: what runs in the process that computes.
 *
 * Files, each of which uses only those before it: node-state (the channel and the request at hand),
 * give-back (memory of an idle node), stack (which calls it is in, told to who asks), node-start
 * (how a node comes to be), relay (output and conditions of tasks), console (R's), job-state (what
 * tasks may change of R), warm-up (what a fork server does once for its nodes), fresh (the
 * workspace of a task), apart (what is done apart from requests), compiled (code that R has
 * compiled in earlier jobs), node-jobs (jobs and their workspace), frozen (copies of the node that
 * keep its frames), node-tasks, node-loop; observed-stacks, observed-values, observer;
 * channel-only, bridge, forwarder. fork-server-main uses that and node-start, join uses node-start.
 *
 * There is one node in a process, so its state is one static struct. An R error jumps out of any of
 * these functions; what has to survive the jump is in that struct, and nothing is on the C stack.
 * All functions here run on R's thread.
 */
#ifndef CLUTCH_R_NODE_H
#define CLUTCH_R_NODE_H

#include "r/base/r-api.h"
#include "r/base/wait.h"
#include "r/serialize/serialize.h"

#include "core/supervisor/supervisor.h"
#include "core/wire/channel.h"
#include "core/wire/task-message.h"

enum { CLU_TASK_NONE = 0, CLU_TASK_QUIET, CLU_TASK_RELAYED };

/* The memory of a node from one request to the next. `seq`, `running`, `sending`, `interrupted`,
 * `interrupt_at` and `cancel_seen` are used by the handler of CLU_SIG_INT, too. */
typedef struct clu_this_node {
  clu_chan chan;
  clu_boot boot;
  volatile uint64_t seq;          /* the request or task at hand, 0: none */
  volatile int running;           /* it is being evaluated */
  volatile int sending;           /* its answer is being written */
  volatile int interrupted;       /* R was told of a signal */
  volatile uint64_t interrupt_at; /* from that time on R is to be interrupted; 0: it is not */
  int task;                       /* it is a task: CLU_TASK_* */
  int relay_at_once;    /* what it prints and signals is sent at once, not with the result */
  int browsing;         /* the task at hand has asked the session for a line */
  int has_link;         /* it has a connection to the session's machine: R/forward-ask.R */
  int has_relayed;      /* it has sent such: its result has to come behind that, by the socket */
  uint64_t cancel_seen; /* the last cancel that was handled */
  int read_error;       /* why a message could not be read to its end */
  double started[5];    /* clu_os_times() when the call began */
  int closed;           /* the channel is of no more use */
  int fd_closed;        /* user's code has closed the channel's descriptor */
  int asked_to_end;     /* the session has said DONE, or this process is of no more use */
  int ready;            /* see clu_node_get_ready() */
  int joined;           /* it has connected over TCP */
  int new_r;            /* it is an R of its own, started by exec: not a fork of another one */
  int apart;            /* so many levels of what is done apart from requests: apart.c */
  volatile int forked;  /* this is a child of the node (mclapply() in a call), not the node */
  int64_t idle_ns;      /* the node ends when nothing comes for so long; 0: it waits for ever */
} clu_this_node;
extern clu_this_node clu_me;

/* ---- fork-server-main.c ---- */

/* Its control channel is this one, and not descriptor 3. */
void clu_fork_server_control(clu_fd fd);

/* ---- observer.c ---- */

/* This process is an observer of that fork server from now on. */
void clu_observer_begin(const clu_supervisor *sv, const clu_boot *b);

/* ---- node-state.c ---- */

/* Writes the answer to the request at hand; stops half-way when that is cancelled. Blocks. */
void clu_node_answer(uint8_t kind, clu_blob *body);
/* An answer's object, behind what is in `b`: see clu_serialize(). Large vectors go by segment where
 * the session takes it. */
clu_blob *clu_node_serialize(clu_blob *b, SEXP x);
/* Ends the evaluation. An interrupt that R has been told of and has not acted upon is consumed
 * here: it is not for the next request. */
void clu_node_stop_running(void);
/* The next `n` bytes, or the object in them, of the message that has begun. Block. An R error of
 * class clutch_protocol when the message ends too soon. */
void clu_node_read(void *p, size_t n);
SEXP clu_node_read_object(uint64_t n);

/* Does the same for a function of `n` bytes that travels apart from what it is called with. */
SEXP clu_node_read_function(uint32_t n);
/* Calls a function of this package's with `x`. `x` is evaluated: it may not be a symbol or call. */
SEXP clu_node_r(const char *fun, SEXP x);

/* ---- give-back.c ---- */

/* This process has now what it needs; a fork server has what its nodes need. */
void clu_give_back_begin(void);
/* It has worked for so long, in ns. */
void clu_give_back_worked(uint64_t ns);
/* Tells whether it may have memory to give back. */
int clu_give_back_is_due(void);
/* It has been idle for a while: gives back to the system what it does not need. Code of R may run.
 */
void clu_give_back(void);
/* Does it now, whatever it has: memory is short. */
void clu_give_back_now(void);

/* ---- stack.c ---- */

/* From now on this process, and what is forked from it, can tell which calls it is in. */
void clu_stack_hook(void);
/* The node has this slot: see there how often it looks. */
void clu_stack_set_pace(int slot);
/* From now on the node makes a copy of itself before it is ended for its memory, or not. */
void clu_stack_keep_last(int keeps);
/* Tells whether it is to make that now, and to end. */
int clu_stack_is_ending(void);
/* If so, R is to be interrupted: 1. For a signal handler. */
int clu_stack_interrupt_to_end(void);
/* This process is a copy of a node now. */
void clu_stack_in_copy(void);
/* R is to be interrupted when it looks for interrupts next, unless it is at something that has to
 * end first. For a signal handler. 0: this R has no such hook. */
int clu_stack_interrupt(void);

/* ---- frozen.c ---- */

/* The task at hand has ended well: a copy that was made meanwhile is of no use. */
void clu_frozen_drop(void);
/* Copies that have ended are reaped. */
void clu_frozen_reap(void);
/* In a forked child: it has nothing of the node's any more. Its descriptors but `keep` lead
 * nowhere. */
void clu_node_leave(clu_fd keep, const char *title);

/* ---- console.c ---- */

/* Has R ask the session for lines of browser() in tasks of the job at hand, or not. Returns whether
 * it does: R of this system may not be able to. */
int clu_console_browse(int browses);
/* A task has ended, which may have asked for some. */
void clu_console_end_task(void);

/* ---- node-start.c ---- */

/* In a fork server: what the random numbers of its nodes begin with. */
void clu_node_choose_seeds(void);
/* Remembers who this process is: in the child, right after the fork. */
void clu_node_set_boot(const clu_boot *b);
/* A forked node says hello. R runs none of its code for that. */
void clu_node_begin_forked(void);
/* Does the rest, once: to be called before anything that may run code of the user's. An R error of
 * class clutch_sys or clutch_start (in a new R any), and then the next call tries again. `idle`:
 * when something comes meanwhile a new R leaves the rest of it to the next call. */
void clu_node_get_ready(int idle);
/* Moves a descriptor to a high number: user's code that closes all descriptors it can think of
 * begins with the low ones. */
void clu_node_move_fd(clu_fd *fd);
/* A node that has connected over TCP: takes over the channel. It ends after `idle_ns` of silence; <
 * 0: it waits for ever. */
void clu_node_joined(const clu_boot *b, clu_chan *c, int64_t idle_ns);

/* ---- relay.c ---- */

/* Returns what the task at hand has printed and signalled since the last call, in order: a list, or
 * NULL.
 */
SEXP clu_relay_take(void);
/* Forgets it: the task was cancelled. */
void clu_relay_drop(void);
/* Tells whether there is the connection that collects what tasks print. */
int clu_relay_is_open(void);
/* Does as if the task at hand had printed this. */
void clu_relay_print(const char *text, size_t n);
/* Drops what is printed there from now on (1), or does so no more (-1). These count. */
void clu_relay_mute(int by);
/* Output that was not sent yet, as one text; it is not sent then. */
SEXP clu_relay_take_output(void);
/* Tells whether what R prints arrives there, alone or also elsewhere. R has to have a sink for
 * it. */
int clu_relay_try_to_reach(void);

/* ---- job-state.c ---- */

/* Remembers options, variables and the like before the first task of a job, and puts them back.
 * `seeded`: the job has random streams of its own, so the kind of generator is seen to elsewhere.
 * `fresh`: what is new goes, too, when a namespace was loaded meanwhile, unless it is that one's.
 */
void clu_state_remember(int seeded, int fresh);
void clu_state_put_back(void);
/* This level is remembered, compared and put back from now on: 0 is the job's, and each other one,
 * up to CLU_APART_MOST, is that of something that is done apart from it (apart.c). */
#define CLU_APART_MOST 16
void clu_state_use(int level);
/* The job is entered: whether a task has changed something since then. */
void clu_state_entered(void);
int clu_state_is_same(void);
void clu_state_end_time_limit(void);
/* How many sinks output goes through; one more, to this connection. */
int clu_state_sinks(void);
void clu_state_sink(SEXP connection);
/* Tells whether there is nothing that node_end() in R would close or remove: no sinks, connections,
 * devices, variables of the workspace. */
int clu_state_is_bare(void);
/* options(warn = value) */
void clu_state_set_warn(SEXP value);

/* ---- fresh.c ---- */

/* Remembers the variables of the workspace, and the search path, before the first task of a job;
 * tells whether they are the same; puts them back. */
void clu_workspace_remember(void);
int clu_workspace_is_same(void);
void clu_workspace_put_back(void);
/* The symbol .Random.seed. R itself changes that variable, and fails where a task has locked it: it
 * is not locked after this. */
SEXP clu_job_seed_symbol(void);

/* ---- apart.c ---- */

/* Does what has come besides requests, between two of them: 1, else 0. `before` is called before.
 * May run R code, and jump. */
int clu_apart_serve(void (*before)(void));

/* ---- compiled.c ---- */

/* The closures in the elements of this list get the code that R has compiled for the same ones
 * before: closures in lists, environments and enclosing environments. The others are watched until
 * clu_compiled_end(). `globals`: that element is a list of variables that are in the workspace
 * already, and get the code there, too; -1: none. `owner`: a job, for which this is done once until
 * it is done for another; 0: a call. Takes some us for a dozen closures, 1 ms for the most that are
 * looked at, and 20 ms where R has to compile some. Code of R's runs then, which may be
 * interrupted; else an R error only without memory. */
void clu_compiled_use(SEXP x, int globals, uint64_t owner);
/* They were called, and the workspace is still theirs: what R has compiled meanwhile is remembered.
 */
void clu_compiled_note(uint64_t owner);
/* Does the same, and the others are watched no more. */
void clu_compiled_end(uint64_t owner);

/* ---- node-jobs.c ---- */

/* A job's number is its name here, see core/tasks/engine-state.h.
 *
 * A description has arrived; or a failure to read it. No more tasks of the job will come. */
void clu_job_put(uint64_t number, SEXP description);
/* Reads the value of another task, as that has sent it: for the next place of its description that
 * has none. */
void clu_job_read_given(uint64_t number);
void clu_job_forget(uint64_t number);
/* From here on the workspace is as the job wants it: its packages are attached, its globals are
 * there, warnings are treated as in the session, output is collected. clu_job_leave() puts back
 * what was there before. `seeded`: it has random streams; `bare`: its function takes no element. */
void clu_job_enter(uint64_t number, int seeded, int bare);
void clu_job_leave(void);
int clu_job_is_entered(uint64_t number);
/* These are of the job that was entered: the call that does a task, and where it is evaluated;
 * whether output and conditions are wanted. */
SEXP clu_job_call(void);
SEXP clu_job_env(void);
int clu_job_relays(void);
/* The part of the description of the job at hand that tells what travels packed, or NULL. */
SEXP clu_job_travel(void);
/* How many frozen copies of nodes the session wants of it, and whether of elements whose time is
 * up, too. */
const int *clu_job_frozen(void);
uint64_t clu_job_number(void); /* of the job that was entered; 0: none */

/* ---- grant.c ---- */

/* Reads what the tasks that follow were given of their host; they were given nothing. */
void clu_grant_read(void);
void clu_grant_none(void);
/* It is in force from now on: an R error where that fails. */
void clu_grant_apply(void);
/* All is as without. */
void clu_grant_put_back(void);

/* ---- node-travel.c ---- */

/* Tells whether all results are to be looked at: the session has registered recipes. */
int clu_travel_has_recipes(void);
/* The list(object) that travels in the place of this result; NULL: it does itself; or an object of
 * class clutch_task_failure: it cannot. Not protected. `bytes` are given back on a jump. */
SEXP clu_travel_in_place(SEXP value, clu_blob *bytes);
/* Both logs of a task in one, which are lists or NULL. */
SEXP clu_travel_logs(SEXP log, SEXP more);
/* The task at hand has ended. Where each has a fresh workspace, and it has changed something, the
 * job is left: 1. */
int clu_job_end_task(void);

/* ---- node-tasks.c ---- */

/* Takes a message about tasks: CLU_K_JOB, CLU_K_GIVEN, CLU_K_TASKS or CLU_K_JOB_END. */
void clu_work_take(const clu_msg *m);
/* Does the tasks that were taken. 1: there were some. */
int clu_work_go_on(void);
/* No task is at hand: jobs that have no more are forgotten, and left. */
void clu_work_rest(void);
/* Answers that the task at hand has failed. */
void clu_work_failed(SEXP failure);
/* Tells the session of results in the ring that it was not told of. */
void clu_work_tell(void);
static inline int clu_work_besides(void) {
  return clu_besides_requests && clu_apart_serve(clu_work_tell);
}

#endif
