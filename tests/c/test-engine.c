/* Engines with stub nodes: each task ends once, whatever happens to nodes, with the owner of the
 * turn or without it. */
// threads
// link: -Wl,--wrap=realloc
#include "engine-fixture.h"

static _Thread_local int no_memory;
void *__real_realloc(void *p, size_t n);
void *__wrap_realloc(void *p, size_t n);
void *__wrap_realloc(void *p, size_t n) { return no_memory ? NULL : __real_realloc(p, n); }

/* ---- maps ---- */

static enum deed all_well(uint64_t element, uint32_t attempt) {
  (void)attempt;
  return element % 7 == 3 ? BIG : WELL;
}

static enum deed mixed(uint64_t element, uint32_t attempt) {
  if (element == 4000) return DIE;
  if (element == 6000) return DEAF;
  if (element % 997 == 5 && attempt == 1) return DIE;
  if (element % 2500 == 77) return SLOW;
  if (element % 501 == 9) return WRONG;
  return element % 7 == 3 ? BIG : WELL;
}

TEST(a_map_of_10000_elements_has_each_result_once) {
  plan p;
  int mine;
  up(4, all_well);
  mine = clu_turns_enter(&x.turns, __builtin_frame_address(0));
  plan_job(&p, 10000, 0, 0);
  CHECK(run(&p, UINT64_MAX));
  CHECK(is_each_once(&p));
  CHECK_INT_EQ(p.known, 0);
  CHECK_INT_EQ(clu_task_job_ready(p.job), 10000);
  CHECK_INT_EQ(clu_engine_open(x.t), 0);
  drop_job(&p);
  clu_turns_leave(&x.turns, mine);
  down();
}

TEST(deaths_retries_and_time_limits_leave_each_result_once) {
  plan p;
  int mine, died_once = 0;
  for (uint64_t k = 0; k < 10000; k++) died_once += k % 997 == 5 && k != 4000;
  up(4, mixed);
  mine = clu_turns_enter(&x.turns, __builtin_frame_address(0));
  plan_job(&p, 10000, 2, 100);
  CHECK(run(&p, UINT64_MAX));
  CHECK(is_each_once(&p));
  CHECK_INT_EQ(p.whys[4000], CLU_END_DIED);
  CHECK_INT_EQ(failed_by(&p, CLU_END_DIED), 1);
  CHECK_INT_EQ(p.whys[6000], CLU_END_TIMEOUT);
  CHECK_INT_EQ(failed_by(&p, CLU_END_TIMEOUT), 5);
  CHECK_INT_EQ(failed_by(&p, CLU_END_ANSWER), 20);
  /* those of 4000 are three; the one that is deaf is killed */
  replace_dead();
  CHECK_INT_EQ(x.deaths, died_once + 3 + 1);
  drop_job(&p);
  clu_turns_leave(&x.turns, mine);
  down();
}

static int all_in_step(void) {
  for (int i = 0; i < x.n; i++)
    if (!clu_node_in_step(&x.nodes[i]->node)) return 0;
  return 1;
}

/* With turns: an interrupt is due when the task before has been answered. */
static void come_into_step(void) {
  uint64_t deadline = clu_os_now() + 10000000000u;
  while (!all_in_step() && clu_os_now() < deadline) {
    REQUIRE(clu_engine_turn(x.t) == CLU_OK);
    REQUIRE(clu_loop_pump(clu_session_loop(x.session), 1000000, NULL) == CLU_OK);
  }
  CHECK(all_in_step());
}

TEST(what_is_left_of_a_cancelled_map_is_nobodys) {
  plan p, next;
  int mine;
  up(3, mixed);
  mine = clu_turns_enter(&x.turns, __builtin_frame_address(0));
  for (int round = 0; round < 5; round++) {
    plan_job(&p, 10000, 2, 0);
    CHECK(!run(&p, 60 + 100 * (uint64_t)round)); /* element 77 keeps its node */
    CHECK(clu_task_job_cancel(p.job));
    come_into_step();
    take(&p);
    for (uint64_t k = 0; k < p.n; k++) CHECK(p.values[k] <= 1 && p.failures[k] <= 1);
    CHECK_INT_EQ(p.wrong, 0);
    clu_task_job_close(p.job);
    CHECK(!clu_task_job_engine(p.job));
    drop_job(&p);
    plan_job(&next, 50, 0, 0);
    CHECK(run(&next, UINT64_MAX));
    CHECK(is_each_once(&next));
    drop_job(&next);
    CHECK_INT_EQ(clu_engine_jobs(x.t), 0);
  }
  clu_turns_leave(&x.turns, mine);
  down();
}

/* ---- nodes that cannot be reached ---- */

TEST(a_host_that_has_said_that_it_ends_is_not_noted_as_cut_off) {
  const clu_note *note;
  size_t n;
  int mine;
  up(2, all_well);
  mine = clu_turns_enter(&x.turns, __builtin_frame_address(0));
  x.nodes[0]->cut = CLU_IS_CUT;
  x.nodes[1]->cut = CLU_HAS_SAID_BYE;
  x.session->cuts++;
  CHECK_INT_EQ(clu_engine_turn(x.t), CLU_OK);
  note = clu_engine_notes(x.t, &n);
  CHECK_INT_EQ(n, 1);
  CHECK_INT_EQ(note->what, CLU_NOTE_CUT);
  CHECK_INT_EQ(note->node, 0);
  clu_turns_leave(&x.turns, mine);
  down();
}

/* ---- a caller that cannot go on ---- */

TEST(elements_that_cannot_be_had_leave_the_batch_waiting) {
  plan p;
  int mine, rc = CLU_OK;
  up(2, all_well);
  mine = clu_turns_enter(&x.turns, __builtin_frame_address(0));
  plan_job(&p, 1000, 0, 0);
  x.fails_at = 2;
  for (int k = 0; k < 1000 && rc == CLU_OK; k++) {
    rc = clu_engine_turn(x.t);
    clu_loop_pump(clu_session_loop(x.session), 1000000, NULL);
  }
  CHECK_INT_EQ(rc, CLU_CANCELLED);
  CHECK_INT_EQ(p.job->pins, 0);
  CHECK(run(&p, UINT64_MAX)); /* it may be tried again */
  CHECK(is_each_once(&p));
  drop_job(&p);
  clu_turns_leave(&x.turns, mine);
  down();
}

TEST(a_job_that_is_released_while_its_elements_are_made_stays_until_then) {
  plan p;
  int mine;
  up(1, all_well);
  mine = clu_turns_enter(&x.turns, __builtin_frame_address(0));
  plan_job(&p, 10, 0, 0);
  p.job->pins++; /* as while elements() is at work */
  clu_task_job_release(p.job);
  CHECK(!clu_task_job_engine(p.job));
  clu_task_job_unpin(p.job);
  free(p.values);
  free(p.failures);
  free(p.whys);
  clu_turns_leave(&x.turns, mine);
  down();
}

TEST(a_node_that_could_not_be_attached_for_want_of_memory_can_be_later) {
  plan p;
  int mine;
  up_of(0, 1, all_well);
  mine = clu_turns_enter(&x.turns, __builtin_frame_address(0));
  x.nodes[x.n++] = new_stub();
  REQUIRE(
      clu_session_pump_for(x.session, is_ready, &x.nodes[0]->node, clu_os_now() + 10000000000u));
  no_memory = 1;
  CHECK_INT_EQ(clu_engine_attach(x.t, 0, &x.nodes[0]->node), CLU_ATTACH_NO_MEMORY);
  no_memory = 0;
  CHECK(!clu_engine_has_any(x.t, 0));
  CHECK_INT_EQ(clu_engine_attach(x.t, 0, &x.nodes[0]->node), CLU_ATTACHED);
  plan_job(&p, 3, 0, 0);
  CHECK(run(&p, UINT64_MAX));
  CHECK(is_each_once(&p) && clu_engine_deaths(x.t) == 0);
  drop_job(&p);
  clu_turns_leave(&x.turns, mine);
  down();
}

static enum deed all_die(uint64_t element, uint32_t attempt) {
  (void)element;
  (void)attempt;
  return DIE;
}

static int is_closed(void *nd) { return !clu_node_is_open(nd); }

/* The death is seen when the next node comes: what it has ended is known at once, too. */
TEST(a_task_that_has_ended_with_a_node_has_failed_when_another_is_in_its_place) {
  clu_task_counts c;
  plan p;
  stub *dead;
  int mine;
  up(1, all_die);
  mine = clu_turns_enter(&x.turns, __builtin_frame_address(0));
  plan_job(&p, 0, 0, 0);
  REQUIRE(clu_engine_turn(x.t) == CLU_OK);
  dead = x.nodes[0];
  REQUIRE(clu_session_pump_for(x.session, is_closed, &dead->node, clu_os_now() + 10000000000u));
  x.nodes[0] = NULL;
  start(0);
  c = clu_task_job_counts(p.job);
  CHECK_INT_EQ(c.left, 0);
  CHECK_INT_EQ(c.failures, 1);
  drop_job(&p);
  clu_node_free(&dead->node);
  clu_turns_leave(&x.turns, mine);
  down();
}

/* ---- tasks that need the values of others ---- */

#define CHAIN 40000

/* A task without an element that needs the value of another one (may be NULL), begun. */
static clu_task_job *needing(clu_task_job *from) {
  clu_task_spec spec = {.n = 1, .bare = 1};
  clu_task_job *j = clu_task_job_new(x.t, &spec, clu_blob_new(8), NULL);
  REQUIRE(j);
  if (from) REQUIRE(clu_task_job_await_value(j, from) == CLU_OK);
  REQUIRE(clu_task_job_begin(x.t, j) == CLU_OK);
  return j;
}

TEST(a_chain_of_tasks_that_ends_with_its_first_may_be_long) {
  static clu_task_job *j[CHAIN];
  uint64_t failed = 0;
  int mine;
  up_of(0, 1, all_well);
  mine = clu_turns_enter(&x.turns, __builtin_frame_address(0));
  for (int k = 0; k < CHAIN; k++) j[k] = needing(k ? j[k - 1] : NULL);
  clu_task_job_fail_pending(j[0], -1);
  for (int k = 0; k < CHAIN; k++) failed += clu_task_job_counts(j[k]).failures;
  CHECK_INT_EQ(failed, CHAIN);
  CHECK_INT_EQ(clu_engine_open(x.t), 0);
  for (int k = 0; k < CHAIN; k++) clu_task_job_release(j[k]);
  clu_turns_leave(&x.turns, mine);
  down();
}

/* ---- while the owner is elsewhere ---- */

#define SUBMITTED 300

/* By the number of the job. */
static enum deed submitted(uint64_t number, uint32_t attempt) {
  if (number == 100 && attempt == 1) return DIE;
  if (number == 150) return SLOW;
  return number % 7 == 3 ? BIG : WELL;
}

TEST(submitted_tasks_are_done_while_the_owner_is_elsewhere) {
  static plan p[SUBMITTED];
  int mine;
  up(3, submitted);
  mine = clu_turns_enter(&x.turns, __builtin_frame_address(0));
  for (int k = 0; k < SUBMITTED; k++) plan_job(&p[k], 0, 1, 200);
  CHECK_INT_EQ(clu_engine_pass(x.t), CLU_OK);
  clu_turns_leave(&x.turns, mine);
  /* the thread sends, sees the death, and puts the time limit into force */
  CHECK_SOON(atomic_load(&x.done) == SUBMITTED - 1, 20000);
  mine = clu_turns_enter(&x.turns, __builtin_frame_address(0));
  for (int k = 0; k < SUBMITTED; k++) {
    CHECK(run(&p[k], UINT64_MAX));
    CHECK(is_each_once(&p[k]));
    CHECK_INT_EQ(failed_by(&p[k], CLU_END_TIMEOUT), k == 149);
  }
  replace_dead();
  CHECK_INT_EQ(x.deaths, 1);
  for (int k = 0; k < SUBMITTED; k++) drop_job(&p[k]);
  clu_turns_leave(&x.turns, mine);
  down();
}

/* The owner comes and goes: whoever has the turn, each task ends once. */
TEST(owner_and_thread_take_turns) {
  static plan p[SUBMITTED];
  plan map;
  int mine;
  up(3, all_well);
  for (int k = 0; k < SUBMITTED; k++) {
    mine = clu_turns_enter(&x.turns, __builtin_frame_address(0));
    plan_job(&p[k], 0, 1, 0);
    CHECK_INT_EQ(clu_engine_pass(x.t), CLU_OK);
    if (k == SUBMITTED / 2) {
      plan_job(&map, 1000, 0, 0);
      CHECK(run(&map, UINT64_MAX));
      CHECK(is_each_once(&map));
      drop_job(&map);
    }
    clu_turns_leave(&x.turns, mine);
    if (k % 50 == 0) clu_os_pause(5000000);
  }
  mine = clu_turns_enter(&x.turns, __builtin_frame_address(0));
  for (int k = 0; k < SUBMITTED; k++) {
    CHECK(run(&p[k], UINT64_MAX));
    CHECK(is_each_once(&p[k]));
    drop_job(&p[k]);
  }
  clu_turns_leave(&x.turns, mine);
  down();
}

/* By the number of the job. */
static enum deed by_number(uint64_t number, uint32_t attempt) {
  uint64_t h = number * 2654435761u % 1000;
  if (h < 20 && attempt == 1) return DIE;
  if (h >= 20 && h < 30) return SLOW;
  return h < 200 ? WRONG : h < 400 ? BIG : WELL;
}

/* Whatever the owner does in between: each task that it does not give up ends once. */
TEST(owner_and_thread_share_random_work) {
  static plan p[SUBMITTED];
  static int given_up[SUBMITTED];
  unsigned seed = getenv("CLUTCH_SEED") ? (unsigned)atoi(getenv("CLUTCH_SEED")) : 4711;
  int mine, dice;
  up(3, by_number);
  for (int k = 0; k < SUBMITTED; k++) {
    mine = clu_turns_enter(&x.turns, __builtin_frame_address(0));
    plan_job(&p[k], 0, 1, 50);
    dice = rand_r(&seed) % 100;
    if (dice < 60) CHECK_INT_EQ(clu_engine_pass(x.t), CLU_OK);
    if (dice < 30) take(&p[rand_r(&seed) % (k + 1)]);
    if (dice < 20) replace_dead();
    if (dice < 5 && !given_up[k / 2]) {
      take(&p[k / 2]);
      given_up[k / 2] = clu_task_job_cancel(p[k / 2].job);
    }
    clu_turns_leave(&x.turns, mine);
    if (dice > 90) clu_os_pause((rand_r(&seed) % 8) * 1000000);
  }
  mine = clu_turns_enter(&x.turns, __builtin_frame_address(0));
  for (int k = 0; k < SUBMITTED; k++) {
    if (!given_up[k]) {
      CHECK(run(&p[k], UINT64_MAX));
      CHECK(is_each_once(&p[k]));
    }
    drop_job(&p[k]);
  }
  clu_turns_leave(&x.turns, mine);
  down();
}

TEST(nodes_end_that_nobody_needs) {
  int mine;
  size_t n;
  up(2, all_well);
  mine = clu_turns_enter(&x.turns, __builtin_frame_address(0));
  clu_engine_end_idle(x.t, 30000000);
  clu_turns_leave(&x.turns, mine);
  CHECK_SOON(atomic_load(&x.nodes[0]->end) && atomic_load(&x.nodes[1]->end), 5000);
  mine = clu_turns_enter(&x.turns, __builtin_frame_address(0));
  CHECK(clu_engine_was_idle(x.t, 0) && clu_engine_was_idle(x.t, 1));
  CHECK(!clu_engine_has_any(x.t, 0));
  CHECK_INT_EQ(clu_engine_deaths(x.t), 0); /* that is no death */
  CHECK_INT_EQ(clu_engine_notes(x.t, &n)->what, CLU_NOTE_IDLE);
  CHECK_INT_EQ(n, 1);
  CHECK_INT_EQ(clu_engine_attach(x.t, 0, &x.nodes[0]->node), CLU_ATTACH_DEAD);
  clu_engine_end_idle(x.t, 0);
  start(0); /* who needs it gets another */
  CHECK(!clu_engine_was_idle(x.t, 0));
  clu_turns_leave(&x.turns, mine);
  down();
}
