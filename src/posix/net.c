/* TCP and Unix-domain sockets on POSIX systems: addresses, listen, accept, connect, options. What a
 * socket tells of itself is in net-info.c, names are in names.c. */
#if defined(__linux__)
#define _GNU_SOURCE
#elif defined(__APPLE__)
#define _DARWIN_C_SOURCE
#endif

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "core/base/addr.h"
#include "core/base/self-connect.h"
#include "posix/features.h"
#include "posix/net.h"

static int fail_at(clu_err *e, int code, int err, const clu_addr *a, const char *what) {
  char at[CLU_ADDR_TEXT];
  return clu_fail(e, code, err, "%s: %s: %s", clu_addr_text(a, at, sizeof at), what, strerror(err));
}

/* ---- addresses ---- */

void clu_os_addr_put(int family, const unsigned char *ip, int port, clu_addr *out) {
  if (family == CLU_INET) {
    struct sockaddr_in in;
    memset(&in, 0, sizeof in);
    in.sin_family = AF_INET;
    in.sin_port = htons((uint16_t)port);
    memcpy(&in.sin_addr, ip, sizeof in.sin_addr);
    clu_net_put(out, &in, sizeof in);
  } else {
    struct sockaddr_in6 in;
    memset(&in, 0, sizeof in);
    in.sin6_family = AF_INET6;
    in.sin6_port = htons((uint16_t)port);
    memcpy(&in.sin6_addr, ip, sizeof in.sin6_addr);
    clu_net_put(out, &in, sizeof in);
  }
}

int clu_os_addr_ip(const clu_addr *a, unsigned char ip[16]) {
  if (a->family == CLU_INET) memcpy(ip, a->bytes + offsetof(struct sockaddr_in, sin_addr), 4);
  if (a->family == CLU_INET6) memcpy(ip, a->bytes + offsetof(struct sockaddr_in6, sin6_addr), 16);
  return a->family == CLU_INET ? 4 : a->family == CLU_INET6 ? 16 : 0;
}

int clu_os_addr_path(const char *path, clu_addr *out, clu_err *e) {
  struct sockaddr_un un;
  size_t n = strlen(path);
  if (!n || n >= sizeof un.sun_path)
    return clu_fail(e, CLU_SYS, ENAMETOOLONG, "%s: the path of a socket has 1 to %d bytes", path,
                    (int)sizeof un.sun_path - 1);
  memset(&un, 0, sizeof un);
  un.sun_family = AF_UNIX;
  memcpy(un.sun_path, path, n + 1);
  clu_net_put(out, &un, offsetof(struct sockaddr_un, sun_path) + n + 1);
  return CLU_OK;
}

/* Does as inet_ntop(AF_INET), which takes 20 times as long by way of printf(). */
static void put_ipv4(const void *from, char *out, size_t cap) {
  const unsigned char *b = from;
  char text[16], *p = text;
  for (int i = 0; i < 4; i++) {
    if (i) *p++ = '.';
    if (b[i] >= 100) *p++ = (char)('0' + b[i] / 100);
    if (b[i] >= 10) *p++ = (char)('0' + b[i] / 10 % 10);
    *p++ = (char)('0' + b[i] % 10);
  }
  *p = 0;
  if ((size_t)(p - text) < cap) memcpy(out, text, (size_t)(p - text) + 1);
}

int clu_os_addr_host(const clu_addr *a, char *out, size_t cap) {
  out[0] = 0;
  if (a->family == CLU_INET) {
    struct sockaddr_in in;
    memcpy(&in, a->bytes, sizeof in);
    put_ipv4(&in.sin_addr, out, cap);
    return ntohs(in.sin_port);
  }
  if (a->family == CLU_INET6) {
    struct sockaddr_in6 in;
    memcpy(&in, a->bytes, sizeof in);
    if (IN6_IS_ADDR_V4MAPPED(&in.sin6_addr))
      put_ipv4(in.sin6_addr.s6_addr + 12, out, cap);
    else
      inet_ntop(AF_INET6, &in.sin6_addr, out, (socklen_t)cap);
    return ntohs(in.sin6_port);
  }
  if (a->family == CLU_UNIX && a->len > offsetof(struct sockaddr_un, sun_path)) {
    struct sockaddr_un un;
    size_t n = a->len - offsetof(struct sockaddr_un, sun_path);
    memset(&un, 0, sizeof un);
    memcpy(&un, a->bytes, a->len < sizeof un ? a->len : sizeof un);
    if (n > sizeof un.sun_path) n = sizeof un.sun_path;
    if (un.sun_path[0] || n < 2)
      snprintf(out, cap, "%.*s", (int)n, un.sun_path);
    else /* Linux's abstract names begin with a zero byte */
      snprintf(out, cap, "@%.*s", (int)n - 1, un.sun_path + 1);
  }
  return -1;
}

void clu_os_addr_set_port(clu_addr *a, int port) {
  uint16_t p = htons((uint16_t)port);
  if (a->family == CLU_INET)
    memcpy(a->bytes + offsetof(struct sockaddr_in, sin_port), &p, sizeof p);
  if (a->family == CLU_INET6)
    memcpy(a->bytes + offsetof(struct sockaddr_in6, sin6_port), &p, sizeof p);
}

/* ---- making sockets ---- */

static void set_int(int fd, int level, int name, int value) {
  setsockopt(fd, level, name, &value, sizeof value);
}

int clu_os_listen(const clu_addr *at, const clu_listen *how, clu_fd *fd, int *granted, clu_err *e) {
  clu_sock_status st;
  int s = clu_net_socket(at->family, SOCK_STREAM), err;
  const char *what = "no socket can be made";
  *fd = CLU_NO_FD;
  if (granted) *granted = -1;
  if (s < 0) {
    err = errno;
    return fail_at(e, err == EAFNOSUPPORT ? CLU_UNSUPPORTED : clu_net_code(err), err, at, what);
  }
  if (at->family != CLU_UNIX) {
    if (!how->keep_address) set_int(s, SOL_SOCKET, SO_REUSEADDR, 1);
    if (at->family == CLU_INET6) set_int(s, IPPROTO_IPV6, IPV6_V6ONLY, 0);
  }
  /* before listen(): the window's scale is agreed on when a connection begins */
  if (how->receive_buffer > 0) set_int(s, SOL_SOCKET, SO_RCVBUF, how->receive_buffer);
  what = "this address cannot be bound";
  if (bind(s, (const struct sockaddr *)at->bytes, (socklen_t)at->len) != 0) goto failed;
  what = "cannot listen";
  /* the system cuts the number to what it allows */
  if (listen(s, how->backlog < 0 ? INT_MAX : how->backlog) != 0) goto failed;
  *fd = s;
  if (granted) {
    if (clu_os_sock_status(s, &st) == CLU_OK && st.backlog_max >= 0)
      *granted = (int)st.backlog_max;
    else {
      int most = clu_net_most_backlog();
      if (most >= 0) *granted = how->backlog < 0 || how->backlog > most ? most : how->backlog;
    }
  }
  return CLU_OK;
failed:
  err = errno;
  close(s);
  /* ENOENT: there is no such folder. Nobody has refused anything */
  return fail_at(e, err == ENOENT ? CLU_SYS : clu_net_code(err), err, at, what);
}

int clu_os_accept(clu_fd listener, clu_fd *fd, clu_addr *peer, clu_err *e) {
  struct sockaddr_storage from;
  socklen_t n = sizeof from;
  int s;
  *fd = CLU_NO_FD;
  memset(&from, 0, sizeof from);
#if defined(CLU_HAVE_ACCEPT4)
  s = accept4((int)listener, (struct sockaddr *)&from, &n, SOCK_CLOEXEC | SOCK_NONBLOCK);
#else
  s = accept((int)listener, (struct sockaddr *)&from, &n);
#endif
  if (s < 0) {
    int err = errno;
    /* Not clu_net_code(): accept(2) has meanings of its own for these errors. Most are about the
     * one connection that would have been taken, and the listener goes on. */
    switch (err) {
    case EAGAIN:
#if EWOULDBLOCK != EAGAIN
    case EWOULDBLOCK:
#endif
    case EINTR:
    case ECONNABORTED: /* reset by its peer before it could be taken */
    case EPROTO:
    /* Linux hands over errors of the new connection's network, too: accept(2) */
    case ENETDOWN:
    case ENOPROTOOPT:
    case EHOSTUNREACH:
    case ENETUNREACH:
#ifdef EHOSTDOWN
    case EHOSTDOWN:
#endif
#ifdef ENONET
    case ENONET:
#endif
    case ETIMEDOUT:
    case ECONNRESET: return CLU_AGAIN;
    case EMFILE:
    case ENFILE:
    case ENOBUFS:
    case ENOMEM:
      return clu_fail(e, CLU_LIMIT, err, "no further connection can be accepted: %s",
                      strerror(err));
    default:
      return clu_fail(e, err == EINVAL || err == EBADF ? CLU_CLOSED : clu_net_code(err), err,
                      "connections cannot be accepted: %s", strerror(err));
    }
  }
#if !defined(CLU_HAVE_ACCEPT4)
  s = fcntl(s, F_SETFD, FD_CLOEXEC) == 0 && clu_os_set_blocking(s, 0) == CLU_OK ? clu_net_prepare(s)
                                                                                : (close(s), -1);
  if (s < 0) return CLU_AGAIN;
#endif
  *fd = s;
  if (peer) clu_net_put(peer, &from, n);
  return CLU_OK;
}

static int connect_failed(int err, const clu_addr *to, clu_err *e) {
  int code = clu_net_code(err);
  if (code == CLU_AGAIN) code = CLU_SYS;
  if (err == EADDRNOTAVAIL && to->family != CLU_UNIX) { /* every local port is taken */
    return fail_at(e, CLU_UNREACHABLE, err, to, "cannot connect");
  }
  return fail_at(e, code, err, to, "cannot connect");
}

int clu_os_connect_start(const clu_addr *to, int send_buffer, int receive_buffer, clu_fd *fd,
                         clu_err *e) {
  int s = clu_net_socket(to->family, SOCK_STREAM), err;
  *fd = CLU_NO_FD;
  if (s < 0) {
    err = errno;
    return fail_at(e, err == EAFNOSUPPORT ? CLU_UNREACHABLE : clu_net_code(err), err, to,
                   "no socket can be made");
  }
  if (send_buffer > 0) set_int(s, SOL_SOCKET, SO_SNDBUF, send_buffer);
  if (receive_buffer > 0) set_int(s, SOL_SOCKET, SO_RCVBUF, receive_buffer);
  if (connect(s, (const struct sockaddr *)to->bytes, (socklen_t)to->len) == 0) {
    clu_addr peer;
    if (clu_os_peer_addr(s, &peer) == CLU_OK && clu_met_itself(s, &peer)) {
      close(s);
      return connect_failed(ECONNREFUSED, to, e);
    }
    *fd = s;
    return CLU_OK;
  }
  err = errno;
  /* after EINTR it goes on by itself, as after EINPROGRESS: a second connect() would be wrong */
  if (err == EINPROGRESS || (err == EINTR && to->family != CLU_UNIX)) {
    *fd = s;
    return CLU_AGAIN;
  }
  close(s);
  if (to->family == CLU_UNIX && (err == EAGAIN || err == EWOULDBLOCK || err == EINTR))
    return fail_at(e, CLU_BUSY, err, to, "the listener's queue is full");
  return connect_failed(err, to, e);
}

/* The errno that is waiting at a socket, or 0. `failed`: one is, which a system without SO_ERROR
 * tells by a read. */
static int waiting_error(int fd, int failed) {
  int err = 0;
  socklen_t n = sizeof err;
  char c;
  if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &err, &n) == 0) return err;
  if (errno != ENOPROTOOPT) return errno;
  if (!failed || recv(fd, &c, 1, MSG_PEEK | MSG_DONTWAIT) >= 0) return 0;
  return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR ? 0 : errno;
}

int clu_os_connect_finish(clu_fd fd, const clu_addr *to, clu_err *e) {
  struct pollfd p;
  clu_addr peer;
  int err = waiting_error((int)fd, 0);
  p.fd = (int)fd;
  p.events = POLLOUT;
  p.revents = 0;
  if (err)
    return connect_failed(err, to, e); /* most ports that are asked are dead: no poll() for those */
  if (clu_os_peer_addr(fd, &peer) != CLU_OK) { /* nor for those that have answered */
    if (poll(&p, 1, 0) <= 0) return CLU_AGAIN;
    if (p.revents & (POLLERR | POLLHUP)) { /* it came in between */
      err = waiting_error((int)fd, 1);
      if (err) return connect_failed(err, to, e);
    }
    if (clu_os_peer_addr(fd, &peer) != CLU_OK) {
      if (p.revents & (POLLERR | POLLHUP)) return connect_failed(ECONNRESET, to, e);
      return CLU_AGAIN;
    }
  }
  return clu_met_itself(fd, &peer) ? connect_failed(ECONNREFUSED, to, e) : CLU_OK;
}

int clu_os_shutdown(clu_fd fd, unsigned how) {
  int h = how == (CLU_READ | CLU_WRITE) ? SHUT_RDWR : how == CLU_WRITE ? SHUT_WR : SHUT_RD;
  if (shutdown((int)fd, h) == 0) return CLU_OK;
  return errno == ENOTCONN ? CLU_RESET : CLU_SYS;
}

/* ---- options ---- */

#ifndef TCP_KEEPIDLE
#ifdef TCP_KEEPALIVE
#define TCP_KEEPIDLE TCP_KEEPALIVE /* macOS' name of it */
#endif
#endif

static int where(clu_sockopt which, int *level, int *name) {
  *level = IPPROTO_TCP;
  switch (which) {
  case CLU_OPT_NODELAY: *name = TCP_NODELAY; return 1;
  case CLU_OPT_KEEPALIVE:
    *level = SOL_SOCKET;
    *name = SO_KEEPALIVE;
    return 1;
#ifdef TCP_KEEPIDLE
  case CLU_OPT_KEEP_IDLE: *name = TCP_KEEPIDLE; return 1;
#endif
#ifdef TCP_KEEPINTVL
  case CLU_OPT_KEEP_INTERVAL: *name = TCP_KEEPINTVL; return 1;
#endif
#ifdef TCP_KEEPCNT
  case CLU_OPT_KEEP_COUNT: *name = TCP_KEEPCNT; return 1;
#endif
#if defined(TCP_USER_TIMEOUT) && defined(CLU_HAVE_LINUX_TCP)
  case CLU_OPT_USER_TIMEOUT: *name = TCP_USER_TIMEOUT; return 1;
#endif
  case CLU_OPT_SEND_BUFFER:
    *level = SOL_SOCKET;
    *name = SO_SNDBUF;
    return 1;
  case CLU_OPT_RECEIVE_BUFFER:
    *level = SOL_SOCKET;
    *name = SO_RCVBUF;
    return 1;
  default: return 0;
  }
}

static int listens(int fd) {
  int on = 0;
  socklen_t n = sizeof on;
  return getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &on, &n) == 0 && on;
}

/* Says what a failure to set or get an option means. EINVAL: a family that has no such option, a
 * value that is out of range, or on macOS a connection that was reset; no value of TCP_NODELAY is
 * out of range. */
static int option_failed(clu_fd fd, clu_sockopt which, int level, int err) {
  clu_addr a;
  int has_options = clu_os_local_addr(fd, &a) != CLU_OK || a.family != CLU_UNIX;
  if (err == ECONNRESET || err == ENOTCONN) return CLU_RESET;
  if (err == EINVAL && has_options && which == CLU_OPT_NODELAY) return CLU_RESET;
  if (err == EINVAL && has_options && clu_os_peer_addr(fd, &a) == CLU_RESET && !listens((int)fd))
    return CLU_RESET;
  if (err == EOPNOTSUPP || err == ENOPROTOOPT) return CLU_UNSUPPORTED;
  return err == EINVAL && level == IPPROTO_TCP ? CLU_UNSUPPORTED : CLU_SYS;
}

int clu_os_sockopt_set(clu_fd fd, clu_sockopt which, int value) {
  int level, name;
  if (which == CLU_OPT_LINGER) {
    struct linger l;
    l.l_onoff = value >= 0;
    l.l_linger = value >= 0 ? value : 0;
    if (setsockopt((int)fd, SOL_SOCKET, SO_LINGER, &l, sizeof l) == 0) return CLU_OK;
    return option_failed(fd, which, SOL_SOCKET, errno);
  }
  if (!where(which, &level, &name)) return CLU_UNSUPPORTED;
  if (setsockopt((int)fd, level, name, &value, sizeof value) == 0) return CLU_OK;
  return option_failed(fd, which, level, errno);
}

int clu_os_sockopt_get(clu_fd fd, clu_sockopt which, int *value) {
  int level, name;
  socklen_t n = sizeof *value;
  if (which == CLU_OPT_LINGER) {
    struct linger l;
    n = sizeof l;
    if (getsockopt((int)fd, SOL_SOCKET, SO_LINGER, &l, &n) != 0)
      return option_failed(fd, which, SOL_SOCKET, errno);
    *value = l.l_onoff ? l.l_linger : -1;
    return CLU_OK;
  }
  if (!where(which, &level, &name)) return CLU_UNSUPPORTED;
  if (getsockopt((int)fd, level, name, value, &n) != 0)
    return option_failed(fd, which, level, errno);
  if (which == CLU_OPT_NODELAY || which == CLU_OPT_KEEPALIVE) *value = *value != 0;
  return CLU_OK;
}
