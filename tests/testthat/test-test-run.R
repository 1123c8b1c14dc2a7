kinds <- c(
  "test_that('passes', { expect_equal(add(1, 2), 3) })",
  "test_that('fails', { expect_equal(add(1, 2), 4) })",
  "test_that('errors', { stop('oops') })",
  "test_that('warns', {",
  "  warning('careful')",
  "  expect_true(TRUE)",
  "})",
  "test_that('skips', { skip('not now') })",
  "test_that('has a helper and a setup', {",
  "  expect_equal(help_me(), 'helped')",
  "  expect_equal(getOption('fixture_setup'), 'yes')",
  "})"
)
snapshots <- c(
  "test_that('snapshot', { expect_snapshot(add(1, 2)) })",
  "test_that('variant', { expect_snapshot(add(1, 2), variant = 'one') })"
)
helpers <- list(
  "helper-a.R" = "help_me <- function() 'helped'",
  "setup.R" = "withr::local_options(fixture_setup = 'yes', .local_envir = teardown_env())"
)

test_that("results, output and snapshots are testthat's own", {
  outside_checks_only()
  skip_if_not_installed("pkgload")
  files <- c(list("test-a.R" = kinds, "test-b.R" = snapshots), helpers)
  root <- new_package(files)
  theirs <- new_package(files)
  # each in an R of its own: this one is within a test
  run <- function(call) {
    script <- tempfile(fileext = ".R")
    rds <- paste0(script, ".rds")
    on.exit(unlink(c(script, rds)))
    writeLines(sprintf("r <- %s, reporter = 'summary', stop_on_failure = FALSE)\nsaveRDS(r, '%s')",
                       call, rds), script)
    output <- system2(file.path(R.home("bin"), "Rscript"), script, stdout = TRUE, stderr = FALSE)
    # behind DONE there may be praise, at random
    list(results = found_in(readRDS(rds)), output = output[seq_len(grep("DONE", output))])
  }
  ours <- run(sprintf("clutch::cluster_test('%s', nodes = 2", root))
  expected <- run(sprintf("testthat::test_local('%s'", theirs))
  expect_identical(ours, expected)
  all <- function(root) {
    at <- file.path(root, "tests", "testthat", "_snaps")
    names <- list.files(at, recursive = TRUE)
    stats::setNames(lapply(file.path(at, names), readLines), names)
  }
  expect_identical(all(root), all(theirs))
  expect_length(all(root), 2L)
})

test_that("snapshots that differ are told, and those of no test are removed", {
  skip_if_not_installed("pkgload")
  root <- new_package(list("test-b.R" = snapshots[1L]))
  folder <- file.path(root, "tests", "testthat", "_snaps")
  suppressMessages(tested(root))
  writeLines("old", file.path(folder, "gone.md"))
  writeLines(sub("3", "4", readLines(file.path(folder, "b.md"))), file.path(folder, "b.md"))
  ci <- Sys.getenv("CI", NA) # where it is set testthat removes none
  Sys.unsetenv("CI")
  if (!is.na(ci)) on.exit(Sys.setenv(CI = ci))
  r <- suppressMessages(tested(root))
  expect_equal(found_in(r)$failed, 1)
  expect_setequal(list.files(folder), c("b.md", "b.new.md"))
})

test_that("a filter, an order of files, and errors of failure are as in testthat", {
  skip_if_not_installed("pkgload")
  root <- new_package(list("test-a.R" = "test_that('slow', {Sys.sleep(0.3)\nexpect_true(TRUE)})",
                           "test-b.R" = "test_that('bad', { expect_true(FALSE) })"))
  expect_identical(found_in(tested(root))$test, c("slow", "bad"))
  expect_identical(found_in(tested(root, filter = "^a$"))$test, "slow")
  expect_identical(found_in(tested(root, filter = "^a$", invert = TRUE))$test, "bad")
  expect_error(cluster_test(root, nodes = 2, reporter = "silent"), "Test failures")
  one <- file.path(root, "tests", "testthat", "test-a.R")
  expect_identical(found_in(tested(one, load = "none"))$test, "slow")
})

test_that("options by which tests choose colors count as in testthat", {
  skip_if_not_installed("pkgload")
  test <- c("test_that('colored', {",
            "  old <- options(crayon.enabled = TRUE, crayon.colors = 256L)",
            "  on.exit(options(old))", "  expect_equal(cli::num_ansi_colors(), 256L)", "})")
  root <- new_package(list("test-a.R" = test))
  old <- options(cli.num_colors = NULL)
  on.exit(options(old), add = TRUE)
  writeLines(sub("edition: 3", "edition: 2", readLines(file.path(root, "DESCRIPTION"))),
             file.path(root, "DESCRIPTION"))
  skip_if(cli::num_ansi_colors() > 1L, "this session has colors")
  expect_equal(found_in(tested(root))$failed, 0)
})

test_that("a test that crashes, quits or never ends is an error that tells which", {
  skip_if_not_installed("pkgload")
  root <- new_package(list(
    "test-crash.R" = c("test_that('before', { expect_true(TRUE) })",
                       "test_that('crashes', {", "  cat('last words\\n')",
                       "  tools::pskill(Sys.getpid(), tools::SIGKILL)", "  Sys.sleep(60)", "})"),
    "test-endless.R" = "test_that('endless', repeat Sys.sleep(1))",
    "test-good.R" = "test_that('good', { expect_true(TRUE) })",
    "test-quit.R" = "quit(status = 3)"
  ))
  utils::capture.output(r <- tested(root, timeout = 5))
  found <- found_in(r)
  expect_identical(found$test, c("before", "crashes", "endless", "good", NA))
  expect_identical(found$error, c(FALSE, TRUE, TRUE, FALSE, TRUE))
  said <- lapply(r, function(x) conditionMessage(x$results[[length(x$results)]]))
  expect_match(said[[2L]], "signal 9")
  expect_match(said[[2L]], "last words")
  expect_match(said[[3L]], "longer than 5 s")
  expect_match(said[[5L]], "exit status 3")
})

test_that("no file is the first that asks for the time zone, for which some systems warn", {
  skip_if_not_installed("pkgload")
  known <- "test_that('a', { expect_false(is.na(get('.sys.timezone', baseenv()))) })"
  expect_equal(found_in(tested(new_package(list("test-a.R" = known))))$failed, 0)
})

test_that("each file starts clean", {
  skip_if_not_installed("pkgload")
  clean <- "test_that('clean', { expect_null(getOption('fixture_leaks')) })"
  files <- c(clean, "options(fixture_leaks = 1)")
  root <- new_package(list("test-a.R" = files, "test-b.R" = files, "test-c.R" = files))
  expect_identical(found_in(tested(root))$failed, c(0L, 0L, 0L))
})

test_that("what makes the fork server start sooner is not seen by tests", {
  skip_if_not_installed("pkgload")
  set <- function(name) sprintf("expect_identical(Sys.getenv('%s'), '%s')", name, Sys.getenv(name))
  jit <- sprintf("expect_identical(compiler::enableJIT(-1L), %dL)", compiler::enableJIT(-1L))
  test <- c("test_that('a', {", set("R_NSIZE"), jit, "})")
  found <- found_in(tested(new_package(list("test-a.R" = test))))
  expect_identical(found[c("nb", "failed")], data.frame(nb = 2L, failed = 0L))
})

test_that("what tests leave running ends", {
  skip_if_not_installed("pkgload")
  pids <- tempfile("pids")
  on.exit(unlink(pids), add = TRUE)
  leaves <- sprintf("system('sleep 300 & echo $! > %s')", pids)
  root <- new_package(list("test-a.R" = c("test_that('a', {", leaves, "expect_true(TRUE)", "})")))
  tested(root)
  pid <- as.integer(readLines(pids))
  expect_true(eventually(!tools::pskill(pid, 0L)))
})

test_that("what cannot be tested is said at once", {
  skip_if_not_installed("pkgload")
  root <- new_package(list("test-a.R" = "test_that('a', { expect_true(TRUE) })"),
                      code = "stop('of no use')")
  expect_error(tested(root), "of no use", class = "clutch_test_load")
  none <- new_package(list("other.R" = "1"))
  expect_error(tested(none), class = "clutch_test_none")
  expect_error(tested(root, filter = "zzz"), class = "clutch_test_none")
  expect_error(tested(file.path(root, "nowhere")), class = "clutch_argument")
  expect_error(tested(root, timeout = -1), class = "clutch_argument")
  expect_error(tested(root, load = "somehow"), class = "clutch_argument")
  nameless <- tempfile("nameless-")
  on.exit(unlink(nameless, recursive = TRUE), add = TRUE)
  dir.create(file.path(nameless, "tests", "testthat"), recursive = TRUE)
  writeLines("Type: project", file.path(nameless, "DESCRIPTION"))
  expect_error(tested(nameless), "names the package", class = "clutch_argument")
  unlink(file.path(nameless, "DESCRIPTION"))
  expect_error(tested(file.path(nameless, "tests"), load = "installed"), "names the package",
               class = "clutch_argument")
  bad <- new_package(list("setup.R" = "stop('no setup')",
                          "test-a.R" = "test_that('a', { expect_true(TRUE) })"))
  e <- expect_error(tested(bad), "no setup|setup.R")
  expect_identical(anyDuplicated(class(e)), 0L)
  expect_error(cluster_test(root, nodes = 1.5), "`nodes`", class = "clutch_argument")
  expect_error(tested(root, load = "installed"), "not installed", class = "clutch_test_load")
  expect_error(cluster_test(root, package = "no.such.package"), class = "clutch_test_load")
})

test_that("what teardown files print is shown by a reporter that ends with an error, too", {
  root <- new_package(list("teardown.R" = "cat('taken down\\n')",
                           "test-a.R" = "test_that('a', { expect_true(FALSE) })"))
  run <- function() cluster_test(root, reporter = "fail", load = "none", nodes = 1)
  expect_output(expect_error(run(), "Failures detected"), "taken down")
})

test_that("reporters are told the times that were measured where the tests ran", {
  skip_if_not_installed("xml2")
  test <- c("test_that('slow', {", "  Sys.sleep(0.4)", "  expect_true(TRUE)", "})")
  root <- new_package(list("test-a.R" = test, "test-b.R" = test))
  path <- tempfile(fileext = ".xml")
  on.exit(unlink(path), add = TRUE)
  for (reporter in list(testthat::JunitReporter$new(file = path),
                        testthat::MultiReporter$new(reporters = list(
                          testthat::SilentReporter$new(),
                          testthat::JunitReporter$new(file = path))))) {
    cluster_test(root, reporter = reporter, load = "none", nodes = 2)
    cases <- xml2::xml_find_all(xml2::read_xml(path), "//testcase")
    took <- as.numeric(xml2::xml_attr(cases, "time"))
    expect_length(took, 2L)
    expect_true(all(took >= 0.4), info = toString(took))
  }
})

test_that("the package stays loaded for the next call, and is loaded again when it has changed", {
  skip_if_not_installed("pkgload")
  root <- new_package(list("test-a.R" = "test_that('a', { expect_equal(add(1, 2), 3) })"))
  expect_equal(sum(found_in(tested(root))$failed), 0)
  server <- the_tests()$server
  tested(root)
  expect_identical(the_tests()$server, server)
  writeLines("add <- function(x, y) 'other'", file.path(root, "R", "code.R"))
  expect_equal(sum(found_in(tested(root))$failed), 1)
  expect_false(identical(the_tests()$server, server))
  fork_server_stop()
  expect_null(the_tests())
})

test_that("what covr counts in each process is written when that ends", {
  skip_if_not_installed("pkgload")
  counted <- tempfile("counted-")
  dir.create(counted)
  # the hook that covr writes into a package which it installs
  root <- new_package(list("test-a.R" = "test_that('a', { expect_equal(add(1, 2), 3) })",
                           "test-b.R" = "test_that('b', { expect_equal(add(1, 2), 3) })"), c(
    "count <- new.env()", "count$n <- 0",
    "add <- function(x, y) {", "  count$n <- count$n + 1", "  x + y", "}",
    sprintf("write <- function(e) cat(count$n, file = tempfile('n', '%s'))", counted),
    ".onLoad <- function(...) reg.finalizer(environment(add), write, onexit = TRUE)"
  ))
  old <- Sys.getenv("R_COVR", NA)
  Sys.setenv(R_COVR = "true")
  on.exit(if (is.na(old)) Sys.unsetenv("R_COVR") else Sys.setenv(R_COVR = old), add = TRUE)
  expect_identical(found_in(tested(root))$passed, c(1L, 1L))
  written <- function() vapply(list.files(counted, full.names = TRUE), scan, 0, quiet = TRUE)
  expect_true(eventually(sum(written()) == 2))
  unlink(counted, recursive = TRUE)
})
