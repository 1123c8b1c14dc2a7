#include "core/tasks/wake.h"

#include <stdatomic.h>

static clu_fd ends[2] = {CLU_NO_FD, CLU_NO_FD}; /* where it is seen, where it is signalled */
static _Atomic int ready, signalled;

clu_fd clu_wake_descriptor(void) {
  if (ready) return ends[0];
  if (clu_os_pair(ends, NULL) != CLU_OK) return CLU_NO_FD;
  for (int i = 0; i < 2; i++) clu_os_move_high(&ends[i], 1024);
  atomic_store(&ready, 1);
  return ends[0];
}

void clu_wake(void) {
  static const clu_iov byte = {"!", 1};
  size_t put;
  if (!atomic_load(&ready) || atomic_exchange(&signalled, 1)) return;
  (void)clu_os_writev(ends[1], &byte, 1, NULL, 0, &put); /* there is room for one */
}

void clu_wake_hold(void) { atomic_store(&signalled, 1); }

void clu_wake_seen(void) {
  char bytes[16];
  clu_iov in = {bytes, sizeof bytes};
  size_t got;
  if (!atomic_load(&ready)) return;
  while (clu_os_readv(ends[0], &in, 1, &got, NULL, NULL) == CLU_OK) continue;
  /* in this order: what is signalled from here on writes another byte, what was before is seen */
  atomic_store(&signalled, 0);
}

void clu_wake_forget(void) {
  if (!atomic_load(&ready)) return;
  for (int i = 0; i < 2; i++) clu_os_close(ends[i]);
  atomic_store(&ready, 0);
  atomic_store(&signalled, 0);
}
