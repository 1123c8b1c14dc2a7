#include <string.h>

#include "core/mesh/mesh-layout.h"

uint32_t clu_mesh_events(const clu_mesh *m) { return atomic_load(&m->ranks[m->rank].events); }

void clu_mesh_waits(clu_mesh *m, int what, int who, const char *tag) {
  mesh_rank *r = &m->ranks[m->rank];
  if (clu_mesh_verdict(m, NULL) != CLU_OK) return;
  if (what == CLU_WAIT_NONE) {
    atomic_store_explicit(&r->waits, CLU_WAIT_NONE, memory_order_relaxed);
    return;
  }
  if (tag) {
    memset(r->tag, 0, sizeof r->tag);
    memcpy(r->tag, tag, strlen(tag));
  }
  atomic_store_explicit(&r->has_tag, tag != NULL, memory_order_relaxed);
  atomic_store_explicit(&r->wait_for, (uint32_t)(who + 1), memory_order_relaxed);
  atomic_fetch_add(&r->wait_count, 1);
  atomic_store(&r->waits, (uint32_t)what);
}

uint64_t mesh_all_wait(const clu_mesh *m) {
  uint64_t sum = 1;
  for (int i = 0; i < m->count; i++) {
    const mesh_rank *r = &m->ranks[i];
    uint32_t state = atomic_load(&r->state), waits = atomic_load(&r->waits);
    if (!mesh_is_here(m, i) || state > CLU_RANK_HERE) continue;
    if (state == CLU_RANK_ABSENT || waits == CLU_WAIT_NONE || waits == CLU_WAIT_FOR_TIME ||
        atomic_load(&r->events) != atomic_load(&r->events_seen))
      return 0;
    sum += atomic_load(&r->wait_count) + (uint64_t)atomic_load(&r->events);
  }
  return sum;
}

/* The lowest rank that is here looks for a deadlock, where no rank is left elsewhere. What ranks
 * are at is not read at one time, so it has to be the same twice. */
static void look_for_deadlock(clu_mesh *m) {
  uint64_t sum;
  for (int i = 0; i < m->count; i++)
    if (atomic_load(&m->ranks[i].state) <= CLU_RANK_HERE && (i < m->rank || !mesh_is_here(m, i)))
      return;
  sum = mesh_all_wait(m);
  if (sum && m->suspect == sum && mesh_all_live(m)) mesh_judge(m, CLU_AGAIN, m->rank, 0);
  m->suspect = sum;
}

/* Awake for a while. 1: there was an event. */
static int spin(clu_mesh *m, mesh_rank *me, uint32_t events, uint64_t ns) {
  uint64_t end = clu_os_now() + (ns < CLU_SPIN ? ns : CLU_SPIN);
  int came;
  do {
    clu_spin_yield(&m->spins);
    came = atomic_load(&me->events) != events;
  } while (!came && clu_os_now() < end);
  clu_spin_ended(&m->spins, came);
  return came;
}

int clu_mesh_sleep(clu_mesh *m, uint32_t events, uint64_t ns) {
  mesh_rank *me = &m->ranks[m->rank];
  int verdict = clu_mesh_verdict(m, NULL);
  if (verdict != CLU_OK || ns == 0) return verdict;
  atomic_store(&me->events_seen, events);
  if (clu_spin_pays(&m->spins) && spin(m, me, events, ns)) return clu_mesh_verdict(m, NULL);
  atomic_store(&me->asleep, 1);
  clu_os_word_wait(&me->events, events, ns < CLU_SLICE ? ns : CLU_SLICE);
  atomic_store(&me->asleep, 0);
  if (atomic_load(&me->events) == events) look_for_deadlock(m);
  return clu_mesh_verdict(m, NULL);
}
