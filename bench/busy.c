/* One call that computes for some seconds and never looks at the interpreter: for bench/busy.R and
 * bench/busy.py. */
#include <time.h>

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

void busy_for(double *seconds) {
  double end = now() + *seconds;
  volatile double x = 1;
  while (now() < end)
    for (int i = 0; i < 1000; i++) x = x * 0.999 + 1;
}
