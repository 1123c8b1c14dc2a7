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
