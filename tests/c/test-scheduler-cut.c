/* The scheduler with stub nodes that cannot be reached for a while. */
#include "test.h"

#include "scheduler-fixture.h"

static clu_sched *two_nodes(void) {
  clu_sched *s = clu_sched_new(1000);
  REQUIRE(s && clu_sched_node_up(s, 0, NULL) == CLU_OK && clu_sched_node_up(s, 1, NULL) == CLU_OK);
  return s;
}

TEST(who_is_cut_off_gets_nothing_until_it_is_back) {
  clu_sched *s = two_nodes();
  clu_job *j = job(s, 3, 0, 1, 0);
  clu_sched_node_cut(s, 0, 1, 5);
  CHECK(sends(s, 1, 0, 1, 1));
  CHECK(next_is(s, 10, CLU_ACT_NONE));
  CHECK_INT_EQ(clu_sched_answer(s, 1, 1, 0, 10, 20, &end), 1);
  CHECK(sends(s, 1, 1, 1, 2));
  CHECK(next_is(s, 30, CLU_ACT_NONE));
  clu_sched_node_cut(s, 0, 0, 40);
  CHECK(sends(s, 0, 2, 1, 1));
  CHECK_INT_EQ(clu_job_left(j), 2);
  clu_sched_free(s);
}

TEST(what_it_has_waits_for_it_and_is_answered_once) {
  clu_sched *s = two_nodes();
  clu_job *j = job(s, 2, 3, 1, 0);
  CHECK(sends(s, 0, 0, 1, 1) && sends(s, 1, 1, 1, 1));
  clu_sched_node_cut(s, 0, 1, 5);
  CHECK_INT_EQ(clu_sched_answer(s, 1, 1, 0, 10, 20, &end), 1);
  CHECK(next_is(s, 1000000, CLU_ACT_NONE)); /* nobody else gets it */
  CHECK(clu_sched_deadline(s) == UINT64_MAX);
  CHECK_INT_EQ(clu_sched_answer(s, 0, 1, 0, 10, 2000000, &end), 1); /* it was on its way */
  CHECK(end.why == CLU_END_ANSWER && end.task == 0 && end.attempt == 1);
  CHECK_INT_EQ(clu_job_left(j), 0);
  clu_sched_free(s);
}

TEST(one_that_does_not_come_back_is_lost_as_any_other) {
  clu_sched *s = two_nodes();
  clu_job *j = job(s, 1, 1, 1, 0);
  CHECK(sends(s, 0, 0, 1, 1));
  clu_sched_node_cut(s, 0, 1, 5);
  clu_sched_node_lost(s, 0, 7, 1);
  CHECK(sends(s, 1, 0, 1, 1));
  CHECK_INT_EQ(act.attempt, 2);
  CHECK_INT_EQ(clu_sched_node_up(s, 0, NULL), CLU_OK); /* who has its number can be reached */
  CHECK_INT_EQ(clu_sched_answer(s, 1, 1, 0, 10, 20, &end), 1);
  CHECK_INT_EQ(clu_job_left(j), 0);
  CHECK_INT_EQ(clu_sched_nodes_up(s), 2);
  job(s, 2, 0, 1, 0);
  CHECK(next_is(s, 30, CLU_ACT_SEND) && clu_sched_sent(s, &act, 2, 8, 30) == CLU_OK);
  CHECK(next_is(s, 30, CLU_ACT_SEND));
  clu_sched_unsent(s, &act);
  clu_sched_free(s);
}

TEST(no_time_limit_runs_meanwhile) {
  clu_sched *s = two_nodes();
  job(s, 1, 0, 1, 100);
  CHECK(sends(s, 0, 0, 1, 1));
  clu_sched_node_cut(s, 0, 1, 50);
  CHECK(next_is(s, 10000, CLU_ACT_NONE));
  clu_sched_node_cut(s, 0, 0, 20000);
  CHECK(next_is(s, 20099, CLU_ACT_NONE)); /* its answer may be on its way */
  CHECK_INT_EQ(clu_sched_deadline(s), 20100);
  CHECK(next_is(s, 20100, CLU_ACT_INTERRUPT));
  clu_sched_node_cut(s, 0, 1, 20200);
  CHECK(next_is(s, 30000, CLU_ACT_NONE)); /* and nobody is killed who cannot hear */
  clu_sched_node_cut(s, 0, 0, 40000);
  CHECK(next_is(s, 40999, CLU_ACT_NONE));
  CHECK(next_is(s, 41000, CLU_ACT_KILL));
  clu_sched_free(s);
}

TEST(what_is_cancelled_meanwhile_is_interrupted_at_once_and_killed_late) {
  clu_sched *s = two_nodes();
  clu_job *j = job(s, 1, 0, 1, 0);
  CHECK(sends(s, 0, 0, 1, 1));
  clu_sched_node_cut(s, 0, 1, 50);
  clu_job_cancel(s, j, 60);
  CHECK(next_is(s, 60, CLU_ACT_INTERRUPT)); /* it is the first that it hears */
  CHECK(next_is(s, 10000, CLU_ACT_NONE));
  clu_sched_node_cut(s, 0, 0, 20000);
  CHECK(next_is(s, 20999, CLU_ACT_NONE));
  CHECK(next_is(s, 21000, CLU_ACT_KILL));
  clu_sched_free(s);
}

TEST(a_retry_does_not_wait_for_who_is_cut_off) {
  clu_sched *s = two_nodes();
  clu_job *j = job(s, 1, 1, 1, 0);
  CHECK(sends(s, 0, 0, 1, 1));
  clu_sched_node_cut(s, 1, 1, 5);
  clu_sched_node_lost(s, 0, 7, 1);
  CHECK(next_is(s, 10, CLU_ACT_NONE));
  CHECK(clu_job_has_node(s, j)); /* that one may come back */
  clu_sched_node_up(s, 0, NULL);
  CHECK(sends(s, 0, 0, 1, 1)); /* where it died: nobody else can be reached */
  CHECK_INT_EQ(act.attempt, 2);
  clu_sched_free(s);
}

TEST(jobs_for_some_nodes_do_not_wait_either) {
  clu_sched *s = two_nodes();
  clu_job *j = job_for(s, 1, 2, 3);
  CHECK(sends(s, 0, 0, 1, 1));
  clu_sched_node_cut(s, 1, 1, 5);
  CHECK(clu_job_has_node(s, j));
  clu_sched_node_cut(s, 0, 1, 6);
  CHECK(clu_job_has_node(s, j));
  clu_sched_node_lost(s, 0, 7, 1);
  clu_sched_node_lost(s, 1, 7, 1);
  CHECK(!clu_job_has_node(s, j));
  clu_sched_free(s);
}
