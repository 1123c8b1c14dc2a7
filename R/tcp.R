# Clusters over TCP, seen from the session: what is started where, by which command, and what went wrong.
#
# A plan says all that a start, or the replacement of a node, depends on. Commands are made from it by
# functions that start nothing.

node_options <- c("host", "rscript", "rscript_args", "user", "rshcmd", "homogeneous", "master", "renice", "outfile")

# As `info` of the nodes.
tcp_plan <- function(hosts, strategy, opts, packages, outfile, env, whole_env, rscript_args, setup_timeout) {
  o <- opts$tcp
  info <- new.env(parent = emptyenv())
  info$strategy <- strategy
  info$outfile <- path.expand(outfile)
  info$started <- Sys.time()
  info$packages <- packages
  info$oom_kills <- oom_kills()
  for (v in thread_variables) if (is.na(whole_env[v])) whole_env[v] <- "1"
  nodes <- lapply(hosts, function(h) {
    node <- list(host = h$host, local = is_this_machine(h$host))
    pick <- function(name, default) if (!is.null(h[[name]])) h[[name]] else default
    same <- isTRUE(pick("homogeneous", o$homogeneous))
    node$same <- same || node$local
    node$rscript <- path.expand(pick("rscript", if (same || "rscript" %in% opts$given) opts$rscript else "Rscript"))
    node$rscript_args <- pick("rscript_args", rscript_args)
    node$user <- pick("user", o$user)
    node$rshcmd <- pick("rshcmd", o$rshcmd)
    node$master <- pick("master", o$master)
    if (is.null(node$master)) node$master <- if (node$local) "127.0.0.1" else Sys.info()[["nodename"]]
    node$outfile <- pick("outfile", outfile)
    node$nice <- as.integer(pick("renice", opts$renice))
    node
  })
  loopback <- function(a) a %in% c("localhost", "::1") || grepl("^127\\.", a)
  masters <- unique(vapply(nodes, function(node) node$master, ""))
  # one address where that is enough: nobody else can even connect
  listen <- if (length(masters) == 1L && loopback(masters)) masters else ""
  info$tcp <- list(nodes = nodes, listen = listen, ports = o$port, backlog = o$backlog, secret = o$secret, manual = o$manual, node = o$node,
                   sequential = strategy == "sequential", env = env, whole_env = whole_env, methods = opts$methods,
                   setup_timeout = setup_timeout, timeout = o$timeout)
  info
}

check_tcp_options <- function(o) {
  one <- function(name, default, ok, what) {
    if (is.null(x <- o[[name]])) return(default)
    if (!(length(x) == 1L && !is.na(x) && ok(x))) throw("argument", sprintf("`%s` has to be %s", name, what))
    x
  }
  port <- if (is.null(o$port)) 0 else o$port
  if (!is.numeric(port) || !length(port) || anyNA(port) || any(port < 0 | port > 65535 | port != floor(port)))
    throw("argument", "`port` has to be a number from 0 to 65535 (0: a free one), or a range of them")
  if (length(port) > 1L) port <- port[as.integer(order(.Call(ffi_random_seeds, length(port))))] # not all sessions the same first
  list(port = as.integer(port),
       timeout = one("timeout", 2592000, function(x) is.numeric(x) && x > 0, "a positive number of seconds"),
       master = one("master", NULL, is.character, "the name of this machine, as the nodes know it"),
       homogeneous = one("homogeneous", TRUE, is.logical, "TRUE or FALSE"),
       manual = one("manual", FALSE, is.logical, "TRUE or FALSE"),
       user = one("user", NULL, function(x) is.character(x) && grepl("^[A-Za-z0-9_][A-Za-z0-9_.@\\-]*$", x), "the name of a user"),
       rshcmd = one("rshcmd", "ssh", is.character, "one string"),
       backlog = one("backlog", NA_integer_, is.numeric, "a number"),
       secret = one("secret", NULL, function(x) is.character(x) && grepl("^[0-9a-f]{64}$", x), "64 hexadecimal digits"),
       node = match_arg(if (is.null(o$node)) c("clutch", "psock") else o$node, c("clutch", "psock"), "node"))
}

# ---- commands ----

# The R of a node and its arguments, as a character vector.
node_command <- function(node, port, rank, tcp, lib = dirname(getNamespaceInfo("clutch", "path"))) {
  packages <- c("datasets", "utils", "grDevices", "graphics", "stats", if (tcp$methods) "methods")
  code <- if (node$same) file.path(lib, "clutch", "node", "join.R")
    else c("-e", "loadNamespace(\"clutch\")$.__join__(commandArgs(TRUE))")
  c(node$rscript, paste0("--default-packages=", paste(packages, collapse = ",")), node$rscript_args, code,
    if (node$same) paste0("LIB=", lib), paste0("MASTER=", node$master), paste0("PORT=", port), paste0("RANK=", rank),
    paste0("SETUPTIMEOUT=", format(tcp$setup_timeout, scientific = FALSE)))
}

# What a shell is given.
command_line <- function(command) paste(shQuote(command), collapse = " ")

remote_command <- function(node, command) {
  c(strsplit(node$rshcmd, " +")[[1L]], if (!is.null(node$user)) c("-l", node$user), node$host, command_line(command))
}

program <- function(name) {
  path <- if (grepl("/", name, fixed = TRUE)) name else Sys.which(name)[[1L]]
  if (!nzchar(path) || !file.exists(path)) throw("start", sprintf("the program '%s' is not found", name))
  path
}

# ---- start ----

# Handles of nodes with these ranks that are ready, or an error and none.
start_tcp_nodes <- function(info, ranks, left) {
  tcp <- info$tcp
  logs <- character()
  handles <- list()
  ok <- FALSE
  m <- .Call(ffi_acceptor_open, tcp$listen, tcp$ports, as.integer(tcp$backlog), tcp$secret)
  if (is.character(m)) throw("start", paste("there is no port at which the nodes could connect:", m))
  on.exit({
    .Call(ffi_acceptor_close, m$handle)
    if (!ok) .Call(ffi_nodes_stop, handles, 0, 5)
    unlink(logs)
  })
  wait_for <- function(n) {
    if (.Call(ffi_acceptor_wait, m$handle, n, left())) return()
    e <- start_failure(info, ranks, length(logs), handles, logs, m)
    .Call(ffi_nodes_stop, handles, 0, 5)
    stop(e)
  }
  # all are expected from now on: some may be running already
  for (i in seq_along(ranks))
    handles[[i]] <- .Call(ffi_acceptor_node, m$handle, ranks[[i]], join_settings(info, tcp$nodes[[ranks[[i]]]]))
  for (i in seq_along(ranks)) {
    logs[[i]] <- log_of(tcp, tcp$nodes[[ranks[[i]]]])
    start_tcp_node(tcp, tcp$nodes[[ranks[[i]]]], ranks[[i]], handles[[i]], m, logs[[i]])
    if (tcp$sequential) wait_for(i)
  }
  wait_for(length(ranks))
  info$port <- m$port
  ok <- TRUE
  handles
}

join_settings <- function(info, node) {
  list(env = if (!node$local || info$tcp$manual) info$tcp$env, packages = info$packages, nice = node$nice,
       outfile = node$outfile, announce = node$outfile != "/dev/null", timeout = info$tcp$timeout)
}

# The file that is to have what a node prints until it is ready; "": there is none.
log_of <- function(tcp, node) if (nzchar(node$outfile) && !tcp$manual) tempfile("clutch-node-", fileext = ".log") else ""

# Starts a node, or says how to.
start_tcp_node <- function(tcp, node, rank, handle, m, log) {
  command <- node_command(node, m$port, rank, tcp)
  if (tcp$manual) {
    cat("Manually start worker on", node$host, "with\n    ",
        paste0("CLUTCH_SECRET=", .Call(ffi_acceptor_secret, m$handle), " ", command_line(command)), "\n")
    utils::flush.console()
    return(invisible())
  }
  launch_node(tcp, node, handle, m$handle, command, paste0("PARENT=", Sys.getpid()), log)
}

# Its process, here or by way of rshcmd. `own`: arguments for one that is this session's child.
launch_node <- function(tcp, node, handle, acceptor, command, own, log) {
  if (!node$local) command <- remote_command(node, command)
  command[[1L]] <- program(command[[1L]])
  if (node$local) {
    folder <- tempfile("clutch-node-")
    dir.create(folder, mode = "0700")
    env <- tcp$whole_env
    old <- env["TMPDIR"]
    env[["TMPDIR"]] <- folder
    env[["CLUTCH_STARTING"]] <- "1"
    if (length(own)) own <- c(own, paste0("TMP=", folder), if (!is.na(old)) paste0("OLDTMP=", old))
    command <- c(command, own)
    how <- list(output = log, folder = folder, stdin = FALSE, slot = length(own) > 0L)
  } else {
    env <- effective_env(NULL)
    how <- list(output = log, folder = NULL, stdin = TRUE, slot = FALSE)
  }
  .Call(ffi_acceptor_spawn, acceptor, handle, command, paste0(names(env), "=", env), how)
}

# ---- failure ----

# The error of a start: which nodes, why, and what they printed last.
start_failure <- function(info, ranks, begun, handles, logs, m) {
  n <- length(ranks)
  ranks <- ranks[seq_len(begun)] # with "sequential" the others were not started
  handles <- handles[seq_len(begun)]
  infos <- lapply(handles, function(h) .Call(ffi_node_info, h))
  failed <- vapply(infos, function(i) i$state == "dead" || !is.null(i$refusal), NA)
  late <- !any(failed) # the time is up
  if (late) failed <- vapply(infos, function(i) i$state == "starting", NA)
  package <- Find(function(i) !is.null(i$refusal) && startsWith(i$refusal, "package:"), infos)
  if (!is.null(package)) {
    parts <- regmatches(package$refusal, regexec("^package:([^:]*):(.*)$", package$refusal))[[1L]]
    return(error_of("package", sprintf("package '%s' cannot be attached on the nodes: %s", parts[[2L]], parts[[3L]]),
                    package = parts[[2L]]))
  }
  lines <- vapply(which(failed), function(k) {
    i <- infos[[k]]
    why <- if (!is.null(i$refusal)) i$refusal
      else if (i$state != "starting") how_ended(i$by_signal, i$code)
      else if (is.na(i$pid)) "it has not connected"
      else "it has connected, but is not ready"
    node <- info$tcp$nodes[[ranks[[k]]]]
    sprintf("node %d on %s%s: %s%s", ranks[[k]], node$host, if (is.na(i$pid)) "" else sprintf(" (pid %d)", i$pid), why,
            if (nzchar(logs[k]) && !is.na(logs[k])) last_lines(logs[[k]]) else "")
  }, "")
  text <- sprintf("%d of %d nodes %s; nothing was left running\n", sum(failed), n,
                  if (late) sprintf("did not arrive within %g seconds (setup_timeout)", info$tcp$setup_timeout)
                  else "could not be started")
  shown <- utils::head(lines, 5L)
  if (length(lines) > 5L) shown <- c(shown, sprintf("and nodes %s", paste(ranks[failed][-(1:5)], collapse = ", ")))
  error_of("start", paste0(text, paste(c(shown, pending_peers_text(m)), collapse = "\n")), nodes = ranks[failed],
           port = m$port)
}

# Who else came to the port, if anybody.
pending_peers_text <- function(m) {
  if (is.null(m)) return(NULL)
  r <- .Call(ffi_acceptor_report, m$handle)
  what <- c(silent = "did not say in time what a node has to say", closed = "closed or reset the connection before the end of the handshake",
            garbage = "sent what is no message of a handshake", version = "spoke another version of the protocol",
            no_proof = "did not know the cluster's secret", crowded = "had to make room for others",
            strangers = "had not come to the end of the handshake")
  r <- r[names(what)]
  if (sum(r) == 0L) return(NULL)
  sprintf("at port %d: %s", m$port, paste(sprintf("%d that %s", r[r > 0L], what[r > 0L]), collapse = ", "))
}
