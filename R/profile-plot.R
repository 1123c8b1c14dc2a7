# The flame graph of a profile, in base graphics.

#' Flame graph of a profile
#'
#' Draws a box for each function that was on the stack: its width is the share of the samples, what
#' is above it was called by it. Boxes are sorted by name, so from left to right is not the order of
#' time. Boxes of one function have one colour. A function that calls itself again and again has one
#' box, `f (recursive)`. Stacks that are much higher than those that take
#' time are cut off, so that the boxes of these can be read.
#'
#' @param x Profile: value of [cluster_profile()].
#' @param node Integer vector: only these nodes; 0 is the session. `NULL`: all of them, joined.
#' @param from Character: only the stacks with this function, from there on. `NULL`: whole stacks.
#' @param least Number: boxes narrower than this share are left out.
#' @param main,xlab Character: title, and label of the axis. `NULL`: what is shown.
#' @param cex Number: size of the letters.
#' @param ... Passed to [graphics::title()].
#' @return The profile, invisibly.
#' @section Errors: `clutch_argument`: there are no samples, or none of that node or function. It
#'   has class `clutch_error`.
#'   ```r
#'   tryCatch(plot(p, node = 3), clutch_argument = conditionMessage)
#'   ```
#' @seealso [cluster_profile()], [write_profile()] for graphs that can be zoomed
#' @examples
#' cl <- make_cluster(2)
#' fit <- function(i) {
#'   x <- data.frame(a = runif(1e4), b = runif(1e4))
#'   coef(lm(a ~ poly(b, 3), x))
#' }
#' p <- cluster_profile(cl, cluster_map(cl, 1:20, fit))
#' plot(p)
#' plot(p, from = "lm")
#' stop_cluster(cl)
#' @export
plot.clutch_profile <- function(x, node = NULL, from = NULL, least = 0.001, main = NULL,
                                xlab = NULL, cex = 0.8, ...) {
  samples <- samples_of(x, node)
  counts <- stack_counts(x, samples)
  boxes <- flame_boxes(x$stacks$calls, counts, from)
  all <- sum(counts)
  if (is.null(main)) main <- flame_title(x, node, from)
  if (is.null(xlab)) xlab <- sprintf("share of %s", plural_of(all, "sample", "samples"))
  share <- (boxes$right - boxes$left) / max(boxes$right) # with `from` these are not all samples
  highest <- max(1L, boxes$depth[share >= WORTH_HEIGHT]) + SPARE_HEIGHT
  drawn <- boxes[share >= least & boxes$depth <= highest, ]
  draw_flame(drawn, all, main, xlab, cex, ...)
  invisible(x)
}

# The graph is as high as the stacks of boxes that are wider than this share, and some boxes more.
WORTH_HEIGHT <- 0.02
SPARE_HEIGHT <- 2L

flame_title <- function(x, node, from) {
  shown <- if (is.null(node)) x$nodes$node else sort(unique(as.integer(node)))
  nodes <- shown[shown > 0L]
  who <- c(
    if (length(nodes) == 1L) paste("node", nodes),
    if (length(nodes) > 1L) plural_of(length(nodes), "node", "nodes"),
    if (0L %in% shown) if (length(nodes)) "the session" else "session"
  )
  title <- paste("CPU time of", paste(who, collapse = " and "))
  if (is.null(from)) title else paste0(title, ", from ", from, "() on")
}

# ---- what is drawn where ----

# From so many calls in a row on they are one box.
RECURSIVE_FROM <- 4L

fold_recursion <- function(calls) {
  runs <- rle(calls)
  is_long <- runs$lengths >= RECURSIVE_FROM
  if (!any(is_long)) return(calls)
  runs$values[is_long] <- paste(runs$values[is_long], "(recursive)")
  runs$lengths[is_long] <- 1L
  inverse.rle(runs)
}

# Data frame: name, depth (1 is the lowest), left, right (numbers of samples).
flame_boxes <- function(calls, counts, from = NULL) {
  if (!is.null(from)) {
    check_needed(from, "`from`", is.character, "the name of a function")
    at <- vapply(calls, function(v) match(from, v), 1L)
    counts[is.na(at)] <- 0L
    calls <- .mapply(function(v, k) if (is.na(k)) v else v[k:length(v)], list(calls, at), NULL)
  }
  seen <- counts > 0L
  if (!any(seen)) throw("argument", "there are no samples to draw")
  calls <- lapply(calls[seen], fold_recursion)
  counts <- counts[seen]
  text <- vapply(calls, paste, "", collapse = "\r")
  order <- order(text, method = "radix")
  calls <- calls[order]
  right <- cumsum(counts[order])
  left <- right - counts[order]
  depth <- max(lengths(calls))
  boxes <- vector("list", depth)
  path <- rep("", length(calls))
  for (d in seq_len(depth)) {
    name <- vapply(calls, function(v) if (length(v) >= d) v[[d]] else NA_character_, "")
    path <- ifelse(is.na(name), NA_character_, paste0(path, "\r", name))
    # those next to each other with the same path
    changes <- c(TRUE, !mapply(identical, path[-1L], path[-length(path)], USE.NAMES = FALSE))
    first <- which(changes & !is.na(path))
    run <- cumsum(changes)
    last <- match(run[first], rev(run))
    last <- length(run) + 1L - last
    boxes[[d]] <- data.frame(name = name[first], depth = rep(d, length(first)),
                             left = left[first], right = right[last], stringsAsFactors = FALSE)
  }
  do.call(rbind, boxes)
}

# ---- drawing ----

# Light colours of the palette of Okabe and Ito, which the colour-blind can tell apart. Black text
# can be read on each of them. The same function has the same colour in each graph.
FLAME_COLOURS <- c("#F0C05A", "#8CC8F0", "#6CCFB0", "#F5EC8E", "#7FB5DC", "#EE9E6A", "#E3A9C8",
                   "#F7D79B", "#B9DFF7", "#A6E2D0")

flame_colours <- function(names) {
  shade <- vapply(names, function(name) {
    codes <- utf8ToInt(enc2utf8(name))
    if (anyNA(codes)) return(0)
    Reduce(function(h, code) (h * 31 + code) %% 65521, codes, 7)
  }, 1)
  colours <- FLAME_COLOURS[shade %% length(FLAME_COLOURS) + 1]
  colours[names %in% c("<GC>", COMPILER, OURS, TRUNCATED)] <- "grey85"
  colours
}

# The boxes of a very deep stack are as high as they can be; labels are left out where they are not
# high enough.
draw_flame <- function(boxes, all, main, xlab, cex, ...) {
  depth <- max(boxes$depth)
  old <- graphics::par(mar = c(3.2, 1.2, 2.2, 1.2), mgp = c(2, 0.6, 0))
  on.exit(graphics::par(old))
  graphics::plot.new()
  graphics::plot.window(c(0, max(boxes$right)), c(0, max(depth, 6L)), xaxs = "i", yaxs = "i")
  graphics::title(main = main, xlab = xlab, ...)
  ticks <- pretty(c(0, max(boxes$right) / all), 5L)
  ticks <- ticks[ticks * all <= max(boxes$right) * 1.0001]
  graphics::axis(1, ticks * all, paste0(format(100 * ticks), " %"), cex.axis = 0.9)
  wide <- graphics::grconvertX(boxes$right, "user", "inches") -
    graphics::grconvertX(boxes$left, "user", "inches")
  border <- ifelse(wide > 0.03, "white", NA)
  graphics::rect(boxes$left, boxes$depth - 1, boxes$right, boxes$depth,
                 col = flame_colours(boxes$name), border = border, lwd = 0.8)
  label_flame(boxes, wide, cex)
}

# In each box as much of its name as there is room for.
label_flame <- function(boxes, wide, cex) {
  high <- diff(graphics::grconvertY(c(0, 1), "user", "inches"))
  tall <- graphics::strheight("Mg", "inches", cex = 1)
  cex <- min(cex, 0.85 * high / tall)
  if (cex < 0.45) return(invisible())
  labels <- fitting(drawable(boxes$name), wide - 0.06, cex)
  shown <- nzchar(labels)
  if (!any(shown)) return(invisible())
  gap <- diff(graphics::grconvertX(c(0, 0.04), "inches", "user"))
  graphics::text(boxes$left[shown] + gap, boxes$depth[shown] - 0.5, labels[shown], adj = c(0, 0.5),
                 cex = cex)
}

# Letters that the device does not have are dots. R does this itself, with a warning or an error.
drawable <- function(names) {
  is_drawable <- function(name) {
    tryCatch(
      is.finite(graphics::strwidth(name, "inches")),
      error = function(e) FALSE,
      warning = function(w) FALSE
    )
  }
  odd <- !vapply(names, is_drawable, NA)
  names[odd] <- iconv(enc2utf8(names[odd]), "UTF-8", "ASCII", sub = ".")
  names
}

# Names that are cut off to the width: at least three letters, or nothing.
fitting <- function(names, wide, cex) {
  width <- function(text) graphics::strwidth(text, "inches", cex = cex)
  out <- ifelse(width(names) <= wide, names, "")
  for (i in which(!nzchar(out) & wide > width("abc..")[[1L]])) {
    n <- nchar(names[[i]]) - 1L
    keep <- max(3L, floor(n * wide[[i]] / width(names[[i]])))
    repeat {
      text <- paste0(substr(names[[i]], 1L, keep), "..")
      if (keep < 3L || width(text) <= wide[[i]]) break
      keep <- keep - 1L
    }
    if (keep >= 3L) out[[i]] <- text
  }
  out
}
