# All that runs on a host is killed at once, so that nobody there removes its folder.

outside_checks_only()

test_that("the next start there removes the folder that is left, and none that is in use", {
  hosts <- hosts_or_skip("alpha")
  on.exit(stop_hosts(hosts))
  start <- function() make_cluster(hosts("alpha", 1, ssh = c("ssh", "-F", hosts$config)))
  first <- start()
  own <- files_on(hosts, "alpha")
  second <- start()
  other <- setdiff(files_on(hosts, "alpha"), own)
  # not ours: somebody's folder that looks like one
  kept <- c("Rtmpnobody", "Rtmplink")
  there <- file.path(hosts$folder, "alpha", "tmp")
  dir.create(file.path(there, kept[[1L]]))
  file.symlink(file.path(hosts$folder, "alpha"), file.path(there, kept[[2L]]))
  # of the first: its proxy, fork server and node, which have its folder's lock
  lock <- file.path(there, own, "clutch-in-use")
  lock <- lock[file.exists(lock)]
  expect_length(lock, 1L)
  has_it <- sprintf("ls -l $p/fd 2>/dev/null | grep -qF %s && echo ${p#/proc/}", shQuote(lock))
  # stopped before: none of them may clean up after another one that was killed a moment sooner
  kill <- "all=$(for p in /proc/[0-9]*; do %s; done); kill -STOP $all; kill -9 $all"
  on_host(hosts, "alpha", sprintf(kill, has_it))
  expect_true(dir.exists(dirname(lock)))
  third <- start()
  expect_true(eventually(!dir.exists(dirname(lock)), 20))
  expect_true(all(c(other, kept) %in% files_on(hosts, "alpha")))
  for (cl in list(second, third)) expect_identical(cluster_map_dbl(cl, 1:3, sqrt), sqrt(1:3))
  for (cl in list(first, second, third)) stop_cluster(cl)
  unlink(file.path(there, kept), recursive = TRUE)
  expect_hosts_empty(hosts)
})
