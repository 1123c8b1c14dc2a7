/* A driver for compilers without libFuzzer: runs a target over the seeds in a folder, changed at
 * random, for some seconds.
 *
 *   fuzz-x FOLDER SECONDS SEED     the seed is printed, and repeats the run; a crash leaves the
 * input in crash-x
 */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "fuzz.h"

enum { MOST = 60000, SEEDS = 64 };
static uint8_t seeds[SEEDS][MOST], now[MOST];
static size_t sizes[SEEDS];
static uint64_t state;

static uint64_t dice(uint64_t n) {
  state ^= state >> 12;
  state ^= state << 25;
  state ^= state >> 27;
  return (state * 2685821657736338717ull >> 11) % n;
}

int main(int argc, char **argv) {
  const char *folder = argc > 1 ? argv[1] : ".";
  double end = (double)time(NULL) + (argc > 2 ? atof(argv[2]) : 10);
  DIR *d = opendir(folder);
  struct dirent *f;
  int n = 0;
  unsigned long runs = 0;
  state = argc > 3 ? strtoull(argv[3], NULL, 10) : (uint64_t)time(NULL);
  printf("seed %llu\n", (unsigned long long)state);
  fflush(stdout);
  state = 2 * state + 1;
  while (d && (f = readdir(d)) && n < SEEDS) {
    char path[1024];
    FILE *in;
    snprintf(path, sizeof path, "%s/%s", folder, f->d_name);
    if (f->d_name[0] == '.' || !(in = fopen(path, "rb"))) continue;
    sizes[n] = fread(seeds[n], 1, MOST, in);
    fclose(in);
    n++;
  }
  if (d) closedir(d);
  if (n == 0) {
    fprintf(stderr, "no seeds in %s\n", folder);
    return 1;
  }
  while ((double)time(NULL) < end) {
    int s = (int)dice((uint64_t)n);
    size_t size = sizes[s];
    memcpy(now, seeds[s], size);
    for (uint64_t k = dice(8); k-- > 0 && size > 0;) {
      size_t at = (size_t)dice(size);
      switch (dice(5)) {
      case 0: now[at] = (uint8_t)dice(256); break;
      case 1: now[at] ^= (uint8_t)(1u << dice(8)); break;
      case 2: size = at; break;
      case 3: memmove(now + at, now + dice(size), size - at < 30 ? size - at : 30); break;
      default: now[at] = dice(2) ? 255 : 0;
      }
    }
    LLVMFuzzerTestOneInput(now, size);
    runs++;
  }
  printf("%lu runs\n", runs);
  return 0;
}
