# Hints are added to the error of an element whose cause lies in what has travelled, and what has
# not.

# A node did not find `name`: who has it in the session?
hint_for_name <- function(name) {
  if (!nzchar(name)) return("") # R has no such name
  if (is_of_session(name)) {
    text <- "\nThe node does not have '%s': send it with `.globals = \"%s\"` or cluster_export()"
    return(sprintf(text, name, name))
  }
  packages <- grep("^package:", search(), value = TRUE)
  found <- Find(function(p) exists(name, as.environment(p), inherits = FALSE), packages)
  if (length(found)) {
    package <- sub("^package:", "", found)
    if (!is.null(the$source$packages[[package]]$problem)) return(hint_for_source())
    text <- "\nThe node does not have '%s': attach package '%s' there with `.packages = \"%s\"`"
    return(sprintf(text, name, package, package))
  }
  sprintf("\nNeither the workspace of the session nor a package that is attached there has '%s'%s",
          name, hint_for_source())
}

# Packages that the session has from their source, and of which nodes have no copy.
hint_for_source <- function() {
  problems <- unlist(lapply(the$source$packages, function(p) p$problem))
  if (!length(problems)) return("")
  text <- "\nNodes do not have package '%s' as load_all() has made it of its source: %s"
  paste(sprintf(text, names(problems), problems), collapse = "")
}

# The hint is what an error's text may come from, whatever the node has or has not.
hint_for_text <- function(text) {
  if (grepl("^there is no package called", text)) return(hint_for_source())
  paste0(hint_for_connection(text), hint_for_pointer(text))
}

# Base R, and packages, find out only that the address is none.
hint_for_pointer <- function(text) {
  if (!grepl("NULL value passed as symbol address|external pointer", text)) return("")
  if (grepl("register_travel", text, fixed = TRUE)) return("") # it says so itself
  paste0("\nExternal pointers of compiled code cannot be sent to a node where nothing says how ",
         "they travel (?register_travel): make them on the nodes, in the function or by ",
         "cluster_setup()")
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
