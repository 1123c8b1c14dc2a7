# Objects that are there before the nodes are forked: where they are, what they cost, and that
# nothing is left of a start that fails.

own_server_pid <- function(cl) .Call(clutch:::ffi_server_info, cl[[1L]]$info$server$handle)$pid
on_nodes <- function(cl, code) {
  lapply(parallel::clusterCall(cl, eval, code, envir = globalenv()), identity)
}
failure <- function(expr) tryCatch(expr, error = identity)
# Of a start in the folder of this session
left_here <- function() list.files(tempdir(), "^clutch-(server|node)")

private_dirty <- function(pid) {
  lines <- readLines(file.path("/proc", pid, "smaps_rollup"))
  line <- grep("^Private_Dirty", lines, value = TRUE)
  as.numeric(gsub("[^0-9]", "", line)) / 1024
}

test_that("all nodes have what the expression makes, and what it needs of the session", {
  assign("preload_k", 3, globalenv())
  assign("preload_triple", as.function(list(x = 0, quote(x * preload_k)), globalenv()), globalenv())
  on.exit(rm(preload_k, preload_triple, envir = globalenv()))
  start <- function(factor) {
    make_cluster(2, preload = {
      small <- factor * preload_triple(1)
      set <- new.env()
      set$x <- small
      again <- function() small + factor
    })
  }
  environment(start) <- globalenv() # as where a user writes it
  cl <- start(2)
  on.exit(stop_cluster(cl), add = TRUE)
  expect_identical(on_nodes(cl, quote(c(small, set$x, again()))), list(c(6, 6, 8), c(6, 6, 8)))
  expect_identical(cluster_map_dbl(cl, 1:2, function(i) small * i, .globals = FALSE), c(6, 12))
  # each node has its own random numbers
  drawn <- on_nodes(cl, quote(runif(1)))
  expect_false(identical(drawn[[1]], drawn[[2]]))
})

test_that("an expression that comes by the dots of other functions is found where it was written", {
  has <- function(cl) {
    on.exit(stop_cluster(cl))
    on_nodes(cl, quote(y))[[1L]]
  }
  plain <- function(...) make_cluster(1, ...)
  inner <- function(..., other = 1) plain(...)
  within <- function(...) lapply(1, function(i) make_cluster(i, ...))[[1L]]
  held <- function(...) function(n) make_cluster(n, ...)
  evaluated <- function(...) eval(quote(make_cluster(1, ...)))
  one <- function(preload_x) plain(preload = y <- preload_x + 1)
  two <- function(preload_x) inner(preload = y <- preload_x + 2)
  three <- function(preload_x) within(preload = y <- preload_x + 3)
  four <- function(preload_x) lapply(1, make_cluster, preload = y <- preload_x + 4)[[1L]]
  five <- function(preload_x) do.call(inner, list(preload = bquote(y <- .(preload_x) + 5)))
  # what is in the way has another value
  environment(plain) <- list2env(list(preload_x = 100), parent = environment(plain))
  expect_identical(has(one(1)), 2)
  expect_identical(has(two(1)), 3)
  expect_identical(has(three(1)), 4)
  expect_identical(has(four(1)), 5)
  expect_identical(has(five(1)), 6)
  six <- function(preload_x) evaluated(preload = y <- preload_x + 6)
  environment(evaluated) <- list2env(list(preload_x = 100), parent = environment(evaluated))
  expect_identical(has(six(1)), 7)
  # `...` of a call that has ended: as if the function that hands it on had written it
  preload_x <- 10
  expect_identical(has(held(preload = y <- preload_x)(1)), 10)
  plan <- function(...) launch_plan(1, ...)
  expect_match(plan(preload = y <- preload_x), "preload|evaluates", all = FALSE)
})

test_that("the expression may be quoted, an expression, in a variable, or a variable itself", {
  code <- quote({
    a <- 5
    b <- 6
  })
  values <- 1:3
  nothing <- NULL
  has <- function(cl, code) {
    on.exit(stop_cluster(cl))
    on_nodes(cl, code)[[1]]
  }
  expect_identical(has(make_cluster(1, preload = quote(a <- 5)), quote(a)), 5)
  expect_identical(has(make_cluster(1, preload = code), quote(a + b)), 11)
  expect_identical(has(make_cluster(1, preload = expression(a <- 5, b <- 7)), quote(a + b)), 12)
  expect_identical(has(make_cluster(1, preload = values), quote(values)), 1:3)
  expect_identical(has(do.call(make_cluster, list(1, preload = code)), quote(a + b)), 11)
  cl <- make_cluster(1, preload = nothing)
  on.exit(stop_cluster(cl))
  expect_null(cl[[1L]]$info$server$own)
})

test_that("packages that the expression needs are there, and stay attached", {
  skip_if_not_installed("stats4")
  cl <- make_cluster(2, packages = "stats4", preload = {
    library(tools)
    fit <- mle(function(m = 1) (m - 2)^2)
  })
  on.exit(stop_cluster(cl))
  expect_equal(on_nodes(cl, quote(unname(coef(fit))))[[2]], 2, tolerance = 1e-4)
  expect_true(all(unlist(on_nodes(cl, quote("package:tools" %in% search())))))
  # also after a task whose session has it not attached
  expect_true(collect(cluster_submit(cl, "package:tools" %in% search())))
})

test_that("a function of a package finds what is not exported", {
  fun <- function() make_cluster(1, preload = x <- text_of(quote(a + b)))
  environment(fun) <- asNamespace("clutch")
  cl <- fun()
  on.exit(stop_cluster(cl))
  expect_identical(on_nodes(cl, quote(x))[[1]], "'a + b'")
})

test_that("replaced nodes come from the same server, and a killed server is followed by another", {
  linux_only()
  file <- tempfile()
  cl <- make_cluster(2, preload = {
    cat("x", file = file, append = TRUE)
    big <- 1:10
  })
  on.exit(stop_cluster(cl))
  server <- own_server_pid(cl)
  tools::pskill(pids(cl)[1], 9L)
  expect_true(eventually(!alive(pids(cl)[1])))
  expect_identical(cluster_map_int(cl, 1:4, function(i) big[[i]], .globals = FALSE), 1:4)
  expect_identical(own_server_pid(cl), server)
  expect_identical(readLines(file, warn = FALSE), "x")
  tools::pskill(server, 9L)
  expect_true(eventually(!any(alive(pids(cl)))))
  # as often as it was evaluated
  expect_identical(cluster_map_int(cl, 1:4, function(i) big[[i]], .globals = FALSE), 1:4)
  expect_identical(readLines(file, warn = FALSE), "xx")
  second <- own_server_pid(cl)
  expect_false(second == server)
  stop_cluster(cl)
  expect_true(eventually(!alive(second)))
  expect_identical(left_here()[left_here() %in% basename(cl[[1L]]$info$server$folder)], character())
})

test_that("such a server is for one cluster only, and ends with it", {
  outside_checks_only()
  linux_only()
  shared <- length(clutch:::the$servers)
  a <- make_cluster(2, preload = x <- 1)
  b <- make_cluster(1, preload = x <- 1)
  plain <- make_cluster(1)
  on.exit(stop_cluster(plain))
  servers <- c(own_server_pid(a), own_server_pid(b), server_pid(plain))
  expect_identical(anyDuplicated(servers), 0L)
  expect_false(on_nodes(plain, quote(exists("x")))[[1]])
  parallel::stopCluster(a)
  expect_true(eventually(!alive(servers[[1]])))
  expect_true(alive(servers[[2]]))
  rm(b)
  invisible(gc())
  expect_true(eventually(!alive(servers[[2]])))
  expect_true(alive(servers[[3]]))
  # node by node, and by fork_server_stop()
  cl <- make_cluster(2, preload = x <- 1)
  server <- own_server_pid(cl)
  stop_cluster(cl[1])
  expect_identical(on_nodes(cl[2], quote(x)), list(1))
  stop_cluster(cl[2])
  expect_true(eventually(!alive(server)))
  cl <- make_cluster(1, preload = x <- 1)
  server <- own_server_pid(cl)
  expect_true(fork_server_stop() >= 0L)
  expect_true(alive(server))
})

test_that("an error of the expression is one of make_cluster(), and nothing is left", {
  stop_cluster(make_cluster(1, strategy = "spawn")) # its server is shared, and stays
  gc() # clusters of the tests before
  before <- left_here()
  fds <- open_fds()
  for (how in c("fork_server", "spawn", "parallel")) {
    e <- failure(make_cluster(2, strategy = how, preload = stop("no such data")))
    expect_s3_class(e, c("clutch_setup", "clutch_start", "clutch_error"), exact = FALSE)
    expect_match(conditionMessage(e), "preload.*no such data", info = how)
  }
  e <- failure(make_cluster(2, preload = quit(status = 7)))
  expect_s3_class(e, "clutch_start")
  expect_match(conditionMessage(e), "exit status 7.*preload")
  e <- failure(make_cluster(2, preload = notThere + 1))
  expect_match(conditionMessage(e), "notThere")
  expect_identical(setdiff(left_here(), before), character())
  expect_length(clutch:::own_servers(), 0L)
  expect_identical(open_fds(), fds)
})

test_that("no server is left when its nodes cannot be started", {
  linux_only()
  file <- tempfile()
  outfile <- file.path(tempfile("no-such-folder"), "output")
  e <- failure(make_cluster(1, outfile = outfile, preload = cat(Sys.getpid(), file = file)))
  expect_match(conditionMessage(e), "cannot be set up")
  expect_false(alive(scan(file, quiet = TRUE)))
  expect_length(clutch:::own_servers(), 0L)
})

test_that("setup_timeout counts the expression", {
  linux_only()
  before <- left_here()
  mark <- tempfile()
  e <- failure(make_cluster(1, setup_timeout = 3, preload = {
    cat(Sys.getpid(), file = mark)
    repeat Sys.sleep(1)
  }))
  expect_s3_class(e, "clutch_start")
  expect_match(conditionMessage(e), "setup_timeout.*preload")
  pid <- suppressWarnings(tryCatch(scan(mark, quiet = TRUE), error = function(e) integer()))
  expect_false(any(alive(pid)))
  expect_identical(setdiff(left_here(), before), character())
})

test_that("Ctrl-C while the expression is evaluated leaves nothing", {
  linux_only()
  s <- start_script(fixture = "preload-interrupted", started = tempfile())
  expect_done(s, 120)
  expect_identical(value_of(s, "how"), "interrupted")
  expect_identical(value_of(s, "servers"), "0")
  expect_identical(value_of(s, "quick"), "TRUE")
  expect_identical(value_of(s, "left"), "")
  expect_identical(value_of(s, "works"), "TRUE")
  expect_true(ends(s))
  expect_identical(left_in(s), character())
})

test_that("the end of the session ends the server that evaluates, and what that has started", {
  linux_only()
  mark <- tempfile()
  s <- start_script(fixture = "preload-forever", mark = mark)
  expect_true(eventually(file.exists(mark)))
  tools::pskill(s$pid, 9L)
  expect_true(ends(s))
})

test_that("warnings are said, and what nodes would share is closed before", {
  con <- NULL
  said <- character()
  cl <- withCallingHandlers(
    make_cluster(1, preload = {
      warning("take care")
      con <- file(tempfile(), "w")
      grDevices::pdf(NULL)
    }),
    warning = function(w) {
      said <<- c(said, conditionMessage(w))
      invokeRestart("muffleWarning")
    }
  )
  on.exit(stop_cluster(cl))
  expect_match(said[[1]], "take care")
  expect_match(said[[2]], "graphics devices and connections .* closed")
  files <- quote(sum(showConnections()[, "class"] == "file"))
  expect_identical(on_nodes(cl, files), list(0L))
  expect_identical(on_nodes(cl, quote(length(grDevices::dev.list()))), list(0L))
})

test_that("an expression that starts a thread is an error that says what to do", {
  needs("threads")
  cl <- NULL
  e <- failure(cl <- make_cluster(1, preload = requireNamespace("cli")))
  skip_if_not(is.null(cl), "package cli starts no thread")
  expect_s3_class(e, "clutch_start")
  expect_match(conditionMessage(e), "preload.*threads.*strategy = \"spawn\"")
  cl <- make_cluster(1, strategy = "spawn", preload = x <- requireNamespace("cli"))
  on.exit(stop_cluster(cl))
  expect_identical(on_nodes(cl, quote(x)), list(TRUE))
})

test_that("where nodes are not forked each evaluates it, also those that replace others", {
  for (how in c("spawn", "parallel")) {
    three <- 3
    cl <- make_cluster(2, strategy = how, preload = x <- three + 1)
    expect_identical(on_nodes(cl, quote(x)), list(4, 4))
    tools::pskill(pids(cl)[1], 9L)
    expect_true(eventually(!alive(pids(cl)[1])))
    expect_identical(cluster_map_dbl(cl, 1:4, function(i) x + i, .globals = FALSE), 5:8 + 0)
    stop_cluster(cl)
  }
  cl <- make_cluster(1, node = "psock", preload = x <- 2)
  on.exit(parallel::stopCluster(cl))
  expect_identical(parallel::clusterEvalQ(cl, x), list(2))
})

test_that("the cluster tells that there is a preload, and does not carry it about", {
  big <- runif(1e5)
  cl <- make_cluster(1, preload = {
    y <- sum(big)
    z <- 1
  })
  on.exit(stop_cluster(cl))
  expect_output(print(cl), "preload: y <- sum(big) ...", fixed = TRUE)
  expect_lt(length(serialize(cl, NULL)), 1e5)
  plan <- launch_plan(1, preload = y <- 1)
  expect_true("  for this cluster only, evaluates y <- 1" %in% plan)
})

test_that("large vectors that the expression needs of the session come by shared memory", {
  linux_only()
  table <- data.frame(a = 1:4e5 + 0, b = 4e5:1)
  attr(table$b, "unit") <- "m"
  words <- sprintf("word %d", 1:4e5)
  cl <- make_cluster(2, preload = {
    held <- table
    held_words <- words
  })
  on.exit(stop_cluster(cl))
  there <- quote(c(clutch::is_shared(held$a), clutch::is_shared(held_words)))
  expect_identical(on_nodes(cl, there), list(c(TRUE, TRUE), c(TRUE, TRUE)))
  expect_identical(on_nodes(cl, quote(list(held, held_words)))[[2]], list(table, words))
  # what a node changes is its own
  expect_identical(on_nodes(cl[1], quote({
    held$a[[1]] <- 0
    held$a[[1]]
  })), list(0))
  expect_identical(on_nodes(cl[2], quote(held$a[[1]])), list(1))
  # the next server gets them anew
  server <- own_server_pid(cl)
  tools::pskill(server, 9L)
  expect_true(eventually(!any(alive(pids(cl)))))
  expect_identical(cluster_map_dbl(cl, 1:2, function(i) held$a[[i]], .globals = FALSE), c(1, 2))
  stop_cluster(cl)
  options(clutch.share_from = Inf)
  on.exit(options(clutch.share_from = NULL), add = TRUE)
  cl <- make_cluster(2, preload = held <- table)
  expect_identical(on_nodes(cl, quote(clutch::is_shared(held$a))), list(FALSE, FALSE))
  expect_identical(on_nodes(cl, quote(held))[[1]], table)
})

test_that("a large vector stays shared when it is used, and when garbage is collected", {
  linux_only()
  skip_if_not(file.exists("/proc/self/smaps_rollup"))
  cl <- make_cluster(2, preload = v <- seq_len(1e7) + 0) # as.numeric() would stay a sequence
  on.exit(stop_cluster(cl))
  idle <- vapply(pids(cl), private_dirty, 1)
  expect_equal(unlist(on_nodes(cl, quote(sum(v)))), rep(sum(as.numeric(seq_len(1e7))), 2))
  expect_lt(max(vapply(pids(cl), private_dirty, 1) - idle), 5)
  # a full collection makes R's own small objects the node's: some 30 MB, and not the 80 of `v`
  on_nodes(cl, quote({
    for (i in 1:3) gc()
    sum(v)
  }))
  expect_lt(max(vapply(pids(cl), private_dirty, 1)), 60)
  # what a node changes is its own
  expect_identical(on_nodes(cl[1], quote({
    v[1] <- 0
    v[1]
  })), list(0))
  expect_identical(on_nodes(cl[2], quote(v[1])), list(1))
})

test_that("share_info() tells what a node still has in common with what was preloaded", {
  linux_only()
  needs("proc")
  skip_if_not(file.exists("/proc/self/smaps_rollup"))
  cl <- make_cluster(2, preload = {
    v <- seq_len(1e7) + 0 # in memory, which as.numeric() of a sequence is not
    l <- lapply(1:5e5, as.numeric)
  })
  on.exit(stop_cluster(cl))
  server <- own_server_pid(cl)
  # servers of other tests may still be ending
  rows <- function() {
    now <- share_info()
    now[now$what == "preload" & vapply(now$pids, `[[`, 1L, 1L) == server, ]
  }
  common <- function() {
    now <- rows()
    expect_identical(nrow(now), 2L)
    expect_true(all(is.na(now$id)))
    now$bytes[match(pids(cl), vapply(now$pids, `[[`, 1L, 2L))]
  }
  before <- common()
  expect_gt(min(before), 8e7 + 3e7)
  on_nodes(cl[1L], quote(gc()))
  after <- common()
  expect_lt(after[[1L]], before[[1L]] - 2e7) # the list
  expect_gt(after[[1L]], 8e7 - 1e7) # and not the vector
  expect_gt(after[[2L]], before[[2L]] - 1e7)
  stop_cluster(cl)
  expect_identical(nrow(rows()), 0L)
})
