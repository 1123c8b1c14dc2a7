# Forks of the session and of nodes, by other means than this package's.

test_that("a fork of a fork keeps its own files: no number is closed a second time", {
  # what a child opens gets the numbers that the package has closed in it
  read_in_grandchild <- function() {
    file <- tempfile()
    writeLines("a", file)
    child <- parallel::mcparallel({
      cons <- lapply(1:30, function(i) file(file, "r"))
      grandchild <- parallel::mcparallel(vapply(cons, function(con) length(readLines(con)), 1L))
      parallel::mccollect(grandchild)[[1L]]
    })
    value <- parallel::mccollect(child)[[1L]]
    unlink(file)
    value
  }
  cl <- make_cluster(2)
  on.exit(stop_cluster(cl))
  expect_identical(read_in_grandchild(), rep(1L, 30))
  expect_identical(parallel::clusterCall(cl, read_in_grandchild), rep(list(rep(1L, 30)), 2))
  expect_true(works(cl)) # nobody has answered in a node's place
})

test_that("in a node that runs a program cli has its thread again, which a fork does not have", {
  skip_if(nzchar(Sys.getenv("CLI_NO_THREAD")))
  cl <- make_cluster(1)
  on.exit(stop_cluster(cl))
  parallel::clusterCall(cl, clutch:::load_before_fork, "cli")
  told <- parallel::clusterCall(cl, function() {
    clutch:::start_threads_of_loaded()
    end <- proc.time()[[3L]] + 20
    while (!cli::`__cli_update_due` && proc.time()[[3L]] < end) Sys.sleep(0.01)
    c(cli::`__cli_update_due`, .Call(clutch:::ffi_thread_count) %in% c(2L, NA))
  })
  expect_identical(told, list(c(TRUE, TRUE)))
})
