# Programs for a shell: see inst/node. `make lint` checks the files; here is what is sent.

in_all_shells <- function(expect) {
  for (shell in Filter(function(s) nzchar(Sys.which(s)), c("sh", "bash", "dash", "zsh"))) {
    expect(shell)
  }
}

says_no_error <- function(shell, program) {
  said <- suppressWarnings(system2(shell, c("-n", "-c", shQuote(program)), stdout = TRUE,
                                   stderr = TRUE))
  expect_identical(as.character(said), character(), info = paste(shell, program))
}

test_that("each program is put together: nothing is left to fill in, and a shell can read it", {
  skip_on_os("windows")
  cancel <- clutch:::shell_lines("slurm-cancel")
  programs <- list(
    clutch:::watched_start(), clutch:::watched_script(), cancel,
    clutch:::cleanup_command("true", cancel)[[3L]],
    clutch:::array_command("true", 3L, cancel, clutch:::shell_lines("slurm-cancel-tasks"))[[3L]],
    clutch:::tree_line("ssh 'a host'", 3L)
  )
  for (program in programs) {
    text <- paste(program, collapse = "\n")
    expect_no_match(text, "@[a-z_]+@")
    in_all_shells(function(shell) says_no_error(shell, text))
  }
  # the program inside of the first is in single quotes
  expect_length(gregexpr("'", clutch:::watched_start(), fixed = TRUE)[[1L]], 2L)
})

test_that("comments are not sent, and a part may have several lines", {
  expect_no_match(clutch:::watched_script()[-1L], "#")
  expect_identical(clutch:::watched_script()[[1L]], "#!/bin/sh")
  program <- clutch:::shell_lines("cleanup", at_end = c("echo a", "echo b"))
  expect_match(paste(program, collapse = "\n"), "  echo a\necho b\n  exit 0", fixed = TRUE)
})

test_that("lines are joined as a shell reads them", {
  skip_on_os("windows")
  line <- clutch:::shell_line("await-file")
  expect_false(grepl("\n", line, fixed = TRUE))
  file <- tempfile("settings-")
  file.create(file)
  on.exit(unlink(file))
  in_all_shells(function(shell) {
    file.create(file)
    run <- sprintf("s=%s; (sleep 0.2; rm %s) & %s; echo over", file, file, line)
    expect_identical(system2(shell, c("-c", shQuote(run)), stdout = TRUE), "over", info = shell)
  })
})
