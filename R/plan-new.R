# What every launcher has, what every plan begins with, and the environment variables of what is
# started.
#
# A plan is an environment that all nodes of a cluster share, as `info`. It says all that the start
# of a node depends on, now and later, when a node is replaced. To make one starts nothing.

thread_variables <- c(
  "OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "BLIS_NUM_THREADS",
  "GOTO_NUM_THREADS", "VECLIB_MAXIMUM_THREADS"
)

# `request`: of check_request(); `launcher`: its name, see cluster-launchers.R.
new_plan <- function(request, launcher) {
  info <- new.env(parent = emptyenv())
  info$launcher <- launcher
  info$strategy <- request$strategy
  info$hosts <- vapply(request$hosts, function(h) h$host, "")
  info$outfile <- path.expand(request$outfile)
  info$packages <- request$packages
  # it may be large, and is not to travel with functions in whose environment the cluster is
  if (!is.null(request$preload)) {
    info$preload <- .Call(ffi_weak_new, info, request$preload)
    info$preload_text <- preload_text(request$preload)
  }
  info$started <- Sys.time()
  info$oom_kills <- oom_kills()
  info$libraries <- libraries_for(request)
  info$session_libraries <- .libPaths()
  info
}

# What is evaluated before the nodes are there, see code-preload.R, or NULL.
preload_of <- function(info) if (!is.null(info$preload)) .Call(ffi_weak_value, info$preload)

# Where this session finds packages, for nodes of this machine: what .libPaths() was told is in no
# environment variable. NULL: they find them by themselves, since another R is asked for, or
# variables that say where.
libraries_for <- function(request) {
  if (isTRUE(request$rscript_given) || any(grepl("^R_LIBS", names(request$env)))) return(NULL)
  # a variable that was set since this session began counts for new processes
  said <- strsplit(Sys.getenv("R_LIBS"), .Platform$path.sep, fixed = TRUE)[[1L]]
  unique(c(.libPaths(), normalizePath(said[dir.exists(said)])))
}

new_launcher <- function(plan, show, start, complete = NULL, replace = NULL, begin = NULL,
                         end = NULL, attend = NULL) {
  functions <- list(plan = plan, show = show, start = start, complete = complete,
                    replace = replace, begin = begin, end = end, attend = attend)
  structure(functions, class = "clutch_launcher")
}

# Number of the nodes with which the cluster starts, and of which `cl` consists: most often all.
nodes_at_start <- function(info) if (is.null(info$first)) length(info$hosts) else info$first

# The nodes of `cl`; of a cluster that grows also those that have come later, if `cl` is all of it.
nodes_there <- function(cl) {
  nodes <- unclass(cl)
  info <- if (length(nodes)) info_of(cl)
  if (is.null(info$first) || length(nodes) < info$first) return(nodes)
  r <- info$tasks$resize
  hosts <- setdiff(which(r$at == "there"), info$host_of[seq_len(info$first)])
  c(nodes, lapply(which(info$host_of %in% hosts), function(rank) node_of_plan(info, rank)))
}

# How many there may be.
most_nodes <- function(cl) {
  info <- if (length(cl) && inherits(cl, "clutch_cluster")) info_of(cl)
  if (is.null(info$first) || length(cl) < info$first) length(cl) else length(info$hosts)
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

# What makes the environment `from` the environment `wanted`.
env_changes <- function(wanted, from) {
  changed <- names(wanted)[is.na(from[names(wanted)]) | from[names(wanted)] != wanted]
  list(env_set = wanted[changed], env_unset = setdiff(names(from), names(wanted)))
}

# ---- how R starts ----

# What makes an R of ours start sooner than another one. It holds for the start only: of what the
# process starts itself, and of user's code after the start, these variables are as in `env`.

# R_NSIZE, the objects that the heap has room for. After its start an R has some 300,000. R itself
# has room for 350,000 at first, and collects twice while it starts, for 10 ms each; then it has
# room for 660,000. Here there is as much room at once: nodes collect as often as any other R, and a
# fork server only in collect_early(). With room for 600,000 a mixed model that loads its package on
# the node took 1.1 times as long as on base R's (1.3 times in collections). With 700,000 a loop
# that makes many small objects goes through 1.17 times the memory before a collection.
#
# `code`: bytes of code of packages that it loads before it forks. A byte brings up to a third of an
# object. With room for half of them R collects once or twice while it loads: what is freed is used
# again, and objects lie close together. With room for all of them the start was 0.1 of 1.1 s
# shorter (package survival), but half of each page was free, and each node's code went through a
# quarter more memory.
quick_start <- function(env, code = 0) {
  cells <- round(min(650000 + 0.13 * code, 2e7))
  if (is.na(env["R_NSIZE"])) env["R_NSIZE"] <- format(cells, scientific = FALSE)
  env
}

# For a node that is executed. It puts back what was there by restore_env() when its start is over.
#
# `libraries`: where it finds packages, also at its start; NULL: as `env` says.
quick_start_node <- function(env, libraries) {
  quick <- quick_start(env)
  if (length(libraries)) quick["R_LIBS"] <- paste(libraries, collapse = .Platform$path.sep)
  for (v in quick_start_variables) if (!is.na(env[v])) quick[[paste0("CLUTCH_WAS_", v)]] <- env[[v]]
  quick[["CLUTCH_WAS"]] <- "1"
  quick
}

quick_start_variables <- c("R_NSIZE", "R_LIBS")

restore_env <- function() {
  if (!nzchar(Sys.getenv("CLUTCH_WAS"))) return()
  for (v in quick_start_variables) {
    was <- Sys.getenv(paste0("CLUTCH_WAS_", v), NA)
    if (is.na(was)) Sys.unsetenv(v) else do.call(Sys.setenv, structure(list(was), names = v))
  }
  Sys.unsetenv(c("CLUTCH_WAS", paste0("CLUTCH_WAS_", quick_start_variables)))
}

# ---- R without its front end ----

# `Rscript` executes the shell script `R`, which sets some variables and executes R's own program:
# 10 ms. An R of ours is that program at once, where it is certain that the script would do nothing
# else: it is the R of this session, whose environment has been through the script already.
#
# list(argv, env): what to execute instead of `command`, a call of Rscript with `env`. Where it is
# not safe these are `command` and `env`. `is_node`: it is a node, which may attach packages later.
without_front_end <- function(command, env, is_node = FALSE) {
  as_they_are <- list(argv = command, env = env)
  packages <- "^--default-packages="
  # an option of the user's may be one for the script
  is_plain <- length(command) > 2L && grepl(packages, command[[2L]]) && !grepl("^-", command[[3L]])
  is_rscript <- identical(command[[1L]], file.path(R.home("bin"), "Rscript"))
  if (!is_plain || !is_rscript) return(as_they_are)
  program <- file.path(R.home(), "bin", "exec", "R")
  if (!has_been_through_front_end(env) || file.access(program, 1L) != 0L) return(as_they_are)
  arguments <- command[-(1:3)]
  env[["R_DEFAULT_PACKAGES"]] <- sub(packages, "", command[[2L]])
  if (is_node) env <- with_packages_later(env)
  argv <- c(program, "--no-echo", "--no-restore", paste0("--file=", command[[3L]]),
            if (length(arguments)) c("--args", arguments))
  list(argv = argv, env = env)
}

# Whether these variables are as R's front end would set them.
has_been_through_front_end <- function(env) {
  if (nzchar(.Platform$r_arch) || !env["R_ARCH"] %in% c(NA, "")) return(FALSE)
  home <- R.home()
  wanted <- c(R_HOME = home, R_SHARE_DIR = R.home("share"), R_INCLUDE_DIR = R.home("include"),
              R_DOC_DIR = R.home("doc"))
  if (!identical(unname(env[names(wanted)]), unname(wanted))) return(FALSE)
  lib <- file.path(home, "lib")
  if (file.exists(file.path(lib, "libR.dylib"))) return(FALSE) # the paths have another variable
  if (!file.exists(file.path(lib, "libR.so"))) return(TRUE)
  # the script puts R's own libraries before all others
  grepl(paste0("^\\Q", lib, "\\E(:|$)"), env["LD_LIBRARY_PATH"], perl = TRUE)
}
