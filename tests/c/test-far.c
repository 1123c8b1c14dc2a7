/* The proxy of another host that finds no session. */
#include "link-fixture.h"
#include "core/base/os-folders.h"

static void host_alone(host_fixture *h) {
  memset(h, 0, sizeof *h);
  h->beat = h->reconnect = 300000 * MS_NS;
  strcpy(h->f.tmp, "/tmp/clutch-test-XXXXXX");
  REQUIRE(mkdtemp(h->f.tmp));
}

static void alone_down(host_fixture *h) {
  take_why(h);
  CHECK_SOON(entries(h->f.tmp) <= 0, 5000);
  clu_os_remove_tree(h->f.tmp);
}

/* Whoever listens closes each connection: 0.1 s until the next one, 0.2 s, and so on, each longer
 * or shorter by up to a half. */
TEST(it_tries_again_after_pauses_that_grow) {
  host_fixture h;
  int port, listener, n = 0, status;
  pid_t far;
  host_alone(&h);
  listener = listen_here(&port);
  fcntl(listener, F_SETFL, O_NONBLOCK);
  far = start_far(&h, port, 1, link_secret, 4000);
  while (waitpid(far, &status, WNOHANG) == 0) {
    int fd = accept(listener, NULL, NULL);
    if (fd < 0) {
      test_pause();
      continue;
    }
    n++;
    close(fd);
  }
  CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 1);
  /* without chance 3.1 s are five pauses; there would be forty, were they all as the first. On a
   * machine that has much else to do there may be few: that there is a second one is enough. */
  CHECK(n >= 2 && n <= 9);
  close(listener);
  alone_down(&h);
}

/* A proxy that was never connected cannot know that a refusal is the session's end. */
TEST(it_gives_up_when_its_time_is_up) {
  host_fixture h;
  double from = test_ms();
  int port, listener;
  pid_t far;
  host_alone(&h);
  listener = listen_here(&port);
  close(listener);
  far = start_far(&h, port, 1, link_secret, 700);
  end_process(&far, 1);
  CHECK(test_ms() - from >= 700);
  alone_down(&h);
}

/* ---- a session that goes in the handshake ---- */

/* Its connection is broken before the first turn of the proxy: that is a cut as any other. */
TEST(a_connection_that_breaks_behind_its_handshake_is_followed_by_another) {
  static const unsigned char nonce[CLU_NONCE] = {7};
  host_fixture h;
  clu_hs hs;
  unsigned char response[CLU_HS_RESPONSE];
  int port, listener, fd;
  struct pollfd p = {0};
  pid_t far;
  host_alone(&h);
  p.fd = listener = listen_here(&port);
  p.events = POLLIN;
  far = start_far(&h, port, 1, link_secret, 60000);
  REQUIRE((fd = accept(listener, NULL, NULL)) >= 0);
  clu_hs_session(&hs, link_secret, nonce, 5, UINT64_MAX);
  say_out(fd, &hs); /* HELLO */
  read_all(fd, response, sizeof response);
  REQUIRE(clu_hs_feed(&hs, response, sizeof response) == CLU_HS_PROVEN);
  clu_hs_admit(&hs, CLU_HS_ADMITTED);
  REQUIRE(kill(far, SIGSTOP) == 0);
  say_out(fd, &hs); /* VERDICT: what comes after CONFIRM is refused */
  close(fd);
  REQUIRE(kill(far, SIGCONT) == 0);
  CHECK_INT_EQ(poll(&p, 1, 5000), 1);
  close(listener); /* the next try is refused: the session has ended */
  if (p.revents) end_process(&far, 1);
  if (far > 0) kill(far, SIGKILL);
  end_process(&far, -1);
  alone_down(&h);
}
