# The programs of bench/messages.R for Rmpi. It starts this with mpirun: RANK programs that do the same.
#
#   mpirun -n RANKS Rscript bench/messages-rmpi.R PART REPS
#
# Rank 0 prints lines "row value", seconds each.
suppressPackageStartupMessages(library(Rmpi))
asked <- commandArgs(TRUE)
reps <- as.integer(asked[[2L]])
rank <- mpi.comm.rank(0)
count <- mpi.comm.size(0)
say <- function(row, value) {
  force(value) # each rank has its part in it
  if (rank != 0) return()
  cat(sprintf("%s %.9g\n", row, value))
  flush(stdout())
}
timed <- function(n, f) {
  f()
  mpi.barrier(0)
  began <- as.numeric(Sys.time())
  for (i in seq_len(n)) f()
  (as.numeric(Sys.time()) - began) / n
}

# Objects, as node_send() takes them
object_trip <- function(x) {
  force(x)
  function() {
    if (rank == 0) {
      mpi.send.Robj(x, 1, 0, comm = 0)
      mpi.recv.Robj(1, 0, comm = 0)
    } else {
      x <- mpi.recv.Robj(0, 0, comm = 0)
      mpi.send.Robj(x, 0, 0, comm = 0)
    }
  }
}
# Numbers, where both sides know how many there are
typed_trip <- function(x) {
  force(x)
  function() {
    if (rank == 0) {
      mpi.send(x, 2, 1, 0, comm = 0)
      mpi.recv(x, 2, 1, 0, comm = 0)
    } else {
      x <- mpi.recv(x, 2, 0, 0, comm = 0)
      mpi.send(x, 2, 0, 0, comm = 0)
    }
  }
}
pingpong <- function() {
  sizes <- c(8, 1e3, 1e6, 1e8)
  for (bytes in sizes) {
    x <- as.numeric(seq_len(bytes / 8)) + 0
    for (i in seq_len(reps)) {
      say(sprintf("pingpong-%g", bytes), timed(c(30L, 30L, 20L, 2L)[[match(bytes, sizes)]], object_trip(x)))
      say(sprintf("typed-%g", bytes), timed(c(3000L, 3000L, 200L, 2L)[[match(bytes, sizes)]], typed_trip(x)))
    }
  }
}
together <- function() {
  x <- as.numeric(seq_len(1e6)) + rank
  for (i in seq_len(reps)) {
    say(sprintf("allreduce-%d", count), timed(10L, function() mpi.allreduce(x, type = 2, op = "sum", comm = 0)))
    say(sprintf("barrier-%d", count), timed(500L, function() mpi.barrier(0)))
  }
}
switch(asked[[1L]], pingpong = pingpong(), together = together())
invisible(mpi.barrier(0))
mpi.quit()
