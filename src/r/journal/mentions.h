/* Which names code mentions: a set of strings, and whether the code may ask for others. A text of
 * several words, such as a formula or a text with gaps that are filled in ("{x} of {n}"), mentions
 * each of them. Memory is R_alloc()'s. Strings are told apart as R does it, by their place in its
 * table. */
#ifndef CLUTCH_R_MENTIONS_H
#define CLUTCH_R_MENTIONS_H

#include "r/base/r-api.h"

typedef struct clu_mentions {
  SEXP *names; /* a table with open addressing */
  size_t n, cap;
  char **texts; /* copies of strings with several words */
  size_t ntexts, room;
  int all; /* it may ask for any */
} clu_mentions;

void clu_mentions_begin(clu_mentions *m);
/* The symbols and strings of the code of a function with these formal arguments, which are its own;
 * R_NilValue: it has none. */
void clu_mentions_add(clu_mentions *m, SEXP formals, SEXP code);
/* The strings of a short character vector, or of a list of them; of others none. */
void clu_mentions_add_texts(clu_mentions *m, SEXP x);
/* Where the names come from that a package on the search path has which not every R attaches: name
 * and package in turns, sorted by name. Variables of the workspace do not count. May allocate. */
SEXP clu_mentions_in_packages(const clu_mentions *m);
/* `name`: a string as R has it, a CHARSXP. */
int clu_mentions_has(const clu_mentions *m, SEXP name);

#endif
