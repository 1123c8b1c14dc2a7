/* The files of the supervisor share these. Each uses only those before it: nodes, kept,
 * observers, deliver, memory, ends, spawn, supervisor. */
#ifndef CLUTCH_SUPERVISOR_PARTS_H
#define CLUTCH_SUPERVISOR_PARTS_H

#include "core/supervisor/supervisor.h"

typedef struct clu_sv_node {
  uint64_t id;
  clu_pid pid;
  int slot;
  uint64_t kill_at; /* 0: never */
  uint64_t limit;   /* bytes of memory; 0: none */
  int over_limit;   /* and so killed: */
  uint64_t memory;  /* what it had */
  uint32_t copy;    /* number of its last copy (memory.c); 0: it was asked for none */
  uint64_t copy_until;
  int64_t most;  /* bytes that it may have until then */
  int held;      /* it is stopped */
  char leaf[28]; /* its folder in the supervisor's own; a forked node may not have made it */
} clu_sv_node;

/* Where a node is in the table, by its number or pid: its place there and 1, or 0. It is at the
 * number's last bits or behind. Both numbers grow one by one, so neighbours share a page, which is
 * copied once between two forks. */
enum { CLU_SV_PLACES = 2 * CLU_SLOTS };
typedef uint32_t clu_sv_index[CLU_SV_PLACES];

/* A server writes these between its forks. */
typedef struct clu_sv_table {
  unsigned char in[CLU_CHAN_IN]; /* of the control channel */
  clu_sv_node nodes[CLU_SLOTS];
  clu_sv_index by_id, by_pid;
} clu_sv_table;

typedef struct clu_sv_kept {
  uint64_t id;
  int kind; /* enum clu_start_kind */
  int slot;
  clu_fd fd;
  uint32_t again; /* how often it was started again */
  uint64_t began; /* the last time */
  uint64_t due;   /* when it is started again; 0: it runs */
  uint64_t pause; /* before that */
} clu_sv_kept;

#define CLU_SV_FOLDER "node%llu" /* the name of a forked node's folder */

typedef struct clu_sv_gone {
  char leaf[28]; /* the folder's name was that of a node */
} clu_sv_gone;

#define CLU_MS ((uint64_t)1000000)

/* ---- nodes.c: the table of nodes, and what all need ---- */

clu_sv_node *clu_sv_find(clu_supervisor *sv, uint64_t id);
clu_sv_node *clu_sv_find_pid(clu_supervisor *sv, clu_pid pid);
/* `tmp`: its folder. CLU_OK or CLU_NOMEM. */
int clu_sv_add(clu_supervisor *sv, uint64_t id, clu_pid pid, int slot, const char *tmp);
void clu_sv_forget(clu_supervisor *sv, clu_sv_node *nd);
/* The idle limit counts from now on, if there are no nodes; else it does not count. */
void clu_sv_count_idle(clu_supervisor *sv);
/* The nodes that follow have these. */
void clu_sv_close_output(clu_supervisor *sv);
clu_fd clu_sv_errors(const clu_supervisor *sv);
/* In a forked child: closes what is this server's. Only descriptors are given back: writing to the
 * heap would copy shared pages. */
void clu_sv_close_in_child(clu_supervisor *sv);

/* ---- kept.c: nodes that are started again when they have died ----
 *
 * What is kept is not the process but the place: number, slot and end of the data socket, of which
 * each process that comes there gets a copy. So the session sees one node, with another pid. */

/* From now on the node of this number is kept. Of `place` number, kind, slot and fd count; the fd
 * is copied. CLU_OK, CLU_NOMEM, CLU_LIMIT, CLU_SYS. */
int clu_sv_keep(clu_supervisor *sv, const clu_sv_kept *place, clu_err *e);
/* Its process has ended. 1: another one is to come, so that is not the end of the node. */
int clu_sv_kept_died(clu_supervisor *sv, uint64_t id);
/* It is not kept any more. 1: it was, and has no process. */
int clu_sv_let_go(clu_supervisor *sv, uint64_t id);
void clu_sv_let_all_go(clu_supervisor *sv);
/* The next that is due to be started: its place, whose fd is a copy of the caller's. 0: none. */
int clu_sv_next_due(clu_supervisor *sv, clu_sv_kept *place);
/* It was started, or that failed. */
void clu_sv_kept_started(clu_supervisor *sv, uint64_t id, int ok);

/* ---- observers.c ---- */

/* A message with a view, or, without a descriptor, of one that is of no more interest. */
void clu_sv_take_view(clu_supervisor *sv, const clu_msg *m);
void clu_sv_close_views(clu_supervisor *sv);
/* Nobody can ask any more, and the file is gone. Not in a child: that just closes descriptors. */
void clu_sv_close_listener(clu_supervisor *sv);
/* Forks an observer for who has asked for one. 1: this process is the observer. */
int clu_sv_observe(clu_supervisor *sv, clu_boot *b);
/* That child has been reaped; it may have been no observer. */
void clu_sv_observer_ended(clu_supervisor *sv, clu_pid pid);
void clu_sv_end_observers(clu_supervisor *sv);
/* The callback of a timer. */
void clu_sv_on_listens_time(void *sv);

/* ---- deliver.c ---- */

/* Writes what a message DELIVER has to who listens there, if somebody does. It does not wait. */
void clu_sv_deliver(clu_supervisor *sv, const clu_msg *m);

/* ---- memory.c ---- */

/* It is killed when it has more than so many bytes of memory; 0: it is not. */
void clu_sv_limit(clu_supervisor *sv, clu_sv_node *nd, uint64_t bytes);
/* The callback of a timer. */
void clu_sv_on_memory_time(void *sv);
/* How many bytes say where the last copy listens that it has made before it was ended for its
 * memory; 0: there is none. */
size_t clu_sv_last_copy(clu_supervisor *sv, const clu_sv_node *nd, char out[CLU_COPY_TEXT]);

/* ---- ends.c: nodes that have ended, or have to ---- */

/* Reaps what has ended, tells the session, removes folders. */
void clu_sv_reap(clu_supervisor *sv);
/* It is killed after `grace_ms`, at once with 0. */
void clu_sv_stop(clu_supervisor *sv, uint64_t id, uint32_t grace_ms);
/* Stops it and what it has started, or has it go on. */
void clu_sv_hold(clu_sv_node *nd, int held);
/* Kills all nodes and what they have left, and reaps them. Blocks, for 2 s at most. */
void clu_sv_end_all(clu_supervisor *sv);
/* The callbacks of timers. */
void clu_sv_on_kill_time(void *sv);
void clu_sv_on_orphans_time(void *sv);
void clu_sv_on_removal_time(void *sv);

/* ---- spawn.c ---- */

/* Forks or starts the node that SPAWN `m` asks for, and answers. 1: this process is the node, `b`
 * says what it has. */
int clu_sv_spawn(clu_supervisor *sv, const clu_msg *m, clu_boot *b);
/* Starts the kept nodes that are due. 1: as above. */
int clu_sv_start_again(clu_supervisor *sv, clu_boot *b);

#endif
