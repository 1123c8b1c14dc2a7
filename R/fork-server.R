# Fork servers, seen from the session: which there are, when one fits, how one is started.
#
# A fork server is a picture of what an R started now would be. It is known by a key made of all that such
# a start depends on; where that has changed, another one is started.

thread_variables <- c("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "BLIS_NUM_THREADS",
                      "GOTO_NUM_THREADS", "VECLIB_MAXIMUM_THREADS")

# Environment variables that matter while R starts, or to libraries when they are loaded. Only the others
# can be set in a node afterwards.
start_variable <- function(names) {
  grepl("^(R_|LC_|LANG|LD_|DYLD_|OMP_|OPENBLAS_|MKL_|BLIS_|GOTO_|VECLIB_|KMP_|MALLOC_|TMP|TEMP|HOME$|TZ|PATH$)", names)
}

# The files that R reads when it starts, as ?Startup tells, with their dates.
startup_files <- function() {
  env_or <- function(var, default) if (nzchar(v <- Sys.getenv(var))) v else default
  first <- function(...) Filter(file.exists, path.expand(c(...)))[1L]
  user <- c(env_or("R_PROFILE_USER", first(".Rprofile", "~/.Rprofile")),
            env_or("R_ENVIRON_USER", first(".Renviron", "~/.Renviron")))
  site <- c(env_or("R_PROFILE", file.path(R.home("etc"), "Rprofile.site")),
            env_or("R_ENVIRON", file.path(R.home("etc"), "Renviron.site")))
  stamp <- function(f) {
    f <- f[!is.na(f) & file.exists(f)]
    if (length(f)) paste(normalizePath(f), unclass(file.mtime(f)), file.size(f)) else character()
  }
  list(user = stamp(user), site = stamp(site))
}

effective_env <- function(env) {
  now <- Sys.getenv()
  now <- structure(as.character(now), names = names(now))
  # R CMD check's own, a path that holds in one folder only; the mark of a node, in which this may run
  now <- now[!names(now) %in% c("R_TESTS", "CLUTCH_MARK")]
  now[names(env)] <- env
  now
}

# The environment of `n` nodes that share this machine's cores.
share_env <- function(env, n) {
  share <- as.character(max(1L, available_cores() %/% n))
  for (v in c(thread_variables, "R_DATATABLE_NUM_THREADS")) if (is.na(env[v])) env[v] <- share
  env["CLUTCH_NODE_CORES"] <- share
  env
}

# `spec`: list(packages, rscript, rscript_args, methods, strategy); `env`: the whole environment
server_key <- function(spec, env) {
  files <- startup_files()
  free <- length(files$user) == 0L && length(spec$packages) == 0L
  relevant <- if (free) env[start_variable(names(env))] else env # code that may look at any variable
  relevant <- relevant[!names(relevant) %in% c("R_SESSION_TMPDIR")]
  relevant <- relevant[order(names(relevant))]
  paste(c(unlist(spec, use.names = FALSE), "|", unlist(files), "|", if (length(files$user)) getwd(),
          .Call(ffi_affinity_count), "|", paste0(names(relevant), "=", relevant)), collapse = "\n")
}

# A server for this key: the one there is, or a new one (being started: `report` is NULL).
server_for <- function(spec, env, quiet = FALSE) {
  sweep_servers(quiet)
  key <- server_key(spec, env)
  if (is.null(the$servers[[key]])) the$servers[[key]] <- server_start(spec, env)
  the$servers[[key]]$key <- key
  the$servers[[key]]
}

server_start <- function(spec, env) {
  if (is_starting()) throw("starting", "a fork server or node that is starting has no fork server of its own")
  idle <- option_number("clutch.idle_limit", 300, above = TRUE)
  spec$rscript <- program(spec$rscript)
  log <- tempfile("clutch-server-", fileext = ".log")
  folder <- tempfile("clutch-server-") # around its temporary folder until it is able to remove that itself
  ok <- FALSE
  on.exit(if (!ok) unlink(c(log, folder), recursive = TRUE))
  dir.create(folder, mode = "0700")
  lib <- dirname(getNamespaceInfo("clutch", "path"))
  default <- if (spec$methods) "--default-packages=datasets,utils,grDevices,graphics,stats,methods"
    else "--default-packages=datasets,utils,grDevices,graphics,stats"
  command <- c(spec$rscript, default, spec$rscript_args)
  # Threads do not survive a fork: none may be started before it. The nodes get the user's values back.
  for (v in thread_variables) if (is.na(env[v]) || v == "OPENBLAS_NUM_THREADS") env[v] <- "1"
  exec <- spec$strategy == "spawn"
  if (!exec) env["GLIBC_TUNABLES"] <- huge_pages(env["GLIBC_TUNABLES"])
  argv <- c(command, system.file("node", "fork-server.R", package = "clutch", lib.loc = lib), lib,
            format(min(idle, 1e9)), if (exec) paste(spec$packages, collapse = ",") else "",
            if (is.na(env["TMPDIR"])) "" else paste0("TMPDIR=", env[["TMPDIR"]]), command)
  start_env <- env
  start_env[c("TMPDIR", "CLUTCH_STARTING")] <- c(folder, "1")
  start_env["CLUTCH_MARK"] <- strrep("0", 32L) # room for the mark that each node has and what it starts inherits: see orphans.h
  handle <- .Call(ffi_server_start, spec$rscript, argv, paste0(names(start_env), "=", start_env), log)
  server <- list(handle = handle, log = log, env = env, report = NULL, tmp = NULL, folder = folder)
  .Call(ffi_server_send, handle, "setup", list(packages = if (exec) character() else spec$packages))
  ok <- TRUE
  server
}

# A heap of huge pages, where the C library and the kernel have them: a fork then copies some twenty entries of
# the page table instead of ten thousand. With R 4.2 a fork takes 0.26 ms instead of 1.0, its end 0.14 instead of 0.55.
huge_pages <- function(tunables) {
  ours <- "glibc.malloc.hugetlb=1"
  if (is.na(tunables) || !nzchar(tunables)) ours else paste(tunables, ours, sep = ":")
}

# Waits until it is ready; what went wrong is an error, and then nothing of it is left.
server_ready <- function(server, seconds) {
  if (!is.null(server$report)) return(server)
  ok <- FALSE
  on.exit(if (!ok) server_drop(server$key))
  report <- .Call(ffi_server_wait, server$handle, seconds)
  if (is.null(report)) {
    i <- .Call(ffi_server_info, server$handle)
    why <- if (i$state == "ended") paste("the fork server", server_ended(i))
      else sprintf("the fork server was not ready within %g seconds (setup_timeout)", seconds)
    throw("start", paste0(why, last_lines(server$log)))
  }
  server$tmp <- report$tmp
  the$servers[[server$key]]$tmp <- report$tmp
  if (!is.null(report$error))
    throw("package", sprintf("package '%s' cannot be attached on the nodes: %s", report$failed, report$error),
          package = report$failed)
  server$report <- report
  the$servers[[server$key]]$report <- report
  unlink(server$log)
  ok <- TRUE
  server
}

last_lines <- function(log) {
  lines <- if (file.exists(log)) utils::tail(readLines(log, warn = FALSE), 5L)
  if (length(lines)) paste0("; it printed last:\n", paste0("  ", lines, collapse = "\n")) else ""
}

# Ends a server and all its nodes, and removes what a killed one left.
server_drop <- function(key) {
  s <- the$servers[[key]]
  the$servers[[key]] <- NULL
  if (is.null(s)) return(invisible())
  .Call(ffi_server_close, s$handle, 3)
  server_clean(s)
}

server_clean <- function(s) {
  # of one that ended before it was ready only the link in its first folder tells where it has moved
  tmp <- if (!is.null(s$tmp)) s$tmp else Sys.readlink(list.files(s$folder, full.names = TRUE))
  for (folder in tmp[nzchar(tmp)]) .Call(ffi_remove_tree, folder)
  unlink(c(s$log, s$folder), recursive = TRUE) # of the folder's link the link only
  invisible()
}

# Forgets servers that have ended; says so when nobody asked them to.
sweep_servers <- function(quiet = FALSE) {
  for (key in names(the$servers)) {
    i <- .Call(ffi_server_info, the$servers[[key]]$handle)
    if (i$state != "ended") next
    if (!i$bye && !i$asked && !quiet)
      say(sprintf("The fork server (pid %d) %s; a new one is started.", i$pid, server_ended(i)))
    server_clean(the$servers[[key]])
    the$servers[[key]] <- NULL
  }
}

#' End idle fork servers
#'
#' A cluster's nodes are forked from a *fork server*, an R process that stays for the next cluster of the
#' session: it starts in a few hundredths of a second then. It ends by itself when it has had no node for
#' `getOption("clutch.idle_limit", 300)` seconds, and with the session. This function ends it now.
#'
#' @param all logical: end servers that have nodes, too, and so these clusters? By default only idle ones.
#' @return The number of servers ended, invisibly.
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
  invisible(n)
}
