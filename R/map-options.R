# The options of maps and tasks: their checks, and what holds for a call. Each can be given to a
# call, as `.timeout = 10`, or be set for the session, as options(clutch.timeout = 10).
# map-arguments.R has their names and defaults.

#' Options of the session
#'
#' Defaults that hold for a session. Set them by [options()], for example in `.Rprofile`. An option
#' that is not set, or is `NULL`, has the default that is given here.
#'
#' @section Maps and submitted tasks: These replace the defaults of the arguments with the same
#'   names, with a dot in place of `clutch.`, in [cluster_map()], all its variants and
#'   [cluster_submit()]. What a call gives goes first.
#'   \describe{
#'     \item{`clutch.timeout`}{number of seconds, above 0; default `Inf`. How long one element or
#'       task may take.}
#'     \item{`clutch.max_memory`}{number of bytes, 1 or more, or text such as `"2 GB"`; default
#'       `Inf`. How much memory a node may have.}
#'     \item{`clutch.priority`}{whole number between -1000 and 1000; default 0. Which tasks are
#'       handed out first.}
#'     \item{`clutch.needs`}{`NULL` (default), or named list. What each element or task asks for of
#'       the host of its node, see [cluster_map()].}
#'     \item{`clutch.retries`}{number, 0 or more; default 0. How often an element or task is tried
#'       again when its node has died.}
#'     \item{`clutch.relay`}{`"ordered"` (default), `"live"` or `"none"`; `TRUE` is `"ordered"` and
#'       `FALSE` is `"none"`. When output and conditions appear in the session. Or a function, which
#'       gets the conditions.}
#'     \item{`clutch.seed`}{`TRUE` (default), `FALSE`, one number, or a value of `.Random.seed`.
#'       Where random numbers come from. With a number every map has the same ones.}
#'     \item{`clutch.globals`}{`TRUE` (default), `FALSE`, names of variables, or a named list. Which
#'       variables travel to the nodes.}
#'     \item{`clutch.packages`}{character vector; by default empty. Names of packages to attach on
#'       the nodes.}
#'     \item{`clutch.journal`}{`NULL` (default), or name of a file. The journal in which results are
#'       recorded, see [cluster_map()].}
#'     \item{`clutch.journal_sync`}{number of seconds, 0 or more; default 1. When
#'       what is recorded is on the disk.}
#'     \item{`clutch.journal_errors`}{`"again"` (default) or `"keep"`. Whether what has failed is
#'       computed again.}
#'     \item{`clutch.pointers`}{`"error"` (default), `"warn"` or `"allow"`. What it means that there
#'       is an external pointer in what travels, and no recipe for it, see [register_travel()].}
#'     \item{`clutch.fresh`}{`TRUE` or `FALSE` (default). Whether each element or task finds the
#'       workspace of its node as it was before the others.}
#'   }
#' @section Maps only: The same, in [cluster_map()] and all its variants.
#'   \describe{
#'     \item{`clutch.on_error`}{`"stop"` (default) or `"continue"`. What a failed element means for
#'       the map.}
#'     \item{`clutch.journal_if_changed`}{`"compute"` (default) or `"error"`. What becomes of a map
#'       whose code has changed.}
#'     \item{`clutch.detach`}{`FALSE` (default), `TRUE`, or a list, see [cluster_jobs()]. Whether
#'       maps go on without the session.}
#'     \item{`clutch.progress`}{`TRUE` or `FALSE`; by default a map shows a bar in an interactive
#'       session when it takes longer than a second.}
#'     \item{`clutch.reduce_ahead`}{number of bytes, 0 or more; default 256e6. How much memory
#'       results may have that wait until `.reduce` combines them.}
#'     \item{`clutch.chunk`}{number of elements, 1 or more; by default the measured times say. How
#'       many elements travel together.}
#'   }
#' @section Limits of maps and tasks:
#'   \describe{
#'     \item{`clutch.task_grace`}{number of seconds, 0 or more; default 1. How long a node may take
#'       to end an element whose time is up, or that was cancelled, since it was told. Then the node
#'       is ended and replaced; one of another host when that host, asked once more, has no answer
#'       of it after the same time. Read when a cluster is first used for a map or task.}
#'     \item{`clutch.memory`}{`TRUE` (default), `FALSE`, or a size: number of bytes, or text such as
#'       `"2 GB"` or `"512 MiB"`. How much memory the tasks of this session may have together.
#'       `TRUE`: what the control groups of the session and the machine have left. A size: that, and
#'       no more than is left. `FALSE`: nobody looks. See section *Memory that is short* of
#'       [cluster_map()]. Read when a map or task begins.}
#'     \item{`clutch.polite`}{`TRUE` or `FALSE` (default). `TRUE`: on a machine that others use,
#'       too, no more nodes of this session's clusters there compute than there are cores that the
#'       others leave free, but always one of a cluster. Linux tells for how long processes have to
#'       wait for a core (`/proc/pressure/cpu`): where that is more than a tenth of the time one
#'       node less computes, where it is less than a fortieth one more, each half a second.
#'       Elsewhere the load of the last minute decides. Its nodes have the lowest priority
#'       (`nice 19`), which they keep for as long as they run where the session has no rights to
#'       raise it again. Linux shares processors among sessions of processes first (`man 7 sched`,
#'       *The autogroup feature*): that of the nodes has it, too. Read when a map or task begins.}
#'     \item{`clutch.max_size`}{number of bytes, 0 or more; default 500e6. A function with its
#'       environment, constants and variables that is larger gives a warning of class
#'       `clutch_large`. What travels by shared memory does not count.}
#'     \item{`clutch.queued`}{`NULL` (default), or a size: number of bytes, or text such as
#'       `"2 GB"`. How much memory the submitted tasks of a cluster that have not ended may have in
#'       this session, as what is sent to nodes. Where there is more [cluster_submit()] waits until
#'       tasks that were submitted before have ended. One task alone may be larger. `NULL`: there
#'       is no bound, and it never waits.}
#'     \item{`clutch.trace_spans`}{number of tasks, 0 or more; default 1000. For how many tasks of a
#'       map a span of OpenTelemetry is made, the last ones, see [clutch-otel].}
#'     \item{`clutch.trace`}{number of tasks, 0 or more; default 1e5. How many of the last tasks
#'       [cluster_trace()] tells about. Read when a cluster is first used for a map or task.}
#'   }
#' @section Clusters:
#'   \describe{
#'     \item{`clutch.cancel_grace`}{number of seconds, 0 or more; default 5. How long a node may
#'       take to end an interrupted call of package \pkg{parallel}. Then the next call replaces it,
#'       with a warning of class `clutch_node_replaced`.}
#'     \item{`clutch.heartbeat`}{number of seconds, above 0; default 10. After this time without a
#'       word a connection to another host counts as cut, see [hosts()]. Either side says three
#'       times as often that it is there. Read when hosts are started.}
#'     \item{`clutch.reconnect`}{number of seconds, 0 or more; default 300. How long nodes of a host
#'       and their results are kept after its connection was cut. Read when hosts are started.}
#'     \item{`clutch.idle_limit`}{number of seconds, above 0; default 300. After this time without
#'       nodes a fork server ends, see [fork_server_stop()]. Read when a fork server is started.}
#'     \item{`clutch.keep`}{number of seconds, 0 or more, not `Inf`; default 0. Argument `keep` of
#'       [make_cluster()], also for the session's own cluster. Read when a cluster is made.}
#'     \item{`clutch.budget`}{`TRUE` (default), `FALSE`, or number of cores, 1 or more. Whether what
#'       uses `cl = NULL` shares the cores of this machine, and how many, see [own-cluster].}
#'     \item{`clutch.idle_seconds`}{number of seconds, above 0, or `Inf`; default 60. After this
#'       time without use the nodes of the session's own cluster end, see [own-cluster]. Read when
#'       these nodes are started.}
#'     \item{`clutch.session_only`}{`"refuse"` (default) or `"send"`. Whether [mclapply()] sends
#'       connections and external pointers that code uses, which are of use in this process only,
#'       and for which [register_travel()] knows nothing.}
#'     \item{`clutch.share_from`}{`NULL` (default), or number of bytes, 0 or more, or `Inf`. From
#'       this size on vectors go to nodes of this host, and come back, by shared memory, see
#'       [share()]; `Inf`: none do. `NULL`: from where on it is quicker than the socket. That is
#'       2.5e6 bytes with one receiver (a call to one node, a submitted task, an element of a map),
#'       1e6 with two to seven (a call to all nodes, what all tasks of a map use), 3e5 with eight
#'       and more; for results 2.5e6 in a cluster of one node, 1e6 in others. Read whenever
#'       something is sent; by nodes when they are started.}
#'     \item{`clutch.load_ahead`}{`TRUE` (default) or `FALSE`. Whether the fork server of the
#'       session's own cluster, and of [mclapply()], loads packages that the first map needs, where
#'       these have 1 MB of code or more. Read when that cluster is made.}
#'     \item{`clutch.wait_awake`}{`TRUE` (default) or `FALSE`. Whether session and nodes wait awake
#'       for up to 100 microseconds for what is likely to come next, where processors are free: to
#'       be woken takes as long. It is left off by itself where others want the processor. Read by
#'       the session at each wait, by nodes when they are started.}
#'     \item{`clutch.frozen`}{number, 0 or more; default 4 in interactive sessions, else 0. How many
#'       copies of nodes are kept on each machine for [cluster_debug()], of elements that have
#'       failed. Read whenever a map or task starts.}
#'     \item{`clutch.prestart`}{`TRUE` or `FALSE` (default). Whether a fork server is started in the
#'       background when the package is attached, so that the first cluster is ready at once. Read
#'       by `library(clutch)`, where a value of no use is a warning of class `clutch_argument`.}
#'   }
#' @section Log:
#'   \describe{
#'     \item{`clutch.log`}{`NULL` (default), name of a file, or connection. Where a line is written
#'       when a cluster starts or stops, a node dies or is replaced, a task is tried again or
#'       exceeds a limit, a host is cut off or is there again, see [clutch-log]. Read at each of
#'       these; what cannot be written breaks no call. A value of no use is an error of
#'       [make_cluster()].}
#'   }
#' @section Errors: A value of no use is an error of class `clutch_argument` that names the option.
#'   It is signalled by the function that reads the option:
#'   ```
#'   options(clutch.timeout = "10 s")
#'   tryCatch(cluster_map(cl, 1:3, sqrt), clutch_argument = conditionMessage)
#'   #> option 'clutch.timeout' has to be a positive number of seconds
#'   ```
#' @seealso [cluster_map()] and [cluster_submit()] for the arguments, [base::options()]
#' @examples
#' cl <- make_cluster(2)
#' old <- options(clutch.on_error = "continue", clutch.timeout = 60)
#' x <- suppressWarnings(cluster_map_dbl(cl, list(1, "a", 9), sqrt))
#' x
#' options(old)
#' stop_cluster(cl)
#' @name clutch-options
#' @aliases clutch_options
NULL

# ---- checks: they return the value in the form that the scheduler takes ----

# `what`: what the user calls it, for errors.
check_option <- function(name, x, what) {
  switch(name,
    seed = check_seed(x, what),
    progress = check_flag_or_null(x, what),
    timeout = check_limit_of_time(x, what),
    retries = min(floor(check_number(x, what, 0, "a number, 0 or more")), 254),
    chunk = check_chunk(x, what),
    globals = check_globals(x, what),
    packages = check_strings(x, what),
    relay = check_relay(x, what),
    on_error = check_choice(x, what, c("stop", "continue")),
    max_memory = check_limit_of_memory(x, what),
    priority = check_priority(x, what),
    needs = if (!is.null(x)) check_needs(x, what),
    fresh = check_flag(x, what),
    journal = check_one(x, what, is_filled, "the name of a file"),
    journal_if_changed = check_choice(x, what, c("compute", "error")),
    journal_sync = check_number(x, what, 0, "a number of seconds, 0 or more"),
    journal_errors = check_choice(x, what, c("again", "keep")),
    detach = check_detach(x, what),
    pointers = check_choice(x, what, c("error", "warn", "allow"))
  )
}

# 0: none.
check_limit_of_time <- function(x, what) {
  check_positive_time(x, what)
  if (x > 1e9) 0 else x
}

# 0: none.
check_limit_of_memory <- function(x, what) {
  if (identical(x, Inf)) 0 else check_size(x, what)
}

check_priority <- function(x, what) {
  if (is_number(x) && abs(x) <= 1000 && x == trunc(x)) return(as.double(x))
  has_to_be(what, "a whole number between -1000 and 1000")
}

# 0: as the times say.
check_chunk <- function(x, what) {
  if (is.null(x)) return(0)
  check_number(x, what, 1, "a number of elements, 1 or more")
  min(floor(x), 2^31 - 1)
}

check_relay <- function(x, what) {
  if (is.function(x)) return(x)
  if (isTRUE(x)) return("ordered")
  if (isFALSE(x)) return("none")
  choices <- c("ordered", "live", "none")
  if (is.character(x)) return(check_choice(x, what, choices))
  has_to_be(what, paste0(one_of(choices), ", or a function"))
}

check_globals <- function(x, what) {
  if (is_flag(x)) return(x)
  if (is.character(x) && !anyNA(x)) return(x)
  if (!is.list(x)) has_to_be(what, "TRUE, FALSE, names of variables, or a named list of values")
  if (length(x) && (is.null(names(x)) || !all(nzchar(names(x)))))
    throw("argument", sprintf("%s: a list of globals has to be named", what))
  x
}

check_seed <- function(x, what) {
  if (is.null(x) || is_flag(x)) return(x)
  is_seed <- is.numeric(x) && length(x) %in% c(1L, 7L) && !anyNA(x) &&
    all(abs(x) <= .Machine$integer.max)
  if (is_seed) return(x)
  has_to_be(what, paste("TRUE, FALSE, one number,",
                        "or a value of .Random.seed of kind \"L'Ecuyer-CMRG\""))
}

# ---- the options of a call ----

# The defaults, as check_option() returns them: they are not checked in each call.
checked_defaults <- Map(check_option, names(option_defaults), option_defaults, "")
checked_defaults$max_size <- 500e6

# A function that users call needs to know this of the options that it takes: `session`, their names
# for options(); `missing`, a call that tells which of them were not given, in the function's frame.
# It is made once.
options_taken <- function(names) {
  list(names = names, session = paste0("clutch.", names),
       missing = missing_call(paste0(".", names)))
}

map_options <- options_taken(names(option_defaults))
submit_options <- options_taken(sub(".", "", names(submit_arguments), fixed = TRUE))

# The value has the options that the call has given to the function whose frame this is.
given_options <- function(frame, taken = map_options) {
  is_missing <- eval(taken$missing, frame)
  if (all(is_missing)) return(list())
  given <- taken$names[!is_missing]
  values <- lapply(given, function(name) frame[[paste0(".", name)]])
  names(values) <- given
  values
}

# The options of a call, checked, in the form that the scheduler takes: what the call gives, else
# what the session says, else the default; and `max_size`, which only the session has.
task_options <- function(given = NULL, taken = map_options) {
  o <- checked_defaults
  session <- .Call(ffi_options_set, taken$session)
  if (!is.null(session)) o <- with_session_options(o, session, given, taken)
  for (name in names(given)) {
    o[name] <- list(check_option(name, given[[name]], sprintf("`.%s`", name)))
  }
  if (is.function(o$relay)) {
    o$handler <- o$relay
    o$relay <- "handler"
  }
  o["asked"] <- list(o$needs)
  o["needs"] <- list(NULL) # what the code needs, once it is known
  if (is.null(o$journal)) {
    o["seed"] <- list(stream_of_seed(o$seed))
  } else {
    o$seed_is_drawn <- isTRUE(o$seed) && .Call(ffi_is_unseeded)
    o["seed"] <- list(stream_of_seed(o$seed))
  } # the last: it draws a number
  o
}

# `session`: the values of the options that the function takes, NULL for those that are not set.
with_session_options <- function(o, session, given, taken) {
  o$max_size <- option_number("clutch.max_size", o$max_size)
  is_set <- !vapply(session, is.null, NA)
  for (k in which(is_set & !taken$names %in% names(given))) {
    what <- option_text(taken$session[[k]])
    o[taken$names[[k]]] <- list(check_option(taken$names[[k]], session[[k]], what))
  }
  o
}

# ---- random numbers ----

# Returns the stream of the first element: six integers, or NULL. The session's own generator is
# left as one draw leaves it.
stream_of_seed <- function(seed) {
  if (is.null(seed) || isFALSE(seed)) return(NULL)
  .Call(ffi_stream_of_seed, seed)
}
