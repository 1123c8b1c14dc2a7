/* Plain values to bytes and back: NULL, short logical, integer and double vectors without
 * attributes, and short lists of those. Most arguments and answers of small tasks are plain, and
 * R_Serialize() makes a table of nine kilobytes for each object before it writes the first byte.
 *
 * The bytes are those of R's own format (R Internals, section 1.8), so R reads what was written
 * here, and this reads what R has written.
 */
#include "r/serialize/serialize.h"

#include <string.h>

#define MOST 256 /* elements of a vector */
#define NILVALUE_FLAGS 254

static unsigned char head[64]; /* the header of a serialized object: format, versions, encoding */
static size_t nhead;

void clu_plain_learn(const unsigned char *null, size_t n) {
  if (n <= sizeof(int) || n - sizeof(int) > sizeof head) return;
  nhead = n - sizeof(int);
  memcpy(head, null, nhead);
}

static size_t width(int type) {
  return type == REALSXP ? sizeof(double) : type == INTSXP || type == LGLSXP ? sizeof(int) : 0;
}

static int is_plain(SEXP x, int deep) {
  if (x == R_NilValue) return 1;
  if (Rf_isObject(x) || clu_has_attributes(x) || Rf_xlength(x) > MOST || ALTREP(x)) return 0;
  if (width(TYPEOF(x))) return 1;
  if (TYPEOF(x) != VECSXP || deep == 0) return 0;
  for (R_xlen_t i = 0; i < Rf_xlength(x); i++)
    if (!is_plain(VECTOR_ELT(x, i), deep - 1)) return 0;
  return 1;
}

/* Bytes of a plain value. */
static size_t size_of(SEXP x) {
  size_t n = 2 * sizeof(int);
  if (x == R_NilValue) return sizeof(int);
  if (TYPEOF(x) != VECSXP) return n + width(TYPEOF(x)) * (size_t)Rf_xlength(x);
  for (R_xlen_t i = 0; i < Rf_xlength(x); i++) n += size_of(VECTOR_ELT(x, i));
  return n;
}

static const void *values_of(SEXP x) {
  switch (TYPEOF(x)) {
  case REALSXP: return REAL(x);
  case INTSXP: return INTEGER(x);
  default: return LOGICAL(x);
  }
}

static unsigned char *put(unsigned char *p, SEXP x) {
  int word[2], n = (int)Rf_xlength(x);
  word[0] = x == R_NilValue ? NILVALUE_FLAGS : TYPEOF(x);
  word[1] = n;
  if (x == R_NilValue) {
    memcpy(p, word, sizeof(int));
    return p + sizeof(int);
  }
  memcpy(p, word, sizeof word);
  p += sizeof word;
  if (TYPEOF(x) == VECSXP) {
    for (int i = 0; i < n; i++) p = put(p, VECTOR_ELT(x, i));
    return p;
  }
  memcpy(p, values_of(x), width(TYPEOF(x)) * (size_t)n);
  return p + width(TYPEOF(x)) * (size_t)n;
}

size_t clu_plain_bare(unsigned char *p, size_t n, SEXP x) {
  size_t need;
  if (!is_plain(x, 2) || (need = size_of(x)) > n) return 0;
  put(p, x);
  return need;
}

int clu_plain_put(clu_blob *b, SEXP x) {
  size_t before = b->size, n;
  if (!nhead || !is_plain(x, 2)) return 0;
  n = size_of(x);
  if (clu_blob_append(b, head, nhead) != 0 || clu_blob_append(b, NULL, n) != 0) {
    b->size = before;
    return 0;
  }
  put(b->data + b->size - n, x);
  return 1;
}

typedef struct {
  const unsigned char *p;
  size_t left;
} bytes;

static int take(bytes *in, void *to, size_t n) {
  if (n > in->left) return 0;
  memcpy(to, in->p, n);
  in->p += n;
  in->left -= n;
  return 1;
}

/* NULL where it is not plain. */
static SEXP get(bytes *in, int deep) {
  int flags, n;
  SEXP x;
  if (!take(in, &flags, sizeof flags)) return NULL;
  if (flags == NILVALUE_FLAGS) return R_NilValue;
  if ((flags != VECSXP || deep == 0) && !width(flags))
    return NULL; /* with attributes there are more bits */
  if (!take(in, &n, sizeof n) || n < 0 || n > MOST) return NULL;
  if (width(flags) * (size_t)n > in->left) return NULL;
  x = PROTECT(Rf_allocVector((SEXPTYPE)flags, n));
  if (flags == REALSXP) {
    take(in, REAL(x), (size_t)n * sizeof(double));
  } else if (flags == INTSXP) {
    take(in, INTEGER(x), (size_t)n * sizeof(int));
  } else if (flags == LGLSXP) {
    take(in, LOGICAL(x), (size_t)n * sizeof(int));
  } else {
    for (int i = 0; i < n; i++) {
      SEXP element = get(in, deep - 1);
      if (!element) {
        UNPROTECT(1);
        return NULL;
      }
      SET_VECTOR_ELT(x, i, element);
    }
  }
  UNPROTECT(1);
  return x;
}

SEXP clu_plain_bare_get(const unsigned char *p, size_t n) {
  bytes in = {p, n};
  SEXP x = get(&in, 2);
  if (!x) clu_raise("protocol", "an object arrived damaged");
  return x;
}

SEXP clu_plain_get(const unsigned char *p, size_t n) {
  bytes in = {p, n};
  if (!nhead || n < nhead || memcmp(p, head, nhead) != 0) return NULL;
  in.p += nhead;
  in.left -= nhead;
  return get(&in, 2);
}
