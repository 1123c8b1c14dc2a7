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
