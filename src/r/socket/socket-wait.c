#include "r/socket/socket.h"

int clu_socket_ready(clu_sock *s, unsigned want, uint64_t deadline, void (*undo)(void *),
                     void *data) {
  int64_t wait = clu_slice(deadline);
  if (clu_sock_wait(s, want, wait) != CLU_OK) clu_check_interrupt(undo, data);
  return clu_slice(deadline) > 0 || clu_sock_wait(s, want, 0) == CLU_OK;
}
