/* Requests of the session: cancels, late and doubled answers, signals; and the slots of its nodes.
 */
#include "server-fixture.h"

/* ---- cancels ---- */

TEST(a_cancelled_request_leaves_the_node_in_step) {
  fixture r;
  up(&r, 2);
  for (uint32_t k = 0; k < 20; k++) {
    call(r.nd[0], SLEEP, k, 5, 1);
    pump_for(&r, k % 4 ? 0 : 20);
    CHECK(clu_node_in_step(r.nd[0]));
    clu_node_cancel(r.nd[0], 1);
    CHECK(!clu_node_in_step(r.nd[0]));
    CHECK(clu_node_first(r.nd[0]) == NULL);
    PUMP(&r, clu_node_in_step(r.nd[0]));
    CHECK_INT_EQ(r.nd[0]->requests.n, 0);
    call(r.nd[0], ECHO, k, 100, 2);
    expect_echo(&r, r.nd[0], ECHO, k, 100);
  }
  echo_all(&r, -1);
  down(&r);
}

TEST(a_late_answer_is_never_taken) {
  fixture r;
  up(&r, 1);
  for (uint32_t k = 0; k < 5; k++) {
    call(r.nd[0], LATE, 100 + k, 100, 1);
    pump_for(&r, 20);
    clu_node_cancel(r.nd[0], 1);
    call(r.nd[0], ECHO, k, 100, 2); /* at once: behind the cancelled one */
    CHECK(!has_answer(r.nd[0]));
    expect_echo(&r, r.nd[0], ECHO, k, 100);
    PUMP(&r, clu_node_in_step(r.nd[0]));
    CHECK_INT_EQ(r.nd[0]->requests.n, 0);
  }
  CHECK_INT_EQ(r.nd[0]->done, 5);
  down(&r);
}

TEST(what_is_half_written_is_withdrawn) {
  fixture r;
  up(&r, 1);
  call(r.nd[0], SLEEP, 0, 5, 1);
  pump_for(&r, 20);
  call(r.nd[0], ECHO, 1, (size_t)12 << 20, 2); /* more than the sockets hold */
  call(r.nd[0], ECHO, 2, (size_t)5 << 20, 2);
  CHECK(clu_chan_pending(&r.nd[0]->chan));
  clu_node_cancel(r.nd[0], 2);
  CHECK_INT_EQ(r.nd[0]->requests.n, 1);
  call(r.nd[0], ECHO, 3, 100, 3);
  clu_node_cancel(r.nd[0], 1);
  expect_echo(&r, r.nd[0], ECHO, 3, 100);
  PUMP(&r, clu_node_in_step(r.nd[0]));
  CHECK_INT_EQ(r.nd[0]->done, 1);
  CHECK_INT_EQ(r.nd[0]->state, CLU_NODE_READY);
  CHECK_INT_EQ(r.s->state, CLU_SERVER_READY);
  down(&r);
}

TEST(a_cancelled_request_behind_one_that_counts_is_interrupted_when_it_is_its_turn) {
  fixture r;
  up(&r, 1);
  call(r.nd[0], LATE, 100, 50, 1);
  call(r.nd[0], SLEEP, 0, 5, 2);
  pump_for(&r, 20);
  clu_node_cancel(r.nd[0], 2);
  expect_echo(&r, r.nd[0], LATE, 100, 50);
  PUMP(&r, clu_node_in_step(r.nd[0]));
  down(&r);
}

TEST(a_row_of_requests_is_cancelled_one_by_one) {
  fixture r;
  up(&r, 1);
  for (int i = 0; i < 10; i++) call(r.nd[0], SLEEP, 0, 5, 1);
  pump_for(&r, 20);
  clu_node_cancel(r.nd[0], 0);
  PUMP(&r, clu_node_in_step(r.nd[0]));
  CHECK_INT_EQ(r.nd[0]->requests.n, 0);
  echo_all(&r, -1);
  down(&r);
}

/* ---- signals ---- */

TEST(a_storm_of_signals_changes_no_byte) {
  fixture r;
  up(&r, 2);
  for (int i = 0; i < 2; i++) { /* in the nodes, too, whose descriptors block */
    call(r.nd[i], TICK, 0, 5, 1);
    expect_echo(&r, r.nd[i], TICK, 0, 5);
  }
  tick(1); /* takes the place of the harness's alarm; the runner has its own clock */
  for (uint32_t k = 0; k < 100; k++) {
    for (uint32_t i = 0; i < 2; i++) call(r.nd[i], ECHO, 2 * k + i, 100000, 1);
    for (uint32_t i = 0; i < 2; i++) expect_echo(&r, r.nd[i], ECHO, 2 * k + i, 100000);
  }
  for (uint32_t i = 0; i < 2; i++) call(r.nd[i], ECHO, i, (size_t)5 << 20, 1);
  for (uint32_t i = 0; i < 2; i++) expect_echo(&r, r.nd[i], ECHO, i, (size_t)5 << 20);
  tick(0);
  alarm((unsigned)test_seconds());
  down(&r);
}

TEST(the_time_to_give_up_counts_from_the_first_cancel) {
  fixture r;
  uint64_t first;
  up(&r, 1);
  call(r.nd[0], LATE, 300, 5, 1);
  call(r.nd[0], ECHO, 2, 5, 2);
  pump_for(&r, 30);
  clu_node_cancel(r.nd[0], 1);
  first = r.nd[0]->cancelled_since;
  CHECK(first > 0);
  pump_for(&r, 20);
  clu_node_cancel(r.nd[0], 2);
  CHECK(r.nd[0]->cancelled_since == first);
  PUMP(&r, clu_node_in_step(r.nd[0]));
  call(r.nd[0], LATE, 50, 5, 3);
  pump_for(&r, 20);
  clu_node_cancel(r.nd[0], 3);
  CHECK(r.nd[0]->cancelled_since > first);
  PUMP(&r, clu_node_in_step(r.nd[0]));
  echo_all(&r, -1);
  down(&r);
}

TEST(a_second_answer_is_nobodys) {
  fixture r;
  up(&r, 1);
  call(r.nd[0], TWICE, 1, 100, 1);
  pump_for(&r, 50); /* both have come */
  expect_echo(&r, r.nd[0], TWICE, 1, 100);
  echo_all(&r, -1);
  CHECK_INT_EQ(r.nd[0]->done, 2);
  down(&r);
}

static int slot_of(const clu_node *nd) { return ((const clu_fork_node *)nd)->slot; }

TEST(a_slot_belongs_to_one_process_until_that_has_ended) {
  fixture r;
  clu_err e;
  clu_node *old, *young;
  up(&r, 3);
  for (int i = 0; i < 3; i++) {
    CHECK_INT_EQ(slot_of(r.nd[i]), i);
    CHECK(clu_node_claim(r.nd[i]) == &r.s->shared->claim[i] &&
          clu_node_ring(r.nd[i]) == &r.s->shared->ring[i]);
  }
  old = r.nd[1];
  atomic_store(clu_node_claim(old), 77);
  kill((pid_t)old->pid, SIGSTOP);
  clu_node_stop(old, 20); /* it cannot hear that */
  clu_node_close(old);
  REQUIRE(clu_node_new_fork(r.s, 0, &young, &e) == CLU_OK);
  CHECK_INT_EQ(slot_of(young), 3); /* the other one may still write to its own */
  PUMP(&r, young->state == CLU_NODE_READY && old->how_known);
  clu_node_free(young);
  REQUIRE(clu_node_new_fork(r.s, 0, &young, &e) == CLU_OK);
  CHECK_INT_EQ(slot_of(young), 1);
  CHECK_INT_EQ(clu_claim_first(clu_node_claim(young)), 0);
  PUMP(&r, young->state == CLU_NODE_READY);
  clu_node_free(young);
  down(&r);
}

TEST(a_node_in_the_place_of_another_is_not_shown_at_its_tasks) {
  clu_view_about about;
  clu_view_batch was = {1, 1, 7, 5}, is = {1, 1, 7, 9};
  uint64_t job = 0, task = 0;
  clu_err e;
  clu_view *v;
  fixture r;
  up(&r, 2);
  memset(&about, 0, sizeof about);
  about.nodes = 1;
  REQUIRE((v = clu_view_new(&about, &e)) != NULL);
  clu_node_show(r.nd[0], v, 0, "localhost");
  clu_view_sent(v, 0, &was, 8, -1, 0, 1);
  CHECK(clu_view_task_of(v, 0, 1, &job, &task) && task == 5);
  clu_node_show_instead(r.nd[1], r.nd[0]);
  CHECK(!clu_view_task_of(v, 0, 1, &job, &task));
  clu_view_sent(v, 0, &is, 8, -1, 0, 1);
  CHECK(clu_view_task_of(v, 0, 1, &job, &task));
  CHECK_INT_EQ(task, 9);
  clu_view_unref(v);
  down(&r);
}

/* ---- nodes without a server ---- */

static void given_up(clu_node *nd, clu_msg *m) {
  (void)m;
  clu_node_stop(nd, 0);
}

static uint32_t no_tasks(const clu_node *nd, uint32_t *cancelled) {
  (void)nd;
  if (cancelled) *cancelled = 0;
  return 0;
}

static void no_more(clu_node *nd) { CHECK(!clu_node_is_open(nd)); }
static int farewells;
static void is_gone(clu_node *nd) {
  CHECK(clu_node_data(nd) != NULL);
  farewells++;
}

TEST(one_that_is_given_up_while_its_messages_are_taken_says_no_more) {
  static const clu_task_hooks hooks = {given_up, no_tasks, no_more, is_gone};
  clu_session *session;
  clu_node *nd;
  clu_chan c;
  clu_fd pair[2];
  clu_err e;
  unsigned char pid[8];
  REQUIRE((session = clu_session_new(&e)) != NULL);
  clu_session_set_task_hooks(session, &hooks);
  REQUIRE(clu_os_pair(pair, &e) == CLU_OK);
  REQUIRE(clu_node_new_tcp(session, &nd, &e) == CLU_OK);
  REQUIRE(clu_node_connect(nd, pair[0], clu_os_getpid(), &e) == CLU_OK);
  clu_node_set_data(nd, session);
  REQUIRE(clu_chan_init(&c, pair[1], INT64_MAX, 0) == CLU_OK);
  clu_put64(pid, (uint64_t)getpid());
  clu_chan_send_bytes(&c, CLU_K_HELLO, 0, pid, 8, CLU_NO_FD);
  for (uint64_t k = 1; k < 5; k++)
    clu_chan_send_bytes(&c, CLU_K_RESULT, k, "nonsense", 8, CLU_NO_FD);
  REQUIRE(clu_chan_flush(&c) == CLU_OK);
  REQUIRE(clu_loop_pump(&session->loop, 1000000000, &e) == CLU_OK);
  CHECK_INT_EQ(nd->state, CLU_NODE_STOPPED);
  clu_chan_fini(&c);
  clu_node_free(nd);
  clu_session_free(session);
}

/* ---- transports: what each answers ---- */

TEST(a_node_of_base_r_is_ready_when_the_caller_says_so_and_ends_when_it_is_told) {
  clu_session *session = clu_session_new(NULL);
  clu_node *nd;
  clu_node_status st;
  clu_spawn s;
  char *argv[] = {(char *)"/bin/sh", (char *)"-c", (char *)"exec sleep 100", NULL};
  REQUIRE(session && clu_node_new_psock(session, &nd, NULL) == CLU_OK);
  CHECK(clu_node_is_starting(nd) && clu_node_is_open(nd) && !clu_node_is_connected(nd));
  CHECK(!clu_node_end_known(nd) && clu_node_own_pid(nd) == 0);
  memset(&s, 0, sizeof s);
  s.file = argv[0];
  s.argv = argv;
  s.in = s.out = s.err = CLU_NO_FD;
  REQUIRE(clu_node_start(nd, &s, -1, NULL, NULL) == CLU_OK);
  clu_node_status_of(nd, &st);
  CHECK_STR_EQ(st.state, "starting");
  CHECK(st.started > 0 && st.server == 0 && !st.how_known);
  clu_node_psock_ready(nd, st.started);
  CHECK(clu_node_is_ready(nd) && clu_node_own_pid(nd) == st.started && clu_node_clock_is_ours(nd));
  CHECK(!clu_node_limits_memory(nd) && clu_node_claim(nd) == NULL && clu_node_ring(nd) == NULL);
  clu_node_interrupt(nd, 1); /* it cannot be */
  CHECK(clu_node_in_step(nd));
  clu_node_stop(nd, 50);
  CHECK(!clu_node_is_open(nd) && !clu_node_is_lost(nd) && !clu_node_end_known(nd));
  CHECK_SOON((clu_loop_pump(&session->loop, 5000000, NULL), clu_node_end_known(nd)), 5000);
  clu_node_status_of(nd, &st);
  CHECK_STR_EQ(st.state, "stopped");
  CHECK(st.how_known && st.how.by_signal && st.how.code == SIGKILL);
  CHECK_INT_EQ(clu_session_deaths(session), 0);
  clu_node_free(nd);
  CHECK(clu_session_is_empty(session));
  clu_session_free(session);
}

TEST(a_node_elsewhere_that_does_not_leave_in_its_time_is_given_up) {
  clu_session *session = clu_session_new(NULL);
  clu_node *nd;
  clu_fd pair[2];
  uint64_t begun;
  REQUIRE(session && clu_node_new_tcp(session, &nd, NULL) == CLU_OK);
  REQUIRE(clu_os_pair(pair, NULL) == CLU_OK);
  REQUIRE(clu_node_connect(nd, pair[0], 4711, NULL) == CLU_OK);
  CHECK(clu_node_own_pid(nd) == 0 && !clu_node_clock_is_ours(nd)); /* a number of another host */
  begun = clu_os_now();
  clu_node_stop(nd, 30);
  CHECK(clu_node_is_open(nd)); /* it was told, and has time */
  CHECK_SOON((clu_loop_pump(&session->loop, -1, NULL), !clu_node_is_open(nd)), 5000);
  CHECK(clu_os_now() - begun >= 30000000);
  CHECK(clu_node_end_known(nd) && !clu_node_is_lost(nd)); /* no more will be known */
  clu_node_free(nd);
  clu_os_close(pair[1]);
  clu_session_free(session);
}

TEST(a_connection_that_ends_while_a_node_starts_is_not_its_end) {
  clu_session *session = clu_session_new(NULL);
  clu_node *nd;
  clu_fd pair[2];
  REQUIRE(session && clu_node_new_tcp(session, &nd, NULL) == CLU_OK);
  for (int k = 0; k < 2; k++) {
    REQUIRE(clu_os_pair(pair, NULL) == CLU_OK);
    REQUIRE(clu_node_connect(nd, pair[0], 4711, NULL) == CLU_OK);
    CHECK(clu_node_is_connected(nd));
    clu_os_close(pair[1]);
    REQUIRE(clu_loop_pump(&session->loop, 1000000000, NULL) == CLU_OK);
    CHECK(clu_node_is_starting(nd) && !clu_node_is_connected(nd));
  }
  clu_node_close(nd);
  CHECK(clu_node_is_lost(nd));
  CHECK_INT_EQ(clu_session_deaths(session), 1);
  CHECK_INT_EQ(clu_node_call(nd, NULL, 0, 0, NULL), CLU_DEAD);
  clu_node_free(nd);
  clu_session_free(session);
}

/* ---- a forked child of the session ---- */

static void no_event(void *self, unsigned ready) { (void)self, (void)ready; }

TEST(a_fork_of_a_fork_closes_no_number_a_second_time) {
  clu_session *session;
  clu_node *nd;
  clu_server s;
  clu_fd pair[2], fd[2], again[2];
  pid_t pid;
  int status;
  REQUIRE((session = clu_session_new(NULL)) != NULL);
  REQUIRE(clu_os_pair(pair, NULL) == CLU_OK);
  fd[0] = pair[0];
  fd[1] = pair[1];
  REQUIRE(clu_node_new_tcp(session, &nd, NULL) == CLU_OK);
  REQUIRE(clu_node_connect(nd, fd[0], clu_os_getpid(), NULL) == CLU_OK);
  memset(&s, 0, sizeof s);
  s.chan.fd = fd[1];
  REQUIRE(clu_loop_watch(&session->loop, fd[1], CLU_READ, no_event, &s, &s.watch, NULL) == CLU_OK);
  session->servers = &s;
  if ((pid = fork()) == 0) {
    clu_session_close_in_child(session);
    CHECK(fcntl((int)fd[0], F_GETFD) < 0 && fcntl((int)fd[1], F_GETFD) < 0);
    CHECK(nd->chan.fd == CLU_NO_FD && s.chan.fd == CLU_NO_FD);
    REQUIRE(clu_os_pair(again, NULL) == CLU_OK); /* the lowest numbers: the poller's and those */
    CHECK(again[0] <= fd[1] && again[1] <= fd[1]);
    clu_session_close_in_child(session);
    CHECK(fcntl((int)again[0], F_GETFD) >= 0 && fcntl((int)again[1], F_GETFD) >= 0);
    _exit(0);
  }
  REQUIRE(waitpid(pid, &status, 0) == pid);
  CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  REQUIRE(write((int)fd[1], "x", 1) == 1); /* the parent still watches them */
  REQUIRE(clu_loop_pump(&session->loop, 1000000000, NULL) == CLU_OK);
  CHECK_INT_EQ(clu_loop_events(&session->loop), 1);
  session->servers = NULL;
  clu_loop_unwatch(&session->loop, &s.watch);
  clu_os_close(fd[1]);
  clu_node_free(nd);
  clu_session_free(session);
}

/* A text of why it could not be started is another thing. */
TEST(where_a_copy_of_it_listens_is_known_until_it_is_freed) {
  clu_session *s = clu_session_new(NULL);
  clu_node *nd;
  clu_blob *why = clu_blob_new(8);
  REQUIRE(s && why && clu_blob_append(why, "no place", 8) == 0);
  REQUIRE(clu_node_new_tcp(s, &nd, NULL) == CLU_OK);
  REQUIRE((nd->last_copy = strdup("/tmp/a-socket-in-some-folder")) != NULL);
  clu_node_set_refusal(nd, why);
  CHECK(strcmp(clu_node_refusal(nd), "no place") == 0);
  CHECK(strcmp(clu_node_last_copy(nd), "/tmp/a-socket-in-some-folder") == 0);
  clu_blob_unref(why);
  clu_node_free(nd);
  clu_session_free(s);
}

/* The server was killed when it had just had the node stopped: nobody else wakes that. */
TEST(a_node_that_stands_still_goes_on_when_its_server_has_ended) {
  fixture r;
  clu_pid server;
  up(&r, 2);
  server = r.s->pid;
  clu_node_hold(r.nd[0], 1);
  CHECK_SOON(state_of(r.nd[0]->pid) == 'T', 15000);
  kill((pid_t)server, SIGSTOP);
  CHECK_SOON(state_of(server) == 'T', 15000);
  shutdown((int)r.s->chan.fd, SHUT_RDWR);
  PUMP(&r, r.s->state == CLU_SERVER_ENDED);
  CHECK_SOON(state_of(r.nd[0]->pid) != 'T', 15000);
  kill((pid_t)server, SIGCONT);
  CHECK_SOON(all_gone(&r), 15000);
  down(&r);
}
