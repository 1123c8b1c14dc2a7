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

# ---- in a terminal ----

AT_R <- "^> ?$"
AT_BROWSER <- "^Browse\\[[12]\\]> ?$"

# A terminal with R at its prompt, which ends with the caller's frame, as a list with also
#   types(line, then)   types it, and expects the screen to end with that
#   shows(lines)        expects these somewhere on the screen
browser_terminal <- function(env = parent.frame()) {
  testthat::skip_if_not(nzchar(Sys.which("tmux")), "needs tmux")
  term <- start_terminal()
  end <- function() {
    term$close()
    for (p in processes_of(term)) tools::pskill(p, 9L)
  }
  do.call(on.exit, list(as.call(list(end)), add = TRUE, after = FALSE), envir = env)
  term$types <- function(line, then) {
    before <- term$screen() # may end with the same prompt
    term$type(line)
    # the screen after the wait
    testthat::expect_true(ends_with(term, then, before),
                          info = paste(c(line, term$screen()), collapse = "\n"))
  }
  term$shows <- function(lines) {
    screen <- term$screen()
    for (line in lines) {
      info <- paste(c(line, screen), collapse = "\n")
      testthat::expect_true(any(grepl(line, screen)), info = info)
    }
  }
  testthat::expect_true(ends_with(term, AT_R))
  term
}

# Of the nodes of `cl` in that terminal: lines for a function that is debugged, and Q.
debugs_at_prompt <- function(term) {
  types <- term$types
  types("g <- function(n) { a <- n + 1; a * 10 }; debug(g); h <- function(i) g(i)", AT_R)
  types("cluster_map_dbl(cl, 5, h)", AT_BROWSER)
  types("n", AT_BROWSER)
  types("n", AT_BROWSER)
  types("a <- 7", AT_BROWSER)
  types("c", AT_R)
  types("cluster_map_dbl(cl, 1:2, h)", AT_BROWSER)
  types("Q", AT_R)
}
