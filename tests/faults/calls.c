/* A library to be loaded before a program (LD_PRELOAD). At random, system calls take long, move a
 * part of what they could, or fail. CLUTCH_CALLS says which:
 *
 *   "slow P MS Q LONG"  one in P calls waits for up to MS ms, one in Q for up to LONG ms, before
 * and after it; whoever calls "short P Q"         one in P calls that may block is interrupted
 * (EINTR), one in Q transfers of a stream moves only a part "fail FILE"         one in N calls
 * fails, and one in 4 N that ask for memory. FILE has two 32-bit numbers: N (0: none fails), which
 * may be changed at any time, and how many have failed
 *
 * Calls are interrupted, short or fail only where the package makes them: others, R too, need not
 * bear it. A call on a non-blocking descriptor is never interrupted, as in the system.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { MOST_PIECES = 64 };

static unsigned slow_p, slow_ms, slow_q, slow_long, interrupted_p, short_q;
static volatile uint32_t nothing[2];
static volatile uint32_t *failing = nothing;

static volatile uint32_t *numbers_in(const char *file) {
  int fd = (int)syscall(SYS_openat, AT_FDCWD, file, O_RDWR | O_CLOEXEC, 0);
  void *p = MAP_FAILED;
  if (fd >= 0) p = (void *)syscall(SYS_mmap, 0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (fd >= 0) syscall(SYS_close, fd);
  return p == MAP_FAILED ? nothing : p;
}

__attribute__((constructor)) static void begin(void) {
  const char *what = getenv("CLUTCH_CALLS");
  if (!what) return;
  if (sscanf(what, "slow %u %u %u %u", &slow_p, &slow_ms, &slow_q, &slow_long) == 4) return;
  if (sscanf(what, "short %u %u", &interrupted_p, &short_q) == 2) return;
  if (strncmp(what, "fail ", 5) == 0) failing = numbers_in(what + 5);
}

/* ---- chance, for each thread and each child its own ---- */

static uint64_t draw(void) {
  static __thread uint64_t state;
  static __thread long owner;
  long me = syscall(SYS_gettid);
  if (owner != me) {
    struct timespec t;
    syscall(SYS_clock_gettime, CLOCK_MONOTONIC, &t);
    owner = me;
    state = ((uint64_t)me * 0x9e3779b97f4a7c15u ^ (uint64_t)t.tv_nsec * 0xbf58476d1ce4e5b9u) | 1;
  }
  state ^= state << 13;
  state ^= state >> 7;
  state ^= state << 17;
  return (state * 0x2545f4914f6cdd1du) >> 16;
}

static int one_in(uint64_t n) { return n > 0 && draw() % n == 0; }

static void wait_a_while(void) {
  int err = errno;
  unsigned ms = one_in(slow_p) ? slow_ms : one_in(slow_q) ? slow_long : 0;
  if (ms) {
    uint64_t ns = draw() % (ms * UINT64_C(1000000));
    struct timespec t = {(time_t)(ns / 1000000000), (long)(ns % 1000000000)};
    syscall(SYS_clock_nanosleep, CLOCK_MONOTONIC, 0, &t, NULL);
  }
  errno = err;
}

/* ---- who calls ---- */

static __thread int looks; /* dladdr() may ask for memory */

static int is_package(void *caller) {
  static __thread void *known[64];
  static __thread char is[64];
  unsigned at = (unsigned)((uintptr_t)caller >> 2) & 63;
  if (looks) return 0;
  if (known[at] != caller) {
    Dl_info i;
    looks = 1;
    is[at] = dladdr(caller, &i) && i.dli_fname && strstr(i.dli_fname, "clutch.so");
    looks = 0;
    known[at] = caller;
  }
  return is[at];
}

static int is_failing(void *caller, unsigned times) {
  int err = errno, yes = failing[0] && is_package(caller) && one_in((uint64_t)failing[0] * times);
  if (yes) __sync_fetch_and_add(&failing[1], 1);
  errno = err;
  return yes;
}

static int is_stream(int fd) {
  struct stat st;
  int type = 0;
  socklen_t n = sizeof type;
  if (fstat(fd, &st) != 0) return 0;
  if (S_ISFIFO(st.st_mode)) return 1;
  if (!S_ISSOCK(st.st_mode) || getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &n) != 0) return 0;
  return type == SOCK_STREAM;
}

static int is_interrupted(void *caller, int fd) {
  int err = errno, yes = interrupted_p && is_package(caller) && is_stream(fd) &&
                         !(syscall(SYS_fcntl, fd, F_GETFL) & O_NONBLOCK) && one_in(interrupted_p);
  errno = err;
  return yes;
}

static int is_short(void *caller, int fd) {
  int err = errno, yes = short_q && is_package(caller) && is_stream(fd) && one_in(short_q);
  errno = err;
  return yes;
}

static size_t part_of(size_t n) { return n > 1 ? 1 + draw() % (n - 1) : n; }

/* Some of the bytes of these pieces: how many pieces they are. */
static size_t some_pieces(const struct iovec *from, size_t n, struct iovec to[MOST_PIECES]) {
  size_t sum = 0, i;
  for (i = 0; i < n; i++) sum += from[i].iov_len;
  sum = part_of(sum);
  for (i = 0; i < n && sum > 0; i++) {
    to[i] = from[i];
    if (to[i].iov_len > sum) to[i].iov_len = sum;
    sum -= to[i].iov_len;
  }
  return i;
}

/* ---- the calls ---- */

#define HERE __builtin_return_address(0)
#define FAIL(times, err)           \
  if (is_failing(HERE, (times))) { \
    errno = (err);                 \
    return -1;                     \
  }
#define INTERRUPT(fd)               \
  if (is_interrupted(HERE, (fd))) { \
    errno = EINTR;                  \
    return -1;                      \
  }
#define INTERRUPT_WAIT(blocks)                                 \
  if ((blocks) && is_package(HERE) && one_in(interrupted_p)) { \
    errno = EINTR;                                             \
    return -1;                                                 \
  }
#define CUT(fd, n) \
  if (is_short(HERE, (fd))) (n) = part_of(n);

/* `first` is done before the call. */
#define CALL(type, name, params, args, first)                  \
  type name params {                                           \
    static type(*real) params;                                 \
    type out;                                                  \
    if (!real) real = (type(*) params)dlsym(RTLD_NEXT, #name); \
    wait_a_while();                                            \
    first out = real args;                                     \
    wait_a_while();                                            \
    return out;                                                \
  }

CALL(ssize_t, read, (int fd, void *p, size_t n), (fd, p, n), INTERRUPT(fd) CUT(fd, n))
CALL(ssize_t, write, (int fd, const void *p, size_t n), (fd, p, n), INTERRUPT(fd) CUT(fd, n))
CALL(ssize_t, send, (int fd, const void *p, size_t n, int how), (fd, p, n, how),
     INTERRUPT(fd) CUT(fd, n))
CALL(ssize_t, recv, (int fd, void *p, size_t n, int how), (fd, p, n, how), INTERRUPT(fd) CUT(fd, n))
CALL(ssize_t, pread64, (int fd, void *p, size_t n, off64_t at), (fd, p, n, at),
     if (short_q && is_package(HERE) && one_in(short_q)) n = part_of(n);)
CALL(ssize_t, pwrite64, (int fd, const void *p, size_t n, off64_t at), (fd, p, n, at),
     FAIL(2, ENOSPC) if (short_q && is_package(HERE) && one_in(short_q)) n = part_of(n);)

CALL(
    ssize_t, readv, (int fd, const struct iovec *v, int n), (fd, v, n),
    INTERRUPT(fd) struct iovec some[MOST_PIECES];
    if (n <= MOST_PIECES && is_short(HERE, fd)) {
      n = (int)some_pieces(v, (size_t)n, some);
      v = some;
    })
CALL(
    ssize_t, sendmsg, (int fd, const struct msghdr *m, int how), (fd, m, how),
    INTERRUPT(fd) struct iovec some[MOST_PIECES];
    struct msghdr less; if (m->msg_iovlen <= MOST_PIECES && is_short(HERE, fd)) {
      less = *m;
      less.msg_iovlen = some_pieces(m->msg_iov, m->msg_iovlen, some);
      less.msg_iov = some;
      m = &less;
    })

/* What the system writes into `m` has to arrive there. */
ssize_t recvmsg(int fd, struct msghdr *m, int how) {
  static ssize_t (*real)(int, struct msghdr *, int);
  struct iovec some[MOST_PIECES], *all = m->msg_iov;
  size_t n = m->msg_iovlen;
  ssize_t out;
  if (!real) real = (ssize_t(*)(int, struct msghdr *, int))dlsym(RTLD_NEXT, "recvmsg");
  wait_a_while();
  INTERRUPT(fd)
  if (n <= MOST_PIECES && is_short(HERE, fd)) {
    m->msg_iovlen = some_pieces(all, n, some);
    m->msg_iov = some;
  }
  out = real(fd, m, how);
  m->msg_iov = all;
  m->msg_iovlen = n;
  wait_a_while();
  return out;
}

CALL(int, poll, (struct pollfd * p, nfds_t n, int ms), (p, n, ms), INTERRUPT_WAIT(ms != 0))
CALL(int, epoll_wait, (int ep, struct epoll_event *p, int n, int ms), (ep, p, n, ms),
     INTERRUPT_WAIT(ms != 0))
CALL(pid_t, waitpid, (pid_t pid, int *status, int how), (pid, status, how),
     INTERRUPT_WAIT(!(how & WNOHANG)))
CALL(int, waitid, (idtype_t type, id_t id, siginfo_t *info, int how), (type, id, info, how), )

CALL(int, socket, (int family, int type, int protocol), (family, type, protocol), FAIL(1, EMFILE))
CALL(int, socketpair, (int family, int type, int protocol, int pair[2]),
     (family, type, protocol, pair), FAIL(1, EMFILE))
CALL(int, pipe2, (int ends[2], int how), (ends, how), FAIL(1, EMFILE))
CALL(int, accept4, (int fd, struct sockaddr *at, socklen_t *n, int how), (fd, at, n, how),
     FAIL(1, EMFILE))
CALL(int, connect, (int fd, const struct sockaddr *to, socklen_t n), (fd, to, n),
     FAIL(1, ECONNREFUSED))
CALL(int, bind, (int fd, const struct sockaddr *at, socklen_t n), (fd, at, n), )
CALL(int, listen, (int fd, int n), (fd, n), FAIL(1, EADDRINUSE))
CALL(int, epoll_create1, (int how), (how), FAIL(1, EMFILE))
CALL(int, epoll_ctl, (int ep, int what, int fd, struct epoll_event *e), (ep, what, fd, e),
     if (what == EPOLL_CTL_ADD) FAIL(1, ENOSPC))
CALL(int, memfd_create, (const char *name, unsigned how), (name, how), FAIL(1, EMFILE))
CALL(int, ftruncate64, (int fd, off64_t n), (fd, n), FAIL(1, ENOSPC))
CALL(int, mkdir, (const char *path, mode_t mode), (path, mode), FAIL(1, ENOSPC))
CALL(int, unlink, (const char *path), (path), )
CALL(int, rename, (const char *from, const char *to), (from, to), )
CALL(int, close, (int fd), (fd), )
CALL(int, kill, (pid_t pid, int sig), (pid, sig), )
CALL(pid_t, fork, (void), (), FAIL(1, EAGAIN))
CALL(int, pthread_mutex_lock, (pthread_mutex_t * m), (m), )
CALL(int, pthread_mutex_unlock, (pthread_mutex_t * m), (m), )
CALL(int, pthread_create,
     (pthread_t * thread, const pthread_attr_t *how, void *(*run)(void *), void *data),
     (thread, how, run, data), if (is_failing(HERE, 1)) return EAGAIN;)

int open64(const char *path, int how, ...) {
  static int (*real)(const char *, int, ...);
  va_list more;
  mode_t mode;
  int out;
  va_start(more, how);
  mode = va_arg(more, mode_t);
  va_end(more);
  if (!real) real = (int (*)(const char *, int, ...))dlsym(RTLD_NEXT, "open64");
  wait_a_while();
  FAIL(1, one_in(2) ? EMFILE : EIO)
  out = real(path, how, mode);
  wait_a_while();
  return out;
}

void *mmap64(void *at, size_t n, int protection, int how, int fd, off64_t offset) {
  static void *(*real)(void *, size_t, int, int, int, off64_t);
  if (!real) real = (void *(*)(void *, size_t, int, int, int, off64_t))dlsym(RTLD_NEXT, "mmap64");
  if (is_failing(HERE, 1)) {
    errno = ENOMEM;
    return MAP_FAILED;
  }
  return real(at, n, protection, how, fd, offset);
}

/* ---- memory, as glibc calls its own functions ---- */

extern void *__libc_malloc(size_t n);
extern void *__libc_calloc(size_t n, size_t size);
extern void *__libc_realloc(void *p, size_t n);

#define OR_NONE(x)                         \
  if (failing[0] && is_failing(HERE, 4)) { \
    errno = ENOMEM;                        \
    return NULL;                           \
  }                                        \
  return x;

void *malloc(size_t n) { OR_NONE(__libc_malloc(n)) }
void *calloc(size_t n, size_t size) { OR_NONE(__libc_calloc(n, size)) }
void *realloc(void *p, size_t n) { OR_NONE(__libc_realloc(p, n)) }
