# Light handles: sockets that take no place in R's table of connections.

# What a script says that runs under a limit of the shell's
limited <- function(limit, lines) {
  file <- tempfile(fileext = ".R")
  writeLines(c("library(clutch)", lines), file)
  system(sprintf("%s; R_LIBS=%s %s --vanilla %s 2>&1", limit,
                 shQuote(paste(.libPaths(), collapse = ":")),
                 shQuote(file.path(R.home("bin"), "Rscript")), shQuote(file)), intern = TRUE)
}

# An Rscript in which these functions, lines of C, stand in front of the system's
preloading <- function(lines) {
  folder <- tempfile("preload")
  dir.create(folder)
  source <- file.path(folder, "lib.c")
  writeLines(c("#define _GNU_SOURCE", "#include <dlfcn.h>", "#include <errno.h>",
               "#include <netdb.h>", "#include <netinet/in.h>",
               "#include <netinet/tcp.h>", "#include <sys/socket.h>", "#include <unistd.h>", lines),
               source)
  library <- file.path(folder, "lib.so")
  args <- c("-shared", "-fPIC", "-o", library, source, "-ldl")
  if (suppressWarnings(system2("cc", args, stdout = FALSE, stderr = FALSE)) != 0L) {
    skip("needs a C compiler")
  }
  rscript <- file.path(folder, "rscript")
  writeLines(
    c("#!/bin/sh",
      sprintf("LD_PRELOAD=%s exec %s \"$@\"", library, file.path(R.home("bin"), "Rscript"))),
      rscript
  )
  Sys.chmod(rscript, "0755")
  rscript
}

test_that("light handles read, write and end", {
  expect_nothing_left({
    p <- socket_pair(slot = FALSE)
    expect_identical(class(p$a), c("clutch_socket", "clutch_light"))
    expect_identical(socket_read(p$b), raw())
    expect_identical(socket_write(p$a, "abc"), 3)
    expect_true(socket_select(list(p$b), timeout = 5))
    expect_identical(socket_read(p$b, 2), charToRaw("ab"))
    expect_identical(socket_read(p$b, 2), charToRaw("c"))
    state <- if (system_can("tcp_info")) " ESTABLISHED" else ""
    expect_match(capture.output(print(p$a)),
                 sprintf("^<socket 127.0.0.1:[0-9]+ -> 127.0.0.1:[0-9]+%s>$", state))
    socket_shutdown(p$a)
    expect_true(socket_select(list(p$b), timeout = 5))
    expect_null(socket_read(p$b))
    close(p$a)
    expect_identical(capture.output(print(p$a)), "<socket, closed>")
    expect_null(close(p$a)) # again is harmless
    for (f in list(socket_read, socket_info, socket_shutdown, function(x) socket_write(x, "x"),
                   function(x) socket_select(list(x))))
      expect_s3_class(caught(f(p$a)), "clutch_socket_closed")
    close(p$b)
  })
})

test_that("blocking handles wait, and with exact = TRUE for all", {
  p <- socket_pair(slot = FALSE, blocking = TRUE, timeout = 0.1)
  expect_s3_class(caught(socket_read(p$b)), "clutch_socket_timeout")
  socket_write(p$a, as.raw(1:3))
  expect_s3_class(caught(socket_read(p$b, 5, exact = TRUE)), "clutch_socket_timeout")
  socket_write(p$a, as.raw(4:5))
  expect_identical(socket_read(p$b, 5, exact = TRUE), as.raw(1:5)) # nothing was lost
  for (n in c(2^53, 1e300, Inf)) {
    socket_write(p$a, as.raw(1:3))
    expect_identical(socket_read(p$b, n), as.raw(1:3))
  }
  socket_write(p$a, as.raw(6))
  close(p$a)
  expect_identical(socket_read(p$b, 5, exact = TRUE), as.raw(6))
  expect_null(socket_read(p$b, 5, exact = TRUE))
  close(p$b)
  p <- socket_pair(slot = FALSE, blocking = TRUE, timeout = 0.1)
  e <- caught(socket_write(p$a, raw(5e7)))
  expect_s3_class(e, "clutch_socket_timeout")
  expect_gt(e$written, 0)
  close_all(p$a, p$b)
  p <- socket_pair(slot = FALSE, blocking = FALSE)
  n <- socket_write(p$a, raw(5e7))
  expect_true(n > 0 && n < 5e7)
  expect_true(eventually(socket_write(p$a, raw(5e7)) == 0)) # buffers grow
  expect_identical(socket_select(list(p$a), TRUE, 0), FALSE)
  close_all(p$a, p$b)
})

test_that("a large message arrives whole", {
  l <- socket_listen(0, slot = FALSE)
  a <- socket_connect(port = port_of(l), slot = FALSE)
  b <- socket_accept(l, slot = FALSE)
  x <- as.raw(seq_len(3e6) %% 251)
  sent <- 0
  got <- raw()
  while (length(got) < length(x)) {
    if (sent < length(x)) sent <- sent + socket_write(a, x[(sent + 1):length(x)])
    got <- c(got, socket_read(b, 1e6))
  }
  expect_identical(got, x)
  close_all(a, b, l)
})

test_that("connections can be read and written like handles", {
  p <- socket_pair(blocking = TRUE)
  socket_write(p$a, "line\nrest")
  expect_identical(readLines(p$b, 1), "line")
  expect_identical(socket_read(p$b), charToRaw("rest"))
  close_all(p$a, p$b)
})

test_that("3,000 sockets, with descriptors beyond those of select()", {
  limits <- .Call(clutch:::ffi_limits)
  skip_if(!is.na(limits[[2L]]) && limits[[2L]] < 3200, "the hard limit on descriptors is too low")
  expect_nothing_left({
    l <- socket_listen(0, slot = FALSE)
    a <- b <- vector("list", 1500L)
    for (i in seq_along(a)) {
      a[[i]] <- socket_connect("127.0.0.1", port_of(l), slot = FALSE)
      b[[i]] <- socket_accept(l, slot = FALSE)
    }
    all <- c(a, b)
    t <- socket_table()
    expect_gt(max(t$fd), 3000)
    # descriptors that select() can take are left to others
    expect_false(any(t$owner == "clutch" & t$fd >= 128 & t$fd < 1024))
    expect_identical(sum(socket_select(all, timeout = 0)), 0L)
    expect_identical(sum(socket_select(all, TRUE, timeout = 0)), 3000L)
    for (i in c(1L, 777L, 1500L)) socket_write(a[[i]], "x")
    expect_true(eventually(
      identical(which(socket_select(all, timeout = 5)), 1500L + c(1L, 777L, 1500L)), 5
    ))
    expect_identical(sum(socket_table()$owner == "clutch"), 3001L)
    for (s in all) close(s)
    close(l)
  })
})

test_that("a handle that is forgotten is closed", {
  expect_nothing_left({
    for (i in 1:50) socket_pair(slot = FALSE)
    gc()
  })
})

test_that("when descriptors are used up that is an error of its own, and nothing is lost by it", {
  linux_only()
  out <- limited("ulimit -n 300", r"---(
    l <- socket_listen(0, slot = FALSE)
    connect <- function() {
      suppressWarnings(socket_connect("127.0.0.1", socket_info(l)$local_port, slot = FALSE))
    }
    accept <- function() suppressWarnings(socket_accept(l, slot = FALSE, timeout = 5))
    s <- list()
    for (i in 1:500) {
      con <- tryCatch(connect(), error = identity)
      if (inherits(con, "error")) break
      s <- c(s, list(con))
    }
    cat(class(con)[[1L]], length(s) > 20, "\n")
    e <- tryCatch(accept(), error = identity)
    cat(class(e)[[1L]], socket_info(l)$backlog_used == length(s), "\n") # they wait in the queue
    for (con in s[1:3]) close(con)
    cat(socket_info(accept())$state, "\n")
    s <- list()
    rm(con)
    b <- connect() # forgotten ones are collected first
    cat("alive\n"))---")
  told <- if (system_can("tcp_info")) c("TRUE", "CLOSE_WAIT") else c("NA", "NA")
  expect_identical(trimws(out),
                   c("clutch_socket_limit TRUE", paste("clutch_socket_limit", told[[1L]]),
                     told[[2L]], "alive"))
})

test_that("the soft limit on descriptors is raised", {
  linux_only()
  hard <- .Call(clutch:::ffi_limits)[[2L]]
  skip_if(!is.na(hard) && hard < 1600, "the hard limit is too low")
  out <- limited("ulimit -Sn 300", r"---(
    l <- socket_listen(0, slot = FALSE)
    both <- function(i) {
      a <- socket_connect("127.0.0.1", socket_info(l)$local_port, slot = FALSE)
      list(a, socket_accept(l, slot = FALSE))
    }
    cat(length(lapply(1:700, both))))---")
  expect_identical(out, "700")
})

test_that("the package is unloaded with its connections closed", {
  script <-
    start_script(c("p <- socket_listen(0)", "q <- socket_listen(0, slot = FALSE)",
                   "n <- length(getAllConnections())",
                   "unloadNamespace('clutch')",
                   "cat('closed=', n - length(getAllConnections()), '\\n', sep = '')",
                   "rm(p, q); invisible(gc()); cat('alive=1\\n')"))
  expect_true(said(script, "^alive=1"))
  expect_identical(value_of(script, "closed"), "1")
})

test_that("exact = TRUE waits for all, also where reads do not block otherwise", {
  p <- socket_pair(slot = FALSE)
  x <- as.raw(seq_len(255))
  socket_write(p$a, x[1:10])
  expect_true(eventually(socket_info(p$b)$queued_in == 10))
  on.exit(close_all(p$a, p$b))
  # the rest comes while it waits: from a connection that a forked child of this process shares
  job <- parallel::mcparallel({
    Sys.sleep(0.2)
    socket_write(p$a, x[11:255])
    NULL
  })
  expect_identical(socket_read(p$b, 255L, exact = TRUE), x)
  parallel::mccollect(job)
  expect_identical(socket_read(p$b, 255L), raw(0)) # and without it does not wait
  socket_timeout(p$b, 0.1)
  socket_write(p$a, x[1:3])
  expect_error(socket_read(p$b, 4L, exact = TRUE), class = "clutch_socket_timeout")
  expect_identical(socket_read(p$b, 4L), x[1:3]) # nothing was lost
})

test_that("names that nobody waits for any more take few threads, and outlive the package", {
  linux_only()
  release <- tempfile()
  on.exit(unlink(release))
  # a resolver that stands, in front of the system's
  rscript <-
    preloading(c("int getaddrinfo(const char *h, const char *s, const struct addrinfo *hints,",
    "                struct addrinfo **out) {",
    "  int (*real)(const char *, const char *, const struct addrinfo *, struct addrinfo **) =",
    "    dlsym(RTLD_NEXT, \"getaddrinfo\");",
    "  if (hints->ai_flags & AI_NUMERICHOST) return real(h, s, hints, out);",
    sprintf("  while (access(\"%s\", F_OK) != 0) usleep(1000);", release),
    "  return EAI_NONAME;", "}"))
  script <- start_script(fixture = "resolver-threads", release = release, program = rscript)
  expect_true(said(script, "^alive=1", 60))
  more <- as.integer(strsplit(value_of(script, "more"), " ")[[1L]])
  expect_lte(more[[1L]], 16L)
  expect_identical(more[[2L]], 0L)
  expect_identical(value_of(script, "threads"), "0")
  expect_identical(value_of(script, "loaded"), "FALSE")
})

test_that("whether somebody is there can be asked without a condition", {
  expect_nothing_left({
    for (slot in c(TRUE, FALSE)) {
      l <- socket_listen(0, slot = slot)
      old <- options(warn = 2)
      expect_silent(for (k in 1:3) expect_null(socket_accept(l, wait = FALSE, slot = slot)))
      options(old)
      a <- socket_connect(port = port_of(l), blocking = TRUE, slot = slot)
      b <- NULL
      expect_true(eventually(!is.null(b <- socket_accept(
        l, blocking = TRUE, slot = slot, wait = FALSE
      ))))
      socket_write(a, "x")
      expect_identical(socket_read(b, 1, exact = TRUE), charToRaw("x"))
      expect_null(socket_accept(l, wait = FALSE))
      expect_error(socket_accept(l, wait = NA), "invalid 'wait'")
      expect_error(socket_accept(l, wait = FALSE, open = ""), "invalid 'wait'")
      close_all(a, b, l)
      expect_s3_class(caught(socket_accept(l, wait = FALSE)), "clutch_socket_closed")
    }
  })
})

test_that("a connection reset before its options are set is taken; its first read says so", {
  linux_only()
  # as on macOS
  rscript <-
    preloading(c("int setsockopt(int fd, int level, int name, const void *v, socklen_t n) {",
    "  int (*real)(int, int, int, const void *, socklen_t) = dlsym(RTLD_NEXT, \"setsockopt\");",
    "  struct tcp_info t;", "  socklen_t size = sizeof t;",
    "  if (level == IPPROTO_TCP && getsockopt(fd, level, TCP_INFO, &t, &size) == 0 &&",
    "      t.tcpi_state == TCP_CLOSE) {",
    "    errno = EINVAL;", "    return -1;", "  }", "  return real(fd, level, name, v, n);", "}"))
  script <- start_script(fixture = "resets", program = rscript)
  expect_true(said(script, "^done=|^Error"))
  for (k in 1:3) expect_identical(value_of(script, paste0("read", k)), "clutch_socket_reset")
})

test_that("connections leave nothing in R's memory", {
  listener <- socket_listen(port = 0L)
  on.exit(close(listener))
  port <- socket_info(listener)$local_port
  use <- function(n) {
    for (i in seq_len(n)) {
      a <- socket_connect("localhost", port)
      b <- socket_accept(listener)
      writeLines("x", a)
      readLines(b, 1L)
      serialize(list(quote(x + 1)), a) # a call may be of any class, so it is held until it is whole
      unserialize(b)
      close(a)
      close(b)
    }
    invisible(gc())
    gc()[1L, 1L]
  }
  use(100L)
  before <- use(1L)
  expect_lt(use(300L) - before, 150)
})

test_that("a read that has no memory for its bytes has taken none", {
  linux_only()
  s <- start_limited("ulimit -v 420000", c(
    "listener <- socket_listen(port = 0L, slot = FALSE)",
    "port <- socket_info(listener)$local_port",
    "cl <- make_cluster(1)",
    "task <- cluster_submit(cl, {",
    "  to <- clutch::socket_connect('localhost', port, slot = FALSE, blocking = TRUE)",
    "  for (i in 1:300) clutch::socket_write(to, rep(as.raw(0:249), 4e3))",
    "})",
    "from <- socket_accept(listener, slot = FALSE)",
    "failed <- tryCatch(socket_read(from, 1e9, exact = TRUE), error = conditionMessage)",
    "cat('failed=', failed, '\\n', sep = '')",
    "broken <- function(e) 'broken'", # where there was no memory for that, either
    "first <- tryCatch(paste(socket_read(from, 3, exact = TRUE), collapse = ' '),",
    "                  clutch_socket_broken = broken)",
    "cat('first=', first, '\\n', sep = '')"
  ))
  expect_true(said(s, "^first=", 60))
  expect_match(value_of(s, "failed"), "cannot allocate")
  expect_true(value_of(s, "first") %in% c("00 01 02", "broken"))
})
