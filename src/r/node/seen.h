/* What an observer has seen of a cluster: its view, and the processes of its nodes, of which some
 * are looked at each time. */
#ifndef CLUTCH_R_SEEN_H
#define CLUTCH_R_SEEN_H

#include "r/r-api.h"

#include "core/base/process-use.h"
#include "core/shm/node-memory.h"
#include "core/shm/view.h"

/* Memory that nodes share with the process that has started them. */
typedef struct clu_seen_memory {
  clu_shared *shared; /* NULL: it cannot be read */
  clu_pid pid;
} clu_seen_memory;

#define CLU_SEEN_CALL_AFTER 300000000u /* ns at one task, which is long */

typedef struct clu_seen {
  clu_view *view;
  clu_seen_memory of_server;  /* the observer's fork server, if it has one; not owned */
  clu_seen_memory of_session; /* mapped while it is there */
  uint64_t memory;            /* which one that is: its word in the view */
  int n;
  clu_process_use *nodes; /* of this host; others are in the view */
  clu_weighing weighing;
  int next;        /* the first that is looked at next */
  uint64_t looked; /* when some were */
} clu_seen;

/* NULL without memory. Takes over the view. `server` may be NULL. */
clu_seen *clu_seen_new(clu_view *view, const clu_seen_memory *server);
void clu_seen_free(clu_seen *s); /* accepts NULL */

/* ---- seen-work.c ---- */

/* Whether what another host tells is true now. */
int clu_seen_tells(const clu_view_far *h);
/* The host of node `i`, if it is another one and tells what is true now; else NULL. */
const clu_view_far *clu_seen_told_by(const clu_view *v, R_xlen_t i);

/* What a node is at. */
typedef struct clu_seen_work {
  uint64_t seq; /* number of the request or task; 0: none is known */
  uint64_t since;
  int is_busy;
  int is_here;          /* on this host, and says so itself */
  clu_stack_word *word; /* NULL: it cannot be asked which R calls it is in */
  const clu_stack *stack;
} clu_seen_work;

void clu_seen_work_of(const clu_seen *s, R_xlen_t i, clu_seen_work *out);
/* Asks node `i`, which can be asked, for its R calls: the number of the question. */
uint32_t clu_seen_ask(const clu_seen *s, R_xlen_t i, const clu_seen_work *w);
/* What it has told last, if that was in what it is at now. */
int clu_seen_stack_of(const clu_seen_work *w, clu_stack *told);

/* ---- seen.c ---- */

/* Looks at processes: at all of few nodes, else at so many that all get their turn within 9 s.
 * Those of them that have been at a task for long are asked which R call they are in: an answer
 * takes a node 0.2 ms. Who can tell of nodes on other hosts sees that somebody looks. */
void clu_seen_look(clu_seen *s);

/* What is asked for of the last tasks and events: those after so many, and of tasks not more than
 * `tasks`. */
typedef struct clu_seen_wish {
  R_xlen_t tasks;
  uint64_t ended, told;
} clu_seen_wish;

/* list(about, nodes, jobs, tasks, events, hosts): lists of columns, times in seconds of
 * clu_os_now(), NA where not known. */
SEXP clu_seen_values(const clu_seen *s, const clu_seen_wish *wish);

/* Asks those of these nodes (a flag for each) for their stacks that are busy: the numbers of the
 * questions, 0 where none was asked. */
SEXP clu_seen_ask_stacks(const clu_seen *s, const char *is_asked);
/* list(text, current, age, known, job, element, since, open): what they have told; `open`: one that
 * was asked has not told yet. Of nodes that are at nothing all is NA. */
SEXP clu_seen_stacks(const clu_seen *s, SEXP questions);

#endif
