# socket_info(): states, the table of sockets, services.

outside_checks_only()

linux <- Sys.info()[["sysname"]] == "Linux"

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
    p <- socket_probe("localhost", c(dead, port_of(l)))
    expect_identical(names(p), as.character(c(dead, port_of(l))))
    expect_true(p[[6L]])
    expect_false(any(p[1:5]))
    expect_identical(sum(socket_probe("127.0.0.1", setdiff(20001:21000, port_of(l)))) < 100, TRUE)
    expect_length(socket_probe("127.0.0.1", integer()), 0L)
    if (has_ipv6()) {
      six <- socket_listen(0, host = "::1")
      expect_true(socket_probe("localhost", port_of(six))[[1L]])
      close(six)
    }
    close(l)
  })
})

test_that("the connection that a failed readLines() leaves in R's table is not touched", {
  s <- start_script(c(
    "try(suppressWarnings(readLines('http://127.0.0.1:1/')), silent = TRUE)",
    "left <- getAllConnections()[-(1:3)]", # with a pointer that is collected, up to R 4.2 at least
    "invisible(gc())",
    "asked <- integer()",
    "invisible(trace(getConnection, quote(asked <<- c(asked, what)), print = FALSE))",
    "table <- socket_table()",
    "clutch:::close_our_connections()",
    "for (k in left) close(clutch:::connection_at(k))",
    "cat('asked=', any(left %in% asked), '\\nopen=', length(getAllConnections()), '\\n', sep = '')",
    "cat('none=', is.null(clutch:::connection_at(100)), '\\ndone\\n', sep = '')"
  ))
  expect_done(s)
  expect_identical(value_of(s, "asked"), "FALSE")
  expect_identical(value_of(s, "open"), "3")
  expect_identical(value_of(s, "none"), "TRUE")
})
