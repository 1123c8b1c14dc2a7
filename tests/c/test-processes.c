/* These tests are of what the port tells of processes and does to their files: memory of their own,
 * children, marks, small folders. */
#include "test.h"

#include <sys/stat.h>

#include "core/base/os-machine.h"
#include "core/base/os.h"
#include "core/base/os-folders.h"
#include "core/base/process.h"

/* A child that does what it is told by a pipe, a byte each. */
typedef struct child {
  pid_t pid;
  int to, from;
} child;

static char *block;
static const size_t SIZE = 64 << 20;

static void say(child *c, char what) {
  char back = 0;
  REQUIRE(write(c->to, &what, 1) == 1 && read(c->from, &back, 1) == 1 && back == what);
}

static child start(void) {
  child c;
  int to[2], from[2];
  REQUIRE(pipe(to) == 0 && pipe(from) == 0);
  REQUIRE((c.pid = fork()) >= 0);
  if (c.pid == 0) {
    char what;
    volatile char sum = 0;
    close(to[1]);
    close(from[0]);
    while (read(to[0], &what, 1) == 1) {
      if (what == 'r')
        for (size_t i = 0; i < SIZE; i += 4096) sum = (char)(sum + block[i]);
      if (what == 'w') memset(block, 3, SIZE);
      if (write(from[1], &what, 1) != 1) break;
    }
    _exit(0);
  }
  close(to[0]);
  close(from[1]);
  c.to = to[1];
  c.from = from[0];
  return c;
}

static void end(child *c) {
  close(c->to);
  close(c->from);
  waitpid(c->pid, NULL, 0);
}

TEST(memory_that_is_shared_with_the_parent_is_not_a_process_s_own) {
  child c;
  int64_t before, after, has;
  if (clu_os_process_memory(clu_os_getpid(), -1) < 0) return;
  block = malloc(SIZE);
  REQUIRE(block);
  memset(block, 1, SIZE);
  CHECK(clu_os_process_memory(clu_os_getpid(), -1) > (int64_t)SIZE);
  c = start();
  say(&c, 'r');
  before = clu_os_process_memory(c.pid, -1);
  CHECK(before >= 0 && before < (int64_t)SIZE / 2);
  CHECK(clu_os_process_memory(c.pid, INT64_MAX) >=
        before); /* not looked at closely: an upper bound */
  CHECK(clu_os_process_memory(c.pid, (int64_t)SIZE / 2) <= (int64_t)SIZE / 2);
  say(&c, 'w');
  after = clu_os_process_memory(c.pid, -1);
  has = clu_os_process_memory(c.pid, (int64_t)SIZE / 2);
  CHECK(after - before > (int64_t)SIZE * 9 / 10 && after < (int64_t)SIZE * 3);
  CHECK(has > (int64_t)SIZE / 2);
  end(&c);
  CHECK_INT_EQ(clu_os_process_memory(c.pid, -1), -1);
  free(block);
}

TEST(the_machine_has_more_memory_than_this_process) {
  int64_t all = clu_os_total_memory();
  CHECK(all < 0 || all > clu_os_process_memory(clu_os_getpid(), INT64_MAX));
}

TEST(the_machine_says_what_it_has_left) {
  clu_machine m;
  clu_os_machine(&m);
  CHECK(m.memory == -1 || m.memory > (1 << 24));
  CHECK(m.memory_free <= m.memory);
  CHECK(m.load == -1 || (m.load >= 0 && m.load < 1e6));
  if (clu_os_can() & CLU_CAN_PROC) CHECK(m.memory > 0 && m.memory_free > 0 && m.load >= 0);
}

TEST(a_process_uses_time) {
  clu_process_pages pages;
  double end = test_ms() + 10000;
  int64_t before = clu_os_process_cpu(clu_os_getpid(), NULL);
  if (!(clu_os_can() & CLU_CAN_PROC)) return;
  CHECK(before >= 0);
  while (clu_os_process_cpu(clu_os_getpid(), NULL) < before + 50 && test_ms() < end) continue;
  CHECK(test_ms() < end);
  CHECK_INT_EQ(clu_os_process_cpu(0x7fffffff, NULL), -1);
  CHECK(clu_os_process_cpu(clu_os_getpid(), &pages) >= before + 50);
  CHECK(pages.given > 65536 && pages.resident > 65536);
  CHECK(pages.resident < clu_os_total_memory());
}

TEST(a_process_is_in_memory_and_does_something) {
  char state = clu_os_process_state(clu_os_getpid());
  if (!(clu_os_can() & CLU_CAN_PROC)) return;
  CHECK(clu_os_process_anonymous(clu_os_getpid()) > 65536);
  CHECK_INT_EQ(clu_os_process_anonymous(0x7fffffff), -1);
  CHECK_INT_EQ(state, 'R');
  CHECK_INT_EQ(clu_os_process_state(0x7fffffff), 0);
}

TEST(a_process_that_nobody_has_reaped_is_gone) {
  clu_pid pid;
  clu_exit how;
  clu_err e;
  CHECK(!clu_process_is_gone(clu_os_getpid()));
  CHECK(clu_process_is_gone(0x7fffffff));
  if (!(clu_os_can() & CLU_CAN_PROC)) return;
  REQUIRE(clu_os_fork(&pid, &e) == CLU_OK);
  if (pid == 0)
    for (;;) pause();
  CHECK(!clu_process_is_gone(pid));
  CHECK_INT_EQ(clu_os_kill(pid, CLU_SIG_KILL, 0), 0);
  CHECK_SOON(clu_process_is_gone(pid), 10000);
  CHECK_SOON(clu_os_reap(pid, 0, &how) == CLU_OK, 10000);
  CHECK(clu_process_is_gone(pid));
}

TEST(a_count_is_found_by_its_name) {
  char path[] = "/tmp/clutch-count-XXXXXX";
  FILE *f = fdopen(mkstemp(path), "w");
  REQUIRE(f);
  fprintf(f, "oom 1\noom_killer 2\noom_kill x\noom_kill 31\noom_kill 4\n");
  fclose(f);
  CHECK_INT_EQ(clu_os_count_in_file(path, "oom_kill"), 31);
  CHECK_INT_EQ(clu_os_count_in_file(path, "kill"), -1);
  remove(path);
  CHECK_INT_EQ(clu_os_count_in_file(path, "oom_kill"), -1);
}

TEST(children_and_their_marks_are_known) {
  clu_pid *list = NULL;
  int n = 0, found = 0;
  char text[64];
  child c = start();
  if (clu_os_children(&list, &n) == CLU_UNSUPPORTED) {
    end(&c);
    return;
  }
  for (int i = 0; i < n; i++) found += list[i] == c.pid;
  CHECK_INT_EQ(found, 1);
  free(list);
  CHECK_INT_EQ(clu_os_env_of(c.pid, "CLUTCH_NO_SUCH_THING", text, sizeof text), CLU_EOF);
  CHECK(clu_os_env_of(c.pid, "PATH", text, sizeof text) == CLU_OK &&
        strncmp(text, getenv("PATH"), 20) == 0);
  end(&c);
  CHECK_INT_EQ(clu_os_env_of(c.pid, "PATH", text, sizeof text), CLU_SYS);
}

/* Returns what others read as this process's command line: its bytes. */
static size_t command_line(char *out, size_t cap) {
  FILE *f = fopen("/proc/self/cmdline", "re");
  size_t n = f ? fread(out, 1, cap, f) : 0;
  if (f) fclose(f);
  return n;
}

TEST(a_title_takes_the_place_of_the_command_line_and_no_more) {
  char before[4096], after[4096], path[64], text[64], much[5000];
  clu_pid *list = NULL;
  size_t n = command_line(before, sizeof before);
  int k;
  if (clu_os_children(&list, &k) == CLU_UNSUPPORTED) SKIP("no such command line here");
  free(list);
  REQUIRE(n > 4 && n < sizeof before);
  clu_os_set_title("abc");
  CHECK_INT_EQ(command_line(after, sizeof after), n);
  CHECK(memcmp(after, "abc", 4) == 0 && after[n - 1] == 0);
  memset(much, 'x', sizeof much - 1);
  much[sizeof much - 1] = 0;
  clu_os_set_title(much);
  CHECK_INT_EQ(command_line(after, sizeof after), n); /* cut, and it ends as it has to */
  CHECK(after[n - 2] == 'x' && after[n - 1] == 0);
  /* the environment, which is behind it, is whole */
  snprintf(path, sizeof path, "%.20s", getenv("PATH"));
  CHECK(clu_os_env_of(clu_os_getpid(), "PATH", text, sizeof text) == CLU_OK &&
        strncmp(text, path, strlen(path)) == 0);
}

TEST(a_small_folder_is_removed_at_once_a_large_one_is_not) {
  char dir[64] = "/tmp/clutch-test-XXXXXX", path[100];
  struct stat st;
  REQUIRE(mkdtemp(dir));
  for (int i = 0; i < 10; i++) {
    snprintf(path, sizeof path, "%s/%d", dir, i);
    CHECK(mkdir(path, 0700) == 0);
  }
  CHECK_INT_EQ(clu_os_remove_few(dir), 0);
  CHECK(stat(dir, &st) != 0);
  CHECK(mkdir(dir, 0700) == 0);
  for (int i = 0; i < 500; i++) {
    snprintf(path, sizeof path, "%s/%d", dir, i);
    CHECK(mkdir(path, 0700) == 0);
  }
  CHECK_INT_EQ(clu_os_remove_few(dir), 1);
  CHECK_INT_EQ(clu_os_remove_tree(dir), 0);
  CHECK(mkdir(dir, 0700) == 0);
  snprintf(path, sizeof path, "%s/large", dir);
  close(open(path, O_CREAT | O_WRONLY, 0600));
  CHECK(truncate(path, (off_t)1 << 33) == 0);
  CHECK_INT_EQ(clu_os_remove_few(dir), 1);
  CHECK(stat(path, &st) == 0);
  CHECK_INT_EQ(clu_os_remove_tree(dir), 0);
  CHECK_INT_EQ(clu_os_remove_few(dir), 0); /* there is nothing */
}

/* A fork server starts the watch of its wait before it ends that of its sessions: in between
 * CLU_SIG_TERM would end it at once. */
TEST(a_watch_that_is_started_twice_goes_on_after_the_first_end) {
  clu_fd first, second;
  clu_pid pid;
  clu_exit how;
  clu_err e;
  int term = 0;
  REQUIRE(clu_os_watch_start(&first, &e) == CLU_OK && clu_os_watch_start(&second, &e) == CLU_OK);
  CHECK_INT_EQ(first, second);
  clu_os_watch_end();
  raise(SIGTERM);
  clu_os_watch_clear(&term);
  CHECK(term);
  REQUIRE(clu_os_fork(&pid, &e) == CLU_OK);
  if (pid == 0) {
    raise(SIGTERM); /* the default action: the watch is not the child's */
    _exit(3);
  }
  CHECK_SOON(clu_os_reap(pid, 0, &how) == CLU_OK, 10000);
  CHECK(how.by_signal && how.code == SIGTERM);
  clu_os_watch_end();
  CHECK(fcntl(first, F_GETFD) < 0);
}
