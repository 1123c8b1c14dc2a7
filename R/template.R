# Nodes on hosts that a command of the user's starts: SGE, PBS, LSF, Kubernetes, docker. A
# description as those of hosts.R.

# `template`: a line for a shell, run once for each host, in which these are replaced:
#   {command}  the command that is to run there, as words for a shell
#   {script}   the name of a file that has it, in `folder`
#   {host}     the number of the host, from 1 on
#   {each}     number of nodes there
#   {name}     a name for the job
# `secret`: how the command there hears of the secret: "file", one in `folder`, or "stdin", where
# the template's command passes its standard input on.
launcher <- function(template, hosts = 1L, each = 1L, ..., secret = c("file", "stdin"),
                     name = "clutch", folder = NULL, rscript = "Rscript",
                     rscript_args = character(), env = NULL, modules = NULL, setup = NULL,
                     address = NULL, listen = 0L, tls = TRUE) {
  no_others("launcher", list(...), names(formals()))
  given(template, "template")
  is_template <- function(x) is.character(x) && grepl("{command}|{script}", x, perl = TRUE)
  what <- "one string that has {command} or {script} in it"
  if (is.null(template)) throw("argument", paste("`template` has to be", what))
  check_one(template, "template", is_template, what)
  check_one(hosts, "hosts", is_whole, "a number of hosts, 1 or more")
  new_launch(
    "template", sprintf("host %d", seq_len(hosts)), check_each(each, hosts),
    remote_r(rscript, rscript_args, env, modules, setup), address, listen, tls,
    template = template, secret = match_arg(secret, c("file", "stdin"), "secret"),
    name = check_one(name, "name", is_word, "one word"), folder = check_folder(folder)
  )
}

# The line for host number `k`. What is put in for one word is not looked at for others.
template_line <- function(x, k, command, script) {
  script <- if (startsWith(script, "<folder>")) script else shell_words(script) # not known yet
  values <- c(command = shell_words(command), script = script,
              host = format(k), each = format(x$each[[k]]), name = x$name)
  line <- x$template
  at <- gregexpr("[{](command|script|host|each|name)[}]", line)
  words <- regmatches(line, at)[[1L]]
  regmatches(line, at) <- list(unname(values[substr(words, 2L, nchar(words) - 1L)]))
  line
}
