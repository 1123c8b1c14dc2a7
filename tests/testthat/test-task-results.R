# Results of all sizes, in whatever way they come.

test_that("results of all sizes come, each to its own element, whatever way they take", {
  f <- function(i) switch(i %% 6 + 1, NULL, i, rep(i, 300), as.character(i), list(i, "a", i / 2), {
    message("m")
    c(a = i)
  })
  want <- lapply(1:3000, function(i) suppressMessages(f(i)))
  for (strategy in c("fork_server", "parallel")) for (chunk in list(NULL, 1, 7)) {
    cl <- make_cluster(2, strategy)
    expect_identical(suppressMessages(cluster_map(cl, 1:3000, f, .chunk = chunk)), want,
                     label = strategy)
    stop_cluster(cl)
  }
})

test_that("R code that runs while a result is read may take others", {
  # what others have loaded may be in use
  some <- setdiff(c("stats4", "splines", "grid"), loadedNamespaces())
  if (!length(some)) skip("all namespaces are loaded already")
  package <- some[[1L]]
  cl <- make_cluster(2)
  on.exit(stop_cluster(cl))
  slow <- cluster_submit(cl, Sys.sleep(60))
  ran <- 0
  setHook(packageEvent(package, "onLoad"), function(...) {
    fill <- function() lapply(1:2000, function(k) rep(as.raw(255), 1000 + 20 * k))
    around <- fill() # what grows has to move
    Sys.sleep(0.3) # the ring is full
    resolved(slow)
    fill() # what was given back is somebody else's
    ran <<- ran + 1
  })
  on.exit(setHook(packageEvent(package, "onLoad"), NULL, "replace"), add = TRUE)
  for (k in 1:5) {
    if (package %in% loadedNamespaces()) unloadNamespace(package)
    r <- cluster_map(cl, 1:200, function(i) {
      list(if (i == 1) asNamespace(package), paste(strrep("x", 3000), i))
    }, .chunk = 100)
    expect_identical(vapply(r, `[[`, "", 2L), paste(strrep("x", 3000), 1:200))
  }
  expect_identical(ran, 5)
})

test_that("a session that has no room for the shared memory works without it", {
  linux_only()
  skip_if_not(nzchar(Sys.which("prlimit")))
  s <- start_script(fixture = "address-space")
  expect_done(s)
})

test_that("a quick result is there while the node is at a slow task", {
  cl <- make_cluster(1)
  on.exit(stop_cluster(cl))
  invisible(cluster_map(cl, 1:20000, identity))
  seen <- integer()
  withCallingHandlers(cluster_map(cl, 1:5001, function(i) {
    if (i == 4999) message("before")
    if (i == 5000) Sys.sleep(2)
    i
  }),
                      message = function(m) {
                        seen[["at"]] <<- clutch:::clock()
                        invokeRestart("muffleMessage")
                      })
  end <- clutch:::clock()
  expect_gt(end - seen[["at"]], 1) # it was relayed while the next one slept
  # and no task is late because the quick ones before it were not told of
  r <- cluster_map(cl, 1:20001, function(i) {
    if (i == 20000) Sys.sleep(0.6)
    i
  }, .timeout = 1)
  expect_identical(unlist(r), 1:20001)
})
