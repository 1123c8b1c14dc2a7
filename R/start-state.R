# This file knows whether this process is a fork server or node that is still starting.
#
# A profile, or a package that is attached, may make a cluster. Were it made in a fork server or
# node that is starting, each of its nodes would read the same profile and make another one. So a
# process that starts has a mark in its environment. What it starts inherits the mark. The process
# removes it before it serves. Where the session cannot set the environment (behind `rshcmd`, or
# started by hand) the command line tells.

is_starting <- function() {
  if (nzchar(Sys.getenv("CLUTCH_STARTING"))) return(TRUE)
  args <- commandArgs()
  joins <- function(text) any(grepl(text, args, fixed = TRUE))
  if (joins("$.__join__(") || joins("clutch/node/join.R")) return(!isTRUE(the_node$joined))
  if (!"parallel:::.workRSOCK()" %in% args) return(FALSE)
  worker <- str2lang("parallel:::.workRSOCK")
  !any(vapply(sys.calls(), function(call) identical(call[[1L]], worker), NA))
}

# Tells whether this R was started for host_main() of node-host.R.
is_host_start <- function() any(startsWith(commandArgs(), "clutch:::host_main("))

# An R that is not interactive ends at an error of its profile. The profile of one that is starting
# goes on, or is at the worst left at a later error which comes of having no cluster.
refuse_while_starting <- function(what = "make_cluster()") {
  options(error = expression(NULL))
  text <- paste("this process is a node, or a fork server, that is starting: a cluster made here,",
                "in its profile or by a package, would start others without end")
  e <- error_of("starting", text)
  signalCondition(e)
  message(what, " starts nothing: ", text)
  structure(list(), class = c("clutch_cluster", "cluster"))
}

starting_is_over <- function() {
  Sys.unsetenv("CLUTCH_STARTING")
  restore_env()
  if (identical(getOption("error"), expression(NULL))) options(error = NULL)
}
