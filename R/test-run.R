# cluster_test(): runs the test files of a package, each in a clean fork of a process that has the
# package loaded. What nodes do: test-node.R; how the session shows it: test-replay.R; which
# processes there are: test-server.R; how long files took: test-times.R.

#' Run the tests of a package, each file in a process of its own
#'
#' Runs a testthat suite in parallel. The package is loaded once; each test file then runs in a new
#' process, forked from that. So every file starts clean, and no file waits for a package to load.
#'
#' Output, results, snapshots and errors are those of [testthat::test_local()]: files appear in
#' their order, whatever the order in which they ran. The longest files run first: how long each
#' took is remembered in `tools::R_user_dir("clutch", "cache")`.
#'
#' @section What is as in testthat, and what is not:
#' * Helper files are sourced once, before the processes are forked. Setup and teardown files are
#'   run in each process, as in each process of testthat's own parallel mode.
#' * What a file changes, such as options, loaded packages, objects in the workspace, is not there
#'   in the next one. A file that relies on what another has left behind fails here.
#' * [testthat::is_parallel()] is `TRUE`, `interactive()` is `FALSE`.
#' * What tests print appears where it does with testthat, but when the file is shown.
#' * [testthat::DebugReporter] cannot be used: the test is in another process.
#'
#' @section When a file does not come to its end:
#' A test that crashes R, calls `quit()` or takes longer than `timeout` is an error of that test. It
#' says how the process ended and what was printed last. All other files run on. What a test leaves
#' running ends with its file.
#'
#' @section Long files:
#' With `blocks = TRUE` a file that took longer than the time of all files divided by `nodes` runs
#' in several processes. Each runs some of the calls of `test_that()` at the top of the file, and
#' all code that is outside of them. Results and output are in the order of the file. So a test must
#' not rely on what an earlier one has left behind, such as a variable that it has assigned by
#' `<<-`, or a file. How long a file takes is known from a run before. A file is not divided that
#' takes snapshots, has tests in loops, in functions or in `describe()`, or expects or skips
#' something outside of tests.
#'
#' @section Next run:
#' The process that has the package loaded stays for the next call in the session. If nothing has
#' changed but test files, their first tests start at once. It ends with the session and with
#' [fork_server_stop()].
#'
#' @section While you write:
#' With `watch = TRUE` a saved test file runs, and for a saved file of `R` those test files run that
#' use what has changed in it, by themselves or by other functions of the package, or of helper and
#' setup files. Who uses what is told by names in the code; for what that cannot tell (methods of
#' another package's generic, classes of S4, compiled code, data, a file whose name stands nowhere)
#' all test files run. What is called by a name that is put together as it runs is not seen.
#' Functions that have changed are put into the package as it is loaded; it is loaded again where
#' other things have changed. What cannot be parsed or loaded is told, and the next file that is
#' saved is waited for.
#'
#' @section `R CMD check`:
#' In `tests/testthat.R` replace `test_check("mypackage")` by
#' ```r
#' clutch::cluster_test(package = "mypackage")
#' ```
#' The rest of the file stays. The number of processes is then at most two, as CRAN demands, since
#' [available_cores()] says so.
#'
#' @section Coverage:
#' Package \pkg{covr} counts the lines of all files, those of compiled code, too:
#' `covr::package_coverage()` for a `tests/testthat.R` with the line above. Each process ends by
#' [quit()] for that, so finalizers run in each that are to run at the end of R.
#'
#' @param path string: folder of a package, or of test files, or one test file.
#' @param filter string: a regular expression. Only files run whose names match it, without `test-`
#'   and `.R`. `NULL`: all.
#' @param reporter what testthat takes: a name, names, a class or an object.
#'   `NULL`: [testthat::default_reporter()], with `package` [testthat::check_reporter()].
#' @param ... more arguments for [grepl()], and `invert`, as in [testthat::test_dir()].
#' @param package string: name of an installed package whose tests are to be run as `R CMD check`
#'   does it. `path` is then the folder of test files, by default `"testthat"`.
#' @param load string: how the package is loaded. `"source"`: by [pkgload::load_all()];
#'   `"installed"`: by [library()]; `"none"`: not at all. The default is `"source"` for the folder
#'   of a package, `"installed"` with `package`, else `"none"`.
#' @param nodes number of files that run at the same time, at most.
#' @param timeout number of seconds, or a text such as `"5min"`: what one test file may take.
#' @param stop_on_failure,stop_on_warning logical: is it an error if tests fail, or warn?
#' @param blocks logical: `TRUE` divides test files that take longer than their share of a core
#'   among several processes, by calls of [testthat::test_that()].
#' @param watch logical: `TRUE` goes on after the run, until Ctrl-C: whenever a file is saved the
#'   test files run that depend on it. `stop_on_failure` and `stop_on_warning` mean nothing then.
#' @return Object of class `testthat_results`, invisibly: what [testthat::test_dir()] returns; with
#'   `watch` that of the last run.
#' @section Errors: `clutch_test_load`: the package cannot be loaded. `clutch_test_none`: there are
#'   no test files. `clutch_package`, with element `package`: \pkg{testthat} is not installed.
#'   `clutch_argument`. All have class `clutch_error`. Errors of setup files, and the error that
#'   tests have failed, are as testthat raises them:
#'   ```r
#'   tryCatch(cluster_test("."), clutch_test_load = function(e) message("it does not load"))
#'   ```
#' @seealso [make_cluster()], [available_cores()]
#' @references Package \pkg{testthat}, by H. Wickham and others, of which this runs the tests, and
#'   whose reporters, snapshots and results these are.
#' @examplesIf .Platform$OS.type == "unix" && requireNamespace("testthat", quietly = TRUE)
#' folder <- tempfile()
#' dir.create(folder)
#' writeLines("test_that('sums are right', expect_equal(1 + 1, 2))",
#'            file.path(folder, "test-sums.R"))
#' cluster_test(folder, reporter = "summary")
#' unlink(folder, recursive = TRUE)
#' @export
cluster_test <- function(path = ".", filter = NULL, reporter = NULL, ..., package = NULL,
                         load = NULL, nodes = available_cores(), timeout = Inf,
                         stop_on_failure = TRUE, stop_on_warning = FALSE, watch = FALSE,
                         blocks = FALSE) {
  need_fork("cluster_test()", "take testthat::test_local()")
  need_testthat()
  forget_parents()
  given_path <- if (!missing(path)) path
  s <- suite_of(given_path, package, load)
  s$timeout <- check_time_limit(timeout)
  if (!is_whole(nodes) || length(nodes) != 1L) has_to_be("`nodes`", "a whole number, 1 or more")
  s$nodes <- nodes
  check_flag(stop_on_failure, "`stop_on_failure`")
  check_flag(stop_on_warning, "`stop_on_warning`")
  if (check_flag(watch, "`watch`") && s$load == "installed")
    throw("argument", "watch = TRUE: an installed package does not change, its source does")
  s$blocks <- check_flag(blocks, "`blocks`")
  n <- count_files(s, filter)
  s$warm_up <- watch || n > WARM_FROM
  if (n > 0L) server_of_suite(s) # it loads testthat while this session does
  files <- files_of_suite(s, filter, ...)
  if (is.null(reporter)) reporter <- default_reporter_of(s)
  if (watch) {
    results <- watch_suite(s, function() files_of_suite(s, filter, ...),
                           function(s, files) run_with(s, files, used_once(reporter)))
    return(invisible(results))
  }
  results <- run_with(s, files, reporter)
  check_results(results, stop_on_failure, stop_on_warning)
  invisible(results)
}

# The value is the results.
run_with <- function(s, files, reporter) {
  r <- new_reporters(reporter, s$dir)
  if (inherits(r$user, "DebugReporter"))
    throw("argument", "the reporter \"debug\" cannot reach a test in another process")
  run_suite(s, files, r)
  results_of(r)
}

# An object counts what it has seen.
used_once <- function(reporter) {
  if (inherits(reporter, "Reporter")) reporter$clone(deep = TRUE) else reporter
}

need_testthat <- function() {
  if (is_installed_package("testthat")) return(invisible())
  throw("package", "cluster_test() needs package 'testthat': install.packages(\"testthat\")",
        package = "testthat")
}

check_time_limit <- function(timeout) {
  if (identical(timeout, Inf)) Inf else check_seconds(timeout, "`timeout`")
}

default_reporter_of <- function(s) {
  if (s$is_check) testthat::check_reporter() else testthat::default_reporter()
}

# Errors as testthat has them.
check_results <- function(results, stop_on_failure, stop_on_warning) {
  if (!length(results)) return(invisible())
  found <- as.data.frame(results)
  if (stop_on_failure && (sum(found$failed) > 0 || any(found$error)))
    stop("Test failures", call. = FALSE)
  if (stop_on_warning && any(found$warning > 0))
    stop("Tests generated warnings", call. = FALSE)
}

# ---- what is to be tested ----

# The value is list(dir, root, package, load, load_all, env, is_check, only): the folder of test
# files; that of the package, or NULL; environment variables; one file of these, or NULL.
suite_of <- function(path, package, load) {
  if (!is.null(package) && !is_filled(package)) has_to_be("`package`", "the name of a package")
  path <- given_folder(path, package)
  only <- if (!dir.exists(path)) basename(path)
  if (!is.null(only)) path <- dirname(path)
  root <- root_of(path)
  is_root <- !is.null(root) && (path == root || path == dir_of_tests(root))
  by_default <- if (!is.null(package)) "installed" else if (is_root) "source" else "none"
  load <- if (is.null(load)) by_default else check_choice(load, "`load`", load_choices)
  if (load == "source" && is.null(root))
    throw("argument", sprintf("load = \"source\": there is no package at %s", path))
  if (load == "source" && !is_installed_package("pkgload"))
    throw("package", "load = \"source\" needs package 'pkgload'", package = "pkgload")
  is_source <- is.null(package) && is_root
  if (is_root && path == root) path <- dir_of_tests(root)
  about <- if (!is.null(root)) read.dcf(file.path(root, "DESCRIPTION"))[1L, ] else character()
  if (is.null(package) && load != "none") package <- package_named(about, path, load)
  list(dir = path, root = root, package = package, load = load, only = only,
       load_all = load_all_arguments(about), is_check = load == "installed" && !is_source,
       env = if (is_source) c(NOT_CRAN = "true"))
}

# `about`: the fields of its file DESCRIPTION.
package_named <- function(about, path, load) {
  if ("Package" %in% names(about)) return(about[["Package"]])
  text <- "load = \"%s\": no file DESCRIPTION names the package of %s, see load = \"none\""
  throw("argument", sprintf(text, load, path))
}

load_choices <- c("source", "installed", "none")

dir_of_tests <- function(root) file.path(root, "tests", "testthat")

given_folder <- function(path, package) {
  if (is.null(path)) path <- if (is.null(package)) "." else "testthat"
  if (!is_filled(path)) has_to_be("`path`", "the name of a folder or file")
  if (!file.exists(path)) throw("argument", sprintf("there is no '%s'", path))
  normalizePath(path)
}

# The folder of the package to which this one belongs, or NULL.
root_of <- function(path) {
  repeat {
    if (file.exists(file.path(path, "DESCRIPTION"))) return(path)
    if (dirname(path) == path) return(NULL)
    path <- dirname(path)
  }
}

# The value is as the package's field Config/testthat/load-all says.
load_all_arguments <- function(about) {
  said <- about["Config/testthat/load-all"]
  if (is.na(said)) return(list())
  call <- str2lang(said)
  if (!is.call(call) || !identical(call[[1L]], quote(list)))
    throw("argument", "Config/testthat/load-all of DESCRIPTION has to be a list")
  lapply(as.list(call)[-1L], eval, baseenv())
}

# Without testthat, which is not loaded yet and which has the last word.
count_files <- function(s, filter) {
  files <- sub("[.][rR]$", "", list.files(s$dir, "^test.*[.][rR]$"))
  sum(grepl(if (is.null(filter)) "" else filter, sub("^test[-_]?", "", files)))
}

# To warm testthat up takes 0.9 s, and saves each file 0.1 s.
WARM_FROM <- 16L

files_of_suite <- function(s, filter, ...) {
  none <- sprintf("there are no test files in %s", s$dir)
  if (!dir.exists(s$dir)) throw("test_none", none)
  if (!is.null(s$only)) return(s$only)
  files <- testthat::find_test_scripts(s$dir, filter = filter, ..., full.names = FALSE)
  if (length(files)) return(files)
  if (!is.null(filter)) none <- sprintf("%s whose names match \"%s\"", none, filter)
  throw("test_none", none)
}

# ---- the run ----

run_suite <- function(s, files, r) {
  folder <- tempfile("clutch-test-")
  dir.create(folder, mode = "0700")
  on.exit(unlink(folder, recursive = TRUE))
  server <- server_of_suite(s)
  all <- new_test_files(s, files, folder)
  run <- list2env(list(suite = s, server = server, files = all, shown = 0L, r = r,
                       queue = in_order(all, s), shown_as = look_of(r)))
  on.exit(stop_files(run), add = TRUE, after = FALSE)
  on.exit(print_after(r), add = TRUE) # some reporters end by an error
  in_suite(s, {
    testthat::with_reporter(r$multi, run_files(run))
    clean_snapshots(r, files)
  })
  remember_times(s, all)
}

# Reporters look at the folder and at environment variables.
in_suite <- function(s, code) {
  variables <- c(s$env, TESTTHAT = "true", TESTTHAT_PKG = s$package)
  before <- Sys.getenv(names(variables), NA, names = TRUE)
  old <- setwd(s$dir)
  do.call(Sys.setenv, as.list(variables))
  on.exit({
    setwd(old)
    Sys.unsetenv(names(before)[is.na(before)])
    if (!all(is.na(before))) do.call(Sys.setenv, as.list(before[!is.na(before)]))
  })
  code
}

# The longest files begin first.
in_order <- function(files, s) {
  names <- vapply(files, function(f) f$name, "")
  took <- known_times(s)[names] / vapply(files, function(f) f$parts, 0L)
  # one that is not known may be long: the larger, the longer
  size <- file.size(file.path(s$dir, names))
  files[order(!is.na(took), -took, -size)]
}

run_files <- function(run) {
  running <- list()
  repeat {
    while (length(run$queue) && length(running) < run$suite$nodes) {
      f <- run$queue[[1L]]
      run$queue <- run$queue[-1L]
      start_file(run, f)
      running <- run$running <- c(running, list(f))
    }
    show_files(run) # while the next ones run
    if (!length(running)) break
    await_files(run, running)
    has_ended <- vapply(running, function(f) f$state == "ended", NA)
    running <- run$running <- running[!has_ended]
  }
}

start_file <- function(run, f) {
  s <- run$suite
  for (path in c(f$log, f$output)) file.create(path)
  options <- list(width = getOption("width"))
  # a node's output goes to a file, which has none; more are said where the session has them, and
  # else not: this option overrules others that tests may set
  if (cli::num_ansi_colors() > 1L) options$cli.num_colors <- cli::num_ansi_colors()
  work <- c(s[c("dir", "root", "package", "load", "load_all", "patches")],
            list(file = f$name, blocks = f$blocks, log = f$log, output = f$output,
                 shown_as = run$shown_as, options = options))
  f$node <- start_next_program(run$server, sprintf("test_file(%s)", deparse1(f$name)),
                               program_of_file(work), f$output)
  f$until <- clock() + s$timeout
  f$state <- "running"
}

# Returns when a file has ended, or after a moment.
await_files <- function(run, running) {
  nodes <- lapply(running, function(f) f$node)
  soonest <- min(vapply(running, function(f) f$until, 0))
  .Call(ffi_nodes_await_end, nodes, max(min(0.1, soonest - clock()), 0))
  for (f in running) {
    i <- .Call(ffi_node_info, f$node)
    if (!i$state %in% c("starting", "idle", "busy")) {
      # its connection ends before the fork server tells how it has ended
      if (is.na(i$by_signal) && .Call(ffi_nodes_await_end, list(f$node), 1) > 0L)
        i <- .Call(ffi_node_info, f$node)
      end_file(f, how_ended(i$by_signal, i$code))
    } else if (clock() > f$until) {
      .Call(ffi_nodes_stop, list(f$node), 0, 5)
      end_file(f, sprintf("it took longer than %g s (timeout)", run$suite$timeout))
    }
  }
}

end_file <- function(f, how) {
  f$how <- how
  f$state <- "ended"
}

stop_files <- function(run) {
  nodes <- lapply(run$running, function(f) f$node)
  if (length(nodes)) .Call(ffi_nodes_stop, nodes, 0, 5)
}

# Shows files that have ended, as far as all before them have, and what the next one has said yet.
show_files <- function(run) {
  while (run$shown < length(run$files)) {
    f <- run$files[[run$shown + 1L]]
    if (f$state == "waiting") return(invisible())
    read_log(f)
    replay_log(run$r, f)
    if (f$state != "ended") return(invisible())
    show_end(run, f)
    run$shown <- run$shown + 1L
  }
}

show_end <- function(run, f) {
  if (!is.null(f$failed)) {
    print_output(run$r, f)
    class <- setdiff(f$failed[[2L]], c("error", "condition"))
    stop(errorCondition(f$failed[[1L]], class = class, call = NULL))
  }
  if (!isTRUE(f$done)) replay_crash(run$r, f, f$how)
  print_output(run$r, f)
}
