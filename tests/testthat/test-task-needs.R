# Tasks that ask for cores and units of their host. The hosts here have what make_cluster() was
# told: how many cores and GPUs the machine has makes no difference.

of_class <- function(class, expr) {
  e <- tryCatch(expr, error = identity)
  expect_s3_class(e, class)
  conditionMessage(e)
}

# Which units were in use at the same time: each task writes when it began and ended.
no_overlap <- function(x) {
  x <- as.data.frame(do.call(rbind, x))
  x <- x[order(x$unit, x$from), ]
  all(vapply(split(x, x$unit), function(u) all(u$from[-1L] >= u$to[-nrow(u)]), NA))
}

test_that("what makes no sense is an error before anything starts", {
  cl <- make_cluster(2, resources = list(gpu = 0:1, licence = 1, cores = 4))
  on.exit(stop_cluster(cl))
  touched <- tempfile()
  map <- function(...) cluster_map(cl, 1:3, function(i) file.create(touched), .needs = list(...))
  for (memory in list(-1, NA, 0, "2 parsecs", "", "-2 GB", list(1, NULL), character(), mean)) {
    expect_match(of_class("clutch_argument", map(memory = memory)), "`.needs$memory`", fixed = TRUE)
  }
  for (cores in list(0, -1, 1.5, NA, "2", Inf)) {
    expect_match(of_class("clutch_argument", map(cores = cores)), "`.needs$cores`", fixed = TRUE)
  }
  for (gpu in list(-1, 1.5, NA, "0", Inf, numeric())) {
    expect_match(of_class("clutch_argument", map(gpu = gpu)), "`.needs$gpu`", fixed = TRUE)
  }
  expect_match(of_class("clutch_argument", map(cores = 1:2)), "2 values.*3 elements")
  expect_match(of_class("clutch_argument", map(gpu = 1, gpu = 2)), # nolint: duplicate_argument_linter.
               "twice")
  expect_match(of_class("clutch_argument", map(1)), "named list")
  expect_match(of_class("clutch_argument", cluster_map(cl, 1, sqrt, .needs = 4)), "named list")
  expect_match(of_class("clutch_argument", cluster_submit(cl, 1, .needs = list(cores = 0))),
               "cores")
  expect_false(file.exists(touched))
})

test_that("what nothing can ever meet is an error that names both figures", {
  cl <- make_cluster(2, resources = list(gpu = 0:1, cores = 4))
  on.exit(stop_cluster(cl))
  map <- function(...) cluster_map(cl, 1:3, identity, .needs = list(...))
  expect_match(of_class("clutch_resources", map(cores = 5)), "asks for 5, and there are 4")
  expect_match(of_class("clutch_resources", map(gpu = 3)), "asks for 3, and there are 2")
  expect_match(of_class("clutch_resources", map(gpu = c(1, 3, 1))), "asks for 3, and there are 2")
  expect_match(of_class("clutch_resources", map(memory = "900 TB")), "900000000 MB, and there are ")
  expect_match(of_class("clutch_resources", map(tpu = 1)), "'tpu'.*gpu.*resources = list")
  e <- tryCatch(map(gpu = 3), clutch_resources = identity)
  expect_identical(e[c("resource", "asked", "there")], list(resource = "gpu", asked = 3, there = 2))
  old <- options(clutch.memory = "100 MB")
  on.exit(options(old), add = TRUE)
  expect_match(of_class("clutch_resources", map(memory = "101 MB")), "101 MB, and there are 100 MB")
  expect_identical(map(memory = "100MB", cores = 4, gpu = 2), list(1L, 2L, 3L))
})

test_that("an error of what an option asks for names the option", {
  cl <- make_cluster(1, resources = list(cores = 4))
  on.exit(stop_cluster(cl))
  old <- options(clutch.needs = NULL)
  on.exit(options(old), add = TRUE)
  text_with <- function(class, ...) {
    options(clutch.needs = list(...))
    of_class(class, cluster_map(cl, 1:3, identity))
  }
  expect_match(text_with("clutch_argument", cores = "2"),
               "^element `cores` of option 'clutch.needs' has to be")
  expect_match(text_with("clutch_argument", cores = 1:2),
               "^element `cores` of option 'clutch.needs' has 2 values")
  expect_match(text_with("clutch_resources", cores = 5),
               "^element `cores` of option 'clutch.needs' asks for 5, and there are 4")
  expect_match(text_with("clutch_resources", tpu = 1), "^option 'clutch.needs' asks for 'tpu'")
})

test_that("resources of make_cluster() are checked", {
  make <- function(x) make_cluster(1, resources = x)
  for (bad in list(5, list(1), list(gpu = -1), list(gpu = NA), list(cores = 0), list(gpu = 1.5),
                   list(gpu = c("a", "a")), list(gpu = "a,b"), list(memory = 5), list(gpu = 1:300),
                   list(`a b` = 1))) {
    expect_match(of_class("clutch_argument", make(bad)), "resources")
  }
})

test_that("units are given by name, whole, to one task at a time, and told", {
  cl <- make_cluster(4, resources = list(gpu = c("0", "3"), cores = 8))
  on.exit(stop_cluster(cl))
  x <- cluster_map(cl, 1:12, function(i) {
    from <- as.numeric(Sys.time())
    Sys.sleep(0.02)
    unit <- clutch::task_resources()$gpu
    stopifnot(identical(unit, Sys.getenv("CUDA_VISIBLE_DEVICES")))
    c(unit = as.numeric(unit), from = from, to = as.numeric(Sys.time()))
  }, .needs = list(gpu = 1))
  expect_setequal(vapply(x, `[[`, 1, "unit"), c(0, 3))
  expect_true(no_overlap(x))
  both <- collect(cluster_submit(cl, Sys.getenv("CUDA_VISIBLE_DEVICES"), .needs = list(gpu = 2)))
  expect_identical(both, "0,3")
})

test_that("all is put back behind the map, also after errors and time limits", {
  cl <- make_cluster(2, resources = list(gpu = 0:1, cores = 4),
                     env = c(CUDA_VISIBLE_DEVICES = "7"))
  on.exit(stop_cluster(cl))
  variables <- c("CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "OMP_NUM_THREADS",
                 "CLUTCH_NODE_CORES", "CUDA_DEVICE_ORDER")
  state <- function() list(Sys.getenv(variables, NA), clutch::task_resources())
  before <- parallel::clusterCall(cl, state)
  f <- function(i, what) {
    if (what == "error") stop("no")
    if (what == "late") repeat Sys.sleep(0.01)
    Sys.getenv("CUDA_VISIBLE_DEVICES")
  }
  for (what in c("well", "error", "late")) {
    x <- suppressWarnings(cluster_map(cl, 1:4, f, what, .needs = list(gpu = 1, cores = 2),
                                      .on_error = "continue",
                                      .timeout = if (what == "late") 0.3 else Inf))
    if (what == "well") expect_true(all(unlist(x) %in% c("0", "1")))
    expect_identical(parallel::clusterCall(cl, state), before)
    expect_identical(cluster_map(cl, 1:2, function(i) clutch::task_resources()),
                     list(list(), list()))
  }
  expect_identical(task_resources(), list())
})

test_that("parts share a unit, and each element can ask for something else", {
  cl <- make_cluster(2, resources = list(gpu = 1, cores = 2))
  on.exit(stop_cluster(cl))
  meet <- tempfile("meet")
  dir.create(meet)
  on.exit(unlink(meet, recursive = TRUE), add = TRUE)
  # each waits until both are there: they share the one that there is
  x <- cluster_map(cl, 1:2, function(i) {
    file.create(file.path(meet, i))
    for (k in 1:2000) if (length(list.files(meet)) < 2L) Sys.sleep(0.01)
    clutch::task_resources()$gpu
  }, .needs = list(gpu = 0.5), .chunk = 1)
  expect_identical(x, list("0", "0"))
  expect_length(list.files(meet), 2L)
  x <- cluster_map(cl, 1:3, function(i) names(clutch::task_resources()),
                   .needs = list(gpu = c(0, 1, 0), memory = c("1 MB", "2 MB", "3 MB")))
  expect_true("gpu" %in% x[[2L]] && !"gpu" %in% x[[1L]])
})

test_that("what a task has is not free when GPUs are looked for meanwhile", {
  outside_checks_only()
  old <- Sys.getenv("CUDA_VISIBLE_DEVICES", NA)
  go <- tempfile()
  began <- tempfile()
  on.exit({
    unlink(c(go, began))
    if (is.na(old)) Sys.unsetenv("CUDA_VISIBLE_DEVICES") else Sys.setenv(CUDA_VISIBLE_DEVICES = old)
  })
  Sys.setenv(CUDA_VISIBLE_DEVICES = "7")
  cl <- make_cluster(3, resources = list(licence = 1, cores = 4))
  on.exit(stop_cluster(cl), add = TRUE, after = FALSE)
  holder <- cluster_submit_call(cl, function(began, go) {
    file.create(began)
    while (!file.exists(go)) Sys.sleep(0.01)
  }, list(began, go), .needs = list(licence = 1))
  expect_true(eventually(file.exists(began)))
  has <- cluster_map(cl, 1, function(i) task_resources()$gpu, .needs = list(gpu = 1))
  expect_identical(has, list("7"))
  asks <- function(i) cluster_submit(cl, task_resources(), .needs = list(licence = 1))
  others <- lapply(1:2, asks)
  expect_identical(cluster_map(cl, 1:4, identity), as.list(1:4))
  expect_false(any(resolved(others)))
  file.create(go)
  expect_identical(lapply(collect_all(others, timeout = 60), `[[`, "licence"), list("0", "0"))
})

test_that("kinds of units may have names that begin like others, or are those of arguments", {
  cl <- make_cluster(2, resources = list(cores_big = 4, memory_slot = 2, sep = 4))
  on.exit(stop_cluster(cl))
  map <- function(...) cluster_map(cl, 1:2, function(i) names(task_resources()), .needs = list(...))
  expect_identical(map(cores_big = 1), rep(list(c("cores", "cores_big")), 2))
  expect_identical(map(memory_slot = 0.5), rep(list(c("cores", "memory_slot")), 2))
  expect_identical(map(sep = 1:2), rep(list(c("cores", "sep")), 2))
})

test_that("a death frees its unit, and the task gets one again", {
  cl <- make_cluster(3, resources = list(gpu = 0:1, cores = 4))
  on.exit(stop_cluster(cl))
  x <- cluster_map(cl, 1:8, function(i) {
    if (i %% 3 == 0 && clutch::task_attempt() == 1L) tools::pskill(Sys.getpid(), 9)
    Sys.getenv("CUDA_VISIBLE_DEVICES")
  }, .needs = list(gpu = 1), .retries = 2)
  expect_true(all(unlist(x) %in% c("0", "1")))
})

test_that("threads are those that were asked for, and the last element gets what is free", {
  cl <- make_cluster(2, resources = list(cores = 6))
  on.exit(stop_cluster(cl))
  file <- tempfile()
  f <- function(i) {
    c(clutch::task_resources()$cores, as.integer(Sys.getenv("OMP_NUM_THREADS")))
  }
  x <- cluster_map(cl, 1:10, f, .needs = list(cores = 2))
  expect_true(all(vapply(x, function(v) all(v == v[[1L]]) && v[[1L]] >= 2L, NA)))
  expect_lte(max(unlist(x)), 6L)
  expect_identical(cluster_map(cl, 1, f, .needs = list(cores = 1))[[1L]][[1L]], 6L)
  # tasks come one by one: the first one leaves the cores to the next
  first <- cluster_submit(cl, {
    while (!file.exists(file)) Sys.sleep(0.01)
    f(1)
  }, .needs = list(cores = 1))
  second <- cluster_submit(cl, f(1), .needs = list(cores = 5))
  expect_identical(collect(second, timeout = 60)[[1L]], 5L)
  file.create(file)
  expect_identical(collect(first)[[1L]], 1L)
})

test_that("threads of a library are set and put back, unless it was unloaded meanwhile", {
  outside_checks_only()
  lib <- compiled("threads")
  cl <- make_cluster(1, resources = list(cores = 2))
  on.exit(stop_cluster(cl))
  parallel::clusterCall(cl, function(lib) is.list(dyn.load(lib)), lib)
  threads <- function(i) .C("threads_now", n = 0L)$n
  expect_identical(cluster_map(cl, 1, threads, .needs = list(cores = 2)), list(2L))
  expect_identical(parallel::clusterCall(cl, threads, 1), list(3L))
  unload <- function(i, lib) is.null(dyn.unload(lib))
  expect_length(cluster_map(cl, 1, unload, lib = lib, .needs = list(cores = 2)), 1L)
  expect_identical(parallel::clusterCall(cl, function() "alive"), list("alive"))
})

test_that("threads of data.table are set and put back", {
  skip_if(!nzchar(system.file(package = "data.table")))
  cl <- make_cluster(2, resources = list(cores = 4))
  on.exit(stop_cluster(cl))
  threads <- function(i) getExportedValue("data.table", "getDTthreads")()
  fresh <- make_cluster(2, resources = list(cores = 4))
  on.exit(stop_cluster(fresh), add = TRUE)
  before <- cluster_map(fresh, 1, threads)
  during <- cluster_map(cl, 1:4, threads, .needs = list(cores = 2), .chunk = 2)
  expect_true(all(unlist(during) >= 1L))
  after <- cluster_map(cl, 1:2, threads)
  expect_true(all(unlist(after) == before[[1L]]))
})

test_that("memory that is asked for is waited for", {
  linux_only()
  old <- options(clutch.memory = "160 MB")
  on.exit(options(old))
  cl <- make_cluster(3)
  on.exit(stop_cluster(cl), add = TRUE)
  x <- cluster_map(cl, 1:5, function(i) {
    from <- as.numeric(Sys.time())
    Sys.sleep(0.1)
    c(unit = 1, from = from, to = as.numeric(Sys.time()))
  }, .needs = list(memory = "100 MB"))
  expect_true(no_overlap(x)) # no two fit beside each other
})

test_that("GPUs are found where the environment, nvidia-smi or /proc says so", {
  find <- clutch:::find_gpus
  expect_identical(find(visible = "2,3"), c("2", "3"))
  expect_identical(find(visible = "GPU-8932f937,0"), c("GPU-8932f937", "0"))
  expect_identical(find(visible = "0,-1,2"), "0")
  expect_identical(find(visible = ""), character())
  folder <- tempfile("bin")
  dir.create(folder)
  root <- tempfile("root")
  dir.create(file.path(root, "proc/driver/nvidia/gpus/0000:01:00.0"), recursive = TRUE)
  path <- Sys.getenv("PATH")
  on.exit({
    Sys.setenv(PATH = path)
    unlink(c(folder, root), recursive = TRUE)
  })
  Sys.setenv(PATH = folder)
  expect_identical(find(root, NA), "0")
  skip_on_os("windows")
  Sys.setenv(PATH = paste(folder, path, sep = ":"))
  program <- file.path(folder, "nvidia-smi")
  writeLines(c("#!/bin/sh", "echo 0", "echo ' 1'", "echo 'no devices' >&2"), program)
  Sys.chmod(program, "755")
  expect_identical(find(root, NA), c("0", "1"))
  cl <- make_cluster(2)
  on.exit(stop_cluster(cl), add = TRUE, after = FALSE)
  x <- cluster_map(cl, 1:4, function(i) Sys.getenv("CUDA_VISIBLE_DEVICES"), .needs = list(gpu = 1))
  expect_true(all(unlist(x) %in% c("0", "1")))
  expect_match(of_class("clutch_resources", cluster_map(cl, 1, identity, .needs = list(gpu = 3))),
               "asks for 3, and there are 2")
})

test_that("what a task was given is to be seen while it has it", {
  cl <- make_cluster(2, resources = list(gpu = c("a", "b"), cores = 4))
  on.exit(stop_cluster(cl))
  expect_identical(cluster_status(cl)$given, c("", ""))
  flag <- tempfile()
  wait <- function(flag) while (!file.exists(flag)) Sys.sleep(0.01)
  task <- cluster_submit_call(cl, wait, list(flag), .needs = list(gpu = 2, cores = 3))
  # the core that nobody asks for is left to what comes next
  plain <- cluster_submit_call(cl, wait, list(flag))
  expect_true(eventually(any(nzchar(cluster_status(cl)$given))))
  expect_setequal(cluster_status(cl)$given, c("cores=3 gpu=a,b", ""))
  shown <- function() utils::capture.output(cluster_top(cl))
  expect_true(eventually(any(grepl("  cores=3 gpu=a,b", shown()))))
  expect_length(grep("cores=", shown()), 1L)
  file.create(flag)
  collect_all(list(task, plain))
  expect_identical(cluster_status(cl)$given, c("", ""))
  # another task that is given nothing, at the same node
  task <- cluster_submit_call(cl, Sys.sleep, list(20))
  expect_false(any(grepl("cores=", shown())))
  stop_cluster(cl)
  expect_identical(cluster_status(cl)$given, c("", ""))
})

test_that("what a node was told of a task's needs takes no memory when that has ended", {
  cl <- make_cluster(1)
  on.exit(stop_cluster(cl))
  cells <- function() parallel::clusterEvalQ(cl, gc()[["Ncells", "used"]])[[1L]]
  work <- function(n) cluster_walk(cl, seq_len(n), identity, .needs = c(cores = 1), .chunk = 1)
  work(100)
  before <- cells()
  work(3000)
  expect_lt(cells() - before, 1500)
})
