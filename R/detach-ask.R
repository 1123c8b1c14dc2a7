# Detached maps on another host: `.detach = list(on = "login")`. The session needs to reach that
# host when the map is submitted, and when somebody asks for it. Between the two it may be off.
#
# Each question is one ssh: an R there gets list(command, argument) on its standard input, answers
# on its standard output, and ends. There the map has an entry as any other; here it has one whose
# job.rds has `there`: list(on, id).

THERE_MARK <- "clutch answer follows"
THERE_TIME <- 10 # seconds to connect
THERE_WAIT <- 20 # seconds that an R there waits for the end of a map

# The value of a command of commands_there, as the host `on` has it. An error there is one here.
ask_there <- function(on, command, argument = NULL) {
  folder <- tempfile("clutch-ask-")
  dir.create(folder, mode = "0700")
  on.exit(unlink(folder, recursive = TRUE))
  file <- function(name) file.path(folder, name)
  write_object(list(command = command, argument = argument, version = own_version()),
               file("question"))
  there <- c(remote_command(on$r, there_code(on$r$lib)))
  limit <- if (is_ssh(on$ssh[[1L]])) c("-o", sprintf("ConnectTimeout=%d", THERE_TIME))
  argv <- c(on$ssh, limit, "-T", on$hosts[[1L]], paste0(shell_words(there), "; exit"))
  status <- system2(argv[[1L]], shQuote(argv[-1L]), stdin = file("question"),
                    stdout = file("answer"), stderr = "")
  answer <- read_answer(file("answer"))
  if (is.null(answer)) {
    text <- "host '%s' has given no answer: '%s' has ended with status %d%s"
    throw("host", sprintf(text, on$hosts[[1L]], paste(on$ssh, collapse = " "), status,
                          last_lines(file("answer"))))
  }
  if (inherits(answer, "error")) stop(answer)
  answer$value
}

there_code <- function(lib) {
  if (is.null(lib)) return("clutch:::answer_from_there()")
  sprintf("loadNamespace(\"clutch\", lib.loc = %s)$answer_from_there()", deparse1(lib))
}

# The answer follows what the profile there prints. NULL: there is none.
read_answer <- function(file) {
  size <- file.size(file)
  if (is.na(size) || size == 0) return(NULL)
  bytes <- readBin(file, "raw", size)
  mark <- charToRaw(paste0(THERE_MARK, "\n"))
  at <- grepRaw(mark, bytes, fixed = TRUE)
  if (!length(at)) return(NULL)
  tryCatch(unserialize(bytes[-seq_len(at + length(mark) - 1L)]), error = function(e) NULL)
}
