/* The state of an engine: what the files of this folder keep, each its own part.
 *
 * Nodes are found by clu_task_node.node, and never by what the caller has of them. That pointer
 * goes when the node is freed or replaced.
 */
#ifndef CLUTCH_ENGINE_STATE_H
#define CLUTCH_ENGINE_STATE_H

#include "core/base/os-memory.h"
#include "core/base/spins.h"
#include "core/sched/sched-room.h"
#include "core/tasks/engine.h"

#define CLU_ROOM_FIRST 20000000 /* ns after something was handed out that room is looked at */

/* What is known of a node's memory. room.c */
typedef struct clu_node_room {
  int64_t base;   /* bytes without a file behind them, before its first task; -1: not known */
  int64_t has;    /* bytes that it has more, when it was last looked at, */
  int64_t copied; /* and of those that it had in common with its fork server, about */
  int64_t most_copied, given; /* at most; pages that it was given before, in bytes */
  int64_t peak;               /* the most that the task at hand has had; 0: nobody has looked */
  uint64_t head;              /* that task */
  int64_t mark;               /* what it had when it was seen to grow last, or to have less, */
  uint64_t grew;              /* when that was; 0: it has not grown since its task began */
  int grows;                  /* it had more a short time ago */
  int held;                   /* it is stopped, */
  int64_t held_with;          /* with so many bytes */
  int collects; /* it was told to give back what it does not need, and has got nothing since */
  int is_asked; /* it was found out how much it keeps while it has nothing to do */
} clu_node_room;

/* Says whether the starts of tasks at a node that has ended count as tries: see
 * clu_engine_tell_end(). */
enum clu_end_excuse { CLU_EXCUSE_UNKNOWN, CLU_NOT_EXCUSED, CLU_EXCUSED };

typedef struct clu_task_node {
  clu_engine *engine;
  int index;
  uint64_t id;     /* of the node that the scheduler knows of; 0: none */
  clu_node *node;  /* that one; NULL: it is gone */
  uint64_t closed; /* when it was first seen closed; 0: it was not */
  int cut;         /* whether it could be reached when that was looked at: enum clu_reach */
  int over_memory; /* it had more than it may */
  int killed;      /* enum clu_kill: ended by the session */
  uint64_t asked;  /* the task it was to give up, about which its host was asked once more */
  int excuse;      /* enum clu_end_excuse */
  int idle;        /* it was told to end since nobody needed it: who needs it gets another */
  int64_t memory;  /* what it had then, where the session has asked */
  uint64_t early;  /* a record in its ring whose turn has not come; 0: none */
  uint64_t early_since;
  clu_node_room room;
  /* of those that come and go with the work: grow.c */
  clu_node *grown; /* that the engine has made and the caller has not taken; NULL: none */
  uint64_t came;   /* when it was asked for, or had its part in the work */
  int is_starting; /* it has not got that yet */
  int is_absent;   /* there is none, and one may be made */
  int is_kept;     /* so many ask that it stays: kept.h */
  int gives_way;   /* it has the lowest priority, */
  int nice;        /* and had this one before */
} clu_task_node;

/* What is recorded of a job. record.c */
typedef struct clu_recording {
  clu_journal *file;
  unsigned char *keys; /* CLU_HASH bytes a task */
  unsigned char *done; /* until it is begun; a flag a task */
  clu_task_recorded as;
  int nodes;
  struct clu_recorded_stream { /* by node: the random stream of one of its tasks */
    uint64_t task;
    uint32_t seed[6];
  } * streams;
} clu_recording;

/* Bytes that have come of a task, queued until the caller asks for them. */
typedef struct clu_queued {
  struct clu_queued *next;
  uint64_t task;
  uint32_t flags;
  clu_blob *body;
} clu_queued;
typedef struct clu_queue {
  clu_queued *first, *last;
} clu_queue;

/* Peaks of tasks, and how they fared: of a job of several tasks, or of all that an engine does. Of
 * these only tasks of jobs of one are in `peaks`. room.c */
typedef struct clu_job_room {
  clu_peaks peaks;
  int64_t seen;      /* the most that one of those at work has */
  uint64_t round;    /* of looking, when that was */
  int64_t top;       /* the most that one has had */
  int going, held;   /* so many nodes at its tasks go on, and are stopped, at the last look */
  int width;         /* the most nodes that had a task of it while memory was short */
  uint64_t short_ns; /* for how long it was short: one of it was stopped, or could not begin */
  double went;       /* nodes that went on meanwhile, times ns */
  int64_t limit;     /* bytes that all may have */
} clu_job_room;

/* Of a job whose results are wanted in order. order.c */
typedef struct clu_job_order {
  uint32_t *sizes; /* by task: of its result, in units; 0: it has none yet. NULL: in any order */
  uint64_t bytes;  /* of those that have come and were not let go */
  uint64_t most;   /* of these, before tasks wait */
  uint64_t gone;   /* so many at the beginning were let go */
} clu_job_order;

/* An argument of a task that is the value of another one. given.c */
typedef struct clu_given {
  clu_task_job *from; /* that one, while it has not ended */
  clu_blob *body;     /* its result, as a RESULT message has it; NULL: it has not come */
} clu_given;
typedef struct clu_job_given {
  clu_given *list;
  size_t n, cap, missing;
  int held;              /* it waits for these: counted in jobs.nheld of its engine */
  int lacks;             /* one of them will never come */
  clu_task_job **takers; /* tasks that need the value of this one */
  size_t ntakers, captakers;
} clu_job_given;

struct clu_task_job {
  clu_task_job *next, *prev; /* in the list of those that are begun */
  void *caller;
  clu_engine *engine; /* NULL: it has not begun, or is closed; and then `job`, too */
  clu_job *job;
  clu_job_spec spec; /* until it is begun */
  clu_need *needs;   /* until it is begun; as in clu_task_spec */
  uint32_t *need_of;
  int says_memory;    /* some task of it says how much it needs */
  int pins, released; /* while the caller makes elements of it, it is not freed */
  uint64_t number;    /* among the engine's */
  uint64_t name; /* at nodes: no two engines of a session have the same one, since their nodes may
                    have a folder in common */
  clu_job_facts *facts; /* NULL: it has neither a label nor begun */
  clu_blob *message;    /* the JOB message; NULL: a task without an element has ended */
  uint64_t *sent_to;    /* by node: id of the one that has that message; 0: none */
  int nsent_to;
  int seeded, bare;              /* bare: one task without an element */
  int counted;                   /* in jobs.nbare of its engine, and in its `queued` */
  clu_task_job *older, *younger; /* and there, as they were begun */
  uint64_t weight;               /* bytes of its message, while it is there */
  uint32_t seed[6];              /* the stream of the first task */
  uint32_t sent_seed[6];         /* that of task `sent_at`, the one sent last, if `sent_at` > 0 */
  uint64_t sent_at;
  double max_memory; /* bytes; 0: no limit */
  clu_job_room room;
  clu_queue results, relays;
  clu_blob *ring_results; /* those that came by way of rings: u64 task, u32 flags, u32 size, and the
                             bytes, each */
  size_t ring_results_at; /* so much of that was taken by the caller */
  clu_task_failure *failures;
  size_t nfailures, capfailures;
  uint64_t answered, bytes_in;
  unsigned char *ended; /* by task: 1: its value is with the caller; 2: it has failed */
  clu_job_order order;
  clu_job_given given;
  int out_of_memory; /* there was none for a result, or a failure */
  uint64_t n, ready; /* tasks; those at the beginning that have all ended */
  int shown;         /* its place in the view of its cluster */
  uint64_t finished; /* when the last of those that have ended did; 0: none has */
  int is_heard;      /* its conditions go to a handler while anything waits */
  size_t unheard;    /* conditions that the handler has not got yet */
  int is_hearing;    /* the handler is at work: what comes meanwhile waits until it returns */
  clu_recording *recording; /* NULL: nothing is recorded */
  int awaited;              /* the caller is to be woken when it has ended: clu_task_job_tell() */
};

/* ---- an engine, by files ---- */

/* jobs.c */
struct clu_engine_jobs {
  clu_task_job *first; /* those that are begun, the last first */
  size_t n;            /* jobs that are begun */
  size_t nmaps;        /* of these, jobs that have elements */
  size_t nrecorded;    /* of these, jobs that have a journal */
  size_t nsaid;        /* of these, jobs that say how much memory they need */
  /* Jobs of one task without an element that are under way: for these the caller is not needed
   * until their result is asked for. `nrestartable` of them have retries. */
  int nbare, nrestartable;
  int nheld;         /* of these, those that wait for the values of others */
  int takes_endings; /* clu_engine_take_endings() is at work */
  size_t unheard;    /* conditions that handlers could get now */
  uint64_t numbers;  /* of jobs so far */
  uint64_t names;    /* these begin behind this one */
};

/* queued.c */
struct clu_engine_queued {
  clu_task_job *oldest, *newest;
  uint64_t bytes;
};

/* notes.c */
struct clu_engine_notes {
  clu_note *list;
  size_t n, cap;
};
struct clu_engine_news {
  uint64_t *ended; /* numbers of awaited jobs that have ended, and of which nobody was told yet */
  size_t n, cap, nawaited;
  int tell_all; /* the caller has to look at each job that it awaits */
};

/* deaths.c */
struct clu_engine_deaths {
  clu_death *list; /* deaths that the caller was not told yet */
  size_t n, cap;
  int causes;         /* of deaths so far */
  int may_be;         /* some node may have ended of which the scheduler does not know */
  int asks;           /* the caller is asked about nodes that a signal or the end of their host may
                         have ended */
  int unclear;        /* it has not told about some of these yet */
  uint64_t ask_again; /* when it is to be asked about hosts that are cut off */
  uint64_t cuts;      /* clu_session_cuts() when the nodes were looked at */
};

/* turn.c */
struct clu_engine_turns {
  uint64_t read; /* when clu_engine_pass() looked at the sockets */
};

/* results.c */
struct clu_engine_rings {
  int any;     /* some node has a ring here, or had */
  int not_all; /* some node has none */
};

/* idle.c */
typedef struct clu_idle_host clu_idle_host;
struct clu_engine_idle {
  uint64_t after;       /* ns without use after which the nodes end; 0: they stay */
  uint64_t used;        /* when they were last in use */
  int is_idle;          /* they have been told to end since then */
  clu_idle_host *hosts; /* those that end when they are idle */
  uint64_t hosts_used;  /* when some job was under way, as far as was looked */
};

/* cores.c */
struct clu_engine_cores {
  int budget;       /* its size; 0: there is none */
  int held;         /* tokens of it that the engine has */
  int own;          /* 1: the core of a task that waits is one more */
  uint64_t fitted;  /* when it was looked at */
  uint64_t asked;   /* when tokens were looked for in vain */
  uint64_t needed;  /* when all were in use */
  char folder[512]; /* where the tokens are */
  int is_elsewhere; /* some node is, or was, on another machine: its cores are not looked at */
};

/* grow.c */
struct clu_engine_grow {
  clu_engine_growth is; /* server NULL: it keeps its size */
  clu_blob **calls;     /* that each new node gets first */
  size_t ncalls;
  int calls_missing;
  clu_blob *failure; /* the answer to one of these that was an error; NULL: none */
  int nstarting;
  int waits;         /* tasks wait, and more nodes may be made */
  int looks;         /* so many in a row have found that more are wanted */
  int is_blocked;    /* the fork server has to be made ready by the caller first */
  uint64_t due;      /* when to look again whether there are enough */
  uint64_t idle_due; /* and whether some have been idle for long enough */
  uint64_t again;    /* none is made before, as some could not start; */
  uint64_t pause;    /* ns that this is the next time */
};

struct clu_engines_polite {
  int cores;       /* of this machine that the session may use; 0: it is not polite */
  int most;        /* so many nodes may compute now */
  uint64_t looked; /* when that was found out, */
  int64_t stalled; /* and what clu_os_cpu_stalled() was then */
  int ever;        /* it is or was polite */
};

/* limits.c */
struct clu_engine_limits {
  double bytes;     /* that a node may have; 0: no limit */
  size_t njobs;     /* so many jobs limit the memory of nodes */
  uint64_t checked; /* when the session looked at nodes whose transport does not see to it */
};

/* needs.c */
struct clu_engine_resources {
  int hosts, kinds; /* 0: none */
  char **names;     /* by kind */
  char **units;     /* as in clu_resources */
  int *host_of;     /* by node */
};

/* room.c */
struct clu_engines_room {
  clu_memory_bounds bounds;
  int bound;        /* the one that leaves least */
  uint64_t turn_of; /* when the task began for which this session has the turn at memory */
  int is_shared;    /* others have part in what that leaves: it is not a bound of the user's */
  uint64_t counted; /* when the sessions that have part were; 0: this one has none */
  uint64_t found;   /* when that was looked for; 0: never */
  uint64_t due;     /* when to look again; 0: when something is handed out */
  uint64_t ended;   /* when a node was ended for want of memory */
  uint64_t waits;   /* since when the oldest task waits for memory of others; 0: it does not */
  int ends;         /* one that was is still there */
  int collects;     /* so many idle nodes have garbage, perhaps, and were told to collect it */
  uint64_t round;   /* how often it was looked */
  uint64_t looked;  /* when that was, while nodes are at work; else 0 */
  int64_t most; /* bytes that tasks may have together, as the user says; 0: any number; -1: nobody
                   looks */
  int cores;    /* that fill memory; 0: not asked */
  clu_room is;  /* as it was the last time */
  clu_room_node *nodes;
  clu_task_node **of; /* of each of these */
  size_t n, cap;
};

struct clu_engine {
  clu_engine *next; /* of all */
  clu_engines *all;
  clu_sched *sched;
  clu_task_node *nodes;
  int n;
  struct clu_engine_jobs jobs;
  struct clu_engine_queued queued;
  struct clu_engine_notes notes;
  struct clu_engine_news news;
  struct clu_engine_deaths deaths;
  struct clu_engine_turns turns;
  struct clu_engine_rings rings;
  struct clu_engine_idle idle;
  struct clu_engine_cores cores;
  struct clu_engine_grow grow;
  struct clu_engine_limits limits;
  struct clu_engine_resources resources;
  clu_job_room room; /* of all its tasks */
  clu_trace trace;
  clu_memory_history memory;
  clu_view *view; /* of the cluster; NULL: there is none. A reference */
};

struct clu_engines {
  clu_session *session;
  clu_turns *turns;
  const clu_engine_caller *caller;
  clu_engine *first;
  uint32_t made;       /* so many engines */
  uint64_t ring_bytes; /* of results that have come by way of rings; results.c */
  clu_spins spins;     /* turn.c */
  struct clu_engines_room room;
  struct clu_engines_polite polite;
  /* away.c */
  int back_at_once;
  uint64_t entries, before; /* of the owner, when it was last seen; bytes read until then */
  int64_t wait;             /* of the thread, the last time */
};

#endif
