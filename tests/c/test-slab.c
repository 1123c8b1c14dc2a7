/* Blocks that lie together. */
#include "test.h"

#include <stdint.h>

#include "core/base/blob.h"
#include "core/base/slab.h"

TEST(a_block_given_back_is_the_next_one_handed_out) {
  char *a = clu_slab_new(), *b = clu_slab_new();
  REQUIRE(a && b);
  CHECK_INT_EQ((intptr_t)b - (intptr_t)a, CLU_SLAB);
  clu_slab_free(a);
  CHECK(clu_slab_new() == a);
  clu_slab_free(a);
  clu_slab_free(b);
  clu_slab_free(NULL);
}

TEST(there_are_more_than_the_area_has) {
  enum { N = 3000 };
  static unsigned char *p[N];
  for (int round = 0; round < 2; round++) {
    for (int i = 0; i < N; i++) {
      REQUIRE(p[i] = clu_slab_new());
      CHECK_INT_EQ((uintptr_t)p[i] % sizeof(void *), 0);
      memset(p[i], i & 255, CLU_SLAB);
    }
    for (int i = 0; i < N; i++)
      if (p[i][0] != (i & 255) || p[i][CLU_SLAB - 1] != (i & 255))
        test_fail(__FILE__, __LINE__, "block %d", i);
    for (int i = 0; i < N; i++) clu_slab_free(p[i]);
  }
}

TEST(a_blob_keeps_its_bytes_when_it_outgrows_the_few_within) {
  clu_blob *b = clu_blob_new(0);
  unsigned char byte;
  REQUIRE(b);
  CHECK(b->data == b->few);
  for (int i = 0; i < 1000; i++) {
    byte = (unsigned char)i;
    CHECK_INT_EQ(clu_blob_append(b, &byte, 1), 0);
  }
  CHECK(b->data != b->few);
  for (int i = 0; i < 1000; i++) CHECK_INT_EQ(b->data[i], i & 255);
  clu_blob_unref(b);
}
