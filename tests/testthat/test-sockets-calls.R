# A call that is given up has taken nothing: everything it had is read again by the next.

outside_checks_only()

# Sends `first`, sees `read()` time out, twice, and returns what it reads when `rest` has come.
in_two_parts <- function(p, first, rest, read, class = "clutch_socket_timeout") {
  send <- function(x) if (is.raw(x)) writeBin(x, p$a) else cat(x, file = p$a)
  send(first)
  for (k in 1:2) expect_s3_class(caught(read(p$b)), class)
  send(rest)
  read(p$b)
}

text_pair <- function(...) socket_pair(blocking = TRUE, timeout = 0.1, ...)
binary_pair <- function() socket_pair(blocking = TRUE, timeout = 0.1, open = "a+b")

test_that("complete lines come again after a timeout", {
  expect_nothing_left({
    for (encoding in c("native.enc", "latin1", "UTF-16LE")) {
      p <- text_pair(encoding = encoding)
      x <- in_two_parts(p, "250-a\n250 OK\nhal", "f\n", function(con) readLines(con, 3))
      expect_identical(x, c("250-a", "250 OK", "half"))
      cat("next\n", file = p$a)
      expect_identical(readLines(p$b, 1), "next") # and once only
      close_all(p$a, p$b)
    }
    p <- text_pair()
    writeLines(c("250-a", "250 OK"), p$a)
    expect_s3_class(caught(readLines(p$b)), "clutch_socket_timeout") # waits for the end
    socket_shutdown(p$a)
    expect_identical(readLines(p$b), c("250-a", "250 OK"))
    close_all(p$a, p$b)
  })
})

test_that("each call is its own: one that has returned keeps what it had", {
  p <- text_pair()
  two <- function(con) c(readLines(con, 1), readLines(con, 1))
  cat("a\nb", file = p$a)
  expect_s3_class(caught(two(p$b)), "clutch_socket_timeout")
  cat("\n", file = p$a)
  expect_identical(readLines(p$b, 1), "b")
  cat("1\n2\n3", file = p$a)
  expect_s3_class(caught(lapply(1:3, function(i) readLines(p$b, 1))), "clutch_socket_timeout")
  cat("\n4\n", file = p$a)
  expect_identical(do.call("readLines", list(p$b, 2)), c("3", "4"))
  cat("inner\n", file = p$a)
  # what an outer call was given as connection is not looked at before its time
  seen <- character()
  cat("inner\n", file = p$a)
  writeLines({
    x <- readLines(p$b, 1)
    seen <- c(seen, "text")
    x
  }, {
    seen <- c(seen, "con")
    p$a
  })
  expect_identical(seen, c("text", "con"))
  close_all(p$a, p$b)
})

test_that("scan() and the functions around it give back what the whole call had", {
  expect_nothing_left({
    p <- text_pair()
    expect_identical(in_two_parts(p, "1 2 ", "3 4\n", function(con) scan(con, n = 3, quiet = TRUE)),
                     c(1, 2, 3))
    # scan() had read one character too many, and had pushed it back
    expect_identical(in_two_parts(p, "5 ", "6\n", function(con) scan(con, n = 3, quiet = TRUE)),
                     c(4, 5, 6))
    x <- in_two_parts(p, "\na,b\n1,2\n", "3,4\n", function(con) read.csv(con, nrows = 2))
    expect_identical(x, data.frame(a = c(1L, 3L), b = c(2L, 4L)))
    # more lines than read.table() looks at first
    lines <- c("a b", paste(1:20, 21:40))
    for (k in c(2, 5, 6, 20)) {
      x <- in_two_parts(p, paste0(lines[1:k], "\n", collapse = ""),
                        paste0(lines[-(1:k)], "\n", collapse = ""),
                        function(con) read.table(con, header = TRUE, nrows = 20))
      expect_identical(x, data.frame(a = 1:20, b = 21:40))
    }
    x <- in_two_parts(p, "12345\n67890\n", "abcde\n", function(con) read.fwf(con, c(2, 3), n = 3))
    expect_identical(x, data.frame(V1 = c("12", "67", "ab"), V2 = c("345", "890", "cde")))
    close_all(p$a, p$b)
  })
})

test_that("binary calls of many reads give back what the whole call had", {
  expect_nothing_left({
    p <- binary_pair()
    expect_identical(in_two_parts(p, charToRaw("abcd"), charToRaw("ef"),
                                  function(con) readChar(con, c(2, 2, 2))),
                     c("ab", "cd", "ef"))
    strings <- writeBin(c("ab", "cd", "ef"), raw())
    expect_identical(in_two_parts(p, strings[1:7], strings[8:9],
                                  function(con) readBin(con, "character", 3)),
                     c("ab", "cd", "ef"))
    short <- writeBin(1:100, raw(), size = 2)
    expect_identical(
      in_two_parts(p, short[1:33], short[34:200], function(con) {
        readBin(con, 1L, 100, size = 2)
      }), 1:100
    )
    x <- stats::runif(1e5)
    bytes <- writeBin(x, raw())
    for (cut in c(3, 64768, 64770, 500001))
      expect_identical(
        in_two_parts(p, bytes[1:cut], bytes[-(1:cut)], function(con) readBin(con, "double", 1e5)), x
      )
    expect_identical(
      in_two_parts(p, bytes[1:500001], bytes[-(1:500001)], function(con) readBin(con, "raw", 8e5)),
      bytes
    )
    expect_identical(socket_info(p$b)$queued_in, 0)
    close_all(p$a, p$b)
  })
})

test_that("unserialize() and readRDS() that timed out can be repeated", {
  expect_nothing_left({
    p <- binary_pair()
    value <- list(stats::runif(1e5), letters, mtcars, quote(x + y))
    for (xdr in c(TRUE, FALSE)) {
      bytes <- serialize(value, NULL, xdr = xdr)
      for (cut in c(1, 20, 9000, 5e5)) for (read in list(unserialize, readRDS)) {
        expect_identical(in_two_parts(p, bytes[1:cut], bytes[-(1:cut)], read), value)
        expect_identical(socket_info(p$b)$queued_in, 0)
      }
    }
    close_all(p$a, p$b)
  })
})

# In which function R is it tells otherwise then.
test_that("the same while R takes samples for a profile, and without its compiler", {
  p <- binary_pair()
  bytes <- serialize(list(1:3, "a"), NULL)
  expect_both <- function() {
    expect_identical(in_two_parts(p, bytes[1:20], bytes[-(1:20)], unserialize), list(1:3, "a"))
    serialize(list(2, "b"), p$a)
    expect_identical(unserialize(p$b), list(2, "b"))
  }
  before <- compiler::enableJIT(0)
  Rprof(file <- tempfile())
  on.exit({
    Rprof(NULL)
    compiler::enableJIT(before)
    unlink(file)
    close_all(p$a, p$b)
  })
  expect_both()
  Rprof(NULL)
  expect_both()
})

test_that("a time limit gives back what the call had", {
  expect_nothing_left({
    p <- socket_pair(blocking = TRUE, timeout = Inf)
    cat("one\ntwo\nthr", file = p$a)
    for (k in 1:2) {
      expect_error({
        setTimeLimit(elapsed = 0.3, transient = TRUE)
        readLines(p$b, 3)
      }, "time limit")
      setTimeLimit()
    }
    cat("ee\n", file = p$a)
    socket_timeout(p$b, 5)
    expect_identical(readLines(p$b, 3), c("one", "two", "three"))
    close_all(p$a, p$b)
  })
})

test_that("what is kept is bounded: a larger call cannot be repeated, the connection says so", {
  expect_nothing_left({
    line <- strrep("x", 99999)
    for (lines in c(500, 750)) { # 50 MB, 75 MB
      p <- socket_pair(blocking = TRUE, timeout = 60)
      job <- parallel::mcparallel({
        writeLines(rep(line, lines), p$a)
        NULL
      })
      socket_timeout(p$b, 2)
      e <- caught(readLines(p$b, lines + 1))
      expect_s3_class(e, "clutch_socket_timeout")
      parallel::mccollect(job)
      cat("more\n", file = p$a)
      if (lines == 500) {
        x <- readLines(p$b, lines + 1)
        expect_identical(unique(x), c(line, "more"))
      } else {
        expect_match(conditionMessage(e), "lost")
        for (k in 1:2) {
          expect_s3_class(caught(readLines(p$b, 1)), c("clutch_socket_broken", "clutch_error"))
        }
        expect_s3_class(caught(unserialize(p$b)), "clutch_socket_broken")
        cat("back\n", file = p$b) # the other direction is all right
        expect_identical(readLines(p$a, 1), "back")
      }
      close_all(p$a, p$b)
    }
  })
})

test_that("incomplete lines without blocking, and what R has pushed back, are not lost either", {
  expect_nothing_left({
    p <- socket_pair(blocking = FALSE, timeout = 0.1)
    cat("one\ntw", file = p$a)
    expect_true(eventually(socket_info(p$b)$queued_in == 6))
    expect_identical(readLines(p$b), "one")
    expect_true(isIncomplete(p$b))
    cat("o\n", file = p$a)
    expect_true(eventually(identical(readLines(p$b), "two")))
    pushBack(c("again", "and again"), p$b)
    expect_identical(readLines(p$b), c("again", "and again"))
    close_all(p$a, p$b)
  })
})

test_that("calls one after the other read what they read from base R's sockets", {
  calls <- list(
    function(b) list(scan(b, n = 3, quiet = TRUE), scan(b, n = 1, quiet = TRUE), readLines(b, 1)),
    function(b) list(scan(b, n = 2, quiet = TRUE), readChar(b, 2), readLines(b, 1)),
    function(b) {
      list(read.table(b, nrows = 1), readLines(b, 1), read.table(b, nrows = 2),
           scan(b, n = 1, quiet = TRUE))
    },
    function(b) list(readLines(b, 1), readChar(b, 3), readLines(b, 1), count.fields(b)),
    function(b) {
      list(tryCatch(scan(b, 1L, nlines = 1, sep = "x", quiet = TRUE), error = conditionMessage),
           readLines(b, 1))
    },
    function(b) {
      list(tryCatch(read.table(b, colClasses = "Date", nrows = 2), error = conditionMessage),
           readLines(b, 3))
    },
    function(b) {
      pushBack(c("p q", "r"), b)
      list(scan(b, "", n = 1, quiet = TRUE), readLines(b, 1), readLines(b, 1), readLines(b, 1))
    })
  lines <- vapply(1:8, function(i) paste(4 * i - 3:0, collapse = " "), "")
  texts <- c(paste0(lines, "\n", collapse = ""),
             paste0(lines, rep(c("\r", "\r\n", "\n"), length.out = 8), collapse = ""))
  expect_nothing_left(for (text in texts) for (encoding in c(
    "native.enc", "latin1"
  )) for (f in calls) {
    read <- lapply(c(TRUE, FALSE), function(ours) {
      l <- if (ours) socket_listen(0) else serverSocket(port <- dead_port())
      a <- socket_connect(port = if (ours) port_of(l) else port, open = "wb")
      b <- (if (ours) socket_accept else socketAccept)(
        l, blocking = TRUE, timeout = 30, encoding = encoding
      )
      writeBin(charToRaw(text), a)
      close(a)
      on.exit(close_all(b, l))
      suppressWarnings(f(b))
    })
    expect_identical(read[[1L]], read[[2L]])
  })
})

test_that("a lone CR and what R reads behind it go back", {
  p <- text_pair()
  cat("a\rb", file = p$a)
  expect_identical(readLines(p$b, 1), "a")
  expect_identical(in_two_parts(p, "c\rd", "e\n", function(con) readLines(con, 2)), c("bc", "de"))
  close_all(p$a, p$b)
})
