# Brings up the fork servers of other hosts, and has them fork nodes.
#
# In the plan, besides what plan_hosts() makes:
#   link      the session's link process, see link.R; NULL: not started
#   servers   the hosts behind it, see link.R, with what each has reported
#   commands  what was run: list(handle, log, hosts, argv) each
#   folder    of files that hosts read, or NULL
#   parents, pending, of_tree, began, until  see launch-tree.R; hosts of a tree by their number, the
#             time at which the first was started, and that at which all have to be there

start_on_hosts <- function(info, ranks, left) {
  tempdir(TRUE) # it may have been deleted since the cluster was made
  is_first <- is.null(info$link)
  ok <- FALSE
  on.exit(if (!ok && is_first) {
    end_waiting(info)
    end_hosts(info)
  })
  if (is_first) {
    bring_up_hosts(info, left)
    ranks <- seq_along(info$hosts)
  }
  handles <- spawn_on_hosts(info, ranks, function() left() + if (is_first) queued_for(info) else 0)
  if (is_first) warn_missing(info) # which may be an error
  ok <- TRUE
  handles
}

replace_on_host <- function(info, rank, seconds) {
  end <- clock() + seconds
  left <- function() max(end - clock(), 0.01)
  k <- info$host_of[[rank]]
  host <- info$servers[[k]]
  if (host_has_ended(host) && may_start_again(info, k)) start_host_again(info, k, left)
  start_on_hosts(info, rank, left)[[1L]]
}

host_has_ended <- function(host) .Call(ffi_server_info, host$handle)$state == "ended"

# ---- a host that was lost ----

# Whether what was there has ended by itself, or was killed, on a host that can be reached; as a
# fork server of this machine it has a successor then. To look for one that was cut off would keep
# the session waiting.
may_start_again <- function(info, k) {
  if (info$launches[[1L]]$secret != "stdin" || length(info$launches) != length(info$servers) ||
        k %in% info$given_up || is_not_run(info, k)) return(FALSE)
  command <- command_of(info, k)$handle
  end <- clock() + 3 # it may be about to end
  repeat {
    i <- .Call(ffi_node_info, command)
    if (i$state == "dead" || clock() > end) break
    Sys.sleep(0.02)
  }
  i$state == "dead" && isFALSE(i$by_signal) && i$code != 255L
}

start_host_again <- function(info, k, left) {
  ok <- FALSE
  on.exit(if (!ok) info$given_up <- c(info$given_up, k))
  unlink(command_of(info, k)$log)
  info$commands <- Filter(function(command) !k %in% command$hosts, info$commands)
  info$servers[[k]] <- link_host(info$link, host_setup(info))
  launch <- launches_of(info$launch, info$methods, "", format(info$port))[[k]]
  seconds <- min(left(), AGAIN_LIMIT)
  end <- clock() + seconds
  run_and_note(info, launch, settings_for(info, launch, seconds))
  came <- tryCatch({
    await_hosts(info, function() end - clock(), length(info$servers) - length(info$missing))
    check_reports(info, k)
    send_host_settings(info, k, left)
  }, clutch_error = identity)
  if (!inherits(came, "error")) {
    ok <- TRUE
    return(invisible())
  }
  host_end(info$servers[[k]])
  throw("start", sprintf("host %s was lost, and does not come again: %s", info$launch$hosts[[k]],
                         conditionMessage(came)))
}

AGAIN_LIMIT <- 20 # seconds

# ---- hosts ----

bring_up_hosts <- function(info, left) {
  x <- info$launch
  if (!x$tls && !isTRUE(x$tunnel)) {
    say(paste("tls = FALSE: who is between this session and the hosts can read and change what",
              "travels, and so run code on both."))
  }
  info$link <- link_process(list(
    listen = if (isTRUE(x$tunnel)) "127.0.0.1" else "", ports = x$listen, tls = x$tls,
    heartbeat = option_number("clutch.heartbeat", 10, above = TRUE),
    reconnect = option_number("clutch.reconnect", 300), seconds = left(),
    tunnels = if (x$kind == "ssh" && !isFALSE(x$tunnel)) x$hosts
  ))
  info$port <- .Call(ffi_link_info, info$link$handle)$port
  setup <- host_setup(info)
  for (k in seq_along(x$each)) info$servers[[k]] <- link_host(info$link, setup)
  run_launches(info, left())
  await_hosts(info, left, info$min_hosts)
  forget_missing(info)
  info$parents[] <- 0L # who starts again starts nobody else
  if (!is.null(info$folder)) unlink(list.files(info$folder, "^settings", full.names = TRUE))
  check_reports(info)
  say_differences(info)
  end_waiting(info)
  left_then <- function() left() + queued_for(info)
  for (k in hosts_that_came(info)) send_host_settings(info, k, left_then)
}

# What its fork server does first.
host_setup <- function(info) {
  by_exec <- info$strategy == "spawn"
  list(packages = if (!by_exec) info$packages, by_exec = by_exec,
       preload = if (!by_exec) preload_of(info), compare = packages_to_compare(info$packages))
}

# What the R on a host, or on each of several, is told: lines. `launch`: one of launches_of().
settings_for <- function(info, launch, seconds) {
  x <- info$launch
  direct <- !isTRUE(x$tunnel)
  here <- if (direct) c(x$address, Sys.info()[["nodename"]])
  addresses <- unique(c(here, if (x$kind == "ssh" && !isFALSE(x$tunnel)) "127.0.0.1"))
  attach <- if (info$strategy == "spawn") info$packages else character()
  first <- info$servers[[launch$hosts[[1L]]]]
  settings <- host_settings(info$link, first, addresses, seconds, info$methods, attach)
  settings$rank_from <- launch$rank
  settings$direct <- direct
  settings$unset <- names(quick_start_there(x$r))
  if (length(launch$hosts) == 1L) settings <- c(settings, part_of_tree(info, launch$hosts))
  host_settings_lines(settings)
}

run_launches <- function(info, seconds) {
  x <- info$launch
  if (any(vapply(info$launches, function(l) l$secret == "file", NA))) {
    dir.create(x$folder, showWarnings = FALSE, recursive = TRUE)
    info$folder <- tempfile("cluster-", x$folder)
    if (!dir.create(info$folder, mode = "0700", showWarnings = FALSE)) {
      throw("start", sprintf("'%s' cannot be made, where hosts read their settings", info$folder))
    }
  }
  folder <- if (is.null(info$folder)) "" else info$folder
  launches <- launches_of(x, info$methods, folder, format(info$port))
  info$began <- clock()
  info$until <- info$began + seconds
  info$parents <- launch_parents(x)
  if (length(launches) < length(info$servers)) info$parents <- integer(length(info$servers))
  by_tree <- which(info$parents > 0L)
  info$of_tree <- structure(launches[by_tree], names = as.character(by_tree))
  info$pending <- if (length(by_tree)) launches[-by_tree] else launches
  start_pending(info)
}

# ---- whose turn it is to be started ----

AT_ONCE <- 64L      # programs that have been started here, and whose hosts have not come yet
# Seconds for which those are waited for whose parent has come; and twice as long as that one took:
# on busy machines all take long, and to start the same hosts once more would not help.
TREE_PATIENCE <- 10


# Starts what may be started now.
start_pending <- function(info) {
  is_awaited <- function(command) {
    any(vapply(info$servers[command$hosts], function(host) is.null(host$report), NA))
  }
  while (length(info$pending)) {
    launch <- info$pending[[1L]]
    # what a queue holds back may come in any order
    if (launch$secret == "stdin" && sum(vapply(info$commands, is_awaited, NA)) >= AT_ONCE) break
    info$pending <- info$pending[-1L]
    seconds <- max(info$until - clock(), 1)
    run_and_note(info, launch, settings_for(info, launch, seconds))
  }
}

# Hosts that the tree does not bring are this session's from now on.
see_to_tree <- function(info, waiting) {
  for (k in waiting) {
    if (info$parents[[k]] == 0L || !has_tree_failed(info, k)) next
    info$parents[[k]] <- 0L
    info$pending <- c(info$pending, info$of_tree[as.character(k)])
  }
  start_pending(info)
}

has_tree_failed <- function(info, k) {
  parent <- info$parents[[k]]
  if (host_has_ended(info$servers[[parent]])) return(TRUE)
  came <- info$servers[[parent]]$came
  if (is.null(came)) return(FALSE)
  if (clock() - came > TREE_PATIENCE + 2 * (came - info$began)) return(TRUE)
  tree_failure(info$servers[[k]]$number) %in% log_lines(command_of(info, parent)$log)
}

# Nothing was run for it here: it waits for its turn, or is another host's to start.
is_not_run <- function(info, k) is.null(command_of(info, k))

# What ends when all has that it has started tells of that end.
run_and_note <- function(info, launch, text) {
  command <- run_launch(info, launch, text)
  info$commands <- c(info$commands, list(command))
  if (launch$secret != "stdin" || info$launch$kind == "template") return(invisible())
  carries <- isTRUE(info$launch$tunnel)
  for (k in launch$hosts) host_started_by(info$link, info$servers[[k]], command$handle, carries)
}

# Starts one command: list(handle, log, hosts, argv). `text`: lines that its hosts get.
run_launch <- function(info, launch, text) {
  if (launch$secret == "file") {
    write_private(text, file.path(info$folder, launch$settings))
    text <- NULL
  }
  if (!is.null(launch$script)) {
    script <- file.path(info$folder, launch$job)
    writeLines(launch$script, script)
    Sys.chmod(script, "0700")
  }
  argv <- launch$argv
  program(argv[[1L]])
  if (!is.null(launch$cancel)) argv <- keeper_command(launch, info$folder)
  argv[[1L]] <- program(argv[[1L]])
  log <- tempfile("clutch-host-", fileext = ".log")
  env <- env_of_launcher(info$launch)
  how <- list(output = log, folder = NULL, stdin = FALSE, slot = FALSE,
              input = if (!is.null(text)) paste0(text, "\n", collapse = ""))
  how$leaves <- if (info$launch$kind == "template") TRUE
  handle <- .Call(ffi_psock_node, 0L)
  .Call(ffi_psock_spawn, handle, argv, paste0(names(env), "=", env), how)
  list(handle = handle, log = log, hosts = launch$hosts, argv = launch$argv,
       keeps_job = !is.null(launch$cancel))
}

# A step in which this session runs may be bound to some processors, which holds for that step. A
# new job has nothing to do with an allocation in which this session is.
env_of_launcher <- function(x) {
  env <- effective_env(NULL)
  if (x$kind != "slurm") return(env)
  bound <- if (is.null(x$job)) "^SLURM_(?!CONF$)" else "^SLURM_(CPU_BIND|MEM_BIND)"
  env[!grepl(bound, names(env), perl = TRUE)]
}

# Until all hosts have reported, or more than may be missing will not: `least` are wanted.
await_hosts <- function(info, left, least) {
  repeat {
    waiting <- which(vapply(info$servers, function(host) is.null(host$report), NA))
    waiting <- setdiff(waiting, info$missing)
    if (!length(waiting)) return(invisible())
    for (k in waiting) {
      host <- host_ready(info$servers[[k]], if (k == waiting[[1L]]) 0.05 else 0)
      if (!is.null(host)) info$servers[[k]] <- host
    }
    see_to_tree(info, waiting[vapply(info$servers[waiting], function(h) is.null(h$report), NA)])
    see_to_job(info)
    is_lost <- function(k) is.null(info$servers[[k]]$report) && host_will_not_come(k, info)
    lost <- Filter(is_lost, waiting)
    if (length(lost)) {
      let_end(info, Filter(function(k) !is_not_run(info, k), lost))
      lost <- Filter(is_lost, waiting) # of one command several may fail together
      miss_hosts(info, lost, least)
      next
    }
    if (left() + queued_for(info) <= 0.02) miss_hosts(info, waiting, least, is_late = TRUE)
  }
}

# Goes on without them, or throws. `least`: so many are wanted.
miss_hosts <- function(info, failed, least, is_late = FALSE) {
  n <- length(info$servers) - length(info$missing) - length(failed)
  if (n < least) throw_hosts_failed(info, c(info$missing, failed), is_late)
  text <- unlist(lapply(failed, host_failure_text, info))
  info$why_missing <- c(info$why_missing, text)
  info$missing <- c(info$missing, failed)
  for (k in failed) {
    host_end(info$servers[[k]])
    if (is_not_run(info, k)) next
    command <- command_of(info, k)
    if (all(command$hosts %in% info$missing)) .Call(ffi_nodes_stop, list(command$handle), 0, 2)
  }
}

# What a command prints last, and how it ends, is known a moment after its connection has ended.
# What a task of srun's has printed may come after how the task has ended.
let_end <- function(info, lost) {
  began <- clock()
  may_print <- function(k) {
    command <- command_of(info, k)
    if (length(command$hosts) == 1L) {
      return(.Call(ffi_node_info, command$handle)$state == "starting")
    }
    if (clock() < began + 0.5) return(TRUE)
    info$launch$kind == "slurm" &&
      !has_task_printed(printed_of(info, command), k - command$hosts[[1L]])
  }
  for (k in lost) while (clock() < began + 1 && may_print(k)) Sys.sleep(0.02)
}

command_of <- function(info, k) Find(function(command) k %in% command$hosts, info$commands)

# The command that has submitted a job ends well before that begins.
host_will_not_come <- function(k, info) {
  if (.Call(ffi_server_info, info$servers[[k]]$handle)$state == "ended") return(TRUE)
  if (is_not_run(info, k)) return(FALSE)
  command <- command_of(info, k)
  i <- .Call(ffi_node_info, command$handle)
  if (i$state == "dead") return(is.null(info$folder) || i$by_signal || i$code != 0L)
  if (has_job_ended(info)) return(TRUE)
  length(srun_says(printed_of(info, command), k - command$hosts[[1L]])) > 0L
}

# By the command, and by the job that it has submitted.
printed_of <- function(info, command) {
  of_job <- if (isTRUE(command$keeps_job)) log_lines(file.path(info$folder, "job.log"))
  c(log_lines(command$log), of_job)
}

# ---- what is told to them ----

# What cannot be worked with is an error.
check_reports <- function(info, of = hosts_that_came(info)) {
  for (k in of) {
    report <- info$servers[[k]]$report
    if (!is.null(report$error)) stop(error_of_package(report$failed, report$error))
    why <- report$preload$error
    name <- info$launch$hosts[[k]]
    if (!is.null(why)) stop(preload_error(why, sprintf("in the fork server of %s", name)))
    if (info$strategy == "fork_server" && has_threads(report)) {
      text <- "%s on %s, and threads do not survive a fork: take strategy = \"spawn\""
      throw("start", sprintf(text, threads_text(report), name))
    }
  }
  if (info$launch$kind != "ssh") {
    names <- lapply(info$servers, function(host) host$report$host$name)
    info$hosts <- vapply(names[info$host_of], identity, "")
  }
}

# Some are known only when they have come.
names_of_hosts <- function(info) {
  names <- info$hosts[match(seq_along(info$servers), info$host_of)]
  ifelse(is.na(names), info$launch$hosts, names)
}

say_differences <- function(info) {
  came <- hosts_that_came(info)
  reports <- lapply(info$servers[came], function(host) host$report$host)
  own <- host_report(packages_to_compare(info$packages))
  lines <- host_differences(names_of_hosts(info)[came], reports, own)
  if (length(lines)) say(paste(lines, collapse = "; "))
}

# Settings as of fork_settings(), for the environment that is there.
send_host_settings <- function(info, k, left) {
  host <- info$servers[[k]]$report$host
  share <- as.character(max(1L, host$cores %/% info$launch$each[[k]]))
  threads <- c(thread_variables, "R_DATATABLE_NUM_THREADS")
  env <- c(structure(rep(share, length(threads)), names = threads), CLUTCH_NODE_CORES = share)
  env[names(info$node_env)] <- info$node_env
  settings <- list(
    env_set = env, env_unset = character(), wd = ".", session = 0L, umask = host$umask,
    announce = info$outfile != "/dev/null", nice = info$nice, libraries = NULL,
    share_from = share_from_of(sum(info$launch$each)), by_exec = info$strategy == "spawn"
  )
  answer <- .Call(ffi_server_settings, info$servers[[k]]$handle, settings, info$outfile, left())
  if (!is.character(answer)) return(invisible())
  throw("start", sprintf("the nodes on %s cannot be set up: %s", info$launch$hosts[[k]], answer))
}

# ---- nodes ----

spawn_on_hosts <- function(info, ranks, left) {
  handles <- vector("list", length(ranks))
  ok <- FALSE
  on.exit(if (!ok) .Call(ffi_nodes_stop, Filter(Negate(is.null), handles), 0, 5))
  kind <- if (info$strategy == "spawn") "exec" else "fork"
  for (k in unique(info$host_of[ranks])) {
    at <- which(info$host_of[ranks] == k)
    if (host_has_ended(info$servers[[k]])) {
      text <- "host %s is lost%s: no node can be started there"
      throw("start", sprintf(text, info$hosts[[at[1L]]], host_end_reason(info, k)))
    }
    handles[at] <- .Call(ffi_nodes_spawn, info$servers[[k]]$handle, as.integer(ranks[at]), kind)
  }
  failed <- .Call(ffi_nodes_wait, handles, left())
  if (failed > 0L) throw_node_not_started(info, ranks, handles, failed)
  ok <- TRUE
  handles
}

throw_node_not_started <- function(info, ranks, handles, failed) {
  i <- .Call(ffi_node_info, handles[[failed]])
  is_late <- i$state == "starting" && is.null(i$refusal)
  why <- if (is_late) "it did not start within setup_timeout" else failed_node_reason(i)
  text <- sprintf("node %d on %s cannot be started: %s; nothing was left running",
                  ranks[[failed]], info$hosts[[ranks[[failed]]]], why)
  throw(if (is.null(i$refusal)) "start" else "limit", text)
}

# ---- the end ----

# All nodes of the cluster were stopped, of which these were just now.
end_on_hosts <- function(info, ranks) {
  info$stopped <- union(info$stopped, ranks)
  if (length(info$stopped) == length(info$hosts)) end_hosts(info)
}

# Ends all that is on the hosts, and the commands that have started it.
end_hosts <- function(info) {
  if (is.null(info$link)) return(invisible())
  for (host in info$servers) host_end(host)
  if (all(link_status(info$link)$state == "ended")) link_end(info$link)
  if (info$launch$kind != "ssh") await_commands(info)
  .Call(ffi_nodes_stop, lapply(info$commands, function(command) command$handle), 0, 2)
  unlink(vapply(info$commands, function(command) command$log, ""))
  if (!is.null(info$folder)) unlink(info$folder, recursive = TRUE)
  info$commands <- NULL
  invisible()
}

# They end when what they have started does: soon, unless a host has not come and so heard nothing.
# Told to end by SIGTERM they see to it that it does, which they could not do when they are killed.
await_commands <- function(info) {
  has_come <- vapply(info$servers, function(host) !is.null(host$report), NA)
  keeps_job <- vapply(info$commands, function(command) command$keeps_job, NA)
  if (all(has_come) && !any(keeps_job) && commands_end(info, 3)) return(invisible())
  for (command in info$commands) {
    i <- .Call(ffi_node_info, command$handle)
    if (i$state == "starting" && !is.na(i$started)) tools::pskill(i$started, tools::SIGTERM)
  }
  commands_end(info, 5)
}

commands_end <- function(info, seconds) {
  end <- clock() + seconds
  runs <- function(command) .Call(ffi_node_info, command$handle)$state == "starting"
  while (any(vapply(info$commands, runs, NA))) {
    if (clock() >= end) return(FALSE)
    Sys.sleep(0.01)
  }
  TRUE
}

# ---- failure ----

throw_hosts_failed <- function(info, failed, is_late = FALSE) {
  x <- info$launch
  what <- if (is_late) "did not come within setup_timeout" else "could not be started"
  head <- sprintf("%d of %d hosts %s; nothing was left running", length(failed), length(x$each),
                  what)
  lines <- unlist(lapply(utils::head(failed, 3L), host_failure_text, info))
  more <- if (length(failed) > 3L) paste("and", paste(x$hosts[failed[-(1:3)]], collapse = ", "))
  throw("start", paste(c(head, lines, more), collapse = "\n"), hosts = x$hosts[failed],
        port = info$port)
}

host_failure_text <- function(k, info) {
  x <- info$launch
  if (is_not_run(info, k)) return(sprintf("%s: its turn to be started had not come", x$hosts[[k]]))
  command <- command_of(info, k)
  i <- .Call(ffi_node_info, command$handle)
  why <- if (i$state != "starting") {
    how_ended(i$by_signal, i$code)
  } else if (host_has_ended(info$servers[[k]])) {
    with(link_status(info$link), why[rank == info$servers[[k]]$number])
  } else {
    "it has not connected"
  }
  node <- list(host = x$hosts[[k]], rshcmd = shell_words(x$ssh), by_hosts = TRUE)
  printed <- printed_of(info, command)
  if (has_job_ended(info)) {
    why <- job_end_text(info$job$number, info$job$fields)
    i <- list(state = "dead", by_signal = FALSE, code = -1L)
  }
  if (x$kind == "slurm") {
    number <- k - command$hosts[[1L]]
    said <- srun_says(printed, number)
    printed <- printed_by_task(printed, number)
    if (length(said)) {
      why <- said
      i <- list(state = "dead", by_signal = FALSE, code = exit_code_of(said))
    }
  }
  advice <- advice_for(node, i, printed, info$port)
  c(
    sprintf("%s: %s%s", x$hosts[[k]], why, last_printed(printed)),
    sprintf("what was run for %s: %s", x$hosts[[k]], shell_words(command$argv)),
    if (length(advice)) paste("try:", advice)
  )
}
