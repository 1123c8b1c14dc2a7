# What observers tell of nodes on other hosts: see core/link/views.h.

outside_checks_only()

ask <- function(o) clutch:::ask_observer(o, "snapshot")
observe <- function(cl) clutch:::observer_of(cl)

hosts_there <- NULL
needs_hosts <- function() {
  if (is.null(hosts_there)) hosts_there <<- hosts_or_skip(c("alpha", "beta"))
}
on_hosts <- function(...) {
  hosts(c("alpha", "beta"), 2, ssh = c("ssh", "-F", hosts_there$config), ...)
}

# A session with so many nodes on each host, which runs these lines, and then computes for ever.
start_computing <- function(each, lines) {
  s <- start_script(c(
    sprintf("cl <- make_cluster(hosts(c('alpha', 'beta'), %d, ssh = c('ssh', '-F', '%s')))", each,
            hosts_there$config),
    lines, "cat('begun\\n')", "repeat NULL"
  ))
  expect_true(said(s, "^begun$", 60))
  s
}
observer_of_session <- function(s) {
  Filter(function(o) o$session == s$pid, clutch:::find_observers())[[1L]]
}

test_that("nodes on other hosts: what they use, and what they are at", {
  needs("proc")
  needs_hosts()
  cl <- make_cluster(on_hosts())
  on.exit(stop_cluster(cl))
  big <- cluster_submit(cl, {
    x <- runif(4e6)
    repeat NULL
  })
  o <- observe(cl)
  on.exit(close(o$socket), add = TRUE)
  s <- NULL
  at_work <- function() which(s$nodes$state == "busy" & !is.na(s$nodes$job))
  expect_true(eventually({
    s <- ask(o)
    length(at_work()) == 1L && isTRUE(s$nodes$cpu[at_work()] > 0.05) &&
      isTRUE(s$nodes$memory[at_work()] > 32e6) && !anyNA(s$nodes$cpu) # they are asked in turn
  }, 30), info = paste(capture.output(s$nodes), collapse = "\n"))
  expect_identical(s$nodes$element[at_work()], 1)
  status <- cluster_status(cl)
  expect_equal(s$nodes$pid, status$pid)
  expect_equal(s$nodes$memory / 2^20, status$memory, tolerance = 0.3)
  expect_identical(s$hosts$host, c("alpha", "beta"))
  expect_identical(s$hosts$state, c("up", "up"))
  expect_identical(s$hosts$nodes, c(2L, 2L))
  expect_equal(s$hosts$memory / 2^20, cluster_hosts(cl)$memory)
  expect_true(all(s$hosts$memory_free > 0 & s$hosts$memory_free < s$hosts$memory))
  expect_true(all(s$hosts$load >= 0 & s$hosts$round_trip >= 0 & s$hosts$round_trip < 60))
  expect_true(all(s$hosts$sent > 0 & s$hosts$received > 0))
  wide <- options(cli.width = 200) # a load of 10 and a round trip of 10 ms do not fit in 80 columns
  on.exit(options(wide), add = TRUE)
  out <- capture.output(cluster_top(cl))
  expect_length(grep("^host  (alpha|beta )  up  2 nodes  load .* free .* there and back", out), 2L)
  expect_length(grep("^ +[1-4]  (idle|busy) .*% .* [Mk]B ", out), 4L)
  # a node that dies is another process, and so is what it uses
  node <- at_work()
  on_host(hosts_there, s$nodes$host[node], sprintf("kill -9 %d", s$nodes$pid[node]))
  expect_true(eventually({
    cluster_map(cl, 1:4, identity)
    s <- ask(o)
    all(s$nodes$state == "idle") && !anyNA(s$nodes$memory) && s$nodes$memory[node] < 32e6
  }, 30), info = paste(capture.output(s$nodes), collapse = "\n"))
})

test_that("the R calls of nodes on other hosts, also while the session computes", {
  needs_hosts()
  s <- start_computing(2, c(
    "f <- function(s) Sys.sleep(s)",
    "t <- lapply(c(600, 601), function(s) cluster_submit(cl, f(s)))",
    "deaf <- cluster_submit(cl, suspendInterrupts(repeat NULL))",
    "while (cluster_free(cl) > 1) Sys.sleep(0.1)"
  ))
  x <- NULL
  calls_of <- function(k) any(grepl("^f\\(s\\)", x$stack[[k]]))
  slept <- function() which(vapply(seq_len(nrow(x)), calls_of, NA))
  expect_true(eventually({
    x <- cluster_stacks(session = s$pid, wait = 2)
    length(slept()) == 2L && all(x$current[slept()])
  }, 30), info = paste(capture.output(x), collapse = "\n"))
  expect_setequal(x$host, c("alpha", "beta"))
  expect_identical(sort(x$state), c("busy", "busy", "busy", "idle"))
  expect_true(all(x$element[slept()] == 1 & x$since[slept()] > 0))
  # one that does not look for interrupts, and one that is at nothing
  rest <- setdiff(1:4, slept())
  expect_match(x$note[rest][x$state[rest] == "busy"], "it has reported nothing in this task")
  expect_identical(x$stack[rest], list(NULL, NULL))
  # cluster_top() shows the innermost call
  o <- observer_of_session(s)
  on.exit(close(o$socket))
  expect_true(eventually({
    x <- ask(o)
    sum(grepl("^Sys.sleep\\(", x$nodes$call)) == 2L
  }, 30), info = paste(capture.output(x$nodes), collapse = "\n"))
  tools::pskill(s$pid, tools::SIGKILL)
  expect_true(ends(s))
  expect_hosts_empty(hosts_there)
})

test_that("that a host is cut off is seen, also while the session computes", {
  needs_hosts()
  s <- start_computing(1, c(
    "t <- lapply(1:2, function(i) cluster_submit(cl, Sys.sleep(600)))",
    "while (cluster_free(cl) > 0) Sys.sleep(0.1)"
  ))
  o <- observer_of_session(s)
  on.exit(close(o$socket))
  x <- NULL
  expect_true(eventually({
    x <- ask(o)
    all(x$nodes$state == "busy" & x$nodes$element %in% 1) &&
      (!anyNA(x$nodes$memory) || !system_can("proc"))
  }, 30), info = paste(capture.output(x$nodes), collapse = "\n"))
  cut_off(hosts_there, "beta")
  expect_true(eventually({
    x <- ask(o)
    identical(x$nodes$state, c("busy", "cut")) && identical(x$hosts$state, c("up", "cut"))
  }, 60), info = paste(capture.output(x$nodes), collapse = "\n"))
  expect_identical(is.na(x$hosts$round_trip), c(FALSE, TRUE))
  make_good(hosts_there, "beta")
  expect_true(eventually(all(ask(o)$nodes$state == "busy"), 60))
  tools::pskill(s$pid, tools::SIGKILL)
  expect_true(ends(s))
  expect_hosts_empty(hosts_there)
})

test_that("the hosts that these tests have made are ended", {
  skip_if(is.null(hosts_there))
  expect_true(stop_hosts(hosts_there))
})
