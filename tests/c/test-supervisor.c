/* Fork server and session together: starts, calls and ends. */
// link: -Wl,--wrap=clu_os_remove_tree
#include "server-fixture.h"

/* In the server and what it forks: the removal of a folder takes as long as there is a file of this
 * name. */
int __real_clu_os_remove_tree(const char *path);
int __wrap_clu_os_remove_tree(const char *path) {
  const char *tmp = getenv("TEST_STUB_TMP");
  char hold[200];
  double end = test_ms() + 20000;
  if (tmp) {
    snprintf(hold, sizeof hold, "%s.hold", tmp);
    while (access(hold, F_OK) == 0 && test_ms() < end) test_pause();
  }
  return __real_clu_os_remove_tree(path);
}

/* ---- starts and calls ---- */

TEST(twenty_nodes_answer) {
  fixture r;
  up(&r, 20);
  for (int i = 0; i < 20; i++) {
    CHECK(r.nd[i]->pid > 0 && !gone(r.nd[i]->pid));
    CHECK_INT_EQ(getpgid((pid_t)r.nd[i]->pid), r.nd[i]->pid);
    for (int j = 0; j < i; j++) CHECK(r.nd[i]->pid != r.nd[j]->pid);
  }
  CHECK_INT_EQ(entries(r.tmp), 20);
  for (int k = 0; k < 5; k++) echo_all(&r, -1);
  CHECK_INT_EQ(r.nd[0]->done, 5);
  down(&r);
}

TEST(large_calls_go_to_all_at_once) {
  fixture r;
  up(&r, 4);
  for (int i = 0; i < 4; i++) call(r.nd[i], ECHO, (uint32_t)i, ((size_t)5 << 20) + (size_t)i, 1);
  for (int i = 0; i < 4; i++)
    expect_echo(&r, r.nd[i], ECHO, (uint32_t)i, ((size_t)5 << 20) + (size_t)i);
  down(&r);
}

TEST(requests_wait_in_line) {
  fixture r;
  up(&r, 2);
  for (uint32_t i = 0; i < 200; i++) call(r.nd[i % 2], ECHO, i, 5 + i * 37, 1);
  for (uint32_t i = 0; i < 200; i++) expect_echo(&r, r.nd[i % 2], ECHO, i, 5 + i * 37);
  CHECK(clu_node_first(r.nd[0]) == NULL);
  down(&r);
}

TEST(a_call_may_come_before_the_node_does) {
  fixture r;
  clu_err e;
  up(&r, 0);
  REQUIRE(clu_node_new_fork(r.s, 0, &r.nd[0], &e) == CLU_OK);
  r.n = 1;
  call(r.nd[0], ECHO, 3, 50, 1);
  expect_echo(&r, r.nd[0], ECHO, 3, 50);
  down(&r);
}

TEST(settings_are_answered) {
  fixture r;
  up(&r, 0);
  CHECK_INT_EQ(clu_server_send(r.s, CLU_K_SETTINGS, 7, "", 0, CLU_NO_FD), CLU_OK);
  PUMP(&r, r.s->answered == 7);
  down(&r);
}

/* The nodes that are asked for behind it get their own descriptors. */
TEST(settings_bring_segments) {
  fixture r;
  clu_err e;
  clu_blob *b;
  const clu_blob *answer;
  up(&r, 0);
  b = blob_with_segment(300000, 0);
  CHECK_INT_EQ(clu_server_send_blob(r.s, CLU_K_SETTINGS, 7, b), CLU_OK);
  clu_blob_unref(b);
  for (r.n = 0; r.n < 2; r.n++) REQUIRE(clu_node_new_fork(r.s, 0, &r.nd[r.n], &e) == CLU_OK);
  PUMP(&r, r.s->answered == 7);
  CHECK_INT_EQ(clu_server_answered(r.s, &answer), 7);
  REQUIRE(answer && answer->size == 16);
  CHECK_INT_EQ(clu_get64(answer->data), 3 * 300000);
  CHECK_INT_EQ(clu_get64(answer->data + 8), 300000);
  PUMP(&r, all_in(&r, CLU_NODE_READY));
  call(r.nd[1], ECHO, 3, 50, 1);
  expect_echo(&r, r.nd[1], ECHO, 3, 50);
  down(&r);
}

TEST(sixty_nodes_come_and_go) {
  fixture r;
  up(&r, 60);
  for (int i = 0; i < 60; i += 2) {
    clu_node_free(r.nd[i]);
    r.nd[i] = NULL;
  }
  PUMP(&r, entries(r.tmp) == 30);
  for (int i = 1; i < 60; i += 2) call(r.nd[i], ECHO, (uint32_t)i, 10, 1);
  for (int i = 1; i < 60; i += 2) expect_echo(&r, r.nd[i], ECHO, (uint32_t)i, 10);
  CHECK_INT_EQ(r.s->live, 30);
  down(&r);
}

/* ---- ends ---- */

TEST(a_killed_node_is_dead_and_the_others_answer) {
  fixture r;
  clu_err e;
  up(&r, 20);
  call(r.nd[7], SLEEP, 0, 5, 1);
  for (int i = 0; i < 20; i++)
    if (i != 7) call(r.nd[i], LATE, 50, 1000, 1);
  kill((pid_t)r.nd[7]->pid, SIGKILL);
  for (int i = 0; i < 20; i++)
    if (i != 7) expect_echo(&r, r.nd[i], LATE, 50, 1000);
  PUMP(&r, r.nd[7]->how_known);
  CHECK_INT_EQ(r.nd[7]->state, CLU_NODE_LOST);
  CHECK_INT_EQ(r.nd[7]->how.by_signal, 1);
  CHECK_INT_EQ(r.nd[7]->how.code, SIGKILL);
  CHECK(clu_node_first(r.nd[7]) && !clu_node_first(r.nd[7])->arrival);
  CHECK(gone(r.nd[7]->pid));
  CHECK_INT_EQ(r.s->live, 19);
  CHECK_INT_EQ(clu_node_call(r.nd[7], NULL, 1, 0, &e), CLU_DEAD);
  echo_all(&r, 7);
  PUMP(&r, entries(r.tmp) == 19);
  CHECK_INT_EQ(r.s->state, CLU_SERVER_READY);
  down(&r);
}

TEST(the_exit_status_of_a_node_is_told) {
  fixture r;
  clu_blob *b = clu_blob_new(2);
  clu_err e;
  up(&r, 2);
  REQUIRE(b);
  clu_blob_append(b, "x\x2a", 2);
  REQUIRE(clu_node_call(r.nd[0], b, 1, 0, &e) == CLU_OK);
  clu_blob_unref(b);
  PUMP(&r, r.nd[0]->how_known);
  CHECK_INT_EQ(r.nd[0]->state, CLU_NODE_LOST);
  CHECK_INT_EQ(r.nd[0]->how.by_signal, 0);
  CHECK_INT_EQ(r.nd[0]->how.code, 42);
  echo_all(&r, 0);
  down(&r);
}

static void oom_kills(const char *file, int n) {
  FILE *f = fopen(file, "w");
  REQUIRE(f);
  fprintf(f, "low 9\noom_kill %d\noom_kill_other 99\n", n);
  fclose(f);
}

static int kill_one(fixture *r, int k) {
  clu_node_status st;
  kill((pid_t)r->nd[k]->pid, SIGKILL);
  PUMP(r, r->nd[k]->how_known);
  clu_node_status_of(r->nd[k], &st);
  return st.may_be_oom;
}

TEST(each_kill_of_the_system_explains_one_death) {
  fixture r;
  char file[] = "/tmp/clutch-oom-XXXXXX", more[64];
  clu_err e;
  close(mkstemp(file));
  oom_kills(file, 3);
  snprintf(more, sizeof more, "TEST_STUB_OOM=%s", file);
  up_with(&r, more);
  for (r.n = 0; r.n < 5; r.n++) REQUIRE(clu_node_new_fork(r.s, 0, &r.nd[r.n], &e) == CLU_OK);
  PUMP(&r, all_in(&r, CLU_NODE_READY));
  CHECK_INT_EQ(kill_one(&r, 0), 0); /* what was before is nobody's */
  oom_kills(file, 4);
  CHECK_INT_EQ(kill_one(&r, 1), 1);
  CHECK_INT_EQ(kill_one(&r, 2), 0);
  remove(file);
  CHECK_INT_EQ(kill_one(&r, 3), 0);
  down(&r);
}

TEST(what_the_machine_has_left_is_told) {
  fixture r;
  clu_server_machine_status m;
  up(&r, 0);
  CHECK_INT_EQ(clu_server_machine(r.s, &m), 0); /* it was not asked */
  CHECK_INT_EQ(clu_server_ask_machine(r.s, 0), CLU_OK);
  PUMP(&r, clu_server_machine(r.s, &m));
  CHECK(m.trip > 0 && m.trip < 15000000000u);
  CHECK(m.load == -1 || (m.load >= 0 && m.load < 1e6));
  CHECK(m.memory == -1 || (m.memory > 1e7 && m.memory_free > 0 && m.memory_free <= m.memory));
  clu_server_close(r.s);
  CHECK_INT_EQ(clu_server_ask_machine(r.s, 0), CLU_DEAD);
  CHECK_INT_EQ(clu_server_machine(r.s, &m), 0);
  down(&r);
}

TEST(what_nodes_have_used_is_told) {
  fixture r;
  clu_server_machine_status m;
  double cpu, memory;
  up(&r, 3);
  CHECK_INT_EQ(clu_server_node_use(r.nd[1], &cpu, &memory), 0);
  CHECK_INT_EQ(clu_server_ask_machine(r.s, 1), CLU_OK);
  PUMP(&r, clu_server_machine(r.s, &m));
  for (int i = 0; i < 3; i++) {
    CHECK_INT_EQ(clu_server_node_use(r.nd[i], &cpu, &memory), 1);
    CHECK(cpu == -1 || (cpu >= 0 && cpu < 15));
    CHECK(memory == -1 || (memory > 0 && memory < 1e9));
  }
  CHECK_INT_EQ(clu_server_ask_machine(r.s, 0), CLU_OK); /* what was known is old */
  PUMP(&r, clu_server_machine(r.s, &m));
  CHECK_INT_EQ(clu_server_node_use(r.nd[1], &cpu, &memory), 0);
  down(&r);
}

/* The session looks only when all has happened: as much as the socket holds has to be there. */
TEST(answers_given_before_the_end_count) {
  fixture r;
  int size = 0, n, missing = 0;
  socklen_t len = sizeof size;
  double end;
  up(&r, 1);
  getsockopt((int)r.nd[0]->chan.fd, SOL_SOCKET, SO_SNDBUF, &size, &len);
  n = size * 4 / 5 / 4400; /* what the kernel counts for 3724 bytes is some more */
  for (int i = 0; i < n; i++) call(r.nd[0], BIG, 3700, 5, 1);
  call(r.nd[0], EXIT, 0, 5, 1);
  end = test_ms() + 3000;
  while (!gone(r.nd[0]->pid) && test_ms() < end) test_pause();
  if (!gone(r.nd[0]->pid))
    test_note(__FILE__, __LINE__, "%d answers do not fit into the socket", n);
  PUMP(&r, r.nd[0]->how_known);
  for (int i = 0; i < n; i++) missing += !r.nd[0]->requests.at[i].arrival;
  CHECK_INT_EQ(missing, 0);
  down(&r);
}

TEST(what_a_node_started_ends_with_it) {
  fixture r;
  const clu_req *q;
  clu_blob *b;
  clu_pid pid;
  up(&r, 1);
  call(r.nd[0], CHILD, 0, 5, 1);
  PUMP(&r, has_answer(r.nd[0]));
  q = clu_node_first(r.nd[0]);
  REQUIRE(q && q->body && q->body->size == 8);
  b = clu_node_take_first(r.nd[0]);
  pid = (clu_pid)clu_get64(b->data);
  clu_blob_unref(b);
  CHECK(!gone(pid));
  kill((pid_t)r.nd[0]->pid, SIGKILL);
  PUMP(&r, r.nd[0]->how_known);
  CHECK_SOON(gone(pid), 5000);
  down(&r);
}

static clu_pid leaves_one(fixture *r, clu_node *nd) {
  clu_blob *b;
  clu_pid pid = 0;
  call(nd, LEAVE, 0, 5, 1);
  PUMP(r, has_answer(nd));
  b = has_answer(nd) ? clu_node_take_first(nd) : NULL;
  if (CHECK(b && b->size == 8)) pid = (clu_pid)clu_get64(b->data);
  clu_blob_unref(b);
  return pid;
}

TEST(what_a_node_left_in_a_session_of_its_own_ends_with_it_and_not_before) {
  fixture r;
  clu_pid left[3];
  if (!(clu_os_can() & CLU_CAN_FOLLOW_PARENT)) SKIP("the system has no such adoption");
  up(&r, 3);
  for (int i = 0; i < 3; i++) left[i] = leaves_one(&r, r.nd[i]);
  kill((pid_t)r.nd[0]->pid, SIGKILL);
  PUMP(&r, gone(left[0]));
  clu_node_stop(r.nd[1], 1000);
  PUMP(&r, gone(left[1]));
  call(r.nd[2], ECHO, 1, 100, 1);
  expect_echo(&r, r.nd[2], ECHO, 1, 100);
  CHECK(!gone(left[2]));
  clu_server_close(r.s);
  CHECK_SOON(gone(left[2]), 5000);
  down(&r);
}

TEST(a_large_folder_is_removed_while_others_are_seen_to) {
  fixture r;
  char path[300], hold[100];
  struct dirent *entry;
  DIR *d;
  int k = 0;
  up(&r, 2);
  snprintf(hold, sizeof hold, "%s.hold", r.tmp);
  REQUIRE((d = opendir(r.tmp)));
  while ((entry = readdir(d)))
    for (int i = 0; i < 200 && entry->d_name[0] != '.'; i++, k++) {
      int fd;
      snprintf(path, sizeof path, "%s/%.20s/%d", r.tmp, entry->d_name, i);
      if ((fd = open(path, O_CREAT | O_WRONLY, 0600)) >= 0) close(fd);
    }
  closedir(d);
  CHECK_INT_EQ(k, 400);
  close(open(hold, O_CREAT | O_WRONLY, 0600));
  kill((pid_t)r.nd[0]->pid, SIGKILL);
  PUMP(&r, r.nd[0]->how_known);
  call(r.nd[1], SLEEP, 0, 5, 7);
  pump_for(&r, 50);
  clu_node_cancel(r.nd[1], 7);
  PUMP(&r, clu_node_in_step(r.nd[1]));
  call(r.nd[1], ECHO, 1, 100, 1);
  expect_echo(&r, r.nd[1], ECHO, 1, 100);
  CHECK_INT_EQ(entries(r.tmp), 2);
  unlink(hold);
  CHECK_SOON(entries(r.tmp) == 1, 10000);
  down(&r);
}

/* The removal of a folder is held up: ends are told nevertheless, and the server answers. */
TEST(the_folders_of_many_are_removed_while_others_are_seen_to) {
  fixture r;
  char path[300], hold[100];
  struct dirent *entry;
  DIR *d;
  up(&r, 40);
  snprintf(hold, sizeof hold, "%s.hold", r.tmp);
  REQUIRE((d = opendir(r.tmp)));
  while ((entry = readdir(d)))
    for (int i = 0; i < 200 && entry->d_name[0] != '.'; i++) {
      int fd;
      snprintf(path, sizeof path, "%s/%.20s/%d", r.tmp, entry->d_name, i);
      if ((fd = open(path, O_CREAT | O_WRONLY, 0600)) >= 0) close(fd);
    }
  closedir(d);
  close(open(hold, O_CREAT | O_WRONLY, 0600));
  kill((pid_t)r.s->pid, SIGSTOP); /* it sees all ends at once */
  for (int i = 0; i < 39; i++) kill((pid_t)r.nd[i]->pid, SIGKILL);
  kill((pid_t)r.s->pid, SIGCONT);
  for (int i = 0; i < 39; i++) PUMP(&r, r.nd[i]->how_known);
  pump_for(&r, 300);
  call(r.nd[39], ECHO, 1, 100, 1);
  expect_echo(&r, r.nd[39], ECHO, 1, 100);
  CHECK_INT_EQ(entries(r.tmp), 40);
  unlink(hold);
  CHECK_SOON(entries(r.tmp) == 1, 10000);
  down(&r);
}

/* It is like a forked node that nobody has asked for anything. */
TEST(a_node_that_has_made_no_folder_ends_as_others) {
  fixture r;
  setenv("TEST_STUB_NO_FOLDER", "1", 1);
  up(&r, 3);
  unsetenv("TEST_STUB_NO_FOLDER");
  CHECK_INT_EQ(entries(r.tmp), 0);
  kill((pid_t)r.nd[0]->pid, SIGKILL);
  PUMP(&r, r.nd[0]->how_known);
  CHECK_INT_EQ(r.nd[0]->how.code, SIGKILL);
  echo_all(&r, 0);
  clu_node_stop(r.nd[1], 10000);
  PUMP(&r, r.nd[1]->how_known);
  CHECK_INT_EQ(entries(r.tmp), 0);
  down(&r);
}

TEST(nodes_stop_within_their_grace) {
  fixture r;
  up(&r, 20);
  for (int i = 0; i < 20; i++) clu_node_stop(r.nd[i], 10000);
  PUMP(&r, all_in(&r, CLU_NODE_STOPPED) && r.nd[0]->how_known);
  for (int i = 0; i < 20; i++) {
    PUMP(&r, r.nd[i]->how_known);
    CHECK_INT_EQ(r.nd[i]->how.by_signal, 0);
    CHECK_INT_EQ(r.nd[i]->how.code, 0);
    CHECK(gone(r.nd[i]->pid));
  }
  CHECK_INT_EQ(r.s->live, 0);
  PUMP(&r, entries(r.tmp) <= 0);
  down(&r);
}

TEST(a_node_in_an_endless_loop_is_killed_after_its_grace) {
  fixture r;
  double from;
  up(&r, 2);
  call(r.nd[0], LOOP, 0, 5, 1);
  pump_for(&r, 50);
  from = test_ms();
  clu_node_stop(r.nd[0], 300);
  PUMP(&r, r.nd[0]->how_known);
  CHECK(test_ms() - from >= 295);
  CHECK_INT_EQ(r.nd[0]->state, CLU_NODE_STOPPED);
  CHECK_INT_EQ(r.nd[0]->how.by_signal, 1);
  CHECK_INT_EQ(r.nd[0]->how.code, SIGKILL);
  echo_all(&r, 0);
  down(&r);
}

TEST(without_grace_it_is_killed_at_once) {
  fixture r;
  up(&r, 2);
  call(r.nd[0], LOOP, 0, 5, 1);
  pump_for(&r, 50);
  clu_node_stop(r.nd[0], 0);
  PUMP(&r, r.nd[0]->how_known);
  CHECK_INT_EQ(r.nd[0]->state, CLU_NODE_STOPPED);
  CHECK_INT_EQ(r.nd[0]->how.code, SIGKILL);
  echo_all(&r, 0);
  down(&r);
}

TEST(without_the_session_all_is_gone_within_two_seconds) {
  fixture r;
  up(&r, 20);
  for (int i = 0; i < 20; i++) {
    if (i % 3 == 0) call(r.nd[i], LOOP, 0, 5, 1);
    if (i % 3 == 1) call(r.nd[i], SLEEP, 0, 5, 1);
  }
  pump_for(&r, 50);
  CHECK_INT_EQ(entries(r.tmp), 20);
  clu_server_close(r.s); /* what the system does when the session ends */
  CHECK_SOON(all_gone(&r) && entries(r.tmp) <= 0 && clu_server_reap(r.s), 2000);
  CHECK_INT_EQ(r.s->how.by_signal, 0);
  CHECK_INT_EQ(r.s->how.code, 0);
  for (int i = 0; i < 20; i++) CHECK_INT_EQ(r.nd[i]->state, CLU_NODE_LOST);
  down(&r);
}

TEST(without_the_server_all_is_gone) {
  fixture r;
  up(&r, 20);
  for (int i = 0; i < 20; i += 2) call(r.nd[i], LOOP, 0, 5, 1);
  pump_for(&r, 50);
  kill((pid_t)r.s->pid, SIGKILL);
  PUMP(&r, r.s->state == CLU_SERVER_ENDED);
  CHECK_SOON(clu_server_reap(r.s), 5000);
  CHECK_INT_EQ(r.s->how.by_signal, 1);
  CHECK_INT_EQ(r.s->how.code, SIGKILL);
  for (int i = 0; i < 20; i++) CHECK_INT_EQ(r.nd[i]->state, CLU_NODE_LOST);
  CHECK_SOON(all_gone(&r) && entries(r.tmp) <= 0, 20000);
  down(&r);
}

TEST(a_server_that_is_asked_to_end_does) {
  fixture r;
  up(&r, 3);
  kill((pid_t)r.s->pid, SIGTERM);
  PUMP(&r, r.s->state == CLU_SERVER_ENDED);
  CHECK_SOON(all_gone(&r) && clu_server_reap(r.s), 5000);
  down(&r);
}

TEST(an_idle_server_says_goodbye) {
  fixture r;
  up_with(&r, "TEST_STUB_IDLE_MS=200");
  PUMP(&r, r.s->state == CLU_SERVER_ENDED);
  CHECK_INT_EQ(r.s->idle, 1);
  CHECK_SOON(clu_server_reap(r.s), 5000);
  down(&r);
}

TEST(a_server_that_was_stopped_past_its_idle_limit_still_takes_what_has_come) {
  fixture r;
  clu_err e;
  up_with(&r, "TEST_STUB_IDLE_MS=1000");
  kill((pid_t)r.s->pid, SIGSTOP);
  for (double end = test_ms() + 1200; test_ms() < end;) test_pause();
  REQUIRE(clu_node_new_fork(r.s, 0, &r.nd[0], &e) == CLU_OK);
  r.n = 1;
  kill((pid_t)r.s->pid, SIGCONT);
  PUMP(&r, r.nd[0]->state != CLU_NODE_STARTING);
  CHECK_INT_EQ(r.nd[0]->state, CLU_NODE_READY);
  CHECK_INT_EQ(r.s->idle, 0);
  down(&r);
}

TEST(a_server_that_has_ended_gives_no_node) {
  fixture r;
  clu_node *nd = NULL;
  clu_err e;
  int before;
  up(&r, 0);
  clu_server_close(r.s);
  before = test_count_fds();
  CHECK_INT_EQ(clu_node_new_fork(r.s, 0, &nd, &e), CLU_DEAD);
  CHECK(nd == NULL);
  CHECK_INT_EQ(test_count_fds(), before);
  down(&r);
}
