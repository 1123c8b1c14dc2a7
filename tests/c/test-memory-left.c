/* These tests are of what bounds the memory of this process, and of what is left of it, by trees of
 * files as machines have them. */
#include "test.h"

#include "core/base/err.h"
#include "core/base/os-memory.h"
#include "core/base/os.h"

#if defined(__linux__) && !defined(CLU_PORTABLE)
#include "root-fixture.h"

static clu_memory_bounds bounds;
static clu_memory_left is;

/* A machine of 8e9 bytes, of which 4e9 are left; its processes are in these groups. */
static void begin(const char *groups) {
  begin_root();
  put("/proc/meminfo", "MemTotal: 8000000 kB\nMemFree: 1 kB\nMemAvailable: 4000000 kB\n");
  put("/proc/self/cgroup", groups);
}

static void find(int n) {
  CHECK_INT_EQ(clu_os_memory_bounds(root, &bounds), CLU_OK);
  CHECK_INT_EQ(bounds.n, n);
}

static void leaves(int64_t limit, int64_t left) {
  CHECK_INT_EQ(clu_os_memory_left(root, &bounds, &is), CLU_OK);
  CHECK_INT_EQ(is.limit, limit);
  CHECK_INT_EQ(is.left, left);
}

TEST(without_groups_the_machine_bounds) {
  begin("");
  find(1);
  leaves(8192000000, 4096000000);
  put("/proc/meminfo", "MemTotal: 8000000 kB\n"); /* a system that does not tell what is left */
  CHECK_INT_EQ(clu_os_memory_left(root, &bounds, &is), CLU_UNSUPPORTED);
  end();
}

TEST(of_version_2_each_group_around_bounds) {
  begin("0::/user/a b\n");
  put("/sys/fs/cgroup/user/a b/memory.max", "max\n");
  put("/sys/fs/cgroup/user/a b/memory.current", "5000\n");
  put("/sys/fs/cgroup/user/memory.max", "900000000\n");
  put("/sys/fs/cgroup/user/memory.current", "300000000\n");
  put("/sys/fs/cgroup/memory.max", "7000000000\n");
  put("/sys/fs/cgroup/memory.current", "6800000000\n");
  find(3);
  leaves(7000000000, 200000000); /* the one that leaves least */
  put("/sys/fs/cgroup/memory.current", "2000000000\n");
  leaves(900000000, 600000000);
  end();
}

TEST(version_2_slows_down_before_it_kills) {
  begin("0::/a\n");
  put("/sys/fs/cgroup/a/memory.max", "900000000\n");
  put("/sys/fs/cgroup/a/memory.high", "800000000\n");
  put("/sys/fs/cgroup/a/memory.current", "100000000\n");
  find(2);
  leaves(800000000, 700000000);
  end();
}

TEST(of_version_1_only_the_memory_controller_counts) {
  begin("4:cpu:/b\n3:memory,hugetlb:/a/b\n0::/\n");
  put("/sys/fs/cgroup/memory/a/b/memory.limit_in_bytes", "9223372036854771712\n");
  put("/sys/fs/cgroup/memory/a/memory.limit_in_bytes", "500000000\n");
  put("/sys/fs/cgroup/memory/a/memory.usage_in_bytes", "100000000\n");
  put("/sys/fs/cgroup/memory/b/memory.limit_in_bytes", "1\n");
  find(2);
  leaves(500000000, 400000000);
  end();
}

TEST(pages_of_files_count_as_free_where_little_is) {
  begin("3:memory:/a\n");
  put("/sys/fs/cgroup/memory/a/memory.limit_in_bytes", "900\n");
  put("/sys/fs/cgroup/memory/a/memory.usage_in_bytes", "800\n");
  put("/sys/fs/cgroup/memory/a/memory.stat",
      "inactive_file 1\ntotal_inactive_file 300\ntotal_active_file 200\n");
  find(2);
  leaves(900, 500);
  put("/sys/fs/cgroup/memory/a/memory.usage_in_bytes", "1000\n"); /* more than it may */
  put("/sys/fs/cgroup/memory/a/memory.stat", "");
  leaves(900, 0);
  end();
}

TEST(a_limit_above_what_the_machine_has_is_none) {
  begin("0::/a\n");
  put("/sys/fs/cgroup/a/memory.max", "9000000000\n");
  put("/sys/fs/cgroup/a/memory.current", "8999999999\n");
  find(1);
  end();
}

/* A container sees its own group at the top, by the path that it has outside. */
TEST(the_path_of_a_container_need_not_be_there) {
  begin("3:memory:/docker/0123456789abcdef\n");
  put("/sys/fs/cgroup/memory/memory.limit_in_bytes", "500000000\n");
  put("/sys/fs/cgroup/memory/memory.usage_in_bytes", "200000000\n");
  find(2);
  leaves(500000000, 300000000);
  end();
}

TEST(what_makes_no_sense_is_left_out) {
  char deep[1300] = "0::";
  begin("memory\n1\n::\n7:memory\n0:\n3:memory:\n");
  find(1);
  for (int k = 0; k < 600; k++) strcat(deep, "/d");
  put("/proc/self/cgroup", deep);
  find(1);
  put("/proc/self/cgroup", "0::/a\n");
  put("/sys/fs/cgroup/a/memory.max", "many\n");
  find(1);
  end();
}

TEST(a_group_may_go_while_it_is_known) {
  begin("0::/a\n");
  put("/sys/fs/cgroup/a/memory.max", "900\n");
  put("/sys/fs/cgroup/a/memory.current", "100\n");
  find(2);
  put("/sys/fs/cgroup/a/memory.current", "");
  leaves(8192000000, 4096000000);
  end();
}

TEST(this_machine_tells) {
  int rc = clu_os_memory_bounds("", &bounds);
  CHECK_INT_EQ(rc, CLU_OK);
  CHECK_INT_EQ(clu_os_memory_left("", &bounds, &is), CLU_OK);
  CHECK(is.limit > 0 && is.left > 0 && is.left <= is.limit);
}

#else

TEST(nobody_tells) {
  clu_memory_bounds bounds;
  clu_memory_left is;
  CHECK_INT_EQ(clu_os_memory_bounds("", &bounds), CLU_UNSUPPORTED);
  CHECK_INT_EQ(bounds.n, 0);
  CHECK_INT_EQ(clu_os_memory_left("", &bounds, &is), CLU_UNSUPPORTED);
}

#endif
