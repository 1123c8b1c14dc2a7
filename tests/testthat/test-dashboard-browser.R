# The dashboard in a real browser. CLUTCH_SCREENSHOTS: a folder for what it looks like.

test_that("the page shows what the snapshot says", {
  skip_if_not_installed("httpuv")
  lib <- Sys.getenv("CLUTCH_NEWER_LIB")
  skip_if_not(nzchar(lib) && dir.exists(file.path(lib, "chromote")), "needs chromote")
  chromium <- Sys.which(c("chromium", "chromium-browser", "google-chrome", "chrome"))
  chromium <- chromium[nzchar(chromium)]
  skip_if_not(length(chromium) > 0L, "needs Chromium")
  s <- start_script(fixture = "dashboard-browser", lib = lib, chromium = chromium[[1L]],
                    helper = normalizePath("helper-view.R"),
                    questions = file.path(fixtures, "dashboard-browser.js"),
                    shots = Sys.getenv("CLUTCH_SCREENSHOTS"))
  expect_done(s, 600)
  out <- readLines(s$out, encoding = "UTF-8")
  expect_gt(sum(startsWith(out, "ok ")), 60L)
  expect_identical(grep("^FAIL", out, value = TRUE), character())
  expect_true(ends(s))
})
