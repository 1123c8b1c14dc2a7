# Waits of sockets: timeouts, interrupts, readiness.

outside_checks_only()

linux <- Sys.info()[["sysname"]] == "Linux"

test_that("a timeout holds in accept, read and write, and is told apart from the end", {
  expect_nothing_left({
    l <- socket_listen(0)
    e <- caught(socket_accept(l, timeout = 0.15))
    expect_s3_class(e, c("clutch_socket_timeout", "clutch_error", "error"))
    expect_match(conditionMessage(e), sprintf(":%d", port_of(l)))
    close(l)
    p <- socket_pair(blocking = TRUE, timeout = 0.15, open = "a+b")
    e <- caught(readBin(p$b, "raw", 1))
    expect_s3_class(e, "clutch_socket_timeout")
    expect_match(conditionMessage(e), socket_info(p$b)$peer, fixed = TRUE)
    expect_identical(e$address, paste(socket_info(p$b)$local, "->", socket_info(p$b)$peer))
    expect_match(socket_info(p$b)$last_error, "timeout")
    e <- caught(writeBin(raw(5e7), p$a)) # more than both buffers take
    expect_s3_class(e, "clutch_socket_timeout")
    expect_gt(e$written, 0)
    expect_lt(e$written, 5e7)
    got <- 0
    socket_timeout(p$b, 0.5)
    while (length(x <- tryCatch(readBin(p$b, "raw", 1e6),
                                clutch_socket_timeout = function(e) NULL))) {
      got <- got + length(x)
    }
    rest <- socket_info(p$b)$queued_in
    expect_identical(got + rest, e$written) # what is said to have gone has gone
    close_all(p$a, p$b)
  })
})

test_that("a timeout holds in connect, and leaves no descriptor", {
  skip_if_not(linux, "the length of the queue differs")
  expect_nothing_left({
    l <- socket_listen(0, host = "127.0.0.1", backlog = 0)
    filler <- list()
    repeat {
      con <- tryCatch(socket_connect("127.0.0.1", port_of(l), timeout = 0.3, slot = FALSE),
                      warning = function(w) "base R's warning")
      if (is.character(con) || length(filler) == 5L) break
      filler <- c(filler, list(con))
    }
    expect_identical(con, "base R's warning")
    e <- caught(socket_connect("127.0.0.1", port_of(l), timeout = 0.2))
    expect_s3_class(e, "clutch_socket_timeout")
    expect_match(conditionMessage(e),
                 sprintf("cannot open the connection to 127.0.0.1:%d", port_of(l)))
    for (con in filler) close(con)
    close(l)
  })
})

test_that("timeouts are asked and set at any time, with fractions and Inf", {
  p <- socket_pair(timeout = 3.5)
  expect_identical(socket_timeout(p$a), 3.5)
  expect_identical(socket_timeout(p$a, Inf), 3.5)
  expect_identical(socket_timeout(p$a), Inf)
  expect_identical(socket_timeout(p$a, 0), Inf)
  expect_identical(socket_timeout(p$a, -1), 0)
  expect_error(socket_timeout(p$a, NA), "invalid 'timeout'")
  close_all(p$a, p$b)
  p <- socket_pair(blocking = TRUE, timeout = 0) # 60 seconds to open it, then none
  expect_s3_class(caught(readLines(p$a, 1)), "clutch_socket_timeout")
  socket_timeout(p$a, Inf)
  cat("x\n", file = p$b)
  expect_identical(readLines(p$a, 1), "x")
  close_all(p$a, p$b)
  expect_identical({
    p <- socket_pair(timeout = NA)
    close_all(p$a, p$b)
    TRUE
  }, TRUE)
})

test_that("a read that timed out takes nothing", {
  p <- socket_pair(blocking = TRUE, timeout = 0.1)
  cat("half a ", file = p$a)
  for (k in 1:3) expect_s3_class(caught(readLines(p$b, 1)), "clutch_socket_timeout")
  cat("line\n", file = p$a)
  expect_identical(readLines(p$b, 1), "half a line")
  close_all(p$a, p$b)
  p <- socket_pair(blocking = TRUE, timeout = 0.1, encoding = "latin1")
  writeLines("ganz", p$a)
  cat("hälf", file = p$a)
  expect_identical(readLines(p$b, 1), "ganz")
  expect_s3_class(caught(readLines(p$b, 1)), "clutch_socket_timeout")
  cat("te\n", file = p$a)
  expect_identical(readLines(p$b, 1), "hälfte")
  close_all(p$a, p$b)
  p <- socket_pair(blocking = TRUE, timeout = 0.1, open = "a+b")
  writeBin(1:3, p$a)
  expect_s3_class(caught(readBin(p$b, 1L, 5)), "clutch_socket_timeout")
  writeBin(4:5, p$a)
  expect_identical(readBin(p$b, 1L, 5), 1:5)
  x <- as.raw(seq_len(2e6) %% 251)
  sent <- 0
  while (sent < length(x)) { # as much as the buffers take, then the rest in the next round
    sent <- tryCatch({
      writeBin(x[(sent + 1):length(x)], p$a)
      length(x)
    },
                     clutch_socket_timeout = function(e) sent + e$written)
    y <- tryCatch(readBin(p$b, "raw", 2e6), clutch_socket_timeout = function(e) NULL)
  }
  expect_identical(y, x)
  close_all(p$a, p$b)
})

test_that("the time is one of silence: it begins anew when bytes come", {
  l <- socket_listen(0)
  script <- start_script(c(sprintf("con <- socketConnection(port = %d, open = 'a+b')", port_of(l)),
                           "for (i in 1:8) { Sys.sleep(0.2); writeBin(as.raw(i), con) }",
                           "Sys.sleep(60)"))
  on.exit(tools::pskill(script$pid, 9L))
  b <- socket_accept(l, blocking = TRUE, open = "a+b", timeout = 30)
  socket_timeout(b, 1)
  expect_identical(readBin(b, "raw", 8), as.raw(1:8)) # takes longer than the timeout in all
  expect_s3_class(caught(readBin(b, "raw", 1)), "clutch_socket_timeout")
  close_all(b, l)
})

test_that("Ctrl-C ends each wait within moments, and leaves nothing", {
  linux_only()
  script <- start_script(fixture = "interrupted-waits")
  for (w in c("accept", "read", "write", "select", "connect")) {
    expect_true(said(script, paste0("^at=", w)))
    Sys.sleep(0.2) # so that it waits by then
    tools::pskill(script$pid, tools::SIGINT)
    expect_true(said(script, paste0("^result_", w)))
    expect_identical(value_of(script, paste0("result_", w)), "interrupted")
  }
  expect_true(said(script, "^left="))
  expect_identical(value_of(script, "left"), "0")
})

test_that("a storm of signals loses nothing, and suspendInterrupts() is honoured", {
  linux_only()
  script <- start_script(fixture = "storm-of-interrupts")
  expect_true(said(script, "^same="))
  expect_identical(value_of(script, "same"), "TRUE")
})

test_that("a time limit ends a wait", {
  expect_nothing_left({
    p <- socket_pair(blocking = TRUE, timeout = Inf)
    for (wait in expression(readLines(p$b, 1), socket_select(list(p$b)))) {
      expect_error({
        setTimeLimit(elapsed = 0.3, transient = TRUE)
        eval(wait)
      }, "time limit")
      setTimeLimit()
    }
    l <- socket_listen(0)
    expect_error({
      setTimeLimit(elapsed = 0.3, transient = TRUE)
      socket_accept(l, timeout = 60)
    }, "time limit")
    setTimeLimit()
    close_all(p$a, p$b, l)
  })
})

test_that("blocking = FALSE is kept on both ends", {
  p <- socket_pair(blocking = FALSE)
  for (con in p) {
    expect_identical(readLines(con), character())
    expect_true(isIncomplete(con))
  }
  writeLines("x", p$a)
  expect_true(eventually(identical(readLines(p$b), "x"), 5))
  close(p$a)
  expect_true(socket_select(list(p$b), timeout = 5))
  expect_identical(readLines(p$b), character())
  expect_false(isIncomplete(p$b)) # the end
  close(p$b)
})

test_that("a peer that resets before it is accepted is no error of accept", {
  expect_nothing_left({
    l <- socket_listen(0)
    a <- socket_connect(port = port_of(l), options = socket_options(linger = 0))
    close(a)
    good <- socket_connect(port = port_of(l))
    cat("good\n", file = good)
    lines <- NULL
    while (!identical(lines, "good")) {
      b <- socket_accept(l, blocking = TRUE, timeout = 5)
      lines <- tryCatch(readLines(b, 1), clutch_socket_reset = function(e) "reset")
      close(b)
      expect_true(lines %in% c("good", "reset"))
    }
    close_all(good, l)
  })
})

test_that("readiness can be wrong: what another process took is waited for until the time is up", {
  linux_only()
  # two processes wait at one socket: both are told that it is ready, and one finds nothing
  script <- start_script(fixture = "waits-in-forks")
  expect_true(said(script, "^done="))
  for (k in 1:4) {
    expect_identical(value_of(script, paste0("read", k)), "clutch_socket_timeout got it")
    expect_identical(value_of(script, paste0("accept", k)), "clutch_socket_timeout got it")
  }
})

test_that("select looks at all of a mixed list, duplicates and read-ahead included", {
  expect_nothing_left({
    l <- socket_listen(0)
    p <- socket_pair(blocking = TRUE)
    light <- socket_pair(slot = FALSE)
    all <- list(l, p$a, p$b, light$a, light$b)
    expect_identical(socket_select(all, timeout = 0), rep(FALSE, 5))
    expect_identical(socket_select(all, c(FALSE, TRUE, FALSE, TRUE, FALSE), 0),
                     c(FALSE, TRUE, FALSE, TRUE, FALSE))
    cat("one\ntwo\n", file = p$a)
    socket_write(light$a, "x")
    expect_identical(readLines(p$b, 1), "one") # the second is in the buffer now
    a <- socket_connect(port = port_of(l))
    # base R looks at nothing else when one has bytes in its buffer
    expect_true(eventually(
      identical(socket_select(all, timeout = 5), c(TRUE, FALSE, TRUE, FALSE, TRUE)), 5
    ))
    expect_identical(socket_select(list(p$b, p$b), timeout = 0), c(TRUE, TRUE))
    expect_identical(socket_select(list(p$a, p$a), c(TRUE, FALSE), 0), c(TRUE, FALSE))
    expect_warning(expect_identical(socket_select(list(l), TRUE, 0), FALSE), "cannot be writeable")
    close_all(a, p$a, p$b, light$a, light$b)
    expect_true(socket_select(list(l), timeout = 0)) # still to be accepted
    close(l)
    expect_s3_class(caught(socket_select(list(l), timeout = 0)), "clutch_socket_closed")
  })
})

test_that("select takes base R's own sockets, too", {
  expect_nothing_left({
    port <- dead_port()
    theirs <- serverSocket(port)
    a <- socket_connect(port = port)
    expect_true(socket_select(list(theirs), timeout = 5))
    b <- socketAccept(theirs, blocking = TRUE)
    expect_identical(socket_select(list(b, a, theirs), c(FALSE, TRUE, FALSE), timeout = 0),
                     c(FALSE, TRUE, FALSE))
    cat("1\n2\n", file = a)
    expect_true(socket_select(list(b), timeout = 5))
    expect_identical(readLines(b, 1), "1")
    expect_true(socket_select(list(b), timeout = 0)) # in R's buffer
    expect_identical(socket_info(b)$state,
                     if (system_can("tcp_info")) "ESTABLISHED" else NA_character_)
    t <- socket_table()
    expect_identical(t$owner[t$connection %in% as.integer(b)], "base")
    close_all(a, b, theirs)
    expect_error(socket_select(list(b), timeout = 0), "invalid connection")
  })
})

test_that("an object of which a part has gone ends that direction, whichever part it is", {
  # how many bytes of the objects `x(1)`, `x(2)` ... have gone when one of them fails
  send_until_full <- function(x) {
    p <- socket_pair(blocking = TRUE, timeout = 0.1, open = "a+b",
                     options = socket_options(send_buffer = 4096))
    on.exit(close_all(p$a, p$b))
    before <- function() socket_info(p$a)$bytes_out
    for (k in 1:1e5) {
      sent <- before()
      e <- caught(serialize(x(k), p$a))
      if (!is.null(e)) break
    }
    expect_s3_class(e, "clutch_socket_timeout")
    sent <- before() - sent
    if (sent) expect_s3_class(caught(writeBin(raw(1), p$a)), "clutch_socket_closed")
    sent
  }
  # 16 bytes an element; serialize() sends pieces of 64 kB, the last of them when it returns
  large <- vapply(1:4, function(k) {
    send_until_full(function(i) list(new.env(), as.list(numeric(5000 + 1000 * k))))
  }, 1)
  expect_gt(max(large), 0)
  # those in one piece, for which no R code is called
  small <- vapply(1:4, function(k) send_until_full(function(i) numeric(5000 + 200 * k)), 1)
  expect_gt(max(small), 0)
})

test_that("an object of which nothing has gone can be sent again", {
  p <- socket_pair(blocking = TRUE, timeout = 0.1, open = "a+b")
  full <- 0
  sent <- 0
  while (full < 3) { # buffers grow
    e <- caught(writeBin(raw(65536), p$a))
    sent <- sent + if (is.null(e)) 65536 else e$written
    full <- if (!is.null(e) && e$written == 0) full + 1 else 0
  }
  x <- list(new.env(), as.list(numeric(10000)))
  expect_s3_class(caught(serialize(x, p$a)), "clutch_socket_timeout")
  expect_length(readBin(p$b, "raw", sent), sent)
  serialize(list(new.env(), 5), p$a)
  expect_identical(unserialize(p$b)[[2L]], 5)
  close_all(p$a, p$b)
})
