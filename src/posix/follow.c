/* Ending with another process: with the parent, with the peer of a connection, and what is cleared
 * away then. */
#if defined(__linux__)
#define _GNU_SOURCE
#elif defined(__APPLE__)
#define _DARWIN_C_SOURCE
#endif

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <time.h>
#include <unistd.h>

#include "posix/features.h"
#if defined(CLU_HAVE_PRCTL)
#include <sys/prctl.h>
#endif

#include "core/base/os.h"
#include "posix/fd.h"
#include "posix/process.h"

extern char **environ;

/* A thread that waits and does nothing else: it holds no lock, so this process may still fork.
 * `joined` NULL: nobody waits for its end. */
static int start_watcher(void *(*fn)(void *), pthread_t *joined) {
  pthread_attr_t attr;
  pthread_t thread;
  sigset_t all, old;
  int failed;
  pthread_attr_init(&attr);
  if (!joined) pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
  pthread_attr_setstacksize(&attr, 1 << 17);
  sigfillset(&all); /* signals are for R's thread */
  pthread_sigmask(SIG_BLOCK, &all, &old);
  failed = pthread_create(joined ? joined : &thread, &attr, fn, NULL);
  pthread_sigmask(SIG_SETMASK, &old, NULL);
  pthread_attr_destroy(&attr);
  return failed ? CLU_LIMIT : CLU_OK;
}

#if !defined(CLU_HAVE_PRCTL)
static pid_t watched_parent;

static void *watch_parent(void *unused) {
  const struct timespec pause = {0, 200000000};
  (void)unused;
  while (getppid() == watched_parent) nanosleep(&pause, NULL);
  kill(getpid(), SIGTERM);
  return NULL;
}
#endif

int clu_os_follow_parent(clu_pid parent, int may_thread) {
#if defined(CLU_HAVE_PRCTL)
  (void)may_thread;
  prctl(PR_SET_PDEATHSIG, SIGTERM);
  return getppid() == (pid_t)parent ? CLU_OK : CLU_DEAD;
#else
  if (getppid() != (pid_t)parent) return CLU_DEAD;
  if (!may_thread) return CLU_UNSUPPORTED;
  watched_parent = (pid_t)parent;
  return start_watcher(watch_parent, NULL);
#endif
}

int clu_os_follow_nobody(void) {
#if defined(CLU_HAVE_PRCTL)
  return prctl(PR_SET_PDEATHSIG, 0) == 0 ? CLU_OK : CLU_UNSUPPORTED;
#else
  return CLU_UNSUPPORTED;
#endif
}

#if defined(CLU_HAVE_PRCTL)

int clu_os_follow_parent_meanwhile(clu_pid parent) {
  (void)parent; /* the system sends it at any time */
  return CLU_OK;
}

#else

static struct {
  pid_t parent; /* 0: there is no thread */
  pthread_t thread;
  int stop[2]; /* a pipe: a byte in it ends the thread */
} meanwhile;

static void *watch_meanwhile(void *unused) {
  struct pollfd p;
  (void)unused;
  p.fd = meanwhile.stop[0];
  p.events = POLLIN;
  while (getppid() == meanwhile.parent) {
    p.revents = 0;
    if (poll(&p, 1, 200) > 0) return NULL;
  }
  kill(getpid(), SIGTERM);
  return NULL;
}

static void end_meanwhile(void) {
  if (write(meanwhile.stop[1], "", 1) == 1) pthread_join(meanwhile.thread, NULL);
  close(meanwhile.stop[0]);
  close(meanwhile.stop[1]);
  meanwhile.parent = 0;
}

int clu_os_follow_parent_meanwhile(clu_pid parent) {
  if (meanwhile.parent) end_meanwhile();
  if (!parent) return CLU_OK;
  if (clu_fd_pipe(meanwhile.stop, 0) != 0) return CLU_LIMIT;
  meanwhile.parent = (pid_t)parent;
  if (start_watcher(watch_meanwhile, &meanwhile.thread) == CLU_OK) return CLU_OK;
  close(meanwhile.stop[0]);
  close(meanwhile.stop[1]);
  meanwhile.parent = 0;
  return CLU_LIMIT;
}

#endif

static struct {
  int fd;
  struct timespec grace;
} peer;

#if defined(CLU_HAVE_POLLRDHUP)
static void wait_for_peers_end(void) {
  struct pollfd p;
  p.fd = peer.fd;
  p.events = POLLRDHUP; /* and what is always told: errors, the end in both directions */
  do p.revents = 0;
  while (poll(&p, 1, -1) <= 0);
}
#else
/* The end comes behind the bytes that nobody has read yet, and is seen when they have been. */
static void wait_for_peers_end(void) {
  const struct timespec pause = {0, 200000000};
  struct pollfd p;
  char c;
  p.fd = peer.fd;
  p.events = POLLIN;
  for (;;) {
    ssize_t k;
    p.revents = 0;
    if (poll(&p, 1, -1) <= 0) continue;
    if (p.revents & (POLLERR | POLLHUP | POLLNVAL)) return;
    k = recv(peer.fd, &c, 1, MSG_PEEK | MSG_DONTWAIT);
    if (k == 0 || (k < 0 && errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR)) return;
    nanosleep(&pause, NULL);
  }
}
#endif

static void *watch_peer(void *unused) {
  (void)unused;
  wait_for_peers_end();
  nanosleep(&peer.grace, NULL);
  kill(getpid(), SIGTERM);
  return NULL;
}

int clu_os_follow_peer(clu_fd fd, uint64_t grace_ns) {
  peer.fd = (int)fd;
  peer.grace.tv_sec = (time_t)(grace_ns / 1000000000u);
  peer.grace.tv_nsec = (long)(grace_ns % 1000000000u);
  return start_watcher(watch_peer, NULL);
}

static clu_pid term_parent, term_self;
static char *term_tmp;

/* Nobody is left to clean up. fork() is not for a signal handler: it takes locks, and this thread
 * may hold them, in malloc() or in a fork() that the signal has interrupted. So this process itself
 * becomes what removes the folder. No signal is to end it before: another SIGTERM, or that of a
 * timer that was set. They are ignored and not blocked, since shells do not keep a mask. */
static void become_removal(void) {
  char *with_group[] = {(char *)"sh", (char *)"-c", (char *)"/bin/rm -rf -- \"$1\"; kill -9 0",
                        (char *)"sh", term_tmp,     NULL};
  char *alone[] = {(char *)"rm", (char *)"-rf", (char *)"--", term_tmp, NULL};
  int leads = getpgrp() == getpid();
  sigset_t none;
  for (int sig = 1; sig < NSIG; sig++)
    if (sig != SIGKILL && sig != SIGSTOP)
      clu_set_handler(sig, sig == SIGCHLD ? SIG_DFL : SIG_IGN, 0); /* a shell waits for its child */
  sigemptyset(&none);
  pthread_sigmask(SIG_SETMASK, &none, NULL);
  execve(leads ? "/bin/sh" : "/bin/rm", leads ? with_group : alone, environ);
  kill(leads ? 0 : getpid(), SIGKILL); /* what this process has started, and itself */
}

static void on_term(int sig) {
  /* not in a process that the one meant has forked: parallel ends those by SIGTERM */
  if (getpid() == (pid_t)term_self && getppid() != (pid_t)term_parent) become_removal();
  signal(sig, SIG_DFL);
  kill(getpid(), sig); /* when this handler has returned */
}

int clu_os_on_term(clu_pid parent, const char *tmp) {
  char *copy = tmp ? strdup(tmp) : NULL;
  clu_set_handler(SIGTERM, SIG_DFL, 0);
  free(term_tmp);
  term_tmp = copy;
  term_parent = parent;
  term_self = getpid();
  if (!tmp) return CLU_OK;
  if (!copy) return CLU_NOMEM;
  clu_set_handler(SIGTERM, on_term, 0);
  return CLU_OK;
}
