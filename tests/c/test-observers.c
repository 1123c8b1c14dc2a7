/* A fork server forks an observer for each who connects to its socket. */
#include "test.h"

#include <sys/resource.h>
#include <time.h>

#include "core/base/os-folders.h"
#include "core/supervisor/supervisor.h"

static char folder[64], path[100];
static clu_fd control; /* the session's end */

static void serve(clu_fd end) {
  static clu_supervisor sv;
  char *none[] = {NULL};
  clu_sv_options how = {.control = end, .tmp = folder, .exec = none};
  clu_sv_event ev;
  clu_err e;
  if (clu_supervisor_init(&sv, &how, &e) != CLU_OK) _exit(80);
  if (clu_supervisor_listen(&sv, path, 0, &e) != CLU_OK) _exit(81);
  clu_supervisor_answer(&sv, CLU_K_READY, 0, "ready", 5);
  if (clu_supervisor_serve(&sv, &ev, &e) != CLU_OK) _exit(82);
  if (ev.what == CLU_SV_OBSERVER) {
    clu_os_set_blocking(ev.node.fd, 1);
    if (write((int)ev.node.fd, "here", 4) == 4)
      for (;;) pause();
  }
  _exit(ev.what == CLU_SV_END ? 0 : 83);
}

static pid_t server_up(void) {
  clu_fd pair[2];
  pid_t server;
  strcpy(folder, "/tmp/clutch-test-XXXXXX");
  REQUIRE(mkdtemp(folder));
  snprintf(path, sizeof path, "%s/s", folder);
  REQUIRE(clu_os_pair(pair, NULL) == CLU_OK);
  REQUIRE((server = fork()) >= 0);
  if (server == 0) {
    clu_os_close(pair[0]);
    serve(pair[1]);
  }
  clu_os_close(pair[1]);
  control = pair[0];
  /* READY, said once it listens: the socket has its path before */
  CHECK_INT_EQ(clu_os_wait_readable(control, 10000000000), CLU_OK);
  return server;
}

static void server_down(pid_t server) {
  int status = -1;
  clu_os_close(control);
  CHECK_SOON(waitpid(server, &status, WNOHANG) == server, 10000);
  CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  CHECK(access(path, F_OK) != 0);
  clu_os_remove_tree(folder);
}

static clu_fd ask(void) {
  clu_addr to;
  clu_fd fd;
  REQUIRE(clu_os_addr_path(path, &to, NULL) == CLU_OK);
  REQUIRE(clu_os_connect_start(&to, 0, 0, &fd, NULL) == CLU_OK);
  return fd;
}

static int is_answered(clu_fd fd) {
  char text[4];
  return read((int)fd, text, sizeof text) == 4 && memcmp(text, "here", 4) == 0;
}

static double cpu_ms(pid_t pid) {
  clockid_t clock;
  struct timespec t;
  if (clock_getcpuclockid(pid, &clock) != 0 || clock_gettime(clock, &t) != 0) return -1;
  return 1e3 * (double)t.tv_sec + 1e-6 * (double)t.tv_nsec;
}

TEST(each_who_asks_gets_one_and_they_end_with_their_server) {
  pid_t server = server_up();
  clu_fd fd[3];
  char b;
  for (int i = 0; i < 3; i++) fd[i] = ask();
  for (int i = 0; i < 3; i++) CHECK_SOON(is_answered(fd[i]), 5000);
  server_down(server);
  for (int i = 0; i < 3; i++) CHECK_SOON(read((int)fd[i], &b, 1) == 0, 5000);
  for (int i = 0; i < 3; i++) clu_os_close(fd[i]);
}

/* A connection that cannot be accepted keeps the listener readable. */
TEST(without_a_descriptor_the_server_waits_and_goes_on) {
  pid_t server = server_up();
  struct rlimit few, before;
  double cpu;
  clu_fd fd;
  REQUIRE(prlimit(server, RLIMIT_NOFILE, NULL, &before) == 0);
  few = before;
  few.rlim_cur = 3;
  REQUIRE(prlimit(server, RLIMIT_NOFILE, &few, NULL) == 0);
  fd = ask();
  clu_os_pause(100000000);
  cpu = cpu_ms(server);
  CHECK(cpu >= 0);
  clu_os_pause(500000000);
  CHECK(cpu_ms(server) - cpu < 100);
  CHECK(!is_answered(fd));
  REQUIRE(prlimit(server, RLIMIT_NOFILE, &before, NULL) == 0);
  CHECK_SOON(is_answered(fd), 5000);
  clu_os_close(fd);
  server_down(server);
}
