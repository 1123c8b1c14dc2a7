# Servers in R whose pages are promises of tasks: one R process answers others meanwhile.

outside_checks_only()
skip_on_os("windows")

# Asks for a page: the connection on which the answer comes.
ask <- function(port, path) {
  con <- socketConnection("127.0.0.1", as.integer(port), blocking = TRUE, open = "r+b",
                          timeout = 60)
  text <- sprintf("GET /%s HTTP/1.1\r\nHost: here\r\nConnection: close\r\n\r\n", path)
  writeBin(charToRaw(text), con)
  con
}
# The page, as list(status, text).
answer_on <- function(con) {
  on.exit(close(con))
  lines <- readLines(con, warn = FALSE)
  body <- lines[-seq_len(match("", lines))]
  list(status = as.integer(substr(lines[[1L]], 10L, 12L)), text = paste(body, collapse = "\n"))
}
get_page <- function(port, path) answer_on(ask(port, path))

# Eight pages that wait for a file are asked for, and then another one, which is answered before
# that file is there.
expect_answers_meanwhile <- function(s, go) {
  expect_true(said(s, "^port=", 60))
  port <- value_of(s, "port")
  slow <- lapply(1:8, function(i) ask(port, paste0("slow/", i)))
  expect_true(eventually(identical(get_page(port, "quick"), list(status = 200L, text = "8")), 60))
  expect_identical(get_page(port, "nowhere")$status, 404L)
  expect_false(any(socketSelect(slow, timeout = 0)))
  file.create(go)
  answers <- lapply(slow, answer_on)
  expect_identical(answers, lapply(1:8, function(i) list(status = 200L, text = format(i))))
  # a task that fails is an error of that page only
  expect_identical(get_page(port, "fails")$status, 500L)
  caught <- get_page(port, "caught")
  expect_identical(caught$status, 404L)
  expect_match(caught$text, "no such number")
  expect_true(eventually(identical(get_page(port, "quick"), list(status = 200L, text = "0"))))
  file.create(paste0(go, "-end"))
  expect_done(s, 60)
  expect_true(ends(s))
}

serve <- function(fixture, library = NULL) {
  old <- .libPaths()
  on.exit(.libPaths(old))
  .libPaths(c(library, old))
  go <- tempfile("go-")
  expect_answers_meanwhile(start_script(fixture = fixture, go = go), go)
  unlink(paste0(go, c("", "-end")))
}

test_that("httpuv answers while eight tasks are under way, whichever version of later is there", {
  for (package in c("httpuv", "later", "promises")) skip_if_not_installed(package)
  serve("web-httpuv")
  lib <- Sys.getenv("CLUTCH_NEWER_LIB")
  if (dir.exists(file.path(lib, "later"))) serve("web-httpuv", lib)
})

test_that("so does plumber2", {
  lib <- Sys.getenv("CLUTCH_NEWER_LIB")
  libraries <- if (nzchar(lib)) c(lib, .libPaths()) else .libPaths()
  found <- system.file(package = "plumber2", lib.loc = libraries)
  skip_if_not(nzchar(found),
              "needs plumber2 with 30 packages, which tools/deps.sh does not install")
  serve("web-plumber2", lib)
})
