/* Closures of a job that R has compiled in an earlier one.
 *
 * R compiles a closure at its second call, and keeps the code for others with the same body. It
 * looks at these by the variables of their environments, and cannot where one of them is hashed, as
 * that of local(), new.env() and R6 is: of two closures with the same body the second is never
 * compiled then (R_cmpfun() and jit_env_match() in R's src/main/eval.c). In a session that is rare.
 * A node gets such a closure anew with each map: from the second on, loops took ten times as long.
 *
 * So the code that R has compiled is remembered here, and given to the next closure that has the
 * same formals, body, names of variables in its environments, and the same namespace or workspace
 * above these: R's own conditions, but for the hashing. Environments, and so data, are not kept.
 */
#include "r/node/node.h"

#define MOST_KNOWN 64     /* closures whose code is kept */
#define MOST_WATCHED 64   /* closures of a job that R may compile */
#define MOST_VISITED 1000 /* objects of a job that are looked at, */
#define MOST_DEEP 8       /* so deep in one another, */
#define MOST_ELEMENTS 100 /* so many of each list */
#define MOST_FRAMES 64    /* environments, each with so many variables: */
#define MOST_NAMES 500
#define MOST_CODE 10000 /* parts of the code of a closure; and in it vectors at most so long: */
#define MOST_CONSTANT 1000

/* Preserved: what is watched and known, as below; environments at hand, and their frames. */
enum { WATCHED, KNOWN, ENVS, FRAMES, N_KEPT };

/* What is watched: closure, frame. What is known: formals, body, compiled code, frame. */
enum { CLOSURE, ITS_FRAME, N_WATCHED };
enum { FORMALS_OF, BODY_OF, CODE, FRAME_OF, N_KNOWN };

static struct {
  SEXP kept;
  int watched;     /* so many */
  int known, next; /* so many, and which of them is replaced next */
  int envs;        /* so many are at hand */
  int left;        /* so many objects may still be visited */
} compiled;

static SEXP keep(int which, SEXP x) { return clu_keep_in(&compiled.kept, N_KEPT, which, x); }

/* A list that is kept, of `n` elements: made when it is first needed. */
static SEXP list(int which, int n) {
  SEXP x = clu_kept_in(compiled.kept, which);
  return x == R_NilValue ? keep(which, Rf_allocVector(VECSXP, n)) : x;
}

static void clear(int which, int n) {
  SEXP x = clu_kept_in(compiled.kept, which);
  for (int i = 0; i < n; i++) SET_VECTOR_ELT(x, i, R_NilValue);
}

static int is_compiled(SEXP f) { return TYPEOF(clu_closure_body(f)) == BCODESXP; }

/* ---- the same code ---- */

/* Whether two pieces of code are the same but for their source references. `left`: so many parts
 * are compared at the most. */
static int is_same_code(SEXP a, SEXP b, int *left) {
  for (;; a = CDR(a), b = CDR(b)) {
    if (a == b) return 1;
    if (--*left < 0 || TYPEOF(a) != TYPEOF(b)) return 0;
    if (TYPEOF(a) != LANGSXP && TYPEOF(a) != LISTSXP)
      return TYPEOF(a) != SYMSXP && Rf_xlength(a) <= MOST_CONSTANT && R_compute_identical(a, b, 16);
    if (TAG(a) != TAG(b)) return 0;
    /* source references are attributes of `{`, and the last argument of `function` */
    if ((clu_has_attributes(a) || clu_has_attributes(b)) && CAR(a) != R_BraceSymbol) return 0;
    if (!is_same_code(CAR(a), CAR(b), left)) return 0;
    if (TYPEOF(a) == LANGSXP && CAR(a) == Rf_install("function"))
      return is_same_code(CADR(a), CADR(b), left) && is_same_code(CADDR(a), CADDR(b), left);
  }
}

static int is_same(SEXP a, SEXP b) {
  int left = MOST_CODE;
  return is_same_code(a, b, &left);
}

/* Whether it is small enough to be kept and compared. */
static int is_small(SEXP x, int *left) {
  for (;; x = CDR(x)) {
    if (--*left < 0) return 0;
    if (TYPEOF(x) != LANGSXP && TYPEOF(x) != LISTSXP)
      return TYPEOF(x) == SYMSXP || Rf_isVectorAtomic(x) ? Rf_xlength(x) <= MOST_CONSTANT
                                                         : x == R_NilValue;
    if (!is_small(CAR(x), left)) return 0;
    if (TYPEOF(x) == LANGSXP && CAR(x) == Rf_install("function"))
      return is_small(CADR(x), left) && is_small(CADDR(x), left);
  }
}

/* ---- frames ---- */

/* The names of the variables of an environment, of the one above it, and so on; last the one that
 * stays. NULL: they are too many. Not protected. */
static SEXP new_frame(SEXP env) {
  SEXP frame, at = env;
  int n = 0, i = 0;
  for (; !clu_env_stays(at); at = clu_parent_env(at))
    if (++n > MOST_DEEP || Rf_length(at) > MOST_NAMES) return R_NilValue;
  frame = PROTECT(Rf_allocVector(VECSXP, n + 1));
  for (at = env; !clu_env_stays(at); at = clu_parent_env(at))
    SET_VECTOR_ELT(frame, i++, R_lsInternal3(at, TRUE, FALSE));
  SET_VECTOR_ELT(frame, n, at);
  UNPROTECT(1);
  return frame;
}

/* The same, made once for each environment. NULL also where these are too many. */
static SEXP frame_of(SEXP env) {
  SEXP envs = list(ENVS, MOST_FRAMES), frames = list(FRAMES, MOST_FRAMES);
  for (int i = 0; i < compiled.envs; i++)
    if (VECTOR_ELT(envs, i) == env) return VECTOR_ELT(frames, i);
  if (compiled.envs == MOST_FRAMES) return R_NilValue;
  SET_VECTOR_ELT(frames, compiled.envs, new_frame(env));
  SET_VECTOR_ELT(envs, compiled.envs, env);
  return VECTOR_ELT(frames, compiled.envs++);
}

static int is_same_frame(SEXP a, SEXP b) {
  R_xlen_t n = Rf_xlength(a);
  if (Rf_xlength(b) != n || VECTOR_ELT(a, n - 1) != VECTOR_ELT(b, n - 1)) return 0;
  for (R_xlen_t i = 0; i < n - 1; i++) {
    SEXP x = VECTOR_ELT(a, i), y = VECTOR_ELT(b, i);
    if (Rf_xlength(x) != Rf_xlength(y)) return 0;
    for (R_xlen_t k = 0; k < Rf_xlength(x); k++)
      if (STRING_ELT(x, k) != STRING_ELT(y, k)) return 0;
  }
  return 1;
}

/* ---- closures ---- */

/* The closure with that code. */
static SEXP with_code(SEXP f, SEXP code) {
  SEXP out = PROTECT(clu_closure(clu_closure_formals(f), code, clu_closure_env(f)));
  SHALLOW_DUPLICATE_ATTRIB(out, f);
  UNPROTECT(1);
  return out;
}

/* What is known of a closure with these formals, body and frame, or else of one with another frame;
 * NULL: nothing. */
static SEXP find(SEXP formals, SEXP body, SEXP frame) {
  SEXP all = clu_kept_in(compiled.kept, KNOWN), other = R_NilValue;
  for (int i = 0; i < compiled.known; i++) {
    SEXP k = VECTOR_ELT(all, i);
    int fits = is_same_frame(VECTOR_ELT(k, FRAME_OF), frame);
    if (!fits && other != R_NilValue) continue;
    if (!is_same(VECTOR_ELT(k, BODY_OF), body) || !is_same(VECTOR_ELT(k, FORMALS_OF), formals))
      continue;
    if (fits) return k;
    other = k;
  }
  return other;
}

static int is_known(SEXP f, SEXP frame) {
  SEXP k = find(clu_closure_formals(f), PROTECT(R_ClosureExpr(f)), frame);
  UNPROTECT(1);
  return k != R_NilValue && is_same_frame(VECTOR_ELT(k, FRAME_OF), frame);
}

static void watch(SEXP f, SEXP frame) {
  SEXP one;
  if (compiled.watched == MOST_WATCHED) return;
  one = PROTECT(Rf_allocVector(VECSXP, N_WATCHED));
  SET_VECTOR_ELT(one, CLOSURE, f);
  SET_VECTOR_ELT(one, ITS_FRAME, frame);
  SET_VECTOR_ELT(list(WATCHED, MOST_WATCHED), compiled.watched++, one);
  UNPROTECT(1);
}

static void remember(SEXP f, SEXP frame) {
  SEXP k, formals = clu_closure_formals(f), body = PROTECT(R_ClosureExpr(f));
  int left = MOST_CODE;
  if (is_small(body, &left) && is_small(formals, &left)) {
    k = PROTECT(Rf_allocVector(VECSXP, N_KNOWN));
    SET_VECTOR_ELT(k, FORMALS_OF, formals);
    SET_VECTOR_ELT(k, BODY_OF, body);
    SET_VECTOR_ELT(k, CODE, clu_closure_body(f));
    SET_VECTOR_ELT(k, FRAME_OF, frame);
    SET_VECTOR_ELT(list(KNOWN, MOST_KNOWN), compiled.next, k);
    compiled.next = (compiled.next + 1) % MOST_KNOWN;
    if (compiled.known < MOST_KNOWN) compiled.known++;
    UNPROTECT(1);
  }
  UNPROTECT(1);
}

/* The closure, or one with the code that is known. Where that is of another frame R would not
 * compile this one: it is compiled here. */
static SEXP use(SEXP f) {
  SEXP frame, k, out;
  if (Rf_isObject(f) || is_compiled(f)) return f;
  frame = frame_of(clu_closure_env(f));
  if (frame == R_NilValue) return f;
  k = find(clu_closure_formals(f), clu_closure_body(f), frame);
  if (k == R_NilValue) {
    watch(f, frame);
    return f;
  }
  if (is_same_frame(VECTOR_ELT(k, FRAME_OF), frame)) return with_code(f, VECTOR_ELT(k, CODE));
  out = PROTECT(clu_node_r("node_compile", f));
  if (is_compiled(out)) remember(out, frame);
  UNPROTECT(1);
  return out;
}

/* ---- where they are ---- */

/* The value of a variable, but of none that is active or still a promise. */
static SEXP plain_value(SEXP symbol, SEXP env) {
  if (R_BindingIsActive(symbol, env)) return R_NilValue;
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

static SEXP visit(SEXP x, int deep);

static void visit_environments(SEXP env, int deep) {
  for (; !clu_env_stays(env); env = clu_parent_env(env)) {
    int before = compiled.envs;
    SEXP names = frame_of(env);
    if (names == R_NilValue || compiled.envs == before) return; /* it was visited */
    names = VECTOR_ELT(names, 0);
    for (R_xlen_t i = 0; i < Rf_xlength(names) && compiled.left > 0; i++) {
      SEXP symbol = Rf_installTrChar(STRING_ELT(names, i)), old = plain_value(symbol, env);
      SEXP new = PROTECT(visit(old, deep));
      if (new != old) set_variable(symbol, new, env);
      UNPROTECT(1);
    }
  }
}

/* Of a list that holds it, the closures get code in place. Returns the object, or the closure that
 * is to be in its place. */
static SEXP visit(SEXP x, int deep) {
  int type = TYPEOF(x);
  if (type != CLOSXP && type != ENVSXP && type != VECSXP) return x;
  if (--compiled.left < 0 || deep == MOST_DEEP) return x;
  if (type == CLOSXP) {
    if (clu_env_stays(clu_closure_env(x))) return x; /* R compiles it */
    visit_environments(clu_closure_env(x), deep + 1);
    return use(x);
  }
  if (type == ENVSXP) {
    visit_environments(x, deep + 1);
    return x;
  }
  for (R_xlen_t i = 0; i < Rf_xlength(x) && i < MOST_ELEMENTS; i++) {
    SEXP old = VECTOR_ELT(x, i), new = PROTECT(visit(old, deep + 1));
    if (new != old) SET_VECTOR_ELT(x, i, new);
    UNPROTECT(1);
  }
  return x;
}

static void forget_frames(void) {
  clear(ENVS, compiled.envs);
  clear(FRAMES, compiled.envs);
  compiled.envs = 0;
}

void clu_compiled_use(SEXP x) {
  forget_frames(); /* of a call that jumped out */
  clu_compiled_note();
  compiled.left = MOST_VISITED;
  visit(x, 0);
  forget_frames();
}

/* What the job has added to the environments R may have known when it compiled, or not. */
void clu_compiled_note(void) {
  SEXP all = clu_kept_in(compiled.kept, WATCHED);
  int n = compiled.watched;
  for (int i = 0; i < n; i++) {
    SEXP one = VECTOR_ELT(all, i), f = VECTOR_ELT(one, CLOSURE), frame = VECTOR_ELT(one, ITS_FRAME);
    if (!is_compiled(f)) continue;
    if (is_same_frame(frame, PROTECT(new_frame(clu_closure_env(f)))) && !is_known(f, frame))
      remember(f, frame);
    UNPROTECT(1);
  }
  clear(WATCHED, n);
  compiled.watched = 0;
}
