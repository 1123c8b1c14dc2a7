# The user's view of a cluster: make, look at, stop.

# Options of parallel::makeCluster() that mean nothing here; accepted, so that programs written for it run.
ignored_options <- c("type", "setup_strategy", "useXDR", "rhome", "rlibs", "scriptdir", "rprog", "snowlib", "useRscript")
# Those of nodes that connect over TCP; the others do not listen to them.
tcp_options <- c("port", "timeout", "master", "homogeneous", "user", "rshcmd", "manual", "backlog", "secret", "node")
known_options <- c("methods", "renice", "rscript", tcp_options, ignored_options)
# What `spec` is called elsewhere.
names_of_spec <- c("workers", "nodes", "nnodes", "n", "cores", "ncores", "names", "hosts")
strategies <- c("fork_server", "spawn", "parallel", "sequential")

#' Make a cluster of R processes
#'
#' Starts R processes, the nodes of a cluster, for the functions of package \pkg{parallel} such as
#' [parallel::parLapply()] and [parallel::clusterApplyLB()].
#'
#' With strategy `"fork_server"` a clean R is started once by the session, attaches the default packages and
#' `packages`, and forks one node after the other from itself. Each node is as an R started at that moment
#' would be: nothing of the session's workspace, files, devices or threads is in it, it has its own temporary
#' folder and random numbers, and the session's environment variables and working directory. The fork server
#' stays for later clusters (see [fork_server_stop()]), tells how a node ended, and ends all nodes when the
#' session ends, whatever ends it. No port is opened.
#'
#' With strategy `"spawn"` each node is an R process of its own start. It takes as long as with base R, and
#' is used, with a message, when a package starts threads while it is attached, for threads do not survive
#' a fork.
#'
#' With strategies `"parallel"` and `"sequential"` the nodes connect to the session over TCP: all of them are started
#' at once, or one after the other. This is what nodes on other hosts need, and nodes that are started by hand
#' (`manual = TRUE`). Node and session prove to each other that they know the cluster's secret (HMAC-SHA256 over random
#' numbers of both) before either believes anything else; a stranger gets nothing. What travels afterwards is not
#' encrypted. When all nodes are local, the port is open on a loopback address only, and only until they are there.
#' A node that hears nothing from the session, because the connection was lost on the way, connects anew.
#' Where R itself is to be the node, without this package, take `node = "psock"`: it is base R's own worker, with base
#' R's own protocol, which proves nothing: who can reach the port while the cluster starts can join it.
#'
#' A node's share of the cores is `available_cores()` divided by the number of nodes on this machine, at least 1. In a node
#' [available_cores()] is that share, and so are the environment variables that libraries take their number of threads from
#' (`OMP_NUM_THREADS`, `OPENBLAS_NUM_THREADS`, `MKL_NUM_THREADS`, `R_DATATABLE_NUM_THREADS` and kin), where the
#' session does not set them: nodes times threads are not more than the cores. Libraries that the fork server
#' has loaded before it forks have one thread.
#'
#' A profile (`.Rprofile`) or a package that makes a cluster does so in the session only: in a fork server or node that is
#' starting, and so reads the same profile, `make_cluster()` signals an error of class `clutch_starting`; where nobody handles
#' that, it says so in one line and returns a cluster without nodes, and the profile goes on.
#'
#' @param spec number of nodes on this machine; or a character vector with the host of each node; or a list of such
#'   names and of lists `list(host = )` with options for that node only: `rscript`, `rscript_args`, `user`, `rshcmd`,
#'   `homogeneous`, `master`, `renice`, `outfile`. `"localhost"`, `"127.0.0.1"` and all other addresses that begin with
#'   127, `"::1"` and this machine's name are this machine; others are reached with `rshcmd`.
#' @param strategy how the nodes are started: `"fork_server"`, `"spawn"`, `"parallel"` or `"sequential"`. By default
#'   `"fork_server"`, but `"parallel"` with hosts other than this machine and with `node = "psock"`, and
#'   `"sequential"` with `manual = TRUE`.
#' @param packages character: names of packages to attach in every node.
#' @param outfile where output of the nodes goes: a file that is appended to, `""` for that of this
#'   session, or (default) nowhere.
#' @param env named character: environment variables of the nodes, besides the session's.
#' @param ... options of [parallel::makeCluster()]: `methods`, `renice` and `rscript` as there; for nodes that connect
#'   over TCP also `port` (0, the default: one that is free; or a range, of which one is taken), `master` (this machine's
#'   name, as the nodes know it), `timeout` (seconds of silence after which a node ends; 30 days or more: none),
#'   `homogeneous`, `rshcmd`, `user` and `manual`. Besides: `node` (`"clutch"` or `"psock"`), `backlog` (connections that may
#'   wait to be accepted; by default the most the system allows) and `secret` (64 hexadecimal digits, for nodes that were
#'   started by hand before). Options of base R that mean nothing here are accepted; others are an error.
#' @param rscript_args character: more arguments for `Rscript`.
#' @param setup_timeout seconds within which the cluster has to be up.
#' @return An object of class `c("clutch_cluster", "cluster")`, a list of nodes.
#' @section Other packages: The functions of package \pkg{snow} and `doSNOW::registerDoSNOW()` take these clusters as those of parallel do.
#'   `future::plan(cluster, workers = cl)`: nodes that have died are replaced for the futures that follow. \pkg{BiocParallel}:
#'   `as(cl, "SnowParam")`; the cluster is then stopped by [stop_cluster()], not by `bpstop()`.
#' @section Errors: `clutch_argument` for arguments of no use, `clutch_limit` when more nodes are asked for
#'   than the system allows, `clutch_package` (with element `package`) when one cannot be attached,
#'   `clutch_starting` in a process that is itself starting as a node,
#'   `clutch_start` when the cluster does not come up: its message says which nodes failed, why, and what they printed last
#'   (element `nodes` has their numbers). Nothing is left running then. In calls:
#'   `clutch_node_died` (with elements `node`, `pid`, `host`, `signal`, `status`) when a node has died,
#'   `clutch_stopped` for a cluster that was stopped, or saved and loaded again, and `clutch_forked` in a
#'   forked child of the session. All have class `clutch_error`.
#' @seealso [stop_cluster()], [cluster_status()], [available_cores()]
#' @references The server sockets, start-up and handshake of base R's clusters are described in
#'   T. Kalibera and L. Tierney, *Socket Connections Update*, The R Blog, 2020. That a fork server
#'   avoids what makes forking a live session unsafe is from Python's `multiprocessing`.
#' @examples
#' cl <- make_cluster(2)
#' parallel::parSapply(cl, 1:4, function(i) i^2)
#' cl
#' stop_cluster(cl)
#' cl <- make_cluster(2, strategy = "parallel")
#' cl
#' stop_cluster(cl)
#' @export
make_cluster <- function(spec = available_cores(), strategy = c("fork_server", "spawn", "parallel", "sequential"), packages = NULL,
                         outfile = "/dev/null", env = NULL, ..., rscript_args = character(),
                         setup_timeout = 120) { # behind the dots: `rscript` is not to be taken for `rscript_args`
  if (is_starting()) return(refuse_while_starting())
  tempdir(TRUE) # it may have been deleted
  began <- clock()
  opts <- check_options(list(...))
  by_default <- identical(strategy, strategies)
  strategy <- match_arg(strategy, strategies, "strategy")
  if (identical(list(...)$type, "FORK"))
    say("type = \"FORK\": the nodes are not forks of this session and see nothing of its objects; see cluster_export().")
  hosts <- node_hosts(spec)
  n <- length(hosts)
  if (by_default) strategy <- default_strategy(hosts, opts)
  packages <- check_strings(packages, "packages")
  rscript_args <- check_strings(rscript_args, "rscript_args")
  env <- check_env(env)
  if (is.null(outfile)) outfile <- "/dev/null"
  if (!is.character(outfile) || length(outfile) != 1L || is.na(outfile))
    throw("argument", "`outfile` has to be one string")
  if (!is.numeric(setup_timeout) || length(setup_timeout) != 1L || is.na(setup_timeout) || setup_timeout <= 0)
    throw("argument", "`setup_timeout` has to be a positive number of seconds")
  check_limits(n)

  deadline <- began + setup_timeout
  left <- function() max(deadline - clock(), 0.01)
  whole_env <- effective_env(env)
  if (strategy %in% c("parallel", "sequential")) {
    here <- sum(vapply(hosts, function(h) is_this_machine(h$host), NA))
    info <- tcp_plan(hosts, strategy, opts, packages, outfile, env, share_env(whole_env, max(here, 1L)), rscript_args, setup_timeout)
    if (identical(opts$tcp$node, "psock")) return(psock_cluster(info, n, left, began))
    return(as_cluster(info, start_nodes(info, n, left), began))
  }
  if (!all(vapply(hosts, function(h) is_this_machine(h$host), NA)))
    throw("argument", sprintf("strategy \"%s\" starts nodes on this machine only, and '%s' is another one: take \"parallel\"",
                              strategy, Find(function(h) !is_this_machine(h$host), hosts)$host))
  server_spec <- list(packages = packages, rscript = opts$rscript, rscript_args = rscript_args,
                      methods = opts$methods, strategy = strategy)
  server <- server_ready(server_for(server_spec, whole_env), left())
  if (strategy == "fork_server" && has_threads(server$report)) {
    say_threads(server$report)
    server_drop(server$key)
    server_spec$strategy <- strategy <- "spawn"
    server <- server_ready(server_for(server_spec, whole_env), left())
  }

  info <- new.env(parent = emptyenv())
  info$strategy <- strategy
  info$outfile <- path.expand(outfile)
  info$started <- Sys.time()
  info$packages <- packages
  info$oom_kills <- oom_kills()
  hatch <- function(server) {
    info$server <- server
    info$settings <- node_settings(share_env(whole_env, n), server$env, outfile, opts$renice)
    info$settings$by_exec <- strategy == "spawn"
    info$number <- NULL
    start_nodes(info, n, left)
  }
  handles <- tryCatch(hatch(server), clutch_error = function(e) {
    # a warm server may end just now, because it was idle for too long, or was killed
    if (.Call(ffi_server_info, server$handle)$state != "ended") stop(e)
  })
  if (is.null(handles)) handles <- hatch(server_ready(server_for(server_spec, whole_env), left()))
  info$renew <- function(left) {
    server <- server_ready(server_for(server_spec, whole_env), left())
    wanted <- share_env(whole_env, n)
    if (!is.null(info$settings$wd)) wanted[["PWD"]] <- info$settings$wd
    info$settings[c("env_set", "env_unset")] <- env_changes(wanted, server$env) # it may be one that was started for another cluster
    server
  }
  as_cluster(info, handles, began)
}

as_cluster <- function(info, handles, began) {
  force(handles)
  info$took <- clock() - began
  info$handles <- handles
  cl <- lapply(seq_along(handles), function(i)
    structure(list(handle = handles[[i]], host = node_host(info, i), rank = i, info = info), class = "clutch_node"))
  structure(cl, class = c("clutch_cluster", "cluster"))
}

# A fork server that was killed is no reason for its cluster to be of no more use: the nodes to come are those of a new one.
# The one that the session has ended itself, or that it has ended with, is.
renew_server <- function(info, left) {
  if (is.null(info$renew)) return()
  i <- .Call(ffi_server_info, info$server$handle)
  if (i$state != "ended" || i$asked) return()
  info$lost_servers[[format(i$pid)]] <- server_end_text(i$pid, info)
  info$server <- info$renew(left)
  info$number <- NULL
}

# `n` nodes that have said hello, or an error and none.
start_nodes <- function(info, n, left, ranks = seq_len(n)) {
  tempdir(TRUE) # it may have been deleted since the cluster was made
  if (!is.null(info$tcp)) return(start_tcp_nodes(info, ranks, left))
  renew_server(info, left)
  handle <- info$server$handle
  if (is.null(info$number) || !identical(.Call(ffi_server_info, handle)$applied, info$number)) {
    answer <- .Call(ffi_server_settings, handle, info$settings, info$outfile, left())
    if (is.character(answer)) throw("start", paste("the nodes cannot be set up:", answer))
    info$number <- answer
  }
  nodes <- NULL
  ok <- FALSE
  on.exit(if (!ok && !is.null(nodes)) .Call(ffi_nodes_stop, nodes, 0, 5))
  nodes <- .Call(ffi_nodes_spawn, handle, as.integer(ranks), info$strategy == "spawn")
  failed <- .Call(ffi_nodes_wait, nodes, left())
  if (failed > 0L) {
    i <- .Call(ffi_node_info, nodes[[failed]])
    late <- i$state == "starting" && is.null(i$refusal)
    why <- if (late) "it did not start within setup_timeout" else death_text(i, info)
    throw(if (!is.null(i$refusal)) "limit" else "start",
          sprintf("node %d of %d cannot be started: %s; nothing was left running", failed, length(ranks), why))
  }
  ok <- TRUE
  nodes
}

node_settings <- function(wanted, servers, outfile, nice) {
  wd <- getwd()
  if (!is.null(wd)) wanted[["PWD"]] <- wd # as the shell that starts an Rscript sets it
  c(env_changes(wanted, servers), list(wd = wd, session = Sys.getpid(), umask = Sys.umask(), announce = outfile != "/dev/null", nice = nice))
}

# What makes the environment of a fork server that of its nodes.
env_changes <- function(wanted, servers) {
  changed <- names(wanted)[is.na(servers[names(wanted)]) | servers[names(wanted)] != wanted]
  list(env_set = wanted[changed], env_unset = setdiff(names(servers), names(wanted)))
}

has_threads <- function(report) {
  length(report$threads) > 0L || isTRUE(report$start_threads > 1L)
}

say_threads <- function(report) {
  who <- if (length(report$threads))
    sprintf("Package %s starts threads while it is attached", paste0("'", report$threads, "'", collapse = ", "))
  else "R itself runs with more than one thread (its linear algebra, or its profile)"
  say(paste0(who, ", and threads do not survive a fork: each node is started afresh ",
             "(strategy \"spawn\"), which takes longer."))
}

# ---- arguments ----

check_env <- function(env) {
  if (is.null(env)) return(character())
  out <- structure(as.character(env), names = names(env))
  if (is.null(names(env)) || !all(nzchar(names(env))) || anyNA(out) || any(grepl("=", names(env), fixed = TRUE)))
    throw("argument", "`env` has to be a named character vector: c(NAME = \"value\")")
  out
}

check_options <- function(opts) {
  given <- names(opts)
  if (length(opts) && (is.null(given) || !all(nzchar(given))))
    throw("argument", "the options of make_cluster() have to be named")
  bad <- setdiff(given, known_options)
  if (length(bad)) {
    if (bad[[1L]] %in% names_of_spec)
      throw("argument", sprintf("make_cluster() has no option '%s': the number of nodes, or their hosts, is `spec`", bad[[1L]]))
    all <- c(known_options, names(formals(make_cluster)))
    throw("argument", sprintf("make_cluster() has no option '%s'%s", bad[[1L]], did_you_mean(bad[[1L]], all, "'")))
  }
  list(methods = !identical(opts$methods, FALSE),
       renice = if (is.null(opts$renice)) NA_integer_ else as.integer(opts$renice),
       rscript = if (is.null(opts$rscript)) file.path(R.home("bin"), "Rscript") else path.expand(opts$rscript),
       given = intersect(given, c("rscript", tcp_options)), tcp = check_tcp_options(opts[intersect(given, tcp_options)]))
}

# One list for each node: host, and options that are for this node only.
node_hosts <- function(spec) {
  if (is.character(spec) || is.list(spec)) {
    if (length(spec) == 0L) throw("argument", "a cluster has at least one node")
    return(lapply(spec, one_host))
  }
  if (!is.numeric(spec) || length(spec) != 1L || !is.finite(spec) || spec != floor(spec) || spec < 1)
    throw("argument", "`spec` has to be a number of nodes, 1 or more, or a name of a host for each node")
  if (spec > 65536) throw("limit", sprintf("%.0f nodes are more than a cluster can have (65536)", spec))
  rep(list(list(host = "localhost")), spec)
}

one_host <- function(s) {
  if (!is.list(s)) s <- list(host = s)
  bad <- setdiff(names(s), node_options)
  if (length(bad)) throw("argument", sprintf("a node has no option '%s'", bad[[1L]]))
  if (is.character(s$host) && length(s$host) == 1L && grepl("^[0-9]+$", s$host))
    throw("argument", sprintf("\"%s\" is no name of a host: a number of nodes is given as a number, make_cluster(%s)",
                              s$host, s$host))
  # what begins with "-" would be an option of ssh
  if (!is.character(s$host) || length(s$host) != 1L || is.na(s$host) || !grepl("^[A-Za-z0-9_:][A-Za-z0-9_.:%@-]*$", s$host))
    throw("argument", sprintf("'%s' is no name of a host", format(s$host)[1L]))
  s
}

default_strategy <- function(hosts, opts) {
  if (isTRUE(opts$tcp$manual)) "sequential"
  else if (identical(opts$tcp$node, "psock") || !all(vapply(hosts, function(h) is_this_machine(h$host), NA))) "parallel"
  else "fork_server"
}

# What would fail half-way fails here.
check_limits <- function(n) {
  check <- tolower(Sys.getenv("_R_CHECK_LIMIT_CORES_"))
  if (nzchar(check) && check != "false" && n > 2L) {
    text <- sprintf("%d simultaneous processes spawned", n)
    if (check == "warn") warning(text, call. = FALSE) else throw("limit", text)
  }
  l <- .Call(ffi_limits)
  open <- if (is.na(l[[3L]])) 64 else l[[3L]]
  # above the first 1024, which are left to code that uses select(); fewer if need be
  if (!.Call(ffi_raise_fds, 1024 + n + open + 64) && !.Call(ffi_raise_fds, n + open + 16))
    throw("limit", sprintf("%d nodes need as many descriptors, and this process may have %.0f (ulimit -Hn), %.0f of which are open",
                           n, l[[2L]], open))
  room <- process_room()
  if (n > room$n)
    throw("limit", sprintf("%d nodes are more than the processes that can be started: about %.0f (%s)", n, room$n, room$what))
}

process_room <- function() {
  number <- function(file) {
    x <- tryCatch(suppressWarnings(as.numeric(readLines(file, n = 1L, warn = FALSE))), error = function(e) NA_real_)
    if (length(x)) x else NA_real_
  }
  running <- length(list.files(proc_file(), "^[0-9]+$"))
  mem <- read_lines(proc_file("meminfo"))
  free <- as.numeric(gsub("[^0-9]", "", grep("^MemAvailable", mem, value = TRUE)))
  rooms <- c("kernel.pid_max" = number(proc_file("sys/kernel/pid_max")) - running,
             "kernel.threads-max" = number(proc_file("sys/kernel/threads-max")) - running,
             "a node takes about 1 MB of free memory" = if (length(free)) free / 1024 else NA)
  if (all(is.na(rooms))) return(list(n = Inf, what = ""))
  list(n = max(min(rooms, na.rm = TRUE), 0), what = names(rooms)[which.min(rooms)])
}

# ---- looking ----

#' State of a cluster's nodes
#'
#' Asks the system and the fork server; runs nothing on the nodes.
#'
#' @param cl a cluster made by [make_cluster()].
#' @return A data frame with one row a node: `node` (its rank), `host`, `pid`, `state` (`"idle"`, `"busy"`,
#'   `"cancelling"`: it is told to give up a call that was interrupted, `"stopped"`, or `"dead: "` and how
#'   it ended), `started` (date and time), `tasks` (calls answered), `cpu` (seconds of user and system time)
#'   and `memory` (MB, that is 2^20 bytes, that are its own, in memory or swap: what it has written, and shares neither with its
#'   fork server nor with others; what `.max_memory` of [cluster_map()] counts). The last two are `NA` where the system does not tell.
#' @section Errors: `clutch_argument` when `cl` is no such cluster.
#' @examples
#' cl <- make_cluster(2)
#' cluster_status(cl)
#' stop_cluster(cl)
#' @export
cluster_status <- function(cl) {
  check_cluster(cl)
  infos <- lapply(cl, function(nd) .Call(ffi_node_info, nd$handle))
  pid <- vapply(infos, function(i) i$pid, 1L)
  alive <- vapply(infos, function(i) i$state %in% c("idle", "busy", "cancelling", "starting"), NA)
  here <- alive & vapply(cl, function(nd) is_this_machine(nd$host), NA)
  data.frame(
    node = vapply(cl, function(nd) nd$rank, 1L),
    host = vapply(cl, function(nd) nd$host, ""),
    pid = pid,
    state = vapply(infos, state_text, ""),
    started = Sys.time() - vapply(infos, function(i) i$age, 1),
    tasks = vapply(infos, function(i) i$done, 1),
    cpu = ifelse(here, vapply(pid, process_cpu, 1), NA_real_),
    memory = ifelse(here, vapply(pid, process_memory, 1), NA_real_),
    stringsAsFactors = FALSE)
}

read_proc <- function(pid, file) {
  tryCatch(suppressWarnings(readLines(proc_file(pid, file), warn = FALSE)), error = function(e) character())
}

process_cpu <- function(pid) {
  stat <- read_proc(pid, "stat")
  if (!length(stat)) return(NA_real_)
  fields <- strsplit(sub("^.*\\) ", "", stat[[1L]]), " ")[[1L]]
  sum(as.numeric(fields[12:13])) / 100 # USER_HZ is 100 on every Linux
}

# The same measure as that of `.max_memory`, in MB.
process_memory <- function(pid) .Call(ffi_process_memory, pid) / 2^20

#' @export
`[.clutch_cluster` <- function(x, i) {
  class <- class(x)
  x <- unclass(x)
  if (missing(i)) return(structure(x, class = class))
  at <- seq_along(x)[i]
  if (anyNA(at))
    throw("argument", sprintf("the cluster has %d node%s: [%s] is out of range", length(x), if (length(x) == 1L) "" else "s",
                              deparse(i, nlines = 1L)[[1L]]))
  structure(x[at], class = class)
}

#' @export
print.clutch_cluster <- function(x, ...) {
  n <- length(x)
  cat(sprintf("clutch cluster with %d node%s on host %s\n", n, if (n == 1L) "" else "s",
              paste0(sQuote(unique(vapply(x, function(nd) nd$host, ""))), collapse = ", ")))
  if (n == 0L) return(invisible(x))
  first <- x[[1L]]$info
  infos <- tryCatch(lapply(x, function(nd) .Call(ffi_node_info, nd$handle)), clutch_error = function(e) NULL)
  cat(sprintf("  started by strategy \"%s\" in %.0f ms, %s\n", first$strategy, 1000 * first$took,
              format(first$started, "%Y-%m-%d %H:%M:%S")))
  if (length(first$packages)) cat("  packages:", paste(first$packages, collapse = ", "), "\n")
  if (is.null(infos)) {
    cat("  not usable in this process\n")
    return(invisible(x))
  }
  pids <- vapply(infos, function(i) as.character(i$pid), "")
  more <- if (n > 10L) sprintf(", ... (%d more)", n - 10L) else ""
  cat("  pids: ", paste(utils::head(pids, 10L), collapse = ", "), more, "\n", sep = "")
  states <- table(vapply(infos, state_text, ""))
  cat("  ", paste(states, names(states), collapse = ", "), "\n", sep = "")
  invisible(x)
}

#' @export
print.clutch_node <- function(x, ...) {
  i <- tryCatch(.Call(ffi_node_info, x$handle), clutch_error = function(e) NULL)
  if (is.null(i)) cat(sprintf("node %d of a clutch cluster, not usable in this process\n", x$rank))
  else cat(sprintf("node %d of a clutch cluster on host %s with pid %d, %s\n", x$rank, sQuote(x$host), i$pid,
                   state_text(i)))
  invisible(x)
}

# ---- stopping ----

#' Stop a cluster
#'
#' Ends the nodes and waits until they are gone. Idle nodes close their files and devices first; a node that
#' is busy, or takes longer than two seconds for that, is killed. [parallel::stopCluster()] does the same. A
#' cluster to which nothing refers any more is stopped when R next collects garbage.
#'
#' @param cl a cluster; by default the one registered with [parallel::setDefaultCluster()].
#' @return `NULL`, invisibly.
#' @section Errors: `clutch_argument` when there is no cluster to stop.
#' @examples
#' cl <- make_cluster(2)
#' stop_cluster(cl)
#' @export
stop_cluster <- function(cl = NULL) {
  default <- parallel::getDefaultCluster()
  if (is.null(cl)) cl <- default
  if (is.null(cl)) throw("argument", "no cluster 'cl' supplied and none is registered")
  check_cluster(cl)
  if (identical(cl, default)) parallel::setDefaultCluster(NULL)
  stop_nodes(cl)
}

stop_nodes <- function(cl) {
  for (nd in unclass(cl)) if (inherits(nd, "clutch_psock_node")) tell_psock_done(nd)
  handles <- lapply(unclass(cl), function(nd) nd$handle)
  if (length(cl)) drop_replacements(cl[[1L]]$info$tasks)
  .Call(ffi_nodes_stop, handles, 2000, 5)
  invisible(NULL)
}
