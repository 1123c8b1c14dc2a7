#include "core/base/hash.h"

#include <string.h>

#include "core/base/bytes.h"

#define C1 0x87c37b91114253d5u
#define C2 0x4cf5ad432745937fu

static uint64_t rotate(uint64_t x, int r) { return x << r | x >> (64 - r); }

static uint64_t word(const unsigned char *p) { return clu_bytes_get(p, 8); }
static void put_word(unsigned char *p, uint64_t x) { clu_bytes_put(p, x, 8); }

static void block(clu_hash *h, const unsigned char *p) {
  h->h1 ^= rotate(word(p) * C1, 31) * C2;
  h->h1 = (rotate(h->h1, 27) + h->h2) * 5 + 0x52dce729;
  h->h2 ^= rotate(word(p + 8) * C2, 33) * C1;
  h->h2 = (rotate(h->h2, 31) + h->h1) * 5 + 0x38495ab5;
}

void clu_hash_begin(clu_hash *h, const unsigned char *key) {
  memset(h, 0, sizeof *h);
  if (!key) return;
  h->h1 = word(key);
  h->h2 = word(key + 8);
}

void clu_hash_add(clu_hash *h, const void *bytes, size_t n) {
  const unsigned char *p = bytes;
  size_t has = h->n % 16;
  h->n += n;
  if (has > 0) {
    size_t k = n < 16 - has ? n : 16 - has;
    memcpy(h->tail + has, p, k);
    p += k;
    n -= k;
    if (has + k < 16) return;
    block(h, h->tail);
  }
  for (; n >= 16; p += 16, n -= 16) block(h, p);
  if (n > 0) memcpy(h->tail, p, n);
}

static uint64_t mixed(uint64_t k) {
  k = (k ^ k >> 33) * 0xff51afd7ed558ccdu;
  k = (k ^ k >> 33) * 0xc4ceb9fe1a85ec53u;
  return k ^ k >> 33;
}

/* `w0`, `w1`: the last n % 16 bytes, and zeros. */
static void finish(clu_hash *h, uint64_t w0, uint64_t w1, unsigned char out[CLU_HASH]) {
  if (h->n % 16 > 0) {
    h->h2 ^= rotate(w1 * C2, 33) * C1;
    h->h1 ^= rotate(w0 * C1, 31) * C2;
  }
  h->h1 ^= h->n;
  h->h2 ^= h->n;
  h->h1 += h->h2;
  h->h2 += h->h1;
  h->h1 = mixed(h->h1);
  h->h2 = mixed(h->h2);
  h->h1 += h->h2;
  h->h2 += h->h1;
  put_word(out, h->h1);
  put_word(out + 8, h->h2);
}

void clu_hash_end(clu_hash *h, unsigned char out[CLU_HASH]) {
  size_t has = h->n % 16;
  memset(h->tail + has, 0, sizeof h->tail - has);
  finish(h, word(h->tail), word(h->tail + 8), out);
}

/* The word that less than 8 bytes and zeros make. To copy them, and to load the copy as one word,
 * would wait until the copy is out of the processor's store buffer. */
static uint64_t part(const unsigned char *p, size_t n) {
  uint64_t x = 0;
  if (n >= 4) return clu_bytes_get(p, 4) | clu_bytes_get(p + n - 4, 4) << 8 * (n - 4);
  while (n-- > 0) x = x << 8 | p[n];
  return x;
}

void clu_hash_of(const unsigned char *key, const void *bytes, size_t n,
                 unsigned char out[CLU_HASH]) {
  const unsigned char *p = bytes, *end = p + (n & ~(size_t)15);
  size_t has = n % 16;
  clu_hash h = {.h1 = key ? word(key) : 0, .h2 = key ? word(key + 8) : 0, .n = n};
  for (; p < end; p += 16) block(&h, p);
  if (has >= 8)
    finish(&h, word(p), part(p + 8, has - 8), out);
  else
    finish(&h, part(p, has), 0, out);
}
