/* The format of a journal: what maps have computed, in one file that is only appended to.
 *
 * The file begins with CLU_JOURNAL_HEAD bytes. All numbers are little endian:
 *    0  8 bytes  "clutchJ1"
 *    8  u64      salt: chosen at random; the checks of this file's records begin with it
 *   16  f64      when it was made, in seconds since 1970
 *   24  u32      length of what follows, 64 at the most
 *   28           the header that R writes in front of each serialized object (R Internals, 1.8)
 *   92           zeros
 *
 * Records follow, each at a multiple of 8 bytes: CLU_RECORD_HEAD bytes
 *    0  u32      length of the payload, in bytes: the lower 32 bits of 40
 *    4  u32      check: the first 32 bits of the hash (core/base/hash.h) of the whole record, in
 *                which the check is 0, the padding excluded. Its key is the salt, twice
 *    8  16 bytes key: of what was computed
 *   24  u8       kind: enum clu_record_kind
 *   25  u8       flags: CLU_RECORD_...
 *   26  u8       attempt: how often the element was started; 0: not known
 *   27  u8       length of the payload, the upper 8 bits
 *   28  u32      number of the element in its map, from 1; the lower 32 bits
 *   32  f32      seconds that it took
 *   36  u16      number of the node
 *   38  u16      number of the job: of JOB records in this file, from 0; the lower 16 bits
 * then the payload, and zeros up to a multiple of 8.
 *
 * Payloads
 *   JOB    an R object: a named list that says what the map is (R/journal.R). Its key is that of
 *          the code
 *   VALUE  an R object: the value, or with CLU_RECORD_LOG list(value, log)
 *   ERROR  an R object, as VALUE: what is known of the error; or nothing, with
 *          CLU_RECORD_DIED or CLU_RECORD_TIMEOUT
 *   TIME   f64: when the records from here on were written, in seconds since 1970. Its key is zero
 *
 * An R object is as R serializes it, in binary format, version 3, without the header, which the
 * file has; with CLU_RECORD_HEADED it has its own.
 *
 * With CLU_RECORD_DREW the function has used random numbers. Then the key is the hash of the
 * element's stream (six times u32), beginning with the key that it would have without.
 */
#ifndef CLUTCH_JOURNAL_RECORD_H
#define CLUTCH_JOURNAL_RECORD_H

#include <stddef.h>
#include <stdint.h>

#include "core/base/hash.h"

#define CLU_JOURNAL_HEAD 128
#define CLU_JOURNAL_R_HEAD 64 /* room for R's header */
#define CLU_RECORD_HEAD 40
#define CLU_RECORD_MOST (((uint64_t)1 << 40) - 1) /* bytes of a payload */

enum clu_record_kind { CLU_RECORD_JOB = 1, CLU_RECORD_VALUE, CLU_RECORD_ERROR, CLU_RECORD_TIME };
enum {
  CLU_RECORD_LOG = 1,
  CLU_RECORD_HEADED = 2,
  CLU_RECORD_DREW = 4,
  CLU_RECORD_DIED = 8,
  CLU_RECORD_TIMEOUT = 16,
  CLU_RECORD_FLAGS = 31
};

typedef struct clu_record {
  unsigned char key[CLU_HASH];
  uint64_t size; /* of the payload */
  uint8_t kind, flags, attempt;
  uint32_t element;
  float seconds;
  uint16_t node, job;
} clu_record;

typedef struct clu_journal_head {
  uint64_t salt;
  double made;
  uint32_t nr; /* bytes of R's header */
  unsigned char r[CLU_JOURNAL_R_HEAD];
} clu_journal_head;

/* Bytes of a record with such a payload, its padding included. */
static inline uint64_t clu_record_length(uint64_t size) {
  return (CLU_RECORD_HEAD + size + 7) & ~(uint64_t)7;
}
void clu_journal_head_put(unsigned char out[CLU_JOURNAL_HEAD], const clu_journal_head *h);
/* Tells whether it is one. */
int clu_journal_head_get(const unsigned char in[CLU_JOURNAL_HEAD], clu_journal_head *h);
/* Tells whether these `n` bytes may be the beginning of one. */
int clu_journal_is_begun(const unsigned char *in, size_t n);
/* Tells whether they are one of a format with another number. */
int clu_journal_is_other(const unsigned char *in, size_t n);
/* The head of a record, complete with its check. */
void clu_record_put(unsigned char out[CLU_RECORD_HEAD], const clu_record *r, const void *payload,
                    uint64_t salt);
/* Does the same where the payload lies behind the head already. */
void clu_record_put_before(unsigned char *out, const clu_record *r, uint64_t salt);
/* Tells whether this record, all of whose bytes are there, has the check that it should have. */
int clu_record_is_right(unsigned char *record, uint64_t size, uint64_t salt);
/* Tells whether these bytes may be the head of a record; then `r` is that. */
int clu_record_get(const unsigned char in[CLU_RECORD_HEAD], clu_record *r);
/* The payload of a TIME record, and what it says. */
#define CLU_RECORD_TIME_SIZE 8
void clu_record_put_time(unsigned char out[CLU_RECORD_TIME_SIZE], double time);
double clu_record_get_time(const unsigned char in[CLU_RECORD_TIME_SIZE]);
/* Makes of the key of an element that of one which has used this random stream. */
void clu_record_key_of_stream(unsigned char key[CLU_HASH], const uint32_t stream[6]);
/* How many of these bytes, an R object with its header, are a header that says the same as the
 * file's, but perhaps which R has written it; 0: they are another one. */
size_t clu_record_r_header(const clu_journal_head *h, const unsigned char *p, size_t n);
/* The check of a record, whose payload is added to the hash between the two. */
void clu_record_check_begin(clu_hash *h, const unsigned char head[CLU_RECORD_HEAD], uint64_t salt);
int clu_record_check_end(clu_hash *h, const unsigned char head[CLU_RECORD_HEAD]);

#endif
