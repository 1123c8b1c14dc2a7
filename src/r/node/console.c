/* R's console, in processes that have none.
 *
 * A frozen copy: its lines come from the session (R/node-frozen.R), its output goes to a file.
 *
 * A node whose task has called browser(), or a function that is debugged, where the session is at a
 * prompt: R asks its console for a line, and so the session is asked (R/node-browse.R). From then
 * on until the task has ended, what it prints and signals is sent at once, R's own error messages
 * included. Else R finds the end of its input, as it does in any script.
 */
#include "r/node/node.h"

#include <R_ext/GraphicsEngine.h>

#ifdef CLU_POLLED_EVENTS
#define R_INTERFACE_PTRS
#include <Rinterface.h>
#endif
#include <stdio.h>
#include <string.h>

#include "core/base/os-output.h"

#ifdef CLU_POLLED_EVENTS

static struct {
  SEXP fun; /* preserved: it gets a prompt and gives a line, or NULL at the end of the input */
  char rest[65536];
  size_t n, at; /* what R has not read of the last line */
  int is_hooked;
  int browses; /* tasks of the job at hand are to ask for lines */
  /* before the task at hand has asked for a line */
  int was_at_once;
  FILE *errors;
  void (*write)(const char *, int);
  void (*write_ex)(const char *, int, int);
} console;

/* A line may be longer than R's buffer: it gets it in parts. */
static int give_line(unsigned char *buffer, int size) {
  size_t n = console.n - console.at;
  if (n > (size_t)size - 1) n = (size_t)size - 1;
  memcpy(buffer, console.rest + console.at, n);
  buffer[n] = 0;
  console.at += n;
  return 1;
}

/* 0: it is none. */
static int take_line(SEXP line) {
  if (TYPEOF(line) != STRSXP || Rf_xlength(line) != 1) return 0;
  console.n =
      (size_t)snprintf(console.rest, sizeof console.rest, "%s\n", CHAR(STRING_ELT(line, 0)));
  if (console.n >= sizeof console.rest) console.n = sizeof console.rest - 1;
  console.at = 0;
  return 1;
}

static SEXP call_for(const char *prompt) {
  SEXP text = PROTECT(Rf_mkString(prompt)), call = Rf_lang2(console.fun, text);
  UNPROTECT(1);
  return call;
}

/* ---- a frozen copy ---- */

static void write_out(const char *text, int n, int kind) {
  (void)kind;
  while (n > 0) {
    size_t written = 0;
    if (clu_os_output_write(1, text, (size_t)n, &written) != CLU_OK || written == 0) return;
    text += written;
    n -= (int)written;
  }
}

static int read_in_copy(const char *prompt, unsigned char *buffer, int size, int history) {
  (void)history;
  if (console.at >= console.n) {
    SEXP call = PROTECT(call_for(prompt)), line;
    int failed = 0, is_line;
    line = R_tryEvalSilent(call, R_BaseEnv, &failed);
    is_line = !failed && take_line(line);
    UNPROTECT(1);
    if (!is_line) return 0;
  }
  return give_line(buffer, size);
}

static void say_nothing(int busy) { (void)busy; }
static void do_nothing(void) {}

/* From now on R's console is this: `fun` gets a prompt and gives a line, output goes to the copy's
 * file. R is interactive, as it is where the session is. */
SEXP ffi_frozen_console(SEXP fun) {
  R_PreserveObject(fun);
  console.fun = fun;
  console.n = console.at = 0;
  ptr_R_ReadConsole = read_in_copy;
  ptr_R_WriteConsole = NULL;
  ptr_R_WriteConsoleEx = write_out;
  ptr_R_Busy = say_nothing;
  ptr_R_FlushConsole = ptr_R_ResetConsole = ptr_R_ClearerrConsole = do_nothing;
  R_Outputfile = R_Consolefile = NULL;
  R_Interactive = TRUE;
  R_NoEcho = FALSE;
  return R_NilValue;
}

/* ---- a task ---- */

static void write_relayed(const char *text, int n, int kind) {
  (void)kind;
  clu_relay_print(text, (size_t)n);
}

static void begin(void) {
  clu_me.browsing = 1;
  console.was_at_once = clu_me.relay_at_once;
  console.errors = R_Consolefile;
  console.write = ptr_R_WriteConsole;
  console.write_ex = ptr_R_WriteConsoleEx;
  clu_me.relay_at_once = 1;
  R_Consolefile = NULL;
  ptr_R_WriteConsole = NULL;
  ptr_R_WriteConsoleEx = write_relayed;
}

/* An interrupt of what waits for the line ends the task: nothing catches it here. */
static int read_in_task(const char *prompt, unsigned char *buffer, int size, int history) {
  (void)history;
  if (!console.browses || clu_me.task != CLU_TASK_RELAYED || clu_me.forked) return 0;
  if (console.at >= console.n) {
    SEXP call = PROTECT(call_for(prompt));
    int is_line;
    if (!clu_me.browsing) begin();
    is_line = take_line(Rf_eval(call, R_BaseEnv));
    UNPROTECT(1);
    if (!is_line) return 0;
  }
  return give_line(buffer, size);
}

void clu_console_browse(int browses) {
  console.browses = browses;
  if (!browses || console.is_hooked) return;
  console.is_hooked = 1;
  R_PreserveObject(console.fun = clu_node_r("line_reader", R_NilValue));
  ptr_R_ReadConsole = read_in_task;
  R_NoEcho = FALSE; /* or R makes no prompts */
}

void clu_console_end_task(void) {
  SEXP call;
  int failed;
  if (!clu_me.browsing) return;
  clu_me.browsing = 0;
  console.n = console.at = 0;
  clu_me.relay_at_once = console.was_at_once;
  R_Consolefile = console.errors;
  ptr_R_WriteConsole = console.write;
  ptr_R_WriteConsoleEx = console.write_ex;
  call = PROTECT(Rf_lang2(console.fun, R_NilValue));
  R_tryEvalSilent(call, R_BaseEnv, &failed);
  UNPROTECT(1);
}

#else /* R of this system has no such hooks */

SEXP ffi_frozen_console(SEXP fun) {
  (void)fun;
  return R_NilValue;
}

void clu_console_browse(int browses) { (void)browses; }
void clu_console_end_task(void) {}

#endif
