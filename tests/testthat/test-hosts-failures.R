# What does not work on other hosts: each is said with the host, what was run there, what that has
# printed, and what to try; and soon. The host that is not there, R or this package that is missing,
# and a firewall are in test-hosts.R.

outside_checks_only()

hosts_there <- NULL # made by the first test that needs them, ended by the last one
needs_hosts <- function() if (is.null(hosts_there)) hosts_there <<- hosts_or_skip("alpha")
on_alpha <- function(..., config = hosts_there$config) {
  hosts("alpha", 2, ssh = c("ssh", "-F", config), ...)
}
in_folder <- function(...) file.path(hosts_there$folder, ...)

# The error's text. All of them name the host and the command.
failed_start <- function(..., setup_timeout = 30) {
  needs_hosts()
  began <- proc.time()[[3L]]
  e <- tryCatch(make_cluster(..., setup_timeout = setup_timeout), clutch_start = identity)
  expect_s3_class(e, "clutch_start")
  expect_lt(proc.time()[[3L]] - began, setup_timeout + 10)
  expect_identical(e$hosts, "alpha")
  text <- conditionMessage(e)
  expect_match(text, "1 of 1 hosts .*; nothing was left running")
  expect_match(text, "what was run for alpha: ssh -F [^ ]+ .*-T .*alpha ")
  text
}
# The test's configuration of ssh with one line changed.
other_config <- function(pattern, line) {
  needs_hosts()
  file <- tempfile("config-", hosts_there$folder)
  writeLines(sub(pattern, line, readLines(hosts_there$config)), file)
  file
}
# A small disk on the host, for temporary files.
small_disk <- function(name) {
  folder <- in_folder("alpha", name)
  dir.create(folder)
  said <- on_host(hosts_there, "alpha", paste("mount -t tmpfs -o size=64k tmpfs", folder))
  if (length(said)) skip(paste("no small disk:", said[1L]))
  folder
}
# Nothing runs there any more but what this test left.
nobody_there <- function() eventually(!length(processes_on(hosts_there, "alpha")), 30)

test_that("a key that the host does not know, and a host whose key is not known", {
  needs_hosts()
  system2("ssh-keygen", c("-q", "-t", "ed25519", "-N", "''", "-f", in_folder("other.key")))
  text <- failed_start(on_alpha(config = other_config("user\\.key", "other.key")))
  expect_match(text, "alpha: it ended with exit status 255.*Permission denied \\(publickey")
  expect_match(text, "try: .*has to work without a password")
  config <- other_config("UserKnownHostsFile .*", "UserKnownHostsFile /dev/null")
  text <- failed_start(on_alpha(config = config))
  expect_match(text, "Host key verification failed.*try: log in once with `ssh -F [^ ]+ alpha`")
})

test_that("another version of this package there, older or newer", {
  needs_hosts()
  dir.create(in_folder("old"))
  install_made_package("clutch", "x <- 1", in_folder("old"))
  text <- failed_start(on_alpha(env = c(R_LIBS = in_folder("old"))))
  expect_match(text, "object .host_main. not found.*try: install the same version of package")
  for (line in c("clutch host settings 99", "protocol 99")) {
    first <- paste0("^", sub("[0-9]+$", "", line), ".*")
    wrapper <- in_folder("newer")
    writeLines(c("#!/bin/sh", sprintf("sed 's/%s/%s/' | Rscript \"$@\"", first, line)), wrapper)
    Sys.chmod(wrapper, "755")
    text <- failed_start(on_alpha(rscript = wrapper))
    expect_match(text, "clutch.* version [0-9.]+, and does not understand that of the session")
    expect_match(text, "try: install the same version")
  }
  expect_true(nobody_there())
})

test_that("no room for temporary files there, at the start and later", {
  needs_hosts()
  folder <- small_disk("full")
  on_host(hosts_there, "alpha", sprintf("head -c 100000 /dev/zero > %s/x 2> /dev/null", folder))
  text <- failed_start(on_alpha(env = c(TMPDIR = folder)))
  expect_match(text, "try: .*is there room for temporary files on alpha\\?")
  on_host(hosts_there, "alpha", paste0("rm ", folder, "/x"))
  cl <- make_cluster(on_alpha(env = c(TMPDIR = folder)))
  on.exit(stop_cluster(cl))
  write_much <- function(i) writeLines(strrep("x", 1e6), tempfile())
  e <- tryCatch(cluster_map(cl, 1, write_much), clutch_task_error = identity)
  expect_match(conditionMessage(e), "\\(alpha\\) failed .*No space left on device")
  e <- tryCatch(cluster_map(cl, 1, function(i) saveRDS(runif(1e5), tempfile())),
                clutch_task_error = identity)
  expect_match(conditionMessage(e), "\\(alpha\\) failed.*error writing.*The disk may be full there")
  # a node that comes now cannot have a folder of its own
  expect_warning(cluster_map(cl, 1:20, function(i) if (i == 1) quit("no") else i, .retries = 1,
                             .on_error = "continue"), "1 of 20 elements failed",
                 class = "clutch_failed")
  expect_true(works(cl[1]) || works(cl[2]))
})

test_that("no memory there, at the start and later", {
  text <- failed_start(on_alpha(setup = "ulimit -v 20000"))
  expect_match(text, "alpha: it ended with exit status 127.*failed to map segment")
  expect_match(text, "try: is there memory left on alpha")
  cl <- make_cluster(on_alpha(setup = "ulimit -v 2000000"))
  on.exit(stop_cluster(cl))
  e <- tryCatch(cluster_map(cl, 1, function(i) length(numeric(1e9))), clutch_task_error = identity)
  expect_match(conditionMessage(e), "\\(alpha\\) failed.*cannot allocate vector of size 7.5 Gb")
  expect_true(works(cl))
})

test_that("options of no use are told before anything is started", {
  needs_hosts()
  for (option in c("clutch.heartbeat", "clutch.reconnect")) {
    old <- options(structure(list("often"), names = option))
    e <- tryCatch(make_cluster(on_alpha()), clutch_argument = conditionMessage)
    options(old)
    expect_match(e, paste0("option '", option, "' has to be a number"), fixed = TRUE)
    expect_true(nobody_there())
  }
})

test_that("the process for the link cannot be started here: the reason, and nothing is left", {
  needs_hosts()
  for (before in c("", "sleep 1; ")) { # at once, and while ssh runs
    began <- logins(hosts_there)[["here"]]
    s <- start_script(c(
      "original <- clutch:::server_command",
      "assignInNamespace('server_command', function(...) {",
      "  how <- original(...)",
      sprintf("  how$argv <- c('/bin/sh', '-c', '%secho no luck >&2; exit 3')", before),
      "  how",
      "}, 'clutch')",
      # R there takes longer to begin than the failure
      sprintf("x <- hosts('alpha', 2, ssh = c('ssh', '-F', '%s'), setup = 'sleep 2')",
              hosts_there$config),
      "e <- tryCatch(make_cluster(x), clutch_start = identity)",
      "cat(conditionMessage(e), '\\nready\\n')", "Sys.sleep(100)"
    ))
    on.exit(tools::pskill(s$pid, 9L))
    expect_true(said(s, "^ready"), info = paste(lines_of(s), collapse = "\n"))
    expect_match(paste(lines_of(s), collapse = "\n"), "exit status 3.*no luck")
    if (nzchar(before)) expect_gt(logins(hosts_there)[["here"]], began)
    # the session goes on, and what ssh has started ends nevertheless
    expect_true(eventually(identical(processes_of(s), s$pid), 10))
    expect_hosts_empty(hosts_there)
    tools::pskill(s$pid, 9L)
  }
})

test_that("something before R that reads the settings; an R that does not begin", {
  text <- failed_start(on_alpha(setup = "cat > /dev/null"))
  expect_match(text, "settings of this host were expected.*try: what runs there before R")
  # not in the user's own folder: where that has a .RData, R is ended in another way
  writeLines(c("setwd(Sys.getenv('TMPDIR'))", "Sys.sleep(8)"), in_folder("slow-profile"))
  slow <- on_alpha(env = c(R_PROFILE_USER = in_folder("slow-profile")))
  text <- failed_start(slow, setup_timeout = 3)
  expect_match(text, "did not come within setup_timeout.*alpha: it has not connected.*try: ")
  # what it was to do it never hears
  expect_true(nobody_there())
})

# A profile that does not end, with a program that it has started; not in the user's own folder, as
# above.
endless_profile <- function() {
  needs_hosts()
  file <- in_folder("endless-profile")
  writeLines(c("setwd(Sys.getenv('TMPDIR'))", "system('sleep 1000 &')", "repeat Sys.sleep(1)"),
             file)
  c(R_PROFILE_USER = file)
}
endless_there <- function() {
  any(grepl("^ *[0-9]+ sleep 1000", processes_on(hosts_there, "alpha")))
}

test_that("an R whose profile does not end is ended where the start fails", {
  text <- failed_start(on_alpha(env = endless_profile()), setup_timeout = 4)
  expect_match(text, "did not come within setup_timeout.*alpha: it has not connected.*try: ")
  expect_hosts_empty(hosts_there)
})

test_that("an R that is ended before it knows the signal for that leaves no folder", {
  needs_hosts()
  skip_if_not(file.exists("/proc/self/status"))
  r <- in_folder("R")
  writeLines(c(
    "#!/bin/sh", "exec 2>/dev/null", "cd \"$TMPDIR\"",
    "d=$(mktemp -d \"$TMPDIR/RtmpXXXXXX\")", "sleep 4",
    "trap 'rm -r \"$d\"; exit 2' USR2", "while :; do sleep 0.1; done"
  ), r)
  Sys.chmod(r, "755")
  text <- failed_start(on_alpha(rscript = r), setup_timeout = 2)
  expect_match(text, "did not come within setup_timeout")
  expect_hosts_empty(hosts_there)
})

test_that("an R whose profile does not end is ended with the session", {
  env <- endless_profile()
  s <- start_script(c(
    sprintf("x <- hosts('alpha', 2, ssh = c('ssh', '-F', '%s'), env = %s)", hosts_there$config,
            deparse1(env)),
    "make_cluster(x, setup_timeout = 300)"
  ))
  expect_true(eventually(endless_there(), 60))
  tools::pskill(s$pid, 9L)
  expect_hosts_empty(hosts_there)
})

test_that("the hosts end", {
  if (is.null(hosts_there)) skip("there were none")
  expect_true(stop_hosts(hosts_there))
})
