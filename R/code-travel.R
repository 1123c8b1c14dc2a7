# Objects that are of use in one process only, on their way to another. A pointer of compiled code is
# nil where it arrives. So what has one travels as data of which it is made again there, by a recipe:
#   class    of the objects
#   to       function of an object: the data
#   from     function of the data: the object
#   package  what is needed for that, for recipes of this package (R/code-recipes.R)
#   also     a class that the objects have, too, where the name of theirs is a usual word
# Users and packages add theirs by register_travel(), or have told package mirai.
#
# pack() writes an object by serialize(), whose `refhook` leaves gaps: for what a recipe takes, for
# large vectors, which travel beside it by shared memory, and for environments that have one of these
# in a variable. unpack() fills them. Where nothing needs a recipe there is no such object:
# find_needs() knows whether there is any pointer.

#' Say how objects of a class travel to the nodes
#'
#' @description
#' Objects with external pointers in them are of use in one process only: models, tables, handles
#' and connections of compiled code. `register_travel()` says of which data they are made again in
#' another one. Then they travel in variables, constants, elements and results of maps and tasks, on
#' their own or within lists, closures and R6 objects.
#'
#' What packages have said to \pkg{mirai} by its `register_serial()` holds here, too. Recipes for
#' the following are in this package: arrow (tables, arrays, schemas, data sets of files), polars,
#' torch (tensors, modules), xgboost, lightgbm, keras, luz and h2o (by \pkg{bundle}), terra,
#' \pkg{xml2}, XML, magick, bigmemory, connections of RSQLite, duckdb, RPostgres and RMariaDB
#' (made anew on the node), and functions of `Rcpp::sourceCpp()`, whose library file travels.
#'
#' @details
#' `from` runs where the object arrives: it travels as any function, with what it needs. A node makes
#' an object that all elements use once for a map. An object that is in two places of what travels
#' together is one object there, too.
#'
#' A connection to a database is made anew with the same arguments. A database in memory of RSQLite
#' travels with its tables, one of duckdb cannot travel. Passwords do not travel: RPostgres and
#' RMariaDB find them as their libraries do (`PGPASSWORD`, `~/.pgpass`, `~/.my.cnf`).
#'
#' The functions of package \pkg{parallel} send pointers as base R does: nil.
#' @param class character vector: names of classes. A subclass has the recipe of its parent, unless
#'   there is one for itself.
#' @param to function of an object of that class, which returns data that can be serialized; `NULL`:
#'   forget what was said of these classes.
#' @param from function of the data, which returns the object.
#' @return `NULL`, invisibly.
#' @section Errors: `clutch_argument`: an argument is of no use. Of maps and tasks:
#'   * `clutch_pointer` (`path`, `object_class`): what travels has an external pointer, and nothing
#'     says how it is made again. It is signalled before anything starts; where a result has the
#'     pointer, it is the error of that element (in `parent`). See argument `.pointers` of
#'     [cluster_map()].
#'   ```
#'   f <- function(i) xml2::xml_text(node)
#'   tryCatch(cluster_map(cl, 1:2, f), clutch_pointer = function(e) e$path)
#'   ```
#' @seealso [cluster_map()] for `.pointers`
#' @examples
#' # a connection that reads a text, as a package might have it
#' reader <- function(lines) {
#'   structure(list(lines = lines, con = textConnection(lines)), class = "reader")
#' }
#' register_travel("reader", to = function(x) x$lines, from = reader)
#' r <- reader(c("a", "b"))
#' cl <- make_cluster(2)
#' cluster_map(cl, 1:2, function(i) readLines(r$con, 1))
#' stop_cluster(cl)
#' close(r$con)
#' register_travel("reader", NULL)
#' @export
register_travel <- function(class, to, from = NULL) {
  is_class <- is.character(class) && length(class) > 0L && !anyNA(class) && all(nzchar(class))
  if (!is_class) has_to_be("`class`", "names of classes")
  if (!is.null(to)) {
    if (!is.function(to)) has_to_be("`to`", "a function of an object, or NULL")
    if (!is.function(from)) has_to_be("`from`", "a function of the data that `to` returns")
  }
  for (name in class) {
    the$travel[[name]] <- if (!is.null(to)) list(class = name, to = to, from = from)
  }
  invisible()
}

# ---- recipes ----

# By class: what users have registered, and packages for mirai.
registered_recipes <- function() {
  recipes <- mirai_recipes()
  recipes[names(the$travel)] <- the$travel
  recipes
}

# Of mirai's own list: classes, functions to raw vectors, functions from these. Packages that wait
# for mirai before they register, as polars does, are heard when it is loaded.
mirai_recipes <- function() {
  waits <- length(getHook(packageEvent("mirai", "onLoad"))) > 0L
  if (!isNamespaceLoaded("mirai") && !(waits && requireNamespace("mirai", quietly = TRUE)))
    return(list())
  state <- get0(".", asNamespace("mirai"), inherits = FALSE)
  serial <- if (is.environment(state)) state[["serial"]]
  is_known <- is.list(serial) && length(serial) == 3L && is.character(serial[[1L]]) &&
    length(unique(lengths(serial))) == 1L
  if (!is_known) return(list())
  recipes <- .mapply(function(class, to, from) list(class = class, to = to, from = from), serial,
                     NULL)
  names(recipes) <- serial[[1L]]
  recipes[!duplicated(names(recipes), fromLast = TRUE)]
}

# The functions of these travel, and what they need has to. Nearly always there is none.
functions_of_recipes <- function() lapply(unname(registered_recipes()), `[`, c("to", "from"))

# Tells whether objects of one of these classes are to travel by a recipe of the user's: they may have
# no pointer.
has_registered <- function(classes) length(the$travel) > 0L && any(classes %in% names(the$travel))

# The recipe for an object, or NULL. `registered`: of registered_recipes().
recipe_of <- function(x, registered) {
  if (!is.object(x)) return(NULL)
  for (class in if (isS4(x)) methods::is(x) else class(x)) {
    recipe <- registered[[class]]
    if (is.null(recipe)) recipe <- own_recipe(class, x)
    if (!is.null(recipe)) return(recipe)
  }
}

own_recipe <- function(class, x) {
  recipe <- own_recipes[[class]]
  if (is.null(recipe)) return(NULL)
  if (!is.null(recipe$also) && !inherits(x, recipe$also)) return(NULL)
  recipe$class <- class
  is_there <- function(p) isNamespaceLoaded(p) || length(find.package(p, quiet = TRUE)) > 0L
  if (all(vapply(recipe$package, is_there, NA))) recipe
}

# A recipe returns this of an object that may travel as it is.
as_it_is <- structure(list(), class = "clutch_as_it_is")

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
  s$libraries <- list() # files of compiled code, by path
  s
}

# The object as it travels: itself, or what unpack() takes.
pack <- function(x, registered, paths = NULL) {
  s <- packing(registered, paths)
  y <- with_gaps(x, s)
  if (!length(s$made)) return(x)
  bytes <- serialize(list(y, s$frames), NULL, xdr = FALSE, refhook = function(x) text_for(x, s))
  structure(list(bytes = bytes, made = s$made, beside = s$beside, libraries = s$libraries,
                 n = length(s$frames)),
            class = "clutch_packed")
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
  if (is_large(x)) return(beside(x, s))
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

is_large <- function(x) is.atomic(x) && length(x) >= BESIDE_FROM && is.null(attributes(x))

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
    part <- .subset2(out, k)
    if (needs_no_gap(part, s)) next
    now <- s$changes
    part <- with_gaps(part, s)
    if (s$changes > now) out[k] <- list(part)
  }
  if (s$changes == before) return(x)
  attributes(out) <- attributes(x)
  out
}

code_with_gaps <- function(x, s) {
  before <- s$changes
  parts <- parts_with_gaps(as.list(x), s)
  if (s$changes == before) return(x)
  out <- if (is.call(x)) as.call(parts) else as.pairlist(parts)
  attributes(out) <- attributes(x)
  out
}

closure_with_gaps <- function(x, s) {
  frame_with_gaps(environment(x), s)
  now <- s$changes
  code <- with_gaps(body(x), s)
  if (s$changes == now) return(x)
  kept <- attributes(x)
  body(x) <- code
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

# An environment is one object with all who refer to it: so its contents are written apart.
frame_with_gaps <- function(env, s) {
  address <- .Call(ffi_address, env)
  if (stays_here(env) || !is.null(s$seen[[address]])) return(invisible())
  s$seen[[address]] <- TRUE
  now <- s$changes
  values <- .Call(ffi_known_values, env)
  values <- parts_with_gaps(values, s)
  changed <- s$changes > now
  frame_with_gaps(parent.env(env), s)
  attributes_with_gaps(env, s)
  if (!changed) return(invisible())
  number <- length(s$frames) + 1L
  s$frames[[number]] <- frame_contents(env, values)
  remember_text(env, paste0("e", number), s)
}

# What of an environment is written: `values` with gaps, and what these leave out.
frame_contents <- function(env, values) {
  names <- ls(env, all.names = TRUE, sorted = FALSE)
  active <- names[vapply(names, bindingIsActive, NA, env)]
  for (name in setdiff(names, c(active, names(values), "..."))) {
    value <- tryCatch(list(get(name, env, inherits = FALSE)), error = function(e) NULL)
    if (length(value) && !identical(value[[1L]], quote(expr = ))) values[name] <- value
  }
  dots <- new.env(parent = emptyenv())
  .Call(ffi_copy_dots, env, dots)
  list(values = values, dots = dots,
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
  parent.env(env) <- contents$parent
  for (name in names(contents$active)) makeActiveBinding(name, contents$active[[name]], env)
  attributes(env) <- contents$attributes
  for (name in contents$locked) lockBinding(name, env)
  if (contents$is_locked) lockEnvironment(env)
}

# A value that has come to the session. What cannot be made again here is an error in its place.
unpack_result <- function(packed) {
  tryCatch(unpack(packed), error = function(e) {
    warning(warningCondition(paste("of a result", conditionMessage(e)), class = "clutch_pointer"))
    e
  })
}

# ---- a job ----

# What travels of a job that may have pointers: list(elements, travel): elements, those packed that
# have to be; the part of the description that node_unpack_job() takes. `pointers`: what a pointer
# means for which there is no recipe.
on_their_way <- function(fun, elements, more, globals, pointers) {
  registered <- registered_recipes()
  visited <- visited_new(registered)
  if (pointers != "allow") {
    tell_pointer(pointer_of_job(fun, elements, more, globals, visited), pointers)
  }
  parts <- list(fun = fun, more = more, globals = globals)
  packed <- pack(parts, registered, visited$paths)
  is_packed <- inherits(packed, "clutch_packed")
  travel <- list(packed = if (is_packed) packed, pointers = pointers,
                 recipes = if (length(registered)) registered)
  list(elements = elements_on_way(elements, registered, visited), travel = travel)
}

elements_on_way <- function(elements, registered, visited) {
  if (!is.list(elements)) return(elements)
  for (k in seq_along(elements)) {
    if (.Call(ffi_only_data, .subset2(elements, k), visited$classes, Inf)) next
    packed <- pack(.subset2(elements, k), registered, visited$paths)
    if (inherits(packed, "clutch_packed")) elements[[k]] <- packed
  }
  elements
}

# The first of all that travels.
pointer_of_job <- function(fun, elements, more, globals, visited) {
  found <- pointer_in(fun, ".f", visited)
  if (is.null(found)) found <- pointer_in_list(globals, visited, names(globals))
  names <- c(names(more), rep("", length(more)))[seq_along(more)]
  numbered <- sprintf(".more[[%d]]", seq_along(more))
  if (is.null(found)) found <- pointer_in_list(more, visited, ifelse(nzchar(names), names, numbered))
  if (is.null(found) && is.list(elements)) found <- pointer_in_list(elements, visited)
  found
}

# `names`: NULL: of elements.
pointer_in_list <- function(x, visited, names = NULL) {
  for (k in seq_along(x)) {
    part <- .subset2(x, k)
    if (.Call(ffi_only_data, part, visited$classes, Inf)) next
    name <- if (is.null(names)) sprintf(".x[[%d]]", k) else names[[k]]
    found <- pointer_in(part, name, visited)
    if (!is.null(found)) return(found)
  }
}
