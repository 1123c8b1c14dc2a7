# This file has advice when the start of a node on another host has failed: by how the command
# ended, and by what it has printed.

room_advice <- paste("is there room for temporary files on {host}?",
                     "`env = c(TMPDIR = \"...\")` names another folder for them")

# Each problem has its mark in the last lines of ssh, of a shell or of R. The first that fits is
# taken. `status`: exit status, or NULL: any; `text`: a pattern, or NULL: any. In `advice`, {host}
# and {ssh} are the host and the command that reaches it; {elsewhere} and {libraries} are for nodes
# that look for R, and for this package, where this machine has it.
start_problems <- list(
  list(
    status = 255L, text = "resolve hostname|[Nn]ame or service not known|name resolution",
    advice = "is that the host's name? `{ssh} {host} true` has to work"
  ),
  list(
    status = 255L, text = "REMOTE HOST IDENTIFICATION HAS CHANGED",
    advice = paste("the host has another key than before: if that is right, remove the old one",
                   "with `ssh-keygen -R`, and log in once with `{ssh} {host}`")
  ),
  list(
    status = 255L, text = "Host key verification failed",
    advice = "log in once with `{ssh} {host}` in a terminal, and accept the host's key"
  ),
  list(
    status = 255L, text = "Permission denied|authentication failures|incorrect passphrase",
    advice = paste("`{ssh} {host} true` has to work without a password: with a key that the host",
                   "knows (ssh-copy-id), and an agent that has it (ssh-add)")
  ),
  list(
    status = 255L, text = "timed out|refused|No route to host|unreachable",
    advice = paste("is the host up, and does a firewall let ssh through? `{ssh} {host} true` has",
                   "to work")
  ),
  list(
    status = 255L, text = "port forwarding failed",
    advice = paste("ssh has to carry the connection from {host} to this session: is that allowed",
                   "there (AllowTcpForwarding of sshd)? With `tls = FALSE` it goes without ssh,",
                   "and is not encrypted")
  ),
  list(status = 255L, text = NULL, advice = "`{ssh} {host} true` has to work without a question"),
  list( # the loader of programs has status 127 for it, too
    status = NULL,
    text = paste0("not enough memory|([Cc]annot|could not) allocate|memory exhausted|",
                  "out of memory|failed to map segment from shared object$"), # else: why not
    advice = "is there memory left on {host}, and do its limits (`ulimit -a`) allow R enough of it?"
  ),
  list(
    status = 127L, text = NULL,
    advice = "is R there? `rscript` says where Rscript is{elsewhere}"
  ),
  list(
    status = NULL, text = "no package called .clutch.",
    advice = "install package clutch there{libraries}"
  ),
  list(
    status = NULL,
    text = paste0("object 'host_main' not found|attempt to apply non-function|",
                  "does not understand that of the session"),
    advice = "install the same version of package clutch there as here"
  ),
  list(
    status = NULL, text = "the settings of this host (were expected|are cut short)",
    advice = paste("what runs there before R, by `setup`, `modules` or a profile, must not read",
                   "the standard input: the settings come by it")
  ),
  list(
    status = NULL, text = "No space left on device|Disk quota exceeded|Read-only file system",
    advice = room_advice
  ),
  list(
    status = NULL, text = "R_TempDir|temporary folder .*cannot be made", advice = room_advice
  ),
  list( # R writes what -e gives to a file there, and does without if it cannot
    status = 0L, text = NULL,
    advice = paste("R has ended there and has not done what it was told.", room_advice)
  ),
  list(
    status = 2L, text = "cannot open file .*clutch/node/",
    advice = paste("package clutch is elsewhere there: `homogeneous = FALSE` looks for it in the",
                   "libraries there")
  )
)

# `node`: host, rshcmd and master; by_hosts: of hosts() and its like; has_library: of these one that
# looks for this package where this machine has it; by_name: see ssh-by-name.R. `i`: as of
# ffi_node_info(); `printed`: lines. NULL: nothing is known that helps.
advice_for <- function(node, i, printed, port = NULL) {
  if (i$state == "starting") return(if (is.na(i$pid)) dial_back_advice(node, port))
  if (any(grepl("did not join the cluster", printed))) return(dial_back_advice(node, port))
  fits <- function(p) {
    ended_so <- is.null(p$status) || (!i$by_signal && i$code == p$status)
    ended_so && (is.null(p$text) || any(grepl(p$text, printed)))
  }
  problem <- Find(fits, start_problems)
  if (is.null(problem)) return(NULL)
  advice <- gsub("{ssh}", node$rshcmd, problem$advice, fixed = TRUE)
  advice <- gsub("{host}", node$host, advice, fixed = TRUE)
  further <- "; with `homogeneous = FALSE` it is looked for %s there"
  if (isTRUE(node$by_hosts) && !isTRUE(node$has_library)) further <- ""
  advice <- sub("{elsewhere}", sub("%s", "on the PATH", further), advice, fixed = TRUE)
  sub("{libraries}", sub("%s", "in the libraries", further), advice, fixed = TRUE)
}

# It runs, perhaps, and its connection does not arrive.
dial_back_advice <- function(node, port) {
  if (isTRUE(node$by_hosts)) return(dial_back_of_host(node, port))
  works <- sprintf("does `%s %s true` work without a question?", node$rshcmd, node$host)
  if (isTRUE(node$tunnel)) return(works)
  sprintf(paste(
    "%s Does '%s' lead there to this machine (option `master`), and does a firewall let port %d",
    "through (option `port`)? Without `tls = FALSE` ssh carries the connection"
  ), works, node$master, as.integer(if (is.null(port)) 11000L else port))
}

dial_back_of_host <- function(node, port) {
  text <- paste("does a firewall let connections from there to port %d of this machine through?",
                "`%s` says as what the host knows this machine, `%s` at which port the session",
                "listens")
  by_name <- isTRUE(node$by_name)
  names <- if (by_name) c("master", "port") else c("address", "listen")
  text <- sprintf(text, as.integer(port), names[[1L]], names[[2L]])
  if (!nzchar(node$rshcmd)) return(text)
  works <- sprintf("does `%s %s true` work without a question?", node$rshcmd, node$host)
  tunnel <- if (by_name) "`hosts(tunnel = TRUE)`" else "`tunnel = TRUE`"
  paste(works, "If so,", paste0(text, "; with ", tunnel, " ssh carries the connection"))
}
