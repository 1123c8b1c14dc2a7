/* Frozen copies: where a task has failed, and its frames are still there, the node forks; or while
 * it is busy, and somebody wants to see its frames. The copy sleeps with all frames until its
 * session asks it (R/node-frozen.R); the node goes on.
 *
 * A node that is over its memory limit makes its last copy, and ends (core/supervisor/memory.c).
 * That one outlives it, and has its memory: it ends with the fork server, and sooner than others
 * when memory is short.
 *
 * The copy has nothing of the node's: its descriptors lead nowhere (clu_os_leave_files()), and the
 * channel is closed. It ends with the node, however that ends, see clu_os_follow_parent() and
 * core/supervisor/orphans.h. It leads a process group of its own: what interrupts or holds the node
 * does not reach it. Each second it looks whether it is to go on: it ends when its socket was
 * removed, or when memory is short. It ends itself without R's exit.
 *
 * The session talks to it by a Unix-domain socket in the fork server's private folder. Who connects
 * has to be a process of the same user, and has to know a secret, see R/node-frozen.R.
 */
#include "r/node/node.h"

#include <R_ext/GraphicsEngine.h>

#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "core/base/os-folders.h"
#include "core/base/os-forks.h"
#include "core/base/os-lock.h"
#include "core/base/os-memory.h"
#include "core/supervisor/orphans.h"

enum { MOST_COPIES = 32 };                    /* of one node, until they are reaped */
static const int64_t LOOK_EVERY = 1000000000; /* ns */
static const int64_t LOOK_AT_NODE = 20000000; /* ns, until the node has ended */
enum { MOST_LOOKS = 30 };                     /* of one that nobody asks, where that is soon */
static const int64_t LEAST_LEFT = 64 << 20;   /* bytes of memory, or a 32nd of the limit */

static struct {
  clu_pid pids[MOST_COPIES];
  int n;
  clu_pid pending; /* made for the task at hand, and not told to the session; 0: none */
  char path[104];  /* of the pending one, or, in a copy, its own */
  uint64_t id[2];  /* of the pending one's socket */
  /* in a copy */
  clu_fd listener;
  clu_pid node; /* of a last one: it has not seen yet that this node has ended; else 0 */
  int is_last;
} frozen;

enum copy_kind { FAILED, BUSY, LAST };

/* ---- in the node ---- */

/* Removes the folder of this socket. */
static void remove_place(void) {
  char *end = strrchr(frozen.path, '/');
  if (end) *end = 0;
  clu_os_remove_tree(frozen.path);
}

/* The pending copy has ended, and its process id is another's soon. Its folder stays where it was
 * killed. One that has ended by itself has removed it, and another node may have it now. */
static void forget_pending(void) {
  uint64_t id[2] = {0, 0};
  clu_os_path_id(frozen.path, id);
  if (id[0] == frozen.id[0] && id[1] == frozen.id[1]) remove_place();
  frozen.pending = 0;
}

void clu_frozen_reap(void) {
  clu_exit how;
  for (int i = 0; i < frozen.n; i++) {
    if (clu_os_reap(frozen.pids[i], 0, &how) == CLU_AGAIN) continue;
    if (frozen.pids[i] == frozen.pending) forget_pending();
    frozen.pids[i--] = frozen.pids[--frozen.n];
  }
}

void clu_frozen_drop(void) {
  if (!frozen.pending) return;
  clu_os_kill(frozen.pending, CLU_SIG_KILL, 0);
  remove_place();
  frozen.pending = 0;
}

SEXP ffi_frozen_drop(void) {
  clu_frozen_drop();
  return R_NilValue;
}

/* The session will hear of the copy of the task at hand. FALSE: there is none. */
SEXP ffi_frozen_taken(void) {
  int was_made = frozen.pending != 0;
  frozen.pending = 0;
  return Rf_ScalarLogical(was_made);
}

/* A last copy has memory that is nobody else's. */
static int memory_is_short(void) {
  static clu_memory_bounds bounds;
  clu_memory_left left;
  if (clu_os_memory_bounds("", &bounds) != CLU_OK) return 0;
  if (clu_os_memory_left("", &bounds, &left) != CLU_OK) return 0;
  return left.left < LEAST_LEFT || left.left < left.limit / (frozen.is_last ? 8 : 32);
}

/* c(copies that are wanted, whether of tasks whose time is up, the job's name), of the task at
 * hand; NULL: there is none, or none is wanted. */
SEXP ffi_frozen_wanted(void) {
  const int *wanted = clu_job_frozen();
  SEXP out;
  if (!clu_me.task || clu_me.forked || wanted[0] <= 0) return R_NilValue;
  out = Rf_allocVector(REALSXP, 3);
  REAL(out)[0] = wanted[0];
  REAL(out)[1] = wanted[1];
  REAL(out)[2] = (double)clu_job_number();
  return out;
}

/* No other node makes room for a copy in the folder `root` until this is called with NULL. Waits
 * for a second at most, since the one that has the turn may stand still. */
SEXP ffi_frozen_turn(SEXP root) {
  static clu_fd turn = CLU_NO_FD;
  int n = 1000;
  if (turn != CLU_NO_FD) clu_os_close(turn);
  turn = CLU_NO_FD;
  if (Rf_isNull(root)) return R_NilValue;
  while (clu_os_lock_file(CHAR(STRING_ELT(root, 0)), "turn", 0, &turn) == CLU_AGAIN && --n > 0)
    clu_os_pause(1000000);
  return R_NilValue;
}

/* The folder that nodes of one fork server have in common; "": this node has none. */
SEXP ffi_frozen_folder(void) {
  char path[sizeof clu_me.boot.tmp], *end;
  snprintf(path, sizeof path, "%s", clu_me.boot.tmp);
  if (clu_me.joined || !(end = strrchr(path, '/'))) return Rf_mkString("");
  *end = 0;
  return Rf_mkString(path);
}

void clu_node_leave(clu_fd keep, const char *title) {
  frozen.n = 0;
  frozen.pending = 0;
  clu_me.forked = 1;
  clu_me.running = 0;
  clu_me.seq = 0;
  clu_me.task = CLU_TASK_NONE;
  clu_stack_in_copy();
  clu_os_leave_files(keep);
  clu_os_set_title(title);
}

/* In the child. */
static void become_copy(clu_pid node, clu_fd listener, clu_fd out, enum copy_kind kind) {
  frozen.listener = listener;
  frozen.is_last = kind == LAST;
  frozen.node = kind == LAST ? node : 0;
  if (kind != LAST && clu_os_follow_parent(node, 1) == CLU_DEAD) clu_os_end_self();
  clu_os_redirect_output(out, out);
  clu_node_leave(listener, kind == BUSY ? "clutch: copy of a busy node" : "clutch: failed element");
}

/* The task at hand is about to fail; it goes on; or the node is about to end. */
static enum copy_kind kind_of(SEXP x) {
  const char *kind = CHAR(STRING_ELT(x, 0));
  return strcmp(kind, "failed") == 0 ? FAILED : strcmp(kind, "busy") == 0 ? BUSY : LAST;
}

/* Forks a copy that listens at `path`, and whose output goes to the file `output`. `kind`:
 * "failed", "busy" or "last". In the node its process id; 0 in the copy; NA: there is none. */
SEXP ffi_frozen_fork(SEXP path, SEXP output, SEXP kind) {
  enum copy_kind what = kind_of(kind);
  const char *at = CHAR(STRING_ELT(path, 0));
  clu_listen how = {4, 0, 0};
  clu_addr addr;
  clu_fd listener = CLU_NO_FD, out = CLU_NO_FD;
  clu_pid pid = 0, node = clu_os_getpid();
  int granted, rc;
  clu_frozen_reap();
  if (frozen.n == MOST_COPIES || strlen(at) >= sizeof frozen.path || memory_is_short())
    return Rf_ScalarInteger(NA_INTEGER);
  if (clu_os_addr_path(at, &addr, NULL) != CLU_OK ||
      clu_os_listen(&addr, &how, &listener, &granted, NULL) != CLU_OK)
    return Rf_ScalarInteger(NA_INTEGER);
  rc = clu_os_open_append(CHAR(STRING_ELT(output, 0)), &out, NULL);
  if (rc == CLU_OK) {
    fflush(NULL);
    /* before: the node may have ended, and what it has left with it, before its child runs */
    if (what == LAST) clu_mark_copy();
    rc = clu_os_fork(&pid, NULL);
  }
  if (rc == CLU_OK && pid == 0) {
    strcpy(frozen.path, at);
    become_copy(node, listener, out, what);
    return Rf_ScalarInteger(0);
  }
  clu_os_close(listener);
  if (out != CLU_NO_FD) clu_os_close(out);
  if (rc != CLU_OK) return Rf_ScalarInteger(NA_INTEGER); /* the folder goes, see fork_copy() */
  frozen.pids[frozen.n++] = pid;
  if (what == FAILED) {
    strcpy(frozen.path, at);
    memset(frozen.id, 0, sizeof frozen.id);
    clu_os_path_id(at, frozen.id);
    frozen.pending = pid;
  }
  return Rf_ScalarInteger((int)pid);
}

/* ---- in the copy ---- */

static void end_copy(void) {
  remove_place();
  clu_os_end_self();
}

static int is_there(const char *path) {
  uint64_t id[2] = {0, 0};
  clu_os_path_id(path, id);
  return id[0] || id[1];
}

/* The node of a last copy has ended: the fork server is the parent from now on, or there is none
 * any more. */
static void follow_server(void) {
  if (!frozen.node || clu_os_getppid() == frozen.node) return;
  frozen.node = 0;
  if (clu_os_follow_parent(clu_me.boot.parent, 1) == CLU_DEAD) end_copy();
}

/* Sleeps until a process of this user has connected: its descriptor. `soon`: it is about to, or
 * nobody will. */
SEXP ffi_frozen_next(SEXP soon) {
  int left = Rf_asLogical(soon) == TRUE ? MOST_LOOKS : INT_MAX;
  int64_t every = frozen.is_last ? LOOK_EVERY / 5 : LOOK_EVERY;
  for (;;) {
    clu_fd fd;
    clu_pid pid;
    follow_server();
    if (clu_os_wait_readable(frozen.listener, frozen.node ? LOOK_AT_NODE : every) == CLU_TIMEOUT) {
      if (!is_there(frozen.path) || memory_is_short() || left-- == 0) end_copy();
      continue;
    }
    if (clu_os_accept(frozen.listener, &fd, NULL, NULL) != CLU_OK) continue;
    if (clu_os_path_peer(fd, &pid) != CLU_PEER_OTHER) return Rf_ScalarInteger((int)fd);
    clu_os_close(fd);
  }
}

/* From now on a signal interrupts what is evaluated; or nothing is. */
SEXP ffi_frozen_running(SEXP now) {
  clu_me.running = Rf_asLogical(now) == TRUE;
  clu_me.interrupted = 0;
  clu_me.interrupt_at = 0;
  R_interrupts_pending = 0; /* the node's, not this copy's */
  R_interrupts_suspended = FALSE;
  return R_NilValue;
}
