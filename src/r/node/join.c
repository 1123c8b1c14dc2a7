/* A node that connects to its session over TCP: from its start until it has its settings. */
#include "r/node/node.h"
#include "r/base/r-api.h"

#include <Rembedded.h>
#include <Rversion.h>
#include <stdlib.h>
#include <string.h>

#include "core/node/joiner.h"

static clu_pid parent; /* the session that has started it; 0: not known, or on another machine */

static int parent_lives(void) { return !parent || clu_os_kill(parent, 0, 0) == 0; }

/* The lines that watched_start() in R has put behind the secret are not for code that reads the
 * standard input. Its end is there already, or about to be. */
static void forget_input(void) {
  char bytes[64];
  for (int rc = CLU_OK; rc == CLU_OK || rc == CLU_AGAIN;) {
    clu_iov iov;
    size_t got = 0;
    iov.base = bytes;
    iov.len = sizeof bytes;
    if (clu_os_wait_readable(0, 1000000000) == CLU_TIMEOUT) return;
    rc = clu_os_readv(0, &iov, 1, &got, NULL, NULL);
  }
}

/* From the environment, which is wiped, or from the standard input. 1: there is one. */
static int get_secret(unsigned char out[CLU_SECRET]) {
  char *env = getenv("CLUTCH_SECRET"), hex[2 * CLU_SECRET + 1];
  size_t have = 0;
  int ok;
  if (env) {
    ok = strlen(env) == 2 * CLU_SECRET && clu_secret_from_hex(env, out);
    clu_os_wipe(env, strlen(env)); /* also what others could read in /proc */
    clu_os_setenv("CLUTCH_SECRET", NULL);
    return ok;
  }
  while (have < 2 * CLU_SECRET) {
    clu_iov iov;
    size_t got = 0;
    int rc;
    iov.base = hex + have;
    iov.len = 2 * CLU_SECRET - have;
    rc = clu_os_readv(0, &iov, 1, &got, NULL, NULL);
    if (rc == CLU_AGAIN)
      clu_os_wait_readable(0, 100000000);
    else if (rc != CLU_OK)
      break;
    have += got;
  }
  ok = have == 2 * CLU_SECRET && clu_secret_from_hex(hex, out);
  clu_os_wipe(hex, sizeof hex);
  if (ok && getenv("CLUTCH_WATCHER")) forget_input();
  return ok;
}

static SEXP named(SEXP list, const char *name) {
  SEXP names = Rf_getAttrib(list, R_NamesSymbol);
  for (R_xlen_t i = 0; i < Rf_xlength(names); i++)
    if (strcmp(CHAR(STRING_ELT(names, i)), name) == 0)
      return TYPEOF(list) == STRSXP ? STRING_ELT(list, i) : VECTOR_ELT(list, i);
  return R_NilValue;
}

static const char *named_text(SEXP strings, const char *name) {
  SEXP x = named(strings, name);
  return x == R_NilValue ? NULL : CHAR(x);
}

/* Joins the cluster: its settings, or a string that says why not. `local` is a named character
 * vector, for nodes that the session has started itself: PARENT, the session's pid; SLOT of the
 * shared memory, which is the descriptor that it was given to keep; TMP, the folder to be removed
 * at the node's end. */
SEXP ffi_join(SEXP host, SEXP port, SEXP rank, SEXP seconds, SEXP local) {
  /* for a node that shares no memory with the session: no request has number 0, and all tasks may
   * start */
  static uint64_t no_cancel;
  static clu_claim no_claim;
  const char *pid = named_text(local, "PARENT"), *slot = named_text(local, "SLOT"),
             *tmp = named_text(local, "TMP");
  unsigned char secret[CLU_SECRET];
  clu_err e = {0, 0, ""};
  clu_join j;
  clu_chan c;
  clu_msg m;
  clu_boot b;
  int rc;
  double timeout;
  SEXP settings;
  memset(&b, 0, sizeof b);
  b.cancel = &no_cancel;
  b.claim = &no_claim;
  if (!get_secret(secret)) return Rf_mkString("it was not told the cluster's secret");
  if (pid) parent = (clu_pid)atoll(pid);
  if (parent && clu_os_getppid() == parent) {
    /* when the session is killed, this process goes with it, whatever it is doing */
    if (tmp) clu_os_on_term(parent, tmp);
    if (clu_os_follow_parent(parent, 1) == CLU_DEAD) clu_os_kill(clu_os_getpid(), CLU_SIG_TERM, 0);
  }
  if (slot) {
    clu_shared *p;
    clu_fd memory;
    if (clu_os_kept(0, &memory) == CLU_OK) {
      if (clu_shared_map(&p, memory, NULL) == CLU_OK) clu_boot_slot(&b, p, atoi(slot));
      clu_os_close(memory);
    }
  }
  memset(&j, 0, sizeof j);
  j.host = CHAR(STRING_ELT(host, 0));
  j.port = Rf_asInteger(port);
  j.secret = secret;
  j.rank = (uint32_t)Rf_asInteger(rank);
  j.r_version = R_VERSION;
  j.deadline = clu_os_now() + (uint64_t)(1e9 * Rf_asReal(seconds));
  j.go_on = parent_lives;
  rc = clu_join_cluster(&j, &c, &m, &e);
  clu_os_wipe(secret, sizeof secret);
  if (rc != CLU_OK) return Rf_mkString(e.text[0] ? e.text : clu_code_text(rc));
  clu_node_move_fd(&c.fd);
  if (!parent) { /* nobody on this machine can end it: it ends itself when the connection has ended,
                    whatever it is doing */
    clu_os_on_term(-1, R_TempDir);
    clu_os_follow_peer(c.fd, CLU_LAST_GRACE);
  }
  settings = PROTECT(clu_unserialize(m.body, 0));
  timeout = Rf_asReal(named(settings, "timeout"));
  /* as long as base R's 30 days is no limit: the end of the connection is what counts */
  clu_node_joined(&b, &c, timeout > 0 && timeout < 30 * 86400.0 ? (int64_t)(1e9 * timeout) : -1);
  UNPROTECT(1);
  return settings;
}

/* From now on output goes to `path`; TRUE, or FALSE when it cannot be opened. */
SEXP ffi_output_to(SEXP path) {
  clu_fd fd;
  if (clu_os_open_append(R_ExpandFileName(CHAR(STRING_ELT(path, 0))), &fd, NULL) != CLU_OK)
    return Rf_ScalarLogical(FALSE);
  clu_os_redirect_output(fd, fd);
  clu_os_close(fd);
  return Rf_ScalarLogical(TRUE);
}
