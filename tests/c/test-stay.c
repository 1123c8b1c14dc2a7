/* A fork server that stays when its session has ended, and sessions that take it. The server is the
 * stub of the fixture, which stays for a second. */
#include "server-fixture.h"

#include <sys/resource.h>
#include <time.h>

#include "core/node/take.h"
#include "core/wire/meet.h"

static char at[100]; /* where it waits */
static clu_pid server;

static int is_there(const char *what) {
  char path[120];
  snprintf(path, sizeof path, "%s%s", at, what);
  return access(path, F_OK) == 0;
}

static int is_offered(void) { return is_there("") && is_there(CLU_STAY_SECRET); }

/* Each offer has a secret of its own. 0: there is none. */
static int read_secret(unsigned char secret[CLU_SECRET]) {
  char path[120];
  FILE *f;
  int all;
  snprintf(path, sizeof path, "%s%s", at, CLU_STAY_SECRET);
  if (!(f = fopen(path, "re"))) return 0;
  all = fread(secret, 1, CLU_SECRET, f) == CLU_SECRET;
  fclose(f);
  return all;
}

/* Not the offer that had this secret, which may still be there. */
static int is_offered_anew(const unsigned char before[CLU_SECRET]) {
  unsigned char now[CLU_SECRET];
  return read_secret(now) && memcmp(now, before, CLU_SECRET) != 0;
}

static void up_to_stay(fixture *r, int nodes) {
  static int number;
  static char env[140];
  clu_err e;
  if (!(clu_os_can() & CLU_CAN_PROC)) SKIP("the system does not tell who connects");
  snprintf(at, sizeof at, "/tmp/clutch-test-stay-%d-%d", (int)getpid(), number++);
  snprintf(env, sizeof env, "TEST_STUB_STAY=%s", at);
  up_with(r, env);
  server = r->s->pid;
  for (r->n = 0; r->n < nodes; r->n++)
    REQUIRE(clu_node_new_fork(r->s, 0, &r->nd[r->n], &e) == CLU_OK);
  PUMP(r, all_in(r, CLU_NODE_READY));
}

/* The session ends: its end of the channel is closed. */
static void leave(fixture *r) {
  for (int i = 0; i < r->n; i++) clu_node_free(r->nd[i]);
  r->n = 0;
  clu_server_unref(r->s);
  r->s = NULL;
  CHECK_SOON(is_offered(), 10000);
}

static int take(fixture *r, int ms, clu_err *e) {
  memset(e, 0, sizeof *e);
  return clu_server_take(r->session, at, clu_os_now() + (uint64_t)ms * 1000000u, &r->s, e);
}

static void take_it(fixture *r) {
  clu_err e;
  REQUIRE(take(r, 5000, &e) == CLU_OK);
  PUMP(r, r->s->state == CLU_SERVER_READY);
  CHECK_INT_EQ(r->s->pid, server);
}

/* It ends, and leaves nothing. Its parent is this process. */
static void expect_end(fixture *r) {
  clu_exit how;
  if (r->s) {
    clu_server_unref(r->s);
    r->s = NULL;
  }
  /* what is freed above may have reaped it */
  CHECK_SOON(clu_os_reap(server, 0, &how) != CLU_AGAIN, 10000);
  CHECK(!is_there("") && !is_there(CLU_STAY_SECRET));
  CHECK(r->session->nodes == NULL && r->session->servers == NULL);
  clu_session_free(r->session);
  clu_os_remove_tree(r->tmp);
}

static int running_children(void) {
  clu_pid *list;
  int n = 0;
  if (clu_os_children(&list, &n) != CLU_OK) return -1;
  free(list);
  return n;
}

TEST(a_server_serves_one_session_after_the_other) {
  fixture r;
  up_to_stay(&r, 3);
  for (int i = 0; i < 4; i++) {
    clu_pid node = r.nd[0]->pid;
    leave(&r);
    CHECK(gone(node));
    CHECK_INT_EQ(running_children(), 1);
    take_it(&r);
    CHECK(!is_there("") && !is_there(CLU_STAY_SECRET));
    for (r.n = 0; r.n < 2; r.n++) {
      clu_err e;
      REQUIRE(clu_node_new_fork(r.s, 0, &r.nd[r.n], &e) == CLU_OK);
    }
    PUMP(&r, all_in(&r, CLU_NODE_READY));
    echo_all(&r, -1);
  }
  for (int i = 0; i < r.n; i++) clu_node_free(r.nd[i]);
  clu_server_send(r.s, CLU_K_QUIT, 0, NULL, 0, CLU_NO_FD);
  expect_end(&r);
}

TEST(it_ends_when_the_session_wants_that) {
  fixture r;
  up_to_stay(&r, 1);
  clu_node_free(r.nd[0]);
  clu_server_send(r.s, CLU_K_QUIT, 0, NULL, 0, CLU_NO_FD);
  expect_end(&r);
}

/* That stands behind more than the server does at a time, and the session is gone when it reads. */
TEST(it_ends_when_the_last_of_many_messages_says_so) {
  fixture r;
  up_to_stay(&r, 0);
  REQUIRE(kill((pid_t)server, SIGSTOP) == 0);
  for (uint64_t k = 0; k < 40; k++)
    REQUIRE(clu_server_send(r.s, CLU_K_HOLD, 1000 + k, "", 1, CLU_NO_FD) == CLU_OK);
  REQUIRE(clu_server_send(r.s, CLU_K_QUIT, 0, NULL, 0, CLU_NO_FD) == CLU_OK);
  REQUIRE(!clu_chan_pending(&r.s->chan));
  clu_server_close(r.s);
  REQUIRE(kill((pid_t)server, SIGCONT) == 0);
  expect_end(&r);
}

TEST(a_session_may_give_it_away) {
  fixture r;
  up_to_stay(&r, 0);
  clu_server_send(r.s, CLU_K_QUIT, 0, "\1", 1, CLU_NO_FD);
  PUMP(&r, clu_server_has_ended(r.s));
  CHECK(is_offered()); /* before its end of the channel is closed */
  leave(&r);
  take_it(&r);
  clu_server_send(r.s, CLU_K_QUIT, 0, NULL, 0, CLU_NO_FD);
  expect_end(&r);
}

TEST(it_ends_when_nobody_comes) {
  fixture r;
  setenv("TEST_STUB_BRIEF", "1", 1);
  up_to_stay(&r, 1);
  leave(&r);
  expect_end(&r);
}

TEST(it_ends_at_a_signal) {
  fixture r;
  up_to_stay(&r, 0);
  leave(&r);
  kill((pid_t)server, SIGTERM);
  expect_end(&r);
}

TEST(it_can_be_ended_by_its_path) {
  fixture r;
  clu_err e;
  clu_pid pid;
  up_to_stay(&r, 0);
  leave(&r);
  CHECK_INT_EQ(clu_server_end_kept(at, clu_os_now() + 5000000000u, &pid, &e), CLU_OK);
  CHECK_INT_EQ(pid, server);
  expect_end(&r);
}

TEST(a_stopped_one_is_not_waited_for_and_can_be_ended) {
  fixture r;
  clu_err e;
  clu_pid pid;
  clu_exit how;
  double began;
  up_to_stay(&r, 0);
  leave(&r);
  kill((pid_t)server, SIGSTOP);
  began = test_ms();
  CHECK_INT_EQ(take(&r, 200, &e), CLU_TIMEOUT);
  CHECK(test_ms() - began < 2000);
  CHECK_INT_EQ(clu_server_end_kept(at, clu_os_now() + 100000000u, &pid, &e), CLU_OK);
  CHECK_SOON(clu_os_reap(server, 0, &how) == CLU_OK, 10000);
  /* what it has left is refused at once */
  CHECK_INT_EQ(take(&r, 5000, &e), CLU_REFUSED);
  CHECK_INT_EQ(clu_os_path_clear(at), CLU_OK);
  CHECK_INT_EQ(take(&r, 5000, &e), CLU_REFUSED);
  strcat(at, CLU_STAY_SECRET);
  unlink(at);
  clu_session_free(r.session);
  clu_os_remove_tree(r.tmp);
}

/* Two at the same time, from two processes. */
TEST(exactly_one_of_two_sessions_gets_it) {
  for (int i = 0; i < 20; i++) {
    fixture r;
    clu_err e;
    pid_t other;
    int status, won;
    up_to_stay(&r, 0);
    leave(&r);
    if ((other = fork()) == 0) {
      int rc = take(&r, 5000, &e);
      if (rc == CLU_OK) clu_server_send(r.s, CLU_K_QUIT, 0, NULL, 0, CLU_NO_FD);
      _exit(rc == CLU_OK ? 1 : rc == CLU_RESET || rc == CLU_REFUSED || rc == CLU_SYS ? 0 : 2);
    }
    won = take(&r, 5000, &e) == CLU_OK;
    if (won) clu_server_send(r.s, CLU_K_QUIT, 0, NULL, 0, CLU_NO_FD);
    REQUIRE(waitpid(other, &status, 0) == other && WIFEXITED(status));
    CHECK_INT_EQ(won + WEXITSTATUS(status), 1);
    if (!won) r.s = NULL;
    expect_end(&r);
  }
}

static clu_fd connect_to_it(void) {
  clu_addr to;
  clu_fd fd;
  clu_err e;
  REQUIRE(clu_os_addr_path(at, &to, &e) == CLU_OK);
  REQUIRE(clu_os_connect_start(&to, 0, 0, &fd, &e) == CLU_OK);
  return fd;
}

TEST(who_does_not_know_the_secret_gets_nothing) {
  fixture r;
  unsigned char wrong[CLU_SECRET] = {7}, nonce[CLU_NONCE] = {1};
  clu_hs h;
  clu_fd fd;
  up_to_stay(&r, 0);
  leave(&r);
  fd = connect_to_it();
  clu_hs_session(&h, wrong, nonce, 0, clu_os_now() + 5000000000u);
  CHECK_INT_EQ(clu_hs_meet(&h, fd, CLU_NO_FD), CLU_PROTO);
  clu_os_close(fd);
  fd = connect_to_it();
  CHECK(write((int)fd,
              "GET / HTTP/1.0\r\n\r\nand much more than a handshake has, of which "
              "nothing is believed\r\n",
              80) == 80);
  CHECK_SOON(clu_os_reader_has_gone(fd), 5000);
  clu_os_close(fd);
  take_it(&r); /* it waits for the next */
  clu_server_send(r.s, CLU_K_QUIT, 0, NULL, 0, CLU_NO_FD);
  expect_end(&r);
}

/* The child may be what a node has left. */
TEST(a_child_that_ends_in_the_handshake_does_not_end_that) {
  fixture r;
  unsigned char secret[CLU_SECRET], nonce[CLU_NONCE] = {1};
  clu_hs h;
  clu_fd fd;
  up_to_stay(&r, 0);
  leave(&r);
  REQUIRE(read_secret(secret));
  fd = connect_to_it();
  clu_hs_session(&h, secret, nonce, 0, clu_os_now() + 5000000000u);
  CHECK(write((int)fd, h.out, 1) == 1);
  clu_hs_written(&h, 1);
  clu_os_pause(50000000); /* it waits for the rest */
  REQUIRE(kill((pid_t)server, SIGCHLD) == 0);
  clu_os_pause(50000000);
  CHECK_INT_EQ(clu_hs_meet(&h, fd, CLU_NO_FD), CLU_OK);
  clu_os_close(fd); /* this session has ended */
  CHECK_SOON(is_offered_anew(secret), 10000);
  take_it(&r);
  clu_server_send(r.s, CLU_K_QUIT, 0, NULL, 0, CLU_NO_FD);
  expect_end(&r);
}

static double cpu_ms(pid_t pid) {
  clockid_t clock;
  struct timespec t;
  if (clock_getcpuclockid(pid, &clock) != 0 || clock_gettime(clock, &t) != 0) return -1;
  return 1e3 * (double)t.tv_sec + 1e-6 * (double)t.tv_nsec;
}

/* A connection that cannot be accepted keeps the listener readable. */
TEST(without_a_descriptor_it_waits_and_goes_on) {
  fixture r;
  struct rlimit few, before;
  double cpu;
  clu_fd fd;
  up_to_stay(&r, 0);
  leave(&r);
  REQUIRE(prlimit((pid_t)server, RLIMIT_NOFILE, NULL, &before) == 0);
  few = before;
  few.rlim_cur = 3;
  REQUIRE(prlimit((pid_t)server, RLIMIT_NOFILE, &few, NULL) == 0);
  fd = connect_to_it();
  clu_os_pause(100000000);
  cpu = cpu_ms((pid_t)server);
  CHECK(cpu >= 0);
  clu_os_pause(300000000);
  CHECK(cpu_ms((pid_t)server) - cpu < 100);
  REQUIRE(prlimit((pid_t)server, RLIMIT_NOFILE, &before, NULL) == 0);
  clu_os_close(fd);
  take_it(&r);
  clu_server_send(r.s, CLU_K_QUIT, 0, NULL, 0, CLU_NO_FD);
  expect_end(&r);
}

/* One that says nothing does not keep a session waiting for ever. */
TEST(a_silent_connection_is_given_up) {
  fixture r;
  clu_fd fd;
  double began = test_ms();
  up_to_stay(&r, 0);
  leave(&r);
  fd = connect_to_it();
  take_it(&r);
  CHECK(test_ms() - began < 5000);
  clu_os_close(fd);
  clu_server_send(r.s, CLU_K_QUIT, 0, NULL, 0, CLU_NO_FD);
  expect_end(&r);
}

/* The server of a session that ends goes with it where it cannot be offered. */
TEST(where_nobody_tells_who_connects_none_is_offered) {
  clu_stay s;
  clu_err e;
  if (clu_os_can() & CLU_CAN_PROC) SKIP("the system tells");
  snprintf(at, sizeof at, "/tmp/clutch-test-stay-%d", (int)getpid());
  CHECK_INT_EQ(clu_stay_offer(&s, at, &e), CLU_UNSUPPORTED);
  clu_stay_end(&s);
  CHECK(!is_there("") && !is_there(CLU_STAY_SECRET));
}

TEST(a_path_that_is_in_use_is_left_alone) {
  clu_stay s, other;
  clu_err e;
  if (!(clu_os_can() & CLU_CAN_PROC)) SKIP("the system does not tell who connects");
  snprintf(at, sizeof at, "/tmp/clutch-test-stay-%d", (int)getpid());
  REQUIRE(clu_stay_offer(&s, at, &e) == CLU_OK);
  CHECK_INT_EQ(clu_stay_offer(&other, at, &e), CLU_IN_USE);
  clu_stay_end(&other);
  CHECK(is_offered());
  clu_stay_end(&s);
  clu_stay_end(&s);
  CHECK(!is_there("") && !is_there(CLU_STAY_SECRET));
  strcpy(at, "/nowhere/at/all");
  CHECK(clu_stay_offer(&s, at, &e) != CLU_OK);
  clu_stay_end(&s);
}
