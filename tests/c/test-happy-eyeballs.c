/* Connecting to the first of several addresses that answers. */
// link: -Wl,--wrap=clu_os_connect_start -Wl,--wrap=clu_os_connect_finish
#include "test.h"

#include "sock-help.h"

#include "core/net/happy-eyeballs.h"

/* An address with this port swallows packets: its descriptor is a pipe's reading end, which never
 * is writable. */
#define SILENT 1

static int begun, no_descriptors, ends[64], n_ends;

static int port_in(const clu_addr *to) {
  char host[CLU_ADDR_TEXT];
  return clu_os_addr_host(to, host, sizeof host);
}

int __real_clu_os_connect_start(const clu_addr *to, int sb, int rb, clu_fd *fd, clu_err *e);
int __wrap_clu_os_connect_start(const clu_addr *to, int sb, int rb, clu_fd *fd, clu_err *e);
int __wrap_clu_os_connect_start(const clu_addr *to, int sb, int rb, clu_fd *fd, clu_err *e) {
  int p[2];
  if (no_descriptors) return clu_fail(e, CLU_LIMIT, 0, "no descriptor is free");
  begun++;
  if (port_in(to) != SILENT) return __real_clu_os_connect_start(to, sb, rb, fd, e);
  REQUIRE(pipe(p) == 0 && n_ends < 64);
  ends[n_ends++] = p[1];
  *fd = p[0];
  return CLU_AGAIN;
}

int __real_clu_os_connect_finish(clu_fd fd, const clu_addr *to, clu_err *e);
int __wrap_clu_os_connect_finish(clu_fd fd, const clu_addr *to, clu_err *e);
int __wrap_clu_os_connect_finish(clu_fd fd, const clu_addr *to, clu_err *e) {
  return port_in(to) == SILENT ? CLU_AGAIN : __real_clu_os_connect_finish(fd, to, e);
}

static void close_pipes(void) {
  while (n_ends > 0) close(ends[--n_ends]);
}

static clu_addr address(int port) {
  clu_addr at[CLU_MAX_ADDRS];
  int n = 0;
  clu_resolve *r = clu_resolve_start("127.0.0.1", port, NULL);
  REQUIRE(r && clu_resolve_wait(r, 0, at, &n, NULL) == CLU_OK && n == 1);
  clu_resolve_free(r);
  return at[0];
}

/* A port of this machine at which nobody listens. */
static int dead_port(void) {
  clu_sock *l = listener("127.0.0.1", -1);
  int port = port_of(l);
  clu_sock_free(l);
  return port;
}

static int step_to_end(clu_connector *c, clu_fd *fd, clu_addr *to, clu_err *e) {
  uint64_t end = clu_os_now() + 10000 * (uint64_t)MS;
  int rc;
  while ((rc = clu_connector_step(c, 50 * MS, fd, to, e)) == CLU_AGAIN && clu_os_now() < end)
    continue;
  return rc;
}

TEST(the_first_that_answers_is_taken_and_no_other_begun) {
  clu_sock *l = listener("127.0.0.1", -1);
  clu_addr at[2] = {address(port_of(l)), address(dead_port())}, to;
  clu_fd fd;
  clu_err e = {0, 0, ""};
  clu_connector *c = clu_connector_new(at, 2, 0, 0, &e);
  REQUIRE(c);
  CHECK_INT_EQ(step_to_end(c, &fd, &to, &e), CLU_OK);
  CHECK_INT_EQ(port_in(&to), port_of(l));
  CHECK_INT_EQ(begun, 1);
  clu_connector_free(c); /* what was taken stays open */
  CHECK(fcntl((int)fd, F_GETFD) >= 0);
  clu_os_close(fd);
  clu_sock_free(l);
}

TEST(a_dead_address_is_followed_by_the_next_one_at_once) {
  clu_sock *l = listener("127.0.0.1", -1);
  clu_addr at[3] = {address(dead_port()), address(dead_port()), address(port_of(l))}, to;
  clu_fd fd;
  clu_err e = {0, 0, ""};
  clu_connector *c = clu_connector_new(at, 3, 0, 0, &e);
  REQUIRE(c);
  CHECK_INT_EQ(clu_connector_step(c, 0, &fd, &to, &e), CLU_OK);
  CHECK_INT_EQ(port_in(&to), port_of(l));
  CHECK_INT_EQ(begun, 3);
  clu_connector_free(c);
  clu_os_close(fd);
  clu_sock_free(l);
}

TEST(a_silent_address_does_not_use_up_the_time_of_the_next) {
  clu_sock *l = listener("127.0.0.1", -1);
  clu_addr at[2] = {address(SILENT), address(port_of(l))}, to;
  clu_fd fd;
  clu_err e = {0, 0, ""};
  uint64_t start = clu_os_now();
  clu_connector *c = clu_connector_new(at, 2, 0, 0, &e);
  REQUIRE(c);
  CHECK_INT_EQ(clu_connector_step(c, 0, &fd, &to, &e), CLU_AGAIN);
  CHECK_INT_EQ(begun, 1); /* it has its head start */
  CHECK_INT_EQ(step_to_end(c, &fd, &to, &e), CLU_OK);
  CHECK(clu_os_now() - start >= 250 * (uint64_t)MS);
  CHECK_INT_EQ(port_in(&to), port_of(l));
  clu_connector_free(c); /* closes the silent one */
  clu_os_close(fd);
  clu_sock_free(l);
  close_pipes();
}

TEST(when_all_have_failed_the_first_failure_is_told) {
  int first = dead_port();
  clu_addr at[2] = {address(first), address(dead_port())};
  clu_fd fd;
  clu_err e = {0, 0, ""};
  clu_connector *c = clu_connector_new(at, 2, 0, 0, &e);
  REQUIRE(c);
  CHECK_INT_EQ(step_to_end(c, &fd, NULL, &e), CLU_REFUSED);
  CHECK_INT_EQ(e.code, CLU_REFUSED);
  CHECK(fd == CLU_NO_FD);
  clu_connector_free(c);
}

TEST(without_a_free_descriptor_it_can_be_called_again) {
  clu_sock *l = listener("127.0.0.1", -1);
  clu_addr at = address(port_of(l));
  clu_fd fd;
  clu_err e = {0, 0, ""};
  clu_connector *c = clu_connector_new(&at, 1, 0, 0, &e);
  REQUIRE(c);
  no_descriptors = 1;
  CHECK_INT_EQ(clu_connector_step(c, 0, &fd, NULL, &e), CLU_LIMIT);
  CHECK_INT_EQ(begun, 0);
  no_descriptors = 0;
  CHECK_INT_EQ(step_to_end(c, &fd, NULL, &e), CLU_OK);
  clu_connector_free(c);
  clu_os_close(fd);
  clu_sock_free(l);
}

TEST(given_up_it_closes_what_is_under_way) {
  clu_addr at[2] = {address(SILENT), address(SILENT)};
  clu_fd fd;
  clu_err e = {0, 0, ""};
  int fds = test_count_fds();
  clu_connector *c = clu_connector_new(at, 2, 0, 0, &e);
  REQUIRE(c);
  CHECK_SOON(clu_connector_step(c, 10 * MS, &fd, NULL, &e) == CLU_AGAIN && begun == 2, 5000);
  clu_connector_free(c);
  close_pipes();
  CHECK_INT_EQ(test_count_fds(), fds);
  clu_connector_free(NULL);
}
