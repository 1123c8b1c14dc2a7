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
 *
 * The segment belongs to the message's blob; its descriptor travels with the first byte of the
 * message (core/wire/channel.h). The receiver maps it privately as soon as that comes, so pages
 * that a process writes to become its own. Session and nodes keep the descriptor as long as they
 * have few of them (clu_segments_keep_fds()), others close it. Only nodes of a fork server take
 * segments; for others, and where a segment cannot be had, bytes are written to the message.
 *
 * A segment is written once, and the socket once for each receiver. So the size from which on a
 * vector is large depends on how many nodes the message goes to (clu_share_from()). What share()
 * has made keeps its descriptor, and is sent again by it as long as no page of it was written to.
 * So is what came, where most of its segment is in the message (clu_held_can_be_named()): a small
 * part would keep the whole. No two vectors of a process point to the same place, since a write
 * to one would be seen in the other.
 */
#ifndef CLUTCH_R_SHARE_H
#define CLUTCH_R_SHARE_H

#include "r/base/r-api.h"

#include <R_ext/Altrep.h>
#include <R_ext/Rdynload.h>

#include "core/base/segment.h"

#define CLU_SHARED_MARK 'S'
/* Bytes: smaller vectors are never shared, whatever the option says; from which on share() shares,
 * or less by the option. */
#define CLU_SHARE_LEAST 4096
#define CLU_SHARE_ASKED 65536

/* Character vectors in a segment: a number of 8 bytes for each element, then the text of all
 * elements without anything between. A number is 256 times the bytes of text up to the end of its
 * element, plus what the element is: a part of the flags that R writes before each, or that it is
 * missing. One that is of none of these encodings is in the native one of the process that has
 * written it. */
enum {
  CLU_STRING_BYTES = 1 << 1,
  CLU_STRING_LATIN1 = 1 << 2,
  CLU_STRING_UTF8 = 1 << 3,
  CLU_STRING_ASCII = 1 << 6,
  CLU_STRING_KINDS = CLU_STRING_BYTES | CLU_STRING_LATIN1 | CLU_STRING_UTF8 | CLU_STRING_ASCII,
  CLU_STRING_MISSING = 1 << 7
};

/* The state of what stands in place of a vector, numbers of type double. */
enum {
  CLU_STATE_PLACE, /* of the segment in the message's list */
  CLU_STATE_AT,    /* where the vector begins there */
  CLU_STATE_TYPE,
  CLU_STATE_LENGTH,
  CLU_STATE_VECTOR,                  /* how many numbers; of a character vector there are more */
  CLU_STATE_TEXT = CLU_STATE_VECTOR, /* bytes of text */
  CLU_STATE_NATIVE,                  /* clu_native_encoding() of who has written it, or 0 */
  CLU_STATE_STRINGS
};

/* ---- share-block.c: what all vectors in segments have in common ---- */

struct clu_splice;
/* The first member of what data1 of such a vector, an external pointer, refers to. */
typedef struct clu_held {
  clu_segment *segment; /* NULL: given back */
  R_xlen_t length;      /* of this vector, */
  uint64_t bytes;       /* and how much of the segment it is */
  uint64_t counted;     /* so much memory it may take */
} clu_held;
/* `size` bytes that begin with a clu_held, which holds a reference to `segment`; the others are 0.
 * Behind an external pointer, which frees it. */
SEXP clu_held_new(size_t size, clu_segment *segment, R_xlen_t length, uint64_t bytes);
/* That of a vector; an R error where it was finalized: R finalizes all that has become garbage in
 * any order, so a finalizer of the user's may come to a vector that was so before. */
void *clu_held_of(SEXP x);
/* Tells whether that was so. */
static inline int clu_held_is_gone(SEXP x) { return !R_ExternalPtrAddr(R_altrep_data1(x)); }
/* Methods that are the same for all classes. data2 of a vector that has been copied is the copy. */
void clu_held_methods(R_altrep_class_t class);
/* The segment is not needed any more. */
void clu_held_drop(clu_held *h);
/* Tells whether vectors can be in it; else they are copied from it by clu_shared_read(). */
int clu_shared_can_hold(const clu_segment *segment);
int clu_shared_read(const clu_segment *segment, uint64_t at, void *p, size_t n);
/* Tells whether share() has made it. */
int clu_held_is_own(const clu_held *h);
/* Tells whether what is written may name it in place of its elements: share() has made it, or it
 * came and most of its segment is in the message, so that not much is kept with it. */
int clu_held_can_be_named(const clu_held *h);
/* list(the symbol clutch, `x`) */
SEXP clu_shared_wrap(SEXP x);
/* Where objects that are written from now on may say that they are shared; NULL: they are written
 * as ordinary vectors. Returns what it was. */
struct clu_splice *clu_shared_writing(struct clu_splice *to);
struct clu_splice *clu_shared_writing_now(void);
/* The segment's place in what is written; -1: there is no room for it. */
int clu_shared_place(clu_segment *segment);
/* Sets what the objects that are read from now on may refer to; NULL: nothing. Returns what it was.
 * The list stays the caller's. */
const clu_segments *clu_shared_reading(const clu_segments *list);
const clu_segments *clu_shared_reading_now(void);
/* An error says this where the elements of vectors are lost: clu_segment_new_lost(). */
const char *clu_shared_lost_text(void);
/* Somebody may write to its elements from now on. */
void clu_held_count(clu_held *h);
/* A collection may be due: R does not see the bytes of segments, and will have vectors in these. */
void clu_shared_expect(const clu_segments *list);
/* Keeps what there is: it is what was preloaded, and no node's collection gives it back. */
void clu_shared_settle(void);
/* How many vectors of this kind R has. */
long clu_shared_alive(void);
/* The encoding of strings without a mark: 1 UTF-8, 2 Latin-1, 0 something else. */
int clu_native_encoding(void);

/* ---- share-mapped.c: which segments vectors have mapped ---- */

/* Tells whether a vector may have `segment` mapped; else it is copied. */
int clu_mapped_has_room(const clu_segment *segment);
/* A vector has it, until it is removed. 0: no memory. */
int clu_mapped_add(const clu_segment *segment);
void clu_mapped_remove(const clu_segment *segment);

/* ---- share-strings.c: character vectors ---- */

/* The class, which only lacks the method to read one. */
R_altrep_class_t clu_strings_init(DllInfo *dll);
/* These do what clu_is_shared() and clu_shared_can_be_sent() do. */
int clu_strings_are_shared(SEXP x);
int clu_strings_can_be_sent(SEXP x);
/* One whose state is checked but for what it says itself of the segment. */
SEXP clu_strings_get(clu_segment *segment, const double *state);

/* ---- share-vector.c: the objects ---- */

void clu_shared_init(DllInfo *dll);
/* Tells whether `x` is such a vector; whether its segment can be handed on, because share() has
 * made it and nobody has written to it. */
int clu_is_shared(SEXP x);
int clu_shared_can_be_sent(SEXP x);
/* Counts how much of the segments that came is in `x`: clu_segment_count(). Looks at `x` and the
 * elements of lists. */
void clu_shared_count(SEXP x, uint64_t message);
/* Bytes of one element, or 0 where vectors of this type have none of their own. */
size_t clu_shared_width(int type);

/* ---- share-splice.c: what R writes ---- */

/* Bytes from which on vectors are shared: getOption("clutch.share_from"), else what is best with so
 * many receivers. SIZE_MAX: none; 0: the option is no such number. */
size_t clu_share_from(int receivers);
/* Tells whether there may be such a vector somewhere in `x`: 0 is sure, 1 is not. Looks at a few
 * objects only. */
int clu_may_have_large(SEXP x, size_t from);
/* Bytes that the vectors of `x` will take where it is written, without those of `from` bytes and
 * more. Looks at a few objects only, and not at strings. */
size_t clu_bytes_at_least(SEXP x, size_t from);

/* A character vector at hand. R writes three things for each element: flags, length, text. */
typedef struct clu_splice_strings {
  enum { CLU_NO_STRINGS, CLU_STRINGS_IN_BLOB, CLU_STRINGS_IN_SEGMENT } where;
  enum { CLU_STRING_FLAGS, CLU_STRING_LENGTH, CLU_STRING_TEXT } next;
  int flags, length;                /* of the element at hand */
  uint64_t n, done;                 /* elements */
  uint64_t text;                    /* bytes of text */
  int native;                       /* what its strings without a mark are in; 0: there are none */
  struct clu_string_pieces *pieces; /* what is not in the segment yet */
} clu_splice_strings;

typedef struct clu_splice {
  clu_blob *b;
  uint64_t number; /* of the message: no two have the same */
  int copies;      /* what is in a segment already is not to be referred to */
  size_t from;
  clu_segment *segment; /* the blob's; NULL: none yet */
  int place;            /* where in the blob's list it is */
  int words[4];         /* what was written last, each by itself */
  int nwords;
  /* the vector at hand */
  uint64_t left;    /* bytes to come */
  uint64_t done;    /* bytes that R has written */
  uint64_t ahead;   /* bytes beyond these that are in the segment already */
  const char *next; /* where the last piece has ended */
  uint64_t at;      /* where it begins there */
  size_t item;      /* where its item begins in the blob */
  int nhead;        /* numbers of its head, of which the first are its flags */
  int head[4];
  clu_splice_strings strings;
} clu_splice;

/* `n` bytes that R writes: 1: they went to the segment; 0: they are to be appended to the blob.
 * CLU_NOMEM: neither can be done. */
int clu_splice_bytes(clu_splice *s, const void *p, size_t n);
/* Nothing more comes: frees what it needed. */
void clu_splice_end(clu_splice *s);

/* ---- share-splice-strings.c: character vectors in what R writes ---- */

/* `p` is the first element's flags, and before there were the flags and the length of a character
 * vector. 1: they are. */
int clu_strings_begin(clu_splice *s, const void *p, size_t n);
/* Does what clu_splice_bytes() does, while one is at hand; or CLU_STRINGS_NONE: it is none, and
 * these bytes belong to something else. */
#define CLU_STRINGS_NONE 2
int clu_strings_bytes(clu_splice *s, const void *p, size_t n);

/* ---- share-item.c: what stands in place of a vector ---- */

int clu_splice_words(clu_splice *s, const int *words, int n);
/* `n` bytes, the first of another vector: s->place and s->at say where they are. 0: no segment can
 * be had, and is not tried again for this message. */
int clu_splice_segment(clu_splice *s, const void *p, size_t n);
/* In place of a vector with `head`: an ALTREP object, that is its class, its state, and its
 * attributes, which R writes next if there are any. 0: no memory. */
int clu_splice_item(clu_splice *s, const double *state, int n);
/* The end of one, where R writes no attributes. */
int clu_splice_item_end(clu_splice *s);

#endif
