# crew's own tests that run over crew_controller_local(), in which crew_controller_clutch() takes
# its place: those of the package, and those that crew's author runs by hand (folder tests/local).
#
# "exit status and code" pushes a task and cancels it at once, and waits for ever where the
# cancellation is lost. It is lost in the daemon of mirai 2.7.3 with nanonext 1.10.4, whoever has
# started it: eval_mirai() listens for a cancellation before it calls
# nanonext::.suspend_interrupts(FALSE), which clears R_interrupts_pending. One that comes within
# these 0.1 ms is forgotten, and stop_mirai() is TRUE all the same. On 2 cores under load: 2 of 535
# rounds with mirai's own daemon, 7 of 48 with that one in a session of its own (setsid), as ours
# are, 32 of 128 with ours, 4 of 22 with crew's own launcher. With 0.1 s before the cancel: none.

source(file.path(Sys.getenv("CLUTCH_ADAPTER_TESTS", "tests/adapters"), "_common.R"))

with_clutch <- function(lines) gsub("crew_controller_local(", "crew_controller_clutch(", lines,
                                    fixed = TRUE)
# of these the controllers are local ones; LONG=1: also those with up to 60,000 tasks, which take
# minutes each. Not "cleanup": it wants a worker right after push(), and crew launches one when the
# dispatcher has heard of the task. Where that is later the test fails before it has terminated its
# controller, and R crashes when that is garbage: also with crew 1.3.3's own launcher, without clutch
long <- if (nzchar(Sys.getenv("LONG"))) c("long_seconds_idle", "long_tasks_max", "map", "transient")
suites <- list(
  testthat = c("crew_controller", "crew_controller_group", "crew_controller_local",
               "crew_monitor_local"),
  local = c("crew_clean", "persistent", "persistent-autoscale", "persistent-group",
            "saturated", "tls", "transient-wait", "wait", long)
)

folder <- sources_of("crew")
if (!is.null(folder)) {
  suppressPackageStartupMessages({
    library(testthat)
    library(crew)
    library(clutch)
  })
  Sys.setenv(NOT_CRAN = "true")
  helper <- file.path(folder, "tests", "testthat", "helper-utils.R")
  some_files <- function(suite, change = identity) {
    to <- copy_tests(file.path(folder, "tests", suite), change)
    unlink(file.path(to, setdiff(list.files(to, "^test-"), sprintf("test-%s.R", suites[[suite]]))))
    file.copy(helper, to)
    to
  }
  env <- function() new.env(parent = asNamespace("crew"))
  ours <- function() {
    env <- env()
    env$crew_controller_clutch <- clutch::crew_controller_clutch
    env
  }
  for (suite in names(suites)) {
    run_testthat(paste("crew", suite), "crew_controller_local", some_files(suite), env())
    run_testthat(paste("crew", suite), "clutch", some_files(suite, with_clutch), ours())
  }
}
