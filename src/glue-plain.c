/* Plain values to bytes and back: NULL, short logical, integer and double vectors without attributes, and short
 * lists of those. Most arguments and answers of small tasks are plain, and R_Serialize() makes a table of nine
 * kilobytes for each object before it looks at it.
 *
 * The bytes are those of R's own format (R Internals, section 1.8), so it does not matter which of the two
 * reads what which of them has written.
 */
#include "glue.h"

#include <string.h>

#define MOST 256         /* elements of a vector */
#define NILVALUE_FLAGS 254

static unsigned char head[64]; /* what an object's bytes begin with: format, versions, encoding */
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
  if (Rf_isObject(x) || ATTRIB(x) != R_NilValue || Rf_xlength(x) > MOST || ALTREP(x)) return 0;
  if (width(TYPEOF(x))) return 1;
  if (TYPEOF(x) != VECSXP || deep == 0) return 0;
  for (R_xlen_t i = 0; i < Rf_xlength(x); i++)
    if (!is_plain(VECTOR_ELT(x, i), deep - 1)) return 0;
  return 1;
}

static int put(clu_blob *b, SEXP x) {
  int word[2], n = (int)Rf_xlength(x), bad;
  word[0] = x == R_NilValue ? NILVALUE_FLAGS : TYPEOF(x);
  word[1] = n;
  bad = clu_blob_append(b, word, x == R_NilValue ? sizeof(int) : sizeof word);
  if (x == R_NilValue) return bad;
  switch (TYPEOF(x)) {
  case REALSXP: return bad | clu_blob_append(b, REAL(x), (size_t)n * sizeof(double));
  case INTSXP: return bad | clu_blob_append(b, INTEGER(x), (size_t)n * sizeof(int));
  case LGLSXP: return bad | clu_blob_append(b, LOGICAL(x), (size_t)n * sizeof(int));
  default:
    for (int i = 0; i < n; i++) bad |= put(b, VECTOR_ELT(x, i));
    return bad;
  }
}

int clu_plain_put(clu_blob *b, SEXP x) {
  size_t before = b->size;
  if (!nhead || !is_plain(x, 2)) return 0;
  if (clu_blob_append(b, head, nhead) == 0 && put(b, x) == 0) return 1;
  b->size = before;
  return 0;
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
  if ((flags != VECSXP || deep == 0) && !width(flags)) return NULL; /* with attributes there are more bits */
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

SEXP clu_plain_get(const unsigned char *p, size_t n) {
  bytes in = {p, n};
  if (!nhead || n < nhead || memcmp(p, head, nhead) != 0) return NULL;
  in.p += nhead;
  in.left -= nhead;
  return get(&in, 2);
}
