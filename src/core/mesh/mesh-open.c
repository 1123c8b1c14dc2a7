/* A mesh whose ranks come and go. A rank belongs to the process whose number is in it. Rank 0 is
 * the only one that a rank has rings with, so it can empty and free them without asking anybody. */
#include "core/mesh/mesh-layout.h"

void clu_mesh_open(clu_mesh *m) { atomic_store(&m->head->is_open, 1); }

static void clear_ring(pair_ring *r) {
  atomic_store(&r->tail, 0);
  atomic_store(&r->put_bytes, 0);
  atomic_store(&r->head, 0);
  atomic_store(&r->taken_bytes, 0);
  atomic_store(&r->wants_room, 0);
}

/* The number of the process goes last: then the rank is free. */
static void free_rank(clu_mesh *m, int rank) {
  mesh_rank *r = &m->ranks[rank];
  peer *p = &m->peers[rank];
  pair_ring *in = mesh_pair(m, rank, 0), *out = mesh_pair(m, 0, rank);
  if (!in || !out) return;                       /* later */
  mesh_drain(m, rank);                           /* where it is damaged, the rest is nobody's */
  for (clu_message *x = m->mail; x; x = x->next) /* the next one at this rank gets no answer */
    if (x->from == rank) x->from = -1;
  clear_ring(in);
  clear_ring(out);
  mesh_free_peer(p);
  *p = (peer){0};
  atomic_fetch_and(m->pending + rank / 64, ~(UINT64_C(1) << rank % 64));
  atomic_store(&r->waits, CLU_WAIT_NONE);
  atomic_store(&r->keeps, 0);
  atomic_store(&r->begun, 0);
  atomic_store(&r->given_up, 0);
  atomic_store(&r->state, CLU_RANK_ABSENT);
  atomic_store(&r->pid, 0);
}

void clu_mesh_recycle(clu_mesh *m, int (*is_gone)(clu_pid)) {
  for (int i = 1; i < m->count; i++) {
    clu_pid pid = (clu_pid)atomic_load(&m->ranks[i].pid);
    if (!pid) continue;
    if (atomic_load(&m->ranks[i].state) <= CLU_RANK_HERE && !is_gone(pid)) continue;
    free_rank(m, i);
  }
}

void clu_mesh_set_begun(clu_mesh *m, int rank, uint64_t what) {
  atomic_store(&m->ranks[rank].begun, what);
}

uint64_t clu_mesh_begun(const clu_mesh *m) { return atomic_load(&m->ranks[m->rank].begun); }

void clu_mesh_set_given_up(clu_mesh *m, uint64_t what) {
  atomic_store(&m->ranks[m->rank].given_up, what);
}

int clu_mesh_is_given_up(const clu_mesh *m, int rank, uint64_t what) {
  return what <= atomic_load(&m->ranks[rank].given_up);
}

void clu_mesh_let_go(clu_mesh *m, int to) { mesh_let_go(&m->peers[to]); }
