/* A hash of 128 bits that may begin with a key: MurmurHash3_x64_128 by A. Appleby (public domain),
 * whose two halves begin with the key. For what is not hostile: nobody is kept from making two
 * inputs with the same hash on purpose. Allocates nothing, cannot fail. */
#ifndef CLUTCH_HASH_H
#define CLUTCH_HASH_H

#include <stddef.h>
#include <stdint.h>

#define CLU_HASH 16 /* bytes of a hash */

typedef struct clu_hash {
  uint64_t h1, h2, n;
  unsigned char tail[16]; /* the last n % 16 bytes */
} clu_hash;

/* `key`: CLU_HASH bytes, or NULL. */
void clu_hash_begin(clu_hash *h, const unsigned char *key);
/* The hash is that of all bytes in a row, however they are cut into calls. */
void clu_hash_add(clu_hash *h, const void *p, size_t n);
void clu_hash_end(clu_hash *h, unsigned char out[CLU_HASH]);
/* Has the same result for bytes that lie in a row, and is faster where they are few. */
void clu_hash_of(const unsigned char *key, const void *p, size_t n, unsigned char out[CLU_HASH]);

#endif
