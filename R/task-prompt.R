# The session's side of browser() in a task: node-browse.R says how a node asks for a line.

# `wish`: the condition that has come. At the prompt of R's browser `Q` ends the map.
answer_prompt <- function(wish) {
  read <- the$read_line
  line <- if (is.null(read)) line_at_prompt(wish$prompt) else read(wish$prompt)
  if (startsWith(wish$prompt, "Browse") && trimws(line) == "Q") invokeRestart("abort")
  tryCatch(send_line(wish, line), clutch_error = function(e) {
    message("nobody waits for this line any more: the element has ended")
  })
}

send_line <- function(wish, line) {
  socket <- suppressWarnings(socket_connect(path = wish$path, blocking = TRUE, open = "r+b",
                                            timeout = 20, slot = FALSE))
  on.exit(close(socket))
  socket_send(socket, list(key = wish$key, line = line))
}

# Ctrl-C gives a new prompt, as that of R does.
line_at_prompt <- function(prompt) {
  repeat {
    line <- tryCatch(readline(prompt), interrupt = function(c) NULL)
    if (!is.null(line)) return(line)
    cat("\n")
  }
}
