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
    expect_true(eventually(held() == 0L)) # who computes has one until it sees that it may end
    taken <- cluster_map_int(NULL, 1:2, function(i) {
      before <- .Call(clutch:::ffi_budget_held)
      try(clutch::cluster_map(NULL, 1:2, function(i) stop("oops")), silent = TRUE)
      for (k in 1:500) {
        after <- .Call(clutch:::ffi_budget_held)
        if (after == 0L) break
        Sys.sleep(0.01)
      }
      before + after
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

# A random tree of maps and submitted tasks, 3 deep: when its leaves have computed, and where.
# `shape`: what it is made of; a list of trees, or NULL: a leaf.
random_shape <- function(depth) {
  if (depth == 0L || (depth < 3L && stats::runif(1L) < 0.2)) return(NULL)
  list(by = sample(c("map", "submit"), 1L),
       below = lapply(seq_len(sample(3L, 1L)), function(i) random_shape(depth - 1L)))
}

leaves_of <- function(shape) {
  if (is.null(shape)) 1L else sum(vapply(shape$below, leaves_of, 1L))
}

grow <- function(shape, seconds) {
  leaf <- function() {
    began <- clutch:::clock()
    while (clutch:::clock() < began + seconds) NULL
    list(c(began, clutch:::clock(), Sys.getpid()))
  }
  work <- function(shape) {
    if (is.null(shape)) return(leaf())
    spans <- switch(shape$by,
      map = clutch::cluster_map(NULL, shape$below, work),
      submit = clutch::collect_all(lapply(shape$below, function(s) {
        clutch::cluster_submit_call(NULL, work, list(s))
      }))
    )
    unlist(spans, recursive = FALSE)
  }
  work(shape)
}

test_that("random trees of maps and submitted tasks keep within the budget, and none hangs", {
  outside_checks_only()
  skip_on_os("windows")
  trees <- as.integer(Sys.getenv("CLUTCH_TREES", "25"))
  with_budget(4, {
    old <- options(mc.cores = 4L)
    on.exit(options(old), add = TRUE, after = FALSE)
    most <- 0L
    set.seed(trees)
    shapes <- lapply(seq_len(trees), function(i) random_shape(3L))
    for (shape in shapes) {
      spans <- grow(shape, 0.005)
      expect_length(spans, leaves_of(shape))
      most <- max(most, most_at_once(spans))
      expect_lte(most, 4L)
    }
    expect_gt(most, 1L)
    expect_true(eventually(held() == 0L))
  })
})

test_that("submitted tasks compute on tokens, and give them back while nobody calls us", {
  skip_on_os("windows")
  with_budget(2, {
    span <- function() {
      began <- clutch:::clock()
      Sys.sleep(0.05)
      list(c(began, clutch:::clock(), Sys.getpid()))
    }
    environment(span) <- globalenv() # what is around it here takes a new node a second
    submit_all <- function(n) lapply(seq_len(n), function(i) cluster_submit_call(NULL, span))
    collect(cluster_submit(NULL, 1))
    expect_true(eventually(held() == 0L)) # which calls nothing of the cluster's
    gate <- tempfile()
    tasks <- lapply(1:3, function(i) {
      cluster_submit(NULL, while (!file.exists(gate)) Sys.sleep(0.01))
    })
    own <- min(2L, available_cores()) # nodes
    expect_identical(held(), own)
    file.create(gate)
    expect_true(eventually(held() == 0L))
    collect_all(tasks)
    unlink(gate)
    expect_identical(clutch:::budget_take(2), 2L) # others have them: one at a time
    expect_identical(most_at_once(unlist(collect_all(submit_all(4)), recursive = FALSE)), 1L)
    tasks <- submit_all(8)
    clutch:::budget_give(1)
    spans <- unlist(collect_all(tasks), recursive = FALSE)
    expect_identical(most_at_once(spans), 1L) # one that is free now is the first node's
    tasks <- submit_all(20)
    clutch:::budget_give(1)
    spans <- unlist(collect_all(tasks), recursive = FALSE)
    expect_identical(most_at_once(spans), own) # they come while tasks wait
  })
})

test_that("foreach loops and maps beside tasks share the tokens of the session", {
  skip_if_not_installed("foreach")
  skip_on_os("windows")
  with_budget(2, {
    clutch:::budget_take(1)
    registerDoClutch(NULL)
    on.exit(foreach::registerDoSEQ(), add = TRUE, after = FALSE)
    `%dopar%` <- foreach::`%dopar%`
    seconds <- 0.05
    leaf <- function(i) {
      began <- clutch:::clock()
      while (clutch:::clock() < began + seconds) NULL
      c(began, clutch:::clock(), Sys.getpid())
    }
    tasks <- lapply(1:3, function(i) cluster_submit_call(NULL, leaf, list(i)))
    spans <- c(foreach::foreach(i = 1:4) %dopar% leaf(i), cluster_map(NULL, 1:4, leaf),
               collect_all(tasks))
    expect_length(spans, 11L)
    expect_identical(most_at_once(spans), 1L)
    clutch:::budget_give(1)
  })
})

end_own_cluster()
