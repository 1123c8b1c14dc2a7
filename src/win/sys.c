/* Clock, chance, limits, shared memory, texts: the port's small things on Windows. Files are in
 * file.c. */
#include "core/base/os-libraries.h"
#include "win/win.h"

#include <psapi.h>

#include <bcrypt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tlhelp32.h>

#include "core/base/os-machine.h"
#include "core/base/os-memory.h"
#include "core/base/os-samples.h"
#include "core/base/os-signals.h"

/* ---- texts ---- */

const char *clu_win_text(int err, char out[CLU_WIN_TEXT]) {
  wchar_t wide[CLU_WIN_TEXT];
  DWORD n = FormatMessageW(
      FORMAT_MESSAGE_FROM_SYSTEM | FORMAT_MESSAGE_IGNORE_INSERTS | FORMAT_MESSAGE_MAX_WIDTH_MASK,
      NULL, (DWORD)err, 0, wide, CLU_WIN_TEXT, NULL);
  int k = 0;
  if (n) k = WideCharToMultiByte(CP_UTF8, 0, wide, (int)n, out, CLU_WIN_TEXT - 1, NULL, NULL);
  while (k > 0 && (out[k - 1] == ' ' || out[k - 1] == '.')) k--;
  if (k > 0)
    out[k] = 0;
  else /* none, or too long for the room: the number says it all */
    snprintf(out, CLU_WIN_TEXT, "error %d", err);
  return out;
}

wchar_t *clu_win_wide(const char *text) {
  UINT page = CP_UTF8;
  wchar_t *out;
  int n = MultiByteToWideChar(page, MB_ERR_INVALID_CHARS, text, -1, NULL, 0);
  if (n <= 0) {
    page = CP_ACP;
    n = MultiByteToWideChar(page, 0, text, -1, NULL, 0);
  }
  if (n <= 0 || !(out = malloc((size_t)n * sizeof *out))) return NULL;
  MultiByteToWideChar(page, 0, text, -1, out, n);
  return out;
}

/* ---- clock and chance ---- */

uint64_t clu_os_now_coarse(void) { return GetTickCount64() * 1000000u; }

uint64_t clu_os_now(void) {
  static uint64_t per_second; /* fixed from boot on: whoever comes first writes the same number */
  LARGE_INTEGER t;
  uint64_t f = per_second, q;
  if (!f) {
    QueryPerformanceFrequency(&t);
    per_second = f = (uint64_t)t.QuadPart;
  }
  QueryPerformanceCounter(&t);
  q = (uint64_t)t.QuadPart;
  return q / f * 1000000000u +
         q % f * 1000000000u / f; /* in two parts: the product would overflow */
}

void clu_os_pause(uint64_t ns) {
  Sleep((DWORD)clu_os_wait_ms(ns > INT64_MAX ? INT64_MAX : (int64_t)ns));
}

void clu_os_yield(void) {
  if (!SwitchToThread()) Sleep(0);
}

int clu_os_random(void *out, size_t n) {
  unsigned char *p = out;
  while (n > 0) {
    ULONG k = n < (1u << 20) ? (ULONG)n : 1u << 20;
    if (BCryptGenRandom(NULL, p, k, BCRYPT_USE_SYSTEM_PREFERRED_RNG) != 0) return CLU_SYS;
    p += k;
    n -= k;
  }
  return CLU_OK;
}

static double seconds(FILETIME t) {
  return 1e-7 * (double)((uint64_t)t.dwHighDateTime << 32 | t.dwLowDateTime);
}

void clu_os_times(double out[5]) {
  FILETIME begun, ended, kernel, user;
  memset(out, 0, 5 * sizeof *out);
  if (GetProcessTimes(GetCurrentProcess(), &begun, &ended, &kernel, &user)) {
    out[0] = seconds(user);
    out[1] = seconds(kernel);
  }
  out[2] = 1e-9 * (double)clu_os_now();
}

/* ---- limits ---- */

void clu_os_limits(clu_limits *out) {
  DWORD n;
  out->fds_soft = out->fds_hard = out->procs = -1; /* handles are bounded by memory only */
  out->fds_open = GetProcessHandleCount(GetCurrentProcess(), &n) && n ? (int64_t)n : -1;
}

int clu_os_raise_fds(int64_t n) {
  (void)n;
  return CLU_OK;
}

int clu_os_affinity_count(void) {
  DWORD_PTR mine = 0, all = 0;
  USHORT group[64], n_groups = 64;
  int n = 0;
  /* a mask tells of one group of 64 processors; who runs in several is not bound within them */
  if (GetProcessGroupAffinity(GetCurrentProcess(), &n_groups, group) && n_groups > 1) {
    for (int i = 0; i < n_groups; i++) n += (int)GetActiveProcessorCount(group[i]);
    return n;
  }
  if (!GetProcessAffinityMask(GetCurrentProcess(), &mine, &all)) return -1;
  for (; mine; mine &= mine - 1) n++;
  return n ? n : -1;
}

int clu_os_cores(void) {
  int n = clu_os_affinity_count();
  return n < 1 ? 1 : n;
}

int clu_os_is_sampled(int by_thread) {
  (void)by_thread;
  return 0;
}

int clu_os_thread_count(void) {
  HANDLE all = CreateToolhelp32Snapshot(TH32CS_SNAPTHREAD, 0);
  THREADENTRY32 t;
  int n = 0;
  if (all == INVALID_HANDLE_VALUE) return -1;
  t.dwSize = sizeof t;
  for (BOOL more = Thread32First(all, &t); more; more = Thread32Next(all, &t))
    n += t.th32OwnerProcessID == GetCurrentProcessId();
  CloseHandle(all);
  return n ? n : -1;
}

int clu_os_after_fork(void (*fn)(void)) {
  (void)fn; /* there is no fork after which it would have to run */
  return CLU_OK;
}

unsigned clu_os_can(void) { return CLU_CAN_USER_TIMEOUT | CLU_CAN_MEMORY | CLU_CAN_THREADS; }

/* ---- memory ---- */

void clu_os_expect_writes(void *p, size_t n) {
  (void)p; /* large pages need a privilege here that users do not have */
  (void)n;
}

int clu_os_shared_new(size_t n, void **p, clu_fd *fd, clu_err *e) {
  char text[CLU_WIN_TEXT];
  HANDLE h = CreateFileMappingW(INVALID_HANDLE_VALUE, NULL, PAGE_READWRITE,
                                (DWORD)((uint64_t)n >> 32), (DWORD)n, NULL);
  if (!h) {
    int err = (int)GetLastError();
    return clu_fail(e, CLU_SYS, err, "shared memory cannot be made: %s", clu_win_text(err, text));
  }
  if (clu_os_shared_map((clu_fd)h, n, p, e) != CLU_OK) {
    CloseHandle(h);
    return CLU_NOMEM;
  }
  if (fd)
    *fd = (clu_fd)h;
  else
    CloseHandle(h); /* the mapping stays */
  return CLU_OK;
}

int clu_os_shared_map(clu_fd fd, size_t n, void **p, clu_err *e) {
  char text[CLU_WIN_TEXT];
  int err;
  *p = MapViewOfFile((HANDLE)fd, FILE_MAP_ALL_ACCESS, 0, 0, n);
  if (*p) return CLU_OK;
  err = (int)GetLastError();
  return clu_fail(e, CLU_NOMEM, err, "shared memory cannot be mapped: %s", clu_win_text(err, text));
}

int clu_os_shared_of(clu_pid pid, clu_fd fd, size_t n, void **p) {
  (void)pid;
  (void)fd;
  (void)n;
  (void)p;
  return CLU_UNSUPPORTED;
}

void clu_os_shared_free(void *p, size_t n) {
  (void)n;
  UnmapViewOfFile(p);
}

void clu_os_end_first(void) {}

void clu_os_release_memory(void) {}

int64_t clu_os_process_memory(clu_pid pid, int64_t enough) {
  HANDLE h = OpenProcess(PROCESS_QUERY_LIMITED_INFORMATION, FALSE, (DWORD)pid);
  PROCESS_MEMORY_COUNTERS_EX m;
  int ok;
  (void)enough;
  if (!h) return -1;
  ok = GetProcessMemoryInfo(h, (PROCESS_MEMORY_COUNTERS *)&m, sizeof m) != 0;
  CloseHandle(h);
  return ok ? (int64_t)m.PrivateUsage : -1;
}

int64_t clu_os_total_memory(void) {
  MEMORYSTATUSEX m;
  m.dwLength = sizeof m;
  return GlobalMemoryStatusEx(&m) ? (int64_t)m.ullTotalPageFile : -1;
}

void clu_os_machine(clu_machine *out) {
  MEMORYSTATUSEX m;
  m.dwLength = sizeof m;
  out->load = -1;
  out->memory = out->memory_free = -1;
  if (!GlobalMemoryStatusEx(&m)) return;
  out->memory = (int64_t)m.ullTotalPhys;
  out->memory_free = (int64_t)m.ullAvailPhys;
}

int64_t clu_os_count_in_file(const char *path, const char *name) {
  (void)path; /* control groups are Linux's */
  (void)name;
  return -1;
}

int64_t clu_os_process_cpu(int64_t pid, clu_process_pages *pages) {
  (void)pages;
  (void)pid; /* nobody asks: there are no fork servers */
  return -1;
}

int64_t clu_os_process_anonymous(int64_t pid) {
  (void)pid;
  return -1;
}

char clu_os_process_state(int64_t pid) {
  (void)pid;
  return '?';
}

void clu_os_keep_freed(void) {}
void clu_os_heap_begin(void) {}
void clu_os_heap_ahead(int inherits) { (void)inherits; }
int64_t clu_os_most_mappings(void) { return INT64_MAX; }
int64_t clu_os_cpu_stalled(void) { return -1; }
void clu_os_renice_session(int64_t pid, int nice) {
  (void)pid;
  (void)nice;
}
int64_t clu_os_cpu_stalled_by(const char *text) {
  (void)text;
  return -1;
}

int64_t clu_os_memory_limit(void) { return clu_os_total_memory(); }
int64_t clu_os_memory_limit_below(const char *root) {
  (void)root;
  return clu_os_total_memory();
}
int clu_os_library_functions(const char *a, const char *b, clu_function_pair *out, int most) {
  (void)a, (void)b, (void)out, (void)most;
  return 0;
}

int clu_os_symbol_of(void (*fun)(void), char *file, size_t nfile, char *name, size_t nname) {
  (void)fun;
  if (nfile) *file = 0;
  if (nname) *name = 0;
  return 0;
}

/* ---- how much memory is left: Windows has no such groups ---- */

int clu_os_memory_bounds(const char *root, clu_memory_bounds *out) {
  (void)root;
  memset(out, 0, sizeof *out);
  return CLU_UNSUPPORTED;
}

int clu_os_memory_left(const char *root, const clu_memory_bounds *b, clu_memory_left *out) {
  (void)root, (void)b, (void)out;
  return CLU_UNSUPPORTED;
}

void clu_os_signals_hold(void) {}
void clu_os_signals_release(void) {}
