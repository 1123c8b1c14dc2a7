/* The event loop: descriptors, timers, and the callbacks that are called for them. It knows nothing
 * of what they are for.
 *
 * Session, acceptor and supervisor run on it. One loop belongs to one thread of one process.
 * clu_loop_pump() is the only function here that blocks, and the only one that calls callbacks.
 *
 * Watches. clu_loop_watch() registers a descriptor and returns an id: slot number and generation of
 * the slot. An event carries the id and not a pointer. Before each callback the id is looked up:
 * when the watch was removed meanwhile, or its slot was given to another, the event is dropped. So
 * a callback may remove any watch, its own included, and free what belongs to it; and it may add
 * watches and timers. It must not pump.
 *   A watch with an interest of 0 is paused: it keeps its id and has no events.
 *   A descriptor must be unwatched before it is closed.
 *
 * Timers. A clu_timer is a member of the caller's struct; the loop allocates nothing for it. It is
 * armed or not, and fires once for each arming. Callbacks run in the order of their times. A timer
 * that is armed in a callback fires in the next pump at the earliest, also when its time has passed
 * already. An armed timer must be cancelled before its memory is freed.
 *   Armed timers are a list in the order of their times: to arm one takes as long as there are
 *   later ones. That suits a few timers a loop; who has thousands of deadlines arms one timer for
 *   the earliest.
 *
 * Costs. A pump without an armed timer reads no clock and makes one system call (that which waits).
 * Memory is allocated only by clu_loop_init() and, for more watches than ever before, by
 * clu_loop_watch(). A change to the interest that is in force already makes no system call.
 *
 * Ownership. The loop owns its poller and its table of watches, never a descriptor, and nothing
 * that `self` points to. The struct is the caller's, is asked by functions only, and stays where it
 * was initialized.
 *
 * Failure. int results are CLU_OK or a code of core/base/err.h; `e` (may be NULL) says more.
 */
#ifndef CLUTCH_EVENT_LOOP_H
#define CLUTCH_EVENT_LOOP_H

#include "core/base/os.h"

/* Id of a watch: unique in its loop, whatever was removed since. 0: none. */
typedef uint64_t clu_watch_id;

/* `ready`: CLU_READ, CLU_WRITE, of those that are of interest now. After an error or hang-up all
 * that are. Readiness can be a lie: the read or write that follows may answer CLU_AGAIN. */
typedef void clu_ready_fn(void *self, unsigned ready);

typedef struct clu_timer {
  void (*fn)(void *self);
  void *self;
  uint64_t due;                  /* as clu_os_now() counts */
  struct clu_timer *prev, *next; /* the loop's; `next` is NULL while it is not armed */
  uint64_t pump;                 /* in which it was armed */
} clu_timer;

struct clu_watch_slot;

typedef struct clu_loop {
  clu_poller *poller;
  struct clu_watch_slot *slots;
  uint32_t n;
  size_t cap;
  uint32_t free_slot; /* the first of those that are free again, counted from 1; 0: none */
  clu_timer timers;   /* head of the ring of armed timers, the earliest first */
  uint64_t pumps;
  int events;
  int writers; /* watches whose interest is CLU_WRITE, too */
  int closed_in_child;
} clu_loop;

/* CLU_OK, CLU_SYS (also: no descriptor is free), CLU_NOMEM. */
int clu_loop_init(clu_loop *l, clu_err *e);
/* Frees the loop's own memory and closes its poller. Watches and timers are forgotten; no
 * descriptor is closed. Accepts zeroed memory, and one that was finished before. */
void clu_loop_fini(clu_loop *l);

/* For clu_loop_watch(), beside CLU_READ and CLU_WRITE: clu_loop_close_in_child() leaves the
 * descriptor open. */
enum { CLU_KEEP_IN_CHILD = 4 };
/* CLU_OK and `*id`; CLU_NOMEM, CLU_LIMIT, CLU_SYS: `*id` is 0 then, and nothing is registered. */
int clu_loop_watch(clu_loop *l, clu_fd fd, unsigned interest, clu_ready_fn *fn, void *self,
                   clu_watch_id *id, clu_err *e);
/* CLU_READ, CLU_WRITE, both, or 0: paused. After a failure the former interest stays. An id that
 * is not registered (any more): CLU_OK, and nothing happens. */
int clu_loop_interest(clu_loop *l, clu_watch_id id, unsigned interest, clu_err *e);
/* Removes the watch and sets `*id` to 0. One that is not registered (any more), and 0, are fine. */
void clu_loop_unwatch(clu_loop *l, clu_watch_id *id);

/* Before the first use, or by zeroed memory and assignment. */
void clu_timer_init(clu_timer *t, void (*fn)(void *self), void *self);
/* It fires at `due`; what it was armed for before is forgotten. */
void clu_timer_arm(clu_loop *l, clu_timer *t, uint64_t due);
/* Does the same, if it is not armed for an earlier time. */
void clu_timer_arm_by(clu_loop *l, clu_timer *t, uint64_t due);
/* It does not fire any more. One that is not armed is fine. */
void clu_timer_cancel(clu_timer *t);
int clu_timer_is_armed(const clu_timer *t);

/* Waits until a descriptor is ready or a timer is due, at most `wait_ns` (< 0: for ever; 0: it
 * does not wait), and calls what is to be called, first for descriptors, then for timers. At
 * most 64 descriptors have their turn; the others have it in the next pumps. CLU_OK also when
 * nothing happened or a signal came; CLU_SYS when waiting failed. */
int clu_loop_pump(clu_loop *l, int64_t wait_ns, clu_err *e);
/* How many descriptors were ready in the last pump. 0 of a pump that waited: its time was up, a
 * timer was due, or a signal came. */
int clu_loop_events(const clu_loop *l);

/* For another thread, which uses the loop in turn with its owner (core/loop/turns.h) and has the
 * turn now: how many descriptors wait to become writable. */
int clu_loop_writers(const clu_loop *l);
/* Without the turn: see clu_poller_await(). */
int clu_loop_await(const clu_loop *l, int64_t wait_ns);
/* For who waits elsewhere until there is something to pump: the descriptor to wait for, see
 * clu_poller_descriptor(); and how long at most, `wait_ns` (< 0: for ever) or until a timer is
 * due. */
clu_fd clu_loop_descriptor(const clu_loop *l);
int64_t clu_loop_until_timer(const clu_loop *l, int64_t wait_ns);

/* In a forked child: closes every watched descriptor (but those with CLU_KEEP_IN_CHILD) and the
 * poller's own. Writes to `*l` only: neither the parent's registrations change nor are pages of
 * the heap copied. Async-signal-safe. A second call, also in a fork of the fork, does nothing:
 * the numbers may be other files' then. Nothing else but clu_loop_fini() may follow. */
void clu_loop_close_in_child(clu_loop *l);

#endif
