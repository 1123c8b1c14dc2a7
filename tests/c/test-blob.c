/* Shared bytes: counted references and growth. */
#include "test.h"

#include <stdint.h>

#include "core/base/blob.h"

TEST(a_new_blob_is_empty) {
  static const size_t caps[] = {0, 1, 63, 64, 65, 1 << 20};
  for (size_t i = 0; i < sizeof caps / sizeof *caps; i++) {
    clu_blob *b = clu_blob_new(caps[i]);
    REQUIRE(b);
    CHECK_INT_EQ(b->size, 0);
    CHECK_INT_EQ(b->refs, 1);
    CHECK(b->cap >= caps[i]);
    memset(b->data, 7, b->cap); /* all of it is there */
    clu_blob_unref(b);
  }
}

TEST(what_is_appended_stays_as_it_is_while_it_grows) {
  enum { N = 300000 };
  clu_blob *b = clu_blob_new(0);
  size_t at = 0;
  int moves = 0;
  REQUIRE(b);
  for (size_t k = 0; at < N; k = (k * 7 + 1) % 4001) {
    unsigned char piece[4001];
    size_t cap = b->cap;
    for (size_t i = 0; i < k; i++) piece[i] = (unsigned char)((at + i) * 31 >> 3);
    REQUIRE(clu_blob_append(b, piece, k) == 0);
    at += k;
    CHECK(b->size == at && b->cap >= at);
    moves += b->cap != cap;
  }
  CHECK(moves < 40); /* by half, not byte by byte */
  for (size_t i = 0; i < at; i++)
    if (b->data[i] != (unsigned char)(i * 31 >> 3)) {
      CHECK_INT_EQ(i, -1);
      break;
    }
  clu_blob_unref(b);
}

TEST(one_large_append_gets_its_room) {
  clu_blob *b = clu_blob_new(0);
  char *big = calloc(1, 5000001);
  REQUIRE(b && big);
  big[5000000] = 9;
  CHECK_INT_EQ(clu_blob_append(b, "x", 1), 0);
  CHECK_INT_EQ(clu_blob_append(b, big, 5000001), 0);
  CHECK_INT_EQ(b->size, 5000002);
  CHECK_INT_EQ(b->data[0], 'x');
  CHECK_INT_EQ(b->data[5000001], 9);
  free(big);
  clu_blob_unref(b);
}

TEST(room_that_is_asked_for_is_there_before_it_is_needed) {
  static const size_t wanted[] = {0, 10, 1000, 1 << 20};
  for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++) {
    clu_blob *b = clu_blob_new(0);
    unsigned char *data;
    REQUIRE(b);
    CHECK_INT_EQ(clu_blob_append(b, "abc", 3), 0);
    clu_blob_reserve(b, wanted[i]);
    data = b->data;
    CHECK_INT_EQ(b->size, 3);
    CHECK(b->cap >= 3 + wanted[i]);
    CHECK_INT_EQ(clu_blob_append(b, NULL, wanted[i]), 0);
    CHECK(b->data == data && memcmp(b->data, "abc", 3) == 0);
    clu_blob_reserve(b, SIZE_MAX / 2); /* cannot be had */
    CHECK(b->data == data);
    clu_blob_unref(b);
  }
}

TEST(nothing_can_be_appended) {
  clu_blob *b = clu_blob_new(0);
  REQUIRE(b);
  CHECK_INT_EQ(clu_blob_append(b, "", 0), 0);
  CHECK_INT_EQ(clu_blob_append(b, NULL, 0), 0);
  CHECK_INT_EQ(b->size, 0);
  clu_blob_unref(b);
}

TEST(what_does_not_fit_leaves_it_unchanged) {
  /* the last three could be had where addresses have 32 bits */
  static const size_t much[] = {SIZE_MAX,     SIZE_MAX - 3,     SIZE_MAX / 2 + 1,
                                SIZE_MAX / 2, SIZE_MAX / 2 - 3, SIZE_MAX / 4};
  size_t n = sizeof much / sizeof *much;
  clu_blob *b = clu_blob_new(0);
  REQUIRE(b);
  REQUIRE(clu_blob_append(b, "abc", 3) == 0);
  if (sizeof(size_t) < 8) n -= 3;
  for (size_t i = 0; i < n; i++) {
    CHECK_INT_EQ(clu_blob_append(b, "abc", much[i]), -1);
    CHECK_INT_EQ(b->size, 3);
    CHECK_INT_EQ(b->refs, 1);
    CHECK_MEM_EQ(b->data, "abc", 3);
  }
  CHECK_INT_EQ(clu_blob_append(b, "def", 3), 0);
  CHECK_MEM_EQ(b->data, "abcdef", 6);
  clu_blob_unref(b);
}

TEST(too_much_room_is_refused) { CHECK(clu_blob_new(SIZE_MAX / 2 + 1) == NULL); }

TEST(the_last_reference_frees) { /* the sanitizers see it when that is not so */
  clu_blob *b = clu_blob_new(10);
  REQUIRE(b);
  CHECK(clu_blob_ref(b) == b);
  CHECK_INT_EQ(b->refs, 2);
  clu_blob_unref(b);
  CHECK_INT_EQ(b->refs, 1);
  REQUIRE(clu_blob_append(b, "still there", 11) == 0);
  clu_blob_unref(b);
  clu_blob_unref(NULL);
}
