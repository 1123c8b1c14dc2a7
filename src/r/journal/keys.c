#include "r/journal/keying.h"

#include <R_ext/Utils.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "r/globals/globals.h"
#include "r/serialize/serialize.h"
#include "r/journal/mentions.h"

static void object(clu_keying *k, SEXP x);

/* ---- attributes ---- */

/* Attributes that say nothing of the object: where code was written; what data.table knows a copy
 * by. */
static int is_no_matter(const char *name) {
  return strcmp(name, "srcref") == 0 || strcmp(name, "srcfile") == 0 ||
         strcmp(name, "wholeSrcref") == 0 || strcmp(name, ".internal.selfref") == 0;
}

typedef struct attribute {
  const char *name;
  SEXP value;
} attribute;

typedef struct attributes {
  attribute *list;
  int n;
  int is_table; /* a data.table, which gets an index when it is searched */
} attributes;

static int by_name(const void *a, const void *b) {
  return strcmp(((const attribute *)a)->name, ((const attribute *)b)->name);
}

static void take_attribute(attributes *all, SEXP name, SEXP value) {
  const char *text = CHAR(PRINTNAME(name));
  if (is_no_matter(text) || (all->is_table && strcmp(text, "index") == 0)) return;
  all->list[all->n].name = text;
  all->list[all->n++].value = value;
}

#if R_VERSION >= R_Version(4, 6, 0)
static SEXP take_mapped(SEXP name, SEXP value, void *data) {
  take_attribute(data, name, value);
  return NULL;
}
#endif

/* Sorted by their names; their values are protected by `x`. */
static attributes attributes_of(SEXP x) {
  attributes all = {NULL, 0, Rf_inherits(x, "data.table")};
  if (!clu_has_attributes(x)) return all;
  all.list = (attribute *)R_alloc((size_t)clu_attribute_count(x), sizeof(attribute));
#if R_VERSION >= R_Version(4, 6, 0)
  R_mapAttrib(x, take_mapped, &all);
#else
  for (SEXP a = ATTRIB(x); a != R_NilValue; a = CDR(a)) take_attribute(&all, TAG(a), CAR(a));
#endif
  qsort(all.list, (size_t)all.n, sizeof(attribute), by_name);
  return all;
}

/* Row names 1 ... n, however they are stored; -1: they are others. */
static R_xlen_t automatic_rows(SEXP x) {
  R_xlen_t n = Rf_xlength(x);
  if (TYPEOF(x) != INTSXP) return -1;
  if (n == 2 && INTEGER_ELT(x, 0) == NA_INTEGER) return abs(INTEGER_ELT(x, 1));
  for (R_xlen_t i = 0; i < n; i++)
    if (INTEGER_ELT(x, i) != i + 1) return -1;
  return n;
}

static void code_environment(clu_keying *k, SEXP env, clu_mentions *m);

/* Which attached packages the code finds functions or data in: another one may mask them. */
static void packages(clu_keying *k, const clu_mentions *m) {
  SEXP found = PROTECT(clu_mentions_in_packages(m));
  if (Rf_xlength(found) > 0) clu_key_tag(k, 'P');
  for (R_xlen_t i = 0; i < Rf_xlength(found); i++) clu_key_text(k, STRING_ELT(found, i));
  UNPROTECT(1);
}

static void attribute_value(clu_keying *k, SEXP x, const attribute *a) {
  R_xlen_t rows;
  if (strcmp(a->name, "row.names") == 0 && (rows = automatic_rows(a->value)) >= 0) {
    clu_key_tag(k, 'w');
    clu_key_number(k, (uint64_t)rows);
  } else if (TYPEOF(x) == LANGSXP && TYPEOF(a->value) == ENVSXP &&
             strcmp(a->name, ".Environment") == 0) {
    clu_mentions m;
    uint64_t at = clu_key_meet(k, (uint64_t)(uintptr_t)a->value + 1);
    clu_mentions_begin(&m);
    clu_mentions_add(&m, R_NilValue, x);
    if (at) {
      clu_key_tag(k, '^');
      clu_key_number(k, at);
      packages(k, &m);
      return;
    }
    m.all = 1; /* what evaluates it may look for others there, as lm(weights = ) does */
    code_environment(k, a->value, &m);
  } else {
    object(k, a->value);
  }
}

/* Their number comes first, also where there are none: else those of the last element of a list
 * could be those of the list. */
static void all_attributes(clu_keying *k, SEXP x) {
  attributes all;
  const void *vmax = vmaxget();
  clu_seen before = k->seen;
  all = attributes_of(x);
  clu_key_attributes(k, all.n, Rf_isS4(x));
  for (int i = 0; i < all.n; i++) {
    clu_key_tag(k, 'a');
    clu_key_characters(k, all.list[i].name);
    attribute_value(k, x, &all.list[i]);
  }
  if (k->seen.key == before.key) vmaxset(vmax); /* else the map has grown behind it */
}

/* ---- code ---- */

/* function(...) in code has a source reference as its last part. */
static int is_function_call(SEXP x) {
  return TYPEOF(x) == LANGSXP && TYPEOF(CAR(x)) == SYMSXP &&
         strcmp(CHAR(PRINTNAME(CAR(x))), "function") == 0 && Rf_length(x) == 4;
}

static void cells(clu_keying *k, SEXP x, char kind) {
  R_xlen_t n = is_function_call(x) ? 3 : INT32_MAX;
  clu_key_tag(k, kind);
  for (; (TYPEOF(x) == LANGSXP || TYPEOF(x) == LISTSXP || TYPEOF(x) == DOTSXP) && n > 0;
       x = CDR(x), n--) {
    if (TAG(x) != R_NilValue) {
      clu_key_tag(k, '=');
      clu_key_characters(k, Rf_translateCharUTF8(PRINTNAME(TAG(x))));
    }
    clu_key_tag(k, ',');
    object(k, CAR(x));
  }
  clu_key_tag(k, ')');
}

static SEXP namespace_name(SEXP env) {
  SEXP spec = R_NamespaceEnvSpec(env);
  return TYPEOF(spec) == STRSXP && Rf_xlength(spec) > 0 ? STRING_ELT(spec, 0) : R_BlankString;
}

/* Names of the variables, sorted in the same way in each locale. */
static int by_text(const void *a, const void *b) {
  return strcmp(CHAR(*(const SEXP *)a), CHAR(*(const SEXP *)b));
}

static SEXP *sorted_names(SEXP names) {
  size_t n = (size_t)Rf_xlength(names);
  SEXP *all = (SEXP *)R_alloc(n + 1, sizeof(SEXP));
  for (size_t i = 0; i < n; i++) all[i] = STRING_ELT(names, (R_xlen_t)i);
  qsort(all, n, sizeof(SEXP), by_text);
  return all;
}

/* A variable of this environment: its name and its value. */
static void variable(clu_keying *k, SEXP name, SEXP env) {
  SEXP value = PROTECT(clu_value_in(Rf_installTrChar(name), env));
  clu_key_tag(k, 'v');
  clu_key_text(k, name);
  object(k, value);
  UNPROTECT(1);
}

/* A package that pkgload::load_all() has made is as its code is now. */
static void developed_package(clu_keying *k, SEXP env) {
  SEXP names, *all;
  if (!R_existsVarInFrame(env, Rf_install(".__DEVTOOLS__"))) return;
  if (clu_key_meet(k, (uint64_t)(uintptr_t)env)) return;
  names = PROTECT(R_lsInternal3(env, TRUE, FALSE));
  all = sorted_names(names);
  for (R_xlen_t i = 0; i < Rf_xlength(names); i++) {
    if (strncmp(CHAR(all[i]), ".__", 3) == 0 || strcmp(CHAR(all[i]), ".packageName") == 0) continue;
    variable(k, all[i], env);
  }
  UNPROTECT(1);
}

/* An environment that does not travel, by its name. */
static void staying(clu_keying *k, SEXP env) {
  if (env == R_GlobalEnv) {
    clu_key_tag(k, 'G');
  } else if (env == R_EmptyEnv) {
    clu_key_tag(k, '0');
  } else if (env == R_BaseEnv || env == R_BaseNamespace) {
    clu_key_tag(k, 'B');
  } else if (R_IsNamespaceEnv(env)) {
    clu_key_tag(k, 'N');
    clu_key_text(k, namespace_name(env));
    developed_package(k, env);
  } else {
    SEXP name = PROTECT(R_PackageEnvName(env));
    clu_key_tag(k, 'K');
    clu_key_text(k, TYPEOF(name) == STRSXP ? STRING_ELT(name, 0) : R_BlankString);
    UNPROTECT(1);
  }
}

/* Tells whether the code of a function asks for variables by other means than a symbol. */
static int asks_for_any(SEXP f) {
  clu_mentions m;
  SEXP body = PROTECT(R_ClosureExpr(f));
  clu_mentions_begin(&m);
  clu_mentions_add(&m, clu_closure_formals(f), body);
  UNPROTECT(1);
  return m.all;
}

/* Strings that variables have which the code mentions may name others. Until nothing is new. */
static void find_named(SEXP env, clu_mentions *m) {
  size_t before;
  do {
    before = m->n + m->ntexts;
    for (SEXP e = env; !clu_env_stays(e); e = clu_parent_env(e)) {
      SEXP names = PROTECT(R_lsInternal3(e, TRUE, FALSE));
      for (R_xlen_t i = 0; i < Rf_xlength(names); i++) {
        SEXP value;
        if (!clu_mentions_has(m, STRING_ELT(names, i))) continue;
        value = PROTECT(clu_value_in(Rf_installTrChar(STRING_ELT(names, i)), e));
        clu_mentions_add_texts(m, value);
        if (TYPEOF(value) == CLOSXP && asks_for_any(value)) m->all = 1; /* of who calls it, too */
        UNPROTECT(1);
      }
      UNPROTECT(1);
    }
  } while (m->n + m->ntexts > before);
}

/* The variables that code finds in this environment and those around it. */
static void code_environment(clu_keying *k, SEXP env, clu_mentions *m) {
  find_named(env, m);
  for (; !clu_env_stays(env); env = clu_parent_env(env)) {
    SEXP names = PROTECT(R_lsInternal3(env, TRUE, FALSE)), *all = sorted_names(names);
    for (R_xlen_t i = 0; i < Rf_xlength(names); i++) {
      if (!clu_mentions_has(m, all[i])) continue;
      variable(k, all[i], env);
    }
    UNPROTECT(1);
  }
  staying(k, env);
  if (env == R_GlobalEnv) packages(k, m);
}

/* The methods of a generic function of package methods that the workspace has. Those of packages
 * are code of packages. */
static void methods_of_workspace(clu_keying *k, SEXP env) {
  SEXP symbol = Rf_install(".MTable"), table, names, *all;
  if (!R_existsVarInFrame(env, symbol)) return;
  table = PROTECT(clu_value_in(symbol, env));
  names = PROTECT(TYPEOF(table) == ENVSXP ? R_lsInternal3(table, TRUE, FALSE)
                                          : Rf_allocVector(STRSXP, 0));
  all = sorted_names(names);
  for (R_xlen_t i = 0; i < Rf_xlength(names); i++) {
    SEXP f = PROTECT(clu_value_in(Rf_installTrChar(all[i]), table));
    SEXP home = TYPEOF(f) == CLOSXP ? clu_closure_env(f) : R_BaseEnv;
    if (home == R_GlobalEnv || !clu_env_stays(home)) variable(k, all[i], table);
    UNPROTECT(1);
  }
  UNPROTECT(2);
}

/* Equal code in one environment is the same function, be it one object or several. */
static void closure(clu_keying *k, SEXP x) {
  SEXP env = clu_closure_env(x), body = PROTECT(R_ClosureExpr(x)), formals = clu_closure_formals(x);
  unsigned char code[CLU_HASH];
  clu_hash outer = k->h;
  uint64_t at, number_of_code;
  clu_hash_begin(&k->h, NULL);
  cells(k, formals, 'p');
  object(k, body);
  clu_hash_end(&k->h, code);
  k->h = outer;
  clu_key_tag(k, 'F');
  clu_hash_add(&k->h, code, sizeof code);
  all_attributes(k, x);
  memcpy(&number_of_code, code, sizeof number_of_code);
  if (clu_env_stays(env) && env != R_GlobalEnv) {
    staying(k, env);
  } else if ((at = clu_key_meet(k, number_of_code ^ (uint64_t)(uintptr_t)env))) {
    clu_key_tag(k, '^');
    clu_key_number(k, at);
  } else {
    clu_mentions m;
    clu_mentions_begin(&m);
    clu_mentions_add(&m, formals, body);
    m.all |= k->all;
    code_environment(k, env, &m);
    if (Rf_isS4(x)) methods_of_workspace(k, env);
  }
  UNPROTECT(1);
}

/* ---- other objects ---- */

static void environment(clu_keying *k, SEXP env) {
  SEXP names, *all;
  uint64_t at;
  if (clu_env_stays(env)) {
    staying(k, env);
    return;
  }
  if ((at = clu_key_meet(k, (uint64_t)(uintptr_t)env))) {
    clu_key_tag(k, '^');
    clu_key_number(k, at);
    return;
  }
  clu_key_tag(k, 'E');
  names = PROTECT(R_lsInternal3(env, TRUE, FALSE));
  all = sorted_names(names);
  for (R_xlen_t i = 0; i < Rf_xlength(names); i++) {
    variable(k, all[i], env);
  }
  UNPROTECT(1);
  clu_key_tag(k, ')');
  all_attributes(k, env);
  environment(k, clu_parent_env(env));
}

/* Objects that are of no use in another process. */
static int is_of_no_use(SEXP x) {
  return Rf_isObject(x) && (Rf_inherits(x, "clutch_cluster") || Rf_inherits(x, "clutch_node") ||
                            Rf_inherits(x, "clutch_task") || Rf_inherits(x, "connection"));
}

/* A function of R's own, by its name: that is what R writes of it. */
static void primitive(clu_keying *k, SEXP x) {
  SEXP call = PROTECT(Rf_lang2(Rf_install("deparse"), x));
  SEXP name = PROTECT(Rf_eval(call, R_BaseEnv));
  clu_key_tag(k, 'P');
  clu_key_text(k, STRING_ELT(name, 0));
  UNPROTECT(2);
}

/* An object that keeps its data elsewhere, and says itself what R is to write of it. */
static void serialized(clu_keying *k, SEXP x) {
  clu_blob *b = clu_serialize(NULL, x);
  clu_key_tag(k, 'z');
  clu_key_number(k, b->size);
  clu_hash_add(&k->h, b->data, b->size);
  clu_blob_unref(b);
}

static void promise(clu_keying *k, SEXP x) {
  SEXP value = PROTECT(clu_try_value(x, R_BaseEnv));
  object(k, value);
  UNPROTECT(1);
}

/* An object that is made again elsewhere is as its data. Tells whether it is one. */
static int made_again(clu_keying *k, SEXP x) {
  char address[32];
  SEXP key;
  if (k->made == R_NilValue || !Rf_isObject(x)) return 0;
  snprintf(address, sizeof address, "%p", (void *)x); /* as of ffi_address() */
  key = clu_value_in(Rf_install(address), k->made);
  if (TYPEOF(key) != RAWSXP) return 0;
  clu_key_tag(k, 'M');
  clu_hash_add(&k->h, RAW_RO(key), (size_t)Rf_xlength(key));
  return 1;
}

static void object(clu_keying *k, SEXP x) {
  R_CheckStack();
  if (made_again(k, x)) return;
  if (is_of_no_use(x)) {
    clu_key_tag(k, 'O');
    return;
  }
  if (TYPEOF(x) == VECSXP && ALTREP(x)) {
    serialized(k, x);
    return;
  }
  switch (TYPEOF(x)) {
  case NILSXP: clu_key_tag(k, 'n'); return;
  case SYMSXP:
    clu_key_tag(k, 'y');
    clu_key_characters(k, Rf_translateCharUTF8(PRINTNAME(x)));
    return;
  case LGLSXP:
  case INTSXP:
  case REALSXP:
  case CPLXSXP:
  case STRSXP:
  case VECSXP:
  case EXPRSXP:
  case RAWSXP: clu_key_vector(k, x, object); break;
  case LANGSXP: cells(k, x, '('); break;
  case LISTSXP:
  case DOTSXP: cells(k, x, 'p'); break;
  case CLOSXP: closure(k, x); return;
  case ENVSXP: environment(k, x); return;
  case SPECIALSXP:
  case BUILTINSXP: primitive(k, x); return;
  case PROMSXP: promise(k, x); return;
  case BCODESXP: {
    SEXP code = PROTECT(R_BytecodeExpr(x));
    object(k, code);
    UNPROTECT(1);
    return;
  }
  case S4SXP: clu_key_tag(k, '4'); break;
  case EXTPTRSXP:
  case WEAKREFSXP: clu_key_tag(k, 'Q'); break;
  default:
    clu_raise("journal", "there is no key for an object of type '%s'", Rf_type2char(TYPEOF(x)));
  }
  all_attributes(k, x);
}

void clu_key_of(SEXP x, const unsigned char *start, int all, SEXP made,
                unsigned char out[CLU_HASH]) {
  const void *vmax = vmaxget();
  clu_keying k = {{0}, {NULL, NULL, 0, 0}, all, made};
  clu_hash_begin(&k.h, start);
  object(&k, x);
  clu_hash_end(&k.h, out);
  vmaxset(vmax);
}

void clu_key_of_element(SEXP x, R_xlen_t i, const unsigned char *start, SEXP made,
                        unsigned char out[CLU_HASH]) {
  if (TYPEOF(x) == VECSXP)
    clu_key_of(VECTOR_ELT(x, i), start, 0, made, out);
  else
    clu_key_of_scalar(x, i, start, out);
}
