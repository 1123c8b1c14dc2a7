# Fork servers that stay when their session has ended: how they are found.
#
# One that waits for a session listens in the folder of observer-folder.R, at "kept-<pid>". Beside
# it are a secret (src/core/supervisor/stay.h), and what others may know of it, in
# "kept-<pid>.about": lines "name value". Only processes of this user can enter the folder. So what
# is there is believed.

kept_path <- function(folder, pid) file.path(folder, sprintf("kept-%d", as.integer(pid)))
about_path <- function(path) paste0(path, ".about")

# `about`: a named list of strings and numbers. Who sees the file sees all of it.
write_kept <- function(path, about) {
  new <- paste0(about_path(path), "-")
  # option OutDec, a comma perhaps, is for people
  texts <- vapply(about, format, "", digits = 15L, decimal.mark = ".")
  writeLines(paste(names(about), texts), new)
  file.rename(new, about_path(path))
}

# Whose number a process id is: this machine's since it was booted, and that of a container.
place_of_pids <- function() {
  boot <- read_lines(proc_file("sys/kernel/random/boot_id"))
  paste(c(Sys.info()[["nodename"]], boot, Sys.readlink(proc_file("self/ns/pid"))), collapse = " ")
}

# The value has those that wait here: lists with what they have written, and `path`. What others
# have left that were killed goes.
kept_here <- function() {
  folder <- if (system_can("proc")) view_folder()
  if (is.null(folder)) return(list())
  files <- list.files(folder, "^kept-[0-9]+\\.about$", full.names = TRUE)
  here <- Filter(Negate(is.null), lapply(files, read_about))
  place <- if (length(here)) place_of_pids()
  here <- Filter(function(k) identical(k$place, place), here)
  is_dead <- vapply(here, function(k) is.na(.Call(ffi_process_letter, k$pid)), NA)
  for (k in here[is_dead]) remove_kept(k)
  here[!is_dead]
}

# NULL: it is gone, or no such file.
read_about <- function(file) {
  lines <- read_lines(file)
  about <- as.list(sub("^[^ ]* ?", "", lines))
  names(about) <- sub(" .*", "", lines)
  about$path <- sub("\\.about$", "", file)
  for (name in c("pid", "since", "until")) {
    about[[name]] <- suppressWarnings(as.numeric(about[[name]]))
    if (!is_number(about[[name]])) return(NULL)
  }
  about
}

# Removes what one has left that was killed.
remove_kept <- function(k) {
  if (is_string(k$tmp) && dir.exists(k$tmp)) .Call(ffi_remove_folder, k$tmp)
  remove_view_socket(c(paste0(k$path, ".secret"), about_path(k$path), k$path))
}
