# Traces as files of Chrome's trace event format, which Perfetto and chrome://tracing show.

#' Write a trace for Perfetto or chrome://tracing
#'
#' Writes a file in Chrome's trace event format (JSON). Open it at <https://ui.perfetto.dev>, which
#' reads it in the browser and sends it nowhere. <https://www.speedscope.app> shows one thread at a
#' time of it; Chromium reads it at `chrome://tracing`, where such pages are enabled.
#'
#' What is in it, with times in microseconds since the first thing that is known:
#' * a process for each host and in it a thread for each node. Its events are the tasks, with the
#'   label of their job as name and job, element, attempt, size of the answer, how they ended and
#'   the lengths of their phases as arguments, and before each task its phase `wire`
#' * a thread for each node with the phase `answer`, where an answer waits only for itself: from the
#'   end of the task, or of the answer before it
#' * a process for the session with an event for each job, and counters of tasks that are queued and
#'   of tasks that run
#' * for each node of this machine a counter of the memory that is its own, in MB
#'
#' @param x trace: value of [cluster_trace()]; or a cluster, `NULL` for the session's own.
#' @param file string, the file to write. Its folder has to be there.
#' @return `file`, invisibly.
#' @section Errors: `clutch_argument`: `x` is no trace, or `file` no name of a file.
#'   ```
#'   tryCatch(write_trace(cl, NA), clutch_argument = conditionMessage)
#'   ```
#'   A file that cannot be written is an error of [file()].
#' @seealso [cluster_trace()] for the phases, [cluster_report()]
#' @examples
#' cl <- make_cluster(2)
#' cluster_walk(cl, c(0.1, 0.02, 0.05), Sys.sleep)
#' file <- tempfile(fileext = ".json")
#' write_trace(cluster_trace(cl), file)
#' unlink(file)
#' stop_cluster(cl)
#' @export
write_trace <- function(x, file) {
  if (is.null(x) || inherits(x, "clutch_cluster")) x <- cluster_trace(x)
  if (!inherits(x, "clutch_trace"))
    has_to_be("`x`", "a trace, as cluster_trace() makes it, or a cluster")
  check_needed(file, "`file`", is_filled, "the name of a file")
  con <- base::file(file, "wb")
  on.exit(close(con))
  x <- without_negative_times(x)
  events <- c(process_events(x), job_events(x), task_events(x), counter_events(x),
              memory_events(x))
  started <- attr(x, "origin")
  writeLines(c(
    "{\"displayTimeUnit\": \"ms\",",
    sprintf("\"otherData\": {\"program\": \"clutch %s\", \"started\": %s},",
            utils::packageVersion("clutch"),
            json_text(if (is.null(started)) "" else format(started, "%Y-%m-%d %H:%M:%OS3"))),
    "\"traceEvents\": [",
    paste0(events, ifelse(seq_along(events) < length(events), ",", "")),
    "]}"
  ), con, useBytes = TRUE)
  invisible(file)
}

# In a trace 0 is when the first task was sent. Its job has begun before, and Perfetto drops what
# has a negative time.
without_negative_times <- function(x) {
  memory <- attr(x, "memory")
  is_at_node <- x$node > 0
  times <- c(unlist(unclass(x)[TIMES]), (x$began - x$wire)[is_at_node], memory$time)
  first <- min(0, times, na.rm = TRUE)
  for (n in intersect(TIMES, names(x))) x[[n]] <- x[[n]] - first
  if (!is.null(memory)) {
    memory$time <- memory$time - first
    attr(x, "memory") <- memory
  }
  if (!is.null(attr(x, "origin"))) attr(x, "origin") <- attr(x, "origin") + first
  x
}

# ---- numbers of processes and threads ----

# The session is process 1, hosts are those behind it. Nodes have their numbers as threads, and for
# answers 100,000 more.
ANSWERS <- 1e5

host_numbers <- function(x) {
  hosts <- unique(x$host[x$node > 0])
  1 + match(x$host, hosts)
}

process_events <- function(x) {
  about <- function(name, pid, tid, argument) {
    sprintf("{\"ph\": \"M\", \"name\": \"%s\", \"pid\": %.0f, \"tid\": %.0f, \"args\": {%s}}", name,
            pid, tid, argument)
  }
  nodes <- x[x$node > 0 & !duplicated(x$node), , drop = FALSE]
  pid <- host_numbers(nodes)
  named <- function(text) sprintf("\"name\": %s", json_text(text))
  is_first <- !duplicated(pid)
  sorted <- function(k) sprintf("\"sort_index\": %.0f", k)
  c(
    about("process_name", 1, 0, named("session")),
    about("process_sort_index", 1, 0, sorted(1)),
    about("process_name", pid[is_first], rep(0, sum(is_first)),
          named(paste("host", nodes$host[is_first]))),
    about("thread_name", pid, nodes$node, named(sprintf("node %.0f", nodes$node))),
    about("thread_sort_index", pid, nodes$node, sorted(nodes$node)),
    about("thread_name", pid, nodes$node + ANSWERS,
          named(sprintf("node %.0f: answers", nodes$node))),
    about("thread_sort_index", pid, nodes$node + ANSWERS, sorted(nodes$node + ANSWERS))
  )
}

# ---- events ----

# Complete events: `from`, `to` in seconds. `args`: members of an object, as text.
complete_events <- function(name, category, pid, tid, from, to, args) {
  sprintf(paste0("{\"ph\": \"X\", \"name\": %s, \"cat\": \"%s\", \"pid\": %.0f, \"tid\": %.0f, ",
                 "\"ts\": %.3f, \"dur\": %.3f, \"args\": {%s}}"),
          json_text(name), category, pid, tid, 1e6 * from, 1e6 * pmax(to - from, 0), args)
}

task_events <- function(x) {
  pid <- host_numbers(x)
  is_at_node <- x$node > 0
  x <- x[is_at_node, , drop = FALSE]
  pid <- pid[is_at_node]
  if (!nrow(x)) return(character())
  args <- sprintf(paste0("\"job\": %.0f, \"element\": %.0f, \"attempt\": %.0f, \"bytes\": %.0f, ",
                         "\"end\": %s, \"queue\": %s, \"wire\": %s, \"run\": %s, \"answer\": %s"),
                  x$job, x$element, x$attempt, x$bytes, json_text(x$end), json_us(x$queue),
                  json_us(x$wire), json_us(x$run), json_us(x$answer))
  run <- complete_events(event_name(x), ifelse(x$ok, "task", "task,failed"), pid, x$node, x$began,
                         until_next(x), args)
  few <- sprintf("\"job\": %.0f, \"element\": %.0f", x$job, x$element)
  wire <- complete_events("wire", "wire", pid, x$node, x$began - x$wire, x$began, few)
  before <- x$ended
  o <- order(x$node, x$received)
  last <- c(-Inf, x$received[o][-nrow(x)])
  last[!duplicated(x$node[o])] <- -Inf
  before[o] <- pmin(pmax(x$ended[o], last), x$received[o])
  answer <- complete_events("answer", "answer", pid, x$node + ANSWERS, before, x$received, few)
  c(run, wire[!is.na(x$wire) & x$wire > 0], answer[!is.na(x$answer) & x$received > before])
}

# When tasks ended, but not after the next one of their node began: of the quickest tasks both are
# estimated, and spans of a thread must not overlap.
until_next <- function(x) {
  o <- order(x$node, x$began)
  following <- c(x$began[o][-1L], Inf)
  following[!duplicated(x$node[o], fromLast = TRUE)] <- Inf
  ended <- x$ended
  ended[o] <- pmin(ended[o], following)
  ended
}

event_name <- function(x) ifelse(nzchar(x$label), x$label, sprintf("job %.0f", x$job))

# Jobs that overlap are on different threads.
job_events <- function(x) {
  if (!nrow(x)) return(character())
  first <- x[!duplicated(x$job), , drop = FALSE]
  at <- match(x$job, first$job)
  from <- first$queued
  to <- as.vector(tapply(x$received, factor(at, seq_len(nrow(first))), max))
  o <- order(from)
  row <- integer(nrow(first))
  row_ends <- numeric()
  for (k in o) {
    free <- match(TRUE, row_ends <= from[[k]], nomatch = length(row_ends) + 1L)
    row_ends[[free]] <- to[[k]]
    row[[k]] <- free
  }
  args <- sprintf("\"job\": %.0f, \"tasks\": %d", first$job, tabulate(at, nrow(first)))
  complete_events(event_name(first), "job", 1, row, from, to, args)
}

# At most so many points of a counter: more than a screen has.
COUNTER_POINTS <- 5000L

counter_events <- function(x) {
  x <- x[!is.na(x$run), , drop = FALSE]
  c(counter("queued tasks", x$queued, x$began), counter("running tasks", x$began, x$ended))
}

# How many have begun by `from` and not ended by `to`.
counter <- function(name, from, to) {
  if (!length(from)) return(character())
  at <- sort(unique(c(from, to)))
  if (length(at) > COUNTER_POINTS)
    at <- at[unique(round(seq(1, length(at), length.out = COUNTER_POINTS)))]
  n <- findInterval(at, sort(from)) - findInterval(at, sort(to))
  sprintf(paste0("{\"ph\": \"C\", \"name\": %s, \"pid\": 1, \"tid\": 0, \"ts\": %.3f, ",
                 "\"args\": {\"tasks\": %d}}"), json_text(name), 1e6 * at, n)
}

# At its host, whose number is that of a node that has done something.
memory_events <- function(x) {
  memory <- attr(x, "memory")
  pid <- host_numbers(x)[match(memory$node, x$node)]
  memory <- memory[!is.na(pid), , drop = FALSE]
  if (is.null(memory) || !nrow(memory)) return(character())
  memory <- memory[order(memory$time), , drop = FALSE]
  pid <- host_numbers(x)[match(memory$node, x$node)]
  sprintf(paste0("{\"ph\": \"C\", \"name\": \"memory of node %.0f\", \"pid\": %.0f, \"tid\": 0, ",
                 "\"ts\": %.3f, \"args\": {\"MB\": %.2f}}"),
          memory$node, pid, 1e6 * memory$time, memory$memory)
}

# ---- JSON ----

json_us <- function(seconds) ifelse(is.na(seconds), "null", sprintf("%.3f", 1e6 * seconds))

# Strings of JSON, in UTF-8. Of many equal ones each is made once.
json_text <- function(x) {
  all <- unique(x)
  text <- enc2utf8(as.character(all))
  text[is.na(text)] <- "NA"
  bad <- !validUTF8(text)
  text[bad] <- iconv(text[bad], "UTF-8", "UTF-8", sub = "?")
  text <- gsub("\\", "\\\\", text, fixed = TRUE)
  text <- gsub("\"", "\\\"", text, fixed = TRUE)
  for (k in unique(unlist(lapply(text, function(s) grep_control(s))))) {
    text <- gsub(intToUtf8(k), sprintf("\\u%04x", k), text, fixed = TRUE)
  }
  paste0("\"", text, "\"")[match(x, all)]
}

grep_control <- function(s) {
  code <- utf8ToInt(s)
  code[code < 32L | code == 127L]
}
