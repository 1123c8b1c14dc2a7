# Profiles of nodes on other hosts, by real ssh.

outside_checks_only()

test_that("nodes on other hosts are sampled, and one that is cut off is not waited for", {
  there <- hosts_or_skip(c("alpha", "beta"))
  on.exit(expect_true(stop_hosts(there)))
  config <- c("ssh", "-F", there$config)
  cl <- make_cluster(hosts(c("alpha", "beta"), 1, ssh = config))
  on.exit(stop_cluster(cl), add = TRUE, after = FALSE)
  spin <- function(i) {
    end <- sum(proc.time()[1:2]) + 0.3
    while (sum(proc.time()[1:2]) < end) for (k in 1:1000) sqrt(k)
  }
  p <- cluster_profile(cl, cluster_map(cl, 1:6, spin), interval = 0.005)
  expect_identical(p$nodes$host, c("localhost", "alpha", "beta"))
  expect_true(all(p$nodes$samples[-1L] > 20L))
  expect_identical(p$nodes$note, c("", "", ""))
  s <- summary(p, node = 1:2)
  expect_gt(s$total_share[s$name == ".f"], 0.9)
  left <- function() {
    unlist(parallel::clusterCall(cl, function() {
      c(list.files(tempdir(), "^clutch-profile"), if (clutch:::is_sampled()) "sampled")
    }))
  }
  expect_length(left(), 0L)
  # cut off at the end
  p <- cluster_profile(cl, {
    cluster_map(cl, 1:4, spin)
    cut_off(there, "beta")
    eventually(cluster_hosts(cl)$state[[2L]] == "cut", 60)
  })
  make_good(there, "beta")
  expect_true(p$value)
  expect_match(p$nodes$note[[3L]], "its host is cut off")
  expect_gt(p$nodes$samples[[2L]], 0L)
  expect_true(eventually(cluster_hosts(cl)$state[[2L]] == "up", 60))
  expect_length(left(), 0L)
})
