# mirai's own tests, in which only the start of daemons is replaced: by programs on nodes of ours
# ("launch"), or by mirai_daemons() in place of mirai::daemons(n) ("mirai_daemons"). Each in a
# process of its own, since the tests change what mirai remembers.

home <- Sys.getenv("CLUTCH_ADAPTER_TESTS", "tests/adapters")
source(file.path(home, "_common.R"))

set_function <- function(name, value) {
  ns <- asNamespace("mirai")
  # the attached package has a copy of what is exported
  where <- c(ns, if (name %in% getNamespaceExports(ns)) as.environment("package:mirai"))
  for (env in where) {
    unlockBinding(name, env)
    assign(name, value, envir = env)
    lockBinding(name, env)
  }
}

started <- new.env()
replace_launch <- function() {
  set_function("launch_daemon", function(args) {
    programs <- clutch:::start_programs(args, clutch:::run_daemon, keep = TRUE, load = "cli")
    started$programs <- c(started$programs, list(programs))
  })
}

replace_daemons <- function() {
  theirs <- mirai::daemons
  set_function("daemons", function(n, url = NULL, remote = NULL, ..., sync = FALSE) {
    is_local <- is.null(url) && !sync && is.numeric(n) && n >= 1
    if (is_local) return(clutch::mirai_daemons(n, ...))
    theirs(n, url = url, remote = remote, ..., sync = sync)
  })
}

# Each test_...() of the file counts, also when one before it has failed. It is evaluated in the
# workspace: from any other environment each task would take all variables of the tests along.
run_file <- function(file) {
  env <- globalenv()
  seen <- "test_library"
  counts <- c(passed = 0L, failed = 0L)
  counted <- function(test, name) {
    force(test)
    function(...) {
      call <- deparse1(sys.call())
      failure <- tryCatch({
        utils::capture.output(test(...))
        NULL
      }, error = identity)
      counts[[if (is.null(failure)) "passed" else "failed"]] <<-
        counts[[if (is.null(failure)) "passed" else "failed"]] + 1L
      if (!is.null(failure)) {
        cat("  failed:", name, substr(call, 1L, 150L), "-", conditionMessage(failure), "\n")
      }
      invisible(is.null(failure))
    }
  }
  for (expr in parse(file)) {
    began <- Sys.time()
    failure <- tryCatch({
      eval(expr, env)
      NULL
    }, error = identity)
    if (!is.null(failure)) {
      counts[["failed"]] <- counts[["failed"]] + 1L
      cat("  failed:", substr(deparse1(expr), 1L, 60L), "-", conditionMessage(failure), "\n")
    }
    # on a busy machine the first mirai is late, and all that follows would be left out
    if (!is.null(env$connection)) env$connection <- TRUE
    took <- as.numeric(Sys.time() - began, units = "secs")
    if (took > 1 && nzchar(Sys.getenv("VERBOSE"))) {
      cat(sprintf("  %.0f s, %d passed so far, %d failed: %s\n", took, counts[["passed"]],
                  counts[["failed"]], substr(deparse1(expr), 1L, 80L)))
    }
    for (name in setdiff(ls(env, pattern = "^test_"), seen)) {
      if (!is.function(env[[name]])) next
      env[[name]] <- counted(env[[name]], name)
      seen <- c(seen, name)
    }
  }
  counts
}

run_one <- function(with, file) {
  Sys.setenv(NOT_CRAN = "true")
  suppressPackageStartupMessages(library(mirai))
  switch(with,
    mirai = NULL,
    `clutch, launch` = replace_launch(),
    `clutch, mirai_daemons` = replace_daemons()
  )
  counts <- run_file(file)
  # the end of the process would take away how it ends
  for (p in started$programs) clutch:::stop_programs(p)
  say_counts("mirai", with, counts[["passed"]], counts[["failed"]], 0L)
}

run_all <- function() {
  folder <- sources_of("mirai")
  if (is.null(folder)) return()
  tests <- file.path(folder, "tests", "tests.R")
  rscript <- file.path(R.home("bin"), "Rscript")
  for (with in c("mirai", "clutch, launch", "clutch, mirai_daemons")) {
    args <- c(shQuote(file.path(home, "mirai.R")), shQuote(with), shQuote(tests))
    out <- suppressWarnings(system2(rscript, args, stdout = TRUE, stderr = TRUE))
    said <- grep("^  failed:|^mirai \\(", out, value = TRUE)
    # what the tests themselves have launched prints, too
    writeLines(if (any(startsWith(said, "mirai ("))) said else out)
  }
}

if (length(commandArgs(TRUE))) {
  run_one(commandArgs(TRUE)[[1L]], commandArgs(TRUE)[[2L]])
} else {
  run_all()
}
