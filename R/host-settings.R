# What a host is told: lines of text, so that any program can pass them on. Both sides use them.

HOST_SETTINGS <- "clutch host settings 1"

own_version <- function() as.character(getNamespaceVersion("clutch"))

# Lines with these settings, which read_host_settings() reads. Of a named list of strings and
# numbers without names.
host_settings_lines <- function(settings) {
  x <- settings_as_lines(settings)
  c(sprintf("%s, clutch %s", HOST_SETTINGS, own_version()), x, "end")
}

# One line an element: its name, and its value as R code.
settings_as_lines <- function(settings) {
  value <- function(v) paste(deparse(v, width.cutoff = 500L, control = "digits17"), collapse = " ")
  paste(names(settings), vapply(settings, value, ""))
}

# Nobody else can read it at any time.
write_private <- function(lines, file) {
  old <- Sys.umask("077")
  on.exit(Sys.umask(old))
  writeLines(lines, file)
}

# `theirs`: what version the session has.
throw_other_version <- function(theirs) {
  text <- paste("package clutch of this host (%s) has version %s, and does not understand that",
                "of the session, which has %s: install the same one on both")
  throw("protocol", sprintf(text, Sys.info()[["nodename"]], own_version(), theirs))
}

# `con`: an open connection, or the name of a file, as "stdin". As far as the line "end": who passes
# them on may keep the standard input open. A file does not stay open: nodes are forked from this
# process, and its lines have the secret.
read_host_settings <- function(con) {
  if (is.character(con)) {
    con <- file(con, "r")
    on.exit(close(con))
  }
  first <- readLines(con, 1L)
  what <- sub(", clutch .*", "", first)
  if (grepl("^clutch host settings [0-9]+", paste(first, collapse = "")) && what != HOST_SETTINGS) {
    theirs <- if (what == first) "another one" else paste("version", sub(".*, clutch ", "", first))
    throw_other_version(theirs)
  }
  if (!identical(what, HOST_SETTINGS)) {
    text <- "the settings of this host were expected (\"%s\") and not: %s"
    throw("protocol", sprintf(text, HOST_SETTINGS, substr(paste(first, collapse = ""), 1L, 60L)))
  }
  settings <- list()
  repeat {
    line <- readLines(con, 1L)
    if (!length(line)) throw("protocol", "the settings of this host are cut short")
    if (line == "end") return(settings)
    name <- sub(" .*", "", line)
    settings[[name]] <- eval(str2lang(sub("^[^ ]* ", "", line)), baseenv())
  }
}
