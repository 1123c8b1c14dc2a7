/* What an observer has seen of a cluster: its view, and the processes of its nodes, of which some
 * are looked at each time. */
#ifndef CLUTCH_R_SEEN_H
#define CLUTCH_R_SEEN_H

#include "r/r-api.h"

#include "core/shm/node-memory.h"
#include "core/shm/view.h"

typedef struct clu_seen_node {
  clu_pid pid;
  uint64_t at;             /* when it was looked at; 0: never */
  int64_t total, resident; /* ms of processor time, bytes, then */
  double cpu, memory;      /* share of a core since the look before; bytes of its own; NA */
} clu_seen_node;

typedef struct clu_seen {
  clu_view *view;
  int n;
  clu_seen_node *nodes;
  int next;        /* the first that is looked at next */
  uint64_t looked; /* when some were */
} clu_seen;

/* NULL without memory. Takes over the view. */
clu_seen *clu_seen_new(clu_view *view);
void clu_seen_free(clu_seen *s); /* accepts NULL */
/* Looks at processes: at all of few nodes, else at so many that all get their turn within 8 s. */
void clu_seen_look(clu_seen *s);

/* list(about, nodes, jobs, tasks, events): lists of columns, times in seconds of clu_os_now(), NA
 * where not known. `shared`: the memory that nodes of the fork server with that pid share. `tasks`:
 * how many of the last ones. */
SEXP clu_seen_values(const clu_seen *s, clu_shared *shared, clu_pid server, R_xlen_t tasks);

#endif
