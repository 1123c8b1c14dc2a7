# The runner of a detached map (R/detach-map.R): an R process that no session is the parent of. It
# does what its entry says, writes how that has ended, and ends. Nothing here is called in a
# session.

# Called by the script inst/node/runner.R, with library and folder of the entry.
.__runner__ <- function(args) {
  entry <- args[[2L]]
  if (!own_entry(entry)) quit("no", 1L)
  end <- tryCatch(
    run_entry(entry),
    interrupt = function(e) list(state = "cancelled"),
    error = function(e) list(state = if (inherits(e, "clutch_limit_of_job")) "limit" else "failed",
                             error = e)
  )
  # it has ended: an interrupt that comes now is too late
  suspendInterrupts({
    write_object(end, entry_file(entry, "end.rds"))
    unlink(entry_file(entry, c("source", "work", "tmp")))
  })
  quit("no", 0L)
}

# From now on this process is the runner of the entry. FALSE: another one is.
own_entry <- function(entry) {
  line <- paste0(paste(this_owner(), collapse = " "), "\n")
  is_mine <- .Call(ffi_file_new, entry_file(entry, "owner"), line)
  if (is_mine) writeLines(tempdir(), entry_file(entry, "tmp"))
  is_mine
}

# The value is what read_end() has.
run_entry <- function(entry) {
  # who has submitted it may have cancelled it meanwhile
  if (file.exists(entry_file(entry, "cancel"))) return(list(state = "cancelled"))
  job <- job_of_entry(entry)
  if (is.null(job)) throw_unreadable()
  take_place(job$place)
  source <- read_object(entry_file(entry, "source"))
  if (!is.null(source)) source_here(source) # the work may have functions of these packages
  work <- read_object(entry_file(entry, "work"))
  if (is.null(work)) throw_unreadable()
  work <- unpacked_work(work)
  options(work$options)
  if (!is.null(source)) {
    tell <- list(fun = source_here, arg = source, source = TRUE)
    work$cluster$setup <- c(list(tell), work$cluster$setup)
  }
  o <- work$o
  o$begun <- job$record
  o$bar <- bar_that_tells(watcher_of_map(entry, job))
  values <- withCallingHandlers(
    on_cluster_of(work, function(cl) {
      run_map(cl, work$elements, work$f, work$more, o, globalenv())
    }),
    clutch_failed = function(w) invokeRestart("muffleWarning") # whoever collects is told
  )
  errors <- Filter(function(v) inherits(v, "clutch_task_error"),
                   structure(values, names = seq_along(values)))
  write_progress(entry, job$n, length(errors))
  list(state = "done", failed = length(errors), errors = errors)
}

throw_unreadable <- function() throw("jobs", "the files of this map cannot be read")

# Folder and libraries are those that the session had when it called the map.
take_place <- function(place) {
  if (!is.null(place$folder)) try(setwd(place$folder), silent = TRUE)
  set_libraries(place$libraries)
  Sys.umask(place$umask)
}

# `work(cl)` is called on a cluster as that of the session.
on_cluster_of <- function(work, fun) {
  about <- work$cluster
  if (is.null(about$made)) {
    if (length(about$setup)) set_up(own_cluster(), about$setup)
    return(on_budget(length(work$elements), fun, packages_ahead(work$o$needs)))
  }
  cl <- make_cluster_again(about$made, about$preload)
  on.exit(stop_cluster(cl))
  set_up(cl, about$setup)
  if (!is.null(about$ranks)) cl <- cl[about$ranks]
  fun(cl)
}

set_up <- function(cl, setup) {
  for (s in setup) call_all_nodes(cl, s$fun, s$arg, "what cluster_setup() says failed")
  set_setup(info_of(cl), c(setup_of(info_of(cl)), setup))
}

# ---- while it goes on ----

SECONDS_BETWEEN <- c(progress = 0.25, files = 1, touch = 10)

# A function for bar_that_tells(): it writes to the entry how far the map is, and sees to what may
# end it.
watcher_of_map <- function(entry, job) {
  last <- SECONDS_BETWEEN - Inf
  told <- -1
  is_time <- function(what) {
    now <- clock()
    if (now - last[[what]] < SECONDS_BETWEEN[[what]]) return(FALSE)
    last[[what]] <<- now
    TRUE
  }
  function(done, failed) {
    if (done != told && is_time("progress")) {
      write_progress(entry, done, failed)
      told <<- done
    }
    if (is_time("touch")) Sys.setFileTime(entry_file(entry, "owner"), Sys.time())
    if (is_time("files")) check_entry(entry, job)
  }
}

# Ends the map where somebody wants that, or where it has taken more than it may.
check_entry <- function(entry, job) {
  if (file.exists(entry_file(entry, "cancel")) || !dir.exists(entry)) interrupt_map()
  age <- as.numeric(Sys.time()) - as.numeric(job$since)
  if (age > job$limits$time) {
    throw_limit(sprintf("the map '%s' has taken longer than its %g seconds", job$name,
                        job$limits$time))
  }
  if (job$limits$memory == Inf) return(invisible())
  used <- memory_of_all()
  if (used > job$limits$memory) {
    throw_limit(sprintf("the map '%s' has %s, and may have %s", job$name, mb(used),
                        mb(job$limits$memory)))
  }
}

interrupt_map <- function() {
  stop(structure(class = c("interrupt", "condition"), list(message = "", call = NULL)))
}

throw_limit <- function(text) {
  stop(errorCondition(text, call = NULL,
                      class = c("clutch_limit_of_job", "clutch_limit", "clutch_error")))
}

# Bytes of memory that this process and what it has started here have of their own.
memory_of_all <- function() {
  pids <- Sys.getpid()
  repeat {
    more <- setdiff(unlist(lapply(pids, child_processes)), pids)
    if (!length(more)) break
    pids <- c(pids, more)
  }
  sum(vapply(pids, function(pid) .Call(ffi_process_memory, pid), 1), na.rm = TRUE)
}

child_processes <- function(pid) {
  files <- proc_file(pid, "task", pid, "children")
  as.integer(strsplit(paste(read_lines(files), collapse = " "), " +")[[1L]])
}
