#include "core/loop/turns.h"

#include <string.h>

#define TICK 2000000        /* ns that the owner has to be away */
#define LONG_WAIT 100000000 /* ns, where an owner that is here wakes it */
#define MOST_WAIT 50000000  /* ns until the thread looks whether it has to end */
#define SHORT_WAIT 2000000  /* where it cannot wait for descriptors */

enum { NOBODYS, OWNERS, THREADS };

/* ---- the thread ---- */

/* ns until something is due; 0: now; -1: never. */
static int64_t until_due(const clu_turns *t) {
  uint64_t due = t->due, now = due ? clu_os_now() : 0;
  if (!due) return -1;
  return due > now ? (int64_t)(due - now) : 0;
}

static int is_wanted(const clu_turns *t) { return t->urgent || until_due(t) == 0; }

/* With the gate's lock. Until the owner is elsewhere, was so for a tick, and something is urgent
 * or due. */
static void await_work(clu_turns *t) {
  while (!t->ending) {
    uint64_t entries;
    atomic_store(&t->parked, 1); /* before it looks: an owner that leaves then sees it */
    while (!t->ending && (!is_wanted(t) || t->turn != NOBODYS)) {
      int64_t wait = until_due(t);
      /* An owner that is here wakes it, if that is still due when it leaves. */
      clu_gate_wait(t->gate, wait == 0 ? LONG_WAIT : wait);
    }
    atomic_store(&t->parked, 0);
    do {
      entries = t->entries;
      if (!t->ending) clu_gate_wait(t->gate, TICK);
      /* one that is here now will wake it */
    } while (!t->ending && is_wanted(t) && t->entries != entries && t->turn == NOBODYS);
    if (is_wanted(t) && t->entries == entries && t->turn == NOBODYS) return;
  }
}

static uint64_t due_by(const clu_turns *t) { return t->does.due ? t->does.due(t->does.self) : 0; }

/* With the gate's lock. */
static int take_turn(clu_turns *t) {
  int nobodys = NOBODYS;
  return !t->ending && !t->owner_waits &&
         atomic_compare_exchange_strong(&t->turn, &nobodys, THREADS);
}

/* Turns, until the owner comes or there is nothing to do. With the gate's lock, which it gives up
 * while it works and waits. */
static void have_turns(clu_turns *t) {
  uint64_t entries = t->entries;
  while (t->entries == entries && take_turn(t)) {
    int64_t wait;
    clu_gate_unlock(t->gate);
    wait = t->does.work(t->does.self);
    atomic_store(&t->due, due_by(t));
    clu_gate_lock(t->gate);
    if (wait < 0) atomic_store(&t->urgent, 0);
    atomic_store(&t->turn, NOBODYS);
    if (t->owner_waits) clu_gate_wake(t->gate);
    if (wait < 0) return;
    if (wait > MOST_WAIT) wait = MOST_WAIT;
    clu_gate_unlock(t->gate);
    if (clu_loop_await(t->does.loop, wait) != CLU_OK)
      clu_os_pause(wait < SHORT_WAIT ? wait : SHORT_WAIT);
    clu_gate_lock(t->gate);
  }
}

static void run(void *data) {
  clu_turns *t = data;
  clu_gate_lock(t->gate);
  while (!t->ending) {
    await_work(t);
    have_turns(t);
  }
  clu_gate_unlock(t->gate);
}

/* ---- the owner ---- */

static void take(clu_turns *t) {
  int nobodys = NOBODYS;
  /* the only writer */
  atomic_store_explicit(&t->entries, atomic_load_explicit(&t->entries, memory_order_relaxed) + 1,
                        memory_order_relaxed);
  if (atomic_compare_exchange_strong(&t->turn, &nobodys, OWNERS)) return;
  clu_gate_lock(t->gate);
  t->owner_waits = 1;
  while (nobodys = NOBODYS, !atomic_compare_exchange_strong(&t->turn, &nobodys, OWNERS))
    clu_gate_wait(t->gate, -1);
  t->owner_waits = 0;
  clu_gate_unlock(t->gate);
}

static void start_thread(clu_turns *t) {
  if (t->no_thread || t->ending) return;
  if (clu_os_thread_start(run, t, &t->thread, NULL) == CLU_OK)
    t->has_thread = 1;
  else
    t->no_thread = 1; /* then only the owner does anything */
}

static void give(clu_turns *t) {
  int urgent = t->does.work && t->does.is_urgent(t->does.self), wake;
  uint64_t due, before = atomic_load_explicit(&t->due, memory_order_relaxed);
  if (!t->does.work) {
    atomic_store(&t->turn, NOBODYS);
    return;
  }
  if (urgent != atomic_load_explicit(&t->urgent, memory_order_relaxed))
    atomic_store(&t->urgent, urgent);
  due = due_by(t);
  if (due != before) atomic_store(&t->due, due);
  if ((urgent || due) && !t->has_thread) start_thread(t);
  atomic_store(&t->turn, NOBODYS);
  /* a thread that sleeps until an earlier time than that finds out then */
  wake = urgent || (due && (!before || due < before || until_due(t) == 0));
  if (!wake || !t->parked) return;
  clu_gate_lock(t->gate);
  clu_gate_wake(t->gate);
  clu_gate_unlock(t->gate);
}

int clu_turns_enter(clu_turns *t, const void *frame) {
  if (t->held && (uintptr_t)frame < (uintptr_t)t->frame) { /* stacks grow downwards */
    t->nested++;
    return 0;
  }
  if (!t->held) take(t); /* else it was left by a jump */
  t->held = 1;
  t->nested = 0;
  t->frame = frame;
  return 1;
}

void clu_turns_leave(clu_turns *t, int mine) {
  if (!mine) {
    if (t->nested > 0) t->nested--;
    return;
  }
  t->held = 0;
  give(t);
}

const void *clu_turns_pause(clu_turns *t) {
  if (!t->held || t->nested) return NULL;
  t->held = 0;
  give(t);
  return t->frame;
}

void clu_turns_resume(clu_turns *t, const void *frame) {
  if (!frame) return;
  if (!t->held) take(t); /* else a call in between was left by a jump */
  t->held = 1;
  t->nested = 0;
  t->frame = frame;
}

int64_t clu_turns_work_here(clu_turns *t, int64_t wait) {
  int64_t next;
  if (!t->does.work || t->nested) return wait;
  if (!t->does.is_urgent(t->does.self) && until_due(t) != 0) return wait;
  next = t->does.work(t->does.self);
  atomic_store(&t->due, due_by(t));
  return next >= 0 && next < wait ? next : wait;
}

uint64_t clu_turns_entries(const clu_turns *t) { return t->entries; }

/* ---- begin and end ---- */

int clu_turns_begin(clu_turns *t, const clu_turns_work *work) {
  if (t->does.work) return CLU_OK;
  t->gate = clu_gate_new();
  if (!t->gate) return CLU_NOMEM;
  t->does = *work;
  return CLU_OK;
}

void clu_turns_end(clu_turns *t, int join) {
  int mine = 0;
  if (!t->does.work) return;
  mine = clu_turns_enter(t, &mine);
  clu_gate_lock(t->gate);
  atomic_store(&t->ending, 1);
  clu_gate_wake(t->gate);
  clu_gate_unlock(t->gate);
  if (join && t->has_thread) {
    clu_os_thread_join(t->thread);
    t->has_thread = 0;
  }
  clu_turns_leave(t, mine);
}

/* ---- forks ---- */

/* The turn is taken, and the gate's lock, so that the child has both and nothing is half-done. */
void clu_turns_before_fork(clu_turns *t) {
  if (!t->held) take(t);
  if (t->gate) clu_gate_lock(t->gate);
}

void clu_turns_after_fork(clu_turns *t) {
  if (t->gate) clu_gate_unlock(t->gate);
  if (!t->held) give(t);
}

/* A child of another thread's fork may have locks for ever that nobody will unlock: nothing is
 * locked any more, since nobody else is there. */
void clu_turns_in_child(clu_turns *t, int by_owner) {
  if (t->gate && by_owner) clu_gate_unlock(t->gate);
  t->gate = NULL;
  t->does.work = NULL;
  t->no_thread = 1;
  t->has_thread = 0;
  atomic_store(&t->turn, t->held ? OWNERS : NOBODYS);
}
