/* A view: what the session shows of a cluster to other processes, in shared memory. The session
 * writes it, on the way of its work and without a system call or lock; observers, forked from a
 * fork server, read it at any time, also while the session computes, hangs or is stopped.
 *
 * One writer: who has the turn at the session (core/loop/turns.h). But what is said of other hosts
 * and what their nodes use is written by the link process (core/link/views.h), and only while
 * observers say that they look (`watched`). Numbers are single words, so
 * none is ever half written. What has several words is in a ring, or has a version that is odd
 * while it is being written; a reader that meets an odd or a changed one reads again, and gives up
 * after some tries: the writer may have been stopped half-way.
 *
 * Ownership. A clu_view is counted: the cluster has a reference and so has each of its nodes. The
 * last one unmaps the memory and closes the descriptor. The memory has no name in a file system.
 * Pages that nobody has written to take no room. All functions accept a view that is NULL and then
 * do nothing: without memory for it, all else works. Nothing here blocks.
 */
#ifndef CLUTCH_VIEW_H
#define CLUTCH_VIEW_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/os.h"
#include "core/shm/activity.h"
#include "core/shm/stacks.h"

enum {
  CLU_VIEW_NODES = 16384,
  CLU_VIEW_HOSTS = 1024,
  CLU_VIEW_STACKS = 1024, /* the first nodes, where they are on other hosts */
  CLU_VIEW_BATCHES = 16,  /* of a node, the last that it was given */
  CLU_VIEW_MAPS = 64,     /* jobs of several tasks: the last */
  CLU_VIEW_JOBS = 256,    /* these, and the last of one task */
  CLU_VIEW_TASKS = 4096,  /* that have ended, the last */
  CLU_VIEW_EVENTS = 256,  /* the last */
  CLU_VIEW_ACTORS = 64,   /* the last */
  CLU_VIEW_TEXT = 64,
  CLU_VIEW_LABEL = 96,
  CLU_VIEW_STORY = 256,
  CLU_VIEW_NAME = 512
};

typedef _Atomic uint64_t clu_word;

enum clu_view_state {
  CLU_VIEW_ABSENT, /* there is no such node (yet) */
  CLU_VIEW_STARTING,
  CLU_VIEW_READY,
  CLU_VIEW_LOST,
  CLU_VIEW_STOPPED,
  CLU_VIEW_HELD /* its process is stopped for a while, since memory is short */
};

/* Tasks seq ... seq + n - 1 of a node are those first ... first + n - 1 of this job. */
typedef struct clu_view_batch {
  clu_word seq, n, job, first;
} clu_view_batch;

typedef struct clu_view_node {
  clu_word state; /* enum clu_view_state */
  clu_word pid;
  clu_word slot;    /* in the memory that nodes of its fork server share, and 1; 0: none */
  clu_word server;  /* pid of that server, or of the session if that has started it */
  clu_word host;    /* number in the table of hosts */
  clu_word deaths;  /* how often one here has ended unasked */
  clu_word waiting; /* requests and tasks that it has; of one without a slot */
  clu_word changed; /* when that number, or the state, changed last */
  clu_word done, failed;
  clu_word sent, received; /* bytes of tasks, of results */
  clu_word nbatches;       /* so far */
  clu_view_batch batch[CLU_VIEW_BATCHES];
  clu_word id; /* its number in the session */
  /* the link process's, of a node on another host */
  clu_word far;       /* place of its host in the table of these, and 1; 0: nothing is known */
  clu_word cpu;       /* thousandths of a core, and 1; 0: not known */
  clu_word memory;    /* bytes of its own, and 1; 0: not known */
  clu_word at_hand;   /* number of the request or task that it is at; 0: none */
  clu_word since;     /* when that began, by this host's clock */
  clu_word passed_on; /* the last question for its R calls that its host was sent */
  /* the session's again: what this task, the last that was given any, has of its host */
  clu_word given_version, given_job, given_task;
  char given[CLU_VIEW_TEXT];
} clu_view_node;

enum clu_view_host_state {
  CLU_VIEW_HOST_WAITING,
  CLU_VIEW_HOST_UP,
  CLU_VIEW_HOST_CUT,
  CLU_VIEW_HOST_ENDED
};

/* Another host, as its link process knows it. */
typedef struct clu_view_far {
  clu_word number; /* in the link process; 0: no host has this place */
  clu_word state;  /* enum clu_view_host_state */
  clu_word host;   /* number in the table of hosts */
  clu_word asked;  /* when the last question left that was answered; 0: none was */
  clu_word load;   /* thousandths of a process; this and the next two UINT64_MAX: not known */
  clu_word memory, memory_free; /* bytes */
  clu_word trip;                /* ns to there and back */
  clu_word received, sent;      /* bytes, of all kinds */
} clu_view_far;

typedef struct clu_view_job {
  clu_word version;
  clu_word number, total, began;
  clu_word ended;   /* when; 0: it goes on */
  clu_word waiting; /* that no node has */
  clu_word done, failed, retries;
  char label[CLU_VIEW_LABEL];
} clu_view_job;

typedef struct clu_view_task {
  clu_word job, task, began, took, node;
  clu_word ok;
} clu_view_task;

typedef struct clu_view_event {
  clu_word version;
  clu_word at; /* clu_os_now() */
  clu_word node;
  char kind[16];
  char text[CLU_VIEW_STORY];
} clu_view_event;

/* Where an actor of the cluster is: what it does is in its own memory. */
typedef struct clu_view_actor {
  clu_word version;
  clu_word number; /* in the session; 0: none is here */
  char name[CLU_VIEW_NAME];
  char label[CLU_VIEW_TEXT];
} clu_view_actor;

/* Texts that do not change after the beginning; UTF-8, cut where they are too long. */
typedef struct clu_view_about {
  uint64_t number;  /* of the cluster, in its session */
  uint64_t pid;     /* of the session */
  uint64_t created; /* clu_os_now() */
  uint64_t nodes;
  char r[CLU_VIEW_TEXT], user[CLU_VIEW_TEXT], host[CLU_VIEW_TEXT], strategy[CLU_VIEW_TEXT];
  char folder[CLU_VIEW_STORY]; /* that the user has named for observers, or "" */
} clu_view_about;

typedef struct clu_view_memory {
  clu_view_about about;
  clu_word stopped; /* when the cluster was; 0: it was not */
  clu_word limit;   /* bytes that a node may have; 0: no limit */
  clu_word nhosts, nmaps, nsingles, ntasks, nevents;
  clu_word given, done, failed; /* tasks of all jobs so far */
  clu_word watched;             /* when an observer has looked; written by observers */
  clu_word memory;    /* that the session shares with nodes that it has started: its number there in
                       * the upper half, and its descriptor and 1; 0: there is none */
  clu_word questions; /* for R calls of nodes on other hosts; observers add to it */
  char host[CLU_VIEW_HOSTS][CLU_VIEW_TEXT];
  clu_view_far far[CLU_VIEW_HOSTS];
  clu_view_job job[CLU_VIEW_JOBS];
  clu_view_event event[CLU_VIEW_EVENTS];
  clu_view_actor actor[CLU_VIEW_ACTORS];
  clu_view_task task[CLU_VIEW_TASKS];
  clu_view_node node[CLU_VIEW_NODES];
  /* which R calls nodes of other hosts are in: observers ask, the link process writes */
  clu_stack_word stack_word[CLU_VIEW_STACKS];
  clu_stack stack[CLU_VIEW_STACKS];
} clu_view_memory;

typedef struct clu_view {
  clu_view_memory *memory;
  clu_fd fd; /* CLU_NO_FD: of a reader */
  long refs;
} clu_view;

/* ---- the session's ---- */

/* NULL, and `e` says why, where there is no memory or no descriptor. */
clu_view *clu_view_new(const clu_view_about *about, clu_err *e);
clu_view *clu_view_ref(clu_view *v);
void clu_view_unref(clu_view *v); /* accepts NULL */

/* It is handed to nobody any more: closes its descriptor. */
void clu_view_seal(clu_view *v);

/* Node `i` (from 0) of the cluster; NULL: the view has no room for it. */
clu_view_node *clu_view_node_at(clu_view *v, int i);
/* A node begins there: what is known of the one before is forgotten, but for what both have done.
 */
void clu_view_node_begins(clu_view_node *nd);
/* The number of a host in the table, new or not. */
uint64_t clu_view_host(clu_view *v, const char *name);

static inline void clu_view_set(clu_word *w, uint64_t x) {
  atomic_store_explicit(w, x, memory_order_relaxed);
}
static inline uint64_t clu_view_get(const clu_word *w) {
  return atomic_load_explicit(w, memory_order_relaxed);
}
static inline void clu_view_add(clu_word *w, uint64_t by) { clu_view_set(w, clu_view_get(w) + by); }

/* A job of `total` tasks begins: its place among those that are shown. Later that may be another
 * job's, so what follows names both. */
int clu_view_job_begins(clu_view *v, uint64_t number, uint64_t total, uint64_t now);
/* Gives it a name, at any time before it ends. */
void clu_view_job_label(clu_view *v, int place, uint64_t number, const char *label);
/* It is over, whether its tasks have ended or not. */
void clu_view_job_ends(clu_view *v, int place, uint64_t number, uint64_t now);
/* Tasks leave for a node. `waiting`: how many of their job no node has. `head`: the node's oldest
 * task, which it is at or will be next: its batch keeps its place. */
void clu_view_sent(clu_view *v, int node, const clu_view_batch *batch, uint64_t bytes, int place,
                   uint64_t waiting, uint64_t head);
/* One that leaves for a node has this of its host: "cores=2 gpu=0,1". */
void clu_view_given(clu_view *v, int node, uint64_t job, uint64_t task, const char *text);
/* A task has ended at `node` (-1: at none). */
typedef struct clu_view_end {
  uint64_t job, task, began, took, bytes;
  int place; /* of the job */
  int node, ok;
  uint32_t attempt;
} clu_view_end;
void clu_view_ended(clu_view *v, const clu_view_end *x);
/* `node` from 1; 0: it is about none. */
void clu_view_tell(clu_view *v, const char *kind, int node, const char *text, uint64_t now);

/* An actor begins that belongs to the cluster. `number`: its own, from 1; a place that another one
 * has is this one's then. `name`: by which others open it. */
void clu_view_actor_begins(clu_view *v, uint64_t number, const char *name, const char *label);

/* ---- the reader's ---- */

/* Maps that of a descriptor, which stays the caller's and has as many bytes as clu_view_memory. */
clu_view *clu_view_map(clu_fd fd, clu_err *e);
/* Maps the one that process `pid`, a session of this user's, has by that descriptor. NULL: it is no
 * view of that process, or the system has no way to it. */
clu_view *clu_view_map_of(clu_pid pid, clu_fd fd);
/* Where node `i` is, if that is another host of which the link process tells; else NULL. */
const clu_view_far *clu_view_far_of(const clu_view *v, int i);
/* Asks for the R calls of node `i`, which is on such a host: the number of the question. 0: it has
 * no place for them. */
uint32_t clu_view_ask_stack(clu_view *v, int i);
/* Tells what node `i` is at: 1, and the job and task; 0: that is not known. */
int clu_view_task_of(const clu_view *v, int i, uint64_t seq, uint64_t *job, uint64_t *task);
/* Tells what this task of node `i` was given of its host: 1, and `text`; 0: nothing, or it is not
 * known. */
int clu_view_given_to(const clu_view *v, int i, uint64_t job, uint64_t task,
                      char text[CLU_VIEW_TEXT]);
/* Copies of what is in its ring at place `k`. 0: it was being written each time. */
int clu_view_read_job(const clu_view *v, int k, clu_view_job *out);
int clu_view_read_event(const clu_view *v, int k, clu_view_event *out);
int clu_view_read_actor(const clu_view *v, int k, clu_view_actor *out);

#endif
