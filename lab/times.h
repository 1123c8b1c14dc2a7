/* How the C measurements print the times of one thing done again and again. */
#ifndef CLUTCH_BENCH_TIMES_H
#define CLUTCH_BENCH_TIMES_H

#include <stdio.h>
#include <stdlib.h>

static int by_size(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

/* Median, minimum, 90 % and maximum of the n times, which are sorted. */
static void print_times(double *t, int n) {
  qsort(t, (size_t)n, sizeof *t, by_size);
  printf("%.3f %.3f %.3f %.3f", t[n / 2], t[0], t[n * 9 / 10], t[n - 1]);
}

#endif
