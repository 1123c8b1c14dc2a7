/* These tests are of what processes use, looked at now and then. */
#include "test.h"

#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "core/view/process-use.h"

TEST(of_few_processes_all_are_looked_at_and_of_many_a_part) {
  uint64_t now = 100000000000u;
  CHECK_INT_EQ(clu_process_use_turn(0, 0, now), 0);
  CHECK_INT_EQ(clu_process_use_turn(5, now - 1, now), 5);
  CHECK_INT_EQ(clu_process_use_turn(1000, 0, now), 1000);
  CHECK_INT_EQ(clu_process_use_turn(1000, now - 1, now), CLU_USE_FEW);
  CHECK_INT_EQ(clu_process_use_turn(1000, now - CLU_USE_ALL_WITHIN, now), 1000);
  /* asked twice a second, all have their turn in time */
  for (int n = 33, rounds = (int)(CLU_USE_ALL_WITHIN / 500000000u); n < 5000; n += 97)
    CHECK(rounds * clu_process_use_turn(n, now - 500000000u, now) >= n);
}

TEST(what_this_process_uses_is_found) {
  clu_process_use x;
  uint64_t began = clu_os_now(), now = began, end = began + 30000000000u;
  volatile double sum = 0;
  double used = (double)clock(), share;
  clu_process_use_begin(&x, clu_os_getpid());
  CHECK(x.cpu < 0 && x.own < 0);
  clu_process_use_look(&x, now);
  if (x.own < 0) return; /* the system does not tell */
  CHECK(x.cpu < 0 && x.own > 0);
  while (((double)clock() - used) / CLOCKS_PER_SEC < 0.3 && clu_os_now() < end)
    for (int i = 0; i < 100000; i++) sum = sum + i;
  now = clu_os_now();
  clu_process_use_look(&x, now);
  /* others may have the processor: of the time that has passed, by the process's own clock */
  share = ((double)clock() - used) / CLOCKS_PER_SEC / (1e-9 * (double)(now - began));
  CHECK(x.cpu > 0.5 * share && x.cpu < 1.5 * share);
}

static void touch(char *p, size_t n) {
  for (size_t i = 0; i < n; i += 1024) ((volatile char *)p)[i] = 1;
}

TEST(memory_that_comes_is_seen_at_once_and_that_which_went_is_weighed_when_there_is_time) {
  enum { SIZE = 32 << 20 };
  clu_process_use x, y;
  uint64_t now = clu_os_now(), second = 1000000000u;
  int64_t before;
  char *p;
  clu_process_use_begin(&x, clu_os_getpid());
  clu_process_use_look(&x, now);
  if (x.own < 0) return; /* the system does not tell */
  CHECK(x.weighed == 0 && x.is_due && x.doubt == x.own);
  clu_process_use_weigh(&x, now);
  before = x.own;
  CHECK(before > 0 && x.weighed == now && !x.is_due && x.doubt == 0);
  x.took = 0; /* also where the machine is slow */
  p = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  CHECK(p != MAP_FAILED);
#ifdef MADV_NOHUGEPAGE
  madvise(p, SIZE, MADV_NOHUGEPAGE); /* each of its pages counts */
#endif
  touch(p, SIZE);
  clu_process_use_look(&x, now + second / 2);
  CHECK(x.own > before + SIZE / 2 && x.own < before + 2 * (int64_t)SIZE);
  CHECK(x.weighed == now && x.doubt < SIZE / 2); /* what is new is its own */
  munmap(p, SIZE); /* pages of its own, or others: that is not known */
  clu_process_use_look(&x, now + 7 * second / 2);
  CHECK(x.own < before + 2 * (int64_t)SIZE && x.weighed == now && x.is_due);
  CHECK(x.doubt > SIZE / 2);
  /* who is in more doubt is first */
  y = x;
  y.doubt++;
  CHECK(clu_process_use_first(&x, &y) == &y && clu_process_use_first(&y, &x) == &y);
  clu_process_use_weigh(&y, now + 3 * second);
  CHECK(y.weighed == now + 3 * second && !y.is_due && y.doubt == 0);
  CHECK(y.own < before + SIZE / 2);
  CHECK(clu_process_use_first(&y, &x) == &x && clu_process_use_first(&x, &y) == &x);
  CHECK(clu_process_use_first(&y, NULL) == NULL && clu_process_use_first(NULL, &x) == &x);
  /* one that was given no pages since has no more of them */
  clu_process_use_look(&x, now + 3 * second);
  clu_process_use_weigh(&x, now + 3 * second);
  clu_process_use_look(&x, now + 6 * second);
  CHECK(!x.is_due);
}

TEST(shared_memory_that_is_written_to_is_seen_at_once) {
  enum { SIZE = 16 << 20 };
  clu_process_use x;
  uint64_t now = clu_os_now(), second = 1000000000u;
  int go[2], done[2];
  char c = 0, *p = malloc(SIZE);
  pid_t child;
  CHECK(p && pipe(go) == 0 && pipe(done) == 0);
  touch(p, SIZE);
  if ((child = fork()) == 0) {
    if (write(done[1], &c, 1) != 1 || read(go[0], &c, 1) != 1) _exit(1);
    touch(p, SIZE);
    if (write(done[1], &c, 1) != 1 || read(go[0], &c, 1) != 1) _exit(1);
    _exit(0);
  }
  CHECK(child > 0 && read(done[0], &c, 1) == 1);
  clu_process_use_begin(&x, child);
  clu_process_use_look(&x, now);
  if (x.own >= 0) { /* else the system does not tell */
    CHECK(x.own < SIZE / 2);
    clu_process_use_weigh(&x, now);
    CHECK(x.own < SIZE / 2);
    CHECK(write(go[1], &c, 1) == 1 && read(done[0], &c, 1) == 1);
    clu_process_use_look(&x, now + second);
    CHECK(x.weighed == now && x.own > SIZE / 2 && x.own < 2 * SIZE);
  }
  kill(child, SIGKILL);
  CHECK(waitpid(child, NULL, 0) == child);
  for (int k = 0; k < 2; k++) {
    close(go[k]);
    close(done[k]);
  }
  free(p);
}

TEST(of_the_time_a_thousandth_is_spent_on_weighing) {
  clu_weighing w = {0, 0};
  uint64_t now = clu_os_now(), ms = 1000000;
  CHECK(clu_weighing_may(&w, now));
  clu_weighing_spend(&w, 5 * ms);
  CHECK(clu_weighing_may(&w, now)); /* of few, all are at once */
  clu_weighing_spend(&w, 95 * ms);
  CHECK(!clu_weighing_may(&w, now) && !clu_weighing_may(&w, now + 70000 * ms));
  CHECK(clu_weighing_may(&w, now + 90000 * ms));
  for (int k = 0, n = 0; k < 200; k++) {
    now += 500 * ms;
    if (!clu_weighing_may(&w, now + 90000 * ms)) continue;
    clu_weighing_spend(&w, 4 * ms);
    CHECK(++n <= 40);
  }
}

TEST(of_a_process_that_is_not_there_nothing_is_known) {
  clu_process_use x;
  clu_process_use_begin(&x, 1 << 30);
  clu_process_use_look(&x, clu_os_now());
  CHECK(x.cpu < 0 && x.own < 0);
}
