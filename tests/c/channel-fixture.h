/* Two channels over a pair of sockets in one process: one writes, the other reads. */
#ifndef CHANNEL_FIXTURE_H
#define CHANNEL_FIXTURE_H

#include "test.h"

#include <sys/socket.h>

#include "core/wire/channel.h"

#define MB ((size_t)1 << 20)

typedef struct two {
  clu_chan a, b; /* a writes, b reads */
} two;

TEST_UNUSED static void up(two *t, uint64_t limit, int takes_fds) {
  clu_fd fd[2];
  clu_err e;
  REQUIRE(clu_os_pair(fd, &e) == CLU_OK);
  REQUIRE(clu_chan_init(&t->a, fd[0], INT64_MAX, 0) == CLU_OK);
  REQUIRE(clu_chan_init(&t->b, fd[1], limit, takes_fds) == CLU_OK);
}

TEST_UNUSED static void down(two *t) {
  clu_chan_fini(&t->a);
  clu_chan_fini(&t->b);
}

TEST_UNUSED static unsigned char byte_at(size_t i, unsigned salt) {
  return (unsigned char)((i * 2654435761u + salt) >> 7);
}

TEST_UNUSED static clu_blob *pattern(size_t n, unsigned salt) {
  clu_blob *b = clu_blob_new(n);
  REQUIRE(b);
  for (size_t i = 0; i < n; i++) b->data[i] = byte_at(i, salt);
  b->size = n;
  return b;
}

TEST_UNUSED static void queue(two *t, uint8_t kind, uint64_t seq, size_t n, unsigned salt,
                              clu_fd pass) {
  clu_blob *b = n ? pattern(n, salt) : NULL;
  CHECK_INT_EQ(clu_chan_send(&t->a, kind, seq, b, pass), CLU_OK);
  clu_blob_unref(b);
}

/* Returns what clu_chan_next() says in the end: 1, an error, or 0 when nothing more comes. */
TEST_UNUSED static int receive(two *t, clu_msg *m) {
  double end = test_ms() + 20000;
  while (test_ms() < end) {
    int put = clu_chan_flush(&t->a), r = clu_chan_next(&t->b, m), rc;
    CHECK(put == CLU_OK || put == CLU_AGAIN);
    if (r) return r;
    rc = clu_chan_fill(&t->b);
    if (rc == CLU_AGAIN && !clu_chan_pending(&t->a)) return 0;
    if (rc != CLU_OK && rc != CLU_AGAIN) return -100 - rc;
  }
  return test_fail(__FILE__, __LINE__, "no message within 20 s"), -99;
}

TEST_UNUSED static void expect(two *t, uint8_t kind, uint64_t seq, size_t n, unsigned salt) {
  clu_msg m = {0, 0, NULL};
  CHECK_INT_EQ(receive(t, &m), 1);
  CHECK_INT_EQ(m.kind, kind);
  CHECK(m.seq == seq);
  if (n == 0) {
    CHECK(m.body == NULL);
  } else if (CHECK(m.body && m.body->size == n)) {
    clu_blob *want = pattern(n, salt);
    CHECK_MEM_EQ(m.body->data, want->data, n);
    clu_blob_unref(want);
  }
  clu_blob_unref(m.body);
}

TEST_UNUSED static void expect_nothing(two *t) {
  clu_msg m = {0, 0, NULL};
  CHECK_INT_EQ(receive(t, &m), 0);
  CHECK(!t->b.in_msg && t->b.body == NULL);
}

/* One frame as bytes, behind `at`; the bytes of its message from `off`. */
TEST_UNUSED static size_t frame(unsigned char *at, uint8_t kind, uint8_t flags, uint64_t seq,
                                uint64_t total, size_t off, uint32_t len) {
  clu_header h = {kind, flags, 0, len, seq, total};
  clu_header_put(at, &h);
  for (size_t i = 0; i < len; i++) at[CLU_HEADER + i] = byte_at(off + i, 0);
  return CLU_HEADER + len;
}

TEST_UNUSED static void raw(two *t, const void *p, size_t n) {
  CHECK_INT_EQ(send((int)t->a.fd, p, n, MSG_NOSIGNAL), n);
}

#endif
