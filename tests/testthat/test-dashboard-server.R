# What the dashboard's server answers, and whom; how much it keeps.

skip_if_not_installed("httpuv")
skip_if_not_installed("jsonlite")

dashboard <- function(take = function(since) example_snapshot(since = since), ...) {
  clutch:::open_dashboard(take, title = "a <b> & \"c\"", ...)
}

# Sends a request and lets the server answer: list(status, headers, body).
ask <- function(d, path = "/", token = d$token, host = d$host, headers = NULL, method = "GET",
                body = "") {
  con <- socket_connect("127.0.0.1", d$port, slot = FALSE)
  on.exit(close(con))
  target <- if (is.null(token)) path else paste0(path, if (grepl("?", path, fixed = TRUE)) "&" else
    "?", "token=", token)
  lines <- c(sprintf("%s %s HTTP/1.1", method, target), if (!is.null(host)) paste("Host:", host),
             headers, "Connection: close", "", body)
  socket_write(con, charToRaw(paste(lines, collapse = "\r\n")))
  got <- raw()
  repeat {
    clutch:::dashboard_step(d, 0.002)
    # it need not read what it has refused
    some <- tryCatch(socket_read(con, 1e6), clutch_socket_reset = function(e) NULL)
    if (is.null(some)) break
    got <- c(got, some)
  }
  # in bytes: after a refusal httpuv may close a WebSocket, too
  text <- strsplit(rawToChar(got), "\r\n\r\n", fixed = TRUE, useBytes = TRUE)[[1L]]
  head <- strsplit(text[[1L]], "\r\n", fixed = TRUE)[[1L]]
  list(status = as.integer(strsplit(head[[1L]], " ")[[1L]][[2L]]), headers = head[-1L],
       body = paste(text[-1L], collapse = "\r\n\r\n"))
}
status <- function(...) ask(...)$status
event <- function(d, page = "p", ...) {
  a <- ask(d, paste0("/events?page=", page), ...)
  stopifnot(a$status == 200L)
  field <- function(name) sub(".*: ", "", grep(paste0("^", name, ": "), lines, value = TRUE))
  lines <- sub("^data: ", "", strsplit(a$body, "\n", fixed = TRUE)[[1L]])
  text <- sub("(?s).*\ndata: ", "", sub("\n\n$", "", a$body), perl = TRUE)
  list(retry = as.numeric(field("retry")), id = as.numeric(field("id")), event = field("event"),
       data = jsonlite::fromJSON(text, simplifyDataFrame = FALSE, simplifyMatrix = FALSE),
       headers = a$headers)
}
# The tasks that an event tells of, as text.
told <- function(e) unlist(lapply(e$data$news, function(x) task_key(x$tasks)))
task_key <- function(x) paste(x$cluster, x$node, x$element)

test_that("who has no token, or asks for another address, is told nothing", {
  d <- dashboard()
  on.exit(clutch:::close_dashboard(d))
  expect_match(d$url, sprintf("^http://127\\.0\\.0\\.1:%d/\\?token=[0-9a-f]{32}$", d$port))
  expect_identical(status(d), 200L)
  files <- paste0("/", names(clutch:::dashboard_files))
  for (path in c("/", "/events", "/nothing", files)) {
    for (token in list(NULL, "", "x", strrep("0", 32), toupper(d$token), paste0(d$token, "0"))) {
      a <- ask(d, path, token)
      expect_identical(a$status, 403L, info = paste(path, token))
      expect_identical(a$body, "")
      names <- tolower(sub(":.*", "", a$headers))
      expect_setequal(names, c("date", "connection", "cache-control", "content-length"))
    }
  }
  hosts <- list(NULL, "", "localhost", "127.0.0.1", paste0("localhost:", d$port), "evil.example",
                paste0("evil.example:", d$port), paste0("127.0.0.1:", d$port + 1L))
  for (host in hosts) expect_identical(status(d, host = host), 403L, info = host)
  expect_false(clutch:::new_token() == clutch:::new_token())
})

test_that("a ticket leads to the page once", {
  d <- dashboard()
  on.exit(clutch:::close_dashboard(d))
  ticket <- function() sub("^.*/", "/", clutch:::new_ticket(d))
  path <- ticket()
  expect_no_match(path, d$token)
  expect_identical(status(d, path, NULL, host = "evil.example"), 403L)
  expect_identical(status(d, path, NULL, headers = "Origin: http://evil.example"), 403L)
  expect_identical(status(d, sub("/", "/events", path), NULL), 403L)
  a <- ask(d, path, NULL)
  expect_identical(a$status, 303L)
  expect_true(paste0("Location: /?token=", d$token) %in% a$headers)
  expect_identical(status(d, path, NULL), 403L)
  late <- ticket()
  d$tickets[[1L]] <- clutch:::clock() - 1
  expect_identical(status(d, late, NULL), 403L)
  expect_identical(status(d, "/?ticket=", NULL), 403L)
  for (k in 1:100) ticket()
  expect_lte(length(d$tickets), 10L)
})

test_that("pages of others cannot ask, and nothing but GET is answered", {
  d <- dashboard()
  on.exit(clutch:::close_dashboard(d))
  own <- paste0("http://", d$host)
  site <- function(x, ...) status(d, headers = c(paste("Sec-Fetch-Site:", x), ...), "/events")
  expect_identical(site("same-origin"), 200L)
  expect_identical(site("none"), 200L)
  for (x in c("cross-site", "same-site", "other")) expect_identical(site(x), 403L)
  expect_identical(site("cross-site", "Sec-Fetch-Mode: navigate"), 403L)
  # the page itself may be opened from elsewhere, as in the pane of an IDE, but not be read
  expect_identical(status(d, headers = c("Sec-Fetch-Site: cross-site", "Sec-Fetch-Mode: navigate")),
                   200L)
  expect_identical(status(d, headers = c("Sec-Fetch-Site: cross-site", "Sec-Fetch-Mode: cors")),
                   403L)
  expect_identical(status(d, headers = paste("Origin:", own)), 200L)
  for (origin in c("null", "http://evil.example", paste0("https://", d$host), "http://127.0.0.1")) {
    expect_identical(status(d, headers = paste("Origin:", origin)), 403L)
  }
  for (method in c("POST", "PUT", "DELETE", "OPTIONS")) {
    expect_identical(status(d, method = method), 405L)
    expect_identical(status(d, method = method, token = "x"), 403L)
  }
  # a body is not waited for
  expect_identical(status(d, method = "POST", headers = "Content-Length: 1000000000"), 405L)
  expect_identical(status(d, headers = c("Upgrade: websocket", "Sec-WebSocket-Key: eA==",
                                         "Sec-WebSocket-Version: 13")), 403L)
  expect_identical(status(d, "/nothing"), 404L)
  expect_identical(status(d, "/../DESCRIPTION"), 404L)
})

test_that("what is served forbids all that the page does not need", {
  d <- dashboard()
  on.exit(clutch:::close_dashboard(d))
  for (path in c("/", "/dashboard.js", "/events")) {
    h <- ask(d, path)$headers
    policy <- grep("^Content-Security-Policy: ", h, value = TRUE)
    expect_match(policy, "default-src 'none'", fixed = TRUE)
    expect_no_match(policy, "unsafe|\\*;|https:")
    expect_true("X-Content-Type-Options: nosniff" %in% h)
    expect_true("Referrer-Policy: no-referrer" %in% h)
    expect_true("Cache-Control: no-store" %in% h)
    expect_length(grep("^access-control", h, ignore.case = TRUE), 0L)
  }
  page <- ask(d)$body
  expect_match(page, "<h1>a &lt;b&gt; &amp; &quot;c&quot;</h1>", fixed = TRUE)
  expect_no_match(page, "{{", fixed = TRUE)
  # nothing from elsewhere, no script within the page, no HTML made of text
  expect_no_match(page, "(src|href)=\"(https?:)?//|<script>|onclick|style=\"")
  folder <- system.file("dashboard", package = "clutch")
  expect_setequal(list.files(folder), names(clutch:::dashboard_files))
  code <- unlist(lapply(list.files(folder, "js$|css$", full.names = TRUE), readLines))
  never <- "innerHTML|outerHTML|insertAdjacentHTML|document\\.write|eval\\(|https?://|@import"
  expect_no_match(code, never)
})

test_that("an event has what has changed in the snapshot, and each ended task once", {
  t <- 30
  d <- dashboard(function(since) example_snapshot(t, since = since))
  on.exit(clutch:::close_dashboard(d))
  first <- event(d)
  s <- example_snapshot(30)
  expect_true(first$data$whole)
  first$data$tables$events <- first$data$news[[1L]]$events
  for (part in c("nodes", "jobs", "events", "hosts", "clusters", "actors")) {
    got <- as.data.frame(first$data$tables[[part]])
    expect_identical(names(got), names(s[[part]]))
    for (n in names(got)) expect_equal(got[[n]], s[[part]][[n]], ignore_attr = TRUE, info = n)
  }
  expect_identical(first$data$session$user, "ada")
  expect_identical(told(first), task_key(s$tasks))
  expect_gte(first$retry, 500)
  expect_true("Content-Type: text/event-stream; charset=utf-8" %in% first$headers)
  # within half a second it is the same one, made once
  d$taken <- Inf
  expect_identical(event(d)$id, first$id)
  t <- 32
  d$taken <- -Inf
  seen <- paste("Last-Event-ID:", first$id)
  second <- event(d, headers = seen)
  expect_identical(second$id, first$id + 1)
  later <- example_snapshot(32)
  new <- setdiff(task_key(later$tasks), task_key(s$tasks))
  expect_false(second$data$whole)
  expect_length(unlist(lapply(second$data$news, function(x) x$events$time)), 0L)
  for (part in c("nodes", "jobs", "clusters", "hosts", "actors")) {
    changed <- names(s[[part]])[!mapply(identical, s[[part]], later[[part]])]
    expect_setequal(as.character(names(second$data$tables[[part]])), changed)
  }
  expect_setequal(told(second), new)
  # a page that has seen nothing gets all, one that has been away from the server too; twice none
  for (headers in c("", "Last-Event-ID: 1e9", "Last-Event-ID: x")) {
    expect_setequal(told(event(d, headers = if (nzchar(headers)) headers)),
                    c(task_key(s$tasks), new))
  }
  expect_setequal(told(event(d, paste0("p&seen=", first$id))), new)
  d$taken <- Inf
  nothing <- event(d, headers = paste("Last-Event-ID:", d$number))
  expect_length(told(nothing), 0L)
  expect_length(nothing$data$tables, 0L)
})

test_that("an observer that cannot read says why, and goes on", {
  broken <- TRUE
  d <- dashboard(function(since) {
    if (broken) stop("the view is <b>gone</b>\n")
    example_snapshot(since = since)
  })
  on.exit(clutch:::close_dashboard(d))
  e <- event(d)
  expect_identical(e$event, "problem")
  expect_identical(e$data, "the view is <b>gone</b>\n")
  broken <- FALSE
  expect_length(event(d)$data$tables$nodes$node, 12L)
})

test_that("a thousand pages cost no more snapshots than one, and most of them wait", {
  taken <- 0
  d <- dashboard(function(since) {
    taken <<- taken + 1
    example_snapshot(since = since)
  })
  on.exit(clutch:::close_dashboard(d))
  began <- clutch:::clock()
  events <- lapply(seq_len(1000), function(k) {
    clutch:::events_answer(d, list(QUERY_STRING = sprintf("?page=%d", k)))$body
  })
  expect_lte(taken, 1 + (clutch:::clock() - began) / 0.5)
  is_full <- vapply(events, grepl, NA, pattern = "event: full", fixed = TRUE)
  expect_identical(is_full, rep(c(FALSE, TRUE), c(100, 900)))
  expect_match(events[[1000]], "^retry: 10000\n")
  # those that are told something ask all together 50 times a second
  expect_gte(event(d, "100")$retry, 2000)
  expect_length(d$pages, 100L)
  # a page that was closed makes room
  d$pages[[1L]] <- -Inf
  expect_null(event(d, "new")$data$event)
  expect_length(d$pages, 100L)
})

test_that("many connections that say nothing stop nobody", {
  d <- dashboard()
  on.exit(clutch:::close_dashboard(d))
  silent <- lapply(1:200, function(k) socket_connect("127.0.0.1", d$port, slot = FALSE))
  for (k in 1:20) clutch:::dashboard_step(d, 0.01)
  expect_identical(status(d), 200L)
  for (con in silent) close(con)
  # and the answered ones are not kept
  before <- open_fds()
  for (k in 1:20) event(d)
  expect_true(eventually({
    clutch:::dashboard_step(d, 0.01)
    open_fds() <= before
  }))
})

test_that("a server that runs for a day keeps no more than after a minute", {
  d <- new.env()
  d$number <- 0
  d$news <- list()
  sizes <- vapply(1:400, function(k) {
    d$number <- d$number + 1
    n <- if (k %% 7 == 0) 0L else (k * 37L) %% 900L
    new <- data.frame(cluster = rep(1L, n), job = rep(1L, n), element = k * 1000L + seq_len(n),
                      node = seq_len(n), began = rep(k, n), ended = rep(k + 1, n),
                      ok = rep(TRUE, n))
    clutch:::keep_news(d, list(tasks = new))
    sum(vapply(d$news, function(x) x$rows, 1L))
  }, 1L)
  expect_true(all(sizes <= clutch:::NEWS_KEPT))
  expect_gt(max(sizes), clutch:::NEWS_KEPT - 900)
  expect_lt(length(d$news), 400L)
})

test_that("the port is one that is free, or the error names it", {
  taken <- socket_listen(0, "127.0.0.1", slot = FALSE)
  on.exit(close(taken))
  port <- socket_info(taken)$local_port
  e <- tryCatch(dashboard(port = port), clutch_socket_in_use = identity)
  expect_s3_class(e, "clutch_error")
  expect_match(conditionMessage(e), sprintf("port %d of this machine is taken", port))
  expect_identical(e$port, port)
  d <- dashboard(port = 0)
  expect_identical(status(d), 200L)
  # where it has been until now it can be again, as soon as that has ended
  port <- d$port
  clutch:::close_dashboard(d)
  d <- NULL
  again <- function() tryCatch(dashboard(port = port), clutch_socket_in_use = function(e) NULL)
  expect_true(eventually(!is.null(d) || !is.null(d <- again())))
  expect_identical(status(d), 200L)
  clutch:::close_dashboard(d)
})

test_that("serving ends when it is told to", {
  turns <- 0
  until <- function() {
    turns <<- turns + 1
    turns > 2
  }
  clutch:::serve_dashboard(function(since) example_snapshot(), until = until)
  expect_identical(turns, 3)
})

test_that("without httpuv the error says what to do", {
  s <- start_script(fixture = "without-httpuv")
  expect_done(s, 60)
  out <- readLines(s$out)
  expect_match(out, "^class: clutch_package clutch_error", all = FALSE)
  expect_match(out, "install.packages(\"httpuv\")", fixed = TRUE, all = FALSE)
  expect_match(out, "cluster_top()", fixed = TRUE, all = FALSE)
  expect_true(ends(s))
})

test_that("where no port can be served the error is httpuv's, and it comes", {
  before <- clutch:::port_to_serve
  on.exit(utils::assignInNamespace("port_to_serve", before, "clutch"))
  taken <- socket_listen(0, host = "127.0.0.1")
  on.exit(close(taken), add = TRUE)
  tried <- 0
  utils::assignInNamespace("port_to_serve", function(port) {
    tried <<- tried + 1
    port_of(taken)
  }, "clutch")
  expect_error(dashboard(port = 0), "Failed to create server")
  expect_identical(tried, 21)
})
