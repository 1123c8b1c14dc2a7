# `cl = NULL`: the session's own cluster, or the one that is registered.

with_cores <- function(n, code) {
  old <- options(mc.cores = n)
  on.exit(options(old))
  force(code)
}

test_that("the session's own cluster is made at first use and stays", {
  with_cores(2L, {
    end_own_cluster()
    on.exit(end_own_cluster())
    expect_identical(nrow(cluster_status(NULL)), 0L)
    expect_error(stop_cluster(), class = "clutch_argument")
    expect_error(cluster_trace(), "no cluster of the session's own yet", class = "clutch_argument")
    pid <- cluster_map_int(NULL, 1:2, function(i) {
      Sys.sleep(0.05)
      Sys.getpid()
    })
    expect_setequal(pid, cluster_status(NULL)$pid)
    again <- cluster_map_int(NULL, 1:10, function(i) Sys.getpid())
    expect_true(all(again %in% pid))
    expect_identical(nrow(cluster_status()), available_cores())
    expect_gt(nrow(cluster_trace()), 11L)
  })
})

test_that("what is large is shared while the first nodes start, and is only theirs", {
  with_cores(2L, {
    end_own_cluster()
    on.exit(end_own_cluster())
    large <- list(a = runif(1e6), b = letters)
    small <- 1:10
    big <- runif(1e6)
    x <- cluster_map(NULL, 1:2, function(i, l, s) {
      list(is_shared(l$a), is_shared(big), sum(l$a), l$b, sum(big), s)
    }, l = large, s = small)
    expect_identical(x[[1]], list(TRUE, TRUE, sum(large$a), letters, sum(big), small))
    expect_identical(x[[2]], x[[1]])
    expect_false(is_shared(large) || is_shared(big))
  })
  shared <- clutch:::share_large(list(large$a, large, small, NULL, sum, globalenv()))
  expect_identical(shared, list(large$a, large, small, NULL, sum, globalenv()))
  expect_identical(vapply(shared[1:3], is_shared, NA), c(TRUE, TRUE, FALSE))
})

test_that("only where no cluster is there something starts ahead", {
  with_cores(2L, {
    end_own_cluster()
    on.exit(end_own_cluster())
    fork_server_stop()
    expect_true(clutch:::begin_own(clutch:::the$own))
    expect_identical(cluster_map(NULL, 1:2, identity), list(1L, 2L))
    expect_false(clutch:::begin_own(clutch:::the$own))
  })
})

test_that("every function takes NULL", {
  with_cores(2L, {
    end_own_cluster()
    on.exit(end_own_cluster())
    expect_identical(cluster_map2_dbl(NULL, 1:2, 3:4, `+`), c(4, 6))
    expect_identical(cluster_pmap_chr(NULL, list("a", c("b", "c")), paste0), c("ab", "ac"))
    expect_identical(cluster_imap_chr(NULL, c(x = "a"), function(v, n) paste0(n, v)), c(x = "xa"))
    expect_identical(cluster_walk(NULL, 1:2, identity), 1:2)
    expect_identical(cluster_map(NULL, list(), identity), list())
    expect_identical(collect(cluster_submit(NULL, 1 + 1)), 2)
    expect_identical(collect(cluster_submit_call(NULL, sum, list(1, 2))), 3)
    expect_identical(cluster_free(NULL), available_cores())
    expect_false(cluster_is_stopped(NULL))
    cluster_setup(NULL, b <- 10)
    a <- 1
    cluster_export(NULL, "a")
    expect_identical(cluster_map_dbl(NULL, 1:3, function(i) i + get("a") + get("b"),
                                     .globals = FALSE), c(12, 13, 14))
    expect_error(cluster_map(.x = 1:2, .f = identity), class = "clutch_argument")
    expect_error(cluster_submit(NULL), class = "clutch_argument")
  })
})

test_that("it is made again when it was stopped, with what it was prepared for", {
  with_cores(2L, {
    end_own_cluster()
    on.exit(end_own_cluster())
    cluster_setup(NULL, b <- 10)
    b_there <- function(i) get("b", globalenv())
    stop_cluster()
    expect_identical(unique(cluster_status()$state), "stopped")
    expect_identical(cluster_map_dbl(NULL, 1:2, b_there), c(10, 10))
    fork_server_stop(all = TRUE)
    expect_identical(cluster_map_dbl(NULL, 1:2, b_there), c(10, 10))
    tools::pskill(cluster_status()$pid, 9L)
    expect_identical(cluster_map_dbl(NULL, 1:2, b_there), c(10, 10))
    tools::pskill(cluster_status()$pid, 9L)
    expect_true(eventually(all(grepl("dead", cluster_status()$state))))
    cluster_export(NULL, "b_there")
    expect_identical(cluster_map_dbl(NULL, 1:2, b_there), c(10, 10))
  })
})

test_that("its nodes have the session's folder and variables as they are now", {
  with_cores(2L, {
    end_own_cluster()
    on.exit(end_own_cluster())
    where <- function(i) getwd()
    expect_identical(cluster_map_chr(NULL, 1:2, where), rep(getwd(), 2))
    old <- setwd(tempdir())
    on.exit(setwd(old), add = TRUE, after = FALSE)
    expect_identical(cluster_map_chr(NULL, 1:2, where), rep(getwd(), 2))
    before <- cluster_status()$pid
    Sys.setenv(CLUTCH_TEST_OWN = "1")
    on.exit(Sys.unsetenv("CLUTCH_TEST_OWN"), add = TRUE, after = FALSE)
    expect_identical(cluster_map_chr(NULL, 1:2, function(i) Sys.getenv("CLUTCH_TEST_OWN")),
                     c("1", "1"))
    expect_true(eventually(!any(alive(before))))
  })
})

test_that("tasks under way at nodes that are followed by others are done", {
  with_cores(2L, {
    end_own_cluster()
    on.exit(end_own_cluster())
    task <- cluster_submit(NULL, {
      Sys.sleep(0.5)
      Sys.getenv("CLUTCH_TEST_OWN", "none")
    })
    Sys.setenv(CLUTCH_TEST_OWN = "1")
    on.exit(Sys.unsetenv("CLUTCH_TEST_OWN"), add = TRUE, after = FALSE)
    expect_identical(cluster_map_chr(NULL, 1L, function(i) Sys.getenv("CLUTCH_TEST_OWN")), "1")
    expect_identical(collect(task), "none")
  })
})

test_that("a registered cluster goes first; one of base R's is an error that says what to do", {
  with_cores(2L, {
    end_own_cluster()
    on.exit(end_own_cluster())
    cl <- make_cluster(1)
    parallel::setDefaultCluster(cl)
    expect_identical(cluster_map_int(NULL, 1L, function(i) Sys.getpid()), pids(cl))
    expect_identical(cluster_status()$pid, pids(cl))
    stop_cluster()
    expect_false(identical(cluster_map_int(NULL, 1L, function(i) Sys.getpid()), pids(cl)))
    base <- structure(list(), class = c("SOCKcluster", "cluster"))
    assign("default", base, envir = get(".reg", asNamespace("parallel")))
    e <- expect_error(cluster_map(NULL, 1:2, identity), class = "clutch_argument")
    expect_match(conditionMessage(e), "setDefaultCluster(NULL)", fixed = TRUE)
    parallel::setDefaultCluster(NULL)
  })
})

test_that("a node has a cluster of its own", {
  with_cores(2L, {
    end_own_cluster()
    on.exit(end_own_cluster())
    pid <- cluster_map(NULL, 1:2, function(i) {
      c(Sys.getpid(), unlist(clutch::cluster_map(NULL, 1:2, function(j) Sys.getpid())))
    })
    for (p in pid) expect_false(p[[1L]] %in% p[-1L])
    expect_false(any(unlist(pid) == Sys.getpid()))
  })
})

test_that("idle nodes end while nobody calls us, and the next use brings them back", {
  with_cores(2L, {
    end_own_cluster()
    old <- options(clutch.idle_seconds = 0.5)
    on.exit({
      options(old)
      end_own_cluster()
    })
    cluster_setup(NULL, b <- 10)
    pid <- cluster_status()$pid
    expect_true(eventually(!any(alive(pid)))) # which calls nothing of ours
    expect_identical(unique(cluster_status()$state), "stopped")
    expect_identical(cluster_map_dbl(NULL, 1:2, function(i) get("b", globalenv())), c(10, 10))
    expect_false(any(cluster_status()$pid %in% pid))

    # what takes longer is use
    long <- cluster_map_int(NULL, 1L, function(i) {
      Sys.sleep(1.2)
      Sys.getpid()
    })
    expect_true(long %in% cluster_status()$pid)
    task <- cluster_submit(NULL, {
      Sys.sleep(1.2)
      Sys.getpid()
    })
    expect_true(collect(task) %in% cluster_status()$pid)
    expect_true(eventually({ # a session that stands just then finds them ended
      cluster_setup(NULL, Sys.sleep(1.2))
      identical(unique(cluster_status()$state), "idle")
    }))
    clutch::mclapply(1:2, function(i) Sys.getpid())
    pid <- unlist(clutch::mclapply(1:2, function(i) Sys.getpid()))
    expect_true(eventually(!any(alive(pid))))
    expect_identical(clutch::mclapply(1:2, identity), list(1L, 2L))
    options(clutch.idle_seconds = -1)
    stop_cluster()
    expect_error(cluster_map(NULL, 1:2, identity), class = "clutch_argument")
  })
})

with_idle_limit <- function(seconds, code) {
  with_cores(2L, {
    end_own_cluster()
    old <- options(clutch.idle_seconds = seconds)
    on.exit({
      options(old)
      end_own_cluster()
    })
    force(code)
  })
}

test_that("a node that was told to end since it was idle is given nothing while it is there", {
  with_idle_limit(0.3, {
    pid <- unlist(clutch::mclapply(1:2, function(i) Sys.getpid()))
    pool <- clutch:::the$pool$cl
    is_told <- function() {
      all(vapply(unclass(pool), function(nd) {
        .Call(clutch:::ffi_node_info, nd$handle)$state == "stopped"
      }, NA))
    }
    tools::pskill(pid, tools::SIGSTOP) # busy elsewhere: it takes up to 2 s to end
    expect_true(eventually(is_told(), 1.5))
    expect_true(any(alive(pid)))
    expect_identical(clutch::mclapply(1:2, identity), list(1L, 2L))
    expect_false(any(unlist(clutch::mclapply(1:2, function(i) Sys.getpid())) %in% pid))
    e <- tryCatch(parallel::clusterCall(pool, identity, 1), error = identity)
    expect_s3_class(e, "clutch_stopped")
    tools::pskill(pid, tools::SIGKILL)
  })
})

test_that("what takes long to be prepared finds nodes, although these have ended meanwhile", {
  with_idle_limit(0.3, {
    cluster_setup(NULL, b <- 10)
    slow <- function(x) function(i) i + x + get("b", globalenv())
    made_late <- function() { # the promise is evaluated when the search for variables meets it
      slow({
        pid <- cluster_status()$pid
        stopifnot(eventually(!any(alive(pid))))
        1
      })
    }
    expect_identical(cluster_map(NULL, 1:2, made_late(), .retries = 0), list(12, 13))
    expect_identical(collect(cluster_submit_call(NULL, made_late(), list(1))), 12)
    task <- cluster_submit(NULL, Sys.getpid())
    expect_true(collect(task) %in% cluster_status()$pid)
    pid <- cluster_status()$pid
    expect_true(eventually(!any(alive(pid)))) # those that came in their place end, too
  })
})

test_that("uses just when the idle limit is over lose nothing", {
  with_idle_limit(0.05, {
    n <- if (nzchar(Sys.getenv("CLUTCH_CHAOS"))) 500L else 25L
    for (i in seq_len(n)) {
      Sys.sleep(0.03 + 0.03 * (i %% 7) / 7) # some before, some after
      expect_identical(clutch::mclapply(1:2, identity), list(1L, 2L))
      expect_identical(cluster_map_int(NULL, 1:2, identity), 1:2)
      expect_identical(collect(cluster_submit(NULL, 1)), 1)
    }
  })
})

test_that("a forked child has a cluster of its own, of which nothing is left", {
  skip_on_os("windows")
  outside_checks_only() # parent, child, and nodes of both
  with_cores(2L, {
    end_own_cluster()
    on.exit(end_own_cluster())
    cl <- make_cluster(1)
    on.exit(stop_cluster(cl), add = TRUE, after = FALSE)
    parallel::setDefaultCluster(cl)
    waiting <- cluster_submit(cl, Sys.getpid())
    parallel::setDefaultCluster(NULL)
    cluster_map(NULL, 1:2, identity)
    mine <- cluster_status()$pid # a quick node may do both elements
    files <- list.files(tempdir())
    pending <- cluster_submit(NULL, {
      Sys.sleep(0.5)
      Sys.getpid()
    })
    use <- function(i) {
      seen <- nrow(cluster_status())
      gc() # handles of the parent's are freed here, too
      map <- cluster_map_int(NULL, 1:4, function(j) {
        Sys.sleep(0.02)
        Sys.getpid()
      })
      gc()
      made <- make_cluster(1)
      parallels <- unlist(clutch::mclapply(1:2, function(j) Sys.getpid()))
      list(seen = seen, map = map, task = collect(cluster_submit(NULL, Sys.getpid())),
           made = cluster_map_int(made, 1, function(i) Sys.getpid()), parallels = parallels,
           parents = class(tryCatch(cluster_map(cl, 1, identity), error = identity)),
           cluster_is_stopped = cluster_is_stopped(cl), server = server_pid(clutch:::the$own$cl),
           held = .Call(clutch:::ffi_budget_held))
    }
    gc() # what tests before have left of package nanonext would end a child that frees it
    children <- parallel::mclapply(1:2, use, mc.cores = 2)
    for (x in children) {
      expect_identical(x$seen, 0L)
      expect_false(any(mine %in% c(x$map, x$task, x$made, x$parallels)))
      expect_true("clutch_forked" %in% x$parents)
      expect_true(x$cluster_is_stopped)
      expect_identical(x$held, 0L)
      for (p in c(x$map, x$task, x$made, x$parallels, x$server)) expect_true(eventually(!alive(p)))
    }
    expect_false(any(children[[1]]$map %in% children[[2]]$map))
    # the parent's are as they were, and nothing of the children's is left
    expect_true(collect(pending) %in% mine)
    expect_null(clutch:::the$own$cl[[1]]$info$tasks$latest$how) # how a node has ended, if one has
    expect_true(collect(waiting) %in% cluster_status(cl)$pid)
    expect_setequal(cluster_status()$pid, mine)
    expect_true(all(cluster_map_int(NULL, 1:2, function(i) Sys.getpid()) %in% mine))
    expect_true(eventually(setequal(list.files(tempdir()), files)))
  })
})

test_that("what a forked child has started ends with it, also when it is killed", {
  skip_on_os("windows")
  with_cores(2L, {
    end_own_cluster()
    on.exit(end_own_cluster())
    cluster_map(NULL, 1:2, identity)
    files <- list.files(tempdir())
    said <- tempfile()
    child <- parallel::mcparallel({
      pid <- cluster_map_int(NULL, 1:2, function(i) Sys.getpid())
      writeLines(as.character(pid), paste0(said, "~"))
      file.rename(paste0(said, "~"), said)
      cluster_map(NULL, 1:2, function(i) Sys.sleep(60))
    })
    expect_true(eventually(file.exists(said)))
    pid <- as.integer(readLines(said))
    unlink(said)
    expect_true(all(alive(pid)))
    tools::pskill(child$pid, tools::SIGKILL)
    expect_true(eventually(!any(alive(pid))))
    suppressWarnings(parallel::mccollect(child))
    expect_true(eventually(setequal(list.files(tempdir()), files)))
    expect_identical(cluster_map_int(NULL, 1:2, identity), 1:2)
  })
})

end_own_cluster()
