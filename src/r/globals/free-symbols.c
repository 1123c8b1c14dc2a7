/* The symbols that code takes from elsewhere.
 *
 * The code is followed in the order of evaluation, by R's scoping. A symbol is local from its
 * assignment on. An argument is local everywhere. What a branch, a loop or an argument of a call
 * assigns is local only within that; what both branches of `if` assign is local behind it, too.
 * Uses of the symbol elsewhere count.
 *
 * A function within the code has a scope of its own. What is not local there is a use of the outer
 * function's. Where something is evaluated in another frame (quoted code, with(), data.table's [),
 * too much may be taken for a use, which costs bytes and no more.
 *
 * Package globals answers the same question; it takes 0.2 ms a function, and takes a name that is
 * an argument of an inner function for local in all of the outer one.
 */
#include "r/globals/globals.h"

#include <R_ext/Utils.h>
#include <stdlib.h>
#include <string.h>

/* The entry of the symbol in the function at hand. */
static clu_use *entry(clu_search *s, SEXP symbol) {
  const uint64_t *at = clu_map_get(&s->symbols, symbol);
  uint64_t number = (uint64_t)s->scope << 32;
  if (at && (*at & ~(uint64_t)UINT32_MAX) == number) return &s->uses[*at & UINT32_MAX];
  /* an inner function may have taken its place in the map */
  for (size_t k = s->first; at && k < s->nuses; k++)
    if (s->uses[k].symbol == symbol) return &s->uses[k];
  clu_search_room(&s->uses, &s->capuses, s->nuses, sizeof *s->uses);
  clu_map_put(&s->symbols, symbol, number | s->nuses);
  s->uses[s->nuses].symbol = symbol;
  s->uses[s->nuses].how = 0;
  s->uses[s->nuses].local_at = 0;
  return &s->uses[s->nuses++];
}

/* A use counts only where the symbol is not surely local by then. */
static void use_symbol(clu_search *s, SEXP symbol, unsigned how) {
  clu_use *u;
  if (symbol == R_MissingArg || symbol == R_DotsSymbol) return;
  u = entry(s, symbol);
  if (!u->local_at) u->how |= how;
}

static void assign_symbol(clu_search *s, SEXP symbol) {
  clu_use *u = entry(s, symbol);
  s->assigned++;
  if (!u->local_at) u->local_at = s->branch;
}

int clu_is_symbol(SEXP x, const char *name) {
  return TYPEOF(x) == SYMSXP && strcmp(CHAR(PRINTNAME(x)), name) == 0;
}

static void collect(clu_search *s, SEXP e);
static void collect_branch(clu_search *s, SEXP e);

/* `surely`: the arguments are evaluated one after the other in this frame. Else (switch(), local(),
 * tryCatch(), any function) they may not be, or elsewhere, and what each assigns is local only
 * within it. */
static void collect_all(clu_search *s, SEXP args, int surely) {
  for (; args != R_NilValue; args = CDR(args)) {
    SEXP a = CAR(args);
    if (surely || TYPEOF(a) != LANGSXP)
      collect(s, a);
    else
      collect_branch(s, a);
  }
}

/* The target of an assignment: f(x, i) <- v assigns x and calls `f<-`. */
static void collect_target(clu_search *s, SEXP target) {
  char name[300];
  while (TYPEOF(target) == LANGSXP && CDR(target) != R_NilValue) {
    SEXP fun = CAR(target);
    if (TYPEOF(fun) == SYMSXP && strlen(CHAR(PRINTNAME(fun))) < 256) {
      strcpy(name, CHAR(PRINTNAME(fun)));
      strcat(name, "<-");
      use_symbol(s, Rf_install(name), CALLED);
      use_symbol(s, fun, CALLED);
    } else {
      collect(s, fun);
    }
    if (!clu_is_symbol(fun, "$") && !clu_is_symbol(fun, "@")) collect_all(s, CDDR(target), 0);
    target = CADR(target);
    if (TYPEOF(target) == SYMSXP) use_symbol(s, target, USED);
  }
  if (TYPEOF(target) == STRSXP && Rf_xlength(target) == 1)
    target = Rf_installTrChar(STRING_ELT(target, 0));
  if (TYPEOF(target) == SYMSXP) assign_symbol(s, target);
}

/* The symbols of a function are collected behind those of the one that it is in. */
static void collect_scope(clu_search *s, SEXP formals, SEXP body) {
  for (SEXP f = formals; f != R_NilValue; f = CDR(f))
    if (TYPEOF(TAG(f)) == SYMSXP && TAG(f) != R_DotsSymbol) assign_symbol(s, TAG(f));
  for (SEXP f = formals; f != R_NilValue; f = CDR(f)) collect(s, CAR(f));
  collect(s, body);
}

/* A function within another: what is not local in it is used from there. */
static void collect_function(clu_search *s, SEXP formals, SEXP body) {
  size_t first = s->first, n;
  uint32_t scope = s->scope, branch = s->branch;
  clu_use *own;
  s->first = s->nuses;
  s->scope = ++s->scopes;
  s->branch = 1;
  collect_scope(s, formals, body);
  n = s->nuses - s->first;
  own = (clu_use *)R_alloc(n + 1, sizeof *own);
  memcpy(own, s->uses + s->first, n * sizeof *own);
  s->nuses = s->first;
  s->first = first;
  s->scope = scope;
  s->branch = branch;
  for (size_t k = 0; k < n; k++)
    if (own[k].how) use_symbol(s, own[k].symbol, own[k].how);
}

/* Code that may not be evaluated: what it assigns is local within it, and perhaps not behind it. */
static void collect_branch(clu_search *s, SEXP e) {
  size_t before = s->assigned;
  s->branch++;
  collect(s, e);
  s->branch--;
  if (s->assigned == before) return;
  for (size_t k = s->first; k < s->nuses; k++)
    if (s->uses[k].local_at > s->branch) s->uses[k].local_at = 0;
}

static void collect_if(clu_search *s, SEXP args) {
  clu_use *after;
  size_t n;
  collect(s, CAR(args));
  if (Rf_length(args) < 3) {
    collect_branch(s, CADR(args));
    return;
  }
  s->branch++; /* which of them assigns what: local is what both do */
  collect(s, CADR(args));
  n = s->nuses - s->first;
  after = (clu_use *)R_alloc(n + 1, sizeof *after);
  memcpy(after, s->uses + s->first, n * sizeof *after);
  for (size_t k = s->first; k < s->nuses; k++)
    if (s->uses[k].local_at >= s->branch) s->uses[k].local_at = 0;
  collect(s, CADDR(args));
  s->branch--;
  for (size_t k = s->first; k < s->nuses; k++) {
    clu_use *u = &s->uses[k];
    int before = k - s->first < n && after[k - s->first].local_at > s->branch;
    if (u->local_at > s->branch) u->local_at = before ? s->branch : 0;
  }
}

static void collect_loop(clu_search *s, SEXP args, int is_for) {
  if (is_for) {
    collect(s, CADR(args));
    if (TYPEOF(CAR(args)) == SYMSXP) assign_symbol(s, CAR(args));
    collect_branch(s, CADDR(args));
  } else {
    collect(s, CAR(args));
    collect_branch(s, CADR(args));
  }
}

/* Functions that evaluate all their arguments, in this frame. */
static int is_sequence(SEXP fun) {
  static const char *names[] = {"{",
                                "(",
                                "+",
                                "-",
                                "*",
                                "/",
                                "^",
                                "==",
                                "!=",
                                "<",
                                ">",
                                "<=",
                                ">=",
                                "!",
                                "&",
                                "|",
                                ":",
                                "[",
                                "[[",
                                "c",
                                "list",
                                "return",
                                "invisible",
                                "length",
                                "sum",
                                "print",
                                "suppressWarnings",
                                "suppressMessages",
                                "system.time"};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++)
    if (clu_is_symbol(fun, names[i])) return 1;
  return 0;
}

/* Functions whose text names variables: get("x"), mget(c("x", "y")). */
static int takes_names(SEXP fun) {
  static const char *names[] = {"get", "get0", "mget", "exists", "dynGet", "as.name", "as.symbol"};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++)
    if (clu_is_symbol(fun, names[i])) return 1;
  return 0;
}

/* A variable that text in the code names. Bytes that are no text name none, and R does not take
 * them for a name. */
static void use_text(clu_search *s, SEXP e, unsigned how) {
  SEXP text = Rf_xlength(e) == 1 ? STRING_ELT(e, 0) : NA_STRING;
  if (text != NA_STRING && CHAR(text)[0] && LENGTH(text) < 256 && Rf_getCharCE(text) != CE_BYTES)
    use_symbol(s, Rf_installTrChar(text), how);
}

static void collect_names(clu_search *s, SEXP args) {
  for (; args != R_NilValue; args = CDR(args)) {
    SEXP a = CAR(args);
    if (TYPEOF(a) == STRSXP) use_text(s, a, USED);
    if (TYPEOF(a) == LANGSXP && clu_is_symbol(CAR(a), "c")) collect_names(s, CDR(a));
  }
}

static void collect_call(clu_search *s, SEXP e) {
  SEXP fun = CAR(e), args = CDR(e);
  int n = Rf_length(args);
  if (TYPEOF(fun) != SYMSXP) {
    collect(s, fun);
    collect_all(s, args, 0);
    return;
  }
  use_symbol(s, fun, CALLED);
  if (clu_is_symbol(fun, "quote")) return;
  if (clu_is_symbol(fun, "::") || clu_is_symbol(fun, ":::")) {
    if (n == 2 && TYPEOF(CAR(args)) == SYMSXP) clu_search_find(s, BY_NAME, CAR(args));
    return;
  }
  if ((clu_is_symbol(fun, "$") || clu_is_symbol(fun, "@")) && n == 2) {
    collect(s, CAR(args));
    if (TYPEOF(CADR(args)) == LANGSXP) collect(s, CADR(args));
  } else if (clu_is_symbol(fun, "function") && n >= 2) {
    collect_function(s, CAR(args), CADR(args));
  } else if ((clu_is_symbol(fun, "<-") || clu_is_symbol(fun, "=")) && n == 2) {
    collect(s, CADR(args)); /* in the order of evaluation */
    collect_target(s, CAR(args));
  } else if (clu_is_symbol(fun, "<<-") && n == 2) {
    collect(s, CADR(args));
    if (TYPEOF(CAR(args)) == SYMSXP)
      use_symbol(s, CAR(args), USED);
    else
      collect_target(s, CAR(args));
  } else if (clu_is_symbol(fun, "if") && n >= 2) {
    collect_if(s, args);
  } else if (clu_is_symbol(fun, "for") && n == 3) {
    collect_loop(s, args, 1);
  } else if (clu_is_symbol(fun, "while") && n == 2) {
    collect_loop(s, args, 0);
  } else if ((clu_is_symbol(fun, "&&") || clu_is_symbol(fun, "||")) && n == 2) {
    collect(s, CAR(args));
    collect_branch(s, CADR(args));
  } else {
    if (clu_is_symbol(fun, "UseMethod") && n > 0 && TYPEOF(CAR(args)) == STRSXP)
      clu_search_find(s, GENERICS, CAR(args));
    if (takes_names(fun)) collect_names(s, args);
    collect_all(s, args, is_sequence(fun));
  }
}

static void collect(clu_search *s, SEXP e) {
  R_CheckStack();
  switch (TYPEOF(e)) {
  case SYMSXP: use_symbol(s, e, USED); return;
  case LANGSXP: collect_call(s, e); return;
  case STRSXP: /* do.call("f", ...), match.fun("f"), structure(x, class = "c") */
    use_text(s, e, AS_TEXT);
    break;
  default: clu_search_later(s, e); /* an object within the code: a function, data, a promise */
  }
}

clu_span clu_symbols_of(clu_search *s, SEXP formals, SEXP body) {
  const uint64_t *known = TYPEOF(body) == LANGSXP ? clu_map_get(&s->bodies, body) : NULL;
  clu_span all;
  const void *vmax = vmaxget();
  if (known && s->spans[*known].formals == formals) return s->spans[*known];
  clu_search_room(&s->spans, &s->capspans, s->nspans, sizeof *s->spans);
  all.first = s->first = s->nuses;
  s->scope = ++s->scopes;
  s->branch = 1;
  collect_scope(s, formals, body);
  vmaxset(vmax);
  all.n = s->nuses - all.first;
  all.formals = formals; /* formals<- leaves the body as it is */
  s->spans[s->nspans] = all;
  if (TYPEOF(body) == LANGSXP) clu_map_put(&s->bodies, body, s->nspans);
  s->nspans++;
  return all;
}
