# Other hosts for tests, on this machine: see fixtures/hosts.sh. They share its files, so R and this
# package are there, too.

# Why there can be none here, or NULL.
why_no_hosts <- function() {
  if (!identical(Sys.info()[["sysname"]], "Linux")) return("other hosts are made of Linux")
  if (Sys.info()[["effective_user"]] != "root") return("other hosts are made by root")
  programs <- c("sshd", "ssh", "ssh-keygen", "ip", "nsenter", "unshare", "setpriv", "bash")
  missing <- programs[!nzchar(Sys.which(programs)) & !file.exists(file.path("/usr/sbin", programs))]
  if (length(missing)) return(paste("not installed:", paste(missing, collapse = ", ")))
  NULL
}

hosts_or_skip <- function(...) {
  outside_checks_only()
  why <- why_no_hosts()
  if (!is.null(why)) testthat::skip(why)
  hosts <- start_hosts(...)
  if (is.character(hosts)) testthat::skip(hosts)
  hosts
}

# list(names, addresses, here, config, ssh, folder, net, watcher), or why there is none.
#   here     this session's address, as the hosts know it
#   ssh      the command, with a configuration that knows the hosts and their keys
#   watcher  pid of who ends everything, at the latest when this session has ended
# `env`: variables that a login has there, for all or as a list by the host's name.
start_hosts <- function(names = c("alpha", "beta", "gamma", "delta"), env = NULL) {
  folder <- tempfile("hosts-")
  dir.create(folder, mode = "0700")
  ok <- FALSE
  on.exit(if (!ok) unlink(folder, recursive = TRUE))
  for (try in 1:5) { # somebody else may take the network that was free
    net <- free_network()
    hosts <- describe_hosts(names, net, folder)
    write_host_files(hosts, env)
    watcher <- watch_hosts(hosts)
    if (file.exists(file.path(folder, "ready"))) {
      ok <- TRUE
      return(c(hosts, watcher = watcher))
    }
  }
  log <- readLines(file.path(folder, "log"), warn = FALSE)
  paste(c("other hosts cannot be made here:", utils::tail(log, 5L)), collapse = "\n")
}

# Hosts alpha and beta for the tests of a file, made by the first that needs them:
# list(cluster, nothing_is_left, there, stop). `there()`: as of start_hosts(), or NULL. After stop()
# the next that needs them has new ones.
two_hosts_for_file <- function() {
  there <- NULL
  list(
    cluster = function(...) {
      if (is.null(there)) there <<- hosts_or_skip(c("alpha", "beta"))
      make_cluster(hosts(c("alpha", "beta"), 2, ssh = c("ssh", "-F", there$config)), ...)
    },
    nothing_is_left = function(cl) {
      stop_cluster(cl)
      expect_hosts_empty(there)
    },
    there = function() there,
    stop = function() {
      ended <- is.null(there) || stop_hosts(there)
      there <<- NULL
      ended
    }
  )
}

stop_hosts <- function(hosts) {
  tools::pskill(hosts$watcher)
  ended <- eventually(!alive(hosts$watcher))
  unlink(hosts$folder, recursive = TRUE)
  ended
}

# A part of 198.18.0.0/15, which is for tests of networks, of which no address is this machine's.
free_network <- function() {
  taken <- system2("ip", c("-4", "-o", "addr"), stdout = TRUE)
  repeat {
    # not by R's random numbers, whose state tests set
    number <- (Sys.getpid() + as.numeric(Sys.time()) * 1e4) %% 250
    net <- sprintf("198.18.%d", 1L + as.integer(number))
    if (!any(grepl(paste0(" ", net, "."), taken, fixed = TRUE))) return(net)
  }
}

describe_hosts <- function(names, net, folder) {
  addresses <- sprintf("%s.%d", net, 10L + seq_along(names))
  config <- file.path(folder, "config")
  list(names = names, addresses = structure(addresses, names = names), here = paste0(net, ".1"),
       config = config, ssh = paste("ssh -F", config), folder = folder, net = net)
}

# Keys, configurations, and the folder of each host.
write_host_files <- function(hosts, env) {
  f <- function(...) file.path(hosts$folder, ...)
  unlink(list.files(hosts$folder, full.names = TRUE), recursive = TRUE)
  for (name in c("user", hosts$names)) {
    system2("ssh-keygen", c("-q", "-t", "ed25519", "-N", "''", "-f", f(paste0(name, ".key"))))
  }
  file.copy(f("user.key.pub"), f("keys"))
  here <- Sys.info()[["nodename"]]
  writeLines(c("127.0.0.1 localhost", paste(hosts$addresses, hosts$names),
               paste(hosts$here, "session", here)), f("hosts"))
  for (name in hosts$names) {
    dir.create(f(name, "tmp"), recursive = TRUE)
    own <- if (is.list(env)) env[[name]] else env
    variables <- c(TMPDIR = f(name, "tmp"), PATH = Sys.getenv("PATH"),
                   R_LIBS = paste(.libPaths(), collapse = ":"),
                   LC_CTYPE = Sys.getlocale("LC_CTYPE"))
    variables[names(own)] <- own
    writeLines(c(
      paste("ListenAddress", hosts$addresses[[name]]), paste("HostKey", f(paste0(name, ".key"))),
      paste("AuthorizedKeysFile", f("keys")), "StrictModes no", "UsePAM no", "UseDNS no",
      "PasswordAuthentication no", "PermitRootLogin yes", "PidFile none", "PrintMotd no",
      "MaxStartups 100", "MaxSessions 100",
      paste("SetEnv", paste0(names(variables), "=\"", variables, "\"", collapse = " "))
    ), f(paste0(name, ".conf")))
  }
  public <- vapply(f(paste0(hosts$names, ".key.pub")), function(file) {
    paste(strsplit(readLines(file), " ")[[1L]][1:2], collapse = " ")
  }, "")
  writeLines(paste(hosts$addresses, public), f("known"))
  # ssh takes the first value that it finds: the end is for all hosts that are named above
  writeLines(c(
    rbind(paste("Host", hosts$names), paste("  HostName", hosts$addresses)),
    "Host *", "  User root", paste("  IdentityFile", f("user.key")), "  IdentitiesOnly yes",
    paste("  UserKnownHostsFile", f("known")), "  GlobalKnownHostsFile /dev/null",
    "  StrictHostKeyChecking yes", "  BatchMode yes", "  ConnectTimeout 10", "  LogLevel ERROR"
  ), f("config"))
}

# Starts the hosts; pid of the watcher when they are ready, or have failed.
watch_hosts <- function(hosts) {
  f <- function(name) file.path(hosts$folder, name)
  script <- c(file.path(fixtures, "hosts.sh"), "watch", hosts$folder, Sys.getpid(), hosts$net,
              hosts$names)
  # a session of its own: what ends the test's process group ends the test, and then this
  command <- sprintf("setsid bash %s > %s 2>&1 < /dev/null & echo $! > %s",
                     paste(shQuote(script), collapse = " "), shQuote(f("log")), shQuote(f("pid")))
  system(command)
  pid <- as.integer(readLines(f("pid")))
  eventually(file.exists(f("ready")) || !alive(pid), 30)
  pid
}

host_pid <- function(hosts, name) {
  as.integer(readLines(file.path(hosts$folder, paste0(name, ".pid"))))
}

# Runs a line of shell on a host, without ssh: its output. `name`: "bridge" is what joins them.
on_host <- function(hosts, name, command) {
  args <- c("-t", host_pid(hosts, name), "-n", "-u", "-m", "-p", "sh", "-c", shQuote(command))
  suppressWarnings(system2("nsenter", args, stdout = TRUE, stderr = TRUE))
}

# What runs on a host besides its daemon and what that has for each login.
processes_on <- function(hosts, name) {
  lines <- on_host(hosts, name, "ps -e -o pid= -o args=")
  grep("sshd|hosts\\.sh|ps -e -o|\\[.*\\]$", lines, value = TRUE, invert = TRUE)
}

files_on <- function(hosts, name) list.files(file.path(hosts$folder, name, "tmp"))

# How many logins there were from this session, and from other hosts.
logins <- function(hosts) {
  lines <- unlist(lapply(hosts$names, function(name) {
    readLines(file.path(hosts$folder, paste0(name, ".log")))
  }))
  from <- sub(".* from ([0-9.]+) .*", "\\1", grep("Accepted publickey", lines, value = TRUE))
  c(here = sum(from == hosts$here), there = sum(from != hosts$here))
}

# All that runs or lies there, each with the host's name before it.
left_on <- function(hosts, names = hosts$names) {
  as.character(unlist(lapply(names, function(name) {
    left <- c(processes_on(hosts, name), files_on(hosts, name),
              on_host(hosts, name, "ls -A /dev/shm"))
    if (length(left)) paste0(name, ": ", left)
  })))
}

# Within so many seconds nothing is left; else the failure names what is.
expect_hosts_empty <- function(hosts, names = hosts$names, seconds = 20) {
  left <- "not looked"
  eventually({
    left <- left_on(hosts, names)
    !length(left)
  }, seconds)
  testthat::expect_identical(left, character())
  if (length(left)) { # the next test is not to be blamed for it
    unlink(file.path(hosts$folder, names, "tmp", "*"), recursive = TRUE)
  }
}

# A session of its own with a cluster of two nodes on each host, all of which are busy for good.
busy_session <- function(hosts, options = "") {
  begun <- tempfile("begun-")
  dir.create(begun)
  on.exit(unlink(begun, recursive = TRUE))
  s <- start_script(c(
    sprintf("options(%s)", options),
    sprintf("cl <- make_cluster(hosts(%s, 2, ssh = c('ssh', '-F', '%s')))", deparse1(hosts$names),
            hosts$config),
    "cluster_map(cl, seq_along(cl), function(i, folder) {",
    "  file.create(file.path(folder, i))", "  repeat NULL",
    sprintf("}, folder = '%s', .chunk = 1)", begun)
  ))
  testthat::expect_true(eventually(length(list.files(begun)) == 2L * length(hosts$names), 60),
                        info = paste(readLines(s$out, warn = FALSE), collapse = "\n"))
  for (name in hosts$names) testthat::expect_gt(length(processes_on(hosts, name)), 2L)
  s
}

has_packet_filter <- function() nzchar(Sys.which("nft")) || file.exists("/usr/sbin/nft")

# Shell commands that cut a host off, and that make it good again. `how`: "packets": all to it and
# from it are dropped; "link": as when its cable is out; "all": that of all hosts is.
cut_commands <- function(hosts, name, how) {
  bridge <- as.integer(readLines(file.path(hosts$folder, "bridge.pid")))
  if (how == "packets") {
    on <- c("add table ip cut",
            "add chain ip cut in { type filter hook input priority 0; }",
            "add chain ip cut out { type filter hook output priority 0; }",
            "add rule ip cut in iifname eth0 drop", "add rule ip cut out oifname eth0 drop")
    nft <- sprintf("nsenter -t %d -n nft ", host_pid(hosts, name))
    return(paste0(nft, shQuote(c(paste(on, collapse = "; "), "delete table ip cut"))))
  }
  link <- if (how == "all") "outside" else paste0("to-", name)
  sprintf("nsenter -t %d -n ip link set %s %s", bridge, link, c("down", "up"))
}

cut_off <- function(hosts, name, how = "link") {
  testthat::expect_identical(system(cut_commands(hosts, name, how)[[1L]]), 0L)
}
make_good <- function(hosts, name, how = "link") {
  testthat::expect_identical(system(cut_commands(hosts, name, how)[[2L]]), 0L)
}

# One cut after the other, in the background: `cuts` is a data frame with columns pause (seconds
# before it), host, how and seconds. list(done, log, stop): the file `done` is there at the end;
# `log` has a line for each cut; stop() ends it, TRUE when all is good again.
start_cuts <- function(hosts, cuts) {
  f <- tempfile(c("cuts-script-", "cuts-log-", "cuts-done-", "cuts-wanted-"))
  file.create(f[c(2L, 4L)])
  steps <- vapply(seq_len(nrow(cuts)), function(k) {
    x <- cuts[k, ]
    run <- cut_commands(hosts, x$host, x$how)
    sprintf("sleep %.3f; [ -e %s ] || exit\n%s && sleep %.3f; %s && echo %d >> %s",
            x$pause, f[[4L]], run[[1L]], x$seconds, run[[2L]], k, f[[2L]])
  }, "")
  writeLines(c(sprintf("trap 'touch %s' EXIT", f[[3L]]), steps), f[[1L]])
  system(sprintf("bash %s > %s.said 2>&1 &", f[[1L]], f[[1L]]))
  list(done = f[[3L]], log = f[[2L]], stop = function() {
    unlink(f[[4L]])
    ended <- eventually(file.exists(f[[3L]]), max(cuts$seconds + cuts$pause) + 20)
    said <- readLines(paste0(f[[1L]], ".said"), warn = FALSE)
    if (length(said)) warning("the cuts: ", paste(said, collapse = "\n"))
    ended
  })
}

# From now on a host connects to nobody, but others may connect to it, as behind many firewalls.
no_dial_back <- function(hosts, name) {
  testthat::skip_if_not(has_packet_filter(), "not installed: nft")
  rules <- c("add table ip t", "add chain ip t out { type filter hook output priority 0; }",
             "add rule ip t out oifname eth0 tcp flags & (syn|ack) == syn drop")
  said <- on_host(hosts, name, paste("nft", shQuote(rules), collapse = " && "))
  testthat::skip_if(length(said) > 0L, paste("no packet filter:", said[1L]))
}
