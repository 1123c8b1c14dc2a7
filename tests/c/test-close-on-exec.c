/* Every descriptor is close-on-exec from the start: no call makes one that is not, which a program
 * that another thread starts just then would inherit. */
// link: -Wl,--wrap=socket -Wl,--wrap=socketpair -Wl,--wrap=pipe -Wl,--wrap=accept -Wl,--wrap=dup
// link: -Wl,--wrap=fcntl -Wl,--wrap=open -Wl,--wrap=open64 -Wl,--wrap=fcntl64
#include "test.h"

#include "posix/features.h"
#include "sock-help.h"

static int calls, bare; /* that make descriptors; that make one without the flag */

#define SEEN(ok) (calls++, bare += !(ok))

int __real_socket(int family, int type, int protocol);
int __wrap_socket(int family, int type, int protocol);
int __wrap_socket(int family, int type, int protocol) {
  SEEN(type & SOCK_CLOEXEC);
  return __real_socket(family, type, protocol);
}

int __real_socketpair(int family, int type, int protocol, int fd[2]);
int __wrap_socketpair(int family, int type, int protocol, int fd[2]);
int __wrap_socketpair(int family, int type, int protocol, int fd[2]) {
  SEEN(type & SOCK_CLOEXEC);
  return __real_socketpair(family, type, protocol, fd);
}

int __real_pipe(int fd[2]);
int __wrap_pipe(int fd[2]);
int __wrap_pipe(int fd[2]) {
  SEEN(0);
  return __real_pipe(fd);
}

int __real_accept(int fd, struct sockaddr *a, socklen_t *n);
int __wrap_accept(int fd, struct sockaddr *a, socklen_t *n);
int __wrap_accept(int fd, struct sockaddr *a, socklen_t *n) {
  SEEN(0);
  return __real_accept(fd, a, n);
}

int __real_dup(int fd);
int __wrap_dup(int fd);
int __wrap_dup(int fd) {
  SEEN(0);
  return __real_dup(fd);
}

/* glibc has names of its own for these where offsets have 64 bits */
#if defined(__USE_FILE_OFFSET64)
#define WRAP(name) __wrap_##name##64
#define REAL(name) __real_##name##64
#else
#define WRAP(name) __wrap_##name
#define REAL(name) __real_##name
#endif

int REAL(fcntl)(int fd, int what, ...);
int WRAP(fcntl)(int fd, int what, ...);
int WRAP(fcntl)(int fd, int what, ...) {
  va_list ap;
  long value;
  va_start(ap, what);
  value = what == F_GETFD || what == F_GETFL ? 0 : va_arg(ap, int);
  va_end(ap);
  if (what == F_DUPFD || what == F_DUPFD_CLOEXEC) SEEN(what == F_DUPFD_CLOEXEC);
  return REAL(fcntl)(fd, what, value);
}

int REAL(open)(const char *path, int flags, ...);
int WRAP(open)(const char *path, int flags, ...);
int WRAP(open)(const char *path, int flags, ...) {
  va_list ap;
  int mode;
  va_start(ap, flags);
  mode = flags & O_CREAT ? va_arg(ap, int) : 0;
  va_end(ap);
  SEEN(flags & O_CLOEXEC);
  return REAL(open)(path, flags, mode);
}

TEST_UNUSED static void counts_since(int *from, const char *what) {
  if (calls == *from)
    test_fail(__FILE__, __LINE__, "%s made no descriptor that is seen here", what);
  if (bare) test_fail(__FILE__, __LINE__, "%s: %d descriptors without the flag", what, bare);
  *from = calls;
  bare = 0;
}

TEST(no_descriptor_is_made_without_close_on_exec) {
#if !defined(CLU_HAVE_PIPE2)
  SKIP("this system has no such calls");
#else
  char folder[] = "/tmp/clutch-cloexec-XXXXXX", path[64];
  char *argv[] = {(char *)"true", NULL};
  clu_spawn how = {"/bin/true", argv, NULL, CLU_NO_FD, CLU_NO_FD, CLU_NO_FD, NULL, 0, 0, 0, 0, 0};
  clu_err e = {0, 0, ""};
  clu_sock *a, *b, *l;
  clu_fd fd[2], copy;
  clu_pid pid;
  clu_exit end;
  int from = calls, rc;
  void *p;
  bare = 0;
  REQUIRE(clu_os_pair(fd, &e) == CLU_OK);
  clu_os_move_high(&fd[0], 500);
  REQUIRE(clu_os_dup(fd[1], &copy) == CLU_OK);
  counts_since(&from, "a pair");
  clu_os_close(copy);
  clu_os_close(fd[0]);
  clu_os_close(fd[1]);
  tcp_pair(&a, &b);
  counts_since(&from, "a connection");
  clu_sock_free(a);
  clu_sock_free(b);
  REQUIRE(mkdtemp(folder));
  snprintf(path, sizeof path, "%s/s", folder);
  l = at_path(path, &rc);
  CHECK_INT_EQ(rc, CLU_OK);
  CHECK_INT_EQ(clu_os_path_clear(path), CLU_IN_USE);
  clu_sock_free(l);
  counts_since(&from, "a path");
  REQUIRE(clu_os_watch_start(&copy, &e) == CLU_OK);
  clu_os_watch_end();
  /* pipe2() is not seen here: pipe() would be */
  REQUIRE(clu_os_open_append(strcat(path, "out"), &copy, &e) == CLU_OK);
  clu_os_close(copy);
  unlink(path);
  rmdir(folder);
  REQUIRE(clu_os_shared_new(4096, &p, &copy, &e) == CLU_OK);
  clu_os_shared_free(p, 4096);
  clu_os_close(copy);
  counts_since(&from, "files and the pipe of signals");
  REQUIRE(clu_os_spawn(&how, &pid, &e) ==
          CLU_OK); /* its child shares this memory: what it does is counted, too */
  CHECK_SOON(clu_os_reap(pid, 0, &end) == CLU_OK, 5000);
  calls++;
  counts_since(&from, "a program");
#endif
}
