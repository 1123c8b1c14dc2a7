# Conditions of this package. One function throws all errors: class "clutch_<what>", then
# "clutch_error".

throw <- function(what, text, ...) stop(error_of(what, text, ...))

error_of <- function(what, text, ...) {
  errorCondition(text, ..., class = c(paste0("clutch_", what), "clutch_error"), call = NULL)
}

say <- function(text) cli::cli_inform(c(i = "{text}"))

# The value is what a condition says, as one text, whatever its conditionMessage() gives or does; it
# is the beginning of a very long text.
message_of <- function(cond, most = 8000L) {
  text <- tryCatch(
    suppressWarnings(as.character(conditionMessage(cond))),
    error = function(e) NULL
  )
  if (!length(text)) {
    return(sprintf("a condition of class '%s' without a message", class(cond)[[1L]]))
  }
  if (length(text) > 1L) text <- paste(utils::head(text, 100L), collapse = "\n")
  if (!validEnc(text)) text <- iconv(text, to = "UTF-8", sub = "byte")
  n <- nchar(text)
  if (is.na(n) || n <= most) return(text)
  sprintf("%s... (%d characters)", substr(text, 1L, most), n)
}

# A condition, and those that have led to it.
chain_of <- function(e) {
  chain <- list()
  while (inherits(e, "condition") && is.list(e) && length(chain) < 100L) {
    chain <- c(chain, list(e))
    e <- e$parent
  }
  chain
}

# user_code() of node-tasks.R, as code that is evaluated elsewhere names it.
USER_CODE <- call(":::", quote(clutch), quote(user_code))

# How the line begins by which a node tells of the copy that it has made (node-frozen.R) of a task
# whose time is up; and what a node says of it where this job has a copy for the same message, which
# another node may not have told of yet.
FROZEN_LINE <- "\001frozen "
ELSEWHERE <- "elsewhere"

# `where`: in the fork server, or on a node.
preload_error <- function(why, where) {
  text <- sprintf("the expression of `preload` failed %s: %s; nothing was left running", where, why)
  classes <- c("clutch_setup", "clutch_start", "clutch_error")
  errorCondition(text, why = why, class = classes, call = NULL)
}

error_of_package <- function(package, why) {
  text <- sprintf("package '%s' cannot be attached on the nodes: %s", package, why)
  error_of("package", text, package = package)
}

# ---- how many ----

MOST_CLASSES <- 100L

# `n` more of the class of `cond`. `said`: the condition with the message to be remembered.
counted <- function(counts, cond, said = cond, n = 1) {
  class <- class(cond)[[1L]]
  known <- counts[[class]]
  if (is.null(known)) {
    if (length(counts) >= MOST_CLASSES) return(counts)
    known <- list(count = 0, message = message_of(said, 300L))
  }
  known$count <- known$count + n
  counts[[class]] <- known
  counts
}

# One that was no error on the node is none here: options(warn = 2) of the session held there,
# unless the element has set it itself, or suppressWarnings() is around the map.
show_warning <- function(cond) {
  if (getOption("warn") >= 2) {
    old <- options(warn = 1)
    on.exit(options(old))
  }
  .Call(ffi_show_warning, conditionMessage(cond), conditionCall(cond))
}
