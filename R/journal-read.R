# Journals for people: what they have as a data frame; and they are made shorter.

#' What a journal has recorded
#'
#' A journal is the file that a map writes with `.journal = path`: each result as it comes. See
#' [cluster_map()], section *Journal*, and the vignette *Long jobs*. `journal_read()` only reads it,
#' also while a map writes to it.
#'
#' @param path string: the file.
#' @param values logical: whether to read the values, too.
#' @param all logical: whether to tell of each attempt that was recorded. `FALSE`: of each element
#'   only what counts: its last value, or else its last error.
#' @return Data frame with a row for each record, in the order in which they came:
#'   * `key`: string; elements with the same key compute the same
#'   * `map`: string; what the map was called
#'   * `element`: number of the element in its map, from 1
#'   * `state`: `"done"`, `"error"`, `"died"` (its node has died) or `"timeout"`
#'   * `seconds`: that it took
#'   * `attempt`: how often it had been started, this time included
#'   * `node`: number of the node
#'   * `when`: date and time when it was written, to the second
#'   * `error`: string; what the error said; `NA`: there was none
#'   * `value`: list of the values, `NULL` for errors; only with `values = TRUE`
#' @section Errors:
#'   * `clutch_journal`: the file cannot be read, or is no journal
#'   * `clutch_argument`: an argument is of no use
#'   ```
#'   tryCatch(journal_read("no-such-file"), clutch_journal = conditionMessage)
#'   ```
#' @section Format: One file without an index, which any R can read: the page *Format of a journal*
#'   in the vignette *Long jobs* has it, with a reader of 40 lines in plain R.
#' @seealso [cluster_map()] for `.journal`, [journal_compact()]
#' @examples
#' cl <- make_cluster(2)
#' path <- tempfile(fileext = ".journal")
#' x <- cluster_map(cl, 1:4, function(i) i^2, .journal = path)
#' journal_read(path)
#' # the same again: nothing is computed
#' y <- cluster_map(cl, 1:5, function(i) i^2, .journal = path)
#' stop_cluster(cl)
#' unlink(path)
#' @export
journal_read <- function(path, values = FALSE, all = FALSE) {
  check_journal_file(path)
  check_flag(values, "`values`")
  check_flag(all, "`all`")
  ptr <- .Call(ffi_journal_open, journal_path(path, "`path`"), Inf, NULL, NULL)
  on.exit(.Call(ffi_handle_end, ptr))
  tell_damage(path, within_reading(.Call(ffi_journal_counts, ptr)))
  rows <- .Call(ffi_journal_rows, ptr)
  jobs <- journal_jobs(ptr)
  if (!all) rows <- rows_that_count(rows)
  frame <- data.frame(
    key = rows$key,
    map = map_names(rows$job, jobs),
    element = rows$element,
    state = state_names(rows),
    seconds = rows$seconds,
    attempt = as.integer(rows$attempt),
    node = as.integer(rows$node),
    when = as.POSIXct(rows$time, origin = "1970-01-01"),
    error = error_texts(ptr, rows),
    stringsAsFactors = FALSE
  )
  if (values) frame$value <- values_of_rows(ptr, rows)
  frame
}

check_journal_file <- function(path) {
  if (!is_filled(path)) has_to_be("`path`", "the name of a file")
  if (!file.exists(path)) throw("journal", sprintf("there is no file '%s'", path))
}

# A record that is being written while the journal is read is no damage.
within_reading <- function(counts) {
  counts$torn <- 0
  counts
}

KIND_ERROR <- 3L # see src/core/journal/record.h
FLAG_LOG <- 1L
FLAG_DIED <- 8L
FLAG_TIMEOUT <- 16L

has_flag <- function(rows, flag) bitwAnd(as.integer(rows$flags), flag) > 0L

# Keeps of each key the last value, or else the last error.
rows_that_count <- function(rows) {
  n <- length(rows$key)
  if (n == 0L) return(rows)
  by <- order(rows$key, rows$kind != KIND_ERROR, seq_len(n), method = "radix")
  is_last <- c(rows$key[by][-1L] != rows$key[by][-n], TRUE)
  keep <- sort(by[is_last])
  lapply(rows, function(column) column[keep])
}

map_names <- function(numbers, jobs) {
  labels <- vapply(jobs, function(job) as.character(job$label), "")
  labels[match(numbers, vapply(jobs, function(job) job$number, 1))]
}

state_names <- function(rows) {
  state <- ifelse(rows$kind == KIND_ERROR, "error", "done")
  state[has_flag(rows, FLAG_DIED)] <- "died"
  state[has_flag(rows, FLAG_TIMEOUT)] <- "timeout"
  as.character(state)
}

object_of_row <- function(ptr, rows, k) {
  x <- .Call(ffi_journal_object, ptr, rows$at[[k]])
  unpack_result(if (bitwAnd(as.integer(rows$flags[[k]]), FLAG_LOG) > 0L) x[[1L]] else x)
}

error_texts <- function(ptr, rows) {
  has_text <- rows$kind == KIND_ERROR & rows$size > 0
  texts <- rep(NA_character_, length(rows$key))
  for (k in which(has_text)) texts[[k]] <- message_of(object_of_row(ptr, rows, k)$cond)
  texts
}

values_of_rows <- function(ptr, rows) {
  lapply(seq_along(rows$key), function(k) {
    if (rows$kind[[k]] != KIND_ERROR) object_of_row(ptr, rows, k)
  })
}

#' Make a journal shorter
#'
#' Rewrites the file with what counts: of each element its last value, or else its last error.
#' The new file takes the place of the old one at once, when it is complete.
#'
#' @inheritParams journal_read
#' @return Number of bytes that were saved, invisibly.
#' @section Errors: As [journal_read()]; and
#'   * `clutch_journal_locked` (`host`, `pid`): a session writes to it
#' @seealso [journal_read()]
#' @examples
#' cl <- make_cluster(2)
#' path <- tempfile(fileext = ".journal")
#' x <- cluster_map(cl, 1:4, function(i) i^2, .journal = path)
#' journal_compact(path)
#' stop_cluster(cl)
#' unlink(path)
#' @export
journal_compact <- function(path) {
  check_journal_file(path)
  path <- journal_path(path, "`path`")
  shared <- .Call(ffi_journal_shared, path)
  if (!is.null(shared)) {
    .Call(ffi_handle_end, shared)
    throw("journal_locked", sprintf("journal '%s' is in use in this session", path),
          host = Sys.info()[["nodename"]], pid = Sys.getpid())
  }
  before <- file.size(path)
  from <- open_journal(path, Inf)
  on.exit(.Call(ffi_handle_end, from))
  # no other file has this name, whatever there is beside the journal
  new <- tempfile(paste0(basename(path), "-"), dirname(path))
  to <- .Call(ffi_journal_open, new, Inf, paste0(new, ".lock"), from)
  done <- FALSE
  on.exit({
    .Call(ffi_handle_end, to)
    if (!done) unlink(new, expand = FALSE)
  }, add = TRUE, after = FALSE)
  .Call(ffi_journal_copy, from, to)
  .Call(ffi_handle_end, to)
  Sys.chmod(new, file.mode(path), use_umask = FALSE)
  if (!file.rename(new, path)) throw("journal", sprintf("file '%s' cannot be replaced", path))
  done <- TRUE
  invisible(before - file.size(path))
}
