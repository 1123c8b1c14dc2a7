# The example app of inst/examples/shiny, whose ExtendedTask is a task of ours.

test_that("the page goes on while a node computes, shows the result, and gives up", {
  lib <- Sys.getenv("CLUTCH_NEWER_LIB")
  has_shiny <- nzchar(lib) && file.exists(file.path(lib, "shiny", "DESCRIPTION"))
  skip_if_not(has_shiny, "needs shiny 1.8.1 for ExtendedTask (tools/deps.sh adapters)")
  # in an R of its own: this one may have loaded older versions of what shiny needs
  s <- start_script(fixture = "shiny-app", lib = lib)
  expect_done(s, 120)
  out <- readLines(s$out)
  expect_identical(
    out[grepl("^(clock|state|went on|97.5 % shown|median): ", out)],
    c("clock: TRUE ", "state: running ", "went on: TRUE ", "state: success ",
      "97.5 % shown: TRUE ", "median: 20 ", "state: error ")
  )
  expect_match(out, "^why: .* was cancelled", all = FALSE)
  expect_true(ends(s))
})
