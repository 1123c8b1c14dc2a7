# Workers of package crew on our nodes. The newer library may have crew where the usual one has not.

outside_checks_only()

crew_script <- function(lines, ...) {
  newer <- Sys.getenv("CLUTCH_NEWER_LIB")
  libraries <- if (nzchar(newer)) c(newer, .libPaths()) else .libPaths()
  skip_if_not(dir.exists(system.file(package = "crew", lib.loc = libraries)), "crew")
  paths <- sprintf(".libPaths(%s)", deparse1(libraries))
  env <- sprintf("Sys.setenv(R_LIBS = '%s')", paste(libraries, collapse = ":"))
  start_script(c(paths, env, lines))
}

test_that("tasks are done by workers that are nodes, which crew launches again", {
  s <- crew_script("
    begin <- function() {
      x <- crew_controller_clutch(workers = 2, seconds_idle = 60)
      x$start()
      x
    }
    # after wait() the last ones may still be under way, with crew's own launcher, too
    sum_of <- function(x) {
      for (i in 1:6) x$push({ Sys.sleep(0.1); i^2 }, data = list(i = i))
      results <- list()
      end <- Sys.time() + 60
      while (length(results) < 6 && Sys.time() < end) {
        x$wait(mode = 'all', seconds_timeout = 20)
        results <- c(results, x$collect()$result)
        Sys.sleep(0.01)
      }
      sum(unlist(results))
    }
    x <- begin()
    total <- sum_of(x)
    cat('class=', class(x$launcher)[[1]], '\\n', sep = '')
    cat('sum=', total, '\\n', sep = '')
    x$push(ps::ps_ppid())
    x$wait(seconds_timeout = 60)
    server <- x$pop()$result[[1]]
    line <- readLines(file.path('/proc', server, 'cmdline'), warn = FALSE, skipNul = TRUE)
    cat('forked=', grepl('fork-server', line), '\\n', sep = '')
    x$push(Sys.getpid())
    x$wait(seconds_timeout = 60)
    found <- crew::crew_monitor_local()$workers() # by their command lines
    cat('seen=', x$pop()$result[[1]] %in% found, '\n', sep = '')
    x$push(tools::pskill(Sys.getpid(), 9))
    x$wait(seconds_timeout = 60)
    cat('status=', x$pop()$status, '\\n', sep = '')
    x$push('again')
    x$wait(seconds_timeout = 60)
    cat('after=', x$pop()$result[[1]], '\\n', sep = '')
    live <- function() {
      sum(vapply(clutch:::the$crew, function(i) clutch:::live_programs(i), 1L))
    }
    cat('alive=', live() > 0, '\\n', sep = '')
    x$terminate()
    end <- Sys.time() + 20
    while (live() > 0 && Sys.time() < end) Sys.sleep(0.05)
    cat('left=', live(), '\\n', sep = '')
  ")
  expect_true(said(s, "^left=", 180))
  expect_identical(value_of(s, "class"), "crew_class_launcher_clutch")
  expect_identical(value_of(s, "sum"), "91")
  expect_identical(value_of(s, "forked"), "TRUE")
  if (system_can("proc")) expect_identical(value_of(s, "seen"), "TRUE") # else its title is R's
  expect_identical(value_of(s, "status"), "crash")
  expect_identical(value_of(s, "after"), "again")
  expect_identical(value_of(s, "alive"), "TRUE")
  expect_identical(value_of(s, "left"), "0")
  expect_true(eventually(!length(processes_of(s))))
})

test_that("where nodes cannot be forked each worker is an R of its own", {
  profile <- tempfile()
  on.exit(unlink(profile))
  writeLines("if (nzchar(Sys.getenv('CLUTCH_STARTING'))) loadNamespace('nanonext')", profile)
  s <- crew_script(c(sprintf("Sys.setenv(R_PROFILE_USER = '%s')", profile), "
    x <- crew_controller_clutch(workers = 1, tasks_max = 1) # so that it is launched twice
    x$start()
    pids <- integer()
    for (i in 1:2) {
      x$push(Sys.getpid())
      x$wait(seconds_timeout = 120)
      pids <- c(pids, x$pop()$result[[1]])
    }
    cat('workers=', length(unique(pids)), '\n', sep = '')
    cat('servers=', length(clutch:::the$servers), '\n', sep = '')
    x$terminate()
    cat('ended=1\n')
  "))
  expect_true(said(s, "^ended=", 120))
  expect_identical(value_of(s, "workers"), "2")
  expect_identical(value_of(s, "servers"), "1")
  expect_length(grep("threads", readLines(s$out)), 1L) # said once
  expect_true(eventually(!length(processes_of(s))))
})

test_that("workers are tasks of a cluster, which are there while there is work", {
  s <- crew_script("
    cl <- make_cluster(2)
    x <- crew_controller_clutch(cl = cl, seconds_idle = 0.5)
    x$start()
    cat('workers=', x$launcher$workers, '\\n', sep = '')
    pids <- c()
    for (again in 1:5) { # a worker that was idle may end when a task comes, with crew's own, too
      for (i in 1:6) x$push({ Sys.sleep(0.2); Sys.getpid() })
      x$wait(mode = 'all', seconds_timeout = 20)
      pids <- c(pids, unlist(x$collect()$result))
      if (length(unique(pids)) == 2L) break
    }
    cat('nodes=', setequal(pids, cluster_status(cl)$pid), '\\n', sep = '')
    end <- Sys.time() + 20
    is_free <- function() all(cluster_status(cl)$state == 'idle')
    while (!is_free() && Sys.time() < end) { x$scale(); Sys.sleep(0.1) }
    cat('free=', is_free(), '\\n', sep = '')
    # what came too late before is in front of it
    result_of <- function(name) {
      end <- Sys.time() + 60
      while (Sys.time() < end) {
        x$wait(mode = 'one', seconds_timeout = 1)
        task <- x$pop()
        if (identical(task$name, name)) return(task)
      }
    }
    x$push(tools::pskill(Sys.getpid(), 9), name = 'ends')
    cat('status=', result_of('ends')$status, '\\n', sep = '')
    x$push('again', name = 'next')
    cat('after=', result_of('next')$result[[1]], '\\n', sep = '')
    x$terminate()
    cat('map=', sum(unlist(cluster_map(cl, 1:4, identity))), '\\n', sep = '')
    stop_cluster(cl)
    e <- tryCatch(crew_controller_clutch(cl = cl), error = function(e) class(e)[[1]])
    cat('stopped=', e, '\\n', sep = '')
  ")
  expect_true(said(s, "^stopped=|^Error|halted", 120))
  expect_identical(value_of(s, "workers"), "2")
  expect_identical(value_of(s, "nodes"), "TRUE")
  expect_identical(value_of(s, "free"), "TRUE")
  expect_identical(value_of(s, "status"), "crash")
  expect_identical(value_of(s, "after"), "again")
  expect_identical(value_of(s, "map"), "10")
  expect_identical(value_of(s, "stopped"), "clutch_stopped")
  expect_true(eventually(!length(processes_of(s))))
})

test_that("a worker on a cluster goes on when crew has forgotten its handle", {
  s <- crew_script("
    cl <- make_cluster(2)
    x <- crew_controller_clutch(cl = cl, seconds_idle = 60)
    x$start()
    # the second is launched when the first is there
    for (n in 1:2) {
      x$push({ Sys.sleep(4); Sys.getpid() })
      end <- Sys.time() + 60
      while (x$client$status()[['connections']] < n && Sys.time() < end) {
        x$scale()
        Sys.sleep(0.01)
      }
    }
    x$scale(throttle = FALSE) # which forgets the launch of the first
    invisible(gc())
    x$wait(mode = 'all', seconds_timeout = 60)
    tasks <- x$collect()
    while (NROW(tasks) < 2 && x$nonempty()) tasks <- rbind(tasks, x$collect())
    cat('status=', tasks$status, '\n')
    cat('error=', tasks$error, '\n')
    x$terminate()
    stop_cluster(cl)
    cat('done\n')
  ")
  expect_done(s, 120)
  expect_match(value_of(s, "status"), "^ ?success success $")
  expect_true(ends(s))
})

test_that("workers end with the session", {
  s <- crew_script("
    x <- crew_controller_clutch(workers = 2)
    x$start()
    x$push(1)
    x$wait(seconds_timeout = 60)
    cat('ready=1\\n')
    Sys.sleep(100)
  ")
  expect_true(said(s, "^ready=", 60))
  expect_gte(length(processes_of(s)), 3L)
  tools::pskill(s$pid, 9L)
  expect_true(eventually(!length(processes_of(s))))
})

test_that("errors have classes", {
  s <- crew_script("
    class_of <- function(expr) tryCatch(expr, error = function(e) class(e)[[1]])
    cat('unknown=', class_of(crew_controller_clutch(seconds_idel = 2)), '\\n', sep = '')
    cat('unnamed=', class_of(crew_controller_clutch('a', 2, 3)), '\\n', sep = '')
    cat('theirs=', class_of(crew_controller_clutch(workers = -1)), '\\n', sep = '')
  ")
  expect_true(said(s, "^theirs=", 60))
  expect_identical(value_of(s, "unknown"), "clutch_argument")
  expect_identical(value_of(s, "unnamed"), "clutch_argument")
  expect_match(value_of(s, "theirs"), "^crew")
  expect_error(clutch:::need_package("crew", "crew_controller_clutch()", "99.0"),
               "99.0 or newer", class = "clutch_package")
})
