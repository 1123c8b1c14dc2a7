# The journal of an actor: a line of text, and objects in R's binary format, each behind the number
# of its bytes. The first is the state of the random numbers when the actor began for the first
# time, each other one a call that has ended: list(method, arguments). What a process that died has
# left half-written at its end is cut off. A lock as that of other journals keeps it to one actor.

ACTOR_JOURNAL <- charToRaw("clutch actor journal 1\n")
OBJECT_BEGINS <- charToRaw("B\n")

check_actor_journal <- function(path) {
  if (!is_string(path) || !nzchar(path)) has_to_be("`.journal`", "the path of a file, or NULL")
  path <- path.expand(path)
  folder <- dirname(path)
  if (!dir.exists(folder)) throw("argument", sprintf("there is no folder '%s'", folder))
  journal_path(path)
}

# In the process of the actor, before its function is called: an environment with con, path, lock,
# calls.
open_actor_journal <- function(path) {
  refuse_foreign_lock(path)
  lock <- lock_journal(path)
  opened <- FALSE
  log <- NULL
  on.exit(if (!opened) {
    if (is.null(log)) remove_lock(lock, this_owner()) else close_actor_journal(log)
  })
  found <- if (file.exists(path)) read_objects(path) else list(objects = list(), end = 0)
  if (file.exists(path) && file.size(path) > found$end) cut_off(path, found$end)
  log <- list2env(list(con = file(path, "ab"), path = path, lock = lock,
                       calls = found$objects[-1L]))
  seed <- if (length(found$objects)) found$objects[[1L]]$seed
  if (found$end == 0) writeBin(ACTOR_JOURNAL, log$con)
  if (is.null(seed)) {
    if (!exists(".Random.seed", globalenv(), inherits = FALSE)) stats::runif(1)
    append_object(log, list(seed = get(".Random.seed", globalenv())))
  } else {
    assign(".Random.seed", seed, globalenv())
  }
  opened <- TRUE
  log
}

# An actor that has ended is let go whatever fails here: its calls were written when they ended.
close_actor_journal <- function(log) {
  if (is_same_connection(log$con)) try(close(log$con), silent = TRUE)
  remove_lock(log$lock, this_owner())
}

# The connection says nothing of a full disk: the length of the file does. What is there of the
# object then is cut off, or others behind it could not be read.
append_object <- function(log, x) {
  bytes <- serialize(x, NULL, xdr = FALSE)
  bytes <- c(writeBin(as.numeric(length(bytes)), raw()), bytes)
  # other code of this process may have closed all connections
  if (!is_same_connection(log$con)) log$con <- file(log$path, "ab")
  flush(log$con)
  before <- file.size(log$path)
  suppressWarnings(writeBin(bytes, log$con))
  flush(log$con)
  if (identical(file.size(log$path), before + length(bytes))) return(invisible())
  try(cut_off(log$path, before), silent = TRUE)
  throw("journal", sprintf("journal '%s' cannot be written to: what is in it is whole", log$path))
}

record_in_actor_journal <- function(log, method, args) append_object(log, list(method, args))

# Nobody touches the lock while an actor waits, so its age tells nothing about one on another host,
# or in another space of process numbers. Where the system does not tell when a process was started,
# one of that number is taken for it.
refuse_foreign_lock <- function(path) {
  lock <- paste0(path, ".lock")
  owner <- if (file.exists(lock)) owner_of(lock)
  if (is.null(owner) || !nzchar(owner$host)) return()
  here <- this_owner()
  if (owner$host == here$host && owner$boot == here$boot) {
    if (here$started != "-") return() # lock_journal() asks
    is_there <- .Call(ffi_processes_are_there, suppressWarnings(as.integer(owner$pid)))
    if (!is_there) return(remove_lock(lock, owner))
  }
  throw("journal_locked", sprintf(
    "journal '%s' is, or was, written to on host '%s': remove '%s' if no actor has it any more",
    path, owner$host, lock
  ))
}

# All that is whole, and where the rest begins. A file of something else is an error, and so is what
# is whole and cannot be read, as for want of memory or of a package: nothing of that is cut off.
read_objects <- function(path) {
  con <- file(path, "rb")
  on.exit(close(con))
  size <- file.size(path)
  objects <- list()
  begins <- readBin(con, "raw", length(ACTOR_JOURNAL))
  if (!identical(begins, ACTOR_JOURNAL[seq_along(begins)])) {
    throw("journal", sprintf("file '%s' is no journal of an actor", path))
  }
  end <- length(begins)
  if (end < length(ACTOR_JOURNAL)) return(list(objects = objects, end = 0))
  while (end + 8 <= size) {
    n <- readBin(con, "double")
    if (!length(n)) throw_unread(path, end, "the file ends early")
    if (is.na(n) || n < 1 || end + 8 + n > size) break
    bytes <- readBin(con, "raw", n)
    if (length(bytes) < n) throw_unread(path, end, "the file ends early")
    if (!identical(bytes[1:2], OBJECT_BEGINS)) {
      if (end + 8 + n < size) throw_unread(path, end, "it is damaged, and there is more behind it")
      break
    }
    objects[[length(objects) + 1L]] <- tryCatch(unserialize(bytes), error = function(e) {
      throw_unread(path, end, conditionMessage(e))
    })
    end <- end + 8 + n
  }
  list(objects = objects, end = end)
}

throw_unread <- function(path, at, why) {
  text <- "journal '%s': the object at byte %.0f cannot be read: %s"
  throw("journal", sprintf(text, path, at, why))
}

cut_off <- function(path, end) {
  con <- file(path, "r+b")
  on.exit(close(con))
  seek(con, end, rw = "write")
  truncate(con)
}

# Does again what is recorded: `again` takes a method and its arguments.
replay_actor_journal <- function(log, again) {
  for (x in log$calls) again(x[[1L]], x[[2L]])
}
