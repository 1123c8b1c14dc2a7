/* Channels: small messages that wait together leave in one system call. */
// link: -Wl,--wrap=clu_os_writev
#include "channel-fixture.h"

static int calls;
static int writes;  /* that take something, the others nothing; -1: any number */
static size_t most; /* bytes that a write takes; 0: the system decides */

int __real_clu_os_writev(clu_fd fd, const clu_iov *iov, int n, const clu_fd *pass, int npass,
                         size_t *put);

int __wrap_clu_os_writev(clu_fd fd, const clu_iov *iov, int n, const clu_fd *pass, int npass,
                         size_t *put) {
  clu_iov cut[CLU_MAX_IOV];
  size_t left = most;
  int k = 0;
  calls++;
  if (writes == 0) return CLU_AGAIN;
  if (writes > 0) writes--;
  if (!most) return __real_clu_os_writev(fd, iov, n, pass, npass, put);
  for (; k < n && left > 0; k++) {
    cut[k] = iov[k];
    if (cut[k].len > left) cut[k].len = left;
    left -= cut[k].len;
  }
  return __real_clu_os_writev(fd, cut, k, pass, npass, put);
}

static void reset(void) {
  calls = 0;
  writes = -1;
  most = 0;
}

TEST(small_messages_share_a_write) {
  two t;
  reset();
  up(&t, INT64_MAX, 0);
  for (unsigned i = 0; i < 100; i++) queue(&t, CLU_K_CALL, i, i % 5, i, CLU_NO_FD);
  CHECK_INT_EQ(clu_chan_flush(&t.a), CLU_OK);
  CHECK_INT_EQ(calls, 1);
  for (unsigned i = 0; i < 100; i++) expect(&t, CLU_K_CALL, i, i % 5, i);
  expect_nothing(&t);
  down(&t);
}

/* A large one is written from where it is, whatever waits before and behind it. */
TEST(a_large_message_is_written_by_itself) {
  two t;
  clu_blob *large = pattern(10000, 7);
  reset();
  up(&t, INT64_MAX, 0);
  for (unsigned i = 0; i < 3; i++) queue(&t, CLU_K_CALL, i, 10, i, CLU_NO_FD);
  CHECK_INT_EQ(clu_chan_send(&t.a, CLU_K_CALL, 3, large, CLU_NO_FD), CLU_OK);
  for (unsigned i = 4; i < 7; i++) queue(&t, CLU_K_CALL, i, 10, i, CLU_NO_FD);
  CHECK_INT_EQ(clu_chan_flush(&t.a), CLU_OK);
  CHECK_INT_EQ(calls, 3);
  for (unsigned i = 0; i < 3; i++) expect(&t, CLU_K_CALL, i, 10, i);
  expect(&t, CLU_K_CALL, 3, 10000, 7);
  for (unsigned i = 4; i < 7; i++) expect(&t, CLU_K_CALL, i, 10, i);
  clu_blob_unref(large);
  down(&t);
}

/* A descriptor goes with the first byte of its own message. */
TEST(a_message_that_passes_a_descriptor_is_written_by_itself) {
  two t;
  int ends[2];
  clu_fd fd;
  reset();
  REQUIRE(pipe(ends) == 0);
  up(&t, INT64_MAX, 1);
  for (unsigned i = 0; i < 3; i++) queue(&t, CLU_K_STOP, i, 4, i, CLU_NO_FD);
  queue(&t, CLU_K_SPAWN, 3, 4, 3, ends[1]);
  for (unsigned i = 4; i < 7; i++) queue(&t, CLU_K_STOP, i, 4, i, CLU_NO_FD);
  CHECK_INT_EQ(clu_chan_flush(&t.a), CLU_OK);
  CHECK_INT_EQ(calls, 3);
  for (unsigned i = 0; i < 3; i++) expect(&t, CLU_K_STOP, i, 4, i);
  expect(&t, CLU_K_SPAWN, 3, 4, 3);
  fd = clu_chan_take_fd(&t.b);
  if (CHECK(fd != CLU_NO_FD)) clu_os_close(fd);
  for (unsigned i = 4; i < 7; i++) expect(&t, CLU_K_STOP, i, 4, i);
  close(ends[0]);
  down(&t);
}

/* Wherever a write was cut: the same messages arrive. */
TEST(short_writes_lose_nothing) {
  for (size_t step = 1; step < 200; step += step < 60 ? 1 : 13) {
    two t;
    reset();
    most = step;
    up(&t, INT64_MAX, 0);
    for (unsigned i = 0; i < 40; i++) queue(&t, CLU_K_CALL, i, (i * 7) % 31, i, CLU_NO_FD);
    for (unsigned i = 0; i < 40; i++) expect(&t, CLU_K_CALL, i, (i * 7) % 31, i);
    expect_nothing(&t);
    CHECK_INT_EQ(t.a.bytes_out, t.b.bytes_in);
    down(&t);
  }
}

/* One write of `step` bytes, then one message is taken back: it is gone if it was said to be, and
 * the others arrive. */
TEST(a_withdrawal_after_a_short_write_tells_the_truth) {
  enum { N = 6, SIZE = 10 };
  for (size_t step = 1; step < N * (CLU_HEADER + SIZE); step += 5)
    for (unsigned back = 0; back < N; back++) {
      two t;
      int gone;
      reset();
      up(&t, INT64_MAX, 0);
      for (unsigned i = 0; i < N; i++) queue(&t, CLU_K_CALL, i, SIZE, i, CLU_NO_FD);
      most = step;
      writes = 1;
      CHECK_INT_EQ(clu_chan_flush(&t.a), CLU_AGAIN);
      gone = clu_chan_withdraw(&t.a, CLU_K_CALL, back);
      CHECK_INT_EQ(gone, step <= back * (CLU_HEADER + SIZE));
      reset();
      for (unsigned i = 0; i < N; i++)
        if (i != back || !gone) expect(&t, CLU_K_CALL, i, SIZE, i);
      expect_nothing(&t);
      down(&t);
    }
}
