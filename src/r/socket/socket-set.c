/* Entry points of a set of sockets that is waited for again and again.
 *
 * The external pointer owns the clu_sockset. Its protected value is a list of two vectors by place:
 * the members as R has given them, and their names. So no member is collected. A place is cleared
 * by forget_left() when its socket was closed: each entry point begins with that.
 */
#include "core/net/socket-set.h"

#include <string.h>

#include "r/socket/socket.h"

static SEXP tag(void) { return Rf_install("clutch_socket_set"); }

static void finalize(SEXP x) {
  clu_sockset *set = R_ExternalPtrAddr(x);
  R_ClearExternalPtr(x);
  clu_sockset_free(set);
}

static SEXP members_of(SEXP x) { return VECTOR_ELT(R_ExternalPtrProtected(x), 0); }
static SEXP names_of(SEXP x) { return VECTOR_ELT(R_ExternalPtrProtected(x), 1); }

static void clear(SEXP x, int place) {
  SET_VECTOR_ELT(members_of(x), place, R_NilValue);
  SET_STRING_ELT(names_of(x), place, R_BlankString);
}

static void forget_left(SEXP x, clu_sockset *set) {
  int place;
  while ((place = clu_sockset_left(set)) >= 0) clear(x, place);
}

static clu_sockset *set_of(SEXP x) {
  clu_sockset *set;
  if (TYPEOF(x) != EXTPTRSXP || R_ExternalPtrTag(x) != tag()) clu_invalid("set");
  set = R_ExternalPtrAddr(x);
  if (!set) {
    clu_err e;
    clu_fail(&e, CLU_CLOSED, 0, "this set of sockets is closed, or another process's");
    clu_raise_socket(NULL, &e, -1);
  }
  if (!clu_sockset_is_mine(set))
    clu_raise("forked",
              "a set of sockets cannot be used in a forked child of the process that "
              "made it; make another one there");
  forget_left(x, set);
  return set;
}

SEXP ffi_socket_set_new(void) {
  SEXP held = PROTECT(Rf_allocVector(VECSXP, 2)), x, class;
  clu_err e = {0, 0, ""};
  SET_VECTOR_ELT(held, 0, Rf_allocVector(VECSXP, 0));
  SET_VECTOR_ELT(held, 1, Rf_allocVector(STRSXP, 0));
  x = PROTECT(R_MakeExternalPtr(NULL, tag(), held));
  R_RegisterCFinalizerEx(x, finalize, TRUE);
  class = PROTECT(Rf_mkString("clutch_socket_set"));
  Rf_setAttrib(x, R_ClassSymbol, class);
  R_SetExternalPtrAddr(x, clu_sockset_new(&e));
  if (!R_ExternalPtrAddr(x)) clu_raise_socket(NULL, &e, -1);
  UNPROTECT(3);
  return x;
}

SEXP ffi_socket_set_count(SEXP x) {
  return Rf_ScalarInteger(R_ExternalPtrAddr(x) ? clu_sockset_count(set_of(x)) : 0);
}

SEXP ffi_socket_set_close(SEXP x) {
  finalize(x);
  R_SetExternalPtrProtected(x, R_NilValue);
  return R_NilValue;
}

/* ---- members ---- */

/* A socket of this package; base R's closes its descriptor without a word to us. */
static clu_sock *member_of(SEXP x) {
  clu_fd fd = CLU_NO_FD;
  int pending = 0, listens = 0;
  if (clu_socket_pointer(x) == R_NilValue && !Rf_inherits(x, "clutch_socket") &&
      !Rf_inherits(x, "clutch_listener") && Rf_inherits(x, "connection")) {
    clu_connection_socket(x, &fd, &pending, &listens);
    if (fd != CLU_NO_FD)
      clu_raise("argument",
                "a set has no connections of base R's own: use socket_select() or "
                "socket_connect()");
  }
  return clu_socket_of(x, 1);
}

/* Room for `n` more places. */
static void make_room(SEXP x, int places, int n) {
  SEXP held = R_ExternalPtrProtected(x), members = members_of(x), names = names_of(x);
  R_xlen_t cap = XLENGTH(members), most = (R_xlen_t)places + n;
  if (most <= cap) return;
  if (most < 2 * cap) most = 2 * cap;
  members = PROTECT(Rf_xlengthgets(members, most));
  names = PROTECT(Rf_xlengthgets(names, most));
  for (R_xlen_t i = cap; i < most; i++) SET_STRING_ELT(names, i, R_BlankString);
  SET_VECTOR_ELT(held, 0, members);
  SET_VECTOR_ELT(held, 1, names);
  UNPROTECT(2);
}

/* `want`: CLU_READ, ... of each. None is added where one cannot be. */
SEXP ffi_socket_set_add(SEXP x, SEXP list, SEXP want, SEXP names) {
  clu_sockset *set = set_of(x);
  int n = (int)XLENGTH(list), n_new = 0;
  clu_sock **s = (clu_sock **)R_alloc((size_t)n, sizeof *s);
  int *new = (int *)R_alloc((size_t)n, sizeof *new);
  for (int i = 0; i < n; i++) {
    s[i] = member_of(VECTOR_ELT(list, i));
    if (s[i]->listening && (INTEGER(want)[i] & CLU_WRITE))
      clu_raise("argument", "a server socket connection cannot be writeable");
  }
  make_room(x, clu_sockset_places(set), n);
  for (int i = 0; i < n; i++) {
    clu_err e = {0, 0, ""};
    int before = clu_sockset_place(set, s[i]), place;
    if (clu_sockset_put(set, s[i], (unsigned)INTEGER(want)[i], &place, &e) != CLU_OK) {
      for (int k = 0; k < n_new; k++) {
        clu_sockset_remove(set, new[k]);
        clear(x, new[k]);
      }
      clu_raise_socket(s[i], &e, -1);
    }
    if (before < 0) new[n_new++] = place;
    SET_VECTOR_ELT(members_of(x), place, VECTOR_ELT(list, i));
    if (before < 0 || LENGTH(STRING_ELT(names, i)))
      SET_STRING_ELT(names_of(x), place, STRING_ELT(names, i));
  }
  return R_NilValue;
}

/* Which of them were members. */
SEXP ffi_socket_set_remove(SEXP x, SEXP list) {
  clu_sockset *set = set_of(x);
  R_xlen_t n = XLENGTH(list);
  SEXP out = PROTECT(Rf_allocVector(LGLSXP, n));
  for (R_xlen_t i = 0; i < n; i++) {
    SEXP member = VECTOR_ELT(list, i);
    SEXP pointer = clu_socket_pointer(member);
    clu_sock *s;
    int place;
    if (pointer == R_NilValue && !Rf_inherits(member, "connection"))
      clu_raise("argument", "not a socket connection");
    s = pointer != R_NilValue ? R_ExternalPtrAddr(pointer)
                              : clu_connection_socket(member, NULL, NULL, NULL);
    place = s ? clu_sockset_place(set, s) : -1;
    LOGICAL(out)[i] = place >= 0;
    if (place < 0) continue;
    clu_sockset_remove(set, place);
    clear(x, place);
  }
  UNPROTECT(1);
  return out;
}

/* ---- the wait ---- */

/* Returns those of `ready` that are ready for `what`, with their names. */
static SEXP ready_for(unsigned what, SEXP held, const clu_sockset_ready *ready, int n) {
  SEXP members = VECTOR_ELT(held, 0), member_names = VECTOR_ELT(held, 1), out, names;
  int k = 0;
  for (int i = 0; i < n; i++) k += (ready[i].ready & what) != 0;
  out = PROTECT(Rf_allocVector(VECSXP, k));
  names = PROTECT(Rf_allocVector(STRSXP, k));
  k = 0;
  for (int i = 0; i < n; i++) {
    if (!(ready[i].ready & what)) continue;
    SET_VECTOR_ELT(out, k, VECTOR_ELT(members, ready[i].place));
    SET_STRING_ELT(names, k, STRING_ELT(member_names, ready[i].place));
    k++;
  }
  Rf_setAttrib(out, R_NamesSymbol, names);
  UNPROTECT(2);
  return out;
}

/* Whatever allocates memory of R can run finalizers, and they can close sockets and sets: the
 * answer is copied before anything else happens. */
SEXP ffi_socket_set_wait(SEXP x, SEXP timeout) {
  const char *parts[] = {"read", "write", ""};
  uint64_t deadline = clu_deadline(Rf_asReal(timeout));
  SEXP held, out;
  clu_sockset_ready *ready;
  int n = 0;
  if (deadline == CLU_NEVER && !clu_sockset_count(set_of(x)))
    clu_raise("argument", "a set without sockets, and no timeout: this would wait for ever");
  for (;;) {
    clu_err e = {0, 0, ""};
    const clu_sockset_ready *got = NULL;
    int rc;
    void *top = vmaxget();
    ready = (clu_sockset_ready *)R_alloc((size_t)clu_sockset_places(set_of(x)), sizeof *ready);
    rc = clu_sockset_wait(set_of(x), clu_slice(deadline), &got, &n, &e);
    if (rc != CLU_OK) clu_raise_socket(NULL, &e, -1);
    if (n) memcpy(ready, got, (size_t)n * sizeof *ready);
    if (n || !clu_slice(deadline)) break;
    vmaxset(top);
    clu_check_interrupt(NULL, NULL);
  }
  held = PROTECT(R_ExternalPtrProtected(x));
  out = PROTECT(Rf_mkNamed(VECSXP, parts));
  SET_VECTOR_ELT(out, 0, ready_for(CLU_READ, held, ready, n));
  SET_VECTOR_ELT(out, 1, ready_for(CLU_WRITE, held, ready, n));
  UNPROTECT(2);
  return out;
}
