# A host that starts others does it by this file: see hosts-tree.R.

# On a host: starts them. They get what this one got, but for its number, and the session's
# addresses in the order in which they are known here. They are told to end when this process ends:
# a host that waits in vain for the session then knows that nobody waits for it.
start_part_of_tree <- function(settings) {
  own <- settings
  own$others <- own$ranks <- NULL
  own$direct <- FALSE
  for (i in seq_along(settings$others)) {
    own$rank <- settings$ranks[[i]]
    text <- host_settings_text(own, watched_start())
    .Call(ffi_host_start, c("/bin/sh", "-c", tree_line(settings$others[[i]], own$rank)), text)
    .Call(ffi_private_wipe, text)
  }
}

# The line of a shell that starts a host with this number, and says so when that fails.
tree_line <- function(command, number) {
  shell_line("start-from-host", command = command, failure = shQuote(tree_failure(number)))
}
