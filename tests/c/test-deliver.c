/* Bytes of the session for sockets at a fork server's host. */
#include "server-fixture.h"

static clu_fd listen_at(const char *path) {
  clu_listen how = {1, 0, 0};
  clu_fd fd = CLU_NO_FD;
  clu_addr at;
  REQUIRE(clu_os_addr_path(path, &at, NULL) == CLU_OK);
  REQUIRE(clu_os_listen(&at, &how, &fd, NULL, NULL) == CLU_OK);
  return fd;
}

static clu_fd next_connection(fixture *r, clu_fd listener) {
  clu_fd fd = CLU_NO_FD;
  PUMP(r, clu_os_accept(listener, &fd, NULL, NULL) == CLU_OK);
  return fd;
}

/* How many bytes come before the end; each has to be as it was sent. */
static size_t read_all(clu_fd fd) {
  static unsigned char got[1 << 16];
  size_t n = 0, k;
  int rc, odd = 0;
  clu_os_set_blocking(fd, 1);
  for (;;) {
    clu_iov room = {got, sizeof got};
    if ((rc = clu_os_readv(fd, &room, 1, &k, NULL, NULL)) == CLU_AGAIN) continue;
    if (rc != CLU_OK) break;
    for (size_t i = 0; i < k; i++) odd += got[i] != (unsigned char)((n + i) * 7);
    n += k;
  }
  CHECK_INT_EQ(rc, CLU_EOF);
  CHECK_INT_EQ(odd, 0);
  clu_os_close(fd);
  return n;
}

/* The server goes on meanwhile, also where nobody reads. */
TEST(bytes_reach_who_listens_and_the_server_goes_on) {
  static unsigned char bytes[3 << 20];
  fixture r;
  char path[220];
  clu_fd listener;
  up(&r, 1);
  for (size_t i = 0; i < sizeof bytes; i++) bytes[i] = (unsigned char)(i * 7);
  snprintf(path, sizeof path, "%s/s", r.tmp);
  listener = listen_at(path);
  CHECK_INT_EQ(clu_node_deliver(r.nd[0], path, bytes, 100), CLU_OK);
  CHECK_INT_EQ(read_all(next_connection(&r, listener)), 100);
  CHECK_INT_EQ(clu_node_deliver(r.nd[0], path, bytes, sizeof bytes), CLU_OK);
  call(r.nd[0], ECHO, 1, 50, 1);
  expect_echo(&r, r.nd[0], ECHO, 1, 50);
  CHECK_INT_EQ(read_all(next_connection(&r, listener)), sizeof bytes);
  clu_os_close(listener);
  unlink(path);
  down(&r);
}

TEST(where_nobody_listens_nothing_happens) {
  fixture r;
  char path[220], longer[300];
  up(&r, 1);
  snprintf(path, sizeof path, "%s/s", r.tmp);
  memset(longer, 'x', sizeof longer - 1);
  longer[sizeof longer - 1] = 0;
  CHECK_INT_EQ(clu_node_deliver(r.nd[0], path, "abc", 3), CLU_OK);
  CHECK_INT_EQ(clu_node_deliver(r.nd[0], longer, "abc", 3), CLU_OK);
  CHECK_INT_EQ(clu_server_send(r.s, CLU_K_DELIVER, 1, "\377\377\377\377", 4, CLU_NO_FD), CLU_OK);
  CHECK_INT_EQ(clu_server_send(r.s, CLU_K_DELIVER, 1, "\1", 1, CLU_NO_FD), CLU_OK);
  CHECK_INT_EQ(clu_server_send(r.s, CLU_K_DELIVER, 1, NULL, 0, CLU_NO_FD), CLU_OK);
  call(r.nd[0], ECHO, 1, 50, 1);
  expect_echo(&r, r.nd[0], ECHO, 1, 50);
  clu_server_close(r.s);
  PUMP(&r, !clu_node_is_open(r.nd[0]));
  CHECK_INT_EQ(clu_node_deliver(r.nd[0], path, "abc", 3), CLU_DEAD);
  down(&r);
}
