# What a launcher would run, without running it: commands, variables, settings.

# Paths, the library and the environment of this machine are replaced.
scrub_start <- function(lines) {
  lines <- gsub("'[^' ]*/(Rscript|join\\.R|fork-server\\.R)'", "'<path>/\\1'", lines)
  lines <- gsub("'(LIB=)?/[^' ]*lib[^' ]*'", "'\\1<library>'", lines)
  lines <- sub("^  in /.*", "  in <folder>", lines)
  lines <- gsub("PWD='[^']*' ", "", lines) # where the environment has another one
  gsub("(R_DATATABLE_NUM_THREADS|CLUTCH_NODE_CORES)='[0-9]+'", "\\1='<share>'", lines)
}

# Without what the user's environment says of threads, and with a fixed temporary folder.
local_plain_environment <- function(env = parent.frame()) {
  names <- c(clutch:::thread_variables, "R_DATATABLE_NUM_THREADS", "GLIBC_TUNABLES", "R_NSIZE",
             "TMPDIR", "CLUTCH_NODE_CORES")
  old <- Sys.getenv(names, NA)
  Sys.unsetenv(names)
  back <- function() {
    set <- old[!is.na(old)]
    Sys.unsetenv(names)
    if (length(set)) do.call(Sys.setenv, as.list(set))
  }
  do.call(on.exit, list(as.call(list(back)), add = TRUE), envir = env)
}

show_start <- function(...) writeLines(clutch:::show_start(...))

test_that("what a fork server and its nodes would be started with", {
  local_plain_environment()
  gc() # what earlier tests have left
  handles <- .Call(clutch:::ffi_live_handles)
  expect_snapshot(show_start(2, packages = "stats4", env = c(A = "1 2"), outfile = "out.txt",
                             renice = 5), transform = scrub_start)
  expect_snapshot(show_start(3, "spawn", packages = "stats4", methods = FALSE),
                  transform = scrub_start)
  expect_identical(.Call(clutch:::ffi_live_handles), handles) # nothing was started
})

test_that("what nodes over TCP would be started with, here and elsewhere", {
  local_plain_environment()
  hosts <- list("localhost", list(host = "far", user = "me", rshcmd = "ssh -q"))
  expect_snapshot(show_start(hosts, env = c(B = "x"), master = "here"), transform = scrub_start)
  expect_snapshot(show_start(1, manual = TRUE, port = 11000), transform = scrub_start)
})

test_that("what base R's workers would be started with", {
  local_plain_environment()
  expect_snapshot(show_start(c("localhost", "far"), node = "psock", timeout = 60,
                             homogeneous = FALSE, master = "here"), transform = scrub_start)
})

test_that("a dry run checks what a start checks", {
  expect_error(show_start("far", "spawn"), "starts nodes on this machine only",
               class = "clutch_argument")
  expect_error(show_start(0), class = "clutch_argument")
})

test_that("what makes a start quick is gone from the environment when the nodes are there", {
  linux_only()
  names <- c("GLIBC_TUNABLES", "R_NSIZE")
  seen <- function(cl) {
    values <- parallel::clusterCall(cl, function(v) Sys.getenv(v, NA), names)
    others <- parallel::clusterCall(cl, function() grep("CLUTCH_WAS", names(Sys.getenv())))
    expect_identical(unlist(others), integer())
    stop_cluster(cl)
    unique(values)
  }
  own <- c(GLIBC_TUNABLES = "glibc.malloc.tcache_count=0", R_NSIZE = "400000")
  for (how in c("fork_server", "spawn", "parallel")) {
    expect_identical(seen(make_cluster(2, how, env = own)), list(own), info = how)
    expect_identical(seen(make_cluster(2, how)), list(Sys.getenv(names, NA)), info = how)
  }
})

test_that("a cluster's variables are its own, and not those of the next one of its fork server", {
  variable <- function(cl) cluster_map_chr(cl, 1L, function(i) Sys.getenv("CLUTCH_TEST_X", "none"))
  expect_nodes <- function(value, ...) {
    cl <- make_cluster(1, ...)
    on.exit(stop_cluster(cl))
    expect_identical(variable(cl), value)
  }
  expect_nodes("none")
  expect_nodes("1", env = c(CLUTCH_TEST_X = "1"))
  expect_nodes("none")
  Sys.setenv(CLUTCH_TEST_X = "2")
  on.exit(Sys.unsetenv("CLUTCH_TEST_X"))
  expect_nodes("2")
  expect_nodes("1", env = c(CLUTCH_TEST_X = "1"))
  Sys.unsetenv("CLUTCH_TEST_X")
  expect_nodes("none")
})
