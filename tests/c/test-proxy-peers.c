/* A proxy whose other side does not keep to the rules: the link ends, and the reason is named. */
#include "proxy-fixture.h"

#include "core/link/parts.h"

static const unsigned char bytes[CLU_LINK_MOST];

static int state_of(const one *o) {
  clu_proxy_status st;
  clu_proxy_status_of(o->r, &st);
  return st.state;
}

TEST(who_sends_more_than_it_was_granted_ends_the_link) {
  one o;
  uint64_t sent = 0;
  one_up_and_resumed(&o);
  /* what nobody reads here stays here, so there is an end of what is granted */
  while (sent < CLU_STREAM_CREDIT + o.granted) {
    uint64_t n = CLU_STREAM_CREDIT + o.granted - sent;
    if (n > sizeof bytes) n = sizeof bytes;
    record(&o, CLU_L_BYTES, 0, bytes, (size_t)n);
    sent += n;
    CHECK_INT_EQ(turns(&o, 3), CLU_OK);
    hear(&o);
  }
  CHECK(sent >= CLU_STREAM_CREDIT);
  CHECK_INT_EQ(turns(&o, 5), CLU_OK);
  record(&o, CLU_L_BYTES, 0, bytes, 1);
  expect_end(&o, "sent more on a stream than it was granted");
  one_down(&o);
}

TEST(who_grants_more_than_it_was_sent_ends_the_link) {
  static const unsigned char one_byte[4] = {1};
  one o;
  one_up_and_resumed(&o);
  record(&o, CLU_L_CREDIT, 0, one_byte, sizeof one_byte);
  expect_end(&o, "grants more on a stream than it was sent");
  one_down(&o);
}

TEST(bytes_that_are_none_end_the_link) {
  one o;
  one_up_and_resumed(&o);
  record(&o, CLU_L_BYTES, 0, NULL, 0);
  expect_end(&o, clu_code_text(CLU_PROTO));
  one_down(&o);
}

TEST(a_segment_that_is_brought_before_it_is_whole_ends_the_link) {
  one o;
  unsigned char size[16] = {0}, number[8];
  one_up_and_resumed(&o);
  clu_put64(size, 100);
  record(&o, CLU_L_SEGMENT, 3, size, sizeof size);
  record(&o, CLU_L_PIECE, 3, bytes, 99);
  clu_put64(number, 3);
  record(&o, CLU_L_BRING, 0, number, sizeof number);
  expect_end(&o, clu_code_text(CLU_PROTO));
  one_down(&o);
}

TEST(who_announces_segments_without_end_ends_the_link) {
  one o;
  unsigned char size[16] = {0};
  uint64_t n = 0;
  one_up_and_resumed(&o);
  clu_put64(size, 100);
  clu_put64(size + 8, 77); /* as of a stream that has just ended here */
  while (n < 100000 && turns(&o, 1) == CLU_OK && state_of(&o) == CLU_PROXY_UP) {
    for (int k = 0; k < 64; k++) record(&o, CLU_L_SEGMENT, 1 + n++, size, sizeof size);
    hear(&o);
  }
  CHECK(n > 64 && n < 10000);
  expect_end(&o, "more segments than its streams can bring");
  one_down(&o);
}

/* ---- the process here at the other end of the control channel ---- */

static void frame(one *o, int kind, uint64_t seq, size_t n, uint64_t total) {
  unsigned char head[CLU_HEADER];
  clu_header h;
  memset(&h, 0, sizeof h);
  h.kind = (uint8_t)kind;
  h.seq = seq;
  h.len = (uint32_t)n;
  h.total = total;
  clu_header_put(head, &h);
  REQUIRE(write((int)o->control, head, sizeof head) == (ssize_t)sizeof head);
  REQUIRE(n == 0 || write((int)o->control, bytes, n) == (ssize_t)n);
}

/* A side that waits until all has left would wait for ever, where the connection is cut behind
 * BYE. */
TEST(nothing_waits_for_another_side_that_has_ended) {
  one o;
  one_up_and_resumed(&o);
  frame(&o, CLU_K_SETTINGS, 1, 10, 10);
  CHECK_INT_EQ(turns(&o, 3), CLU_OK);
  CHECK(clu_proxy_is_behind(o.r)); /* it is not acknowledged */
  clu_link_say_bye(&o.there, "that is all");
  say(&o);
  CHECK_INT_EQ(turns(&o, 3), CLU_OK);
  CHECK_INT_EQ(state_of(&o), CLU_PROXY_ENDED);
  CHECK(!clu_proxy_is_behind(o.r));
  one_down(&o);
}

TEST(the_end_of_a_node_that_is_none_passes) {
  one o;
  one_up_and_resumed(&o);
  frame(&o, CLU_K_EXITED, 0, 28, 28); /* the number of the control channel itself */
  frame(&o, CLU_K_EXITED, 77, 28, 28);
  CHECK_INT_EQ(turns(&o, 5), CLU_OK);
  CHECK_INT_EQ(state_of(&o), CLU_PROXY_UP);
  one_down(&o);
}

TEST(a_frame_that_is_longer_than_what_is_left_of_its_message_ends_the_channel) {
  one o;
  one_up_and_resumed(&o);
  frame(&o, CLU_K_SETTINGS, 1, 10, 100);
  CHECK_INT_EQ(turns(&o, 3), CLU_OK);
  CHECK_INT_EQ(state_of(&o), CLU_PROXY_UP);
  frame(&o, CLU_K_SETTINGS, 1, 91, 100);
  CHECK_INT_EQ(turns(&o, 5), CLU_OK);
  CHECK_INT_EQ(state_of(&o), CLU_PROXY_ENDED);
  one_down(&o);
}

/* Both are read at once: the descriptor is there when the text is looked at. */
TEST(a_file_there_does_not_take_the_descriptor_of_the_next_message) {
  unsigned char m[2 * CLU_HEADER + 14] = {0};
  clu_iov text = {m, CLU_HEADER + 9}, spawn = {m + CLU_HEADER + 9, CLU_HEADER + 5};
  clu_header h = {.kind = CLU_K_OUTPUT, .len = 9, .total = 9};
  clu_link_stream *s;
  clu_fd pair[2];
  size_t put;
  one o;
  one_up_and_resumed(&o);
  clu_header_put(m, &h);
  memcpy(m + CLU_HEADER, "/dev/null", 9);
  h = (clu_header){.kind = CLU_K_SPAWN, .seq = 5, .len = 5, .total = 5};
  clu_header_put(m + CLU_HEADER + 9, &h);
  REQUIRE(clu_os_pair(pair, NULL) == CLU_OK);
  REQUIRE(clu_os_writev(o.control, &text, 1, NULL, 0, &put) == CLU_OK && put == text.len);
  REQUIRE(clu_os_writev(o.control, &spawn, 1, pair, 1, &put) == CLU_OK && put == spawn.len);
  CHECK_INT_EQ(turns(&o, 3), CLU_OK);
  hear(&o);
  CHECK_INT_EQ(o.seen[CLU_L_OPEN], 1);
  s = clu_link_stream_find(o.r, 5);
  CHECK(s && s->kind == CLU_STREAM_DATA);
  clu_os_close(pair[0]);
  clu_os_close(pair[1]);
  one_down(&o);
}

/* Else the channel would be readable all the time, and never be read. */
TEST(descriptors_that_belong_to_no_message_end_the_channel) {
  one o;
  clu_fd pass[CLU_MAX_FDS];
  clu_iov iov = {(void *)(uintptr_t)bytes, 1};
  unsigned char head[CLU_HEADER];
  clu_header h;
  one_up_and_resumed(&o);
  memset(&h, 0, sizeof h);
  h.kind = CLU_K_SETTINGS;
  clu_header_put(head, &h);
  for (int i = 0; i < CLU_MAX_FDS; i++) pass[i] = o.control;
  for (size_t k = 0; k < 4; k++) { /* of a header that is never whole */
    size_t put;
    iov.base = head + k;
    REQUIRE(clu_os_writev(o.control, &iov, 1, pass, CLU_MAX_FDS, &put) == CLU_OK);
    CHECK_INT_EQ(turns(&o, 3), CLU_OK);
  }
  CHECK_INT_EQ(state_of(&o), CLU_PROXY_ENDED);
  one_down(&o);
}
