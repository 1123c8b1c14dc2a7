#include "r/actor/actor.h"

#include <errno.h>
#include <stdlib.h>

#include "r/base/wait.h"

enum { MOST_OPEN = 64 }; /* of which nothing is under way */

static clu_open_actor *all;

/* The oldest ones of which nothing is under way are closed, where there are many. */
static void close_old(void) {
  int n = 0;
  for (clu_open_actor **at = &all; *at;) {
    clu_open_actor *x = *at;
    if (x->users || ++n < MOST_OPEN || clu_actor_is_needed(x->actor)) {
      at = &x->next;
      continue;
    }
    *at = x->next;
    clu_actor_free(x->actor);
    free(x);
  }
}

typedef int make_fn(const char *, clu_actor **, clu_err *);

/* `make` is one of the functions that do. NULL: it is not here. */
static clu_open_actor *try_to_add(make_fn *make, const char *of) {
  clu_err e = {0};
  clu_open_actor *x = calloc(1, sizeof *x);
  int rc = x ? make(of, &x->actor, &e) : clu_fail(&e, CLU_NOMEM, 0, "not enough memory");
  if (rc != CLU_OK) {
    free(x);
    if (rc == CLU_PROTO || (rc == CLU_SYS && e.sys != EMFILE && e.sys != ENFILE)) return NULL;
    clu_raise_err(&e);
  }
  close_old();
  x->next = all;
  return all = x;
}

static clu_open_actor *add(make_fn *make, const char *of) {
  clu_open_actor *x = try_to_add(make, of);
  if (!x)
    clu_raise("actor_died",
              "this actor is gone: the object in the process that has made it was removed, or that "
              "process has ended, or runs on another machine");
  return x;
}

static const char *name_of(SEXP x) {
  static SEXP symbol;
  SEXP name = R_NilValue;
  if (!symbol) symbol = Rf_install("name");
  if (TYPEOF(x) == STRSXP) name = x; /* of the process that has made it */
  if (TYPEOF(x) == ENVSXP && Rf_inherits(x, "clutch_actor")) name = clu_variable(symbol, x);
  if (TYPEOF(name) != STRSXP || Rf_xlength(name) != 1)
    clu_raise("argument", "`actor` has to be an object made by cluster_actor()");
  return CHAR(STRING_ELT(name, 0));
}

static clu_open_actor *find(const char *name) {
  for (clu_open_actor **at = &all; *at; at = &(*at)->next) {
    clu_open_actor *x = *at;
    if (strcmp(clu_actor_name(x->actor), name) != 0) continue;
    *at = x->next; /* the one that was asked for last comes first */
    x->next = all;
    return all = x;
  }
  return NULL;
}

clu_open_actor *clu_open_actor_of(SEXP x) {
  const char *name = name_of(x);
  clu_open_actor *a = find(name);
  return a ? a : add(clu_actor_open, name);
}

/* FALSE: it is gone, or on another host. */
SEXP ffi_actor_is_here(SEXP x) {
  const char *name = name_of(x);
  return Rf_ScalarLogical(find(name) || try_to_add(clu_actor_open, name));
}

void clu_open_actor_close(clu_open_actor *a) {
  clu_open_actor **at = &all;
  while (*at && *at != a) at = &(*at)->next;
  if (!*at || a->users > 0) return;
  *at = a->next;
  clu_actor_free(a->actor);
  free(a);
}

/* ---- what is done while this process waits ---- */

static void (*settled)(void);
static int has_made;

static void see_to_actors(void) {
  static SEXP call;
  if (!call) {
    call = Rf_lang1(Rf_install("see_to_actors"));
    R_PreserveObject(call);
  }
  if (settled) settled();
  if (has_made) Rf_eval(call, clu_namespace());
}

static void see_to_some(void) { clu_meanwhile = settled || has_made ? see_to_actors : NULL; }

void clu_actors_meanwhile(void (*see_to_settled)(void)) {
  settled = see_to_settled;
  see_to_some();
}

/* Tells that this process has actors to see to while it waits, or none. */
SEXP ffi_actor_made(SEXP some) {
  has_made = Rf_asLogical(some) == 1;
  see_to_some();
  return R_NilValue;
}

/* Its name. `may_restart`: another process may come where one has died. `folder`: a folder of this
 * session's. */
SEXP ffi_actor_new(SEXP folder, SEXP may_restart) {
  clu_open_actor *x = add(clu_actor_new, CHAR(STRING_ELT(folder, 0)));
  x->users = 1;
  if (Rf_asLogical(may_restart) == 1) clu_actor_may_restart(x->actor);
  return Rf_mkString(clu_actor_name(x->actor));
}

/* The object in the process that has made it is gone. */
SEXP ffi_actor_forget(SEXP name) {
  clu_open_actor *x = find(CHAR(STRING_ELT(name, 0)));
  if (!x) return R_NilValue;
  clu_actor_set(x->actor, CLU_ACTOR_ENDED, NULL);
  x->users--;
  clu_open_actor_close(x);
  return R_NilValue;
}

/* `state`: of enum clu_actor_state. `why`: how its process has ended unasked; NULL: it has not. */
SEXP ffi_actor_set(SEXP x, SEXP state, SEXP why) {
  clu_actor_set(clu_open_actor_of(x)->actor, Rf_asInteger(state),
                why == R_NilValue ? NULL : Rf_translateCharUTF8(STRING_ELT(why, 0)));
  return R_NilValue;
}

static SEXP number(double x) { return Rf_ScalarReal(x); }
static SEXP pid_or_na(clu_pid pid) { return Rf_ScalarInteger(pid ? (int)pid : NA_INTEGER); }

/* list() of what is known of an actor; of one that is its name, too. */
SEXP ffi_actor_info(SEXP x) {
  static const char *names[] = {"state", "pid",    "generation", "died", "queue",      "done",
                                "busy",  "method", "waits",      "why",  "pid_before", "why_before",
                                ""};
  clu_actor_info is;
  SEXP out = PROTECT(Rf_mkNamed(VECSXP, names));
  int i = 0;
  clu_actor_look(clu_open_actor_of(x)->actor, &is);
  SET_VECTOR_ELT(out, i++, Rf_ScalarInteger(is.state));
  SET_VECTOR_ELT(out, i++, pid_or_na(is.pid));
  SET_VECTOR_ELT(out, i++, number(is.generation));
  SET_VECTOR_ELT(out, i++, Rf_ScalarLogical(is.died));
  SET_VECTOR_ELT(out, i++, number((double)(is.asked - is.begun)));
  SET_VECTOR_ELT(out, i++, number((double)is.done));
  SET_VECTOR_ELT(out, i++, number((double)is.busy / 1e9));
  SET_VECTOR_ELT(out, i++, Rf_ScalarString(Rf_mkCharCE(is.method, CE_UTF8)));
  SET_VECTOR_ELT(out, i++, Rf_mkString(is.waits));
  SET_VECTOR_ELT(out, i++, Rf_ScalarString(Rf_mkCharCE(is.why, CE_UTF8)));
  SET_VECTOR_ELT(out, i++, pid_or_na(is.pid_before));
  SET_VECTOR_ELT(out, i++, Rf_ScalarString(Rf_mkCharCE(is.why_before, CE_UTF8)));
  UNPROTECT(1);
  return out;
}
