# This file runs on another host, in a new R that ssh, srun or a command of the user's has started.
# It becomes two processes, the proxy to the session and that host's fork server.
#
# Some command runs host_main() and passes it settings by standard input. It ends its watcher
# (start-watcher.R) and forks: the parent becomes the proxy (src/core/link/far.h), the child that
# host's fork server. The proxy connects to the session's listener: TLS, then the handshake of TCP
# nodes, then the link. When the proxy dies, its fork server follows it.

# `file`: with the settings, see host_settings_text().
host_main <- function(file = "stdin") {
  settings <- read_host_settings(file)
  if (!isTRUE(settings$protocol == .Call(ffi_host_protocol))) {
    throw_other_version(paste("version", settings$version))
  }
  Sys.unsetenv(as.character(settings$unset)) # they were for the start only
  settings$hosts <- addresses_of_session(settings)
  settings$rank <- host_number(settings)
  start_part_of_tree(settings)
  end_watcher()
  remove_unused_folders()
  .Call(ffi_mark_folder, tempdir())
  the_node$host <- settings$rank
  if (!isTRUE(settings$by_exec)) warm_up_host()
  why <- .Call(ffi_host_begin, settings, settings$private)
  settings$private <- NULL # it was overwritten
  if (is.null(why)) host_server_main(settings)
  if (nzchar(why)) message("clutch: ", why)
  quit(save = "no", status = if (nzchar(why)) 1L else 0L, runLast = FALSE)
}

# Temporary folders of proxies and fork servers that were all killed at once, as by a system without
# memory: nobody was left to remove them. The system says that their lock has no holder.
remove_unused_folders <- function() {
  folders <- list.files(dirname(tempdir()), "^Rtmp[[:alnum:]]+$", full.names = TRUE)
  for (folder in setdiff(folders, tempdir())) .Call(ffi_remove_unused, folder)
}

# In the child, the fork server. It ends when the proxy does, and knows no idle limit. Its temporary
# folder is that of the proxy: whichever of the two ends last removes it when it quits, also where
# the other one was killed. A node that outlives both removes it, too.
host_server_main <- function(settings) {
  lib <- dirname(getNamespaceInfo("clutch", "path"))
  rscript <- c(rscript_of_session(), default_packages_argument(settings$methods))
  fork_server_main(lib, idle = 1e9, packages = paste(settings$attach, collapse = ","), tmpdir = "",
                   command = rscript)
}

# `rank`, or where one command has started several hosts, counted from there: Slurm says which of
# them this is.
host_number <- function(settings) {
  from <- settings$rank_from
  if (is.null(from)) return(settings$rank)
  number <- suppressWarnings(as.integer(Sys.getenv(from)))
  if (is.na(number)) throw("protocol", sprintf("%s does not say which host this is", from))
  settings$rank + number
}

# Where the session may be. What ssh and srun tell comes first: that is as what this host knows the
# machine that has started it.
addresses_of_session <- function(settings) {
  if (isFALSE(settings$direct)) return(settings$hosts)
  first <- function(name) strsplit(Sys.getenv(name), " ", fixed = TRUE)[[1L]][1L]
  seen <- c(first("SSH_CONNECTION"), first("SLURM_LAUNCH_NODE_IPADDR"))
  seen <- sub("^::ffff:", "", seen)
  unique(c(seen[!is.na(seen) & nzchar(seen)], settings$hosts))
}
