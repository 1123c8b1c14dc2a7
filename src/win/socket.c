/* Bytes over stream sockets on Windows. A clu_fd may also be the handle of a file or
 * of shared memory; only clu_os_close(), clu_os_dup() and clu_os_set_cloexec() take those. */
#include "win/win.h"

#include <string.h>

#include "core/base/os-output.h"

/* One write takes this much at most. The system takes all it is given and keeps a copy of it, in
 * memory that cannot be paged out. */
#define MOST_AT_ONCE (1u << 20)

/* ---- a pair ---- */

static int loopback(SOCKET s, struct sockaddr_in *out, int peer) {
  int n = sizeof *out;
  memset(out, 0, sizeof *out);
  return (peer ? getpeername : getsockname)(s, (struct sockaddr *)out, &n) == 0 &&
         out->sin_family == AF_INET;
}

static int same(const struct sockaddr_in *a, const struct sockaddr_in *b) {
  return a->sin_port == b->sin_port && a->sin_addr.s_addr == b->sin_addr.s_addr;
}

/* The connection from `ours`; others who found the port are turned away. */
static SOCKET accept_ours(SOCKET listener, SOCKET ours, uint64_t end) {
  struct sockaddr_in here, there;
  if (!loopback(ours, &here, 0)) return INVALID_SOCKET;
  for (;;) {
    WSAPOLLFD p = {listener, POLLRDNORM, 0};
    uint64_t now = clu_os_now();
    SOCKET s;
    if (now >= end) {
      WSASetLastError(WSAETIMEDOUT);
      return INVALID_SOCKET;
    }
    if (clu_win_poll(&p, 1, (int64_t)(end - now)) < 0) return INVALID_SOCKET;
    if ((s = accept(listener, NULL, NULL)) == INVALID_SOCKET) continue;
    if (loopback(s, &there, 1) && same(&here, &there))
      return clu_win_prepare(s) ? INVALID_SOCKET : s;
    closesocket(s);
  }
}

/* There is no socketpair(): a connection of this process with itself, over a port that it alone
 * has. */
int clu_os_pair(clu_fd out[2], clu_err *e) {
  uint64_t end = clu_os_now() + 5000000000u;
  struct sockaddr_in at, there;
  SOCKET l, a = INVALID_SOCKET, b = INVALID_SOCKET;
  BOOL on = TRUE;
  char text[CLU_WIN_TEXT];
  int err;
  if (clu_win_start(e) != CLU_OK) return CLU_SYS;
  memset(&at, 0, sizeof at);
  at.sin_family = AF_INET;
  at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  l = clu_win_socket(AF_INET);
  if (l == INVALID_SOCKET) goto failed;
  setsockopt(l, SOL_SOCKET, SO_EXCLUSIVEADDRUSE, (const char *)&on, sizeof on);
  if (bind(l, (const struct sockaddr *)&at, sizeof at) != 0 || listen(l, 16) != 0 ||
      !loopback(l, &at, 0))
    goto failed;
  a = clu_win_socket(AF_INET);
  if (a == INVALID_SOCKET) goto failed;
  if (connect(a, (const struct sockaddr *)&at, sizeof at) != 0 &&
      WSAGetLastError() != WSAEWOULDBLOCK)
    goto failed;
  /* its local address is known once connect() has been called; accept() does not wait for more
   * either */
  b = accept_ours(l, a, end);
  if (b == INVALID_SOCKET) goto failed;
  {
    WSAPOLLFD p = {a, POLLWRNORM, 0};
    uint64_t now = clu_os_now();
    if (clu_win_poll(&p, 1, now < end ? (int64_t)(end - now) : 0) <= 0 || !loopback(a, &there, 1) ||
        !same(&there, &at)) {
      WSASetLastError(WSAETIMEDOUT);
      goto failed;
    }
  }
  closesocket(l);
  setsockopt(a, IPPROTO_TCP, TCP_NODELAY, (const char *)&on, sizeof on);
  setsockopt(b, IPPROTO_TCP, TCP_NODELAY, (const char *)&on, sizeof on);
  out[0] = (clu_fd)a;
  out[1] = (clu_fd)b;
  return CLU_OK;
failed:
  err = WSAGetLastError();
  if (l != INVALID_SOCKET) closesocket(l);
  if (a != INVALID_SOCKET) closesocket(a);
  if (b != INVALID_SOCKET) closesocket(b);
  return clu_fail(e, clu_win_code(err) == CLU_LIMIT ? CLU_LIMIT : CLU_SYS, err,
                  "no pair of sockets can be made: %s", clu_win_text(err, text));
}

/* ---- bytes ---- */

/* At most `most` bytes of `iov`. Returns how many buffers. */
static int buffers(WSABUF *out, const clu_iov *iov, int n, size_t most) {
  int k = 0;
  for (int i = 0; i < n && most > 0; i++) {
    size_t len = iov[i].len < most ? iov[i].len : most;
    out[k].buf = iov[i].base;
    out[k++].len = (ULONG)len;
    most -= len;
  }
  return k;
}

int clu_os_readv(clu_fd fd, const clu_iov *iov, int n, size_t *got, clu_fd *fds, int *nfds) {
  WSABUF b[CLU_MAX_IOV];
  DWORD k = 0, flags = 0;
  if (fds) *nfds = 0;
  n = buffers(b, iov, n, 1u << 30);
  if (WSARecv((SOCKET)fd, b, (DWORD)n, &k, &flags, NULL, NULL) != 0) {
    int err = WSAGetLastError();
    if (err == WSAESHUTDOWN) return CLU_EOF; /* as elsewhere, after this side has shut it */
    if (err != WSANOTINITIALISED) return clu_win_transfer_code(err);
    /* the first call of a process that has inherited its socket */
    if (clu_win_start(NULL) != CLU_OK) return CLU_SYS;
    return CLU_AGAIN;
  }
  if (!k) return CLU_EOF;
  *got = k;
  return CLU_OK;
}

int clu_os_writev(clu_fd fd, const clu_iov *iov, int n, const clu_fd *pass, int npass,
                  size_t *put) {
  WSABUF b[CLU_MAX_IOV];
  DWORD k = 0;
  (void)pass;
  if (npass > 0) return CLU_UNSUPPORTED;
  n = buffers(b, iov, n, MOST_AT_ONCE);
  if (WSASend((SOCKET)fd, b, (DWORD)n, &k, 0, NULL, NULL) != 0) {
    int err = WSAGetLastError();
    if (err != WSANOTINITIALISED) return clu_win_transfer_code(err);
    if (clu_win_start(NULL) != CLU_OK) return CLU_SYS;
    return CLU_AGAIN;
  }
  if (!k) return CLU_AGAIN;
  *put = k;
  return CLU_OK;
}

int clu_os_set_blocking(clu_fd fd, int blocking) {
  u_long on = !blocking;
  if (clu_win_start(NULL) != CLU_OK) return CLU_SYS;
  return ioctlsocket((SOCKET)fd, (long)FIONBIO, &on) == 0 ? CLU_OK : CLU_SYS;
}

int clu_os_set_cloexec(clu_fd fd) {
  return SetHandleInformation((HANDLE)fd, HANDLE_FLAG_INHERIT, 0) ? CLU_OK : CLU_SYS;
}

int clu_os_dup(clu_fd fd, clu_fd *copy) {
  WSAPROTOCOL_INFOW about;
  int type, n = sizeof type;
  HANDLE h;
  if (clu_win_start(NULL) != CLU_OK) return CLU_SYS;
  if (getsockopt((SOCKET)fd, SOL_SOCKET, SO_TYPE, (char *)&type, &n) == 0) {
    SOCKET s;
    if (WSADuplicateSocketW((SOCKET)fd, GetCurrentProcessId(), &about) != 0) return CLU_SYS;
    s = WSASocketW(FROM_PROTOCOL_INFO, FROM_PROTOCOL_INFO, FROM_PROTOCOL_INFO, &about, 0,
                   WSA_FLAG_OVERLAPPED | WSA_FLAG_NO_HANDLE_INHERIT);
    if (s == INVALID_SOCKET) return CLU_SYS;
    SetHandleInformation((HANDLE)s, HANDLE_FLAG_INHERIT, 0);
    *copy = (clu_fd)s;
    return CLU_OK;
  }
  if (!DuplicateHandle(GetCurrentProcess(), (HANDLE)fd, GetCurrentProcess(), &h, 0, FALSE,
                       DUPLICATE_SAME_ACCESS))
    return CLU_SYS;
  *copy = (clu_fd)h;
  return CLU_OK;
}

void clu_os_close(clu_fd fd) {
  if (closesocket((SOCKET)fd) == 0) return;
  if (WSAGetLastError() == WSAENOTSOCK || WSAGetLastError() == WSANOTINITIALISED)
    CloseHandle((HANDLE)fd);
}

void clu_os_move_high(clu_fd *fd, int least) {
  (void)fd; /* select() takes any handle here; its sets are lists */
  (void)least;
}

/* ---- waits for one ---- */

int clu_os_wait_readable(clu_fd fd, int64_t wait_ns) {
  WSAPOLLFD p = {(SOCKET)fd, POLLRDNORM, 0};
  int k;
  if (clu_win_start(NULL) != CLU_OK) return CLU_SYS;
  k = clu_win_poll(&p, 1, wait_ns);
  return k > 0 ? CLU_OK : k == 0 ? CLU_TIMEOUT : CLU_AGAIN;
}

int clu_os_spin_readable(clu_fd fd, uint64_t ns, uint64_t *gave) {
  uint64_t end = clu_os_now() + ns, before, now;
  *gave = 0;
  do {
    WSAPOLLFD p = {(SOCKET)fd, POLLRDNORM, 0};
    if (clu_win_poll(&p, 1, 0) != 0) return 1;
    before = clu_os_now();
    clu_os_yield();
    now = clu_os_now();
    if (now - before > *gave) *gave = now - before;
  } while (now < end);
  return 0;
}

clu_fd clu_os_output_own(clu_fd fd) { return fd; }

int clu_os_output_write(clu_fd fd, const void *p, size_t n, size_t *put) {
  (void)fd;
  (void)p;
  (void)n;
  *put = 0;
  return CLU_UNSUPPORTED;
}
