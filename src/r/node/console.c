/* R's console, in processes that have none.
 *
 * A frozen copy: its lines come from the session (R/node-frozen.R), its output goes to a file.
 *
 * A node whose task has called browser(), or a function that is debugged, where the session is at a
 * prompt: R asks its console for a line, and so the session is asked (R/node-browse.R). From the
 * first line on until the task has ended, what it prints and signals is sent at once, R's own error
 * messages included. Else, and where other code reads from stdin(), R finds the end of its input,
 * as it does in any script.
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
  SEXP fun;  /* preserved: it gets a prompt and gives lines, or NULL at the end of the input */
  SEXP last; /* preserved: a cell with the last lines; NULL: none were given */
  size_t at; /* of their bytes R has read so many */
  int is_hooked;
  int browses; /* tasks of the job at hand are to ask for lines */
  /* before the task at hand has asked for a line */
  int was_at_once;
  FILE *errors;
  void (*write)(const char *, int);
  void (*write_ex)(const char *, int, int);
} console;

/* Lines may be longer than R's buffer: it gets them in parts. */
static const char *rest(void) {
  if (!console.last || TYPEOF(CAR(console.last)) != STRSXP) return "";
  return CHAR(STRING_ELT(CAR(console.last), 0)) + console.at;
}

static int give_rest(unsigned char *buffer, int size) {
  size_t n = strlen(rest());
  if (n > (size_t)size - 1) n = (size_t)size - 1;
  memcpy(buffer, rest(), n);
  buffer[n] = 0;
  console.at += n;
  return n > 0;
}

static void take(SEXP lines) {
  if (!console.last) {
    PROTECT(lines);
    R_PreserveObject(console.last = Rf_cons(R_NilValue, R_NilValue));
    UNPROTECT(1);
  }
  SETCAR(console.last, lines);
  console.at = 0;
}

static SEXP set_fun(SEXP fun) {
  PROTECT(fun);
  R_PreserveObject(console.fun = fun);
  UNPROTECT(1);
  if (console.last) take(R_NilValue);
  return R_NilValue;
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
  if (!*rest()) {
    SEXP call = PROTECT(call_for(prompt)), lines;
    int failed = 0;
    lines = R_tryEvalSilent(call, R_BaseEnv, &failed);
    take(failed ? R_NilValue : lines);
    UNPROTECT(1);
  }
  return give_rest(buffer, size);
}

static void say_nothing(int busy) { (void)busy; }
static void do_nothing(void) {}

/* From now on R's console is this: `fun` gets a prompt and gives a line, output goes to the copy's
 * file. R is interactive, as it is where the session is. */
SEXP ffi_frozen_console(SEXP fun) {
  set_fun(fun);
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

/* The task is about to ask for a line. What it has printed before, as text, comes with that. */
SEXP ffi_console_begin(void) {
  if (!clu_me.browsing) {
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
  return clu_relay_take_output();
}

/* An interrupt of what waits for the line ends the task: nothing catches it here. */
static int read_in_task(const char *prompt, unsigned char *buffer, int size, int history) {
  (void)history;
  if (!*rest()) {
    SEXP call;
    if (!console.browses || clu_me.task != CLU_TASK_RELAYED || clu_me.forked) return 0;
    if (strncmp(prompt, "Browse[", 7) != 0) return 0; /* other code reads from stdin() */
    call = PROTECT(call_for(prompt));
    take(Rf_eval(call, R_BaseEnv));
    UNPROTECT(1);
  }
  return give_rest(buffer, size);
}

int clu_console_browse(int browses) {
  console.browses = browses;
  if (!browses || console.is_hooked) return browses;
  console.is_hooked = 1;
  set_fun(clu_node_r("line_reader", R_NilValue));
  ptr_R_ReadConsole = read_in_task;
  R_NoEcho = FALSE; /* or R makes no prompts */
  return 1;
}

void clu_console_end_task(void) {
  SEXP call;
  int failed;
  if (console.last) take(R_NilValue);
  if (!clu_me.browsing) return;
  clu_me.browsing = 0;
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

SEXP ffi_console_begin(void) { return R_NilValue; }

int clu_console_browse(int browses) {
  (void)browses;
  return 0;
}

void clu_console_end_task(void) {}

#endif
