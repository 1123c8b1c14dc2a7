# The runner of an entry (R/detach-folder.R) is started and ended here, and its values are read.

# ---- its runner starts ----

# Starts the process that does what the entry says. It is no child of this session, and has no
# terminal. `by`: a command that runs it, given the file of a shell program, as sbatch of Slurm.
start_runner <- function(entry, by = NULL) {
  lib <- dirname(getNamespaceInfo("clutch", "path"))
  folder <- file.path(lib, "clutch", "node")
  command <- c(program(rscript_of_session()), default_packages_argument(TRUE),
               file.path(folder, "runner.R"), lib, entry)
  how <- without_front_end(command, effective_env(NULL))
  behind <- match("--no-restore", how$argv)
  if (!is.na(behind)) how$argv <- append(how$argv, c("--no-site-file", "--no-init-file"), behind)
  env <- how$env[!grepl("^CLUTCH_(NODE|MARK|STARTING|WAS)", names(how$env))]
  env <- paste0(names(env), "=", env)
  log <- entry_file(entry, "log")
  if (!is.null(by)) return(start_by(by, entry, how$argv, env, log))
  .Call(ffi_start_detached, how$argv, env, log)
  invisible()
}

TIME_TO_SUBMIT <- 60 # seconds that a command has which starts a runner

# The command is to pass on the environment, as sbatch does.
start_by <- function(by, entry, argv, env, log) {
  file <- entry_file(entry, "run.sh")
  writeLines(c("#!/bin/sh", paste("exec", shell_words(argv))), file)
  Sys.chmod(file, "0700", use_umask = FALSE)
  command <- c(program(by[[1L]]), by[-1L], file)
  status <- .Call(ffi_run_program, command, env, log, TIME_TO_SUBMIT)
  if (identical(status, 0L)) return(invisible())
  how <- if (is.na(status)) "did not end by itself" else paste("has ended with status", status)
  throw("start", sprintf("'%s' %s%s", paste(by, collapse = " "), how, last_lines(log)))
}

# Starts another runner in place of one that has died. Another session may have done so meanwhile:
# its runner keeps the entry.
resume_entry <- function(entry) {
  lock <- entry_file(entry, "owner")
  owner <- if (file.exists(lock)) owner_of(lock)
  if (is_owned(entry)) return(invisible())
  if (!file.exists(entry_file(entry, "work"))) {
    throw("jobs", "what this map needs is gone: call the map again, with its journal")
  }
  remove_temporary(entry)
  unlink(entry_file(entry, c("cancel", "progress")))
  Sys.setFileTime(entry_file(entry, "work"), Sys.time())
  if (!is.null(owner)) remove_lock(lock, owner)
  start_runner(entry, job_of_entry(entry)$by)
}

# ---- it ends ----

CANCEL_TIME <- 3 # seconds that a runner has to end

# Ends the runner of an entry. On another host it finds the file within a second or two.
end_entry <- function(entry) {
  file.create(entry_file(entry, "cancel"))
  if (state_of_entry(entry) == "queued") return(end_queued(entry))
  end <- clock() + CANCEL_TIME
  told <- FALSE
  while (!has_ended_as(state_of_entry(entry)) && clock() < end) {
    owner <- owner_of_entry(entry)
    if (!told && is_owner_here(owner)) told <- tools::pskill(as.integer(owner$pid), tools::SIGINT)
    Sys.sleep(0.005)
  }
  if (has_ended_as(state_of_entry(entry))) return(invisible())
  owner <- owner_of_entry(entry)
  if (!is_owner_here(owner)) throw_not_here(entry, owner)
  tools::pskill(as.integer(owner$pid), tools::SIGKILL)
  while (is_owned(entry)) Sys.sleep(0.005)
  write_object(list(state = "cancelled"), entry_file(entry, "end.rds"))
}

# A runner that comes all the same finds the file `cancel`. Of Slurm the job is cancelled, too.
end_queued <- function(entry) {
  number <- utils::tail(grep("^(Submitted batch job )?[0-9]+$", log_lines(entry_file(entry, "log")),
                             value = TRUE), 1L)
  scancel <- Sys.which("scancel")[[1L]]
  if (length(number) && nzchar(scancel)) {
    system2(scancel, sub("^.* ", "", number), stdout = FALSE, stderr = FALSE)
  }
  write_object(list(state = "cancelled"), entry_file(entry, "end.rds"))
}

throw_not_here <- function(entry, owner) {
  job <- job_of_entry(entry)
  text <- "the map '%s' runs on host '%s', and has not answered: it ends when it finds file '%s'"
  throw("timeout", sprintf(text, job$name, if (is.null(owner)) job$host else owner$host,
                           entry_file(entry, "cancel")))
}

# ---- its values ----

# The value is what the journal has of the elements of a map: see ffi_journal_values().
journal_has <- function(job, values = TRUE) {
  record <- job$record
  if (!file.exists(record$path)) {
    throw("journal", sprintf("journal '%s' of the map '%s' is gone", record$path, job$name))
  }
  ptr <- .Call(ffi_journal_open, record$path, Inf, NULL, NULL)
  on.exit(.Call(ffi_handle_end, ptr))
  .Call(ffi_journal_values, ptr, record$keys, record_numbers(record), record$seed, values)
}
