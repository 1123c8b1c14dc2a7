/* What it costs to touch memory here, in us a page: for the first time, and after a fork (the page
 * is copied). For bench/faults.R: lines of a name and a number between which is a tab. */
#include <stdio.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { PAGE = 4096, PAGES = 25600 };

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec * 1e6 + t.tv_nsec * 1e-3;
}

static double touch(char *p, char value) {
  double began = now();
  for (long i = 0; i < PAGES; i++) p[i * PAGE] = value;
  return (now() - began) / PAGES;
}

int main(void) {
  char *p =
      mmap(NULL, (size_t)PAGES * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  pid_t child;
  if (p == MAP_FAILED) return 1;
#if defined(MADV_NOHUGEPAGE)
  madvise(p, (size_t)PAGES * PAGE, MADV_NOHUGEPAGE);
#endif
  printf("first touch of a page (us)\t%.2f\n", touch(p, 1));
  fflush(stdout);
  child = fork();
  if (child == 0) {
    printf("copy of a page (us)\t%.2f\n", touch(p, 2));
    fflush(stdout);
    _exit(0);
  }
  waitpid(child, NULL, 0);
  return 0;
}
