# The operating system tells this about itself: its clock, its abilities, its files in /proc.

# Seconds by a clock that nobody can set: R's own proc.time() follows the wall clock.
clock <- function() .Call(ffi_clock)

# Seconds, for people.
time_text <- function(s) {
  if (s < 60) return(sprintf("%.0f s", s))
  if (s < 3600) return(sprintf("%.0f min", s / 60))
  sprintf("%.1f h", s / 3600)
}

# Not every system can do all of this: see os.h. Option `clutch.lacks` is for tests: what it names
# this system cannot do either.
system_can <- function(what) {
  !what %in% getOption("clutch.lacks") && .Call(ffi_system_can)[[what]]
}

# Without it there are no fork servers: on Windows, which has no shell `sh` either.
can_fork <- function() system_can("fork")

# `what` is what was asked for, `instead` what can be had here; NULL: nothing.
need_fork <- function(what, instead = NULL) {
  if (can_fork()) return(invisible())
  text <- sprintf("%s needs processes that fork, which this system does not have", what)
  throw("unsupported", paste(c(text, instead), collapse = ": "))
}

# Windows starts a program by its whole name.
rscript_of_session <- function() {
  path <- file.path(R.home("bin"), "Rscript")
  with_ending <- paste0(path, ".exe")
  if (file.exists(with_ending)) with_ending else path
}

# A file that tells of processes or of the system, as Linux has them. Where there are none, it is
# the name of a file that does not exist.
proc_file <- function(...) {
  file.path(if (system_can("proc")) "/proc" else "/no-proc-here", ...)
}

# Nothing is loaded for it: that may take some tenths of a second.
is_installed_package <- function(name) {
  isNamespaceLoaded(name) || length(find.package(name, quiet = TRUE)) > 0L
}

# The lines of a file; character() for a file that cannot be read. Lines of invalid text are left
# out: they would make the regex functions fail. There is no handler for the warning: it would leave
# file() before that has given back its place among R's connections.
read_lines <- function(...) {
  path <- file.path(...)
  # not that of another machine's tree
  if (grepl("^/+proc/", path)) path <- proc_file(sub("^/+proc/", "", path))
  if (!file.exists(path)) return(character()) # nearly always so, and an error takes its time
  lines <- tryCatch(
    suppressWarnings(readLines(path, warn = FALSE)),
    error = function(e) character()
  )
  lines[validEnc(lines)]
}

is_this_machine <- function(host) {
  host %in% c("localhost", "::1", Sys.info()[["nodename"]]) ||
    grepl("^127(\\.[0-9]{1,3}){3}$", host)
}

# Tells whether this is a folder of this user's that nobody else can read, and no link to one.
# `about`, `link`: what was known of it at one moment.
is_private_folder <- function(path, about = file.info(path), link = Sys.readlink(path)) {
  isTRUE(about$isdir) && isTRUE(about$uid == file.info(tempdir())$uid) &&
    bitwAnd(as.integer(about$mode), 63L) == 0L && isTRUE(link == "")
}

# Evaluates code of other packages that may start threads: later's timer, httpuv's, nanonext's when
# it is loaded. These are to take no signals. R's handler of SIGINT jumps when R waits in select(),
# as Sys.sleep() does, and in another thread it would jump into R's stack.
without_signals <- function(code) {
  on.exit(.Call(ffi_signals_release)) # first: an interrupt may come in between
  .Call(ffi_signals_hold)
  code
}

# Also where the variable is locked. R CMD check wants no unlockBinding(): it cannot see that these
# are environments of user's objects on a node, or of a package under test.
put_binding <- function(name, value, env) {
  if (exists(name, env, inherits = FALSE) && bindingIsLocked(name, env)) {
    unlock <- "unlockBinding"
    do.call(unlock, list(name, env))
  }
  assign(name, value, env)
}
