/* The scheduler with stub nodes: what is sent where, and random schedules of work, deaths, births, delays,
 * interrupts that are ignored, and cancels, in virtual time. A failure prints the seed that repeats it. */
// link: -Wl,--wrap=realloc
#include "test.h"

#include "core/sched/scheduler.h"
#include "core/base/err.h"

static clu_action act;
static uint64_t now_ns;
static clu_ended end;

static clu_job *job(clu_sched *e, uint64_t n, uint32_t retries, uint32_t chunk, uint64_t timeout) {
  clu_job_spec s;
  memset(&s, 0, sizeof s);
  s.n = n;
  s.retries = retries;
  s.chunk = chunk;
  s.timeout_ns = timeout;
  return clu_job_new(e, &s);
}

/* One that only these nodes may do, of `nodes`. */
static clu_job *job_for(clu_sched *e, uint64_t n, int nodes, unsigned mask) {
  clu_job_spec s;
  memset(&s, 0, sizeof s);
  s.n = n;
  s.nonly = nodes;
  s.only = calloc((size_t)nodes, 1);
  REQUIRE(s.only);
  for (int i = 0; i < nodes; i++) s.only[i] = mask >> i & 1;
  return clu_job_new(e, &s);
}

void *__real_realloc(void *p, size_t n);
static int no_memory;
void *__wrap_realloc(void *p, size_t n) { return no_memory ? NULL : __real_realloc(p, n); }

static int next_is(clu_sched *e, uint64_t now, int what) {
  clu_sched_next(e, now, &act);
  return act.what == what;
}

/* A send that has to come: to `node`, of `n` elements from `first`. */
static int sends(clu_sched *e, int i, uint64_t first, uint32_t n, uint64_t seq) {
  if (!next_is(e, 0, CLU_ACT_SEND) || act.node != i || act.first != first || act.n != n) return 0;
  return clu_sched_sent(e, &act, seq, 8 * n, 0) == CLU_OK;
}

TEST(one_by_one_with_a_second_one_waiting) {
  clu_sched *e = clu_sched_new(1000);
  clu_claim w[2] = {0, 0};
  clu_job *j = job(e, 6, 0, 1, 0);
  for (int i = 0; i < 2; i++) CHECK_INT_EQ(clu_sched_node_up(e, i, &w[i]), CLU_OK);
  CHECK(sends(e, 0, 0, 1, 1));
  CHECK(sends(e, 1, 1, 1, 1));
  CHECK(sends(e, 0, 2, 1, 2));
  CHECK(sends(e, 1, 3, 1, 2));
  CHECK(next_is(e, 0, CLU_ACT_NONE));
  /* the second node is done with its first, of a second's work, and gets another */
  CHECK(clu_claim_start(&w[1], 1));
  CHECK_INT_EQ(clu_sched_answer(e, 1, 1, 0, 1000000000, 0, &end), 1);
  CHECK(end.why == CLU_END_ANSWER && end.task == 1 && end.node == 1 && end.attempt == 1);
  CHECK(sends(e, 1, 4, 1, 3));
  CHECK(next_is(e, 0, CLU_ACT_NONE));
  CHECK_INT_EQ(clu_job_left(j), 5);
  CHECK_INT_EQ(clu_job_waiting(j), 1);
  clu_sched_free(e);
}

/* Nobody may ask again for long: the session computes. */
TEST(who_has_nothing_to_do_is_served_before_who_has_only_room) {
  clu_sched *e = clu_sched_new(1000);
  clu_claim w[3] = {0, 0, 0};
  for (int i = 0; i < 3; i++) clu_sched_node_up(e, i, &w[i]);
  for (int i = 0; i < 3; i++) { /* jobs that come one after the other, none of them begun */
    job(e, 1, 0, 0, 0);
    CHECK(sends(e, i, 0, 1, 1));
  }
  /* the one that was first to be idle again, and one that is new */
  for (int i = 0; i < 3; i++) CHECK(clu_claim_start(&w[i], 1));
  CHECK_INT_EQ(clu_sched_answer(e, 2, 1, 0, 5000, 0, &end), 1);
  CHECK_INT_EQ(clu_sched_answer(e, 1, 1, 0, 5000, 0, &end), 1);
  clu_sched_node_lost(e, 0, 1, 0);
  while (clu_sched_ended(e, &end)) continue;
  clu_sched_node_up(e, 0, &w[0]);
  job(e, 3, 0, 1, 0);
  CHECK(sends(e, 2, 0, 1, 2) && sends(e, 1, 1, 1, 2) && sends(e, 0, 2, 1, 2));
  clu_sched_free(e);
}

TEST(who_has_nothing_to_do_gets_what_waits_elsewhere) {
  clu_sched *e = clu_sched_new(1000);
  clu_claim w[2] = {0, 0};
  job(e, 4, 0, 0, 0);
  clu_sched_node_up(e, 0, &w[0]);
  CHECK(sends(e, 0, 0, 1, 1) && sends(e, 0, 1, 1, 2));
  clu_sched_node_up(e, 1, &w[1]);
  CHECK(sends(e, 1, 2, 1, 1) && sends(e, 1, 3, 1, 2));
  CHECK(clu_claim_start(&w[0], 1)); /* a long one */
  for (uint64_t s = 1; s <= 2; s++) {
    CHECK(clu_claim_start(&w[1], s));
    CHECK_INT_EQ(clu_sched_answer(e, 1, s, 0, 5000, 0, &end), 1);
  }
  CHECK(sends(e, 1, 1, 1, 3)); /* the other's second */
  CHECK(!clu_claim_start(&w[0], 2)); /* which that one may not start any more */
  CHECK(clu_claim_start(&w[1], 3));
  CHECK_INT_EQ(clu_sched_answer(e, 1, 3, 0, 5000, 0, &end), 1);
  CHECK_INT_EQ(end.task, 1);
  CHECK(next_is(e, 0, CLU_ACT_NONE));
  CHECK_INT_EQ(clu_sched_answer(e, 0, 1, 0, 5000, 0, &end), 1);
  clu_sched_free(e);
}

TEST(quick_elements_leave_together_slow_ones_do_not) {
  for (int slow = 0; slow < 2; slow++) {
    clu_sched *e = clu_sched_new(1000);
    clu_claim w = 0;
    job(e, 100000, 0, 0, 0);
    clu_sched_node_up(e, 0, &w);
    CHECK(sends(e, 0, 0, 1, 1));
    CHECK_INT_EQ(clu_sched_answer(e, 0, 1, 0, slow ? 10000000 : 1000, 0, &end), 1);
    CHECK(next_is(e, 0, CLU_ACT_SEND));
    CHECK_INT_EQ(act.n, slow ? 1 : CLU_AHEAD / 2 / 1000);
    clu_sched_free(e);
  }
}

TEST(large_elements_leave_alone) {
  clu_sched *e = clu_sched_new(1000);
  clu_claim w = 0;
  job(e, 100000, 0, 0, 0);
  clu_sched_node_up(e, 0, &w);
  CHECK(next_is(e, 0, CLU_ACT_SEND));
  CHECK_INT_EQ(clu_sched_sent(e, &act, 1, 10000000, 0), CLU_OK);
  CHECK_INT_EQ(clu_sched_answer(e, 0, 1, 0, 1000, 0, &end), 1);
  CHECK(next_is(e, 0, CLU_ACT_SEND));
  CHECK_INT_EQ(act.n, 1);
  clu_sched_free(e);
}

TEST(without_retries_what_was_started_dies_and_what_was_not_goes_on) {
  clu_sched *e = clu_sched_new(1000);
  clu_claim w[2] = {0, 0};
  clu_job *j = job(e, 2, 0, 1, 0);
  clu_sched_node_up(e, 0, &w[0]);
  CHECK(sends(e, 0, 0, 1, 1) && sends(e, 0, 1, 1, 2));
  CHECK(clu_claim_start(&w[0], 1));
  clu_sched_node_lost(e, 0, 77, 1);
  CHECK_INT_EQ(clu_sched_ended(e, &end), 1);
  CHECK(end.why == CLU_END_DIED && end.task == 0 && end.cause == 77 && end.attempt == 1 && end.node == 0);
  CHECK_INT_EQ(clu_sched_ended(e, &end), 0);
  CHECK_INT_EQ(clu_job_left(j), 1);
  clu_sched_node_up(e, 1, &w[1]);
  CHECK(sends(e, 1, 1, 1, 1));
  CHECK_INT_EQ(act.attempt, 1);
  clu_sched_free(e);
}

TEST(what_a_node_that_is_over_had_started_is_known_when_the_memory_has_gone) {
  clu_sched *e = clu_sched_new(1000);
  clu_claim *w = malloc(sizeof *w);
  clu_job *j = job(e, 3, 0, 1, 0);
  REQUIRE(w);
  *w = 0;
  clu_sched_node_up(e, 0, w);
  CHECK(sends(e, 0, 0, 1, 1) && sends(e, 0, 1, 1, 2));
  CHECK(clu_claim_start(w, 1));
  clu_sched_node_closed(e, 0);
  CHECK(!clu_claim_start(w, 2)); /* it may still be running for a moment */
  free(w);
  CHECK(next_is(e, 0, CLU_ACT_NONE));
  clu_job_cancel(e, job(e, 1, 0, 1, 0), 5);
  clu_sched_node_lost(e, 0, 77, 1);
  CHECK_INT_EQ(clu_sched_ended(e, &end), 1);
  CHECK(end.why == CLU_END_DIED && end.task == 0);
  CHECK_INT_EQ(clu_sched_ended(e, &end), 0);
  CHECK_INT_EQ(clu_job_left(j), 2);
  clu_sched_free(e);
}

TEST(the_task_to_be_answered_next_is_the_head) {
  clu_sched *e = clu_sched_new(1000);
  clu_claim w = 0;
  job(e, 5, 0, 1, 0);
  clu_sched_node_up(e, 0, &w);
  CHECK_INT_EQ(clu_sched_node_head(e, 0), 0);
  CHECK(sends(e, 0, 0, 1, 7) && sends(e, 0, 1, 1, 8));
  CHECK_INT_EQ(clu_sched_node_head(e, 0), 7);
  CHECK(clu_claim_start(&w, 7));
  CHECK_INT_EQ(clu_sched_answer(e, 0, 7, 0, 1000, 10, &end), 1);
  CHECK_INT_EQ(clu_sched_node_head(e, 0), 8);
  clu_sched_node_lost(e, 0, 0, 1);
  CHECK_INT_EQ(clu_sched_node_head(e, 0), 0);
  clu_sched_free(e);
}

TEST(a_retry_goes_to_another_node_where_there_is_one) {
  clu_sched *e = clu_sched_new(1000);
  clu_claim w[2] = {0, 0};
  clu_job *j = job(e, 1, 1, 0, 0);
  clu_sched_node_up(e, 0, &w[0]);
  clu_sched_node_up(e, 1, &w[1]);
  CHECK(sends(e, 0, 0, 1, 1));
  CHECK(clu_claim_start(&w[0], 1));
  clu_sched_node_lost(e, 0, 0, 1);
  w[0] = 0;
  clu_sched_node_up(e, 0, &w[0]);
  clu_sched_node_drain(e, 1, 1);
  CHECK(next_is(e, 0, CLU_ACT_NONE)); /* the other one is there, but not ready */
  clu_sched_node_drain(e, 1, 0);
  CHECK(sends(e, 1, 0, 1, 1));
  CHECK_INT_EQ(act.attempt, 2);
  CHECK(clu_claim_start(&w[1], 1));
  clu_sched_node_lost(e, 1, 5, 1);
  CHECK_INT_EQ(clu_sched_ended(e, &end), 1);
  CHECK(end.why == CLU_END_DIED && end.attempt == 2 && end.cause == 5 && end.node == 1);
  CHECK_INT_EQ(clu_job_left(j), 0);
  clu_sched_free(e);
}

TEST(the_only_node_gets_its_retry_back) {
  clu_sched *e = clu_sched_new(1000);
  clu_claim w = 0;
  job(e, 1, 1, 0, 0);
  clu_sched_node_up(e, 0, &w);
  CHECK(sends(e, 0, 0, 1, 1));
  CHECK(clu_claim_start(&w, 1));
  clu_sched_node_lost(e, 0, 0, 1);
  w = 0;
  clu_sched_node_up(e, 0, &w);
  CHECK(sends(e, 0, 0, 1, 1));
  clu_sched_free(e);
}

TEST(a_death_that_is_not_to_be_repeated_is_final) {
  clu_sched *e = clu_sched_new(1000);
  clu_claim w = 0;
  job(e, 1, 9, 0, 0);
  clu_sched_node_up(e, 0, &w);
  CHECK(sends(e, 0, 0, 1, 1));
  CHECK(clu_claim_start(&w, 1));
  clu_sched_node_lost(e, 0, 3, 0);
  CHECK_INT_EQ(clu_sched_ended(e, &end), 1);
  CHECK_INT_EQ(end.why, CLU_END_DIED);
  clu_sched_free(e);
}

TEST(a_node_without_a_claim_word_has_one_unit_at_a_time_all_of_which_has_begun) {
  clu_sched *e = clu_sched_new(1000);
  clu_job *j = job(e, 6, 0, 2, 0);
  int died = 0;
  clu_sched_node_up(e, 0, NULL);
  CHECK(sends(e, 0, 0, 2, 1));
  CHECK(next_is(e, 0, CLU_ACT_NONE));
  CHECK_INT_EQ(clu_sched_answer(e, 0, 1, 0, 1000, 5, &end), 1);
  CHECK(next_is(e, 5, CLU_ACT_NONE));
  CHECK_INT_EQ(clu_sched_answer(e, 0, 2, 0, 1000, 9, &end), 1);
  CHECK(sends(e, 0, 2, 2, 3));
  clu_sched_node_lost(e, 0, 0, 1);
  while (clu_sched_ended(e, &end)) died++;
  CHECK_INT_EQ(died, 2);
  CHECK_INT_EQ(clu_job_waiting(j), 2);
  clu_sched_free(e);
}

TEST(time_up_means_interrupt_then_kill_and_only_that_element_ends) {
  clu_sched *e = clu_sched_new(50);
  clu_claim w = 0;
  clu_job *j = job(e, 3, 2, 1, 100);
  clu_sched_node_up(e, 0, &w);
  CHECK(sends(e, 0, 0, 1, 1) && sends(e, 0, 1, 1, 2));
  CHECK(clu_claim_start(&w, 1));
  CHECK_INT_EQ(clu_sched_deadline(e), 100);
  CHECK(next_is(e, 99, CLU_ACT_NONE));
  CHECK(next_is(e, 100, CLU_ACT_INTERRUPT));
  CHECK_INT_EQ(act.seq, 1);
  CHECK(next_is(e, 120, CLU_ACT_NONE)); /* nothing new for a node that may be stuck */
  CHECK_INT_EQ(clu_sched_answer(e, 0, 1, 1, 1, 130, &end), 1);
  CHECK(end.why == CLU_END_TIMEOUT && end.task == 0);
  CHECK(next_is(e, 130, CLU_ACT_SEND));
  CHECK_INT_EQ(act.first, 1); /* it had been taken back */
  CHECK_INT_EQ(clu_sched_sent(e, &act, 3, 8, 130), CLU_OK);
  CHECK(clu_claim_start(&w, 3));
  CHECK(next_is(e, 140, CLU_ACT_SEND));
  clu_sched_unsent(e, &act);
  CHECK(next_is(e, 230, CLU_ACT_INTERRUPT));
  CHECK(next_is(e, 280, CLU_ACT_KILL));
  clu_sched_node_lost(e, 0, 0, 1);
  CHECK_INT_EQ(clu_sched_ended(e, &end), 1);
  CHECK(end.why == CLU_END_TIMEOUT && end.task == 1);
  CHECK_INT_EQ(clu_job_left(j), 1);
  clu_sched_free(e);
}

TEST(what_was_not_started_does_not_run_out_of_time) {
  clu_sched *e = clu_sched_new(50);
  clu_claim w = 0;
  job(e, 1, 0, 1, 100);
  clu_sched_node_up(e, 0, &w); /* and does something else all the time */
  CHECK(sends(e, 0, 0, 1, 1));
  for (uint64_t t = 0; t < 1000; t++) CHECK(next_is(e, t, CLU_ACT_NONE));
  CHECK(clu_claim_start(&w, 1));
  for (uint64_t t = 1000; t < 1080; t++) CHECK(next_is(e, t, CLU_ACT_NONE));
  while (!next_is(e, now_ns, CLU_ACT_INTERRUPT) && now_ns < 2000) now_ns++;
  CHECK(now_ns >= 1000 && now_ns <= 1110);
  clu_sched_free(e);
}

TEST(a_cancelled_job_leaves_its_runner_to_be_interrupted) {
  clu_sched *e = clu_sched_new(50);
  clu_claim w = 0;
  clu_job *a = job(e, 5, 0, 1, 0), *b;
  uint32_t unwanted;
  clu_sched_node_up(e, 0, &w);
  CHECK(sends(e, 0, 0, 1, 1) && sends(e, 0, 1, 1, 2));
  CHECK(clu_claim_start(&w, 1));
  clu_job_cancel(e, a, 10);
  CHECK_INT_EQ(clu_job_left(a), 0);
  CHECK_INT_EQ(clu_sched_node_tasks(e, 0, &unwanted), 1);
  CHECK_INT_EQ(unwanted, 1);
  b = job(e, 1, 0, 1, 0);
  CHECK(next_is(e, 10, CLU_ACT_INTERRUPT));
  CHECK(next_is(e, 10, CLU_ACT_NONE));
  CHECK_INT_EQ(clu_sched_answer(e, 0, 1, 1, 1, 20, &end), 0); /* nobody's */
  CHECK(next_is(e, 20, CLU_ACT_SEND));
  CHECK(act.job == b);
  clu_sched_unsent(e, &act);
  CHECK_INT_EQ(clu_sched_ended(e, &end), 0);
  clu_job_free(e, a, 20);
  clu_sched_free(e);
}

TEST(jobs_are_served_in_their_order_also_after_a_return) {
  clu_sched *e = clu_sched_new(50);
  clu_claim w = 0;
  clu_job *a = job(e, 1, 1, 1, 0), *b = job(e, 3, 1, 1, 0);
  clu_sched_node_up(e, 0, &w);
  CHECK(sends(e, 0, 0, 1, 1) && act.job == a);
  CHECK(sends(e, 0, 0, 1, 2) && act.job == b);
  clu_sched_node_lost(e, 0, 0, 1); /* neither was started */
  w = 0;
  clu_sched_node_up(e, 0, &w);
  CHECK(sends(e, 0, 0, 1, 1));
  CHECK(act.job == a && act.attempt == 1);
  clu_sched_free(e);
}

TEST(without_nodes_what_waits_can_be_ended) {
  clu_sched *e = clu_sched_new(50);
  clu_job *j = job(e, 3, 1, 1, 0);
  int n = 0;
  clu_job_fail_pending(e, j, 9);
  while (clu_sched_ended(e, &end)) n += end.why == CLU_END_DIED && end.cause == 9 && end.attempt == 0;
  CHECK_INT_EQ(n, 3);
  CHECK_INT_EQ(clu_job_left(j), 0);
  clu_sched_free(e);
}

TEST(an_answer_out_of_turn_is_noticed) {
  clu_sched *e = clu_sched_new(50);
  clu_claim w = 0;
  job(e, 3, 1, 1, 0);
  clu_sched_node_up(e, 0, &w);
  CHECK_INT_EQ(clu_sched_answer(e, 0, 1, 0, 1, 0, &end), -1);
  CHECK(sends(e, 0, 0, 1, 7));
  CHECK_INT_EQ(clu_sched_answer(e, 0, 8, 0, 1, 0, &end), -1);
  CHECK_INT_EQ(clu_sched_answer(e, 3, 7, 0, 1, 0, &end), -1);
  CHECK_INT_EQ(clu_sched_answer(e, 0, 7, 0, 1, 0, &end), 1);
  clu_sched_free(e);
}

TEST(a_node_is_served_however_many_jobs_wait_for_another) {
  clu_sched *e = clu_sched_new(1000);
  clu_claim w[2] = {0, 0};
  clu_job *late;
  for (int i = 0; i < 2; i++) clu_sched_node_up(e, i, &w[i]);
  for (int k = 0; k < 40; k++) job_for(e, 1, 2, 1);
  late = job_for(e, 1, 2, 2);
  CHECK(sends(e, 0, 0, 1, 1));
  CHECK(sends(e, 1, 0, 1, 1) && act.job == late);
  CHECK(sends(e, 0, 0, 1, 2));
  late = job(e, 1, 0, 0, 0); /* the first that any node may do */
  CHECK(sends(e, 1, 0, 1, 2) && act.job == late);
  CHECK(next_is(e, 0, CLU_ACT_NONE));
  clu_sched_free(e);
}

TEST(of_several_kinds_of_jobs_the_oldest_comes_first) {
  clu_sched *e = clu_sched_new(1000);
  clu_claim w[2] = {0, 0};
  clu_job *a = job(e, 1, 0, 0, 0), *b = job_for(e, 1, 2, 1), *c = job(e, 1, 0, 0, 0);
  clu_sched_node_up(e, 0, &w[0]);
  CHECK(sends(e, 0, 0, 1, 1) && act.job == a);
  CHECK(sends(e, 0, 0, 1, 2) && act.job == b);
  clu_sched_node_up(e, 1, &w[1]);
  CHECK(sends(e, 1, 0, 1, 1) && act.job == c);
  clu_sched_free(e);
}

TEST(who_has_nothing_to_do_is_helped_also_while_a_job_waits_for_others) {
  clu_sched *e = clu_sched_new(1000);
  clu_claim w[3] = {0, 0, 0};
  clu_job *j = job(e, 4, 0, 1, 0);
  for (int i = 0; i < 2; i++) clu_sched_node_up(e, i, &w[i]);
  CHECK(sends(e, 0, 0, 1, 1) && sends(e, 1, 1, 1, 1) && sends(e, 0, 2, 1, 2) && sends(e, 1, 3, 1, 2));
  for (int i = 0; i < 2; i++) CHECK(clu_claim_start(&w[i], 1)); /* long ones */
  job_for(e, 1, 3, 1);                                          /* waits for the first node */
  CHECK(next_is(e, 0, CLU_ACT_NONE));
  clu_sched_node_up(e, 2, &w[2]);
  CHECK(next_is(e, 0, CLU_ACT_SEND) && act.node == 2 && act.job == j);
  CHECK_INT_EQ(clu_sched_sent(e, &act, 1, 8, 0), CLU_OK);
  clu_sched_free(e);
}

TEST(who_may_not_do_what_waits_elsewhere_does_not_keep_the_next_from_it) {
  clu_sched *e = clu_sched_new(1000);
  clu_claim w[3] = {0, 0, 0};
  clu_job *j = job_for(e, 2, 3, 1 + 4);
  clu_sched_node_up(e, 0, &w[0]);
  CHECK(sends(e, 0, 0, 1, 1) && sends(e, 0, 1, 1, 2));
  CHECK(clu_claim_start(&w[0], 1));
  clu_sched_node_up(e, 1, &w[1]); /* may not, and is idle for longer */
  CHECK(next_is(e, 0, CLU_ACT_NONE));
  clu_sched_node_up(e, 2, &w[2]);
  CHECK(sends(e, 2, 1, 1, 1) && act.job == j);
  clu_sched_free(e);
}

TEST(a_retry_that_must_not_go_back_is_not_taken_from_its_node_for_that) {
  clu_sched *e = clu_sched_new(1000);
  clu_claim w[2] = {0, 0};
  clu_job *j = job(e, 1, 2, 1, 0);
  for (int i = 0; i < 2; i++) clu_sched_node_up(e, i, &w[i]);
  CHECK(sends(e, 0, 0, 1, 1));
  CHECK(clu_claim_start(&w[0], 1));
  job_for(e, 1, 2, 2);
  CHECK(sends(e, 1, 0, 1, 1));
  CHECK(clu_claim_start(&w[1], 1));
  clu_sched_node_lost(e, 0, 0, 1);
  CHECK(sends(e, 1, 0, 1, 2) && act.job == j); /* behind the other's */
  w[0] = 0;
  clu_sched_node_up(e, 0, &w[0]);
  CHECK(next_is(e, 0, CLU_ACT_NONE));
  clu_sched_free(e);
}

/* R code runs while elements are serialized: anything may have been given up meanwhile. */
TEST(what_is_on_its_way_holds_its_job) {
  for (int sent = 0; sent < 2; sent++)
    for (int before = 0; before < 2; before++) { /* how many were sent before: the job goes with the last */
      clu_sched *e = clu_sched_new(1000);
      clu_claim w = 0;
      clu_job *j = job(e, 3, 1, 1, 0);
      uint32_t unwanted = 0;
      clu_sched_node_up(e, 0, &w);
      if (before) CHECK(sends(e, 0, 0, 1, 1));
      CHECK(next_is(e, 0, CLU_ACT_SEND) && act.job == j);
      clu_job_free(e, j, 5);
      if (sent) {
        CHECK_INT_EQ(clu_sched_sent(e, &act, 1 + (uint64_t)before, 8, 6), CLU_OK);
        CHECK_INT_EQ(clu_sched_node_tasks(e, 0, &unwanted), 0); /* not begun: it was taken back */
      } else {
        clu_sched_unsent(e, &act);
      }
      while (next_is(e, 7, CLU_ACT_INTERRUPT)) continue;
      CHECK_INT_EQ(act.what, CLU_ACT_NONE);
      CHECK_INT_EQ(clu_sched_ended(e, &end), 0);
      clu_sched_free(e);
    }
}

TEST(an_ending_that_cannot_be_told_of_is_not_silent) {
  clu_sched *e = clu_sched_new(1000);
  clu_claim w = 0;
  clu_job *j = job(e, 1, 0, 1, 0);
  clu_sched_node_up(e, 0, &w);
  CHECK(sends(e, 0, 0, 1, 1));
  CHECK(clu_claim_start(&w, 1));
  no_memory = 1;
  clu_sched_node_lost(e, 0, 3, 1);
  no_memory = 0;
  CHECK_INT_EQ(clu_sched_ended(e, &end), 0);
  CHECK_INT_EQ(clu_job_left(j), 0);
  CHECK_INT_EQ(clu_job_out_of_memory(j), 1);
  clu_sched_free(e);
}

TEST(a_death_says_whether_anything_had_begun) {
  clu_sched *e = clu_sched_new(1000);
  clu_claim w = 0;
  job(e, 9, 9, 1, 0);
  clu_sched_node_up(e, 0, &w);
  CHECK_INT_EQ(clu_sched_node_lost(e, 0, 0, 1), 0);
  clu_sched_node_up(e, 0, &w);
  CHECK(sends(e, 0, 0, 1, 1));
  CHECK_INT_EQ(clu_sched_node_lost(e, 0, 0, 1), 0); /* it was sent something and did not begin it */
  w = 0;
  clu_sched_node_up(e, 0, &w);
  CHECK(sends(e, 0, 0, 1, 1));
  CHECK(clu_claim_start(&w, 1));
  CHECK_INT_EQ(clu_sched_node_lost(e, 0, 0, 1), 1);
  w = 0;
  clu_sched_node_up(e, 0, &w);
  CHECK(next_is(e, 0, CLU_ACT_SEND));
  CHECK_INT_EQ(clu_sched_sent(e, &act, 1, 8, 0), CLU_OK);
  CHECK(clu_claim_start(&w, 1));
  CHECK_INT_EQ(clu_sched_answer(e, 0, 1, 0, 5, 0, &end), 1);
  CHECK_INT_EQ(clu_sched_node_lost(e, 0, 0, 1), 1);
  CHECK_INT_EQ(clu_sched_node_lost(e, 0, 0, 1), 0);
  clu_sched_free(e);
}

TEST(a_deadline_that_has_passed_is_not_waited_for) {
  clu_sched *e = clu_sched_new(50);
  clu_claim w = 0;
  job(e, 1, 0, 1, 100);
  CHECK(clu_sched_wait(e, 7, 1000) == 1000);
  clu_sched_node_up(e, 0, &w);
  CHECK(sends(e, 0, 0, 1, 1));
  CHECK(clu_sched_wait(e, 40, 1000) == 60);
  CHECK(clu_sched_wait(e, 40, 10) == 10);
  CHECK(clu_sched_wait(e, 100, 1000) == 0);
  CHECK(clu_sched_wait(e, 101, 1000) == 0);
  clu_sched_free(e);
}

TEST(tasks_that_a_node_has_to_answer_are_known) {
  clu_sched *e = clu_sched_new(50);
  clu_claim w = 0;
  job(e, 2, 0, 1, 0);
  clu_sched_node_up(e, 0, &w);
  CHECK(!clu_sched_node_has(e, 0, 0) && !clu_sched_node_has(e, 0, 1) && !clu_sched_node_has(e, 5, 1));
  CHECK(sends(e, 0, 0, 1, 7) && sends(e, 0, 1, 1, 8));
  CHECK(!clu_sched_node_has(e, 0, 6) && clu_sched_node_has(e, 0, 7) && clu_sched_node_has(e, 0, 8) && !clu_sched_node_has(e, 0, 9));
  clu_sched_free(e);
}

/* ---- random schedules ---- */

static uint64_t dice_state;
static uint64_t dice(uint64_t n) { /* xorshift64* (Vigna 2016) */
  dice_state ^= dice_state >> 12;
  dice_state ^= dice_state << 25;
  dice_state ^= dice_state >> 27;
  return (dice_state * 2685821657736338717ull >> 11) % n;
}

enum { JOBS = 40, QUEUE = 4096 };

typedef struct piece {
  int job;
  uint64_t element, seq;
  uint32_t attempt;
} piece;

typedef struct stub {
  int up, running, deaf; /* deaf: ignores interrupts */
  int knows;             /* has a claim word */
  clu_claim claim;
  uint64_t seq;
  piece *q;
  uint32_t head, len;
  piece now;
  struct { piece p; int given_up; } out; /* an answer on its way */
  int answered;
} stub;

typedef struct work {
  clu_job *job;
  int owner;
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
static uint64_t elements_ended;
static clu_sched *eng;

/* Whether the promises have held so far. */
static int broken;
static int holds(int ok) {
  broken |= !ok;
  return ok;
}

static void ended_once(const clu_ended *x) {
  work *w = &works[*(int *)x->user];
  CHECK(holds(!w->cancelled));
  CHECK(holds((++w->ends[x->task]) == 1));
  elements_ended++;
}

static void drain(void) {
  clu_ended x;
  while (clu_sched_ended(eng, &x)) ended_once(&x);
}

static void deliver(int i) {
  stub *s = &stubs[i];
  clu_ended x;
  int rc;
  if (!s->answered) return;
  s->answered = 0;
  rc = clu_sched_answer(eng, i, s->out.p.seq, s->out.given_up, 1 + dice(100000), now_ns, &x);
  CHECK(holds(rc >= 0));
  if (rc == 1) ended_once(&x);
  CHECK(holds((rc == 0) == works[s->out.p.job].cancelled));
}

static void stub_dies(int i) {
  stub *s = &stubs[i];
  int lost = !s->knows && dice(2);
  if (!s->up) return;
  if (!lost) deliver(i); /* what it had written is read before its end is noticed */
  clu_sched_node_lost(eng, i, 1, 1);
  s->up = s->running = s->answered = 0;
  s->len = 0;
  drain();
}

static void stub_rises(int i) {
  stub *s = &stubs[i];
  if (s->up) return;
  s->up = 1;
  s->seq = 0;
  s->claim = 0;
  CHECK(holds((clu_sched_node_up(eng, i, s->knows ? &s->claim : NULL)) == CLU_OK));
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
    CHECK(holds(++w->starts[p.element] <= w->retries + 1));
    CHECK(holds(p.attempt <= w->retries + 1));
    w->last[p.element] = i;
    return;
  }
}

static void do_next(void) {
  clu_action a;
  stub *s;
  clu_sched_next(eng, now_ns, &a);
  drain();
  if (a.what == CLU_ACT_NONE) return;
  s = &stubs[a.node];
  CHECK(holds(s->up));
  if (a.what == CLU_ACT_SEND) {
    int w = *(int *)a.user;
    CHECK(holds(!works[w].cancelled));
    CHECK(holds(!works[w].only || works[w].only[a.node]));
    if (dice(500) == 0) { /* it is given up while it is on its way */
      clu_job_cancel(eng, works[w].job, now_ns);
      works[w].cancelled = 1;
      drain();
    }
    if (dice(50) == 0) {
      clu_sched_unsent(eng, &a);
      return;
    }
    s->seq += dice(3); /* calls in between have numbers, too */
    CHECK(holds(s->len + a.n < QUEUE));
    for (uint32_t k = 0; k < a.n && s->len < QUEUE; k++) {
      piece *p = &s->q[(s->head + s->len++) % QUEUE];
      p->job = w;
      p->element = a.first + k;
      p->seq = s->seq + 1 + k;
      p->attempt = a.attempt;
    }
    CHECK(holds((clu_sched_sent(eng, &a, s->seq + 1, a.n * 8, now_ns)) == CLU_OK));
    s->seq += a.n;
  } else if (a.what == CLU_ACT_INTERRUPT) {
    if (s->running && s->now.seq == a.seq && !s->deaf) {
      s->running = 0;
      s->answered = 1;
      s->out.p = s->now;
      s->out.given_up = 1;
    }
  } else {
    stub_dies(a.node);
  }
}

static void add_work(void) {
  clu_job_spec spec;
  work *w = &works[n_works];
  static int owners[JOBS];
  memset(&spec, 0, sizeof spec);
  owners[n_works] = n_works;
  spec.n = dice(4) == 0 ? 1 : dice(2000);
  spec.retries = (uint32_t)dice(3);
  spec.chunk = dice(3) == 0 ? 1 + (uint32_t)dice(20) : 0;
  spec.timeout_ns = dice(3) == 0 ? 1 + dice(200000) : 0;
  spec.user = &owners[n_works];
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
  w->job = clu_job_new(eng, &spec);
  n_works++;
}

static int all_over(void) {
  for (int k = 0; k < n_works; k++)
    if (clu_job_left(works[k].job)) return 0;
  return 1;
}

static void simulate(uint64_t seed, int nodes, long steps) {
  long guard = 0;
  dice_state = seed * 2 + 1;
  for (int k = 0; k < 10; k++) dice(2);
  n_stubs = nodes;
  n_works = 0;
  now_ns = 1;
  stubs = calloc((size_t)nodes, sizeof *stubs);
  eng = clu_sched_new(5000);
  for (int i = 0; i < nodes; i++) {
    stubs[i].knows = dice(4) != 0;
    stubs[i].q = calloc(QUEUE, sizeof(piece));
    stub_rises(i);
  }
  for (long k = 0; k < steps && !broken; k++) {
    uint64_t what = dice(1000);
    int i = (int)dice((uint64_t)nodes);
    if (what < 420) do_next();
    else if (what < 700) stub_works(i);
    else if (what < 970) deliver(i);
    else if (what < 975) stub_dies(i);
    else if (what < 985) stub_rises(i);
    else if (what < 995) now_ns += dice(20000);
    else if (what < 999 && n_works < JOBS) add_work();
    else if (n_works && dice(10) == 0) {
      work *w = &works[dice((uint64_t)n_works)];
      clu_job_cancel(eng, w->job, now_ns);
      w->cancelled = 1;
      drain();
    }
  }
  /* from now on nobody dies but those that are killed: all has to come to an end */
  while (!all_over() && guard++ < 3000000 && !broken) {
    int i = (int)dice((uint64_t)nodes);
    stub_rises(i);
    do_next();
    do_next();
    stub_works(i);
    deliver((int)dice((uint64_t)nodes));
    now_ns += dice(200);
  }
  drain();
  CHECK(holds(all_over()));
  for (int k = 0; k < n_works; k++) {
    work *w = &works[k];
    if (!w->cancelled)
      for (uint64_t x = 0; x < w->n; x++)
        if (w->ends[x] != 1) {
          CHECK(holds((w->ends[x]) == 1));
          break;
        }
    clu_job_free(eng, w->job, now_ns);
    free(w->only);
    free(w->starts);
    free(w->ends);
    free(w->last);
  }
  clu_sched_free(eng);
  for (int i = 0; i < nodes; i++) free(stubs[i].q);
  free(stubs);
  if (broken) fprintf(stderr, "  seed %llu, %d nodes, %ld steps\n", (unsigned long long)seed, nodes, steps);
}

TEST(no_element_is_lost_or_done_twice_whatever_happens) {
  const char *seed = getenv("CLUTCH_SEED"), *steps = getenv("CLUTCH_STEPS");
  long each = steps ? atol(steps) / 50 : TEST_SANITIZED ? 5000 : 20000;
  broken = 0;
  if (seed) {
    simulate(strtoull(seed, NULL, 10), 3, each);
    return;
  }
  for (uint64_t s = 1; s <= 50 && !broken; s++)
    simulate(s, s % 7 == 0 ? 1 : s % 5 == 0 ? 40 : 1 + (int)(s % 4), each);
}

TEST(ten_thousand_nodes) {
  broken = 0;
  simulate(4711, 10000, TEST_SANITIZED ? 20000 : 200000);
}

