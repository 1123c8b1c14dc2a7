/* Tokens of a budget of cores. */
#include "test.h"

#include <stdatomic.h>
#include <sys/stat.h>

#include "core/base/budget.h"
#include "core/base/os.h"
#include "core/base/os-folders.h"

#define CORES 4

static char under[64];

static void new_folder(void) {
  strcpy(under, "/tmp/test-budget-XXXXXX");
  REQUIRE(mkdtemp(under));
}

static int take(int n) { return clu_budget_take(n, CORES, under); }

static void clean_up(void) {
  clu_budget_give(clu_budget_held());
  CHECK_INT_EQ(clu_os_remove_tree(under), 0);
}

TEST(no_more_are_handed_out_than_there_are) {
  new_folder();
  CHECK_INT_EQ(take(3), 3);
  CHECK_INT_EQ(take(3), 1);
  CHECK_INT_EQ(take(1), 0);
  CHECK_INT_EQ(clu_budget_held(), 4);
  clu_budget_give(2);
  CHECK_INT_EQ(take(0), 0);
  CHECK_INT_EQ(take(5), 2);
  clu_budget_give(100);
  CHECK_INT_EQ(clu_budget_held(), 0);
  CHECK_INT_EQ(take(4), 4);
  clean_up();
}

TEST(tokens_come_back_when_their_holder_is_killed_and_its_children_have_none) {
  int ready[2];
  char byte;
  pid_t pid;
  new_folder();
  CHECK_INT_EQ(take(1), 1);
  REQUIRE(pipe(ready) == 0);
  pid = fork();
  if (pid == 0) {
    int mine = clu_budget_held() == 0 && take(2) == 2;
    (void)!write(ready[1], &mine, 1);
    pause();
    _exit(0);
  }
  REQUIRE(read(ready[0], &byte, 1) == 1);
  CHECK_INT_EQ(byte, 1);
  CHECK_INT_EQ(take(4), 1);
  clu_budget_give(1);
  kill(pid, SIGKILL);
  CHECK_INT_EQ(waitpid(pid, NULL, 0), pid);
  CHECK_INT_EQ(take(4), 3);
  close(ready[0]);
  close(ready[1]);
  clean_up();
}

TEST(a_folder_that_others_can_use_is_no_budget) {
  char path[128];
  new_folder();
  snprintf(path, sizeof path, "%s/clutch-cores-%ld", under, (long)geteuid());
  REQUIRE(mkdir(path, 0700) == 0 && chmod(path, 0770) == 0);
  CHECK_INT_EQ(take(9), 9);
  CHECK_INT_EQ(clu_budget_held(), 0);
  REQUIRE(rmdir(path) == 0 && symlink("/tmp", path) == 0);
  CHECK_INT_EQ(take(9), 9);
  CHECK_INT_EQ(clu_budget_held(), 0);
  clean_up();
}

/* ---- trees of maps ---- */

static struct { atomic_int now, most, tasks, shared; } * all;
static unsigned chance;

static int below(int n) {
  chance = chance * 1103515245u + 12345u;
  return (int)(chance >> 16) % n;
}

static void compute(void) {
  int now = atomic_fetch_add(&all->now, 1) + 1, most = atomic_load(&all->most);
  while (now > most && !atomic_compare_exchange_weak(&all->most, &most, now)) continue;
  for (uint64_t end = clu_os_now() + 100000; clu_os_now() < end;) continue;
  atomic_fetch_sub(&all->now, 1);
  atomic_fetch_add(&all->tasks, 1);
}

/* A task on a core that somebody has a token for: `n` elements on so many nodes as there are
 * tokens, and its own core. */
static void map(int n, int depth, int own);

static void do_task(int depth) {
  compute();
  if (depth < 3 && below(2)) map(1 + below(4), depth + 1, 1);
  if (below(4) == 0) compute();
}

static void map(int n, int depth, int own) {
  int got = take(n - own), nodes = got + own;
  if (nodes == 0) nodes = 1; /* nobody waits */
  if (depth > 1 && got) atomic_fetch_add(&all->shared, 1);
  for (int k = 0; k < nodes; k++) {
    if (fork() != 0) continue;
    chance += (unsigned)k * 7919u;
    for (int i = k; i < n; i += nodes) do_task(depth);
    _exit(0);
  }
  while (wait(NULL) > 0) continue;
  clu_budget_give(got);
}

TEST(trees_of_maps_never_compute_on_more_cores_and_never_wait_for_each_other) {
  const int trees = TEST_SANITIZED ? 60 : 1000;
  new_folder();
  all = mmap(NULL, sizeof *all, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  REQUIRE(all != MAP_FAILED);
  for (int i = 0; i < trees; i++) {
    chance = (unsigned)i * 2654435761u;
    map(1 + below(4), 1, 0);
    CHECK_INT_EQ(atomic_load(&all->now), 0);
    CHECK_INT_EQ(clu_budget_held(), 0);
  }
  CHECK(atomic_load(&all->most) <= CORES);
  CHECK(atomic_load(&all->most) > 1);
  CHECK(atomic_load(&all->tasks) > 2 * trees);
  CHECK(atomic_load(&all->shared) > trees / 10); /* maps within maps got tokens, too */
  munmap(all, sizeof *all);
  clean_up();
}
