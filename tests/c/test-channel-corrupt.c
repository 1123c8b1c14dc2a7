/* Channels whose peer sends what is not of this protocol. */
#include "channel-fixture.h"

static int refused(const void *p, size_t n, uint64_t limit) {
  two t;
  clu_msg m = {0, 0, NULL};
  int r;
  up(&t, limit, 0);
  raw(&t, p, n);
  r = receive(&t, &m);
  if (r == 1) clu_blob_unref(m.body);
  down(&t);
  return r;
}

TEST(garbage_is_refused) {
  unsigned char b[4096];
  uint64_t x = 88172645463325252u;
  CHECK_INT_EQ(refused("GET / HTTP/1.1\r\nHost: here\r\n\r\n", 30, INT64_MAX), -CLU_PROTO);
  memset(b, 0, sizeof b);
  CHECK_INT_EQ(refused(b, sizeof b, INT64_MAX), -CLU_PROTO);
  for (int k = 0; k < 200; k++) {
    for (size_t i = 0; i < sizeof b; i++) {
      x ^= x << 13, x ^= x >> 7, x ^= x << 17;
      b[i] = (unsigned char)x;
    }
    b[3] = 1; /* surely none */
    if (k % 2) b[0] = CLU_MAGIC;
    CHECK_INT_EQ(refused(b, sizeof b, INT64_MAX), -CLU_PROTO);
  }
}

TEST(garbage_behind_a_message_is_refused_after_it) {
  two t;
  clu_msg m = {0, 0, NULL};
  up(&t, INT64_MAX, 0);
  queue(&t, CLU_K_CALL, 1, 5, 1, CLU_NO_FD);
  CHECK_INT_EQ(clu_chan_flush(&t.a), CLU_OK);
  raw(&t, "this is not a header of a frame", 31);
  expect(&t, CLU_K_CALL, 1, 5, 1);
  CHECK_INT_EQ(receive(&t, &m), -CLU_PROTO);
  down(&t);
}

TEST(frames_that_do_not_belong_together_are_refused) {
  static const struct {
    uint8_t kind, flags;
    uint64_t seq, total;
    uint32_t len;
    int rc;
  } second[] = {
      {CLU_K_CALL, 0, 7, 100, 60, 1},
      {CLU_K_CALL, 0, 7, 100, 59, 0},
      {CLU_K_CALL, CLU_ABORT, 7, 100, 0, 0},
      {CLU_K_VALUE, 0, 7, 100, 60, -CLU_PROTO},
      {CLU_K_CALL, 0, 8, 100, 60, -CLU_PROTO},
      {CLU_K_CALL, 0, 7, 101, 61, -CLU_PROTO},
      {CLU_K_CALL, 0, 7, 100, 61, -CLU_PROTO},
      {CLU_K_CALL, 0, 7, 100, 0, -CLU_PROTO},
      {CLU_K_CALL, CLU_ABORT, 8, 100, 0, -CLU_PROTO},
      {CLU_K_VALUE, CLU_ABORT, 7, 100, 0, -CLU_PROTO},
      {CLU_K_CALL, CLU_ABORT, 7, 99, 0, -CLU_PROTO},
  };
  for (size_t i = 0; i < sizeof second / sizeof *second; i++) {
    unsigned char b[500];
    size_t n = frame(b, CLU_K_CALL, 0, 7, 100, 0, 40);
    n += frame(b + n, second[i].kind, second[i].flags, second[i].seq, second[i].total, 40,
               second[i].len);
    CHECK_INT_EQ(refused(b, n, INT64_MAX), second[i].rc);
  }
}

TEST(an_abort_of_nothing_is_refused) {
  unsigned char b[CLU_HEADER];
  CHECK_INT_EQ(refused(b, frame(b, CLU_K_CALL, CLU_ABORT, 7, 100, 0, 0), INT64_MAX), -CLU_PROTO);
  CHECK_INT_EQ(refused(b, frame(b, CLU_K_CALL, CLU_ABORT, 7, 0, 0, 0), INT64_MAX), -CLU_PROTO);
}

TEST(a_message_that_begins_with_nothing_is_refused) {
  unsigned char b[CLU_HEADER];
  CHECK_INT_EQ(refused(b, frame(b, CLU_K_CALL, 0, 7, 100, 0, 0), INT64_MAX), -CLU_PROTO);
}

TEST(the_limit_holds_before_memory_is_asked_for) {
  unsigned char b[2000];
  two t;
  clu_msg m = {0, 0, NULL};
  CHECK_INT_EQ(refused(b, frame(b, CLU_K_CALL, 0, 7, 1000, 0, 1000), 1000), 1);
  CHECK_INT_EQ(refused(b, frame(b, CLU_K_CALL, 0, 7, 1001, 0, 1001), 1000), -CLU_PROTO);
  CHECK_INT_EQ(refused(b, frame(b, CLU_K_CALL, 0, 7, 0, 0, 0), 0), 1);
  up(&t, (uint64_t)1 << 40, 0);
  raw(&t, b, frame(b, CLU_K_CALL, 0, 7, ((uint64_t)1 << 40) + 1, 0, 10));
  CHECK_INT_EQ(receive(&t, &m), -CLU_PROTO); /* not -CLU_NOMEM */
  CHECK(t.b.body == NULL);
  down(&t);
}

TEST(a_message_for_which_there_is_no_memory_is_an_error) {
  unsigned char b[100];
  CHECK_INT_EQ(refused(b, frame(b, CLU_K_CALL, 0, 7, INT64_MAX, 0, 10), INT64_MAX), -CLU_NOMEM);
}
