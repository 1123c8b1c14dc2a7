# The temporary folder of a fork server.

# On the session's machine. Until here the temporary folder was within one that the session removes,
# should this process end before it can do that itself. From now on it is where that of any R is.
# Paths that the profile has stored lead there, too.
move_temp_dir <- function(tmpdir) {
  old <- tempdir()
  if (nzchar(tmpdir)) Sys.setenv(TMPDIR = sub("^TMPDIR=", "", tmpdir)) else Sys.unsetenv("TMPDIR")
  .Call(ffi_fork_server_temp)
  file.symlink(tempdir(), file.path(dirname(old), "moved")) # at once: see server_clean()
  files <- list.files(old, all.files = TRUE, no.. = TRUE)
  moved <- suppressWarnings(file.rename(file.path(old, files), file.path(tempdir(), files)))
  if (all(moved) && unlink(old, recursive = TRUE) == 0L) file.symlink(tempdir(), old)
}

# R itself does not know it any more: see own_temp_dir() in src/r/node/fork-server-main.c.
remove_temp_dir_at_end <- function() {
  server <- Sys.getpid()
  folder <- tempdir()
  the_node$at_end <- new.env()
  reg.finalizer(the_node$at_end, function(e) {
    if (Sys.getpid() == server) unlink(folder, recursive = TRUE)
  }, onexit = TRUE)
}
