# Objects that a job needs and that are of use in this process only are packed, or refused: see
# R/code-pack.R, R/code-session-only.R.

# The value is list(elements, travel) for a job that may have pointers: elements, those packed that
# have to be; the part of the description that node_unpack_job() takes. `pointers`: what a pointer
# means for which there is no recipe.
on_their_way <- function(fun, elements, more, globals, pointers) {
  checked <- check_pointers(fun, elements, more, globals, pointers)
  registered <- checked$registered
  paths <- checked$visited$paths
  travel <- list(packed = NULL, pointers = pointers,
                 recipes = if (length(registered)) registered,
                 variables = variables_of_recipes(registered))
  if (checked$has_to_pack) {
    packed <- pack(list(fun = fun, more = more, globals = globals), registered, paths)
    if (inherits(packed, "clutch_packed")) travel$packed <- packed
    elements <- elements_on_way(elements, registered, checked$visited)
  }
  is_default <- pointers == "error" && is.null(travel$packed) && is.null(travel$recipes)
  list(elements = elements, travel = if (!is_default) travel)
}

# An error, or a warning, where something cannot travel, see tell_pointer(). The value is
# list(registered, visited, has_to_pack): the recipes that users and packages have registered; what
# pack() needs of the search; FALSE: nothing is to be packed.
check_pointers <- function(fun, elements, more, globals, pointers) {
  registered <- registered_recipes()
  visited <- visited_new(registered)
  found <- pointer_of_job(fun, elements, more, globals, visited)
  if (pointers != "allow") tell_pointer(found, pointers)
  list(registered = registered, visited = visited, has_to_pack = needs_packing(found, visited))
}

variables_of_recipes <- function(registered) {
  if (!length(registered)) return(NULL)
  found <- search_all(.Call(ffi_globals_new), functions_of_recipes(registered))
  values_of(found$globals)
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
  names <- ifelse(nzchar(names), names, numbered)
  if (is.null(found)) found <- pointer_in_list(more, visited, names)
  if (is.null(found) && is.list(elements)) found <- pointer_in_list(elements, visited)
  found
}

# `names`: NULL: of elements.
pointer_in_list <- function(x, visited, names = NULL) {
  for (k in seq_along(x)) {
    if (.Call(ffi_only_data, .subset(x, k), visited$classes, Inf)) next # an argument may be missing
    name <- if (is.null(names)) sprintf(".x[[%d]]", k) else names[[k]]
    found <- pointer_in(.subset2(x, k), name, visited)
    if (!is.null(found)) return(found)
  }
}
