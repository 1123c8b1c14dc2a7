#include "core/base/rng-stream.h"

#include <string.h>

typedef uint64_t matrix[3][3];

#define M0 4294967087u
#define M1 4294944443u

static const uint64_t M[2] = {M0, M1};

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

/* A smaller number with the same residue modulo m: 2^32 is congruent to c = 2^32 - m, which has 15
 * bits at most. */
static inline uint64_t less(uint64_t x, uint64_t c) { return (x >> 32) * c + (uint32_t)x; }

/* Each of the three products is below (c + 1) 2^32 after one such step. Of their sum the upper half
 * is below 3 (c + 1), so after another step it is below 3 (c + 1) c + 2^32 < 2 m. */
static inline uint32_t row(const uint64_t a[3], const uint32_t s[3], uint64_t m) {
  uint64_t c = ((uint64_t)1 << 32) - m,
           x = less(a[0] * s[0], c) + less(a[1] * s[1], c) + less(a[2] * s[2], c);
  x = less(x, c);
  return (uint32_t)(x < m ? x : x - m);
}

static inline void apply(matrix a, uint32_t s[3], uint64_t m) {
  uint32_t x = row(a[0], s, m), y = row(a[1], s, m), z = row(a[2], s, m);
  s[0] = x;
  s[1] = y;
  s[2] = z;
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
    if (n >> bit & 1) {
      apply(powers[0][bit], s, M0);
      apply(powers[1][bit], s + 3, M1);
    }
  }
}
