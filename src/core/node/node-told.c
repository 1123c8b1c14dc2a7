/* This file has what a node tells while it is busy, by the memory that it shares with this
 * process. */
#include "core/node/node-private.h"

static clu_shared *memory_of(const clu_node *nd, int *slot) {
  if (!clu_node_is_open(nd) || !nd->transport->shared) return NULL;
  return nd->transport->shared(nd, slot);
}

uint64_t clu_node_began(const clu_node *nd, uint64_t seq) {
  int slot;
  uint64_t since = 0;
  clu_shared *s = memory_of(nd, &slot);
  if (!s || !seq) return 0;
  return clu_activity_look(clu_shared_activity(s, slot), &since) == seq ? since : 0;
}

uint64_t clu_node_put_off_until(const clu_node *nd) {
  int slot;
  clu_shared *s = memory_of(nd, &slot);
  const clu_activity *a = s ? clu_shared_activity(s, slot) : NULL;
  return a ? atomic_load(&a->put_off) : 0;
}

int64_t clu_node_gave_back(const clu_node *nd) {
  int slot;
  clu_shared *s = memory_of(nd, &slot);
  const clu_activity *a = s ? clu_shared_activity(s, slot) : NULL;
  return a ? (int64_t)atomic_load_explicit(&a->gave_back, memory_order_relaxed) : -1;
}

/* Its word, and its stack; NULL: it has none. */
static clu_stack_word *stack_of(clu_node *nd, clu_stack **stack) {
  int slot;
  clu_shared *s;
  if (clu_node_is_open(nd) && nd->transport->stack) return nd->transport->stack(nd, stack);
  s = memory_of(nd, &slot);
  *stack = s ? clu_shared_stack(s, slot) : NULL;
  return *stack ? clu_shared_stack_word(s, slot) : NULL;
}

static uint32_t ask(clu_node *nd, enum clu_stack_wish what, uint64_t seq) {
  clu_stack *stack;
  clu_stack_word *w = stack_of(nd, &stack);
  uint32_t number;
  if (!w) return 0;
  number = what == CLU_STACK_COPY ? clu_stack_ask_copy(w, seq) : clu_stack_ask(w);
  if (nd->transport->ask_stack) nd->transport->ask_stack(nd, what, seq);
  return number;
}

/* `is_told`: of that number. Where the node is reached by messages only it is asked again. */
static int has_told(clu_node *nd, int (*is_told)(const clu_stack_word *, uint32_t), uint32_t n) {
  clu_stack *stack;
  const clu_stack_word *w = stack_of(nd, &stack);
  if (w && is_told(w, n)) return 1;
  if (w && nd->transport->ask_stack) nd->transport->ask_stack(nd, CLU_STACK_LAST, 0);
  return 0;
}

uint32_t clu_node_ask_stack(clu_node *nd) { return ask(nd, CLU_STACK_CALLS, 0); }

int clu_node_has_told_stack(clu_node *nd, uint32_t question) {
  return has_told(nd, clu_stack_is_told, question);
}

uint32_t clu_node_ask_copy(clu_node *nd, uint64_t seq) { return ask(nd, CLU_STACK_COPY, seq); }

int clu_node_has_told_copy(clu_node *nd, uint32_t copy) {
  return has_told(nd, clu_stack_is_copied, copy);
}

void clu_node_give_up_copy(clu_node *nd) {
  clu_stack *stack;
  clu_stack_word *w = stack_of(nd, &stack);
  if (w) clu_stack_give_up_copy(w);
}

int clu_node_stack(clu_node *nd, clu_stack *out) {
  clu_stack *stack;
  const clu_stack_word *w = stack_of(nd, &stack);
  return w && clu_stack_read(w, stack, out);
}
