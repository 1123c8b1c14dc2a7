# This file runs in a node that connects to the session over TCP. Nothing here is called in a
# session.

# Called by inst/node/join.R and by the command of nodes on other hosts: `:::` would look odd there.
.__join__ <- function(args) join_main(args)

# Arguments are NAME=value: MASTER, PORT, RANK, SETUPTIMEOUT (seconds); LIB, the library of this
# package. A node that the session has started itself also has PARENT (the session's pid), SLOT (of
# the shared memory), TMP (the folder around its temporary folder, removed by the session) and
# OLDTMP (what TMPDIR is for others; not there: unset). The secret is in the environment or the
# first line of the standard input.
join_main <- function(args) {
  take_default_packages()
  args <- grep("^[A-Z]+=", args, value = TRUE)
  a <- structure(sub("^[A-Z]+=", "", args), names = sub("=.*", "", args))
  if (!is.na(a["TMP"])) restore_tmpdir(a["OLDTMP"])
  settings <- .Call(ffi_join, a[["MASTER"]], as.integer(a[["PORT"]]), as.integer(a[["RANK"]]),
                    as.numeric(a[["SETUPTIMEOUT"]]), a)
  end_watcher() # with the connection there is something else that it ends with
  if (is.character(settings)) {
    message(sprintf("node %s did not join the cluster at %s, port %s: %s",
                    a[["RANK"]], a[["MASTER"]], a[["PORT"]], settings))
    quit(save = "no", status = 1L, runLast = FALSE)
  }
  the_node$joined <- TRUE
  options(clutch.joins = NULL)
  problem <- tryCatch(apply_join_settings(settings), error = conditionMessage)
  starting_is_over()
  .Call(ffi_node_begin_joined, problem)
  if (!is.null(problem)) quit(save = "no", status = 1L, runLast = FALSE)
  node_serve()
}

restore_tmpdir <- function(old) {
  if (is.na(old)) Sys.unsetenv("TMPDIR") else Sys.setenv(TMPDIR = old[[1L]])
}

# The value is NULL, or what the session is told. It is "package:", its name, ":" and why of a
# package that cannot be attached.
apply_join_settings <- function(s) {
  if (length(s$env)) do.call(Sys.setenv, as.list(s$env))
  if (!is.na(s$nice)) tools::psnice(value = s$nice)
  if (length(s$packages)) attach_default_packages()
  for (p in s$packages) {
    why <- attach_problem(p)
    if (!is.null(why)) return(sprintf("package:%s:%s", p, why))
  }
  set.seed(.Call(ffi_random_seeds, 1L))
  # what was printed until now is in the file that the session shows when a start fails
  if (nzchar(s$outfile) && !.Call(ffi_output_to, s$outfile)) {
    return(sprintf("'%s' cannot be opened for output", s$outfile))
  }
  if (s$announce) announce()
  NULL
}
