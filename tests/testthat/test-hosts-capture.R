# What others could read of the traffic to another host: a packet capture of it.

outside_checks_only()

# What tcpdump sees on this side of the hosts' network while `code` is evaluated: raw.
captured <- function(hosts, code) {
  file <- tempfile("capture-")
  log <- tempfile("tcpdump-")
  on.exit(unlink(c(file, log)))
  link <- paste0("clu", sub(".*[.]", "", hosts$net))
  command <- sprintf("tcpdump -i %s -B 65536 -s 0 -U -Z root -w %s tcp", link, file)
  command <- sprintf("%s > /dev/null 2> %s & echo $!", command, log)
  pid <- as.integer(system(command, intern = TRUE))
  on.exit(tools::pskill(pid, 9L), add = TRUE)
  said <- function(text) any(grepl(text, readLines(log, warn = FALSE)))
  skip_if_not(eventually(said("listening on") || !alive(pid)) && alive(pid),
              paste("tcpdump cannot capture:", paste(readLines(log, warn = FALSE), collapse = " ")))
  force(code)
  Sys.sleep(0.2) # packets reach tcpdump a little later than their receiver
  tools::pskill(pid, 2L)
  expect_true(eventually(!alive(pid)))
  expect_true(said("packets captured"))
  expect_false(said("[1-9][0-9]* packets dropped by kernel"))
  readBin(file, "raw", file.size(file))
}

# Neither text is in the code or in the other: it is made where it is used.
argument <- function(i) paste(rep(sprintf("argument%05d", 70000L + i), 50), collapse = "-")
answer <- function(x) paste0("answer", chartr("0123456789", "abcdefghij", substr(x, 9, 13)))

map_on <- function(hosts, tls) {
  ssh <- c("ssh", "-F", hosts$config)
  cl <- suppressMessages(make_cluster(hosts("alpha", 2, tls = tls, ssh = ssh)))
  on.exit(stop_cluster(cl))
  x <- vapply(1:20, argument, "")
  large <- rep(utf8ToInt("vector of 1,600,000 bytes"), 16000L)
  expect_identical(cluster_map_chr(cl, x, answer), vapply(x, answer, "", USE.NAMES = FALSE))
  expect_identical(parallel::clusterCall(cl, answer, x[[20]]), rep(list(answer(x[[20]])), 2))
  expect_identical(cluster_map_dbl(cl, 1:4, function(i, v) sum(v) + i, v = large),
                   sum(large) + as.numeric(1:4))
}

test_that("a capture of a map's traffic has none of its texts, and all of them without TLS", {
  skip_if_not(nzchar(Sys.which("tcpdump")), "not installed: tcpdump")
  hosts <- hosts_or_skip("alpha")
  on.exit(stop_hosts(hosts))
  texts <- list(argument = "argument70001-argument70001", answer = "answerhaaab",
                function_ = "chartr", large = writeBin(utf8ToInt("vector of 1,600"), raw()))
  bytes_of <- function(text) if (is.raw(text)) text else charToRaw(text)
  holds <- function(capture) {
    vapply(texts, function(text) length(grepRaw(bytes_of(text), capture, fixed = TRUE)) > 0L, NA)
  }
  plain <- captured(hosts, map_on(hosts, FALSE))
  expect_true(all(holds(plain)), label = paste(names(texts)[!holds(plain)], collapse = ", "))
  encrypted <- captured(hosts, map_on(hosts, TRUE))
  expect_gt(length(encrypted), length(plain) / 2) # it has seen the connection
  found <- names(texts)[holds(encrypted)]
  expect_identical(found, character())
})
