# Launchers: what starts the nodes of a cluster, and how another one is added.
#
# A launcher is a list of functions. `info` is the record of a cluster, see plan-cluster.R, whose
# plan names its launcher.
#   plan(request)                 the plan, of a request of check_request(); starts nothing
#   show(info)                    lines of text: what start() would run
#   start(info, ranks, left)      handles of nodes with these ranks, ready, or an error and nothing
#                                 left running; `left()` tells how many seconds there are
#   complete(cl, left)            the cluster with what it needs besides handles; may be NULL
#   replace(info, rank, seconds)  handle of one node anew, ready, or an error
#   begin(info, rank)             the same, under way when it returns, see begin_tcp()
#   end(info)                     some nodes were stopped; may be NULL
#   attend(t)                     the cluster gets its scheduler: what its hosts want of each step,
#                                 see manager_of() in task-jobs.R; may be NULL
# A launcher has `replace`, or `begin`, or neither: then nodes that have died are not replaced.
#
# To write one: a file launch-<name>.R with these functions, which adds it by add_kind(), and a line
# in launcher_for().

new_launcher <- function(plan, show, start, complete = NULL, replace = NULL, begin = NULL,
                         end = NULL, attend = NULL) {
  functions <- list(plan = plan, show = show, start = start, complete = complete,
                    replace = replace, begin = begin, end = end, attend = attend)
  structure(functions, class = "clutch_launcher")
}

launcher_of <- function(info) kind_named("launcher", info$plan$launcher)

# Which one a request is for.
launcher_for <- function(request) {
  is_forked <- request$strategy %in% c("fork_server", "spawn")
  name <- if (!is.null(request$launch)) {
    "hosts"
  } else if (is_forked) {
    "fork"
  } else if (request$process$node == "psock") {
    "psock"
  } else {
    "tcp"
  }
  kind_named("launcher", name)
}

# ---- a node anew ----

# Handle of one more node of this plan, ready, or an error.
start_one <- function(info, rank, seconds) {
  end <- clock() + seconds
  left <- function() max(end - clock(), 0.01)
  launcher_of(info)$start(info, rank, left)[[1L]]
}
