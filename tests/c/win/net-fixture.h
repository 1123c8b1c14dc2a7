/* Sockets over the loopback: for tests of the Windows port. After test.h. */
#ifndef CLUTCH_TEST_NET_FIXTURE_H
#define CLUTCH_TEST_NET_FIXTURE_H

#include "core/net/socket.h"

#define MS 1000000

/* After a reset: Windows has recv() fail, wine has it say the end, and only send() fails. */
#define CHECK_RESET(s)                                             \
  do {                                                             \
    int said = fill_soon(s);                                       \
    size_t put_;                                                   \
    CHECK(said == CLU_RESET || said == CLU_EOF);                   \
    CHECK_INT_EQ(clu_sock_put(s, "x", 1, &put_, NULL), CLU_RESET); \
  } while (0)

static inline clu_sock *listener(const char *host, int port, int backlog, clu_err *e) {
  clu_listen how = {backlog, 0, 0};
  clu_addr at[CLU_MAX_ADDRS];
  int n = 0;
  clu_sock *l = clu_sock_new();
  clu_resolve *r = clu_resolve_start(host, port, e);
  REQUIRE(l && r && clu_resolve_wait(r, 0, at, &n, e) == CLU_OK);
  clu_resolve_free(r);
  if (clu_sock_listen(l, at, n, NULL, &how, e) == CLU_OK) return l;
  clu_sock_free(l);
  return NULL;
}

static inline int port_of(const clu_sock *s) {
  char host[CLU_ADDR_TEXT];
  return clu_os_addr_host(&s->local, host, sizeof host);
}

static inline int connect_to(clu_sock *s, const char *host, int port, int ms, clu_err *e) {
  uint64_t end = clu_os_now() + (uint64_t)ms * MS;
  int rc = clu_sock_connect(s, host, port, NULL, 0, 0, e);
  if (rc != CLU_OK) return rc;
  while ((rc = clu_sock_connect_step(s, 10 * MS, e)) == CLU_AGAIN && clu_os_now() < end) continue;
  return rc;
}

static inline clu_sock *client(const char *host, int port) {
  clu_sock *s = clu_sock_new();
  clu_err e = {0, 0, ""};
  int rc = connect_to(s, host, port, 5000, &e);
  if (rc != CLU_OK) test_fail(__FILE__, __LINE__, "%s", e.text);
  REQUIRE(rc == CLU_OK);
  return s;
}

static inline clu_sock *accepted(clu_sock *l) {
  clu_sock *s = clu_sock_new();
  clu_err e = {0, 0, ""};
  CHECK_SOON(clu_sock_accept(l, s, &e) == CLU_OK, 5000);
  return s;
}

static inline void tcp_pair(clu_sock **a, clu_sock **b) {
  clu_err e = {0, 0, ""};
  clu_sock *l = listener("127.0.0.1", 0, -1, &e);
  REQUIRE(l);
  *a = client("127.0.0.1", port_of(l));
  *b = accepted(l);
  clu_sock_free(l);
}

static inline int fill_soon(clu_sock *s) {
  int rc = CLU_AGAIN;
  CHECK_SOON((rc = clu_sock_fill(s, NULL)) != CLU_AGAIN, 5000);
  return rc;
}

static inline int has_ipv6(void) {
  clu_err e;
  clu_sock *l = listener("::1", 0, 1, &e);
  clu_sock_free(l);
  return l != NULL;
}

/* A port at which nobody listens. */
static inline int dead_port(const char *host) {
  clu_err e;
  clu_sock *l = listener(host, 0, 1, &e);
  int port;
  REQUIRE(l);
  port = port_of(l);
  clu_sock_free(l);
  return port;
}

#endif
