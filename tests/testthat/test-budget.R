# The budget of cores. tests/c/test-budget.c has trees of maps in plenty.

with_budget <- function(n, code) {
  end_own_cluster()
  old <- options(clutch.budget = n, mc.cores = 2L)
  on.exit({
    options(old)
    end_own_cluster()
  })
  force(code)
}

held <- function() .Call(clutch:::ffi_budget_held)

test_that("tokens are those of all processes of the user, and come back", {
  skip_on_os("windows")
  with_budget(3, {
    expect_identical(clutch:::budget_take(2), 2L)
    child <- parallel::mcparallel(clutch:::budget_take(2))
    expect_identical(parallel::mccollect(child)[[1]], 1L)
    # those of the child come back when it has ended, which is after its answer
    expect_true(eventually(clutch:::budget_take(5) == 1L))
    clutch:::budget_give(3)
    expect_identical(held(), 0L)
  })
  with_budget(FALSE, {
    expect_identical(clutch:::budget_take(100), 100L)
    expect_identical(held(), 0L)
  })
  with_budget("many", expect_error(cluster_map(NULL, 1, identity), class = "clutch_argument"))
})

# When leaves of the tree have computed, and where. `widths`: elements, by depth.
tree <- function(widths) {
  leaf <- function() {
    began <- clutch:::clock()
    while (clutch:::clock() < began + 0.2) NULL
    list(c(began, clutch:::clock(), Sys.getpid()))
  }
  f <- function(i, widths) {
    if (!length(widths)) return(leaf())
    x <- clutch::cluster_map(NULL, seq_len(widths[[1]]), f, widths = widths[-1])
    unlist(x, recursive = FALSE)
  }
  f(1, widths)
}

most_at_once <- function(spans) {
  began <- vapply(spans, `[[`, 1, 1L)
  max(vapply(began, function(t) sum(vapply(spans, function(s) s[[1]] <= t && t < s[[2]], NA)), 1L))
}

test_that("maps within maps never compute on more cores than there are", {
  outside_checks_only()
  skip_on_os("windows")
  with_budget(4, {
    spans <- tree(c(2, 3, 2))
    expect_length(spans, 12)
    expect_lte(most_at_once(spans), 4)
    # those within got more than the core of their task
    expect_gt(length(unique(vapply(spans, `[[`, 1, 3L))), 2L)
    expect_identical(held(), 0L)
    # all are taken: one node each, and nobody waits
    clutch:::budget_take(4)
    spans <- tree(c(2, 2))
    expect_identical(most_at_once(spans), 1L)
    clutch:::budget_give(4)
  })
})

test_that("a map that fails or is interrupted gives its cores back", {
  skip_on_os("windows")
  with_budget(4, {
    expect_error(cluster_map(NULL, 1:4, function(i) stop("oops")), class = "clutch_task_error")
    expect_identical(held(), 0L)
    taken <- cluster_map_int(NULL, 1:2, function(i) {
      before <- .Call(clutch:::ffi_budget_held)
      try(clutch::cluster_map(NULL, 1:2, function(i) stop("oops")), silent = TRUE)
      before + .Call(clutch:::ffi_budget_held)
    })
    expect_identical(taken, c(0L, 0L))
  })
})

test_that("a cluster that was given a size is not throttled", {
  with_budget(1, {
    cl <- make_cluster(2)
    on.exit(stop_cluster(cl))
    clutch:::budget_take(1)
    pids <- cluster_map_int(cl, 1:2, function(i) {
      Sys.sleep(0.2)
      Sys.getpid()
    })
    clutch:::budget_give(1)
    expect_identical(anyDuplicated(pids), 0L)
  })
})

end_own_cluster()
