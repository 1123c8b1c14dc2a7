/* The scheduler under random schedules of work, deaths, new nodes, delays, interrupts that are
 * ignored, and cancels, in virtual time. A failure prints the seed that repeats it (CLUTCH_SEED).
 */
#include "dice.h"
#include "test.h"

#include "core/base/err.h"
#include "core/sched/scheduler.h"

static uint64_t now_ns;

enum { JOBS = 40, QUEUE = 4096 };

typedef struct piece {
  int job;
  uint64_t task, seq;
  uint32_t attempt;
} piece;

typedef struct stub {
  int up, running, deaf; /* deaf: ignores interrupts */
  int cut;
  int knows;             /* has a claim word, */
  int elsewhere;         /* which the scheduler cannot read: */
  uint64_t asked, taken; /* a question on its way there, and an answer on its way back; 0: none */
  clu_claim claim;
  uint64_t seq;
  piece *q;
  uint32_t head, len;
  piece now;
  struct {
    piece p;
    int given_up;
  } out; /* an answer on its way */
  int answered;
} stub;

typedef struct work {
  clu_job *job;
  uint64_t n;
  uint32_t retries;
  int cancelled;
  uint8_t *starts, *ends;
  unsigned char *only; /* a copy; NULL: all */
  int *last;
} work;

static stub *stubs;
static work works[JOBS];
static int n_stubs, n_works;
static uint64_t tasks_ended, asked;
static clu_sched *sched;

/* Tells whether the promises have held so far. */
static int broken;
static int holds(int ok) {
  broken |= !ok;
  return ok;
}

static void ended_once(const clu_ended *x) {
  work *w = &works[*(int *)x->user];
  CHECK(holds(!w->cancelled));
  CHECK(holds((++w->ends[x->task]) == 1));
  tasks_ended++;
}

static void drain(void) {
  clu_ended x;
  while (clu_sched_ended(sched, &x)) ended_once(&x);
}

static void deliver(int i) {
  stub *s = &stubs[i];
  clu_ended x;
  int rc;
  if (!s->answered) return;
  s->answered = 0;
  rc = clu_sched_answer(sched, i, s->out.p.seq, s->out.given_up, 1 + dice(100000), now_ns, &x);
  CHECK(holds(rc >= 0));
  if (rc == 1) ended_once(&x);
  CHECK(holds((rc == 0) == works[s->out.p.job].cancelled));
}

static void stub_is_cut(int i, int cut) {
  stub *s = &stubs[i];
  if (!s->up) return;
  s->cut = cut;
  clu_sched_node_cut(sched, i, cut, now_ns);
}

/* All that a node and its host say while they are cut off waits. Neither waits for the other. */
static void hear(int i) {
  stub *s = &stubs[i];
  if (s->cut) return;
  if (!s->elsewhere || dice(2)) deliver(i);
  if (s->taken && dice(2)) {
    clu_sched_node_taken(sched, i, s->taken);
    s->taken = 0;
  }
  if (!s->asked || dice(2)) return;
  s->taken = clu_claim_take_back(&s->claim, s->asked);
  s->asked = 0;
}

static void stub_dies(int i) {
  stub *s = &stubs[i];
  int lost = (!s->knows || s->elsewhere) && (s->cut || dice(2));
  if (!s->up) return;
  if (!lost) deliver(i); /* what it had written is read before its end is noticed */
  if (!lost && s->elsewhere) {
    if (s->taken) clu_sched_node_taken(sched, i, s->taken);
    clu_sched_node_begun(sched, i, clu_claim_first(&s->claim));
  }
  clu_sched_node_lost(sched, i, 1, 1);
  s->up = s->running = s->answered = s->cut = 0;
  s->len = 0;
  drain();
}

static void stub_comes(int i) {
  stub *s = &stubs[i];
  if (s->up) return;
  s->up = 1;
  s->seq = s->asked = s->taken = 0;
  s->claim = 0;
  CHECK(
      holds((clu_sched_node_up(sched, i, s->knows && !s->elsewhere ? &s->claim : NULL)) == CLU_OK));
  if (s->elsewhere) clu_sched_node_elsewhere(sched, i);
}

static void stub_works(int i) {
  stub *s = &stubs[i];
  if (!s->up || s->answered) return; /* one answer at a time is on its way */
  if (s->running) {
    s->running = 0;
    s->answered = 1;
    s->out.p = s->now;
    s->out.given_up = 0;
    return;
  }
  while (s->len) {
    piece p = s->q[s->head];
    work *w = &works[p.job];
    s->head = (s->head + 1) % QUEUE;
    s->len--;
    if (s->knows && !clu_claim_start(&s->claim, p.seq)) continue;
    s->now = p;
    s->running = 1;
    s->deaf = dice(4) == 0;
    CHECK(holds(++w->starts[p.task] <= w->retries + 1));
    CHECK(holds(p.attempt <= w->retries + 1));
    w->last[p.task] = i;
    return;
  }
}

static void do_next(void) {
  clu_action a;
  stub *s;
  clu_sched_next(sched, now_ns, &a);
  drain();
  if (a.what == CLU_ACT_NONE) return;
  s = &stubs[a.node];
  CHECK(holds(s->up));
  if (a.what == CLU_ACT_SEND) {
    int w = *(int *)a.user;
    CHECK(holds(!s->cut && !s->asked && !s->taken));
    CHECK(holds(!works[w].cancelled));
    CHECK(holds(!works[w].only || works[w].only[a.node]));
    if (dice(500) == 0) { /* it is given up while it is on its way */
      clu_job_cancel(sched, works[w].job, now_ns);
      works[w].cancelled = 1;
      drain();
    }
    if (dice(50) == 0) {
      clu_sched_unsent(sched, &a);
      return;
    }
    s->seq += dice(3); /* calls in between have numbers, too */
    CHECK(holds(s->len + a.n < QUEUE));
    for (uint32_t k = 0; k < a.n && s->len < QUEUE; k++) {
      piece *p = &s->q[(s->head + s->len++) % QUEUE];
      p->job = w;
      p->task = a.first + k;
      p->seq = s->seq + 1 + k;
      p->attempt = a.attempt;
    }
    CHECK(holds((clu_sched_sent(sched, &a, s->seq + 1, a.n * 8, now_ns)) == CLU_OK));
    s->seq += a.n;
  } else if (a.what == CLU_ACT_INTERRUPT) {
    if (s->running && s->now.seq == a.seq && !s->deaf) {
      s->running = 0;
      s->answered = 1;
      s->out.p = s->now;
      s->out.given_up = 1;
    }
  } else if (a.what == CLU_ACT_TAKE_BACK) {
    CHECK(holds(s->elsewhere && !s->asked && !s->taken && a.seq == s->seq + 1));
    s->asked = a.seq;
    asked++;
  } else {
    CHECK(holds(!s->cut));
    stub_dies(a.node);
  }
}

static void add_work(void) {
  clu_job_spec spec;
  work *w = &works[n_works];
  static int users[JOBS];
  memset(&spec, 0, sizeof spec);
  users[n_works] = n_works;
  spec.n = dice(4) == 0 ? 1 : dice(2000);
  spec.retries = (uint32_t)dice(3);
  spec.chunk = dice(3) == 0 ? 1 + (uint32_t)dice(20) : 0;
  spec.timeout_ns = dice(3) == 0 ? 1 + dice(200000) : 0;
  spec.user = &users[n_works];
  w->only = NULL;
  if (n_stubs < 100 && dice(3) == 0) {
    spec.nonly = n_stubs;
    spec.only = calloc((size_t)n_stubs, 1);
    w->only = calloc((size_t)n_stubs, 1);
    spec.only[dice((uint64_t)n_stubs)] = 1;
    spec.only[dice((uint64_t)n_stubs)] = 1;
    memcpy(w->only, spec.only, (size_t)n_stubs);
  }
  w->n = spec.n;
  w->retries = spec.retries;
  w->cancelled = 0;
  w->starts = calloc(spec.n + 1, 1);
  w->ends = calloc(spec.n + 1, 1);
  w->last = calloc(spec.n + 1, sizeof *w->last);
  w->job = clu_job_new(sched, &spec);
  n_works++;
}

static int all_over(void) {
  for (int k = 0; k < n_works; k++)
    if (clu_job_left(works[k].job)) return 0;
  return 1;
}

/* One thing that may happen at any time. */
static void random_step(uint64_t what, int i) {
  work *w;
  if (what < 420)
    do_next();
  else if (what < 700)
    stub_works(i);
  else if (what < 966)
    hear(i);
  else if (what < 970)
    stub_is_cut(i, !stubs[i].cut);
  else if (what < 975)
    stub_dies(i);
  else if (what < 985)
    stub_comes(i);
  else if (what < 995)
    now_ns += dice(dice(20) ? 20000 : 2 * CLU_AHEAD);
  else if (what < 999 && n_works < JOBS)
    add_work();
  else if (n_works && dice(10) == 0) {
    w = &works[dice((uint64_t)n_works)];
    clu_job_cancel(sched, w->job, now_ns);
    w->cancelled = 1;
    drain();
  }
}

/* From now on nobody dies but those that are killed: all has to come to an end. */
static void let_all_end(void) {
  for (long guard = 0; !all_over() && guard < 3000000 && !broken; guard++) {
    int i = (int)dice((uint64_t)n_stubs);
    stub_comes(i);
    stub_is_cut(i, 0);
    do_next();
    do_next();
    stub_works(i);
    hear((int)dice((uint64_t)n_stubs));
    now_ns += dice(200);
  }
  drain();
  CHECK(holds(all_over()));
}

/* Each task of a job that was not cancelled has ended once. */
static void end_work(work *w) {
  for (uint64_t x = 0; x < w->n && !w->cancelled; x++) {
    if (w->ends[x] == 1) continue;
    CHECK(holds(w->ends[x] == 1));
    break;
  }
  clu_job_free(sched, w->job, now_ns);
  free(w->only);
  free(w->starts);
  free(w->ends);
  free(w->last);
}

static void simulate(uint64_t seed, int nodes, long steps) {
  dice_state = seed * 2 + 1;
  for (int k = 0; k < 10; k++) dice(2);
  n_stubs = nodes;
  n_works = 0;
  now_ns = 1;
  stubs = calloc((size_t)nodes, sizeof *stubs);
  sched = clu_sched_new(5000);
  for (int i = 0; i < nodes; i++) {
    stubs[i].knows = dice(4) != 0;
    stubs[i].elsewhere = stubs[i].knows && dice(3) == 0;
    stubs[i].q = calloc(QUEUE, sizeof(piece));
    stub_comes(i);
  }
  for (long k = 0; k < steps && !broken; k++) {
    uint64_t what = dice(1000);
    random_step(what, (int)dice((uint64_t)nodes));
  }
  let_all_end();
  for (int k = 0; k < n_works; k++) end_work(&works[k]);
  clu_sched_free(sched);
  for (int i = 0; i < nodes; i++) free(stubs[i].q);
  free(stubs);
  if (broken)
    fprintf(stderr, "  seed %llu, %d nodes, %ld steps\n", (unsigned long long)seed, nodes, steps);
}

/* With seeds first ... last, or the one that is asked for. */
static void random_schedules(uint64_t first, uint64_t last) {
  const char *seed = getenv("CLUTCH_SEED"), *steps = getenv("CLUTCH_STEPS");
  long each = steps ? atol(steps) / 50 : TEST_SANITIZED ? 5000 : 20000;
  broken = 0;
  if (seed) {
    simulate(strtoull(seed, NULL, 10), 3, each);
    return;
  }
  asked = 0;
  for (uint64_t s = first; s <= last && !broken; s++)
    simulate(s, s % 7 == 0 ? 1 : s % 5 == 0 ? 40 : 1 + (int)(s % 4), each);
  CHECK(asked > 0);
}

/* In two tests, each of which has its time. */
TEST(no_task_is_lost_or_done_twice_whatever_happens) { random_schedules(1, 25); }
TEST(no_task_is_lost_or_done_twice_in_other_schedules) { random_schedules(26, 50); }

TEST(ten_thousand_nodes) {
  broken = 0;
  simulate(4711, 10000, TEST_SANITIZED ? 20000 : 200000);
}
