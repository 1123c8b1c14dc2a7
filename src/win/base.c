/* The other socket files of this port are built on this one: Winsock's start, codes of errors, new
 * sockets. */
#include "win/win.h"

#include <mstcpip.h>
#include <string.h>

static BOOL CALLBACK start(PINIT_ONCE once, PVOID arg, PVOID *out) {
  WSADATA about;
  (void)once;
  (void)arg;
  (void)out;
  return WSAStartup(MAKEWORD(2, 2), &about) ==
         0; /* never undone: other users of this process count, too */
}

int clu_win_start(clu_err *e) {
  static INIT_ONCE once = INIT_ONCE_STATIC_INIT;
  if (InitOnceExecuteOnce(&once, start, NULL, NULL)) return CLU_OK;
  return clu_fail(e, CLU_SYS, WSASYSNOTREADY, "the system's sockets (Winsock) cannot be started");
}

int clu_win_code(int err) {
  switch (err) {
  case WSAEWOULDBLOCK:
  case WSAEINTR:
  case WSAEINPROGRESS: return CLU_AGAIN;
  case WSAECONNREFUSED: return CLU_REFUSED;
  case WSAECONNRESET:
  case WSAECONNABORTED:
  case WSAENETRESET: /* keepalive found the peer gone */
  case WSAENOTCONN:
  case WSAEDISCON:
  case WSAESHUTDOWN: return CLU_RESET;
  case WSAETIMEDOUT: return CLU_TIMEOUT;
  case WSAENETUNREACH:
  case WSAEHOSTUNREACH:
  case WSAENETDOWN:
  case WSAEHOSTDOWN:
  case WSAEADDRNOTAVAIL: return CLU_UNREACHABLE;
  case WSAEADDRINUSE:
  case WSAEACCES: return CLU_IN_USE; /* another socket has the port to itself alone */
  case WSAEMFILE:
  case WSAENOBUFS: return CLU_LIMIT; /* of sockets: also when all local ports are used up */
  case WSA_NOT_ENOUGH_MEMORY: return CLU_NOMEM;
  case WSAEAFNOSUPPORT: return CLU_UNSUPPORTED;
  default: return CLU_SYS;
  }
}

int clu_win_transfer_code(int err) {
  int code;
  if (err == WSAENOBUFS) return CLU_AGAIN; /* the system has no buffers just now */
  code = clu_win_code(err);
  if (code == CLU_TIMEOUT) return CLU_RESET; /* the peer has not confirmed for too long */
  return code == CLU_AGAIN || code == CLU_RESET ? code : CLU_SYS;
}

int clu_win_prepare(SOCKET s) {
  u_long on = 1;
  int err;
  if (SetHandleInformation((HANDLE)s, HANDLE_FLAG_INHERIT, 0) &&
      ioctlsocket(s, (long)FIONBIO, &on) == 0)
    return 0;
  err = WSAGetLastError(); /* GetLastError() by another name */
  closesocket(s);
  WSASetLastError(err);
  return err ? err : WSAENOTSOCK;
}

SOCKET clu_win_socket(int family) {
  SOCKET s =
      WSASocketW(family, SOCK_STREAM, 0, NULL, 0, WSA_FLAG_OVERLAPPED | WSA_FLAG_NO_HANDLE_INHERIT);
  if (s == INVALID_SOCKET) return s;
  return clu_win_prepare(s) ? INVALID_SOCKET : s;
}

/* Windows asks a port that has refused twice more, half a second apart: two seconds for a dead
 * port, where nothing can have been lost on the way. One repetition, as early as it can be had.
 * "None" is not asked for: before Windows 10 version 1709 that is read as 255 repetitions, two
 * minutes. Systems before Windows 8, and wine, know nothing of this. */
int clu_win_refuse_fast(SOCKET s) {
  struct {
    USHORT rtt; /* ms */
    UCHAR repetitions;
  } how = {1, 1};
  DWORD n;
#ifndef SIO_TCP_INITIAL_RTO
  const DWORD code = _WSAIOW(IOC_VENDOR, 17);
#else
  const DWORD code = SIO_TCP_INITIAL_RTO;
#endif
  if (WSAIoctl(s, code, &how, sizeof how, NULL, 0, &n, NULL, NULL) == 0) return 0;
  how.rtt = 250; /* which all that know it take */
  return WSAIoctl(s, code, &how, sizeof how, NULL, 0, &n, NULL, NULL) == 0 ? 0 : WSAGetLastError();
}
