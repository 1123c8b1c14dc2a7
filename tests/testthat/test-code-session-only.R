# What only the session can use: refused where code uses it, and nowhere else.

pointer <- function() .Call(clutch:::ffi_globals_new) # an external pointer that is not nil
refused <- function(expr) {
  e <- tryCatch({
    expr
    NULL
  }, clutch_session_only = identity)
  e$name
}

test_that("a connection or pointer that code uses is an error that names it", {
  con <- textConnection("a")
  on.exit(close(con))
  db <- structure(list(ptr = pointer()), class = "db")
  e <- tryCatch(clutch::mclapply(1:2, function(i) readLines(con)), error = identity)
  expect_s3_class(e, c("clutch_session_only", "clutch_error"), exact = FALSE)
  expect_match(conditionMessage(e), "^'con' is or holds a connection")
  expect_identical(refused(clutch::mclapply(1:2, function(i) db$ptr)), "db")
  expect_identical(refused(clutch::mclapply(list(db, 1), identity)), "X")
  expect_identical(refused(clutch::mclapply(1:2, function(i, d) i, d = db)), "d")
  expect_identical(refused(clutch::mclapply(1:2, function(i, d) i, db)), "..1")
  expect_identical(refused(clutch::pvec(1:2, function(i) db)), "db")
  expect_identical(refused(clutch::mcmapply(function(i) db, 1:2)), "db")
  helper <- function() db
  expect_identical(refused(clutch::mclapply(1:2, function(i) helper())), "db")
  object <- new.env()
  object$handle <- list(pointer())
  expect_identical(refused(clutch::mclapply(1:2, function(i) object$x)), "object")
  expect_identical(refused(clutch::mclapply(1:2, local({
    inner <- db
    function(i) inner
  }))), "inner")
  s4 <- methods::setClass("clutch_test_s4", slots = c(p = "externalptr"), where = environment())
  held <- s4(p = pointer())
  expect_identical(refused(clutch::mclapply(1:2, function(i) held@p)), "held")
  assign("clutch_test_db", db, globalenv())
  on.exit(rm("clutch_test_db", envir = globalenv()), add = TRUE)
  in_workspace <- eval(quote(function(i) clutch_test_db), globalenv())
  expect_identical(refused(clutch::mclapply(1:2, in_workspace)), "clutch_test_db")
})

test_that("what no code uses, and what does no harm, is none", {
  con <- textConnection("a")
  on.exit(close(con))
  db <- list(pointer())
  expect_identical(clutch::mclapply(1:2, function(i) i), list(1L, 2L))
  local_db <- function(i, db) i
  expect_identical(clutch::mclapply(1:2, local_db, db = 1), list(1L, 2L))
  out <- stdout()
  expect_identical(clutch::mclapply(1:2, function(i) as.integer(out)), list(1L, 1L))
  nil <- methods::new("externalptr")
  pointers <- list("externalptr", "externalptr")
  expect_identical(clutch::mclapply(1:2, function(i) typeof(nil)), pointers)
  table <- structure(list(a = 1), .internal.selfref = pointer(), class = c("other", "data.frame"))
  expect_identical(clutch::mclapply(1:2, function(i) unclass(table)$a), list(1, 1))
  old <- options(clutch.session_only = "send")
  on.exit(options(old), add = TRUE)
  expect_identical(clutch::mclapply(1:2, function(i) typeof(db[[1L]])), pointers)
  for (wrong in list("sent", TRUE, c("send", "refuse"))) {
    options(clutch.session_only = wrong)
    e <- tryCatch(clutch::mclapply(1:2, function(i) i), clutch_argument = conditionMessage)
    expect_identical(e, "option 'clutch.session_only' has to be \"refuse\" or \"send\"")
  }
})

end_own_cluster()
