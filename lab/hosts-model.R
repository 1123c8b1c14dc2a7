# A thousand hosts that are no hosts: session, scheduler and link process are the real ones, without R. The hosts are
# stubs on this machine, each with a real relay and TLS, whose nodes answer at once: hosts-model.c. And the seconds until
# many hosts have come, computed from one ssh to a network namespace of this machine (root only).
#
# QUICK=1: fewer hosts and tasks. The limit of descriptors of this machine decides how many nodes there are.
source("bench/_common.R")
suppressPackageStartupMessages(library(clutch))
machine()
reps <- repetitions(5L)

# ---- what one ssh takes: processor seconds here, and the time of a login and of a cold start ----
fixtures <- normalizePath("tests/testthat/fixtures")
source("tests/testthat/helper.R")
source("tests/testthat/helper-hosts.R")
ssh_figures <- function() {
  there <- why_no_hosts()
  if (is.null(there)) there <- start_hosts("alpha")
  if (is.character(there)) {
    cat("without hosts:", there, "\n")
    return(NULL)
  }
  on.exit(stop_hosts(there))
  rows <- lapply(seq_len(reps), function(r) {
    before <- proc.time()[4:5]
    login <- seconds(system(paste(there$ssh, "alpha true")))
    own <- sum(proc.time()[4:5] - before)
    fork_server_stop()
    start <- seconds(cl <- make_cluster(2))
    stop_cluster(cl)
    data.frame(own = own, login = login, start = start)
  })
  vapply(do.call(rbind, rows), stats::median, 1)
}

# ---- a thousand hosts ----
# As many nodes as this machine's limit of descriptors allows.
model_part <- function() {
  program <- tempfile("hosts-model-")
  config <- function(what) system2(file.path(R.home("bin"), "R"), c("CMD", "config", what), stdout = TRUE)
  sources <- c(Sys.glob("src/core/*/*.c"), Sys.glob("src/posix/*.c"))
  sources <- paste(sources[!grepl("/(supervisor|tasks)/", sources)], collapse = " ")
  if (system(paste(config("CC"), "-std=gnu11 -O2 -pthread -Isrc -o", program, "lab/hosts-model.c", sources,
                   "-lssl -lcrypto")) != 0L) stop("lab/hosts-model.c cannot be compiled")
  hosts <- if (quick) 100L else 1000L
  limit <- as.numeric(system("ulimit -Hn", intern = TRUE))
  if (is.na(limit)) limit <- 1e6
  most <- min(64, 2^floor(log2((limit - 200) / hosts - 2)))
  sizes <- unique(c(most / 8, most / 4, most))
  tasks <- if (quick) 20000L else 100000L
  found_by <- function(...) {
    lines <- suppressWarnings(system2(program, c(...), stdout = TRUE))
    if (!is.null(attr(lines, "status"))) stop("lab/hosts-model.c has failed, see above", call. = FALSE)
    utils::read.table(text = lines, col.names = c("what", "value"))
  }
  found <- do.call(rbind, lapply(sizes[sizes >= 1], function(n) {
    cbind(hosts = hosts, nodes = hosts * n, found_by(hosts, n, tasks))
  }))
  alone <- lapply(c(64L, 64L * hosts), function(n) {
    cbind(hosts = hosts, nodes = n, found_by("scheduler", n, "1000000"))
  })
  rbind(found, do.call(rbind, alone))
}
# Seconds until `n` hosts are there: each program ssh takes `own` seconds of one of the `cores` of who starts it, then
# there are the login and the start of R. `f`: how many each starts.
launch_model <- function(n, own, cores, wait) {
  f <- ceiling(sqrt(n))
  c("all by the session" = n * own / cores + wait, "as a tree" = 2 * (f * own / cores + wait))
}

model <- model_part()
ssh <- ssh_figures()
if (!is.null(ssh)) {
  wait <- ssh[["login"]] + max(ssh[["start"]], 0.5)
  for (n in c(64L, 256L, 1000L)) {
    t <- launch_model(n, ssh[["own"]], 8, wait)
    model <- rbind(model, data.frame(hosts = n, nodes = NA, what = names(t), value = unname(t)))
  }
}
show(model, "hosts-model")
