# Shared state and actors of the session's machine, used by processes of other hosts.

outside_checks_only()

on_two <- two_hosts_for_file()
two_hosts <- on_two$cluster
nothing_is_left <- on_two$nothing_is_left
# Processes that do what those of other hosts ask for.
delegates_here <- function() {
  lines <- system2("ps", c("-e", "-o", "args="), stdout = TRUE)
  sum(startsWith(lines, "clutch: for a process of another host"))
}

readlink_of <- function(pid, what) Sys.readlink(file.path("/proc", pid, what))

# Both forwarders on this machine, of which the one that forks is process `pid`, and begins by
# begin(). pump() lets the session hand on what they say.
forwarders_here <- function() {
  space <- asNamespace("clutch")
  cl <- make_cluster(2, strategy = "fork_server")
  handle <- function(i) .subset2(cl[[i]], "handle")
  path <- parallel::clusterCall(cl[2], space$forwarder_path)[[1L]]
  x <- .Call(space$ffi_forward_new, handle(1))
  number <- .Call(space$ffi_forward_add, x, handle(2))
  space$tell_handle(handle(2), space$be_forwarder_of_clients, list(number))
  expect_true(.Call(space$ffi_forward_await, x, number, 30))
  pump <- function() .Call(space$ffi_forward_none_lost, x)
  has_come <- function(socket) eventually({
    pump()
    any(socket_select(list(socket), timeout = 0))
  })
  list(begin = function() space$tell_handle(handle(1), space$be_forwarder_of_delegates, list()),
       pid = .Call(space$ffi_node_info, handle(1))$pid,
       client = function(...) {
         s <- socket_connect(path = path, blocking = TRUE, open = "r+b", timeout = 30, slot = FALSE)
         if (...length()) socket_send(s, serialize(list(..1, list(...)[-1]), NULL, xdr = FALSE))
         s
       },
       pump = pump, has_come = has_come,
       answer = function(socket) if (has_come(socket)) unserialize(socket_receive(socket))$value,
       stop = function() {
         .Call(space$ffi_remove_folder, dirname(path))
         .Call(space$ffi_handle_end, x)
         stop_cluster(cl)
       })
}

test_that("what has come before a forwarder begins is done at once", {
  n <- cluster_counter()
  x <- forwarders_here()
  on.exit(x$stop())
  tools::pskill(x$pid, tools::SIGSTOP)
  x$begin()
  s <- x$client("counter_add", n, 1)
  for (i in 1:20) { # it is on its way when the forwarder goes on
    x$pump()
    Sys.sleep(0.01)
  }
  tools::pskill(x$pid, tools::SIGCONT)
  expect_identical(x$answer(s), 1)
  close(s)
})

test_that("a row whose answer is not wanted any more is open again", {
  queue <- cluster_table()
  x <- forwarders_here()
  on.exit(x$stop())
  x$begin()
  table_append(queue, data.frame(x = 1:2))
  states <- function() table_read(queue)$state
  become <- function(...) eventually({
    x$pump()
    identical(states(), c(...))
  })
  gives_up <- function(s) {
    socket_send(s, clutch:::GIVES_UP)
    close(s)
  }
  # the answer has come, and was not read
  s <- x$client("take_row", queue, 60)
  expect_true(x$has_come(s))
  expect_identical(states(), c("taken", "open"))
  gives_up(s)
  expect_true(become("open", "open"))
  # it has died: nobody knows whether it had the row
  s <- x$client("take_row", queue, 60)
  expect_true(x$has_come(s))
  close(s)
  expect_true(eventually({
    x$pump()
    delegates_here() == 0L
  }))
  expect_identical(states(), c("taken", "open"))
  # what it had before it keeps, when it gives up waiting for another one
  s <- x$client("take_row", queue, 60)
  expect_identical(x$answer(s)$id, 2)
  socket_send(s, serialize(list("take_row", list(queue, 60)), NULL, xdr = FALSE))
  gives_up(s)
  expect_true(eventually({
    x$pump()
    delegates_here() == 0L
  }))
  table_append(queue, list(x = 3L))
  expect_identical(states(), c("taken", "taken", "open"))
})

test_that("locks, counters, rates and tables are the same everywhere", {
  cl <- two_hosts()
  lock <- cluster_lock(cl)
  n <- cluster_counter(cl, start = 5)
  rate <- cluster_rate(1000, cl = cl)
  queue <- cluster_table(cl)
  file <- tempfile() # the hosts share these files
  writeLines("0", file)
  ids <- cluster_map(cl, 1:40, function(i) {
    with_lock(lock, writeLines(format(as.numeric(readLines(file)) + i), file))
    stopifnot(is.numeric(rate_wait(rate)), is.null(table_pop(queue)))
    counter_add(n)
  }, .chunk = 1)
  with_lock(lock, expect_identical(readLines(file), "820"))
  expect_identical(sort(unlist(ids)), 6:45 + 0)
  expect_identical(counter_value(n), 45)
  expect_identical(lock_info(lock)$died, 0)
  table_append(queue, data.frame(x = 1:30))
  seen <- cluster_run(cl, function(rank) {
    while (!is.null(task <- table_pop(queue))) {
      table_set(queue, task$id, list(y = task$row$x^2, by = rank))
      if (task$id <= 10) table_append(queue, list(x = 100L))
    }
    node_barrier()
    now <- list(table_count(queue), counter_set(n, rank), lock_info(lock)$taken)
    c(now, table_read(queue)[1:5, ])
  })
  all <- table_read(queue)
  expect_identical(all$state, rep("done", 40))
  expect_identical(all$y, all$x^2)
  expect_true(all(all$by %in% 1:4))
  for (x in seen) {
    expect_identical(x[[1L]], 40)
    expect_identical(x$x, all$x[1:5])
  }
  expect_true(counter_value(n) %in% 1:4)
  # values of any size, and an error that is the session's own
  big <- runif(2e6)
  got <- cluster_map(cl, 1, function(i) {
    id <- table_append(queue, list(big = big))
    c(identical(table_read(queue)$big[[id]], big),
      tryCatch(table_set(queue, 1e6), clutch_argument = conditionMessage))
  })[[1L]]
  expect_identical(got, c("TRUE", "the table has no such row"))
  nothing_is_left(cl)
  expect_true(eventually(delegates_here() == 0L))
})

test_that("a wait ends by its time, an interrupt, or what it waits for", {
  cl <- two_hosts()
  lock <- cluster_lock(cl)
  queue <- cluster_table(cl)
  with_lock(lock, {
    e <- tryCatch(cluster_map(cl, 1, function(i) with_lock(lock, 1, timeout = 0.05)),
                  error = identity)
    expect_s3_class(e$parent, "clutch_timeout")
    # interrupted while it waits: nothing holds the lock afterwards
    expect_error(collect(cluster_submit(cl, with_lock(lock, "had"), .timeout = 0.5)),
                 class = "clutch_task_timeout")
    waits <- cluster_submit(cl, with_lock(lock, with_lock(lock, "had it")))
  })
  expect_identical(collect(waits), "had it")
  expect_null(cluster_map(cl, 1, function(i) table_pop(queue, timeout = 0.1))[[1L]])
  pops <- cluster_submit(cl, table_pop(queue, timeout = 60)$row$x)
  table_append(queue, list(x = "come"))
  expect_identical(collect(pops), "come")
  # interrupted while it has it, and an error while it has it
  begun <- tempfile()
  has <- cluster_submit(cl, with_lock(lock, {
    file.create(begun)
    Sys.sleep(60)
  }))
  expect_true(eventually(file.exists(begun)))
  cancel(has)
  expect_identical(with_lock(lock, "free", timeout = 30), "free")
  expect_error(cluster_map(cl, 1, function(i) with_lock(lock, stop("within"))), "within")
  expect_identical(with_lock(lock, "free", timeout = 0), "free")
  expect_identical(lock_info(lock)$died, 0)
  # a child of a node is another process
  both <- cluster_map(cl, 1, function(i) {
    with_lock(lock, {
      job <- parallel::mcparallel(tryCatch(with_lock(lock, 1, timeout = 0.05), error = class))
      c(parallel::mccollect(job)[[1L]][[1L]], with_lock(lock, "again"))
    })
  })[[1L]]
  expect_identical(both, c("clutch_timeout", "again"))
  nothing_is_left(cl)
})

test_that("who dies with a lock hands it on, and the next one is told", {
  cl <- two_hosts()
  lock <- cluster_lock(cl)
  expect_error(cluster_map(cl, 1, function(i) {
    with_lock(lock, tools::pskill(Sys.getpid(), tools::SIGKILL))
  }), class = "clutch_task_died")
  expect_warning(had <- with_lock(lock, "mine", timeout = 30), class = "clutch_holder_died")
  expect_identical(had, "mine")
  # and where the next one is on another host, too
  expect_error(cluster_map(cl, 1, function(i) {
    with_lock(lock, tools::pskill(Sys.getpid(), tools::SIGKILL))
  }), class = "clutch_task_died")
  expect_warning(cluster_map(cl, 1, function(i) with_lock(lock, "mine", timeout = 30)), "half done")
  expect_identical(lock_info(lock)$died, 2)
  # a child of its, which has its connection, too, ends with it
  expect_error(cluster_map(cl, 1, function(i) with_lock(lock, {
    me <- Sys.getpid()
    parallel::mcparallel({
      tools::pskill(me, tools::SIGKILL)
      Sys.sleep(600)
    })
    Sys.sleep(600)
  })), class = "clutch_task_died")
  expect_warning(had <- with_lock(lock, "mine", timeout = 30), class = "clutch_holder_died")
  expect_identical(had, "mine")
  expect_true(eventually(delegates_here() <= 4L))
  nothing_is_left(cl)
})

test_that("a host that is lost gives back what its processes had, and can come again", {
  cl <- two_hosts()
  lock <- cluster_lock(cl)
  begun <- tempfile()
  has <- cluster_submit(cl[3:4], with_lock(lock, {
    file.create(begun)
    Sys.sleep(60)
  }))
  expect_true(eventually(file.exists(begun)))
  # the forwarder there is killed: who has the lock goes on, and does not have it any more
  on_host(on_two$there(), "beta", "pkill -9 -f 'clutch: forwarder'")
  expect_warning(had <- with_lock(lock, "free", timeout = 30), class = "clutch_holder_died")
  expect_identical(had, "free")
  cancel(has)
  # another one has come before the next tasks
  names <- function(...) {
    got <- cluster_map(cl, 1:8, function(i) {
      Sys.sleep(0.05)
      with_lock(lock, Sys.info()[["nodename"]])
    }, .chunk = 1, ...)
    sort(unique(unlist(got)))
  }
  expect_identical(names(), c("alpha", "beta"))
  # all R processes of that host are killed: it is started again
  is_r <- "case $(readlink $p/exe) in */exec/R) echo ${p#/proc/};; esac"
  on_host(on_two$there(), "beta", sprintf("kill -9 $(for p in /proc/[0-9]*; do %s; done)", is_r))
  expect_true(all(names(.retries = 3) %in% c("alpha", "beta")))
  expect_true(eventually(identical(names(.retries = 3), c("alpha", "beta")), 30))
  # the forwarder beside the session
  own <- system2("pgrep", c("-f", "'^clutch: forwarder'"), stdout = TRUE)
  here <- Filter(function(pid) {
    identical(readlink_of(pid, "ns/pid"), readlink_of(Sys.getpid(), "ns/pid"))
  }, own)
  expect_length(here, 1L)
  tools::pskill(as.integer(here), tools::SIGKILL)
  expect_true(eventually(delegates_here() == 0L))
  expect_identical(names(), c("alpha", "beta"))
  nothing_is_left(cl)
})

test_that("a cut of a second loses nothing", {
  cl <- two_hosts()
  n <- cluster_counter(cl)
  count <- cluster_submit(cl[3], for (i in 1:400) {
    counter_add(n)
    Sys.sleep(0.002)
  })
  expect_true(eventually(counter_value(n) > 20))
  cut_off(on_two$there(), "beta")
  Sys.sleep(1)
  make_good(on_two$there(), "beta")
  collect(count)
  expect_identical(counter_value(n), 400)
  nothing_is_left(cl)
})

test_that("a pop that ends before its answer has come leaves the row open", {
  cl <- two_hosts()
  queue <- cluster_table(cl)
  state <- function() table_read(queue)$state
  forwarder <- function(signal) {
    on_host(on_two$there(), "beta", sprintf("pkill -%s -f '^clutch: forwarder'", signal))
  }
  # the forwarder there hands on no answer meanwhile
  pop_without_answer <- function(pop, ends) {
    expect_true(eventually(delegates_here() == 0L))
    job <- cluster_submit(cl[3:4], pop())
    expect_true(eventually(delegates_here() == 1L))
    Sys.sleep(0.3) # until it waits
    forwarder("STOP")
    table_append(queue, list(x = 1))
    expect_true(eventually(identical(state(), "taken")))
    value <- ends(job)
    expect_identical(state(), "taken")
    forwarder("CONT")
    expect_true(eventually(identical(state(), "open")))
    queue <<- cluster_table(cl)
    value
  }
  pop_without_answer(function() table_pop(queue, timeout = 60), cancel)
  why <- pop_without_answer(function() tryCatch(table_pop(queue, timeout = 1), error = class),
                            collect)
  expect_identical(why[[1L]], "clutch_timeout")
  nothing_is_left(cl)
})

test_that("actors are called from other hosts", {
  cl <- two_hosts()
  total <- cluster_actor(cl, function() {
    n <- 0
    list(add = function(k) n <<- n + k, get = function() n, bad = function() stop("no"),
         said = function() {
           warning("mind this")
           invisible("value")
         }, sleep = function(s) Sys.sleep(s))
  }, .label = "total")
  expect_identical(actor_call(total, "add", 1), 1)
  cluster_map(cl, 1:20, function(i) {
    if (i %% 2) actor_call(total, "add", i) else actor_cast(total, "add", i)
  })
  expect_identical(actor_call(total, "get"), 211)
  got <- cluster_map(cl, 1, function(i) {
    e <- tryCatch(actor_call(total, "bad"), error = identity)
    list(class(e), e$method, conditionMessage(e$parent), format(total),
         tryCatch(actor_call(total, "none"), error = class)[[1L]],
         tryCatch(actor_call(total, "sleep", 60, .timeout = 0.2), error = class)[[1L]],
         withVisible(suppressWarnings(actor_call(total, "said"))))
  })[[1L]]
  expect_identical(got[[1L]][[1L]], "clutch_actor_error")
  expect_identical(got[2:3], list("bad", "no"))
  expect_match(got[[4L]], "actor total: process")
  expect_identical(got[5:6], list("clutch_argument", "clutch_timeout"))
  expect_identical(got[[7L]], list(value = "value", visible = FALSE))
  expect_warning(cluster_map(cl, 1, function(i) actor_call(total, "said")), "mind this")
  # a call of a task that is cancelled is given up
  begun <- tempfile()
  calls <- cluster_submit(cl, {
    file.create(begun)
    actor_call(total, "sleep", 60)
  })
  expect_true(eventually(file.exists(begun)))
  Sys.sleep(0.2)
  cancel(calls)
  expect_identical(actor_call(total, "get", .timeout = 30), 211)
  expect_true(cluster_map_lgl(cl, 1, function(i) actor_stop(total)))
  e <- cluster_map(cl, 1, function(i) tryCatch(actor_call(total, "get"), error = class))[[1L]]
  expect_identical(e[[1L]], "clutch_actor_stopped")
  expect_identical(nrow(cluster_actors(cl)), 0L)
  nothing_is_left(cl)
})

test_that("arguments of methods may have any names, and finalizers may ask, too", {
  cl <- two_hosts()
  echo <- cluster_actor(cl, function() list(of = function(...) list(...)))
  n <- cluster_counter(cl)
  got <- cluster_map(cl, 1:2, function(i) {
    named <- actor_call(echo, "of", x = i, what = 2, args = 3, within = 4, socket = 5)
    # garbage whose finalizer asks while another request is under way
    asks <- function(e) counter_add(n, 0)
    values <- vapply(1:200, function(k) {
      reg.finalizer(new.env(), asks)
      if (k %% 10 == 0) gc(FALSE)
      length(actor_call(echo, "of", list(k), k)) + counter_add(n, 0)
    }, 0)
    list(named, unique(values))
  })
  for (i in 1:2) {
    expect_identical(got[[i]][[1L]], list(x = i, what = 2, args = 3, within = 4, socket = 5))
    expect_identical(got[[i]][[2L]], 2)
  }
  nothing_is_left(cl)
})

test_that("a forwarder that cannot be started again fails no map, and comes later", {
  cl <- two_hosts()
  n <- cluster_counter(cl)
  on_host(on_two$there(), "beta", "pkill -9 -f 'clutch: forwarder'")
  space <- asNamespace("clutch")
  fails <- function(what) {
    suppressMessages(trace(what, quote(clutch:::throw("start", "not now")), where = space,
                           print = FALSE))
  }
  mends <- function(what) suppressMessages(untrace(what, where = space))
  fails("open_forwarder")
  on.exit(try(mends("open_forwarder"), silent = TRUE))
  Sys.sleep(0.2)
  expect_identical(cluster_map(cl, 1:4, function(i) i), as.list(1:4))
  mends("open_forwarder")
  t <- clutch:::tasks_of(cl)
  count <- function() cluster_map_dbl(cl, 1:4, function(i) counter_add(n), .chunk = 1)
  t$forward$again <- 1e-9 # as when the pause is over
  expect_identical(sort(count()), 1:4 + 0)
  # the one beside the session
  own <- clutch:::handle_of_delegates(t$forward)
  fails("begin_forwarding")
  on.exit(try(mends("begin_forwarding"), silent = TRUE), add = TRUE)
  tools::pskill(.Call(clutch:::ffi_node_info, own)$pid, tools::SIGKILL)
  Sys.sleep(0.2)
  expect_identical(cluster_map(cl, 1:4, function(i) i), as.list(1:4))
  expect_error(count(), "cannot be asked")
  mends("begin_forwarding")
  t$forward$again <- 1e-9
  expect_identical(sort(count()), 5:8 + 0)
  nothing_is_left(cl)
})

test_that("who asks from a handler of what an actor says keeps the rows that it has taken", {
  cl <- two_hosts()
  a <- cluster_actor(cl, function() list(say = function() message("said")))
  n <- cluster_counter(cl)
  queue <- cluster_table(cl)
  table_append(queue, list(x = 1))
  opened <- cluster_map(cl[1], 1, function(i) {
    row <- table_pop(queue)
    withCallingHandlers(actor_call(a, "say"), message = function(m) {
      counter_add(n)
      invokeRestart("muffleMessage")
    })
    again <- 0
    for (k in 1:20) { # a process that stands for this one would have ended
      again <- again + table_reopen(queue)
      Sys.sleep(0.05)
    }
    c(row$id, again)
  })
  expect_identical(opened, list(c(1, 0)))
  actor_stop(a)
  nothing_is_left(cl)
})

test_that("a connection that has ended while a node was idle is not used again", {
  cl <- two_hosts()
  n <- cluster_counter(cl)
  count <- function() cluster_map_dbl(cl, 1:4, function(i) counter_add(n), .chunk = 1)
  expect_identical(sort(count()), 1:4 + 0)
  own <- clutch:::handle_of_delegates(clutch:::tasks_of(cl)$forward)
  tools::pskill(.Call(clutch:::ffi_node_info, own)$pid, tools::SIGKILL)
  expect_true(eventually(!clutch:::node_works(own)))
  expect_identical(sort(count()), 5:8 + 0)
  nothing_is_left(cl)
})

test_that("what is gone, or was not made for other hosts, is an error that says so", {
  cl <- two_hosts()
  near <- cluster_counter()
  why_not <- function(x) {
    cluster_map(cl, 1, function(i) tryCatch(counter_add(x), clutch_state_gone = conditionMessage))
  }
  text <- why_not(near)
  expect_match(text[[1L]], "cluster_counter(cl) is for nodes there", fixed = TRUE)
  n <- cluster_counter(cl)
  copy <- unserialize(serialize(n, NULL))
  expect_identical(cluster_map_dbl(cl, 1, function(i) counter_add(near)), 1) # by the same way
  rm(n)
  gc()
  text <- why_not(copy)
  expect_match(text[[1L]], "is gone")
  nothing_is_left(cl)
  tcp <- make_cluster(1, strategy = "parallel")
  expect_s3_class(cluster_counter(tcp), "clutch_counter") # on this machine
  stop_cluster(tcp)
})

test_that("nothing is left at the end", {
  on_two$stop()
  expect_identical(delegates_here(), 0L)
})
