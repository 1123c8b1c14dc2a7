/* Channels: messages that bring segments. */
#include "channel-fixture.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include "core/base/segment.h"

static clu_segment *segment_of(const char *text) {
  clu_segment *s = clu_segment_new();
  REQUIRE(s);
  CHECK_INT_EQ(clu_segment_append(s, text, strlen(text)), CLU_OK);
  CHECK_INT_EQ(clu_segment_seal(s), CLU_OK);
  return s;
}

/* A message of `size` bytes with `n` segments, the first of which has `text`. */
static void send_with(two *t, uint64_t seq, size_t size, int n, const char *text) {
  clu_blob *b = pattern(size, (unsigned)seq);
  for (int i = 0; i < n; i++) CHECK_INT_EQ(clu_blob_attach(b, segment_of(i ? "another" : text)), i);
  CHECK_INT_EQ(clu_chan_send(&t->a, CLU_K_VALUE, seq, b, CLU_NO_FD), CLU_OK);
  clu_blob_unref(b);
}

static void both_take(two *t, int what) {
  up(t, INT64_MAX, what);
  t->a.takes_fds = CLU_TAKES_SEGMENTS;
}

TEST(segments_come_with_their_message) {
  static const size_t sizes[] = {1, 100, 3 * MB + 5, 16384, 40000, MB};
  two t;
  int before = test_count_fds();
  both_take(&t, CLU_TAKES_SEGMENTS);
  for (unsigned k = 0; k < 30; k++) {
    char text[20];
    snprintf(text, sizeof text, "text %u", k);
    send_with(&t, k, sizes[k % 6], (int)(k % 4), text);
  }
  for (unsigned k = 0; k < 30; k++) {
    clu_msg m;
    REQUIRE(receive(&t, &m) == 1);
    CHECK(m.seq == k);
    CHECK_INT_EQ(m.body->size, sizes[k % 6]);
    CHECK_INT_EQ(m.body->segments ? m.body->segments->n : 0, k % 4);
    if (k % 4) {
      char text[20];
      snprintf(text, sizeof text, "text %u", k);
      CHECK_MEM_EQ(clu_segment_bytes(m.body->segments->of[0], NULL), text, strlen(text));
      CHECK_INT_EQ(clu_blob_weight(m.body), m.body->size + strlen(text) + 7 * (size_t)(k % 4 - 1));
    }
    clu_blob_unref(m.body);
  }
  down(&t);
  CHECK_INT_EQ(test_count_fds(), before);
}

TEST(a_message_brings_eight_at_most) {
  two t;
  clu_msg m;
  clu_blob *b = pattern(5, 1);
  clu_segment *s = segment_of("one too many");
  both_take(&t, CLU_TAKES_SEGMENTS);
  for (int i = 0; i < CLU_MAX_FDS; i++) CHECK_INT_EQ(clu_blob_attach(b, segment_of("x")), i);
  CHECK_INT_EQ(clu_blob_attach(b, s), -1);
  CHECK_INT_EQ(clu_chan_send(&t.a, CLU_K_VALUE, 1, b, CLU_NO_FD), CLU_OK);
  REQUIRE(receive(&t, &m) == 1);
  CHECK_INT_EQ(m.body->segments->n, CLU_MAX_FDS);
  clu_blob_unref(m.body);
  clu_blob_unref(b);
  clu_segment_unref(s);
  down(&t);
}

TEST(who_takes_none_is_sent_none) {
  two t;
  clu_blob *b = pattern(5, 1);
  int before = test_count_fds();
  up(&t, INT64_MAX, CLU_TAKES_NONE);
  clu_blob_attach(b, segment_of("x"));
  CHECK_INT_EQ(clu_chan_send(&t.a, CLU_K_VALUE, 1, b, CLU_NO_FD), CLU_UNSUPPORTED);
  clu_blob_unref(b);
  down(&t);
  CHECK_INT_EQ(test_count_fds(), before);
}

TEST(who_takes_none_accepts_none) {
  two t;
  clu_msg m;
  both_take(&t, CLU_TAKES_NONE);
  send_with(&t, 1, 10, 1, "x");
  CHECK_INT_EQ(receive(&t, &m), -CLU_PROTO);
  down(&t);
}

TEST(a_descriptor_that_is_no_segment_is_the_end) {
  two t;
  clu_msg m;
  clu_header h = {CLU_K_VALUE, 0, 1, 4, 1, 4};
  unsigned char bytes[CLU_HEADER + 4] = {0};
  clu_iov iov = {bytes, sizeof bytes};
  clu_fd null = open("/dev/null", O_RDWR | O_CLOEXEC);
  size_t put;
  int before;
  both_take(&t, CLU_TAKES_SEGMENTS);
  before = test_count_fds();
  clu_header_put(bytes, &h);
  CHECK_INT_EQ(clu_os_writev(t.a.fd, &iov, 1, &null, 1, &put), CLU_OK);
  CHECK_INT_EQ(receive(&t, &m), -CLU_PROTO);
  CHECK_INT_EQ(test_count_fds(), before);
  down(&t);
  clu_os_close(null);
}

TEST(a_header_that_names_what_did_not_come_is_the_end) {
  two t;
  clu_msg m;
  clu_header h = {CLU_K_VALUE, 0, 2, 4, 1, 4};
  unsigned char bytes[CLU_HEADER + 4] = {0};
  both_take(&t, CLU_TAKES_SEGMENTS);
  clu_header_put(bytes, &h);
  raw(&t, bytes, sizeof bytes);
  CHECK_INT_EQ(receive(&t, &m), -CLU_PROTO);
  down(&t);
}

TEST(descriptors_that_no_message_names_are_the_end) { /* and no endless loop */
  two t;
  clu_msg m;
  int rc = 0;
  both_take(&t, CLU_TAKES_SEGMENTS);
  for (int i = 0; i < 40 && rc == 0; i++) {
    unsigned char bytes[CLU_HEADER + 1] = {0};
    clu_header h = {CLU_K_RELAY, 0, 0, 1, 1, 1};
    clu_iov iov = {bytes, sizeof bytes};
    clu_fd fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    size_t put;
    clu_header_put(bytes, &h);
    CHECK_INT_EQ(clu_os_writev(t.a.fd, &iov, 1, &fd, 1, &put), CLU_OK);
    clu_os_close(fd);
    while ((rc = receive(&t, &m)) == 1) clu_blob_unref(m.body);
  }
  CHECK_INT_EQ(rc, -CLU_PROTO);
  down(&t);
}

TEST(a_message_that_is_withdrawn_takes_its_segments_along) {
  two t;
  clu_msg m;
  int before = test_count_fds();
  both_take(&t, CLU_TAKES_SEGMENTS);
  send_with(&t, 1, 20 * MB, 2, "large");
  (void)clu_chan_flush(&t.a); /* what the system takes */
  CHECK_INT_EQ(clu_chan_withdraw(&t.a, CLU_K_VALUE, 1), 1);
  send_with(&t, 2, 10, 1, "next");
  REQUIRE(receive(&t, &m) == 1);
  CHECK(m.seq == 2);
  CHECK_MEM_EQ(clu_segment_bytes(m.body->segments->of[0], NULL), "next", 4);
  clu_blob_unref(m.body);
  down(&t);
  CHECK_INT_EQ(test_count_fds(), before);
}

TEST(a_body_in_pieces_has_its_segments_until_its_end) {
  two t;
  clu_msg m;
  unsigned char bytes[10];
  int before = test_count_fds();
  both_take(&t, CLU_TAKES_SEGMENTS);
  CHECK_INT_EQ(clu_os_set_blocking(t.b.fd, 1), 1 * CLU_OK);
  send_with(&t, 1, 10, 1, "first");
  send_with(&t, 2, 10, 2, "second");
  CHECK_INT_EQ(clu_chan_flush(&t.a), CLU_OK);
  for (uint64_t k = 1; k <= 2; k++) {
    int r;
    while ((r = clu_chan_begin(&t.b, &m)) == 0) CHECK_INT_EQ(clu_chan_fill(&t.b), CLU_OK);
    REQUIRE(r == 1 && m.seq == k);
    CHECK_INT_EQ(t.b.segments.n, k);
    CHECK_MEM_EQ(clu_segment_bytes(t.b.segments.of[0], NULL), k == 1 ? "first" : "second", 5);
    if (k == 1) CHECK_INT_EQ(clu_chan_read(&t.b, bytes, sizeof bytes), CLU_OK);
    CHECK_INT_EQ(clu_chan_skip(&t.b), CLU_OK);
    CHECK_INT_EQ(t.b.segments.n, 0);
  }
  down(&t);
  CHECK_INT_EQ(test_count_fds(), before);
}

/* Uses up all descriptors but `but`; returns how many it has opened. */
static int use_up(int fds[512], int but) {
  int n = 0;
  while (n < 512 && (fds[n] = dup(0)) >= 0) n++;
  REQUIRE(n < 512 && n >= but);
  for (int i = 0; i < but; i++) close(fds[--n]);
  return n;
}

/* The bytes of the message are there, and the channel goes on. */
TEST(segments_for_which_there_is_no_descriptor_are_lost_alone) {
  struct rlimit was, few;
  int fds[512], before = test_count_fds();
  REQUIRE(getrlimit(RLIMIT_NOFILE, &was) == 0);
  few = was;
  few.rlim_cur = 256;
  for (int but = 0; but < 3; but++) { /* of three, so many can be taken */
    two t;
    clu_msg m;
    int n;
    both_take(&t, CLU_TAKES_SEGMENTS);
    send_with(&t, 1, 40000, 3, "lost");
    send_with(&t, 2, 10, 0, NULL);
    CHECK(clu_chan_flush(&t.a) != CLU_SYS);
    REQUIRE(setrlimit(RLIMIT_NOFILE, &few) == 0);
    n = use_up(fds, but);
    REQUIRE(receive(&t, &m) == 1);
    for (int i = 0; i < n; i++) close(fds[i]);
    REQUIRE(setrlimit(RLIMIT_NOFILE, &was) == 0);
    CHECK_INT_EQ(m.body->size, 40000);
    REQUIRE(m.body->segments && m.body->segments->n == 3);
    for (int i = 0; i < 3; i++) {
      CHECK(clu_segment_is_lost(m.body->segments->of[i]));
      CHECK(clu_segment_bytes(m.body->segments->of[i], NULL) == NULL);
    }
    CHECK_INT_EQ(clu_segments_size(m.body->segments), 0);
    clu_blob_unref(m.body);
    REQUIRE(receive(&t, &m) == 1);
    CHECK(m.seq == 2);
    clu_blob_unref(m.body);
    send_with(&t, 3, 100, 2, "there");
    REQUIRE(receive(&t, &m) == 1);
    CHECK(!clu_segment_is_lost(m.body->segments->of[0]));
    CHECK_MEM_EQ(clu_segment_bytes(m.body->segments->of[0], NULL), "there", 5);
    clu_blob_unref(m.body);
    down(&t);
    CHECK_INT_EQ(test_count_fds(), before);
  }
}
