/* Which R calls a node is in, told to whoever asks (core/shm/stacks.h), while its work goes on.
 *
 * R calls `R_PolledEvents` whenever it looks for interrupts: every thousand evaluations, and often
 * in its own long loops. While R waits for a time or for a socket it looks each R_wait_usec
 * microseconds. So no signal is needed, which would end waits of other code.
 *
 * R code runs in here: functions that look at the stack. It runs without handlers of the user's,
 * and its errors end here. Interrupts and time limits wait until it is done.
 */
#include "r/node/node.h"

#include <R_ext/GraphicsEngine.h>
#ifdef CLU_POLLED_EVENTS
#include <R_ext/eventloop.h>
#endif
#include <string.h>

#include "core/base/os-heap.h"
#include "core/base/os.h"

/* A node that waits looks so often. Each look costs some microseconds of the processor. So with
 * many nodes at a fork server they look less often. */
enum { WAIT_USEC = 60000, NODES_PER_WAIT = 64 };

static struct {
  void (*next)(void); /* what R would call */
  int is_there, at_work;
  SEXP call; /* preserved: that of the function that gives the calls as text */
} hook;

static void tell(uint32_t question) {
  Rboolean suspended = R_interrupts_suspended;
  const char *text = "";
  int failed = 0;
  SEXP x;
  R_interrupts_suspended = TRUE;
  x = R_tryEvalSilent(hook.call, R_BaseEnv, &failed);
  if (!failed && TYPEOF(x) == STRSXP && Rf_xlength(x) == 1)
    text = CHAR(STRING_ELT(x, 0)); /* nothing is allocated before it is copied */
  R_interrupts_suspended = suspended;
  clu_stack_tell(clu_me.boot.asked, clu_me.boot.stack, question, clu_me.seq, clu_os_now(), text,
                 strlen(text));
}

/* An interrupt that was postponed comes again. Until then the handler that has postponed it has
 * returned. */
static void raise_again(void) {
  static const uint64_t after = 2000000;
  if (!clu_me.running || R_interrupts_suspended || clu_os_now() - clu_me.postponed < after) return;
  clu_me.postponed = 0;
  R_interrupts_pending = 1;
}

/* Where more nodes than processors are asked, each computes until the system takes its processor
 * away, which is 2 to 4 ms later. So who has answered lets the next one on. */
static void look(void) {
  uint32_t question;
  if (clu_me.running) clu_os_heap_ahead(1);
  if (hook.next) hook.next();
  if (clu_me.postponed) raise_again();
  if (!clu_me.boot.stack || !clu_me.running || clu_me.forked) return;
  question = clu_stack_question(clu_me.boot.asked);
  if (!question || hook.at_work || R_interrupts_suspended) return;
  hook.at_work = 1;
  tell(question);
  hook.at_work = 0;
  clu_os_yield();
}

#ifdef CLU_POLLED_EVENTS

void clu_stack_hook(void) {
  SEXP fun;
  if (hook.is_there) return;
  hook.is_there = 1;
  fun = PROTECT(clu_node_r("stack_teller", R_NilValue));
  hook.call = Rf_lang1(fun);
  R_PreserveObject(hook.call);
  UNPROTECT(1);
  hook.next = R_PolledEvents;
  R_PolledEvents = look;
  if (R_wait_usec <= 0) R_wait_usec = WAIT_USEC;
}

void clu_stack_set_pace(int slot) {
  if (slot >= NODES_PER_WAIT && R_wait_usec == WAIT_USEC)
    R_wait_usec = WAIT_USEC * (1 + slot / NODES_PER_WAIT);
}

SEXP ffi_node_postpone(void) {
  if (!hook.is_there) return Rf_ScalarLogical(FALSE);
  clu_me.postponed = clu_os_now();
  return Rf_ScalarLogical(TRUE);
}

#else /* R of this system has no such hook: nobody can ask */

void clu_stack_hook(void) { (void)look; }
void clu_stack_set_pace(int slot) { (void)slot; }
SEXP ffi_node_postpone(void) { return Rf_ScalarLogical(FALSE); }

#endif
