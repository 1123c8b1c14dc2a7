# Hosts and a session that reach each other by IPv6 only.

outside_checks_only()

# Besides its IPv4 address each host gets one of IPv6, at which another ssh daemon listens; then
# those in `only` lose the first. The addresses, by the host's name; "here" is this session's.
with_ipv6 <- function(hosts, only = hosts$names) {
  net <- sprintf("fd00:%s", gsub(".", ":", hosts$net, fixed = TRUE))
  addresses <- sprintf("%s::%d", net, c(1L, 10L + seq_along(hosts$names)))
  names(addresses) <- c("here", hosts$names)
  link <- paste0("clu", sub(".*[.]", "", hosts$net))
  add <- "ip -6 addr add %s/64 dev %s nodad"
  said <- suppressWarnings(system2("sh", c("-c", shQuote(sprintf(add, addresses[["here"]], link))),
                                   stdout = TRUE, stderr = TRUE))
  if (length(said)) testthat::skip(paste("no IPv6 here:", said[1L]))
  keys <- readLines(file.path(hosts$folder, "known"))
  for (k in seq_along(hosts$names)) {
    name <- hosts$names[[k]]
    at <- addresses[[name]]
    said <- on_host(hosts, name, sprintf(add, at, "eth0"))
    testthat::expect_identical(as.character(said), character())
    f <- file.path(hosts$folder, paste0(name, c(".conf", "-6.conf", ".log")))
    writeLines(sub("^ListenAddress .*", paste("ListenAddress", at), readLines(f[[1L]])), f[[2L]])
    daemon <- "env -i PATH=$PATH $(PATH=$PATH:/usr/sbin command -v sshd) -f %s -E %s"
    on_host(hosts, name, sprintf(daemon, f[[2L]], f[[3L]]))
    cat(sub("^[^ ]+", at, keys[[k]]), "\n", file = file.path(hosts$folder, "known"), append = TRUE)
    cat(sprintf("Host %s6\n  HostName %s\n", name, at), file = hosts$config, append = TRUE)
    if (name %in% only) on_host(hosts, name, "ip -4 addr flush dev eth0")
  }
  addresses
}

test_that("hosts with IPv6 only are reached, and reach the session, without a tunnel", {
  hosts <- hosts_or_skip(c("alpha", "beta"))
  on.exit(stop_hosts(hosts))
  addresses <- with_ipv6(hosts, "alpha")
  ssh <- c("ssh", "-F", hosts$config)
  # one by its address, one by a name; beta has both
  cl <- make_cluster(hosts(c(addresses[["alpha"]], "beta6", "beta"), 1, ssh = ssh, tunnel = FALSE))
  on.exit(stop_cluster(cl), add = TRUE, after = FALSE)
  where <- vapply(parallel::clusterCall(cl, Sys.info), `[[`, "", "nodename")
  expect_identical(where, c("alpha", "beta", "beta"))
  expect_identical(cluster_map_dbl(cl, 1:50, function(i) i^2), (1:50)^2)
  expect_identical(cluster_hosts(cl)$state, rep("up", 3L))
  # a cut is survived as over IPv4
  cut_off(hosts, "alpha")
  Sys.sleep(0.2)
  make_good(hosts, "alpha")
  expect_identical(cluster_map_dbl(cl, 1:50, function(i) i^2), (1:50)^2)
  stop_cluster(cl)
  on.exit(stop_hosts(hosts))
  expect_hosts_empty(hosts)
})

test_that("`address` may be one of IPv6", {
  hosts <- hosts_or_skip("alpha")
  on.exit(stop_hosts(hosts))
  addresses <- with_ipv6(hosts)
  cl <- make_cluster(hosts("alpha6", 2, ssh = c("ssh", "-F", hosts$config), tunnel = FALSE,
                           address = addresses[["here"]]))
  on.exit(stop_cluster(cl), add = TRUE, after = FALSE)
  expect_identical(cluster_map_dbl(cl, 1:50, function(i) i^2), (1:50)^2)
  stop_cluster(cl)
  on.exit(stop_hosts(hosts))
  expect_hosts_empty(hosts)
})

test_that("nodes that rshcmd starts connect by IPv6, others of the cluster by IPv4", {
  hosts <- hosts_or_skip(c("alpha", "beta"))
  on.exit(stop_hosts(hosts))
  addresses <- with_ipv6(hosts, "alpha")
  nodes <- list(list(host = addresses[["alpha"]], master = addresses[["here"]]),
                list(host = "beta", master = hosts$here))
  cl <- suppressMessages(make_cluster(nodes, rshcmd = hosts$ssh, tls = FALSE))
  on.exit(stop_cluster(cl), add = TRUE, after = FALSE)
  where <- vapply(parallel::clusterCall(cl, Sys.info), `[[`, "", "nodename")
  expect_identical(where, c("alpha", "beta"))
  expect_identical(cluster_map_dbl(cl, 1:50, function(i) i^2), (1:50)^2)
  stop_cluster(cl)
  on.exit(stop_hosts(hosts))
  expect_hosts_empty(hosts)
})
