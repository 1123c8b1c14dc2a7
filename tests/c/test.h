/* A small harness for the C unit tests. One test-*.c is one program and includes this once:
 *
 *   #include "test.h"
 *   #include "core/wire/frame.h"                      // the headers of src/core are on the path
 *
 *   TEST(a_header_survives_the_trip) {
 *     CHECK_INT_EQ(clu_header_get(bytes, &h), CLU_OK);   // goes on after a failure
 *     REQUIRE(p = malloc(10));                           // ends the test after a failure
 *     CHECK_SOON(clu_os_reap(pid, 0, &how) == CLU_OK, 200);  // polls up to 200 ms, for tests
 * without sleeps
 *   }
 *
 * Each test runs in a process of its own, in file order. It fails when a check fails or a sanitizer
 * finds something, in it or in a process that it forked; when it ends by a signal or before its
 * closing brace; when it takes more than 100 s; when afterwards it has other descriptors open than
 * before, or children (not reaped ones count, too); with the address sanitizer, when it leaks
 * memory; and when a process that it started outlives it by more than a second. What is left is
 * killed, so that no test disturbs the next.
 *
 * Arguments: -v names every test, anything else runs only the tests whose name contains it. The
 * last line printed is "N passed, N failed", with ", N skipped" where SKIP() was used.
 */
#ifndef CLUTCH_TEST_H
#define CLUTCH_TEST_H

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#if defined(__linux__)
#include <sys/prctl.h>
#endif

#define TEST_TEMP "/tmp" /* for temporary files */

#if defined(__SANITIZE_ADDRESS__)
#define TEST_SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define TEST_SANITIZED 1
#endif
#endif
#ifndef TEST_SANITIZED
#define TEST_SANITIZED 0
#endif
#if TEST_SANITIZED && defined(__linux__)
int __lsan_do_recoverable_leak_check(void);
#endif
#if TEST_SANITIZED
const char *__asan_default_options(void);
const char *__ubsan_default_options(void);
const char *__asan_default_options(void) {
  return "abort_on_error=1:detect_stack_use_after_return=1:allocator_may_return_null=1";
}
const char *__ubsan_default_options(void) { return "abort_on_error=1:print_stacktrace=1"; }
#endif

/* CLUTCH_TEST_SECONDS: another number. */
static inline int test_seconds(void) {
  const char *given = getenv("CLUTCH_TEST_SECONDS");
  return given ? atoi(given) : 300;
}
#define TEST_MAX 500
#define TEST_MAX_FDS 4096
#define TEST_UNUSED __attribute__((unused))

typedef struct test_case {
  const char *name;
  void (*run)(void);
} test_case;

/* Shared by the runner, the test and all that it forks. */
typedef struct test_state {
  volatile int failed, skipped, finished;
} test_state;

static test_case test_cases[TEST_MAX];
static int test_n;
static test_state *test_now;
static int test_log = 1; /* a copy: a test may redirect its output */

#define TEST(name)                                                                   \
  static void test_run_##name(void);                                                 \
  __attribute__((constructor)) static void test_add_##name(void) {                   \
    if (test_n < TEST_MAX) test_cases[test_n] = (test_case){#name, test_run_##name}; \
    test_n++;                                                                        \
  }                                                                                  \
  static void test_run_##name(void)

#define CHECK(cond) test_true(__FILE__, __LINE__, !!(cond), #cond)
#define REQUIRE(cond)                                              \
  do {                                                             \
    if (!test_true(__FILE__, __LINE__, !!(cond), #cond)) _exit(1); \
  } while (0)
#define CHECK_INT_EQ(got, want) \
  test_int_eq(__FILE__, __LINE__, #got, (long long)(got), #want, (long long)(want))
#define CHECK_STR_EQ(got, want) test_str_eq(__FILE__, __LINE__, #got, (got), #want, (want))
/* `n` bytes; says where the first difference is */
#define CHECK_MEM_EQ(got, want, n) test_mem_eq(__FILE__, __LINE__, #got, (got), #want, (want), (n))
/* Asks every millisecond until it is true, at most `ms` milliseconds. */
#define CHECK_SOON(cond, ms)                                                                       \
  do {                                                                                             \
    double test_end = test_ms() + (ms);                                                            \
    int test_ok;                                                                                   \
    while (!(test_ok = !!(cond)) && test_ms() < test_end) test_pause();                            \
    if (!test_ok) test_fail(__FILE__, __LINE__, "not true within %g ms: %s", (double)(ms), #cond); \
  } while (0)
/* Ends the test; it counts as neither passed nor failed. */
#define SKIP(why)                                        \
  do {                                                   \
    test_note(__FILE__, __LINE__, "skipped: %s", (why)); \
    test_now->skipped = 1;                               \
    _exit(0);                                            \
  } while (0)

/* ---- what is said ---- */

static void test_vsay(const char *fmt, va_list ap) {
  char text[2048];
  int n = vsnprintf(text, sizeof text, fmt, ap);
  if (n >= (int)sizeof text) n = (int)sizeof text - 1;
  if (n <= 0) return;
  /* one write: lines of several processes do not mix */
  if (write(test_log, text, (size_t)n) < 0 && write(2, text, (size_t)n) < 0) return;
}

__attribute__((format(printf, 1, 2))) static void test_say(const char *fmt, ...) {
  va_list ap;
  va_start(ap, fmt);
  test_vsay(fmt, ap);
  va_end(ap);
}

__attribute__((format(printf, 3, 4))) TEST_UNUSED static void test_note(const char *file, int line,
                                                                        const char *fmt, ...) {
  char text[1536];
  va_list ap;
  va_start(ap, fmt);
  vsnprintf(text, sizeof text, fmt, ap);
  va_end(ap);
  test_say("  %s:%d: %s\n", file, line, text);
}

__attribute__((format(printf, 3, 4))) TEST_UNUSED static int test_fail(const char *file, int line,
                                                                       const char *fmt, ...) {
  char text[1536];
  va_list ap;
  va_start(ap, fmt);
  vsnprintf(text, sizeof text, fmt, ap);
  va_end(ap);
  test_now->failed = 1;
  test_say("  %s:%d: %s\n", file, line, text);
  return 0;
}

TEST_UNUSED static int test_true(const char *file, int line, int ok, const char *text) {
  return ok ? 1 : test_fail(file, line, "not true: %s", text);
}

TEST_UNUSED static int test_int_eq(const char *file, int line, const char *got_text, long long got,
                                   const char *want_text, long long want) {
  if (got == want) return 1;
  return test_fail(file, line, "%s is %lld, not %s = %lld", got_text, got, want_text, want);
}

TEST_UNUSED static int test_str_eq(const char *file, int line, const char *got_text,
                                   const char *got, const char *want_text, const char *want) {
  if (got == want || (got && want && strcmp(got, want) == 0)) return 1;
  return test_fail(file, line, "%s is \"%s\", not %s = \"%s\"", got_text, got ? got : "(NULL)",
                   want_text, want ? want : "(NULL)");
}

TEST_UNUSED static int test_mem_eq(const char *file, int line, const char *got_text,
                                   const void *got, const char *want_text, const void *want,
                                   size_t n) {
  const unsigned char *a = got, *b = want;
  size_t i = 0;
  while (i < n && a[i] == b[i]) i++;
  if (i == n) return 1;
  return test_fail(file, line, "%s and %s differ at byte %zu of %zu: 0x%02x and 0x%02x", got_text,
                   want_text, i, n, a[i], b[i]);
}

/* ---- time ---- */

static double test_ms(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

static void test_pause(void) {
  struct timespec t = {0, 1000000};
  nanosleep(&t, NULL);
}

/* ---- descriptors and processes ---- */

/* The open descriptors of this process, in `fds`; how many, or -1 when it cannot be told. */
static int test_open_fds(int *fds, int max) {
  DIR *d = opendir("/dev/fd");
  struct dirent *entry;
  int n = 0;
  if (!d) return -1;
  while ((entry = readdir(d)))
    if (entry->d_name[0] != '.' && atoi(entry->d_name) != dirfd(d) && n < max)
      fds[n++] = atoi(entry->d_name);
  closedir(d);
  return n;
}

/* For tests that count in between. */
TEST_UNUSED static int test_count_fds(void) {
  static int fds[TEST_MAX_FDS];
  return test_open_fds(fds, TEST_MAX_FDS);
}

static void test_compare_fds(const int *before, int n_before) {
  static int after[TEST_MAX_FDS];
  int n_after = test_open_fds(after, TEST_MAX_FDS);
  if (n_before < 0 || n_after < 0) {
    test_now->failed = 1;
    test_say("  open descriptors cannot be counted (is the limit on them back where it was?)\n");
    return;
  }
  for (int i = 0; i < n_after; i++) {
    char path[64], what[256];
    ssize_t len;
    int known = 0;
    for (int j = 0; j < n_before; j++) known |= before[j] == after[i];
    if (known) continue;
    snprintf(path, sizeof path, "/proc/self/fd/%d", after[i]);
    len = readlink(path, what, sizeof what - 1);
    what[len > 0 ? len : 0] = 0;
    test_now->failed = 1;
    test_say("  leaked: descriptor %d %s\n", after[i], what);
  }
  for (int j = 0; j < n_before; j++) {
    int there = 0;
    for (int i = 0; i < n_after; i++) there |= before[j] == after[i];
    if (there) continue;
    test_now->failed = 1;
    test_say("  closed: descriptor %d, which the test did not open\n", before[j]);
  }
}

/* The children of this process, by pid: running and ended ones. -1 where the system does not tell.
 */
static int test_children(pid_t *pids, int max) {
  DIR *d = opendir("/proc");
  struct dirent *entry;
  int n = 0;
  if (!d) return -1;
  while ((entry = readdir(d))) {
    char path[300], text[512], *end;
    FILE *f;
    int ppid = 0;
    if (entry->d_name[0] < '1' || entry->d_name[0] > '9') continue;
    snprintf(path, sizeof path, "/proc/%s/stat", entry->d_name);
    if (!(f = fopen(path, "re"))) continue;
    text[fread(text, 1, sizeof text - 1, f)] = 0;
    fclose(f);
    end = strrchr(text, ')'); /* the name before it may contain anything */
    if (end && sscanf(end + 1, " %*c %d", &ppid) == 1 && ppid == getpid() && n < max)
      pids[n++] = (pid_t)atoi(entry->d_name);
  }
  closedir(d);
  return n;
}

static void test_name_of(pid_t pid, char *name, size_t cap) {
  char path[64];
  FILE *f;
  size_t n = 0;
  snprintf(path, sizeof path, "/proc/%d/comm", (int)pid);
  if ((f = fopen(path, "re"))) {
    n = fread(name, 1, cap - 1, f);
    fclose(f);
  }
  while (n && name[n - 1] == '\n') n--;
  name[n] = 0;
}

static void test_no_children(void) {
  siginfo_t info;
  pid_t pids[32];
  int n;
  memset(&info, 0, sizeof info);
  if (waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) != 0) return; /* ECHILD: none */
  test_now->failed = 1;
  n = test_children(pids, 32);
  if (n < 1) test_say("  left: a child\n");
  for (int i = 0; i < n; i++) {
    char name[64];
    test_name_of(pids[i], name, sizeof name);
    test_say("  left: child %d %s\n", (int)pids[i], name);
  }
}

/* In the runner, to which the system hands the orphans of a test: gives them a second to end, says
 * which are left, and kills them. */
static void test_end_orphans(void) {
  double end = test_ms() + 1000;
  int said = 0;
  for (;;) {
    pid_t pid = waitpid(-1, NULL, WNOHANG);
    if (pid < 0 && errno == ECHILD) return;
    if (pid == 0) {
      if (test_ms() > end) {
        pid_t pids[32];
        int n = test_children(pids, 32);
        if (n < 0) return; /* cannot be told who */
        for (int i = 0; i < n; i++) {
          char name[64];
          test_name_of(pids[i], name, sizeof name);
          if (!said) test_say("  left: process %d %s\n", (int)pids[i], name);
          kill(pids[i], SIGKILL);
        }
        if (n > 0) {
          said = 1;
          test_now->failed = 1;
        }
      }
      test_pause();
    }
  }
}

/* ---- running ---- */

/* A sanitizer ends this process, or assert() does: of a child, the test would not notice it. */
static void test_on_abort(int sig) {
  test_now->failed = 1;
  signal(sig, SIG_DFL);
  raise(sig);
}

static void test_in_child(const test_case *t) {
  static int fds[TEST_MAX_FDS];
  int n, dup_log = fcntl(test_log, F_DUPFD_CLOEXEC, 200);
  if (dup_log >= 0) test_log = dup_log;
  signal(SIGABRT, test_on_abort);
  alarm((unsigned)test_seconds());
  n = test_open_fds(fds, TEST_MAX_FDS);
  t->run();
  test_compare_fds(fds, n);
  test_no_children();
#if TEST_SANITIZED && defined(__linux__)
  if (__lsan_do_recoverable_leak_check()) {
    test_now->failed = 1;
    test_say("  leaked: memory, see above\n");
  }
#endif
  test_now->finished = 1;
  _exit(0);
}

/* 0 passed, 1 failed, 2 skipped */
static int test_one(const test_case *t, int verbose) {
  double from = test_ms(), end = from + (test_seconds() + 5) * 1e3;
  int status = 0, timed_out = 0;
  pid_t pid;
  memset((void *)test_now, 0, sizeof *test_now);
  fflush(NULL);
  if ((pid = fork()) == 0) test_in_child(t);
  if (pid < 0) {
    test_now->failed = 1;
    test_say("  fork: %s\n", strerror(errno));
  } else {
    pid_t done;
    /* the alarm may be blocked by what is tested: the runner has its own clock */
    while ((done = waitpid(pid, &status, WNOHANG)) == 0 || (done < 0 && errno == EINTR)) {
      if (!timed_out && test_ms() > end) timed_out = kill(pid, SIGKILL) == 0;
      test_pause();
    }
    if (timed_out || (WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM)) {
      test_now->failed = 1;
      test_say("  not done within %d s\n", test_seconds());
    } else if (WIFSIGNALED(status)) {
      test_now->failed = 1;
      test_say("  ended by signal %d (%s)\n", WTERMSIG(status), strsignal(WTERMSIG(status)));
    } else if (!test_now->finished && !test_now->skipped) {
      if (!test_now->failed) test_say("  ended early, exit status %d\n", WEXITSTATUS(status));
      test_now->failed = 1;
    }
    test_end_orphans();
  }
  if (test_now->failed)
    test_say("FAIL %s (%.0f ms)\n", t->name, test_ms() - from);
  else if (verbose)
    test_say("%s %s (%.0f ms)\n", test_now->skipped ? "skip" : "ok  ", t->name, test_ms() - from);
  return test_now->failed ? 1 : test_now->skipped ? 2 : 0;
}

int main(int argc, char **argv) {
  int counts[3] = {0, 0, 0}, verbose = 0, chosen = 0;
  for (int i = 1; i < argc; i++) {
    if (strcmp(argv[i], "-v") == 0)
      verbose = 1;
    else
      chosen = 1;
  }
  if (test_n > TEST_MAX) {
    fprintf(stderr, "more than %d tests in one program\n", TEST_MAX);
    return 2;
  }
  test_now =
      mmap(NULL, sizeof *test_now, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (test_now == MAP_FAILED) {
    perror("mmap");
    return 2;
  }
#if defined(__linux__)
  prctl(PR_SET_CHILD_SUBREAPER, 1); /* orphans of a test come here; children do not inherit this */
#endif
  for (int k = 0; k < test_n; k++) {
    int wanted = !chosen;
    for (int i = 1; i < argc; i++)
      wanted |= strcmp(argv[i], "-v") != 0 && strstr(test_cases[k].name, argv[i]) != NULL;
    if (wanted) counts[test_one(&test_cases[k], verbose)]++;
  }
  if (counts[2])
    test_say("%d passed, %d failed, %d skipped\n", counts[0], counts[1], counts[2]);
  else
    test_say("%d passed, %d failed\n", counts[0], counts[1]);
  return counts[1] ? 1 : 0;
}

#endif
