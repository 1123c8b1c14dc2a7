# For tests of maps and tasks.

of_each_strategy <- function(code) {
  for (s in c("fork_server", "parallel", "sequential")) {
    cl <- make_cluster(2, s)
    tryCatch(code(cl), finally = stop_cluster(cl))
  }
}
task_error_of <- function(expr) tryCatch(expr, clutch_task_error = identity)
