# Checks of what make_cluster() is given, and of what the system allows. What would fail half-way
# fails here.

# Options of parallel::makeCluster() that mean nothing here; accepted, so that programs written for
# it run.
ignored_options <- c("type", "setup_strategy", "useXDR", "rhome", "rlibs", "scriptdir", "rprog",
                     "snowlib", "useRscript")
# These options are for nodes that connect to the session; the others do not listen to them.
process_options <- c("port", "timeout", "master", "homogeneous", "user", "rshcmd", "manual",
                     "backlog", "secret", "node", "tls")
known_options <- c("methods", "renice", "rscript", process_options, ignored_options)
# These options are for one node.
node_options <- c("host", "rscript", "rscript_args", "user", "rshcmd", "homogeneous", "master",
                  "renice", "outfile")
# `spec` has these names elsewhere.
names_of_spec <- c("workers", "nodes", "nnodes", "n", "cores", "ncores", "names", "hosts")
strategies <- c("fork_server", "spawn", "parallel", "sequential")

# The arguments of make_cluster() in the form that launchers take: a list. `options` is what was in
# the dots, `arguments` the names of the others.
check_request <- function(spec, strategy, packages, outfile, env, options, rscript_args,
                          setup_timeout, arguments, idle = NULL) {
  request <- check_options(options, arguments)
  by_default <- identical(strategy, strategies)
  strategy <- check_choice(strategy, "`strategy`", strategies)
  if (identical(options$type, "FORK")) {
    say(paste("type = \"FORK\": the nodes are not forks of this session and see nothing of its",
              "objects; see cluster_export()."))
  }
  if (inherits(spec, "clutch_hosts")) {
    need_fork(sprintf("%s()", spec$call))
    check_options_of_hosts(spec, names(options))
    request$launch <- spec
  }
  bounds <- check_bounds(spec, idle)
  request$first <- bounds$least
  request$idle <- bounds$idle
  request$hosts <- check_hosts(if (is.null(bounds)) spec else bounds$most)
  request$by_default <- by_default
  request$strategy <- if (by_default) default_strategy(request) else strategy
  request$packages <- check_strings(packages, "`packages`")
  request$rscript_args <- check_strings(rscript_args, "`rscript_args`")
  if (!is.null(bounds)) check_strategy_of_bounds(request)
  request$env <- check_env(env)
  request$outfile <- check_outfile(outfile)
  request$setup_timeout <- check_positive_time(setup_timeout, "`setup_timeout`")
  request
}

# The value is the size of a cluster that grows: list(least, most, idle). NULL: it keeps its size.
check_bounds <- function(spec, idle) {
  bounds <- if (is.numeric(spec) && length(spec) > 1L) bounds_of(spec)
  if (is.null(bounds)) {
    if (is.null(idle)) return(NULL)
    throw("argument", "`idle` is for a cluster that grows and shrinks: make_cluster(c(2, 16))")
  }
  most <- if (is.finite(bounds[[2L]])) bounds[[2L]] else max(bounds[[1L]], available_cores())
  idle <- if (is.null(idle)) 60 else check_seconds(idle, "`idle`")
  list(least = as.integer(bounds[[1L]]), most = most, idle = idle)
}

check_strategy_of_bounds <- function(request) {
  need_fork("a cluster that grows", "give one number of nodes")
  if (request$strategy %in% c("fork_server", "spawn")) return(invisible())
  text <- "a cluster that grows is of strategy \"fork_server\" or \"spawn\", and not \"%s\""
  throw("argument", sprintf(text, request$strategy))
}

# The kinds of units that a host has, by name: names of units; and `cores`, a number. NULL: nothing
# is said.
check_resources <- function(x) {
  if (is.null(x)) return(NULL)
  form <- "a named list such as list(gpu = 0:3, licence = 2)"
  if (is.atomic(x) && !is.null(names(x))) x <- as.list(x)
  is_named <- is.list(x) && !is.object(x) && (!length(x) || !is.null(names(x)))
  if (!is_named || anyDuplicated(names(x))) has_to_be("`resources`", form)
  bad <- names(x)[!grepl("^[A-Za-z][A-Za-z0-9_.]*$", names(x))]
  if (length(bad)) has_to_be("`resources`", paste0(form, ", and '", bad[[1L]], "' is no name"))
  if ("memory" %in% names(x)) {
    throw("argument", "`resources` has no memory: see option clutch.memory in ?clutch_options")
  }
  if (sum(names(x) != "cores") > 8L) throw("argument", "`resources` has more than 8 kinds of units")
  Map(check_units, x, names(x))
}

check_units <- function(x, kind) {
  what <- sprintf("`resources$%s`", kind)
  is_count <- is.numeric(x) && length(x) == 1L
  if (kind == "cores" || is_count) {
    least <- if (kind == "cores") 1 else 0
    ok <- is_count && is.finite(x) && x >= least && x == floor(x)
    if (!ok) has_to_be(what, sprintf("a whole number, %g or more", least))
    if (kind == "cores") return(as.integer(min(x, 1e6)))
    x <- seq_len(min(x, 1000)) - 1L
  }
  ok <- (is.numeric(x) || is.character(x)) && !anyNA(x) && !anyDuplicated(x)
  units <- if (ok) trimws(format(x, scientific = FALSE, trim = TRUE))
  if (!ok || !all(grepl("^[^,=[:space:]]+$", units))) {
    has_to_be(what, "how many there are, or names, each once, without commas and spaces")
  }
  if (length(units) <= 256L) return(units)
  throw("argument", sprintf("%s has more than 256 units", what))
}

check_env <- function(env) {
  if (is.null(env)) return(character())
  out <- structure(as.character(env), names = names(env))
  has_names <- !is.null(names(env)) && all(nzchar(names(env)))
  if (has_names && !anyNA(out) && !any(grepl("=", names(env), fixed = TRUE))) return(out)
  has_to_be("`env`", "a named character vector: c(NAME = \"value\")")
}

check_outfile <- function(outfile) {
  if (is.null(outfile)) return("/dev/null")
  check_needed(outfile, "`outfile`", is.character, "one string")
}

default_strategy <- function(request) {
  if (!is.null(request$launch)) return("fork_server")
  if (isTRUE(request$process$manual)) return("sequential")
  if (identical(request$process$node, "psock")) return("parallel")
  are_here <- all(vapply(unique(host_names(request$hosts)), is_this_machine, NA))
  if (are_here && can_fork()) "fork_server" else "parallel"
}

# ---- options ----

check_options <- function(options, arguments) {
  given <- names(options)
  if (length(options) && (is.null(given) || !all(nzchar(given)))) {
    throw("argument", "the options of make_cluster() have to be named")
  }
  check_option_names(given, arguments)
  rscript <- rscript_of_session()
  list(
    methods = !identical(options$methods, FALSE),
    renice = check_renice(options$renice),
    rscript = path.expand(check_one(options$rscript, "`rscript`", is_filled, "a program", rscript)),
    rscript_given = "rscript" %in% given,
    given = given,
    process = check_process_options(options[intersect(given, process_options)])
  )
}

check_option_names <- function(given, arguments) {
  bad <- setdiff(given, known_options)
  if (!length(bad)) return()
  hint <- if (bad[[1L]] %in% names_of_spec) {
    ": the number of nodes, or their hosts, is `spec`"
  } else {
    did_you_mean(bad[[1L]], c(known_options, arguments), quote = "'")
  }
  throw("argument", sprintf("make_cluster() has no option '%s'%s", bad[[1L]], hint))
}

# The value has the options of nodes that connect to the session, with their defaults.
check_process_options <- function(o) {
  one <- function(name, default, ok, text) {
    check_one(o[[name]], sprintf("`%s`", name), ok, text, default)
  }
  flag <- function(name, default) {
    if (is.null(o[[name]])) return(default)
    check_flag(o[[name]], sprintf("`%s`", name))
  }
  is_secret <- function(x) is.character(x) && grepl("^[0-9a-f]{64}$", x)
  timeout <- if (is.null(o$timeout)) 2592000 else o$timeout
  kinds <- c("clutch", "psock")
  list(
    port = check_ports(o$port),
    timeout = check_positive_time(timeout, "`timeout`"),
    master = one("master", NULL, is.character, "the name of this machine, as the nodes know it"),
    homogeneous = flag("homogeneous", TRUE),
    manual = flag("manual", FALSE),
    user = one("user", NULL, is_user_name, "the name of a user"),
    rshcmd = one("rshcmd", "ssh", has_words, "a command"),
    backlog = one("backlog", NA_integer_, is.numeric, "a number"),
    secret = one("secret", NULL, is_secret, "64 hexadecimal digits"),
    tls = flag("tls", TRUE),
    node = check_choice(if (is.null(o$node)) kinds else o$node, "`node`", kinds)
  )
}

# A number as base R takes it; NA: as the session's.
check_renice <- function(x, what = "`renice`") {
  if (is.null(x) || (is.atomic(x) && length(x) == 1L && is.na(x))) return(NA_integer_)
  ok <- function(x) is.numeric(x) && abs(x) <= 1000 && x == trunc(x)
  as.integer(check_needed(x, what, ok, "a whole number"))
}

has_words <- function(x) is.character(x) && grepl("[^ ]", x)

is_user_name <- function(x) is.character(x) && grepl("^[A-Za-z0-9_][A-Za-z0-9_.@\\-]*$", x)

# hosts() and its like say these options themselves, for all hosts.
check_options_of_hosts <- function(launch, given) {
  bad <- intersect(given, c(process_options, "rscript"))
  if (!length(bad)) return(invisible())
  text <- "'%s' is no option of make_cluster(%s()): see the arguments of %s()"
  throw("argument", sprintf(text, bad[[1L]], launch$call, launch$call))
}

# The ports to be tried, in an order that not all sessions have in common.
check_ports <- function(port, name = "port") {
  if (is.null(port)) return(0L)
  is_port <- is.numeric(port) && length(port) && !anyNA(port) && all(port == floor(port)) &&
    all(port >= 0 & port <= 65535)
  if (!is_port) {
    text <- "a number from 0 to 65535 (0: a free one), or a range of them"
    has_to_be(sprintf("`%s`", name), text)
  }
  if (length(port) == 1L) return(as.integer(port))
  as.integer(port[order(.Call(ffi_random_seeds, length(port)))])
}

# ---- hosts ----

# One list for each node: host, and options that are for this node only.
check_hosts <- function(spec) {
  if (inherits(spec, "clutch_hosts")) {
    names <- rep(spec$hosts, spec$each)
    return(lapply(names, function(name) list(host = name)))
  }
  if (is.character(spec) || is.list(spec)) {
    if (length(spec) == 0L) throw("argument", "a cluster has at least one node")
    return(lapply(spec, check_host))
  }
  if (!is_number(spec, 1) || is.infinite(spec) || spec != floor(spec)) {
    has_to_be("`spec`", paste("a number of nodes, 1 or more, the least and the most, as c(2, 16),",
                              "or a name of a host for each node"))
  }
  if (spec > 65536) {
    throw("limit", sprintf("%.0f nodes are more than a cluster can have (65536)", spec))
  }
  rep(list(list(host = "localhost")), spec)
}

check_host <- function(s) {
  if (!is.list(s)) s <- list(host = s)
  bad <- setdiff(names(s), node_options)
  if (length(bad)) throw("argument", sprintf("a node has no option '%s'", bad[[1L]]))
  check_host_name(s$host)
  one <- function(name, ok, text) check_one(s[[name]], sprintf("`%s` of a node", name), ok, text)
  one("rscript", is_filled, "a program")
  one("user", is_user_name, "the name of a user")
  one("rshcmd", has_words, "a command")
  one("master", is.character, "the name of this machine, as the nodes know it")
  one("outfile", is.character, "one string")
  check_strings(s$rscript_args, "`rscript_args` of a node")
  check_renice(s$renice, "`renice` of a node")
  s
}

check_host_name <- function(host) {
  is_name <- is_string(host)
  if (is_name && grepl("^[0-9]+$", host)) {
    text <- paste("\"%s\" is no name of a host: a number of nodes is given as a number,",
                  "make_cluster(%s)")
    throw("argument", sprintf(text, host, host))
  }
  # what begins with "-" would be an option of ssh
  if (!is_name || !grepl("^[A-Za-z0-9_:][A-Za-z0-9_.:%@-]*$", host)) {
    throw("argument", sprintf("'%s' is no name of a host", format(host)[1L]))
  }
}

host_names <- function(hosts) vapply(hosts, function(h) h$host, "")

# ---- limits ----

# `hosts`: names, one for each node. A node of another host is one descriptor here and no process.
check_limits <- function(hosts) {
  names <- unique(hosts)
  n <- sum(hosts %in% names[vapply(names, is_this_machine, NA)])
  check_limit_of_checks(n)
  check_descriptors(length(hosts))
  room <- process_room()
  if (n <= room$n) return()
  text <- "%d nodes are more than the processes that can be started: about %.0f (%s)"
  throw("limit", sprintf(text, n, room$n, room$what))
}

# R CMD check allows two processes, where it is told to look at that.
check_limit_of_checks <- function(n) {
  check <- tolower(Sys.getenv("_R_CHECK_LIMIT_CORES_"))
  if (!nzchar(check) || check == "false" || n <= 2L) return()
  text <- sprintf("%d simultaneous processes spawned", n)
  if (check == "warn") warning(text, call. = FALSE) else throw("limit", text)
}

check_descriptors <- function(n) {
  limits <- .Call(ffi_limits)
  open <- if (is.na(limits[[3L]])) 64 else limits[[3L]]
  # above the first 1024, which are left to code that uses select(); fewer if need be
  if (.Call(ffi_raise_fds, 1024 + n + open + 64) || .Call(ffi_raise_fds, n + open + 16)) return()
  text <- paste("%d nodes need as many descriptors, and this process may have %.0f (ulimit -Hn),",
                "%.0f of which are open")
  throw("limit", sprintf(text, n, limits[[2L]], open))
}

# How many processes can be started, and what decides that.
process_room <- function() {
  number <- function(name) {
    x <- suppressWarnings(as.numeric(read_lines(proc_file("sys/kernel", name))))
    if (length(x)) x[[1L]] else NA_real_
  }
  running <- length(list.files(proc_file(), "^[0-9]+$"))
  mem <- grep("^MemAvailable", read_lines(proc_file("meminfo")), value = TRUE)
  free <- as.numeric(gsub("[^0-9]", "", mem))
  rooms <- c(
    "kernel.pid_max" = number("pid_max") - running,
    "kernel.threads-max" = number("threads-max") - running,
    "a node takes about 1 MB of free memory" = if (length(free)) free[[1L]] / 1024 else NA
  )
  if (all(is.na(rooms))) return(list(n = Inf, what = ""))
  list(n = max(min(rooms, na.rm = TRUE), 0), what = names(rooms)[which.min(rooms)])
}
