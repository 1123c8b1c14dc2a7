/* A connection with itself: TCP's simultaneous open. Who connects to a dead port among those that
 * the system gives to connecting sockets may get that very port, and is then connected to itself.
 * Nobody listens there. */
#ifndef CLUTCH_SELF_CONNECT_H
#define CLUTCH_SELF_CONNECT_H

#include <string.h>

#include "core/base/os.h"

/* Tells whether `fd`, which is connected to `peer`, has met itself: both addresses are as the
 * system tells them. Then its port is free as soon as it is closed. */
static inline int clu_met_itself(clu_fd fd, const clu_addr *peer) {
  clu_addr here;
  if (clu_os_local_addr(fd, &here) != CLU_OK) return 0;
  if (here.family == CLU_UNIX || here.family != peer->family) return 0;
  if (here.len != peer->len || memcmp(here.bytes, peer->bytes, here.len) != 0) return 0;
  clu_os_sockopt_set(fd, CLU_OPT_LINGER,
                     0); /* else a listener could not have the port for a while */
  return 1;
}

#endif
