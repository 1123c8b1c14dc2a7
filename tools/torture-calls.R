# tools/test-checkers.sh adds this file to a copy of the package: calls of its C then collect
# garbage at each allocation, in sessions, fork servers and nodes. What is not protected is lost at
# once. R code that C calls is slow, too; all other R code is not. In the loops of fork servers and
# nodes, which call the user's code, it is every tenth allocation: a call of C from there has each
# again.
#
# CLUTCH_TORTURE_SEEN: a folder. A file in it tells that the routine of that name was called so.

.Call <- function(.NAME, ...) { # nolint: object_name_linter. It is base R's name.
  list(...) # R evaluates the arguments before
  name <- .NAME$name
  seen <- file.path(Sys.getenv("CLUTCH_TORTURE_SEEN"), name)
  if (startsWith(seen, "/") && !file.exists(seen)) file.create(seen)
  before <- gctorture2(if (name %in% c("ffi_fork_server_serve", "ffi_node_loop")) 10L else 1L)
  on.exit(gctorture2(before))
  base::.Call(.NAME, ...)
}
