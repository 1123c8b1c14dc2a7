#include <stdio.h>
#include <stdlib.h>

#include "r/actor/actor.h"
#include "r/base/wait.h"
#include "r/mesh/mesh.h"

/* ns between two looks of a process that serves actors meanwhile, at first, and later */
#define LOOK_OFTEN 1000000
#define LOOK_OFTEN_FOR 100000000
#define LOOK_EACH 5000000

/* A call under way: an external pointer. */
typedef struct asked {
  clu_open_actor *of;
  clu_actor_call call;
  const char *tag;
  uint64_t began; /* when its answer was waited for first */
  clu_blob *body;
  clu_message *answer;
} asked;

static clu_message *last; /* the answer that was read last: its object may need it */

static SEXP pointer_tag;

static void end_call(SEXP x) {
  asked *q = R_ExternalPtrAddr(x);
  if (!q) return;
  R_ClearExternalPtr(x);
  clu_actor_give_up(q->of->actor, &q->call);
  q->of->users--;
  clu_blob_unref(q->body);
  if (q->answer) {
    clu_message_free(last);
    last = q->answer;
  }
  free(q);
}

/* A call of this message, which is not sent yet. `kind`: its tag. */
SEXP ffi_actor_ask(SEXP actor, SEXP message, SEXP kind) {
  asked *q;
  const char *tag = CHAR(STRING_ELT(kind, 0));
  SEXP x;
  clu_open_actor *of;
  if (TYPEOF(actor) != ENVSXP)
    clu_raise("argument", "`actor` has to be an object made by cluster_actor()");
  of = clu_open_actor_of(actor);
  if (clu_is_served(of))
    clu_raise("deadlock", "an actor cannot call itself: it is at work on this very call");
  if (CHAR(STRING_ELT(kind, 0))[0] != CLU_ACTOR_CAST[0] && clu_is_at_work(of))
    clu_raise("deadlock",
              "this actor is at work on a call that goes on when this one has ended: "
              "none of them can go on");
  if (clu_settled_in_parent(of))
    clu_raise("deadlock",
              "this process was forked by a task in the actor's own node, which waits "
              "for it: only the task itself can call the actor");
  if (!pointer_tag) pointer_tag = Rf_install("clutch_actor_call");
  x = PROTECT(R_MakeExternalPtr(NULL, pointer_tag, R_NilValue));
  R_RegisterCFinalizerEx(x, end_call, FALSE);
  q = calloc(1, sizeof *q);
  if (!q) clu_raise("memory", "not enough memory");
  of->users++;
  q->of = of;
  q->tag = tag[0] == CLU_ACTOR_CALL[0]   ? CLU_ACTOR_CALL
           : tag[0] == CLU_ACTOR_CAST[0] ? CLU_ACTOR_CAST
                                         : CLU_ACTOR_STOP;
  R_SetExternalPtrAddr(x, q);
  clu_message_serialize(&q->body, sizeof q->call.number, message, 1);
  UNPROTECT(1);
  return x;
}

/* 1: there is an end of it. */
static int step(asked *q, int *rc) {
  clu_actor *a = q->of->actor;
  *rc = q->call.is_sent ? CLU_OK : clu_actor_send(a, &q->call, q->tag, q->body);
  if (*rc == CLU_OK && q->call.is_awaited) *rc = clu_actor_receive(a, &q->call, &q->answer);
  if (*rc == CLU_OK && q->answer && q->answer->lost) *rc = clu_actor_lost(a, &q->call);
  return *rc != CLU_AGAIN;
}

/* An actor of this process gets its turn at once, others where this has to wait. 1: there was one.
 */
static int serve_meanwhile(const asked *q) {
  return clu_settled_any() && (clu_settled_serve_one(q->of) || clu_settled_serve());
}

/* A process that serves actors while it waits looks for calls of these more often. */
static uint64_t rest_ns(uint64_t deadline, uint64_t began) {
  uint64_t left = (uint64_t)clu_slice(deadline), most;
  if (!clu_settled_any()) return left;
  most = clu_os_now() - began < LOOK_OFTEN_FOR ? LOOK_OFTEN : LOOK_EACH;
  return left < most ? left : most;
}

static SEXP died(const clu_actor_call *call) {
  char generation[16];
  SEXP out = PROTECT(Rf_allocVector(STRSXP, 2));
  snprintf(generation, sizeof generation, "%u", (unsigned)call->generation);
  SET_STRING_ELT(out, 0, Rf_mkChar("died"));
  SET_STRING_ELT(out, 1, Rf_mkChar(generation));
  UNPROTECT(1);
  return out;
}

/* list(value) of the answer; NULL: there is none after so many seconds. Or why there will be none:
 * "ended" (it had before), "died" (with this call at work), and behind that the number of the
 * generation. */
SEXP ffi_actor_await(SEXP x, SEXP seconds) {
  asked *q = R_ExternalPtrAddr(x);
  uint64_t deadline = clu_deadline(Rf_asReal(seconds));
  SEXP out;
  int rc;
  if (!q->began) q->began = clu_os_now();
  for (;;) {
    uint32_t events = clu_actor_caller_events(q->of->actor);
    if (step(q, &rc)) break;
    if (clu_os_now() >= deadline) return R_NilValue;
    if (serve_meanwhile(q)) continue;
    clu_actor_rest(q->of->actor, events, rest_ns(deadline, q->began));
    clu_check_interrupt(NULL, NULL);
  }
  if (rc == CLU_CANCELLED) return Rf_mkString("ended");
  if (rc == CLU_DEAD) return died(&q->call);
  if (rc == CLU_SYS) clu_raise("limit", "this process has too many files open to call an actor");
  if (rc != CLU_OK) clu_raise("memory", "not enough memory for the call, or for its answer");
  out = PROTECT(Rf_allocVector(VECSXP, 1));
  if (q->answer) SET_VECTOR_ELT(out, 0, clu_message_value(q->answer, 0));
  UNPROTECT(1);
  return out;
}

/* Nobody wants its answer any more. */
SEXP ffi_actor_drop(SEXP x) {
  end_call(x);
  return R_NilValue;
}
