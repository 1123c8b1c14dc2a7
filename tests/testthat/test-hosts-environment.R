# The hosts that other tests use: what they are, and that nothing of them stays.

test_that("hosts have names, addresses, process ids and folders of their own, and leave nothing", {
  links <- function() system2("ip", c("-o", "link"), stdout = TRUE)
  # those of other sessions' hosts come and go meanwhile
  others <- function() grep("^[0-9]+: clu[0-9]+@", links(), value = TRUE, invert = TRUE)
  before <- others()
  hosts <- hosts_or_skip(c("alpha", "beta"))
  on.exit(stop_hosts(hosts))
  own <- sprintf(": clu%s@", sub(".*[.]", "", hosts$net))
  expect_identical(sum(grepl(own, links())), 1L)
  ssh <- function(name, command) {
    system2("ssh", c("-F", hosts$config, name, shQuote(command)), stdout = TRUE)
  }
  for (name in hosts$names) {
    tmp <- file.path(hosts$folder, name, "tmp")
    expect_identical(ssh(name, "hostname; echo $TMPDIR"), c(name, tmp))
    expect_match(on_host(hosts, name, "ip -4 -o addr show eth0"), hosts$addresses[[name]])
    expect_lt(length(on_host(hosts, name, "ls -d /proc/[0-9]*")), 20L)
    expect_identical(processes_on(hosts, name), character())
    expect_true("sshd" %in% on_host(hosts, name, "ls /run"))
  }
  # they reach each other, and this session
  listener <- serverSocket(port <- dead_port())
  reach <- function(address, port) {
    command <- sprintf("bash -c '(exec 3<>/dev/tcp/%s/%d) 2> /dev/null && echo yes'", address, port)
    on_host(hosts, "alpha", command)
  }
  expect_identical(reach("beta", 22L), "yes")
  expect_identical(reach("session", port), "yes")
  close(listener)
  expect_true(stop_hosts(hosts))
  expect_identical(sum(grepl(own, links())), 0L)
  expect_identical(others(), before)
  expect_false(dir.exists(hosts$folder))
})

test_that("a test that is killed takes its hosts along", {
  if (!is.null(why_no_hosts())) skip(why_no_hosts())
  s <- start_script(c(
    sprintf("fixtures <- %s", deparse1(fixtures)),
    sprintf("source(%s)", deparse1(test_path("helper.R") |> normalizePath())),
    sprintf("source(%s)", deparse1(test_path("helper-hosts.R") |> normalizePath())),
    "hosts <- start_hosts('alpha')",
    "if (is.character(hosts)) writeLines(c('ready', hosts)) else cat('net=', hosts$net, '\\n',",
    "  'watcher=', hosts$watcher, '\\nready\\n', sep = '')",
    "Sys.sleep(100)"
  ))
  expect_true(said(s, "^ready"))
  if (!any(grepl("^net=", readLines(s$out)))) skip("other hosts cannot be made here")
  net <- value_of(s, "net")
  watcher <- as.integer(value_of(s, "watcher"))
  has_link <- function() any(grepl(net, system2("ip", c("-4", "-o", "addr"), stdout = TRUE)))
  expect_true(has_link())
  of_hosts <- processes_of(s)
  expect_gt(length(of_hosts), 2L)
  tools::pskill(s$pid, 9L)
  expect_true(eventually(!alive(watcher) && !has_link()))
  expect_true(ends(s))
  expect_true(eventually(!any(alive(of_hosts))))
})

test_that("`modules` are loaded by a login shell, and one that is not there is the error", {
  home <- tempfile("home-")
  dir.create(home)
  on.exit(unlink(home, recursive = TRUE))
  writeLines(c(
    "module() {",
    "  shift",
    "  for m in \"$@\"; do [ $m != R/9 ] || { echo \"no module $m\" >&2; return 1; }; done",
    "  export LOADED=\"$*\"",
    "}"
  ), file.path(home, ".bash_profile"))
  hosts <- hosts_or_skip("alpha", env = c(HOME = home))
  on.exit(stop_hosts(hosts), add = TRUE)
  ssh <- c("ssh", "-F", hosts$config)
  cl <- make_cluster(hosts("alpha", 1, modules = c("gcc", "R/4.4"), ssh = ssh))
  expect_identical(parallel::clusterCall(cl, Sys.getenv, "LOADED"), list("gcc R/4.4"))
  stop_cluster(cl)
  e <- tryCatch(make_cluster(hosts("alpha", 1, modules = "R/9", ssh = ssh)),
                clutch_start = identity)
  expect_match(conditionMessage(e), "it printed last:\n  no module R/9", fixed = TRUE)
  expect_hosts_empty(hosts)
})
