# R's own tests of mclapply(), pvec() and others. multicore2 and multicore3 of package parallel's
# tests (multicore1 is about mcfork() alone) are also the examples of its help pages, and so are
# installed with it. Each top-level expression is evaluated twice, from the same random seed: with
# package parallel, and with our functions where forking the session is an error. Both have to give
# the same values; only times may differ.

source(file.path(Sys.getenv("CLUTCH_ADAPTER_TESTS", "tests/adapters"), "_common.R"))

topics <- c("unix/mclapply", "unix/pvec")
ours <- c("mclapply", "pvec", "mcmapply", "mcMap")
RNGkind("L'Ecuyer-CMRG")
options(mc.cores = 2L)

expressions_of <- function(topic) {
  rd <- tools::Rd_db("parallel")[[paste0(topic, ".Rd")]]
  if (is.null(rd)) stop("package parallel has no topic ", topic)
  file <- tempfile(fileext = ".R")
  on.exit(unlink(file))
  tools::Rd2ex(rd, file, commentDonttest = FALSE)
  parse(file, keep.source = FALSE)
}

# The value, what was printed, and the warnings; or the error.
evaluate <- function(expr, env) {
  set.seed(1)
  warnings <- character()
  value <- NULL
  printed <- utils::capture.output(
    value <- withCallingHandlers(
      tryCatch(eval(expr, env), error = identity),
      warning = function(w) {
        warnings <<- c(warnings, conditionMessage(w))
        invokeRestart("muffleWarning")
      }
    )
  )
  if (inherits(value, "proc_time")) value <- NULL
  list(value = value, printed = printed, warnings = warnings)
}

is_error <- function(x) inherits(x$value, "error")

library(parallel)
with_parallel <- new.env()
with_clutch <- new.env()
for (name in ours) assign(name, getExportedValue("clutch", name), envir = with_clutch)

expressions <- unlist(lapply(topics, function(topic) as.list(expressions_of(topic))))
theirs <- lapply(expressions, evaluate, with_parallel)
say_counts("parallel", "parallel", sum(!vapply(theirs, is_error, NA)),
           sum(vapply(theirs, is_error, NA)), 0L)

parallel <- asNamespace("parallel")
unlockBinding("mcfork", parallel)
assign("mcfork", function(...) stop("the session was forked"), envir = parallel)
mine <- lapply(expressions, evaluate, with_clutch)
# functions in the values were made in one environment or the other
same <- mapply(identical, mine, theirs,
               MoreArgs = list(ignore.environment = TRUE, ignore.srcref = TRUE))
for (k in which(!same)) {
  cat("  failed:", deparse(expressions[[k]])[[1L]], "\n")
  if (nzchar(Sys.getenv("VERBOSE"))) utils::str(list(mine[[k]], theirs[[k]]))
}
say_counts("parallel", "clutch", sum(same), sum(!same), 0L)
