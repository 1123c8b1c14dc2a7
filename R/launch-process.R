# Nodes that are processes started by a command, here or on another host: what the launchers of such
# nodes share. They say what is to run where, the command, the process, and why a start has failed.

# Besides what all plans have, `info$plan$process`:
#   nodes       list of each node: host, local, same (it has R where this machine has it), rscript,
#               rscript_args, user, rshcmd, master, outfile, nice, tunnel: ssh carries its
#               connection, plain: what leaves this machine is not encrypted
#   listen      the address to listen at; "": all of this machine's
#   ports       those to be tried, in this order
#   env, whole_env  variables that the user sets; the environment of nodes on this machine
#   and options of make_cluster()
plan_processes <- function(request, launcher) {
  o <- request$process
  libraries <- libraries_for(request)
  nodes <- lapply(request$hosts, plan_node, request)
  here <- sum(vapply(nodes, function(node) node$local, NA))
  env <- share_env(effective_env(request$env), max(here, 1L))
  masters <- unique(vapply(nodes, function(node) node$master, ""))
  # one address where that is enough: nobody else can even connect
  one_address <- length(masters) == 1L && is_loopback(masters)
  process <- list(
    nodes = nodes,
    listen = if (one_address) masters else "",
    ports = o$port,
    backlog = as.integer(o$backlog),
    secret = o$secret,
    manual = o$manual,
    sequential = request$strategy == "sequential",
    env = request$env,
    whole_env = env,
    libraries = libraries,
    methods = request$methods,
    setup_timeout = request$setup_timeout,
    timeout = o$timeout,
    announce = !isFALSE(request$announce)
  )
  new_plan(request, launcher = launcher, libraries = libraries, process = process)
}

# One node: what its own options say, or else those of the cluster.
plan_node <- function(own, request) {
  o <- request$process
  pick <- function(name, default) if (is.null(own[[name]])) default else own[[name]]
  local <- is_this_machine(own$host)
  same <- isTRUE(pick("homogeneous", o$homogeneous))
  rscript <- if (same || request$rscript_given) request$rscript else "Rscript"
  node <- list(
    host = own$host,
    local = local,
    same = same || local,
    rscript = path.expand(pick("rscript", rscript)),
    rscript_args = pick("rscript_args", request$rscript_args),
    user = pick("user", o$user),
    rshcmd = pick("rshcmd", o$rshcmd),
    master = pick("master", master_for(local, o$master)),
    outfile = pick("outfile", request$outfile),
    nice = as.integer(pick("renice", request$renice))
  )
  with_way(node, o)
}

# How the connection of a node leaves its host. These nodes know no TLS: ssh carries it, unless it
# is allowed to be plain. A loopback address there is the end of something that the user has made.
with_way <- function(node, o) {
  node$plain <- node$tunnel <- FALSE
  if (!node$local && !o$manual && o$node == "clutch") {
    # such a node gets the secret on its standard input
    need_fork("a node on another host", "take base R's workers, node = \"psock\"")
  }
  if (node$local || is_loopback(node$master)) return(node)
  if (!o$tls) {
    node$plain <- TRUE
    return(node)
  }
  if (o$manual || !is_ssh(node$rshcmd)) {
    text <- paste("what travels between here and %s would not be encrypted: hosts() and",
                  "hosts_command() do that, ssh as `rshcmd` carries the connection, and",
                  "`tls = FALSE` allows it")
    throw("argument", sprintf(text, node$host))
  }
  node$tunnel <- TRUE
  node$master <- "127.0.0.1"
  node
}

is_ssh <- function(rshcmd) basename(strsplit(rshcmd, " +")[[1L]][1L]) == "ssh"

# Ports for the connection of a node: `here`, of this session, and `there`, the one to which the
# node connects.
ports_of <- function(node, here, there = next_port_there()) {
  list(here = here, there = if (isTRUE(node$tunnel)) there else here)
}

# At which ssh listens there, another one for each node: the tunnel of one ends with it. And another
# one for each start, since the one before may still be taken. Systems take those of connections
# from above these.
next_port_there <- function() {
  if (is.null(the$port_there)) the$port_there <- .Call(ffi_random_seeds, 1L)
  the$port_there <- (the$port_there + 1L) %% 20000L
  11000L + as.integer(the$port_there)
}

say_plain <- function(process) {
  if (any(vapply(process$nodes, function(node) node$plain, NA))) say(PLAIN_TEXT)
}

PLAIN_TEXT <- paste(
  "tls = FALSE: who is between this session and the hosts can read and change what",
  "travels, and so run code on both."
)

# This machine's name, as a node knows it.
master_for <- function(local, master) {
  if (!is.null(master)) return(master)
  if (local) "127.0.0.1" else Sys.info()[["nodename"]]
}

# Where nodes are told an address of IPv6, this machine has to have that, or at least IPv6.
check_masters <- function(process) {
  masters <- unique(vapply(process$nodes, function(node) node$master, ""))
  for (master in grep(":", masters, fixed = TRUE, value = TRUE)) {
    has_ipv6 <- .Call(ffi_can_listen, "::1") || .Call(ffi_can_listen, master)
    if (!has_ipv6) {
      text <- "the nodes are to connect to '%s' (`master`), but this machine has no IPv6"
      throw("start", sprintf(text, master))
    }
  }
}

is_loopback <- function(address) {
  address %in% c("localhost", "::1") || grepl("^127\\.", address)
}

# ---- commands ----

# For arguments of a program: option OutDec, a comma perhaps, is for people.
seconds_text <- function(x) format(x, scientific = FALSE, decimal.mark = ".")

# The value is the line that a shell is given.
command_line <- function(command) paste(shQuote(command), collapse = " ")

variable_text <- function(env) {
  if (!length(env)) return("no variables of its own")
  paste0(names(env), "=", shQuote(env), collapse = " ")
}

# The command that runs `command` on the node's host. There a shell gets watched_input() first.
# `ports`: as of ports_of(). A port there that is not to be had is the end: somebody else may listen
# at it.
command_from_here <- function(node, command, ports) {
  if (node$local) return(command)
  tunnel <- if (isTRUE(node$tunnel)) {
    c("-o", "ExitOnForwardFailure=yes", "-R", sprintf("%s:127.0.0.1:%s", ports$there, ports$here))
  }
  login <- if (!is.null(node$user)) c("-l", node$user)
  if (can_watch()) command <- run_watched(command, else_run = TRUE)
  c(strsplit(node$rshcmd, " +")[[1L]], tunnel, login, node$host, command_line(command))
}

# On Windows words are quoted as its own shell wants them, and not as one there.
can_watch <- function() can_fork()

program <- function(name) {
  path <- if (grepl("/", name, fixed = TRUE)) name else Sys.which(name)[[1L]]
  if (!nzchar(path) || !file.exists(path)) {
    throw("start", sprintf("the program '%s' is not found", name))
  }
  path
}

# Runs a program of this session's: a handle as that of a node. `env`: all of its environment;
# `log`: the file that gets what it prints; `input`: host_settings_text() on its standard input, or
# NULL; `hold`: that has
# no end as long as the program runs; `leaves`: what it has started may outlive it; `folder`:
# removed when it has ended.
run_command <- function(argv, env, log, input = NULL, hold = FALSE, leaves = FALSE,
                        folder = NULL) {
  argv[[1L]] <- program(argv[[1L]])
  how <- list(output = log, folder = folder, stdin = FALSE, slot = FALSE, hold = hold,
              input = input, leaves = if (leaves) TRUE)
  handle <- .Call(ffi_psock_node, 0L)
  .Call(ffi_psock_spawn, handle, argv, paste0(names(env), "=", env), how)
  handle
}

# ---- processes ----

# The file that is to have what a node prints until it is ready; "": there is none.
log_of <- function(process, node) {
  if (!nzchar(node$outfile) || process$manual) return("")
  tempfile("clutch-node-", fileext = ".log")
}

# For strategy "sequential" with `manual = TRUE`: who reads this starts the node.
say_command <- function(node, line) {
  cat("Manually start worker on", node$host, "with\n    ", line, "\n")
  utils::flush.console()
  invisible()
}

# Starts the process of a node, here or by way of rshcmd. `acceptor`: who waits for it; NULL for a
# worker of base R's. `own`: arguments for one that is this session's child.
start_process <- function(process, node, handle, acceptor, command, ports, own, log) {
  command <- command_from_here(node, command, ports)
  command[[1L]] <- program(command[[1L]])
  if (node$local) {
    folder <- tempfile("clutch-node-")
    dir.create(folder, mode = "0700")
    env <- process$whole_env
    old <- env["TMPDIR"]
    env[["TMPDIR"]] <- folder
    env[["CLUTCH_STARTING"]] <- "1"
    if (!is.null(acceptor)) env <- quick_start_node(env, process$libraries)
    has_own <- length(own) > 0L
    if (has_own) own <- c(own, paste0("TMP=", folder), if (!is.na(old)) paste0("OLDTMP=", old))
    command <- c(command, own)
    how <- list(output = log, folder = folder, stdin = FALSE, slot = has_own)
  } else {
    env <- effective_env(NULL)
    how <- list(output = log, folder = NULL, stdin = TRUE, slot = FALSE, hold = can_watch(),
                input = if (can_watch()) watched_input(acceptor))
  }
  if (node$local && !is.null(acceptor)) {
    quick <- without_front_end(command, env, is_node = TRUE)
    command <- quick$argv
    env <- quick$env
  }
  env <- paste0(names(env), "=", env)
  if (is.null(acceptor)) return(.Call(ffi_psock_spawn, handle, command, env, how))
  .Call(ffi_acceptor_spawn, acceptor, handle, command, env, how)
}

# A shell there gets this on its standard input: for a node its secret comes next, and then the line
# "end".
watched_input <- function(acceptor) {
  paste0(c(watched_start(), if (is.null(acceptor)) "end"), "\n", collapse = "")
}

# ---- failure ----

log_lines <- function(log) if (file.exists(log)) readLines(log, warn = FALSE)

last_lines <- function(log) last_printed(log_lines(log))

last_printed <- function(lines) {
  lines <- utils::tail(lines, 5L)
  if (!length(lines)) return("")
  paste0("; it printed last:\n", paste0("  ", lines, collapse = "\n"))
}

# The error of a start: which nodes, why, and what they printed last. `n` nodes were wanted; those
# that were started have these ranks, handles and logs. `command`: as for show_processes(); `more`:
# further lines.
start_failure <- function(info, n, ranks, handles, logs, command, more = NULL, port = NULL) {
  infos <- lapply(handles, function(h) .Call(ffi_node_info, h))
  of_package <- package_failure(infos)
  if (!is.null(of_package)) return(of_package)
  failed <- vapply(infos, has_failed, NA)
  is_late <- !any(failed)
  if (is_late) failed <- vapply(infos, function(i) i$state == "starting", NA)
  what <- if (is_late) {
    sprintf("did not arrive within %g seconds (setup_timeout)", info$plan$process$setup_timeout)
  } else {
    "could not be started"
  }
  lines <- vapply(which(failed), function(k) {
    failed_node_text(ranks[[k]], info$hosts[[ranks[[k]]]], infos[[k]], logs[[k]])
  }, "")
  shown <- utils::head(lines, 5L)
  if (length(lines) > 5L) {
    others <- paste(ranks[failed][-(1:5)], collapse = ", ")
    shown <- c(shown, sprintf("and nodes %s", others))
  }
  head <- sprintf("%d of %d nodes %s; nothing was left running", sum(failed), n, what)
  further <- far_failures(info$plan$process, ranks[failed], infos[failed], logs[failed], command,
                          port)
  text <- paste(c(head, shown, more, further), collapse = "\n")
  error_of("start", text, nodes = ranks[failed], port = port)
}

# The text says of nodes on other hosts what was run, and what to try. It says so once for a host,
# and for three hosts at most.
far_failures <- function(process, ranks, infos, logs, command, port) {
  if (process$manual) return(NULL)
  nodes <- process$nodes[ranks]
  first <- !duplicated(vapply(nodes, function(node) node$host, ""))
  at <- which(first & !vapply(nodes, function(node) node$local, NA))
  lines <- lapply(utils::head(at, 3L), function(k) {
    node <- nodes[[k]]
    ports <- ports_of(node, port, "<port there>")
    run <- command_line(command_from_here(node, command(node, ranks[[k]], ports$there), ports))
    advice <- advice_for(node, infos[[k]], log_lines(logs[[k]]), port)
    c(sprintf("what was run for %s: %s", node$host, run), if (length(advice)) paste("try:", advice))
  })
  unlist(lines)
}

has_failed <- function(i) i$state == "dead" || !is.null(i$refusal)

failed_node_text <- function(rank, host, i, log) {
  pid <- if (is.na(i$pid)) "" else sprintf(" (pid %d)", i$pid)
  printed <- if (nzchar(log) && !is.na(log)) last_lines(log) else ""
  sprintf("node %d on %s%s: %s%s", rank, host, pid, failed_node_reason(i), printed)
}

failed_node_reason <- function(i) {
  if (!is.null(i$refusal)) return(i$refusal)
  if (i$state != "starting") return(how_ended(i$by_signal, i$code))
  if (is.na(i$pid)) "it has not connected" else "it has connected, but is not ready"
}

# Where a node has told that a package cannot be attached, see apply_join_settings().
package_failure <- function(infos) {
  pattern <- "^package:([^:]*):(.*)$"
  refusals <- unlist(lapply(infos, function(i) i$refusal))
  told <- grep("^package:", refusals, value = TRUE)
  if (!length(told)) return(NULL)
  parts <- regmatches(told[[1L]], regexec(pattern, told[[1L]]))[[1L]]
  error_of_package(parts[[2L]], parts[[3L]])
}

# ---- dry run ----

# `command(node, rank, port)` makes a node's command.
show_processes <- function(info, command) {
  process <- info$plan$process
  port <- if (identical(process$ports, 0L)) "<free>" else process$ports[[1L]]
  of_node <- function(rank) {
    node <- process$nodes[[rank]]
    ports <- ports_of(node, port, "<port there>")
    line <- command_from_here(node, command(node, rank, ports$there), ports)
    c(sprintf("node %d on %s:", rank, node$host), paste(" ", command_line(line)))
  }
  how <- if (process$manual) "by hand" else if (process$sequential) "one by one" else "all at once"
  address <- if (nzchar(process$listen)) process$listen else "all addresses"
  c(
    sprintf("%d nodes, started %s, strategy \"%s\"", length(process$nodes), how, info$strategy),
    sprintf("the session listens at %s, port %s", address, port),
    if (length(process$env)) paste("nodes with", variable_text(process$env)),
    unlist(lapply(seq_along(process$nodes), of_node)),
    if (any(vapply(process$nodes, function(node) node$tunnel, NA))) {
      "ssh carries the connections: it listens at <port there> on the loopback address there"
    },
    if (is_watched(process)) {
      "an R behind rshcmd first gets a line that its shell runs, and that ends it with the session"
    }
  )
}

is_watched <- function(process) {
  is_far <- !vapply(process$nodes, function(node) node$local, NA)
  any(is_far) && can_watch() && !process$manual
}
