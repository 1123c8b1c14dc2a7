# Fork servers that stay for the user's next session, seen from the session: node-stay.R has the
# server's side.
#
# A session that is to have such a server describes what a start depends on here and now:
# stay_wanted(). It asks those that wait and have the same packages, one after the other. Each
# compares with what it was started for, and with the files of what it has loaded. One that is
# stopped, or takes longer than PATIENCE, is left alone. The first that fits serves this session.

PATIENCE <- 1.5 # seconds for the handshake, and for the answer

# For so many seconds fork servers of this session stay. `keep`: of make_cluster(); NULL: the option
# decides. 0 where it is no use.
seconds_to_stay <- function(keep = NULL) {
  if (is.null(keep)) keep <- check_seconds_to_stay(option_number("clutch.keep", 0),
                                                   option_text("clutch.keep"))
  if (keep == 0 || !system_can("proc") || isTRUE(the$is_child) || .Call(ffi_is_node)) return(0)
  keep
}

check_keep <- function(keep, request) {
  if (is.null(keep)) return(NULL)
  keep <- check_seconds_to_stay(keep, "`keep`")
  if (keep == 0 || can_stay(request)) return(keep)
  throw("argument", paste("`keep` is for nodes on this machine with strategy \"fork_server\" and",
                          "without `preload`: of others no process stays"))
}

# A process that nobody needs is not to stay for ever.
check_seconds_to_stay <- function(x, what) {
  text <- "a number of seconds, 0 or more, and not Inf"
  x <- check_number(x, what, 0, text)
  if (is.infinite(x)) has_to_be(what, text)
  x
}

can_stay <- function(request) {
  request$strategy == "fork_server" && is.null(request$launch) && is.null(request$preload)
}

# ---- what a session has to be like ----

# These tell in which window, terminal or login a session runs: nothing that R or a package that is
# loaded takes into account. So does the size of R's heap. The nodes get the session's own.
window_variables <- c(
  "_", "SHLVL", "PWD", "OLDPWD", "COLUMNS", "LINES", "WINDOWID", "WINDOW", "STY", "TMUX",
  "TMUX_PANE", "TERM_SESSION_ID", "ITERM_SESSION_ID", "SSH_TTY", "SSH_CLIENT", "SSH_CONNECTION",
  "GPG_TTY",
  "XDG_SESSION_ID", "INVOCATION_ID", "JOURNAL_STREAM", "SYSTEMD_EXEC_PID", "MANAGERPID",
  "R_SESSION_TMPDIR", "R_NSIZE", "GNOME_TERMINAL_SCREEN", "VTE_VERSION", "KONSOLE_DBUS_SESSION"
)

# `env`: the environment with which a server is started; `files`: as startup_files() has them;
# `runs_code`: of packages or a profile, which may look at all of it and at the folder.
stay_wanted <- function(spec, env, files, runs_code) {
  compared <- env[sort(setdiff(names(env), window_variables), method = "radix")]
  if (!runs_code) compared <- compared[start_variable(names(compared))]
  lib <- getNamespaceInfo("clutch", "path")
  spec$stays <- NULL
  list(
    r = c(R.version.string, R.home(), stamps_of_files(programs_of_r(spec$rscript))),
    clutch = c(own_version(), lib),
    what = unlist(spec), libraries = .libPaths(), profile = unlist(files),
    folder = if (runs_code) getwd(), env = compared,
    who = status_lines(), limits = limits_lines(), groups = read_lines(proc_file("self/cgroup")),
    namespaces = namespaces(),
    all_env = env # of which nodes are told what differs
  )
}

programs_of_r <- function(rscript) {
  c(rscript, file.path(R.home(), c("bin/R", "bin/exec/R", "lib/libR.so")))
}

stamps_of_files <- function(files) .Call(ffi_file_stamps, files)

status_lines <- function() {
  fields <- "^(Uid|Gid|Groups|Cap...|NoNewPrivs|Seccomp|(Cpus|Mems)_allowed_list):"
  grep(fields, read_lines(proc_file("self/status")), value = TRUE)
}

# Without the soft limit of descriptors, which R and this package raise as they need.
limits_lines <- function() {
  sub("^(Max open files +)[^ ]+", "\\1", read_lines(proc_file("self/limits")))
}

namespaces <- function() {
  kinds <- c("cgroup", "ipc", "mnt", "net", "pid", "time", "user", "uts")
  Sys.readlink(proc_file(c(file.path("self/ns", kinds), "self/root")))
}

# ---- one that waits ----

# A server as server_ready() returns it, or NULL. `setup`: what it is sent.
take_kept <- function(spec, setup) {
  packages <- paste(unique(c(spec$packages, spec$load)), collapse = ",")
  for (k in Filter(function(k) identical(k$packages, packages), kept_here())) {
    server <- take_one(k, setup)
    if (is.list(server)) return(server)
    if (!is.null(server)) say_not_taken(k, server)
  }
  NULL
}

# A text: why it is none for this session; NULL: it is gone.
take_one <- function(k, setup) {
  if (k$r != setup$stay$r[[1L]]) return("R differs")
  if (k$clutch != own_version() || k$protocol != .Call(ffi_host_protocol)) {
    return("package clutch differs")
  }
  if (.Call(ffi_process_letter, k$pid) %in% c("T", "t")) return("it is stopped")
  handle <- .Call(ffi_server_take, k$path, PATIENCE)
  if (is.character(handle)) return(if (file.exists(about_path(k$path))) handle)
  ok <- FALSE
  on.exit(if (!ok) .Call(ffi_server_let_go, handle))
  .Call(ffi_server_send, handle, "setup", setup)
  report <- .Call(ffi_server_wait, handle, PATIENCE)
  if (is.null(report)) return("it does not answer")
  if (!is.null(report$refused)) return(paste(report$refused, collapse = "; "))
  ok <- TRUE
  env <- report$env
  env["R_SESSION_TMPDIR"] <- setup$stay$all_env["R_SESSION_TMPDIR"] # R sets its own in each process
  list(handle = handle, log = NULL, env = env[!is.na(env)], report = report, tmp = report$tmp,
       folder = NULL, stays = TRUE)
}

say_not_taken <- function(k, why) {
  say(sprintf("The fork server that was kept (pid %d) is not used: %s. Another one is started.",
              as.integer(k$pid), why))
}

# ---- all of them ----

# Fork servers of this user that wait for a session on this machine: their process ids, from when to
# when they wait, and the packages that they have attached.
kept_servers <- function() {
  here <- kept_here()
  number <- function(name) vapply(here, function(k) k[[name]], 1)
  time <- function(name) as.POSIXct(number(name), origin = "1970-01-01")
  data.frame(pid = as.integer(number("pid")), since = time("since"), until = time("until"),
             packages = vapply(here, function(k) gsub(",", ", ", k$packages), ""))
}

# Ends them, and waits for that. The value is how many there were.
stop_kept_servers <- function() {
  here <- kept_here()
  pids <- lapply(here, function(k) .Call(ffi_kept_end, k$path, 1))
  pids <- unlist(Filter(is.integer, pids))
  is_there <- function(pid) !is.na(.Call(ffi_process_letter, pid))
  end <- clock() + 3
  while (clock() < end && any(vapply(pids, is_there, NA))) Sys.sleep(0.005)
  kept_here() # removes what one has left that was killed
  invisible(length(pids))
}
