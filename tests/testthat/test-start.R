# What can go wrong around a start: profiles that make clusters, the end of the session meanwhile,
# folders that are deleted, signals, arguments that are meant for something else.

outside_checks_only()

# A script whose profile is `profile`, with a limit on processes by way of a watchdog: a bomb ends
# after `most` of them, or after a minute, and does not take the machine down.
start_with_profile <- function(profile, lines, most = 60L) {
  file <- tempfile(fileext = ".Rprofile")
  writeLines(profile, file)
  old <- Sys.getenv("R_PROFILE_USER", NA)
  Sys.setenv(R_PROFILE_USER = file)
  on.exit(if (is.na(old)) Sys.unsetenv("R_PROFILE_USER") else Sys.setenv(R_PROFILE_USER = old))
  script <- tempfile(fileext = ".R")
  out <- tempfile(fileext = ".out")
  pidfile <- tempfile()
  writeLines(c("library(clutch)", lines), script)
  tmp <- tempfile("session-")
  dir.create(tmp)
  command <- sprintf("TMPDIR=%s R_LIBS=%s R_TESTS= %s %s > %s 2>&1 & echo $! > %s", shQuote(tmp),
                     shQuote(paste(.libPaths(), collapse = ":")),
                     shQuote(file.path(R.home("bin"), "Rscript")),
                     shQuote(script), shQuote(out), shQuote(pidfile))
  system(paste("bash -c", shQuote(paste("set -m;", command))))
  stopifnot(eventually(file.exists(pidfile) && length(readLines(pidfile)) == 1L))
  s <- list(pid = as.integer(readLines(pidfile)), out = out, tmp = tmp)
  watchdog <- tempfile(fileext = ".sh")
  writeLines(c(sprintf("mark=TMPDIR=%s", tmp),
    "for i in $(seq 600); do",
    "  pids=$(grep -lsF \"$mark\" /proc/[0-9]*/environ | cut -d/ -f3 | grep -vx $$)",
    "  n=$(echo \"$pids\" | grep -c .)",
    sprintf(
      "  if [ $n -gt %d ] || [ $i = 600 ]; then echo bomb >> %s; for k in 1 2 3 4 5 6 7 8 9 10; do",
      most, shQuote(out)
    ),
    "    kill -9 $(grep -lsF \"$mark\" /proc/[0-9]*/environ | cut -d/ -f3 | grep -vx $$)",
    "  done; exit; fi",
    sprintf("  [ $n -gt 0 ] || [ -e /proc/%d ] || exit 0", s$pid),
    "  sleep 0.1", "done"), watchdog)
  system(paste("bash", shQuote(watchdog), "> /dev/null 2>&1"), wait = FALSE)
  s
}

kill_all <- function(s) {
  for (p in processes_of(s)) tools::pskill(p, 9L)
  ends(s)
}

test_that("a profile that makes a cluster starts nothing in fork servers and nodes", {
  linux_only()
  for (how in c("", ", strategy = \"spawn\"", ", strategy = \"parallel\"",
                ", strategy = \"sequential\"", ", node = \"psock\"")) {
    refused <- tempfile("refused-")
    s <- start_with_profile(c("library(clutch)", "before <- TRUE",
      sprintf("said <- function(e) cat('x', file = '%s', append = TRUE)", refused),
      sprintf("cl <- withCallingHandlers(make_cluster(2%s), clutch_starting = said)", how),
      "parallel::setDefaultCluster(cl)", "profile_went_on <- TRUE"),
      fixture_lines("session-of-profile"))
    expect_done(s)
    printed <- paste(readLines(s$out, warn = FALSE), collapse = "\n")
    expect_false(grepl("bomb", printed), info = how)
    for (what in c("nodes=2", "works=TRUE", "inner=1", "other=1", "error=TRUE")) {
      expect_match(printed, what, fixed = TRUE, info = how)
    }
    expect_gt(file.size(refused), 0) # they have read it, and were refused
    expect_true(ends(s), info = how)
    kill_all(s)
  }
})

test_that("a package that makes a cluster when attached does so in the session only", {
  linux_only()
  s <- start_with_profile(c("options(clutch.prestart = TRUE)", "library(clutch)",
                            "cl <- make_cluster(2)",
    # in the session, this is where the profile ends
    "parallel::clusterExport(cl, 'not.there')", "never <- 1"),
    c("cat('done\\n')"))
  expect_true(said(s, "not.there"))
  expect_true(ends(s))
  expect_false(any(grepl("bomb", readLines(s$out))))
  kill_all(s)
  s <- start_with_profile(c("library(clutch)", "cl <- make_cluster(2)",
                            "stopifnot(length(cl) == 2)", "late <- TRUE"),
    c("cat('nodes=', length(cl), '\\n', sep = '')", "cat('done\\n')"))
  expect_done(s)
  expect_identical(value_of(s, "nodes"), "2")
  expect_true(ends(s))
  kill_all(s)
})

test_that("a node started by hand or by rshcmd is known to be starting by its command line", {
  linux_only()
  expect_false(clutch:::is_starting())
  file <- tempfile(fileext = ".Rprofile")
  writeLines("cat('starting:', clutch:::is_starting(), '\\n')", file)
  profiled <- function(args) {
    system2(file.path(R.home("bin"), "Rscript"), args, stdout = TRUE, stderr = FALSE,
            env = c(paste0("R_PROFILE_USER=", file),
                    paste0("R_LIBS=", paste(.libPaths(), collapse = ":")), "R_TESTS="))
  }
  node <- list(host = "localhost", local = TRUE, same = TRUE, rscript = "Rscript",
               rscript_args = character(), master = "127.0.0.1")
  tcp <- list(methods = TRUE, setup_timeout = 0.1, timeout = 10)
  here <- clutch:::node_command(node, dead_port(), 1L, tcp)
  node$same <- FALSE
  there <- clutch:::node_command(node, dead_port(), 1L, tcp)
  node$outfile <- "/dev/null"
  for (command in list(here, there, clutch:::psock_command(node, dead_port(), 1L, tcp)))
    expect_match(suppressWarnings(profiled(shQuote(command[-1L])))[[1L]], "starting: TRUE")
  expect_match(suppressWarnings(profiled(c("-e", "1")))[[1L]], "starting: FALSE")
})

test_that("a fork server or node whose profile sleeps ends with its session", {
  linux_only()
  needs("follow_parent")
  for (how in c("", ", strategy = \"spawn\"", ", strategy = \"parallel\"", ", node = \"psock\"")) {
    mark <- tempfile("asleep-")
    # the first R that reads it is the session; with "spawn" the node is to sleep, too
    s <-
      start_with_profile(c(sprintf(
        "first <- Sys.getpid() == as.integer(Sys.getenv('CLUTCH_TEST_SESSION', Sys.getpid()))"
      ),
      "Sys.setenv(CLUTCH_TEST_SESSION = Sys.getenv('CLUTCH_TEST_SESSION', Sys.getpid()))",
      sprintf("if (!first) { file.create('%s'); Sys.sleep(600) }", mark)),
      sprintf("cl <- make_cluster(2%s)", how))
    expect_true(eventually(file.exists(mark), 30), info = how)
    tools::pskill(s$pid, 9L)
    expect_true(ends(s), info = how)
    kill_all(s)
  }
})

test_that("a node that is started afresh ends with its fork server, whatever its profile does", {
  linux_only()
  needs("follow_parent")
  mark <- tempfile("asleep-")
  s <- start_with_profile(c("is_node <- any(grepl('clutch/node/node.R', commandArgs()))",
    sprintf("if (is_node) { cat(Sys.getpid(), '\\n', file = '%s'); Sys.sleep(600) }", mark)),
    "cl <- make_cluster(1, 'spawn')")
  expect_true(eventually(file.exists(mark) && length(readLines(mark)) == 1L, 30))
  server <- as.integer(sub(".*PPid:\\s*", "",
                           grep("^PPid",
                                readLines(sprintf("/proc/%s/status", trimws(readLines(mark)))),
                                value = TRUE)))
  tools::pskill(server, 9L)
  expect_true(eventually(!alive(as.integer(readLines(mark)))))
  kill_all(s)
})

test_that("a fork server that dies before it is ready leaves no folder", {
  linux_only()
  own_view_folder() # the usual one may have gone by the end, with what a killed one has left there
  fork_server_stop(all = TRUE)
  before <- list.files(dirname(tempdir()))
  within <- list.files(tempdir())
  profile <- tempfile(fileext = ".Rprofile")
  old <- Sys.getenv("R_PROFILE_USER", NA)
  on.exit(if (is.na(old)) Sys.unsetenv("R_PROFILE_USER") else Sys.setenv(R_PROFILE_USER = old))
  Sys.setenv(R_PROFILE_USER = profile)
  writeLines("tools::pskill(Sys.getpid(), 9L); Sys.sleep(60)", profile)
  expect_error(make_cluster(1), "SIGKILL", class = "clutch_start")
  writeLines("tools::pskill(Sys.getpid(), 25L); Sys.sleep(60)", profile)
  if (Sys.info()[["sysname"]] == "Linux") {
    expect_error(make_cluster(1), "SIGXFSZ", class = "clutch_start")
  }
  writeLines("f <- tempfile(); cat('kept', file = f)", profile)
  cl <- make_cluster(1)
  # what the profile has put there is still there, by the path it knows
  expect_identical(parallel::clusterCall(cl, function() readLines(f, warn = FALSE)), list("kept"))
  # and the folder of the fork server is one as that of any R
  server <- parallel::clusterCall(cl, function() dirname(tempdir()))[[1L]]
  expect_identical(normalizePath(dirname(server)), normalizePath(dirname(tempdir())))
  expect_identical(unlist(parallel::clusterCall(cl, Sys.getenv, "TMPDIR")), Sys.getenv("TMPDIR"))
  stop_cluster(cl)
  fork_server_stop(all = TRUE)
  unlink(profile)
  expect_true(eventually(setequal(list.files(dirname(tempdir())), before)))
  expect_true(eventually(length(setdiff(list.files(tempdir()), within)) == 0L))
})

test_that("a forked node makes its folder when it has something to do, or was idle for some time", {
  linux_only()
  stop_cluster(make_cluster(1))
  cl <- make_cluster(2)
  folder <- parallel::clusterCall(cl[1L], tempdir)[[1L]]
  expect_true(eventually(length(list.files(dirname(folder), "^node[0-9]+$")) == 2L))
  stop_cluster(cl)
  expect_true(eventually(!length(list.files(dirname(folder), "^node[0-9]+$"))))
  # its numbers are its own: nodes that are asked at once, and late
  cl <- make_cluster(4)
  first <- unlist(parallel::clusterCall(cl[1:2], stats::runif, 1))
  Sys.sleep(0.3)
  late <- unlist(parallel::clusterCall(cl, stats::runif, 1))
  expect_identical(anyDuplicated(c(first, late)), 0L)
  stop_cluster(cl)
})

test_that("quit() in a node leaves the folder of its fork server and of other nodes", {
  linux_only()
  cl <- make_cluster(2)
  on.exit(stop_cluster(cl))
  folders <- unlist(parallel::clusterCall(cl, tempdir))
  expect_identical(unlist(parallel::clusterCall(cl, Sys.getenv, "R_SESSION_TMPDIR")), folders)
  expect_error(parallel::clusterCall(cl[1L], quit, "no"), class = "clutch_node_died")
  expect_true(eventually(!dir.exists(folders[[1L]])))
  expect_true(dir.exists(folders[[2L]]))
  expect_identical(dirname(folders[[1L]]), dirname(folders[[2L]]))
})

test_that("where many nodes follow, forks are made cheaper before the first of them", {
  linux_only()
  needs("memfd")
  outside_checks_only()
  is_moved <- function(cl) {
    any(grepl("/memfd:clutch-memory", readLines(sprintf("/proc/%d/maps", server_pid(cl)))))
  }
  fork_server_stop()
  cl <- make_cluster(2)
  expect_false(is_moved(cl))
  many <- make_cluster(12)
  expect_true(is_moved(cl))
  stop_cluster(many)
  stop_cluster(cl)
})

test_that("an empty folder is kept for another node, and nothing that was in one", {
  linux_only()
  tempdirs <- function(cl) unlist(parallel::clusterCall(cl, tempdir))
  cl <- make_cluster(2)
  first <- tempdirs(cl)
  parallel::clusterCall(cl[1L], function() file.create(tempfile()))
  parallel::clusterCall(cl[2L], function() Sys.chmod(tempdir(), "500"))
  stop_cluster(cl)
  cl <- make_cluster(2)
  again <- tempdirs(cl)
  expect_identical(again %in% first, c(TRUE, FALSE))
  expect_true(first[[2L]] %in% again)
  state <- parallel::clusterCall(cl, function() {
    list(list.files(tempdir(), all.files = TRUE, no.. = TRUE), format(file.mode(tempdir())),
         file.create(tempfile()))
  })
  expect_identical(state, rep(list(list(character(), "700", TRUE)), 2L))
  stop_cluster(cl)
  # one that a node has not taken is there for the next
  for (i in 1:2) stop_cluster(make_cluster(2))
  folder <- dirname(first[[1L]])
  expect_true(eventually(length(list.files(folder, "^node[0-9]+$")) == 0L))
  fork_server_stop(all = TRUE)
  expect_true(eventually(!dir.exists(folder)))
})

test_that("where a node cannot make its folder, what it is asked for fails with the reason", {
  linux_only()
  cl <- make_cluster(1)
  folder <- parallel::clusterCall(cl, tempdir)[[1L]]
  stop_cluster(cl)
  number <- as.integer(sub("^node", "", basename(folder)))
  # the next nodes have the names that are free, then new ones
  in_the_way <- file.path(dirname(folder), paste0("node", 1:(number + 2L)))
  file.create(in_the_way)
  cl <- make_cluster(2)
  why <- "temporary folder .* cannot be made"
  expect_error(parallel::clusterCall(cl, identity, 1), why)
  expect_error(cluster_map(cl, 1:4, function(i) i), why)
  Sys.sleep(0.3) # they have tried again
  expect_error(cluster_map(cl, 1:4, function(i) i), why)
  pids <- cluster_status(cl)$pid
  unlink(in_the_way)
  expect_identical(cluster_map(cl, 1:4, function(i) i), as.list(1:4))
  expect_identical(parallel::clusterCall(cl, identity, 1), list(1, 1))
  expect_identical(cluster_status(cl)$pid, pids)
  stop_cluster(cl)
})

test_that("executed nodes have packages and profile, whatever their fork server goes without", {
  linux_only()
  profile <- tempfile(fileext = ".Rprofile")
  old <- Sys.getenv("R_PROFILE_USER", NA)
  on.exit({
    if (is.na(old)) Sys.unsetenv("R_PROFILE_USER") else Sys.setenv(R_PROFILE_USER = old)
    unlink(profile)
  })
  writeLines("options(clutch.test_profile = 'read')", profile)
  Sys.setenv(R_PROFILE_USER = profile)
  for (arguments in list(character(), "--no-site-file")) { # the latter by R's front end
    cl <- make_cluster(1, "spawn", rscript_args = arguments)
    here <- function() list(search()[-1L], getOption("clutch.test_profile"))
    found <- parallel::clusterCall(cl, here)[[1L]]
    packages <- c("stats", "graphics", "grDevices", "utils", "datasets", "methods")
    expect_identical(found[[1L]], c(paste0("package:", packages), "Autoloads", "package:base"))
    expect_identical(found[[2L]], "read")
    stop_cluster(cl)
  }
  fork_server_stop()
})

test_that("a fork server loads no package that its nodes were not asked to have", {
  fork_server_stop(all = TRUE)
  lines <- c("options(clutch.joins = TRUE)", "invisible(loadNamespace('clutch'))",
             "cat(loadedNamespaces())")
  script <- tempfile(fileext = ".R")
  on.exit(unlink(script))
  writeLines(lines, script)
  rscript <- file.path(R.home("bin"), "Rscript")
  alone <- strsplit(system2(rscript, script, stdout = TRUE), " ")[[1L]]
  cl <- make_cluster(1)
  loaded <- parallel::clusterCall(cl, loadedNamespaces)[[1L]]
  expect_identical(setdiff(loaded, alone), character())
  stop_cluster(cl)
})

test_that("every signal of the system has its name", {
  linux_only()
  how <- function(code) clutch:::how_ended(TRUE, code)
  expect_identical(how(9L), "killed by signal 9 (SIGKILL)")
  known <- system("bash -c 'for i in $(seq 64); do echo $(kill -l $i); done'", intern = TRUE)
  for (i in seq_along(known)) {
    if (!grepl("^[A-Z0-9]+$", known[[i]]) || startsWith(known[[i]], "RTM")) next
    expect_match(how(i), sprintf("(SIG%s", known[[i]]), fixed = TRUE)
  }
  expect_identical(how(1000L), "killed by signal 1000")
})

test_that("an interrupt that a fork server was sent is not seen by its nodes", {
  linux_only()
  cl <- make_cluster(1)
  server <- server_pid(cl)
  for (k in 1:20) {
    for (i in 1:3) tools::pskill(server, 2L)
    other <- make_cluster(1)
    expect_identical(server_pid(other), server)
    tools::pskill(server, 2L)
    expect_identical(cluster_map(other, 1:3, function(i) i), list(1L, 2L, 3L))
    expect_identical(parallel::clusterCall(other, function(x) x, k), list(k))
    # its own are seen: by what is called, after `system()`, and by what it starts
    stop_cluster(other)
  }
  tools::pskill(server, 2L)
  expect_true(works(cl))
  expect_error(parallel::clusterCall(cl, function() {
    tools::pskill(Sys.getpid(), 2L)
    Sys.sleep(20)
  }), "interrupted")
  expect_true(works(cl))
  stop_cluster(cl)
})

test_that("a cluster starts where the working directory was deleted, and nodes are there, too", {
  linux_only()
  s <- start_script(fixture = "no-working-directory")
  expect_done(s)
  expect_identical(sum(readLines(s$out, warn = FALSE) == "wd=TRUE"), 5L)
  expect_true(ends(s))
})

test_that("a cluster starts when the temporary folder of session or fork server was deleted", {
  linux_only()
  s <- start_script(fixture = "no-temporary-folder")
  expect_done(s)
  expect_true(ends(s))
  expect_identical(left_in(s), character())
})

test_that("arguments that mean something else are told what they should be", {
  expect_error(make_cluster("4"), "make_cluster(4)", fixed = TRUE, class = "clutch_argument")
  expect_error(make_cluster(list("a", "2")), "no name of a host", class = "clutch_argument")
  for (name in c("workers", "nnodes", "cores", "names"))
    expect_error(do.call(make_cluster, structure(list(2), names = name)), "`spec`", fixed = TRUE,
                 class = "clutch_argument")
  expect_message(cl <- make_cluster(1, type = "FORK"), "see nothing")
  stop_cluster(cl)
  expect_no_message(stop_cluster(make_cluster(1, type = "PSOCK")))
})

test_that("options are checked where they are read", {
  one <- function(value, ...) {
    old <- options(clutch.test = value)
    on.exit(options(old))
    clutch:::option_number("clutch.test", 5, ...)
  }
  expect_identical(one(NULL), 5)
  expect_identical(one(3L), 3)
  expect_identical(one(0), 0)
  expect_identical(one(Inf), Inf)
  for (bad in list("1GB", NA, NA_real_, -1, 1:2, numeric(), list(1), TRUE))
    expect_error(one(bad), "option 'clutch.test'", fixed = TRUE, class = "clutch_argument")
  expect_error(one(0, above = TRUE), "above 0", class = "clutch_argument")
  expect_error(one(1, least = 2), "2 or more", class = "clutch_argument")
  fork_server_stop(all = TRUE)
  for (bad in list("soon", 0, NA, c(1, 2))) {
    old <- options(clutch.idle_limit = bad)
    expect_error(make_cluster(1), "clutch.idle_limit", class = "clutch_argument")
    options(old)
  }
  linux_only()
  cl <- make_cluster(1)
  on.exit(stop_cluster(cl))
  old <- options(clutch.cancel_grace = "soon")
  later(0.5, "kill -INT %d", Sys.getpid())
  tryCatch(parallel::clusterCall(cl,
                                 function() {
                                   for (i in 1:300) tryCatch(Sys.sleep(0.1), interrupt = identity)
                                 }),
           interrupt = identity) # deaf, so that the next call has to wait
  expect_error(parallel::clusterCall(cl, identity, 1), "clutch.cancel_grace",
               class = "clutch_argument")
  options(old)
})

test_that("what the handle of a process's first node keeps outlives a collection", {
  s <- start_script(fixture = "first-node-while-collecting")
  expect_done(s, 120)
  expect_match(readLines(s$out, warn = FALSE), "same=TRUE", fixed = TRUE, all = FALSE)
  expect_true(ends(s))
  unlink(c(s$out, s$tmp), recursive = TRUE)
})

# A package with f(), which says where it is, in a library of its own: its library.
library_with <- function(package) {
  src <- tempfile("src")
  lib <- tempfile("lib")
  dir.create(file.path(src, package, "R"), recursive = TRUE)
  dir.create(lib)
  writeLines(c(paste("Package:", package), "Version: 1.0", "Title: Says Where", "License: GPL-3"),
             file.path(src, package, "DESCRIPTION"))
  writeLines("export(f)", file.path(src, package, "NAMESPACE"))
  writeLines("f <- function() dirname(getNamespaceInfo(topenv(), \"path\"))",
             file.path(src, package, "R", "all.R"))
  built <- system2(file.path(R.home("bin"), "R"),
                   c("CMD", "INSTALL", "--no-docs", "--no-test-load", "--no-byte-compile", "-l",
                     lib, file.path(src, package)), stdout = FALSE, stderr = FALSE)
  unlink(src, recursive = TRUE)
  stopifnot(built == 0L)
  normalizePath(lib)
}

test_that("nodes find packages where .libPaths() says, also those of an older server", {
  skip_on_os("windows")
  old <- .libPaths()
  before <- make_cluster(1) # its fork server stays
  on.exit(stop_cluster(before))
  lib <- library_with("clutchlib")
  on.exit({
    .libPaths(old)
    unlink(lib, recursive = TRUE)
  }, add = TRUE, after = FALSE)
  .libPaths(c(lib, old))
  where <- function(...) {
    cl <- make_cluster(1, ...)
    on.exit(stop_cluster(cl))
    list(paths = parallel::clusterCall(cl, function() .libPaths())[[1L]],
         found = cluster_map_chr(cl, 1L, function(i) {
           name <- "clutchlib" # not one of our dependencies, R CMD check would say
           library(name, character.only = TRUE)
           getExportedValue(name, "f")()
         }, .packages = "clutchlib"))
  }
  libs <- Sys.getenv("R_LIBS", NA)
  for (strategy in c("fork_server", "spawn", "parallel")) {
    expect_identical(where(strategy = strategy), list(paths = .libPaths(), found = lib))
  }
  expect_identical(where(packages = "clutchlib"), list(paths = .libPaths(), found = lib))
  # what is executed does not inherit it: the session's own Rscript would not, either
  cl <- make_cluster(1, strategy = "spawn")
  on.exit(stop_cluster(cl), add = TRUE, after = FALSE)
  expect_identical(parallel::clusterCall(cl, Sys.getenv, "R_LIBS", NA)[[1L]], libs)
  # another one of the same server, and what variables say goes first
  .libPaths(old)
  cl2 <- make_cluster(1)
  on.exit(stop_cluster(cl2), add = TRUE, after = FALSE)
  expect_identical(parallel::clusterCall(cl2, function() .libPaths())[[1L]], old)
  given <- paste(c(lib, old), collapse = .Platform$path.sep)
  cl3 <- make_cluster(1, env = c(R_LIBS = given))
  on.exit(stop_cluster(cl3), add = TRUE, after = FALSE)
  expect_identical(parallel::clusterCall(cl3, function() .libPaths())[[1L]][[1L]], lib)
})

test_that("cl = NULL follows .libPaths()", {
  skip_on_os("windows")
  old <- .libPaths()
  mc <- options(mc.cores = 1L)
  end_own_cluster()
  lib <- library_with("clutchlib")
  on.exit({
    options(mc)
    end_own_cluster()
    .libPaths(old)
    unlink(lib, recursive = TRUE)
  })
  paths <- function() cluster_map(NULL, 1L, function(i) .libPaths())[[1L]]
  expect_identical(paths(), old)
  .libPaths(c(lib, old))
  expect_identical(paths(), .libPaths())
  expect_identical(cluster_map_chr(NULL, 1L, function(i) {
    getExportedValue("clutchlib", "f")()
  }), lib)
})
