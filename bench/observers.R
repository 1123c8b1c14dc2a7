# What does it cost a cluster that somebody looks at it? The same map of elements that do nothing, with and without
# another process that looks twice a second, as cluster_top() does from another terminal, in turn.
#
# What is compared is the time that the map takes, and the processor time of session and nodes. In the first is also what
# the observer and the other terminal's R need themselves, where all processors are busy.
#
#   Rscript bench/observers.R [--reps=21]     QUICK=1: fewer times
source("bench/_common.R")
suppressPackageStartupMessages(library(clutch))
machine()
reps <- repetitions(21L, 5L)
elements <- seq_len(1e6)
cl <- make_cluster(2)

# The other terminal: it looks while file `on` is there, and ends with file `up`.
folder <- tempfile("observers-")
dir.create(folder)
on <- file.path(folder, "on")
up <- file.path(folder, "up")
invisible(file.create(up))
writeLines(c(
  sprintf(".libPaths(%s)", deparse1(.libPaths())),
  "find <- function() Filter(function(o) o$session == SESSION, clutch:::find_clusters())",
  "o <- find()[[1L]]",
  "looks <- 0",
  "while (file.exists(UP)) {",
  "  if (file.exists(ON)) {",
  "    s <- clutch:::top_snapshot(o)",
  "    looks <- looks + 1",
  "    writeLines(as.character(looks), LOOKS)",
  "  }",
  "  Sys.sleep(0.5)",
  "}"
), script <- file.path(folder, "look.R"))
set <- sprintf("SESSION <- %d; ON <- %s; UP <- %s; LOOKS <- %s", Sys.getpid(), deparse(on), deparse(up),
               deparse(file.path(folder, "looks")))
writeLines(c(set, readLines(script)), script)
system2(file.path(R.home("bin"), "Rscript"), c("--vanilla", script), wait = FALSE)
looks <- function() {
  x <- tryCatch(suppressWarnings(readLines(file.path(folder, "looks"))), error = function(e) "0")
  as.numeric(c(x, "0")[[1L]])
}
# once, so that it is there
invisible(file.create(on))
end <- Sys.time() + 60
while (looks() < 1 && Sys.time() < end) Sys.sleep(0.05)
stopifnot(looks() >= 1)

pids <- cluster_status(cl)$pid
cpu_of_nodes <- function() {
  lines <- vapply(pids, function(p) readLines(file.path("/proc", p, "schedstat")), "")
  sum(as.numeric(sub(" .*", "", lines))) / 1e9
}
cpu <- function() sum(proc.time()[1:2]) + cpu_of_nodes()
once <- function() cluster_map_int(cl, elements, identity)
invisible(once())
raw <- do.call(rbind, unlist(lapply(seq_len(reps), function(r) {
  lapply(rotated(c("without", "with"), r), function(how) {
    if (how == "with") file.create(on) else unlink(on)
    gc() # each map has as much garbage to collect: else every second one has the other's, too
    Sys.sleep(0.6) # the look that is under way is over
    before <- looks()
    spent <- cpu()
    took <- seconds(once())
    data.frame(how = how, rep = r, took = took, cpu = cpu() - spent, looks = looks() - before)
  })
}), recursive = FALSE))
invisible(unlink(up))
keep(raw, "observers")
wide <- merge(raw[raw$how == "without", ], raw[raw$how == "with", ], by = "rep", suffixes = c("", "_with"))
ratios <- rbind(
  data.frame(what = "elements a second", rep = wide$rep, ratio = wide$took / wide$took_with),
  data.frame(what = "processor time of session and nodes", rep = wide$rep, ratio = wide$cpu_with / wide$cpu)
)
table <- spread(ratios, "what", "ratio")
table$looks <- stats::median(wide$looks_with)
cat("a map while somebody looks twice a second, by one while nobody does\n")
show(table, "observers")
found <- table$median[[1L]]
cat(sprintf("goal: elements a second with an observer at least 0.98 of those without: %.3f: %s\n", found,
            if (found >= 0.98) "met" else "MISSED"))
method("observers",
  what = sprintf("a map of %s elements that do nothing on two nodes, with and without an observer, %d times",
                 format(length(elements), big.mark = ","), reps),
  order = "with and without in turn, the other one first each time",
  warm = "one map before")
stop_cluster(cl)
