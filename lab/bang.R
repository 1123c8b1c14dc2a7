# All-to-all messages: each of N processes sends a question to each (itself, too) and answers those that come,
# 2 N^2 messages. The benchmark of the text of 2006, which is Erlang's. Like is set beside like, so there are three:
#
#   single   in R, every message by itself: an entry of its own in a mailbox, which the receiving process takes out and
#            handles; to another node it is written to a socket by a call of its own.
#   core     the same in C, on frames, channels and the event loop of the package (lab/bang.c); beside it Erlang, where
#            `erl` is installed, on as many schedulers as there are nodes.
#   batched  in R: what the processes of one node have to say to those of another travels as one message and is answered
#            in vectors. No message is handled by itself, so this is not what Erlang does, but what a program in R would.
#
# A process is no process of the system: each node (of Erlang: each scheduler) has its share of them. The clock runs from
# when all are there until all have all questions and answers. QUICK=1: fewer processes.
source("bench/_common.R")
suppressPackageStartupMessages(library(clutch))
machine()
sizes <- if (quick) c(50L, 100L, 200L) else c(50L, 100L, 200L, 400L, 800L, 1500L)
sizes_single <- sizes[sizes <= if (quick) 100L else 200L] # it takes as long for 200 as the others for 1,500
nodes <- c(1L, 2L, 4L)
reps <- repetitions(3L) # Erlang takes 15 s for each
warm_up_to <- 800L      # processes: a round more with 1,500 would take as long as all the rest

# ---- in a node: a listener, then connections to all of a lower number and from all of a higher one ----
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

# ---- single ----
# A process: its mailbox, and how it handles a message, c(1 = question or 2 = answer, who sent it).
new_process <- function(id, n, send) {
  mail <- vector("list", 2L * n)
  came <- taken <- questions <- answers <- 0L
  list(
    put = function(message) {
      came <<- came + 1L
      mail[[came]] <<- message
    },
    begin = function() for (to in seq_len(n)) send(to, c(1L, id)),
    # handles one message after the other, until there is none; TRUE: it has all
    turn = function() {
      while (taken < came) {
        taken <<- taken + 1L
        message <- mail[[taken]]
        if (message[[1L]] == 1L) {
          questions <<- questions + 1L
          send(message[[2L]], c(2L, id))
        } else answers <<- answers + 1L
      }
      questions == n && answers == n
    })
}
# One round in a node: `at` says where each process is. TRUE when each of its processes has all.
bang_single <- function(n, at) {
  own <- which(at == mesh$rank)
  others <- setdiff(seq_along(mesh$to), mesh$rank)
  rest <- lapply(seq_along(mesh$to), function(o) raw())
  # what has come from node `o`: each message goes to its mailbox by itself
  receive <- function(o) {
    bytes <- c(rest[[o]], clutch::socket_read(mesh$to[[o]]))
    whole <- length(bytes) %/% 12L
    for (k in seq_len(whole)) {
      message <- readBin(bytes[(12L * k - 11L):(12L * k)], "integer", 3L)
      processes[[message[[1L]]]]$put(message[2:3])
    }
    rest[[o]] <<- bytes[seq_len(length(bytes) - 12L * whole) + 12L * whole]
  }
  # takes in what there is; who waits for room (`full`: to write to this node) goes on reading
  look <- function(timeout, full = NULL) {
    ready <- clutch::socket_select(mesh$to[c(others, full)],
        rep(c(FALSE, TRUE), c(length(others), length(full))), timeout = timeout)
    if (timeout > 0 && !any(ready)) stop("silence")
    for (o in others[ready[seq_along(others)]]) receive(o)
  }
  send <- function(to, message) {
    o <- at[[to]]
    if (o == mesh$rank) return(processes[[to]]$put(message))
    bytes <- writeBin(c(to, message), raw())
    repeat {
      bytes <- bytes[-seq_len(clutch::socket_write(mesh$to[[o]], bytes))]
      if (!length(bytes)) return(NULL)
      look(30, o)
    }
  }
  processes <- vector("list", n)
  for (i in own) processes[[i]] <- new_process(i, n, send)
  for (i in own) processes[[i]]$begin()
  repeat {
    finished <- vapply(processes[own], function(p) p$turn(), TRUE)
    if (all(finished)) return(TRUE)
    if (length(others)) look(30)
  }
}

# ---- batched ----
bang_batched <- function(n, at) {
  mine <- which(at == mesh$rank)
  others <- setdiff(seq_along(mesh$to), mesh$rank)
  # pairs (from, to), as two halves of one vector
  pairs <- function(from, to) c(rep(from, each = length(to)), rep(to, times = length(from)))
  frame <- function(kind, x) c(writeBin(c(kind, length(x)), raw()), writeBin(x, raw()))
  answers <- integer(n)
  count <- function(x) answers <<- answers + tabulate(x[(length(x) / 2 + 1):length(x)], n)
  x <- pairs(mine, mine)
  k <- length(x) / 2
  count(c(x[(k + 1):(2 * k)], x[1:k])) # those of one's own node, at once
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
  all(answers[mine] == n)
}

# ---- contenders ----
for (f in c("open_port", "join_mesh", "leave_mesh", "new_process", "bang_single", "bang_batched"))
  assign(f, `environment<-`(get(f), globalenv()))
# A cluster for each number of nodes, all there from the beginning, so that they can take turns: those not asked sleep.
meshes <- lapply(nodes, function(s) {
  cl <- make_cluster(s)
  ports <- unlist(parallel::clusterCall(cl, open_port))
  invisible(parallel::clusterMap(cl, join_mesh, seq_len(s), MoreArgs = list(ports = ports)))
  parallel::clusterExport(cl, "new_process")
  cl
})
in_r <- function(cl, round, sizes) vapply(sizes, function(n) {
  at <- rep_len(seq_along(cl), n)
  # a round before: new memory is the system's work, and who was asleep wakes
  if (n <= warm_up_to) parallel::clusterCall(cl, round, n, at)
  seconds(stopifnot(unlist(parallel::clusterCall(cl, round, n, at))))
}, 1)
dir <- tempfile("bang-")
dir.create(dir)
core <- file.path(dir, "bang")
cc <- system2(file.path(R.home("bin"), "R"), c("CMD", "config", "CC"), stdout = TRUE)
if (system(paste(cc, "-O2 -pthread -Isrc -o", core, "lab/bang.c src/core/base/*.c src/core/wire/*.c src/core/loop/*.c",
                 "src/posix/*.c -lssl -lcrypto")) != 0L) stop("lab/bang.c cannot be compiled")
erl <- Sys.which("erl")
if (nzchar(erl)) stopifnot(system2(Sys.which("erlc"), c("-o", dir, "lab/bang.erl")) == 0L) else
  cat("without Erlang (`erl` is not installed; Debian: erlang-base)\n")
list_of <- paste(sizes, collapse = ",")
last_number <- function(lines) as.numeric(sub(".* ", "", lines))
in_c <- function(k) last_number(system2(core, c(k, list_of, warm_up_to), stdout = TRUE))
in_erlang <- function(k) last_number(system2(erl, c("-noshell", "+P", "100000", "+S", sprintf("%d:%d", k, k), "-pa", dir,
    "-run", "bang", "main", list_of, warm_up_to), stdout = TRUE))

contender <- function(how, who, k, sizes, run) {
  unit <- if (who == "Erlang") "scheduler" else "node"
  list(how = how, who = sprintf("%s, %d %s%s", who, k, unit, if (k > 1L) "s" else ""), sizes = sizes, run = run)
}
contenders <- unlist(lapply(seq_along(nodes), function(i) {
  k <- nodes[[i]]
  cl <- meshes[[i]]
  c(list(contender("single", "clutch in R", k, sizes_single, function() in_r(cl, bang_single, sizes_single)),
         contender("core", "clutch's core in C", k, sizes, function() in_c(k)),
         contender("batched", "clutch in R, batched", k, sizes, function() in_r(cl, bang_batched, sizes))),
    if (nzchar(erl)) list(contender("core", "Erlang", k, sizes, function() in_erlang(k))))
}), recursive = FALSE)

raw <- do.call(rbind, lapply(seq_len(reps), function(r) do.call(rbind, lapply(rotated(contenders, r), function(x)
  data.frame(how = x$how, who = x$who, processes = x$sizes, rep = r, ms = 1000 * x$run())))))
raw$per_s <- 2 * as.numeric(raw$processes)^2 / (raw$ms / 1000)
names_in_order <- vapply(contenders, `[[`, "", "who")
names_in_order <- names_in_order[order(grepl("Erlang", names_in_order))]
raw <- raw[order(match(raw$how, c("single", "core", "batched")), match(raw$who, names_in_order), raw$processes, raw$rep), ]
keep(raw, "bang")
for (cl in meshes) {
  invisible(parallel::clusterCall(cl, leave_mesh))
  stop_cluster(cl)
}
unlink(dir, recursive = TRUE)
table <- spread(raw, c("how", "who", "processes"), "per_s")
utils::write.csv(table, report("bang.csv"), row.names = FALSE)
for (how in unique(table$how)) {
  cat(how, ": messages a second, median of ", reps, "\n", sep = "")
  print(signif(as_matrix(table[table$how == how, ], "who", "processes"), 3))
  cat("\n")
}

# ---- picture: a panel for each, on one scale ----
titles <- c(single = "In R, every message by itself", core = "In C, every message by itself; Erlang",
            batched = "In R, batched: none by itself")
panel <- function(how) {
  t <- table[table$how == how, ]
  who <- unique(t$who)
  look <- looks(who)
  graphics::plot(range(sizes), range(table$min, table$max), type = "n", log = "xy", axes = FALSE, bty = "l",
                 xlab = "logical processes", ylab = "", main = titles[[how]])
  graphics::box(bty = "l")
  log_axis(1, sizes)
  log_axis(2)
  graphics::title(ylab = if (how == "batched") "answers counted a second" else "messages handled a second", line = 5.6)
  for (i in seq_along(who)) {
    x <- t[t$who == who[[i]], ]
    graphics::polygon(c(x$processes, rev(x$processes)), c(x$min, rev(x$max)), border = NA,
                      col = grDevices::adjustcolor(look$col[[i]], 0.2))
    graphics::lines(x$processes, x$median, type = "b", pch = look$pch[[i]], lty = look$lty[[i]], col = look$col[[i]], lwd = 2)
  }
  where <- if (how == "single") "topright" else "bottomright"
  graphics::legend(where, who, col = look$col, pch = look$pch, lty = look$lty, lwd = 2, bty = "n", cex = 0.9)
}
picture("bang.png", function() {
  graphics::par(mfrow = c(1L, 3L), mar = c(4.2, 7, 3, 1), las = 1, cex = 0.85)
  for (how in names(titles)) panel(how)
}, 1500, 560)

method("bang",
  what = paste("seconds of a round in which each of N logical processes has asked all and has all answers, 2 N^2 messages,",
      "as messages a second; the clock starts when all processes are there"),
  order = paste("all contenders once in each repetition, another one first each time; all clusters are there from the",
      "beginning"),
  warm = "one round before each, not counted, for all contenders; for 1,500 processes the 800 that came before")
