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
}

/* An empty ring goes on at its begin. What is left of it is skipped by the reader or here, whoever
 * comes first: to the reader it would count as used until it looks. Returns the new position. */
static uint64_t begin_anew(pair_ring *r, uint64_t pos) {
  const uint64_t skip = RING_SKIP;
  uint64_t at = pos % PAIR_BYTES, next = pos + PAIR_BYTES - at;
  memcpy(data(r) + at, &skip, WORD);
  atomic_store_explicit(&r->tail, next, memory_order_release);
  atomic_compare_exchange_strong(&r->head, &pos, next);
  atomic_thread_fence(memory_order_release); /* what is written now comes behind it: mesh_peek() */
  return next;
}

/* Where a record of `n` bytes may be written, and what the tail will be behind it; NULL: there is
 * no room. */
unsigned char *mesh_room(pair_ring *r, uint64_t n, uint64_t *tail) {
  uint64_t pos = atomic_load_explicit(&r->tail, memory_order_relaxed);
  uint64_t used = pos - atomic_load(&r->head);
  uint64_t need = WORD + rounded(n), at, left;
  if (used > PAIR_BYTES) return NULL; /* the reader has written what cannot be */
  if (used == 0 && pos % PAIR_BYTES > PAIR_FIRST) pos = begin_anew(r, pos);
  at = pos % PAIR_BYTES;
  left = PAIR_BYTES - at;
  if (need > left) {
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
unsigned char *mesh_room_or_ask(pair_ring *r, uint64_t n, uint64_t weight, uint64_t *tail) {
  unsigned char *p = is_full(r, weight) ? NULL : mesh_room(r, n, tail);
  if (p) return p;
  atomic_store(&r->wants_room, 1);
  p = is_full(r, weight) ? NULL : mesh_room(r, n, tail);
  if (p) atomic_store(&r->wants_room, 0);
  return p;
}

/* The last bytes that were taken may never be told (MESH_TELL_FROM): a message of any size can go
 * all the same. */
static int is_full_there(const pair_ring *r, uint64_t weight) {
  uint64_t waits = atomic_load(&r->put_away) - atomic_load(&r->taken_away);
  return waits >= MESH_TELL_FROM && waits + weight > CLU_PAIR_MOST;
}

int mesh_is_full_away(pair_ring *r, uint64_t weight) {
  if (!is_full_there(r, weight)) return 0;
  atomic_store(&r->wants_room_away, 1);
  if (is_full_there(r, weight)) return 1;
  atomic_store(&r->wants_room_away, 0);
  return 0;
}

/* The bit is set each time, also where it seems to be set: the reader takes it back, and then reads
 * the tail. In this way it sees this tail, or the bit afterwards. */
void mesh_publish(clu_mesh *m, pair_ring *r, int to, uint64_t tail, uint64_t weight) {
  uint64_t put = atomic_load_explicit(&r->put_bytes, memory_order_relaxed) + weight;
  atomic_store_explicit(&r->put_bytes, put, memory_order_relaxed);
  atomic_store_explicit(&r->tail, tail, memory_order_release);
  atomic_fetch_or(m->pending + (size_t)to * mesh_words(m->count) + m->rank / 64,
                  UINT64_C(1) << m->rank % 64);
}

int mesh_hold(peer *p, clu_blob *body, uint64_t until) {
  held *h = malloc(sizeof *h);
  if (!h) return CLU_NOMEM;
  *h = (held){NULL, clu_blob_ref(body), until};
  if (p->holds)
    *p->holds_end = h;
  else
    p->holds = h;
  p->holds_end = &h->next;
  return CLU_OK;
}

/* ---- the reader ---- */

/* Where the writer has moved the head meanwhile (begin_anew()) it may also have written over the
 * place that the head was at: what was read counts for nothing. */
const unsigned char *mesh_peek(pair_ring *r, size_t *n) {
  *n = 0;
  for (;;) {
    uint64_t head = atomic_load_explicit(&r->head, memory_order_relaxed);
    uint64_t used = atomic_load_explicit(&r->tail, memory_order_acquire) - head;
    uint64_t at = head % PAIR_BYTES, left = PAIR_BYTES - at, size;
    if (used == 0) return NULL;
    if (at % WORD) break;
    memcpy(&size, data(r) + at, WORD);
    atomic_thread_fence(memory_order_acquire);
    if (atomic_load_explicit(&r->head, memory_order_relaxed) != head) continue;
    if (used > PAIR_BYTES || used % WORD) break;
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
