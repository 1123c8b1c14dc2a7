# mirai's daemons on our nodes.

outside_checks_only()

skip_without_mirai <- function() skip_if_not_installed("mirai", "2.5.0")

with_daemons <- function(n, ..., code) {
  skip_without_mirai()
  on.exit(mirai::daemons(0))
  mirai_daemons(n, ...)
  code
}

connections <- function(profile = NULL) mirai::status(profile)$connections
daemon_pids <- function(n = connections(), ...) {
  # two hosts may have the same number for a process
  expect_true(eventually({
    # each is busy for a moment, so that each gets one
    tasks <- lapply(seq_len(n), function(i) mirai::mirai({
      Sys.sleep(0.1)
      list(host = Sys.info()[["nodename"]], pid = Sys.getpid())
    }, ...))
    found <- lapply(tasks, function(t) t[])
    all(vapply(found, is.list, NA)) && !anyDuplicated(found)
  }))
  vapply(found, `[[`, 0L, "pid")
}
server_of <- function(pid) {
  as.integer(sub("^.*\\) . ([0-9]+) .*$", "\\1", readLines(file.path("/proc", pid, "stat"))))
}

test_that("daemons do tasks, and return and print what mirai's do", {
  skip_without_mirai()
  on.exit(mirai::daemons(0))
  value <- withVisible(mirai_daemons(2))
  ours <- capture.output(print(value$value))
  expect_false(value$visible)
  expect_identical(connections(), 2L)
  expect_length(unique(daemon_pids()), 2L)
  expect_identical(mirai::mirai_map(1:10, function(i) i^2)[mirai::.flat], (1:10)^2)
  expect_s3_class(mirai::mirai(stop("bad"))[], "miraiError")
  expect_false(mirai_daemons(0))
  expect_identical(connections(), 0L)
  theirs <- mirai::daemons(1)
  expect_identical(value$value, theirs)
  expect_identical(ours, capture.output(print(theirs)))
})

test_that("a daemon that dies is replaced while the session waits in mirai's code", {
  with_daemons(2, code = {
    old <- daemon_pids()
    lost <- mirai::mirai(tools::pskill(Sys.getpid(), 9L))
    expect_s3_class(mirai::call_mirai(lost)$data, "errorValue")
    # the tasks cannot all be at work before there are two again
    both <- function() {
      tasks <- lapply(1:2, function(i) mirai::mirai({
        file.create(file.path(dir, i))
        while (length(list.files(dir)) < 2L) Sys.sleep(0.01)
        Sys.getpid()
      }, dir = dir, i = i, .timeout = 30000))
      unlist(lapply(tasks, function(t) mirai::call_mirai(t)$data))
    }
    dir <- tempfile()
    dir.create(dir)
    new <- both()
    expect_length(setdiff(new, old), 1L)
    expect_length(intersect(new, old), 1L)
    expect_identical(connections(), 2L)
    expect_gte(mirai::info()[["cumulative"]], 3L)
    unlink(dir, recursive = TRUE)
  })
})

test_that("whatever ends a daemon, another one takes its place", {
  with_daemons(2, code = {
    for (end in expression(quit("no"), quit("no", 3), tools::pskill(Sys.getpid()))) {
      old <- daemon_pids(2L)
      expect_s3_class(mirai::collect_mirai(mirai::mirai(eval(end), end = end)), "errorValue")
      expect_true(eventually(connections() == 2L && length(setdiff(daemon_pids(2L), old)) == 1L))
    }
    old <- daemon_pids(2L)
    tools::pskill(old, 9L)
    expect_true(eventually(!any(alive(old)) && connections() == 2L))
    expect_length(intersect(daemon_pids(2L), old), 0L)
  })
})

test_that("daemons end with their fork server, and mirai_daemons() starts others", {
  with_daemons(2, code = {
    old <- daemon_pids()
    tools::pskill(server_of(old[[1L]]), 9L)
    expect_true(eventually(connections() == 0L && !any(dir.exists(file.path("/proc", old)))))
    suppressMessages(mirai_daemons(2))
    expect_length(unique(daemon_pids()), 2L)
  })
})

test_that("one that ends as it was told to is not replaced", {
  with_daemons(2, maxtasks = 1, code = {
    expect_identical(connections(), 2L)
    for (i in 1:2) expect_identical(mirai::mirai(i, i = i)[], i)
    expect_true(eventually(connections() == 0L))
    expect_true(eventually(clutch:::live_programs(clutch:::the$daemons$default) == 0L))
  })
})

test_that("daemons(0) ends them, however mirai is told, and nothing is left", {
  skip_without_mirai()
  linux_only()
  ends <- list(function() mirai::daemons(0), function() mirai_daemons(0),
               function() mirai_daemons(NULL), function() mirai::daemons(NULL))
  for (dispatcher in c(TRUE, FALSE)) {
    for (end in ends) {
      mirai_daemons(2, dispatcher = dispatcher)
      found <- daemon_pids(2L)
      server <- server_of(found[[1L]])
      end()
      expect_true(eventually(!any(alive(found))))
      children <- sprintf("/proc/%d/task/%d/children", server, server)
      expect_true(eventually(!length(scan(children, quiet = TRUE)))) # and none came after them
    }
  }
})

test_that("daemons end with the session", {
  skip_without_mirai()
  linux_only()
  s <- start_script("
    mirai_daemons(2)
    cat('ready\n')
    Sys.sleep(100)
  ")
  expect_true(said(s, "^ready"))
  expect_gte(length(processes_of(s)), 4L) # session, fork server, daemons
  tools::pskill(s$pid, 9L)
  expect_true(eventually(!length(processes_of(s))))
})

test_that("profiles are apart", {
  skip_without_mirai()
  on.exit({
    mirai::daemons(0, .compute = "a")
    mirai::daemons(0, .compute = "b")
  })
  mirai_daemons(1, .compute = "a")
  mirai_daemons(2, .compute = "b", dispatcher = FALSE)
  expect_identical(connections("a"), 1L)
  expect_identical(connections("b"), 2L)
  old <- daemon_pids(1L, .compute = "a")
  mirai_daemons(2, .compute = "a") # in place of the others
  expect_identical(connections("a"), 2L)
  expect_true(eventually(!alive(old)))
  mirai::daemons(0, .compute = "a")
  expect_identical(mirai::mirai(1, .compute = "b")[], 1)
  expect_identical(mirai::with_daemons("b", mirai::mirai(2)[]), 2)
})

test_that("a daemon that dies is replaced by one with its profile, folder and environment", {
  skip_without_mirai()
  old <- Sys.getenv("TMP_OF_PROFILE", NA)
  wd <- getwd()
  profiles <- c("a", "b", "c")
  on.exit({
    for (p in profiles) mirai::daemons(0, .compute = p)
    Sys.unsetenv("TMP_OF_PROFILE")
    setwd(wd)
  })
  for (k in 1:3) { # the fork server is the same, and has the settings of the last
    folder <- tempfile()
    dir.create(folder)
    setwd(folder)
    Sys.setenv(TMP_OF_PROFILE = profiles[[k]])
    mirai_daemons(k, .compute = profiles[[k]])
  }
  mirai::daemons(0, .compute = "c")
  what <- function() c(Sys.getenv("TMP_OF_PROFILE"), getwd())
  for (p in c("a", "b")) {
    before <- mirai::mirai(what(), what = what, .compute = p)[]
    expect_identical(before[[1L]], p)
    mirai::collect_mirai(mirai::mirai(tools::pskill(Sys.getpid(), 9L), .compute = p))
    expect_true(eventually(connections(p) == match(p, profiles)))
    for (i in 1:4) {
      expect_identical(mirai::mirai(what(), what = what, .compute = p, .timeout = 30000)[], before)
    }
  }
})

test_that("seeds give what they give with mirai's own daemons", {
  skip_without_mirai()
  on.exit(mirai::daemons(0))
  numbers <- function(start, dispatcher) {
    start(1, dispatcher = dispatcher, seed = 42)
    out <- mirai::mirai_map(1:3, function(i) rnorm(1))[mirai::.flat]
    mirai::daemons(0)
    out
  }
  for (dispatcher in c(TRUE, FALSE)) {
    expect_identical(numbers(mirai_daemons, dispatcher), numbers(mirai::daemons, dispatcher))
  }
})

test_that("the random numbers of a daemon are not those of the one before it", {
  with_daemons(1, dispatcher = FALSE, code = {
    first <- mirai::mirai(rnorm(3), .timeout = 30000)[]
    mirai::collect_mirai(mirai::mirai(tools::pskill(Sys.getpid(), 9L)))
    expect_true(eventually(connections() == 1L))
    second <- mirai::mirai(rnorm(3), .timeout = 30000)[]
    expect_type(second, "double")
    expect_false(any(second %in% first))
  })
})

test_that("TLS is as with mirai", {
  with_daemons(2, url = "tls+tcp://127.0.0.1:0", code = {
    expect_identical(connections(), 2L)
    expect_match(mirai::status()$daemons, "^tls")
    expect_identical(mirai::mirai(1 + 1)[], 2)
    old <- daemon_pids(2L)
    tools::pskill(old[[1L]], 9L)
    expect_true(eventually(!alive(old[[1L]]) && connections() == 2L))
  })
})

test_that("what mirai does in a daemon works in ours", {
  with_daemons(2, code = {
    endless <- mirai::mirai(while (TRUE) Sys.sleep(0.01))
    Sys.sleep(0.2)
    mirai::stop_mirai(endless)
    expect_true(eventually(connections() == 2L))
    late <- mirai::mirai(Sys.sleep(20), .timeout = 200)[]
    expect_identical(as.integer(late), 5L)
    expect_setequal(daemon_pids(2L), daemon_pids(2L)) # neither of them has died
    mirai::everywhere(library(parallel))
    expect_true(mirai::mirai("package:parallel" %in% search())[])
    nested <- mirai::mirai({
      cl <- clutch::make_cluster(2)
      out <- unlist(parallel::clusterApply(cl, 1:4, function(i) i))
      clutch::stop_cluster(cl)
      out
    }, .timeout = 60000)
    expect_identical(nested[], 1:4)
  })
})

test_that("errors have classes, and leave nothing", {
  skip_without_mirai()
  expect_error(mirai_daemons("a"), class = "clutch_argument")
  expect_error(mirai_daemons(-1), class = "clutch_argument")
  expect_error(mirai_daemons(1.5), class = "clutch_argument")
  expect_error(mirai_daemons(c(1, 2)), class = "clutch_argument")
  expect_error(mirai_daemons(), class = "clutch_argument")
  expect_error(mirai_daemons(1, sync = TRUE), class = "clutch_argument")
  expect_error(mirai_daemons(1, remote = mirai::remote_config()), class = "clutch_argument")
  expect_error(mirai_daemons(1, url = 5))
  # daemons that end after a millisecond: now and then both are seen connected in it
  expect_true(eventually({
    mirai::daemons(0)
    e <- tryCatch(mirai_daemons(2, walltime = 1), error = identity)
    inherits(e, "clutch_start")
  }))
  expect_false(mirai::daemons_set())
  e <- expect_error(clutch:::need_package("mirai", "mirai_daemons()", "99.0"),
                    "99.0 or newer.*install.packages", class = "clutch_package")
  expect_identical(e$package, "mirai")
})

test_that("where nodes cannot be forked each daemon is an R of its own, and replaced as well", {
  skip_without_mirai()
  profile <- tempfile()
  on.exit(unlink(profile))
  writeLines("if (nzchar(Sys.getenv('CLUTCH_STARTING'))) loadNamespace('nanonext')", profile)
  s <- start_script(c(sprintf("Sys.setenv(R_PROFILE_USER = '%s')", profile), "
    Sys.setenv(OF_PROFILE = 'a')
    mirai_daemons(2)
    Sys.setenv(OF_PROFILE = 'b')
    mirai_daemons(1, .compute = 'b')
    cat('sum=', sum(mirai::mirai_map(1:4, function(i) i)[mirai::.flat]), '\n', sep = '')
    pid <- mirai::mirai(Sys.getpid())[]
    tools::pskill(pid, 9)
    connections <- function() mirai::status()$connections
    while (connections() == 2) Sys.sleep(0.01)
    while (connections() < 2) Sys.sleep(0.01)
    what <- unlist(lapply(1:8, function(i) mirai::mirai(Sys.getenv('OF_PROFILE'))[]))
    cat('replaced by=', unique(what), '\n', sep = '')
    late <- mirai::mirai(Sys.sleep(30), .timeout = 200)[]
    cat('late=', as.integer(late), '\n', sep = '')
    cat('servers=', length(clutch:::the$servers), '\n', sep = '')
    mirai_daemons(0)
    mirai_daemons(0, .compute = 'b')
    cat('left=', length(clutch:::the$servers), '\n', sep = '')
  "))
  expect_true(said(s, "^left=", 120))
  expect_identical(value_of(s, "sum"), "10")
  expect_identical(value_of(s, "replaced by"), "a")
  expect_identical(value_of(s, "late"), "5")
  expect_identical(value_of(s, "servers"), "2") # their nodes' settings differ
  expect_identical(value_of(s, "left"), "0")
  expect_true(said(s, "threads"))
  expect_true(eventually(!alive(s$pid)))
})

test_that("daemons that a profile asks for are started by the session only", {
  skip_without_mirai()
  for (first in c("", "library(mirai)")) { # with threads, or without
    profile <- tempfile()
    writeLines(c(first, "options(of_profile = clutch::mirai_daemons(2))"), profile)
    s <- start_script(c(sprintf("Sys.setenv(R_PROFILE_USER = '%s')", profile), "
      value <- mirai_daemons(2)
      found <- mirai::mirai_map(1:4, function(i) getOption('of_profile'))[mirai::.flat]
      cat('found=', unique(found), '\n', sep = '')
      cat('connections=', mirai::status()$connections, '\n', sep = '')
      Sys.sleep(100)
    "))
    expect_true(said(s, "^connections=", 60))
    expect_identical(value_of(s, "found"), "FALSE")
    expect_identical(value_of(s, "connections"), "2")
    # session, fork server, daemons; a process that one of them starts for a moment is not meant
    few <- eventually(length(processes_of(s)) <= 4L)
    expect_true(few, info = paste(commands_of(processes_of(s)), collapse = "\n"))
    tools::pskill(s$pid, 9L)
    expect_true(eventually(!length(processes_of(s))))
    unlink(profile)
  }
})

test_that("a daemon that dies again and again is replaced as often", {
  with_daemons(1, code = {
    seen <- integer()
    while (length(seen) < 5L) {
      # mirai may not know yet that the one before has gone: then this is an error value
      pid <- mirai::mirai(Sys.getpid(), .timeout = 60000)[]
      if (mirai::is_error_value(pid)) next
      expect_false(pid %in% seen)
      seen <- c(seen, pid)
      tools::pskill(pid, 9L)
      expect_true(eventually(!alive(pid)))
    }
    expect_true(eventually(connections() == 1L))
    # that may be the connection of the last one that was killed
    expect_true(eventually(identical(mirai::mirai(1 + 1, .timeout = 60000)[], 2)))
  })
})

test_that("on a cluster each node runs a daemon, and is a node again afterwards", {
  skip_without_mirai()
  cl <- make_cluster(2)
  on.exit({
    mirai::daemons(0)
    stop_cluster(cl)
  })
  before <- pids(cl)
  value <- mirai_daemons(cl)
  expect_s3_class(value, "miraiDaemons")
  expect_identical(connections(), 2L)
  expect_setequal(daemon_pids(2L), before)
  expect_identical(cluster_status(cl)$state, c("busy", "busy"))
  # another one takes the place of one that dies, at the next call of this package
  lost <- mirai::mirai(tools::pskill(Sys.getpid(), 9L))
  expect_s3_class(mirai::call_mirai(lost)$data, "errorValue")
  expect_true(eventually({
    collect_any(clutch:::the$daemons[["default"]], timeout = 0.1, otherwise = NULL)
    connections() == 2L
  }))
  expect_length(setdiff(daemon_pids(2L), before), 1L)
  expect_false(mirai_daemons(0))
  expect_true(eventually(all(cluster_status(cl)$state == "idle")))
  now <- pids(cl)
  expect_identical(cluster_map_int(cl, 1:8, function(i) i), 1:8)
  expect_identical(pids(cl), now) # nobody was killed
})

test_that("a cluster that grows runs daemons while there are tasks, and shrinks", {
  skip_without_mirai()
  cl <- make_cluster(c(1, 3), idle = 0.5)
  on.exit({
    mirai::daemons(0)
    stop_cluster(cl)
  })
  mirai_daemons(cl, idletime = 5000)
  expect_true(eventually(connections() == 3L))
  expect_true(eventually(sum(cluster_status(cl)$state == "idle") == 1L && connections() == 0L, 20))
})

test_that("daemons are on other hosts, by TLS", {
  skip_without_mirai()
  hosts <- hosts_or_skip(c("alpha", "beta"))
  on.exit(stop_hosts(hosts))
  cl <- make_cluster(hosts(c("alpha", "beta"), 1, ssh = c("ssh", "-F", hosts$config)))
  on.exit({
    mirai::daemons(0)
    stop_cluster(cl)
  }, add = TRUE, after = FALSE)
  mirai_daemons(cl, url = sprintf("tls+tcp://%s:0", hosts$here))
  expect_identical(sort(daemon_pids(2L)), sort(cluster_status(cl)$pid))
})

test_that("a cluster that is of no use is said so", {
  skip_without_mirai()
  cl <- parallel::makeCluster(1)
  on.exit(parallel::stopCluster(cl))
  expect_error(mirai_daemons(cl), "make_cluster", class = "clutch_argument")
  ours <- make_cluster(1)
  stop_cluster(ours)
  expect_error(mirai_daemons(ours), class = "clutch_stopped")
  expect_false(mirai::daemons_set())
})
