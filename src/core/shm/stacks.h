/* How a node tells which R calls it is in, while it is busy: by memory that it shares with whoever
 * asks.
 *
 * Who asks (any process that has the memory mapped) adds one to the slot's number of questions. A
 * node compares that number with the last one it has answered whenever R looks for interrupts,
 * which is one load from memory. If they differ it writes its calls, as text, into the stack of its
 * slot, and then the number that it has answered. So several may ask at a time, without a lock and
 * without knowing of each other: each waits for an answer to its own number or a later one. Nobody
 * is sent a signal, and no system call of the node is disturbed. A node in compiled code that does
 * not look for interrupts does not answer; what it has answered last is still there.
 *
 * Who asks may want a copy of the node, too, which keeps its frames (r/node/frozen.c). That is
 * counted apart, before the question. The node writes its calls, makes the copy, and writes where
 * that listens. This stays until the next copy. A node that is to end for its memory makes its last
 * copy so, if it has said that it keeps one.
 *
 * A stack is one writer's (the node). Readers find out whether it was written meanwhile, and read
 * again. The writer runs user's code and may have written anything: what is read is checked. No
 * function blocks.
 *
 * Nodes of other hosts are asked by their fork servers (STACK, core/node/transport-host.c); for
 * an observer their proxy asks them (core/link/stacks.c).
 */
#ifndef CLUTCH_STACKS_H
#define CLUTCH_STACKS_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#define CLU_STACK_TEXT 7984u /* bytes of text in one */
#define CLU_COPY_TEXT 176u   /* and of what says where a copy listens */

/* Bytes before the text in an answer of a fork server (STACK). */
#define CLU_STACK_HEAD (32u + CLU_COPY_TEXT)

/* Each slot has one. */
typedef struct clu_stack_word {
  _Atomic uint32_t asked;                     /* questions so far; those who ask add to it */
  _Atomic uint32_t told;                      /* the last that was answered; the node's. 0: none */
  _Atomic uint32_t copies_asked, copies_told; /* the same of copies */
  _Atomic uint32_t keeps_last; /* the node makes a copy before it is ended for its memory */
  _Atomic uint32_t is_last;    /* the copy that is wanted is that */
  _Atomic uint64_t copy_of; /* the request or task that a copy is to be made of; 0: none any more */
} clu_stack_word;

typedef struct clu_stack {
  _Atomic uint64_t version; /* odd: it is being written */
  uint64_t seq;             /* the request or task at hand; 0: another thing */
  uint64_t taken;           /* when this was written */
  uint32_t size, told;
  char copy[CLU_COPY_TEXT];  /* of the last copy, ends with 0; "": it could not be made */
  char text[CLU_STACK_TEXT]; /* a line a call, the innermost last; UTF-8 */
} clu_stack;

/* Asks. The number of the question. */
uint32_t clu_stack_ask(clu_stack_word *w);
/* Tells whether it was answered, or a later one. */
int clu_stack_is_told(const clu_stack_word *w, uint32_t question);

/* Asks for a copy as well, while the node is at this request or task. The number of the copy. */
uint32_t clu_stack_ask_copy(clu_stack_word *w, uint64_t seq);
/* Asks for its last copy, if it keeps one: it ends itself behind that. */
uint32_t clu_stack_ask_last_copy(clu_stack_word *w, uint64_t seq);
static inline int clu_stack_keeps_last(const clu_stack_word *w) {
  return atomic_load_explicit(&w->keeps_last, memory_order_relaxed) != 0;
}
/* It is not wanted any more. */
void clu_stack_give_up_copy(clu_stack_word *w);
/* Tells whether that was made, or a later one, or could not be. */
int clu_stack_is_copied(const clu_stack_word *w, uint32_t copy);

/* The node's: whether somebody has asked since it has answered last: the number, or 0. */
static inline uint32_t clu_stack_question(const clu_stack_word *w) {
  uint32_t asked = atomic_load_explicit(&w->asked, memory_order_relaxed);
  return asked == atomic_load_explicit(&w->told, memory_order_relaxed) ? 0 : asked;
}
/* The node's: answers. What does not fit of the text is left out. */
void clu_stack_tell(clu_stack_word *w, clu_stack *s, uint32_t question, uint64_t seq, uint64_t now,
                    const char *text, size_t n);

/* The node's: the number of the copy that is wanted, or 0. */
static inline uint32_t clu_stack_copy_wanted(const clu_stack_word *w) {
  uint32_t asked = atomic_load_explicit(&w->copies_asked, memory_order_relaxed);
  return asked == atomic_load_explicit(&w->copies_told, memory_order_relaxed) ? 0 : asked;
}
/* The node's: where copy `copy` listens, "": there is none. Comes after the answer to a question.
 */
void clu_stack_tell_copy(clu_stack_word *w, clu_stack *s, uint32_t copy, const char *where);

/* Reads what the node has told last: 1, and a copy that belongs to one answer; 0: nothing, or it is
 * being written all the time. */
int clu_stack_read(const clu_stack_word *w, const clu_stack *s, clu_stack *out);

#endif
