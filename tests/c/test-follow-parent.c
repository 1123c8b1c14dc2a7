/* A process that ends with its parent: one that has a thread for a while only, and one that removes
 * a folder as its last act. */
#include "test.h"

#include <pthread.h>
#include <signal.h>
#include <sys/time.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/base/os.h"
#include "core/base/os-folders.h"

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

/* ---- a folder is removed as well ---- */

typedef struct ending {
  char tmp[64];
  pid_t pid;
  int alive; /* its end is that of the process, of its child, and of what they have become */
} ending;

/* Leads a group, has a child, and is to remove a folder. */
static void begin_ending(ending *c, int files, void (*go_on)(void)) {
  int p[2];
  char byte;
  strcpy(c->tmp, "/tmp/clutch-test-XXXXXX");
  REQUIRE(mkdtemp(c->tmp));
  for (int i = 0; i < files; i++) {
    char path[100];
    int fd;
    snprintf(path, sizeof path, "%s/%d", c->tmp, i);
    REQUIRE((fd = open(path, O_CREAT | O_WRONLY, 0600)) >= 0);
    close(fd);
  }
  REQUIRE(pipe(p) == 0 && (c->pid = fork()) >= 0);
  if (c->pid == 0) {
    setpgid(0, 0);
    if (fork() == 0)
      for (;;) pause();
    if (clu_os_on_term(-1, c->tmp) != CLU_OK || write(p[1], "", 1) != 1) _exit(1);
    go_on();
    for (;;) pause();
  }
  close(p[1]);
  c->alive = p[0];
  REQUIRE(read(c->alive, &byte, 1) == 1);
  (void)clu_os_set_blocking(c->alive, 0);
}

static void check_ending(ending *c, int signal_again) {
  int status = 0, ended = 0;
  char byte;
  CHECK_SOON((signal_again && kill(c->pid, SIGTERM) != 0) || read(c->alive, &byte, 1) == 0, 10000);
  CHECK_SOON((ended = waitpid(c->pid, &status, WNOHANG) == c->pid), 10000);
  CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
  CHECK_INT_EQ(access(c->tmp, F_OK), -1);
  if (!ended) { /* nothing of a test that fails stays */
    kill(-c->pid, SIGKILL);
    waitpid(c->pid, NULL, 0);
  }
  clu_os_remove_tree(c->tmp);
  close(c->alive);
}

static pthread_mutex_t taken = PTHREAD_MUTEX_INITIALIZER;
static void take(void) { pthread_mutex_lock(&taken); }
static void give(void) { pthread_mutex_unlock(&taken); }

/* Stands for the C library with the lock of malloc(), and with one that fork() itself holds. */
static void get_signal_with_lock(void) {
  pthread_atfork(take, give, give);
  take();
  raise(SIGTERM);
}

TEST(a_signal_to_who_holds_a_lock_that_a_fork_takes_ends_it) {
  ending c;
  begin_ending(&c, 1, get_signal_with_lock);
  check_ending(&c, 0);
}

static void get_signal_with_timer(void) {
  struct itimerval it = {{0, 500}, {0, 500}};
  signal(SIGALRM, on_signal);
  setitimer(ITIMER_REAL, &it, NULL);
  raise(SIGTERM);
}

TEST(signals_meanwhile_keep_nobody_from_removing_the_folder) {
  ending c;
  begin_ending(&c, 2000, get_signal_with_timer);
  check_ending(&c, 1);
}
