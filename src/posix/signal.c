/* Signals: their names, handlers, and the pipe by which a supervisor learns of them. */
#if defined(__linux__)
#define _GNU_SOURCE
#elif defined(__APPLE__)
#define _DARWIN_C_SOURCE
#endif

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "core/base/os-signals.h"
#include "core/base/os.h"
#include "posix/fd.h"
#include "posix/process.h"

static const struct {
  int sig;
  const char *name;
} names[] = {
#define NAMED(s) {s, #s},
    NAMED(SIGHUP) NAMED(SIGINT) NAMED(SIGQUIT) NAMED(SIGILL) NAMED(SIGABRT) NAMED(SIGFPE)
        NAMED(SIGKILL) NAMED(SIGSEGV) NAMED(SIGPIPE) NAMED(SIGALRM) NAMED(SIGTERM) NAMED(SIGUSR1)
            NAMED(SIGUSR2) NAMED(SIGCHLD) NAMED(SIGCONT) NAMED(SIGSTOP) NAMED(SIGTSTP)
                NAMED(SIGTTIN) NAMED(SIGTTOU) NAMED(SIGBUS) NAMED(SIGSYS) NAMED(SIGTRAP)
                    NAMED(SIGURG) NAMED(SIGVTALRM) NAMED(SIGXCPU) NAMED(SIGXFSZ)
#if defined(SIGEMT)
                        NAMED(SIGEMT)
#endif
#if defined(SIGINFO)
                            NAMED(SIGINFO)
#endif
#if defined(SIGIO)
                                NAMED(SIGIO)
#endif
#if defined(SIGLOST)
                                    NAMED(SIGLOST)
#endif
#if defined(SIGPROF)
                                        NAMED(SIGPROF)
#endif
#if defined(SIGPWR)
                                            NAMED(SIGPWR)
#endif
#if defined(SIGSTKFLT)
                                                NAMED(SIGSTKFLT)
#endif
#if defined(SIGWINCH)
                                                    NAMED(SIGWINCH)
#endif
#undef NAMED
};

const char *clu_os_signal_name(int sig) {
  for (size_t i = 0; i < sizeof names / sizeof *names; i++)
    if (names[i].sig == sig) return names[i].name;
#if defined(SIGRTMIN) && defined(SIGRTMAX)
  if (sig >= SIGRTMIN && sig <= SIGRTMAX) {
    static char text[24];
    snprintf(text, sizeof text, "SIGRTMIN+%d", sig - SIGRTMIN);
    return text;
  }
#endif
  return NULL;
}

void clu_set_handler(int sig, void (*fn)(int), int flags) {
  struct sigaction a;
  memset(&a, 0, sizeof a);
  a.sa_handler = fn;
  a.sa_flags = flags;
  sigemptyset(&a.sa_mask);
  sigaction(sig, &a, NULL);
}

static int watch[2] = {-1, -1};
static int watch_starts; /* without an end yet */
static struct sigaction int_unwatched;

static void on_nothing(int sig) { (void)sig; }

static void on_watched(int sig) {
  int err = errno;
  char c = sig == SIGTERM ? 't' : 'c';
  if (write(watch[1], &c, 1) < 0) errno = err; /* full: it is readable already */
  errno = err;
}

int clu_os_watch_start(clu_fd *readable, clu_err *e) {
  if (watch_starts == 0 && clu_fd_pipe(watch, 1) != 0)
    return clu_fail(e, CLU_LIMIT, errno, "no pipe can be made: %s", strerror(errno));
  *readable = watch[0];
  if (watch_starts++ > 0) return CLU_OK;
  clu_set_handler(SIGCHLD, on_watched, SA_NOCLDSTOP);
  clu_set_handler(SIGTERM, on_watched, 0);
  /* a handler, and not SIG_IGN: what is started by exec has the default again */
  sigaction(SIGINT, NULL, &int_unwatched);
  clu_set_handler(SIGINT, on_nothing, SA_RESTART);
  return CLU_OK;
}

void clu_os_watch_clear(int *term) {
  char buf[256];
  ssize_t k;
  while ((k = read(watch[0], buf, sizeof buf)) > 0)
    if (memchr(buf, 't', (size_t)k)) *term = 1;
}

void clu_os_watch_end(void) {
  if (watch_starts == 0 || --watch_starts > 0) return;
  clu_set_handler(SIGCHLD, SIG_DFL, 0);
  clu_set_handler(SIGTERM, SIG_DFL, 0);
  sigaction(SIGINT, &int_unwatched, NULL);
  close(watch[0]);
  close(watch[1]);
  watch[0] = watch[1] = -1;
}

void clu_watch_drop(void) {
  if (watch_starts > 1) watch_starts = 1;
  clu_os_watch_end();
}

void clu_os_watch_term(void) { clu_set_handler(SIGTERM, on_watched, 0); }

static volatile sig_atomic_t int_waits;

void clu_os_int_defer(int waits) {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGINT);
  if (waits) int_waits = 1;
  pthread_sigmask(waits ? SIG_BLOCK : SIG_UNBLOCK, &set, NULL);
  if (!waits) int_waits = 0;
}

static int (*int_task)(int);
static void (*int_before)(int);

/* SIGURG comes before SIGINT. Where that one is ignored it stands for it. Otherwise SIGINT has
 * another handler now and then: R waits in select() with one that jumps out of it. Nobody could
 * tell that afterwards, and R would be interrupted twice. */
static void on_int(int sig) {
  int err = errno, is_ignored = 0;
  if (sig == SIGURG) {
    struct sigaction now;
    is_ignored = int_waits || (sigaction(SIGINT, NULL, &now) == 0 && now.sa_handler == SIG_IGN);
  }
  if ((sig == SIGINT || is_ignored) && int_task(is_ignored) && int_before != SIG_DFL &&
      int_before != SIG_IGN) {
    int_before(SIGINT);
    clu_set_handler(SIGINT, on_int, 0); /* R's own puts itself back with signal() */
  }
  errno = err;
}

void clu_os_on_int(int (*task)(int is_ignored)) {
  struct sigaction old;
  int_task = task;
  sigaction(SIGINT, NULL, &old);
  int_before = old.sa_handler;
  clu_set_handler(SIGINT, on_int, 0); /* no SA_RESTART: a read or write under way has to see it */
  clu_set_handler(SIGURG, on_int, SA_RESTART);
}

void clu_os_interrupt(clu_pid pid) {
  kill((pid_t)pid, SIGURG);
  kill(-(pid_t)pid, SIGINT);
}

void clu_os_interrupt_deferred(clu_pid pid) { kill((pid_t)pid, SIGURG); }

static sigset_t before_hold;
static int are_held;

void clu_os_signals_hold(void) {
  sigset_t every;
  if (are_held) return;
  sigfillset(&every);
  pthread_sigmask(SIG_BLOCK, &every, &before_hold);
  are_held = 1;
}

void clu_os_signals_release(void) {
  if (!are_held) return;
  are_held = 0;
  pthread_sigmask(SIG_SETMASK, &before_hold, NULL);
}
