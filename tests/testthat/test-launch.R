# What a launcher would run, without running it: commands, variables, settings.

# Paths, the library and the environment of this machine are replaced.
scrub_start <- function(lines) {
  lines <- gsub("'[^' ]*/(Rscript|join\\.R|fork-server\\.R)'", "'<path>/\\1'", lines)
  lines <- gsub("'(LIB=)?/[^' ]*lib[^' ]*'", "'\\1<library>'", lines)
  lines <- sub("^  in /.*", "  in <folder>", lines)
  lines <- gsub("PWD='[^']*' ", "", lines) # where the environment has another one
  gsub("(R_DATATABLE_NUM_THREADS|CLUTCH_NODE_CORES|CLUTCH_BUDGET)='[0-9]+'", "\\1='<share>'", lines)
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

show_start <- function(...) print(launch_plan(...))

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
                             homogeneous = FALSE, master = "here", tls = FALSE),
                  transform = scrub_start)
})

test_that("a dry run checks what a start checks", {
  expect_error(show_start(c("localhost", "far"), "spawn"), "starts nodes on this machine only",
               class = "clutch_argument")
  expect_error(show_start(0), class = "clutch_argument")
  bad <- list(renice = list("x", 1:2, 0.5), rscript = list(5, "", c("a", "b")),
              rshcmd = list(5, "", " "), user = list("-l", 5), master = list(5, c("a", "b")),
              outfile = list(5))
  for (name in names(bad)) for (value in bad[[name]]) {
    option <- stats::setNames(list(value), name)
    expect_error(do.call(launch_plan, c(list("far", "parallel"), option)), sprintf("`%s`", name),
                 class = "clutch_argument")
    of_node <- list(list("localhost", c(list(host = "far"), option)), "parallel")
    expect_error(do.call(launch_plan, of_node), sprintf("`%s` of a node", name),
                 class = "clutch_argument")
  }
  expect_s3_class(launch_plan(1, renice = NA), "clutch_launch_plan")
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

test_that("all Rs of ours start with room for as many objects as any R has after its start", {
  wanted <- c(A = "1", R_NSIZE = "650000")
  expect_identical(clutch:::quick_start(c(A = "1")), wanted)
  expect_identical(clutch:::quick_start_node(c(A = "1"), NULL)[names(wanted)], wanted)
  expect_identical(clutch:::server_cells(1e6), 780000) # of packages
  expect_lt(clutch:::server_cells(0), 650000) # it collects once, and then has as many
  own <- c(R_NSIZE = "1000000", GLIBC_TUNABLES = "glibc.malloc.tcache_count=0")
  expect_identical(clutch:::quick_start(own), own)
})

test_that("nodes have room for as many objects as any R after its start", {
  linux_only()
  cl <- make_cluster(1)
  on.exit(stop_cluster(cl))
  room <- parallel::clusterCall(cl, function() gc(full = FALSE)[["Ncells", "gc trigger"]])[[1L]]
  expect_gt(room, 5e5) # a fork server is started with room for 4e5
  expect_lt(room, 9e5)
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

test_that("an R without its front end has the arguments and variables that it has with it", {
  linux_only()
  script <- tempfile(fileext = ".R")
  on.exit(unlink(script))
  writeLines(c("print(commandArgs())",
               "writeLines(paste0(names(Sys.getenv()), '=', Sys.getenv()))"), script)
  command <- c(file.path(R.home("bin"), "Rscript"), "--default-packages=utils,methods", script,
               "a b", "-e", "--x=1")
  env <- clutch:::effective_env(c(A_VARIABLE = "1 2"))
  env <- env[!startsWith(names(env), "_R_CHECK")]
  run <- function(how) {
    variables <- paste0(names(how$env), "=", shQuote(how$env))
    lines <- system2("env", c("-i", variables, shQuote(how$argv)), stdout = TRUE)
    # what a shell sets, R's own folder, and paths that the front end puts there once more
    grep("^(_|SHLVL|OLDPWD|PWD|SED|R_SESSION_TMPDIR|LD_LIBRARY_PATH|R_ARCH) *[ :=]", lines,
         invert = TRUE, value = TRUE)
  }
  quick <- clutch:::without_front_end(command, env)
  skip_if(identical(quick$argv, command), "this R has not come through its front end")
  expect_match(quick$argv[[1L]], "exec/R$")
  expect_identical(run(quick), run(list(argv = command, env = env)))
})

test_that("the front end is left out only where it would change nothing", {
  env <- c(R_HOME = R.home(), R_SHARE_DIR = R.home("share"), R_INCLUDE_DIR = R.home("include"),
           R_DOC_DIR = R.home("doc"), LD_LIBRARY_PATH = file.path(R.home(), "lib"))
  command <- c(file.path(R.home("bin"), "Rscript"), "--default-packages=stats", "x.R", "1")
  same <- function(command, env) {
    identical(clutch:::without_front_end(command, env), list(argv = command, env = env))
  }
  linux_only()
  expect_false(same(command, env))
  expect_false(same(command, c(env[-5L], LD_LIBRARY_PATH = paste0(R.home(), "/lib:/more"))))
  expect_true(same(c("/elsewhere/Rscript", command[-1L]), env))
  expect_true(same(append(command, "--vanilla", 2L), env))
  expect_true(same(command[-2L], env))
  for (name in names(env)[1:4]) {
    changed <- env
    changed[[name]] <- "/other"
    expect_true(same(command, changed), info = name)
    expect_true(same(command, env[names(env) != name]), info = name)
  }
  expect_true(same(command, c(env, R_ARCH = "/other")))
  if (file.exists(file.path(R.home(), "lib", "libR.so"))) {
    expect_true(same(command, env[-5L]))
    expect_true(same(command, c(env[-5L], LD_LIBRARY_PATH = paste0("/mine:", R.home(), "/lib"))))
  }
})
