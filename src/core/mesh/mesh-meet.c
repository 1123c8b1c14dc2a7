#include "core/mesh/mesh-layout.h"

void mesh_has_met_all(clu_mesh *m) {
  atomic_store(&m->head->arrived, 0);
  atomic_fetch_add(&m->head->turn, 1);
  mesh_notify_all(m);
}

/* The last one who comes looks whether all of this host mean the same. Where there are others, the
 * bridge hears of it, which knows whether those are there. */
void clu_mesh_meet(clu_mesh *m, const clu_meeting *why, uint32_t *turn) {
  mesh_head *h = m->head;
  uint32_t here = atomic_load(&h->here);
  m->ranks[m->rank].meeting = *why;
  *turn = atomic_load(&h->turn);
  if (atomic_fetch_add(&h->arrived, 1) + 1 < (here ? here : (uint32_t)m->count)) return;
  for (int i = 0; i < m->count; i++)
    if (mesh_is_here(m, i) && !clu_meeting_is_same(&m->ranks[i].meeting, why)) {
      mesh_judge(m, CLU_PROTO, i < m->rank ? i : m->rank, i < m->rank ? m->rank : i);
      return;
    }
  if (!here || why->is_of_host) {
    mesh_has_met_all(m);
    return;
  }
  atomic_store(&h->met_here, *turn + 1);
  mesh_notify(m, (int)atomic_load(&h->lead) - 1);
}

int clu_mesh_has_met(clu_mesh *m, uint32_t turn, int *who) {
  int verdict;
  if (atomic_load(&m->head->turn) != turn) return CLU_OK;
  verdict = clu_mesh_verdict(m, NULL);
  if (verdict != CLU_OK) return verdict;
  for (int i = 0; i < m->count; i++)
    if (atomic_load(&m->ranks[i].state) > CLU_RANK_HERE) {
      *who = mesh_named(m, i);
      /* it may have been the last who came, and have ended since */
      return atomic_load(&m->head->turn) != turn ? CLU_OK : CLU_DEAD;
    }
  return CLU_AGAIN;
}
