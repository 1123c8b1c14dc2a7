# The test suites of packages from CRAN: by testthat one file after the other, as devtools::test()
# runs them, by testthat's own parallel mode, and by cluster_test(). Are the results the same, and
# how long does it take from start to end?
#
# Each run is an R of its own, but "again", which is the second call of cluster_test() in a session.
# A package is left out that cannot be had, has no suite of testthat, or does not load here. What
# testthat itself does not give twice is told.
#
#   Rscript bench/suites.R [--packages=withr,hms,...]     QUICK=1: five packages
source("bench/_common.R")
use_deps_libraries(c("library", "models"))
machine()
many <- c(
  "memoise", "prettyunits", "sessioninfo", "rematch2", "magrittr", "crayon", "withr",
  "brio", "desc", "evaluate", "lazyeval", "pkgconfig", "collections", "import", "commonmark",
  "jsonlite", "yaml", "pillar", "tibble", "tidyselect", "stringr", "rex", "zeallot", "assertthat",
  "snakecase", "viridisLite", "hms", "forcats", "clipr", "ini", "zip", "bit", "bit64", "DBI",
  "blob", "pls", "permute", "getopt", "optparse", "logger", "lgr", "checkmate", "humaniformat",
  "cpp11", "sourcetools", "htmltools", "rappdirs", "utf8", "cachem", "fastmap", "later"
)
few <- c("memoise", "brio", "withr", "blob", "hms")
packages <- strsplit(option("packages", paste(if (quick) few else many, collapse = ",")), ",")[[1L]]
dir <- tempfile("suites-")
dir.create(dir)
Sys.setenv(NOT_CRAN = "true", TESTTHAT_CPUS = "2", R_USER_CACHE_DIR = file.path(dir, "cache"))

# ---- one suite ----

calls <- c(
  testthat = "testthat::test_local(root, reporter = 'silent', stop_on_failure = FALSE)",
  clutch = "clutch::cluster_test(root, nodes = 2, reporter = 'silent', stop_on_failure = FALSE)"
)
columns <- "c('file', 'test', 'nb', 'failed', 'skipped', 'error', 'warning')"
# Seconds of the whole R, and what became of each test; NULL: it has not come to that.
run_of <- function(root, who, again = FALSE) {
  script <- tempfile(fileext = ".R")
  found <- paste0(script, ".rds")
  call <- calls[[who]]
  writeLines(c(
    sprintf("root <- '%s'", root),
    if (again) call,
    "t <- Sys.time()",
    sprintf("r <- as.data.frame(%s)[%s]", call, columns),
    "r$test <- as.character(r$test)",
    "r <- r[order(r$file), ]", # in parallel they come as they end
    sprintf("saveRDS(list(r, as.numeric(Sys.time() - t, units = 'secs')), '%s')", found)
  ), script)
  args <- c("600", file.path(R.home("bin"), "Rscript"), "--vanilla", script)
  took <- seconds(system2("timeout", args, stdout = FALSE, stderr = FALSE))
  if (!file.exists(found)) return(NULL)
  x <- readRDS(found)
  list(seconds = if (again) x[[2L]] else took, results = x[[1L]])
}
equal <- function(a, b) isTRUE(all.equal(a$results, b$results, check.attributes = FALSE))

PARALLEL <- "Config/testthat/parallel: true"

# A copy in which testthat does not run in parallel.
sources_of <- function(package, archive) {
  at <- tempfile("source-", dir)
  utils::untar(archive, exdir = at)
  about <- file.path(at, package, "DESCRIPTION")
  lines <- readLines(about)
  writeLines(lines[!startsWith(lines, "Config/testthat/parallel")], about)
  file.path(at, package)
}

measure <- function(package) {
  archive <- tryCatch(
    utils::download.packages(package, dir, type = "source", quiet = TRUE)[1L, 2L],
    error = function(e) NULL
  )
  if (is.null(archive)) return(NULL)
  root <- sources_of(package, archive)
  on.exit(unlink(dirname(root), recursive = TRUE))
  if (!dir.exists(file.path(root, "tests", "testthat"))) return(NULL)
  first <- run_of(root, "testthat") # compiles what there is to compile
  if (is.null(first)) return(NULL)
  serial <- run_of(root, "testthat")
  ours <- run_of(root, "clutch")
  again <- run_of(root, "clutch", again = TRUE)
  about <- file.path(root, "DESCRIPTION")
  theirs <- if (read.dcf(about, "Config/testthat/edition")[[1L]] %in% "3") {
    cat(PARALLEL, "\n", sep = "", file = about, append = TRUE)
    run_of(root, "testthat")
  }
  of <- function(x) if (is.null(x)) NA_real_ else x$seconds
  data.frame(package = package, files = length(unique(serial$results$file)),
             tests = nrow(serial$results), stable = equal(first, serial),
             same = equal(serial, ours), testthat = of(serial), parallel = of(theirs),
             clutch = of(ours), again = of(again))
}

rows <- list()
for (package in packages) {
  row <- measure(package)
  if (is.null(row)) {
    cat("without", package, "\n")
    next
  }
  print(row, row.names = FALSE, digits = 3)
  rows[[package]] <- row
}
table <- do.call(rbind, rows)
show(table, "suites")
cat(sprintf("%d suites: results of %d the same, %d not slower than one file after the other\n",
            nrow(table), sum(table$same), sum(table$clutch <= table$testthat, na.rm = TRUE)))
method("suites",
  what = "seconds of an R, start to end; *again*: of the second call in a session",
  order = "testthat, clutch, clutch again, testthat's parallel mode, once each",
  warm = "each suite was run once by testthat before, which compiles")
unlink(dir, recursive = TRUE)
