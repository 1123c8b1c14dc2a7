/* How a process becomes a node: by fork, by exec, or by joining over TCP. Each way ends in
 * say_hello().
 *
 * A forked node gets ready before its first request, or after 100 ms without one and without the
 * start of another node: it seeds its random numbers and makes its temporary folder
 * (clu_node_get_ready()). Where it cannot, the request fails with the reason, and the next one
 * tries again. The folder is made by mkdir() within the fork server's and not by R: a second
 * folder takes as long again. R has a private pointer to the folder that quit() removes; in the
 * fork server it leads nowhere (own_temp_dir() in fork-server-main.c). A node that is a new R
 * (strategy "spawn") has its folder and random numbers, and attaches R's own packages when it
 * gets ready.
 */
#include "r/node/node.h"

#include "r/base/wait.h"

#include <Rembedded.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/os.h"
#include "core/base/os-folders.h"
#include "core/base/segment.h"

void clu_node_set_boot(const clu_boot *b) { clu_me.boot = *b; }

void clu_node_move_fd(clu_fd *fd) {
  clu_os_move_high(fd, 200);
  if (*fd < 60) clu_os_move_high(fd, 60); /* the limit may be low */
}

void clu_node_joined(const clu_boot *b, clu_chan *c, int64_t idle_ns) {
  clu_me.boot = *b;
  clu_me.boot.fd = c->fd;
  clu_me.chan = *c;
  clu_me.idle_ns = idle_ns > 0 ? idle_ns : 0;
  clu_me.new_r = clu_me.joined = 1;
}

/* A temporary folder of its own. R keeps another, private pointer, by which quit() removes a
 * folder: that one leads nowhere, see own_temp_dir() in fork-server-main.c. */
static void take_folder(void) {
  char spare[sizeof clu_me.boot.tmp + sizeof CLU_GONE];
  clu_err e = {0, 0, ""};
  snprintf(spare, sizeof spare, "%s" CLU_GONE, clu_me.boot.tmp);
  if (clu_os_take_folder(spare, clu_me.boot.tmp) != CLU_OK &&
      clu_os_make_folder(clu_me.boot.tmp, &e) != CLU_OK)
    clu_raise_err(&e);
  R_TempDir = clu_me.boot.tmp;
  clu_os_setenv("R_SESSION_TMPDIR", R_TempDir);
}

static uint32_t seeds; /* a number that the nodes of a fork server have in common */

void clu_node_choose_seeds(void) {
  if (clu_os_random(&seeds, sizeof seeds) != CLU_OK)
    clu_raise("system", "the system gives no random bytes");
}

/* Another one for each node: the factor is odd. No seed of R's is NA. */
static int seed_of(uint64_t id) {
  uint32_t x = seeds + (uint32_t)id * 2654435761u;
  return x == 0x80000000u ? 1 : (int)x;
}

/* R's functions around internal ones have each node copy a dozen pages: to match arguments is to
 * count references to symbols. */
static void seed_random(uint64_t id) {
  SEXP set_seed = Rf_install("set.seed"), seed = PROTECT(Rf_ScalarInteger(seed_of(id)));
  SEXP call =
      PROTECT(clu_internal_call(Rf_lang5(set_seed, seed, R_NilValue, R_NilValue, R_NilValue)));
  int failed = 0;
  R_tryEvalSilent(call, R_BaseEnv, &failed);
  /* an R whose own has other arguments */
  if (failed) Rf_eval(PROTECT(Rf_lang2(set_seed, seed)), R_BaseEnv);
  UNPROTECT(failed ? 3 : 2);
}

/* ---- what a node does when it has something to do ----
 *
 * Until then a forked node has neither a temporary folder nor random numbers of its own, and a new
 * R may not have attached R's own packages. Nodes start sooner so. It runs no code of the user's
 * before, and none of R's that looks at these. */

void clu_node_get_ready(int idle) {
  if (clu_me.ready) return;
  if (clu_me.new_r) {
    SEXP is_idle = PROTECT(Rf_ScalarLogical(idle));
    clu_me.ready = Rf_asLogical(clu_node_r("attach_default_packages", is_idle)) == TRUE;
    UNPROTECT(1);
    return;
  }
  seed_random(clu_me.boot.id);
  take_folder();
  clu_me.ready = 1;
}

/* Tells whether something has come that is to be read. */
SEXP ffi_node_is_asked(void) {
  return Rf_ScalarLogical(clu_os_wait_readable(clu_me.boot.fd, 0) == CLU_OK);
}

/* In the handler of CLU_SIG_INT, and of the signal before it where that is ignored. 1: R is to see
 * an interrupt now; otherwise stack.c sees to it.
 *
 * An interrupt reaches R only while a request is evaluated, and only if it is meant for that
 * request: whoever cancels writes the number of the request into shared memory before it sends the
 * signal. A signal without a new number is a user's own. */
static int on_interrupt(int is_ignored) {
  static volatile uint64_t ahead; /* the cancel that was handled before its CLU_SIG_INT came */
  uint64_t c = *clu_me.boot.cancel;
  int fresh = c != 0 && c != clu_me.cancel_seen;
  if (clu_stack_interrupt_to_end()) return 0;
  if (fresh && clu_interrupt_is_meant && !clu_interrupt_is_meant(1)) {
    clu_activity_put_off(clu_me.boot.activity);
    return 0;
  }
  /* a call was given up that is done apart from requests */
  if (clu_me.apart && clu_interrupt_is_meant && clu_interrupt_is_meant(0))
    return clu_me.interrupted = 1;
  if (is_ignored && ((clu_me.interrupted && !clu_me.apart) || c != clu_me.seq))
    return 0; /* handled, or for another request */
  if (!is_ignored && c && c == ahead && c == clu_me.seq) return (int)(ahead = 0);
  if (is_ignored) ahead = c;
  if (fresh) clu_me.cancel_seen = c;
  if (!clu_me.running) return 0;
  if (fresh && c != clu_me.seq) return 0; /* for one that has ended */
  if (!fresh && clu_interrupt_is_meant && !clu_interrupt_is_meant(0)) return 0;
  clu_me.interrupted = 1;
  if (c == 0 || c != clu_me.seq) return 1; /* other code may take its own signal back */
  return !clu_stack_interrupt();
}

/* While an answer is serialized. */
static void check_cancelled(void) {
  if (clu_me.seq && *clu_me.boot.cancel == clu_me.seq && !clu_me.apart)
    clu_raise("cancelled", "the request was cancelled");
}

/* A fork of the node must not take its calls, nor answer in its place. */
static void after_fork(void) {
  clu_me.forked = 1;
  if (clu_me.boot.fd != CLU_NO_FD) clu_os_close(clu_me.boot.fd);
  /* in a fork of the fork, and later here, it may be another file's number */
  clu_me.boot.fd = clu_me.chan.fd = CLU_NO_FD;
}

static SEXP say_hello(void) {
  unsigned char pid[8];
  int rc;
  clu_is_node = 1;
  if (clu_me.new_r) clu_give_back_begin();
  clu_segments_keep_fds();
  clu_stack_hook();
  clu_os_after_fork(after_fork);
  clu_os_end_first(); /* without memory: not the session, which has the results */
  clu_os_set_blocking(clu_me.boot.fd, 1);
  clu_os_on_int(on_interrupt);
  clu_serialize_set_check(check_cancelled);
  clu_put64(pid, (uint64_t)clu_os_getpid());
  clu_chan_send_bytes(&clu_me.chan, CLU_K_HELLO, 0, pid, sizeof pid, CLU_NO_FD);
  /* where the others take as long, they wait for each other */
  if (clu_me.new_r && clu_me.boot.started) atomic_store(clu_me.boot.started, clu_os_now());
  while ((rc = clu_chan_flush(&clu_me.chan)) == CLU_AGAIN) continue; /* a signal */
  clu_me.closed = rc != CLU_OK;
  return R_NilValue;
}

static SEXP begin(void) {
  clu_node_move_fd(&clu_me.boot.fd);
  if (clu_chan_init(&clu_me.chan, clu_me.boot.fd, INT64_MAX, CLU_TAKES_SEGMENTS) != CLU_OK)
    clu_raise("memory", "not enough memory");
  return say_hello();
}

void clu_node_begin_forked(void) { begin(); }

/* Tells whether this process is a node that serves: FALSE in a fork server. */
SEXP ffi_is_node(void) { return Rf_ScalarLogical(clu_is_node); }

/* A node that has joined and is set up; or, with a text, is not, and ends. */
SEXP ffi_node_begin_joined(SEXP problem) {
  const char *text;
  if (problem == R_NilValue) return say_hello();
  text = CHAR(STRING_ELT(problem, 0));
  clu_os_set_blocking(clu_me.boot.fd, 1);
  clu_chan_send_bytes(&clu_me.chan, CLU_K_REFUSED, 0, text, strlen(text), CLU_NO_FD);
  while (clu_chan_flush(&clu_me.chan) == CLU_AGAIN) continue;
  return R_NilValue;
}

/* The program of this node has ended by itself: the node may, and is not started again. */
SEXP ffi_node_program_done(void) {
  clu_boot_set_done(&clu_me.boot);
  clu_me.asked_to_end = 1;
  return R_NilValue;
}

SEXP ffi_node_title(SEXP text) {
  clu_os_set_title(CHAR(STRING_ELT(text, 0)));
  return R_NilValue;
}

/* Returns what a node started by exec follows: its parent, or the fork server where that has ended
 * while R started. What has started R in between, and so leads the group, is followed as well. */
static clu_pid parent_or_ended(clu_pid server) {
  return clu_os_leads_group() ? server : clu_os_getppid();
}

/* A node started by exec: descriptor 3 is its socket, 4 the shared memory. `program`: TRUE if it
 * runs one. */
SEXP ffi_node_begin_exec(SEXP slot, SEXP tmp, SEXP program, SEXP server) {
  clu_shared *p;
  clu_err e = {0, 0, ""};
  clu_boot b;
  char *above;
  memset(&b, 0, sizeof b);
  b.fd = 3;
  b.parent = parent_or_ended((clu_pid)Rf_asReal(server));
  if (clu_shared_map(&p, 4, &e) != CLU_OK) clu_raise_err(&e);
  clu_os_close(4);
  clu_os_set_cloexec(3);
  clu_boot_slot(&b, p, Rf_asInteger(slot));
  snprintf(b.tmp, sizeof b.tmp, "%s", CHAR(STRING_ELT(tmp, 0)));
  clu_node_set_boot(&b);
  if ((above = strrchr(b.tmp, '/')))
    *above = 0; /* the fork server's folder, as for a forked node */
  clu_me.new_r = 1;
  clu_me.running = Rf_asLogical(program) == TRUE; /* SIGINT interrupts it, as it does any R */
  clu_os_on_term(b.parent, b.tmp);
  if (clu_os_follow_parent(b.parent, 1) == CLU_DEAD) clu_os_kill(clu_os_getpid(), CLU_SIG_TERM, 0);
  return begin();
}
