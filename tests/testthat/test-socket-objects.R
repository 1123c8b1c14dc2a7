# socket_send() and socket_receive(): one object, as serialize() writes it.

outside_checks_only()

values <- list(NULL, 1L, 1:10, letters, mtcars, list(a = sum, b = quote(x + y)), "\u00fcn\u00ef",
               globalenv(), stats::runif(1e5), as.list(1:20000))

test_that("objects arrive as they were, between handles and connections", {
  expect_nothing_left({
    for (slots in list(c(FALSE, FALSE), c(TRUE, FALSE), c(FALSE, TRUE), c(TRUE, TRUE))) {
      l <- socket_listen(0)
      a <- socket_connect(port = port_of(l), open = "a+b", slot = slots[[1L]])
      b <- socket_accept(l, open = "a+b", slot = slots[[2L]])
      for (x in values) {
        expect_identical(expect_invisible(socket_send(a, x)), NULL)
        expect_identical(socket_receive(b), x)
      }
      close_all(a, b, l)
    }
  })
})

test_that("the other end may be serialize() and unserialize(), with base R's connections as well", {
  expect_nothing_left({
    l <- socket_listen(0)
    a <- socket_connect(port = port_of(l), slot = FALSE)
    b <- socket_accept(l, blocking = TRUE, open = "a+b")
    base <- socketConnection(port = port_of(l), blocking = TRUE, open = "a+b")
    c <- socket_accept(l, slot = FALSE)
    for (ends in list(list(a, b), list(c, base))) for (x in values) {
      socket_send(ends[[1L]], x)
      expect_identical(unserialize(ends[[2L]]), x)
      for (xdr in c(TRUE, FALSE)) {
        serialize(x, ends[[2L]], xdr = xdr)
        expect_identical(socket_receive(ends[[1L]]), x)
      }
    }
    # nothing but the object's bytes has been read and written
    socket_send(a, "object")
    socket_write(a, "bytes")
    expect_identical(unserialize(b), "object")
    expect_identical(rawToChar(readBin(b, "raw", 5)), "bytes")
    close_all(a, b, base, c, l)
  })
})

test_that("a receive that timed out has taken nothing", {
  p <- socket_pair(slot = FALSE, timeout = 0.1)
  expect_s3_class(caught(socket_receive(p$b)), "clutch_socket_timeout")
  x <- list(stats::runif(1e5), letters, mtcars)
  bytes <- serialize(x, NULL, xdr = FALSE)
  socket_timeout(p$a, 10)
  for (cut in c(1, 20, 9000, 5e5)) {
    socket_write(p$a, bytes[1:cut])
    for (k in 1:2) expect_s3_class(caught(socket_receive(p$b)), "clutch_socket_timeout")
    expect_identical(socket_info(p$b)$queued_in, as.numeric(cut))
    rest <- bytes[-(1:cut)]
    while (length(rest)) { # both buffers together may take less
      n <- socket_write(p$a, rest)
      rest <- rest[-seq_len(n)]
      if (length(rest)) expect_s3_class(caught(socket_receive(p$b)), "clutch_socket_timeout")
    }
    expect_identical(socket_receive(p$b), x)
    expect_identical(socket_info(p$b)$queued_in, 0)
  }
  close_all(p$a, p$b)
})

test_that("ends, resets and other bytes are errors of their own", {
  expect_nothing_left({
    p <- socket_pair(slot = FALSE)
    bytes <- serialize(letters, NULL, xdr = FALSE)
    socket_send(p$a, 1)
    socket_write(p$a, bytes[1:30])
    close(p$a)
    expect_identical(socket_receive(p$b), 1)
    e <- caught(socket_receive(p$b))
    expect_s3_class(e, c("clutch_socket_end", "clutch_error"))
    expect_match(conditionMessage(e), "in the middle of an object")
    expect_identical(socket_read(p$b), bytes[1:30]) # still there
    e <- caught(socket_receive(p$b))
    expect_s3_class(e, "clutch_socket_end")
    expect_no_match(conditionMessage(e), "middle")
    close(p$b)
    expect_s3_class(caught(socket_receive(p$b)), "clutch_socket_closed")
    expect_s3_class(caught(socket_send(p$b, 1)), "clutch_socket_closed")
    p <- socket_pair(slot = FALSE, timeout = 1)
    socket_write(p$a, "no object")
    expect_error(socket_receive(p$b))
    expect_identical(rawToChar(socket_read(p$b, 9, exact = TRUE)), "no object")
    close_all(p$a, p$b)
    expect_error(socket_send(1, 1), "invalid 'socket'", class = "clutch_argument")
    expect_error(socket_receive(stdin()), "invalid 'socket'", class = "clutch_argument")
  })
})

test_that("an object of which a part has left ends that direction when it is given up", {
  expect_nothing_left({
    p <- socket_pair(slot = FALSE, timeout = 0.1)
    expect_s3_class(caught(socket_send(p$a, raw(5e7))), "clutch_socket_timeout")
    expect_s3_class(caught(socket_send(p$a, 1)), "clutch_socket_closed")
    expect_s3_class(caught(socket_receive(p$b)), "clutch_socket_end")
    close_all(p$a, p$b)
  })
})

test_that("large objects: what is kept is bounded, and beyond that the socket is broken", {
  expect_nothing_left({
    x <- stats::runif(12.5e6) # 100 MB
    p <- socket_pair(slot = FALSE, timeout = 60)
    job <- parallel::mcparallel({
      socket_send(p$a, x)
      NULL
    })
    y <- socket_receive(p$b)
    parallel::mccollect(job)
    expect_identical(y, x)
    bytes <- serialize(y, NULL, xdr = FALSE)
    job <- parallel::mcparallel({
      socket_timeout(p$a, 60)
      sent <- 0
      while (sent < 8e7) {
        # in pieces: to copy all the rest each time may take longer than the other side waits
        sent <- sent + socket_write(p$a, bytes[(sent + 1):min(sent + 4e6, 8e7)])
      }
      NULL
    })
    socket_timeout(p$b, 2)
    e <- caught(socket_receive(p$b))
    expect_s3_class(e, "clutch_socket_timeout")
    expect_match(conditionMessage(e), "lost")
    parallel::mccollect(job)
    for (f in list(socket_receive, socket_read)) {
      expect_s3_class(caught(f(p$b)), "clutch_socket_broken")
    }
    close_all(p$a, p$b)
  })
})

test_that("a time limit ends both waits, and what came stays", {
  expect_nothing_left({
    p <- socket_pair(slot = FALSE, timeout = Inf)
    bytes <- serialize(letters, NULL, xdr = FALSE)
    socket_write(p$a, bytes[1:30])
    expect_error({
      setTimeLimit(elapsed = 0.3, transient = TRUE)
      socket_receive(p$b)
    }, "time limit")
    setTimeLimit()
    socket_write(p$a, bytes[-(1:30)])
    expect_identical(socket_receive(p$b), letters)
    close_all(p$a, p$b)
  })
})
