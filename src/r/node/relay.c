/* This file is for what a task prints and signals. It is kept in a log that travels with the
 * result, or is sent at once where the job wants that. Order is kept: output is put into the log,
 * or is sent, before each condition.
 *
 * src/r/base/condition.c signals the conditions of warning("text") and message("text") in the
 * session, and muffles them in the node.
 */
#include "r/node/node.h"

#include <R_ext/Connections.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/grow.h"
#include "core/base/os.h"

#if R_CONNECTIONS_VERSION != 1
#error "another version of R's connections"
#endif

#define MOST_CALL 10000      /* objects in a condition's call: a larger one has data in it */
#define MOST_TEXT 1000000000 /* bytes of output in one string */

/* Preserved: a pairlist and its last cell, and the connection that collects output. */
enum { LOG, LAST, OUTPUT, N_KEPT };

static struct {
  SEXP kept;
  char *out; /* output that is not in the log yet */
  size_t n, cap;
  int open;    /* the connection: user's code may close it */
  int reached; /* R has printed to it */
  int muted;   /* so many times: what is printed there is nobody's */
} relay;

static SEXP keep(int which, SEXP x) { return clu_keep_in(&relay.kept, N_KEPT, which, x); }

static SEXP kept(int which) { return clu_kept_in(relay.kept, which); }

static void send_at_once(unsigned char what, const void *p, size_t n) {
  clu_blob *b = clu_blob_new(n + 1);
  if (!b) return;
  clu_me.has_relayed = 1;
  clu_blob_append(b, &what, 1);
  clu_blob_append(b, p, n);
  if (clu_chan_send(&clu_me.chan, CLU_K_RELAY, clu_me.seq, b, CLU_NO_FD) == CLU_OK)
    while (clu_chan_flush(&clu_me.chan) == CLU_AGAIN) continue;
  clu_blob_unref(b);
}

static void log_entry(SEXP x) {
  SEXP cell = PROTECT(Rf_cons(x, R_NilValue));
  if (kept(LOG) == R_NilValue)
    keep(LOG, cell);
  else
    SETCDR(kept(LAST), cell);
  keep(LAST, cell);
  UNPROTECT(1);
}

/* Moves collected output to the log, or sends it. The buffer is taken first: a finalizer that runs
 * meanwhile may print, and that comes later. */
static void flush_output(void) {
  size_t n = relay.n, at = 0;
  char *out = relay.out;
  if (n == 0) return;
  if (clu_me.relay_at_once) {
    relay.n = 0;
    send_at_once(0, out, n);
    return;
  }
  relay.out = NULL;
  relay.n = relay.cap = 0;
  for (; at < n; at += MOST_TEXT) {
    int part = (int)(n - at < MOST_TEXT ? n - at : MOST_TEXT);
    log_entry(PROTECT(Rf_ScalarString(Rf_mkCharLenCE(out + at, part, CE_NATIVE))));
    UNPROTECT(1);
  }
  free(out);
}

void clu_relay_drop(void) {
  relay.n = 0;
  if (kept(LOG) == R_NilValue) return;
  keep(LOG, R_NilValue);
  keep(LAST, R_NilValue);
}

/* Tells whether `x` holds more than a call as somebody writes it: a function, or more than `*left`
 * objects. */
static int is_large(SEXP x, int *left) {
  for (; TYPEOF(x) == LANGSXP || TYPEOF(x) == LISTSXP; x = CDR(x))
    if (--*left < 0 || is_large(CAR(x), left)) return 1;
  if (TYPEOF(x) == CLOSXP) return 1;
  if (Rf_isVectorAtomic(x)) *left -= (int)(XLENGTH(x) < MOST_CALL ? XLENGTH(x) : MOST_CALL);
  if (TYPEOF(x) == STRSXP)
    for (R_xlen_t i = 0; i < XLENGTH(x) && *left > 0; i++) *left -= LENGTH(STRING_ELT(x, i)) / 10;
  if (TYPEOF(x) == VECSXP || TYPEOF(x) == EXPRSXP)
    for (R_xlen_t i = 0; i < XLENGTH(x); i++)
      if (--*left < 0 || is_large(VECTOR_ELT(x, i), left)) return 1;
  return *left < 0;
}

/* The call of a condition may hold the data that a function was given, as with do.call(), and a
 * task may signal thousands of them. Of such a call only the function's name is kept. */
static SEXP without_data(SEXP cond) {
  SEXP names = TYPEOF(cond) == VECSXP ? Rf_getAttrib(cond, R_NamesSymbol) : R_NilValue, call, fun;
  R_xlen_t i = 0;
  int left = MOST_CALL;
  while (i < Rf_xlength(names) && strcmp(CHAR(STRING_ELT(names, i)), "call") != 0) i++;
  if (i >= Rf_xlength(names) || !is_large(call = VECTOR_ELT(cond, i), &left)) return cond;
  fun = TYPEOF(call) == LANGSXP && TYPEOF(CAR(call)) == SYMSXP ? CAR(call) : R_NilValue;
  cond = PROTECT(Rf_shallow_duplicate(cond));
  SET_VECTOR_ELT(cond, i, fun == R_NilValue ? fun : Rf_lang1(fun));
  UNPROTECT(1);
  return cond;
}

SEXP ffi_work_slim(SEXP cond) { return without_data(cond); }

/* Takes a condition of the task at hand. `now`: it is to be sent at once. FALSE: no task is
 * evaluated whose conditions are wanted. */
SEXP ffi_work_log(SEXP cond, SEXP now) {
  if (clu_me.task != CLU_TASK_RELAYED) return Rf_ScalarLogical(FALSE);
  flush_output();
  cond = PROTECT(without_data(cond));
  if (clu_me.relay_at_once || Rf_asLogical(now) == TRUE) {
    clu_blob *b = clu_serialize(NULL, cond);
    send_at_once(1, b->data, b->size);
    clu_blob_unref(b);
  } else {
    log_entry(cond);
  }
  UNPROTECT(1);
  return Rf_ScalarLogical(TRUE);
}

/* Does the same of a message, which is then muffled. TRUE: as that of ffi_work_warning(). */
SEXP ffi_work_message(SEXP cond) {
  SEXP taken, no = PROTECT(Rf_ScalarLogical(FALSE));
  taken = ffi_work_log(cond, no);
  UNPROTECT(1);
  if (Rf_asLogical(taken)) clu_muffle("muffleMessage");
  return taken;
}

/* Does the same of a warning, which is then muffled. Where options(warn =) makes it nothing, or an
 * error, R sees to that, and in the session only handlers see it. TRUE: a restart other than the
 * usual one is to muffle it. */
SEXP ffi_work_warning(SEXP cond) {
  int level = clu_warn_level(), is_quiet = level < 0 || level >= 2;
  SEXP x = cond, taken, no;
  if (is_quiet) {
    x = PROTECT(Rf_allocVector(VECSXP, 1));
    SET_VECTOR_ELT(x, 0, cond);
    Rf_setAttrib(x, R_ClassSymbol, PROTECT(Rf_mkString("clutch_quiet")));
    UNPROTECT(2);
  }
  PROTECT(x);
  no = PROTECT(Rf_ScalarLogical(FALSE));
  taken = ffi_work_log(x, no);
  UNPROTECT(2);
  if (!Rf_asLogical(taken) || level >= 2) return no;
  clu_muffle("muffleWarning");
  return taken;
}

/* Strings of R have no byte that is 0; what C code prints may have some, which are left out. */
static size_t copy_text(char *to, const char *from, size_t n) {
  size_t k = 0;
  for (size_t i = 0; i < n; i++)
    if (from[i]) to[k++] = from[i];
  return k;
}

/* No R API in these: R calls them while it prints. */
static size_t relay_write(const void *p, size_t size, size_t n, Rconnection con) {
  size_t bytes = size * n;
  char *more;
  (void)con;
  if (bytes == 0 || relay.muted) return n;
  if (!(more = clu_grow(relay.out, &relay.cap, relay.n + bytes, 1))) return 0;
  relay.out = more;
  relay.n += copy_text(relay.out + relay.n, p, bytes);
  if (clu_me.relay_at_once && clu_me.task && memchr(p, '\n', bytes)) {
    send_at_once(0, relay.out, relay.n);
    relay.n = 0;
  }
  return n;
}

SEXP clu_relay_take_output(void) {
  size_t n = relay.n < MOST_TEXT ? relay.n : MOST_TEXT;
  SEXP x = PROTECT(Rf_ScalarString(Rf_mkCharLenCE(n ? relay.out : "", (int)n, CE_NATIVE)));
  relay.n = 0;
  UNPROTECT(1);
  return x;
}

void clu_relay_mute(int by) { relay.muted += by; }

void clu_relay_print(const char *text, size_t n) { relay_write(text, 1, n, NULL); }

/* This is printed to see where it arrives: a text of no length. */
static const char nothing[] = "%s";

static int relay_vfprintf(Rconnection con, const char *format, va_list ap) {
  char few[512], *text = few;
  va_list again;
  int n;
  relay.reached = 1;
  if (format == nothing) return 0;
  va_copy(again, ap);
  n = vsnprintf(few, sizeof few, format, ap);
  if (n >= (int)sizeof few && (text = malloc((size_t)n + 1)))
    vsnprintf(text, (size_t)n + 1, format, again);
  va_end(again);
  if (n > 0 && text) relay_write(text, 1, (size_t)n, con);
  if (text != few) free(text);
  return n;
}

static Rboolean relay_open(Rconnection con) {
  con->isopen = TRUE;
  return TRUE;
}

static void relay_close(Rconnection con) {
  con->isopen = FALSE;
  relay.open = 0;
}

int clu_relay_is_open(void) { return relay.open; }

/* R prints to the last sink, and to the one below where that is split. So this asks for the only
 * thing about sinks that matters to the next task, in a fifth of the time that sink.number()
 * takes. */
int clu_relay_try_to_reach(void) {
  relay.reached = 0;
  Rprintf(nothing, "");
  return relay.reached;
}

/* The connection that collects what tasks print. When user's code has closed it, as
 * closeAllConnections() does, a new one: its number may be another connection's by then. */
SEXP ffi_work_output(void) {
  Rconnection con;
  SEXP x;
  if (relay.open) return kept(OUTPUT);
  x = PROTECT(R_new_custom_connection("output of tasks", "w", "clutch_relay", &con));
  con->open = relay_open;
  con->close = relay_close;
  con->write = relay_write;
  con->vfprintf = relay_vfprintf;
  con->isopen = con->canwrite = TRUE;
  con->canread = FALSE;
  con->text = TRUE;
  relay.open = 1;
  keep(OUTPUT, x);
  UNPROTECT(1);
  return x;
}

SEXP clu_relay_take(void) {
  SEXP log;
  flush_output();
  log = kept(LOG);
  if (log == R_NilValue) return log;
  log = PROTECT(Rf_PairToVectorList(log));
  keep(LOG, R_NilValue);
  keep(LAST, R_NilValue);
  UNPROTECT(1);
  return log;
}
