/* Segments: bytes that processes share in files without a name. */
// threads
#include "test.h"

#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#if defined(__linux__) && !defined(CLU_PORTABLE)
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#endif

#include "core/base/os-segment.h"
#include "core/base/segment.h"

enum { N = 100000 };

static clu_segment *filled(void) {
  clu_segment *s = clu_segment_new();
  unsigned char bytes[N];
  REQUIRE(s);
  for (int i = 0; i < N; i++) bytes[i] = (unsigned char)(i * 7);
  CHECK_INT_EQ(clu_segment_append(s, bytes, 10), CLU_OK);
  CHECK_INT_EQ(clu_segment_append(s, bytes + 10, N - 10), CLU_OK);
  CHECK_INT_EQ(clu_segment_size(s), N);
  return s;
}

static clu_segment *received(const clu_segment *s) {
  int rc;
  clu_fd fd;
  clu_segment *r;
  REQUIRE(clu_os_dup(clu_segment_fd(s), &fd) == CLU_OK);
  r = clu_segment_receive(fd, &rc);
  CHECK_INT_EQ(rc, CLU_OK);
  REQUIRE(r);
  return r;
}

TEST(what_was_written_is_mapped) {
  int before = test_count_fds(), writable;
  clu_segment *s = filled(), *r;
  const unsigned char *p;
  unsigned char some[3];
  CHECK_INT_EQ(clu_segment_align(s) % CLU_SEGMENT_ALIGN, 0);
  CHECK_INT_EQ(clu_segment_append(s, "end", 3), CLU_OK);
  CHECK_INT_EQ(clu_segment_read(s, 20, some, 3), CLU_OK);
  CHECK_INT_EQ(some[2], (22 * 7) & 255);
  CHECK_INT_EQ(clu_segment_seal(s), CLU_OK);
  r = received(s);
  CHECK_INT_EQ(clu_segment_size(r), clu_segment_size(s));
  CHECK(clu_segment_fd(r) == CLU_NO_FD); /* a mapping needs none */
  p = clu_segment_bytes(r, &writable);
  for (int i = 0; i < N; i++)
    if (p[i] != (unsigned char)(i * 7)) {
      CHECK_INT_EQ(p[i], (unsigned char)(i * 7));
      break;
    }
  CHECK_MEM_EQ(p + clu_segment_size(r) - 3, "end", 3);
  clu_segment_unref(s);
  CHECK_INT_EQ(p[5], 35); /* the mapping keeps it */
  clu_segment_unref(r);
  CHECK_INT_EQ(test_count_fds(), before);
}

TEST(what_is_put_anywhere_is_there) {
  clu_segment *s = clu_segment_new(), *r;
  const unsigned char *p;
  CHECK_INT_EQ(clu_segment_put(s, 9000, "text", 4), CLU_OK);
  CHECK_INT_EQ(clu_segment_size(s), 9004);
  CHECK_INT_EQ(clu_segment_put(s, 10, "before", 6), CLU_OK);
  CHECK_INT_EQ(clu_segment_size(s), 9004);
  CHECK_INT_EQ(clu_segment_append(s, "!", 1), CLU_OK);
  CHECK_INT_EQ(clu_segment_seal(s), CLU_OK);
  r = received(s);
  p = clu_segment_bytes(r, NULL);
  CHECK_INT_EQ(clu_segment_size(r), 9005);
  CHECK_MEM_EQ(p + 9000, "text!", 5);
  CHECK_MEM_EQ(p + 10, "before", 6);
  CHECK_INT_EQ(p[16], 0);
  clu_segment_unref(r);
  clu_segment_unref(s);
}

/* Written by two threads: any length at any place, and nothing around it. 0: as it should be. */
static int write_by_two_is_wrong(void) {
  enum { MOST = 3 << 20, AROUND = 100 };
  static unsigned char bytes[MOST + 40], found[MOST + 40 + 2 * AROUND];
  static const size_t lengths[] = {1, 4096, (256 << 10) - 1, 256 << 10, (256 << 10) + 1, MOST + 17};
  static const uint64_t places[] = {AROUND, 4095, 4096, 300001};
  for (size_t i = 0; i < sizeof bytes; i++) bytes[i] = (unsigned char)(i * 7 + i / 4096);
  for (size_t k = 0; k < sizeof lengths / sizeof *lengths; k++)
    for (size_t j = 0; j < sizeof places / sizeof *places; j++) {
      size_t n = lengths[k];
      uint64_t at = places[j], size;
      clu_fd fd[2];
      if (clu_os_segment_new(fd) != CLU_OK) return 1;
      memset(found, 1, sizeof found);
      if (clu_os_segment_write(fd[0], at - AROUND, found, AROUND) != CLU_OK) return 2;
      if (j % 2 && clu_os_segment_write(fd[0], at + n, found, AROUND) != CLU_OK) return 3;
      if (clu_os_segment_write_by_two(fd[0], at, bytes, n) != CLU_OK) return 4;
      if (!(j % 2) && clu_os_segment_write(fd[0], at + n, found, AROUND) != CLU_OK) return 5;
      if (clu_os_segment_seal(fd) != CLU_OK) return 6;
      if (clu_os_segment_check(fd[1], &size) != CLU_OK || size != at + n + AROUND) return 7;
      if (clu_os_segment_read(fd[1], at - AROUND, found, n + 2 * AROUND) != CLU_OK) return 8;
      if (memcmp(found + AROUND, bytes, n) != 0) return 9;
      for (int i = 0; i < AROUND; i++)
        if (found[i] != 1 || found[AROUND + n + (size_t)i] != 1) return 10;
      clu_os_close(fd[1]);
    }
  return 0;
}

TEST(two_threads_write_what_one_would) {
  int before = test_count_fds();
  CHECK_INT_EQ(write_by_two_is_wrong(), 0);
  CHECK_INT_EQ(test_count_fds(), before);
}

TEST(each_mapping_is_for_its_process_alone) {
  clu_segment *s = filled(), *a, *b;
  int writable;
  CHECK_INT_EQ(clu_segment_seal(s), CLU_OK);
  a = received(s);
  b = received(s);
  if (clu_segment_bytes(a, &writable), writable) {
    clu_segment_bytes(a, NULL)[100] = 1;
    CHECK_INT_EQ(clu_segment_bytes(b, NULL)[100], (100 * 7) & 255);
    CHECK_INT_EQ(clu_os_segment_is_unchanged(clu_segment_bytes(a, NULL), 1), 0);
  }
  clu_segment_unref(a);
  clu_segment_unref(b);
  clu_segment_unref(s);
}

#if defined(__linux__) && !defined(CLU_PORTABLE)

/* From here on madvise(..., MADV_POPULATE_WRITE) fails, as where there is no memory. */
static int populate_fails(void) {
  struct sock_filter code[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_madvise, 0, 3),
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[2])),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 23, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOMEM),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  struct sock_fprog program = {sizeof code / sizeof *code, code};
  return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
         prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

TEST(what_the_second_thread_has_no_memory_for_the_first_writes) {
  pid_t child = fork();
  int status;
  REQUIRE(child >= 0);
  if (child == 0) _exit(populate_fails() ? write_by_two_is_wrong() : 0);
  REQUIRE(waitpid(child, &status, 0) == child);
  CHECK(WIFEXITED(status));
  CHECK_INT_EQ(WEXITSTATUS(status), 0);
}

TEST(one_that_is_mapped_already_is_known_as_long_as_it_is) {
  clu_segment *s = filled(), *other = filled(), *r[4];
  CHECK_INT_EQ(clu_segment_seal(s), CLU_OK);
  CHECK_INT_EQ(clu_segment_seal(other), CLU_OK);
  r[0] = received(s);
  r[1] = received(other);
  CHECK(!clu_segment_is_again(r[0]) && !clu_segment_is_again(r[1]));
  r[2] = received(s);
  CHECK(clu_segment_is_again(r[2]) && !clu_segment_is_again(r[0]));
  clu_segment_unref(r[0]);
  r[3] = received(s);
  CHECK(clu_segment_is_again(r[3])); /* r[2] is there */
  clu_segment_unref(r[2]);
  clu_segment_unref(r[3]);
  r[0] = received(s);
  CHECK(!clu_segment_is_again(r[0]));
  clu_segment_unref(r[0]);
  clu_segment_unref(r[1]);
  clu_segment_unref(other);
  clu_segment_unref(s);
}

TEST(so_many_that_came_can_be_handed_on_and_no_more) { /* in a process of its own: it stays so */
  pid_t child = fork();
  int status;
  REQUIRE(child >= 0);
  if (child == 0) {
    struct rlimit r = {160, 160};
    clu_segment *s = filled(), *of[22], *on;
    int n = 0, before;
    setrlimit(RLIMIT_NOFILE, &r);
    clu_segments_keep_fds();
    if (clu_segment_seal(s) != CLU_OK || clu_segment_is_kept(s)) _exit(1);
    before = test_count_fds();
    for (int i = 0; i < 22; i++) {
      of[i] = received(s);
      n += clu_segment_is_kept(of[i]);
      if (clu_segment_is_kept(of[i]) != (clu_segment_fd(of[i]) != CLU_NO_FD)) _exit(2);
    }
    if (n != 20 || !clu_segment_is_kept(of[0])) _exit(3);
    on = received(of[0]);
    if (clu_segment_size(on) != N || clu_segment_bytes(on, NULL)[5] != 35) _exit(4);
    clu_segment_unref(on);
    for (int i = 0; i < 22; i++) clu_segment_unref(of[i]);
    if (test_count_fds() != before) _exit(5);
    of[0] = received(s);
    if (!clu_segment_is_kept(of[0])) _exit(6); /* there is room again */
    clu_segment_unref(of[0]);
    _exit(0);
  }
  REQUIRE(waitpid(child, &status, 0) == child);
  CHECK(WIFEXITED(status));
  CHECK_INT_EQ(WEXITSTATUS(status), 0);
}

TEST(what_a_message_has_of_one_is_counted) {
  clu_segment *s = filled();
  CHECK_INT_EQ(clu_segment_counted(s, 1), 0);
  clu_segment_count(s, 1, 10);
  clu_segment_count(s, 1, 20);
  CHECK_INT_EQ(clu_segment_counted(s, 1), 30);
  clu_segment_count(s, 2, 5);
  CHECK_INT_EQ(clu_segment_counted(s, 2), 5);
  CHECK_INT_EQ(clu_segment_counted(s, 1), 0);
  clu_segment_unref(s);
}

TEST(pages_that_were_written_to_are_known) {
  clu_segment *s = filled(), *a;
  unsigned char *p;
  volatile unsigned char read = 0;
  CHECK_INT_EQ(clu_segment_seal(s), CLU_OK);
  a = received(s);
  p = clu_segment_bytes(a, NULL);
  for (int i = 0; i < N; i++) read = read ^ p[i];
  CHECK_INT_EQ(clu_os_segment_is_unchanged(p, N), 1);
  p[50000] = 1;
  CHECK_INT_EQ(clu_os_segment_is_unchanged(p, N), 0);
  CHECK_INT_EQ(clu_os_segment_is_unchanged(p, 4096), 1);
  CHECK_INT_EQ(clu_os_segment_is_unchanged(p + 61440, N - 61440), 1);
  clu_segment_unref(a);
  clu_segment_unref(s);
}

TEST(nobody_can_change_one_that_is_sealed) {
  clu_segment *s = filled();
  int fd;
  CHECK_INT_EQ(clu_segment_seal(s), CLU_OK);
  fd = (int)clu_segment_fd(s);
  CHECK_INT_EQ(ftruncate(fd, 10), -1);
  CHECK_INT_EQ(ftruncate(fd, 1 << 20), -1);
  CHECK_INT_EQ(pwrite(fd, "x", 1, 0), -1);
  CHECK(mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0) == MAP_FAILED);
  clu_segment_unref(s);
}

TEST(what_could_shrink_later_is_not_taken) { /* it would be SIGBUS */
  int rc, before = test_count_fds();
  clu_segment *s = filled();
  clu_fd fd;
  REQUIRE(clu_os_dup(clu_segment_fd(s), &fd) == CLU_OK); /* not sealed */
  CHECK(clu_segment_receive(fd, &rc) == NULL);
  CHECK_INT_EQ(rc, CLU_PROTO);
  clu_segment_unref(s);
  fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
  CHECK(clu_segment_receive(fd, &rc) == NULL);
  CHECK_INT_EQ(rc, CLU_PROTO);
  CHECK_INT_EQ(test_count_fds(), before);
}

#endif

TEST(what_is_no_file_is_not_taken) {
  int rc, p[2], before = test_count_fds();
  REQUIRE(pipe(p) == 0);
  CHECK(clu_segment_receive(p[0], &rc) == NULL);
  CHECK_INT_EQ(rc, CLU_PROTO);
  close(p[1]);
  CHECK_INT_EQ(test_count_fds(), before);
}

TEST(a_limit_of_files_is_no_signal) { /* SIGXFSZ */
  pid_t child = fork();
  int status;
  REQUIRE(child >= 0);
  if (child == 0) {
    struct rlimit r = {50000, 50000};
    clu_segment *s;
    unsigned char bytes[40000] = {0};
    setrlimit(RLIMIT_FSIZE, &r);
    s = clu_segment_new();
    if (!s || clu_segment_append(s, bytes, sizeof bytes) != CLU_OK) _exit(1);
    if (clu_segment_append(s, bytes, sizeof bytes) != CLU_LIMIT) _exit(2);
    if (clu_segment_size(s) != sizeof bytes) _exit(3);
    _exit(0);
  }
  REQUIRE(waitpid(child, &status, 0) == child);
  CHECK(WIFEXITED(status));
  CHECK_INT_EQ(WEXITSTATUS(status), 0);
}

TEST(so_many_are_open_and_no_more) {
  enum { MANY = 4096 };
  static clu_segment *all[MANY];
  struct rlimit old, r;
  int n = 0, before = test_count_fds();
  REQUIRE(getrlimit(RLIMIT_NOFILE, &old) == 0);
  r = old;
  r.rlim_cur = 400;
  REQUIRE(setrlimit(RLIMIT_NOFILE, &r) == 0);
  while (n < MANY && (all[n] = clu_segment_new())) n++;
  CHECK_INT_EQ(n, 100);
  while (n > 0) clu_segment_unref(all[--n]);
  all[0] = clu_segment_new();
  CHECK(all[0] != NULL);
  clu_segment_unref(all[0]);
  setrlimit(RLIMIT_NOFILE, &old);
  CHECK_INT_EQ(test_count_fds(), before);
}
