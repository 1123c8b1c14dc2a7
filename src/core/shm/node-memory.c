#include "core/shm/node-memory.h"

#include <stddef.h>
#include <string.h>

int clu_shared_new(clu_shared **s, clu_fd *fd, clu_err *e) {
  void *p;
  int rc = clu_os_shared_new(sizeof **s, &p, fd, e);
  if (rc == CLU_OK) {
    *s = p;
    (*s)->has_rings = 1;
    return CLU_OK;
  }
  /* what is mapped behind the end of the file is never touched */
  rc = clu_os_shared_new(offsetof(clu_shared, ring), &p, fd, e);
  if (rc != CLU_OK) return rc;
  clu_os_shared_free(p, offsetof(clu_shared, ring));
  rc = clu_shared_map(s, *fd, e);
  if (rc != CLU_OK) clu_os_close(*fd);
  return rc;
}

int clu_shared_map(clu_shared **s, clu_fd fd, clu_err *e) {
  void *p;
  int rc = clu_os_shared_map(fd, sizeof **s, &p, e);
  if (rc == CLU_OK) *s = p;
  return rc;
}

void clu_shared_reset(clu_shared *s, int slot) {
  s->cancel[slot] = 0;
  atomic_store(&s->claim[slot], 0);
  if (clu_shared_ring(s, slot)) clu_ring_reset(clu_shared_ring(s, slot));
  if (!s->has_rings) return;
  memset((void *)&s->activity[slot], 0, sizeof s->activity[slot]);
  /* what is in the stack itself counts for nothing then */
  atomic_store(&s->stack_word[slot].asked, 0);
  atomic_store(&s->stack_word[slot].told, 0);
  atomic_store(&s->stack_word[slot].copies_asked, 0);
  atomic_store(&s->stack_word[slot].copies_told, 0);
  atomic_store(&s->stack_word[slot].copy_of, 0);
  atomic_store(&s->stack_word[slot].keeps_last, 0);
  atomic_store(&s->stack_word[slot].is_last, 0);
}

clu_ring *clu_shared_ring(clu_shared *s, int slot) {
  return slot >= 0 && slot < CLU_RINGS && s->has_rings ? &s->ring[slot] : NULL;
}

clu_activity *clu_shared_activity(clu_shared *s, int slot) {
  return slot >= 0 && slot < CLU_SLOTS && s->has_rings ? &s->activity[slot] : NULL;
}

clu_stack_word *clu_shared_stack_word(clu_shared *s, int slot) {
  return clu_shared_stack(s, slot) ? &s->stack_word[slot] : NULL;
}

clu_stack *clu_shared_stack(clu_shared *s, int slot) {
  return slot >= 0 && slot < CLU_STACKS && s->has_rings ? &s->stack[slot] : NULL;
}
