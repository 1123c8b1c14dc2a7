# The example app of inst/examples/shiny, whose ExtendedTask is a task of ours.

library_with_shiny <- function() {
  lib <- Sys.getenv("CLUTCH_NEWER_LIB")
  has_shiny <- nzchar(lib) && file.exists(file.path(lib, "shiny", "DESCRIPTION"))
  skip_if_not(has_shiny, "needs shiny 1.8.1 for ExtendedTask (tools/deps.sh adapters)")
  lib
}

test_that("the page goes on while a node computes, shows the result, and gives up", {
  lib <- library_with_shiny()
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

test_that("in a browser pages go on while eight tasks are under way, and give them up", {
  lib <- library_with_shiny()
  chromium <- chromium_or_skip(lib)
  s <- start_script(fixture = "shiny-browser", lib = lib, chromium = chromium,
                    shots = Sys.getenv("CLUTCH_SCREENSHOTS"))
  expect_done(s, 200)
  out <- readLines(s$out)
  expect_identical(grep("^FAIL", out, value = TRUE), character())
  expect_identical(sum(startsWith(out, "ok ")), 22L)
  expect_true(ends(s))
})
