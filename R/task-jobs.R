# cluster_map() and cluster_submit() share this file: the scheduler of a cluster, and jobs.

# The scheduler of the cluster that these nodes are of: an environment with `ptr`, and with all its
# nodes. `ranks`: of those in `cl`.
tasks_of <- function(cl) {
  check_cluster(cl)
  if (length(cl) == 0L) throw("argument", "a cluster without nodes cannot do anything")
  info <- info_of(cl)
  check_knows_tasks(info)
  if (is.null(info$tasks)) {
    new <- tasks_new(info)
    set_cluster(info, tasks = new)
    new$manager <- manager_of(new)
  }
  t <- info$tasks
  if (length(t$half_way)) finish_places(t)
  ranks <- .Call(ffi_tasks_attach_all, t$ptr, cl)
  t$ranks <- if (is.null(ranks)) attach_or_replace(t, cl) else ranks
  if (has_other_libraries(cl)) tell_libraries(info)
  if (!is.null(the$source)) tell_source(info)
  if (!is.null(t$deaths_in_a_row)) t$deaths_in_a_row[t$ranks] <- 0L
  for (f in t$at_work) f(t)
  t
}

check_knows_tasks <- function(info) {
  if (!is.null(info$handles)) return(invisible())
  throw("argument", paste("nodes of base R (node = \"psock\") do not know tasks:",
                          "use them with the functions of package parallel"))
}

# Some node is not there any more. The ranks of all.
attach_or_replace <- function(t, cl) {
  ranks <- vapply(cl, function(nd) nd$rank, 1L)
  if (!is.null(t$deaths_in_a_row)) t$deaths_in_a_row[ranks] <- 0L
  attached <- vapply(ranks, function(rank) attach_node(t, rank), NA)
  if (!any(attached)) throw_stopped()
  ranks
}

tasks_new <- function(info) {
  .Call(ffi_node_info, info$handles[[1L]]) # an error where the cluster was saved and loaded again
  grace <- min(option_number("clutch.task_grace", 1), 1e9)
  most <- min(option_number("clutch.trace", 1e5), 1e9)
  t <- new.env(parent = emptyenv())
  fields <- list(
    info = info,
    ptr = .Call(ffi_tasks_new, info$handles, grace, most),
    ranks = NULL, # of the nodes that were given last, see tasks_of()
    manager = NULL, # see manager_of()
    grow_again = 0, # by clock(): not tried to make growth possible before, see task-grow.R

    # compiled code checks whether R has something to see to: src/r/tasks/submit.c
    has_attached = FALSE, # packages, for some job
    deaths = new.env(parent = emptyenv()), # by cause, as text: see death_of()
    deaths_in_a_row = NULL, # by node: of those that had begun nothing; NULL: there were none
    replacements = NULL, # see task-replace.R
    half_way = NULL, # numbers of new nodes that are not set up yet, see task-place.R
    resize = NULL, # see resize-hosts.R

    unheard = NULL, # deaths that R was told of and has not seen to, see hear_of_deaths()
    latest = NULL, # the last death, as of death_of()
    ended = list(), # by node, as text: its latest death, if it was this session that ended it
    waits = NULL, # of parts of runs: see remember_waits()
    death_log = list(), # the last deaths of nodes: see remember_death()
    problem = NULL, # the last that went wrong with a new node or host, as text
    errors = NULL, # of elements, see counted()
    actors = NULL, # their records, by name, see actor-actor.R
    at_stop = list(), # functions of this record, called before the cluster stops
    at_host = list(), # functions of info and a host's number: nodes were started there
    at_work = list(), # functions of this record: it is about to do something
    forward = NULL, # see forward-open.R
    copies = NULL, # folders of frozen copies on this machine, see task-failed.R
    warnings = NULL, # of elements, see counted()

    # while R is idle, see task-idle.R:
    awaited = NULL, # tasks that are waited for, by key
    watch = NULL, # what tells that there is something new
    ref = NULL, # to this record, for its watch: weak
    unsettled = NULL # TRUE: some that have ended are still to be told
  )
  list2env(fields, t)
  lockEnvironment(t)
  .Call(ffi_tasks_show, t$ptr, info$view)
  t
}

# The manager says what the nodes' hosts want of each step, where somebody else may end them or more
# may come: a list of functions; NULL: nothing.
#   step(t)                  sees to the hosts; for how many seconds the step may wait at most
#   hear_of_ends(t)          finds out how hosts have ended, when a step says "unclear"
#   await(t, seconds)        no node is there: waits for a host. FALSE: none is to be expected
#   may_come_again(t, rank)  whether another host is to come for a node whose host has ended
manager_of <- function(t) {
  if (grows_here(t$info)) return(manage_growth(t))
  attend <- launcher_of(t$info)$attend
  if (!is.null(attend)) attend(t)
}

# Tells the scheduler of the node. The value says whether it is there, or to be expected.
attach_node <- function(t, rank) {
  state <- .Call(ffi_tasks_attach, t$ptr, rank)
  if (state == "dead") tell_found_dead(t, rank)
  switch(state, attached = TRUE, stopped = FALSE, dead = replace_dead(t, rank))
}

# ---- a job ----

# `o`: options as from task_options(). `elements`: a list or plain vector; NULL: one task, whose
# function takes none. `needs`: as from find_needs(). It is not worked at before job_start(): until
# then whatever jumps out leaves nothing behind. `o$called`: what it is called, see
# R/task-job-label.R.
job_new <- function(t, fun, elements, more, needs, o) {
  on_way <- NULL
  work <- list(fun, more, needs, elements, o$packages) # see task-failed.R
  if (isTRUE(needs$has_pointer)) {
    on_way <- on_their_way(fun, elements, more, needs$globals, o$pointers)
    elements <- on_way$elements
  } else if (!identical(o$pointers, "error")) {
    on_way <- list(travel = list(pointers = o$pointers))
  }
  is_packed <- !is.null(on_way$travel$packed)
  if (!is_packed) fun <- compiled_once(fun, length(t$info$handles), length(elements))
  if (length(needs$attach)) t$has_attached <- TRUE
  parts <- list( # see job_parts
    if (!is_packed) fun,
    if (length(more) && !is_packed) more,
    if (length(needs$globals) && !is_packed) needs$globals,
    if (length(needs$attach)) needs$attach,
    if (length(needs$load)) needs$load,
    if (t$has_attached) needs$order, # only what a job has attached is detached for another
    if (length(o$packages)) o$packages,
    o$relay != "none",
    switch(o$relay, live = TRUE, handler = NA, FALSE),
    warn_on_nodes(),
    if (o$fresh) TRUE,
    on_way$travel,
    wishes_of_user(o, fun, needs$globals),
    o$given
  )
  forget_deaths(t)
  set_memory_budget()
  set_politeness()
  asked <- needs_of_job(t, o$asked, if (!is.null(elements)) length(elements))
  handler <- if (o$relay == "handler") handler_of(o$handler)
  spec <- c(o$retries, o$chunk, o$timeout, o$max_memory, o$priority)
  only <- if (!is.null(o$only)) {
    o$only
  } else if (length(t$ranks) < nodes_at_start(t$info)) {
    as.integer(t$ranks)
  }
  job <- .Call(ffi_job_new, t$ptr, parts, elements, spec, o$seed, only, asked)
  .Call(ffi_job_keep, job, work)
  if (!is.null(handler)) .Call(ffi_job_hear, job, handler)
  if (!is.null(o$called)) .Call(ffi_job_name, job, o$called[[1L]], o$called[[2L]])
  if (.Call(ffi_job_size, job) > o$max_size) warn_size(job, fun, more, needs$globals, o$max_size)
  if (o$max_memory > 0) warn_unlimited(t)
  job
}

# How many copies of nodes that have failed are kept, whether of elements whose time is up, too (see
# node-frozen.R), and whether browser() asks here for lines (node-browse.R). Attributes: `debugged`,
# names of functions that are debugged, "" is that of the map; `at`, where this session is. NULL:
# nothing of all that. Without a user at a prompt nobody would look.
wishes_of_user <- function(o, fun, globals) {
  browses <- is_at_prompt() && o$relay %in% c("ordered", "live")
  most <- getOption("clutch.frozen", if (interactive()) 4 else 0)
  if (!is_number(most, 0)) has_to_be(option_text("clutch.frozen"), "a number, 0 or more")
  if (most < 1 && !browses) return(NULL)
  wishes <- as.integer(c(min(most, 1000), o$timeout > 0, browses))
  if (browses) {
    if (!identical(the$place[2L], tempdir())) the$place <- c(Sys.info()[["nodename"]], tempdir())
    attr(wishes, "at") <- the$place
    attr(wishes, "debugged") <- debugged_among(fun, globals)
  }
  wishes
}

# Where no options are given, see src/r/tasks/submit.c.
wishes_by_default <- function(fun, globals) {
  wishes_of_user(list(timeout = 0, relay = "ordered"), fun, globals)
}

is_at_prompt <- function() interactive() || !is.null(the$read_line)

debugged_among <- function(fun, globals) {
  is_debugged <- function(f) typeof(f) == "closure" && isdebugged(f)
  names <- names(globals)[vapply(globals, is_debugged, NA)]
  if (is_debugged(fun)) names <- c("", names)
  if (length(names)) names
}

# So many functions that were compiled here are kept. One that is used again is the same object, and
# is not sent again.
MOST_COMPILED <- 8L

# A function of the workspace is compiled by R at its second call, here or on each node. A new node
# takes twice as long for it as the session: the compiler's code is used for the first time, and
# pages that it writes to are copied, 400 for the smallest function. So it is done here and once.
compiled_once <- function(fun, nodes, tasks) {
  is_ours <- typeof(fun) == "closure" && identical(environment(fun), globalenv())
  if (!is_ours || tasks < 2 * nodes) return(fun)
  if (isdebugged(fun) || compiler::enableJIT(-1L) < 1L) return(fun)
  for (known in the$compiled) {
    if (identical(known$from, fun, ignore.srcref = FALSE)) return(known$to)
  }
  compiled <- tryCatch(compiler::cmpfun(fun), error = function(e) fun) # as R does itself
  others <- utils::head(the$compiled, MOST_COMPILED - 1L)
  the$compiled <- c(list(list(from = fun, to = compiled)), others)
  compiled
}

# The caller has seen to it that ffi_job_end() comes, whatever happens.
job_start <- function(t, job) .Call(ffi_job_start, t$ptr, job)

# Nothing is kept of deaths that no job can ask for any more.
forget_deaths <- function(t) {
  if (!length(t$deaths) || .Call(ffi_tasks_jobs, t$ptr) > 0L) return(invisible())
  t$deaths <- new.env(parent = emptyenv())
}

# options(warn =) of a job. Within suppressWarnings() no warning is to end anything, whatever the
# session makes of others.
warn_on_nodes <- function() {
  warn <- getOption("warn")
  if (warn < 2) return(warn)
  suppressed <- function(i) {
    identical(sys.function(i), suppressWarnings) && identical(sys.frame(i)$classes, "warning")
  }
  if (any(vapply(seq_len(sys.nframe()), suppressed, NA))) 1 else warn
}

warn_unlimited <- function(t) {
  ranks <- .Call(ffi_tasks_unlimited, t$ptr)
  if (!length(ranks)) return(invisible())
  numbers <- paste(utils::head(ranks, 5L), collapse = ", ")
  if (length(ranks) > 5L) numbers <- paste0(numbers, ", ...")
  text <- sprintf(paste0("`.max_memory` is not in force for %s %s: ",
                         "this machine does not tell how much memory they have"),
                  if (length(ranks) == 1L) "node" else "nodes", numbers)
  warning(warningCondition(text, class = "clutch_unlimited"))
}

# The usual accident is a function that drags its environment along.
warn_size <- function(job, fun, more, globals, limit) {
  size <- .Call(ffi_job_size, job)
  parts <- utils::head(sort(message_parts(fun, more, globals), decreasing = TRUE), 3L)
  text <- sprintf("%s travel to each node (option clutch.max_size: %s)", mb(size), mb(limit))
  if (length(parts)) {
    largest <- paste0(names(parts), ", ", mb(parts), collapse = "; ")
    text <- paste0(text, "; the largest: ", largest)
  }
  warning(warningCondition(text, class = "clutch_large"))
}

# Sizes of what travels to each node, named as users know it.
message_parts <- function(fun, more, globals) {
  sizes <- function(objects, names) {
    stats::setNames(vapply(objects, function(x) as.double(utils::object.size(x)), 1), names)
  }
  inside <- environment_objects(fun)
  more_names <- if (is.null(names(more))) seq_along(more) else names(more)
  c(
    sizes(inside, sprintf("'%s' in the environment of the function", names(inside))),
    sizes(globals, sprintf("'%s'", names(globals))),
    sizes(more, sprintf("argument %s", more_names))
  )
}

# The value has what travels with a function because its environment does.
environment_objects <- function(fun) {
  env <- environment(fun)
  if (is.null(env) || identical(env, globalenv()) || isNamespace(env)) return(list())
  .Call(ffi_known_values, env) # a promise that fails is none of a warning's affair
}
