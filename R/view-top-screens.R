# The screens of cluster_top() in a terminal, and what keys do there. What is shown is a list:
#   screen   "nodes", "stack" (the R calls of the node at hand) or "help"
#   at       which node that is: "cluster.node"; NULL: nobody has chosen one
# Screens are lines of text. `size`: lines and columns of the terminal.

# NULL: it is to end.
after_key <- function(shown, key, s) {
  if (key %in% c("q", "Q", "ctrl-c", "ctrl-d")) return(NULL)
  if (key == "escape" && shown$screen == "nodes") return(NULL)
  switch_to <- function(screen) {
    shown$screen <- if (shown$screen == screen) "nodes" else screen
    k <- node_at_hand(s, shown$at)
    # it stays that one while its calls are shown
    if (shown$screen == "stack" && !is.na(k)) shown$at <- node_keys(s$nodes)[[k]]
    shown
  }
  switch(key,
    escape = switch_to(shown$screen),
    h = , "?" = switch_to("help"),
    s = , enter = switch_to("stack"),
    up = , k = next_node(shown, s, -1L),
    down = , j = next_node(shown, s, 1L),
    shown
  )
}

next_node <- function(shown, s, by) {
  k <- node_at_hand(s, shown$at)
  if (is.na(k)) return(shown)
  order <- node_order(s$nodes)
  to <- order[min(max(match(k, order) + by, 1L), length(order))]
  shown$at <- node_keys(s$nodes)[[to]]
  shown
}

# The row of the node at hand: the one that was chosen, or else the first that is busy; NA: there is
# none.
node_at_hand <- function(s, at) {
  n <- s$nodes
  if (!NROW(n)) return(NA_integer_)
  chosen <- match(c(at, NA)[[1L]], node_keys(n))
  if (!is.na(chosen)) return(chosen)
  order <- node_order(n)
  c(order[n$state[order] == "busy"], order)[[1L]]
}

# ---- screens ----

nodes_screen <- function(s, at, size, colour, before) {
  k <- node_at_hand(s, at)
  keys <- fit("up, down: a node   s: its R calls   h: help   q: end", size[[2L]])
  if (size[[1L]] < 12L) return(top_lines(s, size[[2L]], size[[1L]], colour, before, k))
  c(top_lines(s, size[[2L]], size[[1L]] - 2L, colour, before, k), "", keys)
}

# `stack`: its row of cluster_stacks(); NULL: it could not be asked.
stack_screen <- function(s, at, stack, size, colour) {
  paint <- if (colour) paint_ansi else function(text, ...) text
  width <- size[[2L]]
  head <- paint(fit(top_session(s), width), "bold")
  keys <- fit("up, down: another node   s: back   q: end", width)
  k <- node_at_hand(s, at)
  if (is.na(k)) return(utils::head(c(head, "", "There is no node.", "", keys), size[[1L]]))
  n <- s$nodes[k, ]
  where <- sprintf("node %s on %s: %s for %s", shown_names(s$nodes)[[k]], plain(n$host), n$state,
                   lasting_text(time_in_state(s, n)))
  if (is.na(time_in_state(s, n))) where <- sub(" for -$", "", where)
  n$call <- ""
  note <- if (is.null(stack)) "its calls are not known" else stack$note[[1L]]
  calls <- if (!is.null(stack)) stack$stack[[1L]]
  if (!length(calls) && is.na(note)) note <- "it is in no R call"
  body <- c(where, doing_text(s, n), "")
  end <- c(if (!is.na(note)) c("", fit(paste0("[", note, "]"), width)), "", keys)
  room <- size[[1L]] - length(head) - length(body) - length(end) - 1L
  utils::head(c(head, "", fit(body, width), fit(calls_shown(calls, room), width), end), size[[1L]])
}

# The innermost, which are the last, where there is no room for all.
calls_shown <- function(calls, room) {
  calls <- paste0(" ", plain(calls), recycle0 = TRUE)
  if (length(calls) <= room) return(calls)
  left <- length(calls) - max(room - 1L, 0L)
  c(sprintf(" ... within %s", plural_text(left, "other call", "other calls")),
    utils::tail(calls, max(room - 1L, 0L)))
}

help_screen <- function(size) {
  lines <- c(
    "Keys of cluster_top()", "",
    "up, down   another node is the one at hand, marked by >. At first it is the one",
    "           that has been at its task for longest",
    "s, Enter   the R calls that the node at hand is in, the innermost last; and back",
    "h, ?       this help, and back",
    "Escape     back; from the nodes: end",
    "q, Ctrl-C  end", "",
    "Nothing here changes what the nodes do."
  )
  utils::head(fit(lines, size[[2L]]), size[[1L]])
}
