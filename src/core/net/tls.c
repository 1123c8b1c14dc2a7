#include "core/net/tls.h"

#include <stdlib.h>
#include <string.h>

/* Plain bytes that are encrypted before they are sent together: each call of the system costs. */
#define BATCH ((size_t)16 * CLU_TLS_RECORD)
#define OVERHEAD 64 /* more than a record adds to its bytes */
#define KEEP 4096   /* of the memory for what is to be sent, while there is nothing */

typedef struct tls_conn {
  clu_conn *s;
  const clu_tls_port *port;
  clu_tls *t;
  int ready;          /* the handshake is done */
  int finished;       /* this side has said that it has sent all */
  int more;           /* the last read has found something */
  int is_short;       /* the last read of the socket has found less than it had room for */
  int cut;            /* the other side's bytes have ended */
  size_t came;        /* bytes, in the handshake */
  unsigned char *out; /* [pos, len) is encrypted and not sent */
  size_t pos, len, cap;
} tls_conn;

/* ---- the socket ---- */

static int take(void *data, void *p, size_t n, size_t *got) {
  tls_conn *w = data;
  clu_iov iov = {p, n};
  int rc;
  if (!w->ready) {
    if (w->came == CLU_TLS_HANDSHAKE) return CLU_LIMIT;
    if (n > CLU_TLS_HANDSHAKE - w->came) iov.len = CLU_TLS_HANDSHAKE - w->came;
  }
  rc = clu_os_readv(w->s->fd, &iov, 1, got, NULL, NULL);
  w->is_short = rc == CLU_OK && *got < iov.len;
  if (rc == CLU_OK && !w->ready) w->came += *got;
  if (rc == CLU_EOF) w->cut = 1;
  return rc == CLU_EOF ? CLU_RESET : rc; /* CLU_EOF is what the other side says inside TLS */
}

/* Makes room for `n` bytes. CLU_OK or CLU_NOMEM. */
static int reserve(tls_conn *w, size_t n) {
  size_t cap = w->len + n < KEEP ? KEEP : w->len + n;
  unsigned char *out;
  if (n <= w->cap - w->len) return CLU_OK;
  if (!(out = realloc(w->out, cap))) return CLU_NOMEM;
  w->out = out;
  w->cap = cap;
  return CLU_OK;
}

static int put(void *data, const void *p, size_t n) {
  tls_conn *w = data;
  if (reserve(w, n) != CLU_OK) return CLU_NOMEM;
  memcpy(w->out + w->len, p, n);
  w->len += n;
  return CLU_OK;
}

/* Sends what the system takes. CLU_OK: nothing is left. */
static int drain(tls_conn *w) {
  while (w->pos < w->len) {
    clu_iov iov = {w->out + w->pos, w->len - w->pos};
    size_t n = 0;
    int rc = clu_os_writev(w->s->fd, &iov, 1, NULL, 0, &n);
    if (rc != CLU_OK) return rc;
    w->pos += n;
  }
  w->pos = w->len = 0;
  if (w->cap > KEEP) {
    free(w->out);
    w->out = NULL;
    w->cap = 0;
  }
  return CLU_OK;
}

/* ---- failure ---- */

/* A failure of `rc`, for which the port has no sentence. */
static int ended(tls_conn *w, int rc) {
  clu_err *e = &w->s->err;
  if (w->cut && w->ready)
    return clu_fail(e, CLU_RESET, 0, "the connection was cut: it ended without TLS's word for it");
  if (w->cut) return clu_fail(e, CLU_RESET, 0, "the connection ended in the TLS handshake");
  if (rc == CLU_LIMIT)
    return clu_fail(e, CLU_PROTO, 0, "the other side sent more than a TLS handshake has");
  return clu_fail(e, rc, 0, "%s", clu_code_text(rc));
}

/* Says what became of a call of the port. */
static int outcome(tls_conn *w, int rc) {
  clu_err *e = &w->s->err;
  if (rc == CLU_OK || rc == CLU_AGAIN || rc == CLU_EOF) return rc;
  if (e->code) {
    drain(w); /* the other side should hear why; that it cannot be told is no news */
    return e->code;
  }
  return ended(w, rc);
}

/* Says what became of sending. The other side may have said why before it closed. */
static int sent(tls_conn *w, int rc) {
  unsigned char dropped[64];
  size_t n;
  if (rc == CLU_OK || rc == CLU_AGAIN) return rc;
  for (int i = 0; rc == CLU_RESET && i < 1024; i++)
    if (w->port->read(w->t, dropped, sizeof dropped, &n, &w->s->err) != CLU_OK) break;
  return w->s->err.code ? w->s->err.code : ended(w, rc);
}

/* ---- the kind of connection ---- */

static int tls_flush(clu_conn *s) { return sent(s->own, drain(s->own)); }

static int tls_handshake(clu_conn *s) {
  tls_conn *w = s->own;
  int rc;
  if (w->ready) return CLU_OK;
  rc = outcome(w, w->port->handshake(w->t, &s->err));
  if (rc == CLU_OK) w->ready = 1;
  if (rc != CLU_OK && rc != CLU_AGAIN) return rc;
  /* what is not sent now goes before all that is written */
  if (tls_flush(s) != CLU_OK && s->err.code) return s->err.code;
  return rc;
}

static int tls_read(clu_conn *s, void *p, size_t n, size_t *got) {
  tls_conn *w = s->own;
  int rc;
  if (!w->ready && (rc = tls_handshake(s)) != CLU_OK) return rc;
  do {
    size_t k = 0;
    rc = w->port->read(w->t, (unsigned char *)p + *got, n - *got, &k, &s->err);
    if (rc != CLU_OK) break;
    *got += k;
  } while (*got < n && w->port->pending(w->t));
  w->more = rc == CLU_OK;
  s->is_dry = rc == CLU_OK && w->is_short && !w->port->pending(w->t);
  rc = outcome(w, rc);
  /* a failure is told by the next call, after the bytes that came before it */
  return *got > 0 ? CLU_OK : rc;
}

static int tls_write(clu_conn *s, const void *p, size_t n, size_t *put) {
  tls_conn *w = s->own;
  int rc;
  if (!w->ready && (rc = tls_handshake(s)) != CLU_OK) return rc;
  if (w->finished) return clu_fail(&s->err, CLU_CLOSED, 0, "%s", clu_code_text(CLU_CLOSED));
  if ((rc = tls_flush(s)) != CLU_OK) return rc;
  if (n > BATCH) n = BATCH;
  rc = outcome(w, reserve(w, n + (n / CLU_TLS_RECORD + 1) * OVERHEAD));
  if (rc != CLU_OK) return rc;
  while (*put < n) {
    size_t k = n - *put < CLU_TLS_RECORD ? n - *put : CLU_TLS_RECORD;
    rc = outcome(w, w->port->write(w->t, (const unsigned char *)p + *put, k, &s->err));
    if (rc != CLU_OK) return rc;
    *put += k;
  }
  rc = tls_flush(s);
  return rc == CLU_AGAIN ? CLU_OK : rc;
}

static int tls_finish(clu_conn *s) {
  tls_conn *w = s->own;
  int rc;
  if (!w->ready && (rc = tls_handshake(s)) != CLU_OK) return rc;
  if (!w->finished) {
    rc = outcome(w, w->port->finish(w->t, &s->err));
    if (rc != CLU_OK) return rc;
    w->finished = 1;
  }
  return tls_flush(s);
}

static unsigned tls_wants(const clu_conn *s, unsigned what) {
  const tls_conn *w = s->own;
  if (!w->ready) what = CLU_READ;
  return w->pos < w->len ? what | CLU_WRITE : what;
}

static int tls_pending(const clu_conn *s) {
  const tls_conn *w = s->own;
  return w->more && w->port->pending(w->t);
}

static void tls_fini(clu_conn *s) {
  tls_conn *w = s->own;
  w->port->close(w->t);
  free(w->out);
  free(w);
}

static int no_tls(clu_err *e) {
  return clu_fail(e, CLU_UNSUPPORTED, 0,
                  "there is no TLS here: the package was built without OpenSSL's libssl");
}

static int tls_new(clu_fd fd, clu_tls_keys *k, int server, clu_conn **out, clu_err *e) {
  static const clu_conn_kind kind = {tls_handshake, tls_read,  tls_write,   tls_flush,
                                     tls_finish,    tls_wants, tls_pending, tls_fini};
  const clu_tls_port *port = clu_os_tls();
  clu_conn *s;
  tls_conn *w;
  clu_tls_io io;
  int rc;
  if (!port) return no_tls(e);
  s = calloc(1, sizeof *s);
  w = calloc(1, sizeof *w);
  io.data = w;
  io.take = take;
  io.put = put;
  if (!s || !w)
    rc = clu_fail(e, CLU_NOMEM, 0, "%s", clu_code_text(CLU_NOMEM));
  else
    rc = port->open(k, server, &io, &w->t, e);
  if (rc != CLU_OK) {
    free(s);
    free(w);
    return rc;
  }
  s->kind = &kind;
  s->fd = fd;
  s->own = w;
  w->s = s;
  w->port = port;
  *out = s;
  return CLU_OK;
}

int clu_conn_tls_server(clu_fd fd, clu_tls_keys *k, clu_conn **out, clu_err *e) {
  return tls_new(fd, k, 1, out, e);
}

int clu_conn_tls_client(clu_fd fd, clu_tls_keys *k, clu_conn **out, clu_err *e) {
  return tls_new(fd, k, 0, out, e);
}

/* ---- keys ---- */

int clu_tls_make_identity(char own[CLU_TLS_TEXT], char certificate[CLU_TLS_TEXT], clu_err *e) {
  const clu_tls_port *port = clu_os_tls();
  return port ? port->make_identity(own, certificate, e) : no_tls(e);
}

int clu_tls_keys_new(const char *own, const char *peer, clu_tls_keys **out, clu_err *e) {
  const clu_tls_port *port = clu_os_tls();
  return port ? port->keys_new(own, peer, out, e) : no_tls(e);
}

void clu_tls_keys_free(clu_tls_keys *k) {
  if (k) clu_os_tls()->keys_free(k);
}
