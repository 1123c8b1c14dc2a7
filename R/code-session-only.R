# This file finds objects that are of use in this process only: connections, and external pointers,
# behind which is memory of compiled code. In another process a pointer is nil, and the number of a
# connection is that of another one, or of none.
#
# The search for globals finds out whether there is any that would travel, at little cost
# (src/r/globals/search.c). Where there is, it matters only if code uses it: a frame may have a
# connection that its functions do not touch. So it is followed from code to code then: a closure
# leads to the variables that it names, what is in a variable to all that is in it. What a recipe
# takes (R/code-travel.R) is none, nor what makes its pointer anew.

# ---- the maps of mclapply() ----

# An error of class "clutch_session_only" where `fun` uses such an object, or `x` or `dots` has one.
refuse_session_only <- function(fun, x, dots) {
  if (option_choice("clutch.session_only", c("refuse", "send")) == "send") return(invisible())
  search <- .Call(ffi_globals_new)
  search_all(search, list(fun, x, dots))
  if (!.Call(ffi_globals_pointer, search)) return(invisible())
  visited <- visited_new(registered_recipes())
  found <- pointer_in(x, "X", visited)
  for (k in seq_along(dots)) {
    name <- if (nzchar(c(names(dots)[k], "")[[1L]])) names(dots)[[k]] else sprintf("..%d", k)
    if (is.null(found)) found <- pointer_in(dots[[k]], name, visited)
  }
  if (is.null(found)) found <- pointer_in(fun, "FUN", visited)
  if (!is.null(found)) throw_session_only(found)
}

throw_session_only <- function(found) {
  what <- if (inherits(found$object, "connection")) {
    "a connection"
  } else {
    sprintf("an object of compiled code (an external pointer%s)",
            if (nzchar(found$class)) paste0(", in an object of class ", found$class) else "")
  }
  text <- paste0("'%s' is or holds %s, which only this session can use: open or make it within ",
                 "the function. If it mends itself where it was copied, set ",
                 "options(clutch.session_only = \"send\").")
  throw("session_only", sprintf(text, found$name, what), name = found$name)
}

# ---- maps and tasks ----

# Says of the first such object where it is, as `pointers` wants: by an error of class
# "clutch_pointer", or a warning of the same class. `found`: of pointer_in(), or NULL.
tell_pointer <- function(found, pointers, of_result = FALSE) {
  if (is.null(found)) return(invisible())
  what <- if (inherits(found$object, "connection")) "connection" else "external pointer"
  class <- setdiff(c(class(found$object)[[1L]], found$class), c("externalptr", ""))
  class <- c(class, "")[[1L]]
  of <- if (nzchar(class)) paste(" of class", class) else ""
  text <- sprintf("`%s` is %s %s%s, which only the process that made it can use", found$path,
                  if (what == "connection") "a" else "an", what, of)
  if (pointers == "warn") {
    text <- paste0(text, ": it is of no use there")
    warning(warningCondition(text, class = "clutch_pointer", path = found$path,
                             object_class = class))
    return(invisible())
  }
  cure <- sprintf("make it within the function, or say by register_travel(%s) how it travels",
                  if (nzchar(class)) dQuote(class, FALSE) else "class, to, from")
  if (what == "connection") cure <- "open it within the function"
  if (of_result) cure <- sub("make it within the function", "return data in its place", cure)
  text <- paste0(text, ": ", cure, ". If it does no harm, say .pointers = \"allow\"")
  throw("pointer", text, path = found$path, object_class = class)
}

# ---- the search ----

# Their packages make a new pointer where it is nil, or they are of use without it.
mends_itself <- c(
  "igraph", "xgb.Booster", # these packages
  "merPredD", "lmResp", "glmResp", "nlsResp", "lmerResp", # lme4
  "stanfit", "stanmodel", # rstan, rstanarm, brms
  "CmdStanFit", "CmdStanModel", "CmdStanRun", # cmdstanr
  "RsamtoolsFile", "RsamtoolsFileList", # Rsamtools
  "ff", "recordedplot"
)

# So do these, by the name that the pointer has: those of TMB and glmmTMB.
mends_itself_by_name <- c("ADFun", "parallelADFun", "DoubleFun")

# And closures that a package has made: those of fastmap, which cachem, memoise and shiny use.
mends_itself_in <- "fastmap"

mends <- function(x) {
  if (inherits(x, mends_itself)) return(TRUE)
  if (typeof(x) == "closure") return(environmentName(topenv(environment(x))) %in% mends_itself_in)
  name <- .Call(ffi_pointer_tag, x)
  !is.null(name) && name %in% mends_itself_by_name
}

# `paths`: where objects are that recipes take, by address.
visited_new <- function(registered) {
  visited <- new.env(parent = emptyenv())
  visited$objects <- new.env(parent = emptyenv())
  visited$paths <- new.env(parent = emptyenv())
  visited$registered <- registered
  visited$classes <- names(registered)
  visited
}

# Tells whether a recipe takes anything in what was searched: after one that was found the search
# has not gone on.
needs_packing <- function(found, visited) !is.null(found) || length(visited$paths) > 0L

# The first such object that `x`, known as `name`, leads to: list(name, path, object, class), or
# NULL. `path`: how `x` is reached, in R's words; `class`: of what it is in. What is still to be
# visited is in a list, not in calls: objects may be linked by thousands.
pointer_in <- function(x, name, visited) {
  todo <- list(place_of(x, name, name, ""))
  n <- 1L
  while (n > 0L) {
    at <- todo[[n]]
    todo[n] <- list(NULL)
    n <- n - 1L
    if (is_of_no_concern(at, visited)) next
    if (.Call(ffi_is_pointer, at$object) || inherits(at$object, "connection")) return(at)
    for (part in rev(places_in(at, visited))) {
      n <- n + 1L
      todo[[n]] <- part
    }
  }
}

place_of <- function(object, name, path, class) {
  list(name = name, path = path, object = object, class = class)
}

is_of_no_concern <- function(at, visited) {
  x <- at$object
  if (.Call(ffi_only_data, x, visited$classes, Inf) || is_terminal(x)) return(TRUE)
  if (inherits(x, c("clutch_cluster", "clutch_node", "clutch_task"))) return(TRUE) # they say it
  if (is.null(recipe_of(x, visited$registered))) return(mends(x))
  visited$paths[[.Call(ffi_address, x)]] <- at$path
  TRUE
}

# The places of all that an object leads to and that is not only data.
places_in <- function(at, visited) {
  x <- at$object
  if (is.object(x)) at$class <- class(x)[[1L]]
  type <- typeof(x)
  parts <- switch(type,
    closure = variables_of(x, visited),
    environment = variables_in(x, visited),
    list = , expression = , language = , pairlist = as.list(unclass(x)) # not a method of its class
  )
  is_data <- function(part) .Call(ffi_only_data, part, visited$classes, Inf)
  at_part <- function(k) {
    if (is_data(parts[k])) return(NULL) # in a list: an argument may be missing, as in x[1, ]
    part <- .subset2(parts, k)
    name <- names(parts)[k]
    if (type == "closure") return(place_of(part, name, name, "")) # variables have names themselves
    place_of(part, at$name, path_of_part(at$path, type, name, k), at$class)
  }
  all <- attributes(x)
  at_attribute <- function(name) {
    if (is_data(all[[name]])) return(NULL)
    path <- sprintf(if (isS4(x)) "%s@%s" else "attr(%s, \"%s\")", at$path, name)
    place_of(all[[name]], at$name, path, at$class)
  }
  found <- c(lapply(seq_along(parts), at_part),
             lapply(setdiff(names(all), attributes_left_out), at_attribute),
             if (type == "closure") lapply(list(formals(x), body(x)), place_of, at$name, at$path,
                                           at$class))
  found[lengths(found) > 0L]
}

path_of_part <- function(path, type, name, k) {
  if (type %in% c("language", "pairlist")) return(path)
  if (length(name) && !is.na(name) && nzchar(name))
    return(paste0(path, "$", as_name_in_code(name)))
  sprintf("%s[[%d]]", path, k)
}

as_name_in_code <- function(name) if (make.names(name) == name) name else paste0("`", name, "`")

# `.internal.selfref` is a data.table's, `versionKey` of the definition of an S4 class: both do
# without.
attributes_left_out <- c("names", "class", "dim", "srcref", "srcfile", "wholeSrcref",
                         ".Environment", ".internal.selfref", "versionKey")

is_terminal <- function(x) {
  if (is.null(x) || is.symbol(x) || is.primitive(x)) return(TRUE)
  if (!is.atomic(x)) return(FALSE)
  is_standard <- inherits(x, "connection") && x[[1L]] < 3L # as stdout(): every process has them
  is.null(attributes(x)) || is_standard
}

# The variables that a closure names, and does not get as arguments, with their values.
variables_of <- function(f, visited) {
  env <- environment(f)
  if (isNamespace(env) || was_visited(f, visited)) return(NULL)
  top <- topenv(env)
  if (identical(top, globalenv())) top <- parent.env(top)
  code <- as.call(list(as.name("function"), formals(f), body(f)))
  frame <- new.env()
  others <- .Call(ffi_globals_locals, .Call(ffi_globals_new), code, env, top, frame)
  values <- as.list(frame, all.names = TRUE)
  for (name in others) {
    values[name] <- list(tryCatch(get(name, env), error = function(e) NULL))
  }
  values
}

variables_in <- function(env, visited) {
  if (stays_here(env) || was_visited(env, visited)) return(NULL)
  .Call(ffi_known_values, env)
}

# Tells whether the environment is one that does not travel.
stays_here <- function(env) {
  identical(env, globalenv()) || identical(env, baseenv()) || isNamespace(env) ||
    identical(env, emptyenv()) || !is.null(attr(env, "path"))
}

# A closure that was made of another is another object, with the same code: it is asked for its
# frame once.
was_visited <- function(x, visited) {
  address <- .Call(ffi_address, x)
  if (!is.null(visited$objects[[address]])) return(TRUE)
  visited$objects[[address]] <- list(x)
  FALSE
}
