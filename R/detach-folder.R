# Where detached maps are listed: a folder of the user's, and in it a folder for each of them, its
# entry. There is no socket: whoever can read and write the folder can see and end the maps, on each
# host that sees it.
#
# An entry has these files. Each is written by one process at a time, and appears as a whole:
#   job.rds    what is known when the map is submitted, see new_entry()
#   source     packages from their source, where the session has such: see R/task-source.R
#   work       what its runner does, see R/runner-main.R; it goes when that has ended
#   owner      the process that is the runner, see R/journal-lock.R; touched every 10 s
#   tmp        the path of its temporary folder; it goes when the runner has ended by itself
#   progress   how far the runner is: see write_progress()
#   run.sh     the program for what starts the runner, where that is a command of the user's
#   there.rds  of a map on another host: see R/detach-ask.R
#   cancel     who wants it to end makes this file
#   end.rds    how it has ended: see read_end()
#   log        what the runner and its nodes print
#   after.rds  what is made of the values in the end, see job_after()

# The folder; with `create` it is made, else NULL where there is none.
jobs_folder <- function(create = FALSE) {
  path <- Sys.getenv("CLUTCH_JOBS_FOLDER")
  if (!nzchar(path)) path <- file.path(tools::R_user_dir("clutch", "data"), "jobs")
  if (create) dir.create(path, showWarnings = FALSE, recursive = TRUE, mode = "0700")
  if (!create && !file.exists(path) && !is_link(path)) return(NULL)
  if (is_private_folder(path)) return(path)
  throw("jobs", sprintf(paste("detached maps are listed in folder '%s', which has to be a folder",
                              "of this user's that nobody else can read (mode 0700)"), path))
}

is_link <- function(path) !Sys.readlink(path) %in% c("", NA)

entry_file <- function(entry, name) file.path(entry, name)

# An entry for a map: its folder. `job`: a list, which gets `id` and the like.
new_entry <- function(job) {
  folder <- jobs_folder(create = TRUE)
  job$id <- paste0(format(Sys.time(), "%Y%m%d-%H%M%S-"), basename(tempfile("")))
  job$since <- Sys.time()
  job$host <- Sys.info()[["nodename"]]
  job$r <- as.character(getRversion())
  job$clutch <- own_version()
  entry <- file.path(folder, job$id)
  if (!dir.create(entry, showWarnings = FALSE, mode = "0700")) {
    throw("jobs", sprintf("folder '%s' cannot be made", entry))
  }
  ok <- FALSE
  on.exit(if (!ok) unlink(entry, recursive = TRUE))
  write_object(job, entry_file(entry, "job.rds"))
  ok <- TRUE
  entry
}

# Writes a file that nobody sees before it is whole.
write_object <- function(x, file) {
  new <- paste0(file, ".new")
  old <- Sys.umask("077")
  on.exit(Sys.umask(old))
  tryCatch(suppressWarnings(saveRDS(x, new, compress = FALSE)), error = function(e) {
    unlink(new)
    throw("jobs", sprintf("file '%s' cannot be written: %s", file, conditionMessage(e)))
  })
  file.rename(new, file)
  invisible()
}

# NULL: there is no such file, or it cannot be read.
read_object <- function(file) {
  if (!file.exists(file)) return(NULL)
  tryCatch(suppressWarnings(readRDS(file)), error = function(e) NULL)
}

# Its file job.rds, or NULL: the entry is gone.
job_of_entry <- function(entry) read_object(entry_file(entry, "job.rds"))

# `jobs`: a list of these. NULL has the name "".
names_of_jobs <- function(jobs) {
  vapply(jobs, function(job) if (is.null(job$name)) "" else job$name, "")
}

# All entries of this user's, the oldest first: their folders.
all_entries <- function() {
  folder <- jobs_folder()
  if (is.null(folder)) return(character())
  entries <- list.dirs(folder, recursive = FALSE)
  sort(entries[file.exists(file.path(entries, "job.rds"))])
}

remove_entry <- function(entry) {
  remove_temporary(entry)
  unlink(entry, recursive = TRUE)
}

# Removes the temporary folder of a runner that was killed.
remove_temporary <- function(entry) {
  folder <- read_lines(entry, "tmp")
  if (length(folder) != 1L || !is_owner_here(owner_of_entry(entry)) || is_owned(entry)) {
    return(invisible())
  }
  if (startsWith(basename(folder), "Rtmp") && is_private_folder(folder)) {
    unlink(folder, recursive = TRUE)
  }
  unlink(entry_file(entry, "tmp"))
}

# ---- how far it is ----

# One line: elements that have ended, those of them that have failed, and when that was, in seconds
# since the epoch.
write_progress <- function(entry, done, failed) {
  file <- entry_file(entry, "progress")
  new <- paste0(file, ".new")
  time <- format(as.numeric(Sys.time()), digits = 15, decimal.mark = ".") # whatever OutDec is
  cat(done, failed, time, "\n", file = new)
  file.rename(new, file)
}

# The value is c(done, failed, time), or NULL.
read_progress <- function(entry) {
  words <- strsplit(read_lines(entry, "progress"), " ", fixed = TRUE)
  numbers <- if (length(words)) suppressWarnings(as.numeric(words[[1L]]))
  if (length(numbers) < 3L || anyNA(numbers[1:3])) return(NULL)
  structure(numbers[1:3], names = c("done", "failed", "time"))
}

# ---- what has become of it ----

SECONDS_TO_START <- 60 # that a runner has until its file `owner` is there

# list(state, and what else is known); NULL: it has not ended. States are "done" (`failed`: number
# of elements that have; `errors`: of these, by number), "failed", "limit" (both with `error`), and
# "cancelled".
read_end <- function(entry) read_object(entry_file(entry, "end.rds"))

# One word: "queued" (what is to start its runner has not done so), "starting", "running", "lost"
# (its runner has ended before its map), or one of read_end().
state_of_entry <- function(entry) {
  end <- read_end(entry)
  if (!is.null(end)) return(end$state)
  if (!file.exists(entry_file(entry, "owner"))) {
    if (file.exists(entry_file(entry, "run.sh"))) return("queued")
    age <- as.numeric(Sys.time()) - as.numeric(file.mtime(entry_file(entry, "work")))
    return(if (isTRUE(age < SECONDS_TO_START)) "starting" else "lost")
  }
  if (is_owned(entry)) return(if (is.null(read_progress(entry))) "starting" else "running")
  end <- read_end(entry) # it may have come meanwhile
  if (is.null(end)) "lost" else end$state
}

# The process that is its runner, as owner_of() has it; NULL: there is none.
owner_of_entry <- function(entry) {
  if (file.exists(entry_file(entry, "owner"))) owner_of(entry_file(entry, "owner"))
}

is_owner_here <- function(owner) {
  here <- this_owner()
  !is.null(owner) && nzchar(owner$pid) && owner$host == here$host && owner$boot == here$boot
}

# Tells whether its runner is there.
is_owned <- function(entry) {
  lock <- entry_file(entry, "owner")
  owner <- owner_of(lock)
  # NULL: the line is about to be written
  is.null(owner) && file.exists(lock) || !is.null(owner) && is_at_work(owner, lock)
}

has_ended_as <- function(state) {
  !state %in% c("queued", "starting", "running", "unreachable")
}

# list(state, progress, owner, end), see above.
status_of_entry <- function(entry) {
  state <- state_of_entry(entry)
  list(state = state, progress = read_progress(entry), owner = owner_of_entry(entry),
       end = read_end(entry))
}
