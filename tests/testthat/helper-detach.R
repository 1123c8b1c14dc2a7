# Detached maps of tests are listed in a folder of their own.

new_jobs_folder <- function() {
  folder <- tempfile("jobs-")
  dir.create(folder, mode = "0700")
  Sys.setenv(CLUTCH_JOBS_FOLDER = folder)
  folder
}

# Ends all of it. Nothing may be at work any more.
end_jobs <- function(folder) {
  Sys.setenv(CLUTCH_JOBS_FOLDER = folder)
  suppressWarnings(cluster_jobs(stop = TRUE))
  ended <- eventually(!length(runners_in(folder)))
  unlink(folder, recursive = TRUE)
  Sys.unsetenv("CLUTCH_JOBS_FOLDER")
  testthat::expect_true(ended)
}

# Processes whose environment has this folder: runners, their fork servers and nodes. Those that
# this session has started itself are none.
runners_in <- function(folder) processes_with(paste0("CLUTCH_JOBS_FOLDER=", folder))
# `mark`: a variable as "NAME=value". `own`: with those that this session has started itself.
processes_with <- function(mark, own = FALSE) {
  pids <- setdiff(list.files("/proc", "^[0-9]+$"), as.character(Sys.getpid()))
  has_mark <- function(pid) {
    env <- tryCatch(suppressWarnings(readBin(file.path("/proc", pid, "environ"), "raw", 1e5)),
                    error = function(e) raw())
    env[env == 0] <- charToRaw("\n")
    mark %in% strsplit(rawToChar(env), "\n", fixed = TRUE)[[1L]] && alive(pid)
  }
  as.integer(Filter(function(pid) has_mark(pid) && (own || !descends_from_here(pid)), pids))
}

descends_from_here <- function(pid) {
  while (!pid %in% c("0", "1", Sys.getpid())) {
    stat <- tryCatch(suppressWarnings(readLines(file.path("/proc", pid, "stat"))),
                     error = function(e) "0 (gone) Z 0")
    pid <- strsplit(sub("^.*\\) ", "", stat[[1L]]), " ")[[1L]][[2L]]
  }
  pid == Sys.getpid()
}

runner_of <- function(job) as.integer(clutch:::owner_of(file.path(job$entry, "owner"))$pid)

# A journal that is not there yet.
journal_file <- function() {
  folder <- tempfile("journal-")
  dir.create(folder)
  file.path(folder, "fits.journal")
}

state_of <- function(job) clutch:::state_of_job(job)

# NULL: nothing is there yet, or what is there cannot be read yet.
journal_read_quietly <- function(path) {
  if (file.exists(path)) tryCatch(journal_read(path), error = function(e) NULL)
}
