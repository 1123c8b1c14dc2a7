/* Processes on POSIX systems: start, fork, kill, reap. */
#if defined(__linux__)
#define _GNU_SOURCE
#elif defined(__APPLE__)
#define _DARWIN_C_SOURCE
#endif

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

#include "posix/features.h"
#if defined(CLU_HAVE_CLOSE_RANGE)
#include <sys/syscall.h>
#endif

#include "core/base/os.h"
#include "posix/fd.h"
#include "posix/process.h"

extern char **environ;

const int CLU_SIG_INT = SIGINT, CLU_SIG_TERM = SIGTERM, CLU_SIG_KILL = SIGKILL,
          CLU_SIG_STOP = SIGSTOP, CLU_SIG_CONT = SIGCONT;

char **clu_os_environ(void) { return environ; }
int clu_os_setenv(const char *name, const char *value) {
  return (value ? setenv(name, value, 1) : unsetenv(name)) == 0 ? CLU_OK : CLU_SYS;
}
clu_pid clu_os_getpid(void) { return getpid(); }
clu_pid clu_os_getppid(void) { return getppid(); }
int clu_os_leads_group(void) { return getpgrp() == getpid(); }

void clu_os_end_self(void) {
  for (;;) kill(getpid(), SIGKILL);
}

#if defined(CLU_HAVE_PROC)
/* At most 11 characters, without an end; how many. */
static size_t put_int(char *to, int x) {
  char digits[12];
  size_t n = 0, k = 0;
  unsigned rest = x < 0 ? 0u - (unsigned)x : (unsigned)x;
  do digits[k++] = (char)('0' + rest % 10);
  while (rest /= 10);
  if (x < 0) to[n++] = '-';
  while (k > 0) to[n++] = digits[--k];
  return n;
}
#endif

void clu_os_end_first(void) {
#if defined(CLU_HAVE_PROC)
  /* no stdio: each forked node would copy the pages that this writes to, and read ten others */
  char text[16] = "";
  int fd = open("/proc/self/oom_score_adj", O_RDWR | O_CLOEXEC), score = 1000;
  if (fd < 0) return;
  if (read(fd, text, sizeof text - 1) > 0) score = atoi(text);
  /* as if it had 30 % of the memory more; a higher one needs no rights */
  if (score <= 700) {
    size_t n = put_int(text, score + 300);
    if (pwrite(fd, text, n, 0) < 0) { /* it ends as others do */
    }
  }
  close(fd);
#endif
}

int clu_os_kill(clu_pid pid, int sig, int group) {
  return kill(group ? -(pid_t)pid : (pid_t)pid, sig) == 0 ? 0 : errno;
}

int clu_os_renice(clu_pid pid, int nice, int *before) {
  errno = 0; /* -1 may be a value */
  *before = getpriority(PRIO_PROCESS, (id_t)pid);
  if (errno) return errno;
  return setpriority(PRIO_PROCESS, (id_t)pid, nice) == 0 ? 0 : errno;
}

/* ---- start ---- */

#if defined(CLU_HAVE_VFORK)
/* vfork: a session may hold tens of gigabytes, whose page tables fork() would copy for nothing */
#define fork_to_exec vfork
#else
#define fork_to_exec fork
#endif

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

/* The child: becomes the program, or writes an errno to `report` and ends. */
static void become_program(const clu_spawn *s, int report, pid_t parent) {
  clu_spawn t = *s;
  clu_fd keep[MAX_KEEP + 1];
  sigset_t none;
  int err, at = 3 + s->nkeep;
  for (int sig = 1; sig < NSIG; sig++) {
    struct sigaction a;
    if (sigaction(sig, NULL, &a) == 0 && a.sa_handler != SIG_DFL) clu_set_handler(sig, SIG_DFL, 0);
  }
  if (s->new_session)
    setsid();
  else
    setpgid(0, 0);
  /* the program keeps it; a parent that is gone already sends nothing */
  if (s->follow && clu_os_follow_parent(parent, 0) == CLU_DEAD) clu_os_end_self();
  /* the pipe's write end must outlive close_from(): it is the last of the kept ones */
  for (int i = 0; i < s->nkeep; i++) keep[i] = s->keep[i];
  keep[s->nkeep] = report;
  t.keep = keep;
  t.nkeep = s->nkeep + 1;
  err = child_setup(&t);
  if (!err) {
    fcntl(at, F_SETFD, FD_CLOEXEC);
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    execve(s->file, s->argv, s->envp ? s->envp : environ);
    err = errno;
    report = at;
  }
  if (write(report, &err, sizeof err) < 0) err = errno;
  clu_os_end_self();
}

/* The errno that the child has written; 0: it has become the program. */
static int reported(int fd) {
  int err = 0;
  ssize_t k;
  do k = read(fd, &err, sizeof err);
  while (k < 0 && errno == EINTR);
  return k == (ssize_t)sizeof err ? err : 0;
}

int clu_os_spawn(const clu_spawn *s, clu_pid *out, clu_err *e) {
  sigset_t all, old;
  volatile int err = 0;
  int report[2] = {-1, -1};
  pid_t pid, parent = getpid();
  if (s->nkeep > MAX_KEEP) return clu_fail(e, CLU_SYS, EINVAL, "too many descriptors to keep");
  if (clu_fd_pipe(report, 0) != 0)
    return clu_fail(e, CLU_LIMIT, errno, "no pipe can be made: %s", strerror(errno));
  sigfillset(&all);
  sigprocmask(SIG_SETMASK, &all, &old); /* no handler of ours may run in the child */
  pid = fork_to_exec();
  if (pid == 0) become_program(s, report[1], parent);
  if (pid < 0) err = errno;
  sigprocmask(SIG_SETMASK, &old, NULL);
  close(report[1]);
  if (pid > 0 && (err = reported(report[0])) != 0)
    while (waitpid(pid, NULL, 0) < 0 && errno == EINTR) continue;
  close(report[0]);
  if (err)
    return clu_fail(
        e, err == EAGAIN || err == ENOMEM || err == EMFILE || err == ENFILE ? CLU_LIMIT : CLU_SYS,
        err, "'%s' cannot be started: %s", s->file, strerror(err));
  *out = pid;
  return CLU_OK;
}

/* Two forks: the process between is waited for, and what it leaves goes to the system's first
 * process. No vfork(): it would have to be within another one. */
int clu_os_spawn_detached(const clu_spawn *s, clu_err *e) {
  clu_spawn own = *s;
  sigset_t all, old;
  int report[2] = {-1, -1}, err = 0;
  pid_t between;
  own.new_session = 1;
  own.nkeep = own.follow = 0;
  if (clu_fd_pipe(report, 0) != 0)
    return clu_fail(e, CLU_LIMIT, errno, "no pipe can be made: %s", strerror(errno));
  sigfillset(&all);
  sigprocmask(SIG_SETMASK, &all, &old);
  between = fork();
  if (between == 0) {
    pid_t pid = fork();
    if (pid == 0) become_program(&own, report[1], 0);
    err = errno;
    if (pid < 0 && write(report[1], &err, sizeof err) < 0) err = 0;
    clu_os_end_self();
  }
  if (between < 0) err = errno;
  sigprocmask(SIG_SETMASK, &old, NULL);
  close(report[1]);
  while (between > 0 && waitpid(between, NULL, 0) < 0 && errno == EINTR) continue;
  if (between > 0) err = reported(report[0]);
  close(report[0]);
  if (!err) return CLU_OK;
  return clu_fail(e, err == EAGAIN || err == ENOMEM ? CLU_LIMIT : CLU_SYS, err,
                  "'%s' cannot be started: %s", s->file, strerror(err));
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
    clu_watch_drop();
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

int clu_os_redirect_output(clu_fd out, clu_fd err) {
  return dup2((int)out, 1) < 0 || dup2((int)err, 2) < 0 ? CLU_SYS : CLU_OK;
}
