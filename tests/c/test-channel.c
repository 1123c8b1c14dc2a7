/* Channels: messages, descriptors, withdrawn messages, ends. */
#include "channel-fixture.h"

TEST(messages_of_all_sizes_arrive_as_they_left) {
  static const size_t sizes[] = {0,      1,      23,           24,     25,     16383,
                                 16384,  16385,  16360,        100000, MB - 1, MB,
                                 MB + 1, 2 * MB, 5 * MB + 123, 0,      7};
  enum { N = sizeof sizes / sizeof *sizes };
  two t;
  uint64_t bytes = 0;
  up(&t, INT64_MAX, 0);
  for (unsigned i = 0; i < N; i++)
    queue(&t, (uint8_t)(1 + i), UINT64_MAX - i, sizes[i], i, CLU_NO_FD);
  CHECK(clu_chan_pending(&t.a));
  for (unsigned i = 0; i < N; i++) {
    expect(&t, (uint8_t)(1 + i), UINT64_MAX - i, sizes[i], i);
    bytes += sizes[i] + CLU_HEADER * (sizes[i] ? (sizes[i] + MB - 1) / MB : 1);
  }
  CHECK(!clu_chan_pending(&t.a));
  CHECK_INT_EQ(t.a.bytes_out, bytes);
  CHECK_INT_EQ(t.b.bytes_in, bytes);
  expect_nothing(&t);
  down(&t);
}

TEST(many_small_messages_arrive_in_order) {
  two t;
  up(&t, INT64_MAX, 0);
  for (unsigned i = 0; i < 5000; i++) queue(&t, CLU_K_CALL, i, i % 97, i, CLU_NO_FD);
  for (unsigned i = 0; i < 5000; i++) expect(&t, CLU_K_CALL, i, i % 97, i);
  expect_nothing(&t);
  down(&t);
}

/* A buffer that one has given back another may take, but nobody one that has bytes in it. */
TEST(buffers_go_from_one_channel_to_the_next) {
  enum { N = 4 };
  unsigned char of[CLU_HEADER + 200];
  two t[N];
  size_t n = frame(of, CLU_K_VALUE, 0, 9, 200, 0, 200);
  for (int i = 0; i < N; i++) up(&t[i], INT64_MAX, 0);
  for (unsigned round = 0; round < 20; round++) {
    unsigned half = round % N;
    raw(&t[half], of, n / 2);
    CHECK_INT_EQ(clu_chan_fill(&t[half].b), CLU_OK);
    for (unsigned i = 0; i < N; i++) {
      if (i == half) continue;
      queue(&t[i], CLU_K_VALUE, round, 100, i, CLU_NO_FD);
      expect(&t[i], CLU_K_VALUE, round, 100, i);
      expect_nothing(&t[i]);
      CHECK(t[i].b.in == NULL);
    }
    raw(&t[half], of + n / 2, n - n / 2);
    expect(&t[half], CLU_K_VALUE, 9, 200, 0);
    expect_nothing(&t[half]);
  }
  for (int i = 0; i < N; i++) down(&t[i]);
}

TEST(a_body_with_several_owners_is_not_copied_nor_changed) {
  two t;
  clu_blob *b = pattern(3 * MB, 5);
  up(&t, INT64_MAX, 0);
  for (int i = 0; i < 3; i++)
    CHECK_INT_EQ(clu_chan_send(&t.a, CLU_K_CALL, (uint64_t)i, b, CLU_NO_FD), CLU_OK);
  CHECK_INT_EQ(b->refs, 4);
  for (int i = 0; i < 3; i++) expect(&t, CLU_K_CALL, (uint64_t)i, 3 * MB, 5);
  CHECK_INT_EQ(b->refs, 1);
  clu_blob_unref(b);
  down(&t);
}

TEST(a_few_bytes_are_copied) {
  two t;
  clu_msg m = {0, 0, NULL};
  char text[] = "abc";
  up(&t, INT64_MAX, 0);
  CHECK_INT_EQ(clu_chan_send_bytes(&t.a, CLU_K_STOP, 1, text, 3, CLU_NO_FD), CLU_OK);
  CHECK_INT_EQ(clu_chan_send_bytes(&t.a, CLU_K_QUIT, 2, "", 0, CLU_NO_FD), CLU_OK);
  memset(text, 0, sizeof text);
  CHECK_INT_EQ(receive(&t, &m), 1);
  if (CHECK(m.body && m.body->size == 3)) CHECK_MEM_EQ(m.body->data, "abc", 3);
  clu_blob_unref(m.body);
  expect(&t, CLU_K_QUIT, 2, 0, 0);
  down(&t);
}

TEST(no_bytes_at_NULL_are_an_empty_message) { /* as the supervisor sends CLU_K_SIGNALLED */
  two t;
  up(&t, INT64_MAX, 0);
  CHECK_INT_EQ(clu_chan_send_bytes(&t.a, CLU_K_SIGNALLED, 2, NULL, 0, CLU_NO_FD), CLU_OK);
  expect(&t, CLU_K_SIGNALLED, 2, 0, 0);
  down(&t);
}

/* Cut anywhere, it reads the same. */
TEST(split_writes_are_put_together) {
  static const size_t steps[] = {1, 2, 3, 23, 24, 25, 47, 1000, 16383, 16384, 16385};
  unsigned char *bytes = malloc(200000);
  size_t n = 0;
  REQUIRE(bytes);
  n += frame(bytes + n, CLU_K_CALL, 0, 1, 50, 0, 50);
  n += frame(bytes + n, CLU_K_DONE, 0, 2, 0, 0, 0);
  n += frame(bytes + n, CLU_K_CALL, 0, 3, 40000, 0, 1); /* frames may be shorter than ours are */
  n += frame(bytes + n, CLU_K_CALL, 0, 3, 40000, 1, 20000);
  n += frame(bytes + n, CLU_K_CALL, 0, 3, 40000, 20001, 19999);
  n += frame(bytes + n, CLU_K_CALL, 0, 4, 90, 0, 60); /* not completed */
  n += frame(bytes + n, CLU_K_CALL, CLU_ABORT, 4, 90, 60, 0);
  n += frame(bytes + n, CLU_K_VALUE, 0, 5, 3, 0, 3);
  for (size_t k = 0; k < sizeof steps / sizeof *steps; k++) {
    static const struct {
      uint8_t kind;
      uint64_t seq;
      size_t size;
    } want[] = {
        {CLU_K_CALL, 1, 50}, {CLU_K_DONE, 2, 0}, {CLU_K_CALL, 3, 40000}, {CLU_K_VALUE, 5, 3}};
    two t;
    int seen = 0;
    up(&t, INT64_MAX, (int)(k % 2));
    for (size_t at = 0; at < n; at += steps[k]) {
      size_t left = n - at;
      clu_msg m;
      raw(&t, bytes + at, left < steps[k] ? left : steps[k]);
      while (clu_chan_fill(&t.b) == CLU_OK) {
        int r;
        while ((r = clu_chan_next(&t.b, &m)) == 1) {
          if (CHECK(seen < 4)) {
            CHECK_INT_EQ(m.kind, want[seen].kind);
            CHECK_INT_EQ(m.seq, want[seen].seq);
            CHECK_INT_EQ(m.body ? m.body->size : 0, want[seen].size);
            for (size_t i = 0; m.body && i < m.body->size; i++)
              if (m.body->data[i] != byte_at(i, 0)) {
                CHECK_INT_EQ(i, -1);
                break;
              }
            seen++;
          }
          clu_blob_unref(m.body);
        }
        CHECK_INT_EQ(r, 0);
      }
    }
    CHECK_INT_EQ(seen, 4);
    down(&t);
  }
  free(bytes);
}

TEST(a_full_buffer_is_no_error) { /* fill without next: nothing is lost */
  two t;
  up(&t, INT64_MAX, 0);
  for (unsigned i = 0; i < 2000; i++) queue(&t, CLU_K_CALL, i, 20, i, CLU_NO_FD);
  CHECK(clu_chan_flush(&t.a) != CLU_RESET);
  for (int i = 0; i < 10; i++) CHECK_INT_EQ(clu_chan_fill(&t.b), CLU_OK);
  for (unsigned i = 0; i < 2000; i++) expect(&t, CLU_K_CALL, i, 20, i);
  down(&t);
}

/* ---- descriptors ---- */

TEST(descriptors_arrive_in_order) {
  enum { N = 12 };
  static const size_t sizes[N] = {0, 1, 3 * MB + 5, 0, 16384, 100, MB, 0, 0, 5, 40000, 1};
  two t;
  int ends[N], before = test_count_fds();
  up(&t, INT64_MAX, 1);
  for (int i = 0; i < N; i++) {
    int p[2];
    REQUIRE(pipe(p) == 0);
    ends[i] = p[0];
    queue(&t, CLU_K_SPAWN, (uint64_t)i, sizes[i], (unsigned)i, p[1]);
    queue(&t, CLU_K_STOP, (uint64_t)i, 4, 9, CLU_NO_FD); /* one without in between */
  }
  for (int i = 0; i < N; i++) {
    clu_fd fd;
    char c = 0;
    expect(&t, CLU_K_SPAWN, (uint64_t)i, sizes[i], (unsigned)i);
    fd = clu_chan_take_fd(&t.b);
    if (CHECK(fd != CLU_NO_FD)) {
      CHECK(fcntl((int)fd, F_GETFD) & FD_CLOEXEC);
      CHECK_INT_EQ(write((int)fd, &(char){(char)('a' + i)}, 1), 1);
      clu_os_close(fd);
      CHECK_INT_EQ(read(ends[i], &c, 1), 1);
      CHECK_INT_EQ(c, 'a' + i);
      CHECK_INT_EQ(read(ends[i], &c, 1), 0); /* the sender's copy is closed */
    }
    expect(&t, CLU_K_STOP, (uint64_t)i, 4, 9);
    close(ends[i]);
  }
  CHECK(clu_chan_take_fd(&t.b) == CLU_NO_FD);
  down(&t);
  CHECK_INT_EQ(test_count_fds(), before);
}

static clu_fd any_fd(void) {
  int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
  REQUIRE(fd >= 0);
  return fd;
}

TEST(descriptors_that_come_before_they_can_be_taken_wait) { /* fill without next */
  enum { N = 100 };
  two t;
  int before = test_count_fds();
  up(&t, INT64_MAX, 1);
  for (unsigned i = 0; i < N; i++) queue(&t, CLU_K_SPAWN, i, 1, i, any_fd());
  CHECK(clu_chan_flush(&t.a) != CLU_RESET);
  for (unsigned i = 0; i < N; i++) CHECK_INT_EQ(clu_chan_fill(&t.b), CLU_OK);
  for (unsigned i = 0; i < N; i++) {
    clu_fd fd;
    expect(&t, CLU_K_SPAWN, i, 1, i);
    fd = clu_chan_take_fd(&t.b);
    CHECK(fd != CLU_NO_FD);
    clu_os_close(fd);
  }
  down(&t);
  CHECK_INT_EQ(test_count_fds(), before);
}

TEST(descriptors_that_nobody_takes_are_closed) {
  two t;
  int before = test_count_fds();
  up(&t, INT64_MAX, 1);
  for (unsigned i = 0; i < 50; i++) queue(&t, CLU_K_SPAWN, i, 1, i, any_fd());
  for (unsigned i = 0; i < 50; i++) expect(&t, CLU_K_SPAWN, i, 1, i);
  down(&t);
  CHECK_INT_EQ(test_count_fds(), before);
}

TEST(descriptors_that_were_not_asked_for_are_not_taken) {
  two t;
  int before;
  up(&t, INT64_MAX, 0);
  before = test_count_fds();
  for (unsigned i = 0; i < 5; i++) queue(&t, CLU_K_SPAWN, i, 1, i, any_fd());
  for (unsigned i = 0; i < 5; i++) expect(&t, CLU_K_SPAWN, i, 1, i);
  CHECK_INT_EQ(test_count_fds(), before);
  CHECK(clu_chan_take_fd(&t.b) == CLU_NO_FD);
  down(&t);
}

TEST(descriptors_that_have_not_left_are_closed) {
  two t;
  int before = test_count_fds();
  up(&t, INT64_MAX, 1);
  queue(&t, CLU_K_SPAWN, 1, 1, 1, any_fd()); /* withdrawn */
  queue(&t, CLU_K_SPAWN, 2, 1, 1, any_fd()); /* still there at the end */
  CHECK_INT_EQ(clu_chan_withdraw(&t.a, CLU_K_SPAWN, 1), 1);
  down(&t);
  CHECK_INT_EQ(test_count_fds(), before);
}

TEST(descriptors_under_way_do_not_leak) {
  two t;
  int before = test_count_fds();
  up(&t, INT64_MAX, 1);
  for (unsigned i = 0; i < 3; i++) queue(&t, CLU_K_SPAWN, i, 1, i, any_fd());
  CHECK_INT_EQ(clu_chan_flush(&t.a), CLU_OK);
  CHECK_INT_EQ(clu_chan_fill(&t.b), CLU_OK);
  down(&t);
  CHECK_INT_EQ(test_count_fds(), before);
}

/* ---- withdrawing ---- */

TEST(what_has_not_left_is_withdrawn_from_anywhere_in_the_queue) {
  for (uint64_t gone = 1; gone <= 3; gone++) {
    two t;
    up(&t, INT64_MAX, 0);
    for (uint64_t i = 1; i <= 3; i++) queue(&t, CLU_K_CALL, i, 10, (unsigned)i, CLU_NO_FD);
    CHECK_INT_EQ(clu_chan_withdraw(&t.a, CLU_K_VALUE, gone), 0); /* another kind */
    CHECK_INT_EQ(clu_chan_withdraw(&t.a, CLU_K_CALL, 9), 0);
    CHECK_INT_EQ(clu_chan_withdraw(&t.a, CLU_K_CALL, gone), 1);
    CHECK_INT_EQ(clu_chan_withdraw(&t.a, CLU_K_CALL, gone), 0);
    queue(&t, CLU_K_CALL, 4, 10, 4, CLU_NO_FD);
    for (uint64_t i = 1; i <= 4; i++)
      if (i != gone) expect(&t, CLU_K_CALL, i, 10, (unsigned)i);
    expect_nothing(&t);
    down(&t);
  }
}

TEST(the_only_one_is_withdrawn) {
  two t;
  up(&t, INT64_MAX, 0);
  queue(&t, CLU_K_CALL, 1, 3 * MB, 1, CLU_NO_FD);
  CHECK_INT_EQ(clu_chan_withdraw(&t.a, CLU_K_CALL, 1), 1);
  CHECK(!clu_chan_pending(&t.a));
  CHECK_INT_EQ(clu_chan_flush(&t.a), CLU_OK);
  CHECK_INT_EQ(t.a.bytes_out, 0);
  queue(&t, CLU_K_CALL, 2, 0, 0, CLU_NO_FD);
  expect(&t, CLU_K_CALL, 2, 0, 0);
  down(&t);
}

/* The reader has to stay in step, wherever the message was cut: the reads before make the
 * difference. */
TEST(half_a_message_is_withdrawn) {
  for (int reads = 0; reads < 40; reads++) {
    two t;
    clu_msg m;
    int gone;
    up(&t, INT64_MAX, 0);
    queue(&t, CLU_K_CALL, 1, 4 * MB, 1, CLU_NO_FD);
    CHECK_INT_EQ(clu_chan_flush(&t.a), CLU_AGAIN);
    for (int i = 0; i < reads && t.a.bytes_out < 3 * MB; i++) {
      clu_chan_fill(&t.b);
      CHECK_INT_EQ(clu_chan_next(&t.b, &m), 0);
      if (i % 2) clu_chan_flush(&t.a);
    }
    CHECK(t.a.bytes_out > 0);
    gone = t.a.bytes_out <= 3 * (MB + CLU_HEADER);
    CHECK_INT_EQ(clu_chan_withdraw(&t.a, CLU_K_CALL, 1), gone);
    CHECK_INT_EQ(clu_chan_withdraw(&t.a, CLU_K_CALL, 1), gone); /* twice is once */
    queue(&t, CLU_K_CALL, 2, 2 * MB + 1, 2, CLU_NO_FD);
    queue(&t, CLU_K_DONE, 3, 0, 0, CLU_NO_FD);
    if (!gone) expect(&t, CLU_K_CALL, 1, 4 * MB, 1);
    expect(&t, CLU_K_CALL, 2, 2 * MB + 1, 2);
    expect(&t, CLU_K_DONE, 3, 0, 0);
    expect_nothing(&t);
    if (gone) CHECK(t.a.bytes_out < 6 * MB + 500); /* no more than the frame it was in */
    down(&t);
  }
}

TEST(half_a_message_is_withdrawn_with_nothing_behind_it) {
  two t;
  up(&t, INT64_MAX, 0);
  queue(&t, CLU_K_VALUE, 1, 4 * MB, 1, CLU_NO_FD);
  CHECK_INT_EQ(clu_chan_flush(&t.a), CLU_AGAIN);
  CHECK_INT_EQ(clu_chan_withdraw(&t.a, CLU_K_VALUE, 1), 1);
  CHECK(clu_chan_pending(&t.a)); /* the rest of the frame, and the abort */
  expect_nothing(&t);
  CHECK(!clu_chan_pending(&t.a));
  down(&t);
}

TEST(what_is_in_its_last_frame_arrives) {
  two t;
  clu_msg m;
  double end = test_ms() + 20000;
  up(&t, INT64_MAX, 0);
  queue(&t, CLU_K_CALL, 1, 2 * MB, 1, CLU_NO_FD);
  while (t.a.bytes_out <= MB + CLU_HEADER && test_ms() < end) {
    clu_chan_flush(&t.a);
    if (t.a.bytes_out > MB + CLU_HEADER) break;
    clu_chan_fill(&t.b);
    CHECK_INT_EQ(clu_chan_next(&t.b, &m), 0);
  }
  CHECK(clu_chan_pending(&t.a));
  CHECK_INT_EQ(clu_chan_withdraw(&t.a, CLU_K_CALL, 1), 0);
  queue(&t, CLU_K_CALL, 2, 5, 2, CLU_NO_FD);
  expect(&t, CLU_K_CALL, 1, 2 * MB, 1);
  expect(&t, CLU_K_CALL, 2, 5, 2);
  down(&t);
}

TEST(what_was_sent_is_not_withdrawn) {
  two t;
  up(&t, INT64_MAX, 0);
  queue(&t, CLU_K_CALL, 1, 5, 1, CLU_NO_FD);
  CHECK_INT_EQ(clu_chan_flush(&t.a), CLU_OK);
  CHECK_INT_EQ(clu_chan_withdraw(&t.a, CLU_K_CALL, 1), 0);
  expect(&t, CLU_K_CALL, 1, 5, 1);
  down(&t);
}

/* The system took nothing of the first in the queue: it may go or stay, but what is said has to be
 * true. */
TEST(a_withdrawal_while_nothing_can_be_written_tells_the_truth) {
  two t;
  unsigned n = 0;
  int gone;
  up(&t, INT64_MAX, 0);
  do queue(&t, CLU_K_CALL, n++, 100, 1, CLU_NO_FD);
  while (clu_chan_flush(&t.a) == CLU_OK && n < 1000000);
  queue(&t, CLU_K_CALL, n, 100, 1, CLU_NO_FD);
  gone = clu_chan_withdraw(&t.a, CLU_K_CALL, n - 1);
  for (unsigned i = 0; i <= n; i++)
    if (i != n - 1 || !gone) expect(&t, CLU_K_CALL, i, 100, 1);
  expect_nothing(&t);
  down(&t);
}
/* ---- ends ---- */

TEST(the_end_in_a_message_is_the_end) {
  static const size_t cuts[] = {0, 1, 23, 24, 25, 1023};
  for (size_t i = 0; i < sizeof cuts / sizeof *cuts; i++) {
    unsigned char b[1024];
    two t;
    clu_msg m = {0, 0, NULL};
    int rc;
    frame(b, CLU_K_VALUE, 0, 1, 1000, 0, 1000);
    up(&t, INT64_MAX, (int)(i % 2));
    if (cuts[i]) raw(&t, b, cuts[i]);
    clu_chan_fini(&t.a);
    while ((rc = clu_chan_fill(&t.b)) == CLU_OK) CHECK_INT_EQ(clu_chan_next(&t.b, &m), 0);
    CHECK_INT_EQ(rc, CLU_EOF);
    CHECK_INT_EQ(clu_chan_next(&t.b, &m), 0);
    CHECK(m.body == NULL);
    CHECK_INT_EQ(clu_chan_fill(&t.b), CLU_EOF);
    clu_chan_fini(&t.b);
  }
}

TEST(what_came_before_the_end_is_there) {
  two t;
  clu_msg m = {0, 0, NULL};
  up(&t, INT64_MAX, 0);
  queue(&t, CLU_K_VALUE, 1, 100, 1, CLU_NO_FD);
  queue(&t, CLU_K_VALUE, 2, 100, 1, CLU_NO_FD);
  CHECK_INT_EQ(clu_chan_flush(&t.a), CLU_OK);
  clu_chan_fini(&t.a);
  expect(&t, CLU_K_VALUE, 1, 100, 1);
  expect(&t, CLU_K_VALUE, 2, 100, 1);
  CHECK_INT_EQ(clu_chan_fill(&t.b), CLU_EOF);
  CHECK_INT_EQ(clu_chan_next(&t.b, &m), 0);
  down(&t);
}

TEST(writing_to_nobody_is_a_reset_and_no_signal) {
  two t;
  up(&t, INT64_MAX, 0);
  clu_chan_fini(&t.b);
  queue(&t, CLU_K_CALL, 1, 100, 1, CLU_NO_FD);
  CHECK_INT_EQ(clu_chan_flush(&t.a), CLU_RESET);
  clu_chan_fini(&t.a);
}

TEST(a_channel_is_ended_twice) {
  two t;
  clu_chan none;
  up(&t, INT64_MAX, 1);
  queue(&t, CLU_K_CALL, 1, 100, 1, CLU_NO_FD);
  down(&t);
  down(&t);
  memset(&none, 0, sizeof none);
  none.fd = CLU_NO_FD;
  clu_chan_fini(&none);
}
