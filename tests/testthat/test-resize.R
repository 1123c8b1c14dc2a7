# Clusters that grow and shrink by jobs of a real Slurm.

test_that("the bounds are two numbers", {
  plan <- function(...) capture.output(print(launch_plan(slurm(...))))
  expect_match(plan(nodes = 2:4, time = "1h")[[1L]],
               "2 to 4 hosts by Slurm, a job each, as there is work; nodes: 2 to 4, 1 on each")
  one <- hosts_command("{command}", secret = "stdin", cancel = "true", nodes = c(4, 7), each = 4)
  expect_output(print(one),
                "^1 host by a command.*, a job each, as there is work; nodes: 4, 4 on each")
  lines <- plan(nodes = c(10, 200), each = 8)
  expect_match(lines[[1L]], "2 to 25 hosts .* nodes: 16 to 200, 8 on each")
  expect_length(grep("sbatch .*--nodes=1 .*--cpus-per-task=8", lines), 1L)
  expect_match(lines, "<folder>/settings-1", all = FALSE)
  refused <- function(text, ...) {
    expect_error(slurm(...), text, class = "clutch_argument")
  }
  refused("a number that stays is `hosts`", nodes = 5)
  for (bad in list(10:5, 0:3, c(1, 3, 9), c(1.5, 3), c(NA, 3), "10:200", c(-1, 4), integer())) {
    refused("the least and the most nodes", nodes = bad)
  }
  refused("no number of hosts with 8 nodes each has 9 to 15 nodes", nodes = 9:15, each = 8)
  refused("either `hosts`, a number that stays, or `nodes`", nodes = 1:3, hosts = 2)
  refused("`submit = FALSE` is for an allocation", nodes = 1:3, submit = FALSE)
  refused("`idle` has to be a number of seconds", nodes = 1:3, idle = -1)
  expect_error(launch_plan(slurm(nodes = 2:4), min_hosts = 1), "a number of hosts that stays",
               class = "clutch_argument")
})

outside_checks_only()

slurm_there <- NULL # made by the first test that needs it, ended by the last one
needs_slurm <- function() if (is.null(slurm_there)) slurm_there <<- slurm_or_skip()
shared_folder <- function() {
  folder <- file.path(slurm_there$folder, "shared")
  dir.create(folder, showWarnings = FALSE)
  folder
}
grows <- function(...) slurm(..., folder = shared_folder(), time = "10min")
jobs_now <- function(state = "") {
  grep(state, of_slurm("squeue", "-h", "-o", "%i %T %b %j"), value = TRUE)
}
expect_nothing_left <- function() {
  expect_true(eventually(!length(jobs_of_slurm())))
  expect_true(eventually(!length(processes_of_jobs(slurm_there))))
  expect_true(eventually(!length(list.files(shared_folder()))))
}
# All its jobs end, and this session has had the time to hear of it.
end_all_jobs <- function(cl) {
  of_slurm("scancel", "--name=clutch")
  expect_true(eventually(!length(jobs_of_slurm()) && !"up" %in% cluster_hosts(cl)$state))
}
# While this session waits for `task`.
expect_asked_for <- function(task) {
  expect_true(eventually({
    try(collect(task, timeout = 1), silent = TRUE)
    length(jobs_now("PENDING")) > 0L
  }, 60))
}
job_here <- function(seconds = 0) {
  Sys.sleep(seconds)
  Sys.getenv("SLURM_JOB_ID")
}

test_that("it starts with the least, grows while tasks wait, and shrinks to the least", {
  needs_slurm()
  cl <- make_cluster(grows(nodes = 1:3, idle = 6, name = "grow"))
  on.exit(stop_cluster(cl))
  expect_identical(length(cl), 1L)
  expect_identical(sub("^[0-9]+ ", "", jobs_of_slurm()), "grow RUNNING")
  expect_output(print(cl), "cluster with 1 of at most 3 nodes on host .n[12]")
  # what is short is no reason to ask for more; of many a stall of the machine makes long ones
  expect_identical(cluster_map_dbl(cl, 1:4, function(i) i, .chunk = 1), as.numeric(1:4))
  expect_length(jobs_of_slurm(), 1L)
  # what was exported is there for those that come later
  exported <- 2
  cluster_export(cl, "exported", environment())
  wait <- function(i, job_here) job_here(get("exported", globalenv()))
  jobs <- cluster_map_chr(cl, 1:9, wait, job_here, .chunk = 1)
  expect_length(unique(jobs), 3L)
  expect_identical(cluster_hosts(cl)$state, rep("up", 3))
  expect_identical(cluster_hosts(cl)$nodes, rep(1L, 3))
  expect_identical(cluster_status(cl)$state, rep("idle", 3))
  expect_output(print(cl), "cluster with 3 nodes on host")
  expect_identical(cluster_free(cl), 3L)
  expect_identical(nrow(cluster_stacks(cl)), 3L)
  # while the session does something else
  expect_true(eventually(length(jobs_of_slurm()) == 1L, 30))
  # that one is no death, and the next map finds the one that has stayed
  expect_identical(length(unique(cluster_map_chr(cl, 1:4, function(i, f) f(), job_here))), 1L)
  expect_identical(cluster_hosts(cl)$state, "up")
  expect_identical(nrow(cluster_status(cl)), 1L)
  # submitted tasks, too, and a second time
  tasks <- lapply(1:8, function(i) cluster_submit_call(cl, job_here, list(2)))
  expect_gt(length(unique(unlist(collect_all(tasks)))), 1L)
  # and where they are submitted only
  expect_true(eventually(length(jobs_of_slurm()) == 1L, 30))
  tasks <- lapply(1:6, function(i) {
    Sys.sleep(0.5)
    cluster_submit(cl, Sys.sleep(20))
  })
  expect_true(eventually(length(jobs_of_slurm()) > 1L, 30))
  cancel(tasks)
  stop_cluster(cl)
  expect_true(cluster_is_stopped(cl))
  expect_error(cluster_map(cl, 1:3, identity), class = "clutch_stopped")
  expect_nothing_left()
})

test_that("what waits in the queue ends with the cluster, after Ctrl-C, and when it is garbage", {
  needs_slurm()
  # 16 processors: one host has 8 of them, and of those that are asked for only one more can come
  cl <- make_cluster(grows(nodes = c(6, 60), each = 6, idle = 60))
  asked_for <- "for k in $(seq 600); do squeue -h -t PENDING | grep -q . && break; sleep 0.1; done"
  later(0, paste0(asked_for, "; sleep 2; kill -INT %d"), Sys.getpid())
  expect_identical(tryCatch(cluster_map(cl, 1:100, function(i) Sys.sleep(2), .chunk = 1),
                            interrupt = function(e) "int"), "int")
  expect_true(length(jobs_now("PENDING")) > 0L)
  expect_true(length(jobs_now("PENDING")) <= 8L)
  expect_true("waiting" %in% cluster_hosts(cl)$state)
  expect_output(print(cl), "hosts asked for: [1-8]")
  expect_identical(cluster_map_dbl(cl, 1:10, function(i) i), as.numeric(1:10))
  stop_cluster(cl)
  expect_nothing_left()
  cl <- make_cluster(grows(nodes = c(6, 60), each = 6, idle = 60))
  task <- cluster_submit(cl, Sys.sleep(600))
  tasks <- lapply(1:20, function(i) cluster_submit_call(cl, Sys.sleep, list(600)))
  expect_asked_for(task)
  rm(cl, task, tasks)
  gc()
  # the folder goes when the event loop runs, and who keeps it has ended by then
  expect_true(eventually({
    stop_cluster(make_cluster(1))
    !length(list.files(shared_folder()))
  }))
  expect_nothing_left()
})

test_that("those that wait in the queue are cancelled when nobody needs them", {
  needs_slurm()
  cl <- make_cluster(grows(nodes = c(6, 60), each = 6, idle = 2))
  on.exit(stop_cluster(cl))
  cluster_map(cl, 1:40, function(i) Sys.sleep(1), .chunk = 1)
  # this session does something else
  expect_true(eventually(length(jobs_of_slurm()) == 1L, 30))
  expect_identical(cluster_map_dbl(cl, 1:10, function(i) i), as.numeric(1:10))
  expect_identical(cluster_hosts(cl)$state, "up")
})

test_that("nothing stays when the session is killed while the cluster grows", {
  needs_slurm()
  s <- start_script(c(
    sprintf("cl <- make_cluster(slurm(nodes = c(6, 60), each = 6, folder = '%s'))",
            shared_folder()),
    "cat('ready\\n')",
    "cluster_map(cl, 1:100, function(i) Sys.sleep(2), .chunk = 1)"
  ))
  expect_true(said(s, "^ready", 60))
  expect_true(eventually(length(jobs_now("PENDING")) > 1L, 30))
  tools::pskill(s$pid, 9L)
  expect_nothing_left()
  expect_true(ends(s))
})

test_that("hosts that end come again, also the first, and that start is no retry", {
  needs_slurm()
  cl <- make_cluster(grows(nodes = 1:2, idle = 60))
  on.exit(stop_cluster(cl))
  first <- cl[[1]]$info$remote$jobs[[1]]$number
  begun <- file.path(slurm_there$folder, "begun")
  later(0, "for k in $(seq 600); do [ -e %s ] && break; sleep 0.1; done; scancel %s", begun, first)
  r <- cluster_map(cl, 1:3, function(i, f, first, begun) {
    if (f() == first) {
      file.create(begun)
      Sys.sleep(60)
    }
    c(f(3), clutch::task_attempt())
  }, job_here, first, begun, .chunk = 1, .retries = 1)
  expect_false(first %in% vapply(r, `[[`, "", 1L))
  expect_identical(vapply(r, `[[`, "", 2L)[[1L]], "2")
  # without `.retries` the error says so
  later(2, "scancel --name=clutch")
  e <- tryCatch(cluster_map(cl, 1:2, function(i) Sys.sleep(60), .chunk = 1), error = identity)
  expect_s3_class(e, "clutch_task_died")
  expect_identical(e$cause, "cancelled")
  # none is left, and while nothing is under way
  end_all_jobs(cl)
  expect_identical(cluster_map_dbl(cl, 1:4, function(i) i), as.numeric(1:4))
  end_all_jobs(cl)
  expect_identical(cluster_map_dbl(cl, 1:4, function(i) i), as.numeric(1:4))
  expect_identical(collect(cluster_submit(cl, 7)), 7)
  stop_cluster(cl)
  expect_nothing_left()
})

test_that("hosts that do not come: a warning, and the work goes on where it can", {
  needs_slurm()
  room <- file.path(slurm_there$folder, "room")
  file.create(room)
  fails <- sprintf("[ -e %s ] || { echo no room >&2; exit 3; }", room)
  cl <- make_cluster(grows(nodes = 1:2, idle = 60, setup = fails))
  on.exit(stop_cluster(cl))
  unlink(room)
  expect_warning(
    r <- cluster_map_dbl(cl, 1:5, function(i) {
      Sys.sleep(2)
      i
    }, .chunk = 1),
    "the cluster cannot grow now: .*exit code 3.*no room", class = "clutch_hosts_missing"
  )
  expect_identical(r, as.numeric(1:5))
  # where none is left, and none comes, the map fails
  end_all_jobs(cl)
  e <- suppressWarnings(tryCatch(cluster_map(cl, 1:2, identity), error = identity))
  expect_s3_class(e, "clutch_task_died")
  expect_match(conditionMessage(e), "no host comes: .*no room")
  file.create(room)
  expect_identical(cluster_map_dbl(cl, 1:2, function(i) i), c(1, 2))
  stop_cluster(cl)
  unlink(room)
  expect_nothing_left()
})

test_that("Slurm ends", {
  if (is.null(slurm_there)) skip("there was none")
  expect_true(stop_slurm(slurm_there))
})
