# A node dies: how soon the caller knows, what a replacement costs; the session dies: how soon its busy nodes are gone.
# QUICK=1: fewer.
source("bench/_common.R")
suppressPackageStartupMessages({library(parallel); library(clutch)})
machine()
reps <- repetitions(5L, 3L)
with_mirai <- has("mirai")
die <- function(...) tools::pskill(Sys.getpid(), 9L)
environment(die) <- globalenv()
# tools, which pskill() is in, is there before: to load it takes longer than to die
pids_of <- function(cl) { clusterCall(cl, function() { loadNamespace("tools"); NULL }); unlist(clusterCall(cl, Sys.getpid)) }
two_daemons <- function() { mirai::daemons(2); unlist(mirai::collect_mirai(mirai::everywhere({ loadNamespace("tools"); Sys.getpid() }, .min = 2L))) }

# ---- how soon the caller knows: a call that kills its node, until the error is there ----
knows <- list(
  base = function() {
    cl <- makeCluster(2)
    on.exit(try(suppressWarnings(stopCluster(cl)), silent = TRUE))
    pids_of(cl)
    us(tryCatch(clusterCall(cl[1L], die), error = identity)) / 1000
  },
  clutch = function() {
    cl <- make_cluster(2)
    on.exit(stop_cluster(cl))
    pids_of(cl)
    us(tryCatch(clusterCall(cl[1L], die), clutch_node_died = identity)) / 1000
  })
if (with_mirai) knows$mirai <- function() {
  two_daemons()
  on.exit(mirai::daemons(0))
  us(mirai::collect_mirai(mirai::mirai(tools::pskill(Sys.getpid(), 9L)))) / 1000
}

# ---- until all nodes answer again: a map in which a node dies, and what users of the others do by hand ----
back <- list(
  "base (cluster made anew by hand)" = function() {
    cl <- makeCluster(2)
    pids_of(cl)
    tools::pskill(pids_of(cl)[[1L]], 9L)
    t <- us({ try(suppressWarnings(stopCluster(cl)), silent = TRUE); cl <- makeCluster(2); pids_of(cl) }) / 1000
    stopCluster(cl)
    t
  },
  "clutch" = function() {
    cl <- make_cluster(2)
    on.exit(stop_cluster(cl))
    who <- cluster_map_int(cl, 1:2, function(i) Sys.getpid())
    tools::pskill(who[[1L]], 9L)
    us(cluster_map(cl, 1:4, function(i) Sys.getpid(), .retries = 1)) / 1000
  })
# There the lost daemon is started by hand, the other stays.
if (with_mirai) back[["mirai (daemon started by hand)"]] <- function() {
  pids <- two_daemons()
  on.exit(mirai::daemons(0))
  tools::pskill(pids[[1L]], 9L)
  us({
    mirai::launch_local(1)
    repeat {
      now <- unlist(mirai::collect_mirai(mirai::everywhere(Sys.getpid(), .min = 2L)))
      if (length(unique(now[now != pids[[1L]]])) == 2L) break
    }
  }) / 1000
}

# ---- a node dies in a map of 40 tasks of 20 ms ----
added <- list(clutch = function() {
  cl <- make_cluster(2)
  on.exit(stop_cluster(cl))
  sleepy <- function(i, dies) {
    if (i == 7 && dies && clutch::task_attempt() == 1L) tools::pskill(Sys.getpid(), 9L)
    Sys.sleep(0.02)
    i
  }
  environment(sleepy) <- globalenv()
  map <- function(dies) us(cluster_map(cl, 1:40, sleepy, dies = dies, .retries = 1)) / 1000
  map(FALSE)
  without <- map(FALSE)
  map(TRUE) - without
})

# ---- the session is killed: until its busy nodes are gone ----
limit <- 2 # seconds that are waited; who is still there then is ended from here
killed <- function(start) function() {
  dir <- tempfile("killed-")
  dir.create(dir)
  script <- file.path(dir, "session.R")
  writeLines(c("suppressPackageStartupMessages({library(parallel); library(clutch)})",
               "busy <- function(dir) { cat('', file = file.path(dir, Sys.getpid())); repeat sqrt(2) }",
               "environment(busy) <- globalenv()", sprintf("dir <- '%s'", dir),
               "cat('', file = file.path(dir, paste0('session-', Sys.getpid())))", start), script)
  system2(file.path(R.home("bin"), "Rscript"), c("--vanilla", script), wait = FALSE, stdout = FALSE, stderr = FALSE)
  on.exit(unlink(dir, recursive = TRUE))
  end <- Sys.time() + 30
  while (length(nodes <- list.files(dir, "^[0-9]+$")) < 2L && Sys.time() < end) Sys.sleep(0.01)
  session <- as.integer(sub(".*-", "", list.files(dir, "^session-")))
  if (length(nodes) < 2L) { tools::pskill(session, 9L); return(NA_real_) }
  Sys.sleep(0.1)
  t <- us({
    tools::pskill(session, 9L)
    stop_at <- Sys.time() + limit
    while (any(runs_still(nodes)) && Sys.time() < stop_at) Sys.sleep(0.001)
  }) / 1000
  if (any(runs_still(nodes))) {
    tools::pskill(as.integer(nodes[runs_still(nodes)]), 9L)
    return(Inf)
  }
  t
}
gone <- list(
  base = killed("clusterCall(makeCluster(2), busy, dir)"),
  clutch = killed("clusterCall(make_cluster(2), busy, dir)"))
if (with_mirai) gone$mirai <- killed(c("mirai::daemons(2)",
    "m <- list(mirai::mirai(busy(dir), busy = busy, dir = dir), mirai::mirai(busy(dir), busy = busy, dir = dir))",
                                       "Sys.sleep(60)"))

what <- list("the caller knows that a node died" = knows, "all nodes answer again" = back,
             "a node dies in a map and is replaced: time added" = added,
                 "the session is killed: its busy nodes are gone" = gone)
raw <- do.call(rbind, lapply(seq_len(reps), function(r) do.call(rbind, lapply(names(what), function(w)
  do.call(rbind, lapply(rotated(names(what[[w]]), r), function(who) data.frame(what = w, who = who, rep = r,
      ms = what[[w]][[who]]())))))))
raw <- raw[order(match(raw$what, names(what)), raw$who, raw$rep), ]
keep(raw, "recovery")
table <- spread(raw, c("what", "who"), "ms")
table$note <- ifelse(is.infinite(table$median), sprintf("still there after %g s", limit), "")
cat("milliseconds\n")
show(table, "recovery")
finite <- table[is.finite(table$max), ]
finite$min <- pmax(finite$min, 0.1) # a difference of two times can be next to nothing, or less
finite$median <- pmax(finite$median, 0.1)
finite$who <- sub(" .*", "", finite$who)
short <- c("caller knows", "all answer again", "added to a map", "session killed:\nits nodes gone")
finite$what <- short[match(finite$what, names(what))]
m <- function(value) as_matrix(finite, "who", "what", value)
bars_png("recovery.png", m("median"), "milliseconds", "A node dies; the session dies", low = m("min"), high = m("max"))
method("recovery",
  what = paste("milliseconds: of a call that kills its own node, until its error is there; from the death of",
               "one of two nodes until two",
               "answer again; added to a map of 40 tasks of 20 ms on two nodes; from SIGKILL of the session",
               "until its two nodes,",
               "which compute, have ended"),
  order = "in each repetition each contender once, another one first each time",
  warm = "none but a first call; each repetition has new nodes")
