# The rules of sockets: each fails when its rule is broken. What needs faults of the system is in
# tests/c/test-sock.c.

outside_checks_only()

linux <- Sys.info()[["sysname"]] == "Linux"

# ---- timeouts ----

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

# ---- interrupts and time limits ----

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

# ---- readiness ----

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

test_that("readiness can be a lie: what another process has taken is waited for, for the rest of the time", {
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

# ---- the end ----

test_that("connections ended in any way leave no descriptor, and other end's bytes alone", {
  ends <- list(
    "the peer first" = function(p) {
      close(p$b)
      close(p$a)
    },
    "we first" = function(p) {
      close(p$a)
      close(p$b)
    },
    "reset" = function(p) {
      close(p$b)
      close(p$a)
    },
    "half closed" = function(p) {
      socket_shutdown(p$a)
      expect_identical(readBin(p$b, "raw", 1), raw())
      close(p$a)
      close(p$b)
    },
    "unread bytes" = function(p) {
      writeBin(charToRaw("never read"), p$b)
      writeBin(charToRaw("goodbye"), p$a)
      expect_true(socket_select(list(p$a), timeout = 5))
      close(p$a) # a plain close() would reset it, and the peer might lose these bytes
      expect_identical(rawToChar(readBin(p$b, "raw", 7)), "goodbye")
      expect_identical(readBin(p$b, "raw", 1), raw()) # an end, not a reset
      close(p$b)
    },
    "shut down twice" = function(p) {
      socket_shutdown(p$a, "both")
      close(p$b)
      close(p$a)
    },
    "broken" = function(p) {
      writeBin(raw(10), p$a)
      close(p$b)
      caught(for (k in 1:100) writeBin(raw(1e4), p$a))
      close(p$a)
    })
  for (slot in c(TRUE)) for (how in names(ends)) expect_nothing_left({
    for (k in 1:5) {
      p <- socket_pair(open = "a+b", blocking = TRUE,
                       options = if (how == "reset") socket_options(linger = 0), slot = slot)
      ends[[how]](p)
    }
  })
})

test_that("a peer that takes nothing holds up close() no longer than `wait`, and an interrupt of it leaves nothing", {
  expect_nothing_left({
    p <- socket_pair(open = "a+b", blocking = TRUE, timeout = 0.1)
    caught(writeBin(raw(5e7), p$a))
    close(p$a, wait = 0.1)
    expect_error(isOpen(p$a), "invalid connection")
    close(p$b)
    p <- socket_pair(open = "a+b", blocking = TRUE, timeout = 0.1)
    caught(writeBin(raw(5e7), p$a))
    expect_error({
      setTimeLimit(elapsed = 0.3, transient = TRUE)
      close(p$a, wait = 60)
    }, "time limit")
    setTimeLimit()
    expect_error(isOpen(p$a), "invalid connection")
    close(p$b)
  })
})

test_that("a dead peer is a classed error, never a signal", {
  expect_nothing_left({
    p <- socket_pair(open = "a+b", blocking = TRUE, options = socket_options(linger = 0))
    close(p$b)
    e <- caught(readBin(p$a, "raw", 1))
    expect_s3_class(e, "clutch_socket_reset")
    for (k in 1:3) e <- caught(writeBin(raw(10), p$a))
    expect_s3_class(e, "clutch_socket_reset")
    expect_match(conditionMessage(e), "127.0.0.1")
    expect_match(socket_info(p$a)$last_error, "reset")
    close(p$a)
    p <- socket_pair(open = "a+b", blocking = TRUE, options = socket_options(linger = 0))
    close(p$b)
    # a large read goes another way
    expect_s3_class(caught(readBin(p$a, "raw", 1e6)), "clutch_socket_reset")
    close(p$a)
    p <- socket_pair(open = "a+b", blocking = TRUE)
    socket_shutdown(p$a)
    expect_s3_class(caught(writeBin(raw(1), p$a)), "clutch_socket_closed")
    close_all(p$a, p$b)
  })
})

test_that("a connection that nobody holds any more is closed, with base R's warning", {
  linux_only()
  script <- start_script(fixture = "finalized-sockets")
  expect_true(said(script, "^left=0"))
  expect_true(said(script, "closing unused connection 3 \\(->localhost"))
})

test_that("an object of a closed connection is not taken for another one with its number", {
  p <- socket_pair()
  old <- p$a
  close(p$a)
  q <- socket_pair()
  expect_true(as.integer(old) %in% c(as.integer(q$a), as.integer(q$b)))
  for (f in list(socket_timeout, socket_info, socket_shutdown, socket_read))
    expect_s3_class(caught(f(old)), "clutch_socket_closed")
  close_all(p$b, q$a, q$b)
})

# ---- descriptors ----

test_that("no descriptor is inherited by a program", {
  linux_only()
  p <- socket_pair()
  l <- socket_listen(0)
  seen <- system("ls -l /proc/self/fd", intern = TRUE)
  before <- system(sprintf("ls -l /proc/%d/fd", Sys.getpid()), intern = TRUE)
  t <- socket_table()
  links <- grep(paste0(" (", paste(t$fd[t$owner == "clutch"], collapse = "|"), ") -> socket"),
                before, value = TRUE)
  mine <- sub(".*(socket:\\[[0-9]+\\]).*", "\\1", links)
  expect_length(mine, 3L)
  expect_false(any(vapply(mine, function(m) any(grepl(m, seen, fixed = TRUE)), NA)))
  close_all(p$a, p$b, l)
})

test_that("failures leave no connection, with warn = 2 either", {
  port <- dead_port()
  old <- options(warn = 2)
  on.exit(options(old))
  expect_nothing_left(for (k in 1:20) expect_error(socket_connect(port = port), "cannot be opened"))
  options(old)
  expect_nothing_left(for (k in 1:20) expect_s3_class(
    caught(socket_connect(port = port)), "clutch_socket_refused"
  ))
  expect_warning(e <- tryCatch(socket_connect(port = port), error = identity),
                 sprintf("localhost:%d cannot be opened", port))
  expect_match(conditionMessage(e),
               sprintf("cannot open the connection to localhost:%d: 127.0.0.1:%d: .*refused", port,
                       port))
})

test_that("when R's connections are used up that is an error of its own, and handles go on", {
  expect_nothing_left({
    l <- socket_listen(0)
    raws <- list()
    repeat {
      con <- tryCatch(rawConnection(raw(), "r"), error = function(e) NULL)
      if (is.null(con)) break
      raws <- c(raws, list(con))
    }
    n <- open_fds()
    e <- caught(socket_connect(port = port_of(l)))
    expect_s3_class(e, "clutch_socket_limit")
    expect_match(conditionMessage(e), "connections are in use")
    expect_identical(open_fds(), n)
    b <- socket_accept(l, slot = FALSE) # that of the failed one
    close(b)
    a <- socket_connect(port = port_of(l), slot = FALSE)
    for (con in raws) close(con)
    close_all(a, l)
  })
})

test_that("a name without an address", {
  name <- strrep("x", 70) # longer than a label may be: nobody is asked
  expect_nothing_left({
    e <- caught(socket_connect(name, 80))
    expect_s3_class(e, "clutch_socket_dns")
    expect_match(conditionMessage(e), name)
    expect_s3_class(caught(service_probe(name, 80)), "clutch_socket_dns")
    expect_s3_class(caught(socket_listen(0, host = name)), "clutch_socket_dns")
  })
})

test_that("an address in use, and one that is not ours", {
  expect_nothing_left({
    l <- socket_listen(0, host = "127.0.0.1")
    e <- caught(socket_listen(port_of(l), host = "127.0.0.1"))
    expect_s3_class(e, "clutch_socket_in_use")
    expect_match(conditionMessage(e),
                 sprintf("creation of server socket failed: port %d cannot be opened: 127.0.0.1:%d",
                         port_of(l), port_of(l)))
    expect_s3_class(caught(socket_listen(0, host = "192.0.2.1")), "clutch_socket_unreachable")
    port <- port_of(l)
    a <- socket_connect("127.0.0.1", port)
    b <- socket_accept(l)
    close_all(b, a, l) # we first: the port lingers
    l <- socket_listen(port, host = "127.0.0.1")
    close(l)
  })
})

# ---- what is told ----

test_that("states are told in TCP's own words", {
  needs("tcp_info")
  l <- socket_listen(0)
  expect_identical(socket_info(l)$state, "LISTEN")
  a <- socket_connect(port = port_of(l), open = "a+b")
  if (linux) expect_identical(socket_info(l)$backlog_used, 1L)
  b <- socket_accept(l, open = "a+b")
  expect_identical(socket_info(l)$accepted, 1)
  expect_identical(c(socket_info(a)$state, socket_info(b)$state), c("ESTABLISHED", "ESTABLISHED"))
  writeBin(raw(7), a)
  expect_true(eventually(socket_info(b)$queued_in == 7, 5))
  readBin(b, "raw", 3)
  i <- socket_info(b)
  # also what has been read ahead
  expect_identical(c(i$queued_in, i$bytes_in, i$bytes_out), c(4, 7, 0))
  expect_identical(socket_info(a)$bytes_out, 7)
  expect_identical(socket_info(a)$retransmits, 0)
  expect_gt(socket_info(a)$rtt, 0)
  expect_gte(socket_info(a)$age, 0)
  socket_shutdown(a)
  expect_true(eventually(socket_info(b)$state == "CLOSE_WAIT", 5))
  expect_true(eventually(socket_info(a)$state == "FIN_WAIT2", 5))
  socket_shutdown(b)
  expect_true(eventually(socket_info(b)$state %in% c("LAST_ACK", "CLOSED"), 5))
  close_all(a, b, l)
})

test_that("the table has every socket of this process", {
  expect_identical(nrow(socket_table()[socket_table()$owner == "clutch", ]), 0L)
  p <- socket_pair()
  light <- socket_pair(slot = FALSE)
  l <- socket_listen(path = path <- tempfile("socket"))
  cl <- make_cluster(1) # has sockets of its own
  t <- socket_table()
  expect_true(all(c(socket_info(p$a)$fd, socket_info(light$b)$fd, socket_info(l)$fd) %in%
                  t$fd[t$owner == "clutch"]))
  expect_true(any(t$owner == "other" & t$family == "unix"))
  expect_identical(t$local[t$fd == socket_info(l)$fd], path)
  expect_identical(t$connection[t$fd == socket_info(p$a)$fd], as.integer(p$a))
  if (system_can("tcp_info")) expect_identical(t$state[t$fd == socket_info(p$a)$fd], "ESTABLISHED")
  if (linux) {
    fds <- list.files("/proc/self/fd")
    expect_identical(t$fd,
                     sort(as.integer(fds[startsWith(
                       Sys.readlink(file.path("/proc/self/fd", fds)), "socket:"
                     )])))
  }
  stop_cluster(cl)
  close_all(p$a, p$b, light$a, light$b, l)
})

test_that("services are found, and dead ports are no trouble", {
  expect_nothing_left({
    l <- socket_listen(0, host = "127.0.0.1")
    dead <- replicate(5, dead_port())
    p <- service_probe("localhost", c(dead, port_of(l)))
    expect_identical(names(p), as.character(c(dead, port_of(l))))
    expect_true(p[[6L]])
    expect_false(any(p[1:5]))
    expect_identical(sum(service_probe("127.0.0.1", setdiff(20001:21000, port_of(l)))) < 100, TRUE)
    expect_length(service_probe("127.0.0.1", integer()), 0L)
    if (has_ipv6()) {
      six <- socket_listen(0, host = "::1")
      expect_true(service_probe("localhost", port_of(six))[[1L]])
      close(six)
    }
    close(l)
  })
})
