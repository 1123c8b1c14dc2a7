# Ctrl-C at random moments in a real terminal: whatever it hits, the session comes back, its cluster
# works, and nothing is left. When the session stands still for 5 s, the stacks of all its processes
# are taken.
#
# CLUTCH_SEED repeats a run as far as the system allows; CLUTCH_EVENTS ('make chaos': 10,000)
# divided by 5: how often.

outside_checks_only()

presses <- if (nzchar(n <- Sys.getenv("CLUTCH_EVENTS"))) ceiling(as.numeric(n) / 5) else 100
terminal_seed <- as.integer(Sys.getenv("CLUTCH_SEED", as.character(sample.int(1e6, 1L))))

typed <- c(
  "x <- cluster_map(cl, 1:200, function(i) { Sys.sleep(0.002); i })",
  "x <- cluster_map(cl, 1:100, \\(i) { message('said'); Sys.sleep(0.002); i }, .relay = 'live')",
  "ts <- lapply(1:5, function(i) cluster_submit(cl, { Sys.sleep(0.02); i })); x <- collect_all(ts)",
  "k <- make_cluster(2); stop_cluster(k)",
  "k <- make_cluster(2, 'parallel'); stop_cluster(k); rm(k)",
  "x <- parallel::clusterApplyLB(cl, 1:100, function(i) { Sys.sleep(0.002); i })",
  "x <- parallel::parSapply(cl, 1:100, function(i) { Sys.sleep(0.002); i })",
  "x <- parallel::clusterCall(cl, function(x) sum(x), numeric(1e6))",
  "for (i in 1:20) print(cl)", "cluster_status(cl)", "gc()")

# What all processes of `s` are doing: stacks by gdb where there is one, else what the kernel tells.
stacks_of <- function(s) {
  read <- function(p, file) {
    tryCatch(suppressWarnings(readLines(file.path("/proc", p, file), warn = FALSE)),
             error = function(e) character())
  }
  unlist(lapply(processes_of(s), function(p) {
    c(sprintf("-- process %d: %s", p,
              gsub("[^[:print:]]", " ", paste(read(p, "cmdline"), collapse = " "))),
      grep("^(State|PPid|Sig|Shd)", read(p, "status"), value = TRUE),
      paste("wchan", paste(read(p, "wchan"), collapse = " ")), read(p, "stack"),
      if (nzchar(Sys.which("gdb")) && nzchar(Sys.which("timeout")))
        grep("^#",
             suppressWarnings(system2("timeout", c("30", "gdb", "-batch", "-p", p, "-ex", "bt"),
                                      stdout = TRUE, stderr = FALSE)), value = TRUE))
  }))
}

test_that("a session in a terminal comes back from every Ctrl-C", {
  linux_only()
  skip_if_not(nzchar(Sys.which("tmux")), "needs tmux")
  set.seed(terminal_seed)
  term <- start_terminal()
  on.exit({
    term$close()
    for (p in processes_of(term)) tools::pskill(p, 9L)
  })
  answer <- file.path(tempdir(), "terminal-answer")
  on.exit(unlink(answer), add = TRUE)
  # Types a line that writes `x` to a file. What was typed before may have been thrown away with a
  # Ctrl-C: again, then.
  told <- character()
  answers <- function(x, code = dQuote(x, FALSE), seconds = 60) {
    end <- proc.time()[[3L]] + seconds
    asked <- function() {
      identical(suppressWarnings(tryCatch(readLines(answer), error = function(e) "")), x)
    }
    look <- proc.time()[[3L]] + 5
    repeat {
      term$type(sprintf("writeLines(as.character(%s), '%s')", code, answer))
      if (eventually(asked(), 3)) return(TRUE)
      if (proc.time()[[3L]] > look && !length(told)) told <<- c(term$screen(), stacks_of(term))
      if (proc.time()[[3L]] > end) return(FALSE)
    }
  }
  state <- function(k) {
    paste(c(sprintf("seed %d, Ctrl-C number %d after: %s", terminal_seed, k, line), told),
          collapse = "\n")
  }
  line <- "library(clutch); cl <- make_cluster(2)"
  term$type(line)
  if (!answers("0")) return(expect_true(FALSE, info = state(0)))
  for (k in seq_len(presses)) {
    line <- sample(typed, 1L)
    told <- character()
    term$type(line)
    Sys.sleep(stats::rexp(1L, 10))
    for (again in seq_len(sample(c(1L, 1L, 1L, 2L, 3L), 1L))) term$interrupt()
    if (!answers(as.character(k))) return(expect_true(FALSE, info = state(k)))
  }
  line <- "cluster_map_dbl()"
  expect_true(
    answers("2 4 6", "paste(cluster_map_dbl(cl, 1:3, function(i) i * 2), collapse = ' ')"),
    info = state(k)
  )
  term$type("rm(list = ls()); invisible(gc()); q('no')")
  expect_true(ends(term), info = state(k))
  expect_identical(list.files(term$tmp), character())
})

test_that("no function is left to be read while Ctrl-C may come", {
  e <- new.env()
  n <- 0
  for (name in c("a", ".b")) delayedAssign(name, n <- n + 1, assign.env = e)
  clutch:::force_all(e)
  expect_identical(n, 2)
  expect_match(paste(deparse(body(clutch:::.onLoad)), collapse = " "),
               "interactive\\(\\).*force_all")
})
