#include "r/tasks/job-label.h"

#include <stdio.h>
#include <string.h>

#define MOST_DEPTH 40  /* of calls within calls */
#define MOST_STRING 24 /* bytes of a string in code */

typedef struct label {
  char *to;
  int n;
  int full; /* something did not fit: nothing more is written */
} label;

/* ---- text ---- */

/* How many bytes the character at `s` has; 0: these bytes are no character. */
static int character_size(const unsigned char *s) {
  int n = *s < 0x80 ? 1 : *s < 0xc2 ? 0 : *s < 0xe0 ? 2 : *s < 0xf0 ? 3 : *s < 0xf5 ? 4 : 0;
  for (int i = 1; i < n; i++)
    if ((s[i] & 0xc0) != 0x80) return 0;
  return n;
}

static void put_bytes(label *l, const char *s, int n) {
  if (l->full || l->n + n > CLU_LABEL_MOST) {
    l->full = 1;
    return;
  }
  memcpy(l->to + l->n, s, (size_t)n);
  l->n += n;
}

static void put(label *l, const char *s) {
  while (*s && !l->full) {
    int n;
    if (*s >= ' ' && *s < 127 && l->n < CLU_LABEL_MOST) { /* nearly always */
      l->to[l->n++] = *s++;
      continue;
    }
    n = character_size((const unsigned char *)s);
    if (n == 0)
      put_bytes(l, "?", 1);
    else if (n == 1 && ((unsigned char)*s < ' ' || *s == 127))
      put_bytes(l, " ", 1);
    else
      put_bytes(l, s, n);
    s += n ? n : 1;
  }
}

/* A rest that did not fit is marked: by three dots in place of the last characters. */
static void end(label *l) {
  l->to[l->n] = 0;
  if (l->full) {
    while (l->n > CLU_LABEL_MOST - 3 || (l->n > 0 && ((unsigned char)l->to[l->n] & 0xc0) == 0x80))
      l->n--;
    memcpy(l->to + l->n, "...", 3);
    l->n += 3;
  }
  l->to[l->n] = 0;
}

/* ---- constants ---- */

static void put_string(label *l, SEXP x) {
  const char *s = CHAR(x);
  int left = MOST_STRING;
  if (x == NA_STRING) {
    put(l, "NA");
    return;
  }
  put(l, "\"");
  for (; *s && left > 0 && !l->full; left--) {
    char one[8] = {0};
    int n = character_size((const unsigned char *)s);
    memcpy(one, s, (size_t)(n ? n : 1));
    if (*s == '"' || *s == '\\') put(l, "\\");
    if (*s == '\n')
      put(l, "\\n");
    else
      put(l, one);
    s += n ? n : 1;
  }
  put(l, *s ? "...\"" : "\"");
}

/* snprintf() takes as long as all else. */
static void put_integer(label *l, int x) {
  char text[16];
  int at = sizeof text - 1;
  unsigned left = x < 0 ? 0u - (unsigned)x : (unsigned)x;
  text[at] = 0;
  do text[--at] = (char)('0' + left % 10);
  while (left /= 10);
  if (x < 0) text[--at] = '-';
  put(l, text + at);
}

static void put_number(label *l, double x) {
  char text[32];
  if (x > -1e5 && x < 1e5 && x == (int)x && x != 0) {
    put_integer(l, (int)x);
  } else if (x == 0) {
    put(l, "0");
  } else if (R_IsNA(x)) {
    put(l, "NA");
  } else if (ISNAN(x)) {
    put(l, "NaN");
  } else if (!R_FINITE(x)) {
    put(l, x > 0 ? "Inf" : "-Inf");
  } else {
    snprintf(text, sizeof text, "%.15g", x);
    put(l, text);
  }
}

static void put_kind(label *l, SEXP x) {
  char text[40];
  put(l, "<");
  put(l, Rf_type2char(TYPEOF(x)));
  if (Rf_isVector(x)) {
    snprintf(text, sizeof text, "[%.0f]", (double)XLENGTH(x));
    put(l, text);
  }
  put(l, ">");
}

/* A vector that code may have in it. Others are told by their kind: their elements may be those of
 * an ALTREP object, which would run code of its class. */
static void put_constant(label *l, SEXP x) {
  if (!Rf_isVectorAtomic(x) || XLENGTH(x) != 1 || ALTREP(x) || clu_has_attributes(x)) {
    put_kind(l, x);
    return;
  }
  switch (TYPEOF(x)) {
  case STRSXP: put_string(l, STRING_ELT(x, 0)); break;
  case REALSXP: put_number(l, REAL_RO(x)[0]); break;
  case LGLSXP:
    put(l, LOGICAL_RO(x)[0] == NA_LOGICAL ? "NA" : LOGICAL_RO(x)[0] ? "TRUE" : "FALSE");
    break;
  case INTSXP:
    if (INTEGER_RO(x)[0] == NA_INTEGER) {
      put(l, "NA");
    } else {
      put_integer(l, INTEGER_RO(x)[0]);
      put(l, "L");
    }
    break;
  default: put_kind(l, x);
  }
}

/* ---- code ---- */

static void put_code(label *l, SEXP x, int depth);

static void put_between(label *l, const char *before, SEXP x, const char *after, int depth) {
  put(l, before);
  put_code(l, x, depth);
  put(l, after);
}

/* The arguments of a call, or those of `function`, whose names are told by `formals`. */
static void put_arguments(label *l, SEXP args, int formals, const char *between, int depth) {
  int first = 1;
  for (; TYPEOF(args) == LISTSXP || TYPEOF(args) == LANGSXP; args = CDR(args)) {
    int is_named = TAG(args) != R_NilValue;
    if (l->full) return;
    if (!first) put(l, between);
    first = 0;
    if (is_named) put(l, CHAR(PRINTNAME(TAG(args))));
    if (is_named && CAR(args) != R_MissingArg) put(l, " = ");
    if (!formals || CAR(args) != R_MissingArg) put_code(l, CAR(args), depth);
  }
}

/* How an operator of two operands is written; NULL: it is none. */
static const char *infix(const char *name) {
  static const char *const names[] = {
      "+", "-",  "*", "/", "==", "!=", "<", ">", "<=", ">=", "&&",  "||", "&",
      "|", "<-", "=", "~", "?",  "^",  ":", "$", "@",  "::", ":::", "<<-"};
  static const char *const texts[] = {" + ",  " - ",  " * ",  " / ",  " == ", " != ", " < ",
                                      " > ",  " <= ", " >= ", " && ", " || ", " & ",  " | ",
                                      " <- ", " = ",  " ~ ",  " ? ",  "^",    ":",    "$",
                                      "@",    "::",   ":::",  " <<- "};
  for (size_t k = 0; k < sizeof names / sizeof *names; k++)
    if (name[0] == names[k][0] && strcmp(name, names[k]) == 0) return texts[k];
  return NULL;
}

static int is_user_infix(const char *name) {
  size_t n = strlen(name);
  return n >= 2 && name[0] == '%' && name[n - 1] == '%';
}

static int is_prefix(const char *name) {
  return (name[0] == '-' || name[0] == '+' || name[0] == '!' || name[0] == '~') && !name[1];
}

/* if, for, while, repeat, braces. Whether it was one of them. */
static int put_control(label *l, const char *name, SEXP args, int n, int depth) {
  if (strcmp(name, "{") == 0) {
    put(l, n ? "{ " : "{");
    put_arguments(l, args, 0, "; ", depth);
    put(l, n ? " }" : "}");
  } else if (strcmp(name, "(") == 0 && n == 1) {
    put_between(l, "(", CAR(args), ")", depth);
  } else if (strcmp(name, "if") == 0 && n >= 2) {
    put_between(l, "if (", CAR(args), ") ", depth);
    put_code(l, CADR(args), depth);
    if (n == 3) put_between(l, " else ", CADDR(args), "", depth);
  } else if (strcmp(name, "for") == 0 && n == 3) {
    put_between(l, "for (", CAR(args), " in ", depth);
    put_between(l, "", CADR(args), ") ", depth);
    put_code(l, CADDR(args), depth);
  } else if (strcmp(name, "while") == 0 && n == 2) {
    put_between(l, "while (", CAR(args), ") ", depth);
    put_code(l, CADR(args), depth);
  } else if (strcmp(name, "repeat") == 0 && n == 1) {
    put_between(l, "repeat ", CAR(args), "", depth);
  } else if (strcmp(name, "function") == 0 && n >= 2) {
    put(l, "function(");
    put_arguments(l, CAR(args), 1, ", ", depth);
    put_between(l, ") ", CADR(args), "", depth);
  } else {
    return 0;
  }
  return 1;
}

/* Indexing and operators. Whether it was one of them. */
static int put_operator(label *l, const char *name, SEXP args, int n, int depth) {
  int is_double = strcmp(name, "[[") == 0;
  if (n >= 1 && (is_double || strcmp(name, "[") == 0)) {
    put_between(l, "", CAR(args), name, depth);
    put_arguments(l, CDR(args), 0, ", ", depth);
    put(l, is_double ? "]]" : "]");
  } else if (n == 2 && (infix(name) || is_user_infix(name))) {
    const char *text = infix(name);
    put_code(l, CAR(args), depth);
    if (!text) put(l, " ");
    put(l, text ? text : name);
    if (!text) put(l, " ");
    put_code(l, CADR(args), depth);
  } else if (n == 1 && is_prefix(name)) {
    put_between(l, name, CAR(args), "", depth);
  } else {
    return 0;
  }
  return 1;
}

/* So many that it matters, of a list that may be long. */
static int count(SEXP args) {
  int n = 0;
  for (; n < 4 && TYPEOF(args) == LISTSXP; args = CDR(args)) n++;
  return n;
}

/* Tells whether it is the name of an ordinary function, as most are: no operator, and none of the
 * words that put_control() knows. */
static int is_word(const char *name) {
  char c = name[0];
  if (!((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '.')) return 0;
  return c != 'i' && c != 'f' && c != 'w' && c != 'r';
}

static void put_call(label *l, SEXP call, int depth) {
  SEXP head = CAR(call), args = CDR(call);
  int n = count(args);
  if (TYPEOF(head) == SYMSXP) {
    const char *name = CHAR(PRINTNAME(head));
    if (!is_word(name) &&
        (put_control(l, name, args, n, depth) || put_operator(l, name, args, n, depth)))
      return;
    put(l, name);
  } else {
    int is_function = TYPEOF(head) == LANGSXP && TYPEOF(CAR(head)) == SYMSXP &&
                      strcmp(CHAR(PRINTNAME(CAR(head))), "function") == 0;
    put_between(l, is_function ? "(" : "", head, is_function ? ")" : "", depth);
  }
  put(l, "(");
  put_arguments(l, args, 0, ", ", depth);
  put(l, ")");
}

static void put_code(label *l, SEXP x, int depth) {
  if (l->full) return;
  if (depth <= 0) {
    put(l, "...");
    return;
  }
  switch (TYPEOF(x)) {
  case NILSXP: put(l, "NULL"); break;
  case SYMSXP:
    if (x != R_MissingArg) put(l, CHAR(PRINTNAME(x)));
    break;
  case LANGSXP: put_call(l, x, depth - 1); break;
  case CLOSXP:
  case BUILTINSXP:
  case SPECIALSXP: put(l, "<function>"); break;
  case EXPRSXP:
    if (XLENGTH(x) == 1)
      put_code(l, VECTOR_ELT(x, 0), depth - 1);
    else
      put_kind(l, x);
    break;
  default: put_constant(l, x);
  }
}

/* ---- labels ---- */

static const char *name_of(SEXP name) {
  if (TYPEOF(name) == LANGSXP && count(CDR(name)) == 2) name = CADDR(name); /* pkg::name */
  if (TYPEOF(name) == SYMSXP) return CHAR(PRINTNAME(name));
  if (TYPEOF(name) == STRSXP && XLENGTH(name) == 1) return CHAR(STRING_ELT(name, 0));
  return "cluster_map";
}

void clu_label_of_call(char *to, SEXP name, SEXP code) {
  label l = {to, 0, 0};
  put(&l, name_of(name));
  put_between(&l, "(", code, ")", MOST_DEPTH);
  end(&l);
}

void clu_label_of_text(char *to, const char *text) {
  label l = {to, 0, 0};
  if (text) put(&l, text);
  end(&l);
}
