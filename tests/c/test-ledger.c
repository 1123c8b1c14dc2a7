/* These tests are of what hosts have to hand out: single decisions, and random schedules in which
 * no part of a unit is given twice. */
#include "dice.h"
#include "test.h"

#include "core/sched/ledger.h"

#define HALF (CLU_WHOLE / 2)

static clu_need need(uint32_t cores, uint32_t gpu, uint32_t licence) {
  clu_need x = {.cores = cores};
  x.parts[0] = gpu;
  x.parts[1] = licence;
  return x;
}

static clu_ledger *one_host(uint32_t cores, uint32_t gpus, uint32_t licences) {
  clu_host_has has = {.cores = cores};
  has.units[0] = gpus;
  has.units[1] = licences;
  return clu_ledger_new(&has, 1);
}

/* Gives what has to fit. */
static clu_grant give(clu_ledger *l, clu_need x) {
  clu_grant g = {0};
  CHECK(clu_ledger_fits(l, 0, &x, 1));
  clu_ledger_give(l, 0, &x, 0, &g);
  return g;
}

TEST(what_asks_for_nothing_or_memory_only_is_in_no_ledger) {
  clu_need x = {.memory = 1000}, y = need(0, 1, 0), z = need(1, 0, 0);
  CHECK(!clu_need_asks(&x) && clu_need_asks(&y) && clu_need_asks(&z));
  y.memory = 5;
  x = need(0, 1, 0);
  CHECK(clu_need_is_same(&x, &y) && !clu_need_is_same(&x, &z));
}

TEST(cores_are_given_until_there_are_none_and_come_back) {
  clu_ledger *l = one_host(4, 0, 0);
  clu_need two = need(2, 0, 0), one = need(1, 0, 0), none = need(0, 0, 0);
  clu_grant a = give(l, two), b = give(l, one), c = give(l, one);
  CHECK(a.cores == 2 && b.cores == 1 && clu_ledger_free_cores(l, 0) == 0);
  CHECK(!clu_ledger_fits(l, 0, &one, 1));
  CHECK(clu_ledger_fits(l, 0, &none, 1)); /* it waits for none */
  clu_ledger_return(l, 0, &b);
  CHECK(clu_ledger_fits(l, 0, &one, 1) && !clu_ledger_fits(l, 0, &two, 1));
  clu_ledger_return(l, 0, &a);
  clu_ledger_return(l, 0, &c);
  CHECK_INT_EQ(clu_ledger_free_cores(l, 0), 4);
  clu_ledger_free(l);
}

TEST(who_asks_for_none_counts_for_those_who_do) {
  clu_ledger *l = one_host(2, 0, 0);
  clu_need one = need(1, 0, 0);
  clu_ledger_count(l, 0, 3);
  CHECK_INT_EQ(clu_ledger_free_cores(l, 0), -1);
  CHECK(!clu_ledger_fits(l, 0, &one, 1));
  clu_ledger_count(l, 0, -2);
  CHECK(clu_ledger_fits(l, 0, &one, 1));
  clu_ledger_free(l);
}

TEST(more_cores_than_asked_for_can_be_given) {
  clu_ledger *l = one_host(8, 0, 0);
  clu_need one = need(1, 0, 0);
  clu_grant g;
  clu_ledger_give(l, 0, &one, 6, &g);
  CHECK(g.cores == 6 && clu_ledger_free_cores(l, 0) == 2);
  clu_ledger_return(l, 0, &g);
  CHECK_INT_EQ(clu_ledger_free_cores(l, 0), 8);
  clu_ledger_free(l);
}

TEST(parts_share_a_unit_so_that_others_stay_whole) {
  clu_ledger *l = one_host(8, 2, 0);
  clu_need half = need(0, HALF, 0), whole = need(0, CLU_WHOLE, 0);
  clu_grant a = give(l, half), b = give(l, half), c;
  CHECK(clu_grant_has(&a, 0, 0) && clu_grant_has(&b, 0, 0) && !clu_grant_has(&b, 0, 1));
  c = give(l, whole);
  CHECK(clu_grant_has(&c, 0, 1) && !clu_ledger_fits(l, 0, &half, 1));
  clu_ledger_return(l, 0, &a);
  CHECK(clu_ledger_fits(l, 0, &half, 1) && !clu_ledger_fits(l, 0, &whole, 1));
  clu_ledger_return(l, 0, &b);
  clu_ledger_return(l, 0, &c);
  CHECK(clu_ledger_left(l, 0, 0, 0) == CLU_WHOLE && clu_ledger_left(l, 0, 0, 1) == CLU_WHOLE);
  clu_ledger_free(l);
}

TEST(thirds_fit_three_times) {
  clu_ledger *l = one_host(8, 1, 0);
  clu_need third = need(0, CLU_WHOLE / 3, 0);
  for (int k = 0; k < 3; k++) give(l, third);
  CHECK(!clu_ledger_fits(l, 0, &third, 1));
  clu_ledger_free(l);
}

TEST(two_kinds_are_given_together_or_not_at_all) {
  clu_ledger *l = one_host(8, 2, 1);
  clu_need both = need(1, CLU_WHOLE, CLU_WHOLE), gpu = need(1, CLU_WHOLE, 0);
  clu_grant a = give(l, both);
  CHECK(!clu_ledger_fits(l, 0, &both, 1) && clu_ledger_fits(l, 0, &gpu, 1));
  clu_ledger_return(l, 0, &a);
  CHECK(clu_ledger_fits(l, 0, &both, 1));
  clu_ledger_free(l);
}

TEST(what_a_host_never_has_is_told) {
  clu_ledger *l = one_host(4, 2, 0);
  clu_need cores = need(5, 0, 0), gpus = need(1, 3 * CLU_WHOLE, 0), licence = need(0, 0, 1);
  clu_need well = need(4, 2 * CLU_WHOLE, 0);
  give(l, well);
  CHECK(clu_ledger_could(l, 0, &well)); /* though not now */
  CHECK(!clu_ledger_could(l, 0, &cores) && !clu_ledger_could(l, 0, &gpus));
  CHECK(!clu_ledger_could(l, 0, &licence));
  clu_ledger_free(l);
}

TEST(what_an_earlier_job_waits_for_is_kept_for_it) {
  clu_ledger *l = one_host(4, 2, 1);
  clu_need two = need(1, 2 * CLU_WHOLE, 0), one = need(1, CLU_WHOLE, 0),
           other = need(1, 0, CLU_WHOLE);
  clu_grant a = give(l, one);
  CHECK(!clu_ledger_fits(l, 0, &two, 2));
  clu_ledger_keep_for(l, 0, &two, 2);
  CHECK(!clu_ledger_fits(l, 0, &one, 3));  /* it came later */
  CHECK(clu_ledger_fits(l, 0, &one, 1));   /* it came before */
  CHECK(clu_ledger_fits(l, 0, &other, 3)); /* it asks for something else, and cores are there */
  CHECK(!clu_ledger_keeps_cores(l, 0, 3));
  clu_ledger_keep_none(l);
  CHECK(clu_ledger_fits(l, 0, &one, 3));
  clu_ledger_return(l, 0, &a);
  clu_ledger_free(l);
}

TEST(cores_are_kept_where_there_are_too_few) {
  clu_ledger *l = one_host(4, 0, 0);
  clu_need three = need(3, 0, 0), one = need(1, 0, 0), none = need(0, 0, 0);
  clu_ledger_count(l, 0, 2);
  clu_ledger_keep_for(l, 0, &three, 5);
  CHECK(clu_ledger_keeps_cores(l, 0, 6) && !clu_ledger_keeps_cores(l, 0, 5));
  CHECK(!clu_ledger_fits(l, 0, &one, 6) && !clu_ledger_fits(l, 0, &none, 6));
  CHECK(clu_ledger_fits(l, 0, &one, 4));
  clu_ledger_free(l);
}

TEST(hosts_have_their_own) {
  clu_host_has has[2] = {{.cores = 1}, {.cores = 4}};
  clu_ledger *l;
  clu_need gpu = need(2, CLU_WHOLE, 0);
  clu_grant g;
  has[1].units[0] = 1;
  REQUIRE(l = clu_ledger_new(has, 2));
  CHECK(!clu_ledger_fits(l, 0, &gpu, 1) && clu_ledger_fits(l, 1, &gpu, 1));
  clu_ledger_give(l, 1, &gpu, 2, &g);
  CHECK(clu_ledger_free_cores(l, 0) == 1 && clu_ledger_free_cores(l, 1) == 2);
  clu_ledger_return(l, 1, &g);
  clu_ledger_free(l);
}

/* ---- random schedules ---- */

enum { TASKS = 40, GPUS = 5, LICENCES = 70, CORES = 16 };

/* All that is given is at each time what the grants say, and no part is given twice. */
static int adds_up(const clu_ledger *l, const clu_grant *grants, const int *runs) {
  static const int most[2] = {GPUS, LICENCES};
  int64_t cores = 0;
  for (int t = 0; t < TASKS; t++) cores += runs[t] ? grants[t].cores : 0;
  if (clu_ledger_free_cores(l, 0) != CORES - cores) return 0;
  for (int k = 0; k < 2; k++) {
    for (int u = 0; u < most[k]; u++) {
      uint32_t used = 0;
      for (int t = 0; t < TASKS; t++)
        if (runs[t] && clu_grant_has(&grants[t], k, u)) used += grants[t].parts[k];
      if (used > CLU_WHOLE || clu_ledger_left(l, 0, k, u) != CLU_WHOLE - used) return 0;
    }
  }
  return 1;
}

static uint32_t any_parts(uint64_t most) {
  if (dice(3) == 0) return 0;
  return dice(2) ? 1 + (uint32_t)dice(CLU_WHOLE - 1) : CLU_WHOLE * (1 + (uint32_t)dice(most));
}

static int units_of(const clu_grant *g, int kind) {
  int n = 0;
  for (int u = 0; u < CLU_UNITS; u++) n += clu_grant_has(g, kind, u);
  return n;
}

TEST(no_part_of_a_unit_is_given_twice_whatever_happens) {
  clu_ledger *l = one_host(CORES, GPUS, LICENCES);
  static clu_grant grants[TASKS];
  int runs[TASKS] = {0}, ok = 1;
  long given = 0, steps = TEST_SANITIZED ? 20000 : 200000;
  for (long s = 0; s < steps && ok; s++) {
    int t = (int)dice(TASKS);
    clu_need x = need((uint32_t)dice(5), any_parts(GPUS), any_parts(4));
    if (runs[t]) {
      clu_ledger_return(l, 0, &grants[t]);
      runs[t] = 0;
    } else if (clu_ledger_fits(l, 0, &x, 1)) {
      clu_ledger_give(l, 0, &x, 0, &grants[t]);
      runs[t] = 1;
      given++;
      for (int k = 0; k < 2; k++) {
        int whole = (int)(x.parts[k] / CLU_WHOLE);
        ok &= units_of(&grants[t], k) == (whole ? whole : x.parts[k] > 0);
      }
    }
    if (s % 8 == 0) ok &= adds_up(l, grants, runs);
  }
  CHECK(ok && given > steps / 10);
  clu_ledger_free(l);
}
