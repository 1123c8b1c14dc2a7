# A long time of maps in which nodes are killed from outside all the time: everything is right, and
# nothing grows.
#
# CLUTCH_EVENTS >= 10000 ('make chaos'): a million tasks, a node a second is killed. Else the same
# in seconds, with more deaths a second.

outside_checks_only()

long_soak <- as.integer(Sys.getenv("CLUTCH_EVENTS", "300")) >= 10000L

children_of <- function(pid) {
  file <- sprintf("/proc/%d/task/%d/children", pid, pid)
  text <- tryCatch(suppressWarnings(readLines(file, warn = FALSE)), error = function(e) character())
  length(unlist(strsplit(text, " +")))
}
# Without empty folders that a fork server keeps for nodes to come, up to a fixed number.
entries_in <- function(folders) {
  all <- list.files(folders, all.files = TRUE, recursive = TRUE, include.dirs = TRUE,
                    full.names = TRUE)
  all[!(grepl("-gone$", all) & lengths(lapply(all, list.files)) == 0L)]
}
server_folder <- function(server) {
  Find(function(s) {
    identical(.Call(clutch:::ffi_server_info, s$handle)$pid, server)
  }, as.list(clutch:::the$servers))$tmp
}
# KB that are in memory: all of it, since what a process shares with its children may seem less when
# they write to it
resident <- function(pid) {
  line <- grep("^VmRSS:", readLines(file.path("/proc", pid, "status")), value = TRUE)
  as.numeric(gsub("[^0-9]", "", line))
}

test_that("a million tasks while nodes are killed: all right, nothing left, no memory grows", {
  linux_only()
  rounds <- if (long_soak) 50L else 12L
  each <- if (long_soak) 20000L else 500L
  old <- options(clutch.trace = 1000) # what is remembered on purpose is full after the first round
  on.exit(options(old))
  stop_cluster(make_cluster(1))
  for (k in 1:2) invisible(gc())
  cl <- make_cluster(3)
  server <- server_pid(cl)
  folders <- c(tempdir(), server_folder(server))
  stop_cluster(cl)
  rm(cl)
  for (k in 1:2) invisible(gc())
  count <- function() c(descriptors = open_fds(), handles = .Call(clutch:::ffi_live_handles),
                        children = children_of(Sys.getpid()),
                        nodes = children_of(server), entries = length(entries_in(folders)),
                        server_descriptors = open_fds(server))
  before <- count()
  entries_before <- entries_in(folders)
  dir <- tempfile("soak-")
  dir.create(dir)

  cl <- make_cluster(3)
  expect_identical(server_pid(cl), server)
  # Mostly of nodes that have begun something: of those that die before, three in a row are not
  # replaced, and a slow machine needs longer for a start than passes between two kills.
  deed <- sprintf("[ -e %s/$p ] || [ $((RANDOM %% 16)) = 0 ] || continue; kill -9 $p && %s", dir,
                  "echo $p >> \"$log\"")
  stop_killer <- start_fault_injector(server, file.path(dir, "log"), if (long_soak) 1 else 0.1,
                                      deed)
  on.exit(stop_killer(), add = TRUE)
  seen <- matrix(0, rounds, 3L, dimnames = list(NULL, c("session", "server", "rate")))
  want <- seq_len(each) * 2
  for (k in seq_len(rounds)) {
    began <- clutch:::clock()
    r <- cluster_map_dbl(cl, seq_len(each), function(i, dir) {
      mark <- file.path(dir, Sys.getpid())
      if (!file.exists(mark)) file.create(mark)
      Sys.sleep(0.0005)
      i * 2
    }, dir, .retries = 20)
    seen[k, "rate"] <- each / (clutch:::clock() - began)
    if (!identical(r, want)) expect_identical(r, want, label = paste("round", k))
    invisible(gc())
    seen[k, c("session", "server")] <- c(resident(Sys.getpid()), resident(server))
  }
  expect_true(stop_killer())
  deaths <- length(readLines(file.path(dir, "log")))
  expect_gt(deaths, rounds / 4)
  # a node that was killed after the last map is replaced by the next
  expect_true(eventually({
    cluster_walk(cl, 1:3, identity)
    all(alive(pids(cl)))
  }))
  expect_true(works(cl))
  # of deaths that concern nobody any more nothing is remembered
  cluster_walk(cl, 1:3, identity)
  expect_lt(length(cl[[1L]]$info$tasks$deaths), 10L)

  # KB that the whole run would add if it went on as after its first fifth. One small object of R
  # (56 bytes) lost with each task would be 50 MB in the long run, 10 KB lost with each death 3 MB.
  # What R's heap adds by chance, a page here and there, was below 1 MB in all runs; in the short
  # one the heap has not found its size after a fifth.
  later <- seq_len(rounds) > rounds / 5
  slope <- function(y) {
    unname(stats::coef(stats::lm(y ~ x, data.frame(y = y, x = seq_along(y))))[[2L]])
  }
  grown <- apply(seen[later, 1:2], 2L, slope) * rounds
  if (long_soak) {
    fifth <- rounds %/% 5L
    rate <- c(first = mean(utils::head(seen[, "rate"], fifth)),
              last = mean(utils::tail(seen[, "rate"], fifth)))
    cat(sprintf(paste0("\n%d tasks, %d deaths; KB that a run adds: session %.0f of %.0f, ",
                       "fork server %.0f of %.0f; ",
                       "tasks a second: %.0f in the first fifth, %.0f in the last\n"),
                       rounds * each, deaths, grown[[1L]], seen[rounds, 1L], grown[[2L]],
                       seen[rounds, 2L], rate[[1L]], rate[[2L]]))
    expect_gt(rate[["last"]], rate[["first"]] / 2)
  }
  expect_lt(grown[["session"]], 3000)
  expect_lt(grown[["server"]], 1000)

  p <- pids(cl)
  stop_cluster(cl)
  expect_true(eventually(!any(alive(p))))
  unlink(dir, recursive = TRUE)
  rm(cl)
  for (k in 1:2) invisible(gc())
  # a node of another test may have been about to end
  expect_true(eventually(all(count() <= before)),
              info = paste(c(paste(names(before), before, count(), collapse = "; "),
                             setdiff(entries_in(folders), entries_before)), collapse = "\n"))
})
