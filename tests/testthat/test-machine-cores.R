# Each file in fixtures/cgroup is the tree of one machine: "== path" and the
# text of that file. (Real trees have paths too long for a portable tarball.)
# It goes into the session's temporary folder, and away with it.
new_tree <- function(name) {
  root <- tempfile("tree")
  lines <- readLines(test_path("fixtures", "cgroup", paste0(name, ".txt")))
  heads <- grep("^== ", lines)
  ends <- c(heads[-1L] - 1L, length(lines))
  for (i in seq_along(heads)) {
    file <- file.path(root, sub("^== ", "", lines[heads[i]]))
    dir.create(dirname(file), recursive = TRUE, showWarnings = FALSE)
    writeLines(lines[seq_len(ends[i] - heads[i]) + heads[i]], file)
  }
  root
}

# The limits with nothing of the machine we run on: only what is handed in.
limits <- function(root = tempfile("no-such-root"), ..., env = character(),
                   mc.cores = NULL, affinity = 64L) {
  clean <- c("MC_CORES", "_R_CHECK_LIMIT_CORES_", "SLURM_CPUS_PER_TASK",
             "SLURM_CPUS_ON_NODE", "SLURM_JOB_CPUS_PER_NODE")
  old_env <- Sys.getenv(clean, NA)
  old_options <- options(mc.cores = mc.cores)
  on.exit({
    options(old_options)
    Sys.unsetenv(clean)
    if (!all(is.na(old_env))) do.call(Sys.setenv, as.list(old_env[!is.na(old_env)]))
  })
  Sys.unsetenv(clean)
  if (length(env)) do.call(Sys.setenv, as.list(env))
  core_limits(root, affinity = affinity, ...)
}

test_that("the affinity mask counts, the machine only without it", {
  expect_identical(limits(affinity = 12L), c(affinity = 12L))
  expect_identical(limits(affinity = 12L, machine = stop("not asked")), c(affinity = 12L))
  expect_identical(limits(affinity = NA_integer_, machine = 8L), c(machine = 8L))
  expect_identical(limits(affinity = NA_integer_, machine = NA_integer_), c(unknown = 1L))
})

test_that("control groups of real machines", {
  groups <- function(name) limits(new_tree(name))[-1L]
  expect_identical(groups("docker-v1"), c(cgroup_quota = 1L, cgroup_cpuset = 4L))
  expect_identical(groups("docker-v2"), c(cgroup_quota = 3L, cgroup_cpuset = 16L))
  expect_identical(groups("systemd-v2"), c(cgroup_quota = 2L, cgroup_cpuset = 12L))
  expect_identical(groups("k8s-v1"), c(cgroup_quota = 2L, cgroup_cpuset = 16L))
  expect_identical(groups("hybrid-slurm"), c(cgroup_quota = 16L, cgroup_cpuset = 5L))
  expect_identical(groups("hidden-root-v2"), c(cgroup_quota = 4L, cgroup_cpuset = 6L))
  expect_identical(groups("escaped-v2"), c(cgroup_quota = 2L))
  expect_identical(groups("partition-v2"), c(cgroup_cpuset = 6L))
})

test_that("what cannot be read or understood is no limit and no error", {
  root <- new_tree("malformed")
  expect_silent(found <- limits(root))
  expect_identical(found, c(affinity = 64L))

  # a mount point that is no UTF-8, and NUL
  bytes <- c(charToRaw("38 23 0:33 / /"), as.raw(0xff),
             charToRaw(" rw - cgroup2 none rw\n1"), as.raw(c(0x00, 0x0a)))
  for (file in c("proc/self/mountinfo", "proc/self/cgroup", "sys/fs/cgroup/cpu.max")) {
    con <- file(file.path(root, file), "ab")
    writeBin(bytes, con)
    close(con)
  }
  dir.create(file.path(root, "sys/fs/cgroup/a/cpuset.cpus"))
  expect_silent(found <- limits(root))
  expect_identical(found, c(affinity = 64L))

  unlink(file.path(root, "proc/self/cgroup"))
  expect_identical(limits(root), c(affinity = 64L))
})

test_that("quotas are rounded down, but not to 0", {
  expect_identical(quota_cores("50000", "100000"), 1L)
  expect_identical(quota_cores("199999", "100000"), 1L)
  expect_identical(quota_cores("200000", "100000"), 2L)
  for (none in c("-1", "0", "max", "", "NaN")) {
    expect_identical(quota_cores(none, "100000"), NA_integer_)
  }
  expect_identical(quota_cores("100000", "0"), NA_integer_)
  expect_identical(quota_cores("100000", character()), NA_integer_)
})

test_that("lists of CPUs are counted", {
  expect_identical(count_cpus("0"), 1L)
  expect_identical(count_cpus("0-3,8,10-11"), 7L)
  for (none in list("", "a", "1-", "3-1", "1,,2", character(), c("0", "1"))) {
    expect_identical(count_cpus(none), NA_integer_)
  }
})

test_that("a path is seen from the root of a mount", {
  expect_identical(path_below("/", "/a/b"), "/a/b")
  expect_identical(path_below("/", "/"), "/")
  expect_identical(path_below("/a", "/a"), "")
  expect_identical(path_below("/a", "/a/b"), "/b")
  expect_identical(path_below("/a", "/ab"), NA_character_)
  expect_identical(path_below("/..", "/../b"), "/b")
  expect_identical(path_below("/", "/../b"), NA_character_)
})

test_that("mc.cores, else MC_CORES", {
  expect_identical(limits(mc.cores = 3)[-1L], c(mc.cores = 3L))
  expect_identical(limits(mc.cores = "3", env = c(MC_CORES = "5"))[-1L], c(mc.cores = 3L))
  expect_identical(limits(env = c(MC_CORES = "5"))[-1L], c(MC_CORES = 5L))
  for (bad in list(0, -1, NA, Inf, "x", 1:2, sum, list(2))) {
    expect_identical(limits(mc.cores = bad, env = c(MC_CORES = "5"))[-1L], c(MC_CORES = 5L))
  }
  expect_identical(limits(env = c(MC_CORES = "none")), c(affinity = 64L))
})

test_that("_R_CHECK_LIMIT_CORES_ is read as parallel reads it", {
  check <- function(value) limits(env = c(`_R_CHECK_LIMIT_CORES_` = value))[-1L]
  for (on in c("true", "TRUE", "warn", "0")) {
    expect_identical(check(on), c(`_R_CHECK_LIMIT_CORES_` = 2L))
  }
  for (off in c("", "false", "FALSE")) expect_length(check(off), 0L)
})

test_that("Slurm: the cores of the task, else of this node, else of the first node", {
  slurm <- function(...) limits(env = c(...))[-1L]
  node <- c(SLURM_CPUS_ON_NODE = "6")
  nodes <- c(SLURM_JOB_CPUS_PER_NODE = "4(x2),3")
  expect_identical(slurm(node, nodes, SLURM_CPUS_PER_TASK = "2"), c(SLURM_CPUS_PER_TASK = 2L))
  expect_identical(slurm(node, nodes), c(SLURM_CPUS_ON_NODE = 6L))
  expect_identical(slurm(nodes), c(SLURM_JOB_CPUS_PER_NODE = 4L))
  expect_identical(slurm(SLURM_JOB_CPUS_PER_NODE = "12,3"), c(SLURM_JOB_CPUS_PER_NODE = 12L))
  expect_identical(slurm(SLURM_JOB_CPUS_PER_NODE = "8"), c(SLURM_JOB_CPUS_PER_NODE = 8L))
  expect_length(slurm(SLURM_JOB_CPUS_PER_NODE = "(x2)"), 0L)
})

test_that("available_cores() is the smallest limit of this process", {
  all <- available_cores("all")
  expect_type(all, "integer")
  expect_false(is.null(names(all)) || anyNA(all) || any(all < 1L))
  expect_identical(available_cores(), min(all))
  expect_error(available_cores("max"))
})

test_that("a file of the system that cannot be read keeps no place among R's connections", {
  before <- getAllConnections()
  for (k in 1:3) expect_identical(count_oom_kills(tempfile()), 0)
  for (k in 1:3) process_room()
  expect_identical(getAllConnections(), before)
})

test_that("a node knows its share of the cores, and so do libraries with threads", {
  old <- Sys.getenv("MKL_NUM_THREADS", NA)
  Sys.setenv(MKL_NUM_THREADS = "7")
  on.exit(if (is.na(old)) Sys.unsetenv("MKL_NUM_THREADS") else Sys.setenv(MKL_NUM_THREADS = old))
  cores <- available_cores()
  for (s in c("fork_server", "spawn", "parallel")) for (n in 1:2) {
    cl <- make_cluster(n, s)
    got <- cluster_map(cl, seq_len(n), function(i) {
      list(clutch::available_cores(),
           Sys.getenv(c("R_DATATABLE_NUM_THREADS", "MKL_NUM_THREADS"), names = FALSE))
    })
    share <- max(1L, cores %/% n)
    of_data_table <- as.character(max(1L, min(share, cores %/% 2L)))
    for (g in got) expect_identical(g, list(share, c(of_data_table, "7")), label = s)
    # a cluster within a node
    inner <- collect(cluster_submit(cl[1L], {
      x <- clutch::make_cluster(1)
      on.exit(clutch::stop_cluster(x))
      clutch::cluster_map_dbl(x, 1:3, sqrt)
    }))
    expect_identical(inner, sqrt(1:3))
    stop_cluster(cl)
  }
})
