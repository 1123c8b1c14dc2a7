# What cluster_map() and cluster_submit() share: the scheduler of a cluster, and jobs.

# The scheduler of the cluster that these nodes are of: an environment with `ptr`, and with all its nodes.
tasks_of <- function(cl) {
  check_cluster(cl)
  if (length(cl) == 0L) throw("argument", "a cluster without nodes cannot do anything")
  info <- cl[[1L]]$info
  if (is.null(info$handles))
    throw("argument", "nodes of base R (node = \"psock\") do not know tasks: use them with the functions of package parallel")
  if (is.null(info$tasks)) {
    t <- new.env(parent = emptyenv())
    t$info <- info
    t$deaths <- new.env(parent = emptyenv()) # by cause, as text
    t$barren <- integer(length(info$handles)) # by node: how often one has died in turn that had begun nothing
    t$ptr <- .Call(ffi_tasks_new, info$handles, min(option_number("clutch.task_grace", 1), 1e9),
                   min(option_number("clutch.trace", 1e5), 1e9))
    info$tasks <- t
  }
  ranks <- vapply(cl, function(nd) nd$rank, 1L)
  there <- FALSE
  info$tasks$barren[ranks] <- 0L
  for (rank in ranks) {
    state <- .Call(ffi_tasks_attach, info$tasks$ptr, rank)
    if (is.na(state)) state <- replace_dead(info$tasks, rank)
    there <- there || state
  }
  if (!there) throw("stopped", "this cluster has been stopped: make a new one with make_cluster()")
  info$tasks$ranks <- ranks
  info$tasks
}

# ---- a job ----

# `o`: options as from task_options(). `elements`: a list or plain vector; NULL: one task, whose function takes none.
# `needs`: as from find_needs(). It is not worked at before job_start(): until then whatever jumps out leaves nothing behind.
job_new <- function(t, fun, elements, more, needs, o) {
  about <- list(fun = fun, more = more, globals = needs$globals, attach = needs$attach, load = needs$load, order = needs$order,
                packages = o$packages, relay = o$relay != "none",
                live = o$relay == "live", seeded = !is.null(o$seed), bare = is.null(elements),
                warn = warn_on_nodes())
  # of deaths that no job can ask for any more nothing is kept
  if (length(t$deaths) && .Call(ffi_tasks_jobs, t$ptr) == 0L) t$deaths <- new.env(parent = emptyenv())
  only <- if (length(t$ranks) < length(t$info$handles)) as.integer(t$ranks)
  job <- .Call(ffi_job_new, t$ptr, about, elements, c(o$retries, o$chunk, o$timeout, o$max_memory), o$seed, only)
  warn_size(job, about)
  if (o$max_memory > 0) warn_unlimited(t)
  job
}

# The caller has seen to it that ffi_job_end() comes, whatever happens.
job_start <- function(t, job) .Call(ffi_job_start, t$ptr, job)

# options(warn =) of a job. Within suppressWarnings() no warning is to end anything, whatever the session makes of others.
warn_on_nodes <- function() {
  warn <- getOption("warn")
  if (warn < 2) return(warn)
  suppressed <- function(i) identical(sys.function(i), suppressWarnings) && identical(sys.frame(i)$classes, "warning")
  if (any(vapply(seq_len(sys.nframe()), suppressed, NA))) 1 else warn
}

warn_unlimited <- function(t) {
  ranks <- .Call(ffi_tasks_unlimited, t$ptr)
  if (!length(ranks)) return(invisible())
  numbers <- if (length(ranks) > 5L) paste0(paste(ranks[1:5], collapse = ", "), ", ...") else paste(ranks, collapse = ", ")
  text <- sprintf("`.max_memory` is not in force for %s %s: this machine does not tell how much memory they have",
                  if (length(ranks) == 1L) "node" else "nodes", numbers)
  warning(warningCondition(text, class = "clutch_unlimited"))
}

# The usual accident is a function that drags its environment along.
warn_size <- function(job, about) {
  size <- .Call(ffi_job_state, job)$about
  limit <- option_number("clutch.max_size", 500e6)
  if (size <= limit) return(invisible())
  env <- environment(about$fun)
  inside <- if (is.null(env) || identical(env, globalenv()) || isNamespace(env)) list() else as.list(env, all.names = TRUE)
  parts <- c(unlist(lapply(inside, utils::object.size)), unlist(lapply(about$globals, utils::object.size)),
             unlist(lapply(about$more, utils::object.size)))
  names(parts) <- c(sprintf("'%s' in the environment of the function", names(inside)),
                    sprintf("'%s'", names(about$globals)),
                    if (length(about$more)) sprintf("argument %s", if (is.null(names(about$more))) seq_along(about$more) else names(about$more)))
  parts <- utils::head(sort(parts, decreasing = TRUE), 3L)
  warning(warningCondition(sprintf("%s travel to each node (option clutch.max_size: %s)%s", mb(size), mb(limit),
                                   if (length(parts)) paste0("; the largest: ", paste0(names(parts), ", ", mb(parts), collapse = "; ")) else ""),
                           class = "clutch_large"))
}

mb <- function(bytes) sprintf("%.0f MB", bytes / 1e6)
