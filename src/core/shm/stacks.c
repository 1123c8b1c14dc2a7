#include "core/shm/stacks.h"

#include <string.h>

#define TRIES 100 /* to read one that is being written; a node writes for microseconds */

/* 0 is never a question's number: it means that there is none. */
static uint32_t next_number(_Atomic uint32_t *last) {
  uint32_t n = atomic_fetch_add(last, 1) + 1;
  return n ? n : atomic_fetch_add(last, 1) + 1;
}

static int has_come(const _Atomic uint32_t *last, uint32_t number) {
  uint32_t n = atomic_load_explicit(last, memory_order_acquire);
  return n != 0 && (int32_t)(n - number) >= 0;
}

uint32_t clu_stack_ask(clu_stack_word *w) { return next_number(&w->asked); }

int clu_stack_is_told(const clu_stack_word *w, uint32_t question) {
  return has_come(&w->told, question);
}

uint32_t clu_stack_ask_copy(clu_stack_word *w, uint64_t seq) {
  uint32_t copy;
  atomic_store(&w->copy_of, seq);
  copy = next_number(&w->copies_asked);
  clu_stack_ask(w);
  return copy;
}

uint32_t clu_stack_ask_last_copy(clu_stack_word *w, uint64_t seq) {
  atomic_store(&w->is_last, 1);
  return clu_stack_ask_copy(w, seq);
}

void clu_stack_give_up_copy(clu_stack_word *w) { atomic_store(&w->copy_of, 0); }

int clu_stack_is_copied(const clu_stack_word *w, uint32_t copy) {
  return has_come(&w->copies_told, copy);
}

/* ---- the node's ---- */

static uint64_t begin_write(clu_stack *s) {
  uint64_t version = atomic_load_explicit(&s->version, memory_order_relaxed) | 1;
  atomic_store_explicit(&s->version, version, memory_order_relaxed);
  atomic_thread_fence(memory_order_release);
  return version;
}

void clu_stack_tell(clu_stack_word *w, clu_stack *s, uint32_t question, uint64_t seq, uint64_t now,
                    const char *text, size_t n) {
  uint64_t version = begin_write(s);
  if (n > CLU_STACK_TEXT) n = CLU_STACK_TEXT;
  s->seq = seq;
  s->taken = now;
  s->told = question;
  s->size = (uint32_t)n;
  memcpy(s->text, text, n);
  atomic_store_explicit(&s->version, version + 1, memory_order_release);
  atomic_store_explicit(&w->told, question, memory_order_release);
}

void clu_stack_tell_copy(clu_stack_word *w, clu_stack *s, uint32_t copy, const char *where) {
  uint64_t version = begin_write(s);
  size_t n = strlen(where);
  memset(s->copy, 0, sizeof s->copy);
  if (n < sizeof s->copy) memcpy(s->copy, where, n);
  atomic_store_explicit(&s->version, version + 1, memory_order_release);
  atomic_store_explicit(&w->copies_told, copy, memory_order_release);
}

/* ---- readers ---- */

int clu_stack_read(const clu_stack_word *w, const clu_stack *s, clu_stack *out) {
  if (atomic_load_explicit(&w->told, memory_order_acquire) == 0) return 0;
  for (int k = 0; k < TRIES; k++) {
    uint64_t version = atomic_load_explicit(&s->version, memory_order_acquire);
    if (version % 2) continue;
    out->seq = s->seq;
    out->taken = s->taken;
    out->told = s->told;
    out->size = s->size;
    memcpy(out->copy, s->copy, sizeof out->copy);
    out->copy[sizeof out->copy - 1] = 0;
    if (out->size <= CLU_STACK_TEXT) memcpy(out->text, s->text, out->size);
    atomic_thread_fence(memory_order_acquire);
    if (atomic_load_explicit(&s->version, memory_order_relaxed) == version)
      return out->size <= CLU_STACK_TEXT;
  }
  return 0;
}
