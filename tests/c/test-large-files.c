/* Files where the system refuses calls for 2 GB and more, as macOS does, and when they were
 * changed.
 */
#include "test.h"

#include <errno.h>
#include <limits.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
#if defined(__linux__)
#include <sched.h>
#endif

#include "core/base/os-files.h"
#include "core/base/os-segment.h"

#define LARGE (UINT64_C(5) << 29) /* 2.5 GB */

static uint64_t moved; /* bytes that the calls below were asked for and have not refused */

static ssize_t call(size_t n, off_t at) {
  if (n > INT_MAX || (uint64_t)at != moved) {
    errno = EINVAL;
    return -1;
  }
  moved += n;
  return (ssize_t)n;
}

/* These stand for the system's, in this program. They touch no memory. */
ssize_t pwrite(int fd, const void *p, size_t n, off_t at) {
  (void)fd, (void)p;
  return call(n, at);
}
ssize_t pread(int fd, void *p, size_t n, off_t at) {
  (void)fd, (void)p;
  return call(n, at);
}

/* Room of which nothing is used. */
static void *room(void) {
  void *p;
#if defined(__linux__)
  cpu_set_t one; /* no second thread writes where only one core is */
  CPU_ZERO(&one);
  CPU_SET(sched_getcpu(), &one);
  REQUIRE(sched_setaffinity(0, sizeof one, &one) == 0);
#endif
  if (LARGE > SIZE_MAX / 2) SKIP("there is no room");
  p = mmap(NULL, (size_t)LARGE, PROT_NONE, MAP_PRIVATE | MAP_ANON, -1, 0);
  if (p == MAP_FAILED) SKIP("there is no room");
  return p;
}

TEST(a_segment_of_more_than_2_gb_is_written_and_read_in_several_calls) {
  void *p = room();
  clu_fd fd[2];
  REQUIRE(clu_os_segment_new(fd) == CLU_OK);
  CHECK_INT_EQ(clu_os_segment_write(fd[0], 0, p, (size_t)LARGE), CLU_OK);
  CHECK(moved == LARGE);
  moved = 0;
  CHECK_INT_EQ(clu_os_segment_read(fd[1], 0, p, (size_t)LARGE), CLU_OK);
  CHECK(moved == LARGE);
  clu_os_close(fd[0]);
  if (fd[1] != fd[0]) clu_os_close(fd[1]);
  munmap(p, (size_t)LARGE);
}

static void put(const char *path, const char *text) {
  FILE *f = fopen(path, "w");
  REQUIRE(f && fputs(text, f) >= 0 && fclose(f) == 0);
}

TEST(a_file_that_was_written_again_within_a_second_differs) {
  char path[] = TEST_TEMP "/test-large-files-XXXXXX";
  int fd = mkstemp(path);
  clu_file_stamp was, is;
  time_t began;
  REQUIRE(fd >= 0);
  do {
    began = time(NULL);
    put(path, "this");
    REQUIRE(clu_os_file_stamp(path, &was) == CLU_OK);
    clu_os_pause(50000000); /* more than the finest step of a file system's clock */
    put(path, "that");
    REQUIRE(clu_os_file_stamp(path, &is) == CLU_OK);
  } while (time(NULL) != began);
  CHECK(was.size == is.size && was.number == is.number);
  CHECK(was.modified != is.modified && was.changed != is.changed);
  close(fd);
  unlink(path);
}
