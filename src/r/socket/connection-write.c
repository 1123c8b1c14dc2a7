/* Writing to sockets as R's connections. */
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
 * begins. If it is base's serialize() or saveRDS(), its frame calls ffi_connection_uncork() when it
 * is left: until then what is written is held back. When it is left by a jump and nothing has gone,
 * nothing does. */
static int cork(conn *c) {
  SEXP frame = PROTECT(clu_calling_frame());
  int yes = clu_serializes(frame);
  if (yes) clu_on_exit(frame, c->handle, uncork_call, CLU_ON_EXIT_UNCORK);
  UNPROTECT(1);
  return yes;
}

size_t clu_con_write(const void *from, size_t size, size_t n, Rconnection con) {
  conn *c = clu_conn_of(con);
  size_t all = size * n;
  if (!c->corked && all == 2 && !con->text &&
      (memcmp(from, "X\n", 2) == 0 || memcmp(from, "B\n", 2) == 0)) {
    c->held_n = c->cork_sent = 0;
    c->corked = cork(c);
  }
  if (c->corked) {
    if (!c->held) {
      c->held = malloc(HELD);
      if (!c->held) clu_raise("memory", "not enough memory");
      c->held_cap = HELD;
    }
    if (c->held_n + all <= c->held_cap) {
      memcpy(c->held + c->held_n, from, all);
      c->held_n += all;
      return n;
    }
    c->cork_sent = 1;
    clu_socket_put_all(c->s, c->held, c->held_n);
    c->held_n = 0;
    if (all <= HELD / 4) {
      memcpy(c->held, from, all);
      c->held_n = all;
      return n;
    }
  }
  clu_socket_put_all(c->s, from, all);
  return n;
}

/* serialize() has been left: by its end if it has a value. */
SEXP ffi_connection_uncork(SEXP handle, SEXP value) {
  conn *c = R_ExternalPtrAddr(handle);
  size_t n;
  if (!c || !c->corked) return R_NilValue;
  c->corked = 0;
  n = c->held_n;
  c->held_n = 0;
  if (!c->s) return R_NilValue;
  if (value != handle)
    clu_socket_put_all(c->s, c->held, n);
  else if (c->cork_sent)
    clu_sock_shutdown(c->s, CLU_WRITE, NULL);
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
