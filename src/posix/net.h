/* The socket files of this port share this. */
#ifndef CLUTCH_POSIX_NET_H
#define CLUTCH_POSIX_NET_H

#include "core/base/os.h"

/* The one table: the code of an errno of a socket call. */
int clu_net_code(int err);
/* Does the same of a read or write on a connection. Whatever has ended it is a reset: also when the
 * peer has not answered keepalive's questions, or confirmed nothing for too long. Where the system
 * has no buffers just now, or too many descriptors are on their way, it is CLU_AGAIN. */
int clu_net_transfer_code(int err);
/* A system's sockaddr of `len` bytes as address. */
void clu_net_put(clu_addr *a, const void *sockaddr, size_t len);
/* A socket of this CLU_ family and system's type: non-blocking, close-on-exec, without SIGPIPE; -1
 * and errno otherwise. */
int clu_net_socket(int family, int type);
/* Makes one that is there already such a one. Returns it, or -1 and errno: then it is closed. */
int clu_net_prepare(int fd);
/* The longest queue that the system grants a listener, or -1. */
int clu_net_most_backlog(void);

#endif
