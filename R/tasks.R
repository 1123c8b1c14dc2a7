# What cluster_map() and cluster_submit() share: the scheduler of a cluster, jobs, what becomes of nodes that die, errors.

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
  option_number("clutch.max_size", 500e6) # used when the job is there
  relays <- c("ordered", "live", "none")
  if (isTRUE(relay)) relay <- "ordered"
  if (isFALSE(relay)) relay <- "none"
  relay <- match_arg(relay, relays, ".relay")
  timeout <- number(timeout, ".timeout", 0, "a positive number of seconds")
  if (timeout == 0) throw("argument", "`.timeout` has to be a positive number of seconds")
  memory <- number(max_memory, ".max_memory", 1, "a number of bytes")
  list(seed = stream_seed(seed), relay = relay, packages = check_strings(packages, ".packages"),
       timeout = if (timeout > 1e9) 0 else timeout, max_memory = if (is.finite(memory)) memory else 0,
       retries = min(floor(number(retries, ".retries", 0, "a number, 0 or more")), 254),
       chunk = if (is.null(chunk)) 0 else min(floor(number(chunk, ".chunk", 1, "a number of elements, 1 or more")), 2^31 - 1))
}

# The stream of the first element: six integers, or NULL. The session's own generator is left as one draw leaves it.
stream_seed <- function(seed) {
  if (isFALSE(seed) || is.null(seed)) return(NULL)
  if (!isTRUE(seed) && !(is.numeric(seed) && length(seed) %in% c(1L, 7L) && !anyNA(seed) &&
                         all(abs(seed) <= .Machine$integer.max)))
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
  cause <- -1L - length(t$deaths) # those of the scheduler are positive
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
  if (inherits(cond, "clutch_package") && isTRUE(cond$of_job)) {
    return(error_of("package", sprintf("package '%s' cannot be attached%s: %s", cond$package, at, conditionMessage(cond)),
                    package = cond$package, node = node))
  }
  call <- tryCatch(conditionCall(cond), error = function(e) NULL)
  text <- if (is.character(value$text)) value$text else message_of(cond)
  hint <- missing_hint(simpleError(text))
  if (length(value$lacks) && nzchar(hint)) {
    hint <- sprintf("\nPackage '%s', which the session has attached or loaded, cannot be had on the node: %s",
                    names(value$lacks)[[1L]], value$lacks[[1L]])
  }
  make(NULL, sprintf("%s%s%s failed%s: %s%s", what, at, again,
                     if (is.null(call)) "" else sprintf(" in %s", sQuote(deparse(call, nlines = 1L)[[1L]], FALSE)), text, hint),
       parent = cond, calls = value$calls, node_call = call)
}

# An object that the session has and the node has not.
missing_hint <- function(cond) {
  found <- regmatches(conditionMessage(cond), regexec("^(object '(.*)' not found|could not find function \"(.*)\")$", conditionMessage(cond)))[[1L]]
  if (!length(found)) return(hint_for_connection(conditionMessage(cond)))
  hint_for_name(paste0(found[[3L]], found[[4L]]))
}

# ---- output and conditions of tasks ----

# options(warn =) of a job. Within suppressWarnings() no warning is to end anything, whatever the session makes of others.
warn_on_nodes <- function() {
  warn <- getOption("warn")
  if (warn < 2) return(warn)
  suppressed <- function(i) identical(sys.function(i), suppressWarnings) && identical(sys.frame(i)$classes, "warning")
  if (any(vapply(seq_len(sys.nframe()), suppressed, NA))) 1 else warn
}

# What elements have printed and signalled, in order. To establish restarts takes most of the time of a condition, so those
# that follow each other share theirs, until a handler uses it.
relay_log <- function(log) {
  i <- 0L
  n <- length(log)
  as <- "warning" # what the restart is for
  go_on <- function() {
    while (i < n) {
      x <- log[[i + 1L]]
      if (is.object(x) && inherits(x, "message") != (as == "message")) break
      i <<- i + 1L
      relay_one(x)
    }
  }
  while (i < n) {
    as <- if (inherits(log[[i + 1L]], "message")) "message" else "warning"
    if (as == "message") withRestarts(go_on(), muffleMessage = nothing)
    else withRestarts(go_on(), muffleWarning = nothing)
  }
}

nothing <- function() NULL

# As message() and warning() do it, within restarts.
relay_one <- function(x) {
  if (!is.object(x)) return(cat(x))
  if (quiet <- inherits(x, "clutch_quiet")) x <- x[[1L]]
  signalCondition(x)
  if (quiet || !inherits(x, c("message", "warning")) || !is_usable(x)) return()
  if (inherits(x, "message")) cat(conditionMessage(x), file = stderr(), sep = "")
  else show_warning(x)
}

# Whether there is something to show.
is_usable <- function(cond) {
  if (is.list(cond) && is.character(.subset2(cond, "message")) && length(.subset2(cond, "message")) == 1L) return(TRUE)
  text <- tryCatch(conditionMessage(cond), error = function(e) NULL)
  is.character(text) && length(text) == 1L
}

# One that was no error on the node is none here: options(warn = 2) of the session held there, unless the element has set it
# itself, or suppressWarnings() is around the map.
show_warning <- function(cond) {
  if (getOption("warn") >= 2) {
    old <- options(warn = 1)
    on.exit(options(old))
  }
  .Call(ffi_show_warning, conditionMessage(cond), conditionCall(cond))
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
#' @section Errors: `clutch_setup` (with element `node`) when the expression fails on a node; it is not kept then.
#' @examples
#' cl <- make_cluster(2)
#' cluster_setup(cl, { library(stats); offset <- 10 })
#' cluster_map_dbl(cl, 1:3, function(x) x + offset, .globals = FALSE)
#' stop_cluster(cl)
#' @export
cluster_setup <- function(cl, expr) {
  check_cluster(cl)
  given(expr, "expr")
  expr <- substitute(expr)
  call_all_nodes(cl, setup_here, expr, "the expression failed")
  info <- cl[[1L]]$info
  set_setup(info, c(setup_of(info), list(list(fun = setup_here, arg = expr))))
  invisible(NULL)
}

# What a cluster's new nodes get. It may be large: it hangs on the cluster by a weak reference, so that it does not travel
# with functions in whose environment the cluster is.
setup_of <- function(info) if (!is.null(info$setup)) .Call(ffi_weak_value, info$setup)
set_setup <- function(info, setup) info$setup <- .Call(ffi_weak_new, info, setup)

setup_here <- function(expr) {
  eval(expr, globalenv())
  NULL
}
environment(setup_here) <- baseenv()
