/* The tasks of a cluster, as its session sees them: an engine asks the scheduler what to do, sends
 * batches to nodes, queues what they answer as bytes, sees deaths, and puts limits into force.
 *
 * No R is called here. What the engine needs of its caller goes through clu_engine_caller. All
 * functions are for who has the turn at the session (core/loop/turns.h): its owner, or while that
 * is elsewhere the thread that does clu_engines_work(). Only clu_wake() (wake.h) is for any thread.
 *
 * Life of a job: new -> begun (clu_task_job_begin()) -> closed (clu_task_job_close(); the scheduler
 * has forgotten it). What has come of it can be asked for until clu_task_job_release().
 *
 * Errors. Functions that can fail return CLU_OK or a code of core/base/err.h; none throws. A result
 * or failure that was lost for want of memory is remembered by its job:
 * clu_task_job_is_incomplete(). Numbers: 0 is "none" for numbers of jobs and elements, which count
 * from 1; times are clu_os_now(), 0 is "never".
 *
 * What blocks: clu_engine_await(), and, a second at most, what has to know how a node has ended:
 * clu_engine_turn(), clu_engine_pass(), clu_engine_attach(). Nothing else does.
 */
#ifndef CLUTCH_ENGINE_H
#define CLUTCH_ENGINE_H

#include "core/journal/journal.h"
#include "core/loop/turns.h"
#include "core/node/fork-server.h"
#include "core/node/node.h"
#include "core/sched/scheduler.h"
#include "core/tasks/memory-history.h"
#include "core/tasks/trace.h"

typedef struct clu_engines clu_engines;
typedef struct clu_engine clu_engine;
typedef struct clu_task_job clu_task_job;

/* ---- all engines of a session ---- */

/* Functions of the caller that engines call. */
typedef struct clu_engine_caller {
  /* Appends elements first ... first + n - 1 of the job to `*body`, for a node that takes segments
   * (`shares`) or not. `job`: what clu_task_job_new() was given. The blob is the callee's: it may
   * put another one in place; after a failure it is freed and `*body` is NULL. It may call any
   * function of an engine but clu_engine_free(). CLU_OK, or a code that the function returns within
   * which it was called. Called once a batch, and never by the thread. */
  int (*elements)(void *job, uint64_t first, uint32_t n, int shares, clu_blob **body);
} clu_engine_caller;

/* For the engines of this session, whose owner and thread have these turns. All three are kept as
 * pointers and outlive it. NULL without memory. */
clu_engines *clu_engines_new(clu_session *session, clu_turns *turns,
                             const clu_engine_caller *caller);
/* There is no engine any more, and no thread. Accepts NULL. */
void clu_engines_free(clu_engines *all);
/* The work of the thread while the owner of the turn is elsewhere: it is for clu_turns_begin(),
 * before the first clu_engine_drive_always().
 *
 * It reads results and queues their bytes, sees deaths, sends submitted tasks to nodes that are
 * free, whose bytes are ready, and puts time limits into force. Elements are the caller's: maps
 * wait. It makes nodes where that is needed. It is at work only while submitted tasks need that
 * (all do where there are forwarders), forwarders are in use, a time limit is up, or nodes are to
 * end. While the owner is elsewhere it reads 256 MB, and what had begun to be read; then nodes wait
 * with what follows. */
clu_turns_work clu_engines_work(clu_engines *all);
/* The owner leaves now, and comes back at once: nothing has become urgent by what it has done. */
void clu_engines_back_at_once(clu_engines *all);

/* ---- an engine and its nodes ---- */

/* For `n` nodes, none of which has a part in the work yet. `grace_ns`: that an interrupted task has
 * to end. `most`: tasks remembered. NULL without memory. */
clu_engine *clu_engine_new(clu_engines *all, int n, uint64_t grace_ns, size_t most);
/* Frees it; its jobs stay, closed, and are the caller's. Accepts NULL. */
void clu_engine_free(clu_engine *t);
/* From now on the thread works for it, too. */
void clu_engine_drive_always(clu_engine *t);

enum clu_attach {
  CLU_ATTACHED,
  CLU_ATTACH_DEAD,    /* it has died, or has ended since nobody needed it: it has to be replaced */
  CLU_ATTACH_STOPPED, /* it was told to end */
  CLU_ATTACH_NO_MEMORY
};
/* From now on node `i` (from 0) has its part in the work: enum clu_attach. The node is the
 * caller's, and may be freed at any time but within clu_loop_pump(). */
int clu_engine_attach(clu_engine *t, int i, clu_node *nd);
/* Whether this one has a part, as node `i`, and may get more to do. */
int clu_engine_has(const clu_engine *t, int i, const clu_node *nd);
/* Whether there is any that has a part as node `i`. */
int clu_engine_has_any(const clu_engine *t, int i);
int clu_engine_size(const clu_engine *t); /* nodes, whether they are there or not */
/* Whether all nodes are there and no death is untold. */
int clu_engine_is_whole(const clu_engine *t);
/* Whether each node that is there takes segments: what is sent to all may bring some. */
int clu_engine_shares(const clu_engine *t);
int clu_engine_shares_some(const clu_engine *t); /* whether some node does */
/* Whether the memory of node `i` can be limited, or it is not there. */
int clu_engine_can_limit(const clu_engine *t, int i);
/* From now on this view shows what is done. The engine has a reference to it. NULL: none does. */
void clu_engine_show(clu_engine *t, clu_view *view);
/* How many nodes there should be so that each has work for so many ns. */
double clu_engine_desired(clu_engine *t, uint64_t target_ns);

/* ---- nodes and hosts that nobody needs ---- */

/* From now on its nodes end when they were not in use for so many ns; 0: they stay. */
void clu_engine_end_idle(clu_engine *t, uint64_t after_ns);
/* They are in use now. Whether all are there. */
int clu_engine_use(clu_engine *t);
/* Whether node `i` has ended since nobody needed it. */
int clu_engine_was_idle(const clu_engine *t, int i);

/* Hosts that come and go with the work (R/resize-size.R):
 *
 *   asked for --its nodes are attached--> there --idle for `idle_after`--> told to end -> forgotten
 *       `------ nothing was under way in this cluster for `idle_after` -----^
 *
 * A host is told to end by the end of its control channel. The command that has started it cancels
 * its job if need be: it gets SIGTERM, or the number of the host as a word of its input. Of its
 * nodes none has anything then. To the scheduler they are not there from then on: no death. */
typedef struct clu_engine_host {
  int number;          /* the caller's */
  int first, n;        /* its nodes, from 0 */
  clu_server *server;  /* the engine takes a reference of its own */
  uint64_t command;    /* id of the node that is the command which has started it */
  int task;            /* its number there, if that has started several hosts; else -1 */
  uint64_t idle_after; /* ns */
} clu_engine_host;
/* It was asked for. CLU_OK or CLU_NOMEM. */
int clu_engine_host_asked(clu_engine *t, const clu_engine_host *host);
/* Its nodes are attached. */
void clu_engine_host_there(clu_engine *t, int number);
/* It has ended, or is told to by the caller: it is forgotten. */
void clu_engine_host_gone(clu_engine *t, int number);
/* Ends those that have been idle for as long as they may. */
void clu_engine_end_idle_hosts(clu_engine *t);
/* Hosts that were told to end and are not forgotten: how many; `numbers` (may be NULL): which. */
int clu_engine_ended_hosts(const clu_engine *t, int *numbers);

/* ---- nodes of this machine that come and go with the work, see grow.c ---- */

typedef struct clu_engine_growth {
  int first;           /* so many stay; those with numbers from `first` (from 0) on come and go */
  int most;            /* so many there may be */
  clu_server *server;  /* that forks them; the engine takes a reference of its own */
  int kind;            /* how they start: enum clu_start_kind */
  uint64_t settings;   /* number of the settings that have to be in force there */
  uint64_t idle_after; /* ns without work after which one ends */
} clu_engine_growth;
/* From now on nodes come and go so. */
void clu_engine_set_growth(clu_engine *t, const clu_engine_growth *growth);
/* None comes any more, and those that start are the caller's: clu_engine_take_grown(). */
void clu_engine_end_growth(clu_engine *t);
/* Calls (CLU_K_CALL) that a new node gets before anything else. First those of before are dropped,
 * and nodes that start with them are ended. Then bodies are added, of which the engine takes a
 * reference of its own: CLU_OK or CLU_NOMEM. No node is made until all are there. */
void clu_engine_calls_begin(clu_engine *t);
int clu_engine_add_call(clu_engine *t, clu_blob *body);
void clu_engine_calls_end(clu_engine *t);
/* How many nodes stay: all, where none come and go. */
int clu_engine_first(const clu_engine *t);
/* Tells whether more are wanted, and the fork server has ended or has other settings in force, or
 * calls are missing: the caller has to see to that. */
int clu_engine_growth_is_blocked(const clu_engine *t);
/* A node that has come and is the caller's from now on, `*index` from 0; NULL: none. The one that
 * the caller had there before is of no use. */
clu_node *clu_engine_take_grown(clu_engine *t, int *index);
/* An answer to one of these calls that was an error: the caller's; NULL: none. */
clu_blob *clu_engine_take_failure(clu_engine *t);

/* ---- what hosts have, for tasks that ask for it: needs.c ---- */

typedef struct clu_resources {
  int hosts, kinds;         /* kinds: CLU_KINDS at most */
  const char *const *names; /* by kind */
  const uint32_t *cores;    /* by host */
  const char *const *units; /* of kind `k` at host `h`, at h * kinds + k: their names, with a comma
                               between each two, CLU_UNITS at most; "": there are none */
  const int *host_of;       /* by node, clu_engine_size() of them */
} clu_resources;
/* From now on tasks can ask for some of that; all is copied. To be called before the first job that
 * asks for anything, and again only while no such job is there. CLU_OK or CLU_NOMEM. */
int clu_engine_set_resources(clu_engine *t, const clu_resources *r);
/* What node `i` has of it: an array of one line for each kind, "gpu=0,1", as text that the caller
 * frees by clu_blob_unref(), and before it "cores=2". NULL: nothing, or no memory. */
clu_blob *clu_engine_granted(const clu_engine *t, int i);

/* ---- the budget of cores, see cores.c ---- */

/* From now on it computes with tokens of a budget of `size`, which is in `folder`; 0: without. */
void clu_engine_set_budget(clu_engine *t, int size, const char *folder);
/* A map begins, for which `tokens` were taken: they are the engine's. `own`: it is waited for by a
 * task. Whether that was so before, by another map around this one. */
int clu_engine_map_begins(clu_engine *t, int tokens, int own);
/* `own`: what clu_engine_map_begins() has returned. */
void clu_engine_map_ends(clu_engine *t, int own);

/* From now on no more nodes of this machine compute than there are cores that others leave free, of
 * all engines together; one always may. 0: that does not matter. */
void clu_engines_set_polite(clu_engines *all, int polite);

/* ---- work ---- */

/* A turn ends with an event: it says what the caller has to do. */
enum clu_engine_event {
  CLU_EVENT_NONE,    /* nothing, yet */
  CLU_EVENT_UNCLEAR, /* say of what nodes have ended: clu_engine_is_unclear() */
  CLU_EVENT_DEATHS,  /* hear of deaths: clu_engine_death() */
  CLU_EVENT_NOTES,   /* hear of what was noted: clu_engine_notes() */
  CLU_EVENT_RELAY,   /* repeat what tasks have said: clu_task_job_next_relay() */
  CLU_EVENT_FAILED,  /* hear of failures: clu_task_job_failures() */
  CLU_EVENT_READY,   /* take what is ready: clu_task_job_let_go() */
  CLU_EVENT_DONE,    /* all tasks of the job have ended */
  CLU_EVENT_NO_NODE, /* no node is there that may do it */
  CLU_EVENT_TIME_UP
};

/* One turn: deaths are seen, limits come into force, decisions are carried out, endings are taken.
 * CLU_OK, or what `elements` has returned: then the batch waits again. */
int clu_engine_turn(clu_engine *t);
/* Says what the caller has to do that waits for `j` (may be NULL), of whose failures `known` are
 * known to the caller. */
int clu_engine_event(const clu_engine *t, const clu_task_job *j, size_t known);

typedef struct clu_engine_wait {
  uint64_t deadline;
  int interrupts; /* the caller is to look whether it is interrupted */
  /* the engine's */
  uint64_t checked, spin_end;
  int64_t quick;
} clu_engine_wait;
/* For turns until `deadline`. Reads what has come. `may_spin`: whether it may wait awake. */
void clu_engine_wait_begin(clu_engine_wait *w, clu_engine *t, uint64_t deadline, int may_spin);
/* Between two turns: waits until something comes, CLU_SLICE at most. CLU_OK; CLU_TIMEOUT: the
 * deadline has passed; else the loop has failed. */
int clu_engine_await(clu_engine_wait *w, clu_engine *t, const clu_task_job *j, clu_err *e);

/* A turn in passing, as submitting a task does it: sends what can be sent by what is known, and
 * looks for more now and then. As clu_engine_turn(). */
int clu_engine_pass(clu_engine *t);
/* Puts limits of memory into force where they have changed, and ends nodes that have too much and
 * that nobody else can end. */
void clu_engine_limit_memory(clu_engine *t);
/* Takes what is in the nodes' rings, whether they have told of it or not. Whether anything was. */
int clu_engine_take_rings(clu_engine *t);

/* ---- deaths ---- */

/* From now on tasks of all engines together may have so many bytes, and no more than the system has
 * left; 0: what it has left; -1: nobody looks. */
void clu_engines_set_memory(clu_engines *all, int64_t bytes);
int64_t clu_engines_memory(const clu_engines *all);
/* This tells what was found out about the memory of tasks. */
typedef struct clu_room_use {
  int64_t limit;     /* bytes that all may have; 0: not known */
  int64_t expected;  /* that one of its tasks takes; 0: not known */
  int64_t peak;      /* the most that one had; 0: not known */
  uint64_t short_ns; /* for so long not all of them could be at work */
  double went;       /* so many were, meanwhile, */
  int width;         /* of so many nodes that had one */
} clu_room_use;
clu_room_use clu_task_job_room_use(const clu_task_job *j);
clu_room_use clu_engine_room_use(const clu_engine *t); /* of all its jobs */
/* Tells whether a node is stopped, since memory is short. */
int clu_engine_is_held(const clu_engine *t, int i);

/* Why a node was ended that is of no more use. */
enum clu_kill {
  CLU_NOT_KILLED,
  CLU_KILL_NO_REACTION, /* time was up, and it did not react */
  CLU_KILL_CORRUPT,     /* it sent what makes no sense */
  CLU_KILL_NO_MEMORY,   /* there was no memory for what it was to be sent */
  CLU_KILL_YIELD,       /* others had to have its memory: the start of its task is no try */
  CLU_KILL_NO_ROOM      /* its task took more than there is: that is not tried again */
};

typedef struct clu_death {
  int index;                /* of the node, from 0 */
  int cause;                /* the number of the death */
  int over_memory;          /* it had more than it may */
  int killed;               /* enum clu_kill */
  uint64_t at;              /* when it was found out */
  uint64_t job, element;    /* what it was at; 0: nothing that anybody wants */
  int has_begun;            /* something, since it came up */
  uint64_t memory;          /* bytes that it had; 0: not known */
  char copy[CLU_COPY_TEXT]; /* see clu_node_last_copy(); "": it has made none */
  uint64_t room;            /* bytes that all may have, where that was too little; else 0 */
} clu_death;
/* Deaths of which the caller was not told yet; the k-th (from 0), a copy; the first `n` were told.
 */
size_t clu_engine_deaths(const clu_engine *t);
clu_death clu_engine_death(const clu_engine *t, size_t k);
void clu_engine_deaths_told(clu_engine *t, size_t n);

/* From now on the caller is asked of what nodes have ended that may be somebody else's doing. It
 * answers by clu_engine_tell_end(). Until then such a death is none, and what the node had stays
 * with it. About hosts that are cut off it is not asked again before `again`. */
void clu_engine_ask(clu_engine *t, uint64_t again);
/* Whether the caller is asked about node `i`: as it has ended, or as it is cut off (`cut`). */
int clu_engine_is_unclear(const clu_engine *t, int i, int cut);
/* The caller tells how node `i` has ended: whether the starts of its tasks count as tries. */
void clu_engine_tell_end(clu_engine *t, int i, int counts);

/* ---- notes and news ---- */

/* Notes tell the caller what is no news for those who wait for a task. */
enum clu_note_kind {
  CLU_NOTE_LIMIT,     /* a task took longer than it may */
  CLU_NOTE_RETRY,     /* one whose node has died was given to another */
  CLU_NOTE_CUT,       /* a node cannot be reached */
  CLU_NOTE_RESUME,    /* it can again */
  CLU_NOTE_IDLE,      /* all nodes were told to end, since nobody needed them */
  CLU_NOTE_GROWN,     /* a node has come as tasks waited */
  CLU_NOTE_SHRUNK,    /* one of these was told to end, since nobody needed it */
  CLU_NOTE_NOT_GROWN, /* one could not start */
  CLU_NOTE_RENEW      /* memory is short, and an idle one was told to end: another is wanted */
};
typedef struct clu_note {
  int what, node;        /* enum clu_note_kind; -1: all nodes */
  uint64_t job, element; /* 0: none */
  uint32_t attempt;
  uint64_t at;
} clu_note;
/* Returns what was noted since clu_engine_notes_told(): the engine's, until that is called again.
 */
const clu_note *clu_engine_notes(const clu_engine *t, size_t *n);
void clu_engine_notes_told(clu_engine *t);

/* Numbers of awaited jobs that have ended since clu_engine_news_told(): the engine's. `*all`:
 * something has happened that may concern any that is awaited. */
const uint64_t *clu_engine_news(const clu_engine *t, size_t *n, int *all);
void clu_engine_news_told(clu_engine *t);
/* ns after which there is something to do although nothing is heard; INT64_MAX: nothing. */
int64_t clu_engine_idle_wait(const clu_engine *t);

/* ---- jobs ---- */

typedef struct clu_task_spec {
  uint64_t n; /* tasks */
  int bare;   /* one task without an element */
  uint32_t retries, chunk;
  uint64_t timeout_ns;
  double max_memory;    /* bytes; 0: no limit */
  int priority;         /* see CLU_PRIORITY_MOST */
  const uint32_t *seed; /* six: the stream of the first task; NULL: it has none */
  const int *only;      /* `nonly` numbers of nodes, from 1, that may do it; NULL: all */
  size_t nonly;
  const clu_need *needs; /* `nneeds` of what its tasks ask for; NULL: for nothing */
  uint32_t nneeds;
  const uint32_t *need_of; /* by task: which of these; NULL: the first */
} clu_task_spec;
/* A job. `message`: the JOB message, its own from now on, also on failure. `caller`: for
 * clu_engine_caller. NULL without memory. */
clu_task_job *clu_task_job_new(clu_engine *t, const clu_task_spec *spec, clu_blob *message,
                               void *caller);
/* Another stream, of a job that has not begun. */
void clu_task_job_seed(clu_task_job *j, const uint32_t seed[6]);
/* Returns that stream, six numbers; NULL: its tasks have none of their own. */
const uint32_t *clu_task_job_stream(const clu_task_job *j);
/* Gives a name to a job that has not begun. CLU_OK or CLU_NOMEM. */
int clu_task_job_name(clu_task_job *j, const char *label);
typedef struct clu_task_recorded {
  uint32_t number; /* of its JOB record */
  /* Of tasks that use random numbers, but have no stream: where they stand takes its place. The
   * first of them is number `first` of run `run` of the map. */
  uint32_t run;
  uint64_t first;
  int draws; /* all of them count as if they used random numbers */
  int only;  /* values are for the journal: the caller gets those of tasks that have failed */
} clu_task_recorded;
/* What stands in the key of task `task` in place of a stream. */
void clu_task_place(uint32_t out[6], const clu_task_recorded *as, uint64_t task);
/* Of a job that has not begun: from now on its results are recorded in `file`, of which it has a
 * reference until it is closed, in records that have the keys of its tasks (`keys`: CLU_HASH bytes
 * each) and as `as` says. Tasks with a flag in `done` have ended before,
 * and their values are with the caller. Both arrays are by malloc(), one for each task, and the
 * job's from now on, also on failure. CLU_OK or CLU_NOMEM.
 *
 * What is recorded is flushed 20 ms later at the most while somebody takes turns, and before the
 * caller gets it. Where the journal takes nothing more, results come as without: the caller asks
 * clu_journal_error(). */
int clu_task_job_record(clu_task_job *j, clu_journal *file, unsigned char *keys,
                        unsigned char *done, const clu_task_recorded *as);
/* One of these has failed before; its value says how. */
void clu_task_job_fail_before(clu_task_job *j, uint64_t task, uint32_t attempt);
/* A job of one task without an element, which has not begun, has one more argument: `body`, as a
 * RESULT message has it. CLU_OK or CLU_NOMEM. */
int clu_task_job_give(clu_task_job *j, clu_blob *body);
/* The same: the value of another task, of whatever engine, which has not ended. It waits for that,
 * and ends with CLU_CAUSE_NEEDED where there will be none. CLU_OK, CLU_NOMEM, or CLU_DEAD: that
 * task has ended. */
int clu_task_job_await_value(clu_task_job *j, clu_task_job *from);
#define CLU_CAUSE_NEEDED INT32_MIN
/* One of them there will never be: it ends so when it is begun. */
void clu_task_job_lacks(clu_task_job *j);
/* The scheduler has it from now on. CLU_OK or CLU_NOMEM. */
int clu_task_job_begin(clu_engine *t, clu_task_job *j);
/* Gives it up: who is at it is interrupted. Whether tasks were left. */
int clu_task_job_cancel(clu_task_job *j);
/* No node is left and none can be had: tasks that wait fail with this cause. */
void clu_task_job_fail_pending(clu_task_job *j, int cause);
/* It is over: nodes and scheduler forget it. */
void clu_task_job_close(clu_task_job *j);
/* Nobody needs it any more: it is closed, if it is not, and freed, now or when the function of the
 * engine returns that is at it. */
void clu_task_job_release(clu_task_job *j);
/* The same of a job whose engine must not be touched: its process has another one. */
void clu_task_job_forget(clu_task_job *j);

/* The engine that works at it; NULL: it has not begun, or is closed. */
clu_engine *clu_task_job_engine(const clu_task_job *j);
void *clu_task_job_caller(const clu_task_job *j);
uint64_t clu_task_job_number(const clu_task_job *j);
uint64_t clu_task_job_size(const clu_task_job *j); /* tasks */
/* "": nobody has said. As long as the job is there. */
const char *clu_task_job_label(const clu_task_job *j);
/* When the last of its tasks that have ended did. */
uint64_t clu_task_job_finished(const clu_task_job *j);
typedef struct clu_task_counts {
  uint64_t left, waiting, answered; /* tasks: not ended; with no node; answered */
  uint64_t time_ns;                 /* of one, as measured */
  uint64_t bytes_out, bytes_in;     /* of batches and results */
  size_t failures;
} clu_task_counts;
clu_task_counts clu_task_job_counts(const clu_task_job *j);
/* Bytes of what each node gets once. */
size_t clu_task_job_message_size(const clu_task_job *j);
/* The same with what its segments have. */
size_t clu_task_job_message_weight(const clu_task_job *j);

/* The next of the results that have come. The bytes of small ones are copied to `small`, which has
 * room for CLU_RING_MOST; else `body` has them after CLU_RESULT_HEAD bytes and is the caller's. 0:
 * there is none. */
typedef struct clu_task_result {
  uint64_t task;
  uint32_t flags; /* CLU_RESULT_... of core/wire/task-message.h */
  clu_blob *body; /* NULL: it was small */
  size_t size;    /* in `small` */
} clu_task_result;
int clu_task_job_next_result(clu_task_job *j, unsigned char *small, clu_task_result *out);
/* The caller has the value of this task. */
void clu_task_job_has_value(clu_task_job *j, uint64_t task);
/* Whether a task has ended and its value, if it has one, is with the caller. */
int clu_task_job_has_ended(const clu_task_job *j, uint64_t task);
/* How many tasks at the beginning have. */
uint64_t clu_task_job_ready(clu_task_job *j);
/* Whether it has failed. */
int clu_task_job_has_failed(const clu_task_job *j, uint64_t task);
/* Whether some result or failure of it was lost for want of memory. */
int clu_task_job_is_incomplete(const clu_task_job *j);

/* Of a job that has not begun: its results are wanted in the order of its tasks. Where results that
 * have come and were not let go have more than `most` bytes, only the task that is next is handed
 * out. CLU_OK or CLU_NOMEM. */
int clu_task_job_in_order(clu_task_job *j, uint64_t most);
/* So many tasks at the beginning are done with; how many are. */
void clu_task_job_let_go(clu_task_job *j, uint64_t n);
uint64_t clu_task_job_gone(const clu_task_job *j);

typedef struct clu_task_failure {
  uint64_t task;
  int why, cause, node; /* why: enum clu_end; CLU_END_ANSWER: its value is an error */
  uint32_t attempt;
  clu_blob *stack; /* the calls in which it was interrupted, see CLU_K_CANCELLED; NULL: not known */
} clu_task_failure;
/* The job's, until it fails once more. */
const clu_task_failure *clu_task_job_failures(const clu_task_job *j, size_t *n);

/* The next piece of live output or condition: 1, and the body is the caller's (it may be NULL). */
int clu_task_job_next_relay(clu_task_job *j, uint64_t *task, clu_blob **body);
int clu_task_job_has_relay(const clu_task_job *j);
/* From now on its conditions go to a handler, while anything waits. */
void clu_task_job_hear(clu_task_job *j);
/* Its handler is at work from now on, or not any more. What comes meanwhile is no news for who
 * waits. */
void clu_task_job_hearing(clu_task_job *j, int now);
/* The jobs of which something has come for their handler: the first, and the one after `j`. */
clu_task_job *clu_engine_next_unheard(const clu_engine *t, const clu_task_job *j);

/* It is waited for while the caller is idle: clu_wake() when it has ended. CLU_OK or CLU_NOMEM. */
int clu_task_job_await(clu_task_job *j);

/* ---- what is known of the work ---- */

uint64_t clu_engine_open(const clu_engine *t); /* tasks of all jobs that have not ended */
size_t clu_engine_jobs(const clu_engine *t);   /* that are not closed */
/* When the first of the jobs was begun that have tasks left; 0: there is none. */
uint64_t clu_engine_open_since(const clu_engine *t);
/* The engine's, until something ends. */
const clu_trace *clu_engine_trace(const clu_engine *t);
/* Memory of the nodes over time, up to now. The engine's. */
const clu_memory_history *clu_engine_memory(clu_engine *t);

/* The engine in which a node has its part; NULL: none. */
clu_engine *clu_engine_of(const clu_node *nd);
/* Says what a node is at: the number that its task has there, 0: none. `*since`: when that could
 * begin, 0: not known. `*job`: NULL: nobody wants it; `*task`: from 0. */
uint64_t clu_engine_at_hand(const clu_node *nd, clu_task_job **job, uint64_t *task,
                            uint64_t *since);
/* The number of the element that task `task` has; 0: the job has none. */
uint64_t clu_task_job_element(const clu_task_job *j, uint64_t task);

#endif
