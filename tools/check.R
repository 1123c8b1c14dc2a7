# Rscript tools/check.R RESULT-FILE [brief]
#
# R CMD build and R CMD check --as-cran, with no more than two processes at a time and without the
# network. Each of the check's own points is one that passed or failed: errors and warnings fail;
# notes pass, but are printed with their reason, or as without one.
#
# brief: of the test files only those that take less than 5 s by tools/test-seconds. 'make test' has
# run them all outside.
#
# RESULT-FILE gets "passed failed skipped", and RESULT-FILE.failed what failed.

# Warnings that only say that a program for the check is missing: skipped, and neither passed nor
# failed.
lacks <- "A complete check needs the 'checkbashisms' script|'qpdf' is needed for checks"

# Notes that are known, each as c(pattern in its text, why it stands).
known <- list(
  c(
    "superseded package",
    "packages snow and doSNOW are only suggested, for those who still use them with our clusters"
  ),
  c(
    "calls to attach\\(\\)",
    paste(
      "what a task has detached is attached again (.fresh); foreach's option attachExportEnv asks",
      "for it. Both on nodes only"
    )
  ),
  c(
    "installed size",
    "the compiled code has debugging symbols, as R's own settings here ask for: 0.8 MB without"
  ),
  c("New submission|^Maintainer: ", "who maintains it; it is not on CRAN"),
  c(
    "R_TempDir",
    paste(
      "a forked node needs a temporary folder of its own; R has no function for it",
      "(see src/r/node/node-start.c)"
    )
  ),
  c(
    "R_PolledEvents",
    paste(
      "a node tells its calls whenever R looks for interrupts; R has no other way for a package to",
      "be called then (see src/r/node/stack.c)"
    )
  ),
  c(
    "PRENV",
    paste(
      "what a promise stands for is found without its value; R has functions for it from 4.6 on,",
      "which are used there (see src/r/globals/search.c)"
    )
  ),
  c(
    "ptr_R_WriteConsole",
    "a forked node has no terminal: its console is in the session (see src/r/node/console.c)"
  ),
  c(
    "R_new_custom_connection",
    paste(
      "sockets are R connections; R has no other way for a package to make one",
      "(see src/r/socket/connection.c)"
    )
  )
)

args <- commandArgs(TRUE)
root <- getwd()
brief <- "brief" %in% args
files <- sub("^test-(.*)\\.R$", "\\1", list.files("tests/testthat", "^test-.*\\.R$"))
times <- utils::read.table("tools/test-seconds", col.names = c("file", "seconds"))
short <- setdiff(files, times$file[times$seconds >= 5])
result <- if (startsWith(args[1L], "/")) args[1L] else file.path(root, args[1L])
out <- file.path(root, ".build", "check")
unlink(out, recursive = TRUE)
dir.create(out, recursive = TRUE)
setwd(out)
progress <- file.path(out, "log.txt.tests") # how far the tests are; see tools/progress-limit.sh

# Not those of a make around us; and no library with a clutch in it
Sys.unsetenv(c("MAKEFLAGS", "MAKELEVEL", "MFLAGS", "NOT_CRAN", "CLUTCH_PORTABLE"))
Sys.setenv(
  "_R_CHECK_CRAN_INCOMING_" = "TRUE",
  "_R_CHECK_CRAN_INCOMING_REMOTE_" = "FALSE", # asks the network
  "_R_CHECK_CRAN_INCOMING_USE_ASPELL_" = "FALSE",
  "_R_CHECK_LIMIT_CORES_" = "TRUE",      # as CRAN's machines: an error for more than two processes
  "_R_CHECK_FORCE_SUGGESTS_" = "FALSE",
  "_R_CHECK_EXAMPLE_TIMING_THRESHOLD_" = "60", # this machine may be at other work
  "_R_CHECK_SYSTEM_CLOCK_" = "FALSE",    # asks the network
  CLUTCH_CHECK_PROGRESS = progress,
  CLUTCH_PROGRESS_REPORTER = file.path(root, "tools", "progress-reporter.R"),
  CLUTCH_FAST_TESTS = "1",               # the whole suite runs outside, once
  CLUTCH_CHECK_TESTS = if (brief) sprintf("^(%s)$", paste(short, collapse = "|")) else ""
)
# The package has been compiled before, and is twice here
if (dir.exists("/usr/lib/ccache")) {
  Sys.setenv(
    PATH = paste("/usr/lib/ccache", Sys.getenv("PATH"), sep = ":"),
    CCACHE_DIR = file.path(root, ".build", "ccache"),
    CCACHE_NOHASHDIR = "1" # the same in whatever folder it is compiled
  )
}
# What these programs would find is not looked at where they are missing: tools/deps.sh gets them
# where it can.
Sys.setenv(PATH = paste(Sys.getenv("PATH"), file.path(root, ".build", "tools"), sep = ":"))
for (program in c("checkbashisms", "qpdf")) {
  if (!nzchar(Sys.which(program))) cat("  without", program, "\n")
}
if (!l10n_info()[["UTF-8"]]) Sys.setenv(LC_ALL = "C.UTF-8")

fail <- function(text) {
  writeLines("0 1 0", result)
  cat("FAIL", text, "\n")
  quit("no", status = 1L)
}
# A check that hangs is ended, for R's own limits on tests are off by default: after 20 minutes
# without a line in its log or an event of its tests. A check that goes on is not ended.
limit <- c(
  if (nzchar(Sys.which("setsid"))) c("setsid", "--wait"),
  shQuote(file.path(root, "tools", "progress-limit.sh")),
  Sys.getenv("CLUTCH_CHECK_SECONDS", "1200"), "log.txt"
)
r <- function(...) {
  unlink(progress)
  suppressWarnings(system2(
    limit[1L], c(limit[-1L], file.path(R.home("bin"), "R"), "CMD", ...),
    stdout = "log.txt", stderr = "log.txt", stdin = "/dev/null"
  ))
}
# Why it ended, where that is not in its own log
how_ended <- function(status) {
  if (!file.exists("log.txt.stalled")) return(paste("R CMD check ended with exit status", status))
  at <- if (file.exists(progress)) readLines(progress, 1L)
  paste(c("R CMD check was ended, since it made no progress", at), collapse = " at ")
}

# Without what makes pages of the vignettes the rest is checked, and they count as skipped.
pages <- requireNamespace("knitr", quietly = TRUE) &&
  requireNamespace("rmarkdown", quietly = TRUE) &&
  rmarkdown::pandoc_available("1.12.3")

if (r("build", if (!pages) "--no-build-vignettes", shQuote(root)) != 0L) {
  writeLines(readLines("log.txt"))
  fail("R CMD build")
}
tarball <- list.files(pattern = "\\.tar\\.gz$")
status <- r("check", "--as-cran", "--no-manual", if (!pages) "--ignore-vignettes", shQuote(tarball))
log <- list.files(pattern = "^00check\\.log$", recursive = TRUE)
if (!length(log)) {
  writeLines(readLines("log.txt"))
  fail("R CMD check did not begin")
}
lines <- readLines(log[1L], encoding = "UTF-8")
quoted <- function(p) gsub("[\u2018\u2019]", "'", p)

# The check says in the middle of another point that it has no qpdf.
without_qpdf <- which(lines == " WARNING" & grepl("'qpdf' is needed", quoted(c(lines[-1L], ""))))
lines[without_qpdf] <- "* checking sizes of PDF files ... WARNING"

# A point begins with "* " and lasts until the next; its verdict ends its first line, or, where
# output comes in between (tests, examples), another line.
begins <- grep("^\\* ", lines)
points <- Map(function(from, to) lines[from:to], begins, c(begins[-1L] - 1L, length(lines)))
points <- points[grepl("^\\* checking ", vapply(points, `[`, "", 1L))]
verdict <- vapply(points, function(p) {
  words <- regmatches(p, regexpr("(?<= )(OK|NOTE|WARNING|ERROR|SKIPPED|INFO)$", p, perl = TRUE))
  sub <- regmatches(p, regexpr("(?<=\\.\\.\\. )(OK|NOTE|WARNING|ERROR)(?= \\()", p, perl = TRUE))
  for (v in c("ERROR", "WARNING", "NOTE", "OK")) if (v %in% c(words, sub)) return(v)
  ""
}, "")

skipped <- verdict == "WARNING" & vapply(points, function(p) any(grepl(lacks, quoted(p))), NA)
verdict[skipped] <- "SKIPPED"

failed <- paste0(result, ".failed")
unlink(failed)
for (v in c("ERROR", "WARNING", "NOTE", "SKIPPED")) {
  for (p in points[verdict == v]) {
    if (v %in% c("ERROR", "WARNING")) write(utils::tail(p, 15L), failed, append = TRUE)
    cat(paste0("  ", p), sep = "\n")
    if (v == "NOTE") {
      why <- Filter(function(k) any(grepl(k[1L], p)), known)
      text <- paste(vapply(why, `[`, "", 2L), collapse = "\n  -> ")
      cat("  ->", if (length(why)) text else "not explained in tools/check.R yet", "\n")
    }
  }
}
# Outputs of failed tests and examples are in files of their own
failed_output <- list.files(".", pattern = "\\.Rout\\.fail$", recursive = TRUE, full.names = TRUE)
for (f in failed_output) {
  text <- c(paste("---", f), paste0("  ", utils::tail(readLines(f), 60L)))
  writeLines(text)
  write(text, failed, append = TRUE)
}

bad <- sum(verdict %in% c("ERROR", "WARNING"))
notes <- sum(verdict == "NOTE")
good <- sum(verdict == "OK") + notes
# The check's own sum is right where this reading of its log is not.
summary <- grep("^Status: ", lines, value = TRUE)
most_warnings <- if (any(skipped)) "ERROR" else "ERROR|WARNING"
if (!bad && (status != 0L || !length(summary) || grepl(most_warnings, summary))) {
  writeLines(utils::tail(readLines("log.txt"), 30L))
  cat("FAIL", how_ended(status), "\n")
  write(how_ended(status), failed, append = TRUE)
  bad <- 1L
}
if (!pages) {
  cat("  the vignettes were neither built nor checked: knitr, rmarkdown or pandoc is missing\n")
}
writeLines(paste(good, bad, sum(skipped) + !pages), result)
if (brief) cat("  tests of", length(short), "of", length(files), "files; all: make check\n")
cat(
  "R CMD check: ", good, " points passed", if (notes) paste0(" (", notes, " with a note)"),
  ", ", bad, " failed; log: ", file.path(".build", "check", log[1L]), "\n",
  sep = ""
)
quit("no", status = if (bad) 1L else 0L)
