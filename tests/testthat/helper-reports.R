# Programs after what users of packages for parallel computing have reported. Each is a few lines,
# as a user would write them, which map by `lap(X, FUN, ...)`. It has to give by each way to use a
# cluster what it gives where `lap` is lapply().

# `source`: where it was reported; `code`: the program; `value`: what it gives, where that is not
# what lapply() gives; `ways`: names of groups of ways, see below; `but`: ways that do something
# else, which the vignette about differences says; `needs`: packages.
report <- function(source, about, code, value, ways = "plain", but = character(),
                   needs = character(), detach = character()) {
  r <- list(name = paste0(about, " (", source, ")"), code = substitute(code), ways = ways,
            but = but, needs = needs, detach = detach)
  if (!missing(value)) r$value <- substitute(value)
  r
}

exported <- function(package, name) getExportedValue(package, name)

# Each opens what it needs, and gives `lap` and `close`.
report_ways <- list(
  cluster_map = function() {
    cl <- make_cluster(2)
    list(lap = function(X, FUN, ...) cluster_map(cl, X, FUN, ...),
         close = function() stop_cluster(cl))
  },
  cluster_submit = function() {
    cl <- make_cluster(2)
    lap <- function(X, FUN, ...) {
      collect_all(lapply(X, function(i) cluster_submit_call(cl, FUN, list(i, ...))))
    }
    list(lap = lap, close = function() stop_cluster(cl))
  },
  mclapply = function() {
    lap <- function(X, FUN, ...) first_error(mclapply(X, FUN, ..., mc.cores = 2))
    list(lap = lap, close = end_own_cluster)
  },
  parLapply = function() {
    cl <- make_cluster(2)
    list(lap = function(X, FUN, ...) parallel::parLapply(cl, X, FUN, ...),
         close = function() stop_cluster(cl))
  },
  clusterApplyLB = function() {
    cl <- make_cluster(2)
    list(lap = function(X, FUN, ...) parallel::clusterApplyLB(cl, X, FUN, ...),
         close = function() stop_cluster(cl))
  },
  clusterMap = function() {
    cl <- make_cluster(2)
    lap <- function(X, FUN, ...) parallel::clusterMap(cl, FUN, X, MoreArgs = list(...))
    list(lap = lap, close = function() stop_cluster(cl))
  },
  foreach = function() {
    skip_if_not_installed("foreach")
    cl <- make_cluster(2)
    registerDoClutch(cl)
    lap <- function(X, FUN, ...) {
      foreach::`%dopar%`(foreach::foreach(i = X), FUN(i, ...))
    }
    list(lap = lap, close = function() {
      foreach::registerDoSEQ()
      stop_cluster(cl)
    })
  },
  BiocParallel = function() {
    skip_if_not_installed("BiocParallel")
    cl <- make_cluster(2)
    lap <- function(X, FUN, ...) {
      without_codetools(BiocParallel::bplapply(X, FUN, ..., BPPARAM = ClutchParam(cl)))
    }
    list(lap = lap, close = function() stop_cluster(cl))
  },
  future_lapply = function() {
    skip_if_not_installed("future.apply")
    with_futures(exported("future.apply", "future_lapply"))
  },
  future_map = function() {
    skip_if_not_installed("furrr")
    with_futures(exported("furrr", "future_map"))
  },
  future = function() {
    with_futures(function(X, FUN, ...) {
      lapply(lapply(X, function(i) future::future(FUN(i, ...))), future::value)
    })
  },
  mirai_map = function() {
    skip_if_not_installed("mirai", "2.5.0")
    outside_checks_only()
    mirai_daemons(2)
    lap <- function(X, FUN, ...) {
      mirai::mirai_map(as.list(X), FUN, .args = list(...))[mirai::.stop]
    }
    list(lap = lap, close = function() mirai::daemons(0))
  },
  crew = function() {
    skip_if_not_installed("crew", "1.0.0")
    outside_checks_only()
    x <- crew_controller_clutch(workers = 2)
    x$start()
    lap <- function(X, FUN, ...) crew_lapply(controller, X, FUN, ...)
    environment(lap) <- list2env(list(controller = x), parent = environment(lap))
    list(lap = lap, close = function() x$terminate())
  }
)

# mclapply() gives errors as values, and warns.
first_error <- function(code) {
  values <- withCallingHandlers(code, warning = function(w) {
    if (grepl("encountered error", conditionMessage(w))) invokeRestart("muffleWarning")
  })
  for (v in values) if (inherits(v, "try-error")) stop(attr(v, "condition"))
  values
}

with_futures <- function(lap) {
  skip_if_not_installed("future", "1.40.0")
  future::plan(clutch, workers = I(2))
  list(lap = lap, close = function() future::plan("sequential"))
}

# BiocParallel searches functions by means of package codetools, which warns of dots.
without_codetools <- function(code) {
  withCallingHandlers(code, warning = function(w) {
    if (grepl("may be used in an incorrect context", conditionMessage(w))) {
      invokeRestart("muffleWarning")
    }
  })
}

crew_lapply <- function(controller, X, FUN, ...) {
  if (!length(X)) return(list())
  known <- names(X)
  done <- controller$map(command = do.call(f, c(list(i), more), quote = TRUE),
                         iterate = list(i = unname(as.list(X))), error = "silent",
                         data = list(f = FUN, more = list(...)), verbose = FALSE)
  failed <- which(!is.na(done$error))
  if (length(failed)) stop(done$error[[failed[[1L]]]], call. = FALSE)
  stats::setNames(done$result, known)
}

# `plain`: what a function has in its arguments, and itself. `finds`: what it uses of the workspace.
# `relays`: what it prints and signals.
report_groups <- list(
  plain = names(report_ways),
  finds = c("cluster_map", "cluster_submit", "mclapply", "foreach", "BiocParallel",
            "future_lapply", "future_map", "future"),
  relays = c("cluster_map", "cluster_submit", "foreach", "future_lapply", "future_map", "future")
)

# For programs: what code signals and prints, in its order; the error that it ends with.
heard <- function(code) {
  said <- character()
  note <- function(kind, c) said <<- c(said, paste(kind, conditionMessage(c)))
  printed <- utils::capture.output(withCallingHandlers(code, warning = function(w) {
    note("warning", w)
    invokeRestart("muffleWarning")
  }, message = function(m) {
    note("message", m)
    invokeRestart("muffleMessage")
  }))
  list(said = said, printed = printed)
}
caught <- function(code) tryCatch(code, error = identity)

# At top level of the workspace, as a script is run; what it leaves there is removed.
run_report <- function(r, lap) {
  for (p in r$needs) skip_if_not_installed(p)
  before <- ls(globalenv(), all.names = TRUE)
  on.exit({
    new <- setdiff(ls(globalenv(), all.names = TRUE), c(before, ".Random.seed"))
    for (class in sub("^.__C__", "", grep("^.__C__", new, value = TRUE)))
      try(methods::removeClass(class, globalenv()), silent = TRUE)
    rm(list = intersect(new, ls(globalenv(), all.names = TRUE)), envir = globalenv())
    for (p in intersect(paste0("package:", r$detach), search())) detach(p, character.only = TRUE)
  })
  assign("lap", lap, globalenv())
  assign("heard", heard, globalenv())
  assign("caught", caught, globalenv())
  suppressMessages(eval(r$code, globalenv()))
}

ways_of_report <- function(r) {
  groups <- names(report_groups)
  all <- lapply(r$ways, function(w) if (w %in% groups) report_groups[[w]] else w)
  setdiff(unlist(all), r$but)
}

# One test for each program and way; a way is opened once. `without`: ways that are left to other
# files, since they are slow to open.
test_reports <- function(reports, without = character()) {
  for (way in setdiff(names(report_ways), without)) local({
    way <- way
    mine <- Filter(function(r) way %in% ways_of_report(r), reports)
    opened <- NULL
    why <- NULL
    if (length(mine)) opened <- tryCatch(report_ways[[way]](), skip = function(s) {
      why <<- conditionMessage(s)
      NULL
    })
    on.exit(if (!is.null(opened)) opened$close())
    for (r in mine) local({
      r <- r
      test_that(paste0(way, ": ", r$name), {
        if (is.null(opened)) skip(why)
        expected <- if (is.null(r$value)) run_report(r, lapply) else eval(r$value, globalenv())
        expect_equal(run_report(r, opened$lap), expected)
      })
    })
  })
}
