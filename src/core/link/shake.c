#include "core/link/shake.h"

#include "core/base/os.h"

static int write_some(clu_shake *s) {
  while (s->hs.out_left > 0) {
    size_t put = 0;
    int rc = clu_conn_write(s->conn, s->hs.out, s->hs.out_left, &put);
    clu_hs_written(&s->hs, put);
    if (rc != CLU_OK) return rc;
  }
  return clu_conn_flush(s->conn);
}

static int read_some(clu_shake *s) {
  unsigned char bytes[CLU_HS_RESPONSE];
  size_t got = 0;
  int rc = clu_conn_read(s->conn, bytes, clu_hs_want(&s->hs), &got);
  if (got) clu_hs_feed(&s->hs, bytes, got);
  return rc;
}

int clu_shake_step(clu_shake *s, int (*admit)(void *, const clu_hs *), void *data) {
  int rc;
  if (!s->encrypted && (rc = clu_conn_handshake(s->conn)) != CLU_OK) return rc;
  s->encrypted = 1;
  for (;;) {
    if (s->hs.state == CLU_HS_PROVEN && admit) clu_hs_admit(&s->hs, admit(data, &s->hs));
    if (s->hs.state == CLU_HS_FAILED) return CLU_PROTO;
    rc = write_some(s);
    if (rc == CLU_OK && s->hs.state == CLU_HS_DONE) return CLU_OK;
    if (rc == CLU_OK && clu_hs_want(&s->hs) > 0) rc = read_some(s);
    if (rc == CLU_AGAIN) return rc;
    if (rc != CLU_OK) {
      clu_hs_closed(&s->hs);
      return rc;
    }
  }
}

unsigned clu_shake_wants(const clu_shake *s) {
  return clu_conn_wants(s->conn, s->encrypted && s->hs.out_left > 0 ? CLU_WRITE : CLU_READ);
}

void clu_shake_drop(clu_shake *s) {
  clu_conn_close(s->conn);
  s->conn = NULL;
}
