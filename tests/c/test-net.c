/* The port's sockets, and listening and connecting on top of them. Targets are loopback addresses
 * and paths. */
// link: -Wl,--wrap=accept4 -Wl,--wrap=accept -Wl,--wrap=setsockopt -Wl,--wrap=getsockopt
#include "test.h"

#include <netinet/tcp.h>

#include "core/base/addr.h"

#include "posix/net.h"
#include "sock-help.h"

/* ---- faults on demand ---- */

static const int *accept_errors; /* to be had in this order, up to a 0 */
int __real_accept4(int fd, struct sockaddr *a, socklen_t *n, int flags);
int __wrap_accept4(int fd, struct sockaddr *a, socklen_t *n, int flags);
int __wrap_accept4(int fd, struct sockaddr *a, socklen_t *n, int flags) {
  if (accept_errors && *accept_errors) {
    errno = *accept_errors++;
    return -1;
  }
  return __real_accept4(fd, a, n, flags);
}

static int set_error, set_name,
    get_error; /* of setsockopt(), for one option or (0) all; of getsockopt() */
int __real_setsockopt(int fd, int level, int name, const void *value, socklen_t n);
int __wrap_setsockopt(int fd, int level, int name, const void *value, socklen_t n);
int __wrap_setsockopt(int fd, int level, int name, const void *value, socklen_t n) {
  if (set_error && (!set_name || name == set_name)) {
    errno = set_error;
    return -1;
  }
  return __real_setsockopt(fd, level, name, value, n);
}
int __real_getsockopt(int fd, int level, int name, void *value, socklen_t *n);
int __wrap_getsockopt(int fd, int level, int name, void *value, socklen_t *n);
int __wrap_getsockopt(int fd, int level, int name, void *value, socklen_t *n) {
  if (get_error) {
    errno = get_error;
    return -1;
  }
  return __real_getsockopt(fd, level, name, value, n);
}

/* where there is no accept4() */
int __real_accept(int fd, struct sockaddr *a, socklen_t *n);
int __wrap_accept(int fd, struct sockaddr *a, socklen_t *n);
int __wrap_accept(int fd, struct sockaddr *a, socklen_t *n) {
  if (accept_errors && *accept_errors) {
    errno = *accept_errors++;
    return -1;
  }
  return __real_accept(fd, a, n);
}
/* ---- addresses ---- */

static void check_text(const char *host, int port, const char *want, int loopback) {
  clu_addr a[CLU_MAX_ADDRS];
  char text[CLU_ADDR_TEXT];
  int n = 0;
  clu_resolve *r = clu_resolve_start(host, port, NULL);
  REQUIRE(r);
  CHECK_INT_EQ(clu_resolve_wait(r, 0, a, &n, NULL), CLU_OK);
  clu_resolve_free(r);
  REQUIRE(n > 0);
  CHECK_STR_EQ(clu_addr_text(&a[0], text, sizeof text), want);
  CHECK_INT_EQ(clu_addr_is_loopback(&a[0]), loopback);
}

TEST(addresses_as_text) {
  check_text("127.0.0.1", 80, "127.0.0.1:80", 1);
  check_text("127.9.9.9", 65535, "127.9.9.9:65535", 1);
  check_text("::1", 80, "[::1]:80", 1);
  check_text("::ffff:127.0.0.1", 80, "127.0.0.1:80", 1);
  check_text("192.0.2.1", 1, "192.0.2.1:1", 0);
  check_text("0.10.100.255", 80, "0.10.100.255:80", 0);
  check_text("::ffff:209.99.0.90", 80, "209.99.0.90:80", 0);
  check_text("2001:db8::2", 1, "[2001:db8::2]:1", 0);
  check_text(NULL, 7, "[::]:7", 0);
}

TEST(localhost_is_both_without_asking_anybody) {
  clu_addr a[CLU_MAX_ADDRS];
  int n = 0;
  clu_resolve *r = clu_resolve_start("localhost", 9, NULL);
  CHECK_INT_EQ(clu_resolve_wait(r, 0, a, &n, NULL), CLU_OK);
  CHECK_INT_EQ(n, 2);
  CHECK_INT_EQ(a[0].family, CLU_INET);
  CHECK_INT_EQ(a[1].family, CLU_INET6);
  clu_resolve_free(r);
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

/* ---- listening and connecting ---- */

TEST(a_pair_over_each_family) {
  static const char *const hosts[] = {"127.0.0.1", "::1"};
  for (int i = 0; i < 2; i++) {
    clu_sock *l = listener(hosts[i], -1), *a, *b;
    char text[CLU_ADDR_TEXT * 2 + 8], got[6] = "";
    CHECK(port_of(l) > 0);
    if (clu_os_can() & CLU_CAN_TCP_INFO) CHECK(l->backlog_granted > 0);
    a = client(hosts[i], port_of(l));
    b = accepted(l);
    CHECK(flags_are_right(l->fd) && flags_are_right(a->fd) && flags_are_right(b->fd));
    CHECK(l->fd >= 1024 || a->fd < 1024); /* as high as it can be had */
    CHECK_INT_EQ(put_all(a, "hello"), 5);
    CHECK_INT_EQ(fill_soon(b), CLU_OK);
    CHECK_INT_EQ(clu_sock_take(b, got, 10), 5);
    CHECK_STR_EQ(got, "hello");
    CHECK_INT_EQ(a->bytes_out, 5);
    CHECK_INT_EQ(b->bytes_in, 5);
    CHECK_INT_EQ(l->accepted, 1);
    CHECK_INT_EQ(clu_sock_fill(b, NULL), CLU_AGAIN); /* nothing there: no wait */
    CHECK(strstr(clu_sock_text(a, text, sizeof text), " -> ") != NULL);
    clu_sock_free(a);
    CHECK_INT_EQ(fill_soon(b), CLU_EOF);
    clu_sock_free(b);
    clu_sock_free(l);
  }
  CHECK(clu_sock_next(NULL) == NULL);
}

TEST(descriptors_are_right_from_the_start) {
  clu_listen how = {-1, 0, 0};
  clu_sock *l = listener("127.0.0.1", -1);
  clu_addr any;
  clu_fd a, b = CLU_NO_FD, c;
  int rc = clu_os_connect_start(&l->local, 0, 0, &a, NULL);
  CHECK(rc == CLU_OK || rc == CLU_AGAIN);
  CHECK_SOON(clu_os_accept(l->fd, &b, NULL, NULL) == CLU_OK, 2000);
  clu_addr_any(CLU_INET, 0, &any);
  CHECK_INT_EQ(clu_os_listen(&any, &how, &c, NULL, NULL), CLU_OK);
  CHECK(flags_are_right(a) && flags_are_right(b) && flags_are_right(c));
  clu_os_close(a);
  clu_os_close(b);
  clu_os_close(c);
  clu_sock_free(l);
}

TEST(every_address_takes_both_families) {
  clu_sock *l = listener(NULL, -1), *a = client("127.0.0.1", port_of(l)),
           *b = client("::1", port_of(l));
  char text[CLU_ADDR_TEXT];
  clu_sock *x = accepted(l), *y = accepted(l);
  CHECK(strncmp(clu_addr_text(&x->peer, text, sizeof text), "127.0.0.1:", 10) == 0);
  CHECK(strncmp(clu_addr_text(&y->peer, text, sizeof text), "[::1]:", 6) == 0);
  clu_sock_free(a);
  clu_sock_free(b);
  clu_sock_free(x);
  clu_sock_free(y);
  clu_sock_free(l);
}

TEST(localhost_finds_a_listener_of_either_family) {
  clu_sock *l = listener("::1", -1), *a = client("localhost", port_of(l));
  CHECK_INT_EQ(a->peer.family, CLU_INET6);
  clu_sock_free(a);
  clu_sock_free(l);
}

static int dead_port(void) {
  clu_sock *l = listener("127.0.0.1", -1);
  int port = port_of(l);
  clu_sock_free(l);
  return port;
}

TEST(a_dead_port_is_refused_and_leaves_nothing) {
  int port = dead_port();
  for (int i = 0; i < 50; i++) {
    clu_sock *s = clu_sock_new();
    clu_err e = {0, 0, ""};
    CHECK_INT_EQ(clu_sock_connect(s, "127.0.0.1", port, NULL, 0, 0, &e), CLU_OK);
    CHECK_INT_EQ(clu_sock_connect_step(s, 0, &e), CLU_REFUSED); /* at once: without any wait */
    CHECK_INT_EQ(s->fd, CLU_NO_FD);
    CHECK_INT_EQ(s->last.code, CLU_REFUSED);
    CHECK(strstr(e.text, "127.0.0.1:") == e.text);
    clu_sock_free(s);
  }
}

/* A socket bound to the port that it then connects to meets itself; nobody listens there. */
TEST(a_connection_to_itself_is_refused) {
  clu_addr a;
  clu_err e = {0, 0, ""};
  struct sockaddr_in in;
  int fd = socket(AF_INET, SOCK_STREAM, 0);
  socklen_t n = sizeof in;
  memset(&in, 0, sizeof in);
  in.sin_family = AF_INET;
  in.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  REQUIRE(bind(fd, (struct sockaddr *)&in, n) == 0 &&
          getsockname(fd, (struct sockaddr *)&in, &n) == 0);
  REQUIRE(connect(fd, (struct sockaddr *)&in, n) == 0);
  REQUIRE(clu_os_peer_addr(fd, &a) == CLU_OK);
  CHECK_INT_EQ(clu_os_connect_finish(fd, &a, &e), CLU_REFUSED);
  close(fd);
}

TEST(a_full_queue_is_waited_for_and_given_up) {
  clu_sock *l = listener("127.0.0.1", 0), *fillers[8], *late;
  clu_err e = {0, 0, ""};
  int n = 0, rc = CLU_OK;
  while (n < 8) { /* listen(0) takes one, and perhaps one more */
    fillers[n] = clu_sock_new();
    REQUIRE(clu_sock_connect(fillers[n], "127.0.0.1", port_of(l), NULL, 0, 0, &e) == CLU_OK);
    rc = finish(fillers[n++], 50, &e);
    if (rc != CLU_OK) break;
  }
  CHECK_INT_EQ(rc, CLU_AGAIN);
  late = fillers[n - 1];
  CHECK(late->connector != NULL);
  clu_sock_drop(late); /* while it connects: its descriptor goes, too */
  CHECK_INT_EQ(clu_sock_connect_step(late, 0, &e), CLU_CLOSED);
  while (n) clu_sock_free(fillers[--n]);
  clu_sock_free(l);
}

TEST(errors_of_accept_that_are_none) {
  static const int none[] = {ECONNABORTED, EPROTO, EINTR, EAGAIN, ENETDOWN, EHOSTUNREACH, 0};
  static const int limit[] = {EMFILE, EMFILE, EMFILE, 0};
  clu_sock *l = listener("127.0.0.1", -1), *a = client("127.0.0.1", port_of(l)),
           *b = clu_sock_new();
  clu_err e = {0, 0, ""};
  accept_errors = none;
  for (int i = 0; none[i]; i++) CHECK_INT_EQ(clu_sock_accept(l, b, &e), CLU_AGAIN);
  accept_errors = limit;
  CHECK_INT_EQ(clu_sock_accept(l, b, &e), CLU_LIMIT);
  accept_errors = NULL;
  CHECK_INT_EQ(clu_sock_accept(l, b, &e), CLU_OK); /* the connection was still there */
  clu_sock_free(a);
  clu_sock_free(b);
  clu_sock_free(l);
}

TEST(a_listener_without_descriptors_keeps_its_connections) {
  struct rlimit old, low;
  clu_sock *l = listener("127.0.0.1", -1), *a = client("127.0.0.1", port_of(l));
  clu_err e = {0, 0, ""};
  clu_fd fd;
  getrlimit(RLIMIT_NOFILE, &old);
  low = old;
  low.rlim_cur = 0; /* no new number is low enough */
  REQUIRE(setrlimit(RLIMIT_NOFILE, &low) == 0);
  CHECK_INT_EQ(clu_os_accept(l->fd, &fd, NULL, &e), CLU_LIMIT);
  CHECK_INT_EQ(clu_os_accept(l->fd, &fd, NULL, &e), CLU_LIMIT);
  REQUIRE(setrlimit(RLIMIT_NOFILE, &old) == 0);
  CHECK_INT_EQ(clu_os_accept(l->fd, &fd, NULL, &e), CLU_OK);
  clu_os_close(fd);
  clu_sock_free(a);
  clu_sock_free(l);
}

TEST(a_soft_limit_on_descriptors_is_raised) {
  struct rlimit low;
  clu_sock *l = listener("127.0.0.1", -1), *a = client("127.0.0.1", port_of(l)),
           *b = clu_sock_new();
  clu_err e = {0, 0, ""};
  getrlimit(RLIMIT_NOFILE, &low);
  low.rlim_cur = 3;
  REQUIRE(setrlimit(RLIMIT_NOFILE, &low) == 0);
  CHECK_INT_EQ(clu_sock_accept(l, b, &e), CLU_OK);
  clu_sock_free(a);
  clu_sock_free(b);
  clu_sock_free(l);
}

TEST(reset_before_accept_is_seen_by_the_first_read) {
  clu_sock *l = listener("127.0.0.1", -1), *a = client("127.0.0.1", port_of(l)), *b;
  linger_zero(a);
  clu_sock_free(a);
  b = clu_sock_new();
  if (clu_sock_accept(l, b, NULL) == CLU_OK) {
    CHECK_INT_EQ(fill_soon(b), CLU_RESET);
    CHECK_INT_EQ(b->last.code, CLU_RESET);
  }
  clu_sock_free(b);
  clu_sock_free(l);
}

/* macOS says EINVAL to options of a connection that its peer has reset. */
TEST(an_option_of_a_reset_connection_is_a_reset) {
  clu_sock *a, *b;
  tcp_pair(&a, &b);
  set_error = EINVAL;
  set_name = TCP_NODELAY;
  CHECK_INT_EQ(clu_os_sockopt_set(b->fd, CLU_OPT_NODELAY, 1),
               CLU_RESET); /* no value of it is invalid */
  set_name = 0;
  CHECK_INT_EQ(clu_os_sockopt_set(b->fd, CLU_OPT_KEEP_IDLE, 100000),
               CLU_UNSUPPORTED); /* this may be the value */
  set_error = 0;
  linger_zero(a);
  clu_sock_free(a);
  CHECK_SOON(fill_soon(b) == CLU_RESET, 5000);
  set_error = EINVAL;
  for (int i = 0; i < CLU_N_OPTS; i++)
    if (i != CLU_OPT_USER_TIMEOUT || (clu_os_can() & CLU_CAN_USER_TIMEOUT))
      CHECK_INT_EQ(clu_os_sockopt_set(b->fd, (clu_sockopt)i, 1), CLU_RESET);
  set_error = ECONNRESET;
  CHECK_INT_EQ(clu_os_sockopt_set(b->fd, CLU_OPT_KEEPALIVE, 1), CLU_RESET);
  set_error = EBADF;
  CHECK_INT_EQ(clu_os_sockopt_set(b->fd, CLU_OPT_NODELAY, 1), CLU_SYS);
  clu_sock_free(b);
}

TEST(an_option_that_a_family_or_a_listener_lacks_is_no_reset) {
  clu_sock *l = listener("127.0.0.1", -1);
  clu_fd fd[2];
  REQUIRE(clu_os_pair(fd, NULL) == CLU_OK);
  set_error = EINVAL;
  CHECK_INT_EQ(clu_os_sockopt_set(fd[0], CLU_OPT_NODELAY, 1), CLU_UNSUPPORTED);
  CHECK_INT_EQ(clu_os_sockopt_set(l->fd, CLU_OPT_KEEP_COUNT, 1), CLU_UNSUPPORTED);
  clu_os_close(fd[0]);
  clu_os_close(fd[1]);
  clu_sock_free(l);
}

/* Some systems and containers know less of getsockopt(). */
TEST(without_getsockopt_connections_are_made_and_refused_all_the_same) {
  clu_err e = {0, 0, ""};
  clu_sock_status st;
  clu_sock *l, *a, *b, *refused = clu_sock_new();
  char got[4];
  int port, rc, v;
  get_error = ENOPROTOOPT;
  l = listener("127.0.0.1", -1);
  port = port_of(l);
  a = client("127.0.0.1", port);
  b = accepted(l);
  put_all(a, "abc");
  CHECK_INT_EQ(fill_soon(b), CLU_OK);
  CHECK_INT_EQ(clu_sock_take(b, got, 4), 3);
  CHECK_INT_EQ(clu_os_sock_status(a->fd, &st), CLU_OK);
  CHECK_INT_EQ(st.kind, CLU_KIND_STREAM);
  CHECK_INT_EQ(st.family, CLU_INET);
  CHECK_INT_EQ(clu_os_sockopt_get(a->fd, CLU_OPT_NODELAY, &v), CLU_UNSUPPORTED);
  CHECK_INT_EQ(clu_os_sockopt_get(a->fd, CLU_OPT_LINGER, &v), CLU_UNSUPPORTED);
  CHECK_INT_EQ(end_soon(a), CLU_OK);
  clu_sock_free(a);
  clu_sock_free(b);
  clu_sock_free(l);
  rc = clu_sock_connect(refused, "127.0.0.1", port, NULL, 0, 0, &e);
  if (rc == CLU_OK) rc = finish(refused, 5000, &e);
  CHECK_INT_EQ(rc, CLU_REFUSED);
  clu_sock_free(refused);
}

TEST(an_address_in_use) {
  clu_sock *l = listener("127.0.0.1", -1), *m = clu_sock_new();
  clu_listen how = {-1, 0, 0};
  clu_err e = {0, 0, ""};
  CHECK_INT_EQ(clu_sock_listen(m, &l->local, 1, NULL, &how, &e), CLU_IN_USE);
  CHECK(strstr(e.text, "127.0.0.1:") == e.text);
  clu_sock_free(m);
  clu_sock_free(l);
}

TEST(the_backlog_is_told_as_granted) {
  clu_sock_status st;
  if (!(clu_os_can() & CLU_CAN_TCP_INFO)) SKIP("the system does not tell");
  clu_sock *l = listener("127.0.0.1", 5), *m = listener("127.0.0.1", -1), *a;
  CHECK_INT_EQ(l->backlog_asked, 5);
  CHECK_INT_EQ(l->backlog_granted, 5);
  CHECK(m->backlog_granted >= 128);
  a = client("127.0.0.1", port_of(l));
  CHECK_SOON(clu_os_sock_status(l->fd, &st) == CLU_OK && st.backlog_used == 1, 2000);
  CHECK_INT_EQ(st.backlog_max, 5);
  CHECK_INT_EQ(st.tcp, CLU_TCP_LISTEN);
  CHECK(st.listening);
  clu_sock_free(a);
  clu_sock_free(l);
  clu_sock_free(m);
}

/* ---- Unix-domain ---- */

TEST(a_path_is_cleared_only_when_nobody_listens_there) {
  char dir[] = "/tmp/clutch-XXXXXX", path[64];
  struct stat st;
  int rc, fd;
  clu_sock *l, *m, *a, *b;
  REQUIRE(mkdtemp(dir));
  snprintf(path, sizeof path, "%s/s", dir);
  l = at_path(path, &rc);
  CHECK_INT_EQ(rc, CLU_OK);
  m = at_path(path, &rc);
  CHECK_INT_EQ(rc, CLU_IN_USE);
  clu_sock_free(m);
  CHECK(stat(path, &st) == 0); /* the loser did not take the file with it */
  a = clu_sock_new();
  REQUIRE(clu_sock_connect(a, NULL, 0, path, 0, 0, NULL) == CLU_OK);
  CHECK_INT_EQ(finish(a, 2000, NULL), CLU_OK);
  b = accepted(l);
  put_all(a, "x");
  CHECK_INT_EQ(fill_soon(b), CLU_OK);
  clu_os_close(l->fd); /* as if the process had been killed */
  l->fd = CLU_NO_FD;
  l->path[0] = 0;
  clu_sock_free(l);
  CHECK(stat(path, &st) == 0);
  l = at_path(path, &rc);
  CHECK_INT_EQ(rc, CLU_OK);
  clu_sock_free(l);
  CHECK(stat(path, &st) != 0); /* removed with its listener */
  fd = open(path, O_CREAT | O_WRONLY, 0600);
  close(fd);
  l = at_path(path, &rc);
  CHECK_INT_EQ(rc, CLU_IN_USE); /* a file of another kind is left alone */
  clu_sock_free(l);
  CHECK(stat(path, &st) == 0);
  clu_sock_free(a);
  clu_sock_free(b);
  unlink(path);
  rmdir(dir);
}

/* One table of errors; what a read or write says of a connection that has ended is a reset,
 * whatever ended it. */
TEST(errors_of_the_system_have_one_code_each) {
  CHECK_INT_EQ(clu_net_code(ETIMEDOUT), CLU_TIMEOUT);
  CHECK_INT_EQ(clu_net_transfer_code(ETIMEDOUT), CLU_RESET);
  CHECK_INT_EQ(clu_net_code(EHOSTUNREACH), CLU_UNREACHABLE);
  CHECK_INT_EQ(clu_net_transfer_code(EHOSTUNREACH), CLU_RESET);
  CHECK_INT_EQ(clu_net_transfer_code(EPIPE), CLU_RESET);
  CHECK_INT_EQ(clu_net_transfer_code(EAGAIN), CLU_AGAIN);
  CHECK_INT_EQ(clu_net_transfer_code(ENOBUFS), CLU_AGAIN);
  CHECK_INT_EQ(clu_net_code(ECONNREFUSED), CLU_REFUSED);
  CHECK_INT_EQ(clu_net_transfer_code(EBADF), CLU_SYS);
}

TEST(a_full_unix_queue_is_asked_again) {
  char dir[] = "/tmp/clutch-XXXXXX", path[64];
  clu_listen how = {0, 0, 0};
  clu_addr at;
  clu_err e = {0, 0, ""};
  clu_sock *l = clu_sock_new(), *c[4], *x;
  int n = 0;
  REQUIRE(mkdtemp(dir));
  snprintf(path, sizeof path, "%s/s", dir);
  REQUIRE(clu_os_addr_path(path, &at, &e) == CLU_OK &&
          clu_sock_listen(l, &at, 1, path, &how, &e) == CLU_OK);
  for (; n < 4; n++) {
    c[n] = clu_sock_new();
    REQUIRE(clu_sock_connect(c[n], NULL, 0, path, 0, 0, &e) == CLU_OK);
    if (finish(c[n], 30, &e) != CLU_OK) break;
  }
  REQUIRE(n < 4);
  CHECK(strstr(e.text, "queue is full") != NULL);
  x = accepted(l);
  CHECK_INT_EQ(finish(c[n], 2000, &e), CLU_OK);
  clu_sock_free(x);
  for (int i = 0; i <= n; i++) clu_sock_free(c[i]);
  clu_sock_free(l);
  rmdir(dir);
}
