# What goes on while R is idle: promises, and tasks that wait. In a session of its own for each
# version of package later: that of the library, and one that waits for descriptors (1.4.0 or
# newer, which 'make test' installs beside an older one).

while_idle <- function(strategy, library = NULL) {
  skip_if_not_installed("promises")
  skip_if_not_installed("later")
  old <- .libPaths()
  on.exit(.libPaths(old))
  .libPaths(c(library, old))
  s <- start_script(fixture = "while-idle", strategy = strategy)
  expect_done(s, 120)
  expect_true(ends(s))
  s
}

newer_library <- function() {
  if (utils::packageVersion("later") >= "1.4.0") return(NULL)
  lib <- Sys.getenv("CLUTCH_NEWER_LIB")
  skip_if_not(dir.exists(file.path(lib, "later")), "later 1.4.0 is not installed")
  lib
}

test_that("tasks become promises, whichever version of later is there", {
  while_idle("fork_server")
})

test_that("promises are woken by later_fd()", {
  s <- while_idle("fork_server", newer_library())
  # a build without descriptors that can be waited for polls
  can_wait <- length(.Call(clutch:::ffi_wake_descriptors)) > 0
  expect_match(value_of(s, "later"), if (can_wait) "waits$" else "polls$")
})

test_that("promises of tasks on nodes over TCP are woken, too", {
  while_idle("parallel", newer_library())
})

test_that("threads that other packages start for us take no signals", {
  # R's handler of SIGINT jumps out of select(), in whichever thread it runs
  linux_only()
  skip_if_not_installed("promises")
  skip_if_not_installed("httpuv")
  for (lib in unique(list(NULL, newer_library()))) {
    s <- start_script(c(
      sprintf(".libPaths(c(%s, .libPaths()))", deparse1(lib)),
      "library(clutch)", "cl <- make_cluster(1)",
      "before <- list.files('/proc/self/task')",
      "p <- promises::as.promise(cluster_submit(cl, Sys.sleep(0.2)))",
      "d <- clutch:::open_dashboard(identity)",
      "later::run_now(0.1)",
      "now <- setdiff(list.files('/proc/self/task'), before)",
      "of <- function(tid) clutch:::read_lines('/proc/self/task', tid, 'status')", # it may be gone
      "mask <- function(tid) sub('.*\t', '', grep('^SigBlk', of(tid), value = TRUE))",
      "takes_int <- function(tid) any(strtoi(substring(mask(tid), 16), 16L) %/% 2L %% 2L == 0L)",
      "cat('threads=', length(now), '\n', sep = '')",
      "cat('open=', sum(vapply(now, takes_int, NA)), '\n', sep = '')",
      "stop_cluster(cl)", "cat('done\\n')"
    ))
    expect_done(s)
    expect_gt(as.integer(value_of(s, "threads")), 1L)
    expect_identical(value_of(s, "open"), "0")
  }
})
