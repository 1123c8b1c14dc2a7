# What is done to the processes from outside, at every step of their lives: killed, stopped, interrupted,
# short of memory, processes and descriptors. After each the cluster is in step, or there is a clear error
# and nothing left.

server_pid <- function(cl) .Call(clutch:::ffi_node_info, cl[[1L]]$handle)$server_pid
node_died <- function(expr) tryCatch(expr, clutch_node_died = identity)
later <- function(seconds, command, ...) system(sprintf(paste0("(sleep %.3f; ", command, ") >/dev/null 2>&1 &"), seconds, ...))
works <- function(cl) {
  x <- stats::runif(1)
  identical(parallel::clusterCall(cl, identity, x), rep(list(x), length(cl)))
}
ends <- function(s) eventually(length(processes_of(s)) == 0L)
# Files that are left when all is over: a session that was killed leaves its own folder, as any R does.
left_in <- function(s) {
  folder <- grep("^session=", readLines(s$out, warn = FALSE), value = TRUE)
  setdiff(list.files(s$tmp), basename(sub("^session=", "", folder)))
}

# ---- forks of a node ----

test_that("a process forked in a call takes nothing with it when it is ended", {
  cl <- make_cluster(2)
  on.exit(stop_cluster(cl))
  r <- parallel::clusterCall(cl, function() {
    file <- tempfile()
    writeLines("kept", file)
    child <- parallel::mcparallel(Sys.sleep(60))
    tools::pskill(child$pid, 15L) # as parallel itself does when a mclapply() is interrupted
    parallel::mccollect(child)
    readLines(file)
  })
  expect_identical(r, list("kept", "kept"))
})

test_that("a process forked in a call never answers in the node's place, nor takes its calls", {
  cl <- make_cluster(2)
  on.exit(stop_cluster(cl))
  p <- pids(cl)
  for (how in c("error", "value")) {
    r <- parallel::clusterCall(cl, function(how) {
      child <- parallel:::mcfork()
      if (inherits(child, "masterProcess")) if (how == "error") stop("of the child") else return("of the child")
      while (!is.null(parallel:::selectChildren(child, 30)) && !is.raw(parallel:::readChild(child))) NULL
      "of the node"
    }, how)
    expect_identical(r, list("of the node", "of the node"))
    for (k in 1:5) expect_identical(unlist(parallel::clusterCall(cl, Sys.getpid)), p)
  }
})
