/* TCP on Windows: addresses, listen, accept, connect, options. What a socket tells of itself is in
 * net-info.c, names in resolve.c. Unix-domain sockets are not used: Windows has them from version
 * 1803 on, without a way to tell a living listener's file from a dead one's. */
#include "win/win.h"
#include "core/base/addr.h"
#include "core/base/self-connect.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* of ws2ipdef.h, which older kits lack */
#ifndef TCP_KEEPIDLE
#define TCP_KEEPIDLE 3
#endif
#ifndef TCP_KEEPINTVL
#define TCP_KEEPINTVL 17
#endif
#ifndef TCP_KEEPCNT
#define TCP_KEEPCNT 16
#endif
#ifndef TCP_MAXRTMS
#define TCP_MAXRTMS 14
#endif

static int fail_at(clu_err *e, int code, int err, const clu_addr *a, const char *what) {
  char at[CLU_ADDR_TEXT], text[CLU_WIN_TEXT];
  return clu_fail(e, code, err, "%s: %s: %s", clu_addr_text(a, at, sizeof at), what,
                  clu_win_text(err, text));
}

/* ---- addresses ---- */

void clu_win_put(clu_addr *a, const void *sa, size_t len) {
  const struct sockaddr *s = sa;
  memset(a, 0, sizeof *a);
  if (len > sizeof a->bytes) len = sizeof a->bytes;
  memcpy(a->bytes, sa, len);
  a->len = (unsigned)len;
  a->family = len < sizeof s->sa_family  ? CLU_NO_FAMILY
              : s->sa_family == AF_INET  ? CLU_INET
              : s->sa_family == AF_INET6 ? CLU_INET6
                                         : CLU_NO_FAMILY;
}

void clu_os_addr_put(int family, const unsigned char *ip, int port, clu_addr *out) {
  if (family == CLU_INET) {
    struct sockaddr_in in;
    memset(&in, 0, sizeof in);
    in.sin_family = AF_INET;
    in.sin_port = htons((u_short)port);
    memcpy(&in.sin_addr, ip, sizeof in.sin_addr);
    clu_win_put(out, &in, sizeof in);
  } else {
    struct sockaddr_in6 in;
    memset(&in, 0, sizeof in);
    in.sin6_family = AF_INET6;
    in.sin6_port = htons((u_short)port);
    memcpy(&in.sin6_addr, ip, sizeof in.sin6_addr);
    clu_win_put(out, &in, sizeof in);
  }
}

int clu_os_addr_ip(const clu_addr *a, unsigned char ip[16]) {
  if (a->family == CLU_INET) memcpy(ip, a->bytes + offsetof(struct sockaddr_in, sin_addr), 4);
  if (a->family == CLU_INET6) memcpy(ip, a->bytes + offsetof(struct sockaddr_in6, sin6_addr), 16);
  return a->family == CLU_INET ? 4 : a->family == CLU_INET6 ? 16 : 0;
}

int clu_os_addr_path(const char *path, clu_addr *out, clu_err *e) {
  memset(out, 0, sizeof *out);
  return clu_fail(e, CLU_UNSUPPORTED, 0, "%s: sockets with a path are not available on Windows",
                  path);
}

int clu_os_addr_host(const clu_addr *a, char *out, size_t cap) {
  out[0] = 0;
  if (a->family == CLU_INET) {
    struct sockaddr_in in;
    memcpy(&in, a->bytes, sizeof in);
    inet_ntop(AF_INET, &in.sin_addr, out, cap);
    return ntohs(in.sin_port);
  }
  if (a->family == CLU_INET6) {
    struct sockaddr_in6 in;
    memcpy(&in, a->bytes, sizeof in);
    if (clu_addr_is_mapped(a))
      inet_ntop(AF_INET, (unsigned char *)&in.sin6_addr + 12, out, cap);
    else
      inet_ntop(AF_INET6, &in.sin6_addr, out, cap);
    return ntohs(in.sin6_port);
  }
  return -1;
}

void clu_os_addr_set_port(clu_addr *a, int port) {
  u_short p = htons((u_short)port);
  if (a->family == CLU_INET)
    memcpy(a->bytes + offsetof(struct sockaddr_in, sin_port), &p, sizeof p);
  if (a->family == CLU_INET6)
    memcpy(a->bytes + offsetof(struct sockaddr_in6, sin6_port), &p, sizeof p);
}

int clu_os_local_addr(clu_fd fd, clu_addr *out) {
  struct sockaddr_storage s;
  int n = sizeof s;
  memset(out, 0, sizeof *out);
  if (getsockname((SOCKET)fd, (struct sockaddr *)&s, &n) !=
      0) /* WSAEINVAL: a socket that is not bound yet */
    return WSAGetLastError() == WSAEINVAL ? CLU_RESET : CLU_SYS;
  clu_win_put(out, &s, (size_t)n);
  return CLU_OK;
}

int clu_os_peer_addr(clu_fd fd, clu_addr *out) {
  struct sockaddr_storage s;
  int n = sizeof s;
  memset(out, 0, sizeof *out);
  if (getpeername((SOCKET)fd, (struct sockaddr *)&s, &n) != 0)
    return clu_win_code(WSAGetLastError()) == CLU_RESET ? CLU_RESET : CLU_SYS;
  clu_win_put(out, &s, (size_t)n);
  return CLU_OK;
}

/* ---- listening ---- */

static int system_family(int family) {
  return family == CLU_INET ? AF_INET : family == CLU_INET6 ? AF_INET6 : AF_UNSPEC;
}

static void set_int(SOCKET s, int level, int name, int value) {
  setsockopt(s, level, name, (const char *)&value, sizeof value);
}

/* Windows takes more than 200 only as a hint, which is the negative number (SOMAXCONN_HINT()). */
static int backlog_of(int asked) {
  if (asked < 0) return SOMAXCONN;
  return asked <= 200 ? asked : asked < 65535 ? -asked : -65535;
}

int clu_os_listen(const clu_addr *at, const clu_listen *how, clu_fd *fd, int *granted, clu_err *e) {
  const char *what = "no socket can be made";
  SOCKET s;
  int err;
  *fd = CLU_NO_FD;
  if (granted) *granted = -1;
  if (clu_win_start(e) != CLU_OK) return CLU_SYS;
  s = clu_win_socket(system_family(at->family));
  if (s == INVALID_SOCKET) {
    err = WSAGetLastError();
    return fail_at(e, clu_win_code(err), err, at, what);
  }
  /* SO_REUSEADDR would let a second process take the port from a living listener here; an address
   * where connections linger can be bound without it */
  set_int(s, SOL_SOCKET, SO_EXCLUSIVEADDRUSE, 1);
  if (at->family == CLU_INET6) set_int(s, IPPROTO_IPV6, IPV6_V6ONLY, 0);
  /* before listen(): the window's scale is agreed on when a connection begins */
  if (how->receive_buffer > 0) set_int(s, SOL_SOCKET, SO_RCVBUF, how->receive_buffer);
  what = "this address cannot be bound";
  if (bind(s, (const struct sockaddr *)at->bytes, (int)at->len) != 0) goto failed;
  what = "cannot listen";
  if (listen(s, backlog_of(how->backlog)) != 0) goto failed;
  *fd = (clu_fd)s;
  return CLU_OK;
failed:
  err = WSAGetLastError();
  closesocket(s);
  return fail_at(e, clu_win_code(err), err, at, what);
}

int clu_os_accept(clu_fd listener, clu_fd *fd, clu_addr *peer, clu_err *e) {
  struct sockaddr_storage from;
  char text[CLU_WIN_TEXT];
  int n = sizeof from, err;
  SOCKET s;
  *fd = CLU_NO_FD;
  memset(&from, 0, sizeof from);
  s = accept((SOCKET)listener, (struct sockaddr *)&from, &n);
  if (s != INVALID_SOCKET && clu_win_prepare(s)) return CLU_AGAIN;
  if (s != INVALID_SOCKET) {
    *fd = (clu_fd)s;
    if (peer) clu_win_put(peer, &from, (size_t)n);
    return CLU_OK;
  }
  err = WSAGetLastError();
  switch (err) {
  case WSAEWOULDBLOCK:
  case WSAEINTR:
  case WSAECONNRESET: /* by its peer before it could be taken */
  case WSAECONNABORTED:
  case WSAENOTCONN: /* wine's word for that */
  case WSAENETDOWN:
  case WSAETIMEDOUT: return CLU_AGAIN;
  case WSAEMFILE:
  case WSAENOBUFS:
  case WSA_NOT_ENOUGH_MEMORY:
    return clu_fail(e, CLU_LIMIT, err, "no further connection can be accepted: %s",
                    clu_win_text(err, text));
  default:
    return clu_fail(e, err == WSAEINVAL || err == WSAENOTSOCK ? CLU_CLOSED : CLU_SYS, err,
                    "connections cannot be accepted: %s", clu_win_text(err, text));
  }
}

/* ---- connecting ---- */

static int connect_failed(int err, const clu_addr *to, clu_err *e) {
  int code =
      err == WSAEACCES ? CLU_UNREACHABLE : clu_win_code(err); /* WSAEACCES: a firewall's rule */
  if (code == CLU_AGAIN || code == CLU_UNSUPPORTED) code = CLU_UNREACHABLE;
  return fail_at(e, code, err, to, "cannot connect");
}

int clu_os_connect_start(const clu_addr *to, int send_buffer, int receive_buffer, clu_fd *fd,
                         clu_err *e) {
  SOCKET s;
  int err;
  *fd = CLU_NO_FD;
  if (clu_win_start(e) != CLU_OK) return CLU_SYS;
  s = clu_win_socket(system_family(to->family));
  if (s == INVALID_SOCKET) {
    err = WSAGetLastError();
    return fail_at(e, err == WSAEAFNOSUPPORT ? CLU_UNREACHABLE : clu_win_code(err), err, to,
                   "no socket can be made");
  }
  if (to->family == CLU_INET6)
    set_int(s, IPPROTO_IPV6, IPV6_V6ONLY, 0); /* for ::ffff:127.0.0.1 and its like */
  if (clu_addr_is_loopback(to)) clu_win_refuse_fast(s);
  if (send_buffer > 0) set_int(s, SOL_SOCKET, SO_SNDBUF, send_buffer);
  if (receive_buffer > 0) set_int(s, SOL_SOCKET, SO_RCVBUF, receive_buffer);
  if (connect(s, (const struct sockaddr *)to->bytes, (int)to->len) == 0) {
    clu_addr peer;
    if (clu_os_peer_addr((clu_fd)s, &peer) == CLU_OK && clu_met_itself((clu_fd)s, &peer)) {
      closesocket(s);
      return connect_failed(WSAECONNREFUSED, to, e);
    }
    *fd = (clu_fd)s;
    return CLU_OK;
  }
  err = WSAGetLastError();
  if (err == WSAEWOULDBLOCK || err == WSAEINPROGRESS) {
    *fd = (clu_fd)s;
    return CLU_AGAIN;
  }
  closesocket(s);
  return connect_failed(err, to, e);
}

int clu_os_connect_finish(clu_fd fd, const clu_addr *to, clu_err *e) {
  WSAPOLLFD p = {(SOCKET)fd, POLLWRNORM, 0};
  clu_addr peer;
  int err = 0, n = sizeof err;
  if (clu_win_poll(&p, 1, 0) <= 0) return CLU_AGAIN;
  if (getsockopt((SOCKET)fd, SOL_SOCKET, SO_ERROR, (char *)&err, &n) != 0) err = WSAGetLastError();
  if (err) return connect_failed(err, to, e);
  if (clu_os_peer_addr(fd, &peer) != CLU_OK) {
    if (p.revents & (POLLERR | POLLHUP)) return connect_failed(WSAECONNRESET, to, e);
    return CLU_AGAIN;
  }
  return clu_met_itself(fd, &peer) ? connect_failed(WSAECONNREFUSED, to, e) : CLU_OK;
}

int clu_os_shutdown(clu_fd fd, unsigned how) {
  int h = how == (CLU_READ | CLU_WRITE) ? SD_BOTH : how == CLU_WRITE ? SD_SEND : SD_RECEIVE;
  if (shutdown((SOCKET)fd, h) == 0) return CLU_OK;
  return clu_win_code(WSAGetLastError()) == CLU_RESET ? CLU_RESET : CLU_SYS;
}

/* ---- options ---- */

static int where(clu_sockopt which, int *level, int *name) {
  *level = IPPROTO_TCP;
  switch (which) {
  case CLU_OPT_NODELAY: *name = TCP_NODELAY; return 1;
  case CLU_OPT_KEEPALIVE:
    *level = SOL_SOCKET;
    *name = SO_KEEPALIVE;
    return 1;
  case CLU_OPT_KEEP_IDLE: *name = TCP_KEEPIDLE; return 1;
  case CLU_OPT_KEEP_INTERVAL: *name = TCP_KEEPINTVL; return 1;
  case CLU_OPT_KEEP_COUNT: *name = TCP_KEEPCNT; return 1;
  case CLU_OPT_USER_TIMEOUT: *name = TCP_MAXRTMS; return 1;
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

/* A system that is older than the option fails so. */
static int no_option(int err) {
  return err == WSAEOPNOTSUPP || err == WSAENOPROTOOPT || err == WSAEINVAL ? CLU_UNSUPPORTED
                                                                           : CLU_SYS;
}

int clu_os_sockopt_set(clu_fd fd, clu_sockopt which, int value) {
  int level, name;
  if (which == CLU_OPT_LINGER) {
    struct linger l;
    l.l_onoff = value >= 0;
    l.l_linger = (u_short)(value < 0 ? 0 : value > 65535 ? 65535 : value);
    return setsockopt((SOCKET)fd, SOL_SOCKET, SO_LINGER, (const char *)&l, sizeof l) == 0 ? CLU_OK
                                                                                          : CLU_SYS;
  }
  if (!where(which, &level, &name)) return CLU_UNSUPPORTED;
  /* the system's own cannot be put back; 0 would mean to give up at once */
  if (which == CLU_OPT_USER_TIMEOUT && value == 0) return CLU_UNSUPPORTED;
  if (setsockopt((SOCKET)fd, level, name, (const char *)&value, sizeof value) == 0) return CLU_OK;
  return level == IPPROTO_TCP ? no_option(WSAGetLastError()) : CLU_SYS;
}

int clu_os_sockopt_get(clu_fd fd, clu_sockopt which, int *value) {
  int level, name, n = sizeof *value, got = 0;
  if (which == CLU_OPT_LINGER) {
    struct linger l;
    n = sizeof l;
    if (getsockopt((SOCKET)fd, SOL_SOCKET, SO_LINGER, (char *)&l, &n) != 0) return CLU_SYS;
    *value = l.l_onoff ? l.l_linger : -1;
    return CLU_OK;
  }
  if (!where(which, &level, &name)) return CLU_UNSUPPORTED;
  /* may fill only one byte of a truth value, so `got` begins with 0 */
  if (getsockopt((SOCKET)fd, level, name, (char *)&got, &n) != 0)
    return level == IPPROTO_TCP ? no_option(WSAGetLastError()) : CLU_SYS;
  *value = which == CLU_OPT_NODELAY || which == CLU_OPT_KEEPALIVE ? got != 0 : got;
  return CLU_OK;
}

/* ---- files of Unix-domain listeners: there are none ---- */

int clu_os_path_id(const char *path, uint64_t id[2]) {
  (void)path;
  id[0] = id[1] = 0;
  return CLU_UNSUPPORTED;
}

int clu_os_path_clear(const char *path) {
  (void)path;
  return CLU_UNSUPPORTED;
}

void clu_os_path_remove(const char *path, const uint64_t id[2]) {
  (void)path;
  (void)id;
}

void clu_os_path_remove_folder(const char *path) { (void)path; }
