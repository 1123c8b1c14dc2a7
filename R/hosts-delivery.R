# How hosts get their settings, with the secret in them: a list of
#   wants_folder  TRUE: the cluster has a folder that hosts see, too
#   is_direct     TRUE: the command runs as long as its hosts are to come: only so many run at a
#                 time, and one of a host that is lost can be run again. FALSE: it hands them to a
#                 queue, which may bring them in any order
#   hand_over(info, launch, text)  writes what is told where hosts read it; what remains for the
#                 standard input of the command, or NULL
#   show(launch, watched)  lines of a dry run. `watched`: of watch_text() of the kind

input_of_launch <- function(info, launch, text) text

show_input <- function(launch, watched) {
  c(watched, "gets the secret and the session's addresses on its standard input")
}

by_input <- list(wants_folder = FALSE, is_direct = TRUE, hand_over = input_of_launch,
                 show = show_input)

file_of_launch <- function(info, launch, text) {
  write_private(text, file.path(info$remote$folder, launch$settings))
  NULL
}

show_file <- function(launch, watched) {
  text <- "gets them from <folder>/%s, which only this user can read"
  c(sprintf(text, launch$settings), watched)
}

by_file <- list(wants_folder = TRUE, is_direct = FALSE, hand_over = file_of_launch,
                show = show_file)
