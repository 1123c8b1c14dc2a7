# What jobs are called: in cluster_trace(), and wherever else they are shown.

labels_of <- function(cl, from = 0) {
  x <- cluster_trace(cl)
  jobs <- attr(x, "jobs")
  jobs$label[jobs$job > from][order(jobs$job[jobs$job > from])]
}
last_label <- function(cl) utils::tail(labels_of(cl), 1L)

cl <- make_cluster(2)

test_that("a map is called after its function and the user's", {
  f <- function(x) x
  cluster_map(cl, 1:2, f)
  expect_identical(last_label(cl), "cluster_map(f)")
  cluster_map(cl, 1:2, f, .chunk = 1)
  expect_identical(last_label(cl), "cluster_map(f)")
  cluster_map_dbl(cl, 1:2, f)
  expect_identical(last_label(cl), "cluster_map_dbl(f)")
  clutch::cluster_map2(cl, 1:2, 3:4, base::sum)
  expect_identical(last_label(cl), "cluster_map2(base::sum)")
  cluster_walk(cl, 1:2, function(x, by = 2) x[[1]]^by)
  expect_identical(last_label(cl), "cluster_walk(function(x, by = 2) x[[1]]^by)")
  cluster_pmap(cl, list(1:2), "f")
  expect_identical(last_label(cl), "cluster_pmap(\"f\")")
  cluster_iwalk(cl, 1:2, list(1, "a"))
  expect_identical(last_label(cl), "cluster_iwalk(list(1, \"a\"))")
  do.call(cluster_map, list(cl, 1:2, f))
  expect_identical(last_label(cl), "cluster_map(<function>)")
  within <- function(g) cluster_map_int(cl, 1:2, g)
  within(f)
  expect_identical(last_label(cl), "cluster_map_int(g)")
})

test_that("a submitted task is called after its code, or as the user says", {
  collect(cluster_submit(cl, sqrt(2) + 1))
  expect_identical(last_label(cl), "cluster_submit(sqrt(2) + 1)")
  collect(cluster_submit(cl, {
    x <- c(a = 1L, b = NA)
    if (TRUE) -x else "q\""
  }, .retries = 1))
  expect_identical(last_label(cl),
                   "cluster_submit({ x <- c(a = 1L, b = NA); if (TRUE) -x else \"q\\\"\" })")
  collect(cluster_submit(cl, 1, .label = "my\ntask"))
  expect_identical(last_label(cl), "my task")
  collect(cluster_submit_call(cl, sqrt, list(2)))
  expect_identical(last_label(cl), "cluster_submit_call(sqrt)")
  data <- stats::runif(100)
  task <- eval(bquote(cluster_submit(cl, sum(.(data)))))
  collect(task)
  expect_identical(last_label(cl), "cluster_submit(sum(<double[100]>))")
})

test_that("labels are short, of one line, and in UTF-8, whatever the code is", {
  t <- clutch:::tasks_of(cl)
  label <- function(code) {
    job <- clutch:::job_new(t, sum, NULL, NULL, NULL, clutch:::task_options())
    .Call(clutch:::ffi_job_name, job, quote(cluster_submit), code)
    .Call(clutch:::ffi_job_label, job)
  }
  long <- label(quote({
    a_rather_long_name_of_a_variable <- 1
    another_rather_long_name_of_a_variable <- 2
    a_rather_long_name_of_a_variable + another_rather_long_name_of_a_variable
  }))
  expect_lte(nchar(long, "bytes"), 80)
  expect_match(long, "^cluster_submit\\(\\{ a_rather_long_name_of_a_variable <- 1; .*\\.\\.\\.$")
  umlauts <- label(quote("\u00e4\u00f6\u00fc\u20ac"))
  expect_identical(umlauts, "cluster_submit(\"\u00e4\u00f6\u00fc\u20ac\")")
  many <- strrep("\U0001F600", 30)
  collect(cluster_submit(cl, 1, .label = many))
  expect_identical(last_label(cl), paste0(strrep("\U0001F600", 19), "..."))
  latin <- "caf\xe9"
  expect_true(validUTF8(label(latin)))
  # a sum of very many, and brackets in brackets
  expect_lte(nchar(label(Reduce(function(a, b) call("+", a, b), as.list(1:20000))), "bytes"), 80)
  expect_lte(nchar(label(Reduce(function(a, b) call("(", a), as.list(1:300), 1)), "bytes"), 80)
  for (code in expression(for (i in 1:2) i, while (FALSE) 1, function(a, ...) a, -1, !TRUE, a ~ b,
                          c(1)[1], list(a = 1)$a, 5 %in% 1:3, (1), {}, NULL, 1e-300, -Inf, 1i,
                          (function(x) x)(1), base::sum(1))) {
    text <- label(code)
    expect_match(text, "^cluster_submit\\(.*\\)$")
    inner <- sub("\\)$", "", sub("^cluster_submit\\(", "", text))
    if (!grepl("<", inner))
      expect_identical(str2lang(inner), str2lang(deparse1(code)), label = text)
  }
})

test_that("what other packages' functions have made is called after them", {
  skip_if_not_installed("foreach")
  registerDoClutch(cl)
  on.exit(foreach::registerDoSEQ())
  i <- NULL
  foreach::`%dopar%`(foreach::foreach(i = 1:2), sqrt(i))
  expect_identical(last_label(cl), "foreach(sqrt(i))")
})

test_that("a map that mclapply() makes is called after it, and the next one after itself", {
  end_own_cluster() # another file may have used it
  on.exit(end_own_cluster())
  square <- function(i) i^2
  clutch::mclapply(1:2, square, mc.cores = 2)
  clutch::mcmapply(square, 1:3, mc.cores = 2)
  clutch::pvec(1:4, sqrt, mc.cores = 2)
  pool <- clutch:::the$pool$cl
  cluster_map(pool, 1:2, square, .chunk = 1)
  seen <- labels_of(pool)
  expect_identical(seen, c("mclapply(square)", "mcmapply(square)", "pvec(sqrt)",
                           "cluster_map(square)"))
})

stop_cluster(cl)

test_that("one that could not begin does not give its name to the next", {
  old <- options(clutch.idle_seconds = "long", mc.cores = 2L)
  on.exit(options(old))
  cluster <- make_cluster(1)
  on.exit(stop_cluster(cluster), add = TRUE)
  expect_error(clutch::mclapply(1:4, sqrt), class = "clutch_argument")
  cluster_map(cluster, 1:2, sqrt)
  expect_identical(last_label(cluster), "cluster_map(sqrt)")
})
