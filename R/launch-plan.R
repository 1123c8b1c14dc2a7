# What every launcher has, what every plan begins with, and the environment variables of what is
# started.
#
# A plan is an environment that all nodes of a cluster share, as `info`. It says all that the start
# of a node depends on, now and later, when a node is replaced. To make one starts nothing.

thread_variables <- c(
  "OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "BLIS_NUM_THREADS",
  "GOTO_NUM_THREADS", "VECLIB_MAXIMUM_THREADS"
)

# `request`: of check_request(); `launcher`: its name, see launch.R.
new_plan <- function(request, launcher) {
  info <- new.env(parent = emptyenv())
  info$launcher <- launcher
  info$strategy <- request$strategy
  info$hosts <- vapply(request$hosts, function(h) h$host, "")
  info$outfile <- path.expand(request$outfile)
  info$packages <- request$packages
  info$started <- Sys.time()
  info$oom_kills <- oom_kills()
  info
}

launcher <- function(plan, show, start, complete = NULL, replace = NULL, begin = NULL) {
  functions <- list(plan = plan, show = show, start = start, complete = complete,
                    replace = replace, begin = begin)
  structure(functions, class = "clutch_launcher")
}

# A node of the cluster as an object.
node_of_plan <- function(info, rank) {
  node <- list(handle = info$handles[[rank]], host = info$hosts[[rank]], rank = rank, info = info)
  structure(node, class = "clutch_node")
}

# The environment variables of this session, with those of `env` in place of its own.
effective_env <- function(env) {
  now <- Sys.getenv()
  now <- structure(as.character(now), names = names(now))
  # R CMD check's own, a path that holds in one folder only; and the mark of a node, in which this
  # may run
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

# What makes the environment `from` the environment `wanted`.
env_changes <- function(wanted, from) {
  changed <- names(wanted)[is.na(from[names(wanted)]) | from[names(wanted)] != wanted]
  list(env_set = wanted[changed], env_unset = setdiff(names(from), names(wanted)))
}
