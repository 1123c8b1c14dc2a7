# A detached map: cluster_map(..., .journal = path, .detach = TRUE) returns at once. The map is done
# by its runner (R/runner-main.R), an R process that goes on when the session ends. It makes a
# cluster as that for which the map was called.
#
# The session finds out what the code needs, and makes the keys of the elements. Values come by the
# journal: whoever collects them reads it.

# The value of option `detach`: NULL, or list(name, time, memory, on, by).
check_detach <- function(x, what) {
  if (is.null(x) || isFALSE(x)) return(NULL)
  if (isTRUE(x)) x <- list()
  if (is_filled(x)) x <- list(name = x)
  known <- c("name", "time", "memory", "on", "by")
  if (!is.list(x) || (length(x) && !all(names_or_empty(x) %in% known))) {
    text <- "TRUE, FALSE, a name, or a list with some of %s"
    has_to_be(what, sprintf(text, paste0("`", known, "`", collapse = ", ")))
  }
  at <- function(part) sprintf("element `%s` of %s", part, what)
  by <- check_strings(x$by, at("by"))
  list(
    name = check_one(x$name, at("name"), is_filled, "a name"),
    time = if (is.null(x$time)) 7 * 86400 else check_seconds(x$time, at("time")),
    memory = if (is.null(x$memory) || identical(x$memory, Inf)) Inf else
      check_size(x$memory, at("memory")),
    on = check_on(x$on, at("on")),
    by = if (length(by)) by
  )
}

# The host on which the map is submitted, as hosts() describes it. NULL: here.
check_on <- function(x, what) {
  if (is.null(x)) return(NULL)
  if (is_filled(x)) x <- hosts(x)
  if (inherits(x, "clutch_hosts") && identical(x$kind, "ssh") && length(x$hosts) == 1L) return(x)
  has_to_be(what, "the name of a host, or hosts() with one host")
}

# `cl`: NULL: the session's own. The value is a handle of class "clutch_job".
detach_map <- function(cl, elements, f, more, o, env) {
  check_detachable(o)
  if (inherits(cl, "clutch_cluster") && length(cl)) check_knows_tasks(info_of(cl))
  o$needs <- find_needs(list(f, elements, more), o$globals, env)
  work <- list(cluster = cluster_description(cl), elements = elements, f = f, more = more, o = o,
               options = options_for_runner())
  if (!is.null(o$detach$on)) {
    check_installed(f, more, o)
    return(submit_there(work))
  }
  # what this cluster can never meet, its runner's cannot either
  if (inherits(cl, "clutch_cluster") && length(elements)) {
    needs_of_job(tasks_of(cl), o$asked, length(elements))
  }
  new_job(submit_map(work))
}

# The keys are made on the other host, where the code of a package from its source is not.
check_installed <- function(f, more, o) {
  used <- packages_of(functions_of(f, more, o$needs), o$needs, o)
  developed <- if (!is.null(the$source)) intersect(used, source_packages())
  if (!length(developed)) return(invisible())
  text <- paste("package '%s' comes from load_all(): a map that is submitted on another host finds",
                "installed packages only")
  throw("unsupported", sprintf(text, developed[[1L]]))
}

submit_there <- function(work) {
  on <- work$o$detach$on
  work$o$detach["on"] <- list(NULL)
  answer <- ask_there(on, "submit", with_packed(work, packed_parts(work)))
  job <- answer$job
  job$there <- list(on = on, id = answer$id)
  job$record <- job$record[c("path", "kept")]
  job$name <- name_of_job(list(name = job$name), job$record$path)
  new_job(new_entry(job))
}

# Called where the map will run. The value is its entry.
submit_map <- function(work) {
  o <- work$o
  detach <- o$detach
  o["detach"] <- list(NULL)
  o$journal <- journal_path(o$journal)
  same <- same_map(work, o)
  if (!is.null(same)) return(same)
  packed <- packed_parts(work)
  n <- length(work$elements)
  record <- journal_begin(o, work$f, work$more, o$needs, n)
  on.exit(journal_end(record))
  record$keys <- element_keys(work$elements, record$key, record$has_pointer)
  tell_kept_before(record)
  check_journal(record, flush = TRUE)
  journal_end(record)
  count_run(record)
  o["seed"] <- list(record$seed)
  work$o <- o
  record <- as.list(record)
  job <- list(name = name_of_job(detach, record$path), label = record$label, n = n,
              names = names(work$elements), record = record, relay = o$relay,
              on_error = o$on_error, limits = detach[c("time", "memory")], by = detach$by,
              cluster = work$cluster$text,
              place = list(folder = getwd(), libraries = .libPaths(), umask = Sys.umask()))
  entry <- new_entry(job)
  ok <- FALSE
  on.exit(if (!ok) remove_entry(entry), add = TRUE)
  source <- source_files()
  if (length(source)) write_object(source, entry_file(entry, "source"))
  write_object(with_packed(work, packed), entry_file(entry, "work"))
  start_runner(entry, detach$by)
  ok <- TRUE
  entry
}

# ---- objects with pointers ----

# Some of the work has to be written in another way, so that another process can read it, or an
# error: it cannot travel. The value is list(recipes, packed): what nodes need for results; the
# parts of the work that have pointers, NULL: it has none. NULL: nothing has to.
packed_parts <- function(work) {
  needs <- work$o$needs
  if (!isTRUE(needs$has_pointer)) return(NULL)
  checked <- check_pointers(work$f, work$elements, work$more, needs$globals, work$o$pointers)
  out <- list(recipes = checked$registered)
  if (!checked$has_to_pack) return(out)
  parts <- list(elements = work$elements, f = work$f, more = work$more, needs = needs)
  packed <- pack(parts, checked$registered, checked$visited$paths)
  if (inherits(packed, "clutch_packed")) out$packed <- packed
  out
}

with_packed <- function(work, packed) {
  if (!is.null(packed$packed)) {
    work[c("elements", "f", "more")] <- NULL
    work$o["needs"] <- list(NULL)
  }
  c(work, packed)
}

# The work as it was. The recipes are registered in this process, too.
unpacked_work <- function(work) {
  for (name in names(work$recipes)) the$travel[[name]] <- work$recipes[[name]]
  parts <- unpack(work$packed)
  if (!is.null(parts)) work$o$needs <- parts$needs
  c(work[setdiff(names(work), c("packed", "recipes"))], parts[c("elements", "f", "more")])
}

check_detachable <- function(o) {
  need_fork("`.detach`")
  if (is.null(o$journal)) {
    throw("argument", "`.detach` needs `.journal`: the results of a detached map are kept there")
  }
  if (o$detach$memory < Inf && !system_can("memory")) {
    throw("unsupported", "`.detach`: on this system nobody knows how much memory a process has")
  }
  if (o$relay == "handler") {
    throw("argument", "`.relay` cannot be a function where `.detach` is: nobody may be there")
  }
}

options_for_runner <- function() {
  all <- options()
  all <- all[startsWith(names(all), "clutch.") & !names(all) %in% c("clutch.joins", "clutch.log")]
  log <- getOption("clutch.log")
  if (is.character(log)) all$clutch.log <- normalizePath(log, mustWork = FALSE)
  c(all, options("warn"))
}

tell_kept_before <- function(record) {
  has <- .Call(ffi_journal_values, record$ptr, record$keys, record_numbers(record), record$seed,
               FALSE)
  record$kept <- sum(has$states != 0)
  tell_kept(record)
}

# The cluster of the runner: what make_cluster() was given for this one, which of its nodes, and
# what they were told by cluster_setup() and cluster_export().
cluster_description <- function(cl) {
  if (is.null(cl)) {
    setup <- if (!is.null(the$own$cl)) setup_to_repeat(info_of(the$own$cl))
    return(list(setup = setup, text = "cl = NULL"))
  }
  if (!inherits(cl, "clutch_cluster")) {
    return(list(made = made_by_default(cl), text = text_of_spec(cl)))
  }
  info <- info_of(cl)
  made <- info$plan$made_by
  if (is.null(made)) {
    throw("argument", "`.detach` wants a cluster that make_cluster() has made with its arguments")
  }
  ranks <- vapply(cl, function(nd) nd$rank, 1L)
  n <- nodes_at_start(info)
  list(made = made, preload = preload_of(info), setup = setup_to_repeat(info),
       ranks = if (!identical(ranks, seq_len(n))) ranks,
       text = sprintf("%d %s", length(ranks), if (length(ranks) == 1L) "node" else "nodes"))
}

text_of_spec <- function(spec) {
  if (is.numeric(spec) && length(spec) > 1L) {
    return(sprintf("%.0f to %.0f nodes", spec[[1L]], spec[[length(spec)]]))
  }
  if (is.numeric(spec)) return(sprintf("%.0f %s", spec, if (spec == 1) "node" else "nodes"))
  sprintf("%s(), %d nodes", spec$call, sum(spec$each))
}

# Without what make_cluster() does with `preload`, and without packages from their source.
setup_to_repeat <- function(info) {
  Filter(function(s) {
    !isTRUE(s$profile) && !isTRUE(s$source) && !identical(s$fun, preload_here)
  }, setup_of(info))
}

# ---- names ----

# By default that of the journal. One that an open map has gets a number.
name_of_job <- function(detach, path) {
  name <- detach$name
  if (is.null(name)) name <- sub("[.](journal|rds|bin|jrn)$", "", basename(path))
  taken <- names_of_jobs(lapply(all_entries(), job_of_entry))
  wanted <- name
  k <- 1L
  while (wanted %in% taken) {
    k <- k + 1L
    wanted <- sprintf("%s-%d", name, k)
  }
  wanted
}

# ---- the same map, at work ----

# A detached map that writes to this journal. It is the same one: its entry; it is another one: an
# error. NULL: there is none.
same_map <- function(work, o) {
  for (entry in all_entries()) {
    job <- job_of_entry(entry)
    if (!identical(job$record$path, o$journal) || has_ended_as(state_of_entry(entry))) next
    if (is_same_map(job$record, work, o)) {
      say(sprintf("this map is at work already, as '%s'", job$name))
      return(entry)
    }
    owner <- owner_of_entry(entry)
    text <- paste("journal '%s' is written to by the detached map '%s':",
                  "see cluster_attach(\"%s\")")
    throw("journal_locked", sprintf(text, o$journal, job$name, job$name), host = owner$host,
          pid = suppressWarnings(as.integer(owner$pid)))
  }
  NULL
}

is_same_map <- function(record, work, o) {
  packages <- packages_of(functions_of(work$f, work$more, o$needs), o$needs, o)
  key <- key_of_parts(code_parts(work$f, work$more, o$needs, o, packages))
  if (!identical(key, record$key)) return(FALSE)
  has_seed <- !is.null(o$seed) && !isTRUE(o$seed_is_drawn)
  if (has_seed && !identical(o$seed, record$seed)) return(FALSE)
  identical(element_keys(work$elements, key, record$has_pointer), record$keys)
}
