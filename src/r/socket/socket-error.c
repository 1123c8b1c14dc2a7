/* Failures of sockets as R conditions: class "clutch_socket_<what>", see throw_socket() in R. */
#include "r/socket/socket.h"

#include <stdio.h>

static const char *what_of(int code) {
  switch (code) {
  case CLU_TIMEOUT: return "socket_timeout";
  case CLU_REFUSED: return "socket_refused";
  case CLU_RESET: return "socket_reset";
  case CLU_EOF: return "socket_end";
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

/* Calls throw_socket(what, text, address, written, prefix, warn) of R. */
static void raise_with(const clu_sock *s, const clu_err *e, double written, const char *prefix,
                       const char *warn) {
  char at[2 * CLU_ADDR_TEXT + 8] = "", text[512];
  SEXP ns, call, a;
  if (s) clu_sock_text(s, at, sizeof at);
  snprintf(text, sizeof text, "%s", e->text[0] ? e->text : clu_code_text(e->code));
  ns = PROTECT(R_FindNamespace(PROTECT(Rf_mkString("clutch"))));
  call = PROTECT(Rf_allocVector(LANGSXP, 7));
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
  a = CDR(a);
  if (prefix) SETCAR(a, Rf_mkString(prefix));
  a = CDR(a);
  if (warn) SETCAR(a, Rf_mkString(warn));
  Rf_eval(call, ns);
  clu_raise("system", "%s", text); /* not reached */
}

void clu_raise_socket(const clu_sock *s, const clu_err *e, double written) {
  raise_with(s, e, written, NULL, NULL);
}

void clu_raise_opening(const clu_sock *s, const clu_err *e, const char *prefix, const char *warn) {
  raise_with(s, e, -1, prefix, warn);
}

void clu_timed_out(clu_sock *s, const char *what, double seconds, double written, clu_err *e) {
  char at[2 * CLU_ADDR_TEXT + 8];
  clu_sock_text(s, at, sizeof at);
  if (written > 0)
    clu_fail(e, CLU_TIMEOUT, 0, "%s: timeout: %s for %g seconds, %.0f bytes of the call have gone",
             at, what, seconds, written);
  else
    clu_fail(e, CLU_TIMEOUT, 0, "%s%stimeout: %s for %g seconds", at, at[0] ? ": " : "", what,
             seconds);
  s->last = *e;
}

void clu_raise_timeout(clu_sock *s, const char *what, double seconds, double written) {
  clu_err e;
  clu_timed_out(s, what, seconds, written, &e);
  clu_raise_socket(s, &e, written);
}

void clu_raise_closed(const clu_sock *s) {
  clu_err e;
  char at[2 * CLU_ADDR_TEXT + 8] = "";
  if (s) clu_sock_text(s, at, sizeof at);
  clu_fail(&e, CLU_CLOSED, 0, "%s%sthis socket is closed", at, at[0] ? ": " : "");
  clu_raise_socket(s, &e, -1);
}

void clu_raise_if_torn(const clu_sock *s) {
  char at[2 * CLU_ADDR_TEXT + 8];
  clu_err e;
  if (!s->torn) return;
  clu_fail(&e, CLU_BROKEN, 0, "%s: %s", clu_sock_text(s, at, sizeof at), clu_code_text(CLU_BROKEN));
  clu_raise_socket(s, &e, -1);
}
