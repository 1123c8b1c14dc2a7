# Other packages need these methods to work with our clusters and tasks. They are registered when
# the packages are loaded: none of them is imported.
#
# snow      its generics have parallel's names and arguments: the same methods.
# promises  a task is a promise, and so is a detached map.
# future    its generics for our tasks; clusters: adapt-future.R.
# dplyr     collect().
# BiocParallel  ClutchParam(), as(cl, "SnowParam"): adapt-biocparallel.R.

adapt_to_others <- function() {
  when_loaded("snow", adapt_to_snow)
  when_loaded("doSNOW", function(ns) the$callers <- c(the$callers, list(ns)))
  when_loaded("promises", function(ns) {
    add_method(ns, "as.promise", "clutch_task", as.promise.clutch_task)
    add_method(ns, "as.promise", "clutch_job", as.promise.clutch_job)
    for (class in c("clutch_task", "clutch_job")) {
      add_method(ns, "is.promising", class, function(x) TRUE)
    }
    # before 1.3 it was no generic and looked at the class; as.promise() meets ours first
    if (!isTRUE(utils::isS3stdGeneric(ns$is.promising))) the$task_is_also <- "promise"
  })
  when_loaded("dplyr", function(ns) {
    add_method(ns, "collect", "clutch_task", collect.clutch_task)
    add_method(ns, "collect", "clutch_job", collect.clutch_job)
  })
  when_loaded("future", adapt_to_future)
  when_loaded("parallelly", adapt_to_parallelly)
  when_loaded("BiocParallel", adapt_to_biocparallel)
  # a loop within a task is no reason to warn that there are no nodes for it
  if (isTRUE(getOption("clutch.joins"))) when_loaded("foreach", function(ns) ns$registerDoSEQ())
}

adapt_to_snow <- function(ns) {
  the$callers <- c(the$callers, list(ns))
  register_node_methods(ns)
}
