# What the report draws, and where its tables are; only in a checkout, where there is bench/.

bench <- function() {
  root <- test_path("..", "..")
  skip_if_not(file.exists(file.path(root, "bench", "_common.R")), "no checkout")
  root
}

test_that("a package has one colour in all pictures, and each tick its label", {
  b <- new.env()
  sys.source(file.path(bench(), "bench", "_common.R"), b)
  look <- b$looks(c("base", "clutch", "mirai", "callr (session)", "other"))
  expect_identical(look$col[1:4], unname(b$package_colours[c("base", "clutch", "mirai", "callr")]))
  expect_identical(b$looks(c("mirai", "clutch, warm"))$col, look$col[3:2])
  several <- b$looks(c("clutch, cold", "clutch, warm", "base"))
  expect_identical(several$col[c(1, 3)], look$col[2:1])
  expect_false(several$col[[2]] == several$col[[1]])
  m <- matrix(1, 2, 2, dimnames = list(c("base", "clutch"), c("a", "b")))
  expect_identical(b$bar_colours(m), rep(look$col[1:2], 2))
  m <- matrix(1, 1, 2, dimnames = list("us", c("clutch clusterCall", "base clusterCall")))
  expect_identical(b$bar_colours(m), look$col[2:1])
  rownames(m) <- NULL
  expect_identical(b$bar_colours(m), look$col[2:1])
  expect_identical(b$fitting(c(1, 2, 3, 3.1, 9), rep(0.9, 5)), c(1L, 2L, 3L, 5L))
  # where the axis is a logarithm's there are no bars
  drawn <- function(m) {
    calls <- character()
    b$picture <- function(file, draw, ...) {
      grDevices::pdf(NULL)
      on.exit(grDevices::dev.off())
      grDevices::dev.control("enable")
      draw()
      calls <<- vapply(grDevices::recordPlot()[[1L]], function(e) {
        as.character(e[[2L]][[1L]]$name)[1L]
      }, "")
    }
    b$bars_png("x.png", m, "us", "title")
    calls
  }
  m <- matrix(c(1, 1000, 10), 1L, dimnames = list("us", c("clutch", "base", "mirai")))
  expect_false("C_rect" %in% drawn(m))
  expect_true("C_rect" %in% drawn(m / m + 1:3))
})

test_that("a contender of its own process is read, and one that fails is shown and left out", {
  b <- new.env()
  sys.source(file.path(bench(), "bench", "_common.R"), b)
  r <- file.path(R.home("bin"), "Rscript")
  code <- function(x) c("-e", shQuote(x))
  expect_identical(b$figures_of(r, code("cat('one\\t1.5\\nword\\ntwo\\t2\\n')")),
                   list(c("one", "two"), c("1.5", "2")))
  expect_null(b$figures_of(r, code("cat('nothing\\n')")))
  expect_output(x <- b$figures_of(r, code("cat('one\\t1\\n'); stop('so it ended')")),
                "failed.*so it ended")
  expect_null(x)
  # what was not measured has no point and no number
  drawn <- NULL
  b$picture <- function(file, draw, ...) {
    grDevices::pdf(NULL)
    on.exit(grDevices::dev.off())
    grDevices::dev.control("enable")
    draw()
    calls <- grDevices::recordPlot()[[1L]]
    texts <- Filter(function(e) as.character(e[[2L]][[1L]]$name)[1L] == "C_text", calls)
    drawn <<- unlist(lapply(texts, function(e) e[[2L]][[3L]]))
  }
  t <- data.frame(who = c("mirai", "clutch"), median = c(2, 1), min = c(1, 1), max = c(3, 1))
  b$dots_png("x.png", c("clutch", "base", "mirai"), list(us = t), "title")
  expect_identical(drawn, c("clutch", "base", "mirai", "1", "", "2"))
})

test_that("a table that vignettes quote is in vignettes/report, and nowhere else", {
  root <- bench()
  b <- new.env()
  sys.source(file.path(root, "bench", "_common.R"), b)
  there <- list.files(file.path(root, "vignettes", "report"))
  expect_setequal(there, b$in_vignettes)
  expect_length(intersect(there, list.files(file.path(root, "bench", "report"))), 0L)
  pages <- list.files(file.path(root, "vignettes"), "[.]Rmd$", full.names = TRUE)
  text <- unlist(lapply(pages, readLines))
  is_quoted <- function(f) {
    any(grepl(paste0("\"", c(f, sub("[.]csv$", "", f)), "\"", collapse = "|"), text))
  }
  for (f in there) expect_true(is_quoted(f), info = f)
})
