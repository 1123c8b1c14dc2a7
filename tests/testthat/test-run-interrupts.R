# What becomes of a run when a part gives up a wait, as by a time limit, and goes on.

within_time <- function(seconds, expr) {
  setTimeLimit(elapsed = seconds, transient = TRUE)
  on.exit(setTimeLimit())
  tryCatch(expr, error = conditionMessage)
}

run_on_two <- function(f) {
  cl <- make_cluster(2)
  on.exit(stop_cluster(cl))
  environment(f) <- list2env(list(within_time = within_time), parent = globalenv())
  cluster_run(cl, f)
}

test_that("a part that waits no more is not taken for one that does", {
  values <- run_on_two(function(rank) {
    if (rank == 1) {
      Sys.sleep(1) # else both wait, and that is a deadlock
      return(node_receive(2)$value)
    }
    said <- within_time(0.2, node_receive(1))
    Sys.sleep(2)
    node_send(1, said)
  })
  expect_match(values[[1L]], "time limit")
})

test_that("a part that has given up what all do together ends the run when it goes on", {
  # it would count twice, and take messages for others that it does not expect
  barrier <- function(rank) {
    node_barrier()
    if (rank == 2) Sys.sleep(2) else within_time(0.2, node_barrier())
    node_barrier()
  }
  e <- tryCatch(run_on_two(barrier), error = identity)
  expect_s3_class(e, "clutch_run_error")
  expect_s3_class(e$errors[[1L]]$parent, "clutch_run_ended")
  gather <- function(rank) {
    if (rank == 1) return(c(within_time(0.2, node_gather(0)), unlist(node_gather(0))))
    clutch:::meet("node_gather", 1L)
    Sys.sleep(1)
    clutch:::send_hidden(1L, 1)
    node_gather(2)
  }
  e <- tryCatch(run_on_two(gather), error = identity)
  expect_s3_class(e, "clutch_run_error")
  expect_s3_class(e$errors[[1L]]$parent, "clutch_run_ended")
})
