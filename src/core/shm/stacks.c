#include "core/shm/stacks.h"

#include <string.h>

#define TRIES 100 /* to read one that is being written; a node writes for microseconds */

/* 0 is never a question's number: it means that there is none. */
uint32_t clu_stack_ask(clu_stack_word *w) {
  uint32_t n = atomic_fetch_add(&w->asked, 1) + 1;
  return n ? n : atomic_fetch_add(&w->asked, 1) + 1;
}

int clu_stack_is_told(const clu_stack_word *w, uint32_t question) {
  uint32_t told = atomic_load_explicit(&w->told, memory_order_acquire);
  return told != 0 && (int32_t)(told - question) >= 0;
}

void clu_stack_tell(clu_stack_word *w, clu_stack *s, uint32_t question, uint64_t seq, uint64_t now,
                    const char *text, size_t n) {
  uint64_t version = atomic_load_explicit(&s->version, memory_order_relaxed) | 1;
  if (n > CLU_STACK_TEXT) n = CLU_STACK_TEXT;
  atomic_store_explicit(&s->version, version, memory_order_relaxed);
  atomic_thread_fence(memory_order_release);
  s->seq = seq;
  s->taken = now;
  s->told = question;
  s->size = (uint32_t)n;
  memcpy(s->text, text, n);
  atomic_store_explicit(&s->version, version + 1, memory_order_release);
  atomic_store_explicit(&w->told, question, memory_order_release);
}

int clu_stack_read(const clu_stack_word *w, const clu_stack *s, clu_stack *out) {
  if (atomic_load_explicit(&w->told, memory_order_acquire) == 0) return 0;
  for (int k = 0; k < TRIES; k++) {
    uint64_t version = atomic_load_explicit(&s->version, memory_order_acquire);
    if (version % 2) continue;
    out->seq = s->seq;
    out->taken = s->taken;
    out->told = s->told;
    out->size = s->size;
    if (out->size <= CLU_STACK_TEXT) memcpy(out->text, s->text, out->size);
    atomic_thread_fence(memory_order_acquire);
    if (atomic_load_explicit(&s->version, memory_order_relaxed) == version)
      return out->size <= CLU_STACK_TEXT;
  }
  return 0;
}
