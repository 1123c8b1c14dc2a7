/* Processes whose parent is the session: their end, and the slot of shared memory that each may
 * have. */
// link: -Wl,--wrap=clu_os_remove_tree
#include "test.h"

#include <sys/resource.h>
#include <sys/stat.h>

#include "core/base/input.h"
#include "core/base/os-folders.h"
#include "core/node/child-process.h"

static clu_loop loop;

static void init(clu_children *set) {
  REQUIRE(clu_loop_init(&loop, NULL) == CLU_OK);
  clu_children_init(set, &loop);
}

static void fini(clu_children *set) {
  clu_children_fini(set);
  clu_loop_fini(&loop);
}

static clu_child *start_in(clu_children *set, const char *script, clu_fd out, int slot,
                           const char *folder) {
  char *argv[] = {(char *)"/bin/sh", (char *)"-c", (char *)script, NULL};
  clu_spawn s;
  clu_child *c = NULL;
  clu_err e = {0, 0, ""};
  memset(&s, 0, sizeof s);
  s.file = argv[0];
  s.argv = argv;
  s.in = s.err = CLU_NO_FD;
  s.out = out;
  s.new_session = 1;
  CHECK_INT_EQ(clu_child_start(set, &s, slot, folder, &c, &e), CLU_OK);
  return c;
}

static clu_child *start(clu_children *set, const char *script, clu_fd out, int slot) {
  return start_in(set, script, out, slot, NULL);
}

TEST(one_that_does_not_end_is_killed_and_what_it_started_too) {
  clu_children set;
  clu_child *c;
  clu_exit how;
  int both[2];
  char b;
  init(&set);
  REQUIRE(pipe(both) == 0);
  c = start(&set, "sleep 100 & trap '' TERM INT; wait; sleep 100", both[1], -1);
  close(both[1]);
  clu_child_end_by(c, clu_os_now() + 50000000);
  CHECK_SOON((clu_loop_pump(&loop, 5000000, NULL), clu_child_has_ended(c)), 5000);
  CHECK(clu_child_how(c, &how) && how.by_signal);
  CHECK_INT_EQ(how.code, SIGKILL);
  CHECK_INT_EQ(read(both[0], &b, 1), 0); /* nobody has the other end any more */
  close(both[0]);
  clu_child_release(c);
  CHECK(set.first == NULL);
  fini(&set);
}

TEST(a_slot_is_kept_until_its_process_has_ended_and_nobody_looks_at_it) {
  clu_children set;
  clu_child *c[2];
  clu_err e = {0, 0, ""};
  clu_fd fd;
  int slot;
  init(&set);
  for (int i = 0; i < 2; i++) {
    REQUIRE(clu_child_slot(&set, &slot, &fd, &e) == CLU_OK);
    CHECK_INT_EQ(slot, i);
    c[i] = start(&set, "exec sleep 100", CLU_NO_FD, slot);
  }
  atomic_store(clu_child_claim(c[0]), 5);
  atomic_store(clu_child_claim(c[1]), 6);
  clu_child_end_by(c[0], 0);
  clu_child_end_by(c[1], 0);
  CHECK_SOON(
      (clu_loop_pump(&loop, 5000000, NULL), clu_child_has_ended(c[0]) && clu_child_has_ended(c[1])),
      5000);
  CHECK_INT_EQ(clu_claim_first(clu_child_claim(c[0])),
               5); /* what it had started is still to be read */
  CHECK(clu_child_ring(c[1]) == &set.shared->ring[1]);
  clu_child_detach(c[0]);
  CHECK(clu_child_claim(c[0]) == NULL);
  CHECK_INT_EQ(clu_claim_first(clu_child_claim(c[1])), 6);
  REQUIRE(clu_child_slot(&set, &slot, &fd, &e) == CLU_OK);
  CHECK_INT_EQ(slot, 0);
  clu_child_slot_free(&set, slot);
  clu_child_release(c[1]);
  CHECK(set.shared == NULL && set.shared_fd == CLU_NO_FD); /* with the last one it goes */
  clu_child_release(c[0]);
  fini(&set);
}

TEST(where_a_file_may_not_be_so_large_there_is_less_of_the_memory) {
  struct rlimit r;
  clu_children set;
  clu_err e = {0, 0, ""};
  clu_fd fd;
  int slot;
  REQUIRE(getrlimit(RLIMIT_FSIZE, &r) == 0);
  r.rlim_cur = sizeof(clu_shared) - 1;
  REQUIRE(setrlimit(RLIMIT_FSIZE, &r) == 0);
  init(&set);
  CHECK_INT_EQ(clu_child_slot(&set, &slot, &fd, &e), CLU_OK);
  atomic_store(&set.shared->claim[CLU_SLOTS - 1], 7);
  CHECK(clu_shared_ring(set.shared, slot) == NULL);
  clu_child_slot_free(&set, slot);
  r.rlim_cur = 4096;
  REQUIRE(setrlimit(RLIMIT_FSIZE, &r) == 0);
  CHECK_INT_EQ(clu_child_slot(&set, &slot, &fd, &e), CLU_SYS); /* an error and no signal */
  CHECK(strstr(e.text, "ulimit -f"));
  fini(&set);
}

static int removed_here;

int __real_clu_os_remove_tree(const char *path);
int __wrap_clu_os_remove_tree(const char *path) {
  removed_here++;
  return __real_clu_os_remove_tree(path);
}

/* A call or task of another node must not wait for it. */
TEST(its_large_folder_is_not_removed_by_this_thread) {
  clu_children set;
  clu_child *c;
  struct stat st;
  char dir[64] = "/tmp/clutch-test-XXXXXX", gone[80];
  char make[160];
  init(&set);
  REQUIRE(mkdtemp(dir));
  snprintf(gone, sizeof gone, "%s-gone", dir);
  snprintf(make, sizeof make, "cd %s; i=0; while [ $i -lt 500 ]; do : > $i; i=$((i + 1)); done",
           dir);
  c = start_in(&set, make, CLU_NO_FD, -1, dir);
  CHECK_SOON(clu_child_reap(c), 20000);
  CHECK(stat(dir, &st) != 0); /* who hears of the end finds no folder */
  CHECK_INT_EQ(removed_here, 0);
  CHECK_SOON(stat(gone, &st) != 0, 10000);
  clu_child_end_by(c, 0);
  clu_child_release(c);
  fini(&set);
}

TEST(one_that_ends_by_itself_is_reaped_when_asked_for) {
  clu_children set;
  clu_child *c;
  clu_exit how;
  init(&set);
  c = start(&set, "exit 3", CLU_NO_FD, -1);
  CHECK(clu_child_pid(c) > 0 && !clu_child_how(c, &how));
  clu_loop_pump(&loop, 0, NULL);
  CHECK(!clu_child_has_ended(c)); /* nobody has asked */
  CHECK_SOON(clu_child_reap(c), 5000);
  CHECK(clu_child_has_ended(c) && clu_child_how(c, &how));
  CHECK(!how.by_signal && how.code == 3);
  clu_child_end_by(c, 0); /* too late to matter */
  CHECK(!clu_timer_is_armed(&set.poll));
  clu_child_release(c);
  CHECK(set.first == NULL);
  fini(&set);
}

TEST(one_that_was_released_is_freed_by_a_pump_after_its_end) {
  clu_children set;
  clu_child *c;
  init(&set);
  c = start(&set, "exec sleep 100", CLU_NO_FD, -1);
  clu_child_end_by(c, 0);
  clu_child_release(c);
  CHECK(set.first == c && clu_timer_is_armed(&set.poll));
  CHECK_SOON((clu_loop_pump(&loop, 5000000, NULL), set.first == NULL), 5000);
  CHECK(!clu_timer_is_armed(&set.poll)); /* nothing is left to look at: no pump wakes up for it */
  fini(&set);
}

TEST(what_is_said_to_it_comes_by_its_input_which_is_kept_open) {
  clu_children set;
  clu_spawn s;
  clu_child *c = NULL;
  clu_err e = {0, 0, ""};
  clu_fd hold = CLU_NO_FD;
  clu_exit how;
  char *argv[] = {(char *)"/bin/sh", (char *)"-c",
                  (char *)"read a && read b c && [ \"$a $b $c\" = 'first 2 7' ] && exit 5", NULL};
  init(&set);
  memset(&s, 0, sizeof s);
  s.file = argv[0];
  s.argv = argv;
  s.out = s.err = CLU_NO_FD;
  s.new_session = 1;
  REQUIRE(clu_input_of("first\n", 6, &s.in, &hold, &e) == CLU_OK);
  s.hold = &hold;
  CHECK_INT_EQ(clu_child_start(&set, &s, -1, NULL, &c, &e), CLU_OK);
  clu_os_close(s.in);
  clu_child_say(c, "2 ", 2);
  CHECK_INT_EQ(clu_child_reap(c), 0);
  clu_child_say(c, "7\n", 2);
  CHECK_SOON(clu_child_reap(c), 5000);
  CHECK_INT_EQ(clu_child_how(c, &how), 1);
  CHECK_INT_EQ(how.code, 5);
  clu_child_say(c, "x", 1); /* nobody is there */
  clu_child_end_by(c, 0);
  clu_child_release(c);
  fini(&set);
}
