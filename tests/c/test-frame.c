/* Headers of frames: the bytes that travel are fixed, and nothing else is accepted. */
#include "test.h"

#include "core/base/err.h"
#include "core/wire/frame.h"

static void put(unsigned char *out, uint8_t kind, uint8_t flags, uint32_t len, uint64_t seq,
                uint64_t total) {
  clu_header h = {kind, flags, 0, len, seq, total};
  clu_header_put(out, &h);
}

static int get(const unsigned char *in) {
  clu_header h;
  return clu_header_get(in, &h);
}

TEST(numbers_are_little_endian) {
  unsigned char b[8];
  clu_put32(b, 0x01020304u);
  CHECK_MEM_EQ(b, "\4\3\2\1", 4);
  CHECK_INT_EQ(clu_get32(b), 0x01020304u);
  clu_put64(b, 0xF102030405060708u);
  CHECK_MEM_EQ(b, "\x08\7\6\5\4\3\2\xF1", 8);
  CHECK(clu_get64(b) == 0xF102030405060708u);
  clu_put32(b, UINT32_MAX);
  CHECK(clu_get32(b) == UINT32_MAX);
  clu_put64(b, UINT64_MAX);
  CHECK(clu_get64(b) == UINT64_MAX);
}

TEST(the_bytes_of_a_header_are_fixed) {
  static const unsigned char want[CLU_HEADER] = {0xC7, 4,    0,    0,    0xCD, 0xAB, 0x0E, 0,
                                                 8,    7,    6,    5,    4,    3,    2,    1,
                                                 0xEF, 0xCD, 0xAB, 0x89, 0x67, 0x45, 0x23, 0x01};
  unsigned char b[CLU_HEADER + 1];
  CHECK_INT_EQ(CLU_HEADER, 24);
  CHECK_INT_EQ(CLU_K_VALUE, 4);
  memset(b, 0x55, sizeof b);
  put(b, 4, 0, 0x000EABCDu, 0x0102030405060708u, 0x0123456789ABCDEFu);
  CHECK_MEM_EQ(b, want, CLU_HEADER);
  CHECK_INT_EQ(b[CLU_HEADER], 0x55);
}

/* Both sides have to be of one version: a number that moves is a change of the protocol. */
TEST(the_kinds_keep_their_numbers) {
  CHECK_INT_EQ(CLU_K_CALL, 1);
  CHECK_INT_EQ(CLU_K_HELLO, 3);
  CHECK_INT_EQ(CLU_K_CANCELLED, 6);
  CHECK_INT_EQ(CLU_K_SPAWN, 9);
  CHECK_INT_EQ(CLU_K_BYE, 21);
  CHECK_INT_EQ(CLU_K_RELAY, 26);
  CHECK_INT_EQ(CLU_K_LIMIT, 28);
  CHECK_INT_EQ(CLU_K_VIEW, 29);
  CHECK_INT_EQ(CLU_K_MACHINE, 33);
  CHECK_INT_EQ(CLU_K_RESULTS, 34);
  CHECK_INT_EQ(CLU_K_TELL, 35);
  CHECK_INT_EQ(CLU_K_TAKE_BACK, 36);
  CHECK_INT_EQ(CLU_K_TAKEN, 37);
  CHECK_INT_EQ(CLU_K_STACK, 38);
  CHECK_INT_EQ(CLU_K_HOLD, 39);
  CHECK_INT_EQ(CLU_K_COLLECT, 40);
  CHECK_INT_EQ(CLU_K_MESH, 42);
  CHECK_INT_EQ(CLU_K_DELIVER, 43);
  CHECK_INT_EQ(CLU_K_FORWARD, 44);
}

TEST(a_header_survives_the_trip) {
  static const uint64_t seqs[] = {0, 1, 255, 256, UINT32_MAX, (uint64_t)UINT32_MAX + 1, UINT64_MAX};
  static const uint64_t totals[] = {0, 1, CLU_FRAME_MAX, CLU_FRAME_MAX + 1, INT64_MAX};
  for (int kind = 1; kind < CLU_K_AFTER_LAST; kind++)
    for (size_t i = 0; i < sizeof seqs / sizeof *seqs; i++)
      for (size_t j = 0; j < sizeof totals / sizeof *totals; j++)
        for (int abort = 0; abort < 2; abort++) {
          unsigned char b[CLU_HEADER];
          clu_header h;
          uint32_t len = abort                       ? 0
                         : totals[j] < CLU_FRAME_MAX ? (uint32_t)totals[j]
                                                     : CLU_FRAME_MAX;
          put(b, (uint8_t)kind, abort ? CLU_ABORT : 0, len, seqs[i], totals[j]);
          memset(&h, 0x55, sizeof h);
          CHECK_INT_EQ(clu_header_get(b, &h), CLU_OK);
          CHECK_INT_EQ(h.kind, kind);
          CHECK_INT_EQ(h.flags, abort ? CLU_ABORT : 0);
          CHECK_INT_EQ(h.len, len);
          CHECK(h.seq == seqs[i]);
          CHECK(h.total == totals[j]);
        }
}

TEST(every_other_magic_is_refused) {
  unsigned char b[CLU_HEADER];
  put(b, CLU_K_CALL, 0, 5, 1, 5);
  for (int v = 0; v < 256; v++) {
    b[0] = (unsigned char)v;
    CHECK_INT_EQ(get(b), v == CLU_MAGIC ? CLU_OK : CLU_PROTO);
  }
}

TEST(every_other_kind_is_refused) {
  unsigned char b[CLU_HEADER];
  for (int v = 0; v < 256; v++) {
    put(b, (uint8_t)v, 0, 5, 1, 5);
    CHECK_INT_EQ(get(b), v >= 1 && v < CLU_K_AFTER_LAST ? CLU_OK : CLU_PROTO);
  }
}

TEST(every_other_flag_is_refused) {
  unsigned char b[CLU_HEADER];
  for (int v = 0; v < 256; v++) {
    put(b, CLU_K_CALL, (uint8_t)v, 0, 1, 5);
    CHECK_INT_EQ(get(b), v <= CLU_ABORT ? CLU_OK : CLU_PROTO);
  }
}

TEST(a_message_brings_eight_descriptors_at_most) {
  unsigned char b[CLU_HEADER];
  put(b, CLU_K_CALL, 0, 5, 1, 5);
  for (int v = 0; v < 256; v++) {
    b[3] = (unsigned char)v;
    CHECK_INT_EQ(get(b), v <= 8 ? CLU_OK : CLU_PROTO);
  }
  put(b, CLU_K_CALL, 0, 0, 1, 0); /* an empty one brings none */
  b[3] = 1;
  CHECK_INT_EQ(get(b), CLU_PROTO);
}

TEST(impossible_lengths_are_refused) {
  static const struct {
    uint32_t len;
    uint64_t total;
    int rc;
  } cases[] = {
      {CLU_FRAME_MAX, CLU_FRAME_MAX, CLU_OK},
      {CLU_FRAME_MAX + 1, (uint64_t)CLU_FRAME_MAX + 1, CLU_PROTO},
      {CLU_FRAME_MAX + 1, INT64_MAX, CLU_PROTO},
      {UINT32_MAX, INT64_MAX, CLU_PROTO},
      {1, 0, CLU_PROTO},
      {6, 5, CLU_PROTO},
      {5, 6, CLU_OK},
      {0, INT64_MAX, CLU_OK},
      {1, (uint64_t)INT64_MAX + 1, CLU_PROTO},
      {0, UINT64_MAX, CLU_PROTO},
  };
  unsigned char b[CLU_HEADER];
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    put(b, CLU_K_VALUE, 0, cases[i].len, 1, cases[i].total);
    CHECK_INT_EQ(get(b), cases[i].rc);
  }
}

TEST(an_aborting_frame_carries_nothing) {
  unsigned char b[CLU_HEADER];
  put(b, CLU_K_VALUE, CLU_ABORT, 1, 1, 5);
  CHECK_INT_EQ(get(b), CLU_PROTO);
  put(b, CLU_K_VALUE, CLU_ABORT, 0, 1, 5);
  CHECK_INT_EQ(get(b), CLU_OK);
}
