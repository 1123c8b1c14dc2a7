# What runs on another host: a new R, started by ssh, srun or a command of the user's, which becomes
# two processes, the relay to the session and that host's fork server.

# `file`: with the settings, see write_host_settings(); they are on standard input otherwise.
host_main <- function(file = NULL) {
  if (is.null(file)) {
    con <- file("stdin")
    on.exit(close(con))
  } else {
    con <- file
  }
  settings <- read_host_settings(con)
  why <- .Call(ffi_host_begin, settings)
  if (is.null(why)) host_server_main(settings)
  if (nzchar(why)) message("clutch: ", why)
  quit(save = "no", status = if (nzchar(why)) 1L else 0L, runLast = FALSE)
}

# In the child, the fork server. It ends when the relay does, and knows no idle limit.
host_server_main <- function(settings) {
  lib <- dirname(getNamespaceInfo("clutch", "path"))
  tmpdir <- Sys.getenv("TMPDIR", NA)
  rscript <- c(file.path(R.home("bin"), "Rscript"), default_packages_argument(settings$methods))
  fork_server_main(c(lib, "1e9", paste(settings$attach, collapse = ","),
                     if (is.na(tmpdir)) "" else paste0("TMPDIR=", tmpdir), rscript))
}

# ---- settings: lines of text, so that any program can pass them on ----

HOST_SETTINGS <- "clutch host settings 1"

# Lines with these settings, which read_host_settings() reads. Of a named list of strings and numbers
# without names.
host_settings_lines <- function(settings) {
  x <- settings_as_lines(settings)
  c(HOST_SETTINGS, x, "end")
}

# One line an element: its name, and its value as R code.
settings_as_lines <- function(settings) {
  value <- function(v) paste(deparse(v, width.cutoff = 500L, control = "digits17"), collapse = " ")
  paste(names(settings), vapply(settings, value, ""))
}

# As far as the line "end": who passes them on may keep the standard input open.
read_host_settings <- function(con) {
  if (is.character(con)) con <- file(con)
  if (!isOpen(con)) open(con, "r")
  first <- readLines(con, 1L)
  if (!identical(first, HOST_SETTINGS)) {
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
