/* What the socket files of this port share. */
#ifndef CLUTCH_POSIX_NET_H
#define CLUTCH_POSIX_NET_H

#include "core/base/os.h"

/* The code of an errno of a socket call. */
int clu_net_code(int err);
/* A system's sockaddr of `len` bytes as address. */
void clu_net_put(clu_addr *a, const void *sockaddr, size_t len);
/* A socket of this CLU_ family and system's type: non-blocking, close-on-exec, without SIGPIPE; -1 and errno otherwise. */
int clu_net_socket(int family, int type);
/* The longest queue that the system grants a listener, or -1. */
int clu_net_most_backlog(void);

#endif
