# A pipeline of targets with steps that do nothing: crew's own local workers, and those of crew_controller_clutch().
# Each run is an R of its own. targets may be in the library of tools/deps.sh newer-library: R_LIBS has to name it.
source("bench/_common.R")
suppressPackageStartupMessages(library(clutch))
machine()
n <- as.integer(option("n", if (quick) "20" else "200"))

run <- function(controller, folder) {
  dir.create(folder)
  on.exit(unlink(folder, recursive = TRUE))
  script <- file.path(folder, "run.R")
  target <- "lapply(1:%d, function(i) tar_target_raw(paste0('x', i), substitute(i^2, list(i = i))))"
  writeLines(c(
    "library(targets)",
    sprintf("tar_option_set(controller = %s(workers = 2))", controller),
    sprintf(target, n)
  ), file.path(folder, "_targets.R"))
  writeLines(c(
    "library(targets)", sprintf("setwd('%s')", folder), "began <- proc.time()[[3L]]",
    "tar_make(callr_function = NULL, reporter = 'silent')",
    "cat(proc.time()[[3L]] - began, '\\n')"
  ), script)
  said <- system2(file.path(R.home("bin"), "Rscript"), c("--vanilla", script), stdout = TRUE)
  as.numeric(said[[length(said)]])
}
controllers <- c(crew = "crew::crew_controller_local", clutch = "clutch::crew_controller_clutch")
times <- replicate(repetitions(5L), vapply(controllers, run, 1, folder = tempfile("pipeline-")))
print(data.frame(seconds = apply(times, 1L, median), least = apply(times, 1L, min),
                 most = apply(times, 1L, max)))
