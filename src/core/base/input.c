#include "core/base/input.h"

int clu_input_add(clu_fd rest, const char *text, size_t n) {
  int rc = CLU_OK;
  while (rc == CLU_OK && n > 0) {
    clu_iov iov = {(void *)(uintptr_t)text, n};
    size_t put = 0;
    rc = clu_os_writev(rest, &iov, 1, NULL, 0, &put);
    text += put;
    n -= put;
  }
  return rc;
}

int clu_input_of(const char *text, size_t n, clu_fd *in, clu_fd *rest, clu_err *e) {
  clu_fd pair[2];
  int rc = clu_os_pair(pair, e);
  if (rc != CLU_OK) return rc;
  rc = clu_input_add(pair[1], text, n);
  clu_os_set_blocking(pair[0], 1);
  *in = pair[0];
  if (rest) *rest = pair[1];
  if (!rest || rc != CLU_OK) clu_os_close(pair[1]);
  if (rc == CLU_OK) return CLU_OK;
  clu_os_close(pair[0]);
  *in = CLU_NO_FD;
  if (rest) *rest = CLU_NO_FD;
  return clu_fail(e, CLU_SYS, 0, "the secret cannot be handed over");
}
