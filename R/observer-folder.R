# Where observers are asked for: each fork server has a Unix-domain socket in a folder that only
# this user can read.

# A folder that only this user can read; NULL: there is none. In it each fork server has a
# Unix-domain socket, named after its session and itself. The first of them makes the folder
# (`create`), and the last one removes it.
view_folder <- function(create = FALSE) {
  path <- Sys.getenv("CLUTCH_VIEW_FOLDER")
  run <- Sys.getenv("XDG_RUNTIME_DIR")
  if (!nzchar(path)) {
    own <- file.info(tempdir())$uid
    path <- if (nzchar(run)) file.path(run, "clutch") else paste0("/tmp/clutch-", own)
  }
  for (try in 1:20) { # another fork server may remove it in this moment
    if (create) dir.create(path, showWarnings = FALSE, mode = "0700")
    about <- file.info(path)
    link <- Sys.readlink(path) # NA: nothing is there
    if (!create || (!is.na(about$isdir) && !is.na(link))) break
  }
  if (is_private_folder(path, about, link)) path
}

# One that the user has named is not removed.
owns_view_folder <- function() !nzchar(Sys.getenv("CLUTCH_VIEW_FOLDER"))

# A socket there of which nobody knows any more.
remove_view_socket <- function(path) {
  unlink(path)
  if (length(path) && owns_view_folder()) suppressWarnings(file.remove(dirname(path)))
  invisible()
}

# `session`, `server`: process ids.
view_path <- function(session, server, create = FALSE) {
  folder <- view_folder(create)
  if (!is.null(folder)) file.path(folder, sprintf("%d-%d", as.integer(session), as.integer(server)))
}
