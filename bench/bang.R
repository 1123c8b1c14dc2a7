# All-to-all messages: each of N logical processes sends to every other one and waits for all answers, 2 N (N - 1)
# messages; spread over S nodes, and Erlang's own beside, on one to four schedulers, where `erl` is installed.
#
# A logical process is a mailbox on one of the nodes. The nodes are joined by socket_connect() and socket_accept(), each
# with each. What the processes of one node have to say to those of another travels as one message of pairs (from, to),
# and is taken apart and answered there pair by pair in vectors: that is how a program in R would do it. Erlang sends
# each message by itself. QUICK=1: fewer processes.
source("bench/_common.R")
suppressPackageStartupMessages(library(clutch))
machine()
sizes <- if (quick) c(50L, 100L, 200L) else c(50L, 100L, 200L, 400L, 800L, 1500L)
nodes <- c(1L, 2L, 4L, 8L, 16L)
schedulers <- c(1L, 2L, 4L)
reps <- repetitions()

# In a node: a listener, then connections to all of a lower number and from all of a higher one.
open_port <- function() {
  mesh <<- list(l = clutch::socket_listen(0, host = "127.0.0.1", slot = FALSE))
  clutch::socket_info(mesh$l)$local_port
}
join_mesh <- function(rank, ports) {
  to <- vector("list", length(ports))
  for (k in seq_len(rank - 1L)) {
    to[[k]] <- clutch::socket_connect("127.0.0.1", ports[[k]], slot = FALSE, timeout = 20)
    clutch::socket_write(to[[k]], writeBin(as.integer(rank), raw()))
  }
  for (k in seq_len(length(ports) - rank)) {
    s <- clutch::socket_accept(mesh$l, slot = FALSE, timeout = 20)
    to[[readBin(clutch::socket_read(s, 4L, exact = TRUE), "integer")]] <- s
  }
  close(mesh$l)
  mesh$to <<- to
  mesh$rank <<- rank
  NULL
}
leave_mesh <- function() {
  for (s in mesh$to) if (!is.null(s)) close(s)
  rm(list = "mesh", envir = globalenv())
}
# One round in a node: `at` says where each process is. TRUE when each of its processes has all its answers.
bang <- function(n, at) {
  mine <- which(at == mesh$rank)
  others <- setdiff(seq_along(mesh$to), mesh$rank)
  # pairs (from, to), as two halves of one vector
  pairs <- function(from, to) c(rep(from, each = length(to)), rep(to, times = length(from)))
  frame <- function(kind, x) c(writeBin(c(kind, length(x)), raw()), writeBin(x, raw()))
  answers <- integer(n)
  count <- function(x) answers <<- answers + tabulate(x[(length(x) / 2 + 1):length(x)], n)
  x <- pairs(mine, mine)
  k <- length(x) / 2
  other <- x[1:k] != x[(k + 1):(2 * k)]
  count(c(x[(k + 1):(2 * k)][other], x[1:k][other])) # those of one's own node, at once
  # what does not fit is written later: who waits for room must go on reading
  out <- lapply(seq_along(mesh$to), function(o) raw())
  send <- function(o, bytes) {
    out[[o]] <<- c(out[[o]], bytes)
    gone <- clutch::socket_write(mesh$to[[o]], out[[o]])
    out[[o]] <<- if (gone == length(out[[o]])) raw() else out[[o]][(gone + 1):length(out[[o]])]
  }
  for (o in others) send(o, frame(1L, pairs(mine, which(at == o))))
  left <- 2L * length(others) # a message of questions and one of answers from each
  repeat {
    full <- others[lengths(out[others]) > 0L]
    if (left == 0L && !length(full)) break
    ready <- clutch::socket_select(mesh$to[c(others, full)], rep(c(FALSE, TRUE), c(length(others), length(full))),
        timeout = 30)
    if (!any(ready)) stop("silence")
    for (o in full[ready[length(others) + seq_along(full)]]) send(o, raw())
    for (o in others[ready[seq_along(others)]]) {
      head <- readBin(clutch::socket_read(mesh$to[[o]], 8L, exact = TRUE), "integer", 2L)
      x <- readBin(clutch::socket_read(mesh$to[[o]], 4L * head[[2L]], exact = TRUE), "integer", head[[2L]])
      k <- length(x) / 2
      if (head[[1L]] == 1L) send(o, frame(2L, c(x[(k + 1):(2 * k)], x[1:k])))
      else count(x)
      left <- left - 1L
    }
  }
  all(answers[mine] == n - 1L)
}
for (f in c("open_port", "join_mesh", "leave_mesh", "bang")) assign(f, `environment<-`(get(f), globalenv()))

# A cluster for each number of nodes, all there from the beginning, so that they can take turns: those not asked sleep.
meshes <- lapply(nodes, function(s) {
  cl <- make_cluster(s)
  ports <- unlist(parallel::clusterCall(cl, open_port))
  invisible(parallel::clusterMap(cl, join_mesh, seq_len(s), MoreArgs = list(ports = ports)))
  cl
})
in_r <- function(cl) vapply(sizes, function(n) {
  at <- rep_len(seq_along(cl), n)
  # a round before: new memory is the system's work, and who was asleep wakes
  parallel::clusterCall(cl, bang, n, at)
  seconds(stopifnot(unlist(parallel::clusterCall(cl, bang, n, at))))
}, 1)
contenders <- lapply(meshes, function(cl) function() in_r(cl))
names(contenders) <- paste("clutch,", nodes, ifelse(nodes == 1, "node", "nodes"))
erl <- Sys.which("erl")
if (nzchar(erl)) {
  dir <- tempfile("erl-")
  dir.create(dir)
  stopifnot(system2(Sys.which("erlc"), c("-o", dir, "bench/bang.erl")) == 0L)
  in_erlang <- function(k) {
    out <- system2(erl, c("-noshell", "+P", "100000", "+S", sprintf("%d:%d", k, k), "-pa", dir, "-run", "bang", "main",
                          paste(sizes, collapse = ","), 2), stdout = TRUE)
    as.numeric(sub(".* ", "", out))
  }
  for (k in schedulers) contenders[[sprintf("Erlang, %d scheduler%s", k,
      if (k == 1) "" else "s")]] <- local({ k <- k; function() in_erlang(k) })
} else cat("without Erlang (`erl` is not installed; Debian: erlang-base)\n")

raw <- do.call(rbind, lapply(seq_len(reps), function(r) do.call(rbind, lapply(rotated(names(contenders), r), function(who)
  data.frame(who = who, processes = sizes, rep = r, ms = 1000 * contenders[[who]]())))))
raw <- raw[order(match(raw$who, names(contenders)), raw$processes, raw$rep), ]
keep(raw, "bang")
for (cl in meshes) {
  invisible(parallel::clusterCall(cl, leave_mesh))
  stop_cluster(cl)
}
if (nzchar(erl)) unlink(dir, recursive = TRUE)
table <- spread(raw, c("who", "processes"), "ms")
utils::write.csv(table, report("bang.csv"), row.names = FALSE)
wide <- function(value) as_matrix(table, "processes", "who", value)
times <- wide("median")
cat("milliseconds of one round, median of", reps, "\n")
print(data.frame(processes = sizes, round(times, 1), check.names = FALSE), row.names = FALSE)
cat("\n")
columns <- function(m) lapply(`names<-`(colnames(m), colnames(m)), function(k) unname(m[, k]))
lines_png("bang.png", sizes, columns(times), "logical processes", "milliseconds of a round", "All-to-all messages",
          columns(wide("min")), columns(wide("max")))

picture("bang-heat.png", function() {
  graphics::par(mar = c(4.2, 11, 3, 1), las = 1)
  m <- log10(times)
  graphics::image(seq_along(sizes), seq_len(ncol(m)), m, col = grDevices::hcl.colors(40, "YlOrRd", rev = TRUE),
      xaxt = "n",
                  yaxt = "n", xlab = "logical processes", ylab = "",
                      main = "All-to-all messages: milliseconds of a round")
  graphics::axis(1, seq_along(sizes), sizes, gap.axis = -1) # all of them
  graphics::axis(2, seq_len(ncol(m)), colnames(m), gap.axis = -1)
  graphics::text(row(m), col(m), formatC(times, digits = 3, format = "fg", big.mark = ","), cex = 0.9,
                 col = ifelse(m > min(m) + 0.65 * diff(range(m)), "white", "black"))
}, 900, 560)
method("bang",
  what = paste("milliseconds of a round in which each of N logical processes has sent to all others and has all",
      "answers, 2 N (N - 1) messages"),
  order = paste("all numbers of nodes and of schedulers once in each repetition, another one first each time; all",
      "clusters are there from the beginning"),
  warm = "one round before each, not counted, in R and in Erlang")
