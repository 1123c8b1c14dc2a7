# Workers of package crew on nodes of ours. A launcher of crew is told a call and how many processes
# are to make it; each is a program (launch-programs.R). crew itself replaces workers that it
# misses, so these are not kept.
#
# the$crew: a list of what was launched; what has ended is forgotten at the next launch.
# the$crew_tasks: the same of what was launched on clusters.
# the$crew_launcher: the class, made when it is first of use.
#
# crew 1.3.3 forgets handles of workers that run: as soon as so many workers have connected as were
# launched up to a launch, that launch is forgotten, whichever of them are there (scale() of its
# launcher). So nothing may end because its handle is garbage.

#' A controller of package crew whose workers are nodes of a fork server
#'
#' As `crew::crew_controller_local()`, but a worker is forked from an R that has loaded what
#' \pkg{crew} needs, instead of an `Rscript` that loads it anew. For \pkg{targets}:
#' `targets::tar_option_set(controller = crew_controller_clutch(workers = 4))`. A pipeline whose
#' session was killed goes on where it was: what targets has recorded is not done again, and workers
#' end with the session.
#'
#' \pkg{crew} starts workers when there are tasks, and again when one has died. They end when it
#' tells them to, and with the session, whatever ends it. Where R has threads before the fork, which
#' a message tells, each worker is an R of its own start.
#'
#' @section On a cluster: With `cl` each worker is a task of that cluster, so \pkg{crew} and
#'   \pkg{targets} get nodes of [hosts()], [slurm()] and of templates, too. Workers come when there
#'   are tasks, and end when \pkg{crew} tells them to (`seconds_idle`): then the node is free, and a
#'   cluster that grows shrinks. Nodes of other hosts connect to a port of the session: they have to
#'   reach `host`, and `tls = crew::crew_tls(mode = "automatic")` encrypts what travels.
#'
#' @section Limits of crew itself: These were seen with crew 1.3.3 and mirai 2.7.3, also with
#'   `crew::crew_controller_local()`, on a busy machine:
#' * `collect()` after `wait(mode = "all")` may lack the last tasks. `wait()` asks who hands out the
#'   tasks, and their results come a moment later: in 0.4 s at most. `nonempty()` is TRUE until all
#'   were collected.
#' * A task that is pushed when a worker has just been idle for `seconds_idle` may end as a
#'   `"crash"` ("Connection reset"): the worker was about to end. Push it again, or let
#'   `seconds_idle` be long.
#' * A task that is cancelled in the moment in which it is pushed may run on: a cancellation that
#'   reaches a worker together with its task is forgotten. `Sys.sleep(0.1)` before `cancel()` helps.
#' @param name String: name of the controller. By default a random one.
#' @param workers Number of workers, at most. `NULL`: 1, or as many as `cl` may have nodes.
#' @param ... More arguments of `crew::crew_controller_local()`, by name. `r_arguments` has no
#'   effect.
#' @param cl cluster of [make_cluster()] on whose nodes the workers run. `NULL`: on processes of
#'   their own on this machine.
#' @return Object of class `crew_class_controller`, whose launcher has class
#'   `crew_class_launcher_clutch`.
#' @section Errors:
#' * `clutch_argument`: arguments have no name, or one that `crew::crew_controller_local()` does not
#'   know.
#' * `clutch_package`: package \pkg{crew} is not installed, or is older than 1.3.0.
#' * `clutch_start`: when tasks are pushed, and workers do not start.
#'
#' All have class `clutch_error`. What \pkg{crew} objects to is an error of its own.
#' ```r
#' tryCatch(crew_controller_clutch(), clutch_package = function(e) message("without crew"))
#' ```
#' @seealso [mirai_daemons()], [make_cluster()]
#' @examplesIf .Platform$OS.type == "unix"
#' if (requireNamespace("crew", quietly = TRUE)) {
#'   controller <- crew_controller_clutch(workers = 2)
#'   controller$start()
#'   controller$push(sqrt(4), name = "root")
#'   controller$wait()
#'   print(controller$pop()$result)
#'   controller$terminate()
#' }
#' @export
crew_controller_clutch <- function(name = NULL, workers = NULL, ..., cl = NULL) {
  need_package("crew", "crew_controller_clutch()", "1.3.0")
  if (!is.null(cl)) cl <- cluster_for_tasks(cl, "crew_controller_clutch()")
  if (is.null(workers)) workers <- if (is.null(cl)) 1L else most_nodes(cl)
  args <- crew_arguments(name, workers, list(...))
  client <- do.call(crew::crew_client, args_for(args, crew::crew_client, "workers"))
  of_launcher <- crew::crew_class_launcher_local$public_methods$initialize
  launcher <- do.call(crew_launcher_class()$new, args_for(args, of_launcher))
  launcher$cluster <- cl
  launcher$validate()
  parts <- list(client = client, launcher = launcher)
  controller <- do.call(crew::crew_controller, c(parts, args_for(args, crew::crew_controller)))
  controller$validate()
  controller
}

# All arguments of crew's own function, with its defaults.
crew_arguments <- function(name, workers, options) {
  defaults <- formals(crew::crew_controller_local)
  given <- names(options)
  if (length(options) && (is.null(given) || !all(nzchar(given)))) {
    throw("argument", "the options of crew_controller_clutch() have to be named")
  }
  bad <- setdiff(given, names(defaults))
  if (length(bad)) {
    text <- "crew_controller_clutch() has no argument '%s'%s"
    throw("argument", sprintf(text, bad[[1L]], did_you_mean(bad[[1L]], names(defaults), "'")))
  }
  args <- lapply(defaults, eval, asNamespace("crew"))
  args[c("name", "workers", given)] <- c(list(name, workers), options)
  args
}

args_for <- function(args, fun, except = character()) {
  args[setdiff(intersect(names(args), names(formals(fun))), except)]
}

utils::globalVariables(c("private", "self")) # of R6

crew_launcher_class <- function() {
  if (is.null(the$crew_launcher)) {
    the$crew_launcher <- R6::R6Class(
      "crew_class_launcher_clutch",
      inherit = crew::crew_class_launcher_local,
      public = list(
        cluster = NULL,
        launch_workers = function(call, n) {
          if (!is.null(self$cluster)) return(launch_on_cluster(self$cluster, call, n))
          private$.log_prepare()
          name <- crew::crew_random_name()
          launch_workers(call, n, private$.log_stdout(name), private$.log_stderr(name))
        }
      ),
      parent_env = environment(crew_launcher_class)
    )
  }
  the$crew_launcher
}

# crew needs these packages besides nanonext, which starts threads when it is loaded.
needed_by_crew <- c("cli", "rlang", "R6", "later", "promises", "data.table", "tibble", "tidyselect",
                    "collections", "ps", "processx")

# `out`, `err`: files, or NULL; "2>&1" is the same file.
launch_workers <- function(call, n, out, err) {
  need_fork("crew_controller_clutch()", "give it a cluster, `cl`")
  output <- if (is.null(out)) "/dev/null" else c(out, if (!identical(err, "2>&1")) err)
  info <- start_programs(rep(call, n), run_worker, keep = FALSE, load = needed_by_crew,
                         output = output, strategy = crew_strategy())
  the$crew <- c(Filter(function(i) live_programs(i) > 0L, the$crew), list(info))
  lapply(info$handles, worker_handle)
}

# It is found out once that R has threads: crew launches workers again and again.
crew_strategy <- function() {
  if (length(the$crew)) the$crew[[length(the$crew)]]$strategy else "fork_server"
}

# The handle can do what crew's own handles, of package processx, can, as far as crew uses it.
worker_handle <- function(node) {
  pid <- .Call(ffi_node_info, node)$pid
  handle <- list(
    get_pid = function() pid,
    is_alive = function() is_program_alive(node),
    signal = function(signal) tools::pskill(pid, signal),
    kill = function() tools::pskill(pid, tools::SIGKILL)
  )
  structure(list2env(handle, parent = emptyenv()), class = c("clutch_worker", "process"))
}

launch_on_cluster <- function(cl, call, n) {
  code <- changed_code(call, function(call) {
    call$settings$autoexit <- NA
    call
  })
  tasks <- start_as_tasks(cl, rep(code, n), run_worker, "crew's worker", retries = 0)
  the$crew_tasks <- c(Filter(function(task) count_open(list(task)) > 0L, the$crew_tasks), tasks)
  lapply(tasks, task_handle)
}

task_handle <- function(task) {
  handle <- list(
    get_pid = function() NA_integer_,
    is_alive = function() count_open(list(task)) > 0L,
    signal = function(signal) end_tasks(list(task)),
    kill = function() end_tasks(list(task))
  )
  structure(list2env(handle, parent = emptyenv()), class = c("clutch_worker", "process"))
}

# In the node.
run_worker <- function(code, again) eval(str2lang(code), globalenv())
