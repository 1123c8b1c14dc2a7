/* Numbers of `n` bytes, 8 at the most, in little-endian order on every machine. Where `n` is a
 * constant, compilers make one store or load of it on a little-endian machine: in the other way
 * they make one for each byte. */
#ifndef CLUTCH_BYTES_H
#define CLUTCH_BYTES_H

#include <stdint.h>
#include <string.h>

#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
static inline void clu_bytes_put(unsigned char *p, uint64_t x, int n) { memcpy(p, &x, (size_t)n); }

static inline uint64_t clu_bytes_get(const unsigned char *p, int n) {
  uint64_t x = 0;
  memcpy(&x, p, (size_t)n);
  return x;
}
#else
static inline void clu_bytes_put(unsigned char *p, uint64_t x, int n) {
  for (int i = 0; i < n; i++) p[i] = (unsigned char)(x >> 8 * i);
}

static inline uint64_t clu_bytes_get(const unsigned char *p, int n) {
  uint64_t x = 0;
  while (n-- > 0) x = x << 8 | p[n];
  return x;
}
#endif

#endif
