/* What processes use, looked at now and then. */
#include "test.h"

#include "core/base/process-use.h"

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
  uint64_t began = clu_os_now(), now = began;
  volatile double sum = 0;
  clu_process_use_begin(&x, clu_os_getpid());
  CHECK(x.cpu < 0 && x.own < 0);
  clu_process_use_look(&x, 0, now);
  if (x.own < 0) return; /* the system does not tell */
  CHECK(x.cpu < 0 && x.own > 0);
  while (clu_os_now() < began + 300000000u)
    for (int i = 0; i < 100000; i++) sum += i;
  clu_process_use_look(&x, 1, clu_os_now());
  CHECK(x.cpu > 0.01 && x.cpu < 1.5);
}

TEST(of_a_process_that_is_not_there_nothing_is_known) {
  clu_process_use x;
  clu_process_use_begin(&x, 1 << 30);
  clu_process_use_look(&x, UINT64_MAX, clu_os_now());
  CHECK(x.cpu < 0 && x.own < 0);
}
