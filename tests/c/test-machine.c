/* These tests are of what a control group leaves of the machine's memory, by trees of files as
 * machines have them. */
#include "test.h"

#include "core/base/os-machine.h"
#include "core/base/os.h"

TEST(a_file_tells_for_how_long_processes_had_to_wait_for_a_processor) {
  CHECK_INT_EQ(clu_os_cpu_stalled_by("some avg10=9.32 avg60=8.41 avg300=7.07 total=520285492\n"
                                     "full avg10=0.00 avg60=0.00 avg300=0.00 total=0\n"),
               520285492);
  CHECK_INT_EQ(clu_os_cpu_stalled_by("some avg10=0.00 avg60=0.00 avg300=0.00 total=0\n"), 0);
  CHECK_INT_EQ(clu_os_cpu_stalled_by("full avg10=0.00 avg60=0.00 avg300=0.00 total=7\n"), -1);
  CHECK_INT_EQ(clu_os_cpu_stalled_by("some avg10=0.00 total=\n"), -1);
  CHECK_INT_EQ(clu_os_cpu_stalled_by("some avg10=0.00 total=x\n"), -1);
  CHECK_INT_EQ(clu_os_cpu_stalled_by(""), -1);
}

#if defined(__linux__) && !defined(CLU_PORTABLE)
#include "root-fixture.h"

static void begin(const char *groups) {
  begin_root();
  put("/proc/self/cgroup", groups);
}

static long long limit(void) { return (long long)clu_os_memory_limit_below(root); }
static long long whole(void) { return (long long)clu_os_total_memory(); }

TEST(version_1_is_read_in_the_folder_of_its_controller) {
  begin("12:pids:/other\n4:memory:/user/a\n1:name=systemd:/memory\n0::/\n");
  CHECK_INT_EQ(limit(), whole()); /* no such folder */
  put("/sys/fs/cgroup/memory/user/a/memory.limit_in_bytes", "20000000\n");
  put("/sys/fs/cgroup/memory/other/memory.limit_in_bytes", "1000\n");
  put("/sys/fs/cgroup/memory/memory/memory.limit_in_bytes", "1000\n");
  CHECK_INT_EQ(limit(), 20000000);
  /* what it says where there is none */
  put("/sys/fs/cgroup/memory/user/a/memory.limit_in_bytes", "9223372036854771712\n");
  CHECK_INT_EQ(limit(), whole());
  end();
}

TEST(version_1_may_have_several_controllers_together) {
  begin("4:hugetlb,memory:/a\n5:memory_like,no_memory:/b\n");
  put("/sys/fs/cgroup/memory/a/memory.limit_in_bytes", "3000\n");
  put("/sys/fs/cgroup/memory/b/memory.limit_in_bytes", "2000\n");
  CHECK_INT_EQ(limit(), 3000);
  put("/proc/self/cgroup", "4:memory,hugetlb:/a\n");
  CHECK_INT_EQ(limit(), 3000);
  end();
}

TEST(version_2_is_read_at_the_top) {
  begin("0::/a:b/c d\n");
  put("/sys/fs/cgroup/a:b/c d/memory.max", "5000000\n");
  put("/sys/fs/cgroup/a:b/c d/memory.limit_in_bytes", "1000\n");
  CHECK_INT_EQ(limit(), 5000000);
  put("/sys/fs/cgroup/a:b/c d/memory.max", "max\n");
  CHECK_INT_EQ(limit(), whole());
  end();
}

TEST(the_least_limit_of_nested_groups_counts) {
  begin("0::/top/middle/own\n");
  put("/sys/fs/cgroup/top/middle/own/memory.max", "max\n");
  put("/sys/fs/cgroup/top/middle/memory.max", "40000000\n");
  put("/sys/fs/cgroup/top/memory.max", "60000000\n");
  CHECK_INT_EQ(limit(), 40000000);
  put("/sys/fs/cgroup/top/memory.max", "10000000\n");
  CHECK_INT_EQ(limit(), 10000000);
  put("/sys/fs/cgroup/top/middle/own/memory.max", "7000000\n");
  CHECK_INT_EQ(limit(), 7000000);
  put("/sys/fs/cgroup/memory.max", "6000000\n"); /* a container's own group */
  CHECK_INT_EQ(limit(), 6000000);
  put("/sys/fs/memory.max", "1000\n"); /* above the groups */
  put("/memory.max", "1000\n");
  CHECK_INT_EQ(limit(), 6000000);
  end();
}

/* It is told the group's path on the machine, and sees the group's files at the top. */
TEST(a_container_that_does_not_see_its_path_has_the_limit_at_the_top) {
  begin("0::/docker/0123\n");
  put("/sys/fs/cgroup/memory.max", "8000000\n");
  CHECK_INT_EQ(limit(), 8000000);
  put("/proc/self/cgroup", "0::/../../elsewhere\n");
  CHECK_INT_EQ(limit(), 8000000);
  put("/proc/self/cgroup", "0::/\n");
  CHECK_INT_EQ(limit(), 8000000);
  put("/proc/self/cgroup", "9:memory:/docker/0123\n0::/docker/0123\n");
  put("/sys/fs/cgroup/memory/memory.limit_in_bytes", "4000000\n");
  CHECK_INT_EQ(limit(), 4000000);
  end();
}

TEST(what_cannot_be_read_is_no_limit) {
  char path[100];
  begin("0::/a/b\n");
  put("/sys/fs/cgroup/a/memory.max", "4000\n");
  put("/sys/fs/cgroup/a/b/memory.max/is/a/folder", "");
  CHECK_INT_EQ(limit(), 4000);
  put("/sys/fs/cgroup/a/memory.max", "");
  CHECK_INT_EQ(limit(), whole());
  put("/sys/fs/cgroup/a/memory.max", "-1\n");
  CHECK_INT_EQ(limit(), whole());
  put("/sys/fs/cgroup/a/memory.max", "0\n");
  CHECK_INT_EQ(limit(), whole());
  put("/sys/fs/cgroup/a/memory.max", "5000\n");
  snprintf(path, sizeof path, "%s/sys/fs/cgroup/a/memory.max", root);
  CHECK_INT_EQ(chmod(path, 0), 0);
  CHECK_INT_EQ(limit(), geteuid() == 0 ? 5000 : whole());
  end();
}

TEST(groups_that_are_not_told_or_not_as_usual_are_no_limit) {
  static const char *const odd[] = {"",          "\n",         "::\n",      "0\n",
                                    "0:\n",      "0::",        "memory",    "::::::\n",
                                    "4:memory:", "4:memory\n", ":memory:\n"};
  char text[3000], path[100];
  begin("");
  put("/sys/fs/cgroup/memory.max", "max\n");
  put("/sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
  for (size_t i = 0; i < sizeof odd / sizeof *odd; i++) {
    put("/proc/self/cgroup", odd[i]);
    CHECK_INT_EQ(limit(), whole());
  }
  memset(text, 'x', sizeof text);
  memcpy(text, "0::/", 4);
  strcpy(text + 2990, "/y\n");
  put("/proc/self/cgroup", text);
  CHECK_INT_EQ(limit(), whole());
  snprintf(path, sizeof path, "%s/proc/self/cgroup", root);
  CHECK_INT_EQ(unlink(path), 0);
  CHECK_INT_EQ(limit(), whole());
  end();
}

TEST(a_path_as_long_as_a_line_is_cut_and_does_no_harm) {
  char text[1100];
  begin("");
  for (size_t n = 900; n < 1050; n++) {
    memcpy(text, "0::/", 4);
    memset(text + 4, 'x', n);
    for (size_t k = 60; k < n; k += 60) text[k] = '/';
    text[n] = 0;
    put("/proc/self/cgroup", text);
    put("/sys/fs/cgroup/memory.max", "5000\n");
    CHECK_INT_EQ(limit(), 5000);
  }
  end();
}

#endif

TEST(this_machine_has_a_limit) {
  CHECK(clu_os_memory_limit() > 0);
  CHECK(clu_os_memory_limit() <= clu_os_total_memory());
}
