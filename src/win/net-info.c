/* This file has what Windows tells of sockets. */
#include "win/win.h"

#include <iphlpapi.h>
#include <mstcpip.h>
#include <stdlib.h>
#include <string.h>

/* Windows' own TCP_INFO_v0 (mstcpip.h), which is there from Windows 10 version 1703 on and not in
 * all kits. RttUs and BytesInFlight are what we want of it. */
#define ASK_TCP_INFO _WSAIORW(IOC_VENDOR, 39)
typedef struct tcp_info_0 {
  ULONG state, mss;
  ULONG64 age_ms;
  BOOLEAN timestamps;
  ULONG rtt_us, rtt_least_us, in_flight, cwnd, send_window, receive_window, receive_buffer;
  ULONG64 bytes_out, bytes_in;
  ULONG reordered, bytes_again, fast_again, dup_acks, timeouts;
  UCHAR syn_again;
} tcp_info_0;

/* This state is one of the tables, which count from 1 (MIB_TCP_STATE). TCP_INFO's state is one
 * less. */
static int state_of(unsigned mib) {
  static const unsigned char names[] = {CLU_TCP_NONE,      CLU_TCP_CLOSED,    CLU_TCP_LISTEN,
                                        CLU_TCP_SYN_SENT,  CLU_TCP_SYN_RECV,  CLU_TCP_ESTABLISHED,
                                        CLU_TCP_FIN_WAIT1, CLU_TCP_FIN_WAIT2, CLU_TCP_CLOSE_WAIT,
                                        CLU_TCP_CLOSING,   CLU_TCP_LAST_ACK,  CLU_TCP_TIME_WAIT};
  return mib < sizeof names ? names[mib] : CLU_TCP_NONE;
}

/* The system's table of connections of one family; NULL: not to be had. The caller frees it. */
static void *table(int family) {
  DWORD size = 16384, rc = ERROR_INSUFFICIENT_BUFFER;
  void *p = NULL;
  for (int tries = 0; tries < 8 && rc == ERROR_INSUFFICIENT_BUFFER;
       tries++) { /* it may grow in between */
    free(p);
    if (!(p = malloc(size))) return NULL;
    /* those without the processes: to find out whose they are takes long */
    rc = family == AF_INET ? GetTcpTable(p, &size, FALSE) : GetTcp6Table(p, &size, FALSE);
  }
  if (rc == NO_ERROR) return p;
  free(p);
  return NULL;
}

/* For systems that do not tell it of the socket itself. */
static int state_in_table(const clu_addr *here, const clu_addr *there) {
  int state = CLU_TCP_NONE;
  if (here->family == CLU_INET) {
    struct sockaddr_in a, b;
    MIB_TCPTABLE *t = table(AF_INET);
    memset(&b, 0, sizeof b);
    memcpy(&a, here->bytes, sizeof a);
    if (there->family == CLU_INET) memcpy(&b, there->bytes, sizeof b);
    for (DWORD i = 0; t && i < t->dwNumEntries; i++) {
      const MIB_TCPROW *r = &t->table[i];
      if (r->dwLocalAddr == a.sin_addr.s_addr && (u_short)r->dwLocalPort == a.sin_port &&
          (r->dwState == MIB_TCP_STATE_LISTEN ||
           (r->dwRemoteAddr == b.sin_addr.s_addr && (u_short)r->dwRemotePort == b.sin_port)))
        state = state_of(r->dwState);
    }
    free(t);
  } else if (here->family == CLU_INET6) {
    struct sockaddr_in6 a, b;
    MIB_TCP6TABLE *t = table(AF_INET6);
    memset(&b, 0, sizeof b);
    memcpy(&a, here->bytes, sizeof a);
    if (there->family == CLU_INET6) memcpy(&b, there->bytes, sizeof b);
    for (DWORD i = 0; t && i < t->dwNumEntries; i++) {
      const MIB_TCP6ROW *r = &t->table[i];
      if (memcmp(&r->LocalAddr, &a.sin6_addr, 16) == 0 && (u_short)r->dwLocalPort == a.sin6_port &&
          (r->State == MIB_TCP_STATE_LISTEN || (memcmp(&r->RemoteAddr, &b.sin6_addr, 16) == 0 &&
                                                (u_short)r->dwRemotePort == b.sin6_port)))
        state = state_of(r->State);
    }
    free(t);
  }
  return state;
}

static int ask_tcp_info(SOCKET s, tcp_info_0 *t) {
  DWORD version = 0, n = 0;
  memset(t, 0, sizeof *t);
  return WSAIoctl(s, ASK_TCP_INFO, &version, sizeof version, t, sizeof *t, &n, NULL, NULL) == 0;
}

int64_t clu_os_unconfirmed(clu_fd fd) {
  tcp_info_0 t;
  return ask_tcp_info((SOCKET)fd, &t) ? (int64_t)t.in_flight : -1;
}

static void tcp_status(SOCKET s, clu_sock_status *out, const clu_addr *here) {
  tcp_info_0 t;
  clu_addr there;
  if (ask_tcp_info(s, &t)) {
    out->tcp = state_of(t.state + 1);
    out->rtt_us = t.rtt_us;
    out->queued_out = t.in_flight;
    return;
  }
  clu_os_peer_addr((clu_fd)s, &there);
  out->tcp = state_in_table(here, &there);
}

int clu_os_sock_status(clu_fd fd, clu_sock_status *out) {
  clu_addr local;
  int type = 0, n = sizeof type;
  DWORD on = 0;
  u_long k = 0;
  memset(out, 0, sizeof *out);
  out->queued_in = out->queued_out = out->retransmits = out->rtt_us = out->backlog_used =
      out->backlog_max = -1;
  if (getsockopt((SOCKET)fd, SOL_SOCKET, SO_TYPE, (char *)&type, &n) != 0) return CLU_SYS;
  out->kind = type == SOCK_STREAM  ? CLU_KIND_STREAM
              : type == SOCK_DGRAM ? CLU_KIND_DATAGRAM
                                   : CLU_KIND_OTHER;
  if (clu_os_local_addr(fd, &local) == CLU_OK) out->family = local.family;
  n = sizeof on;
  if (getsockopt((SOCKET)fd, SOL_SOCKET, SO_ACCEPTCONN, (char *)&on, &n) == 0)
    out->listening = on != 0;
  if (out->listening) {
    out->tcp = CLU_TCP_LISTEN;
    return CLU_OK;
  }
  if (out->kind == CLU_KIND_STREAM && out->family != CLU_NO_FAMILY)
    tcp_status((SOCKET)fd, out, &local);
  if (ioctlsocket((SOCKET)fd, FIONREAD, &k) == 0) out->queued_in = (int64_t)k;
  return CLU_OK;
}

int clu_os_peer_user(clu_fd fd) {
  (void)fd;
  return CLU_PEER_UNKNOWN;
}

int clu_os_sockets(clu_fd *out, int max, int *n) {
  (void)
      out; /* handles are numbered with those of everything else, and there is no documented list */
  (void)max;
  *n = 0;
  return CLU_UNSUPPORTED;
}

int clu_os_reader_has_gone(clu_fd fd) {
  (void)fd;
  return 0;
}
