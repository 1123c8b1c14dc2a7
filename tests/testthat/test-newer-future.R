# Tests of other files that are skipped with Debian's future run here with a newer one, in a
# session of its own.

outside_checks_only()

for (file in list.files(test_path(), "^test-(dispatch|reports-.*)[.]R$")) local({
  file <- file
  test_that(paste("tests of futures in", file), {
    has_newer <- nzchar(system.file(package = "future")) &&
      utils::packageVersion("future") >= "1.40.0"
    skip_if(has_newer, "the file itself runs them")
    s <- start_script(fixture = "newer-future", lib = newer_future(),
                      file = normalizePath(test_path(file)))
    expect_done(s, 200)
    expect_identical(value_of(s, "bad"), "", info = paste(readLines(s$out), collapse = "\n"))
    expect_identical(value_of(s, "skipped"), "")
    expect_gt(as.integer(value_of(s, "passed")), 0L)
    expect_true(ends(s))
  })
})
