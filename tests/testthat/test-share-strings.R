# Character vectors in shared memory: exact, ordinary to R, and strings of R's only when touched.

# Vectors of 1 to 2 MB are shared here, however many receive them.
old_share_from <- options(clutch.share_from = 1e6)

shares <- function() testthat::skip_if_not(is_shared(share(numeric(1e5))), "no shared memory")
marked <- function(text, encoding) {
  Encoding(text) <- encoding
  text
}
# Of each kind one
odd <- function() {
  native <- rawToChar(as.raw(c(0xc3, 0xbc))) # no mark: what it is depends on the locale
  c("a", NA, "", "\u00fc\u20ac", marked("fa\xe7ile", "latin1"), marked("\xff\xfe", "bytes"),
    strrep("x", 70000), "NA", if (l10n_info()[["UTF-8"]]) native, "four")
}
expect_same <- function(got, x, info = NULL) {
  testthat::expect_identical(got, x, info = info)
  testthat::expect_identical(Encoding(got), Encoding(x), info = info)
  # expect_true(): to tell where 28 MB of bytes differ would take minutes
  testthat::expect_true(identical(lapply(got, charToRaw), lapply(x, charToRaw)), info = info)
}
many <- function(n = 2e5) c(odd(), sprintf("string %d", seq_len(n)))

test_that("strings, encodings and NA are exact, there and back", {
  shares()
  cl <- make_cluster(2)
  on.exit(stop_cluster(cl))
  n <- length(odd())
  for (x in list(many(), share(many()), c(many(), odd()), rep(odd(), 20L), strrep(odd(), 400L))) {
    back <- parallel::clusterCall(cl, function(v) list(clutch::is_shared(v), v, v[1:12]), x)
    for (b in back) {
      expect_true(b[[1L]] && is_shared(b[[2L]]))
      expect_identical(b[[2L]], x)
      expect_same(b[[2L]][seq_len(n)], x[seq_len(n)])
      expect_same(b[[3L]], x[1:12])
    }
  }
  one <- strrep("y", 2e6) # its text alone is enough
  expect_true(is_shared(parallel::clusterCall(cl, identity, one)[[1L]]))
  expect_identical(parallel::clusterCall(cl, identity, list(one, 1))[[1L]], list(one, 1))
  few <- rep(NA_character_, 2e5) # and so is the number of elements
  expect_true(is_shared(parallel::clusterCall(cl, identity, few)[[1L]]))
  expect_identical(parallel::clusterCall(cl, identity, few)[[1L]], few)
  expect_false(is_shared(parallel::clusterCall(cl, identity, rep("a", 1e5))[[1L]]))
})

test_that("they are found wherever they are, with their attributes", {
  shares()
  cl <- make_cluster(1)
  on.exit(stop_cluster(cl))
  x <- many(1.3e5)[-6L] # without bytes, which factor() does not take
  n <- length(x)
  e <- new.env()
  e$inside <- x
  l <- list(names = structure(seq_len(n), names = x), factor = factor(x),
            table = data.frame(u = x, v = seq_len(n), row.names = paste0("r", seq_len(n))),
            matrix = matrix(rep(x, 2L), 2, dimnames = list(c("a", "b"), x)),
            class = structure(x, class = "text", note = x[1:10]),
            deep = list(list(list(x)), list(x, x)), attribute = structure(1L, note = x),
            closure = local({
              kept <- x
              function() kept
            }), environment = e, call = as.call(list(quote(nchar), x)), pair = pairlist(a = x),
            lazy = as.character(seq_len(n)), expression = expression(a + b, "c"))
  back <- parallel::clusterCall(cl, identity, l)[[1L]]
  for (name in setdiff(names(l), c("closure", "environment")))
    expect_identical(back[[name]], l[[name]], info = name)
  expect_identical(back$closure(), x)
  expect_identical(back$environment$inside, x)
  shared <- list(
    names(back$names), levels(back$factor), back$table$u, attr(back$table, "row.names"),
    back$matrix, back$class, back$deep[[2L]][[2L]], attr(back$attribute, "note"),
    back$environment$inside, environment(back$closure)$kept, back$call[[2L]])
  expect_true(all(vapply(shared, is_shared, NA)))
})

test_that("what only looks like the beginning of one is none", {
  shares()
  was <- options(clutch.share_from = 4096)
  on.exit(options(was))
  cl <- make_cluster(1)
  on.exit(stop_cluster(cl), add = TRUE)
  long <- as.name(strrep("n", 9000))
  for (x in list(list(16L, quote(a)), list(16L, long), as.call(list(16L, long, 16L)),
                 pairlist(16L, long), list(16L, 700L, 9L, 4L, "four"),
                 as.list(rep(c(16L, 9L, 262153L), 999)), list(16L, as.raw(c(9, 0, 4, 0)), "abcd"),
                 rep(c(16L, 600L, 262153L, 4L), 2000), rep("four", 511), rep("four", 400),
                 list(as.raw(c(16, 0, 0, 0)), strrep("z", 5000)), character(), "")) {
    expect_identical(parallel::clusterCall(cl, identity, x)[[1L]], x)
  }
  f <- eval(parse(text = sprintf("function(k) c(%s)[k]", toString(shQuote(1:999, "cmd")))))
  f <- compiler::cmpfun(f)
  expect_identical(parallel::clusterCall(cl, f, 500)[[1L]], "500")
})

test_that("any mixture of vectors comes back as it was", {
  shares()
  was <- options(clutch.share_from = 4096)
  on.exit(options(was))
  cl <- make_cluster(1)
  on.exit(stop_cluster(cl), add = TRUE)
  set.seed(1)
  any_of <- function() {
    n <- sample(c(0:5, 100, 300, 511, 512, 513, 1023:1025, 3000, 9000), 1)
    size <- sample(c(0, 1, 4, 8, 30), 1)
    switch(sample(6, 1), sample(n), runif(n), sample(odd()[-7L], n, TRUE),
           strrep(sample(letters, n, TRUE), size), as.list(strrep("l", seq_len(min(n, 50L)))),
           structure(seq_len(n), names = strrep(sample(LETTERS, n, TRUE), size)))
  }
  same <- vapply(1:100, function(k) {
    x <- lapply(seq_len(sample(8, 1)), function(i) any_of())
    back <- parallel::clusterCall(cl, identity, x)[[1L]]
    identical(back, x) && identical(parallel::clusterCall(cl, identity, back)[[1L]], x) &&
      identical(share(share(x)), x)
  }, NA)
  expect_identical(which(!same), integer())
})

test_that("functions do with them what they do with ordinary ones", {
  shares()
  v <- c(many(8000)[-(5:9)], "a", "string 7")
  with <- list(
    sort, unique, rev, order, nchar, toupper, anyNA, is.na, duplicated, as.factor, rle, make.unique,
    function(v) sort(v, method = "radix"), function(v) match(c("string 77", NA, "none"), v),
    function(v) paste0(v, "!"), function(v) v[-1], function(v) v[1e4], function(v) head(v, 1e4),
    function(v) v[c(TRUE, FALSE, NA)], function(v) v[c(3.7, NA, 0)], function(v) v == "a",
    function(v) table(unname(v), dnn = "v"), function(v) v[["a" == "b"]],
    function(v) substr(v, 1, 3),
    function(v) grep("77", v), function(v) split(v, nchar(v)), function(v) as.integer(v[20:30]),
    function(v) vapply(v, nchar, 1L), function(v) c(v, "end"), function(v) rapply(list(v), nchar),
    function(v) data.frame(v)[3, ], function(v) merge(data.frame(v = v[1:9]), data.frame(v)),
    function(v) object.size(v) > 1e5, function(v) serialize(v, NULL), function(v) strsplit(v, ""),
    function(v) replace(v, 3, "new"), function(v) `names<-`(v, v)["string 5"], function(v) rank(v),
    function(v) utils::capture.output(dput(v[1:20])), function(v) utils::tail(v), as.list, as.name)
  for (f in with) {
    s <- share(v)
    expect_true(is_shared(s))
    got <- tryCatch(suppressWarnings(f(s)), error = function(e) "error")
    expect_identical(got, tryCatch(suppressWarnings(f(v)), error = function(e) "error"),
                     info = deparse(f))
    expect_identical(s, v)
  }
})

test_that("what R has a pointer to is the same", {
  shares()
  x <- many()[-6L]
  s <- share(x)
  in_order <- sort(x)
  for (k in 1:2) {
    expect_identical(sort(s), in_order)
    expect_identical(s[4:9], x[4:9])
    expect_identical(anyNA(s), TRUE)
    expect_identical(share(s), x)
    s[5L] <- x[5L]
  }
})

test_that("a change is never seen on another side", {
  shares()
  cl <- make_cluster(2)
  on.exit(stop_cluster(cl))
  x <- many()[-6L] # without bytes, which sort() does not take
  for (s in list(x, share(x))) {
    cluster_export(cl, "s", environment())
    changed <- parallel::clusterEvalQ(cl[1L], {
      s[2:3] <- c("new", NA)
      s[length(s)] <- "last"
      t <- s
      t[4L] <- ""
      list(s, t)
    })[[1L]]
    expect_identical(changed[[1L]], replace(x, c(2L, 3L, length(x)), c("new", NA, "last")))
    expect_identical(changed[[2L]], replace(changed[[1L]], 4L, ""))
    expect_true(parallel::clusterCall(cl[2L], function(x) identical(s, x), x)[[1L]])
    expect_identical(s, x)
  }
  s <- share(x)
  twice <- parallel::clusterCall(cl[1L], function(l) {
    l[[1L]][1L] <- "changed"
    l[[2L]][1:2]
  }, list(s, s))[[1L]]
  expect_identical(twice, x[1:2])
  kept <- s
  s[1L] <- "changed" # in a copy, since `kept` is the same
  expect_identical(kept, x)
  rm(kept)
  s[2L] <- "in place"
  expect_identical(parallel::clusterCall(cl, function(v) v[1:3], s)[[2L]],
                   c("changed", "in place", x[3L]))
  expect_identical(s[1:3], c("changed", "in place", x[3L]))
  expect_identical(sort(s), sort(c("changed", "in place", x[-(1:2)])))
  expect_identical(parallel::clusterCall(cl, function(v) v[1:3], s)[[1L]], s[1:3])
})

test_that("files, PSOCK workers and other clusters get them, too", {
  shares()
  cl <- make_cluster(1)
  on.exit(stop_cluster(cl))
  x <- many()
  s <- share(x)
  y <- parallel::clusterCall(cl, function(v) {
    file <- tempfile()
    saveRDS(v, file)
    list(readRDS(file), clutch::is_shared(readRDS(file)), v)
  }, s)[[1L]]
  expect_identical(y[[1L]], x)
  expect_false(y[[2L]])
  y <- y[[3L]]
  expect_identical(unserialize(serialize(y, NULL)), x)
  again <- share(y) # a copy, of what has no descriptor
  expect_true(is_shared(again))
  expect_identical(again, x)
  second <- make_cluster(1)
  there <- parallel::clusterCall(second, function(v) list(clutch::is_shared(v), v), y)[[1L]]
  expect_identical(there, list(TRUE, x))
  stop_cluster(second)
  outside_checks_only()
  psock <- parallel::makePSOCKcluster(1L)
  expect_identical(parallel::clusterCall(psock, identity, y)[[1L]], x)
  expect_identical(parallel::clusterCall(psock, identity, s)[[1L]], x)
  parallel::stopCluster(psock)
  other <- make_cluster(1, strategy = "parallel")
  expect_identical(parallel::clusterCall(other, identity, s)[[1L]], x)
  stop_cluster(other)
})

test_that("in another locale it is the same text", {
  shares()
  skip_if_not(l10n_info()[["UTF-8"]])
  cl <- make_cluster(1)
  on.exit(stop_cluster(cl))
  x <- many()
  native <- 9L
  there <- parallel::clusterCall(cl, function(v, k) {
    was <- Sys.getlocale("LC_CTYPE")
    Sys.setlocale("LC_CTYPE", "C")
    on.exit(Sys.setlocale("LC_CTYPE", was))
    list(Encoding(v[k]), charToRaw(v[k]), v)
  }, share(x), native)[[1L]]
  expect_identical(there[[3L]], x)
  # what such a session sends
  was <- Sys.getlocale("LC_CTYPE")
  on.exit(Sys.setlocale("LC_CTYPE", was), add = TRUE)
  Sys.setlocale("LC_CTYPE", "C")
  back <- parallel::clusterCall(cl, function(v) v[c(1L, 30L)], x)[[1L]]
  Sys.setlocale("LC_CTYPE", was)
  expect_identical(back, x[c(1L, 30L)])
})

test_that("a node's own memory is that of the strings it has touched", {
  linux_only()
  skip_if_not(file.exists("/proc/self/smaps_rollup"))
  shares()
  cl <- make_cluster(2) # both map it: what one maps alone may count as its own
  on.exit(stop_cluster(cl))
  own <- function() {
    l <- grep("^Private_Dirty:", readLines("/proc/self/smaps_rollup"), value = TRUE)
    as.numeric(gsub("\\D", "", l)) * 1024
  }
  there <- function(...) min(unlist(parallel::clusterCall(cl, ...)))
  x <- sprintf("a string of the session's %d", 1:1e6)
  parallel::clusterCall(cl, function() for (i in 1:4) gc())
  there(own)
  before <- there(own)
  cluster_export(cl, "x", environment())
  # A copy takes 8 MB for its pointers alone. Pages of the fork server count as the node's own, too,
  # once nobody else has them any more: some 100 kB, at times more than 1 MB.
  expect_lt(there(own) - before, 4e6)
  some <- parallel::clusterEvalQ(cl, x[c(1, 500000, 1e6)])
  expect_identical(some, list(x[c(1, 500000, 1e6)], x[c(1, 500000, 1e6)]))
  parallel::clusterEvalQ(cl, {
    x[77L] <- "changed"
    NULL
  })
  expect_lt(there(own) - before, 4e6)
})

test_that("damaged offsets are an error, and nothing outside is read", {
  linux_only()
  shares()
  blocks <- function() {
    maps <- grep("clutch-data.*\\(deleted\\)$", readLines("/proc/self/maps"), value = TRUE)
    sub("-.*", "", maps)
  }
  gc() # none of before is unmapped now
  before <- blocks()
  x <- share(strrep("abc", rep(1:5, 2e4)))
  new <- setdiff(blocks(), before)
  expect_length(new, 1L)
  at <- as.numeric(paste0("0x", new))
  write <- function(element, low, high) {
    con <- file("/proc/self/mem", "r+b")
    on.exit(close(con))
    seek(con, at + 8 * (element - 1), rw = "write")
    writeBin(as.integer(c(low, high)), con)
  }
  write(10, 64L, 1e6L) # far behind the end
  expect_error(x[10], class = "clutch_protocol")
  expect_error(x[[10]], class = "clutch_protocol")
  expect_error(x[11], class = "clutch_protocol") # begins there
  expect_error(sort(x), class = "clutch_protocol")
  write(20, 64L, 0L) # before it begins
  expect_error(x[c(1, 20)], class = "clutch_protocol")
  expect_identical(x[1:3], c("abc", "abcabc", "abcabcabc"))
  gc() # is not switched off by the error
  expect_gt(length(x), 1)
})

test_that("a damaged state is an error", {
  shares()
  forged <- function(state) {
    int <- function(i) writeBin(as.integer(i), raw(), endian = "little")
    sym <- function(name) c(int(1), int(9 + 64 * 4096), int(nchar(name)), charToRaw(name))
    header <- serialize(NULL, NULL, xdr = FALSE)
    c(header[seq_len(length(header) - 4L)], int(238), int(2), sym("clutch"), int(2),
      int(c(511, 2)), int(c(13, 1, 24, 254)), int(c(14, length(state))),
      writeBin(state, raw(), endian = "little"), int(254))
  }
  for (state in list(c(0, 0, 16, 100, 10, 0), c(0, 0, 16, 100), c(0, 0, 16, NaN, NaN, NaN)))
    expect_error(unserialize(forged(state)), class = "clutch_protocol")
})

test_that("without shared memory they travel as others do", {
  long_test()
  shares()
  code <- c(
    "cl <- make_cluster(1)", "x <- c(NA, '', sprintf('string %d', 1:4e5))",
    "y <- parallel::clusterCall(cl, identity, list(1, structure(x, note = x), 'end'))[[1]]",
    "cat('ok=', identical(y, list(1, structure(x, note = x), 'end')), '\\n', sep = '')",
    "cat('shared=', is_shared(y[[2]]), '\\n', sep = '')", "stop_cluster(cl)")
  # the second is reached when some of the text is there
  for (limit in c(3000, 4500)) {
    s <- start_limited(paste("ulimit -f", limit), code)
    expect_true(said(s, "shared=", 60))
    expect_identical(value_of(s, "ok"), "TRUE")
    expect_identical(value_of(s, "shared"), "FALSE")
  }
})

test_that("collections at any time do no harm to strings", {
  shares()
  long_test()
  was <- options(clutch.share_from = 4096)
  on.exit(options(was))
  cl <- make_cluster(1)
  on.exit(stop_cluster(cl), add = TRUE)
  x <- c(odd(), sprintf("string %d", 1:1500))
  gctorture(TRUE)
  r <- parallel::clusterCall(cl, function(v) {
    gctorture(TRUE)
    on.exit(gctorture(FALSE))
    w <- v
    w[2L] <- "b"
    list(w[c(1, 1400)], rev(v)[1:2], v)
  }, x)[[1L]]
  s <- share(x)
  s[3L] <- "new"
  t <- s[1:5]
  gctorture(FALSE)
  expect_identical(r, list(x[c(1, 1400)], rev(x)[1:2], x))
  expect_identical(t, replace(x, 3L, "new")[1:5])
})

options(old_share_from)
