#include "core/state/state-layout.h"

int clu_lock_depth(clu_state *s) {
  state_look_who(s);
  return s->depth;
}

int clu_lock_take(clu_state *s, uint64_t ns, clu_pid *before) {
  state_head *h = s->head;
  int rc;
  if (clu_lock_depth(s) > 0) {
    s->depth++;
    return CLU_OK;
  }
  rc = clu_os_mutex_take(&h->mutex, s->fd, ns, s->holder, before);
  if (rc != CLU_OK && rc != CLU_DEAD) return rc;
  s->depth = 1;
  atomic_fetch_add_explicit(&h->taken, 1, memory_order_relaxed);
  if (rc == CLU_DEAD) atomic_fetch_add_explicit(&h->died, 1, memory_order_relaxed);
  return rc;
}

void clu_lock_give(clu_state *s) {
  if (clu_lock_depth(s) == 0 || --s->depth > 0) return;
  clu_os_mutex_give(&s->head->mutex, s->fd, s->holder);
  state_end_unused(s);
}

void clu_lock_look(clu_state *s, clu_lock_info *out) {
  out->holder = (clu_pid)atomic_load(&s->head->mutex.holder);
  out->taken = atomic_load(&s->head->taken);
  out->died = atomic_load(&s->head->died);
}
