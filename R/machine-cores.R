# How many cores may this process use? Every source is one small function that returns a count or
# NA ("no limit"). core_limits() collects them. All files are read below `root`, so that tests can
# hand in the tree of another machine.

#' Cores this R process may use
#'
#' The smallest of all limits that apply to the number of cores.
#'
#' The number of cores of a machine is seldom the number a process may use: containers, batch
#' systems, administrators and `R CMD check` all limit it.
#'
#' # Where the limits come from
#' * `affinity`: the CPU affinity mask of this process, sched_getaffinity(2);
#'   where it is unknown, `machine`: [parallel::detectCores()].
#' * `cgroup_quota`: the CPU bandwidth of Linux control groups, `cpu.max` (v2) or
#'   `cpu.cfs_quota_us` / `cpu.cfs_period_us` (v1). The smallest of this process's
#'   group and all its visible ancestors, because the kernel enforces each of them.
#' * `cgroup_cpuset`: the CPUs of the control group, `cpuset.cpus.effective` (v2)
#'   or `cpuset.effective_cpus` (v1), else `cpuset.cpus`.
#' * `mc.cores`: `options(mc.cores =)`, see [parallel::mclapply()]; without a
#'   valid option `MC_CORES`, the environment variable.
#' * `_R_CHECK_LIMIT_CORES_`: 2, if this environment variable is neither empty nor
#'   `false`: CRAN's rule, applied as \pkg{parallel} does.
#' * `CLUTCH_NODE_CORES`: in a node of a cluster, its share, see [make_cluster()].
#' * Slurm's environment variables, the first that is set: `SLURM_CPUS_PER_TASK`,
#'   the cores of one task, however many tasks the job has; `SLURM_CPUS_ON_NODE`,
#'   the job's cores on this node; `SLURM_JOB_CPUS_PER_NODE`, on its first node.
#'
#' A quota is time, not cores, and can be a fraction: it is rounded down, but
#' never below 1, as one process too many is throttled together with all others.
#'
#' # Errors
#' What cannot be read or understood is no limit, and no error. A wrong `which` is an error of
#' [match.arg()].
#'
#' # Where the formats come from
#' The formats are those of the Linux kernel's documents `cgroup-v2`,
#' `cgroup-v1/cpusets` and `sched-bwc`, of the manual pages cgroups(7),
#' cgroup_namespaces(7) and proc(5) (`/proc/self/cgroup`,
#' `/proc/self/mountinfo`), and of sbatch(1) and srun(1).
#'
#' @param which String. `"min"`: the number to use. `"all"`: each limit that applies, to see which
#'   one decides.
#' @return With `"min"` one integer, at least 1. With `"all"` an integer vector of such numbers,
#'   named as below; `unknown = 1` if nothing is known.
#' @seealso [make_cluster()], whose default number of nodes this is; [parallel::detectCores()].
#' @examples
#' available_cores()
#' available_cores("all")
#' @export
available_cores <- function(which = c("min", "all")) {
  which <- match.arg(which)
  limits <- core_limits()
  if (which == "all") limits else min(limits)
}

core_limits <- function(root = "/",
                        affinity = .Call(ffi_affinity_count),
                        machine = parallel::detectCores()) {
  cgroups <- cgroup_view(root)
  limits <- c(
    # `machine` stays a promise if the mask is known: detectCores() runs a shell
    if (is.na(affinity)) c(machine = as_count(machine)) else c(affinity = as_count(affinity)),
    cgroup_quota = cgroup_quota(cgroups),
    cgroup_cpuset = cgroup_cpuset(cgroups),
    mc_cores_limit(),
    `_R_CHECK_LIMIT_CORES_` = check_limit(),
    CLUTCH_NODE_CORES = as_count(Sys.getenv("CLUTCH_NODE_CORES")),
    slurm_limit()
  )
  limits <- limits[!is.na(limits)]
  if (length(limits)) limits else c(unknown = 1L)
}

# ---- options and environment ----

# A whole number >= 1, or NA for anything else.
as_count <- function(x) {
  if (length(x) != 1L || !(is.numeric(x) || is.character(x))) return(NA_integer_)
  n <- suppressWarnings(as.numeric(x))
  if (!is.finite(n) || n < 1) return(NA_integer_)
  as.integer(min(n, .Machine$integer.max))
}

# parallel copies MC_CORES into the option, but only while it is being loaded:
# a value set later is seen only here.
mc_cores_limit <- function() {
  option <- as_count(getOption("mc.cores"))
  if (is.na(option)) c(MC_CORES = as_count(Sys.getenv("MC_CORES"))) else c(mc.cores = option)
}

# This is the test of parallel:::.check_ncores(): "warn", or even "0", limits too.
check_limit <- function() {
  value <- tolower(Sys.getenv("_R_CHECK_LIMIT_CORES_"))
  if (nzchar(value) && value != "false") 2L else NA_integer_
}

# From the narrowest to the widest. A list of nodes, "4(x2),3", gives its first.
slurm_limit <- function() {
  vars <- c("SLURM_CPUS_PER_TASK", "SLURM_CPUS_ON_NODE", "SLURM_JOB_CPUS_PER_NODE")
  first <- sub("[(,].*", "", Sys.getenv(vars), useBytes = TRUE)
  counts <- vapply(first, as_count, 1L)
  names(counts) <- vars
  counts[!is.na(counts)][1L]
}

# ---- control groups ----

# Each of the two controllers lives in a v1 hierarchy or in the v2 one, never in
# both. On hybrid hosts the v2 tree merely lacks the files, so both are asked.

cgroup_quota <- function(cgroups) {
  v1 <- vapply(unlist(cgroup_folders(cgroups, "cpu")), function(dir) {
    quota_cores(read_lines(dir, "cpu.cfs_quota_us"), read_lines(dir, "cpu.cfs_period_us"))
  }, 1L)
  v2 <- vapply(unlist(cgroup_folders(cgroups, "")), function(dir) {
    fields <- strsplit(paste(read_lines(dir, "cpu.max"), collapse = " "), " +")[[1L]]
    if (length(fields) == 2L) quota_cores(fields[1L], fields[2L]) else NA_integer_
  }, 1L)
  smallest(c(v1, v2))
}

# No limit is "max" in v2 and -1 in v1.
quota_cores <- function(quota, period) {
  if (length(quota) != 1L || length(period) != 1L) return(NA_integer_)
  cores <- suppressWarnings(as.numeric(quota) / as.numeric(period))
  if (!is.finite(cores) || cores <= 0) NA_integer_ else as_count(max(1, cores))
}

# Only the nearest group that names CPUs counts, not the smallest: the CPUs of a
# v2 partition are missing in `cpuset.cpus.effective` of its parent, and an empty
# list means "as the parent".
cgroup_cpuset <- function(cgroups) {
  nearest <- function(dirs, files) {
    for (dir in dirs) for (file in files) {
      n <- count_cpus(read_lines(dir, file))
      if (!is.na(n)) return(n)
    }
    NA_integer_
  }
  smallest(c(
    vapply(cgroup_folders(cgroups, "cpuset"), nearest, 1L, c("cpuset.effective_cpus",
                                                             "cpuset.cpus")),
    vapply(cgroup_folders(cgroups, ""), nearest, 1L, c("cpuset.cpus.effective", "cpuset.cpus"))
  ))
}

# "0-3,8" is 5 CPUs.
count_cpus <- function(list) {
  form <- "^[0-9]+(-[0-9]+)?(,[0-9]+(-[0-9]+)?)*$"
  if (length(list) != 1L || !grepl(form, list)) return(NA_integer_)
  ranges <- strsplit(strsplit(list, ",", fixed = TRUE)[[1L]], "-", fixed = TRUE)
  sizes <- vapply(ranges, function(r) diff(as.numeric(r[c(1L, length(r))])) + 1, 1)
  if (any(sizes < 1)) NA_integer_ else as_count(sum(sizes))
}

smallest <- function(x) {
  x <- x[!is.na(x)]
  if (length(x)) min(x) else NA_integer_
}
