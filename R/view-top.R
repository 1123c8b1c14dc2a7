# The dashboard of a terminal: which cluster it shows, and the loop that draws it.

#' See in a terminal what a cluster does
#'
#' Shows twice a second what the nodes do and since when, what they use, how far each map is, and
#' the last deaths and other events. In another terminal, `Rscript -e 'clutch::cluster_top()'` finds
#' the clusters of this user on this machine. It shows them also while their session computes, hangs
#' or is stopped by a signal.
#'
#' Where nothing can be redrawn (output to a file or pipe, a terminal without abilities, the console
#' of an IDE) it prints the state once.
#'
#' Clusters of all strategies are found. But a session without a fork server (strategies
#' `"parallel"` and `"sequential"`) is found on Linux only: elsewhere once it has one, of another
#' cluster, or because it has called `cluster_top(cl)` or [cluster_dashboard()].
#'
#' @param cl cluster made by [make_cluster()], or the handle of a detached map, see
#'   [cluster_jobs()]. `NULL`: one of this user's clusters on this machine,
#'   of any session. Where there are several, it asks which one; where nobody can be asked, it
#'   prints all.
#' @return `NULL`, invisibly.
#' @section Columns:
#' * `node`: number in its cluster.
#' * `state`: `"busy"`, `"idle"`, `"held"` (stopped for a while, since memory is short),
#'   `"starting"`, `"cut"` (its host is cut off), or `"dead"`.
#' * `for`: how long it has been at what it does.
#' * `cpu`: share of a core; `memory`: its own; `limit`: how much it may have.
#' * `done`, `failed`: number of tasks.
#' * `host`.
#' * `does`: map or task, the element, and the R call where that is known.
#'
#' Above them are the other hosts of the cluster: load, memory that is free, how long a question
#' there takes, bytes.
#'
#' Below them are the actors of the cluster, see [cluster_actor()]: which method is at work, how
#' many calls wait and were done, and for how long it was at work in all.
#'
#' Nodes that are dead, starting or cut off come first, then busy ones, those that have been at one
#' task for longest before others.
#' @section Keys:
#' * Up, Down: another node is the one at hand, marked by `>`. At first it is the one that has been
#'   at its task for longest.
#' * `s`, Enter: the R calls that the node at hand is in, and how old they are where they are not of
#'   this moment, see [cluster_stacks()]; and back.
#' * `h`, `?`: these keys; and back.
#' * `q`, Ctrl-C: ends it. Escape: back, and from the table of nodes the end.
#' @section Errors: All have class `clutch_error`.
#' * `clutch_argument`: `cl` is no such cluster.
#' * `clutch_stopped`: the cluster was stopped, or the detached map has ended, has not begun, or is
#'   at work on another machine.
#' * `clutch_limit`: there is no memory, or no private folder, for an observer.
#'   ```
#'   tryCatch(cluster_top("cl"), clutch_argument = conditionMessage)
#'   ```
#' @seealso [cluster_dashboard()] for the same in a browser, [cluster_stacks()], [cluster_status()]
#' @examplesIf .Platform$OS.type == "unix"
#' cl <- make_cluster(2)
#' task <- cluster_submit(cl, Sys.sleep(0.5))
#' cluster_top(cl)
#' stop_cluster(cl)
#' @export
cluster_top <- function(cl = NULL) {
  watched <- if (is.null(cl)) choose_cluster() else watch_cluster(cl)
  if (!length(watched)) return(invisible())
  on.exit(for (o in watched) close_observer(o))
  if (length(watched) == 1L && can_redraw()) {
    redraw_top(watched[[1L]])
    return(invisible())
  }
  for (o in watched) print_cluster_top(o)
  invisible()
}

# It is no error when a session that was found has ended since then.
print_cluster_top <- function(o) {
  s <- tryCatch(top_snapshot(o), error = function(e) NULL)
  if (!length(s$clusters$cluster)) {
    say(sprintf("Cluster %d of session %.0f has ended.", o$cluster, o$session))
    return(invisible())
  }
  writeLines(top_lines(s, cli::console_width(), Inf, has_colours()))
}

watch_cluster <- function(cl) {
  if (is_job(cl)) return(find_clusters_of_job(cl))
  check_cluster(cl)
  if (cluster_is_stopped(cl)) throw("stopped", "this cluster was stopped: there is nothing to see")
  list(observer_of(cl))
}

# ---- which cluster ----

# Observers of the clusters that are to be shown, each with its cluster.
choose_cluster <- function() {
  all <- find_clusters()
  if (!length(all)) {
    say("No cluster of yours is to be seen on this machine.")
    return(list())
  }
  if (length(all) == 1L || !can_redraw()) return(all)
  lines <- vapply(all, cluster_line, "")
  cat(paste0(format(seq_along(lines)), ": ", lines), sep = "\n")
  cat("Which one? (Enter: the first, 0: none) ")
  answer <- readLines(if (interactive()) stdin() else "stdin", 1L)
  number <- suppressWarnings(as.integer(c(answer, "0")[[1L]]))
  chosen <- if (identical(answer, "")) 1L else if (is.na(number)) 0L else number
  is_chosen <- seq_along(all) %in% chosen
  for (o in all[!is_chosen]) close_observer(o)
  all[is_chosen]
}

cluster_line <- function(o) {
  sprintf("cluster %d of session %.0f, %d nodes, since %s", o$cluster, o$session,
          as.integer(o$about$nodes), clock_text(o$about$since))
}

# ---- the loop ----

# Tells whether what is written can be written over, and keys be read.
can_redraw <- function() {
  isatty(stdin()) && isatty(stdout()) && !Sys.getenv("TERM") %in% c("", "dumb") &&
    nzchar(Sys.which("stty"))
}

has_colours <- function() cli::num_ansi_colors() > 1L

TOP_PAUSE <- 0.5 # seconds
STACK_WAIT <- 0.2

# On the terminal's other screen, so that what was there before is there afterwards. Keys are read
# one at a time and not shown.
redraw_top <- function(o) {
  settings <- stty("-g")
  why <- NULL
  on.exit({
    cat("\033[?25h\033[?1049l")
    stty(settings)
    if (!is.null(why)) say(why)
  })
  stty("-echo -icanon min 0 time 0")
  cat("\033[?1049h\033[?25l")
  before <- NULL
  shown <- list(screen = "nodes")
  tryCatch(
    while (!is.null(shown)) {
      s <- tryCatch(top_snapshot(o), error = function(e) NULL)
      if (is.null(s) || !length(s$clusters$cluster)) {
        why <- "The session, or what observes it, has ended."
        break
      }
      draw_top(o, shown, s, before)
      if (is.null(before) || s$time > before$time) before <- s
      shown <- after_keys(shown, s)
    },
    interrupt = function(e) NULL
  )
}

# `shown`: see view-top-screens.R
draw_top <- function(o, shown, s, before) {
  size <- terminal_size()
  lines <- switch(shown$screen,
    nodes = nodes_screen(s, shown$at, size, has_colours(), before),
    stack = {
      k <- node_at_hand(s, shown$at)
      stack <- if (!is.na(k)) tryCatch(stacks_by_observer(o, STACK_WAIT, s$nodes$node[[k]]),
                                      error = function(e) NULL)
      stack_screen(s, shown$at, stack, size, has_colours())
    },
    help = help_screen(size)
  )
  # each line to its end, the rest of the screen, and nothing in between
  cat("\033[H", paste0(lines, "\033[K", collapse = "\r\n"), "\033[J", sep = "")
}

stty <- function(settings) {
  suppressWarnings(system(paste("stty", settings, "2>/dev/null"), intern = TRUE))
}

# Lines, columns.
terminal_size <- function() {
  size <- suppressWarnings(as.integer(strsplit(c(stty("size"), "")[[1L]], " ")[[1L]]))
  if (length(size) == 2L && !anyNA(size) && all(size > 0L)) size else c(24L, 80L)
}

# The value is what is to be shown after the keys of half a second, as soon as one has changed that;
# NULL: it is to end.
after_keys <- function(shown, s) {
  end <- clock() + TOP_PAUSE
  repeat {
    key <- cli::keypress(block = FALSE)
    if (!is.na(key)) {
      now <- after_key(shown, key, s)
      if (!identical(now, shown)) return(now)
    }
    if (clock() >= end) return(shown)
    Sys.sleep(0.05) # tasks of this session go on meanwhile
  }
}
