/* Connections that end, or that only one side knows of, at each step of the start over TCP;
 * sessions that do not accept, or are stopped for a while. */
// link: -Wl,--wrap=clu_os_connect_start -Wl,--wrap=clu_os_accept
#include "acceptor-fixture.h"

#include <netinet/tcp.h>

static volatile int no_descriptors, accepts;
int __real_clu_os_accept(clu_fd l, clu_fd *fd, clu_addr *peer, clu_err *e);
int __wrap_clu_os_accept(clu_fd l, clu_fd *fd, clu_addr *peer, clu_err *e);
int __wrap_clu_os_accept(clu_fd l, clu_fd *fd, clu_addr *peer, clu_err *e) {
  accepts++;
  if (no_descriptors) return clu_fail(e, CLU_LIMIT, EMFILE, "no descriptor is free");
  return __real_clu_os_accept(l, fd, peer, e);
}

TEST(a_connection_that_only_the_node_knows_of) {
  int on = 30, off = 0;
  clu_fd fds[64];
  int n = 0;
  pid_t pid;
  prepare();
  open_acceptor(0, -1, 1);
  REQUIRE(clu_os_sockets(fds, 64, &n) == CLU_OK);
  /* established at the node, and not to be accepted before the node speaks, which it never does
   * first */
  for (int i = 0; i < n; i++)
    setsockopt((int)fds[i], IPPROTO_TCP, TCP_DEFER_ACCEPT, &on, sizeof on);
  pid = start_node(port, 1, secret, 25000);
  CHECK_SOON((missing(), tell->connects >= 2), 10000); /* it gave up the first */
  for (int i = 0; i < n; i++)
    setsockopt((int)fds[i], IPPROTO_TCP, TCP_DEFER_ACCEPT, &off, sizeof off);
  CHECK_SOON(missing() == 0, 20000);
  call_all(1);
  close_all(1);
  reap(pid, 0);
}

TEST(connections_that_only_the_session_knows_of) {
  pid_t pid;
  prepare();
  open_acceptor(0, -1, 1);
  for (int i = 0; i < 10; i++) reset_it(pending_peer()); /* in the queue, and gone */
  for (int i = 0; i < 10; i++) close(pending_peer());
  pid = start_node(port, 1, secret, 20000);
  CHECK_SOON(missing() == 0, 20000);
  CHECK_SOON(report_now().pending == 0, 5000);
  CHECK(report_now().failed[CLU_HS_CLOSED] >= 10);
  call_all(1);
  close_all(1);
  reap(pid, 0);
}

TEST(a_reset_by_the_node_at_each_step) {
  pid_t pid;
  prepare();
  open_acceptor(0, -1, 1);
  for (int how = 0; how < 2; how++)
    for (int steps = 0; steps <= 4; steps++) {
      clu_hs r;
      int fd = pending_peer();
      walk(fd, &r, 1, steps);
      if (steps == 4) CHECK_SOON((missing(), nodes[0]->chan.fd != CLU_NO_FD), 5000);
      if (how)
        reset_it(fd);
      else
        close(fd);
      CHECK_SOON((missing(), report_now().pending == 0 && nodes[0]->chan.fd == CLU_NO_FD), 5000);
      CHECK_INT_EQ(nodes[0]->state, CLU_NODE_STARTING);
    }
  pid = start_node(port, 1, secret, 20000);
  CHECK_SOON(missing() == 0, 20000);
  call_all(1);
  close_all(1);
  reap(pid, 0);
}

/* A session that goes away after each step: the node begins anew each time, and finds the true
 * one in the end. */
TEST(a_reset_by_the_session_at_each_step) {
  clu_addr at;
  clu_listen how = {0, 0, 0};
  clu_fd l, fd;
  char host[CLU_ADDR_TEXT];
  unsigned char nonce[CLU_NONCE], bytes[128];
  pid_t pid;
  prepare();
  loopback(&at, 0);
  how.backlog = 16;
  REQUIRE(clu_os_listen(&at, &how, &l, NULL, NULL) == CLU_OK);
  clu_os_local_addr(l, &at);
  port = clu_os_addr_host(&at, host, sizeof host);
  pid = start_node(port, 1, secret, 28000);
  for (int steps = 0; steps <= 4; steps++) {
    clu_hs r;
    CHECK_SOON(clu_os_accept(l, &fd, NULL, NULL) == CLU_OK, 15000);
    memset(nonce, steps, sizeof nonce);
    clu_hs_session(&r, secret, nonce, 1, UINT64_MAX);
    if (steps >= 1) CHECK(send((int)fd, r.out, r.out_left, MSG_NOSIGNAL) == CLU_HS_HELLO);
    if (steps >= 2) {
      clu_hs_written(&r, 1000);
      CHECK_INT_EQ(hear((int)fd, bytes, CLU_HS_RESPONSE), CLU_HS_RESPONSE);
      CHECK_INT_EQ(clu_hs_feed(&r, bytes, CLU_HS_RESPONSE), CLU_HS_PROVEN);
      if (steps == 2) bytes[0] = 0;
    }
    if (steps >= 3) {
      clu_hs_admit(&r, CLU_HS_ADMITTED);
      CHECK(send((int)fd, r.out, r.out_left, MSG_NOSIGNAL) == CLU_HS_VERDICT);
    }
    if (steps >= 4) CHECK_INT_EQ(hear((int)fd, bytes, CLU_HS_CONFIRM), CLU_HS_CONFIRM);
    reset_it((int)fd);
  }
  clu_os_close(l);
  open_acceptor(port, -1, 1);
  CHECK_SOON(missing() == 0, 20000);
  call_all(1);
  close_all(1);
  reap(pid, 0);
}

TEST(a_session_that_was_stopped_for_longer_than_the_nodes_wait) {
  pid_t pid[3];
  prepare();
  open_acceptor(0, -1, 3);
  for (int i = 0; i < 3; i++) pid[i] = start_node(port, i + 1, secret, 25000);
  CHECK_SOON(tell->connects >= 9, 20000); /* each has given up two connections */
  CHECK_SOON(missing() == 0, 20000);
  CHECK(report_now().failed[CLU_HS_CLOSED] >= 6);
  call_all(3);
  close_all(3);
  for (int i = 0; i < 3; i++) reap(pid[i], 0);
}

/* This is the same in the middle: the node has answered, and waits for the session's proof. */
TEST(a_session_that_was_stopped_in_the_middle_of_the_handshake) {
  pid_t pid;
  prepare();
  open_acceptor(0, -1, 1);
  pid = start_node(port, 1, secret, 25000);
  CHECK_SOON(report_now().accepted >= 1, 10000); /* the hello has left, the answer is not read */
  CHECK_SOON(tell->connects >= 3, 20000);
  CHECK_SOON(missing() == 0, 20000);
  call_all(1);
  close_all(1);
  reap(pid, 0);
}

TEST(a_listener_without_descriptors_pauses_and_does_not_spin) {
  pid_t pid;
  double end;
  prepare();
  open_acceptor(0, -1, 1);
  no_descriptors = 1;
  accepts = 0;
  pid = start_node(port, 1, secret, 20000);
  CHECK_SOON(report_now().pauses >= 3, 10000);
  end = test_ms() + 300;
  accepts = 0;
  while (test_ms() < end) missing();
  CHECK(accepts <= 10); /* about every 50 ms */
  no_descriptors = 0;
  CHECK_SOON(missing() == 0, 20000);
  call_all(1);
  close_all(1);
  reap(pid, 0);
}
