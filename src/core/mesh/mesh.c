#include "core/mesh/mesh.h"

#include <stdlib.h>
#include <string.h>

#include "core/mesh/mesh-layout.h"

/* ---- making, joining ---- */

static clu_mesh *blank(int count, int rank) {
  clu_mesh *m = calloc(1, sizeof *m);
  if (!m) return NULL;
  m->fd = CLU_NO_FD;
  m->owner = clu_os_getpid();
  m->count = count;
  m->rank = rank;
  m->size = mesh_size(count);
  m->mail_end = &m->mail;
  if (rank < 0) return m;
  m->peers = calloc((size_t)count, sizeof *m->peers);
  if (!m->peers) {
    free(m);
    return NULL;
  }
  return m;
}

static int map_heads(clu_mesh *m, clu_err *e) {
  size_t n = (size_t)mesh_heads(m->count);
  void *p;
  int rc = clu_os_common_map(m->fd, 0, n, &p, e);
  if (rc != CLU_OK) return rc;
  m->map = p;
  m->map_bytes = n;
  m->head = p;
  m->ranks = (mesh_rank *)(m->map + sizeof(mesh_head));
  m->pending = (_Atomic uint64_t *)(m->ranks + m->count);
  return CLU_OK;
}

int clu_mesh_new(int count, const char *folder, clu_mesh **out, clu_err *e) {
  clu_mesh *m;
  int rc;
  if (count < 1 || count > CLU_RANKS_MOST)
    return clu_fail(e, CLU_LIMIT, 0, "a run has 1 to %d ranks", CLU_RANKS_MOST);
  m = blank(count, -1);
  if (!m) return clu_fail(e, CLU_NOMEM, 0, "not enough memory");
  rc = clu_os_common_new(m->size, folder, &m->fd, m->path, sizeof m->path, e);
  if (rc == CLU_OK) rc = map_heads(m, e);
  if (rc != CLU_OK) {
    clu_mesh_free(m);
    return rc;
  }
  m->head->magic = MESH_MAGIC;
  m->head->count = (uint64_t)count;
  *out = m;
  return CLU_OK;
}

const char *clu_mesh_path(const clu_mesh *m) { return m->path; }

/* `rank` -1: any that is free. */
static int be_here(clu_mesh *m, int rank) {
  uint64_t none = 0, me = (uint64_t)m->owner;
  if (rank >= 0) {
    atomic_store(&m->ranks[rank].pid, me);
  } else {
    for (rank = 1; rank < m->count; rank++, none = 0)
      if (!atomic_load(&m->ranks[rank].pid) &&
          atomic_compare_exchange_strong(&m->ranks[rank].pid, &none, me))
        break;
    if (rank == m->count) return CLU_AGAIN;
  }
  m->rank = rank;
  atomic_store(&m->ranks[rank].state, CLU_RANK_HERE);
  return CLU_OK;
}

static int join(const char *path, int count, int rank, clu_mesh **out, clu_err *e) {
  clu_mesh *m;
  int rc;
  if (count < 1 || count > CLU_RANKS_MOST || rank < -1 || rank >= count)
    return clu_fail(e, CLU_PROTO, 0, "there is no such rank");
  m = blank(count, rank < 0 ? 0 : rank);
  if (!m) return clu_fail(e, CLU_NOMEM, 0, "not enough memory");
  rc = clu_os_common_open(path, m->size, &m->fd, e);
  if (rc == CLU_OK) rc = map_heads(m, e);
  if (rc == CLU_OK && (m->head->magic != MESH_MAGIC || m->head->count != (uint64_t)count))
    rc = clu_fail(e, CLU_PROTO, 0, "the shared memory is of another kind");
  if (rc == CLU_OK) rc = be_here(m, rank);
  if (rc != CLU_OK) {
    clu_mesh_free(m);
    return rc;
  }
  clu_os_move_high(&m->fd, 128);
  *out = m;
  return CLU_OK;
}

int clu_mesh_join(const char *path, int count, int rank, clu_mesh **out, clu_err *e) {
  if (rank < 0) return clu_fail(e, CLU_PROTO, 0, "there is no such rank");
  return join(path, count, rank, out, e);
}

int clu_mesh_enter(const char *path, int count, clu_mesh **out, clu_err *e) {
  return join(path, count, -1, out, e);
}

/* Memory for what it has of others is not touched before it is used: there may be very many. */
clu_mesh *mesh_stand_in(clu_mesh *of, int rank) {
  clu_mesh *m = blank(of->count, rank);
  if (!m) return NULL;
  m->is_second = 1;
  m->fd = of->fd;
  m->map = of->map;
  m->map_bytes = of->map_bytes;
  m->head = of->head;
  m->ranks = of->ranks;
  m->pending = of->pending;
  atomic_store(&m->ranks[rank].pid, (uint64_t)m->owner);
  return m;
}

void mesh_free_peer(peer *p) {
  while (p->holds) {
    held *h = p->holds;
    p->holds = h->next;
    clu_blob_unref(h->blob);
    free(h);
  }
  clu_message_free(p->partial);
  if (p->out) clu_os_shared_free(p->out, PAIR_SIZE);
  if (p->in) clu_os_shared_free(p->in, PAIR_SIZE);
}

void clu_mesh_free(clu_mesh *m) {
  if (!m) return;
  if (m->rank < 0 && m->path[0] && clu_mesh_is_ours(m)) clu_os_common_remove(m->path);
  clu_mesh_drop_mail(m);
  for (int i = 0; m->peers && i < m->count; i++) mesh_free_peer(&m->peers[i]);
  free(m->peers);
  if (m->area) clu_os_shared_free(m->area, (size_t)((uint64_t)(m->count + 1) * CLU_REDUCE_BYTES));
  if (m->map && !m->is_second) clu_os_shared_free(m->map, m->map_bytes);
  if (m->fd != CLU_NO_FD && !m->is_second) clu_os_close(m->fd);
  free(m);
}

int clu_mesh_is_needed(clu_mesh *m) {
  int keeps = 0;
  for (int i = 0; i < m->count; i++) {
    mesh_let_go(&m->peers[i]);
    if (m->peers[i].holds) keeps = 1;
  }
  atomic_store(&m->ranks[m->rank].keeps, (uint32_t)keeps);
  return keeps;
}
