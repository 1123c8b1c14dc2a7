/* Memory that is moved so that forks cost less: contents, addresses and privacy stay. */
#if defined(__linux__)
#define _GNU_SOURCE
#endif
#include "test.h"

#include <sys/mman.h>
#include <sys/resource.h>
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

static int is_moved_within_limit(unsigned char *p) {
  const struct rlimit few = {SIZE / 2, RLIM_INFINITY};
  unsigned char *more = new_pages();
  fill(more);
  return setrlimit(RLIMIT_FSIZE, &few) == 0 && clu_os_expect_forks() <= SIZE / 2 && is_filled(p) &&
         is_filled(more);
}

TEST(a_limit_of_files_is_no_signal) { /* SIGXFSZ */
  unsigned char *p = new_pages();
  fill(p);
  CHECK_INT_EQ(in_child(is_moved_within_limit, p), 0);
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

/* How many mappings there are of these pages that one may read, write to ('w') or execute. */
static int mappings_as(const unsigned char *p, size_t n, char how) {
  char line[512], all[8];
  unsigned long from, to;
  int found = 0;
  FILE *f = fopen("/proc/self/maps", "r");
  while (f && fgets(line, sizeof line, f))
    if (sscanf(line, "%lx-%lx %7s", &from, &to, all) == 3 && strchr(all, how))
      found += from < (uintptr_t)p + n && (uintptr_t)p < to;
  if (f) fclose(f);
  return found;
}

enum { PART = 4096 };

/* Maps memory as the dynamic linker does with a library: headers, code, constants, what it has
 * relocated, data. */
static unsigned char *new_library(void) {
  static const int how[5] = {PROT_READ, PROT_READ | PROT_EXEC, PROT_READ, PROT_READ,
                             PROT_READ | PROT_WRITE};
  int fd = memfd_create("library", MFD_CLOEXEC);
  unsigned char *p = mmap(NULL, 5 * PART, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  REQUIRE(fd >= 0 && p != MAP_FAILED);
  for (int i = 0; i < 6 * PART; i++) REQUIRE(write(fd, i / PART % 2 ? "a" : "b", 1) == 1);
  for (int i = 0; i < 5; i++) {
    /* the linker leaves a page of the file out before the relocated part */
    int at = i + (i > 2), first = i == 3 ? PROT_READ | PROT_WRITE : how[i];
    REQUIRE(mmap(p + i * PART, PART, first, MAP_PRIVATE | MAP_FIXED, fd, at * PART) != MAP_FAILED);
  }
  memset(p + 3 * PART, 'r', PART);
  memset(p + 4 * PART, 'd', PART);
  mprotect(p + 3 * PART, PART, how[3]);
  close(fd);
  return p;
}

static int is_library(unsigned char *p) {
  static const char is[5] = {'b', 'a', 'b', 'r', 'd'};
  for (int i = 0; i < 5 * PART; i++)
    if (p[i] != is[i / PART]) return 0;
  p[4 * PART] = 'x'; /* data can be written to */
  return 1;
}

TEST(what_a_library_never_writes_to_becomes_one_mapping_and_the_file_s) {
  unsigned char *p = new_library();
  CHECK_INT_EQ(mappings_as(p, 3 * PART, 'r'), 3);
  CHECK(written(p + 3 * PART) > 0);
  clu_os_expect_forks();
  CHECK_INT_EQ(mappings_as(p, 3 * PART, 'r'), 1);
  CHECK_INT_EQ(written(p + 3 * PART), 0);
  CHECK_INT_EQ(in_child(is_library, p), 0);
  CHECK(is_library(p));
  CHECK_INT_EQ(mappings_as(p, 4 * PART, 'w'), 0);
  clu_os_expect_forks();
  p[4 * PART] = 'd';
  CHECK(is_library(p));
  munmap(p, 5 * PART);
}

TEST(a_split_heap_stays_as_it_was) {
  unsigned char *p = malloc(8 * SIZE);
  REQUIRE(p != NULL);
  for (int i = 0; i < 8; i++) fill(p + i * SIZE);
  CHECK_INT_EQ(in_child(reads_and_writes, p), 0);
  clu_os_expect_forks();
  for (int i = 0; i < 8; i++) CHECK(is_filled(p + i * SIZE));
  CHECK_INT_EQ(in_child(reads_and_writes, p), 0);
  CHECK(is_filled(p));
  free(p);
}

/* -1001: not known. */
static int score(int *may_raise) {
  int x = -1001;
  FILE *f = fopen("/proc/self/oom_score_adj", "r+");
  *may_raise = f != NULL;
  if (f || (f = fopen("/proc/self/oom_score_adj", "r"))) {
    if (fscanf(f, "%d", &x) != 1) x = -1001;
    fclose(f);
  }
  return x;
}

TEST(files_that_are_left_lead_nowhere_and_the_input_does_whether_it_was_closed_or_not) {
  for (int is_closed = 0; is_closed < 2; is_closed++) {
    int status = -1, ends[2];
    pid_t pid;
    REQUIRE(pipe(ends) == 0);
    pid = fork();
    REQUIRE(pid >= 0);
    if (pid == 0) {
      char c;
      if (is_closed) close(0);
      if (clu_os_leave_files(ends[1]) != CLU_OK) _exit(2);
      if (fcntl(0, F_GETFD) != 0 || read(0, &c, 1) != 0) _exit(3);
      if (write(0, "", 1) != 1 || write(ends[0], "", 1) != 1) _exit(4); /* both are /dev/null */
      _exit(write(ends[1], "x", 1) == 1 ? 0 : 5);
    }
    REQUIRE(waitpid(pid, &status, 0) == pid);
    CHECK(WIFEXITED(status));
    CHECK_INT_EQ(WEXITSTATUS(status), 0);
    close(ends[0]);
    close(ends[1]);
  }
}

TEST(a_node_ends_before_others_without_memory) {
  int may = 0, before = score(&may);
  clu_os_end_first();
  if (!may || before == -1001) return;
  CHECK_INT_EQ(score(&may), before > 700 ? before : before + 300);
  while (before <= 700) clu_os_end_first(), before += 300;
  CHECK(score(&may) > 700 && score(&may) <= 1000);
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

/* Faults of this process so far that read nothing from a disk. */
static long faults(void) {
  struct rusage r;
  getrusage(RUSAGE_SELF, &r);
  return r.ru_minflt;
}

TEST(memory_apart_is_zeroed_and_of_this_process_only) {
  unsigned char *p = clu_os_apart_new(100000);
  pid_t pid;
  REQUIRE(p != NULL);
  for (int i = 0; i < 100000; i++) REQUIRE(p[i] == 0);
  memset(p, 7, 100000);
  pid = fork();
  if (pid == 0) _exit(0);
#if defined(__linux__)
  { /* no page of it is copied because there is a child */
    long before = faults();
    memset(p, 9, 100000);
    CHECK(faults() - before < 10);
  }
#endif
  waitpid(pid, NULL, 0);
  clu_os_apart_free(p, 100000);
  clu_os_apart_free(NULL, 1);
}
