# Packages that the session has from their source, by pkgload::load_all().

source(test_path("fixtures", "source-uses.R"), local = TRUE)

# The package says this of itself.
says <- function() {
  list(fun(1), helper(1), by_c(1), norm2(new_point(2)), middle(1:3), area(Square(2)), devdata$a,
       readLines(system.file("extdata", "note.txt", package = "clutchdev")),
       utils::capture.output(print(structure(1, class = "devthing"))),
       utils::capture.output(new_point(1)), getOption("clutchdev.loaded"))
}

should_say <- function(k) {
  list(1 + k, 1 + k, 2 * k, 4 * k, 2 + k, 4 * k, 1:3 * k, paste("note", k),
       sprintf("a thing of %d ", k), sprintf("a point of %d ", k), k)
}

in_workspace <- function(f) {
  environment(f) <- globalenv()
  f
}

# The package is there for one test.
with_source <- function(code) {
  can_develop()
  folder <- write_source_package(answer = 1)
  on.exit({
    if ("clutchdev" %in% loadedNamespaces()) pkgload::unload("clutchdev")
    options(clutchdev.loaded = NULL)
    unlink(folder, recursive = TRUE)
  })
  load_source_package(folder)
  code(folder)
}

change_to <- function(folder, k) {
  write_source_package(folder, answer = k)
  load_source_package(folder)
}

ways <- list(
  cluster_map = function(cl, f) cluster_map(cl, 1:2, f)[[2L]],
  cluster_submit = function(cl, f) collect(cluster_submit(cl, f(1))),
  cluster_submit_call = function(cl, f) collect(cluster_submit_call(cl, f, list(1))),
  own = function(cl, f) cluster_map(NULL, 1, f)[[1L]],
  mclapply = function(cl, f) mclapply(1:2, f, mc.cores = 2)[[2L]],
  parLapply = function(cl, f) {
    attach_on_nodes(cl)
    parallel::parLapply(cl, 1:2, f)[[2L]]
  },
  clusterApplyLB = function(cl, f) {
    attach_on_nodes(cl)
    parallel::clusterApplyLB(cl, 1:2, f)[[2L]]
  },
  foreach = function(cl, f) {
    skip_if_not_installed("foreach")
    registerDoClutch(cl)
    on.exit(foreach::registerDoSEQ())
    `%dopar%` <- foreach::`%dopar%`
    (foreach::foreach(i = 1:2) %dopar% f(i))[[2L]]
  },
  BiocParallel = function(cl, f) {
    skip_if_not_installed("BiocParallel")
    BiocParallel::bplapply(1:2, f, BPPARAM = ClutchParam(cl))[[2L]]
  }
)

for (way in names(ways)) local({
  name <- way
  test_that(paste("nodes have it as it is now:", name), {
    with_source(function(folder) {
      on.exit(end_own_cluster())
      cl <- make_cluster(2)
      on.exit(stop_cluster(cl), add = TRUE)
      f <- in_workspace(function(i) says())
      body(f) <- body(says)
      run <- ways[[name]]
      expect_equal(run(cl, f), should_say(1))
      # a function of the package that is not exported
      last <- if (name %in% c("cluster_submit", "cluster_submit_call", "own")) 1 else 2
      expect_equal(run(cl, asNamespace("clutchdev")$helper), last + 1)
      change_to(folder, 10)
      expect_equal(run(cl, f), should_say(10))
      # objects of its classes
      point <- asNamespace("clutchdev")$new_point(1)
      counter <- asNamespace("clutchdev")$new_counter()
      g <- with_objects(point, counter)
      expect_equal(run(cl, g), list(10, if (!is.null(counter)) 10))
    })
  })
})

test_that("futures have it, and so has what is made of them", {
  skip_if_not_installed("future")
  skip_if_not(utils::packageVersion("future") >= "1.40.0")
  with_source(function(folder) {
    cl <- make_cluster(2)
    on.exit({
      future::plan("sequential")
      stop_cluster(cl)
    })
    f <- in_workspace(says)
    for (workers in list(cl, 2)) {
      future::plan(clutch, workers = workers)
      k <- as.numeric(asNamespace("clutchdev")$answer)
      expect_equal(future::value(future::future(f(), packages = "clutchdev")), should_say(k))
      expect_equal(future::value(future::future(f())), should_say(k))
      expect_equal(future::value(future_of_package()), 1 + k)
      # these are no dependencies of the package
      if (length(find.package("furrr", quiet = TRUE))) {
        future_map <- getExportedValue("furrr", "future_map")
        expect_equal(future_map(1:2, function(i) f())[[2L]], should_say(k))
        helper <- asNamespace("clutchdev")$helper
        expect_equal(unlist(future_map(1:2, helper)), 1:2 + k)
      }
      if (length(find.package("future.apply", quiet = TRUE))) {
        future_lapply <- getExportedValue("future.apply", "future_lapply")
        expect_equal(future_lapply(1:2, function(i) f())[[2L]], should_say(k))
      }
      change_to(folder, k + 1)
      expect_equal(future::value(future::future(f())), should_say(k + 1))
    }
  })
})

test_that("nodes that begin when it has gone are told nothing", {
  with_source(function(folder) {
    cl <- make_cluster(1)
    on.exit(stop_cluster(cl))
    expect_identical(cluster_map(cl, 1, in_workspace(ask_of_package)), list(2))
    pkgload::unload("clutchdev")
    later <- make_cluster(1)
    on.exit(stop_cluster(later), add = TRUE)
    for (nodes in list(cl, later)) expect_identical(cluster_map(nodes, 1, identity), list(1))
    expect_length(clutch:::setup_of(clutch:::info_of(later)), 0L)
    expect_identical(cluster_map(cl, 1, function(i) any(grepl("clutch-source-", .libPaths()))),
                     list(FALSE))
  })
})

test_that("it is told once a change, and nodes that come later have it", {
  with_source(function(folder) {
    cl <- make_cluster(2)
    on.exit(stop_cluster(cl))
    libraries <- function() cluster_map(cl, 1, function(i) .libPaths()[[1L]])[[1L]]
    first <- libraries()
    expect_identical(libraries(), first)
    f <- in_workspace(function(i) {
      Sys.sleep(0.01)
      fun(i)
    })
    expect_identical(cluster_map_dbl(cl, 1:4, f), 1:4 + 1)
    number <- clutch:::the$source$number
    tools::pskill(pids(cl)[[1L]], tools::SIGKILL)
    expect_true(eventually(!alive(pids(cl)[[1L]])))
    expect_identical(cluster_map_dbl(cl, 1:20, f, .chunk = 1), 1:20 + 1)
    expect_identical(clutch:::the$source$number, number)
    # what the session has put into the namespace counts
    ns <- asNamespace("clutchdev")
    before <- ns$helper
    utils::assignInNamespace("helper", function(x) "mocked", "clutchdev")
    expect_identical(cluster_map(cl, 1:2, ns$fun), list("mocked", "mocked"))
    utils::assignInNamespace("helper", before, "clutchdev")
    expect_identical(cluster_map(cl, 1, ns$fun), list(2))
    # the session gives it up
    pkgload::unload("clutchdev")
    gone <- function(i) isNamespaceLoaded("clutchdev") || nzchar(system.file(package = "clutchdev"))
    expect_identical(cluster_map(cl, 1:2, in_workspace(gone)), list(FALSE, FALSE))
  })
})

test_that("an installed version that a node has loaded makes way, and comes back", {
  skip_if_not_installed("pkgload")
  outside_checks_only()
  lib <- tempfile("lib-")
  dir.create(lib)
  on.exit(unlink(lib, recursive = TRUE))
  install_made_package("clutchdev", "fun <- function(x) 'installed'", lib, "export(fun)")
  before <- .libPaths()
  .libPaths(c(lib, before))
  on.exit(.libPaths(before), add = TRUE, after = FALSE)
  cl <- make_cluster(1)
  on.exit(stop_cluster(cl), add = TRUE, after = FALSE)
  attach_on_nodes(cl)
  ask <- in_workspace(ask_of_package)
  expect_identical(cluster_map(cl, 1, ask), list("installed"))
  with_source(function(folder) {
    expect_identical(cluster_map(cl, 1, ask), list(2))
    expect_identical(parallel::clusterEvalQ(cl, fun(2)), list(3)) # is attached in its place
    pkgload::unload("clutchdev")
    expect_identical(cluster_map(cl, 1, ask), list("installed"))
  })
})

test_that("a package of source that imports another one", {
  with_source(function(folder) {
    other <- write_source_package(name = "clutchdevtwo", compiled = FALSE, imports = "clutchdev")
    code <- "twice <- function(x) 2 * clutchdev::fun(x); thrice <- function(x) 3 * theirs(x)"
    write(code, file.path(other, "R", "code.R"), append = TRUE)
    write("importFrom(clutchdev, theirs = fun)", file.path(other, "NAMESPACE"), append = TRUE)
    load_source_package(other, attach = FALSE)
    cl <- make_cluster(1)
    on.exit({
      stop_cluster(cl)
      pkgload::unload("clutchdevtwo")
      unlink(other, recursive = TRUE)
      options(clutchdevtwo.loaded = NULL)
    })
    two <- asNamespace("clutchdevtwo")
    expect_identical(cluster_map(cl, 1, two$twice), list(4))
    expect_identical(cluster_map(cl, 1, two$thrice), list(6))
    change_to(folder, 10)
    expect_identical(cluster_map(cl, 1, two$twice), list(22))
    expect_identical(cluster_map(cl, 1, two$thrice), list(33))
  })
})

test_that("helpers of tests, active bindings, and a hook that cannot be run twice travel", {
  can_develop()
  folder <- write_source_package(compiled = FALSE)
  dir.create(file.path(folder, "tests", "testthat"), recursive = TRUE)
  writeLines("library(testthat)", file.path(folder, "tests", "testthat.R"))
  writeLines("helped <- function(x) helper(x) * 100",
             file.path(folder, "tests", "testthat", "helper-a.R"))
  code <- c("makeActiveBinding('moving', function() answer + 0.5, environment())",
            "once <- function() 1",
            ".onLoad <- function(libname, pkgname) {",
            "  if (identical(once, 2)) stop('twice')",
            "  once <<- 2", "}", "later <- function(x) c(x, moving, once)")
  write(code, file.path(folder, "R", "code.R"), append = TRUE)
  on.exit({
    pkgload::unload("clutchdev")
    unlink(folder, recursive = TRUE)
  })
  pkgload::load_all(folder, compile = FALSE, quiet = TRUE, helpers = TRUE, attach_testthat = FALSE)
  cl <- make_cluster(1)
  on.exit(stop_cluster(cl), add = TRUE, after = FALSE)
  expect_identical(cluster_map(cl, 1, asNamespace("clutchdev")$later), list(c(1, 1.5, 2)))
  f <- in_workspace(function(i) helped(i))
  expect_identical(cluster_map(cl, 1, f), list(200))
})

test_that("a fork server that attaches it, or evaluates with it, has it", {
  with_source(function(folder) {
    cl <- make_cluster(1, packages = "clutchdev")
    on.exit(stop_cluster(cl))
    expect_identical(parallel::clusterEvalQ(cl, fun(1)), list(2))
    warm <- warm_by_package()
    on.exit(stop_cluster(warm), add = TRUE)
    expect_identical(parallel::clusterEvalQ(warm, made), list(6))
  })
})

test_that("nodes that are each an R of its own have it", {
  with_source(function(folder) {
    for (strategy in c("spawn", "parallel")) {
      cl <- make_cluster(1, strategy = strategy)
      k <- asNamespace("clutchdev")$answer
      expect_identical(cluster_map(cl, 1, asNamespace("clutchdev")$fun), list(1 + k))
      change_to(folder, k + 1)
      expect_identical(cluster_map(cl, 1, asNamespace("clutchdev")$fun), list(2 + k))
      stop_cluster(cl)
    }
  })
})

test_that("other hosts have it by files that are sent", {
  h <- hosts_or_skip(names = c("alpha", "beta"))
  on.exit(stop_hosts(h))
  with_source(function(folder) {
    cl <- make_cluster(hosts(h$names, each = 2, ssh = c("ssh", "-F", h$config)))
    on.exit(stop_cluster(cl))
    f <- in_workspace(says)
    expect_equal(unique(cluster_map(cl, 1:8, function(i) f())), list(should_say(1)))
    change_to(folder, 10)
    expect_equal(unique(cluster_map(cl, 1:8, function(i) f())), list(should_say(10)))
    # not by the session's files
    where <- unlist(cluster_map(cl, 1:2, function(i) system.file(package = "clutchdev")))
    here <- normalizePath(clutch:::source_libraries())
    expect_false(any(startsWith(where, here)))
    expect_identical(basename(dirname(where)), rep(basename(here), 2))
  })
})

test_that("without package pkgload nothing is asked", {
  the <- clutch:::the
  before <- the$source
  the$source <- NULL
  on.exit(the$source <- before)
  expect_null(clutch:::source_now())
  expect_false(clutch:::has_other_source(list()))
})

test_that("modules of package box, and imports of package import, travel", {
  folder <- tempfile("modules-")
  dir.create(folder)
  on.exit(unlink(folder, recursive = TRUE))
  writeLines(c("#' @export", "pub <- function(x) priv(x) + 1", "priv <- function(x) x * 10"),
             file.path(folder, "m.R"))
  old <- options(box.path = dirname(folder))
  on.exit(options(old), add = TRUE)
  cl <- make_cluster(1)
  on.exit(stop_cluster(cl), add = TRUE)
  tried <- FALSE
  # R CMD check would look for these packages, if this were code
  run <- function(package, text) {
    if (!requireNamespace(package, quietly = TRUE)) return(invisible())
    tried <<- TRUE
    local_env <- new.env(parent = globalenv())
    local_env$cl <- cl
    expect_identical(eval(str2lang(text), local_env), list(21))
  }
  name <- basename(folder)
  run("box", sprintf("{ box::use(%s/m); clutch::cluster_map(cl, 2, function(i) m$pub(i)) }",
                     paste0("`", name, "`")))
  run("box", sprintf("{ box::use(%s/m[pub]); clutch::cluster_map(cl, 2, function(i) pub(i)) }",
                     paste0("`", name, "`")))
  run("box", "{ box::use(st = stats); clutch::cluster_map(cl, 21, function(i) st$median(i)) }")
  run("import", paste0("{ import::here('pub', 'priv', .from = 'm.R', .directory = '", folder,
                       "'); clutch::cluster_map(cl, 2, function(i) pub(i)) }"))
  if (!tried) skip("neither box nor import is installed")
})

test_that("files that are read by source() travel", {
  file <- tempfile(fileext = ".R")
  on.exit(unlink(file))
  writeLines(c("outer <- function(x) inner(x) + 1", "inner <- function(x) x * 10"), file)
  env <- new.env(parent = globalenv())
  source(file, local = env)
  cl <- make_cluster(1)
  on.exit(stop_cluster(cl), add = TRUE)
  expect_identical(cluster_map(cl, 2, env$outer), list(21))
  expect_identical(cluster_map(cl, 2, eval(quote(function(i) outer(i)), env)), list(21))
})

test_that("a detached map has it, also when its session has ended", {
  linux_only()
  folder <- new_jobs_folder()
  on.exit(end_jobs(folder))
  source <- write_source_package(answer = 3)
  on.exit(unlink(source, recursive = TRUE), add = TRUE)
  can_develop()
  path <- journal_file()
  s <- start_script(c(
    sprintf("pkgload::load_all('%s', compile = FALSE, quiet = TRUE)", source),
    sprintf("f <- %s", paste(deparse(says), collapse = "\n")),
    "go <- function(cl, name) cluster_map(cl, 1:2, function(i) {Sys.sleep(0.5); f()}, ",
    sprintf("  .journal = paste0('%s', name), .detach = name)", path),
    "go(2, 'number'); cl <- make_cluster(1); cluster_map(cl, 1, function(i) f())",
    "go(cl, 'cluster'); go(NULL, 'own')"
  ))
  expect_true(eventually(!alive(s$pid), 60))
  for (name in c("number", "cluster", "own")) {
    expect_identical(collect(cluster_attach(name), timeout = 60), rep(list(should_say(3)), 2))
  }
  with_source(function(folder) {
    expect_error(cluster_map(2, 1:2, in_workspace(function(i) fun(i)), .journal = path,
                             .detach = list(on = "there")), class = "clutch_unsupported")
  })
})
