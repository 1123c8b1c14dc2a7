# How R is started on another host, as a command for a shell.

# How R is started on another host: a list. `modules`: names for `module load`; `setup`: lines of
# shell that come before R.
remote_r <- function(rscript, rscript_args, env, modules, setup) {
  is_program <- function(x) is.character(x) && nzchar(x) && !grepl("^[-~]", x)
  what <- "a program on the PATH there, or its full path"
  if (is.null(rscript)) rscript <- "Rscript"
  check_one(rscript, "`rscript`", is_program, what)
  env <- check_env(env)
  bad <- grep("^[A-Za-z_][A-Za-z0-9_]*$", names(env), value = TRUE, invert = TRUE)
  if (length(bad)) throw("argument", sprintf("`env`: '%s' is no name for a shell", bad[[1L]]))
  modules <- check_strings(modules, "`modules`")
  bad <- grep("^[A-Za-z0-9_][A-Za-z0-9_./+@=:-]*$", modules, value = TRUE, invert = TRUE)
  if (length(bad)) throw("argument", sprintf("`modules`: '%s' is no name of a module", bad[[1L]]))
  list(rscript = rscript, rscript_args = check_strings(rscript_args, "`rscript_args`"), env = env,
       modules = modules, setup = check_strings(setup, "`setup`"))
}

# Arguments of a program that needs no shell. `code`: what R does there. A login shell knows what
# `module` is; a line that fails is the end.
remote_command <- function(r, code, methods = TRUE) {
  # what a node starts inherits its mark, by which the fork server knows whose it is
  env <- c(CLUTCH_STARTING = "1", CLUTCH_MARK = strrep("0", 32L), quick_start_there(r), r$env)
  command <- c("env", paste0(names(env), "=", env), r$rscript, default_packages_argument(methods),
               r$rscript_args, "-e", code)
  before <- c(if (length(r$modules)) paste("module load", shell_words(r$modules)), r$setup)
  if (!length(before)) return(command)
  c("bash", "-lc", paste(c(before, paste("exec", shell_words(command))), collapse = " && "))
}

# These variables make an R there start sooner, where the user does not say otherwise. The settings
# of the host name these, too, since what that R starts is not to have them.
quick_start_there <- function(r) {
  quick <- quick_start(character())
  quick[setdiff(names(quick), names(r$env))]
}

# One line for a shell. Quoted is what has to be; by double quotes where that is easier to read, and
# nothing in the word has a meaning within them.
shell_words <- function(words) {
  is_plain <- grepl("^[A-Za-z0-9_@%+=:,./-]+$", words)
  by_double <- grepl("'", words, fixed = TRUE) & !grepl("[\"$`\\\\!\n]", words)
  single <- paste0("'", gsub("'", "'\\''", words, fixed = TRUE), "'")
  quoted <- ifelse(by_double, paste0("\"", words, "\""), single)
  paste(ifelse(is_plain, words, quoted), collapse = " ")
}
