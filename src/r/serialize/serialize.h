/* Objects become bytes, and bytes objects: in R's binary format, where large vectors may go by a
 * segment (r/share/share.h); and in shorter ones, for values that have no attributes.
 */
#ifndef CLUTCH_R_SERIALIZE_H
#define CLUTCH_R_SERIALIZE_H

#include "r/base/r-api.h"

/* ---- serialize.c ---- */

/* The object in R's binary format, behind what is in `b` already; NULL: a new blob. Takes over the
 * reference to `b` and hands it back. May raise R's own errors; leaks nothing then. */
clu_blob *clu_serialize(clu_blob *b, SEXP x);
/* Does the same for so many processes of this host that take segments: large vectors go by one,
 * which the blob brings (r/share/share.h). How large they have to be depends on that number; 0:
 * none do. A blob takes one object so; those after it travel whole. */
clu_blob *clu_serialize_for(clu_blob *b, SEXP x, int receivers);
/* `fn` is called every few megabytes while a large object is written or read, and may jump out.
 * Until this is called it is R_CheckUserInterrupt(). */
void clu_serialize_set_check(void (*fn)(void));
/* The object behind the first `skip` bytes. Consumes the reference to `b`, also on a jump. */
SEXP clu_unserialize(clu_blob *b, size_t skip);
/* The object in memory that R does not own and that stays through a jump (on the stack, static). */
SEXP clu_unserialize_bytes(const unsigned char *p, size_t n);
/* A value of so many bytes comes, and others like it will: memory that is freed stays for them.
 * Whether there was one since clu_expect_no_values(), which gives that memory back. */
void clu_expect_values(uint64_t size);
int clu_values_were_expected(void);
void clu_expect_no_values(void);
/* The object whose bytes `read` gives piece by piece: exactly `n` bytes and CLU_OK, or a code that
 * becomes an R error. Nothing is held meanwhile, the bytes go where they belong. `segments`: what
 * came with them, which stays the caller's and lasts at least until the next object is read; or
 * NULL. */
typedef int (*clu_reader)(void *data, void *p, size_t n);
SEXP clu_unserialize_from(clu_reader read, void *data, const clu_segments *segments);

#define CLU_MOST_FUN 4096 /* bytes of a function that travels apart from its arguments */

/* ---- plain.c ---- */

/* `null`: the bytes of NULL in R's format, from which it learns the header.
 * Until then nothing is plain. */
void clu_plain_learn(const unsigned char *null, size_t n);
/* Appends a plain value: 1, or 0 for others, and then nothing is appended. */
int clu_plain_put(clu_blob *b, SEXP x);
/* Does the same without the header that each serialized object has, to `p` with room for `n` bytes:
 * how many it took; 0: it is not plain, or too large. clu_plain_bare_get(): an R error of class
 * clutch_protocol when these are no such bytes. */
size_t clu_plain_bare(unsigned char *p, size_t n, SEXP x);
SEXP clu_plain_bare_get(const unsigned char *p, size_t n);
/* A plain value; NULL when it is none. */
SEXP clu_plain_get(const unsigned char *p, size_t n);

/* ---- log.c ---- */

/* list(value, log) of a task: as clu_plain_bare(), where the value is plain and
 * the log is of output, warnings and messages of the usual kinds, that is, in ASCII or UTF-8. */
size_t clu_log_bare(unsigned char *p, size_t n, SEXP value, SEXP log);
SEXP clu_log_bare_get(const unsigned char *p, size_t n);

#endif
