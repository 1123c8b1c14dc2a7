#' A table that tasks share
#'
#' Rows that any process appends, of which each is taken by one process, and which all can read: a
#' queue of work that tasks add to while they work on it, as in asynchronous tuning, or results that
#' others are to see at once.
#'
#' A row is *open* when it was appended, *taken* when `table_pop()` has given it to a process, and
#' *done* when `table_set()` has added values to it. A row that nobody pops stays open: to read it
#' does not take it.
#'
#' @section Guarantees: `table_pop()` gives the oldest open row, to one process only. What
#'   `table_append()` and `table_set()` have written is seen by all processes when they return. A
#'   process that ends at any moment leaves whole rows; those it had taken stay so until
#'   `table_reopen()`.
#'
#'   Values are copied into memory that the processes share, and stay there until the table is gone:
#'   at most 16 million rows, 256 MB a row, and 64 GB in all.
#' @inheritSection cluster_lock Where it works
#' @inheritParams cluster_lock
#' @param table object made by `cluster_table()`.
#' @param rows list with names: the values of one row; or a data frame: one row for each of its.
#' @param timeout number of seconds to wait for an open row, at most.
#' @param id number: the row.
#' @param values list with names: what is added to the row, or replaced.
#' @param since number: only rows that have changed since then; it is attribute `changes` of an
#'   earlier result. Rows that change while the table is read may come once more.
#' @param state character vector: only rows in these states.
#' @return
#' * `cluster_table()`: object of class `clutch_table`. It travels to nodes as any variable does.
#' * `table_append()`: numbers: the ids of the rows, which count from 1, invisibly.
#' * `table_pop()`: list with `id` and `row`, a list of the row's values; `NULL`: there is no open
#'   row.
#' * `table_set()`: `NULL`, invisibly.
#' * `table_read()`: data frame with columns `id`, `state`, `pid` (the process that has taken it)
#'   and one for each name of the rows' values: a vector where all values are of one type and of
#'   length 1, else a list. What a row does not have is `NA`, or `NULL` in a list. Attribute
#'   `changes`: see `since`.
#' * `table_reopen()`: number of rows, invisibly: those that were taken by processes that have ended
#'   are open again.
#' * `table_count()`: number of rows.
#' @section Errors: `clutch_argument`: there is no such row, or rows without names.
#'   `clutch_memory`: it is full. `clutch_state_gone`: the table does not exist any more.
#' @seealso [cluster_lock()], [cluster_run()]
#' @examplesIf .Platform$OS.type == "unix"
#' cl <- make_cluster(2)
#' queue <- cluster_table(cl)
#' table_append(queue, data.frame(x = c(-2, 0.5, 3)))
#' # each node works until there are 20 results; what it finds leads to new work
#' done <- cluster_run(cl, function(rank) {
#'   while (table_count(queue) < 20 && !is.null(task <- table_pop(queue))) {
#'     x <- task$row$x
#'     table_set(queue, task$id, list(y = (x - 1)^2, node = rank))
#'     table_append(queue, list(x = x - 0.2 * (x - 1)))
#'   }
#' })
#' head(table_read(queue))
#' stop_cluster(cl)
#' @export
cluster_table <- function(cl = NULL) new_state("table", cl)

#' @rdname cluster_table
#' @export
table_append <- function(table, rows) {
  check_row(rows, "`rows`")
  if (!is.data.frame(rows)) {
    return(invisible(or_there(.Call(ffi_table_append, table, rows), "table_append", table, rows)))
  }
  if (is_elsewhere(table)) return(ask_forwarded("table_append", list(table, rows))) # all at once
  columns <- as.list(rows)
  ids <- vapply(seq_len(nrow(rows)), function(i) {
    .Call(ffi_table_append, table, lapply(columns, element_of_column, i))
  }, 0)
  invisible(ids)
}

# Tells whether it is on another host.
is_elsewhere <- function(table) is.null(.Call(ffi_table_count, table))

element_of_column <- function(column, i) {
  if (length(dim(column)) == 2L) return(column[i, , drop = FALSE])
  if (is.list(column)) column[[i]] else column[i]
}

check_row <- function(x, what) {
  names <- names(x)
  are_names <- length(names) == length(x) && !anyNA(names) && all(nzchar(names))
  if (is.list(x) && are_names && !anyDuplicated(names)) {
    if (!any(names %in% ROW_COLUMNS)) return()
    has_to_be(what, paste("without the names", toString(ROW_COLUMNS)))
  }
  has_to_be(what, "a list whose elements have names, each another, or a data frame")
}

ROW_COLUMNS <- c("id", "state", "pid")

#' @rdname cluster_table
#' @export
table_pop <- function(table, timeout = 0) {
  if (!missing(timeout)) check_timeout(timeout)
  x <- .Call(ffi_table_pop, table, timeout)
  if (is.null(x)) {
    x <- ask_forwarded("take_row", list(table, timeout), timeout)
    if (is.list(x)) the$forward_stays <- TRUE # else others could think that its taker has ended
  }
  if (isFALSE(x)) return(NULL)
  list(id = x$id, row = x$value)
}

#' @rdname cluster_table
#' @export
table_set <- function(table, id, values = list()) {
  if (!is_whole(id) || length(id) != 1L) has_to_be("`id`", "the number of a row")
  if (length(values)) check_row(values, "`values`")
  or_there(.Call(ffi_table_set, table, id, values), "table_set", table, id, values)
  invisible()
}

ROW_STATES <- c("open", "taken", "done")

#' @rdname cluster_table
#' @export
table_read <- function(table, since = 0, state = ROW_STATES) {
  check_number(since, "`since`", 0, "a number, 0 or more")
  if (!is.character(state) || !all(state %in% ROW_STATES)) has_to_be("`state`", one_of(ROW_STATES))
  x <- .Call(ffi_table_read, table, since)
  if (is.null(x)) return(ask_forwarded("table_read", list(table, since, state)))
  states <- ROW_STATES[x$state]
  keep <- states %in% state
  out <- list(id = x$id[keep], state = states[keep], pid = x$pid[keep])
  rows <- Map(merged, x$value[keep], x$set[keep])
  names <- unique(unlist(lapply(rows, names)))
  for (name in names) out[[name]] <- column_of(lapply(rows, `[[`, name))
  out <- structure(out, class = "data.frame", row.names = .set_row_names(length(out$id)))
  attr(out, "changes") <- x$changes
  out
}

merged <- function(row, values) {
  if (!is.list(values)) return(row)
  row[names(values)] <- values
  row
}

# A vector where that loses nothing.
column_of <- function(values) {
  there <- !vapply(values, is.null, NA)
  some <- values[there]
  is_plain <- function(x) is.atomic(x) && is.null(dim(x))
  is_simple <- all(lengths(some) == 1L) && all(vapply(some, is_plain, NA)) &&
    length(unique(lapply(some, attributes_but_names))) == 1L &&
    length(unique(vapply(some, typeof, ""))) == 1L && (all(there) || !is.raw(some[[1L]]))
  if (!is_simple) return(values)
  out <- unlist(some, use.names = FALSE)[ifelse(there, cumsum(there), NA)]
  attributes(out) <- attributes_but_names(some[[1L]])
  out
}

attributes_but_names <- function(x) attributes(x)[setdiff(names(attributes(x)), "names")]

#' @rdname cluster_table
#' @export
table_reopen <- function(table) {
  invisible(or_there(.Call(ffi_table_reopen, table), "table_reopen", table))
}

#' @rdname cluster_table
#' @export
table_count <- function(table) {
  or_there(.Call(ffi_table_count, table), "table_count", table)
}

#' @export
format.clutch_table <- function(x, ...) sprintf("clutch table: %.0f rows", table_count(x))
