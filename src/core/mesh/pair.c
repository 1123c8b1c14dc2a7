/* The ring of a pair, as core/shm/result-ring.c; but its records are of any size up to a quarter of
 * it, and what they stand for is counted. */
#include <stdlib.h>
#include <string.h>

#include "core/mesh/mesh-layout.h"

#define WORD 8u

static uint64_t rounded(uint64_t n) { return (n + WORD - 1) / WORD * WORD; }
static unsigned char *data(pair_ring *r) { return (unsigned char *)(r + 1); }

pair_ring *mesh_pair(clu_mesh *m, int from, int to) {
  pair_ring **r = from == m->rank ? &m->peers[to].out : &m->peers[from].in;
  void *p;
  if (*r) return *r;
  if (clu_os_common_map(m->fd, mesh_pair_at(m->count, from, to), PAIR_SIZE, &p, NULL) != CLU_OK)
    return NULL;
  return *r = p;
}

/* ---- the writer ---- */

void mesh_let_go(peer *p) {
  uint64_t head;
  if (!p->holds) return;
  head = atomic_load_explicit(&p->out->head, memory_order_acquire);
  while (p->holds && p->holds->until <= head) {
    held *h = p->holds;
    p->holds = h->next;
    clu_blob_unref(h->blob);
    free(h);
  }
  if (!p->holds) p->holds_end = &p->holds;
}

/* Where a record of `n` bytes may be written, and what the tail will be behind it; NULL: there is
 * no room. */
static unsigned char *room(pair_ring *r, uint64_t n, uint64_t *tail) {
  uint64_t pos = atomic_load_explicit(&r->tail, memory_order_relaxed);
  uint64_t used = pos - atomic_load(&r->head);
  uint64_t need = WORD + rounded(n), at = pos % PAIR_BYTES, left = PAIR_BYTES - at;
  int anew = used == 0 && at > PAIR_FIRST && need <= at;
  if (used > PAIR_BYTES) return NULL; /* the reader has written what cannot be */
  if (anew || need > left) {
    const uint64_t skip = RING_SKIP;
    if (used + left + need > PAIR_BYTES) return NULL;
    memcpy(data(r) + at, &skip, WORD);
    pos += left;
    at = 0;
  } else if (used + need > PAIR_BYTES) {
    return NULL;
  }
  memcpy(data(r) + at, &n, WORD);
  *tail = pos + need;
  return data(r) + at + WORD;
}

static int is_full(const pair_ring *r, uint64_t weight) {
  uint64_t waits =
      atomic_load_explicit(&r->put_bytes, memory_order_relaxed) - atomic_load(&r->taken_bytes);
  return waits > 0 && waits + weight > CLU_PAIR_MOST;
}

/* The reader looks at `wants_room` after it has moved its head, so one of the two sees the other.
 */
static unsigned char *room_or_ask(pair_ring *r, uint64_t n, uint64_t weight, uint64_t *tail) {
  unsigned char *p = is_full(r, weight) ? NULL : room(r, n, tail);
  if (p) return p;
  atomic_store(&r->wants_room, 1);
  p = is_full(r, weight) ? NULL : room(r, n, tail);
  if (p) atomic_store(&r->wants_room, 0);
  return p;
}

/* The bit is set each time, also where it seems to be set: the reader takes it back, and then reads
 * the tail. In this way it sees this tail, or the bit afterwards. */
static void publish(clu_mesh *m, pair_ring *r, int to, uint64_t tail, uint64_t weight) {
  uint64_t put = atomic_load_explicit(&r->put_bytes, memory_order_relaxed) + weight;
  atomic_store_explicit(&r->put_bytes, put, memory_order_relaxed);
  atomic_store_explicit(&r->tail, tail, memory_order_release);
  atomic_fetch_or(m->pending + (size_t)to * mesh_words(m->count) + m->rank / 64,
                  UINT64_C(1) << m->rank % 64);
}

static int hold(peer *p, clu_blob *body, uint64_t until) {
  held *h = malloc(sizeof *h);
  if (!h) return CLU_NOMEM;
  *h = (held){NULL, clu_blob_ref(body), until};
  *p->holds_end = h;
  p->holds_end = &h->next;
  return CLU_OK;
}

/* Writes what the first record has before the body; returns how many bytes that is. */
static size_t put_head(unsigned char *p, const char *tag, const clu_blob *body, int is_apart) {
  record_head h = {.is_first = 1,
                   .nsegments = body->segments ? (uint32_t)body->segments->n : 0,
                   .ntag = (uint32_t)strlen(tag),
                   .is_apart = (uint32_t)is_apart,
                   .total = body->size,
                   .weight = clu_blob_weight(body)};
  unsigned char *at = p;
  memcpy(at, &h, sizeof h);
  at += sizeof h;
  memcpy(at, tag, h.ntag);
  at += h.ntag;
  for (uint32_t i = 0; i < h.nsegments; i++, at += 8) {
    uint64_t fd = (uint64_t)clu_segment_fd(body->segments->of[i]);
    memcpy(at, &fd, sizeof fd);
  }
  return (size_t)(at - p);
}

static size_t head_size(const char *tag, const clu_blob *body) {
  size_t n = body->segments ? (size_t)body->segments->n : 0;
  return sizeof(record_head) + strlen(tag) + 8 * n;
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
static int send_apart(clu_mesh *m, pair_ring *r, int to, const char *tag, clu_blob *body) {
  uint64_t tail;
  size_t n = head_size(tag, body) + 8;
  unsigned char *at = room_or_ask(r, n, clu_blob_weight(body), &tail);
  clu_blob *b;
  int rc;
  if (!at) return CLU_AGAIN;
  if (!(b = apart(body))) return CLU_LIMIT;
  put_head(at, tag, b, 1);
  rc = hold(&m->peers[to], b, tail);
  if (rc == CLU_OK) publish(m, r, to, tail, clu_blob_weight(b));
  clu_blob_unref(b);
  return rc;
}

/* Writes the next record of a message: CLU_OK, CLU_AGAIN, CLU_NOMEM. */
static int put_record(clu_mesh *m, pair_ring *r, int to, const char *tag, clu_blob *body,
                      clu_sending *s) {
  const record_head more = {0};
  uint64_t n = body->size - s->done, tail, weight = s->begun ? 0 : clu_blob_weight(body);
  size_t head = s->begun ? sizeof more : head_size(tag, body);
  unsigned char *at;
  if (n > PAIR_MOST) n = PAIR_MOST;
  if (!(at = room_or_ask(r, head + n, weight, &tail))) return CLU_AGAIN;
  if (!s->begun && body->segments && hold(&m->peers[to], body, tail) != CLU_OK) return CLU_NOMEM;
  if (s->begun)
    memcpy(at, &more, sizeof more);
  else
    put_head(at, tag, body, 0);
  if (n) memcpy(at + head, body->data + s->done, (size_t)n);
  publish(m, r, to, tail, weight);
  s->done += n;
  s->begun = 1;
  return CLU_OK;
}

/* Tells whether all of it can go through the ring now. */
static int fits(pair_ring *r, const char *tag, const clu_blob *body) {
  uint64_t tail;
  return body->size <= PAIR_MOST && room(r, head_size(tag, body) + body->size, &tail) != NULL;
}

int clu_mesh_send(clu_mesh *m, int to, const char *tag, clu_blob *body, clu_sending *s) {
  pair_ring *r;
  int rc = CLU_LIMIT, begun = 0;
  if (to == m->rank) return mesh_mail_own(m, tag, body);
  if (atomic_load(&m->ranks[to].state) > CLU_RANK_HERE) return CLU_DEAD;
  if (!has_descriptors(body)) return CLU_LIMIT;
  if (!(r = mesh_pair(m, m->rank, to))) return CLU_NOMEM;
  mesh_let_go(&m->peers[to]);
  if (!s->begun && body->size > PAIR_APART && can_go_apart() && !fits(r, tag, body))
    rc = send_apart(m, r, to, tag, body);
  if (rc == CLU_LIMIT) {
    do {
      rc = put_record(m, r, to, tag, body, s);
      begun |= rc == CLU_OK;
    } while (rc == CLU_OK && s->done < body->size);
  }
  if (rc == CLU_OK || begun) mesh_notify(m, to);
  return rc;
}

/* ---- the reader ---- */

const unsigned char *mesh_peek(pair_ring *r, size_t *n) {
  *n = 0;
  for (;;) {
    uint64_t head = atomic_load_explicit(&r->head, memory_order_relaxed);
    uint64_t used = atomic_load_explicit(&r->tail, memory_order_acquire) - head;
    uint64_t at = head % PAIR_BYTES, left = PAIR_BYTES - at, size;
    if (used == 0) return NULL;
    if (used > PAIR_BYTES || used % WORD || at % WORD) break;
    memcpy(&size, data(r) + at, WORD);
    if (size == RING_SKIP) {
      if (left > used) break;
      atomic_store_explicit(&r->head, head + left, memory_order_release);
      continue;
    }
    if (size < sizeof(record_head) || size > PAIR_BYTES || WORD + rounded(size) > used ||
        WORD + rounded(size) > left)
      break;
    *n = (size_t)size;
    return data(r) + at + WORD;
  }
  *n = 1;
  return NULL;
}

/* In one order for all: the writer, who has said that it wants room, sees these, or the reader sees
 * that it does. */
void mesh_took(pair_ring *r, uint64_t weight) {
  uint64_t head = atomic_load_explicit(&r->head, memory_order_relaxed), size;
  memcpy(&size, data(r) + head % PAIR_BYTES, WORD);
  if (weight) atomic_store(&r->taken_bytes, atomic_load(&r->taken_bytes) + weight);
  atomic_store(&r->head, head + WORD + rounded(size));
}
