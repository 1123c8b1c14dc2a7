/* Closures of a job that R has compiled in an earlier one.
 *
 * R compiles a closure at its second call, and keeps the code for others with the same body. It
 * looks at these by the variables of their environments, and cannot where one of them is hashed, as
 * that of local(), new.env() and R6 is: of two closures with the same body the second is never
 * compiled then (R_cmpfun() and jit_env_match() in R's src/main/eval.c). In a session that is rare.
 * A node gets such a closure anew with each map: from the second on, loops took ten times as long.
 *
 * So what R has compiled is remembered here. The next closure with the same formals and body gets
 * that code, if the code would come out the same: it has the same source references, the same
 * namespace or the workspace is above its environments, and none of base R's functions that are
 * in the code by themselves has another meaning there (a `+` of the workspace, a local `[`). Where
 * it would not, R is asked to compile that closure.
 *
 * Not seen: functions that are elements of a map, arguments that were forced in an enclosing
 * function, variables that an earlier call has put into the workspace.
 */
#include "r/node/node.h"

#include <stdio.h>
#include <string.h>

#define MOST_KNOWN 64     /* closures whose code is kept */
#define MOST_WATCHED 64   /* closures of a job that R may compile */
#define MOST_VISITED 1000 /* objects of a job that are looked at, */
#define MOST_DEEP 8       /* so deep in one another, */
#define MOST_ELEMENTS 100 /* so many of each list */
#define MOST_ENVS 64      /* environments, */
#define MOST_NAMES 500    /* each with so many variables */
#define MOST_COMPILED 4   /* closures of a job that R is asked to compile, for 5 ms each */
#define MOST_CODE 5000    /* parts of the code of a closure; and in it vectors at most so long: */
#define MOST_CONSTANT 1000
#define MOST_PARTS 50000 /* parts of code that are looked at for a job */

/* Preserved: what is watched, what is known, functions that compiled code has in itself. */
enum { WATCHED, KNOWN, LANGUAGE, N_KEPT };

/* This is known: a closure's formals, body and source reference; what is above its environments;
 * those of base R's functions that its code calls; the code, or NULL: it is for no other closure.
 */
enum { FORMALS_OF, BODY_OF, SRCREF_OF, TOP_OF, CALLS, CODE, N_KNOWN };

static struct {
  SEXP kept;
  uint64_t owner;            /* the job whose closures are watched; 0: a call */
  int watched;               /* so many */
  int known, next;           /* so many, and which of them is replaced next */
  unsigned hash[MOST_KNOWN]; /* of their code */
} compiled;

/* One clu_compiled_use(): how much of it is left to do. */
typedef struct use {
  SEXP envs[MOST_ENVS]; /* that were visited: what is looked at refers to them */
  int n_envs, objects, parts, compile;
  int jit; /* whether R compiles; -1: it was not asked */
} use;

/* A list that is kept, of `n` elements: made when it is first needed. */
static SEXP list(int which, int n) {
  SEXP x = clu_kept_in(compiled.kept, which);
  if (x != R_NilValue) return x;
  return clu_keep_in(&compiled.kept, N_KEPT, which, Rf_allocVector(VECSXP, n));
}

static SEXP known(int i) { return VECTOR_ELT(clu_kept_in(compiled.kept, KNOWN), i); }

static int is_compiled(SEXP f) { return TYPEOF(clu_closure_body(f)) == BCODESXP; }

static int is_code(SEXP x) { return TYPEOF(x) == LANGSXP || TYPEOF(x) == LISTSXP; }

/* `function(x) ...` in code: its third argument is a source reference. */
static int is_definition(SEXP x) {
  return TYPEOF(x) == LANGSXP && CAR(x) == Rf_install("function");
}

/* ---- code ---- */

/* A constant, in short. */
static uintptr_t mark_of(SEXP x) {
  uintptr_t mark = 0;
  if (Rf_xlength(x) == 0) return 0;
  switch (TYPEOF(x)) {
  case LGLSXP:
  case INTSXP: return (uintptr_t)INTEGER_ELT(x, 0);
  case STRSXP: return (uintptr_t)STRING_ELT(x, 0) >> 4;
  case REALSXP: {
    double first = REAL_ELT(x, 0);
    memcpy(&mark, &first, sizeof mark < sizeof first ? sizeof mark : sizeof first);
    return mark ^ mark >> 16 ^ mark >> (4 * sizeof mark);
  }
  default: return 1;
  }
}

static void add_to_hash(unsigned *hash, uintptr_t x) { *hash = (*hash ^ (unsigned)x) * 16777619u; }

/* Adds code to a hash. 0: it is not for us, or there are no `*parts` left. Only `{` may have
 * attributes, which are source references. */
static int hash_code(SEXP x, unsigned *hash, int *parts) {
  for (;; x = CDR(x)) {
    if (--*parts < 0) return 0;
    add_to_hash(hash, (uintptr_t)TYPEOF(x));
    if (x == R_NilValue) return 1;
    if (TYPEOF(x) == SYMSXP) {
      add_to_hash(hash, (uintptr_t)x >> 4);
      return 1;
    }
    if (!is_code(x)) {
      if (!Rf_isVectorAtomic(x) || clu_has_attributes(x) || Rf_xlength(x) > MOST_CONSTANT) return 0;
      add_to_hash(hash, mark_of(x));
      return 1;
    }
    if (clu_has_attributes(x) && CAR(x) != R_BraceSymbol) return 0;
    if (!hash_code(CAR(x), hash, parts)) return 0;
    if (is_definition(x))
      return hash_code(CADR(x), hash, parts) && hash_code(CADDR(x), hash, parts);
  }
}

/* The hash of a closure's code; 0: it is not for us. */
static unsigned hash_of(SEXP formals, SEXP body, int *left) {
  int parts = *left < MOST_CODE ? *left : MOST_CODE, had = parts;
  unsigned hash = 2166136261u;
  int ok = hash_code(formals, &hash, &parts) && hash_code(body, &hash, &parts);
  *left -= had - (parts > 0 ? parts : 0);
  return ok ? hash | 1 : 0;
}

/* Tells whether two pieces of code, of which hash_code() has been through one, are the same but for
 * their source references. */
static int is_same_code(SEXP a, SEXP b, int *parts) {
  for (;; a = CDR(a), b = CDR(b)) {
    if (a == b) return 1;
    if (--*parts < 0 || TYPEOF(a) != TYPEOF(b)) return 0;
    if (!is_code(a)) return TYPEOF(a) != SYMSXP && R_compute_identical(a, b, 16);
    if (TAG(a) != TAG(b) || !is_same_code(CAR(a), CAR(b), parts)) return 0;
    if (is_definition(a))
      return is_same_code(CADR(a), CADR(b), parts) && is_same_code(CADDR(a), CADDR(b), parts);
  }
}

/* ---- source references ---- */

static SEXP text_in(SEXP srcfile, const char *name) {
  SEXP symbol = Rf_install(name);
  if (TYPEOF(srcfile) != ENVSXP || !R_existsVarInFrame(srcfile, symbol)) return R_NilValue;
  return clu_variable(symbol, srcfile);
}

/* Tells whether two source references mean the same place of the same text. */
static int is_same_srcref(SEXP a, SEXP b) {
  static const char *const parts[] = {"filename", "timestamp", "lines"};
  SEXP of_a, of_b;
  if (a == b) return 1;
  if (TYPEOF(a) != INTSXP || TYPEOF(b) != INTSXP || Rf_xlength(a) != Rf_xlength(b)) return 0;
  if (memcmp(INTEGER(a), INTEGER(b), (size_t)Rf_xlength(a) * sizeof(int)) != 0) return 0;
  of_a = Rf_getAttrib(a, Rf_install("srcfile"));
  of_b = Rf_getAttrib(b, Rf_install("srcfile"));
  if (of_a == of_b) return 1;
  for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
    if (!R_compute_identical(text_in(of_a, parts[i]), text_in(of_b, parts[i]), 16)) return 0;
  return 1;
}

/* That of the first `{` of the body, where it has one: R's compiler goes by these. Else that of the
 * closure. */
static SEXP srcref_of(SEXP f, SEXP body) {
  SEXP all = is_code(body) ? Rf_getAttrib(body, Rf_install("srcref")) : R_NilValue;
  if (TYPEOF(all) == VECSXP && Rf_xlength(all) > 0) return VECTOR_ELT(all, 0);
  return Rf_getAttrib(f, Rf_install("srcref"));
}

/* ---- what calls mean ---- */

static int is_in(SEXP x, SEXP cells) {
  for (; cells != R_NilValue; cells = CDR(cells))
    if (CAR(cells) == x) return 1;
  return 0;
}

/* `cells` and the symbol, if base R has such a variable. */
static SEXP with_symbol(SEXP symbol, SEXP cells) {
  if (!R_existsVarInFrame(R_BaseEnv, symbol) || is_in(symbol, cells)) return cells;
  return Rf_cons(symbol, cells);
}

/* `cells` and what the code calls by name, with the functions that would assign by that name. */
static SEXP with_calls(SEXP x, SEXP cells) {
  for (; is_code(x); x = CDR(x)) {
    PROTECT(cells);
    if (TYPEOF(x) == LANGSXP && TYPEOF(CAR(x)) == SYMSXP) {
      char name[64];
      int n = snprintf(name, sizeof name, "%s<-", CHAR(PRINTNAME(CAR(x))));
      cells = with_symbol(CAR(x), cells);
      UNPROTECT(1);
      PROTECT(cells);
      if (n < (int)sizeof name) cells = with_symbol(Rf_install(name), cells);
    } else {
      cells = with_calls(CAR(x), cells);
    }
    UNPROTECT(1);
  }
  return cells;
}

/* A namespace, the workspace, or another environment that does not travel. */
static SEXP top_of(SEXP env) {
  while (!clu_env_stays(env)) env = clu_parent_env(env);
  return env;
}

static int has_any(SEXP env, SEXP symbols) {
  for (; symbols != R_NilValue; symbols = CDR(symbols))
    if (R_existsVarInFrame(env, CAR(symbols))) return 1;
  return 0;
}

/* Tells whether one of these functions of base R has another meaning in that environment, as far as
 * that can differ: what a namespace sees is always the same. */
static int is_masked(SEXP symbols, SEXP env, SEXP top) {
  for (; env != top; env = clu_parent_env(env))
    if (has_any(env, symbols)) return 1;
  if (top != R_GlobalEnv) return 0;
  for (; env != R_BaseEnv && env != R_EmptyEnv; env = clu_parent_env(env))
    if (has_any(env, symbols)) return 1;
  return 0;
}

/* The names of those functions that code of the workspace has in itself when it is compiled; NULL
 * where the compiler does not say. */
static SEXP language_functions(void) {
  SEXP x = list(LANGUAGE, 1);
  if (VECTOR_ELT(x, 0) == R_NilValue) {
    SEXP names = PROTECT(clu_node_r("node_language_functions", R_NilValue)), cells = R_NilValue;
    for (R_xlen_t i = 0; i < Rf_xlength(names); i++) {
      PROTECT(cells);
      cells = Rf_cons(Rf_installTrChar(STRING_ELT(names, i)), cells);
      UNPROTECT(1);
    }
    SET_VECTOR_ELT(x, 0, cells);
    UNPROTECT(1);
  }
  return VECTOR_ELT(x, 0);
}

/* Returns what code calls, as far as it matters. */
static SEXP calls_of(SEXP formals, SEXP body, SEXP top) {
  SEXP cells = PROTECT(with_calls(formals, R_NilValue)), language, few = R_NilValue;
  cells = PROTECT(with_calls(body, cells));
  language = top == R_GlobalEnv ? language_functions() : R_NilValue;
  if (language == R_NilValue) {
    UNPROTECT(2);
    return cells;
  }
  for (SEXP c = cells; c != R_NilValue; c = CDR(c)) {
    if (!is_in(CAR(c), language)) continue;
    PROTECT(few);
    few = Rf_cons(CAR(c), few);
    UNPROTECT(1);
  }
  UNPROTECT(2);
  return few;
}

/* ---- closures ---- */

/* `again`: the body is known. */
static void remember(SEXP f, unsigned hash, int again) {
  SEXP formals = clu_closure_formals(f), env = clu_closure_env(f), top = top_of(env);
  SEXP body = PROTECT(R_ClosureExpr(f)), k = PROTECT(Rf_allocVector(VECSXP, N_KNOWN));
  SET_VECTOR_ELT(k, FORMALS_OF, formals);
  SET_VECTOR_ELT(k, BODY_OF, body);
  SET_VECTOR_ELT(k, SRCREF_OF, srcref_of(f, body));
  SET_VECTOR_ELT(k, TOP_OF, top);
  SET_VECTOR_ELT(k, CALLS, calls_of(formals, body, top));
  if (!is_masked(VECTOR_ELT(k, CALLS), env, top)) SET_VECTOR_ELT(k, CODE, clu_closure_body(f));
  if (!again || VECTOR_ELT(k, CODE) != R_NilValue) {
    SET_VECTOR_ELT(list(KNOWN, MOST_KNOWN), compiled.next, k);
    compiled.hash[compiled.next] = hash;
    compiled.next = (compiled.next + 1) % MOST_KNOWN;
    if (compiled.known < MOST_KNOWN) compiled.known++;
  }
  UNPROTECT(2);
}

enum { UNKNOWN = -1, OTHER = -2 }; /* OTHER: the same body, but its code is not for this one */

/* The number of what is known of a closure and is its code, too. */
static int find(SEXP f, SEXP body, unsigned hash, int *parts) {
  SEXP formals = clu_closure_formals(f), env = clu_closure_env(f), top = top_of(env);
  int found = UNKNOWN;
  for (int i = 0; i < compiled.known; i++) {
    SEXP k = known(i);
    if (compiled.hash[i] != hash || !is_same_code(VECTOR_ELT(k, BODY_OF), body, parts) ||
        !is_same_code(VECTOR_ELT(k, FORMALS_OF), formals, parts))
      continue;
    found = OTHER;
    if (VECTOR_ELT(k, CODE) != R_NilValue && VECTOR_ELT(k, TOP_OF) == top &&
        is_same_srcref(VECTOR_ELT(k, SRCREF_OF), srcref_of(f, body)) &&
        !is_masked(VECTOR_ELT(k, CALLS), env, top))
      return i;
  }
  return found;
}

static SEXP with_code(SEXP f, SEXP code) {
  SEXP out = PROTECT(clu_closure(clu_closure_formals(f), code, clu_closure_env(f)));
  SHALLOW_DUPLICATE_ATTRIB(out, f);
  UNPROTECT(1);
  return out;
}

static int does_compile(use *u) {
  if (u->jit < 0) {
    SEXP level = PROTECT(Rf_lang2(Rf_install("enableJIT"), PROTECT(Rf_ScalarInteger(-1))));
    level = PROTECT(clu_internal_call(level));
    u->jit = Rf_asInteger(Rf_eval(level, R_BaseEnv)) > 0;
    UNPROTECT(3);
  }
  return u->jit;
}

static void watch(SEXP f) {
  SEXP all = list(WATCHED, MOST_WATCHED);
  for (int i = 0; i < compiled.watched; i++)
    if (VECTOR_ELT(all, i) == f) return;
  if (compiled.watched < MOST_WATCHED) SET_VECTOR_ELT(all, compiled.watched++, f);
}

/* The closure, or one that is compiled. `f` is protected. */
static SEXP use_code(SEXP f, use *u) {
  unsigned hash;
  int i;
  if (Rf_isS4(f) || is_compiled(f)) return f;
  hash = hash_of(clu_closure_formals(f), clu_closure_body(f), &u->parts);
  if (!hash) return f;
  i = find(f, clu_closure_body(f), hash, &u->parts);
  if (i == UNKNOWN) {
    watch(f);
    return f;
  }
  if (!does_compile(u)) return f;
  if (i >= 0) return with_code(f, VECTOR_ELT(known(i), CODE));
  if (--u->compile < 0) return f;
  f = PROTECT(clu_node_r("node_compile", f));
  if (is_compiled(f)) remember(f, hash, 1);
  UNPROTECT(1);
  return f;
}

/* ---- where they are ---- */

/* The value of a variable, but of none that is active or still a promise. */
static SEXP plain_value(SEXP symbol, SEXP env) {
  if (!R_existsVarInFrame(env, symbol) || R_BindingIsActive(symbol, env)) return R_NilValue;
#if R_VERSION >= R_Version(4, 6, 0)
  if (R_GetBindingType(symbol, env) != R_BindingTypeValue) return R_NilValue;
  return R_getVarEx(symbol, env, FALSE, R_NilValue);
#else
  return Rf_findVarInFrame(env, symbol); /* a promise is not forced */
#endif
}

static void set_variable(SEXP symbol, SEXP value, SEXP env) {
  int locked = R_BindingIsLocked(symbol, env);
  if (locked) R_unLockBinding(symbol, env);
  Rf_defineVar(symbol, value, env);
  if (locked) R_LockBinding(symbol, env);
}

static SEXP visit(SEXP x, int deep, use *u);

/* Tells whether it is visited now for the first time: it is remembered. */
static int add_environment(SEXP env, use *u) {
  for (int i = 0; i < u->n_envs; i++)
    if (u->envs[i] == env) return 0;
  if (u->n_envs == MOST_ENVS || Rf_length(env) > MOST_NAMES) return 0;
  u->envs[u->n_envs++] = env;
  return 1;
}

static void visit_environments(SEXP env, int deep, use *u) {
  for (; !clu_env_stays(env); env = clu_parent_env(env)) {
    SEXP names;
    if (!add_environment(env, u)) return;
    names = PROTECT(R_lsInternal3(env, TRUE, FALSE));
    for (R_xlen_t i = 0; i < Rf_xlength(names) && u->objects > 0; i++) {
      SEXP symbol = Rf_installTrChar(STRING_ELT(names, i));
      SEXP old = PROTECT(plain_value(symbol, env)), new = PROTECT(visit(old, deep, u));
      if (new != old) set_variable(symbol, new, env);
      UNPROTECT(2);
    }
    UNPROTECT(1);
  }
}

static void visit_list(SEXP x, int deep, use *u) {
  for (R_xlen_t i = 0; i < Rf_xlength(x) && i < MOST_ELEMENTS; i++) {
    SEXP old = PROTECT(VECTOR_ELT(x, i)), new = PROTECT(visit(old, deep, u));
    if (new != old) SET_VECTOR_ELT(x, i, new);
    UNPROTECT(2);
  }
}

/* Returns the object, which is protected, or the closure that is to be in its place. */
static SEXP visit(SEXP x, int deep, use *u) {
  int type = TYPEOF(x);
  if (type != CLOSXP && type != ENVSXP && type != VECSXP) return x;
  if (--u->objects < 0 || deep == MOST_DEEP) return x;
  if (type == VECSXP) visit_list(x, deep + 1, u);
  if (type == ENVSXP) visit_environments(x, deep + 1, u);
  if (type != CLOSXP || clu_env_stays(clu_closure_env(x))) return x; /* that R compiles */
  visit_environments(clu_closure_env(x), deep + 1, u);
  return use_code(x, u);
}

/* Variables of a list that are in the workspace, too. */
static void visit_globals(SEXP x, use *u) {
  SEXP names = PROTECT(Rf_getAttrib(x, R_NamesSymbol));
  for (R_xlen_t i = 0; i < Rf_xlength(names) && i < MOST_ELEMENTS; i++) {
    SEXP symbol = Rf_installTrChar(STRING_ELT(names, i));
    SEXP old = PROTECT(VECTOR_ELT(x, i)), new = PROTECT(visit(old, 1, u));
    if (new != old) {
      SET_VECTOR_ELT(x, i, new);
      if (plain_value(symbol, R_GlobalEnv) == old) set_variable(symbol, new, R_GlobalEnv);
    }
    UNPROTECT(2);
  }
  UNPROTECT(1);
}

/* Remembers what R has compiled of those that are watched, and watches that no more. */
static void note(void) {
  SEXP all = clu_kept_in(compiled.kept, WATCHED);
  int n = compiled.watched;
  compiled.watched = 0;
  for (int i = 0; i < n; i++) {
    SEXP f = PROTECT(VECTOR_ELT(all, i));
    SET_VECTOR_ELT(all, i, R_NilValue);
    if (is_compiled(f)) {
      int parts = 2 * MOST_CODE, found = 0;
      SEXP body = PROTECT(R_ClosureExpr(f));
      unsigned hash = hash_of(clu_closure_formals(f), body, &parts);
      parts = MOST_PARTS;
      if (hash) found = find(f, body, hash, &parts);
      if (found < 0) remember(f, hash, found == OTHER);
      UNPROTECT(1);
    } else {
      SET_VECTOR_ELT(all, compiled.watched++, f);
    }
    UNPROTECT(1);
  }
}

void clu_compiled_note(uint64_t owner) {
  if (owner == compiled.owner) note();
}

void clu_compiled_end(uint64_t owner) {
  SEXP all = clu_kept_in(compiled.kept, WATCHED);
  if (owner != compiled.owner) return;
  note();
  for (int i = 0; i < compiled.watched; i++) SET_VECTOR_ELT(all, i, R_NilValue);
  compiled.watched = 0;
  compiled.owner = 0;
}

void clu_compiled_use(SEXP x, int globals, uint64_t owner) {
  use u = {.objects = MOST_VISITED, .parts = MOST_PARTS, .compile = MOST_COMPILED, .jit = -1};
  if (TYPEOF(x) != VECSXP || (owner && owner == compiled.owner)) return;
  clu_compiled_end(compiled.owner);
  for (R_xlen_t i = 0; i < Rf_xlength(x) && i < MOST_ELEMENTS; i++) {
    SEXP old = VECTOR_ELT(x, i), new;
    if (i == globals && TYPEOF(old) == VECSXP) {
      visit_globals(old, &u);
      continue;
    }
    new = PROTECT(visit(PROTECT(old), 0, &u));
    if (new != old) SET_VECTOR_ELT(x, i, new);
    UNPROTECT(2);
  }
  compiled.owner = owner; /* not before: it may jump out */
}
