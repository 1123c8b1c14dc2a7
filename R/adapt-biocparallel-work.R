# ClutchParam() works with BiocParallel's manager, an environment that is given tasks and gives back
# values. This file has the manager, and what a node does for it. Each of BiocParallel's tasks is
# one of cluster_submit_call(), so that a node which dies is replaced, and costs the elements of its
# task and no others.
#
# All that the tasks of a call have in common (the function, its constant arguments, globals)
# travels with the first task for each node, which keeps it under a key. A node that lacks it, since
# it is new or another one has got two, answers so, and is sent all of the task.

# ---- the manager ----

# An environment: `capacity` nodes; `running`, list(task, value) for each task under way; `sent`,
# how many have been; `key` of what they have in common; `needs` of that, as from find_needs().
define_manager <- function(where) {
  new_manager <- methods::setClass("ClutchTaskManager", contains = "TaskManager", where = where)
  methods::setMethod(".manager", "ClutchParam", where = where, function(BPPARAM) {
    manager <- new_manager()
    manager$BPPARAM <- BPPARAM
    manager$backend <- BiocParallel::bpbackend(BPPARAM)
    manager$capacity <- length(manager$backend)
    manager$running <- list()
    manager$sent <- 0
    manager$key <- c(Sys.getpid(), clock())
    manager
  })
  method <- function(generic, f) methods::setMethod(generic, "ClutchTaskManager", f, where)
  method(".manager_send", function(manager, value, ...) {
    value <- with_helpers(manager, value)
    manager$sent <- manager$sent + 1
    # else the nodes have all that the tasks have in common
    with_all <- manager$sent <= manager$capacity
    submit_to(manager, value, if (with_all) value else BiocParallel::.task_dynamic(value))
  })
  method(".manager_recv", receive_from)
  # nodes are told to end by bpstop()
  method(".manager_send_all", function(manager, value) {
    manager$for_all <- if (value$type == "EXEC") value
    manager
  })
  method(".manager_recv_all", function(manager) {
    if (is.null(manager$for_all)) return(list())
    parallel::clusterCall(manager$backend, run_for_biocparallel, manager$for_all, NULL)
  })
  method(".manager_cleanup", function(manager) {
    for (r in manager$running) cancel(r$task)
    # or what they keep would stay until the next call
    if (!length(manager$running) && !cluster_is_stopped(manager$backend))
      parallel::clusterCall(manager$backend, run_for_biocparallel, NULL, NULL)
    manager$running <- list()
    manager
  })
}

# BiocParallel sends the variables of the workspace that the function uses, and not those that these
# use in turn, nor those that elements need. What all tasks have in common is searched once.
with_helpers <- function(manager, value) {
  args <- value$data$args
  if (!"GLOBALS" %in% names(args)) return(value)
  if (!BiocParallel::bpexportvariables(manager$BPPARAM)) return(value)
  if (is.null(manager$needs)) {
    manager$needs <- find_needs(list(args$FUN, args$ARGS, args$GLOBALS), TRUE, globalenv())
  }
  add_needs(manager, find_needs(list(args$X), TRUE, globalenv()))
  more <- manager$needs$globals
  more <- more[setdiff(names(more), names(args$GLOBALS))]
  value$data$args$GLOBALS <- c(args$GLOBALS, more)
  value$data$args$PACKAGES <- union(args$PACKAGES, manager$needs$attach)
  value
}

# Elements that need what those before them did not: nodes get anew what tasks have in common.
add_needs <- function(manager, more) {
  needs <- manager$needs
  new <- setdiff(names(more$globals), names(needs$globals))
  if (!length(new) && all(more$attach %in% needs$attach) && all(more$load %in% needs$load)) {
    return(invisible())
  }
  needs$globals[new] <- more$globals[new]
  needs$attach <- intersect(needs$order, union(needs$attach, more$attach))
  needs$load <- union(needs$load, more$load)
  manager$needs <- needs
  if (manager$sent == 0) return(invisible())
  manager$key <- c(Sys.getpid(), clock())
  manager$sent <- 0
}

submit_to <- function(manager, value, message, key = manager$key) {
  arguments <- list(message, key, manager$needs$load)
  task <- cluster_submit_call(manager$backend, run_for_biocparallel, arguments,
                              .globals = FALSE, .seed = FALSE, .relay = "none", .timeout = Inf,
                              .retries = manager$BPPARAM$retries, .packages = character(),
                              .pointers = "allow", .label = paste("task", value$data$tag))
  manager$running <- c(manager$running, list(list(task = task, value = value, key = key)))
  manager
}

# Waits for one task at least. The values of all that have ended, as they did: that is the order in
# which bpiterate(reduce.in.order = FALSE) reduces them.
receive_from <- function(manager) {
  step_for_any(lapply(manager$running, function(r) r$task), 0) # what has come is known
  repeat {
    tasks <- lapply(manager$running, function(r) r$task)
    ended <- !vapply(tasks, function(x) is.null(outcome(x)), NA)
    if (!any(ended)) {
      step_for_any(tasks, 3600)
      next
    }
    those <- manager$running[ended]
    manager$running <- manager$running[!ended]
    those <- those[order_of_end(lapply(those, function(r) r$task))]
    answers <- lapply(those, answer_of, manager)
    answers <- answers[lengths(answers) > 0L]
    if (length(answers)) return(answers)
  }
}

# NULL: its node lacked what all tasks have in common, and it was submitted again.
answer_of <- function(r, manager) {
  end <- outcome(r$task)
  if (!is.null(end$error)) {
    return(list(node = NA_integer_, value = failed_value(r$value, end$error)))
  }
  if (!is.null(end$value$value)) {
    node <- if (BiocParallel::bplog(manager$BPPARAM))
      match(end$value$pid, cluster_status(manager$backend)$pid)
    return(list(node = node, value = end$value$value))
  }
  submit_to(manager, r$value, r$value, r$key)
  NULL
}

# The value is what a worker of BiocParallel answers, for each element of the task.
failed_value <- function(value, e) {
  failed <- BiocParallel::.error_worker_comm(e, "the task was not done")
  class(failed) <- unique(c(setdiff(class(e), c("error", "condition")), class(failed)))
  n <- max(1L, length(value$data$args$X))
  list(type = "VALUE", tag = value$data$tag, value = rep(list(failed), n), success = FALSE,
       time = proc.time() - proc.time(), log = character(), sout = NULL)
}

# ---- on the node ----

# `key`: of what tasks of a call have in common. list(pid, value); value is NULL: that is not here.
# Without a message, what was kept is forgotten. `load`: packages that have methods for objects.
run_for_biocparallel <- function(message, key, load = character()) {
  for (package in load) requireNamespace(package, quietly = TRUE)
  if (is.null(message)) {
    the_node$biocparallel <- NULL
    return(NULL)
  }
  if (isTRUE(message$dynamic.only)) {
    kept <- the_node$biocparallel
    if (!identical(kept$key, key)) return(list(pid = Sys.getpid()))
    message <- BiocParallel::.task_remake(message, kept$const)
  } else if (!is.null(key)) {
    the_node$biocparallel <- list(key = key, const = BiocParallel::.task_const(message))
  }
  worker <- structure(new.env(parent = emptyenv()), class = "clutch_biocparallel_worker")
  worker$inbox <- list(message, list(type = "DONE"))
  BiocParallel::.bpworker_impl(worker)
  list(pid = Sys.getpid(), value = worker$answer)
}

# BiocParallel's loop of a worker asks for a message until it gets one that it is done.
define_worker <- function(where) {
  methods::setOldClass("clutch_biocparallel_worker", where = where)
  method <- function(generic, f) {
    methods::setMethod(generic, "clutch_biocparallel_worker", f, where)
  }
  method(".recv", function(worker) {
    message <- worker$inbox[[1L]]
    worker$inbox <- worker$inbox[-1L]
    message
  })
  method(".send", function(worker, value) worker$answer <- value)
  method(".close", function(worker) NULL)
}
