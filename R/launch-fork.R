# Nodes on this machine that a fork server starts: by fork (strategy "fork_server"), or by exec
# (strategy "spawn") where a fork would not do.
#
# The start of forked nodes, in order:
#   - server_for() (launch-fork-server.R) returns a fork server that fits, or starts one.
#   - SETUP. The server attaches the packages, counts the threads that each starts, prepares its
#     heap (settle_memory()), and answers READY with the descriptor of the shared memory. If a
#     package has started threads, the launcher drops this server and uses strategy "spawn".
#   - SETTINGS: environment variables that differ, working directory, umask, descriptors for
#     output, and how many nodes follow. The server applies them, so that nodes inherit them, and
#     answers APPLIED. A server that is still starting is sent them behind SETUP.
#   - SPAWN, one for each node, with the node's end of a new socket pair. The supervisor forks and
#     answers SPAWNED with the process id, or REFUSED with the reason.
#   - HELLO. The node sends it on its data channel. The cluster is ready when all nodes have. If
#     one fails, or `setup_timeout` is over, all are stopped and the error says why.
# Each node gets ready later: src/r/node/node-start.c.

fork_launcher <- function() {
  new_launcher(plan = plan_forked, start = start_forked, replace = replace_forked,
               show = show_forked)
}
add_kind("launcher", "fork", fork_launcher)

plan_forked <- function(request) {
  need_fork(sprintf("strategy \"%s\"", request$strategy), "take \"parallel\"")
  elsewhere <- Filter(Negate(is_this_machine), unique(host_names(request$hosts)))
  if (length(elsewhere)) {
    text <- paste("strategy \"%s\" starts nodes on this machine only, and '%s' is another one:",
                  "take \"parallel\"")
    throw("argument", sprintf(text, request$strategy, elsewhere[[1L]]))
  }
  n <- length(request$hosts)
  first <- if (!is.null(request$first) && request$first < n) request$first
  libraries <- libraries_for(request)
  spec <- list(packages = request$packages, rscript = request$rscript,
               rscript_args = request$rscript_args, methods = request$methods,
               strategy = request$strategy,
               libraries = if (needs_libraries(request)) libraries)
  if (request$strategy != "spawn") spec <- with_load(spec, request$load, libraries)
  stay <- stay_of(request)
  spec <- with_stay(spec, stay)
  announce <- !isFALSE(request$announce) && request$outfile != "/dev/null"
  settings <- list(wd = getwd(), session = Sys.getpid(), umask = Sys.umask(), announce = announce,
                   nice = request$renice, share_from = share_from_of(n),
                   stay = if (stay > 0) stay)
  new_plan(request, launcher = "fork", hosts = rep("localhost", n), libraries = libraries,
           first = first, idle = if (!is.null(first)) request$idle, spec = spec,
           settings = settings, session_env = effective_env(request$env),
           keep = request$keep, end_of_server = fork_server_end_text)
}

# For so many seconds its fork server stays for another session, see launch-stay.R.
stay_of <- function(request) {
  if (!can_stay(request)) return(0)
  seconds <- seconds_to_stay(request$stay)
  why <- if (seconds > 0) why_not_to_stay(request$rscript_args)
  if (is.null(why)) return(seconds)
  say(sprintf("The fork server is not kept for another session: %s.", why))
  0
}

# Tells whether the fork server itself attaches packages or evaluates something, and not each node.
needs_libraries <- function(request) {
  if (request$strategy == "spawn") return(FALSE)
  length(request$packages) > 0L || !is.null(request$preload)
}

# Handles of nodes with these ranks that have said hello, or an error and none.
start_forked <- function(info, ranks, left) {
  tempdir(TRUE) # it may have been deleted since the cluster was made
  is_first <- is.null(info$server)
  ok <- FALSE
  on.exit(if (!ok && is_first) drop_own_server(info))
  n <- length(ranks)
  if (is_first) connect_server(info, n, left) else renew_server(info, n, left)
  handles <- tryCatch(fork_nodes(info, ranks, left), clutch_error = function(e) {
    # a warm server may end just now, because it was idle for too long, or was killed
    if (!is_first || .Call(ffi_server_info, info$server$handle)$state != "ended") stop(e)
  })
  if (is.null(handles)) {
    connect_server(info, n, left)
    handles <- fork_nodes(info, ranks, left)
  }
  ok <- TRUE
  handles
}

# One that is killed while it starts is followed by others: whatever killed the one before may kill
# this one.
START_TRIES <- 3L

replace_forked <- function(info, rank, seconds) {
  end <- clock() + seconds
  left <- function() max(end - clock(), 0.01)
  for (try in seq_len(START_TRIES)) {
    handles <- tryCatch(start_forked(info, rank, left), clutch_error = identity)
    if (!inherits(handles, "error")) return(handles[[1L]])
  }
  stop(handles)
}

# ---- the server ----

# Gives the cluster a server that is ready, and settings that fit it, for `n` nodes. `meanwhile`: a
# function that is called while the server starts.
connect_server <- function(info, n, left, meanwhile = NULL) {
  drop_own_server(info) # one that was killed
  preload <- if (info$strategy == "fork_server") preload_of(info)
  server <- if (is.null(preload)) {
    server_for(info$spec, info$plan$session_env)
  } else {
    own_server(info$spec, info$plan$session_env, preload)
  }
  # while the server starts: it takes some milliseconds
  if (is.null(info$node_env)) set_cluster(info, node_env = node_env_of(info))
  tell_settings(info, server, n)
  ok <- is.null(meanwhile)
  on.exit(if (!ok) server_end(server))
  if (!ok) meanwhile()
  ok <- TRUE
  server <- server_ready(server, left())
  if (length(info$spec$load) && has_threads(server$report)) {
    server <- without_load(info, server, left)
  }
  if (!is.null(preload)) preload_came_well(info, server)
  if (info$spec$strategy == "fork_server" && has_threads(server$report)) {
    say_threads(server$report)
    server_drop(server$key)
    spec <- info$spec
    spec$strategy <- "spawn"
    spec$stays <- NULL
    set_cluster(info, spec = spec, strategy = "spawn")
    if (!is.null(info$plan$keep)) spec_of_programs(info)
    server <- server_of_spec(info, left)
  }
  set_cluster(info, server = server, number = NULL)
  pass_view(info)
}

# The settings that fit this server, which is sent them at once where it is still starting.
tell_settings <- function(info, server, n) {
  set_cluster(info, settings = fork_settings(info, info$node_env, server$env))
  sent <- if (is.null(server$report)) settings_sent(info, server$handle, n)
  set_cluster(info, sent = sent)
}

# A server for what is wanted now, ready, which has not been sent any settings.
server_of_spec <- function(info, left) {
  server <- server_ready(server_for(info$spec, info$plan$session_env), left())
  set_cluster(info, settings = fork_settings(info, info$node_env, server$env), sent = NULL)
  server
}

# A package that was to be loaded ahead starts threads: each node loads it by itself, as where
# nobody has looked ahead.
without_load <- function(info, server, left) {
  server_drop(server$key)
  spec <- info$spec
  spec$load <- NULL
  set_cluster(info, spec = spec)
  server_of_spec(info, left)
}

drop_own_server <- function(info) if (!is.null(info$server$own)) server_end(info$server)

# Says what the expression of `preload` has said, or why it is of no use.
preload_came_well <- function(info, server) {
  ok <- FALSE
  on.exit(if (!ok) server_end(server))
  report <- server$report
  if (has_threads(report)) throw_preload_threads(threads_text(report))
  if (report$preload$threads) throw_preload_threads("The expression of `preload` starts threads")
  if (is.null(info$lost_servers)) { # else it was said when the cluster was made
    for (text in report$preload$warnings) warning("preload: ", text, call. = FALSE)
    open <- report$preload$open
    text <- "preload: %s that the expression has left open were closed before the nodes were forked"
    if (length(open)) warning(sprintf(text, paste(open, collapse = " and ")), call. = FALSE)
  }
  ok <- TRUE
}

throw_preload_threads <- function(who) {
  text <- paste("%s, and threads do not survive a fork: nodes cannot inherit what is preloaded.",
                "With strategy = \"spawn\" each node evaluates `preload` by itself.")
  throw("start", sprintf(text, who), threads = TRUE)
}

# The value describes the server of nodes that run programs (launch-programs.R), where these are new
# R processes. They do not have what their server has loaded. One that is started again has the
# environment of its server: where that may happen the server has no settings of others.
spec_of_programs <- function(info) {
  spec <- info$spec
  spec$load <- NULL
  if (info$plan$keep) spec$own <- tempfile("")
  set_cluster(info, spec = spec)
}

# A fork server that was killed is no reason for its cluster to be of no more use: the nodes to come
# are those of a new one. The one that the session has ended itself, or that it has ended with, is.
renew_server <- function(info, n, left) {
  i <- .Call(ffi_server_info, info$server$handle)
  if (i$state != "ended" || i$asked) return()
  lost <- info$lost_servers
  lost[[format(i$pid)]] <- server_end_text(i$pid, info)
  set_cluster(info, lost_servers = lost)
  connect_server(info, n, left)
}

# The environment variables that the nodes have.
node_env_of <- function(info) {
  env <- share_env(info$plan$session_env, length(info$hosts))
  if (!is.null(info$settings$wd)) env[["PWD"]] <- info$settings$wd # as a shell sets it
  env
}

# For nodes with the environment `wanted`, of a server with the environment `env`.
fork_settings <- function(info, wanted, env) {
  settings <- info$settings
  settings[c("env_set", "env_unset")] <- env_changes(wanted, env)
  settings$libraries <- info$plan$libraries
  settings$by_exec <- info$strategy == "spawn"
  if (settings$by_exec) {
    quick <- quick_start_node(wanted, info$plan$libraries)
    settings$quick_start <- env_changes(quick, wanted)$env_set
  }
  settings
}

has_threads <- function(report) {
  length(report$threads) > 0L || isTRUE(report$start_threads > 1L)
}

threads_text <- function(report) {
  if (!length(report$threads)) {
    return("R itself runs with more than one thread (its linear algebra, or its profile)")
  }
  packages <- paste0("'", report$threads, "'", collapse = ", ")
  sprintf("Package %s starts threads while it is attached", packages)
}

say_threads <- function(report) {
  text <- paste("%s, and threads do not survive a fork: each node is started afresh (strategy",
                "\"spawn\"), which takes longer.")
  say(sprintf(text, threads_text(report)))
}

# ---- the nodes ----

fork_nodes <- function(info, ranks, left) {
  send_settings(info, length(ranks), left)
  nodes <- NULL
  ok <- FALSE
  on.exit(if (!ok && !is.null(nodes)) .Call(ffi_nodes_stop, nodes, 0, 5))
  nodes <- .Call(ffi_nodes_spawn, info$server$handle, as.integer(ranks), start_kind(info))
  failed <- .Call(ffi_nodes_wait, nodes, left())
  if (failed > 0L) throw_fork_failed(info, nodes[[failed]], failed, length(ranks))
  ok <- TRUE
  nodes
}

start_kind <- function(info) {
  is_exec <- info$strategy == "spawn"
  if (is.null(info$settings$program)) return(if (is_exec) "exec" else "fork")
  start_kind_of(info$strategy, if (info$plan$keep) "kept" else "program")
}

start_kind_of <- function(strategy, kind) paste0(if (strategy == "spawn") "exec_", kind)

# The server may have the settings of another cluster. `n`: nodes that follow.
send_settings <- function(info, n, left) {
  handle <- info$server$handle
  applied <- .Call(ffi_server_info, handle)$applied
  if (!is.null(info$number) && identical(applied, info$number)) return()
  answer <- if (is.null(info$sent)) settings_sent(info, handle, n) else info$sent
  set_cluster(info, sent = NULL)
  if (!is.character(answer)) answer <- .Call(ffi_server_applied, handle, answer, left())
  if (is.character(answer)) throw("start", paste("the nodes cannot be set up:", answer))
  set_cluster(info, number = answer)
}

# The number of these settings, or the text of the error.
settings_sent <- function(info, handle, n) {
  .Call(ffi_server_settings, handle, c(info$settings, nodes = n), info$plan$outfile)
}

throw_fork_failed <- function(info, handle, k, n) {
  i <- .Call(ffi_node_info, handle)
  is_late <- i$state == "starting" && is.null(i$refusal)
  why <- if (is_late) "it did not start within setup_timeout" else death_text(i, info)
  text <- sprintf("node %d of %d cannot be started: %s; nothing was left running", k, n, why)
  throw(if (is.null(i$refusal)) "start" else "limit", text)
}

# ---- dry run ----

number_of_nodes <- function(info) {
  most <- format(length(info$hosts))
  if (is.null(info$plan$first)) most else paste(info$plan$first, "to", most)
}

show_forked <- function(info) {
  env <- server_env(info$spec, info$plan$session_env)
  command <- server_command(info$spec, env, "<temporary folder>")
  changes <- env_changes(command$env, effective_env(NULL))
  settings <- fork_settings(info, node_env_of(info), env)
  c(
    sprintf("%s nodes on this machine, strategy \"%s\"", number_of_nodes(info), info$strategy),
    "fork server, unless one with the same key is running:",
    paste(" ", command_line(command$argv)),
    paste("  with", variable_text(changes$env_set)),
    if (length(info$plan$packages)) paste("  attaches", paste(info$plan$packages, collapse = ", ")),
    if (!is.null(info$plan$preload)) {
      paste("  for this cluster only, evaluates", info$plan$preload_text)
    },
    "each node:",
    paste("  in", settings$wd),
    paste("  with", variable_text(settings$env_set)),
    if (length(settings$env_unset)) paste("  without", paste(settings$env_unset, collapse = " ")),
    if (!is.na(settings$nice)) paste("  niceness", settings$nice),
    paste("  output to", info$plan$outfile)
  )
}
