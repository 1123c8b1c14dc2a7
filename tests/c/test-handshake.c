/* The handshake: both sides of it over memory, with the time as the test says. */
#include "test.h"

#include "core/base/os.h"
#include "core/wire/handshake.h"

static const unsigned char secret[CLU_SECRET] = "a secret of thirty-two bytes...";
static const unsigned char other_secret[CLU_SECRET] = "A secret of thirty-two bytes...";

static void nonce_of(unsigned char out[CLU_NONCE], int i) { memset(out, i, CLU_NONCE); }

static void begin(clu_hs *m, const unsigned char *ms, clu_hs *n, const unsigned char *ns) {
  unsigned char nonce[CLU_NONCE];
  static int used;
  nonce_of(nonce, ++used);
  clu_hs_session(m, ms, nonce, 77, 1000);
  nonce_of(nonce, ++used);
  clu_hs_node(n, ns, nonce, 5, 4711, 0x040202, 1000);
}

/* Passes what one has to say to the other, `piece` bytes at a time. */
static int pass(clu_hs *from, clu_hs *to, size_t piece) {
  int moved = 0;
  while (from->out_left > 0 && clu_hs_want(to) > 0) {
    size_t n = from->out_left < piece ? from->out_left : piece;
    if (n > clu_hs_want(to)) n = clu_hs_want(to);
    clu_hs_feed(to, from->out, n);
    clu_hs_written(from, n);
    moved = 1;
  }
  return moved;
}

static void run(clu_hs *m, clu_hs *n, size_t piece) {
  while (pass(m, n, piece) | pass(n, m, piece))
    if (m->state == CLU_HS_PROVEN) clu_hs_admit(m, CLU_HS_ADMITTED);
}

TEST(who_knows_the_secret_is_in_whatever_the_pieces) {
  for (size_t piece = 1; piece < 100; piece += 9) {
    clu_hs m, n;
    begin(&m, secret, &n, secret);
    run(&m, &n, piece);
    CHECK_INT_EQ(m.state, CLU_HS_DONE);
    CHECK_INT_EQ(n.state, CLU_HS_DONE);
    CHECK_INT_EQ(m.rank, 5);
    CHECK_INT_EQ(m.pid, 4711);
    CHECK_INT_EQ(m.r_version, 0x040202);
    CHECK_INT_EQ(n.out_left, 0);
    CHECK_INT_EQ(clu_hs_want(&m), 0);
    /* what comes afterwards changes nothing */
    CHECK_INT_EQ(clu_hs_closed(&m), CLU_HS_DONE);
    CHECK_INT_EQ(clu_hs_time(&m, 5000), CLU_HS_DONE);
    CHECK_INT_EQ(clu_hs_feed(&m, "x", 1), CLU_HS_DONE);
  }
}

TEST(nobody_learns_the_secret_from_a_wrong_one) {
  clu_hs m, n;
  begin(&m, secret, &n, other_secret);
  run(&m, &n, 1000);
  CHECK_INT_EQ(m.state, CLU_HS_FAILED);
  CHECK_INT_EQ(m.why, CLU_HS_NO_PROOF);
  CHECK_INT_EQ(m.out_left, 0); /* the session has proven nothing */
  CHECK_INT_EQ(n.state, CLU_HS_UNDER_WAY);
}

TEST(a_session_without_the_secret_is_not_believed) {
  clu_hs m, n;
  unsigned char fake[CLU_HS_VERDICT] = {0};
  begin(&m, other_secret, &n, secret);
  pass(&m, &n, 1000);
  memcpy(fake, "clutch\1\3", 8);
  CHECK_INT_EQ(clu_hs_feed(&n, fake, sizeof fake), CLU_HS_FAILED);
  CHECK_INT_EQ(n.why, CLU_HS_NO_PROOF);
  /* nor is a refusal, which would end the node */
  begin(&m, other_secret, &n, secret);
  pass(&m, &n, 1000);
  m.state = CLU_HS_PROVEN;
  clu_hs_admit(&m, CLU_HS_RANK_TAKEN);
  pass(&m, &n, 1000);
  CHECK_INT_EQ(n.state, CLU_HS_FAILED);
  CHECK_INT_EQ(n.why, CLU_HS_NO_PROOF);
}

TEST(a_proof_of_an_earlier_handshake_does_not_fit) {
  clu_hs m, n;
  unsigned char response[CLU_HS_RESPONSE], verdict[CLU_HS_VERDICT], confirm[CLU_HS_CONFIRM];
  begin(&m, secret, &n, secret);
  run(&m, &n, 1000);
  memcpy(response, m.response, sizeof response);
  memcpy(verdict, m.verdict_message, sizeof verdict);
  memcpy(confirm, m.confirm, sizeof confirm);
  begin(&m, secret, &n, secret);
  CHECK_INT_EQ(clu_hs_feed(&m, response, sizeof response), CLU_HS_FAILED);
  CHECK_INT_EQ(m.why, CLU_HS_NO_PROOF);
  begin(&m, secret, &n, secret);
  pass(&m, &n, 1000);
  CHECK_INT_EQ(clu_hs_feed(&n, verdict, sizeof verdict), CLU_HS_FAILED);
  CHECK_INT_EQ(n.why, CLU_HS_NO_PROOF);
  begin(&m, secret, &n, secret);
  pass(&m, &n, 1000);
  pass(&n, &m, 1000);
  clu_hs_admit(&m, CLU_HS_ADMITTED);
  CHECK_INT_EQ(clu_hs_feed(&m, confirm, sizeof confirm), CLU_HS_FAILED);
  CHECK_INT_EQ(m.why, CLU_HS_NO_PROOF);
}

TEST(what_one_side_says_is_no_proof_in_the_mouth_of_the_other) {
  clu_hs m, n;
  unsigned char back[CLU_HS_RESPONSE] = {0};
  begin(&m, secret, &n, secret);
  CHECK_INT_EQ(clu_hs_feed(&m, m.hello, CLU_HS_HELLO), CLU_HS_FAILED); /* its own hello */
  CHECK_INT_EQ(m.why, CLU_HS_GARBAGE);
  /* the node's proof, sent back as the session's */
  begin(&m, secret, &n, secret);
  pass(&m, &n, 1000);
  memcpy(back, "clutch\1\3", 8);
  memcpy(back + CLU_HS_VERDICT - 32, n.response + CLU_HS_RESPONSE - 32, 32);
  CHECK_INT_EQ(clu_hs_feed(&n, back, CLU_HS_VERDICT), CLU_HS_FAILED);
  CHECK_INT_EQ(n.why, CLU_HS_NO_PROOF);
  /* the session's proof, sent back as the node's CONFIRM */
  begin(&m, secret, &n, secret);
  pass(&m, &n, 1000);
  pass(&n, &m, 1000);
  clu_hs_admit(&m, CLU_HS_ADMITTED);
  memcpy(back, "clutch\1\4", 8);
  memcpy(back + 8, m.verdict_message + CLU_HS_VERDICT - 32, 32);
  CHECK_INT_EQ(clu_hs_feed(&m, back, CLU_HS_CONFIRM), CLU_HS_FAILED);
  CHECK_INT_EQ(m.why, CLU_HS_NO_PROOF);
  /* one session used to answer another's node: the nonces differ */
  {
    clu_hs m2, n2;
    begin(&m, secret, &n, secret);
    begin(&m2, secret, &n2, secret);
    pass(&m, &n, 1000);
    pass(&m2, &n2, 1000);
    CHECK_INT_EQ(clu_hs_feed(&m2, n.response, CLU_HS_RESPONSE), CLU_HS_FAILED);
  }
}

TEST(every_changed_bit_is_noticed) {
  static const int steps[] = {CLU_HS_HELLO, CLU_HS_RESPONSE, CLU_HS_VERDICT, CLU_HS_CONFIRM};
  for (int step = 0; step < 4; step++)
    for (int bit = 0; bit < 8 * steps[step]; bit++) {
      clu_hs m, n;
      unsigned char bytes[CLU_HS_RESPONSE];
      clu_hs *from, *to;
      begin(&m, secret, &n, secret);
      if (step >= 1) pass(&m, &n, 1000);
      if (step >= 2) {
        pass(&n, &m, 1000);
        clu_hs_admit(&m, CLU_HS_ADMITTED);
      }
      if (step >= 3) pass(&m, &n, 1000);
      from = step % 2 ? &n : &m;
      to = step % 2 ? &m : &n;
      REQUIRE(from->out_left == (size_t)steps[step]);
      memcpy(bytes, from->out, from->out_left);
      bytes[bit / 8] ^= (unsigned char)(1 << bit % 8);
      clu_hs_feed(to, bytes, from->out_left);
      clu_hs_written(from, 1000);
      run(&m, &n, 1000);
      if (m.state == CLU_HS_DONE || (step < 3 && n.state == CLU_HS_DONE))
        test_fail(__FILE__, __LINE__, "message %d, bit %d", step + 1, bit);
    }
}

TEST(garbage_is_seen_at_its_first_byte_and_other_versions_are_named) {
  clu_hs m, n;
  char text[200];
  begin(&m, secret, &n, secret);
  CHECK_INT_EQ(clu_hs_feed(&m, "GET / HTTP/1.0\r\n\r\n", 18), CLU_HS_FAILED);
  CHECK_INT_EQ(m.why, CLU_HS_GARBAGE);
  begin(&m, secret, &n, secret);
  CHECK_INT_EQ(clu_hs_feed(&m, "x", 1), CLU_HS_FAILED);
  begin(&m, secret, &n, secret);
  CHECK_INT_EQ(clu_hs_feed(&n, "clutch\11", 7), CLU_HS_FAILED);
  CHECK_INT_EQ(n.why, CLU_HS_VERSION_DIFFERS);
  CHECK_INT_EQ(n.other_version, 9);
  clu_hs_explain(&n, text, sizeof text);
  CHECK(strstr(text, "version 9") && strstr(text, "this side version 1"));
  clu_hs_explain(&m, text, sizeof text);
  CHECK(strlen(text) > 0);
}

TEST(a_pending_peer_is_never_read_further_than_its_message) {
  clu_hs m, n;
  size_t all = 0;
  begin(&m, secret, &n, secret);
  CHECK_INT_EQ(clu_hs_want(&m), CLU_HS_RESPONSE);
  all += clu_hs_want(&m);
  clu_hs_feed(&m, "clu", 3);
  CHECK_INT_EQ(clu_hs_want(&m), CLU_HS_RESPONSE - 3);
  begin(&m, secret, &n, secret);
  pass(&m, &n, 1000);
  pass(&n, &m, 1000);
  CHECK_INT_EQ(m.state, CLU_HS_PROVEN);
  CHECK_INT_EQ(clu_hs_want(&m), 0); /* until there is a verdict */
  clu_hs_admit(&m, CLU_HS_ADMITTED);
  all += clu_hs_want(&m);
  CHECK(all <= 256);
}

TEST(silence_and_half_a_message_end_by_time) {
  for (size_t half = 0; half < CLU_HS_RESPONSE; half += 29) {
    clu_hs m, n;
    begin(&m, secret, &n, secret);
    pass(&m, &n, 1000);
    if (half) clu_hs_feed(&m, n.response, half);
    CHECK_INT_EQ(clu_hs_time(&m, 999), CLU_HS_UNDER_WAY);
    CHECK_INT_EQ(clu_hs_time(&m, 1000), CLU_HS_FAILED);
    CHECK_INT_EQ(m.why, CLU_HS_SILENT);
    CHECK_INT_EQ(clu_hs_time(&n, 1000), CLU_HS_FAILED);
    CHECK_INT_EQ(clu_hs_feed(&m, n.response, 10), CLU_HS_FAILED); /* too late */
  }
}

TEST(a_connection_that_ends_at_any_step_is_a_failure) {
  for (int step = 0; step < 4; step++) {
    clu_hs m, n;
    begin(&m, secret, &n, secret);
    if (step >= 1) pass(&m, &n, 1000);
    if (step >= 2) pass(&n, &m, 1000);
    if (step >= 3) {
      clu_hs_admit(&m, CLU_HS_ADMITTED);
      pass(&m, &n, 1000);
    }
    CHECK_INT_EQ(clu_hs_closed(&m), CLU_HS_FAILED);
    CHECK_INT_EQ(m.why, CLU_HS_CLOSED);
    CHECK_INT_EQ(clu_hs_closed(&n), step == 3 ? CLU_HS_DONE : CLU_HS_FAILED);
    CHECK_INT_EQ(clu_hs_admit(&m, CLU_HS_ADMITTED), CLU_HS_FAILED);
  }
}

TEST(a_node_that_is_not_wanted_is_told_so) {
  clu_hs m, n;
  begin(&m, secret, &n, secret);
  pass(&m, &n, 1000);
  pass(&n, &m, 1000);
  clu_hs_admit(&m, CLU_HS_RANK_TAKEN);
  pass(&m, &n, 1000);
  CHECK_INT_EQ(n.state, CLU_HS_FAILED);
  CHECK_INT_EQ(n.why, CLU_HS_REFUSED);
  CHECK_INT_EQ(n.verdict, CLU_HS_RANK_TAKEN);
}

TEST(random_bytes_do_no_harm) {
  unsigned seed = 12345;
  for (int k = 0; k < 20000; k++) {
    clu_hs m, n;
    clu_hs *to;
    begin(&m, secret, &n, secret);
    to = k % 2 ? &m : &n;
    for (int i = 0; i < 4 && to->state == CLU_HS_UNDER_WAY; i++) {
      unsigned char junk[300];
      size_t len;
      for (size_t j = 0; j < sizeof junk; j++)
        junk[j] = (unsigned char)((seed = seed * 1103515245u + 12345u) >> 16);
      if (k % 3) memcpy(junk, to == &m ? "clutch\1\2" : "clutch\1\1", 8);
      len = seed % (sizeof junk + 1);
      clu_hs_feed(to, junk, len);
    }
    CHECK(m.state != CLU_HS_DONE && m.state != CLU_HS_PROVEN && n.state != CLU_HS_DONE);
  }
}

/* RFC 4231, test case 2 */
TEST(the_hmac_is_the_standards) {
  static const unsigned char want[32] = {0x5b, 0xdc, 0xc1, 0x46, 0xbf, 0x60, 0x75, 0x4e,
                                         0x6a, 0x04, 0x24, 0x26, 0x08, 0x95, 0x75, 0xc7,
                                         0x5a, 0x00, 0x3f, 0x08, 0x9d, 0x27, 0x39, 0x83,
                                         0x9d, 0xec, 0x58, 0xb9, 0x64, 0xec, 0x38, 0x43};
  unsigned char got[32], a[32], b[32];
  CHECK_INT_EQ(clu_os_hmac_sha256("Jefe", 4, "what do ya want for nothing?", 28, got), CLU_OK);
  CHECK_MEM_EQ(got, want, sizeof want);
  CHECK(clu_os_same_secret(got, want, 32));
  got[31] ^= 1;
  CHECK(!clu_os_same_secret(got, want, 32));
  CHECK_INT_EQ(clu_os_secret_bytes(a, sizeof a), CLU_OK);
  CHECK_INT_EQ(clu_os_secret_bytes(b, sizeof b), CLU_OK);
  CHECK(memcmp(a, b, sizeof a) != 0);
}
