# A fork server that stays when its session has ended, and serves the user's next one.
#
# It is told with SETUP (setup$stay) that it may, and what a session has to be like that it may
# serve then: launch-stay.R. Before it attaches anything it looks at all packages that it could
# load: so it knows later whether a package that it has loaded was changed on the disk meanwhile.
# With the first settings it hears for how long it may stay.
#
# When the session has ended, so have all nodes, and what they had: nothing of it is in this process
# but its settings. These are put back. Then it waits in another folder, without output. Who comes
# sends SETUP, as to a new one. It answers with what it has said the first time, or with why it is
# not what that session wants. A process ends when its packages have
# changed on the disk.
#
# the_node$stay is a list:
#   wanted     what setup$stay was
#   stamps     of folders of packages, by name: how they were when the packages were loaded
#   report     the first answer to SETUP
#   workspace  names of objects in the workspace
#   packages   that are attached, and loaded
#   seconds    for so long it stays; NULL: there were no settings yet
#   since, until    from when to when it waits; NULL: it has a session
#   ends       it is of no more use

# ---- what is loaded ----

# Files whose change says that a package was changed. Folders of packages, in rows.
package_files <- function(folders) {
  name <- basename(folders)
  code <- file.path(folders, "R", name)
  libs <- file.path(folders, "libs", paste0(name, .Platform$dynlib.ext))
  c(folders, file.path(folders, "Meta", "package.rds"), paste0(code, ".rdb"), paste0(code, ".rdx"),
    libs)
}

# Texts by folder, equal as long as nothing has changed; NA: there is no package.
stamps_of <- function(folders) {
  if (!length(folders)) return(character())
  stamps <- matrix(.Call(ffi_file_stamps, package_files(folders)), nrow = length(folders))
  text <- do.call(paste, c(lapply(seq_len(ncol(stamps)), function(k) stamps[, k]), sep = "|"))
  text[is.na(stamps[, 1L])] <- NA
  structure(text, names = folders)
}

# The folders of packages that this process has loaded, by name.
loaded_folders <- function() {
  packages <- setdiff(loadedNamespaces(), "base")
  folders <- vapply(packages, getNamespaceInfo, "", "path")
  c(base = normalizePath(file.path(.Library, "base")), folders)
}

all_packages <- function() unique(normalizePath(list.files(.libPaths(), full.names = TRUE)))

# Before anything is attached for the session.
begin_to_stay <- function(wanted) {
  loaded <- loaded_folders()
  stamps <- stamps_of(all_packages())
  # loaded while R has started: not changed since
  began <- Sys.time() - proc.time()[[3L]]
  changed <- matrix(unclass(file.info(package_files(loaded), extra_cols = FALSE)$ctime),
                    nrow = length(loaded))
  is_old <- rowSums(changed > unclass(began), na.rm = TRUE) == 0
  stamps[loaded] <- ifelse(is_old, stamps_of(loaded), NA)
  the_node$stay <- list(wanted = wanted, stamps = stamps)
}

# Packages that are not what a new R would load now.
changed_packages <- function() {
  folders <- loaded_folders()
  was <- the_node$stay$stamps[folders]
  same <- !is.na(was) & was == stamps_of(folders)
  same <- same & (folders == folders_by_search(names(folders)) | is_packages_of_start(folders))
  names(folders)[is.na(same) | !same]
}

# R's own packages are not searched for, and this one was looked for by the session.
is_packages_of_start <- function(folders) {
  dirname(folders) == normalizePath(.Library) & names(folders) %in% packages_of_r |
    names(folders) %in% c("base", "clutch")
}

# Where a new R would find these packages.
folders_by_search <- function(packages) {
  out <- rep(NA_character_, length(packages))
  for (lib in .libPaths()) {
    folders <- file.path(lib, packages)
    is_here <- is.na(out) & file.exists(file.path(folders, "DESCRIPTION"))
    out[is_here] <- normalizePath(folders[is_here])
  }
  out
}

# Libraries of code that were replaced while this process has them in its memory.
changed_libraries <- function() {
  lines <- read_lines(proc_file("self/maps"))
  lines <- grep("\\.so[.0-9]* \\(deleted\\)$", lines, value = TRUE)
  unique(basename(sub(" \\(deleted\\)$", "", sub("^[^/]*", "", lines))))
}

# Why this process is of no more use to anybody: texts.
what_has_changed <- function() {
  packages <- changed_packages()
  libraries <- changed_libraries()
  c(
    if (length(packages)) {
      sprintf("package %s was installed again or removed since", paste(packages, collapse = ", "))
    },
    if (length(libraries)) sprintf("library %s was replaced", paste(libraries, collapse = ", ")),
    if (!dir.exists(tempdir())) "its temporary folder was removed"
  )
}

# ---- SETUP ----

# Keeps what prepare() has reported, for the next session. `setup`: what it was given.
remember_report <- function(setup, report) {
  if (is.null(the_node$stay)) return()
  the_node$stay$report <- report
  the_node$stay$workspace <- workspace_names()
  the_node$stay$packages <- unique(c(setup$packages, setup$load))
}

workspace_names <- function() sort(ls(globalenv(), all.names = TRUE))

# The answer to another session's SETUP.
answer_again <- function(setup) {
  stay <- the_node$stay
  set_libraries(setup$libraries)
  changed <- what_has_changed()
  if (unclass(Sys.time()) > stay$until + 1) changed <- c(changed, "its time is over")
  if (length(changed)) the_node$stay$ends <- TRUE
  refused <- c(changed, if (is.null(changed)) differences(stay$wanted, setup$stay))
  if (length(refused)) return(list(refused = refused))
  end_offer()
  c(stay$report, list(env = stay$wanted$all_env))
}

# The value says what of `theirs` is not as in `mine`: texts.
differences <- function(mine, theirs) {
  texts <- c(r = "R differs", clutch = "package clutch differs",
             what = "the arguments of make_cluster() differ", libraries = ".libPaths() differs",
             profile = "a startup file of R differs", folder = "the working directory differs",
             env = variables_text(mine$env, theirs$env),
             who = "user, groups, capabilities or processors differ",
             limits = "the limits (ulimit) differ", groups = "the control group differs",
             namespaces = "the namespaces differ")
  differs <- !vapply(names(texts), function(n) identical(mine[[n]], theirs[[n]]), NA)
  if (any(differs)) unname(texts[differs])
}

# Values may be secret.
variables_text <- function(mine, theirs) {
  changes <- env_changes(theirs, mine)
  names <- sort(c(names(changes$env_set), changes$env_unset))
  if (length(names) == 1L) return(sprintf("environment variable %s differs", names))
  more <- if (length(names) > 5L) sprintf(" and %d more", length(names) - 5L) else ""
  sprintf("environment variables %s%s differ", paste(utils::head(names, 5L), collapse = ", "), more)
}

# ---- settings ----

# `seconds`: NULL where the session's cluster does not say.
settings_of_stay <- function(seconds) {
  if (is.null(the_node$stay) || is.null(seconds)) return()
  the_node$stay$seconds <- seconds
  the_node$stay$until <- NULL
  .Call(ffi_fork_server_stays)
}

# ---- the wait ----

# The session has ended, or has said so (`may`: and does not mind). The value tells whether another
# one has come.
await_session <- function(may) {
  comes <- may && stays_on() && offer()
  if (comes) {
    .Call(ffi_fork_server_leave)
    comes <- .Call(ffi_fork_server_await, the_node$stay$until - unclass(Sys.time()))
  }
  if (!comes) end_offer()
  comes
}

# Tells whether this process may serve others, and begins to count the time.
stays_on <- function() {
  stay <- the_node$stay
  if (is.null(stay$seconds) || isTRUE(stay$ends)) return(FALSE)
  if (!is.null(stay$until)) return(stay$until > unclass(Sys.time())) # a session has not taken it
  if (!identical(workspace_names(), stay$workspace)) return(FALSE)
  the_node$stay$since <- unclass(Sys.time())
  the_node$stay$until <- the_node$stay$since + stay$seconds
  forget_settings()
  TRUE
}

# Puts back what those of the session before have changed in this process.
forget_settings <- function() {
  set_variables(NULL, NULL)
  has_programs <- length(the_node$of_programs) > 0L
  for (name in c("number", "of_programs", "announce", "nice")) the_node[[name]] <- NULL
  if (has_programs) gc() # objects of that session; a collection takes as long as a start
  options(clutch.share_from = NULL)
  be_as_others()
  setwd("/")
  .Call(ffi_output_to, "/dev/null")
}

# A session that was polite has given this process and its nodes the lowest priority.
be_as_others <- function() {
  file <- proc_file("self/autogroup")
  if (file.exists(file)) try(writeLines("0", file), silent = TRUE)
}

offer <- function() {
  folder <- view_folder(create = TRUE)
  if (is.null(folder)) return(FALSE)
  path <- kept_path(path.expand(folder), Sys.getpid())
  stay <- the_node$stay
  the_node$stay$path <- path
  if (!is.null(.Call(ffi_fork_server_offer, path))) return(FALSE)
  write_kept(path, list(
    pid = Sys.getpid(), since = stay$since, until = stay$until, place = place_of_pids(),
    protocol = .Call(ffi_host_protocol), r = stay$wanted$r[[1L]], clutch = stay$wanted$clutch[[1L]],
    packages = paste(stay$packages, collapse = ","), tmp = tempdir()
  ))
}

end_offer <- function() {
  path <- the_node$stay$path
  if (is.null(path)) return()
  .Call(ffi_fork_server_taken)
  remove_view_socket(about_path(path))
}
