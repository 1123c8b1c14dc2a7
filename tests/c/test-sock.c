/* Sockets: the port's functions and clu_sock on top of them. Targets are loopback addresses and paths.
 */
// link: -Wl,--wrap=accept4 -Wl,--wrap=shutdown
#include "test.h"

#include <netinet/in.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "sock.h"

#define MS 1000000

/* ---- faults on demand ---- */

static const int *accept_errors; /* to be had in this order, up to a 0 */
static int shutdown_fails;
int __real_accept4(int fd, struct sockaddr *a, socklen_t *n, int flags);
int __wrap_accept4(int fd, struct sockaddr *a, socklen_t *n, int flags);
int __wrap_accept4(int fd, struct sockaddr *a, socklen_t *n, int flags) {
  if (accept_errors && *accept_errors) {
    errno = *accept_errors++;
    return -1;
  }
  return __real_accept4(fd, a, n, flags);
}
int __real_shutdown(int fd, int how);
int __wrap_shutdown(int fd, int how);
int __wrap_shutdown(int fd, int how) {
  if (shutdown_fails) {
    errno = EIO;
    return -1;
  }
  return __real_shutdown(fd, how);
}

/* ---- helpers ---- */

static clu_sock *listener(const char *host, int backlog) {
  clu_listen how = {backlog, 0, 0};
  clu_err e = {0, 0, ""};
  clu_addr at[CLU_MAX_ADDRS];
  int n = 0;
  clu_sock *l = clu_sock_new();
  clu_resolve *r = clu_os_resolve_start(host, 0, &e);
  REQUIRE(l && r && clu_os_resolve_wait(r, 0, at, &n, &e) == CLU_OK);
  clu_os_resolve_free(r);
  REQUIRE(clu_sock_listen(l, at, n, NULL, &how, &e) == CLU_OK);
  return l;
}

static int port_of(const clu_sock *s) {
  char host[CLU_ADDR_TEXT];
  return clu_os_addr_host(&s->local, host, sizeof host);
}

static int finish(clu_sock *s, int ms, clu_err *e) {
  uint64_t end = clu_os_now() + (uint64_t)ms * MS;
  int rc;
  while ((rc = clu_sock_connect_step(s, 10 * MS, e)) == CLU_AGAIN && clu_os_now() < end) continue;
  return rc;
}

static clu_sock *client(const char *host, int port) {
  clu_sock *s = clu_sock_new();
  clu_err e = {0, 0, ""};
  REQUIRE(clu_sock_connect(s, host, port, NULL, 0, 0, &e) == CLU_OK);
  REQUIRE(finish(s, 5000, &e) == CLU_OK);
  return s;
}

static clu_sock *accepted(clu_sock *l) {
  clu_sock *s = clu_sock_new();
  int rc;
  clu_err e = {0, 0, ""};
  CHECK_SOON((rc = clu_sock_accept(l, s, &e)) == CLU_OK, 5000);
  return s;
}

static void tcp_pair(clu_sock **a, clu_sock **b) {
  clu_sock *l = listener("127.0.0.1", -1);
  *a = client("127.0.0.1", port_of(l));
  *b = accepted(l);
  clu_sock_free(l);
}

static size_t put_all(clu_sock *s, const char *text) {
  size_t put = 0, n = strlen(text);
  REQUIRE(clu_sock_put(s, text, n, &put, NULL) == CLU_OK);
  return put;
}

static int fill_soon(clu_sock *s) {
  int rc = CLU_AGAIN;
  CHECK_SOON((rc = clu_sock_fill(s, NULL)) != CLU_AGAIN, 5000);
  return rc;
}

static int end_soon(clu_sock *s) {
  int rc = CLU_AGAIN;
  CHECK_SOON((rc = clu_sock_end(s, 5 * MS)) == CLU_OK, 5000);
  return rc;
}

static int state(const clu_sock *s) {
  clu_sock_status st;
  CHECK_INT_EQ(clu_os_sock_status(s->fd, &st), CLU_OK);
  return st.tcp;
}

static void linger_zero(clu_sock *s) {
  CHECK_INT_EQ(clu_os_sockopt_set(s->fd, CLU_OPT_LINGER, 0), CLU_OK);
  s->abort_at_close = 1;
}

static int flags_are_right(clu_fd fd) {
  return (fcntl((int)fd, F_GETFD) & FD_CLOEXEC) && (fcntl((int)fd, F_GETFL) & O_NONBLOCK);
}

/* ---- addresses ---- */

static void check_text(const char *host, int port, const char *want, int loopback) {
  clu_addr a[CLU_MAX_ADDRS];
  char text[CLU_ADDR_TEXT];
  int n = 0;
  clu_resolve *r = clu_os_resolve_start(host, port, NULL);
  REQUIRE(r);
  CHECK_INT_EQ(clu_os_resolve_wait(r, 0, a, &n, NULL), CLU_OK);
  clu_os_resolve_free(r);
  REQUIRE(n > 0);
  CHECK_STR_EQ(clu_os_addr_text(&a[0], text, sizeof text), want);
  CHECK_INT_EQ(clu_os_addr_is_loopback(&a[0]), loopback);
}

TEST(addresses_as_text) {
  check_text("127.0.0.1", 80, "127.0.0.1:80", 1);
  check_text("127.9.9.9", 65535, "127.9.9.9:65535", 1);
  check_text("::1", 80, "[::1]:80", 1);
  check_text("::ffff:127.0.0.1", 80, "127.0.0.1:80", 1);
  check_text("192.0.2.1", 1, "192.0.2.1:1", 0);
  check_text("2001:db8::2", 1, "[2001:db8::2]:1", 0);
  check_text(NULL, 7, "[::]:7", 0);
}

TEST(localhost_is_both_without_asking_anybody) {
  clu_addr a[CLU_MAX_ADDRS];
  int n = 0;
  clu_resolve *r = clu_os_resolve_start("localhost", 9, NULL);
  CHECK_INT_EQ(clu_os_resolve_wait(r, 0, a, &n, NULL), CLU_OK);
  CHECK_INT_EQ(n, 2);
  CHECK_INT_EQ(a[0].family, CLU_INET);
  CHECK_INT_EQ(a[1].family, CLU_INET6);
  clu_os_resolve_free(r);
}

TEST(a_name_without_an_address) {
  clu_addr a[CLU_MAX_ADDRS];
  clu_err e = {0, 0, ""};
  char name[80];
  int n = 0, rc = CLU_AGAIN;
  clu_resolve *r;
  memset(name, 'x', sizeof name); /* a label of more than 63 bytes: nobody has to be asked */
  name[79] = 0;
  REQUIRE(r = clu_os_resolve_start(name, 9, NULL));
  CHECK_SOON((rc = clu_os_resolve_wait(r, 10 * MS, a, &n, &e)) != CLU_AGAIN, 20000);
  CHECK_INT_EQ(rc, CLU_DNS);
  CHECK(strstr(e.text, name) != NULL);
  clu_os_resolve_free(r);
}

/* ---- listening and connecting ---- */

TEST(a_pair_over_each_family) {
  static const char *const hosts[] = {"127.0.0.1", "::1"};
  for (int i = 0; i < 2; i++) {
    clu_sock *l = listener(hosts[i], -1), *a, *b;
    char text[CLU_ADDR_TEXT * 2 + 8], got[6] = "";
    CHECK(port_of(l) > 0);
    CHECK(l->backlog_granted > 0);
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

TEST(every_address_takes_both_families) {
  clu_sock *l = listener(NULL, -1), *a = client("127.0.0.1", port_of(l)), *b = client("::1", port_of(l));
  char text[CLU_ADDR_TEXT];
  clu_sock *x = accepted(l), *y = accepted(l);
  CHECK(strncmp(clu_os_addr_text(&x->peer, text, sizeof text), "127.0.0.1:", 10) == 0);
  CHECK(strncmp(clu_os_addr_text(&y->peer, text, sizeof text), "[::1]:", 6) == 0);
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
  REQUIRE(bind(fd, (struct sockaddr *)&in, n) == 0 && getsockname(fd, (struct sockaddr *)&in, &n) == 0);
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
  clu_sock *l = listener("127.0.0.1", -1), *a = client("127.0.0.1", port_of(l)), *b = clu_sock_new();
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
  clu_sock *l = listener("127.0.0.1", -1), *a = client("127.0.0.1", port_of(l)), *b = clu_sock_new();
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

static clu_sock *at_path(const char *path, int *rc) {
  clu_sock *l = clu_sock_new();
  clu_listen how = {-1, 0, 0};
  clu_err e = {0, 0, ""};
  clu_addr a;
  REQUIRE(clu_os_addr_path(path, &a, &e) == CLU_OK);
  *rc = clu_sock_listen(l, &a, 1, path, &how, &e);
  return l;
}

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

TEST(a_full_unix_queue_is_asked_again) {
  char dir[] = "/tmp/clutch-XXXXXX", path[64];
  clu_listen how = {0, 0, 0};
  clu_addr at;
  clu_err e = {0, 0, ""};
  clu_sock *l = clu_sock_new(), *c[4], *x;
  int n = 0;
  REQUIRE(mkdtemp(dir));
  snprintf(path, sizeof path, "%s/s", dir);
  REQUIRE(clu_os_addr_path(path, &at, &e) == CLU_OK && clu_sock_listen(l, &at, 1, path, &how, &e) == CLU_OK);
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

/* ---- bytes ---- */

TEST(what_was_handed_out_can_be_taken_back) {
  clu_sock *a, *b;
  char got[8];
  tcp_pair(&a, &b);
  put_all(a, "abcdef");
  CHECK_INT_EQ(fill_soon(b), CLU_OK);
  CHECK_INT_EQ(clu_sock_take(b, got, 2), 2);
  clu_sock_keep(b);
  CHECK_INT_EQ(clu_sock_take(b, got, 3), 3);
  put_all(a, "ghi");
  CHECK_INT_EQ(fill_soon(b), CLU_OK);
  clu_sock_undo(b);
  CHECK_INT_EQ(clu_sock_take(b, got, 8), 7);
  CHECK_MEM_EQ(got, "cdefghi", 7);
  clu_sock_free(a);
  clu_sock_free(b);
}

TEST(bytes_are_put_back_in_front) {
  clu_sock *a, *b;
  char got[16];
  tcp_pair(&a, &b);
  put_all(a, "defgh");
  CHECK_INT_EQ(fill_soon(b), CLU_OK);
  CHECK_INT_EQ(clu_sock_take(b, got, 2), 2);
  clu_sock_keep(b);
  CHECK_INT_EQ(clu_sock_unread(b, "abcde", 5), CLU_OK);
  CHECK_INT_EQ(clu_sock_take(b, got, 16), 8);
  CHECK_MEM_EQ(got, "abcdefgh", 8);
  clu_sock_keep(b);
  for (int i = 0; i < 3; i++) CHECK_INT_EQ(clu_sock_unread(b, "0123456789", 10), CLU_OK);
  CHECK_INT_EQ(b->end - b->pos, 30);
  CHECK_INT_EQ(clu_sock_unread(b, NULL, 0), CLU_OK);
  clu_sock_free(a);
  clu_sock_free(b);
}

TEST(much_data_passes_whole_and_the_memory_for_taking_back_is_bounded) {
  clu_sock *a, *b;
  static unsigned char out[1 << 16], in[1 << 16];
  size_t sent = 0, got = 0, total = 24u << 20, wrong = 0;
  tcp_pair(&a, &b);
  while (got < total) {
    size_t put = 0, k;
    for (size_t i = 0; i < sizeof out; i++) out[i] = (unsigned char)((sent + i) % 251);
    if (sent < total) {
      size_t n = total - sent < sizeof out ? total - sent : sizeof out;
      int rc = clu_sock_put(a, out, n, &put, NULL);
      REQUIRE(rc == CLU_OK || rc == CLU_AGAIN);
      sent += put;
    }
    if (b->pos == b->end) {
      int rc = clu_sock_fill(b, NULL);
      REQUIRE(rc == CLU_OK || rc == CLU_AGAIN);
    }
    k = clu_sock_take(b, in, sizeof in);
    for (size_t i = 0; i < k; i++) wrong += in[i] != (got + i) % 251;
    got += k;
  }
  CHECK_INT_EQ(wrong, 0);
  CHECK(b->cap <= 4 * CLU_SOCK_KEEP);
  clu_sock_free(a);
  clu_sock_free(b);
}

TEST(a_dead_peer_is_an_error_and_no_signal) {
  clu_sock *a, *b;
  size_t put;
  int rc = CLU_OK;
  tcp_pair(&a, &b);
  linger_zero(b);
  clu_sock_free(b);
  CHECK_SOON((rc = clu_sock_put(a, "x", 1, &put, NULL)) == CLU_RESET, 2000);
  CHECK_INT_EQ(clu_sock_put(a, "x", 1, &put, NULL), CLU_RESET);
  clu_sock_free(a);
}

TEST(after_a_shutdown_that_side_is_closed) {
  clu_sock *a, *b;
  clu_err e = {0, 0, ""};
  size_t put;
  tcp_pair(&a, &b);
  CHECK_INT_EQ(clu_sock_shutdown(a, CLU_WRITE, &e), CLU_OK);
  CHECK_INT_EQ(clu_sock_put(a, "x", 1, &put, &e), CLU_CLOSED);
  CHECK(strstr(e.text, "127.0.0.1:") != NULL);
  CHECK_INT_EQ(fill_soon(b), CLU_EOF);
  CHECK_INT_EQ(state(b), CLU_TCP_CLOSE_WAIT);
  CHECK_SOON(state(a) == CLU_TCP_FIN_WAIT2, 2000);
  put_all(b, "still open this way");
  CHECK_INT_EQ(fill_soon(a), CLU_OK);
  clu_sock_free(a);
  clu_sock_free(b);
}

TEST(states_and_counts_are_told) {
  clu_sock *a, *b;
  clu_sock_status st;
  tcp_pair(&a, &b);
  CHECK_INT_EQ(state(a), CLU_TCP_ESTABLISHED);
  put_all(a, "12345");
  CHECK_SOON(clu_os_sock_status(b->fd, &st) == CLU_OK && st.queued_in == 5, 2000);
  CHECK_INT_EQ(st.retransmits, 0);
  CHECK(clu_os_sock_status(a->fd, &st) == CLU_OK && st.rtt_us > 0);
  CHECK_INT_EQ(st.kind, CLU_KIND_STREAM);
  CHECK_INT_EQ(st.family, CLU_INET);
  CHECK_INT_EQ(clu_os_sock_status(0, &st), CLU_SYS); /* not a socket */
  clu_sock_free(a);
  clu_sock_free(b);
}

TEST(options_are_set_and_read) {
  static const struct { clu_sockopt which; int value; } all[] = {
      {CLU_OPT_NODELAY, 1}, {CLU_OPT_KEEPALIVE, 1}, {CLU_OPT_KEEP_IDLE, 30}, {CLU_OPT_KEEP_INTERVAL, 5},
      {CLU_OPT_KEEP_COUNT, 4}, {CLU_OPT_USER_TIMEOUT, 3000}, {CLU_OPT_LINGER, 7}, {CLU_OPT_LINGER, -1}};
  clu_sock *a, *b;
  clu_fd pair[2];
  int v;
  tcp_pair(&a, &b);
  for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
    CHECK_INT_EQ(clu_os_sockopt_set(a->fd, all[i].which, all[i].value), CLU_OK);
    CHECK_INT_EQ(clu_os_sockopt_get(a->fd, all[i].which, &v), CLU_OK);
    CHECK_INT_EQ(v, all[i].value);
  }
  CHECK_INT_EQ(clu_os_sockopt_set(a->fd, CLU_OPT_SEND_BUFFER, 65536), CLU_OK);
  CHECK(clu_os_sockopt_get(a->fd, CLU_OPT_SEND_BUFFER, &v) == CLU_OK && v >= 65536);
  REQUIRE(clu_os_pair(pair, NULL) == CLU_OK);
  CHECK_INT_EQ(clu_os_sockopt_set(pair[0], CLU_OPT_NODELAY, 1), CLU_UNSUPPORTED);
  clu_os_close(pair[0]);
  clu_os_close(pair[1]);
  clu_sock_free(a);
  clu_sock_free(b);
}

TEST(the_table_knows_every_socket_of_the_process) {
  clu_fd got[64];
  int n = 0, found = 0;
  clu_sock *a, *b;
  int other = socket(AF_INET, SOCK_DGRAM, 0);
  tcp_pair(&a, &b);
  CHECK_INT_EQ(clu_os_sockets(got, 64, &n), CLU_OK);
  for (int i = 0; i < n; i++) found += got[i] == a->fd || got[i] == b->fd || got[i] == other;
  CHECK_INT_EQ(found, 3);
  CHECK_INT_EQ(clu_os_sockets(got, 1, &found), CLU_OK); /* counts those that found no room */
  CHECK_INT_EQ(found, n);
  close(other);
  clu_sock_free(a);
  clu_sock_free(b);
}

TEST(a_wait_for_descriptors_beyond_those_of_select) {
  struct rlimit lim;
  clu_watch w[3];
  clu_sock *a, *b;
  clu_fd high;
  int n = 0;
  getrlimit(RLIMIT_NOFILE, &lim);
  if (lim.rlim_max < 2500) SKIP("the hard limit on descriptors is too low");
  lim.rlim_cur = lim.rlim_cur > 2500 ? lim.rlim_cur : 2500;
  setrlimit(RLIMIT_NOFILE, &lim);
  tcp_pair(&a, &b);
  high = fcntl((int)b->fd, F_DUPFD_CLOEXEC, 2000);
  w[0].fd = high;
  w[0].want = CLU_READ;
  w[1].fd = a->fd;
  w[1].want = CLU_READ | CLU_WRITE;
  w[2].fd = CLU_NO_FD;
  w[2].want = CLU_READ;
  CHECK_INT_EQ(clu_os_poll(w, 3, 0, &n, NULL), CLU_OK);
  CHECK_INT_EQ(n, 1);
  CHECK_INT_EQ(w[0].ready, 0);
  CHECK_INT_EQ(w[1].ready, CLU_WRITE);
  put_all(a, "x");
  w[1].want = 0;
  CHECK_INT_EQ(clu_os_poll(w, 3, 2000 * (int64_t)MS, &n, NULL), CLU_OK);
  CHECK_INT_EQ(w[0].ready, CLU_READ);
  CHECK_INT_EQ(w[2].ready, 0);
  clu_os_close(high);
  clu_sock_free(a);
  clu_sock_free(b);
}

/* ---- the end ---- */

/* Unread bytes at a plain close() would make it a reset. */
TEST(an_end_with_unread_bytes_is_no_reset) {
  clu_sock *a, *b;
  char got[16];
  tcp_pair(&a, &b);
  put_all(b, "never read");
  put_all(a, "goodbye");
  CHECK_SOON(clu_sock_wait(a, CLU_READ, 0) == CLU_OK, 2000);
  end_soon(a);
  CHECK_INT_EQ(a->fd, CLU_NO_FD);
  CHECK_INT_EQ(fill_soon(b), CLU_OK);
  CHECK_INT_EQ(clu_sock_take(b, got, sizeof got), 7);
  CHECK_INT_EQ(fill_soon(b), CLU_EOF);
  end_soon(b);
  clu_sock_free(a);
  clu_sock_free(b);
}

TEST(every_step_of_the_end_is_tried_whatever_the_earlier_ones_said) {
  for (int how = 0; how < 5; how++) {
    clu_sock *a, *b;
    tcp_pair(&a, &b);
    switch (how) {
    case 0: end_soon(b); break;                  /* the peer first */
    case 1: linger_zero(b); end_soon(b); break;  /* reset: shutdown() answers ENOTCONN */
    case 2: clu_sock_shutdown(b, CLU_WRITE, NULL); break;
    case 3: put_all(b, "unread"); break;
    default: shutdown_fails = 1; break;          /* no step but the last works */
    }
    end_soon(a);
    CHECK_INT_EQ(a->fd, CLU_NO_FD);
    CHECK_INT_EQ(end_soon(a), CLU_OK); /* again is harmless */
    shutdown_fails = 0;
    clu_sock_free(a);
    clu_sock_free(b);
  }
}

TEST(a_peer_that_goes_on_sending_is_not_listened_to_for_ever) {
  static char junk[1 << 16];
  clu_sock *a, *b;
  size_t put;
  int rc = CLU_AGAIN;
  uint64_t end = clu_os_now() + 10000 * (uint64_t)MS;
  tcp_pair(&a, &b);
  while (rc == CLU_AGAIN && clu_os_now() < end) {
    clu_sock_put(b, junk, sizeof junk, &put, NULL);
    clu_sock_put(b, junk, sizeof junk, &put, NULL);
    rc = clu_sock_end(a, 0);
  }
  CHECK_INT_EQ(rc, CLU_OK);
  CHECK(a->drained < CLU_SOCK_DRAIN + (64u << 10));
  clu_sock_free(a);
  clu_sock_free(b);
}

TEST(bytes_the_peer_has_no_room_for_are_waited_for_then_dropped) {
  static char junk[1 << 16];
  clu_sock *a, *b;
  size_t put;
  tcp_pair(&a, &b);
  while (clu_sock_put(a, junk, sizeof junk, &put, NULL) == CLU_OK) continue;
  CHECK_INT_EQ(clu_sock_end(a, 5 * MS), CLU_AGAIN);
  CHECK_INT_EQ(clu_sock_end(a, 5 * MS), CLU_AGAIN);
  while (b->bytes_in < a->bytes_out) {
    REQUIRE(fill_soon(b) == CLU_OK);
    b->pos = b->mark = b->end;
    clu_sock_end(a, 0);
  }
  end_soon(a);
  CHECK_INT_EQ(fill_soon(b), CLU_EOF);
  clu_sock_free(a);
  clu_sock_free(b);
  tcp_pair(&a, &b);
  while (clu_sock_put(a, junk, sizeof junk, &put, NULL) == CLU_OK) continue;
  clu_sock_drop(a); /* without any wait */
  CHECK_INT_EQ(a->fd, CLU_NO_FD);
  clu_sock_free(a);
  clu_sock_free(b);
}

TEST(a_forked_child_closes_and_leaves_the_connection_alone) {
  char dir[] = "/tmp/clutch-XXXXXX", path[64];
  struct stat st;
  clu_sock *a, *b, *l;
  pid_t child;
  int rc, status;
  REQUIRE(mkdtemp(dir));
  snprintf(path, sizeof path, "%s/s", dir);
  l = at_path(path, &rc);
  tcp_pair(&a, &b);
  child = fork();
  if (child == 0) {
    clu_sock_free(a);
    clu_sock_free(b);
    clu_sock_free(l);
    _exit(0);
  }
  waitpid(child, &status, 0);
  CHECK(stat(path, &st) == 0);
  CHECK_INT_EQ(state(a), CLU_TCP_ESTABLISHED);
  put_all(a, "x");
  CHECK_INT_EQ(fill_soon(b), CLU_OK);
  clu_sock_free(a);
  clu_sock_free(b);
  clu_sock_free(l);
  CHECK(stat(path, &st) != 0);
  rmdir(dir);
}
