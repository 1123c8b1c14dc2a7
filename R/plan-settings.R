# Nodes are told these by their environment, and by an option: their share of the cores, and from
# which size on their results travel by shared memory.

thread_variables <- c(
  "OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "BLIS_NUM_THREADS",
  "GOTO_NUM_THREADS", "VECLIB_MAXIMUM_THREADS"
)

# The variables from which libraries take their number of threads, for one of `n` nodes that share
# these cores. Package data.table takes half of the cores at the most, as it does by itself.
thread_env <- function(cores, n) {
  share <- share_of(cores, n)
  env <- structure(rep(as.character(share), length(thread_variables)), names = thread_variables)
  c(env, R_DATATABLE_NUM_THREADS = as.character(max(1L, min(share, cores %/% 2L))))
}

share_of <- function(cores, n) max(1L, cores %/% n)

# The variables that tell such a node of its share, and of option clutch.wait_awake.
told_env <- function(cores, n) {
  asleep <- if (!option_flag("clutch.wait_awake", TRUE)) c(CLUTCH_WAIT_AWAKE = "0")
  c(CLUTCH_NODE_CORES = as.character(share_of(cores, n)), asleep)
}

# The environment of `n` nodes that share this machine's cores.
share_env <- function(env, n) {
  cores <- available_cores()
  threads <- thread_env(cores, n)
  free <- names(threads)[is.na(env[names(threads)])]
  env[free] <- threads[free]
  told <- told_env(cores, n)
  env[names(told)] <- told
  env["CLUTCH_BUDGET"] <- as.character(budget_size(cores))
  env
}

# The option for the nodes of a cluster: from which size on their results are shared. Several nodes
# may answer at the same time, and 1 to 2 MB from each come sooner by shared memory then.
share_from_of <- function(nodes) {
  option_number("clutch.share_from", .Call(ffi_share_default, min(nodes, 2L)))
}
