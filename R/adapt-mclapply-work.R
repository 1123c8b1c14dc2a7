# The functions of adapt-mclapply.R share this file: the map, what happens on a node, and what
# becomes of the answers.
#
# Where package parallel forks a child, for each core or for each element, there is an element of a
# map: list(x, seed, affinity). What a node does for it is mc_on_node(). Its answer is list(value).
# An error of the user's code is that of the element, so that cluster_debug() and cluster_replay()
# know it; in the session it becomes what try() gives.

# ---- the map ----

# The value is what each core, or each call, is given.
mc_elements <- function(pieces, mc.set.seed, affinity.list = NULL) {
  seeds <- mc_seeds(length(pieces), mc.set.seed)
  lapply(seq_along(pieces), function(i) {
    list(x = pieces[[i]], seed = seeds[[i]], affinity = affinity.list[[i]])
  })
}

# The state in which each begins: list(kind, state); a state of NULL: one that nobody can repeat.
mc_seeds <- function(n, mc.set.seed) {
  kind <- RNGkind()
  streams <- isTRUE(mc.set.seed) && kind[[1L]] == "L'Ecuyer-CMRG"
  if (streams && is.null(session_seed())) sample.int(1L)
  state <- if (streams || !isTRUE(mc.set.seed)) session_seed()
  lapply(seq_len(n), function(i) {
    if (streams) state <<- parallel::nextRNGStream(state)
    list(kind = kind, state = state)
  })
}

# list(value) for each element, or the error of one that has not delivered any. `called`: what the
# map is called, see task-job-label.R. While the nodes start, what is large is shared.
mc_map <- function(elements, do, FUN, dots, cores, silent, called, journal = NULL) {
  ahead <- begin_ahead(the$pool, FUN, elements, dots, TRUE, environment())
  globals <- ahead$needs$globals
  more <- list(..do = do, ..fun = FUN, ..silent = isTRUE(silent), ..options = plain_options())
  if (is.null(the$called)) the$called <- called
  on.exit(the$called <- NULL) # after an error it is not for the next map
  withCallingHandlers(
    cluster_map(own_nodes(cores, ahead$load), elements, mc_on_node,
                .more = c(more, ahead$more), .globals = if (length(globals)) globals else TRUE,
                .seed = FALSE, .progress = FALSE, .chunk = 1, .relay = "live",
                .on_error = "continue", .retries = 0, .fresh = TRUE, .journal = journal,
                .pointers = "allow"), # refuse_session_only() has looked
    clutch_failed = function(w) invokeRestart("muffleWarning")
  )
}

# Values that any R has, however it was started, are left out on the node.
plain_options <- function() {
  all <- options()
  all <- all[!names(all) %in% options_of_process]
  is_plain <- function(x) is.atomic(x) && !is.object(x) && length(x) < 100L
  all[vapply(all, is_plain, NA)]
}

options_of_process <- c("warn", "echo", "verbose", "keep.source", "keep.source.pkgs", "device",
                        "editor", "pager", "prompt", "continue", "browser", "PCRE_study",
                        "rl_word_breaks", "clutch.joins")

# ---- on a node ----

# `..do`: how the function is called: mc_core(), mc_call() or mc_piece().
mc_on_node <- function(..x, ..do, ..fun, ..silent, ..options, ...) {
  if (!isTRUE(the_node$serving)) return(mc_replay(..x, ..options, ..do(..x$x, ..fun, ...)))
  mc_begin(..x, ..options)
  .Call(ffi_task_state_begins)
  ..fun <- own_copy(..fun)
  mc_run(..silent, mc_try(..do(..x$x, ..fun, ...)))
}

# In the session, for cluster_replay(). Options and random numbers are afterwards as they were.
mc_replay <- function(x, options, code) {
  kind <- RNGkind()
  seed <- session_seed()
  x$affinity <- NULL
  old <- mc_begin(x, options)
  on.exit({
    options(old)
    suppressWarnings(do.call(RNGkind, as.list(kind)))
    put_session_seed(seed)
  })
  code
}

# An error ends the task by one that has what try() makes of it.
mc_try <- function(code) {
  failed <- function(e) {
    text <- message_of(e, 1e6)
    fields <- list(message = text, call = NULL, value = try(stop(e), silent = TRUE))
    stop(structure(fields, class = c("clutch_tried", "error", "condition")))
  }
  tryCatch(user_code(code), error = failed)
}

mc_core <- function(..x, ..fun, ...) lapply(X = ..x, FUN = ..fun, ...)
mc_call <- function(..x, ..fun, ...) call_one(list(..x), 1L, ..fun, ...)
mc_piece <- function(..x, ..fun, ...) call_piece(list(..x), 1L, ..fun, ...)

# The elements that come to a node share the function's environment. One that assigns there gets a
# copy, as a fork does.
own_copy <- function(f) {
  assigns <- is.function(f) && "<<-" %in% all.names(body(f))
  if (assigns) unserialize(serialize(f, NULL)) else f
}

# Errors name the call as those of package parallel do.
call_one <- function(X, i, FUN, ...) FUN(X[[i]], ...)
call_piece <- function(l, i, FUN, ...) FUN(l[[i]], ...)

of_row <- function(row, FUN, MoreArgs) .mapply(FUN, row, MoreArgs)

# The value: the options that were changed, as they were.
mc_begin <- function(x, options) {
  now <- options()
  changed <- !vapply(names(options), function(name) identical(now[[name]], options[[name]]), NA)
  old <- options(options[changed])
  if (!is.null(x$affinity)) parallel::mcaffinity(x$affinity)
  suppressWarnings(do.call(RNGkind, as.list(x$seed$kind))) # the session was warned
  put_session_seed(x$seed$state)
  old
}

mc_run <- function(silent, code) {
  if (!silent) return(list(code))
  nowhere <- file(nullfile(), "w")
  sink(nowhere)
  on.exit({
    sink()
    close(nowhere)
  })
  list(code)
}

# ---- answers ----

# An answer is list(value), or an error of the map.
is_delivered <- function(answer) !inherits(answer, "clutch_task_died")

# NULL: of a node that has died.
delivered <- function(answer) {
  if (!inherits(answer, "clutch_task_error")) return(answer[[1L]])
  if (!is_delivered(answer)) return(NULL)
  if (inherits(answer$parent, "clutch_tried")) return(answer$parent$value)
  text <- paste0("Error : ", conditionMessage(answer), "\n")
  structure(text, class = "try-error", condition = answer)
}

prescheduled <- function(X, index, answers) {
  values <- vector("list", length(X))
  names(values) <- names(X)
  for (core in seq_along(index)) {
    value <- delivered(answers[[core]])
    if (inherits(value, "try-error")) value <- rep(list(value), length(index[[core]]))
    if (!is.null(value)) values[index[[core]]] <- value
  }
  lost <- which(!vapply(answers, is_delivered, NA))
  one <- "scheduled core %s did not deliver a result, all values of the job will be affected"
  more <- "scheduled cores %s did not deliver results, all values of the jobs will be affected"
  if (length(lost)) warn_died(answers[lost], sprintf(plural(lost, one, more), toString(lost)))
  warn_cores(which(vapply(answers, is_failed, NA)), length(index))
  values
}

plural <- function(x, one, more) if (length(x) == 1L) one else more

is_failed <- function(answer) inherits(delivered(answer), "try-error")

warn_cores <- function(failed, cores) {
  if (!length(failed)) return(invisible())
  if (length(failed) == cores) {
    warning("all scheduled cores encountered errors in user code", call. = FALSE)
    return(invisible())
  }
  one <- paste("scheduled core %s encountered error in user code,",
               "all values of the job will be affected")
  more <- paste("scheduled cores %s encountered errors in user code,",
                "all values of the jobs will be affected")
  warning(sprintf(plural(failed, one, more), toString(failed)), call. = FALSE)
}

one_by_one <- function(X, answers, cores, affinity.list) {
  values <- lapply(answers, delivered)
  names(values) <- names(X)
  if (length(X) <= cores && is.null(affinity.list)) {
    warn_undelivered(answers, "%d parallel job did not deliver a result",
                     "%d parallel jobs did not deliver results")
  } else {
    warn_undelivered(answers, "%d parallel function call did not deliver a result",
                     "%d parallel function calls did not deliver results")
  }
  failed <- sum(vapply(answers, is_failed, NA))
  if (failed) warning(sprintf("%d function calls resulted in an error", failed), call. = FALSE)
  values
}

warn_undelivered <- function(answers, one, more) {
  lost <- which(!vapply(answers, is_delivered, NA))
  if (length(lost)) warn_died(answers[lost], sprintf(plural(lost, one, more), length(lost)))
}

warn_died <- function(errors, text) {
  warning(warningCondition(text, class = "clutch_died", parent = errors[[1L]]))
}
