#include "core/shm/node-memory.h"

#include <stddef.h>

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
}

clu_ring *clu_shared_ring(clu_shared *s, int slot) {
  return slot >= 0 && slot < CLU_RINGS && s->has_rings ? &s->ring[slot] : NULL;
}
