/* The scheduler with stub nodes: how tasks end that are not answered: deaths, retries, time limits,
 * cancels. */
// link: -Wl,--wrap=realloc
#include "test.h"

#include "scheduler-fixture.h"

void *__real_realloc(void *p, size_t n);
static int no_memory;
void *__wrap_realloc(void *p, size_t n) { return no_memory ? NULL : __real_realloc(p, n); }

TEST(without_retries_what_was_started_dies_and_what_was_not_goes_on) {
  clu_sched *s = clu_sched_new(1000);
  clu_claim w[2] = {0, 0};
  clu_job *j = job(s, 2, 0, 1, 0);
  clu_sched_node_up(s, 0, &w[0]);
  CHECK(sends(s, 0, 0, 1, 1) && sends(s, 0, 1, 1, 2));
  CHECK(clu_claim_start(&w[0], 1));
  clu_sched_node_lost(s, 0, 77, 1);
  CHECK_INT_EQ(clu_sched_ended(s, &end), 1);
  CHECK(end.why == CLU_END_DIED && end.task == 0 && end.cause == 77 && end.attempt == 1 &&
        end.node == 0);
  CHECK_INT_EQ(clu_sched_ended(s, &end), 0);
  CHECK_INT_EQ(clu_job_left(j), 1);
  clu_sched_node_up(s, 1, &w[1]);
  CHECK(sends(s, 1, 1, 1, 1));
  CHECK_INT_EQ(act.attempt, 1);
  clu_sched_free(s);
}

TEST(what_a_node_that_is_closed_had_started_is_known_when_the_memory_has_gone) {
  clu_sched *s = clu_sched_new(1000);
  clu_claim *w = malloc(sizeof *w);
  clu_job *j = job(s, 3, 0, 1, 0);
  REQUIRE(w);
  *w = 0;
  clu_sched_node_up(s, 0, w);
  CHECK(sends(s, 0, 0, 1, 1) && sends(s, 0, 1, 1, 2));
  CHECK(clu_claim_start(w, 1));
  clu_sched_node_closed(s, 0);
  CHECK(!clu_claim_start(w, 2)); /* it may still be running for a moment */
  free(w);
  CHECK(next_is(s, 0, CLU_ACT_NONE));
  clu_job_cancel(s, job(s, 1, 0, 1, 0), 5);
  clu_sched_node_lost(s, 0, 77, 1);
  CHECK_INT_EQ(clu_sched_ended(s, &end), 1);
  CHECK(end.why == CLU_END_DIED && end.task == 0);
  CHECK_INT_EQ(clu_sched_ended(s, &end), 0);
  CHECK_INT_EQ(clu_job_left(j), 2);
  clu_sched_free(s);
}

TEST(a_retry_goes_to_another_node_where_there_is_one) {
  clu_sched *s = clu_sched_new(1000);
  clu_claim w[2] = {0, 0};
  clu_job *j = job(s, 1, 1, 0, 0);
  clu_sched_node_up(s, 0, &w[0]);
  clu_sched_node_up(s, 1, &w[1]);
  CHECK(sends(s, 0, 0, 1, 1));
  CHECK(clu_claim_start(&w[0], 1));
  clu_sched_node_lost(s, 0, 0, 1);
  w[0] = 0;
  clu_sched_node_up(s, 0, &w[0]);
  clu_sched_node_apart(s, 0); /* of another machine: it may be that which kills */
  clu_sched_node_drain(s, 1, 1);
  CHECK(next_is(s, 0, CLU_ACT_NONE)); /* the other one is there, but not ready */
  clu_sched_node_drain(s, 1, 0);
  CHECK(sends(s, 1, 0, 1, 1));
  CHECK_INT_EQ(act.attempt, 2);
  CHECK(clu_claim_start(&w[1], 1));
  clu_sched_node_lost(s, 1, 5, 1);
  CHECK_INT_EQ(clu_sched_ended(s, &end), 1);
  CHECK(end.why == CLU_END_DIED && end.attempt == 2 && end.cause == 5 && end.node == 1);
  CHECK_INT_EQ(clu_job_left(j), 0);
  clu_sched_free(s);
}

TEST(the_only_node_gets_its_retry_back) {
  clu_sched *s = clu_sched_new(1000);
  clu_claim w = 0;
  job(s, 1, 1, 0, 0);
  clu_sched_node_up(s, 0, &w);
  CHECK(sends(s, 0, 0, 1, 1));
  CHECK(clu_claim_start(&w, 1));
  clu_sched_node_lost(s, 0, 0, 1);
  w = 0;
  clu_sched_node_up(s, 0, &w);
  CHECK(sends(s, 0, 0, 1, 1));
  clu_sched_free(s);
}

/* Node 0 starts the only task as start number `attempt`, and is lost. */
static int starts_and_dies(clu_sched *s, uint32_t attempt, int rule) {
  clu_claim w = 0;
  clu_sched_node_up(s, 0, &w);
  if (!sends(s, 0, 0, 1, attempt) || act.attempt != attempt) return 0;
  clu_claim_start(&w, attempt);
  clu_sched_node_lost(s, 0, (int)attempt, rule);
  return 1;
}

TEST(a_start_that_is_excused_is_no_retry) {
  clu_sched *s = clu_sched_new(1000);
  clu_job *j = job(s, 1, 1, 0, 0);
  CHECK(starts_and_dies(s, 1, CLU_RETRY_FREE));
  CHECK(starts_and_dies(s, 2, CLU_RETRY_COUNTED)); /* the only retry that the job has */
  CHECK(starts_and_dies(s, 3, CLU_RETRY_FREE));
  CHECK_INT_EQ(clu_sched_ended(s, &end), 0);
  CHECK(starts_and_dies(s, 4, CLU_RETRY_COUNTED));
  CHECK_INT_EQ(clu_sched_ended(s, &end), 1);
  CHECK(end.why == CLU_END_DIED && end.attempt == 4 && end.cause == 4);
  CHECK_INT_EQ(clu_job_left(j), 0);
  /* a task that may not be started twice is not, whatever its node has ended of */
  job(s, 1, 0, 0, 0);
  CHECK(starts_and_dies(s, 1, CLU_RETRY_FREE));
  CHECK_INT_EQ(clu_sched_ended(s, &end), 1);
  CHECK_INT_EQ(end.attempt, 1);
  /* starts are counted in a byte */
  job(s, 1, 254, 0, 0);
  for (uint32_t k = 1; k <= 255; k++) REQUIRE(starts_and_dies(s, k, CLU_RETRY_FREE));
  CHECK_INT_EQ(clu_sched_ended(s, &end), 1);
  CHECK_INT_EQ(end.attempt, 255);
  clu_sched_free(s);
}

TEST(a_death_that_is_not_to_be_repeated_is_final) {
  clu_sched *s = clu_sched_new(1000);
  clu_claim w = 0;
  job(s, 1, 9, 0, 0);
  clu_sched_node_up(s, 0, &w);
  CHECK(sends(s, 0, 0, 1, 1));
  CHECK(clu_claim_start(&w, 1));
  clu_sched_node_lost(s, 0, 3, 0);
  CHECK_INT_EQ(clu_sched_ended(s, &end), 1);
  CHECK_INT_EQ(end.why, CLU_END_DIED);
  clu_sched_free(s);
}

TEST(a_node_without_a_claim_word_has_one_batch_at_a_time_all_of_which_has_begun) {
  clu_sched *s = clu_sched_new(1000);
  clu_job *j = job(s, 6, 0, 2, 0);
  int died = 0;
  clu_sched_node_up(s, 0, NULL);
  CHECK(sends(s, 0, 0, 2, 1));
  CHECK(next_is(s, 0, CLU_ACT_NONE));
  CHECK_INT_EQ(clu_sched_answer(s, 0, 1, 0, 1000, 5, &end), 1);
  CHECK(next_is(s, 5, CLU_ACT_NONE));
  CHECK_INT_EQ(clu_sched_answer(s, 0, 2, 0, 1000, 9, &end), 1);
  CHECK(sends(s, 0, 2, 2, 3));
  clu_sched_node_lost(s, 0, 0, 1);
  while (clu_sched_ended(s, &end)) died++;
  CHECK_INT_EQ(died, 2);
  CHECK_INT_EQ(clu_job_waiting(j), 2);
  clu_sched_free(s);
}

TEST(what_a_node_elsewhere_has_begun_is_told_when_it_ends) {
  clu_sched *s = clu_sched_new(1000);
  clu_job *j = job(s, 6, 0, 4, 0);
  clu_sched_node_up(s, 0, NULL);
  CHECK(sends(s, 0, 0, 4, 1));
  CHECK_INT_EQ(clu_sched_answer(s, 0, 1, 0, 1000, 5, &end), 1);
  clu_sched_node_begun(s, 0, 3);
  clu_sched_node_lost(s, 0, 7, CLU_RETRY_COUNTED);
  CHECK_INT_EQ(clu_sched_ended(s, &end), 1);
  CHECK(end.task == 1 && end.why == CLU_END_DIED && end.cause == 7);
  CHECK_INT_EQ(clu_sched_ended(s, &end), 0);
  CHECK_INT_EQ(clu_job_waiting(j), 4);
  clu_sched_node_up(s, 0, NULL); /* the next one has told nothing */
  CHECK(sends(s, 0, 2, 2, 9));
  clu_sched_node_lost(s, 0, 8, CLU_RETRY_COUNTED);
  for (int k = 0; k < 2; k++) CHECK_INT_EQ(clu_sched_ended(s, &end), 1);
  clu_sched_free(s);
}

TEST(time_up_means_interrupt_then_kill_and_only_that_task_ends) {
  clu_sched *s = clu_sched_new(50);
  clu_claim w = 0;
  clu_job *j = job(s, 3, 2, 1, 100);
  clu_sched_node_up(s, 0, &w);
  CHECK(sends(s, 0, 0, 1, 1) && sends(s, 0, 1, 1, 2));
  CHECK(clu_claim_start(&w, 1));
  CHECK_INT_EQ(clu_sched_deadline(s), 100);
  CHECK(next_is(s, 99, CLU_ACT_NONE));
  CHECK(next_is(s, 100, CLU_ACT_INTERRUPT));
  CHECK_INT_EQ(act.seq, 1);
  CHECK(next_is(s, 120, CLU_ACT_NONE)); /* nothing new for a node that may be stuck */
  CHECK_INT_EQ(clu_sched_answer(s, 0, 1, 1, 1, 130, &end), 1);
  CHECK(end.why == CLU_END_TIMEOUT && end.task == 0);
  CHECK(next_is(s, 130, CLU_ACT_SEND));
  CHECK_INT_EQ(act.first, 1); /* it had been taken back */
  CHECK_INT_EQ(clu_sched_sent(s, &act, 3, 8, 130), CLU_OK);
  CHECK(clu_claim_start(&w, 3));
  CHECK(next_is(s, 140, CLU_ACT_SEND));
  clu_sched_unsent(s, &act);
  CHECK(next_is(s, 230, CLU_ACT_INTERRUPT));
  CHECK(next_is(s, 280, CLU_ACT_KILL));
  clu_sched_node_lost(s, 0, 0, 1);
  CHECK_INT_EQ(clu_sched_ended(s, &end), 1);
  CHECK(end.why == CLU_END_TIMEOUT && end.task == 1);
  CHECK_INT_EQ(clu_job_left(j), 1);
  clu_sched_free(s);
}

TEST(a_kill_waits_until_the_interrupt_has_arrived) {
  clu_sched *s = clu_sched_new(50);
  job(s, 1, 0, 1, 100);
  clu_sched_node_up(s, 0, NULL);
  CHECK(sends(s, 0, 0, 1, 1));
  clu_sched_interrupt_arrived(s, 0, 20); /* of something else */
  CHECK(next_is(s, 99, CLU_ACT_NONE));
  CHECK(next_is(s, 100, CLU_ACT_INTERRUPT));
  CHECK(next_is(s, 149, CLU_ACT_NONE));
  CHECK(next_is(s, 150, CLU_ACT_KILL));
  clu_sched_unkilled(s, &act);
  CHECK(next_is(s, 10000, CLU_ACT_NONE));
  clu_sched_interrupt_arrived(s, 0, 20000);
  CHECK(next_is(s, 20049, CLU_ACT_NONE));
  CHECK(next_is(s, 20050, CLU_ACT_KILL));
  clu_sched_interrupt_arrived(s, 0, 20060); /* nothing is due for one that is killed */
  CHECK(next_is(s, 30000, CLU_ACT_NONE));
  clu_sched_node_lost(s, 0, 0, 1);
  CHECK_INT_EQ(clu_sched_ended(s, &end), 1);
  CHECK(end.why == CLU_END_TIMEOUT);
  clu_sched_free(s);
}

TEST(who_answers_after_a_kill_that_was_not_done_goes_on) {
  clu_sched *s = clu_sched_new(50);
  job(s, 2, 0, 1, 100);
  clu_sched_node_up(s, 0, NULL);
  CHECK(sends(s, 0, 0, 1, 1));
  CHECK(next_is(s, 100, CLU_ACT_INTERRUPT));
  CHECK(next_is(s, 150, CLU_ACT_KILL));
  clu_sched_unkilled(s, &act);
  CHECK_INT_EQ(clu_sched_answer(s, 0, 1, 1, 1, 5000, &end), 1);
  CHECK(end.why == CLU_END_TIMEOUT && end.task == 0);
  clu_sched_interrupt_arrived(s, 0, 5000);
  CHECK(next_is(s, 5000, CLU_ACT_SEND));
  CHECK_INT_EQ(clu_sched_sent(s, &act, 2, 8, 5000), CLU_OK);
  CHECK(next_is(s, 5099, CLU_ACT_NONE)); /* its time counts from then */
  CHECK(next_is(s, 5100, CLU_ACT_INTERRUPT));
  clu_sched_free(s);
}

TEST(what_was_not_started_does_not_run_out_of_time) {
  clu_sched *s = clu_sched_new(50);
  clu_claim w = 0;
  uint64_t now_ns = 0;
  job(s, 1, 0, 1, 100);
  clu_sched_node_up(s, 0, &w); /* and does something else all the time */
  CHECK(sends(s, 0, 0, 1, 1));
  for (uint64_t t = 0; t < 1000; t++) CHECK(next_is(s, t, CLU_ACT_NONE));
  CHECK(clu_claim_start(&w, 1));
  for (uint64_t t = 1000; t < 1080; t++) CHECK(next_is(s, t, CLU_ACT_NONE));
  while (!next_is(s, now_ns, CLU_ACT_INTERRUPT) && now_ns < 2000) now_ns++;
  CHECK(now_ns >= 1000 && now_ns <= 1110);
  clu_sched_free(s);
}

TEST(a_cancelled_job_leaves_its_runner_to_be_interrupted) {
  clu_sched *s = clu_sched_new(50);
  clu_claim w = 0;
  clu_job *a = job(s, 5, 0, 1, 0), *b;
  uint32_t cancelled;
  clu_sched_node_up(s, 0, &w);
  CHECK(sends(s, 0, 0, 1, 1) && sends(s, 0, 1, 1, 2));
  CHECK(clu_claim_start(&w, 1));
  clu_job_cancel(s, a, 10);
  CHECK_INT_EQ(clu_job_left(a), 0);
  CHECK_INT_EQ(clu_sched_node_tasks(s, 0, &cancelled), 1);
  CHECK_INT_EQ(cancelled, 1);
  b = job(s, 1, 0, 1, 0);
  CHECK(next_is(s, 10, CLU_ACT_INTERRUPT));
  CHECK(next_is(s, 10, CLU_ACT_NONE));
  CHECK_INT_EQ(clu_sched_answer(s, 0, 1, 1, 1, 20, &end), 0); /* nobody's */
  CHECK(next_is(s, 20, CLU_ACT_SEND));
  CHECK(act.job == b);
  clu_sched_unsent(s, &act);
  CHECK_INT_EQ(clu_sched_ended(s, &end), 0);
  clu_job_free(s, a, 20);
  clu_sched_free(s);
}

TEST(without_nodes_what_waits_can_be_ended) {
  clu_sched *s = clu_sched_new(50);
  clu_job *j = job(s, 3, 1, 1, 0);
  int n = 0;
  clu_job_fail_pending(s, j, 9);
  while (clu_sched_ended(s, &end))
    n += end.why == CLU_END_DIED && end.cause == 9 && end.attempt == 0;
  CHECK_INT_EQ(n, 3);
  CHECK_INT_EQ(clu_job_left(j), 0);
  clu_sched_free(s);
}

/* `apart`: the nodes are of another machine. */
static void retry_behind_another(int apart) {
  clu_sched *s = clu_sched_new(1000);
  clu_claim w[2] = {0, 0};
  clu_job *j = job(s, 1, 2, 1, 0);
  for (int i = 0; i < 2; i++) clu_sched_node_up(s, i, &w[i]);
  CHECK(sends(s, 0, 0, 1, 1));
  CHECK(clu_claim_start(&w[0], 1));
  job_for(s, 1, 2, 2);
  CHECK(sends(s, 1, 0, 1, 1));
  CHECK(clu_claim_start(&w[1], 1));
  clu_sched_node_lost(s, 0, 0, 1);
  CHECK(sends(s, 1, 0, 1, 2) && act.job == j); /* behind the other's */
  w[0] = 0;
  clu_sched_node_up(s, 0, &w[0]);
  if (apart) clu_sched_node_apart(s, 0);
  if (apart) CHECK(next_is(s, 0, CLU_ACT_NONE));
  if (!apart) CHECK(sends(s, 0, 0, 1, 2) && act.job == j && act.attempt == 2);
  CHECK(next_is(s, 0, CLU_ACT_NONE));
  clu_sched_free(s);
}

TEST(a_retry_that_must_not_go_back_is_not_taken_from_its_node_for_that) { retry_behind_another(1); }
TEST(a_retry_does_not_wait_behind_others_while_its_node_has_nothing_to_do) {
  retry_behind_another(0);
}

/* R code runs while tasks are serialized: anything may have been given up meanwhile. */
TEST(what_is_on_its_way_holds_its_job) {
  for (int sent = 0; sent < 2; sent++)
    for (int before = 0; before < 2;
         before++) { /* how many were sent before: the job goes with the last */
      clu_sched *s = clu_sched_new(1000);
      clu_claim w = 0;
      clu_job *j = job(s, 3, 1, 1, 0);
      uint32_t cancelled = 0;
      clu_sched_node_up(s, 0, &w);
      if (before) CHECK(sends(s, 0, 0, 1, 1));
      CHECK(next_is(s, 0, CLU_ACT_SEND) && act.job == j);
      clu_job_free(s, j, 5);
      if (sent) {
        CHECK_INT_EQ(clu_sched_sent(s, &act, 1 + (uint64_t)before, 8, 6), CLU_OK);
        CHECK_INT_EQ(clu_sched_node_tasks(s, 0, &cancelled), 0); /* not begun: it was taken back */
      } else {
        clu_sched_unsent(s, &act);
      }
      while (next_is(s, 7, CLU_ACT_INTERRUPT)) continue;
      CHECK_INT_EQ(act.what, CLU_ACT_NONE);
      CHECK_INT_EQ(clu_sched_ended(s, &end), 0);
      clu_sched_free(s);
    }
}

TEST(an_ending_that_cannot_be_told_of_is_not_silent) {
  clu_sched *s = clu_sched_new(1000);
  clu_claim w = 0;
  clu_job *j = job(s, 1, 0, 1, 0);
  clu_sched_node_up(s, 0, &w);
  CHECK(sends(s, 0, 0, 1, 1));
  CHECK(clu_claim_start(&w, 1));
  no_memory = 1;
  clu_sched_node_lost(s, 0, 3, 1);
  no_memory = 0;
  CHECK_INT_EQ(clu_sched_ended(s, &end), 0);
  CHECK_INT_EQ(clu_job_left(j), 0);
  CHECK_INT_EQ(clu_job_out_of_memory(j), 1);
  clu_sched_free(s);
}

TEST(a_death_says_whether_anything_had_begun) {
  clu_sched *s = clu_sched_new(1000);
  clu_claim w = 0;
  job(s, 9, 9, 1, 0);
  clu_sched_node_up(s, 0, &w);
  CHECK_INT_EQ(clu_sched_node_lost(s, 0, 0, 1), 0);
  clu_sched_node_up(s, 0, &w);
  CHECK(sends(s, 0, 0, 1, 1));
  CHECK_INT_EQ(clu_sched_node_lost(s, 0, 0, 1), 0); /* it was sent something and did not begin it */
  w = 0;
  clu_sched_node_up(s, 0, &w);
  CHECK(sends(s, 0, 0, 1, 1));
  CHECK(clu_claim_start(&w, 1));
  CHECK_INT_EQ(clu_sched_node_lost(s, 0, 0, 1), 1);
  w = 0;
  clu_sched_node_up(s, 0, &w);
  CHECK(next_is(s, 0, CLU_ACT_SEND));
  CHECK_INT_EQ(clu_sched_sent(s, &act, 1, 8, 0), CLU_OK);
  CHECK(clu_claim_start(&w, 1));
  CHECK_INT_EQ(clu_sched_answer(s, 0, 1, 0, 5, 0, &end), 1);
  CHECK_INT_EQ(clu_sched_node_lost(s, 0, 0, 1), 1);
  CHECK_INT_EQ(clu_sched_node_lost(s, 0, 0, 1), 0);
  clu_sched_free(s);
}

TEST(a_deadline_that_has_passed_is_not_waited_for) {
  clu_sched *s = clu_sched_new(50);
  clu_claim w = 0;
  job(s, 1, 0, 1, 100);
  CHECK(clu_sched_wait(s, 7, 1000) == 1000);
  clu_sched_node_up(s, 0, &w);
  CHECK(sends(s, 0, 0, 1, 1));
  CHECK(clu_sched_wait(s, 40, 1000) == 60);
  CHECK(clu_sched_wait(s, 40, 10) == 10);
  CHECK(clu_sched_wait(s, 100, 1000) == 0);
  CHECK(clu_sched_wait(s, 101, 1000) == 0);
  clu_sched_free(s);
}

TEST(nothing_is_urgent_when_the_task_with_the_time_limit_has_ended) {
  clu_sched *s = clu_sched_new(50);
  clu_claim w = 0;
  job(s, 1, 0, 1, 1000);
  clu_sched_node_up(s, 0, &w);
  CHECK(sends(s, 0, 0, 1, 1));
  CHECK(clu_claim_start(&w, 1));
  CHECK(clu_sched_is_urgent(s)); /* the limit has to be in force */
  CHECK_INT_EQ(clu_sched_answer(s, 0, 1, 0, 5, 10, &end), 1);
  CHECK(!clu_sched_is_urgent(s));
  job(s, 1, 0, 1, 1000);
  CHECK(sends(s, 0, 0, 1, 2));
  CHECK(clu_claim_start(&w, 2));
  CHECK(next_is(s, 2000, CLU_ACT_INTERRUPT));
  CHECK(clu_sched_is_urgent(s)); /* it may have to be killed */
  CHECK_INT_EQ(clu_sched_answer(s, 0, 2, 1, 5, 2010, &end), 1);
  CHECK(!clu_sched_is_urgent(s));
  job(s, 1, 0, 1, 1000);
  CHECK(sends(s, 0, 0, 1, 3));
  CHECK(clu_claim_start(&w, 3));
  CHECK_INT_EQ(clu_sched_node_lost(s, 0, 0, 0), 1);
  w = 0;
  clu_sched_node_up(s, 0, &w);
  CHECK(!clu_sched_is_urgent(s));
  clu_sched_free(s);
}

TEST(a_job_for_which_there_is_no_memory_leaves_its_nodes_to_the_caller) {
  clu_sched *s = clu_sched_new(1000);
  unsigned char done[5] = {0, 1, 0, 1, 0};
  clu_job_spec spec = {.n = 5, .done = done, .nonly = 2};
  for (int known = 0; known < 2; known++) { /* whether another job has such nodes */
    spec.only = calloc(2, 1);
    REQUIRE(spec.only);
    no_memory = 1;
    CHECK(!clu_job_new(s, &spec));
    no_memory = 0;
    free(spec.only);
    CHECK(job_for(s, 1, 2, 0));
  }
  clu_sched_free(s);
}
