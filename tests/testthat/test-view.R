# The folder in which observers are asked for.

outside_checks_only()

# A folder as the system has one for each user; in it is clutch's own.
run_folder <- function(env = parent.frame()) {
  folder <- tempfile("run-")
  dir.create(folder, mode = "0700")
  do.call(on.exit, list(bquote(unlink(.(folder), recursive = TRUE)), add = TRUE), envir = env)
  folder
}

start_in <- function(run, lines) {
  start_script(c("Sys.unsetenv('CLUTCH_VIEW_FOLDER')",
                 sprintf("Sys.setenv(XDG_RUNTIME_DIR = '%s')", run), lines))
}

sockets_in <- function(run) list.files(file.path(run, "clutch"))

test_that("the first session makes the folder, and the last one removes it", {
  linux_only()
  run <- run_folder()
  up <- c("cl <- make_cluster(1)", "cat('up=1\\n')", "Sys.sleep(600)")
  one <- start_in(run, up)
  two <- start_in(run, up)
  expect_true(said(one, "up=") && said(two, "up="))
  expect_true(eventually(length(sockets_in(run)) == 2L))
  tools::pskill(one$pid, tools::SIGKILL)
  expect_true(ends(one))
  expect_true(eventually(length(sockets_in(run)) == 1L))
  tools::pskill(two$pid, tools::SIGTERM)
  expect_true(ends(two))
  expect_true(eventually(length(list.files(run)) == 0L))
})

test_that("a fork server that is killed leaves nothing there for long", {
  linux_only()
  run <- run_folder()
  s <- start_in(run, c(
    "cl <- make_cluster(1)",
    "server <- clutch:::info_of(cl)$server$handle",
    "tools::pskill(.Call(clutch:::ffi_server_info, server)$pid, 9L)",
    "while (!startsWith(cluster_status(cl)$state, 'dead')) Sys.sleep(0.1)",
    "stop_cluster(cl)", "clutch:::sweep_servers(quiet = TRUE)", "cat('done\\n')", "Sys.sleep(600)"
  ))
  expect_done(s)
  expect_true(eventually(length(list.files(run)) == 0L))
  tools::pskill(s$pid, tools::SIGKILL)
  expect_true(ends(s))
})

test_that("who only looks makes no folder, and one that the user has named stays", {
  linux_only()
  run <- run_folder()
  named <- run_folder()
  lines <- c("cluster_top()", sprintf("before <- list.files('%s')", run),
             sprintf("Sys.setenv(CLUTCH_VIEW_FOLDER = '%s')", named),
             "stop_cluster(make_cluster(1))",
             "cat('before=', length(before), '\\n', sep = '')", "cat('done\\n')")
  s <- start_in(run, lines)
  expect_done(s)
  expect_identical(value_of(s, "before"), "0")
  expect_true(ends(s))
  expect_identical(c(dir.exists(named), list.files(named)), "TRUE")
})

test_that("a session that starts while another one removes the folder is found nevertheless", {
  linux_only()
  run <- run_folder()
  stop_file <- tempfile("stop-")
  loop <- sprintf("while [ ! -e %s ]; do rmdir %s; done 2> /dev/null &", shQuote(stop_file),
                  shQuote(file.path(run, "clutch")))
  system(loop)
  on.exit(file.create(stop_file), add = TRUE, after = FALSE)
  lines <- c("for (k in 1:5) {", "  cl <- make_cluster(1)",
             "  o <- clutch:::observer_of(cl)", "  close(o$socket)", "  stop_cluster(cl)",
             "  for (key in names(clutch:::the$servers)) clutch:::server_drop(key)", "}",
             "cat('done\\n')")
  s <- start_in(run, lines)
  expect_done(s)
  expect_true(ends(s))
})

# It took the descriptor that came with the next message, if that was there already: that of the
# output file of the nodes, or of a node, which could not be started then.
test_that("a view that is taken back takes no descriptor of the start that follows", {
  linux_only()
  cl <- make_cluster(1)
  on.exit(stop_cluster(cl))
  server <- clutch:::info_of(cl)$server$handle
  pid <- .Call(clutch:::ffi_server_info, server)$pid
  file <- tempfile()
  tools::pskill(pid, tools::SIGSTOP)
  on.exit(tools::pskill(pid, tools::SIGCONT), add = TRUE, after = FALSE)
  expect_true(.Call(clutch:::ffi_view_pass, NULL, server, 1e6))
  later(1, sprintf("kill -CONT %d", pid))
  another <- make_cluster(1, outfile = file)
  on.exit(stop_cluster(another), add = TRUE)
  on.exit(unlink(file), add = TRUE)
  its <- clutch:::info_of(another)$server$handle
  expect_identical(.Call(clutch:::ffi_server_info, its)$pid, pid)
  parallel::clusterEvalQ(another, cat("written there\n"))
  expect_true(eventually("written there" %in% readLines(file)))
})
