/* Clock, chance, limits, memory: the port's small things on POSIX systems. */
#if defined(__linux__)
#define _GNU_SOURCE
#elif defined(__APPLE__)
#define _DARWIN_C_SOURCE
#endif

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
#include "posix/features.h"
#if defined(CLU_HAVE_AFFINITY)
#include <sched.h>
#endif
#if defined(CLU_HAVE_PROC)
#include <sys/sysinfo.h>
#endif
#if defined(__GLIBC__)
#include <malloc.h>
#endif

#include "core/base/os.h"

uint64_t clu_os_now_coarse(void) {
#if defined(CLOCK_MONOTONIC_COARSE) && !defined(CLU_PORTABLE)
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC_COARSE, &t);
  return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
#else
  return clu_os_now();
#endif
}

uint64_t clu_os_now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

void clu_os_pause(uint64_t ns) {
  struct timespec t = {(time_t)(ns / 1000000000u), (long)(ns % 1000000000u)};
  nanosleep(&t, NULL);
}

int clu_os_random(void *out, size_t n) {
  int fd = open("/dev/urandom", O_RDONLY | O_CLOEXEC);
  size_t have = 0;
  if (fd < 0) return CLU_SYS;
  while (have < n) {
    ssize_t k = read(fd, (char *)out + have, n - have);
    if (k > 0)
      have += (size_t)k;
    else if (k == 0 || errno != EINTR)
      break;
  }
  close(fd);
  return have == n ? CLU_OK : CLU_SYS;
}

void clu_os_times(double out[5]) {
  struct rusage self, kids;
  getrusage(RUSAGE_SELF, &self);
  getrusage(RUSAGE_CHILDREN, &kids);
#define SECONDS(t) ((double)(t).tv_sec + 1e-6 * (double)(t).tv_usec)
  out[0] = SECONDS(self.ru_utime);
  out[1] = SECONDS(self.ru_stime);
  out[2] = 1e-9 * (double)clu_os_now();
  out[3] = SECONDS(kids.ru_utime);
  out[4] = SECONDS(kids.ru_stime);
#undef SECONDS
}

unsigned clu_os_can(void) {
  unsigned can = CLU_CAN_FORK;
#if defined(CLU_HAVE_PROC)
  can |= CLU_CAN_PROC | CLU_CAN_MEMORY | CLU_CAN_THREADS;
#endif
#if defined(CLU_HAVE_PRCTL)
  can |= CLU_CAN_FOLLOW_PARENT;
#endif
#if defined(CLU_HAVE_POLLRDHUP)
  can |= CLU_CAN_FOLLOW_PEER;
#endif
#if defined(CLU_HAVE_LINUX_TCP)
  can |= CLU_CAN_TCP_INFO | CLU_CAN_USER_TIMEOUT;
#elif defined(__APPLE__)
  can |= CLU_CAN_TCP_INFO;
#endif
#if defined(CLU_HAVE_MEMFD)
  can |= CLU_CAN_MEMFD;
#endif
#if defined(__GLIBC__) && !defined(CLU_PORTABLE)
  can |= CLU_CAN_RELEASE;
#endif
  return can;
}

/* ---- limits ---- */

static int count_entries(const char *dir) {
  DIR *d = opendir(dir);
  struct dirent *e;
  int n = 0;
  if (!d) return -1;
  while ((e = readdir(d)))
    if (e->d_name[0] != '.') n++;
  closedir(d);
  return n;
}

static int64_t as_limit(rlim_t v) { return v == RLIM_INFINITY ? -1 : (int64_t)v; }

void clu_os_limits(clu_limits *out) {
  struct rlimit r;
  int n = count_entries("/dev/fd");
  out->fds_soft = out->fds_hard = out->procs = -1;
  out->fds_open = n < 0 ? -1 : n - 1; /* less the one that counted */
  if (getrlimit(RLIMIT_NOFILE, &r) == 0) {
    out->fds_soft = as_limit(r.rlim_cur);
    out->fds_hard = as_limit(r.rlim_max);
  }
  if (getrlimit(RLIMIT_NPROC, &r) == 0) out->procs = as_limit(r.rlim_cur);
}

int clu_os_raise_fds(int64_t n) {
  struct rlimit r;
  if (getrlimit(RLIMIT_NOFILE, &r) != 0) return CLU_LIMIT;
  if (r.rlim_cur == RLIM_INFINITY || (int64_t)r.rlim_cur >= n) return CLU_OK;
  if (r.rlim_max != RLIM_INFINITY && (int64_t)r.rlim_max < n) return CLU_LIMIT;
  r.rlim_cur = (rlim_t)n;
  return setrlimit(RLIMIT_NOFILE, &r) == 0 ? CLU_OK : CLU_LIMIT;
}

int clu_os_affinity_count(void) {
#if defined(CLU_HAVE_AFFINITY)
  /* the mask is as long as the kernel was built for: grow until it fits */
  for (int cpus = 1024; cpus <= 1 << 18; cpus *= 2) {
    cpu_set_t *set = CPU_ALLOC(cpus);
    size_t size = CPU_ALLOC_SIZE(cpus);
    int n = -1, err;
    if (!set) return -1;
    err = sched_getaffinity(0, size, set) == 0 ? 0 : errno;
    if (!err) n = CPU_COUNT_S(size, set);
    CPU_FREE(set);
    if (!err) return n;
    if (err != EINVAL) return -1;
  }
#endif
  return -1;
}

int clu_os_cores(void) {
  int n = clu_os_affinity_count();
#if defined(_SC_NPROCESSORS_ONLN)
  if (n < 1) n = (int)sysconf(_SC_NPROCESSORS_ONLN);
#endif
  return n < 1 ? 1 : n;
}

int clu_os_thread_count(void) {
#if defined(CLU_HAVE_PROC)
  return count_entries("/proc/self/task");
#else
  return -1;
#endif
}

int clu_os_after_fork(void (*fn)(void)) {
  return pthread_atfork(NULL, NULL, fn) == 0 ? CLU_OK : CLU_SYS;
}

void clu_os_expect_writes(void *p, size_t n) {
#if defined(CLU_HAVE_HUGEPAGE) && defined(MADV_HUGEPAGE)
  /* whole large pages within only: the kernel rounds to small ones, and the rest of the heap is not
   * meant */
  const uintptr_t large = (uintptr_t)2 << 20;
  uintptr_t from = ((uintptr_t)p + large - 1) & ~(large - 1),
            to = ((uintptr_t)p + n) & ~(large - 1);
  if (to > from) madvise((void *)from, to - from, MADV_HUGEPAGE);
#else
  (void)p;
  (void)n;
#endif
}

/* ---- shared memory ---- */

int clu_os_shared_new(size_t n, void **p, clu_fd *fd, clu_err *e) {
  char path[] = "/tmp/clutch-XXXXXX";
  struct rlimit r;
  int f = -1;
  if (fd) {
    if (getrlimit(RLIMIT_FSIZE, &r) == 0 && r.rlim_cur != RLIM_INFINITY &&
        n > r.rlim_cur) /* else SIGXFSZ ends the process */
      return clu_fail(
          e, CLU_SYS, EFBIG,
          "shared memory cannot be made: %lu bytes are more than a file may have (ulimit -f)",
          (unsigned long)n);
#if defined(CLU_HAVE_MEMFD)
    f = memfd_create("clutch", MFD_CLOEXEC);
#else
    f = mkstemp(path);
    if (f >= 0) {
      unlink(path);
      fcntl(f, F_SETFD, FD_CLOEXEC);
    }
#endif
    (void)path;
    if (f < 0 || ftruncate(f, (off_t)n) != 0) {
      int err = errno;
      if (f >= 0) close(f);
      return clu_fail(e, CLU_SYS, err, "shared memory cannot be made: %s", strerror(err));
    }
  }
  *p = mmap(NULL, n, PROT_READ | PROT_WRITE, f < 0 ? MAP_SHARED | MAP_ANONYMOUS : MAP_SHARED, f, 0);
  if (*p == MAP_FAILED) {
    int err = errno;
    if (f >= 0) close(f);
    return clu_fail(e, CLU_NOMEM, err, "shared memory cannot be mapped: %s", strerror(err));
  }
  if (fd) *fd = f;
  return CLU_OK;
}

int clu_os_shared_map(clu_fd fd, size_t n, void **p, clu_err *e) {
  *p = mmap(NULL, n, PROT_READ | PROT_WRITE, MAP_SHARED, (int)fd, 0);
  if (*p == MAP_FAILED)
    return clu_fail(e, CLU_NOMEM, errno, "shared memory cannot be mapped: %s", strerror(errno));
  return CLU_OK;
}

#if defined(CLU_HAVE_MEMFD)

/* It may be any file, or another one a moment later. So it is looked at before it is opened: to
 * open a pipe or a terminal would have effects there. */
int clu_os_shared_of(clu_pid pid, clu_fd fd, size_t n, void **p) {
  static const char ours[] = "/memfd:clutch ";
  char path[64], name[sizeof ours - 1];
  struct stat st;
  int f, rc = CLU_SYS;
  snprintf(path, sizeof path, "/proc/%ld/fd/%ld", (long)pid, (long)fd);
  if (readlink(path, name, sizeof name) != (ssize_t)sizeof name ||
      memcmp(name, ours, sizeof name) != 0)
    return CLU_SYS;
  f = open(path, O_RDWR | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  if (f < 0) return CLU_SYS;
  if (fstat(f, &st) == 0 && S_ISREG(st.st_mode) && st.st_uid == geteuid() && st.st_size >= 0 &&
      (size_t)st.st_size == n)
    rc = clu_os_shared_map(f, n, p, NULL) == CLU_OK ? CLU_OK : CLU_SYS;
  close(f);
  return rc;
}

#else

int clu_os_shared_of(clu_pid pid, clu_fd fd, size_t n, void **p) {
  (void)pid;
  (void)fd;
  (void)n;
  (void)p;
  return CLU_UNSUPPORTED;
}

#endif

void clu_os_shared_free(void *p, size_t n) { munmap(p, n); }

/* ---- files and memory ---- */

int clu_os_open_append(const char *path, clu_fd *fd, clu_err *e) {
  int f = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOCTTY, 0666);
  if (f < 0)
    return clu_fail(e, CLU_SYS, errno, "cannot open '%s' for output: %s", path, strerror(errno));
  *fd = f;
  return CLU_OK;
}

void clu_os_release_memory(void) {
#if defined(__GLIBC__) && !defined(CLU_PORTABLE)
  malloc_trim(0);
#endif
}

#if defined(CLU_HAVE_PROC)
/* Returns what all mappings have of their own, by a file of /proc; -1: not known. `*shm`: about how
 * much of it may be pages of memory files; INT64_MAX where the file does not say. */
static int64_t own_memory(clu_pid pid, const char *name, int64_t *shm) {
  char path[64], line[512];
  long long kb;
  int64_t sum = 0;
  int some = 0;
  FILE *f;
  *shm = INT64_MAX;
  snprintf(path, sizeof path, "/proc/%lld/%s", (long long)pid, name);
  if (!(f = fopen(path, "re"))) return -1;
  while (fgets(line, sizeof line, f)) {
    if (sscanf(line, "Private_Dirty: %lld kB", &kb) == 1 ||
        sscanf(line, "Swap: %lld kB", &kb) == 1) {
      sum += 1024 * (int64_t)kb;
      some = 1;
    } else if (sscanf(line, "Pss_Shmem: %lld kB", &kb) == 1) {
      *shm = 1024 * (int64_t)kb;
    }
  }
  fclose(f);
  return some ? sum : -1;
}

/* Segments of shared vectors that it has only read count as its own while no other process has
 * mapped them: so much of what own_memory() says. Pages that it has written to are "Anonymous". */
static int64_t segments_only_read(clu_pid pid) {
  char path[64], line[512];
  long long kb, dirty = 0;
  int64_t sum = 0;
  int in_segment = 0;
  FILE *f;
  snprintf(path, sizeof path, "/proc/%lld/smaps", (long long)pid);
  if (!(f = fopen(path, "re"))) return 0;
  while (fgets(line, sizeof line, f)) {
    if (strchr("0123456789abcdef", line[0])) {
      in_segment = strstr(line, "/memfd:clutch-data") != NULL;
      dirty = 0;
    } else if (in_segment && sscanf(line, "Private_Dirty: %lld kB", &kb) == 1) {
      dirty = kb;
    } else if (in_segment && sscanf(line, "Anonymous: %lld kB", &kb) == 1 && dirty > kb) {
      sum += 1024 * (int64_t)(dirty - kb);
    }
  }
  fclose(f);
  return sum;
}

/* No process has more of its own than is resident or in swap. */
static int64_t resident_memory(clu_pid pid) {
  char path[64], text[128];
  long long size, resident;
  int64_t swap = 0;
  FILE *f;
  int ok;
  snprintf(path, sizeof path, "/proc/%lld/statm", (long long)pid);
  if (!(f = fopen(path, "re"))) return -1;
  ok = fgets(text, sizeof text, f) && sscanf(text, "%lld %lld", &size, &resident) == 2;
  fclose(f);
  {
    struct sysinfo i;
    if (sysinfo(&i) == 0) swap = (int64_t)((uint64_t)(i.totalswap - i.freeswap) * i.mem_unit);
  }
  return ok ? (int64_t)resident * sysconf(_SC_PAGESIZE) + swap : -1;
}

int64_t clu_os_process_memory(clu_pid pid, int64_t enough) {
  int64_t most = resident_memory(pid), own, shm;
  if (most < 0 || most <= enough) return most;
  own = own_memory(pid, "smaps_rollup", &shm);
  if (own < 0) own = own_memory(pid, "smaps", &shm); /* before Linux 4.14 */
  return own > enough && shm > 65536 ? own - segments_only_read(pid) : own;
}
#else
int64_t clu_os_process_memory(clu_pid pid, int64_t enough) {
  (void)pid;
  (void)enough;
  return -1;
}
#endif

int64_t clu_os_total_memory(void) {
  int64_t n = -1;
#if defined(CLU_HAVE_PROC)
  struct sysinfo i;
  if (sysinfo(&i) == 0) n = (int64_t)(((uint64_t)i.totalram + i.totalswap) * i.mem_unit);
#elif defined(_SC_PHYS_PAGES)
  n = sysconf(_SC_PHYS_PAGES);
  if (n > 0) n *= sysconf(_SC_PAGESIZE);
#endif
  return n;
}
