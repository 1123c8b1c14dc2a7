# Jobs and nodes that get into each other's way: jumps, collections, limits that nobody can keep,
# hosts that cannot be reached, what nodes leave behind.

outside_checks_only()

# A job as cluster_map() makes it, of which the caller sees to the rest.
raw_job <- function(t, fun, elements, chunk = 1) {
  o <- clutch:::task_options(list(seed = FALSE, chunk = chunk, relay = "none"))
  job <- clutch:::job_new(t, fun, elements, list(), list(), o)
  clutch:::job_start(t, job)
  job
}
job_is_done <- function(t, job, seconds = 30) {
  eventually({
    clutch:::task_step(t, job, 0)
    .Call(clutch:::ffi_job_state, job)$left == 0
  }, seconds)
}

# A program in place of ssh: lines of a shell, then the command runs here. For hosts that nobody
# has. In a folder of its own, which has the temporary folders of those that are killed.
fake_ssh <- function(lines = character()) {
  dir <- tempfile("far-")
  dir.create(dir)
  file <- file.path(dir, "ssh")
  writeLines(c("#!/bin/sh", "host=$1", "shift", lines, sprintf("TMPDIR=%s exec sh -c \"$*\"", dir)),
             file)
  Sys.chmod(file, "0755")
  file
}

# ---- jumps and collections ----

test_that("a map that is given up before it begins leaves nothing behind", {
  dir <- tempfile("begun-")
  dir.create(dir)
  on.exit(unlink(dir, recursive = TRUE))
  s <- start_script(fixture = "jobs-too-large", dir = dir)
  expect_done(s)
  expect_true(ends(s))
})

# Finalizers, events of a window system and ALTREP objects run R code in there: R itself runs
# finalizers in calls only.
test_that("R code that runs while elements are sent may give their job up, or have it collected", {
  linux_only()
  dir <- tempfile("hook-")
  dir.create(dir)
  on.exit(unlink(dir, recursive = TRUE))
  file.copy(test_path("fixtures", "hook.c"), dir)
  built <- system(sprintf("cd %s && %s CMD SHLIB hook.c > log 2>&1", shQuote(dir),
                          shQuote(file.path(R.home("bin"), "R"))))
  skip_if(built != 0L, "no compiler")
  program <- file.path(dir, "Rscript") # what is freed is overwritten: who looks at it sees no sense
  writeLines(c("#!/bin/sh",
               "export GLIBC_TUNABLES=glibc.malloc.perturb=165:glibc.malloc.tcache_count=0",
               sprintf("exec %s \"$@\"",
                       shQuote(file.path(R.home("bin"), "Rscript")))), program)
  Sys.chmod(program, "0755")
  s <- start_script(fixture = "reentry", lib = file.path(dir, paste0("hook", .Platform$dynlib.ext)),
                    program = program)
  expect_done(s)
  expect_gte(as.numeric(value_of(s, "ends")), 8) # or nothing was tried
  expect_true(ends(s))
})

test_that("a jump while something is serialized keeps back nothing that was ready to be sent", {
  cl <- make_cluster(1)
  on.exit(stop_cluster(cl))
  t <- clutch:::tasks_of(cl)
  first <- raw_job(t, function(x) x + 1, 1)
  second <- raw_job(t, length, list(raw(3e7))) # an interrupt is looked for in there
  step <- clutch:::ffi_tasks_step
  interrupted <- tryCatch({
    tools::pskill(Sys.getpid(), 2L)
    .Call(step, t$ptr, first, 0, 0)
    FALSE
  }, interrupt = function(e) TRUE)
  expect_true(interrupted)
  .Call(clutch:::ffi_job_end, second, 0)
  expect_true(job_is_done(t, first))
  expect_identical(.Call(clutch:::ffi_job_values, first)[[1L]], list(2))
  .Call(clutch:::ffi_job_end, first, 0)
})

# ---- who is served ----

test_that("tasks that wait for one node keep nobody from work for another", {
  cl <- make_cluster(2)
  go <- tempfile()
  on.exit({
    stop_cluster(cl)
    unlink(go)
  })
  wait_for <- function(file) {
    while (!file.exists(file)) Sys.sleep(0.01)
    TRUE
  }
  waiting <- lapply(1:40, function(k) cluster_submit(cl[1L], wait_for(go)))
  expect_identical(collect(cluster_submit(cl[2L], 7), timeout = 30), 7)
  expect_identical(collect(cluster_submit(cl, 8), timeout = 30), 8)
  file.create(go)
  expect_identical(unlist(collect_all(waiting, timeout = 60)), rep(TRUE, 40L))
})

test_that("a node whose shared memory makes no sense is ended, and nobody waits for it", {
  needs("memfd")
  linux_only()
  # writes what is no record to the node's own ring
  damage <- function(i, out_of_turn) {
    if (i != 2) return(i)
    map <- grep("memfd:clutch ", readLines("/proc/self/maps"), value = TRUE)[[1L]]
    at <- strsplit(sub(" .*", "", map), "-", fixed = TRUE)[[1L]]
    number <- function(hex) {
      Reduce(function(a, d) 16 * a + d, match(strsplit(hex, "")[[1L]], c(0:9, letters[1:6])) - 1, 0)
    }
    begin <- number(at[[1L]])
    rings <- begin + 65536 * 16 + 16
    memory <- file("/proc/self/mem", "r+b", raw = TRUE)
    on.exit(close(memory))
    word <- function(at) {
      seek(memory, at, rw = "read")
      sum(as.numeric(readBin(memory, "raw", 8L)) * 256^(0:7))
    }
    put <- function(at, values) {
      seek(memory, at, rw = "write")
      for (v in values) writeBin(as.raw(v %/% 256^(0:7) %% 256), memory)
    }
    size <- 262144 + 128
    ring <- rings + size * (0:511)
    used <- vapply(ring, function(r) word(r) > 0, NA)
    for (r in ring[used]) { # tail, and 64 bytes on the head
      tail <- word(r)
      if (out_of_turn) put(r + 128 + tail %% 262144,
                           c(32, 0, 1e6, 0, 0)) else put(r + 128 + tail %% 262144, 5e5)
      put(r, tail + if (out_of_turn) 40 else 8)
    }
    i
  }
  cl <- make_cluster(1)
  on.exit(stop_cluster(cl))
  for (out_of_turn in c(FALSE, TRUE)) {
    invisible(cluster_map(cl, 1:3, identity)) # the ring is in use
    x <- cluster_submit(cl, lapply(2, damage, out_of_turn = out_of_turn))
    e <- tryCatch(collect(x, timeout = 30), clutch_error = identity)
    expect_s3_class(e, "clutch_task_died")
    expect_match(conditionMessage(e), "makes no sense")
    expect_identical(cluster_map(cl, 1:3, identity), as.list(1:3))
  }
})

# ---- memory ----

test_that("a limit of memory over the machine's is none", {
  needs("memory")
  cl <- make_cluster(2)
  on.exit(stop_cluster(cl))
  p <- pids(cl)
  for (limit in c(1e15, 1e19, 1e25, 1e300)) {
    expect_identical(cluster_map(cl, 1:4, function(i) {
      Sys.sleep(0.05)
      i
    }, .max_memory = limit), as.list(1:4))
    expect_identical(collect(cluster_submit(cl, {
      Sys.sleep(0.05)
      1
    }, .max_memory = limit), timeout = 30), 1)
  }
  expect_identical(pids(cl), p)
})

test_that("what a node shares with its fork server counts neither for limit nor cluster_status()", {
  needs("memory")
  linux_only()
  profile <- tempfile()
  writeLines("large <- rep(1, 5e7)", profile) # 400 MB, as a package with data may have
  old <- Sys.getenv("R_PROFILE_USER", NA)
  Sys.setenv(R_PROFILE_USER = profile)
  cl <- make_cluster(2)
  on.exit({
    stop_cluster(cl)
    fork_server_stop()
    if (is.na(old)) Sys.unsetenv("R_PROFILE_USER") else Sys.setenv(R_PROFILE_USER = old)
    unlink(profile)
  })
  p <- pids(cl)
  read_it <- function(i) {
    s <- sum(get("large", globalenv()))
    Sys.sleep(0.1) # the limit is looked at
    s
  }
  expect_identical(cluster_map(cl, 1:4, read_it, .max_memory = 300e6), rep(list(5e7), 4L))
  expect_identical(pids(cl), p)
  expect_true(all(cluster_status(cl)$memory < 200))
  # what it writes is its own, and counted by both
  parallel::clusterCall(cl[1L], function() assign("own", rep(1, 3e7), envir = globalenv()))
  memory <- cluster_status(cl)$memory
  expect_gt(memory[[1L]] - memory[[2L]], 200)
  e <- tryCatch(cluster_map(cl[1L], 1:2, read_it, .max_memory = 200e6),
                clutch_task_error = identity)
  # it may have died before it began
  expect_true(is.list(e) && !inherits(e, "error") || inherits(e, "clutch_task_memory"))
  expect_false(identical(pids(cl)[[1L]], p[[1L]]))
})

test_that("a limit that no node can keep is an error that says how much a node has", {
  needs("memory")
  linux_only()
  for (strategy in c("fork_server", "parallel")) {
    cl <- make_cluster(2, strategy)
    on.exit(stop_cluster(cl))
    for (limit in c(500, 1e5)) { # a node that has just begun has 0.3 MB
      e <- tryCatch(collect(cluster_submit(cl, {
        Sys.sleep(20)
        1
      }, .max_memory = limit), timeout = 60), clutch_error = identity)
      expect_s3_class(e, "clutch_task_memory")
      expect_match(conditionMessage(e), "took more memory \\([0-9]+ MB\\)")
      e <- tryCatch(cluster_map(cl, 1:3, function(i) Sys.sleep(20), .max_memory = limit),
                    clutch_error = identity)
      expect_s3_class(e, "clutch_task_memory")
    }
    expect_identical(cluster_map(cl, 1:4, identity), as.list(1:4))
    expect_true(works(cl))
    stop_cluster(cl)
    on.exit()
  }
})

test_that("where nobody knows the memory of a node, a warning says that it has no limit", {
  needs("memory")
  ssh <- fake_ssh()
  cl <- make_cluster(c("localhost", "far.invalid"), rshcmd = ssh, master = "127.0.0.1")
  on.exit({
    stop_cluster(cl)
    unlink(dirname(ssh), recursive = TRUE)
  })
  expect_warning(r <- cluster_map(cl, 1:4, identity, .max_memory = 1e9), "not in force for node 2",
                 class = "clutch_unlimited")
  expect_identical(r, as.list(1:4))
  expect_silent(cluster_map(cl, 1:4, identity))
})

# ---- nodes that die, and those that do not come ----

test_that("nodes that die again and again before they begin anything are given up", {
  linux_only()
  name <- "clutchdies" # by a variable: R CMD check takes a literal name for an undeclared package
  src <- tempfile("src")
  lib <- tempfile("lib")
  said <- tempfile("said-") # a line for each node that loads the package: it ends as `how` says
  how <- tempfile("how-")
  dir.create(file.path(src, "clutchdies", "R"), recursive = TRUE)
  dir.create(lib)
  writeLines(c("Package: clutchdies", "Version: 1.0", "Title: Ends Nodes", "License: GPL-3"),
             file.path(src, "clutchdies", "DESCRIPTION"))
  writeLines("export(f)", file.path(src, "clutchdies", "NAMESPACE"))
  writeLines(c("f <- function(i) i",
               ".onLoad <- function(...) if (nzchar(Sys.getenv(\"CLUTCH_NODE_CORES\"))) {",
               sprintf("  cat(Sys.getpid(), \"\\n\", file = %s, append = TRUE)", deparse1(said)),
               sprintf("  eval(parse(%s))", deparse1(how)),
               "}"),
             file.path(src, "clutchdies", "R", "all.R"))
  built <- system2(file.path(R.home("bin"), "R"),
                   c("CMD", "INSTALL", "--no-docs", "--no-test-load", "-l", lib,
                     file.path(src, "clutchdies")),
                   stdout = FALSE, stderr = FALSE)
  expect_identical(built, 0L)
  old <- Sys.getenv("R_LIBS", NA)
  Sys.setenv(R_LIBS = paste(c(lib, .libPaths()), collapse = ":"))
  cl <- make_cluster(1)
  on.exit({
    stop_cluster(cl)
    if (is.na(old)) Sys.unsetenv("R_LIBS") else Sys.setenv(R_LIBS = old)
    unloadNamespace(name)
    unlink(c(src, lib, said, how), recursive = TRUE)
  })
  f <- loadNamespace(name, lib.loc = lib)$f
  run <- function(code) {
    writeLines(code, how)
    unlink(said)
    tryCatch(collect(cluster_submit(cl, f(1), .globals = list(f = f)), timeout = 60),
             clutch_error = identity)
  }
  e <- run("quit('no', 7)")
  expect_s3_class(e, "clutch_task_died")
  expect_match(conditionMessage(e), "ended 3 times in a row before it had begun anything.*status 7")
  expect_length(readLines(said), 3L)
  # SIGKILL says nothing of the node
  killed <- sprintf("if (length(readLines('%s')) < %%d) tools::pskill(Sys.getpid(), 9L)", said)
  expect_identical(run(sprintf(killed, 6L)), 1)
  expect_length(readLines(said), 6L)
  stop_cluster(cl)
  cl <- make_cluster(2)
  e <- run(sprintf(killed, 100L))
  expect_s3_class(e, "clutch_task_died")
  expect_match(conditionMessage(e), "ended 10 times in a row before it had begun.*SIGKILL")
  expect_identical(cluster_map(cl, 1:4, identity), as.list(1:4)) # others are not affected
})

test_that("the others work while a node of an unreachable host is waited for; its name is right", {
  linux_only()
  hold <- tempfile()
  progress <- tempfile()
  flag <- tempfile()
  # after the death the way there is not free before elements that were sent later are done
  ssh <- fake_ssh(c(sprintf("if [ -e %s ]; then", hold),
                    sprintf("  while [ ! -e %s ]; do sleep 0.1; done", progress), "fi"))
  cl <- make_cluster(c("localhost", "far.invalid"), rshcmd = ssh, master = "127.0.0.1")
  on.exit({
    stop_cluster(cl)
    unlink(c(dirname(ssh), hold, progress, flag), recursive = TRUE)
  })
  p <- pids(cl)
  file.create(hold)
  r <- cluster_map(cl, 1:60, function(i, far, progress) {
    if (Sys.getpid() == far) tools::pskill(far, 9L)
    if (i == 50) file.create(progress)
    Sys.sleep(0.02)
    i
  }, far = p[[2L]], progress = progress, .retries = 1, .chunk = 1)
  expect_identical(r, as.list(1:60))
  expect_true(eventually({
    cluster_map(cl, 1:2, identity)
    cluster_status(cl)$state[[2L]] == "idle"
  }, 60))
  expect_true(works(cl))
  eval(bquote(cluster_setup(cl, if (file.exists(.(flag))) tools::pskill(Sys.getpid(), 9L))))
  file.create(flag)
  expect_error(cluster_map(cl[2L], 1, function(i) tools::pskill(Sys.getpid(), 9L)),
               class = "clutch_task_died")
  w <- NULL
  eventually({
    w <- tryCatch({
      cluster_map(cl[1L], 1:2, identity)
      NULL
    }, clutch_setup = identity)
    !is.null(w)
  }, 60)
  expect_match(conditionMessage(w), "on far.invalid\\) died")
})

test_that("a call waits for the successor of a node that was ended for a task, far away as well", {
  linux_only()
  hold <- tempfile()
  # more than a map waits when it is over
  ssh <- fake_ssh(sprintf("if [ -e %s ]; then sleep 7; fi", hold))
  old <- options(clutch.cancel_grace = 0.3, clutch.task_grace = 0.3)
  cl <- make_cluster(c("localhost", "far.invalid"), rshcmd = ssh, master = "127.0.0.1")
  on.exit({
    options(old)
    stop_cluster(cl)
    unlink(c(dirname(ssh), hold), recursive = TRUE)
  })
  p <- pids(cl)
  file.create(hold)
  r <- suppressWarnings(cluster_map(cl[2L], 1:2, function(i) {
    if (i == 2) repeat {}
    i
  }, .timeout = 1.5, .on_error = "continue", .chunk = 1))
  expect_s3_class(r[[2L]], "clutch_task_timeout")
  expect_warning(q <- parallel::clusterCall(cl, Sys.getpid), class = "clutch_node_replaced")
  expect_identical(q[[1L]], p[[1L]])
  expect_false(q[[2L]] == p[[2L]])
  expect_true(works(cl))
})

# ---- what nodes leave behind ----

# Starts a process in a session of its own, whose pid is left in a file.
leave_one <- function(file) {
  system(sprintf(
    "sh -c 'echo $$ > %s.part; mv %s.part %s; exec setsid sleep 1000' > /dev/null 2>&1 &", file,
    file, file
  ))
  while (!file.exists(file)) Sys.sleep(0.01)
  as.integer(readLines(file))
}
environment(leave_one) <- globalenv()

test_that("what a task started in a session of its own ends with its node, and lives with it", {
  needs("follow_parent")
  linux_only()
  for (strategy in c("fork_server", "spawn")) {
    files <- replicate(4L, tempfile())
    cl <- make_cluster(3, strategy)
    on.exit({
      stop_cluster(cl)
      unlink(files)
    })
    left <- unlist(parallel::clusterMap(cl, leave_one, files[1:3]))
    expect_true(all(alive(left)))
    expect_error(
      cluster_map(cl[1L], 1, function(i) suspendInterrupts(repeat {}), .timeout = 0.5),
      class = "clutch_task_timeout"
    )
    expect_true(eventually(!alive(left[[1L]])))
    expect_true(all(alive(left[2:3])))
    node_died(parallel::clusterCall(cl[2L], function() tools::pskill(Sys.getpid(), 9L)))
    expect_true(eventually(!alive(left[[2L]])))
    expect_true(alive(left[[3L]]))
    expect_identical(parallel::clusterCall(cl[3L], function() 1), list(1)) # it was nobody else's
    stop_cluster(cl)
    expect_true(eventually(!alive(left[[3L]])))
    on.exit()
    unlink(files)
  }
})

test_that("what tasks have started in sessions of their own ends with the session", {
  needs("follow_parent")
  linux_only()
  s <- start_script(c("cl <- make_cluster(2)", "f <- function(file) NULL",
                      paste("body(f) <- quote(", paste(deparse(body(leave_one)), collapse = "\n"),
                            ")"),
    "environment(f) <- globalenv()",
    "p <- unlist(parallel::clusterMap(cl, f, c(tempfile(), tempfile())))",
    "cat('left=', paste(p, collapse = ' '), '\\nready\\n', sep = '')", "Sys.sleep(1000)"))
  expect_true(said(s, "^ready"))
  left <- as.integer(strsplit(value_of(s, "left"), " ")[[1L]])
  expect_true(all(alive(left)))
  tools::pskill(s$pid, 9L)
  expect_true(eventually(!any(alive(left))))
  expect_true(ends(s))
})
