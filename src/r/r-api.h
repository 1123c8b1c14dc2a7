/* The interface between R and the core: src/r is the only C that includes R headers.
 *
 * ffi_*() are the entry points of .Call (entry-points.h): they check, convert and call the core. An
 * R error is a jump, so no function of the core is on the stack when one is raised. What the core
 * holds belongs to external pointers, or is freed by R_UnwindProtect().
 */
#ifndef CLUTCH_R_API_H
#define CLUTCH_R_API_H

#define R_NO_REMAP
#include <R.h>
#include <Rinternals.h>
#include <Rversion.h>

#include <string.h>

#include "core/base/blob.h"
#include "core/base/err.h"

/* R 4.6 has no ATTRIB() any more. */
#if R_VERSION >= R_Version(4, 5, 0)
#define clu_has_attributes(x) ANY_ATTRIB(x)
#else
#define clu_has_attributes(x) (ATTRIB(x) != R_NilValue)
#endif

#if R_VERSION >= R_Version(4, 6, 0)
#define clu_attribute_count(x) R_getAttribCount(x)
#else
#define clu_attribute_count(x) Rf_length(ATTRIB(x))
#endif

#if R_VERSION >= R_Version(4, 5, 0)
#define clu_closure_env(x) R_ClosureEnv(x)
#define clu_closure_formals(x) R_ClosureFormals(x)
#define clu_closure_body(x) R_ClosureBody(x)
#else
#define clu_closure_env(x) CLOENV(x)
#define clu_closure_formals(x) FORMALS(x)
#define clu_closure_body(x) BODY(x)
#endif

/* Whether the environment is one that does not travel. */
static inline int clu_env_stays(SEXP env) {
  return env == R_GlobalEnv || env == R_BaseEnv || env == R_EmptyEnv || env == R_BaseNamespace ||
         R_IsNamespaceEnv(env) || R_IsPackageEnv(env);
}

/* A new closure; its body may be compiled code. */
static inline SEXP clu_closure(SEXP formals, SEXP body, SEXP env) {
#if R_VERSION >= R_Version(4, 5, 0)
  return R_mkClosure(formals, body, env);
#else
  SEXP f = Rf_allocSExp(CLOSXP);
  SET_FORMALS(f, formals);
  SET_BODY(f, body);
  SET_CLOENV(f, env);
  return f;
#endif
}

#if R_VERSION >= R_Version(4, 5, 0)
#define clu_parent_env(x) R_ParentEnv(x)
#else
#define clu_parent_env(x) ENCLOS(x)
#endif

/* The value of a variable of this environment itself; R_NilValue where it has none. */
static inline SEXP clu_variable(SEXP symbol, SEXP env) {
#if R_VERSION >= R_Version(4, 5, 0)
  return R_getVarEx(symbol, env, FALSE, R_NilValue);
#else
  SEXP x = Rf_findVarInFrame(env, symbol);
  return x == R_UnboundValue ? R_NilValue : x;
#endif
}

/* The element of this name; R_NilValue where there is none. */
static inline SEXP clu_element(SEXP list, const char *name) {
  SEXP names = Rf_getAttrib(list, R_NamesSymbol);
  for (R_xlen_t i = 0; i < Rf_xlength(names); i++)
    if (strcmp(CHAR(STRING_ELT(names, i)), name) == 0) return VECTOR_ELT(list, i);
  return R_NilValue;
}

/* What a file keeps of R's objects: `*list`, which has room for `n` and is preserved, made when it
 * is first needed. Returns `x`. */
static inline SEXP clu_keep_in(SEXP *list, int n, int which, SEXP x) {
  if (!*list) {
    SEXP made;
    PROTECT(x);
    made = Rf_allocVector(VECSXP, n);
    R_PreserveObject(made);
    *list = made;
    UNPROTECT(1);
  }
  return SET_VECTOR_ELT(*list, which, x);
}

static inline SEXP clu_kept_in(SEXP list, int which) {
  return list ? VECTOR_ELT(list, which) : R_NilValue;
}

/* Raises an R condition of class "clutch_<what>", then "clutch_error". Does not return. */
NORET void clu_raise(const char *what, const char *fmt, ...);
/* The same for a failure of the core. */
NORET void clu_raise_err(const clu_err *e);
/* The same for a "cluster" or "task" of another process, whose pointers were lost on the way here.
 */
NORET void clu_raise_foreign(const char *what);
/* Whether this process is a node that has said hello. */
extern int clu_is_node;

/* condition.c. The call .Internal(call), not evaluated and not protected. */
SEXP clu_internal_call(SEXP call);
/* What options(warn =) says; 0 where that is no number. */
int clu_warn_level(void);
/* As invokeRestart(how) where the restart that was established last is of that name: it jumps
 * there. Returns where it is another. */
void clu_muffle(const char *how);
/* The object in R's binary format, behind what is in `b` already; NULL: a new blob. Takes over the
 * reference to `b` and hands it back. May raise R's own errors; leaks nothing then. */
clu_blob *clu_serialize(clu_blob *b, SEXP x);
/* The same for so many processes of this host that take segments: large vectors go by one, which
 * the blob brings (r/share.h). How large they have to be depends on that number; 0: none do. A blob
 * takes one object so; those after it travel whole. */
clu_blob *clu_serialize_for(clu_blob *b, SEXP x, int receivers);
/* `fn` is called every few megabytes while a large object is written or read, and may jump out.
 * Until this is called it is R_CheckUserInterrupt(). */
void clu_serialize_set_check(void (*fn)(void));
/* The object behind the first `skip` bytes. Consumes the reference to `b`, also on a jump. */
SEXP clu_unserialize(clu_blob *b, size_t skip);
/* The object in memory that R does not own and that stays through a jump (on the stack, static). */
SEXP clu_unserialize_bytes(const unsigned char *p, size_t n);
/* A value of so many bytes comes, and others like it will: memory that is freed stays for them.
 * Whether there was one since clu_expect_no_values(), which gives that memory back. */
void clu_expect_values(uint64_t size);
int clu_values_were_expected(void);
void clu_expect_no_values(void);
/* The object whose bytes `read` gives piece by piece: exactly `n` bytes and CLU_OK, or a code that
 * becomes an R error. Nothing is held meanwhile, the bytes go where they belong. `segments`: what
 * came with them, which stays the caller's and lasts at least until the next object is read; or
 * NULL. */
typedef int (*clu_reader)(void *data, void *p, size_t n);
SEXP clu_unserialize_from(clu_reader read, void *data, const clu_segments *segments);

#define CLU_MOST_FUN 4096 /* bytes of a function that travels apart from its arguments */

/* serialize-plain.c. `null`: the bytes of NULL in R's format, from which it learns the header.
 * Until then nothing is plain. */
void clu_plain_learn(const unsigned char *null, size_t n);
/* Appends a plain value: 1, or 0 for others, and then nothing is appended. */
int clu_plain_put(clu_blob *b, SEXP x);
/* The same without the header that each serialized object has, to `p` with room for `n` bytes: how
 * many it took; 0: it is not plain, or too large. clu_plain_bare_get(): an R error of class
 * clutch_protocol when these are no such bytes. */
size_t clu_plain_bare(unsigned char *p, size_t n, SEXP x);
SEXP clu_plain_bare_get(const unsigned char *p, size_t n);
/* A plain value; NULL when it is none. */
SEXP clu_plain_get(const unsigned char *p, size_t n);

/* serialize-log.c. list(value, log) of a task: as clu_plain_bare(), where the value is plain and
 * the log is of output, warnings and messages of the usual kinds, that is, in ASCII or UTF-8. */
size_t clu_log_bare(unsigned char *p, size_t n, SEXP value, SEXP log);
SEXP clu_log_bare_get(const unsigned char *p, size_t n);

#include "r/entry-points.h"

#endif
