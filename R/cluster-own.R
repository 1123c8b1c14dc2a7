# The session's own cluster: what `cl = NULL` stands for.
#
# It is made when it is first wanted, and again when it is wanted and not there: its nodes were
# stopped, or have ended since nobody needed them, or the session has another working directory or
# environment than they have. So to the user it is as if it had always been there, just made.
#
# the$own is list(cl, place, load): the cluster, what of the session its nodes have, see
# place_now(), and which packages its fork server has loaded, see start-load-ahead.R.
#
# Nodes end when nobody has used them for a while. The session's thread sleeps until then (due()
# in core/tasks/away.c) and ends them in a turn, so nobody can give them work at that moment. A node
# that was told to end is not there for the scheduler any more. It takes neither tasks nor calls
# (clu_node_takes_work()), although its process may need some time. That is no death. Who was
# about to give it work gets another node behind the same handle (bring_back_idle() in
# task-step.R).

#' The session's own cluster
#'
#' All functions of this package that take a cluster take `cl = NULL`, too. That stands for the
#' cluster registered with [parallel::setDefaultCluster()], and where there is none, for the
#' session's own, which is made when it is first used.
#'
#' @section What it is: A cluster of [available_cores()] nodes of a fork server at most, as
#'   [make_cluster()] makes by default. All guarantees of [cluster_map()] hold.
#'   * It starts with 4 nodes, or with as many as a map has elements, and grows while tasks wait,
#'     see *A cluster that grows and shrinks* of [make_cluster()].
#'   * Its nodes have the working directory, environment variables and [.libPaths()] that the
#'     session has when it is used. Where these have changed, the nodes are made anew.
#'   * On Windows it has [available_cores()] nodes of strategy `"parallel"` from the start.
#'   * While its first nodes start, [cluster_map()] and its relatives copy what is large among
#'     constants and globals into shared memory, see [share()].
#'   * Where it is made for a map that needs packages which take long to load, these are loaded
#'     once, before the nodes are forked, and not by each node. See option `clutch.load_ahead` of
#'     [clutch-options].
#'   * It ends with the session, or by [stop_cluster()] without an argument. The next use makes it
#'     again, as [cluster_setup()] and [cluster_export()] have prepared it.
#'   * When it was not used for `clutch.idle_seconds` (see [clutch-options]) its nodes end, also
#'     while the session computes or waits. The next use makes it again, in some hundredths of a
#'     second.
#'   * A forked child of the session, as in [parallel::mclapply()] and futures of
#'     `plan(multicore)`, has a cluster of its own, with a fork server of its own. It ends with the
#'     child. Submitted tasks go on there while one of these functions is called.
#'   * In a node, a task's `cl = NULL` is a cluster of that node's own, as large as maps and
#'     submitted tasks have found cores free.
#' @section Budget of cores: Whatever uses the session's own cluster shares the cores with all else
#'   that does so, of the same user on this machine: maps, [cluster_submit()], loops of
#'   [registerDoClutch()], also within the tasks of others. As many nodes compute at a time as there
#'   are cores. A core is taken when something waits for a node, and is given back some milliseconds
#'   after it was used, and when its holder dies.
#'
#'   Nothing waits for ever: one node of a cluster may always compute. In a task, that is the core
#'   of the task, which its map does not need meanwhile. A task that submits others and goes on
#'   computing shares its core with one of them, where no other core is free.
#'
#'   What does not count: clusters of [make_cluster()] and nodes of [mclapply()], which have a
#'   size that they were given. Not on Windows. `options(clutch.budget = FALSE)` turns it off, a
#'   number is its size, see [clutch-options].
#' @section Errors:
#' * `clutch_argument`: the cluster that is registered was not made by this package. Base R's
#'   workers do not know tasks. Register one of [make_cluster()], or none by
#'   `parallel::setDefaultCluster(NULL)`.
#'
#' It has class `clutch_error`.
#' ```r
#' tryCatch(cluster_map(NULL, 1:3, sqrt), clutch_argument = conditionMessage)
#' ```
#' @seealso [make_cluster()], [cluster_map()], [clutch-options]
#' @examples
#' cluster_map_dbl(NULL, 1:3, sqrt)
#' cluster_status()
#' stop_cluster()
#' @name own-cluster
NULL

# The cluster that an argument `cl` of a function for users stands for.
cluster_or_own <- function(cl) {
  if (missing(cl)) given(cl, "cl")
  if (is.null(cl)) return(own_cluster())
  check_cluster(cl)
  cl
}

# The value is the cluster that is registered with parallel::setDefaultCluster(), or the session's
# own, ready for work.
own_cluster <- function() {
  forget_parents()
  default <- default_cluster()
  if (is.null(default)) own_nodes_for(1L) else default
}

# The session's own cluster, of `n` nodes at least. `cores`: of this process; to count them takes
# some milliseconds, so that is done once. `load`: packages that are loaded before it is forked.
own_nodes_for <- function(n, cores = available_cores(), load = character()) {
  own <- the$own
  place <- place_now(own$place)
  if (is.null(own)) {
    cl <- start_own(max(n, min(cores, OWN_FIRST), free_cores()), load, most_of_own(cores))
    the$own <- list(cl = ends_when_idle(cl), place = place, load = load)
  } else if (!use_if_fit(own, place, n)) {
    remake_own(place, max(n, length(own$cl)), max(most_nodes(own$cl), most_of_own(cores)))
  }
  set_budget()
  the$own$cl
}

OWN_FIRST <- 4L # nodes that it starts with, where there are so many cores and not more are wanted

# How many nodes it may have. In a task cores may become free.
most_of_own <- function(cores) max(cores, if (.Call(ffi_is_node)) budget_size())

# Where that cluster is still to be made, its fork server starts now, and `TRUE`: who calls has some
# 0.1 s for something else. `own`: the$own or the$pool, which have the same server.
begin_own <- function(own, load = character()) {
  if (!is.null(own) || .Call(ffi_is_node) || !can_fork()) return(FALSE)
  spec <- with_stay_by_option(with_load(default_server_spec(), load, .libPaths()))
  server <- tryCatch(server_for(spec, effective_env(NULL)), error = function(e) NULL)
  !is.null(server) && is.null(server$report) # what is wrong start_own() will say
}

# The value is what a map needs where its cluster is still to be made: list(needs, more, load).
# While the nodes start, what is large of the first two is shared; `load`: packages that are to be
# loaded before. `own`: as in begin_own(). Where the cluster is there, `needs` is NULL.
begin_ahead <- function(own, f, elements, more, globals, env) {
  if (!is.null(own) || .Call(ffi_is_node)) return(list(needs = NULL, more = more))
  needs <- find_needs(list(f, elements, more), globals, env)
  load <- packages_ahead(needs)
  if (begin_own(own, load)) {
    needs$globals <- share_large(needs$globals)
    more <- share_large(more)
  }
  list(needs = needs, more = more, load = load)
}

# The value is the list with what is large of it in shared memory: it is not written there any more
# when it is sent.
share_large <- function(x) {
  for (k in which(vapply(x, is_large, NA))) x[[k]] <- share(x[[k]])
  x
}

is_large <- function(x) {
  size <- function(v) if (is.atomic(v)) 8 * length(unclass(v)) else 0
  (if (is.list(x)) sum(vapply(unclass(x), size, 1)) else size(x)) >= 4e6
}

# In a task, what is submitted may find cores free, as maps do.
free_cores <- function() {
  if (!.Call(ffi_is_node)) return(0L)
  size <- budget_size()
  if (size == 0L) return(0L)
  got <- budget_take(size - 1L, size)
  budget_give(got)
  got + 1L
}

# The cluster computes with tokens of the budget, as the session's option says now.
set_budget <- function() {
  option <- list(getOption("clutch.budget"))
  if (identical(option, the$own$option)) return(invisible())
  size <- budget_size(most_nodes(the$own$cl))
  .Call(ffi_tasks_budget, info_of(the$own$cl)$tasks$ptr, size, budget_folder())
  the$own$option <- option
  invisible()
}

# Tells whether NULL stands for the session's own cluster here, whose size nobody has given.
is_own <- function(cl) {
  if (!is.null(cl)) return(FALSE)
  forget_parents()
  is.null(default_cluster())
}

# `work` does a map of `n` elements on that cluster. The tokens that are taken here say how large it
# has to be. More may come while the map goes on, see src/core/tasks/cores.c. `load`: as of
# own_nodes_for().
on_budget <- function(n, work, load = character()) {
  in_task <- .Call(ffi_is_node) # which waits meanwhile, and leaves its core
  cores <- if (is.null(the$own)) available_cores() else most_nodes(the$own$cl)
  size <- budget_size(cores)
  most <- if (in_task) size else cores
  if (most == 0L) most <- available_cores()
  got <- budget_take(min(n, most) - in_task, size)
  held <- if (size > 0L) got else 0L
  on.exit(budget_give(held))
  nodes <- max(got + in_task, 1L)
  cl <- if (is.null(the$own)) own_nodes_for(nodes, cores, load) else own_nodes_for(nodes)
  ptr <- info_of(cl)$tasks$ptr
  outer <- .Call(ffi_tasks_map_begins, ptr, held, in_task)
  held <- 0L # they are the cluster's now
  on.exit(.Call(ffi_tasks_map_ends, ptr, outer))
  work(cl)
}

# So many nodes of this session for mclapply(), which are no part of its own cluster: how many they
# are is the caller's affair, and what the user has prepared there is none of its. `load`: as of
# own_nodes_for().
own_nodes <- function(n, load = character()) {
  forget_parents()
  pool <- the$pool
  place <- place_now(pool$place)
  if (is.null(pool) || !use_if_fit(pool, place, n)) {
    if (!is.null(pool)) drop_own(pool$cl)
    # what compiled code and programs write appears in the session, as with forks of the session
    strategy <- if (can_fork()) "fork_server" else "parallel"
    cl <- start_own(n, load, strategy = strategy, outfile = "", announce = FALSE)
    the$pool <- list(cl = ends_when_idle(cl), place = place)
    if (!is.null(the$on_new_nodes)) the$on_new_nodes(the$pool$cl)
  }
  the$pool$cl[seq_len(n)]
}

# A cluster as make_cluster(c(n, most)) makes it, but for this: before its nodes are forked the
# packages `load` are loaded. Without fork servers it has all its nodes at once. `announce`: whether
# the nodes say in their output who they are.
start_own <- function(n, load, most = n, strategy = strategies, outfile = "/dev/null",
                      announce = TRUE) {
  if (is_starting()) return(refuse_while_starting())
  tempdir(TRUE) # it may have been deleted
  began <- clock()
  if (!can_fork()) n <- most # nodes of another kind do not come later
  grows <- n < most
  request <- check_request(if (grows) c(n, most) else n, strategy, NULL, outfile, NULL, list(),
                           character(), 120, character(), if (grows) idle_seconds())
  request$load <- load
  request$announce <- announce
  launcher <- launcher_for(request)
  start_cluster(launcher, launcher$plan(request), began, 120)
}

# The value is the cluster as it is, for those who only ask about it: nothing is started. Where
# there is none, it has no nodes.
own_cluster_as_is <- function() {
  forget_parents()
  default <- default_cluster()
  if (!is.null(default)) return(default)
  if (!is.null(the$own)) return(the$own$cl)
  structure(list(), class = c("clutch_cluster", "cluster"))
}

# How many nodes it has, or will have.
size_of_own <- function() {
  n <- most_nodes(own_cluster_as_is())
  if (n > 0L) n else available_cores()
}

default_cluster <- function() {
  # who has not loaded package parallel has registered nothing
  if (!isNamespaceLoaded("parallel")) return(NULL)
  default <- parallel::getDefaultCluster()
  if (is.null(default) || inherits(default, "clutch_cluster")) return(default)
  throw("argument", paste("the cluster registered with parallel::setDefaultCluster() was not made",
                          "by make_cluster(): pass a cluster as `cl`, or register one of",
                          "make_cluster(), or none by setDefaultCluster(NULL)"))
}

# Takes this cluster into use, if the `n` nodes that are wanted are among its nodes, with the
# session's place, and all there. Returns whether it has.
use_if_fit <- function(own, place, n) {
  identical(place, own$place) && most_nodes(own$cl) >= n && use_if_open(own$cl)
}

# The value is what nodes take over from the session when they are made: working directory, umask,
# libraries, environment variables. `before`: an earlier value; what is as it was there is not made
# anew.
place_now <- function(before) {
  variables <- .Call(ffi_work_environment, before$variables)
  if (is.null(variables)) variables <- before$variables
  list(folder = getwd(), umask = Sys.umask(), libraries = .libPaths(), variables = variables)
}

# Takes its nodes into use, if all are there: idle ones do not end before the caller had time to
# give them work. Returns whether it has.
use_if_open <- function(cl) .Call(ffi_tasks_use, info_of(cl)$tasks$ptr)

# Its nodes end when nobody has needed them for a while.
ends_when_idle <- function(cl) {
  .Call(ffi_tasks_idle, tasks_of(cl)$ptr, idle_seconds())
  cl
}

idle_seconds <- function() option_number("clutch.idle_seconds", 60, above = TRUE)

# Its successor is prepared as it was by cluster_setup() and cluster_export().
remake_own <- function(place, n, most) {
  old <- the$own$cl
  if (!has_open_tasks(old)) drop_own(old)
  load <- the$own$load
  cl <- start_own(n, load, most)
  set_setup(info_of(cl), setup_of(info_of(old)))
  for (nd in unclass(cl)) prepare_again(nd)
  the$own <- list(cl = ends_when_idle(cl), place = place, load = load)
}

prepare_again <- function(node) {
  tryCatch(set_up_again(node), error = function(e) {
    text <- "what cluster_setup() says failed on node %d, which was made anew: %s"
    throw("setup", sprintf(text, node$rank, conditionMessage(e)), node = node$rank)
  })
}

has_open_tasks <- function(cl) {
  t <- info_of(cl)$tasks
  !is.null(t) && .Call(ffi_tasks_open, t$ptr) > 0
}

# Its nodes end, and nobody waits for that.
drop_own <- function(cl) {
  info <- info_of(cl)
  if (grows_here(info)) .Call(ffi_tasks_end_growth, info$tasks$ptr)
  set_cluster(info, stopped = seq_along(info$hosts))
  .Call(ffi_nodes_stop, info$handles, 2000, 0)
  tell_stop(info, seq_along(cl), "it is made anew")
  invisible()
}
