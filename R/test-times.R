# How long the test files of a package took, remembered between sessions: the longest begin first.

MOST_SUITES <- 100L # of so many the times are kept

# Named numbers of seconds, by the name of the file.
known_times <- function(s) {
  known <- all_times()[[s$dir]]
  if (is.null(known)) numeric() else known
}

remember_times <- function(s, files) {
  took <- vapply(files, function(f) f$took, 0)
  # of a file in parts the sum; NA where one of them did not come to its end
  took <- tapply(took, vapply(files, function(f) f$name, ""), sum)
  took <- took[!is.na(took)]
  if (!length(took)) return(invisible())
  known <- known_times(s)
  known[names(took)] <- took
  all <- all_times()
  all[[s$dir]] <- NULL
  all <- utils::tail(c(all, stats::setNames(list(known), s$dir)), MOST_SUITES)
  write_times(all)
}

times_file <- function() file.path(tools::R_user_dir("clutch", "cache"), "test-times.rds")

# A file that cannot be read is none.
all_times <- function() {
  path <- times_file()
  if (!file.exists(path)) return(list())
  all <- tryCatch(readRDS(path), error = function(e) list())
  if (is.list(all)) all else list()
}

# Where it cannot be written the next run does not know.
write_times <- function(all) {
  path <- times_file()
  dir.create(dirname(path), showWarnings = FALSE, recursive = TRUE)
  new <- tempfile("test-times-", dirname(path))
  written <- tryCatch({
    suppressWarnings(saveRDS(all, new))
    TRUE
  }, error = function(e) FALSE)
  if (written) file.rename(new, path)
  invisible()
}
