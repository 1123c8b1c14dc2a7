/* The process of a node that this session starts itself, by exec: here, or one that starts the node
 * elsewhere (ssh). */
#include "r/session/session.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/input.h"
#include "core/node/child-process.h"
#include "core/wire/handshake.h"
#include "r/base/private-text.h"

#define SECRET_VARIABLE "CLUTCH_SECRET="

static SEXP part(SEXP list, const char *name) {
  SEXP names = Rf_getAttrib(list, R_NamesSymbol);
  for (R_xlen_t i = 0; i < Rf_xlength(names); i++)
    if (strcmp(CHAR(STRING_ELT(names, i)), name) == 0) return VECTOR_ELT(list, i);
  return R_NilValue;
}

/* Room for one more string, and the NULL at the end. By R_alloc(). */
static const char **strings(SEXP x) {
  R_xlen_t n = Rf_xlength(x);
  const char **out = (const char **)R_alloc((size_t)n + 2, sizeof *out);
  for (R_xlen_t i = 0; i < n; i++) out[i] = CHAR(STRING_ELT(x, i));
  out[n] = out[n + 1] = NULL;
  return out;
}

void clu_process_init(clu_process *p, SEXP argv, SEXP envp, SEXP how) {
  SEXP folder = part(how, "folder"), input = part(how, "input");
  size_t n;
  memset(p, 0, sizeof *p);
  p->args = strings(argv);
  p->env = strings(envp);
  p->nargs = Rf_xlength(argv);
  p->nenv = Rf_xlength(envp);
  p->output = R_ExpandFileName(CHAR(STRING_ELT(part(how, "output"), 0)));
  p->folder = folder == R_NilValue ? NULL : CHAR(STRING_ELT(folder, 0));
  p->secret_by_stdin = Rf_asLogical(part(how, "stdin")) == 1;
  p->leaves = part(how, "leaves") != R_NilValue;
  p->shares_memory = Rf_asLogical(part(how, "slot")) == 1;
  p->holds_input = Rf_asLogical(part(how, "hold")) == 1;
  if (clu_is_private(input))
    p->input = clu_private_bytes(input, &n);
  else if (input != R_NilValue)
    p->input = CHAR(STRING_ELT(input, 0));
}

#define AFTER_SECRET "\nend\n" /* see watched_start() in R */

/* The secret as a line, after `before` (may be NULL). */
static int secret_as_input(const char *before, const char *hex, clu_fd *in, clu_fd *hold,
                           clu_err *e) {
  size_t n = before ? strlen(before) : 0, all = n + 2 * CLU_SECRET + sizeof AFTER_SECRET;
  char *text = malloc(all);
  int rc;
  if (!text) return clu_fail(e, CLU_NOMEM, 0, "not enough memory");
  if (n) memcpy(text, before, n);
  memcpy(text + n, hex, 2 * CLU_SECRET);
  memcpy(text + n + 2 * CLU_SECRET, AFTER_SECRET, sizeof AFTER_SECRET);
  rc = clu_input_of(text, n ? all - 1 : 2 * CLU_SECRET + 1, in, hold, e);
  clu_os_wipe(text, all);
  free(text);
  return rc;
}

static int open_output(const clu_process *p, clu_spawn *s, clu_err *e) {
  int rc = CLU_OK;
  s->out = 1;
  s->err = 2;
  if (!*p->output) return CLU_OK;
  s->out = s->err = CLU_NO_FD;
  rc = clu_os_open_append(p->output, &s->out, e);
  s->err = s->out;
  return rc;
}

int clu_process_start(const clu_process *p, clu_node *nd, const char *secret, clu_err *e) {
  char variable[sizeof SECRET_VARIABLE + 2 * CLU_SECRET], slot_arg[32];
  int slot = -1, rc;
  clu_fd memory = CLU_NO_FD, hold = CLU_NO_FD;
  clu_spawn s;
  memset(&s, 0, sizeof s);
  s.in = CLU_NO_FD;
  s.new_session = s.follow = 1;
  s.leaves = p->leaves;
  rc = open_output(p, &s, e);
  if (p->holds_input) s.hold = &hold;
  if (rc == CLU_OK && p->secret_by_stdin && secret)
    rc = secret_as_input(p->input, secret, &s.in, s.hold, e);
  else if (rc == CLU_OK && p->input)
    rc = clu_input_of(p->input, strlen(p->input), &s.in, s.hold, e);
  if (rc == CLU_OK && p->shares_memory)
    rc = clu_child_slot(clu_session_children(clu_the_session), &slot, &memory, e);
  if (slot >= 0) {
    s.keep = &memory;
    s.nkeep = 1;
    snprintf(slot_arg, sizeof slot_arg, "SLOT=%d", slot);
    p->args[p->nargs] = slot_arg;
  }
  if (!p->secret_by_stdin && secret) {
    snprintf(variable, sizeof variable, SECRET_VARIABLE "%s", secret);
    p->env[p->nenv] = variable;
  }
  s.file = p->args[0];
  s.argv = (char *const *)p->args;
  s.envp = (char *const *)p->env;
  if (rc == CLU_OK)
    rc = clu_node_start(nd, &s, slot, p->folder, e);
  else if (hold != CLU_NO_FD)
    clu_os_close(hold);
  if (!p->secret_by_stdin && secret) clu_os_wipe(variable, sizeof variable);
  if (*p->output && s.out != CLU_NO_FD) clu_os_close(s.out);
  if (s.in != CLU_NO_FD) clu_os_close(s.in);
  return rc;
}
