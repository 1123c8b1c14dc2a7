# Tasks ask for something: `.needs` of maps and submitted tasks: its check, and what it means for
# the hosts of a cluster. src/core/sched/ledger.h says how it is handed out.

# A unit has so many parts, see there.
WHOLE <- 10000

# ---- what the user says ----

# Option `needs`: NULL, or list(memory, cores, units, what): numbers, or NULL; `units` has one
# vector for each kind. Each has one number for all elements, or one an element. `what`: what errors
# call it.
check_needs <- function(x, what) {
  if (is.null(x)) return(NULL)
  form <- "a named list such as list(memory = \"2 GB\", cores = 4, gpu = 0.5)"
  if (is.atomic(x) && !is.null(names(x))) x <- as.list(x)
  if (!is.list(x) || is.object(x)) has_to_be(what, form)
  if (!length(x)) return(NULL)
  if (is.null(names(x)) || !all(nzchar(names(x)))) has_to_be(what, form)
  twice <- anyDuplicated(names(x))
  if (twice) throw("argument", sprintf("%s has '%s' twice", what, names(x)[[twice]]))
  x <- x[!vapply(x, is.null, NA)]
  part <- function(name) part_of_needs(what, name)
  kinds <- setdiff(names(x), c("memory", "cores"))
  list(
    # whole names: a kind of units may begin like these
    memory = if ("memory" %in% names(x)) check_memory_need(x[["memory"]], part("memory")),
    cores = if ("cores" %in% names(x)) check_cores_need(x[["cores"]], part("cores")),
    units = Map(check_units_need, x[kinds], vapply(kinds, part, "")),
    what = what
  )
}

# Errors call a part of it so.
part_of_needs <- function(what, name) {
  if (!endsWith(what, "`")) return(sprintf("element `%s` of %s", name, what)) # of an option
  paste0(substr(what, 1L, nchar(what) - 1L), "$", name, "`")
}

check_memory_need <- function(x, what) {
  if (!length(x) || !is.vector(x)) has_to_be(what, "a size for all elements, or one an element")
  vapply(seq_along(x), function(k) check_size(x[[k]], what), 1)
}

check_cores_need <- function(x, what) {
  ok <- is.numeric(x) && length(x) && all(is.finite(x)) && all(x >= 1 & x == floor(x))
  if (!ok) has_to_be(what, "a number of cores, 1 or more, for all elements or one an element")
  as.double(x)
}

check_units_need <- function(x, what) {
  ok <- is.numeric(x) && length(x) && all(is.finite(x)) && all(x >= 0) &&
    all(x <= 1 | x == floor(x))
  if (!ok) has_to_be(what, "a whole number, 0 or more, or a part of one between 0 and 1")
  # thirds fit three times; next to nothing is not nothing
  parts <- ifelse(x < 1, floor(x * WHOLE + 1e-6), x * WHOLE)
  ifelse(x > 0 & parts < 1, 1, parts)
}

# ---- what it means for a cluster ----

# For ffi_job_new(): list(table, of, exact), see src/r/tasks/needs.h, or NULL. `n`: elements; NULL:
# one task. What no host can ever meet is an error.
needs_of_job <- function(t, asked, n, what = asked$what) {
  if (is.null(asked)) return(NULL)
  parts <- c(asked["memory"], asked["cores"], asked$units)
  parts <- parts[!vapply(parts, is.null, NA)]
  count <- if (is.null(n)) 1 else n
  for (name in names(parts)) {
    given <- length(parts[[name]])
    if (given %in% c(1, count)) next
    text <- "%s has %d values, and there are %d elements: one for all, or one an element"
    throw("argument", sprintf(text, part_of_needs(what, name), given, count))
  }
  check_memory_there(t$info, asked$memory, what)
  ledger <- if (is.null(asked$cores) && !length(asked$units)) no_resources else
    resources_of(t, names(asked$units))
  check_kinds_there(ledger, names(asked$units), what)
  rows <- c("memory", "cores", ledger$kinds)
  asked_of <- function(name) rep_len(if (is.null(parts[[name]])) 0 else parts[[name]], count)
  all <- vapply(rows, asked_of, double(count))
  all <- matrix(all, nrow = count, dimnames = list(NULL, rows))
  first <- !duplicated(all)
  table <- all[first, , drop = FALSE]
  check_ever(ledger, table, what)
  of <- NULL
  if (nrow(table) > 1L) {
    key <- function(m) do.call(paste, unname(as.data.frame(m)))
    of <- match(key(all), key(table)) - 1L
  }
  # which tasks a session will submit next is not known: one does not get the cores that are free
  list(t(table), of, is.null(n))
}

check_memory_there <- function(info, memory, what) {
  if (is.null(memory) || !all(vapply(unique(info$hosts), is_this_machine, NA))) return(invisible())
  most <- .Call(ffi_memory_limit)
  budget <- memory_budget(getOption("clutch.memory"))
  if (budget > 0) most <- min(most, budget)
  if (max(memory) <= most) return(invisible())
  text <- sprintf("%s asks for %s, and there are %s", part_of_needs(what, "memory"),
                  mb(max(memory)), mb(most))
  throw("resources", text, resource = "memory", asked = max(memory), there = most)
}

check_kinds_there <- function(ledger, kinds, what) {
  unknown <- setdiff(kinds, ledger$kinds)
  if (!length(unknown)) return(invisible())
  there <- c("memory", "cores", ledger$kinds)
  text <- sprintf("%s asks for '%s', and this cluster has none: there are %s", what, unknown[[1L]],
                  paste(there, collapse = ", "))
  hint <- sprintf("; see argument `resources` of make_cluster(): resources = list(%s = 2)",
                  unknown[[1L]])
  throw("resources", paste0(text, hint), resource = unknown[[1L]], asked = NA_real_, there = 0)
}

# One host has to have all that a task asks for.
check_ever <- function(ledger, table, what) {
  for (k in seq_len(nrow(table))) {
    need <- table[k, -(1:2)] / WHOLE
    names(need) <- ledger$kinds
    fits <- function(host) {
      table[k, 2L] <= ledger$cores[[host]] && all(need <= lengths(ledger$units[[host]]))
    }
    if (!length(ledger$cores) || any(vapply(seq_along(ledger$cores), fits, NA))) next
    most <- c(cores = max(ledger$cores), most_units(ledger))
    asked <- c(cores = table[[k, 2L]], need)
    which <- names(asked)[asked > most[names(asked)]]
    if (!length(which)) {
      text <- sprintf("%s: no host has all that a task asks for: %s", what, text_of_need(asked))
      throw("resources", text, resource = names(asked)[asked > 0], asked = asked, there = most)
    }
    name <- which[[1L]]
    text <- sprintf("%s asks for %g, and %s %g", part_of_needs(what, name), asked[[name]],
                    if (length(ledger$cores) > 1L) "no host has more than" else "there are",
                    most[[name]])
    throw("resources", text, resource = name, asked = asked[[name]], there = most[[name]])
  }
}

# Tasks on all of these nodes are to be at work at the same time, and each asks for this: a host has
# to have it for all of its nodes. An error where it has not. `ranks`: of the nodes.
check_at_once <- function(t, asked, ranks, what = asked$what) {
  if (is.null(asked)) return(invisible())
  needs_of_job(t, asked, NULL, what)
  has_ledger <- !is.null(asked$cores) || length(asked$units)
  ledger <- if (has_ledger) resources_of(t, names(asked$units))
  hosts <- if (has_ledger) ledger$host_of[ranks] + 1L else t$info$hosts[ranks]
  for (host in unique(hosts)) {
    n <- sum(hosts == host)
    if (!is.null(asked$cores))
      tell_too_many("cores", n, n * asked$cores, ledger$cores[[host]], what)
    for (kind in names(asked$units)) {
      parts <- asked$units[[kind]]
      if (parts == 0) next
      units <- if (parts >= WHOLE) n * parts / WHOLE else ceiling(n / floor(WHOLE / parts))
      tell_too_many(kind, n, units, length(ledger$units[[host]][[kind]]), what)
    }
  }
  # of other machines nobody here knows what memory they have
  n <- sum(vapply(t$info$hosts[ranks], is_this_machine, NA))
  if (!is.null(asked$memory) && n > 0L) check_memory_there(t$info, n * asked$memory, what)
}

tell_too_many <- function(name, n, asked, there, what) {
  if (asked <= there) return(invisible())
  text <- paste("%s: %d parts are at work on a host at the same time, and ask for %g together:",
                "there are %g")
  throw("resources", sprintf(text, part_of_needs(what, name), n, asked, there), resource = name,
        asked = asked, there = there)
}

most_units <- function(ledger) {
  count <- function(kind) max(vapply(ledger$units, function(u) length(u[[kind]]), 1L))
  stats::setNames(vapply(ledger$kinds, count, 1), ledger$kinds)
}

text_of_need <- function(asked) {
  asked <- asked[asked > 0]
  paste(sprintf("%s = %g", names(asked), asked), collapse = ", ")
}

# ---- what the hosts of a cluster have ----

no_resources <- list(kinds = character(), cores = integer(), units = list())

# list(kinds, cores, units): kinds of units; cores, by host; by host a list of the names of its
# units, by kind. It is found out when it is first asked for, and the scheduler is told. `kinds`:
# those that a task asks for: GPUs are looked for only then. `found` is what each host has said, and
# NULL for one that could not, which is asked again the next time. One that has not come is asked
# when it has, by ask_new_host(). Both have a core a node until then. `wait`: nodes at work are
# asked, too.
resources_of <- function(t, kinds, wait = TRUE) {
  info <- t$info
  known <- info$resources
  if (is_known(known, kinds)) return(known)
  said <- info$plan$resources
  wants_gpu <- ("gpu" %in% kinds || isTRUE(known$has_gpu)) && !"gpu" %in% names(said)
  of <- info$host_of
  if (is.null(of)) of <- match(info$hosts, unique(info$hosts))
  hosts <- sort(unique(of))
  found <- lapply(seq_along(hosts), function(k) {
    is_away <- !is.null(t$resize) && t$resize$at[[hosts[[k]]]] != "there"
    if (is_away || (!wants_gpu && !is.null(said[["cores"]]))) return(list())
    if (!is.null(known$found[[k]]) && (known$has_gpu || !wants_gpu)) return(known$found[[k]])
    host_resources(info, which(of == hosts[[k]]), wants_gpu, wait)
  })
  cores <- vapply(seq_along(hosts), function(k) {
    as.integer(c(said[["cores"]], found[[k]]$cores, sum(of == hosts[[k]]))[[1L]])
  }, 1L)
  units <- lapply(found, function(f) c(said[setdiff(names(said), "cores")], f$units))
  all <- unique(unlist(lapply(units, names)))
  if (is.null(all)) all <- character()
  units <- lapply(units, function(u) {
    stats::setNames(lapply(all, function(kind) as.character(u[[kind]])), all)
  })
  known <- list(kinds = all, cores = cores, units = units, has_gpu = wants_gpu, found = found,
                host_of = match(of, hosts) - 1L)
  .Call(ffi_tasks_resources, t$ptr, known$kinds, known$cores, units_text(known), known$host_of)
  set_cluster(info, resources = known)
  known
}

is_known <- function(known, kinds) {
  if (is.null(known) || any(vapply(known$found, is.null, NA))) return(FALSE)
  !"gpu" %in% kinds || known$has_gpu || "gpu" %in% known$kinds
}

# Another host has come behind this number.
ask_new_host <- function(t, k) {
  known <- t$info$resources
  if (is.null(known)) return(invisible())
  known$found[match(k, sort(unique(t$info$host_of)))] <- list(NULL)
  set_cluster(t$info, resources = known)
  resources_of(t, known$kinds, wait = FALSE)
}

# Names of units with commas between: kinds by hosts.
units_text <- function(known) {
  text <- lapply(known$units, function(u) vapply(u, paste, "", collapse = ","))
  as.character(unlist(text))
}

# list(cores, units): of the host that has the nodes of these numbers. Another host is asked by a
# call of one of its nodes, an idle one if there is one: others answer when their task has ended.
# NULL: none of them can say.
host_resources <- function(info, ranks, wants_gpu, wait) {
  if (is_this_machine(info$hosts[[ranks[[1L]]]])) return(resources_here(wants_gpu))
  state <- vapply(handles_now(info)[ranks], function(h) {
    if (is.null(h)) "absent" else .Call(ffi_node_info, h)$state
  }, "")
  may_ask <- c("idle", if (wait) c("busy", "starting", "cancelling"))
  turn <- order(match(state, may_ask), na.last = NA)
  for (i in ranks[turn]) {
    found <- tryCatch(resources_there(info, i, wants_gpu), clutch_error = function(e) NULL)
    if (!is.null(found)) return(found)
  }
  NULL
}

resources_there <- function(info, rank, wants_gpu) {
  node <- structure(list(node_of_plan(info, rank)), class = c("clutch_cluster", "cluster"))
  parallel::clusterCall(node, resources_here, wants_gpu)[[1L]]
}

# In a node the share of its cluster does not count.
resources_here <- function(wants_gpu) {
  limits <- core_limits()
  limits <- limits[names(limits) != "CLUTCH_NODE_CORES"]
  list(cores = if (length(limits)) min(limits) else 1L,
       units = if (wants_gpu) list(gpu = find_gpus()) else list())
}
