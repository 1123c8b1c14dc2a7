# Programs: R code that nodes run in place of serving. Such a node answers no request and has no
# task; it is started by a fork server, ends with it, and is known by a handle as others are.
#
# A program that is kept is started again by the fork server when its process has died, whether or
# not the session looks. Its handle stays. It ends by itself when its function returns or fails.
#
# `output`: a file, or one for output and one for errors; "": those of the session.
# `run(code, again)` is called in the node with its element of `code`, one for each node, and how
# often that was started before. It is a function of this package. `load`: packages whose
# namespaces are loaded before the fork, where that starts no thread.
#
# Where R has threads, each process is an R of its own start: strategy "spawn", which a caller may
# ask for who knows that.
#
# An environment as that of a cluster, with `handles`.
#
# SPAWN of such a node has CLU_START_PROGRAM, and the program is part of SETTINGS. After its HELLO
# such a node reads nothing more. CLU_START_KEPT has it kept (src/core/supervisor/kept.c). Where
# each process is an R of its own start (CLU_START_EXEC_PROGRAM, CLU_START_EXEC_KEPT), it reads
# its program from a file of the fork server's. If it is kept, it has a fork server of its own: a
# new R inherits the environment that the fork server has at that time.
start_programs <- function(code, run, keep, load = character(), output = "",
                           strategy = "fork_server", setup_timeout = 120) {
  end <- clock() + setup_timeout
  left <- function() max(end - clock(), 0.01)
  tempdir(TRUE)
  request <- check_request(length(code), strategy, NULL, "", NULL, list(), character(),
                           setup_timeout, character())
  request$outfile <- output
  request$keep <- keep
  request$announce <- FALSE
  info <- new_record(plan_forked(request))
  spec <- info$spec
  spec$load <- load
  spec$libraries <- info$plan$libraries # where these are
  settings <- info$settings
  settings$program <- list(code = code, run = run)
  set_cluster(info, spec = spec, settings = settings)
  if (strategy == "spawn") spec_of_programs(info)
  connect_server(info, length(code), left)
  set_cluster(info, handles = fork_nodes(info, seq_along(code), left))
}

# ---- one after the other, from one fork server ----

# The value is the record of a fork server of its own, ready, that has evaluated `preload`, a
# request as of preload_request(). It serves until end_program_server(), or until nothing refers to
# the record. `n`: so many programs may run at a time. `meanwhile`: see connect_server().
start_program_server <- function(preload, n, env, strategy, setup_timeout, meanwhile = NULL) {
  end <- clock() + setup_timeout
  tempdir(TRUE)
  request <- check_request(n, strategy, NULL, "/dev/null", env, list(), character(), setup_timeout,
                           character())
  request$keep <- FALSE
  request$announce <- FALSE
  request$preload <- preload
  info <- new_record(plan_forked(request))
  if (strategy == "spawn") spec_of_programs(info)
  connect_server(info, n, function() max(end - clock(), 0.01), meanwhile)
  info
}

# Starts one node of such a server, which calls run(code, again), as start_programs() has it. The
# value is its handle.
start_next_program <- function(info, code, run, output, setup_timeout = 120) {
  end <- clock() + setup_timeout
  settings <- c(info$settings, list(nodes = 1, program = list(code = code, run = run)))
  server <- info$server$handle
  answer <- .Call(ffi_server_settings, server, settings, output)
  if (!is.character(answer))
    answer <- .Call(ffi_server_applied, server, answer, max(end - clock(), 0.01))
  if (is.character(answer)) throw("start", paste("the nodes cannot be set up:", answer))
  set_cluster(info, number = NULL)
  node <- .Call(ffi_nodes_spawn, server, 1L, start_kind_of(info$strategy, "program"))
  # one that has ended already is none that cannot be started
  .Call(ffi_nodes_wait, node, max(end - clock(), 0.01))
  i <- .Call(ffi_node_info, node[[1L]])
  if (!is.null(i$refusal) || i$state == "starting") throw_fork_failed(info, node[[1L]], 1L, 1L)
  node[[1L]]
}

is_program_server_alive <- function(info) {
  .Call(ffi_server_info, info$server$handle)$state == "ready"
}

end_program_server <- function(info) {
  if (is.null(info$server$own)) server_drop(info$server$key) else server_end(info$server)
}

stop_programs <- function(info) {
  .Call(ffi_nodes_stop, info$handles, 0, 5)
  if (!is.null(info$spec$own)) server_drop(info$server$key)
}

is_program_alive <- function(handle) {
  .Call(ffi_node_info, handle)$state %in% c("starting", "idle", "busy")
}

# How many have not ended.
live_programs <- function(info) sum(vapply(info$handles, is_program_alive, NA))

# ---- in the fork server, and in the node ----
