/* An observer has seen this of a cluster: its view, and the processes of its nodes, of which some
 * are looked at each time. */
#ifndef CLUTCH_OBSERVED_H
#define CLUTCH_OBSERVED_H

#include "core/view/process-use.h"
#include "core/shm/node-memory.h"
#include "core/view/view.h"

/* Memory that nodes share with the process that has started them. */
typedef struct clu_observed_memory {
  clu_shared *shared; /* NULL: it cannot be read */
  clu_pid pid;
} clu_observed_memory;

#define CLU_OBSERVED_CALL_AFTER 300000000u /* ns at one task, which is long */

typedef struct clu_observed {
  clu_view *view;
  clu_observed_memory of_server;  /* the observer's fork server, if it has one; not owned */
  clu_observed_memory of_session; /* mapped while it is there */
  uint64_t memory;                /* which one that is: its word in the view */
  int n;
  clu_process_use *nodes; /* of this host; others are in the view */
  clu_weighing weighing;
  int next;        /* the first that is looked at next */
  uint64_t looked; /* when some were */
} clu_observed;

/* NULL without memory. Takes over the view. `server` may be NULL. */
clu_observed *clu_observed_new(clu_view *view, const clu_observed_memory *server);
void clu_observed_free(clu_observed *s); /* accepts NULL */

/* ---- observed-work.c ---- */

/* Tells whether what another host tells is true now. */
int clu_observed_tells(const clu_view_far *h);
/* The host of node `i`, if it is another one and tells what is true now; else NULL. */
const clu_view_far *clu_observed_told_by(const clu_view *v, int i);

/* This is what a node is at. */
typedef struct clu_observed_work {
  uint64_t seq; /* number of the request or task; 0: none is known */
  uint64_t since;
  int is_busy;
  int is_here;          /* on this host, and says so itself */
  clu_stack_word *word; /* NULL: it cannot be asked which R calls it is in */
  const clu_stack *stack;
} clu_observed_work;

void clu_observed_work_of(const clu_observed *s, int i, clu_observed_work *out);
/* Asks node `i`, which can be asked, for its R calls: the number of the question. */
uint32_t clu_observed_ask(const clu_observed *s, int i, const clu_observed_work *w);
/* Reads what it has told last, if that was in what it is at now. */
int clu_observed_stack_of(const clu_observed_work *w, clu_stack *told);

/* ---- observed.c ---- */

/* Looks at processes: at all of few nodes, else at so many that all get their turn within 9 s.
 * Nodes that have been at a task for long are asked which R call they are in: an answer
 * takes a node 0.2 ms. Who can tell of nodes on other hosts sees that somebody looks. */
void clu_observed_look(clu_observed *s);

#endif
