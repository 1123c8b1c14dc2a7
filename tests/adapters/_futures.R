# For the suites of packages that use futures: their tests with plan(multisession), and the same
# with plan(clutch) in its place, each in R processes of their own.

# The texts by which tests choose a plan. `plan`: a string that tweak() takes.
with_plan <- function(plan) {
  list_of <- sprintf("supportedStrategies <- function(...) \"%s\"; .replaced <- function(", plan)
  by_loop <- sprintf("supported_strategies <- function() return(\"%s\"); .replaced <- function(",
                     plan)
  function(lines) {
    lines <- sub("^supportedStrategies <- function\\(", list_of, lines)
    lines <- sub("^supported_strategies <- function\\(", by_loop, lines)
    lines <- gsub("(plan\\()multisession\\b", sprintf("\\1\"%s\"", plan), lines)
    gsub("\"multisession\"", sprintf("\"%s\"", plan), lines, fixed = TRUE)
  }
}

plans <- c(multisession = "multisession", clutch = "clutch::clutch")

# Scripts that futureverse's packages run by testme(): each is one check.
run_testme <- function(package) {
  folder <- sources_of(package)
  if (is.null(folder)) return(invisible())
  for (with in names(plans)) {
    tests <- copy_tests(file.path(folder, "inst", "testme"))
    change <- with_plan(plans[[with]])
    for (f in list.files(tests, "\\.R$", full.names = TRUE, recursive = TRUE)) {
      writeLines(change(readLines(f, warn = FALSE)), f)
    }
    names <- sub("^test-(.*)\\.R$", "\\1", list.files(tests, "^test-.*\\.R$"))
    ends <- vapply(names, function(name) run_testme_script(package, tests, name), "")
    for (name in names[ends == "failed"]) cat("  failed:", name, "\n")
    say_counts(package, with, sum(ends == "passed"), sum(ends == "failed"), sum(ends == "skipped"))
  }
}

run_testme_script <- function(package, tests, name) {
  code <- sprintf("source(\"%s\")", file.path(tests, "run.R"))
  env <- c(R_TESTME_PATH = tests, R_TESTME_PACKAGE = package, R_TESTME_NAME = name, NOT_CRAN = "true")
  log <- tempfile()
  status <- system2(file.path(R.home("bin"), "Rscript"), c("-e", shQuote(code)), stdout = log,
                    stderr = log, timeout = 900, env = sprintf("%s=%s", names(env), shQuote(env)))
  if (status != 0L && nzchar(Sys.getenv("VERBOSE"))) cat(readLines(log), sep = "\n")
  if (status != 0L) return("failed")
  if (any(grepl("skipped", readLines(log), fixed = TRUE))) "skipped" else "passed"
}
