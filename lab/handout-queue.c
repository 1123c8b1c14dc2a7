/* The second way of handout.c: a queue in memory that session and nodes share.
 *
 * The queue is bounded: each cell has a number that says whose turn it is (D. Vyukov's bounded
 * queue, with one who puts in). What is put in there stays there while nobody takes it, so the
 * memory for as many tasks as may wait is set aside before the nodes are forked.
 */
#include "handout.h"

typedef struct {
  _Atomic uint64_t turn; /* 2 * round: free in this round through the queue; + 1: has a task */
  task t;
} cell;

typedef struct {
  _Atomic uint64_t tail; /* the node's */
  char apart[56];
  _Atomic uint64_t head; /* the session's */
  char apart_too[56];
} ring; /* `room` results come after it */

typedef struct {
  _Atomic uint64_t head; /* the next position that a node claims */
  char apart[56];
  _Atomic uint32_t posted; /* tasks ever put in; nodes sleep on it */
  _Atomic uint32_t sleepers;
  char apart_too[56];
  _Atomic uint32_t session_sleeps;
} shared;

static struct {
  shared *m;
  cell *cells;
  char *rings;
  size_t bytes, ring_bytes;
  uint64_t room, tail;
  int nodes, next, wake;
} s;

static ring *ring_of(int i) { return (ring *)(s.rings + (size_t)i * s.ring_bytes); }
static uint64_t turn_of(uint64_t at) { return 2 * (at / s.room); }
static result *results_of(ring *r) { return (result *)(r + 1); }

static long futex(_Atomic uint32_t *word, int what, uint32_t value) {
  return syscall(SYS_futex, word, what, value, NULL, NULL, 0);
}

/* ---- a node ---- */

static int claim(task *t) {
  uint64_t at = atomic_load(&s.m->head);
  for (;;) {
    cell *c = &s.cells[at % s.room];
    if (atomic_load(&c->turn) != turn_of(at) + 1) {
      uint64_t again = atomic_load(&s.m->head);
      if (again == at) return 0; /* there is none */
      at = again;
    } else if (atomic_compare_exchange_weak(&s.m->head, &at, at + 1)) {
      *t = c->t;
      atomic_store(&c->turn, turn_of(at) + 2);
      return 1;
    }
  }
}

static void claim_or_sleep(task *t) {
  for (;;) {
    uint32_t seen;
    if (claim(t)) return;
    seen = atomic_load(&s.m->posted);
    atomic_fetch_add(&s.m->sleepers, 1);
    if (claim(t)) {
      atomic_fetch_sub(&s.m->sleepers, 1);
      return;
    }
    futex(&s.m->posted, FUTEX_WAIT, seen);
    atomic_fetch_sub(&s.m->sleepers, 1);
  }
}

static void run_node(int i) {
  ring *r = ring_of(i);
  for (;;) {
    task t;
    uint64_t tail = atomic_load(&r->tail);
    claim_or_sleep(&t);
    /* a full ring would have the node wait here until the session reads */
    if (tail - atomic_load(&r->head) >= s.room) _exit(1);
    results_of(r)[tail % s.room] = carry_out(&t);
    atomic_store(&r->tail, tail + 1);
    count_ended();
    if (atomic_load(&s.m->session_sleeps) && atomic_exchange(&s.m->session_sleeps, 0)) {
      uint64_t one = 1;
      if (write(s.wake, &one, sizeof one) < 0) _exit(1);
    }
  }
}

/* ---- the session ---- */

static void submit(const task *t) {
  cell *c = &s.cells[s.tail % s.room];
  if (atomic_load(&c->turn) != turn_of(s.tail)) fail("the queue is full");
  c->t = *t;
  atomic_store(&c->turn, turn_of(s.tail) + 1);
  s.tail++;
  atomic_fetch_add(&s.m->posted, 1);
  if (atomic_load(&s.m->sleepers) > 0) futex(&s.m->posted, FUTEX_WAKE, 1);
}

static int take_result(result *out) {
  for (int k = 0; k < s.nodes; k++) {
    ring *r = ring_of(s.next);
    uint64_t head = atomic_load(&r->head);
    if (atomic_load(&r->tail) != head) {
      *out = results_of(r)[head % s.room];
      atomic_store(&r->head, head + 1);
      return 1;
    }
    s.next = (s.next + 1) % s.nodes;
  }
  return 0;
}

static result await_result(void) {
  result r;
  for (;;) {
    struct pollfd p = {s.wake, POLLIN, 0};
    uint64_t x;
    if (take_result(&r)) return r;
    atomic_store(&s.m->session_sleeps, 1);
    if (take_result(&r)) {
      atomic_store(&s.m->session_sleeps, 0);
      return r;
    }
    /* not a futex: the session waits for sockets, too */
    if (poll(&p, 1, -1) == 1 && read(s.wake, &x, sizeof x) < 0 && errno != EAGAIN) fail("eventfd");
  }
}

static void start(int nodes, int capacity) {
  size_t head = (sizeof(shared) + 63) / 64 * 64, cells;
  memset(&s, 0, sizeof s);
  s.nodes = nodes;
  s.room = (uint64_t)(capacity + nodes + 16);
  cells = s.room * sizeof(cell);
  s.ring_bytes = (sizeof(ring) + s.room * sizeof(result) + 63) / 64 * 64;
  s.bytes = head + (cells + 63) / 64 * 64 + (size_t)nodes * s.ring_bytes;
  s.m = mmap(NULL, s.bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  s.wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (s.m == MAP_FAILED || s.wake < 0) fail("mmap or eventfd");
  s.cells = (cell *)((char *)s.m + head);
  s.rings = (char *)s.cells + (cells + 63) / 64 * 64;
  for (int i = 0; i < nodes; i++) start_node(i, run_node);
}

static void threads(int wanted) { (void)wanted; }

static void stop(void) {
  end_nodes();
  munmap(s.m, s.bytes);
  close(s.wake);
}

const way queue_way = {"queue", start, submit, await_result, NULL, NULL, threads, NULL, stop};
