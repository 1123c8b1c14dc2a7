/* Output to what others write to as well. */
#include "test.h"

#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "core/base/os-output.h"

static int is_blocking(int fd) { return !(fcntl(fd, F_GETFL) & O_NONBLOCK); }

/* Writes until nothing more is taken: the number of bytes. */
static size_t fill(clu_fd fd) {
  static const char bytes[10000];
  size_t all = 0, put;
  int rc;
  while ((rc = clu_os_output_write(fd, bytes, sizeof bytes, &put)) == CLU_OK && all < 10000000)
    all += put;
  CHECK_INT_EQ(rc, CLU_AGAIN);
  return all;
}

TEST(a_file_takes_all_behind_what_others_have_written) {
  char path[] = "/tmp/clutch-test-XXXXXX", text[20] = "";
  int fd = mkstemp(path);
  size_t put;
  clu_fd own;
  REQUIRE(fd >= 0 && write(fd, "one ", 4) == 4);
  own = clu_os_output_own(dup(fd));
  CHECK_INT_EQ(clu_os_output_write(own, "two ", 4, &put), CLU_OK);
  CHECK_INT_EQ(put, 4);
  REQUIRE(write(fd, "three", 5) == 5);
  CHECK_INT_EQ(pread(fd, text, sizeof text, 0), 13);
  CHECK_STR_EQ(text, "one two three");
  clu_os_close(own);
  close(fd);
  unlink(path);
}

TEST(a_full_pipe_is_not_waited_for) {
  int p[2];
  clu_fd own;
  REQUIRE(pipe(p) == 0);
  own = clu_os_output_own(dup(p[1]));
  CHECK(fill(own) >= 4096);
  CHECK(is_blocking(p[1]));
  clu_os_close(own);
  close(p[0]);
  close(p[1]);
}

/* Also where others have left room for one byte. */
TEST(a_terminal_that_nobody_reads_is_not_waited_for) {
  int session = posix_openpt(O_RDWR | O_NOCTTY), slave;
  clu_fd own;
  size_t put;
  char byte;
  REQUIRE(session >= 0 && grantpt(session) == 0 && unlockpt(session) == 0);
  REQUIRE((slave = open(ptsname(session), O_RDWR | O_NOCTTY)) >= 0);
  own = clu_os_output_own(dup(slave));
  CHECK(fill(own) > 0);
  for (int k = 0; k < 100; k++) {
    CHECK_INT_EQ(read(session, &byte, 1), 1);
    clu_os_output_write(own, "0123456789", 10, &put);
  }
  CHECK(is_blocking(slave));
  clu_os_close(own);
  close(slave);
  close(session);
}

TEST(a_reader_that_has_gone_is_a_code_and_no_signal) {
  int p[2];
  size_t put = 1;
  clu_fd own;
  sigset_t pending;
  REQUIRE(pipe(p) == 0);
  signal(SIGPIPE, SIG_DFL);
  own = clu_os_output_own(dup(p[1]));
  close(p[0]);
  CHECK(clu_os_output_write(own, "x", 1, &put) > CLU_OK);
  CHECK_INT_EQ(put, 0);
  CHECK(clu_os_output_write(p[1], "x", 1, &put) > CLU_OK);
  sigpending(&pending);
  CHECK(!sigismember(&pending, SIGPIPE));
  clu_os_close(own);
  close(p[1]);
}

TEST(a_socket_takes_output_too) {
  int p[2];
  size_t put;
  char byte = 0;
  clu_fd own;
  REQUIRE(socketpair(AF_UNIX, SOCK_STREAM, 0, p) == 0);
  own = clu_os_output_own(dup(p[1]));
  CHECK_INT_EQ(clu_os_output_write(own, "x", 1, &put), CLU_OK);
  CHECK_INT_EQ(read(p[0], &byte, 1), 1);
  CHECK_INT_EQ(byte, 'x');
  close(p[0]);
  CHECK(clu_os_output_write(own, "x", 1, &put) > CLU_OK);
  clu_os_close(own);
  close(p[1]);
}

TEST(a_line_is_appended_whole_or_not_at_all) {
  char path[] = "/tmp/clutch-test-XXXXXX", text[20] = "";
  int fd = mkstemp(path);
  struct rlimit before, few;
  clu_err e = {0, 0, ""};
  REQUIRE(fd >= 0 && write(fd, "one ", 4) == 4);
  CHECK_INT_EQ(clu_os_output_append(path, "two ", 4, &e), CLU_OK);
  CHECK_INT_EQ(pread(fd, text, sizeof text, 0), 8);
  CHECK_STR_EQ(text, "one two ");
  REQUIRE(getrlimit(RLIMIT_FSIZE, &before) == 0);
  few = before;
  few.rlim_cur = 10;
  REQUIRE(setrlimit(RLIMIT_FSIZE, &few) == 0);
  CHECK_INT_EQ(clu_os_output_append(path, "three", 5, &e), CLU_LIMIT); /* not the end by SIGXFSZ */
  REQUIRE(setrlimit(RLIMIT_FSIZE, &before) == 0);
  CHECK_INT_EQ(pread(fd, text, sizeof text, 0), 8);
  close(fd);
  unlink(path);
  CHECK_INT_EQ(clu_os_output_append("/tmp/no/such/folder", "x", 1, &e), CLU_SYS);
  CHECK_INT_EQ(e.sys, ENOENT);
}

TEST(a_pipe_that_nobody_reads_is_not_waited_for) {
  char path[] = "/tmp/clutch-test-XXXXXX";
  clu_err e = {0, 0, ""};
  int fd = mkstemp(path);
  REQUIRE(fd >= 0);
  close(fd);
  unlink(path);
  REQUIRE(mkfifo(path, 0600) == 0);
  CHECK_INT_EQ(clu_os_output_append(path, "x", 1, &e), CLU_SYS);
  unlink(path);
}
