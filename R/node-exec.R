# A node that a fork server has started by exec. Nothing here is called in a session.

# Called by the script inst/node/node.R: `:::` would look odd there.
.__node__ <- function(args) exec_node_main(args)

# Its command line has these: library and packages, then from the supervisor the number of its slot
# in the shared memory, whether TMPDIR was set and to what, the folder that is the node's own, its
# number if it runs a program, else 0, how often that was started before, and the supervisor's pid.
exec_node_arguments <- c("lib", "packages", "slot", "tmpdir_is", "tmpdir", "folder", "id", "again",
                         "supervisor")

exec_node_main <- function(args) {
  a <- structure(as.list(args), names = exec_node_arguments)
  options(clutch.joins = NULL)
  take_default_packages()
  if (a$tmpdir_is == "set") Sys.setenv(TMPDIR = a$tmpdir) else Sys.unsetenv("TMPDIR")
  id <- as.numeric(a$id)
  packages <- strsplit(a$packages, ",", fixed = TRUE)[[1L]]
  if (length(packages) || id > 0) attach_default_packages()
  for (p in packages) attach_package(p)
  set.seed(.Call(ffi_random_seeds, 1L))
  settings <- strsplit(Sys.getenv("CLUTCH_NODE"), ",", fixed = TRUE)[[1L]]
  Sys.unsetenv("CLUTCH_NODE")
  starting_is_over()
  names(settings) <- c("nice", "announce", "share_from")
  options(clutch.share_from = as.numeric(settings[["share_from"]]))
  if (settings[["nice"]] != "NA") tools::psnice(value = as.integer(settings[["nice"]]))
  if (settings[["announce"]] == "TRUE") announce()
  s <- if (id > 0) readRDS(program_file(dirname(a$folder)))
  .Call(ffi_node_begin_exec, as.integer(a$slot), a$folder, id > 0,
        as.numeric(a$supervisor))
  if (id > 0) run_program(s, id, as.numeric(a$again))
  node_serve()
}
