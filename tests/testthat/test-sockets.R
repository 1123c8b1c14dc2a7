# The socket functions as R's connections.

test_that("arguments are base R's by name, position and default, and ours after them", {
  same <- function(ours, base) {
    expect_identical(as.list(formals(ours))[seq_along(formals(base))], as.list(formals(base)))
  }
  same(socket_listen, serverSocket)
  same(socket_accept, socketAccept)
  same(socket_connect, socketConnection)
  same(socket_select, socketSelect)
  same(socket_timeout, socketTimeout)
})

test_that("classes and summary are those of connections", {
  expect_nothing_left({
    l <- socket_listen(0)
    expect_identical(class(l), c("clutch_listener", "connection"))
    p <- port_of(l)
    a <- socket_connect(port = p, open = "a+b")
    b <- socket_accept(l)
    expect_identical(class(a), c("clutch_socket", "connection"))
    expect_identical(class(b), c("clutch_socket", "connection"))
    s <- summary(a)
    expect_identical(s$description, sprintf("->localhost:%d", p))
    expect_identical(s[c("class", "mode", "text", "opened", "can read", "can write")],
                     list(class = "clutch_socket", mode = "a+b", text = "binary", opened = "opened",
                          `can read` = "yes",
                          `can write` = "yes"))
    expect_identical(summary(b)$text, "text")
    expect_identical(summary(b)$description, sprintf("<-127.0.0.1:%d", p))
    expect_true(isOpen(a) && isOpen(b, "read") && isOpen(b, "write"))
    expect_error(readLines(l), "not enabled")
    expect_error(cat("x", file = l), "not enabled")
    expect_null(close(a))
    expect_error(isOpen(a), "invalid connection")
    close_all(b, l)
  })
})

# What R's own tests/misc-devel.R covers (PR#18555): a non-blocking accept with an encoding, a first
# read that finds nothing, and a line that comes later.
test_that("nothing now is not the end, with an encoding as well", {
  for (encoding in c("native.enc", "UTF-8", "latin1", "UTF-16LE")) expect_nothing_left({
    l <- socket_listen(0)
    out <- socket_connect("localhost", port_of(l), open = "a+b")
    into <- socket_accept(l, encoding = encoding)
    close(l)
    expect_identical(readLines(into, 1), character())
    expect_true(isIncomplete(into))
    writeBin(
      iconv("hello\n", "UTF-8", if (encoding == "native.enc") "UTF-8" else encoding,
            toRaw = TRUE)[[1L]], out
    )
    close(out)
    r <- readLines(into, 1)
    while (isIncomplete(into)) {
      socket_select(list(into))
      r <- readLines(into, 1)
    }
    expect_identical(r, "hello")
    close(into)
  })
})

test_that("lines, incomplete ones and pushed back ones", {
  expect_nothing_left({
    p <- socket_pair()
    cat("one\ntw", file = p$a)
    expect_true(socket_select(list(p$b), timeout = 5))
    expect_identical(readLines(p$b), "one")
    expect_true(isIncomplete(p$b))
    cat("o\nthree\n", file = p$a)
    expect_true(socket_select(list(p$b), timeout = 5))
    expect_identical(readLines(p$b), c("two", "three"))
    expect_identical(readLines(p$b), character())
    pushBack(c("again", "and again"), p$b)
    expect_identical(readLines(p$b), c("again", "and again"))
    writeLines(c("a b", "1 2"), p$a)
    socket_select(list(p$b), timeout = 5)
    expect_identical(read.table(p$b, header = TRUE, nrows = 1), data.frame(a = 1L, b = 2L))
    writeLines("7 8 9", p$a)
    socket_select(list(p$b), timeout = 5)
    expect_identical(scan(p$b, quiet = TRUE, nlines = 1), c(7, 8, 9))
    close_all(p$a, p$b)
  })
})

test_that("blocking reads wait for the whole line, and the end is an end", {
  p <- socket_pair(blocking = TRUE)
  writeLines(c("x", "y"), p$a)
  expect_identical(readLines(p$b, 2), c("x", "y"))
  cat("no newline", file = p$a)
  close(p$a)
  expect_warning(expect_identical(readLines(p$b), "no newline"), "incomplete final line")
  expect_identical(readLines(p$b), character())
  close(p$b)
})

test_that("binary data and objects", {
  expect_nothing_left({
    p <- socket_pair(blocking = TRUE, open = "a+b")
    writeBin(c(1.5, NA, -Inf), p$a)
    expect_identical(readBin(p$b, "double", 3), c(1.5, NA, -Inf))
    writeBin(1:5, p$a, endian = "big")
    expect_identical(readBin(p$b, 1L, 5, endian = "big"), 1:5)
    writeChar("fünf", p$a, eos = NULL)
    expect_identical(readChar(p$b, 4), "fünf")
    for (x in list(NULL, 1:10, mtcars, list(a = sum, b = quote(x + y)), "ünï",
                   globalenv())) for (xdr in c(TRUE, FALSE)) {
      expect_null(serialize(x, p$a, xdr = xdr))
      expect_identical(unserialize(p$b), x)
    }
    serialize(letters, p$a, ascii = TRUE)
    expect_identical(unserialize(p$b), letters)
    # R leaves the last newline, as with its own
    expect_identical(readBin(p$b, "raw", 1), as.raw(0x0a))
    writeBin(as.raw(1:3), p$a)
    close(p$a)
    expect_identical(readBin(p$b, "raw", 10), as.raw(1:3))
    expect_identical(readBin(p$b, "raw", 10), raw())
    close(p$b)
  })
})

test_that("other connections can be put around them, and output goes there", {
  expect_nothing_left({
    l <- socket_listen(0)
    z <- gzcon(socket_connect(port = port_of(l), open = "wb"))
    b <- socket_accept(l, blocking = TRUE, open = "a+b")
    close(l)
    writeLines(rep("again and again", 100), z)
    close(z)
    writeBin(readBin(b, "raw", 1e5), file <- tempfile())
    # gzcon() reads only where nothing can be written
    expect_identical(readLines(file), rep("again and again", 100))
    close(b)
    p <- socket_pair(blocking = TRUE)
    sink(p$a)
    print(1:3)
    sink()
    dput(list(a = 1), p$a)
    write.table(data.frame(x = 1), p$a)
    expect_identical(readLines(p$b, 4), c("[1] 1 2 3", "list(a = 1)", "\"x\"", "\"1\" 1"))
    writeLines(strrep("long ", 1e5), p$a)
    expect_identical(nchar(readLines(p$b, 1)), 500000L)
    flush(p$a)
    expect_error(seek(p$a, 0), "not enabled")
    close_all(p$a, p$b)
  })
})

test_that("a part of a number waits for its rest", {
  p <- socket_pair(open = "a+b")
  bytes <- writeBin(123456789L, raw())
  writeBin(bytes[1:3], p$a)
  socket_select(list(p$b), timeout = 5)
  expect_identical(readBin(p$b, 1L), integer())
  expect_true(isIncomplete(p$b))
  writeBin(bytes[4L], p$a)
  expect_true(eventually(identical(readBin(p$b, 1L), 123456789L), 5))
  close_all(p$a, p$b)
})

test_that("an object of many parts leaves as a whole, and one that fails does not leave at all", {
  p <- socket_pair(open = "a+b", blocking = TRUE)
  x <- as.list(seq_len(300))
  serialize(x, p$a, xdr = FALSE)
  expect_identical(unserialize(p$b), x)
  hook <- function(e) stop("no")
  expect_error(serialize(list(1, environment()), p$a, refhook = hook), "no")
  expect_identical(socket_info(p$b)$queued_in, 0)
  serialize("after", p$a)
  expect_identical(unserialize(p$b), "after") # still in step
  expect_error(serialize(list(numeric(1e5), environment()), p$a, refhook = hook), "no")
  expect_error(unserialize(p$b)) # a part had left: the peer sees an end, not another object
  expect_s3_class(caught(serialize(1, p$a)), "clutch_socket_closed")
  saved <- socket_pair(open = "a+b", blocking = TRUE)
  saveRDS(mtcars, saved$a)
  expect_identical(unserialize(saved$b), mtcars)
  close_all(p$a, p$b, saved$a, saved$b)
})

test_that("an object of any kind leaves when it is whole, and then nothing is held back", {
  p <- socket_pair(open = "a+b", blocking = TRUE)
  f <- function(x, ...) x + 1
  environment(f) <- globalenv() # not this test's, which has the connections
  f <- compiler::cmpfun(f)
  e <- new.env()
  e$self <- e
  plain <- list(NULL, 1L, 1:3, c(1, 2.5), NA, 1i, as.raw(1:3), "X\n", c("a", NA, "\u00fc"), list(),
                list(a = 1:3, b = list(c = "X\n", 2)), c(a = 1, b = 2), quote(x + y), "B\n")
  others <- list(mtcars, factor(c("a", "b")), stats::as.formula("y ~ x", globalenv()), f, sum,
                 globalenv(), asNamespace("stats"), as.list(1:500), stats::runif(20000),
                 expression(a, b), letters[0], 1:20 + 0, as.character(1:30),
                 structure(1:3, class = "of its own", at = Sys.time()))
  for (x in c(plain, others)) for (xdr in c(TRUE, FALSE)) for (version in 2:3) {
    serialize(x, p$a, xdr = xdr, version = version)
    writeBin(as.raw(7), p$a)
    expect_equal(unserialize(p$b), x)
    expect_identical(readBin(p$b, "raw"), as.raw(7))
  }
  serialize(e, p$a)
  same <- unserialize(p$b)
  expect_identical(same$self, same)
  for (x in plain) { # the bytes are those that serialize() makes
    serialize(x, p$a)
    bytes <- serialize(x, NULL)
    expect_identical(readBin(p$b, "raw", length(bytes)), bytes)
    expect_identical(socket_info(p$b)$queued_in, 0)
  }
  # two bytes that look like the beginning of one
  writeBin(charToRaw("X\n"), p$a)
  expect_identical(readBin(p$b, "raw", 2), charToRaw("X\n"))
  close_all(p$a, p$b)
})

test_that("who serializes and who reads is found where functions of base call them", {
  p <- socket_pair(open = "a+b", blocking = TRUE)
  hook <- function(e) stop("no")
  x <- list(1, environment())
  expect_error(lapply(list(x), serialize, p$a, refhook = hook), "no")
  expect_error(do.call(serialize, list(x, p$a, refhook = hook)), "no")
  expect_identical(socket_info(p$b)$queued_in, 0)
  lapply(1:2, serialize, p$a)
  expect_identical(lapply(list(p$b, p$b), unserialize), list(1L, 2L))
  # what the first call has read is not put back when the second fails
  socket_timeout(p$b, 0.1)
  cat("one\ntwo\n", file = p$a)
  expect_s3_class(caught(lapply(1:2, readLines, con = p$b)), "clutch_socket_timeout")
  expect_identical(readLines(p$b, 1), "two")
  close_all(p$a, p$b)
})

test_that("encodings are converted in both directions", {
  for (encoding in c("latin1", "UTF-16LE", "UTF-8", "UTF-16")) {
    l <- socket_listen(0)
    a <- socket_connect(port = port_of(l), encoding = encoding, blocking = TRUE)
    b <- socket_accept(l, encoding = encoding, blocking = TRUE)
    text <- c("fünf", "", "größer", strrep("ä", 3000))
    writeLines(text, a)
    expect_identical(readLines(b, 4), text)
    close_all(a, b, l)
  }
  l <- socket_listen(0)
  a <- socket_connect(port = port_of(l), encoding = "latin1")
  b <- socket_accept(l, blocking = TRUE, open = "a+b")
  cat("fünf", file = a)
  expect_identical(readBin(b, "raw", 4), as.raw(c(0x66, 0xfc, 0x6e, 0x66)))
  expect_error(socket_connect(port = port_of(l), encoding = "no such"), "not supported",
               class = "clutch_argument")
  close_all(a, b, l)
})

test_that("byte order marks, characters in pieces, and invalid input", {
  bytes_to <- function(encoding, blocking = FALSE) {
    l <- socket_listen(0, slot = FALSE)
    on.exit(close(l))
    a <- socket_connect(port = port_of(l), slot = FALSE)
    list(a = a, b = socket_accept(l, encoding = encoding, blocking = blocking))
  }
  lines_soon <- function(con, n = 1) {
    r <- character()
    eventually(length(r <<- c(r, readLines(con, n))) >= n, 5)
    r
  }
  r <- NULL
  p <- bytes_to("UTF-8-BOM")
  for (byte in c(as.raw(c(0xef, 0xbb, 0xbf)), charToRaw("x\n"))) { # one by one
    socket_write(p$a, byte)
    socket_select(list(p$b), timeout = 5)
    r <- c(r, readLines(p$b))
  }
  expect_identical(r, "x")
  close_all(p$a, p$b)
  p <- bytes_to("UTF-16LE", blocking = TRUE)
  socket_write(p$a, as.raw(c(0xff, 0xfe, 0x78, 0, 0x0a, 0)))
  expect_identical(readLines(p$b, 1), "x")
  close_all(p$a, p$b)
  p <- bytes_to("UTF-8")
  socket_write(p$a, as.raw(0xc3))
  socket_select(list(p$b), timeout = 5)
  expect_identical(readLines(p$b), character())
  socket_write(p$a, as.raw(c(0xbc, 0x0a)))
  socket_select(list(p$b), timeout = 5)
  expect_identical(readLines(p$b), "\u00fc")
  close_all(p$a, p$b)
  p <- bytes_to("UTF-8", blocking = TRUE)
  socket_write(p$a, as.raw(c(0x61, 0x0a, 0xff, 0xfe, 0x0a)))
  expect_identical(readLines(p$b, 1), "a")
  expect_warning(readLines(p$b, 1), "invalid input")
  close_all(p$a, p$b)
})

test_that("a connection made with open = \"\" is opened later, and can be opened again", {
  expect_nothing_left({
    l <- socket_listen(0)
    a <- socket_connect(port = port_of(l), open = "")
    expect_false(isOpen(a))
    expect_identical(class(a), c("clutch_socket", "connection"))
    expect_s3_class(caught(socket_timeout(a)), "clutch_socket_closed")
    open(a, "a+b")
    b <- socket_accept(l, blocking = TRUE, open = "a+b")
    writeBin(1:2, a)
    expect_identical(readBin(b, 1L, 2), 1:2)
    close_all(a, b)
    unopened <- socket_connect(port = port_of(l), open = "")
    close(unopened)
    port <- port_of(l)
    close(l)
    dead <- socket_connect(port = port, open = "")
    expect_s3_class(caught(open(dead, "a+")), "clutch_socket_refused")
    close(dead)
  })
})

test_that("server = TRUE takes one connection", {
  expect_nothing_left({
    port <- dead_port()
    script <- start_script(fixture = "base-client", port = port)
    con <- socket_connect(port = port, server = TRUE, blocking = TRUE)
    expect_identical(readLines(con, 1), "from base R")
    expect_identical(summary(con)$description, sprintf("<-127.0.0.1:%d", port))
    close(con)
    e <- caught(socket_connect(port = port, server = TRUE, timeout = 0.2))
    expect_s3_class(e, "clutch_socket_timeout")
  })
})

test_that("both ends of base R's sockets can be met", {
  expect_nothing_left({
    l <- socket_listen(0)
    a <- socketConnection(port = port_of(l), blocking = TRUE, open = "a+b")
    b <- socket_accept(l, blocking = TRUE, open = "a+b")
    serialize(mtcars, a)
    expect_identical(unserialize(b), mtcars)
    serialize(mtcars, b)
    expect_identical(unserialize(a), mtcars)
    close_all(a, b, l)
  })
})

test_that("addresses: IPv4, IPv6, every one, and paths", {
  expect_nothing_left({
    l <- socket_listen(0, host = "127.0.0.1")
    expect_match(socket_info(l)$local, "^127\\.0\\.0\\.1:[0-9]+$")
    close(l)
    if (has_ipv6()) {
      l <- socket_listen(0, host = "::1")
      a <- socket_connect("localhost", port_of(l)) # refused at 127.0.0.1, and then there
      b <- socket_accept(l)
      expect_identical(socket_info(a)$family, "IPv6")
      expect_match(socket_info(a)$peer, "^\\[::1\\]:")
      expect_match(socket_info(b)$peer, "^\\[::1\\]:")
      close_all(a, b, l)
      l <- socket_listen(0)
      a <- socket_connect("::1", port_of(l))
      b <- socket_connect("127.0.0.1", port_of(l))
      x <- socket_accept(l)
      y <- socket_accept(l)
      expect_identical(c(socket_info(x)$family, socket_info(y)$family), c("IPv6", "IPv4"))
      close_all(a, b, x, y, l)
    }
    path <- tempfile("socket")
    l <- socket_listen(path = path)
    expect_true(file.exists(path))
    a <- socket_connect(path = path, blocking = TRUE)
    b <- socket_accept(l, blocking = TRUE)
    writeLines("over a path", a)
    expect_identical(readLines(b, 1), "over a path")
    expect_identical(socket_info(a)$peer, path)
    expect_identical(socket_info(a)$family, "unix")
    expect_s3_class(caught(socket_listen(path = path)), "clutch_socket_in_use")
    expect_true(file.exists(path))
    close_all(a, b, l)
    expect_false(file.exists(path))
    file.create(path)
    # not a socket: left alone
    expect_s3_class(caught(socket_listen(path = path)), "clutch_socket_in_use")
    expect_true(file.exists(path))
    expect_s3_class(caught(socket_connect(path = tempfile())), "clutch_socket_refused")
    expect_s3_class(caught(socket_connect(path = strrep("x", 200))), "clutch_error")
  })
})

test_that("arguments are checked", {
  for (port in list(-1, 65536, 87535, 1.5, NA, "a", 1:2, NULL, 1e10)) {
    expect_error(socket_listen(port), "invalid 'port' argument", class = "clutch_argument")
    expect_error(socket_connect(port = port), "invalid 'port' argument", class = "clutch_argument")
    if (length(port) == 1L) {
      expect_error(socket_probe(ports = port), "invalid 'ports'", class = "clutch_argument")
    }
  }
  expect_error(socket_connect(port = 0), "invalid 'port'")
  expect_error(socket_connect(port = 9, blocking = NA), "invalid 'blocking'")
  expect_error(socket_connect(port = 9, open = NA_character_), "invalid 'open'")
  expect_error(socket_connect(port = 9, encoding = NULL), "invalid 'encoding'")
  expect_error(socket_connect(port = 9, timeout = "1"), "invalid 'timeout'")
  expect_error(socket_connect(NA, 9), "invalid 'host'")
  for (host in list(NA_character_, 5, c("127.0.0.1", "::1"), character())) {
    expect_error(socket_listen(0, host = host), "invalid 'host'", class = "clutch_argument")
  }
  expect_error(socket_connect(port = 9, server = NA), "invalid 'server'")
  expect_error(socket_connect(port = 9, options = 5), "invalid 'options'")
  expect_error(socket_accept(stdin()), "invalid 'socket'")
  p <- socket_pair()
  for (data in list(NA_character_, c("a", "b"), 5, NULL)) {
    expect_error(socket_write(p$a, data), "invalid 'data'", class = "clutch_argument")
  }
  for (wait in list(NA, -1, "1")) { # it would wait for ever
    expect_error(close(p$a, wait = wait), "invalid 'wait'", class = "clutch_argument")
  }
  close_all(p$a, p$b)
  expect_error(socket_timeout(stdin()), "invalid 'socket'")
  expect_error(socket_info(1), "invalid 'socket'")
  expect_error(socket_options(no_delay = 3), "invalid 'no_delay'")
  expect_error(socket_options(send_buffer = -3), "invalid 'send_buffer'")
  expect_error(socket_select(list()), "not a list of sockets")
  expect_error(socket_select(list(stdin())), "not a socket connection")
  expect_error(socket_select(list(1, 2), TRUE, timeout = -1), "NULL or a non-negative number")
  expect_error(socket_select(list(1), c(TRUE, FALSE)), "bad write indicators")
})

test_that("options are set, and read back", {
  l <- socket_listen(0, backlog = 7)
  wanted <- c(list(keep_idle = 30, keep_interval = 5, keep_count = 3, linger = 4),
              if (system_can("user_timeout")) list(user_timeout = 2.5))
  a <- socket_connect(port = port_of(l), options = do.call(socket_options, wanted))
  b <- socket_accept(l)
  o <- socket_info(a)$options
  expect_identical(o[c("no_delay", "keepalive", "linger")],
                   list(no_delay = 1L, keepalive = 1L, linger = 4L))
  if (system_can("user_timeout"))
    expect_identical(o[c("keep_idle", "keep_interval", "keep_count", "user_timeout")],
                     list(keep_idle = 30L, keep_interval = 5L, keep_count = 3L, user_timeout = 2.5))
  expect_identical(socket_info(b)$options$no_delay, 1L) # the default, at both ends
  close_all(a, b)
  a <- socket_connect(port = port_of(l),
                      options = socket_options(no_delay = FALSE, send_buffer = 20000))
  expect_identical(socket_info(a)$options$no_delay, 0L)
  expect_gte(socket_info(a)$options$send_buffer, 20000)
  close(a)
  a <- socket_connect(port = port_of(l), options = "no-delay") # as base R has it
  expect_identical(socket_info(a)$options$no_delay, 1L)
  i <- socket_info(l)
  expect_identical(i$backlog_asked, 7L)
  if (system_can("tcp_info")) expect_identical(i$backlog_granted, 7L)
  most <- socket_listen(0)
  expect_identical(socket_info(most)$backlog_asked, NA_integer_)
  if (system_can("tcp_info")) expect_gte(socket_info(most)$backlog_granted, 128)
  close_all(a, l, most)
})

test_that("summary() says what base R's says, also after close() and of a light handle", {
  l <- socket_listen(0)
  a <- socket_connect(port = port_of(l), open = "")
  by_base <- function(con) base::summary.connection(con)
  expect_identical(summary(a), by_base(a))
  expect_identical(summary(a)$opened, "closed")
  open(a, "a+b")
  for (i in 1:2) expect_identical(summary(a), by_base(a))
  expect_identical(summary(a)[c("text", "opened")], list(text = "binary", opened = "opened"))
  mine <- summary(a)
  mine$text <- "changed"
  expect_identical(summary(a)$text, "binary")
  b <- socket_accept(l, open = "a+")
  expect_identical(summary(b), by_base(b))
  expect_identical(summary(b)$text, "text")
  close(b)
  expect_error(summary(b), "invalid connection")
  light <- socket_connect(port = port_of(l), slot = FALSE)
  expect_s3_class(summary(light), "summaryDefault")
  close_all(a, light, l)
})
