/* An observer, seen from R: a child of the fork server, which tells of what it finds in shared
 * memory. */
#include "r/node/node.h"

#include <string.h>

#include "core/base/os-machine.h"
#include "r/node/observed.h"

static const clu_supervisor *of; /* as it was when this process was forked */
static clu_fd caller = CLU_NO_FD;
static clu_pid server;

void clu_observer_begin(const clu_supervisor *sv, const clu_boot *b) {
  of = sv;
  caller = b->fd;
  server = b->parent;
  clu_os_set_title("clutch: observer");
  clu_os_keep_freed();
}

/* The descriptor of the connection to who asks. */
SEXP ffi_observer_caller(void) { return Rf_ScalarInteger((int)caller); }

static void view_finalize(SEXP x) {
  clu_observed_free(R_ExternalPtrAddr(x));
  R_ClearExternalPtr(x);
}

/* Its place in R's list; whether it could be had. `v`: NULL: there is none. */
static int put_view(SEXP out, R_xlen_t at, clu_view *v) {
  SEXP x = R_MakeExternalPtr(NULL, Rf_install("clutch_observed_view"), R_NilValue);
  clu_observed_memory on = {of ? of->shared : NULL, server};
  SET_VECTOR_ELT(out, at, x);
  R_RegisterCFinalizerEx(x, view_finalize, FALSE);
  if (!v) return 0;
  R_SetExternalPtrAddr(x, clu_observed_new(v, &on));
  if (!R_ExternalPtrAddr(x)) clu_view_unref(v);
  return R_ExternalPtrAddr(x) != NULL;
}

/* The views that the fork server had, without those that cannot be mapped. */
SEXP ffi_observer_views(void) {
  SEXP out;
  R_xlen_t n = 0;
  if (!of) return Rf_allocVector(VECSXP, 0);
  out = PROTECT(Rf_allocVector(VECSXP, of->nviews));
  for (int i = 0; i < of->nviews; i++) n += put_view(out, n, clu_view_map(of->views[i].fd, NULL));
  out = Rf_xlengthgets(out, n);
  UNPROTECT(1);
  return out;
}

/* In any process: the views that these descriptors of these processes of this user's are, for those
 * that are one. */
SEXP ffi_views_of(SEXP pids, SEXP fds) {
  R_xlen_t n = 0;
  SEXP out = PROTECT(Rf_allocVector(VECSXP, Rf_xlength(pids)));
  for (R_xlen_t i = 0; i < Rf_xlength(pids); i++)
    n += put_view(out, n, clu_view_map_of((clu_pid)INTEGER(pids)[i], (clu_fd)INTEGER(fds)[i]));
  out = Rf_xlengthgets(out, n);
  UNPROTECT(1);
  return out;
}

/* The folder that its session's user has named for observers; "": none. */
SEXP ffi_view_folder(SEXP view) {
  const clu_observed *s = R_ExternalPtrAddr(view);
  const char *text = s ? s->view->memory->about.folder : "";
  const char *end = memchr(text, 0, s ? CLU_VIEW_STORY : 1);
  return Rf_ScalarString(Rf_mkCharLenCE(text, end ? (int)(end - text) : 0, CE_UTF8));
}

/* c(cluster, process id of its session) */
SEXP ffi_view_numbers(SEXP view) {
  const clu_observed *s = R_ExternalPtrAddr(view);
  SEXP out = Rf_allocVector(REALSXP, 2);
  REAL(out)[0] = s ? (double)s->view->memory->about.number : NA_REAL;
  REAL(out)[1] = s ? (double)s->view->memory->about.pid : NA_REAL;
  return out;
}

/* `x`: a number from R, which counts something. */
static uint64_t count_of(double x) { return x >= 1 && x < 9e15 ? (uint64_t)x : 0; }

/* Returns what is seen of one of them now, see clu_observed_values(). `wish`: c(tasks, ended,
 * told). */
SEXP ffi_observer_read(SEXP view, SEXP wish) {
  clu_observed *s = R_ExternalPtrAddr(view);
  clu_observed_wish w;
  if (!s) clu_raise("argument", "there is no such view");
  if (TYPEOF(wish) != REALSXP || XLENGTH(wish) != 3)
    clu_raise("argument", "a wish has three numbers");
  w.tasks = (R_xlen_t)count_of(REAL(wish)[0]);
  w.ended = count_of(REAL(wish)[1]);
  w.told = count_of(REAL(wish)[2]);
  clu_observed_look(s);
  return clu_observed_values(s, &w);
}

/* Asks the busy ones of these nodes (numbers from 1; NULL: of all): the questions, see
 * clu_observed_ask_stacks(). */
SEXP ffi_observer_ask(SEXP view, SEXP nodes) {
  const clu_observed *s = R_ExternalPtrAddr(view);
  char *is_asked;
  if (!s) clu_raise("argument", "there is no such view");
  if (nodes != R_NilValue && TYPEOF(nodes) != INTSXP)
    clu_raise("argument", "nodes are whole numbers");
  is_asked = R_alloc((size_t)s->n + 1, 1);
  memset(is_asked, nodes == R_NilValue, (size_t)s->n);
  for (R_xlen_t k = 0; k < Rf_xlength(nodes); k++)
    if (INTEGER(nodes)[k] >= 1 && INTEGER(nodes)[k] <= s->n) is_asked[INTEGER(nodes)[k] - 1] = 1;
  return clu_observed_ask_stacks(s, is_asked);
}

/* Returns what they have told, see clu_observed_stacks(). */
SEXP ffi_observer_stacks(SEXP view, SEXP questions) {
  const clu_observed *s = R_ExternalPtrAddr(view);
  if (!s) clu_raise("argument", "there is no such view");
  if (TYPEOF(questions) != REALSXP || XLENGTH(questions) != s->n)
    clu_raise("argument", "a question for each node");
  return clu_observed_stacks(s, questions);
}

/* c(load, bytes of memory, bytes of it that are free) of this machine; NA: not known. */
SEXP ffi_observer_machine(void) {
  SEXP out = PROTECT(Rf_allocVector(REALSXP, 3));
  clu_machine m;
  clu_os_machine(&m);
  REAL(out)[0] = m.load < 0 ? NA_REAL : m.load;
  REAL(out)[1] = m.memory < 0 ? NA_REAL : (double)m.memory;
  REAL(out)[2] = m.memory_free < 0 ? NA_REAL : (double)m.memory_free;
  UNPROTECT(1);
  return out;
}

/* Ends this process, without R's exit: what that would remove is the fork server's. */
SEXP ffi_observer_end(void) {
  clu_os_end_self();
  return R_NilValue;
}

/* Says what a process does, by the system's letter; NA: there is none. */
SEXP ffi_process_letter(SEXP pid) {
  char text[2] = {clu_os_process_state((int64_t)Rf_asReal(pid)), 0};
  return text[0] ? Rf_mkString(text) : Rf_ScalarString(NA_STRING);
}
