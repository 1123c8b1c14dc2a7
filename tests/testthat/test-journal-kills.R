# SIGKILL at random moments of a script with a journal, which is started again each time: to its
# session, now and then to its fork server or a node. The values are those of an undisturbed run,
# random numbers too, and no element is started again whose record was in the file.
#
# CLUTCH_SEED repeats the choices; CLUTCH_EVENTS >= 10000 ('make chaos'): 200 sessions, 2,000
# elements. CLUTCH_KILLS: how many sessions.

outside_checks_only()

is_chaos <- as.integer(Sys.getenv("CLUTCH_EVENTS", "150")) >= 10000L
kills_wanted <- as.integer(Sys.getenv("CLUTCH_KILLS", if (is_chaos) "200" else "10"))
kills_seed <- as.integer(Sys.getenv("CLUTCH_SEED", as.character(sample.int(1e6, 1L))))

# Elements of which the folder has such files, and when these were made.
marks <- function(folder, what, run = "[0-9]+") {
  files <- list.files(folder, sprintf("^%s-%s-", what, run))
  words <- strsplit(files, "-", fixed = TRUE)
  data.frame(element = as.integer(vapply(words, `[[`, "", 3L)),
             when = as.numeric(file.mtime(file.path(folder, files))))
}
# Elements whose values are in the journal: each value begins with its element.
recorded <- function(folder) {
  file <- file.path(folder, "journal")
  if (!file.exists(file) || file.size(file) < 128) return(integer())
  rows <- journal_read(file, values = TRUE, all = TRUE)
  expect_true(all(rows$state %in% c("done", "died")))
  vapply(rows$value[rows$state == "done"], function(v) as.integer(v[[1L]]), 1L)
}

# A fork server of the script, or a node. NULL: there is none.
child_of <- function(script, who) {
  children <- function(pid) {
    file <- sprintf("/proc/%1$d/task/%1$d/children", pid)
    text <- tryCatch(suppressWarnings(readLines(file, warn = FALSE)),
                     error = function(e) character())
    as.integer(unlist(strsplit(text, " +")))
  }
  found <- children(script$pid)
  if (who == "node") found <- unlist(lapply(found, children))
  if (length(found)) found[[sample.int(length(found), 1L)]]
}

# Starts the script for the `run`-th time, and kills it at a random moment: most often some starts
# of elements later, else some time after its own start. Who was killed first, when its session was,
# and whether it had come to its end before.
killed_run <- function(folder, n, run, is_last) {
  starts <- function() length(list.files(folder, "^start-"))
  is_done <- function() file.exists(file.path(folder, "done"))
  before <- starts()
  script <- start_script(fixture = "journal-kills", folder = folder, n = n, run = as.character(run))
  is_over <- function() is_done() || !alive(script$pid)
  who <- sample(c("session", "server", "node"), 1L, prob = c(0.8, 0.1, 0.1))
  if (is_last) {
    who <- "nobody"
    expect_true(eventually(is_over(), 300))
  } else if (stats::runif(1) < 0.75) {
    most <- before + sample.int(ceiling(n / kills_wanted), 1L)
    expect_true(eventually(starts() >= most || is_over(), 60))
    Sys.sleep(stats::runif(1, 0, 0.02))
  } else {
    Sys.sleep(stats::runif(1, 0, 0.6))
  }
  if (who %in% c("server", "node")) {
    victim <- child_of(script, who)
    if (!is.null(victim)) tools::pskill(victim, 9L)
    Sys.sleep(stats::runif(1, 0, 0.3)) # its session goes on, or ends with an error
  }
  now <- as.numeric(Sys.time())
  tools::pskill(script$pid, 9L)
  expect_true(eventually(!length(processes_of(script))))
  said <- readLines(script$out, warn = FALSE)
  if (who != "server") expect_identical(grep("^Error", said, value = TRUE), character())
  unlink(script$tmp, recursive = TRUE)
  list(who = who, when = now, over = is_done())
}

# Says what the run with this number has cost: elements under way at its kill, elements that had
# ended and are not in the journal, how long before the kill the first of these had, elements that
# began after it, and elements that had ended when their node was killed before it could say so.
cost_of_run <- function(folder, run, killed, kept) {
  started <- marks(folder, "start", run)
  ended <- marks(folder, "end", run)
  ended <- ended[ended$when < killed$when, ]
  lost <- ended[!ended$element %in% kept, ]
  late <- sum(started$when > killed$when)
  data.frame(who = killed$who, started = nrow(started),
             under_way = nrow(started) - nrow(ended) - late, lost = nrow(lost),
             lost_ms = 1000 * max(0, killed$when - lost$when), late = late,
             untold = sum(duplicated(ended$element)))
}

# Kills the script again and again, and at last lets it come to its end: a row for each run.
killed_until_done <- function(folder, n, kills) {
  costs <- list()
  before <- integer()
  repeat {
    run <- length(costs) + 1L
    killed <- killed_run(folder, n, run, is_last = run > kills)
    kept <- recorded(folder)
    # what was recorded stays, and nobody has started it again
    expect_identical(kept[seq_along(before)], before)
    expect_identical(intersect(marks(folder, "start", run)$element, before), integer())
    costs[[run]] <- cost_of_run(folder, run, killed, kept)
    before <- kept
    if (killed$over) return(do.call(rbind, costs))
  }
}

# One journal from the first start of the script to its end, with so many kills at the most. Returns
# the costs of each run.
journal_with_kills <- function(n, kills, info) {
  folder <- tempfile("killed-")
  dir.create(folder)
  on.exit(unlink(folder, recursive = TRUE))
  costs <- killed_until_done(folder, n, kills)
  values <- readRDS(file.path(folder, "done"))
  # without journal, and undisturbed; the second map has the streams that the journal has for it
  ptr <- .Call(clutch:::ffi_journal_open, file.path(folder, "journal"), Inf, NULL, NULL)
  jobs <- clutch:::journal_jobs(ptr)
  .Call(clutch:::ffi_handle_end, ptr)
  expect_length(jobs, 2L)
  f <- function(i) c(i, if (i %% 3 == 0) rnorm(2) else i / 7)
  cl <- make_cluster(2)
  on.exit(stop_cluster(cl), add = TRUE)
  undisturbed <- list(cluster_map(cl, seq_len(n), f, .seed = 1),
                      cluster_map(cl, n + seq_len(n), f, .seed = c(10407L, jobs[[2L]]$seed)))
  expect_true(identical(values, undisturbed), info = info) # thousands of differences tell nothing
  # each was started once, and once more what was under way, had just ended, or began before its
  # node knew
  expect_identical(anyDuplicated(recorded(folder)), 0L, info = info)
  expect_lte(sum(costs$started), 2 * n + with(costs, sum(under_way + lost + late + untold)),
             label = info)
  expect_identical(sum(costs$untold[costs$who == "session"]), 0L)
  costs
}

test_that("a script that is killed at any moment goes on where it was", {
  linux_only()
  set.seed(kills_seed)
  info <- sprintf("CLUTCH_SEED=%d", kills_seed)
  n <- if (is_chaos) 1000 else 100 # elements of each of its two maps
  # each journal has one run that comes to its end: on a busy machine that may be the first one
  least <- if (is_chaos) kills_wanted else min(kills_wanted, 5L)
  journals <- 1L
  costs <- journal_with_kills(n, kills_wanted, info)
  while (nrow(costs) - journals < least && (is_chaos || journals < 20L)) {
    journals <- journals + 1L
    costs <- rbind(costs, journal_with_kills(n, kills_wanted, info))
  }
  expect_gte(nrow(costs) - journals, least)
  expect_lte(sum(costs$late), 2 * nrow(costs))
  expect_lt(max(costs$lost_ms), 500) # 20 ms, and what a busy machine takes
  if (!is_chaos) return(invisible())
  cat(sprintf("\n%d runs with %d elements, %s\n", nrow(costs), 2 * n, info))
  print(do.call(rbind, by(costs, costs$who, function(x) {
    data.frame(runs = nrow(x), started = sum(x$started), under_way = sum(x$under_way),
               lost = sum(x$lost), most_lost = max(x$lost), median_ms = median(x$lost_ms),
               most_ms = max(x$lost_ms), late = sum(x$late), untold = sum(x$untold))
  })))
})
