# Rscript tools/gctorture.R RESULT-FILE
#
# Does a little of each kind with the package as tools/test-checkers.sh builds it for this: its C
# collects garbage at each allocation, in all processes (see tools/torture-calls.R). The values are
# to be those that there would be without. CLUTCH_TORTURE_LIST=1: says which entry points were not
# called in this way. CLUTCH_TORTURE_ONLY: a regular expression for what is done.
#
# RESULT-FILE gets "passed failed skipped".

if (!exists(".Call", asNamespace("clutch"), inherits = FALSE)) {
  stop("this is not the package that tools/test-checkers.sh has built", call. = FALSE)
}
seen <- tempfile("seen")
dir.create(seen)
# Functions that R compiles when they are called the second time would take minutes.
Sys.setenv(CLUTCH_TORTURE_SEEN = seen, R_ENABLE_JIT = "0")
invisible(compiler::enableJIT(0L))
library(parallel)
suppressPackageStartupMessages(library(clutch))

only <- Sys.getenv("CLUTCH_TORTURE_ONLY")
counts <- c(passed = 0L, failed = 0L)

check <- function(what, expected, expr) {
  if (!grepl(only, what)) return(invisible())
  began <- proc.time()[["elapsed"]]
  value <- tryCatch(expr, error = function(e) paste("error:", conditionMessage(e)))
  good <- identical(value, expected)
  counts[[if (good) "passed" else "failed"]] <<- counts[[if (good) "passed" else "failed"]] + 1L
  took <- proc.time()[["elapsed"]] - began
  cat(sprintf("  %-24s %6.1f s%s\n", what, took, if (good) "" else "  FAIL"))
  if (!good) utils::str(value)
}

# What is attached there is not loaded under torture.
cl <- make_cluster(2, packages = c("parallel", "tools"), setup_timeout = 600,
                   resources = list(unit = 1:2))
check("nodes collect, too", list(10L, 10L), {
  clusterCall(cl, function() {
    step <- gctorture2(0L)
    gctorture2(step)
    step
  })
})

# ---- package parallel ----
check("clusterCall", list(6, 6), clusterCall(cl, sum, 1, 2, 3))
check("clusterApplyLB", list(1, 4, 9), clusterApplyLB(cl, c(1, 2, 3), function(x) x^2))
check("clusterExport", list(5, 5), {
  v5 <- 5
  clusterExport(cl, "v5", environment())
  clusterCall(cl, function() v5)
})
check("error of a node", "try-error", {
  class(try(clusterCall(cl, stop, "no"), silent = TRUE))
})

# ---- maps ----
values <- list(
  a = 1:3, b = "x", c = list(1, "y", NULL), d = sqrt, e = factor(c("u", "v")), f = quote(a + b),
  g = c(x = TRUE, y = NA), h = 1i, i = as.raw(1:3), j = as.Date("2020-01-01"), k = 1:1e6
)
check("map", as.list((1:12)^2), cluster_map(cl, 1:12, function(i) i^2))
check("map, typed", (1:12) * 2, cluster_map_dbl(cl, 1:12, function(x) x * 2))
check("map, named", c(a = "A", b = "B"), cluster_map_chr(cl, c(a = "a", b = "b"), toupper))
check("map, kinds of values", values, cluster_map(cl, values, identity))
big <- as.numeric(seq_len(2e5))
words <- paste("word", seq_len(5e4))
check("map, shared", list(sum(big), sum(big)), cluster_map(cl, 1:2, function(i) sum(big)))
check("map, shared strings", c(50000L, 50000L), cluster_map_int(cl, 1:2, function(i) length(words)))
check("map, large values", list(big, big), cluster_map(cl, 1:2, function(i) big))
check("pmap", list(4, 6), {
  cluster_pmap(cl, list(x = c(1, 2), y = c(3, 4)), function(x, y) x + y)
})
check("map, an error", TRUE, {
  r <- suppressWarnings(
    cluster_map(cl, 1:3, function(i) if (i == 2L) stop("no") else i, .on_error = "continue")
  )
  inherits(r[[2L]], "error") && identical(r[[3L]], 3L)
})
check("map, output", c("said", "warned"), {
  heard <- character()
  withCallingHandlers(
    cluster_map(cl, 1, function(i) {
      message("said")
      warning("warned")
      cat("printed\n")
    }),
    message = function(c) {
      heard <<- c(heard, trimws(conditionMessage(c)))
      invokeRestart("muffleMessage")
    },
    warning = function(c) {
      heard <<- c(heard, if (grepl("warned", conditionMessage(c))) "warned")
      invokeRestart("muffleWarning")
    }
  )
  heard
})
check("map, random numbers", TRUE, {
  draw <- function() {
    set.seed(3)
    cluster_map_dbl(cl, 1:4, function(i) rnorm(1))
  }
  identical(draw(), draw())
})
check("map, a node that dies", list(1, 2, 3), {
  cluster_map(cl, c(1, 2, 3), function(i) {
    if (i == 2 && task_attempt() == 1L) tools::pskill(Sys.getpid(), 9L)
    i
  }, .retries = 2)
})
check("map, .fresh", list(FALSE, FALSE), {
  cluster_map(cl, 1:2, function(i) {
    found <- exists("left")
    assign("left", i, globalenv())
    found
  }, .fresh = TRUE, .chunk = 1)
})
check("map, .needs", list(1L, 1L), {
  cluster_map(cl, 1:2, function(i) length(task_resources()$unit), .needs = list(unit = 1))
})
check("map, .timeout", c(TRUE, FALSE), {
  wait <- function(i) if (i == 1L) repeat Sys.sleep(0.1) else i
  r <- suppressWarnings(cluster_map(cl, 1:2, wait, .timeout = 5, .on_error = "continue"))
  vapply(r, inherits, NA, "error")
})
check("journal", list(1, 4, 9), {
  path <- tempfile()
  cluster_map(cl, c(1, 2, 3), function(i) i^2, .journal = path)
  suppressMessages(cluster_map(cl, c(1, 2, 3), function(i) i^2, .journal = path))
})
check("journal, read", c(1, 4, 9), {
  path <- tempfile()
  cluster_map(cl, c(1, 2, 3), function(i) i^2, .journal = path)
  journal_compact(path)
  sort(unlist(journal_read(path, values = TRUE)$value))
})
check("here", list(1, 4), cluster_map("here", c(1, 2), function(i) i^2))

# ---- tasks ----
check("submit, collect", 7, collect(cluster_submit(cl, 3 + 4)))
check("submit, workspace", 8, {
  helper <- function(x) x + 1
  collect(cluster_submit(cl, helper(7)))
})

check("submit, ready", c(1, 2), {
  tasks <- list(cluster_submit(cl, 1), cluster_submit(cl, 2))
  collect_any(tasks)
  sort(unlist(collect_all(tasks)))
})

# ---- runs ----
check("run, reduce", list(3, 3), {
  cluster_run(cl, function(rank) node_allreduce(as.numeric(rank), "+"))
})
check("run, to all", list(list(1, 2), list(1, 2)), {
  cluster_run(cl, function(rank) {
    node_barrier()
    node_broadcast(values)
    node_allgather(as.numeric(rank))
  })
})
check("run, messages", list(list(2L, letters), list(1L, letters)), {
  cluster_run(cl, function(rank) {
    node_send(3L - rank, list(rank, letters))
    node_receive()$value
  })
})

# ---- what nodes share ----
check("counter", 2, {
  counter <- cluster_counter(cl)
  cluster_map(cl, 1:2, function(i) counter_add(counter))
  as.numeric(counter_value(counter))
})
check("lock", 2, {
  lock <- cluster_lock(cl)
  with_lock(lock, 1 + 1)
})
check("rate", list(1, 2), {
  rate <- cluster_rate(100, cl = cl)
  cluster_map(cl, c(1, 2), function(i) {
    rate_wait(rate)
    i
  })
})
check("table", c(2, 4), {
  table <- cluster_table(cl)
  for (i in 1:2) table_append(table, list(x = i, by = letters))
  cluster_walk(cl, 1:2, function(i) {
    task <- table_pop(table)
    table_set(table, task$id, list(twice = 2 * task$row$x))
  })
  sort(as.numeric(unlist(table_read(table)$twice)))
})
check("actor", c(1, 3), {
  a <- cluster_actor(cl, function() {
    n <- 0
    list(add = function(k) {
      n <<- n + k
      n
    })
  })
  x <- c(actor_call(a, "add", 1), actor_call(a, "add", 2))
  actor_stop(a)
  x
})

# ---- what is told of a cluster ----
check("status", TRUE, is.data.frame(cluster_status(cl)))
check("stacks", TRUE, is.data.frame(cluster_stacks(cl)))
check("top", TRUE, any(grepl("2 nodes", utils::capture.output(cluster_top()))))
check("trace", TRUE, is.data.frame(as.data.frame(cluster_trace(cl))))

# ---- sockets ----
listener <- socket_listen(port = 0)
from <- socket_connect(port = as.integer(socket_info(listener)$local_port))
to <- socket_accept(listener, timeout = 60)
check("lines", c("hello", "there"), {
  writeLines(c("hello", "there"), from)
  flush(from)
  readLines(to, 2L)
})
check("objects", values, {
  socket_send(from, values)
  socket_receive(to)
})
check("bytes", as.raw(1:3), {
  socket_write(from, as.raw(1:3))
  socket_read(to, 3)
})
check("sets of sockets", "to", {
  set <- socket_set()
  socket_set_add(set, list(to = to), "read")
  socket_write(from, as.raw(1))
  names(socket_set_wait(set, 60)$read)
})
check("about sockets", TRUE, {
  socket_timeout(to, 5)
  socket_options(linger = 1)
  socket_write(from, as.raw(1))
  is.data.frame(socket_table()) && socket_select(list(to), timeout = 60)
})
for (s in list(from, to, listener)) close(s)

check("stop", TRUE, {
  stop_cluster(cl)
  TRUE
})

# ---- other kinds of nodes ----
others <- list(
  spawn = list(2, strategy = "spawn"),
  tcp = list(2, strategy = "parallel"),
  psock = list(2, strategy = "parallel", node = "psock")
)
for (kind in names(others)) {
  check(paste("nodes:", kind), list(2, 4), {
    other <- do.call(make_cluster, c(others[[kind]], setup_timeout = 600))
    twice <- function(x) x * 2
    x <- c(1, 2)
    value <- if (kind == "psock") clusterApply(other, x, twice) else cluster_map(other, x, twice)
    stop_cluster(other)
    value
  })
}
check("a cluster that grows", list(2, 4, 6, 8), {
  other <- make_cluster(c(1, 2), setup_timeout = 600)
  value <- cluster_map(other, c(1, 2, 3, 4), function(x) x * 2, .chunk = 1)
  stop_cluster(other)
  value
})

all <- names(getDLLRegisteredRoutines("clutch")$.Call)
met <- list.files(seen)
cat(length(met), "of", length(all), "entry points were called\n")
if (nzchar(Sys.getenv("CLUTCH_TORTURE_LIST"))) cat("not:", setdiff(all, met), fill = 100L)
writeLines(paste(counts[["passed"]], counts[["failed"]], 0L), commandArgs(TRUE)[1L])
quit("no", status = if (counts[["failed"]]) 1L else 0L)
