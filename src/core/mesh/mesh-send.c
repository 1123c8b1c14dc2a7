#include <string.h>

#include "core/mesh/mesh-layout.h"

/* Where a message goes, and what its first record says of it. */
typedef struct way {
  pair_ring *r;
  int at; /* the rank whose ring that is */
  const char *tag;
  const int *to; /* ranks elsewhere, where the ring is the bridge's */
  int nto;
} way;

/* Writes what the first record has before the body; returns how many bytes that is. */
static size_t put_head(unsigned char *p, const way *w, const clu_blob *body, int is_apart) {
  record_head h = {.is_first = 1,
                   .nsegments = body->segments ? (uint32_t)body->segments->n : 0,
                   .ntag = (uint32_t)strlen(w->tag),
                   .is_apart = (uint32_t)is_apart,
                   .total = body->size,
                   .weight = mesh_weight(body),
                   .nto = (uint32_t)w->nto};
  unsigned char *at = p;
  memcpy(at, &h, sizeof h);
  at += sizeof h;
  memcpy(at, w->tag, h.ntag);
  at += h.ntag;
  for (uint32_t i = 0; i < h.nsegments; i++, at += 8) {
    uint64_t fd = (uint64_t)clu_segment_fd(body->segments->of[i]);
    memcpy(at, &fd, sizeof fd);
  }
  for (int i = 0; i < w->nto; i++, at += 4) {
    uint32_t rank = (uint32_t)w->to[i];
    memcpy(at, &rank, sizeof rank);
  }
  return (size_t)(at - p);
}

static size_t head_size(const way *w, const clu_blob *body) {
  size_t n = body->segments ? (size_t)body->segments->n : 0;
  return sizeof(record_head) + strlen(w->tag) + 8 * n + 4 * (size_t)w->nto;
}

static int has_descriptors(const clu_blob *body) {
  for (int i = 0; body->segments && i < body->segments->n; i++)
    if (clu_segment_fd(body->segments->of[i]) == CLU_NO_FD) return 0;
  return 1;
}

/* A copy of the message with its body in one more segment; NULL: there is none to be had. */
static clu_blob *apart(const clu_blob *body) {
  clu_blob *b = clu_blob_new(0);
  clu_segment *s = b ? clu_segment_new() : NULL;
  int rc = s ? CLU_OK : CLU_LIMIT;
  for (int i = 0; rc == CLU_OK && body->segments && i < body->segments->n; i++)
    if (clu_blob_attach(b, clu_segment_ref(body->segments->of[i])) < 0) {
      clu_segment_unref(body->segments->of[i]);
      rc = CLU_LIMIT;
    }
  if (rc == CLU_OK) rc = clu_segment_append(s, body->data, body->size);
  if (rc == CLU_OK) rc = clu_segment_seal(s);
  if (rc == CLU_OK && clu_blob_attach(b, s) >= 0) return b;
  clu_segment_unref(s);
  clu_blob_unref(b);
  return NULL;
}

/* Segments are found by the process that has them. */
static int can_go_apart(void) {
  const unsigned need = CLU_CAN_MEMFD | CLU_CAN_PROC;
  return (clu_os_can() & need) == need;
}

/* CLU_OK, CLU_AGAIN: there is no room, CLU_NOMEM; or CLU_LIMIT: it has to go by the ring. */
static int send_apart(clu_mesh *m, const way *w, clu_blob *body) {
  uint64_t tail;
  size_t n = head_size(w, body) + 8;
  unsigned char *at = mesh_room_or_ask(w->r, n, mesh_weight(body), &tail);
  clu_blob *b;
  int rc;
  if (!at) return CLU_AGAIN;
  if (!(b = apart(body))) return CLU_LIMIT;
  put_head(at, w, b, 1);
  rc = mesh_hold(&m->peers[w->at], b, tail);
  if (rc == CLU_OK) mesh_publish(m, w->r, w->at, tail, mesh_weight(b));
  clu_blob_unref(b);
  return rc;
}

/* Writes the next record of a message: CLU_OK, CLU_AGAIN, CLU_NOMEM. */
static int put_record(clu_mesh *m, const way *w, clu_blob *body, clu_sending *s) {
  const record_head more = {0};
  uint64_t n = body->size - s->done, tail, weight = s->begun ? 0 : mesh_weight(body);
  size_t head = s->begun ? sizeof more : head_size(w, body);
  unsigned char *at;
  if (n > PAIR_MOST) n = PAIR_MOST;
  if (!(at = mesh_room_or_ask(w->r, head + n, weight, &tail))) return CLU_AGAIN;
  if (!s->begun && body->segments && mesh_hold(&m->peers[w->at], body, tail) != CLU_OK)
    return CLU_NOMEM;
  if (s->begun)
    memcpy(at, &more, sizeof more);
  else
    put_head(at, w, body, 0);
  if (n) memcpy(at + head, body->data + s->done, (size_t)n);
  mesh_publish(m, w->r, w->at, tail, weight);
  s->done += n;
  s->begun = 1;
  return CLU_OK;
}

/* Tells whether all of it can go through the ring now. */
static int fits(const way *w, const clu_blob *body) {
  uint64_t tail;
  return body->size <= PAIR_MOST && mesh_room(w->r, head_size(w, body) + body->size, &tail) != NULL;
}

static int is_gone(const clu_mesh *m, int to, clu_sending *s) {
  if (atomic_load(&m->ranks[to].state) <= CLU_RANK_HERE) return 0;
  s->who = mesh_named(m, to);
  return 1;
}

/* Returns what clu_mesh_send() does. `*begun`: its first record is in the ring, or all of it. */
static int put(clu_mesh *m, const way *w, clu_blob *body, clu_sending *s, int *begun) {
  int rc = CLU_LIMIT;
  mesh_let_go(&m->peers[w->at]);
  if (!s->begun && body->size > PAIR_APART && can_go_apart() && !fits(w, body))
    rc = send_apart(m, w, body);
  *begun = rc == CLU_OK;
  if (rc == CLU_LIMIT) {
    do {
      rc = put_record(m, w, body, s);
      *begun |= rc == CLU_OK;
    } while (rc == CLU_OK && s->done < body->size);
  }
  if (*begun) mesh_notify(m, w->at);
  return rc;
}

int clu_mesh_send(clu_mesh *m, int to, const char *tag, clu_blob *body, clu_sending *s) {
  way w = {.at = to, .tag = tag};
  int begun;
  if (to == m->rank) return mesh_mail_own(m, tag, body);
  if (!mesh_is_here(m, to)) return clu_mesh_send_away(m, &to, 1, tag, body, s);
  if (is_gone(m, to, s)) return CLU_DEAD;
  if (!has_descriptors(body)) return CLU_LIMIT;
  if (!(w.r = mesh_pair(m, m->rank, to))) return CLU_NOMEM;
  return put(m, &w, body, s, &begun);
}

int clu_mesh_send_away(clu_mesh *m, const int *to, int n, const char *tag, clu_blob *body,
                       clu_sending *s) {
  way w = {.at = (int)atomic_load(&m->head->lead) - 1, .tag = tag, .to = to, .nto = n};
  int rc, begun, had;
  for (int i = 0; i < n && !s->begun; i++) {
    pair_ring *count; /* only to count what waits there */
    if (is_gone(m, to[i], s)) return CLU_DEAD;
    if (!(count = mesh_pair(m, m->rank, to[i]))) return CLU_NOMEM;
    if (mesh_is_full_away(count, mesh_weight(body))) return CLU_AGAIN;
  }
  if (!has_descriptors(body)) return CLU_LIMIT;
  if (w.at < 0 || w.at >= m->count || !(w.r = mesh_pair(m, m->rank, w.at))) return CLU_NOMEM;
  had = s->begun;
  rc = put(m, &w, body, s, &begun);
  for (int i = 0; i < n && begun && !had; i++)
    atomic_fetch_add(&m->peers[to[i]].out->put_away, mesh_weight(body));
  return rc;
}
