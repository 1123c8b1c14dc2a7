#include "core/base/input.h"

int clu_input_of(const char *text, size_t n, clu_fd *in, clu_fd *rest, clu_err *e) {
  clu_fd pair[2];
  clu_iov iov;
  size_t put = 0;
  int rc = clu_os_pair(pair, e);
  if (rc != CLU_OK) return rc;
  iov.base = (void *)(uintptr_t)text;
  iov.len = n;
  rc = clu_os_writev(pair[1], &iov, 1, NULL, 0, &put);
  clu_os_set_blocking(pair[0], 1);
  *in = pair[0];
  if (rest) *rest = pair[1];
  if (!rest || rc != CLU_OK || put != n) clu_os_close(pair[1]);
  if (rc == CLU_OK && put == n) return CLU_OK;
  clu_os_close(pair[0]);
  *in = CLU_NO_FD;
  if (rest) *rest = CLU_NO_FD;
  return clu_fail(e, CLU_SYS, 0, "the secret cannot be handed over");
}
