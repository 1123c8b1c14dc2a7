# A record is kept of an element that has failed, so that it can be run again in the session
# (cluster_replay()), or be looked at (cluster_debug()).
#
# A job keeps what it works with, by reference: no data is held twice. That goes when the job has
# ended well. Where an element has failed, the error has an environment, `failure`, to which it is
# tied by a weak reference: it lives as long as the error does, and is not saved with it. The last
# map or task that has failed is remembered without its error, too, where it is not large.

# Bytes that the last failure may hold when nobody has its error.
MOST_HELD <- 100e6

# The job's: an environment with
#   fun, more, elements   the function, its constant arguments, all elements (NULL: a task without)
#   globals   variables of the workspace that it needs, a named list
#   packages, load   that are to be attached, or loaded
#   stream    of the first element: six integers; NULL: random numbers are the node's
#   warn      options(warn =)
#   copies    of nodes at which elements have failed, see copy_of()
#   first     number of the first element that has failed
#   texts     messages of the first errors, and of what has led to them, named by their elements
# NULL: it was not kept.
work_of <- function(job) {
  kept <- .Call(ffi_job_kept, job)
  if (is.null(kept) || is.environment(kept)) return(kept)
  if (is.function(kept)) kept <- list(kept, NULL) # of src/r/tasks/submit.c
  if (length(kept) == 2L) kept <- list(kept[[1L]], NULL, list(globals = kept[[2L]]), NULL, NULL)
  needs <- kept[[3L]]
  fields <- list(
    fun = kept[[1L]], more = as.list(kept[[2L]]), elements = kept[[4L]],
    globals = as.list(needs$globals), packages = c(needs$attach, kept[[5L]]), load = needs$load,
    stream = .Call(ffi_job_stream, job), warn = getOption("warn"), copies = NULL, first = NULL,
    texts = character()
  )
  work <- list2env(fields, parent = emptyenv())
  work$size <- .Call(ffi_job_state, job)$message_bytes + size_of_elements(work$elements)
  .Call(ffi_job_keep, job, work)
  work
}

# A long list is looked at in part: to count all of it takes longer than its failure.
size_of_elements <- function(x) {
  n <- length(x)
  if (n <= 1000L) return(as.double(utils::object.size(x)))
  as.double(utils::object.size(x[round(seq(1, n, length.out = 1000L))])) * n / 1000
}

# The error, by which cluster_replay() knows the element, and cluster_debug() the copy of its node.
with_work <- function(e, work, info, copy = NULL) {
  failure <- new.env(hash = FALSE, parent = emptyenv())
  failure$element <- e$element
  failure$work <- .Call(ffi_weak_new, failure, work)
  if (!is.null(copy)) {
    failure$copy <- .Call(ffi_weak_new, failure, copy)
    work$copies <- c(work$copies, list(copy))
    if (isTRUE(copy$is_last)) reg.finalizer(work, remover_of(dirname(copy$path)))
  }
  class(failure) <- "clutch_failure"
  e$failure <- failure
  if (is.null(work$first) || e$element < work$first) work$first <- e$element
  if (length(work$texts) < 100L) {
    texts <- vapply(chain_of(e), message_of, "")
    work$texts <- c(work$texts, stats::setNames(texts, rep(e$element, length(texts))))
  }
  # functions often know the cluster: when nothing else does, it is garbage all the same
  before <- if (!is.numeric(the$failed)) the$failed
  if (work$size <= MOST_HELD) {
    the$failed <- tie_value(before, info, work)
  } else {
    untie_value(before)
    the$failed <- work$size
  }
  e
}

# A copy that has outlived its node has memory of its own: it ends when nobody can ask for it.
remover_of <- function(place) {
  pid <- Sys.getpid()
  function(work) if (Sys.getpid() == pid) .Call(ffi_remove_folder, place)
}

# A frozen copy of the node (node-frozen.R), of which the node has told: a list with
#   path, key, pid   where it listens, what it wants to hear first, its process id
#   element, node, host, tasks    whose it is
#   text      the message of its error
#   is_last   TRUE: it has outlived its node, which was over its memory limit
# NULL: there is none. `f`: as in task_error().
copy_of <- function(t, f, value) {
  told <- told_copy(t, f, value)
  if (is.null(told) || identical(told, ELSEWHERE)) return(NULL)
  if (is_this_machine(f$host)) t$copies <- c(t$copies, dirname(told$path))
  if (identical(t$info, the_own_info())) .Call(ffi_tasks_idle, t$ptr, KEPT_FOR)
  late <- if (f$why == "died") OVER_MEMORY else TIME_IS_UP
  text <- if (is.list(value)) value$text else late
  c(told, list(element = f$element, node = f$node, host = f$host, tasks = t, text = text))
}

# Failure `k` of ffi_job_failures().
failure_at <- function(t, failures, k) {
  f <- lapply(failures, `[[`, k)
  if (f$node == 0L) f$node <- NA_integer_
  f$host <- if (is.na(f$node)) NA_character_ else t$info$hosts[[f$node]]
  f
}

TIME_IS_UP <- "time is up"
OVER_MEMORY <- "it took more memory than `.max_memory` allows"

# The node has said where the copy is: list(pid, key, path); ELSEWHERE: another node makes the one
# for this message.
told_copy <- function(t, f, value) {
  if (f$why == "died") return(last_copy_of(death_with(t, f$cause)))
  lines <- if (f$why == "timeout" && !is.na(f$stack)) strsplit(f$stack, "\n", fixed = TRUE)[[1L]]
  line <- lines[startsWith(as.character(lines), FROZEN_LINE)]
  if (!length(line)) return(if (is.list(value)) value$frozen)
  told <- substring(line[[1L]], nchar(FROZEN_LINE) + 1L)
  if (told == ELSEWHERE) told else read_copy(told)
}

# The copy that a node has made before it was ended for its memory. NULL: there is none. What a node
# has written may be anything.
last_copy_of <- function(death) {
  if (is.null(death$copy) || !grepl("^[0-9]+ [^ ]+ .", death$copy)) return(NULL)
  c(read_copy(death$copy), is_last = TRUE)
}

# Where a copy is, in the words of its node: see told_of_copy(), copy_while_busy().
read_copy <- function(text) {
  parts <- regmatches(text, regexec("^([0-9]+) ([^ ]+) (.*)$", text))[[1L]]
  list(pid = as.integer(parts[[2L]]), key = parts[[3L]], path = parts[[4L]])
}

# The nodes of the session's own cluster end when nobody uses them; those with copies after so many
# seconds.
KEPT_FOR <- 1800

the_own_info <- function() if (!is.null(the$own)) info_of(the$own$cl)

# The nodes of this cluster have ended: so have their copies.
forget_copies <- function(t) {
  if (is.null(t) || is.null(t$copies)) return(invisible())
  for (place in unique(t$copies)) .Call(ffi_remove_folder, place)
  t$copies <- NULL
}

#' @export
print.clutch_failure <- function(x, ...) {
  known <- if (is.null(.Call(ffi_weak_value, x$work))) "gone" else "known"
  cat(sprintf("<failure of element %.0f: what it worked with is %s>\n", x$element, known))
  invisible(x)
}
