# A cluster with packages in a new session: with a fork server that a session before has kept (make_cluster(keep = )), and
# without. Each start is in an R of its own, in turn. Small table on the screen; nothing is written.
source("bench/_common.R")
suppressPackageStartupMessages(library(clutch))
machine()
# not those that start threads, as dplyr does: each of their nodes is a new R
packages <- Filter(function(p) nzchar(system.file(package = p)), c("survival", "mgcv", "stats4"))
folder <- tempfile("keep-")
dir.create(folder, mode = "0700")
Sys.setenv(CLUTCH_VIEW_FOLDER = folder)
script <- tempfile(fileext = ".R")
writeLines(c(
  "suppressPackageStartupMessages(library(clutch))",
  "began <- clutch:::clock()",
  sprintf("cl <- make_cluster(8, packages = %s, keep = as.numeric(commandArgs(TRUE)))", deparse1(packages)),
  "cat('SECONDS', clutch:::clock() - began, '\\n')"
), script)
start <- function(keep) {
  said <- system2(file.path(R.home("bin"), "Rscript"), c(script, keep), stdout = TRUE, stderr = FALSE)
  as.numeric(sub("SECONDS ", "", grep("^SECONDS", said, value = TRUE)))
}
invisible(start(600))
raw <- NULL
for (r in seq_len(repetitions(10L, 5L))) {
  Sys.sleep(1) # the server that was used is ready for the next
  raw <- rbind(raw, data.frame(rep = r, kept = start(600), own = start(0)))
}
clutch:::stop_kept_servers()
unlink(folder, recursive = TRUE)
cat(sprintf("make_cluster(8, packages = c(%s)) in a new session, %d times, ms:\n", toString(packages), nrow(raw)))
print(1000 * sapply(raw[-1L], function(x) c(lowest = min(x), median = median(x), highest = max(x))), digits = 3L)
cat(sprintf("without a kept fork server %.0f times as long (median of the ratios)\n", median(raw$own / raw$kept)))
