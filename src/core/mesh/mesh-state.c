#include <string.h>

#include "core/base/os-machine.h"
#include "core/mesh/mesh-layout.h"

int clu_mesh_is_ours(const clu_mesh *m) { return m->owner == clu_os_getpid(); }
int clu_mesh_count(const clu_mesh *m) { return m->count; }
int clu_mesh_rank(const clu_mesh *m) { return m->rank; }
int clu_mesh_is_here(const clu_mesh *m, int rank) { return mesh_is_here(m, rank); }

/* Ranks elsewhere have one word, the bridge's. */
void mesh_notify(clu_mesh *m, int rank) {
  int there = mesh_is_here(m, rank) ? rank : (int)atomic_load(&m->head->lead) - 1;
  mesh_rank *r = &m->ranks[there < 0 || there >= m->count ? rank : there];
  atomic_fetch_add(&r->events, 1);
  if (atomic_load(&r->asleep)) clu_os_word_wake(&r->events, 0);
}

/* ---- ends ---- */

void mesh_notify_all(clu_mesh *m) {
  uint32_t lead = atomic_load(&m->head->lead);
  for (int i = 0; i < m->count; i++)
    if (i != m->rank && (mesh_is_here(m, i) || lead == (uint32_t)i + 1)) mesh_notify(m, i);
}

static void set_first(clu_mesh *m, int rank) {
  uint32_t none = 0;
  atomic_compare_exchange_strong(&m->head->first, &none, (uint32_t)rank + 1);
}

int mesh_named(const clu_mesh *m, int who) {
  uint32_t first = atomic_load(&m->head->first);
  if (atomic_load(&m->ranks[who].state) == CLU_RANK_ENDED || first == 0 ||
      first > (uint32_t)m->count)
    return who;
  return (int)first - 1;
}

void clu_mesh_leave(clu_mesh *m, int failed) {
  if (failed) set_first(m, m->rank);
  if (clu_mesh_verdict(m, NULL) == CLU_OK) atomic_store(&m->ranks[m->rank].waits, CLU_WAIT_NONE);
  atomic_store(&m->ranks[m->rank].state, failed ? CLU_RANK_FAILED : CLU_RANK_ENDED);
  mesh_notify_all(m);
}

void mesh_has_gone(clu_mesh *m, int rank, int state, const clu_exit *how) {
  mesh_rank *r = &m->ranks[rank];
  atomic_store(&r->by_signal, (uint32_t)how->by_signal);
  atomic_store(&r->code, (uint32_t)how->code);
  atomic_store(&r->state, (uint32_t)state);
  if (state != CLU_RANK_ENDED) set_first(m, rank);
  mesh_notify_all(m);
}

void clu_mesh_died(clu_mesh *m, int rank, const clu_exit *how) {
  mesh_has_gone(m, rank, CLU_RANK_DEAD, how);
}

void mesh_judge(clu_mesh *m, int verdict, int a, int b) {
  uint64_t none = 0, whole = (uint64_t)verdict | (uint64_t)a << 16 | (uint64_t)b << 32;
  if (atomic_compare_exchange_strong(&m->head->verdict, &none, whole)) mesh_notify_all(m);
}

int mesh_all_live(const clu_mesh *m) {
  for (int i = 0; i < m->count; i++) {
    const mesh_rank *r = &m->ranks[i];
    if (!mesh_is_here(m, i) || atomic_load(&r->state) != CLU_RANK_HERE) continue;
    if (clu_os_process_state((clu_pid)atomic_load(&r->pid)) == 0) return 0;
  }
  return 1;
}

void clu_mesh_end(clu_mesh *m) { mesh_judge(m, CLU_CANCELLED, 0, 0); }

int clu_mesh_verdict(const clu_mesh *m, int who[2]) {
  uint64_t whole = atomic_load(&m->head->verdict);
  for (int i = 0; who && i < 2; i++) who[i] = (int)(whole >> (16 + 16 * i) & 0xffff);
  return (int)(whole & 0xffff);
}

void clu_mesh_info(const clu_mesh *m, int rank, clu_rank_info *out) {
  mesh_rank *r = &m->ranks[rank];
  memset(out, 0, sizeof *out);
  out->state = (int)atomic_load(&r->state);
  out->pid = (clu_pid)atomic_load(mesh_is_here(m, rank) ? &r->pid : &r->pid_there);
  out->how.by_signal = (int)atomic_load(&r->by_signal);
  out->how.code = (int)atomic_load(&r->code);
  out->keeps = (int)atomic_load(&r->keeps);
  out->waits = (int)atomic_load(&r->waits);
  out->wait_for = (int)atomic_load(&r->wait_for) - 1;
  out->has_tag = (int)atomic_load(&r->has_tag);
  memcpy(out->tag, r->tag, CLU_TAG_MOST);
  out->meeting = r->meeting;
}
