/* Processes on Windows: start, end, reap. There is no fork, and there are no signals.
 *
 * Each process started here is on a list until it is reaped: its handle keeps the pid from being
 * given to another one, and its job object holds it and whatever it starts. The job ends all of
 * them when its last handle is closed, so also when this process is killed. */
#include "win/win.h"

#include <stdlib.h>
#include <string.h>
#include <tlhelp32.h>

#include "core/base/os-signals.h"
#include "core/base/os-forks.h"

/* Windows has no numbers of its own; those of the C library where it has them */
const int CLU_SIG_INT = 2, CLU_SIG_TERM = 15, CLU_SIG_KILL = 9, CLU_SIG_STOP = 19,
          CLU_SIG_CONT = 18;

#define MAX_KEEP 8
#define KEPT \
  "CLUTCH_KEPT" /* in the environment of a process started here: the handle of its `kept` */

/* This is what a process was given to keep, in memory that it shares with the one that started it.
 * Sockets go by WSADuplicateSocketW(), which needs the pid, so after the start: an inherited handle
 * alone is one to Windows' own sockets only, not with a layered provider, nor in wine. */
typedef struct kept {
  int n;
  struct {
    int is_socket; /* and still in `socket` */
    uint64_t handle;
    WSAPROTOCOL_INFOW socket;
  } item[MAX_KEEP];
} kept;

typedef struct child {
  struct child *next;
  clu_pid pid;
  HANDLE process, job; /* job: NULL where there could be none */
} child;

static SRWLOCK lock = SRWLOCK_INIT; /* of the list; and only one start at a time, see spawn */
static child *children;

clu_pid clu_os_getpid(void) { return (clu_pid)GetCurrentProcessId(); }

int clu_os_leads_group(void) { return 0; }
clu_pid clu_os_getppid(void) {
  HANDLE all = CreateToolhelp32Snapshot(TH32CS_SNAPPROCESS, 0);
  PROCESSENTRY32 p;
  clu_pid found = 0;
  if (all == INVALID_HANDLE_VALUE) return 0;
  p.dwSize = sizeof p;
  for (BOOL more = Process32First(all, &p); more && !found; more = Process32Next(all, &p))
    if (p.th32ProcessID == GetCurrentProcessId()) found = (clu_pid)p.th32ParentProcessID;
  CloseHandle(all);
  return found;
}

char **clu_os_environ(void) { return _environ; }

int clu_os_setenv(const char *name, const char *value) { /* what is empty is gone */
  return _putenv_s(name, value ? value : "") == 0 ? CLU_OK : CLU_SYS;
}

void clu_os_end_self(void) {
  for (;;) TerminateProcess(GetCurrentProcess(), CLU_WIN_KILLED(9));
}

/* ---- start ---- */

/* For the new process, `pid`, which does not run yet. 0, or the error. */
static DWORD hand_over(const clu_spawn *s, kept *k, DWORD pid) {
  for (int i = 0; i < s->nkeep; i++)
    if (k->item[i].is_socket &&
        WSADuplicateSocketW((SOCKET)s->keep[i], pid, &k->item[i].socket) != 0)
      return (DWORD)WSAGetLastError();
  return 0;
}

int clu_os_kept(int i, clu_fd *fd) {
  static kept *k; /* stays, and so does its handle */
  char number[32];
  DWORD n = GetEnvironmentVariableA(KEPT, number, sizeof number);
  if (!n || n >= sizeof number) return CLU_SYS;
  if (!k) {
    HANDLE h = (HANDLE)(uintptr_t)_strtoui64(number, NULL, 10);
    void *p;
    SetHandleInformation(h, HANDLE_FLAG_INHERIT, 0); /* inherited handles are inheritable again */
    if (clu_os_shared_map((clu_fd)h, sizeof *k, &p, NULL) != CLU_OK) return CLU_SYS;
    k = p;
    for (int j = 0; j < k->n; j++)
      if (!k->item[j].is_socket)
        SetHandleInformation((HANDLE)(uintptr_t)k->item[j].handle, HANDLE_FLAG_INHERIT, 0);
  }
  if (i < 0 || i >= k->n) return CLU_SYS;
  if (k->item[i].is_socket) { /* only once can that be made a socket */
    SOCKET made;
    if (clu_win_start(NULL) != CLU_OK) return CLU_SYS;
    made = WSASocketW(FROM_PROTOCOL_INFO, FROM_PROTOCOL_INFO, FROM_PROTOCOL_INFO,
                      &k->item[i].socket, 0, WSA_FLAG_OVERLAPPED | WSA_FLAG_NO_HANDLE_INHERIT);
    if (made == INVALID_SOCKET || clu_win_prepare(made)) return CLU_SYS;
    k->item[i].handle = made;
    k->item[i].is_socket = 0;
  }
  *fd = (clu_fd)k->item[i].handle;
  return CLU_OK;
}

static HANDLE new_job(void) {
  JOBOBJECT_EXTENDED_LIMIT_INFORMATION limits;
  HANDLE job = CreateJobObjectW(NULL, NULL);
  if (!job) return NULL;
  memset(&limits, 0, sizeof limits);
  limits.BasicLimitInformation.LimitFlags = JOB_OBJECT_LIMIT_KILL_ON_JOB_CLOSE;
  if (SetInformationJobObject(job, JobObjectExtendedLimitInformation, &limits, sizeof limits))
    return job;
  CloseHandle(job);
  return NULL;
}

/* The handles to inherit, without repetition, which the system would refuse */
static int unlike(const HANDLE *all, int n, HANDLE *out) {
  int k = 0;
  for (int i = 0; i < n; i++) {
    int there = 0;
    for (int j = 0; j < k; j++) there |= out[j] == all[i];
    if (!there) out[k++] = all[i];
  }
  return k;
}

/* Within the lock: while handles are inheritable, another start of ours would hand them on, too.
 * (One by others that inherits everything can; there is no way to prevent that.) */
static DWORD start(const wchar_t *file, wchar_t *line, wchar_t *env, DWORD flags,
                   const HANDLE *standard, HANDLE *inherit, int n, PROCESS_INFORMATION *made) {
  STARTUPINFOEXW s;
  LPPROC_THREAD_ATTRIBUTE_LIST list = NULL;
  DWORD was[4 + MAX_KEEP], err = 0;
  SIZE_T size = 0;
  memset(&s, 0, sizeof s);
  s.StartupInfo.cb = sizeof s;
  s.StartupInfo.dwFlags = STARTF_USESTDHANDLES;
  s.StartupInfo.hStdInput = standard[0];
  s.StartupInfo.hStdOutput = standard[1];
  s.StartupInfo.hStdError = standard[2];
  InitializeProcThreadAttributeList(NULL, 1, 0, &size);
  if (!(list = malloc(size))) return ERROR_NOT_ENOUGH_MEMORY;
  if (!InitializeProcThreadAttributeList(list, 1, 0, &size)) {
    err = GetLastError();
    free(list);
    return err;
  }
  if (!UpdateProcThreadAttribute(list, 0, PROC_THREAD_ATTRIBUTE_HANDLE_LIST, inherit,
                                 (SIZE_T)n * sizeof *inherit, NULL, NULL))
    err = GetLastError();
  s.lpAttributeList = list;
  for (int i = 0; i < n; i++) {
    if (!GetHandleInformation(inherit[i], &was[i])) was[i] = HANDLE_FLAG_INHERIT;
    if (!SetHandleInformation(inherit[i], HANDLE_FLAG_INHERIT, HANDLE_FLAG_INHERIT) && !err)
      err = GetLastError();
  }
  if (!err && !CreateProcessW(file, line, NULL, NULL, TRUE, flags, env, NULL, &s.StartupInfo, made))
    err = GetLastError();
  for (int i = 0; i < n; i++)
    if (!(was[i] & HANDLE_FLAG_INHERIT)) SetHandleInformation(inherit[i], HANDLE_FLAG_INHERIT, 0);
  DeleteProcThreadAttributeList(list);
  free(list);
  return err;
}

/* The first three handles of the program. 0, or the error. `*null`: the null device, if it is one
 * of them. */
static DWORD standard_handles(const clu_spawn *s, HANDLE *all, HANDLE *null) {
  const clu_fd standard[3] = {s->in, s->out, s->err};
  for (int i = 0; i < 3; i++) {
    if (standard[i] == CLU_NO_FD && *null == INVALID_HANDLE_VALUE) {
      *null = CreateFileW(L"NUL", GENERIC_READ | GENERIC_WRITE, FILE_SHARE_READ | FILE_SHARE_WRITE,
                          NULL, OPEN_EXISTING, 0, NULL);
      if (*null == INVALID_HANDLE_VALUE) return GetLastError();
    }
    all[i] = standard[i] == CLU_NO_FD ? *null : (HANDLE)standard[i];
  }
  return 0;
}

/* The others, of which it is told in shared memory: sockets go by hand_over(). `*n` handles in all
 * are to be inherited. */
static int kept_handles(const clu_spawn *s, kept **k, clu_fd *shared, HANDLE *all, int *n,
                        clu_err *e) {
  void *p;
  if (clu_win_start(e) != CLU_OK || clu_os_shared_new(sizeof **k, &p, shared, e) != CLU_OK)
    return CLU_SYS;
  *k = p;
  (*k)->n = s->nkeep;
  all[(*n)++] = (HANDLE)*shared;
  for (int i = 0; i < s->nkeep; i++) {
    int type, size = sizeof type;
    (*k)->item[i].is_socket =
        getsockopt((SOCKET)s->keep[i], SOL_SOCKET, SO_TYPE, (char *)&type, &size) == 0;
    (*k)->item[i].handle = (uint64_t)s->keep[i];
    if (!(*k)->item[i].is_socket) all[(*n)++] = (HANDLE)s->keep[i];
  }
  return CLU_OK;
}

/* It has been made, suspended: into its job, and into the list. With the lock held. */
static void list_child(child *c, const PROCESS_INFORMATION *made) {
  c->process = made->hProcess;
  c->pid = (clu_pid)made->dwProcessId;
  c->job = new_job();
  if (c->job && !AssignProcessToJobObject(
                    c->job, c->process)) { /* before Windows 8, when this one is in a job */
    CloseHandle(c->job);
    c->job = NULL;
  }
  c->next = children;
  children = c;
}

static int spawn_failed(const clu_spawn *s, DWORD err, clu_err *e) {
  char why[CLU_WIN_TEXT];
  int full = err == ERROR_NOT_ENOUGH_MEMORY || err == ERROR_NO_SYSTEM_RESOURCES ||
             err == ERROR_COMMITMENT_LIMIT;
  return clu_fail(e, full ? CLU_LIMIT : CLU_SYS, (int)err, "'%s' cannot be started: %s", s->file,
                  clu_win_text((int)err, why));
}

/* Starts the program: 0 and `*pid`, or the error. */
static DWORD start_child(const clu_spawn *s, kept *k, clu_fd shared, HANDLE *all, int n,
                         clu_pid *pid) {
  /* suspended until it is in its job, or it could start something outside. Ctrl-C reaches all
   * processes of a console that are not in a group of their own. */
  DWORD flags = CREATE_SUSPENDED | CREATE_NEW_PROCESS_GROUP | CREATE_UNICODE_ENVIRONMENT |
                EXTENDED_STARTUPINFO_PRESENT;
  DWORD err = ERROR_NOT_ENOUGH_MEMORY;
  HANDLE inherit[4 + MAX_KEEP];
  PROCESS_INFORMATION made;
  wchar_t *file = clu_win_wide(s->file), *line = clu_win_command_line(s->argv);
  wchar_t *env = clu_win_environment(s->envp, L"" KEPT, (uint64_t)shared);
  child *c = calloc(1, sizeof *c);
  if (s->new_session) flags |= CREATE_NO_WINDOW; /* a console of its own, which nobody sees */
  memset(&made, 0, sizeof made);
  if (file && line && env && c) {
    AcquireSRWLockExclusive(&lock);
    err = start(file, line, env, flags, all, inherit, unlike(all, n, inherit), &made);
    if (!err && k && (err = hand_over(s, k, made.dwProcessId)) != 0) {
      TerminateProcess(made.hProcess, CLU_WIN_KILLED(CLU_SIG_KILL));
      CloseHandle(made.hThread);
      CloseHandle(made.hProcess);
    }
    if (!err) {
      list_child(c, &made);
      *pid = c->pid;
      c = NULL;
    }
    ReleaseSRWLockExclusive(&lock);
  }
  if (!err) {
    ResumeThread(made.hThread);
    CloseHandle(made.hThread);
  }
  free(line);
  free(file);
  free(env);
  free(c);
  return err;
}

int clu_os_spawn(const clu_spawn *s, clu_pid *pid, clu_err *e) {
  HANDLE all[4 + MAX_KEEP], null = INVALID_HANDLE_VALUE;
  kept *k = NULL;
  clu_fd shared = 0;
  int n = 3, rc = CLU_OK;
  DWORD err;
  if (s->nkeep > MAX_KEEP)
    return clu_fail(e, CLU_SYS, ERROR_INVALID_PARAMETER, "too many descriptors to keep");
  err = standard_handles(s, all, &null);
  if (!err && s->nkeep) rc = kept_handles(s, &k, &shared, all, &n, e);
  if (!err && rc == CLU_OK) err = start_child(s, k, shared, all, n, pid);
  if (null != INVALID_HANDLE_VALUE) CloseHandle(null);
  if (k) UnmapViewOfFile(k);
  if (shared) CloseHandle((HANDLE)shared); /* the new process has its own */
  return err ? spawn_failed(s, err, e) : rc;
}

int clu_os_fork(clu_pid *pid, clu_err *e) {
  (void)pid;
  return clu_fail(e, CLU_UNSUPPORTED, 0, "Windows has no fork");
}

/* ---- ends ---- */

static child **find(clu_pid pid) {
  child **c = &children;
  while (*c && (*c)->pid != pid) c = &(*c)->next;
  return c;
}

/* 0: this process may end that one, which runs. The process of a handle that somebody still has can
 * be opened after its end, too. */
static int could_end(clu_pid pid) {
  HANDLE h = pid > 0 ? OpenProcess(PROCESS_TERMINATE | SYNCHRONIZE, FALSE, (DWORD)pid) : NULL;
  int err = ERROR_INVALID_PARAMETER;
  if (h)
    err = WaitForSingleObject(h, 0) == WAIT_TIMEOUT ? 0 : ERROR_PROCESS_ABORTED;
  else if (pid > 0)
    err = (int)GetLastError();
  if (h) CloseHandle(h);
  return err;
}

int clu_os_kill(clu_pid pid, int sig, int group) {
  child *c;
  int err = 0;
  if (sig == 0) return could_end(pid);
  if (sig != CLU_SIG_TERM && sig != CLU_SIG_KILL) return ERROR_NOT_SUPPORTED;
  AcquireSRWLockExclusive(&lock);
  c = *find(pid);
  if (c) {
    BOOL ok = group && c->job ? TerminateJobObject(c->job, CLU_WIN_KILLED(sig))
                              : TerminateProcess(c->process, CLU_WIN_KILLED(sig));
    /* one that has ended and is not reaped yet takes it without effect, as elsewhere */
    if (!ok && WaitForSingleObject(c->process, 0) != WAIT_OBJECT_0) err = (int)GetLastError();
  }
  ReleaseSRWLockExclusive(&lock);
  if (!c) { /* not one of ours */
    HANDLE h = OpenProcess(PROCESS_TERMINATE, FALSE, (DWORD)pid);
    if (!h || !TerminateProcess(h, CLU_WIN_KILLED(sig))) err = (int)GetLastError();
    if (h) CloseHandle(h);
  }
  return err;
}

int clu_os_renice(clu_pid pid, int nice, int *before) {
  (void)pid;
  *before = nice;
  return 0;
}

int clu_os_reap(clu_pid pid, int group, clu_exit *how) {
  child **at, *c;
  DWORD status = 0;
  AcquireSRWLockExclusive(&lock);
  at = find(pid);
  c = *at;
  if (c && WaitForSingleObject(c->process, 0) == WAIT_TIMEOUT) {
    ReleaseSRWLockExclusive(&lock);
    return CLU_AGAIN;
  }
  if (c) *at = c->next;
  ReleaseSRWLockExclusive(&lock);
  if (!c) return CLU_DEAD;
  GetExitCodeProcess(c->process, &status);
  how->by_signal = status == CLU_WIN_KILLED(CLU_SIG_TERM) || status == CLU_WIN_KILLED(CLU_SIG_KILL);
  how->code = how->by_signal ? (int)(status - CLU_WIN_KILLED(0)) : (int)status;
  if (c->job) {
    JOBOBJECT_EXTENDED_LIMIT_INFORMATION none;
    memset(&none, 0, sizeof none);
    /* what it has left behind may stay when it is not asked for: then the job is to end without
     * them */
    if (!group)
      SetInformationJobObject(c->job, JobObjectExtendedLimitInformation, &none, sizeof none);
    if (group) TerminateJobObject(c->job, CLU_WIN_KILLED(CLU_SIG_KILL));
    CloseHandle(c->job);
  }
  CloseHandle(c->process);
  free(c);
  return CLU_OK;
}

int clu_os_ended_child(clu_pid *pid) {
  int rc = CLU_AGAIN;
  AcquireSRWLockExclusive(&lock);
  for (child *c = children; c && rc != CLU_OK; c = c->next) {
    if (WaitForSingleObject(c->process, 0) != WAIT_OBJECT_0) continue;
    *pid = c->pid;
    rc = CLU_OK;
  }
  ReleaseSRWLockExclusive(&lock);
  return rc;
}

int clu_os_follow_parent(clu_pid parent, int may_thread) {
  HANDLE h = OpenProcess(SYNCHRONIZE, FALSE, (DWORD)parent);
  (void)may_thread;
  int ended =
      h ? WaitForSingleObject(h, 0) == WAIT_OBJECT_0 : GetLastError() == ERROR_INVALID_PARAMETER;
  if (h) CloseHandle(h);
  return ended ? CLU_DEAD : CLU_UNSUPPORTED;
}

int clu_os_follow_parent_meanwhile(clu_pid parent) { return parent ? CLU_UNSUPPORTED : CLU_OK; }

int clu_os_follow_nobody(void) { return CLU_UNSUPPORTED; }

/* ---- what descendants leave: it ends with its job ---- */

int clu_os_spawn_detached(const clu_spawn *s, clu_err *e) {
  (void)s;
  return clu_fail(e, CLU_UNSUPPORTED, 0, "what a process has started ends with it on Windows");
}

int clu_os_adopt_orphans(void) { return CLU_UNSUPPORTED; }

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

void clu_os_mark_env(const char *name, const char *value) { clu_os_setenv(name, value); }

void clu_os_set_title(const char *text) { (void)text; }

/* ---- signals: there are none ---- */

int clu_os_follow_peer(clu_fd fd, uint64_t grace_ns) {
  (void)fd;
  (void)grace_ns;
  return CLU_UNSUPPORTED;
}

int clu_os_on_term(clu_pid parent, const char *tmp) {
  (void)parent;
  return tmp ? CLU_UNSUPPORTED : CLU_OK;
}

int clu_os_watch_start(clu_fd *readable, clu_err *e) {
  *readable = CLU_NO_FD;
  return clu_fail(e, CLU_UNSUPPORTED, 0, "Windows has no fork, and so no supervisor");
}

const char *clu_os_signal_name(int sig) {
  (void)sig;
  return NULL;
}

void clu_os_watch_clear(int *term) { (void)term; }
void clu_os_watch_end(void) {}
void clu_os_watch_term(void) {}
void clu_os_on_int(int (*task)(int is_ignored)) { (void)task; }
void clu_os_interrupt(clu_pid pid) { (void)pid; }
void clu_os_interrupt_deferred(clu_pid pid) { (void)pid; }
void clu_os_int_defer(int waits) { (void)waits; }

size_t clu_os_expect_forks(void) { return 0; }
int clu_os_leave_files(clu_fd keep) {
  (void)keep;
  return CLU_UNSUPPORTED;
}
int clu_os_inherit_code(const void *const *in, int n) {
  (void)in;
  (void)n;
  return 0;
}
void *clu_os_apart_new(size_t n) { return calloc(1, n); }

void clu_os_apart_free(void *p, size_t n) {
  (void)n;
  free(p);
}
