#include "core/net/conn.h"

#include <stdlib.h>

/* ---- what is the same for all kinds ---- */

void clu_conn_close(clu_conn *s) {
  if (!s) return;
  if (s->kind->fini) s->kind->fini(s);
  clu_os_close(s->fd);
  free(s);
}

int clu_conn_handshake(clu_conn *s) { return s->err.code ? s->err.code : s->kind->handshake(s); }

int clu_conn_read(clu_conn *s, void *p, size_t n, size_t *got) {
  *got = 0;
  s->is_dry = 0;
  return s->err.code ? s->err.code : s->kind->read(s, p, n, got);
}

int clu_conn_write(clu_conn *s, const void *p, size_t n, size_t *put) {
  *put = 0;
  return s->err.code ? s->err.code : s->kind->write(s, p, n, put);
}

int clu_conn_flush(clu_conn *s) { return s->err.code ? s->err.code : s->kind->flush(s); }

int clu_conn_finish(clu_conn *s) { return s->err.code ? s->err.code : s->kind->finish(s); }

unsigned clu_conn_wants(const clu_conn *s, unsigned what) {
  return s->err.code ? 0 : s->kind->wants(s, what);
}

int clu_conn_pending(const clu_conn *s) { return s->err.code || s->kind->pending(s); }

/* ---- plain ---- */

/* The code of a read or write; a failure stays. */
static int outcome(clu_conn *s, int rc) {
  if (rc == CLU_OK || rc == CLU_AGAIN || rc == CLU_EOF) return rc;
  return clu_fail(&s->err, rc, 0, "%s", clu_code_text(rc));
}

static int plain_ready(clu_conn *s) {
  (void)s;
  return CLU_OK;
}

static int plain_read(clu_conn *s, void *p, size_t n, size_t *got) {
  clu_iov iov = {p, n};
  int rc = clu_os_readv(s->fd, &iov, 1, got, NULL, NULL);
  s->is_dry = rc == CLU_OK && *got < n;
  return outcome(s, rc);
}

static int plain_write(clu_conn *s, const void *p, size_t n, size_t *put) {
  clu_iov iov = {(void *)(uintptr_t)p, n};
  return outcome(s, clu_os_writev(s->fd, &iov, 1, NULL, 0, put));
}

static int plain_finish(clu_conn *s) { return outcome(s, clu_os_shutdown(s->fd, CLU_WRITE)); }

static unsigned plain_wants(const clu_conn *s, unsigned what) {
  (void)s;
  return what;
}

static int plain_pending(const clu_conn *s) {
  (void)s;
  return 0;
}

clu_conn *clu_conn_plain(clu_fd fd) {
  static const clu_conn_kind kind = {plain_ready,  plain_read,  plain_write,   plain_ready,
                                     plain_finish, plain_wants, plain_pending, NULL};
  clu_conn *s = calloc(1, sizeof *s);
  if (!s) return NULL;
  s->kind = &kind;
  s->fd = fd;
  return s;
}
