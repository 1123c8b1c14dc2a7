/* Sockets as R's connections.
 *
 * R_new_custom_connection() gives a place in R's table and default functions; what differs is set
 * here. Ownership: the connection owns a `conn`, that owns the clu_sock; R calls destroy() when the
 * connection is closed or collected. A connection object in R carries its conn_id, an external
 * pointer that R has made; its protected value is a pointer of ours, the *handle*, which leads to
 * the `conn` and is cleared when that goes. So an object of a closed connection is never taken for
 * the one that has its number now.
 *
 * The conversion of encodings is done here and not by R's dummy_fgetc(): that takes a momentary
 * lack of input for the end until R 4.4 (PR#18555), and reads ahead where it would have to wait.
 *
 * Reading is in connection-read.c, writing in connection-write.c.
 */
#include "r/socket/connection.h"

#include <R_ext/Riconv.h>
#include <stdlib.h>
#include <string.h>

/* ---- life ---- */

static void con_close(Rconnection con) {
  conn *c = con->private;
  con->isopen = FALSE;
  if (!c || !c->s) return;
  clu_sock_free(
      c->s); /* close.clutch_socket() has waited before, if there was something to wait for */
  c->s = NULL;
}

static void con_destroy(Rconnection con) {
  conn *c = con->private;
  con->private = NULL;
  if (!c) return;
  R_ClearExternalPtr(c->handle);
  clu_sock_free(c->s);
  free(c->text);
  free(c->conv);
  free(c->held);
  free(c->front);
  free(c);
}

static int converts(const char *name) { return name[0] && strcmp(name, "native.enc") != 0; }

/* Does as R's set_iconv(), which packages cannot call. R closes the converters with the
 * connection. */
static int set_converters(Rconnection con, conn *c) {
  const char *name = con->encname;
  void *cv;
  char *out = c->init_out;
  size_t n = sizeof c->init_out;
  memset(&c->d, 0, sizeof c->d);
  if (con->inconv) Riconv_close(con->inconv);
  if (con->outconv) Riconv_close(con->outconv);
  con->inconv = con->outconv = NULL;
  c->init_n = 0;
  if (con->text && converts(name)) {
    if (strcmp(name, "UCS-2LE") == 0 || strcmp(name, "UTF-16LE") == 0) c->d.bom = BOM_16;
    if (strcmp(name, "UTF-8-BOM") == 0) {
      c->d.bom = BOM_8;
      name = "UTF-8";
    }
    cv = Riconv_open("", name);
    if (cv == (void *)-1) return 0;
    con->inconv = cv;
    cv = Riconv_open(name, "");
    if (cv == (void *)-1) return 0;
    con->outconv = cv;
    Riconv(cv, NULL, NULL, &out, &n);
    c->init_n = sizeof c->init_out - n;
  }
  c->kept = c->d;
  return 1;
}

static int has_characters(const void *c) {
  const decoder *d = &((const conn *)c)->d;
  return d->at < d->n;
}

static int begins(Rconnection con, conn *c, clu_sock *s) {
  size_t n = strlen(con->mode);
  SEXP kept = TAG(R_ExternalPtrProtected(c->handle));
  c->s = s;
  s->has_ahead = has_characters;
  s->around = c;
  clu_con_forget(c);
  if (kept != R_NilValue) SET_VECTOR_ELT(kept, CLU_SUMMARY, R_NilValue);
  con->text = !(n >= 2 && con->mode[n - 1] == 'b');
  con->UTF8out = FALSE;
  con->isopen = TRUE;
  con->incomplete = FALSE;
  return s->listening || set_converters(con, c);
}

/* R's open() of a connection made with open = "", or readLines() and its variants on one. */
static Rboolean con_open(Rconnection con) {
  conn *c = con->private;
  SEXP opener = c ? CAR(R_ExternalPtrProtected(c->handle)) : R_NilValue, call, handle;
  clu_sock *s;
  if (!Rf_isFunction(opener)) clu_raise("argument", "this connection cannot be opened again");
  call = PROTECT(Rf_lang1(opener));
  handle = PROTECT(Rf_eval(call, R_BaseEnv)); /* raises what goes wrong */
  s = clu_socket_release(handle);
  UNPROTECT(2);
  if (!s) return FALSE;
  return begins(con, c, s) ? TRUE : FALSE;
}

/* Raises where there is no such encoding. */
static void check_encoding(const char *name) {
  void *cv;
  if (strlen(name) > 100) clu_raise("argument", "invalid 'encoding' argument");
  if (!converts(name)) return;
  cv = Riconv_open("", strcmp(name, "UTF-8-BOM") == 0 ? "UTF-8" : name);
  if (cv == (void *)-1)
    clu_raise("argument", "conversion from encoding '%s' is not supported here", name);
  Riconv_close(cv);
}

SEXP clu_connection_new(clu_sock *s, const clu_connection_args *a, SEXP opener) {
  Rconnection con;
  SEXP ans, self;
  conn *c;
  check_encoding(a->encoding); /* before anything is made */
  self =
      PROTECT(R_MakeExternalPtr(NULL, clu_connection_tag(), PROTECT(Rf_cons(opener, R_NilValue))));
  ans = PROTECT(R_new_custom_connection(a->description, a->open, a->class, &con));
  c = calloc(1, sizeof *c);
  if (!c) clu_raise("memory", "not enough memory");
  con->private = c;
  c->con = con;
  con->destroy = con_destroy;
  con->close = con_close;
  c->handle = self;
  R_SetExternalPtrAddr(self, c);
  R_SetExternalPtrProtected((SEXP)con->ex_ptr, self);
  con->blocking = a->blocking;
  strncpy(con->encname, a->encoding, sizeof con->encname - 1);
  con->encname[sizeof con->encname - 1] = 0;
  con->open = con_open;
  if (strcmp(a->class, "clutch_socket") == 0) {
    con->fgetc = clu_con_fgetc;
    con->fgetc_internal = clu_con_fgetc;
    con->read = clu_con_read;
    con->write = clu_con_write;
    con->vfprintf = clu_con_vfprintf;
  }
  if (s && !begins(con, c, s)) {
    s->has_ahead = NULL;
    c->s = NULL; /* it is still the caller's */
    clu_raise("argument", "conversion to encoding '%s' is not supported", a->encoding);
  }
  if (s) s->slot = Rf_asInteger(ans);
  UNPROTECT(3);
  return ans;
}

/* Returns what summary() of base says of an open connection of this package: made once each time
 * that it is opened, since nothing of it changes before it is closed. NULL of all else. serialize()
 * asks for it whenever it is called, and base R takes longer for it than for a small object. */
SEXP ffi_connection_summary(SEXP x) {
  SEXP handle = clu_handle_of(x), kept, says;
  conn *c;
  if (handle == R_NilValue || R_ExternalPtrTag(handle) != clu_connection_tag()) return R_NilValue;
  c = R_ExternalPtrAddr(handle);
  if (!c || !c->con->isopen) return R_NilValue;
  kept = clu_kept(handle);
  says = VECTOR_ELT(kept, CLU_SUMMARY);
  if (says == R_NilValue) {
    SEXP call = PROTECT(Rf_lang2(Rf_install("summary.connection"), x));
    says = PROTECT(Rf_eval(call, R_BaseNamespace));
    MARK_NOT_MUTABLE(says);
    SET_VECTOR_ELT(kept, CLU_SUMMARY, says);
    UNPROTECT(2);
  }
  return says;
}

/* `handle`: of a socket, or NULL. `opener`: a function without arguments that returns one. */
SEXP ffi_connection_new(SEXP handle, SEXP description, SEXP class, SEXP mode, SEXP blocking,
                        SEXP encoding, SEXP opener) {
  clu_connection_args a;
  SEXP x, ans;
  a.description = Rf_translateChar(STRING_ELT(description, 0));
  a.class = CHAR(STRING_ELT(class, 0));
  a.open = CHAR(STRING_ELT(mode, 0));
  a.encoding = CHAR(STRING_ELT(encoding, 0));
  a.blocking = Rf_asLogical(blocking) == TRUE;
  if (handle == R_NilValue) return clu_connection_new(NULL, &a, opener);
  x = clu_socket_pointer(handle);
  if (x == R_NilValue || !R_ExternalPtrAddr(x)) clu_raise("argument", "the handle has no socket");
  ans = clu_connection_new(R_ExternalPtrAddr(x), &a, opener);
  R_ClearExternalPtr(x);
  return ans;
}
