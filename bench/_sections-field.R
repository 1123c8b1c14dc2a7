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

sections$busy <- list(
  title = "Submitted while busy", scripts = "busy", peers = c("mirai", "future", "Python", "Dask"),
  no_text = TRUE,
  question = paste("Tasks are submitted, then the session computes in one C call: how many are done when it comes",
    "back?"),
  tables = list(list(
    caption = paste("*Done*: tasks that have ended when the computation comes back. *To submit*: seconds until all are",
      "submitted. *All*: seconds from the first submitted until all are collected; not less than the computation",
      "takes."),
    make = function() {
      t <- read("busy.csv")
      column <- function(what) cell(t[t$what == what, ][match(unique(t$who), t$who[t$what == what]), ])
      out <- data.frame(who = unique(t$who), done = column("done"), "to submit, s" = column("submit_s"),
                        "all, s" = column("all_s"), check.names = FALSE)
      names(out)[[2L]] <- sprintf("done of %d", t$tasks[[1L]])
      out
    })),
  plots = c("busy.png" = "Tasks done when the computation comes back, seconds to submit them, and until all are there"),
  compares = paste("tasks that sleep 10 ms, on two processes, so that the session has a core for itself. The C function",
    "never calls the interpreter. In Python it is called twice: with the interpreter's lock held, as a function of",
    "R is, and released, as NumPy and others do. `future()` waits until a process is free, so that its tasks are done",
    "while they are submitted. `mcparallel()` starts a process for each task, all of them at once: nothing limits",
    "their number. Each clutch task has its globals found, and random numbers of its own."),
  better = c(
    paste("mirai sends a task as soon as it is submitted, to its dispatcher or to a process, by threads of its own; to",
      "submit one takes little of the session's time."),
    "A Python executor hands out tasks by a thread, which has its turn wherever a library releases the lock."),
  shows = function() {
    t <- read("busy.csv")
    of <- function(who, what) num(get_median(t, who = who, what = what))
    sentences(sprintf(paste("Of %d tasks %s are done in clutch when the session has computed for %g s, over TCP %s; %s",
      "in mirai, %s in Python's executor with the lock held and %s with the lock released."), t$tasks[[1L]],
      of("clutch", "done"), t$computes_s[[1L]], of("clutch over TCP", "done"), of("mirai, dispatcher", "done"),
      of("Python ProcessPoolExecutor, lock held", "done"), of("Python ProcessPoolExecutor, lock released", "done")))
  })

# Of a table of medians by job, who and what: its rows of one `what`, in the order of `x`, all pairs of job and who
jobs_and_who <- function(t) unique(t[c("job", "who")])
rows_of <- function(t, x, what) {
  d <- t[t$what == what, ]
  d[match(paste(x$job, x$who), paste(d$job, d$who)), ]
}
the_jobs <- function(file) list(caption = "The jobs.", make = function() read(file)[c("job", "what")])

beside_lapply <- function(file, processes) list(
  caption = paste("Seconds of the start of", processes, "and of the job; *times lapply*: how many times as fast as",
    "`lapply()`, start included; *MB*: all processes together at the most, what they share counted once."),
  make = function() {
    t <- read(file)
    x <- jobs_and_who(t)
    of <- function(what) rows_of(t, x, what)
    all <- of("all_s")
    serial <- all[all$who == "lapply", ]
    data.frame(job = x$job, who = x$who, "start, s" = cell(of("start_s")), "job, s" = cell(of("run_s")),
      "together, s" = cell(all), "times lapply" = times_as(serial$median[match(x$job, serial$job)], all$median),
      MB = cell(of("mb")), check.names = FALSE)
  })

# How many times as fast as lapply() somebody is with a job, start included, as text
faster_than_lapply <- function(t) {
  of <- function(who, job) get_median(t, who = who, job = job, what = "all_s")
  function(who, job) times_as(of("lapply", job), of(who, job))
}

sections$work <- list(
  title = "Real work", scripts = "work", peers = c("mirai", "future", "future.apply", "survival", "ranger"),
  no_text = TRUE,
  question = "How long does real work take on two processes, and how much memory, against lapply()?",
  tables = list(
    the_jobs("work-jobs.csv"),
    beside_lapply("work.csv", "two processes")),
  plots = c("work.png" = "Seconds of each job, the start of the processes included",
            "work-memory.png" = "MB of all processes together, the most there was"),
  compares = paste("each with two processes that are started for the job, its own defaults, and the same results: random",
    "numbers are set by each element itself. `parLapply()`, `mclapply()` and `future_lapply()` divide the elements into",
    "two chunks before they begin; `cluster_map()` chooses chunks as it goes; `mirai_map()` sends each element by itself,",
    "so that the user makes chunks where elements are short: both are shown. `mclapply(mc.preschedule = FALSE)` forks for",
    "each element, and is left out where there are a thousand and more. The session has loaded the packages that",
    "the function needs; nodes that are no forks of it load them within the job."),
  better = c(
    paste("`mclapply()` has no start, sends no data, and has next to no memory of its own: it is the best there is where",
      "the session may be forked, all elements take as long, and no process dies."),
    "Where all elements take the same time two chunks, made before, are the least work: `parLapply()`, `future_lapply()`.",
    "`lapply()` needs no other process, and half of the memory."),
  shows = function() {
    t <- read("work.csv")
    faster <- faster_than_lapply(t)
    vapply(unique(t$job), function(job) sprintf(paste("%s: `cluster_map()` is %s times as fast as `lapply()`, `parLapply()`",
      "%s times, `mclapply()` %s times, `future_lapply()` %s times; they have %s, %s, %s and %s MB, `lapply()` %s."), job,
      faster("clutch cluster_map", job), faster("base parLapply", job), faster("base mclapply", job),
      faster("future_lapply", job), num(get_median(t, who = "clutch cluster_map", job = job, what = "mb")),
      num(get_median(t, who = "base parLapply", job = job, what = "mb")),
      num(get_median(t, who = "base mclapply", job = job, what = "mb")),
      num(get_median(t, who = "future_lapply", job = job, what = "mb")),
      num(get_median(t, who = "lapply", job = job, what = "mb"))), "", USE.NAMES = FALSE)
  })

sections$programs <- list(
  title = "Five programs", scripts = "programs", peers = c("mirai", "future", "future.apply", "survival", "httpuv"),
  no_text = TRUE,
  question = "How long do five programs of the article of that name take, from start to end, and with how much memory?",
  tables = list(
    the_jobs("programs-jobs.csv"),
    beside_lapply("programs.csv", "two processes, or 16 for the pages,")),
  plots = c("programs.png" = "Seconds of each program, the start of the processes included"),
  compares = paste("the same program with another function in place of `lapply()`: `cluster_map()`, `parLapply()`,",
    "`parLapplyLB(chunk.size = 1)`, `mclapply()`, `mirai_map()`, `future_lapply()`. Processes of parallel and mirai are told",
    "the program's file first; the others find what a function needs."),
  better = "`mclapply()` has no start and next to no memory of its own.",
  shows = function() {
    t <- read("programs.csv")
    faster <- faster_than_lapply(t)
    vapply(unique(t$job), function(job) sprintf(
      "%s: clutch is %s times as fast as `lapply()`, parallel %s, `mclapply()` %s, mirai %s, future %s.", job,
      faster("clutch", job), faster("parallel", job), faster("mclapply", job), faster("mirai", job),
      faster("future", job)), "", USE.NAMES = FALSE)
  })

sections$suites <- list(
  title = "Test suites of packages", scripts = "suites", no_text = TRUE,
  question = paste("Are the results of test suites the same by `cluster_test()`, and how long do",
    "they take beside testthat, one file after the other and in its parallel mode?"),
  tables = list(
    list(caption = "Seconds, start of R included; *again*: a second call in the session.",
      make = function() {
        t <- read("suites.csv")
        for (of in c("testthat", "parallel", "clutch", "again")) t[[of]] <- signif(t[[of]], 3L)
        t
      })),
  compares = paste("`testthat::test_local()` as `devtools::test()` calls it, and the same with",
    "`Config/testthat/parallel: true`, where the suite is of the third edition."),
  better = "testthat has no processes to start: small suites are done sooner by it alone.",
  shows = function() {
    t <- read("suites.csv")
    both <- !is.na(t$parallel)
    c(sprintf("Of %d suites %d have the same results.", nrow(t), sum(t$same)),
      sprintf("%d of them are not slower than one file after the other.",
              sum(t$clutch <= t$testthat)),
      sprintf("All together take %.2f of the time of one file after the other.",
              sum(t$clutch) / sum(t$testthat)),
      sprintf("Those of the third edition take %.2f of the time of testthat's parallel mode.",
              sum(t$clutch[both]) / sum(t$parallel[both])))
  })

sections$data <- list(
  title = "Large data", scripts = "data", peers = c("mirai", "mori", "SharedObject", "future", "future.apply"),
  no_text = TRUE,
  question = paste("How long does it take until nodes have large data, or have sent it back, and how much memory does",
    "it take?"),
  tables = list(
    list(caption = paste("Times over one copy of the same data: how often R could have duplicated it in that time.",
      "*One copy* is in seconds."),
      make = function() {
        t <- read("data.csv")
        t <- t[t$part %in% c("export", "gigabyte", "back"), ]
        of_copy <- t$who == "one copy"
        t[!of_copy, c("median", "min", "max")] <- t[!of_copy, c("median", "min", "max")] *
          (t$copies / t$median)[!of_copy]
        crossed(t, "who", "what", "who")
      }),
    list(caption = paste("Milliseconds there and back. To send it again: by `cluster_export()`, after `share()` where",
      "there is such a function."),
      make = function() {
        t <- read("data.csv")
        t <- t[t$part %in% c("trip", "again"), ]
        t$what[t$part == "again"] <- paste(t$what[t$part == "again"], "again")
        t[c("median", "min", "max")] <- 1000 * t[c("median", "min", "max")]
        crossed(t, "who", "what", "who")
      }),
    list(caption = "Microseconds of a small raw vector there and back.",
      make = function() {
        t <- read("data.csv")
        t <- t[t$part == "small", ]
        t$what <- sub(" there and back", "", t$what)
        t[c("median", "min", "max")] <- 1e6 * t[c("median", "min", "max")]
        crossed(t, "who", "what", "who")
      }),
    list(caption = paste("MB of a node's own beyond what it had before: *held*: a table and a matrix of it have come;",
      "then after each computation. In the last row the node has made the data itself, and they are subtracted."),
      make = function() {
        t <- read("data.csv")
        t <- t[t$part == "memory", ]
        t <- t[order(t$who == "made by the node, less the data"), ]
        crossed(t, "who", "what", "who")
      }),
    list(caption = paste("A long character vector to 8 nodes: seconds, and MB of a node's own, before and after it has",
      "used all of it."),
      make = function() {
        t <- read("data.csv")
        crossed(t[t$part == "strings", ], "who", "what", "who")
      }),
    list(caption = paste("Bootstrap of a large table on two processes: seconds, start of the processes included, and MB",
      "of all processes together, the most there was."),
      make = function() {
        t <- read("data.csv")
        crossed(t[t$part == "bootstrap", ], "who", "what", "who")
      })),
  plots = c("data.png" = "Time until nodes have large data, or have sent it back, over one copy",
            "data-memory.png" = "MB of a node's own after large data have come and were used",
            "data-bootstrap.png" = "Seconds and MB of a bootstrap of a large table"),
  compares = paste("a table of 25 numeric columns (*to nodes*, *back*), a numeric vector (*there and back*), a raw vector",
    "(*small*). `mclapply()` and future's multicore have forks of the session, which send nothing there. With mirai the",
    "table of the bootstrap is sent once by `everywhere()`, or with mori shared by `share()`; with base R and Bioconductor's",
    "SharedObject it is shared by that package's `share()`. *To nodes* these two take the time of `share()`, too; *again*",
    "it was called before."),
  better = c(
    "`mclapply()` and future's multicore have the session's data as they are, of any kind, where it may be forked.",
    "mori gives its vectors a name, so that processes that know nothing of each other can have them."),
  shows = function() {
    t <- read("data.csv")
    whats <- unique(t$what[t$part == "export"])
    of <- function(part, what, who, value = "median") {
      x <- t[[value]][t$part == part & t$what == what & t$who == who]
      if (length(x)) x[[1L]] else NA_real_
    }
    sentences(
      vapply(whats, function(what) sprintf("%s: `cluster_export()` takes %s copies, base R's `clusterExport()` %s.", what,
        num(of("export", what, "clutch cluster_export", "copies")),
        num(of("export", what, "base clusterExport", "copies"))), "", USE.NAMES = FALSE),
      sprintf("A node that has been sent a table and a matrix has %s MB of its own, of base R %s, of mirai %s.",
        num(of("memory", "held", "clutch cluster_export")), num(of("memory", "held", "base clusterExport")),
        num(of("memory", "held", "mirai everywhere"))),
      sprintf(paste("The bootstrap takes %s s by `cluster_map(NULL, )`, %s s by `clutch::mclapply()`, and %s s and %s MB with a",
        "cluster that is made before; by `mclapply()` of package parallel %s s and %s MB, with mirai %s s and %s MB."),
        num(of("bootstrap", "seconds", "clutch, cl = NULL")), num(of("bootstrap", "seconds", "clutch mclapply")),
        num(of("bootstrap", "seconds", "clutch cluster_map")), num(of("bootstrap", "MB", "clutch cluster_map")),
        num(of("bootstrap", "seconds", "base mclapply")), num(of("bootstrap", "MB", "base mclapply")),
        num(of("bootstrap", "seconds", "mirai everywhere")), num(of("bootstrap", "MB", "mirai everywhere"))))
  })

sections$fit <- list(
  title = "Tasks that do not fit side by side", scripts = "fit", peers = c("mirai", "future.apply"), no_text = TRUE,
  question = "What becomes of a map whose tasks need more memory than there is for all at once?",
  tables = list(list(
    caption = paste("Seconds of the map. *Kills*: by the system, in the control group whose limit is named. *Nobody",
      "looks*: `options(clutch.memory = FALSE)`."),
    make = function() {
      t <- read("fit.csv")
      data.frame(what = t$what, who = t$who, seconds = cell(t), tasks = count(t$tasks), right = count(t$right),
        deaths = count(t$deaths), kills = count(t$kills), repeated = count(t$retries), check.names = FALSE)
    })),
  compares = paste("each task holds its vector for 0.3 s (0.05 s where sizes differ). All others start as many tasks as",
    "they have workers. Equal tasks on 8 cores take a second of one core, and sleep: this machine need not have these."),
  better = paste("Dask and Ray end workers, or are told what tasks need; so they also bound memory on many machines, which",
    "is not done here."),
  shows = function() {
    t <- read("fit.csv")
    of <- function(who) num(get_median(t, what = "200 MB each in 900 MB", who = who))
    sentences(sprintf("64 tasks of 200 MB in 900 MB take %s s with 8 nodes, and %s s with 3 nodes, which just fit.",
      of("8 nodes"), of("3 nodes, nobody looks")))
  })

sections$models <- list(
  title = "Real work of tidymodels and mlr3", scripts = "models", peers = c("tune", "mlr3", "future", "mirai"),
  no_text = TRUE,
  question = paste("Packages tune and mlr3 know future and mirai. How long does their work take through plan(clutch) and",
    "mirai_daemons(), beside the others' own processes?"),
  tables = list(
    the_jobs("models-jobs.csv"),
    list(caption = paste("Seconds, two processes each. *First*: processes load packages within the job. The results are the",
      "same everywhere."),
      make = function() {
        t <- read("models.csv")
        x <- jobs_and_who(t)
        of <- function(what) cell(rows_of(t, x, what))
        data.frame(job = x$job, who = x$who, "start, s" = of("start_s"), "first, s" = of("first_s"),
          "again, s" = of("again_s"), check.names = FALSE)
      })),
  compares = "each with its defaults. `plan(multicore)` forks the session, and so has its packages.",
  better = "`plan(multicore)` loads no packages: it is the quickest where `tune_grid()` is called once.",
  shows = function() {
    t <- read("models.csv")
    times <- function(who, job) times_as(get_median(t, who = "the session alone", job = job, what = "again_s"),
                                         get_median(t, who = who, job = job, what = "again_s"))
    vapply(unique(t$job), function(job) sprintf(paste("%s, once packages are loaded: `plan(clutch)` is %s times as fast as",
      "the session alone, `plan(multisession)` %s times, `mirai_daemons()` %s times, `mirai::daemons()` %s times."), job,
      times("plan(clutch)", job), times("plan(multisession)", job), times("mirai_daemons()", job),
      times("mirai::daemons()", job)), "", USE.NAMES = FALSE)
  })

sections$stacks <- list(
  title = "Stacks", scripts = "stacks", no_text = TRUE,
  question = "How long does `cluster_stacks()` take to tell which R calls 64 busy nodes are in, and what does it cost them?",
  tables = list(
    list(caption = "Milliseconds until all 64 nodes have told their calls.",
      make = function() {
        t <- read("stacks.csv")
        data.frame(nodes = t$what, ms = cell(t), told = t$told, check.names = FALSE)
      }),
    list(caption = "What it costs the nodes.",
      make = function() {
        t <- read("stacks-cost.csv")
        data.frame(what = t$what, value = format(t$value, digits = 2), check.names = FALSE)
      })),
  shows = function() {
    t <- read("stacks.csv")
    sprintf("64 nodes that sleep have told their calls after %.0f ms, 64 in R loops on this machine's processors after %.0f ms.",
      t$median[[1L]], t$median[[2L]])
  })

sections$observers <- list(
  title = "Observers", scripts = "observers", no_text = TRUE,
  question = "What does it cost a cluster that somebody looks at it, as `cluster_top()` does from another terminal?",
  tables = list(
    list(caption = "A map of elements that do nothing, while somebody looks twice a second, by one while nobody does.",
      make = function() {
        t <- read("observers.csv")
        data.frame(what = t$what, ratio = cell(t), "95 % interval of the median" = sprintf("%.3f to %.3f", t$low, t$high),
                   check.names = FALSE)
      }),
    list(caption = "Processor time of who looks, and of who is looked at.",
      make = function() {
        t <- read("observers-cost.csv")
        data.frame(what = t$what, value = signif(t$value, 3))
      })),
  shows = function() {
    t <- read("observers.csv")
    sprintf("While somebody looks twice a second %.3f (%.3f to %.3f) times as many elements a second are done as while nobody does.",
      t$median[[1L]], t$low[[1L]], t$high[[1L]])
  })

# What the rows of bench/messages.R are, by the beginning of their names
messages_part <- function(begins, head, unit, scale, label) {
  t <- read("messages.csv")
  t <- t[grepl(begins, t$what), ]
  for (k in c("median", "min", "max")) t[[k]] <- scale * t[[k]]
  t$what <- label(t$what)
  crossed(t, "what", "who", head, unit)
}
sections$messages <- list(
  title = "Nodes that talk to each other", scripts = "messages", peers = "Rmpi", no_text = TRUE,
  question = paste("What do messages between nodes, collective operations, programs in rounds and shared state take, and how",
                   "soon is a death known?"),
  tables = list(
    list(caption = "A vector of numbers from one node to another and back, microseconds.", make = function() {
      messages_part("^pingpong", "bytes", "", 1e6, function(x) count(as.numeric(sub("pingpong-", "", x))))
    }),
    list(caption = "Sums of 1e6 numbers (or 1,000, on many nodes) over all nodes, and meetings of all, milliseconds.",
         make = function() {
           messages_part("^(allreduce|barrier)", "operation, nodes", "", 1000, function(x) {
             sub("-([0-9]+)$", ", \\1", sub("-of-1000", " of 1,000", x))
           })
         }),
    list(caption = paste("Each node sends small messages to each other one, and receives those of all: microseconds a message.",
                         "Erlang's processes run in one program; its schedulers are as many as there are cores."),
         make = function() messages_part("^all-to-all", "nodes", "", 1e6, function(x) sub(".*-", "", x))),
    list(caption = "Whole programs, seconds: k-means (1e6 points of 10 numbers, 20 rounds), heat on a grid (400 x 400, 100 rounds), parallel tempering (16 chains, 1,000 rounds of 20 steps).",
         make = function() {
           messages_part("^(k-means|heat|tempering)", "program, nodes", "", 1, function(x) sub("-([0-9]+)$", ", \\1", x))
         }),
    list(caption = "Shared state, microseconds. A task of a table is appended, taken, and its result told, by one process.",
         make = function() {
           t <- read("messages.csv")
           t <- t[grepl("^(lock|counter|a task)", t$what), ]
           for (k in c("median", "min", "max")) t[[k]] <- 1e6 * t[[k]]
           data.frame(what = t$what, who = t$who, us = cell(t))
         }),
    list(caption = "Actors, microseconds: one method called, and its value waited for; or not waited for.", make = function() {
      t <- read("messages.csv")
      t <- t[grepl("an actor$", t$what), ]
      for (k in c("median", "min", "max")) t[[k]] <- 1e6 * t[[k]]
      data.frame(what = t$what, who = t$who, us = cell(t))
    }),
    list(caption = "From a rank's `kill -9` to the error of another one that waits for it, milliseconds.", make = function() {
      messages_part("^death", "in", "", 1000, function(x) sub("death in ", "", x))
    })),
  compares = paste("the same programs. *Rmpi* is started by `mpirun` with its defaults; its objects go by",
                   "`mpi.send.Robj()`, numbers whose length both sides know by `mpi.send()`. *clusterCall of base* is a call to",
                   "a node of `makePSOCKcluster()` and back; rounds through the session are `clusterCall()`,",
                   "`clusterApply()` and `clusterMap()`. *rush* keeps its table in a server of Redis on this machine.",
                   "*Dask's actor* lives in a worker process of this machine, and is called from Python."),
  better = c("Rmpi's nodes can be on other machines. A message of numbers of a known length costs it less than ours of any object.",
             "Erlang's processes are no processes of the system: a message costs them a tenth."),
  shows = function() {
    of <- function(what, who = "clutch") get_median(read("messages.csv"), what = what, who = who)
    sentences(
      sprintf("8 bytes there and back take %s us, with Rmpi %s (a known length) and %s (an object).", num(1e6 * of("pingpong-8")),
              num(1e6 * of("pingpong-8", "Rmpi, numbers of a known length")), num(1e6 * of("pingpong-8", "Rmpi"))),
      sprintf("A sum of a million numbers over 2, 4 and 8 nodes takes %s, %s and %s times as long as with Rmpi.",
              num(of("allreduce-2") / of("allreduce-2", "Rmpi")), num(of("allreduce-4") / of("allreduce-4", "Rmpi")),
              num(of("allreduce-8") / of("allreduce-8", "Rmpi"))),
      sprintf("An actor's method takes %s us from the session, one call of a node %s, Dask's actor %s from Python.",
              num(1e6 * of("call of an actor")), num(1e6 * of("call of an actor", "clusterCall of clutch, one node")),
              num(1e6 * of("call of an actor", "Dask's actor, from Python"))),
      sprintf("A table does %s times as many tasks a second as rush.",
              num(of("a task of a table", "rush, with Redis here") / of("a task of a table")))
    )
  })
