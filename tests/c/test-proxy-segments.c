/* How much in segments is on its way in one stream, whose two ends are the test. */
// link: -Wl,--wrap=clu_os_readv
#include "proxy-fixture.h"

#include "core/base/segment.h"
#include "core/link/parts.h"
#include "core/wire/task-message.h"

enum { NODE = 5, MB = 1 << 20, SIZE = 600 << 10 };

static const unsigned char bytes[CLU_LINK_MOST];

/* Starts a node as the session does it: `*node` is the session's end of the node's channel. */
static void node_up(one *o, clu_fd *node) {
  unsigned char m[CLU_HEADER + 5] = {0};
  clu_iov iov = {m, sizeof m};
  clu_fd pair[2];
  clu_header h;
  size_t put;
  one_up_and_resumed(o);
  REQUIRE(clu_os_pair(pair, NULL) == CLU_OK);
  memset(&h, 0, sizeof h);
  h.kind = CLU_K_SPAWN;
  h.seq = NODE;
  h.len = 5;
  h.total = 5;
  clu_header_put(m, &h);
  REQUIRE(clu_os_writev(o->control, &iov, 1, pair, 1, &put) == CLU_OK && put == sizeof m);
  clu_os_close(pair[0]);
  *node = pair[1];
  CHECK_INT_EQ(turns(o, 3), CLU_OK);
  hear(o);
  REQUIRE(o->seen[CLU_L_OPEN] == 1);
}

static void node_down(one *o, clu_fd node) {
  clu_os_close(node);
  one_down(o);
  how.segment_window = how.segments_kept = 0;
}

static clu_segment *segment_of(size_t size) {
  clu_segment *s = clu_segment_new();
  REQUIRE(s);
  for (size_t at = 0; at < size; at += sizeof bytes)
    REQUIRE(clu_segment_append(s, bytes, size - at < sizeof bytes ? size - at : sizeof bytes) ==
            CLU_OK);
  REQUIRE(clu_segment_seal(s) == CLU_OK);
  return s;
}

/* A message of the session to the node, which brings these. */
static void send_message(clu_fd node, clu_segment **of, int n) {
  unsigned char m[CLU_HEADER + 10] = {0};
  clu_iov iov = {m, sizeof m};
  clu_fd fds[CLU_MAX_FDS];
  clu_header h;
  size_t put;
  memset(&h, 0, sizeof h);
  h.kind = CLU_K_TASKS;
  h.len = 10;
  h.total = 10;
  h.fds = (uint8_t)n;
  clu_header_put(m, &h);
  for (int i = 0; i < n; i++) fds[i] = clu_segment_fd(of[i]);
  REQUIRE(clu_os_writev(node, &iov, 1, fds, n, &put) == CLU_OK && put == sizeof m);
}

static void send_new(clu_fd node, size_t size) {
  clu_segment *s = segment_of(size);
  send_message(node, &s, 1);
  clu_segment_unref(s);
}

/* Until nothing more comes. */
static void settle(one *o) {
  uint64_t before;
  do {
    before = o->there.received;
    CHECK_INT_EQ(turns(o, 3), CLU_OK);
    hear(o);
    say(o); /* ACK */
  } while (o->there.received != before);
}

static void give(one *o, uint64_t n) {
  unsigned char body[8];
  clu_put64(body, n);
  record(o, CLU_L_SEGMENT_CREDIT, NODE, body, sizeof body);
  settle(o);
}

TEST(no_message_is_begun_while_a_window_of_segments_is_there) {
  one o;
  clu_fd node;
  how.segment_window = MB;
  node_up(&o, &node);
  for (int i = 0; i < 5; i++) send_new(node, SIZE);
  settle(&o);
  CHECK_INT_EQ(o.seen[CLU_L_SEGMENT], 2); /* 600 kB are less than the window, 1200 are not */
  CHECK_INT_EQ(o.seen[CLU_L_BRING], 2);
  give(&o, SIZE);
  CHECK_INT_EQ(o.seen[CLU_L_BRING], 3);
  give(&o, SIZE);
  CHECK_INT_EQ(o.seen[CLU_L_BRING], 4);
  give(&o, 2 * SIZE);
  CHECK_INT_EQ(o.seen[CLU_L_BRING], 5);
  node_down(&o, node);
}

TEST(one_message_of_any_size_passes_and_the_next_one_waits) {
  one o;
  clu_fd node;
  clu_segment *of[3];
  how.segment_window = MB;
  node_up(&o, &node);
  for (int i = 0; i < 3; i++) of[i] = segment_of(2 * MB);
  send_message(node, of, 3);
  send_new(node, 100);
  settle(&o);
  CHECK_INT_EQ(o.seen[CLU_L_SEGMENT], 3);
  CHECK_INT_EQ(o.seen[CLU_L_BRING], 3);
  give(&o, 6 * MB);
  CHECK_INT_EQ(o.seen[CLU_L_BRING], 4);
  for (int i = 0; i < 3; i++) clu_segment_unref(of[i]);
  node_down(&o, node);
}

/* The credit is given over a connection that is cut before it has come. */
TEST(credit_is_right_after_a_cut) {
  unsigned char body[8];
  one o;
  clu_fd node, conn[2];
  how.segment_window = MB;
  node_up(&o, &node);
  for (int i = 0; i < 6; i++) send_new(node, SIZE);
  settle(&o);
  CHECK_INT_EQ(o.seen[CLU_L_BRING], 2);
  clu_put64(body, SIZE);
  REQUIRE(clu_link_send(&o.there, CLU_L_SEGMENT_CREDIT, NODE, body, sizeof body) == CLU_OK);
  for (int cut = 0; cut < 2; cut++) { /* the second time in the middle of the third segment */
    clu_os_close(o.conn);
    clu_link_cut(&o.there);
    REQUIRE(clu_os_pair(conn, NULL) == CLU_OK);
    o.conn = conn[1];
    CHECK_INT_EQ(turns(&o, 3), CLU_OK);
    REQUIRE(clu_proxy_connect(o.r, clu_conn_plain(conn[0])) == CLU_OK);
    clu_link_connected(&o.there, 1);
    say(&o);
    CHECK_INT_EQ(turns(&o, 1), CLU_OK);
    hear(&o);
    say(&o);
    CHECK_INT_EQ(turns(&o, 1), CLU_OK);
    CHECK(cut == 1 || o.seen[CLU_L_BRING] == 2);
  }
  settle(&o);
  CHECK_INT_EQ(o.seen[CLU_L_SEGMENT], 3);
  CHECK_INT_EQ(o.seen[CLU_L_BRING], 3);
  give(&o, 2 * SIZE);
  CHECK_INT_EQ(o.seen[CLU_L_BRING], 5); /* 600 kB are there: one more makes 1200 */
  node_down(&o, node);
}

TEST(elements_that_were_brought_once_are_not_kept_for_long) {
  one o;
  clu_fd node;
  clu_segment *again = segment_of(SIZE);
  how.segments_kept = MB;
  node_up(&o, &node);
  send_message(node, &again, 1);
  send_message(node, &again, 1);
  for (int i = 0; i < 4; i++) send_new(node, SIZE);
  settle(&o);
  CHECK_INT_EQ(o.seen[CLU_L_BRING], 6);
  CHECK_INT_EQ(o.seen[CLU_L_SEGMENT], 5);
  CHECK_INT_EQ(o.seen[CLU_L_FORGET], 3); /* of the four elements, of which two are more than 1 MB */
  send_message(node, &again, 1);
  settle(&o);
  CHECK_INT_EQ(o.seen[CLU_L_BRING], 7);
  CHECK_INT_EQ(o.seen[CLU_L_SEGMENT], 5);
  clu_segment_unref(again);
  node_down(&o, node);
}

TEST(what_only_a_node_that_has_ended_waited_for_is_not_sent_to_its_end) {
  one o;
  clu_fd node;
  node_up(&o, &node);
  send_new(node, 20 * MB); /* more than the link's window */
  CHECK_INT_EQ(turns(&o, 20), CLU_OK);
  record(&o, CLU_L_CLOSE, NODE, NULL, 0);
  settle(&o);
  CHECK_INT_EQ(o.seen[CLU_L_SEGMENT], 1);
  CHECK(o.seen[CLU_L_PIECE] < 20 * MB / (int)sizeof bytes);
  CHECK_INT_EQ(o.seen[CLU_L_FORGET], 1);
  CHECK_INT_EQ(o.seen[CLU_L_BRING], 0);
  node_down(&o, node);
}

/* Segments are forgotten 10 s after their last use, but not while they are on their way. */
TEST(a_segment_that_is_long_on_its_way_keeps_no_proxy_busy) {
  one o;
  clu_fd node;
  node_up(&o, &node);
  send_new(node, 20 * MB); /* more than the link's window */
  CHECK_INT_EQ(turns(&o, 20), CLU_OK);
  REQUIRE(o.r->sent && o.r->sent->at < o.r->sent->size);
  o.r->sent->used = 1;
  CHECK_INT_EQ(turns(&o, 3), CLU_OK);
  CHECK_INT_EQ(clu_proxy_turn(o.r), CLU_OK);
  CHECK(o.r->tick.due > clu_os_now());
  REQUIRE(o.r->sent);
  settle(&o);
  CHECK_INT_EQ(o.seen[CLU_L_BRING], 1);
  node_down(&o, node);
}

/* ---- the other side sends ---- */

static void announce(one *o, uint64_t number, uint64_t size, uint64_t stream) {
  unsigned char body[16];
  clu_put64(body, size);
  clu_put64(body + 8, stream);
  record(o, CLU_L_SEGMENT, number, body, sizeof body);
  CHECK_INT_EQ(turns(o, 1), CLU_OK);
}

static void bring(one *o, uint64_t number, uint64_t size) {
  unsigned char body[8];
  for (uint64_t at = 0; at < size; at += sizeof bytes) {
    uint64_t n = size - at < sizeof bytes ? size - at : sizeof bytes;
    record(o, CLU_L_PIECE, number, bytes, (size_t)n);
    CHECK_INT_EQ(turns(o, 1), CLU_OK);
  }
  clu_put64(body, number);
  record(o, CLU_L_BRING, NODE, body, sizeof body);
  CHECK_INT_EQ(turns(o, 1), CLU_OK);
}

TEST(credit_is_given_back_when_the_message_has_been_passed_on) {
  one o;
  clu_fd node;
  how.segment_window = MB;
  node_up(&o, &node);
  for (uint64_t i = 1; i <= 5; i++) {
    announce(&o, i, SIZE, NODE);
    bring(&o, i, SIZE);
    settle(&o);
    CHECK_INT_EQ(o.seen[CLU_L_SEGMENT_CREDIT], i - 1);
    record(&o, CLU_L_BYTES, NODE, bytes, 10);
    settle(&o);
    CHECK_INT_EQ(o.seen[CLU_L_SEGMENT_CREDIT], i);
  }
  node_down(&o, node);
}

TEST(who_sends_more_in_segments_than_it_may_ends_the_link) {
  unsigned char body[16];
  one o;
  clu_fd node;
  how.segment_window = MB;
  node_up(&o, &node);
  announce(&o, 1, SIZE, NODE);
  bring(&o, 1, SIZE);
  announce(&o, 2, SIZE, NODE); /* 600 kB were there */
  bring(&o, 2, SIZE);
  clu_put64(body, 1);
  clu_put64(body + 8, NODE);
  record(&o, CLU_L_SEGMENT, 3, body, sizeof body);
  expect_end(&o, "sent more in segments on a stream than it may");
  node_down(&o, node);
}

TEST(who_announces_more_for_a_message_than_it_can_bring_ends_the_link) {
  unsigned char body[16];
  one o;
  clu_fd node;
  node_up(&o, &node);
  for (uint64_t i = 1; i <= CLU_MAX_FDS; i++) announce(&o, i, (uint64_t)1 << 50, NODE);
  clu_put64(body, 1);
  clu_put64(body + 8, NODE);
  record(&o, CLU_L_SEGMENT, 99, body, sizeof body);
  expect_end(&o, "sent more in segments on a stream than it may");
  node_down(&o, node);
}

TEST(who_grants_more_in_segments_than_it_was_sent_ends_the_link) {
  unsigned char body[8];
  one o;
  clu_fd node;
  node_up(&o, &node);
  send_new(node, SIZE);
  settle(&o);
  clu_put64(body, SIZE + 1);
  record(&o, CLU_L_SEGMENT_CREDIT, NODE, body, sizeof body);
  expect_end(&o, "grants more in segments on a stream than it was sent");
  node_down(&o, node);
}

TEST(what_was_announced_for_a_node_that_has_ended_reaches_another_one) {
  one o;
  clu_fd node;
  unsigned char m[10];
  clu_iov iov = {m, sizeof m};
  clu_fd fds[CLU_MAX_FDS];
  size_t got;
  int n = 0;
  node_up(&o, &node);
  announce(&o, 1, SIZE, NODE + 1);
  bring(&o, 1, SIZE);
  record(&o, CLU_L_BYTES, NODE, bytes, 10);
  settle(&o);
  CHECK_INT_EQ(o.seen[CLU_L_SEGMENT_CREDIT], 0);
  REQUIRE(clu_os_readv(node, &iov, 1, &got, fds, &n) == CLU_OK);
  CHECK_INT_EQ(got, 10);
  REQUIRE(n == 1);
  clu_os_close(fds[0]);
  node_down(&o, node);
}

/* ---- no descriptor is free ---- */

static int brings_nothing; /* the next read that may bring some: it brings 10 bytes without them */
int __real_clu_os_readv(clu_fd fd, const clu_iov *iov, int n, size_t *got, clu_fd *fds, int *nfds);
int __wrap_clu_os_readv(clu_fd fd, const clu_iov *iov, int n, size_t *got, clu_fd *fds, int *nfds);
int __wrap_clu_os_readv(clu_fd fd, const clu_iov *iov, int n, size_t *got, clu_fd *fds, int *nfds) {
  clu_iov ten = {iov->base, 10};
  int rc;
  if (!fds || !brings_nothing) return __real_clu_os_readv(fd, iov, n, got, fds, nfds);
  rc = __real_clu_os_readv(fd, &ten, 1, got, fds, nfds);
  if (rc != CLU_OK || *nfds == 0) return rc;
  brings_nothing = 0;
  while (*nfds > 0) clu_os_close(fds[--*nfds]);
  *nfds = -1;
  return CLU_OK;
}

TEST(a_message_without_its_segment_does_not_get_that_of_the_next_one) {
  one o;
  clu_fd node;
  node_up(&o, &node);
  brings_nothing = 1;
  send_new(node, 100);
  send_new(node, 200);
  settle(&o);
  CHECK_INT_EQ(brings_nothing, 0);
  CHECK_INT_EQ(o.seen[CLU_L_BRING], 0);
  CHECK_INT_EQ(o.seen[CLU_L_CLOSE], 1); /* the node is lost */
  node_down(&o, node);
}
