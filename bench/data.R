# Large data to nodes and back: time over one copy of the data, memory of a node, and a bootstrap of a large table.
# Beside base R (with Bioconductor's SharedObject, where that is installed), mirai (with mori, where that is), and processes
# that are forks of the session.
#
#   Rscript bench/data.R [--reps=3] [--parts=export,memory,...]     QUICK=1: less data, once or twice
#
# One copy: each column duplicated as R does when a variable is changed that has a second name, into memory that this
# process has not had before: earlier copies are kept meanwhile. Median of five (1 GB: two), after one that is not counted.
# That is what a copy costs a user who makes one, and it is what shared memory has to be measured against, whose pages
# are new to the process, too. A copy into memory that another copy has just left takes a quarter of that.
# Memory of a node: Private_Dirty, beyond what it had before the data came. A page that only one process maps at the moment
# may be counted as Private_Clean although it is shared.
source("bench/_common.R")
suppressPackageStartupMessages(library(parallel))
parts <- c("export", "gigabyte", "memory", "again", "back", "trip", "threshold", "columns", "strings", "small", "bootstrap")
mb <- if (quick) 20 else 100

# A table of `mb` megabytes, in 25 columns that are not alike
table_of <- function(mb) {
  rows <- round(mb * 1e6 / 8 / 25)
  at <- as.numeric(seq_len(rows))
  as.data.frame(lapply(structure(1:25, names = paste0("x", 1:25)), function(k) (at * (2 * k + 1)) %% 9973 / 100))
}

# ---- bootstrap: each contender in a process of its own ----

boot_mb <- if (quick) 50 else 500
draws <- seq_len(if (quick) 100 else 1000)
one_draw <- function(i, d) {
  set.seed(i, "Mersenne-Twister", "Inversion", "Rejection")
  rows <- sample.int(nrow(d), 5000L, TRUE)
  drawn <- vapply(d, function(x) x[rows], numeric(5000))
  stats::.lm.fit(cbind(1, drawn[, 2:6]), drawn[, 1L])$coefficients
}
chunks <- function() splitIndices(length(draws), 8L)
several <- function(at, f, d) lapply(at, f, d)
several_there <- function(at, f) lapply(at, f, table)
draw_there <- function(i) one_draw(i, table)
environment(draw_there) <- environment(one_draw) <- environment(several) <- environment(several_there) <- globalenv()
with_mirai <- function(run) function(d) {
  mirai::daemons(2)
  on.exit(mirai::daemons(0))
  run(d)
}
# These are not to be had on each machine: a check of the code need not know them
shared_by <- function(package, x) getExportedValue(package, "share")(x)
mirai_chunks <- function(of_chunk, ...) {
  do.call(c, mirai::mirai_map(chunks(), of_chunk, .args = list(f = one_draw, ...))[])
}
contenders <- list(
  "lapply" = list(run = function(d) lapply(draws, one_draw, d)),
  "clutch cluster_map" = list(package = "clutch", run = function(d) {
    cl <- clutch::make_cluster(2)
    on.exit(clutch::stop_cluster(cl))
    clutch::cluster_map(cl, draws, one_draw, d = d)
  }),
  "clutch, cl = NULL" = list(package = "clutch", run = function(d) {
    clutch::cluster_map(NULL, draws, one_draw, d = d)
  }),
  "clutch mclapply" = list(package = "clutch", run = function(d) {
    clutch::mclapply(draws, one_draw, d, mc.cores = 2L)
  }),
  "base mclapply" = list(run = function(d) mclapply(draws, one_draw, d, mc.cores = 2L)),
  "base parLapply" = list(run = function(d) {
    cl <- makePSOCKcluster(2)
    on.exit(stopCluster(cl))
    parLapply(cl, draws, one_draw, d)
  }),
  "base + SharedObject" = list(package = "SharedObject", run = function(d) {
    cl <- makePSOCKcluster(2)
    on.exit(stopCluster(cl))
    parLapply(cl, draws, one_draw, shared_by("SharedObject", d))
  }),
  # an argument of mirai_map() would travel with each chunk
  "mirai everywhere" = list(package = "mirai", run = with_mirai(function(d) {
    mirai::collect_mirai(mirai::everywhere(NULL, table = d, .min = 2L))
    mirai_chunks(several_there)
  })),
  "mirai + mori" = list(package = c("mirai", "mori"), run = with_mirai(function(d) {
    mirai_chunks(several, d = shared_by("mori", d))
  })),
  "future multicore" = list(package = c("future", "future.apply"), run = function(d) {
    options(future.globals.maxSize = Inf)
    future::plan("multicore", workers = 2L)
    on.exit(future::plan("sequential"))
    future.apply::future_lapply(draws, one_draw, d, future.seed = NULL)
  }))
# The table is there before the nodes are forked
if (are_installed("clutch") && "preload" %in% names(formals(clutch::make_cluster))) {
  contenders[["clutch, preloaded"]] <- list(package = "clutch", run = function(d) {
    cl <- clutch::make_cluster(2, preload = table <- d)
    on.exit(clutch::stop_cluster(cl))
    clutch::cluster_map(cl, draws, draw_there, .globals = list(one_draw = one_draw))
  })
}
bootstrap <- function(contender) {
  for (p in contender$package) loadNamespace(p)
  d <- table_of(boot_mb)
  gc()
  took <- seconds(result <- contender$run(d))
  cat(sprintf("%.6f\t%d %.10g\n", took, length(result), sum(unlist(result))))
}
measure_alone(contenders, bootstrap)

suppressPackageStartupMessages(library(clutch))
machine()
reps <- repetitions()
asked <- strsplit(option("parts", paste(parts, collapse = ",")), ",")[[1L]]
if (length(bad <- setdiff(asked, parts))) stop("no such part: ", toString(bad), call. = FALSE)

# ---- what is kept of a measurement ----

rows <- list()
order_of_who <- "one copy"
note <- function(part, what, who, rep, value) {
  order_of_who <<- union(order_of_who, who)
  rows[[length(rows) + 1L]] <<- data.frame(part = part, what = what, who = who, rep = rep, value = value)
}
# Each once in each repetition, in turn: seconds of each of `times` calls. `warm`: repetitions before, which are not counted.
in_turn <- function(part, what, ways, reps, warm = 1L, times = function(who) 1L) {
  order_of_who <<- union(order_of_who, names(ways))
  for (r in seq_len(warm + reps)) for (who in rotated(names(ways), r)) {
    n <- times(who)
    value <- seconds(for (i in seq_len(n)) ways[[who]]()) / n
    if (r > warm) note(part, what, who, r - warm, value)
  }
}
duplicated_of <- function(d) {
  changed <- function(x) {
    x[[1L]] <- x[[1L]]
    x
  }
  if (is.list(d)) lapply(d, changed) else changed(d)
}
note_copy <- function(part, what, d) {
  reps <- if (utils::object.size(d) > 5e8) 2L else 5L
  held <- vector("list", 1L + reps)
  for (r in seq_along(held)) {
    took <- seconds(held[[r]] <- duplicated_of(d))
    if (r > 1L) note(part, what, "one copy", r - 1L, took)
  }
  rm(held)
  invisible(gc())
}
dirty_mb <- function(pids) {
  stats::median(vapply(pids, function(p) {
    l <- grep("^Private_Dirty:", readLines(file.path("/proc", p, "smaps_rollup")), value = TRUE)
    as.numeric(gsub("[^0-9]", "", l)) / 1024
  }, 1))
}
there_is_room <- function(mb, what) {
  l <- if (file.exists("/proc/meminfo")) grep("^MemAvailable", readLines("/proc/meminfo"), value = TRUE)
  free <- if (length(l)) as.numeric(gsub("[^0-9]", "", l)) / 1024 else Inf
  if (free < 1.3 * mb) cat(sprintf("without %s: it wants %.0f MB, and %.0f are free\n", what, mb, free))
  free >= 1.3 * mb
}
text_mb <- function(mb) if (mb >= 1000) sprintf("%g GB", mb / 1000) else sprintf("%g MB", mb)
label <- function(mb, n) sprintf("%s to %d nodes", text_mb(mb), n)
started_mirai <- function(n, ...) {
  mirai::daemons(n, ...)
  mirai::collect_mirai(mirai::everywhere(NULL, .min = n, ...))
}
count_of <- function(n) format(n, big.mark = ",", scientific = FALSE)
# Own memory can be read
has_smaps <- file.exists("/proc/self/smaps_rollup")
if (!has_smaps) asked <- setdiff(asked, "memory")
with_mirai <- has("mirai")
with_mori <- with_mirai && has("mori")
with_shared_object <- has("SharedObject")
# These variables of the workspace, shared, to the nodes of base R
export_shared <- function(cl, names) {
  clusterExport(cl, names, list2env(lapply(mget(names, globalenv()), shared_by, package = "SharedObject")))
}

# ---- export ----

if ("export" %in% asked) for (n in if (quick) c(2L, 8L) else c(2L, 8L, 64L)) {
  if (!there_is_room(mb * (n + 3), label(mb, n))) next
  many <- n > 8L # others would take minutes
  d <- table_of(mb)
  note_copy("export", label(mb, n), d)
  cl <- make_cluster(n)
  ways <- list(
    "clutch cluster_export" = function() cluster_export(cl, "d", globalenv()),
    "clutch clusterExport" = function() clusterExport(cl, "d", globalenv()))
  if (!many) {
    base <- makeCluster(n)
    ways[["base clusterExport"]] <- function() clusterExport(base, "d", globalenv())
    if (with_shared_object) ways[["base + SharedObject"]] <- function() export_shared(base, "d")
  }
  if (!many && with_mirai) {
    started_mirai(n)
    ways[["mirai everywhere"]] <- function() mirai::collect_mirai(mirai::everywhere(NULL, d = d, .min = n))
    if (with_mori) ways[["mirai + mori"]] <- function() {
      mirai::collect_mirai(mirai::everywhere(NULL, d = shared_by("mori", d), .min = n))
    }
  }
  in_turn("export", label(mb, n), if (many) ways[1L] else ways, if (many) min(reps, 2L) else reps)
  stop_cluster(cl)
  if (!many) stopCluster(base)
  if (!many && with_mirai) mirai::daemons(0)
}

if ("gigabyte" %in% asked && !quick && there_is_room(12000, label(1000, 8L))) {
  d <- table_of(1000)
  note_copy("gigabyte", label(1000, 8L), d)
  cl <- make_cluster(8L)
  in_turn("gigabyte", label(1000, 8L), list("clutch cluster_export" = function() cluster_export(cl, "d", globalenv())),
          min(reps, 2L), warm = 0L)
  stop_cluster(cl)
}
invisible(gc())

# ---- memory of a node ----

# A table and a matrix are there; then something is computed. After each step all that is free is given back.
steps <- list(
  "held" = quote(NULL),
  "colSums" = quote(colSums(d)),
  "sum(x[[1]] > 0)" = quote(sum(d[[1L]] > 0)),
  "x %*% v" = quote(m %*% v),
  "lm.fit" = quote(stats::lm.fit(m, d[[1L]])))
step_here <- function(code) {
  force(eval(code, globalenv()))
  for (k in 1:2) gc()
  Sys.getpid()
}
environment(step_here) <- globalenv()
memory_of <- function(who, call, give, data_mb = 0) {
  for (r in seq_len(min(reps, 2L))) {
    pids <- unlist(call[[1L]](2L, step_here, NULL))
    before <- dirty_mb(pids)
    give()
    for (s in names(steps)) {
      call[[2L]](2L, step_here, steps[[s]])
      note("memory", s, who, r, dirty_mb(pids) - before - data_mb)
    }
    call[[3L]]()
  }
}
if ("memory" %in% asked) {
  d <- table_of(mb)
  m <- as.matrix(d)
  v <- rep(1, 25)
  made_there <- substitute({
    table_of <- F
    d <- table_of(MB)
    m <- as.matrix(d)
    v <- rep(1, 25)
    rm(table_of)
  }, list(F = table_of, MB = mb))
  cl <- NULL
  of_parallel <- function(start) list(
    function(n, f, code) {
      cl <<- start(n)
      clusterCall(cl, f, code)
    },
    function(n, f, code) clusterCall(cl, f, code),
    function() stopCluster(cl))
  given <- c("d", "m", "v")
  memory_of("clutch cluster_export", of_parallel(make_cluster), function() cluster_export(cl, given, globalenv()))
  memory_of("base clusterExport", of_parallel(makeCluster), function() clusterExport(cl, given, globalenv()))
  if (with_shared_object) {
    memory_of("base + SharedObject", of_parallel(makeCluster), function() export_shared(cl, given))
  }
  memory_of("made by the node, less the data", of_parallel(make_cluster),
            function() clusterCall(cl, step_here, made_there), 2 * mb * 1e6 / 2^20)
  if (with_mirai) {
    everywhere <- function(n, f, code) {
      mirai::collect_mirai(mirai::everywhere(f(code), f = f, code = code, .min = n))
    }
    of_mirai <- list(function(n, f, code) {
      started_mirai(n)
      everywhere(n, f, code)
    }, everywhere, function() mirai::daemons(0))
    memory_of("mirai everywhere", of_mirai, function() {
      mirai::collect_mirai(mirai::everywhere(NULL, d = d, m = m, v = v, .min = 2L))
    })
    if (with_mori) memory_of("mirai + mori", of_mirai, function() {
      mirai::collect_mirai(mirai::everywhere(NULL, d = shared_by("mori", d), m = shared_by("mori", m), v = v, .min = 2L))
    })
  }
  rm(m)
}

# ---- again, after share() ----

if ("again" %in% asked) {
  d <- table_of(mb)
  cl <- make_cluster(8L)
  what <- label(mb, 8L)
  in_turn("again", what, list("not shared" = function() cluster_export(cl, "d", globalenv())), min(reps, 3L))
  if (exists("share", asNamespace("clutch"))) {
    d <- getExportedValue("clutch", "share")(d)
    in_turn("again", what, list("after share()" = function() cluster_export(cl, "d", globalenv())), 4L * reps)
  } else cat("without share() (this clutch has none)\n")
  stop_cluster(cl)
  if (with_shared_object) {
    base <- makeCluster(8L)
    d <- shared_by("SharedObject", table_of(mb))
    in_turn("again", what, list("base + SharedObject" = function() clusterExport(base, "d", globalenv())), 4L * reps)
    stopCluster(base)
  }
}

# ---- back, and there and back ----

if (any(c("back", "trip", "small") %in% asked)) {
  cl <- make_cluster(1L)
  base <- makeCluster(1L)
  if (with_mirai) {
    started_mirai(1L, dispatcher = TRUE)
    started_mirai(1L, dispatcher = FALSE, .compute = "direct")
  }
}
if ("back" %in% asked) {
  d <- table_of(mb)
  what <- sprintf("%s back", text_mb(mb))
  note_copy("back", what, d)
  cluster_export(cl, "d")
  clusterExport(base, "d")
  # what it was sent a node of ours gives back without a copy; what it has made itself is copied
  invisible(clusterEvalQ(cl, {
    own <- as.data.frame(lapply(d, `+`, 0))
    NULL
  }))
  ways <- list(
    "clutch clusterEvalQ" = function() clusterEvalQ(cl, d),
    "clutch clusterEvalQ, made there" = function() clusterEvalQ(cl, own),
    "clutch cluster_submit" = function() collect(cluster_submit(cl, d, .globals = FALSE)),
    "base clusterEvalQ" = function() clusterEvalQ(base, d))
  if (with_mirai) {
    mirai::collect_mirai(mirai::everywhere(NULL, d = d, .min = 1L, .compute = "direct"))
    ways[["mirai, direct"]] <- function() mirai::mirai(d, .compute = "direct")[]
  }
  in_turn("back", what, ways, reps)
}
# Nodes of ours give back what they were sent without a copy. A vector that the node has made is copied, by all.
if ("trip" %in% asked) for (size in if (quick) c(1, 10) else c(1, 10, 100)) {
  x <- as.numeric(seq_len(size * 1e6 / 8)) %% 9973
  for (f in c("identity", "-")) {
    change <- get(f, baseenv())
    ways <- list(
      "clutch clusterCall" = function() clusterCall(cl, change, x),
      "clutch cluster_submit" = function() collect(cluster_submit(cl, change(x))),
      "base clusterCall" = function() clusterCall(base, change, x))
    if (with_mirai) {
      ways[["mirai, direct"]] <- function() mirai::mirai(change(x), x = x, change = change, .compute = "direct")[]
      ways[["mirai, dispatcher"]] <- function() mirai::mirai(change(x), x = x, change = change)[]
    }
    what <- paste(text_mb(size), if (f == "identity") "there and back" else "there, another vector back")
    # what takes a millisecond is measured often: the machine's own pace changes
    in_turn("trip", what, ways, switch(text_mb(size), "1 MB" = 5L * reps, "10 MB" = 3L * reps, reps),
            times = function(who) if (size == 1) 10L else 1L)
  }
}
# From which size on is it worth while to share? Here all vectors of 4 kB and more are shared, and there none.
if ("threshold" %in% asked) for (n in c(1L, 2L, 8L)) {
  sharing <- c("shared" = 4096, "not shared" = Inf)
  clusters <- lapply(sharing, function(from) {
    options(clutch.share_from = from) # what comes back is shared by the nodes
    make_cluster(n)
  })
  for (kb in 2^(if (quick) c(6, 10, 13) else 6:14)) {
    x <- as.numeric(seq_len(kb * 1024 / 8)) %% 9973
    ways <- lapply(stats::setNames(nm = names(sharing)), function(k) {
      force(k)
      function() {
        options(clutch.share_from = sharing[[k]])
        clusterCall(clusters[[k]], identity, x)
      }
    })
    in_turn("threshold", sprintf("%g kB, %d node%s", kb, n, if (n > 1L) "s" else ""), ways, 2L * reps,
            times = function(who) max(1L, as.integer(4096 / kb / n)))
  }
  for (those in clusters) stop_cluster(those)
  options(clutch.share_from = NULL)
}
# A table whose columns are somewhat larger than what is shared by default, and what a larger threshold would cost
if ("columns" %in% asked && mb >= 100) for (n in 1:2) {
  sharing <- list(c("by default" = 2.5e6, "from 8e6" = 8e6), c("by default" = 1e6, "from 2.5e6" = 2.5e6))[[n]]
  clusters <- lapply(sharing, function(from) {
    options(clutch.share_from = from)
    make_cluster(n)
  })
  d <- table_of(mb / n)
  ways <- lapply(stats::setNames(nm = names(sharing)), function(k) {
    force(k)
    function() {
      options(clutch.share_from = sharing[[k]])
      clusterCall(clusters[[k]], identity, d)
    }
  })
  in_turn("columns", sprintf("%s in 25 columns, %d node%s", text_mb(mb / n), n, if (n > 1L) "s" else ""), ways, 2L * reps)
  for (those in clusters) stop_cluster(those)
  options(clutch.share_from = NULL)
}
if ("small" %in% asked) for (size in 10^(0:5)) {
  x <- as.raw(seq_len(size) %% 251)
  ways <- list("clutch clusterCall" = function() clusterCall(cl, identity, x),
               "base clusterCall" = function() clusterCall(base, identity, x))
  if (with_mirai) ways[["mirai, direct"]] <- function() mirai::mirai(identity(x), x = x, .compute = "direct")[]
  # some sizes take base R 40 ms a way: Nagle's algorithm waits for an acknowledgement that the other end delays
  in_turn("small", paste(count_of(size), "B there and back"), ways, 2L * reps,
          times = function(who) if (startsWith(who, "base") && size >= 1000) 5L else if (quick) 50L else 200L)
}
if (any(c("back", "trip", "small") %in% asked)) {
  stop_cluster(cl)
  stopCluster(base)
  if (with_mirai) {
    mirai::daemons(0)
    mirai::daemons(0, .compute = "direct")
  }
}

# ---- strings ----

if ("strings" %in% asked && has_smaps) {
  elements <- if (quick) 1e6 else 1e7
  x <- sprintf("record %06d", seq_len(1e5))[seq_len(elements) %% 1e5 + 1]
  what <- sprintf("%s strings to 8 nodes", count_of(elements))
  # as it is, as R itself sends them, and by others
  to_cluster <- function(who, r, share_from = NULL, touch = TRUE) {
    cl <- make_cluster(8L)
    on.exit(stop_cluster(cl))
    pids <- unlist(clusterCall(cl, step_here, NULL))
    before <- dirty_mb(pids)
    was <- options(clutch.share_from = share_from)
    note("strings", what, who, r, seconds(cluster_export(cl, "x", globalenv())))
    options(was)
    note("strings", "MB of a node", who, r, dirty_mb(pids) - before)
    if (!touch) return()
    clusterCall(cl, step_here, quote(sum(nchar(x))))
    note("strings", "MB of a node, touched", who, r, dirty_mb(pids) - before)
  }
  to_mirai <- function(who, r) {
    started_mirai(8L)
    on.exit(mirai::daemons(0))
    send <- function(...) mirai::collect_mirai(mirai::everywhere(Sys.getpid(), ..., .min = 8L))
    pids <- unique(unlist(send()))
    before <- dirty_mb(pids)
    note("strings", what, who, r, seconds(send(x = x)))
    note("strings", "MB of a node", who, r, dirty_mb(pids) - before)
  }
  ways <- list("clutch cluster_export" = to_cluster,
               "clutch, not shared" = function(who, r) to_cluster(who, r, Inf, touch = FALSE))
  if (with_mirai) ways[["mirai everywhere"]] <- to_mirai
  for (r in seq_len(min(reps, 2L))) for (who in rotated(names(ways), r)) ways[[who]](who, r)
  rm(x)
}
invisible(gc())

# ---- bootstrap ----

if ("bootstrap" %in% asked) {
  who <- field(contenders)$who
  order_of_who <- union(order_of_who, who)
  results <- character()
  for (r in seq_len(if (quick) 1L else reps)) for (k in rotated(who, r)) {
    x <- figures_of(rscript, alone(k), 120)
    if (is.null(x)) next
    note("bootstrap", "seconds", k, r, as.numeric(x[[1L]]))
    results[[k]] <- x[[2L]]
  }
  if (length(unique(results)) > 1L) {
    print(results)
    stop("the results of the bootstrap differ")
  }
  if (has_smaps) for (k in who) note("bootstrap", "MB", k, 1L, peak_mb(k))
}

# ---- tables ----

raw <- do.call(rbind, rows)
# within what is compared in the order in which the contenders stand above, whoever began
raw <- raw[order(match(raw$part, parts), match(raw$what, raw$what), match(raw$who, order_of_who), raw$rep), ]
keep(raw, "data")
table <- spread(raw, c("part", "what", "who"), "value")
copy <- table[table$who == "one copy", ]
table$copies <- table$median / copy$median[match(paste(table$part, table$what), paste(copy$part, copy$what))]
show(table, "data")

of <- function(part, what, who, value = "median") {
  x <- table[[value]][table$part == part & table$what == what & table$who == who]
  if (length(x)) x[[1L]] else NA_real_
}
goal <- function(text, value, most) {
  if (is.na(value)) return(invisible())
  cat(sprintf("goal: %s at most %g: %.3g: %s\n", text, most, value, if (value <= most) "met" else "MISSED"))
}
limits <- c("2" = 1.5, "8" = 1.6, "64" = 2)
for (n in names(limits)) {
  what <- label(mb, as.integer(n))
  goal(paste(what, "by cluster_export(), in copies,"), of("export", what, "clutch cluster_export", "copies"), limits[[n]])
}
goal("1 GB to 8 nodes, in copies,", of("gigabyte", label(1000, 8L), "clutch cluster_export", "copies"), 1.6)
for (s in names(steps)) {
  # what was there before is part of what the node has made itself, too
  more <- of("memory", s, "clutch cluster_export") - of("memory", s, "made by the node, less the data")
  goal(paste0("MB of a node (", s, ") more than of plain R"), more, 1)
}
goal("ms to send again after share()", 1000 * of("again", label(mb, 8L), "after share()"), 1)
back <- paste(text_mb(mb), "back")
goal(paste0(back, ", in copies,"), of("back", back, "clutch clusterEvalQ, made there", "copies"), 1.2)
for (size in c(1, 10, 100)) {
  what <- paste(text_mb(size), "there and back")
  goal(paste(what, "over mirai's time"), of("trip", what, "clutch clusterCall") / of("trip", what, "mirai, direct"), 0.5)
}
goal("MB of a node that has a long character vector", of("strings", "MB of a node", "clutch cluster_export"), 1)
# Forks of the session need no cluster. What stands beside them in that is `cl = NULL` and mclapply() of clutch.
ways <- c("make_cluster()" = "clutch cluster_map", "cl = NULL" = "clutch, cl = NULL", "clutch::mclapply()" = "clutch mclapply")
for (k in c("base mclapply", "base + SharedObject", "mirai everywhere", "mirai + mori", "future multicore")) {
  for (way in names(ways)) {
    goal(sprintf("bootstrap by %s, time over that of %s", way, k),
      of("bootstrap", "seconds", ways[[way]]) / of("bootstrap", "seconds", k), 1)
  }
  if (k %in% c("base mclapply", "future multicore")) next # forks of the session share all of its memory
  goal(paste("bootstrap, memory over that of", k), of("bootstrap", "MB", "clutch cluster_map") / of("bootstrap", "MB", k), 1)
}

# Where sharing is quicker from one size on, and it was measured to the largest
sweep <- table[table$part == "threshold", ]
for (n in unique(sub(".*, ", "", sweep$what))) {
  t <- sweep[sub(".*, ", "", sweep$what) == n, ]
  gain <- t$median[t$who == "not shared"] / t$median[t$who == "shared"]
  kb <- as.numeric(sub(" kB.*", "", t$what[t$who == "shared"]))
  cat(n, ": time without sharing over time with it:", paste0(kb, " kB ", signif(gain, 2), collapse = ", "), "\n")
}

# ---- pictures ----

times <- table[table$part %in% c("export", "gigabyte", "back") & table$who != "one copy", ]
if (nrow(times)) {
  copies <- lapply(split(times, factor(times$what, unique(times$what))), function(t) {
    t[c("median", "min", "max")] <- t[c("median", "min", "max")] * t$copies / t$median
    t
  })
  who <- unique(times$who)
  dots_png("data.png", who, copies, "Time over one copy of the data, each panel on a scale of its own", right = 0.35)
}
memory <- table[table$part == "memory", ]
if (nrow(memory)) {
  memory[c("median", "min", "max")] <- pmax(as.matrix(memory[c("median", "min", "max")]), 0)
  dots_png("data-memory.png", unique(memory$who), split(memory, factor(memory$what, names(steps))),
           sprintf("MB of a node's own: a table and a matrix of %s, and what is computed of them", text_mb(mb)),
           zero = TRUE, right = 0.35)
}
boot <- table[table$part == "bootstrap", ]
if (nrow(boot)) {
  panels <- split(boot, factor(boot$what, unique(boot$what)))
  names(panels) <- sub("MB", "MB of all processes", names(panels))
  dots_png("data-bootstrap.png", unique(boot$who), panels,
           sprintf("%d draws of a table of %s on two processes", length(draws), text_mb(boot_mb)), zero = TRUE, right = 0.35)
}
method("data",
  what = paste("seconds until all nodes have the data, or it is back; one copy is each column duplicated into memory that",
    "is new to the process, median of five (1 GB: two);",
    "MB of a node: Private_Dirty, median of the nodes, beyond what it had before; the bootstrap's MB: Pss of all",
    "processes, the most of samples 20 ms apart, in a run of its own"),
  order = "all in turn in each repetition, another one first each time; each bootstrap in a process of its own",
  warm = "one repetition before, not counted; none for 1 GB, memory, strings and the bootstrap, whose clusters are new")
