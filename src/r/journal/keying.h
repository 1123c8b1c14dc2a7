/* The files of keys share this: a hash that is being made, and what it has met. For these only. */
#ifndef CLUTCH_R_KEYING_H
#define CLUTCH_R_KEYING_H

#include "r/journal/keys.h"

/* A map from numbers to the order in which they came. Its memory is R_alloc()'s. */
typedef struct clu_seen {
  uint64_t *key, *place;
  size_t n, cap;
} clu_seen;

typedef struct clu_keying {
  clu_hash h;
  clu_seen seen;
  int all;   /* of the environments of functions all variables count */
  SEXP made; /* see clu_key_of() */
} clu_keying;

/* Its number, from 1, if this was met before; else 0, and it is from now on. */
uint64_t clu_key_meet(clu_keying *k, uint64_t what);

/* Pieces of what is hashed. */
void clu_key_tag(clu_keying *k, char c);
void clu_key_number(clu_keying *k, uint64_t x);
void clu_key_characters(clu_keying *k, const char *text);
void clu_key_text(clu_keying *k, SEXP x); /* a CHARSXP */
/* A vector without its attributes; `element` is for those of lists. */
void clu_key_vector(clu_keying *k, SEXP x, void (*element)(clu_keying *, SEXP));
/* How many attributes follow. */
void clu_key_attributes(clu_keying *k, int n, int is_s4);
/* The key of a value of a plain vector, as the vector of length one that a node gets. */
void clu_key_of_scalar(SEXP x, R_xlen_t i, const unsigned char *start, unsigned char out[CLU_HASH]);

#endif
