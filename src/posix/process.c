/* Processes on POSIX systems: start, fork, signal, reap, and noticing that the parent has gone. */
#if defined(__linux__)
#define _GNU_SOURCE
#elif defined(__APPLE__)
#define _DARWIN_C_SOURCE
#endif

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include "posix/features.h"
#if defined(CLU_HAVE_PRCTL)
#include <sys/prctl.h>
#endif
#if defined(CLU_HAVE_CLOSE_RANGE)
#include <sys/syscall.h>
#endif
#if defined(CLU_HAVE_VFORK)
/* vfork: a session may hold tens of gigabytes, whose page tables fork() would copy for nothing */
#define fork_to_exec vfork
#else
#define fork_to_exec fork
#endif

#include "core/base/os.h"
#include "posix/fd.h"

extern char **environ;

const int CLU_SIG_INT = SIGINT, CLU_SIG_NUDGE = SIGURG, CLU_SIG_TERM = SIGTERM, CLU_SIG_KILL = SIGKILL;

char **clu_os_environ(void) { return environ; }
int clu_os_setenv(const char *name, const char *value) {
  return (value ? setenv(name, value, 1) : unsetenv(name)) == 0 ? CLU_OK : CLU_SYS;
}
clu_pid clu_os_getpid(void) { return getpid(); }
clu_pid clu_os_getppid(void) { return getppid(); }

void clu_os_end_self(void) {
  for (;;) kill(getpid(), SIGKILL);
}

int clu_os_kill(clu_pid pid, int sig, int group) {
  return kill(group ? -(pid_t)pid : (pid_t)pid, sig) == 0 ? 0 : errno;
}

/* ---- start ---- */

/* Only async-signal-safe calls from here to exec. */
static void close_from(int least) {
#if defined(CLU_HAVE_CLOSE_RANGE) && defined(SYS_close_range)
  if (syscall(SYS_close_range, (unsigned)least, ~0u, 0u) == 0) return;
#endif
  {
    struct rlimit r;
    int top = 1 << 16;
    if (getrlimit(RLIMIT_NOFILE, &r) == 0 && r.rlim_cur != RLIM_INFINITY &&
        r.rlim_cur < (rlim_t)(1 << 20))
      top = (int)r.rlim_cur;
    for (int i = least; i < top; i++) close(i);
  }
}

#define MAX_KEEP 8

static int child_setup(const clu_spawn *s) {
  int from[4 + MAX_KEEP], n = 3 + s->nkeep;
  for (int i = 0; i < n; i++) {
    clu_fd fd = i == 0 ? s->in : i == 1 ? s->out : i == 2 ? s->err : s->keep[i - 3];
    if (fd == CLU_NO_FD)
      from[i] = open("/dev/null", (i == 0 ? O_RDONLY : O_WRONLY) | O_CLOEXEC);
    else
      from[i] = (int)fd;
    if (from[i] < 0) return errno;
    from[i] = clu_fd_dup(from[i], 3 + MAX_KEEP + 16); /* out of the way of the final numbers */
    if (from[i] < 0) return errno == EINVAL ? EMFILE : errno; /* the limit is below that number */
  }
  for (int i = 0; i < n; i++)
    if (dup2(from[i], i) < 0) return errno;
  close_from(n);
  return 0;
}

int clu_os_spawn(const clu_spawn *s, clu_pid *out, clu_err *e) {
  sigset_t all, old;
  volatile int err = 0;
  int report[2] = {-1, -1}; /* carries errno of the child where fork() shares no memory */
  pid_t pid, parent = getpid();
  if (s->nkeep > MAX_KEEP) return clu_fail(e, CLU_SYS, EINVAL, "too many descriptors to keep");
  if (clu_fd_pipe(report, 0) != 0)
    return clu_fail(e, CLU_LIMIT, errno, "no pipe can be made: %s", strerror(errno));
  sigfillset(&all);
  sigprocmask(SIG_SETMASK, &all, &old); /* no handler of ours may run in the child */
  pid = fork_to_exec();
  if (pid == 0) {
    int e2;
    sigset_t none;
    for (int sig = 1; sig < NSIG; sig++) {
      struct sigaction a;
      if (sigaction(sig, NULL, &a) == 0 && a.sa_handler != SIG_DFL) {
        memset(&a, 0, sizeof a);
        a.sa_handler = SIG_DFL;
        sigaction(sig, &a, NULL);
      }
    }
    if (s->new_session)
      setsid();
    else
      setpgid(0, 0);
    /* the program keeps it; a parent that is gone already sends nothing */
    if (s->follow && clu_os_follow_parent(parent, 0) == CLU_DEAD)
      for (;;) kill(getpid(), SIGKILL);
    /* the pipe's write end must outlive close_from(): it is the last of the kept ones */
    {
      clu_spawn t = *s;
      clu_fd keep[MAX_KEEP + 1];
      for (int i = 0; i < s->nkeep; i++) keep[i] = s->keep[i];
      keep[s->nkeep] = report[1];
      t.keep = keep;
      t.nkeep = s->nkeep + 1;
      e2 = child_setup(&t);
      if (!e2) fcntl(3 + s->nkeep, F_SETFD, FD_CLOEXEC);
    }
    if (!e2) {
      sigemptyset(&none);
      sigprocmask(SIG_SETMASK, &none, NULL);
      execve(s->file, s->argv, s->envp ? s->envp : environ);
      e2 = errno;
      if (write(3 + s->nkeep, &e2, sizeof e2) < 0) e2 = errno;
    } else if (write(report[1], &e2, sizeof e2) < 0) {
      e2 = errno;
    }
    for (;;) kill(getpid(), SIGKILL);
  }
  if (pid < 0) err = errno;
  sigprocmask(SIG_SETMASK, &old, NULL);
  close(report[1]);
  if (pid > 0) {
    int e2 = 0;
    ssize_t k;
    do k = read(report[0], &e2, sizeof e2);
    while (k < 0 && errno == EINTR);
    if (k == (ssize_t)sizeof e2) {
      err = e2;
      while (waitpid(pid, NULL, 0) < 0 && errno == EINTR) continue;
    }
  }
  close(report[0]);
  if (err)
    return clu_fail(e, err == EAGAIN || err == ENOMEM || err == EMFILE || err == ENFILE ? CLU_LIMIT : CLU_SYS, err,
                    "'%s' cannot be started: %s", s->file, strerror(err));
  *out = pid;
  return CLU_OK;
}

int clu_os_kept(int i, clu_fd *fd) {
  *fd = 3 + i;
  return fcntl(3 + i, F_GETFD) < 0 ? CLU_SYS : CLU_OK;
}

int clu_os_fork(clu_pid *out, clu_err *e) {
  sigset_t all, old;
  pid_t pid;
  int err;
  sigfillset(&all);
  sigprocmask(SIG_SETMASK, &all, &old); /* the supervisor's handlers must not run in the child */
  pid = fork();
  err = errno;
  if (pid == 0) {
    setpgid(0, 0);
    clu_os_watch_end();
  } else if (pid > 0) {
    setpgid(pid, pid); /* in both, so that it holds whoever is first */
  }
  sigprocmask(SIG_SETMASK, &old, NULL);
  if (pid < 0)
    return clu_fail(e, err == EAGAIN || err == ENOMEM ? CLU_LIMIT : CLU_SYS, err,
                    "no process can be forked: %s", strerror(err));
  *out = pid;
  return CLU_OK;
}

/* ---- what descendants leave ---- */

int clu_os_adopt_orphans(void) {
#if defined(CLU_HAVE_PRCTL) && defined(PR_SET_CHILD_SUBREAPER)
  return prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0 ? CLU_OK : CLU_UNSUPPORTED;
#else
  return CLU_UNSUPPORTED;
#endif
}

#if defined(CLU_HAVE_PROC)
static int add_pid(clu_pid **list, int *n, int *cap, clu_pid pid) {
  if (*n == *cap) {
    int more = *cap ? 2 * *cap : 64;
    clu_pid *p = realloc(*list, (size_t)more * sizeof *p);
    if (!p) return CLU_NOMEM;
    *list = p;
    *cap = more;
  }
  (*list)[(*n)++] = pid;
  return CLU_OK;
}

static long long parent_of(const char *pid) {
  char path[300], text[512], *end;
  long long parent = -1;
  FILE *f;
  snprintf(path, sizeof path, "/proc/%s/stat", pid);
  if (!(f = fopen(path, "re"))) return -1;
  text[fread(text, 1, sizeof text - 1, f)] = 0;
  fclose(f);
  if (!(end = strrchr(text, ')')) || sscanf(end + 1, " %*c %lld", &parent) != 1) return -1;
  return parent;
}

int clu_os_children(clu_pid **out, int *n) {
  char path[64];
  long long pid;
  int cap = 0, rc = CLU_OK;
  FILE *f;
  *out = NULL;
  *n = 0;
  snprintf(path, sizeof path, "/proc/%d/task/%d/children", (int)getpid(), (int)getpid());
  if ((f = fopen(path, "re"))) {
    while (rc == CLU_OK && fscanf(f, "%lld", &pid) == 1) rc = add_pid(out, n, &cap, pid);
    fclose(f);
  } else { /* a kernel built without that file */
    DIR *d = opendir("/proc");
    struct dirent *e;
    if (!d) return CLU_SYS;
    while (rc == CLU_OK && (e = readdir(d)))
      if (e->d_name[0] >= '1' && e->d_name[0] <= '9' && parent_of(e->d_name) == getpid()) rc = add_pid(out, n, &cap, atoll(e->d_name));
    closedir(d);
  }
  if (rc == CLU_OK) return CLU_OK;
  free(*out);
  return rc;
}

int clu_os_env_of(clu_pid pid, const char *name, char *out, size_t cap) {
  char path[64], *line = NULL;
  size_t room = 0, k = strlen(name);
  ssize_t len;
  int rc = CLU_EOF;
  FILE *f;
  snprintf(path, sizeof path, "/proc/%lld/environ", (long long)pid);
  if (!(f = fopen(path, "re"))) return CLU_SYS;
  while (rc == CLU_EOF && (len = getdelim(&line, &room, 0, f)) > 0)
    if (strncmp(line, name, k) == 0 && line[k] == '=') {
      snprintf(out, cap, "%s", line + k + 1);
      rc = CLU_OK;
    }
  free(line);
  fclose(f);
  return rc;
}
#else
int clu_os_children(clu_pid **out, int *n) {
  *out = NULL;
  *n = 0;
  return CLU_UNSUPPORTED;
}

int clu_os_env_of(clu_pid pid, const char *name, char *out, size_t cap) {
  (void)pid;
  (void)name;
  (void)out;
  (void)cap;
  return CLU_UNSUPPORTED;
}
#endif

void clu_os_mark_env(const char *name, const char *value) {
  char *old = getenv(name);
  if (old && strlen(old) == strlen(value))
    memcpy(old, value, strlen(value));
  else
    setenv(name, value, 1);
}

/* ---- ends ---- */

int clu_os_reap(clu_pid pid, int group, clu_exit *how) {
  siginfo_t info;
  int status;
  memset(&info, 0, sizeof info);
  if (waitid(P_PID, (id_t)pid, &info, WEXITED | WNOHANG | WNOWAIT) != 0)
    return errno == EINTR ? CLU_AGAIN : CLU_DEAD;
  if (info.si_pid == 0) return CLU_AGAIN;
  if (group) kill(-(pid_t)pid, SIGKILL); /* what it started and left */
  while (waitpid((pid_t)pid, &status, 0) < 0)
    if (errno != EINTR) return CLU_DEAD;
  how->by_signal = WIFSIGNALED(status);
  how->code = WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status);
  return CLU_OK;
}

int clu_os_ended_child(clu_pid *pid) {
  siginfo_t info;
  memset(&info, 0, sizeof info);
  if (waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) != 0 || info.si_pid == 0)
    return CLU_AGAIN;
  *pid = info.si_pid;
  return CLU_OK;
}

/* ---- signals ---- */

const char *clu_os_signal_name(int sig) {
  static const struct {
    int sig;
    const char *name;
  } all[] = {
#define NAMED(s) {s, #s},
      NAMED(SIGHUP)
      NAMED(SIGINT)
      NAMED(SIGQUIT)
      NAMED(SIGILL)
      NAMED(SIGABRT)
      NAMED(SIGFPE)
      NAMED(SIGKILL)
      NAMED(SIGSEGV)
      NAMED(SIGPIPE)
      NAMED(SIGALRM)
      NAMED(SIGTERM)
      NAMED(SIGUSR1)
      NAMED(SIGUSR2)
      NAMED(SIGCHLD)
      NAMED(SIGCONT)
      NAMED(SIGSTOP)
      NAMED(SIGTSTP)
      NAMED(SIGTTIN)
      NAMED(SIGTTOU)
      NAMED(SIGBUS)
      NAMED(SIGSYS)
      NAMED(SIGTRAP)
      NAMED(SIGURG)
      NAMED(SIGVTALRM)
      NAMED(SIGXCPU)
      NAMED(SIGXFSZ)
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
  for (size_t i = 0; i < sizeof all / sizeof *all; i++)
    if (all[i].sig == sig) return all[i].name;
#if defined(SIGRTMIN) && defined(SIGRTMAX)
  if (sig >= SIGRTMIN && sig <= SIGRTMAX) {
    static char text[24];
    snprintf(text, sizeof text, "SIGRTMIN+%d", sig - SIGRTMIN);
    return text;
  }
#endif
  return NULL;
}

static void set_handler(int sig, void (*fn)(int), int flags) {
  struct sigaction a;
  memset(&a, 0, sizeof a);
  a.sa_handler = fn;
  a.sa_flags = flags;
  sigemptyset(&a.sa_mask);
  sigaction(sig, &a, NULL);
}

/* A thread that waits and does nothing else: it holds no lock, so this process may still fork. */
static int start_watcher(void *(*fn)(void *)) {
  pthread_attr_t attr;
  pthread_t thread;
  sigset_t all, old;
  int failed;
  pthread_attr_init(&attr);
  pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
  pthread_attr_setstacksize(&attr, 1 << 17);
  sigfillset(&all); /* signals are for R's thread */
  pthread_sigmask(SIG_BLOCK, &all, &old);
  failed = pthread_create(&thread, &attr, fn, NULL);
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
  return start_watcher(watch_parent);
#endif
}

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
  return start_watcher(watch_peer);
}

static clu_pid term_parent, term_self;
static char *term_tmp;

static void on_term(int sig) {
  /* not in a process that the one meant has forked: parallel ends those by SIGTERM */
  if (getpid() == (pid_t)term_self && getppid() != (pid_t)term_parent) {
    /* nobody is left to clean up. vfork, for fork() is not safe here: it takes locks */
    char *argv[] = {(char *)"rm", (char *)"-rf", (char *)"--", term_tmp, NULL};
    pid_t pid = getpgrp() == getpid() ? fork_to_exec() : 0;
    if (pid <= 0) { /* as the child; or where there can be none, this process becomes it */
      execve("/bin/rm", argv, environ);
      kill(getpid(), SIGKILL);
    }
    while (waitpid(pid, NULL, 0) < 0 && errno == EINTR) continue;
    kill(0, SIGKILL); /* what this process has started, and itself */
  }
  signal(sig, SIG_DFL);
  kill(getpid(), sig);
}

int clu_os_on_term(clu_pid parent, const char *tmp) {
  char *copy = tmp ? strdup(tmp) : NULL;
  set_handler(SIGTERM, SIG_DFL, 0);
  free(term_tmp);
  term_tmp = copy;
  term_parent = parent;
  term_self = getpid();
  if (!tmp) return CLU_OK;
  if (!copy) return CLU_NOMEM;
  set_handler(SIGTERM, on_term, SA_NODEFER);
  return CLU_OK;
}

static int watch[2] = {-1, -1};
static struct sigaction int_unwatched;

static void on_nothing(int sig) { (void)sig; }

static void on_watched(int sig) {
  int err = errno;
  char c = sig == SIGTERM ? 't' : 'c';
  if (write(watch[1], &c, 1) < 0) errno = err; /* full: it is readable already */
  errno = err;
}

int clu_os_watch_start(clu_fd *readable, clu_err *e) {
  if (clu_fd_pipe(watch, 1) != 0)
    return clu_fail(e, CLU_LIMIT, errno, "no pipe can be made: %s", strerror(errno));
  set_handler(SIGCHLD, on_watched, SA_NOCLDSTOP);
  set_handler(SIGTERM, on_watched, 0);
  /* a handler, and not SIG_IGN: what is started by exec has the default again */
  sigaction(SIGINT, NULL, &int_unwatched);
  set_handler(SIGINT, on_nothing, SA_RESTART);
  *readable = watch[0];
  return CLU_OK;
}

void clu_os_watch_clear(int *term) {
  char buf[256];
  ssize_t k;
  while ((k = read(watch[0], buf, sizeof buf)) > 0)
    if (memchr(buf, 't', (size_t)k)) *term = 1;
}

void clu_os_watch_end(void) {
  if (watch[0] < 0) return;
  set_handler(SIGCHLD, SIG_DFL, 0);
  set_handler(SIGTERM, SIG_DFL, 0);
  sigaction(SIGINT, &int_unwatched, NULL);
  close(watch[0]);
  close(watch[1]);
  watch[0] = watch[1] = -1;
}

void clu_os_watch_term(void) { set_handler(SIGTERM, on_watched, 0); }

static int (*int_task)(int);
static void (*int_before)(int);

static void on_int(int sig) {
  int err = errno;
  if (int_task(sig == SIGURG) && int_before != SIG_DFL && int_before != SIG_IGN) {
    int_before(SIGINT);
    set_handler(SIGINT, on_int, 0); /* R's own puts itself back with signal() */
  }
  errno = err;
}

void clu_os_on_int(int (*task)(int nudge)) {
  struct sigaction old;
  int_task = task;
  sigaction(SIGINT, NULL, &old);
  int_before = old.sa_handler;
  set_handler(SIGINT, on_int, 0); /* no SA_RESTART: a read or write under way has to see it */
  set_handler(SIGURG, on_int, SA_RESTART);
}

int clu_os_redirect_output(clu_fd out, clu_fd err) {
  return dup2((int)out, 1) < 0 || dup2((int)err, 2) < 0 ? CLU_SYS : CLU_OK;
}
