# Objects with external pointers in them: they are made again where they arrive, or are refused by
# name.

travel_cluster <- NULL
a_cluster <- function() {
  if (is.null(travel_cluster) || cluster_is_stopped(travel_cluster))
    travel_cluster <<- make_cluster(2)
  travel_cluster
}

unknown <- function() structure(list(ptr = live_pointer()), class = "unknown")

# The error of class "clutch_pointer", or whose parent it is.
refusal <- function(code) {
  e <- tryCatch({
    code
    NULL
  }, error = identity)
  if (inherits(e$parent, "clutch_pointer")) e$parent else e
}

# The lines that the script prints, which are all to end in "right".
kinds_that_travel <- function(library, ...) {
  script <- test_path("fixtures", "travel-kinds.R")
  libraries <- paste(.libPaths(), collapse = .Platform$path.sep)
  system2(file.path(R.home("bin"), "Rscript"),
          shQuote(c(script, normalizePath(test_path(".")), library, ...)),
          stdout = TRUE, stderr = TRUE, env = paste0("R_LIBS=", shQuote(libraries)))
}

expect_all_right <- function(lines, least) {
  results <- grep("(right|WRONG)$", lines, value = TRUE)
  expect_gte(length(results), least)
  expect_identical(grep("WRONG$", results, value = TRUE), character())
  others <- setdiff(lines, results)
  expect_identical(grep("^Error|halted", others, value = TRUE), character())
}

test_that("all kinds of objects travel in all ways, or are refused by name", {
  long_test()
  expect_all_right(kinds_that_travel(""), 150)
})

test_that("our recipes do what the packages' functions need, as packages that stand in for them", {
  long_test()
  lib <- tempfile("library")
  dir.create(lib)
  on.exit(unlink(lib, recursive = TRUE))
  install_standins(lib)
  expect_all_right(kinds_that_travel(lib), 190)
})

test_that("objects travel to other hosts in the same ways", {
  long_test()
  hosts <- hosts_or_skip("alpha")
  on.exit(stop_hosts(hosts))
  expect_all_right(kinds_that_travel("", "alpha", strsplit(hosts$ssh, " ")[[1L]]), 150)
})

test_that("the file of a function of sourceCpp() travels where it is not there", {
  long_test()
  skip_if_not_installed("Rcpp")
  folder <- tempfile("cpp")
  dir.create(folder)
  on.exit(unlink(folder, recursive = TRUE))
  file <- file.path(folder, "thrice.cpp")
  writeLines(c("#include <Rcpp.h>", "// [[Rcpp::export]]", "int thrice(int x) { return 3 * x; }"),
             file)
  env <- new.env(parent = globalenv())
  Rcpp::sourceCpp(file, env = env, cacheDir = folder)
  packed <- clutch:::pack(list(env$thrice), list())
  expect_s3_class(packed, "clutch_packed")
  saveRDS(packed, file.path(folder, "packed.rds"))
  there <- names(packed$libraries)
  expect_true(startsWith(there, normalizePath(folder)))
  unlink(there)
  code <- sprintf("f <- clutch:::unpack(readRDS('%s'))[[1]]; cat(f(14L))",
                  file.path(folder, "packed.rds"))
  libraries <- paste(.libPaths(), collapse = .Platform$path.sep)
  out <- system2(file.path(R.home("bin"), "Rscript"), c("-e", shQuote(code)), stdout = TRUE,
                 env = paste0("R_LIBS=", shQuote(libraries)))
  expect_identical(out, "42")
})

test_that("what is refused is named as code would reach it, before anything starts", {
  cl <- a_cluster()
  file <- tempfile()
  p <- unknown()
  f <- function(i) {
    cat("x", file = file)
    p$ptr
  }
  e <- refusal(cluster_map(cl, 1:2, f))
  expect_s3_class(e, c("clutch_pointer", "clutch_error"), exact = FALSE)
  expect_identical(e[c("path", "object_class")], list(path = "p$ptr", object_class = "unknown"))
  expect_match(conditionMessage(e), "`p$ptr` is an external pointer of class unknown", fixed = TRUE)
  expect_match(conditionMessage(e), "register_travel(\"unknown\")", fixed = TRUE)
  expect_false(file.exists(file))
  expect_identical(refusal(cluster_map(cl, list(1, list(a = p)), identity))$path, ".x[[2]]$a$ptr")
  expect_identical(refusal(cluster_map(cl, 1:2, function(i, d) i, d = p))$path, "d$ptr")
  expect_identical(refusal(cluster_map(cl, 1:2, function(i, d) i, p))$path, ".more[[1]]$ptr")
  expect_identical(refusal(cluster_map2(cl, 1, list(p), function(x, y) x))$path, ".x[[1]][[2]]$ptr")
  expect_identical(refusal(cluster_map(cl, 1:2, function(i) p, .globals = FALSE))$path, "p$ptr")
  expect_identical(refusal(cluster_submit(cl, p$ptr))$path, "p$ptr")
  expect_identical(refusal(cluster_submit_call(cl, identity, list(list(`a b` = p))))$path,
                   ".more[[1]]$`a b`$ptr")
  con <- textConnection("a")
  on.exit(close(con))
  e <- refusal(cluster_map(cl, 1:2, function(i) readLines(con)))
  expect_match(conditionMessage(e), "`con` is a connection of class textConnection", fixed = TRUE)
  # nobody uses it
  unused <- local({
    inner <- p
    function(i) i
  })
  expect_identical(cluster_map(cl, 1:2, unused), list(1L, 2L))
})

test_that("a result with a pointer is the error of its element", {
  cl <- a_cluster()
  f <- function(i) if (i == 2L) list(a = .Call(clutch:::ffi_globals_new)) else i
  e <- refusal(cluster_map(cl, 1:3, f))
  expect_identical(e$path, "value$a")
  r <- suppressWarnings(cluster_map(cl, 1:3, f, .on_error = "continue"))
  expect_identical(r[c(1L, 3L)], list(1L, 3L))
  expect_s3_class(r[[2L]], "clutch_task_error")
  expect_identical(r[[2L]]$parent$path, "value$a")
  task <- cluster_submit(cl, .Call(clutch:::ffi_globals_new))
  expect_identical(refusal(collect(task))$path, "value")
  says <- function(i) {
    cat("said\n")
    message("told")
    f(i)
  }
  expect_output(suppressMessages(try(cluster_map(cl, 2L, says), silent = TRUE)), "said")
})

test_that(".pointers and its option say what a pointer means", {
  cl <- a_cluster()
  p <- unknown()
  f <- function(i) typeof(p$ptr)
  g <- function(i) .Call(clutch:::ffi_globals_new)
  types <- list("externalptr", "externalptr")
  expect_warning(r <- cluster_map(cl, 1:2, f, .pointers = "warn"), "`p$ptr` is an external pointer",
                 fixed = TRUE, class = "clutch_pointer")
  expect_identical(r, types)
  expect_warning(r <- cluster_map(cl, 1L, g, .pointers = "warn"), "`value` is", class = "warning")
  expect_identical(typeof(r[[1L]]), "externalptr")
  expect_silent(r <- cluster_map(cl, 1:2, f, .pointers = "allow"))
  expect_identical(r, types)
  expect_silent(r <- cluster_map(cl, 1:2, g, .pointers = "allow"))
  expect_false(.Call(clutch:::ffi_is_pointer, r[[1L]]))
  expect_identical(collect(cluster_submit(cl, typeof(p$ptr), .pointers = "allow")), types[[1L]])
  old <- options(clutch.pointers = "allow")
  on.exit(options(old))
  expect_silent(r <- cluster_map(cl, 1:2, f))
  expect_identical(r, types)
  expect_identical(refusal(cluster_map(cl, 1:2, f, .pointers = "error"))$path, "p$ptr")
})

test_that("what makes its pointer anew is left alone", {
  cl <- a_cluster()
  mends <- structure(list(ptr = live_pointer()), class = "lmResp")
  expect_identical(cluster_map(cl, 1L, function(i) class(mends)), list("lmResp"))
  expect_identical(class(cluster_map(cl, list(mends), identity)[[1L]]), "lmResp")
  setClass("TravelDefined", representation(x = "numeric"), where = globalenv())
  on.exit(removeClass("TravelDefined", where = globalenv()))
  f <- function(i) new("TravelDefined", x = i)@x
  environment(f) <- globalenv()
  expect_identical(cluster_map(cl, 1:2, f), list(1L, 2L))
  skip_if_not_installed("data.table")
  d <- data.table::data.table(a = 1:3)
  r <- cluster_map(cl, 1:2, function(i) data.table::copy(d)[["a"]][[i]])
  expect_identical(r, list(1L, 2L))
  expect_silent(r <- cluster_map(cl, list(d), identity)[[1L]])
  expect_identical(r[["a"]], 1:3)
})

test_that("register_travel() says how a class travels, and forgets it", {
  cl <- a_cluster()
  for (bad in list(list(1, identity, identity), list(character(), identity, identity),
                   list("a", 1, identity), list("a", identity, NULL), list(NA_character_, NULL)))
    expect_error(do.call(register_travel, bad), class = "clutch_argument")
  p <- unknown()
  p$data <- 7
  helper <- function(data) {
    structure(list(data = data, ptr = .Call(clutch:::ffi_globals_new)), class = "unknown")
  }
  expect_invisible(register_travel("unknown", function(x) x$data, function(data) helper(data)))
  on.exit(register_travel("unknown", NULL))
  expect_identical(cluster_map(cl, 1:2, function(i) p$data + i), list(8, 9))
  r <- cluster_map(cl, list(p, 1), function(x) x)
  expect_identical(r[[1L]]$data, 7)
  expect_true(.Call(clutch:::ffi_is_pointer, r[[1L]]$ptr))
  expect_identical(collect(cluster_submit(cl, p))$data, 7)
  # an error of either function is told
  register_travel("unknown", function(x) stop("no data"), helper)
  expect_match(conditionMessage(refusal(cluster_map(cl, 1:2, function(i) p))),
               "`p`, an object of class unknown cannot travel: no data", fixed = TRUE)
  register_travel("unknown", function(x) 1, function(data) stop("no object"))
  e <- refusal(cluster_map(cl, list(p), identity))
  expect_match(conditionMessage(e), "cannot be made again here: no object", fixed = TRUE)
  register_travel("unknown", NULL)
  expect_identical(refusal(cluster_map(cl, 1:2, function(i) p$data))$path, "p$ptr")
})

test_that("a value is not NULL where somebody has jumped out of its reading", {
  cl <- a_cluster()
  on.exit(register_travel("unknown", NULL))
  made <- function() structure(list(ptr = .Call(clutch:::ffi_globals_new)), class = "unknown")
  register_travel("unknown", function(x) 1, function(data) stop("no object"))
  task <- cluster_submit(cl, made())
  w <- tryCatch(collect(task), warning = identity)
  expect_s3_class(w, "clutch_pointer")
  expect_s3_class(collect(task), "clutch_pointer") # in its place
  register_travel("unknown", function(x) 1, function(data) message("reading"))
  task <- cluster_submit(cl, made())
  expect_identical(tryCatch(collect(task), message = conditionMessage), "reading\n")
  expect_error(collect(task), "is lost", class = "clutch_task_error")
})

test_that("all else of what travels with such an object is as it was", {
  cl <- a_cluster()
  register_travel("unknown", function(x) 1, function(data) {
    structure(list(ptr = .Call(clutch:::ffi_globals_new)), class = "unknown")
  })
  on.exit(register_travel("unknown", NULL))
  frame <- function(x, absent, ..., late = stop("nobody asks")) {
    force(x)
    big <- seq(0, 1, length.out = 1e6)
    shared <- new.env()
    lockBinding("x", environment())
    makeActiveBinding("now", function() length(big), environment())
    both <- list(
      f = function(i) {
        shared$n <- length(list(...)) + i
        c(now, exists("absent"), bindingIsLocked("x", environment(f)), sum(unlist(list(...))),
          inherits(x, "unknown"))
      },
      g = function() shared$n
    )
    f <- both$f
    both
  }
  both <- frame(unknown(), , 2, 3) # nolint
  f <- function(i, both, table) {
    list(both$f(i), both$g(), table, identical(environment(both$f), environment(both$g)))
  }
  environment(f) <- globalenv()
  table <- data.frame(a = 1:3, b = letters[1:3])
  r <- cluster_map(cl, 1:2, f, both = both, table = table)
  expect_identical(r[[2L]], list(c(1e6, 1, 1, 5, 1), 4L, table, TRUE))
  # thousands of environments in a row
  row <- NULL
  for (i in 1:3000) row <- list2env(list(rest = row))
  p <- unknown()
  length_of <- function(p, row) {
    n <- 0
    while (!is.null(row)) {
      n <- n + 1
      row <- row$rest
    }
    n
  }
  expect_identical(cluster_map(cl, list(p), length_of, row = row), list(3000))
  # one object in two places is one there
  e <- new.env()
  e$p <- unknown()
  expect_identical(cluster_map(cl, 1L, function(i, a, b) identical(a, b[[1L]]), a = e, b = list(e)),
                   list(TRUE))
})

test_that("code around such an object may lack arguments, or have text references", {
  cl <- a_cluster()
  register_travel("unknown", function(x) x$data, function(data) {
    structure(list(data = data, ptr = .Call(clutch:::ffi_globals_new)), class = "unknown")
  })
  on.exit(register_travel("unknown", NULL))
  p <- unknown()
  p$data <- 7
  # with its text a block is no mere data
  lines <- "function(i) switch('a', a = , b = { p$data + i })"
  f <- eval(parse(text = lines, keep.source = TRUE))
  expect_identical(cluster_map(cl, 1:2, f), list(8, 9))
  g <- eval(bquote(function(i) .(p)[, "data", drop = TRUE]))
  assign("[.unknown", function(x, i, j, drop) if (missing(i)) x[[j]], globalenv())
  on.exit(rm(list = "[.unknown", envir = globalenv()), add = TRUE)
  environment(g) <- globalenv()
  expect_identical(cluster_map(cl, 1:2, g), list(7, 7))
  register_travel("unknown", NULL)
  expect_identical(refusal(cluster_map(cl, 1:2, f))$path, "p$ptr")
})

test_that("defaults of arguments are a part of a function", {
  cl <- a_cluster()
  f <- function(i, p = NULL, absent) c(p$data + i, missing(absent))
  formals(f)$p <- unknown()
  expect_identical(refusal(cluster_map(cl, 1:2, f))$path, ".f$ptr")
  register_travel("unknown", function(x) 7, function(data) {
    structure(list(data = data, ptr = .Call(clutch:::ffi_globals_new)), class = "unknown")
  })
  on.exit(register_travel("unknown", NULL))
  expect_identical(cluster_map(cl, 1:2, f), list(c(8, 1), c(9, 1)))
})

test_that("methods of as.list() are not asked for what is in an object", {
  cl <- a_cluster()
  registerS3method("as.list", "clutch_no_list", function(x, ...) stop("not asked for"),
                   envir = asNamespace("base"))
  x <- structure(list(a = unknown()), class = "clutch_no_list")
  expect_identical(refusal(cluster_map(cl, 1:2, function(i) x))$path, "x$a$ptr")
})

test_that("large vectors beside such an object go by shared memory", {
  linux_only()
  cl <- a_cluster()
  register_travel("unknown", function(x) 1, function(data) 1)
  on.exit(register_travel("unknown", NULL))
  p <- unknown()
  x <- as.double(seq_len(2e6)) # 16 MB
  f <- function(i) c(p, length(x), x[[i]])
  own <- function(i) {
    sum(as.numeric(sub("[^0-9]*([0-9]+).*", "\\1", grep("^Private_Dirty",
                                                          readLines("/proc/self/smaps_rollup"),
                                                          value = TRUE))))
  }
  before <- max(unlist(parallel::clusterCall(cl, own, 1)))
  g <- function(i) {
    f(i)
    own(i)
  }
  after <- unlist(cluster_map(cl, 1:2, g))
  expect_lt(max(after) - before, 12000) # kB: a copy of its own has 16,000
})

test_that("foreach, mclapply() and journals know the recipes, too", {
  cl <- a_cluster()
  register_travel("unknown", function(x) x$data, function(data) {
    structure(list(data = data, ptr = .Call(clutch:::ffi_globals_new)), class = "unknown")
  })
  on.exit(register_travel("unknown", NULL))
  p <- unknown()
  p$data <- 3
  is_whole <- function(p) p$data == 3 && .Call(clutch:::ffi_is_pointer, p$ptr)
  expect_identical(mclapply(1:2, function(i) is_whole(p), mc.cores = 2), list(TRUE, TRUE))
  expect_true(is_whole(mclapply(1:2, function(i) p, mc.cores = 2)[[2L]]))
  path <- tempfile(fileext = ".journal")
  r <- cluster_map(cl, 1:2, function(i) p, .journal = path)
  expect_true(is_whole(r[[2L]]))
  r <- suppressMessages(cluster_map(cl, 1:2, function(i) p, .journal = path))
  expect_true(is_whole(r[[2L]]))
  expect_true(is_whole(journal_read(path, values = TRUE)$value[[1L]]))
  skip_if_not_installed("foreach")
  registerDoClutch(cl)
  on.exit(foreach::registerDoSEQ(), add = TRUE)
  `%dopar%` <- foreach::`%dopar%`
  r <- foreach::foreach(i = 1:2) %dopar% list(is_whole(p), p)
  expect_true(r[[2L]][[1L]])
  expect_true(is_whole(r[[2L]][[2L]]))
  r <- foreach::foreach(q = list(p, p)) %dopar% is_whole(q)
  expect_identical(r, list(TRUE, TRUE))
  register_travel("unknown", NULL)
  e <- refusal(foreach::foreach(q = list(p, p)) %dopar% q$data)
  expect_identical(e$path, ".x[[1]]$q$ptr")
  r <- foreach::foreach(q = list(p, p), .options.clutch = list(pointers = "allow")) %dopar% q$data
  expect_identical(r, list(3, 3))
  skip_if_not_installed("xml2")
  doc <- xml2::read_xml("<a/>")
  r <- foreach::foreach(d = list(doc, doc)) %dopar% xml2::xml_name(d)
  expect_identical(r, list("a", "a"))
})

test_that("BiocParallel sends what a recipe takes, and pointers as base R does", {
  skip_if_not_installed("BiocParallel")
  cl <- a_cluster()
  param <- ClutchParam(cl)
  p <- unknown()
  p$data <- 3
  types <- BiocParallel::bplapply(1:2, function(i, p) typeof(p$ptr), p = p, BPPARAM = param)
  expect_identical(types, list("externalptr", "externalptr"))
  register_travel("unknown", function(x) x$data, function(data) {
    structure(list(data = data, ptr = .Call(clutch:::ffi_globals_new)), class = "unknown")
  })
  on.exit(register_travel("unknown", NULL))
  whole <- function(x, p = x) p$data == 3 && .Call(clutch:::ffi_is_pointer, p$ptr)
  expect_identical(BiocParallel::bplapply(1:2, whole, p = p, BPPARAM = param), list(TRUE, TRUE))
  expect_identical(BiocParallel::bplapply(list(p, p), whole, BPPARAM = param), list(TRUE, TRUE))
  r <- BiocParallel::bplapply(1:2, function(i, p) p, p = p, BPPARAM = param)
  expect_true(whole(r[[2L]]))
})

test_that("the cluster of these tests is stopped", {
  stop_cluster(a_cluster())
  end_own_cluster()
  expect_true(cluster_is_stopped(travel_cluster))
})

test_that("a function travels whose frame has arguments by `...`, or could have", {
  register_travel("unknown", function(x) x$data, function(data) data)
  on.exit(register_travel("unknown", NULL))
  object <- structure(list(ptr = live_pointer(), data = 7), class = "unknown")
  make <- function(...) {
    held <- object
    function(x) c(held, ...)
  }
  expect_identical(cluster_map(a_cluster(), 1, make()), list(7))
  expect_identical(cluster_map(a_cluster(), 1, make(1, 2)), list(c(7, 1, 2)))
})

test_that("a node does not keep what has travelled in the place of a result", {
  cl <- make_cluster(1)
  on.exit(stop_cluster(cl))
  register_travel("unknown", function(x) x$data, function(data) data)
  on.exit(register_travel("unknown", NULL), add = TRUE)
  megabytes <- function() {
    parallel::clusterCall(cl, function() {
      gc()
      gc()[2L, 2L]
    })[[1L]]
  }
  f <- function(i, pointer) structure(list(ptr = pointer(), data = runif(5e6)), class = "unknown")
  before <- megabytes()
  expect_length(cluster_map(cl, 1, f, pointer = live_pointer)[[1L]], 5e6L)
  expect_lt(megabytes() - before, 20)
})

with_sevens <- function(code) {
  register_travel("clutch_seven", function(x) 7, function(data) {
    structure(list(data), class = "clutch_seven")
  })
  on.exit(register_travel("clutch_seven", NULL))
  code
}

test_that("a function travels whose body is a large vector", {
  cl <- make_cluster(1)
  on.exit(stop_cluster(cl))
  f <- function(x, seven) NULL
  body(f) <- as.numeric(1:30000)
  seven <- structure(list(7), class = "clutch_seven")
  with_sevens(expect_identical(cluster_map(cl, 1, f, seven), list(as.numeric(1:30000))))
})

test_that("a constant argument may be missing where recipes are registered", {
  cl <- make_cluster(1)
  on.exit(stop_cluster(cl))
  map <- function(option) cluster_map(cl, 1:2, function(i, option) missing(option), option)
  with_sevens(expect_identical(map(), list(TRUE, TRUE)))
})
