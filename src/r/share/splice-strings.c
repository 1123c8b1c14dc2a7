/* Character vectors in what R writes. Their elements come one by one, so it is known only at the
 * end, or once they are too many, how large a vector is: until then it is written as ever, and read
 * back from the blob if it turns out to be large. */
#include "r/share/share.h"

#include <stdlib.h>
#include <string.h>

enum { CHARACTER = STRSXP, ELEMENT = CHARSXP, FLAGS_SHIFT = 12, MANY = 8192, MOST_SYMBOL = 10000 };

/* Written to the segment when it is full. */
typedef struct clu_string_pieces {
  uint64_t ends[MANY];
  char text[MANY * sizeof(uint64_t)];
  size_t nends, ntext;
  uint64_t ends_before, text_before; /* elements and bytes that are in the segment */
} pieces;

/* ---- to the segment ---- */

static uint64_t text_at(const clu_splice *s) { return s->at + s->strings.n * sizeof(uint64_t); }

static int flush_ends(clu_splice *s) {
  pieces *p = s->strings.pieces;
  size_t n = p->nends * sizeof *p->ends;
  if (n == 0) return 1;
  if (clu_segment_put(s->segment, s->at + p->ends_before * sizeof *p->ends, p->ends, n) != CLU_OK)
    return 0;
  p->ends_before += p->nends;
  p->nends = 0;
  return 1;
}

static int put_text(clu_splice *s, const void *text, size_t n) {
  pieces *p = s->strings.pieces;
  if (n > sizeof p->text - p->ntext && p->ntext > 0) {
    if (clu_segment_put(s->segment, text_at(s) + p->text_before, p->text, p->ntext) != CLU_OK)
      return 0;
    p->text_before += p->ntext;
    p->ntext = 0;
  }
  if (n >= sizeof p->text) {
    if (clu_segment_put(s->segment, text_at(s) + p->text_before, text, n) != CLU_OK) return 0;
    p->text_before += n;
    return 1;
  }
  memcpy(p->text + p->ntext, text, n);
  p->ntext += n;
  return 1;
}

/* Says what kind the element at hand is; -1: nobody else can read its encoding. */
static int kind_of(clu_splice_strings *v) {
  int kind = v->flags >> FLAGS_SHIFT & CLU_STRING_KINDS;
  if (v->length < 0) return CLU_STRING_MISSING;
  if (kind || v->length == 0) return kind;
  if (!v->native) v->native = clu_native_encoding();
  return v->native ? 0 : -1;
}

/* The element at hand has come. 0: the segment does not take it. */
static int put_element(clu_splice *s, const void *text) {
  clu_splice_strings *v = &s->strings;
  pieces *p = v->pieces;
  int kind = kind_of(v);
  size_t n = v->length > 0 ? (size_t)v->length : 0;
  if (kind < 0 || (p->nends == MANY && !flush_ends(s)) || (n > 0 && !put_text(s, text, n)))
    return 0;
  p->ends[p->nends++] = (v->text + n) << 8 | (uint64_t)kind;
  return 1;
}

static int flush(clu_splice *s) {
  pieces *p = s->strings.pieces;
  if (!flush_ends(s)) return 0;
  if (p->ntext == 0) return 1;
  return clu_segment_put(s->segment, text_at(s) + p->text_before, p->text, p->ntext) == CLU_OK;
}

/* ---- and back ---- */

/* The bytes begin at `base` in the segment, and go on in `rest` after `before` bytes. */
static int read_back(const clu_splice *s, uint64_t base, uint64_t before, const void *rest,
                     uint64_t at, void *to, size_t n) {
  size_t k = at >= before ? 0 : before - at < n ? (size_t)(before - at) : n;
  if (k > 0 && clu_segment_read(s->segment, base + at, to, k) != CLU_OK) return 0;
  if (n > k) memcpy((char *)to + k, (const char *)rest + (at + k - before), n - k);
  return 1;
}

static int text_back(clu_splice *s, uint64_t at, uint64_t end) {
  const pieces *p = s->strings.pieces;
  char some[4096];
  for (size_t n; at < end; at += n) {
    n = end - at < sizeof some ? (size_t)(end - at) : sizeof some;
    if (!read_back(s, text_at(s), p->text_before, p->text, at, some, n) ||
        clu_blob_append(s->b, some, n) != 0)
      return 0;
  }
  return 1;
}

static int elements_back(clu_splice *s) {
  const pieces *p = s->strings.pieces;
  uint64_t ends[512], text = 0, done = s->strings.done;
  for (uint64_t i = 0, k; i < done; i += k) {
    k = done - i < 512 ? done - i : 512;
    if (!read_back(s, s->at, p->ends_before * sizeof *ends, p->ends, i * sizeof *ends, ends,
                   (size_t)k * sizeof *ends))
      return 0;
    for (uint64_t j = 0; j < k; j++) {
      int missing = (ends[j] & CLU_STRING_MISSING) != 0;
      int kind = (int)(ends[j] & CLU_STRING_KINDS);
      uint64_t end = ends[j] >> 8;
      int words[] = {ELEMENT | kind << FLAGS_SHIFT, missing ? -1 : (int)(end - text)};
      if (!clu_splice_words(s, words, 2) || !text_back(s, text, end)) return 0;
      text = end;
    }
  }
  return 1;
}

/* All that the segment has of this vector goes to the blob after all. 0, or CLU_NOMEM. */
static int give_up(clu_splice *s) {
  clu_splice_strings *v = &s->strings;
  int pending[] = {v->flags, v->length}; /* of the element at hand */
  int ok = clu_splice_words(s, s->head, 2) && elements_back(s) &&
           clu_splice_words(s, pending, (int)v->next);
  v->where = CLU_NO_STRINGS;
  s->from = SIZE_MAX;
  return ok ? 0 : CLU_NOMEM;
}

/* ---- element by element ---- */

static int are_flags(const void *p, size_t n, int *flags) {
  if (n != sizeof *flags) return 0;
  memcpy(flags, p, n);
  return (*flags & ~(CLU_STRING_KINDS << FLAGS_SHIFT)) == ELEMENT;
}

/* 1: `p` is what has to come next; `*complete`: and the end of an element. */
static int take_piece(clu_splice_strings *v, const void *p, size_t n, int *complete) {
  int flags;
  *complete = 0;
  switch (v->next) {
  case CLU_STRING_FLAGS:
    if (!are_flags(p, n, &flags)) return n == 0; /* the text of "" */
    v->flags = flags;
    return 1;
  case CLU_STRING_LENGTH:
    if (n != sizeof v->length) return 0;
    memcpy(&v->length, p, n);
    *complete = v->length <= 0;
    return v->length >= -1;
  default: *complete = 1; return n == (size_t)v->length;
  }
}

static void go_on(clu_splice_strings *v, size_t n, int complete) {
  if (complete) {
    v->done++;
    v->text += v->length > 0 ? (uint64_t)v->length : 0;
    v->next = CLU_STRING_FLAGS;
  } else if (n > 0)
    v->next++;
}

static int finish(clu_splice *s) {
  clu_splice_strings *v = &s->strings;
  double state[CLU_STATE_STRINGS] = {(double)s->place, (double)s->at,   CHARACTER,
                                     (double)v->n,     (double)v->text, v->native};
  if (!flush(s)) return give_up(s) == 0 ? 1 : CLU_NOMEM;
  v->where = CLU_NO_STRINGS;
  return clu_splice_item(s, state, CLU_STATE_STRINGS) && clu_splice_item_end(s) ? 1 : CLU_NOMEM;
}

/* Does as clu_splice_bytes(). All that does not belong here ends the vector, wherever it is. */
static int to_segment(clu_splice *s, const void *p, size_t n) {
  clu_splice_strings *v = &s->strings;
  int complete, fits = take_piece(v, p, n, &complete);
  if (!fits || (complete && !put_element(s, p))) return give_up(s);
  go_on(v, n, complete);
  return v->done < v->n ? 1 : finish(s);
}

/* ---- from the blob to the segment ---- */

static int begin_in_segment(clu_splice *s) {
  static const uint64_t zero;
  pieces *p = s->strings.pieces;
  if (!p) p = s->strings.pieces = malloc(sizeof *p);
  if (!p || !clu_splice_segment(s, &zero, sizeof zero)) {
    s->from = SIZE_MAX;
    return 0;
  }
  p->nends = p->ntext = 0;
  p->ends_before = p->text_before = 0;
  return 1;
}

/* Moves what the blob has of this vector. */
static int move(clu_splice *s) {
  clu_splice_strings *v = &s->strings;
  const unsigned char *from = s->b->data + s->item + 2 * sizeof(int);
  const unsigned char *end = s->b->data + s->b->size;
  if (!begin_in_segment(s)) return 1;
  v->where = CLU_STRINGS_IN_SEGMENT;
  v->next = CLU_STRING_FLAGS;
  v->done = v->text = 0;
  while (from < end) {
    size_t n = v->next == CLU_STRING_TEXT ? (size_t)v->length : sizeof(int);
    int complete;
    take_piece(v, from, n, &complete);
    if (complete && !put_element(s, from)) break;
    go_on(v, n, complete);
    from += n;
  }
  if (from == end) {
    s->b->size = s->item;
    return 1;
  }
  v->where = CLU_NO_STRINGS; /* the blob still has it */
  s->from = SIZE_MAX;
  return 0;
}

static int is_large(const clu_splice *s) {
  const clu_splice_strings *v = &s->strings;
  uint64_t bytes = v->n * sizeof(uint64_t) + v->text;
  int coming = v->next == CLU_STRING_TEXT ? v->length : 0;
  /* a single one may be the name of a symbol, if the number before was no vector's flags */
  if (v->n == 1 && coming <= MOST_SYMBOL) return 0;
  return bytes + (uint64_t)coming >= s->from;
}

static int in_blob(clu_splice *s, const void *p, size_t n) {
  clu_splice_strings *v = &s->strings;
  int complete;
  if (is_large(s) && move(s) && v->where == CLU_STRINGS_IN_SEGMENT) return to_segment(s, p, n);
  if (v->where == CLU_NO_STRINGS) return 0;
  if (!take_piece(v, p, n, &complete)) {
    v->where = CLU_NO_STRINGS;
    return CLU_STRINGS_NONE;
  }
  go_on(v, n, complete);
  if (v->done == v->n) v->where = CLU_NO_STRINGS;
  return 0;
}

int clu_strings_bytes(clu_splice *s, const void *p, size_t n) {
  return s->strings.where == CLU_STRINGS_IN_SEGMENT ? to_segment(s, p, n) : in_blob(s, p, n);
}

int clu_strings_begin(clu_splice *s, const void *p, size_t n) {
  clu_splice_strings *v = &s->strings;
  const int *head = s->words + s->nwords - 2;
  int flags;
  if (s->nwords < 2 || s->from == SIZE_MAX || !are_flags(p, n, &flags)) return 0;
  if ((head[0] & 255) != CHARACTER || head[1] < 1) return 0;
  v->where = CLU_STRINGS_IN_BLOB;
  v->next = CLU_STRING_FLAGS;
  v->n = (uint64_t)head[1];
  v->done = v->text = 0;
  v->native = 0;
  memcpy(s->head, head, sizeof *head * 2);
  s->item = s->b->size - 2 * sizeof(int);
  s->nwords = 0;
  return 1;
}
