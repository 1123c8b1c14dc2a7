# Page faults that need no disk, which do not depend on the machine as their cost does: of a node until it is there, until
# its first answer, in its first map, in 1,000 calls, at its end; of the fork server and the session for one more node;
# system calls and wake-ups of a call. Beside it what one first touch of a page and one copied page take here.
#
#   Rscript bench/faults.R [--nodes=4]
source("bench/_common.R")
suppressPackageStartupMessages({library(parallel); library(clutch)})
machine()
if (!file.exists("/proc/self/stat")) stop("needs /proc", call. = FALSE)
reps <- repetitions(5L)
n <- as.integer(option("nodes", "4"))

faults <- function(pids) vapply(pids, of_process, 1, 10L)
parent <- function(pid) of_process(pid, 4L)
raw <- list()
note <- function(who, what, rep, value) {
  raw[[length(raw) + 1L]] <<- data.frame(who = who, what = what, rep = rep, value = value)
}

# ---- nodes ----
kinds <- list("clutch" = list(make_cluster, cluster_map), "base fork" = list(makeForkCluster, parLapply))
for (r in seq_len(reps)) for (who in names(kinds)) {
  make <- kinds[[who]][[1L]]
  map <- kinds[[who]][[2L]]
  cl <- make(n)
  pids <- if (who == "clutch") cluster_status(cl)$pid
  if (length(pids)) note(who, "there", r, stats::median(faults(pids)))
  pids <- if (length(pids)) {
    clusterCall(cl, Sys.getpid)
    pids
  } else {
    unlist(clusterCall(cl, Sys.getpid)) # base R's nodes can be asked only so
  }
  first <- faults(pids)
  note(who, "first answer", r, stats::median(first))
  map(cl, 1:100, function(i) i)
  mapped <- faults(pids)
  note(who, "first map of 100", r, stats::median(mapped - first))
  for (i in 1:1000) clusterCall(cl, Sys.getpid)
  note(who, "1,000 calls", r, stats::median(faults(pids) - mapped))
  stopCluster(cl)
  await_gone(pids)
}

# ---- the fork server and the session, for one node more: 64 nodes beside 16 ----
stop_cluster(make_cluster(64)) # what is done once
cl <- make_cluster(1)
server <- parent(cluster_status(cl)$pid)
for (r in seq_len(reps)) {
  of <- function(k) {
    before <- faults(c(server, Sys.getpid()))
    more <- make_cluster(k)
    clusterCall(more, Sys.getpid)
    stop_cluster(more)
    sum(faults(c(server, Sys.getpid())) - before)
  }
  ended <- of_process(server, 11L) # of its children that have ended
  few <- of(16L)
  note("clutch", "in all, of a node that was asked once", r, (of_process(server, 11L) - ended) / 16)
  note("clutch", "fork server and session, one more node", r, (of(64L) - few) / 48)
}
stop_cluster(cl)

# ---- a call: system calls and wake-ups (voluntary switches) of session and node together ----
switches <- function(pid) {
  x <- grep("^voluntary", readLines(file.path("/proc", pid, "status")), value = TRUE)
  as.numeric(gsub("[^0-9]", "", x))
}
# of this process and its threads; NA without strace
system_calls <- function(pids, expr) {
  if (!nzchar(Sys.which("strace"))) return(NA_real_)
  out <- tempfile()
  traced <- paste(c("-f", "-c", "-o", out, paste("-p", pids)), collapse = " ")
  tracer <- system(paste("strace", traced, "> /dev/null 2>&1 & echo $!"), intern = TRUE)
  Sys.sleep(1)
  force(expr)
  system(paste("kill -INT", tracer))
  for (i in 1:100) if (file.size(out) %in% c(NA, 0)) Sys.sleep(0.05)
  total <- grep("total$", readLines(out), value = TRUE)
  if (length(total)) as.numeric(strsplit(trimws(total), " +")[[1L]][[4L]]) else NA_real_
}
for (who in c("base PSOCK", "clutch")) {
  cl <- if (who == "clutch") make_cluster(1) else makeCluster(1)
  pids <- c(unlist(clusterCall(cl, Sys.getpid)), Sys.getpid())
  calls <- function() for (i in 1:200) clusterCall(cl, Sys.getpid)
  calls()
  for (r in seq_len(reps)) {
    before <- sum(vapply(pids, switches, 1))
    calls()
    note(who, "wake-ups of a call", r, (sum(vapply(pids, switches, 1)) - before) / 200)
  }
  note(who, "system calls of a call", 1L, system_calls(pids[[1L]], calls()) / 200)
  stopCluster(cl)
}

# ---- what a page costs here ----
source_file <- "bench/first-touch.c"
program <- tempfile()
if (nzchar(Sys.which("cc")) && system2("cc", c("-O1", source_file, "-o", program)) == 0L) {
  for (line in strsplit(system2(program, stdout = TRUE), "\t")) note("this machine", line[[1L]], 1L, as.numeric(line[[2L]]))
}
unlink(program)

raw <- do.call(rbind, raw)
keep(raw, "faults")
table <- spread(raw[!is.na(raw$value), ], c("what", "who"), "value")
show(table, "faults")
goals <- c("first answer" = 100, "first map of 100" = 150, "1,000 calls" = 60, "fork server and session, one more node" = 10)
found <- table$median[match(paste(names(goals), "clutch"), paste(table$what, table$who))]
cat(sprintf("goal: %s: %.1f (%g): %s\n", names(goals), found, goals, ifelse(found <= goals, "met", "MISSED")), sep = "")
method("faults",
  what = paste("minor page faults (field 10 of /proc/PID/stat), median of the nodes. System calls are those of the node;",
               "wake-ups are voluntary switches of node and session"),
  order = "a new cluster for each repetition", warm = "a cluster of 64 nodes before the fork server and the session are asked")
