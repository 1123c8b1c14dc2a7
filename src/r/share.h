/* Large vectors travel between processes of one host by segments (core/base/segment.h), not by the
 * socket: the sender copies a vector into a segment once, the receiver maps it.
 *
 * R's own serialization goes through the object; what it writes passes clu_splice_bytes(). Where
 * that sees a vector of `clutch.share_from` bytes or more, the vector's bytes go to the segment,
 * and an ALTREP object that names them takes the vector's place. So vectors are found wherever
 * serialize() finds them, in the order in which it does.
 *
 * A serialized object that may have such places begins with CLU_SHARED_MARK, and is
 * list(the symbol clutch, object): the first symbol has number 1 in R's table of what was written
 * before, so its name need not be written where the vector is replaced.
 *
 * All functions run on R's thread.
 */
#ifndef CLUTCH_R_SHARE_H
#define CLUTCH_R_SHARE_H

#include "r/r-api.h"

#include <R_ext/Rdynload.h>

#include "core/base/segment.h"

#define CLU_SHARED_MARK 'S'
#define CLU_SHARE_ASKED 65536 /* bytes from which on share() shares, or less by the option */

/* ---- share-vector.c: the objects ---- */

void clu_shared_init(DllInfo *dll);
/* list(the symbol clutch, `x`) */
SEXP clu_shared_wrap(SEXP x);
struct clu_splice;
/* Where objects that are written from now on may say that they are shared; NULL: they are written
 * as ordinary vectors. Returns what it was. */
struct clu_splice *clu_shared_writing(struct clu_splice *to);
/* Whether `x` is such a vector; whether its segment can be handed on, because share() has made it
 * and nobody has written to it. */
int clu_is_shared(SEXP x);
int clu_shared_can_be_sent(SEXP x);
/* What the objects that are read from now on may refer to; NULL: nothing. Returns what it was. The
 * list stays the caller's. */
const clu_segments *clu_shared_reading(const clu_segments *list);
/* What an error says where the elements of vectors are lost: clu_segment_new_lost(). */
const char *clu_shared_lost_text(void);
/* A collection may be due: R does not see the bytes of segments, `more` of which will be mapped. */
void clu_shared_expect(uint64_t more);
/* How many vectors of this kind R has. */
long clu_shared_alive(void);
/* Bytes of one element, or 0 where vectors of this type are not shared. */
size_t clu_shared_width(int type);

/* ---- share-splice.c: what R writes ---- */

/* Bytes from which on vectors are shared: getOption("clutch.share_from"). SIZE_MAX: none; 0: the
 * option is no such number. */
size_t clu_share_from(void);
/* Whether there may be such a vector somewhere in `x`: 0 is sure, 1 is not. Looks at a few objects
 * only. */
int clu_may_have_large(SEXP x, size_t from);

typedef struct clu_splice {
  clu_blob *b;
  uint64_t number; /* of the message: no two have the same */
  size_t from;
  clu_segment *segment; /* the blob's; NULL: none yet */
  int place;            /* where in the blob's list it is */
  int words[4];         /* what was written last, each by itself */
  int nwords;
  /* the vector at hand */
  uint64_t left; /* bytes to come */
  uint64_t done; /* bytes in the segment */
  uint64_t at;   /* where it begins there */
  size_t item;   /* where its item begins in the blob */
  int nhead;     /* numbers of its head, of which the first are its flags */
  int head[4];
} clu_splice;

/* `n` bytes that R writes: 1: they went to the segment; 0: they are to be appended to the blob.
 * CLU_NOMEM: neither can be done. */
int clu_splice_bytes(clu_splice *s, const void *p, size_t n);

#endif
