# socket_set(): interest that is kept between waits.

outside_checks_only()

ready_names <- function(set, timeout = 5) lapply(socket_set_wait(set, timeout), names)
nothing <- list(read = character(), write = character())

test_that("members are told that are ready: to read, to write, to be accepted", {
  expect_nothing_left({
    for (slot in c(FALSE, TRUE)) {
      l <- socket_listen(0, slot = slot)
      set <- socket_set(list(listener = l))
      expect_identical(length(set), 1L)
      expect_identical(ready_names(set, 0), nothing)
      a <- socket_connect(port = port_of(l), open = "a+b", slot = slot)
      ready <- socket_set_wait(set, 5)
      none <- structure(list(), names = character())
      expect_identical(ready, list(read = list(listener = l), write = none))
      b <- socket_accept(l, open = "a+b", slot = slot)
      expect_invisible(socket_set_add(set, list(a = a, b = b), c("both", "read")))
      expect_identical(ready_names(set), list(read = character(), write = "a"))
      socket_write(a, "x")
      socket_set_add(set, list(a), "read") # keeps its name
      expect_identical(ready_names(set), list(read = "b", write = character()))
      expect_identical(ready_names(set), list(read = "b", write = character()))
      socket_read(b)
      expect_identical(ready_names(set, 0.05), nothing)
      socket_write(b, "y")
      expect_identical(ready_names(set), list(read = "a", write = character()))
      expect_identical(socket_set_remove(set, list(a, l, a)), c(TRUE, TRUE, FALSE))
      expect_identical(ready_names(set, 0.05), nothing)
      expect_identical(length(set), 1L)
      close(set)
      close_all(a, b, l)
    }
  })
})

test_that("bytes that were read ahead are ready, and the others are looked at as well", {
  expect_nothing_left({
    p <- socket_pair(slot = FALSE)
    q <- socket_pair(slot = FALSE)
    set <- socket_set(list(p = p$b, q = q$b))
    socket_write(p$a, "abc")
    expect_identical(socket_read(p$b, 1), charToRaw("a"))
    for (k in 1:2) expect_identical(ready_names(set, Inf)$read, "p")
    socket_write(q$a, "abc")
    expect_setequal(ready_names(set)$read, c("p", "q"))
    socket_read(p$b)
    expect_identical(ready_names(set)$read, "q")
    # also where they were read ahead before it became a member, or are put back
    socket_write(p$a, "abc")
    socket_read(p$b, 1)
    late <- socket_set(list(p = p$b))
    expect_identical(ready_names(late)$read, "p")
    socket_set_add(late, list(p$b), "write")
    expect_identical(ready_names(late), list(read = character(), write = "p"))
    socket_set_add(late, list(p$b), "both")
    expect_identical(ready_names(late), list(read = "p", write = "p"))
    socket_read(p$b)
    socket_timeout(p$b, 0.05)
    socket_write(p$a, "abc")
    expect_s3_class(caught(socket_read(p$b, 10, exact = TRUE)), "clutch_socket_timeout")
    expect_identical(ready_names(set, 0)$read[1L], "p")
    close(late)
    close(set)
    close_all(p$a, p$b, q$a, q$b)
  })
})

test_that("what a connection has read ahead is ready", {
  expect_nothing_left({
    l <- socket_listen(0, slot = FALSE)
    a <- socket_connect(port = port_of(l), slot = FALSE)
    b <- socket_accept(l, encoding = "latin1", blocking = TRUE, timeout = 5)
    set <- socket_set(list(b = b))
    socket_write(a, as.raw(c(0xe9, 0x0a, 0x65, 0x0a)))
    expect_identical(readLines(b, 1), "\u00e9")
    expect_identical(socket_select(list(b), timeout = 0), TRUE)
    for (k in 1:2) expect_identical(ready_names(set, 0)$read, "b")
    readLines(b, 1)
    expect_identical(ready_names(set, 0.05), nothing)
    close(set)
    close_all(a, b, l)
  })
})

test_that("with more ready than the system tells at a time all are told, once each", {
  expect_nothing_left({
    n <- 150L
    pairs <- lapply(seq_len(n), function(i) socket_pair(slot = FALSE))
    ends <- lapply(pairs, `[[`, "b")
    names(ends) <- seq_len(n)
    set <- socket_set(ends)
    for (ready in c(0L, 1L, 63L, 64L, 65L, 128L, n)) {
      some <- sample(n, ready)
      for (i in some) socket_write(pairs[[i]]$a, "x")
      expect_identical(sort(as.integer(ready_names(set, 0)$read)), sort(some))
      for (i in some) socket_read(pairs[[i]]$b)
    }
    # all are ready to be written to, some to be read
    socket_set_add(set, ends, "both")
    for (i in 1:70) socket_write(pairs[[i]]$a, "x")
    expect_identical(lengths(socket_set_wait(set)), c(read = 70L, write = n))
    for (p in pairs) close_all(p$a, p$b)
    expect_identical(length(set), 0L)
    close(set)
  })
})

test_that("a socket that is closed leaves, also while another process has its descriptor", {
  expect_nothing_left({
    for (slot in c(FALSE, TRUE)) {
      p <- socket_pair(slot = slot)
      q <- socket_pair(slot = FALSE)
      set <- socket_set(list(p = p$b, q = q$b), "both")
      if (.Platform$OS.type == "unix") {
        child <- parallel::mcparallel({
          Sys.sleep(60)
        })
      }
      close(p$b)
      expect_identical(length(set), 1L)
      close(p$a)
      for (k in 1:3) expect_identical(ready_names(set), list(read = character(), write = "q"))
      close(q$b)
      expect_identical(ready_names(set, 0), nothing)
      # its place is used again
      r <- socket_pair(slot = slot)
      socket_set_add(set, list(r = r$b), "write")
      expect_identical(ready_names(set)$write, "r")
      if (.Platform$OS.type == "unix") {
        tools::pskill(child$pid, 9L)
        suppressWarnings(parallel::mccollect(child))
      }
      close(set)
      close_all(q$a, r$a, r$b)
    }
  })
})

test_that("members are not collected, sets are; either may go first", {
  expect_nothing_left({
    p <- socket_pair(slot = FALSE)
    set <- socket_set(p["b"])
    p$b <- NULL
    gc()
    socket_write(p$a, "x")
    expect_identical(rawToChar(socket_read(socket_set_wait(set, 5)$read$b)), "x")
    close(p$a)
    rm(set, p)
    gc()
    # a socket in two sets, of which one goes
    p <- socket_pair(slot = FALSE)
    one <- socket_set(p["b"])
    two <- socket_set(p["b"])
    rm(one)
    gc()
    socket_write(p$a, "x")
    expect_identical(ready_names(two)$read, "b")
    close_all(p$a, p$b)
    expect_identical(length(two), 0L)
    rm(two)
    gc()
  })
})

test_that("a timeout is kept, and what comes meanwhile ends the wait", {
  p <- socket_pair(slot = FALSE)
  set <- socket_set(p["b"])
  expect_identical(ready_names(set, 0), nothing)
  took <- system.time(socket_set_wait(set, 0.3))[["elapsed"]]
  expect_gte(took, 0.29)
  expect_lt(took, 5)
  empty <- socket_set()
  expect_identical(ready_names(empty, 0.01), nothing)
  close(p$a) # the end is to be read
  expect_identical(ready_names(set, NULL)$read, "b")
  close(set)
  close(empty)
  close(p$b)
})

test_that("errors have classes, and after one in adding nothing has been added", {
  p <- socket_pair(slot = FALSE)
  set <- socket_set()
  l <- socket_listen(0, slot = FALSE)
  argument <- function(expr) expect_s3_class(caught(expr), "clutch_argument")
  argument(socket_set(p$a))
  argument(socket_set_add(set, p$a))
  argument(socket_set_add(set, list(1)))
  argument(socket_set_add(set, p, "reed"))
  argument(socket_set_add(set, p, character()))
  argument(socket_set_add(set, p, c("read", "read", "read")))
  argument(socket_set_add(set, list(p$a, l), "write"))
  argument(socket_set_add(1, p))
  argument(socket_set_remove(set, 1))
  argument(socket_set_remove(set, list(1)))
  argument(socket_set_wait(set))
  argument(socket_set_wait(1, 1))
  for (bad in list(-1, NA, "1", c(1, 2))) argument(socket_set_wait(set, bad))
  base <- socketConnection(port = port_of(l), open = "a+b")
  e <- argument(socket_set_add(set, list(base)))
  expect_match(conditionMessage(e), "socket_select()", fixed = TRUE)
  close(base)
  close(p$b)
  expect_s3_class(caught(socket_set_add(set, p)), "clutch_socket_closed")
  expect_identical(length(set), 0L)
  expect_output(print(set), "<set of sockets: 0>", fixed = TRUE)
  close(set)
  close(set)
  expect_identical(length(set), 0L)
  for (gone in list(set, unserialize(serialize(set, NULL)))) {
    expect_s3_class(caught(socket_set_add(gone, p["a"])), "clutch_socket_closed")
    expect_s3_class(caught(socket_set_wait(gone, 1)), "clutch_socket_closed")
  }
  close_all(p$a, l)
})

test_that("a forked child cannot use it, and leaves the parent's alone", {
  testthat::skip_on_os("windows")
  p <- socket_pair(slot = FALSE)
  set <- socket_set(p, "read")
  used <- function() {
    seen <- class(caught(socket_set_wait(set, 1)))
    close(p$b)
    close(set)
    gc()
    seen
  }
  child <- parallel::mcparallel(used())
  expect_true("clutch_forked" %in% parallel::mccollect(child)[[1L]])
  socket_write(p$a, "x")
  expect_identical(ready_names(set)$read, "b")
  close(set)
  close_all(p$a, p$b)
})

test_that("Ctrl-C and a time limit end a wait, and the set can be used again", {
  linux_only()
  script <- start_script(fixture = "interrupted-set")
  expect_true(said(script, "^waits"))
  Sys.sleep(0.2) # so that it does by then
  tools::pskill(script$pid, tools::SIGINT)
  expect_true(said(script, "^left="))
  expect_identical(value_of(script, "result"), "interrupted")
  expect_identical(value_of(script, "limit"), "TRUE")
  expect_identical(value_of(script, "ready"), "b")
  expect_identical(value_of(script, "left"), "0")
})
