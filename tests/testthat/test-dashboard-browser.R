# The dashboard in a real browser. CLUTCH_SCREENSHOTS: a folder for what it looks like.

test_that("the page shows what the snapshot says", {
  skip_if_not_installed("httpuv")
  lib <- Sys.getenv("CLUTCH_NEWER_LIB")
  chromium <- chromium_or_skip(lib)
  s <- start_script(fixture = "dashboard-browser", lib = lib, chromium = chromium,
                    helper = normalizePath("helper-view.R"),
                    questions = file.path(fixtures, "dashboard-browser.js"),
                    shots = Sys.getenv("CLUTCH_SCREENSHOTS"))
  expect_done(s, 200)
  out <- readLines(s$out, encoding = "UTF-8")
  expect_gt(sum(startsWith(out, "ok ")), 60L)
  expect_identical(grep("^FAIL", out, value = TRUE), character())
  expect_true(ends(s))
})
