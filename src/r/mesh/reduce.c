/* Vectors of all ranks become one, element by element. */
#include "r/mesh/mesh.h"

#include "r/serialize/serialize.h"

typedef struct reduction {
  clu_meeting why;
  size_t width, at, n; /* bytes of an element; the piece at hand */
} reduction;

static int type_of(SEXP x) {
  return TYPEOF(x) == REALSXP  ? CLU_REDUCE_DOUBLE
         : TYPEOF(x) == INTSXP ? CLU_REDUCE_INT
                               : CLU_REDUCE_LOGICAL;
}

static const unsigned char *bytes_of(SEXP x) {
  return TYPEOF(x) == REALSXP  ? (const unsigned char *)REAL_RO(x)
         : TYPEOF(x) == INTSXP ? (const unsigned char *)INTEGER_RO(x)
                               : (const unsigned char *)LOGICAL_RO(x);
}

static unsigned char *room_of(SEXP x) {
  return TYPEOF(x) == REALSXP  ? (unsigned char *)REAL(x)
         : TYPEOF(x) == INTSXP ? (unsigned char *)INTEGER(x)
                               : (unsigned char *)LOGICAL(x);
}

/* 0: it has none. */
static uint32_t shape_of(SEXP x) {
  SEXP dim = Rf_getAttrib(x, R_DimSymbol);
  uint32_t h = 0;
  for (R_xlen_t i = 0; TYPEOF(dim) == INTSXP && i < Rf_xlength(dim); i++)
    h = (h + 1) * 16777619u ^ (uint32_t)INTEGER(dim)[i];
  return h;
}

/* One piece: all put theirs, each computes a share, and who wants it copies the result. */
static void reduce_piece(const reduction *r, const unsigned char *from, unsigned char *to,
                         int *overflow) {
  clu_mesh *m = clu_part_mesh();
  clu_meeting first = r->why, second = r->why;
  void *own, *result;
  clu_err e = {0};
  if (clu_mesh_reduce_room(m, r->n * r->width, &own, &result, &e) != CLU_OK) clu_raise_err(&e);
  if (r->n) memcpy(own, from + r->at * r->width, r->n * r->width);
  first.is_of_host = 1;
  clu_part_meet(&first);
  if (clu_mesh_reduce(m, (int)r->why.op, (int)r->why.type, r->n, overflow, &e) != CLU_OK)
    clu_raise_err(&e);
  second.kind += CLU_MEET_RESULT;
  clu_part_meet(&second);
  *overflow |= clu_mesh_has_overflowed(m);
  if (to && r->n) memcpy(to + r->at * r->width, result, r->n * r->width);
}

/* `x` of all ranks, by one of enum clu_reduce_op: in the order of ranks. `kind`: the function.
 * `root`: who gets it, others NULL; 0: all. */
SEXP ffi_mesh_reduce(SEXP x, SEXP op, SEXP kind, SEXP root) {
  clu_mesh *m = clu_part_mesh();
  size_t n = (size_t)Rf_xlength(x), most;
  int to = Rf_asInteger(root), overflow = 0, wanted = to == 0 || to == clu_mesh_rank(m) + 1;
  SEXP out;
  reduction r = {.why = {.kind = (uint32_t)Rf_asInteger(kind),
                         .op = (uint32_t)Rf_asInteger(op),
                         .type = (uint32_t)type_of(x),
                         .root = (uint32_t)to,
                         .shape = shape_of(x),
                         .n = n},
                 .width = TYPEOF(x) == REALSXP ? sizeof(double) : sizeof(int)};
  clu_expect_values(wanted ? n * r.width : 0);
  out = PROTECT(wanted ? Rf_allocVector((SEXPTYPE)TYPEOF(x), (R_xlen_t)n) : R_NilValue);
  most = (size_t)CLU_REDUCE_BYTES / r.width;
  do {
    r.n = n - r.at < most ? n - r.at : most;
    reduce_piece(&r, bytes_of(x), wanted ? room_of(out) : NULL, &overflow);
    r.at += r.n;
  } while (r.at < n);
  if (wanted) SHALLOW_DUPLICATE_ATTRIB(out, x);
  if (overflow) Rf_warning("NAs produced by integer overflow");
  UNPROTECT(1);
  return out;
}
