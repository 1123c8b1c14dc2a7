/* The session's side of a run on several hosts: its hub (core/mesh/hub.h), and the nodes that are
 * its bridges, one on each host. What these say is handed on while the session's event loop runs,
 * also by the package's thread: nothing of it calls R. */
#include "r/mesh/mesh.h"

#include <stdlib.h>

#include "core/mesh/hub.h"
#include "core/wire/frame.h"
#include "r/base/wait.h"
#include "r/session/session.h"

typedef struct run_hub {
  struct run_hub *next;
  clu_hub *hub;
  int hosts;
  clu_node *bridges[]; /* by host; the handle keeps theirs */
} run_hub;

static run_hub *hubs;

static void free_hub(void *p) {
  run_hub *x = p;
  for (run_hub **at = &hubs; *at; at = &(*at)->next)
    if (*at == x) {
      *at = x->next;
      break;
    }
  clu_hub_free(x->hub);
  free(x);
}

static clu_handle_kind kind = {.name = "clutch_hub", .free = free_hub};

static run_hub *get(SEXP x) { return clu_handle_get(x, &kind); }

static void say(void *to, int host, clu_blob *body) {
  run_hub *x = to;
  /* a run that has lost a message would wait for ever */
  if (clu_node_send(x->bridges[host], CLU_K_MESH, body) == CLU_NOMEM)
    clu_node_close(x->bridges[host]);
}

static void on_mesh(clu_node *nd, const clu_msg *m) {
  for (run_hub *x = hubs; x; x = x->next)
    for (int i = 0; i < x->hosts; i++)
      if (x->bridges[i] == nd) {
        clu_hub_heard(x->hub, i, m->body);
        return;
      }
}

/* `host_of`: integers, by rank, the host, from 1 on. `handles`: a list, the bridge of each host. */
SEXP ffi_hub_new(SEXP host_of, SEXP handles) {
  int count = Rf_length(host_of), hosts = Rf_length(handles);
  int *at = (int *)R_alloc((size_t)count, sizeof *at);
  SEXP x = PROTECT(clu_handle_new(&kind, handles));
  run_hub *made;
  clu_need_session();
  for (int i = 0; i < hosts; i++) clu_get_node(VECTOR_ELT(handles, i));
  for (int i = 0; i < count; i++) at[i] = INTEGER(host_of)[i] - 1;
  made = calloc(1, sizeof *made + (size_t)hosts * sizeof *made->bridges);
  if (made) made->hub = clu_hub_new(count, at, hosts, say, made);
  if (!made || !made->hub) {
    free(made);
    clu_raise("memory", "not enough memory");
  }
  made->hosts = hosts;
  made->next = hubs;
  hubs = made;
  clu_handle_set(x, made);
  for (int i = 0; i < hosts; i++) made->bridges[i] = clu_get_node(VECTOR_ELT(handles, i));
  clu_session_set_mesh_hook(clu_the_session, on_mesh);
  UNPROTECT(1);
  return x;
}

static int have_said(void *data) {
  run_hub *x = data;
  for (int i = 0; i < x->hosts; i++)
    if (!clu_hub_path(x->hub, i) && !clu_hub_failure(x->hub, i) && clu_node_is_open(x->bridges[i]))
      return 0;
  return 1;
}

static SEXP text_or_na(const char *text) { return text ? Rf_mkCharCE(text, CE_UTF8) : NA_STRING; }

/* Waits until each bridge has made the mesh of its host, or cannot: list(paths, failures), with NA.
 */
SEXP ffi_hub_await(SEXP handle, SEXP seconds) {
  static const char *names[] = {"paths", "failures", ""};
  run_hub *x = get(handle);
  SEXP out, paths, failures;
  clu_wait_for(have_said, x, clu_in_seconds(seconds), NULL);
  out = PROTECT(Rf_mkNamed(VECSXP, names));
  SET_VECTOR_ELT(out, 0, paths = Rf_allocVector(STRSXP, x->hosts));
  SET_VECTOR_ELT(out, 1, failures = Rf_allocVector(STRSXP, x->hosts));
  for (int i = 0; i < x->hosts; i++) {
    SET_STRING_ELT(paths, i, text_or_na(clu_hub_path(x->hub, i)));
    SET_STRING_ELT(failures, i, text_or_na(clu_hub_failure(x->hub, i)));
  }
  UNPROTECT(1);
  return out;
}

/* Tells of each host whether its bridge is gone. */
SEXP ffi_hub_lost(SEXP handle) {
  run_hub *x = get(handle);
  SEXP out = PROTECT(Rf_allocVector(LGLSXP, x->hosts));
  for (int i = 0; i < x->hosts; i++) {
    if (!clu_node_is_open(x->bridges[i])) clu_hub_lost(x->hub, i);
    LOGICAL(out)[i] = clu_hub_is_lost(x->hub, i);
  }
  UNPROTECT(1);
  return out;
}

/* Tells of a death as ffi_mesh_died() does. Where the bridge of its host is gone, too, all of the
 * host is. */
SEXP ffi_hub_died(SEXP handle, SEXP rank, SEXP signal, SEXP status) {
  run_hub *x = get(handle);
  clu_exit how = clu_exit_of(signal, status);
  int of = Rf_asInteger(rank) - 1, host = clu_hub_host_of(x->hub, of);
  if (!clu_node_is_open(x->bridges[host])) clu_hub_cut(x->hub, host);
  clu_hub_died(x->hub, of, &how);
  return R_NilValue;
}

/* The run is over. */
SEXP ffi_hub_end(SEXP handle) {
  clu_hub_end(get(handle)->hub);
  return R_NilValue;
}
