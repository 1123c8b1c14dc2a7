# Large vectors on their way between two hosts: how much of them the processes between hold.

# Bytes in segments that a process has open.
held <- function(pid) {
  fds <- file.path("/proc", pid, "fd", list.files(file.path("/proc", pid, "fd")))
  fds <- fds[startsWith(as.character(Sys.readlink(fds)), "/memfd:clutch-data")]
  sum(file.info(fds)$size, na.rm = TRUE)
}

parent <- function(pid) {
  stat <- readLines(file.path("/proc", pid, "stat"))
  as.integer(strsplit(sub(".*\\) ", "", stat), " ", fixed = TRUE)[[1L]][2L])
}

environment(held) <- environment(parent) <- globalenv()

test_that("many large elements and results cross right, and few of them are held in between", {
  needs("memfd")
  cl <- host_cluster(2)
  on.exit(end_host_cluster(cl))
  x <- lapply(1:30, function(i) rep(i + 0.5, 2.5e6)) # 600 MB in all
  f <- function(x, near, held, parent) {
    x[1L] <- held(parent(parent(Sys.getpid())))
    x[2L] <- held(near)
    x
  }
  environment(f) <- globalenv()
  near <- .Call(clutch:::ffi_link_info, attr(cl, "link")$handle)$pid
  done <- cluster_map(cl, x, f, near = near, held = held, parent = parent, .chunk = 1)
  right <- vapply(seq_along(x), function(i) identical(done[[i]][-(1:2)], x[[i]][-(1:2)]), NA)
  expect_identical(right, rep(TRUE, 30))
  there <- vapply(done, `[`, 0, 1L)
  here <- vapply(done, `[`, 0, 2L)
  expect_gte(max(there), 20e6)
  # 128 MB that were brought once, and of each node less than 32 MB and one element
  expect_lt(max(there), 128e6 + 2 * 52e6)
  expect_lt(max(here), 128e6 + 2 * 52e6)
})
