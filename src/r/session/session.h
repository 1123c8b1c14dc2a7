/* The files of this folder and of src/r/tasks share these. Each uses only those before it:
 *
 *   session.c      the one session of this R process; handles
 *   event-wait.c   waiting with a deadline and R's interrupts
 *   fork-server.c  fork servers
 *   node.c         nodes: start, end, what is known of them
 *   link.c         other hosts, by a link process
 *   process.c      processes of nodes that the session starts itself
 *   view.c         what others see of clusters
 *   acceptor.c     nodes that connect over TCP     psock.c  base R's workers
 *   call-bytes.c   the bytes of a call             call.c   calls and answers
 *
 * The session is made by the first call that needs one, and lives as long as the process. In a
 * forked child of it (mclapply()) every use is an R error, until that has begun a session of its
 * own; and every use of the parent's handles is one also then. Only event-wait.c blocks, and what
 * is said to wait. Errors are raised by clu_raise().
 */
#ifndef CLUTCH_R_SESSION_H
#define CLUTCH_R_SESSION_H

#include "r/base/r-api.h"
#include "r/serialize/serialize.h"
#include "r/base/turn.h"
#include "r/base/wait.h"

#include "core/node/fork-server.h"
#include "core/node/node.h"

/* ---- session.c ---- */

/* NULL until clu_need_session(). */
extern clu_session *clu_the_session;
/* Makes the session, if there is none; an R error in a forked child of it. */
void clu_need_session(void);
/* Tells whether this is a forked child, and the session is its parent's. */
int clu_session_is_parents(void);
/* Then it gets one of its own. What is the parent's is left alone. */
void clu_session_begin_in_child(void);
/* Sets what a thread does while R's is elsewhere: see core/loop/turns.h. None of it may call R.
 * CLU_OK, also when there is work already; CLU_NOMEM. */
int clu_session_set_work(const clu_turns_work *work);
/* Pumps its event loop once: see clu_loop_pump() and clu_loop_events(). */
int clu_pump(int64_t wait_ns, clu_err *e);
int clu_pump_events(void);

/* A kind of handles. Each is a static variable of one file, and stays. */
typedef struct clu_handle_kind {
  const char *name; /* the tag of its external pointers */
  /* Frees what is behind one: called with the turn at the session that has made it. */
  void (*free)(void *p);
  /* Does the same in another process; NULL: there it is left as it is. */
  void (*forget)(void *p);
  /* session.c's */
  SEXP tag;
  struct clu_handle_kind *next;
} clu_handle_kind;

/* A handle: an external pointer, with nothing behind it yet. So what is made next can be put behind
 * it at once, and is freed with it. */
SEXP clu_handle_new(clu_handle_kind *kind, SEXP prot);
void clu_handle_set(SEXP x, void *p);
int clu_handle_is(SEXP x, clu_handle_kind *kind);
/* Returns what is behind it; an R error when that is nothing. The handle keeps it. */
void *clu_handle_get(SEXP x, clu_handle_kind *kind);
/* Frees what is behind it now, if there is anything: as its finalizer does. */
void clu_handle_end(SEXP x);
/* Tells whether it was made by the session of this process. */
int clu_handle_is_ours(SEXP x);
/* Does what clu_need_session() does, for what belongs to this handle. */
void clu_need_session_of(SEXP x);

/* ---- event-wait.c ---- */

/* Pumps until `done` says so (1) or the time is up (0). What is urgent (clu_session_set_work()) is
 * done meanwhile. An interrupt or a time limit of R's jumps out, after `fn` (may be NULL) has run.
 */
int clu_wait_for(int (*done)(void *), void *data, uint64_t deadline, void (*fn)(void *));
/* Does the same without a deadline, for the answer of this node. */
int clu_wait_for_answer(int (*done)(void *), void *data, void (*fn)(void *), const clu_node *nd);
/* Does the same without a check for interrupts, for clean-ups: no R API in there. */
int clu_pump_for(int (*done)(void *), void *data, uint64_t deadline);

/* ---- fork-server.c ---- */

clu_server *clu_get_server(SEXP x);
/* With nothing behind it yet. `keeps`: what is kept as long as there is this handle. */
SEXP clu_server_handle_new(SEXP keeps);

/* ---- node.c ---- */

clu_node *clu_get_node(SEXP x);
SEXP clu_node_handle_new(void);
void clu_node_handle_set(SEXP x, clu_node *nd);
/* The node behind `handle` is from now on the one behind `fresh`, for every copy of the handle.
 * While the one before has calls whose answers were not taken, `handle` keeps it. */
void clu_node_handle_swap(SEXP handle, SEXP fresh);
/* The handle of such a one; NULL in R: there is none. */
SEXP clu_node_handle_before(SEXP handle);
/* The tag of a request, any R object, is kept with the handle: its place, -1 for NULL. It is taken
 * with the answer; where nothing is under way all can go. */
int clu_node_keep_tag(SEXP handle, SEXP tag);
SEXP clu_node_take_tag(SEXP handle, int i);
void clu_node_clear_tags(SEXP handle);
/* enum clu_start_kind, by the name that R has for it. */
int clu_start_kind_named(const char *name);
/* Returns what R is told of a node: a list. */
SEXP clu_node_info(clu_node *nd);

/* ---- process.c ---- */

/* How a process is to be started. Its memory is R's, until the entry point returns. */
typedef struct clu_process {
  const char **args, **env; /* each with room for one more */
  R_xlen_t nargs, nenv;
  const char *output;  /* a path that is appended to, "" for this process's own output */
  const char *folder;  /* removed when the process has ended; NULL: none */
  const char *input;   /* what it finds on its standard input; NULL: nothing, or the secret */
  int secret_by_stdin; /* after `input` and followed by the line "end", where there is `input`; else
                          it is in the environment */
  int holds_input;     /* that has no end as long as the process runs */
  int leaves;          /* what it has started may outlive it */
  int shares_memory;   /* with the session: tasks can be taken back, requests cancelled */
} clu_process;

/* `how`: list(output, folder, stdin, slot, input, hold, leaves), the last three may be missing.
 * `input`: a string, or see r/base/private-text.h. May jump. */
void clu_process_init(clu_process *p, SEXP argv, SEXP envp, SEXP how);
/* Starts it as the process of `nd`. `secret`: as digits; NULL: it gets none. Does not jump. */
int clu_process_start(const clu_process *p, clu_node *nd, const char *secret, clu_err *e);

/* ---- view.c ---- */

/* NULL for R's NULL. */
clu_view *clu_get_view(SEXP x);

/* ---- call-bytes.c ---- */

/* u32: how many bytes are the function's, then they, then the arguments; or 0, then list(fun,
 * args). `receivers`: where there are several, the call is one of a clusterCall(). That sends the
 * same to each node, without any other code in between, so the bytes are kept until
 * clu_call_forget_sent(). `shares`: for nodes that take segments. The reference that is returned is
 * the caller's. Raises an R error where something cannot be serialized. */
clu_blob *clu_call_bytes(SEXP fun, SEXP args, int receivers, int shares);
/* The bytes of a function that is sent again and again; NULL: it has to travel with its arguments.
 * They stay until another function is asked for. At most CLU_MOST_FUN. */
clu_blob *clu_call_function(SEXP fun);
/* The first answer is asked for, or another call begins. */
void clu_call_forget_sent(void);

#endif
