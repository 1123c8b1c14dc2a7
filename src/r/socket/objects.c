/* Entry points that write and read one R object, for socket_send() and socket_receive(): the bytes
 * of serialize(), without a connection of R around the socket.
 *
 * An object of up to HELD bytes leaves as a whole or not at all. Of a larger one parts leave while
 * the rest is serialized: neither end needs the memory for it twice. What has been read of an
 * object goes back to the socket's buffer when the call is given up, as long as it is not more than
 * CLU_SOCK_KEEP.
 */
#include "r/serialize/serialize.h"
#include "r/socket/socket.h"

#include <string.h>

#define HELD 65536u
#define LARGE 32768u /* bytes that are not worth a copy */

/* ---- out ---- */

typedef struct {
  clu_sock *s;
  clu_blob *b; /* what has not left yet */
  SEXP x;
  uint64_t bytes_out; /* of the socket, before */
} sending;

static void flush(sending *o) {
  size_t n = o->b->size;
  o->b->size = 0;
  if (n) clu_socket_put_all(o->s, o->b->data, n);
}

static void out_bytes(R_outpstream_t stream, void *from, int n) {
  sending *o = (sending *)stream->data;
  if ((size_t)n > LARGE || o->b->size + (size_t)n > HELD) flush(o);
  if ((size_t)n > LARGE)
    clu_socket_put_all(o->s, from, (size_t)n);
  else if (clu_blob_append(o->b, from, (size_t)n) != 0)
    clu_raise("memory", "not enough memory");
}

static void out_char(R_outpstream_t stream, int c) {
  char ch = (char)c;
  out_bytes(stream, &ch, 1);
}

static SEXP send_object(void *data) {
  sending *o = data;
  struct R_outpstream_st out;
  if (!clu_plain_put(o->b, o->x)) {
    R_InitOutPStream(&out, (R_pstream_data_t)o, R_pstream_binary_format, 3, out_char, out_bytes,
                     NULL, R_NilValue);
    R_Serialize(o->x, &out);
  }
  flush(o);
  return R_NilValue;
}

static void sent(void *data, Rboolean jump) {
  sending *o = data;
  clu_blob_unref(o->b);
  /* the peer sees an end, not half an object and then another */
  if (jump && o->s->bytes_out != o->bytes_out) clu_sock_shutdown(o->s, CLU_WRITE, NULL);
}

SEXP ffi_socket_send(SEXP x, SEXP object) {
  sending o;
  memset(&o, 0, sizeof o);
  if (!Rf_inherits(x, "clutch_socket")) clu_invalid("socket");
  o.s = clu_socket_of(x, 1);
  o.x = object;
  o.bytes_out = o.s->bytes_out;
  o.b = clu_blob_new(512);
  if (!o.b) clu_raise("memory", "not enough memory");
  return R_UnwindProtect(send_object, &o, sent, &o, NULL);
}

/* ---- in ---- */

typedef struct {
  clu_sock *s;
  size_t taken;
  int lost; /* more has been taken than is kept */
} receiving;

/* Waits until bytes have come, in the buffer or with `n` > 0 at `to`. Returns how many came
 * there.
 */
static size_t more(receiving *r, void *to, size_t n) {
  clu_sock *s = r->s;
  uint64_t deadline = clu_deadline_ns(s->timeout_ns);
  if (s->pos - s->mark > CLU_SOCK_KEEP) r->lost = 1;
  if (r->lost) clu_sock_keep(s);
  for (;;) {
    clu_err e = {0, 0, ""};
    size_t got = 0;
    int rc = n && r->lost ? clu_sock_get(s, to, n, &got, &e) : clu_sock_fill(s, &e);
    if (rc == CLU_OK) {
      clu_check_interrupt(NULL, NULL);
      return got;
    }
    if (rc == CLU_EOF) {
      char at[2 * CLU_ADDR_TEXT + 8];
      clu_fail(&e, CLU_EOF, 0, "%s: the peer has shut down its direction%s",
               clu_sock_text(s, at, sizeof at), r->taken ? " in the middle of an object" : "");
    }
    if (rc != CLU_AGAIN) clu_raise_socket(s, &e, -1);
    if (!clu_socket_ready(s, CLU_READ, deadline, NULL, NULL))
      clu_raise_timeout(
          s, r->lost ? "what the call had taken is lost; nothing has come" : "nothing has come",
          (double)s->timeout_ns / 1e9, -1);
  }
}

static int in_bytes(void *data, void *to, size_t n) {
  receiving *r = data;
  char *p = to;
  while (n) {
    size_t k = clu_sock_take(r->s, p, n);
    if (!k) k = more(r, p, n >= LARGE ? n : 0);
    p += k;
    n -= k;
    r->taken += k;
  }
  return CLU_OK;
}

static SEXP receive_object(void *data) { return clu_unserialize_from(in_bytes, data, NULL); }

static void received(void *data, Rboolean jump) {
  receiving *r = data;
  if (!jump) return;
  clu_sock_undo(r->s);
  if (r->lost) r->s->torn = 1;
}

SEXP ffi_socket_receive(SEXP x) {
  receiving r;
  SEXP out;
  memset(&r, 0, sizeof r);
  if (!Rf_inherits(x, "clutch_socket")) clu_invalid("socket");
  r.s = clu_socket_of(x, 1);
  clu_raise_if_torn(r.s);
  clu_sock_keep(r.s);
  out = PROTECT(R_UnwindProtect(receive_object, &r, received, &r, NULL));
  clu_sock_keep(r.s);
  clu_sock_trim(r.s);
  UNPROTECT(1);
  return out;
}
