#include "core/shm/result-ring.h"

#include <string.h>

#define WORD 8u
#define SKIP UINT64_MAX

static size_t rounded(size_t n) { return (n + WORD - 1) / WORD * WORD; }
static size_t at(uint64_t pos) { return (size_t)(pos % CLU_RING_BYTES); }

void clu_ring_reset(clu_ring *r) {
  atomic_store(&r->tail, 0);
  atomic_store(&r->head, 0);
  atomic_store(&r->looking, 0);
  atomic_store(&r->told, 0);
}

/* Each side writes its own word and then reads the other's, in one order for both: the writer sees
 * that the reader has stopped to look, or the reader the record. */
int clu_ring_must_tell(clu_ring *r) {
  atomic_thread_fence(memory_order_seq_cst);
  if (atomic_load_explicit(&r->looking, memory_order_relaxed)) return 0;
  return !atomic_exchange(&r->told, 1);
}

void clu_ring_heard(clu_ring *r) {
  atomic_store(&r->told, 0);
  atomic_thread_fence(memory_order_seq_cst);
}

void clu_ring_look(clu_ring *r, int looking) {
  atomic_store(&r->looking, (uint32_t)looking);
  atomic_thread_fence(memory_order_seq_cst);
}

size_t clu_ring_used(const clu_ring *r) {
  return (size_t)(atomic_load_explicit(&r->tail, memory_order_relaxed) -
                  atomic_load_explicit(&r->head, memory_order_relaxed));
}

unsigned char *clu_ring_room(clu_ring *r, size_t n) {
  uint64_t tail = atomic_load_explicit(&r->tail, memory_order_relaxed);
  uint64_t head = atomic_load_explicit(&r->head, memory_order_acquire), skip = SKIP;
  size_t need = WORD + rounded(n), left = CLU_RING_BYTES - at(tail);
  if (need > left) {
    if (CLU_RING_BYTES - (size_t)(tail - head) < left + need) return NULL;
    memcpy(r->data + at(tail), &skip, WORD);
    tail += left;
    atomic_store_explicit(&r->tail, tail, memory_order_release);
  } else if (CLU_RING_BYTES - (size_t)(tail - head) < need) {
    return NULL;
  }
  return r->data + at(tail) + WORD;
}

void clu_ring_publish(clu_ring *r, size_t n) {
  uint64_t tail = atomic_load_explicit(&r->tail, memory_order_relaxed), size = n;
  memcpy(r->data + at(tail), &size, WORD);
  atomic_store_explicit(&r->tail, tail + WORD + rounded(n), memory_order_release);
}

const unsigned char *clu_ring_peek(clu_ring *r, size_t *n) {
  for (int k = 0; k < 2; k++) {
    uint64_t tail = atomic_load_explicit(&r->tail, memory_order_acquire);
    uint64_t head = atomic_load_explicit(&r->head, memory_order_relaxed), size;
    size_t left = CLU_RING_BYTES - at(head);
    *n = 0;
    if (tail == head) return NULL;
    *n = SIZE_MAX;
    if (tail - head < WORD || tail - head > CLU_RING_BYTES || head % WORD) return NULL;
    memcpy(&size, r->data + at(head), WORD);
    if (size == SKIP) {
      if (tail - head < left) return NULL;
      atomic_store_explicit(&r->head, head + left, memory_order_release);
      continue;
    }
    if (size == 0 || size > CLU_RING_MOST || WORD + rounded((size_t)size) > left ||
        tail - head < WORD + rounded((size_t)size))
      return NULL;
    *n = (size_t)size;
    return r->data + at(head) + WORD;
  }
  return NULL;
}

void clu_ring_took(clu_ring *r) {
  uint64_t head = atomic_load_explicit(&r->head, memory_order_relaxed), size;
  if (head % WORD) return;
  memcpy(&size, r->data + at(head), WORD);
  if (size > CLU_RING_MOST) return; /* it has changed since clu_ring_peek(): a corrupt peer */
  atomic_store_explicit(&r->head, head + WORD + rounded((size_t)size), memory_order_release);
}
