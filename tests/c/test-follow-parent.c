/* A process that has a thread for a while only, and ends with its parent meanwhile. */
#include "test.h"

#include <signal.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/base/os.h"

/* The child of a child, whose parent ends at once; the end of `alive` is its end. */
static void orphan(int *alive, void (*begin)(clu_pid parent)) {
  int p[2], ready[2], status;
  char c;
  pid_t child;
  REQUIRE(pipe(p) == 0 && pipe(ready) == 0);
  child = fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    pid_t self = getpid();
    if (fork() == 0) {
      begin((clu_pid)self);
      if (write(ready[1], "", 1) != 1) _exit(1);
      for (int i = 0; i < 30; i++) sleep(1);
      _exit(0);
    }
    _exit(read(ready[0], &c, 1) == 1 ? 0 : 1);
  }
  close(p[1]);
  close(ready[0]);
  close(ready[1]);
  REQUIRE(waitpid(child, &status, 0) == child);
  CHECK_INT_EQ(WEXITSTATUS(status), 0);
  *alive = p[0];
}

static void follow(clu_pid parent) {
  (void)clu_os_follow_parent(parent, 0);
  (void)clu_os_follow_parent_meanwhile(parent);
}

TEST(who_follows_its_parent_meanwhile_ends_with_it) {
  int alive, ended = 0;
  char c;
  orphan(&alive, follow);
  (void)clu_os_set_blocking(alive, 0);
  CHECK_SOON((ended = read(alive, &c, 1) == 0), 10000);
  close(alive);
}

static int signals;
static void on_signal(int sig) { signals += sig == SIGTERM; }

TEST(afterwards_there_is_no_thread_and_no_signal) {
  int before = test_count_fds();
  signal(SIGTERM, on_signal);
  for (int i = 0; i < 20; i++) {
    CHECK_INT_EQ(clu_os_follow_parent_meanwhile((clu_pid)getppid()), CLU_OK);
    if (i % 2) CHECK_INT_EQ(clu_os_follow_parent_meanwhile((clu_pid)getppid()), CLU_OK);
    CHECK_INT_EQ(clu_os_follow_parent_meanwhile(0), CLU_OK);
  }
  CHECK_INT_EQ(clu_os_follow_parent_meanwhile(0), CLU_OK);
  if (clu_os_thread_count() > 0) CHECK_INT_EQ(clu_os_thread_count(), 1);
  CHECK_INT_EQ(test_count_fds(), before);
  CHECK_INT_EQ(signals, 0);
}
