/* R objects to bytes and back, by R's own serialization. Plain values take a shorter way:
 * serialize-plain.c. */
#include "r/r-api.h"
#include "r/turn.h"

#include <string.h>

/* Code of R may run while R's own functions write and read objects: the turn at the session is
 * given back meanwhile. The bytes are nobody else's, or are not written to. */
typedef struct {
  clu_blob *b;
  size_t pos;
  SEXP x;
  const void *turn;
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
} pieces;

static void in_pieces(R_inpstream_t s, void *buf, int n) {
  pieces *p = (pieces *)s->data;
  int rc = n < 0 ? CLU_PROTO : p->read(p->data, buf, (size_t)n);
  if (rc != CLU_OK) clu_raise("protocol", "an object arrived incomplete: %s", clu_code_text(rc));
}

static int in_piece_char(R_inpstream_t s) {
  unsigned char c;
  in_pieces(s, &c, 1);
  return c;
}

static SEXP do_out(void *data) {
  stream *st = data;
  struct R_outpstream_st out;
  /* the sender is the same build of R on the same machine: native byte order, version 3 */
  R_InitOutPStream(&out, (R_pstream_data_t)st, R_pstream_binary_format, 3, out_char, out_bytes,
                   NULL, R_NilValue);
  st->turn = clu_turn_pause();
  R_Serialize(st->x, &out);
  clu_turn_resume(st->turn);
  return R_NilValue;
}

static SEXP do_in(void *data) {
  stream *st = data;
  struct R_inpstream_st in;
  SEXP x;
  R_InitInPStream(&in, (R_pstream_data_t)st, R_pstream_any_format, in_char, in_bytes, NULL,
                  R_NilValue);
  st->turn = clu_turn_pause();
  x = R_Unserialize(&in);
  clu_turn_resume(st->turn);
  return x;
}

static void drop(void *data, Rboolean jump) {
  stream *st = data;
  if (jump) clu_blob_unref(st->b);
}

static void drop_always(void *data, Rboolean jump) {
  stream *st = data;
  if (jump) clu_turn_resume(st->turn); /* others may hold it, too */
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

static clu_blob *serialize_by_r(clu_blob *b, SEXP x) {
  stream st;
  st.b = b;
  st.pos = 0;
  st.x = x;
  st.turn = NULL;
  R_UnwindProtect(do_out, &st, drop, &st, cont());
  return st.b;
}

clu_blob *clu_serialize(clu_blob *b, SEXP x) {
  static int learned;
  if (!b) b = clu_blob_new(512);
  if (!b) clu_raise("memory", "not enough memory");
  if (!learned) {
    size_t before = b->size;
    learned = 1;
    b = serialize_by_r(b, R_NilValue);
    clu_plain_learn(b->data + before, b->size - before);
    b->size = before;
  }
  return clu_plain_put(b, x) ? b : serialize_by_r(b, x);
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
  return x ? x : clu_unserialize_from(read_memory, &m);
}

SEXP clu_unserialize(clu_blob *b, size_t skip) {
  unsigned char few[2048];
  stream st;
  size_t n;
  if (!b || b->size < skip) {
    clu_blob_unref(b);
    return R_NilValue;
  }
  n = b->size - skip;
  if (n <= sizeof few) { /* then there is nothing to free on a jump */
    memcpy(few, b->data + skip, n);
    clu_blob_unref(b);
    return clu_unserialize_bytes(few, n);
  }
  st.b = b;
  st.pos = skip;
  st.x = R_NilValue;
  st.turn = NULL;
  return R_UnwindProtect(do_in, &st, drop_always, &st, cont());
}

SEXP clu_unserialize_from(clu_reader read, void *data) {
  struct R_inpstream_st in;
  const void *turn = clu_turn_pause();
  SEXP x;
  pieces p;
  p.read = read;
  p.data = data;
  R_InitInPStream(&in, (R_pstream_data_t)&p, R_pstream_any_format, in_piece_char, in_pieces, NULL,
                  R_NilValue);
  x = R_Unserialize(&in);
  clu_turn_resume(turn);
  return x;
}
