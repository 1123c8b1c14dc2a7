/* The other socket files of this port are built on this one: codes of errors, addresses, new
 * sockets.
 */
#if defined(__linux__)
#define _GNU_SOURCE
#elif defined(__APPLE__)
#define _DARWIN_C_SOURCE
#endif

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#if defined(__APPLE__)
#include <sys/sysctl.h>
#endif

#include "posix/features.h"
#include "posix/net.h"

int clu_net_code(int err) {
  switch (err) {
  case EAGAIN:
#if EWOULDBLOCK != EAGAIN
  case EWOULDBLOCK:
#endif
  case EINTR: return CLU_AGAIN;
  case ECONNREFUSED:
  case ENOENT: return CLU_REFUSED; /* ENOENT: a path without a socket */
  case ECONNRESET:
  case ECONNABORTED:
  case ENOTCONN:
  case EPIPE: return CLU_RESET;
  case ETIMEDOUT: return CLU_TIMEOUT;
  case ENETUNREACH:
  case EHOSTUNREACH:
  case ENETDOWN:
#ifdef EHOSTDOWN
  case EHOSTDOWN:
#endif
  case EADDRNOTAVAIL: return CLU_UNREACHABLE;
  case EADDRINUSE: return CLU_IN_USE;
  case EMFILE:
  case ENFILE: return CLU_LIMIT;
  case ENOMEM:
  case ENOBUFS: return CLU_NOMEM;
  default: return CLU_SYS;
  }
}

int clu_net_transfer_code(int err) {
  int code;
  if (err == ENOBUFS || err == ETOOMANYREFS) return CLU_AGAIN;
  code = clu_net_code(err);
  return code == CLU_TIMEOUT || code == CLU_UNREACHABLE ? CLU_RESET : code;
}

void clu_net_put(clu_addr *a, const void *sa, size_t len) {
  const struct sockaddr *s = sa;
  memset(a, 0, sizeof *a);
  if (len > sizeof a->bytes) len = sizeof a->bytes;
  memcpy(a->bytes, sa, len);
  a->len = (unsigned)len;
  a->family = len < sizeof s->sa_family  ? CLU_NO_FAMILY
              : s->sa_family == AF_INET  ? CLU_INET
              : s->sa_family == AF_INET6 ? CLU_INET6
              : s->sa_family == AF_UNIX  ? CLU_UNIX
                                         : CLU_NO_FAMILY;
}

static int system_family(int family) {
  return family == CLU_INET ? AF_INET : family == CLU_INET6 ? AF_INET6 : AF_UNIX;
}

int clu_net_prepare(int fd) {
#ifndef CLU_HAVE_SOCK_CLOEXEC
  if (fcntl(fd, F_SETFD, FD_CLOEXEC) != 0 || clu_os_set_blocking(fd, 0) != CLU_OK) {
    int err = errno;
    close(fd);
    errno = err;
    return -1;
  }
#endif
#ifdef SO_NOSIGPIPE
  {
    int on = 1;
    setsockopt(fd, SOL_SOCKET, SO_NOSIGPIPE, &on, sizeof on);
  }
#endif
  return fd;
}

int clu_net_socket(int family, int type) {
  int fd;
#ifdef CLU_HAVE_SOCK_CLOEXEC
  type |= SOCK_CLOEXEC | SOCK_NONBLOCK;
#endif
  fd = socket(system_family(family), type, 0);
  return fd < 0 ? -1 : clu_net_prepare(fd);
}

int clu_net_most_backlog(void) {
  int most = -1;
#if defined(CLU_HAVE_PROC)
  char text[32];
  int fd = open("/proc/sys/net/core/somaxconn", O_RDONLY | O_CLOEXEC);
  if (fd >= 0) {
    ssize_t k = read(fd, text, sizeof text - 1);
    if (k > 0) {
      text[k] = 0;
      most = atoi(text);
    }
    close(fd);
  }
#elif defined(__APPLE__)
  size_t n = sizeof most;
  if (sysctlbyname("kern.ipc.somaxconn", &most, &n, NULL, 0) != 0) most = -1;
#endif
  return most;
}

int clu_os_local_addr(clu_fd fd, clu_addr *out) {
  struct sockaddr_storage s;
  socklen_t n = sizeof s;
  memset(out, 0, sizeof *out);
  if (getsockname((int)fd, (struct sockaddr *)&s, &n) != 0) return CLU_SYS;
  clu_net_put(out, &s, n);
  return CLU_OK;
}

int clu_os_peer_addr(clu_fd fd, clu_addr *out) {
  struct sockaddr_storage s;
  socklen_t n = sizeof s;
  memset(out, 0, sizeof *out);
  if (getpeername((int)fd, (struct sockaddr *)&s, &n) != 0)
    return errno == ENOTCONN || errno == EINVAL ? CLU_RESET : CLU_SYS;
  clu_net_put(out, &s, n);
  return CLU_OK;
}
