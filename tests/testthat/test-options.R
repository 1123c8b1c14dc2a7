# Options of the session, in place of arguments of maps and tasks.

with_one <- function(code) {
  cl <- make_cluster(1)
  on.exit(stop_cluster(cl))
  code(cl)
}
with_options <- function(expr, ...) {
  old <- options(...)
  on.exit(options(old))
  expr
}
error_of <- function(expr) {
  tryCatch({
    expr
    NULL
  }, clutch_error = identity)
}

test_that("an option of the session replaces an argument's default; what a call gives goes first", {
  with_one(function(cl) {
    slow <- function(i, ...) Sys.sleep(60)
    runs <- list(cluster_map = function(...) cluster_map(cl, 1, slow, ...), dbl = function(...) {
      cluster_map_dbl(cl, 1, slow, ...)
    },
                 walk2 = function(...) cluster_walk2(cl, 1, 1, slow, ...), pmap = function(...) {
                   cluster_pmap(cl, list(1), slow, ...)
                 },
                 imap = function(...) cluster_imap_chr(cl, 1, slow, ...),
                 submit = function(...) collect(cluster_submit(cl, Sys.sleep(60), ...)))
    for (name in names(runs)) {
      e <- error_of(with_options(runs[[name]](), clutch.timeout = 0.05))
      expect_s3_class(e, "clutch_task_timeout")
    }
    expect_identical(with_options(cluster_map_dbl(cl, 1, function(x) {
      Sys.sleep(0.2)
      x
    }, .timeout = Inf), clutch.timeout = 0.05), 1)
    fail <- function(x) if (x == 1) stop("one") else x
    expect_warning(x <- with_options(cluster_map_dbl(cl, 1:2, fail), clutch.on_error = "continue"),
                   class = "clutch_failed")
    expect_identical(x, c(NA, 2))
    expect_s3_class(
      error_of(with_options(cluster_map(cl, 1:2, fail, .on_error = "stop"),
                            clutch.on_error = "continue")), "clutch_task_error"
    )
    expect_silent(with_options({
      cluster_map(cl, 1, print)
      collect(cluster_submit(cl, print(1)))
    }, clutch.relay = "none"))
    expect_output(with_options(collect(cluster_submit(cl, print("said"))), clutch.relay = "live"),
                  "said")
    draw <- function(i) stats::runif(1)
    expect_identical(with_options(cluster_map(cl, 1:2, draw), clutch.seed = 5),
                     cluster_map(cl, 1:2, draw, .seed = 5))
    expect_identical(with_options(collect(cluster_submit(cl, stats::runif(1))), clutch.seed = 5),
                     cluster_map(cl, 1, draw, .seed = 5)[[1]])
    attempts <- with_options(cluster_map_int(cl, 1, function(i) {
      if (clutch::task_attempt() == 1L) tools::pskill(Sys.getpid(), 9)
      clutch::task_attempt()
    }), clutch.retries = 1)
    expect_identical(attempts, 2L)
    expect_true(with_options(cluster_map_lgl(cl, 1, function(i) "package:stats4" %in% search()),
                             clutch.packages = "stats4"))
    assign("o_value", 1, globalenv())
    use <- eval(quote(function(i) exists("o_value", globalenv())), globalenv())
    looks <- eval(quote(function(i) {
      o_value
      TRUE
    }), globalenv())
    expect_true(cluster_map_lgl(cl, 1, looks))
    expect_s3_class(error_of(with_options(cluster_map_lgl(cl, 1, looks), clutch.globals = FALSE)),
                    "clutch_task_error")
    expect_true(with_options(cluster_map_lgl(cl, 1, use, .globals = "o_value"),
                             clutch.globals = FALSE))
    rm("o_value", envir = globalenv())
    with_options(cluster_map(cl, 1:20, identity), clutch.chunk = 10)
    expect_lte(length(unique(utils::tail(cluster_trace(cl)$sent, 20))), 2L)
  })
})

test_that("an option of no use is the error that the argument is, with the option's name", {
  with_one(function(cl) {
    bad <- list(timeout = list("10 s", 0, -1, NA_real_, c(1, 2)), retries = list("a", -1),
                chunk = list(0, "all"), seed = list("a", NA, 1:2),
                relay = list("sometimes", 1), on_error = list("ignore", NA),
                max_memory = list(0, "1 parsec"), progress = list("yes", NA, 1),
                globals = list(1, NA, list(2)), packages = list(1, "", NA_character_),
                fresh = list("yes", NA, 1), journal = list(1, "", c("a", "b"), NA_character_),
                journal_if_changed = list("perhaps", NA), journal_sync = list("1 s", -1),
                journal_errors = list("sometimes", TRUE),
                detach = list(NA, 3, list(5), list(time = "long")),
                pointers = list("sometimes", NA), needs = list(5, "a"),
                priority = list("first", NA, 0.5, 1001))
    expect_setequal(names(bad), names(clutch:::option_defaults))
    for (name in names(bad)) for (value in bad[[name]]) {
      option <- paste0("clutch.", name)
      argument <- paste0(".", name)
      e <- error_of(do.call(with_options,
                            c(list(quote(cluster_map(cl, 1, identity))),
                              structure(list(value), names = option))))
      expect_s3_class(e, "clutch_argument")
      expect_match(conditionMessage(e), sprintf("option '%s'", option), fixed = TRUE)
      of_argument <- error_of(do.call(cluster_map,
                                      c(list(cl, 1, identity),
                                        structure(list(value), names = argument))))
      expect_s3_class(of_argument, "clutch_argument")
      expect_identical(sub(sprintf("option '%s'", option), sprintf("`%s`", argument),
                           conditionMessage(e), fixed = TRUE),
                       conditionMessage(of_argument))
    }
    e <- error_of(with_options(cluster_submit(cl, 1), clutch.retries = "a"))
    expect_match(conditionMessage(e), "option 'clutch.retries'", fixed = TRUE)
    # those that mean nothing for one task are not looked at, and what a call gives is not
    expect_identical(with_options(collect(cluster_submit(cl, 1)), clutch.chunk = "a"), 1)
    expect_identical(with_options(cluster_map(cl, 1, identity, .retries = 0), clutch.retries = "a"),
                     list(1))
  })
})

test_that("a wrong option leaves the session's random numbers alone", {
  with_one(function(cl) {
    set.seed(1)
    before <- .Random.seed
    error_of(with_options(cluster_map(cl, 1, identity), clutch.max_memory = "a"))
    error_of(cluster_map(cl, 1, identity, .chunk = -1))
    expect_identical(.Random.seed, before)
  })
})

test_that("the default of a function around a map is not taken for one that was not given", {
  with_one(function(cl) {
    mine <- function(.on_error = "stop") {
      cluster_map(cl, 1, function(i) stop("no"), .on_error = .on_error)
    }
    expect_s3_class(error_of(with_options(mine(), clutch.on_error = "continue")),
                    "clutch_task_error")
    with_choices <- function(.on_error = c("stop", "continue"),
                             .relay = c("ordered", "live", "none")) {
      cluster_map(cl, 1, function(i) stop("no"), .on_error = .on_error, .relay = .relay)
    }
    expect_s3_class(error_of(with_choices()), "clutch_task_error")
    passed_on <- function(x, ...) cluster_map_dbl(cl, x, sqrt, ...)
    expect_identical(with_options(passed_on(4), clutch.chunk = 1), 2)
    e <- error_of(passed_on(4, .chunk = "a"))
    expect_match(conditionMessage(e), "`.chunk` has to be", fixed = TRUE)
  })
})

test_that("a wrong clutch.prestart is a warning of library(), and the package is attached", {
  attach_again <- function(value) {
    with_options(clutch:::.onAttach(NULL, "clutch"), clutch.prestart = value)
  }
  for (wrong in list("yes", 1, NA, c(TRUE, TRUE))) {
    w <- tryCatch(attach_again(wrong), warning = identity)
    expect_s3_class(w, "clutch_argument")
    expect_identical(conditionMessage(w), "option 'clutch.prestart' has to be TRUE or FALSE")
  }
  for (none in list(FALSE, NULL)) expect_silent(attach_again(none))
  code <- c("options(clutch.prestart = 'yes')", "library(clutch)",
            "cat('on:', 'package:clutch' %in% search())")
  env <- c(paste0("R_LIBS=", paste(.libPaths(), collapse = ":")), "R_TESTS=")
  printed <- system2(file.path(R.home("bin"), "Rscript"), c(rbind("-e", shQuote(code))),
                     stdout = TRUE, stderr = TRUE, env = env)
  expect_match(printed, "option 'clutch.prestart' has to be TRUE or FALSE", fixed = TRUE,
               all = FALSE)
  expect_match(printed, "on: TRUE", fixed = TRUE, all = FALSE)
})

test_that("every option that is read is on the help page", {
  folder <- system.file("help", package = "clutch")
  skip_if_not(nzchar(folder))
  help <- utils:::.getHelpFile(utils::help("clutch-options", package = "clutch"))
  text <- utils::capture.output(tools::Rd2txt(help, options = list(underline_titles = FALSE)))
  page <- paste(text, collapse = "\n")
  wanted <- paste0("clutch.",
                   c(names(clutch:::option_defaults), "task_grace", "max_size", "trace",
                     "cancel_grace", "budget", "idle_limit", "idle_seconds", "session_only",
                     "load_ahead", "wait_awake", "prestart", "share_from", "heartbeat", "reconnect",
                     "log", "trace_spans", "keep", "memory", "polite", "reduce_ahead", "frozen",
                     "queued"))
  for (name in wanted) expect_match(page, name, fixed = TRUE)
  code <- unlist(lapply(ls(asNamespace("clutch"), all.names = TRUE),
                        function(n) deparse(get(n, asNamespace("clutch")))))
  read <- unlist(regmatches(code, gregexpr("\"clutch[.][a-z_]+\"", code)))
  of_spans <- paste0("clutch.", c("failed", "cluster", "nodes", "node", "host")) # see event-otel.R
  # what scripts of ours tell a node that starts, and tests a session
  own <- paste0("clutch.", c("joins", "later", "lacks"))
  expect_setequal(setdiff(gsub("\"", "", unique(read)), c(own, of_spans)), wanted)
})

test_that("without option clutch.wait_awake session and nodes sleep while they wait", {
  outside_checks_only()
  needs("proc")
  old <- options(clutch.wait_awake = FALSE)
  on.exit(options(old))
  # nodes of this machine and of others are told so
  expect_identical(clutch:::told_env(4L, 2L), c(CLUTCH_NODE_CORES = "2", CLUTCH_WAIT_AWAKE = "0"))
  cl <- make_cluster(1)
  on.exit(stop_cluster(cl), add = TRUE)
  expect_true(works(cl))
  folder <- file.path("/proc", pids(cl))
  before <- times_asleep(folder) + times_asleep("/proc/self")
  for (i in 1:100) parallel::clusterCall(cl, identity, i)
  cluster_map(cl, 1:20, identity, .chunk = 1)
  # on one busy processor one of both may be awake each time
  expect_gte(times_asleep(folder) + times_asleep("/proc/self") - before, 100)
})
