# Maps whose tasks do not fit into memory side by side: are all done, who is killed, and how long does it take, beside the
# best fixed number of nodes? Beside them base R's mclapply(), and mirai and future where they are installed.
#
# Each row is a session of its own in a control group with a limit of memory, where one can be made (Linux, as root);
# where none can, option clutch.memory is the limit, and peers, which know no limit, are left out.
#
#   QUICK=1 Rscript bench/fit.R [--rows=fixed,ours,mixed,two,alone,foreign,cores,idle,cost,peers]
source("bench/_common.R")
suppressPackageStartupMessages(library(clutch))
machine()
rows <- strsplit(option("rows", "fixed,ours,mixed,two,alone,foreign,cores,idle,cost,peers"), ",")[[1L]]
n_tasks <- if (quick) 16L else 64L
n_mixed <- if (quick) 60L else 500L

# ---- a session with a limit ----

can_limit <- local({
  folder <- file.path("/sys/fs/cgroup/memory", basename(tempfile("clutch-")))
  ok <- suppressWarnings(dir.create(folder, showWarnings = FALSE)) &&
    file.exists(file.path(folder, "memory.limit_in_bytes"))
  if (dir.exists(folder)) system2("rmdir", folder)
  ok
})
limit_is <- if (can_limit) "a control group" else "option clutch.memory"

# What a session prints as `name=value`, and `kills`: by the system's killer. `n`: so many such sessions at once.
# `beside`: lines of another script that runs in the same group, as often as `times` says.
session_with <- function(mb, lines, n = 1L, beside = NULL, times = 0L) {
  lib <- sprintf(".libPaths(%s)", deparse1(.libPaths()))
  budget <- if (!can_limit) sprintf("options(clutch.memory = %.0f)", mb * 1e6)
  script <- function(lines) {
    file <- tempfile(fileext = ".R")
    writeLines(lines, file)
    file
  }
  ours <- c(lib, "suppressPackageStartupMessages(library(clutch))", budget, lines)
  scripts <- c(vapply(seq_len(n), function(k) script(ours), ""),
               vapply(seq_len(times), function(k) script(c(sprintf("set.seed(%d)", k), beside)), ""))
  rscript <- shQuote(file.path(R.home("bin"), "Rscript"))
  runs <- paste(sprintf("%s --vanilla %s > %s.out 2>&1 &", rscript, scripts, scripts), collapse = "\n")
  group <- file.path("/sys/fs/cgroup/memory", basename(tempfile("clutch-")))
  limit <- if (can_limit) c(
    sprintf("mkdir %s && echo %.0f > %s/memory.limit_in_bytes", group, mb * 1e6, group),
    sprintf("echo $$ > %s/cgroup.procs", group))
  after <- if (can_limit) sprintf("sed -n 's/^oom_kill /kills=/p' %s/memory.oom_control", group)
  shell <- tempfile(fileext = ".sh")
  writeLines(c(limit, runs, "wait", after), shell)
  said <- system2("bash", shell, stdout = TRUE)
  for (try in 1:50) if (!can_limit || system2("rmdir", group, stderr = FALSE) == 0L) break else Sys.sleep(0.1)
  said <- c(said, unlist(lapply(paste0(scripts, ".out"), readLines, warn = FALSE)))
  said <- grep("^[a-z]+=", said, value = TRUE)
  split(sub("^[a-z]+=", "", said), sub("=.*", "", said))
}

# A map of tasks that each hold so many MB for 0.3 s. Prints what became of it.
map_of <- function(nodes, sizes, hold = 0.3, memory = "TRUE") {
  c(sprintf("options(clutch.memory = if (%s) getOption('clutch.memory') else FALSE)", memory),
    sprintf("cl <- make_cluster(%d)", nodes),
    "before <- cluster_status(cl)$pid",
    sprintf("sizes <- %s", sizes),
    sprintf("f <- function(mb) { x <- rep(1, mb * 1e6 / 8); Sys.sleep(%g); length(x) }", hold),
    "t <- Sys.time()",
    "x <- suppressMessages(suppressWarnings(cluster_map(cl, sizes, f, .on_error = 'continue')))",
    "cat('seconds=', format(as.numeric(Sys.time() - t, units = 'secs')), '\\n', sep = '')",
    "right <- vapply(seq_along(x), function(k) identical(x[[k]], as.integer(sizes[[k]] * 1e6 / 8)), NA)",
    "cat('right=', sum(right), '\\n', sep = '')",
    "tr <- cluster_trace(cl)",
    "cat('retries=', sum(tr$attempt > 1), '\\n', sep = '')",
    "cat('deaths=', nrow(attr(tr, 'deaths')), '\\n', sep = '')",
    "bad <- which(!right)[1]",
    "if (!is.na(bad)) cat('error=', conditionMessage(x[[bad]]), '\\n', sep = '')")
}

out <- list()
note <- function(what, who, of, r) {
  one <- function(name) if (is.null(r[[name]])) NA_real_ else max(as.numeric(r[[name]]))
  rep <- sum(vapply(out, function(x) x$what == what && x$who == who, NA)) + 1L
  row <- data.frame(what = what, who = who, rep = rep, seconds = one("seconds"), tasks = of,
                    right = if (is.null(r$right)) 0 else min(as.numeric(r$right)), deaths = one("deaths"),
                    kills = one("kills"), retries = one("retries"))
  out[[length(out) + 1L]] <<- row
  print(row, row.names = FALSE)
}
cat("the limit is", limit_is, "\n")

# ---- 900 MB, 64 tasks of 200 MB ----

case <- sprintf("rep(200, %d)", n_tasks)
if ("fixed" %in% rows) for (k in if (quick) 2:3 else 1:8)
  note("200 MB each in 900 MB", sprintf("%d nodes, nobody looks", k), n_tasks,
       session_with(900, map_of(k, case, memory = "FALSE")))
if ("ours" %in% rows) for (k in 1:3)
  note("200 MB each in 900 MB", "8 nodes", n_tasks, session_with(900, map_of(8, case)))

# ---- 2 GB, tasks of 10 to 400 MB ----

mixed <- sprintf("{ set.seed(1); round(runif(%d, 10, 400)) }", n_mixed)
if ("mixed" %in% rows) {
  note("10 to 400 MB in 2 GB", "16 nodes", n_mixed, session_with(2000, map_of(16, mixed, 0.05)))
  # four have room most of the time, so this is what the best order could reach; more are killed
  for (k in 3:4) note("10 to 400 MB in 2 GB", sprintf("%d nodes, nobody looks", k), n_mixed,
                      session_with(2000, map_of(k, mixed, 0.05, memory = "FALSE")))
}

# ---- two sessions in one group ----

if ("two" %in% rows && can_limit)
  note("two sessions in 900 MB", "8 nodes each", n_tasks, session_with(900, map_of(8, case), 2L))

# ---- programs of others that take memory and cores, and come and go ----

# Seconds that its work takes, without the pauses.
foreign <- c(
  "work <- 0",
  "for (k in 1:12) {",
  "  Sys.sleep(runif(1, 0.1, 0.8))",
  "  t <- proc.time()[[3]]",
  "  x <- rep(1, 5e6)",
  "  for (i in 1:20) s <- sum(sqrt(x[1:1e6]))",
  "  work <- work + proc.time()[[3]] - t",
  "  x <- NULL",
  "  gc()",
  "}",
  "cat('work=', work, '\\n', sep = '')")
# What two other programs of the lowest priority take from them, which know of nobody.
hogs <- c(
  "tools::psnice(value = 19)",
  "end <- Sys.time() + 20",
  "while (Sys.time() < end) { x <- rep(1, 200e6 / 8); Sys.sleep(0.3); x <- NULL; gc() }",
  "cat('seconds=20\\n')")
if ("foreign" %in% rows) for (rep in seq_len(if (quick) 1L else 3L)) for (k in c(1L, 4L, 8L)) {
  mb <- 900 + 90 * k # an R and its vector: what they have is none of ours
  alone <- session_with(mb, "cat('seconds=0\\n')", beside = foreign, times = k)
  polite <- c("options(clutch.polite = TRUE)", map_of(8, case))
  r <- session_with(mb, polite, beside = foreign, times = k)
  note(sprintf("200 MB each in %d MB, beside %d others", mb, k), "8 nodes, polite", n_tasks, r)
  mean_of <- function(x) mean(as.numeric(x$work))
  note("work of the others", sprintf("%d alone", k), k, list(seconds = mean_of(alone), right = length(alone$work)))
  note("work of the others", sprintf("%d beside the map", k), k, list(seconds = mean_of(r), right = length(r$work)))
  r <- session_with(mb, hogs, 2L, beside = foreign, times = k)
  note("work of the others", sprintf("%d beside two R of nice 19", k), k,
       list(seconds = mean_of(r), right = length(r$work)))
}

# ---- cores as a budget ----

# Tasks of so many seconds of one core, that use as many cores as they are given. The machine need not have these.
run_cores <- function(cl, cores, work) {
  f <- function(work) {
    n <- task_resources()$cores
    begin <- as.numeric(Sys.time())
    Sys.sleep(work / n)
    c(begin, as.numeric(Sys.time()), n)
  }
  s <- seconds(x <- cluster_map(cl, rep(work, length(cores)), f, .needs = list(cores = cores)))
  x <- do.call(rbind, x)
  at_once <- vapply(x[, 1L], function(t) sum(x[x[, 1L] <= t & t < x[, 2L], 3L]), 1)
  list(seconds = s, most = max(at_once))
}
if ("cores" %in% rows) {
  cl <- make_cluster(8, resources = list(cores = 8))
  invisible(run_cores(cl, rep(1, 8), 0.01))
  for (n in c(8, 9)) {
    r <- run_cores(cl, rep(1, n), 1)
    note(sprintf("%d equal tasks on 8 cores", n), sprintf("most cores in use: %g", r$most), n,
         list(seconds = r$seconds, right = n))
  }
  stop_cluster(cl)
  cl <- make_cluster(4, resources = list(cores = 4))
  r <- run_cores(cl, rep(c(1, 2, 1, 2, 1), 8), 0.2)
  note("24 tasks of 1 core, 16 of 2, on 4", sprintf("most cores in use: %g", r$most), 40L,
       list(seconds = r$seconds, right = 40L))
  stop_cluster(cl)
}

# ---- a cluster that has nothing to do ----

# How often threads were woken in 20 seconds, of the session and of all that it has started.
if ("idle" %in% rows && dir.exists("/proc/self/task")) {
  idle <- session_with(2000, c(
    "cl <- make_cluster(4)", "invisible(cluster_map(cl, 1:20, function(i) { x <- rep(1, 5e6); Sys.sleep(0.05) }))",
    "pids <- c(Sys.getpid(), cluster_status(cl)$pid,",
    "          as.integer(system(paste('pgrep -P', Sys.getpid()), intern = TRUE)))",
    "woken <- function() sum(vapply(pids, function(p) {",
    "  files <- Sys.glob(file.path('/proc', p, 'task', '*', 'status'))",
    "  lines <- unlist(lapply(files, readLines))",
    "  sum(as.numeric(sub('.*:', '', grep('^voluntary_ctxt_switches', lines, value = TRUE))))",
    "}, 1))",
    "Sys.sleep(3); before <- woken(); Sys.sleep(20); cat('woken=', woken() - before - 1, '\\n', sep = '')"))
  cat("idle for 20 s: woken", idle$woken, "times\n")
}

# ---- one that does not fit alone ----

if ("alone" %in% rows) {
  r <- session_with(900, map_of(4, "c(rep(20, 4), 2000, rep(20, 11))"))
  note("one of 2 GB in 900 MB", "4 nodes", 16L, r)
  cat("  ", r$error, "\n")
}

# ---- cost where nothing is short ----

# Seconds of tiny tasks.
if ("cost" %in% rows) {
  cl <- make_cluster(2)
  million <- if (quick) 1e5 else 1e6
  f <- function(i) NULL
  environment(f) <- globalenv()
  invisible(cluster_map(cl, seq_len(million), f)) # the first is slower
  for (look in rep(c("TRUE", "FALSE"), repetitions(15L))) {
    options(clutch.memory = as.logical(look))
    s <- seconds(cluster_map(cl, seq_len(million), f))
    note("a million no-ops", if (look == "TRUE") "with the watch" else "without", million,
         list(seconds = s, right = million))
  }
  options(clutch.memory = NULL)
  stop_cluster(cl)
}

# ---- others ----

peer <- function(name, lines) {
  c("f <- function(mb) { x <- rep(1, mb * 1e6 / 8); Sys.sleep(0.3); length(x) }", sprintf("sizes <- %s", case),
    "t <- Sys.time()", "x <- tryCatch({", lines, "}, error = function(e) list())",
    "cat('seconds=', format(as.numeric(Sys.time() - t, units = 'secs')), '\\n', sep = '')",
    "cat('right=', sum(vapply(x, identical, NA, 25000000L)), '\\n', sep = '')")
}
if ("peers" %in% rows && can_limit) {
  note("200 MB each in 900 MB", "parallel::mclapply()", n_tasks,
       session_with(900, peer("base", "suppressWarnings(parallel::mclapply(sizes, f, mc.cores = 8))")))
  if (requireNamespace("mirai", quietly = TRUE))
    note("200 MB each in 900 MB", "mirai", n_tasks, session_with(900, peer("mirai", c(
      "mirai::daemons(8)", "m <- mirai::mirai_map(sizes, f)",
      "end <- Sys.time() + 120", "while (mirai::unresolved(m) && Sys.time() < end) Sys.sleep(0.1)",
      "lapply(m, function(x) if (mirai::unresolved(x)) NULL else x$data)"))))
  if (requireNamespace("future.apply", quietly = TRUE))
    note("200 MB each in 900 MB", "future.apply, multicore", n_tasks, session_with(900, peer("future", c(
      "future::plan(future::multicore, workers = 8)", "future.apply::future_lapply(sizes, f)"))))
}

raw <- do.call(rbind, out)
keep(raw, "fit")
table <- spread(raw, c("what", "who"), "seconds")
sums <- stats::aggregate(cbind(tasks, right, deaths, kills, retries) ~ what + who, raw, sum, na.action = stats::na.pass)
table <- cbind(table, sums[match(paste(table$what, table$who), paste(sums$what, sums$who)), -(1:2)])
show(table, "fit")

# The least of those whose `who` is like that
of <- function(what, who) {
  x <- table[table$what == what & grepl(who, table$who), ]
  if (nrow(x)) min(x$median) else NA_real_
}
# Without a kill
fixed <- table[table$what == "200 MB each in 900 MB" & grepl("nobody", table$who) & table$kills %in% 0, ]
ours <- table[table$what == "200 MB each in 900 MB" & table$who == "8 nodes", ]
goal <- function(text, x, limit) {
  if (length(x) && !is.na(x)) sprintf("%s at most %g: %.3g: %s", text, limit, x, if (x <= limit) "met" else "MISSED")
}
goals <- c(
  goal("tasks of 200 MB in 900 MB: time beside the best number of nodes",
       if (nrow(fixed)) ours$median / min(fixed$median), 1.3),
  goal("tasks that are killed, repeated or wrong there", ours$kills + ours$retries + ours$tasks - ours$right, 0),
  goal("tasks of 10 to 400 MB in 2 GB: time beside the best order", of("10 to 400 MB in 2 GB", "16 nodes") /
         of("10 to 400 MB in 2 GB", "nobody"), 1.25),
  goal("9 equal tasks on 8 cores beside 8", of("9 equal tasks on 8 cores", "") / of("8 equal tasks on 8 cores", ""), 1.3),
  unlist(lapply(c(1, 4, 8), function(k) {
    goal(sprintf("work of %g programs of others beside the map and alone", k),
         of("work of the others", sprintf("^%g beside the map", k)) / of("work of the others", sprintf("^%g alone", k)), 1.1)
  })),
  goal("a million no-ops with the watch and without", of("a million no-ops", "with the") /
         of("a million no-ops", "without"), 1.01))
if (length(goals)) cat("goals:", paste(goals, collapse = "; "), "\n")
method("fit",
  what = "seconds of a map, and who is killed, by the system's count of the control group",
  order = "one after the other, each in a session and a control group of its own", warm = "none")
