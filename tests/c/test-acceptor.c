/* The start over TCP: nodes that connect to a session, are told their settings, compute and end.
 * See also test-acceptor-peers.c and test-acceptor-lost.c. */
// link: -Wl,--wrap=clu_os_connect_start
#include "acceptor-fixture.h"
#include "core/base/os-folders.h"

#define MANY 64
#define HOST (TEST_SANITIZED ? 200 : MOST)

TEST(nodes_arrive_compute_and_end) {
  pid_t pid[4];
  prepare();
  open_acceptor(0, -1, 4);
  for (int i = 0; i < 4; i++) pid[i] = start_node(port, i + 1, secret, 20000);
  CHECK_SOON(missing() == 0, 20000);
  for (int i = 0; i < 4; i++) CHECK_INT_EQ(nodes[i]->pid, pid[i]);
  call_all(4);
  close_all(4);
  for (int i = 0; i < 4; i++) reap(pid[i], 0);
}

TEST(nodes_that_were_started_before_the_session_listens) {
  clu_addr at;
  clu_listen how = {0, 0, 0};
  clu_fd fd;
  char host[CLU_ADDR_TEXT];
  int p;
  pid_t pid[2];
  prepare();
  loopback(&at, 0);
  REQUIRE(clu_os_listen(&at, &how, &fd, NULL, NULL) == CLU_OK); /* a port that is free */
  clu_os_local_addr(fd, &at);
  p = clu_os_addr_host(&at, host, sizeof host);
  clu_os_close(fd);
  for (int i = 0; i < 2; i++) pid[i] = start_node(p, i + 1, secret, 20000);
  CHECK_SOON(tell->connects >= 5, 10000); /* refused each time */
  open_acceptor(p, -1, 2);
  CHECK_SOON(missing() == 0, 20000);
  call_all(2);
  close_all(2);
  for (int i = 0; i < 2; i++) reap(pid[i], 0);
}

TEST(a_backlog_of_1_and_64_nodes) {
  pid_t pid[MANY];
  prepare();
  open_acceptor(0, 1, MANY);
  for (int i = 0; i < MANY; i++) pid[i] = start_node(port, i + 1, secret, 28000);
  CHECK_SOON(tell->connects >= MANY, 20000); /* all have begun, none was accepted */
  CHECK_SOON(missing() == 0, 28000);
  call_all(MANY);
  close_all(MANY);
  for (int i = 0; i < MANY; i++) reap(pid[i], 0);
}

TEST(a_thousand_nodes_and_a_backlog_of_128) {
  static pid_t pid[MOST];
  prepare();
  if (clu_os_raise_fds(MOST + 1500) != CLU_OK) SKIP("too few descriptors are allowed");
  open_acceptor(0, 128, HOST);
  for (int i = 0; i < HOST; i++) {
    pid[i] = start_node(port, i + 1, secret, 28000);
    if (i % 16 == 0) missing();
  }
  CHECK_SOON(missing() == 0, 28000);
  CHECK(report_now().accepted >= HOST);
  call_all(HOST);
  close_all(HOST);
  for (int i = 0; i < HOST; i++) reap(pid[i], 0);
}

TEST(a_rank_is_taken_once) {
  pid_t pid, second, third;
  prepare();
  open_acceptor(0, -1, 2);
  pid = start_node(port, 1, secret, 20000);
  CHECK_SOON((missing(), nodes[0]->state == CLU_NODE_READY), 20000);
  second = start_node(port, 1, secret, 20000);
  CHECK_SOON((missing(), tell->failed == 1), 20000);
  CHECK_INT_EQ(tell->code, CLU_PROTO);
  CHECK(strstr(tell->text, "another process is the node of this number") != NULL);
  third = start_node(port, 7, secret, 20000);
  CHECK_SOON((missing(), tell->failed == 2), 20000);
  CHECK(strstr(tell->text, "no node of this number") != NULL);
  CHECK_INT_EQ(missing(), 1);
  call_all(1);
  close_all(2);
  reap(pid, 0);
  reap(second, 3);
  reap(third, 3);
}

TEST(a_node_without_the_secret_fails_and_says_why) {
  static const unsigned char guess[CLU_SECRET] = "a guess";
  pid_t pid;
  prepare();
  open_acceptor(0, -1, 1);
  pid = start_node(port, 1, guess, 2000);
  CHECK_SOON((missing(), tell->failed == 1), 20000);
  CHECK_INT_EQ(tell->code, CLU_TIMEOUT);
  CHECK(report_now().failed[CLU_HS_NO_PROOF] >= 1);
  CHECK_INT_EQ(nodes[0]->state, CLU_NODE_STARTING);
  close_all(1);
  reap(pid, 3);
}

TEST(a_process_that_ends_before_it_joins_is_noticed) {
  clu_spawn s;
  clu_err e = {0, 0, ""};
  char *argv[] = {(char *)"/bin/sh", (char *)"-c", (char *)"exit 7", NULL};
  char folder[1024];
  prepare();
  open_acceptor(0, -1, 1);
  memset(&s, 0, sizeof s);
  s.file = argv[0];
  s.argv = argv;
  s.in = s.out = s.err = CLU_NO_FD;
  s.new_session = 1;
  REQUIRE(clu_os_make_temp("/tmp", folder, sizeof folder, &e) == CLU_OK);
  CHECK_INT_EQ(clu_node_start(nodes[0], &s, -1, folder, &e), CLU_OK);
  CHECK_SOON((missing(), nodes[0]->state == CLU_NODE_LOST), 10000);
  CHECK(clu_node_end_known(nodes[0]));
  CHECK_INT_EQ(nodes[0]->how.code, 7);
  CHECK(access(folder, F_OK) != 0);
  close_all(1);
}
