#include "r/tasks/needs.h"

#include <string.h>

void clu_needs_of(clu_task_spec *spec, SEXP needs) {
  SEXP table = VECTOR_ELT(needs, 0), of = VECTOR_ELT(needs, 1);
  int rows = Rf_nrows(table), n = Rf_ncols(table);
  clu_need *all = (clu_need *)R_alloc((size_t)n + 1, sizeof *all);
  memset(all, 0, (size_t)n * sizeof *all);
  for (int k = 0; k < n; k++) {
    const double *at = REAL(table) + (R_xlen_t)k * rows;
    all[k].memory = (int64_t)at[0];
    all[k].cores = (uint32_t)at[1];
    all[k].exact = (uint32_t)Rf_asLogical(VECTOR_ELT(needs, 2));
    for (int i = 2; i < rows && i - 2 < CLU_KINDS; i++) all[k].parts[i - 2] = (uint32_t)at[i];
  }
  spec->needs = all;
  spec->nneeds = (uint32_t)n;
  if (of == R_NilValue) return;
  spec->need_of = (const uint32_t *)INTEGER(of);
}

static const char **texts_of(SEXP x) {
  const char **texts = (const char **)R_alloc((size_t)Rf_xlength(x) + 1, sizeof *texts);
  for (R_xlen_t i = 0; i < Rf_xlength(x); i++) texts[i] = Rf_translateCharUTF8(STRING_ELT(x, i));
  return texts;
}

/* Tells what the hosts of these nodes have. `kinds`: names of kinds; `cores`: by host; `units`:
 * names of units with commas between, a matrix with a row for each kind and a column for each host;
 * `host_of`: by node the number of its host, from 0. */
SEXP ffi_tasks_resources(SEXP x, SEXP kinds, SEXP cores, SEXP units, SEXP host_of) {
  clu_engine *t = clu_tasks_get(x);
  clu_resources r = {Rf_length(cores), Rf_length(kinds), texts_of(kinds), NULL,
                     texts_of(units),  INTEGER(host_of)};
  uint32_t *n = (uint32_t *)R_alloc((size_t)r.hosts + 1, sizeof *n);
  for (int i = 0; i < r.hosts; i++) n[i] = (uint32_t)INTEGER(cores)[i];
  r.cores = n;
  if (r.kinds > CLU_KINDS || Rf_length(host_of) < clu_engine_size(t))
    clu_raise("argument", "there are too many kinds of units, or too few hosts");
  if (clu_engine_set_resources(t, &r) != CLU_OK) clu_raise("memory", "not enough memory");
  return R_NilValue;
}

/* By node what its task was given of its host, as text: see clu_engine_granted(); NA: nothing. */
SEXP ffi_tasks_granted(SEXP x) {
  clu_engine *t = clu_tasks_get(x);
  SEXP out = PROTECT(Rf_allocVector(STRSXP, clu_engine_size(t)));
  for (int i = 0; i < clu_engine_size(t); i++) SET_STRING_ELT(out, i, NA_STRING);
  for (int i = 0; i < clu_engine_size(t); i++) {
    clu_blob *b = clu_engine_granted(t, i);
    char text[1000] = "";
    size_t n = b ? (b->size < sizeof text ? b->size : sizeof text - 1) : 0;
    if (!b) continue;
    memcpy(text, b->data, n);
    clu_blob_unref(b);
    SET_STRING_ELT(out, i, Rf_mkCharLenCE(text, (int)n, CE_UTF8));
  }
  UNPROTECT(1);
  return out;
}
