# Fork servers, seen from the session: which there are, when one fits, how one is started.
#
# A fork server is a picture of what an R started now would be. It is known by a key made of all
# that such a start depends on; where that has changed, another one is started.
# A server is list(handle, tmp, log, env, report, folder, ran_code, key); the$servers has them
# by key.
#
# The key joins packages, strategy, program and arguments, startup files with their dates, and
# environment variables. server_start() executes a new Rscript in a process session of its own.
# Its control channel is descriptor 3, and all else is closed. It runs fork_server_main() of
# node-fork-server.R. A server of own_server() serves one cluster: it is not in the$servers, has no
# idle limit, and ends when all nodes of its cluster were stopped, or with a finalizer when the
# cluster is garbage. When a fork server was killed, its folder is removed by a node that it had,
# when the next server is started, or at the session's end.

env_or <- function(var, default) if (nzchar(v <- Sys.getenv(var))) v else default
first_file <- function(...) Filter(file.exists, path.expand(c(...)))[1L]

# NA: there is none.
user_profile <- function() env_or("R_PROFILE_USER", first_file(".Rprofile", "~/.Rprofile"))

# The files that R reads when it starts, as ?Startup tells, with their dates.
startup_files <- function() {
  user <- c(user_profile(), env_or("R_ENVIRON_USER", first_file(".Renviron", "~/.Renviron")))
  site <- c(env_or("R_PROFILE", file.path(R.home("etc"), "Rprofile.site")),
            env_or("R_ENVIRON", file.path(R.home("etc"), "Renviron.site")))
  stamp <- function(f) {
    f <- f[!is.na(f) & file.exists(f)]
    if (!length(f)) return(character())
    paste(normalizePath(f), unclass(file.mtime(f)), file.size(f))
  }
  list(user = stamp(user), site = stamp(site))
}

# A server is started with this when nothing is asked for.
default_server_spec <- function() {
  list(packages = character(), rscript = rscript_of_session(),
       rscript_args = character(), methods = TRUE, strategy = "fork_server")
}

# The server of the value loads these packages, too, before it forks. `libraries`: where it finds
# them.
with_load <- function(spec, load, libraries) {
  if (!length(load)) return(spec)
  spec$libraries <- libraries
  spec$load <- load
  spec
}

# The one that make_cluster() takes when nothing is asked for, being started if it is not there.
default_server <- function() {
  server_for(with_stay_by_option(default_server_spec()), effective_env(NULL))
}

# `spec`: as default_server_spec(); `env`: the whole environment
server_key <- function(spec, env) {
  files <- startup_files()
  # code of the user's may look at any variable
  runs_code <- length(files$user) > 0L || length(spec$packages) > 0L
  relevant <- if (runs_code) env else env[start_variable(names(env))]
  relevant <- relevant[names(relevant) != "R_SESSION_TMPDIR"]
  relevant <- relevant[order(names(relevant))]
  folder <- if (length(files$user)) getwd()
  parts <- c(unlist(spec, use.names = FALSE), "|", unlist(files), "|", folder,
             .Call(ffi_affinity_count), "|", paste0(names(relevant), "=", relevant))
  paste(parts, collapse = "\n")
}

# A server for this key: the one there is, or a new one (being started: `report` is NULL).
server_for <- function(spec, env, quiet = FALSE) {
  need_fork("a fork server")
  forget_parents()
  sweep_servers(quiet)
  key <- server_key(spec, env)
  if (is.null(the$servers[[key]])) the$servers[[key]] <- kept_or_new(spec, env)
  the$servers[[key]]$key <- key
  the$servers[[key]]
}

# ---- servers that stay ----

# The server of the value may serve another session when this one has ended: see launch-stay.R.
with_stay <- function(spec, seconds) {
  spec$stays <- if (seconds > 0 && spec$strategy == "fork_server") "stays"
  spec
}

# Option clutch.keep decides where nobody has said for how long.
with_stay_by_option <- function(spec) {
  seconds <- seconds_to_stay()
  if (seconds > 0 && !is.null(why_not_to_stay(spec$rscript_args))) seconds <- 0
  with_stay(spec, seconds)
}

kept_or_new <- function(spec, env) {
  # how large its heap was at first makes no difference
  server <- if (!is.null(spec$stays)) take_kept(spec, server_setup(spec, without_threads(env)))
  if (is.null(server)) return(server_start(spec, env))
  clean_at_end()
  server$ran_code <- runs_code(spec)
  server
}

runs_code <- function(spec) length(spec$packages) > 0L || length(startup_files()$user) > 0L

# Why no server of this session may serve another one, a text; NULL: it may. What a profile does
# other than to set options may depend on anything, such as files that it reads.
why_not_to_stay <- function(rscript_args) {
  if (any(c("--vanilla", "--no-init-file") %in% rscript_args)) return(NULL)
  profile <- user_profile()
  if (is.na(profile) || !file.exists(profile)) return(NULL)
  code <- tryCatch(parse(profile, keep.source = FALSE), error = function(e) NULL)
  if (is.null(code) || !is_simple_code(code)) {
    sprintf("the profile %s does more than set options and variables", profile)
  }
}

# The cluster has been stopped. When this returns, other sessions, and this one, can find its
# server, if that stays and has no other nodes.
give_server <- function(info) {
  server <- info$server
  if (!isTRUE(server$stays) || is.null(server$report)) return()
  i <- .Call(ffi_server_info, server$handle)
  if (i$live > 0L || i$state != "ready") return()
  .Call(ffi_server_give, server$handle, 2)
  the$servers[[server$key]] <- NULL
  unlink(c(server$log, server$folder), recursive = TRUE)
}

# ---- servers of one cluster ----

# One that evaluates a request of code-preload.R, being started. It is in no list, so that nobody
# else gets it, and ends when nothing refers to `own` any more: the nodes do, by their plan. The
# finalizer comes before that of the handle, since R runs first what was registered last.
own_server <- function(spec, env, preload) {
  sweep_servers()
  server <- server_start(spec, env, preload)
  own <- new.env(parent = emptyenv())
  own$pid <- Sys.getpid()
  server$own <- own
  own$server <- server
  reg.finalizer(own, own_server_is_garbage)
  the$own_servers <- c(the$own_servers, list(.Call(ffi_weak_new, own, NULL)))
  server
}

own_server_is_garbage <- function(own) try(server_end(own$server, 0.5), silent = TRUE)

# The value has the servers of one cluster that nobody has ended yet.
own_servers <- function() {
  is_there <- function(w) {
    own <- .Call(ffi_weak_get, w)
    !is.null(own) && !isTRUE(own$ended)
  }
  the$own_servers <- Filter(is_there, the$own_servers)
  lapply(the$own_servers, function(w) .Call(ffi_weak_get, w)$server)
}

# The server ends when all nodes of its cluster were stopped.
end_own_server <- function(info) {
  if (is.null(info$server$own)) return()
  if (length(info$stopped) < length(info$hosts)) return()
  if (.Call(ffi_server_info, info$server$handle)$live == 0L) server_end(info$server)
}

# ---- start ----

# The value is what is run: list(argv, env), a call of Rscript. It starts nothing. `folder`: around
# its temporary folder until it is able to remove that itself. `is_own`: it does not end because it
# is idle.
server_command <- function(spec, env, folder, is_own = FALSE) {
  idle <- if (is_own) Inf else option_number("clutch.idle_limit", 300, above = TRUE)
  rscript <- program(spec$rscript)
  lib <- dirname(getNamespaceInfo("clutch", "path"))
  command <- c(rscript, default_packages_argument(spec$methods), spec$rscript_args)
  by_exec <- spec$strategy == "spawn"
  argv <- c(
    command,
    file.path(lib, "clutch", "node", "fork-server.R"),
    lib,
    seconds_text(min(idle, 1e9)),
    if (by_exec) paste(spec$packages, collapse = ",") else "",
    if (is.na(env["TMPDIR"])) "" else paste0("TMPDIR=", env[["TMPDIR"]]),
    command
  )
  env[c("TMPDIR", "CLUTCH_STARTING")] <- c(folder, "1")
  # room for the mark that each node has and what it starts inherits: see orphans.h
  env["CLUTCH_MARK"] <- strrep("0", 32L)
  list(argv = argv, env = env)
}

# The environment in which a server starts. Threads do not survive a fork: none may be started
# before it. The nodes get the user's values back.
#
# `cells`: room for so many objects, where what it evaluates at its start decides that.
server_env <- function(spec, env, cells = NULL) {
  env <- without_threads(env)
  if (spec$strategy == "spawn") return(env)
  if (is.null(cells)) cells <- server_cells(bytes_of_code(c(spec$packages, spec$load)))
  quick_start(env, cells)
}

without_threads <- function(env) {
  for (v in thread_variables) if (is.na(env[v]) || v == "OPENBLAS_NUM_THREADS") env[v] <- "1"
  env
}

server_start <- function(spec, env, preload = NULL) {
  if (is_starting()) {
    throw("starting", "a fork server or node that is starting has no fork server of its own")
  }
  clean_at_end()
  env <- server_env(spec, env, preload$cells)
  log <- tempfile("clutch-server-", fileext = ".log")
  folder <- tempfile("clutch-server-")
  command <- server_command(spec, env, folder, !is.null(preload))
  ok <- FALSE
  on.exit(if (!ok) unlink(c(log, folder), recursive = TRUE))
  dir.create(folder, mode = "0700")
  by_exec <- spec$strategy == "spawn"
  how <- without_front_end(command$argv, command$env, !by_exec)
  if (by_exec) how <- bare_server(how)
  variables <- paste0(names(how$env), "=", how$env)
  handle <- .Call(ffi_server_start, how$argv[[1L]], how$argv, variables, log)
  .Call(ffi_server_send, handle, "setup", server_setup(spec, env, preload))
  ok <- TRUE
  list(handle = handle, log = log, env = env, report = NULL, tmp = NULL, folder = folder,
       ran_code = runs_code(spec), stays = !is.null(spec$stays))
}

# The value is what a server is told first. `env`: that with which it was started.
server_setup <- function(spec, env, preload = NULL) {
  by_exec <- spec$strategy == "spawn"
  files <- if (!is.null(spec$stays)) startup_files()
  runs_code <- length(c(spec$packages, spec$load, files$user)) > 0L
  list(packages = if (!by_exec) spec$packages, load = spec$load, by_exec = by_exec,
       preload = preload, libraries = spec$libraries,
       stay = if (!is.null(spec$stays)) stay_wanted(spec, env, files, runs_code))
}

# From a server that executes its nodes these inherit nothing of R. Without default packages and the
# user's profile it starts in a quarter of the time. `how`: of without_front_end(); only without the
# front end, which would keep the nodes from reading the profile, too.
bare_server <- function(how) {
  if (!"--no-restore" %in% how$argv) return(how)
  how$env[["R_DEFAULT_PACKAGES"]] <- "NULL"
  behind <- match("--no-restore", how$argv)
  how$argv <- append(how$argv, c("--no-site-file", "--no-init-file"), behind)
  how
}

# Waits until it is ready; what went wrong is an error, and then nothing of it is left.
server_ready <- function(server, seconds) {
  if (!is.null(server$report)) return(server)
  ok <- FALSE
  on.exit(if (!ok) server_end(server))
  report <- .Call(ffi_server_wait, server$handle, seconds)
  if (is.null(report)) throw_server_failed(server, seconds)
  server$tmp <- report$tmp
  if (!is.null(report$error)) stop(error_of_package(report$failed, report$error))
  why <- report$preload$error
  if (!is.null(why)) stop(preload_error(why, "in the fork server"))
  server$report <- report
  if (is.null(server$own)) the$servers[[server$key]] <- server else server$own$server <- server
  unlink(server$log)
  if (isTRUE(the$is_child)) forget_first_folder(server)
  ok <- TRUE
  server
}

# A forked child ends without a word, and its temporary folder is its parent's, which may stay for
# long. So the folder in which the server was started goes now. Only code that ran at the start can
# know its name.
forget_first_folder <- function(server) {
  if (!server$ran_code) unlink(server$folder, recursive = TRUE)
}

throw_server_failed <- function(server, seconds) {
  i <- .Call(ffi_server_info, server$handle)
  why <- if (i$state == "ended") {
    paste("the fork server", server_ended(i))
  } else {
    sprintf("the fork server was not ready within %g seconds (setup_timeout)", seconds)
  }
  if (!is.null(server$own)) why <- paste0(why, "; it had to evaluate `preload`")
  throw("start", paste0(why, last_lines(server$log)))
}

# ---- end ----

# Ends a server and all its nodes, and removes what a killed one left.
server_drop <- function(key) {
  s <- the$servers[[key]]
  if (!is.null(s)) server_end(s)
  invisible()
}

# One that evaluates code of the user's does not listen, and is killed after `seconds`.
server_end <- function(s, seconds = if (is.null(s$own) || !is.null(s$report)) 3 else 0.1) {
  if (is.null(s$own)) {
    the$servers[[s$key]] <- NULL
  } else if (s$own$pid != Sys.getpid() || isTRUE(s$own$ended)) { # a forked child of the session
    return(invisible())
  } else {
    s$own$ended <- TRUE
  }
  .Call(ffi_server_close, s$handle, seconds)
  server_clean(s)
}

server_clean <- function(s) {
  # one that was killed has left it
  remove_view_socket(view_path(Sys.getpid(), .Call(ffi_server_info, s$handle)$pid))
  # of one that ended before it was ready only the links in its first folder tell where it has moved
  tmp <- if (is.null(s$tmp)) Sys.readlink(list.files(s$folder, full.names = TRUE)) else s$tmp
  for (folder in unique(tmp[nzchar(tmp)])) .Call(ffi_remove_folder, folder)
  unlink(c(s$log, s$folder), recursive = TRUE) # of the folder's link the link only
  invisible()
}

# Forgets servers that have ended; says so when nobody asked them to.
sweep_servers <- function(quiet = FALSE) {
  for (key in names(the$servers)) {
    i <- .Call(ffi_server_info, the$servers[[key]]$handle)
    if (i$state != "ended") next
    if (!i$bye && !i$asked && !quiet) {
      text <- "The fork server (pid %d) %s; a new one is started."
      say(sprintf(text, i$pid, server_ended(i)))
    }
    server <- the$servers[[key]]
    # one that stays, and was idle for too long, is at work, and removes its folder itself
    if (!(i$bye && isTRUE(server$stays))) server_clean(server)
    the$servers[[key]] <- NULL
  }
}

# At the end of the session: removes what fork servers have left that were killed while they were
# idle. Others end by themselves.
clean_at_end <- function() {
  pid <- Sys.getpid()
  if (identical(the$cleans, pid)) return(invisible())
  the$cleans <- pid
  reg.finalizer(the, function(the) {
    if (Sys.getpid() == pid) try(clean_after_killed(), silent = TRUE)
  }, onexit = TRUE)
}

clean_after_killed <- function() {
  sweep_servers(quiet = TRUE)
  for (s in own_servers()) {
    if (.Call(ffi_server_info, s$handle)$state == "ended") server_clean(s)
  }
}

#' End idle fork servers
#'
#' The nodes of a cluster on this machine are forked from a *fork server*, an R process that stays
#' for the next cluster of the session. That cluster then starts in a few hundredths of a second.
#'
#' A fork server ends by itself with the session, and when it has had no node for
#' `getOption("clutch.idle_limit", 300)` seconds. This function ends it now, and that of
#' [cluster_test()], too. One that was asked to
#' stay for your next session, see *Next session* of [make_cluster()], is no longer this session's
#' when its cluster was stopped.
#'
#' @param all `TRUE` or `FALSE`. `TRUE` also ends servers that have nodes, and so the clusters of
#'   these nodes. `FALSE`, the default, ends idle ones only.
#' @return Integer, invisibly: the number of servers that were ended.
#' @section Errors: `clutch_forked` in a forked child of the session, which has no servers of its
#'   own.
#' @seealso [make_cluster()], [stop_cluster()]
#' @examples
#' cl <- make_cluster(2)
#' stop_cluster(cl)
#' fork_server_stop()
#' @export
fork_server_stop <- function(all = FALSE) {
  sweep_servers(quiet = TRUE)
  n <- 0L
  for (key in names(the$servers)) {
    if (!all && .Call(ffi_server_info, the$servers[[key]]$handle)$live > 0L) next
    server_drop(key)
    n <- n + 1L
  }
  if (!is.null(the$tests)) { # of cluster_test(), which stays for its next call
    server <- the$tests$info$server
    if (is.null(server$own)) server_drop(server$key) else server_end(server)
    the$tests <- NULL
    n <- n + 1L
  }
  if (!all) return(invisible(n))
  for (s in own_servers()) {
    if (.Call(ffi_server_info, s$handle)$state == "ended") next
    server_end(s)
    n <- n + 1L
  }
  invisible(n)
}
