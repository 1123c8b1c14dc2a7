/* This file has what stands in place of a vector in what R writes: its bytes in a segment, and an
 * ALTREP object that says where. */
#include "r/share/share.h"

/* Parts of R's format, see "R Internals", section 1.8, and serialize.c of R's sources. */
enum {
  HAS_ATTRIBUTES = 1 << 9,
  HAS_TAG = 1 << 10,
  ALTREP_ITEM = 238,
  NIL_ITEM = 254,
  FIRST_SYMBOL = 1 << 8 | 255
};

int clu_splice_words(clu_splice *s, const int *words, int n) {
  return clu_blob_append(s->b, words, sizeof *words * (size_t)n) == 0;
}

int clu_splice_segment(clu_splice *s, const void *p, size_t n) {
  clu_segment *seg = s->segment ? s->segment : s->from < SIZE_MAX ? clu_segment_new() : NULL;
  if (seg) {
    s->at = clu_segment_align(seg);
    if (clu_segment_append(seg, p, n) == CLU_OK) {
      if (s->segment) return 1;
      s->place = clu_blob_attach(s->b, seg);
      if (s->place >= 0) {
        s->segment = seg;
        return 1;
      }
    }
    if (!s->segment) clu_segment_unref(seg);
  }
  s->from = SIZE_MAX;
  return 0;
}

int clu_splice_item(clu_splice *s, const double *state, int n) {
  int item[] = {ALTREP_ITEM | (s->head[0] & ~(255 | HAS_ATTRIBUTES | HAS_TAG)),
                LISTSXP,
                FIRST_SYMBOL,
                LISTSXP,
                FIRST_SYMBOL,
                LISTSXP,
                INTSXP,
                1,
                RAWSXP,
                NIL_ITEM,
                REALSXP,
                n};
  return clu_splice_words(s, item, (int)(sizeof item / sizeof *item)) &&
         clu_blob_append(s->b, state, sizeof *state * (size_t)n) == 0;
}

int clu_splice_item_end(clu_splice *s) {
  int nil = NIL_ITEM;
  return s->head[0] & HAS_ATTRIBUTES || clu_splice_words(s, &nil, 1);
}
