/* Shared bytes where memory is short. */
// link: -Wl,--wrap=realloc
#include "test.h"

#include "core/base/blob.h"

static size_t most = SIZE_MAX; /* bytes that can be had */
static int calls;

void *__real_realloc(void *p, size_t n);
void *__wrap_realloc(void *p, size_t n);
void *__wrap_realloc(void *p, size_t n) {
  calls++;
  return n > most ? NULL : __real_realloc(p, n);
}

/* R writes four bytes at a time. */
TEST(to_come_near_the_limit_takes_few_steps) {
  static const size_t limits[] = {10000000, 10000003, 400000};
  for (size_t i = 0; i < sizeof limits / sizeof *limits; i++) {
    clu_blob *b = clu_blob_new(1000);
    REQUIRE(b);
    most = limits[i];
    calls = 0;
    while (clu_blob_append(b, "abcd", 4) == 0 && b->size <= most) {
    }
    CHECK_INT_EQ(b->size, limits[i] / 4 * 4); /* all of it is used */
    CHECK_MEM_EQ(b->data + b->size - 4, "abcd", 4);
    if (calls > 2000) CHECK_INT_EQ(calls, 2000);
    most = SIZE_MAX;
    CHECK_INT_EQ(clu_blob_append(b, "efgh", 4), 0); /* it is as it was, and goes on */
    CHECK_MEM_EQ(b->data + b->size - 8, "abcdefgh", 8);
    clu_blob_unref(b);
  }
}

TEST(what_is_too_large_is_refused_after_few_steps) {
  clu_blob *b = clu_blob_new(1000);
  REQUIRE(b);
  most = 100000;
  calls = 0;
  CHECK_INT_EQ(clu_blob_append(b, NULL, 200000), -1);
  CHECK_INT_EQ(clu_blob_append(b, NULL, SIZE_MAX / 2), -1);
  if (calls > 100) CHECK_INT_EQ(calls, 100);
  CHECK_INT_EQ(b->size, 0);
  clu_blob_unref(b);
  most = SIZE_MAX;
}
