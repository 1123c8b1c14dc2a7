# cluster_report(): one file that says how a cluster is and what it has done.

#' One file about a cluster, to send to somebody
#'
#' Writes one HTML file that needs nothing else: no network, no scripts. It has
#' [cluster_status()] and [cluster_hosts()], what limits (see [cluster_trace()]), who did what when,
#' tasks a second, memory of the nodes over time, deaths, the slowest tasks, errors and warnings of
#' tasks by class, the session's last warnings, options and versions.
#'
#' Warnings are those that were relayed, see `.relay` of [cluster_map()].
#'
#' Runs nothing on the nodes.
#'
#' @section What is in it, and what is not: Names of hosts, process ids, labels of tasks, messages
#'   of errors and warnings are in it. Environment variables are not. Strings in labels are left
#'   out, and the path of your home is written as `~`. What your own messages say is written as it
#'   is: look at the file before you send it.
#' @param cl cluster made by [make_cluster()]. `NULL`: the session's own, see [own-cluster].
#' @param file string, the file to write. By default one in the session's temporary folder.
#' @param open logical: whether to open it in a browser.
#' @return `file`, invisibly.
#' @section Errors: `clutch_argument`: `cl` is no cluster, `file` no name of a file, or `open`
#'   neither `TRUE` nor `FALSE`.
#'   ```
#'   tryCatch(cluster_report(1), clutch_argument = conditionMessage)
#'   ```
#' @seealso [cluster_trace()], [write_trace()]
#' @examples
#' cl <- make_cluster(2)
#' cluster_walk(cl, c(0.1, 0.02, 0.05), Sys.sleep)
#' file <- cluster_report(cl, open = FALSE)
#' unlink(file)
#' stop_cluster(cl)
#' @export
cluster_report <- function(cl = NULL, file = tempfile("cluster-report-", fileext = ".html"),
                           open = interactive()) {
  if (is.null(cl)) cl <- own_cluster_as_is()
  check_cluster(cl)
  check_needed(file, "`file`", is_filled, "the name of a file")
  check_flag(open, "`open`")
  x <- trace_for_report(cl)
  status <- cluster_status(cl)
  body <- c(
    report_session(cl), report_limits(x), report_nodes(status), report_hosts(cl),
    html_section("Who did what when", svg_stream(x, length(cl))),
    html_section("Tasks that ended", svg_throughput(x)),
    report_memory(x, length(cl)), report_jobs(x), report_slowest(x), report_errors(cl, x),
    report_deaths(x), report_warnings(cl),
    report_options(), report_versions()
  )
  page <- without_home(html_page("Report of a clutch cluster", body))
  con <- base::file(file, "wb")
  on.exit(close(con))
  writeLines(page, con, useBytes = TRUE)
  if (open) utils::browseURL(file)
  invisible(file)
}

# There is no trace of a cluster that was stopped, or that has not been used for tasks.
trace_for_report <- function(cl) {
  none <- data.frame(job = numeric(), label = character(), element = numeric(), node = numeric(),
                     began = numeric(), ended = numeric(), received = numeric(), run = numeric(),
                     bytes = numeric(), ok = logical(), end = character())
  if (!length(cl) || is.null(info_of(cl)$tasks)) return(none)
  x <- tryCatch(cluster_trace(cl), clutch_stopped = function(e) none)
  x$label <- without_strings(x$label)
  x
}

# Passwords are written as strings.
without_strings <- function(x) gsub("\"([^\"\\\\]|\\\\.)*(\"|$)", "\"...\"", x)

without_home <- function(x) {
  home <- unique(c(path.expand("~"), Sys.getenv("HOME"), normalizePath("~", mustWork = FALSE)))
  for (h in home[nchar(home) > 1L]) x <- gsub(html_text(h), "~", x, fixed = TRUE)
  x
}

# ---- sections ----

facts_table <- function(...) {
  facts <- list(...)
  facts <- facts[lengths(facts) > 0L]
  data.frame(what = names(facts), is = vapply(facts, function(f) paste(f, collapse = ", "), ""),
             stringsAsFactors = FALSE)
}

report_session <- function(cl) {
  info <- if (length(cl)) info_of(cl)
  html_section("Session", html_table(facts_table(
    written = format(Sys.time(), "%Y-%m-%d %H:%M:%S %Z"),
    clutch = format(utils::packageVersion("clutch")),
    R = R.version.string,
    platform = R.version$platform,
    host = Sys.info()[["nodename"]],
    pid = Sys.getpid(),
    nodes = length(cl),
    strategy = info$strategy,
    started = if (!is.null(info$started)) format(info$started, "%Y-%m-%d %H:%M:%S %Z"),
    `packages of nodes` = info$plan$packages
  )))
}

report_limits <- function(x) {
  s <- if (inherits(x, "clutch_trace") && nrow(x)) summary(x)
  if (is.null(s))
    return(html_section("What limits", "<p class=\"none\">No task has ended yet.</p>"))
  about <- sprintf("Tasks: %d, of which %d failed, in %.3f s. Nodes: %d, idle in %.1f %% of it.",
                   s$tasks, s$failed, s$span, length(s$busy), 100 * s$idle)
  found <- paste0("<li><b>", html_text(sub("_", " ", s$limits$what)), "</b>: ",
                  html_text(s$limits$measured), ". ", html_text(s$limits$advice), ".</li>")
  html_section("What limits", sprintf("<p class=\"note\">%s</p>", about),
               if (nrow(s$limits)) c("<ul>", found, "</ul>") else "<p>Nothing.</p>")
}

report_nodes <- function(status) {
  status$pid <- as.character(status$pid)
  status$started <- format(status$started, "%Y-%m-%d %H:%M:%S")
  names(status)[names(status) == "cpu"] <- "processor time (s)"
  names(status)[names(status) == "memory"] <- "own memory (MB)"
  html_section("Nodes", html_table(status, "no nodes"))
}

report_hosts <- function(cl) {
  if (!length(cl) || is.null(info_of(cl)$remote$link)) return(NULL)
  hosts <- cluster_hosts(cl)
  hosts$since <- format(hosts$since, "%Y-%m-%d %H:%M:%S")
  html_section("Hosts", html_table(hosts))
}

report_memory <- function(x, nodes) {
  memory <- attr(x, "memory")
  if (is.null(memory) || !nrow(memory)) return(NULL)
  known <- memory_of_nodes(memory)
  names(known) <- c("node", "at first (MB)", "at most (MB)", "at last (MB)")
  known <- utils::head(known[order(known[[3L]], decreasing = TRUE), , drop = FALSE], 20L)
  together <- paste(
    "Counted is what a node has written and shares with nobody, as in the table of nodes: not what",
    "it has in common with its fork server, nor shared vectors that it reads.",
    sprintf("All together had at most %.0f MB.", most_together(memory))
  )
  machine <- attr(x, "machine_memory")
  if (!is.na(machine)) together <- paste(together, sprintf("This machine has %.0f MB.", machine))
  html_section("Memory of nodes", svg_memory(memory, nodes),
               sprintf("<p class=\"note\">%s</p>", together), html_table(known))
}

report_jobs <- function(x) {
  if (!nrow(x)) return(NULL)
  job <- factor(x$job, unique(x$job))
  by_job <- function(v, f) as.vector(tapply(v, job, f, na.rm = TRUE))
  jobs <- data.frame(
    job = as.numeric(levels(job)), label = x$label[!duplicated(x$job)],
    tasks = as.vector(table(job)), failed = by_job(!x$ok, sum),
    `median of a task (s)` = by_job(x$run, stats::median),
    `longest (s)` = by_job(x$run, function(v, na.rm) max(c(v[!is.na(v)], 0))),
    `all (s)` = by_job(x$run, sum), `answers (MB)` = by_job(x$bytes, sum) / 1e6,
    check.names = FALSE, stringsAsFactors = FALSE
  )
  html_section("The last jobs", html_table(utils::tail(jobs, 20L)))
}

report_slowest <- function(x) {
  x <- x[!is.na(x$run), , drop = FALSE]
  x <- utils::head(x[order(x$run, decreasing = TRUE), , drop = FALSE], 10L)
  html_section("Slowest tasks", html_table(data.frame(
    job = x$job, label = x$label, element = x$element, node = x$node, `run (s)` = x$run,
    `answer (bytes)` = x$bytes, end = x$end, check.names = FALSE, stringsAsFactors = FALSE
  ), "no tasks"))
}

report_errors <- function(cl, x) {
  ends <- table(x$end[!x$ok])
  errors <- if (length(cl)) info_of(cl)$tasks$errors
  known <- counts_table(errors, "errors")
  failed <- data.frame(`tasks that have failed` = as.character(names(ends)),
                       number = as.vector(ends), check.names = FALSE, stringsAsFactors = FALSE)
  html_section("Errors", html_table(failed, "No task has failed."),
               if (nrow(known)) html_table(known))
}

# `counts`: see counted(); `what`: what they are of.
counts_table <- function(counts, what) {
  x <- data.frame(
    class = as.character(names(counts)),
    count = vapply(counts, function(e) e$count, 1, USE.NAMES = FALSE),
    says = vapply(counts, function(e) e$message, "", USE.NAMES = FALSE),
    stringsAsFactors = FALSE
  )
  names(x) <- c("class", what, "the first says")
  x
}

report_deaths <- function(x) {
  deaths <- attr(x, "deaths")
  if (is.null(deaths)) deaths <- data.frame()
  if (nrow(deaths)) deaths <- data.frame(
    at = format(attr(x, "origin") + deaths$time, "%H:%M:%S"), node = deaths$node,
    host = deaths$host, how = deaths$how, stringsAsFactors = FALSE
  )
  html_section("Deaths of nodes", html_table(deaths, "none that tasks have met"))
}

report_warnings <- function(cl) {
  warnings <- if (length(cl)) info_of(cl)$tasks$warnings
  last <- names(get0("last.warning", envir = baseenv(), inherits = FALSE))
  c(html_section("Warnings of tasks", html_table(counts_table(warnings, "warnings"))),
    html_section("Last warnings of the session",
               html_table(data.frame(warning = utils::head(as.character(last), 50L)))))
}

# The report has only the kind of options that may have anything in them.
report_options <- function() {
  all <- options()
  all <- all[grepl("^clutch[.]", names(all)) | names(all) %in% c("mc.cores", "warn")]
  text <- vapply(all, function(o) {
    if (is.atomic(o) && length(o) <= 10L)
      return(paste(format(o, scientific = FALSE), collapse = ", "))
    sprintf("<%s>", class(o)[[1L]])
  }, "")
  html_section("Options", html_table(data.frame(option = as.character(names(all)), value = text,
                                                stringsAsFactors = FALSE)))
}

report_versions <- function() {
  text <- tryCatch(utils::capture.output(print(utils::sessionInfo(), locale = FALSE)),
                   error = conditionMessage)
  html_section("Versions", "<pre>", html_text(text), "</pre>")
}
