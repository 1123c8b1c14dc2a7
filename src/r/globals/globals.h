/* The search for what code needs of this session. Four files, each of which uses only those before
 * it: search-state.c (the map, what is to be visited, what was found), free-symbols.c (the symbols
 * of code), search.c (objects, and where symbols lead), alone.c (code that needs nothing).
 *
 * The state belongs to an external pointer, so R errors and interrupts lose nothing. All functions
 * here raise an R error of class clutch_memory without memory. None blocks. */
#ifndef CLUTCH_R_GLOBALS_H
#define CLUTCH_R_GLOBALS_H

#include "r/base/r-api.h"

#include <stdint.h>

/* A map from pointers to numbers. Accepts zeroed memory. */
typedef struct clu_map {
  const void **key;
  uint64_t *value;
  size_t n, cap; /* cap is a power of two */
} clu_map;

/* NULL: it is not there. */
const uint64_t *clu_map_get(const clu_map *m, const void *key);
void clu_map_put(clu_map *m, const void *key, uint64_t value);

/* How a symbol is used, where it is not local: as a value, as a function; as a string. */
enum { USED = 1, CALLED = 2, AS_TEXT = 4 };

typedef struct clu_use {
  SEXP symbol;
  unsigned how;
  uint32_t local_at; /* the branch from which on it is local; 0: it is not */
} clu_use;

typedef struct clu_span {
  size_t first, n;
  SEXP formals; /* of the function */
} clu_span;

typedef struct clu_search {
  clu_map seen;     /* objects, visited */
  clu_map bodies;   /* of closures -> number of their span */
  clu_map symbols;  /* number of the scope << 32 | number in `uses` */
  clu_map resolved; /* symbols -> where they lead from the workspace on, plus 1: as value << 32 | as
                       function */
  clu_map texts;    /* strings in code, as symbols */
  clu_map packages; /* names of those whose S4 classes were met */
  SEXP *todo;       /* objects to be visited */
  size_t ntodo, captodo;
  clu_use *uses;
  size_t nuses, capuses;
  clu_span *spans;
  size_t nspans, capspans;
  size_t assigned;                /* assignments so far */
  size_t first;                   /* where in `uses` the function at hand begins */
  uint32_t scope, scopes, branch; /* its number; of all so far; how deep in branches */
  int has_task;                   /* one of cluster_submit() was met */
  int has_pointer;                /* an external pointer was met that is not nil */
  SEXP kept; /* a pairlist cell, held by the external pointer: what is found, see below */
} clu_search;

/* The list that `kept` holds and that is returned to R has these. */
enum { GLOBALS, PACKAGES, CLASSES, S4_PACKAGES, GENERICS, TEXTS, BY_NAME, HELD, N_FOUND };

/* The state behind an external pointer of ffi_globals_new(); an R error when it is none. */
clu_search *clu_search_get(SEXP x);
/* The object will be visited. Objects from which nothing can be reached are left out here: there
 * may be millions. */
void clu_search_later(clu_search *s, SEXP x);
/* Puts `x` in front of one of the lists. */
void clu_search_find(clu_search *s, int which, SEXP x);
/* One of the lists. */
SEXP clu_search_found(const clu_search *s, int which);
/* Makes room for one more element, of `size` bytes, behind the `n` of an array with room for
 * `*cap`. `array`: address of the pointer. */
void clu_search_room(void *array, size_t *cap, size_t n, size_t size);

/* Makes it as a new one, but with the memory that it has. */
void clu_search_reset(clu_search *s);

int clu_is_symbol(SEXP x, const char *name);
/* The symbols of a body with these formals, or of a formula. They are found once for all closures
 * that were made by the same code. What objects are in the code will be visited. */
clu_span clu_symbols_of(clu_search *s, SEXP formals, SEXP body);

/* The value of a promise, or of a symbol in `env`; R_NilValue where that is an error. Code of R may
 * run. Not protected. */
SEXP clu_try_value(SEXP expr, SEXP env);
/* Returns the same of a variable of `env` itself: R_NilValue also where it has none (an argument
 * that is missing). Of an active binding its function. */
SEXP clu_value_in(SEXP symbol, SEXP env);

/* Visits what is to be visited. */
void clu_search_go_on(clu_search *s);
/* The variables that `code` takes from elsewhere get, in `frame`, the values that they have in the
 * environments from `env` on, below `top`. Returns how many are left to R: their value would have
 * to be evaluated, is NULL, or is missing. Their names are in `names`, a character vector with room
 * for all symbols of the code, or NULL. */
R_xlen_t clu_search_locals(clu_search *s, SEXP code, SEXP env, SEXP top, SEXP frame, SEXP names);

#endif
