# Objects with pointers are packed for their way, by recipes (R/code-travel.R).
#
# pack() writes an object by serialize(), whose `refhook` leaves gaps: for what a recipe takes, for
# large vectors, which travel beside it by shared memory, and for environments that have one of
# these in a variable. unpack() fills them. Where nothing needs a recipe it is not asked:
# find_needs() knows whether there is any pointer, and a node sees one when it writes a result.

# ---- what has to be packed ----

# Vectors of so many elements and more travel beside the rest.
BESIDE_FROM <- 20000L

# `paths`: where the objects are that a recipe takes, for errors, see pointer_in().
packing <- function(registered, paths = NULL) {
  s <- new.env(parent = emptyenv())
  s$registered <- registered
  s$classes <- names(registered)
  s$paths <- paths
  s$changes <- 0L # so many gaps so far
  s$known <- new.env(parent = emptyenv()) # by address: the text that stands for an object
  s$held <- new.env(parent = emptyenv()) # these objects
  s$seen <- new.env(parent = emptyenv()) # by address: environments
  s$made <- list() # by recipes: list(class, from, data)
  s$beside <- list() # large vectors
  s$frames <- list() # environments with gaps: their contents
  s$queue <- new.env(parent = emptyenv()) # environments that are still to be visited, by number
  s$queued <- s$done <- 0L
  s$libraries <- list() # files of compiled code, by path
  s
}

# The object as it travels: itself, or what unpack() takes.
pack <- function(x, registered, paths = NULL) {
  s <- packing(registered, paths)
  y <- all_with_gaps(x, s)
  if (!length(s$made)) return(x)
  bytes <- serialize(list(y, s$frames), NULL, xdr = FALSE, refhook = function(x) text_for(x, s))
  structure(list(bytes = bytes, made = s$made, beside = s$beside, libraries = s$libraries,
                 n = length(s$frames)),
            class = "clutch_packed")
}

all_with_gaps <- function(x, s) {
  y <- with_gaps(x, s)
  while (s$done < s$queued) {
    s$done <- s$done + 1L
    contents_with_gaps(s$queue[[as.character(s$done)]], s)
  }
  y
}

# By the address of each object that a recipe takes: list(class, from, data), see made_again(). Of a
# file of compiled code the data has the bytes, and not where it is. `held`: keeps these objects.
made_by_address <- function(x, registered) {
  s <- packing(registered)
  all_with_gaps(x, s)
  known <- mget(ls(s$known, sorted = FALSE), envir = s$known)
  known <- known[startsWith(as.character(known), "m")]
  made <- lapply(known, function(text) {
    what <- s$made[[as.integer(substring(text, 2L))]]
    if (inherits(what$data, "clutch_library")) {
      bytes <- s$libraries[[what$data$path]]
      what$data <- list(what$data$symbol, what$data$package, bytes)
    }
    what
  })
  list(made = made, held = s$held)
}

text_for <- function(x, s) {
  if (inherits(x, "clutch_gap")) return(x$text)
  s$known[[.Call(ffi_address, x)]]
}

remember_text <- function(x, text, s) {
  address <- .Call(ffi_address, x)
  s$held[[address]] <- x
  s$known[[address]] <- text
}

# An object that stands for another, which is no environment or pointer.
gap <- function(text, s) {
  s$changes <- s$changes + 1L
  g <- new.env(hash = FALSE, parent = emptyenv())
  g$text <- text
  structure(g, class = "clutch_gap")
}

# The object with gaps in it. What is in environments is written down in `s`.
with_gaps <- function(x, s) {
  if (goes_beside(x)) return(beside(x, s))
  if (needs_no_gap(x, s)) return(x)
  if (inherits(x, c("clutch_cluster", "clutch_node", "clutch_task", "clutch_gap"))) return(x)
  recipe <- recipe_of(x, s$registered)
  if (!is.null(recipe)) {
    y <- made_again(x, recipe, s)
    if (!is.null(y)) return(y)
  }
  if (mends(x)) return(x)
  switch(typeof(x),
    list = , expression = x <- parts_with_gaps(x, s),
    language = , pairlist = x <- code_with_gaps(x, s),
    closure = x <- closure_with_gaps(x, s),
    environment = frame_with_gaps(x, s)
  )
  attributes_with_gaps(x, s)
}

needs_no_gap <- function(x, s) .Call(ffi_only_data, x, s$classes, BESIDE_FROM)

goes_beside <- function(x) is.atomic(x) && length(x) >= BESIDE_FROM && is.null(attributes(x))

beside <- function(x, s) {
  address <- .Call(ffi_address, x)
  text <- s$known[[address]]
  if (is.null(text)) {
    s$beside <- c(s$beside, list(x))
    text <- paste0("b", length(s$beside))
    remember_text(x, text, s)
  }
  gap(text, s)
}

# NULL: the recipe says that it may travel as it is.
made_again <- function(x, recipe, s) {
  text <- s$known[[.Call(ffi_address, x)]]
  if (is.null(text)) {
    data <- tryCatch(recipe$to(x), error = function(e) throw_recipe(x, e, s))
    if (identical(data, as_it_is)) return(NULL)
    if (inherits(data, "clutch_library")) s$libraries[[data$path]] <- library_bytes(data$path)
    text <- paste0("m", length(s$made) + 1L)
    is_own <- !is.null(recipe$package)
    s$made <- c(s$made, list(list(class = recipe$class, from = if (!is_own) recipe$from,
                                  data = pack(data, s$registered))))
    remember_text(x, text, s)
  }
  if (typeof(x) %in% c("environment", "externalptr")) x else gap(text, s)
}

throw_recipe <- function(x, e, s) {
  path <- s$paths[[.Call(ffi_address, x)]]
  class <- class(x)[[1L]]
  what <- if (is.null(path)) "an object" else sprintf("`%s`, an object", path)
  throw("pointer", sprintf("%s of class %s cannot travel: %s", what, class, conditionMessage(e)),
        path = path, object_class = class, parent = e)
}

parts_with_gaps <- function(x, s) {
  out <- unclass(x)
  before <- s$changes
  for (k in seq_along(out)) {
    if (needs_no_gap(out[k], s)) next # in a list: an argument may be missing, as in x[1, ]
    now <- s$changes
    part <- with_gaps(.subset2(out, k), s)
    if (s$changes > now) out[k] <- list(part)
  }
  if (s$changes == before) return(x)
  attributes(out) <- attributes(x)
  out
}

code_with_gaps <- function(x, s) {
  before <- s$changes
  parts <- parts_with_gaps(as.list(unclass(x)), s)
  if (s$changes == before) return(x)
  out <- if (is.call(x)) as.call(parts) else as.pairlist(parts)
  attributes(out) <- attributes(x)
  out
}

closure_with_gaps <- function(x, s) {
  frame_with_gaps(environment(x), s)
  now <- s$changes
  arguments <- with_gaps(formals(x), s)
  # a body that is a vector is small, or R could not make the function of a gap
  code <- if (is.language(body(x))) with_gaps(body(x), s) else body(x)
  if (s$changes == now) return(x)
  kept <- attributes(x)
  x <- as.function(c(as.list(arguments), list(code)), environment(x))
  attributes(x) <- kept
  x
}

attributes_with_gaps <- function(x, s) {
  all <- attributes(x)
  for (name in setdiff(names(all), setdiff(attributes_left_out, ".Environment"))) {
    if (needs_no_gap(all[[name]], s)) next
    now <- s$changes
    value <- with_gaps(all[[name]], s)
    if (s$changes > now && typeof(x) != "environment") attr(x, name) <- value
  }
  x
}

# An environment is one object with all who refer to it: so its contents are written apart. They are
# looked at when the rest has been: environments may be linked by thousands.
frame_with_gaps <- function(env, s) {
  address <- .Call(ffi_address, env)
  if (stays_here(env) || !is.null(s$seen[[address]])) return(invisible())
  s$seen[[address]] <- TRUE
  s$queued <- s$queued + 1L
  s$queue[[as.character(s$queued)]] <- env
}

contents_with_gaps <- function(env, s) {
  now <- s$changes
  values <- parts_with_gaps(.Call(ffi_known_values, env), s)
  changed <- s$changes > now
  frame_with_gaps(parent.env(env), s)
  attributes_with_gaps(env, s)
  if (!changed) return(invisible())
  number <- length(s$frames) + 1L
  s$frames[[number]] <- frame_contents(env, values)
  remember_text(env, paste0("e", number), s)
}

# The contents of an environment that are written: `values` with gaps, and what these leave out.
frame_contents <- function(env, values) {
  names <- ls(env, all.names = TRUE, sorted = FALSE)
  active <- names[vapply(names, bindingIsActive, NA, env)]
  missing <- character()
  for (name in setdiff(names, c(active, names(values), "..."))) {
    value <- value_or_null(list(get(name, env, inherits = FALSE)))
    values[name] <- value
    if (is.null(value)) missing <- c(missing, name)
  }
  dots <- new.env(parent = emptyenv())
  .Call(ffi_copy_dots, env, dots)
  list(values = values, dots = dots, missing = missing,
       active = sapply(active, activeBindingFunction, env, simplify = FALSE),
       parent = parent.env(env), attributes = attributes(env), is_locked = environmentIsLocked(env),
       locked = names[vapply(names, bindingIsLocked, NA, env)])
}

# ---- unpacking ----

# The object that was packed.
unpack <- function(packed) {
  if (!inherits(packed, "clutch_packed")) return(packed)
  take_libraries(packed$libraries)
  frames <- lapply(seq_len(packed$n), function(k) new.env(parent = emptyenv()))
  made <- vector("list", length(packed$made))
  fill <- function(text) {
    k <- as.integer(substring(text, 2L))
    kind <- substr(text, 1L, 1L)
    if (kind == "b") return(packed$beside[[k]])
    if (kind == "e") return(frames[[k]])
    if (is.null(made[[k]])) made[[k]] <<- list(make_again(packed$made[[k]]))
    made[[k]][[1L]]
  }
  both <- unserialize(packed$bytes, refhook = fill)
  for (k in seq_along(frames)) fill_frame(frames[[k]], both[[2L]][[k]])
  both[[1L]]
}

make_again <- function(what) {
  from <- what$from
  if (is.null(from)) from <- own_recipes[[what$class]]$from
  data <- unpack(what$data)
  tryCatch(from(data), error = function(e) {
    text <- sprintf("an object of class %s cannot be made again here: %s", what$class,
                    conditionMessage(e))
    throw("pointer", text, object_class = what$class, parent = e)
  })
}

fill_frame <- function(env, contents) {
  list2env(contents$values, env)
  .Call(ffi_copy_dots, contents$dots, env)
  for (name in contents$missing) assign(name, substitute(), envir = env)
  parent.env(env) <- contents$parent
  for (name in names(contents$active)) makeActiveBinding(name, contents$active[[name]], env)
  attributes(env) <- contents$attributes
  for (name in contents$locked) lockBinding(name, env)
  if (contents$is_locked) lockEnvironment(env)
}

# A value that has come to the session. What cannot be made again here is an error in its place, and
# there is a warning.
unpack_result <- function(packed) {
  x <- unpack_or_why(packed)
  if (!inherits(x, "clutch_not_made")) return(x)
  warn_not_made(x)
  x[[1L]]
}

# Does the same without the warning: list(error), of class "clutch_not_made". src/r/tasks/values.c
# keeps the error before it warns, as a handler of the warning may jump.
unpack_or_why <- function(packed) {
  tryCatch(unpack(packed), error = function(e) structure(list(e), class = "clutch_not_made"))
}

warn_not_made <- function(x) {
  text <- paste("of a result", conditionMessage(x[[1L]]))
  warning(warningCondition(text, class = "clutch_pointer"))
}
