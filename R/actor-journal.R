# The journal of an actor: a line of text, and objects in R's binary format, each behind the number
# of its bytes. The first is the state of the random numbers when the actor began for the first
# time, each other one a call that has ended: list(method, arguments). What a process that died has
# left half-written at its end is cut off. A lock as that of other journals keeps it to one actor.

ACTOR_JOURNAL <- charToRaw("clutch actor journal 1\n")

check_actor_journal <- function(path) {
  if (!is_string(path) || !nzchar(path)) has_to_be("`.journal`", "the path of a file, or NULL")
  path <- path.expand(path)
  folder <- dirname(path)
  if (!dir.exists(folder)) throw("argument", sprintf("there is no folder '%s'", folder))
  file.path(normalizePath(folder), basename(path))
}

# In the process of the actor, before its function is called: list(con, lock, calls).
open_actor_journal <- function(path) {
  refuse_foreign_lock(path)
  lock <- lock_journal(path)
  opened <- FALSE
  on.exit(if (!opened) remove_lock(lock, owner_of(lock)))
  found <- if (file.exists(path)) read_objects(path) else list(objects = list(), end = 0)
  if (file.exists(path) && file.size(path) > found$end) cut_off(path, found$end)
  log <- list(con = file(path, "ab"), lock = lock, calls = found$objects[-1L])
  opened <- TRUE
  seed <- if (length(found$objects)) found$objects[[1L]]$seed
  if (found$end == 0) writeBin(ACTOR_JOURNAL, log$con)
  if (is.null(seed)) {
    if (!exists(".Random.seed", globalenv(), inherits = FALSE)) stats::runif(1)
    append_object(log, list(seed = get(".Random.seed", globalenv())))
  } else {
    assign(".Random.seed", seed, globalenv())
  }
  log
}

close_actor_journal <- function(log) {
  close(log$con)
  remove_lock(log$lock, owner_of(log$lock))
}

append_object <- function(log, x) {
  bytes <- serialize(x, NULL, xdr = FALSE)
  writeBin(c(writeBin(as.numeric(length(bytes)), raw()), bytes), log$con)
  flush(log$con)
}

record_in_actor_journal <- function(log, method, args) append_object(log, list(method, args))

# Nobody touches the lock while an actor waits, so its age tells nothing about one on another host.
refuse_foreign_lock <- function(path) {
  lock <- paste0(path, ".lock")
  owner <- if (file.exists(lock)) owner_of(lock)
  if (is.null(owner) || !nzchar(owner$host) || owner$host == this_owner()$host) return()
  throw("journal_locked", sprintf(
    "journal '%s' is, or was, written to on host '%s': remove '%s' if no actor has it any more",
    path, owner$host, lock
  ))
}

# All that is whole, and where the rest begins. A file of something else is an error.
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
    if (is.na(n) || n < 1 || end + 8 + n > size) break
    x <- tryCatch(unserialize(readBin(con, "raw", n)), error = function(e) NULL)
    if (is.null(x)) break
    objects[[length(objects) + 1L]] <- x
    end <- end + 8 + n
  }
  list(objects = objects, end = end)
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
