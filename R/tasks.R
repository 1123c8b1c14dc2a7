# What cluster_map() and cluster_submit() share: the engine of a cluster, jobs, what becomes of nodes that die, errors.

# The engine of the cluster that these nodes are of: an environment with `ptr`, and with all its nodes.
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
    t$ptr <- .Call(ffi_tasks_new, info$handles, getOption("clutch.task_grace", 1), getOption("clutch.trace", 1e5))
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

# `o`: options as from task_options(). `elements`: a list or plain vector; NULL: one task, whose function takes none. It is
# not worked at before job_start(): until then whatever jumps out leaves nothing behind.
job_new <- function(t, fun, elements, more, globals, o) {
  about <- list(fun = fun, more = more, globals = globals, packages = o$packages, relay = o$relay != "none",
                live = o$relay == "live", seeded = !is.null(o$seed), bare = is.null(elements))
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

warn_unlimited <- function(t) {
  ranks <- .Call(ffi_tasks_unlimited, t$ptr)
  if (!length(ranks)) return(invisible())
  numbers <- if (length(ranks) > 5L) paste0(paste(ranks[1:5], collapse = ", "), ", ...") else paste(ranks, collapse = ", ")
  text <- sprintf("`.max_memory` is not in force for %s %s: this machine does not tell how much memory they have",
                  if (length(ranks) == 1L) "node" else "nodes", numbers)
  warning(warningCondition(text, class = "clutch_unlimited"))
}

task_options <- function(seed, timeout, retries, chunk, packages, relay, max_memory) {
  number <- function(x, name, least, what) {
    if (!is.numeric(x) || length(x) != 1L || is.na(x) || x < least)
      throw("argument", sprintf("`%s` has to be %s", name, what))
    x
  }
  relays <- c("ordered", "live", "none")
  if (isTRUE(relay)) relay <- "ordered"
  if (isFALSE(relay)) relay <- "none"
  relay <- match_arg(relay, relays, ".relay")
  timeout <- number(timeout, ".timeout", 0, "a positive number of seconds")
  if (timeout == 0) throw("argument", "`.timeout` has to be a positive number of seconds")
  memory <- number(max_memory, ".max_memory", 1, "a number of bytes")
  list(seed = stream_seed(seed), relay = relay, packages = check_strings(packages, ".packages"),
       timeout = if (timeout > 1e9) 0 else timeout, max_memory = if (is.finite(memory)) memory else 0,
       retries = floor(number(min(retries, 254), ".retries", 0, "a number, 0 or more")),
       chunk = if (is.null(chunk)) 0 else min(floor(number(chunk, ".chunk", 1, "a number of elements, 1 or more")), 2^31 - 1))
}

# The stream of the first element: six integers, or NULL. The session's own generator is left as one draw leaves it.
stream_seed <- function(seed) {
  if (isFALSE(seed) || is.null(seed)) return(NULL)
  if (!isTRUE(seed) && !(is.numeric(seed) && length(seed) %in% c(1L, 7L) && !anyNA(seed)))
    throw("argument", "`.seed` has to be TRUE, FALSE, one number, or a value of .Random.seed of kind \"L'Ecuyer-CMRG\"")
  drawn <- as.integer(stats::runif(1L) * 2147483647)
  if (length(seed) == 7L) return(as.integer(seed[-1L]))
  after <- get(".Random.seed", globalenv(), inherits = FALSE)
  on.exit(assign(".Random.seed", after, envir = globalenv()))
  set.seed(if (isTRUE(seed)) drawn else as.integer(seed), kind = "L'Ecuyer-CMRG", normal.kind = "Inversion",
           sample.kind = "Rejection")
  get(".Random.seed", globalenv(), inherits = FALSE)[-1L]
}

# The usual accident is a function that drags its environment along.
warn_size <- function(job, about) {
  size <- .Call(ffi_job_state, job)$about
  limit <- getOption("clutch.max_size", 500e6)
  if (!is.numeric(limit) || size <= limit) return(invisible())
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

# ---- globals ----

# What the function needs of the session's workspace: a named list. Local variables travel with the function itself.
find_globals <- function(fun, more, globals, env) {
  if (isFALSE(globals)) return(list())
  if (is.list(globals)) {
    if (length(globals) && (is.null(names(globals)) || !all(nzchar(names(globals)))))
      throw("argument", "a list of globals has to be named")
    return(globals)
  }
  if (is.character(globals)) return(mget(globals, envir = env, inherits = TRUE))
  if (!isTRUE(globals)) throw("argument", "`.globals` has to be TRUE, FALSE, names of variables, or a named list of values")
  found <- new.env(parent = emptyenv())
  for (f in c(list(fun), Filter(is.function, more))) globals_of(f, environment(f), found)
  as.list(found, all.names = TRUE)
}

# Adds to `found` what `code` (a function or an expression), seen from `env`, takes from the workspace; functions in
# there are looked at in turn. `local`: gets what it finds between `env` and the workspace.
globals_of <- function(code, env, found, local = NULL) {
  if (is.null(env) || is.primitive(code)) return(invisible())
  top <- globalenv()
  for (name in free_names(code)) {
    at <- env
    while (!identical(at, emptyenv()) && !identical(at, top) && !isNamespace(at) && !exists(name, at, inherits = FALSE))
      at <- parent.env(at)
    if (identical(at, emptyenv()) || isNamespace(at)) next
    if (exists(name, found, inherits = FALSE) && identical(at, top)) next
    if (!exists(name, at, inherits = FALSE)) next
    value <- get(name, at, inherits = FALSE)
    if (identical(at, top)) assign(name, value, envir = found)
    else if (is.null(local)) { if (!is.function(value)) next } # travels with its environment
    else if (!exists(name, local, inherits = FALSE)) assign(name, value, envir = local)
    else next
    if (is.function(value) && !is.primitive(value) && !isNamespace(environment(value)) && !identical(value, code))
      if (identical(at, top)) globals_of(value, environment(value), found)
  }
  invisible()
}

free_names <- function(code) {
  if (requireNamespace("globals", quietly = TRUE))
    return(unique(globals::findGlobals(code, method = "ordered", unlist = TRUE)))
  code <- if (is.function(code)) list(formals(code), body(code)) else code
  unique(all.names(as.call(c(as.name("{"), code))))
}

# ---- work ----

# One turn: code of what there is to do, see ffi_tasks_step(). Deaths are seen to.
turn <- function(t, job, seconds, seen = 2^31 - 1) {
  if (length(t$replacements)) {
    see_to_replacements(t)
    seconds <- min(seconds, 0.05)
  }
  code <- .Call(ffi_tasks_step, t$ptr, job, seconds, seen)
  if (code == 2L) for (d in .Call(ffi_tasks_deaths, t$ptr)) node_lost(t, d)
  if (code == 5L) {
    if (await_replacement(t, seconds)) return(0L)
    no_node_left(t, job)
  }
  code
}

TURNS <- c(time = 0L, done = 1L, deaths = 2L, relay = 3L, failed = 4L, no_node = 5L)

node_lost <- function(t, d) {
  i <- d$info
  how <- if (is.null(i)) "it was replaced, since it did not give up what it was told to"
    else if (d$over_memory) memory_text(d)
    else if (d$killed > 0L) killed_text[[d$killed]]
    else if (i$state == "stopped") "the cluster was stopped"
    else death_text(i, t$info)
  kind <- if (d$over_memory || grepl("out-of-memory", how, fixed = TRUE)) "memory" else "died"
  t$latest <- how
  t$deaths[[format(d$cause)]] <- list(how = how, kind = kind, pid = if (is.null(i)) NA_integer_ else i$pid, rank = d$index,
                              signal = if (isTRUE(i$by_signal)) i$code else NA_integer_,
                              status = if (isFALSE(i$by_signal)) i$code else NA_integer_)
  t$latest_kind <- kind
  if (is.null(i)) .Call(ffi_tasks_attach, t$ptr, d$index) # its successor
  else if (d$killed > 0L || i$state == "dead") replace_or_give_up(t, d, how)
}

replace_or_give_up <- function(t, d, how) {
  n <- if (d$began) 0L else t$barren[[d$index]] + 1L
  t$barren[[d$index]] <- n
  if (n < MOST_BARREN) return(replace_dead(t, d$index))
  t$problem <- sprintf("node %d was replaced %d times and each time ended before it had begun anything: %s",
                       d$index, n - 1L, how)
}

# What ends each node before it can begin is not mended by one more of them.
MOST_BARREN <- 3L

killed_text <- c("it did not react when time was up and was ended", "it sent what makes no sense and was ended",
                 "there was not enough memory for what it was to be sent, and it was ended")

memory_text <- function(d) {
  what <- if (d$memory > 0) sprintf("it took more memory (%s) than `.max_memory` allows and was ended", mb(d$memory))
    else "it took more memory than `.max_memory` allows and was ended"
  if (d$began) what else paste0(what, " before it had begun anything: this is a node's own size, or what others have left in it")
}

# How a node ended; `info` is its cluster's.
death_text <- function(i, info) {
  if (!is.null(i$refusal)) return(i$refusal)
  if (is.na(i$by_signal)) return(if (isTRUE(i$server_ended)) server_end_text(i$server_pid, info$server, info$lost_servers) else "how it ended is not known")
  paste0(how_ended(i$by_signal, i$code), if (killed_for_memory(i, info)) killer_text)
}

no_node_left <- function(t, job) {
  cause <- -1L - length(t$deaths) # those of the engine are positive
  why <- if (!is.null(t$problem)) t$problem else if (!is.null(t$latest)) t$latest else "the cluster was stopped"
  kind <- if (identical(t$latest_kind, "memory")) "memory" else "died"
  t$deaths[[format(cause)]] <- list(how = paste("no node is left:", why), kind = kind, pid = NA_integer_, rank = NA_integer_,
                            signal = NA_integer_, status = NA_integer_)
  .Call(ffi_job_strand, job, cause)
}

# ---- errors ----

# The error of element `k` of ffi_job_failures(): class "clutch_task_error". `value`: what the node said, if anything.
task_error <- function(t, f, k, value, label = NULL) {
  element <- f$element[[k]]
  what <- if (is.null(label)) sprintf("element %.0f", element) else label
  node <- if (f$node[[k]] > 0L) f$node[[k]] else NA_integer_
  at <- if (is.na(node)) "" else sprintf(" on node %d", node)
  again <- if (f$attempt[[k]] > 1L) sprintf(" (attempt %d)", f$attempt[[k]]) else ""
  make <- function(class, text, ...) {
    errorCondition(text, ..., element = element, node = node, attempt = f$attempt[[k]],
                   class = c(class, "clutch_task_error", "clutch_error"), call = NULL)
  }
  why <- f$why[[k]]
  if (why == 2L) return(make("clutch_task_timeout", sprintf("%s%s%s took longer than `.timeout` allows", what, at, again)))
  if (why == 3L) return(make("clutch_task_cancelled", sprintf("%s%s was cancelled", what, at)))
  if (why == 1L) {
    d <- t$deaths[[format(f$cause[[k]])]]
    if (is.null(d)) d <- list(how = "it is gone", kind = "died", pid = NA_integer_, signal = NA_integer_, status = NA_integer_)
    text <- if (is.na(node) || is.na(d$pid)) sprintf("%s was not done: %s", what, d$how)
      else sprintf("%s%s%s: node %d (pid %d) died while it was at it: %s", what, at, again, node, d$pid, d$how)
    return(make(c(if (d$kind == "memory") "clutch_task_memory", "clutch_task_died"), text, pid = d$pid, signal = d$signal, status = d$status))
  }
  cond <- value$cond
  call <- conditionCall(cond)
  hint <- missing_hint(cond)
  make(NULL, sprintf("%s%s%s failed%s: %s%s", what, at, again,
                     if (is.null(call)) "" else sprintf(" in %s", sQuote(deparse(call, nlines = 1L)[[1L]], FALSE)), conditionMessage(cond), hint),
       parent = cond, calls = value$calls, node_call = call)
}

# An object that the session has and the node has not.
missing_hint <- function(cond) {
  found <- regmatches(conditionMessage(cond), regexec("^(object '(.*)' not found|could not find function \"(.*)\")$", conditionMessage(cond)))[[1L]]
  if (!length(found)) return("")
  name <- paste0(found[[3L]], found[[4L]])
  sprintf("\nThe node does not have '%s': send it with `.globals = \"%s\"` or cluster_export(), or attach its package with `.packages =`", name, name)
}

# ---- output and conditions of tasks ----

relay_log <- function(log) for (x in log) relay_one(x)

relay_one <- function(x) {
  if (is.character(x)) cat(x)
  else if (inherits(x, "message")) message(x)
  else if (inherits(x, "warning")) warning(x)
  else signalCondition(x)
}

# ---- set-up ----

#' Prepare all nodes, and those that replace them
#'
#' Evaluates an expression in the workspace of every node, and again in that of each node that replaces one which has
#' died, before it gets any work. [cluster_export()] is replayed, too; what [parallel::clusterExport()] and
#' [parallel::clusterEvalQ()] have done is not.
#'
#' @param cl a cluster made by [make_cluster()].
#' @param expr an expression; variables in it are those of the nodes.
#' @return `NULL`, invisibly.
#' @section Errors: an R error when the expression fails on a node; it is not kept then.
#' @examples
#' cl <- make_cluster(2)
#' cluster_setup(cl, { library(stats); offset <- 10 })
#' cluster_map_dbl(cl, 1:3, function(x) x + offset, .globals = FALSE)
#' stop_cluster(cl)
#' @export
cluster_setup <- function(cl, expr) {
  check_cluster(cl)
  expr <- substitute(expr)
  parallel::clusterCall(cl, setup_here, expr)
  info <- cl[[1L]]$info
  info$setup <- c(info$setup, list(list(fun = setup_here, arg = expr)))
  invisible(NULL)
}

setup_here <- function(expr) {
  eval(expr, globalenv())
  NULL
}
environment(setup_here) <- baseenv()
