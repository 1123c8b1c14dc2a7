#include "r/actor/actor.h"

#include <R_ext/GraphicsEngine.h>
#include <stdlib.h>

#include "core/base/os-signals.h"
#include "r/base/wait.h"
#include "r/mesh/mesh.h"

/* A turn, and the message at hand in it. */
typedef struct turn {
  struct turn *below;
  clu_open_actor *of;
  int is_of_request; /* see clu_actor_turn_begin() */
  uint64_t began;    /* when a call was found that is at work; 0: none is */
  clu_message *message;
  clu_blob *answer;
  uint64_t number;
  int is_awaited, is_own;      /* is_own: code of this process waits for it */
  char waited[CLU_STATE_NAME]; /* for whom the actor of the turn below waits, but for this one */
} turn;

static turn *volatile top; /* a handler of signals reads it */
static clu_pid server;     /* this process; a forked child serves nothing */

static void forget_message(turn *t) {
  t->is_own = 0;
  t->began = 0;
  clu_message_free(t->message);
  clu_blob_unref(t->answer);
  t->message = NULL;
  t->answer = NULL;
}

/* An interrupt that is meant for a call is meant for those that this one waits for, too, as far as
 * they are done in this process. Other calls are done on top of these for others. */
static int is_interrupt_meant(int of_request) {
  if (server != clu_os_getpid()) return 1;
  for (const turn *t = top; t; t = t->below) {
    if (clu_actor_is_given_up(t->of->actor)) return 1;
    if (!t->is_own && !t->is_of_request) return 0;
  }
  return of_request;
}

void clu_actor_turn_begin(clu_open_actor *a, int is_of_request) {
  clu_actor_info below;
  turn *t = calloc(1, sizeof *t);
  if (!t) clu_raise("memory", "not enough memory");
  t->below = top;
  t->of = a;
  t->is_of_request = is_of_request;
  if (top) { /* it goes on when this turn has ended */
    clu_actor_look(top->of->actor, &below);
    memcpy(t->waited, below.waits, sizeof t->waited);
    clu_actor_waits_for(top->of->actor, clu_actor_name(a->actor));
  }
  a->users++;
  server = clu_os_getpid();
  top = t;
  clu_interrupt_is_meant = is_interrupt_meant;
}

void clu_actor_turn_end(void) {
  turn *t = top;
  if (!t) return;
  top = t->below;
  t->of->users--;
  forget_message(t);
  if (top) clu_actor_waits_for(top->of->actor, t->waited[0] ? t->waited : NULL);
  free(t);
  if (!top && !clu_besides_requests) clu_interrupt_is_meant = NULL;
  /* it was put off */
  if (top && is_interrupt_meant(0)) clu_os_interrupt_deferred(clu_os_getpid());
}

int clu_is_served(const clu_open_actor *a) {
  return top && (!a || a == top->of) && server == clu_os_getpid();
}

int clu_is_at_work(const clu_open_actor *a) {
  const turn *t = server == clu_os_getpid() ? top : NULL;
  while (t && t->of != a) t = t->below;
  return t != NULL;
}

uint64_t clu_actor_turn_since(void) { return clu_is_served(NULL) ? top->began : 0; }

/* This process serves the actor from now on. FALSE: another one does still; NULL: it has ended. */
SEXP ffi_actor_begin(SEXP x, SEXP folder) {
  clu_open_actor *a = clu_open_actor_of(x);
  clu_err e = {0};
  int rc = clu_actor_begin(a->actor, CHAR(STRING_ELT(folder, 0)), &e);
  if (rc == CLU_CANCELLED) return R_NilValue;
  if (rc == CLU_AGAIN) return Rf_ScalarLogical(0);
  if (rc != CLU_OK) clu_raise_err(&e);
  clu_actor_turn_begin(a, 1);
  return Rf_ScalarLogical(1);
}

/* It serves no more, for whatever reason, and the actor is in this state. What it has sent may
 * still have to be taken. */
SEXP ffi_actor_end(SEXP state) {
  clu_open_actor *a = top ? top->of : NULL;
  if (!a) return R_NilValue;
  clu_actor_turn_end();
  clu_actor_set(a->actor, Rf_asInteger(state), NULL);
  if (!clu_actor_is_needed(a->actor)) clu_open_actor_close(a);
  return R_NilValue;
}

static turn *at_hand(void) {
  if (!top) clu_raise("argument", "this process serves no actor");
  return top;
}

static clu_actor *served(void) { return at_hand()->of->actor; }

/* The kind of the next message, for which it `waits`, or FALSE; NULL: the actor has ended. */
SEXP ffi_actor_next(SEXP waits) {
  clu_message *x = NULL;
  turn *t = at_hand();
  int rc;
  for (;;) {
    uint32_t events = clu_actor_events(served());
    forget_message(t);
    rc = clu_actor_next(served(), &x);
    if (rc != CLU_AGAIN) break;
    if (Rf_asLogical(waits) != 1) return Rf_ScalarLogical(0);
    clu_actor_sleep(served(), events);
    clu_check_interrupt(NULL, NULL);
  }
  if (rc == CLU_CANCELLED) return R_NilValue;
  if (rc == CLU_NOMEM) clu_raise("memory", "not enough memory for a call");
  if (rc != CLU_OK || x->n < sizeof t->number) {
    clu_message_free(x);
    clu_raise("protocol", "what a caller has written to shared memory is damaged");
  }
  t->message = x;
  t->is_awaited = x->from >= 0 && x->tag[0] != CLU_ACTOR_CAST[0];
  t->is_own = t->is_awaited && x->from == 0;
  memcpy(&t->number, x->body, sizeof t->number);
  return Rf_mkString(x->tag);
}

/* Returns the object in the message at hand. */
SEXP ffi_actor_message(void) {
  const turn *t = at_hand();
  if (!t->message) clu_raise("argument", "there is no message");
  return clu_message_value(t->message, sizeof t->number);
}

/* Its call is at work. FALSE: nobody wants it any more. */
SEXP ffi_actor_begin_call(SEXP method) {
  turn *t = at_hand();
  int rank = t->is_awaited ? t->message->from : -1;
  t->began = clu_os_now();
  return Rf_ScalarLogical(
      clu_actor_begin_call(served(), rank, t->number, CHAR(STRING_ELT(method, 0))));
}

static void check_interrupt(void *unused) {
  (void)unused;
  R_CheckUserInterrupt();
}

/* It is over. TRUE: nobody wants its answer, and an interrupt that was meant for it is forgotten.
 * Interrupts are suspended, before and after. */
SEXP ffi_actor_end_call(void) {
  int is_given_up = clu_actor_end_call(served());
  if (is_given_up) {
    R_interrupts_suspended = FALSE;
    R_ToplevelExec(check_interrupt, NULL);
    R_interrupts_suspended = TRUE;
  }
  return Rf_ScalarLogical(is_given_up);
}

/* Its answer; nothing happens where nobody waits. A caller that takes nothing for a minute gets
 * none. */
SEXP ffi_actor_answer(SEXP value) {
  uint64_t deadline = clu_deadline(60);
  clu_sending s = {0};
  turn *t = at_hand();
  int rc = CLU_OK;
  if (!t->is_awaited) return R_NilValue;
  clu_message_serialize(&t->answer, 0, value, 1);
  for (;;) {
    uint32_t events = clu_actor_events(served());
    rc = clu_actor_answer(served(), t->message->from, t->number, t->answer, &s);
    if (rc != CLU_AGAIN || clu_os_now() >= deadline) break;
    clu_actor_sleep(served(), events);
  }
  if (rc == CLU_LIMIT || rc == CLU_NOMEM) clu_raise("memory", "the value cannot be handed on");
  return R_NilValue;
}

/* The name of the actor at which this process is, or NULL. */
SEXP ffi_actor_served(void) {
  return clu_is_served(NULL) ? Rf_mkString(clu_actor_name(served())) : R_NilValue;
}

/* While it waits for another one, that one's name, or NULL. */
SEXP ffi_actor_waits(SEXP name) {
  if (clu_is_served(NULL))
    clu_actor_waits_for(served(), name == R_NilValue ? NULL : CHAR(STRING_ELT(name, 0)));
  return R_NilValue;
}
