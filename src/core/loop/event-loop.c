#include "core/loop/event-loop.h"

#include <stdlib.h>
#include <string.h>

#include "core/base/grow.h"

enum { EVENTS_A_PUMP = 64 };

typedef struct clu_watch_slot {
  clu_ready_fn *fn; /* NULL: the slot is free */
  void *self;
  clu_fd fd;
  uint32_t generation;
  uint32_t next_free; /* counted from 1; 0: the last */
  unsigned char interest, keep_in_child;
} slot;

int clu_loop_init(clu_loop *l, clu_err *e) {
  memset(l, 0, sizeof *l);
  l->timers.prev = l->timers.next = &l->timers;
  l->poller = clu_poller_new(e);
  return l->poller ? CLU_OK : CLU_SYS;
}

void clu_loop_fini(clu_loop *l) {
  if (!l->closed_in_child) clu_poller_free(l->poller);
  free(l->slots);
  memset(l, 0, sizeof *l);
  l->timers.prev = l->timers.next = &l->timers;
}

/* ---- watches ---- */

static clu_watch_id id_of(const clu_loop *l, const slot *s) {
  return (uint64_t)s->generation << 32 | (uint64_t)(s - l->slots + 1);
}

/* The slot that still has this id, or NULL. */
static slot *find(const clu_loop *l, clu_watch_id id) {
  uint32_t i = (uint32_t)id;
  slot *s;
  if (i == 0 || i > l->n) return NULL;
  s = &l->slots[i - 1];
  return s->fn && s->generation == (uint32_t)(id >> 32) ? s : NULL;
}

static slot *take_slot(clu_loop *l) {
  slot *s;
  if (l->free_slot) {
    s = &l->slots[l->free_slot - 1];
    l->free_slot = s->next_free;
    return s;
  }
  if (!(s = clu_grow(l->slots, &l->cap, (size_t)l->n + 1, sizeof *s))) return NULL;
  l->slots = s;
  s = &l->slots[l->n++];
  memset(s, 0, sizeof *s);
  return s;
}

static void give_slot_back(clu_loop *l, slot *s) {
  l->writers -= (s->interest & CLU_WRITE) != 0; /* it could not be forgotten */
  s->fn = NULL;
  s->generation++; /* whoever still has the id finds nothing */
  s->next_free = l->free_slot;
  l->free_slot = (uint32_t)(s - l->slots) + 1;
}

static int set_interest(clu_loop *l, slot *s, unsigned interest, clu_err *e) {
  int rc;
  if (interest == s->interest) return CLU_OK;
  rc = clu_poller_set(l->poller, s->fd, s->interest != 0, interest, id_of(l, s), e);
  if (rc != CLU_OK) return rc;
  l->writers += ((interest & CLU_WRITE) != 0) - ((s->interest & CLU_WRITE) != 0);
  s->interest = (unsigned char)interest;
  return CLU_OK;
}

int clu_loop_watch(clu_loop *l, clu_fd fd, unsigned interest, clu_ready_fn *fn, void *self,
                   clu_watch_id *id, clu_err *e) {
  slot *s = take_slot(l);
  int rc;
  *id = 0;
  if (!s) return clu_fail(e, CLU_NOMEM, 0, "not enough memory");
  s->fn = fn;
  s->self = self;
  s->fd = fd;
  s->interest = 0;
  s->keep_in_child = (interest & CLU_KEEP_IN_CHILD) != 0;
  rc = set_interest(l, s, interest & (CLU_READ | CLU_WRITE), e);
  if (rc != CLU_OK) {
    give_slot_back(l, s);
    return rc;
  }
  *id = id_of(l, s);
  return CLU_OK;
}

int clu_loop_interest(clu_loop *l, clu_watch_id id, unsigned interest, clu_err *e) {
  slot *s = find(l, id);
  return s ? set_interest(l, s, interest, e) : CLU_OK;
}

void clu_loop_unwatch(clu_loop *l, clu_watch_id *id) {
  slot *s = find(l, *id);
  *id = 0;
  if (!s) return;
  set_interest(l, s, 0, NULL);
  give_slot_back(l, s);
}

/* ---- timers ---- */

void clu_timer_init(clu_timer *t, void (*fn)(void *self), void *self) {
  memset(t, 0, sizeof *t);
  t->fn = fn;
  t->self = self;
}

int clu_timer_is_armed(const clu_timer *t) { return t->next != NULL; }

void clu_timer_cancel(clu_timer *t) {
  if (!t->next) return;
  t->prev->next = t->next;
  t->next->prev = t->prev;
  t->prev = t->next = NULL;
}

void clu_timer_arm(clu_loop *l, clu_timer *t, uint64_t due) {
  clu_timer *before;
  clu_timer_cancel(t);
  before = l->timers.prev;
  while (before != &l->timers && before->due > due) before = before->prev;
  t->due = due;
  t->pump = l->pumps;
  t->prev = before;
  t->next = before->next;
  before->next->prev = t;
  before->next = t;
}

void clu_timer_arm_by(clu_loop *l, clu_timer *t, uint64_t due) {
  if (!t->next || t->due > due) clu_timer_arm(l, t, due);
}

/* The earliest that is due and was not armed in this pump, or NULL. */
static clu_timer *next_due(clu_loop *l, uint64_t now) {
  for (clu_timer *t = l->timers.next; t != &l->timers && t->due <= now; t = t->next)
    if (t->pump != l->pumps) return t;
  return NULL;
}

/* After each callback the list is looked at anew: it may have cancelled or armed any timer. */
static void fire_timers(clu_loop *l) {
  uint64_t now;
  clu_timer *t;
  if (l->timers.next == &l->timers) return;
  now = clu_os_now();
  while ((t = next_due(l, now))) {
    clu_timer_cancel(t);
    t->fn(t->self);
  }
}

int64_t clu_loop_until_timer(const clu_loop *l, int64_t wait_ns) {
  uint64_t due = l->timers.next->due, now;
  if (l->timers.next == &l->timers || wait_ns == 0) return wait_ns;
  now = clu_os_now();
  if (due <= now) return 0;
  return wait_ns < 0 || due - now < (uint64_t)wait_ns ? (int64_t)(due - now) : wait_ns;
}

/* ---- the pump ---- */

int clu_loop_pump(clu_loop *l, int64_t wait_ns, clu_err *e) {
  clu_event got[EVENTS_A_PUMP];
  int n = 0,
      rc = clu_poller_wait(l->poller, got, EVENTS_A_PUMP, &n, clu_loop_until_timer(l, wait_ns), e);
  l->events = n;
  l->pumps++;
  for (int i = 0; i < n; i++) {
    const slot *s = find(l, got[i].id);
    unsigned ready = s ? got[i].ready & s->interest : 0;
    if (ready) s->fn(s->self, ready);
  }
  fire_timers(l);
  return rc;
}

int clu_loop_events(const clu_loop *l) { return l->events; }
int clu_loop_writers(const clu_loop *l) { return l->writers; }
int clu_loop_await(const clu_loop *l, int64_t wait_ns) {
  return clu_poller_await(l->poller, wait_ns);
}
clu_fd clu_loop_descriptor(const clu_loop *l) { return clu_poller_descriptor(l->poller); }

void clu_loop_close_in_child(clu_loop *l) {
  if (l->closed_in_child || !l->poller) return;
  l->closed_in_child = 1;
  for (uint32_t i = 0; i < l->n; i++)
    if (l->slots[i].fn && !l->slots[i].keep_in_child) clu_os_close(l->slots[i].fd);
  clu_poller_close_in_child(l->poller);
}
