# The report, section by section: title, the question in one line, scripts, peers that may be absent, tables, pictures,
# and what the figures show, in sentences made from them. bench/report.R does the rest.
#
# `compares`: what is set beside what, in which settings, and with what guarantees. `better`: what the
# others are better at; it stands below the pictures of each section that compares.
#
# Figures of the background texts are quoted from them (`no_text`: there are none); all others come from the tables.

num <- function(x) ifelse(is.na(x), "-", trimws(formatC(signif(x, 3), digits = 3, format = "fg", big.mark = ",")))
# Counts are not rounded to three digits: 4,096
count <- function(x) ifelse(is.na(x), "-", trimws(formatC(round(x), format = "d", big.mark = ",")))
# "0.17 (0.15 to 0.21)"
cell <- function(t) ifelse(is.na(t$median), "-", sprintf("%s (%s to %s)", num(t$median), num(t$min), num(t$max)))
times_as <- function(x, y) num(x / y)
get_median <- function(t, ...) {
  want <- list(...)
  keep <- rep(TRUE, nrow(t))
  for (k in names(want)) keep <- keep & t[[k]] == want[[k]]
  if (any(keep)) t$median[which(keep)[[1L]]] else NA_real_
}
# Drops the sentences of which a figure is missing.
sentences <- function(...) {
  x <- c(...)
  x[!is.na(x) & !grepl("\\bNA\\b", x)]
}
# A table with a row for each `who` and a column for each `what`
crossed <- function(t, who, what, head, unit = "", text = function(t) cell(t)) {
  t$cell <- text(t)
  rows <- unique(t[[who]])
  out <- stats::setNames(data.frame(rows), head)
  for (w in unique(t[[what]])) out[[paste0(w, unit)]] <- vapply(rows, function(r) {
    x <- t$cell[t[[who]] == r & t[[what]] == w]
    if (length(x)) x[[1L]] else "-"
  }, "")
  out
}
beside <- function(rows, of) ifelse(rows %in% names(of), unname(of[as.character(rows)]), "-")

sections <- list()

sections$startup <- list(
  title = "Start-up against nodes", scripts = "startup", peers = c("parallelly", "mirai", "callr"),
  question = "How long does it take from nothing until every node of a cluster has answered?",
  tables = list(list(
    caption = paste("Seconds, by number of nodes. *Sequential* is R 3.6's way, node after node; *parallel* is",
                    "that of R since 4.0.",
                    "*Cold*: no fork server runs; *warm*: one does."),
    make = function() {
      t <- read("startup.csv")
      t$note[is.na(t$note)] <- ""
      out <- crossed(t, "who", "nodes", "cluster", text = function(t) ifelse(t$note == "", cell(t), t$note))
      out[["R blog 2020 (other machines, a node a core)"]] <- beside(out$cluster, c(
        "base, sequential" = paste("R 3.6: 8 nodes 1.7 s (Windows laptop), 12: 4.2 s (macOS), 40: 6.6 s",
                                   "(Ubuntu), 48: 9.3 s (Windows",
                                   "server), 64: 14 s (Fedora), 64: 211 s (Solaris)"),
        "base, parallel" = paste("R-devel: 8 nodes 0.5 s (Windows laptop), 12: 0.7 s (macOS), 40: 0.4 s",
                                 "(Ubuntu), 48: 0.5 s (Windows",
                                 "server), 64: 0.4 s (Fedora), 64: 7 s (Solaris)")))
      out
    })),
  plots = c("startup.png" = "Seconds against nodes; a band from the least to the greatest"),
  compares = paste("nodes that have answered one call. *base* is `makePSOCKcluster()` and",
                 "`makeForkCluster()`, *mirai* `daemons()` with its dispatcher, *parallelly*",
                 "`makeClusterPSOCK()`, all with their defaults. clutch's nodes are forks of a clean",
                 "R, all others but base R's forks are programs of their own."),
  better = c(
    paste("Base R's forks have all objects and packages of the session from the first moment, and need",
          "no server. clutch's nodes have what is sent to them."),
    paste("The nodes of base R, parallelly, mirai and callr can be on other systems than Unix. Those",
          "of parallelly and mirai can be on other machines. A cluster of parallelly has further",
          "checks and messages where a start fails.")),
  shows = function() {
    t <- read("startup.csv")
    n <- max(t$nodes[t$who == "base, sequential" & !is.na(t$median)])
    of <- function(who) get_median(t, who = who, nodes = n)
    sentences(
      sprintf(paste("With %s nodes base R takes %s s one after the other and %s s in parallel; clutch %s s with",
          "nothing running before: %s and %s times as long."),
              n, num(of("base, sequential")), num(of("base, parallel")), num(of("clutch, cold")),
                  times_as(of("base, sequential"), of("clutch, cold")),
              times_as(of("base, parallel"), of("clutch, cold"))),
      sprintf("With a fork server that runs already: clutch %s s, base R's fork of the session %s s.",
          num(of("clutch, warm")), num(of("base, fork"))),
      sprintf("mirai takes %s s.", num(of("mirai"))))
  })

sections$roundtrip <- list(
  title = "Round trip", scripts = c("roundtrip", "sockets"), peers = c("parallelly", "mirai", "callr"),
  no_text = TRUE,
  question = "How long does one call to one node and back take, and how long data there and back?",
  tables = list(
    list(caption = "Microseconds of one call and back.", make = function() {
      t <- read("roundtrip.csv")
      data.frame(call = t$who, us = cell(t), "times as long as clutch" = num(t$times_clutch), check.names = FALSE)
    }),
    list(caption = "A raw vector there and back, milliseconds.", make = function() {
      t <- read("payload.csv")
      for (k in c("median", "min", "max")) t[[k]] <- 1000 * t[[k]]
      t <- t[t$bytes %in% 10^(0:8), ]
      out <- crossed(t, "bytes", "who", "bytes")
      out$bytes <- count(out$bytes)
      out
    }),
    list(caption = paste("R's `serialize()` to another R process and `unserialize()` of what it sends back, over TCP,",
        "milliseconds: connections of base R and of clutch."),
         make = function() {
           t <- read("sockets-spread.csv")
           for (k in c("median", "min", "max")) t[[k]] <- 1000 * t[[k]]
           t$value <- paste0(t$what, ifelse(as.logical(t$xdr), ", xdr", ", native"))
           crossed(t, "value", "who", "value")
         }),
    list(caption = "Within one process, over TCP: microseconds from one end to the other, and of a connection.",
         make = function() {
           t <- read("sockets-calls.csv")
           data.frame(call = t$what, sockets = t$who, us = cell(t))
         }),
    list(caption = "Many sockets: microseconds of one wait, by interest that is told each time or kept.",
         make = function() {
           t <- read("sockets-wait.csv")
           data.frame(sockets = count(t$sockets), ready = t$ready, by = paste0("`", t$who, "()`"), us = cell(t))
         })),
  plots = c("roundtrip.png" = "Microseconds of one call and back",
      "payload.png" = "Seconds of a raw vector there and back against its size",
            "sockets.png" = "Milliseconds of an object there and back over TCP"),
  compares = paste("one call on one node that waits for it. `clusterCall()` on nodes of base R,",
                 "parallelly and clutch is the same function of package parallel. `mirai()` sends an",
                 "expression, and `callr` a function to a session that runs. A small message through a",
                 "connection of base R waits up to 40 ms where it is written in two parts and the",
                 "system waits for an acknowledgement; parallelly asks the system not to (`no-delay`),",
                 "and base R does not unless told by `options(socketOptions = )` on both sides (`no-delay`).",
                 "clutch's sockets always ask for it."),
  better = c(
    paste("A mirai is an object of its own: it can be waited for, stopped, or turned into a promise.",
          "`clusterCall()` gives nothing back before the end."),
    paste("mirai does the same between machines, over TLS. callr tells more of an error: the calls in",
          "the other process.")),
  shows = function() {
    t <- read("roundtrip.csv")
    of <- function(who) get_median(t, who = who)
    p <- read("payload.csv")
    at <- function(who, bytes) num(1000 * get_median(p, who = who, bytes = bytes))
    sentences(
      sprintf(paste("10,000 bytes there and back take %s ms on a node of base R, %s ms on one of parallelly, %s ms on one",
        "of clutch, %s ms by mirai; 1 MB %s, %s, %s and %s ms."), at("base", 1e4), at("parallelly", 1e4),
        at("clutch", 1e4), at("mirai", 1e4), at("base", 1e6), at("parallelly", 1e6), at("clutch", 1e6), at("mirai", 1e6)),
      sprintf("One `clusterCall()` takes %s us on a node of clutch and %s us on one of base R.",
          num(of("clutch clusterCall")), num(of("base clusterCall"))),
      sprintf("One `mirai()` takes %s us through its dispatcher and %s us without.", num(of("mirai")),
          num(of("mirai, direct"))),
      {
        t <- read("sockets-table.csv")
        sprintf("`socket_table()` of %s sockets takes %s ms.", count(t$sockets), cell(t))
      })
  })

sections$tasks <- list(
  title = "Task throughput", scripts = c("tasks", "tiny"), peers = "mirai",
  no_text = TRUE,
  question = "How many tiny tasks a second do two nodes do, and how evenly are tasks of uneven length shared out?",
  tables = list(
    list(caption = paste("Tasks a second, one by one, load-balanced: `cluster_map()`, base R's `clusterApplyLB()`,",
        "`mirai_map()`."), make = function() {
      t <- read("tasks-spread.csv")
      data.frame(who = t$who, "tasks a second" = cell(t),
                 "clutch is times as fast" = times_as(get_median(t, who = "clutch"), t$median), check.names = FALSE)
    }),
    list(caption = paste("No-ops a second in chunks: `cluster_map()` by measured time, base R's `parLapply()` one",
        "chunk a node."), make = function() {
      t <- read("tasks-chunks-spread.csv")
      data.frame(who = t$who, "no-ops a second" = cell(t), check.names = FALSE)
    }),
    list(caption = "Tasks of uneven length: percent over the time of the best schedule possible.", make = function() {
      t <- read("tasks-uneven-spread.csv")
      data.frame(who = t$who, "percent over the best" = cell(t), check.names = FALSE)
    }),
    list(caption = "`clusterApplyLB()` on nodes of base R and of clutch: tasks a second, by the function.",
        make = function() {
      t <- read("tiny.csv")
      crossed(t, "f", "who", "function")
    }),
    list(caption = "The scheduler alone, with stub nodes that answer at once.", make = function() {
      t <- read("tasks-scheduler.csv")
      data.frame("stub nodes" = count(t$stub_nodes), "nanoseconds a task" = num(t$ns), check.names = FALSE)
    })),
  plots = c("tasks.png" = "Tiny tasks a second, one by one",
      "tasks-uneven.png" = "Who did what when: uneven tasks on two nodes of clutch"),
  compares = paste("`cluster_map(.chunk = 1)` hands out each element to a node that is free, with one",
                 "more waiting there. `clusterApplyLB()` does so without one waiting, and",
                 "`mirai_map()` sends each element as a mirai to the dispatcher. All three with their",
                 "defaults else; clutch finds globals and gives each element random numbers of its",
                 "own, the others do not. In chunks `cluster_map()` chooses the size by itself;",
                 "`parLapply()` makes one chunk a node, which is the least work where all elements",
                 "take the same time."),
  better = c(
    paste("Each element of `mirai_map()` is a mirai: a part of the results can be used while the",
          "others are still computed."),
    "`parLapply()` needs no measurement of time, which is best where all elements take as long."),
  shows = function() {
    t <- read("tasks-spread.csv")
    u <- read("tasks-uneven-spread.csv")
    of <- function(who) get_median(t, who = who)
    over <- function(who) get_median(u, who = who)
    sentences(
      sprintf("One by one, clutch does %s tiny tasks a second, base R %s (clutch is %s times as fast).",
          num(of("clutch")), num(of("base")), times_as(of("clutch"), of("base"))),
      sprintf("mirai does %s (clutch is %s times as fast).", num(of("mirai")), times_as(of("clutch"), of("mirai"))),
      sprintf(paste("Uneven tasks take %s %% longer than the best schedule in `cluster_map()`, %s %% in",
          "`clusterApplyLB()`, %s %% in `parLapply()`."),
              num(over("cluster_map")), num(over("clusterApplyLB")), num(over("parLapply"))))
  })

sections$hosts <- list(
  title = "Several hosts", scripts = "hosts", peers = c("mirai", "parallelly"), no_text = TRUE,
  question = "What do nodes on other hosts cost: their start, what they are sent, tiny tasks, one call?",
  tables = list(
    list(caption = paste("Starts in seconds, until all nodes have answered. The hosts are four network namespaces of this machine,",
                         "on the same cores, each with an ssh daemon. QUICK: 4 nodes on each host; else 16, and 64."),
         make = function() {
           t <- read("hosts.csv")
           t <- t[t$row == "start", ]
           data.frame("what is started" = t$who, seconds = cell(t), times = count(t$reps), check.names = FALSE)
         }),
    list(caption = "Tiny tasks, 8 nodes: tasks a second. One call: microseconds of a `clusterCall()` of one node.",
         make = function() {
           t <- read("hosts.csv")
           t <- t[t$row %in% c("tiny", "call"), ]
           data.frame(what = c(tiny = "tiny tasks a second", call = "one call, us")[t$row], nodes = t$who,
                      found = cell(t), check.names = FALSE)
         })),
  compares = paste("`make_cluster(hosts())`, `mirai::daemons()` with `ssh_config()` and TLS, and `parallelly::makeClusterPSOCK()`,",
                   "which starts an R for each node by an ssh of its own. All use the same hosts."),
  better = paste("mirai's daemons and those of parallelly are programs of their own, that need no fork. parallelly's",
                 "connections can be reversed by ssh on any system."),
  shows = function() {
    t <- read("hosts.csv")
    of <- function(row, who) get_median(t, row = row, who = who)
    sentences(
      sprintf("A constant of 100 MB for 64 nodes on four hosts crosses %s times, by the counters of the network interface.",
          num(of("crossings", "a constant"))),
      sprintf("Nodes on four hosts do %s tiny tasks a second over TLS, %s times those of mirai over TLS, and %s of those of this host.",
          count(of("tiny", "clutch, TLS")), times_as(of("tiny", "clutch, TLS"), of("tiny", "mirai, TLS")),
          times_as(of("tiny", "clutch, TLS"), of("tiny", "clutch, this host"))))
  })

sections$promises <- list(
  title = "Promises", scripts = "promises", peers = "mirai", no_text = TRUE,
  question = "How long does it take from the end of a task to the handler of its promise, and what does waiting cost?",
  tables = list(list(
    caption = "R is idle, in package later's event loop. Each package has two nodes.",
    make = function() crossed(read("promises.csv"), "what", "who", ""))),
  shows = function() {
    t <- read("promises.csv")
    of <- function(what, who) {
      x <- t$median[startsWith(t$what, what) & t$who == who]
      if (length(x)) x[[1L]] else NA_real_
    }
    sentences(
      sprintf("With later %s a handler is called %s ms after a task of 20 ms has ended.", t$later[[1L]],
          num(of("task of 20 ms", "clutch"))),
      sprintf("mirai: %s ms.", num(of("task of 20 ms", "mirai"))),
      sprintf("R has %s turns in a second in which nothing happens.", count(of("turns of R", "clutch"))))
  })

sections$futures <- list(
  title = "Futures, and other packages' own tests", scripts = "futures", peers = c("future", "future.mirai"),
  no_text = TRUE,
  question = paste("How long does a future of package future take under each plan? Do other packages' own tests pass when",
                   "their parallel work goes through clutch?"),
  tables = list(list(
    caption = "Milliseconds. Each plan has two workers, but for sequential.",
    make = function() crossed(read("futures.csv"), "who", "what", "")),
    list(caption = paste("Other packages' own tests, with their default and with clutch in its place: checks passed,",
                         "failed and skipped. `make test-adapters` counts them."),
         make = function() read("adapters.csv"))),
  shows = function() {
    t <- read("futures.csv")
    of <- function(who) {
      x <- t$median[t$what == "value(future(1))" & t$who == who]
      if (length(x)) x[[1L]] else NA_real_
    }
    sentences(
      sprintf("With future %s `value(future(1))` takes %s times as long under `plan(clutch)` as under `plan(sequential)`.",
          t$future[[1L]], num(of("clutch") / of("sequential"))),
      sprintf("`plan(multisession)` takes %s times as long as `plan(clutch)`, future.mirai %s times.",
          num(of("multisession") / of("clutch")), num(of("future.mirai") / of("clutch"))))
  })

sections$starting <- list(
  title = "Starts, first maps, stops", scripts = "starting", peers = character(), no_text = TRUE,
  question = "How long do start, first use and stop of clusters of many nodes take, beside one R and base R's clusters?",
  tables = list(
    list(caption = paste("Seconds (memory: MB). *Cold*: no fork server runs; *warm*: one does; *many*: cold; *prestart*: with",
                         "`options(clutch.prestart = TRUE)`. The maps have 10 elements of 0.1 s a node, so that 1 s is",
                         "the least."),
         make = function() {
           t <- read("starting.csv")
           t$case <- sprintf("%s, %s", t$row, count(t$nodes))
           crossed(t, "case", "who", "what, nodes")
         })),
  compares = paste("base R's `makeForkCluster()` and `makePSOCKcluster()` with their defaults; an `Rscript -e 1` is the",
                   "start and end of one R. A fork server is an R, too: the nodes are forks beyond that."),
  better = "Base R's forks need no fork server, and have the session's objects from the first moment.",
  shows = function() {
    g <- read("goals.csv")
    g <- g[g$script == "starting", ]
    sentences(sprintf("%d of %d rows are as hoped for.", sum(g$verdict == "met"), nrow(g)))
  })

sections$foreach <- list(
  title = "Loops of foreach", scripts = "foreach", peers = c("foreach", "doParallel"),
  no_text = TRUE,
  question = "What does an iteration that does nothing cost in a loop of package foreach?",
  tables = list(list(
    caption = "Microseconds for an iteration; two nodes each. With `%do%` the session does all.",
    make = function() {
      t <- read("foreach.csv")
      data.frame(who = t$who, iterations = count(t$iterations), us = cell(t))
    })),
  shows = function() {
    of <- function(who) get_median(read("foreach.csv"), who = who)
    sentences(
      sprintf("`registerDoClutch()` takes %s times the time of `%%do%%`, doParallel on PSOCK nodes %s times that of clutch.",
          num(of("clutch") / of("%do%")), num(of("doParallel, PSOCK") / of("clutch"))))
  })

sections$daemons <- list(
  title = "Daemons of mirai", scripts = "daemons", peers = "mirai",
  no_text = TRUE,
  question = "How long do mirai's daemons take to start, and how much memory does each have for itself?",
  tables = list(list(
    caption = "Seconds until all are connected, and MB that no other process shares.",
    make = function() {
      t <- read("daemons.csv")
      data.frame(who = t$who, daemons = count(t$n), seconds = num(t$seconds), MB = num(t$mb),
                 faster = num(t$faster), check.names = FALSE)
    })),
  compares = paste("`mirai_daemons()`, with and without a fork server that runs already, and `mirai::daemons()`, which",
                   "starts an `Rscript` for each."),
  shows = function() {
    t <- read("daemons.csv")
    t <- t[t$n == max(t$n), ]
    sentences(sprintf("%s daemons of `mirai::daemons()` take %s times as long as those of `mirai_daemons()`.",
                      count(t$n[[1L]]), num(t$faster[t$who == "clutch, no fork server yet"])))
  })

sections$profile <- list(
  title = "Profiles", scripts = "profile", no_text = TRUE,
  question = "What does `cluster_profile()` cost, and how well does it find what takes the time?",
  tables = list(
    list(
      caption = paste("CPU time of session and two nodes with a profile, by that without it. *Elapsed*: the same of the",
                      "time that it took. *Without*: seconds of CPU time."),
      make = function() {
        t <- read("profile.csv")
        data.frame(work = t$kind, "CPU time" = cell(t), elapsed = num(t$elapsed), without = num(t$seconds),
                   check.names = FALSE)
      }),
    list(
      caption = "Shares of a planted function, in per cent: by the clock of its process, and in the profile.",
      make = function() {
        t <- read("profile-found.csv")
        data.frame(share = num(t$share), found = num(t$found), off = num(t$off), samples = count(t$samples))
      })),
  shows = function() {
    t <- read("profile.csv")
    sentences(
      sprintf(paste("A profile takes %s to %s times the CPU time, %s ms of it once, whatever is profiled. A planted",
        "function's share is off by %s points at the most."), num(min(t$median)), num(max(t$median)), num(t$fixed[[1L]]),
        num(max(read("profile-found.csv")$off))))
  })

sections$memory <- list(
  title = "Memory per node", scripts = "memory", peers = c("mirai", "callr"),
  no_text = TRUE,
  question = paste("How much memory does a node take for itself: idle, after its first full collection, after five",
                   "small fits, and after a fit of `lm()` on 1e5 x 10?"),
  tables = list(list(caption = "MB that no other process shares.", make = function() {
    t <- read("memory.csv")
    out <- crossed(t, "who", "when", "cluster")
    out
  })),
  plots = c("memory.png" = "MB of a node's own"),
  compares = paste("memory that no other process shares, of nodes of the same session. Base R's forks",
                 "share with the session, clutch's with the fork server."),
  better = c(
    paste("Base R's forks share the session's data as well: no node needs a copy of what was there",
          "before.")),
  shows = function() {
    t <- read("memory.csv")
    of <- function(who, when) get_median(t, who = who, when = when)
    sentences(
      sprintf("An idle node of clutch has %s MB of its own, one of base R's PSOCK %s MB, a fork of the session %s MB.",
          num(of("clutch", "idle")), num(of("base PSOCK", "idle")),
              num(of("base fork", "idle"))),
      sprintf("After the fit it is %s, %s and %s MB.", num(of("clutch", "after lm")), num(of("base PSOCK", "after lm")),
          num(of("base fork", "after lm"))))
  })

sections[["work-on-a-node"]] <- list(
  title = "Work on a node", scripts = "work-on-a-node", peers = c("data.table"), no_text = TRUE,
  question = "What does R code cost on a node, beside one of base R's: time, collections, memory that it goes through?",
  tables = list(
    list(caption = "Times base R's PSOCK node.", make = function() {
      t <- read("work-on-a-node.csv")
      t$case <- paste(t$job, c(seconds = "time", collecting = "in collections", touched = "MB touched")[t$what], sep = ", ")
      crossed(t[t$who != "base PSOCK", ], "case", "who", "job, what", text = function(t) num(t$ratio))
    }),
    list(caption = "Seconds, seconds in collections, MB.", make = function() {
      t <- read("work-on-a-node.csv")
      t$case <- paste(t$job, t$what, sep = ", ")
      crossed(t, "case", "who", "job, what")
    }),
    list(caption = "What else a node does, times the same run as a call.", make = function() {
      crossed(read("work-on-a-node-extras.csv"), "what", "job", "the run is")
    })),
  compares = paste("one node each of base R (`makeCluster(1)`, `makeForkCluster(1)`) and of clutch: forked, with the job's package",
                   "attached before the fork, and a new R. All is timed in the node."),
  better = "Base R's fork has the session's packages without loading them.",
  shows = function() {
    t <- read("work-on-a-node.csv")
    t <- t[t$who == "clutch" & t$what == "seconds", ]
    sentences(sprintf("On a node of clutch the jobs take %s to %s times as long as on one of base R.", num(min(t$ratio)),
                      num(max(t$ratio))))
  })

sections$faults <- list(
  title = "Page faults", scripts = "faults", peers = character(), no_text = TRUE,
  question = "How many page faults, system calls and wake-ups does a node cost, whatever they cost on the machine?",
  tables = list(list(caption = "Page faults that need no disk; system calls and wake-ups.", make = function() {
    t <- read("faults.csv")
    crossed(t, "what", "who", "what")
  })),
  compares = "forks of base R's session, which copy what the session has; a call on a PSOCK node.",
  shows = function() {
    t <- read("faults.csv")
    of <- function(what) get_median(t, what = what, who = "clutch")
    sentences(sprintf("A node has had %s page faults when it has answered its first call; 1,000 more calls take %s.",
                      num(of("first answer")), num(of("1,000 calls"))))
  })

sections$journal <- list(
  title = "Journals", scripts = "journal", peers = c("batchtools", "targets"), no_text = TRUE,
  question = "What does a map with a journal cost, and what does the same map take that finds all done?",
  tables = list(
    list(caption = "Seconds of whole maps on two nodes; MB of the journal.", make = function() {
      t <- read("journal.csv")
      out <- crossed(t, "job", "who", "job", ", s")
      out[["journal, MB"]] <- num(t$mb[match(out$job, t$job)])
      out
    }),
    list(caption = "Tasks of 10 ms on two processes, whose start is included: seconds beyond the work alone.",
         make = function() crossed(read("journal-others.csv"), "who", "what", "package"))),
  compares = paste("`cluster_map()` with and without `.journal`; batchtools' socket cluster with two chunks and",
                   "a registry on the same disk; targets' dynamic branches by a local crew controller of two workers."),
  better = c(
    "targets follows what depends on what, over whole pipelines, and keeps each object under a name.",
    "batchtools keeps each job apart, with its log, and submits to any scheduler."),
  shows = function() {
    t <- read("journal.csv")
    o <- read("journal-others.csv")
    of <- function(job, who) get_median(t, job = job, who = who)
    beyond <- function(who, what) get_median(o, who = who, what = what)
    sentences(
      sprintf("A journal makes %s take %s times as long, %s %s times.", "10,000 tasks of 1 ms",
              times_as(of("10,000 tasks of 1 ms", "with a journal"), of("10,000 tasks of 1 ms", "without")),
              "a million no-ops",
              times_as(of("a million no-ops", "with a journal"), of("a million no-ops", "without"))),
      sprintf("100,000 elements that are done take %s s.", num(of("100,000 finished elements", "the same again"))),
      sprintf("Beyond the work itself clutch takes %s s, batchtools %s s, targets %s s.",
              num(beyond("clutch with a journal", "beyond the work, s")), num(beyond("batchtools", "beyond the work, s")),
              num(beyond("targets", "beyond the work, s"))))
  })

sections$outlive <- list(
  title = "Beyond the session", scripts = "outlive", peers = character(), no_text = TRUE,
  question = "What does a fork server save that the session before has kept, and what does a detached map cost?",
  tables = list(list(caption = "Milliseconds.", make = function() crossed(read("outlive.csv"), "what", "who", "what"))),
  compares = "the same cluster and the same map in a session of their own.",
  shows = function() {
    t <- read("outlive.csv")
    of <- function(what, who) get_median(t[startsWith(t$what, what), ], who = who)
    sentences(
      sprintf("A cluster with packages is there in %s ms where a fork server was kept, else in %s ms.",
              num(of("make_cluster", "kept")), num(of("make_cluster", "a start of its own"))),
      sprintf("A detached map returns in %s ms, and %s ms after cancel() nothing of it is left.",
              num(of("a map", "detached")), num(of("cancel", "detached"))))
  })

sections$broadcast <- list(
  title = "Broadcast", scripts = "broadcast", peers = "mirai",
  no_text = TRUE,
  question = "How long does it take to give the same large vector to all nodes?",
  tables = list(list(make = function() {
    t <- read("broadcast.csv")
    data.frame(how = t$how, nodes = t$nodes, MB = t$mb, seconds = cell(t), check.names = FALSE)
  })),
  plots = c("broadcast.png" = "Seconds of a broadcast"),
  compares = paste("the same vector given to all nodes once. mirai: `everywhere()`, as its documentation",
                 "advises for what is used by many tasks."),
  better = c(
    paste("Base R's fork nodes that are started after the vector was made have it without any sending.",
          "For mirai there is package mori, which puts a vector into memory that all processes map,",
          "and makes no copies; it is not measured here.")),
  shows = function() {
    t <- read("broadcast.csv")
    of <- function(how) get_median(t, how = how)
    sentences(
      sprintf(paste("%s MB to %s nodes: base R's `clusterExport()` takes %s s, on clutch's nodes %s s,",
          "`cluster_export()` %s s."), t$mb[[1L]], t$nodes[[1L]],
              num(of("base clusterExport")), num(of("clutch clusterExport")), num(of("clutch cluster_export"))),
      sprintf("As an argument of `clusterCall()`: base R %s s, clutch %s s.", num(of("base clusterCall")),
          num(of("clutch clusterCall"))))
  })

sections$recovery <- list(
  title = "Recovery", scripts = "recovery", peers = "mirai",
  no_text = TRUE,
  question = paste("A node dies: how soon is it known, and how soon do all answer again? The session dies: how soon",
      "are its busy nodes gone?"),
  tables = list(list(
    caption = paste("Milliseconds. Base R and mirai replace no node: what is measured there is the whole cluster made",
        "anew by hand, and one daemon started by hand."),
    make = function() {
      t <- read("recovery.csv")
      t$note[is.na(t$note)] <- ""
      data.frame(what = t$what, who = t$who, ms = ifelse(t$note == "", cell(t), t$note), check.names = FALSE)
    })),
  plots = c("recovery.png" = paste("Milliseconds until a death is known, until all answer again, and until the nodes",
      "of a killed session are gone")),
  compares = paste("what the user of each package gets when a process is killed by SIGKILL. Base R's",
                 "cluster cannot be mended, so it is made anew. mirai's daemons are not replaced by",
                 "themselves: a new one is started by `launch_local()`, as its documentation says."),
  better = c(
    "mirai's other tasks are not affected by a death, as clutch's are not.",
    "Package crew, which is built on mirai, replaces lost daemons; it is not measured here."),
  shows = function() {
    t <- read("recovery.csv")
    whats <- unique(t$what)
    of <- function(k, who) {
      x <- t$median[t$what == whats[[k]] & startsWith(t$who, who)]
      if (length(x)) x[[1L]] else NA_real_
    }
    gone <- function(who) {
      x <- of(4L, who)
      if (is.na(x)) NA else if (is.infinite(x)) "not while it was waited for" else paste("after", num(x), "ms")
    }
    sentences(
      sprintf("After a death clutch's nodes all answer again within %s ms; base R's cluster made anew takes %s ms.",
          num(of(2L, "clutch")), num(of(2L, "base"))),
      sprintf("The busy nodes of a killed session are gone: clutch %s; base R %s.", gone("clutch"), gone("base")))
  })

sections$latency <- list(
  title = "One task", scripts = "latency", peers = c("mirai", "callr"),
  no_text = TRUE,
  question = "What does it take to have one thing done on a node and its value back, and each of many submitted tasks?",
  tables = list(
    list(caption = "Microseconds of one call and its value, with each function's defaults.",
      make = function() {
        t <- read("latency.csv")
        data.frame(who = t$who, us = cell(t), check.names = FALSE)
      }),
    list(caption = "Tasks a second, submitted one by one and then collected.",
      make = function() {
        t <- read("latency-many.csv")
        data.frame(who = t$who, "tasks a second" = cell(t), check.names = FALSE)
      })),
  shows = function() {
    t <- read("latency.csv")
    many <- read("latency-many.csv")
    of <- function(who) get_median(t, who = who)
    sentences(
      sprintf("`collect(cluster_submit())` takes %s times as long as `mirai()[]` without dispatcher, %s times with it.",
        times_as(of("clutch, collect(cluster_submit())"), of("mirai, direct")),
        times_as(of("clutch, collect(cluster_submit())"), of("mirai, dispatcher"))),
      sprintf("`cluster_map()` of one element takes %s times as long as `clusterCall()`, which takes %s times as long in base R.",
        times_as(of("clutch, cluster_map() of one"), of("clutch, clusterCall()")),
        times_as(of("base, clusterCall()"), of("clutch, clusterCall()"))),
      sprintf("Of many submitted tasks clutch does %s times as many a second as mirai without dispatcher.",
        times_as(get_median(many, who = "clutch"), get_median(many, who = "mirai, direct"))))
  })
