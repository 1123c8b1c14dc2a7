/* Sockets of the C tests: pairs on the loopback, and waits to a deadline. Included after test.h. */
#ifndef CLUTCH_TEST_SOCK_HELP_H
#define CLUTCH_TEST_SOCK_HELP_H

#include <netinet/in.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "core/net/socket.h"

#define MS 1000000

TEST_UNUSED static clu_sock *listener(const char *host, int backlog) {
  clu_listen how = {backlog, 0, 0};
  clu_err e = {0, 0, ""};
  clu_addr at[CLU_MAX_ADDRS];
  int n = 0;
  clu_sock *l = clu_sock_new();
  clu_resolve *r = clu_resolve_start(host, 0, &e);
  REQUIRE(l && r && clu_resolve_wait(r, 0, at, &n, &e) == CLU_OK);
  clu_resolve_free(r);
  REQUIRE(clu_sock_listen(l, at, n, NULL, &how, &e) == CLU_OK);
  return l;
}

TEST_UNUSED static int port_of(const clu_sock *s) {
  char host[CLU_ADDR_TEXT];
  return clu_os_addr_host(&s->local, host, sizeof host);
}

TEST_UNUSED static int finish(clu_sock *s, int ms, clu_err *e) {
  uint64_t end = clu_os_now() + (uint64_t)ms * MS;
  int rc;
  while ((rc = clu_sock_connect_step(s, 10 * MS, e)) == CLU_AGAIN && clu_os_now() < end) continue;
  return rc;
}

TEST_UNUSED static clu_sock *client(const char *host, int port) {
  clu_sock *s = clu_sock_new();
  clu_err e = {0, 0, ""};
  REQUIRE(clu_sock_connect(s, host, port, NULL, 0, 0, &e) == CLU_OK);
  REQUIRE(finish(s, 5000, &e) == CLU_OK);
  return s;
}

TEST_UNUSED static clu_sock *accepted(clu_sock *l) {
  clu_sock *s = clu_sock_new();
  int rc;
  clu_err e = {0, 0, ""};
  CHECK_SOON((rc = clu_sock_accept(l, s, &e)) == CLU_OK, 5000);
  return s;
}

TEST_UNUSED static void tcp_pair(clu_sock **a, clu_sock **b) {
  clu_sock *l = listener("127.0.0.1", -1);
  *a = client("127.0.0.1", port_of(l));
  *b = accepted(l);
  clu_sock_free(l);
}

TEST_UNUSED static size_t put_all(clu_sock *s, const char *text) {
  size_t put = 0, n = strlen(text);
  REQUIRE(clu_sock_put(s, text, n, &put, NULL) == CLU_OK);
  return put;
}

TEST_UNUSED static int fill_soon(clu_sock *s) {
  int rc = CLU_AGAIN;
  CHECK_SOON((rc = clu_sock_fill(s, NULL)) != CLU_AGAIN, 5000);
  return rc;
}

TEST_UNUSED static int end_soon(clu_sock *s) {
  int rc = CLU_AGAIN;
  CHECK_SOON((rc = clu_sock_end(s, 5 * MS)) == CLU_OK, 5000);
  return rc;
}

TEST_UNUSED static int state(const clu_sock *s) {
  clu_sock_status st;
  CHECK_INT_EQ(clu_os_sock_status(s->fd, &st), CLU_OK);
  return st.tcp;
}

TEST_UNUSED static void linger_zero(clu_sock *s) {
  CHECK_INT_EQ(clu_os_sockopt_set(s->fd, CLU_OPT_LINGER, 0), CLU_OK);
  s->abort_at_close = 1;
}

TEST_UNUSED static int flags_are_right(clu_fd fd) {
  return (fcntl((int)fd, F_GETFD) & FD_CLOEXEC) && (fcntl((int)fd, F_GETFL) & O_NONBLOCK);
}

TEST_UNUSED static clu_sock *at_path(const char *path, int *rc) {
  clu_sock *l = clu_sock_new();
  clu_listen how = {-1, 0, 0};
  clu_err e = {0, 0, ""};
  clu_addr a;
  REQUIRE(clu_os_addr_path(path, &a, &e) == CLU_OK);
  *rc = clu_sock_listen(l, &a, 1, path, &how, &e);
  return l;
}

#endif
