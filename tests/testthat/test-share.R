# Large vectors travel by shared memory: what they are on the other side, and what is left of them.

# Vectors of 1 to 2 MB are shared here, however many receive them.
old_share_from <- options(clutch.share_from = 1e6)

# Numbers of the files without a name that are mapped: of memory, or in the temporary folder (make
# test-portable, where the package does not read /proc)
blocks <- function() {
  lines <- grep("clutch-data.*\\(deleted\\)$", readLines("/proc/self/maps"), value = TRUE)
  unique(as.numeric(vapply(strsplit(lines, " +"), `[`, "", 5L)))
}
shares <- function() testthat::skip_if_not(is_shared(share(numeric(1e5))), "no shared memory")
inspect <- function(x) clutch::is_shared(x)

# With every kind of vector, where they may hide; each of more than 1e6 bytes.
kinds <- function() {
  n <- 3e5
  day <- as.Date("2024-01-01") + seq_len(n) %% 1000
  e <- new.env()
  e$inside <- c(NA, runif(n))
  list(
    integer = c(NA, seq_len(n) * 3L), double = c(NA, NaN, -Inf, -0, runif(n)),
    logical = rep(c(TRUE, NA, FALSE), 1e5), complex = complex(real = runif(1e5), imaginary = NA),
    raw = as.raw(rep(0:255, 5000)), matrix = matrix(runif(n), 3, dimnames = list(letters[1:3])),
    array = array(seq_len(n) + 0L, c(10, 10, n / 100)), factor = factor(rep(letters[1:3], 1e5)),
    date = day, time = as.POSIXct("2024-01-01", tz = "UTC") + seq_len(n),
    lag = as.difftime(seq_len(n) + 0.5, units = "mins"), named = c(a = 1L, b = 2L),
    table = data.frame(u = runif(n), v = seq_len(n) + 0L, w = "text"),
    deep = list(list(list(runif(n)), 1), 2), attribute = structure(1L, note = runif(n)),
    closure = local({
      kept <- runif(n)
      function() sum(kept)
    }),
    environment = e, call = as.call(list(quote(sum), runif(n))), pair = pairlist(a = runif(n)),
    words = rep(c("a", NA, "\u00fc"), 1e5)
  )
}

test_that("what travels by shared memory is the same object, both ways", {
  shares()
  cl <- make_cluster(2)
  on.exit(stop_cluster(cl))
  x <- kinds()
  back <- parallel::clusterCall(cl, identity, x)[[2L]]
  plain <- setdiff(names(x), c("closure", "environment"))
  for (name in plain) expect_identical(back[[name]], x[[name]], info = name)
  expect_identical(back$closure(), x$closure())
  expect_identical(back$environment$inside, x$environment$inside)
  shared <- vapply(c("integer", "double", "complex", "raw", "matrix", "array", "factor", "date",
                     "time", "lag"), function(name) is_shared(back[[name]]), NA)
  expect_true(all(shared), info = paste(names(shared)[!shared], collapse = " "))
  expect_true(is_shared(back$table) && is_shared(back$deep))
  expect_true(is_shared(environment(back$closure)$kept) && is_shared(back$environment$inside))
  expect_true(is_shared(attr(back$attribute, "note")))
  expect_false(is_shared(back$named))
})

test_that("all ways to nodes and back share", {
  shares()
  cl <- make_cluster(2)
  on.exit(stop_cluster(cl))
  x <- runif(2e5)
  is_shared_there <- function(v) clutch::is_shared(v)
  expect_true(all(cluster_map_lgl(cl, 1:2, function(i) clutch::is_shared(x))))
  expect_true(all(cluster_map_lgl(cl, list(x, x + 1), is_shared_there)))
  expect_true(all(cluster_map_lgl(cl, 1:2, function(i, v) clutch::is_shared(v),
                                  .more = list(v = x))))
  expect_true(collect(cluster_submit(cl, clutch::is_shared(x))))
  expect_true(all(unlist(parallel::clusterCall(cl, is_shared_there, x))))
  cluster_export(cl, "x", environment())
  expect_true(all(unlist(parallel::clusterEvalQ(cl, clutch::is_shared(x)))))
  expect_true(is_shared(collect(cluster_submit(cl, x + 1))))
  expect_true(is_shared(cluster_map(cl, 1:2, function(i) x + i)[[2L]]))
  expect_true(is_shared(parallel::clusterApplyLB(cl, 1:3, function(i, v) v * i, x)[[3L]]))
  log <- cluster_map(cl, 1:2, function(i) {
    message("said")
    x + i
  }, .relay = "none")
  expect_identical(log[[1L]], x + 1)
})

test_that("a change on one side is never seen on another", {
  shares()
  cl <- make_cluster(2)
  on.exit(stop_cluster(cl))
  x <- share(as.numeric(1:2e5) + 0)
  y <- x + 0
  change <- function(v) {
    v[1L] <- -1
    sum(v)
  }
  for (v in list(x, y)) {
    expect_equal(unlist(parallel::clusterCall(cl, change, v)), rep(sum(y) - 2, 2))
  }
  expect_identical(c(x, 0), c(y, 0))
  # nor is there another copy of what replaced nodes will get
  cluster_export(cl, "x", environment())
  expect_true(is_shared(clutch:::setup_of(cl[[1L]]$info)[[1L]]$arg$x))
  # of one that is sent twice in a message
  twice <- parallel::clusterCall(cl[1L], function(l) {
    l[[1L]][1L] <- -1
    l[[2L]][1L]
  }, list(x, x))[[1L]]
  expect_identical(twice, 1)
  # kept on the node while the session changes its own
  cluster_export(cl, "x", environment())
  z <- x
  z[] <- 0
  x[2L] <- 0
  expect_identical(unlist(parallel::clusterEvalQ(cl, sum(x))), rep(sum(y), 2))
  parallel::clusterEvalQ(cl[1L], {
    x[] <- 1
    NULL
  })
  expect_identical(unlist(parallel::clusterEvalQ(cl, sum(x))), c(2e5, sum(y)))
})

# On the nodes and here: the same memory has the same number.
test_that("what came goes back and on without a copy, as long as nobody has changed it", {
  linux_only()
  needs("proc")
  shares()
  gc()
  before <- blocks()
  cl <- make_cluster(2)
  on.exit(stop_cluster(cl))
  there <- blocks
  environment(there) <- globalenv()
  own <- function() parallel::clusterCall(cl[1L], there)[[1L]]
  x <- list(a = runif(3e5), b = runif(3e5), c = rep(c("a", NA, "\u00fc"), 1e5), d = 1)
  cluster_export(cl, "x", environment())
  id <- own()
  expect_length(id, 1L)
  back <- parallel::clusterEvalQ(cl, c(x, list(new = 2)))
  expect_identical(back, rep(list(c(x, list(new = 2))), 2L))
  expect_identical(setdiff(blocks(), before), id)
  # each has its own pages of it
  back[[1L]]$a[1L] <- -1
  expect_identical(back[[2L]]$a, x$a)
  expect_identical(parallel::clusterEvalQ(cl, x$a[1:2])[[1L]], x$a[1:2])
  # on to others: as it is, and with the change
  on <- function(v) parallel::clusterCall(cl[2L], function(v) c(v$a[1:2], length(v$c)), v)[[1L]]
  expect_identical(on(back[[2L]]), c(x$a[1:2], 3e5))
  expect_identical(on(back[[1L]]), c(-1, x$a[2L], 3e5))
  # what has changed on the node, in place
  parallel::clusterEvalQ(cl[1L], {
    x$b[2L] <- -2
    NULL
  })
  y <- parallel::clusterEvalQ(cl, x)
  expect_identical(y[[1L]]$b, replace(x$b, 2L, -2))
  expect_identical(y[[2L]], x)
})

test_that("a small part of what came does not keep the whole", {
  linux_only()
  needs("proc")
  shares()
  gc()
  before <- share_info()$id
  largest <- function() {
    now <- share_info()
    here <- vapply(now$pids, function(p) Sys.getpid() %in% p, NA)
    max(now$bytes[here & !now$id %in% before])
  }
  cl <- make_cluster(1)
  on.exit(stop_cluster(cl))
  x <- list(runif(3e5), runif(3e5), runif(3e5))
  cluster_export(cl, "x", environment())
  y <- parallel::clusterEvalQ(cl, x[[2L]])[[1L]]
  expect_true(is_shared(y))
  expect_identical(y, x[[2L]])
  expect_lt(largest(), 2.5e6)
  z <- parallel::clusterEvalQ(cl, list(x[[3L]], x[[1L]], x[[2L]]))[[1L]]
  expect_identical(z, x[c(3L, 1L, 2L)])
  expect_gt(largest(), 7e6)
  # twice in a message, to be changed each by itself
  w <- parallel::clusterEvalQ(cl, c(x, x))[[1L]]
  w[[1L]][1L] <- -1
  expect_identical(w[[4L]], x[[1L]])
})

test_that("subsets are those of ordinary vectors", {
  shares()
  vectors <- list(runif(2e5), sample(3e5), runif(3e5) > 0.5, complex(real = runif(1e5)),
                  as.raw(sample(0:255, 1.2e6, TRUE)))
  for (x in vectors) {
    y <- share(x)
    n <- length(x)
    for (i in list(1:10, c(1, 5, n), c(n + 1, 2, NA), -(1:5), c(TRUE, FALSE, NA), integer(), 0,
                   c(3.7, 2.2), n, c(NA_integer_, 4L), 1e300, n + 0.5)) {
      expect_identical(y[i], x[i])
    }
    names(x) <- names(y) <- seq_along(x)
    expect_identical(y[c(5, NA)], x[c(5, NA)])
    expect_identical(y[c("7", "none")], x[c("7", "none")])
  }
})

test_that("code that writes through a pointer changes its own copy only", {
  shares()
  lib <- compiled("put")
  cl <- make_cluster(2)
  on.exit(stop_cluster(cl))
  parallel::clusterCall(cl, dyn.load, lib)
  dyn.load(lib)
  put <- function(v) {
    # `v` itself, which nothing else on this node refers to
    .Call("put", v)
    list(v[1:2], length(v))
  }
  first_two <- function(v) v[1:2]
  environment(put) <- environment(first_two) <- globalenv()
  for (x in list(runif(2e5), seq_len(3e5) + 0L, rep(TRUE, 3e5), complex(real = runif(1e5)),
                 as.raw(rep(1:200, 1e4)))) {
    r <- share(x)
    .Call("put_by_reader", r)
    expect_false(identical(r[1:2], x[1:2]))
    expect_identical(parallel::clusterCall(cl, first_two, r)[[2L]], r[1:2])
    s <- share(x)
    said <- parallel::clusterCall(cl, put, s)
    expect_false(identical(said[[1L]][[1L]], x[1:2]))
    expect_identical(said[[1L]], said[[2L]])
    expect_identical(s[1:2], x[1:2])
    .Call("put", s) # in place, as data.table::set(): what is sent has it
    expect_identical(parallel::clusterCall(cl, function(v) v[1:2], s)[[2L]], s[1:2])
    expect_false(identical(s[1:2], x[1:2]))
  }
  dyn.unload(lib)
})

test_that("files, connections, PSOCK workers and other clusters get ordinary vectors", {
  shares()
  cl <- make_cluster(2)
  on.exit(stop_cluster(cl))
  x <- runif(2e5)
  y <- parallel::clusterCall(cl, identity, x)[[1L]]
  s <- share(x)
  expect_true(is_shared(y) && is_shared(s))
  file <- tempfile()
  for (v in list(y, s)) {
    saveRDS(v, file)
    # in an R that has never heard of us
    code <- "x <- readRDS('%s'); cat(length(x), sprintf('%%.17g', x[[7]]), loadedNamespaces())"
    code <- sprintf(code, file)
    out <- system2(file.path(R.home("bin"), "Rscript"), c("--vanilla", "-e", shQuote(code)),
                   stdout = TRUE)
    expect_match(out, paste("^200000", sprintf("%.17g", x[[7L]])))
    expect_false(grepl("clutch", out))
    expect_identical(unserialize(serialize(v, NULL)), x)
    expect_identical(object.size(v), object.size(x))
    expect_true(all.equal(v, x) && identical(v, x))
    expect_identical(eval(parse(text = deparse(v[1:10], control = "digits17"))), x[1:10])
  }
  outside_checks_only()
  other <- make_cluster(1, strategy = "parallel")
  expect_identical(parallel::clusterCall(other, identity, s)[[1L]], x)
  expect_false(is_shared(parallel::clusterCall(other, identity, s)[[1L]]))
  stop_cluster(other)
  psock <- parallel::makePSOCKcluster(1L)
  expect_identical(parallel::clusterCall(psock, identity, y)[[1L]], x)
  parallel::stopCluster(psock)
  second <- make_cluster(1)
  expect_true(parallel::clusterCall(second, inspect, y)[[1L]])
  expect_identical(parallel::clusterCall(second, identity, y)[[1L]], x)
  stop_cluster(second)
})

test_that("the option says from which size on", {
  shares()
  was <- options(clutch.share_from = 1e5)
  on.exit(options(was))
  cl <- make_cluster(1)
  on.exit(stop_cluster(cl), add = TRUE)
  there <- function(n) parallel::clusterCall(cl, function(v) clutch::is_shared(v), raw(n))[[1L]]
  back <- function(n) is_shared(parallel::clusterCall(cl, function(n) raw(n), n)[[1L]])
  expect_identical(c(there(1e5), there(1e5 - 1), back(1e5), back(1e5 - 1)),
                   c(TRUE, FALSE, TRUE, FALSE))
  options(clutch.share_from = Inf)
  expect_false(there(1e7))
  expect_false(is_shared(share(numeric(1e6))))
  for (bad in list("a", -1, c(1, 2), NA_real_)) {
    options(clutch.share_from = bad)
    expect_error(there(10), class = "clutch_argument")
    expect_error(share(1), class = "clutch_argument")
  }
})

test_that("without the option it depends on how many receive it", {
  shares()
  was <- options(clutch.share_from = NULL)
  on.exit(options(was))
  clusters <- list(make_cluster(1), make_cluster(2), make_cluster(7), make_cluster(8))
  on.exit(for (cl in clusters) stop_cluster(cl), add = TRUE)
  there <- function(v) clutch::is_shared(v)
  raws <- function(from) list(raw(from - 1), raw(from))
  # of a vector that is too small by a byte, and of one that is not
  ways <- list(
    call = function(cl, v) unlist(parallel::clusterCall(cl, there, v)),
    export = function(cl, v) {
      cluster_export(cl, "v", environment())
      unlist(parallel::clusterEvalQ(cl, clutch::is_shared(v)))
    },
    parallels_export = function(cl, v) {
      parallel::clusterExport(cl, "v", environment())
      unlist(parallel::clusterEvalQ(cl, clutch::is_shared(v)))
    },
    constant = function(cl, v) {
      cluster_map_lgl(cl, seq_along(cl), function(i, v) clutch::is_shared(v), .more = list(v = v))
    },
    global = function(cl, v) cluster_map_lgl(cl, seq_along(cl), function(i) clutch::is_shared(v))
  )
  from <- c(2.5e6, 1e6, 1e6, 3e5)
  for (k in seq_along(clusters)) for (way in names(ways)) {
    got <- lapply(raws(from[[k]]), ways[[way]], cl = clusters[[k]])
    expected <- lapply(c(FALSE, TRUE), rep, length(clusters[[k]]))
    expect_identical(got, expected, info = paste(way, k))
  }
  # one of many nodes, and back
  cl <- clusters[[4L]]
  one <- list(
    call = function(v) parallel::clusterCall(cl[3L], there, v)[[1L]],
    submitted = function(v) collect(cluster_submit(cl, clutch::is_shared(v))),
    global = function(v) cluster_map_lgl(cl, 1, function(i) clutch::is_shared(v)),
    element = function(v) all(cluster_map_lgl(cl, rep(list(v), 8L), there, .chunk = 1)),
    parallels_element = function(v) all(unlist(parallel::clusterApply(cl, rep(list(v), 8L), there)))
  )
  for (way in names(one)) {
    expect_identical(lapply(raws(2.5e6), one[[way]]), list(FALSE, TRUE), info = way)
  }
  back <- list(
    call = function(n) vapply(parallel::clusterCall(cl, raw, n), is_shared, NA),
    map = function(n) vapply(cluster_map(cl, rep(n, 8L), raw, .chunk = 1), is_shared, NA),
    submitted = function(n) is_shared(collect(cluster_submit(cl, raw(n))))
  )
  from <- c(2.5e6, 1e6, 1e6, 1e6)
  for (k in seq_along(clusters)) for (way in names(back)) {
    cl <- clusters[[k]]
    got <- lapply(c(from[[k]] - 1, from[[k]]), function(n) unique(back[[way]](n)))
    expect_identical(got, list(FALSE, TRUE), info = paste(way, k))
  }
  cl <- clusters[[4L]]
  # two nodes of eight
  expect_identical(lapply(raws(1e6), ways$call, cl = cl[1:2]), list(rep(FALSE, 2), rep(TRUE, 2)))
  # with the option the number is the same for all
  options(clutch.share_from = 5e5)
  expect_identical(vapply(clusters, function(cl) ways$call(cl, raw(5e5))[[1L]], NA), rep(TRUE, 4))
  expect_identical(vapply(clusters, function(cl) ways$call(cl, raw(4e5))[[1L]], NA), rep(FALSE, 4))
})

test_that("nodes have the session's option, or what is best for their results", {
  option <- function(cl) unlist(parallel::clusterEvalQ(cl, getOption("clutch.share_from")))
  for (strategy in c("fork_server", "spawn")) for (from in list(NULL, 12345, Inf)) {
    was <- options(clutch.share_from = from)
    cl <- make_cluster(1, strategy = strategy)
    options(was)
    expect_identical(option(cl), if (is.null(from)) 2.5e6 else from, info = strategy)
    stop_cluster(cl)
  }
})

test_that("share() keeps environments, and shares what is in lists", {
  shares()
  e <- new.env()
  e$big <- runif(2e5)
  l <- share(list(e = e, table = data.frame(a = runif(1e5)), f = function() e, small = 1))
  expect_identical(l$e, e)
  expect_true(is_shared(l$table$a))
  expect_false(is_shared(e$big))
  expect_identical(environment(l$f), environment())
  expect_identical(l$f(), e)
  again <- share(l)
  again$table$a[[1L]] <- -1
  expect_false(identical(l$table$a[[1L]], -1))
  expect_identical(share(1:3), 1:3)
  expect_identical(share(NULL), NULL)
  expect_true(is.environment(share(e)) && identical(share(e), e))
  x <- share(runif(1e5))
  expect_identical(share(x), x)
})

# An element that is -1 looks like the beginning of a long vector's length.
test_that("vectors are found whatever was written before them", {
  shares()
  cl <- make_cluster(1)
  on.exit(stop_cluster(cl))
  x <- runif(2e5)
  for (before in list(-1L, NA, 14L, NA_character_, c(14L, -1L), list(14L, -1L), NULL, as.raw(255)))
    expect_identical(parallel::clusterCall(cl, function(l) list(clutch::is_shared(l[[2L]]), l),
                                           list(before, x)),
                     list(list(TRUE, list(before, x))))
})

test_that("share_info() tells blocks, bytes and processes", {
  needs("proc")
  shares()
  gc()
  cl <- make_cluster(2)
  on.exit(stop_cluster(cl))
  before <- share_info()
  x <- share(runif(1e5))
  parallel::clusterCall(cl, assign, "kept", x, envir = globalenv())
  now <- share_info()
  new <- now[!now$id %in% before$id, ]
  expect_identical(nrow(new), 1L)
  expect_gte(new$bytes, 8e5)
  expect_setequal(new$pids[[1L]], c(Sys.getpid(), pids(cl)))
  # what nodes alone have mapped
  y <- runif(2e5)
  cluster_export(cl[2L], "y", environment())
  now <- share_info()
  new <- now[!now$id %in% c(before$id, new$id), ]
  expect_identical(nrow(new), 1L)
  expect_gte(new$bytes, 1.6e6)
  expect_identical(new$pids[[1L]], pids(cl)[[2L]])
  expect_identical(unique(now$what), "vectors")
  stop_cluster(cl)
  expect_false(any(new$id %in% share_info()$id))
})

test_that("memory is given back: dropped values, stopped nodes, ended clusters", {
  linux_only()
  shares()
  gc()
  fds <- open_fds()
  before <- blocks()
  x <- share(runif(1e5))
  expect_length(setdiff(blocks(), before), 1L)
  rm(x)
  gc()
  cl <- make_cluster(2)
  next_one <- function() parallel::clusterCall(cl[1L], function() numeric(5e6))[[1L]]
  kept <- lapply(1:10, function(i) next_one())
  rm(kept) # what was in use before does not count
  gc()
  most <- 0L
  for (i in 1:40) {
    x <- next_one()
    most <- max(most, length(setdiff(blocks(), before)))
  }
  expect_lte(most, 9L) # 310 MB, and the one that comes
  rm(x)
  gc()
  expect_identical(setdiff(blocks(), before), numeric())
  cluster_map(cl, 1:6, function(i) numeric(1e6) + i)
  tools::pskill(pids(cl)[[1L]], 9L)
  cluster_map(cl, 1:6, function(i) numeric(1e6) + i)
  stop_cluster(cl)
  gc()
  expect_identical(setdiff(blocks(), before), numeric())
  expect_true(eventually(open_fds() <= fds + 2L)) # the fork server's
})

test_that("a session or nodes that are killed leave nothing", {
  linux_only()
  long_test()
  shares()
  # Inodes of the shared memory that a process has mapped or holds a descriptor of. What nobody has
  # is freed by the system; /proc/meminfo also counts what other programs have meanwhile.
  inodes <- function(pid) {
    dir <- file.path("/proc", pid)
    maps <- tryCatch(suppressWarnings(readLines(file.path(dir, "maps"))),
                     error = function(e) character())
    ours <- "clutch-data.*\\(deleted\\)$"
    mapped <- strsplit(grep(ours, maps, value = TRUE), " +")
    fds <- list.files(file.path(dir, "fdinfo"), full.names = TRUE)
    open <- fds[grepl(ours, Sys.readlink(sub("fdinfo", "fd", fds)))]
    info <- lapply(open, function(f) {
      tryCatch(suppressWarnings(readLines(f)), error = function(e) character())
    })
    info <- grep("^ino:", unlist(info), value = TRUE)
    unique(c(vapply(mapped, `[[`, "", 5L), sub("\\D+", "", info)))
  }
  all_pids <- function() grep("^[0-9]+$", list.files("/proc"), value = TRUE)
  for (i in 1:3) {
    s <- start_script(c(
      "cl <- make_cluster(3)", "x <- share(runif(1e7))", "cat('ready\\n')",
      "repeat cluster_map(cl, 1:6, function(i) x + i, .retries = 5)"))
    expect_true(said(s, "ready"))
    Sys.sleep(stats::runif(1, 0.1, 1))
    nodes <- setdiff(processes_of(s), s$pid)
    if (i == 1L) tools::pskill(nodes[[length(nodes)]], 9L)
    Sys.sleep(0.3)
    had <- unlist(lapply(processes_of(s), inodes))
    expect_true(length(had) > 0L)
    tools::pskill(s$pid, 9L)
    expect_true(eventually(length(processes_of(s)) == 0L))
    expect_true(eventually(!any(unlist(lapply(all_pids(), inodes)) %in% had)))
  }
})

test_that("limits of files and descriptors mean the socket", {
  long_test()
  shares()
  code <- c(
    "cl <- make_cluster(2)", "x <- runif(1e6)",
    "y <- parallel::clusterCall(cl, identity, x)[[1]]",
    "tasks <- lapply(1:60, function(i) cluster_submit(cl, x + i))",
    "z <- lapply(tasks, collect)",
    "ok <- identical(y, x) && identical(z[[60]], x + 60)",
    "cat('ok=', ok, '\\n', 'shared=', is_shared(y), '\\n', sep = '')", "stop_cluster(cl)")
  for (limit in c("-f 4000", "-n 256")) {
    s <- start_limited(paste("ulimit", limit), code)
    came <- said(s, "shared=", 60)
    expect_true(came, info = paste(c(limit, readLines(s$out, warn = FALSE)), collapse = "\n"))
    if (!came) next
    expect_identical(value_of(s, "ok"), "TRUE")
    if (limit == "-f 4000") expect_identical(value_of(s, "shared"), "FALSE")
  }
})

test_that("collections at any time do no harm", {
  shares()
  long_test()
  was <- options(clutch.share_from = 4096)
  on.exit(options(was))
  cl <- make_cluster(1)
  on.exit(stop_cluster(cl), add = TRUE)
  x <- list(a = as.numeric(1:1000), b = list(1:2000 + 0L), c = factor(rep(letters, 100)))
  gctorture(TRUE)
  r <- parallel::clusterCall(cl, function(v) {
    gctorture(TRUE)
    on.exit(gctorture(FALSE))
    v$a[1] <- 1
    v
  }, x)[[1L]]
  s <- share(x)
  gctorture(FALSE)
  expect_identical(r, x)
  expect_identical(s, x)
})

test_that("a damaged message is an error", {
  shares()
  # an object that says it is shared, in a file
  forged <- function(class, state) {
    int <- function(i) writeBin(as.integer(i), raw(), endian = "little")
    sym <- function(name) c(int(1), int(9 + 64 * 4096), int(nchar(name)), charToRaw(name))
    header <- serialize(NULL, NULL, xdr = FALSE)
    c(header[seq_len(length(header) - 4L)], int(238), int(2), sym(class), int(2), int(c(511, 2)),
      int(c(13, 1, 24, 254)), int(c(14, length(state))), writeBin(state, raw(), endian = "little"),
      int(254))
  }
  expect_error(unserialize(forged("clutch", c(0, 0, 14, 100))), class = "clutch_protocol")
  expect_error(unserialize(forged("clutch", c(0, 0))), class = "clutch_protocol")
})

options(old_share_from)

test_that("share() of an object with many environments takes as long as they are many", {
  shares()
  # 40,000 took 40 s when each was compared with all before it, and nothing ended that
  setTimeLimit(elapsed = 150)
  on.exit(setTimeLimit())
  e <- lapply(1:100000, function(i) list2env(list(i = i), parent = emptyenv()))
  s <- share(list(e, rev(e), runif(1e5)))
  expect_true(is_shared(s[[3L]]))
  expect_true(all(mapply(identical, s[[1L]], e)) && all(mapply(identical, s[[2L]], rev(e))))
})
