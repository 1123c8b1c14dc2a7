#' What all nodes of a run do together
#'
#' Each of these functions is called by all nodes of a run, see [cluster_run()], in the same order.
#' * `node_barrier()`: nobody goes on before all are there.
#' * `node_broadcast()`: all get the value of one.
#' * `node_scatter()`: one has a list with an element for each node; each gets its own.
#' * `node_gather()`: one gets the values of all; `node_allgather()`: all do.
#' * `node_reduce()`: the values of all become one, as by [Reduce()]; one gets it.
#'   `node_allreduce()`: all do.
#' * `node_all_to_all()`: each has a list with an element for each node, and gets a list of what all
#'   have for it.
#'
#' @section Reductions: Vectors and matrices of numbers or logical values are reduced element by
#'   element, in C, in memory that the nodes share: each node computes a share of the result, in the
#'   order of ranks for each element. So the result is the same in every run, whatever the timing.
#'   On several hosts each host's ranks are reduced first, then the hosts, in the order in which
#'   they appear in `cl`. With other numbers of nodes or hosts sums may differ in the last digits,
#'   as the numbers are added in another order. All have to have the same type, length and
#'   dimensions; attributes of the result are those of the node's own value.
#'
#'   Other objects, and other functions, are reduced by R code: from left to right in the order of
#'   ranks, or where `commutative` is `TRUE` in pairs, then pairs of pairs, in a fixed order.
#' @param x any R object. For `node_scatter()` on the node that has it, and for `node_all_to_all()`:
#'   a list, or a vector, with an element for each node.
#' @param from,to number: the rank that has the value, or gets it.
#' @param op `"+"`, `"*"`, `"min"`, `"max"`, `"&"` or `"and"`, `"|"` or `"or"`; or a function of two
#'   values.
#' @param commutative `TRUE` or `FALSE`: whether a function as `op` may be applied to any two
#'   neighbours first. It has to be associative then.
#' @return
#' * `node_barrier()`: `NULL`, invisibly.
#' * `node_broadcast()`, `node_scatter()`: the value.
#' * `node_gather()`, `node_allgather()`, `node_all_to_all()`: list in the order of ranks;
#'   `node_gather()` on other nodes `NULL`.
#' * `node_reduce()`, `node_allreduce()`: the reduced value; `node_reduce()` on other nodes `NULL`.
#' @section Errors: As those of [node_receive()], and `clutch_mismatch`: two nodes do not call the
#'   same function, or not with the same `from`, `to`, `op`, type or shape. It is the error of all
#'   nodes and says who called what. A node that has died, has failed, or has ended meanwhile:
#'   `clutch_node_died`, `clutch_node_ended`.
#' @references Thakur, R., Rabenseifner, R., Gropp, W. (2005). Optimization of collective
#'   communication operations in MPICH. *International Journal of High Performance Computing
#'   Applications* 19(1), 49-66: a reduction whose shares are computed by all.
#' @seealso [cluster_run()], [node_send()]
#' @examplesIf .Platform$OS.type == "unix"
#' cl <- make_cluster(2)
#' cluster_run(cl, function(rank) {
#'   list(sum = node_allreduce(c(rank, 10 * rank)),
#'        most = node_allreduce(rank, "max"),
#'        all = node_allgather(letters[rank]),
#'        first = node_broadcast(if (rank == 1) "from rank 1"))
#' })
#' stop_cluster(cl)
#' @export
node_barrier <- function() {
  meet("node_barrier")
  invisible()
}

# `root`: a rank; 0: there is none. `op`: a number that stands for how values are reduced.
meet <- function(fun, root = 0L, op = 0L) .Call(ffi_mesh_meet, match(fun, run_kinds), root, op)

check_rank <- function(x, what) {
  count <- node_count()
  if (!is_number(x, 1) || x > count || x != floor(x)) {
    has_to_be(what, sprintf("a rank, a number from 1 to %d", count))
  }
  as.integer(x)
}

send_hidden <- function(to, value) .Call(ffi_mesh_send, to, value, RUN_TAG)
receive_hidden <- function(from) .Call(ffi_mesh_receive, from, RUN_TAG, Inf, FALSE)$value
others <- function() seq_len(node_count())[-node_rank()]

#' @rdname node_barrier
#' @export
node_broadcast <- function(x, from = 1) {
  from <- check_rank(from, "`from`")
  meet("node_broadcast", from)
  give_to_all(x, from)
}

#' @rdname node_barrier
#' @export
node_scatter <- function(x, from = 1) {
  from <- check_rank(from, "`from`")
  if (node_rank() == from) check_for_all(x)
  meet("node_scatter", from)
  if (node_rank() != from) return(receive_hidden(from))
  for (to in others()) send_hidden(to, x[[to]])
  x[[from]]
}

check_for_all <- function(x) {
  n <- node_count()
  if (!is.vector(x) || length(x) != n) {
    has_to_be("`x`", sprintf("a list with an element for each of the %d nodes", n))
  }
}

#' @rdname node_barrier
#' @export
node_gather <- function(x, to = 1) {
  to <- check_rank(to, "`to`")
  meet("node_gather", to)
  if (node_rank() == to) return(receive_all(x))
  send_hidden(to, x)
  NULL
}

# Returns what all others send, and `x` in this node's place.
receive_all <- function(x) {
  me <- node_rank()
  lapply(seq_len(node_count()), function(from) if (from == me) x else receive_hidden(from))
}

#' @rdname node_barrier
#' @export
node_allgather <- function(x) {
  meet("node_allgather")
  if (node_count() > 1L) send_hidden(others(), x)
  receive_all(x)
}

#' @rdname node_barrier
#' @export
node_all_to_all <- function(x) {
  check_for_all(x)
  meet("node_all_to_all")
  for (to in others()) send_hidden(to, x[[to]])
  receive_all(x[[node_rank()]])
}

#' @rdname node_barrier
#' @export
node_reduce <- function(x, op = "+", to = 1, commutative = FALSE) {
  reduce_to(x, op, check_rank(to, "`to`"), "node_reduce", commutative)
}

#' @rdname node_barrier
#' @export
node_allreduce <- function(x, op = "+", commutative = FALSE) {
  reduce_to(x, op, 0L, "node_allreduce", commutative)
}

reduce_to <- function(x, op, to, fun, commutative) {
  number <- OWN_OP
  if (!is.function(op)) {
    check_choice(op, "`op`", c(run_ops, "and", "or"))
    op <- switch(op, and = "&", or = "|", op)
    x <- as_reduced(x, op)
    number <- match(op, run_ops)
    if (is_plain_numbers(x)) return(.Call(ffi_mesh_reduce, x, number, match(fun, run_kinds), to))
    op <- switch(op, min = pmin, max = pmax, match.fun(op))
  }
  check_flag(commutative, "`commutative`")
  meet(fun, to, number + if (commutative) IN_PAIRS else 0L)
  if (commutative) return(reduce_in_pairs(x, op, to))
  me <- node_rank()
  at <- if (to == 0L) 1L else to
  if (me != at) send_hidden(at, x)
  all <- if (me == at) Reduce(op, receive_all(x))
  if (to != 0L) return(all)
  give_to_all(all, 1L)
}

is_plain_numbers <- function(x) !is.object(x) && (is.numeric(x) || is.logical(x))

# Converts it to the type that the operator would make of it.
as_reduced <- function(x, op) {
  if (!is_plain_numbers(x)) return(x)
  if (op %in% c("&", "|")) {
    if (!is.logical(x)) storage.mode(x) <- "logical"
  } else if (is.logical(x)) {
    storage.mode(x) <- "integer"
  }
  x
}

give_to_all <- function(x, from) {
  if (node_rank() != from) return(receive_hidden(from))
  if (node_count() > 1L) send_hidden(others(), x)
  x
}

# Neighbours first: rank 1 has all at last.
reduce_in_pairs <- function(x, op, to) {
  me <- node_rank()
  n <- node_count()
  step <- 1L
  while (step < n) {
    if ((me - 1L) %% (2L * step) == step) {
      send_hidden(me - step, x)
      break
    }
    if (me + step <= n) x <- op(x, receive_hidden(me + step))
    step <- 2L * step
  }
  if (to == 0L) return(give_to_all(x, 1L))
  if (to == 1L) return(if (me == 1L) x)
  if (me == 1L) send_hidden(to, x)
  if (me == to) receive_hidden(1L)
}
