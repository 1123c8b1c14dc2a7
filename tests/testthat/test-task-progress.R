# The progress bar, as a terminal would get it. cli is told that there is one.

outside_checks_only()

# The lines of a script, and what the terminal would have got: text, with \r and escapes.
with_bar <- function(lines) {
  s <- start_script(c("options(cli.dynamic = TRUE, cli.ansi = TRUE)", "cl <- make_cluster(2)",
                      lines, "stop_cluster(cl)", "fork_server_stop()", "cat('\\ndone\\n')"))
  testthat::expect_true(said(s, "done$", 60), info = s$out)
  text <- paste(readLines(s$out, warn = FALSE), collapse = "\n")
  testthat::expect_true(ends(s))
  unlink(c(s$out, s$tmp), recursive = TRUE)
  text
}
hide <- "\033\\[\\?25l"
show <- "\033\\[\\?25h"
count <- function(pattern, text) lengths(regmatches(text, gregexpr(pattern, text)))

test_that("a full bar does not lose the map, and makes room for what is relayed", {
  text <- with_bar(fixture_lines("bar-and-output"))
  expect_match(text, "result live TRUE")
  expect_match(text, "result ordered TRUE")
  expect_match(text, "/20 | ", fixed = TRUE)
  # the cursor, which a bar hides, is seen again whenever something else is written
  for (line in c("said", "told")) {
    at <- gregexpr(paste0(line, " [0-9]"), text)[[1]]
    expect_identical(length(at), 8L)
    for (k in at) {
      before <- substr(text, 1, k - 1)
      expect_identical(count(hide, before), count(show, before))
      expect_false(grepl("/20 \\|[^\n]*$",
                         gsub("\r[^\r\n]*\033\\[K", "", sub("^.*\033\\[K", "", before))))
    }
  }
})

test_that("the bar is gone after an error, an interrupt, and when others remove it", {
  text <- with_bar(fixture_lines("bars"))
  expect_match(text, "element 12 on node", fixed = TRUE)
  expect_match(text, "after interrupt: interrupted")
  expect_match(text, "after all TRUE")
  for (line in c("after error", "after interrupt", "after all", "done$")) {
    before <- sub(paste0("(?s)", line, ".*"), "", text, perl = TRUE)
    expect_gt(count(hide, before), 0L)
    expect_false(grepl(paste0(hide, "(?!.*", show, ")"), gsub("[\r\n]", " ", before), perl = TRUE),
                 info = line)
  }
})

test_that("the bar's times are those of the map", {
  bar <- clutch:::progress_new(TRUE, 100, clutch:::clock() - 10)
  bar$step <- NULL
  old <- options(cli.dynamic = FALSE, cli.progress_handlers_only = "none")
  on.exit(options(old))
  clutch:::progress_show(bar, 50)
  clutch:::progress_end(bar)
  expect_match(bar$rate, "^[45](\\.[0-9])?/s$")
  expect_match(bar$left, "^1[0-9] s left$")
  expect_identical(clutch:::left_text(10, 0, 5), "")
  expect_identical(clutch:::left_text(100, 1, 72), "2 h 0 min left")
  expect_identical(clutch:::left_text(10, 1, 9), "1 min 30 s left")
  expect_identical(clutch:::rate_text(1234567, 1), "1,200,000/s")
  expect_identical(clutch:::rate_text(1, 40), "40 s each")
})

test_that("the signals for progressr end with a map that fails", {
  skip_if_not_installed("progressr")
  text <- with_bar(fixture_lines("progressr-and-errors"))
  expect_identical(count("init fin over", text), 3L, info = text)
})

# In a process of its own: a cli that was loaded without a terminal draws every 3 s only.
test_that("a progress bar is shown when asked for", {
  text <- with_bar(c("r <- cluster_map(cl, 1:30, function(i) {", "  Sys.sleep(0.1)", "  i",
                     "}, .progress = TRUE)", "cat('\\nright', identical(unlist(r), 1:30), '\\n')"))
  expect_match(text, "right TRUE")
  expect_match(text, "[0-9]+/30")
})

test_that("package progressr gets the signals of tasks and of the map", {
  skip_if_not_installed("progressr")
  old <- options(progressr.enable = TRUE)
  cl <- make_cluster(2)
  on.exit({
    options(old)
    stop_cluster(cl)
  })
  seen <- 0
  withCallingHandlers(progressr::with_progress(handlers = progressr::handler_void(), {
    p <- progressr::progressor(6)
    cluster_map(cl, 1:6, function(i, p) {
      p()
      i
    }, p = p)
  }), progression = function(c) if (identical(c$type, "update")) seen <<- seen + 1)
  expect_gte(seen, 6)
})
