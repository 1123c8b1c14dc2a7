/* Memory that is moved so that forks cost less: contents, addresses and privacy stay. */
#include "test.h"

#include <sys/mman.h>
#include <sys/wait.h>

#include "core/base/os-forks.h"
#include "core/base/os.h"

enum { SIZE = 4 << 20 };

static unsigned char *new_pages(void) {
  unsigned char *p = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  REQUIRE(p != MAP_FAILED);
  return p;
}

static void fill(unsigned char *p) {
  for (size_t i = 0; i < SIZE; i++) p[i] = (unsigned char)(i * 7 + i / 4096);
}

static int is_filled(const unsigned char *p) {
  for (size_t i = 0; i < SIZE; i++)
    if (p[i] != (unsigned char)(i * 7 + i / 4096)) return 0;
  return 1;
}

/* kB that this process has written to in the mapping at `p`; -1: the system does not tell. */
static long written(const void *p) {
  char line[512];
  unsigned long from, to;
  long kb = -1, found = 0;
  FILE *f = fopen("/proc/self/smaps", "r");
  while (f && fgets(line, sizeof line, f)) {
    if (sscanf(line, "%lx-%lx ", &from, &to) == 2 && strchr(line, '-') < strchr(line, ' '))
      found = from <= (uintptr_t)p && (uintptr_t)p < to;
    else if (found && sscanf(line, "Anonymous: %ld kB", &kb) == 1)
      break;
  }
  if (f) fclose(f);
  return found ? kb : -1;
}

/* The exit status of a child that runs `check`. */
static int in_child(int (*check)(unsigned char *), unsigned char *p) {
  int status = -1;
  pid_t pid = fork();
  if (pid == 0) _exit(check(p) ? 0 : 1);
  waitpid(pid, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static int reads_and_writes(unsigned char *p) {
  if (!is_filled(p)) return 0;
  memset(p, 1, SIZE);
  return p[SIZE - 1] == 1;
}

TEST(what_is_moved_stays_as_it_was_and_private) {
  unsigned char *p = new_pages();
  size_t moved;
  fill(p);
  moved = clu_os_expect_forks();
  CHECK(is_filled(p));
  CHECK_INT_EQ(in_child(reads_and_writes, p), 0);
  CHECK(is_filled(p)); /* not what the child has written */
  p[5]++;
  CHECK_INT_EQ(p[5], (unsigned char)(5 * 7 + 1));
  p[5]--;
  CHECK(is_filled(p));
  if (moved > 0) CHECK(written(p) >= 0 && written(p) <= 64); /* a fork has nothing to copy */
  munmap(p, SIZE);
}

#if defined(__linux__) && !defined(CLU_PORTABLE)
TEST(on_linux_it_is_moved_once) {
  unsigned char *p = new_pages();
  fill(p);
  CHECK(clu_os_expect_forks() >= SIZE);
  CHECK(clu_os_expect_forks() < SIZE);
  CHECK(is_filled(p));
  munmap(p, SIZE);
}

TEST(memory_that_is_hardly_used_is_left_alone) {
  unsigned char *p = new_pages();
  clu_os_expect_forks();
  memset(p, 1, SIZE / 8);
  CHECK(clu_os_expect_forks() < SIZE);
  CHECK(written(p) >= (SIZE / 8) >> 10);
  munmap(p, SIZE);
}
#endif

static int deep(int n) {
  volatile char room[4096];
  room[0] = (char)n;
  return n == 0 ? 0 : deep(n - 1) + (room[0] == (char)n);
}

TEST(the_stack_can_be_used_again) {
  CHECK_INT_EQ(deep(400), 400);
  clu_os_expect_forks();
  CHECK_INT_EQ(deep(400), 400);
}

TEST(memory_apart_is_zeroed_and_of_this_process_only) {
  unsigned char *p = clu_os_apart_new(100000);
  pid_t pid;
  REQUIRE(p != NULL);
  for (int i = 0; i < 100000; i++) REQUIRE(p[i] == 0);
  pid = fork();
  if (pid == 0) {
    memset(p, 9, 100000);
    _exit(0);
  }
  waitpid(pid, NULL, 0);
  CHECK_INT_EQ(p[0], 0);
  clu_os_apart_free(p, 100000);
  clu_os_apart_free(NULL, 1);
}
