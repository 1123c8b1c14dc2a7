#include <string.h>

#include "core/actor/actor-layout.h"

/* The mesh is this process's, which is also its rank 0. */
static int make_mesh(clu_actor *a, const char *folder, clu_err *e) {
  int rc;
  clu_mesh_free(a->mesh); /* of a caller before */
  a->mesh = NULL;
  rc = clu_mesh_new(CLU_ACTOR_CALLERS, folder, &a->made, e);
  if (rc != CLU_OK) return rc;
  clu_mesh_open(a->made);
  return clu_mesh_join(clu_mesh_path(a->made), CLU_ACTOR_CALLERS, 0, &a->mesh, e);
}

int clu_actor_begin(clu_actor *a, const char *folder, clu_err *e) {
  actor_record *r = a->r;
  clu_pid before = 0;
  int rc = clu_lock_take(a->state, CLU_SLICE, &before);
  if (rc == CLU_TIMEOUT) return CLU_AGAIN;
  if (rc != CLU_OK && rc != CLU_DEAD) return clu_fail(e, rc, 0, "the system refuses the lock");
  rc = atomic_load(&r->state) == CLU_ACTOR_ENDED ? CLU_CANCELLED : make_mesh(a, folder, e);
  if (rc != CLU_OK) {
    clu_mesh_free(a->made);
    a->made = NULL;
    clu_lock_give(a->state);
    return rc;
  }
  actor_remove_mesh(a);
  atomic_store(&r->pid_before, atomic_load(&r->pid));
  memcpy(r->why_before, r->why, sizeof r->why_before);
  clu_actor_set(a, CLU_ACTOR_BEGINS, NULL);
  a->generation = atomic_fetch_add(&r->generation, 1) + 1;
  memcpy(r->path, clu_mesh_path(a->made), sizeof r->path);
  atomic_store(&r->pid, (uint64_t)clu_os_getpid());
  atomic_store(&r->running, 0);
  atomic_store(&r->asked, 0);
  atomic_store(&r->begun, 0);
  r->waits[0] = r->why[0] = r->waker[0] = 0;
  atomic_store(&r->sleeps, 0);
  return CLU_OK;
}

static void see_to_callers(clu_actor *a) {
  uint64_t now = clu_os_now();
  if (now - a->recycled < RECYCLE_EVERY && !atomic_load(&a->r->crowded)) return;
  a->recycled = now;
  clu_mesh_recycle(a->mesh, clu_process_is_gone);
  atomic_store(&a->r->crowded, 0);
}

int clu_actor_next(clu_actor *a, clu_message **out) {
  int who, rc;
  if (atomic_load(&a->r->state) == CLU_ACTOR_ENDED) return CLU_CANCELLED;
  see_to_callers(a);
  rc = clu_mesh_receive(a->mesh, -1, NULL, 0, out, &who);
  if (rc == CLU_OK) atomic_fetch_add(&a->r->begun, 1);
  return rc;
}

uint32_t clu_actor_events(const clu_actor *a) { return clu_mesh_events(a->mesh); }

void clu_actor_sleep(clu_actor *a, uint32_t events) {
  clu_mesh_sleep(a->mesh, events, CLU_SLICE);
  if (clu_mesh_events(a->mesh) == events) clu_mesh_is_needed(a->mesh); /* lets go of answers */
}

/* ---- one call ---- */

/* The caller gives up first, and looks then whether its call is at work: one of the two sees it. */
int clu_actor_begin_call(clu_actor *a, int rank, uint64_t number, const char *method) {
  actor_record *r = a->r;
  if (rank >= 0) clu_mesh_set_begun(a->mesh, rank, number);
  actor_put_text(r->method, sizeof r->method, method);
  atomic_store(&r->since, clu_os_now());
  atomic_store(&r->running, number);
  if (rank < 0 || !clu_mesh_is_given_up(a->mesh, rank, number)) return 1;
  atomic_store(&r->running, 0);
  return 0;
}

int clu_actor_is_given_up(const clu_actor *a) {
  return (atomic_load(&a->r->running) & GIVEN_UP) != 0;
}

int clu_actor_end_call(clu_actor *a) {
  actor_record *r = a->r;
  uint64_t number = atomic_exchange(&r->running, 0);
  atomic_fetch_add(&r->busy, clu_os_now() - atomic_load(&r->since));
  atomic_fetch_add(&r->done, 1);
  return (number & GIVEN_UP) != 0;
}

int clu_actor_answer(clu_actor *a, int rank, uint64_t number, clu_blob *body, clu_sending *s) {
  char tag[CLU_ACTOR_TAG];
  actor_tag(number, rank == 0, tag);
  return clu_mesh_send(a->mesh, rank, tag, body, s);
}

void clu_actor_waits_for(clu_actor *a, const char *name) {
  char *p = a->r->waits;
  size_t n = name ? strlen(name) : 0;
  if (n >= CLU_STATE_NAME) n = 0;
  if (n) memcpy(p, name, n);
  p[n] = 0;
}

/* ---- where the process does other things, too ---- */

void clu_actor_set_waker(clu_actor *a, const char *path) {
  strncpy(a->r->waker, path, sizeof a->r->waker - 1);
}

void clu_actor_sleeps(clu_actor *a, int sleeps) { atomic_store(&a->r->sleeps, sleeps != 0); }

int clu_actor_has_more(const clu_actor *a) {
  return atomic_load(&a->r->state) == CLU_ACTOR_ENDED || clu_mesh_has_mail(a->mesh) ||
         atomic_load(&a->r->crowded);
}

void clu_actor_recycle(clu_actor *a) {
  a->recycled = 0;
  see_to_callers(a);
}
