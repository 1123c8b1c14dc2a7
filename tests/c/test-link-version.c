/* Session and host that speak different versions of the protocol: each side says so and ends. */
#include "link-fixture.h"

#include "core/base/os-folders.h"
#include "core/link/link.h"
#include "core/link/proxy.h"
#include "core/link/shake.h"

static void write_all(int fd, const void *p, size_t n) { REQUIRE(write(fd, p, n) == (ssize_t)n); }

/* A session whose first word is of another version. */
TEST(a_host_ends_and_names_both_versions_of_the_handshake) {
  host_fixture h;
  unsigned char hello[CLU_HS_HELLO] = "clutch";
  pid_t far;
  int port, listener, fd;
  double from = test_ms();
  const char *why;
  memset(&h, 0, sizeof h);
  h.beat = h.reconnect = 300000 * MS_NS;
  strcpy(h.f.tmp, "/tmp/clutch-test-XXXXXX");
  REQUIRE(mkdtemp(h.f.tmp));
  listener = listen_here(&port);
  far = start_far(&h, port, 1, link_secret, 60000);
  fd = accept(listener, NULL, NULL);
  REQUIRE(fd >= 0);
  hello[6] = CLU_HS_VERSION + 6;
  hello[7] = 1;
  write_all(fd, hello, sizeof hello);
  end_process(&far, 1);
  CHECK(test_ms() - from < 5000);
  why = take_why(&h);
  CHECK(strstr(why, "speaks version 7") && strstr(why, "this side version 1"));
  close(fd);
  close(listener);
  CHECK_SOON(entries(h.f.tmp) <= 0, 5000);
  clu_os_remove_tree(h.f.tmp);
}

/* A connection to the link process as that of host 1, whose handshake is right. */
static clu_conn *connect_as_host(host_fixture *h) {
  static const unsigned char nonce[CLU_NONCE] = {3};
  clu_shake shake;
  int fd = connect_here(h->port), rc = CLU_AGAIN;
  REQUIRE(fd >= 0);
  fcntl(fd, F_SETFL, O_NONBLOCK);
  memset(&shake, 0, sizeof shake);
  shake.conn = clu_conn_plain(fd);
  REQUIRE(shake.conn);
  clu_hs_node(&shake.hs, link_secret, nonce, 1, 4711, 0, UINT64_MAX);
  CHECK_SOON((rc = clu_shake_step(&shake, NULL, NULL)) != CLU_AGAIN, 5000);
  REQUIRE(rc == CLU_OK);
  return shake.conn;
}

/* Waits for what the link process says of host 1, when that has ended. */
static void await_end(host_fixture *h, char *why, size_t size) {
  double end = test_ms() + 5000;
  int state = -1;
  why[0] = 0;
  while (state != CLU_PROXY_ENDED && test_ms() < end) {
    clu_msg m;
    clu_chan_fill(&h->near);
    while (clu_chan_next(&h->near, &m) == 1) {
      if (m.kind == CLU_K_HOST_STATE && m.body && m.body->size > 33) {
        state = m.body->data[0];
        snprintf(why, size, "%.*s", (int)(m.body->size - 33), (const char *)m.body->data + 33);
      }
      clu_blob_unref(m.body);
    }
    test_pause();
  }
  CHECK_INT_EQ(state, CLU_PROXY_ENDED);
}

/* A host that resumes in another version. */
TEST(a_session_refuses_a_host_and_names_both_versions_of_the_link) {
  host_fixture h;
  clu_err e;
  clu_conn *conn;
  unsigned char resume[CLU_LINK_HEADER + 12] = {CLU_L_RESUME, 0, 0, 0, 12};
  char why[300], other[50], own[50];
  snprintf(other, sizeof other, "the other side speaks version %d", CLU_LINK_VERSION + 8);
  snprintf(own, sizeof own, "this one version %d", CLU_LINK_VERSION);
  memset(&h, 0, sizeof h);
  h.beat = h.reconnect = 300000 * MS_NS;
  strcpy(h.f.tmp, "/tmp/clutch-test-XXXXXX");
  REQUIRE(mkdtemp(h.f.tmp));
  REQUIRE((h.f.session = clu_session_new(&e)) != NULL);
  start_near(&h);
  h.f.s = add_host(&h, 1);
  conn = connect_as_host(&h);
  clu_put32(resume + CLU_LINK_HEADER, CLU_LINK_VERSION + 8);
  write_all((int)conn->fd, resume, sizeof resume);
  await_end(&h, why, sizeof why);
  CHECK(strstr(why, other) && strstr(why, own));
  PUMP(&h.f, h.f.s->state == CLU_SERVER_ENDED);
  clu_conn_close(conn);
  host_down(&h);
}
