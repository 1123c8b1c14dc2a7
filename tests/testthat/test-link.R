# Nodes behind a link process, on a host that is this machine: what holds for local nodes holds
# there.

with_host <- function(n, code, ...) {
  linux_only()
  cl <- host_cluster(n, ...)
  on.exit(end_host_cluster(cl))
  code(cl)
}

test_that("calls, maps, tasks, errors and random numbers are those of a local cluster", {
  with_host(3, function(cl) {
    expect_equal(parallel::parSapply(cl, 1:10, function(i) i^2), (1:10)^2)
    expect_equal(cluster_map_dbl(cl, 1:1000, function(i) i + 1), 1:1000 + 1)
    expect_equal(collect(cluster_submit(cl, 6 * 7)), 42)
    e <- task_error_of(cluster_map(cl, 1:3, function(i) if (i == 2) stop("no") else i))
    expect_match(conditionMessage(e), "no")
    expect_message(cluster_map(cl, 1, function(i) message("from there")), "from there")
    here <- make_cluster(2)
    on.exit(stop_cluster(here))
    draw <- function(i) runif(1)
    expect_identical(cluster_map(cl, 1:5, draw, .seed = 3), cluster_map(here, 1:5, draw, .seed = 3))
  })
})

test_that("connections inside TLS do the same", {
  with_host(2, tls = TRUE, function(cl) {
    expect_equal(cluster_map_dbl(cl, 1:100, function(i) i + 1), 1:100 + 1)
    x <- runif(5e5)
    expect_equal(cluster_map_dbl(cl, 1:4, function(i, x) sum(x), x = x), rep(sum(x), 4))
  })
})

test_that("a large constant crosses once, and results come back", {
  with_host(4, function(cl) {
    x <- runif(2e6)
    f <- function(i, x) sum(x) + i
    environment(f) <- globalenv() # else x travels with it, too
    before <- bytes_to_host(cl)
    expect_equal(cluster_map_dbl(cl, 1:8, f, x = x), sum(x) + 1:8)
    crossed <- bytes_to_host(cl) - before
    expect_gt(crossed, 16e6)
    expect_lt(crossed, 24e6) # a cut, on a busy machine: what was under way crosses again
    big <- cluster_map(cl, 1:4, function(i) rep(i + 0.5, 3e5))
    expect_identical(big[[4]], rep(4.5, 3e5))
  })
})

test_that("output of nodes gets to the session's file, also of programs that they start", {
  file <- tempfile("output-")
  on.exit(unlink(file))
  writeLines("before", file)
  with_host(2, outfile = file, function(cl) {
    parallel::clusterCall(cl, function() system("echo from a program"))
    parallel::clusterCall(cl, function() system("head -c 300000 /dev/zero | tr '\\0' x"))
    said <- function() readLines(file, warn = FALSE)
    expect_true(eventually(sum(nchar(said())) >= 6e5))
    expect_identical(sum(grepl("from a program", said())), 2L)
  })
})

test_that("times may be infinite", {
  with_host(1, heartbeat = Inf, reconnect = Inf, seconds = Inf, function(cl) {
    expect_equal(cluster_map_dbl(cl, 1:10, function(i) i), as.numeric(1:10))
  })
})

test_that("output that nobody reads does not cross", {
  with_host(1, function(cl) {
    before <- bytes_from_host(cl)
    parallel::clusterCall(cl, system, "head -c 3000000 /dev/zero; head -c 3000000 /dev/zero >&2")
    expect_lt(bytes_from_host(cl) - before, 1e6)
  })
})

test_that("deaths are told, retried elsewhere, and nodes replaced", {
  with_host(2, function(cl) {
    e <- task_error_of(cluster_map(cl, 1:2, function(i) if (i == 1) tools::pskill(Sys.getpid(), 9)))
    expect_s3_class(e, "clutch_task_died")
    once <- tempfile()
    on.exit(unlink(once))
    f <- function(i, once) {
      if (i == 3 && file.create(once) && task_attempt() == 1) tools::pskill(Sys.getpid(), 9)
      i
    }
    expect_equal(cluster_map_int(cl, 1:20, f, once = once, .retries = 1), 1:20)
    expect_equal(sort(unlist(parallel::clusterCall(cl, Sys.getpid))), sort(pids(cl)))
    expect_identical(host_status(cl)$state, "up") # the new ones are there, too
  })
})

# Its memory is of this machine. A descriptor that came with something else than a node or output
# was taken for those of the next node.
test_that("observers see the cluster, and its host is not given what they see it by", {
  with_host(2, function(cl) {
    o <- clutch:::observer_of(cl)
    expect_identical(clutch:::ask_observer(o, "snapshot")$nodes$state, c("idle", "idle"))
    close(o$socket)
    expect_identical(host_status(cl)$state, "up")
    server <- attr(cl, "host")$handle
    expect_true(.Call(clutch:::ffi_server_info, server)$remote)
    expect_false(.Call(clutch:::ffi_view_pass, clutch:::info_of(cl)$view, server, 1))
  })
})

test_that("a time limit interrupts there, and the node stays", {
  with_host(2, function(cl) {
    before <- pids(cl)
    took <- system.time(
      e <- task_error_of(cluster_map(cl, 1:2, function(i) Sys.sleep(30), .timeout = 0.3))
    )
    expect_s3_class(e, "clutch_task_timeout")
    expect_lt(took[["elapsed"]], 20)
    expect_identical(pids(cl), before)
    expect_equal(cluster_map_int(cl, 1:4, function(i) i), 1:4)
  })
})

test_that("an interrupt reaches the nodes there", {
  with_host(2, function(cl) {
    before <- pids(cl)
    later(1, sprintf("kill -INT %d", Sys.getpid()))
    interrupted <- tryCatch(parallel::clusterCall(cl, Sys.sleep, 60), interrupt = function(e) "yes")
    expect_identical(interrupted, "yes")
    expect_identical(unlist(parallel::clusterCall(cl, Sys.getpid)), before)
  })
})

test_that("nothing is left there when the link process is closed, or killed", {
  linux_only()
  for (signal in c(0L, 9L)) {
    cl <- host_cluster(4)
    there <- pids(cl)
    link <- attr(cl, "link")
    pid <- .Call(clutch:::ffi_link_info, link$handle)$pid
    if (signal) tools::pskill(pid, signal) else clutch:::link_end(link)
    expect_true(eventually(!any(alive(there)), 5))
    server <- attr(cl, "host")$handle
    expect_true(eventually(.Call(clutch:::ffi_server_info, server)$state == "ended"))
    expect_identical(clutch:::link_status(link)$state[[1L]], "ended")
    try(stop_cluster(cl), silent = TRUE)
    unlink(attr(cl, "log"))
  }
})

test_that("why a host has ended is told, and stays", {
  cl <- host_cluster(1)
  on.exit(end_host_cluster(cl))
  stat <- parallel::clusterCall(cl, function() readLines("/proc/self/stat"))[[1L]]
  server <- as.integer(strsplit(sub(".*\\) ", "", stat), " ")[[1L]][2L])
  status <- function() host_status(cl)
  tools::pskill(server, 9L)
  expect_true(eventually(status()$state == "ended"))
  expect_identical(status()$why, "its fork server has ended")
  expect_false(eventually(status()$why != "its fork server has ended", 2))
})

test_that("code on nodes of other hosts finds the secret of the cluster in no frame", {
  cl <- host_cluster(1, tls = TRUE)
  on.exit(end_host_cluster(cl))
  settings <- parallel::clusterCall(cl, function() {
    unlist(lapply(sys.frames(), function(f) names(get0("settings", f, inherits = FALSE))))
  })[[1L]]
  expect_true("port" %in% settings) # that is where they were
  expect_length(intersect(settings, c("secret", "own")), 0L)
})

test_that("settings of a host travel as lines, and what is none is an error", {
  settings <- list(hosts = c("a", "b'\"\\"), port = 1L, times = c(1.5, 1e9), own = "x\ny",
                   methods = TRUE)
  lines <- c("clutch host settings 1, clutch 0.1", clutch:::settings_as_lines(settings), "end")
  file <- tempfile("settings-")
  on.exit(unlink(file))
  read <- function(lines) {
    writeLines(lines, file)
    clutch:::read_host_settings(file)
  }
  got <- read(c(lines, "what follows"))
  expect_identical(typeof(got$private), "externalptr")
  expect_equal(got[names(got) != "private"], settings[names(settings) != "own"])
  # what was private comes out as it went in, and stays so on the way to the next host
  clutch:::write_private(clutch:::host_settings_text(got, "first"), file)
  expect_identical(readLines(file)[1L], "first")
  expect_identical(secrets_in(file), c(own = "x\ny"))
  long <- list(others = paste(rep("a long line", 1e4), collapse = " "))
  expect_identical(read(c(lines[1L], clutch:::settings_as_lines(long), "end"))$others, long$others)
  expect_error(read(character()), "expected", class = "clutch_protocol")
  expect_error(read(lines[-length(lines)]), "cut short", class = "clutch_protocol")
  expect_error(read("hello"), "expected", class = "clutch_protocol")
  own <- as.character(packageVersion("clutch"))
  e <- tryCatch(read("clutch host settings 2, clutch 9.1.2"), clutch_protocol = conditionMessage)
  for (part in c(own, "version 9.1.2", Sys.info()[["nodename"]], "install the same one")) {
    expect_match(e, part, fixed = TRUE)
  }
  expect_error(read("clutch host settings 7"), "which has another one", class = "clutch_protocol")
})

test_that("a file of settings does not stay open where nodes are forked, which could read it", {
  file <- tempfile("settings-")
  on.exit(unlink(file))
  writeLines(c("clutch host settings 1, clutch 0.1", "secret \"x\"", "end"), file)
  got <- clutch:::read_host_settings(file)
  unlink(file)
  clutch:::write_private(clutch:::host_settings_text(got), file)
  expect_identical(format(file.mode(file)), "600")
  before <- getAllConnections() # showConnections() would collect garbage, and so close it
  fds <- if (system_can("proc")) open_fds()
  expect_identical(names(clutch:::read_host_settings(file)), "private")
  expect_identical(secrets_in(file), c(secret = "x"))
  writeLines("hello", file)
  expect_error(clutch:::read_host_settings(file), class = "clutch_protocol")
  expect_identical(getAllConnections(), before)
  if (system_can("proc")) expect_identical(open_fds(), fds)
})

test_that("quick results that wait in memory there are seen while the next task takes long", {
  with_host(1, function(cl) {
    before <- pids(cl)
    long <- function(i) if (i == 300) Sys.sleep(60) else i
    cluster_map(cl, 1:2000, function(i) i) # it knows that tasks are quick
    e <- task_error_of(cluster_map(cl, 1:400, long, .timeout = 1))
    expect_s3_class(e, "clutch_task_timeout")
    expect_identical(e$element, 300)
    expect_identical(pids(cl), before) # it was interrupted, at the right task
  })
})

test_that("after a death there only the element that was begun has failed", {
  with_host(1, function(cl) {
    f <- function(i) if (i == 40) tools::pskill(Sys.getpid(), 9) else i
    e <- task_error_of(cluster_map(cl, 1:60, f, .chunk = 30))
    expect_s3_class(e, "clutch_task_died")
    expect_identical(e$element, 40)
    caught <- suppressWarnings(cluster_map(cl, 1:60, f, .chunk = 30, .on_error = "continue"))
    died <- vapply(caught, inherits, NA, "condition")
    expect_identical(which(died), 40L)
  })
})

# Those behind it have left together with it, and are nobody's while it takes long.
test_that("what waits behind a long task there is done by other nodes", {
  with_host(2, function(cl) {
    done <- tempfile("done-")
    dir.create(done)
    on.exit(unlink(done, recursive = TRUE))
    cluster_map(cl, 1:2000, identity)
    waits <- function(i, done) {
      if (i > 1000 && i <= 1010) file.create(file.path(done, i))
      if (i != 1000) return(TRUE)
      end <- Sys.time() + 30
      while (length(list.files(done)) < 10L && Sys.time() < end) Sys.sleep(0.01)
      length(list.files(done)) == 10L
    }
    expect_identical(cluster_map_lgl(cl, 1:2000, waits, done = done), rep(TRUE, 2000L))
  })
})

test_that("what was cancelled there is not begun any more", {
  with_host(1, function(cl) {
    begun <- tempfile("begun-")
    on.exit(unlink(begun))
    cluster_map(cl, 1:2000, identity)
    setTimeLimit(elapsed = 2, transient = TRUE)
    e <- tryCatch(cluster_map(cl, 1:5000, function(i, begun) {
      cat(i, "\n", file = begun, append = TRUE)
      if (i > 100) Sys.sleep(1)
    }, begun = begun), error = identity)
    setTimeLimit()
    expect_match(conditionMessage(e), "time limit")
    expect_identical(cluster_map_dbl(cl, 1:3, function(i) i), c(1, 2, 3))
    expect_lt(length(readLines(begun)), 115L)
  })
})

test_that("hosts that never came keep no link process, those of another cluster do", {
  ns <- asNamespace("clutch")
  link <- ns$link_process(list(listen = "127.0.0.1", ports = 0L, heartbeat = 10, reconnect = 300,
                               tls = FALSE, tunnels = "no.such.host"))
  ns$link_ready(link, 60)
  new_host <- function() ns$link_host(link, list(packages = character(), by_exec = FALSE))
  is_up <- function() .Call(ns$ffi_link_info, link$handle)$is_up
  hosts <- list(new_host(), new_host())
  pid <- .Call(ns$ffi_link_info, link$handle)$pid
  ns$link_let_go(link, hosts[1L])
  expect_true(is_up())
  tools::pskill(pid, tools::SIGSTOP) # so that it does not notice
  ns$link_let_go(link, hosts[2L])
  expect_false(is_up())
  expect_true(eventually(!alive(pid)))
})
