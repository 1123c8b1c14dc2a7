# A cluster's start over a network that loses packets on purpose: each test runs an R of its own in
# a network namespace of its own, whose packet filter drops what the test says.

outside_checks_only()

# Without root that needs a user namespace, too, which is not to be had in a chroot
own_network <- if (Sys.info()[["effective_user"]] == "root") "unshare -n" else "unshare -Urn"

can_filter <- local({
  known <- NULL
  filter <- "ip link set lo up && iptables -I INPUT -p tcp --dport 5 -j DROP"
  try_filter <- paste(own_network, "sh -c", shQuote(filter), "> /dev/null 2>&1")
  function() {
    if (is.null(known)) known <<- nzchar(Sys.which("unshare")) && nzchar(Sys.which("iptables")) &&
      identical(suppressWarnings(system(try_filter, timeout = 20)), 0L)
    known
  }
})

# What the code, run in such a namespace, prints with cat(): character. `drop()` and `heal()` are
# there for it.
in_namespace <- function(code, timeout = 90) {
  script <- tempfile(fileext = ".R")
  on.exit(unlink(script))
  writeLines(c(sprintf(".libPaths(%s); suppressPackageStartupMessages(library(clutch))",
                       deparse1(.libPaths())),
    fixture_lines("packet-filter"), code), script)
  out <- tempfile()
  on.exit(unlink(out), add = TRUE)
  status <-
    suppressWarnings(system(sprintf("%s sh -c 'ip link set lo up; exec %s --vanilla %s' > %s 2>&1",
                                    own_network, file.path(
    R.home("bin"), "Rscript"
  ),
                                            script, out), timeout = timeout))
  c(readLines(out, warn = FALSE), paste("status", status))
}

then_works <-
  c("stopifnot(identical(unlist(parallel::clusterCall(cl, function() 7)), rep(7, length(cl))))",
"stop_cluster(cl); rm(cl); invisible(gc())", "cat('complete', children(), '\\n')")

test_that("connections of which only the nodes know are given up and made anew", {
  linux_only()
  skip_if_not(can_filter(), "no packet filter in a namespace of our own")
  # what has data or acknowledges is lost: connect() succeeds and the master hears nothing of it
  out <- in_namespace(c("rule('I', '--dport 23456 --tcp-flags SYN NONE')",
                        "later(2, 'D', '--dport 23456 --tcp-flags SYN NONE')",
                        "cl <- make_cluster(4, 'parallel', port = port, setup_timeout = 60)",
                        then_works))
  expect_true("complete 0 " %in% out, label = paste(out, collapse = "\n"))
})

test_that("a network that lets nothing through, or nothing back, and then does", {
  linux_only()
  skip_if_not(can_filter(), "no packet filter in a namespace of our own")
  for (what in c("--dport 23456", "--sport 23456")) {
    out <- in_namespace(c(sprintf("rule('I', '%s')", what), sprintf("later(1.5, 'D', '%s')", what),
                          "cl <- make_cluster(3, 'parallel', port = port, setup_timeout = 60)",
                          then_works))
    expect_true("complete 0 " %in% out, label = paste(out, collapse = "\n"))
  }
})

test_that("a black-out in the middle of the start is survived", {
  linux_only()
  skip_if_not(can_filter(), "no packet filter in a namespace of our own")
  out <- in_namespace(c("later(0.15, 'I', '--dport 23456'); later(1.2, 'D', '--dport 23456')",
                        "cl <- make_cluster(6, 'parallel', port = port, setup_timeout = 60)",
                        then_works))
  expect_true("complete 0 " %in% out, label = paste(out, collapse = "\n"))
})

test_that("what stays lost is an error in time that names the nodes, and leaves nothing", {
  linux_only()
  skip_if_not(can_filter(), "no packet filter in a namespace of our own")
  for (what in c("--dport 23456 --tcp-flags SYN NONE", "--sport 23456")) {
    out <- in_namespace(c(sprintf("what <- '%s'", what), fixture_lines("filtered-start")))
    expect_true("clutch_start TRUE TRUE " %in% out, label = paste(out, collapse = "\n"))
    expect_true("left 0 0 0 " %in% out, label = paste(out, collapse = "\n"))
    late <- "2 of 2 nodes did not arrive within 4 seconds.*node 1 on localhost.*node 2 on localhost"
    expect_match(paste(out, collapse = "\n"), late)
  }
})

test_that("without IPv6 an address of it is an error that says so, and IPv4 goes on", {
  linux_only()
  skip_if_not(can_filter(), "no network namespace of our own")
  out <- in_namespace(c(
    "system('ip -6 addr flush dev lo')",
    "for (master in c('::1', '2001:db8::7')) {",
    "  e <- tryCatch(make_cluster(1, 'parallel', master = master), error = identity)",
    "  cat(class(e)[[1L]], conditionMessage(e), '\\n')",
    "}",
    "spec <- list(list(host = 'localhost', master = '127.0.0.2'), 'localhost')",
    "cl <- make_cluster(spec, 'parallel')", then_works
  ))
  text <- paste(out, collapse = "\n")
  why <- "clutch_start the nodes .* connect to '%s' \\(`master`\\), but this machine has no IPv6"
  expect_match(text, sprintf(why, "::1"))
  expect_match(text, sprintf(why, "2001:db8::7"))
  expect_true("complete 0 " %in% out, label = text)
})
