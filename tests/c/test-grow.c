/* Arrays that grow. */
#include "test.h"

#include <stdint.h>

#include "core/base/grow.h"

TEST(room_is_had_in_powers_of_two_and_keeps_what_there_is) {
  size_t cap = 0;
  int *x = clu_grow(NULL, &cap, 1, sizeof *x);
  REQUIRE(x);
  CHECK_INT_EQ(cap, CLU_GROW_FIRST);
  x[0] = 7;
  x = clu_grow(x, &cap, CLU_GROW_FIRST + 1, sizeof *x);
  REQUIRE(x);
  CHECK_INT_EQ(cap, 2 * CLU_GROW_FIRST);
  CHECK_INT_EQ(x[0], 7);
  free(x);
}

TEST(more_bytes_than_can_be_counted_are_refused) {
  size_t cap = 0;
  CHECK(clu_grow(NULL, &cap, SIZE_MAX / 8, 64) == NULL);
  CHECK_INT_EQ(cap, 0);
}
