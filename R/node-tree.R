# What a host does that starts others: see hosts-tree.R.

# On a host: starts them. They get what this one got, but for its number, and the session's
# addresses in the order in which they are known here. They are told to end when this process ends:
# a host that waits in vain for the session then knows that nobody waits for it.
start_part_of_tree <- function(settings) {
  own <- settings
  own$others <- own$ranks <- NULL
  own$direct <- FALSE
  for (i in seq_along(settings$others)) {
    own$rank <- settings$ranks[[i]]
    text <- host_settings_text(own, WATCHED_START)
    .Call(ffi_host_start, c("/bin/sh", "-c", tree_line(settings$others[[i]], own$rank)), text)
    .Call(ffi_private_wipe, text)
  }
}

# In a shell: says so when the command fails, and ends it when the shell is told to end. Not by <&0:
# some shells have the null device there by then. The shell has descriptor 3, so that what it starts
# does not find the end of its standard input.
tree_line <- function(command, number) {
  text <- "exec 4<&0; trap 'kill $p; exit' TERM; %s <&4 4<&- 3>&- & p=$!; wait $p || echo %s >&2"
  sprintf(text, command, shQuote(tree_failure(number)))
}
