# Programs in a terminal, by tmux.

# A terminal with an R in it: list(type, key, interrupt, close, tmp, screen).
start_terminal <- function() {
  tmp <- tempfile("session-")
  dir.create(tmp)
  socket <- tempfile("tmux-")
  dir.create(socket, mode = "0700")
  tmux <- function(...) {
    system2("env",
            c("-u", "TMUX", paste0("TMUX_TMPDIR=", socket), "tmux", "-f", "/dev/null", "-L",
              "clutch", ...),
            stdout = TRUE, stderr = TRUE)
  }
  # of an R that has ended; the terminal is open for a while then
  status <- file.path(socket, "status")
  command <- sprintf(
    "trap : INT; env TMPDIR=%s R_LIBS=%s R_TESTS= %s --vanilla --quiet; echo $? > %s; sleep 10",
    tmp, paste(.libPaths(), collapse = ":"), file.path(R.home("bin"), "R"), status)
  tmux("new-session", "-d", "-s", "r", "-x", "150", "-y", "50", shQuote(command))
  list(tmp = tmp, type = function(line) {
    tmux("send-keys", "-t", "r", "-l", "--", shQuote(line), "';'", "send-keys", "-t", "r", "Enter")
  },
       key = function(key) tmux("send-keys", "-t", "r", key),
       interrupt = function() tmux("send-keys", "-t", "r", "C-c"),
       screen = function() {
         c(if (file.exists(status)) paste("R has ended with status", readLines(status)),
           suppressWarnings(tmux("capture-pane", "-p", "-t", "r")))
       },
       close = function() {
         suppressWarnings(tmux("kill-server"))
         unlink(socket, recursive = TRUE)
       })
}

# Tells whether the last line on its screen matches, or does so soon.
# `before`: another screen than this one.
ends_with <- function(term, pattern, before = NULL) {
  is_last <- function() {
    screen <- term$screen()
    lines <- screen[nzchar(screen)]
    length(lines) > 0L && !identical(screen, before) && grepl(pattern, lines[[length(lines)]])
  }
  eventually(is_last(), 60)
}
