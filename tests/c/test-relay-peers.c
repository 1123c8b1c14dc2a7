/* A relay whose other side does not keep to the rules: the link ends, and the reason is named. */
#include "relay-fixture.h"

static const unsigned char bytes[CLU_LINK_MOST];

TEST(who_sends_more_than_it_was_granted_ends_the_link) {
  one o;
  uint64_t sent = 0;
  one_up_and_resumed(&o);
  /* what nobody reads here stays here, so there is an end of what is granted */
  while (sent < CLU_LANE_CREDIT + o.granted) {
    uint64_t n = CLU_LANE_CREDIT + o.granted - sent;
    if (n > sizeof bytes) n = sizeof bytes;
    record(&o, CLU_L_BYTES, 0, bytes, (size_t)n);
    sent += n;
    CHECK_INT_EQ(turns(&o, 3), CLU_OK);
    hear(&o);
  }
  CHECK(sent >= CLU_LANE_CREDIT);
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
