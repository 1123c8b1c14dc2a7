/* Nodes of other hosts: what they have not begun is asked for. */
#include "test.h"

#include "scheduler-fixture.h"

#define MS 1000000u

/* A node whose claim word is on another host, with a job of `n` tasks that take `took` ns; one of
 * them is answered. */
static clu_sched *busy_elsewhere(uint64_t n, uint64_t took, clu_job **j) {
  clu_sched *s = clu_sched_new(1000 * MS);
  *j = job(s, n, 0, 0, 0);
  CHECK_INT_EQ(clu_sched_node_up(s, 0, NULL), CLU_OK);
  clu_sched_node_elsewhere(s, 0);
  CHECK(sends(s, 0, 0, 1, 1));
  CHECK_INT_EQ(clu_sched_answer(s, 0, 1, 0, took, 0, &end), 1);
  return s;
}

TEST(of_quick_tasks_two_batches_are_there_of_others_one) {
  clu_job *j;
  clu_sched *s = busy_elsewhere(1000000, 1000, &j);
  CHECK(next_is(s, 0, CLU_ACT_SEND) && act.n == 1024);
  CHECK_INT_EQ(clu_sched_sent(s, &act, 2, 1, 0), CLU_OK);
  CHECK(next_is(s, 0, CLU_ACT_SEND) && act.n == 1024);
  CHECK_INT_EQ(clu_sched_sent(s, &act, 1026, 1, 0), CLU_OK);
  CHECK(next_is(s, 0, CLU_ACT_NONE));
  clu_sched_free(s);
  s = busy_elsewhere(1000000, CLU_AHEAD / 2 + MS, &j);
  CHECK(sends(s, 0, 1, 1, 2));
  CHECK(next_is(s, 0, CLU_ACT_NONE));
  clu_sched_free(s);
}

TEST(what_waits_behind_a_long_task_is_asked_for_and_is_there_for_others) {
  clu_job *j;
  clu_sched *s = busy_elsewhere(401, CLU_AHEAD / 200, &j);
  CHECK(sends(s, 0, 1, 100, 2));
  CHECK(sends(s, 0, 101, 100, 102));
  CHECK_INT_EQ(clu_sched_node_up(s, 1, NULL), CLU_OK);
  clu_sched_node_elsewhere(s, 1);
  while (next_is(s, 0, CLU_ACT_SEND)) { /* the other one does all the others */
    uint64_t seq = act.first;
    CHECK_INT_EQ(act.node, 1);
    CHECK_INT_EQ(clu_sched_sent(s, &act, seq, 1, 0), CLU_OK);
    for (uint32_t k = 0; k < act.n; k++)
      CHECK_INT_EQ(clu_sched_answer(s, 1, seq + k, 0, 20000, 0, &end), 1);
  }
  CHECK_INT_EQ(clu_job_waiting(j), 0);
  CHECK(next_is(s, CLU_ASK_AFTER - 1, CLU_ACT_NONE)); /* it may just be about to answer */
  CHECK_INT_EQ(clu_sched_deadline(s), CLU_ASK_AFTER);
  CHECK(next_is(s, CLU_ASK_AFTER, CLU_ACT_TAKE_BACK));
  CHECK(act.node == 0 && act.seq == 202);
  CHECK(next_is(s, 2 * CLU_ASK_AFTER, CLU_ACT_NONE)); /* once */
  clu_sched_node_taken(s, 0, 3);
  clu_sched_node_taken(s, 0, 2); /* nobody has asked for that */
  CHECK_INT_EQ(clu_job_waiting(j), 199);
  CHECK(next_is(s, 2 * CLU_ASK_AFTER, CLU_ACT_SEND) && act.node == 1 && act.first == 2);
  CHECK_INT_EQ(clu_sched_sent(s, &act, 1000, 1, 0), CLU_OK);
  CHECK_INT_EQ(clu_sched_answer(s, 0, 2, 0, 20000, 9, &end), 1);
  CHECK_INT_EQ(end.task, 1);
  clu_sched_free(s);
}

TEST(while_its_host_is_asked_a_node_gets_nothing) {
  clu_job *j, *other = NULL;
  clu_sched *s = busy_elsewhere(201, 20000, &j);
  CHECK(sends(s, 0, 1, 100, 2));
  clu_job_cancel(s, j, 5);
  while (next_is(s, 5, CLU_ACT_INTERRUPT)) continue;
  CHECK_INT_EQ(act.what, CLU_ACT_TAKE_BACK);
  CHECK_INT_EQ(act.seq, 102);
  for (uint64_t k = 2; k < 102; k++) {
    CHECK_INT_EQ(clu_sched_answer(s, 0, k, 1, 0, 6, &end), 0);
    if (k == 2) other = job(s, 1, 0, 0, 0);
    CHECK(!next_is(s, 6, CLU_ACT_SEND));
  }
  clu_sched_node_taken(s, 0, 102);
  CHECK_INT_EQ(clu_sched_node_tasks(s, 0, NULL), 0);
  CHECK(next_is(s, 6, CLU_ACT_SEND) && act.job == other);
  clu_sched_unsent(s, &act);
  clu_sched_free(s);
}

TEST(nothing_is_asked_for_while_something_is_on_its_way) {
  clu_job *j;
  clu_sched *s = busy_elsewhere(1001, CLU_AHEAD / 200, &j);
  CHECK(sends(s, 0, 1, 100, 2));
  CHECK(next_is(s, 0, CLU_ACT_SEND));
  clu_job_cancel(s, j, 5);
  for (int k = 0; k < 3; k++) {
    clu_action a;
    clu_sched_next(s, 5, &a);
    CHECK(a.what != CLU_ACT_TAKE_BACK);
  }
  CHECK_INT_EQ(clu_sched_sent(s, &act, 102, 1, 5), CLU_OK);
  CHECK(next_is(s, 5, CLU_ACT_TAKE_BACK));
  CHECK_INT_EQ(act.seq, 202);
  clu_sched_free(s);
}

TEST(a_node_that_is_lost_answers_no_more_and_its_successor_was_not_asked) {
  clu_job *j;
  clu_sched *s = busy_elsewhere(401, CLU_AHEAD / 200, &j);
  CHECK(sends(s, 0, 1, 100, 2));
  clu_job_cancel(s, j, 5);
  while (next_is(s, 5, CLU_ACT_INTERRUPT)) continue;
  CHECK_INT_EQ(act.what, CLU_ACT_TAKE_BACK);
  clu_sched_node_lost(s, 0, 1, CLU_RETRY_COUNTED);
  job(s, 10, 0, 0, 0);
  CHECK_INT_EQ(clu_sched_node_up(s, 0, NULL), CLU_OK);
  clu_sched_node_elsewhere(s, 0);
  CHECK(next_is(s, 6, CLU_ACT_SEND));
  CHECK_INT_EQ(clu_sched_sent(s, &act, 1, 1, 6), CLU_OK);
  clu_sched_node_taken(s, 0, 1); /* that of the one before */
  CHECK_INT_EQ(clu_sched_node_tasks(s, 0, NULL), 1);
  clu_sched_free(s);
}
