# The rules of sockets: each fails when its rule is broken. What needs faults of the system is in
# tests/c/test-sock.c.

outside_checks_only()

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

test_that("a peer that takes nothing delays close() by `wait` at most; interrupts leave nothing", {
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
    expect_s3_class(caught(socket_probe(name, 80)), "clutch_socket_dns")
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
