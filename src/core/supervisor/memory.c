/* Limits of the nodes' memory: who has more than it may is killed.
 *
 * Where the job keeps copies of what fails (R/node-frozen.R) the node is asked for one before, its
 * last: a fork shares all pages, and ends up with them. The node makes it where R heeds interrupts,
 * also after garbage collections, and ends. It is killed without one when that takes too
 * long, when it has taken much more meanwhile, or where its memory is not to spare. */
#include <string.h>

#include "core/base/os-machine.h"
#include "core/base/os-memory.h"
#include "core/supervisor/parts.h"

static const uint64_t MEMORY_EVERY = 20 * CLU_MS; /* between two checks of nodes with a limit */
static const uint64_t COPY_EVERY = 10 * CLU_MS;   /* between two of one that makes its last copy */
static const uint64_t COPY_WITHIN = 1000 * CLU_MS;

void clu_sv_limit(clu_supervisor *sv, clu_sv_node *nd, uint64_t bytes) {
  nd->limit = bytes > INT64_MAX ? 0 : bytes; /* nobody has more */
  if (nd->limit) clu_timer_arm_by(&sv->loop, &sv->memory, sv->memory_checked + MEMORY_EVERY);
}

/* How much memory there is to spare; 0: not known. */
static int64_t memory_left(void) {
  clu_memory_bounds bounds;
  clu_memory_left left;
  if (clu_os_memory_bounds("", &bounds) != CLU_OK) return 0;
  return clu_os_memory_left("", &bounds, &left) == CLU_OK ? left.left : 0;
}

/* Asks the node for its last copy. What that keeps is taken from the machine: there has to be as
 * much for the node's successor, and as much again for others. 0: it makes none. */
static int ask_last_copy(clu_supervisor *sv, clu_sv_node *nd, uint64_t now) {
  clu_stack_word *w = clu_shared_stack_word(sv->shared, nd->slot);
  int64_t left, has = (int64_t)nd->memory;
  uint64_t since, seq;
  if (!w || nd->held || !clu_stack_keeps_last(w)) return 0;
  seq = clu_activity_look(clu_shared_activity(sv->shared, nd->slot), &since);
  if (!seq || (left = memory_left()) / 2 < has) return 0;
  nd->copy = clu_stack_ask_last_copy(w, seq);
  clu_os_interrupt(nd->pid);
  nd->copy_until = now + COPY_WITHIN;
  nd->most = has + (left / 4 < (int64_t)nd->limit ? left / 4 : (int64_t)nd->limit);
  return 1;
}

/* Kills a node that has made its last copy, or will not. */
static void see_last_copy(clu_supervisor *sv, clu_sv_node *nd, uint64_t now) {
  const clu_stack_word *w = clu_shared_stack_word(sv->shared, nd->slot);
  if (!clu_stack_is_copied(w, nd->copy) && now < nd->copy_until &&
      clu_os_process_memory(nd->pid, nd->most) <= nd->most) {
    clu_timer_arm_by(&sv->loop, &sv->memory, now + COPY_EVERY);
    return;
  }
  nd->copy_until = 0;
  clu_os_kill(nd->pid, CLU_SIG_KILL, 1);
}

void clu_sv_on_memory_time(void *self) {
  clu_supervisor *sv = self;
  uint64_t now = sv->memory_checked = clu_os_now();
  for (int i = 0; i < sv->n; i++) {
    clu_sv_node *nd = &sv->nodes[i];
    int64_t has;
    if (nd->copy_until) see_last_copy(sv, nd, now);
    if (!nd->limit || nd->over_limit) continue;
    clu_timer_arm_by(&sv->loop, &sv->memory, now + MEMORY_EVERY);
    if ((has = clu_os_process_memory(nd->pid, (int64_t)nd->limit)) <= (int64_t)nd->limit) continue;
    nd->over_limit = 1;
    nd->memory = (uint64_t)has;
    if (ask_last_copy(sv, nd, now))
      clu_timer_arm_by(&sv->loop, &sv->memory, now + COPY_EVERY);
    else
      clu_os_kill(nd->pid, CLU_SIG_KILL, 1);
  }
}

size_t clu_sv_last_copy(clu_supervisor *sv, const clu_sv_node *nd, char out[CLU_COPY_TEXT]) {
  static clu_stack got;
  const clu_stack_word *w;
  if (!nd->copy) return 0;
  w = clu_shared_stack_word(sv->shared, nd->slot);
  if (!clu_stack_is_copied(w, nd->copy)) return 0;
  if (!clu_stack_read(w, clu_shared_stack(sv->shared, nd->slot), &got)) return 0;
  memcpy(out, got.copy, CLU_COPY_TEXT);
  return strlen(out); /* what was read ends with 0 */
}
