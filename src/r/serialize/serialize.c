/* R objects to bytes and back, by R's own serialization. Plain values take a shorter way:
 * plain.c. */
#include "r/serialize/serialize.h"
#include "r/serialize/travel.h"
#include "r/share/share.h"
#include "r/base/turn.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/os-machine.h"

/* Code of R may run while R's own functions write and read objects: the turn at the session is
 * given back meanwhile. The bytes are nobody else's, or are not written to. */
typedef struct {
  clu_blob *b;
  size_t pos;
  SEXP x;
  const void *turn;
  clu_splice *splice; /* of an object whose large vectors are shared; else NULL */
  clu_splice *outer;  /* of whom this one interrupts */
  const clu_segments *before;
  SEXP apart; /* protected: what is not written, or NULL, see ffi_share() */
} stream;

/* A large object must not keep the user waiting: this is called every few megabytes, and may jump
 * out. */
static void (*check_now)(void) = R_CheckUserInterrupt;
static size_t unchecked;

#define PIECE ((size_t)4 << 20)

void clu_serialize_set_check(void (*fn)(void)) { check_now = fn; }

static size_t piece(size_t left) {
  size_t n = left < PIECE ? left : PIECE;
  if ((unchecked += n) > PIECE) {
    unchecked = 0;
    check_now();
  }
  return n;
}

static void out_bytes(R_outpstream_t s, void *buf, int n) {
  stream *st = (stream *)s->data;
  unsigned char *from = buf;
  int spliced = st->splice ? clu_splice_bytes(st->splice, buf, (size_t)n) : 0;
  if (spliced == 1) {
    piece((size_t)n);
    return;
  }
  if (spliced) clu_raise("memory", "not enough memory to serialize a large vector");
  for (size_t left = (size_t)n, k; left > 0; left -= k, from += k) {
    k = piece(left);
    if (clu_blob_append(st->b, from, k) != 0)
      clu_raise("memory", "not enough memory to serialize an object of more than %.0f MB",
                (double)st->b->size / 1e6);
  }
}

static void out_char(R_outpstream_t s, int c) {
  char ch = (char)c;
  out_bytes(s, &ch, 1);
}

static void in_bytes(R_inpstream_t s, void *buf, int n) {
  stream *st = (stream *)s->data;
  unsigned char *to = buf;
  if (n < 0 || (size_t)n > st->b->size - st->pos)
    clu_raise("protocol", "an object arrived incomplete");
  for (size_t left = (size_t)n, k; left > 0; left -= k, st->pos += k, to += k) {
    k = piece(left);
    memcpy(to, st->b->data + st->pos, k);
  }
}

static int in_char(R_inpstream_t s) {
  unsigned char c;
  in_bytes(s, &c, 1);
  return c;
}

typedef struct {
  clu_reader read;
  void *data;
  int first; /* a byte that was looked at; -1: none */
} pieces;

static void in_pieces(R_inpstream_t s, void *buf, int n) {
  pieces *p = (pieces *)s->data;
  char *to = buf;
  int rc;
  if (p->first >= 0 && n > 0) {
    *to++ = (char)p->first;
    p->first = -1;
    n--;
  }
  rc = n < 0 ? CLU_PROTO : p->read(p->data, to, (size_t)n);
  if (rc != CLU_OK) clu_raise("protocol", "an object arrived incomplete: %s", clu_code_text(rc));
}

static int in_piece_char(R_inpstream_t s) {
  unsigned char c;
  in_pieces(s, &c, 1);
  return c;
}

/* The pointer by which a data.table knows whether it was copied (data.table's assign.c). In a copy
 * it has to be empty, as in one that comes from a file: else `:=` warns that somebody else has
 * copied the table. */
static int is_table_mark(SEXP x) {
  return TYPEOF(x) == EXTPTRSXP && R_ExternalPtrAddr(x) == R_NilValue;
}

/* Environments and pointers that are not copied: `apart` has them, and their number is written. It
 * is a list: these objects, with room for more; by their addresses the number behind that of each;
 * how many there are. */
enum { OBJECTS, NUMBERS, COUNT, N_APART };

/* Where the number behind that of `x` is, or would be. */
static int *place_of(SEXP x, SEXP apart) {
  SEXP objects = VECTOR_ELT(apart, OBJECTS), numbers = VECTOR_ELT(apart, NUMBERS);
  size_t last = (size_t)XLENGTH(numbers) - 1;
  size_t at = (size_t)(((uintptr_t)x >> 4) * 0x9E3779B97F4A7C15u >> 16) & last;
  while (INTEGER(numbers)[at] && VECTOR_ELT(objects, INTEGER(numbers)[at] - 1) != x)
    at = (at + 1) & last;
  return &INTEGER(numbers)[at];
}

/* Room for twice as many. */
static void make_room(SEXP apart) {
  SEXP before = VECTOR_ELT(apart, OBJECTS), objects, numbers;
  R_xlen_t n = Rf_xlength(before), room = n ? 2 * n : 64;
  objects = PROTECT(Rf_allocVector(VECSXP, room));
  numbers = Rf_allocVector(INTSXP, 2 * room);
  memset(INTEGER(numbers), 0, sizeof(int) * (size_t)(2 * room));
  SET_VECTOR_ELT(apart, OBJECTS, objects);
  SET_VECTOR_ELT(apart, NUMBERS, numbers);
  for (R_xlen_t i = 0; i < n; i++) {
    SET_VECTOR_ELT(objects, i, VECTOR_ELT(before, i));
    *place_of(VECTOR_ELT(before, i), apart) = (int)i + 1;
  }
  UNPROTECT(1);
}

static SEXP new_apart(void) {
  SEXP apart = PROTECT(Rf_allocVector(VECSXP, N_APART));
  SET_VECTOR_ELT(apart, COUNT, Rf_ScalarInteger(0));
  make_room(apart);
  UNPROTECT(1);
  return apart;
}

static SEXP put_apart(SEXP x, SEXP apart) {
  char number[32];
  int *n = INTEGER(VECTOR_ELT(apart, COUNT)), *place;
  if (is_table_mark(x)) return R_NilValue;
  place = place_of(x, apart);
  if (!*place) {
    if (*n == XLENGTH(VECTOR_ELT(apart, OBJECTS))) make_room(apart);
    place = place_of(x, apart);
    SET_VECTOR_ELT(VECTOR_ELT(apart, OBJECTS), *n, x);
    *place = ++*n;
  }
  snprintf(number, sizeof number, "%d", *place - 1);
  return Rf_mkString(number);
}

static SEXP take_apart(SEXP number, SEXP apart) {
  int n = atoi(CHAR(STRING_ELT(number, 0)));
  return VECTOR_ELT(VECTOR_ELT(apart, OBJECTS), n);
}

/* Set when a pointer that leads somewhere is written: it is nil where it arrives. */
static int has_met_pointer;

int clu_serialized_pointer(void) {
  int met = has_met_pointer;
  has_met_pointer = 0;
  return met;
}

static SEXP note_pointer(SEXP x, SEXP unused) {
  (void)unused;
  if (clu_is_live_pointer(x)) has_met_pointer = 1;
  return R_NilValue;
}

static SEXP do_out(void *data) {
  stream *st = data;
  struct R_outpstream_st out;
  /* the sender is the same build of R on the same machine: native byte order, version 3 */
  R_InitOutPStream(&out, (R_pstream_data_t)st, R_pstream_binary_format, 3, out_char, out_bytes,
                   st->apart ? put_apart : note_pointer, st->apart ? st->apart : R_NilValue);
  st->turn = clu_turn_pause();
  st->outer = clu_shared_writing(st->splice);
  R_Serialize(st->x, &out);
  clu_shared_writing(st->outer);
  clu_turn_resume(st->turn);
  return R_NilValue;
}

/* An object that was written as CLU_SHARED_MARK says. */
static SEXP unwrapped(SEXP x) {
  if (TYPEOF(x) != VECSXP || Rf_xlength(x) != 2) clu_raise("protocol", "an object arrived damaged");
  return VECTOR_ELT(x, 1);
}

static SEXP do_in(void *data) {
  stream *st = data;
  int wrapped = st->pos < st->b->size && st->b->data[st->pos] == CLU_SHARED_MARK;
  struct R_inpstream_st in;
  SEXP x;
  R_InitInPStream(&in, (R_pstream_data_t)st, R_pstream_any_format, in_char, in_bytes,
                  st->apart ? take_apart : NULL, st->apart ? st->apart : R_NilValue);
  st->pos += wrapped;
  st->before = clu_shared_reading(st->b->segments); /* what follows may jump */
  st->turn = clu_turn_pause();
  clu_shared_expect(st->b->segments);
  x = R_Unserialize(&in);
  clu_turn_resume(st->turn);
  clu_shared_reading(st->before);
  return wrapped ? unwrapped(x) : x;
}

static void drop(void *data, Rboolean jump) {
  stream *st = data;
  if (!jump) return;
  clu_shared_writing(st->outer);
  if (st->splice) clu_splice_end(st->splice);
  clu_blob_unref(st->b);
}

static void drop_always(void *data, Rboolean jump) {
  stream *st = data;
  if (jump) {
    clu_shared_reading(st->before);
    clu_turn_resume(st->turn); /* others may hold it, too */
  }
  clu_blob_unref(st->b);
  if (jump) clu_turn_pause();
}

/* One continuation token for all: only the innermost jump uses it. */
static SEXP cont(void) {
  static SEXP token;
  if (!token) {
    token = R_MakeUnwindCont();
    R_PreserveObject(token);
  }
  return token;
}

/* R keeps in the token what was returned last, which may be large. */
static SEXP unwind_protect(SEXP (*fun)(void *), stream *st, void (*clean)(void *, Rboolean)) {
  SEXP out = R_UnwindProtect(fun, st, clean, st, cont());
  SETCAR(cont(), R_NilValue);
  return out;
}

static clu_blob *serialize_by_r(clu_blob *b, SEXP x, clu_splice *splice, SEXP apart) {
  stream st = {.b = b, .x = x, .splice = splice, .apart = apart};
  unwind_protect(do_out, &st, drop);
  return st.b;
}

clu_blob *clu_serialize(clu_blob *b, SEXP x) {
  static int learned;
  if (!b) b = clu_blob_new(512);
  if (!b) clu_raise("memory", "not enough memory");
  if (!learned) {
    size_t before = b->size;
    learned = 1;
    b = serialize_by_r(b, R_NilValue, NULL, NULL);
    clu_plain_learn(b->data + before, b->size - before);
    b->size = before;
  }
  return clu_plain_put(b, x) ? b : serialize_by_r(b, x, NULL, NULL);
}

/* Others than small plain values. */
static clu_blob *serialize_sharing(clu_blob *b, SEXP x, size_t from, SEXP apart) {
  static const unsigned char mark = CLU_SHARED_MARK;
  static uint64_t messages;
  clu_splice splice;
  memset(&splice, 0, sizeof splice);
  if (!b) b = clu_blob_new(512);
  if (!b || clu_blob_append(b, &mark, 1) != 0) {
    clu_blob_unref(b);
    clu_raise("memory", "not enough memory");
  }
  splice.b = b;
  splice.number = ++messages;
  splice.from = from;
  splice.copies = apart != NULL;
  clu_shared_count(x, splice.number);
  b = serialize_by_r(b, PROTECT(clu_shared_wrap(x)), &splice, apart);
  UNPROTECT(1);
  clu_splice_end(&splice);
  if (splice.segment && clu_segment_seal(splice.segment) != CLU_OK) {
    clu_blob_unref(b);
    clu_raise("system", "a segment of shared memory cannot be sealed");
  }
  return b;
}

/* Room for what the vectors of `x` will take: piece by piece the blob would grow, and be copied,
 * many times. */
static clu_blob *with_room(clu_blob *b, SEXP x, size_t from) {
  size_t n = clu_bytes_at_least(x, from);
  if (n < 65536) return b;
  if (!b) b = clu_blob_new(512);
  if (b) clu_blob_reserve(b, n + n / 64 + 1024); /* without it grows as ever */
  return b;
}

/* The option; `b` is given up where it is no such number. */
static size_t share_from(clu_blob *b, int receivers) {
  size_t from = clu_share_from(receivers);
  if (from > 0) return from;
  clu_blob_unref(b);
  clu_raise("argument", "option 'clutch.share_from' has to be a number of bytes");
}

clu_blob *clu_serialize_for(clu_blob *b, SEXP x, int receivers) {
  size_t from = SIZE_MAX;
  /* they are named by their places in one list; to look for the option takes longer than to see
   * that a value is small */
  if (clu_may_have_large(x, CLU_SHARE_LEAST)) {
    if (receivers > 0 && !(b && b->segments)) from = share_from(b, receivers);
    b = with_room(b, x, from);
  }
  return clu_may_have_large(x, from) ? serialize_sharing(b, x, from, NULL) : clu_serialize(b, x);
}

typedef struct {
  const unsigned char *p;
  size_t left;
} memory;

static int read_memory(void *data, void *to, size_t n) {
  memory *m = data;
  if (n > m->left) return CLU_EOF;
  memcpy(to, m->p, n);
  m->p += n;
  m->left -= n;
  return CLU_OK;
}

SEXP clu_unserialize_bytes(const unsigned char *p, size_t n) {
  memory m = {p, n};
  SEXP x = clu_plain_get(p, n);
  return x ? x : clu_unserialize_from(read_memory, &m, NULL);
}

/* R frees values many at a time, when it collects. Where the C library gave that memory back to the
 * system, each page of each value was a page fault: of 1 MB there and back they took 0.6 of the
 * 1.05 ms of the session's processor time, and a quarter of the node's. */
static int keeps_freed;

void clu_expect_values(uint64_t size) {
  if (size < 65536) return;
  clu_os_keep_freed();
  keeps_freed = 1;
}

int clu_values_were_expected(void) { return keeps_freed; }

void clu_expect_no_values(void) {
  clu_os_release_memory();
  keeps_freed = 0;
}

SEXP clu_unserialize(clu_blob *b, size_t skip) {
  unsigned char few[2048];
  stream st = {.b = b, .pos = skip, .x = R_NilValue};
  size_t n;
  if (!b || b->size < skip) {
    clu_blob_unref(b);
    return R_NilValue;
  }
  n = b->size - skip;
  if (n <= sizeof few && !b->segments) { /* then there is nothing to free on a jump */
    memcpy(few, b->data + skip, n);
    clu_blob_unref(b);
    return clu_unserialize_bytes(few, n);
  }
  clu_expect_values(n);
  return unwind_protect(do_in, &st, drop_always);
}

/* share(): the object once more, its large vectors in segments of this process, which keep their
 * descriptors. What has none comes back as it is, and so does an environment. No two vectors of it
 * lie in the same place, so what is shared already is copied, too. */
SEXP ffi_share(SEXP x) {
  size_t from = share_from(NULL, 1);
  SEXP apart, out;
  clu_blob *b;
  stream st = {.x = R_NilValue};
  if (from != SIZE_MAX && from > CLU_SHARE_ASKED) from = CLU_SHARE_ASKED;
  if (!clu_may_have_large(x, from) || clu_shared_can_be_sent(x)) return x;
  apart = PROTECT(new_apart());
  b = serialize_sharing(NULL, x, from, apart);
  st.b = b;
  st.apart = apart;
  for (int i = 0; b->segments && i < b->segments->n; i++)
    if (clu_segment_map(b->segments->of[i]) != CLU_OK || !clu_shared_can_hold(b->segments->of[i])) {
      clu_blob_unref(b);
      UNPROTECT(1);
      return x; /* no room for another mapping: it stays as it is */
    }
  out = unwind_protect(do_in, &st, drop_always);
  UNPROTECT(1);
  return out;
}

SEXP clu_unserialize_from(clu_reader read, void *data, const clu_segments *segments) {
  struct R_inpstream_st in;
  const void *turn = clu_turn_pause();
  const clu_segments *before;
  SEXP x;
  pieces p;
  int wrapped, c;
  p.read = read;
  p.data = data;
  p.first = -1;
  R_InitInPStream(&in, (R_pstream_data_t)&p, R_pstream_any_format, in_piece_char, in_pieces, NULL,
                  R_NilValue);
  c = in_piece_char(&in);
  wrapped = c == CLU_SHARED_MARK;
  if (!wrapped) p.first = c;
  clu_shared_expect(segments);
  before = clu_shared_reading(segments);
  x = R_Unserialize(&in);
  clu_shared_reading(before);
  clu_turn_resume(turn);
  return wrapped ? unwrapped(x) : x;
}
