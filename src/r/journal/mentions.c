#include "r/journal/mentions.h"

#include "r/globals/globals.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define MOST_TEXTS 1000  /* strings of a vector that may be names */
#define MOST_BYTES 10000 /* of a text whose words may be names */

/* Tells whether a function asks for variables by other means than a symbol. */
static int asks_for_any(const char *name) {
  static const char *const asking[] = {"get",
                                       "get0",
                                       "mget",
                                       "dynGet",
                                       "eval",
                                       "evalq",
                                       "eval.parent",
                                       "evalqq",
                                       "parse",
                                       "str2lang",
                                       "str2expression",
                                       "environment",
                                       "parent.frame",
                                       "sys.frame",
                                       "sys.frames",
                                       "sys.function",
                                       "sys.call",
                                       "match.call",
                                       "parent.env",
                                       "ls",
                                       "objects",
                                       "as.name",
                                       "as.symbol",
                                       "topenv",
                                       "attach",
                                       "source",
                                       "sys.source",
                                       "do.call",
                                       "match.fun",
                                       "as.formula",
                                       "formula",
                                       "reformulate",
                                       "update",
                                       "update.formula",
                                       "terms",
                                       "eval_tidy",
                                       "eval_bare",
                                       "current_env",
                                       "caller_env",
                                       "env_get",
                                       "env_has",
                                       "env_parent",
                                       "sym",
                                       "syms",
                                       "ensym",
                                       "inject",
                                       "exec",
                                       "parse_expr",
                                       "parse_exprs",
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

static int is_of_word(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' ||
         c == '_' || (unsigned char)c >= 0x80;
}

/* A text that is no single word, from which code may take words. */
static void add_words(clu_mentions *m, SEXP text) {
  const char *p = CHAR(text);
  R_xlen_t n = Rf_xlength(text), i = 0;
  if (text == NA_STRING || n > MOST_BYTES) return;
  while (i < n && is_of_word(p[i])) i++;
  if (i == n) return;
  for (size_t k = 0; k < m->ntexts; k++)
    if (strcmp(m->texts[k], p) == 0) return;
  if (m->ntexts == m->room) {
    size_t room = m->room ? 2 * m->room : 16;
    char **more = (char **)R_alloc(room, sizeof(char *));
    if (m->ntexts) memcpy(more, m->texts, m->ntexts * sizeof(char *));
    m->texts = more;
    m->room = room;
  }
  m->texts[m->ntexts] = R_alloc((size_t)n + 1, 1); /* an active binding may have made it */
  memcpy(m->texts[m->ntexts++], p, (size_t)n + 1);
}

static int has_word(const char *text, const char *word) {
  size_t n = strlen(word);
  if (n == 0) return 0;
  for (const char *p = strstr(text, word); p; p = strstr(p + 1, word))
    if ((p == text || !is_of_word(p[-1])) && !is_of_word(p[n])) return 1;
  return 0;
}

void clu_mentions_add_texts(clu_mentions *m, SEXP x) {
  if (Rf_xlength(x) > MOST_TEXTS) return;
  if (TYPEOF(x) == STRSXP && Rf_xlength(x) == 1) add_words(m, STRING_ELT(x, 0));
  if (TYPEOF(x) == VECSXP)
    for (R_xlen_t i = 0; i < Rf_xlength(x); i++)
      if (TYPEOF(VECTOR_ELT(x, i)) == STRSXP) clu_mentions_add_texts(m, VECTOR_ELT(x, i));
  if (TYPEOF(x) == STRSXP)
    for (R_xlen_t i = 0; i < Rf_xlength(x); i++) add(m, STRING_ELT(x, i));
}

/* A search that is used again and again: only for the symbols of code. */
static clu_search *symbols_search(void) {
  static SEXP kept;
  if (!kept) {
    SEXP x = PROTECT(ffi_globals_new());
    R_PreserveObject(kept = x);
    UNPROTECT(1);
  }
  clu_search_reset(clu_search_get(kept));
  return clu_search_get(kept);
}

static void add_symbol(clu_mentions *m, SEXP symbol) {
  const char *name = CHAR(PRINTNAME(symbol));
  if (symbol == R_MissingArg) return;
  if (asks_for_any(name)) m->all = 1;
  add(m, PRINTNAME(symbol));
  if (strncmp(name, "..", 2) != 0 || !name[2]) return;
  add(m, PRINTNAME(R_DotsSymbol));         /* ..1 */
  add(m, PRINTNAME(Rf_install(name + 2))); /* ..columns in a data.table */
}

/* The strings in code, arguments that a function outside has, and functions that are called: R
 * passes over a local variable that is none. */
static void add_strings(clu_mentions *m, SEXP code) {
  R_CheckStack();
  if (TYPEOF(code) == LANGSXP && TYPEOF(CAR(code)) == SYMSXP) {
    const char *called = CHAR(PRINTNAME(CAR(code)));
    add(m, PRINTNAME(CAR(code)));
    if ((strcmp(called, "::") == 0 || strcmp(called, ":::") == 0) && TYPEOF(CADDR(code)) == SYMSXP)
      m->all |= asks_for_any(CHAR(PRINTNAME(CADDR(code)))); /* rlang::sym() */
  }
  for (; TYPEOF(code) == LANGSXP || TYPEOF(code) == LISTSXP; code = CDR(code))
    add_strings(m, CAR(code));
  if (TYPEOF(code) == SYMSXP && strncmp(CHAR(PRINTNAME(code)), "..", 2) == 0) add_symbol(m, code);
  clu_mentions_add_texts(m, code);
}

void clu_mentions_add(clu_mentions *m, SEXP formals, SEXP code) {
  clu_search *s = symbols_search();
  clu_span span = clu_symbols_of(s, formals, code);
  for (size_t i = 0; i < span.n; i++)
    if (s->uses[span.first + i].how) add_symbol(m, s->uses[span.first + i].symbol);
  add_strings(m, formals);
  add_strings(m, code);
}

/* ---- packages ---- */

static int is_default(SEXP name) {
  static const char *const all[] = {"package:stats", "package:graphics", "package:grDevices",
                                    "package:utils", "package:datasets", "package:methods",
                                    "package:base"};
  for (size_t i = 0; i < sizeof all / sizeof *all; i++)
    if (strcmp(CHAR(name), all[i]) == 0) return 1;
  return 0;
}

/* The package on the search path in which the name is found; NULL: a default one, or none. */
static SEXP package_with(SEXP name) {
  SEXP symbol = Rf_installTrChar(name), env = clu_parent_env(R_GlobalEnv);
  for (; env != R_EmptyEnv && env != R_BaseEnv; env = clu_parent_env(env)) {
    SEXP package;
    if (!R_IsPackageEnv(env) || !R_existsVarInFrame(env, symbol)) continue;
    package = R_PackageEnvName(env);
    if (TYPEOF(package) != STRSXP || is_default(STRING_ELT(package, 0))) return NULL;
    return STRING_ELT(package, 0); /* the environment has it */
  }
  return NULL;
}

static int by_first(const void *a, const void *b) {
  return strcmp(CHAR(*(const SEXP *)a), CHAR(*(const SEXP *)b));
}

SEXP clu_mentions_in_packages(const clu_mentions *m) {
  SEXP(*found)[2] = (SEXP(*)[2])R_alloc(m->n + 1, sizeof *found), out;
  R_xlen_t n = 0;
  for (size_t i = 0; i < m->cap; i++) {
    SEXP package = m->names[i] && CHAR(m->names[i])[0] ? package_with(m->names[i]) : NULL;
    if (!package) continue;
    found[n][0] = m->names[i];
    found[n++][1] = package;
  }
  qsort(found, (size_t)n, sizeof *found, by_first);
  out = PROTECT(Rf_allocVector(STRSXP, 2 * n));
  for (R_xlen_t i = 0; i < 2 * n; i++) SET_STRING_ELT(out, i, found[i / 2][i % 2]);
  UNPROTECT(1);
  return out;
}

int clu_mentions_has(const clu_mentions *m, SEXP name) {
  if (m->all || (m->cap && m->names[place(m->names, m->cap, name)])) return 1;
  for (size_t k = 0; k < m->ntexts; k++)
    if (has_word(m->texts[k], CHAR(name))) return 1;
  return 0;
}
