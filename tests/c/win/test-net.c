/* Sockets on Windows: the port's functions and clu_sock on top of them, over the loopback. */
// link: -Wl,--wrap=clu_win_refuse_fast
#include "test.h"

#include "core/base/addr.h"
#include "core/net/port-probe.h"
#include "core/net/socket.h"

#include "net-fixture.h"

/* ---- faults on demand ---- */

static int asked, ask_fails;
int __real_clu_win_refuse_fast(SOCKET s);
int __wrap_clu_win_refuse_fast(SOCKET s);
int __wrap_clu_win_refuse_fast(SOCKET s) {
  asked++;
  return ask_fails ? WSAEOPNOTSUPP : __real_clu_win_refuse_fast(s);
}

/* ---- addresses ---- */

static int address(const char *host, int port, clu_addr *out) {
  clu_addr a[CLU_MAX_ADDRS];
  int n = 0;
  clu_resolve *r = clu_resolve_start(host, port, NULL);
  REQUIRE(r);
  CHECK_INT_EQ(clu_resolve_wait(r, 0, a, &n, NULL), CLU_OK);
  clu_resolve_free(r);
  REQUIRE(n > 0);
  *out = a[0];
  return n;
}

static void check_text(const char *host, int port, const char *want, int loopback) {
  clu_addr a;
  char text[CLU_ADDR_TEXT];
  address(host, port, &a);
  CHECK_STR_EQ(clu_addr_text(&a, text, sizeof text), want);
  CHECK_INT_EQ(clu_addr_is_loopback(&a), loopback);
}

TEST(addresses_as_text) {
  check_text("127.0.0.1", 80, "127.0.0.1:80", 1);
  check_text("127.9.9.9", 65535, "127.9.9.9:65535", 1);
  check_text("::1", 80, "[::1]:80", 1);
  check_text("::ffff:127.0.0.1", 80, "127.0.0.1:80", 1);
  check_text("::ffff:192.0.2.1", 80, "192.0.2.1:80", 0);
  check_text("192.0.2.1", 1, "192.0.2.1:1", 0);
  check_text("126.255.255.255", 1, "126.255.255.255:1", 0);
  check_text("2001:db8::2", 1, "[2001:db8::2]:1", 0);
  check_text(NULL, 7, "[::]:7", 0);
}

TEST(localhost_is_both_without_asking_anybody) {
  clu_addr a;
  CHECK_INT_EQ(address("localhost", 9, &a), 2);
  CHECK_INT_EQ(a.family, CLU_INET);
}

TEST(a_name_without_an_address) {
  clu_addr a[CLU_MAX_ADDRS];
  clu_err e = {0, 0, ""};
  char name[80];
  int n = 0, rc = CLU_AGAIN;
  clu_resolve *r;
  memset(name, 'x', sizeof name); /* a label of more than 63 bytes: nobody has to be asked */
  name[79] = 0;
  REQUIRE(r = clu_resolve_start(name, 9, NULL));
  CHECK_SOON((rc = clu_resolve_wait(r, 10 * MS, a, &n, &e)) != CLU_AGAIN, 20000);
  CHECK_INT_EQ(rc, CLU_DNS);
  CHECK(strstr(e.text, name) != NULL);
  clu_resolve_free(r);
}

TEST(a_question_nobody_waits_for_is_left_behind) {
  clu_resolve *r = clu_resolve_start("a-name.invalid", 9, NULL);
  REQUIRE(r);
  clu_resolve_free(r);
}

TEST(there_are_no_sockets_with_a_path) {
  clu_addr a;
  clu_err e = {0, 0, ""};
  clu_sock *s = clu_sock_new();
  CHECK_INT_EQ(clu_os_addr_path("C:/x", &a, &e), CLU_UNSUPPORTED);
  CHECK_INT_EQ(clu_sock_connect(s, NULL, 0, "C:/x", 0, 0, &e), CLU_UNSUPPORTED);
  CHECK(strstr(e.text, "C:/x") != NULL);
  clu_sock_free(s);
}

/* ---- listening and connecting ---- */

static void check_pair(const char *host, const char *to) {
  clu_err e = {0, 0, ""};
  clu_sock *l = listener(host, 0, -1, &e), *a, *b;
  char text[CLU_ADDR_TEXT * 2 + 8], got[6] = "";
  size_t put = 0;
  DWORD flags = 1;
  REQUIRE(l);
  CHECK(port_of(l) > 0);
  a = client(to, port_of(l));
  b = accepted(l);
  CHECK(GetHandleInformation((HANDLE)l->fd, &flags) && !(flags & HANDLE_FLAG_INHERIT));
  CHECK(GetHandleInformation((HANDLE)a->fd, &flags) && !(flags & HANDLE_FLAG_INHERIT));
  CHECK(GetHandleInformation((HANDLE)b->fd, &flags) && !(flags & HANDLE_FLAG_INHERIT));
  CHECK_INT_EQ(clu_sock_put(a, "hello", 5, &put, &e), CLU_OK);
  CHECK_INT_EQ(fill_soon(b), CLU_OK);
  CHECK_INT_EQ(clu_sock_take(b, got, 10), 5);
  CHECK_STR_EQ(got, "hello");
  CHECK_INT_EQ(clu_sock_fill(b, NULL), CLU_AGAIN); /* nothing there: no wait */
  CHECK(strstr(clu_sock_text(a, text, sizeof text), " -> ") != NULL);
  clu_sock_free(a);
  CHECK_INT_EQ(fill_soon(b), CLU_EOF);
  clu_sock_free(b);
  clu_sock_free(l);
}

TEST(a_pair_over_ipv4) { check_pair("127.0.0.1", "127.0.0.1"); }
TEST(a_pair_over_ipv6) {
  if (!has_ipv6()) SKIP("no IPv6 here");
  check_pair("::1", "::1");
}
TEST(every_address_takes_both_families) {
  if (!has_ipv6()) SKIP("no IPv6 here");
  check_pair(NULL, "127.0.0.1");
  check_pair(NULL, "::1");
  check_pair(NULL, "::ffff:127.0.0.1");
}

TEST(nobody_there_to_accept) {
  clu_err e = {0, 0, ""};
  clu_sock *l = listener("127.0.0.1", 0, 5, &e), *s = clu_sock_new();
  double from = test_ms();
  CHECK_INT_EQ(clu_sock_accept(l, s, &e), CLU_AGAIN);
  CHECK_INT_EQ(clu_sock_wait(l, CLU_READ, 100 * MS), CLU_AGAIN);
  CHECK(test_ms() - from > 90);
  CHECK_INT_EQ(clu_sock_fill(l, &e), CLU_CLOSED);
  clu_sock_free(s);
  clu_sock_free(l);
}

TEST(an_address_in_use) {
  clu_err e = {0, 0, ""};
  clu_sock *l = listener("127.0.0.1", 0, 5, &e), *m;
  REQUIRE(l);
  m = listener("127.0.0.1", port_of(l), 5, &e);
  CHECK(m == NULL);
  CHECK_INT_EQ(e.code, CLU_IN_USE);
  CHECK(strstr(e.text, "127.0.0.1:") != NULL);
  clu_sock_free(l);
}

TEST(an_address_can_be_used_again_at_once) {
  clu_err e = {0, 0, ""};
  clu_sock *l = listener("127.0.0.1", 0, 5, &e), *a, *b;
  int port = port_of(l);
  clu_sock_free(l);
  CHECK((l = listener("127.0.0.1", port, 300, &e)) != NULL);
  REQUIRE(l);
  a = client("127.0.0.1", port);
  b = accepted(l);
  clu_sock_free(a);
  clu_sock_free(b);
  clu_sock_free(l);
}

static void check_refused(const char *host) {
  int port = dead_port(host), rc;
  clu_err e = {0, 0, ""};
  double from = test_ms();
  clu_sock *s = clu_sock_new();
  rc = connect_to(s, host, port, 10000, &e);
  CHECK_INT_EQ(rc, CLU_REFUSED);
  CHECK_INT_EQ(e.sys, WSAECONNREFUSED);
  CHECK(strstr(e.text, host) != NULL);
  CHECK(s->fd == CLU_NO_FD);
  if (test_ms() - from > 3000) test_fail(__FILE__, __LINE__, "%s: %.0f ms", host, test_ms() - from);
  clu_sock_free(s);
}

TEST(a_dead_port_is_refused_at_once) {
  check_refused("127.0.0.1");
  if (has_ipv6()) check_refused("::1");
}

TEST(a_dead_port_is_refused_by_a_system_that_knows_nothing_of_fast_refusal) {
  ask_fails = 1;
  asked = 0;
  check_refused("127.0.0.1");
  CHECK(asked > 0);
  ask_fails = 0;
}

/* How often fast refusal is asked for when connecting there begins. */
static int asks(const char *host) {
  clu_addr to;
  clu_fd fd = CLU_NO_FD;
  clu_err e;
  int before = asked;
  address(host, 9, &to);
  clu_os_connect_start(&to, 0, 0, &fd, &e);
  if (fd != CLU_NO_FD) clu_os_close(fd);
  return asked - before;
}

TEST(fast_refusal_is_asked_for_on_the_loopback_only) {
  CHECK_INT_EQ(asks("127.0.0.1"), 1);
  CHECK_INT_EQ(asks("127.200.3.4"), 1);
  if (has_ipv6()) {
    CHECK_INT_EQ(asks("::1"), 1);
    CHECK_INT_EQ(asks("::ffff:127.0.0.1"), 1);
    CHECK_INT_EQ(asks("::ffff:192.0.2.1"), 0);
    CHECK_INT_EQ(asks("2001:db8::1"), 0);
  }
  CHECK_INT_EQ(asks("192.0.2.1"), 0);
  CHECK_INT_EQ(asks("128.0.0.1"), 0);
}

TEST(the_first_address_that_answers_is_taken) {
  clu_err e = {0, 0, ""};
  clu_sock *l, *a, *b;
  if (!has_ipv6()) SKIP("no IPv6 here");
  REQUIRE(l = listener("::1", 0, 5, &e));
  a = client("localhost", port_of(l));
  b = accepted(l);
  clu_sock_free(a);
  clu_sock_free(b);
  clu_sock_free(l);
}

/* Nobody accepts and the queue is full: the system answers nothing, or refuses. */
TEST(a_connect_ends_at_its_deadline) {
  enum { N = 12 };
  clu_err e = {0, 0, ""};
  clu_sock *l = listener("127.0.0.1", 0, 1, &e), *s[N];
  int n = 0, rc = CLU_OK;
  double from = 0;
  REQUIRE(l);
  while (n < N && rc == CLU_OK) {
    s[n] = clu_sock_new();
    from = test_ms();
    rc = connect_to(s[n++], "127.0.0.1", port_of(l), 300, &e);
  }
  CHECK(rc == CLU_AGAIN || rc == CLU_REFUSED); /* Linux, below wine, is silent; Windows refuses */
  CHECK(test_ms() - from < 2000);
  for (int i = 0; i < n; i++) clu_sock_free(s[i]);
  clu_sock_free(l);
}

TEST(reset_before_accept_is_seen_by_the_first_read) {
  clu_err e = {0, 0, ""};
  clu_sock *l = listener("127.0.0.1", 0, 5, &e), *a, *b = clu_sock_new();
  int rc = CLU_AGAIN;
  REQUIRE(l);
  a = client("127.0.0.1", port_of(l));
  CHECK_INT_EQ(clu_os_sockopt_set(a->fd, CLU_OPT_LINGER, 0), CLU_OK);
  a->abort_at_close = 1;
  clu_sock_free(a);
  /* Windows may forget the connection instead: then there is nothing to accept */
  for (double end = test_ms() + 500;
       (rc = clu_sock_accept(l, b, &e)) == CLU_AGAIN && test_ms() < end;)
    Sleep(1);
  if (rc != CLU_OK && rc != CLU_AGAIN) test_fail(__FILE__, __LINE__, "%d %d %s", rc, e.sys, e.text);
  if (rc == CLU_OK) {
    CHECK_RESET(b);
  }
  clu_sock_free(b);
  clu_sock_free(l);
}

TEST(a_thousand_ports_are_asked_at_once) {
  enum { N = 1000 };
  static clu_addr to[N];
  clu_err e = {0, 0, ""};
  clu_sock *l = listener("127.0.0.1", 0, 5, &e);
  clu_probe *p;
  int rc = CLU_AGAIN, open = 0, port;
  double from;
  REQUIRE(l);
  port = port_of(l);
  for (int i = 0; i < N; i++) {
    address("127.0.0.1", i == 500 ? port : 1 + i, &to[i]);
  }
  from = test_ms();
  REQUIRE(p = clu_probe_new(to, N, &e));
  while ((rc = clu_probe_step(p, 100 * MS, &e)) == CLU_AGAIN && test_ms() - from < 20000) continue;
  CHECK_INT_EQ(rc, CLU_OK);
  for (int i = 0; i < N; i++) open += clu_probe_answer(p, i) == 1;
  CHECK(open >= 1);
  CHECK_INT_EQ(clu_probe_answer(p, 500), 1);
  clu_probe_free(p);
  clu_sock_free(l);
}

/* ---- the rules of ends ---- */

TEST(after_a_shutdown_that_side_is_closed) {
  clu_sock *a, *b;
  clu_err e;
  size_t put;
  tcp_pair(&a, &b);
  CHECK_INT_EQ(clu_sock_shutdown(a, CLU_WRITE, &e), CLU_OK);
  CHECK_INT_EQ(fill_soon(b), CLU_EOF);
  CHECK_INT_EQ(clu_sock_put(a, "x", 1, &put, &e), CLU_CLOSED);
  CHECK_INT_EQ(clu_sock_put(b, "y", 1, &put, &e), CLU_OK); /* the other direction goes on */
  CHECK_INT_EQ(fill_soon(a), CLU_OK);
  clu_sock_free(a);
  clu_sock_free(b);
}

TEST(the_port_itself_says_eof_after_its_own_shutdown) {
  clu_sock *a, *b;
  char c;
  clu_iov v = {&c, 1};
  size_t n;
  tcp_pair(&a, &b);
  CHECK_INT_EQ(clu_os_shutdown(a->fd, CLU_READ), CLU_OK);
  CHECK_INT_EQ(clu_os_readv(a->fd, &v, 1, &n, NULL, NULL), CLU_EOF);
  CHECK_INT_EQ(clu_os_shutdown(a->fd, CLU_READ | CLU_WRITE), CLU_OK);
  CHECK_INT_EQ(clu_os_writev(a->fd, &v, 1, NULL, 0, &n), CLU_RESET);
  clu_sock_free(a);
  clu_sock_free(b);
}

TEST(an_end_with_unread_bytes_is_no_reset) {
  clu_sock *a, *b;
  size_t put;
  char got[4] = "";
  int rc = CLU_AGAIN;
  tcp_pair(&a, &b);
  CHECK_INT_EQ(clu_sock_put(a, "unread", 6, &put, NULL), CLU_OK);
  CHECK_INT_EQ(clu_sock_put(b, "bye", 3, &put, NULL), CLU_OK);
  CHECK_INT_EQ(clu_os_wait_readable(b->fd, 5000 * (int64_t)MS), CLU_OK);
  CHECK_SOON((rc = clu_sock_end(b, 5 * MS)) == CLU_OK, 5000);
  CHECK(b->fd == CLU_NO_FD);
  CHECK_INT_EQ(fill_soon(a), CLU_OK);
  CHECK_INT_EQ(clu_sock_take(a, got, 3), 3);
  CHECK_STR_EQ(got, "bye");
  CHECK_INT_EQ(fill_soon(a), CLU_EOF);
  clu_sock_free(a);
  clu_sock_free(b);
}

TEST(a_linger_of_zero_resets) {
  clu_sock *a, *b;
  tcp_pair(&a, &b);
  CHECK_INT_EQ(clu_os_sockopt_set(a->fd, CLU_OPT_LINGER, 0), CLU_OK);
  a->abort_at_close = 1;
  clu_sock_free(a);
  CHECK_RESET(b);
  clu_sock_free(b);
}

TEST(a_dead_peer_is_an_error) {
  clu_sock *a, *b;
  size_t put;
  int rc = CLU_OK;
  clu_err e = {0, 0, ""};
  tcp_pair(&a, &b);
  clu_sock_free(b);
  CHECK_SOON((rc = clu_sock_put(a, "x", 1, &put, &e)) != CLU_OK, 5000);
  CHECK_INT_EQ(rc, CLU_RESET);
  CHECK(strstr(e.text, "127.0.0.1:") != NULL);
  clu_sock_free(a);
}

TEST(forty_connections_leave_nothing) {
  clu_err e = {0, 0, ""};
  clu_sock *l = listener("127.0.0.1", 0, -1, &e);
  REQUIRE(l);
  for (int i = 0; i < 40; i++) {
    clu_sock *a = client("127.0.0.1", port_of(l)), *b = accepted(l);
    clu_sock_free(i % 2 ? a : b);
    clu_sock_free(i % 2 ? b : a);
  }
  CHECK_INT_EQ(l->accepted, 40);
  clu_sock_free(l);
}
