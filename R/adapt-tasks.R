# Programs of other packages that are tasks of a cluster: each keeps a node until it ends. They
# connect to the session by what their package has for that.

cluster_for_tasks <- function(cl, what) {
  if (!inherits(cl, "clutch_cluster")) {
    throw("argument", sprintf("%s takes a cluster that was made by make_cluster()", what))
  }
  tasks_of(cl) # an error where it knows no tasks, or was stopped
  cl
}

# `code`: of each a line of R; `run(code, again)`: a function of this package, as of
# start_programs(). One that dies is begun again by another node, `retries` times.
start_as_tasks <- function(cl, code, run, label, retries = 1000) {
  lapply(code, function(line) {
    cluster_submit_call(cl, run_as_task, list(run, line), .relay = "none", .label = label,
                        .retries = retries, .globals = FALSE)
  })
}

# In the node. Its value is that of nobody.
run_as_task <- function(run, code) {
  run(code, task_attempt() - 1L)
  NULL
}

# A program that is a task ends with its connection by itself, and not by a signal: the node stays.
# `code`: a call as text; `change`: a function of the call.
changed_code <- function(code, change) {
  paste(deparse(change(str2lang(code)), width.cutoff = 500L), collapse = "\n")
}

# So many have not ended.
count_open <- function(tasks) sum(!vapply(tasks, resolved, NA))

# They end by themselves once they are told to by their package. `grace`: seconds.
end_tasks <- function(tasks, grace = 1) {
  end <- clock() + grace
  while (count_open(tasks) > 0L && clock() < end) Sys.sleep(0.01)
  for (task in tasks) cancel(task)
  invisible()
}
