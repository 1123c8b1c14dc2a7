/* Connections that are no node's, or not yet: they get nothing, and keep no node out. */
// link: -Wl,--wrap=clu_os_connect_start -Wl,--wrap=clu_os_peer_user
#include "posix/features.h"
#include "acceptor-fixture.h"

#include <sys/resource.h>

static int users_unknown;
int __real_clu_os_peer_user(clu_fd fd);
int __wrap_clu_os_peer_user(clu_fd fd);
int __wrap_clu_os_peer_user(clu_fd fd) {
  return users_unknown ? CLU_PEER_UNKNOWN : __real_clu_os_peer_user(fd);
}

TEST(pending_peers_get_nothing_and_disturb_nobody) {
  int silent, garbage, half, replay, wrong;
  clu_hs r, wrong_hs;
  unsigned char answer[CLU_HS_RESPONSE], bytes[512], nonce[CLU_NONCE] = {1};
  static const unsigned char guess[CLU_SECRET] = "a guess";
  pid_t pid;
  prepare();
  open_acceptor(0, -1, 1);
  silent = pending_peer();
  garbage = pending_peer();
  CHECK(send(garbage, "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n", 35, MSG_NOSIGNAL) == 35);
  half = pending_peer();
  walk(half, &r, 1, 1);
  CHECK(send(half, r.out, 50, MSG_NOSIGNAL) == 50);
  replay = pending_peer();
  walk(replay, &r, 1, 2); /* a true one, recorded */
  memcpy(answer, r.response, sizeof answer);
  CHECK_INT_EQ(hear(replay, bytes, CLU_HS_VERDICT), CLU_HS_VERDICT);
  close(replay);
  replay = pending_peer();
  CHECK_INT_EQ(hear(replay, bytes, CLU_HS_HELLO), CLU_HS_HELLO);
  CHECK(send(replay, answer, sizeof answer, MSG_NOSIGNAL) == sizeof answer);
  CHECK_INT_EQ(hear(replay, bytes, 1), 0); /* closed, without a word */
  wrong = pending_peer();
  clu_hs_node(&wrong_hs, guess, nonce, 1, 1, 0, UINT64_MAX);
  CHECK_INT_EQ(hear(wrong, bytes, CLU_HS_HELLO), CLU_HS_HELLO);
  clu_hs_feed(&wrong_hs, bytes, CLU_HS_HELLO);
  CHECK(send(wrong, wrong_hs.out, wrong_hs.out_left, MSG_NOSIGNAL) == CLU_HS_RESPONSE);
  CHECK_INT_EQ(hear(wrong, bytes, 1), 0);
  CHECK_INT_EQ(hear(garbage, bytes, sizeof bytes), CLU_HS_HELLO); /* the hello is all it ever got */
  pid = start_node(port, 1, secret, 20000);
  CHECK_SOON(missing() == 0, 20000);
  CHECK_INT_EQ(report_now().failed[CLU_HS_GARBAGE], 1);
  CHECK_INT_EQ(report_now().failed[CLU_HS_NO_PROOF], 2);
  CHECK_INT_EQ(report_now().pending, 2); /* the silent one and the half frame have time left */
  call_all(1);
  close_all(1);
  CHECK_INT_EQ(hear(silent, bytes, sizeof bytes) > CLU_HS_HELLO, 0);
  close(silent), close(garbage), close(half), close(replay), close(wrong);
  reap(pid, 0);
}

TEST(silence_costs_a_place_for_a_bounded_time) {
  int fd;
  unsigned char bytes[64];
  prepare();
  open_acceptor(0, -1, 1);
  fd = pending_peer();
  CHECK_SOON(report_now().pending == 1, 5000);
  CHECK_SOON(report_now().pending == 0, 15000); /* CLU_PENDING_PEER_NS */
  CHECK_INT_EQ(report_now().failed[CLU_HS_SILENT], 1);
  CHECK_INT_EQ(hear(fd, bytes, sizeof bytes), CLU_HS_HELLO);
  close(fd);
  close_all(1);
}

TEST(more_pending_peers_than_places_do_not_keep_a_node_out) {
  int fd[CLU_PENDING_PEERS + 44];
  pid_t pid;
  clu_acceptor_report r;
  prepare();
  open_acceptor(0, -1, 1);
  for (int i = 0; i < CLU_PENDING_PEERS + 44; i++) fd[i] = pending_peer();
  CHECK_SOON(report_now().pending == CLU_PENDING_PEERS, 5000);
  pid = start_node(port, 1, secret, 25000);
  CHECK_SOON(missing() == 0, 25000);
  r = report_now();
  CHECK(r.pending <= CLU_PENDING_PEERS);
  CHECK(r.crowded > 0);
  call_all(1);
  close_all(1);
  for (int i = 0; i < CLU_PENDING_PEERS + 44; i++) close(fd[i]);
  reap(pid, 0);
}

/* The bytes that they have sent are no answer, and does not keep them in their places. */
static void crowd_that_says(size_t n) {
  int fd[CLU_PENDING_PEERS + 44];
  static const unsigned char bytes[] = {'c', 'l', 'u', 't', 'c', 'h', CLU_HS_VERSION,
                                        2}; /* a RESPONSE's */
  pid_t pid;
  clu_acceptor_report r;
  prepare();
  users_unknown = 1;
  open_acceptor(0, -1, 1);
  for (int i = 0; i < CLU_PENDING_PEERS + 44; i++) {
    fd[i] = pending_peer();
    CHECK(send(fd[i], bytes, n, MSG_NOSIGNAL) == (ssize_t)n);
  }
  CHECK_SOON((missing(), report_now().accepted >= CLU_PENDING_PEERS), 5000);
  pid = start_node(port, 1, secret, 25000);
  CHECK_SOON(missing() == 0, 25000);
  r = report_now();
  CHECK(r.crowded > 0);
  CHECK_INT_EQ(r.failed[CLU_HS_SILENT], 0); /* nobody has waited until their time was up */
  call_all(1);
  close_all(1);
  for (int i = 0; i < CLU_PENDING_PEERS + 44; i++) close(fd[i]);
  reap(pid, 0);
}

TEST(a_crowd_that_has_sent_one_byte_each_keeps_no_node_out) { crowd_that_says(1); }
TEST(a_crowd_that_has_sent_the_beginning_of_an_answer_keeps_no_node_out) { crowd_that_says(8); }

/* `n` connections of user `uid`, each with one byte said, until it is killed. */
static pid_t crowd_of(int n, uid_t uid) {
  int done[2];
  char c;
  pid_t pid;
  REQUIRE(pipe(done) == 0);
  REQUIRE((pid = fork()) >= 0);
  if (pid == 0) {
    struct rlimit r;
    for (int i = 3; i < 4096; i++)
      if (i != done[1]) close(i);
    if (getrlimit(RLIMIT_NOFILE, &r) == 0) r.rlim_cur = r.rlim_max, setrlimit(RLIMIT_NOFILE, &r);
    if (setuid(uid) != 0) _exit(1);
    for (int i = 0; i < n; i++) send(pending_peer(), "c", 1, MSG_NOSIGNAL);
    if (write(done[1], "x", 1) != 1) _exit(2);
    for (;;) pause();
  }
  close(done[1]);
  clu_os_set_blocking(done[0], 0);
  CHECK_SOON((missing(), read(done[0], &c, 1) == 1),
             30000); /* the listener's queue may be shorter than the crowd */
  close(done[0]);
  return pid;
}

TEST(thousands_of_peers_of_another_user_take_no_place) {
  enum { CROWD = TEST_SANITIZED ? 1000 : 3000 };
  pid_t pid[6], crowd;
  clu_acceptor_report r;
  struct rlimit limit;
#if !defined(CLU_HAVE_SOCK_DIAG)
  SKIP("the system does not tell whose a connection is");
#endif
  if (geteuid() != 0) SKIP("needs root");
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_max < CROWD + 64)
    SKIP("needs descriptors");
  prepare();
  open_acceptor(0, -1, 6);
  crowd = crowd_of(CROWD, 65534);
  for (int i = 0; i < 6; i++) pid[i] = start_node(port, i + 1, secret, 25000);
  CHECK_SOON(missing() == 0, 25000);
  r = report_now();
  CHECK(r.crowded >= CROWD - CLU_PENDING_OTHERS - 64);
  CHECK(r.pending <= CLU_PENDING_OTHERS);
  CHECK_INT_EQ(r.failed[CLU_HS_SILENT], 0);
  call_all(6);
  close_all(6);
  kill(crowd, SIGKILL);
  waitpid(crowd, NULL, 0);
  for (int i = 0; i < 6; i++) reap(pid[i], 0);
}

/* A listener at `at` gets a connection of ours by IPv4, and one of another user's. */
static void check_whose(clu_addr at) {
  int fd;
  clu_fd there;
  clu_addr peer;
  clu_listen how = {-1, 0, 0};
  clu_fd l;
  char host[CLU_ADDR_TEXT];
  REQUIRE(clu_os_listen(&at, &how, &l, NULL, NULL) == CLU_OK);
  clu_os_local_addr(l, &at);
  port = clu_os_addr_host(&at, host, sizeof host);
  fd = pending_peer();
  CHECK_SOON(clu_os_accept(l, &there, &peer, NULL) == CLU_OK, 5000);
#if defined(__linux__)
  CHECK_INT_EQ(clu_os_peer_user(there), CLU_PEER_OWN);
#endif
  CHECK_INT_EQ(clu_os_peer_user(l), CLU_PEER_UNKNOWN);
  close(fd);
  clu_os_close(there);
  if (geteuid() == 0) {
    pid_t pid = fork();
    REQUIRE(pid >= 0);
    if (pid == 0) {
      if (setuid(65534) != 0) _exit(1);
      pending_peer();
      for (;;) pause();
    }
    CHECK_SOON(clu_os_accept(l, &there, &peer, NULL) == CLU_OK, 5000);
    CHECK_INT_EQ(clu_os_peer_user(there), CLU_PEER_OTHER);
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
    clu_os_close(there);
  }
  clu_os_close(l);
}

TEST(whose_process_is_at_the_other_end) {
  clu_addr at;
#if !defined(CLU_HAVE_SOCK_DIAG)
  SKIP("the system does not tell whose a connection is");
#endif
  loopback(&at, 0);
  check_whose(at);
}

TEST(whose_process_is_at_the_other_end_of_a_listener_for_both_families) {
  clu_addr at;
#if !defined(CLU_HAVE_SOCK_DIAG)
  SKIP("the system does not tell whose a connection is");
#endif
  clu_resolve_any(&at);
  check_whose(at);
}
