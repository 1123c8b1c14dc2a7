/* Engines under random schedules: maps and submitted tasks, deaths, replacements, retries, limits
 * of time and memory, cancels, nodes that stand still or are cut off, hosts that are lost, an owner
 * that is elsewhere, memory that is short, and elements that cannot be had. All is in one thread
 * and in a time of its own (simulated-nodes.h). A failure prints the seed that repeats it
 * (CLUTCH_SEED).
 *
 * What holds after each step: each task ends once, with its own value or a failure that its job
 * allows; it is started no more often than that, and at one node at a time; tasks leave in the
 * order in which they were submitted; what the engine counts is what is there; no unit of a host is
 * given twice, whole or in parts, and cores only as often as they are there. In the end nothing is
 * left, and all is free.
 */
// link: -Wl,--wrap=clu_os_now -Wl,--wrap=clu_poller_wait -Wl,--wrap=clu_os_process_memory
// link: -Wl,--wrap=clu_budget_take -Wl,--wrap=clu_budget_give
// link: -Wl,--wrap=clu_os_process_anonymous -Wl,--wrap=clu_os_memory_bounds
// link: -Wl,--wrap=clu_os_memory_left -Wl,--wrap=clu_engines_look_at_room
// link: -Wl,--wrap=clu_sched_next -Wl,--wrap=clu_sched_sent
#include "simulated-counts.h"
#include "simulated-owner.h"

/* ---- what may happen ---- */

static work *any_work(int e, int in_engine) {
  for (int tries = 0; tries < 8 && W.n_works; tries++) {
    int back = W.n_works < 40 ? W.n_works : 40;
    work *w = &W.works[W.n_works - 1 - (int)dice((uint64_t)back)];
    if (w->e == e && !w->released && (!in_engine || clu_task_job_engine(w->job))) return w;
  }
  return NULL;
}

static int open_works(void) {
  int n = 0;
  for (int k = 0; k < W.n_works; k++) n += !W.works[k].released;
  return n;
}

/* A task may ask for this: all of it is there. */
static clu_need any_need(void) {
  clu_need x = {.cores = once_in(2) ? 1 + (uint32_t)dice((uint64_t)W.cores) : 0};
  if (once_in(2)) x.parts[0] = once_in(2) ? CLU_WHOLE * (1 + (uint32_t)dice(3)) : 3000;
  if (once_in(4)) x.parts[1] = once_in(2) ? CLU_WHOLE : 5000;
  if (W.room && once_in(3)) x.memory = (int64_t)dice(W.room);
  return x;
}

static void submit(int e) {
  work *w = &W.works[W.n_works];
  clu_task_spec spec = {.n = 1, .bare = once_in(2)};
  clu_blob *message;
  unsigned char bytes[4];
  int only[2];
  uint32_t need_of[1600];
  if (W.n_works == MOST_WORKS || open_works() >= 16) return;
  if (!spec.bare && !once_in(5)) spec.n = 1 + dice(once_in(10) ? 1500 : 60);
  spec.retries = once_in(2) ? (uint32_t)dice(4) : 0;
  spec.chunk = once_in(3) ? 1 + (uint32_t)dice(10) : 0;
  spec.timeout_ns = once_in(3) ? 2000000 + dice(20000000) : 0;
  spec.max_memory = W.has_limits && once_in(3) ? 500000 : 0;
  if (once_in(4)) {
    only[0] = 1 + (int)dice((uint64_t)W.n);
    only[1] = 1 + (int)dice((uint64_t)W.n);
    spec.only = only;
    spec.nonly = 2;
  }
  if (W.cores && once_in(2)) {
    for (size_t k = 0; k < spec.n; k++) need_of[k] = k % 2;
    w->needs[0] = w->needs[1] = any_need();
    spec.needs = w->needs;
    spec.nneeds = 1;
    if (once_in(2)) {
      w->needs[1] = any_need();
      spec.nneeds = 2;
      spec.need_of = need_of;
    }
  }
  w->e = e;
  w->n = spec.n;
  w->bare = spec.bare;
  w->retries = spec.retries;
  w->timeout = spec.timeout_ns;
  w->memory = spec.max_memory > 0;
  w->slow = once_in(4);
  w->large = W.room && spec.n < 40 && once_in(3);
  w->quiet = once_in(2);
  HOLDS(w->tasks = calloc(w->n, sizeof *w->tasks));
  clu_put32(bytes, (uint32_t)W.n_works++);
  HOLDS((message = clu_blob_new(4)) && clu_blob_append(message, bytes, 4) == 0);
  HOLDS(w->job = clu_task_job_new(W.t[e], &spec, message, w));
  HOLDS(clu_task_job_begin(W.t[e], w->job) == CLU_OK);
  w->number = clu_task_job_number(w->job);
  if (once_in(8)) clu_task_job_hear(w->job);
}

static void give_up(int e) {
  work *w = any_work(e, 1);
  uint64_t what = dice(10);
  if (!w) return;
  take(w);
  w->cancelled |= clu_task_job_counts(w->job).left > 0;
  if (what < 6) {
    clu_task_job_cancel(w->job);
  } else if (what < 8) {
    clu_task_job_close(w->job);
  } else {
    w->released = 1;
    clu_task_job_release(w->job);
  }
}

/* Jobs that are over are released, sooner or later. */
static void let_go(work *w) {
  if (w->released || !is_over(w)) return;
  take(w);
  if (!w->cancelled) check_ended(w);
  if (once_in(2)) clu_task_job_close(w->job);
  w->released = 1;
  clu_task_job_release(w->job);
}

static void kill_some(int e) {
  int i = (int)dice((uint64_t)W.n);
  sim_node *s = W.nodes[e][i];
  uint64_t what = dice(12);
  if (!s) return;
  if (what < 4) {
    node_dies(s, 1);
  } else if (what < 5 && s->kind == FAR) {
    node_dies(s, 2); /* with its host */
  } else if (what < 6) {
    clu_node_stop(&s->node, once_in(2) ? 0 : 2000);
  } else if (what < 8) {
    s->frozen = !s->frozen;
  } else if (s->kind == FAR && s->cut != CLU_HAS_SAID_BYE) {
    s->cut = s->cut || what < 11 ? !s->cut : CLU_HAS_SAID_BYE;
    if (s->cut == CLU_HAS_SAID_BYE) node_dies(s, 2);
    W.session->cuts++;
  } else if (once_in(4)) {
    come(e, i); /* in place of one that may still be there */
  }
}

static void one_turn(int e) {
  int rc = once_in(2) ? clu_engine_pass(W.t[e]) : clu_engine_turn(W.t[e]);
  HOLDS(rc == CLU_OK || rc == CLU_CANCELLED);
}

/* The owner waits for a job, or for anything. */
static void await_some(int e, int turns) {
  work *w = once_in(5) ? NULL : any_work(e, 1);
  int tokens = W.budget && once_in(2) ? clu_budget_take(2, 4, "") : 0;
  int before = clu_engine_map_begins(W.t[e], tokens, once_in(2));
  clu_engine_wait wait;
  clu_engine_wait_begin(&wait, W.t[e], clu_os_now() + 20000000, once_in(2));
  for (int k = 0; k < turns; k++) {
    clu_task_job *j = w && !w->released ? w->job : NULL;
    int rc = clu_engine_turn(W.t[e]), event;
    HOLDS(rc == CLU_OK || rc == CLU_CANCELLED);
    if (w && w->released) j = NULL;
    if (j) take(w);
    event = clu_engine_event(W.t[e], j, j ? w->known : 0);
    HOLDS(event != CLU_EVENT_FAILED);
    if (event == CLU_EVENT_DONE) break;
    if (event != CLU_EVENT_NONE) handle(e, event, w);
    if (event == CLU_EVENT_NONE && clu_engine_await(&wait, W.t[e], j, NULL) != CLU_OK) break;
  }
  clu_engine_map_ends(W.t[e], before);
}

/* The owner is elsewhere: what its thread would do. */
static void be_away(int pieces) {
  if (W.depth) return; /* it has the turn while elements are made */
  W.is_away = 1;
  for (int k = 0; k < pieces; k++) {
    uint64_t due = W.away.due(W.away.self);
    int64_t wait = 0;
    if (W.away.is_urgent(W.away.self) || (due && due <= clu_os_now()))
      wait = W.away.work(W.away.self);
    sim_now += wait > 0 ? dice((uint64_t)wait) : dice(3000000);
    happens_meanwhile(1);
  }
  W.is_away = 0;
  atomic_fetch_add(&W.turns.entries, 1);
}

static void awaits(int e) {
  work *w = any_work(e, 1);
  if (w && !w->awaited && !w->cancelled) {
    w->awaited = 1;
    HOLDS(clu_task_job_await(w->job) == CLU_OK);
  }
  hear_news(e);
}

/* Nothing is left to do, and the owner is elsewhere for long. */
static void rest(int e) {
  if (W.depth) return;
  clu_engine_end_idle(W.t[e], 5000000);
  for (int k = 0; k < W.n_works; k++) {
    work *w = &W.works[k];
    if (w->e != e || w->released) continue;
    let_go(w);
    if (w->released) continue;
    w->released = w->cancelled = 1;
    clu_task_job_release(w->job);
  }
  be_away(20);
}

static void change_some(int e) {
  clu_engine *t = W.t[e];
  work *w = any_work(e, 1);
  if (W.room && once_in(4)) W.foreign = once_in(2) ? 0 : dice(W.room);
  switch (dice(7)) {
  case 0: clu_engine_end_idle(t, once_in(2) ? 0 : 5000000 + dice(50000000)); break;
  case 1:
    if (!clu_engine_use(t)) replace_absent(e, 3);
    break;
  case 2:
    W.budget = !W.budget;
    for (int k = 0; k < W.n_engines; k++) clu_engine_set_budget(W.t[k], W.budget ? 4 : 0, "x");
    break;
  case 3:
    if (w) clu_task_job_hearing(w->job, w->hearing = !w->hearing);
    break;
  case 4: HOLDS(clu_engine_desired(t, 1000000000) >= 0); break;
  case 5: rest(e); break;
  default: clu_engines_back_at_once(W.all);
  }
}

static void step(int e) {
  uint64_t what = dice(1000);
  if (what < 400) {
    happens_meanwhile(1);
  } else if (what < 560) {
    one_turn(e);
  } else if (what < 580) {
    await_some(e, 1 + (int)dice(30));
  } else if (what < 640) {
    be_away(1 + (int)dice(5));
  } else if (what < 760) {
    for (int k = W.n_works > 20 ? W.n_works - 20 : 0; k < W.n_works; k++)
      if (!W.works[k].released) take(&W.works[k]);
  } else if (what < 860) {
    handle(e, clu_engine_event(W.t[e], NULL, 0), NULL);
  } else if (what < 920) {
    submit(e);
  } else if (what < 940) {
    for (int k = 0; k < W.n_works; k++) let_go(&W.works[k]);
  } else if (what < 944) {
    give_up(e);
  } else if (what < 956) {
    kill_some(e);
  } else if (what < 966) {
    replace_absent(e, 2);
  } else if (what < 976) {
    awaits(e);
  } else if (what < 980) {
    change_some(e);
  } else {
    sim_now += dice(once_in(10) ? 30000000 : 100000);
  }
}

/* In the midst of a turn, while elements are made. */
static void step_within(int e) {
  if (W.depth > 2) return;
  switch (dice(5)) {
  case 0: submit(e); break;
  case 1: give_up(e); break;
  case 2: kill_some(e); break;
  case 3: replace_absent(e, 1); break;
  default: one_turn(e);
  }
}

/* ---- one run ---- */

/* From now on nobody dies but those that are killed: all has to come to an end. */
static void let_all_end(void) {
  W.calm = 1;
  W.foreign = 0;
  for (int e = 0; e < W.n_engines; e++) clu_engine_end_idle(W.t[e], 0);
  for (int guard = 0;; guard++) {
    int left = 0;
    for (int e = 0; e < W.n_engines; e++) {
      calm_down(e);
      handle(e, clu_engine_event(W.t[e], NULL, 0), NULL);
      replace_absent(e, 0);
      one_turn(e);
      await_some(e, 20);
      check_counts(e);
    }
    for (int k = 0; k < W.n_works; k++) {
      let_go(&W.works[k]);
      left += !W.works[k].released;
    }
    if (!left) return;
    sim_now += 1000000; /* tasks that fill memory take up to 0.3 s, and one may have to wait */
    HOLDS(guard < 2000);
  }
}

static void simulate(uint64_t seed, long steps) {
  begin(seed);
  W.steps_within = step_within;
  for (long k = 0; k < steps; k++) {
    int e = (int)dice((uint64_t)W.n_engines);
    step(e);
    if (k % 16 == 0) check_counts(e);
  }
  if (seed % 4) let_all_end();
  end();
}

static void random_schedules(uint64_t first, uint64_t last) {
  const char *seed = getenv("CLUTCH_SEED"), *steps = getenv("CLUTCH_STEPS");
  long each = steps ? atol(steps) / 64 : TEST_SANITIZED ? 4000 : 15625;
  memset(&totals, 0, sizeof totals);
  if (seed) {
    simulate(strtoull(seed, NULL, 10), each);
    return;
  }
  for (uint64_t s = first; s <= last; s++) simulate(s, each);
  CHECK(totals.values > 0 && totals.deaths > 0 && totals.over > 0);
  CHECK(totals.cuts > 0 && totals.idle > 0);
  CHECK(totals.ends[CLU_END_ANSWER] > 0 && totals.ends[CLU_END_DIED] > 0);
  CHECK(totals.ends[CLU_END_TIMEOUT] > 0 && totals.given_up > 0);
  CHECK(totals.held > 0 && totals.yields + totals.never > 0);
  CHECK(totals.given > 1000);
}

/* 1e6 steps; in several tests, each of which has its time. */
TEST(whatever_happens_each_task_ends_once) { random_schedules(1, 16); }
TEST(whatever_happens_nothing_is_lost) { random_schedules(17, 32); }
TEST(whatever_happens_all_is_counted) { random_schedules(33, 48); }
TEST(whatever_happens_all_comes_to_an_end) { random_schedules(49, 64); }
