/* The harness of the C unit tests (../test.h) for Windows, where there is no fork: the tests run
 * one after the other in one process. A test fails when a check fails, or when afterwards there are
 * other sockets than before; one that takes more than 30 s ends the program. Otherwise to be used
 * as ../test.h, from which it takes the place: the Makefile here includes it first, so that tests
 * which need nothing of POSIX run unchanged.
 *
 * A program may define TEST_PARTS before it includes this, and test_part(): it is called instead of
 * the tests when the program is started with "--part" and a name, for tests that need a second
 * process.
 */
#ifndef CLUTCH_TEST_H
#define CLUTCH_TEST_H

#define TEST_SANITIZED 0
#define TEST_NO_FORK 1
#define TEST_SLOW_CALLS 1 /* by wine */
#define TEST_TEMP test_temp()

#include <errno.h>
#include <winsock2.h>
#include <windows.h>
#undef far /* src/core has fields of this name, and never that header */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TEST_SECONDS 30
#define TEST_MAX 500
#define TEST_UNUSED __attribute__((unused))

typedef struct test_case {
  const char *name;
  void (*run)(void);
} test_case;

static test_case test_cases[TEST_MAX];
static int test_n, test_failed, test_skipped;
static jmp_buf test_out;
static volatile LONG test_number; /* which one runs; the watching thread looks at it */
static const char *volatile test_name;
TEST_UNUSED static char test_program[MAX_PATH];

/* The folder for temporary files */
TEST_UNUSED static const char *test_temp(void) {
  static char path[MAX_PATH];
  DWORD n = GetTempPathA(sizeof path, path);
  if (n > 0 && n < sizeof path && path[n - 1] == '\\') path[n - 1] = 0;
  return path;
}

#define TEST(name)                                                                   \
  static void test_run_##name(void);                                                 \
  __attribute__((constructor)) static void test_add_##name(void) {                   \
    if (test_n < TEST_MAX) test_cases[test_n] = (test_case){#name, test_run_##name}; \
    test_n++;                                                                        \
  }                                                                                  \
  static void test_run_##name(void)

#define CHECK(cond) test_true(__FILE__, __LINE__, !!(cond), #cond)
#define REQUIRE(cond)                                                          \
  do {                                                                         \
    if (!test_true(__FILE__, __LINE__, !!(cond), #cond)) longjmp(test_out, 1); \
  } while (0)
#define CHECK_INT_EQ(got, want) \
  test_int_eq(__FILE__, __LINE__, #got, (long long)(got), #want, (long long)(want))
#define CHECK_STR_EQ(got, want) test_str_eq(__FILE__, __LINE__, #got, (got), #want, (want))
#define CHECK_MEM_EQ(got, want, n) test_mem_eq(__FILE__, __LINE__, #got, (got), #want, (want), (n))
#define CHECK_SOON(cond, ms)                                                                       \
  do {                                                                                             \
    double test_end = test_ms() + (ms);                                                            \
    int test_ok;                                                                                   \
    while (!(test_ok = !!(cond)) && test_ms() < test_end) Sleep(1);                                \
    if (!test_ok) test_fail(__FILE__, __LINE__, "not true within %g ms: %s", (double)(ms), #cond); \
  } while (0)
#define SKIP(why)                                                \
  do {                                                           \
    printf("  %s:%d: skipped: %s\n", __FILE__, __LINE__, (why)); \
    test_skipped = 1;                                            \
    longjmp(test_out, 1);                                        \
  } while (0)

__attribute__((format(gnu_printf, 3, 4))) TEST_UNUSED static int test_fail(const char *file,
                                                                           int line,
                                                                           const char *fmt, ...) {
  va_list ap;
  test_failed = 1;
  printf("  %s:%d: ", file, line);
  va_start(ap, fmt);
  vprintf(fmt, ap);
  va_end(ap);
  printf("\n");
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

TEST_UNUSED static double test_ms(void) {
  LARGE_INTEGER t, f;
  QueryPerformanceFrequency(&f);
  QueryPerformanceCounter(&t);
  return 1e3 * (double)t.QuadPart / (double)f.QuadPart;
}

/* The sockets of this process, found by asking all handles: they are small multiples of 4. */
__attribute__((noinline)) TEST_UNUSED static int test_count_sockets(void) {
  int n = 0;
  for (uintptr_t h = 4; h < 16384; h += 4) {
    int type, size = sizeof type;
    n += getsockopt((SOCKET)h, SOL_SOCKET, SO_TYPE, (char *)&type, &size) == 0;
  }
  return n;
}

static DWORD WINAPI test_watch(void *arg) {
  LONG number = test_number;
  int seconds = 0;
  (void)arg;
  for (;;) {
    Sleep(1000);
    if (test_number != number) {
      number = test_number;
      seconds = 0;
    } else if (++seconds > TEST_SECONDS) {
      printf("  not done within %d s\nFAIL %s\n", TEST_SECONDS, test_name);
      fflush(stdout);
      TerminateProcess(GetCurrentProcess(), 3);
    }
  }
  return 0;
}

/* 0 passed, 1 failed, 2 skipped */
static int test_one(const test_case *t, int verbose) {
  static double from; /* static: they have to outlive a longjmp() */
  static int sockets, after;
  from = test_ms();
  sockets = test_count_sockets();
  test_failed = test_skipped = 0;
  test_name = t->name;
  InterlockedIncrement(&test_number);
  if (setjmp(test_out) == 0) {
    t->run();
    if ((after = test_count_sockets()) != sockets)
      test_fail(t->name, 0, "%d sockets before, %d after", sockets, after);
  }
  if (test_failed)
    printf("FAIL %s (%.0f ms)\n", t->name, test_ms() - from);
  else if (verbose)
    printf("%s %s (%.0f ms)\n", test_skipped ? "skip" : "ok  ", t->name, test_ms() - from);
  fflush(stdout);
  return test_failed ? 1 : test_skipped ? 2 : 0;
}

#ifdef TEST_PARTS
static int test_part(const char *name, int argc, char **argv);
#endif

int main(int argc, char **argv) {
  int counts[3] = {0, 0, 0}, verbose = 0, chosen = 0;
  WSADATA about;
  WSAStartup(MAKEWORD(2, 2), &about);
  GetModuleFileNameA(NULL, test_program, sizeof test_program);
#ifdef TEST_PARTS
  if (argc > 2 && strcmp(argv[1], "--part") == 0) return test_part(argv[2], argc - 3, argv + 3);
#endif
  for (int i = 1; i < argc; i++) {
    if (strcmp(argv[i], "-v") == 0)
      verbose = 1;
    else
      chosen = 1;
  }
  CloseHandle(CreateThread(NULL, 0, test_watch, NULL, 0, NULL));
  /* from the last one on: this linker has the constructors run in reverse order */
  for (int k = (test_n < TEST_MAX ? test_n : TEST_MAX) - 1; k >= 0; k--) {
    int wanted = !chosen;
    for (int i = 1; i < argc; i++)
      wanted |= strcmp(argv[i], "-v") != 0 && strstr(test_cases[k].name, argv[i]) != NULL;
    if (wanted) counts[test_one(&test_cases[k], verbose)]++;
  }
  if (counts[2])
    printf("%d passed, %d failed, %d skipped\n", counts[0], counts[1], counts[2]);
  else
    printf("%d passed, %d failed\n", counts[0], counts[1]);
  return counts[1] ? 1 : 0;
}

#endif
