# Nodes behind a real ssh: a daemon of our own, on a free port of the loopback, with its own keys.

# list(config, stop()), or NULL where there is no sshd.
own_sshd <- function() {
  sshd <- Sys.which("sshd")
  if (!nzchar(sshd) && file.exists("/usr/sbin/sshd")) sshd <- "/usr/sbin/sshd"
  if (!nzchar(sshd) || !nzchar(Sys.which("ssh")) || !nzchar(Sys.which("ssh-keygen"))) return(NULL)
  dir <- tempfile("ssh-")
  dir.create(dir, mode = "0700")
  f <- function(name) file.path(dir, name)
  for (k in c("host", "user")) system2("ssh-keygen", c("-q", "-t", "ed25519", "-N", "''", "-f", f(k)))
  file.copy(f("user.pub"), f("keys"))
  Sys.chmod(f("keys"), "0600")
  if (Sys.info()[["effective_user"]] == "root") dir.create("/run/sshd", showWarnings = FALSE)
  pid <- NA_integer_
  for (k in 1:5) { # somebody else may take the port that was free
    port <- dead_port()
    writeLines(c(sprintf("Port %d", port), "ListenAddress 127.0.0.1", paste("HostKey", f("host")), paste("AuthorizedKeysFile", f("keys")),
                 "StrictModes no", "UsePAM no", "PasswordAuthentication no", paste("PidFile", f("pid"))), f("sshd_config"))
    system2(sshd, c("-f", f("sshd_config"), "-E", f("log")))
    # the file is there before its text is
    written <- function() if (file.exists(f("pid"))) as.integer(readLines(f("pid"), warn = FALSE)) else integer()
    if (eventually(length(written()) == 1L && service_probe("127.0.0.1", port)[[1L]], 5)) {
      pid <- written()
      break
    }
  }
  if (is.na(pid)) return(NULL)
  writeLines(c("Host far*", "HostName 127.0.0.1", sprintf("Port %d", port), paste("IdentityFile", f("user")), "IdentitiesOnly yes",
               "StrictHostKeyChecking no", "UserKnownHostsFile /dev/null", "LogLevel ERROR", "BatchMode yes",
               paste("User", Sys.info()[["effective_user"]])), f("config"))
  ok <- suppressWarnings(system2("ssh", c("-F", f("config"), "far1", "true"), stdout = FALSE, stderr = FALSE, timeout = 20)) == 0L
  stop <- function() {
    tools::pskill(pid)
    unlink(dir, recursive = TRUE)
  }
  if (!ok) {
    stop()
    return(NULL)
  }
  list(config = f("config"), stop = stop)
}

test_that("nodes behind ssh arrive, compute, and end with the cluster", {
  linux_only()
  s <- own_sshd()
  if (is.null(s)) skip("no sshd can be run here")
  on.exit(s$stop())
  ssh <- paste("ssh -F", s$config)
  cl <- make_cluster(c("far1", "far2", "localhost"), master = "127.0.0.1", rshcmd = ssh)
  expect_identical(vapply(cl, function(nd) nd$host, ""), c("far1", "far2", "localhost"))
  expect_identical(parallel::parSapply(cl, 1:6, function(i) i^2), (1:6)^2)
  p <- unlist(parallel::clusterCall(cl, Sys.getpid))
  expect_true(all(alive(p)))
  # the secret came on standard input: neither command line nor environment has it
  for (file in c("cmdline", "environ")) {
    bytes <- readBin(file.path("/proc", p[[1L]], file), "raw", 1e6)
    expect_false(any(grepl("[0-9a-f]{64}", strsplit(rawToChar(bytes[bytes != 0]), "\n")[[1L]])))
  }
  expect_true(nzchar(unlist(parallel::clusterCall(cl[1L], Sys.getenv, "SSH_CONNECTION"))))
  stop_cluster(cl)
  expect_true(eventually(!any(alive(p))))
})

test_that("a node behind ssh that is killed is an error at once, and a killed session takes it along", {
  linux_only()
  s <- own_sshd()
  if (is.null(s)) skip("no sshd can be run here")
  on.exit(s$stop())
  ssh <- paste("ssh -F", s$config)
  cl <- make_cluster("far1", master = "127.0.0.1", rshcmd = ssh)
  p <- unlist(parallel::clusterCall(cl, Sys.getpid))
  tools::pskill(p, 9L)
  expect_error(parallel::clusterCall(cl, Sys.sleep, 20), class = "clutch_node_died")
  stop_cluster(cl)
  script <- start_script(c(sprintf("cl <- make_cluster('far1', master = '127.0.0.1', rshcmd = %s)", deparse1(ssh)),
                           "cat('node=', unlist(parallel::clusterCall(cl, Sys.getpid)), '\\n', sep = '')", "cat('ready\\n')", "Sys.sleep(100)"))
  expect_true(said(script, "^ready"))
  node <- as.integer(value_of(script, "node"))
  expect_true(alive(node))
  tools::pskill(script$pid, 9L)
  expect_true(eventually(!alive(node)))
})

test_that("a host that ssh does not reach is an error that says so", {
  linux_only()
  s <- own_sshd()
  if (is.null(s)) skip("no sshd can be run here")
  on.exit(s$stop())
  e <- tryCatch(make_cluster("nosuchalias.invalid", master = "127.0.0.1", rshcmd = paste("ssh -F", s$config), setup_timeout = 30), error = identity)
  expect_s3_class(e, "clutch_start")
  expect_match(conditionMessage(e), "node 1 on nosuchalias.invalid.*exit status 255")
})
