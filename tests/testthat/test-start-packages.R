# Nodes that are a new R attach R's own packages after they have answered, a fork server before it
# is ready. From the first request on all is as if R had attached them at its start, whatever
# profiles and files of variables say.

outside_checks_only()

new_r <- c("spawn", "parallel")
all_strategies <- c("fork_server", new_r)

# What R is like for code that runs in it. `clutch` is what it is loaded with here.
state_here <- function() {
  options <- options()
  ours <- c("clutch.share_from", "rl_word_breaks", "R_TEST")
  env <- Sys.getenv()
  # R itself makes the second longer with each R within another
  not_here <- c("R_SESSION_TMPDIR", "R_LIBS_SITE", "R_TESTS", "R_DATATABLE_NUM_THREADS")
  list(
    search = search(),
    packages = getOption("defaultPackages"),
    options = options[setdiff(names(options), ours)],
    env = env[setdiff(grep("^(R_|CLUTCH_[PW])", names(env), value = TRUE), not_here)],
    namespaces = sort(setdiff(loadedNamespaces(), c("clutch", "compiler", "tools"))),
    workspace = ls(globalenv(), all.names = TRUE),
    jit = compiler::enableJIT(-1L),
    autoloads = sort(ls(.AutoloadEnv, all.names = TRUE)),
    seen = if (file.exists("seen")) readLines("seen")
  )
}
environment(state_here) <- globalenv()

# An R that does not serve, as base R's makePSOCKcluster() starts it.
state_of_r <- function() {
  file <- tempfile(fileext = ".R")
  result <- tempfile(fileext = ".rds")
  on.exit(unlink(c(file, result)))
  text <- paste(deparse(state_here), collapse = "\n")
  writeLines(sprintf("saveRDS((%s)(), '%s')", text, result), file)
  rscript <- file.path(R.home("bin"), "Rscript")
  packages <- "--default-packages=datasets,utils,grDevices,graphics,stats,methods"
  system2(rscript, c(packages, file), stdout = FALSE, stderr = FALSE)
  readRDS(result)
}

state_of_node <- function(strategy, ...) {
  cl <- make_cluster(1, strategy, ...)
  on.exit(stop_cluster(cl))
  # the workspace has a seed, as in any node
  state <- parallel::clusterCall(cl, state_here)[[1L]]
  state$workspace <- setdiff(state$workspace, ".Random.seed")
  state
}

# Evaluates `code` in a folder of its own, with these files in it, and with these variables.
with_files <- function(files, env, code) {
  folder <- tempfile("files-")
  dir.create(folder)
  for (name in names(files)) writeLines(files[[name]], file.path(folder, name))
  old <- setwd(folder)
  # that of `make check` or of the user is no part of this
  env <- c(HOME = folder, R_PROFILE_USER = NA, R_ENVIRON_USER = NA, R_TESTS = "", env)
  before <- Sys.getenv(names(env), NA, names = TRUE)
  set <- function(env) {
    Sys.unsetenv(names(env)[is.na(env)])
    env <- env[!is.na(env)]
    if (length(env)) do.call(Sys.setenv, as.list(env))
  }
  on.exit({
    set(before)
    setwd(old)
    unlink(folder, recursive = TRUE)
    fork_server_stop()
  })
  set(env)
  force(code)
}

# All strategies are as an R started in the same way.
expect_same_state <- function(files = list(), env = character(), ...) {
  with_files(files, env, {
    r <- state_of_r()
    for (strategy in all_strategies) {
      unlink("seen")
      node <- state_of_node(strategy, ...)
      # R 4.6 loads that package for code of ours; nothing finds it so
      if (!"package:methods" %in% r$search) node$namespaces <- setdiff(node$namespaces, "methods")
      for (what in names(r)) {
        testthat::expect_identical(node[[what]], r[[what]], info = paste(strategy, what))
      }
    }
    r
  })
}

see <- paste("cat(getOption('defaultPackages'), Sys.getenv(c('R_DEFAULT_PACKAGES', 'R_PROFILE')),",
             "search(), isNamespaceLoaded('stats'), '\\n', file = 'seen', append = TRUE)")

test_that("nodes are as any R from the first request on", {
  r <- expect_same_state()
  expect_true("package:stats" %in% r$search)
})

test_that("a user's profile finds what R has at that time, and what it does counts", {
  expect_same_state(list(.Rprofile = see))
  doing <- c(see, "library(stats4)", "options(digits = 5)", "x <- 1")
  r <- expect_same_state(list(.Rprofile = doing))
  expect_identical(r$workspace, "x")
  # these are attached in another order, or not at all
  r <- expect_same_state(list(.Rprofile = c(
    "options(defaultPackages = c(getOption('defaultPackages'), 'splines'))"
  )))
  expect_identical(r$search[[2L]], "package:splines")
  r <- expect_same_state(list(.Rprofile = "options(defaultPackages = 'methods')"))
  expect_false("package:stats" %in% r$search)
  expect_same_state(list(.Rprofile = "options(defaultPackages = NULL)"))
  expect_same_state(list(.Rprofile = "Sys.setenv(R_PROFILE = 'a', R_DEFAULT_PACKAGES = 'stats')"))
})

test_that("hooks and a .First of the user's run as R starts, before the node has answered", {
  hook <- sprintf("setHook(packageEvent('graphics', 'onLoad'), function(...) %s)", see)
  expect_false(is.null(expect_same_state(list(.Rprofile = hook))$seen))
  first <- sprintf(".First <- function() %s", see)
  expect_false(is.null(expect_same_state(list(.Rprofile = first))$seen))
  wrapped <- c("if (exists('.First')) before <- .First", ".First <- function() invisible(2)")
  with_files(list(.Rprofile = wrapped), character(), for (strategy in new_r) {
    state <- state_of_node(strategy)
    expect_true("package:stats" %in% state$search)
    expect_length(state$autoloads, 1L)
  })
})

test_that("profiles of the site", {
  simple <- "local({ r <- getOption('repos'); r['CRAN'] <- 'https://a.b'; options(repos = r) })"
  site <- function(lines, ...) {
    file <- tempfile(fileext = ".site")
    on.exit(unlink(file))
    writeLines(lines, file)
    expect_same_state(env = c(R_PROFILE = file), ...)
  }
  expect_identical(site(simple)$options$repos, c(CRAN = "https://a.b"))
  site(c(simple, "library(stats4)", see))
  site("options(defaultPackages = c('stats4', getOption('defaultPackages')))")
  site(simple, list(.Rprofile = see))
  expect_same_state(env = c(R_PROFILE = ""))
  expect_same_state(env = c(R_PROFILE = tempfile()))
})

test_that("files of variables", {
  expect_same_state(list(.Renviron = "R_DEFAULT_PACKAGES=stats"))
  with_site <- list(.Renviron = "R_PROFILE=./site.R", site.R = "options(digits = 3)")
  expect_identical(expect_same_state(with_site)$options$digits, 3L)
  expect_same_state(list(.Renviron = "R_PROFILE_USER=mine.R", mine.R = c("y <- 2", see)))
})

test_that("without package methods, with other packages, and with arguments for R", {
  without <- "datasets,utils,grDevices,graphics,stats"
  for (strategy in new_r) {
    cl <- make_cluster(1, strategy, methods = FALSE)
    expect_identical(parallel::clusterCall(cl, search)[[1L]][2:3],
                     c("package:stats", "package:graphics"))
    expect_identical(parallel::clusterEvalQ(cl, getOption("defaultPackages"))[[1L]],
                     strsplit(without, ",")[[1L]])
    stop_cluster(cl)
    cl <- make_cluster(1, strategy, packages = "splines")
    expect_identical(parallel::clusterCall(cl, search)[[1L]][2:3],
                     c("package:splines", "package:stats"))
    stop_cluster(cl)
    cl <- make_cluster(1, strategy, rscript_args = "--no-site-file")
    expect_identical(parallel::clusterCall(cl, search)[[1L]][[2L]], "package:stats")
    stop_cluster(cl)
  }
})

# ---- what is late, and what is not ----

# What an R is like when a node's first code runs in it.
start_of_node <- function() {
  script <- tempfile(fileext = ".R")
  on.exit(unlink(script))
  writeLines(c("cat(search(), '\\n')", "cat(getOption('clutch.later'), '\\n')"), script)
  rscript <- file.path(R.home("bin"), "Rscript")
  packages <- "--default-packages=datasets,utils,grDevices,graphics,stats,methods"
  quick <- clutch:::without_front_end(c(rscript, packages, script), clutch:::effective_env(NULL),
                                      is_node = TRUE)
  skip_if_not("--no-echo" %in% quick$argv, "this R has to be started by its front end")
  gone <- setdiff(names(Sys.getenv()), names(quick$env))
  set <- shQuote(paste0(names(quick$env), "=", quick$env))
  settings <- c(if (length(gone)) paste("-u", gone), set)
  lines <- system2("env", c(settings, shQuote(quick$argv)), stdout = TRUE, stderr = FALSE)
  words <- lapply(strsplit(lines, " "), setdiff, "")
  list(search = words[[1L]], later = words[[2L]])
}

test_that("R has no packages then; package methods if there is a user's profile", {
  bare <- c(".GlobalEnv", "Autoloads", "package:base")
  all <- c("datasets", "utils", "grDevices", "graphics", "stats", "methods")
  site <- c(R_PROFILE = "")
  with_files(list(), site, {
    start <- start_of_node()
    expect_identical(start$search, bare)
    expect_identical(start$later, all)
  })
  with_files(list(.Rprofile = "x <- 1"), site, {
    start <- start_of_node()
    expect_identical(start$search, append(bare, "package:methods", 1L))
    expect_identical(start$later, all)
  })
  for (profile in c("options(defaultPackages = 'stats')", ".First <- function() 1",
                    "setHook(packageEvent('stats', 'attach'), function(...) 1)")) {
    with_files(list(.Rprofile = profile), site, {
      start <- start_of_node()
      expect_true("package:stats" %in% start$search)
      expect_length(start$later, 0L)
    })
  }
})

test_that("R that was started otherwise, with these variables, attaches its packages", {
  with_files(list(), character(), {
    Sys.setenv(CLUTCH_PACKAGES = "datasets,methods",
               R_PROFILE = system.file("node", "profile.R", package = "clutch"))
    on.exit(Sys.unsetenv(c("CLUTCH_PACKAGES", "R_PROFILE")))
    code <- "cat(search()[2:3], nchar(Sys.getenv(c('CLUTCH_PACKAGES', 'R_PROFILE'))))"
    out <- system2(file.path(R.home("bin"), "Rscript"),
                   c("--default-packages=stats,utils", "-e", shQuote(code)), stdout = TRUE)
    expect_identical(out, "package:utils package:stats 0 0")
  })
})

test_that("which code of a site needs no packages", {
  simple <- function(...) {
    file <- tempfile(fileext = ".R")
    on.exit(unlink(file))
    writeLines(c(...), file)
    clutch:::is_simple_profile(file)
  }
  expect_true(simple("# options(defaultPackages = 1)"))
  expect_true(simple("options(repos = c(CRAN = 'a'), digits = 5)", ".libPaths('b')"))
  expect_true(clutch:::is_simple_profile(tempfile()))
  expect_false(simple("options(defaultPackages = 'stats')"))
  expect_false(simple("library(stats)"))
  expect_false(simple("(function() 1)()"))
  expect_false(simple("stats::sd(1:2)"))
  expect_false(simple("options(", "digits = 5"))
})

test_that("the table of S4 classes is read where code needs it", {
  # since R 4.5 package methods is loaded before a package that imports it, and then R reads it
  expect_no_match(utils::packageDescription("clutch")$Imports, "methods")
  objects_read <- function() {
    before <- gc()[1L, 1L]
    x <- methods::new("numeric")
    gc()[1L, 1L] - before
  }
  environment(objects_read) <- globalenv()
  with_files(list(), character(), for (strategy in all_strategies) {
    cl <- make_cluster(1, strategy)
    expect_gt(parallel::clusterCall(cl, objects_read)[[1L]], 5e4)
    stop_cluster(cl)
  })
})

test_that("a node's first collection leaves alone what was there before the fork", {
  printed <- tempfile()
  on.exit(unlink(printed))
  with_files(list(), c(R_PROFILE = ""), {
    cl <- make_cluster(1, outfile = printed)
    parallel::clusterEvalQ(cl, {
      gcinfo(TRUE)
      x <- lapply(1:1e5, function(i) c(i, 1))
      gcinfo(FALSE)
    })
    stop_cluster(cl)
  })
  collections <- grep("^Garbage collection", readLines(printed), value = TRUE)
  expect_match(collections[[1L]], "level 0")
})

test_that("packages are looked at by R's own function where an option asks for it", {
  strict <- "options(conflicts.policy = 'strict')"
  expect_same_state(list(.Rprofile = strict))
  expect_same_state(list(.Rprofile = "options(verbose = TRUE)"))
})

# ---- while they are attached ----

# Package utils runs the program `uname` when it is loaded. Here that is a script, which waits the
# first time: until there is the file "go on", or for `seconds`. The file "asked" tells of it.
with_slow_start <- function(seconds, then) {
  linux_only()
  uname <- Sys.which("uname")
  script <- c("#!/bin/sh", sprintf("cd '%s'", "FOLDER"),
              "if [ ! -e asked ]; then", "  touch asked", "  for i in $(seq SECONDS); do",
              "    [ -e 'go on' ] || sleep 0.1", "  done", "fi", sprintf("exec %s \"$@\"", uname))
  with_files(list(), character(), {
    script <- sub("SECONDS", 10 * seconds, sub("FOLDER", getwd(), script))
    writeLines(script, "uname")
    Sys.chmod("uname", "755")
    path <- Sys.getenv("PATH")
    on.exit(Sys.setenv(PATH = path))
    Sys.setenv(PATH = paste0(getwd(), ":", path))
    then()
  })
}

test_that("a node that dies while it attaches them is an error that names it, or is replaced", {
  for (strategy in new_r) with_slow_start(20, function() {
    cl <- make_cluster(1, strategy)
    on.exit(stop_cluster(cl))
    skip_if_not(eventually(file.exists("asked")), "this R does not ask for uname")
    tools::pskill(pids(cl), 9L)
    expect_error(parallel::clusterCall(cl, Sys.getpid), "node 1 ", class = "clutch_node_died")
  })
  for (strategy in new_r) with_slow_start(20, function() {
    cl <- make_cluster(1, strategy)
    on.exit(stop_cluster(cl))
    task <- cluster_submit(cl, search()[[2L]])
    expect_true(eventually(file.exists("asked")))
    tools::pskill(pids(cl), 9L)
    expect_identical(collect(task), "package:stats")
  })
})

test_that("a request that is cancelled meanwhile: the next one finds all, in the same node", {
  for (strategy in new_r) with_slow_start(20, function() {
    cl <- make_cluster(1, strategy)
    on.exit(stop_cluster(cl))
    pid <- pids(cl)
    task <- cluster_submit(cl, stop("never"))
    expect_true(eventually(file.exists("asked")))
    cancel(task)
    expect_error(collect(task), class = "clutch_task_cancelled")
    file.create("go on")
    expect_identical(collect(cluster_submit(cl, search()[[2L]])), "package:stats")
    expect_identical(pids(cl), pid)
  })
})

test_that("a cluster is stopped meanwhile", {
  for (strategy in new_r) with_slow_start(20, function() {
    cl <- make_cluster(1, strategy)
    pid <- pids(cl)
    expect_true(eventually(file.exists("asked")))
    stop_cluster(cl)
    expect_true(eventually(!alive(pid)))
    file.create("go on")
  })
})

test_that("time limits do not count that time", {
  for (strategy in new_r) with_slow_start(1, function() {
    cl <- make_cluster(1, strategy)
    on.exit(stop_cluster(cl))
    expect_identical(collect(cluster_submit(cl, 1, .timeout = 0.5)), 1)
    expect_true(file.exists("asked"))
  })
})

test_that("an error meanwhile is that of the first request, and the next one tries again", {
  profile <- c("local({", "  attach_all <- .First.sys", "  unlockBinding('.First.sys', baseenv())",
               "  assign('.First.sys', envir = baseenv(), function() {",
               "    if (file.exists('fail')) stop('told to fail')", "    attach_all()", "  })",
               "})")
  with_files(list(.Rprofile = profile), character(), for (strategy in new_r) {
    cl <- make_cluster(1, strategy)
    # it may be idle for so long already that it has them
    tries <- 0L
    while (!inherits(told <- tryCatch({
      file.create("fail")
      parallel::clusterCall(cl, search)
    }, error = conditionMessage), "character") && tries < 20L) {
      unlink("fail")
      stop_cluster(cl)
      cl <- make_cluster(1, strategy)
      tries <- tries + 1L
    }
    expect_match(told, "told to fail")
    expect_error(collect(cluster_submit(cl, 1)), "told to fail")
    unlink("fail")
    expect_identical(parallel::clusterCall(cl, search)[[1L]][[2L]], "package:stats")
    expect_identical(parallel::clusterCall(cl, getOption, "warn")[[1L]], 0L)
    stop_cluster(cl)
  })
})

test_that("what cannot be attached is a warning, as in R's own start", {
  printed <- tempfile()
  on.exit(unlink(printed))
  cl <- make_cluster(1, "spawn", outfile = printed)
  parallel::clusterEvalQ(cl, {
    assign("later", "no.such", asNamespace("clutch")$the_node)
    options(defaultPackages = "no.such")
    clutch:::attach_default_packages()
  })
  stop_cluster(cl)
  expect_match(paste(readLines(printed), collapse = " "), "no.such.*was not found")
})

test_that("a node is ended before it has attached them", {
  for (strategy in new_r) {
    cl <- make_cluster(2, strategy)
    ids <- pids(cl)
    stop_cluster(cl)
    expect_true(eventually(!any(alive(ids))))
  }
})

test_that("a folder in the place of a file of variables is none, to nodes as to R", {
  folder <- tempfile("files-")
  dir.create(file.path(folder, ".Renviron"), recursive = TRUE)
  old <- setwd(folder)
  on.exit({
    setwd(old)
    unlink(folder, recursive = TRUE)
  })
  for (strategy in all_strategies) {
    cl <- make_cluster(1, strategy)
    expect_identical(cluster_map(cl, 1, identity), list(1))
    stop_cluster(cl)
  }
})
