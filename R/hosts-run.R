# The commands that start hosts: when each is run, what it gets, what it prints, and their end.
#
# A command may start several hosts: one `srun` has a task on each, and the variable SLURM_PROCID
# tells which host it is.

# Runs the first of them; start_pending() and see_to_tree() run the others.
run_launches <- function(info, seconds) {
  x <- info$plan$launch
  if (wants_folder(info)) {
    dir.create(x$folder, showWarnings = FALSE, recursive = TRUE)
    folder <- tempfile("cluster-", x$folder)
    set_remote(info, folder = folder)
    if (!dir.create(folder, mode = "0700", showWarnings = FALSE)) {
      throw("start", sprintf("'%s' cannot be made, where hosts read their settings", folder))
    }
    set_remote(info, cleanup = list(remove_folder_at_end(folder)))
  }
  launches <- commands_now(info, first_hosts(x))
  began <- clock()
  hosts <- length(info$remote$servers)
  parents <- if (length(launches) < hosts) integer(hosts) else info$plan$kind$parents(x)
  by_tree <- which(parents > 0L)
  set_remote(info, began = began, patience = seconds, until = began + seconds, parents = parents,
             of_tree = structure(launches[by_tree], names = as.character(by_tree)),
             pending = if (length(by_tree)) launches[-by_tree] else launches)
  start_pending(info)
}

# Tells whether hosts read their settings in a folder that they see, too.
wants_folder <- function(info) {
  any(vapply(info$plan$launches, function(launch) launch$delivery$wants_folder, NA))
}

# The value is what is run for the hosts `of`, now that port and folder are known.
commands_now <- function(info, of) {
  folder <- if (is.null(info$remote$folder)) "" else info$remote$folder
  commands_of(info$plan$kind, info$plan$launch, info$plan$methods, folder, format(info$port), of)
}

# The value is what the R on a host, or on each of several, is told, as host_settings_text().
# `launch`: one of commands_now().
settings_for <- function(info, launch, seconds) {
  x <- info$plan$launch
  direct <- !isTRUE(x$tunnel)
  here <- if (direct) c(x$address, Sys.info()[["nodename"]])
  addresses <- unique(c(here, info$plan$kind$address(x)))
  attach <- if (info$strategy == "spawn") info$plan$packages else character()
  first <- info$remote$servers[[launch$hosts[[1L]]]]
  settings <- host_settings(info$remote$link, first, addresses, seconds, info$plan$methods, attach)
  on.exit(.Call(ffi_private_wipe, settings$private))
  settings$rank_from <- launch$rank
  settings$direct <- direct
  settings$by_exec <- info$strategy == "spawn"
  settings$unset <- names(quick_start_there(x$r))
  if (length(launch$hosts) == 1L) settings <- c(settings, part_of_tree(info, launch$hosts))
  host_settings_text(settings, if (isTRUE(launch$watched)) watched_start() else character())
}

# ---- whose turn it is to be started ----

AT_ONCE <- 64L      # programs that have been started here, and whose hosts have not come yet
# Seconds for which those are waited for whose parent has come; and twice as long as that one took:
# on busy machines all take long, and to start the same hosts once more would not help.
TREE_PATIENCE <- 10

# Starts what may be started now.
start_pending <- function(info) {
  is_awaited <- function(command) {
    any(vapply(info$remote$servers[command$hosts], function(host) is.null(host$report), NA))
  }
  while (length(info$remote$pending)) {
    launch <- info$remote$pending[[1L]]
    is_full <- sum(vapply(info$remote$commands, is_awaited, NA)) >= AT_ONCE
    if (launch$delivery$is_direct && is_full) break
    set_remote(info, pending = info$remote$pending[-1L])
    seconds <- max(info$remote$until - clock(), 1)
    run_and_note(info, launch, settings_for(info, launch, seconds))
  }
}

# Hosts that the tree does not bring are this session's from now on.
see_to_tree <- function(info, waiting) {
  parents <- info$remote$parents
  said <- logs_of(info, setdiff(parents[waiting], 0L)) # once for all hosts that one has started
  for (k in waiting) {
    parent <- parents[[k]]
    if (parent == 0L || !has_tree_failed(info, k, said[[as.character(parent)]])) next
    parents[[k]] <- 0L
    set_remote(info, parents = parents,
               pending = c(info$remote$pending, info$remote$of_tree[as.character(k)]))
  }
  start_pending(info)
}

# The value is what these hosts have printed, by their numbers. Nobody asks for one that has not
# come.
logs_of <- function(info, hosts) {
  came <- Filter(function(k) !is.null(info$remote$servers[[k]]$came), hosts)
  read <- function(k) log_lines(command_of(info, k)$log)
  structure(lapply(came, read), names = as.character(came))
}

# `said`: what the one that starts it has printed.
has_tree_failed <- function(info, k, said) {
  parent <- info$remote$parents[[k]]
  if (host_has_ended(info$remote$servers[[parent]])) return(TRUE)
  came <- info$remote$servers[[parent]]$came
  if (is.null(came)) return(FALSE)
  if (clock() - came > TREE_PATIENCE + 2 * (came - info$remote$began)) return(TRUE)
  tree_failure(info$remote$servers[[k]]$number) %in% said
}

# ---- one of them ----

# The end of a command that ends last, after all that it has started, tells of their end.
run_and_note <- function(info, launch, text) {
  command <- run_launch(info, launch, text)
  set_remote(info, commands = c(info$remote$commands, list(command)))
  if (!isTRUE(launch$tells_end)) return(invisible())
  carries <- isTRUE(info$plan$launch$tunnel)
  link <- info$remote$link
  for (k in launch$hosts) {
    host_started_by(link, info$remote$servers[[k]], command$handle, carries)
  }
}

# Starts one command, as an element of `commands`. `text`: what its hosts get, overwritten.
run_launch <- function(info, launch, text) {
  force(text) # here, where an error of it ends this
  on.exit(.Call(ffi_private_wipe, text))
  input <- launch$delivery$hand_over(info, launch, text)
  info$plan$kind$prepare(info, launch)
  if (!is.null(launch$script)) {
    script <- file.path(info$remote$folder, launch$job)
    writeLines(launch$script, script)
    Sys.chmod(script, "0700")
  }
  argv <- launch$argv
  # where there is none, the error names it, and not the shell
  if (!is.null(launch$cancel)) program(argv[[1L]])
  is_array <- !is.null(launch$cancel_some)
  if (is_array) {
    argv <- array_command(argv, length(launch$hosts), launch$cancel, launch$cancel_some)
    input <- "\n" # what follows is said by end_commands()
  } else if (!is.null(launch$cancel)) {
    argv <- cleanup_command(argv, launch$cancel)
  }
  log <- tempfile("clutch-host-", fileext = ".log")
  has_begun <- FALSE
  on.exit(if (!has_begun) unlink(log), add = TRUE)
  env <- info$plan$kind$environment(info$plan$launch, effective_env(NULL))
  handle <- run_command(argv, env, log, input = input, hold = is_array || isTRUE(launch$watched),
                        leaves = info$plan$kind$leaves)
  has_begun <- TRUE
  list(handle = handle, log = log, hosts = launch$hosts, argv = launch$argv,
       tasks = if (is_array) seq_along(launch$hosts) - 1L, settings = launch$settings,
       keeps_job = !is.null(launch$cancel), printed = launch$printed, began = clock())
}

command_of <- function(info, k) Find(function(command) k %in% command$hosts, info$remote$commands)

# Notes that what was run for host `k` is over. Of an array the other hosts stay.
forget_command <- function(info, k) {
  commands <- lapply(info$remote$commands, function(command) {
    at <- match(k, command$hosts)
    if (is.na(at)) return(command)
    if (is.null(command$tasks)) return(NULL)
    command$hosts <- command$hosts[-at]
    command$tasks <- command$tasks[-at]
    if (length(command$hosts)) command
  })
  set_remote(info, commands = Filter(Negate(is.null), commands))
}

# The number that host `k` has in the array of its command; NULL: it is no array.
task_of <- function(command, k) command$tasks[match(k, command$hosts)]

# Nothing was run for it here: it waits for its turn, or is another host's to start.
is_not_run <- function(info, k) is.null(command_of(info, k))

# By the command of host `k`, and by the job that it has submitted.
printed_of <- function(info, command, k) {
  has_file <- isTRUE(command$keeps_job) && !is.null(info$remote$folder)
  file <- if (has_file) printed_files(info, command, task_of(command, k))
  c(log_lines(command$log), if (has_file) log_lines(file))
}

# These files have what jobs print. `tasks`: numbers in an array, for which "%a" stands.
printed_files <- function(info, launch, tasks) {
  name <- if (is.null(launch$printed)) "job.log" else launch$printed
  if (!grepl("%a", name, fixed = TRUE)) return(file.path(info$remote$folder, name))
  file.path(info$remote$folder, vapply(tasks, function(task) sub("%a", task, name), ""))
}

# ---- the end ----

# Some nodes were stopped, perhaps the last.
end_on_hosts <- function(info) {
  if (length(info$stopped) >= length(info$hosts)) end_hosts(info)
}

# Ends all that is on the hosts, and the commands that have started it.
end_hosts <- function(info) {
  if (is.null(info$remote$link)) return(invisible())
  link_let_go(info$remote$link, info$remote$servers)
  if (info$plan$kind$ends_itself) await_commands(info)
  handles <- lapply(info$remote$commands, function(command) command$handle)
  .Call(ffi_nodes_stop, c(handles, info$remote$cleanup), 0, 2)
  unlink(vapply(info$remote$commands, function(command) command$log, ""))
  # see remove_folder_at_end()
  if (!is.null(info$remote$folder)) .Call(ffi_remove_folder, info$remote$folder)
  set_remote(info, commands = NULL, cleanup = NULL)
  invisible()
}

# They end when what they have started does: soon, unless a host has not come and so heard nothing.
# Told to end by SIGTERM they see to it that it does, which they could not do when they are killed.
await_commands <- function(info) {
  has_come <- vapply(info$remote$servers, function(host) !is.null(host$report), NA)
  keeps_job <- vapply(info$remote$commands, function(command) command$keeps_job, NA)
  if (all(has_come) && !any(keeps_job) && commands_end(info, 3)) return(invisible())
  for (command in info$remote$commands) {
    i <- .Call(ffi_node_info, command$handle)
    if (i$state == "starting" && !is.na(i$started)) tools::pskill(i$started, tools::SIGTERM)
  }
  commands_end(info, 5)
}

commands_end <- function(info, seconds) {
  end <- clock() + seconds
  runs <- function(command) .Call(ffi_node_info, command$handle)$state == "starting"
  while (any(vapply(info$remote$commands, runs, NA))) {
    if (clock() >= end) return(FALSE)
    Sys.sleep(0.01)
  }
  TRUE
}
