# What a host says of itself at its start, and what of that differs from the session.

report <- function(...) {
  own <- list(name = "x", r = "4.4.1", platform = "x86_64-pc-linux-gnu", locale = "C.UTF-8",
              utf8 = TRUE, sorts = "C", versions = c(clutch = "0.1.0", data.table = "1.15.0"))
  utils::modifyList(own, list(...))
}
differences <- function(reports, hosts = names(reports)) {
  clutch:::host_differences(hosts, unname(reports), report())
}

test_that("what differs is said once, with the hosts of which it is true", {
  expect_identical(differences(list(alpha = report(), beta = report())), character())
  expect_identical(
    differences(list(alpha = report(r = "4.5.0"), beta = report(), gamma = report(r = "4.5.0"))),
    "alpha and gamma have R 4.5.0, and this session 4.4.1"
  )
  many <- rep(list(report(platform = "aarch64-unknown-linux-gnu")), 5L)
  expect_identical(
    differences(many, paste0("n", 1:5)),
    paste("n1, n2, n3 and 2 more have platform aarch64-unknown-linux-gnu,",
          "and this session x86_64-pc-linux-gnu")
  )
  expect_identical(
    differences(list(beta = report(locale = "C", utf8 = FALSE, sorts = "de_DE"))),
    c("beta has locale C, and this session C.UTF-8",
      "beta has sort order de_DE, and this session C")
  )
  # another name of the same
  expect_identical(differences(list(beta = report(locale = "en_US.UTF-8"))), character())
  versions <- c(clutch = "0.2.0", data.table = NA)
  expect_identical(
    differences(list(beta = report(versions = versions))),
    c("beta has package clutch 0.2.0, and this session 0.1.0",
      "beta has no package data.table, which this session has")
  )
})

test_that("names of hosts as text", {
  expect_identical(clutch:::some_names("a"), "a")
  expect_identical(clutch:::some_names(c("a", "b")), "a and b")
  expect_identical(clutch:::some_names(c("a", "b", "c")), "a, b and c")
  expect_identical(clutch:::some_names(letters[1:4]), "a, b, c and 1 more")
})

test_that("packages whose versions matter: those asked for, and what is attached here", {
  expect_false(any(c("stats", "base") %in% clutch:::packages_to_compare("stats4")))
  expect_true(all(c("clutch", "testthat") %in% clutch:::packages_to_compare("testthat")))
})

test_that("sort orders", {
  order <- clutch:::sort_order
  expect_identical(order("en_US.UTF-8"), "en_US")
  expect_identical(order("POSIX"), "C")
  expect_identical(order("C.UTF-8"), "C")
  expect_identical(order("de_DE@euro"), "de_DE")
})

test_that("a cluster says in one message what its hosts have otherwise", {
  hosts_there <- hosts_or_skip(c("alpha", "beta"))
  on.exit(stop_hosts(hosts_there))
  lib <- tempfile("library-")
  dir.create(lib)
  there <- file.path(hosts_there$folder, "library")
  dir.create(there)
  install_made_package("made", "f <- function() 1", lib, "export(f)")
  install_made_package("made", "f <- function() 2", there, "export(f)")
  description <- file.path(there, "made", "Meta", "package.rds")
  meta <- readRDS(description)
  meta$DESCRIPTION[["Version"]] <- "2.0"
  saveRDS(meta, description)
  old <- .libPaths()
  on.exit({
    .libPaths(old)
    unlink(lib, recursive = TRUE)
  }, add = TRUE)
  .libPaths(c(lib, old))
  x <- hosts(c("alpha", "beta"), ssh = c("ssh", "-F", hosts_there$config),
             env = c(R_LIBS = paste(c(there, old), collapse = ":"), LC_CTYPE = "C"))
  said <- character()
  cl <- withCallingHandlers(make_cluster(x, packages = "made"), message = function(m) {
    said <<- c(said, gsub("[[:space:]]+", " ", conditionMessage(m)))
    tryInvokeRestart("muffleMessage")
  })
  on.exit(stop_cluster(cl), add = TRUE, after = FALSE)
  expect_identical(sum(grepl("this session", said)), 1L)
  expect_match(said, "alpha and beta have package made 2.0, and this session 1.0", all = FALSE)
  if (l10n_info()[["UTF-8"]]) {
    expect_match(said, "alpha and beta have locale C, and this session", all = FALSE)
  }
  expect_identical(unlist(parallel::clusterCall(cl, function() f())), c(2, 2))
})
