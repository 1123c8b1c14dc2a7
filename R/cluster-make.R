# The user's view of a cluster: make, select nodes, stop.

#' Make a cluster of R processes
#'
#' Starts R processes, the nodes of a cluster, for [cluster_map()], [cluster_submit()] and the
#' functions of package \pkg{parallel} such as [parallel::parLapply()].
#'
#' @param spec One of these:
#'   * number of nodes on this machine;
#'   * two numbers, `c(2, 16)` or `2:16`: the least and the most nodes on this machine, see
#'     *A cluster that grows and shrinks*. `c(2, Inf)`: as many as [available_cores()] at most;
#'   * character vector: the host of each node, see *Names of hosts*;
#'   * what [hosts()], [slurm()] or [hosts_command()] returns: other hosts, with a fork server on
#'     each;
#'   * list: for each node the name of its host, or a list `list(host = )` with options for that
#'     node only: `rscript`, `rscript_args`, `user`, `rshcmd`, `homogeneous`, `master`, `renice`,
#'     `outfile`.
#'
#'   `"localhost"`, addresses that begin with 127, `"::1"` and this machine's name are this machine.
#'   Others are reached with `rshcmd`.
#' @param strategy `"fork_server"`, `"spawn"`, `"parallel"` or `"sequential"`: how the nodes are
#'   started, see *Strategies*. The default is `"fork_server"`; `"parallel"` with `node = "psock"`,
#'   for some *Names of hosts*, and on Windows; `"sequential"` with `manual = TRUE`.
#' @param packages Character vector: names of packages to attach in every node.
#' @param outfile String: the file to which output of the nodes is appended. `""` is the output of
#'   this session. The default keeps nothing.
#' @param env Named character vector: environment variables of the nodes, besides the session's.
#' @param ... More options by name, see *Options*.
#' @param rscript_args Character vector: more arguments for `Rscript`.
#' @param setup_timeout Number of seconds within which the cluster has to be up.
#' @param preload Expression: evaluated once before the nodes are forked, so that all nodes have its
#'   variables without a copy. See *Preloading*.
#' @param min_hosts Number: of the hosts of [hosts()], [slurm()] or [hosts_command()] so many have
#'   to come. If others do not, there is a warning of class `clutch_hosts_missing`, with element
#'   `hosts`, and the cluster has the nodes of those that have. By default all have to come.
#' @param idle Number of seconds, or string such as `"5min"`: in a cluster that grows, after this
#'   time without work a node ends. One minute by default; 0.2 s where memory is short.
#' @param resources Named list: what each host has to hand out to tasks that ask for it by `.needs`,
#'   see *Resources*.
#' @param keep Number of seconds for which the fork server stays when the cluster was stopped or the
#'   session has ended, for your next session. `NULL`: option `clutch.keep`, 0 by default. See
#'   *Next session*.
#' @return Object of class `c("clutch_cluster", "cluster")`: a list of nodes.
#'
#' @section Strategies:
#' `"fork_server"`: the session starts one clean R, the fork server. That attaches the default
#' packages and `packages`, and forks the nodes from itself. A node has nothing of the session's
#' workspace, files, devices or threads. It has its own temporary folder and random numbers, and the
#' session's environment variables, working directory and [.libPaths()]. What that is told later
#' holds from the next map or task on. The fork server stays for later clusters, see
#' [fork_server_stop()]. It tells how a node ended, and ends all nodes when the
#' session ends, whatever ends it. No port is opened.
#'
#' `"spawn"`: each node is an R process of its own start. It is used, with a message, when a package
#' starts threads while it is attached: threads do not survive a fork.
#'
#' `"parallel"`: the nodes connect to the session over TCP, and all are started at once.
#'
#' `"sequential"`: the same, one node after the other. Nodes that are started by hand
#' (`manual = TRUE`) need this.
#'
#' With these three, nodes that the session starts on this machine attach R's own packages
#' (\pkg{stats}, \pkg{utils} and the like), most of R's start, *after* the cluster has answered:
#' each before its first request, or when it has had nothing to do for 0.1 seconds and no other one
#' is starting. So the first call takes longer where it comes at once. What code finds is as always,
#' also in a profile. The packages are attached at the start if `packages` or `rscript_args` are
#' given, if a profile changes `options(defaultPackages)`, sets hooks for them or has a `.First`,
#' and if that of the site does more than set options and variables.
#'
#' @section Names of hosts:
#' `make_cluster(c("alpha", "alpha", "beta"))` has three nodes, and is [hosts()] with two fork
#' servers: one ssh and one encrypted connection a host. R and this package are looked for where
#' they are here; with `homogeneous = FALSE` on the PATH and in the libraries there. `rshcmd`,
#' `user`, `port` and `master` are arguments `ssh`, `user`, `listen` and `address` of [hosts()].
#'
#' Each node is a process of its own start, see *Nodes over TCP*, with strategy `"parallel"` or
#' `"sequential"`, or options `node = "psock"`, `manual`, `secret`, `timeout`, `backlog` or
#' `tls = FALSE`; with options for one node; where some of the names are this machine; where
#' `rshcmd` is not ssh, or `master` is a loopback address.
#'
#' @section Preloading:
#' `preload = { big <- readRDS("big.rds") }` is evaluated in the workspace of the fork server, after
#' `packages` are attached and before the nodes are forked. All nodes have its variables, of any
#' type, in the same memory. A node that changes one copies what it changes, and no other sees it.
#'
#' The variables of this session that the expression uses are found as for [cluster_map()], and sent
#' along with the packages that it needs. They are in the workspace of the nodes, too. Large vectors
#' among them travel by shared memory, see [share()]. A quoted expression, or a variable that has
#' one, is taken for the expression.
#'
#' Such a fork server serves this cluster only, and ends with it. A node that is replaced comes from
#' the same server. When the server was killed, the next one evaluates the expression anew.
#'
#' The time that it takes counts for `setup_timeout`. What it prints is not shown, its warnings are.
#' Connections and graphics devices that it leaves open would be shared by all nodes: they are
#' closed, with a warning. An external pointer leads to the node's own picture of the server's
#' memory. That is of use where all is in memory, and not for what is elsewhere, as a connection to
#' a database. Threads do not survive a fork: an expression that starts some is an error.
#'
#' *What it costs.* R's garbage collector writes a mark into each object when it collects fully. So
#' a large vector stays shared, and a list of many small objects becomes each node's own at its
#' first full collection. Measured on Linux with R 4.2, in MB that are a node's own: before and
#' after `gc()` 0.1 and 27 without `preload`, 0.1 and 27 with a vector of 160 MB, 0.1 and 98 with a
#' list of a million vectors of two numbers, 0.1 and 251 with a list of a million lists of two
#' numbers. So preload vectors, data frames and models, and not lists of small things.
#'
#' With the other strategies nothing is forked: each node evaluates the expression by itself when it
#' has started, as by [cluster_setup()]. That time does not count for `setup_timeout`.
#'
#' @section Next session:
#' A script that attaches packages in its nodes takes seconds for that each time it is run. With
#' `make_cluster(8, packages = "survival", keep = 600)` the fork server, with the packages, stays
#' for 600 seconds after the cluster was stopped or the session has ended, in whatever way. A
#' session of the same user on this machine that asks for `keep` and the same `packages` within that
#' time gets it: its nodes are forked at once. One session has it at a time.
#'
#' Nothing of the session before is in it: its nodes have ended, and no code of that session was run
#' in the fork server. Working directory, environment variables, options, random numbers and output
#' of the nodes are the new session's.
#'
#' It is what a new R would be, or it is not used, and a message says why. These have to be the
#' same: R and this package; other arguments of `make_cluster()` that concern the start;
#' [.libPaths()]; startup files; user, groups, capabilities, processors and limits (`ulimit`);
#' control group and namespaces. All packages that it has loaded have to be those on the disk: a
#' package that was installed again since, or put in front in [.libPaths()], ends the fork server.
#' With `packages`, also the working directory and environment variables, except those that tell of
#' a terminal or login; else only variables that R and libraries read when they start. What a
#' package has read elsewhere when it was loaded, such as a file of its own with settings, is as it
#' was then.
#'
#' It ends when the time is over, at SIGTERM, by [fork_server_stop()] in a session that has it, and
#' by `cluster_jobs(stop = TRUE)`. [cluster_jobs()] lists it.
#' Where a profile of yours (`.Rprofile`) does more than set options and variables no fork server is
#' kept: what it does may depend on anything. The same holds for the nodes of a node, for other
#' strategies than `"fork_server"`, `preload` and other hosts (an error, if `keep` is given), and
#' for systems other than Linux. Fork servers wait in the folder `clutch` of `XDG_RUNTIME_DIR`, else
#' in `/tmp`; only you can enter it, and other users' processes are refused.
#'
#' @section A cluster that grows and shrinks:
#' `make_cluster(c(2, 16))` starts 2 nodes. More come while tasks wait, and end when they had
#' nothing to do for `idle`. A thread of the package does this while the session computes, too.
#'
#' So many nodes are wanted that each has work for a twentieth of a second, by the times that tasks
#' have taken, or are taking. No more come than there are tasks, than `spec` says, and than there is
#' memory for what one task takes at its peak, see option `clutch.memory` of [clutch-options]. While
#' nodes are stopped as memory is short, none come.
#'
#' Nodes that come get what [cluster_setup()] and [cluster_export()] have given the others. What
#' fails there is a warning of class `clutch_setup`. What is on nodes that end is lost, as global
#' variables that tasks have made there. A node that has died is made again when it is needed.
#'
#' The cluster as a list, and so all functions of \pkg{parallel}, have the first nodes only. Maps
#' and tasks use all nodes; those with a part of the cluster, as `cl[1]`, that part. [print()] and
#' [cluster_status()] show those that are there.
#'
#' A map's elements are sent by R: while the session does something else only submitted tasks go on,
#' see [cluster_submit()]. Where the fork server was killed, or another cluster with other settings
#' was made with it, no node comes before the next map, or function that submits a task or waits.
#'
#' @section Nodes over TCP:
#' Node and session prove to each other that they know the cluster's secret (HMAC-SHA256 over random
#' numbers of both) before either believes anything else. Who does not know it gets nothing. A node
#' that hears nothing from the session, because the connection was lost on the way, connects anew.
#'
#' The connection of a node on another host is carried by the ssh that has started it (`ssh -R`).
#' Where `rshcmd` is not ssh, or with `manual = TRUE`, that is an error of class `clutch_argument`.
#' With `tls = FALSE` nodes connect to `master`, and what travels is not encrypted: who sees the
#' traffic sees all data, and who can change it can run code here and there. Where `master` is a
#' loopback address you have made the way to it, and there is no other. So the session's port is
#' open on a loopback address only, unless `tls = FALSE`, and only until all nodes are there.
#'
#' With `node = "psock"` the node is base R's own worker, for hosts without this package. Base R's
#' protocol proves nothing: who can reach the port while the cluster starts can join it.
#'
#' @section Options:
#' As for [parallel::makeCluster()]:
#' * `methods`: logical, attach package \pkg{methods}?
#' * `renice`: integer, niceness of the nodes. Where Linux has autogroups (`man 7 sched`), it shares
#'   processors among sessions of processes first. The nodes on a host are one, so there it counts
#'   among nodes only. Option `clutch.polite` has them give way to all others.
#' * `rscript`: string, the program.
#'
#' For nodes over TCP also:
#' * `port`: integer, 0 (the default: a free one), or a range, of which one is taken.
#' * `master`: string, this machine's name as the nodes know it, or an address of IPv4 or IPv6.
#'   Workers of base R (`node = "psock"`) know IPv4 only.
#' * `tls`: logical. `FALSE`: what travels to nodes on other hosts may be not encrypted.
#' * `timeout`: number of seconds of silence after which a node ends. 30 days or more: none.
#' * `homogeneous`: logical, is R where it is on this machine?
#' * `rshcmd`, `user`: strings, the command that reaches another host, and the login there. Until R
#'   there has connected it ends within seconds when this session does, also where the session was
#'   killed: a shell there, `sh`, checks whether the command's standard input has ended.
#' * `manual`: logical, print the commands and wait until somebody has run them?
#' * `node`: `"clutch"` or `"psock"`.
#' * `backlog`: number of connections that may wait to be accepted. By default the most that the
#'   system allows.
#' * `secret`: string of 64 hexadecimal digits, for nodes that were started by hand before.
#'
#' Options of base R that mean nothing here are accepted. Others are an error.
#'
#' @section Cores:
#' A node's share of the cores is `available_cores()` divided by the number of nodes on this
#' machine, at least 1. In a node [available_cores()] is that share. So are the environment
#' variables that libraries take their number of threads from, such as `OMP_NUM_THREADS`,
#' `OPENBLAS_NUM_THREADS`, `MKL_NUM_THREADS` and `R_DATATABLE_NUM_THREADS`, where the session does
#' not set them; of package data.table at most half of the cores, as without a cluster. Libraries
#' that the fork server has loaded before it forks have one thread.
#'
#' @section Resources:
#' `resources = list(gpu = 0:3, licence = 2)` says which units of a kind a host has: their names, as
#' numbers or strings, or how many there are, then they are called 0, 1 and so on. Each host of the
#' cluster has these. `cores` says how many cores count, in place of all that [available_cores()]
#' tells there. At most 8 kinds, and 256 units of one. Tasks get what their `.needs` asks for: see
#' section *What elements ask for* of [cluster_map()]. Where `gpu` is asked for and not given here,
#' the GPUs of each host are those of its environment variable `CUDA_VISIBLE_DEVICES`, else those
#' that `nvidia-smi` tells, else those in `/proc/driver/nvidia/gpus`. That is looked for once, when
#' it is first asked for.
#'
#' @section Windows:
#' Windows cannot fork. There the nodes are R processes of their own start, by strategy
#' `"parallel"`, with all of the functions of \pkg{parallel}, and maps and tasks. These are errors
#' of class `clutch_unsupported`: strategies `"fork_server"` and `"spawn"`, clusters that grow,
#' [hosts()] and its like, and other hosts, unless with `node = "psock"` or `manual = TRUE`. No R on
#' Windows was to be had when this was written: `vignette("systems")` says what was tested, what
#' else is not there, and how to try it.
#'
#' @section Profiles:
#' A profile (`.Rprofile`) or a package that makes a cluster does so in the session only. Fork
#' servers and nodes that are starting read the same profile. There `make_cluster()` signals an
#' error of class `clutch_starting`. Where nobody handles that, it says so in one line and returns a
#' cluster without nodes, and the profile goes on.
#'
#' @section Other packages:
#' The functions of package \pkg{snow} and `doSNOW::registerDoSNOW()` take these clusters as those
#' of \pkg{parallel} do. `future::plan(cluster, workers = cl)`: nodes that have died are replaced
#' for the futures that follow. \pkg{BiocParallel}: `as(cl, "SnowParam")`; the cluster is then
#' stopped by [stop_cluster()], not by `bpstop()`.
#'
#' @section Errors:
#' When the cluster does not come up, nothing is left running:
#' * `clutch_argument`: arguments are of no use.
#' * `clutch_limit`: more nodes are asked for than the system allows.
#' * `clutch_unsupported`: this system cannot do what is asked for, see *Windows*.
#' * `clutch_package`, with element `package`: one cannot be attached.
#' * `clutch_start`, with element `nodes`, their numbers, and for [hosts()] and its like `hosts`,
#'   their names: nodes did not come. The message says which, why, and what they printed last.
#' * `clutch_setup`, which also has class `clutch_start`: the expression of `preload` fails.
#' * `clutch_starting`: this process is itself starting as a node.
#'
#' In calls of its nodes:
#' * `clutch_node_died`, with elements `node`, `pid`, `host`, `signal`, `status`: a node has died.
#' * `clutch_stopped`: the cluster was stopped, or saved and loaded again.
#' * `clutch_forked`: this is a forked child of the session.
#'
#' All have class `clutch_error`.
#' ```r
#' cl <- tryCatch(
#'   make_cluster(4, packages = "notThere"),
#'   clutch_package = function(e) make_cluster(4)
#' )
#' ```
#' @seealso [stop_cluster()], [cluster_status()], [cluster_setup()], [available_cores()]
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
#'
#' cl <- make_cluster(2, preload = roots <- data.frame(x = 1:1e5, root = sqrt(1:1e5)))
#' cluster_map_dbl(cl, 1:3, function(i) roots$root[i])
#' stop_cluster(cl)
#' @export
make_cluster <- function(spec = available_cores(),
                         strategy = c("fork_server", "spawn", "parallel", "sequential"),
                         packages = NULL, outfile = "/dev/null", env = NULL, ...,
                         # behind the dots: `rscript` is not to be taken for `rscript_args`
                         rscript_args = character(), setup_timeout = 120, preload = NULL,
                         min_hosts = NULL, keep = NULL, idle = NULL, resources = NULL) {
  if (is_starting()) return(refuse_while_starting())
  forget_parents()
  tempdir(TRUE) # it may have been deleted
  preload <- preload_request(substitute(preload), written_in(sys.call(), parent.frame()))
  began <- clock()
  start <- launcher_and_plan(environment(), list(...))
  start_cluster(start$launcher, start$plan, began, setup_timeout)
}

# The launcher for what make_cluster() or launch_plan() was given, and its plan. `frame` is the
# function's, or a list, where `preload` is a request already; `options` is what was in the dots.
launcher_and_plan <- function(frame, options) {
  request <- check_request(frame$spec, frame$strategy, frame$packages, frame$outfile, frame$env,
                           options, frame$rscript_args, frame$setup_timeout,
                           names(formals(make_cluster)), frame$idle)
  request <- with_hosts_by_name(request)
  request$preload <- frame$preload
  request$resources <- check_resources(frame$resources)
  request$min_hosts <- check_min_hosts(frame$min_hosts, request$launch)
  request$made_by <- lapply(stats::setNames(nm = MADE_BY), function(name) frame[[name]])
  request$made_by$options <- options
  request$stay <- check_keep(frame$keep, request)
  launcher <- launcher_for(request)
  list(launcher = launcher, plan = launcher$plan(request))
}

# The arguments by which a cluster can be made again, beside `options`.
MADE_BY <- c("spec", "strategy", "packages", "outfile", "env", "rscript_args", "setup_timeout",
             "min_hosts", "idle", "resources")

# These are the arguments of the call make_cluster(spec).
made_by_default <- function(spec) {
  list(spec = spec, strategy = strategies, packages = NULL, outfile = "/dev/null", env = NULL,
       options = list(), rscript_args = character(), setup_timeout = 120, min_hosts = NULL,
       idle = NULL, resources = NULL)
}

# Another cluster as one that was made before, with what make_cluster() was given then: see
# plan-new.R. `preload`: of preload_of().
make_cluster_again <- function(made, preload = NULL) {
  began <- clock()
  start <- launcher_and_plan(c(made, list(preload = preload)), made$options)
  start_cluster(start$launcher, start$plan, began, made$setup_timeout)
}

start_cluster <- function(launcher, plan, began, setup_timeout) {
  check_log()
  detect_tracing()
  info <- new_record(plan)
  about <- list(clutch.nodes = length(info$hosts), clutch.strategy = info$strategy)
  in_span("make_cluster", about, withCallingHandlers(
    start_of_cluster(launcher, info, began, setup_timeout),
    error = function(e) tell_event("start", info, text = message_of(e), ok = FALSE)
  ))
}

start_of_cluster <- function(launcher, info, began, setup_timeout) {
  deadline <- began + setup_timeout
  left <- function() max(deadline - clock(), 0.01)
  check_limits(info$hosts)
  handles <- launcher$start(info, seq_len(nodes_at_start(info)), left)
  if (!is.null(info$plan$first)) handles <- c(handles, absent_nodes(info))
  set_cluster(info, took = clock() - began, handles = handles)
  nodes <- lapply(seq_len(nodes_at_start(info)), function(rank) node_of_plan(info, rank))
  cl <- structure(nodes, class = c("clutch_cluster", "cluster"))
  if (!is.null(launcher$complete)) cl <- launcher$complete(cl, left)
  if (!is.null(info$plan$preload) && info$strategy != "fork_server") preload_or_stop(cl)
  show_cluster(cl)
  tell_start(info, cl)
  cl
}

# Handles of nodes that the cluster may have later. For whoever asks they are stopped.
absent_nodes <- function(info) {
  ranks <- seq_along(info$hosts)[-seq_len(nodes_at_start(info))]
  handles <- lapply(ranks, function(rank) .Call(ffi_psock_node, rank))
  .Call(ffi_nodes_stop, handles, 0, 0)
  handles
}

tell_start <- function(info, cl) {
  pid_of <- function(node) .Call(ffi_node_info, .subset2(node, "handle"))$pid
  tell_event("start", info, text = "the cluster has started", nodes = length(cl),
             pids = vapply(cl, pid_of, 1L), strategy = info$strategy, seconds = round(info$took, 4))
}

preload_or_stop <- function(cl) {
  ok <- FALSE
  on.exit(if (!ok) stop_nodes(cl))
  preload_on_nodes(cl, preload_of(cl[[1L]]$info))
  ok <- TRUE
}

#' @export
`[.clutch_cluster` <- function(x, i) {
  class <- class(x)
  x <- unclass(x)
  if (missing(i)) return(structure(x, class = class))
  at <- seq_along(x)[i]
  if (!anyNA(at)) return(structure(x[at], class = class))
  text <- "the cluster has %d %s: [%s] is out of range"
  nodes <- if (length(x) == 1L) "node" else "nodes"
  throw("argument", sprintf(text, length(x), nodes, deparse(i, nlines = 1L)[[1L]]))
}

# ---- stopping ----

#' Stop a cluster
#'
#' Ends the nodes and waits until they have ended.
#'
#' Idle nodes run `.Last()` if their workspace has one, and close their files and devices first. A
#' node that is busy, or takes longer than two seconds for that, is killed.
#' [parallel::stopCluster()] does the same. A cluster to which nothing refers any more is stopped
#' when R next collects garbage.
#'
#' @param cl Cluster made by [make_cluster()]. `NULL`: the one registered with
#'   [parallel::setDefaultCluster()], else the session's own, see [own-cluster], and the nodes of
#'   [mclapply()].
#' @return `NULL`, invisibly.
#' @section Errors: `clutch_argument` when there is no cluster to stop. It has class `clutch_error`.
#'   To stop a cluster a second time is no error.
#' ```r
#' tryCatch(stop_cluster(), clutch_argument = function(e) message("there was none"))
#' ```
#' @seealso [make_cluster()], [fork_server_stop()]
#' @examples
#' cl <- make_cluster(2)
#' stop_cluster(cl)
#' @export
stop_cluster <- function(cl = NULL) {
  if (is.null(cl)) forget_parents()
  default <- parallel::getDefaultCluster()
  if (is.null(cl) && is.null(default)) return(stop_own())
  if (is.null(cl)) cl <- default
  check_cluster(cl)
  if (identical(cl, default)) parallel::setDefaultCluster(NULL)
  stop_nodes(cl)
}

# The session's own cluster and the nodes of mclapply(), see R/cluster-own.R.
stop_own <- function() {
  own <- Filter(Negate(is.null), list(the$own$cl, the$pool$cl))
  if (!length(own)) throw("argument", "no cluster 'cl' supplied and none is registered")
  for (cl in own) stop_nodes(cl)
  invisible(NULL)
}

stop_nodes <- function(cl) {
  nodes <- unclass(cl)
  if (!length(nodes)) return(invisible(NULL))
  for (nd in nodes) if (inherits(nd, "clutch_psock_node")) tell_psock_done(nd)
  info <- nodes[[1L]]$info
  drop_replacements(info$tasks)
  ranks <- unique(vapply(nodes, function(nd) nd$rank, 1L))
  handles <- lapply(nodes, function(nd) nd$handle)
  if (info$is_apart) {
    .Call(ffi_nodes_stop, handles, 2000, 5)
    return(invisible(NULL))
  }
  is_end <- is_end_of(info, ranks)
  if (is_end) for (f in info$tasks$at_stop) f(info$tasks)
  if (is_end && !is.null(info$plan$first)) {
    t <- info$tasks
    if (!is.null(t)) t$resize <- NULL # no host is asked for any more
    if (grows_here(info)) .Call(ffi_tasks_end_growth, t$ptr)
    ranks <- seq_along(info$hosts)
    handles <- info$handles
  }
  set_cluster(info, stopped = union(info$stopped, ranks))
  .Call(ffi_nodes_stop, handles, 2000, 5)
  if (is_end) {
    hide_cluster(info)
    forget_copies(info$tasks)
  }
  end_own_server(info)
  if (is_end) give_server(info)
  end <- launcher_of(info)$end
  if (!is.null(end)) end(info)
  tell_stop(info, ranks)
  invisible(NULL)
}

# Tells whether with these nodes none is left of those with which the cluster has started: then
# those that have come later end, too.
is_end_of <- function(info, ranks) {
  all(seq_len(nodes_at_start(info)) %in% c(info$stopped, ranks))
}
