# Files of a profile, for programs that show it.

#' Write a profile to a file
#'
#' For [speedscope](https://www.speedscope.app), package profvis, and whatever else reads the files
#' of [utils::Rprof()].
#'
#' * `.json`: speedscope's format, with a profile for each node. Open the file on its page, which
#'   sends it nowhere, or by the program `speedscope`.
#' * Any other: the format of [utils::Rprof()], with all nodes in turn. The outermost function of
#'   each stack is the node, as `node_1` or `node_1@host`. Show it by
#'   `profvis::profvis(prof_input = file)`, or [utils::summaryRprof()].
#'
#' @param x Profile: value of [cluster_profile()].
#' @param file Character: path of the file. It is overwritten.
#' @param node Integer vector: only these nodes; 0 is the session. `NULL`: all of them.
#' @return `file`, invisibly.
#' @section Errors: `clutch_argument`: `x` is no profile, `file` no path, or there are no samples.
#'   It has class `clutch_error`. A file that cannot be written is an error of R's.
#'   ```r
#'   tryCatch(write_profile(p, "p.json", node = 9), clutch_argument = conditionMessage)
#'   ```
#' @seealso [cluster_profile()], [plot.clutch_profile()]
#' @examples
#' cl <- make_cluster(2)
#' p <- cluster_profile(cl, cluster_map(cl, 1:10, function(i) sum(sort(runif(2e5)))))
#' file <- tempfile(fileext = ".json")
#' write_profile(p, file)
#'
#' file <- tempfile(fileext = ".Rprof")
#' write_profile(p, file)
#' head(utils::summaryRprof(file)$by.self)
#' if (interactive() && requireNamespace("profvis", quietly = TRUE)) {
#'   profvis::profvis(prof_input = file)
#' }
#' stop_cluster(cl)
#' @export
write_profile <- function(x, file, node = NULL) {
  if (!inherits(x, "clutch_profile")) has_to_be("`x`", "a profile made by cluster_profile()")
  check_needed(file, "`file`", is_filled, "the path of a file")
  samples <- samples_of(x, node)
  if (!nrow(samples)) throw("argument", "there are no samples to write")
  is_json <- grepl("[.]json$", file, ignore.case = TRUE)
  lines <- if (is_json) speedscope_of(x, samples) else rprof_of(x, samples)
  writeLines(enc2utf8(lines), file, useBytes = TRUE)
  invisible(file)
}

# ---- speedscope ----

# See https://www.speedscope.app/file-format-schema.json. A frame is a function with its file.
speedscope_of <- function(x, samples) {
  calls <- x$stacks$calls
  files <- lapply(x$stacks$at, function(v) sub(":[0-9]+$", "", v))
  keys <- .mapply(paste, list(calls, files), list(sep = "\r"))
  all <- unlist(keys)
  frames <- which(!duplicated(all))
  number <- match(all, all[frames]) - 1L
  text <- paste0("[", vapply(split(number, rep(seq_along(keys), lengths(keys))), paste, "",
                             collapse = ","), "]")
  file <- unlist(files)[frames]
  frame_text <- paste0("{\"name\":", json_strings(unlist(calls)[frames]),
                       ifelse(nzchar(file), paste0(",\"file\":", json_strings(file)), ""), "}")
  nodes <- sort(unique(samples$node))
  profiles <- vapply(nodes, function(k) {
    speedscope_profile(x, k, samples$stack[samples$node == k], text)
  }, "")
  paste0("{\"$schema\":\"https://www.speedscope.app/file-format-schema.json\",",
         "\"name\":\"cluster_profile\",\"exporter\":\"clutch\",\"activeProfileIndex\":0,",
         "\"shared\":{\"frames\":[", paste(frame_text, collapse = ","), "]},",
         "\"profiles\":[", paste(profiles, collapse = ",\n"), "]}")
}

# Equal samples that follow each other are one, with their weight.
speedscope_profile <- function(x, node, stacks, text) {
  runs <- rle(stacks)
  each <- seconds_of_sample(x, node)
  weights <- sprintf("%.9g", runs$lengths * each)
  paste0("{\"type\":\"sampled\",\"name\":", json_strings(node_label(x, node)),
         ",\"unit\":\"seconds\",\"startValue\":0,\"endValue\":",
         sprintf("%.9g", sum(as.numeric(weights))),
         ",\"samples\":[", paste(text[runs$values], collapse = ","),
         "],\"weights\":[", paste(weights, collapse = ","), "]}")
}

# A sample of this node stands for so many seconds: the system may take fewer than it was told.
seconds_of_sample <- function(x, node) {
  at <- match(node, x$nodes$node)
  each <- x$nodes$cpu[[at]] / x$nodes$samples[[at]]
  if (is.finite(each) && each > 0) each else x$interval
}

node_label <- function(x, node) {
  if (node == 0L) return("session")
  host <- x$nodes$host[[match(node, x$nodes$node)]]
  hosts <- unique(x$nodes$host)
  if (length(hosts) > 1L) sprintf("node %d on %s", node, host) else sprintf("node %d", node)
}

# ---- Rprof() ----

# One interval for all nodes: what a sample stands for on the whole.
rprof_of <- function(x, samples) {
  nodes <- sort(unique(samples$node))
  # who reads such files splits lines at spaces
  labels <- gsub(" ", "_", sub(" on ", "@", vapply(nodes, function(k) node_label(x, k), "")))
  paths <- unique(unlist(lapply(x$stacks$at, function(v) sub(":[0-9]+$", "", v))))
  paths <- paths[nzchar(paths)]
  text <- vapply(seq_along(x$stacks$calls), function(i) {
    rprof_stack(x$stacks$calls[[i]], x$stacks$at[[i]], paths)
  }, "")
  cpu <- vapply(nodes, function(k) seconds_of_sample(x, k) * sum(samples$node == k), 1)
  interval <- max(round(1e6 * sum(cpu) / nrow(samples)), 1)
  prefix <- ""
  if (!is.null(samples$memory)) # of vectors, in words
    prefix <- sprintf(":0:%.0f:0:0:", samples$memory * 2^20 / 8)
  kind <- if (!is.null(samples$memory)) "memory profiling: "
  header <- sprintf("%sGC profiling: line profiling: sample.interval=%.0f", paste0(kind, ""),
                    interval)
  label <- labels[match(samples$node, nodes)]
  c(header, if (length(paths)) sprintf("#File %d: %s", seq_along(paths), paths),
    paste0(prefix, text[samples$stack], "\"", label, "\" "))
}

# The line is as Rprof() writes it: the innermost first, and before it where it is.
rprof_stack <- function(calls, at, paths) {
  file <- match(sub(":[0-9]+$", "", at), paths)
  place <- ifelse(is.na(file), "", paste0(file, "#", sub("^.*:", "", at), " "))
  paste0(rev(paste0(place, "\"", calls, "\" ")), collapse = "")
}
