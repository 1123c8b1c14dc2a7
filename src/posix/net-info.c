/* This file has what the system tells of sockets, the list of this process's sockets, and the wait
 * for a set of them. */
#if defined(__linux__)
#define _GNU_SOURCE
#elif defined(__APPLE__)
#define _DARWIN_C_SOURCE
#endif

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>
#include "posix/features.h"
#if defined(CLU_HAVE_SOCK_DIAG)
#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/sock_diag.h>
#endif
#if defined(CLU_HAVE_SIOCOUTQ)
#include <linux/sockios.h>
#elif defined(__APPLE__)
#include <netinet/tcp_fsm.h>
#include <sys/sysctl.h>
#endif

#include "posix/net.h"

#if defined(CLU_HAVE_LINUX_TCP)
static void tcp_status(int fd, clu_sock_status *out) {
  /* the kernel's numbers, TCP_ESTABLISHED = 1 to TCP_CLOSING = 11 */
  static const int names[] = {CLU_TCP_NONE,      CLU_TCP_ESTABLISHED, CLU_TCP_SYN_SENT,
                              CLU_TCP_SYN_RECV,  CLU_TCP_FIN_WAIT1,   CLU_TCP_FIN_WAIT2,
                              CLU_TCP_TIME_WAIT, CLU_TCP_CLOSED,      CLU_TCP_CLOSE_WAIT,
                              CLU_TCP_LAST_ACK,  CLU_TCP_LISTEN,      CLU_TCP_CLOSING};
  struct tcp_info t;
  socklen_t n = sizeof t;
  memset(&t, 0, sizeof t);
  if (getsockopt(fd, IPPROTO_TCP, TCP_INFO, &t, &n) != 0) return;
  if (t.tcpi_state < sizeof names / sizeof *names) out->tcp = names[t.tcpi_state];
  if (out->tcp == CLU_TCP_LISTEN) { /* for a listener these two tell its queue */
    out->backlog_used = t.tcpi_unacked;
    out->backlog_max = t.tcpi_sacked;
  } else {
    out->retransmits = t.tcpi_total_retrans;
    out->rtt_us = t.tcpi_rtt;
  }
}
#elif defined(__APPLE__)
static void tcp_status(int fd, clu_sock_status *out) {
  static const struct {
    int theirs, ours;
  } names[] = {{TCPS_CLOSED, CLU_TCP_CLOSED},           {TCPS_LISTEN, CLU_TCP_LISTEN},
               {TCPS_SYN_SENT, CLU_TCP_SYN_SENT},       {TCPS_SYN_RECEIVED, CLU_TCP_SYN_RECV},
               {TCPS_ESTABLISHED, CLU_TCP_ESTABLISHED}, {TCPS_CLOSE_WAIT, CLU_TCP_CLOSE_WAIT},
               {TCPS_FIN_WAIT_1, CLU_TCP_FIN_WAIT1},    {TCPS_CLOSING, CLU_TCP_CLOSING},
               {TCPS_LAST_ACK, CLU_TCP_LAST_ACK},       {TCPS_FIN_WAIT_2, CLU_TCP_FIN_WAIT2},
               {TCPS_TIME_WAIT, CLU_TCP_TIME_WAIT}};
  struct tcp_connection_info t;
  socklen_t n = sizeof t;
  memset(&t, 0, sizeof t);
  if (getsockopt(fd, IPPROTO_TCP, TCP_CONNECTION_INFO, &t, &n) != 0) return;
  for (size_t i = 0; i < sizeof names / sizeof *names; i++)
    if (names[i].theirs == t.tcpi_state) out->tcp = names[i].ours;
  out->retransmits = (int64_t)t.tcpi_txretransmitpackets;
  out->rtt_us = (int64_t)t.tcpi_srtt * 1000;
}
#else
static void tcp_status(int fd, clu_sock_status *out) {
  (void)fd;
  (void)out;
}
#endif

int64_t clu_os_unconfirmed(clu_fd fd) {
  int k = -1;
#if defined(SO_NWRITE) /* macOS: there is no TIOCOUTQ for sockets */
  socklen_t n = sizeof k;
  if (getsockopt((int)fd, SOL_SOCKET, SO_NWRITE, &k, &n) != 0) return -1;
#elif defined(CLU_HAVE_SIOCOUTQ)
  if (ioctl((int)fd, SIOCOUTQ, &k) != 0) return -1;
#elif defined(FIONWRITE) /* FreeBSD, NetBSD */
  if (ioctl((int)fd, FIONWRITE, &k) != 0) return -1;
#elif defined(TIOCOUTQ)  /* OpenBSD */
  if (ioctl((int)fd, TIOCOUTQ, &k) != 0) return -1;
#else
  (void)fd;
#endif
  return k;
}

int clu_os_sock_status(clu_fd fd, clu_sock_status *out) {
  clu_addr local;
  int type = 0, on = 0, k;
  socklen_t n = sizeof type;
  memset(out, 0, sizeof *out);
  out->queued_in = out->queued_out = out->retransmits = out->rtt_us = out->backlog_used =
      out->backlog_max = -1;
  if (getsockopt((int)fd, SOL_SOCKET, SO_TYPE, &type, &n) != 0) {
    struct stat st;
    if (errno != ENOPROTOOPT || fstat((int)fd, &st) != 0 || !S_ISSOCK(st.st_mode)) return CLU_SYS;
    type = SOCK_STREAM; /* this system does not tell; all that are made here are of that kind */
  }
  out->kind = type == SOCK_STREAM  ? CLU_KIND_STREAM
              : type == SOCK_DGRAM ? CLU_KIND_DATAGRAM
                                   : CLU_KIND_OTHER;
  if (clu_os_local_addr(fd, &local) == CLU_OK) out->family = local.family;
  n = sizeof on;
  if (getsockopt((int)fd, SOL_SOCKET, SO_ACCEPTCONN, &on, &n) == 0) out->listening = on != 0;
  if (out->kind == CLU_KIND_STREAM && (out->family == CLU_INET || out->family == CLU_INET6))
    tcp_status((int)fd, out);
  if (out->tcp == CLU_TCP_LISTEN) out->listening = 1;
  if (out->listening) {
#if defined(__APPLE__)
    if (out->tcp == CLU_TCP_NONE && out->family != CLU_UNIX) out->tcp = CLU_TCP_LISTEN;
#endif
    return CLU_OK;
  }
#if defined(SO_NREAD) /* macOS */
  n = sizeof k;
  if (getsockopt((int)fd, SOL_SOCKET, SO_NREAD, &k, &n) == 0) out->queued_in = k;
#else
  if (ioctl((int)fd, FIONREAD, &k) == 0) out->queued_in = k;
#endif
  out->queued_out = clu_os_unconfirmed(fd);
  return CLU_OK;
}

int clu_os_sockets(clu_fd *out, int max, int *n) {
#if defined(CLU_HAVE_PROC)
  DIR *d = opendir("/proc/self/fd");
#else
  DIR *d = opendir("/dev/fd");
#endif
  struct dirent *entry;
  *n = 0;
  if (!d) return CLU_UNSUPPORTED;
  while ((entry = readdir(d))) {
    struct stat st;
    char *end;
    long fd = strtol(entry->d_name, &end, 10);
    if (end == entry->d_name || *end || fd == dirfd(d)) continue;
    if (fstat((int)fd, &st) != 0 || !S_ISSOCK(st.st_mode)) continue;
    if (*n < max) out[*n] = fd;
    ++*n;
  }
  closedir(d);
  return CLU_OK;
}

#if defined(CLU_HAVE_SOCK_DIAG)
/* IPv4 within IPv6, as a listener for both has it: the other end knows only the IPv4. */
static void unmap(struct sockaddr_storage *a) {
  const struct sockaddr_in6 *six = (void *)a;
  struct sockaddr_in four;
  if (a->ss_family != AF_INET6 || !IN6_IS_ADDR_V4MAPPED(&six->sin6_addr)) return;
  memset(&four, 0, sizeof four);
  four.sin_family = AF_INET;
  four.sin_port = six->sin6_port;
  memcpy(&four.sin_addr, six->sin6_addr.s6_addr + 12, 4);
  memcpy(a, &four, sizeof four);
}

/* Addresses and ports as the other end has them: its own first. 0: the connection may leave this
 * machine. */
static int from_there(int fd, struct inet_diag_req_v2 *q) {
  struct sockaddr_storage us, them;
  socklen_t n = sizeof us, m = sizeof them;
  if (getsockname(fd, (struct sockaddr *)&us, &n) != 0 ||
      getpeername(fd, (struct sockaddr *)&them, &m) != 0)
    return 0;
  unmap(&us);
  unmap(&them);
  if (us.ss_family == AF_INET && them.ss_family == AF_INET) {
    const struct sockaddr_in *a = (void *)&them, *b = (void *)&us;
    q->id.idiag_sport = a->sin_port;
    q->id.idiag_dport = b->sin_port;
    q->id.idiag_src[0] = a->sin_addr.s_addr;
    q->id.idiag_dst[0] = b->sin_addr.s_addr;
    q->sdiag_family = AF_INET;
    return ntohl(a->sin_addr.s_addr) >> 24 == 127 || a->sin_addr.s_addr == b->sin_addr.s_addr;
  }
  if (us.ss_family == AF_INET6 && them.ss_family == AF_INET6) {
    const struct sockaddr_in6 *a = (void *)&them, *b = (void *)&us;
    q->id.idiag_sport = a->sin6_port;
    q->id.idiag_dport = b->sin6_port;
    memcpy(q->id.idiag_src, &a->sin6_addr, 16);
    memcpy(q->id.idiag_dst, &b->sin6_addr, 16);
    q->sdiag_family = AF_INET6;
    return memcmp(&a->sin6_addr, &b->sin6_addr, 16) == 0;
  }
  return 0;
}

/* The kernel finds one socket by its addresses at once; /proc/net/tcp would be read from its
 * beginning each time. */
int clu_os_peer_user(clu_fd fd) {
  struct {
    struct nlmsghdr h;
    struct inet_diag_req_v2 q;
  } ask;
  union {
    struct nlmsghdr h;
    char room[1024];
  } answer;
  const struct inet_diag_msg *found;
  ssize_t k = -1;
  int s;
  memset(&ask, 0, sizeof ask);
  if (!from_there((int)fd, &ask.q)) return CLU_PEER_UNKNOWN;
  ask.h.nlmsg_len = sizeof ask;
  ask.h.nlmsg_type = SOCK_DIAG_BY_FAMILY;
  ask.h.nlmsg_flags = NLM_F_REQUEST;
  ask.q.sdiag_protocol = IPPROTO_TCP;
  ask.q.idiag_states = ~0u;
  ask.q.id.idiag_cookie[0] = ask.q.id.idiag_cookie[1] = INET_DIAG_NOCOOKIE;
  s = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_SOCK_DIAG);
  if (s < 0) return CLU_PEER_UNKNOWN;
  /* the kernel answers before send() returns */
  if (send(s, &ask, sizeof ask, 0) == (ssize_t)sizeof ask)
    k = recv(s, &answer, sizeof answer, MSG_DONTWAIT);
  close(s);
  if (k < (ssize_t)NLMSG_LENGTH(sizeof *found) || answer.h.nlmsg_type != SOCK_DIAG_BY_FAMILY)
    return CLU_PEER_UNKNOWN;
  found = NLMSG_DATA(&answer.h);
  return found->idiag_uid == 0 || found->idiag_uid == getuid() || found->idiag_uid == geteuid()
             ? CLU_PEER_OWN
             : CLU_PEER_OTHER;
}
#else
int clu_os_peer_user(clu_fd fd) {
  (void)fd;
  return CLU_PEER_UNKNOWN;
}
#endif

int clu_os_poll(clu_watch *set, int count, int64_t wait_ns, int *n, clu_err *e) {
  struct pollfd few[32], *p = few;
  int k;
  *n = 0;
  if (count > 32 && !(p = malloc((size_t)count * sizeof *p)))
    return clu_fail(e, CLU_NOMEM, 0, "not enough memory");
  for (int i = 0; i < count; i++) {
    p[i].fd = set[i].fd == CLU_NO_FD ? -1 : (int)set[i].fd; /* poll() skips negative ones */
    p[i].events =
        (short)((set[i].want & CLU_READ ? POLLIN : 0) | (set[i].want & CLU_WRITE ? POLLOUT : 0));
    p[i].revents = 0;
    set[i].ready = 0;
  }
  k = poll(p, (nfds_t)count, clu_os_wait_ms(wait_ns));
  if (k < 0) {
    int err = errno;
    if (p != few) free(p);
    return err == EINTR ? CLU_OK : clu_fail(e, CLU_SYS, err, "waiting failed: %s", strerror(err));
  }
  for (int i = 0; i < count && k > 0; i++) {
    short r = p[i].revents;
    if (!r) continue;
    if (r & POLLIN) set[i].ready |= CLU_READ;
    if (r & POLLOUT) set[i].ready |= CLU_WRITE;
    if (r & (POLLERR | POLLHUP | POLLNVAL)) set[i].ready |= CLU_READ | CLU_WRITE;
    set[i].ready &= set[i].want;
    if (set[i].ready) ++*n;
  }
  if (p != few) free(p);
  return CLU_OK;
}

int clu_os_reader_has_gone(clu_fd fd) {
  struct pollfd p = {(int)fd, 0, 0};
  return poll(&p, 1, 0) == 1 && (p.revents & (POLLERR | POLLHUP));
}
