# Sections of the report on the field: what a start and a task cost in other packages and in Python,
# submitted while the session computes, real work. As bench/_sections.R, which is read before.

sections$peers <- list(
  title = "A start and a task, in R and in Python", scripts = "peers",
  peers = c("mirai", "callr", "future", "future.apply", "furrr", "snow", "Python", "joblib", "Dask"),
  no_text = TRUE,
  question = paste("What does it cost to start processes, to have one task done, and each of many, in clutch and in",
    "what else there is?"),
  tables = list(list(
    caption = paste("*Start*: milliseconds until 2, and 8, processes have each answered. *One*: microseconds of one",
      "no-op and back. *Submitted*: microseconds of each of many no-ops that are objects of their own, submitted",
      "and then collected. *By a map*: the same by the function for that, handed out one by one.",
      "*In chunks*: nanoseconds of each of many no-ops. On two processes. `-`: there is no such function."),
    make = function() {
      t <- read("peers.csv")
      column <- function(what, unit) {
        x <- t[t$what == what, ]
        for (k in c("median", "min", "max")) x[[k]] <- x[[k]] * unit
        x <- cell(x)[match(who, t$who[t$what == what])]
        ifelse(is.na(x), "-", x)
      }
      who <- unique(t$who)
      data.frame(language = t$language[match(who, t$who)], who = who, version = t$version[match(who, t$who)],
        "start of 2, ms" = column("start2", 1e3), "start of 8, ms" = column("start8", 1e3),
        "one, us" = column("one", 1e6), "submitted, us" = column("submit", 1e6),
        "by a map, us" = column("each", 1e6), "in chunks, ns" = column("chunks", 1e9), check.names = FALSE)
    })),
  plots = c("peers.png" = "Start and cost of a task, each panel on a logarithmic scale of its own"),
  compares = paste("each package's own functions with its own defaults. *One* is `collect(cluster_submit())` of clutch,",
    "`clusterCall(cl[1])` of packages parallel and snow, `mirai()[]`, `value(future())`, `$run()` of a session of",
    "callr, `mccollect(mcparallel())`, `submit().result()` in Python. *By a map* is `cluster_map(.chunk = 1)`,",
    "`clusterApplyLB()`, `mclapply(mc.preschedule = FALSE)`, `mirai_map()`, `future_lapply(future.chunk.size = 1)`,",
    "`future_map()` with chunks of one, `map()` of an executor, `Parallel(batch_size = 1)`, `map()` of Dask's client.",
    "*In chunks* are their defaults; for mirai and Dask, which have none, eight chunks made by hand. Each clutch task",
    "has its globals found, random numbers of its own, its output and conditions relayed, and survives the death of",
    "another; future does the same but for deaths. `clusterCall()`, mirai and Python send what they are given."),
  better = c(
    paste("Python's executors start as forks of a smaller process, and their tasks cost less than most of R's: pickling a",
      "function is sending its name."),
    paste("future is one interface to many ways of computing, on one machine and on clusters; it finds globals, and",
      "relays output and conditions. It launches each future by itself, and so is meant for tasks that take longer."),
    paste("Dask schedules graphs of tasks that depend on each other, on many machines, with a page that shows them; its",
      "own documentation advises tasks of more than 100 ms or so."),
    "joblib chooses the size of batches by itself, and puts large arrays into memory that all processes map.",
    "`mclapply()` needs nothing sent to its processes: each is a copy of the session.",
    "mirai's tasks are waited for without asking again and again, also over the network and over TLS."),
  shows = function() {
    t <- read("peers.csv")
    of <- function(who, what, unit) num(unit * get_median(t, who = who, what = what))
    sentences(
      sprintf(paste("One task and back takes %s us by `cluster_submit()` and %s us by `clusterCall()` on clutch's",
        "node; %s us by `clusterCall()` of base R, %s us by mirai without dispatcher, %s us by a future, %s us by",
        "Python's executor, %s us by Dask."), of("clutch", "one", 1e6),
        of("clutch by parallel's functions", "one", 1e6), of("base PSOCK", "one", 1e6), of("mirai, direct", "one", 1e6),
        of("future, multisession", "one", 1e6), of("Python ProcessPoolExecutor, fork", "one", 1e6),
        of("Python Dask", "one", 1e6)),
      sprintf(paste("Each of many tasks, by a map and one by one, takes %s us in clutch, %s us in base R, %s us in",
        "mirai, %s us in future, %s us in Python's executor."), of("clutch", "each", 1e6), of("base PSOCK", "each", 1e6),
        of("mirai, dispatcher", "each", 1e6), of("future, multisession", "each", 1e6),
        of("Python ProcessPoolExecutor, fork", "each", 1e6)))
  })
