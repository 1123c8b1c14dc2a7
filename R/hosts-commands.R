# All kinds of hosts have these in common: the defaults of a kind, see hosts-kinds.R, and the
# command that R is on a host.

new_host_kind <- function(by, commands, has_names = FALSE, leaves = FALSE, ends_itself = TRUE,
                          parents = no_parents, address = no_value, tunnels = no_value,
                          environment = same_environment, prepare = no_value,
                          shown = shown_as_words, watch_text = no_value, poll = no_value,
                          queued = no_seconds, started = no_value, will_not_come = never,
                          may_print = never, failure = no_value, attend = no_value,
                          ask = no_value, waits_too_long = no_value, began = no_value,
                          asks_together = FALSE) {
  list(by = by, commands = commands, has_names = has_names, leaves = leaves,
       ends_itself = ends_itself, parents = parents, address = address, tunnels = tunnels,
       environment = environment, prepare = prepare, shown = shown, watch_text = watch_text,
       poll = poll, queued = queued, started = started, will_not_come = will_not_come,
       may_print = may_print, failure = failure, attend = attend, ask = ask,
       waits_too_long = waits_too_long, began = began, asks_together = asks_together)
}

no_value <- function(...) NULL
never <- function(...) FALSE
no_seconds <- function(info) 0
no_parents <- function(x) integer(length(x$each))
same_environment <- function(x, env) env
shown_as_words <- function(launch) shell_words(launch$argv)

# The line of a dry run for commands that are `watched`, see start-watcher.R. `with`: what R ends
# with.
watched_by <- function(launch, with) {
  if (!isTRUE(launch$watched)) return(NULL)
  paste("gets a line that the shell runs, and that ends R with", with)
}

# The value is what is run for these hosts of a description, as kind$commands() says. `methods`:
# whether R attaches that package there.
commands_of <- function(kind, x, methods, folder, port, of) {
  host_command <- function(file = NULL) {
    path <- if (!is.null(file)) file.path(folder, file)
    remote_command(x$r, host_code(path, x$r$lib), methods)
  }
  kind$commands(x, host_command, folder, port, of)
}

# The value is what R evaluates there. `file`: with the settings; they are on standard input
# otherwise. `lib`: the library there in which this package is; NULL: R there finds it.
host_code <- function(file = NULL, lib = NULL) {
  call <- sprintf("host_main(%s)", if (is.null(file)) "" else deparse1(file))
  if (is.null(lib)) return(paste0("clutch:::", call))
  sprintf("loadNamespace(\"clutch\", lib.loc = %s)$%s", deparse1(lib), call)
}
