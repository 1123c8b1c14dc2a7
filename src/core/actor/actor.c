#include "core/actor/actor.h"

#include <stdlib.h>
#include <string.h>

#include "core/actor/actor-layout.h"
#include "core/base/os-pipes.h"
#include "core/base/os-words.h"

static int of_state(clu_state *s, clu_actor **out, clu_err *e) {
  clu_actor *a = calloc(1, sizeof *a);
  if (!a) {
    clu_state_free(s);
    return clu_fail(e, CLU_NOMEM, 0, "not enough memory");
  }
  a->state = s;
  a->r = clu_state_room(s);
  *out = a;
  return CLU_OK;
}

int clu_actor_new(const char *folder, clu_actor **out, clu_err *e) {
  clu_state *s = NULL;
  int rc = clu_state_new(CLU_STATE_OTHER, folder, &s, e);
  if (rc == CLU_OK) rc = of_state(s, out, e);
  if (rc == CLU_OK) atomic_store(&(*out)->r->maker, (uint64_t)clu_os_getpid());
  return rc;
}

int clu_actor_open(const char *name, clu_actor **out, clu_err *e) {
  clu_state *s = NULL;
  int rc = clu_state_open(name, CLU_STATE_OTHER, &s, e);
  return rc == CLU_OK ? of_state(s, out, e) : rc;
}

void clu_actor_may_restart(clu_actor *a) { atomic_store(&a->r->may_restart, 1); }

const char *clu_actor_name(const clu_actor *a) { return clu_state_name(a->state); }

int clu_actor_is_needed(clu_actor *a) {
  return a->mesh && clu_mesh_is_ours(a->mesh) && clu_mesh_is_needed(a->mesh);
}

static void copy_text(char *to, const char *from, size_t n) {
  memcpy(to, from, n);
  to[n - 1] = 0;
}

void actor_remove_mesh(const clu_actor *a) {
  char path[CLU_MESH_PATH];
  copy_text(path, a->r->path, sizeof path);
  if (path[0]) clu_os_common_remove(path);
}

static int is_maker(const clu_actor *a) {
  return atomic_load(&a->r->maker) == (uint64_t)clu_os_getpid();
}

void clu_actor_free(clu_actor *a) {
  if (!a) return;
  if (a->mesh && clu_mesh_is_ours(a->mesh)) clu_mesh_leave(a->mesh, 0);
  clu_mesh_free(a->mesh);
  if (a->made) {
    if (actor_is_served_here(a)) a->r->waker[0] = 0;
    clu_mesh_free(a->made);
    clu_lock_give(a->state);
  }
  if (is_maker(a) && atomic_load(&a->r->state) == CLU_ACTOR_ENDED) actor_remove_mesh(a);
  clu_state_free(a->state);
  free(a);
}

/* ---- what is known of it ---- */

void clu_actor_look(clu_actor *a, clu_actor_info *out) {
  actor_record *r = a->r;
  uint64_t running = atomic_load(&r->running), since = atomic_load(&r->since);
  out->state = (int)atomic_load(&r->state);
  out->generation = atomic_load(&r->generation);
  out->pid = (clu_pid)atomic_load(&r->pid);
  out->died = (int)atomic_load(&r->died);
  out->begun = atomic_load(&r->begun);
  out->asked = atomic_load(&r->asked);
  if (out->asked < out->begun) out->asked = out->begun;
  out->done = atomic_load(&r->done);
  out->busy = atomic_load(&r->busy) + (running ? clu_os_now() - since : 0);
  copy_text(out->method, r->method, sizeof out->method);
  copy_text(out->why, r->why, sizeof out->why);
  copy_text(out->waits, r->waits, sizeof out->waits);
  out->pid_before = (clu_pid)atomic_load(&r->pid_before);
  copy_text(out->why_before, r->why_before, sizeof out->why_before);
  if (!running) out->method[0] = 0;
}

/* The one who finds that it sleeps is the only one to wake it. */
static void wake(actor_record *r) {
  char path[CLU_MESH_PATH];
  uint32_t sleeps = 1;
  if (!atomic_load(&r->sleeps) || !atomic_compare_exchange_strong(&r->sleeps, &sleeps, 2)) return;
  memcpy(path, r->waker, sizeof path);
  path[sizeof path - 1] = 0;
  if (path[0]) clu_os_waker_wake(path);
}

void actor_wake(clu_actor *a) { wake(a->r); }

static void tell_change(actor_record *r) {
  uint32_t state = atomic_load(&r->state);
  if (state == CLU_ACTOR_DOWN || state == CLU_ACTOR_ENDED) {
    atomic_store(&r->running, 0);
    r->waits[0] = 0;
  }
  atomic_fetch_add(&r->changes, 1);
  if (atomic_load(&r->asleep)) clu_os_word_wake(&r->changes, 1);
  wake(r);
}

void clu_actor_set(clu_actor *a, int state, const char *why) {
  actor_record *r = a->r;
  uint32_t old = atomic_load(&r->state);
  if (why) {
    actor_put_text(r->why, sizeof r->why, why);
    atomic_store(&r->died, 1);
  }
  while (old != CLU_ACTOR_ENDED &&
         !atomic_compare_exchange_strong(&r->state, &old, (uint32_t)state))
    continue;
  if (state == CLU_ACTOR_UP && old != CLU_ACTOR_ENDED)
    atomic_store(&r->died, 0); /* another is up */
  tell_change(r);
}

void actor_lost(clu_actor *a, uint32_t seen) {
  actor_record *r = a->r;
  uint32_t then = atomic_load(&r->may_restart) ? CLU_ACTOR_DOWN : CLU_ACTOR_ENDED;
  if (!atomic_compare_exchange_strong(&r->state, &seen, then)) return;
  atomic_store(&r->died, 1);
  tell_change(r);
}

uint32_t clu_actor_changes(const clu_actor *a) { return atomic_load(&a->r->changes); }

void clu_actor_wait(clu_actor *a, uint32_t events, uint64_t ns) {
  atomic_fetch_add(&a->r->asleep, 1);
  clu_os_word_wait(&a->r->changes, events, ns < CLU_SLICE ? ns : CLU_SLICE);
  atomic_fetch_sub(&a->r->asleep, 1);
}
