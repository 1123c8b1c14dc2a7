/* Sockets as R's connections.
 *
 * R_new_custom_connection() gives a place in R's table and default functions; what differs is set here.
 * Ownership: the connection owns a `conn`, that owns the clu_sock; R calls destroy() when the connection
 * is closed or collected. A connection object in R carries its conn_id, an external pointer that R
 * has made; its protected value is a pointer of ours, the *shell*, which leads to the `conn` and is
 * cleared when that goes. So an object of a closed connection is never taken for the one that has its
 * number now.
 *
 * The conversion of encodings is done here and not by R's dummy_fgetc(): that takes a momentary lack of
 * input for the end until R 4.4 (PR#18555), and reads ahead where it would have to wait.
 *
 * Reading is in r/socket/connection-read.c. A write that has begun is not interrupted for GRACE.
 */
#include "r/socket/connection.h"

#include <R_ext/Riconv.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const uint64_t GRACE = 2000000000; /* ns that Ctrl-C waits for the rest of a message */
#define HELD 65536u

static SEXP tag(void) { return Rf_install("clutch_connection"); }

conn *clu_conn_of(Rconnection con) {
  conn *c = con->private;
  if (!c || !c->s) {
    clu_err e;
    clu_fail(&e, CLU_CLOSED, 0, "%s: this connection is not open", con->description);
    clu_raise_socket(NULL, &e, -1);
  }
  return c;
}

/* ---- writing ---- */

static void cut_short(void *s) {
  clu_sock_shutdown(s, CLU_WRITE, NULL); /* the peer sees an end, not half a message and then another */
}

static void send(conn *c, const void *from, size_t all) {
  clu_sock *s = c->s;
  size_t put = 0, k;
  uint64_t deadline = 0, grace = 0;
  while (put < all) {
    clu_err e = {0, 0, ""};
    int rc = clu_sock_put(s, (const char *)from + put, all - put, &k, &e);
    if (rc == CLU_OK) {
      put += k;
      deadline = 0;
      continue;
    }
    if (rc != CLU_AGAIN) clu_raise_socket(s, &e, (double)put);
    if (!deadline) deadline = clu_deadline_ns(s->timeout_ns);
    if (put && !grace) grace = clu_os_now() + GRACE;
    if (put && clu_os_now() < grace) {
      clu_sock_wait(s, CLU_WRITE, clu_slice(deadline));
      if (clu_slice(deadline) || clu_sock_wait(s, CLU_WRITE, 0) == CLU_OK) continue;
    } else if (clu_socket_ready(s, CLU_WRITE, deadline, put ? cut_short : NULL, s)) {
      continue;
    }
    clu_raise_timeout(s, "the peer takes nothing", (double)s->timeout_ns / 1e9, (double)put);
  }
}

/* serialize() writes an object in pieces of 4 and 8 bytes, each of which would be a packet. (For its own
 * sockets R collects them, but goes by their class.) The first two bytes tell that it begins. An R function then looks
 * whether it is base's serialize() or saveRDS(), and has its frame call ffi_connection_uncork() when it is left: until
 * then what is written is held back. When it is left by a jump and nothing has gone, nothing does. */
static int cork(conn *c) {
  static SEXP frame_of, door, none; /* R's part; its door to C; what no function returns */
  SEXP frame, value, call;
  int yes;
  if (!frame_of) {
    SEXP ns = PROTECT(R_FindNamespace(PROTECT(Rf_mkString("clutch"))));
    door = PROTECT(Rf_eval(Rf_install("ffi_connection_uncork"), ns));
    none = PROTECT(Rf_cons(R_NilValue, R_NilValue));
    R_PreserveObject(door);
    R_PreserveObject(none);
    R_PreserveObject(frame_of = Rf_eval(Rf_install("serializing_frame"), ns));
    UNPROTECT(4);
  }
  call = PROTECT(Rf_lang1(frame_of));
  frame = PROTECT(Rf_eval(call, R_BaseEnv));
  yes = TYPEOF(frame) == ENVSXP;
  if (yes) { /* on.exit(.Call(ffi_connection_uncork, shell, returnValue(none), none), TRUE) */
    value = PROTECT(Rf_lang2(Rf_install("returnValue"), PROTECT(Rf_lang2(R_QuoteSymbol, none))));
    call = PROTECT(Rf_lang5(Rf_install(".Call"), door, c->shell, value, PROTECT(Rf_lang2(R_QuoteSymbol, none))));
    call = PROTECT(Rf_lang3(Rf_install("on.exit"), call, PROTECT(Rf_ScalarLogical(1))));
    Rf_eval(call, frame);
    UNPROTECT(6);
  }
  UNPROTECT(2);
  return yes;
}

static size_t con_write(const void *from, size_t size, size_t n, Rconnection con) {
  conn *c = clu_conn_of(con);
  size_t all = size * n;
  if (!c->corked && all == 2 && !con->text && (memcmp(from, "X\n", 2) == 0 || memcmp(from, "B\n", 2) == 0)) {
    c->held_n = c->cork_sent = 0;
    c->corked = cork(c);
  }
  if (c->corked) {
    if (!c->held) {
      c->held = malloc(HELD);
      if (!c->held) Rf_error("not enough memory");
      c->held_cap = HELD;
    }
    if (c->held_n + all <= c->held_cap) {
      memcpy(c->held + c->held_n, from, all);
      c->held_n += all;
      return n;
    }
    c->cork_sent = 1;
    send(c, c->held, c->held_n);
    c->held_n = 0;
    if (all <= HELD / 4) {
      memcpy(c->held, from, all);
      c->held_n = all;
      return n;
    }
  }
  send(c, from, all);
  return n;
}

/* serialize() has been left: by its end if it has a value. */
SEXP ffi_connection_uncork(SEXP shell, SEXP value, SEXP none) {
  conn *c = R_ExternalPtrAddr(shell);
  size_t n;
  if (!c || !c->corked) return R_NilValue;
  c->corked = 0;
  n = c->held_n;
  c->held_n = 0;
  if (!c->s) return R_NilValue;
  if (value != none)
    send(c, c->held, n);
  else if (c->cork_sent)
    cut_short(c->s);
  return R_NilValue;
}

int clu_con_room(char **p, size_t *cap, size_t n) {
  char *bigger;
  if (n <= *cap) return 1;
  bigger = realloc(*p, n);
  if (!bigger) return 0;
  *p = bigger;
  *cap = n;
  return 1;
}

static int con_vfprintf(Rconnection con, const char *format, va_list ap) {
  conn *c = clu_conn_of(con);
  va_list aq;
  int n;
  va_copy(aq, ap);
  n = vsnprintf(c->text, c->text_cap, format, aq);
  va_end(aq);
  if (n >= 0 && (size_t)n >= c->text_cap) {
    if (!clu_con_room(&c->text, &c->text_cap, (size_t)n + 1)) Rf_error("not enough memory");
    n = vsnprintf(c->text, c->text_cap, format, ap);
  }
  if (n <= 0) return n;
  if (!con->outconv) {
    con_write(c->text, 1, (size_t)n, con);
  } else {
    const char *in = c->text;
    size_t in_n = (size_t)n, used = c->init_n;
    int bad = 0;
    if (!clu_con_room(&c->conv, &c->conv_cap, 256 + (size_t)n)) Rf_error("not enough memory");
    memcpy(c->conv, c->init_out, c->init_n);
    while (in_n && !bad) {
      char *out = c->conv + used;
      size_t out_n = c->conv_cap - used;
      errno = 0;
      if (Riconv(con->outconv, &in, &in_n, &out, &out_n) == (size_t)-1) {
        if (errno == E2BIG) {
          used = c->conv_cap - out_n;
          if (!clu_con_room(&c->conv, &c->conv_cap, 2 * c->conv_cap)) Rf_error("not enough memory");
          continue;
        }
        Riconv(con->outconv, NULL, NULL, NULL, NULL);
        bad = 1;
      }
      used = c->conv_cap - out_n;
    }
    c->init_n = 0;
    con_write(c->conv, 1, used, con);
    if (bad) Rf_warning("invalid char string in output conversion");
  }
  return n;
}

/* ---- life ---- */

static void con_close(Rconnection con) {
  conn *c = con->private;
  con->isopen = FALSE;
  if (!c || !c->s) return;
  clu_sock_free(c->s); /* close.clutch_socket() has waited before, if there was something to wait for */
  c->s = NULL;
}

static void con_destroy(Rconnection con) {
  conn *c = con->private;
  con->private = NULL;
  if (!c) return;
  R_ClearExternalPtr(c->shell);
  clu_sock_free(c->s);
  free(c->text);
  free(c->conv);
  free(c->held);
  free(c->front);
  free(c);
}

static int converts(const char *name) { return name[0] && strcmp(name, "native.enc") != 0; }

/* As R's set_iconv(), which packages cannot call. R closes the converters with the connection. */
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

static int begins(Rconnection con, conn *c, clu_sock *s) {
  size_t n = strlen(con->mode);
  c->s = s;
  clu_con_forget(c);
  con->text = !(n >= 2 && con->mode[n - 1] == 'b');
  con->UTF8out = FALSE;
  con->isopen = TRUE;
  con->incomplete = FALSE;
  return s->listening || set_converters(con, c);
}

/* R's open() of a connection made with open = "", or readLines() and its kin on one. */
static Rboolean con_open(Rconnection con) {
  conn *c = con->private;
  SEXP opener = c ? CAR(R_ExternalPtrProtected(c->shell)) : R_NilValue, call, handle;
  clu_sock *s;
  if (!Rf_isFunction(opener)) Rf_error("this connection cannot be opened again");
  call = PROTECT(Rf_lang1(opener));
  handle = PROTECT(Rf_eval(call, R_BaseEnv)); /* raises what goes wrong */
  s = clu_socket_release(handle);
  UNPROTECT(2);
  if (!s) return FALSE;
  return begins(con, c, s) ? TRUE : FALSE;
}

/* A connection around the socket of `handle`; NULL: `opener` makes one when it is opened. */
SEXP ffi_connection_new(SEXP handle, SEXP description, SEXP class, SEXP mode, SEXP blocking, SEXP encoding, SEXP opener) {
  Rconnection con;
  SEXP ans, shell;
  conn *c;
  const char *enc = CHAR(STRING_ELT(encoding, 0));
  if (strlen(enc) > 100) Rf_error("invalid '%s' argument", "encoding");
  if (converts(enc)) { /* before anything is made */
    void *cv = Riconv_open("", strcmp(enc, "UTF-8-BOM") == 0 ? "UTF-8" : enc);
    if (cv == (void *)-1) clu_raise("argument", "conversion from encoding '%s' is not supported here", enc);
    Riconv_close(cv);
  }
  shell = PROTECT(R_MakeExternalPtr(NULL, tag(), PROTECT(Rf_cons(opener, R_NilValue))));
  ans = PROTECT(R_new_custom_connection(Rf_translateChar(STRING_ELT(description, 0)), CHAR(STRING_ELT(mode, 0)),
                                        CHAR(STRING_ELT(class, 0)), &con));
  c = calloc(1, sizeof *c);
  if (!c) Rf_error("not enough memory");
  con->private = c;
  c->con = con;
  con->destroy = con_destroy;
  con->close = con_close;
  c->shell = shell;
  R_SetExternalPtrAddr(shell, c);
  R_SetExternalPtrProtected((SEXP)con->ex_ptr, shell);
  con->blocking = Rf_asLogical(blocking) == TRUE;
  strncpy(con->encname, enc, sizeof con->encname - 1);
  con->encname[sizeof con->encname - 1] = 0;
  con->open = con_open;
  if (strcmp(CHAR(STRING_ELT(class, 0)), "clutch_socket") == 0) {
    con->fgetc = clu_con_fgetc;
    con->fgetc_internal = clu_con_fgetc;
    con->read = clu_con_read;
    con->write = con_write;
    con->vfprintf = con_vfprintf;
  }
  if (handle != R_NilValue) {
    clu_sock *s = clu_socket_release(handle);
    if (!s) Rf_error("the handle has no socket");
    s->slot = Rf_asInteger(ans);
    if (!begins(con, c, s)) Rf_error("conversion to encoding '%s' is not supported", enc);
  }
  UNPROTECT(3);
  return ans;
}

/* ---- from R's object to the socket ---- */

/* base R's own; the same from R 4.0 to 4.6 */
struct base_socket {
  int port, server, fd, timeout;
  char *host;
  char inbuf[4096], *from, *to;
};
struct base_listener {
  int fd, port;
};

clu_sock *clu_connection_socket(SEXP x, clu_fd *base_fd, int *pending, int *listens) {
  SEXP id = Rf_getAttrib(x, Rf_install("conn_id")), shell;
  Rconnection con;
  clu_sock_status st;
  if (TYPEOF(id) != EXTPTRSXP) return NULL;
  shell = R_ExternalPtrProtected(id);
  if (TYPEOF(shell) == EXTPTRSXP && R_ExternalPtrTag(shell) == tag()) {
    conn *c = R_ExternalPtrAddr(shell);
    if (c && c->s && pending && c->d.at < c->d.n) *pending = 1;
    return c ? c->s : NULL;
  }
  if (!base_fd || Rf_inherits(x, "clutch_socket") || Rf_inherits(x, "clutch_listener")) return NULL;
  con = R_GetConnection(x);
  if (!con->isopen || !con->private) return NULL;
  if (strcmp(con->class, "sockconn") == 0) {
    struct base_socket *b = con->private;
    *base_fd = b->fd;
    *pending = b->from < b->to;
  } else if (strcmp(con->class, "servsockconn") == 0) {
    *base_fd = ((struct base_listener *)con->private)->fd;
    *listens = 1;
  }
  /* R may change its structures: what is no socket is not taken for one */
  if (*base_fd != CLU_NO_FD && clu_os_sock_status(*base_fd, &st) != CLU_OK) *base_fd = CLU_NO_FD;
  return NULL;
}
