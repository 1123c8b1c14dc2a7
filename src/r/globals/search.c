/* This file finds what the code that travels to a node needs of this session: a search through
 * everything that can be reached from the objects that travel, as serialize() reaches it.
 *
 * The search goes through closures with their environments, lists, calls, attributes, slots, and
 * the variables of environments. It does not enter the workspace, namespaces and what is on the
 * search path: they do not travel. Each object is visited once. The free symbols of each closure
 * and formula are looked up as R would do it. A symbol that leads to the workspace, or to attached
 * data, is a global, and its value is searched in turn. One that leads to an attached package names
 * that package.
 *
 * Garbage collection. An object is protected by the object that it was reached from. Values of
 * variables are also in the `kept` list of the search, since R code that runs meanwhile may remove
 * the variables.
 */
#include "r/globals/globals.h"

#include <R_ext/Utils.h>
#include <Rversion.h>
#include <stdlib.h>
#include <string.h>

enum {
  NOWHERE,
  WORKSPACE,
  DATA,
  PACKAGE
}; /* where a symbol leads from the workspace on; packages are numbered */

/* ---- values of variables ---- */

/* The value of a promise, or of a symbol in `env`; R_NilValue where that is an error. */
SEXP clu_try_value(SEXP expr, SEXP env) {
  SEXP ns = PROTECT(R_FindNamespace(PROTECT(Rf_mkString("clutch"))));
  SEXP fun = PROTECT(Rf_eval(Rf_install("value_or_null"), ns));
  SEXP value = Rf_eval(PROTECT(Rf_lang2(fun, expr)), env);
  UNPROTECT(4);
  return value;
}

/* This is what a variable is bound to. A promise that was not asked for yet has an expression and
 * an environment. */
typedef struct binding {
  SEXP value, expr, env;
} binding;

static binding look_up(SEXP symbol, SEXP env) {
  binding b = {R_NilValue, R_NilValue, R_NilValue};
  if (!R_existsVarInFrame(env, symbol)) return b;
  if (R_BindingIsActive(symbol, env)) {
    b.value = R_ActiveBindingFunction(symbol, env);
    return b;
  }
#if R_VERSION >= R_Version(4, 6, 0)
  switch (
      R_GetBindingType(symbol, env)) { /* `...` of nothing is missing, and R_getVarEx() an error */
  case R_BindingTypeDelayed:
    b.expr = R_DelayedBindingExpression(symbol, env);
    b.env = R_DelayedBindingEnvironment(symbol, env);
    break;
  case R_BindingTypeValue:
  case R_BindingTypeForced: b.value = R_getVarEx(symbol, env, FALSE, R_NilValue); break;
  default: break;
  }
#else
  b.value = Rf_findVarInFrame(env, symbol);
  if (TYPEOF(b.value) == PROMSXP) {
    SEXP promise = b.value;
    b.value = PRVALUE(promise);
    if (b.value == R_UnboundValue) {
      b.value = R_NilValue;
      b.expr = R_PromiseExpr(promise);
      b.env = PRENV(promise);
    }
  }
#endif
  if (b.value == R_UnboundValue || b.value == R_MissingArg) b.value = R_NilValue;
  return b;
}

/* The variable's value; R_NilValue where it has none (an argument that is missing, a promise that
 * fails). A promise is forced, and code of the user's may run. */
SEXP clu_value_in(SEXP symbol, SEXP env) {
  binding b = look_up(symbol, env);
  return b.env == R_NilValue ? b.value : clu_try_value(symbol, env);
}

/* ---- look-up ---- */

static const char *name_of(SEXP env) {
  SEXP name = Rf_getAttrib(env, Rf_install("name"));
  return TYPEOF(name) == STRSXP && Rf_xlength(name) == 1 ? CHAR(STRING_ELT(name, 0)) : "";
}

/* Objects that others put on the search path for their own use are no data of the user's. */
static int is_tool(const char *name) {
  return strcmp(name, "Autoloads") == 0 || strncmp(name, "tools:", 6) == 0 ||
         strncmp(name, "org:", 4) == 0 || strcmp(name, "devtools_shims") == 0;
}

/* Where the symbol leads from the workspace on: NOWHERE, WORKSPACE, DATA, or PACKAGE + its place on
 * the search path. */
static uint64_t lookup(SEXP symbol, int as_function) {
  uint64_t place = 0;
  for (SEXP env = R_GlobalEnv; env != R_BaseEnv && env != R_EmptyEnv;
       env = clu_parent_env(env), place++) {
    const char *name;
    if (!R_existsVarInFrame(env, symbol)) continue;
    if (as_function && !Rf_isFunction(clu_value_in(symbol, env))) continue;
    if (env == R_GlobalEnv) return WORKSPACE;
    name = name_of(env);
    if (strncmp(name, "package:", 8) == 0) return PACKAGE + place;
    return is_tool(name) ? NOWHERE : DATA;
  }
  return NOWHERE;
}

static uint64_t leads_to(clu_search *s, SEXP symbol, int as_function) {
  const uint64_t *known = clu_map_get(&s->resolved, symbol);
  uint64_t both = known ? *known : 0, shift = as_function ? 0 : 32,
           where = both >> shift & UINT32_MAX;
  if (where > 0) return where - 1;
  where = lookup(symbol, as_function); /* only when it is asked: it may load a function, or data */
  clu_map_put(&s->resolved, symbol, both | (where + 1) << shift);
  return where;
}

/* Tells whether a variable of the environments that travel along has this name; those of a call
 * have to be functions. One that is used is a promise no more: what it stands for has to travel,
 * and not the frame that it was made in. */
static int is_local(SEXP symbol, SEXP env, unsigned how, SEXP *end) {
  for (; !clu_env_stays(env); env = clu_parent_env(env)) {
    if (!R_existsVarInFrame(env, symbol)) continue;
    if (how == AS_TEXT) return 1;
    if (Rf_isFunction(clu_value_in(symbol, env)) || how == USED) return 1;
  }
  *end = env;
  return 0;
}

static SEXP package_at(uint64_t where) {
  SEXP env = R_GlobalEnv;
  for (uint64_t k = where - PACKAGE; k > 0; k--) env = clu_parent_env(env);
  return env;
}

static int is_taken(const clu_search *s, SEXP symbol, uint64_t where) {
  return clu_map_get(&s->seen, where < PACKAGE ? symbol : package_at(where)) != NULL;
}

/* A global or a package was found. */
static void take(clu_search *s, SEXP symbol, uint64_t where) {
  if (where == NOWHERE || is_taken(s, symbol, where)) return;
  if (where == WORKSPACE || where == DATA) {
    SEXP env = R_GlobalEnv, value;
    clu_map_put(&s->seen, symbol, 1);
    while (env != R_BaseEnv && !R_existsVarInFrame(env, symbol)) env = clu_parent_env(env);
    value = PROTECT(clu_value_in(symbol, env));
    clu_search_find(s, GLOBALS, symbol);
    clu_search_find(s, HELD, value);
    clu_search_later(s, value);
    UNPROTECT(1);
  } else {
    SEXP env = package_at(where);
    clu_map_put(&s->seen, env, 1);
    clu_search_find(s, PACKAGES, Rf_mkString(name_of(env) + 8));
  }
}

/* Tells whether the look-up goes on in the workspace behind this environment. */
static int leads_on(SEXP end, SEXP symbol) {
  if (end == R_BaseEnv) return !R_existsVarInFrame(end, symbol); /* the workspace encloses it */
  return end == R_GlobalEnv || R_IsPackageEnv(end);
}

/* Looks the symbols of a closure or formula up. */
static void resolve(clu_search *s, SEXP env, clu_span body) {
  for (size_t k = 0; k < body.n; k++) {
    clu_use u = s->uses[body.first + k]; /* a copy: the array may move */
    if ((u.how & AS_TEXT) && !clu_map_get(&s->texts, u.symbol)) {
      clu_map_put(&s->texts, u.symbol, 1);
      clu_search_find(s, TEXTS, u.symbol);
    }
    for (int as_function = 0; as_function < 2; as_function++) {
      SEXP end;
      uint64_t where;
      if (!(u.how & (as_function ? CALLED | AS_TEXT : USED))) continue;
      if (is_local(u.symbol, env, !as_function ? USED : u.how & CALLED ? CALLED : AS_TEXT, &end))
        continue;
      where = leads_to(s, u.symbol, as_function);
      if (where == NOWHERE || is_taken(s, u.symbol, where) ||
          (u.how == AS_TEXT && where != WORKSPACE))
        continue;
      if (!leads_on(end, u.symbol)) continue;
      take(s, u.symbol, where);
    }
  }
}

/* ---- objects ---- */

static void visit_attribute(clu_search *s, SEXP name, SEXP value) {
  const char *n = CHAR(PRINTNAME(name));
  if (strcmp(n, "srcref") == 0 || strcmp(n, "srcfile") == 0 || strcmp(n, "wholeSrcref") == 0)
    return;
  if (strcmp(n, ".internal.selfref") == 0) return; /* of a data.table, which does without */
  if (strcmp(n, "versionKey") == 0) return;        /* a pointer that each S4 class has */
  clu_search_later(s, value);
}

#if R_VERSION >= R_Version(4, 6, 0)
static SEXP visit_mapped(SEXP name, SEXP value, void *data) {
  visit_attribute(data, name, value);
  return NULL;
}
#endif

/* The definition of a class of the workspace's. */
static void take_class(clu_search *s, SEXP class) {
  char name[300];
  if (Rf_xlength(class) != 1 || LENGTH(STRING_ELT(class, 0)) > 255) return;
  strcpy(name, ".__C__");
  strcat(name, CHAR(STRING_ELT(class, 0)));
  take(s, Rf_install(name), leads_to(s, Rf_install(name), 0));
}

static void visit_attributes(clu_search *s, SEXP x) {
  if (TYPEOF(x) == STRSXP) { /* a name of a class */
    SEXP package = Rf_getAttrib(x, Rf_install("package"));
    if (TYPEOF(package) == STRSXP && Rf_xlength(package) == 1 &&
        strcmp(CHAR(STRING_ELT(package, 0)), ".GlobalEnv") == 0)
      take_class(s, x);
  }
#if R_VERSION >= R_Version(4, 6, 0)
  if (ANY_ATTRIB(x)) R_mapAttrib(x, visit_mapped, s);
#else
  for (SEXP a = ATTRIB(x); a != R_NilValue; a = CDR(a)) visit_attribute(s, TAG(a), CAR(a));
#endif
  if (Rf_isObject(x)) {
    SEXP class = Rf_getAttrib(x, R_ClassSymbol), package;
    if (TYPEOF(class) != STRSXP) return;
    PROTECT(class);
    for (R_xlen_t i = 0; i < Rf_xlength(class); i++) {
      SEXP c = STRING_ELT(class, i);
      if (clu_map_get(&s->seen, c)) continue;
      clu_map_put(&s->seen, c, 1);
      clu_search_find(s, CLASSES, Rf_ScalarString(c));
    }
    package = Rf_getAttrib(class, Rf_install("package"));
    if (TYPEOF(package) == STRSXP && Rf_xlength(package) == 1) {
      if (strcmp(CHAR(STRING_ELT(package, 0)), ".GlobalEnv") == 0) {
        take_class(s, class);
      } else if (!clu_map_get(&s->packages, STRING_ELT(package, 0))) {
        clu_map_put(&s->packages, STRING_ELT(package, 0), 1);
        clu_search_find(s, S4_PACKAGES, package);
      }
    }
    UNPROTECT(1);
  }
}

/* A class of package R6 has the name of its parent class as code. That is evaluated when an object
 * is made, where the class was defined. */
static void visit_parent_class(clu_search *s, SEXP class) {
  binding inherit = look_up(Rf_install("inherit"), class);
  binding from = look_up(Rf_install("parent_env"), class);
  if (TYPEOF(from.value) != ENVSXP) return;
  if (TYPEOF(inherit.value) == SYMSXP || TYPEOF(inherit.value) == LANGSXP) {
    SEXP code = PROTECT(Rf_lang2(Rf_install("("), inherit.value));
    clu_search_find(s, HELD, code); /* bodies are known by their address */
    resolve(s, from.value, clu_symbols_of(s, R_NilValue, code));
    UNPROTECT(1);
  }
}

/* Promises that no code asks for, as far as it is known by now, stay: what they need is searched.
 */
static void visit_environment(clu_search *s, SEXP env) {
  SEXP names, held;
  R_xlen_t n;
  if (clu_env_stays(env)) return;
  names = PROTECT(R_lsInternal3(env, TRUE, FALSE));
  n = Rf_xlength(names);
  held = PROTECT(Rf_allocVector(VECSXP, 3 * n));
  clu_search_find(s, HELD, held); /* R code that runs meanwhile may remove variables */
  for (R_xlen_t i = 0; i < n; i++) {
    binding b = look_up(Rf_installTrChar(STRING_ELT(names, i)), env);
    SET_VECTOR_ELT(held, 3 * i, b.value);
    SET_VECTOR_ELT(held, 3 * i + 1, b.expr);
    SET_VECTOR_ELT(held, 3 * i + 2, b.env);
  }
  for (R_xlen_t i = 0; i < n; i++) {
    SEXP expr = VECTOR_ELT(held, 3 * i + 1), from = VECTOR_ELT(held, 3 * i + 2);
    clu_search_later(s, VECTOR_ELT(held, 3 * i));
    if (TYPEOF(from) != ENVSXP) continue;
    resolve(s, from, clu_symbols_of(s, R_NilValue, expr));
    clu_search_later(s, from);
  }
  UNPROTECT(2);
  if (Rf_inherits(env, "R6ClassGenerator")) visit_parent_class(s, env);
  clu_search_later(s, clu_parent_env(env));
}

/* Objects of ours that are of no use elsewhere, and hold much. */
static int is_ours(SEXP x) {
  return Rf_isObject(x) && (Rf_inherits(x, "clutch_cluster") || Rf_inherits(x, "clutch_node") ||
                            Rf_inherits(x, "clutch_task"));
}

static void visit_language(clu_search *s, SEXP x) {
  if (TYPEOF(x) == LANGSXP && clu_is_symbol(CAR(x), "~")) {
    SEXP env = Rf_getAttrib(x, Rf_install(".Environment"));
    if (TYPEOF(env) == ENVSXP) {
      resolve(s, env, clu_symbols_of(s, R_NilValue, x));
      return;
    }
  }
  for (; TYPEOF(x) == LANGSXP || TYPEOF(x) == LISTSXP || TYPEOF(x) == DOTSXP; x = CDR(x))
    clu_search_later(s, CAR(x));
}

static void visit(clu_search *s, SEXP x) {
  switch (TYPEOF(x)) {
  case ENVSXP:
    if (clu_env_stays(x)) return;
    /* fall through */
  case VECSXP:
  case EXPRSXP:
  case CLOSXP:
  case LANGSXP:
  case LISTSXP:
  case DOTSXP:
    if (clu_map_get(&s->seen, x)) return;
    clu_map_put(&s->seen, x, 1);
    break;
  default: break;
  }
  if (is_ours(x)) {
    s->has_task |= Rf_inherits(x, "clutch_task");
    return;
  }
  switch (TYPEOF(x)) {
  case ENVSXP: visit_environment(s, x); break;
  case VECSXP:
  case EXPRSXP:
    for (R_xlen_t i = 0; i < Rf_xlength(x); i++) clu_search_later(s, VECTOR_ELT(x, i));
    break;
  case CLOSXP: {
    SEXP body = PROTECT(R_ClosureExpr(x));
    if (!clu_env_stays(clu_closure_env(x)) || clu_closure_env(x) == R_GlobalEnv ||
        clu_closure_env(x) == R_BaseEnv) {
      resolve(s, clu_closure_env(x), clu_symbols_of(s, clu_closure_formals(x), body));
      clu_search_later(s, clu_closure_env(x));
    }
    UNPROTECT(1);
    break;
  }
  case LANGSXP:
  case LISTSXP:
  case DOTSXP: visit_language(s, x); break;
  case PROMSXP: { /* of `...` */
    SEXP value = PROTECT(clu_try_value(x, R_BaseEnv));
    clu_search_find(s, HELD, value);
    clu_search_later(s, value);
    UNPROTECT(1);
    break;
  }
  default: break;
  }
  if (TYPEOF(x) != DOTSXP && TYPEOF(x) != PROMSXP) visit_attributes(s, x);
}

static SEXP as_list(SEXP cells) {
  return cells == R_NilValue ? Rf_allocVector(VECSXP, 0) : Rf_PairToVectorList(cells);
}

static int has_found(const clu_search *s) {
  for (int k = 0; k < N_FOUND; k++)
    if (k != HELD && clu_search_found(s, k) != R_NilValue) return 1;
  return 0;
}

void clu_search_go_on(clu_search *s) {
  unsigned n = 0;
  while (s->ntodo > 0) {
    if (++n % 4096 == 0) R_CheckUserInterrupt();
    visit(s, s->todo[--s->ntodo]);
  }
}

/* Searches what can be reached from `roots`, a list, and from what the symbols `also` (a character
 * vector of names) lead to. Returns what was found by it and not before: list(globals (symbols),
 * packages, classes, S4 packages, generics, texts in the code (symbols), packages that code names
 * by
 * `::` (symbols)), or NULL: nothing. */
SEXP ffi_globals_search(SEXP x, SEXP roots, SEXP also) {
  clu_search *s = clu_search_get(x);
  SEXP out;
  for (int k = 0; k < N_FOUND; k++)
    if (k != HELD) SET_VECTOR_ELT(CAR(s->kept), k, R_NilValue);
  s->ntodo = 0;
  clu_search_find(s, HELD, roots);
  clu_search_later(s, roots);
  for (R_xlen_t i = 0; i < Rf_xlength(also); i++) {
    SEXP symbol = Rf_installTrChar(STRING_ELT(also, i));
    uint64_t where = leads_to(s, symbol, 0);
    take(s, symbol, where == NOWHERE ? leads_to(s, symbol, 1) : where);
  }
  clu_search_go_on(s);
  if (!has_found(s)) return R_NilValue;
  out = PROTECT(Rf_allocVector(VECSXP, N_FOUND - 1));
  for (int k = 0; k < N_FOUND - 1; k++) SET_VECTOR_ELT(out, k, as_list(clu_search_found(s, k)));
  UNPROTECT(1);
  return out;
}

/* The first environment from `env` on, and below `top`, that has this variable; NULL: none. */
static SEXP frame_of(SEXP symbol, SEXP env, SEXP top) {
  for (; env != top && env != R_EmptyEnv; env = clu_parent_env(env))
    if (R_existsVarInFrame(env, symbol)) return env;
  return NULL;
}

/* An argument that lapply() and its like pass, and that nobody has asked for yet: X[[i]] of a plain
 * vector, which cannot fail and runs no code of others. Its value. */
static SEXP element_of_plain(const binding *b, SEXP symbol, SEXP env) {
  SEXP x, i;
  if (TYPEOF(b->env) != ENVSXP || TYPEOF(b->expr) != LANGSXP || Rf_length(b->expr) != 3 ||
      CAR(b->expr) != R_Bracket2Symbol || TYPEOF(CADR(b->expr)) != SYMSXP ||
      TYPEOF(CADDR(b->expr)) != SYMSXP)
    return R_NilValue;
  x = look_up(CADR(b->expr), b->env).value;
  i = look_up(CADDR(b->expr), b->env).value;
  if (!Rf_isVector(x) || Rf_isObject(x) || !Rf_isNumeric(i) || Rf_isObject(i) ||
      Rf_xlength(i) != 1 || !(Rf_asReal(i) >= 1 && Rf_asReal(i) <= (double)Rf_xlength(x)))
    return R_NilValue;
  return Rf_eval(symbol, env);
}

R_xlen_t clu_search_locals(clu_search *s, SEXP code, SEXP env, SEXP top, SEXP frame, SEXP names) {
  clu_span all = clu_symbols_of(s, R_NilValue, code);
  R_xlen_t n = 0;
  for (size_t k = 0; k < all.n; k++) {
    const clu_use *u = &s->uses[all.first + k];
    SEXP at = u->how & (USED | CALLED) ? frame_of(u->symbol, env, top) : NULL;
    binding b;
    if (!at) continue;
    b = look_up(u->symbol, at);
    if (b.value == R_NilValue) b.value = element_of_plain(&b, u->symbol, at);
    if (!R_BindingIsActive(u->symbol, at) && b.value != R_NilValue) {
      Rf_defineVar(u->symbol, b.value, frame);
      continue;
    }
    if (names != R_NilValue) SET_STRING_ELT(names, n, PRINTNAME(u->symbol));
    n++;
  }
  return n;
}

/* Does as clu_search_locals(). Returns the names of those that are left to R. */
SEXP ffi_globals_locals(SEXP x, SEXP code, SEXP env, SEXP top, SEXP frame) {
  clu_search *s = clu_search_get(x);
  clu_span all = clu_symbols_of(s, R_NilValue, code);
  SEXP names = PROTECT(Rf_allocVector(STRSXP, (R_xlen_t)all.n));
  names = Rf_lengthgets(names, clu_search_locals(s, code, env, top, frame, names));
  UNPROTECT(1);
  return names;
}
