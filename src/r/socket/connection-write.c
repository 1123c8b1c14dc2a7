/* Writing to sockets as R's connections.
 *
 * serialize() to a connection writes number by number. That is collected here and sent as one
 * message when the object is whole. core/base/object-end.h follows the bytes to the end. Where R
 * code may be called meanwhile, the message leaves when serialize() returns.
 */
#include "r/socket/connection.h"

#include <R_ext/Riconv.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define HELD 65536u

/* .Call(ffi_connection_uncork, handle, returnValue(handle)): no function returns the handle, so
 * that is what comes where there is no value. */
static SEXP uncork_call(SEXP handle) {
  SEXP value = PROTECT(Rf_lang2(Rf_findFun(Rf_install("returnValue"), R_BaseEnv), handle));
  SEXP call = clu_own_call("ffi_connection_uncork", handle, value);
  UNPROTECT(1);
  return call;
}

/* serialize() writes an object in pieces of 4 and 8 bytes, each of which would be a packet. (For
 * its own sockets R collects them, but goes by their class.) The first two bytes tell that it
 * begins. If it is base's serialize() or saveRDS(), what is written is held back until the object
 * is whole. That the bytes tell (core/base/object-end.h). Where they do not, or where other code
 * may be called before the end and raise an error, it is when the frame of serialize() is left,
 * which calls ffi_connection_uncork(). When it is left by a jump and nothing has gone, nothing
 * does. */
enum { NOT_CORKED, UNTIL_OBJECT_ENDS, UNTIL_FRAME_IS_LEFT };

static void cork_until_left(conn *c, SEXP frame) {
  /* first, since it may jump, and then nothing would uncork */
  clu_on_exit(frame, c->handle, uncork_call, CLU_ON_EXIT_UNCORK);
  c->corked = UNTIL_FRAME_IS_LEFT;
}

static void cork(conn *c) {
  SEXP frame = PROTECT(clu_calling_frame());
  int serializes = clu_serializes(frame);
  c->corked = NOT_CORKED;
  c->held_n = 0;
  c->out_before = c->s->bytes_out;
  if (serializes && clu_serializes_alone(frame)) {
    c->corked = UNTIL_OBJECT_ENDS;
    memset(&c->end, 0, sizeof c->end);
  } else if (serializes) {
    cork_until_left(c, frame);
  }
  UNPROTECT(1);
}

/* Its end will not be known, or not before something has to leave. */
static void follow_no_more(conn *c) {
  cork_until_left(c, PROTECT(clu_calling_frame()));
  UNPROTECT(1);
}

static void send_held(conn *c) {
  size_t n = c->held_n;
  c->held_n = 0;
  clu_socket_put_all(c->s, c->held, n);
}

/* Nothing more of the object leaves. If a part has, the peer sees an end, not half an object and
 * then another. */
static void cut_short(conn *c) {
  if (c->s->bytes_out != c->out_before) clu_sock_shutdown(c->s, CLU_WRITE, NULL);
}

static SEXP send_held_of(void *c) {
  send_held(c);
  return R_NilValue;
}

static void cut_on_jump(void *c, Rboolean jump) {
  if (jump) cut_short(c);
}

/* The object is whole: what was held of it is all of it, or the rest. */
static void send_last(conn *c) { R_UnwindProtect(send_held_of, c, cut_on_jump, c, NULL); }

/* 0: there is no room, and what was held has left. */
static int hold(conn *c, const void *from, size_t n) {
  if (!c->held) {
    c->held = malloc(HELD);
    if (!c->held) {
      c->corked = NOT_CORKED;
      clu_raise("memory", "not enough memory");
    }
  }
  if (c->held_n + n > HELD) {
    if (c->corked == UNTIL_OBJECT_ENDS) follow_no_more(c);
    send_held(c);
    if (n > HELD / 4) return 0;
  }
  memcpy(c->held + c->held_n, from, n);
  c->held_n += n;
  if (c->corked != UNTIL_OBJECT_ENDS) return 1;
  switch (clu_object_look(&c->end, c->held, c->held_n)) {
  case CLU_OBJECT_GOES_ON: break;
  case CLU_OBJECT_ENDS:
    c->corked = NOT_CORKED;
    send_last(c);
    break;
  default: follow_no_more(c);
  }
  return 1;
}

/* An object begins where none is under way, or where one was given up for want of memory: of one
 * that goes on a number would come, or bytes of which the number is known. */
static int begins(const conn *c, const unsigned char *p, size_t n) {
  if (n != 2 || c->con->text || p[1] != '\n' || (p[0] != 'X' && p[0] != 'B')) return 0;
  return c->corked == NOT_CORKED ||
         (c->corked == UNTIL_OBJECT_ENDS && !clu_object_in_data(&c->end, c->held_n));
}

size_t clu_con_write(const void *from, size_t size, size_t n, Rconnection con) {
  conn *c = clu_conn_of(con);
  size_t all = size * n;
  if (begins(c, from, all)) cork(c);
  if (!c->corked || !hold(c, from, all)) clu_socket_put_all(c->s, from, all);
  return n;
}

/* serialize() has been left: by its end if it has a value. */
SEXP ffi_connection_uncork(SEXP handle, SEXP value) {
  conn *c = R_ExternalPtrAddr(handle);
  if (!c || c->corked != UNTIL_FRAME_IS_LEFT) return R_NilValue;
  c->corked = NOT_CORKED;
  if (!c->s) return R_NilValue;
  if (value != handle)
    send_last(c);
  else
    cut_short(c);
  return R_NilValue;
}

int clu_con_vfprintf(Rconnection con, const char *format, va_list ap) {
  conn *c = clu_conn_of(con);
  va_list aq;
  int n;
  va_copy(aq, ap);
  n = vsnprintf(c->text, c->text_cap, format, aq);
  va_end(aq);
  if (n >= 0 && (size_t)n >= c->text_cap) {
    if (!clu_con_room(&c->text, &c->text_cap, (size_t)n + 1))
      clu_raise("memory", "not enough memory");
    n = vsnprintf(c->text, c->text_cap, format, ap);
  }
  if (n <= 0) return n;
  if (!con->outconv) {
    clu_con_write(c->text, 1, (size_t)n, con);
  } else {
    const char *in = c->text;
    size_t in_n = (size_t)n, used = c->init_n;
    int bad = 0;
    if (!clu_con_room(&c->conv, &c->conv_cap, 256 + (size_t)n))
      clu_raise("memory", "not enough memory");
    memcpy(c->conv, c->init_out, c->init_n);
    while (in_n && !bad) {
      char *out = c->conv + used;
      size_t out_n = c->conv_cap - used;
      errno = 0;
      if (Riconv(con->outconv, &in, &in_n, &out, &out_n) == (size_t)-1) {
        if (errno == E2BIG) {
          used = c->conv_cap - out_n;
          if (!clu_con_room(&c->conv, &c->conv_cap, 2 * c->conv_cap))
            clu_raise("memory", "not enough memory");
          continue;
        }
        Riconv(con->outconv, NULL, NULL, NULL, NULL);
        bad = 1;
      }
      used = c->conv_cap - out_n;
    }
    c->init_n = 0;
    clu_con_write(c->conv, 1, used, con);
    if (bad) Rf_warning("invalid char string in output conversion");
  }
  return n;
}
