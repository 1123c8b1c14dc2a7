# cluster_dashboard() of a real cluster: the page tells what the cluster is, whatever the session
# does, and is served by an observer that nobody depends on.

skip_if_not_installed("httpuv")
skip_if_not_installed("jsonlite")
outside_checks_only()
linux_only()

# What a page is told now.
seen <- function(page, id = 1) {
  con <- url(sub("/[?]", sprintf("/events?page=%d&", id), page$url))
  on.exit(close(con))
  lines <- readLines(con, warn = FALSE, encoding = "UTF-8")
  text <- sub("^data: ", "", grep("^data: ", lines, value = TRUE))
  x <- jsonlite::fromJSON(text, simplifyDataFrame = FALSE)
  news <- lapply(x$news, function(n) n$tasks)
  list(state = c(x$tables, x["session"]), tasks = Filter(function(t) length(t$node), news))
}
answers <- function(page) !is.null(tryCatch(suppressWarnings(seen(page)), error = function(e) NULL))
observers_of <- function(cl) {
  server <- server_pid(cl)
  kids <- scan(sprintf("/proc/%d/task/%d/children", server, server), quiet = TRUE)
  setdiff(kids, pids(cl))
}

test_that("the page says what cluster_status() and cluster_trace() say", {
  cl <- make_cluster(3)
  on.exit(stop_cluster(cl))
  page <- cluster_dashboard(cl, open = FALSE)
  expect_s3_class(page, "clutch_dashboard")
  expect_output(print(page), page$url, fixed = TRUE)
  expect_false(withVisible(cluster_dashboard(cl, open = FALSE))$visible)
  suppressWarnings(cluster_map(cl, 1:7, function(i) if (i == 3) stop("no") else Sys.sleep(0.01),
                               .on_error = "continue", .chunk = 1))
  told <- seen(page)
  status <- cluster_status(cl)
  nodes <- told$state$nodes
  expect_identical(nodes$pid, status$pid)
  expect_identical(nodes$state, status$state)
  expect_identical(as.numeric(nodes$done + nodes$failed), status$tasks)
  trace <- as.data.frame(cluster_trace(cl))
  tasks <- as.data.frame(told$tasks[[1L]])
  at <- match(trace$element, tasks$element)
  expect_identical(sort(tasks$element), 1:7)
  expect_identical(as.numeric(tasks$node[at]), trace$node)
  expect_identical(tasks$ok[at], trace$ok)
  jobs <- told$state$jobs
  expect_equal(c(jobs$total, jobs$done, jobs$failed), c(7, 6, 1))
  expect_identical(told$state$session$pid, Sys.getpid())
  # the same page for the second call; the cluster stopped: said so
  expect_identical(cluster_dashboard(cl, open = FALSE)$url, page$url)
  expect_false(told$state$clusters$stopped)
  stop_cluster(cl)
  expect_true(eventually(isTRUE(seen(page)$state$clusters$stopped)))
  expect_error(cluster_dashboard(cl), class = "clutch_stopped")
})

test_that("an observer that was killed is not missed, and comes back at the same address", {
  cl <- make_cluster(2)
  on.exit(stop_cluster(cl))
  page <- cluster_dashboard(cl, open = FALSE)
  # those of earlier clusters end with these
  expect_true(eventually({
    gc()
    length(observers_of(cl)) == 1L
  }))
  tools::pskill(observers_of(cl), 9L)
  expect_true(eventually(!length(observers_of(cl))))
  expect_false(answers(page))
  expect_identical(cluster_map_int(cl, 1:3, identity), 1:3)
  expect_true(works(cl))
  again <- cluster_dashboard(cl, open = FALSE)
  expect_identical(again$url, page$url)
  expect_identical(seen(again)$state$nodes$pid, pids(cl))
  # at another port: only one is left
  other <- cluster_dashboard(cl, open = FALSE, port = clutch:::port_to_serve(0))
  expect_false(other$url == page$url)
  expect_true(answers(other))
  expect_true(eventually(length(observers_of(cl)) == 1L))
  expect_false(answers(page))
})

test_that("the page answers while the session computes and is stopped, and ends with it", {
  s <- start_script(c(
    "cl <- make_cluster(2)",
    "cat('url=', cluster_dashboard(cl, open = FALSE)$url, '\\n', sep = '')",
    "t <- cluster_submit(cl, Sys.sleep(600))",
    "cat('begun\\n')",
    "repeat NULL"
  ))
  expect_true(said(s, "^begun"))
  page <- list(url = value_of(s, "url"))
  expect_true(eventually("busy" %in% seen(page)$state$nodes$state))
  expect_true(eventually(seen(page)$state$session$state == "running"))
  tools::pskill(s$pid, tools::SIGSTOP)
  expect_true(eventually(seen(page)$state$session$state == "stopped"))
  expect_setequal(seen(page)$state$nodes$state, c("busy", "idle"))
  tools::pskill(s$pid, 9L)
  expect_true(eventually(!answers(page)))
  expect_true(ends(s))
})

test_that("it opens in an IDE's pane, else in the browser, else the address is shown", {
  cl <- make_cluster(1)
  opened <- NULL
  old <- options(viewer = function(url) opened <<- url, browser = function(url) opened <<- url)
  on.exit({
    options(old)
    stop_cluster(cl)
  })
  page <- cluster_dashboard(cl, open = TRUE)
  expect_identical(opened, page$url)
  options(viewer = NULL)
  cluster_dashboard(cl, open = TRUE)
  # what all users can read in the list of processes is good for once
  expect_match(opened, "/\\?ticket=[0-9a-f]{32}$")
  get <- function() {
    tryCatch(readLines(opened, warn = FALSE), warning = function(w) NULL, error = function(e) NULL)
  }
  first <- get() # expect_match() would evaluate it twice
  expect_match(first, "<title>clutch on ", all = FALSE)
  expect_null(get())
  for (none in list("", NULL, function(url) stop("no display"))) {
    options(browser = none)
    expect_message(cluster_dashboard(cl, open = TRUE), "The dashboard is at", fixed = TRUE)
  }
  options(browser = function(url) stop("not to be called"))
  expect_silent(cluster_dashboard(cl, open = FALSE))
})

test_that("arguments of no use are errors, and the cluster is as it was", {
  cl <- make_cluster(1)
  on.exit(stop_cluster(cl))
  expect_error(cluster_dashboard("cl"), class = "clutch_argument")
  expect_error(cluster_dashboard(cl, open = NA), class = "clutch_argument")
  for (port in list(-1, 65536, 1.5, NA, "80", 1:2, NULL)) {
    expect_error(cluster_dashboard(cl, open = FALSE, port = port), class = "clutch_argument")
  }
  taken <- socket_listen(0, "127.0.0.1", slot = FALSE)
  port <- socket_info(taken)$local_port
  e <- tryCatch(cluster_dashboard(cl, open = FALSE, port = port), clutch_error = identity)
  expect_s3_class(e, "clutch_socket_in_use")
  expect_match(conditionMessage(e), as.character(port), fixed = TRUE)
  fds <- length(list.files("/proc/self/fd"))
  for (k in 1:3) tryCatch(cluster_dashboard(cl, open = FALSE, port = port), error = identity)
  expect_length(list.files("/proc/self/fd"), fds) # each is an observer: there may be 32
  close(taken)
  expect_true(answers(cluster_dashboard(cl, open = FALSE, port = port)))
})
