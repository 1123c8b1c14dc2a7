# What is added to the error of an element whose cause lies in what has travelled, and what has not.

# A node did not find `name`: who has it in the session?
hint_for_name <- function(name) {
  if (is_of_session(name)) {
    text <- "\nThe node does not have '%s': send it with `.globals = \"%s\"` or cluster_export()"
    return(sprintf(text, name, name))
  }
  packages <- grep("^package:", search(), value = TRUE)
  found <- Find(function(p) exists(name, as.environment(p), inherits = FALSE), packages)
  if (length(found)) {
    package <- sub("^package:", "", found)
    text <- "\nThe node does not have '%s': attach package '%s' there with `.packages = \"%s\"`"
    return(sprintf(text, name, package, package))
  }
  sprintf("\nNeither the workspace of the session nor a package that is attached there has '%s'",
          name)
}

# In the workspace, or in a function that is being evaluated and is neither base R's nor ours.
is_of_session <- function(name) {
  if (exists(name, globalenv(), inherits = FALSE)) return(TRUE)
  for (env in sys.frames()) {
    if (environmentName(parent.env(env)) %in% c("base", "clutch")) next
    if (exists(name, env, inherits = FALSE)) return(TRUE)
  }
  FALSE
}

# Base R tells only that a number is none of a connection, or one of another kind.
hint_for_connection <- function(text) {
  if (grepl("^error writing to (the )?connection$", text)) {
    return("\nThe disk may be full there, or a quota used up")
  }
  known <- c("invalid connection", "can(not| only) (read from|write to) ",
             "not enabled for this connection")
  if (!any(vapply(known, grepl, NA, text))) return("")
  paste0("\nConnections cannot be sent to a node: ",
         "one that was opened in the session is not open there. ",
         "Open it in the function")
}
