# Other hosts, seen from the session: the link process, which holds one connection to each, and the
# fork servers there. How a host is reached, that is which command runs host_main() there, is for
# others to say (hosts-launch.R).
#
# A host is list(number, handle, report, came): number in the link process, never given twice;
# handle of its fork server, as of one on this machine; what that has reported when it was ready,
# and when that was.
#
# The link process is forked from a fork server of this session (CLU_START_LINK). Where there is
# none, one without default packages is started for it. The session makes the listener, the secret
# and the keys of TLS, and hands them over. It runs the commands that start hosts before it waits
# for this process (link_ready()).
#
# link_host() makes a socket pair. One end is the control channel of a fork server object
# (clu_server_connect()), the other goes to the link process. SETUP waits in it until the host is
# there. Nodes are asked for by SPAWN, as of a local fork server. Their transport is
# src/core/node/transport-host.c: the messages of forked nodes, without shared memory. What a node
# had begun is told when it has ended. The fork server there takes tasks back when it is asked
# (TAKE_BACK).
#
# A cut is told to the session (HOST_STATE). The nodes there are then clu_node_is_cut(), and the
# scheduler gives them nothing. What they have waits for them: nobody here knows what of it has
# begun.

# The link process of this session, an environment with handle, server (which forks it), times
# (heartbeat and reconnect), number (how many hosts there were), over (numbers of those that the
# session has ended) and tunnels (as below). It is started if there is none, and may not be there
# yet: see link_ready(). `how`: list(listen, ports, heartbeat, reconnect, tls, tunnels), where
# listen is the address at which this session is reached; tunnels are hosts to which ssh may carry
# connections.
link_process <- function(how) {
  forget_parents()
  key <- paste(how$listen, paste(how$ports, collapse = " "), how$tls, how$heartbeat, how$reconnect)
  while (has_tunnel(the$links[[key]], how)) key <- paste0(key, "+")
  link <- the$links[[key]]
  if (!is.null(link)) link$tunnels <- union(link$tunnels, how$tunnels)
  if (!is.null(link) && .Call(ffi_link_info, link$handle)$is_up) return(link)
  link <- new.env(parent = emptyenv())
  link$server <- link_server()
  link$handle <- .Call(ffi_link_start, link$server$handle, how$listen, as.integer(how$ports),
                       as_times(how$heartbeat, how$reconnect), how$tls)
  link$times <- as_times(how$heartbeat, how$reconnect)
  link$number <- 0L
  link$tunnels <- how$tunnels
  the$links[[key]] <- link
  link
}

# The fork server that there is, or else one that has a quarter of the start: a link process runs
# nothing of R's packages.
link_server <- function() {
  sweep_servers()
  spec <- default_server_spec()
  env <- effective_env(NULL)
  there <- the$servers[[server_key(spec, env)]]
  if (!is.null(there)) return(there)
  spec$strategy <- "spawn"
  server_for(spec, env)
}

# Waits until it is there. It takes as long as an R needs to start, and commands that start hosts
# take longer: they are run before. What connects meanwhile waits in the queue of the listener.
link_ready <- function(link, seconds) {
  if (.Call(ffi_link_info, link$handle)$is_up) return(invisible())
  link$server <- server_ready(link$server, seconds)
  .Call(ffi_link_await, link$handle)
  invisible()
}

# A port of a host has one tunnel, which ends with the first cluster there: a second one needs a
# port of its own, and so a link process.
has_tunnel <- function(link, how) {
  any(how$tunnels %in% link$tunnels) && all(how$ports == 0L) &&
    .Call(ffi_link_info, link$handle)$is_up
}

# A new host behind it. Its fork server is told what to attach as soon as it is there. `setup`: as
# prepare() takes it.
link_host <- function(link, setup) {
  link$number <- link$number + 1L
  ok <- FALSE
  on.exit(if (!ok) link$over <- c(link$over, link$number))
  handle <- tryCatch(.Call(ffi_link_host, link$handle, link$number), clutch_start = function(e) {
    server_ready(link$server, 0.01) # why that has ended which was to fork it
    stop(e)
  })
  .Call(ffi_server_send, handle, "setup", setup)
  ok <- TRUE
  list(number = link$number, handle = handle, report = NULL)
}

# Tells the link process what has started the host, a command of this session: its end may tell that
# nothing is left there. `carries`: it carries the connection, too.
host_started_by <- function(link, host, command, carries) {
  invisible(.Call(ffi_link_command, link$handle, host$number, command, carries))
}

# The value is what the new R on that host has to know: for host_settings_text(). `addresses`: of
# this session, in the order in which they are tried; `seconds`: for how long.
host_settings <- function(link, host, addresses, seconds, methods = TRUE, attach = character()) {
  list(protocol = .Call(ffi_host_protocol), version = own_version(), hosts = addresses,
       port = .Call(ffi_link_info, link$handle)$port, rank = host$number,
       times = as_times(seconds, link$times), methods = methods, attach = attach,
       private = .Call(ffi_link_secrets, link$handle))
}

# Seconds, as C counts them in ns; Inf is allowed.
as_times <- function(...) pmin(as.numeric(c(...)), 1e9)

# The host with its report, or NULL: it has ended, or is not there after `seconds`.
host_ready <- function(host, seconds) {
  host$report <- .Call(ffi_server_wait, host$handle, seconds)
  if (is.null(host$report)) return(NULL)
  host$came <- clock()
  host
}

# That host ends, with all its nodes.
host_end <- function(host) invisible(.Call(ffi_server_close, host$handle, 0))

# Ends hosts of a cluster, and the process when no other cluster has any. It may not have noticed
# the end of one that never came, as where it had no memory for it.
link_let_go <- function(link, hosts) {
  for (host in hosts) host_end(host)
  link$over <- c(link$over, unlist(lapply(hosts, function(host) host$number)))
  s <- link_status(link)
  has_ended <- s$state == "ended" | (s$state == "waiting" & s$rank %in% link$over)
  if (all(has_ended)) link_end(link)
}

link_end <- function(link, seconds = 3) invisible(.Call(ffi_link_close, link$handle, seconds))
