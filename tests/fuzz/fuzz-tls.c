/* This target is what comes to a TLS stream from somebody who has proven nothing: the first byte
 * says to which side, the second how much comes at a time. It never gets to the end of a handshake,
 * holds no more memory than one that is let wait, and each failure has its sentence. */
#include "fuzz.h"

#include "core/net/tls.h"

static clu_tls_keys *keys[2];

static void make_keys(void) {
  char own[2][CLU_TLS_TEXT], certificate[2][CLU_TLS_TEXT];
  for (int i = 0; i < 2; i++)
    FUZZ_CHECK(clu_tls_make_identity(own[i], certificate[i], NULL) == CLU_OK);
  for (int i = 0; i < 2; i++)
    FUZZ_CHECK(clu_tls_keys_new(own[i], certificate[1 - i], &keys[i], NULL) == CLU_OK);
}

/* All that the side says is taken away, so that it never waits for room. */
static void drop(clu_fd fd) {
  static unsigned char dropped[65536];
  clu_iov iov = {dropped, sizeof dropped};
  size_t got;
  while (clu_os_readv(fd, &iov, 1, &got, NULL, NULL) == CLU_OK) continue;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
  clu_conn *s;
  clu_fd pair[2];
  size_t step, got;
  char byte;
  int rc = CLU_AGAIN;
  if (n < 2 || n > 60000) return 0;
  if (!keys[0]) make_keys();
  step = 1 + data[1] * 64u;
  FUZZ_CHECK(clu_os_pair(pair, NULL) == CLU_OK);
  FUZZ_CHECK((data[0] & 1 ? clu_conn_tls_server : clu_conn_tls_client)(pair[0], keys[0], &s,
                                                                       NULL) == CLU_OK);
  for (size_t at = 2; at < n && rc == CLU_AGAIN; at += step) {
    fuzz_write(pair[1], data + at, n - at < step ? n - at : step);
    rc = clu_conn_handshake(s);
    drop(pair[1]);
  }
  clu_os_close(pair[1]);
  if (rc == CLU_AGAIN) rc = clu_conn_handshake(s);
  FUZZ_CHECK(rc == CLU_PROTO || rc == CLU_RESET);
  FUZZ_CHECK(s->err.code == rc && s->err.text[0]);
  FUZZ_CHECK(clu_conn_read(s, &byte, 1, &got) == rc && got == 0);
  clu_conn_close(s);
  return 0;
}
