# Clusters that grow and shrink by hosts that a command of the user's starts: stand-ins for
# schedulers that start them on this machine.

test_that("the bounds are two numbers", {
  plan <- function(...) capture.output(print(launch_plan(hosts_command("qsub {script}", ...))))
  lines <- plan(nodes = c(10, 200), each = 8)
  expect_match(lines[[1L]], "2 to 25 hosts .* nodes: 16 to 200, 8 on each")
  expect_length(grep("^  qsub", lines), 1L)
  refused <- function(text, ...) {
    expect_error(hosts_command("{command}", ...), text, class = "clutch_argument")
  }
  refused("a number that stays is `hosts`", nodes = 5)
  refused("the least and the most nodes", nodes = c(2, Inf))
  refused("no number of hosts with 8 nodes each has 9 to 15 nodes", nodes = 9:15, each = 8)
  refused("`each` has to be", nodes = 2:8, each = c(1, 2))
  refused("either `hosts`, a number that stays, or `nodes`", nodes = 1:3, hosts = 2)
  refused("`idle` has to be a number of seconds", nodes = 1:3, idle = -1)
  expect_error(launch_plan(hosts_command("{command}", nodes = 2:4), min_hosts = 1),
               "a number of hosts that stays", class = "clutch_argument")
  expect_identical(plan(hosts = 3), plan(3))
  cancel <- hosts_command("{command}", each = 4, name = "mine",
                          cancel = "end {name}-{host} {job} {x}")
  launch <- clutch:::launches_of(cancel, FALSE)[[1L]]
  expect_identical(launch$cancel, "end mine-1 \"$job\" {x}")
})

outside_checks_only()
linux_only()

# Programs `submit FILE`, which prints the number of a job and starts it once it may, and
# `cancel JOB`. Those of a folder's jobs are known by a variable.
new_queue <- function(env = parent.frame()) {
  folder <- tempfile("queue-")
  dir.create(folder)
  dir.create(file.path(folder, "shared"))
  file.create(file.path(folder, "open")) # jobs start while this is there
  program <- function(name, ...) {
    path <- file.path(folder, name)
    writeLines(c("#!/bin/sh", sprintf("cd '%s'", folder), ...), path)
    Sys.chmod(path)
  }
  program("submit", "export CLUTCH_TEST_QUEUE=$PWD",
          "setsid sh -c 'until [ -e open ]; do sleep 0.1; done; exec sh \"$0\"' \"$@\" \\",
          "  > /dev/null 2>&1 &", "echo $! | tee -a submitted")
  program("cancel", "kill -- -\"$1\" 2>/dev/null", "echo \"$1\" >> cancelled")
  do.call(on.exit, list(bquote(unlink(.(folder), recursive = TRUE)), add = TRUE), envir = env)
  folder
}
grows <- function(queue, ..., idle = 4) {
  hosts_command(paste0(queue, "/submit {script}"), cancel = paste0(queue, "/cancel {job}"),
                folder = file.path(queue, "shared"), idle = idle, ...)
}
of_queue <- function(queue) processes_with(paste0("CLUTCH_TEST_QUEUE=", queue), own = TRUE)
lines_in <- function(queue, file) {
  path <- file.path(queue, file)
  if (file.exists(path)) readLines(path) else character()
}
end_newest_job <- function(queue) {
  system(paste0("kill -- -", utils::tail(lines_in(queue, "submitted"), 1L)))
}
expect_queue_empty <- function(queue) {
  expect_true(eventually(!length(of_queue(queue)), 30))
  expect_true(eventually(!length(list.files(file.path(queue, "shared"))), 30))
}
# What the section has, small and with this folder.
recipes_of_help <- function(folder) {
  rd <- tools::Rd_db("clutch")[["hosts_command.Rd"]]
  is_recipes <- function(part) {
    title <- paste(unlist(part[[1L]]), collapse = "")
    attr(part, "Rd_tag") == "\\section" && grepl("Recipes", title)
  }
  code <- NULL
  collect_code <- function(part) {
    if (identical(attr(part, "Rd_tag"), "\\preformatted")) code <<- c(code, unlist(part))
    if (is.list(part)) lapply(part, collect_code)
  }
  collect_code(Find(is_recipes, rd))
  lapply(parse(text = paste(code, collapse = ""), keep.source = FALSE), function(call) {
    if (!is.null(call$folder)) call$folder <- folder
    if (!is.null(call$nodes)) call$nodes <- c(1, 2) else call$hosts <- 1
    call$each <- 1
    eval(call)
  })
}
up <- function(cl) sum(cluster_hosts(cl)$state == "up")
pid_there <- function(i) {
  Sys.sleep(i)
  Sys.getpid()
}

test_that("it starts with the least, grows while tasks wait, and shrinks to the least", {
  queue <- new_queue()
  ways <- list(grows(queue, nodes = c(2, 6), each = 2),
               hosts_command(paste0("CLUTCH_TEST_QUEUE=", queue, " {command}"), nodes = c(2, 6),
                             each = 2, secret = "stdin", idle = 4))
  for (x in ways) {
    cl <- make_cluster(x)
    expect_identical(c(length(cl), up(cl)), c(2L, 1L))
    exported <- 2
    cluster_export(cl, "exported", environment())
    map <- function(i, f) f(get("exported", globalenv()) / 2)
    expect_gt(length(unique(cluster_map_int(cl, 1:40, map, pid_there, .chunk = 1))), 2L)
    # while the session does something else
    expect_true(eventually(up(cl) == 1L, 30))
    expect_identical(cluster_map_int(cl, 1:4, identity), 1:4)
    stop_cluster(cl)
    expect_queue_empty(queue)
  }
  expect_setequal(lines_in(queue, "cancelled"), lines_in(queue, "submitted"))
})

test_that("with `idle = Inf` hosts that have come stay", {
  queue <- new_queue()
  cl <- make_cluster(grows(queue, nodes = c(1, 2), idle = Inf))
  expect_length(unique(cluster_map_int(cl, rep(1, 20), pid_there, .chunk = 1)), 2L)
  expect_false(eventually(up(cl) < 2L, 3))
  expect_length(lines_in(queue, "cancelled"), 0L)
  stop_cluster(cl)
  expect_queue_empty(queue)
})

test_that("a host that is ended from outside is no failure, and another one comes", {
  queue <- new_queue()
  cl <- make_cluster(grows(queue, nodes = c(1, 2)))
  on.exit(stop_cluster(cl))
  folder <- file.path(queue, "begun")
  dir.create(folder)
  waits <- function(folder) {
    file.create(file.path(folder, Sys.getpid()))
    while (!file.exists(file.path(folder, "go"))) Sys.sleep(0.05)
    Sys.getpid()
  }
  task <- cluster_submit_call(cl, waits, list(folder), .retries = 1)
  begun <- function(n) {
    eventually({
      resolved(task, timeout = 0.1)
      length(list.files(folder)) == n
    }, 60)
  }
  for (round in 1:2) { # more often than it may be tried
    expect_true(begun(round))
    end_newest_job(queue)
  }
  expect_true(begun(3L))
  file.create(file.path(folder, "go"))
  expect_true(as.character(collect(task)) %in% list.files(folder))
  unlink(file.path(folder, "go"))
  task <- cluster_submit_call(cl, waits, list(folder))
  expect_true(begun(3L))
  expect_false(resolved(task, timeout = 1))
  end_newest_job(queue)
  e <- tryCatch(collect(task), error = identity)
  expect_s3_class(e, "clutch_task_died")
  expect_identical(e$cause, "terminated")
  expect_match(conditionMessage(e), "was told to end (SIGTERM)", fixed = TRUE)
  expect_identical(cluster_map_int(cl, 1:4, identity), 1:4)
})

test_that("a host that does not come is given up, and its job cancelled", {
  queue <- new_queue()
  cl <- make_cluster(grows(queue, nodes = c(1, 2), wait = 1), setup_timeout = 20)
  on.exit(stop_cluster(cl))
  unlink(file.path(queue, "open"))
  tasks <- lapply(1:40, function(i) cluster_submit_call(cl, pid_there, list(1)))
  heard <- NULL
  withCallingHandlers(expect_length(unique(unlist(collect_all(tasks))), 1L), warning = function(w) {
    heard <<- w
    tryInvokeRestart("muffleWarning")
  })
  expect_s3_class(heard, "clutch_hosts_missing")
  expect_identical(heard$hosts, "host 2")
  expect_true(eventually(length(lines_in(queue, "cancelled")) > 0L))
})

test_that("nothing stays when the session is killed while the cluster grows", {
  queue <- new_queue()
  s <- start_script(c(
    sprintf("x <- hosts_command('%s/submit {script}', cancel = '%s/cancel {job}', nodes = c(1, 4),",
            queue, queue),
    sprintf("                   folder = '%s/shared')", queue),
    "cl <- make_cluster(x)", "cat('there\\n')",
    "cluster_map(cl, 1:100, function(i) Sys.sleep(2), .chunk = 1)"
  ))
  on.exit(unlink(c(s$out, s$tmp), recursive = TRUE))
  expect_true(said(s, "there", 60))
  expect_true(eventually(length(lines_in(queue, "submitted")) > 1L, 60))
  tools::pskill(s$pid, 9L)
  expect_queue_empty(queue)
})

test_that("the help page's recipes start hosts", {
  queue <- new_queue()
  program <- function(name, ...) {
    path <- file.path(queue, name)
    writeLines(c("#!/bin/bash", sprintf("export CLUTCH_TEST_QUEUE='%s'", queue), ...), path)
    Sys.chmod(path)
  }
  end <- c("kill $(cat \"$CLUTCH_TEST_QUEUE/pid-$3\") 2>/dev/null",
           "echo \"$3\" >> \"$CLUTCH_TEST_QUEUE/cancelled\"")
  program("qsub", "while [ $# -gt 1 ]; do shift; done", sprintf("exec '%s/submit' \"$1\"", queue))
  program("qdel", sprintf("exec '%s/cancel' \"$1\"", queue))
  program("kubectl", "if [ \"$1\" = delete ]; then", end, "exit; fi",
          "echo $$ > \"$CLUTCH_TEST_QUEUE/pid-$2\"", "while [ \"$1\" != -- ]; do shift; done",
          "shift; exec \"$@\"")
  program("podman", "if [ \"$1\" = rm ]; then", end, "exit; fi",
          "while [ \"$1\" != --name ]; do shift; done", "echo $$ > \"$CLUTCH_TEST_QUEUE/pid-$2\"",
          "shift 3; exec \"$@\"")
  program("aws", "id= script=", "while [ $# -gt 0 ]; do case $1 in",
          "--job-id) id=$2;; command=sh,*) script=${1#*,};; esac; shift; done",
          sprintf("if [ \"$id\" ]; then exec '%s/cancel' \"$id\"; fi", queue),
          sprintf("exec '%s/submit' \"$script\"", queue))
  old <- Sys.getenv("PATH")
  on.exit(Sys.setenv(PATH = old), add = TRUE)
  Sys.setenv(PATH = paste(queue, old, sep = ":"))
  recipes <- recipes_of_help(file.path(queue, "shared"))
  expect_gt(length(recipes), 4L)
  for (x in recipes) {
    cl <- make_cluster(x)
    expect_identical(cluster_map_int(cl, 1:4, identity), 1:4, info = x$template)
    stop_cluster(cl)
    expect_queue_empty(queue)
    expect_gt(length(lines_in(queue, "cancelled")), 0L)
    unlink(file.path(queue, "cancelled"))
  }
})

test_that("GPUs of a host that comes while a map waits for some are handed out", {
  before <- Sys.getenv("CUDA_VISIBLE_DEVICES", NA)
  Sys.setenv(CUDA_VISIBLE_DEVICES = "0")
  on.exit(if (is.na(before)) Sys.unsetenv("CUDA_VISIBLE_DEVICES") else
    Sys.setenv(CUDA_VISIBLE_DEVICES = before))
  queue <- new_queue()
  seen <- tempfile()
  dir.create(seen)
  on.exit(unlink(seen, recursive = TRUE), add = TRUE)
  cl <- make_cluster(grows(queue, nodes = c(1, 2)))
  on.exit(stop_cluster(cl), add = TRUE)
  there <- cluster_map_int(cl, 1:4, function(i, seen) {
    file.create(file.path(seen, Sys.getpid()))
    end <- Sys.time() + 60
    while (length(list.files(seen)) < 2L && Sys.time() < end) Sys.sleep(0.1)
    length(list.files(seen))
  }, seen, .needs = list(gpu = 1))
  expect_identical(there, rep(2L, 4))
  stop_cluster(cl)
  expect_queue_empty(queue)
})
