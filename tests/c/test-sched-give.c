/* The scheduler with stub nodes, and jobs that ask for cores and units of their hosts: who is given
 * what, what is kept for whom, and that it is free again however a task has ended. */
#include "test.h"

#include "scheduler-fixture.h"

#define SECOND 1000000000u
#define HALF (CLU_WHOLE / 2)

static clu_claim claims[8];

/* `n` nodes of one host with so many cores, and one kind of units. */
static clu_sched *cluster(int n, uint32_t cores, uint32_t gpus) {
  clu_host_has has = {.cores = cores};
  int host_of[8] = {0};
  clu_sched *s = clu_sched_new(1000);
  has.units[0] = gpus;
  CHECK_INT_EQ(clu_sched_set_ledger(s, clu_ledger_new(&has, 1), host_of, n), CLU_OK);
  memset(claims, 0, sizeof claims);
  for (int i = 0; i < n; i++) CHECK_INT_EQ(clu_sched_node_up(s, i, &claims[i]), CLU_OK);
  return s;
}

static clu_job *asking(clu_sched *s, uint64_t n, uint32_t cores, uint32_t gpu) {
  clu_need need = {.cores = cores};
  clu_job_spec spec = {.n = n, .retries = 1, .chunk = 1, .needs = &need, .nneeds = 1};
  need.parts[0] = gpu;
  return clu_job_new(s, &spec);
}

static uint64_t seqs[8];
/* The next action is a SEND of one task of `j`, to any node: that one; -1: it is not. */
static int sent(clu_sched *s, uint64_t now, const clu_job *j, uint64_t task) {
  clu_sched_next(s, now, &act);
  if (act.what != CLU_ACT_SEND || act.job != j || act.first != task || act.n != 1) return -1;
  if (clu_sched_sent(s, &act, ++seqs[act.node], 8, now) != CLU_OK) return -1;
  clu_claim_start(&claims[act.node], seqs[act.node]);
  return act.node;
}

static int answers(clu_sched *s, int node, uint64_t took, uint64_t now) {
  return clu_sched_answer(s, node, seqs[node], 0, took, now, &end) == 1;
}

static uint32_t cores_at(const clu_sched *s, int node) {
  const clu_grant *g = clu_sched_node_grant(s, node);
  return g ? g->cores : 0;
}

TEST(tasks_of_two_cores_beside_tasks_of_one) {
  clu_sched *s = cluster(4, 4, 0);
  clu_job *two = asking(s, 2, 2, 0), *one = asking(s, 3, 1, 0);
  int a, b;
  memset(seqs, 0, sizeof seqs);
  a = sent(s, 0, two, 0);
  b = sent(s, 0, two, 1);
  CHECK(a >= 0 && b >= 0 && cores_at(s, a) == 2 && cores_at(s, b) == 2);
  CHECK(next_is(s, 0, CLU_ACT_NONE));
  CHECK(answers(s, b, SECOND, 0) && cores_at(s, b) == 0);
  CHECK(sent(s, 0, one, 0) >= 0 && sent(s, 0, one, 1) >= 0);
  CHECK(next_is(s, 0, CLU_ACT_NONE));
  CHECK(answers(s, a, SECOND, 0));
  a = sent(s, 0, one, 2);
  CHECK(a >= 0 && cores_at(s, a) == 2); /* the last one has what nobody else wants */
  clu_sched_free(s);
}

TEST(a_task_that_wants_no_more_leaves_the_free_cores_to_the_next_one) {
  clu_sched *s = cluster(2, 4, 0);
  clu_need need = {.cores = 2, .exact = 1};
  clu_job_spec spec = {.n = 1, .retries = 1, .chunk = 1, .needs = &need, .nneeds = 1};
  int a, b;
  memset(seqs, 0, sizeof seqs);
  a = sent(s, 0, clu_job_new(s, &spec), 0);
  CHECK(a >= 0 && cores_at(s, a) == 2);
  b = sent(s, 0, clu_job_new(s, &spec), 0);
  CHECK(b >= 0 && cores_at(s, b) == 2);
  clu_sched_free(s);
}

TEST(a_unit_is_free_when_its_node_is_lost) {
  clu_sched *s = cluster(3, 8, 1);
  clu_job *j = asking(s, 2, 0, CLU_WHOLE);
  int a, b;
  memset(seqs, 0, sizeof seqs);
  a = sent(s, 0, j, 0);
  CHECK(a >= 0 && clu_grant_has(clu_sched_node_grant(s, a), 0, 0));
  CHECK(next_is(s, 0, CLU_ACT_NONE));
  CHECK(clu_sched_node_lost(s, a, 1, CLU_RETRY_COUNTED));
  b = sent(s, 0, j, 0); /* again, before the next one, and at another node */
  CHECK(b >= 0 && b != a && act.attempt == 2);
  CHECK(clu_grant_has(clu_sched_node_grant(s, b), 0, 0));
  CHECK(answers(s, b, SECOND, 0));
  CHECK(sent(s, 0, j, 1) >= 0);
  clu_sched_free(s);
}

TEST(halves_share_a_unit) {
  clu_sched *s = cluster(4, 8, 1);
  clu_job *j = asking(s, 3, 0, HALF);
  memset(seqs, 0, sizeof seqs);
  CHECK(sent(s, 0, j, 0) >= 0 && sent(s, 0, j, 1) >= 0);
  CHECK(next_is(s, 0, CLU_ACT_NONE));
  clu_sched_free(s);
}

TEST(others_go_on_beside_a_job_that_waits_for_a_unit) {
  clu_sched *s = cluster(3, 3, 1);
  clu_job *gpu = asking(s, 2, 1, CLU_WHOLE), *later = asking(s, 1, 1, CLU_WHOLE);
  clu_job *plain = job(s, 2, 0, 1, 0);
  int a;
  memset(seqs, 0, sizeof seqs);
  a = sent(s, 0, gpu, 0);
  CHECK(sent(s, 0, plain, 0) >= 0 && sent(s, 0, plain, 1) >= 0);
  CHECK(next_is(s, 0, CLU_ACT_NONE));
  CHECK(answers(s, a, SECOND, 0));
  a = sent(s, 0, gpu, 1); /* in order */
  CHECK(a >= 0 && answers(s, a, SECOND, 0));
  CHECK(sent(s, 0, later, 0) >= 0);
  clu_sched_free(s);
}

TEST(what_comes_later_does_not_keep_a_job_from_its_cores) {
  clu_sched *s = cluster(4, 4, 0);
  clu_job *before = job(s, 2, 0, 1, 0), *four = asking(s, 1, 4, 0), *after = job(s, 4, 0, 1, 0);
  int a, b;
  memset(seqs, 0, sizeof seqs);
  a = sent(s, 0, before, 0);
  b = sent(s, 0, before, 1);
  CHECK(a >= 0 && b >= 0 && next_is(s, 0, CLU_ACT_NONE)); /* all cores are kept for the second */
  CHECK(answers(s, a, SECOND, 0) && next_is(s, 0, CLU_ACT_NONE));
  CHECK(answers(s, b, SECOND, 0));
  a = sent(s, 0, four, 0);
  CHECK(a >= 0 && cores_at(s, a) == 4);
  CHECK(sent(s, 0, after, 0) >= 0); /* what asks for nothing waits for no core */
  clu_sched_free(s);
}

TEST(nothing_is_sent_ahead_of_a_job_that_waits_for_a_node) {
  clu_sched *s = cluster(1, 4, 1);
  clu_job *before = job(s, 1, 0, 1, 0), *gpu, *after;
  memset(seqs, 0, sizeof seqs);
  CHECK(sent(s, 0, before, 0) == 0);
  gpu = asking(s, 1, 1, CLU_WHOLE);
  after = job(s, 1, 0, 1, 0);
  CHECK(next_is(s, 0, CLU_ACT_NONE));
  CHECK(answers(s, 0, SECOND, 0) && sent(s, 0, gpu, 0) == 0);
  CHECK(next_is(s, 0, CLU_ACT_NONE)); /* and nothing behind it */
  CHECK(answers(s, 0, SECOND, 0) && sent(s, 0, after, 0) == 0);
  clu_sched_free(s);
}

TEST(what_could_not_be_sent_holds_nothing) {
  clu_sched *s = cluster(2, 2, 1);
  clu_job *j = asking(s, 1, 2, CLU_WHOLE);
  CHECK(next_is(s, 0, CLU_ACT_SEND) && act.job == j && cores_at(s, act.node) == 2);
  clu_sched_unsent(s, &act);
  for (int i = 0; i < 2; i++) CHECK(!clu_sched_node_grant(s, i));
  CHECK(next_is(s, 0, CLU_ACT_SEND) && act.job == j && act.grant);
  clu_sched_free(s);
}

TEST(what_is_on_its_way_to_a_node_that_is_lost_holds_nothing) {
  clu_sched *s = cluster(1, 2, 1);
  clu_job *j = asking(s, 2, 1, CLU_WHOLE);
  clu_action first;
  CHECK(next_is(s, 0, CLU_ACT_SEND));
  first = act;
  clu_sched_node_lost(s, 0, 1, CLU_RETRY_COUNTED);
  claims[0] = 0;
  clu_sched_node_up(s, 0, &claims[0]);
  CHECK(next_is(s, 0, CLU_ACT_SEND) && act.job == j && act.first == 1);
  clu_sched_unsent(s, &first); /* which is not what the new one has */
  CHECK(clu_sched_node_grant(s, 0) && cores_at(s, 0) == 2);
  CHECK_INT_EQ(clu_sched_sent(s, &act, 1, 8, 0), CLU_OK);
  CHECK(next_is(s, 0, CLU_ACT_NONE));
  clu_sched_free(s);
}

TEST(cancelled_tasks_hold_what_they_have_until_they_have_ended) {
  clu_sched *s = cluster(2, 2, 1);
  clu_job *j = asking(s, 1, 0, CLU_WHOLE), *next = asking(s, 1, 0, CLU_WHOLE);
  int a;
  memset(seqs, 0, sizeof seqs);
  a = sent(s, 0, j, 0);
  clu_job_cancel(s, j, 10);
  CHECK(next_is(s, 10, CLU_ACT_INTERRUPT));
  CHECK(next_is(s, 10, CLU_ACT_NONE));
  CHECK_INT_EQ(clu_sched_answer(s, a, seqs[a], 1, 5, 20, &end), 0);
  CHECK(sent(s, 20, next, 0) >= 0);
  clu_sched_free(s);
}

TEST(each_task_of_a_map_can_ask_for_something_else) {
  clu_sched *s = cluster(4, 8, 2);
  clu_need needs[3] = {{.cores = 1}, {.cores = 6}, {.memory = 100}};
  uint32_t need_of[4] = {0, 1, 2, 1};
  clu_job_spec spec = {.n = 4, .needs = needs, .nneeds = 3, .need_of = need_of};
  clu_job *j = clu_job_new(s, &spec);
  int a;
  memset(seqs, 0, sizeof seqs);
  CHECK(sent(s, 0, j, 0) >= 0);
  a = sent(s, 0, j, 1);
  CHECK(a >= 0 && cores_at(s, a) == 6);
  CHECK(sent(s, 0, j, 2) >= 0 && act.need->memory == 100);
  CHECK(next_is(s, 0, CLU_ACT_NONE));
  CHECK(answers(s, a, SECOND, 0) && sent(s, 0, j, 3) >= 0);
  clu_sched_free(s);
}

TEST(a_task_that_may_not_leave_yet_does_not_say_what_is_asked_for) {
  clu_sched *s = cluster(4, 8, 1);
  clu_need needs[2] = {{.cores = 1}, {.cores = 1}};
  uint32_t need_of[2] = {0, 1};
  clu_job_spec spec = {.n = 2, .needs = needs, .nneeds = 2, .need_of = need_of};
  clu_job *j, *other;
  int a = -1, b = -1;
  needs[0].parts[0] = HALF;
  j = clu_job_new(s, &spec);
  REQUIRE(j);
  memset(seqs, 0, sizeof seqs);
  for (uint64_t k = 0; k < 2; k++) { /* nobody begins with them */
    CHECK(next_is(s, 0, CLU_ACT_SEND) && act.first == k);
    CHECK_INT_EQ(clu_sched_sent(s, &act, ++seqs[act.node], 8, 0), CLU_OK);
    if (k == 0) a = act.node;
    b = act.node;
  }
  clu_job_until(s, j, 1);
  clu_sched_node_lost(s, a, 1, CLU_RETRY_COUNTED);
  clu_sched_node_lost(s, b, 2, CLU_RETRY_COUNTED);
  other = asking(s, 1, 0, CLU_WHOLE);
  /* the unit is somebody else's before the first task can leave again */
  clu_job_until(s, j, 0);
  CHECK(sent(s, 0, other, 0) >= 0);
  clu_job_until(s, j, 1);
  CHECK(next_is(s, 0, CLU_ACT_NONE));
  clu_job_until(s, j, UINT64_MAX);
  CHECK(sent(s, 0, j, 1) >= 0);
  clu_sched_free(s);
}

TEST(hosts_that_never_have_it_are_not_waited_for) {
  clu_host_has has[2] = {{.cores = 2}, {.cores = 2}};
  int host_of[2] = {0, 1};
  clu_sched *s = clu_sched_new(1000);
  clu_job *j;
  has[1].units[0] = 1;
  memset(seqs, 0, sizeof seqs);
  memset(claims, 0, sizeof claims);
  CHECK_INT_EQ(clu_sched_set_ledger(s, clu_ledger_new(has, 2), host_of, 2), CLU_OK);
  clu_sched_node_up(s, 0, &claims[0]);
  j = asking(s, 1, 0, CLU_WHOLE);
  CHECK(!clu_job_has_node(s, j) && next_is(s, 0, CLU_ACT_NONE));
  clu_sched_node_up(s, 1, &claims[1]);
  CHECK(clu_job_has_node(s, j) && sent(s, 0, j, 0) == 1);
  clu_sched_free(s);
}

/* Where a kind of units is found out later, tasks that are at work keep what they have. */
TEST(what_was_given_is_not_free_in_a_second_ledger) {
  clu_sched *s = cluster(3, 4, 1);
  clu_job *j = asking(s, 3, 2, CLU_WHOLE);
  clu_host_has has = {.cores = 4, .units = {1, 1}};
  int host_of[3] = {0}, a;
  memset(seqs, 0, sizeof seqs);
  a = sent(s, 0, j, 0);
  CHECK(a >= 0 && next_is(s, 0, CLU_ACT_NONE));
  CHECK_INT_EQ(clu_sched_set_ledger(s, clu_ledger_new(&has, 1), host_of, 3), CLU_OK);
  CHECK(next_is(s, 0, CLU_ACT_NONE) && cores_at(s, a) == 2);
  CHECK(answers(s, a, SECOND, 0));
  a = sent(s, 0, j, 1);
  CHECK(a >= 0 && next_is(s, 0, CLU_ACT_NONE));
  CHECK(answers(s, a, SECOND, 0) && sent(s, 0, j, 2) >= 0);
  clu_sched_free(s);
}

/* ---- the last ones ---- */

/* Nine equal tasks on eight cores: the last one waits for the others, which are about to end, and
 * has all cores then. */
TEST(the_last_of_nine_on_eight_gets_all_cores) {
  clu_sched *s = cluster(8, 8, 0);
  clu_job *j = asking(s, 9, 1, 0);
  uint64_t now = SECOND;
  int nodes[9];
  memset(seqs, 0, sizeof seqs);
  for (int k = 0; k < 8; k++) {
    nodes[k] = sent(s, now, j, (uint64_t)k);
    CHECK(nodes[k] >= 0 && cores_at(s, nodes[k]) == 1);
  }
  for (int k = 0; k < 8; k++) {
    CHECK(next_is(s, now, CLU_ACT_NONE));
    if (k == 1) CHECK(clu_sched_deadline(s) < now + SECOND); /* it is asked again in any case */
    now = 2 * (uint64_t)SECOND + (uint64_t)k * 1000000;
    CHECK(answers(s, nodes[k], SECOND + (uint64_t)k * 1000000, now));
  }
  nodes[8] = sent(s, now, j, 8);
  CHECK(nodes[8] >= 0 && cores_at(s, nodes[8]) == 8);
  clu_sched_free(s);
}

TEST(the_last_one_does_not_wait_for_what_takes_long) {
  clu_sched *s = cluster(2, 2, 0);
  clu_job *j = asking(s, 3, 1, 0);
  uint64_t now = SECOND;
  int a, b;
  memset(seqs, 0, sizeof seqs);
  a = sent(s, now, j, 0);
  b = sent(s, now, j, 1);
  CHECK(a >= 0 && b >= 0);
  now += SECOND;
  CHECK(answers(s, a, SECOND, now)); /* the other should have ended, too: it is waited for */
  CHECK(next_is(s, now, CLU_ACT_NONE));
  now += SECOND / 2; /* it takes longer than that */
  CHECK(sent(s, now, j, 2) == a && cores_at(s, a) == 1);
  clu_sched_free(s);
}

TEST(what_is_free_is_shared_by_those_that_are_left) {
  clu_sched *s = cluster(4, 8, 0);
  clu_job *j = asking(s, 3, 1, 0);
  memset(seqs, 0, sizeof seqs);
  CHECK_INT_EQ(cores_at(s, sent(s, 0, j, 0)), 2);
  CHECK_INT_EQ(cores_at(s, sent(s, 0, j, 1)), 3);
  CHECK_INT_EQ(cores_at(s, sent(s, 0, j, 2)), 3);
  clu_sched_free(s);
}
