# A host is told its settings: lines of text, so that any program can pass them on. Both sides use
# this file.
#
# Settings begin with the numbers of the protocol (ffi_host_protocol()): a host with others
# refuses. READY of a host has what the session compares with itself (start-report.R).

HOST_SETTINGS <- "clutch host settings 1"

own_version <- function() as.character(getNamespaceVersion("clutch"))

# The settings with secret and keys are in no string of R's: they could not be overwritten.
PRIVATE_SETTINGS <- c("secret", "own", "certificate")

# The value has lines with these settings, which read_host_settings() reads. The settings are a
# named list of strings and numbers without names; element `private` is text that was made in C, see
# src/r/base/private-text.h. The value is such a text, too. `before`: lines before all others.
host_settings_text <- function(settings, before = character()) {
  private <- settings$private
  settings$private <- NULL
  first <- sprintf("%s, clutch %s", HOST_SETTINGS, own_version())
  .Call(ffi_private_lines, c(before, first, settings_as_lines(settings)), private, "end")
}

# One line an element: its name, and its value as R code.
settings_as_lines <- function(settings) {
  value <- function(v) paste(deparse(v, width.cutoff = 500L, control = "digits17"), collapse = " ")
  paste(names(settings), vapply(settings, value, ""))
}

# Nobody else can read it at any time.
write_private <- function(text, file) {
  old <- Sys.umask("077")
  on.exit(Sys.umask(old))
  if (.Call(ffi_private_write, text, file)) return(invisible())
  throw("start", sprintf("'%s' cannot be written, where a host reads its settings", file))
}

# `theirs`: what version the session has.
throw_other_version <- function(theirs) {
  text <- paste("package clutch of this host (%s) has version %s, and does not understand that",
                "of the session, which has %s: install the same one on both")
  throw("protocol", sprintf(text, Sys.info()[["nodename"]], own_version(), theirs))
}

# `file`: its name, or "stdin". It is read as far as the line "end": who passes them on may keep the
# standard input open. A file does not stay open: nodes are forked from this process. `private`: as
# host_settings_text() takes it.
read_host_settings <- function(file) {
  read <- .Call(ffi_private_read, file, PRIVATE_SETTINGS)
  first <- paste(utils::head(read$lines, 1L), collapse = "")
  what <- sub(", clutch .*", "", first)
  if (grepl("^clutch host settings [0-9]+", first) && what != HOST_SETTINGS) {
    theirs <- if (what == first) "another one" else paste("version", sub(".*, clutch ", "", first))
    throw_other_version(theirs)
  }
  if (what != HOST_SETTINGS) {
    text <- "the settings of this host were expected (\"%s\") and not: %s"
    throw("protocol", sprintf(text, HOST_SETTINGS, substr(first, 1L, 60L)))
  }
  lines <- read$lines[-1L]
  n <- length(lines)
  if (n == 0L || lines[[n]] != "end") throw("protocol", "the settings of this host are cut short")
  settings <- list()
  for (line in lines[-n]) {
    settings[[sub(" .*", "", line)]] <- eval(str2lang(sub("^[^ ]* ", "", line)), baseenv())
  }
  settings$private <- read$private
  settings
}

# The parent of a host prints this when the command that has started the host has failed.
tree_failure <- function(number) sprintf("clutch: host %d was not started from here", number)
