# Brings up the fork servers of other hosts, and has them fork nodes.
#
# While a host is cut off the session inspects the command that has started it
# (inspect_commands()). Where ssh or srun say that R there has ended, the host is given up at
# once, and start_host_again() runs that command once more.

start_on_hosts <- function(info, ranks, left) {
  tempdir(TRUE) # it may have been deleted since the cluster was made
  is_first <- is.null(info$remote$link)
  ok <- FALSE
  on.exit(if (!ok && is_first) {
    info$plan$kind$started(info)
    end_hosts(info)
  })
  if (is_first) {
    bring_up_hosts(info, left)
    ranks <- seq_len(nodes_at_start(info))
  }
  queued <- function() if (is_first) info$plan$kind$queued(info) else 0
  handles <- spawn_on_hosts(info, ranks, function() left() + queued())
  if (is_first) warn_missing(info) # which may be an error
  ok <- TRUE
  handles
}

replace_on_host <- function(info, rank, seconds) {
  end <- clock() + seconds
  left <- function() max(end - clock(), 0.01)
  k <- info$host_of[[rank]]
  host <- info$remote$servers[[k]]
  if (host_has_ended(host) && may_start_again(info, k)) start_host_again(info, k, left)
  start_on_hosts(info, rank, left)[[1L]]
}

# ---- a host that was lost ----

# Tells whether what was there has ended by itself, or was killed, on a host that can be reached; as
# a fork server of this machine it has a successor then. To look for one that was cut off would keep
# the session waiting.
may_start_again <- function(info, k) {
  has_own_command <- length(info$plan$launches) == length(info$remote$servers)
  if (!info$plan$launches[[1L]]$delivery$is_direct || !has_own_command) return(FALSE)
  if (k %in% info$remote$given_up || is_not_run(info, k)) return(FALSE)
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
  on.exit(if (!ok) set_remote(info, given_up = c(info$remote$given_up, k)))
  unlink(command_of(info, k)$log)
  forget_command(info, k)
  set_host(info, k, link_host(info$remote$link, host_setup(info)))
  launch <- commands_now(info, k)[[1L]]
  seconds <- min(left(), AGAIN_LIMIT)
  end <- clock() + seconds
  run_and_note(info, launch, settings_for(info, launch, seconds))
  came <- tryCatch({
    await_hosts(info, function() end - clock(), length(hosts_that_came(info)))
    check_reports(info, k)
    set_up_hosts(info, k, left)
  }, clutch_error = identity)
  name <- info$plan$launch$hosts[[k]]
  if (!inherits(came, "error")) {
    ok <- TRUE
    tell_event("start", info, text = "the host was started again", host = name)
    return(invisible())
  }
  host_end(info$remote$servers[[k]])
  throw("start", sprintf("host %s was lost, and does not come again: %s", name,
                         conditionMessage(came)))
}

AGAIN_LIMIT <- 20 # seconds

# ---- hosts ----

bring_up_hosts <- function(info, left) {
  x <- info$plan$launch
  if (!x$tls && !isTRUE(x$tunnel)) say(PLAIN_TEXT)
  link <- link_process(list(
    listen = if (isTRUE(x$tunnel)) "127.0.0.1" else "", ports = x$listen, tls = x$tls,
    heartbeat = option_number("clutch.heartbeat", 10, above = TRUE),
    reconnect = option_number("clutch.reconnect", 300),
    tunnels = info$plan$kind$tunnels(x)
  ))
  set_remote(info, link = link)
  set_cluster(info, port = .Call(ffi_link_info, link$handle)$port)
  setup <- host_setup(info)
  for (k in first_hosts(x)) set_host(info, k, link_host(link, setup))
  run_launches(info, left())
  link_ready(link, left())
  own <- host_report(packages_to_compare(info$plan$packages)) # while they start: it takes 4 ms
  await_hosts(info, left, info$plan$min_hosts)
  forget_missing(info)
  # who starts again starts nobody else
  set_remote(info, parents = integer(length(info$remote$parents)))
  folder <- info$remote$folder
  if (!is.null(folder)) unlink(list.files(folder, "^settings", full.names = TRUE))
  check_reports(info)
  say_differences(info, own)
  info$plan$kind$started(info)
  left_then <- function() left() + info$plan$kind$queued(info)
  set_up_hosts(info, hosts_that_came(info), left_then)
}

# The value is what the fork server of a host does first.
host_setup <- function(info) {
  by_exec <- info$strategy == "spawn"
  list(packages = if (!by_exec) info$plan$packages, by_exec = by_exec,
       preload = if (!by_exec) preload_of(info), compare = packages_to_compare(info$plan$packages))
}

# ---- what is told to them ----

# A report of a host that cannot be worked with is an error.
check_reports <- function(info, of = hosts_that_came(info)) {
  for (k in of) {
    report <- info$remote$servers[[k]]$report
    if (!is.null(report$error)) stop(error_of_package(report$failed, report$error))
    why <- report$preload$error
    name <- info$plan$launch$hosts[[k]]
    if (!is.null(why)) stop(preload_error(why, sprintf("in the fork server of %s", name)))
    if (info$strategy == "fork_server" && has_threads(report)) {
      text <- "%s on %s, and threads do not survive a fork: take strategy = \"spawn\""
      throw("start", sprintf(text, threads_text(report), name))
    }
  }
  if (info$plan$kind$has_names) return(invisible())
  for (k in of) name_host(info, k, info$remote$servers[[k]]$report$host$name)
}

# Some are known only when they have come.
names_of_hosts <- function(info) {
  names <- info$hosts[match(seq_along(info$remote$servers), info$host_of)]
  ifelse(is.na(names), info$plan$launch$hosts, names)
}

# `own`: host_report() of this session.
say_differences <- function(info, own) {
  came <- hosts_that_came(info)
  reports <- lapply(info$remote$servers[came], function(host) host$report$host)
  lines <- host_differences(names_of_hosts(info)[came], reports, own)
  if (length(lines)) say(paste(lines, collapse = "; "))
}

# All are told before the first has answered: else each would cost the time to it and back.
set_up_hosts <- function(info, of, left) {
  handles <- lapply(info$remote$servers[of], `[[`, "handle")
  settings <- lapply(of, settings_on_host, info = info)
  tell <- function(handle, settings) .Call(ffi_server_settings, handle, settings, info$plan$outfile)
  answers <- Map(tell, handles, settings)
  for (i in seq_along(of)) {
    answer <- answers[[i]]
    if (!is.character(answer)) answer <- .Call(ffi_server_applied, handles[[i]], answer, left())
    if (!is.character(answer)) next
    text <- "the nodes on %s cannot be set up: %s"
    throw("start", sprintf(text, info$plan$launch$hosts[[of[[i]]]], answer))
  }
}

# Settings as of fork_settings(), for the environment that is there.
settings_on_host <- function(info, k) {
  host <- info$remote$servers[[k]]$report$host
  each <- info$plan$launch$each[[k]]
  env <- c(thread_env(host$cores, each), told_env(host$cores, each))
  env[names(info$node_env)] <- info$node_env
  list(
    env_set = env, env_unset = character(), wd = ".", session = 0L, umask = host$umask,
    announce = info$plan$outfile != "/dev/null", nice = info$plan$nice, libraries = NULL,
    share_from = share_from_of(sum(info$plan$launch$each)), by_exec = info$strategy == "spawn",
    nodes = info$plan$launch$each[[k]]
  )
}

# ---- nodes ----

spawn_on_hosts <- function(info, ranks, left) {
  handles <- vector("list", length(ranks))
  ok <- FALSE
  on.exit(if (!ok) .Call(ffi_nodes_stop, Filter(Negate(is.null), handles), 0, 5))
  kind <- if (info$strategy == "spawn") "exec" else "fork"
  for (k in unique(info$host_of[ranks])) {
    at <- which(info$host_of[ranks] == k)
    if (host_has_ended(info$remote$servers[[k]])) {
      text <- "host %s is lost%s: no node can be started there"
      throw("start", sprintf(text, info$hosts[[at[1L]]], host_end_reason(info, k)))
    }
    server <- info$remote$servers[[k]]$handle
    handles[at] <- .Call(ffi_nodes_spawn, server, as.integer(ranks[at]), kind)
  }
  failed <- .Call(ffi_nodes_wait, handles, left())
  if (failed > 0L) throw_node_not_started(info, ranks, handles, failed)
  ok <- TRUE
  for (f in info$tasks$at_host) for (k in unique(info$host_of[ranks])) f(info, k)
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
