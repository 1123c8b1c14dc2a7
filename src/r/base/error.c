/* Failures of the core as R conditions. One R function builds and throws all of them. */
#include "r/base/r-api.h"
#include "r/base/turn.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

int clu_is_node;

SEXP clu_namespace(void) {
  static SEXP namespace;
  if (!namespace) {
    SEXP ns = R_FindNamespace(PROTECT(Rf_mkString("clutch")));
    R_PreserveObject(ns);
    namespace = ns;
    UNPROTECT(1);
  }
  return namespace;
}

NORET void clu_raise(const char *what, const char *fmt, ...) {
  char text[1024];
  va_list ap;
  SEXP ns, call;
  va_start(ap, fmt);
  vsnprintf(text, sizeof text, fmt, ap);
  va_end(ap);
  clu_turn_pause(); /* for good: who has it is about to be left */
  ns = PROTECT(R_FindNamespace(PROTECT(Rf_mkString("clutch"))));
  call = PROTECT(
      Rf_lang3(Rf_install("throw"), PROTECT(Rf_mkString(what)), PROTECT(Rf_mkString(text))));
  Rf_eval(call, ns);
  Rf_error("%s", text); /* not reached: throw() does not return */
}

NORET void clu_raise_err(const clu_err *e) {
  const char *what = "system";
  switch (e->code) {
  case CLU_NOMEM: what = "memory"; break;
  case CLU_LIMIT: what = "limit"; break;
  case CLU_DEAD: what = "node_died"; break;
  case CLU_UNSUPPORTED: what = "unsupported"; break;
  default: break;
  }
  clu_raise(what, "%s", e->text[0] ? e->text : clu_code_text(e->code));
}

/* A pointer that was serialized: in a node, it came from the session. */
NORET void clu_raise_foreign(const char *what) {
  const char *class = strcmp(what, "task") == 0 ? "argument" : "stopped";
  if (clu_is_node)
    clu_raise(class, "this is the session's %s, which cannot be used in a node: make one there",
              what);
  clu_raise(class, "this %s belongs to another R session: it was saved and loaded again", what);
}
