/* The fork server's side: it forks nodes from itself, reaps them, tells the session how each ended,
 * delivers cancels, and ends all of them when the session's end of the control channel closes.
 *
 * One process, one thread, one supervisor. It runs on an event loop (core/loop/event-loop.h) that
 * watches the control channel and the signals of ended children, and has timers for what has a
 * time: the end of a stop's grace, checks of the nodes' memory, searches for orphans, the idle
 * limit.
 *
 * clu_supervisor_serve() is the only function that blocks. It returns for what the core cannot do
 * itself: settings to be applied (R code), and the child's own way after a fork.
 *
 * A node whose start was asked for as CLU_START_KEPT is started again when its process has died,
 * whatever the session does meanwhile: it may be at work elsewhere. At once when the process has
 * lived for a second, else after a pause that grows to 5 s. That ends when the node says
 * clu_boot_set_done(), or the session wants it to stop.
 *
 * It keeps the views of the session's clusters (core/view/view.h) for observers: children, which it
 * forks for each who connects to its Unix-domain socket, and which it ends with itself. They are no
 * nodes. An observer that ends is of no concern to it.
 *
 * A node in the supervisor's table is in one of three states: alive; alive with a time at which it
 * is killed (it was told to stop); ended and not yet reaped. It leaves the table when it is reaped.
 *
 * Memory. A fork costs what its page tables hold, and each page that is written to afterwards is
 * copied once. So the struct is to be static, not on the heap; between two forks only it, the slab
 * (core/base/slab.h) and the table of nodes are written to. The forked child closes descriptors and
 * frees nothing.
 *
 * Ends. stop_cluster(): idle nodes get DONE and end, busy ones are killed at once, and after 2 s
 * the supervisor kills the rest. A cluster that is garbage ends in the same way, without a wait.
 * A fork server that was idle too long sends BYE and ends. When the session ends, the control
 * channel closes, and the supervisor kills and reaps every node; if R code runs in the fork
 * server then, SIGTERM at the parent's end does it (Linux). A server that stays (stay.h) has no
 * parent to follow: it ends its nodes as any, waits for another session, and ends when its time is
 * over, or at SIGTERM. When the fork server is killed, each node gets SIGTERM from the system
 * (Linux), and the next cluster or map starts a new server. When a connection to a TCP node
 * breaks, that node ends within 2 s.
 */
#ifndef CLUTCH_SUPERVISOR_H
#define CLUTCH_SUPERVISOR_H

#include "core/base/os.h"
#include "core/loop/event-loop.h"
#include "core/shm/node-memory.h"
#include "core/view/view.h"
#include "core/supervisor/boot.h"
#include "core/wire/channel.h"

struct clu_sv_node;
struct clu_sv_kept;

/* Why all has ended. */
enum clu_sv_why {
  CLU_SV_LEFT,  /* the session has ended, needs it no more, or did nothing for too long */
  CLU_SV_ASKED, /* the session wants this process to end */
  CLU_SV_SIGNAL /* CLU_SIG_TERM came */
};

enum { CLU_SV_VIEWS = 64, CLU_SV_OBSERVERS = 32, CLU_SV_SPARE = 1024 };
typedef struct clu_sv_view {
  uint64_t number; /* of the cluster in its session */
  clu_fd fd;
} clu_sv_view;

typedef struct clu_sv_options {
  clu_fd control;    /* the control channel; the supervisor takes it over */
  const char *tmp;   /* own temporary folder: that of a node is made in it */
  char *const *exec; /* program and arguments of a node started by exec, NULL-terminated; kept as a
                        pointer */
  uint64_t idle_ns;  /* without nodes for so long it ends; 0: it does not */
} clu_sv_options;

/* The caller's memory; what is in it is the supervisor's. Must not move. */
typedef struct clu_supervisor {
  clu_loop loop;
  clu_chan chan;
  clu_watch_id control;
  clu_fd signals;        /* readable when a child ended or CLU_SIG_TERM came */
  clu_watch_id children; /* the watch of `signals` */
  int closed;            /* the session has gone, or wants all to end */
  int why;               /* then: enum clu_sv_why */
  struct clu_sv_table *table;
  struct clu_sv_node *nodes; /* in the table */
  int n;
  struct clu_sv_kept *kept; /* nodes that are started again when they have died */
  int nkept;
  size_t cap_kept;
  struct clu_sv_gone *gone; /* folders of nodes that have ended, to be removed */
  int ngone;
  size_t cap_gone;
  clu_shared *shared; /* with the nodes; the session gets its descriptor with READY */
  clu_fd slots_fd;
  clu_fd output, errors; /* become 1 and 2 of the nodes that follow; CLU_NO_FD: as this process's */
  clu_sv_view views[CLU_SV_VIEWS];
  int nviews;
  clu_pid observers[CLU_SV_OBSERVERS];
  int nobservers;
  clu_fd listener, caller; /* where they are asked for; who has asked, CLU_NO_FD: nobody */
  clu_watch_id listener_watch;
  char listener_path[108];
  int owns_folder; /* in which that is */
  uint64_t listener_id[2];
  char *tmp;
  uint64_t folders;             /* how many names there were for folders of nodes */
  uint64_t spare[CLU_SV_SPARE]; /* numbers of these names: nodes have left an empty folder */
  int nspare;
  uint64_t forks; /* how many there were, see MANY_FORKS */
  char *const *exec;
  uint64_t idle_ns;
  uint64_t family;   /* of its nodes' marks, see orphans.h */
  char *oom_file;    /* see clu_supervisor_count_oom(); NULL: nothing is told */
  int64_t oom_kills; /* as it says, less those that are no death's cause yet */
  uint64_t memory_checked, orphans_checked; /* when */
  clu_timer idle, memory, orphans;
  clu_timer again;    /* at the earliest time at which a kept node is started again */
  clu_timer removals; /* a while after many nodes have ended: their folders are removed */
  clu_timer kills;    /* at the earliest time at which a node is to be killed */
  clu_timer listens;  /* armed while the listener is paused */
} clu_supervisor;

enum clu_sv_what {
  CLU_SV_SETTINGS, /* ev.msg: apply it, then clu_supervisor_answer() */
  CLU_SV_SETUP,    /* the same for the first message */
  CLU_SV_CHILD,    /* this process is a node now: ev.node */
  CLU_SV_OBSERVER, /* it is an observer: ev.node.fd is the connection to who asks */
  CLU_SV_END       /* the session has ended or has said so, see ev.why: nodes have ended. End this
                      process, or let it serve another session: fini, then init */
};

typedef struct clu_sv_event {
  int what;
  clu_msg msg; /* the body is the caller's */
  clu_boot node;
  int why; /* enum clu_sv_why */
} clu_sv_event;

/* CLU_OK, CLU_NOMEM, CLU_LIMIT, CLU_SYS; then clu_supervisor_fini() frees what there is. */
int clu_supervisor_init(clu_supervisor *sv, const clu_sv_options *how, clu_err *e);
/* Blocks until there is something for the caller to do. CLU_OK, or CLU_SYS when waiting failed. */
int clu_supervisor_serve(clu_supervisor *sv, clu_sv_event *ev, clu_err *e);
/* From now on who connects to `path` gets an observer. A file that is left over there is removed.
 * `owns_folder`: at the end the folder is removed, too, if nobody else has a file there. Others may
 * do that at any time before this one has a file there: then it is CLU_SYS. CLU_OK, CLU_SYS,
 * CLU_LIMIT. */
int clu_supervisor_listen(clu_supervisor *sv, const char *path, int owns_folder, clu_err *e);
/* Queues an answer, which the next serve() sends. CLU_OK or CLU_NOMEM. */
int clu_supervisor_answer(clu_supervisor *sv, uint8_t kind, uint64_t seq, const void *p, size_t n);
/* From now on the deaths by CLU_SIG_KILL are told for which the system's out-of-memory killer may
 * be the cause. `file` has a line "oom_kill" with how often it was at work. CLU_OK or CLU_NOMEM. */
int clu_supervisor_count_oom(clu_supervisor *sv, const char *file);
/* How many nodes are to be forked next. It is forgotten with the next settings. */
void clu_supervisor_expect(clu_supervisor *sv, uint64_t n);
/* Whether a node with a number from `from` to `to` may be started again. */
int clu_supervisor_keeps(const clu_supervisor *sv, uint64_t from, uint64_t to);
/* Closes and frees what belongs to the supervisor. Nodes that still run are not its concern. */
void clu_supervisor_fini(clu_supervisor *sv);

#endif
