# The signatures of all maps, and of submitted tasks.
#
# An option of the maps is added here: all maps get the argument, and options() and the scheduler
# the default. Where its name is added to `submit_arguments`, submitted tasks get it, too. Its check
# is added to check_option() in map-options.R, and its text to the help page of cluster_map().

# Each map has these arguments besides the cluster, its vectors, the function and constants of the
# function.
map_arguments <- alist(
  .more = list(),
  .seed = TRUE,
  .progress = NULL,
  .timeout = Inf,
  .retries = 0,
  .chunk = NULL,
  .globals = TRUE,
  .packages = NULL,
  .relay = "ordered",
  .on_error = "stop",
  .max_memory = Inf,
  .priority = 0,
  .needs = NULL,
  .fresh = FALSE,
  .journal = NULL,
  .journal_if_changed = "compute",
  .journal_sync = 1,
  .journal_errors = "again",
  .detach = FALSE,
  .pointers = "error",
  .reduce = NULL,
  .init = , # nolint: spaces_inside_linter.
  .env = parent.frame()
)

# The options among them have these values. Their names are without the dot.
no_options <- c(".more", ".reduce", ".init", ".env")
option_defaults <- lapply(map_arguments[!names(map_arguments) %in% no_options], eval)
names(option_defaults) <- sub(".", "", names(option_defaults), fixed = TRUE)

# These of them make sense for one task, too. Submitted tasks have them in this order.
submit_arguments <- map_arguments[c(".globals", ".packages", ".seed", ".timeout", ".retries",
                                    ".relay", ".max_memory", ".priority", ".needs", ".fresh",
                                    ".journal", ".journal_sync", ".journal_errors", ".pointers")]

# A map that goes through the arguments `vectors`. `run` does what it does: a function without
# arguments, whose body finds those of the map.
new_map <- function(vectors, run) {
  without_default <- c("cl", vectors, ".f", "...")
  first <- rep(alist(x = ), length(without_default)) # nolint: spaces_inside_linter.
  names(first) <- without_default
  formals(run) <- c(first, map_arguments)
  run
}

# A function that submits a task: `first` are its own arguments, `run` does what it does.
new_submit <- function(first, run) {
  formals(run) <- c(first, submit_arguments, alist(.label = NULL))
  run
}

# A call that tells which of these arguments a call of the user's has not: a logical vector with
# their names, when it is evaluated in the frame of the function.
missing_call <- function(arguments) {
  tests <- lapply(arguments, function(argument) call("missing", as.name(argument)))
  as.call(c(quote(c), structure(tests, names = arguments)))
}
