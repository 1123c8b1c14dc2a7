#include "core/journal/record.h"

#include <string.h>

#include "core/base/bytes.h"

static const char magic[8] = {'c', 'l', 'u', 't', 'c', 'h', 'J', '1'};

static void put_double(unsigned char *p, double x) {
  uint64_t bits;
  memcpy(&bits, &x, sizeof bits);
  clu_bytes_put(p, bits, 8);
}

static double get_double(const unsigned char *p) {
  uint64_t bits = clu_bytes_get(p, 8);
  double x;
  memcpy(&x, &bits, sizeof x);
  return x;
}

void clu_record_put_time(unsigned char out[CLU_RECORD_TIME_SIZE], double time) {
  put_double(out, time);
}

double clu_record_get_time(const unsigned char in[CLU_RECORD_TIME_SIZE]) { return get_double(in); }

void clu_journal_head_put(unsigned char out[CLU_JOURNAL_HEAD], const clu_journal_head *h) {
  memset(out, 0, CLU_JOURNAL_HEAD);
  memcpy(out, magic, sizeof magic);
  clu_bytes_put(out + 8, h->salt, 8);
  put_double(out + 16, h->made);
  clu_bytes_put(out + 24, h->nr, 4);
  memcpy(out + 28, h->r, h->nr);
}

int clu_journal_head_get(const unsigned char in[CLU_JOURNAL_HEAD], clu_journal_head *h) {
  if (memcmp(in, magic, sizeof magic) != 0) return 0;
  h->salt = clu_bytes_get(in + 8, 8);
  h->made = get_double(in + 16);
  h->nr = (uint32_t)clu_bytes_get(in + 24, 4);
  if (h->nr > CLU_JOURNAL_R_HEAD) return 0;
  memcpy(h->r, in + 28, sizeof h->r);
  return 1;
}

int clu_journal_is_begun(const unsigned char *in, size_t n) {
  return memcmp(in, magic, n < sizeof magic ? n : sizeof magic) == 0;
}

int clu_journal_is_other(const unsigned char *in, size_t n) {
  return n >= sizeof magic && memcmp(in, magic, sizeof magic - 1) == 0 && in[7] != magic[7];
}

void clu_record_key_of_stream(unsigned char key[CLU_HASH], const uint32_t stream[6]) {
  unsigned char bytes[24];
  clu_hash h;
  for (int i = 0; i < 6; i++) clu_bytes_put(bytes + 4 * i, stream[i], 4);
  clu_hash_begin(&h, key);
  clu_hash_add(&h, bytes, sizeof bytes);
  clu_hash_end(&h, key);
}

/* Bytes 6 to 9 are the version of R that has written it. */
size_t clu_record_r_header(const clu_journal_head *h, const unsigned char *p, size_t n) {
  if (h->nr < 10 || n < h->nr || memcmp(p, h->r, 6) != 0) return 0;
  return memcmp(p + 10, h->r + 10, h->nr - 10) == 0 ? h->nr : 0;
}

/* Stores whole words, as the hash reads them: after stores of their pieces the processor would wait
 * until all of these are out of its store buffer. */
static void put_head(unsigned char *out, const clu_record *r) {
  uint32_t seconds;
  memcpy(&seconds, &r->seconds, sizeof seconds);
  clu_bytes_put(out, (uint32_t)r->size, 8);
  memcpy(out + 8, r->key, CLU_HASH);
  clu_bytes_put(out + 24,
                r->kind | (uint64_t)r->flags << 8 | (uint64_t)r->attempt << 16 |
                    (r->size >> 32 & 255) << 24 | (uint64_t)r->element << 32,
                8);
  clu_bytes_put(out + 32, seconds | (uint64_t)r->node << 32 | (uint64_t)r->job << 48, 8);
}

void clu_record_check_begin(clu_hash *h, const unsigned char head[CLU_RECORD_HEAD], uint64_t salt) {
  unsigned char copy[CLU_RECORD_HEAD], key[CLU_HASH];
  clu_bytes_put(key, salt, 8);
  clu_bytes_put(key + 8, salt, 8);
  memcpy(copy, head, sizeof copy);
  clu_bytes_put(copy + 4, 0, 4);
  clu_hash_begin(h, key);
  clu_hash_add(h, copy, sizeof copy);
}

int clu_record_check_end(clu_hash *h, const unsigned char head[CLU_RECORD_HEAD]) {
  unsigned char hash[CLU_HASH];
  clu_hash_end(h, hash);
  return memcmp(hash, head + 4, 4) == 0;
}

void clu_record_put(unsigned char out[CLU_RECORD_HEAD], const clu_record *r, const void *payload,
                    uint64_t salt) {
  unsigned char hash[CLU_HASH];
  clu_hash h;
  put_head(out, r);
  clu_record_check_begin(&h, out, salt);
  if (r->size > 0) clu_hash_add(&h, payload, (size_t)r->size);
  clu_hash_end(&h, hash);
  memcpy(out + 4, hash, 4);
}

/* The check of what lies in a row, in which the check is 0. */
static void check_of(const unsigned char *record, uint64_t size, uint64_t salt,
                     unsigned char hash[CLU_HASH]) {
  unsigned char key[CLU_HASH];
  clu_bytes_put(key, salt, 8);
  clu_bytes_put(key + 8, salt, 8);
  clu_hash_of(key, record, CLU_RECORD_HEAD + (size_t)size, hash);
}

void clu_record_put_before(unsigned char *out, const clu_record *r, uint64_t salt) {
  unsigned char hash[CLU_HASH];
  put_head(out, r);
  check_of(out, r->size, salt, hash);
  memcpy(out + 4, hash, 4);
}

int clu_record_is_right(unsigned char *record, uint64_t size, uint64_t salt) {
  unsigned char hash[CLU_HASH], check[4];
  memcpy(check, record + 4, sizeof check);
  memset(record + 4, 0, sizeof check);
  check_of(record, size, salt, hash);
  memcpy(record + 4, check, sizeof check);
  return memcmp(hash, check, sizeof check) == 0;
}

int clu_record_get(const unsigned char in[CLU_RECORD_HEAD], clu_record *r) {
  uint32_t seconds = (uint32_t)clu_bytes_get(in + 32, 4);
  r->size = clu_bytes_get(in, 4) | (uint64_t)in[27] << 32;
  memcpy(r->key, in + 8, CLU_HASH);
  r->kind = in[24];
  r->flags = in[25];
  r->attempt = in[26];
  r->element = (uint32_t)clu_bytes_get(in + 28, 4);
  memcpy(&r->seconds, &seconds, sizeof seconds);
  r->node = (uint16_t)clu_bytes_get(in + 36, 2);
  r->job = (uint16_t)clu_bytes_get(in + 38, 2);
  return r->kind >= CLU_RECORD_JOB && r->kind <= CLU_RECORD_TIME && r->flags <= CLU_RECORD_FLAGS;
}
