/* The state of a search for globals: a map, growing arrays, lists of what was found. */
#include "r/globals/globals.h"

#include <stdlib.h>
#include <string.h>

#include "core/base/grow.h"

/* ---- a map from pointers to numbers ---- */

static size_t slot_of(const clu_map *m, const void *key) {
  size_t at = (size_t)(((uintptr_t)key >> 4) * 0x9E3779B97F4A7C15u) & (m->cap - 1);
  while (m->key[at] && m->key[at] != key) at = (at + 1) & (m->cap - 1);
  return at;
}

/* Room for one more; 0 without memory. */
static int map_room(clu_map *m) {
  clu_map bigger;
  if (2 * m->n < m->cap) return 1;
  bigger.n = m->n;
  bigger.cap = m->cap ? 2 * m->cap : 16;
  bigger.key = calloc(bigger.cap, sizeof *bigger.key);
  bigger.value = malloc(bigger.cap * sizeof *bigger.value);
  if (!bigger.key || !bigger.value) {
    free(bigger.key);
    free(bigger.value);
    return 0;
  }
  for (size_t i = 0; i < m->cap; i++) {
    size_t at;
    if (!m->key[i]) continue;
    at = slot_of(&bigger, m->key[i]);
    bigger.key[at] = m->key[i];
    bigger.value[at] = m->value[i];
  }
  free(m->key);
  free(m->value);
  *m = bigger;
  return 1;
}

const uint64_t *clu_map_get(const clu_map *m, const void *key) {
  size_t at;
  if (!m->cap) return NULL;
  at = slot_of(m, key);
  return m->key[at] ? &m->value[at] : NULL;
}

static void map_free(clu_map *m) {
  free(m->key);
  free(m->value);
}

#define KEEP_MAP 1024 /* entries that a map keeps for the next search */

/* All is forgotten. */
static void map_reset(clu_map *m) {
  if (m->cap > KEEP_MAP) {
    map_free(m);
    memset(m, 0, sizeof *m);
  } else if (m->n) {
    memset(m->key, 0, m->cap * sizeof *m->key);
    m->n = 0;
  }
}

/* ---- the search ---- */

static SEXP tag_search(void) { return Rf_install("clutch_search"); }

static void search_free(SEXP x) {
  clu_search *s = R_ExternalPtrAddr(x);
  R_ClearExternalPtr(x);
  if (!s) return;
  map_free(&s->seen);
  map_free(&s->bodies);
  map_free(&s->symbols);
  map_free(&s->resolved);
  map_free(&s->packages);
  map_free(&s->texts);
  free(s->todo);
  free(s->uses);
  free(s->spans);
  free(s);
}

static void no_memory(void) { clu_raise("memory", "not enough memory"); }

void clu_map_put(clu_map *m, const void *key, uint64_t value) {
  size_t at;
  if (!map_room(m)) no_memory();
  at = slot_of(m, key);
  if (!m->key[at]) m->n++;
  m->key[at] = key;
  m->value[at] = value;
}

void clu_search_room(void *array, size_t *cap, size_t n, size_t size) {
  void **a = array, *more = clu_grow(*a, cap, n + 1, size);
  if (!more) no_memory();
  *a = more;
}

void clu_search_later(clu_search *s, SEXP x) {
  switch (TYPEOF(x)) {
  case NILSXP:
  case SYMSXP:
  case CHARSXP:
  case BUILTINSXP:
  case SPECIALSXP:
  case BCODESXP:
  case WEAKREFSXP: return;
  case EXTPTRSXP: s->has_pointer |= R_ExternalPtrAddr(x) != NULL; return;
  case LGLSXP:
  case INTSXP:
  case REALSXP:
  case CPLXSXP:
  case STRSXP:
  case RAWSXP:
    if (!clu_has_attributes(x)) return;
    break;
  default: break;
  }
  clu_search_room(&s->todo, &s->captodo, s->ntodo, sizeof *s->todo);
  s->todo[s->ntodo++] = x;
}

SEXP clu_search_found(const clu_search *s, int which) { return VECTOR_ELT(CAR(s->kept), which); }

void clu_search_find(clu_search *s, int which, SEXP x) {
  PROTECT(x);
  SET_VECTOR_ELT(CAR(s->kept), which, Rf_cons(x, clu_search_found(s, which)));
  UNPROTECT(1);
}

void clu_search_reset(clu_search *s) {
  map_reset(&s->seen);
  map_reset(&s->bodies);
  map_reset(&s->symbols);
  map_reset(&s->resolved);
  map_reset(&s->texts);
  map_reset(&s->packages);
  s->ntodo = s->nuses = s->nspans = s->assigned = s->first = 0;
  s->scope = s->scopes = s->branch = 0;
  s->has_pointer = s->has_task = 0;
  for (int k = 0; k < N_FOUND; k++) SET_VECTOR_ELT(CAR(s->kept), k, R_NilValue);
}

clu_search *clu_search_get(SEXP x) {
  clu_search *s =
      TYPEOF(x) == EXTPTRSXP && R_ExternalPtrTag(x) == tag_search() ? R_ExternalPtrAddr(x) : NULL;
  if (!s) clu_raise("argument", "this is no search");
  return s;
}

/* Tells whether it has met an external pointer that is not nil. */
SEXP ffi_globals_pointer(SEXP x) { return Rf_ScalarLogical(clu_search_get(x)->has_pointer); }

/* A search, for ffi_globals_search(). */
SEXP ffi_globals_new(void) {
  SEXP cell = PROTECT(Rf_cons(Rf_allocVector(VECSXP, N_FOUND), R_NilValue));
  SEXP x = PROTECT(R_MakeExternalPtr(NULL, tag_search(), cell));
  clu_search *s;
  R_RegisterCFinalizerEx(x, search_free, FALSE);
  s = calloc(1, sizeof *s);
  if (!s) no_memory();
  s->kept = cell;
  R_SetExternalPtrAddr(x, s);
  UNPROTECT(2);
  return x;
}
