# A cluster whose nodes are "on another host", which is this machine: reached by a new R that
# connects to a link process, without ssh. So all that travels between hosts does.

# `n` nodes. What there is besides, for host_is_gone() and tests: attributes `link`, `host`.
host_cluster <- function(n, tls = FALSE, heartbeat = 10, reconnect = 300, outfile = "/dev/null",
                         seconds = 60) {
  outside_checks_only()
  ns <- asNamespace("clutch")
  how <- list(listen = "127.0.0.1", ports = 0L, heartbeat = heartbeat, reconnect = reconnect,
              tls = tls)
  link <- ns$link_process(how)
  host <- ns$link_host(link, list(packages = character(), by_exec = FALSE))
  file <- tempfile("settings")
  settings <- ns$host_settings(link, host, "127.0.0.1", seconds)
  ns$write_private(ns$host_settings_text(settings), file)
  on.exit(unlink(file))
  log <- tempfile("host")
  system2(file.path(R.home("bin"), "Rscript"), c("-e", shQuote("clutch:::host_main()")),
          stdin = file, stdout = log, stderr = log, wait = FALSE)
  host <- ns$host_ready(host, 60)
  if (is.null(host)) stop("the host does not come: ", paste(readLines(log), collapse = "\n"))
  server <- list(handle = host$handle, report = host$report, env = ns$effective_env(NULL))
  launcher <- ns$fork_launcher()
  launcher$start <- function(info, ranks, left) {
    info$server <- server
    info$settings <- ns$fork_settings(info, server$env, server$env)
    ns$fork_nodes(info, ranks, left)
  }
  request <- ns$check_request(n, "fork_server", NULL, outfile, NULL, list(), character(), 60,
                              names(formals(ns$make_cluster)))
  cl <- ns$start_cluster(launcher, launcher$plan(request), ns$clock(), 60)
  structure(cl, link = link, host = host, log = log)
}

end_host_cluster <- function(cl) {
  ns <- asNamespace("clutch")
  try(stop_cluster(cl), silent = TRUE)
  ns$host_end(attr(cl, "host"))
  testthat::expect_true(ns$link_end(attr(cl, "link")))
  unlink(attr(cl, "log"))
}

# How many bytes have crossed to the host of this cluster, and from there.
bytes_to_host <- function(cl) bytes_of_host(cl, "bytes_out")
bytes_from_host <- function(cl) bytes_of_host(cl, "bytes_in")
bytes_of_host <- function(cl, what) host_status(cl)[[what]]
host_status <- function(cl) {
  status <- clutch:::link_status(attr(cl, "link"))
  status[status$rank == attr(cl, "host")$number, ]
}

# What only the hosts of a cluster know: secret, own, certificate.
secrets_of <- function(link) {
  file <- tempfile("secrets-")
  on.exit(unlink(file))
  clutch:::write_private(.Call(clutch:::ffi_link_secrets, link$handle), file)
  secrets_in(file)
}
# The same of a file of settings.
secrets_in <- function(file) {
  lines <- grep("^(secret|own|certificate) ", readLines(file), value = TRUE)
  values <- vapply(sub("^[a-z]+ ", "", lines), function(x) eval(str2lang(x)), "")
  structure(values, names = sub(" .*", "", lines))
}
