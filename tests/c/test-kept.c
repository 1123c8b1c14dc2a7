/* Nodes that the fork server starts again when they have died. */
#include "server-fixture.h"

/* Folders that nodes have: one that was killed before it has put its file there leaves an empty
 * one, which is kept for the next. */
static int in_use(const char *dir) {
  DIR *d = opendir(dir);
  struct dirent *entry;
  int n = 0;
  if (!d) return -1;
  while ((entry = readdir(d))) n += entry->d_name[0] != '.' && !strstr(entry->d_name, CLU_GONE);
  closedir(d);
  return n;
}

static void up_kept(fixture *r, int nodes) {
  clu_err e;
  up(r, 0);
  for (r->n = 0; r->n < nodes; r->n++)
    REQUIRE(clu_node_new_fork(r->s, CLU_START_KEPT, &r->nd[r->n], &e) == CLU_OK);
  PUMP(r, all_in(r, CLU_NODE_READY));
}

/* Kills it, and waits until another process is in its place. */
static void expect_another(fixture *r, clu_node *nd) {
  clu_pid old = nd->pid;
  kill((pid_t)old, SIGKILL);
  PUMP(r, nd->pid != old);
  CHECK(gone(old) && !gone(nd->pid));
  CHECK_INT_EQ(nd->state, CLU_NODE_READY);
}

static uint64_t slot_of(fixture *r, clu_node *nd) {
  for (int i = 0; i < r->s->nslots; i++)
    if (r->s->slots[i] == nd->id) return (uint64_t)i;
  return CLU_SLOTS;
}

TEST(another_process_takes_the_place_of_one_that_has_died) {
  fixture r;
  up_kept(&r, 3);
  expect_another(&r, r.nd[1]);
  expect_another(&r, r.nd[1]);
  expect_another(&r, r.nd[0]);
  CHECK_INT_EQ(r.s->live, 3);
  echo_all(&r, -1); /* all on the same channels */
  /* a node makes its folder before its first answer; that of a dead one goes meanwhile */
  PUMP(&r, in_use(r.tmp) == 3);
  down(&r);
}

TEST(that_needs_nobody_who_looks) {
  fixture r;
  clu_pid old;
  char comm[100];
  int n = 0;
  up_kept(&r, 1);
  old = r.nd[0]->pid;
  kill((pid_t)old, SIGKILL);
  /* nothing is pumped here: what is asked is the system */
  for (double end = test_ms() + 10000; n == 0 && test_ms() < end; test_pause()) {
    FILE *f;
    long pid;
    snprintf(comm, sizeof comm, "/proc/%d/task/%d/children", (int)r.s->pid, (int)r.s->pid);
    if (!(f = fopen(comm, "re"))) continue;
    while (fscanf(f, "%ld", &pid) == 1) n += pid != (long)old;
    fclose(f);
  }
  CHECK_INT_EQ(n, 1);
  PUMP(&r, r.nd[0]->pid != old);
  down(&r);
}

TEST(one_that_dies_at_once_is_started_after_pauses) {
  fixture r;
  double began;
  up_kept(&r, 1);
  began = test_ms();
  for (int i = 0; i < 4; i++) expect_another(&r, r.nd[0]);
  CHECK(test_ms() - began >= 50 + 100 + 200 + 400);
  down(&r);
}

TEST(one_that_is_done_is_not_started_again) {
  fixture r;
  up_kept(&r, 2);
  r.s->shared->cancel[slot_of(&r, r.nd[0])] = CLU_NODE_DONE; /* as the node would */
  kill((pid_t)r.nd[0]->pid, SIGKILL);
  PUMP(&r, clu_node_end_known(r.nd[0]));
  CHECK_INT_EQ(r.nd[0]->state, CLU_NODE_LOST);
  pump_for(&r, 100);
  CHECK(gone(r.nd[0]->pid));
  CHECK_INT_EQ(in_use(r.tmp), 1);
  expect_another(&r, r.nd[1]);
  down(&r);
}

TEST(one_that_was_stopped_is_not_started_again) {
  fixture r;
  up_kept(&r, 2);
  clu_node_stop(r.nd[0], 0);
  PUMP(&r, clu_node_end_known(r.nd[0]));
  pump_for(&r, 100);
  CHECK_INT_EQ(in_use(r.tmp), 1);
  CHECK_INT_EQ(r.nd[1]->state, CLU_NODE_READY);
  down(&r);
}

TEST(one_can_be_stopped_while_it_waits_for_its_start) {
  fixture r;
  up_kept(&r, 1);
  for (int i = 0; i < 3; i++) expect_another(&r, r.nd[0]);
  kill((pid_t)r.nd[0]->pid, SIGKILL); /* 400 ms until the next */
  PUMP(&r, in_use(r.tmp) == 0);
  clu_node_stop(r.nd[0], 0);
  PUMP(&r, clu_node_end_known(r.nd[0]));
  pump_for(&r, 600);
  CHECK_INT_EQ(in_use(r.tmp), 0);
  down(&r);
}

TEST(they_keep_a_server_from_being_idle) {
  fixture r;
  clu_err e;
  up_with(&r, "TEST_STUB_IDLE_MS=100");
  REQUIRE(clu_node_new_fork(r.s, CLU_START_KEPT, &r.nd[0], &e) == CLU_OK);
  r.n = 1;
  PUMP(&r, all_in(&r, CLU_NODE_READY));
  for (int i = 0; i < 3; i++) expect_another(&r, r.nd[0]); /* the last after 200 ms */
  CHECK_INT_EQ(r.s->state, CLU_SERVER_READY);
  clu_node_stop(r.nd[0], 0);
  PUMP(&r, r.s->state == CLU_SERVER_ENDED);
  CHECK_INT_EQ(r.s->idle, 1);
  down(&r);
}

TEST(all_end_with_the_session) {
  fixture r;
  up_kept(&r, 4);
  clu_server_close(r.s);
  CHECK_SOON(clu_server_reap(r.s), 10000);
  CHECK(all_gone(&r));
  down(&r);
}

TEST(an_unknown_kind_of_start_is_refused) {
  fixture r;
  clu_err e;
  up(&r, 0);
  REQUIRE(clu_node_new_fork(r.s, 9, &r.nd[0], &e) == CLU_OK);
  r.n = 1;
  PUMP(&r, clu_node_refusal(r.nd[0]) != NULL);
  CHECK(strstr(clu_node_refusal(r.nd[0]), "kind of start") != NULL);
  down(&r);
}
