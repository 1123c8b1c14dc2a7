# No memory: a limit of the session's, and the kernel's out-of-memory killer in a control group of
# our own.

outside_checks_only()

test_that("under `ulimit -v` a failed allocation is an error of its element, and nobody dies", {
  linux_only()
  # 4 GB hold an R with its libraries on any system, and an element asks for 8
  s <- start_limited("ulimit -v 4000000", fixture = "failed-allocation")
  expect_done(s)
  expect_true(ends(s))
})

# What scripts in such a group begin with: `eat()` takes memory until somebody ends it, which is
# never the session.
# The budget of memory would end them before.
in_group <- c(
  "options(clutch.memory = FALSE)",
  "eat <- function() { x <- list(); repeat x[[length(x) + 1L]] <- rep(1, 1e6) }",
  "died_of <- function(e) intersect(class(e), c('clutch_task_memory', 'clutch_task_died'))")

test_that("each node that the out-of-memory killer ends is named; the others have their values", {
  linux_only()
  g <- memory_group(300)
  if (is.character(g)) skip(g)
  on.exit(expect_true(g$remove()))
  s <- start_limited(g$join, c(in_group, fixture_lines("killed-in-map")))
  expect_done(s)
  expect_true(ends(s))
})

test_that("a death by lack of memory in a call, or another cluster, is not the next one's cause", {
  linux_only()
  g <- memory_group(300)
  if (is.character(g)) skip(g)
  on.exit(expect_true(g$remove()))
  s <- start_limited(g$join, c(in_group, fixture_lines("killed-in-call")))
  expect_done(s)
  expect_true(ends(s))
})

test_that("what the out-of-memory killer does to processes of others is no cause of a death", {
  linux_only()
  g <- memory_group(200)
  if (is.character(g)) skip(g)
  on.exit(expect_true(g$remove()))
  cl <- make_cluster(1)
  on.exit(stop_cluster(cl), add = TRUE)
  s <- start_limited(g$join, c(in_group, "eat()"))
  expect_true(ends(s))
  e <- tryCatch(collect(cluster_submit(cl, tools::pskill(Sys.getpid(), 9L))),
                clutch_task_error = identity)
  expect_s3_class(e, "clutch_task_died")
  expect_false(inherits(e, "clutch_task_memory"))
})

test_that("the kernel's count is our control group's, of either version, else the machine's", {
  root <- tempfile("root-")
  on.exit(unlink(root, recursive = TRUE))
  put <- function(file, ...) {
    dir.create(file.path(root, dirname(file)), recursive = TRUE, showWarnings = FALSE)
    writeLines(c(...), file.path(root, file))
  }
  count <- function() clutch:::count_oom_kills(clutch:::oom_files(root))
  expect_identical(count(), 0)
  put("proc/vmstat", "pgpgin 5", "oom_kill 7", "oom_kill_other 8")
  expect_identical(count(), 7)
  put("proc/self/cgroup", "0::/user/app.scope")
  put("proc/self/mountinfo",
      "30 23 0:26 / /sys/fs/cgroup rw shared:4 - cgroup2 cgroup2 rw,nsdelegate")
  expect_identical(count(), 7)
  put("sys/fs/cgroup/user/memory.events", "oom_kill 6")
  put("sys/fs/cgroup/user/app.scope/memory.events", "low 0", "high 0", "max 12", "oom 2",
      "oom_kill 2", "oom_group_kill 0")
  expect_identical(count(), 2)
  put("proc/self/cgroup", "9:memory:/a/b", "0::/")
  put("proc/self/mountinfo", "30 23 0:26 / /sys/fs/cgroup/unified rw shared:4 - cgroup2 cgroup2 rw",
      "31 23 0:27 / /sys/fs/cgroup/memory rw shared:5 - cgroup cgroup rw,memory")
  put("sys/fs/cgroup/memory/a/b/memory.oom_control", "oom_kill_disable 0", "under_oom 0",
      "oom_kill 3")
  expect_identical(count(), 3)
})

test_that("where files may not be large there is less shared memory, and all works", {
  linux_only()
  s <- start_limited("ulimit -f 4096", fixture = "less-shared-memory")
  expect_done(s)
})
