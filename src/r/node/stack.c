/* Which R calls a node is in, told to whoever asks (core/shm/stacks.h), while its work goes on; a
 * copy of the node, for who wants one; and whether an interrupt may end the calls now.
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
#include "r/base/wait.h"

/* A node that waits looks so often. Each look costs some microseconds of the processor. So with
 * many nodes at a fork server they look less often. */
enum { WAIT_USEC = 60000, NODES_PER_WAIT = 64 };

static struct {
  void (*next)(void); /* what R would call */
  int is_there, at_work;
  /* preserved: calls of the functions that give the calls as text, make a copy of this process, or
   * its last one, and tell whether the calls are at something that must not be interrupted */
  SEXP text, copy, last, half_done;
} hook;

/* Returns the value of a call of one of our functions, not protected; R_NilValue: it was an
 * error. */
static SEXP ask(SEXP call) {
  Rboolean suspended = R_interrupts_suspended;
  int failed = 0;
  SEXP x;
  hook.at_work = 1;
  R_interrupts_suspended = TRUE;
  x = R_tryEvalSilent(call, R_BaseEnv, &failed);
  R_interrupts_suspended = suspended;
  hook.at_work = 0;
  return failed ? R_NilValue : x;
}

/* Nothing may be allocated before the text is copied. */
static const char *text_of(SEXP call) {
  SEXP x = ask(call);
  return TYPEOF(x) == STRSXP && Rf_xlength(x) == 1 ? CHAR(STRING_ELT(x, 0)) : "";
}

/* The copy never comes back from here, see frozen_main() in R/node-frozen.R. */
static void tell_copy(uint32_t copy) {
  int is_at_that = clu_me.seq && atomic_load(&clu_me.boot.asked->copy_of) == clu_me.seq;
  int is_last = atomic_load(&clu_me.boot.asked->is_last) != 0;
  clu_stack_tell_copy(clu_me.boot.asked, clu_me.boot.stack, copy,
                      is_at_that ? text_of(is_last ? hook.last : hook.copy) : "");
  /* it shares its memory with the copy now: what it wrote would be there twice */
  if (is_last) clu_os_kill(clu_os_getpid(), CLU_SIG_KILL, clu_os_leads_group());
}

static void tell(uint32_t question) {
  const char *text = text_of(hook.text);
  clu_stack_tell(clu_me.boot.asked, clu_me.boot.stack, question, clu_me.seq, clu_os_now(), text,
                 strlen(text));
}

/* R is interrupted here and nowhere else, for it acts on a pending interrupt also after each
 * garbage collection. What must not be left half done ends first. A handler for interrupts cannot
 * see to that: code on the node may have one of its own, which comes before ours. */
static void interrupt(void) {
  static const uint64_t pause = 2000000;
  if (!clu_me.running || R_interrupts_suspended || clu_os_now() < clu_me.interrupt_at) return;
  if (clu_interrupt_is_meant && !clu_interrupt_is_meant(1)) {
    clu_activity_put_off(clu_me.boot.activity);
    return;
  }
  clu_me.interrupt_at = 0;
  if (Rf_asLogical(ask(hook.half_done)) == TRUE)
    clu_me.interrupt_at = clu_os_now() + pause;
  else
    R_interrupts_pending = 1;
}

/* A wish for a copy is counted before the question that comes with it.
 *
 * Where more nodes than processors are asked, each computes until the system takes its processor
 * away, which is 2 to 4 ms later. So who has answered lets the next one on. */
static void answer(void) {
  uint32_t question, copy;
  if (!clu_me.boot.stack || !clu_me.running || clu_me.forked) return;
  question = clu_stack_question(clu_me.boot.asked);
  if (!question || hook.at_work || R_interrupts_suspended) return;
  copy = clu_stack_copy_wanted(clu_me.boot.asked);
  tell(question);
  if (copy) tell_copy(copy);
  clu_os_yield();
}

static void look(void) {
  if (clu_me.running) clu_os_heap_ahead(1);
  if (hook.next) hook.next();
  if (clu_me.interrupt_at) interrupt();
  answer();
}

void clu_stack_keep_last(int keeps) {
  clu_stack_word *w = clu_me.boot.stack ? clu_me.boot.asked : NULL;
  if (w && hook.is_there && keeps != clu_stack_keeps_last(w)) atomic_store(&w->keeps_last, keeps);
}

int clu_stack_is_ending(void) {
  return clu_me.boot.stack && !clu_me.forked && atomic_load(&clu_me.boot.asked->is_last) != 0;
}

/* R acts on this after a garbage collection, too: nothing has to be left in order. */
int clu_stack_interrupt_to_end(void) {
  if (!clu_stack_is_ending()) return 0;
  if (clu_me.running) R_interrupts_pending = 1;
  return 1;
}

/* Called where an interrupt is signalled: a node that is to end makes its last copy, and ends. */
SEXP ffi_stack_interrupted(void) {
  if (clu_stack_is_ending()) answer();
  return R_NilValue;
}

#ifdef CLU_POLLED_EVENTS

/* A call without arguments of the function that the R function `maker` makes. */
static SEXP call_of(const char *maker) {
  SEXP fun = PROTECT(clu_node_r(maker, R_NilValue));
  SEXP call = Rf_lang1(fun);
  R_PreserveObject(call);
  UNPROTECT(1);
  return call;
}

void clu_stack_hook(void) {
  if (hook.is_there) return;
  hook.is_there = 1;
  hook.text = call_of("stack_teller");
  hook.copy = call_of("copy_teller");
  hook.last = call_of("last_copy_teller");
  hook.half_done = call_of("half_done_teller");
  hook.next = R_PolledEvents;
  R_PolledEvents = look;
  if (R_wait_usec <= 0) R_wait_usec = WAIT_USEC;
}

void clu_stack_set_pace(int slot) {
  if (slot >= NODES_PER_WAIT && R_wait_usec == WAIT_USEC)
    R_wait_usec = WAIT_USEC * (1 + slot / NODES_PER_WAIT);
}

void clu_stack_in_copy(void) { hook.at_work = 0; }

int clu_stack_interrupt(void) {
  if (hook.is_there) clu_me.interrupt_at = 1;
  return hook.is_there;
}

#else /* R of this system has no such hook: nobody can ask */

void clu_stack_hook(void) { (void)look; }
void clu_stack_set_pace(int slot) { (void)slot; }
void clu_stack_in_copy(void) {}
int clu_stack_interrupt(void) { return 0; }

#endif
