#' Messages between the nodes of a run
#'
#' In a function that [cluster_run()] calls on all nodes:
#' * `node_rank()` is this node's rank, `node_count()` how many there are.
#' * `node_send()` sends a value to another node. It does not wait for the receiver.
#' * `node_receive()` waits for a message and takes it.
#' * `node_probe()` tells whether there is one, and leaves it.
#'
#' @section Guarantees: Messages from one node to another arrive in the order in which they were
#'   sent, each once. `node_receive()` takes the oldest one that it is asked for; others wait. A
#'   value is copied: nothing that one node does to it is seen by another.
#'
#'   `node_send()` waits only where 256 MB, or some 10,000 messages, of this node have not been
#'   looked at by that receiver. A receiver looks at all messages of a node when it waits for one of
#'   them. Large vectors lie in memory that both nodes share, and are not copied again; they stay
#'   there until they are received, or the run ends. Between hosts they are copied, once for all
#'   nodes of a host.
#'
#'   Where all nodes wait for messages, with nothing under way, that is found within a second, and
#'   is the error of all of them. It is not looked for while one of them waits with a `timeout`.
#' @param to numeric vector: ranks that get the value. One's own is allowed.
#' @param value any R object. References (environments, external pointers) arrive as
#'   [serialize()] has them.
#' @param tag string of at most 64 bytes. For `node_receive()` and `node_probe()` also `NULL`: any.
#' @param from number: a rank. `NULL`: any.
#' @param timeout number of seconds to wait, at most.
#' @param otherwise any value: what is returned when `timeout` is over. Where it is not given, that
#'   is an error.
#' @return
#' * `node_rank()`, `node_count()`: integer.
#' * `node_send()`: `NULL`, invisibly.
#' * `node_receive()`: list with `value`, `from` (the sender's rank) and `tag`.
#' * `node_probe()`: the same without `value`, or `NULL`.
#' @section Errors: All have class `clutch_run_stop` but the first two.
#'   * `clutch_no_run`: the code is no part of a run.
#'   * `clutch_timeout`: no message has come within `timeout` seconds.
#'   * `clutch_node_died`: the message can only come from a node that has died, or is for one.
#'     Fields `rank`, `pid`, `host`, `how`.
#'   * `clutch_node_ended`: the same with a node whose part has ended, or has failed. Field `rank`.
#'   * `clutch_deadlock`: all nodes wait. Field `waits`: a data frame of who waits for whom.
#'   * `clutch_run_ended`: another part has failed, or the session has given the run up.
#' @seealso [cluster_run()], [node_barrier()]
#' @examplesIf .Platform$OS.type == "unix"
#' cl <- make_cluster(2)
#' # a ring: each sends to the next
#' cluster_run(cl, function(rank) {
#'   node_send(rank %% node_count() + 1, rank, tag = "ring")
#'   node_receive(tag = "ring")$value
#' })
#' stop_cluster(cl)
#' @export
node_rank <- function() run_me()[[1L]]

#' @rdname node_rank
#' @export
node_count <- function() run_me()[[2L]]

run_me <- function() {
  me <- .Call(ffi_mesh_me)
  if (is.null(me)) {
    throw("no_run", "this is no part of a run: only code that cluster_run() calls can do that")
  }
  me
}

#' @rdname node_rank
#' @export
node_send <- function(to, value, tag = "") {
  if (!is_user_tag(tag)) has_to_be("`tag`", "a string")
  if (!is.integer(to) || length(to) != 1L) to <- unique(.Call(ffi_mesh_check_ranks, to))
  else .Call(ffi_mesh_check_ranks, to)
  .Call(ffi_mesh_send, to, value, tag)
  invisible()
}

is_user_tag <- function(tag) is_string(tag) && !startsWith(tag, RUN_TAG)

# The tag of messages that are part of a collective operation.
RUN_TAG <- "\001"

#' @rdname node_rank
#' @export
node_receive <- function(from = NULL, tag = NULL, timeout = Inf, otherwise) {
  if (!is.null(tag) && !is_user_tag(tag)) has_to_be("`tag`", "a string, or NULL")
  if (!identical(timeout, Inf)) check_timeout(timeout)
  message <- .Call(ffi_mesh_receive, from, tag, timeout, FALSE)
  if (!is.null(message)) return(message)
  if (!missing(otherwise)) return(otherwise)
  throw("timeout", sprintf("no message has come within %g seconds", timeout))
}

#' @rdname node_rank
#' @export
node_probe <- function(from = NULL, tag = NULL) {
  if (!is.null(tag) && !is_user_tag(tag)) has_to_be("`tag`", "a string, or NULL")
  .Call(ffi_mesh_receive, from, tag, 0, TRUE)[c("from", "tag")]
}

# ---- why a part cannot go on ----

# C code calls this. `code`: of enum clu_code; `who`: a rank.
run_stops <- function(code, who) {
  ranks <- .Call(ffi_mesh_ranks, NULL)
  e <- switch(names(which(run_codes == code)),
    dead = gone_error(ranks, who),
    deadlock = deadlock_error(ranks),
    mismatch = mismatch_error(ranks),
    ended = run_stop("run_ended", "the run has ended: another part has failed, or it was given up")
  )
  stop(e)
}

# In the order of enum clu_code.
run_codes <- c(deadlock = 1L, mismatch = 7L, dead = 8L, ended = 9L)

run_stop <- function(class, text, ...) {
  errorCondition(text, ..., call = NULL,
                 class = c(paste0("clutch_", class), "clutch_run_stop", "clutch_error"))
}

gone_error <- function(ranks, who) {
  pid <- ranks$pid[[who]]
  if (ranks$state[[who]] != 4L) {
    how <- if (ranks$state[[who]] == 3L) "has failed" else "has ended"
    return(run_stop("node_ended", sprintf("the part of rank %d %s", who, how), rank = who))
  }
  signal <- ranks$signal[[who]]
  code <- if (is.na(signal)) ranks$status[[who]] else signal
  how <- if (is.na(code)) "it is gone" else how_ended(!is.na(signal), code)
  text <- sprintf("the node of rank %d (pid %d) has died: %s", who, pid, how)
  run_stop("node_died", text, rank = who, pid = pid, how = how,
           host = the$run_hosts[[who]])
}

# ---- who waits for whom ----

deadlock_error <- function(ranks) {
  waits <- waits_of(ranks)
  text <- paste(c("all parts wait, and nothing is under way:", rank_lines(waits$what)),
                collapse = "\n")
  run_stop("deadlock", text, waits = waits)
}

waits_of <- function(ranks) {
  waiting <- which(ranks$waits != 0L) # some have left since
  what <- vapply(waiting, function(i) wait_text(ranks, i), "")
  data.frame(rank = waiting, waits_for = ranks$waits_for[waiting], tag = ranks$tag[waiting],
             what = what)
}

wait_text <- function(ranks, i) {
  of <- ranks$waits_for[[i]]
  who <- if (is.na(of)) "any" else paste("rank", of)
  tag <- ranks$tag[[i]]
  is_tagged <- !is.na(tag) && nzchar(tag) && !startsWith(tag, RUN_TAG)
  tagged <- if (is_tagged) sprintf(" with tag \"%s\"", tag) else ""
  message <- paste0("waits for a message of ", who, tagged)
  what <- switch(ranks$waits[[i]] + 1L, "goes on", message, message,
                 paste0("waits for room to send to ", who), paste("is in", meeting_text(ranks, i)))
  sprintf("rank %d %s", i, what)
}

# The first lines, where there are very many.
rank_lines <- function(lines, most = 20L) {
  if (length(lines) <= most) return(lines)
  c(lines[seq_len(most)], sprintf("and %d more", length(lines) - most))
}

mismatch_error <- function(ranks) {
  a <- ranks$verdict[[2L]]
  b <- ranks$verdict[[3L]]
  text <- sprintf("ranks %d and %d do not call the same: rank %d calls %s, rank %d calls %s", a, b,
                  a, meeting_text(ranks, a), b, meeting_text(ranks, b))
  run_stop("mismatch", text, ranks = c(a, b))
}

# The functions in which all ranks meet, by number.
run_kinds <- c("node_barrier", "node_broadcast", "node_scatter", "node_gather", "node_allgather",
               "node_reduce", "node_allreduce", "node_all_to_all")
run_ops <- c("+", "*", "min", "max", "&", "|")
OWN_OP <- 7L   # stands for a function
IN_PAIRS <- 8L # is added where neighbours are reduced first
run_types <- c("double", "integer", "logical")

# "node_reduce(to = 1) of 10 double by +"
meeting_text <- function(ranks, i) {
  kind <- run_kinds[[(ranks$kind[[i]] - 1L) %% 256L + 1L]]
  root <- ranks$root[[i]]
  what <- if (kind %in% c("node_broadcast", "node_scatter")) "from" else "to"
  where <- if (root == 0L) "" else sprintf("%s = %d", what, root)
  type <- ranks$type[[i]]
  of <- if (type == 0L) "" else sprintf(" of %.0f %s", ranks$length[[i]], run_types[[type]])
  sprintf("%s(%s)%s%s", kind, where, of, op_text(ranks$op[[i]]))
}

op_text <- function(op) {
  if (op == 0L) return("")
  by <- c(run_ops, "a function")[op %% IN_PAIRS]
  paste0(" by ", by, if (op >= IN_PAIRS) " with commutative = TRUE")
}
