/* On another host, in a new R: the proxy to the session, and the fork server as its child. */
#include "r/base/r-api.h"

#include <stdio.h>
#include <string.h>

#include "core/base/input.h"
#include "core/base/os-tls.h"
#include "core/link/far.h"
#include "core/link/link.h"
#include "core/wire/frame.h"
#include "core/wire/handshake.h"
#include "r/base/entry-points.h"
#include "r/node/node.h"
#include "r/base/private-text.h"

enum { STDOUT = 1, STDERR = 2 };

/* A number that another version of what travels between hosts does not have. */
SEXP ffi_host_protocol(void) {
  return Rf_ScalarInteger(CLU_LINK_VERSION * 1000 + CLU_K_AFTER_LAST);
}

/* Starts `argv` with this text (r/base/private-text.h) on its standard input, which has no end
 * before descriptor 3 is closed there. It goes on beside the proxy, and is told to end (SIGTERM, on
 * Linux) when that ends.
 */
SEXP ffi_host_start(SEXP argv, SEXP text) {
  R_xlen_t n = Rf_xlength(argv);
  char **args = (char **)R_alloc((size_t)n + 1, sizeof *args);
  size_t n_input;
  const char *input = clu_private_bytes(text, &n_input);
  clu_err e = {0, 0, ""};
  clu_fd rest = CLU_NO_FD;
  clu_spawn s;
  clu_pid pid;
  int rc;
  for (R_xlen_t i = 0; i < n; i++) args[i] = (char *)(uintptr_t)CHAR(STRING_ELT(argv, i));
  args[n] = NULL;
  memset(&s, 0, sizeof s);
  s.file = args[0];
  s.argv = args;
  s.out = STDOUT;
  s.err = STDERR;
  s.follow = 1;
  s.keep = &rest;
  s.nkeep = 1;
  rc = clu_input_of(input, n_input, &s.in, &rest, &e);
  if (rc == CLU_OK) {
    rc = clu_os_spawn(&s, &pid, &e);
    clu_os_close(s.in);
    clu_os_close(rest);
  }
  if (rc != CLU_OK) clu_raise_err(&e);
  return R_NilValue;
}

/* Only the hosts of a cluster know this. */
typedef struct host_secrets {
  unsigned char secret[CLU_SECRET];
  char own[2 * CLU_TLS_TEXT], certificate[2 * CLU_TLS_TEXT]; /* "": not encrypted */
} host_secrets;

static int take_secrets(SEXP text, host_secrets *out) {
  char hex[2 * CLU_SECRET + 1];
  int n = clu_private_value(text, "secret", hex, sizeof hex);
  int ok = n == 2 * CLU_SECRET && clu_secret_from_hex(hex, out->secret);
  clu_os_wipe(hex, sizeof hex);
  if (clu_private_value(text, "own", out->own, sizeof out->own) < 0) out->own[0] = 0;
  if (clu_private_value(text, "certificate", out->certificate, sizeof out->certificate) < 0)
    out->certificate[0] = 0;
  return ok;
}

/* Forks. In the child, which goes on as a fork server (fork_server_main() in R): NULL. This process
 * becomes the proxy, and comes back at its end: a string, why it has ended; "": it was asked to, or
 * the fork server has.
 * `settings`: list(hosts, port, rank, times): names or addresses of the session's host in the order
 * in which they are tried; in seconds how long it tries to connect at first, heartbeat, and how
 * long it may be cut off. `secrets`: as of ffi_link_secrets(), overwritten. */
SEXP ffi_host_begin(SEXP settings, SEXP secrets) {
  clu_err e = {0, 0, ""};
  clu_far_options how;
  static host_secrets known;
  const char *hosts[16];
  SEXP names = clu_element(settings, "hosts"), times = clu_element(settings, "times");
  clu_fd pair[2];
  int rc;
  memset(&how, 0, sizeof how);
  if (!take_secrets(secrets, &known))
    clu_raise("argument", "the secret has to be %d hexadecimal digits", 2 * CLU_SECRET);
  if (TYPEOF(names) != STRSXP || TYPEOF(times) != REALSXP || Rf_length(times) != 3)
    clu_raise("argument", "the settings of this host are not complete");
  for (; how.nhosts < 16 && how.nhosts < Rf_length(names); how.nhosts++)
    hosts[how.nhosts] = CHAR(STRING_ELT(names, how.nhosts));
  how.hosts = hosts;
  how.starter = STDOUT; /* ssh's, as a rule */
  how.port = Rf_asInteger(clu_element(settings, "port"));
  how.rank = (uint32_t)Rf_asInteger(clu_element(settings, "rank"));
  how.secret = known.secret;
  how.own = known.own[0] ? known.own : NULL;
  how.certificate = known.certificate[0] ? known.certificate : NULL;
  how.connect = (uint64_t)(1e9 * REAL(times)[0]);
  how.beat = (uint64_t)(1e9 * REAL(times)[1]);
  how.reconnect = (uint64_t)(1e9 * REAL(times)[2]);
  ffi_private_wipe(secrets);
  if (clu_os_pair(pair, &e) != CLU_OK) clu_raise_err(&e);
  fflush(NULL); /* each of the two would print what is buffered */
  rc = clu_os_fork(&how.server, &e);
  if (rc != CLU_OK) {
    clu_os_close(pair[0]);
    clu_os_close(pair[1]);
    clu_raise_err(&e);
  }
  if (how.server == 0) {
    clu_os_close(pair[0]);
    clu_os_wipe(&known, sizeof known);
    clu_fork_server_control(pair[1]);
    return R_NilValue;
  }
  clu_os_close(pair[1]);
  how.control = pair[0];
  rc = clu_far_serve(&how, &e);
  clu_os_wipe(&known, sizeof known);
  return Rf_mkString(rc == CLU_OK ? "" : e.text);
}
