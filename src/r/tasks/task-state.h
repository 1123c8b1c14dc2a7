/* What the session knows of the tasks of a cluster: the scheduler's nodes and jobs, and what has
 * come of them.
 *
 * Ownership. A `tasks` belongs to a cluster, as external pointer, whose protected value is the list
 * of the nodes' handles. A `task_job` is one job, an external pointer too; its protected value is a
 * list of five: the nodes' handles, the elements, the values, the logs (NULL: none has come yet),
 * and what hears its conditions (R/task-relay.R; NULL: nobody).
 *
 * Life of a job: made (`tasks` is NULL) -> started -> ended (`tasks` is NULL again, the scheduler
 * has forgotten it). Its results can be asked for until its external pointer is collected.
 *
 * Who has the turn at the session (r/turn.h) may use all this: R's thread, or while that is
 * elsewhere the thread of task-away.c, which must not call R. So whatever is not of R alone, as
 * values and elements are, is found without R: nodes by task_node.node, and not by their handles.
 *
 * Files of this folder, each knows only those before it: wake, memory-history, task-trace <-
 * task-state <- task-results, memory-limit, task-budget, task-send, task-hosts <- task-drive <-
 * task-away <- job-label <- task-life, task-query, task-news; task-options, task-life <-
 * task-submit. Nothing here blocks. Where the session runs out of memory that is remembered in the
 * job (out_of_memory): a result that was lost must not look like NULL.
 */
#ifndef CLUTCH_TASK_STATE_H
#define CLUTCH_TASK_STATE_H

#include "core/sched/scheduler.h"
#include "r/session/session.h"
#include "r/tasks/memory-history.h"
#include "r/tasks/task-trace.h"

typedef struct tasks tasks;
typedef struct task_host task_host;

/* Why a node was ended that is of no more use. */
enum task_kill {
  TASK_NOT_KILLED,
  TASK_KILL_NO_REACTION, /* time was up, and it did not react */
  TASK_KILL_CORRUPT,     /* it sent what makes no sense */
  TASK_KILL_NO_MEMORY    /* there was no memory for what it was to be sent */
};

/* Of a node that has ended: whether its tasks' starts count as tries, see ffi_tasks_ask(). */
enum task_word { TASK_NO_WORD, TASK_COUNTS, TASK_EXCUSED };

typedef struct task_node {
  tasks *tasks;
  int index;
  uint64_t id;     /* of the node that the scheduler knows of; 0: none */
  clu_node *node;  /* that one; NULL: it is gone */
  uint64_t closed; /* when it was first seen closed; 0: it was not */
  int cut;         /* whether it could be reached when that was looked at: enum clu_reach */
  int over_memory; /* it had more than it may */
  int killed;      /* enum task_kill: ended by the session */
  uint64_t asked;  /* the task it was to give up, about which its host was asked once more */
  int word;        /* enum task_word */
  int idle;        /* it was told to end since nobody needed it: who needs it gets another */
  int64_t memory;  /* what it had then, where the session has asked */
  uint64_t early;  /* a record in its ring whose turn has not come; 0: none */
  uint64_t early_since;
} task_node;

/* Bytes that have come of a task, queued until R asks for them. */
typedef struct queued_result {
  struct queued_result *next;
  uint64_t task;
  uint32_t flags;
  clu_blob *body;
} queued_result;
typedef struct result_queue {
  queued_result *first, *last;
} result_queue;

typedef struct task_failure {
  uint64_t task;
  int why, cause, node; /* why: enum clu_end; CLU_END_ANSWER: its value is an error */
  uint32_t attempt;
  clu_blob *stack; /* the calls in which it was interrupted, see CLU_K_CANCELLED; NULL: not known */
} task_failure;

typedef struct task_job {
  struct task_job *next, *prev; /* in the list of those that are started */
  SEXP self;                    /* the external pointer, whose finalizer frees this */
  tasks *tasks;                 /* NULL: it is not started, or ended; and then `job`, too */
  clu_job *job;
  clu_job_spec spec;   /* until it is started */
  int pins, finalized; /* while somebody is at it that R code may interrupt, it is not freed */
  uint64_t number;
  job_facts *facts;  /* NULL: it has neither a label nor begun */
  clu_blob *message; /* the JOB message */
  uint64_t *sent_to; /* by node: id of the one that has that message; 0: none */
  int nsent_to;
  int seeded, bare;  /* bare: one task without an element */
  int counted;       /* in jobs.nbare */
  uint32_t seed[6];  /* the stream of the first task */
  double max_memory; /* bytes; 0: no limit */
  result_queue results, relays;
  clu_blob *ring_results; /* those that came by way of rings: u64 task, u32 flags, u32 size, and the
                             bytes, each */
  size_t ring_results_at; /* so much of that has become values */
  task_failure *failures;
  size_t nfailures, capfailures;
  uint64_t answered, bytes_in;
  unsigned char *ended; /* a flag a task */
  int out_of_memory;    /* there was none for a result, or a failure */
  uint64_t n, ready;    /* tasks; those at the beginning that have all ended */
  int shown;            /* its place in the view of its cluster */
  uint64_t finished;    /* when the last of those that have ended did; 0: none has */
  int is_heard;         /* its conditions go to a handler in R, while anything waits; */
  size_t unheard;       /* so many have come since */
  int is_hearing;       /* the handler is at work: what comes meanwhile waits until it returns */
  int awaited;          /* R is to be woken when it has ended: see clu_job_tell() */
} task_job;

/* What R is to be told of that is no news for who waits for a task. */
enum task_note_kind {
  TASK_NOTE_LIMIT,  /* a task took longer than it may */
  TASK_NOTE_RETRY,  /* one whose node has died was given to another */
  TASK_NOTE_CUT,    /* a node cannot be reached */
  TASK_NOTE_RESUME, /* it can again */
  TASK_NOTE_IDLE    /* all nodes were told to end, since nobody needed them */
};

typedef struct task_note {
  int what, node;
  double job, element; /* as R numbers them; NA: none */
  uint32_t attempt;
  uint64_t at;
} task_note;

/* The death of a node of which R was not told yet. */
typedef struct node_death {
  int index, cause, over_memory, killed;
  uint64_t at;         /* when it was found out */
  double job, element; /* what it was at, as R numbers them; NA: nothing that anybody wants */
  int has_begun;       /* something, since it came up */
  double memory;       /* what it had too much of, in bytes; 0: not known */
} node_death;

/* Each file writes the part that has its name; others read it. */

/* task-state.c */
struct task_jobs {
  task_job *first; /* those that are started, the last first */
  size_t n;        /* so many */
  size_t nmaps;    /* so many of them have elements */
  /* Jobs of one task without an element that are under way: for these no R is needed until their
   * result is asked for. So many of them have retries. */
  int nbare, nrestartable;
  size_t unheard;   /* conditions that handlers in R could get now */
  uint64_t numbers; /* of jobs so far */
};

/* task-state.c: what R is told that waits for tasks while it is idle. */
struct task_news {
  uint64_t *ended; /* numbers of awaited jobs that have, of which R was not told yet */
  size_t n, cap, nawaited;
  int tell_all; /* R has to look at each job that it awaits */
};

/* task-state.c */
struct task_notes {
  task_note *list;
  size_t n, cap;
};

/* task-drive.c */
struct task_deaths {
  node_death *list; /* those that R was not told yet */
  size_t n, cap;
  int causes;         /* of deaths so far */
  int may_be;         /* some node may have ended of which the scheduler does not know */
  int asks;           /* R is asked of what a node has ended that a signal has, or with its host */
  int unclear;        /* some of these wait for its word */
  uint64_t ask_again; /* when R is to be asked about hosts that are cut off */
  uint64_t cuts;      /* clu_session_cuts() when the nodes were looked at */
};

/* task-drive.c */
struct task_drive {
  uint64_t read; /* when clu_tasks_pass() looked at the sockets */
};

/* task-results.c */
struct task_rings {
  int any;     /* some node has a ring here, or had */
  int not_all; /* or has none */
};

/* task-away.c: nodes end that nobody needs. */
struct task_idle {
  uint64_t after; /* ns without use after which the nodes end; 0: they stay */
  uint64_t used;  /* when they were last in use */
  int is_idle;    /* they have been told to end since then */
};

/* task-hosts.c */
struct task_hosts {
  task_host *first; /* those that end when they are idle */
  uint64_t used;    /* when some job was under way, as far as was looked */
};

/* task-budget.c */
struct task_cores {
  int budget;      /* its size; 0: there is none */
  int held;        /* tokens of it that the cluster has */
  int own;         /* 1: the core of a task that waits is one more */
  uint64_t fitted; /* when it was looked at */
  uint64_t asked;  /* when tokens were looked for in vain */
  uint64_t needed; /* when all were in use */
};

/* memory-limit.c */
struct task_limits {
  double bytes;     /* that a node may have; 0: no limit */
  size_t njobs;     /* so many jobs limit the memory of nodes */
  uint64_t checked; /* when the session looked at nodes whose transport does not see to it */
};

struct tasks {
  tasks *next; /* of all */
  clu_sched *sched;
  task_node *nodes;
  int n;
  struct task_jobs jobs;
  struct task_news news;
  struct task_notes notes;
  struct task_deaths deaths;
  struct task_drive drive;
  struct task_rings rings;
  struct task_idle idle;
  struct task_hosts hosts;
  struct task_cores cores;
  struct task_limits limits;
  task_trace trace;
  memory_history memory;
  clu_view *view; /* of the cluster; NULL: there is none. A reference */
};

/* External pointers with nothing behind them yet; and what is behind them, an R error when that is
 * nothing. */
SEXP clu_tasks_handle(SEXP handles, R_CFinalizer_t finalizer);
SEXP clu_job_handle(SEXP prot, R_CFinalizer_t finalizer);
tasks *clu_tasks_get(SEXP x);
task_job *clu_job_get(SEXP x);

/* The node behind the i-th handle; NULL: there is none (any more). */
clu_node *clu_tasks_node(SEXP handles, int i);
/* The node that the scheduler knows of; NULL: there is none (any more). */
static inline clu_node *clu_tasks_known_node(const tasks *t, int i) { return t->nodes[i].node; }
/* Whether each of them takes segments: what is sent to all may bring some. */
int clu_tasks_share(const tasks *t);
/* Ends a node that is of no more use. */
void clu_tasks_kill(clu_node *nd, task_node *at, int why);

/* R is told when it is next at work: the thread of task-away.c may have found it out. Where too
 * much is noted, or there is no memory, the rest is not told. `node`: -1: all; `j`: NULL: none. */
void clu_tasks_note(tasks *t, int what, int node, const task_job *j, uint64_t task,
                    uint32_t attempt);
/* The number of the element, as R has it; NA: the job has none. */
double clu_job_element(const task_job *j, uint64_t task);

/* CLU_OK or CLU_NOMEM. The queue has its own reference to the body (may be NULL). */
int clu_result_push(result_queue *q, uint64_t task, uint32_t flags, clu_blob *body);
/* The oldest: 1, and the body is the caller's. */
int clu_result_take(result_queue *q, queued_result *out);

/* A job of one task is under way; its task has ended, or is wanted no more. */
void clu_job_count(task_job *j);
void clu_job_uncount(task_job *j);
/* A task has ended at that time of this machine's clock. */
void clu_job_finish(task_job *j, uint64_t at);
/* A task has failed. */
void clu_job_fail(task_job *j, const clu_ended *x);
/* How a task has ended: enum task_end. `is_error`: its value is an error. */
int clu_task_end(const clu_ended *x, int is_error);
/* What was done is shown, and remembered for cluster_trace(). `r`: what `x` does not say. */
void clu_tasks_remember(tasks *t, const task_job *j, const clu_ended *x, const task_record *r);
/* Looks at the memory of a node when it is time to. */
void clu_tasks_look_at_memory(tasks *t, uint64_t now);
void clu_tasks_look_at_all_memory(tasks *t);
/* What the job is called: CLU_OK or CLU_NOMEM. It has not begun. */
int clu_job_name(task_job *j, const char *label);
/* What it was called, see job-label.h; "": nobody has said. As long as the job is there. */
static inline const char *clu_job_label(const task_job *j) {
  return j->facts ? j->facts->label : "";
}
/* Tasks that ended without an answer become failures of their jobs. */
void clu_tasks_take_endings(tasks *t);
/* Whether some result or failure of it was lost for want of memory. */
int clu_job_is_incomplete(const task_job *j);

/* While R is idle it waits for news of jobs (clu_wake()). One that is awaited: room for its number,
 * so that nothing can fail when it ends; CLU_OK or CLU_NOMEM. It has news, if it has ended. Any of
 * them may have. */
int clu_job_await(task_job *j);
void clu_job_tell(task_job *j);
void clu_tasks_tell_all(tasks *t);

/* Takes it out of the scheduler. */
void clu_job_detach(task_job *j);
/* Nobody needs it any more: frees it, now or at the last clu_job_unpin(). */
void clu_job_release(task_job *j);
void clu_job_unpin(task_job *j);
void clu_tasks_free(tasks *t); /* accepts NULL */

#endif
