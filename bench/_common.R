# Helpers of the measurements: one line on the machine, repetitions in turn, medians with their spread, tables, pictures.
# What they write is read by bench/report.R.

# Tables that vignettes quote. They have one home, vignettes/report/, since a source package has no bench/.
in_vignettes <- c(
  "bang.csv", "broadcast.csv", "busy.csv", "close.csv", "data.csv", "deadport.csv", "futures.csv",
  "herd-master.csv", "herd.csv", "latency.csv", "machine.csv", "memory.csv", "models.csv", "payload.csv",
  "probe.csv", "recovery.csv", "roundtrip.csv", "sockets.csv", "startup.csv", "tasks-chunks.csv",
  "tasks-uneven.csv", "tasks.csv", "tiny.csv"
)
report_folders <- c("vignettes/report", "bench/report", ".build/report")
# A file of the measurements. Raw figures, goals and methods of a script are needed until they are in the report: they are
# in .build/report/, and so is all that a script in lab/ writes.
report <- function(file) {
  script <- sub("^--file=", "", grep("^--file=", commandArgs(), value = TRUE))
  of_lab <- any(startsWith(script, "lab/"))
  is_raw <- grepl("(-raw[.]csv|-goals[.](csv|txt)|-method[.]csv)$", file)
  folder <- report_folders[if (of_lab || is_raw) 3L else if (file %in% in_vignettes) 1L else 2L]
  dir.create(folder, showWarnings = FALSE, recursive = TRUE)
  file.path(folder, file)
}

machine <- function() {
  cat(sprintf("%s, %s cores, %s, clutch %s\n\n", R.version.string, clutch::available_cores(),
              paste(Sys.info()[c("sysname", "release")], collapse = " "), utils::packageVersion("clutch")))
}

seconds <- function(expr) {
  t <- as.numeric(Sys.time()) # proc.time() counts milliseconds only
  force(expr)
  as.numeric(Sys.time()) - t
}

# Waits until these processes have ended: base R's workers end after stopCluster() has returned, and would take
# the next contender's time.
await_gone <- function(pids) {
  pids <- unlist(pids)
  end <- Sys.time() + 30
  while (any(runs_still(pids)) && Sys.time() < end) Sys.sleep(0.01)
}
# A process of which nobody has asked the exit status yet is still in /proc, but runs no program: where callr is loaded,
# the nodes of makeForkCluster() are left so.
runs_still <- function(pids) {
  program <- suppressWarnings(Sys.readlink(file.path("/proc", pids, "exe")))
  !is.na(program) & nzchar(program)
}

# ---- a process, where the system has /proc ----

# A number that it tells in its stat, by its place there: 4 the parent, 10 page faults that need no disk, 11 those of children
of_process <- function(pid, field) {
  fields <- strsplit(sub(".*\\) ", "", readLines(file.path("/proc", pid, "stat"), warn = FALSE)), " ")[[1L]]
  as.numeric(fields[[field - 2L]]) # the first two are the number and the name
}
memory_mb <- function(pid, what) {
  lines <- grep(paste0("^", what), readLines(file.path("/proc", pid, "smaps_rollup")), value = TRUE)
  sum(as.numeric(gsub("[^0-9]", "", lines))) / 1024
}
# MB that process `pid` reads or writes meanwhile; NA where the system does not tell
touched_mb <- function(pid, expr) {
  clear <- file.path("/proc", pid, "clear_refs")
  told <- file.access(clear, 2L) == 0L && !inherits(try(writeLines("1", clear), silent = TRUE), "try-error")
  force(expr)
  if (told) memory_mb(pid, "Referenced") else NA_real_
}

# A job `n` times, on a node: its seconds, and those in collections
timed_job <- function(f, n) {
  collecting <- gc.time()[[3L]]
  began <- as.numeric(Sys.time())
  for (i in seq_len(n)) f(i)
  c(as.numeric(Sys.time()) - began, gc.time()[[3L]] - collecting)
}
environment(timed_job) <- globalenv()

show <- function(table, file) {
  print(table, row.names = FALSE, digits = 3)
  cat("\n")
  utils::write.csv(table, report(paste0(file, ".csv")), row.names = FALSE)
}

# Every single figure, one a row, beside the table of medians
keep <- function(raw, file) utils::write.csv(raw, report(paste0(file, "-raw.csv")), row.names = FALSE)

# With --add: the repetitions that were measured before, and after them these. So a script that takes long
# can be run in pieces.
with_earlier <- function(raw, file, by) {
  before <- earlier(file)
  if (is.null(before)) return(raw)
  raw <- rbind(before[names(raw)], raw)
  raw$rep <- stats::ave(raw$rep, do.call(paste, c(unname(raw[by]), sep = "\r")), FUN = seq_along)
  raw
}
earlier <- function(file) {
  path <- report(paste0(file, "-raw.csv"))
  if ("--add" %in% commandArgs(TRUE) && file.exists(path)) utils::read.csv(path, stringsAsFactors = FALSE)
}
# Who begins depends on how many repetitions there were before.
turns <- function(file, reps) seq_len(reps) + max(0L, earlier(file)$rep)

# `raw`: a data frame with a row for each repetition. The median, the extremes and the number of what is in column
# `value`, for each combination of the columns `by`, in the order in which they come first.
spread <- function(raw, by, value) {
  key <- do.call(paste, c(unname(raw[by]), sep = "\r"))
  rows <- lapply(split(seq_len(nrow(raw)), factor(key, unique(key))), function(i) {
    x <- raw[[value]][i]
    x <- x[!is.na(x)]
    none <- !length(x)
    cbind(raw[i[[1L]], by, drop = FALSE], median = if (none) NA_real_ else stats::median(x),
        min = if (none) NA_real_ else min(x),
          max = if (none) NA_real_ else max(x), reps = length(x))
  })
  table <- do.call(rbind, rows)
  rownames(table) <- NULL
  table
}

# Whoever began in the last repetition is last in this one.
rotated <- function(x, r) x[(seq_along(x) + r - 2L) %% length(x) + 1L]

# The median, and an interval that has it in 95 of 100 cases, whatever the distribution is.
median_within <- function(x) {
  x <- sort(x)
  k <- max(stats::qbinom(0.025, length(x), 0.5), 1)
  c(median = stats::median(x), low = x[[k]], high = x[[length(x) + 1 - k]])
}

# Two ways of which each is measured twice: a, b, b, a, the next time the reverse. What drifts, and what every second
# measurement takes longer, is in both.
in_fours <- function(pair, r) {
  pair <- rotated(pair, r)
  c(pair, rev(pair))
}

quick <- nzchar(Sys.getenv("QUICK"))
# Repetitions: three, where a median of more is the same; who is quick, or varies more, asks for more
repetitions <- function(full = 3L, few = 2L) as.integer(option("reps", if (quick) few else full))

# How it was measured, in words for the report: repetitions, order, warm-up, what was not done
method <- function(file, ...) {
  text <- c(...)
  utils::write.csv(data.frame(what = names(text), text = unname(text)), report(paste0(file, "-method.csv")),
      row.names = FALSE)
}

has <- function(package) {
  there <- requireNamespace(package, quietly = TRUE)
  if (!there) cat("without", package, "(not installed)\n")
  there
}

# Libraries that 'tools/deps.sh newer' (kind "library") and 'tools/deps.sh models' ("models") fill: those that are there.
deps_libraries <- function(kinds = "library") {
  newer <- tryCatch(suppressWarnings(system2("tools/deps.sh", "newer-library", stdout = TRUE)), error = function(e) "")
  folders <- unlist(lapply(kinds, function(kind) sub("library-", paste0(kind, "-"), newer, fixed = TRUE)))
  folders[dir.exists(folders)]
}
# Their packages come first, here and in the processes of others that this one starts.
use_deps_libraries <- function(...) {
  .libPaths(c(deps_libraries(...), .libPaths()))
  Sys.setenv(R_LIBS = paste(.libPaths(), collapse = .Platform$path.sep))
}

# Debian's packages are for Debian's Python, which need not be the first in the path.
pythons <- function() {
  found <- unique(c("/usr/bin/python3", unname(Sys.which("python3"))))
  found[nzchar(found) & file.exists(found)]
}
# The first line that the first Python says to whom these arguments mean something, and which Python
# that is; NULL: none.
first_python <- function(args) {
  for (python in pythons()) {
    out <- suppressWarnings(system2(python, args, stdout = TRUE, stderr = FALSE))
    if (is.null(attr(out, "status")) && length(out)) return(list(python = python, says = out[[1L]]))
  }
  NULL
}

# What a command says in lines of fields between tabs, field by field; NULL when it says none, or
# failed: its last words are shown.
figures_of <- function(command, args, limit = 60) {
  errors <- tempfile()
  on.exit(unlink(errors))
  out <- suppressWarnings(system2(command, args, stdout = TRUE, stderr = errors, timeout = limit))
  if (!is.null(attr(out, "status"))) {
    cat("failed:", args, utils::tail(readLines(errors, warn = FALSE), 5L), sep = "\n")
    return(NULL)
  }
  lines <- strsplit(grep("\t", out, value = TRUE), "\t")
  if (!length(lines)) return(NULL)
  lapply(seq_along(lines[[1L]]), function(i) vapply(lines, `[[`, "", i))
}

# ---- contenders that are measured each in a process of its own ----
# For each of them the script is run again with --measure=NAME. Those of Python are measured by a script of theirs,
# which answers NAME --version where it can measure them.

# In such a process: measures that contender, and ends. Else nothing happens.
measure_alone <- function(contenders, measure) {
  name <- option("measure", "")
  if (!nzchar(name)) return(invisible())
  measure(contenders[[name]])
  quit("no")
}
rscript <- file.path(R.home("bin"), "Rscript")
# What Rscript has to be told in order to measure this contender
alone <- function(who, ...) {
  script <- sub("^--file=", "", grep("^--file=", commandArgs(), value = TRUE))[[1L]]
  c(script, shQuote(paste0("--measure=", who)), ...)
}

# The contenders that --only asks for (the beginnings of their names) and that are installed: `who`; `python`: by which
# Python, where there is one; `version`. The others are named.
field <- function(contenders, in_python = character(), python_script = NULL) {
  who <- c(names(contenders), in_python)
  asked <- strsplit(option("only", ""), ",")[[1L]]
  if (length(asked)) who <- who[vapply(who, function(k) any(startsWith(k, asked)), NA)]
  found <- lapply(stats::setNames(nm = who), function(k) {
    if (k %in% in_python) return(first_python(c(python_script, shQuote(k), "--version")))
    package <- contenders[[k]]$package
    if (!are_installed(package)) return(NULL)
    first <- if (length(package)) package[[1L]] else "base"
    list(says = as.character(utils::packageVersion(first)))
  })
  absent <- vapply(found, is.null, NA)
  if (any(absent)) cat("without", toString(who[absent]), "(not installed)\n")
  found <- found[!absent]
  list(who = who[!absent], python = lapply(found, `[[`, "python"), version = vapply(found, `[[`, "", "says"))
}
are_installed <- function(packages) all(vapply(packages, requireNamespace, NA, quietly = TRUE))

# The figures of one of them: its process is run, with these further arguments in R, or in Python.
figures_alone <- function(field, who, in_r = character(), in_python = character()) {
  python <- field$python[[who]]
  if (is.null(python)) return(figures_of(rscript, alone(who, in_r)))
  figures_of(python, c(in_python[[1L]], shQuote(who), in_python[-1L]))
}

# MB of all processes of the run of a contender in a process of its own, the most there was at a time: what they share is
# counted once (Pss).
# They are known by a variable in their environment, whoever is their parent by now.
peak_mb <- function(who, ...) {
  mark <- sprintf("CLUTCH_BENCH_RUN=%d-%d", Sys.getpid(), sample.int(1e9L, 1L))
  ended <- tempfile()
  on.exit(unlink(ended))
  before <- list.files("/proc", "^[0-9]+$")
  command <- paste(c(shQuote(rscript), alone(who, ...)), collapse = " ")
  system(paste("(", mark, command, "> /dev/null 2>&1; echo $? >", shQuote(ended), ")"), wait = FALSE)
  known <- character()
  peak <- 0
  end <- Sys.time() + 120
  while (!file.exists(ended) && Sys.time() < end) {
    # a process that has been forked, and runs no program of its own yet, has the variable a moment later
    new <- setdiff(list.files("/proc", "^[0-9]+$"), c(before, known))
    known <- c(known, new[vapply(new, has_mark, NA, mark)])
    peak <- max(peak, sum(vapply(known, pss_mb, 1)))
    Sys.sleep(0.02)
  }
  if (peak == 0) stop("no memory of ", who, " has been seen", call. = FALSE)
  peak
}
has_mark <- function(pid, mark) {
  x <- tryCatch(suppressWarnings(readBin(file.path("/proc", pid, "environ"), "raw", 1e5)), error = function(e) raw())
  length(grepRaw(mark, x, fixed = TRUE)) > 0L
}
pss_mb <- function(pid) {
  x <- tryCatch(suppressWarnings(readLines(file.path("/proc", pid, "smaps_rollup"))), error = function(e) character())
  x <- grep("^Pss:", x, value = TRUE)
  if (length(x)) as.numeric(gsub("[^0-9]", "", x[[1L]])) / 1024 else 0
}

# ---- jobs, each of which contenders do in a process of their own ----
# `jobs`: by name, `package` (those that it needs) and `what` (it is). A contender's process is told --job=NAME and prints
# seconds of its start, seconds of the job, and what the results add up to, with tabs between: these have to be the same.
# Memory is sampled in runs of their own. `but` of a contender: jobs that are not for it. Writes <name>.csv and
# <name>-jobs.csv; value: the table.
measure_jobs <- function(name, contenders, jobs, reps) {
  asked <- strsplit(option("jobs", paste(names(jobs), collapse = ",")), ",")[[1L]]
  if (length(bad <- setdiff(asked, names(jobs)))) stop("no such job: ", toString(bad), call. = FALSE)
  there <- Filter(function(j) are_installed(jobs[[j]]$package), asked)
  if (length(absent <- setdiff(asked, there))) cat("without", toString(absent), "(a package is not installed)\n")
  cases <- expand.grid(who = field(contenders)$who, job = there, stringsAsFactors = FALSE)
  cases <- cases[!mapply(function(who, job) job %in% contenders[[who]]$but, cases$who, cases$job), ]
  memory_reps <- if (file.exists("/proc/self/smaps_rollup")) as.integer(option("memory-reps", "1")) else 0L
  raw <- rbind(times_of(cases, turns(name, reps)), memory_of(cases, memory_reps))
  raw <- with_earlier(raw, name, c("job", "who", "measured"))
  raw <- raw[order(match(raw$job, names(jobs)), match(raw$who, names(contenders)), raw$rep), ]
  for (j in unique(raw$job)) if (length(unique(stats::na.omit(raw$result[raw$job == j]))) > 1L) {
    print(unique(raw[raw$job == j, c("who", "result")]))
    stop("the results of ", j, " differ")
  }
  keep(raw, name)
  raw$all_s <- raw$start_s + raw$run_s
  table <- do.call(rbind, lapply(c("start_s", "run_s", "all_s", "mb"), function(what) {
    cbind(what = what, spread(raw, c("job", "who"), what))
  }))
  table <- table[table$reps > 0L, ]
  utils::write.csv(table, report(paste0(name, ".csv")), row.names = FALSE)
  what <- vapply(jobs, `[[`, "", "what")
  utils::write.csv(data.frame(job = names(what), what = unname(what)), report(paste0(name, "-jobs.csv")),
                   row.names = FALSE)
  for (j in unique(table$job)) {
    cat(j, "\n")
    print(as_matrix(table[table$job == j, ], "who", "what"), digits = 3)
  }
  table
}
times_of <- function(cases, reps) {
  rows <- lapply(reps, function(r) lapply(rotated(seq_len(nrow(cases)), r), function(i) {
    x <- figures_of(rscript, alone(cases$who[i], paste0("--job=", cases$job[i])), 120)
    if (is.null(x)) return(NULL)
    data.frame(job = cases$job[i], who = cases$who[i], start_s = as.numeric(x[[1L]]), run_s = as.numeric(x[[2L]]),
               result = x[[3L]], measured = "time", rep = r, mb = NA_real_)
  }))
  do.call(rbind, unlist(rows, recursive = FALSE))
}
memory_of <- function(cases, reps) {
  rows <- lapply(seq_len(reps), function(r) lapply(seq_len(nrow(cases)), function(i) {
    data.frame(job = cases$job[i], who = cases$who[i], start_s = NA_real_, run_s = NA_real_, result = NA_character_,
               measured = "memory", rep = r, mb = peak_mb(cases$who[i], paste0("--job=", cases$job[i])))
  }))
  do.call(rbind, unlist(rows, recursive = FALSE))
}

# How many more connections this R can open: 128 in all before R 4.4, and the default since. Nobody says so but the error.
connections_left <- function() {
  cons <- list()
  on.exit(for (con in cons) close(con))
  while (length(cons) < 5000L) {
    con <- tryCatch(file(), error = function(e) NULL)
    if (is.null(con)) break
    cons[[length(cons) + 1L]] <- con
  }
  length(cons)
}

option <- function(name, default) {
  hit <- grep(paste0("^--", name, "="), commandArgs(TRUE), value = TRUE)
  if (length(hit)) sub("^[^=]*=", "", hit[[1L]]) else default
}

picture <- function(file, draw, width = 1000, height = 640) {
  path <- report(file)
  grDevices::png(path, width, height, res = 110, type = if (capabilities("cairo")) "cairo" else "Xlib")
  tryCatch(draw(), finally = grDevices::dev.off())
  cat("plot:", path, "\n")
}

# Numbers as people write them: 0.01, 100, 10,000, 1 M
axis_labels <- function(at) {
  million <- at >= 1e6
  x <- format(ifelse(million, at / 1e6, at), big.mark = ",", scientific = FALSE, drop0trailing = TRUE, trim = TRUE)
  paste0(x, ifelse(million, " M", ""))
}
# All ticks have their labels: where those would not fit beside each other there are fewer ticks.
log_axis <- function(side, at = NULL) {
  usr <- graphics::par("usr")[if (side %% 2) 1:2 else 3:4]
  if (is.null(at)) {
    at <- 10^seq(ceiling(usr[[1L]]), floor(usr[[2L]]))
    if (length(at) < 3L) at <- sort(c(at, 3 * 10^seq(floor(usr[[1L]]), floor(usr[[2L]]))))
    # less than a power of ten
    if (sum(log10(at) >= usr[[1L]] & log10(at) <= usr[[2L]]) < 2L) at <- pretty(10^usr, 3)
    at <- at[log10(at) >= usr[[1L]] & log10(at) <= usr[[2L]]]
  }
  text <- vapply(at, axis_labels, "")
  if (side %% 2) at <- at[fitting(log10(at), graphics::strwidth(paste0(text, "n"), "inches") *
                                    diff(usr) / graphics::par("pin")[[1L]])]
  # axis() itself leaves out labels that are near to each other
  graphics::axis(side, at, FALSE)
  # in pictures of several panels all letters are smaller, but mtext() would not know
  graphics::mtext(vapply(at, axis_labels, ""), side, line = graphics::par("mgp")[[2L]], at = at,
                  cex = graphics::par("cex"))
}
# Those of the positions `at`, labels of these widths in their middle, that do not overlap with one kept before.
fitting <- function(at, width) {
  kept <- integer()
  for (i in order(at)) {
    before <- kept[length(kept)]
    if (!length(before) || at[i] - at[before] > (width[i] + width[before]) / 2) kept <- c(kept, i)
  }
  kept
}

# One colour a package in all pictures, of the palette of Okabe and Ito, which the colour-blind can tell apart.
package_colours <- c(clutch = "#0072B2", base = "#E69F00", mirai = "#009E73", parallelly = "#CC79A7", callr = "#56B4E9",
                     Erlang = "#D55E00", future = "#882255", furrr = "#AA4499", snow = "#999933",
                     Python = "#000000")
# The first of these packages that a name begins with; NA: none of them.
package_of <- function(names) {
  hits <- vapply(names(package_colours), function(p) startsWith(names, p), logical(length(names)))
  names(package_colours)[apply(matrix(hits, length(names)), 1L, function(h) which(h)[1L])]
}
# How series of these names look: several of one package differ in lightness, kind of line and mark; those of no package are grey.
looks <- function(names) {
  package <- package_of(names)
  key <- ifelse(is.na(package), "", package)
  nth <- stats::ave(seq_along(names), key, FUN = seq_along)
  of <- stats::ave(seq_along(names), key, FUN = length)
  col <- ifelse(is.na(package), "#555555", unname(package_colours[package]))
  list(col = mapply(lighter, col, 0.45 * (nth - 1) / pmax(of - 1, 1), USE.NAMES = FALSE), lty = (nth - 1L) %% 6L + 1L,
       pch = c(16, 17, 15, 18, 1, 2, 0, 5)[(nth - 1L) %% 8L + 1L])
}
lighter <- function(col, by) {
  rgb <- grDevices::col2rgb(col)
  grDevices::rgb(t(rgb + (255 - rgb) * by), maxColorValue = 255)
}

# Lines over a log-log plane, each with its name at its right end. `x`: common; `ys`: named list. `low` and `high`: the
# same of the extremes, drawn as a band.
lines_png <- function(file, x, ys, xlab, ylab, main, low = NULL, high = NULL) picture(file, function() {
  long <- max(nchar(names(ys)))
  graphics::par(mar = c(4.2, 5.5, 3, max(6, 0.6 * long)), las = 1)
  graphics::plot(range(x), range(unlist(ys), unlist(low), unlist(high), na.rm = TRUE), type = "n", log = "xy",
      xlab = xlab,
                 ylab = "", main = main, bty = "l", axes = FALSE)
  graphics::box(bty = "l")
  log_axis(1, if (length(x) <= 9L) x)
  log_axis(2)
  graphics::title(ylab = ylab, line = 4.2)
  look <- looks(names(ys))
  cols <- look$col
  last <- vapply(ys, function(y) y[max(which(!is.na(y)))], 1)
  at <- apart(log10(last), diff(graphics::par("usr")[3:4]) * 0.05, graphics::par("usr")[3:4])
  for (i in seq_along(ys)) if (!is.null(low)) {
    ok <- !is.na(low[[i]]) & !is.na(high[[i]])
    graphics::polygon(c(x[ok], rev(x[ok])), c(low[[i]][ok], rev(high[[i]][ok])), border = NA,
                      col = grDevices::adjustcolor(cols[i], 0.2))
  }
  for (i in seq_along(ys)) {
    graphics::lines(x, ys[[i]], type = "b", pch = look$pch[i], lty = look$lty[i], col = cols[i], lwd = 2)
    graphics::mtext(names(ys)[i], side = 4, at = 10^at[[i]], col = cols[i], line = 0.5)
    # a line that ends early, or whose name had to move, is led to it
    end <- max(which(!is.na(ys[[i]])))
    graphics::segments(x[end], ys[[i]][end], 10^(graphics::par("usr")[[2L]] + 0.01), 10^at[[i]], lty = 3, xpd = NA,
                       col = grDevices::adjustcolor(cols[i], 0.7))
  }
})

# Labels that would overlap move apart, and all of them stay within `range`.
apart <- function(at, gap, range) {
  o <- order(at)
  for (k in seq_along(o)[-1L]) at[o[k]] <- max(at[o[k]], at[o[k - 1L]] + gap)
  over <- max(at) - range[[2L]]
  if (over > 0) for (k in rev(seq_along(o)))
    at[o[k]] <- min(at[o[k]], if (k == length(o)) range[[2L]] else at[o[k + 1L]] - gap)
  at
}

private_mb <- function(pids) {
  stats::median(vapply(pids, function(p) {
    l <- grep("^Private_", readLines(file.path("/proc", p, "smaps_rollup")), value = TRUE)
    sum(as.numeric(gsub("[^0-9]", "", l[!grepl("Hugetlb", l)]))) / 1024
  }, 1))
}

# Microseconds, by the clock with the finest grain that R has
us <- function(expr) {
  t <- as.numeric(Sys.time())
  force(expr)
  1e6 * (as.numeric(Sys.time()) - t)
}

# Bars in groups: `m` has a column for each group and a row for each who. `low` and `high`: the extremes. `bar`: a line
# across. Numbers above say what the axis says only roughly. The length of a bar means something from 0 on: where the
# smallest could not be seen then (not with `zero`) the axis is a logarithm's, and there are points in place of bars.
bars_png <- function(file, m, ylab, main, bar = NULL, low = NULL, high = NULL, zero = FALSE) picture(file, function() {
  several <- nrow(m) > 1L
  graphics::par(mar = c(4.5, 6.8, if (several) 5 else 3, 1), las = 1, mgp = c(3, 1.2, 0))
  top <- max(m, high, bar, na.rm = TRUE)
  logarithm <- !zero && max(m, na.rm = TRUE) > 40 * min(m, na.rm = TRUE)
  bottom <- if (logarithm) 10^floor(log10(min(m, low, na.rm = TRUE)) - 0.02) else 0
  cols <- bar_colours(m)
  at <- graphics::barplot(m, beside = TRUE, plot = FALSE)
  graphics::plot.default(range(at) + c(-1, 1), c(bottom, if (logarithm) top * (top / bottom)^0.08 else 1.1 * top), type = "n", axes = FALSE,
                         xlab = "", ylab = "", log = if (logarithm) "y" else "", yaxs = "i")
  if (logarithm) log_axis(2) else {
    ticks <- pretty(c(0, top))
    graphics::axis(2, ticks[ticks <= graphics::par("usr")[[4L]]], axis_labels(ticks[ticks <= graphics::par("usr")[[4L]]]))
  }
  if (logarithm) graphics::abline(h = 10^seq(ceiling(log10(bottom)), floor(log10(top))), col = "#dddddd")
  if (!is.null(bar)) graphics::abline(h = bar, lty = 2)
  if (!is.null(low)) graphics::segments(at, low, at, high, lwd = 1.5, col = if (logarithm) cols else "black")
  if (logarithm) graphics::points(at, m, pch = 19, col = cols, cex = 1.8)
  else graphics::rect(at - 0.5, 0, at + 0.5, m, col = cols, border = NA)
  if (!logarithm && !is.null(low)) graphics::segments(at, low, at, high, lwd = 1.5)
  group_names(colnames(m), colMeans(at))
  graphics::title(main, line = if (several) 3.2 else 1.2)
  graphics::title(ylab = ylab, line = 5.6)
  if (several) graphics::legend("top", rownames(m), fill = bar_colours(m, legend = TRUE), border = NA, bty = "n", horiz = TRUE,
      xpd = NA, inset = -0.13)
  above <- if (is.null(high)) m else pmax(m, high, na.rm = TRUE)
  text <- ifelse(is.na(m), "", trimws(formatC(m, digits = 3, format = "fg", big.mark = ",")))
  # neighbours are one unit apart
  cex <- min(if (length(m) > 16L) 0.65 else 0.75, 0.92 / max(graphics::strwidth(text)))
  graphics::text(at, above, text, pos = 3, cex = cex, xpd = NA)
})

# Of the bars of `m`, in its order: by the packages that its rows are named for, or else its columns, whose rows differ in
# lightness. `legend`: of the rows alone.
bar_colours <- function(m, legend = FALSE) {
  if (!is.null(rownames(m)) && !anyNA(package_of(rownames(m)))) return(if (legend) looks(rownames(m))$col else rep(looks(rownames(m))$col, ncol(m)))
  by <- 0.6 * (rev(seq_len(nrow(m))) - 1) / max(nrow(m) - 1, 1)
  if (legend) return(vapply(by, function(b) lighter("#555555", b), ""))
  package <- package_of(colnames(m))
  col <- ifelse(is.na(package), "#555555", package_colours[package])
  unlist(lapply(col, function(k) vapply(by, function(b) lighter(k, b), "")))
}

# Names below groups, each in as many lines as it needs in order not to touch its neighbours.
group_names <- function(names, at) {
  cex <- if (length(names) > 5L) 0.75 else 0.9
  room <- if (length(at) > 1L) min(diff(at)) * 0.95 else diff(graphics::par("usr")[1:2])
  wide <- function(n) max(graphics::strwidth(strwrap(names, n), cex = cex))
  n <- max(nchar(names)) + 1L
  while (n > 6L && wide(n) > room) n <- n - 1L
  graphics::mtext(vapply(names, function(x) paste(strwrap(x, n), collapse = "\n"), ""), 1, line = 0.5, at = at, cex = cex, padj = 1)
}

# A summary of spread() as a matrix for the pictures: a row for each value of `who`, a column for each of `what`
as_matrix <- function(table, who, what, value = "median") {
  rows <- unique(as.character(table[[who]]))
  cols <- unique(as.character(table[[what]]))
  m <- matrix(NA_real_, length(rows), length(cols), dimnames = list(rows, cols))
  m[cbind(match(table[[who]], rows), match(table[[what]], cols))] <- table[[value]]
  m
}

# This machine's addresses that are not loopback ones
local_addresses <- function() {
  out <- tryCatch(suppressWarnings(system2("hostname", "-I", stdout = TRUE, stderr = FALSE)),
      error = function(e) character())
  a <- unlist(strsplit(out, " +"))
  a[grepl("^[0-9.]+$", a)]
}

descriptors <- function() if (dir.exists("/proc/self/fd")) length(list.files("/proc/self/fd")) else NA_integer_

# Points with their ranges, a row for each of `who`, a panel for each of `panels` (tables with who,
# median, min, max) on a scale of its own: a logarithm's, but from 0 where `zero`.
dots_png <- function(file, who, panels, main, zero = FALSE, right = 0.25) {
  draw_panel <- function(t, title) {
    t <- t[match(who, t$who), ]
    y <- rev(seq_along(who))
    col <- looks(who)$col
    low <- if (zero) 0 else min(t$min, na.rm = TRUE)
    top <- max(t$max, na.rm = TRUE)
    # room on the right for the numbers
    top <- if (zero) top * (1 + right) else top * (top / low)^right
    graphics::plot.default(c(low, top), c(0.5, length(who) + 0.5), type = "n", axes = FALSE, xlab = "",
                           ylab = "", log = if (zero) "" else "x")
    graphics::abline(h = y, col = "#eeeeee")
    if (zero) graphics::axis(1) else log_axis(1)
    graphics::mtext(title, 3, line = 0.6, cex = 0.75)
    graphics::segments(t$min, y, t$max, y, col = col, lwd = 2)
    graphics::points(t$median, y, pch = 19, col = col, cex = 1.2)
    text <- trimws(formatC(t$median, digits = 3, format = "fg", big.mark = ","))
    graphics::text(t$max, y, ifelse(is.na(t$median), "", text), pos = 4, cex = 0.8, xpd = NA)
    invisible(y)
  }
  picture(file, function() {
    wide <- 0.62 * max(nchar(who))
    share <- wide / 7 + 2
    graphics::layout(matrix(seq_len(length(panels) + 1L), 1L), widths = c(share, rep(4, length(panels))))
    graphics::par(oma = c(0, 0, 2.5, 0), las = 1, mar = c(3, 0, 2.5, 0))
    graphics::plot.default(0:1, c(0.5, length(who) + 0.5), type = "n", axes = FALSE, xlab = "", ylab = "")
    graphics::text(0.98, rev(seq_along(who)), who, adj = 1, cex = 1.05)
    graphics::par(mar = c(3, 0.8, 2.5, 1.2))
    for (k in names(panels)) draw_panel(panels[[k]], k)
    graphics::mtext(main, outer = TRUE, line = 0.8, font = 2)
  }, 320 + 260 * length(panels), 130 + 32 * length(who))
}
