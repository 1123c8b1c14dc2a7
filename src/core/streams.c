#include "streams.h"

#include <string.h>

typedef uint64_t matrix[3][3];

static const uint64_t M[2] = {4294967087u, 4294944443u};

/* One step of each component, from the recurrences
 *   x(n) = 1403580 x(n-2) - 810728 x(n-3)   mod M[0]
 *   y(n) = 527612 y(n-1) - 1370589 y(n-3)   mod M[1] */
static void one_step(int k, matrix a) {
  memset(a, 0, sizeof(matrix));
  a[0][1] = a[1][2] = 1;
  if (k == 0) {
    a[2][0] = M[0] - 810728;
    a[2][1] = 1403580;
  } else {
    a[2][0] = M[1] - 1370589;
    a[2][2] = 527612;
  }
}

/* a = a b; a product of two numbers below 2^32 and a sum of two such residues fit 64 bits */
static void times(matrix a, matrix b, uint64_t m) {
  matrix c;
  for (int i = 0; i < 3; i++)
    for (int j = 0; j < 3; j++) {
      uint64_t x = 0;
      for (int k = 0; k < 3; k++) x = (x + a[i][k] * b[k][j] % m) % m;
      c[i][j] = x;
    }
  memcpy(a, c, sizeof(matrix));
}

/* A smaller number with the same residue, for 2^32 is the same as c = 2^32 - m, which has 15 bits at most: a product of two
 * numbers of 32 bits is below 2^34 after two such steps, and a sum of three of those below 2 m after one more. */
static uint64_t less(uint64_t x, uint64_t c) { return (x >> 32) * c + (uint32_t)x; }

static void apply(matrix a, uint32_t s[3], uint64_t m) {
  uint64_t out[3], c = ((uint64_t)1 << 32) - m;
  for (int i = 0; i < 3; i++) {
    uint64_t x = 0;
    for (int k = 0; k < 3; k++) x += less(less(a[i][k] * s[k], c), c);
    x = less(x, c);
    out[i] = x < m ? x : x - m;
  }
  for (int i = 0; i < 3; i++) s[i] = (uint32_t)out[i];
}

void clu_stream_jump(uint32_t s[6], uint64_t n) {
  static matrix powers[2][64]; /* 2^(127 + i) steps */
  static int known;            /* so many of them */
  for (int bit = 0; bit < 64 && n >> bit; bit++) {
    for (; known <= bit; known++)
      for (int k = 0; k < 2; k++) {
        if (known > 0) {
          memcpy(powers[k][known], powers[k][known - 1], sizeof(matrix));
          times(powers[k][known], powers[k][known - 1], M[k]);
        } else {
          one_step(k, powers[k][0]);
          for (int i = 0; i < 127; i++) {
            matrix square;
            memcpy(square, powers[k][0], sizeof square);
            times(powers[k][0], square, M[k]);
          }
        }
      }
    if (n >> bit & 1)
      for (int k = 0; k < 2; k++) apply(powers[k][bit], s + 3 * k, M[k]);
  }
}
