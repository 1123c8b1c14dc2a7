/* These tests are of what sockets tell of themselves on Windows, and their options. */
#include "test.h"

#include "net-fixture.h"

TEST(states_and_counts_are_told) {
  clu_sock *a, *b;
  clu_sock_status st;
  clu_err e;
  size_t put;
  clu_sock *l = listener("127.0.0.1", 0, 5, &e);
  CHECK_INT_EQ(clu_os_sock_status(l->fd, &st), CLU_OK);
  CHECK_INT_EQ(st.listening, 1);
  CHECK_INT_EQ(st.tcp, CLU_TCP_LISTEN);
  clu_sock_free(l);
  tcp_pair(&a, &b);
  CHECK_INT_EQ(clu_sock_put(a, "12345", 5, &put, NULL), CLU_OK);
  CHECK_INT_EQ(clu_os_wait_readable(b->fd, 5000 * (int64_t)MS), CLU_OK);
  CHECK_INT_EQ(clu_os_sock_status(b->fd, &st), CLU_OK);
  CHECK_INT_EQ(st.family, CLU_INET);
  CHECK_INT_EQ(st.kind, CLU_KIND_STREAM);
  CHECK_INT_EQ(st.listening, 0);
  CHECK_INT_EQ(st.queued_in, 5);
  CHECK_INT_EQ(st.tcp, CLU_TCP_ESTABLISHED);
  clu_sock_shutdown(a, CLU_WRITE, &e);
  CHECK_SOON(clu_os_sock_status(b->fd, &st) == CLU_OK && st.tcp == CLU_TCP_CLOSE_WAIT, 2000);
  CHECK_SOON(clu_os_sock_status(a->fd, &st) == CLU_OK && st.tcp == CLU_TCP_FIN_WAIT2, 2000);
  clu_sock_free(a);
  clu_sock_free(b);
}

TEST(states_over_ipv6) {
  clu_err e;
  clu_sock_status st;
  clu_sock *l, *a, *b;
  if (!has_ipv6()) SKIP("no IPv6 here");
  REQUIRE(l = listener("::1", 0, 5, &e));
  a = client("::1", port_of(l));
  b = accepted(l);
  CHECK_INT_EQ(clu_os_sock_status(b->fd, &st), CLU_OK);
  CHECK_INT_EQ(st.family, CLU_INET6);
  CHECK_INT_EQ(st.tcp, CLU_TCP_ESTABLISHED);
  clu_sock_free(a);
  clu_sock_free(b);
  clu_sock_free(l);
}

TEST(what_is_no_socket_is_said) {
  clu_sock_status st;
  HANDLE h = CreateEventW(NULL, TRUE, FALSE, NULL);
  CHECK_INT_EQ(clu_os_sock_status((clu_fd)h, &st), CLU_SYS);
  CloseHandle(h);
}

static void check_option(clu_fd fd, clu_sockopt which, int value, int needed) {
  int got = -7, rc = clu_os_sockopt_set(fd, which, value);
  if (rc == CLU_UNSUPPORTED && !needed) return; /* of Windows 10, not all known to wine */
  CHECK_INT_EQ(rc, CLU_OK);
  CHECK_INT_EQ(clu_os_sockopt_get(fd, which, &got), CLU_OK);
  if (which == CLU_OPT_SEND_BUFFER || which == CLU_OPT_RECEIVE_BUFFER)
    CHECK(got >= value); /* Linux doubles it */
  else
    CHECK_INT_EQ(got, value);
}

TEST(options_are_set_and_read) {
  clu_sock *a, *b;
  tcp_pair(&a, &b);
  for (int on = 1; on >= 0; on--) {
    check_option(a->fd, CLU_OPT_NODELAY, on, 1);
    check_option(a->fd, CLU_OPT_KEEPALIVE, on, 1);
  }
  check_option(a->fd, CLU_OPT_KEEP_IDLE, 77, 0);
  check_option(a->fd, CLU_OPT_KEEP_INTERVAL, 7, 0);
  check_option(a->fd, CLU_OPT_KEEP_COUNT, 3, 0);
  check_option(a->fd, CLU_OPT_USER_TIMEOUT, 5000, 0);
  check_option(a->fd, CLU_OPT_SEND_BUFFER, 50000, 1);
  check_option(a->fd, CLU_OPT_RECEIVE_BUFFER, 50000, 1);
  check_option(a->fd, CLU_OPT_LINGER, 3, 1);
  check_option(a->fd, CLU_OPT_LINGER, -1, 1);
  CHECK_INT_EQ(clu_os_sockopt_set(a->fd, CLU_OPT_USER_TIMEOUT, 0), CLU_UNSUPPORTED);
  clu_sock_free(a);
  clu_sock_free(b);
}
