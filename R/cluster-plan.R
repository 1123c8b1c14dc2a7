#' What make_cluster() would run
#'
#' Takes what [make_cluster()] takes, checks it in the same way, and tells which commands would be
#' run, with which environment variables. Nothing is started.
#'
#' A port that is not known before the cluster starts is shown as `<free>`. The secret by which
#' nodes and session know each other is in no command and in no environment variable of another
#' host.
#'
#' @inheritParams make_cluster
#' @return Character vector of class `clutch_launch_plan`, one element for each line. It is printed
#'   as text.
#' @section Errors: those of [make_cluster()] that its arguments cause: `clutch_argument`,
#'   `clutch_limit` and `clutch_unsupported`. All have class `clutch_error`.
#' ```r
#' tryCatch(
#'   launch_plan("far", rshcmd = "rsh"),
#'   clutch_argument = function(e) launch_plan("far", rshcmd = "rsh", tls = FALSE)
#' )
#' ```
#' @seealso [make_cluster()]
#' @examplesIf .Platform$OS.type == "unix"
#' launch_plan(4)
#' launch_plan(c("alpha", "beta"), master = "my-machine", homogeneous = FALSE)
#' @export
launch_plan <- function(spec = available_cores(),
                        strategy = c("fork_server", "spawn", "parallel", "sequential"),
                        packages = NULL, outfile = "/dev/null", env = NULL, ...,
                        rscript_args = character(), setup_timeout = 120, preload = NULL,
                        min_hosts = NULL, keep = NULL, idle = NULL, resources = NULL) {
  preload <- preload_request(substitute(preload), written_in(sys.call(), parent.frame()))
  start <- launcher_and_plan(environment(), list(...))
  structure(start$launcher$show(new_record(start$plan)), class = "clutch_launch_plan")
}

#' @export
print.clutch_launch_plan <- function(x, ...) {
  writeLines(unclass(x))
  invisible(x)
}

#' @export
format.clutch_launch_plan <- function(x, ...) unclass(x)
