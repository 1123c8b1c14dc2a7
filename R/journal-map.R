# A map with a journal: what of it was done before, and what is recorded.
#
# An element is known by its key: a hash of what it would compute (src/r/journal/keys.h). The key of
# the code comes first: the function with what its code mentions, constants, globals, packages that
# are attached for it. The key of an element is the hash of the element that begins with it. An
# element that has used random numbers, which the node tells, has its stream in its key, too.
#
# A JOB record says what the code was, part by part, so that users can be told what has changed. And
# it has the first stream of the map's random numbers.

# How the objects of JOB records look, and what keys are made of. Another number makes other keys.
JOURNAL_FORMAT <- 1L

# Says how often a map was completed in this session, by journal and key.
the$journal_runs <- new.env(parent = emptyenv())
# Has the keys of maps whose function has no name, in their order, by journal and label; and, by
# journal, those of all maps that this session has begun.
the$journal_maps <- new.env(parent = emptyenv())

# `o`: of task_options(). An environment: what run_map() needs of a journal; NULL: there is none.
journal_begin <- function(o, f, more, needs, n) {
  if (is.null(o$journal)) return(NULL)
  record <- new_journal_record(o, f, more, needs, n)
  ok <- FALSE
  on.exit(if (!ok) journal_end(record))
  jobs <- journal_jobs(record$ptr)
  mine <- Filter(function(job) identical(job$key, record$key), jobs)
  record$seed <- first_stream(o, mine, record)
  record$label <- journal_label(o)
  record$place <- place_in_session(record)
  if (!length(mine)) check_changed(record, jobs, o)
  known_in_session(record, record$path)
  warn_versions(record, mine)
  record$number <- job_record(record, mine, record$key, record$parts, record$seed, o)
  ok <- TRUE
  record
}

# A map that journal_begin() has begun in another process goes on here. `begun`: that record, as a
# list. Its values are for the journal only.
journal_go_on <- function(begun, o) {
  record <- list2env(begun, parent = emptyenv())
  record$only <- TRUE
  record$ptr <- open_journal(record$path, o$journal_sync)
  record
}

# Does for a single task what journal_begin() does for a map. Many tasks have the same code, and
# other values in it: these have one JOB record together, which says how they are called. Where
# random numbers come from the session, the stream of a task follows from that record and from its
# key, and from how many of the same key were before it in this session.
journal_begin_task <- function(o, fun, args, needs, label) {
  if (is.null(o$journal)) return(NULL)
  record <- new_journal_record(o, fun, args, needs, 1)
  ok <- FALSE
  on.exit(if (!ok) journal_end(record))
  shared <- key_of(list(JOURNAL_FORMAT, "task", label))
  mine <- Filter(function(job) identical(job$key, shared), journal_jobs(record$ptr))
  first <- if (length(mine)) mine[[1L]]$seed else o$seed
  record$seed <- o$seed
  if (isTRUE(o$seed_is_drawn) && !is.null(first)) {
    record$seed <- stream_of_key(first, key_of(list(record$key, record$run)))
  }
  count_run(record)
  warn_versions(record, mine)
  record$number <- job_record(record, mine, shared, list(), first, o, label)
  ok <- TRUE
  record
}

# Opens the journal and finds the key of the code, for a map or a task.
new_journal_record <- function(o, f, more, needs, n) {
  path <- journal_path(o$journal)
  functions <- functions_of(f, more, needs)
  record <- list2env(list(
    path = path, ptr = open_journal(path, o$journal_sync), n = n,
    first = 0, # elements so far
    errors = o$journal_errors == "keep",
    later = !is.null(o$reduce), # values that the journal has are read when they are combined
    draws = takes_state(functions),
    packages = packages_of(functions, needs, o)
  ), parent = emptyenv())
  ok <- FALSE
  on.exit(if (!ok) journal_end(record))
  record$has_pointer <- isTRUE(needs$has_pointer)
  record$parts <- code_parts(f, more, needs, o, record$packages)
  record$key <- key_of_parts(record$parts)
  record$run <- runs_of(record)
  ok <- TRUE
  record
}

# One of the 2^48 streams behind the first one.
stream_of_key <- function(first, key) {
  steps <- sum(as.integer(key[1:6]) * 256^(0:5))
  .Call(ffi_stream_jump, first, steps)
}

# The path that all sessions have for it: a link leads to the same file, also to one that is not
# there yet. `what`: what errors call it.
journal_path <- function(path, what = "`.journal`") {
  path <- if (file.exists(path)) normalizePath(path) else end_of_links(path)
  folder <- normalizePath(dirname(path), mustWork = FALSE)
  if (!dir.exists(folder)) throw("argument", sprintf("%s: there is no folder '%s'", what, folder))
  if (dir.exists(path)) throw("argument", sprintf("%s: '%s' is a folder", what, path))
  file.path(folder, basename(path))
}

end_of_links <- function(path) {
  for (k in 1:40) { # as many as the system follows
    to <- Sys.readlink(path)
    if (to %in% c("", NA)) break
    path <- if (startsWith(to, "/")) to else file.path(dirname(path), to)
  }
  path
}

# A handle. One that this session has open already is shared.
open_journal <- function(path, sync) {
  ptr <- .Call(ffi_journal_shared, path)
  if (!is.null(ptr)) {
    if (file.exists(path)) return(ptr)
    .Call(ffi_handle_end, ptr)
    throw("journal", sprintf("journal '%s' was removed while this session writes to it", path))
  }
  me <- this_owner()
  lock <- lock_journal(path, me, has_none = TRUE)
  ok <- FALSE
  on.exit(if (!ok) unlink(lock, expand = FALSE))
  ptr <- .Call(ffi_journal_open, path, sync, c(lock, owner_line(me)), NULL)
  on.exit(if (!ok) .Call(ffi_handle_end, ptr)) # which removes the lock, too
  tell_damage(path, .Call(ffi_journal_counts, ptr)) # an error where warnings are
  ok <- TRUE
  ptr
}

tell_damage <- function(path, counts) {
  if (counts$torn > 0) {
    say(sprintf("journal '%s': its last %.0f bytes were not whole, and are gone", path,
                counts$torn))
  }
  if (counts$damaged > 0) {
    text <- "journal '%s' is damaged at %.0f %s: what was there is computed again"
    warning(warningCondition(sprintf(text, path, counts$damaged,
                                     if (counts$damaged == 1) "place" else "places"),
                             class = "clutch_journal_damaged"))
  }
}

# It is flushed before, so that what cannot be written is an error of the map.
journal_end <- function(record) {
  if (!is.null(record$ptr)) .Call(ffi_handle_end, record$ptr)
  record$ptr <- NULL
}

# An error where the journal takes nothing more.
check_journal <- function(record, flush = FALSE) {
  why <- .Call(ffi_journal_error, record$ptr, flush)
  if (is.null(why)) return(invisible())
  throw("journal", sprintf("journal '%s': %s; what is in it is whole", record$path, why),
        path = record$path)
}

# ---- keys ----

# A key for each part of the code, by its name as users know it. `used`: packages, of packages_of().
code_parts <- function(f, more, needs, o, used) {
  # a helper that looks into its callers finds what is beside the function
  is_asking <- asks_callers(functions_of(NULL, more, needs))
  made <- if (isTRUE(needs$has_pointer)) keys_of_made(list(f, more, needs$globals))
  key <- function(x) .Call(ffi_key, x, NULL, is_asking, made)
  names_of <- function(x, text) {
    if (!length(x)) return(character())
    names <- names_or_empty(x)
    sprintf(text, ifelse(nzchar(names), names, seq_along(x)))
  }
  more <- lapply(more, without_display_options)
  globals <- needs$globals
  if (length(globals)) globals <- globals[order(names(globals), method = "radix")]
  developed <- Filter(is_developed, used)
  packages <- unique(as.character(o$packages)) # the last one masks the others
  parts <- c(
    list(`.f` = key(f)),
    stats::setNames(lapply(unname(more), key), names_of(more, "argument `%s`")),
    stats::setNames(lapply(unname(globals), key), names_of(globals, "variable `%s`")),
    if (length(packages)) list(`the packages that are attached` = key(packages)),
    stats::setNames(lapply(developed, key_of_developed), sprintf("package %s", developed)),
    if (isTRUE(getOption("warn") >= 2)) list(`option warn` = key(2))
  )
  lapply(parts, key_text)
}

# mclapply() sends all plain options of the session with each map. Those that change values count.
without_display_options <- function(x) {
  is_options <- is.list(x) && all(c("digits", "OutDec", "scipen") %in% names(x))
  if (is_options) x[intersect(sort(names(x), method = "radix"), OPTIONS_IN_KEYS)] else x
}
OPTIONS_IN_KEYS <- c("OutDec", "contrasts", "digits", "digits.secs", "encoding",
                     "max.deparse.length", "na.action", "nwarnings", "scipen",
                     "stringsAsFactors", "ts.S.compat", "ts.eps", "useFancyQuotes")

# The functions that travel, but for those within other objects. Maps wrap that of the user.
functions_of <- function(f, more, needs) {
  inner <- if (is.function(f) && !is.primitive(f)) get0(".f", environment(f), inherits = FALSE)
  all <- Filter(is.function, c(list(f, inner), more, needs$globals))
  Filter(Negate(is.primitive), all)
}

uses_any <- function(functions, names) {
  any(vapply(functions, function(f) any(names %in% all.names(body(f))), NA))
}

# Some of these find variables of whoever calls them.
asks_callers <- function(functions) {
  uses_any(functions, c("parent.frame", "sys.frame", "sys.frames", "sys.function", "eval.parent",
                        "dynGet", "caller_env", "parent.env"))
}

# Some of these use the state of the random numbers, and may leave it as it was.
takes_state <- function(functions) {
  uses_any(functions, c("with_preserve_seed", "local_preserve_seed", "with_seed", "local_seed",
                        ".Random.seed", "nextRNGStream", "nextRNGSubStream", "mclapply", "pvec",
                        "clusterSetRNGStream", "mcmapply", "mcMap", "mcparallel", "future_lapply",
                        "future_map"))
}

key_of <- function(x) .Call(ffi_key, x, NULL, FALSE, NULL)

element_keys <- function(elements, start, has_pointer) {
  .Call(ffi_element_keys, elements, start, if (isTRUE(has_pointer)) keys_of_made(elements))
}

# Objects that are made again on the nodes (R/code-pack.R) count with their data: an environment
# that has the keys of these, by the address of the object. NULL: there is none, or one cannot be
# packed, which is an error when it travels.
keys_of_made <- function(x) {
  all <- tryCatch(made_by_address(x, registered_recipes()), clutch_pointer = function(e) NULL)
  if (!length(all$made)) return(NULL)
  keys <- list2env(lapply(all$made, key_of), parent = emptyenv())
  attr(keys, "held") <- all$held
  keys
}

names_or_empty <- function(x) if (is.null(names(x))) character(length(x)) else names(x)

key_text <- function(key) paste(format(as.hexmode(as.integer(key)), width = 2L), collapse = "")

# Packages whose code the map uses, as far as that is known.
packages_of <- function(functions, needs, o) {
  homes <- lapply(functions, function(g) topenv(environment(g)))
  homes <- vapply(Filter(isNamespace, homes), getNamespaceName, "")
  setdiff(unique(c(needs$attach, needs$load, needs$named, o$packages, homes)), c("base", "clutch"))
}

# The R code of such a package, and its compiled code.
key_of_developed <- function(name) {
  library <- getLoadedDLLs()[[name]]
  path <- if (!is.null(library)) library[["path"]]
  compiled <- if (!is.null(path) && file.exists(path)) unname(tools::md5sum(path))
  key_of(list(asNamespace(name), compiled))
}

# A package that pkgload::load_all() has made: its code is a part of the key.
is_developed <- function(name) {
  isNamespaceLoaded(name) && exists(".__DEVTOOLS__", asNamespace(name), inherits = FALSE)
}

key_of_parts <- function(parts) key_of(list(JOURNAL_FORMAT, parts))

# ---- what was recorded before ----

# All JOB records: their objects, with `key` and `number`. They are read once a journal. A copy of
# the file was made at the same time, and may have others: the last that is known is read again.
journal_jobs <- function(ptr) {
  made <- format(.Call(ffi_journal_counts, ptr)$made, digits = 17)
  n <- .Call(ffi_journal_jobs, ptr)
  read_job <- function(k) {
    job <- .Call(ffi_journal_job, ptr, k - 1)
    c(job[[2L]], list(key = job[[1L]], number = job[[3L]]))
  }
  known <- the$journal_jobs[[made]]
  last <- length(known)
  if (last > n || (last > 0L && !identical(read_job(last), known[[last]]))) known <- NULL
  new <- lapply(seq_len(n)[seq_len(n) > length(known)], read_job)
  the$journal_jobs <- stats::setNames(list(c(known, new)), made)
  the$journal_jobs[[made]]
}

# The stream of the first element. Where `.seed` is TRUE and the session was not seeded, nobody can
# draw it again: so the one that was recorded is used. Whoever calls the same map twice in a session
# wants two different ones, and gets them again in the same order. A session that was seeded has
# what its seed says.
first_stream <- function(o, mine, record) {
  if (is.null(o$seed)) return(NULL)
  seeds <- unique(Filter(Negate(is.null), lapply(mine, function(job) job$seed)))
  if (list(o$seed) %in% seeds) return(o$seed)
  if (!isTRUE(o$seed_is_drawn)) {
    record$other_streams <- length(seeds) > 0L && record$run == 0L
    return(o$seed)
  }
  k <- 1L + record$run
  if (k <= length(seeds)) seeds[[k]] else o$seed
}

run_name <- function(record) paste(record$path, key_text(record$key))

runs_of <- function(record) {
  runs <- the$journal_runs[[run_name(record)]]
  if (is.null(runs)) 0L else runs
}

# The map has come to its end.
count_run <- function(record) {
  assign(run_name(record), runs_of(record) + 1L, envir = the$journal_runs)
}

# The code is not that of any map in the journal. Where one of these was the same map, with other
# code, it is said what has changed.
check_changed <- function(record, jobs, o) {
  before <- changed_job(record, jobs)
  if (is.null(before)) return(invisible())
  parts <- changed_parts(before$parts, record$parts)
  what <- paste(utils::head(parts, 5L), collapse = ", ")
  if (length(parts) > 5L) what <- sprintf("%s and %d more", what, length(parts) - 5L)
  verb <- if (length(parts) == 1L) "has" else "have"
  text <- sprintf("%s %s changed since journal '%s' was written", what, verb, record$path)
  if (o$journal_if_changed == "error") {
    throw("journal_changed", text, parts = parts, path = record$path)
  }
  of <- if (is.na(record$n)) "no element is" else sprintf("0 of %.0f elements are", record$n)
  say(sprintf("%s: %s kept", text, of))
}

# The last map that was called the same; or, where its function has no name, that came at the same
# place in its session; or the only one there is, unless this session has begun it: a script may
# have several maps in one file. NULL: none.
changed_job <- function(record, jobs) {
  if (!length(jobs)) return(NULL)
  is_same <- function(job) {
    is_there <- is.na(record$place) || identical(job$place, record$place)
    identical(job$label, record$label) && is_there
  }
  same <- Filter(is_same, jobs)
  if (length(same)) return(same[[length(same)]])
  keys <- unique(vapply(jobs, function(job) key_text(job$key), ""))
  if (length(keys) == 1L && !keys %in% the$journal_maps[[record$path]]) jobs[[length(jobs)]]
}

changed_parts <- function(before, now) {
  all <- union(names(before), names(now))
  all <- Filter(function(name) !identical(before[[name]], now[[name]]), all)
  sub("^[.]f$", "`.f`", all)
}

# At which place a map, whose function has no name, comes among those of this journal in this
# session. NA: the function has one.
place_in_session <- function(record) {
  if (grepl(": ", record$label, fixed = TRUE)) return(NA_integer_)
  match(key_text(record$key), known_in_session(record, paste(record$path, record$label)))
}

# Adds the key of this map to those that are known by this name, and returns all of them.
known_in_session <- function(record, name) {
  known <- unique(c(the$journal_maps[[name]], key_text(record$key)))
  assign(name, known, envir = the$journal_maps)
  known
}

# Returns what the map is called, as text: see task-job-label.R.
journal_label <- function(o) {
  if (is.null(o$called)) return("")
  code <- o$called[[2L]]
  if (is.symbol(code)) code <- as.character(code)
  paste(c(o$called[[1L]], if (is.character(code)) code), collapse = ": ")
}

# ---- what is recorded now ----

package_versions <- function(record) {
  names <- sort(record$packages, method = "radix")
  names <- Filter(function(name) nzchar(system.file(package = name)), names)
  vapply(names, function(name) as.character(utils::packageVersion(name)), "")
}

warn_versions <- function(record, mine) {
  if (!length(mine)) return(invisible())
  now <- package_versions(record)
  for (job in mine) {
    before <- job$packages[intersect(names(job$packages), names(now))]
    other <- names(before)[before != now[names(before)]]
    if (!length(other)) next
    texts <- sprintf("%s %s (now %s)", other, before[other], now[other])
    text <- "journal '%s' has results that were made with %s; they are kept"
    warning(warningCondition(sprintf(text, record$path, paste(texts, collapse = ", ")),
                             class = "clutch_journal_versions", packages = other))
    return(invisible())
  }
}

# The number of the JOB record of this map: one that says the same, or a new one.
job_record <- function(record, mine, key, parts, seed, o, label = journal_label(o)) {
  versions <- package_versions(record)
  for (job in mine) {
    is_same <- identical(job$seed, seed) && identical(job$packages, versions)
    if (is_same) return(job$number)
  }
  object <- list(format = JOURNAL_FORMAT, label = label, place = record$place, parts = parts,
                 seed = seed, packages = versions, n = record$n, when = Sys.time(),
                 host = Sys.info()[["nodename"]], pid = Sys.getpid(),
                 r = as.character(getRversion()), retries = o$retries)
  .Call(ffi_journal_add_job, record$ptr, key, object)
}

# See ffi_job_record().
record_numbers <- function(record) {
  as.double(c(record$number, record$run, record$first, record$draws, record$errors,
              isTRUE(record$only), isTRUE(record$later)))
}

# A job that has not begun takes what the journal has of its elements, and records the others.
# `elements`: NULL: it is one task without an element. `seed`: the stream of the first of them.
# `has_pointer`: some may have pointers.
journal_attach <- function(record, job, elements, seed = record$seed,
                           has_pointer = record$has_pointer) {
  if (is.null(elements)) elements <- list(NULL)
  keys <- record$keys
  if (is.null(keys)) keys <- element_keys(elements, record$key, has_pointer)
  kept <- .Call(ffi_job_record, job, record$ptr, keys, record_numbers(record), seed)
  record$first <- record$first + length(elements)
  record$kept <- sum(record$kept, kept)
}

tell_kept <- function(record) {
  tell_other_streams(record)
  if (record$kept == 0) return(invisible())
  of <- if (is.na(record$n)) "" else sprintf(" of %.0f", record$n)
  say(sprintf("journal '%s': %.0f%s elements were done before", record$path, record$kept, of))
}

# The session was seeded in another way, or uses its generator without being seeded: what has used
# random numbers is computed again in each session.
tell_other_streams <- function(record) {
  if (!isTRUE(record$other_streams) || isTRUE(record$kept >= record$n)) return(invisible())
  if (.Call(ffi_journal_counts, record$ptr)$drew == 0) return(invisible())
  say(sprintf(paste("journal '%s': random numbers begin elsewhere than before. Elements that use",
                    "them are computed again. See set.seed()"), record$path))
}
