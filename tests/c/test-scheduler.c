/* The scheduler with stub nodes: what is sent where, and how much of it. */
#include "test.h"

#include "scheduler-fixture.h"

TEST(one_by_one_with_a_second_one_waiting) {
  clu_sched *s = clu_sched_new(1000);
  clu_claim w[2] = {0, 0};
  clu_job *j = job(s, 6, 0, 1, 0);
  for (int i = 0; i < 2; i++) CHECK_INT_EQ(clu_sched_node_up(s, i, &w[i]), CLU_OK);
  CHECK(sends(s, 0, 0, 1, 1));
  CHECK(sends(s, 1, 1, 1, 1));
  CHECK(sends(s, 0, 2, 1, 2));
  CHECK(sends(s, 1, 3, 1, 2));
  CHECK(next_is(s, 0, CLU_ACT_NONE));
  /* the second node is done with its first, of a second's work, and gets another */
  CHECK(clu_claim_start(&w[1], 1));
  CHECK_INT_EQ(clu_sched_answer(s, 1, 1, 0, 1000000000, 0, &end), 1);
  CHECK(end.why == CLU_END_ANSWER && end.task == 1 && end.node == 1 && end.attempt == 1);
  CHECK(sends(s, 1, 4, 1, 3));
  CHECK(next_is(s, 0, CLU_ACT_NONE));
  CHECK_INT_EQ(clu_job_left(j), 5);
  CHECK_INT_EQ(clu_job_waiting(j), 1);
  clu_sched_free(s);
}

TEST(tasks_that_have_to_wait_do_not_keep_other_jobs_from_theirs) {
  clu_sched *s = clu_sched_new(1000);
  clu_claim w = 0;
  clu_job *held = job(s, 3, 0, 1, 0), *other = job(s, 1, 0, 1, 0);
  clu_job_until(s, held, 1);
  clu_sched_node_up(s, 0, &w);
  CHECK(sends(s, 0, 0, 1, 1) && act.job == held);
  CHECK(sends(s, 0, 0, 1, 2) && act.job == other);
  CHECK(clu_claim_start(&w, 1) && clu_claim_start(&w, 2));
  CHECK_INT_EQ(clu_sched_answer(s, 0, 1, 0, 5000, 0, &end), 1);
  CHECK(next_is(s, 0, CLU_ACT_NONE));
  CHECK_INT_EQ(clu_sched_wanted(s), 0);
  CHECK(clu_sched_desired(s, 0, 1) == 0);
  clu_job_until(s, held, UINT64_MAX);
  CHECK(sends(s, 0, 1, 1, 3) && act.job == held);
  /* what waits ends when its nodes are gone for good, whether it might have left or not */
  clu_job_until(s, held, 0);
  clu_job_fail_pending(s, held, 7);
  CHECK(clu_sched_ended(s, &end) && end.task == 2 && end.cause == 7);
  CHECK_INT_EQ(clu_job_left(held), 1);
  clu_sched_free(s);
}

static clu_job *prior_job(clu_sched *s, int priority) {
  clu_job_spec spec;
  memset(&spec, 0, sizeof spec);
  spec.n = 1;
  spec.priority = priority;
  return clu_job_new(s, &spec);
}

TEST(jobs_leave_by_priority_and_then_in_their_order) {
  clu_sched *s = clu_sched_new(1000);
  clu_claim w = 0;
  clu_job *first = prior_job(s, 0), *second = prior_job(s, 0), *low = prior_job(s, -1), *high;
  clu_sched_node_up(s, 0, &w);
  CHECK(sends(s, 0, 0, 1, 1) && act.job == first);
  CHECK(clu_claim_start(&w, 1));
  CHECK(sends(s, 0, 0, 1, 2) && act.job == second);
  high = prior_job(s, 2); /* takes the place of the one that waits at the node */
  CHECK(sends(s, 0, 0, 1, 3) && act.job == high);
  CHECK(clu_claim_start(&w, 3));
  CHECK_INT_EQ(clu_sched_answer(s, 0, 1, 0, 1000000000, 0, &end), 1);
  CHECK(sends(s, 0, 0, 1, 4) && act.job == second);
  CHECK(clu_claim_start(&w, 4));
  CHECK_INT_EQ(clu_sched_answer(s, 0, 3, 0, 1000000000, 0, &end), 1);
  CHECK(sends(s, 0, 0, 1, 5) && act.job == low);
  clu_sched_free(s);
}

/* Nobody may ask again for long: the session computes. */
TEST(who_has_nothing_to_do_is_served_before_who_has_only_room) {
  clu_sched *s = clu_sched_new(1000);
  clu_claim w[3] = {0, 0, 0};
  for (int i = 0; i < 3; i++) clu_sched_node_up(s, i, &w[i]);
  for (int i = 0; i < 3; i++) { /* jobs that come one after the other, none of them begun */
    job(s, 1, 0, 0, 0);
    CHECK(sends(s, i, 0, 1, 1));
  }
  /* who has worked last is awake still; the one that is new has everything to load */
  for (int i = 0; i < 3; i++) CHECK(clu_claim_start(&w[i], 1));
  CHECK_INT_EQ(clu_sched_answer(s, 2, 1, 0, 5000, 0, &end), 1);
  CHECK_INT_EQ(clu_sched_answer(s, 1, 1, 0, 5000, 0, &end), 1);
  clu_sched_node_lost(s, 0, 1, 0);
  while (clu_sched_ended(s, &end)) continue;
  clu_sched_node_up(s, 0, &w[0]);
  job(s, 3, 0, 1, 0);
  CHECK(sends(s, 1, 0, 1, 2) && sends(s, 2, 1, 1, 2) && sends(s, 0, 2, 1, 2));
  clu_sched_free(s);
}

TEST(who_has_nothing_to_do_gets_what_waits_elsewhere) {
  clu_sched *s = clu_sched_new(1000);
  clu_claim w[2] = {0, 0};
  job(s, 4, 0, 0, 0);
  clu_sched_node_up(s, 0, &w[0]);
  CHECK(sends(s, 0, 0, 1, 1) && sends(s, 0, 1, 1, 2));
  clu_sched_node_up(s, 1, &w[1]);
  CHECK(sends(s, 1, 2, 1, 1) && sends(s, 1, 3, 1, 2));
  CHECK(clu_claim_start(&w[0], 1)); /* a long one */
  for (uint64_t seq = 1; seq <= 2; seq++) {
    CHECK(clu_claim_start(&w[1], seq));
    CHECK_INT_EQ(clu_sched_answer(s, 1, seq, 0, 5000, 0, &end), 1);
  }
  CHECK(sends(s, 1, 1, 1, 3));       /* the other's second */
  CHECK(!clu_claim_start(&w[0], 2)); /* which that one may not start any more */
  CHECK(clu_claim_start(&w[1], 3));
  CHECK_INT_EQ(clu_sched_answer(s, 1, 3, 0, 5000, 0, &end), 1);
  CHECK_INT_EQ(end.task, 1);
  CHECK(next_is(s, 0, CLU_ACT_NONE));
  CHECK_INT_EQ(clu_sched_answer(s, 0, 1, 0, 5000, 0, &end), 1);
  clu_sched_free(s);
}

TEST(no_more_nodes_than_the_limit_have_something) {
  clu_sched *s = clu_sched_new(1000);
  clu_claim w[3] = {0, 0, 0};
  job(s, 6, 0, 1, 0);
  for (int i = 0; i < 3; i++) clu_sched_node_up(s, i, &w[i]);
  CHECK_INT_EQ(clu_sched_wanted(s), 3);
  clu_sched_limit(s, 1);
  CHECK(sends(s, 0, 0, 1, 1) && sends(s, 0, 1, 1, 2));
  CHECK(next_is(s, 0, CLU_ACT_NONE));
  CHECK_INT_EQ(clu_sched_busy(s), 1);
  CHECK_INT_EQ(clu_sched_wanted(s), 2);
  clu_sched_limit(s, 2);
  CHECK(sends(s, 1, 2, 1, 1) && sends(s, 1, 3, 1, 2));
  CHECK(next_is(s, 0, CLU_ACT_NONE));
  /* fewer than have something: these go on with it, and another gets nothing before all but one
   * have ended */
  clu_sched_limit(s, 1);
  CHECK(clu_claim_start(&w[1], 1));
  CHECK_INT_EQ(clu_sched_answer(s, 1, 1, 0, 1000000000, 0, &end), 1);
  CHECK(sends(s, 1, 4, 1, 3) && next_is(s, 0, CLU_ACT_NONE));
  clu_sched_node_lost(s, 0, 1, 0);
  while (clu_sched_ended(s, &end)) continue;
  CHECK_INT_EQ(clu_sched_busy(s), 1);
  CHECK(next_is(s, 0, CLU_ACT_NONE)); /* the node has two, and the third is not to begin */
  clu_sched_limit(s, 0);
  CHECK(sends(s, 2, 0, 1, 1)); /* of those that the lost one had not begun */
  CHECK_INT_EQ(clu_sched_busy(s), 2);
  clu_sched_free(s);
}

TEST(quick_tasks_leave_together_slow_ones_do_not) {
  for (int slow = 0; slow < 2; slow++) {
    clu_sched *s = clu_sched_new(1000);
    clu_claim w = 0;
    job(s, 100000, 0, 0, 0);
    clu_sched_node_up(s, 0, &w);
    CHECK(sends(s, 0, 0, 1, 1));
    CHECK_INT_EQ(clu_sched_answer(s, 0, 1, 0, slow ? 10000000 : 1000, 0, &end), 1);
    CHECK(next_is(s, 0, CLU_ACT_SEND));
    CHECK_INT_EQ(act.n, slow ? 1 : CLU_AHEAD / 2 / 1000);
    clu_sched_free(s);
  }
}

TEST(large_tasks_leave_alone) {
  clu_sched *s = clu_sched_new(1000);
  clu_claim w = 0;
  job(s, 100000, 0, 0, 0);
  clu_sched_node_up(s, 0, &w);
  CHECK(next_is(s, 0, CLU_ACT_SEND));
  CHECK_INT_EQ(clu_sched_sent(s, &act, 1, 10000000, 0), CLU_OK);
  CHECK_INT_EQ(clu_sched_answer(s, 0, 1, 0, 1000, 0, &end), 1);
  CHECK(next_is(s, 0, CLU_ACT_SEND));
  CHECK_INT_EQ(act.n, 1);
  clu_sched_free(s);
}

TEST(the_task_to_be_answered_next_is_the_head) {
  clu_sched *s = clu_sched_new(1000);
  clu_claim w = 0;
  job(s, 5, 0, 1, 0);
  clu_sched_node_up(s, 0, &w);
  CHECK_INT_EQ(clu_sched_node_head(s, 0), 0);
  CHECK(sends(s, 0, 0, 1, 7) && sends(s, 0, 1, 1, 8));
  CHECK_INT_EQ(clu_sched_node_head(s, 0), 7);
  CHECK(clu_claim_start(&w, 7));
  CHECK_INT_EQ(clu_sched_answer(s, 0, 7, 0, 1000, 10, &end), 1);
  CHECK_INT_EQ(clu_sched_node_head(s, 0), 8);
  clu_sched_node_lost(s, 0, 0, 1);
  CHECK_INT_EQ(clu_sched_node_head(s, 0), 0);
  clu_sched_free(s);
}

TEST(jobs_are_served_in_their_order_also_after_a_return) {
  clu_sched *s = clu_sched_new(50);
  clu_claim w = 0;
  clu_job *a = job(s, 1, 1, 1, 0), *b = job(s, 3, 1, 1, 0);
  clu_sched_node_up(s, 0, &w);
  CHECK(sends(s, 0, 0, 1, 1) && act.job == a);
  CHECK(sends(s, 0, 0, 1, 2) && act.job == b);
  clu_sched_node_lost(s, 0, 0, 1); /* neither was started */
  w = 0;
  clu_sched_node_up(s, 0, &w);
  CHECK(sends(s, 0, 0, 1, 1));
  CHECK(act.job == a && act.attempt == 1);
  clu_sched_free(s);
}

TEST(an_answer_out_of_turn_is_noticed) {
  clu_sched *s = clu_sched_new(50);
  clu_claim w = 0;
  job(s, 3, 1, 1, 0);
  clu_sched_node_up(s, 0, &w);
  CHECK_INT_EQ(clu_sched_answer(s, 0, 1, 0, 1, 0, &end), -1);
  CHECK(sends(s, 0, 0, 1, 7));
  CHECK_INT_EQ(clu_sched_answer(s, 0, 8, 0, 1, 0, &end), -1);
  CHECK_INT_EQ(clu_sched_answer(s, 3, 7, 0, 1, 0, &end), -1);
  CHECK_INT_EQ(clu_sched_answer(s, 0, 7, 0, 1, 0, &end), 1);
  clu_sched_free(s);
}

TEST(a_node_is_served_however_many_jobs_wait_for_another) {
  clu_sched *s = clu_sched_new(1000);
  clu_claim w[2] = {0, 0};
  clu_job *late;
  for (int i = 0; i < 2; i++) clu_sched_node_up(s, i, &w[i]);
  for (int k = 0; k < 40; k++) job_for(s, 1, 2, 1);
  late = job_for(s, 1, 2, 2);
  CHECK(sends(s, 0, 0, 1, 1));
  CHECK(sends(s, 1, 0, 1, 1) && act.job == late);
  CHECK(sends(s, 0, 0, 1, 2));
  late = job(s, 1, 0, 0, 0); /* the first that any node may do */
  CHECK(sends(s, 1, 0, 1, 2) && act.job == late);
  CHECK(next_is(s, 0, CLU_ACT_NONE));
  clu_sched_free(s);
}

TEST(of_several_kinds_of_jobs_the_oldest_comes_first) {
  clu_sched *s = clu_sched_new(1000);
  clu_claim w[2] = {0, 0};
  clu_job *a = job(s, 1, 0, 0, 0), *b = job_for(s, 1, 2, 1), *c = job(s, 1, 0, 0, 0);
  clu_sched_node_up(s, 0, &w[0]);
  CHECK(sends(s, 0, 0, 1, 1) && act.job == a);
  CHECK(sends(s, 0, 0, 1, 2) && act.job == b);
  clu_sched_node_up(s, 1, &w[1]);
  CHECK(sends(s, 1, 0, 1, 1) && act.job == c);
  clu_sched_free(s);
}

TEST(who_has_nothing_to_do_is_helped_also_while_a_job_waits_for_others) {
  clu_sched *s = clu_sched_new(1000);
  clu_claim w[3] = {0, 0, 0};
  clu_job *j = job(s, 4, 0, 1, 0);
  for (int i = 0; i < 2; i++) clu_sched_node_up(s, i, &w[i]);
  CHECK(sends(s, 0, 0, 1, 1) && sends(s, 1, 1, 1, 1) && sends(s, 0, 2, 1, 2) &&
        sends(s, 1, 3, 1, 2));
  for (int i = 0; i < 2; i++) CHECK(clu_claim_start(&w[i], 1)); /* long ones */
  job_for(s, 1, 3, 1);                                          /* waits for the first node */
  CHECK(next_is(s, 0, CLU_ACT_NONE));
  clu_sched_node_up(s, 2, &w[2]);
  CHECK(next_is(s, 0, CLU_ACT_SEND) && act.node == 2 && act.job == j);
  CHECK_INT_EQ(clu_sched_sent(s, &act, 1, 8, 0), CLU_OK);
  clu_sched_free(s);
}

TEST(who_may_not_do_what_waits_elsewhere_does_not_keep_the_next_from_it) {
  clu_sched *s = clu_sched_new(1000);
  clu_claim w[3] = {0, 0, 0};
  clu_job *j = job_for(s, 2, 3, 1 + 4);
  clu_sched_node_up(s, 0, &w[0]);
  CHECK(sends(s, 0, 0, 1, 1) && sends(s, 0, 1, 1, 2));
  CHECK(clu_claim_start(&w[0], 1));
  clu_sched_node_up(s, 1, &w[1]); /* may not, and is idle for longer */
  CHECK(next_is(s, 0, CLU_ACT_NONE));
  clu_sched_node_up(s, 2, &w[2]);
  CHECK(sends(s, 2, 1, 1, 1) && act.job == j);
  clu_sched_free(s);
}

TEST(tasks_that_a_node_has_to_answer_are_known) {
  clu_sched *s = clu_sched_new(50);
  clu_claim w = 0;
  job(s, 2, 0, 1, 0);
  clu_sched_node_up(s, 0, &w);
  CHECK(!clu_sched_node_has(s, 0, 0) && !clu_sched_node_has(s, 0, 1) &&
        !clu_sched_node_has(s, 5, 1));
  CHECK(sends(s, 0, 0, 1, 7) && sends(s, 0, 1, 1, 8));
  CHECK(!clu_sched_node_has(s, 0, 6) && clu_sched_node_has(s, 0, 7) &&
        clu_sched_node_has(s, 0, 8) && !clu_sched_node_has(s, 0, 9));
  clu_sched_free(s);
}

/* ---- how many nodes there should be ---- */

#define SECOND 1000000000ull

TEST(as_many_nodes_are_desired_as_have_work_for_so_long) {
  clu_sched *s = clu_sched_new(1000);
  clu_claim w[2] = {0, 0};
  clu_job *j;
  CHECK(clu_sched_desired(s, 0, 5 * SECOND) == 0);
  for (int i = 0; i < 2; i++) clu_sched_node_up(s, i, &w[i]);
  j = job(s, 100, 0, 1, 0);
  CHECK(sends(s, 0, 0, 1, 1));
  /* nothing was measured: as long as the node has been at it */
  CHECK(clu_sched_desired(s, SECOND, 5 * SECOND) == 20);
  CHECK(clu_sched_desired(s, 50 * SECOND, 5 * SECOND) == 100);
  CHECK(clu_claim_start(&w[0], 1));
  CHECK_INT_EQ(clu_sched_answer(s, 0, 1, 0, SECOND / 100, SECOND, &end), 1);
  CHECK(clu_sched_desired(s, SECOND, 5 * SECOND) < 0.2);
  /* one that takes longer than those before */
  CHECK(sends(s, 0, 1, 1, 2));
  CHECK(clu_sched_desired(s, 6 * SECOND, 5 * SECOND) == 99);
  clu_job_cancel(s, j, 0);
  CHECK(clu_sched_desired(s, 6 * SECOND, 5 * SECOND) == 0);
  clu_sched_free(s);
}

TEST(jobs_of_one_task_count_together_and_those_of_some_nodes_do_not) {
  clu_sched *s = clu_sched_new(1000);
  clu_claim w[2] = {0, 0};
  for (int i = 0; i < 2; i++) clu_sched_node_up(s, i, &w[i]);
  for (int i = 0; i < 6; i++) job(s, 1, 0, 0, 0);
  CHECK(sends(s, 0, 0, 1, 1));
  CHECK(clu_sched_desired(s, 5 * SECOND, 10 * SECOND) == 3);
  CHECK(job_for(s, 10, 2, 1) != NULL);
  CHECK(clu_sched_desired(s, 5 * SECOND, 10 * SECOND) == 3);
  clu_sched_free(s);
}

TEST(since_when_a_node_has_nothing) {
  clu_sched *s = clu_sched_new(1000);
  clu_claim w = 0;
  CHECK(clu_sched_node_idle_since(s, 0) == UINT64_MAX);
  clu_sched_node_up(s, 0, &w);
  CHECK(clu_sched_node_idle_since(s, 0) == 0);
  job(s, 1, 0, 1, 0);
  CHECK(sends(s, 0, 0, 1, 1));
  CHECK(clu_sched_node_idle_since(s, 0) == UINT64_MAX);
  CHECK(clu_claim_start(&w, 1));
  CHECK_INT_EQ(clu_sched_answer(s, 0, 1, 0, SECOND, 7 * SECOND, &end), 1);
  CHECK(clu_sched_node_idle_since(s, 0) == 7 * SECOND);
  clu_sched_free(s);
}
