# Limits of the system, what a fork could carry along from its parent, and how long the fork server
# lives.

# ---- limits and memory ----

test_that("a fork that fails half-way is a limit, and leaves nothing", {
  linux_only()
  outside_checks_only()
  needs("follow_parent") # else a node has a thread, and Linux counts those
  skip_if(Sys.info()[["effective_user"]] != "root" || !nzchar(Sys.which("setpriv")) ||
          !nzchar(Sys.which("prlimit")),
          "needs root, setpriv and prlimit")
  # a user that nobody else is, and who may have 6 processes: session, fork server, 4 nodes
  uid <- 200000L + Sys.getpid() # not by chance: another test may have set the seed
  dir <- tempfile("limited-", "/tmp")
  dir.create(dir, mode = "0700")
  on.exit(unlink(dir, recursive = TRUE))
  file.copy(find.package("clutch"), dir, recursive = TRUE)
  writeLines(fixture_lines("few-processes"), file.path(dir, "script.R"))
  system2("chown", c("-R", paste0(uid, ":", uid), dir))
  out <- file.path(dir, "out")
  system(sprintf(paste("cd %s && HOME=%s TMPDIR=%s R_LIBS=%s prlimit --nproc=6",
                       "setpriv --reuid=%d --regid=%d --clear-groups --inh-caps=-all",
                       "--bounding-set=-all %s --vanilla script.R > %s 2>&1 < /dev/null &"),
                 dir, dir, dir, shQuote(paste(c(dir, .libPaths()), collapse = ":")), uid, uid,
                 file.path(R.home("bin"), "Rscript"), out))
  s <- list(out = out, tmp = dir)
  on.exit(for (p in processes_of(s)) tools::pskill(p, 9L), add = TRUE, after = FALSE)
  expect_done(s)
  expect_identical(value_of(s, "class"), "clutch_limit")
  expect_match(value_of(s, "text"), "cannot be (started|forked).*nothing was left running")
  expect_identical(value_of(s, "left"), "0")
  expect_identical(value_of(s, "works"), "TRUE")
  expect_identical(value_of(s, "server"), "clutch_limit")
  expect_identical(value_of(s, "still"), "TRUE")
  expect_true(ends(s))
  expect_setequal(setdiff(left_in(s), basename(value_of(s, "session"))),
                  c("clutch", "out", "script.R"))
})

test_that("without descriptors a start is a limit, however few there are, and leaves nothing", {
  linux_only()
  skip_if(!nzchar(Sys.which("prlimit")), "needs prlimit")
  s <- start_script(fixture = "descriptor-limits")
  expect_done(s)
  expect_identical(value_of(s, "warm"), "ok clutch_limit")
  # with so few R itself does not start, and says so
  expect_true(all(strsplit(value_of(s, "cold"), " ")[[1L]] %in%
                  c("ok", "clutch_start", "clutch_limit")))
  expect_identical(value_of(s, "half"), "clutch_limit")
  expect_identical(c(value_of(s, "nodes"), value_of(s, "servers"), value_of(s, "more")),
                   c("1", "1", "0"))
})

test_that("a node short of memory passes on R's error, also when a call or answer does not fit", {
  linux_only()
  skip_if(!nzchar(Sys.which("prlimit")), "needs prlimit")
  cl <- make_cluster(2)
  on.exit(stop_cluster(cl))
  parallel::clusterCall(cl[1L], function() { # 300 MB more than now
    now <- as.numeric(strsplit(readLines("/proc/self/statm"), " ")[[1L]][[1L]]) * 4096
    system(sprintf("prlimit --pid %d --as=%.0f", Sys.getpid(), now + 3e8))
  })
  p <- pids(cl)
  expect_error(parallel::clusterCall(cl[1L], function() numeric(1e8)),
               "cannot allocate vector of size 762.9 M[bB]")
  expect_error(parallel::clusterCall(cl[1L], length, raw(4e8)), "cannot allocate|not enough memory")
  expect_error(parallel::clusterCall(cl[1L], function() {
    options(clutch.share_from = Inf)
    x <- rep("text", 1.2e7)
    list(x, x, x)
  }), "cannot allocate|not enough memory")
  expect_true(works(cl))
  expect_identical(pids(cl), p)
})

# ---- what a fork could carry along ----

test_that("nothing buffered is printed twice, and nothing of the session is in a node", {
  linux_only()
  grDevices::pdf(tempfile())
  on.exit(grDevices::dev.off())
  con <- file(tempfile(), "w+")
  on.exit(close(con), add = TRUE)
  profile <- tempfile()
  writeLines(c("cat('half a line of the profile')", "set.seed(1); stats::runif(1)"), profile)
  old <- Sys.getenv("R_PROFILE_USER", NA)
  Sys.setenv(R_PROFILE_USER = profile)
  on.exit(if (is.na(old)) Sys.unsetenv("R_PROFILE_USER") else Sys.setenv(R_PROFILE_USER = old),
          add = TRUE)
  out <- tempfile()
  cl <- make_cluster(3, outfile = out)
  draws <- parallel::clusterCall(cl, stats::runif, 2)
  parallel::clusterCall(cl[1L], cat, "said once\n")
  expect_identical(parallel::clusterCall(cl, grDevices::dev.list), list(NULL, NULL, NULL))
  there <- parallel::clusterCall(cl, function() showConnections()[, "class"])
  expect_identical(setdiff(unlist(there), "clutch_relay"), character()) # which tasks write to
  files <- parallel::clusterCall(cl, function() {
    Sys.readlink(list.files("/proc/self/fd", full.names = TRUE))
  })
  known <- paste0("^/dev/null$|fork-server.R$|^socket:|^", out)
  for (f in files) {
    expect_identical(grep(known, f[!is.na(f)], invert = TRUE, value = TRUE), character())
  }
  expect_true(all(lengths(lapply(files, grep, pattern = "^socket:")) == 1L))
  other <- make_cluster(3)
  draws <- c(draws, parallel::clusterCall(other, stats::runif, 2))
  node_died(parallel::clusterCall(other[1L], function() tools::pskill(Sys.getpid(), 9L)))
  stop_cluster(other)
  third <- make_cluster(3)
  draws <- c(draws, parallel::clusterCall(third, stats::runif, 2))
  stop_cluster(third)
  fork_server_stop(all = FALSE)
  expect_identical(anyDuplicated(unlist(draws)), 0L)
  stop_cluster(cl)
  lines <- readLines(out)
  expect_identical(sum(grepl("said once", lines)), 1L)
  expect_identical(sum(grepl("starting worker", lines)), 3L)
  expect_false(any(grepl("half a line", lines)))
})

test_that("a package that starts a thread is named, and each node is started afresh", {
  long_test()
  linux_only()
  needs("threads")
  lib <- tempfile("lib")
  dir.create(lib)
  src <- tempfile("src")
  dir.create(src)
  file.copy(test_path("fixtures", "threads"), src, recursive = TRUE)
  built <- system2(file.path(R.home("bin"), "R"),
                   c("CMD", "INSTALL", "--no-docs", "--no-test-load", "--no-byte-compile",
                     "-l", lib, file.path(src, "threads")),
                                                    stdout = FALSE, stderr = FALSE)
  skip_if(built != 0L, "no compiler")
  old <- Sys.getenv("R_LIBS", NA)
  Sys.setenv(R_LIBS = paste(c(lib, .libPaths()), collapse = ":"))
  on.exit(if (is.na(old)) Sys.unsetenv("R_LIBS") else Sys.setenv(R_LIBS = old))
  expect_message(cl <- make_cluster(2, packages = c("splines", "clutchthreads")),
                 "Package 'clutchthreads' starts threads")
  expect_output(print(cl), "strategy \"spawn\"")
  threads <- parallel::clusterCall(cl, function() length(list.files("/proc/self/task")))
  expect_identical(threads, list(2L, 2L)) # the thread is there: it has not been lost in a fork
  expect_true(all(unlist(parallel::clusterCall(cl,
                                               function() all(c(
                                                 "package:splines", "package:clutchthreads"
                                               ) %in% search())))))
  expect_identical(anyDuplicated(unlist(parallel::clusterCall(cl, stats::runif, 2))), 0L)
  p <- pids(cl)
  stop_cluster(cl)
  fork_server_stop(all = TRUE)
  expect_false(any(alive(p)))
})

test_that("a recommended package is attached on every node, a missing one leaves nothing", {
  linux_only()
  skip_if_not_installed("survival")
  cl <- make_cluster(2, packages = "survival")
  on.exit(stop_cluster(cl))
  fit <- function(i) unname(coef(coxph(Surv(time, status) ~ age, lung)))
  environment(fit) <- globalenv()
  expect_length(unique(unlist(parallel::clusterApply(cl, 1:2, fit))), 1L)
  invisible(gc()) # of other tests
  own <- sprintf("/proc/%d/task/%d/children", Sys.getpid(), Sys.getpid())
  before <- scan(own, quiet = TRUE)
  fds <- open_fds()
  expect_error(make_cluster(2, packages = c("survival", "no.such.package")), "no.such.package",
               class = "clutch_package")
  expect_identical(scan(own, quiet = TRUE), before)
  expect_identical(open_fds(), fds)
})

# ---- the fork server's life ----

test_that("an idle fork server ends by itself, and the next cluster says nothing of it", {
  linux_only()
  fork_server_stop(all = TRUE)
  old <- options(clutch.idle_limit = 0.3)
  on.exit(options(old))
  cl <- make_cluster(1)
  server <- server_pid(cl)
  stop_cluster(cl)
  expect_true(eventually(!alive(server)))
  expect_silent(cl <- make_cluster(2))
  expect_true(works(cl))
  stop_cluster(cl)
  options(clutch.idle_limit = 0.001) # it may end between any two steps of a start
  for (k in 1:10) {
    expect_silent(cl <- make_cluster(1))
    stop_cluster(cl)
  }
  fork_server_stop(all = TRUE)
  options(clutch.idle_limit = "soon")
  expect_error(make_cluster(1), "clutch.idle_limit", class = "clutch_argument")
  options(clutch.idle_limit = Inf)
  cl <- make_cluster(1)
  expect_true(works(cl))
  stop_cluster(cl)
  fork_server_stop()
})

test_that("the fork server is started when the package is attached, where that is asked for", {
  linux_only()
  s <- start_script(fixture = "prestart")
  expect_done(s)
  expect_identical(vapply(c("none", "off", "on", "same", "gone"), function(w) value_of(s, w), ""),
                   c(none = "0", off = "0", on = "1", same = "TRUE", gone = "0"))
})
