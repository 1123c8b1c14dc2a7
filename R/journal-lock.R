# The lock of a journal, the file "<journal>.lock", says in one line which session writes to it:
# host, pid, when the process was started, which start of the machine. It is made by a call that
# fails where there is one, which holds on network file systems, too. A thread of its owner touches
# it every 10 s (src/core/journal/syncing.c); of an owner on another host that is the only sign of
# life.

LOCK_IS_OLD <- 60 # seconds without a touch after which an owner on another host is gone

# Takes the lock of a journal. Its path. `has_none`: this process writes to no such journal, so that
# a lock of its own is one that it could not remove, as for want of a descriptor.
lock_journal <- function(path, me = this_owner(), has_none = FALSE) {
  lock <- paste0(path, ".lock")
  for (k in 1:20) {
    if (.Call(ffi_file_new, lock, owner_line(me))) return(lock)
    owner <- owner_of(lock)
    if (is.null(owner)) {
      Sys.sleep(0.01) # it has just been removed, or its owner is about to write its line
    } else if (!(has_none && identical(owner, me)) && is_at_work(owner, lock)) {
      text <- "journal '%s' is written to by process %s on host '%s' (file '%s')"
      throw("journal_locked", sprintf(text, path, owner$pid, owner$host, lock),
            host = owner$host, pid = suppressWarnings(as.integer(owner$pid)))
    } else {
      remove_lock(lock, owner)
      if (file.exists(paste0(lock, ".gone"))) Sys.sleep(0.01) # another one is about to remove it
    }
  }
  throw("journal", sprintf("journal '%s': its file '%s' can be neither read nor removed", path,
                           lock))
}

this_owner <- function() {
  pid <- Sys.getpid()
  list(host = gsub("[[:space:]]", "-", Sys.info()[["nodename"]]), pid = as.character(pid),
       started = start_of_process(pid), boot = boot_of_machine())
}

owner_line <- function(owner) paste0(paste(owner, collapse = " "), "\n")

# Returns what a lock says; NULL: nothing yet.
owner_of <- function(lock) {
  line <- tryCatch(suppressWarnings(readLines(lock, n = 1L)), error = function(e) character())
  words <- strsplit(line, " ", fixed = TRUE)
  if (!length(words) || length(words[[1L]]) != 4L) {
    age <- age_of(lock)
    if (is.na(age) || age < 2) return(NULL)
    return(list(host = "", pid = "", started = "", boot = "")) # whose writer has ended meanwhile
  }
  structure(as.list(words[[1L]]), names = c("host", "pid", "started", "boot"))
}

# Seconds since it was touched, by the clock of the file system, which may be another machine's.
age_of <- function(lock) {
  probe <- tempfile("clutch-clock-", dirname(lock))
  now <- if (file.create(probe, showWarnings = FALSE)) file.mtime(probe) else Sys.time()
  unlink(probe, expand = FALSE)
  as.numeric(now) - as.numeric(file.mtime(lock))
}

# Where the owner's process can be looked at, that says it: on the same start of the same machine,
# in the same space of process numbers.
is_at_work <- function(owner, lock) {
  here <- this_owner()
  if (!nzchar(owner$pid)) return(FALSE)
  can_tell <- owner$host == here$host && owner$boot == here$boot && here$started != "-"
  if (can_tell) return(start_of_process(owner$pid) == owner$started)
  age <- age_of(lock)
  !is.na(age) && age < LOCK_IS_OLD
}

# Removes the lock of an owner that is gone. Others may try it at the same time, and one of them may
# have the lock by now: one at a time looks whose it is and removes it, and nobody can take it in
# between, since it is there.
remove_lock <- function(lock, owner) {
  force(owner) # it may be what the file says now
  gate <- paste0(lock, ".gone")
  is_mine <- tryCatch(.Call(ffi_file_new, gate, ""), clutch_journal = function(e) NA)
  if (is.na(is_mine)) return(invisible()) # nothing can be written there
  if (!is_mine) {
    age <- age_of(gate)
    # its process was killed between two calls
    if (!is.na(age) && age > LOCK_IS_OLD) unlink(gate, expand = FALSE)
    return(invisible())
  }
  on.exit(unlink(gate, expand = FALSE))
  if (identical(owner_of(lock), owner)) unlink(lock, expand = FALSE)
}

# When a process was started, in ticks since the machine was: "" where there is no such process;
# "-" where the system does not tell.
start_of_process <- function(pid) {
  if (!dir.exists("/proc/self")) return("-")
  stat <- tryCatch(suppressWarnings(readLines(sprintf("/proc/%s/stat", pid), n = 1L)),
                   error = function(e) character())
  if (!length(stat)) return("")
  fields <- strsplit(sub("^.*\\) ", "", stat), " ", fixed = TRUE)[[1L]]
  if (fields[[1L]] %in% c("Z", "X")) return("") # it has ended
  fields[[20L]]
}

# Which start of the machine this is, and which space of process numbers.
boot_of_machine <- function() {
  file <- "/proc/sys/kernel/random/boot_id"
  if (!file.exists(file)) return("-")
  space <- gsub("[^0-9]", "", Sys.readlink("/proc/self/ns/pid"))
  paste0(readLines(file, n = 1L), "/", space)
}
