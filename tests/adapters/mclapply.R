# Examples of packages that call mclapply(), with ours in its place, and where forking the session
# is an error. A topic counts as passed when its examples run to their end and nodes were used, as
# skipped when they came to no mclapply() on several cores.

source(file.path(Sys.getenv("CLUTCH_ADAPTER_TESTS", "tests/adapters"), "_common.R"))

# What makes the examples of these topics call it.
multicore <- "options(boot.parallel = 'multicore', boot.ncpus = 2L)"
suites <- list(
  boot = list(multicore, c("boot", "censboot", "tsboot")),
  pbapply = list("pboptions(type = 'none')", "pbapply"),
  pbmcapply = list("", c("pbmclapply", "pbmcmapply")),
  vegan = list("", c("anosim", "mantel", "mrpp", "bioenv", "permutest.betadisper", "oecosimu")),
  survey = list("options(survey.multicore = TRUE)", c("svyby", "svyquantile")),
  pls = list("pls.options(parallel = 2)", c("crossval", "mvr", "jack.test")),
  sandwich = list("formals(vcovBS.lm)$cores <- 2", "vcovBS"),
  partykit = list("formals(cforest)$cores <- 2L", c("cforest", "varimp")),
  phangorn = list("formals(bootstrap.phyDat)$multicore <- TRUE", "superTree"),
  tm = list("tm_parLapply_engine(parallel::mclapply)", c("matrix", "tm_map"))
)

patch <- quote({
  replace_in <- function(env, name, value) {
    unlockBinding(name, env)
    assign(name, value, envir = env)
    lockBinding(name, env)
  }
  parallel <- asNamespace("parallel")
  library(parallel)
  replace_in(parallel, "mcfork", function(...) stop("the session was forked"))
  for (name in c("mclapply", "pvec", "mcmapply", "mcMap")) {
    replace_in(parallel, name, getExportedValue("clutch", name))
    replace_in(as.environment("package:parallel"), name, getExportedValue("clutch", name))
  }
})

# "passed", "failed" or "skipped": of one topic, in an R of its own.
run_topic <- function(package, topic, setup, with) {
  rd <- tools::Rd_db(package)[[paste0(topic, ".Rd")]]
  if (is.null(rd)) stop("package ", package, " has no topic ", topic)
  example <- tempfile(fileext = ".R")
  tools::Rd2ex(rd, example, commentDontrun = topic %in% dont_run)
  if (!file.exists(example)) return("skipped")
  script <- tempfile(fileext = ".R")
  writeLines(c(
    if (with == "clutch") deparse(patch),
    "options(mc.cores = 2L, device = function(...) grDevices::pdf(NULL))",
    sprintf("library(%s)", package), setup,
    sprintf("source(%s)", deparse(example)),
    if (with == "clutch") "if (is.null(clutch:::the$pool)) quit('no', 10L)"
  ), script)
  log <- tempfile()
  status <- system2(file.path(R.home("bin"), "Rscript"), script, stdout = log, stderr = log,
                    timeout = 300)
  outcome <- switch(as.character(status), `0` = "passed", `10` = "skipped", "failed")
  if (outcome == "failed") {
    cat(sprintf("  failed: %s, topic %s (%s)\n", package, topic, with))
    if (nzchar(Sys.getenv("VERBOSE"))) cat(paste0("    ", tail(readLines(log), 8L), "\n"), sep = "")
  }
  unlink(c(example, script, log))
  outcome
}

# Their \dontrun parts need what is not there.
dont_run <- c("boot", "censboot", "tsboot", "oecosimu", "crossval", "mvr", "svyquantile",
              "superTree")

chosen <- Sys.getenv("PACKAGES")
if (nzchar(chosen)) suites <- suites[strsplit(chosen, " ")[[1L]]]
for (package in names(suites)) {
  if (!requireNamespace(package, quietly = TRUE)) {
    unavailable(package, "not installed")
    next
  }
  for (with in c("parallel", "clutch")) {
    outcomes <- vapply(suites[[package]][[2L]], function(topic) {
      run_topic(package, topic, suites[[package]][[1L]], with)
    }, "")
    counts <- table(factor(outcomes, c("passed", "failed", "skipped")))
    say_counts(paste("mclapply:", package), with, counts[[1L]], counts[[2L]], counts[[3L]])
  }
}
