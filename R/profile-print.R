# This file has what a profile says in text: its summary, a data frame, and how it is printed.

# ---- counts ----

# The samples of these nodes; NULL: all.
samples_of <- function(x, node = NULL) {
  if (is.null(node)) return(x$samples)
  known <- x$nodes$node
  if (!is.numeric(node) || !length(node) || !all(node %in% known)) {
    has_to_be("`node`", paste("among the nodes of the profile:", paste(known, collapse = ", ")))
  }
  x$samples[x$samples$node %in% node, , drop = FALSE]
}

# How many of the samples have each of the stacks.
stack_counts <- function(x, samples) tabulate(samples$stack, length(x$stacks$calls))

# A row for each name. `names`: a list with a character vector for each stack, the innermost last;
# "" counts for nothing.
count_names <- function(names, counts, grown = NULL) {
  seen <- counts > 0L
  names <- names[seen]
  counts <- counts[seen]
  inner <- vapply(names, function(v) v[[length(v)]], "")
  distinct <- lapply(names, unique) # a function that calls itself counts once
  all <- sort(setdiff(as.character(unlist(distinct)), ""))
  sums <- function(at, values) as.vector(tapply(values, factor(at, all), sum, default = 0))
  is_named <- nzchar(inner)
  each <- rep(counts, lengths(distinct))
  outer <- as.character(unlist(distinct))
  out <- data.frame(name = all, self = sums(inner[is_named], counts[is_named]),
                    total = sums(outer[nzchar(outer)], each[nzchar(outer)]),
                    stringsAsFactors = FALSE)
  if (!is.null(grown)) out$grown <- sums(inner[is_named], grown[seen][is_named])
  out
}

#' @rdname cluster_profile
#' @export
summary.clutch_profile <- function(object, by = c("function", "line", "node"), node = NULL, ...) {
  by <- check_choice(by, "`by`", c("function", "line", "node"))
  samples <- samples_of(object, node)
  counts <- stack_counts(object, samples)
  grown <- NULL
  if (!is.null(samples$grown)) {
    at <- factor(samples$stack, seq_along(counts))
    grown <- as.vector(tapply(samples$grown, at, sum, default = 0))
  }
  out <- switch(by,
    "function" = count_names(object$stacks$calls, counts, grown),
    line = count_names(object$stacks$at, counts, grown),
    node = count_nodes(samples)
  )
  all <- max(nrow(samples), 1)
  out$self_share <- out$self / all
  out$total_share <- out$total / all
  out <- out[order(-out$self, -out$total, out$name), , drop = FALSE]
  rownames(out) <- NULL
  structure(out, class = c("clutch_profile_summary", "data.frame"))
}

count_nodes <- function(samples) {
  nodes <- sort(unique(samples$node))
  counts <- as.numeric(table(factor(samples$node, nodes)))
  out <- data.frame(name = node_names(nodes), self = counts, total = counts,
                    stringsAsFactors = FALSE)
  if (!is.null(samples$grown))
    out$grown <- as.vector(tapply(samples$grown, factor(samples$node, nodes), sum, default = 0))
  out
}

node_names <- function(nodes) ifelse(nodes == 0L, "session", sprintf("node %d", nodes))

#' @rdname cluster_profile
#' @export
as.data.frame.clutch_profile <- function(x, row.names = NULL, optional = FALSE, ...) {
  s <- x$samples
  n <- length(x$stacks$calls)
  key <- s$node * max(n, 1) + s$stack
  first <- which(!duplicated(key))
  count <- tabulate(match(key, key[first]), length(first))
  at <- match(s$node[first], x$nodes$node)
  join <- function(parts) vapply(parts[s$stack[first]], paste, "", collapse = ";")
  out <- data.frame(node = s$node[first], host = x$nodes$host[at], stack = join(x$stacks$calls),
                    at = join(x$stacks$at), count = count, share = count / max(nrow(s), 1),
                    seconds = x$nodes$cpu[at] * count / x$nodes$samples[at],
                    stringsAsFactors = FALSE)
  out <- out[order(out$node, -out$count), , drop = FALSE]
  rownames(out) <- NULL
  out
}

# ---- print ----

#' @rdname cluster_profile
#' @export
print.clutch_profile <- function(x, n = 10L, ...) {
  cat(headline(x), "\n", sep = "")
  for (line in profile_notes(x$nodes)) cat("  ", line, "\n", sep = "")
  if (nrow(x$samples) == 0L) return(invisible(x))
  s <- summary(x)
  cat("\nby function:\n")
  print_top(s, n)
  lines <- summary(x, "line")
  if (nrow(lines)) {
    cat("\nby line:\n")
    lines$name <- short_path(lines$name)
    print_top(lines, min(n, 5L))
  }
  print_differences(x, utils::head(s$name, 5L))
  invisible(x)
}

#' @export
print.clutch_profile_summary <- function(x, n = 20L, ...) {
  print_top(x, n)
  invisible(x)
}

headline <- function(x) {
  nodes <- x$nodes[x$nodes$node > 0L, ]
  who <- c(
    plural_of(nrow(nodes), "node", "nodes"),
    if (any(x$nodes$node == 0L)) "the session"
  )
  cpu <- sum(x$nodes$cpu, na.rm = TRUE)
  sprintf("profile of %s: %s of CPU time in %s, %s", paste(who, collapse = " and "),
          time_used(cpu), time_used(x$elapsed),
          plural_of(nrow(x$samples), "sample", "samples"))
}

plural_of <- function(n, one, many) {
  paste(format(n, big.mark = ",", decimal.mark = "."), if (n == 1L) one else many)
}

time_used <- function(s) sprintf(if (s < 10) "%.2f s" else "%.1f s", s)

# A note that holds for several nodes is said once.
profile_notes <- function(nodes) {
  said <- unique(nodes$note[nzchar(nodes$note)])
  vapply(said, function(note) {
    who <- node_names(nodes$node[nodes$note == note])
    if (length(who) > 4L) who <- c(who[1:3], sprintf("%d more", length(who) - 3L))
    paste0(paste(who, collapse = ", "), ": ", note)
  }, "", USE.NAMES = FALSE)
}

print_top <- function(s, n) {
  shown <- utils::head(as.data.frame(s), n)
  share <- function(v) sprintf("%5.1f %%", 100 * v)
  grown <- if (!is.null(shown$grown)) sprintf("%9.1f", shown$grown)
  cat("     self    total  ", if (!is.null(grown)) "    MB  ", "\n", sep = "")
  rows <- paste0("  ", share(shown$self_share), "  ", share(shown$total_share), "  ",
                 if (!is.null(grown)) paste0(grown, "  "), shown$name)
  cat(rows, sep = "\n")
  left <- nrow(s) - nrow(shown)
  if (left > 0L) cat(sprintf("  ... and %d more\n", left))
}

short_path <- function(at) paste0(basename(sub(":[0-9]+$", "", at)), sub("^.*:", ":", at))

# From so many samples on a node's shares say something, and from such a difference on the nodes are
# shown apart.
ENOUGH_SAMPLES <- 50L
MUCH_APART <- 0.2

# Where the nodes differ much in the functions that take most of the time: a column a node.
print_differences <- function(x, names) {
  counts <- table(x$samples$node[x$samples$node > 0L])
  nodes <- as.integer(names(counts))[counts >= ENOUGH_SAMPLES]
  if (length(nodes) < 2L) return(invisible())
  shares <- vapply(nodes, function(k) {
    s <- summary(x, node = k)
    s$self_share[match(names, s$name)]
  }, numeric(length(names)))
  shares <- matrix(shares, length(names))
  shares[is.na(shares)] <- 0
  apart <- apply(shares, 1L, function(v) max(v) - min(v))
  if (max(apart) < MUCH_APART) return(invisible())
  most <- shares[which.max(apart), ]
  shown <- order(-most)
  if (length(shown) > 6L) shown <- shown[c(1:3, length(shown) - 2:0)]
  cat("\nthe nodes differ (self):\n")
  head <- c(sprintf("%8s", node_names(nodes[shown])), "")
  cat("  ", paste(head, collapse = "  "), "\n", sep = "")
  for (i in seq_along(names)) {
    cells <- c(sprintf("%6.1f %%", 100 * shares[i, shown]), names[[i]])
    cat("  ", paste(cells, collapse = "  "), "\n", sep = "")
  }
}
