/* Vectors of R as the elements of JSON arrays: text with commas between them. See R/base-json.R,
 * which decides what is written in which way, and escapes strings. */
#include "r/base/r-api.h"

#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { LONGEST = 26 }; /* of a number, with its comma */

/* The text of a whole number, as "%.0f" has it. */
static char *put_whole(char *to, double x) {
  char digits[24];
  int n = 0;
  uint64_t rest = (uint64_t)fabs(x);
  if (x < 0) *to++ = '-';
  do digits[n++] = (char)('0' + rest % 10);
  while (rest /= 10);
  while (n) *to++ = digits[--n];
  return to;
}

/* Writes a number as "%.16g" does. Frequent ones are done without printf(), which takes 0.5 us:
 * whole numbers, and times since the epoch, which have 10 digits, and so 6 more. */
static char *put_number(char *to, double x) {
  if (x == floor(x) && fabs(x) < 1e15) return put_whole(to, x);
  if (x >= 1e9 && x < 9.9e9) {
    double whole = floor(x), millionths = nearbyint((x - whole) * 1e6);
    int n = 6, rest;
    if (millionths >= 1e6) return put_whole(to, whole + 1);
    to = put_whole(to, whole);
    rest = (int)millionths;
    if (!rest) return to;
    *to++ = '.';
    for (int k = 5; k >= 0; k--, rest /= 10) to[k] = (char)('0' + rest % 10);
    while (to[n - 1] == '0') n--;
    return to + n;
  }
  return to + snprintf(to, LONGEST - 1, "%.16g", x);
}

static char *put_word(char *to, const char *word) {
  size_t n = strlen(word);
  memcpy(to, word, n);
  return to + n;
}

static char *put_element(char *to, SEXP x, R_xlen_t i) {
  int k;
  double d;
  if (TYPEOF(x) == REALSXP) {
    d = REAL_ELT(x, i);
    return R_finite(d) ? put_number(to, d) : put_word(to, "null");
  }
  k = TYPEOF(x) == INTSXP ? INTEGER_ELT(x, i) : LOGICAL_ELT(x, i);
  if (k == NA_INTEGER) return put_word(to, "null");
  if (TYPEOF(x) == INTSXP) return put_whole(to, k);
  return put_word(to, k ? "true" : "false");
}

static SEXP text_of(const char *text, size_t n) {
  SEXP out;
  if (n > INT_MAX) Rf_error("the text has more than 2^31 bytes");
  out = PROTECT(Rf_mkCharLenCE(text, (int)n, CE_UTF8));
  out = Rf_ScalarString(out);
  UNPROTECT(1);
  return out;
}

/* Returns the JSON of numbers or logicals. */
SEXP ffi_json_numbers(SEXP x) {
  R_xlen_t n = XLENGTH(x);
  char *text = R_alloc((size_t)n + 1, LONGEST), *to = text;
  for (R_xlen_t i = 0; i < n; i++) {
    if (i) *to++ = ',';
    to = put_element(to, x, i);
  }
  return text_of(text, (size_t)(to - text));
}

/* Tells whether it may stand in quotes as it is, also where JSON stands in another text. */
static int is_plain(const char *text) {
  for (; *text; text++) {
    unsigned char c = (unsigned char)*text;
    if (c < 0x20 || c >= 0x7F || c == '"' || c == '\\' || c == '<' || c == '>') return 0;
  }
  return 1;
}

/* Returns the JSON of strings in UTF-8, in quotes. `escaped`: they are; else NULL where one would
 * have to be. */
SEXP ffi_json_strings(SEXP x, SEXP escaped) {
  R_xlen_t n = XLENGTH(x);
  size_t size = 0;
  char *text, *to;
  for (R_xlen_t i = 0; i < n; i++) {
    SEXP s = STRING_ELT(x, i);
    size += (s == NA_STRING ? 4 : (size_t)LENGTH(s) + 2) + 1;
    if (!Rf_asLogical(escaped) && s != NA_STRING && !is_plain(CHAR(s))) return R_NilValue;
  }
  text = to = R_alloc(size + 1, 1);
  for (R_xlen_t i = 0; i < n; i++) {
    SEXP s = STRING_ELT(x, i);
    if (i) *to++ = ',';
    if (s == NA_STRING) {
      to = put_word(to, "null");
      continue;
    }
    *to++ = '"';
    memcpy(to, CHAR(s), (size_t)LENGTH(s));
    to += LENGTH(s);
    *to++ = '"';
  }
  return text_of(text, (size_t)(to - text));
}
