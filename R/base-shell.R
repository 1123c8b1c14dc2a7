# Programs for a shell: files in inst/node, which `make lint` checks.

# The lines of inst/node/<name>.sh without its comments. A word @part@ stands for the argument of
# that name: text, or lines.
shell_lines <- function(name, ...) {
  lines <- the$shell[[name]]
  if (is.null(lines)) {
    file <- system.file("node", paste0(name, ".sh"), package = "clutch", mustWork = TRUE)
    lines <- grep("^ *#([^!]|$)", readLines(file), value = TRUE, invert = TRUE)
    the$shell[[name]] <- lines
  }
  parts <- list(...)
  for (part in names(parts)) {
    text <- paste(parts[[part]], collapse = "\n")
    lines <- gsub(paste0("@", part, "@"), text, lines, fixed = TRUE)
  }
  lines
}

# The value is the same program in one line.
shell_line <- function(name, ...) {
  lines <- sub("^ +", "", shell_lines(name, ...))
  is_open <- grepl("(do|then|else|[{])$", lines)
  last <- length(lines)
  paste0(lines, c(ifelse(is_open, " ", "; ")[-last], ""), collapse = "")
}
