/* Text for the standard input of a program. */
// link: -Wl,--wrap=clu_os_writev
#include "test.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "core/base/input.h"
#include "core/base/os.h"

static size_t most = SIZE_MAX; /* bytes that the system takes at a time */

int __real_clu_os_writev(clu_fd fd, const clu_iov *iov, int n, const clu_fd *pass, int npass,
                         size_t *put);
int __wrap_clu_os_writev(clu_fd fd, const clu_iov *iov, int n, const clu_fd *pass, int npass,
                         size_t *put);
int __wrap_clu_os_writev(clu_fd fd, const clu_iov *iov, int n, const clu_fd *pass, int npass,
                         size_t *put) {
  clu_iov some = {iov->base, iov->len < most ? iov->len : most};
  return __real_clu_os_writev(fd, n == 1 ? &some : iov, n, pass, npass, put);
}

TEST(what_the_system_takes_in_parts_arrives_as_a_whole) {
  clu_err e = {0, 0, ""};
  clu_fd in, rest;
  char got[16] = "";
  most = 3;
  CHECK_INT_EQ(clu_input_of("a secret", 8, &in, &rest, &e), CLU_OK);
  CHECK_INT_EQ(clu_input_add(rest, "\nend\n", 5), CLU_OK);
  most = SIZE_MAX;
  CHECK_INT_EQ(read((int)in, got, sizeof got), 13);
  CHECK_STR_EQ(got, "a secret\nend\n");
  clu_os_close(rest);
  clu_os_close(in);
}

TEST(what_is_read_is_the_text_and_then_the_end) {
  clu_err e = {0, 0, ""};
  clu_fd in;
  char got[16] = "";
  CHECK_INT_EQ(clu_input_of("two\nlines\n", 10, &in, NULL, &e), CLU_OK);
  CHECK_INT_EQ(read((int)in, got, sizeof got), 10);
  CHECK_STR_EQ(got, "two\nlines\n");
  CHECK_INT_EQ(read((int)in, got, sizeof got), 0);
  clu_os_close(in);
}

TEST(the_end_comes_when_the_rest_is_closed) {
  clu_err e = {0, 0, ""};
  clu_fd in, rest;
  char got[16];
  CHECK_INT_EQ(clu_input_of("x", 1, &in, &rest, &e), CLU_OK);
  CHECK_INT_EQ(read((int)in, got, sizeof got), 1);
  CHECK_INT_EQ(clu_os_set_blocking(in, 0), CLU_OK);
  CHECK(read((int)in, got, sizeof got) < 0 && errno == EAGAIN);
  clu_os_close(rest);
  CHECK_INT_EQ(read((int)in, got, sizeof got), 0);
  clu_os_close(in);
}

TEST(a_text_that_does_not_fit_is_an_error_and_leaves_no_descriptor) {
  const size_t n = 64u << 20;
  char *text = malloc(n);
  clu_err e = {0, 0, ""};
  clu_fd in = 5, rest = 5;
  CHECK(text != NULL);
  memset(text, 'x', n);
  CHECK_INT_EQ(clu_input_of(text, n, &in, &rest, &e), CLU_SYS);
  CHECK(in == CLU_NO_FD && rest == CLU_NO_FD);
  CHECK(strlen(e.text) > 0);
  free(text);
}
