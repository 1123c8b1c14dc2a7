# For tests of browser() and debug() in elements.

# `lines`: what the user types, one a prompt. The value has the prompts that there were.
typing <- function(lines, code) {
  the <- clutch:::the
  prompts <- character()
  the$read_line <- function(prompt) {
    prompts <<- c(prompts, prompt)
    line <- lines[[1L]]
    lines <<- lines[-1L]
    line
  }
  on.exit(the$read_line <- NULL)
  out <- capture.output(value <- force(code))
  list(value = value, prompts = prompts, out = out, left = lines)
}

# What a function of the tests' own namespace would be, but in the workspace.
in_workspace <- function(f) {
  environment(f) <- globalenv()
  f
}

# testthat makes browser() an error where R is not interactive, in nodes, too.
allow_browser <- function(env = parent.frame()) {
  name <- "_R_CHECK_BROWSER_NONINTERACTIVE_"
  old <- Sys.getenv(name, NA)
  Sys.unsetenv(name)
  back <- function() if (!is.na(old)) do.call(Sys.setenv, stats::setNames(list(old), name))
  do.call(on.exit, list(as.call(list(back)), add = TRUE), envir = env)
}
