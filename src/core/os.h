/* The port: everything the core asks of the operating system. src/posix and src/win implement it.
 *
 * No function here blocks unless its comment says so. Every descriptor that is made here is
 * non-blocking and close-on-exec from birth (a leaked one would hide an end of file), and never
 * raises SIGPIPE.
 */
#ifndef CLUTCH_OS_H
#define CLUTCH_OS_H

#include <stddef.h>
#include <stdint.h>

#include "err.h"

typedef intptr_t clu_fd; /* a descriptor, or a SOCKET on Windows */
#define CLU_NO_FD ((clu_fd)-1)
typedef int64_t clu_pid;

/* ---- clock and chance ---- */

/* Monotonic nanoseconds; unrelated to the wall clock, which may be set at any time. */
uint64_t clu_os_now(void);
/* Blocks for `ns`, or until a signal comes. */
void clu_os_pause(uint64_t ns);
/* `n` unpredictable bytes from the system's source. Returns CLU_OK or CLU_SYS. */
int clu_os_random(void *out, size_t n);

/* ---- bytes ---- */

/* A hint that these `n` bytes, just allocated, will all be written: the system may give large pages. */
void clu_os_expect_writes(void *p, size_t n);

typedef struct clu_iov {
  void *base;
  size_t len;
} clu_iov;

/* A wait in the milliseconds that poll() takes: rounded up, -1 for ever, at most a day. */
static inline int clu_os_wait_ms(int64_t ns) {
  const int64_t day = 86400000;
  if (ns < 0) return -1;
  ns = ns / 1000000 + (ns % 1000000 != 0);
  return (int)(ns < day ? ns : day);
}

#define CLU_MAX_IOV 4
#define CLU_MAX_FDS 8 /* descriptors that one read may bring */

/* A connected pair of stream sockets; the caller owns both ends. CLU_LIMIT where descriptors are
 * used up. */
int clu_os_pair(clu_fd out[2], clu_err *e);
/* Moves `*fd` to a number of at least `least`, so that code which uses select() (R's own sockets)
 * keeps the low numbers. Best effort: `*fd` stays as it is where that cannot be done. */
void clu_os_move_high(clu_fd *fd, int least);
/* Reads what is there. CLU_OK (`*got` > 0), CLU_AGAIN, CLU_EOF, CLU_RESET or CLU_SYS. With
 * `fds` not NULL also takes passed descriptors; the caller owns the `*nfds` received (at most
 * CLU_MAX_FDS). On a descriptor made blocking by clu_os_set_blocking() it blocks, and answers
 * CLU_AGAIN when a signal interrupted it. */
int clu_os_readv(clu_fd fd, const clu_iov *iov, int n, size_t *got, clu_fd *fds, int *nfds);
/* Writes what the system takes. CLU_OK (`*put` > 0), CLU_AGAIN, CLU_RESET or CLU_SYS. `pass` is a
 * descriptor to hand over with the first byte, or CLU_NO_FD; the caller keeps its own copy.
 * Blocks as clu_os_readv() does. */
int clu_os_writev(clu_fd fd, const clu_iov *iov, int n, clu_fd pass, size_t *put);
int clu_os_set_blocking(clu_fd fd, int blocking);
int clu_os_set_cloexec(clu_fd fd);
/* A close-on-exec copy of `fd`, the caller's to close. */
int clu_os_dup(clu_fd fd, clu_fd *copy);
/* Closes once; what the system answers is of no use to the caller, the descriptor is gone. */
void clu_os_close(clu_fd fd);
/* Waits until `fd` is readable, at most `wait_ns` (< 0: for ever). Blocks. CLU_OK, CLU_TIMEOUT, or
 * CLU_AGAIN when a signal came. */
int clu_os_wait_readable(clu_fd fd, int64_t wait_ns);
/* Looks again and again for at most `ns` whether `fd` is readable, giving way to others in between:
 * to be woken from a sleep costs more than that where the answer comes soon. 1: it is. */
int clu_os_spin_readable(clu_fd fd, uint64_t ns);
void clu_os_yield(void);

/* ---- readiness: registered interest, so that a wait costs what is ready, not what is watched ---- */

enum { CLU_READ = 1, CLU_WRITE = 2 };
typedef struct clu_poller clu_poller;
typedef struct clu_event {
  void *what;     /* as given to clu_poller_set() */
  unsigned ready; /* CLU_READ and CLU_WRITE; both after an error or hang-up */
} clu_event;

clu_poller *clu_poller_new(clu_err *e);
void clu_poller_free(clu_poller *p); /* accepts NULL; closes no registered descriptor */
/* Registers `fd`, changes its interest, or with `interest` 0 forgets it. `known` says whether it is
 * registered now. A descriptor must be forgotten before it is closed. */
int clu_poller_set(clu_poller *p, clu_fd fd, int known, unsigned interest, void *what, clu_err *e);
/* Waits at most `wait_ns` (< 0: for ever; 0: looks only). Blocks. `*n` events; CLU_OK also when a
 * signal came or the time is up (then `*n` is 0), CLU_SYS otherwise. */
int clu_poller_wait(clu_poller *p, clu_event *events, int max, int *n, int64_t wait_ns, clu_err *e);

/* ---- processes ---- */

typedef struct clu_exit {
  int by_signal; /* 1: `code` is a signal number; 0: an exit status */
  int code;
} clu_exit;

typedef struct clu_spawn {
  const char *file;       /* path of the program */
  char *const *argv;      /* NULL-terminated */
  char *const *envp;      /* NULL-terminated; NULL: this process's */
  clu_fd in, out, err;    /* become 0, 1, 2; CLU_NO_FD: the null device */
  const clu_fd *keep;     /* become 3, 4, ... in this order; everything else is closed */
  int nkeep;
  int new_session;        /* no controlling terminal, so that Ctrl-C there does not reach it */
} clu_spawn;

/* Starts a program. Signals are at their defaults in it. Blocks only until the program is
 * running or has failed to; its errno is reported. */
int clu_os_spawn(const clu_spawn *s, clu_pid *pid, clu_err *e);
/* As fork(): `*pid` is 0 in the child. The child is the leader of a process group of its own.
 * Flushes nothing. */
int clu_os_fork(clu_pid *pid, clu_err *e);
/* The environment as execve() takes it: NULL-terminated, the system's own memory. */
char **clu_os_environ(void);
clu_pid clu_os_getpid(void);
clu_pid clu_os_getppid(void);
/* Sends a signal to a process, or with `group` to the group it leads. 0, or the system's error. */
int clu_os_kill(clu_pid pid, int sig, int group);
extern const int CLU_SIG_INT, CLU_SIG_NUDGE, CLU_SIG_TERM, CLU_SIG_KILL;
/* Whether the child `pid` has ended. CLU_OK: yes, it is reaped and `*how` says how;
 * CLU_AGAIN: it runs; CLU_DEAD: no such child (somebody else reaped it). Its process group gets
 * SIGKILL first when `group` is set, while the pid cannot yet be anybody else's. */
int clu_os_reap(clu_pid pid, int group, clu_exit *how);
/* Any child that has ended and is not yet reaped: CLU_OK and its pid, or CLU_AGAIN. */
int clu_os_ended_child(clu_pid *pid);
/* Ends this process at once, without any exit handler. Does not return. */
void clu_os_end_self(void);

/* Has the system send CLU_SIG_TERM to this process when its parent `parent` ends. CLU_DEAD: it has
 * ended already. Where the system cannot do that, CLU_UNSUPPORTED. */
int clu_os_follow_parent(clu_pid parent);
/* From now on CLU_SIG_TERM ends this process at once, and when its parent is no longer `parent` the
 * folder `tmp` and all in it is removed as its last act; if it leads a process group, that ends with
 * it. In a process forked by this one it just ends that. Async-signal-safe inside. `tmp` is copied;
 * NULL: the default action again. */
int clu_os_on_term(clu_pid parent, const char *tmp);
/* From now on the end of a child, or CLU_SIG_TERM, makes `*readable` readable: a supervisor's way
 * of waiting for both. clu_os_watch_end() undoes it (in a forked child, too). */
int clu_os_watch_start(clu_fd *readable, clu_err *e);
/* Empties it; `*term` becomes 1 when CLU_SIG_TERM came. */
void clu_os_watch_clear(int *term);
void clu_os_watch_end(void);
/* CLU_SIG_TERM goes to the watch again, after clu_os_on_term(). */
void clu_os_watch_term(void);
/* `task` runs in the handler of CLU_SIG_INT; when it returns 1, the handler that was there before is
 * called after it. Reads and writes under way are interrupted. The same for CLU_SIG_NUDGE, then with 1:
 * that one arrives also where CLU_SIG_INT is ignored for a while, as system() does while its child runs,
 * and does nothing to a process that has no handler for it. */
void clu_os_on_int(int (*task)(int nudge));

/* Makes descriptors 1 and 2 copies of `out` and `err`. */
int clu_os_redirect_output(clu_fd out, clu_fd err);
/* Opens `path` for appending, creating it; the caller owns it. */
int clu_os_open_append(const char *path, clu_fd *fd, clu_err *e);

/* ---- memory shared by a supervisor and its nodes ---- */

/* `n` zeroed bytes that stay shared with every process forked later. With `fd` not NULL also a
 * descriptor through which a program started later can map the same bytes. */
int clu_os_shared_new(size_t n, void **p, clu_fd *fd, clu_err *e);
int clu_os_shared_map(clu_fd fd, size_t n, void **p, clu_err *e);

/* ---- files ---- */

/* Makes a new folder "<under>/RtmpXXXXXX", readable by its owner only, and writes its path. */
int clu_os_make_temp(const char *under, char *path, size_t cap, clu_err *e);
/* Removes `path` and all in it; follows no link. Never fails loudly: returns 0 when nothing is left. */
int clu_os_remove_tree(const char *path);

/* ---- limits ---- */

typedef struct clu_limits {
  int64_t fds_soft, fds_hard, fds_open; /* -1: not known or none */
  int64_t procs;                        /* processes of this user, -1: none */
} clu_limits;
void clu_os_limits(clu_limits *out);
/* Raises the soft limit on descriptors to at least `n`. CLU_OK or CLU_LIMIT. */
int clu_os_raise_fds(int64_t n);
/* Cores in the affinity mask, or -1 where the system has none. */
int clu_os_affinity_count(void);
/* Threads of this process, or -1 where the system does not tell. */
int clu_os_thread_count(void);
/* user, system, elapsed, children's user, children's system seconds, as R's proc.time() */
void clu_os_times(double out[5]);
/* How the calling process may be told, when it was forked by others than this package, that these
 * descriptors are not its own: `fn` runs in the child after each fork(). */
int clu_os_after_fork(void (*fn)(void));

#endif
