#include "r/actor/actor.h"

#include <R_ext/GraphicsEngine.h>
#include <stdlib.h>

#include "r/base/wait.h"
#include "r/mesh/mesh.h"

/* The message at hand. */
static struct {
  clu_message *message;
  clu_blob *answer;
  uint64_t number;
  int is_awaited;
} at_hand;

static void forget_message(void) {
  clu_message_free(at_hand.message);
  clu_blob_unref(at_hand.answer);
  memset(&at_hand, 0, sizeof at_hand);
}

static clu_pid server; /* this process; a forked child serves nothing */

static int is_interrupt_meant(void) {
  return server != clu_os_getpid() || clu_actor_is_given_up(clu_served->actor);
}

int clu_is_served(const clu_open_actor *a) {
  return a && a == clu_served && server == clu_os_getpid();
}

/* This process serves the actor from now on. FALSE: another one does still; NULL: it has ended. */
SEXP ffi_actor_begin(SEXP x, SEXP folder) {
  clu_open_actor *a = clu_open_actor_of(x);
  clu_err e = {0};
  int rc = clu_actor_begin(a->actor, CHAR(STRING_ELT(folder, 0)), &e);
  if (rc == CLU_CANCELLED) return R_NilValue;
  if (rc == CLU_AGAIN) return Rf_ScalarLogical(0);
  if (rc != CLU_OK) clu_raise_err(&e);
  a->users = 1;
  clu_served = a;
  server = clu_os_getpid();
  clu_interrupt_is_meant = is_interrupt_meant;
  return Rf_ScalarLogical(1);
}

/* It serves no more, for whatever reason. */
SEXP ffi_actor_end(void) {
  clu_interrupt_is_meant = NULL;
  forget_message();
  if (!clu_served) return R_NilValue;
  clu_actor_set(clu_served->actor, CLU_ACTOR_ENDED, NULL);
  clu_served->users = 0;
  clu_served = NULL;
  return R_NilValue;
}

static clu_actor *served(void) {
  if (!clu_served) clu_raise("argument", "this process serves no actor");
  return clu_served->actor;
}

/* The kind of the next message, for which it waits; NULL: the actor has ended. */
SEXP ffi_actor_next(void) {
  clu_message *x = NULL;
  int rc;
  for (;;) {
    uint32_t events = clu_actor_events(served());
    forget_message();
    rc = clu_actor_next(served(), &x);
    if (rc != CLU_AGAIN) break;
    clu_actor_sleep(served(), events);
    clu_check_interrupt(NULL, NULL);
  }
  if (rc == CLU_CANCELLED) return R_NilValue;
  if (rc == CLU_NOMEM) clu_raise("memory", "not enough memory for a call");
  if (rc != CLU_OK || x->n < sizeof at_hand.number) {
    clu_message_free(x);
    clu_raise("protocol", "what a caller has written to shared memory is damaged");
  }
  at_hand.message = x;
  at_hand.is_awaited = x->from >= 0 && x->tag[0] != CLU_ACTOR_CAST[0];
  memcpy(&at_hand.number, x->body, sizeof at_hand.number);
  return Rf_mkString(x->tag);
}

/* Returns the object in the message at hand. */
SEXP ffi_actor_message(void) {
  if (!at_hand.message) clu_raise("argument", "there is no message");
  return clu_message_value(at_hand.message, sizeof at_hand.number);
}

/* Its call is at work. FALSE: nobody wants it any more. */
SEXP ffi_actor_begin_call(SEXP method) {
  int rank = at_hand.is_awaited ? at_hand.message->from : -1;
  return Rf_ScalarLogical(
      clu_actor_begin_call(served(), rank, at_hand.number, CHAR(STRING_ELT(method, 0))));
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
  int rc = CLU_OK;
  if (!at_hand.is_awaited) return R_NilValue;
  clu_message_serialize(&at_hand.answer, 0, value, 1);
  for (;;) {
    uint32_t events = clu_actor_events(served());
    rc = clu_actor_answer(served(), at_hand.message->from, at_hand.number, at_hand.answer, &s);
    if (rc != CLU_AGAIN || clu_os_now() >= deadline) break;
    clu_actor_sleep(served(), events);
  }
  if (rc == CLU_LIMIT || rc == CLU_NOMEM) clu_raise("memory", "the value cannot be handed on");
  return R_NilValue;
}

/* The name of the actor that this process serves, or NULL. */
SEXP ffi_actor_served(void) {
  if (!clu_is_served(clu_served)) return R_NilValue;
  return Rf_mkString(clu_actor_name(clu_served->actor));
}

/* While it waits for another one, that one's name, or NULL. */
SEXP ffi_actor_waits(SEXP name) {
  if (clu_is_served(clu_served))
    clu_actor_waits_for(clu_served->actor, name == R_NilValue ? NULL : CHAR(STRING_ELT(name, 0)));
  return R_NilValue;
}
