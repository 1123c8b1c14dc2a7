# Actors of tests.

failure <- function(expr) tryCatch(expr, error = identity)
known <- function(a) .Call(clutch:::ffi_actor_info, a)
is_at_work <- function(a) nzchar(known(a)$method)
until <- function(expr) eval(substitute(expect_true(eventually(expr))), parent.frame())

counting <- function(start = 0) {
  n <- start
  list(
    add = function(k) n <<- n + k,
    get = function() n,
    pid = function() Sys.getpid(),
    sleep = function(s) {
      Sys.sleep(s)
      "slept"
    },
    fail = function() stop("as asked"),
    ask = function(other, ...) actor_call(other, ...),
    die = function() tools::pskill(Sys.getpid(), tools::SIGKILL)
  )
}
