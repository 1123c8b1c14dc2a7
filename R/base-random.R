# The state of R's generator of random numbers in this process. NULL: nobody has seeded or used it.

session_seed <- function() get0(".Random.seed", globalenv(), inherits = FALSE)

put_session_seed <- function(seed) {
  if (!is.null(seed)) {
    assign(".Random.seed", seed, envir = globalenv())
  } else if (!is.null(session_seed())) {
    rm(list = ".Random.seed", envir = globalenv())
  }
}
