# One fork server on each of several hosts. See hosts-describe.R for their descriptions,
# hosts-kinds.R for by what they are started, node-host.R for what runs there.
#
# hosts-commands.R makes commands of descriptions. hosts-run.R runs and ends them,
# hosts-await.R waits for the hosts. hosts-start.R is the whole start and has nodes
# forked there. hosts-tree.R has 50 hosts and more start each other. hosts-missing.R is
# about hosts that may be missing.

hosts_launcher <- function() {
  new_launcher(plan = plan_hosts, start = start_on_hosts, replace = replace_on_host,
               show = show_hosts, end = end_on_hosts, attend = attend_hosts)
}
add_kind("launcher", "hosts", hosts_launcher)

plan_hosts <- function(request) {
  if (!request$strategy %in% c("fork_server", "spawn")) {
    text <- "strategy \"%s\" is not for nodes of %s(): it is \"fork_server\", or \"spawn\""
    throw("argument", sprintf(text, request$strategy, request$launch$call))
  }
  x <- request$launch
  first <- first_hosts(x)
  new_plan(
    request, launcher = "hosts",
    libraries = NULL, # those of this machine
    launch = x,
    kind = host_kind_of(x),
    end_of_server = host_end_text,
    counts_oom = TRUE,
    min_hosts = if (is.null(request$min_hosts)) length(first) else request$min_hosts,
    first = if (!is.null(x$least)) sum(x$each[first]),
    host_of = if (is.null(x$by_name)) rep(seq_along(x$each), x$each) else x$by_name,
    methods = request$methods,
    node_env = request$env,
    nice = request$renice,
    launches = launches_of(x, request$methods, of = first)
  )
}

attend_hosts <- function(t) t$info$plan$kind$attend(t)

# ---- dry run ----

show_hosts <- function(info) {
  x <- info$plan$launch
  listen <- if (identical(x$listen, 0L)) "a free one" else x$listen[[1L]]
  shown <- if (is.null(x$least)) info$plan$launches else info$plan$launches[1L]
  c(
    hosts_text(x, info$plan$kind),
    tree_text(info$plan$kind$parents(x)),
    sprintf("the session listens at port <port>, %s", listen),
    if (wants_folder(info)) paste("<folder> is a new one in", x$folder),
    if (length(info$node_env)) paste("nodes with", variable_text(info$node_env)),
    if (length(info$plan$packages)) paste("attaches", paste(info$plan$packages, collapse = ", ")),
    if (!is.null(x$least)) {
      if (length(shown[[1L]]$hosts) == 1L) "each of them as this one:" else "several as these:"
    },
    unlist(lapply(shown, show_launch, info))
  )
}

show_launch <- function(launch, info) {
  hosts <- paste(utils::head(info$plan$launch$hosts[launch$hosts], 3L), collapse = ", ")
  more <- length(launch$hosts) - 3L
  c(
    sprintf("for %s%s:", hosts, if (more > 0L) sprintf(" and %d more", more) else ""),
    paste(" ", info$plan$kind$shown(launch)),
    if (!is.null(launch$script)) {
      c(sprintf("  with <folder>/%s:", launch$job), paste("   ", launch$script))
    },
    paste(" ", launch$delivery$show(launch, info$plan$kind$watch_text(launch)))
  )
}
