#include "core/mesh/mesh-layout.h"

static int is_same(const clu_meeting *a, const clu_meeting *b) {
  return a->kind == b->kind && a->op == b->op && a->type == b->type && a->root == b->root &&
         a->shape == b->shape && a->n == b->n;
}

/* The last one who comes looks whether all mean the same. */
void clu_mesh_meet(clu_mesh *m, const clu_meeting *why, uint32_t *turn) {
  mesh_head *h = m->head;
  m->ranks[m->rank].meeting = *why;
  *turn = atomic_load(&h->turn);
  if (atomic_fetch_add(&h->arrived, 1) + 1 < (uint32_t)m->count) return;
  for (int i = 0; i < m->count; i++)
    if (!is_same(&m->ranks[i].meeting, why)) {
      mesh_judge(m, CLU_PROTO, i < m->rank ? i : m->rank, i < m->rank ? m->rank : i);
      return;
    }
  atomic_store(&h->arrived, 0);
  atomic_fetch_add(&h->turn, 1);
  mesh_notify_all(m);
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
