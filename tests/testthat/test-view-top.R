# cluster_top(): the lines that it draws, and the loop in a real terminal.

lines_of <- function(...) clutch:::top_lines(...)

test_that("the lines say what the snapshot says", {
  s <- example_snapshot(30)
  out <- lines_of(s, 120)
  expect_match(out[[1L]], "session 4242 of ada on host1 waits, R 4.2.2", fixed = TRUE)
  expect_identical(out[[2L]], "12 nodes: 9 busy, 1 idle, 1 cut, 1 dead")
  waiting <- sum(s$jobs$queued[is.na(s$jobs$ended)])
  expect_match(out[[3L]], sprintf("^%d tasks waiting; 2 failed, 1 death, 2 retries$", waiting))
  cells <- strsplit(trimws(out[grep("^node", out) + 1:12]), " +")
  rows <- list(node = vapply(cells, `[`, "", 1L), state = vapply(cells, `[`, "", 2L))
  key <- paste0(s$nodes$cluster, ".", s$nodes$node)
  expect_setequal(rows$node, key)
  expect_identical(rows$state, s$nodes$state[match(rows$node, key)])
  # those in trouble first, then who has been at its task for longest
  expect_setequal(utils::head(rows$state, 2L), c("dead", "cut"))
  busy <- s$nodes[match(rows$node[rows$state == "busy"], key), ]
  expect_false(is.unsorted(busy$since))
  expect_match(grep("^ 1.4 ", out, value = TRUE), "cluster_map(simulate) #592: rnorm(1e+06)",
               fixed = TRUE)
  # since when one is idle is not known
  expect_identical(vapply(cells, `[`, "", 3L) == "-", rows$state == "idle")
  expect_match(out, "death of node 1: killed by signal 9", fixed = TRUE, all = FALSE)
  expect_match(out, "^\\[#{10}-{10}\\] 303 of 606, 3 failed  30 s left  cluster_map", all = FALSE)
})

test_that("actors are below the nodes, those in trouble first", {
  s <- example_snapshot(30)
  out <- lines_of(s, 120)
  actors <- grep("^actor ", out, value = TRUE)
  expect_match(actors[[1L]], "^actor  old +ended +0 waiting +3 done +500 ms at work$")
  expect_match(actors[[2L]], "^actor  counter +waits for cache +2 waiting +1,300 done +15 s at")
  expect_match(actors[[3L]], "^actor  cache +at read +0 waiting +12 done +30 s at work +2 restart")
  expect_gt(grep("^actor", out)[[1L]], grep("^node", out))
  s$actors <- s$actors[rep(1:3, 4L), ]
  out <- lines_of(s, 120)
  expect_length(grep("^actor", out), 3L)
  expect_match(out, "... and 9 more actors", fixed = TRUE, all = FALSE)
  expect_length(grep("^actor", lines_of(s, 120, 12)), 0L)
  s$actors <- s$actors[0L, ]
  expect_length(grep("actor", lines_of(s, 120)), 0L)
})

test_that("nodes that were stopped are told, too", {
  s <- example_snapshot(30)
  s$nodes$state[] <- "stopped"
  expect_identical(lines_of(s, 120)[[2L]], "12 nodes: 12 stopped")
})

test_that("what happened since the snapshot before is a rate", {
  a <- example_snapshot(30)
  b <- example_snapshot(32)
  done <- sum(b$nodes$done) - sum(a$nodes$done)
  expect_match(lines_of(b, 120, before = a)[[3L]], sprintf(", %s done a second", round(done / 2)))
  expect_no_match(lines_of(b, 120)[[3L]], "a second")
  # counters that begin anew
  expect_match(lines_of(a, 120, before = replace(b, "time", b$time - 5))[[3L]], ", 0 done a second")
})

test_that("they fit any terminal, and what does not is counted", {
  for (s in lapply(c(1L, 2L, 12L, 300L), example_snapshot, t = 30)) {
    for (height in c(1, 3, 8, 10, 24, 60, Inf)) for (width in c(1, 20, 60, 80, 200)) {
      out <- lines_of(s, width, height)
      expect_lte(length(out), height)
      expect_lte(max(nchar(out, "width")), width)
    }
  }
  out <- lines_of(example_snapshot(30, 1000L), 100, 24)
  rows <- grep("^ *[12]\\.[0-9]+ ", out, value = TRUE)
  more <- grep("^\\.\\.\\. and [0-9]+ more: ", out, value = TRUE)
  expect_identical(as.integer(sub("^... and ([0-9]+) .*", "\\1", more)), 1000L - length(rows))
  expect_true(any(grepl("dead|cut|starting", rows)) && any(grepl("busy", rows)))
})

test_that("what users wrote cannot command the terminal", {
  evil <- paste0("x\033]0;title\007\033[2J\r\n", "\u009b31m")
  s <- example_snapshot(30, label = evil)
  s$nodes$call[[1L]] <- evil
  s$nodes$host[[2L]] <- evil
  s$events$text[[1L]] <- evil
  s$session$user <- evil
  out <- lines_of(s, 200)
  expect_no_match(out, "[[:cntrl:]]")
  expect_no_match(out, "\u009b", fixed = TRUE)
  expect_match(out, "x?]0;title", fixed = TRUE, all = FALSE)
  # colours are of the lines, whatever is in them
  coloured <- lines_of(s, 200, colour = TRUE)
  expect_identical(as.character(cli::ansi_strip(coloured)), out)
})

# ---- screens ----

keys_after <- function(keys, s, shown = list(screen = "nodes")) {
  Reduce(function(x, key) clutch:::after_key(x, key, s), keys, shown)
}

test_that("keys choose a node and a screen", {
  s <- example_snapshot(30)
  keys <- clutch:::node_keys(s$nodes)[clutch:::node_order(s$nodes)]
  busy <- paste0(s$nodes$cluster, ".", s$nodes$node)[s$nodes$state == "busy"]
  first <- keys[keys %in% busy][[1L]] # who has been at its task for longest
  start <- list(screen = "nodes")
  expect_identical(keys_after("x", s), start)
  expect_identical(keys_after("s", s), list(screen = "stack", at = first))
  expect_identical(keys_after(c("enter", "s"), s), list(screen = "nodes", at = first))
  expect_identical(keys_after(c("h", "?"), s), start)
  expect_identical(keys_after(c("h", "s", "h", "escape"), s), list(screen = "nodes", at = first))
  at <- match(first, keys)
  expect_identical(keys_after("down", s)$at, keys[[at + 1L]])
  expect_identical(keys_after(c("j", "k"), s)$at, first)
  expect_identical(keys_after(rep("up", 100), s)$at, keys[[1L]])
  expect_identical(keys_after(rep("down", 100), s)$at, keys[[length(keys)]])
  for (key in c("q", "Q", "ctrl-c", "ctrl-d", "escape")) expect_null(keys_after(key, s))
  for (screen in c("stack", "help")) {
    expect_null(keys_after("q", s, list(screen = screen)))
    expect_identical(keys_after("escape", s, list(screen = screen)), start)
  }
  # no nodes, or the chosen one is no more
  none <- replace(s, "nodes", list(s$nodes[0L, ]))
  expect_identical(keys_after(c("down", "s"), none), list(screen = "stack"))
  expect_identical(keys_after("s", s, list(screen = "nodes", at = "9.9"))$at, first)
})

test_that("the node at hand is marked, and there in any terminal that has room", {
  for (s in lapply(c(1L, 12L, 300L), example_snapshot, t = 30)) {
    keys <- clutch:::node_keys(s$nodes)
    for (at in list(NULL, keys[[1L]], keys[[length(keys)]])) {
      for (height in c(1, 8, 12, 24, 60)) for (width in c(1, 20, 80, 200)) {
        out <- clutch:::nodes_screen(s, at, c(height, width), FALSE, NULL)
        expect_lte(length(out), height)
        expect_lte(max(nchar(out, "width")), width)
        if (height < 24 || width < 80) next
        marked <- grep("^> ", out, value = TRUE)
        expect_length(marked, 1L)
        name <- clutch:::shown_names(s$nodes)[[clutch:::node_at_hand(s, at)]]
        expect_match(marked, paste0("^> +", name, " "))
        expect_match(out[[length(out)]], "s: its R calls", fixed = TRUE)
      }
    }
  }
})

test_that("the stack of a node fits, the innermost calls are those that stay", {
  s <- example_snapshot(30)
  s$nodes$host[[4L]] <- "x\033[2J"
  told <- data.frame(note = NA_character_)
  told$stack <- list(c(sprintf("f(%d)", 1:40), "g(\"\033[2J\")"))
  screen <- function(..., size = c(24, 80)) clutch:::stack_screen(s, "1.4", ..., size, FALSE)
  out <- screen(told)
  expect_match(out, "^node 1.4 on x.\\[2J: busy for ", all = FALSE)
  expect_match(out, "^cluster_map\\(simulate\\) #", all = FALSE)
  expect_no_match(out, "[[:cntrl:]]")
  lines <- grep("^ (f|g|\\.\\.\\.)", out, value = TRUE)
  expect_identical(lines[[1L]], sprintf(" ... within %d other calls", 42L - length(lines)))
  expect_identical(utils::tail(lines, 2L), c(" f(40)", " g(\"?[2J\")"))
  for (height in c(1, 5, 10, 24)) for (width in c(1, 20, 80)) {
    out <- screen(told, size = c(height, width))
    expect_lte(length(out), height)
    expect_lte(max(nchar(out, "width")), width)
  }
  expect_match(screen(NULL), "[its calls are not known]", fixed = TRUE, all = FALSE)
  told$note <- "old"
  expect_match(screen(told), "[old]", fixed = TRUE, all = FALSE)
  none <- replace(s, "nodes", list(s$nodes[0L, ]))
  expect_match(clutch:::stack_screen(none, NULL, NULL, c(24, 80), FALSE), "There is no node",
               all = FALSE)
  expect_match(clutch:::help_screen(c(24, 80)), "^s, Enter +the R calls", all = FALSE)
})

test_that("there may be nothing to say", {
  s <- example_snapshot(0, 2L)
  empty <- lapply(s, function(x) if (is.data.frame(x)) x[0L, ] else x)
  expect_match(lines_of(empty)[[2L]], "^0 nodes: ")
  expect_length(lines_of(list(time = 0)), 4L)
})

test_that("values are short texts", {
  expect_identical(clutch:::bytes_text(c(0, 1023, 1024, 1536 * 1024, 5e12, NA)),
                   c("0 B", "1023 B", "1.0 kB", "1.5 MB", "4.5 TB", "-"))
  expect_identical(clutch:::lasting_text(c(0.0014, 1.9, 59.9, 61, 3700, -1, NA)),
                   c("1 ms", "1 s", "59 s", "1 min 1 s", "1 h 1 min", "0 ms", "-"))
  expect_identical(clutch:::count_text(c(0, 1234567, NA)), c("0", "1,234,567", "-"))
  old <- options(OutDec = ",", warn = 2)
  on.exit(options(old))
  expect_identical(clutch:::count_text(1234567), "1,234,567")
  n <- data.frame(cluster = 1, job = 2L, state = "busy", element = 1e5, call = "")
  jobs <- data.frame(cluster = 1, job = 2L, label = "cluster_map(f)")
  expect_identical(clutch:::doing_text(list(jobs = jobs), n), "cluster_map(f) #100000")
})

test_that("where nothing can be redrawn it prints once", {
  cl <- make_cluster(2)
  on.exit(stop_cluster(cl))
  task <- cluster_submit(cl, Sys.sleep(5))
  expect_true(eventually(any(grepl("busy", capture.output(cluster_top(cl))))))
  out <- capture.output(x <- withVisible(cluster_top(cl)))
  expect_identical(x, list(value = NULL, visible = FALSE))
  expect_identical(out[[2L]], "2 nodes: 1 busy, 1 idle")
  expect_length(grep("^ +[12]  (busy|idle)", out), 2L)
  cancel(task)
})

test_that("a session that ends after it was found does not hide the others", {
  cl <- make_cluster(1)
  o <- clutch:::observer_of(cl)
  pid <- server_pid(cl)
  on.exit(stop_cluster(cl))
  expect_match(capture.output(clutch:::print_cluster_top(o)), "^1 node: 1 idle", all = FALSE)
  tools::pskill(pid, tools::SIGKILL)
  has_ended <- function() inherits(try(clutch:::top_snapshot(o), silent = TRUE), "try-error")
  expect_true(eventually(has_ended()))
  ended <- sprintf("Cluster %d of session %d has ended", o$cluster, Sys.getpid())
  expect_message(clutch:::print_cluster_top(o), ended)
  clutch:::close_observer(o)
})

test_that("it refuses what is no cluster, or none any more", {
  expect_error(cluster_top("cl"), class = "clutch_argument")
  cl <- make_cluster(1)
  stop_cluster(cl)
  expect_error(cluster_top(cl), class = "clutch_stopped")
})

test_that("where there is no cluster it says so, also of a fork server without one", {
  own_view_folder()
  nothing <- "No cluster of yours is to be seen"
  s <- start_script(c("cluster_top()", "cl <- make_cluster(1)", "stop_cluster(cl)",
                      "k <- make_cluster(1)", "cluster_top()", "stop_cluster(k)",
                      "cluster_top()", "cat('done\\n')"))
  expect_done(s)
  out <- readLines(s$out)
  expect_length(grep(nothing, out), 2L)
  expect_length(grep("^1 node: 1 idle", out), 1L)
  expect_true(ends(s))
})

# ---- in a terminal ----

test_that("a Ctrl-C while it begins leaves the terminal as it was", {
  said <- character()
  before <- clutch:::stty
  utils::assignInNamespace("stty", function(settings) {
    said <<- c(said, settings)
    if (grepl("-echo", settings, fixed = TRUE)) stop("as Ctrl-C does")
    "as it was"
  }, "clutch")
  on.exit(utils::assignInNamespace("stty", before, "clutch"))
  capture.output(expect_error(clutch:::redraw_top(NULL), "as Ctrl-C does"))
  expect_identical(said[[length(said)]], "as it was")
})

test_that("in a terminal it goes on until q or Ctrl-C, and leaves the terminal as it was", {
  outside_checks_only()
  skip_if_not(nzchar(Sys.which("tmux")), "needs tmux")
  own_view_folder()
  term <- start_terminal()
  on.exit({
    term$close()
    for (p in processes_of(term)) tools::pskill(p, 9L)
  }, add = TRUE)
  sees <- function(pattern, seconds = 60) eventually(any(grepl(pattern, term$screen())), seconds)
  term$type("library(clutch); cl <- make_cluster(2); k <- make_cluster(1)")
  term$type("t <- cluster_submit(cl, Sys.sleep(600)); cat('before', 40 + 2, fill = TRUE)")
  expect_true(sees("^before 42"))
  for (end in c("q", "C-c")) {
    term$type("cluster_top(cl)")
    expect_true(sees("^2 nodes: 1 busy, 1 idle"), info = paste(term$screen(), collapse = "\n"))
    first <- grep("session", term$screen(), value = TRUE)[[1L]]
    expect_true(eventually(!first %in% term$screen())) # the clock goes on
    expect_false(any(grepl("before", term$screen())))
    term$key(end)
    expect_true(sees("^before 42"), info = end)
    expect_false(any(grepl("2 nodes", term$screen())))
  }
  term$type("system('stty -a | grep -oE \"[-]?(echo|icanon)( |$)\" | tr -d \"\\n\"')")
  expect_true(sees("^icanon echo|^echo icanon"), info = paste(term$screen(), collapse = "\n"))
  # of several clusters one is chosen
  term$type("cluster_top()")
  expect_true(sees("Which one"))
  expect_true(any(grepl("^2: cluster 2 of session [0-9]+, 1 nodes?, since", term$screen())))
  term$type("2")
  expect_true(sees("^1 node: 1 idle"), info = paste(term$screen(), collapse = "\n"))
  # the stack of a node, the help, and back
  term$key("h")
  expect_true(sees("^s, Enter +the R calls"))
  term$key("h")
  expect_true(sees("^> +1  idle"), info = paste(term$screen(), collapse = "\n"))
  term$key("q")
  expect_true(sees("^before 42"))
  term$type("cluster_top(cl)")
  expect_true(sees("^> +1  busy"), info = paste(term$screen(), collapse = "\n"))
  term$key("s")
  expect_true(sees("^ Sys.sleep\\(600\\)"), info = paste(term$screen(), collapse = "\n"))
  expect_true(sees("^node 1 on localhost: busy for"))
  term$key("Down")
  expect_true(sees("it is in no R call"), info = paste(term$screen(), collapse = "\n"))
  term$key("s")
  expect_true(sees("^> +2  idle"), info = paste(term$screen(), collapse = "\n"))
  # from elsewhere all are seen, also while the session computes
  term$key("q")
  expect_true(sees("^before 42"))
  term$type("repeat NULL")
  s <- start_script(c("cluster_top()", "cat('done\\n')"))
  expect_done(s)
  out <- readLines(s$out)
  expect_match(out, "^2 nodes: 1 busy, 1 idle", all = FALSE)
  expect_match(out, "^1 node: 1 idle", all = FALSE)
  expect_match(out, "computes", all = FALSE)
})
