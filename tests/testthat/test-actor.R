# Actors: state on one node that other processes call.

two <- make_cluster(2)

ends <- function(pid) until(!alive(pid))

# ---- calls ----

test_that("an actor keeps its state, and is called from session and tasks", {
  a <- cluster_actor(two, counting, list(start = 10))
  expect_identical(actor_call(a, "get"), 10)
  expect_identical(actor_call(a, "add", 5), 15)
  expect_identical(actor_call(a, "add", k = 5), 20)
  values <- cluster_map_dbl(two, 1:100, function(i) actor_call(a, "add", 1))
  expect_setequal(values, 21:120)
  pid <- actor_call(a, "pid")
  expect_false(pid %in% c(Sys.getpid(), unlist(parallel::clusterCall(two, Sys.getpid))))
  expect_true(actor_stop(a))
  expect_false(actor_stop(a))
  ends(pid)
  e <- failure(actor_call(a, "get"))
  expect_s3_class(e, c("clutch_actor_stopped", "clutch_error"), exact = FALSE)
  e <- failure(cluster_map(two, 1, function(i) actor_call(a, "get")))
  expect_match(conditionMessage(e), "was stopped|is gone")
})

test_that("casts are done in their order, and before later calls of the same process", {
  a <- cluster_actor(two, function() {
    seen <- integer()
    list(put = function(i) seen <<- c(seen, i), all = function() seen)
  })
  for (i in 1:50) expect_null(actor_cast(a, "put", i))
  expect_identical(actor_call(a, "all"), 1:50)
  cluster_map(two, 1:4, function(k) for (i in 1:20) actor_cast(a, "put", 100L * k + i))
  cluster_map(two, 1:2, function(i) actor_call(a, "all"), .chunk = 1)
  seen <- actor_call(a, "all")[-(1:50)]
  expect_length(seen, 80L)
  for (k in 1:4) expect_identical(seen[seen %/% 100L == k], 100L * k + 1:20)
  actor_stop(a)
})

test_that("large values travel both ways, from any process", {
  a <- cluster_actor(two, function() {
    x <- NULL
    list(set = function(v) {
      x <<- v
      length(v)
    }, get = function() x, few = function() x[1:3])
  })
  x <- as.double(seq_len(3e6))
  expect_identical(actor_call(a, "set", x), 3000000L)
  expect_identical(actor_call(a, "get"), x)
  actor_cast(a, "set", -x)
  expect_identical(actor_call(a, "few"), c(-1, -2, -3))
  sums <- cluster_map(two, 1:4, function(i) sum(actor_call(a, "get")))
  expect_identical(unique(unlist(sums)), sum(-x))
  texts <- rep(strrep("text", 100), 20000)
  actor_call(a, "set", texts)
  expect_identical(actor_call(a, "get"), texts)
  actor_stop(a)
})

test_that("an error of a method is that of the call, and the actor goes on", {
  a <- cluster_actor(two, counting, .label = "tally")
  e <- failure(actor_call(a, "fail"))
  expect_s3_class(e, "clutch_actor_error")
  expect_match(conditionMessage(e), "actor tally, method fail: as asked", fixed = TRUE)
  expect_identical(conditionMessage(e$parent), "as asked")
  e <- failure(actor_call(a, "nothing"))
  expect_s3_class(e, "clutch_argument")
  expect_match(conditionMessage(e), "no method 'nothing'")
  actor_cast(a, "fail")
  expect_identical(actor_call(a, "add", 1), 1)
  e <- failure(cluster_map(two, 1, function(i) actor_call(a, "fail")))
  expect_s3_class(e$parent, "clutch_actor_error")
  actor_stop(a)
})

test_that("messages and warnings of a method are the caller's", {
  a <- cluster_actor(two, function() {
    list(speak = function() {
      message("one")
      warning("two")
      invisible("said")
    })
  })
  said <- character()
  value <- withCallingHandlers(
    withVisible(actor_call(a, "speak")),
    message = function(m) {
      said <<- c(said, conditionMessage(m))
      tryInvokeRestart("muffleMessage")
    },
    warning = function(w) {
      said <<- c(said, conditionMessage(w))
      tryInvokeRestart("muffleWarning")
    }
  )
  expect_identical(said, c("one\n", "two"))
  expect_identical(value, list(value = "said", visible = FALSE))
  actor_stop(a)
})

test_that("functions of actors take globals, packages, environments and random numbers", {
  offset <- 40
  helper <- function(x) x + offset
  a <- cluster_actor(two, function() {
    self <- new.env()
    self$plus <- function(x) helper(x)
    self$draw <- function(n) stats::runif(n)
    self
  })
  expect_identical(actor_call(a, "plus", 2), 42)
  set.seed(1)
  one <- cluster_actor(two, function() list(draw = function() runif(2)))
  set.seed(1)
  same <- cluster_actor(two, function() list(draw = function() runif(2)))
  expect_identical(actor_call(one, "draw"), actor_call(same, "draw"))
  expect_identical(actor_call(one, "draw"), actor_call(same, "draw"))
  cluster_setup(two, from_setup <- 7)
  b <- cluster_actor(two, function() list(get = function() get("from_setup", globalenv())))
  expect_identical(actor_call(b, "get"), 7)
  for (x in list(a, one, same, b)) actor_stop(x)
})

test_that("a function that fails, or makes no methods, is an error of cluster_actor()", {
  e <- failure(cluster_actor(two, function() stop("cannot be made")))
  expect_match(conditionMessage(e), "cannot be made")
  expect_s3_class(e, "clutch_task_error")
  e <- failure(cluster_actor(two, function() 1))
  expect_match(conditionMessage(e), "has to return its methods")
  e <- failure(cluster_actor(two, function() tools::pskill(Sys.getpid(), 9)))
  expect_s3_class(e, "clutch_task_died")
  expect_false(any(cluster_actors(two)$state != "ended"))
  expect_error(cluster_actor(two), class = "clutch_argument")
  expect_error(cluster_actor(two, counting, 1), class = "clutch_argument")
  expect_error(cluster_actor(two, counting, restart = "often"), class = "clutch_argument")
  expect_error(cluster_actor(two, counting, restart = character()), class = "clutch_argument")
  expect_error(actor_call("a", "get"), class = "clutch_argument")
  a <- cluster_actor(two, counting)
  expect_error(actor_call(a, 1), class = "clutch_argument")
  expect_error(actor_call(a, "get", .timeout = -1), class = "clutch_argument")
  actor_stop(a)
})

# ---- actors that call actors ----

test_that("actors call each other, and a circle is an error", {
  a <- cluster_actor(two, function() {
    other <- NULL
    list(know = function(x) other <<- x, ask = function(...) actor_call(other, ...),
         say = function() "here")
  }, .label = "first")
  b <- cluster_actor(two, function(a) {
    list(ask = function(...) actor_call(a, ...), say = function() "there")
  }, list(a), .label = "second")
  actor_call(a, "know", b)
  expect_identical(actor_call(a, "ask", "say"), "there")
  expect_identical(actor_call(b, "ask", "say"), "here")
  e <- failure(actor_call(a, "ask", "ask", "say"))
  expect_match(conditionMessage(e), "none of them can go on")
  e <- failure(actor_call(a, "ask", "ask", "ask", "say"))
  expect_match(conditionMessage(e), "none of them can go on|wait")
  itself <- cluster_actor(two, function() {
    me <- NULL
    list(know = function(x) me <<- x, ask = function() actor_call(me, "know", 1))
  })
  actor_call(itself, "know", itself)
  expect_match(conditionMessage(failure(actor_call(itself, "ask"))), "cannot call itself")
  for (x in list(a, b, itself)) actor_stop(x)
})

# ---- timeouts, interrupts ----

test_that("a call that is given up is interrupted, or never begun, and the actor goes on", {
  a <- cluster_actor(two, counting)
  e <- failure(actor_call(a, "sleep", 60, .timeout = 0.2))
  expect_s3_class(e, "clutch_timeout")
  expect_identical(actor_call(a, "get", .timeout = 20), 0) # it does not sleep any more
  task <- cluster_submit(two, actor_call(a, "sleep", 1))
  until(is_at_work(a))
  expect_s3_class(failure(actor_call(a, "add", 100, .timeout = 0.1)), "clutch_timeout")
  expect_identical(collect(task), "slept")
  expect_identical(actor_call(a, "get"), 0)
  task <- cluster_submit(two, actor_call(a, "sleep", 60))
  until(is_at_work(a))
  cancel(task)
  expect_identical(actor_call(a, "get", .timeout = 20), 0)
  late <- failure(cluster_map(two, 1, function(i) actor_call(a, "sleep", 60), .timeout = 0.3))
  expect_s3_class(late, "clutch_task_timeout")
  expect_identical(actor_call(a, "get", .timeout = 20), 0)
  actor_stop(a)
})

test_that("signals that come at any moment end no other call", {
  a <- cluster_actor(two, counting)
  pid <- actor_call(a, "pid")
  for (i in 1:50) {
    if (i %% 5 == 0) tools::pskill(pid, tools::SIGINT)
    expect_identical(actor_call(a, "add", 1), i / 1)
    failure(actor_call(a, "sleep", 0.002, .timeout = 0.001 * (i %% 4)))
  }
  expect_identical(actor_call(a, "get"), 50)
  actor_stop(a)
})

# ---- deaths ----

test_that("the death of an actor is an error of all who call it, with its cause", {
  a <- cluster_actor(two, counting, .label = "tally")
  pid <- actor_call(a, "pid")
  waits <- cluster_submit(two, actor_call(a, "sleep", 60))
  until(is_at_work(a))
  queued <- cluster_submit(two, actor_call(a, "get"))
  tools::pskill(pid, tools::SIGKILL)
  e <- failure(collect(waits))$parent
  expect_s3_class(e, "clutch_actor_died")
  expect_match(conditionMessage(e), "actor tally (pid", fixed = TRUE)
  expect_true(e$begun)
  expect_identical(e$pid, pid)
  e <- failure(collect(queued))$parent
  expect_s3_class(e, "clutch_actor_died")
  expect_false(e$begun)
  e <- failure(actor_call(a, "get"))
  expect_s3_class(e, "clutch_actor_died")
  expect_match(conditionMessage(e), "SIGKILL")
  is <- cluster_actors(two)
  expect_identical(is$state[is$label == "tally"], "ended")
  e <- failure(actor_call(cluster_actor(two, counting), "die"))
  expect_s3_class(e, "clutch_actor_died")
  expect_match(conditionMessage(e), "with this call at work: .*SIGKILL")
})

test_that("an answer that is lost with its actor is told as the actor's death", {
  large <- function() {
    list(large = function() {
      Sys.sleep(0.5)
      numeric(4e6)
    })
  }
  a <- cluster_actor(two, large)
  caller <- cluster_submit(two, list(Sys.getpid(), actor_call(a, "large")))
  until(is_at_work(a))
  at <- cluster_status(two)
  pid <- at$pid[at$state == "busy" & at$pid != known(a)$pid]
  tools::pskill(pid, tools::SIGSTOP)
  until(known(a)$done == 1)
  Sys.sleep(0.3) # the answer is sent
  tools::pskill(known(a)$pid, tools::SIGKILL)
  ends(known(a)$pid)
  tools::pskill(pid, tools::SIGCONT)
  e <- failure(collect(caller))$parent
  expect_s3_class(e, "clutch_actor_died")
  expect_match(conditionMessage(e), "SIGKILL")
})

test_that("an actor is begun again, and calls that had not begun are done then", {
  a <- cluster_actor(two, counting, restart = "always", restarts = 2, period = 600)
  pid <- actor_call(a, "pid")
  actor_call(a, "add", 3)
  at_work <- cluster_submit(two, actor_call(a, "sleep", 60))
  until(is_at_work(a))
  queued <- cluster_submit(two, actor_call(a, "add", 1))
  until(known(a)$queue == 1)
  tools::pskill(pid, tools::SIGKILL)
  expect_s3_class(failure(collect(at_work))$parent, "clutch_actor_died")
  expect_identical(collect(queued), 1)
  expect_identical(actor_call(a, "get"), 1)
  expect_false(actor_call(a, "pid") == pid)
  is <- cluster_actors(two)
  expect_identical(is$restarts[nrow(is)], 1)
  pid <- actor_call(a, "pid")
  e <- failure(actor_call(a, "die"))
  expect_true(e$begun)
  expect_identical(e$pid, pid) # and not the next one's
  expect_match(e$how, "SIGKILL")
  expect_identical(actor_call(a, "get"), 0)
  expect_true(failure(actor_call(a, "die"))$begun)
  e <- failure(actor_call(a, "get"))
  expect_s3_class(e, "clutch_actor_died")
  expect_false(e$begun)
  expect_identical(cluster_actors(two)$state[nrow(cluster_actors(two))], "ended")
})

test_that("an actor that could not be begun again has died, and was not stopped", {
  for (exclusive in c(TRUE, FALSE)) {
    made <- tempfile()
    a <- cluster_actor(two, function() {
      if (file.exists(made)) stop("only once")
      file.create(made)
      list(die = function() tools::pskill(Sys.getpid(), tools::SIGKILL))
    }, restart = "always", exclusive = exclusive)
    expect_true(failure(actor_call(a, "die"))$begun)
    e <- failure(actor_call(a, "die"))
    expect_s3_class(e, "clutch_actor_died")
    expect_match(e$how, "could not be begun again")
    expect_match(e$how, "only once")
  }
})

test_that("an actor that was begun again and then stopped has not died", {
  a <- cluster_actor(two, counting, restart = "always")
  b <- cluster_actor(two, counting, restart = "always", exclusive = FALSE)
  for (x in list(a, b)) {
    failure(actor_call(x, "die"))
    expect_identical(actor_call(x, "get"), 0)
    expect_true(actor_stop(x))
    expect_s3_class(failure(actor_call(x, "get")), "clutch_actor_stopped")
  }
  expect_null(clutch:::the$actors[[b$name]]$node)
})

test_that("an actor that was begun again and is stopped has not died", {
  a <- cluster_actor(two, counting, restart = "always")
  tools::pskill(actor_call(a, "pid"), tools::SIGKILL)
  until(identical(failure(actor_call(a, "add", 1)), 1))
  expect_true(actor_stop(a))
  expect_s3_class(failure(actor_call(a, "get")), "clutch_actor_stopped")
  expect_false(actor_stop(a))
})

test_that("with a journal an actor is what it was, also in a later session's hands", {
  file <- tempfile()
  on.exit(unlink(c(file, paste0(file, ".lock"))))
  drawing <- function() {
    first <- runif(1)
    n <- 0
    list(add = function(k) n <<- n + k, get = function() n, first = function() first,
         draw = function() {
           n <<- n + runif(1)
           n
         }, fail = function() {
           n <<- n + 1
           stop("half done")
         }, pid = function() Sys.getpid())
  }
  a <- cluster_actor(two, drawing, restart = "always", .journal = file)
  actor_call(a, "add", 2)
  actor_cast(a, "add", 3)
  failure(actor_call(a, "fail"))
  was <- c(actor_call(a, "draw"), actor_call(a, "first"))
  expect_error(cluster_actor(two, drawing, .journal = file), "is written to by")
  pid <- actor_call(a, "pid")
  tools::pskill(pid, tools::SIGKILL)
  ends(pid)
  expect_identical(c(actor_call(a, "get"), actor_call(a, "first")), was)
  follows <- actor_call(a, "draw")
  actor_stop(a)
  # what was half-written is cut off
  cat("half", file = file, append = TRUE)
  b <- cluster_actor(two, drawing, .journal = file)
  expect_identical(actor_call(b, "get"), follows)
  actor_call(b, "add", 1)
  actor_stop(b)
  b <- cluster_actor(two, drawing, .journal = file)
  expect_identical(actor_call(b, "get"), follows + 1)
  actor_stop(b)
})

test_that("callers that die leave an actor as it is, and their places are used again", {
  a <- cluster_actor(two, counting)
  for (i in 1:10) {
    e <- failure(cluster_map(two, 1, function(i) {
      actor_call(a, "add", 1)
      actor_cast(a, "add", 1)
      tools::pskill(Sys.getpid(), tools::SIGKILL)
    }))
    expect_s3_class(e, "clutch_task_died")
  }
  expect_identical(actor_call(a, "get"), 20)
  forked <- unlist(parallel::mclapply(1:4, function(i) actor_call(a, "add", 1), mc.cores = 2))
  expect_setequal(forked, 21:24)
  actor_stop(a)
})

# ---- ends ----

test_that("actors end with their object and with their cluster", {
  own <- make_cluster(1)
  a <- cluster_actor(own, counting)
  b <- cluster_actor(own, counting)
  pids <- c(actor_call(a, "pid"), actor_call(b, "pid"))
  rm(b)
  gc()
  gc()
  ends(pids[[2L]])
  expect_identical(cluster_actors(own)$pid, pids[[1L]])
  stop_cluster(own)
  ends(pids[[1L]])
  expect_error(actor_call(a, "get"), class = "clutch_error")
  expect_match(format(a), "gone|ended")
})

test_that("maps, calls and runs of the cluster do not notice its actors", {
  a <- cluster_actor(two, counting)
  task <- cluster_submit(two, actor_call(a, "sleep", 0.5))
  expect_length(parallel::clusterCall(two, Sys.getpid), 2L)
  expect_identical(cluster_map_int(two, 1:10, identity), 1:10)
  sums <- cluster_run(two, function(rank) {
    actor_call(a, "add", rank)
    node_barrier()
    actor_call(a, "get")
  })
  expect_identical(sums, list(3, 3))
  expect_identical(collect(task), "slept")
  is <- cluster_actors(two)
  is <- is[nrow(is), ]
  expect_identical(is$state, "up")
  expect_gte(is$busy, 0.5)
  expect_identical(is$queue, 0)
  expect_output(print(a), "<clutch actor counting: process [0-9]+, 5 calls done, 0 wait>")
  actor_stop(a)
})

# ---- what a reader with fresh eyes found ----

test_that("a function that fails is an error each time", {
  for (i in 1:15) expect_s3_class(failure(cluster_actor(two, function() stop("no"))), "error")
  e <- failure(cluster_actor(two, function() tools::pskill(Sys.getpid(), 9), restart = "always",
                             restarts = 1))
  expect_s3_class(e, "clutch_task_died")
})

test_that("what a caller has sent and cannot be read ends no actor", {
  a <- cluster_actor(two, function() {
    list(sleep = function(s) Sys.sleep(s), eat = function(x) length(x))
  })
  pid <- known(a)$pid
  actor_cast(a, "sleep", 1)
  e <- failure(cluster_map(two, 1, function(i) {
    actor_cast(a, "eat", runif(2e6))
    tools::pskill(Sys.getpid(), tools::SIGKILL)
  }))
  expect_s3_class(e, "clutch_task_died")
  expect_identical(actor_call(a, "eat", 1:3), 3L)
  expect_identical(known(a)[c("pid", "queue")], list(pid = pid, queue = 0))
  actor_stop(a)
})

test_that("casts that wait for room when the actor dies are sent to the next process", {
  a <- cluster_actor(two, function() {
    n <- 0
    list(sleep = function(s) Sys.sleep(s), take = function(x) n <<- n + 1, get = function() n)
  }, restart = "always")
  pid <- known(a)$pid
  actor_cast(a, "sleep", 60)
  task <- cluster_submit(two, {
    for (i in 1:2000) actor_cast(a, "take", strrep("x", 2000))
    "sent"
  })
  until(known(a)$queue > 100)
  Sys.sleep(0.2)
  tools::pskill(pid, tools::SIGKILL)
  expect_identical(collect(task, timeout = 60), "sent")
  expect_gt(actor_call(a, "get", .timeout = 20), 0)
  actor_stop(a)
})

test_that("an actor that was made in a function ends with its object", {
  for (restart in c("never", "always")) {
    use <- function() {
      a <- cluster_actor(two, function() list(pid = function() Sys.getpid()), restart = restart)
      actor_call(a, "pid")
    }
    pid <- use()
    for (i in 1:3) gc()
    ends(pid)
  }
})

test_that("a journal is refused where it is another file, and free after a failure", {
  file <- tempfile()
  on.exit(unlink(c(file, paste0(file, ".lock"))))
  utils::write.csv(data.frame(x = 1:100), file)
  size <- file.size(file)
  e <- failure(cluster_actor(two, counting, .journal = file))
  expect_match(conditionMessage(e), "is no journal of an actor")
  expect_identical(file.size(file), size)
  unlink(file)
  expect_error(cluster_actor(two, function() stop("no"), .journal = file), "no")
  slow <- function() {
    n <- 0
    list(slow = function() {
      Sys.sleep(30)
      n <<- n + 1
    }, get = function() n, add = function() n <<- n + 10)
  }
  a <- cluster_actor(two, slow, .journal = file)
  expect_error(actor_call(a, "slow", .timeout = 0.1), class = "clutch_timeout")
  actor_call(a, "add")
  actor_stop(a)
  a <- cluster_actor(two, slow, .journal = file)
  expect_identical(actor_call(a, "get", .timeout = 20), 10)
  actor_stop(a)
})

test_that("a journal that is damaged before its end is refused, and stays as it is", {
  file <- tempfile()
  on.exit(unlink(c(file, paste0(file, ".lock"))))
  a <- cluster_actor(two, counting, .journal = file)
  for (k in 1:3) actor_call(a, "add", k)
  actor_stop(a)
  bytes <- readBin(file, "raw", file.size(file))
  head <- length(clutch:::ACTOR_JOURNAL)
  seed <- readBin(bytes[head + 1:8], "double")
  bytes[[head + 8 + seed + 8 + 1]] <- as.raw(0) # of the first call
  writeBin(bytes, file)
  e <- failure(cluster_actor(two, counting, .journal = file))
  text <- "byte %.0f cannot be read: it is damaged"
  expect_match(conditionMessage(e), sprintf(text, head + 8 + seed))
  expect_identical(readBin(file, "raw", 2 * length(bytes)), bytes)
  expect_false(file.exists(paste0(file, ".lock")))
})

test_that("what is whole in a journal and cannot be read is an error, and stays there", {
  file <- tempfile()
  on.exit(unlink(c(file, paste0(file, ".lock"))))
  clutch:::close_actor_journal(clutch:::open_actor_journal(file))
  log <- clutch:::open_actor_journal(file)
  for (k in 1:3) clutch:::record_in_actor_journal(log, "add", list(k))
  clutch:::close_actor_journal(log)
  bytes <- readBin(file, "raw", 1e6)
  bytes[grepRaw("add", bytes) - 8L] <- as.raw(50) # there is no such type of object
  writeBin(bytes, file)
  expect_error(clutch:::open_actor_journal(file), "cannot be read", class = "clutch_journal")
  expect_identical(readBin(file, "raw", 1e6), bytes)
  expect_false(file.exists(paste0(file, ".lock")))
})

test_that("a call that cannot be written to a journal is an error", {
  skip_if_not(file.exists("/dev/full"))
  log <- list(con = file("/dev/full", "ab", raw = TRUE), path = "/dev/full")
  on.exit(close(log$con))
  expect_error(suppressWarnings(clutch:::record_in_actor_journal(log, "add", list(1))),
               "cannot be written to", class = "clutch_journal")
})

test_that("a link leads to the same journal of an actor", {
  folder <- tempfile()
  dir.create(folder)
  on.exit(unlink(folder, recursive = TRUE))
  file <- file.path(folder, "journal")
  link <- file.path(folder, "link")
  file.symlink("journal", link)
  expect_identical(clutch:::check_actor_journal(link), clutch:::check_actor_journal(file))
  a <- cluster_actor(two, counting, .journal = file)
  expect_error(cluster_actor(two, counting, .journal = link), "is written to by")
  actor_stop(a)
  expect_false(file.exists(paste0(file, ".lock")))
})

test_that("a journal is not taken from an actor whose process may be there", {
  file <- tempfile()
  lock <- paste0(file, ".lock")
  on.exit(unlink(c(file, lock)))
  owner <- clutch:::this_owner()
  ppid <- function() sub("^.*\\) . ([0-9]+) .*$", "\\1", readLines("/proc/self/stat", n = 1L))
  skip_if_not(dir.exists("/proc/self"))
  locked_by <- function(pid, started, boot) {
    writeLines(paste(owner$host, pid, started, boot), lock)
    Sys.setFileTime(lock, Sys.time() - 3600)
  }
  # another space of process numbers on a host of the same name
  locked_by(1, "5", "another-boot/1")
  expect_error(clutch:::open_actor_journal(file), class = "clutch_journal_locked")
  # a system that does not tell when a process was started
  before <- list(clutch:::start_of_process, clutch:::boot_of_machine)
  on.exit({
    utils::assignInNamespace("start_of_process", before[[1L]], "clutch")
    utils::assignInNamespace("boot_of_machine", before[[2L]], "clutch")
  }, add = TRUE)
  utils::assignInNamespace("start_of_process", function(pid) "-", "clutch")
  utils::assignInNamespace("boot_of_machine", function() "-", "clutch")
  locked_by(ppid(), "-", "-")
  expect_error(clutch:::open_actor_journal(file), class = "clutch_journal_locked")
  locked_by(system("echo $$", intern = TRUE), "-", "-")
  Sys.setFileTime(lock, Sys.time()) # it was killed a moment after it had begun
  log <- clutch:::open_actor_journal(file)
  # nor is a lock removed that is another one's meanwhile
  locked_by(ppid(), "-", "-")
  clutch:::close_actor_journal(log)
  expect_true(file.exists(lock))
})

test_that("methods that cannot be looked up are errors of the call", {
  a <- cluster_actor(two, function() {
    self <- new.env()
    makeActiveBinding("broken", function() stop("cannot be had"), self)
    self$get <- function() 1
    self
  })
  expect_error(actor_call(a, "broken"), class = "clutch_argument")
  expect_error(actor_call(a, ""), class = "clutch_argument")
  expect_identical(actor_call(a, "get"), 1)
  expect_error(actor_stop(a, timeout = 0), class = "clutch_timeout")
  actor_cast(a, "get")
  actor_stop(a)
})

test_that("answers that come too late are not kept", {
  a <- cluster_actor(two, function() {
    x <- runif(4e6)
    list(get = function(s) {
      Sys.sleep(s)
      x
    }, one = function() 1)
  })
  actor_call(a, "one")
  before <- open_fds()
  for (i in 1:40) failure(actor_call(a, "get", 0.02, .timeout = 0.02 + 0.0005 * (i %% 20)))
  for (i in 1:3) actor_call(a, "one")
  until(open_fds() <= before + 2)
  actor_stop(a)
})

test_that("observers see the actors of a cluster", {
  own <- make_cluster(1)
  on.exit(stop_cluster(own), add = TRUE)
  a <- cluster_actor(own, counting, .label = "counter \033[31m")
  asks <- function(other) {
    list(ask = function() actor_call(other, "get"),
         die = function() tools::pskill(Sys.getpid(), 9L))
  }
  second <- cluster_actor(own, asks, list(a), restart = "always")
  actor_call(a, "add", 1)
  actor_call(second, "ask")
  o <- clutch:::observer_of(own)
  on.exit(clutch:::close_observer(o), add = TRUE)
  seen <- function() clutch:::top_snapshot(o)$actors
  both <- cluster_actors(own)
  for (name in c("label", "pid", "state", "queue", "done", "restarts")) {
    expect_equal(seen()[[name]], both[[name]], info = name)
  }
  expect_identical(seen()$method, c("", ""))
  out <- utils::capture.output(cluster_top(own))
  expect_match(out, "^actor  counter \\?\\[31m +idle +0 waiting +2 done", all = FALSE)
  expect_error(actor_call(second, "die"), class = "clutch_actor_died")
  expect_true(eventually(identical(cluster_actors(own)$state[2L], "up"), 20))
  expect_identical(seen()$restarts, c(0, 1))
  actor_stop(a)
  expect_identical(seen()$label, "asks")
  actor_stop(second)
  expect_identical(seen()$state, cluster_actors(own)$state) # one that has died before is told
})

test_that("a child of the session ends nothing of its parent's", {
  own <- make_cluster(1)
  a <- cluster_actor(own, counting)
  made <- parallel::mcparallel({
    try(stop_cluster(own), silent = TRUE)
    actor_call(a, "add", 1)
  })
  expect_identical(parallel::mccollect(made)[[1L]], 1)
  made <- parallel::mcparallel(actor_stop(a))
  expect_true(parallel::mccollect(made)[[1L]])
  expect_error(actor_call(a, "get"), class = "clutch_actor_stopped")
  stop_cluster(own)
})

test_that("callers do not wait for a session that is gone", {
  file <- tempfile()
  folder <- tempfile() # a session that is killed leaves its temporary folder
  dir.create(folder)
  on.exit(unlink(c(file, folder), recursive = TRUE))
  script <- tempfile(fileext = ".R")
  writeLines(c(
    "library(clutch)", "cl <- make_cluster(1)",
    "a <- cluster_actor(cl, function() list(get = function() 1), restart = 'always')",
    sprintf("saveRDS(list(a, Sys.getpid()), '%s.new')", file),
    sprintf("invisible(file.rename('%s.new', '%s'))", file, file), "Sys.sleep(600)"
  ), script)
  system2(file.path(R.home("bin"), "Rscript"), script, wait = FALSE,
          env = paste0("TMPDIR=", folder))
  until(file.exists(file))
  x <- readRDS(file)
  expect_identical(actor_call(x[[1L]], "get"), 1)
  tools::pskill(x[[2L]], tools::SIGKILL)
  ends(x[[2L]])
  # its node may have an answer yet before it ends
  until(inherits(failure(actor_call(x[[1L]], "get", .timeout = 60)), "clutch_actor_died"))
})

stop_cluster(two)

test_that("it ends with its cluster, one that grows or was stopped in parts, and not before", {
  pid_of <- function(cl) {
    a <- cluster_actor(cl, counting)
    list(actor = a, pid = actor_call(a, "pid"))
  }
  cl <- make_cluster(c(1, 2))
  on.exit(stop_cluster(cl))
  a <- pid_of(cl)
  stop_cluster(cl)
  until(!alive(a$pid))
  cl <- make_cluster(2)
  a <- pid_of(cl)
  stop_cluster(cl[c(1, 1)])
  expect_identical(actor_call(a$actor, "pid"), a$pid)
  stop_cluster(cl[2])
  until(!alive(a$pid))
})
