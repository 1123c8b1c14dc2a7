/* The scheduler's decisions, asked of states made by hand. */
#include "test.h"

#include "core/base/err.h"
#include "core/sched/sched-policy.h"

enum { NODES = 4 };

static clu_sched sched;
static clu_sched_node nodes[NODES], *table[NODES];
static clu_claim words[NODES];
static clu_group any, some;
static unsigned char flags[NODES];
static clu_job job;

/* Nodes 0 ... up - 1 are up and idle; a job of `n` tasks for any of them, and a group of those that
 * may be done by none. */
static void make_state(int up, uint64_t n) {
  /* on Windows all tests run in one process */
  memset(&sched, 0, sizeof sched);
  memset(nodes, 0, sizeof nodes);
  memset(words, 0, sizeof words);
  memset(&any, 0, sizeof any);
  memset(&some, 0, sizeof some);
  memset(flags, 0, sizeof flags);
  memset(&job, 0, sizeof job);
  sched.nodes = table;
  sched.n = NODES;
  sched.up = up;
  for (int i = 0; i < NODES; i++) {
    table[i] = &nodes[i];
    nodes[i].index = i;
    nodes[i].up = i < up;
    nodes[i].claim = &words[i];
  }
  clu_list_init(&any.waiting);
  clu_list_init(&some.waiting);
  some.only = flags;
  some.nonly = NODES;
  sched.groups = &some;
  some.next = &any;
  clu_pending_init(&job.pending, n);
  job.group = &any;
  job.id = 1;
  clu_list_push_back(&any.waiting, &job.waiting);
}

static clu_batch *give(clu_sched_node *nd, clu_job *j, uint32_t n) {
  clu_batch *b;
  REQUIRE(clu_batches_push(&nd->batches, &b) == CLU_OK);
  memset(b, 0, sizeof *b);
  b->job = j;
  b->n = n;
  b->attempt = 1;
  b->last = -1;
  nd->tasks += n;
  return b;
}

TEST(a_batch_is_as_long_as_times_and_sizes_say) {
  make_state(2, 1000000);
  CHECK_INT_EQ(clu_policy_batch_size(&sched, &job, &nodes[0]), 1); /* nothing is known */
  job.time = 1000;
  CHECK_INT_EQ(clu_policy_batch_size(&sched, &job, &nodes[0]), CLU_AHEAD / 2 / 1000);
  job.time = 1;
  CHECK_INT_EQ(clu_policy_batch_size(&sched, &job, &nodes[0]), CLU_BATCH_MOST);
  job.bytes = CLU_BATCH_BYTES / 10;
  CHECK_INT_EQ(clu_policy_batch_size(&sched, &job, &nodes[0]), 10);
  job.bytes = 10 * CLU_BATCH_BYTES;
  CHECK_INT_EQ(clu_policy_batch_size(&sched, &job, &nodes[0]), 1);
  job.bytes = 0;
  nodes[1].claim = NULL; /* cannot be taken back */
  CHECK_INT_EQ(clu_policy_batch_size(&sched, &job, &nodes[1]), 64);
  job.pending.waiting = 40; /* near the end: a quarter for each of two, twice */
  CHECK_INT_EQ(clu_policy_batch_size(&sched, &job, &nodes[0]), 10);
  job.spec.chunk = 7;
  CHECK_INT_EQ(clu_policy_batch_size(&sched, &job, &nodes[0]), 7);
}

TEST(so_much_may_be_with_a_node_that_it_has_no_pause) {
  make_state(2, 1000000);
  CHECK_INT_EQ(clu_policy_most_at(&sched, &job, &nodes[0]), 2);
  job.spec.chunk = 1;
  job.time = 100000;
  CHECK_INT_EQ(clu_policy_most_at(&sched, &job, &nodes[0]), CLU_AHEAD / 100000);
  job.time = 1;
  CHECK_INT_EQ(clu_policy_most_at(&sched, &job, &nodes[0]), 512);
  job.time = 1000000000;
  CHECK_INT_EQ(clu_policy_most_at(&sched, &job, &nodes[0]), 2);
  nodes[0].claim = NULL;
  CHECK_INT_EQ(clu_policy_most_at(&sched, &job, &nodes[0]), 1);
}

TEST(a_node_is_ready_when_it_is_idle_or_has_room) {
  clu_sched_node *nd = &nodes[0];
  make_state(1, 100);
  CHECK_INT_EQ(clu_policy_readiness(&sched, nd), CLU_IDLE);
  give(nd, &job, 1);
  CHECK_INT_EQ(clu_policy_readiness(&sched, nd), CLU_HAS_ROOM);
  give(nd, &job, 1);
  CHECK_INT_EQ(clu_policy_readiness(&sched, nd), CLU_NOT_READY);
  job.spec.chunk = 2;
  CHECK_INT_EQ(clu_policy_readiness(&sched, nd), CLU_HAS_ROOM);
  nd->claim = NULL;
  CHECK_INT_EQ(clu_policy_readiness(&sched, nd), CLU_NOT_READY);
  nd->claim = &words[0];
  nd->draining = 1;
  CHECK_INT_EQ(clu_policy_readiness(&sched, nd), CLU_NOT_READY);
  nd->draining = 0;
  nd->interrupt = CLU_INTERRUPT_DUE;
  CHECK_INT_EQ(clu_policy_readiness(&sched, nd), CLU_NOT_READY);
  nd->interrupt = CLU_INTERRUPT_NONE;
  nd->up = 0;
  CHECK_INT_EQ(clu_policy_readiness(&sched, nd), CLU_NOT_READY);
  clu_batches_fini(&nd->batches);
}

TEST(who_may_do_a_job_is_known_by_its_group) {
  make_state(3, 5);
  CHECK(clu_policy_may_do(&job, 0) && clu_policy_may_do(&job, 99));
  CHECK(clu_policy_others_may(&sched, &job, -1) && clu_policy_others_may(&sched, &job, 0));
  sched.up = 1;
  CHECK(!clu_policy_others_may(&sched, &job, 0) &&
        clu_policy_others_may(&sched, &job, 3)); /* node 3 is not up */
  sched.up = 3;
  job.group = &some;
  flags[2] = 1;
  CHECK(!clu_policy_may_do(&job, 0) && clu_policy_may_do(&job, 2) && !clu_policy_may_do(&job, 99));
  CHECK(clu_policy_others_may(&sched, &job, 0) && !clu_policy_others_may(&sched, &job, 2));
  flags[3] = 1; /* is not up */
  CHECK(!clu_policy_others_may(&sched, &job, 2));
}

TEST(a_retry_avoids_its_node_where_there_is_another) {
  clu_taken x;
  make_state(2, 1);
  CHECK_INT_EQ(clu_policy_avoid(&sched, &job, 0), -1);
  REQUIRE(clu_pending_take(&job.pending, 1, -1, &x));
  REQUIRE(clu_pending_retry(&job.pending, 0, 1, 0) == CLU_OK);
  CHECK_INT_EQ(clu_policy_avoid(&sched, &job, 0), 0);
  CHECK_INT_EQ(clu_policy_avoid(&sched, &job, 1), -1);
  CHECK(!clu_policy_job_for(&sched, 0) && clu_policy_job_for(&sched, 1) == &job);
  sched.up = 1;
  CHECK_INT_EQ(clu_policy_avoid(&sched, &job, 0), -1);
  CHECK(clu_policy_job_for(&sched, 0) == &job);
  /* who has nothing to do leaves it to another one that has nothing to do, and to no other */
  sched.up = 2;
  clu_list_init(&sched.idle);
  nodes[0].readiness = CLU_IDLE;
  clu_list_push_back(&sched.idle, &nodes[0].ready);
  CHECK_INT_EQ(clu_policy_avoid(&sched, &job, 0), -1);
  nodes[1].readiness = CLU_IDLE;
  clu_list_push_back(&sched.idle, &nodes[1].ready);
  CHECK_INT_EQ(clu_policy_avoid(&sched, &job, 0), 0);
  clu_pending_fini(&job.pending);
}

TEST(the_job_that_came_first_is_served_first) {
  clu_job late;
  memset(&late, 0, sizeof late);
  make_state(2, 5);
  clu_pending_init(&late.pending, 5);
  late.id = 2;
  late.group = &some;
  flags[1] = 1;
  clu_list_push_back(&some.waiting, &late.waiting);
  CHECK(clu_policy_job_for(&sched, 1) == &job);
  clu_list_remove(&job.waiting);
  CHECK(clu_policy_job_for(&sched, 1) == &late);
  CHECK(!clu_policy_job_for(&sched, 0)); /* may not do it */
}

TEST(what_need_not_have_begun_may_be_stolen_by_who_may_do_it) {
  clu_sched_node *nd = &nodes[0];
  clu_batch *b;
  make_state(3, 5);
  b = give(nd, &job, 1);
  CHECK(!clu_policy_may_steal(&sched, nd, 1)); /* the node is at it */
  b->n = 2;
  CHECK(clu_policy_may_steal(&sched, nd, 1));
  b->cancelled = 1;
  CHECK(!clu_policy_may_steal(&sched, nd, 1));
  b = give(nd, &job, 1);
  CHECK(clu_policy_may_steal(&sched, nd, 1));
  b->attempt = 2; /* a retry that must not meet node 1 */
  b->last = 1;
  CHECK(!clu_policy_may_steal(&sched, nd, 1) && clu_policy_may_steal(&sched, nd, 2));
  job.group = &some;
  CHECK(!clu_policy_may_steal(&sched, nd, 2));
  clu_batches_fini(&nd->batches);
}

TEST(what_is_sent_at_once_behind_a_batch_makes_it_longer) {
  clu_sched_node *nd = &nodes[0];
  clu_action a;
  clu_batch *b;
  make_state(1, 100);
  memset(&a, 0, sizeof a);
  a.job = &job;
  a.first = 3;
  a.n = 1;
  a.attempt = 1;
  CHECK(!clu_policy_extends(nd, &a, 4, 5));
  b = give(nd, &job, 3);
  b->seq = 1;
  CHECK(clu_policy_extends(nd, &a, 4, 5));
  CHECK(!clu_policy_extends(nd, &a, 5, 5));          /* a call is between them */
  CHECK(!clu_policy_extends(nd, &a, 4, 1000000000)); /* later */
  a.first = 9;
  CHECK(!clu_policy_extends(nd, &a, 4, 5));
  a.first = 3;
  a.attempt = 2;
  CHECK(!clu_policy_extends(nd, &a, 4, 5));
  a.attempt = 1;
  b->cancelled = 1;
  CHECK(!clu_policy_extends(nd, &a, 4, 5));
  b->cancelled = 0;
  nd->claim = NULL;
  CHECK(!clu_policy_extends(nd, &a, 4, 5));
  clu_batches_fini(&nd->batches);
}

TEST(of_quick_jobs_of_one_task_many_wait_at_a_node) {
  clu_sched_node *nd = &nodes[0];
  make_state(2, 1);
  job.spec.n = 1;
  sched.waiting = 100000;
  CHECK_INT_EQ(clu_policy_most_at(&sched, &job, nd), 2); /* nothing is known */
  any.time = 1000000000;
  CHECK_INT_EQ(clu_policy_most_at(&sched, &job, nd), 2);
  any.time = 990000;
  CHECK_INT_EQ(clu_policy_most_at(&sched, &job, nd), 4);
  any.time = 10000;
  CHECK_INT_EQ(clu_policy_most_at(&sched, &job, nd), 200);
  any.bytes = CLU_BATCH_BYTES / 10;
  CHECK_INT_EQ(clu_policy_most_at(&sched, &job, nd), 20);
  any.bytes = 10;
  sched.waiting = 40; /* a half for each of two */
  CHECK_INT_EQ(clu_policy_most_at(&sched, &job, nd), 20);
  /* it is filled up, and then not before half of it is done */
  for (int i = 0; i < 3; i++) give(nd, &job, 1);
  CHECK_INT_EQ(clu_policy_readiness(&sched, nd), CLU_HAS_ROOM);
  nd->readiness = CLU_HAS_ROOM;
  nd->tasks = 19;
  CHECK_INT_EQ(clu_policy_readiness(&sched, nd), CLU_HAS_ROOM);
  nd->tasks = 20;
  CHECK_INT_EQ(clu_policy_readiness(&sched, nd), CLU_NOT_READY);
  nd->readiness = CLU_NOT_READY;
  nd->tasks = 11;
  CHECK_INT_EQ(clu_policy_readiness(&sched, nd), CLU_NOT_READY);
  nd->tasks = 10;
  CHECK_INT_EQ(clu_policy_readiness(&sched, nd), CLU_HAS_ROOM);
  nd->claim = NULL;
  CHECK_INT_EQ(clu_policy_most_at(&sched, &job, nd), 1);
  clu_batches_fini(&nd->batches);
}
