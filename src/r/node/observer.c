/* An observer, seen from R: a child of the fork server, which tells of what it finds in shared
 * memory. */
#include "r/node/node.h"

#include <string.h>

#include "r/node/seen.h"

static const clu_supervisor *of; /* as it was when this process was forked */
static clu_fd caller = CLU_NO_FD;
static clu_pid server;

void clu_observer_begin(const clu_supervisor *sv, const clu_boot *b) {
  of = sv;
  caller = b->fd;
  server = b->parent;
  clu_os_set_title("clutch: observer");
}

/* The descriptor of the connection to who asks. */
SEXP ffi_observer_caller(void) { return Rf_ScalarInteger((int)caller); }

static void view_finalize(SEXP x) {
  clu_seen_free(R_ExternalPtrAddr(x));
  R_ClearExternalPtr(x);
}

/* The views that the fork server had, without those that cannot be mapped. */
SEXP ffi_observer_views(void) {
  SEXP out;
  R_xlen_t n = 0;
  if (!of) return Rf_allocVector(VECSXP, 0);
  out = PROTECT(Rf_allocVector(VECSXP, of->nviews));
  for (int i = 0; i < of->nviews; i++) {
    SEXP x = R_MakeExternalPtr(NULL, Rf_install("clutch_seen_view"), R_NilValue);
    clu_view *v;
    clu_err e;
    SET_VECTOR_ELT(out, n, x);
    R_RegisterCFinalizerEx(x, view_finalize, FALSE);
    if (!(v = clu_view_map(of->views[i].fd, &e))) continue;
    R_SetExternalPtrAddr(x, clu_seen_new(v));
    if (R_ExternalPtrAddr(x))
      n++;
    else
      clu_view_unref(v);
  }
  out = Rf_xlengthgets(out, n);
  UNPROTECT(1);
  return out;
}

/* What is seen of one of them now, see clu_seen_values(). */
SEXP ffi_observer_read(SEXP view, SEXP tasks) {
  clu_seen *s = R_ExternalPtrAddr(view);
  if (!s || !of) clu_raise("argument", "there is no such view");
  clu_seen_look(s);
  return clu_seen_values(s, of->shared, server, (R_xlen_t)Rf_asReal(tasks));
}

/* The number of its cluster. */
SEXP ffi_observer_cluster(SEXP view) {
  const clu_seen *s = R_ExternalPtrAddr(view);
  return Rf_ScalarReal(s ? (double)s->view->memory->about.number : NA_REAL);
}

/* Ends this process, without R's exit: what that would remove is the fork server's. */
SEXP ffi_observer_end(void) {
  clu_os_end_self();
  return R_NilValue;
}
