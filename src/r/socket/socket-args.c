/* Arguments of the functions that open sockets. They are checked here and not in R: a connection to
 * a peer that is near takes 30 us, and a check in R takes one. */
#include "r/socket/socket.h"

#include <string.h>

NORET void clu_invalid(const char *name) { clu_raise("argument", "invalid '%s' argument", name); }

int clu_flag_arg(SEXP x, const char *name) {
  if (TYPEOF(x) != LGLSXP || Rf_xlength(x) != 1 || LOGICAL(x)[0] == NA_LOGICAL) clu_invalid(name);
  return LOGICAL(x)[0];
}

const char *clu_text_arg(SEXP x, const char *name) {
  if (TYPEOF(x) != STRSXP || Rf_xlength(x) != 1 || STRING_ELT(x, 0) == NA_STRING) clu_invalid(name);
  return Rf_translateChar(STRING_ELT(x, 0));
}

static double number_in(const char *text) {
  char *end;
  double x = R_strtod(text, &end);
  while (*end == ' ') end++;
  return *end ? NA_REAL : x;
}

/* These functions take the number of a port as text, too, as base R's do. */
int clu_port_arg(SEXP x, int least) {
  double port = NA_REAL;
  if (Rf_xlength(x) == 1 && !Rf_inherits(x, "factor")) {
    if (TYPEOF(x) == INTSXP || TYPEOF(x) == REALSXP) port = Rf_asReal(x);
    if (TYPEOF(x) == STRSXP) port = number_in(CHAR(STRING_ELT(x, 0)));
  }
  if (!(port >= least) || port > 65535 || port != (int)port) clu_invalid("port");
  return (int)port;
}

/* In place of socket_options(): base R has texts there, and "no-delay", the only one, is our
 * default. */
void clu_options_arg(SEXP x, int to[CLU_N_OPTS]) {
  if (x == R_NilValue || TYPEOF(x) == STRSXP) {
    for (int i = 0; i < CLU_N_OPTS; i++) to[i] = NA_INTEGER;
    to[CLU_OPT_NODELAY] = 1;
    return;
  }
  if (!Rf_inherits(x, "clutch_socket_options") || TYPEOF(x) != INTSXP ||
      Rf_xlength(x) != CLU_N_OPTS)
    clu_invalid("options");
  memcpy(to, INTEGER(x), CLU_N_OPTS * sizeof *to);
}

void clu_stream_args_of(clu_stream_args *to, SEXP blocking, SEXP open, SEXP encoding, SEXP timeout,
                        SEXP options) {
  double seconds;
  to->blocking = clu_flag_arg(blocking, "blocking");
  to->open = clu_text_arg(open, "open");
  if (strlen(to->open) > 4) clu_invalid("open");
  to->encoding = clu_text_arg(encoding, "encoding");
  if (Rf_xlength(timeout) != 1 || Rf_inherits(timeout, "factor")) clu_invalid("timeout");
  seconds = Rf_asReal(timeout);
  if (TYPEOF(timeout) != INTSXP && TYPEOF(timeout) != REALSXP &&
      !(TYPEOF(timeout) == LGLSXP && ISNAN(seconds)))
    clu_invalid("timeout");
  clu_options_arg(options, to->options);
  to->opening = ISNAN(seconds) || seconds <= 0 ? 60 : seconds;
  to->timeout = ISNAN(seconds) ? 60 : seconds > 0 ? seconds : 0;
}
