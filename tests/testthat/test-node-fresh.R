# .fresh: what a task does to the workspace of its node is not seen by the next.

outside_checks_only()

# As whoever comes next sees them; nothing travels. Values of the workspace, too.
node_now <- function(...) {
  names <- setdiff(ls(globalenv(), all.names = TRUE), c(".Random.seed", "node_now"))
  list(workspace = mget(names, envir = globalenv()), search = search(), folder = getwd(),
       options = options()[names(options())], env = Sys.getenv(), kind = RNGkind(),
       locale = Sys.getlocale())
}
environment(node_now) <- globalenv()

deeds <- list(
  assign = function() {
    assign("leaks", 1, envir = globalenv())
    assign(".leaks", 2, envir = globalenv())
    exported <<- "changed"
    later <<- 3
  },
  in_place = function() {
    numbers[[2]] <<- 100
    lists$b$c <<- "changed"
  },
  remove = function() rm(list = ls(globalenv(), all.names = TRUE), envir = globalenv()),
  lock = function() {
    lockBinding("numbers", globalenv())
    rm(exported, envir = globalenv())
    makeActiveBinding("exported", function() "active", globalenv())
    makeActiveBinding("active", function() stop("never"), globalenv())
    delayedAssign("lazy", stop("never"), assign.env = globalenv())
  },
  attach = function() {
    library(tools)
    library(splines)
    attach(list(of_a_list = 1), name = "a list")
    attach(new.env())
  },
  detach = function() {
    detach("package:utils")
    detach("package:stats4", character.only = TRUE)
    detach("of the node", character.only = TRUE)
  },
  options = function() {
    options(digits = 3, clutch.test_option = "new", scipen = 5, OutDec = ",")
    Sys.setenv(CLUTCH_TEST = "new", HOME = "/nowhere")
    Sys.unsetenv("PATH")
    setwd(tempdir())
  },
  random = function() {
    RNGkind("Wichmann-Hill", "Box-Muller")
    set.seed(1)
  }
)
deeds <- lapply(deeds, `environment<-`, globalenv())

fresh_cluster <- function() {
  cl <- make_cluster(1)
  numbers <- as.double(1:3)
  exported <- "exported"
  lists <- list(a = 1, b = list(c = 2))
  cluster_export(cl, c("numbers", "exported", "lists"), environment())
  cluster_setup(cl, {
    library(stats4)
    attach(list(of_the_node = 1), name = "of the node")
    makeActiveBinding("clock_of_node", function() 42, globalenv())
  })
  cl
}

test_that("nothing that a task does is seen by the next, whether it ends well or not", {
  cl <- fresh_cluster()
  on.exit(stop_cluster(cl))
  now <- function() collect(cluster_submit_call(cl, node_now, .seed = FALSE))
  before <- now()
  expect_identical(before$workspace, list(clock_of_node = 42, exported = "exported",
                                          lists = list(a = 1, b = list(c = 2)),
                                          numbers = c(1, 2, 3)))
  ends <- list(well = function() NULL, error = function() stop("oops"),
               slow = function() Sys.sleep(60))
  ends <- lapply(ends, `environment<-`, globalenv())
  task <- function(deed, end) {
    deed()
    end()
  }
  environment(task) <- globalenv()
  for (n in names(deeds)) for (e in names(ends)) for (seed in list(TRUE, FALSE)) {
    t <- cluster_submit_call(cl, task, list(deeds[[n]], ends[[e]]), .fresh = TRUE, .seed = seed,
                             .timeout = if (e == "slow") 0.1 else Inf)
    why <- tryCatch(collect(t), error = function(e) class(e)[[1]])
    expect_identical(why, switch(e, well = NULL, error = "clutch_task_error",
                                 slow = "clutch_task_timeout"), info = n)
    expect_identical(now(), before, info = paste(n, e, seed))
  }
  # a call sees nothing of it either
  collect(cluster_submit_call(cl, deeds$assign, .fresh = TRUE))
  expect_false(parallel::clusterEvalQ(cl, exists("leaks"))[[1]])
  collect(cluster_submit_call(cl, deeds$assign))
  expect_true(parallel::clusterEvalQ(cl, exists("leaks"))[[1]])
})

test_that("a cancelled task leaves nothing behind", {
  cl <- fresh_cluster()
  on.exit(stop_cluster(cl))
  mark <- tempfile()
  on.exit(unlink(mark), add = TRUE)
  t <- cluster_submit(cl, {
    assign("leaks", 1, envir = globalenv())
    options(clutch.test_option = "new")
    file.create(mark)
    Sys.sleep(60)
  }, .fresh = TRUE)
  expect_true(eventually(file.exists(mark)))
  cancel(t)
  expect_identical(collect(cluster_submit(cl, exists("leaks"))), FALSE)
  expect_identical(collect(cluster_submit(cl, is.null(getOption("clutch.test_option")))), TRUE)
})

test_that("each element of a map has a fresh workspace, with the variables of the map", {
  cl <- fresh_cluster()
  on.exit(stop_cluster(cl))
  f <- function(i, constant) {
    found <- c(exists("leaks"), getOption("clutch.test_option", "none") == "none", of_map == 1,
               exported == "exported", constant == 2, !"package:splines" %in% search())
    assign("leaks", i, envir = globalenv())
    options(clutch.test_option = "set")
    of_map <<- exported <<- constant <- i + 10
    library(splines)
    if (i == 2) stop("oops")
    found
  }
  environment(f) <- globalenv()
  of_map <- 1
  for (chunk in list(NULL, 4)) {
    x <- suppressWarnings(cluster_map(cl, 1:4, f, constant = 2, .globals = list(of_map = of_map),
                                      .fresh = TRUE, .chunk = chunk, .on_error = "continue"))
    expect_identical(x[-2], rep(list(c(FALSE, TRUE, TRUE, TRUE, TRUE, TRUE)), 3))
    expect_s3_class(x[[2]], "clutch_task_error")
    expect_false(collect(cluster_submit(cl, any(c("leaks", "of_map") %in% ls(globalenv())))))
  }
  old <- options(clutch.fresh = TRUE)
  on.exit(options(old), add = TRUE)
  seen <- cluster_map_lgl(cl, 1:3, function(i) {
    there <- exists("leaks")
    assign("leaks", i, envir = globalenv())
    there
  })
  expect_identical(seen, c(FALSE, FALSE, FALSE))
  options(clutch.fresh = NA)
  expect_error(cluster_map(cl, 1, identity), "clutch.fresh", class = "clutch_argument")
  expect_error(cluster_submit(cl, 1, .fresh = "yes"), "`.fresh`", class = "clutch_argument")
})

test_that("the workspace may have a variable that is missing", {
  cl <- fresh_cluster()
  on.exit(stop_cluster(cl))
  parallel::clusterCall(cl, function() {
    assign("none", substitute(), envir = globalenv())
    NULL
  })
  f <- function(i) {
    there <- exists("leaks")
    assign("leaks", i, envir = globalenv())
    assign("none", i, envir = globalenv())
    there
  }
  environment(f) <- globalenv()
  expect_identical(cluster_map(cl, 1:3, f, .fresh = TRUE), list(FALSE, FALSE, FALSE))
  is_missing <- parallel::clusterCall(cl, function() {
    identical(as.list(globalenv())$none, substitute())
  })
  expect_true(is_missing[[1L]])
})

test_that("random numbers: streams are as without, and without streams nothing is repeated", {
  cl <- make_cluster(1)
  on.exit(stop_cluster(cl))
  draw <- function(i) runif(1)
  expect_identical(cluster_map(cl, 1:3, draw, .seed = 1, .fresh = TRUE),
                   cluster_map(cl, 1:3, draw, .seed = 1))
  x <- cluster_map_dbl(cl, 1:5, draw, .seed = FALSE, .fresh = TRUE)
  expect_identical(anyDuplicated(x), 0L)
  set_and_draw <- function(i) {
    set.seed(1)
    runif(1)
  }
  cluster_map_dbl(cl, 1, set_and_draw, .seed = FALSE, .fresh = TRUE)
  follows <- cluster_map_dbl(cl, 1, draw, .seed = FALSE)
  set.seed(1)
  expect_false(follows %in% runif(3))
})

test_that("a workspace that was locked ends its node, and no other task", {
  cl <- make_cluster(1)
  on.exit(stop_cluster(cl))
  pid <- cluster_status(cl)$pid
  x <- cluster_map(cl, 1:3, function(i) {
    if (i == 2) lockEnvironment(globalenv(), TRUE)
    i
  }, .fresh = TRUE)
  expect_identical(x, list(1L, 2L, 3L))
  expect_true(collect(cluster_submit(cl, {
    assign("a", 1, envir = globalenv())
    TRUE
  }, .fresh = TRUE)))
  expect_false(identical(cluster_status(cl)$pid, pid))
})

test_that("options that a package sets when a task loads it stay, those of the task do not", {
  cl <- make_cluster(1)
  on.exit(stop_cluster(cl))
  lib <- tempfile()
  on.exit(unlink(lib, recursive = TRUE), add = TRUE)
  install_made_package("setsmore", lib = lib, code = c(
    "defaults <- list(other.name = 1)",
    "helper <- function() Sys.setenv(MORE = 'set')",
    ".onLoad <- function(libname, pkgname) {",
    "  options(setsmore.a = 'set')",
    "  options(defaults)",
    "  helper()",
    "}"
  ))
  task <- function(lib) {
    # R CMD check takes a name in quotes for a package that DESCRIPTION has to name
    made_here <- "setsmore"
    loadNamespace(made_here, lib.loc = lib)
    options(clutch.test_option = 1)
    Sys.setenv(CLUTCH_TEST = "set")
  }
  collect(cluster_submit_call(cl, task, list(lib), .fresh = TRUE))
  expect_identical(collect(cluster_submit(cl, list(getOption("setsmore.a"), getOption("other.name"),
                                                   Sys.getenv("MORE"), Sys.getenv("CLUTCH_TEST"),
                                                   getOption("clutch.test_option")))),
                   list("set", 1, "set", "", NULL))
})
