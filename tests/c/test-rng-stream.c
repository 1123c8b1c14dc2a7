/* Random number streams: against the recurrences themselves, in plain arithmetic. The same numbers
 * as those of package parallel are looked for in tests/testthat/test-random-numbers.R. */
#include "test.h"

#include <stdint.h>

#include "core/base/rng-stream.h"

static const uint64_t M[2] = {4294967087u, 4294944443u};

typedef struct {
  uint64_t at[3][3];
} matrix;

static matrix product(const matrix *a, const matrix *b, uint64_t m) {
  matrix c;
  for (int i = 0; i < 3; i++)
    for (int j = 0; j < 3; j++) {
      c.at[i][j] = 0;
      for (int k = 0; k < 3; k++) c.at[i][j] = (c.at[i][j] + a->at[i][k] * b->at[k][j] % m) % m;
    }
  return c;
}

/* 2^127 steps of one component */
static matrix one_stream(int k) {
  matrix a = {{{0, 1, 0}, {0, 0, 1}, {0, 0, 0}}};
  a.at[2][0] = k ? M[1] - 1370589 : M[0] - 810728;
  a.at[2][k ? 2 : 1] = k ? 527612 : 1403580;
  for (int i = 0; i < 127; i++) a = product(&a, &a, M[k]);
  return a;
}

static void plainly(const matrix a[2], uint32_t s[6]) {
  uint32_t out[6];
  for (int k = 0; k < 2; k++)
    for (int i = 0; i < 3; i++) {
      uint64_t x = 0;
      for (int j = 0; j < 3; j++) x = (x + a[k].at[i][j] * s[3 * k + j] % M[k]) % M[k];
      out[3 * k + i] = (uint32_t)x;
    }
  memcpy(s, out, sizeof out);
}

TEST(a_jump_is_what_plain_arithmetic_says_also_of_the_least_and_greatest_numbers) {
  matrix a[2] = {one_stream(0), one_stream(1)};
  uint64_t x = 88172645463325252u;
  for (int round = 0; round < 20000; round++) {
    uint32_t s[6], expected[6];
    for (int i = 0; i < 6; i++) {
      uint64_t m = M[i / 3];
      x ^= x << 13, x ^= x >> 7, x ^= x << 17;
      s[i] = (uint32_t)(round % 4 == 0   ? x % 3
                        : round % 4 == 1 ? m - 1 - x % 3
                        : round % 4 == 2 ? (x & 1 ? m - 1 : 0)
                                         : x % m);
    }
    memcpy(expected, s, sizeof s);
    clu_stream_jump(s, 1);
    plainly(a, expected);
    if (memcmp(s, expected, sizeof s) != 0) test_fail(__FILE__, __LINE__, "round %d", round);
  }
}

TEST(many_streams_at_once_are_one_after_the_other) {
  uint32_t one[6] = {407, 1, 4294967086u, 12345, 4294944442u, 7}, all[6], start[6];
  memcpy(start, one, sizeof one);
  for (uint64_t n = 0; n < 3000; n++) {
    memcpy(all, start, sizeof all);
    clu_stream_jump(all, n);
    if (memcmp(all, one, sizeof one) != 0) test_fail(__FILE__, __LINE__, "%d streams", (int)n);
    clu_stream_jump(one, 1);
  }
  /* far away: as the sum of two ways */
  memcpy(one, start, sizeof one);
  memcpy(all, start, sizeof all);
  clu_stream_jump(one, UINT64_MAX / 3);
  clu_stream_jump(one, 5);
  clu_stream_jump(all, UINT64_MAX / 3 + 5);
  CHECK(memcmp(one, all, sizeof one) == 0);
}
