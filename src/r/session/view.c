/* The views of clusters (core/view/view.h), as their session makes them. */
#include "r/session/session.h"

#include <stdio.h>
#include <string.h>

static void free_view(void *p) { clu_view_unref(p); }
static clu_handle_kind views = {.name = "clutch_view", .free = free_view};

/* NULL: there is none. */
clu_view *clu_get_view(SEXP x) { return x == R_NilValue ? NULL : clu_handle_get(x, &views); }

static void copy_text(char *to, size_t room, SEXP text) {
  snprintf(to, room, "%s", Rf_translateCharUTF8(text));
}

/* For cluster `number` with so many nodes. `texts`: R's version, the user, the host, the strategy,
 * the folder. NULL: without memory or a descriptor for it. */
SEXP ffi_view_new(SEXP number, SEXP nodes, SEXP texts) {
  clu_view_about about;
  char *const to[] = {about.r, about.user, about.host, about.strategy};
  clu_view *v;
  clu_err e;
  SEXP x;
  clu_need_session();
  memset(&about, 0, sizeof about);
  about.number = (uint64_t)Rf_asReal(number);
  about.pid = (uint64_t)clu_os_getpid();
  about.created = clu_os_now();
  about.nodes = (uint64_t)Rf_asReal(nodes);
  for (int i = 0; i < 4; i++) copy_text(to[i], CLU_VIEW_TEXT, STRING_ELT(texts, i));
  copy_text(about.folder, sizeof about.folder, STRING_ELT(texts, 4));
  x = PROTECT(clu_handle_new(&views, R_NilValue));
  v = clu_view_new(&about, &e);
  if (v) clu_handle_set(x, v);
  UNPROTECT(1);
  return v ? x : R_NilValue;
}

/* Nodes with these numbers (from 1) are shown there, on these hosts. */
SEXP ffi_view_nodes(SEXP view, SEXP handles, SEXP ranks, SEXP hosts) {
  clu_view *v = clu_get_view(view);
  for (R_xlen_t i = 0; i < Rf_xlength(handles); i++)
    clu_node_show(clu_get_node(VECTOR_ELT(handles, i)), v, INTEGER(ranks)[i] - 1,
                  Rf_translateCharUTF8(STRING_ELT(hosts, i)));
  return R_NilValue;
}

/* A fork server of this machine has it for observers; or, with `view` NULL, has it no more. Whether
 * that could be sent. */
SEXP ffi_view_pass(SEXP view, SEXP server, SEXP number) {
  clu_view *v = clu_get_view(view);
  clu_server *s = clu_get_server(server);
  unsigned char size[8];
  clu_fd fd = CLU_NO_FD;
  clu_put64(size, sizeof *v->memory);
  if (clu_server_is_remote(s)) return Rf_ScalarLogical(0); /* no descriptor gets there */
  if (v && clu_os_dup(v->fd, &fd) != CLU_OK) return Rf_ScalarLogical(0);
  return Rf_ScalarLogical(clu_server_send(s, CLU_K_VIEW, (uint64_t)Rf_asReal(number), size,
                                          v ? sizeof size : 0, fd) == CLU_OK);
}

/* `node`: its number, 0: it is about none. */
SEXP ffi_view_tell(SEXP view, SEXP kind, SEXP node, SEXP text) {
  clu_view_tell(clu_get_view(view), CHAR(STRING_ELT(kind, 0)), Rf_asInteger(node),
                Rf_translateCharUTF8(STRING_ELT(text, 0)), clu_os_now());
  return R_NilValue;
}

/* An actor with this number, name and label belongs to the cluster. */
SEXP ffi_view_actor(SEXP view, SEXP number, SEXP name, SEXP label) {
  clu_view_actor_begins(clu_get_view(view), (uint64_t)Rf_asReal(number), CHAR(STRING_ELT(name, 0)),
                        Rf_translateCharUTF8(STRING_ELT(label, 0)));
  return R_NilValue;
}

/* The cluster was stopped: the view is not passed on any more. */
SEXP ffi_view_stop(SEXP view) {
  clu_view *v = clu_get_view(view);
  if (!v) return R_NilValue;
  clu_view_set(&v->memory->stopped, clu_os_now());
  clu_view_seal(v);
  return R_NilValue;
}
