#include <errno.h>
#include <string.h>

#include "core/actor/actor-layout.h"
#include "core/base/os-machine.h"
#include "core/base/os-signals.h"

static void leave(clu_actor *a) {
  if (!a->mesh) return;
  a->old_generation = a->generation;
  a->old_begun = clu_mesh_begun(a->mesh);
  if (clu_mesh_is_ours(a->mesh))
    clu_mesh_leave(a->mesh, 0);
  else /* a child of the caller has asked nothing yet */
    a->old_generation = 0;
  clu_mesh_free(a->mesh);
  a->mesh = NULL;
}

static int is_current(const clu_actor *a) {
  return a->mesh && clu_mesh_is_ours(a->mesh) && atomic_load(&a->r->state) == CLU_ACTOR_UP &&
         atomic_load(&a->r->generation) == a->generation;
}

/* This process is a caller of the process that serves now. */
static int enter(clu_actor *a) {
  char path[CLU_MESH_PATH];
  clu_err e = {0};
  actor_record *r = a->r;
  uint32_t generation = atomic_load(&r->generation), state = atomic_load(&r->state);
  int rc;
  if (is_current(a)) return CLU_OK;
  if (state == CLU_ACTOR_ENDED) return CLU_CANCELLED;
  if (state != CLU_ACTOR_UP) return CLU_AGAIN;
  leave(a);
  memcpy(path, r->path, sizeof path);
  path[sizeof path - 1] = 0;
  if (atomic_load(&r->generation) != generation) return CLU_AGAIN;
  rc = clu_mesh_enter(path, CLU_ACTOR_CALLERS, &a->mesh, &e);
  if (rc == CLU_OK) a->generation = generation;
  if (rc == CLU_AGAIN) {
    atomic_store(&r->crowded, 1);
    actor_wake(a);
  }
  if (rc == CLU_SYS && (e.sys == EMFILE || e.sys == ENFILE)) return CLU_SYS;
  return rc == CLU_NOMEM || rc == CLU_OK ? rc : CLU_AGAIN; /* else it has ended: see rest() */
}

/* Decides about a call that was sent to a process that does not serve any more. */
static int after_end(clu_actor *a, clu_actor_call *c) {
  uint64_t begun = a->old_begun;
  if (a->mesh && a->generation == c->generation)
    begun = clu_mesh_begun(a->mesh);
  else if (a->old_generation != c->generation)
    return CLU_DEAD; /* it may have begun */
  if (c->number <= begun) return CLU_DEAD;
  *c = (clu_actor_call){.number = c->number, .is_awaited = c->is_awaited};
  return CLU_AGAIN;
}

static uint64_t new_number(void) {
  static uint32_t last;
  return (uint64_t)clu_os_getpid() << 32 | ++last;
}

/* The call gets its number. What waits in the mailbox while no call is open is an answer that came
 * after its call was given up. */
static void begin(clu_actor *a, clu_actor_call *c, const char *tag, clu_blob *body) {
  if (a->caller != clu_os_getpid()) a->open = 0;
  a->caller = clu_os_getpid();
  if (a->open == 0 && a->mesh && clu_mesh_is_ours(a->mesh) && !actor_is_served_here(a))
    clu_mesh_drop_mail(a->mesh);
  c->number = new_number();
  c->is_awaited = strcmp(tag, CLU_ACTOR_CAST) != 0;
  a->open += c->is_awaited;
  memcpy(body->data, &c->number, sizeof c->number);
}

int clu_actor_send(clu_actor *a, clu_actor_call *c, const char *tag, clu_blob *body) {
  int rc;
  if (!c->number) begin(a, c, tag, body);
  rc = enter(a);
  if (rc == CLU_OK && c->generation && c->generation != a->generation) rc = after_end(a, c);
  if (rc != CLU_OK && !(rc == CLU_AGAIN && is_current(a))) return rc;
  rc = clu_mesh_send(a->mesh, 0, tag, body, &c->sending);
  if (rc == CLU_OK || c->sending.begun) {
    c->generation = a->generation;
    actor_wake(a);
  }
  if (rc == CLU_DEAD) return CLU_AGAIN; /* it ends: the state will say so */
  if (rc != CLU_OK) return rc;
  c->is_sent = 1;
  atomic_fetch_add(&a->r->asked, 1);
  return CLU_OK;
}

static int look(clu_actor *a, const clu_actor_call *c, clu_message **out) {
  char tag[CLU_ACTOR_TAG];
  int who;
  actor_tag(c->number, clu_mesh_rank(a->mesh) == 0, tag);
  return clu_mesh_receive(a->mesh, 0, tag, 0, out, &who);
}

/* Where the process that serves has ended, an answer is looked for once more after that was seen.
 */
int clu_actor_receive(clu_actor *a, clu_actor_call *c, clu_message **out) {
  int rc = CLU_AGAIN, ends;
  if (!c->generation) return CLU_AGAIN;
  if (!a->mesh || a->generation != c->generation) return after_end(a, c);
  rc = look(a, c, out);
  ends = rc != CLU_OK && !is_current(a);
  if (ends) rc = look(a, c, out);
  if (rc == CLU_OK) {
    c->is_awaited = 0;
    a->open--;
    clu_mesh_let_go(a->mesh, 0);
    return CLU_OK;
  }
  if (ends) return after_end(a, c);
  return rc == CLU_NOMEM ? rc : CLU_AGAIN;
}

static const uint64_t ENDS_WITHIN = 200000000; /* ns from when its descriptors are closed */

int clu_actor_lost(clu_actor *a, clu_actor_call *c) {
  uint64_t now = clu_os_now();
  if (!is_current(a) || a->generation != c->generation) return CLU_DEAD;
  if (!c->lost_at) c->lost_at = now;
  if (clu_os_process_state((clu_pid)atomic_load(&a->r->pid)) == 0) return CLU_AGAIN;
  return now - c->lost_at < ENDS_WITHIN ? CLU_AGAIN : CLU_OK;
}

uint32_t clu_actor_caller_events(clu_actor *a) {
  return is_current(a) ? clu_mesh_events(a->mesh) : clu_actor_changes(a);
}

/* The lock is the one of the process that serves as long as it lives. */
static void look_for_end(clu_actor *a) {
  uint32_t state = atomic_load(&a->r->state);
  clu_pid before = 0;
  int rc = clu_lock_take(a->state, 0, &before);
  if (rc != CLU_OK && rc != CLU_DEAD) return;
  if (state == CLU_ACTOR_UP || state == CLU_ACTOR_BEGINS) actor_lost(a, state);
  clu_lock_give(a->state);
  /* who would start another one is gone, too */
  if (state != CLU_ACTOR_ENDED && clu_process_is_gone((clu_pid)atomic_load(&a->r->maker)))
    clu_actor_set(a, CLU_ACTOR_ENDED, NULL);
}

void clu_actor_rest(clu_actor *a, uint32_t events, uint64_t ns) {
  if (ns > LOOK_EVERY) ns = LOOK_EVERY;
  if (is_current(a)) {
    clu_mesh_waits(a->mesh, CLU_WAIT_FOR_TIME, 0, NULL);
    clu_mesh_sleep(a->mesh, events, ns);
  } else {
    clu_actor_wait(a, events, ns);
  }
  if (clu_actor_caller_events(a) == events && !actor_is_served_here(a)) look_for_end(a);
}

/* Calls of others wait in that mailbox, too: it cannot be emptied. */
static void drop_own_answer(clu_actor *a, uint64_t number) {
  clu_actor_call c = {.number = number};
  clu_message *m = NULL;
  if (look(a, &c, &m) == CLU_OK) clu_message_free(m);
}

void clu_actor_give_up(clu_actor *a, clu_actor_call *c) {
  uint64_t number = c->number;
  int was_awaited = c->is_awaited, is_half_sent = c->sending.begun && !c->is_sent;
  uint32_t generation = c->generation;
  if (a->caller == clu_os_getpid()) a->open -= was_awaited;
  *c = (clu_actor_call){0};
  if (!generation || !a->mesh || a->generation != generation) return;
  if (is_half_sent) {
    leave(a);
    return;
  }
  if (!was_awaited || !is_current(a)) return;
  if (actor_is_served_here(a)) drop_own_answer(a, number);
  if (a->open == 0) clu_mesh_set_given_up(a->mesh, number);
  if (!atomic_compare_exchange_strong(&a->r->running, &number, number | GIVEN_UP)) return;
  if (a->r->waker[0]) /* by CLU_SIG_INT it could end a task that follows */
    clu_os_interrupt_deferred((clu_pid)atomic_load(&a->r->pid));
  else
    clu_os_kill((clu_pid)atomic_load(&a->r->pid), CLU_SIG_INT, 0);
}
