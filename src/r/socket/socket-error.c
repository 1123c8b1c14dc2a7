/* Failures of sockets as R conditions: class "clutch_socket_<what>", see throw_socket() in R. */
#include "r/socket/socket.h"

#include <stdio.h>

static const char *what_of(int code) {
  switch (code) {
  case CLU_TIMEOUT: return "socket_timeout";
  case CLU_REFUSED: return "socket_refused";
  case CLU_RESET: return "socket_reset";
  case CLU_CLOSED: return "socket_closed";
  case CLU_BROKEN: return "socket_broken";
  case CLU_DNS: return "socket_dns";
  case CLU_LIMIT: return "socket_limit";
  case CLU_UNREACHABLE: return "socket_unreachable";
  case CLU_IN_USE: return "socket_in_use";
  case CLU_BUSY: return "socket_refused";
  case CLU_NOMEM: return "memory";
  case CLU_UNSUPPORTED: return "unsupported";
  default: return "socket_system";
  }
}

void clu_raise_socket(const clu_sock *s, const clu_err *e, double written) {
  char at[2 * CLU_ADDR_TEXT + 8] = "", text[512];
  SEXP ns, call, a;
  if (s) clu_sock_text(s, at, sizeof at);
  snprintf(text, sizeof text, "%s", e->text[0] ? e->text : clu_code_text(e->code));
  ns = PROTECT(R_FindNamespace(PROTECT(Rf_mkString("clutch"))));
  call = PROTECT(Rf_allocVector(LANGSXP, 5));
  a = call;
  SETCAR(a, Rf_install("throw_socket"));
  a = CDR(a);
  SETCAR(a, Rf_mkString(what_of(e->code)));
  a = CDR(a);
  SETCAR(a, Rf_mkString(text));
  a = CDR(a);
  SETCAR(a, Rf_mkString(at));
  a = CDR(a);
  SETCAR(a, Rf_ScalarReal(written < 0 ? NA_REAL : written));
  Rf_eval(call, ns);
  clu_raise("system", "%s", text); /* not reached */
}

void clu_raise_timeout(const clu_sock *s, const char *what, double seconds, double written) {
  char at[2 * CLU_ADDR_TEXT + 8] = "";
  clu_err e;
  if (s) clu_sock_text(s, at, sizeof at);
  if (written > 0)
    clu_fail(&e, CLU_TIMEOUT, 0, "%s: timeout: %s for %g seconds, %.0f bytes of the call have gone",
             at, what, seconds, written);
  else
    clu_fail(&e, CLU_TIMEOUT, 0, "%s%stimeout: %s for %g seconds", at, at[0] ? ": " : "", what,
             seconds);
  if (s) ((clu_sock *)s)->last = e;
  clu_raise_socket(s, &e, written);
}

void clu_raise_closed(const clu_sock *s) {
  clu_err e;
  char at[2 * CLU_ADDR_TEXT + 8] = "";
  if (s) clu_sock_text(s, at, sizeof at);
  clu_fail(&e, CLU_CLOSED, 0, "%s%sthis socket is closed", at, at[0] ? ": " : "");
  clu_raise_socket(s, &e, -1);
}
