/* An engine whose nodes are threads of this process, which do tasks in C, and an owner of the turn
 * as src/r is one. What a node does with a task is said by its element: see enum deed. */
#ifndef ENGINE_FIXTURE_H
#define ENGINE_FIXTURE_H

#include "test.h"

#include <poll.h>
#include <stdatomic.h>

#include "core/base/slab.h"
#include "core/node/node-private.h"
#include "core/tasks/engine-private.h"
#include "core/wire/task-message.h"

enum deed {
  WELL,  /* answers */
  BIG,   /* answers by the socket */
  WRONG, /* answers with an error */
  DIE,   /* ends */
  SLOW,  /* waits until it is interrupted */
  DEAF   /* waits until it is killed */
};

#define MOST_NODES 8

typedef struct stub {
  clu_node node; /* the first member */
  clu_claim claim;
  clu_ring ring;
  _Atomic uint64_t cancel; /* the task that it is to give up */
  _Atomic int end;         /* it is killed */
  int cut;                 /* enum clu_reach */
  clu_fd fd;               /* its end of the connection */
  clu_thread thread;
} stub;

/* This is what a job of a test is, for elements(); and what has come of it. */
typedef struct plan {
  uint64_t n;
  int *values, *failures; /* by task: how many have come */
  int *whys;              /* by task: enum clu_end of the last failure */
  uint64_t wrong;         /* values that are not the task's */
  size_t known;           /* failures that were seen */
  clu_task_job *job;
} plan;

static struct {
  clu_turns turns;
  clu_session *session;
  clu_engines *all;
  clu_engine *t;
  stub *nodes[MOST_NODES];
  int n;
  int deaths;   /* that the owner was told of */
  int fails_at; /* elements() fails when it is called so often; 0: never */
  int calls;    /* of elements() */
  enum deed (*does)(uint64_t element, uint32_t attempt);
  _Atomic uint64_t done; /* tasks that nodes have answered */
} x;

/* ---- a node: its thread ---- */

static int says(clu_chan *c, uint8_t kind, uint64_t seq, const void *p, size_t n) {
  int rc = clu_chan_send_bytes(c, kind, seq, p, n, CLU_NO_FD);
  while (rc == CLU_OK && (rc = clu_chan_flush(c)) == CLU_AGAIN) {
    struct pollfd at = {(int)c->fd, POLLOUT, 0};
    poll(&at, 1, 2);
    rc = CLU_OK;
  }
  return rc == CLU_OK;
}

static int answers_by_ring(stub *s, clu_chan *c, uint64_t seq, uint64_t value, uint32_t flags) {
  unsigned char *to = clu_ring_room(&s->ring, CLU_RING_RESULT_HEAD + 8);
  if (!to) return -1;
  clu_put32(to, flags);
  clu_put32(to + 4, 1000);
  clu_put64(to + 8, seq);
  clu_put64(to + 16, clu_os_now());
  clu_put64(to + 24, value);
  clu_ring_publish(&s->ring, CLU_RING_RESULT_HEAD + 8);
  if (!clu_ring_must_tell(&s->ring)) return 1;
  return says(c, CLU_K_RESULTS_READY, 0, NULL, 0);
}

static int answers(stub *s, clu_chan *c, uint64_t seq, uint64_t value, int deed, int ring) {
  unsigned char bytes[6000] = {0};
  uint32_t flags = deed == WRONG ? CLU_RESULT_ERROR : 0;
  int rc = -1;
  atomic_fetch_add(&x.done, 1);
  if (ring && deed != BIG) rc = answers_by_ring(s, c, seq, value, flags);
  if (rc >= 0) return rc;
  clu_put32(bytes, flags);
  clu_put64(bytes + 8, clu_os_now());
  clu_put64(bytes + 16, 1000);
  clu_put64(bytes + CLU_RESULT_HEAD, value);
  return says(c, CLU_K_RESULT, seq, bytes, deed == BIG ? sizeof bytes : CLU_RESULT_HEAD + 8);
}

/* Tells whether it goes on. */
static int does_task(stub *s, clu_chan *c, uint64_t seq, uint64_t element, uint32_t attempt,
                     int ring) {
  int deed = x.does(element, attempt);
  if (deed == DIE) return 0;
  if (deed != SLOW && deed != DEAF) return answers(s, c, seq, 3 * element + 1, deed, ring);
  while (!atomic_load(&s->end) && (deed == DEAF || atomic_load(&s->cancel) != seq))
    clu_os_pause(1000000);
  return !atomic_load(&s->end) && says(c, CLU_K_CANCELLED, seq, "f()", 3);
}

static int does_batch(stub *s, clu_chan *c, const clu_msg *m) {
  const unsigned char *p = m->body->data;
  uint32_t n = clu_get32(p + 8), flags = clu_get32(p + 16);
  for (uint32_t k = 0; k < n; k++) {
    uint64_t element =
        flags & CLU_TASKS_BARE ? clu_get64(p) : clu_get64(p + CLU_TASKS_HEAD + 8 * (size_t)k);
    if (!clu_claim_start(&s->claim, m->seq + k)) continue; /* it was taken back */
    if (!does_task(s, c, m->seq + k, element, clu_get32(p + 12), !(flags & CLU_TASKS_NO_RING)))
      return 0;
  }
  return 1;
}

static void node_main(void *self) {
  stub *s = self;
  unsigned char pid[8];
  clu_chan c;
  clu_msg m;
  int goes_on = clu_chan_init(&c, s->fd, INT64_MAX, CLU_TAKES_NONE) == CLU_OK, rc, r;
  clu_put64(pid, 4711);
  goes_on = goes_on && says(&c, CLU_K_HELLO, 0, pid, sizeof pid);
  while (goes_on && !atomic_load(&s->end)) {
    struct pollfd at = {(int)c.fd, POLLIN, 0};
    poll(&at, 1, 2);
    rc = clu_chan_fill(&c);
    while (goes_on && (r = clu_chan_next(&c, &m)) == 1) {
      if (m.kind == CLU_K_TASKS) goes_on = does_batch(s, &c, &m);
      if (m.kind == CLU_K_DONE) goes_on = 0;
      clu_blob_unref(m.body);
    }
    if (rc != CLU_OK && rc != CLU_AGAIN) goes_on = 0;
  }
  clu_chan_fini(&c);
}

/* ---- a node: its transport ---- */

static void stub_stop(clu_node *nd, uint32_t grace_ms) {
  (void)grace_ms;
  atomic_store(&((stub *)nd)->end, 1);
  clu_node_close(nd);
}
static void stub_closed(clu_node *nd) { (void)nd; }
static int stub_end_known(const clu_node *nd) { return nd != NULL; }
static void stub_free(clu_node *nd) {
  stub *s = (stub *)nd;
  atomic_store(&s->end, 1);
  clu_os_thread_join(s->thread);
  free(s);
}
static void stub_interrupt(clu_node *nd, uint64_t seq) { atomic_store(&((stub *)nd)->cancel, seq); }
static clu_claim *stub_claim(const clu_node *nd) { return &((stub *)(uintptr_t)nd)->claim; }
static clu_ring *stub_ring(const clu_node *nd) { return &((stub *)(uintptr_t)nd)->ring; }
static int stub_clock(const clu_node *nd) { return nd != NULL; }
static int stub_is_cut(const clu_node *nd) { return ((const stub *)nd)->cut; }
static const clu_transport stub_transport = {.stop = stub_stop,
                                             .closed = stub_closed,
                                             .end_known = stub_end_known,
                                             .free = stub_free,
                                             .interrupt = stub_interrupt,
                                             .claim = stub_claim,
                                             .ring = stub_ring,
                                             .clock_is_ours = stub_clock,
                                             .is_cut = stub_is_cut};

static int is_ready(void *nd) { return clu_node_is_ready(nd); }

/* A node that starts, and is the caller's. */
static stub *new_stub(void) {
  stub *s = calloc(1, sizeof *s);
  clu_fd pair[2];
  REQUIRE(s && clu_os_pair(pair, NULL) == CLU_OK);
  clu_ring_reset(&s->ring);
  clu_node_init(&s->node, &stub_transport, x.session);
  s->fd = pair[1];
  REQUIRE(clu_os_thread_start(node_main, s, &s->thread, NULL) == CLU_OK);
  REQUIRE(clu_node_connect(&s->node, pair[0], 4711, NULL) == CLU_OK);
  return s;
}

/* Node `i` is there, in place of the one that was. */
static void start(int i) {
  stub *s;
  if (x.nodes[i]) clu_node_free(&x.nodes[i]->node);
  s = x.nodes[i] = new_stub();
  REQUIRE(clu_session_pump_for(x.session, is_ready, &s->node, clu_os_now() + 10000000000u));
  REQUIRE(clu_engine_attach(x.t, i, &s->node) == CLU_ATTACHED);
}

/* ---- the owner ---- */

static int elements(void *job, uint64_t first, uint32_t n, int shares, clu_blob **body) {
  unsigned char bytes[8];
  (void)job;
  CHECK(!shares);
  if (++x.calls == x.fails_at) {
    clu_blob_unref(*body);
    *body = NULL;
    return CLU_CANCELLED;
  }
  for (uint32_t k = 0; k < n; k++) {
    clu_put64(bytes, first + k);
    REQUIRE(clu_blob_append(*body, bytes, 8) == 0);
  }
  return CLU_OK;
}

static const clu_engine_caller caller = {elements};

/* With numbers for `most` nodes, `n` of which are there. */
TEST_UNUSED static void up_of(int n, int most, enum deed (*does)(uint64_t, uint32_t)) {
  clu_turns_work work;
  memset(&x, 0, sizeof x);
  x.n = n;
  x.does = does;
  clu_slab_leave();
  REQUIRE(x.session = clu_session_new(NULL));
  REQUIRE(x.all = clu_engines_new(x.session, &x.turns, &caller));
  work = clu_engines_work(x.all);
  REQUIRE(clu_turns_begin(&x.turns, &work) == CLU_OK);
  REQUIRE(clu_turns_enter(&x.turns, __builtin_frame_address(0)));
  REQUIRE(x.t = clu_engine_new(x.all, most, 50000000, 100));
  clu_engine_drive_always(x.t);
  for (int i = 0; i < n; i++) start(i);
  CHECK(n < most || clu_engine_is_whole(x.t));
  clu_turns_leave(&x.turns, 1);
}

TEST_UNUSED static void up(int n, enum deed (*does)(uint64_t, uint32_t)) { up_of(n, n, does); }

TEST_UNUSED static void down(void) {
  clu_turns_end(&x.turns, 1);
  clu_gate_free(x.turns.gate);
  clu_engine_free(x.t);
  for (int i = 0; i < x.n; i++) clu_node_free(&x.nodes[i]->node);
  clu_engines_free(x.all);
  clu_session_free(x.session);
}

/* A job of `n` elements; 0: of one task without an element. */
TEST_UNUSED static void plan_job(plan *p, uint64_t n, uint32_t retries, uint64_t timeout_ms) {
  clu_task_spec spec = {.n = n ? n : 1, .bare = n == 0, .retries = retries};
  clu_blob *message = clu_blob_new(8);
  REQUIRE(message && clu_blob_append(message, "function", 8) == 0);
  memset(p, 0, sizeof *p);
  p->n = spec.n;
  p->values = calloc(p->n, sizeof *p->values);
  p->failures = calloc(p->n, sizeof *p->failures);
  p->whys = calloc(p->n, sizeof *p->whys);
  REQUIRE(p->values && p->failures && p->whys);
  spec.timeout_ns = timeout_ms * 1000000;
  REQUIRE(p->job = clu_task_job_new(x.t, &spec, message, p));
  REQUIRE(clu_task_job_begin(x.t, p->job) == CLU_OK);
}

TEST_UNUSED static void drop_job(plan *p) {
  clu_task_job_release(p->job);
  free(p->values);
  free(p->failures);
  free(p->whys);
}

static void take(plan *p) {
  unsigned char small[CLU_RING_MOST];
  clu_task_result r;
  const clu_task_failure *f;
  size_t n;
  while (clu_task_job_next_result(p->job, small, &r)) {
    uint64_t element = p->n > 1 ? r.task : clu_task_job_number(p->job);
    const unsigned char *value = r.body ? r.body->data + CLU_RESULT_HEAD : small;
    REQUIRE(r.task < p->n);
    p->values[r.task]++;
    p->wrong += clu_get64(value) != 3 * element + 1;
    clu_task_job_has_value(p->job, r.task);
    clu_blob_unref(r.body);
  }
  f = clu_task_job_failures(p->job, &n);
  for (; p->known < n; p->known++) {
    REQUIRE(f[p->known].task < p->n);
    p->failures[f[p->known].task]++;
    p->whys[f[p->known].task] = f[p->known].why;
  }
}

static void replace_dead(void) {
  while (clu_engine_deaths(x.t)) {
    clu_death d = clu_engine_death(x.t, 0);
    clu_engine_deaths_told(x.t, 1);
    x.deaths++;
    start(d.index);
  }
}

/* Turns until all tasks of the job have ended: 1; 0: `most` have been answered. */
TEST_UNUSED static int run(plan *p, uint64_t most) {
  clu_engine_wait w;
  clu_engine_wait_begin(&w, x.t, clu_os_now() + 25000000000u, 1);
  for (;;) {
    int rc = clu_engine_turn(x.t), event;
    REQUIRE(rc == CLU_OK);
    take(p);
    REQUIRE(!clu_task_job_is_incomplete(p->job));
    event = clu_engine_event(x.t, p->job, p->known);
    if (event == CLU_EVENT_DONE) return 1;
    if (clu_task_job_counts(p->job).answered >= most) return 0;
    if (event == CLU_EVENT_DEATHS) replace_dead();
    if (event == CLU_EVENT_NOTES) clu_engine_notes_told(x.t);
    if (event == CLU_EVENT_NONE) REQUIRE(clu_engine_await(&w, x.t, p->job, NULL) == CLU_OK);
    REQUIRE(event != CLU_EVENT_NO_NODE && event != CLU_EVENT_UNCLEAR);
  }
}

/* Each task has ended once: with a value, an error (a value, and a failure that says so), or a
 * failure without a value. */
TEST_UNUSED static int is_each_once(const plan *p) {
  for (uint64_t k = 0; k < p->n; k++) {
    int is_error = p->failures[k] == 1 && p->whys[k] == CLU_END_ANSWER;
    if (p->values[k] + p->failures[k] != 1 + is_error) return 0;
    if (is_error && p->values[k] != 1) return 0;
  }
  return p->wrong == 0;
}

/* How many tasks have failed so. */
TEST_UNUSED static int failed_by(const plan *p, int why) {
  int n = 0;
  for (uint64_t k = 0; k < p->n; k++) n += p->failures[k] > 0 && p->whys[k] == why;
  return n;
}

#endif
