# The server of the dashboard: serves the page in inst/dashboard, and what it shows, to browsers of
# this machine. It runs in the observer, and knows nothing of clusters but how to get a snapshot.
#
# Live by server-sent events, each in a response of its own. httpuv cannot stream a response. But
# the standard has a browser ask again when a response has ended, after the time that the server
# gave it (`retry:`), and say what it has seen last (Last-Event-ID). So nothing is held open between
# two events, and the server decides how often each page asks. WebSockets would need queues for
# pages that do not read.
#
# These are bounded, however many pages ask, and for however long:
#   snapshots   one in SNAPSHOT_PAUSE, which all pages share as text
#   tables      a page is sent the columns that have changed since its last snapshot; each is made
#               text when it changes
#   tasks       each ended one goes to a page once, as does each event: text of what was new in one
#               snapshot, for the last NEWS_KEPT of them
#   pages       the first PAGES_MOST are told something; together they get one answer in PAGE_PAUSE
#   bodies      of requests are not read: all is decided when the headers are there
#
# A browser may read that has the token, and asks for the address itself. Any other gets 403 and
# nothing more.

SNAPSHOT_PAUSE <- 0.5 # seconds
PAGE_PAUSE <- 0.02
PAGES_MOST <- 100L
NEWS_KEPT <- 4000L

dashboard_files <- c(
  "index.html" = "text/html", "style.css" = "text/css", "state.js" = "text/javascript",
  "nodes.js" = "text/javascript", "charts.js" = "text/javascript",
  "stream.js" = "text/javascript", "dashboard.js" = "text/javascript"
)

# Serves until `until()` is TRUE. `take(since)`: a snapshot, as view_snapshot() has it; `port`: 0
# takes a free one.
serve_dashboard <- function(take, port = 0, token = new_token(), title = "clutch",
                            until = function() FALSE) {
  d <- open_dashboard(take, port, token, title)
  on.exit(close_dashboard(d))
  while (!until()) dashboard_step(d, 0.25)
}

# Begins to serve: an environment with `url`. What browsers ask is answered in dashboard_step(), or
# wherever else package later runs its callbacks.
open_dashboard <- function(take, port = 0, token = new_token(), title = "clutch") {
  need_httpuv()
  folder <- system.file("dashboard", package = "clutch")
  d <- new.env(parent = emptyenv())
  d$take <- take
  d$token <- token
  d$files <- lapply(structure(names(dashboard_files), names = names(dashboard_files)), function(f) {
    paste(readLines(file.path(folder, f), encoding = "UTF-8"), collapse = "\n")
  })
  d$files$index.html <- page_with(d$files$index.html, token, title)
  # This is the number of the last snapshot. A later server begins with a higher one: nobody takes
  # two snapshots in 0.1 s.
  d$number <- d$first <- floor(10 * as.numeric(Sys.time()))
  d$taken <- -Inf
  d$tables <- list() # columns: list(value, text, number of the snapshot in which it has changed)
  d$news <- list() # what was new, by the snapshot in which it was
  d$pages <- structure(numeric(), names = character()) # when each has asked last
  d$tickets <- list() # see new_ticket()
  app <- list(
    onHeaders = function(req) refusal(d, req),
    call = function(req) answer(d, req),
    # refused, too, but httpuv may open it before it is closed
    onWSOpen = function(ws) ws$close()
  )
  for (others in 20:0) { # ports that may be tried yet
    d$port <- port_to_serve(port)
    d$host <- sprintf("127.0.0.1:%d", d$port)
    d$server <- tryCatch(
      without_signals(httpuv::startServer("127.0.0.1", d$port, app, quiet = TRUE)),
      error = function(e) if (port != 0 || others == 0) stop(e) # another program was quicker
    )
    if (!is.null(d$server)) break
  }
  d$url <- sprintf("http://%s/?token=%s", d$host, token)
  d
}

# httpuv warns when it forgets a WebSocket that was refused before it was open.
dashboard_step <- function(d, seconds) suppressWarnings(httpuv::service(1000 * seconds))

close_dashboard <- function(d) {
  suppressWarnings(d$server$stop())
  d$news <- d$tables <- NULL
}

need_httpuv <- function() {
  if (requireNamespace("httpuv", quietly = TRUE)) return(invisible())
  throw("package", package = "httpuv", paste(
    "cluster_dashboard() needs package httpuv, which is not installed:",
    "install.packages(\"httpuv\").",
    "Without it, cluster_top() shows the same in a terminal"
  ))
}

# 128 bits, as hexadecimal digits.
new_token <- function() paste(as.character(.Call(ffi_secret_bytes, 16L)), collapse = "")

# A port that nobody listens at: `port`, or a free one for 0.
port_to_serve <- function(port) {
  listener <- tryCatch(
    socket_listen(port, "127.0.0.1", slot = FALSE),
    clutch_socket_in_use = function(e) {
      throw("socket_in_use", port = port, sprintf(
        "port %d of this machine is taken by another program: choose another, or 0 for a free one",
        as.integer(port)
      ))
    }
  )
  on.exit(close(listener))
  socket_info(listener)$local_port
}

# Files that the page loads need the token, too. It has only hexadecimal digits, but a title may be
# anything.
page_with <- function(html, token, title) {
  html <- gsub("{{token}}", token, html, fixed = TRUE)
  gsub("{{title}}", escape_html(title), html, fixed = TRUE)
}

escape_html <- function(x) {
  x <- gsub("&", "&amp;", x, fixed = TRUE)
  x <- gsub("<", "&lt;", x, fixed = TRUE)
  x <- gsub(">", "&gt;", x, fixed = TRUE)
  gsub("\"", "&quot;", x, fixed = TRUE)
}

# ---- who may read ----

# The value is what httpuv answers before it reads a body; NULL: go on.
refusal <- function(d, req) {
  if (has_ticket(d, req)) {
    to <- paste0("/?token=", d$token)
    return(list(status = 303L, headers = c(safe_headers, Connection = "close", Location = to),
                body = ""))
  }
  if (!is_allowed(d, req)) return(list(status = 403L, headers = last_answer, body = ""))
  if (req$REQUEST_METHOD == "GET") return(NULL)
  list(status = 405L, headers = c(last_answer, Allow = "GET"), body = "")
}

last_answer <- list(Connection = "close", "Cache-Control" = "no-store")

# Under another name it is a page of somebody else, whose name was made to mean this machine.
is_plain <- function(d, req) identical(req$HTTP_HOST, d$host) && is.null(req$HTTP_UPGRADE)

has_ticket <- function(d, req) {
  if (!length(d$tickets) || !is_plain(d, req)) return(FALSE)
  if (req$REQUEST_METHOD != "GET" || req$PATH_INFO != "/" || !is_same_origin(d, req)) return(FALSE)
  nzchar(query_value(req, "ticket")) && uses_ticket(d, req)
}

is_allowed <- function(d, req) {
  if (!is_plain(d, req)) return(FALSE)
  token <- query_value(req, "token")
  if (!.Call(ffi_same_secret, token, d$token)) return(FALSE)
  is_same_origin(d, req)
}

# The page itself may be opened from anywhere, such as the pane of an IDE: that takes the token, and
# who opens it cannot read it. All else is asked for by the page only.
is_same_origin <- function(d, req) {
  origin <- req$HTTP_ORIGIN
  if (!is.null(origin) && !identical(origin, paste0("http://", d$host))) return(FALSE)
  site <- req$HTTP_SEC_FETCH_SITE # absent: a browser of 2022 or earlier, or none
  if (is.null(site) || site %in% c("same-origin", "none")) return(TRUE)
  identical(req$PATH_INFO, "/") && identical(req$HTTP_SEC_FETCH_MODE, "navigate")
}

# "" where there is none.
query_value <- function(req, name) {
  pairs <- strsplit(sub("^[?]", "", req$QUERY_STRING), "&", fixed = TRUE)[[1L]]
  found <- pairs[startsWith(pairs, paste0(name, "="))]
  if (length(found)) substring(found[[1L]], nchar(name) + 2L) else ""
}

# Frames: the panes of IDEs, whose pages are of this machine.
safe_headers <- list(
  "Content-Security-Policy" = paste(
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:;",
    "base-uri 'none'; form-action 'none';",
    "frame-ancestors 'self' http://127.0.0.1:* http://localhost:* vscode-webview: vscode-file:"
  ),
  "X-Content-Type-Options" = "nosniff",
  "Referrer-Policy" = "no-referrer",
  "Cross-Origin-Resource-Policy" = "same-origin",
  "Cache-Control" = "no-store"
)

# ---- tickets ----

# An address that leads to the page, once and within a minute: for what shows it to others, as the
# list of processes does with the arguments of a browser.
new_ticket <- function(d) {
  ticket <- new_token()
  d$tickets[[ticket]] <- clock() + 60
  d$tickets <- utils::tail(d$tickets, 10L)
  sprintf("http://%s/?ticket=%s", d$host, ticket)
}

uses_ticket <- function(d, req) {
  given <- query_value(req, "ticket")
  is_it <- vapply(names(d$tickets), function(x) .Call(ffi_same_secret, x, given), NA)
  is_good <- any(is_it & unlist(d$tickets) > clock())
  d$tickets <- d$tickets[!is_it]
  is_good
}

# ---- answers ----

answer <- function(d, req) {
  path <- sub("^/", "", req$PATH_INFO)
  if (path == "events") return(events_answer(d, req))
  if (path == "") path <- "index.html"
  if (!path %in% names(dashboard_files)) {
    return(list(status = 404L, headers = c(safe_headers, "Content-Type" = "text/plain"), body = ""))
  }
  type <- paste0(dashboard_files[[path]], "; charset=utf-8")
  list(status = 200L, headers = c(safe_headers, "Content-Type" = type), body = d$files[[path]])
}

events_answer <- function(d, req) {
  body <- if (is_welcome(d, query_value(req, "page"))) {
    seen <- c(req$HTTP_LAST_EVENT_ID, query_value(req, "seen"))[[1L]]
    seen <- suppressWarnings(as.numeric(seen))
    event_text(d, if (is.na(seen)) 0 else seen)
  } else {
    sprintf("retry: 10000\nevent: full\ndata: %d\n\n", PAGES_MOST)
  }
  # kept open, the connections of pages that are gone would add up
  list(status = 200L, body = body, headers = c(
    safe_headers, "Content-Type" = "text/event-stream; charset=utf-8", Connection = "close"
  ))
}

# Tells whether this page is one of the first. One that has not asked for long is gone.
is_welcome <- function(d, page) {
  page <- substr(page, 1L, 32L)
  now <- clock()
  d$pages <- d$pages[now - d$pages < 10 + 4 * pause_of(d)]
  if (!page %in% names(d$pages) && length(d$pages) >= PAGES_MOST) return(FALSE)
  d$pages[[page]] <- now
  TRUE
}

# How long a page waits before it asks again, in seconds.
pause_of <- function(d) max(SNAPSHOT_PAUSE, PAGE_PAUSE * length(d$pages))

# All that is new to a page that has seen snapshot number `seen`.
event_text <- function(d, seen) {
  problem <- tryCatch(
    {
      take_snapshot(d)
      NULL
    },
    error = message_of
  )
  # a little more than the pause: who asks a millisecond too early gets nothing new
  retry <- sprintf("retry: %.0f\n", 1000 * pause_of(d) + 10)
  if (!is.null(problem)) {
    return(paste0(retry, "event: problem\ndata: ", to_json(problem), "\n\n"))
  }
  # a number from another server means nothing here
  if (seen > d$number || seen < d$first) seen <- 0
  news <- d$news[as.numeric(names(d$news)) > seen]
  news <- paste0("[", paste(vapply(news, function(n) n$text, ""), collapse = ","), "]")
  data <- json_object(c("whole", "time", "session", "tables", "news"),
                      c(to_json(seen == 0), d$time, d$session, tables_text(d, seen), news))
  sprintf("%sid: %.0f\ndata: %s\n\n", retry, d$number, data)
}

# A new one, unless the last is as good as new.
take_snapshot <- function(d) {
  if (clock() - d$taken < SNAPSHOT_PAUSE) return(invisible())
  s <- d$take(d$since)
  d$taken <- clock()
  d$number <- d$number + 1
  d$since <- s$clusters
  d$time <- to_json(s$time)
  d$session <- to_json(s$session)
  keep_news(d, s)
  for (name in c("clusters", "nodes", "jobs", "hosts", "actors")) keep_table(d, name, s[[name]])
}

# Keeps what has come since the snapshot before: tasks and events.
keep_news <- function(d, s) {
  rows <- NROW(s$tasks) + NROW(s$events)
  if (rows == 0L) return(invisible())
  text <- to_json(list(tasks = s$tasks, events = s$events))
  d$news[[sprintf("%.0f", d$number)]] <- list(text = text, rows = rows)
  rows <- rev(cumsum(rev(vapply(d$news, function(n) n$rows, 1L))))
  d$news <- d$news[rows <= NEWS_KEPT | seq_along(rows) == length(rows)]
}

keep_table <- function(d, name, table) {
  for (column in names(table)) {
    value <- table[[column]]
    if (identical(value, d$tables[[name]][[column]]$value)) next
    d$tables[[name]][[column]] <- list(value = value, text = json_array(value), number = d$number)
  }
}

# The columns that have changed after snapshot `seen`.
tables_text <- function(d, seen) {
  tables <- lapply(d$tables, function(columns) {
    new <- Filter(function(column) column$number > seen, columns)
    if (length(new)) json_object(names(new), vapply(new, function(column) column$text, ""))
  })
  tables <- tables[lengths(tables) > 0L]
  json_object(names(tables), unlist(tables))
}
